"""Weights as importance: their unit has no effect, and repeated rows are one weighted row."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from rflaf import RFLAFClassifier, RFLAFRegressor
from rflaf.rows.blocks import ArraySource
from rflaf.rows.executors import ThreadExecutor
from rflaf.rows.weights import as_importance, of_mean_one

seeds = st.integers(0, 2**32 - 1)
UNITS = [1e-300, 1e-30, 0.1, 3.0, np.pi, 1e30, 1e300]
MODES = {
    "refined": {},
    "random": {"directions": "random"},
    "shared": {"directions": "random", "activation": "shared"},
    "greedy": {"directions": "random", "sampling": "greedy"},
}


def rows(n_rows: int, seed: int):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 3))
    return X, np.sin(X[:, :1]) + 0.3 * rng.standard_normal((n_rows, 1)), rng.integers(1, 5, n_rows).astype(float)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 40), seeds, st.sampled_from(UNITS))
def test_another_unit_changes_no_weight(n_rows, seed, unit):
    X, y, weight = rows(n_rows, seed)
    weight *= np.random.default_rng(seed + 1).uniform(0.1, 3, n_rows)
    one, other = (as_importance(ArraySource(X, y, w)).source.weight for w in (weight, unit * weight))
    np.testing.assert_allclose(one, other, rtol=1e-13)
    assert one.mean() == pytest.approx(1)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 40), seeds, st.booleans())
def test_a_row_of_weight_three_is_three_equal_rows(n_rows, seed, sparse):
    X, y, weight = rows(n_rows, seed)
    weight[0] = 2  # at least one is repeated
    times = weight.astype(int)
    order = np.random.default_rng(seed).permutation(times.sum())
    many = np.repeat(np.arange(n_rows), times)[order]
    merged = as_importance(ArraySource(sp.csr_array(X[many]) if sparse else X[many], y[many]))
    weighted = as_importance(ArraySource(X, y, weight))
    dense = merged.source.X.toarray() if sparse else merged.source.X
    first = many[np.sort(np.unique(many, return_index=True)[1])]
    np.testing.assert_array_equal(dense, X[first])
    np.testing.assert_array_equal(merged.source.weight, weighted.source.weight[first])
    np.testing.assert_array_equal(dense[merged.place], X[many])


def test_rows_that_differ_in_the_target_only_stay():
    X, y = np.zeros((4, 2)), np.array([[0.0], [1.0], [0.0], [2.0]])
    merged = as_importance(ArraySource(X, y)).source
    np.testing.assert_array_equal(merged.y[:, 0], [0, 1, 2])
    np.testing.assert_allclose(merged.weight, np.array([2, 1, 1]) / (4 / 3), rtol=1e-12)


def cells(n_rows: int, seed: int, n_targets: int = 2):
    """Rows of few distinct X, each of which comes with several targets."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n_rows, 3)).astype(float)
    return X, (rng.random((n_rows, 1)) * n_targets < 0.5 + X[:, :1] * n_targets / 2).astype(float)


@settings(max_examples=30, deadline=None)
@given(st.integers(200, 300), seeds, st.sampled_from([*UNITS, 1.0]))
def test_equal_rows_of_a_table_of_categories_are_observations(n_rows, seed, unit):
    X, y = cells(n_rows, seed)
    found = as_importance(ArraySource(X, y))
    assert found.source.n_samples == n_rows
    assert found.source.weight is None
    np.testing.assert_array_equal(np.sort(found.place), np.arange(n_rows))
    np.testing.assert_array_equal(found.source.X[found.place], X)
    np.testing.assert_array_equal(found.source.y[found.place], y)
    pairs, first, counts = np.unique(np.hstack([X, y]), axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)
    given = pairs[order], unit * counts[order].astype(float)
    weighted = as_importance(ArraySource(given[0][:, :3], given[0][:, 3:], given[1]))
    if np.gcd.reduce(counts) == 1:
        np.testing.assert_array_equal(weighted.source.X, found.source.X)
        np.testing.assert_array_equal(weighted.source.y, found.source.y)
    np.testing.assert_array_equal(weighted.source.X[weighted.place], given[0][:, :3])


def test_equal_rows_are_copies_where_targets_are_many_or_one_for_every_x_or_weights_are_not_whole():
    X, y = cells(200, 0)
    drawn = np.random.default_rng(0).integers(0, 200, 200)
    noise = np.random.default_rng(1).standard_normal((200, 1))
    assert as_importance(ArraySource(X[drawn], noise[drawn])).source.weight is not None
    assert as_importance(ArraySource(X, X[:, :1])).source.n_samples == 8
    weight = np.random.default_rng(2).uniform(1, 2, 200)
    assert as_importance(ArraySource(X, y, weight)).source.n_samples <= 16


@pytest.mark.parametrize(("n_varied", "kept"), [(3, 60), (8, 120)])
def test_many_equal_rows_are_observations_if_a_tenth_of_them_disagree(n_varied, kept):
    X, y = np.repeat(np.arange(60.0), 2)[:, None], np.tile([0.0, 0.0, 1.0, 1.0], 30)[:, None]
    y[: 2 * n_varied : 2] = 1 - y[1 : 2 * n_varied : 2]
    assert as_importance(ArraySource(X, y)).source.n_samples == kept + (n_varied if kept == 60 else 0)
    few = np.r_[X, np.arange(100.0, 3000)[:, None]], np.r_[y, np.arange(2900.0)[:, None] % 2]
    assert as_importance(ArraySource(*few)).source.n_samples == 2960 + n_varied  # equal rows are too few to matter


def test_a_table_of_categories_is_learned():
    """Leaving out all equal rows at once would leave the others, of the other target, to answer for them."""
    X, y = cells(400, 3)
    p = np.array([y[(x == X).all(axis=1)].mean() for x in X])
    model = RFLAFRegressor(8, random_state=0, n_jobs=1).fit(X, y[:, 0])
    assert np.mean((model.predict(X) - p) ** 2) < 0.2 * p.var()
    assert model.oof_prediction_.shape == (400,)
    assert abs(np.corrcoef(model.oof_prediction_, p)[0, 1]) > 0.9


@pytest.mark.parametrize("n_rows", [60, 400])
def test_weights_in_memory_whose_sum_is_beyond_double_precision_have_no_effect_either(n_rows):
    X, y, _ = rows(n_rows, 4)
    far = np.full(n_rows, 1e308)
    plain, weighted = (
        RFLAFRegressor(8, random_state=0, n_jobs=1, **MODES["random"]).fit(X, y[:, 0], weight) for weight in (None, far)
    )
    np.testing.assert_allclose(weighted.predict(X), plain.predict(X), rtol=1e-12)


def test_rows_without_weights_or_twins_are_left_as_they_are():
    X, y, _ = rows(20, 0)
    source = ArraySource(X, y)
    assert as_importance(source).source is source
    assert as_importance(ArraySource(X, y), memory=100) is None


@pytest.mark.parametrize("block_rows", [1, 7, 100])
def test_weights_have_the_same_unit_wherever_their_rows_are_cut(block_rows):
    X, y, weight = rows(50, 1)
    weight = weight / 7
    expected = as_importance(ArraySource(X, y, weight))
    with ThreadExecutor(2) as executor:
        found = of_mean_one(ArraySource(X, y, weight, block_rows), executor)
    assert found.unit == expected.unit
    np.testing.assert_array_equal(
        np.concatenate([found.source[i].weight for i in range(len(found.source))]), expected.source.weight
    )


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_neither_the_unit_of_weights_nor_repetition_changes_a_model(mode):
    X, y, weight = rows(60, 2)
    new = np.random.default_rng(5).standard_normal((30, 3))

    def predicted(*of):
        return RFLAFRegressor(8, random_state=0, n_jobs=1, **MODES[mode]).fit(*of).predict(new)

    expected = predicted(X, y[:, 0], weight)
    for unit in UNITS:
        np.testing.assert_allclose(predicted(X, y[:, 0], unit * weight), expected, rtol=1e-12)
    many = np.repeat(np.arange(60), weight.astype(int))
    np.testing.assert_allclose(predicted(X[many], y[many, 0]), expected, rtol=1e-12)
    even = predicted(X, y[:, 0])
    for unit in UNITS:
        np.testing.assert_allclose(predicted(X, y[:, 0], np.full(60, unit)), even, rtol=1e-12)


@pytest.mark.slow
def test_nor_does_it_change_the_probabilities_of_classes():
    X, y, weight = rows(60, 3)
    labels = y[:, 0] > 0

    def predicted(w):
        return RFLAFClassifier(8, random_state=0, n_jobs=1).fit(X, labels, w).predict_proba(X)

    for unit in (1e-300, 7.0, 1e300):
        np.testing.assert_allclose(predicted(unit * weight), predicted(weight), rtol=1e-12)
