r"""Bases of the learned activation: sigma(z) = sum_i a_i B_i(z) on an even grid over a compact interval.

Section 2.2 of the paper. Two bases: Gaussian radial functions and B-splines of degree 1 to 3. Each gives its values,
slopes, behaviour outside its interval, a smoothness penalty, and its `Pieces`: the same functions as cubic polynomials
on even cells, the only form the compiled kernels use. The map from coefficients to a table of cubics is linear, so it
also carries gradients back to the coefficients.

| basis | outside the interval | error of the cubic pieces |
| --- | --- | --- |
| B-spline | constant, the value at the nearer end; slopes are zero | none but rounding |
| RBF | decays; constant, below 3e-11 sum \|a_i\|, from 7 widths on | 3 / 384 / r^4 sum \|a_i\|, r cells per width |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from rflaf.errors import Array, InvalidParameterError

_RBF_REACH = 7.0  # widths beyond the interval at which a Gaussian is cut: exp(-24.5) = 2.3e-11
_RBF_RESOLUTION = 32  # cells per width

# Row i: coefficients in powers of t, from the middle of the cell, of the i-th nonzero B-spline (uniform knots).
_BSPLINE_PIECES = {
    1: np.array([[1 / 2, -1, 0, 0], [1 / 2, 1, 0, 0]]),
    2: np.array([[1 / 8, -1 / 2, 1 / 2, 0], [3 / 4, 0, -1, 0], [1 / 8, 1 / 2, 1 / 2, 0]]),
    3: np.array(
        [
            [1 / 48, -1 / 8, 1 / 4, -1 / 6],
            [23 / 48, -5 / 8, -1 / 4, 1 / 2],
            [23 / 48, 5 / 8, -1 / 4, -1 / 2],
            [1 / 48, 1 / 8, 1 / 4, 1 / 6],
        ]
    ),
}


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


@runtime_checkable
class Basis(Protocol):
    """Interface of a basis; the docs page on extending shows how to add one."""

    @property
    def n_basis(self) -> int: ...

    @property
    def interval(self) -> tuple[float, float]: ...

    def values(self, z: ArrayLike) -> Array:
        """Return B_i(z), shape ``z.shape + (n_basis,)``."""

    def slopes(self, z: ArrayLike) -> Array:
        """Return B_i'(z), shape ``z.shape + (n_basis,)``."""

    def penalty(self) -> Array:
        """Return P, positive semi-definite (n_basis, n_basis): a' P a measures the roughness of sigma."""

    def pieces(self, a: Array | None = None, tolerance: float = 1e-6) -> Pieces:
        """Return cubic pieces; for given activations ``a``, with an error below ``tolerance`` of their sup norm."""


def second_difference_penalty(n_basis: int) -> Array:
    """Return D'D of second differences, which vanishes exactly for coefficients on a line."""
    differences = np.diff(np.eye(n_basis), 2, axis=0) if n_basis > 2 else np.zeros((0, n_basis))
    return differences.T @ differences


@dataclass(frozen=True, slots=True)
class BSplineBasis:
    """Uniform B-splines of degree 1, 2 or 3: non-negative, local, and they sum to one everywhere.

    ``n_basis - degree`` cells fill the interval. Outside, the argument is clipped to the interval.

    Parameters
    ----------
    n_basis : int, default=16
        Number N of functions, above ``degree``.
    degree : {1, 2, 3}, default=3
        Degree of the polynomials.
    interval : (float, float), default=(-3.0, 3.0)
        Ends of the grid.

    >>> basis = BSplineBasis(n_basis=6, degree=3, interval=(-1.0, 1.0))
    >>> basis.values([0.0, 5.0]).sum(axis=-1)
    array([1., 1.])
    """

    n_basis: int = 16
    degree: int = 3
    interval: tuple[float, float] = (-3.0, 3.0)

    def __post_init__(self) -> None:
        if self.degree not in _BSPLINE_PIECES:
            raise InvalidParameterError("the degree of a B-spline must be 1, 2 or 3", self.degree, "Use degree=3.")
        _check(self.interval, self.n_basis, self.degree + 1, f"B-splines of degree {self.degree}")

    @property
    def step(self) -> float:
        return (self.interval[1] - self.interval[0]) / (self.n_basis - self.degree)

    def values(self, z: ArrayLike) -> Array:
        pieces = self.pieces()
        k, t = _locate(pieces, z)
        return np.einsum("...ip,...p->...i", pieces.coefficients[k], t[..., None] ** np.arange(4))

    def slopes(self, z: ArrayLike) -> Array:
        z, pieces = np.asarray(z, dtype=float), self.pieces()
        k, t = _locate(pieces, z)
        powers = np.arange(1, 4) * t[..., None] ** np.arange(3)
        slopes = np.einsum("...ip,...p->...i", pieces.coefficients[k][..., 1:], powers) / pieces.step
        return slopes * ((z > self.interval[0]) & (z < self.interval[1]))[..., None]

    def penalty(self) -> Array:
        return second_difference_penalty(self.n_basis)

    def pieces(self, a: Array | None = None, tolerance: float = 1e-6) -> Pieces:
        n_cells = self.n_basis - self.degree
        coefficients = np.zeros((n_cells, self.n_basis, 4))
        for k in range(n_cells):
            coefficients[k, k : k + self.degree + 1] = _BSPLINE_PIECES[self.degree]
        return Pieces(self.interval[0], self.step, coefficients)


@dataclass(frozen=True, slots=True)
class RBFBasis:
    """Gaussians exp(-(z - c_i)^2 / 2 h^2) with centres evenly spaced over the interval, ends included.

    Parameters
    ----------
    n_basis : int, default=16
        Number N of functions, at least two.
    interval : (float, float), default=(-3.0, 3.0)
        First and last centre.
    width : float or None, default=None
        Width h. None is the spacing of the centres, as in the paper's experiments.

    >>> RBFBasis(n_basis=3, interval=(-1.0, 1.0)).values(0.0).round(4)
    array([0.6065, 1.    , 0.6065])
    """

    n_basis: int = 16
    interval: tuple[float, float] = (-3.0, 3.0)
    width: float | None = None

    def __post_init__(self) -> None:
        _check(self.interval, self.n_basis, 2, "a grid of Gaussians")
        length = self.interval[1] - self.interval[0]
        if self.width is not None and not (length / 1000 <= self.width < np.inf):
            raise InvalidParameterError(
                f"the width of a Gaussian must be finite and at least {length / 1000:g}, a thousandth of the interval",
                self.width,
                "Use width=None for the spacing of the centres.",
            )

    @property
    def centres(self) -> Array:
        return np.linspace(*self.interval, self.n_basis)

    @property
    def h(self) -> float:
        return self.width if self.width is not None else (self.interval[1] - self.interval[0]) / (self.n_basis - 1)

    def values(self, z: ArrayLike) -> Array:
        scaled = (np.asarray(z, dtype=float)[..., None] - self.centres) / self.h
        return np.exp(-0.5 * scaled**2)

    def slopes(self, z: ArrayLike) -> Array:
        scaled = (np.asarray(z, dtype=float)[..., None] - self.centres) / self.h
        return -scaled / self.h * np.exp(-0.5 * scaled**2)

    def penalty(self) -> Array:
        return second_difference_penalty(self.n_basis)

    def pieces(self, a: Array | None = None, tolerance: float = 1e-6) -> Pieces:
        resolution = _RBF_RESOLUTION if a is None else self.resolution(np.atleast_2d(a), tolerance)
        low, high = self.interval[0] - _RBF_REACH * self.h, self.interval[1] + _RBF_REACH * self.h
        n_cells = int(np.ceil((high - low) / self.h * resolution))
        nodes = np.linspace(low, high, n_cells + 1)
        return Pieces(low, (high - low) / n_cells, _hermite(self.values(nodes), self.slopes(nodes), nodes))

    def resolution(self, a: Array, tolerance: float = 1e-6) -> int:
        """Return cells per width such that the Hermite bound 3/384 r^-4 sum |a_i| is below tolerance * sup |sigma|.

        At most 512, which suffices unless Gaussians much wider than their spacing cancel.
        """
        grid = np.concatenate([self.centres, np.linspace(*self.interval, 8 * self.n_basis)])
        sup = np.abs(self.values(grid) @ a.T).max(axis=0)
        size = np.abs(a).sum(axis=1)
        ratio = float(np.max(size / np.maximum(sup, np.finfo(float).tiny), where=size > 0, initial=1.0))
        needed = (3 / 384 * ratio / tolerance) ** 0.25
        return int(min(max(2 ** np.ceil(np.log2(needed)), _RBF_RESOLUTION), 512))


def make_basis(name: str, n_basis: int = 16, interval: tuple[float, float] = (-3.0, 3.0)) -> Basis:
    """Return the basis called ``"bspline"`` (cubic) or ``"rbf"``."""
    if name == "bspline":
        return BSplineBasis(n_basis, interval=interval)
    if name == "rbf":
        return RBFBasis(n_basis, interval=interval)
    raise InvalidParameterError("basis must be 'bspline' or 'rbf'", name, "Or pass a Basis object of your own.")


def fit_function(basis: Basis, function: Callable[[Array], Array]) -> Array:
    """Return coefficients (n_basis,) of the least-squares fit of ``function`` on the interval."""
    grid = np.linspace(*basis.interval, 16 * basis.n_basis)
    return np.linalg.lstsq(basis.values(grid), function(grid), rcond=1e-8)[0]


def _check(interval: tuple[float, float], n_basis: int, minimum: int, what: str) -> None:
    low, high = interval
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InvalidParameterError(
            "interval must be (low, high) with low < high, both finite", interval, "The default is (-3.0, 3.0)."
        )
    if not isinstance(n_basis, int | np.integer) or n_basis < minimum:
        raise InvalidParameterError(
            f"n_basis must be a whole number, at least {minimum} for {what}", n_basis, "The default is 16."
        )


def _locate(pieces: Pieces, z: ArrayLike) -> tuple[Array, Array]:
    u = np.clip(pieces.cell_coordinate(z), -0.5, pieces.n_cells - 0.5)
    k = np.minimum(np.floor(u + 0.5), pieces.n_cells - 1).astype(np.intp)
    return k, u - k


def _hermite(values: Array, slopes: Array, nodes: Array) -> Array:
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
