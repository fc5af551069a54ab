r"""Bases of the learned activation: sigma(z) = sum_i a_i B_i(z) on an even grid over a compact interval.

Section 2.2 of the paper: Gaussian radial functions and B-splines of degree 1 to 3. Polynomials and fixed activations
are in `rflaf.functions.smooth_bases`. Each basis gives its values, slopes, behaviour outside its interval, a smoothness
penalty, and its `Pieces`: the same functions as cubic polynomials on even cells, the only form the compiled kernels
use. The map from coefficients to a table of cubics is linear, so it also carries gradients back to the coefficients.

| basis | outside the interval | error of the cubic pieces |
| --- | --- | --- |
| B-spline | constant, the value at the nearer end; slopes are zero | none but rounding |
| RBF | decays; constant, below 3e-11 sum \|a_i\|, from 7 widths on | 3 / 384 / r^4 sum \|a_i\|, r cells per width |
| polynomials, fixed activations | constant, the value at the nearer end | below 5e-7 min(1, sup \|B_i\|) |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from rflaf.errors import Array, InvalidParameterError

from .pieces import Pieces as Pieces
from .pieces import check_grid, hermite
from .smooth_bases import FIXED_ACTIVATIONS, FixedActivation, PolynomialBasis

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
        """Return cubic pieces, with an error below ``tolerance`` of the sup norm of activations ``a``, or of B_k."""


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
        check_grid(self.interval, self.n_basis, self.degree + 1, f"B-splines of degree {self.degree}")

    @property
    def step(self) -> float:
        return (self.interval[1] - self.interval[0]) / (self.n_basis - self.degree)

    def values(self, z: ArrayLike) -> Array:
        return self.pieces().values(z)

    def slopes(self, z: ArrayLike) -> Array:
        return self.pieces().slopes(z)

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
        check_grid(self.interval, self.n_basis, 2, "a grid of Gaussians")
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
        resolution = self.resolution(np.eye(self.n_basis) if a is None else np.atleast_2d(a), tolerance)
        low, high = self.interval[0] - _RBF_REACH * self.h, self.interval[1] + _RBF_REACH * self.h
        n_cells = int(np.ceil((high - low) / self.h * resolution))
        nodes = np.linspace(low, high, n_cells + 1)
        return Pieces(low, (high - low) / n_cells, hermite(self.values(nodes), self.slopes(nodes), nodes))

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


def make_basis(name: str, n_basis: int | None = None, interval: tuple[float, float] | None = None) -> Basis:
    """Return the basis of a name: ``"bspline"`` (cubic), ``"rbf"``, ``"polynomial"``, or that of a `FixedActivation`.

    There are 16 functions unless ``n_basis`` is given, over (-3, 3) unless ``interval`` is. A fixed activation is one
    function, over (-16, 16).

    >>> make_basis("relu").n_basis
    1
    """
    where: dict[str, Any] = {} if interval is None else {"interval": interval}
    if isinstance(name, str) and name in FIXED_ACTIVATIONS:
        if n_basis not in (None, 1):
            raise InvalidParameterError(f"basis {name!r} is one function", n_basis, "Leave n_basis out.")
        return FixedActivation(name, **where)
    size = 16 if n_basis is None else n_basis
    if name == "bspline":
        return BSplineBasis(size, **where)
    if name == "rbf":
        return RBFBasis(size, **where)
    if name == "polynomial":
        return PolynomialBasis(size - 1, **where)
    fixed = ", ".join(map(repr, FIXED_ACTIVATIONS))
    rule = f"basis must be 'bspline', 'rbf', 'polynomial', or a fixed activation: {fixed}"
    raise InvalidParameterError(rule, name, "Or pass a Basis object of your own.")


def fit_function(basis: Basis, function: Callable[[Array], Array]) -> Array:
    """Return coefficients (n_basis,) of the least-squares fit of ``function`` on the interval; one for one function.

    Of one function only the scale could be fitted, which is free in a model, and may be zero.
    """
    if basis.n_basis == 1:
        return np.ones(1)
    grid = np.linspace(*basis.interval, 16 * basis.n_basis)
    return np.linalg.lstsq(basis.values(grid), function(grid), rcond=1e-8)[0]


def random_shapes(basis: Basis, steps: Array) -> Array:
    """Return activations (n, n_basis) made of standard normal ``steps`` (n, n_basis): random walks along the grid.

    Polynomials have no grid; the Legendre coefficients of a random walk fall as 1 / (k + 1).
    """
    if isinstance(basis, PolynomialBasis):
        return np.asarray(steps / np.arange(1, basis.n_basis + 1))
    return np.cumsum(steps, axis=1)
