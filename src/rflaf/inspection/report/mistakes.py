"""Errors of the model: residuals of a regression, confusion and calibration of a classification."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.calibration import calibration_curve

from rflaf.errors import Array
from rflaf.estimators.metrics import brier_score, calibration_error
from rflaf.estimators.svg import Markup, element
from rflaf.inspection.effects import inner_range

from .charts import Line, Points, Rule, Steps, Under, chart, legend
from .coverage import coverage_of
from .fan import fan_card, quantile_section
from .findings import Findings
from .page import Section, card, grid, scrolling
from .wording import count_of, figure_of

_POINTS = 700
_CLASSES = 12  # most classes of the confusion table
_GROUPS = 10
_SURE = 0.9


def first_picture(findings: Findings) -> Markup:
    """Draw what a person wants to see first: observed against predicted values, a fan, or the confusion table."""
    if findings.subject.levels_predicted:
        return fan_card(findings)
    return _observed_card(findings) if findings.classes is None else _confusion_card(findings)


def error_section(findings: Findings) -> Section:
    """Show the residuals of a regression, the quantiles it predicts, or the probabilities of a classification."""
    if findings.subject.levels_predicted:
        return quantile_section(findings)
    return _regression_section(findings) if findings.classes is None else _classification_section(findings)


def _observed_card(findings: Findings) -> Markup:
    observed, predicted = _first_output(findings)
    shown = np.linspace(0, observed.size - 1, min(_POINTS, observed.size)).astype(np.intp)
    low, high = float(min(observed.min(), predicted.min())), float(max(observed.max(), predicted.max()))
    points = chart(
        [Rule((low, low), (high, high)), Points(predicted[shown], observed[shown])],
        about="Observed against predicted values; points on the dashed line are exact.",
        x_label="predicted",
        y_label="observed",
    )
    which = "" if findings.target.shape[1] == 1 else " Shown for the first output."
    note = f"{count_of(shown.size, 'row')}; exact on the dashed line.{which}"
    return card("Observed against predicted", points, note)


def _first_output(findings: Findings) -> tuple[Array, Array]:
    return findings.target[:, 0], findings.answers[:, 0].astype(np.float64)


def _regression_section(findings: Findings) -> Section:
    observed, predicted = _first_output(findings)
    residual = observed - predicted
    edges = np.linspace(*inner_range(residual), 41)
    density = np.histogram(residual, edges)[0] / residual.size
    histogram = chart(
        [Steps("share of rows", edges, density), Rule((0.0, 0.0), (0.0, float(density.max())))],
        about="Distribution of the residuals.",
        x_label="observed - predicted",
        y_label="share of rows",
        y_from_zero=True,
    )
    within = float(np.quantile(np.abs(residual), 0.9))
    half = float(np.median(np.abs(residual)))
    lead = f"Nine predictions in ten are within {figure_of(within)} of the target, half within {figure_of(half)}."
    lead += coverage_of(findings)
    bias = float(residual.mean())
    note = f"Mean residual {figure_of(bias)}, largest {figure_of(float(np.abs(residual).max()))}."
    cards = [card("Residuals", histogram, note), _size_card(predicted, np.abs(residual))]
    return Section("errors", "Errors", lead, grid(cards))


def _size_card(predicted: Array, error: Array) -> Markup | None:
    """Draw the errors of groups of equally many rows, from small to large predictions."""
    groups = [rows for rows in np.array_split(np.argsort(predicted, kind="stable"), _GROUPS) if rows.size]
    at = np.array([predicted[rows].mean() for rows in groups])
    if at.size < 2 or np.ptp(at) == 0:
        return None
    half = np.array([np.median(error[rows]) for rows in groups])
    most = np.array([np.quantile(error[rows], 0.9) for rows in groups])
    picture = chart(
        [Line("nine in ten within", at, most, "second", dots=True), Line("half within", at, half, dots=True)],
        about="Size of the errors from small to large predictions.",
        x_label="predicted",
        y_label="size of the error",
        y_from_zero=True,
    )
    marks = legend(("model", "half of the rows are within"), ("second", "nine in ten are within"))
    return card("Where the errors are", picture, f"{len(groups)} groups of equally many rows.", marks)


def _confusion_card(findings: Findings) -> Markup:
    classes, counts = findings.classes or (), _confusion(findings)
    often = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:_CLASSES])
    note = "One row per true class, one column per predicted class."
    if len(classes) > _CLASSES:
        note += f" The {_CLASSES} most frequent of {len(classes)} classes."
    table = confusion_table(counts[np.ix_(often, often)], [classes[i] for i in often])
    return card("True against predicted classes", table, note)


def _confusion(findings: Findings) -> Array:
    """Return counts (n_classes, n_classes), one row per true class."""
    n_classes, guess = len(findings.classes or ()), np.argmax(findings.answers, axis=1)
    return np.bincount(findings.target * n_classes + guess, minlength=n_classes**2).reshape(n_classes, n_classes)


def _classification_section(findings: Findings) -> Section:
    classes, counts = findings.classes or (), _confusion(findings)
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    worst = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    lead = f"{figure_of(100 * float(np.trace(counts) / counts.sum()))} rows in a hundred are classified correctly."
    if wrong.any():
        lead += f" The most frequent mistake: {classes[worst[0]]!r} predicted as {classes[worst[1]]!r}."
    lead += coverage_of(findings)
    cards = [_calibration_card(findings), _confidence_card(findings)] if findings.gives_probabilities else []
    return Section("errors", "Errors", lead, grid(cards) if cards else Markup())


def _confidence_card(findings: Findings) -> Markup:
    """Draw how sure the model is of the classes it predicts, and how often they are right."""
    sure, right = findings.answers.max(axis=1), np.argmax(findings.answers, axis=1) == findings.target
    edges = np.linspace(1 / len(findings.classes or (0, 1)), 1, 21)
    density = np.histogram(np.clip(sure, edges[0], 1), edges)[0] / sure.size
    picture = chart(
        [Steps("share of rows", edges, density)],
        about="How sure the model is of the class it predicts.",
        x_label="probability of the predicted class",
        y_label="share of rows",
        y_from_zero=True,
    )
    certain = sure >= _SURE
    note = f"At least {_SURE:.0%} sure of {certain.mean():.0%} of the rows"
    return card(
        "Confidence", picture, f"{note}, right on {right[certain].mean():.1%} of them." if certain.any() else note + "."
    )


def confusion_table(counts: Array, names: Sequence[str]) -> Markup:
    """Return counts (n, n) as a table whose cells are tinted by their share of the row."""
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    head = element("tr", element("td"), *[element("th", name, scope="col") for name in names])
    rows = [
        element(
            "tr",
            element("th", name, scope="row"),
            [
                element("td", f"{count:,}", class_="right" if i == j else "wrong", style=f"--share:{part:.3f}")
                for j, (count, part) in enumerate(zip(line, parts, strict=True))
            ],
        )
        for i, (name, line, parts) in enumerate(zip(names, counts, share, strict=True))
    ]
    table = element("table", element("thead", head), element("tbody", *rows), class_="heat")
    return scrolling(table, "Confusion table")


def _calibration_card(findings: Findings) -> Markup:
    classes = findings.classes or ()
    number = 1 if len(classes) == 2 else 0
    p, true = findings.answers[:, number], findings.target == number
    observed, predicted = calibration_curve(true, np.clip(p, 0, 1), n_bins=10, strategy="quantile")
    density, edges = np.histogram(p, bins=20, range=(0, 1))
    picture = chart(
        [Under(edges, density), Rule((0.0, 0.0), (1.0, 1.0)), Line("frequency", predicted, observed, dots=True)],
        about=f"Frequency of class {classes[number]} against its predicted probability.",
        x_label=findings.predicted,
        y_label="observed frequency",
    )
    gap = float(np.mean(np.abs(observed - predicted)))
    code = findings.target.astype(np.intp)
    note = f"Probabilities on the dashed line are exact. Mean distance from it: {figure_of(gap, 2)}."
    note += f" Over all classes: Brier score {figure_of(brier_score(code, findings.answers), 3)},"
    note += f" expected calibration error {figure_of(calibration_error(code, findings.answers), 2)}."
    marks = legend(("model", "groups of equally many rows"), ("under", "distribution of the rows"))
    return card("Calibration", picture, note, marks)
