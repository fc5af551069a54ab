"""Plots of columns: their curves in the components, and their partial effects on the prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rflaf.errors import Array, InvalidParameterError
from rflaf.estimators.svg import BLUE, GREY, ORANGE, SKY
from rflaf.inspection.effects import (
    Effect,
    PairEffect,
    column_index,
    pair_effect,
    partial_effect,
    rank_components,
    response,
    sample_rows,
)

from .style import axes, legend, tidy, under

_ROWS = 500


@dataclass
class ColumnCurveDisplay:
    """Curves of one column in the components of a refined model: w_cm x + kappa_cm(x), centred.

    Attributes
    ----------
    x : (n_points,), the column's nodes
    value : (n_components, n_points), the curves, the most important component first
    name : of the column
    edges, density : histogram of the column over the rows given
    ax_, figure_ : set by `plot`
    """

    x: Array
    value: Array
    name: str
    edges: Array
    density: Array

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, column: int | str, *, ax: Any = None, n_strong: int = 3) -> Self:
        """Compute and draw the curves of a column, given by index or name."""
        check_is_fitted(estimator)
        model, names = estimator.model_, getattr(estimator, "feature_names_in_", None)
        number = column_index(column, names, model.n_features)
        knots = None if model.curves is None else model.curves.knots
        if knots is None or number not in knots.columns:
            raise InvalidParameterError(
                "only curved columns have curves", column, "Use PartialEffectDisplay for a linear column."
            )
        rows = sample_rows(X)
        curve = int(np.searchsorted(knots.columns, number))
        x = knots.of(curve)
        at_nodes = np.zeros((x.size, model.n_features))
        at_nodes[:, number] = x
        value = (model.curves.part(at_nodes, curve) + np.outer(x, model.directions.W[number])).T
        value = value[rank_components(model, rows, model.n_components).component]
        density, edges = np.histogram(rows[:, number], bins=40, range=(x[0], x[-1]), density=True)
        name = f"column {number}" if names is None else str(names[number])
        return cls(x, value - value.mean(axis=1, keepdims=True), name, edges, density).plot(ax=ax, n_strong=n_strong)

    def plot(self, ax: Any = None, *, n_strong: int = 3) -> Self:
        """Draw the curves of the ``n_strong`` most important components in colour, all others in grey."""
        ax = axes(ax)
        under(ax, self.edges, self.density, self.value.min(), self.value.max())
        ax.plot(self.x, self.value[n_strong:].T, color=GREY, lw=0.6, alpha=0.4)
        for rank, (color, value) in enumerate(zip((BLUE, ORANGE, SKY), self.value[:n_strong], strict=False)):
            ax.plot(
                self.x, value, color=color, lw=2, label="the strongest component" if rank == 0 else f"no. {rank + 1}"
            )
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
    ax_, figure_ : set by `plot`
    """

    effect: Effect | PairEffect
    names: tuple[str, ...]
    rows: Array

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
        known = getattr(estimator, "feature_names_in_", None)
        chosen = columns if isinstance(columns, tuple) else (columns,)
        numbers = [column_index(column, known, estimator.n_features_in_) for column in chosen]
        names = tuple(f"column {number}" if known is None else str(known[number]) for number in numbers)
        rows, f = sample_rows(X, _ROWS), response(estimator, output)
        if len(numbers) == 1:
            effect: Effect | PairEffect = partial_effect(f, rows, numbers[0])
        else:
            effect = pair_effect(f, rows, *numbers)
        return cls(effect, names, rows[:, numbers]).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw a curve over the column's density, or a map of the pair with its rows as points."""
        ax = axes(ax)
        if isinstance(self.effect, Effect):
            _draw_effect(ax, self.effect, self.rows[:, 0])
            tidy(ax, xlabel=self.names[0], ylabel="prediction")
            legend(ax)
        else:
            _draw_pair(ax, self.effect, self.rows)
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


def _draw_pair(ax: Any, effect: PairEffect, rows: Array) -> None:
    filled = ax.contourf(effect.first, effect.second, effect.mean.T, levels=14, cmap="cividis")
    ax.figure.colorbar(filled, ax=ax, label="prediction")
    ax.plot(*rows.T, ".", color="white", ms=2.5, mew=0, alpha=0.5)
    ax.set(xlim=(effect.first[0], effect.first[-1]), ylim=(effect.second[0], effect.second[-1]))
