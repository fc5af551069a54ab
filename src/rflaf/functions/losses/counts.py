"""The Poisson loss of counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import xlogy

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions._kernels import losses as kernels

from .base import LEAST_SHARE, Loss, Units

HIGHEST_LOGARITHM = 30.0  # of a mean: above it the loss continues as a straight line


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
        return np.log(np.maximum(np.average(y, axis=0, weights=weight), LEAST_SHARE))

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
