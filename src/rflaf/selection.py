"""Which components of a pool to keep: greedy forward selection by orthogonal least squares.

Every step adds the component that lowers the squared error most, all the weights being refitted:

    gain_j = |r_j|^2 / d_j,      r_j = z_j' (y - fit),    d_j = squared length of z_j off the span of those kept

A pivoted partial Cholesky factorisation of the pool's Gram matrix gives every r_j and d_j from those of the step
before, so the whole path costs O(pool_size S^2) and no pass over the rows. The path is nested: the first k
components are the selection of width k, and its generalised cross-validation error is known at every k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .normal_equations import NormalEquations

Array = NDArray[Any]
_LEAST_LENGTH = 1e-9  # of a component's own: what is shorter off the span is a repetition of those kept
_ROUNDINGS = 100.0  # of the precision of the sums: likewise


@dataclass(frozen=True, slots=True)
class Selection:
    """A nested path of components.

    Attributes
    ----------
    order : (n_kept,), indices into the pool, the first to be chosen first
    errors : (n_kept + 1,), mean squared residual, plus ridge |v|^2, at every width, zero components first
    gcv : (n_kept + 1,), generalised cross-validation at every width
    """

    order: Array
    errors: Array
    gcv: Array

    def best_width(self, tolerance: float = 0.0) -> int:
        """The smallest width, at least one, whose cross-validation is within ``tolerance`` of the lowest."""
        return max(1, int(np.argmax(self.gcv <= self.gcv.min() * (1 + tolerance))))


def select_greedily(
    equations: NormalEquations, n_components: int, ridge: float = 0.0, intercept: bool = True
) -> Selection:
    """At most ``n_components`` of the pool's components, fewer where the rest repeat those kept.

    >>> Z = np.array([[1.0, 0, 0, 0], [0, 2, 0, 0], [0, 0, 1, 0]])     # three orthogonal components, four rows
    >>> design = np.vstack([Z, np.ones(4), [3.0, 4.0, 2.0, 0.0]])      # [z | 1 | y]
    >>> select_greedily(NormalEquations.from_design(design, 1), 2, intercept=False).order
    array([1, 0])
    """
    system = equations.system(intercept)
    pool_size = system.G.shape[0]
    length = np.diagonal(system.G) + ridge
    least = max(_LEAST_LENGTH, _ROUNDINGS * system.precision) * (length + system.z_mean**2)
    left, residual = length.copy(), system.c.copy()
    factor = np.zeros((pool_size, min(n_components, pool_size)))
    order: list[int] = []
    errors = [float(system.y_square.sum())]
    for k in range(factor.shape[1]):
        usable = left > least
        usable[order] = False
        if not usable.any():
            break
        gain = np.where(usable, np.sum(residual**2, axis=1) / np.where(usable, left, 1.0), -1.0)
        j = int(np.argmax(gain))
        column = system.G[:, j] - factor[:, :k] @ factor[j, :k]
        column[j] += ridge
        column /= np.sqrt(left[j])
        factor[:, k] = column
        residual -= np.outer(column, residual[j] / np.sqrt(left[j]))
        left -= column**2
        order.append(j)
        errors.append(max(errors[-1] - float(gain[j]), 0.0))
    return Selection(np.array(order, dtype=np.intp), np.array(errors), _gcv(np.array(errors), system.count, intercept))


def _gcv(errors: Array, count: float, intercept: bool) -> Array:
    """Mean squared residual over (1 - parameters / n)^2; infinite where there are as many parameters as rows."""
    left = 1 - (np.arange(errors.size) + intercept) / count
    return np.divide(errors, left**2, out=np.full_like(errors, np.inf), where=left > 0)
