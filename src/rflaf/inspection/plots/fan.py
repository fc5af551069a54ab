"""Several quantiles of a target as a fan, along the prediction or along a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from rflaf.errors import Array, InvalidParameterError
from rflaf.estimators.metrics import levels_of
from rflaf.estimators.svg import BLUE, GREY
from rflaf.inspection import effects
from rflaf.inspection.effects import Fan, bands_of, middle_of, sample_rows

from .style import axes, legend, name_ticks, tidy

_ROWS, _POINTS, _LEAST_GROUP, _MOST_GROUPS = 500, 2000, 10, 30


@dataclass
class FanDisplay:
    """The quantiles that a model predicts, as nested bands, with the rows observed.

    Attributes
    ----------
    fan : Fan, places along the axis and the mean quantiles there
    levels : of the quantiles
    name : of the axis: the middle quantile, or a column
    x, y : (n_shown,), places and targets of at most 2,000 rows; empty without targets
    level_names : names of the levels of a category, empty for a number
    ax_, figure_ : set by `plot`
    """

    fan: Fan
    levels: tuple[float, ...]
    name: str
    x: Array
    y: Array
    level_names: tuple[str, ...] = ()

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike | None = None, *, column: int | str | None = None, ax: Any = None
    ) -> Self:
        """Compute and draw the quantiles over rows ``X``, and their targets ``y`` if given.

        Without a ``column`` the axis is the middle quantile: rows are grouped by it, and lines are means over a group.
        Along a column, given by number or name, lines are means over all rows with the column set to each value.
        """
        check_is_fitted(estimator)
        levels = levels_of(estimator.loss_)
        if not levels:
            remedy = "Fit RFLAFRegressor(loss='quantile', quantile=[0.05, 0.5, 0.95])."
            raise InvalidParameterError("a fan needs a model of quantiles", type(estimator.loss_).__name__, remedy)
        rows, of_numbers = effects.model_rows(estimator, X), effects.of_numbers(estimator)
        rows = rows if sp.issparse(rows) else np.asarray(rows)
        names: tuple[str, ...] = ()
        if column is None:
            name, (fan, x) = f"quantile {levels[middle_of(levels)]:g}", _along_answers(of_numbers, rows, levels)
        else:
            known = effects.model_columns(estimator)
            number = effects.column_index(column, known, estimator.model_.n_features)
            name = f"column {number}" if known is None else str(known[number])
            fan, x = _along_column(of_numbers, rows, number)
            names = effects.level_names(estimator, number)
        targets = np.zeros(0) if y is None else np.asarray(y, np.float64)
        shown = np.linspace(0, targets.size - 1, min(_POINTS, targets.size)).astype(np.intp)
        return cls(fan, levels, name, x[shown], targets[shown], names).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw bands from the outermost to the innermost, the middle quantile as a line, and the rows as points."""
        ax, x, quantiles = axes(ax), self.fan.x, self.fan.quantiles
        if self.y.size:
            ax.plot(self.x, self.y, ".", color=GREY, ms=5, mew=0, alpha=0.6, label="observed")
        for low, high in bands_of(self.levels):
            style = {"color": BLUE, "alpha": 0.2, "label": f"{self.levels[low]:g} to {self.levels[high]:g}"}
            draw = ax.vlines if self.level_names else ax.fill_between
            draw(x, quantiles[:, low], quantiles[:, high], lw=10 if self.level_names else 0, **style)
        middle = middle_of(self.levels)
        mark = {"ls": "", "marker": "o"} if self.level_names else {"lw": 2}
        ax.plot(x, quantiles[:, middle], color=BLUE, label=f"{self.levels[middle]:g}", **mark)
        name_ticks(ax.xaxis, x, self.level_names)
        tidy(ax, xlabel=self.name, ylabel="target")
        legend(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _along_answers(estimator: Any, rows: Any, levels: tuple[float, ...]) -> tuple[Fan, Array]:
    """Return the fan along the middle quantile, and where every row lies on its axis."""
    quantiles = _quantiles(estimator, rows)
    n_groups = int(np.clip(len(quantiles) // _LEAST_GROUP, 1, _MOST_GROUPS))
    middle = middle_of(levels)
    return effects.fan_along_answers(quantiles, middle, n_groups), quantiles[:, middle]


def _along_column(estimator: Any, rows: Any, column: int) -> tuple[Fan, Array]:
    """Return the fan along a column, and the values of the column in all rows."""
    fan = effects.fan_along_column(lambda X: _quantiles(estimator, X), sample_rows(rows, _ROWS), column)
    values = rows[:, [column]]
    return fan, np.asarray(values.toarray() if sp.issparse(values) else values, np.float64)[:, 0]


def _quantiles(estimator: Any, rows: Any) -> Array:
    """Return all quantiles that a model predicts at rows of numbers, (n_rows, n_levels)."""
    return np.asarray(estimator.predict(rows), np.float64).reshape(rows.shape[0], -1)
