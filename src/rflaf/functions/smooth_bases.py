"""Bases without a grid: orthogonal polynomials, and activations that are not learned at all.

`PolynomialBasis` is the polynomial basis of the model's first paper (arXiv 2411.19468), in orthogonal form.
`FixedActivation` is a basis of one function, so that ``basis="relu"`` beside ``basis="bspline"`` compares a fixed
activation with a learned one, all else equal. Both are compiled to cubic pieces (`rflaf.functions.pieces`), with an
error of at most half the tolerance asked for, and keep the value of the nearer end outside their interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy  # its parts are imported on first use
from numpy.typing import ArrayLike

from rflaf.errors import Array, InvalidParameterError

from .pieces import Pieces, check_interval, interpolated

_HIGHEST_DEGREE = 24
_SHARE = 0.5  # of a tolerance that cubic pieces may use


@dataclass(frozen=True, slots=True)
class PolynomialBasis:
    r"""Legendre polynomials over the interval, B_k(z) = sqrt(2k + 1) P_k(x) with x from -1 to 1, k = 0, ..., degree.

    They are orthonormal, mean B_j B_k = 1 if j = k and 0 otherwise for z uniform over the interval, and span all
    polynomials up to their degree. Outside, z is clipped to the interval: polynomials themselves grow without bound.

    Parameters
    ----------
    degree : int, default=15
        Highest degree, from 1 to 24; there are degree + 1 functions.
    interval : (float, float), default=(-3.0, 3.0)
        Where the polynomials are orthogonal.

    >>> PolynomialBasis(degree=2, interval=(-1.0, 1.0)).values(1.0).round(4)
    array([1.    , 1.7321, 2.2361])
    """

    degree: int = 15
    interval: tuple[float, float] = (-3.0, 3.0)

    def __post_init__(self) -> None:
        whole = isinstance(self.degree, int | np.integer) and not isinstance(self.degree, bool)
        if not whole or not 1 <= self.degree <= _HIGHEST_DEGREE:
            raise InvalidParameterError(
                f"the degree of polynomials must be a whole number from 1 to {_HIGHEST_DEGREE}",
                self.degree,
                "Use BSplineBasis for more functions.",
            )
        check_interval(self.interval, "The default is (-3.0, 3.0).")

    @property
    def n_basis(self) -> int:
        return int(self.degree) + 1

    def values(self, z: ArrayLike) -> Array:
        x = self._inside(z)
        return np.polynomial.legendre.legvander(x, self.degree).reshape(*x.shape, self.n_basis) * _norms(self.n_basis)

    def slopes(self, z: ArrayLike) -> Array:
        z, (low, high) = np.asarray(z, dtype=float), self.interval
        slopes = _derived(self.n_basis, self._inside(z), 1) * (2 / (high - low))
        return slopes * ((z > low) & (z < high))[..., None]

    def penalty(self) -> Array:
        """Mean over the interval of B_i'' B_j'', in units of a grid of as many points: h^4, h = 2 / degree."""
        nodes, weights = np.polynomial.legendre.leggauss(self.n_basis)
        curved = _derived(self.n_basis, nodes, 2) * (2 / self.degree) ** 2
        return (curved.T * (weights / 2)) @ curved

    def pieces(self, a: Array | None = None, tolerance: float = 1e-6) -> Pieces:
        return _compiled(self, tolerance)

    def _inside(self, z: ArrayLike) -> Array:
        low, high = self.interval
        return np.clip((2 * np.asarray(z, dtype=float) - low - high) / (high - low), -1.0, 1.0)


def _relu_slope(z: Array) -> Array:
    return (z > 0).astype(float)


def _normal_density(z: Array) -> Array:
    return np.asarray(np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))


def _normal_share(z: Array) -> Array:
    return np.asarray(scipy.special.ndtr(z))


def _expit(z: Array) -> Array:
    return np.asarray(scipy.special.expit(z))


_Function = Callable[[Array], Array]
# Name -> (function, slope, whether it is constant far from zero).
_FIXED: dict[str, tuple[_Function, _Function, bool]] = {
    "relu": (lambda z: np.maximum(z, 0), _relu_slope, False),
    "cos": (np.cos, lambda z: -np.sin(z), False),
    "sin": (np.sin, np.cos, False),
    "tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2, True),
    "sigmoid": (_expit, lambda z: _expit(z) * _expit(-z), True),
    "erf": (lambda z: scipy.special.erf(z), lambda z: 2 / np.sqrt(np.pi) * np.exp(-(z**2)), True),
    "gelu": (lambda z: z * _normal_share(z), lambda z: _normal_share(z) + z * _normal_density(z), False),
    "silu": (lambda z: z * _expit(z), lambda z: _expit(z) * (1 + z * _expit(-z)), False),
    "softplus": (lambda z: np.logaddexp(0, z), _expit, False),
    "identity": (lambda z: z, np.ones_like, False),
}
FIXED_ACTIVATIONS = tuple(_FIXED)


@dataclass(frozen=True, slots=True)
class FixedActivation:
    """An activation that is not learned, as a basis of one function: the random feature model of that activation.

    Only its scale is free, which the output weights share, so nothing is left to learn but these.

    | name | sigma(z) | name | sigma(z) |
    | --- | --- | --- | --- |
    | `relu` | max(z, 0) | `erf` | 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to z |
    | `cos`, `sin` | cos z, sin z | `gelu` | z Phi(z), Phi the normal distribution function |
    | `tanh` | tanh z | `silu` | z / (1 + exp(-z)) |
    | `sigmoid` | 1 / (1 + exp(-z)) | `softplus` | log(1 + exp z) |
    | `identity` | z, a linear model | | |

    z = w . x / bandwidth, of spread one under ``bandwidth="auto"``: a smaller bandwidth makes cosines faster and
    sigmoids steeper, and does nothing to a ReLU but scale it. Outside the interval the activation keeps the value
    of the nearer end, as every activation of this package does; ``fit`` warns if many projections lie there and the
    function is not constant anyway.

    Parameters
    ----------
    function : str or callable
        A name of the table, or a continuous function that maps an array to one of the same shape. A callable cannot be
        saved to a model file, which holds no code; exports to C and ONNX hold its values.
    interval : (float, float), default=(-16.0, 16.0)
        Where the activation is followed. A kink must be at its middle, or at a quarter, an eighth and so on.

    >>> FixedActivation("relu").values([-1.0, 0.5, 99.0])[:, 0]
    array([ 0. ,  0.5, 16. ])
    """

    function: str | _Function
    interval: tuple[float, float] = (-16.0, 16.0)

    def __post_init__(self) -> None:
        if not callable(self.function) and self.function not in _FIXED:
            listed = ", ".join(map(repr, _FIXED))
            raise InvalidParameterError(
                f"a fixed activation must be {listed} or a callable", self.function, "Use 'relu'."
            )
        check_interval(self.interval, "The default is (-16.0, 16.0).")
        if callable(self.function):
            _check_function(self.function, self.interval)
        self.pieces()

    @property
    def n_basis(self) -> int:
        return 1

    @property
    def constant_outside(self) -> bool:
        """Whether the function itself is constant, to rounding, where its interval ends."""
        return isinstance(self.function, str) and _FIXED[self.function][2]

    def values(self, z: ArrayLike) -> Array:
        function = self.function if callable(self.function) else _FIXED[self.function][0]
        return np.asarray(function(np.clip(np.asarray(z, dtype=float), *self.interval)), dtype=float)[..., None]

    def slopes(self, z: ArrayLike) -> Array:
        if callable(self.function):
            return self.pieces().slopes(z)
        z, (low, high) = np.asarray(z, dtype=float), self.interval
        slopes = np.asarray(_FIXED[self.function][1](np.clip(z, low, high)), dtype=float)
        return (slopes * ((z > low) & (z < high)))[..., None]

    def penalty(self) -> Array:
        return np.zeros((1, 1))

    def pieces(self, a: Array | None = None, tolerance: float = 1e-6) -> Pieces:
        return _compiled(self, tolerance)


@lru_cache(maxsize=16)
def _compiled(basis: PolynomialBasis | FixedActivation, tolerance: float) -> Pieces:
    return interpolated(basis.values, basis.interval, _SHARE * tolerance, repr(basis))


def _check_function(function: _Function, interval: tuple[float, float]) -> None:
    z = np.linspace(*interval, 33)
    values = np.asarray(function(z))
    if values.shape != z.shape or values.dtype.kind not in "fiu" or not np.isfinite(values).all():
        raise InvalidParameterError(
            "a callable activation must map an array to one of finite numbers of the same shape",
            function,
            "Test it on np.linspace over the interval.",
        )


def _norms(n_basis: int) -> Array:
    return np.sqrt(2.0 * np.arange(n_basis) + 1)


def _derived(n_basis: int, x: Array, order: int) -> Array:
    """Return derivatives of the normalised polynomials in x from -1 to 1, shape ``x.shape + (n_basis,)``."""
    coefficients = np.polynomial.legendre.legder(np.diag(_norms(n_basis)), order)
    return np.moveaxis(np.polynomial.legendre.legval(x, coefficients), 0, -1)
