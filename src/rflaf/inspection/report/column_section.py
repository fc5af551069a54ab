"""Importance of columns, alone and in pairs, and the effects of the strongest."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from rflaf.errors import Array
from rflaf.estimators.svg import Markup, element, join
from rflaf.inspection import effects
from rflaf.inspection.effects import sample_rows

from .charts import Band, Layer, Line, Under, chart, legend
from .findings import Findings
from .heat_map import heat_map
from .page import Section, bar_list, card, grid, place_list
from .wording import count_of, figure_of

_COLUMNS, _EFFECTS, _PAIRS = 12, 6, 5
_EFFECT_ROWS, _PAIR_ROWS = 400, 300
_LEAST_BAND = 0.004  # share of a curve's height from which on a band can be seen
_DIFFERENCES = 100_000  # most differences, rows times columns, behind the importances


def column_section(findings: Findings) -> Section:
    """Show importances by the average gradient outer product, interactions, and the effects of strong columns."""
    subject = findings.subject
    rows = sample_rows(findings.rows, int(np.clip(_DIFFERENCES // subject.model.n_features, 50, 1000)))
    outer = effects.gradient_outer_product(subject.model, rows, categories=subject.levels)
    sway = np.sqrt(np.maximum(np.diag(outer), 0))
    ranked = subject.by_origin(sway)
    total = sum(value for _, value in ranked) or 1.0
    top = ranked[:_COLUMNS]
    longest = top[0][1] or 1.0
    lengths = [(name, value / longest, f"{value / total:.1%}", False) for name, value in top]
    bars = bar_list(lengths, "Share of every column")
    unit = "the log-odds" if findings.classes is not None else "the prediction"
    note = (
        f"Change of {unit} when a column changes by its spread: root of the diagonal of the average gradient "
        "outer product, as a share of the sum."
    )
    unnamed = len(ranked) - len(top)
    cards = [card("Columns", bars, note + (f" {count_of(unnamed, 'more column')} not shown." if unnamed else ""))]
    strongest = [int(i) for i in np.argsort(-sway, kind="stable")[:_EFFECTS] if sway[i] > 0]
    if len(strongest) > 1:
        cards.extend(_pair_cards(findings, strongest))
    shown = _effect_cards(findings, [name for name, value in ranked[:_EFFECTS] if value > 0])
    body = [grid(cards, narrow=True)]
    if shown:
        title = element("h3", f"Effects of the strongest on the {findings.predicted}")
        body += [title, grid(shown, narrow=len(shown) in (3, 5, 6))]
    return Section("columns", "Columns", _column_lead(ranked, total, outer), join(body))


def _column_lead(ranked: list[tuple[str, float]], total: float, outer: Array) -> str:
    if ranked[0][1] == 0:
        return "No column changes the prediction: the model is constant on these rows."
    needed = 1 + int(np.argmax(np.cumsum([value for _, value in ranked]) >= 0.8 * total))
    eigenvalues = np.maximum(np.linalg.eigvalsh(outer)[::-1], 0)
    directions = 1 + int(np.argmax(np.cumsum(eigenvalues) >= 0.95 * eigenvalues.sum()))
    return (
        f"{ranked[0][0]!r} is the most important column. {count_of(needed, 'column')} of {len(ranked)} "
        f"{'accounts' if needed == 1 else 'account'} for four fifths of the change of the prediction; "
        f"{count_of(directions, 'direction')} {'accounts' if directions == 1 else 'account'} for 95%."
    )


def _pair_cards(findings: Findings, columns: list[int]) -> list[Markup]:
    names = findings.subject.names
    rows, f = sample_rows(findings.rows, _PAIR_ROWS), findings.function
    strength = effects.interactions(f, rows, columns)
    spread = float(np.std(f(rows))) or 1.0
    pairs = sorted(combinations(range(len(columns)), 2), key=lambda pair: -strength[pair])[:_PAIRS]
    longest = max(float(strength[pairs[0]]), 1e-300)
    named = [(f"{names[columns[i]]} and {names[columns[j]]}", float(strength[i, j])) for i, j in pairs]
    lengths = [(name, size / longest, figure_of(size / spread, 2), False) for name, size in named]
    bars = bar_list(lengths, "Strength of every pair")
    note = (
        "Joint effect of two columns beyond the sum of their single effects, in units of the spread of the "
        f"{findings.predicted}; zero for an additive model. Among the {len(columns)} strongest columns."
    )
    if strength[pairs[0]] == 0:
        return [card("Pairs", element("p", "No two of the strongest columns interact: the model is additive in them."))]
    first, second = (columns[i] for i in pairs[0])
    effect = effects.pair_effect(f, rows, first, second, 16, findings.subject.levels)
    about, labels = f"Mean {findings.predicted} over {names[first]} and {names[second]}.", (names[first], names[second])
    levels = findings.subject.levels.get(first), findings.subject.levels.get(second)
    picture = heat_map(effect.first, effect.second, effect.mean, about=about, labels=labels, levels=levels)
    return [card("Pairs", bars, note), card("The strongest pair", picture, f"Colour: mean {findings.predicted}.")]


def _effect_cards(findings: Findings, origins: list[str]) -> list[Markup]:
    subject, rows, f = findings.subject, sample_rows(findings.rows, _EFFECT_ROWS), findings.function
    answer = []
    for origin in origins:
        column = subject.origin.index(origin)
        if column in subject.levels:
            codes = np.unique(rows[:, column])
            names = [subject.levels[column][int(code)] for code in codes]
            answer.append(_level_card(findings, origin, names, effects.level_effects(f, rows, column, codes)))
        else:
            answer.append(_curve_card(findings, column))
    return answer


def _level_card(findings: Findings, origin: str, names: list[str], means: Array) -> Markup:
    """Show the mean prediction at every level of a category that the rows have."""
    order = np.argsort(-means, kind="stable")
    order = order if order.size <= 10 else np.concatenate([order[:5], order[-5:]])
    low, high = float(means.min()), float(means.max())
    reach = (high - low) or 1.0
    places = place_list(
        [(names[i], (means[i] - low) / reach, figure_of(means[i])) for i in order],
        f"Mean {findings.predicted} at every level of {origin}",
    )
    left = len(names) - order.size
    return card(origin, places, f"{left} levels between these are not shown." if left else None)


def _curve_card(findings: Findings, column: int) -> Markup:
    rows, name = sample_rows(findings.rows, _EFFECT_ROWS), findings.subject.names[column]
    effect = effects.partial_effect(findings.function, rows, column)
    low, high = float(effect.grid[0]), float(effect.grid[-1])
    density, edges = np.histogram(rows[:, column], bins=32, range=(low, high) if low < high else (low - 0.5, low + 0.5))
    varies = float(np.max(effect.high - effect.low)) > _LEAST_BAND * (float(np.ptp(effect.mean)) or 1.0)
    band: list[Layer] = [Band(effect.grid, effect.low, effect.high)] if varies else []
    line = Line(findings.predicted, effect.grid, effect.mean, dots=effect.grid.size <= 12)
    picture = chart(
        [Under(edges, density), *band, line],
        about=f"Mean {findings.predicted} as {name} varies.",
        x_label=name,
        y_label=findings.predicted if len(findings.predicted) < 30 else "prediction",
    )
    shown = [("band", "four fifths of the rows")] if varies else []
    marks = legend(("model", "mean"), *shown, ("under", "distribution of the rows"))
    return card(name, picture, None if varies else "The same for all rows: no other column changes it.", marks)
