"""Greedy selection from the features themselves, when that is done, and the sums that weigh rows far off down."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from data import noise_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from settings import limited

from rflaf import RFLAFRegressor
from rflaf.functions.densities import Gaussian, draw
from rflaf.model.features import RowFeatures, sum_robust_equations
from rflaf.model.greedy import FeaturePool, Selection, feature_pool, gram_pool, select_from, select_greedily
from rflaf.model.normal_equations import NormalEquations
from rflaf.rows.blocks import ArraySource
from rflaf.rows.executors import ThreadExecutor
from rflaf.training import pools
from rflaf.training.specification import FitSpec

seeds = st.integers(0, 2**32 - 1)
each_intercept = pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])


def some_pool(n_rows: int, pool_size: int, n_outputs: int, rng):
    """Correlated features of unlike length (pool_size, n_rows), and noisy targets that some of them explain."""
    Z = rng.standard_normal((pool_size, pool_size)) @ rng.standard_normal((pool_size, n_rows)) + 0.5
    Z *= rng.uniform(0.2, 5, (pool_size, 1))
    y = Z.T @ (rng.standard_normal((pool_size, n_outputs)) * (rng.random((pool_size, 1)) < 0.5))
    return Z, y / (y.std() or 1.0) + rng.standard_normal((n_rows, n_outputs))


def equations_of(Z, y, weight=None) -> NormalEquations:
    design = np.vstack([Z, np.ones((1, Z.shape[1])), y.T])
    if weight is not None:
        design = design * np.sqrt(weight)
    return NormalEquations.from_design(np.ascontiguousarray(design), y.shape[1], weight)


def pool_of(Z, y, weight, intercept: bool) -> FeaturePool:
    return feature_pool(lambda part: Z[part].copy(), len(Z), y, weight, intercept, ThreadExecutor(1))


def from_features(Z, y, weight, n_components: int, ridge: float, intercept: bool) -> Selection:
    return select_from(pool_of(Z, y, weight, intercept), n_components, ridge, intercept)


def assert_same_path(one: Selection, other: Selection) -> None:
    np.testing.assert_array_equal(one.order, other.order)
    size = one.errors[0]
    np.testing.assert_allclose(one.errors, other.errors, rtol=1e-8, atol=1e-11 * size)
    finite = np.isfinite(one.gcv)
    np.testing.assert_array_equal(finite, np.isfinite(other.gcv))
    np.testing.assert_allclose(one.gcv[finite], other.gcv[finite], rtol=1e-8, atol=1e-11 * size)


# Pools of features


@settings(max_examples=60)
@given(
    st.integers(25, 70), st.integers(1, 12), st.integers(1, 3), st.sampled_from([0.0, 1e-4, 1.0]), st.booleans(), seeds
)
def test_features_are_selected_as_by_their_gram_matrix(n_rows, pool_size, n_outputs, ridge, intercept, seed):
    Z, y = some_pool(n_rows, pool_size, n_outputs, np.random.default_rng(seed))
    expected = select_greedily(equations_of(Z, y), pool_size, ridge, intercept)
    assert expected.order.size == pool_size
    assert_same_path(expected, from_features(Z, y, None, pool_size, ridge, intercept))


@settings(max_examples=60)
@given(st.integers(25, 70), st.integers(1, 12), st.integers(1, 3), st.sampled_from([0.0, 0.3]), st.booleans(), seeds)
def test_weighted_features_are_selected_as_by_their_gram_matrix(n_rows, pool_size, n_outputs, ridge, intercept, seed):
    rng = np.random.default_rng(seed)
    Z, y = some_pool(n_rows, pool_size, n_outputs, rng)
    weight = rng.uniform(0.1, 3, n_rows) * (rng.random(n_rows) < 0.9)
    expected = select_greedily(equations_of(Z, y, weight), pool_size, ridge, intercept)
    assert_same_path(expected, from_features(Z, y, weight, pool_size, ridge, intercept))


@each_intercept
def test_whole_weights_count_as_repeated_rows(intercept):
    rng = np.random.default_rng(0)
    Z, y = some_pool(40, 8, 2, rng)
    copies = rng.integers(1, 4, 40)
    weighted = from_features(Z, y, copies.astype(float), 8, 0.1, intercept)
    repeated = from_features(np.repeat(Z, copies, axis=1), np.repeat(y, copies, axis=0), None, 8, 0.1, intercept)
    assert_same_path(select_greedily(equations_of(Z, y, copies.astype(float)), 8, 0.1, intercept), repeated)
    assert_same_path(weighted, repeated)


@each_intercept
@pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])
def test_a_pool_holds_weighted_means_over_its_rows(intercept, weighted):
    rng = np.random.default_rng(1)
    Z, y = some_pool(30, 5, 2, rng)
    weight = rng.exponential(size=30) if weighted else None
    pool = pool_of(Z, y, weight, intercept)
    share = np.full(30, 1 / 30) if weight is None else weight / weight.sum()
    z_mean, y_mean = (Z @ share, share @ y) if intercept else (np.zeros(5), np.zeros(2))
    Z, y = Z - z_mean[:, None], y - y_mean
    np.testing.assert_allclose(pool.z_mean, z_mean, atol=1e-13)
    np.testing.assert_allclose(pool.c, (Z * share) @ y, atol=1e-12)
    np.testing.assert_allclose(pool.y_square, share @ y**2, rtol=1e-12)
    np.testing.assert_allclose(pool.length, Z**2 @ share, rtol=1e-12)
    G = (Z * share) @ Z.T
    np.testing.assert_allclose(pool.columns(np.array([3, 0, 4])), G[[3, 0, 4]], atol=1e-11)
    np.testing.assert_allclose(pool.products(np.array([3, 0])), G[np.ix_([3, 0], [3, 0])], atol=1e-11)
    assert pool.count == 30


def test_rows_of_weight_zero_are_as_good_as_absent():
    rng = np.random.default_rng(2)
    Z, y = some_pool(60, 8, 1, rng)
    weight = rng.uniform(0.5, 1.5, 60) * (np.arange(60) % 3 > 0)
    used = weight > 0
    with_them = from_features(Z, y, weight, 8, 0.0, True)
    assert_same_path(with_them, from_features(Z[:, used], y[used], weight[used], 8, 0.0, True))


@pytest.mark.parametrize("seed", range(5))
def test_copies_are_taken_once_in_single_precision(seed):
    Z, y = some_pool(200, 5, 1, np.random.default_rng(seed))
    copies = np.vstack([Z, 2 * Z, -3 * Z]).astype(np.float32)
    assert sorted(from_features(copies, y, None, 15, 0.0, True).order % 5) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_pool_of_many_copies_gives_one_of_each(dtype):
    Z, y = some_pool(100, 20, 2, np.random.default_rng(5))
    copies = np.vstack([scale * Z for scale in range(1, 16)]).astype(dtype)
    order = from_features(copies, y, None, 60, 0.0, True).order
    assert sorted(order % 20) == list(range(20))


def test_columns_are_made_several_at_once_and_few_in_vain(monkeypatch):
    asked = []
    columns = FeaturePool.columns
    monkeypatch.setattr(FeaturePool, "columns", lambda pool, chosen: asked.append(chosen) or columns(pool, chosen))
    Z, y = some_pool(400, 300, 1, np.random.default_rng(3))
    order = from_features(Z, y, None, 60, 0.0, True).order
    assert np.unique(order).size == 60
    assert set(order) <= set(np.concatenate(asked))
    assert len(asked) <= 12
    assert max(map(len, asked)) <= 16


def test_every_step_gains_nearly_as_much_as_the_best_would():
    Z, y = some_pool(400, 300, 2, np.random.default_rng(4))
    path = from_features(Z, y, None, 30, 0.0, True)
    Z, y = Z - Z.mean(axis=1, keepdims=True), y - y.mean(axis=0)
    residual, rest = y, Z
    for j in path.order:
        gain = np.sum((rest @ residual) ** 2, axis=1) / np.maximum(np.sum(rest**2, axis=1), 1e-9)
        assert gain[j] >= 0.6 * gain.max() * (1 - 1e-6)
        unit = rest[j] / np.linalg.norm(rest[j])
        rest = rest - np.outer(rest @ unit, unit)
        residual = residual - np.outer(unit, unit @ residual)
    np.testing.assert_allclose(path.errors[-1], np.mean(residual**2, axis=0).sum(), rtol=1e-8)


@pytest.mark.parametrize(
    ("n_components", "pool_size", "expected"),
    [(10, None, 6000), (200, None, 8000), (400, None, 12_000), (7000, None, 14_000), (None, None, 6000), (9, 40, 40)],
)
def test_the_pool_is_forty_times_the_width_within_limits(n_components, pool_size, expected):
    assert FitSpec(n_components, sampling="greedy", pool_size=pool_size).n_pool == expected


def small_table(n_rows: int = 400, n_outputs: int = 1, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 4)) * [1, 10, 0.1, 1] + [0, 3, 0, -2]
    y = np.sin(X @ (rng.standard_normal((4, n_outputs)) / [[1], [10], [0.1], [1]]))
    return X, (y + 0.1 * rng.standard_normal(y.shape)).squeeze()


def by_gram_matrix(sample, features, intercept, executor):
    return gram_pool(features.sum_equations(sample, executor), intercept)


def either_way(monkeypatch, fit):
    """What ``fit()`` gives with the Gram matrix of the pool, and with its features."""
    with monkeypatch.context() as patched:
        patched.setattr(pools, "_feature_pool", by_gram_matrix)
        by_matrix = fit()
    return by_matrix, fit()


@each_intercept
@pytest.mark.parametrize("activation", ["shared", "per_component"])
@pytest.mark.parametrize(("n_outputs", "weighted"), [(1, False), (1, True), (2, True)])
def test_the_estimator_selects_the_same_either_way(monkeypatch, n_outputs, weighted, activation, intercept):
    X, y = small_table(n_outputs=n_outputs)
    weight = np.random.default_rng(1).uniform(0.1, 2, len(y)) if weighted else None

    def fit() -> RFLAFRegressor:
        model = RFLAFRegressor.convex(
            8, pool_size=80, alpha=1e-3, activation=activation, fit_intercept=intercept, random_state=0
        )
        return model.fit(X, y, sample_weight=weight)

    by_matrix, by_features = either_way(monkeypatch, fit)
    assert_same_path(by_matrix.selection_, by_features.selection_)
    np.testing.assert_array_equal(by_matrix.directions_, by_features.directions_)
    np.testing.assert_array_equal(by_matrix.predict(X), by_features.predict(X))


def test_an_automatic_width_is_the_same_either_way(monkeypatch):
    X, y = small_table()
    one, other = either_way(monkeypatch, lambda: RFLAFRegressor.convex("auto", pool_size=80, random_state=0).fit(X, y))
    assert one.n_components_ == other.n_components_ < one.selection_.order.size
    np.testing.assert_array_equal(one.predict(X), other.predict(X))


def test_rows_in_single_precision_fit_as_well_either_way(monkeypatch):
    X, y = small_table()
    X32 = X.astype(np.float32)
    one, other = either_way(monkeypatch, lambda: RFLAFRegressor.convex(8, pool_size=80, random_state=0).fit(X32, y))
    assert one.score(X32, y) > 0.8
    assert other.score(X32, y) == pytest.approx(one.score(X32, y), abs=0.02)


def test_sparse_rows_select_as_dense_rows():
    X, y = small_table()
    X[np.abs(X) < 0.5] = 0
    dense, sparse = (
        RFLAFRegressor.convex(8, pool_size=80, alpha=1e-3, random_state=0).fit(rows, y) for rows in (X, sp.csr_array(X))
    )
    np.testing.assert_array_equal(dense.selection_.order, sparse.selection_.order)
    np.testing.assert_allclose(dense.predict(X), sparse.predict(X), atol=1e-8)


def test_a_pool_too_large_for_its_matrix_takes_little_memory():
    X, y = small_table(500)
    model = limited(RFLAFRegressor.convex, 12, pool_size=7000, max_iter=3, tol=0.1, random_state=0, n_jobs=1)
    tracemalloc.start()
    try:
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 7000**2 * 8 / 2
    assert model.selection_.order.size == model.n_components_ == 12
    assert model.selection_.order.max() > 3000
    assert model.score(X, y) > 0.8


def test_memory_given_bounds_the_rows_a_large_pool_is_kept_on(monkeypatch):
    X, y = small_table(1500)
    kept = []
    original = pools._feature_pool
    monkeypatch.setattr(
        pools, "_feature_pool", lambda sample, *rest: kept.append(sample.n_samples) or original(sample, *rest)
    )
    model = limited(RFLAFRegressor.convex, 12, pool_size=7000, max_iter=3, tol=0.1, random_state=0, memory=2**27)
    assert model.fit(X, y).score(X, y) > 0.8
    assert 1000 <= kept[0] < 2**27 // (8 * 7000)


# Sums that weigh rows far off down


class Columns(RowFeatures):
    """Features that are the columns themselves."""

    def __init__(self, n_columns: int, dtype=np.float64) -> None:
        self._n_columns, self._dtype = n_columns, np.dtype(dtype)

    @property
    def n_components(self) -> int:
        return self._n_columns

    @property
    def dtype(self) -> np.dtype:
        return self._dtype

    def features(self, X, out):
        out[...] = X.T
        return out


@settings(max_examples=60)
@given(
    st.integers(3, 60),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from([0.1, 0.7, 2.0, 1e6]),
    st.integers(1, 60),
    st.integers(1, 2),
    seeds,
)
def test_robust_sums_are_explicit_weighted_sums(n_rows, n_outputs, weighted, delta, block_rows, n_workers, seed):
    rng = np.random.default_rng(seed)
    X, y, weight = noise_rows(n_rows, n_outputs, weighted, rng)
    v = rng.standard_normal((4, n_outputs))
    with ThreadExecutor(n_workers) as executor:
        found = sum_robust_equations(ArraySource(X, y, weight, block_rows), Columns(4), v, delta, executor)
    w = np.ones(n_rows) if weight is None else weight.copy()
    for i in range(n_rows):
        off = max(abs(y[i, o] - X[i] @ v[:, o]) for o in range(n_outputs))
        w[i] *= delta / off if off > delta else 1.0
    rows = np.hstack([X, np.ones((n_rows, 1)), y])
    np.testing.assert_allclose(found.moments, rows.T @ (rows * w[:, None]), rtol=1e-10, atol=1e-10)
    assert (found.n_outputs, found.n_rows) == (n_outputs, np.count_nonzero(w))
    assert found.whole_weights == bool(np.all(w == np.floor(w)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_without_a_bound_robust_sums_are_the_plain_ones_bit_for_bit(n_outputs, weighted, dtype):
    rng = np.random.default_rng(0)
    X, y, weight = noise_rows(50, n_outputs, weighted, rng)
    X, y = X.astype(dtype), y.astype(dtype)
    y[3] = X[3] @ np.ones((4, n_outputs), dtype)  # a row that is fitted exactly
    source = ArraySource(X, y, None if weight is None else weight.astype(dtype), 16)
    with ThreadExecutor(1) as executor:
        plain = Columns(4, dtype).sum_equations(source, executor)
        robust = sum_robust_equations(source, Columns(4, dtype), np.ones((4, n_outputs)), np.inf, executor)
    np.testing.assert_array_equal(robust.moments, plain.moments)
    assert (robust.n_rows, robust.whole_weights, robust.precision) == (
        plain.n_rows,
        plain.whole_weights,
        plain.precision,
    )


def test_a_wild_row_pulls_no_harder_than_one_at_the_bound():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    v = np.array([[1.0], [-2.0], [0.5], [0.0]])
    y = X @ v + 0.1 * rng.standard_normal((200, 1))
    slopes = []
    for shift in (0.0, 1e2, 1e4):
        wild = y.copy()
        wild[0] += shift
        with ThreadExecutor(1) as executor:
            equations = sum_robust_equations(ArraySource(X, wild), Columns(4), v, 0.3, executor)
        slopes.append(equations.system(False).solve(0.0).v)
    np.testing.assert_allclose(slopes[1], slopes[0], atol=0.02)
    np.testing.assert_allclose(slopes[2], slopes[1], atol=1e-3)


# Spreads of projections


@settings(max_examples=60)
@given(st.integers(2, 40), st.integers(1, 30), st.booleans(), st.booleans(), st.integers(1, 40), seeds)
def test_spreads_are_standard_deviations_of_projections(n_rows, n_features, weighted, sparse, block_rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features)) + 100 * rng.standard_normal(n_features)
    weight = rng.uniform(0.1, 2, n_rows) if weighted else None
    directions = draw(Gaussian(), n_features, 7, rng)
    source = ArraySource(sp.csr_array(X) if sparse else X, np.zeros((n_rows, 1)), weight, block_rows)
    with ThreadExecutor(1) as executor:
        found = pools._spreads(source, directions, executor)
    projections = X @ directions.W + directions.offset
    centred = projections - np.average(projections, axis=0, weights=weight)
    expected = np.sqrt(np.average(centred**2, axis=0, weights=weight))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


@given(st.integers(-1073, 1023), seeds)
def test_norms_are_those_of_columns_whatever_their_unit(exponent, seed):
    columns = np.random.default_rng(seed).uniform(-1, 1, (3, 4))
    in_units = columns * 2.0**exponent
    np.testing.assert_array_equal(pools._norms(columns), np.linalg.norm(columns, axis=0))
    np.testing.assert_allclose(
        pools._norms(in_units / 2), np.linalg.norm(columns, axis=0) * 2.0**exponent / 2, rtol=1e-12, atol=1e-322
    )


@pytest.mark.parametrize("tiny", [5e-324, 1e-310])
def test_rows_that_are_all_but_zero_and_not_scaled_are_a_constant(tiny):
    model = RFLAFRegressor(3, directions="random", scale=False, random_state=0).fit(
        np.full((40, 3), tiny), np.arange(40.0)
    )
    np.testing.assert_allclose(model.predict(np.full((2, 3), tiny)), 19.5)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_rows_without_weight_have_no_spread(sparse):
    X = np.eye(5)
    directions = draw(Gaussian(), 5, 3, np.random.default_rng(0))
    source = ArraySource(sp.csr_array(X) if sparse else X, np.zeros((5, 1)), np.zeros(5))
    with ThreadExecutor(1) as executor:
        np.testing.assert_array_equal(pools._spreads(source, directions, executor), 0)


def test_a_row_weighs_by_the_output_that_is_farthest_off():
    X, y = np.eye(4)[:1], np.array([[0.1, 10.0]])
    with ThreadExecutor(1) as executor:
        found = sum_robust_equations(ArraySource(X, y), Columns(4), np.zeros((4, 2)), 1.0, executor)
    np.testing.assert_allclose(found.weight, 0.1)  # 1 / 10, not 1 / max(0.1, 1)
