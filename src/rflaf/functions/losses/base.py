"""The base class of all losses, and the units in which a problem is solved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from rflaf.errors import Array, InvalidParameterError

_STEP = 1e-5  # of differences, times one and the size of f
_FARTHEST, _HALVINGS = 1e150, 60
LEAST_SHARE = 1e-6  # the share of a rarer class, or a smaller mean count, in `Loss.constant`


@dataclass(frozen=True, slots=True)
class Units:
    """Scaling of a problem, each (n_outputs,): solved for (y - centre) / scale, then f = shift + stretch (f scaled)."""

    centre: Array
    scale: Array
    shift: Array
    stretch: Array


def same_units(n_outputs: int) -> Units:
    """Return units that leave the problem unscaled."""
    zero, one = np.zeros(n_outputs), np.ones(n_outputs)
    return Units(zero, one, zero, one)


def _zero_of(slope: Callable[[float], float]) -> float:
    """Return where a rising function changes its sign, as far as it does within the numbers."""
    low, high, reach = -1.0, 1.0, 1.0
    while slope(low) > 0 and reach < _FARTHEST:
        reach, low, high = 2 * reach, low - 2 * reach, low
    while slope(high) < 0 and reach < _FARTHEST:
        reach, low, high = 2 * reach, high, high + 2 * reach
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    return (low + high) / 2


class Loss:
    """Convex loss. Subclasses define `value` and `slope`, and override the rest as needed.

    Attributes
    ----------
    curvature_bound : least upper bound of the second derivatives in any direction, infinite if there is none
    curved_everywhere : whether the curvature is positive, so that Newton's method applies
    straight : whether the loss has straight pieces, on which a line search converges slowly
    lipschitz : least L with |loss(f, y) - loss(g, y)| <= L |f - g| for a row of one output, or of one softmax; infinite
        if there is none. Assumption 3.5 of the paper has L = 1; the loss over L meets it
    closed_form : whether sums over the rows determine the solution, as for the squared loss
    symmetric : whether errors on either side of the answer are alike, so that intervals reach as far on both sides
    least : least target that there can be
    offset_weighs : whether an offset moves into the weights too, as the logarithm of an exposure does
    name : for messages and logs
    """

    curvature_bound: ClassVar[float] = float("inf")
    curved_everywhere: ClassVar[bool] = False
    straight: ClassVar[bool] = False
    lipschitz: ClassVar[float] = float("inf")
    closed_form: ClassVar[bool] = False
    symmetric: ClassVar[bool] = True
    least: ClassVar[float] = float("-inf")
    offset_weighs: ClassVar[bool] = False
    name: ClassVar[str] = "a loss of its own"

    def value(self, f: Array, y: Array) -> Array:
        """Return the loss of every row, (n_rows,), for ``f`` and ``y`` (n_rows, n_outputs)."""
        raise NotImplementedError(f"{type(self).__name__} must define value(f, y), the loss of every row")

    def slope(self, f: Array, y: Array) -> Array:
        """Return the derivatives in f, (n_rows, n_outputs)."""
        raise NotImplementedError(f"{type(self).__name__} must define slope(f, y), the derivatives in f")

    def value_and_slope(self, f: Array, y: Array) -> tuple[Array, Array]:
        """Return `value` and `slope`, in one go where they share work."""
        return self.value(f, y), self.slope(f, y)

    def curvature(self, f: Array, y: Array) -> Array:
        """Return the second derivatives in every output, (n_rows, n_outputs): the diagonal of the Hessian of a row.

        By differences of `slope` unless a loss knows better.
        """
        found = np.empty(f.shape)
        for output in range(f.shape[1]):
            step = np.zeros(f.shape)
            step[:, output] = _STEP * (1 + np.abs(f[:, output]))
            rise = self.slope(f + step, y)[:, output] - self.slope(f - step, y)[:, output]
            found[:, output] = np.maximum(rise / (2 * step[:, output]), 0)
        return found

    def constant(self, y: Array, weight: Array) -> Array:
        """Return the approximately best constant answer (n_outputs,) for ``y`` (n_rows, n_outputs).

        By halving where the mean slope of every output changes its sign, unless a loss knows better.
        """
        f = np.zeros(y.shape[1])
        for output in range(f.size):
            f[output] = _zero_of(partial(self._mean_slope, f, output, y, weight))
        return f

    def _mean_slope(self, f: Array, output: int, y: Array, weight: Array, value: float) -> float:
        """Return the mean slope in an output where all rows have the answer ``f`` but ``value`` in that output."""
        answers = np.tile(f, (len(y), 1))
        answers[:, output] = value
        return float(weight @ self.slope(answers, y)[:, output])

    def mean(self, f: Array) -> Array:
        """Return the expected y for ``f`` (n_rows, n_outputs): the inverse of the link."""
        return f

    def middle(self, f: Array) -> Array:
        """Return the one answer per target that errors are measured from, (n_rows, n_targets)."""
        return self.mean(f)

    def targets(self, y: Array) -> Array:
        """Return the targets (n_rows, n_outputs) that ``f`` is compared with, for ``y`` (n_rows, n_targets)."""
        return y

    @property
    def n_levels(self) -> int:
        """The number of answers per target."""
        return 1

    def without_offset(self, y: Array, offset: Array, weight: Array) -> tuple[Array, Array]:
        """Return targets and weights whose loss at f is that of ``y`` at f + ``offset``, up to a term without f."""
        raise InvalidParameterError("an offset needs a loss of residuals or of logarithms", self, "Leave it out.")

    def with_offset(self, mean: Array, offset: Array) -> Array:
        """Return the mean at f + ``offset``, given that at f, both (n_rows, n_outputs)."""
        return mean + offset

    def error_size(self, offset: Array) -> Array:
        """Return how large errors of the targets of `without_offset` are at an offset, over those at none."""
        return np.ones_like(offset)

    def deviation_with_offset(self, deviation: Array, offset: Array) -> Array:
        """Return the deviation of a target at f + ``offset``, given that of the target of `without_offset` at none."""
        return deviation

    def check(self, y: Array) -> None:
        """Refuse targets outside the domain of the loss."""

    def check_more(self, y: Array) -> None:
        """Refuse targets of later rows, which need not suffice for a fit of their own."""
        self.check(y)

    def check_range(self, low: Array, high: Array) -> None:
        """Refuse targets by their lowest and highest values (n_outputs,), if the rows are elsewhere."""

    def units(self, mean: Array, spread: Array, intercept: bool) -> Units:
        """Return the units for targets of that mean and standard deviation (n_outputs,); by default unscaled."""
        return same_units(mean.size)

    def scaled(self, scale: float) -> Loss:
        """Return the loss for targets divided by ``scale``."""
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

    def kernel(self) -> tuple[int, float | tuple[float, ...], float] | None:
        """Return the index and two parameters of the loss in the compiled loops, or None if it is not compiled.

        The first parameter may differ between outputs.
        """
        return None
