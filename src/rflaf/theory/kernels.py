"""The kernel (1) of Gaussian directions in closed form, and the model of infinite width.

For w ~ N(0, I) the pair (w.u, w.u') is Gaussian with covariance C = [[u.u, u.u'], [u.u', u'.u']], so that for Gaussian
functions of width h

    E_w[ exp(-(w.u - c)^2 / 2h^2) exp(-(w.u' - c')^2 / 2h^2) ]  =  det(I + C / h^2)^-1/2 exp( -1/2 t' (C + h^2 I)^-1 t )

with t = (c, c'). The kernel of an activation sigma = sum_k a_k B_k is the sum of these over pairs of functions, times
a_k a_l: exact, where ``Z Z' / s`` of s directions has an error of order 1 / sqrt(s).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.bases import RBFBasis
from rflaf.functions.densities import Gaussian, resolve_density

from .dimension import check_finite, check_lambda, largest_eigenvalue, warn_if_above

_TILE = 2**13  # pairs of rows at a time: their terms stay in the cache
_PREDICTED_ROWS = 512
_LOWEST = 600.0  # minus the least exponent that steps may start from: beyond 700 they would start from zero
_DENSE_GRID, _REACH = 20_001, 7.0  # points of the grid that an activation is bounded on; widths beyond its centres


@dataclass(frozen=True, slots=True, eq=False)
class RBFKernel:
    """k(x, x') = E_w[ sigma(w.u) sigma(w.u') ] for w ~ N(0, I), u = (x - center) / scale and sigma = sum_k a_k B_k.

    Equation (1) of the paper, and K~ where sigma is a learned activation; `kernel_of` makes that of a fitted model.
    Directions w ~ N(0, I / b^2) are those of ``scale=b``.

    Parameters
    ----------
    basis : RBFBasis
        Gaussians B_k(z) = exp(-(z - c_k)^2 / 2 h^2).
    coefficients : array of shape (n_basis,)
        Coefficients a_k.
    center : float or array of shape (n_features,), default=0.0
        Point of the inputs where all projections are zero.
    scale : float or array of shape (n_features,), default=1.0
        Length of the inputs that counts as one; a column of scale zero is left out.

    >>> kernel = RBFKernel(RBFBasis(2, (-1.0, 1.0), width=1.0), [1.0, 1.0])
    >>> kernel([[0.0], [1.0]])               # (2 e^-1/2)^2 at zero, where all projections are zero
    array([[1.47151776, 1.33605437],
           [1.33605437, 1.25216968]])
    """

    basis: RBFBasis
    coefficients: Array
    center: Array | float = 0.0
    scale: Array | float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.basis, RBFBasis):
            remedy = "Fit with basis='rbf', or estimate the kernel by Z Z' / s."
            raise InvalidParameterError("the closed form needs an RBFBasis", self.basis, remedy)
        a = np.asarray(self.coefficients, dtype=np.float64)
        if a.shape != (self.basis.n_basis,):
            rule = f"coefficients must have the shape (n_basis,) = {(self.basis.n_basis,)}"
            raise InvalidParameterError(rule, a.shape, "Pass one for each function of the basis.")
        check_finite("coefficients", a)
        object.__setattr__(self, "coefficients", a)

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> Array:
        """Return K (n_rows, n_others) of rows ``X`` (n_rows, n_features) with rows ``Y``, or with themselves.

        Computed tile by tile; the result is the only large array.
        """
        U = self.standardised(X)
        V = U if Y is None else self.standardised(Y)
        K = np.empty((len(U), len(V)))
        height = max(1, _TILE // max(len(V), 1))
        for start in range(0, len(U), height):
            rows = slice(start, start + height)
            for first in range(start if Y is None else 0, len(V), _TILE):
                columns = slice(first, first + _TILE)
                K[rows, columns] = self._tile(U[rows], V[columns])
                if Y is None:
                    K[columns, rows] = K[rows, columns].T
            if Y is None:  # the square on the diagonal was computed whole
                K[rows, rows] = (K[rows, rows] + K[rows, rows].T) / 2
        return K

    def diagonal(self, X: ArrayLike) -> Array:
        """Return k(x, x) = E_w[sigma(w.u)^2] (n_rows,) of rows ``X``."""
        return np.array([float(self._tile(u[None], u[None])[0, 0]) for u in self.standardised(X)])

    def features(self, X: ArrayLike, W: ArrayLike) -> Array:
        """Return sigma(w.u) (n_rows, n_directions) of rows ``X`` for directions ``W`` (n_features, n_directions)."""
        return self.activation(self.standardised(X) @ np.asarray(W, dtype=np.float64))

    def activation(self, z: ArrayLike) -> Array:
        """Return sigma(z), shaped as ``z``."""
        z = np.asarray(z, dtype=np.float64)
        total = np.zeros_like(z)
        for a, c in zip(self.coefficients, self.basis.centres, strict=True):
            total += a * np.exp(-0.5 * ((z - c) / self.basis.h) ** 2)
        return total

    @property
    def bound(self) -> float:
        """An upper bound of |sigma| everywhere, of an excess below 1e-3 sum |a_k|."""
        h, (low, high) = self.basis.h, self.basis.interval
        grid = np.linspace(low - _REACH * h, high + _REACH * h, _DENSE_GRID)
        steepest = float(np.abs(self.coefficients).sum()) * np.exp(-0.5) / h
        between = steepest * (grid[1] - grid[0]) / 2
        return float(np.abs(self.activation(grid)).max()) + between

    def standardised(self, X: ArrayLike) -> Array:
        """Return u = (x - center) / scale of rows ``X`` (n_rows, n_features)."""
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2:
            raise InvalidParameterError("rows must have two dimensions", rows.shape, "Pass (n_rows, n_features).")
        check_finite("rows", rows)
        for name, values in (("center", self.center), ("scale", self.scale)):
            if np.ndim(values) and np.shape(values) != rows.shape[1:]:
                rule = f"rows must have the {np.size(values)} columns of the kernel's {name}"
                raise InvalidParameterError(rule, rows.shape, "Pass the columns that it was made for.")
        scale = np.broadcast_to(np.asarray(self.scale, dtype=np.float64), rows.shape[1:])
        return np.divide(rows - self.center, scale, out=np.zeros_like(rows), where=scale != 0)

    def _tile(self, U: Array, V: Array) -> Array:
        """Return the kernel of standardised rows ``U`` (n, d) and ``V`` (m, d): the formula of the module."""
        h2, c = self.basis.h**2, self.basis.centres
        A, B, C = (np.einsum("ij,ij->i", U, U) + h2)[:, None], np.einsum("ij,ij->i", V, V) + h2, U @ V.T
        determinant = A * B - C**2
        halves = B / (2 * determinant), A / (2 * determinant), C / determinant
        lowest = float(np.max(c**2) + c[c.size // 2] ** 2) / (2 * h2)
        total = sum_by_steps if lowest < _LOWEST else sum_of_exponentials
        return total(self.coefficients, c, *halves) * (h2 / np.sqrt(determinant))


def sum_of_exponentials(a: Array, c: Array, p: Array, q: Array, r: Array) -> Array:
    """Return sum_kl a_k a_l exp(-p c_k^2 - q c_l^2 + r c_k c_l), shaped as ``p``."""
    total = np.zeros_like(p)
    for weight, centre in zip(a, c, strict=True):
        exponent = c[:, None, None] * (centre * r) - c[:, None, None] ** 2 * q - centre**2 * p
        total += weight * np.tensordot(a, np.exp(exponent), 1)
    return total


def sum_by_steps(a: Array, c: Array, p: Array, q: Array, r: Array) -> Array:
    """Return `sum_of_exponentials` for evenly spaced ``c``, with 3 N + 1 exponentials a pair in place of N^2.

    From the middle outwards, the terms of one l are those of the one before times a ratio, and the ratio shrinks by
    exp(-2 q step^2). Exact up to rounding where no term of the middle underflows.
    """
    middle, step, of_first = c.size // 2, c[1] - c[0], c[:, None, None]
    terms = np.exp(of_first * (c[middle] * r) - of_first**2 * p - c[middle] ** 2 * q)
    shrink = np.exp(-2 * step**2 * q)
    total = a[middle] * np.tensordot(a, terms, 1)
    for way, weights in ((step, a[middle + 1 :]), (-step, a[:middle][::-1])):
        term, ratio = terms.copy(), np.exp(way * (of_first * r - (2 * c[middle] + way) * q))
        for weight in weights:
            term *= ratio
            ratio *= shrink
            total += weight * np.tensordot(a, term, 1)
    return total


def kernel_of(model: Any) -> RBFKernel:
    """Return K~ of a fitted estimator: its activation, and directions in the units its inputs are scaled to.

    The estimator has random Gaussian directions (independent, orthogonal or Sobol: the kernel is the same), a shared
    activation and an RBF basis. Rows are given as the numbers that the model sees.

    >>> from rflaf import RFLAFRegressor
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> model = RFLAFRegressor(20, directions="random", activation="shared", basis="rbf", random_state=0)
    >>> kernel_of(model.fit(X, np.sin(X[:, 0])))(X[:3]).shape
    (3, 3)
    """
    activation = getattr(model, "activation_", None)
    if activation is None:
        raise InvalidParameterError("the model must be fitted", type(model).__name__, "Call fit first.")
    for wrong, rule, value, remedy in (
        (model.directions != "random", "directions must be random", model.directions, "Set directions='random'."),
        (len(activation.coefficients) != 1, "the activation must be shared", model.activation, "Set 'shared'."),
        (not _is_gaussian(model.density), "directions must be Gaussian", model.density, "Set density='gaussian'."),
    ):
        if wrong:
            raise InvalidParameterError(f"{rule} for a kernel in closed form", value, remedy)
    return RBFKernel(activation.basis, activation.coefficients[0], *model.model_.directions.inputs)


def _is_gaussian(density: Any) -> bool:
    """Return whether directions are N(0, I), or drawn from another density with weights that make up for it."""
    density = resolve_density(density)
    return isinstance(density, Gaussian) or isinstance(getattr(density, "kernel", None), RBFKernel)


@dataclass(frozen=True, slots=True, eq=False)
class KernelRidgeLimit:
    """Kernel ridge regression, f(x) = b + sum_i k(x, x_i) dual_i: the model as its width goes to infinity.

    Attributes
    ----------
    kernel : RBFKernel
    X : (n_rows, n_features), rows of the fit
    dual : (n_rows,) or (n_rows, n_outputs), (K + n alpha I)^-1 (y - b)
    intercept : b, a number or (n_outputs,)
    """

    kernel: RBFKernel
    X: Array
    dual: Array
    intercept: Array

    def predict(self, X: ArrayLike) -> Array:
        """Return f at rows ``X``, (n_rows,) or (n_rows, n_outputs), block by block."""
        rows = np.asarray(X, dtype=np.float64)
        return np.concatenate([self.kernel(block, self.X) @ self.dual + self.intercept for block in _blocks(rows)])


def kernel_ridge_limit(
    kernel: RBFKernel, X: ArrayLike, y: ArrayLike, alpha: float, intercept: bool = True
) -> KernelRidgeLimit:
    """Fit the model of infinitely many directions under a given activation.

    For S directions problem (6) minimises 1/n |y - b - Zv|^2 + alpha S |v|^2 over v, which gives
    f = b + K^ (K^ + n alpha I)^-1 (y - b) with K^ = Z Z' / S. As S grows, K^ becomes K and the difference falls as
    1 / sqrt(S). Memory is (n_rows, n_rows).

    >>> kernel = RBFKernel(RBFBasis(), np.sin(np.arange(16.0)))
    >>> X = np.random.default_rng(0).standard_normal((50, 2))
    >>> limit = kernel_ridge_limit(kernel, X, X[:, 0], alpha=1e-4)
    >>> bool(np.corrcoef(limit.predict(X), X[:, 0])[0, 1] > 0.95)
    True
    """
    check_lambda(alpha)
    rows, targets = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if targets.shape[:1] != rows.shape[:1]:
        raise InvalidParameterError(f"y must have {len(rows)} rows", targets.shape, "Pass one target for each row.")
    check_finite("targets", targets)
    K = kernel(rows)
    warn_if_above(alpha, largest_eigenvalue(K) / len(K))
    factor = scipy.linalg.cho_factor(K + len(K) * alpha * np.eye(len(K)), lower=True)
    constant = np.zeros(targets.shape[1:])
    if intercept:
        share = scipy.linalg.cho_solve(factor, np.ones(len(K)))
        constant = share @ targets / share.sum()
    return KernelRidgeLimit(kernel, rows, scipy.linalg.cho_solve(factor, targets - constant), constant)


def _blocks(rows: Array) -> Iterator[Array]:
    return (rows[start : start + _PREDICTED_ROWS] for start in range(0, max(len(rows), 1), _PREDICTED_ROWS))
