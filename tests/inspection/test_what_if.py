"""The part of the report that explains one row and moves it: its numbers are those of Python, by mouse and keyboard."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import rflaf
from rflaf import RFLAFClassifier, RFLAFRegressor
from rflaf.inspection.report import write_report
from rflaf.inspection.report.findings import gather
from rflaf.inspection.report.subject import subject_of
from rflaf.inspection.report.what_if import what_if_section
from rflaf.rows.tables import as_table

QUICK = {"n_components": 12, "alpha": 1e-3, "random_state": 0, "n_jobs": 1}
EVIL = "<b>bold</b>"


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(0)
    mixed = pd.DataFrame({"age": rng.uniform(20, 80, 160), "town": rng.choice(["Rome", "Oslo", "Lima"], 160)})
    mixed["debt"], mixed["flag"] = rng.exponential(1, 160), rng.choice(["y", "n"], 160)
    mixed.loc[3::9, "age"] = np.nan
    labels = np.where(mixed["town"] == "Oslo", EVIL, np.where(mixed["debt"] > 1, "bad", "fair"))
    numbers = pd.DataFrame(rng.standard_normal((160, 11)), columns=[f"{EVIL}{i}" for i in range(11)])
    dates = pd.DataFrame({"sold": pd.Timestamp("2018-11-05") + pd.to_timedelta(rng.integers(0, 900, 160), "D")})
    dates["seen"] = pd.Timestamp("2021-02-27 06:30") + pd.to_timedelta(rng.integers(0, 99_999, 160), "min")
    price = dates["sold"].dt.month + dates["seen"].dt.hour + (dates["seen"].dt.day_of_week > 4)
    dates.loc[5::7, "sold"] = pd.NaT
    return {
        "dates": (dates, price.to_numpy() + 0.1 * rng.standard_normal(160)),
        "classes": (mixed, labels),
        "counts": (mixed, rng.poisson(np.exp(0.5 * mixed["debt"]))),
        "many": (numbers, np.sin(numbers.to_numpy() @ rng.standard_normal(11))),
        "fan": (mixed[["debt", "town"]], mixed["debt"] * rng.standard_normal(160)),
    }


@pytest.fixture(scope="module")
def models(tables):
    return {
        "classes": RFLAFClassifier(**QUICK, curves=True).fit(*tables["classes"]),
        "counts": RFLAFRegressor(**QUICK, loss="poisson").fit(*tables["counts"]),
        "many": RFLAFRegressor(**QUICK).fit(*tables["many"]),
        "dates": RFLAFRegressor(**QUICK, curves=True).fit(*tables["dates"]),
        "fan": RFLAFRegressor(**QUICK, loss="quantile", quantile=[0.1, 0.5, 0.9]).fit(*tables["fan"]),
    }


@pytest.fixture(scope="module")
def plan():
    """A plan of the width, which the tests do not look at."""
    X = np.random.default_rng(0).standard_normal((200, 2))
    return rflaf.plan(X, X[:, 0], random_state=0)


@pytest.fixture(scope="module")
def files(tables, models, plan, tmp_path_factory):
    folder = tmp_path_factory.mktemp("what_if")
    return {name: write_report(models[name], *tables[name], folder / f"{name}.html", plan=plan) for name in models}


@pytest.fixture
def visit(browser, files):
    opened = []

    def open_page(name, width=1280):
        page = browser.new_page(viewport={"width": width, "height": 850})
        page.said, page.asked = [], []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(files[name].as_uri())
        opened.append(page)
        return page

    yield open_page
    for page in opened:
        assert page.said == []
        assert len(page.asked) == 1  # itself
        page.close()


def shown(page):
    """f and the values of the columns, as the page has computed them."""
    view = page.locator("#what-if-view")
    return float(view.get_attribute("data-f")), np.array(json.loads(view.get_attribute("data-values")))


def pick(page, number):
    page.fill("#what-if-row", str(number))
    page.press("#what-if-row", "Enter")


@pytest.mark.slow
def test_the_page_computes_what_explain_does(visit, tables, models):
    for name, output in (("classes", 0), ("counts", 0)):
        table, model, page = tables[name][0], models[name], visit(name)
        chosen = np.unique(np.linspace(0, 159, 100).astype(int))
        for number in (1, 3, 40):
            pick(page, number)
            reasons = model.explain(table.iloc[[chosen[number - 1]]])
            values = reasons.values[0, :, output] if reasons.values.ndim == 3 else reasons.values[0]
            order = [list(reasons.feature_names).index(column) for column in table]
            f, found = shown(page)
            assert_allclose(found, values[order], atol=1e-4)
            assert_allclose(f, np.atleast_2d(model(table.iloc[[chosen[number - 1]]]))[0, output], atol=1e-4)


@pytest.mark.slow
def test_sampled_values_of_many_columns_sum_to_the_prediction(visit, tables, models):
    page, model = visit("many"), models["many"]
    f, values = shown(page)
    exact, stated = (model.explain(tables["many"][0][:1], n_orders=n) for n in (4000, 128))
    assert_allclose(f, model.predict(tables["many"][0][:1])[0], atol=1e-4)
    assert_allclose(values.sum(), f - exact.base_values[0], atol=1e-4)
    assert np.sqrt(np.mean((values - exact.values[0]) ** 2)) < 1.5 * np.sqrt(np.mean(stated.standard_error**2))


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_keys_move_a_column_and_the_prediction_follows(visit, tables, models, width):
    table, model, page = tables["classes"][0], models["classes"], visit("classes", width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    debt = page.get_by_label("debt", exact=True)
    debt.focus()
    before = page.locator("#what-if-answer strong").inner_text()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    assert "was" in page.locator("#what-if-answer").inner_text()
    moved = table.iloc[[0]].assign(debt=float(debt.input_value()))
    assert moved["debt"].iloc[0] > table["debt"].iloc[0]
    page.get_by_label("town", exact=True).select_option("Lima")
    page.get_by_label("Answer").select_option(f"probability of {EVIL}")
    f, _ = shown(page)
    assert_allclose(f, model.decision_function(moved.assign(town="Lima"))[0, 0], atol=1e-4)
    page.locator("#what-if-reset").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Answer").select_option("probability of bad")
    assert "was" not in page.locator("#what-if-answer").inner_text()
    page.get_by_label("Answer").select_option(f"probability of {EVIL}")
    assert page.locator("#what-if-answer strong").inner_text() == before


@pytest.mark.slow
def test_dates_are_shown_and_moved_by_days(visit, tables, models):
    table, model, page = tables["dates"][0], models["dates"], visit("dates", 390)
    bars, row = page.locator("ol.fall .name"), table.iloc[[0]]
    assert page.locator("#what-if-view input[type=range]").first.bounding_box()["width"] > 250  # of 390
    assert f"sold = {row['sold'].iloc[0]:%Y-%m-%d}" in bars.all_inner_texts()
    assert f"seen = {row['seen'].iloc[0]:%Y-%m-%d %H:%M}" in bars.all_inner_texts()
    for name, form in (("sold", "%Y-%m-%d"), ("seen", "%Y-%m-%d %H:%M")):
        control = page.get_by_label(name, exact=True)
        control.focus()
        key = "ArrowLeft" if row[name].iloc[0] > table[name].median() else "ArrowRight"
        for _ in range(40):  # across the turn of a year or a month
            page.keyboard.press(key)
        value = pd.to_datetime(page.locator(f"output[for='{control.get_attribute('id')}']").inner_text())
        assert value.strftime(form) != row[name].iloc[0].strftime(form)
        row = row.assign(**{name: value})
        assert_allclose(shown(page)[0], model.predict(row)[0], atol=1e-3)
    chosen = np.unique(np.linspace(0, 159, 100).astype(int))
    pick(page, int(np.flatnonzero(table["sold"].isna().to_numpy()[chosen])[0]) + 1)
    assert "sold = missing" in bars.all_inner_texts()
    page.get_by_label("sold", exact=True).focus()
    page.keyboard.press("ArrowRight")
    assert "sold = missing" not in bars.all_inner_texts()


@pytest.mark.slow
def test_levels_missing_values_and_names_are_shown_as_text(visit):
    page = visit("classes")
    options = page.get_by_label("flag", exact=True).locator("option").all_inner_texts()
    assert options == ["n", "y"]
    number = 1 + int(np.flatnonzero(np.unique(np.linspace(0, 159, 100).astype(int)) % 9 == 3)[0])
    pick(page, number)
    assert page.locator("#what-if-view output").all_inner_texts().count("missing") == 1
    many = visit("many")
    assert many.locator("#what-if-view b").count() == 0
    assert many.locator("#what-if-view .controls label").count() == 8


def test_a_model_too_large_for_a_page_is_said_to_be(monkeypatch, tables, models, plan):
    monkeypatch.setattr("rflaf.inspection.report.what_if._LARGEST", 10)
    table, y = tables["many"]
    findings = gather(subject_of(models["many"]), as_table(table), y, None, plan, {})
    section = what_if_section(findings)
    assert "too large" in section.lead
    assert section.body == ""


@pytest.mark.slow
def test_the_page_states_the_interval_of_predict_interval(visit, tables, models):
    chosen = np.unique(np.linspace(0, 159, 100).astype(int))
    for name in ("counts", "many"):
        table, model, page = tables[name][0], models[name], visit(name)
        for number in (1, 3, 40):
            pick(page, number)
            row = table.iloc[[chosen[number - 1]]]
            limits = json.loads(page.locator("#what-if-view").get_attribute("data-limits"))
            assert_allclose(limits, model.predict_interval(row, 0.9)[0], rtol=1e-4, atol=1e-4)
        assert "90 % between" in page.locator("#what-if-answer").inner_text()
    assert visit("classes").locator("#what-if-view").get_attribute("data-limits") is None


@pytest.mark.slow
def test_the_quantiles_of_a_row_follow_in_order_with_their_reasons(visit, tables, models):
    table, model, page = tables["fan"][0], models["fan"], visit("fan", 390)
    chosen = np.unique(np.linspace(0, 159, 100).astype(int))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for number in (1, 40):
        pick(page, number)
        row = table.iloc[[chosen[number - 1]]]
        quantiles = json.loads(page.locator("#what-if-view").get_attribute("data-quantiles"))
        assert_allclose(quantiles, model.predict(row)[0], atol=1e-4)
        reasons = model.explain(row)
        for at, name in enumerate(("quantile 0.1", "median", "quantile 0.9")):
            page.get_by_label("Answer").select_option(name)
            f, values = shown(page)
            assert_allclose(f, model.predict(row)[0, at], atol=1e-4)
            assert_allclose(values, reasons.values[0, :, at], atol=1e-4)
    before = page.locator("#what-if-view .fan i").first.bounding_box()
    debt = page.get_by_label("debt", exact=True)
    debt.focus()
    for _ in range(30):
        page.keyboard.press("ArrowLeft")
    assert page.locator("#what-if-view .fan i").first.bounding_box() != before
    assert page.locator("#what-if-view .fan li").all_inner_texts()[0].startswith("0.1: ")
