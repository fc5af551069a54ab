"""Errors of the model: residuals of a regression, confusion and calibration of a classification."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.calibration import calibration_curve

from rflaf.errors import Array
from rflaf.estimators.svg import Markup, element
from rflaf.inspection.effects import inner_range

from .charts import Line, Points, Rule, Steps, Under, chart, legend
from .findings import Findings
from .page import Section, card, grid, scrolling
from .wording import count_of, figure_of

_POINTS = 700
_CLASSES = 12  # most classes of the confusion table


def regression_section(findings: Findings) -> Section:
    """Show observed against predicted values, and the residuals."""
    observed, predicted = findings.target[:, 0], findings.answers[:, 0].astype(np.float64)
    residual = observed - predicted
    shown = np.linspace(0, observed.size - 1, min(_POINTS, observed.size)).astype(np.intp)
    low, high = float(min(observed.min(), predicted.min())), float(max(observed.max(), predicted.max()))
    points = chart(
        [Rule((low, low), (high, high)), Points(predicted[shown], observed[shown])],
        about="Observed against predicted values; points on the dashed line are exact.",
        x_label="predicted",
        y_label="observed",
    )
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
    bias = float(residual.mean())
    note = f"Mean residual {figure_of(bias)}, largest {figure_of(float(np.abs(residual).max()))}."
    which = "" if findings.target.shape[1] == 1 else " Shown for the first output."
    compared = card("Observed against predicted", points, f"{count_of(shown.size, 'row')}.{which}")
    return Section("errors", "Errors", lead, grid([compared, card("Residuals", histogram, note)]))


def classification_section(findings: Findings) -> Section:
    """Show the confusion table and the calibration of probabilities."""
    classes = findings.classes or ()
    guess = np.argmax(findings.answers, axis=1)
    n_classes = len(classes)
    counts = np.bincount(findings.target * n_classes + guess, minlength=n_classes**2).reshape(n_classes, n_classes)
    often = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:_CLASSES])
    note = "One row per true class, one column per predicted class."
    if n_classes > _CLASSES:
        note += f" The {_CLASSES} most frequent of {n_classes} classes."
    table = confusion_table(counts[np.ix_(often, often)], [classes[i] for i in often])
    cards = [card("Confusion table", table, note)]
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    worst = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    lead = f"{figure_of(100 * float(np.trace(counts) / counts.sum()))} rows in a hundred are classified correctly."
    if wrong.any():
        lead += f" The most frequent mistake: {classes[worst[0]]!r} predicted as {classes[worst[1]]!r}."
    if findings.gives_probabilities:
        cards.append(_calibration_card(findings))
    return Section("errors", "Errors", lead, grid(cards))


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
    note = f"Probabilities on the dashed line are exact. Mean distance from it: {figure_of(gap, 2)}."
    marks = legend(("model", "groups of equally many rows"), ("under", "distribution of the rows"))
    return card("Calibration", picture, note, marks)
