"""Plots of learned activations: one shared by all components, or one per component."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rflaf.errors import Array
from rflaf.estimators.svg import BLUE, GREY
from rflaf.inspection.effects import ComponentBank, rank_components, sample_rows

from .style import SMALL_PRINT, axes, grid_of_axes, tidy, under

_PROJECTION = "projection z = w . x + b"


@dataclass
class ActivationDisplay:
    """Learned shared activation with its standard error, over the density of the projections.

    Attributes
    ----------
    z, value, error : (n_points,) grid, activation and its pointwise standard error, zero if unknown
    edges, density : histogram of the projections w_m . x + b_m of the rows given; empty without rows
    ax_, figure_ : set by `plot`
    """

    z: Array
    value: Array
    error: Array
    edges: Array
    density: Array

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any = None, *, ax: Any = None, n_points: int = 400) -> Self:
        """Compute and draw the activation of a fitted estimator; ``X`` adds the density of its projections."""
        check_is_fitted(estimator)
        activation = estimator.activation_
        if activation.coefficients.shape[0] > 1:
            raise ValueError(
                "ActivationDisplay draws a shared activation; this model has one per component. "
                "Use ActivationBankDisplay.from_estimator."
            )
        low, high = activation.basis.interval
        z = np.linspace(low, high, n_points)
        error = np.zeros(n_points) if activation.covariance is None else activation.standard_error(z)
        edges = density = np.empty(0)
        if X is not None:
            u = estimator.model_.projections(sample_rows(X))
            density, edges = np.histogram(u, bins=60, range=(low, high), density=True)
        return cls(z, activation(z), error, edges, density).plot(ax=ax)

    def plot(self, ax: Any = None, *, label: str | None = None, color: str = BLUE) -> Self:
        """Draw on ``ax``, or on a new figure."""
        ax = axes(ax)
        if self.density.size:
            under(ax, self.edges, self.density, self.value.min(), self.value.max(), "projections")
        ax.plot(self.z, self.value, color=color, lw=2, label=label or "learned activation")
        ax.fill_between(
            self.z, self.value - 2 * self.error, self.value + 2 * self.error, color=color, alpha=0.2, lw=0
        )  # fmt: skip
        tidy(ax, xlabel=_PROJECTION, ylabel="activation")
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass
class ActivationBankDisplay:
    """Activations of the most important components, each over the density of its projections.

    Attributes
    ----------
    bank : ComponentBank, the contributions drawn and their ranks
    axes_, figure_ : set by `plot`
    """

    bank: ComponentBank

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, n_shown: int = 8, n_points: int = 200, output: int = 0, ax: Any = None
    ) -> Self:
        """Rank the components by the spread of their contribution over rows ``X`` and draw the first ``n_shown``."""
        check_is_fitted(estimator)
        return cls(rank_components(estimator.model_, sample_rows(X), n_shown, n_points, output)).plot(ax=ax)

    def plot(self, ax: Any = None, *, n_columns: int = 4) -> Self:
        """Draw one small panel a component, on one scale; ``ax`` are as many axes as components."""
        bank, n_panels = self.bank, len(self.bank.component)
        if ax is None:
            figure, panels = grid_of_axes(n_panels, n_columns, (2.0, 1.7), sharex=True, sharey=True)
            figure.supxlabel(_PROJECTION, fontsize=9)
            figure.supylabel("contribution to f", fontsize=9)
        else:
            panels = np.atleast_1d(ax)
            figure = panels.flat[0].figure
        low, high = bank.value.min(), bank.value.max()
        drawn = zip(panels.flat, bank.value, bank.density, bank.component, bank.share, strict=False)
        for panel, value, density, component, share in drawn:
            under(panel, bank.edges, density, low, high)
            panel.axhline(0, color=GREY, lw=0.5)
            panel.plot(bank.z, value, color=BLUE, lw=1.5)
            panel.set_title(f"component {component}: {share:.0%}", fontsize=SMALL_PRINT)
            panel.tick_params(labelsize=SMALL_PRINT)
            tidy(panel)
        self.axes_, self.figure_ = panels, figure
        return self
