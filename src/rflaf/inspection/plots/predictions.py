"""Plots of columns and predictions: column curves, partial effects, calibration and residuals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.calibration import calibration_curve
from sklearn.utils.validation import check_is_fitted

from rflaf.errors import Array, InvalidParameterError
from rflaf.estimators.svg import BLUE, GREY, ORANGE, SKY, VERMILION
from rflaf.inspection import effects
from rflaf.inspection.effects import Effect, PairEffect, sample_rows

from .style import axes, legend, name_ticks, pair_of_axes, tidy, under

_ROWS = 500
_MOST_LEVELS = 40  # of a category, whose most frequent ones are drawn


@dataclass
class ColumnCurveDisplay:
    """Curves of one column in the components of a refined model: w_cm x + kappa_cm(x), centred.

    Attributes
    ----------
    x : (n_points,), the column's nodes
    value : (n_components, n_points), the curves, the most important component first
    name : of the column
    edges, density : histogram of the column over the rows given
    levels : names of the nodes of a category, of many the most frequent ones; empty for a number
    ax_, figure_ : set by `plot`
    """

    x: Array
    value: Array
    name: str
    edges: Array
    density: Array
    levels: tuple[str, ...] = ()

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, column: int | str, *, ax: Any = None, n_strong: int = 3) -> Self:
        """Compute and draw the curves of a column, given by index or name."""
        check_is_fitted(estimator)
        model, names = estimator.model_, effects.model_columns(estimator)
        number = effects.column_index(column, names, model.n_features)
        knots = None if model.curves is None else model.curves.knots
        if knots is None or number not in knots.columns:
            remedy = "Use PartialEffectDisplay for a linear column."
            raise InvalidParameterError("only curved columns have curves", column, remedy)
        rows = sample_rows(effects.model_rows(estimator, X))
        curve = int(np.searchsorted(knots.columns, number))
        x = knots.of(curve)
        at_nodes = np.zeros((x.size, model.n_features))
        at_nodes[:, number] = x
        value = (model.curves.part(at_nodes, curve) + np.outer(x, model.directions.W[number])).T
        value = value[effects.rank_components(model, rows, model.n_components).component]
        levels = effects.level_names(estimator, number)
        bins = np.arange(x.size + 1) - 0.5 if levels else np.linspace(x[0], x[-1], 41)
        density, edges = np.histogram(rows[:, number], bins, density=True)
        if len(levels) > _MOST_LEVELS:
            shown = effects.most_frequent(density, _MOST_LEVELS)
            x, edges, levels = x[: shown.size], edges[: shown.size + 1], tuple(levels[code] for code in shown)
            value, density = value[:, shown], density[shown]
        name, value = f"column {number}" if names is None else str(names[number]), value - value.mean(1, keepdims=True)
        return cls(x, value, name, edges, density, levels).plot(ax=ax, n_strong=n_strong)

    def plot(self, ax: Any = None, *, n_strong: int = 3) -> Self:
        """Draw the curves of the ``n_strong`` most important components in colour, all others in grey."""
        ax = axes(ax)
        under(ax, self.edges, self.density, self.value.min(), self.value.max())
        marks = {"ls": "", "marker": "o", "ms": 3} if self.levels else {}
        ax.plot(self.x, self.value[n_strong:].T, color=GREY, lw=0.6, alpha=0.4, **marks)
        for rank, (color, value) in enumerate(zip((BLUE, ORANGE, SKY), self.value[:n_strong], strict=False)):
            label = "the strongest component" if rank == 0 else f"no. {rank + 1}"
            ax.plot(self.x, value, color=color, lw=2, label=label, **marks)
        name_ticks(ax.xaxis, self.x, self.levels)
        legend(ax, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
        tidy(ax, xlabel=self.name, ylabel="part of a component's input")
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass
class PartialEffectDisplay:
    """The mean prediction as one column, or a pair of columns, is set to each value in turn.

    Attributes
    ----------
    effect : Effect of one column, or PairEffect of two
    names : of the columns
    rows : (n_rows, 1 or 2), their values in the rows given
    levels : for each column the names of its levels, empty for a number
    ax_, figure_ : set by `plot`
    """

    effect: Effect | PairEffect
    names: tuple[str, ...]
    rows: Array
    levels: tuple[tuple[str, ...], ...] = ((), ())

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        columns: int | str | tuple[int | str, int | str],
        *,
        output: int | None = None,
        ax: Any = None,
    ) -> Self:
        """Compute and draw the effect of a column, or of a pair of them, given by number or name, over rows ``X``.

        ``output`` is the number of the output or of the class whose probability is drawn.
        """
        check_is_fitted(estimator)
        known = effects.model_columns(estimator)
        chosen = columns if isinstance(columns, tuple) else (columns,)
        numbers = [effects.column_index(column, known, estimator.model_.n_features) for column in chosen]
        names = tuple(f"column {number}" if known is None else str(known[number]) for number in numbers)
        rows, f = sample_rows(effects.model_rows(estimator, X), _ROWS), effects.response(estimator, output)
        levels = tuple(effects.level_names(estimator, number) for number in numbers)
        categories = [number for number, names_of in zip(numbers, levels, strict=True) if names_of]
        if len(numbers) == 1:
            effect: Effect | PairEffect = effects.partial_effect(f, rows, numbers[0], categories=categories)
        else:
            effect = effects.pair_effect(f, rows, numbers[0], numbers[1], categories=categories)
        return cls(effect, names, rows[:, numbers], levels).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw a curve over the column's density, or a map of the pair with its rows as points."""
        ax = axes(ax)
        if isinstance(self.effect, Effect):
            if self.levels[0]:
                _draw_levels(ax, self.effect, self.rows[:, 0], self.levels[0])
            else:
                _draw_effect(ax, self.effect, self.rows[:, 0])
            tidy(ax, xlabel=self.names[0], ylabel="prediction")
            legend(ax)
        else:
            _draw_pair(ax, self.effect, self.rows)
            for axis, grid, names in zip(
                (ax.xaxis, ax.yaxis), (self.effect.first, self.effect.second), self.levels, strict=True
            ):
                name_ticks(axis, grid, names)
            tidy(ax, xlabel=self.names[0], ylabel=self.names[1])
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _draw_effect(ax: Any, effect: Effect, x: Array) -> None:
    low, high = float(effect.low.min()), float(effect.high.max())
    inside = x[(x >= effect.grid[0]) & (x <= effect.grid[-1])]
    density, edges = np.histogram(inside, bins=40)
    under(ax, edges, density, low, high)
    ax.fill_between(effect.grid, effect.low, effect.high, color=BLUE, alpha=0.2, lw=0, label="four fifths of the rows")
    ax.plot(effect.grid, effect.mean, color=BLUE, lw=2, label="mean of the rows")


def _draw_levels(ax: Any, effect: Effect, codes: Array, names: tuple[str, ...]) -> None:
    at, grid = np.arange(effect.grid.size), effect.grid
    counts = np.count_nonzero(codes[:, None] == grid, axis=0)
    under(ax, np.arange(at.size + 1) - 0.5, counts, float(effect.low.min()), float(effect.high.max()))
    ax.vlines(at, effect.low, effect.high, color=BLUE, alpha=0.3, lw=6, label="four fifths of the rows")
    ax.plot(at, effect.mean, "o", color=BLUE, ms=6, label="mean of the rows")
    name_ticks(ax.xaxis, at, tuple(names[int(code)] for code in grid))
    _say_what_is_left(ax, np.unique(codes).size - at.size)


def _say_what_is_left(ax: Any, n_levels: int) -> None:
    if n_levels > 0:
        ax.annotate(f"{n_levels} rarer levels are not shown", (1, 1), xycoords="axes fraction", ha="right", va="top")


def _draw_pair(ax: Any, effect: PairEffect, rows: Array) -> None:
    filled = ax.contourf(effect.first, effect.second, effect.mean.T, levels=14, cmap="cividis")
    ax.figure.colorbar(filled, ax=ax, label="prediction")
    ax.plot(*rows.T, ".", color="white", ms=2.5, mew=0, alpha=0.5)
    ax.set(xlim=(effect.first[0], effect.first[-1]), ylim=(effect.second[0], effect.second[-1]))


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
            remedy = "Fit RFLAFClassifier with loss='log_loss'."
            raise InvalidParameterError("calibration needs probabilities", type(estimator).__name__, remedy)
        number = (1 if len(estimator.classes_) == 2 else 0) if output is None else output
        label = estimator.classes_[number]
        probability = estimator.predict_proba(X)[:, number]
        outcomes = np.asarray(y)
        outcomes = outcomes[:, number] == 1 if outcomes.ndim == 2 else outcomes == label
        return cls.from_predictions(outcomes, probability, label=str(label), n_bins=n_bins, ax=ax)

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
        tidy(ax, xlabel=f"probability of {self.label!r}", ylabel="frequency")
        ax.set(xlim=(0, 1), ylim=(0, 1.02), aspect="equal")
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
        density, edges = np.histogram(residual, bins=40, range=effects.inner_range(residual), density=True)
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
