"""Ridge systems: solutions for any ridge, degrees of freedom, generalised cross-validation, leave-one-out errors.

    (G + ridge I) v = c,        G and c the centred mean products of `rflaf.model.normal_equations`

A system that is singular or badly scaled is equilibrated, then factored with the least jitter that suffices, and as a
last resort solved on its eigenvectors; the answer states which remedy was needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
import scipy  # its parts are imported on first use

from rflaf.errors import Array
from rflaf.functions import _kernels

_LOW_RANK = 0.5  # of the features: where fewer eigenvectors are worth a factorisation more
_JITTERS = (100.0, 1e4, 1e6)  # of the precision of the sums
_RIDGES_PER_DECADE = 2
_LEAST_RIDGE, _LARGEST_RIDGE = 0.02, 10.0  # of the mean square of a feature; the least is divided by the rows
_FEW_FEATURES, _DOUBLE, _SMALLER = 64, 1e-12, (1e-5, 1e-4, 1e-3, 1e-2)
_PIVOT_FLOOR = 10.0  # of the precision of the sums: a smaller pivot is noise
_EIGENVALUE_FLOOR = 1e4  # likewise, of the largest eigenvalue
_AS_GOOD = 1e-6  # relative difference of errors that counts as rounding
_REFINEMENTS, _REFINED = 6, 1e-7  # of a solution in single precision: steps at most, and the residual that ends them
_MOST_DEGREES = 0.95  # of the rows: beyond it cross-validation divides noise by noise


class Remedy(Enum):
    """How a system was solved."""

    NONE = "factored as it was"
    JITTER = "singular to rounding: factored after adding a jitter to its unit diagonal"
    EIGENVALUES = "indefinite to rounding: solved on its eigenvectors with the smallest left out"

    def __reduce__(self) -> tuple[type[Enum], tuple[str]]:
        """Rebuild by the value, for tools that store objects without pickle."""
        return type(self), (self.value,)


@dataclass(frozen=True)
class RidgeSystem:
    """(G + ridge I) v = c with G (n_components,)^2, c (n_components, n_outputs) and the mean squares of y."""

    G: Array
    c: Array
    y_square: Array
    z_mean: Array
    y_mean: Array
    weight: float
    whole_weights: bool
    n_rows: float
    precision: float
    n_intercepts: int

    @property
    def count(self) -> float:
        """Number of observations: the sum of whole weights, else the rows with a positive weight."""
        return self.weight if self.whole_weights else float(self.n_rows)

    @cached_property
    def scale(self) -> float:
        """Mean of the diagonal of G, the natural unit of a ridge; one where all features are zero."""
        mean = float(np.diagonal(self.G).mean())
        return mean if mean > 0 else 1.0

    def ridges(self) -> Array:
        """Return ridges from 0.02 / n, below which rounding decides, to 10 times the mean square of a feature."""
        least = min(_LEAST_RIDGE / self.count, _LARGEST_RIDGE)
        n_ridges = 1 + int(np.ceil(_RIDGES_PER_DECADE * np.log10(_LARGEST_RIDGE / least)))
        return self.scale * np.geomspace(least, _LARGEST_RIDGE, n_ridges)

    def ridges_of_lines(self) -> Array:
        """Return ridges() for features linear in the columns, which may be nearly collinear and exact.

        Few of them in double precision have four far smaller ridges too.
        """
        ridges = self.ridges()
        few = len(self.G) <= min(_FEW_FEATURES, self.count / 3) and self.precision < _DOUBLE
        return np.concatenate([ridges[0] * np.array(_SMALLER), ridges]) if few else ridges

    def factor(self, ridge: float) -> RidgeFactor:
        """Factor G + ridge I once, for any number of right-hand sides."""
        diagonal = np.diagonal(self.G) + ridge
        rounding = 8 * np.finfo(float).eps * self.z_mean**2  # of centring: what is below is a constant feature
        root = np.sqrt(np.where(diagonal > rounding, diagonal, 1.0))
        for jitter in (0.0, *(self.precision * size for size in _JITTERS)):
            A = self._equilibrated(root, diagonal, jitter)
            L, failed = scipy.linalg.lapack.dpotrf(A.T, lower=1, clean=1, overwrite_a=1)
            if not failed and np.min(np.diagonal(L)) ** 2 > _PIVOT_FLOOR * self.precision:
                return RidgeFactor(self, ridge, root, L, Remedy.JITTER if jitter else Remedy.NONE, jitter)
        A = self._equilibrated(root, diagonal, 0.0)
        return RidgeFactor(self, ridge, root, _root_of_pseudo_inverse(A, self.precision), Remedy.EIGENVALUES)

    def _equilibrated(self, root: Array, diagonal: Array, jitter: float) -> Array:
        """R^-1 (G + ridge I) R^-1 + jitter I, a new array."""
        A = self.G / root
        A /= root[:, None]
        np.fill_diagonal(A, diagonal / root**2 + jitter)
        return A

    def solve(self, ridge: float) -> RidgeSolution:
        """The solution for one ridge."""
        return self.factor(ridge).solution()

    @cached_property
    def in_single_precision(self) -> SinglePrecision:
        """The system in single precision."""
        root = np.sqrt(np.where(np.diagonal(self.G) > 0, np.diagonal(self.G), 1.0))
        E, single = self.G.astype(np.float32), root.astype(np.float32)
        E /= single
        E /= single[:, None]
        return SinglePrecision(self, root, E)

    @cached_property
    def spectrum(self) -> Spectrum:
        """Eigenvalues of G and the moments in its eigenvectors: every ridge at once."""
        n_features, few_rows = len(self.G), self.n_rows < len(self.G)
        thin = _thin_root(self.G) if few_rows or n_features > _FEW_FEATURES else None
        if thin is not None and (few_rows or thin.shape[1] <= _LOW_RANK * n_features):
            values, vectors = _few_eigenvectors(thin)
        else:
            values, vectors = np.linalg.eigh(self.G)
        return Spectrum(self, np.maximum(values, 0), vectors, vectors.T @ self.c)


@dataclass(frozen=True)
class SinglePrecision:
    """R^-1 G R^-1 in single precision, with unit diagonal: for the solutions of several ridges in half the time."""

    system: RidgeSystem
    root: Array
    E: Array

    def solve(self, ridge: float) -> Array | None:
        """Coefficients (n_components, n_outputs) for one ridge, refined until their residual is 1e-7 of c.

        None where it does not fall so far: the ridge is too small for single precision.
        """
        G, c = self.system.G, self.system.c
        A = self.E.copy()
        with np.errstate(over="ignore"):  # infinite for a feature of hardly any row, which so gets no weight
            np.fill_diagonal(A, np.diagonal(A) + ridge / self.root**2)
        if not _kernels.cholesky.factor_in_place(A.T):
            return None
        v, residual, size = np.zeros_like(c), c, np.linalg.norm(c)
        for _ in range(_REFINEMENTS):
            step = scipy.linalg.lapack.spotrs(A.T, residual / self.root[:, None], lower=1)[
                0
            ]  # in the order of Fortran, not copied
            v = v + step / self.root[:, None]
            residual = c - G @ v - ridge * v
            if np.linalg.norm(residual) <= _REFINED * size:
                return v
        return None


@dataclass(frozen=True)
class Spectrum:
    """G = Q diag(values) Q', rotated = Q' c (rank, n_outputs): closed forms in the ridge, for many ridges.

    Of fewer rows than features there may be only those eigenvectors that rows reach. Arrays over ridges have shape
    (n_ridges,).
    """

    system: RidgeSystem
    values: Array
    vectors: Array
    rotated: Array

    def _shrinkage(self, ridges: Array) -> Array:
        """1 / (values + ridge), (n_components, n_ridges); zero for a null direction without a ridge."""
        total = self.values[:, None] + ridges
        floor = self.values.max(initial=0.0) * np.finfo(float).eps * self.values.size
        return np.divide(1.0, total, out=np.zeros_like(total), where=total > floor)

    def solve(self, ridge: float) -> Array:
        """Coefficients (n_components, n_outputs) for one ridge."""
        return self.vectors @ (self._shrinkage(np.array([ridge])) * self.rotated)

    def degrees_of_freedom(self, ridges: Array) -> Array:
        """Trace of G (G + ridge I)^-1, intercept not counted."""
        return self.values @ self._shrinkage(ridges)

    def mean_residual(self, ridges: Array) -> Array:
        """Mean squared residual, summed over outputs."""
        shrunk = self._shrinkage(ridges)
        kept = np.sqrt(np.maximum(shrunk * (2 - self.values[:, None] * shrunk), 0))
        size = float(np.abs(self.rotated).max(initial=0.0)) or 1.0
        length = np.sqrt(np.sum((self.rotated / size) ** 2, axis=1))
        gain = np.sum((size * length[:, None] * kept) ** 2, axis=0)  # squares of rotated alone may be no numbers
        return np.maximum(self.system.y_square.sum() - gain, 0)

    def gcv(self, ridges: Array) -> Array:
        """Generalised cross-validation: mean squared residual over (1 - degrees of freedom / n)^2.

        Infinite where the model spends more than 95 % of the rows: the ratio is then noise over noise.
        """
        spent = (self.degrees_of_freedom(ridges) + self.system.n_intercepts) / self.system.count
        left = np.where(spent < _MOST_DEGREES, 1 - spent, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(left > 0, self.mean_residual(ridges) / left**2, np.inf)

    def best_ridge(self) -> float:
        """The ridge of the grid whose generalised cross-validation is lowest; the largest where none is finite."""
        ridges = self.system.ridges()
        criterion = self.gcv(ridges)
        return float(ridges[np.argmin(criterion)] if np.isfinite(criterion).any() else ridges[-1])

    def leave_one_out(self, ridges: Array, z: Array, y: Array, weight: Array | None = None) -> Array:
        """Sum over rows ``z`` (n_components, n_rows), ``y`` (n_rows, n_outputs) of w_i |r_i / (1 - h_i)|^2.

        The squared error each observation would have if it were left out of the fit. Whole weights are counts: one
        of the repeated rows is left out, not all of them.
        """
        w = np.ones(y.shape[0]) if weight is None else weight
        left_out = np.ones_like(w) if self.system.whole_weights else w
        q = self.vectors.T.astype(z.dtype, copy=False) @ (z - self.system.z_mean[:, None].astype(z.dtype, copy=False))
        shrunk = self._shrinkage(ridges)
        hat = ((q**2).T @ shrunk + self.system.n_intercepts) * (left_out / self.system.weight)[:, None]
        total = np.zeros(len(ridges))
        for o in range(y.shape[1]):
            fit = q.T @ (shrunk * self.rotated[:, o, None]) + self.system.y_mean[o]
            total += w @ ((y[:, o, None] - fit) / np.maximum(1 - hat, self.system.precision**0.5)) ** 2
        return total

    def leave_folds_out(self, ridge: float, z: Array, y: Array, weight: Array | None, folds: Array) -> Array:
        """Return what the fit without its fold says of every row of ``z`` (n_components, n_rows): (n_rows, n_outputs).

        Exact, without another fit: y - (I - H_FF)^-1 r_F for the rows F of a fold, H the hat matrix and r the residuals
        of the fit of all rows, which must be all rows of the sums. The penalty on the sum over the rows stays.
        """
        w = np.ones(y.shape[0]) if weight is None else weight.astype(np.float64)
        q = self.vectors.T @ (z - self.system.z_mean[:, None])
        shrunk = self._shrinkage(np.array([ridge]))
        residual = y - q.T @ (shrunk * self.rotated) - self.system.y_mean
        features = np.vstack([q, np.ones((1, y.shape[0]))])
        share = np.append(shrunk[:, 0], self.system.n_intercepts) / self.system.weight
        left_out = np.empty(residual.shape)
        for fold in np.unique(folds):
            rows = np.flatnonzero(folds == fold)
            left_out[rows] = y[rows] - _without_itself(features[:, rows], share, w[rows], residual[rows])
        return left_out


def _without_itself(features: Array, share: Array, w: Array, residual: Array) -> Array:
    """(I - F' diag(share) F diag(w))^-1 residual, for features (k, n_rows): solved in the smaller of the two sizes."""
    k, n_rows = features.shape
    left, right = features.T * share, features * w
    if n_rows <= k:
        return _solve(np.eye(n_rows) - left @ right, residual)
    return residual + left @ _solve(np.eye(k) - right @ left, right @ residual)


def _solve(A: Array, right: Array) -> Array:
    """A^-1 right; the shortest solution where A is singular: a row that determines the fit has no fit without it."""
    try:
        return np.linalg.solve(A, right)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(A, right, rcond=None)[0])


@dataclass(frozen=True)
class RidgeFactor:
    """A factored system: A = R^-1 (G + ridge I) R^-1 with unit diagonal, A = L L' or A^+ = L L'."""

    system: RidgeSystem
    ridge: float
    root: Array
    L: Array
    remedy: Remedy
    jitter: float = 0.0

    def solve(self, right: Array) -> Array:
        """(G + ridge I)^-1 right for ``right`` (n_components, k)."""
        scaled = right / self.root[:, None]
        if self.remedy is Remedy.EIGENVALUES:
            return self.L @ (self.L.T @ scaled) / self.root[:, None]
        return scipy.linalg.lapack.dpotrs(self.L, scaled, lower=1)[0] / self.root[:, None]

    @cached_property
    def inverse_root(self) -> Array:
        """B with (G + ridge I)^-1 = B' B, shape (n_components, n_components)."""
        if self.remedy is Remedy.EIGENVALUES:
            return self.L.T / self.root
        inverse = scipy.linalg.lapack.dtrtri(self.L, lower=1)[0]
        inverse /= self.root
        return np.asarray(inverse)

    @property
    def inverse_diagonal(self) -> Array:
        """Diagonal of (G + ridge I)^-1."""
        return np.einsum("ij,ij->j", self.inverse_root, self.inverse_root)

    @cached_property
    def degrees_of_freedom(self) -> float:
        """Trace of G (G + ridge I)^-1, intercept not counted."""
        if self.remedy is Remedy.EIGENVALUES:
            return float(np.einsum("ij,ij->", self.inverse_root @ self.system.G, self.inverse_root))
        return float(self.root.shape[0] - (self.ridge + self.jitter * self.root**2) @ self.inverse_diagonal)

    def solution(self) -> RidgeSolution:
        system = self.system
        v = self.solve(system.c)
        fit = np.einsum("mo,mo->o", v, 2 * system.c - system.G @ v)
        mean_residual = np.maximum(system.y_square - fit, 0)
        return RidgeSolution(v, system.y_mean - system.z_mean @ v, self.ridge, mean_residual, self)

    def hat_diagonal(self, z: Array) -> Array:
        """Leverage of rows ``z`` (n_components, n_rows): their share in their own prediction, (n_rows,)."""
        centred = self.inverse_root @ (z - self.system.z_mean[:, None])
        return (np.einsum("mr,mr->r", centred, centred) + self.system.n_intercepts) / self.system.weight


@dataclass(frozen=True)
class RidgeSolution:
    """Coefficients ``v`` (n_components, n_outputs), intercept (n_outputs,) and mean squared residuals (n_outputs,)."""

    v: Array
    intercept: Array
    ridge: float
    mean_residual: Array
    factor: RidgeFactor

    @property
    def objective(self) -> float:
        """Mean squared residual plus ridge |v|^2, summed over outputs."""
        return float(self.mean_residual.sum() + self.ridge * np.sum(self.v**2))

    def leave_one_out(self, z: Array, y: Array) -> Array:
        """Residuals of rows ``z`` (n_components, n_rows), ``y`` (n_rows, n_outputs), each left out of its own fit.

        Exact for unit weights: r_i / (1 - h_i).
        """
        residual = y - self.intercept - z.T @ self.v
        return residual / (1 - self.factor.hat_diagonal(z))[:, None]


def walk_downhill(
    size: int,
    errors_at: Callable[[list[int]], Sequence[float]],
    start: Sequence[int] | None = None,
    strides: Sequence[int] = (3, 1),
) -> int:
    """Return the first place in 0 to size - 1 whose error is, to rounding, the lowest on a walk from ``start``.

    The walk starts in the middle unless given and goes where errors fall, from all places that are equal to rounding:
    rounding depends on how rows were cut and must not decide.

    >>> walk_downhill(12, lambda places: [abs(i - 2.5) for i in places])
    2
    """
    errors, todo = np.full(size, np.nan), list(start or [size // 2])
    for stride in strides:
        todo = todo or _untried(errors, stride)
        while todo:
            found = np.array(errors_at(todo), dtype=np.float64)
            errors[todo] = np.where(np.isfinite(found), found, np.inf)
            todo = _untried(errors, stride)
    return int(_lowest(errors)[0])


def _lowest(errors: Array) -> Array:
    """Return the places of the lowest error, to rounding; NaN marks places not tried."""
    lowest = np.nanmin(errors)
    return np.flatnonzero(errors <= lowest + _AS_GOOD * abs(lowest))


def _untried(errors: Array, stride: int) -> list[int]:
    """Return the places not tried yet, a stride from the lowest."""
    lowest = _lowest(errors)
    near = np.unique(np.concatenate([lowest + stride, lowest - stride]))
    return [int(i) for i in near if 0 <= i < errors.size and np.isnan(errors[i])]


def _thin_root(G: Array) -> Array:
    """L (n, rank) with G = L L' to rounding."""
    A, order, rank, _ = scipy.linalg.lapack.dpstrf(np.asfortranarray(G.T), lower=1, overwrite_a=1)
    L = np.empty((len(G), rank))
    L[order - 1] = np.tril(A[:, :rank])
    return L


def _few_eigenvectors(L: Array) -> tuple[Array, Array]:
    """Eigenvalues (rank,) and eigenvectors (n, rank) of L L', thin: from those of L'L."""
    values, turned = np.linalg.eigh(L.T @ L)
    kept = values > 0
    return values[kept], L @ (turned[:, kept] / np.sqrt(values[kept]))


def _root_of_pseudo_inverse(A: Array, precision: float) -> Array:
    values, vectors = np.linalg.eigh(A)
    kept = values > _EIGENVALUE_FLOOR * precision * max(values[-1], np.finfo(float).tiny)
    return vectors[:, kept] / np.sqrt(values[kept])
