"""Piecewise cubics on even cells: the only form in which the compiled loops see an activation.

`Pieces` hold the functions of a basis; `interpolated` makes them from any smooth functions, with as few cells as a
tolerance needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rflaf.errors import Array, InvalidParameterError

MOST_CELLS = 2**14
_LARGEST_ERROR = 1e-6
_NODES = np.array([-0.5, -0.5 / 5**0.5, 0.5 / 5**0.5, 0.5])  # of a cell, ends included, so that neighbours meet
_TO_CUBIC = np.linalg.inv(_NODES[:, None] ** np.arange(4))  # values at the nodes -> coefficients in powers of t
_CHECKED = np.linspace(-0.5, 0.5, 9)  # points of a cell where the error is measured


@dataclass(frozen=True, slots=True)
class Pieces:
    """Basis functions as cubics on even cells.

    In cell k, with t = (z - low) / step - k - 1/2 in [-1/2, 1/2],
    B_i(z) = sum_p coefficients[k, i, p] t^p; z is clipped to the cells first.

    Attributes
    ----------
    low, step : left end of the first cell and length of every cell
    coefficients : (n_cells, n_basis, 4)
    """

    low: float
    step: float
    coefficients: Array

    @property
    def n_cells(self) -> int:
        return int(self.coefficients.shape[0])

    def alive(self) -> tuple[Array, Array]:
        """Return the first, and one past the last, nonzero basis function per cell, shapes (n_cells,)."""
        alive = np.any(self.coefficients != 0, axis=2)
        last = alive.shape[1] - np.argmax(alive[:, ::-1], axis=1)
        return np.argmax(alive, axis=1), last

    def local(self) -> Array | None:
        """Return the cubics of functions k to k + 3 in cell k, (n_cells, 4, 4), or None if others are nonzero too.

        >>> from rflaf.functions.bases import BSplineBasis
        >>> BSplineBasis(6).pieces().local().shape
        (3, 4, 4)
        """
        (first, last), cells = self.alive(), np.arange(self.n_cells)
        if np.any(first < cells) or np.any(last > cells + 4):
            return None
        padding = max(0, self.n_cells + 3 - self.coefficients.shape[1])
        padded = np.pad(self.coefficients, ((0, 0), (0, padding), (0, 0)))
        return np.take_along_axis(padded, (cells[:, None] + np.arange(4))[:, :, None], axis=1)

    def table(self, a: Array) -> Array:
        """Return the table of cubics (n_tables, n_cells, 4) of activations ``a`` (n_tables, n_basis)."""
        n_cells, n_basis, _ = self.coefficients.shape
        by_basis = self.coefficients.transpose(1, 0, 2).reshape(n_basis, n_cells * 4)
        return (np.atleast_2d(a) @ by_basis).reshape(-1, n_cells, 4)

    def table_transposed(self, moments: Array) -> Array:
        """Apply the transpose of `table`: return the gradient in ``a`` (n_tables, n_basis) of one in the table."""
        return np.tensordot(moments, self.coefficients, axes=([1, 2], [0, 2]))

    def cell_coordinate(self, z: ArrayLike) -> Array:
        """Return the coordinate whose cells are centred on 0, 1, ..., n_cells - 1."""
        return (np.asarray(z, dtype=float) - self.low) / self.step - 0.5

    def locate(self, z: ArrayLike) -> tuple[Array, Array]:
        """Return the cell k of every z clipped to the cells, and t."""
        u = np.clip(self.cell_coordinate(z), -0.5, self.n_cells - 0.5)
        k = np.minimum(np.floor(u + 0.5), self.n_cells - 1).astype(np.intp)
        return k, u - k

    def values(self, z: ArrayLike) -> Array:
        """Return B_i(z), shape ``z.shape + (n_basis,)``."""
        k, t = self.locate(z)
        return np.einsum("...ip,...p->...i", self.coefficients[k], t[..., None] ** np.arange(4))

    def slopes(self, z: ArrayLike) -> Array:
        """Return B_i'(z), shape ``z.shape + (n_basis,)``; zero outside the cells and at their outer ends."""
        z = np.asarray(z, dtype=float)
        k, t = self.locate(z)
        powers = np.arange(1, 4) * t[..., None] ** np.arange(3)
        slopes = np.einsum("...ip,...p->...i", self.coefficients[k][..., 1:], powers) / self.step
        return slopes * ((z > self.low) & (z < self.low + self.step * self.n_cells))[..., None]


def interpolated(
    functions: Callable[[Array], Array], interval: tuple[float, float], tolerance: float, what: str
) -> Pieces:
    """Return the cubics that meet ``functions`` at four points of every cell, both ends included.

    ``functions`` map (n,) to (n, n_basis). Cells are halved until the error, measured at nine points of every cell, is
    at most ``tolerance`` times the largest value of a function, or ``tolerance`` where that is larger, or until there
    are 2^14 cells. If these leave an error above 1e-6, the functions are refused.
    """
    n_cells = 2
    while True:
        pieces, error = _on_cells(functions, interval, n_cells)
        if error <= tolerance or n_cells == MOST_CELLS:
            break
        halvings = max(1, int(np.log2(error / tolerance) / 4))  # every one divides the error of smooth functions by 16
        n_cells = min(n_cells * 2**halvings, MOST_CELLS)
    if error > max(tolerance, _LARGEST_ERROR):
        raise InvalidParameterError(
            f"{MOST_CELLS} even cells over the interval must give {what} to {_LARGEST_ERROR:g}: kinks at their ends "
            "only, no jumps",
            interval,
            "Pass a shorter interval, or one whose halves meet at the kink.",
        )
    return pieces


def hermite(values: Array, slopes: Array, nodes: Array) -> Array:
    """Return cubics about the middle of each cell that match values and slopes at its ends, (n_cells, n_basis, 4)."""
    step = nodes[1] - nodes[0]
    left, right = values[:-1], values[1:]
    left_slope, right_slope = slopes[:-1] * step, slopes[1:] * step
    rise = right - left
    return np.stack(
        [
            (left + right) / 2 + (left_slope - right_slope) / 8,
            1.5 * rise - (left_slope + right_slope) / 4,
            (right_slope - left_slope) / 2,
            (left_slope + right_slope) - 2 * rise,
        ],
        axis=-1,
    )


def check_grid(interval: tuple[float, float], n_basis: int, minimum: int, what: str) -> None:
    """Refuse an interval without length, and fewer than ``minimum`` functions."""
    check_interval(interval, "The default is (-3.0, 3.0).")
    if not isinstance(n_basis, int | np.integer) or n_basis < minimum:
        raise InvalidParameterError(
            f"n_basis must be a whole number, at least {minimum} for {what}", n_basis, "The default is 16."
        )


def check_interval(interval: tuple[float, float], remedy: str) -> None:
    """Refuse an interval without length."""
    low, high = interval
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InvalidParameterError("interval must be (low, high) with low < high, both finite", interval, remedy)


def _on_cells(functions: Callable[[Array], Array], interval: tuple[float, float], n_cells: int) -> tuple[Pieces, float]:
    """Return pieces on that many cells, and their largest error against min(1, sup) of its function."""
    low, high = map(float, interval)
    step = (high - low) / n_cells
    by_cell = functions(_points(low, step, n_cells, _NODES)).reshape(n_cells, _NODES.size, -1)
    pieces = Pieces(low, step, np.einsum("pn,kni->kip", _TO_CUBIC, by_cell))
    exact = functions(_points(low, step, n_cells, _CHECKED)).reshape(n_cells, _CHECKED.size, -1)
    powers = _CHECKED[:, None] ** np.arange(4)
    error = np.abs(np.einsum("kip,tp->kti", pieces.coefficients, powers) - exact).max(axis=(0, 1))
    size = np.minimum(np.abs(exact).max(axis=(0, 1)), 1.0)
    return pieces, float(np.max(np.divide(error, size, out=np.zeros_like(error), where=size > 0)))


def _points(low: float, step: float, n_cells: int, t: Array) -> Array:
    """Return the points ``t`` of every cell, (n_cells * t.size,)."""
    return (low + step * (np.arange(n_cells)[:, None] + 0.5 + t)).ravel()
