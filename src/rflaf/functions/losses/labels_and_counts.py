"""Losses of class labels, of counts and of amounts: logistic, squared hinge, softmax; Poisson, Tweedie, Gamma."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy  # its parts are imported on first use

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions._kernels import shapes as kernels

from .base import LEAST_SHARE, Loss, Units

HIGHEST_LOGARITHM = 88.0  # of a predicted count: more is no number in single precision
_STRAIGHT_ABOVE = 30.0  # in units of the mean count: the loss continues as a straight line
_CURVED = (-30.0, 30.0)  # f of the Tweedie and Gamma losses, which continue as straight lines
_MOST_OFFSET = 600.0  # beyond which any mean is more than can be predicted
_MOST_COUNT = 1e34  # of which some thousandfold can still be predicted
_MOST_WITHOUT_INTERCEPT = 1e10  # mean count, which is not scaled then


class _OfSign(Loss):
    """Loss of targets 0 and 1, one output each."""

    def check(self, y: Array) -> None:
        if not np.isin(y, (0, 1)).all():
            odd = y[~np.isin(y, (0, 1))][0]
            raise InvalidParameterError(f"targets of the {self.name} loss must be 0 or 1", odd, "Encode the labels.")


@dataclass(frozen=True)
class Logistic(_OfSign):
    """log(1 + exp(f)) - y f for y in {0, 1}: f is the logarithm of the odds, the mean of y is 1 / (1 + exp(-f))."""

    curvature_bound: ClassVar[float] = 0.25
    lipschitz: ClassVar[float] = 1.0
    curved_everywhere: ClassVar[bool] = True
    name: ClassVar[str] = "logistic"

    def value(self, f: Array, y: Array) -> Array:
        return np.sum(np.logaddexp(0, f) - y * f, axis=1)

    def slope(self, f: Array, y: Array) -> Array:
        return scipy.special.expit(f) - y

    def curvature(self, f: Array, y: Array) -> Array:
        return scipy.special.expit(f) * scipy.special.expit(-f)

    def constant(self, y: Array, weight: Array) -> Array:
        share = np.clip(np.average(y, axis=0, weights=weight), LEAST_SHARE, 1 - LEAST_SHARE)
        return np.log(share / (1 - share))

    def mean(self, f: Array) -> Array:
        return scipy.special.expit(f)

    def kernel(self) -> tuple[int, float, float]:
        return kernels.LOGISTIC, 0.0, 0.0


@dataclass(frozen=True)
class SquaredHinge(_OfSign):
    """max(0, 1 - s f)^2 with s = 2 y - 1 for y in {0, 1}: zero from a margin of one on; f above zero predicts 1."""

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
    """log sum_k exp(f_k) - f_y for one of several classes, y one-hot: f are log odds."""

    curvature_bound: ClassVar[float] = 0.5
    lipschitz: ClassVar[float] = 2**0.5  # |p - e_y|, Euclidean, where another class is certain
    name: ClassVar[str] = "softmax"

    def value(self, f: Array, y: Array) -> Array:
        return -np.sum(y * scipy.special.log_softmax(f, axis=1), axis=1)

    def slope(self, f: Array, y: Array) -> Array:
        return scipy.special.softmax(f, axis=1) - y

    def value_and_slope(self, f: Array, y: Array) -> tuple[Array, Array]:
        f = f - f.max(axis=1, keepdims=True)
        p = np.exp(f)
        total = p.sum(axis=1)
        return np.log(total) - np.einsum("io,io->i", y, f), p / total[:, None] - y

    def curvature(self, f: Array, y: Array) -> Array:
        p = scipy.special.softmax(f, axis=1)
        return p * (1 - p)

    def constant(self, y: Array, weight: Array) -> Array:
        logarithm = np.log(np.maximum(np.average(y, axis=0, weights=weight), LEAST_SHARE))
        return logarithm - logarithm.mean()

    def mean(self, f: Array) -> Array:
        return scipy.special.softmax(f, axis=1)

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


class _OfLogarithm(Loss):
    """Loss of targets of at least zero: f is the logarithm of their mean."""

    symmetric: ClassVar[bool] = False
    least: ClassVar[float] = 0.0
    offset_weighs: ClassVar[bool] = True
    what: ClassVar[str] = "targets"

    def constant(self, y: Array, weight: Array) -> Array:
        return np.log(np.maximum(np.average(y, axis=0, weights=weight), LEAST_SHARE))

    def mean(self, f: Array) -> Array:
        return np.exp(np.minimum(f, HIGHEST_LOGARITHM))

    def check_more(self, y: Array) -> None:
        if (y < 0).any():
            raise InvalidParameterError(
                f"{self.what} must not be negative", float(y.min()), "Use another loss for such targets."
            )

    def check(self, y: Array) -> None:
        self.check_range(y.min(axis=0), y.max(axis=0))

    def check_range(self, low: Array, high: Array) -> None:
        self.check_more(low)
        if not (high > 0).all():
            raise InvalidParameterError(
                f"some {self.what} must be above zero", "zeros only", "There is nothing to fit."
            )
        if not (high <= _MOST_COUNT).all():
            rule = f"{self.what} must be at most {_MOST_COUNT:g}"
            raise InvalidParameterError(rule, float(high.max()), "Divide them by a constant.")

    def units(self, mean: Array, spread: Array, intercept: bool) -> Units:
        if not intercept:
            if not (mean <= _MOST_WITHOUT_INTERCEPT).all():
                one = self.what.removesuffix("s")
                rule = f"without an intercept the mean {one} must be at most {_MOST_WITHOUT_INTERCEPT:g}"
                raise InvalidParameterError(rule, float(mean.max()), f"Fit an intercept, or divide the {self.what}.")
            return super().units(mean, spread, intercept)
        mean = np.where(mean > 0, mean, 1.0)
        return Units(np.zeros_like(mean), mean, np.log(mean), np.ones_like(mean))

    def without_offset(self, y: Array, offset: Array, weight: Array) -> tuple[Array, Array]:
        """Return rates y exp(-offset), and the weights under which their loss at f is that of y at f + offset."""
        return y * np.exp(-offset), weight * np.exp((2 - self.variance_power) * offset)[:, 0]

    def with_offset(self, mean: Array, offset: Array) -> Array:
        most = np.exp(HIGHEST_LOGARITHM)
        return np.minimum(mean * np.exp(np.minimum(offset, _MOST_OFFSET)), most)

    def error_size(self, offset: Array) -> Array:
        """Return exp((p / 2 - 1) offset): rates of larger exposures vary less, by the variance of the loss."""
        return np.exp(np.clip((self.variance_power / 2 - 1) * offset, -_MOST_OFFSET, _MOST_OFFSET))

    def deviation_with_offset(self, deviation: Array, offset: Array) -> Array:
        offset = np.minimum(offset, _MOST_OFFSET)  # of both factors alike
        return self.with_offset(deviation * self.error_size(offset), offset)

    @property
    def variance_power(self) -> float:
        """p of the variance of y, in proportion to the p-th power of its mean."""
        raise NotImplementedError


@dataclass(frozen=True)
class Poisson(_OfLogarithm):
    """exp(f) - y f + y log y - y for counts y >= 0, half the deviance: f is the logarithm of the mean of y."""

    name: ClassVar[str] = "Poisson"
    what: ClassVar[str] = "counts"

    def value(self, f: Array, y: Array) -> Array:
        beyond = np.maximum(f - _STRAIGHT_ABOVE, 0)
        mean = np.exp(np.minimum(f, _STRAIGHT_ABOVE)) * (1 + beyond)
        return np.sum(mean - y * f + scipy.special.xlogy(y, y) - y, axis=1)

    def slope(self, f: Array, y: Array) -> Array:
        return np.exp(np.minimum(f, _STRAIGHT_ABOVE)) - y

    def curvature(self, f: Array, y: Array) -> Array:
        return np.where(f < _STRAIGHT_ABOVE, np.exp(np.minimum(f, _STRAIGHT_ABOVE)), 0.0)

    @property
    def variance_power(self) -> float:
        return 1.0

    def kernel(self) -> tuple[int, float, float]:
        return kernels.POISSON, _STRAIGHT_ABOVE, 0.0


@dataclass(frozen=True)
class Tweedie(_OfLogarithm):
    """exp((2 - p) f) / (2 - p) - y exp((1 - p) f) / (1 - p) less its minimum over f, half the deviance, for y >= 0.

    f is the logarithm of the mean m of y, whose variance is in proportion to m^p: between 1, counts, and 2, `Gamma`,
    a sum of a random number of positive amounts, such as claims, with exact zeros.

    Parameters
    ----------
    power : float, default=1.5
        p, between 1 and 2, without either.
    """

    power: float = 1.5
    name: ClassVar[str] = "Tweedie"

    def __post_init__(self) -> None:
        if not 1 < self.power < 2:
            rule = "power of the Tweedie loss must be between 1 and 2, without either"
            raise InvalidParameterError(rule, self.power, "1 is Poisson(), 2 is Gamma().")

    @property
    def variance_power(self) -> float:
        return self.power

    def value(self, f: Array, y: Array) -> Array:
        inside, a, b = np.clip(f, *_CURVED), 2 - self.power, 1 - self.power
        lowest = y**a * (1 / a - 1 / b)
        curved = np.exp(a * inside) / a - y * np.exp(b * inside) / b - lowest
        return np.sum(curved + (f - inside) * self.slope(f, y), axis=1)

    def slope(self, f: Array, y: Array) -> Array:
        inside = np.clip(f, *_CURVED)
        return np.exp((2 - self.power) * inside) - y * np.exp((1 - self.power) * inside)

    def curvature(self, f: Array, y: Array) -> Array:
        inside, a, b = np.clip(f, *_CURVED), 2 - self.power, 1 - self.power
        return np.where(f == inside, a * np.exp(a * inside) - b * y * np.exp(b * inside), 0.0)

    def kernel(self) -> tuple[int, float, float]:
        return kernels.TWEEDIE, self.power, 0.0


@dataclass(frozen=True)
class Gamma(_OfLogarithm):
    """y exp(-f) + f - log y - 1 for y > 0, half the deviance: f is the logarithm of the mean, errors are relative."""

    name: ClassVar[str] = "Gamma"

    @property
    def variance_power(self) -> float:
        return 2.0

    def check_more(self, y: Array) -> None:
        if not (y > 0).all():
            rule, remedy = "targets of the Gamma loss must be above zero", "Use Tweedie(1.5) for targets with zeros."
            raise InvalidParameterError(rule, float(y.min()), remedy)

    def value(self, f: Array, y: Array) -> Array:
        inside = np.clip(f, *_CURVED)
        return np.sum(y * np.exp(-inside) + inside - np.log(y) - 1 + (f - inside) * self.slope(f, y), axis=1)

    def slope(self, f: Array, y: Array) -> Array:
        return 1 - y * np.exp(-np.clip(f, *_CURVED))

    def curvature(self, f: Array, y: Array) -> Array:
        inside = np.clip(f, *_CURVED)
        return np.where(f == inside, y * np.exp(-inside), 0.0)

    def kernel(self) -> tuple[int, float, float]:
        return kernels.TWEEDIE, 2.0, 0.0
