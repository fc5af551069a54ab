"""The last layer of a fitted model: a ridge on its features, kept as sums.

f(x) = b + z(x) . v is linear in v, so the sums of [z | 1 | y] over the rows suffice for the variance of a prediction
and for refitting the model on fewer components, without the rows.

    variance(x) = noise (1 + h(x)),     h(x) = ( (z - mean)' (G + ridge I)^-1 (z - mean) + 1 ) / n

is the variance of a new observation at x under the posterior of v given directions, curves and activations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rflaf.errors import Array

from .greedy import Selection, select_greedily
from .normal_equations import NormalEquations
from .ridge import RidgeFactor, RidgeSolution, RidgeSystem


@dataclass(frozen=True)
class LastLayer:
    """Sums of [z | 1 | y] in the units of the targets, the ridge, and the variance of the noise (n_outputs,)."""

    equations: NormalEquations
    ridge: float
    noise: Array
    intercept: bool = True

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    @cached_property
    def _factor(self) -> RidgeFactor:
        return self.equations.system(self.intercept).factor(self.ridge)

    def variance(self, z: Array) -> Array:
        """Variance of a new observation where the features are ``z`` (n_components, n_rows): (n_rows, n_outputs)."""
        system = self._factor.system
        leverage = self._factor.hat_diagonal(z) * (system.weight / system.count)  # weights may come in any unit
        return (1 + leverage)[:, None] * self.noise

    @cached_property
    def path(self) -> Selection:
        """The components in the order in which they lower the error most, of standardised targets; at least one."""
        size = np.sqrt(self._factor.system.y_square)
        standardised = unscale(self.equations, np.zeros_like(size), 1 / np.where(size > 0, size, 1.0))
        path = select_greedily(standardised, self.equations.n_components, self.ridge, self.intercept)
        return path.at_least_one()

    def take(self, components: Array) -> LastLayer:
        """Return the last layer of some of the components; the noise grows by the loss of fit."""
        fewer = LastLayer(self.equations.take(components), self.ridge, self.noise, self.intercept)
        lost = fewer.solve().mean_residual - self.solve().mean_residual
        return LastLayer(fewer.equations, self.ridge, self.noise + np.maximum(lost, 0), self.intercept)

    def solve(self) -> RidgeSolution:
        """Output weights and intercept."""
        return self._factor.solution()

    def after(self, equations: NormalEquations, share: float) -> LastLayer:
        """Return the last layer for later sums, of whose weight the original rows have ``share``.

        The excess over the in-sample noise applies only to the original rows.
        """
        later = replace(self, equations=equations)
        beyond = np.maximum(self.noise - self._noise_of_sums, 0)
        return replace(later, noise=later._noise_of_sums + share * beyond)

    @cached_property
    def _noise_of_sums(self) -> Array:
        factor = self._factor
        return noise_variance(factor.system, factor.solution().mean_residual, factor.degrees_of_freedom)


def noise_variance(system: RidgeSystem, mean_residual: Array, degrees_of_freedom: float) -> Array:
    """Variance of the noise by output, by generalised cross-validation of a fit."""
    left = max(1 - (degrees_of_freedom + system.n_intercepts) / system.count, 1 / system.count)
    return mean_residual / left**2


def unscale(equations: NormalEquations, centre: Array, scale: Array) -> NormalEquations:
    """The equations for targets centre + scale y."""
    moments, one = equations.moments.copy(), equations.n_components
    moments[:, one + 1 :] = scale * moments[:, one + 1 :] + centre * moments[:, [one]]
    moments[one + 1 :] = scale[:, None] * moments[one + 1 :] + centre[:, None] * moments[one]
    return replace(equations, moments=moments)


def unscale_layer(layer: LastLayer, centre: Array, scale: Array) -> LastLayer | None:
    """The layer for targets centre + scale y; None where they are too large for sums of their squares."""
    with np.errstate(over="ignore", invalid="ignore"):
        equations = unscale(layer.equations, centre, scale)
    if not np.isfinite(equations.moments).all():
        return None
    return replace(layer, equations=equations, noise=layer.noise * scale**2)
