"""The scores of the model with their intervals, beside those of the baselines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rflaf.estimators.metrics import Score
from rflaf.estimators.svg import Markup, element

from .charts import Mark, chart
from .findings import Findings
from .page import Section, card, grid, scrolling
from .quality import Rival
from .score_chart import ScoreLine, far, score_chart
from .uncertainty import interval, paired_ratio
from .wording import figure_of, per_cent, share_of

_SAME = 0.005


def verdict(findings: Findings) -> str:
    """Return a sentence on the first score, and on the lead over the best baseline if the comparison is fair."""
    ours = findings.ours.scores[0]
    score = f"{ours.name.capitalize()} {write_score(ours)}{_around(findings.ours)}"
    if not findings.comparison.fair:
        return f"{score}."
    best = best_rival(findings.comparison.rivals)
    theirs = best.scores[0]
    known = f"{best.name} ({write_score(theirs)})"
    if theirs.value == 0 or not np.isfinite(theirs.value):
        return f"{score}; the best baseline is {known}."
    ends = paired_ratio(findings.ours.draws[:, 0], best.draws[:, 0])
    gap = ours.value / theirs.value - 1
    if ends is None or ends[0] <= 1 <= ends[1]:
        how = "the same as" if abs(gap) < _SAME else f"{_gap(gap)} than"
        return f"{score}: {how} the best baseline, {known}, and not distinguishable from it on these rows."
    near, far = sorted((ends[0] - 1, ends[1] - 1), key=abs)
    between = f"95% interval {per_cent(abs(near))} to {_gap(far)}"
    return f"{score}: {_gap(gap)} than the best baseline, {known}; {between}."


def _gap(gap: float) -> str:
    return f"{per_cent(abs(gap))} {'lower' if gap < 0 else 'higher'}"


def _around(rival: Rival) -> str:
    ends = interval(rival.draws[:, 0])
    return "" if ends is None else f" (95% interval {_interval_words(rival.scores[0], ends)})"


def _interval_words(score: Score, ends: tuple[float, float]) -> str:
    if score.shown == "share":
        return f"{share_of(ends[0])} to {share_of(ends[1])}"
    return f"{figure_of(ends[0])} to {figure_of(ends[1])}"


def best_rival(rivals: Sequence[Rival]) -> Rival:
    """Return the model whose first score is best."""
    return min(rivals, key=_badness)


def write_score(score: Score) -> str:
    """Format a score, shares in per cent."""
    return share_of(score.value) if score.shown == "share" and np.isfinite(score.value) else figure_of(score.value)


def score_card(findings: Findings) -> Markup:
    """Draw the first score of every model with its interval, the best on top."""
    everyone, constant = _everyone(findings), findings.comparison.rivals[0]
    shown = [rival for rival in everyone if rival is not constant or len(everyone) < 3]
    first = findings.ours.scores[0]
    lines = [
        ScoreLine(
            rival.name, rival.scores[0].value, interval(rival.draws[:, 0]), write_score(rival.scores[0]), rival.ours
        )
        for rival in shown
    ]
    values = "; ".join(f"{line.name} {line.words}" for line in lines)
    better = "lower is better" if first.lower else "higher is better"
    picture = score_chart(lines, about=f"{first.name} of every model: {values}.")
    title = f"{first.name.capitalize()}, {better}"
    beyond = " Arrows: beyond the end of the axis." if far(lines) else ""
    return card(title, picture, f"Dots: scores. Bars: 95% bootstrap intervals over the rows scored.{beyond}")


def quality_section(findings: Findings) -> Section:
    """Compare all scores and prediction times of the model and the baselines."""
    everyone = _everyone(findings)
    place = (
        f"By {findings.ours.scores[0].name} the model ranks {everyone.index(findings.ours) + 1} of {len(everyone)}. "
    )
    lead = (place if findings.comparison.fair else "") + findings.comparison.how
    table = card("All scores", _score_table(everyone), "With 95% bootstrap intervals over the rows scored.")
    return Section("quality", "Quality", lead, grid([table]))


def _everyone(findings: Findings) -> list[Rival]:
    return sorted((findings.ours, *findings.comparison.rivals), key=_badness)


def _badness(rival: Rival) -> float:
    """Return the first score with the sign for which lower is better."""
    score = rival.scores[0]
    return score.value if score.lower else -score.value


def cost_card(findings: Findings) -> Markup | None:
    """Draw the first score against the time per row, without the constant model; None without other models."""
    shown = [rival for rival in _everyone(findings) if rival is not findings.comparison.rivals[0]]
    if len(shown) < 2:
        return None
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
    title = "Error against time" if first.lower else "Score against time"
    return card(
        title, picture, "In a batch, on one thread of this machine. Lower left is better." if first.lower else None
    )


def _score_table(everyone: Sequence[Rival]) -> Markup:
    titles = ["model", *[score.name for score in everyone[0].scores], "µs per row"]
    head = element("tr", *[element("th", title, scope="col") for title in titles])
    rows = [
        element(
            "tr",
            element("th", rival.name, scope="row"),
            [_score_cell(rival, number) for number in range(len(rival.scores))],
            element("td", figure_of(rival.microseconds, 2), data_label="µs per row"),
            class_="ours" if rival.ours else None,
        )
        for rival in everyone
    ]
    table = element("table", element("thead", head), element("tbody", *rows), class_="scores")
    return scrolling(table, "All scores")


def _score_cell(rival: Rival, number: int) -> Markup:
    score, ends = rival.scores[number], interval(rival.draws[:, number])
    words = None if ends is None else element("small", _interval_words(score, ends))
    return element("td", write_score(score), words, data_label=score.name)
