"""Scores of the model beside the baselines, problems of the data, speed and the parts of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from rflaf.errors import StopReason
from rflaf.estimators.metrics import Score
from rflaf.estimators.svg import Markup, element, join

from .charts import Mark, chart
from .findings import Findings
from .page import Section, Tile, bar_list, card, facts_table, grid, scrolling, tile_list
from .quality import Rival
from .subject import Subject
from .wording import count_of, figure_of, roughly

_BASES = {
    "BSplineBasis": "cubic B-splines",
    "RBFBasis": "Gaussian bumps",
    "PolynomialBasis": "Legendre polynomials",
    "FixedActivation": "fixed function",
}


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
    if share is not first:
        best = best_rival(findings.comparison.rivals)
        found.insert(1, Tile(first.name, write_score(first), f"{best.name}: {write_score(best.scores[0])}"))
    return found


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
    scored = [(rival, rival.scores[0]) for rival in everyone]
    lengths = [(rival.name, score.value / (longest or 1), write_score(score), rival.ours) for rival, score in scored]
    bars = bar_list(lengths, f"{first.name} of every model")
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
    title = "Error against time" if first.lower else "Score against time"
    return card(title, picture, "In a batch, on one thread of this machine.")


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
        _point("note", f"{name!r} is left out", f"{reason.capitalize()}.") for name, reason in findings.subject.left_out
    ]
    found = [_point(oddity.level, oddity.title, oddity.advice, oddity.columns) for oddity in findings.oddities]
    n_odd = len(found) + len(left_out)
    lead = f"{count_of(n_odd, 'point')} to check before you trust the scores." if n_odd else (
        "No problems: no constant, duplicated, numbering or leaking column, no missing values."
    )  # fmt: skip
    return Section("data", "The data", lead, element("ul", *found, *left_out, class_="oddities") if n_odd else Markup())


def _point(level: str, title: str, advice: str, columns: Sequence[str] = ()) -> Markup:
    names, left = [element("code", name) for name in columns[:8]], len(columns) - 8
    listed = element("p", names, f" and {left:,} more" if left > 0 else None) if columns else None
    return element("li", element("strong", title), element("p", advice), listed, class_=level)


def speed_section(findings: Findings) -> Section:
    """Show microseconds per row, measured while the report is written."""
    speed = findings.speed
    found = [
        Tile("in a batch", f"{figure_of(speed.in_batch, 2)} µs", f"per row, {speed.batch:,} rows, one thread"),
        Tile("one row", f"{figure_of(speed.alone, 2)} µs", "model_.decision, from Python"),
    ]
    if speed.through_estimator is not None:
        microseconds = f"{figure_of(speed.through_estimator, 2)} µs"
        found.append(Tile("through scikit-learn", microseconds, "one row, with its checks"))
    lead = f"{roughly(1e6 / speed.in_batch).capitalize()} rows per second on one thread of this machine."
    return Section("speed", "Speed", lead, tile_list(found))


def model_section(findings: Findings) -> Section:
    """Show the parts of the model, its fit and its parameters."""
    subject = findings.subject
    facts = {**describe(subject), **findings.facts}
    cards = [card("Facts", facts_table(facts))]
    if subject.estimator is not None:
        asked = {name: _shorten(value) for name, value in subject.estimator.get_params(deep=False).items()}
        details = element("details", element("summary", "All parameters"), facts_table(asked))
        trials = getattr(subject.estimator, "trials_", ())
        tried = None
        if trials:
            errors = [(figure_of(trial.error), _recipe(trial.recipe)) for trial in trials]
            lines = [element("li", element("b", error), f" {recipe}") for error, recipe in errors]
            summary = element("summary", f"{len(trials)} recipes tried on held-out rows")
            tried = element("details", summary, element("ol", *lines))
        cards.append(card("Parameters", join([facts_table(_changed(subject.estimator)), details, tried])))
    return Section("model", "The model", rung(subject), grid(cards))


def describe(subject: Subject) -> dict[str, str]:
    """Return facts about the model by name."""
    model, estimator = subject.model, subject.estimator
    plain = model.describe()
    shared = plain["activations"] == 1
    low, high = plain["interval"]
    basis = _BASES.get(plain["basis"], plain["basis"])
    facts = {
        "model": type(model if estimator is None else estimator).__name__,
        "columns": f"{plain['n_features']:,}",
        "components": f"{plain['n_components']:,}",
        "outputs": f"{plain['n_outputs']:,}",
        "activations": "one for all components" if shared else "one per component",
        "basis": f"{plain['n_basis']} {basis} from {figure_of(low)} to {figure_of(high)}",
        "curved columns": f"{plain['curved_columns']:,}",
        "numbers in the model": f"{n_parameters(subject):,}",
    }
    if estimator is not None:
        facts |= {
            "loss": type(estimator.loss_).__name__.lower(),
            "penalty alpha": figure_of(float(estimator.alpha_)),
            "the fit": estimator.stop_reason_.value,
        }
    return facts


def rung(subject: Subject) -> str:
    """Return a sentence on the kind of model."""
    estimator, model = subject.estimator, subject.model
    width = count_of(model.n_components, "component")
    if estimator is None:
        return f"A model of {width}, without the estimator that fitted it."
    if estimator.stop_reason_ is StopReason.TRAINED:
        curves = "" if model.curves is None else ", column curves"
        return f"Refined: directions{curves} and activations of {width} trained together."
    if estimator.leverage_ is not None:
        return f"Algorithm 1 of the paper: {width} drawn from a pool by leverage scores."
    if estimator.selection_ is not None:
        return f"Convex: {width} chosen greedily from a pool of random directions."
    single = int(np.sum(np.count_nonzero(model.directions.W, axis=0) <= 1)) if model.n_features > 1 else 0
    if single == model.n_components:
        return f"A sum of functions of single columns: {width}."
    if single:
        return f"Functions of single columns, and random directions: {width}."
    return f"Random directions, drawn plainly: {width}."


def n_parameters(subject: Subject) -> int:
    """Return the number of values that a prediction depends on."""
    model = subject.model
    curves = 0 if model.curves is None else model.curves.values.size
    parts = model.directions.W, model.directions.offset, model.activation.coefficients, model.v, model.intercept
    return int(sum(np.size(part) for part in parts) + curves)


def _changed(estimator: Any) -> dict[str, str]:
    """Return the parameters that differ from their defaults."""
    plain = type(estimator)().get_params(deep=False)
    asked = {
        name: _shorten(value)
        for name, value in estimator.get_params(deep=False).items()
        if not (value is plain[name] or repr(value) == repr(plain[name]))
    }
    return asked or {"parameters": "all at their defaults"}


def _recipe(recipe: Any) -> str:
    return ", ".join(f"{field.name} {figure_of(getattr(recipe, field.name))}" for field in fields(recipe))


def _shorten(value: Any) -> str:
    return repr(value) if len(repr(value)) < 60 else f"{repr(value)[:57]}..."
