"""Normal equations of a ridge on features, as a monoid over rows.

    minimise over v, b    1/n sum_i w_i |y_i - b - z_i . v|^2  +  ridge |v|^2,        n = sum_i w_i

Rows contribute one symmetric matrix, the moments of [z | 1 | y]; moments add, so any partition of the rows gives the
same equations. `rflaf.model.ridge` solves them, without the rows, for any ridge.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import scipy  # its parts are imported on first use

from rflaf.errors import Array
from rflaf.rows.packed import FIXED

from .ridge import RidgeSystem


@dataclass  # without slots, which skops cannot store
class NormalEquations:
    """Moments of rows [z | 1 | y].

    Attributes
    ----------
    moments : (n_components + 1 + n_outputs,) squared, float64, symmetric
    n_outputs : trailing columns that are targets
    n_rows : rows with a positive weight; fading rows count for less
    whole_weights : every weight was a whole number, so that weights are counts of repeated rows
    precision : relative rounding of the products that were summed
    """

    moments: Array
    n_outputs: int = field(metadata=FIXED)
    n_rows: float
    whole_weights: bool = True
    precision: float = float(np.finfo(np.float64).eps)

    @classmethod
    def from_design(cls, design: Array, n_outputs: int, weight: Array | None = None) -> Self:
        """From component-major rows of sqrt(w) [z | 1 | y], shape (n_components + 1 + n_outputs, n_rows)."""
        n_rows = design.shape[1] if weight is None else int(np.count_nonzero(weight))
        whole = weight is None or bool(np.all(weight == np.floor(weight)))
        moments = (design @ design.T).astype(np.float64, copy=False)
        return cls(moments, n_outputs, n_rows, whole, float(np.finfo(design.dtype).eps))

    def __add__(self, other: NormalEquations) -> NormalEquations:
        total = replace(self, moments=self.moments.copy())
        total += other
        return total

    def __iadd__(self, other: NormalEquations) -> Self:
        self.moments += other.moments
        self.n_rows += other.n_rows
        self.whole_weights = self.whole_weights and other.whole_weights
        self.precision = max(self.precision, other.precision)
        return self

    def __sub__(self, other: NormalEquations) -> NormalEquations:
        """Return the equations without some of their rows."""
        return replace(self, moments=self.moments - other.moments, n_rows=self.n_rows - other.n_rows)

    @property
    def n_components(self) -> int:
        return int(self.moments.shape[0]) - 1 - self.n_outputs

    @property
    def weight(self) -> float:
        """Sum of the weights."""
        return float(self.moments[self.n_components, self.n_components])

    @property
    def mean_square(self) -> float:
        """Mean square of a feature over rows and components."""
        diagonal = np.diagonal(self.moments)[: self.n_components]
        return float(diagonal.mean() / self.weight)

    def errors(self, v: Array, intercept: Array) -> Array:
        """Mean of (y - b - z.v)^2 by output, for ``v`` (n_components, n_outputs) and ``intercept`` (n_outputs,)."""
        u = np.vstack([-v, -intercept[None], np.eye(self.n_outputs)])
        return np.maximum(np.einsum("io,io->o", u, self.moments @ u) / self.weight, 0.0)

    def take(self, components: Array) -> NormalEquations:
        """Return the equations of some of the components, in the order given."""
        tail = np.arange(self.n_components, self.moments.shape[0])
        kept = np.concatenate([components, tail])
        return replace(self, moments=self.moments[np.ix_(kept, kept)])

    def scale(self, importance: Array) -> NormalEquations:
        """Return the equations after feature m is multiplied by importance[m]."""
        if np.all(importance == 1):
            return self
        factor = np.concatenate([importance, np.ones(1 + self.n_outputs)])
        return replace(self, moments=self.moments * factor * factor[:, None])

    def faded(self, factor: float) -> NormalEquations:
        """Return the equations of rows whose weights are multiplied by ``factor``."""
        return replace(self, moments=factor * self.moments, n_rows=factor * self.n_rows)

    def answered_by(self, v: Array, ridge: float, intercept: bool = True) -> NormalEquations:
        """Return the equations of targets moved so that ``v`` (n_components, n_outputs) solves them at this ridge.

        Products of features stay, and so do the means and the residuals that ``v`` leaves.
        """
        m = self.n_components
        system = self.system(intercept)
        u = np.vstack([-v, -(system.y_mean - system.z_mean @ v)[None], np.eye(self.n_outputs)])
        residual = u.T @ self.moments @ u / self.weight
        moved = system.G @ v + ridge * v
        moments = self.moments.copy()
        moments[:m, m + 1 :] = self.weight * (moved + system.z_mean[:, None] * system.y_mean)
        moments[m + 1 :, :m] = moments[:m, m + 1 :].T
        squares = residual + v.T @ moved + ridge * v.T @ v + system.y_mean * system.y_mean[:, None]
        moments[m + 1 :, m + 1 :] = self.weight * squares
        return replace(self, moments=moments)

    def system(self, intercept: bool = True) -> RidgeSystem:
        """Return the equations per observation, centred if an intercept is fitted."""
        m, average = self.n_components, self.moments / self.weight
        mean = average[m].copy() if intercept else np.zeros(average.shape[0])
        z_mean, y_mean = mean[:m], mean[m + 1 :]
        if intercept:
            average = scipy.linalg.blas.dger(
                -1.0, mean, mean, a=average.T, overwrite_a=1
            ).T  # in place, if the order of rows allows
        y_square = np.maximum(np.diagonal(average)[m + 1 :], 0)
        return RidgeSystem(
            average[:m, :m],
            average[:m, m + 1 :],
            y_square,
            z_mean,
            y_mean,
            self.weight,
            self.whole_weights,
            self.n_rows,
            self.precision,
            int(intercept),
        )
