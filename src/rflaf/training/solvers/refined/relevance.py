"""How much every column matters, from few rows: the length scales of a Gaussian process.

    y ~ N(0, K),    K_ij = s^2 exp( - 1/2 sum_c r_c^2 (x_ic - x_jc)^2 ) + t^2 / w_i  at i = j

The r_c that maximise the marginal likelihood tell the columns that matter from the others with far fewer rows than
training by gradients does. A refined model that starts from columns scaled by r_c spends its penalty on the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # its parts are imported on first use

from rflaf.errors import Array
from rflaf.functions._kernels.cholesky import factor_in_place, solve_in_place

_MOST_STEPS = 40
_FIRST_NOISE = 0.1
_JITTER = 1e-8
_FIRST_POWERS = (-0.5, -1.0)  # of the number of columns: the rates to begin with
_RATES, _SIGNAL, _NOISE = (1e-3, 1e2), (1e-2, 1e2), (1e-6, 1e1)
_LEAST = 0.03  # of the most relevant column: what is below is left out


def relevances(x: Array, y: Array, weight: Array) -> Array:
    """Return the relevance of every column (d,), one for the most relevant, zero for those that do not matter.

    ``x`` (n, d) and ``y`` (n, O) have mean zero and unit spread, ``weight`` (n,) mean one.
    """
    x, y = x.astype(np.float64), y.astype(np.float64)
    n_columns = x.shape[1]
    # A descent may end where a column that matters is left out: the better of two, from rougher and smoother functions.
    found = min((_descend(x, y, weight, n_columns**power) for power in _FIRST_POWERS), key=lambda end: end.fun)
    rates = np.exp(found.x[:n_columns])
    shares = rates / rates.max()
    return np.where(shares < _LEAST, 0.0, shares)


def _descend(x: Array, y: Array, weight: Array, rate: float) -> Any:
    """Return the end of a descent from equal rates of all columns."""
    start = np.log([*[rate] * x.shape[1], 1.0, _FIRST_NOISE])
    bounds = np.log([*[_RATES] * x.shape[1], _SIGNAL, _NOISE])
    return scipy.optimize.minimize(
        Likelihood(x, y, weight).negative,
        start,
        method="L-BFGS-B",
        jac=True,
        bounds=bounds,
        options={"maxiter": _MOST_STEPS},
    )


class Likelihood:
    """The marginal likelihood of targets ``y`` (n, O) at rows ``x`` (n, d) of ``weight`` (n,), in memory of its own.

    With few rows most of the time would go into new memory for every step of a descent.
    """

    def __init__(self, x: Array, y: Array, weight: Array) -> None:
        self.x, self.y, self.weight = x, y, weight
        shape = (y.shape[0], y.shape[0])
        self._smooth, self._product = np.empty(shape), np.empty(shape)
        self._K, self._inverse = np.empty(shape, order="F"), np.empty(shape, order="F")  # as LAPACK has them

    def negative(self, logs: Array) -> tuple[float, Array]:
        """Return minus the log marginal likelihood per row and output, but for a constant, and its derivatives.

        ``logs`` (d + 2,) are the logarithms of r, s^2 and t^2.
        """
        y, smooth, product, K, inverse = self.y, self._smooth, self._product, self._K, self._inverse
        n_rows, n_outputs = y.shape
        rates, signal, noise = np.exp(logs[:-2]), float(np.exp(logs[-2])), np.exp(logs[-1]) / self.weight
        scaled = self.x * rates
        by_column = scaled**2
        squares = by_column.sum(axis=1)
        np.add.outer(squares, squares, out=smooth)
        smooth -= np.matmul(2 * scaled, scaled.T, out=product)
        np.maximum(smooth, 0.0, out=smooth)
        smooth *= -0.5
        np.exp(smooth, out=smooth)
        smooth *= signal
        K[...] = smooth
        K[np.diag_indices(n_rows)] += noise + _JITTER
        if not factor_in_place(K):
            return np.inf, np.zeros(logs.size)
        inverse[...] = 0
        np.fill_diagonal(inverse, 1)
        solve_in_place(K, inverse)
        solved = inverse @ y
        value = 0.5 * float(np.sum(y * solved)) + n_outputs * float(np.log(np.diag(K)).sum())
        slope = np.multiply(inverse, n_outputs, out=product)  # of the value in K
        slope -= solved @ solved.T
        slope *= 0.5
        by_noise = float(np.diag(slope) @ noise)
        B = np.multiply(slope, smooth, out=slope)
        by_rate = 2 * np.einsum("ic,ic->c", scaled, B @ scaled) - 2 * B.sum(axis=1) @ by_column
        size = n_rows * n_outputs
        return value / size, np.concatenate([by_rate, [B.sum(), by_noise]]) / size
