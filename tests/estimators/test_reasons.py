"""Reasons: contributions sum to the prediction, are the Shapley values, and others find them."""

from __future__ import annotations

import csv
from dataclasses import replace
from itertools import permutations
from math import factorial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import cross_val_predict

import rflaf
from rflaf import InvalidParameterError, RandomFeatureModel, RFLAFClassifier, RFLAFRegressor
from rflaf.functions.bases import BSplineBasis
from rflaf.functions.curves import ColumnCurves, place_knots
from rflaf.functions.densities import Directions
from rflaf.model import contributions as module
from rflaf.model.contributions import ColumnGroups, balanced_orders, contributions, pair_strengths
from rflaf.model.random_feature_model import Activation

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((200, 5))


def small_model(n_features=8, n_outputs=1, curved=True, shared=False, seed=0, n_components=11):
    """A model of random numbers, whose activations wind within the reach of its rows."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((n_features, n_components)) * 0.6
    curves = None
    if curved:
        knots = place_knots(rng.standard_normal((60, n_features - 1)), 9)
        curves = ColumnCurves(knots, 0.3 * rng.standard_normal((knots.nodes.size, n_components)))
    a = rng.standard_normal((1 if shared else n_components, 9))
    directions = Directions(W, rng.standard_normal(n_components), rng.random(n_components) + 0.5, n_components)
    return RandomFeatureModel(
        directions,
        Activation(BSplineBasis(9), a),
        rng.standard_normal((n_components, n_outputs)),
        rng.standard_normal(n_outputs),
        curves,
    )


def single(n_features):
    return ColumnGroups(np.arange(n_features), n_features)


def brute_force(model, x, base, groups):
    """Shapley values (n_groups, n_outputs) from all coalitions, by the formula with factorials."""
    k = groups.count
    masks = (np.arange(2**k)[:, None] >> np.arange(k)) & 1
    rows = np.where(masks[:, groups.of_column] == 1, x, base)
    worth = model.decision(np.ascontiguousarray(rows, np.float64))
    values = np.zeros((k, model.n_outputs))
    for g in range(k):
        without = np.flatnonzero(masks[:, g] == 0)
        size = masks[without].sum(axis=1)
        weight = np.array([factorial(s) * factorial(k - 1 - s) / factorial(k) for s in size])
        values[g] = weight @ (worth[without + 2**g] - worth[without])
    return values


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("curved", [False, True])
def test_values_of_eight_columns_are_those_of_brute_force(curved, n_outputs):
    model = small_model(8, n_outputs, curved)
    X, bases = np.random.default_rng(1).standard_normal((2, 4, 8))
    found = contributions(model, X, bases[:2], single(8), 2)
    expected = [np.mean([brute_force(model, x, base, single(8)) for base in bases[:2]], axis=0) for x in X]
    assert_allclose(found.values, expected, rtol=0, atol=1e-12)
    assert not found.errors.any()


@pytest.mark.parametrize("curved", [False, True])
def test_sampled_values_agree_with_brute_force_within_the_stated_error(monkeypatch, curved):
    monkeypatch.setattr(module, "N_EXACT", 0)
    model = small_model(8, 2, curved, shared=not curved)
    X, base = np.random.default_rng(2).standard_normal((60, 8)), np.zeros((1, 8))
    found = contributions(model, X, base, single(8), 40)
    off = found.values - np.array([brute_force(model, x, base[0], single(8)) for x in X])
    assert found.errors.any()
    assert np.sqrt(np.mean(off**2)) <= 1.1 * np.sqrt(np.mean(found.errors**2))
    assert np.mean(np.abs(off) <= 2 * found.errors) > 0.9


def test_more_orders_give_smaller_errors(monkeypatch):
    monkeypatch.setattr(module, "N_EXACT", 0)
    model, X = small_model(12), np.random.default_rng(3).standard_normal((20, 12))
    errors = [contributions(model, X, 0 * X[:1], single(12), n).errors for n in (8, 128)]
    assert np.sqrt(np.mean(errors[1] ** 2)) < 0.4 * np.sqrt(np.mean(errors[0] ** 2))


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 14),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**16),
    st.sampled_from([1.0, 1e6]),
)
def test_values_sum_to_the_prediction_minus_the_base(n_features, n_outputs, curved, shared, seed, size):
    model = small_model(n_features, n_outputs, curved and n_features > 1, shared, seed)
    rng = np.random.default_rng(seed)
    X, bases = size * rng.standard_normal((3, n_features)), rng.standard_normal((2, n_features))
    groups = ColumnGroups(rng.integers(0, n_features, n_features), n_features)
    found = contributions(model, X, bases, groups, 4)
    spread = 1 + np.abs(model.decision(X)).max()
    assert_allclose(found.base + found.values.sum(axis=1), model.decision(X), rtol=0, atol=1e-9 * spread)
    idle = np.setdiff1d(np.arange(n_features), groups.of_column)
    assert not found.values[:, idle].any()


def test_values_do_not_depend_on_the_other_rows_or_on_threads():
    model, X = small_model(12), np.random.default_rng(4).standard_normal((30, 12))
    whole = contributions(model, X, X[:1], single(12), 8)
    apart = contributions(model, X[7:9], X[:1], single(12), 8)
    threads = contributions(model, X, X[:1], single(12), 8, n_threads=3)
    assert_array_equal(whole.values[7:9], apart.values)
    assert_array_equal(whole.values, threads.values)
    assert_array_equal(whole.errors, threads.errors)


def test_values_of_a_sum_of_functions_of_single_columns_are_exact_at_two_orders():
    model = small_model(10, curved=False, n_components=10)
    additive = replace(model, directions=replace(model.directions, W=np.diag(np.diag(model.directions.W))))
    X, base = np.random.default_rng(5).standard_normal((4, 10)), np.zeros((1, 10))
    found = contributions(additive, X, base, single(10), 2)
    alone = np.array([additive.decision(np.diag(x)) - additive.decision(base) for x in X])
    assert_allclose(found.values, alone, rtol=0, atol=1e-5)  # walks are in single precision
    assert_allclose(found.errors, 0, atol=1e-5)


def test_over_a_design_each_column_stands_early_as_often_as_late():
    orders = balanced_orders(6, 1, 12)
    assert orders.shape[1:] == (1, 12, 6)
    assert_array_equal(np.sort(orders, axis=-1), np.broadcast_to(np.arange(6), orders.shape))
    place = np.argsort(orders[:, 0], axis=-1).mean(axis=(0, 1))
    assert_allclose(place, 2.5, atol=0.2)


def test_pairs_interact_where_the_model_joins_them():
    class Product:
        n_outputs = 1

        def decision(self, X):
            return (X[:, 0] * X[:, 1] + X[:, 2] ** 3)[:, None]

    X = np.random.default_rng(6).standard_normal((50, 3))
    strength = pair_strengths(Product(), X, np.zeros((1, 3)), single(3))
    expected = np.sqrt(np.mean((X[:, 0] * X[:, 1]) ** 2))
    assert_allclose(strength, expected * np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]]), atol=1e-12)


# Estimators


@pytest.fixture(scope="module")
def regressor():
    y = 17 + 2 * ROWS[:, 0] + ROWS[:, 1] * ROWS[:, 2] + np.sin(2 * ROWS[:, 3])
    return RFLAFRegressor(16, random_state=0, alpha=1e-3).fit(ROWS, y)


@pytest.fixture(scope="module")
def mixed():
    """A table with a category, gaps and a column of one value, and three classes."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"one": 1.0, "size": rng.standard_normal(150), "pet": rng.choice(["cat", "dog", "eel"], 150)})
    table.loc[::10, "size"] = np.nan
    y = np.where(table["pet"] == "eel", "c", np.where(table["size"] > 0, "a", "b"))
    return table, RFLAFClassifier(16, random_state=0, alpha=1e-3).fit(table, y)


@pytest.mark.slow
def test_reasons_of_a_regressor_sum_to_its_prediction(regressor):
    reasons = regressor.explain(ROWS[:7])
    assert reasons.values.shape == reasons.standard_error.shape == reasons.data.shape == (7, 5)
    assert_allclose(reasons.base_values + reasons.values.sum(axis=1), regressor.predict(ROWS[:7]), rtol=0, atol=1e-9)
    assert_allclose(reasons.base_values, regressor.predict(ROWS.mean(axis=0, keepdims=True))[0], rtol=0, atol=1e-9)
    assert_allclose(regressor(ROWS[:7]), regressor.predict(ROWS[:7]), rtol=0, atol=0)
    assert reasons.feature_names == ["x0", "x1", "x2", "x3", "x4"]
    assert len(reasons) == 7
    assert reasons.ranked(2)[0][0] == f"x{np.argmax(np.abs(reasons.values[2]))}"


def test_a_notebook_shows_values_and_what_they_add_as_text(mixed):
    table, model = mixed
    renamed = replace(model.explain(table[:6]), feature_names=["<i>", "size", "pet"])
    page = renamed._repr_html_()
    assert repr(renamed) == "Reasons(6 rows, 3 columns, 3 outputs)"
    assert page.count("<tr>") == 1 + 5
    assert "&lt;i&gt;" in page
    assert "<i>" not in page
    assert f"{renamed.values[4, 1, 0]:+.3g}" in page
    assert f"{model.decision_function(table[4:5])[0, 0]:.4g}" in page


def test_reasons_of_a_table_are_by_its_columns_and_classes(mixed):
    table, model = mixed
    reasons = model.explain(table[:6])
    assert (reasons.feature_names, reasons.output_names) == (["one", "size", "pet"], ["a", "b", "c"])
    assert reasons.values.shape == (6, 3, 3)
    assert_allclose(reasons.base_values + reasons.values.sum(axis=1), model.decision_function(table[:6]), atol=1e-9)
    assert not reasons.values[:, 0].any()
    assert reasons.data[1].tolist() == [1.0, table["size"][1], table["pet"][1]]
    strength = model.interaction_strengths(table)
    assert strength.shape == (3, 3)
    assert not strength[0].any()


def test_reasons_against_rows_are_the_mean_over_them(regressor):
    whole = regressor.explain(ROWS[:3], background=ROWS[10:14])
    apart = [regressor.explain(ROWS[:3], background=ROWS[[at]]) for at in range(10, 14)]
    assert_allclose(whole.values, np.mean([one.values for one in apart], axis=0), atol=1e-12)
    assert_allclose(whole.base_values, regressor.predict(ROWS[10:14]).mean(), atol=1e-12)


def test_reasons_are_written_with_their_sum(mixed, tmp_path):
    table, model = mixed
    path = model.explain(table[:2]).to_csv(tmp_path / "reasons.csv")
    lines = list(csv.DictReader(path.read_text().splitlines()))
    assert [line["(output)"] for line in lines] == ["a", "b", "c"] * 2
    total = [sum(float(line[name]) for name in ("one", "size", "pet", "(base)")) for line in lines]
    assert_allclose(total, [float(line["(sum)"]) for line in lines], atol=1e-12)
    assert_allclose(total, model.decision_function(table[:2]).ravel(), atol=1e-9)


def test_a_loaded_model_gives_the_same_reasons(mixed, tmp_path):
    table, model = mixed
    rflaf.save(model, tmp_path / "model.rflaf")
    loaded = rflaf.load(tmp_path / "model.rflaf")
    assert_array_equal(loaded.explain(table[:3]).values, model.explain(table[:3]).values)
    loaded._centre = None  # as in files of earlier releases
    with pytest.raises(InvalidParameterError, match=r"does not know the means of its columns.*background"):
        loaded.explain(table[:3])
    assert loaded.explain(table[:3], background=table[:5]).values.shape == (3, 3, 3)


def test_a_number_of_orders_below_two_is_refused(regressor):
    with pytest.raises(InvalidParameterError, match="n_orders must be a whole number, at least 2; got 1"):
        regressor.explain(ROWS, n_orders=1)


def test_scikit_learn_finds_importances_of_columns_and_no_linear_model(regressor):
    assert not hasattr(regressor, "coef_")
    with pytest.raises(AttributeError, match="coef_ is now output_weights_"):
        _ = regressor.coef_
    assert_array_equal(regressor.feature_importances_, regressor.column_importance_)
    kept = SelectFromModel(regressor, prefit=True, threshold=0.05).get_support()
    assert kept.tolist() == [True, True, True, True, False]
    assert cross_val_predict(RFLAFRegressor(2, directions="random"), ROWS, ROWS[:, 0], cv=2).shape == (200,)


@pytest.mark.slow
def test_shap_finds_the_model_and_agrees(regressor):
    shap = pytest.importorskip("shap")
    explainer = shap.Explainer(regressor, ROWS[:20])
    assert type(explainer).__name__ == "ExactExplainer"
    theirs, ours = explainer(ROWS[:3]), regressor.explain(ROWS[:3], background=ROWS[:20])
    assert_allclose(ours.values, theirs.values, atol=1e-9)
    assert_allclose(ours.base_values, theirs.base_values, atol=1e-9)
    accepted = ours.to_shap()
    assert_array_equal(accepted[1].values, ours.values[1])
    assert accepted.feature_names == ours.feature_names


@pytest.mark.slow
def test_shap_explains_a_model_of_texts_and_dates_by_its_kernel():
    shap, rng = pytest.importorskip("shap"), np.random.default_rng(3)
    table = pd.DataFrame({"debt": rng.standard_normal(120), "town": rng.choice(["Rome", "Oslo", "Lima"], 120)})
    table["sold"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, 120), "D")
    y = table["debt"] * (table["town"] == "Rome") + table["sold"].dt.month / 6
    model = RFLAFRegressor(8, directions="random", alpha=1e-3, random_state=0).fit(table, y)
    found = shap.KernelExplainer(model, table[:10]).shap_values(table[10:12], silent=True)
    assert_allclose(found, model.explain(table[10:12], background=table[:10]).values, atol=1e-6)


def test_permutations_of_few_columns_give_the_same_values(regressor):
    """The definition over orders, not coalitions."""
    base = ROWS.mean(axis=0)
    gains = np.zeros(5)
    for order in permutations(range(5)):
        row, before = base.copy(), regressor.predict(base[None])[0]
        for column in order:
            row[column] = ROWS[0, column]
            after = regressor.predict(row[None])[0]
            gains[column] += (after - before) / factorial(5)
            before = after
    assert_allclose(regressor.explain(ROWS[:1]).values[0], gains, atol=1e-10)


def test_a_waterfall_goes_from_the_base_to_the_prediction(regressor, mixed):
    mpl = pytest.importorskip("matplotlib")
    mpl.use("Agg")
    display = rflaf.plots.WaterfallDisplay.from_estimator(regressor, ROWS[:5], 3, n_shown=2)
    assert display.base + display.value.sum() == pytest.approx(display.prediction)
    assert display.prediction == pytest.approx(regressor.predict(ROWS[[3]])[0])
    assert len(display.names) == 3
    assert display.names[-1] == "3 others"
    bars = display.ax_.patches
    assert bars[0].get_x() + bars[0].get_width() == pytest.approx(display.prediction)  # the strongest ends there
    table, model = mixed
    of_class = rflaf.plots.WaterfallDisplay.from_estimator(model, table[:3], output=2)
    assert of_class.prediction == pytest.approx(model.decision_function(table[:1])[0, 2])
    assert "score of c" in of_class.ax_.get_xlabel()
    with pytest.raises(InvalidParameterError, match="row must be from 0 to 4; got 5"):
        rflaf.plots.WaterfallDisplay.from_estimator(regressor, ROWS[:5], 5)
    mpl.pyplot.close("all")
