"""Scores of the model beside the baselines, and problems of the data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rflaf.estimators.metrics import Score
from rflaf.estimators.svg import Markup, element, join

from .charts import Mark, chart
from .findings import Findings
from .model_facts import n_parameters
from .pieces import Section, Tile, bar_list, card, grid, scrolling
from .quality import Rival
from .wording import count_of, figure_of


def tiles(findings: Findings) -> list[Tile]:
    """Return the numbers at the top of the page."""
    first, *others = findings.ours.scores
    share = next((score for score in (*others, first) if score.shown == "share"), first)
    serious = sum(oddity.level == "serious" for oddity in findings.oddities)
    found = [
        Tile(share.name, write_score(share), f"on {count_of(findings.n_rows, 'row')}"),
        Tile("time per row", f"{figure_of(findings.speed.in_batch, 2)} µs", "one thread, in a batch"),
        Tile("components", f"{findings.subject.model.n_components:,}", f"{n_parameters(findings.subject):,} numbers"),
        Tile("problems of the data", str(len(findings.oddities)), f"{serious} serious" if serious else "none serious"),
    ]
    return (
        found
        if share is first
        else [found[0], Tile(first.name, write_score(first), verdict_note(findings)), *found[1:]]
    )


def verdict(findings: Findings) -> str:
    """Return a sentence that compares the model with the best baseline."""
    ours, best = findings.ours.scores[0], best_rival(findings.comparison.rivals)
    theirs = best.scores[0]
    score = f"{ours.name.capitalize()} {write_score(ours)}"
    if theirs.value == 0 or not np.isfinite(theirs.value):
        return f"{score}; the best baseline, {best.name}: {write_score(theirs)}."
    gap = ours.value / theirs.value - 1
    if abs(gap) < 0.005:
        return f"{score}, the same as the best baseline, {best.name}."
    side = "lower" if gap < 0 else "higher"
    return f"{score}: {abs(gap):.0%} {side} than the best baseline, {best.name} ({write_score(theirs)})."


def verdict_note(findings: Findings) -> str:
    """Return the first score of the best baseline."""
    best = best_rival(findings.comparison.rivals)
    return f"{best.name}: {write_score(best.scores[0])}"


def best_rival(rivals: Sequence[Rival]) -> Rival:
    """Return the model whose first score is best."""
    return min(rivals, key=_badness)


def write_score(score: Score) -> str:
    """Format a score, shares in per cent."""
    return f"{score.value:.1%}" if score.shown == "share" and np.isfinite(score.value) else figure_of(score.value)


def quality_section(findings: Findings) -> Section:
    """Compare scores and prediction times of the model and the baselines."""
    everyone = sorted((findings.ours, *findings.comparison.rivals), key=_badness)
    first, place = findings.ours.scores[0], everyone.index(findings.ours) + 1
    longest = max((abs(rival.scores[0].value) for rival in everyone if np.isfinite(rival.scores[0].value)), default=1.0)
    bars = bar_list(
        [
            (rival.name, rival.scores[0].value / (longest or 1), write_score(rival.scores[0]), rival.ours)
            for rival in everyone
        ],
        f"{first.name} of every model",
    )
    better = "lower is better" if first.lower else "higher is better"
    lead = f"By {first.name} the model ranks {place} of {len(everyone)}. {findings.comparison.how}"
    cards = grid([card(f"{first.name.capitalize()}, {better}", bars), _cost_card(findings, everyone)])
    return Section("quality", "Quality", lead, join([cards, grid([card("All scores", _score_table(everyone))])]))


def _badness(rival: Rival) -> float:
    """Return the first score with the sign for which lower is better."""
    score = rival.scores[0]
    return score.value if score.lower else -score.value


def _cost_card(findings: Findings, everyone: Sequence[Rival]) -> Markup:
    """Draw the first score against the time per row, without the constant model."""
    shown = [rival for rival in everyone if rival is not findings.comparison.rivals[0]]
    first = findings.ours.scores[0]
    values = [f"{r.name} {write_score(r.scores[0])} at {figure_of(r.microseconds, 2)} microseconds" for r in shown]
    picture = chart(
        [Mark(rival.microseconds, rival.scores[0].value, rival.name, rival.ours) for rival in shown],
        about=f"{first.name} against the time per row: {'; '.join(values)}.",
        x_label="microseconds per row",
        y_label=first.name,
        x_log=True,
        x_room=2.0,
    )
    return card(
        "Error against time" if first.lower else "Score against time",
        picture,
        "In a batch, on one thread of this machine.",
    )


def _score_table(everyone: Sequence[Rival]) -> Markup:
    titles = ["model", *[score.name for score in everyone[0].scores], "µs per row"]
    head = element("tr", *[element("th", title, scope="col") for title in titles])
    rows = [
        element(
            "tr",
            element("th", rival.name, scope="row"),
            [element("td", write_score(score)) for score in rival.scores],
            element("td", figure_of(rival.microseconds, 2)),
            class_="ours" if rival.ours else None,
        )
        for rival in everyone
    ]
    return scrolling(element("table", element("thead", head), element("tbody", *rows)), "All scores")


def data_section(findings: Findings) -> Section:
    """List the problems of the data."""
    left_out = [
        element(
            "li", element("strong", f"{name!r} is left out"), element("p", f"{reason.capitalize()}."), class_="note"
        )
        for name, reason in findings.subject.left_out
    ]
    found = [
        element(
            "li",
            element("strong", oddity.title),
            element("p", oddity.advice),
            element("p", [element("code", name) for name in oddity.columns[:8]], more(len(oddity.columns) - 8))
            if oddity.columns
            else None,
            class_=oddity.level,
        )
        for oddity in findings.oddities
    ]
    n_odd = len(found) + len(left_out)
    lead = f"{count_of(n_odd, 'point')} to check before you trust the scores." if n_odd else (
        "No problems: no constant, duplicated, numbering or leaking column, no missing values."
    )  # fmt: skip
    return Section("data", "The data", lead, element("ul", *found, *left_out, class_="oddities") if n_odd else Markup())


def more(number: int) -> str | None:
    """Return a note on the number of items not listed."""
    return f" and {number:,} more" if number > 0 else None
