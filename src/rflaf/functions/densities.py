"""Densities p(w) of the random directions, and the directions drawn from them.

In Section 2.1 of the paper p(w) defines the kernel k(x, y) = E_p[sigma(w.x) sigma(w.y)]; in Section 2.4 directions from
another density q carry the weights sqrt(p/q). A density is a small frozen object with ``sample`` and ``log_density``;
`Directions` hold the drawn directions, with an offset for centred inputs.

The same state of ``rng`` gives the same directions, and every density is nested in ``n_components``: a wider draw from
the same state begins with the columns of the narrower one.

| name | law of the columns | nested |
| --- | --- | --- |
| `gaussian` | independent N(0, I), as in the paper's experiments | exactly |
| `student_t` | independent isotropic t, heavier tails | exactly |
| `cauchy` | the same with one degree of freedom | exactly |
| `orthogonal` | N(0, I) each, orthogonal within blocks | up to rounding, exactly in whole blocks |
| `sobol` | N(0, I) each, evenly spread together | exactly |
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

import numpy as np
import scipy  # its parts are imported on first use
from numpy.typing import ArrayLike, NDArray

from rflaf.errors import Array, InvalidParameterError

_SOBOL_BITS = 30  # the Sobol points are multiples of 2**-30
_SOBOL_MAX_FEATURES = 21201  # direction numbers are tabulated up to here


@runtime_checkable
class Density(Protocol):
    """Interface of p(w); any object with these three members can be passed as a density.

    An object that draws from another density q in place of p has a method ``importance(W)`` too, which returns
    sqrt(p/q) of each column, (n_components,).
    """

    @property
    def name(self) -> str: ...

    def sample(self, n_features: int, n_components: int, rng: np.random.Generator) -> Array:
        """Draw directions as columns, shape (n_features, n_components)."""

    def log_density(self, W: ArrayLike) -> Array:
        """Return log p of each single column of W (n_features, n_components), shape (n_components,)."""


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Independent standard normal directions, p(w) = (2 pi)^(-d/2) exp(-|w|^2 / 2). Nested.

    >>> Gaussian().sample(3, 5, np.random.default_rng(0)).shape
    (3, 5)
    """

    name: ClassVar[str] = "gaussian"

    def sample(self, n_features: int, n_components: int, rng: np.random.Generator) -> Array:
        return _normal_columns(n_features, n_components, rng)

    def log_density(self, W: ArrayLike) -> Array:
        squared_norms, d = _squared_norms(W)
        return -0.5 * (squared_norms + d * math.log(2 * math.pi))


@dataclass(frozen=True, slots=True)
class StudentT:
    """Independent isotropic t directions, w = g sqrt(df / c) with g ~ N(0, I) and c ~ chi^2(df). Nested.

    p(w) = Gamma((df + d)/2) / (Gamma(df/2) (df pi)^(d/2)) (1 + |w|^2 / df)^(-(df + d)/2).

    Parameters
    ----------
    df : float, default=5.0
        Degrees of freedom, above zero; fewer give heavier tails.
    """

    df: float = 5.0
    name: ClassVar[str] = "student_t"

    def __post_init__(self) -> None:
        if not 0 < self.df < np.inf:
            raise InvalidParameterError(
                "df must be a positive finite number", self.df, "Use Gaussian() for the limit of large df."
            )

    def sample(self, n_features: int, n_components: int, rng: np.random.Generator) -> Array:
        normal_rng, chi2_rng = streams(rng, 2)
        G = _normal_columns(n_features, n_components, normal_rng)
        chi2 = np.maximum(chi2_rng.chisquare(self.df, n_components), np.finfo(np.float64).tiny)  # df near 0 underflows
        return G * np.sqrt(self.df / chi2)

    def log_density(self, W: ArrayLike) -> Array:
        squared_norms, d = _squared_norms(W)
        # The Beta function replaces the quotient of Gamma functions, which is inaccurate for large df.
        shape = float(scipy.special.gammaln(d / 2) - scipy.special.betaln(self.df / 2, d / 2))
        log_constant = shape - d / 2 * math.log(self.df * math.pi)
        return log_constant - (self.df + d) / 2 * np.log1p(squared_norms / self.df)


@dataclass(frozen=True, slots=True)
class Cauchy:
    """Independent isotropic Cauchy directions: t with one degree of freedom, without moments. Nested."""

    name: ClassVar[str] = "cauchy"

    def sample(self, n_features: int, n_components: int, rng: np.random.Generator) -> Array:
        return StudentT(1.0).sample(n_features, n_components, rng)

    def log_density(self, W: ArrayLike) -> Array:
        return StudentT(1.0).log_density(W)


@dataclass(frozen=True, slots=True)
class OrthogonalGaussian(Gaussian):
    """Blocks of n_features orthogonal directions, each column exactly N(0, I).

    A column is a column of a Haar orthogonal matrix times an independent chi(n_features) norm; blocks are independent,
    and the last one may be partial. Nested up to rounding, and exactly if both draws consist of whole blocks.
    """

    name: ClassVar[str] = "orthogonal"

    def sample(self, n_features: int, n_components: int, rng: np.random.Generator) -> Array:
        frame_rng, norm_rng = streams(rng, 2)
        G = _normal_columns(n_features, n_components, frame_rng)
        norms = np.sqrt(norm_rng.chisquare(n_features, n_components))
        blocks = [_haar_frame(G[:, start : start + n_features]) for start in range(0, n_components, n_features)]
        return np.hstack(blocks) * norms


@dataclass(frozen=True, slots=True)
class SobolGaussian(Gaussian):
    """Scrambled Sobol points through the normal quantile: each column N(0, I), jointly more even than chance.

    The points are the centres of 2**30 even cells per coordinate, so a column is normal up to that resolution and no
    entry exceeds 6.13 in size. Powers of two for ``n_components`` balance best. Nested. At most 21201 features.
    """

    name: ClassVar[str] = "sobol"

    def sample(self, n_features: int, n_components: int, rng: np.random.Generator) -> Array:
        _check_sizes(n_features, n_components)
        if n_features > _SOBOL_MAX_FEATURES:
            raise InvalidParameterError(
                f"density 'sobol' needs n_features of at most {_SOBOL_MAX_FEATURES}",
                n_features,
                "Use another density, such as 'orthogonal' or 'gaussian'.",
            )
        return np.asarray(scipy.special.ndtri(_sobol_points(n_features, n_components, rng).T), dtype=np.float64)


_DENSITIES: dict[str, type[Density]] = {
    density.name: density for density in (Gaussian, StudentT, Cauchy, OrthogonalGaussian, SobolGaussian)
}


@dataclass(frozen=True, slots=True)
class AxesFirst:
    """One direction per input column, then directions of another density: functions of single columns come first."""

    rest: Density
    name: ClassVar[str] = "axes_first"

    def sample(self, n_features: int, n_components: int, rng: np.random.Generator) -> Array:
        if n_components <= n_features:
            return np.eye(n_features, n_components)
        return np.hstack([np.eye(n_features), self.rest.sample(n_features, n_components - n_features, rng)])

    def log_density(self, W: ArrayLike) -> Array:
        return self.rest.log_density(W)


def resolve_density(density: str | Density) -> Density:
    """Return the density of that name, or the object itself if it has ``sample`` and ``log_density``.

    >>> resolve_density("student_t")
    StudentT(df=5.0)
    """
    if isinstance(density, str) and density in _DENSITIES:
        return _DENSITIES[density]()
    can = all(callable(getattr(density, method, None)) for method in ("sample", "log_density"))
    if can and not isinstance(density, type):
        return cast(Density, density)
    names = ", ".join(repr(name) for name in _DENSITIES)
    raise InvalidParameterError(
        f"density must be one of {names}, or an object with methods sample and log_density",
        density,
        "Pass one of these names, or an instance such as StudentT(df=3.0).",
    )


@dataclass(frozen=True, slots=True, eq=False)
class Directions:
    """Directions drawn for d inputs: component m sees z_m = w_m . x + offset_m, weighted by importance_m.

    Attributes
    ----------
    W : (n_features, n_components), columns are directions; C-contiguous float64
    offset : (n_components,)
    importance : (n_components,), sqrt(p/q); one under plain sampling
    n_draws : draws before duplicates were merged; n_components under plain sampling

    >>> pool = draw(Gaussian(), n_features=2, n_components=6, rng=np.random.default_rng(0))
    >>> pool.take([4, 1]).W.shape
    (2, 2)
    """

    W: Array
    offset: Array
    importance: Array
    n_draws: int
    _inputs: tuple[Array, Array] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("W", "offset", "importance"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64, order="C"))
        if self.W.ndim != 2:
            raise InvalidParameterError("W must have two dimensions", self.W.shape, "Pass directions as columns.")
        _check_vector("offset", self.offset, self.n_components)
        _check_vector("importance", self.importance, self.n_components)

    @property
    def n_features(self) -> int:
        return int(self.W.shape[0])

    @property
    def n_components(self) -> int:
        return int(self.W.shape[1])

    def take(self, indices: ArrayLike, importance: ArrayLike | None = None, n_draws: int | None = None) -> Directions:
        """Return columns at ``indices`` or a mask; ``importance`` (n_taken,) and ``n_draws`` replace their own."""
        indices = np.asarray(indices)
        W, offset = self.W[:, indices], self.offset[indices]
        weights = self.importance[indices] if importance is None else np.asarray(importance, dtype=np.float64)
        return Directions(W, offset, weights, W.shape[1] if n_draws is None else n_draws, self._inputs)

    @property
    def inputs(self) -> tuple[Array, Array]:
        """Centre and scale, each (n_features,), of the inputs u = (x - centre) / scale that the density was drawn for.

        By `fold` and `scaled`; neither is kept in a model file, nor where every component has a scale of its own.
        """
        if self._inputs is None:
            rule = "directions must know the inputs that they were drawn for"
            raise InvalidParameterError(rule, "scaled one by one, or read from a file", "Fit the model again.")
        return self._inputs

    def fold(self, center: ArrayLike, scale: ArrayLike) -> Directions:
        """Return directions for raw inputs: z = w . ((x - center) / scale) + offset becomes z = w' . x + offset'.

        W' = W / scale[:, None], zero where the scale is zero, and offset' = offset - center @ W'.
        """
        center, scale = (np.asarray(values, dtype=np.float64) for values in (center, scale))
        _check_vector("center", center, self.n_features)
        _check_vector("scale", scale, self.n_features)
        W = np.divide(self.W, scale[:, None], out=np.zeros_like(self.W), where=scale[:, None] != 0)
        return replace(self, W=W, offset=self.offset - center @ W, _inputs=(center, scale))

    def scaled(self, factor: float | Array) -> Directions:
        """Return directions whose projections are multiplied by ``factor``, a number or one per component."""
        inputs = None
        if self._inputs is not None and np.ndim(factor) == 0:
            inputs = self._inputs[0], self._inputs[1] / factor
        return replace(self, W=self.W * factor, offset=self.offset * factor, _inputs=inputs)


def draw(density: Density, n_features: int, n_components: int, rng: np.random.Generator) -> Directions:
    """Draw n_components directions from ``density``, with offsets zero; importance is one unless it has its own."""
    _check_sizes(n_features, n_components)
    W = density.sample(n_features, n_components, rng)
    if np.shape(W) != (n_features, n_components):
        raise InvalidParameterError(
            f"sample must return the shape (n_features, n_components) = {(n_features, n_components)}",
            np.shape(W),
            "Return directions as columns.",
        )
    importance = getattr(density, "importance", None)
    weights = np.ones(n_components) if importance is None else importance(W)
    as_they_are = np.zeros(n_features), np.ones(n_features)
    return Directions(W, np.zeros(n_components), weights, n_components, as_they_are)


def _check_sizes(n_features: int, n_components: int) -> None:
    remedies = "Pass data with at least one column.", "Ask for at least one direction."
    for name, value, remedy in zip(("n_features", "n_components"), (n_features, n_components), remedies, strict=True):
        if not isinstance(value, Integral) or value < 1:
            raise InvalidParameterError(f"{name} must be an integer of at least 1", value, remedy)


def _check_vector(name: str, values: NDArray[Any], length: int) -> None:
    if values.shape != (length,):
        raise InvalidParameterError(f"{name} must have the shape {(length,)}", values.shape, "Pass one entry for each.")


def streams(rng: np.random.Generator, count: int) -> list[np.random.Generator]:
    """Return independent streams seeded from ``rng``, so that each quantity stays nested in its own stream.

    ``rng.spawn`` ignores the state of ``rng`` and refuses the generator of a ``RandomState``.
    """
    return [np.random.default_rng(seed) for seed in rng.integers(2**63, size=(count, 2))]


def _normal_columns(n_features: int, n_components: int, rng: np.random.Generator) -> Array:
    """Draw independent N(0, I) columns one after the other, hence nested."""
    _check_sizes(n_features, n_components)
    return rng.standard_normal((n_components, n_features)).T


def _haar_frame(G: Array) -> Array:
    """Return orthonormal columns that span those of G, with positive diagonal of R in G = QR: Haar for Gaussian G."""
    Q, R = np.linalg.qr(G)
    return Q * np.where(np.diagonal(R) < 0, -1.0, 1.0)


def _sobol_points(n_features: int, n_components: int, rng: np.random.Generator) -> Array:
    """Return the first scrambled Sobol points, strictly inside the unit cube, (n_components, n_features)."""
    from scipy.stats import qmc  # slow to import, and only needed here

    sobol = qmc.Sobol(n_features, bits=_SOBOL_BITS, rng=streams(rng, 1)[0])
    points = sobol.random_base2(int(n_components - 1).bit_length())[:n_components]
    return np.asarray(points + 0.5**_SOBOL_BITS / 2, dtype=np.float64)


def _squared_norms(W: ArrayLike) -> tuple[Array, int]:
    """Return |w|^2 of each column (n_components,), and n_features."""
    columns = np.asarray(W, dtype=np.float64)
    squared_norms: Array = np.einsum("ij,ij->j", columns, columns)
    return squared_norms, columns.shape[0]
