"""What a model does with its columns, against definitions that are slow or whose answer is known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from settings import CONVEX, PAPER

from rflaf import RFLAFClassifier, RFLAFRegressor
from rflaf.inspection.effects import (
    feature_eigenvalues,
    gradient_outer_product,
    interactions,
    level_effects,
    pair_effect,
    partial_effect,
    rank_components,
    response,
    sample_rows,
)


@pytest.fixture(scope="module")
def fitted():
    X = np.random.default_rng(0).uniform(-1, 1, (300, 3))
    return RFLAFRegressor(12, random_state=0, **CONVEX).fit(X, np.sin(2 * X[:, 0]) * X[:, 1]), X


def test_a_sample_is_spread_over_all_rows_and_small_tables_are_kept_whole():
    X = np.arange(100.0)[:, None]
    np.testing.assert_array_equal(sample_rows(X, 5)[:, 0], [0, 24, 49, 74, 99])
    np.testing.assert_array_equal(sample_rows(X), X)
    np.testing.assert_array_equal(sample_rows(sp.csr_array(X), 5), sample_rows(pd.DataFrame(X), 5))
    np.testing.assert_array_equal(sample_rows(X.tolist(), 5), sample_rows(X, 5))


@pytest.mark.slow
def test_the_response_of_a_classifier_is_a_probability_or_a_decision(fitted):
    X = pd.DataFrame(fitted[1], columns=["a", "b", "c"])
    y = np.digitize(X["a"], [-0.3, 0.3])
    three = RFLAFClassifier(6, random_state=0, **PAPER).fit(X, y)
    np.testing.assert_allclose(response(three)(X.to_numpy()), three.predict_proba(X)[:, 0])
    np.testing.assert_allclose(response(three, 2)(X.to_numpy()), three.predict_proba(X)[:, 2])
    margin = RFLAFClassifier(6, loss="squared_hinge", random_state=0, **PAPER).fit(X, y > 0)
    np.testing.assert_allclose(response(margin)(X.to_numpy()), margin.decision_function(X))


def test_the_effect_of_an_added_column_is_its_own_curve(fitted):
    X = fitted[1]
    effect = partial_effect(lambda rows: np.exp(rows[:, 0]) + rows[:, 1], X, 0)
    np.testing.assert_allclose(effect.mean, np.exp(effect.grid) + X[:, 1].mean())
    np.testing.assert_allclose(effect.low, effect.mean)  # every row moves alike
    np.testing.assert_allclose(effect.high, effect.mean)


def test_rows_that_move_apart_widen_the_band_within_the_range_of_the_responses(fitted):
    X = fitted[1]
    f = lambda rows: np.clip(3 * rows[:, 0] * rows[:, 1], 0, 1)  # noqa: E731
    effect = partial_effect(f, X, 0)
    assert np.all(effect.low <= effect.high)
    assert 0 <= effect.low.min() < effect.high.max() <= 1


@settings(max_examples=30)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30))
def test_few_values_are_looked_at_one_by_one(values):
    X = np.array(values, float)[:, None]
    np.testing.assert_array_equal(partial_effect(lambda rows: rows[:, 0], X, 0).grid, np.unique(X))


def test_a_column_whose_middle_is_one_value_is_looked_at_over_its_whole_range():
    X = np.zeros((5000, 1))
    X[:45, 0] = np.arange(1, 46)
    assert partial_effect(lambda rows: rows[:, 0], X, 0).grid[-1] == 45


def test_a_pair_is_the_mean_over_the_rows(fitted):
    X = fitted[1]
    effect = pair_effect(lambda rows: rows[:, 0] * rows[:, 2] + rows[:, 1], X, 0, 2, 6)
    np.testing.assert_allclose(effect.mean, np.outer(effect.first, effect.second) + X[:, 1].mean(), atol=1e-12)


def test_the_outer_product_of_small_steps_is_that_of_the_gradient(fitted):
    model, X = fitted[0].model_, fitted[1]
    gradient = model.gradient(X)[:, 0] * X.std(axis=0)
    exact = gradient.T @ gradient / len(X)
    np.testing.assert_allclose(gradient_outer_product(model, X, 1e-3), exact, atol=0.02 * np.abs(exact).max())


def test_the_outer_product_is_positive_and_blind_to_constant_columns(fitted):
    model, X = fitted[0].model_, fitted[1].copy()
    X[:, 1] = 0.25
    M = gradient_outer_product(model, X)
    np.testing.assert_allclose(M, M.T)
    assert np.linalg.eigvalsh(M).min() > -1e-12
    np.testing.assert_array_equal(M[1], 0)


def test_columns_far_apart_in_scale_are_weighed_by_their_spread():
    X = np.random.default_rng(0).standard_normal((400, 2)) * [1.0, 1000.0]
    model = RFLAFRegressor(20, random_state=0, **PAPER).fit(X, X[:, 0] + X[:, 1] / 1000).model_
    sway = np.sqrt(np.diag(gradient_outer_product(model, X)))
    assert sway[0] == pytest.approx(sway[1], rel=0.2)


def test_only_columns_that_are_multiplied_act_together(fitted):
    X = fitted[1]
    strength = interactions(lambda rows: rows[:, 0] * rows[:, 1] + np.exp(rows[:, 2]), X, [2, 0, 1])
    np.testing.assert_array_equal(strength > 0, [[0, 0, 0], [0, 0, 1], [0, 1, 0]])
    np.testing.assert_array_equal(strength, strength.T)


def test_levels_are_set_one_at_a_time():
    X, values = np.array([[0.0, 5], [2, 7]]), np.array([1.0, 10, 100])
    effects = level_effects(lambda rows: values[rows[:, 0].astype(int)] + rows[:, 1], X, 0, [0, 1, 2])
    np.testing.assert_allclose(effects, [7, 16, 106])


def test_the_eigenvalues_of_the_features_sum_to_one(fitted):
    mu = feature_eigenvalues(fitted[0].model_, fitted[1])
    assert mu.sum() == pytest.approx(1)
    assert np.all(np.diff(mu) <= 0)


def test_a_model_of_a_constant_has_no_shares():
    X = np.random.default_rng(0).standard_normal((50, 2))
    model = RFLAFRegressor(5, random_state=0, **PAPER).fit(X, np.ones(50)).model_
    bank = rank_components(model, X)
    assert not bank.share.any()
    assert not gradient_outer_product(model, X).any()


def test_of_many_levels_the_most_frequent_ones_are_set():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.repeat(np.arange(60.0), np.arange(1, 61)), rng.standard_normal(1830)])
    effect = partial_effect(lambda rows: rows[:, 0] ** 2, X, 0, categories=[0])
    assert np.array_equal(effect.grid, np.arange(20.0, 60.0))
    assert np.array_equal(effect.mean, effect.grid**2)
    pair = pair_effect(lambda rows: rows[:, 0] + rows[:, 1], X, 0, 1, categories=[0])
    assert np.array_equal(pair.first, np.arange(40.0, 60.0))
