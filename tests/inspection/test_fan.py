"""Models of quantiles in pictures: the fan of the report, its numbers and rivals, and the fan among the plots."""

from __future__ import annotations

import re

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from rflaf.plots import FanDisplay, PartialEffectDisplay, WaterfallDisplay
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_pinball_loss

import rflaf
from rflaf import InvalidParameterError, RFLAFRegressor
from rflaf.estimators.metrics import quantile_scores
from rflaf.inspection.effects import fan_along_column
from rflaf.inspection.report import render_report
from rflaf.inspection.report.fan import quantile_section
from rflaf.inspection.report.findings import gather
from rflaf.inspection.report.quantile_rivals import ErrorQuantiles, ModelPerQuantile
from rflaf.inspection.report.subject import subject_of
from rflaf.rows.tables import as_table

pytestmark = pytest.mark.usefixtures("closed_figures")
LEVELS = [0.1, 0.25, 0.5, 0.75, 0.9]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"place": rng.uniform(-2, 2, 400), "noise": rng.uniform(0, 2, 400)})
    X["town"] = rng.choice(["Lima", "Oslo", "Rome"], 400)
    return X, np.sin(X["place"]).to_numpy() + X["noise"].to_numpy() * rng.standard_normal(400)


@pytest.fixture(scope="module")
def model(table):
    arguments = {"loss": "quantile", "quantile": LEVELS, "alpha": 1e-3, "random_state": 0, "n_jobs": 1}
    return RFLAFRegressor(12, **arguments).fit(*table)


@pytest.fixture(scope="module")
def plan(table):
    """A plan of the width, which the tests do not look at."""
    return rflaf.plan(table[0][["place", "noise"]].to_numpy(), table[1], random_state=0)


@pytest.fixture(scope="module")
def findings(table, model, plan):
    X, y = table
    return gather(subject_of(model), as_table(X[200:]), y[200:], (as_table(X[:200]), y[:200]), plan, {})


# The report


def test_the_scores_of_quantiles_are_those_of_scikit_learn(findings, table, model):
    y, answers = table[1][200:], model.predict(table[0][200:])
    losses = [mean_pinball_loss(y, answers[:, at], alpha=level) for at, level in enumerate(LEVELS)]
    constant = [mean_pinball_loss(y, np.full(200, np.quantile(y, q, method="inverted_cdf")), alpha=q) for q in LEVELS]
    loss, saved, off = findings.ours.scores
    assert_allclose([loss.value, saved.value], [np.mean(losses), 1 - np.mean(losses) / np.mean(constant)])
    assert_allclose(off.value, np.mean(np.abs(np.mean(y[:, None] <= answers, axis=0) - LEVELS)))


def test_targets_that_are_all_the_same_save_nothing():
    y = np.ones((4, 1))
    assert np.isnan(quantile_scores([0.5], y, y)[1].value)


def test_the_fan_is_compared_with_models_of_quantiles(findings):
    names = [rival.name for rival in findings.comparison.rivals]
    assert names[:2] == ["constant quantiles", "linear regression"]
    assert all(rival.scores[0].name == "pinball loss" for rival in findings.comparison.rivals)
    assert findings.ours.scores[0].value < min(rival.scores[0].value for rival in findings.comparison.rivals[:2])
    assert "quantiles of their errors out of folds" in findings.comparison.how


def test_the_section_states_the_shares_that_the_quantiles_hold(findings, table, model):
    y, answers = table[1][200:], model.predict(table[0][200:])
    section = quantile_section(findings)
    inside = np.mean((answers[:, 0] <= y) & (y <= answers[:, 4]))
    assert f"0.1 and 0.9 hold {inside:.1%} (80.0% asked for)" in section.lead
    assert section.body.count('class="band"') >= 3  # the chance of the shares, and two bands along a column
    for share in np.mean(y[:, None] <= answers, axis=0):
        assert f"<td>{share:.1%}</td>" in section.body


def test_the_median_is_what_effects_and_components_are_shown_of(findings, table, model):
    assert findings.predicted == "median"
    rows = findings.rows[:5]
    assert_array_equal(findings.function(rows), model.predict(table[0][200:205])[:, 2])
    assert_array_equal(findings.quantiles(rows), model.predict(table[0][200:205]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "first"),
    [(0.9, "Observed, and the quantiles predicted"), (0.5, "Observed against predicted")],
)
def test_a_single_quantile_is_judged_as_one_and_a_median_by_its_residuals(table, plan, level, first):
    X, y = table[0][["noise"]], table[1]
    one = RFLAFRegressor(8, loss="quantile", quantile=level, directions="random", random_state=0).fit(X, y)
    page = render_report(one, X, y, plan=plan)
    assert first in page
    share = np.mean(y <= one.predict(X))
    assert (f"{share:.1%} of the targets are at or below the quantile 0.9" in page) == (level == 0.9)


def test_two_quantiles_without_a_median_and_targets_of_another_shape(table, plan):
    X, y = table[0][["noise"]].to_numpy(), table[1]
    pair = RFLAFRegressor(8, loss="quantile", quantile=[0.2, 0.8], directions="random", random_state=0).fit(X, y)
    assert "0.2 and 0.8 hold" in render_report(pair, X, y, plan=plan)
    with pytest.raises(InvalidParameterError, match="1 finite numbers per row"):
        render_report(pair, X, np.column_stack([y, y]), plan=plan)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_the_fan_is_shown_and_read_by_keyboard(browser, table, model, plan, tmp_path, width, scheme):
    path = rflaf.report.write_report(model, *table, tmp_path / "fan.html", plan=plan)
    page = browser.new_page(viewport={"width": width, "height": 850}, color_scheme=scheme)
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    chart = page.locator("header svg.chart").first
    bands = [chart.locator(".band").nth(at).bounding_box() for at in range(2)]
    assert bands[0]["height"] > bands[1]["height"] > 5  # nested
    chart.focus()
    page.keyboard.press("ArrowRight")
    told = re.findall(r"(median|quantile [\d.]+): ", page.locator("#said").inner_text())
    assert told == ["quantile 0.9", "quantile 0.75", "median", "quantile 0.25", "quantile 0.1"]
    page.close()
    assert said == []


# Rivals


def test_a_model_of_the_mean_has_quantiles_of_errors_it_did_not_train_on(table):
    X, y = table[0][["noise"]].to_numpy(), table[1]
    found = ErrorQuantiles(DummyRegressor(), [0.25, 0.75]).fit(X, y).predict(X)
    assert_allclose(found[:, 0], np.quantile(y, 0.25), atol=0.05)
    assert (np.diff(found, axis=1) > 0).all()
    noisy = np.random.default_rng(1).standard_normal((60, 50))  # nearly as many columns as rows: no error in the fit
    wide = ErrorQuantiles(LinearRegression(), [0.1, 0.9]).fit(noisy, y[:60]).predict(noisy)
    assert np.ptp(wide, axis=1).mean() > np.ptp(np.quantile(y[:60], [0.1, 0.9]))


def test_models_per_quantile_are_put_in_order():
    X, y = np.zeros((9, 1)), np.arange(9.0)
    found = ModelPerQuantile(DummyRegressor(strategy="quantile"), "quantile", [0.75, 0.25]).fit(X, y).predict(X)
    assert_array_equal(found, np.tile([2.0, 6.0], (9, 1)))


# Plots


def test_the_fan_drawn_is_the_mean_of_the_quantiles(table, model):
    X, y = table
    display = FanDisplay.from_estimator(model, X, y)
    assert display.name == "quantile 0.5"
    sizes = [rows.size for rows in np.array_split(np.arange(400), 30)]
    mean = np.average(display.fan.quantiles, axis=0, weights=sizes)
    assert_allclose(mean, model.predict(X).mean(axis=0), rtol=1e-6)
    assert (np.diff(display.fan.x) >= 0).all()
    assert (np.diff(display.fan.quantiles, axis=1) >= 0).all()
    assert_array_equal(display.y, y)
    assert_array_equal(display.ax_.get_lines()[-1].get_ydata(), display.fan.quantiles[:, 2])


def test_a_fan_along_a_column_widens_where_the_noise_grows(table, model):
    display = FanDisplay.from_estimator(model, table[0], column="noise")
    width = np.ptp(display.fan.quantiles, axis=1)
    assert width[-1] > 2 * width[0]
    set_to = table[0].assign(noise=display.fan.x[-1])
    assert_allclose(display.fan.quantiles[-1], model.predict(set_to).mean(axis=0), rtol=1e-6)
    assert display.y.size == 0
    town = FanDisplay.from_estimator(model, *table, column="town")
    assert [label.get_text() for label in town.ax_.get_xticklabels()] == ["Lima", "Oslo", "Rome"]


@pytest.mark.slow
def test_sparse_rows_and_frames_of_numbers_have_a_fan_too(table):
    X, y = table[0][["place", "noise"]].to_numpy(), table[1]
    pair = RFLAFRegressor(8, loss="quantile", quantile=[0.2, 0.8], directions="random", random_state=0).fit(X, y)
    FanDisplay.from_estimator(clone(pair).fit(table[0][["place", "noise"]], y), table[0][["place", "noise"]], y)
    dense, sparse = (FanDisplay.from_estimator(pair, rows, y, column=1) for rows in (X, csr_array(X)))
    assert_allclose(dense.fan.quantiles, sparse.fan.quantiles)
    assert_array_equal(dense.x, sparse.x)


def test_a_mean_has_no_fan(table):
    linear = RFLAFRegressor(4, directions="random", random_state=0).fit(table[0][["place"]], table[1])
    with pytest.raises(InvalidParameterError, match="a fan needs a model of quantiles"):
        FanDisplay.from_estimator(linear, table[0][["place"]])


def test_effects_of_quantiles_are_those_of_the_median(table, model):
    effect = PartialEffectDisplay.from_estimator(model, table[0], "place").effect
    at_end = model.predict(table[0].assign(place=effect.grid[-1]))
    assert_allclose(effect.mean[-1], at_end[:, 2].mean(), rtol=1e-6)


def test_a_fan_along_a_column_agrees_with_rows_set_one_by_one():
    X = np.random.default_rng(0).standard_normal((7, 2))

    def quantiles(rows):
        return np.column_stack([rows[:, 0] * rows[:, 1] - 1, rows[:, 0] * rows[:, 1] + rows[:, 0] ** 2])

    fan = fan_along_column(quantiles, X, 0)
    for at, value in enumerate(fan.x):
        rows = np.array([[value, b] for _, b in X])
        assert_allclose(fan.quantiles[at], quantiles(rows).mean(axis=0))


# Reasons


def test_reasons_of_quantiles_sum_to_the_quantiles_in_order_at_every_row(table, model):
    far = table[0].assign(place=20 * table[0]["place"], noise=20 * table[0]["noise"])
    assert (np.diff(model(far), axis=1) < 0).any()  # outputs that cross before they are put in order
    reasons = model.explain(far)
    assert_allclose(reasons.base_values + reasons.values.sum(axis=1), model.predict(far), rtol=0, atol=1e-9)
    assert reasons.output_names == [f"quantile {level:g}" for level in LEVELS]
    assert "quantile 0.9" in WaterfallDisplay.from_reasons(reasons, 1, output=4).ax_.get_xlabel()
