"""What a model is fitted for: losses as small objects.

    minimise over f    1/n sum_i w_i loss(f_i, y_i) + penalties

A loss says what it costs to answer f where the target is y, for rows at once: ``f`` (n_rows, n_outputs), one output for
most losses and one a class for softmax. It gives its value, slope and curvature in f, which targets it takes, and what
the model expects of y given f (the inverse of the link). Section 3.2 and Theorem 4.2 of the paper ask that it be convex
and Lipschitz: logistic, softmax, Huber and pinball are. Squared, squared hinge and Poisson are convex.

>>> Logistic().value(np.zeros((1, 1)), np.ones((1, 1)))
array([0.69314718])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit, log_softmax, softmax, xlogy

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions._kernels import losses as kernels

HUBER_DEVIATIONS = 1.35
_SMOOTHING = 0.01
_LEAST_SHARE = 1e-6  # a class this rare starts no lower
HIGHEST_LOGARITHM = 30.0  # of a mean: beyond it the Poisson loss goes on as a straight line


@dataclass(frozen=True, slots=True)
class Units:
    """How a problem is scaled: targets are (y - centre) / scale inside, and f = shift + stretch (f inside).

    All (n_outputs,).
    """

    centre: Array
    scale: Array
    shift: Array
    stretch: Array


def same_units(n_outputs: int) -> Units:
    """Those of the targets."""
    zero, one = np.zeros(n_outputs), np.ones(n_outputs)
    return Units(zero, one, zero, one)


class Loss:
    """A convex loss. Subclasses give `value`, `slope`, `curvature`, `constant`, and the rest where it differs.

    Attributes
    ----------
    curvature_bound : the least c that no second derivative in any direction exceeds, infinite where there is none
    curved_everywhere : whether the curvature is above zero, so that Newton's method may be used
    straight : whether it has straight pieces, on which a search settles late
    name : in words, for messages and logs
    """

    curvature_bound: ClassVar[float] = float("inf")
    curved_everywhere: ClassVar[bool] = False
    straight: ClassVar[bool] = False
    name: ClassVar[str] = "a loss of its own"

    def value(self, f: Array, y: Array) -> Array:
        """Loss of every row, (n_rows,), for ``f`` and ``y`` (n_rows, n_outputs)."""
        raise NotImplementedError

    def slope(self, f: Array, y: Array) -> Array:
        """Derivatives of the values in f, (n_rows, n_outputs)."""
        raise NotImplementedError

    def curvature(self, f: Array, y: Array) -> Array:
        """Second derivatives in every output, (n_rows, n_outputs): the diagonal of the Hessian of a row."""
        raise NotImplementedError

    def constant(self, y: Array, weight: Array) -> Array:
        """The best answer that ignores the row, (n_outputs,), for ``y`` (n_rows, n_outputs); roughly is enough."""
        raise NotImplementedError

    def mean(self, f: Array) -> Array:
        """What the model expects of y, for ``f`` (n_rows, n_outputs): the inverse of the link."""
        return f

    def check(self, y: Array) -> None:
        """Refuse targets the loss is not made for."""

    def check_more(self, y: Array) -> None:
        """Refuse targets of rows that come later; they need not be enough for a fit of their own."""
        self.check(y)

    def check_range(self, low: Array, high: Array) -> None:
        """Refuse targets whose lowest and highest values (n_outputs,) are enough to tell, where rows are elsewhere."""

    def units(self, mean: Array, spread: Array, intercept: bool) -> Units:
        """How to scale a problem whose targets have that mean and standard deviation (n_outputs,): not at all."""
        return same_units(mean.size)

    def scaled(self, scale: float) -> Loss:
        """The same loss for targets divided by ``scale``."""
        return self

    def kernel(self) -> tuple[int, float, float] | None:
        """Its number in the compiled loops and two parameters there; None for a loss they do not know."""
        return None


class _OfResidual(Loss):
    """A loss of y - f: moving and stretching y moves and stretches f."""

    @property
    def length(self) -> float | None:
        """A distance in the units of the targets that the loss knows, which must mean the same for all of them."""
        return None

    def units(self, mean: Array, spread: Array, intercept: bool) -> Units:
        centre = mean if intercept else np.zeros_like(mean)
        size = spread if intercept else np.hypot(mean, spread)
        if self.length is not None:
            size = np.full_like(size, np.sqrt(np.mean(size**2)))
        return Units(centre, size, centre, size)


@dataclass(frozen=True)
class Squared(_OfResidual):
    """(y - f)^2, summed over the outputs: f is the mean of y."""

    curvature_bound: ClassVar[float] = 2.0
    name: ClassVar[str] = "squared"

    def value(self, f: Array, y: Array) -> Array:
        return np.sum((f - y) ** 2, axis=1)

    def slope(self, f: Array, y: Array) -> Array:
        return 2 * (f - y)

    def curvature(self, f: Array, y: Array) -> Array:
        return np.full_like(f, 2.0)

    def constant(self, y: Array, weight: Array) -> Array:
        return np.average(y, axis=0, weights=weight)

    def kernel(self) -> tuple[int, float, float]:
        return kernels.HUBER, float("inf"), 0.0


@dataclass(frozen=True)
class Huber(_OfResidual):
    """r^2 for residuals up to ``delta``, their tangent beyond: far targets pull no harder than those at delta.

    Parameters
    ----------
    delta : float or None, default=None
        Largest residual that is squared, in the units of the targets. None is 1.35 robust standard deviations of the
        residuals of a first fit, which loses a twentieth of the efficiency where there are no outliers.
    """

    delta: float | None = None
    curvature_bound: ClassVar[float] = 2.0
    straight: ClassVar[bool] = True
    name: ClassVar[str] = "Huber"

    def __post_init__(self) -> None:
        if self.delta is not None and not self.delta > 0:
            raise InvalidParameterError("delta of the Huber loss must be above zero", self.delta, "Use 1.")

    @property
    def length(self) -> float | None:
        return self.delta

    @property
    def reach(self) -> float:
        """delta; where it is still to be found, the size of 1.35 for targets of unit spread."""
        return HUBER_DEVIATIONS if self.delta is None else self.delta

    def value(self, f: Array, y: Array) -> Array:
        size = np.abs(f - y)
        kept = np.minimum(size, self.reach)
        return np.sum(kept * (2 * size - kept), axis=1)

    def slope(self, f: Array, y: Array) -> Array:
        return 2 * np.clip(f - y, -self.reach, self.reach)

    def curvature(self, f: Array, y: Array) -> Array:
        return np.where(np.abs(f - y) <= self.reach, 2.0, 0.0)

    def constant(self, y: Array, weight: Array) -> Array:
        return quantiles(y, weight, 0.5)

    def scaled(self, scale: float) -> Huber:
        return self if self.delta is None else Huber(self.delta / scale)

    def kernel(self) -> tuple[int, float, float]:
        return kernels.HUBER, self.reach, 0.0


@dataclass(frozen=True)
class Pinball(_OfResidual):
    """quantile r for r = y - f above zero, (1 - quantile) |r| below: f is that quantile of y.

    A parabola joins the two lines near zero, so the loss is Lipschitz with a curvature of at most 1 / (2 smoothing).

    Parameters
    ----------
    quantile : float, default=0.5
        Quantile to predict, between 0 and 1.
    smoothing : float or None, default=None
        Half the width of the parabola, in the units of the targets; None is a hundredth of their standard deviation.
        The quantile found is off by at most half the share of targets within it.
    """

    quantile: float = 0.5
    smoothing: float | None = None
    straight: ClassVar[bool] = True
    name: ClassVar[str] = "pinball"

    def __post_init__(self) -> None:
        if not 0 < self.quantile < 1:
            raise InvalidParameterError("quantile must be between 0 and 1", self.quantile, "0.5 is the median.")
        if self.smoothing is not None and not 0 < self.smoothing < np.inf:
            raise InvalidParameterError("smoothing must be above zero", self.smoothing, "Use 0.01 of the spread of y.")

    @property
    def length(self) -> float | None:
        return self.smoothing

    @property
    def width(self) -> float:
        """smoothing, for targets of unit spread where it is None."""
        return _SMOOTHING if self.smoothing is None else self.smoothing

    @property
    def curvature_bound(self) -> float:  # type: ignore[override]
        return 0.5 / self.width

    def value(self, f: Array, y: Array) -> Array:
        r, h = y - f, self.width
        rounded = np.where(np.abs(r) < h, (r * r / h + h) / 2, np.abs(r))
        return np.sum((self.quantile - 0.5) * r + rounded / 2, axis=1)

    def slope(self, f: Array, y: Array) -> Array:
        return 0.5 - self.quantile - np.clip((y - f) / self.width, -1, 1) / 2

    def curvature(self, f: Array, y: Array) -> Array:
        return np.where(np.abs(y - f) < self.width, 0.5 / self.width, 0.0)

    def constant(self, y: Array, weight: Array) -> Array:
        return quantiles(y, weight, self.quantile)

    def scaled(self, scale: float) -> Pinball:
        return Pinball(self.quantile, self.width if self.smoothing is None else self.width / scale)

    def kernel(self) -> tuple[int, float, float]:
        return kernels.PINBALL, self.quantile, self.width


class _OfSign(Loss):
    """A loss of targets 0 and 1, one output each."""

    def check(self, y: Array) -> None:
        if not np.isin(y, (0, 1)).all():
            odd = y[~np.isin(y, (0, 1))][0]
            raise InvalidParameterError(f"targets of the {self.name} loss must be 0 or 1", odd, "Encode the labels.")


@dataclass(frozen=True)
class Logistic(_OfSign):
    """log(1 + exp(f)) - y f for y in {0, 1}: f is the logarithm of the odds, the mean of y is 1 / (1 + exp(-f))."""

    curvature_bound: ClassVar[float] = 0.25
    curved_everywhere: ClassVar[bool] = True
    name: ClassVar[str] = "logistic"

    def value(self, f: Array, y: Array) -> Array:
        return np.sum(np.logaddexp(0, f) - y * f, axis=1)

    def slope(self, f: Array, y: Array) -> Array:
        return expit(f) - y

    def curvature(self, f: Array, y: Array) -> Array:
        return expit(f) * expit(-f)

    def constant(self, y: Array, weight: Array) -> Array:
        share = np.clip(np.average(y, axis=0, weights=weight), _LEAST_SHARE, 1 - _LEAST_SHARE)
        return np.log(share / (1 - share))

    def mean(self, f: Array) -> Array:
        return expit(f)

    def kernel(self) -> tuple[int, float, float]:
        return kernels.LOGISTIC, 0.0, 0.0


@dataclass(frozen=True)
class SquaredHinge(_OfSign):
    """max(0, 1 - s f)^2 with s = 2 y - 1 for y in {0, 1}: a margin of one costs nothing; f above zero says 1."""

    curvature_bound: ClassVar[float] = 2.0
    name: ClassVar[str] = "squared hinge"

    def value(self, f: Array, y: Array) -> Array:
        return np.sum(np.maximum(0, 1 - (2 * y - 1) * f) ** 2, axis=1)

    def slope(self, f: Array, y: Array) -> Array:
        s = 2 * y - 1
        return -2 * s * np.maximum(0, 1 - s * f)

    def curvature(self, f: Array, y: Array) -> Array:
        return np.where((2 * y - 1) * f < 1, 2.0, 0.0)

    def constant(self, y: Array, weight: Array) -> Array:
        return 2 * np.average(y, axis=0, weights=weight) - 1

    def kernel(self) -> tuple[int, float, float]:
        return kernels.SQUARED_HINGE, 0.0, 0.0


@dataclass(frozen=True)
class Softmax(Loss):
    """log sum_k exp(f_k) - f_y for one of several classes, y as zeros and a one: f are logarithms of odds."""

    curvature_bound: ClassVar[float] = 0.5
    name: ClassVar[str] = "softmax"

    def value(self, f: Array, y: Array) -> Array:
        return -np.sum(y * log_softmax(f, axis=1), axis=1)

    def slope(self, f: Array, y: Array) -> Array:
        return softmax(f, axis=1) - y

    def curvature(self, f: Array, y: Array) -> Array:
        p = softmax(f, axis=1)
        return p * (1 - p)

    def constant(self, y: Array, weight: Array) -> Array:
        logarithm = np.log(np.maximum(np.average(y, axis=0, weights=weight), _LEAST_SHARE))
        return logarithm - logarithm.mean()

    def mean(self, f: Array) -> Array:
        return softmax(f, axis=1)

    def check(self, y: Array) -> None:
        rows = y if y.ndim == 2 else y[:, None]
        fine = np.isin(rows, (0, 1)).all(axis=1) & (rows.sum(axis=1) == 1) & (rows.shape[1] > 1)
        if not fine.all():
            raise InvalidParameterError(
                "targets of the softmax loss must be rows of zeros with a single one",
                rows[~fine][0].tolist(),
                "Encode the labels.",
            )

    def kernel(self) -> tuple[int, float, float]:
        return kernels.SOFTMAX, 0.0, 0.0


@dataclass(frozen=True)
class Poisson(Loss):
    """exp(f) - y f + y log y - y for counts y >= 0, half the deviance: f is the logarithm of the mean of y."""

    name: ClassVar[str] = "Poisson"

    def value(self, f: Array, y: Array) -> Array:
        beyond = np.maximum(f - HIGHEST_LOGARITHM, 0)
        mean = np.exp(np.minimum(f, HIGHEST_LOGARITHM)) * (1 + beyond)
        return np.sum(mean - y * f + xlogy(y, y) - y, axis=1)

    def slope(self, f: Array, y: Array) -> Array:
        return np.exp(np.minimum(f, HIGHEST_LOGARITHM)) - y

    def curvature(self, f: Array, y: Array) -> Array:
        return np.where(f < HIGHEST_LOGARITHM, np.exp(np.minimum(f, HIGHEST_LOGARITHM)), 0.0)

    def constant(self, y: Array, weight: Array) -> Array:
        return np.log(np.maximum(np.average(y, axis=0, weights=weight), _LEAST_SHARE))

    def mean(self, f: Array) -> Array:
        return np.exp(np.minimum(f, HIGHEST_LOGARITHM))

    def check_more(self, y: Array) -> None:
        if (y < 0).any():
            raise InvalidParameterError(
                "counts must not be negative", float(y.min()), "Use another loss for such targets."
            )

    def check(self, y: Array) -> None:
        self.check_range(y.min(axis=0), y.max(axis=0))

    def check_range(self, low: Array, high: Array) -> None:
        self.check_more(low)
        if not (high > 0).all():
            raise InvalidParameterError("some counts must be above zero", "zeros only", "There is nothing to fit.")

    def units(self, mean: Array, spread: Array, intercept: bool) -> Units:
        if not intercept:
            return super().units(mean, spread, intercept)
        mean = np.where(mean > 0, mean, 1.0)
        return Units(np.zeros_like(mean), mean, np.log(mean), np.ones_like(mean))

    def kernel(self) -> tuple[int, float, float]:
        return kernels.POISSON, HIGHEST_LOGARITHM, 0.0


def quantiles(y: Array, weight: Array, quantile: float) -> Array:
    """A quantile of every column of ``y`` under weights: the least value with that share of the weight at or below."""
    order = np.argsort(y, axis=0, kind="stable")
    below = np.cumsum(weight[order], axis=0)
    at = np.argmax(below >= quantile * below[-1], axis=0)
    return np.take_along_axis(y, np.take_along_axis(order, at[None], axis=0), axis=0)[0]
