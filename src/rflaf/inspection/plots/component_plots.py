"""Plots of components: their activations, their leverage scores, their spectrum, and the error of narrower models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from rflaf.errors import Array, InvalidParameterError
from rflaf.estimators.svg import BLUE, GREY, ORANGE, VERMILION
from rflaf.estimators.width_plan import WidthPlan
from rflaf.inspection.effects import ComponentBank, feature_eigenvalues, model_rows, rank_components, sample_rows
from rflaf.theory import effective_dimension
from rflaf.theory.spectrum import Decay, decay_curve

from .style import SMALL_PRINT, axes, grid_of_axes, legend, pair_of_axes, plain_log, tidy, under

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
            u = estimator.model_.projections(sample_rows(model_rows(estimator, X)))
            density, edges = np.histogram(u, bins=60, range=(low, high), density=True)
        return cls(z, activation(z), error, edges, density).plot(ax=ax)

    def plot(self, ax: Any = None, *, label: str | None = None, color: str = BLUE) -> Self:
        """Draw on ``ax``, or on a new figure."""
        ax = axes(ax)
        if self.density.size:
            under(ax, self.edges, self.density, self.value.min(), self.value.max(), "projections")
        ax.plot(self.z, self.value, color=color, lw=2, label=label or "learned activation")
        low, high = self.value - 2 * self.error, self.value + 2 * self.error
        ax.fill_between(self.z, low, high, color=color, alpha=0.2, lw=0)
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
        rows = sample_rows(model_rows(estimator, X))
        return cls(rank_components(estimator.model_, rows, n_shown, n_points, output)).plot(ax=ax)

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


@dataclass
class LeverageDisplay:
    """Sorted ridge leverage scores of a pool; drawn components are marked.

    Attributes
    ----------
    scores : (pool_size,), scores over the pool size, between 0 and 1, the largest first; they sum to ``dimension``
    kept : (pool_size,) of bool, whether drawn
    dimension : the effective dimension
    ax_, figure_ : set by `plot`
    """

    scores: Array
    kept: Array
    dimension: float

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the scores of an estimator fitted with ``sampling="leverage"``."""
        check_is_fitted(estimator)
        leverage = estimator.leverage_
        if leverage is None:
            rule = "only sampling='leverage' computes leverage scores"
            raise InvalidParameterError(rule, estimator.sampling, "Fit RFLAFRegressor.paper().")
        order = np.argsort(-leverage.scores, kind="stable")
        kept = np.isin(order, [] if leverage.kept is None else leverage.kept)
        return cls(leverage.scores[order] / order.size, kept, leverage.effective_dimension).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the sorted scores as a curve, drawn components as points on it, and the mean score."""
        ax = axes(ax)
        rank = np.arange(1, self.scores.size + 1)
        ax.plot(rank, self.scores, color=GREY, lw=1.5, label=f"pool of {self.scores.size}")
        ax.plot(
            rank[self.kept], self.scores[self.kept], "o", color=BLUE, ms=4, mew=0, alpha=0.7,
            label=f"{np.count_nonzero(self.kept)} drawn",
        )  # fmt: skip
        ax.axhline(self.dimension / self.scores.size, color=VERMILION, lw=1, ls="--", label="even scores")
        tidy(ax, xlabel="rank in the pool", ylabel="leverage score / pool size")
        ax.set_ylim(bottom=0)
        ax.set_title(f"effective dimension {self.dimension:.1f}", fontsize=9)
        legend(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass
class SpectrumDisplay:
    """Eigenvalues of a kernel and their effective dimension d(lambda) = sum_i mu_i / (mu_i + lambda).

    Attributes
    ----------
    eigenvalues : (n,), largest first, of K / n
    lam : the marked lambda
    lambdas, dimension : (n_points,), the curve d(lambda)
    decay : the law of the eigenvalues, drawn beside them; None for none
    axes_, figure_ : set by `plot`
    """

    eigenvalues: Array
    lam: float
    lambdas: Array
    dimension: Array
    decay: Decay | None = None

    @classmethod
    def from_eigenvalues(
        cls, eigenvalues: ArrayLike, lam: float, *, decay: Decay | None = None, ax: Any = None
    ) -> Self:
        """Draw eigenvalues and the effective dimension around ``lam``; ``ax`` is a pair of axes."""
        mu = np.sort(np.asarray(eigenvalues, np.float64))[::-1]
        if not lam > 0:
            raise InvalidParameterError("lambda must be above zero", lam, "Use 1 / sqrt(n).")
        if mu.size == 0 or not mu[0] > 0:
            remedy = "Pass those of a kernel matrix over n."
            raise InvalidParameterError("there must be an eigenvalue above zero", mu.tolist(), remedy)
        lambdas = np.geomspace(min(lam, mu[0]) / 1e3, mu[0], 200)
        return cls(mu, lam, lambdas, effective_dimension(mu, lambdas), decay).plot(ax=ax)

    @classmethod
    def from_plan(cls, plan: WidthPlan, *, ax: Any = None) -> Self:
        """Draw the spectrum that `rflaf.plan` found, the law of its decay, and the effective dimension."""
        return cls.from_eigenvalues(plan.spectrum.eigenvalues, plan.lam, decay=plan.decay, ax=ax)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, lam: float | None = None, ax: Any = None) -> Self:
        """Draw the spectrum of a fitted estimator's features over rows ``X``; lambda is 1 / sqrt(n) unless given."""
        check_is_fitted(estimator)
        rows = sample_rows(model_rows(estimator, X))
        lam = X.shape[0] ** -0.5 if lam is None else lam
        return cls.from_eigenvalues(feature_eigenvalues(estimator.model_, rows), lam, ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the spectrum on one axis and the effective dimension on the other."""
        spectrum, dimension = pair_of_axes(ax, (1, 1))
        seen = self.eigenvalues[self.eigenvalues > 1e-12 * self.eigenvalues[0]]
        spectrum.loglog(np.arange(1, seen.size + 1), seen, ".-", color=BLUE, lw=1, ms=4)
        spectrum.axhline(self.lam, color=ORANGE, lw=1.5, ls="--", label=rf"$\lambda$ = {self.lam:.2g}")
        if self.decay is not None:
            spectrum.loglog(*decay_curve(self.decay, self.eigenvalues), color=VERMILION, lw=1.5, label=_law(self.decay))
        tidy(spectrum, xlabel="i", ylabel=r"eigenvalue $\mu_i$")
        legend(spectrum, loc="lower left")
        here = effective_dimension(self.eigenvalues, self.lam)
        dimension.semilogx(self.lambdas, self.dimension, color=BLUE, lw=2)
        dimension.plot([self.lam], [here], "o", color=ORANGE, ms=7)
        dimension.annotate(
            f"{here:.1f}", (self.lam, here), xytext=(8, 6), textcoords="offset points", fontsize=9, fontweight="bold"
        )
        tidy(dimension, xlabel=r"$\lambda$", ylabel="effective dimension")
        dimension.set_ylim(bottom=0)
        self.axes_, self.figure_ = (spectrum, dimension), spectrum.figure
        return self


def _law(decay: Decay) -> str:
    return {
        "finite rank": f"rank {decay.rate:.0f}",
        "exponential": rf"$\mu_i \sim {decay.rate:.3g}^{{\,i}}$",
    }.get(decay.case, rf"$\mu_i \sim i^{{-{decay.rate:.2f}}}$")


@dataclass
class WidthDisplay:
    """Error at every smaller width, along a nested path of components.

    Attributes
    ----------
    width : (n,), from one on
    error, gcv : (n,), error on the fitted rows, and generalised cross-validation, both over the variance of y
    chosen : the smallest width within 1 % of the lowest estimate
    ax_, figure_ : set by `plot`
    """

    width: Array
    error: Array
    gcv: Array
    chosen: int

    @classmethod
    def from_estimator(cls, estimator: Any, *, tolerance: float = 0.01, ax: Any = None) -> Self:
        """Draw the path of greedy selection, or of the last layer of other models."""
        check_is_fitted(estimator)
        return cls.from_selection(_path(estimator), tolerance=tolerance, ax=ax)

    @classmethod
    def from_selection(cls, selection: Any, *, tolerance: float = 0.01, ax: Any = None) -> Self:
        """Draw a `rflaf.model.greedy.Selection`."""
        whole = selection.errors[0] or 1.0
        width = np.arange(1, selection.errors.size)
        path = selection.errors[1:] / whole, selection.gcv[1:] / whole
        return cls(width, *path, selection.best_width(tolerance)).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw both errors against the width, and mark the sufficient width.

        Both are optimistic for a refined model, whose features were trained on the same rows.
        """
        ax = axes(ax)
        ax.plot(self.width, self.error, color=GREY, lw=1.5, label="on the fitted rows")
        ax.plot(self.width, self.gcv, color=BLUE, lw=2, label="generalised cross-validation")
        label = f"{self.chosen} suffice"
        ax.plot([self.chosen], [self.gcv[self.chosen - 1]], "o", color=ORANGE, ms=7, label=label)
        tidy(ax, xlabel="width S", ylabel="error / variance of y", xscale="log", yscale="log")
        plain_log(ax.xaxis)
        plain_log(ax.yaxis)
        legend(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _path(estimator: Any) -> Any:
    if estimator.selection_ is not None:
        return estimator.selection_
    if estimator.model_.last_layer is not None:
        return estimator.model_.last_layer.path
    rule, remedy = "a path of widths needs greedy selection or the squared loss", "Fit with sampling='greedy'"
    raise InvalidParameterError(rule, type(estimator).__name__, f"{remedy} and directions='random'.")
