"""Losses of the residual y - f: squared, Huber, pinball."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions._kernels import shapes as kernels

from .base import Loss, Units

HUBER_DEVIATIONS = 1.35
_SMOOTHING = 0.01


class _OfResidual(Loss):
    """Loss of y - f: shifting and scaling y shifts and scales f."""

    @property
    def length(self) -> float | None:
        """Length in the units of the targets, if the loss has one; all outputs then share their scale."""
        return None

    def without_offset(self, y: Array, offset: Array, weight: Array) -> tuple[Array, Array]:
        return y - offset, weight

    def units(self, mean: Array, spread: Array, intercept: bool) -> Units:
        centre = mean if intercept else np.zeros_like(mean)
        size = spread if intercept else np.hypot(mean, spread)
        if self.length is not None:
            size = np.full_like(size, np.sqrt(np.mean(size**2)))
        return Units(centre, size, centre, size)


@dataclass(frozen=True)
class Squared(_OfResidual):
    """(y - f)^2, summed over the outputs: f is the mean of y."""

    closed_form: ClassVar[bool] = True
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
    """r^2 for residuals up to ``delta`` and the tangent beyond, so that the slope stays bounded.

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
        """delta, or 1.35 for targets of unit spread if it is not yet estimated."""
        return HUBER_DEVIATIONS if self.delta is None else self.delta

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        """2 delta, in the units of the targets: the slope of r^2 at delta."""
        return 2 * self.reach

    @property
    def needs_spread(self) -> bool:
        return self.delta is None

    def for_spread(self, spread: float) -> Huber:
        """Return the loss whose delta is 1.35 standard deviations; 1.35 where these are zero."""
        return Huber(HUBER_DEVIATIONS * (spread if spread > 0 else 1.0))

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
    symmetric: ClassVar[bool] = False
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
        """smoothing, or its default for targets of unit spread."""
        return _SMOOTHING if self.smoothing is None else self.smoothing

    @property
    def curvature_bound(self) -> float:  # type: ignore[override]
        return 0.5 / self.width

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        return max(self.quantile, 1 - self.quantile)

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


@dataclass(frozen=True)
class Quantiles(_OfResidual):
    """Pinball losses of several quantiles, summed: one output each, in order for every row.

    The answers are the outputs in rising order. For rows whose outputs cross, the order lowers the sum of the losses
    whatever y is: to exchange f_i > f_j of levels t_i < t_j changes it by (t_i - t_j)(f_i - f_j) < 0.

    Parameters
    ----------
    levels : tuple of float
        Rising, between 0 and 1.
    smoothing : float or None, default=None
        As in `Pinball`.
    """

    levels: tuple[float, ...]
    smoothing: float | None = None
    straight: ClassVar[bool] = True
    symmetric: ClassVar[bool] = False
    name: ClassVar[str] = "pinball"

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(float(level) for level in self.levels))
        rising = all(low < high for low, high in pairwise((0.0, *self.levels, 1.0)))
        if not (self.levels and rising):
            rule = "levels of quantiles must rise, between 0 and 1"
            raise InvalidParameterError(rule, self.levels, "For example [0.05, 0.5, 0.95].")
        self._each  # noqa: B018  checks the smoothing

    @property
    def _each(self) -> Pinball:
        return Pinball(0.5, self.smoothing)

    @property
    def length(self) -> float | None:
        return self.smoothing

    @property
    def curvature_bound(self) -> float:  # type: ignore[override]
        return self._each.curvature_bound

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        """Of one output."""
        return max(max(level, 1 - level) for level in self.levels)

    @property
    def n_levels(self) -> int:
        return len(self.levels)

    @property
    def _tilt(self) -> Array:
        """What the slope of every output adds to that of the median, (n_levels,)."""
        return 0.5 - np.array(self.levels)

    def value(self, f: Array, y: Array) -> Array:
        return self._each.value(f, y) - np.sum(self._tilt * (y - f), axis=1)

    def slope(self, f: Array, y: Array) -> Array:
        return self._each.slope(f, y) + self._tilt

    def curvature(self, f: Array, y: Array) -> Array:
        return self._each.curvature(f, y)

    def constant(self, y: Array, weight: Array) -> Array:
        return np.array([quantiles(y[:, [at]], weight, level)[0] for at, level in enumerate(self.levels)])

    def mean(self, f: Array) -> Array:
        return np.sort(f, axis=1)

    def middle(self, f: Array) -> Array:
        return self.mean(f)[:, [int(np.argmin(np.abs(self._tilt)))]]

    def targets(self, y: Array) -> Array:
        if y.shape[1] != 1:
            rule = "several quantiles are those of a single target"
            raise InvalidParameterError(rule, f"{y.shape[1]} targets", "Fit a model per target.")
        return np.repeat(y, len(self.levels), axis=1)

    def scaled(self, scale: float) -> Quantiles:
        return Quantiles(self.levels, self._each.scaled(scale).smoothing)

    def kernel(self) -> tuple[int, tuple[float, ...], float]:
        return kernels.PINBALL, self.levels, self._each.width


def quantiles(y: Array, weight: Array, quantile: float) -> Array:
    """Return a weighted quantile of every column of ``y``: the least value with that share of weight at or below."""
    order = np.argsort(y, axis=0, kind="stable")
    below = np.cumsum(weight[order], axis=0)
    at = np.argmax(below >= quantile * below[-1], axis=0)
    return np.take_along_axis(y, np.take_along_axis(order, at[None], axis=0), axis=0)[0]
