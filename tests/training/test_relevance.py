"""Relevance of columns from few rows, and the search on columns scaled by it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from settings import one_thread_regressor

from rflaf.functions.bases import BSplineBasis
from rflaf.functions.densities import Gaussian
from rflaf.rows.executors import ThreadExecutor
from rflaf.training.solvers.refined import race
from rflaf.training.solvers.refined.encoded_rows import RowsInMemory
from rflaf.training.solvers.refined.recipes import Recipe
from rflaf.training.solvers.refined.relevance import Likelihood, relevances
from rflaf.training.solvers.refined.search import Hunt, by_relevance, hold_out, without_weak_columns
from rflaf.training.solvers.refined.trainer import Shape

_MOST_ROWS = race._MOST_RELEVANCE_ROWS


def some_rows(n_rows: int, n_columns: int, seed: int = 0, noise: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n_rows, n_columns))
    y = 2 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 4 * (X[:, 2] - 0.5) ** 2 + noise * rng.standard_normal(n_rows)
    return X, (y[:, None] - 1.4) / 0.6


def hunt_on(X: np.ndarray, y: np.ndarray) -> Hunt:
    table = RowsInMemory(X, y, np.ones(len(y)))
    return hold_out(table, X.mean(axis=0), X.std(axis=0), np.random.default_rng(0), 0.5)


def scaled(hunt: Hunt, n_threads: int = 1) -> Hunt:
    with ThreadExecutor(n_threads) as executor:
        return by_relevance(hunt, executor)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 2), st.integers(1, 4))
def test_the_likelihood_is_that_of_the_normal_law_and_has_its_derivatives(seed, n_outputs, n_columns):
    rng = np.random.default_rng(seed)
    x, y, weight = rng.standard_normal((12, n_columns)), rng.standard_normal((12, n_outputs)), rng.uniform(0.5, 2, 12)
    logs = rng.uniform(-1, 0.5, n_columns + 2)
    negative = Likelihood(x, y, weight).negative
    value, slopes = negative(logs)
    rates, signal, noise = np.exp(logs[:-2]), np.exp(logs[-2]), np.exp(logs[-1])
    apart = np.array([[np.sum((rates * (a - b)) ** 2) for b in x] for a in x])
    law = multivariate_normal(np.zeros(12), signal * np.exp(-apart / 2) + np.diag(noise / weight + 1e-8))
    expected = -np.mean([law.logpdf(target) for target in y.T]) / 12 - np.log(2 * np.pi) / 2
    assert value == pytest.approx(expected, rel=1e-9)
    step = 1e-5
    ways = step * np.eye(logs.size)
    by_hand = [(negative(logs + way)[0] - negative(logs - way)[0]) / (2 * step) for way in ways]
    np.testing.assert_allclose(slopes, by_hand, rtol=1e-5, atol=1e-8)


def test_rates_of_no_covariance_are_as_unlikely_as_can_be():
    x, y = np.zeros((3, 1)), np.ones((3, 1))
    value, slopes = Likelihood(x, y, np.array([1.0, 1.0, -1.0])).negative(np.zeros(3))
    assert value == np.inf
    np.testing.assert_array_equal(slopes, np.zeros(3))


def test_the_columns_that_matter_are_told_from_twenty_others():
    n_found = 0
    for seed in range(4):
        X, y = some_rows(100, 23, seed)
        found = relevances((X - X.mean(axis=0)) / X.std(axis=0), y, np.ones(100))
        assert found.max() == 1
        assert found[:2].min() > found[3:].max()
        n_found += found[2] > found[3:].max() and np.count_nonzero(found[3:]) < 12
    assert n_found >= 3  # of a column that acts by its square alone, some descents know nothing


def test_columns_in_another_order_have_the_same_relevance():
    X, y = some_rows(50, 6)
    order = np.random.default_rng(1).permutation(6)
    one, other = (relevances(x / x.std(axis=0), y, np.ones(50)) for x in (X, X[:, order]))
    np.testing.assert_allclose(other, one[order], rtol=1e-2, atol=1e-2)


def test_targets_of_rows_held_out_have_no_influence_on_the_relevance_of_their_split():
    X, y = some_rows(60, 5)
    hunt = hunt_on(X, y)
    moved = y.copy()
    moved[hunt.splits[0][1]] += 5.0
    before, after = scaled(hunt), scaled(replace(hunt, table=replace(hunt.table, y=moved)))
    np.testing.assert_array_equal(before.scales[0], after.scales[0])
    assert all(not np.array_equal(one, other) for one, other in zip(before.scales[1:], after.scales[1:], strict=True))
    assert not np.array_equal(before.scale, after.scale)


def test_relevance_is_the_same_for_any_number_of_threads():
    hunt = hunt_on(*some_rows(60, 5))
    one, two = scaled(hunt, 1), scaled(hunt, 2)
    np.testing.assert_array_equal([one.scale, *one.scales], [two.scale, *two.scales])


def test_a_split_is_trained_on_columns_of_its_own_scale():
    hunt, straight = scaled(hunt_on(*some_rows(60, 5))), Recipe(1e-3, nodes=0)
    for split, scale in enumerate(hunt.scales):
        np.testing.assert_array_equal(hunt.encoded(straight, split)[0].scale, scale)
    np.testing.assert_array_equal(hunt.encoded(straight)[0].scale, hunt.scale)
    assert len(hunt.first(3).scales) == 3
    with ThreadExecutor(1) as executor:
        shape = Shape(8, BSplineBasis(10, 3), False, Gaussian())
        (trial,) = hunt.compare([(shape, straight)], executor)
    narrower = without_weak_columns(hunt, replace(trial, strength=np.array([1.0, 0.0, 0.0, 0.0, 0.0])))
    assert narrower is not None
    assert all(not scale[1:].any() for scale in (narrower.scale, *narrower.scales))


@pytest.mark.slow
def test_few_rows_with_many_useless_columns_are_fitted_better_by_relevance(monkeypatch):
    new, truth = some_rows(2000, 20, 1, noise=0.0)
    errors = np.zeros((3, 2))
    for draw, at in np.ndindex(errors.shape):
        X, y = some_rows(100, 20, 10 * draw)
        monkeypatch.setattr(race, "_MOST_RELEVANCE_ROWS", (_MOST_ROWS, 0)[at])
        model = one_thread_regressor(40).fit(X, y[:, 0])
        errors[draw, at] = np.mean((model.predict(new) - truth[:, 0]) ** 2)
    with_relevance, without = errors.mean(axis=0)
    assert with_relevance < 0.75 * without
