"""What the model learned, and how many components it takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from rflaf.errors import Array
from rflaf.estimators.width_plan import WidthPlan
from rflaf.inspection.effects import rank_components, sample_rows
from rflaf.theory import effective_dimension

from .charts import Band, Line, Mark, Rule, Under, chart, legend, sparkline
from .evidence import Evidence
from .markup import Markup, count_of, element, figure_of, join
from .pieces import Section, card, grid, toggle

_COMPONENTS, _LEAST_SHARE = 12, 0.002


def activation_section(evidence: Evidence) -> Section:
    """The learned activation, or the bank of those that matter most."""
    model = evidence.subject.model
    rows = sample_rows(evidence.rows, 1000)
    if model.activation.coefficients.shape[0] == 1:
        return _shared_section(evidence, rows)
    bank = rank_components(model, rows, _COMPONENTS, 121)
    reach = float(np.abs(bank.value).max()) or 1.0
    panels: list[Markup] = []
    for value, density, component, share in zip(bank.value, bank.density, bank.component, bank.share, strict=True):
        if panels and share < _LEAST_SHARE:
            break
        about = f"Activation of component {component}, {share:.1%} of the model."
        picture = sparkline(bank.z, value, Under(bank.edges, density), reach, about)
        words = element("figcaption", element("span", f"component {component}"), element("b", f"{share:.1%}"))
        panels.append(element("figure", picture, words))
    controls = element(
        "div",
        toggle("scale", "Each on its own scale"),
        toggle("under", "Where the rows lie", pressed=True),
        class_="controls",
        role="group",
        aria_label="How the activations are drawn",
    )
    marks = legend(("model", "what the component adds to the prediction"), ("under", "where the rows lie"))
    body = element("div", controls, element("div", *panels, class_="bank"), marks, class_="card wide", data_bank=True)
    shown = float(bank.share.sum())
    lead = f"The components that add most: {len(panels)} of {model.n_components}, {shown:.0%} of all that is added."
    return Section("activations", "What it learned", lead, body)


def _shared_section(evidence: Evidence, rows: Array) -> Section:
    model, activation = evidence.subject.model, evidence.subject.model.activation
    low, high = activation.basis.interval
    z = np.linspace(low, high, 121)
    value = activation(z)
    edges = np.linspace(low, high, 61)
    density = np.histogram(model.projections(rows), edges)[0]
    layers: list[Any] = [Under(edges, density)]
    marks = [("model", "learned activation"), ("under", "where the rows lie")]
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
    body = grid([card("The activation all components share", picture, note, legend(*marks))])
    lead = f"One activation, learned from the data, serves all {model.n_components} components."
    return Section("activations", "What it learned", lead, body)


def width_section(evidence: Evidence) -> Section:
    """Effective dimension, the width that theory asks for, and what a narrower model would cost."""
    plan, path = evidence.plan, _path_card(evidence)
    if plan is None:
        lead = "Too few rows, or nothing to learn: theory has nothing to say."
        return Section("width", "How wide it has to be", lead, grid([path]))
    lead = (
        f"At lambda {figure_of(plan.lam, 2)} the data have an effective dimension of "
        f"{figure_of(plan.effective_dimension)}: theory asks for {plan.leverage_width:,} random components drawn by "
        f"leverage, or {plan.plain_width:,} drawn plainly. This model has {evidence.subject.model.n_components:,}."
    )
    charts = grid([_spectrum_card(plan), _dimension_card(plan), path], narrow=True)
    return Section("width", "How wide it has to be", lead, join([charts, grid([_plan_card(plan)])]))


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
    return card("Effective dimension", picture, "The sum of mu / (mu + lambda) over the eigenvalues.")


def _plan_card(plan: WidthPlan) -> Markup:
    rows = [
        element("tr", element("th", name, scope="row"), element("td", value), element("td", meaning, class_="aside"))
        for name, value, meaning in plan.table()
    ]
    table = element("table", element("tbody", *rows), class_="facts")
    where = "The theory is about random directions under one shared activation; trained directions need far fewer."
    return card("What rflaf.plan says of these rows", table, where)


def _path_card(evidence: Evidence) -> Markup | None:
    """The error along the nested path of narrower models, where the sums for it were kept."""
    last_layer = evidence.subject.model.last_layer
    if last_layer is None or evidence.subject.model.n_components < 2:
        return None
    path = last_layer.path
    width, whole = np.arange(1, path.errors.size), path.errors[0] or 1.0
    finite = np.isfinite(path.gcv[1:]) & (path.errors[1:] > 0)
    if finite.sum() < 2:
        return None
    enough = path.best_width(0.01)
    at = np.unique(np.geomspace(1, int(finite.sum()), 60).astype(np.intp)) - 1
    picture = chart(
        [
            Line("on the fitted rows", width[finite][at].astype(float), path.errors[1:][finite][at] / whole, "second"),
            Line("cross-validated", width[finite][at].astype(float), path.gcv[1:][finite][at] / whole),
            Mark(float(enough), float(path.gcv[enough] / whole), f"{enough} are enough"),
        ],
        about="Error of narrower models made of this one's components.",
        x_label="components kept",
        y_label="error / variance",
        x_log=True,
        y_log=True,
    )
    note = "What prune(n) would cost, from the rows fitted: on new ones the error is higher."
    return card(
        "A narrower model", picture, note, legend(("model", "cross-validated"), ("second", "on the fitted rows"))
    )
