"""The reasons for one prediction as a waterfall: from the base to the prediction, column by column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rflaf.errors import Array, InvalidParameterError
from rflaf.estimators.reasons import Reasons
from rflaf.estimators.svg import BLUE, GREY, VERMILION

from .style import SMALL_PRINT, axes, tidy

_LINE_HEIGHT, _LONGEST = 0.32, 24  # inches per column; characters of a value


@dataclass
class WaterfallDisplay:
    """Contributions of the columns to one prediction, the largest first, as bars from the base to the prediction.

    Attributes
    ----------
    names : columns, with the value of the row; the last may stand for all others
    value : (n_shown,), contributions, which sum to ``prediction - base``
    base, prediction : f at the base and at the row, before the link
    error : (n_shown,), standard errors
    label : what is predicted
    ax_, figure_ : set by `plot`
    """

    names: tuple[str, ...]
    value: Array
    base: float
    prediction: float
    error: Array
    label: str = "prediction"

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, row: int = 0, *, output: int = 0, n_shown: int = 9, ax: Any = None
    ) -> Self:
        """Explain and draw one of the rows ``X``, given by its number; ``output`` is that of the output or class."""
        check_is_fitted(estimator)
        return cls.from_reasons(estimator.explain(X), row, output=output, n_shown=n_shown, ax=ax)

    @classmethod
    def from_reasons(cls, reasons: Reasons, row: int = 0, *, output: int = 0, n_shown: int = 9, ax: Any = None) -> Self:
        """Draw one of the rows that were explained; beyond ``n_shown`` columns the weakest are drawn as one."""
        if not 0 <= row < len(reasons):
            raise InvalidParameterError(f"row must be from 0 to {len(reasons) - 1}", row, "Count from zero.")
        several = reasons.values.ndim == 3
        value = reasons.values[row, :, output] if several else reasons.values[row]
        error = reasons.standard_error[row, :, output] if several else reasons.standard_error[row]
        base = float(reasons.base_values[row, output] if several else reasons.base_values[row])
        order = np.argsort(-np.abs(value), kind="stable")
        shown, rest = order[:n_shown], order[n_shown:]
        names = [f"{reasons.feature_names[at]} = {_short(reasons.data[row, at])}" for at in shown]
        values, errors = value[shown], error[shown]
        if rest.size:
            names.append(f"{rest.size} other{'s' if rest.size > 1 else ''}")
            values, errors = np.append(values, value[rest].sum()), np.append(errors, np.sqrt(np.sum(error[rest] ** 2)))
        return cls(tuple(names), values, base, base + float(value.sum()), errors, _label(reasons, output)).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw bars to the right in blue and to the left in vermilion, with their values."""
        ax = axes(ax, (5.0, 1.2 + _LINE_HEIGHT * len(self.names)))
        ends = self.base + np.cumsum(self.value[::-1])[::-1]  # the weakest first, at the bottom
        starts = ends - self.value
        at = np.arange(len(self.names))[::-1]
        colors = [BLUE if value >= 0 else VERMILION for value in self.value]
        ax.barh(at, self.value, left=starts, height=0.66, color=colors)
        ax.errorbar(ends, at, xerr=self.error, fmt="none", ecolor="black", elinewidth=0.8)
        reach = float(np.ptp(np.concatenate([starts, ends, [self.base]]))) or 1.0
        for line, value, end in zip(at, self.value, np.maximum(starts, ends), strict=True):
            ax.text(end + 0.015 * reach, line, f"{value:+.3g}", va="center", fontsize=SMALL_PRINT)
        for line in range(len(at) - 1):
            ax.plot([starts[line]] * 2, [at[line] - 0.33, at[line + 1] + 0.33], color=GREY, lw=0.7)
        ax.axvline(self.base, color=GREY, lw=0.8, ls="--")
        ax.set_yticks(at, self.names)
        ax.margins(x=0.14)
        tidy(ax, xlabel=f"from the base, {self.base:.4g}, to the {self.label}, {self.prediction:.4g}")
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _label(reasons: Reasons, output: int) -> str:
    if reasons.output_names is None:
        return "prediction"
    name = reasons.output_names[output]
    return name if name.startswith("quantile ") else f"score of {name}"


def _short(value: Any) -> str:
    """Return a value in few characters.

    >>> _short(0.123456), _short("a" * 30)
    ('0.1235', 'aaaaaaaaaaaaaaaaaaaaaaa…')
    """
    text = f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
