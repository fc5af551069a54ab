"""Which columns matter: alone, in pairs, and what the strongest do to the prediction."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from rflaf.errors import Array
from rflaf.inspection.effects import (
    gradient_outer_product,
    interactions,
    level_effects,
    pair_effect,
    partial_effect,
    sample_rows,
)

from .charts import Band, Line, Under, chart, heat_map, legend
from .evidence import Evidence
from .markup import Markup, count_of, element, figure_of, join
from .pieces import Section, bar_list, card, grid, place_list

_COLUMNS, _EFFECTS, _PAIRS = 12, 6, 5
_EFFECT_ROWS, _PAIR_ROWS = 400, 300
_DIFFERENCES = 100_000  # rows times columns that are moved to find which matter


def column_section(evidence: Evidence) -> Section:
    """Bars from the average gradient outer product, pairs that act together, and the effects of the strongest."""
    subject = evidence.subject
    rows = sample_rows(evidence.rows, int(np.clip(_DIFFERENCES // subject.model.n_features, 50, 1000)))
    outer = gradient_outer_product(subject.model, rows)
    sway = np.sqrt(np.maximum(np.diag(outer), 0))
    ranked = subject.by_origin(sway)
    total = sum(value for _, value in ranked) or 1.0
    top = ranked[:_COLUMNS]
    longest = top[0][1] or 1.0
    bars = bar_list(
        [(name, value / longest, f"{value / total:.1%}", False) for name, value in top], "Share of every column"
    )
    unit = "the log-odds" if evidence.classes is not None else "the prediction"
    note = (
        f"How far {unit} moves where a column moves by its spread: root of the diagonal of the average gradient "
        "outer product, as a share of the sum."
    )
    unnamed = len(ranked) - len(top)
    cards = [card("Columns", bars, note + (f" {count_of(unnamed, 'more column')} not shown." if unnamed else ""))]
    strongest = [int(i) for i in np.argsort(-sway, kind="stable")[:_EFFECTS] if sway[i] > 0]
    if len(strongest) > 1:
        cards.extend(_pair_cards(evidence, strongest))
    effects = _effect_cards(evidence, [name for name, value in ranked[:_EFFECTS] if value > 0])
    body = [grid(cards, narrow=True)]
    if effects:
        body += [
            element("h3", f"What the strongest do to the {evidence.predicted}"),
            grid(effects, narrow=len(effects) in (3, 5, 6)),
        ]
    return Section("columns", "Which columns matter", _column_lead(ranked, total, outer), join(body))


def _column_lead(ranked: list[tuple[str, float]], total: float, outer: Array) -> str:
    if ranked[0][1] == 0:
        return "No column moves the model: it is constant on these rows."
    needed = 1 + int(np.argmax(np.cumsum([value for _, value in ranked]) >= 0.8 * total))
    eigenvalues = np.maximum(np.linalg.eigvalsh(outer)[::-1], 0)
    directions = 1 + int(np.argmax(np.cumsum(eigenvalues) >= 0.95 * eigenvalues.sum()))
    return (
        f"{ranked[0][0]!r} moves the model most. {count_of(needed, 'column')} of {len(ranked)} "
        f"{'does' if needed == 1 else 'do'} four fifths of all that moves; "
        f"{count_of(directions, 'direction')} {'carries' if directions == 1 else 'carry'} 95% of it."
    )


def _pair_cards(evidence: Evidence, columns: list[int]) -> list[Markup]:
    names = evidence.subject.names
    rows, f = sample_rows(evidence.rows, _PAIR_ROWS), evidence.function
    strength = interactions(f, rows, columns)
    spread = float(np.std(f(rows))) or 1.0
    pairs = sorted(combinations(range(len(columns)), 2), key=lambda pair: -strength[pair])[:_PAIRS]
    longest = max(float(strength[pairs[0]]), 1e-300)
    bars = bar_list(
        [
            (_pair_name(names, columns[i], columns[j]), size / longest, figure_of(size / spread, 2), False)
            for i, j in pairs
            for size in [float(strength[i, j])]
        ],
        "Strength of every pair",
    )
    note = (
        "What two columns do together beyond what each does alone, in units of the spread of the "
        f"{evidence.predicted}. Zero for a sum of curves. Among the {len(columns)} strongest columns."
    )
    if strength[pairs[0]] == 0:
        return [
            card("Pairs", element("p", "No two of the strongest columns act together: the model is a sum of curves."))
        ]
    first, second = (columns[i] for i in pairs[0])
    effect = pair_effect(f, rows, first, second, 16)
    picture = heat_map(
        effect.first,
        effect.second,
        effect.mean,
        about=f"Mean {evidence.predicted} over {names[first]} and {names[second]}.",
        labels=(names[first], names[second]),
    )
    ends = figure_of(float(effect.mean.min())), figure_of(float(effect.mean.max()))
    span = f"Mean {evidence.predicted}: dark {ends[0]}, bright {ends[1]}."
    return [card("Pairs", bars, note), card("The strongest pair", picture, span)]


def _pair_name(names: tuple[str, ...], first: int, second: int) -> str:
    return f"{names[first]} and {names[second]}"


def _effect_cards(evidence: Evidence, origins: list[str]) -> list[Markup]:
    subject, rows, f = evidence.subject, sample_rows(evidence.rows, _EFFECT_ROWS), evidence.function
    answer = []
    for origin in origins:
        columns = [i for i, name in enumerate(subject.origin) if name == origin]
        indicators = rows[:, columns]
        if len(columns) > 1 and np.isin(indicators, (0, 1)).all() and indicators.sum(axis=1).max() <= 1:
            answer.append(_level_card(evidence, origin, columns, level_effects(f, rows, columns)))
        else:
            answer.append(_curve_card(evidence, columns[0]))
    return answer


def _level_card(evidence: Evidence, origin: str, columns: list[int], effects: Array) -> Markup:
    """The mean prediction at every level of a category."""
    names = [evidence.subject.names[column].removeprefix(f"{origin}=") for column in columns]
    order = np.argsort(-effects, kind="stable")
    order = order if order.size <= 10 else np.concatenate([order[:5], order[-5:]])
    low, high = float(effects.min()), float(effects.max())
    reach = (high - low) or 1.0
    places = place_list(
        [(names[i], (effects[i] - low) / reach, figure_of(effects[i])) for i in order],
        f"Mean {evidence.predicted} at every level of {origin}",
    )
    left = len(names) - order.size
    return card(origin, places, f"{left} levels between these are not shown." if left else None)


def _curve_card(evidence: Evidence, column: int) -> Markup:
    rows, name = sample_rows(evidence.rows, _EFFECT_ROWS), evidence.subject.names[column]
    effect = partial_effect(evidence.function, rows, column)
    low, high = float(effect.grid[0]), float(effect.grid[-1])
    density, edges = np.histogram(rows[:, column], bins=32, range=(low, high) if low < high else (low - 0.5, low + 0.5))
    picture = chart(
        [
            Under(edges, density),
            Band(effect.grid, effect.low, effect.high),
            Line(evidence.predicted, effect.grid, effect.mean, dots=effect.grid.size <= 12),
        ],
        about=f"Mean {evidence.predicted} as {name} varies.",
        x_label=name,
        y_label=evidence.predicted if len(evidence.predicted) < 30 else "prediction",
    )
    marks = legend(("model", "mean"), ("band", "four fifths of the rows"), ("under", "where the rows lie"))
    return card(name, picture, None, marks)
