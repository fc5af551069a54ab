"""The numbers at the top of the page, problems of the data, speed and the parts of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from rflaf.errors import StopReason
from rflaf.estimators.svg import Markup, element, join

from .findings import Findings
from .page import Section, Tile, card, facts_table, grid
from .scores import best_rival, cost_card, write_score
from .subject import Subject
from .uncertainty import interval
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
        Tile(
            "components", f"{findings.subject.model.n_components:,}", f"{findings.subject.model.n_parameters:,} numbers"
        ),
        Tile("problems of the data", str(len(findings.oddities)), f"{serious} serious" if serious else "none serious"),
    ]
    if share is not first:
        found.insert(1, Tile(first.name, write_score(first), _beside(findings)))
    return found


def _beside(findings: Findings) -> str:
    ends = interval(findings.ours.draws[:, 0])
    if not findings.comparison.fair:
        return "" if ends is None else f"{figure_of(ends[0])} to {figure_of(ends[1])}"
    best = best_rival(findings.comparison.rivals)
    return f"{best.name}: {write_score(best.scores[0])}"


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
    found = {
        f"per row, {speed.batch:,} at once": f"{figure_of(speed.in_batch, 2)} µs",
        "one row, model_.decision": f"{figure_of(speed.alone, 2)} µs",
    }
    if speed.through_estimator is not None:
        found["one row, predict with its checks"] = f"{figure_of(speed.through_estimator, 2)} µs"
    found["numbers in the model"] = f"{findings.subject.model.n_parameters:,}"
    lead = f"{roughly(1e6 / speed.in_batch).capitalize()} rows per second on one thread of this machine."
    return Section("speed", "Speed", lead, grid([cost_card(findings), card("On one thread", facts_table(found))]))


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
        "numbers in the model": f"{subject.model.n_parameters:,}",
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
