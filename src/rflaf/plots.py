"""Pictures of what was learned, as scikit-learn Displays: ``from_estimator`` computes, ``plot`` draws.

Needs the extra ``plots``. Colours are the colour-blind-safe ones of Okabe and Ito.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from .errors import MissingExtraError

Array = NDArray[Any]
BLUE, ORANGE, GREEN, VERMILION, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#7F7F7F"


def require_matplotlib() -> Any:
    """``matplotlib.pyplot``, or an error that names the extra to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError("plots", "matplotlib", "plots") from error
    return plt


@dataclass
class ActivationDisplay:
    """A learned shared activation with its standard error, over the density of the projections.

    Attributes
    ----------
    z, value, error : (n_points,) grid, activation and its pointwise standard error
    edges, density : histogram of the projections w_m . x + b_m of the rows given; empty where none were
    ax_, figure_ : set by `plot`
    """

    z: Array
    value: Array
    error: Array
    edges: Array
    density: Array

    @classmethod
    def from_estimator(cls, estimator: Any, X: ArrayLike | None = None, *, ax: Any = None, n_points: int = 400) -> Self:
        """Compute and draw the activation of a fitted estimator; ``X`` adds the density of its projections."""
        check_is_fitted(estimator)
        activation, directions = estimator.activation_, estimator.model_.directions
        if activation.coefficients.shape[0] > 1:
            raise ValueError(
                "ActivationDisplay draws a shared activation; this model has one a component. "
                "Use ActivationBankDisplay.from_estimator."
            )
        low, high = activation.basis.interval
        z = np.linspace(low, high, n_points)
        edges = density = np.empty(0)
        if X is not None:
            u = np.asarray(X, dtype=float)[:2000] @ directions.W + directions.offset
            density, edges = np.histogram(u, bins=60, range=(low, high), density=True)
        return cls(z, activation(z), activation.standard_error(z), edges, density).plot(ax=ax)

    def plot(self, ax: Any = None, *, label: str | None = None, color: str = BLUE) -> Self:
        """Draw on ``ax``, or on a new figure."""
        if ax is None:
            _, ax = require_matplotlib().subplots(figsize=(5, 3.2), layout="constrained")
        if self.density.size:
            height = np.ptp(self.value) * 0.25 * self.density / self.density.max()
            base = self.value.min() - 0.1 * np.ptp(self.value)
            ax.stairs(base + height, self.edges, baseline=base, fill=True, color=GREY, alpha=0.35, label="projections")
        ax.plot(self.z, self.value, color=color, lw=2, label=label or "learned activation")
        ax.fill_between(
            self.z, self.value - 2 * self.error, self.value + 2 * self.error, color=color, alpha=0.2, lw=0
        )  # fmt: skip
        ax.set(xlabel="projection z = w . x + b", ylabel="activation")
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass
class ActivationBankDisplay:
    """The activations of the components that matter most, each over its own projection.

    Attributes
    ----------
    z : (n_points,) grid; value : (n_shown, n_points), centred contributions v_m sigma_m(z) to the first output
    component : (n_shown,) indices, the most important first; share : (n_shown,) of the summed spreads
    axes_, figure_ : set by `plot`
    """

    z: Array
    value: Array
    component: Array
    share: Array

    @classmethod
    def from_estimator(cls, estimator: Any, X: ArrayLike, *, n_shown: int = 8, n_points: int = 200) -> Self:
        """Rank the components by the spread of their contribution over rows ``X`` and draw the first ``n_shown``."""
        check_is_fitted(estimator)
        model = estimator.model_
        contribution = model.features(np.asarray(X, dtype=float)[:2000]) * model.v[:, 0]
        spread = contribution.std(axis=0)
        component = np.argsort(-spread)[:n_shown]
        low, high = model.activation.basis.interval
        z = np.linspace(low, high, n_points)
        curves = model.activation.basis.values(z) @ _coefficients(model)[component].T
        value = (curves * (model.directions.importance * model.v[:, 0])[component]).T
        value -= value.mean(axis=1, keepdims=True)
        return cls(z, value, component, spread[component] / max(spread.sum(), 1e-300)).plot()

    def plot(self) -> Self:
        """Draw one small panel a component, on one scale."""
        n_columns = min(4, len(self.component))
        n_rows = -(-len(self.component) // n_columns)
        figure, axes = require_matplotlib().subplots(
            n_rows, n_columns, sharex=True, sharey=True, squeeze=False, layout="constrained",
            figsize=(2.2 * n_columns, 1.8 * n_rows),
        )  # fmt: skip
        for ax in axes.flat[len(self.component) :]:
            ax.set_visible(False)
        for ax, value, component, share in zip(axes.flat, self.value, self.component, self.share, strict=False):
            ax.plot(self.z, value, color=BLUE, lw=1.5)
            ax.axhline(0, color=GREY, lw=0.5)
            ax.set_title(f"component {component}: {share:.0%}", fontsize=8)
            ax.spines[["top", "right"]].set_visible(False)
        figure.supxlabel("projection z = w . x + b", fontsize=9)
        figure.supylabel("contribution to f", fontsize=9)
        self.axes_, self.figure_ = axes, figure
        return self


def _coefficients(model: Any) -> Array:
    """One row of coefficients a component, also where one activation is shared."""
    shared = model.activation.coefficients
    return np.broadcast_to(shared, (model.n_components, shared.shape[1]))
