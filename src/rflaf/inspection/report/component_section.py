"""Sections on the learned activations and the number of components."""

from __future__ import annotations

from typing import Any

import numpy as np

from rflaf.errors import Array
from rflaf.estimators.svg import Markup, element, join
from rflaf.estimators.width_plan import WidthPlan
from rflaf.inspection.effects import rank_components, sample_rows
from rflaf.theory import effective_dimension

from .charts import Band, Layer, Line, Mark, Rule, Under, chart, legend, sparkline
from .findings import Findings
from .page import Section, card, grid, toggle
from .subject import Subject
from .wording import count_of, figure_of

_COMPONENTS, _LEAST_SHARE = 12, 0.002
_WHOLLY, _MOSTLY = 0.999, 0.6  # share of the spread of a component's input that one column has


def activation_section(findings: Findings) -> Section:
    """Show the learned activation, or the most important activations."""
    model = findings.subject.model
    rows = sample_rows(findings.rows, 1000)
    if model.activation.coefficients.shape[0] == 1:
        return _shared_section(findings, rows)
    bank = rank_components(model, rows, _COMPONENTS, 121, findings.subject.output)
    reach = float(np.abs(bank.value).max()) or 1.0
    names = component_names(findings.subject, rows)
    panels: list[Markup] = []
    for value, density, component, share in zip(bank.value, bank.density, bank.component, bank.share, strict=True):
        if panels and share < _LEAST_SHARE:
            break
        name = names[component]
        about = f"Activation of {name}, {share:.1%} of the model."
        picture = sparkline(bank.z, value, Under(bank.edges, density), reach, about)
        words = element(
            "figcaption", element("span", name, title=f"component {component}"), element("b", f"{share:.1%}")
        )
        panels.append(element("figure", picture, words))
    toggles = toggle("scale", "Each on its own scale"), toggle("under", "Distribution of the rows", pressed=True)
    label = "How the activations are drawn"
    controls = element("div", *toggles, class_="controls", role="group", aria_label=label)
    curve = f"contribution of the component to the {findings.predicted}"
    marks = legend(("model", curve), ("under", "distribution of the rows"))
    body = element("div", controls, element("div", *panels, class_="bank"), marks, class_="card wide", data_bank=True)
    shown = float(bank.share.sum())
    lead = f"The {len(panels)} strongest of {model.n_components} components make {shown:.0%} of all contributions."
    return Section("activations", "Activations", lead, body)


def component_names(subject: Subject, rows: Array) -> list[str]:
    """Name every component by the column that its input is made of, wholly or mostly, and else by its number."""
    parts = subject.model.input_parts(rows) ** 2
    share = parts / np.maximum(parts.sum(axis=0), 1e-300)
    answer = []
    for number, (column, most) in enumerate(zip(share.argmax(axis=0), share.max(axis=0), strict=True)):
        name = subject.names[column]
        mostly = f"mostly {name}" if most > _MOSTLY else f"component {number}"
        answer.append(name if most > _WHOLLY else mostly)
    return answer


def _shared_section(findings: Findings, rows: Array) -> Section:
    model, activation = findings.subject.model, findings.subject.model.activation
    low, high = activation.basis.interval
    z, edges = np.linspace(low, high, 121), np.linspace(low, high, 61)
    value = activation(z)
    density = np.histogram(model.projections(rows), edges)[0]
    layers: list[Any] = [Under(edges, density)]
    marks = [("model", "learned activation"), ("under", "distribution of the rows")]
    if activation.covariance is not None:
        error = activation.standard_error(z)
        layers.append(Band(z, value - 2 * error, value + 2 * error))
        marks.insert(1, ("band", "two standard errors"))
    picture = chart(
        [*layers, Line("activation", z, value)],
        about="The learned activation.",
        x_label="projection z = w . x + b",
        y_label="activation",
    )
    outside = float(np.mean(np.abs(model.projections(rows) - (low + high) / 2) > (high - low) / 2))
    note = f"{outside:.1%} of the projections lie outside its interval, {figure_of(low)} to {figure_of(high)}."
    body = grid([card("The shared activation", picture, note, legend(*marks))])
    lead = f"All {model.n_components} components share one learned activation."
    return Section("activations", "Activations", lead, body)


def width_section(findings: Findings) -> Section:
    """Show the effective dimension, the width by theory, and the error of narrower models."""
    plan, path = findings.plan, _path_card(findings)
    if plan is None:
        lead = "Too few rows, or a constant target: theory gives no width."
        return Section("width", "Width", lead, grid([path]))
    lead = (
        f"At lambda {figure_of(plan.lam, 2)} the data have an effective dimension of "
        f"{figure_of(plan.effective_dimension)}: theory asks for {plan.leverage_width:,} random components drawn by "
        f"leverage, or {plan.plain_width:,} drawn plainly. This model has {findings.subject.model.n_components:,}."
    )
    charts = grid([_spectrum_card(plan), _dimension_card(plan), path], narrow=True)
    return Section("width", "Width", lead, join([charts, grid([_plan_card(plan)])]))


def _spectrum_card(plan: WidthPlan) -> Markup:
    mu = plan.spectrum.eigenvalues
    mu = mu[mu > 1e-6 * mu[0]]
    at = np.unique(np.geomspace(1, mu.size, 60).astype(np.intp))
    picture = chart(
        [
            Rule((1.0, plan.lam), (float(max(mu.size, 2)), plan.lam), "lambda"),
            Line("eigenvalue", at.astype(float), mu[at - 1]),
        ],
        about="Eigenvalues of the kernel on these rows.",
        x_label="number",
        y_label="eigenvalue",
        x_log=True,
        y_log=True,
    )
    return card("Spectrum of the kernel", picture, f"From {count_of(plan.spectrum.n_rows, 'row')}.")


def _dimension_card(plan: WidthPlan) -> Markup:
    mu = plan.spectrum.eigenvalues
    lambdas = np.geomspace(min(plan.lam, mu[0]) / 100, mu[0], 60)
    picture = chart(
        [
            Line("effective dimension", lambdas, effective_dimension(mu, lambdas)),
            Mark(plan.lam, plan.effective_dimension, figure_of(plan.effective_dimension)),
        ],
        about="Effective dimension against lambda.",
        x_label="lambda",
        y_label="effective dimension",
        x_log=True,
        y_from_zero=True,
    )
    return card("Effective dimension", picture, "Sum of mu / (mu + lambda) over the eigenvalues.")


def _plan_card(plan: WidthPlan) -> Markup:
    rows = [
        element("tr", element("th", name, scope="row"), element("td", value), element("td", meaning, class_="aside"))
        for name, value, meaning in plan.table()
    ]
    table = element("table", element("tbody", *rows), class_="facts")
    scope = "The theory covers random directions under one shared activation; trained directions need far fewer."
    return card("rflaf.plan on these rows", table, scope)


def _path_card(findings: Findings) -> Markup | None:
    """Draw the error along the nested path of narrower models, if the model keeps its last layer."""
    last_layer = findings.subject.model.last_layer
    if last_layer is None or findings.subject.model.n_components < 2:
        return None
    path = last_layer.path
    width, whole = np.arange(1, path.errors.size), path.errors[0] or 1.0
    finite = np.isfinite(path.gcv[1:]) & (path.errors[1:] > 0)
    if finite.sum() < 2:
        return None
    enough = path.best_width(0.01)
    at = np.unique(np.geomspace(1, int(finite.sum()), 60).astype(np.intp)) - 1
    kept = width[finite][at].astype(float)
    judged, fitted = path.gcv[1:][finite][at] / whole, path.errors[1:][finite][at] / whole
    same = bool(np.allclose(judged, fitted))
    name = "on the fitted rows" if same else "cross-validated"
    layers: list[Layer] = [] if same else [Line("on the fitted rows", kept, fitted, "second")]
    picture = chart(
        [
            *layers,
            Line(name, kept, judged),
            Mark(float(enough), float(path.gcv[enough] / whole), f"{enough} suffice"),
        ],
        about="Error of narrower models with components of this one.",
        x_label="components kept",
        y_label="error / variance",
        x_log=True,
        y_log=True,
    )
    note = "Error of prune(n) on the fitted rows; on new rows it is higher."
    marks = legend(("model", name), *([] if same else [("second", "on the fitted rows")]))
    return card("Narrower models", picture, note, marks)
