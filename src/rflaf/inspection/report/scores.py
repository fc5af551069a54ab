"""How good the model is beside the usual ones, and what is odd about the data it is judged on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .charts import Mark, chart
from .evidence import Evidence
from .markup import Markup, count_of, element, figure_of, join
from .model_facts import n_parameters
from .pieces import Section, Tile, bar_list, card, grid, scrolling
from .quality import Rival, Score


def tiles(evidence: Evidence) -> list[Tile]:
    """The numbers one looks for first."""
    first, *others = evidence.ours.scores
    share = next((score for score in (*others, first) if score.shown == "share"), first)
    serious = sum(oddity.level == "serious" for oddity in evidence.oddities)
    found = [
        Tile(share.name, write_score(share), f"on {count_of(evidence.n_rows, 'row')}"),
        Tile("a row costs", f"{figure_of(evidence.speed.in_batch, 2)} µs", "one thread, in a batch"),
        Tile("components", f"{evidence.subject.model.n_components:,}", f"{n_parameters(evidence.subject):,} numbers"),
        Tile("odd about the data", str(len(evidence.oddities)), f"{serious} serious" if serious else "nothing serious"),
    ]
    return (
        found
        if share is first
        else [found[0], Tile(first.name, write_score(first), verdict_note(evidence)), *found[1:]]
    )


def verdict(evidence: Evidence) -> str:
    """One sentence that compares the model with the best of the usual ones."""
    ours, best = evidence.ours.scores[0], best_rival(evidence.comparison.rivals)
    theirs = best.scores[0]
    said = f"{ours.name.capitalize()} {write_score(ours)}"
    if theirs.value == 0 or not np.isfinite(theirs.value):
        return f"{said}; the best of the usual models, {best.name}: {write_score(theirs)}."
    gap = ours.value / theirs.value - 1
    if abs(gap) < 0.005:
        return f"{said}, the same as the best of the usual models, {best.name}."
    side = "lower" if gap < 0 else "higher"
    return f"{said}: {abs(gap):.0%} {side} than the best of the usual models, {best.name} ({write_score(theirs)})."


def verdict_note(evidence: Evidence) -> str:
    """The best usual model's first score, beside the model's own."""
    best = best_rival(evidence.comparison.rivals)
    return f"{best.name}: {write_score(best.scores[0])}"


def best_rival(rivals: Sequence[Rival]) -> Rival:
    """The usual model whose first score is best."""
    return min(rivals, key=_badness)


def write_score(score: Score) -> str:
    """A score as it is written: shares in per cent."""
    return f"{score.value:.1%}" if score.shown == "share" and np.isfinite(score.value) else figure_of(score.value)


def quality_section(evidence: Evidence) -> Section:
    """Scores of the model beside those of the usual models, and what a row costs each."""
    everyone = sorted((evidence.ours, *evidence.comparison.rivals), key=_badness)
    first, place = evidence.ours.scores[0], everyone.index(evidence.ours) + 1
    longest = max((abs(rival.scores[0].value) for rival in everyone if np.isfinite(rival.scores[0].value)), default=1.0)
    bars = bar_list(
        [
            (rival.name, rival.scores[0].value / (longest or 1), write_score(rival.scores[0]), rival.ours)
            for rival in everyone
        ],
        f"{first.name} of every model",
    )
    better = "lower is better" if first.lower else "higher is better"
    lead = f"By {first.name} it is number {place} of {len(everyone)}. {evidence.comparison.how}"
    cards = grid([card(f"{first.name.capitalize()}, {better}", bars), _cost_card(evidence, everyone)])
    return Section("quality", "How good it is", lead, join([cards, grid([card("All scores", _score_table(everyone))])]))


def _badness(rival: Rival) -> float:
    """The first score, turned so that lower is better."""
    score = rival.scores[0]
    return score.value if score.lower else -score.value


def _cost_card(evidence: Evidence, everyone: Sequence[Rival]) -> Markup:
    """The first score against what a row costs; the constant model, which costs nothing, is left out."""
    shown = [rival for rival in everyone if rival is not evidence.comparison.rivals[0]]
    first = evidence.ours.scores[0]
    said = [f"{r.name} {write_score(r.scores[0])} at {figure_of(r.microseconds, 2)} microseconds" for r in shown]
    picture = chart(
        [Mark(rival.microseconds, rival.scores[0].value, rival.name, rival.ours) for rival in shown],
        about=f"{first.name} against what a row costs: {'; '.join(said)}.",
        x_label="microseconds a row",
        y_label=first.name,
        x_log=True,
        x_room=2.0,
    )
    return card(
        "Error against cost" if first.lower else "Score against cost",
        picture,
        "In a batch, on one thread of this machine.",
    )


def _score_table(everyone: Sequence[Rival]) -> Markup:
    titles = ["model", *[score.name for score in everyone[0].scores], "µs a row"]
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


def data_section(evidence: Evidence) -> Section:
    """What is odd about the data."""
    left_out = [
        element(
            "li", element("strong", f"{name!r} is left out"), element("p", f"{reason.capitalize()}."), class_="note"
        )
        for name, reason in evidence.subject.left_out
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
        for oddity in evidence.oddities
    ]
    n_odd = len(found) + len(left_out)
    lead = f"{count_of(n_odd, 'thing')} to look at before you trust the scores." if n_odd else (
        "Nothing odd: no constant, doubled, numbering or foretelling column, nothing missing."
    )  # fmt: skip
    return Section("data", "The data", lead, element("ul", *found, *left_out, class_="oddities") if n_odd else Markup())


def more(number: int) -> str | None:
    """How many were not named."""
    return f" and {number:,} more" if number > 0 else None
