"""The base class of all losses, and the units in which a problem is solved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rflaf.errors import Array

LEAST_SHARE = 1e-6  # the share of a rarer class, or a smaller mean count, in `Loss.constant`


@dataclass(frozen=True, slots=True)
class Units:
    """How a problem is scaled: targets are (y - centre) / scale inside, and f = shift + stretch (f inside).

    All (n_outputs,).
    """

    centre: Array
    scale: Array
    shift: Array
    stretch: Array


def same_units(n_outputs: int) -> Units:
    """Those of the targets."""
    zero, one = np.zeros(n_outputs), np.ones(n_outputs)
    return Units(zero, one, zero, one)


class Loss:
    """A convex loss. Subclasses give `value`, `slope`, `curvature`, `constant`, and the rest where it differs.

    Attributes
    ----------
    curvature_bound : the least c that no second derivative in any direction exceeds, infinite where there is none
    curved_everywhere : whether the curvature is above zero, so that Newton's method may be used
    straight : whether it has straight pieces, on which a search settles late
    closed_form : whether sums over the rows determine the solution, as for the squared loss
    name : in words, for messages and logs
    """

    curvature_bound: ClassVar[float] = float("inf")
    curved_everywhere: ClassVar[bool] = False
    straight: ClassVar[bool] = False
    closed_form: ClassVar[bool] = False
    name: ClassVar[str] = "a loss of its own"

    def value(self, f: Array, y: Array) -> Array:
        """Loss of every row, (n_rows,), for ``f`` and ``y`` (n_rows, n_outputs)."""
        raise NotImplementedError

    def slope(self, f: Array, y: Array) -> Array:
        """Derivatives of the values in f, (n_rows, n_outputs)."""
        raise NotImplementedError

    def curvature(self, f: Array, y: Array) -> Array:
        """Second derivatives in every output, (n_rows, n_outputs): the diagonal of the Hessian of a row."""
        raise NotImplementedError

    def constant(self, y: Array, weight: Array) -> Array:
        """The best answer that ignores the row, (n_outputs,), for ``y`` (n_rows, n_outputs); roughly is enough."""
        raise NotImplementedError

    def mean(self, f: Array) -> Array:
        """What the model expects of y, for ``f`` (n_rows, n_outputs): the inverse of the link."""
        return f

    def check(self, y: Array) -> None:
        """Refuse targets the loss is not made for."""

    def check_more(self, y: Array) -> None:
        """Refuse targets of rows that come later; they need not be enough for a fit of their own."""
        self.check(y)

    def check_range(self, low: Array, high: Array) -> None:
        """Refuse targets whose lowest and highest values (n_outputs,) are enough to tell, where rows are elsewhere."""

    def units(self, mean: Array, spread: Array, intercept: bool) -> Units:
        """How to scale a problem whose targets have that mean and standard deviation (n_outputs,): not at all."""
        return same_units(mean.size)

    def scaled(self, scale: float) -> Loss:
        """The same loss for targets divided by ``scale``."""
        return self

    @property
    def reach(self) -> float:
        """The residual beyond which the slope no longer grows; infinite unless the loss defines one."""
        return float("inf")

    @property
    def needs_spread(self) -> bool:
        """Whether a parameter is to be found from the residuals of a first fit, see `for_spread`."""
        return False

    def for_spread(self, spread: float) -> Loss:
        """Return the loss for residuals of standard deviation ``spread``."""
        return self

    def kernel(self) -> tuple[int, float, float] | None:
        """Its number in the compiled loops and two parameters there; None for a loss they do not know."""
        return None
