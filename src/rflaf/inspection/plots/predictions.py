"""Plots of predictions: calibration of probabilities, residuals of a regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.calibration import calibration_curve
from sklearn.utils.validation import check_is_fitted

from rflaf.errors import Array, InvalidParameterError
from rflaf.estimators.svg import BLUE, GREY, VERMILION
from rflaf.inspection.effects import inner_range

from .style import axes, legend, pair_of_axes, tidy


@dataclass
class CalibrationDisplay:
    """Observed frequency of a class against its predicted probability.

    Attributes
    ----------
    predicted, observed : (n_bins,), mean probability and frequency of the class in bins of equally many rows
    edges, density : histogram of all probabilities, (21,) and (20,)
    label : of the class
    ax_, figure_ : set by `plot`
    """

    predicted: Array
    observed: Array
    edges: Array
    density: Array
    label: str

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, output: int | None = None, n_bins: int = 10, ax: Any = None
    ) -> Self:
        """Compute and draw the calibration for one class: by default the second of two, and the first of more."""
        check_is_fitted(estimator)
        if not hasattr(estimator, "predict_proba"):
            raise InvalidParameterError(
                "calibration needs probabilities", type(estimator).__name__, "Fit RFLAFClassifier with loss='log_loss'."
            )
        number = (1 if len(estimator.classes_) == 2 else 0) if output is None else output
        label = estimator.classes_[number]
        probability = estimator.predict_proba(X)[:, number]
        return cls.from_predictions(np.asarray(y) == label, probability, label=str(label), n_bins=n_bins, ax=ax)

    @classmethod
    def from_predictions(
        cls, y_true: ArrayLike, probability: ArrayLike, *, label: str = "true", n_bins: int = 10, ax: Any = None
    ) -> Self:
        """Draw from outcomes (n,), as bool or zeros and ones, and predicted probabilities (n,)."""
        predictions = np.asarray(probability, np.float64)
        observed, predicted = calibration_curve(np.asarray(y_true), predictions, n_bins=n_bins, strategy="quantile")
        density, edges = np.histogram(predictions, bins=20, range=(0, 1), density=True)
        return cls(predicted, observed, edges, density, label).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw frequency against probability, the diagonal, and the histogram of the probabilities."""
        ax = axes(ax, (3.6, 3.4))
        height = 0.15 * self.density / max(self.density.max(), 1e-300)
        ax.stairs(height, self.edges, fill=True, color=GREY, alpha=0.35, label="rows")
        ax.plot([0, 1], [0, 1], color=GREY, lw=1, ls="--", label="perfect")
        ax.plot(self.predicted, self.observed, "o-", color=BLUE, lw=2, ms=5, label="model")
        tidy(
            ax, xlabel=f"probability of {self.label!r}", ylabel="frequency", xlim=(0, 1), ylim=(0, 1.02), aspect="equal"
        )
        legend(ax, loc="upper left")
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass
class ResidualDisplay:
    """Observed against predicted values, and the distribution of the residuals.

    Attributes
    ----------
    predicted, observed : (n,), at most 2,000 of the rows given
    edges, density : histogram of the residuals observed - predicted, without the outer half per cent of many
    error : root mean square of all residuals
    axes_, figure_ : set by `plot`
    """

    predicted: Array
    observed: Array
    edges: Array
    density: Array
    error: float

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, *, output: int = 0, ax: Any = None) -> Self:
        """Compute and draw the residuals of a regressor; ``ax`` is a pair of axes."""
        check_is_fitted(estimator)
        observed, predicted = np.asarray(y, np.float64), np.asarray(estimator.predict(X), np.float64)
        if observed.ndim == 2:
            observed, predicted = observed[:, output], predicted.reshape(observed.shape)[:, output]
        return cls.from_predictions(observed, predicted, ax=ax)

    @classmethod
    def from_predictions(cls, y_true: ArrayLike, y_pred: ArrayLike, *, ax: Any = None, n_shown: int = 2000) -> Self:
        """Draw from observed (n,) and predicted (n,) values."""
        observed, predicted = np.asarray(y_true, np.float64), np.asarray(y_pred, np.float64)
        residual = observed - predicted
        density, edges = np.histogram(residual, bins=40, range=inner_range(residual), density=True)
        shown = np.linspace(0, observed.size - 1, min(n_shown, observed.size)).astype(np.intp)
        error = float(np.sqrt(np.mean(residual**2)))
        return cls(predicted[shown], observed[shown], edges, density, error).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the rows as points about the diagonal, and the residuals with the normal density of equal spread."""
        points, residuals = pair_of_axes(ax, (1, 1))
        low = min(self.predicted.min(), self.observed.min())
        high = max(self.predicted.max(), self.observed.max())
        points.plot([low, high], [low, high], color=GREY, lw=1, ls="--")
        points.plot(self.predicted, self.observed, ".", color=BLUE, ms=4, mew=0, alpha=0.4)
        tidy(points, xlabel="predicted", ylabel="observed")
        residuals.stairs(self.density, self.edges, fill=True, color=BLUE, alpha=0.5)
        if self.error > 0:
            z = np.linspace(self.edges[0], self.edges[-1], 200)
            normal = np.exp(-0.5 * (z / self.error) ** 2) / (self.error * np.sqrt(2 * np.pi))
            residuals.plot(z, normal, color=VERMILION, lw=1.5, label="normal density")
            legend(residuals)
        residuals.axvline(0, color=GREY, lw=1)
        residuals.set_title(f"root mean square {self.error:.3g}", fontsize=9)
        tidy(residuals, xlabel="observed - predicted")
        residuals.set_yticks([])
        residuals.spines["left"].set_visible(False)
        self.axes_, self.figure_ = (points, residuals), points.figure
        return self
