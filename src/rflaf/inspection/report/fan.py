"""The quantiles that a model predicts, as a fan: along the prediction, along a column, and beside what was observed."""

from __future__ import annotations

import numpy as np

from rflaf.errors import Array
from rflaf.estimators.metrics import pinball_losses
from rflaf.estimators.svg import Markup, element
from rflaf.inspection.effects import (
    Fan,
    bands_of,
    fan_along_answers,
    fan_along_column,
    gradient_outer_product,
    inner_range,
    sample_rows,
)

from .charts import Band, Layer, Line, Points, Rule, chart, legend
from .findings import Findings, quantile_name
from .page import Section, card, grid, scrolling
from .wording import count_of, figure_of, share_of

_POINTS, _ROWS, _LEAST_GROUP, _MOST_GROUPS = 700, 400, 10, 30
_TWO_SIDED = 1.96  # standard errors either side of 95 % of samples


def fan_card(findings: Findings) -> Markup:
    """Draw the targets, and the quantiles of groups of rows, along the middle quantile."""
    subject = findings.subject
    answers = findings.answers.astype(np.float64)
    n_groups = int(np.clip(findings.n_rows // _LEAST_GROUP, 2, _MOST_GROUPS))
    fan = fan_along_answers(answers, subject.output, n_groups)
    picture = _fan_chart(findings, fan, answers[:, subject.output], findings.predicted)
    note = f"Lines: means over {count_of(fan.x.size, 'group')} of equally many rows."
    return card("Observed, and the quantiles predicted", picture, note, _legend(findings))


def _fan_chart(findings: Findings, fan: Fan, x: Array, x_label: str) -> Markup:
    """Draw a fan over some of the rows, which lie at ``x`` (n,)."""
    levels, y = findings.subject.levels_predicted, findings.target[:, 0]
    low, high = inner_range(y)
    shown = np.linspace(0, y.size - 1, min(_POINTS, y.size)).astype(np.intp)
    shown = shown[(low <= y[shown]) & (y[shown] <= high) & (fan.x[0] <= x[shown]) & (x[shown] <= fan.x[-1])]
    rows: list[Layer] = [Points(x[shown], y[shown], "second")] if shown.size else []
    return chart(
        [*rows, *_bands(fan, levels), *_lines(fan, levels, findings.subject.output)],
        about=f"Observed values and the quantiles predicted, along the {x_label}.",
        x_label=x_label,
        y_label=findings.subject.target or "target",
    )


def _bands(fan: Fan, levels: tuple[float, ...]) -> list[Layer]:
    return [Band(fan.x, fan.quantiles[:, low], fan.quantiles[:, high]) for low, high in bands_of(levels)]


def _lines(fan: Fan, levels: tuple[float, ...], middle: int) -> list[Layer]:
    roles = ["model" if at == middle else "edge" for at in range(len(levels))]
    few = fan.x.size <= 2
    return [
        Line(quantile_name(level), fan.x, fan.quantiles[:, at], roles[at], dots=few)
        for at, level in reversed(list(enumerate(levels)))
    ]


def _legend(findings: Findings) -> Markup:
    levels = findings.subject.levels_predicted
    pairs = [f"{levels[low]:g} to {levels[high]:g}" for low, high in bands_of(levels)]
    bands = [("band" if at == 0 else "inner", words) for at, words in enumerate(pairs)]
    return legend(("model", findings.predicted), *bands, ("dots", "rows"))


def quantile_section(findings: Findings) -> Section:
    """Show how many targets lie below every quantile, the fan along the strongest column, and every quantile's loss."""
    below = np.mean(findings.target <= findings.answers, axis=0)
    cards = [_share_card(findings, below), _column_card(findings), _table_card(findings, below)]
    return Section("errors", "Errors", _lead(findings, below), grid(cards, narrow=True))


def _lead(findings: Findings, below: Array) -> str:
    levels, y, answers = findings.subject.levels_predicted, findings.target[:, 0], findings.answers
    pairs = bands_of(levels)
    if not pairs:
        return f"{share_of(float(below[0]))} of the targets are at or below the {quantile_name(levels[0])}."
    parts = []
    for low, high in pairs:
        inside = share_of(float(np.mean((answers[:, low] <= y) & (y <= answers[:, high]))))
        width = figure_of(float(np.mean(answers[:, high] - answers[:, low])))
        pair, asked = f"{levels[low]:g} and {levels[high]:g}", share_of(levels[high] - levels[low])
        parts.append(f"{pair} hold {inside} ({asked} asked for), {width} wide in the mean")
    return f"Of the targets the quantiles {', '.join(parts)}."


def _share_card(findings: Findings, below: Array) -> Markup:
    """Draw the share of targets at or below every quantile, over the range of chance for so many rows."""
    levels = np.array(findings.subject.levels_predicted)
    grid_, n_rows = np.linspace(0, 1, 41), findings.n_rows
    reach = _TWO_SIDED * np.sqrt(grid_ * (1 - grid_) / n_rows)
    picture = chart(
        [
            Band(grid_, np.maximum(grid_ - reach, 0), np.minimum(grid_ + reach, 1)),
            Rule((0.0, 0.0), (1.0, 1.0)),
            Line("observed", levels, below, dots=True),
        ],
        about="Share of the targets at or below every quantile, against the share asked for.",
        x_label="quantile",
        y_label="share at or below",
    )
    marks = legend(("model", "observed"), ("band", f"19 of 20 samples of {n_rows:,} rows, were it right"))
    return card("Targets at or below", picture, "Quantiles on the dashed line are exact.", marks)


def _column_card(findings: Findings) -> Markup | None:
    """Draw the fan along the strongest column that is a number; None if no such column moves the prediction."""
    subject, rows = findings.subject, sample_rows(findings.rows, _ROWS)
    outer = gradient_outer_product(subject.model, rows, categories=subject.levels)
    strength = np.where([at in subject.levels for at in range(len(outer))], 0.0, np.diag(outer))
    column = int(np.argmax(strength))
    fan = fan_along_column(findings.quantiles, rows, column)
    if strength[column] <= 0 or fan.x.size < 2:
        return None
    picture = _fan_chart(findings, fan, findings.rows[:, column], subject.names[column])
    note = "Lines: means over the rows, with this column set to each value; all other columns spread the dots."
    return card(f"Along {subject.names[column]}", picture, note, _legend(findings))


def _table_card(findings: Findings, below: Array) -> Markup:
    levels = findings.subject.levels_predicted
    losses = pinball_losses(findings.target[:, 0], findings.answers, levels)
    titles = ["quantile", "at or below", "pinball loss"]
    head = element("tr", *[element("th", title, scope="col") for title in titles])
    body = [
        element("tr", element("th", f"{level:g}", scope="row"), element("td", share), element("td", loss))
        for level, share, loss in zip(levels, map(share_of, below), map(figure_of, losses), strict=True)
    ]
    table = element("table", element("thead", head), element("tbody", *body), class_="short")
    note = "The pinball loss is least for the true quantile."
    return card("Every quantile", scrolling(table, "Every quantile"), note)
