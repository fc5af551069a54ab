"""Leverage scores against the n x n kernel and the formula of Algorithm 1; resampling against its own identities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rflaf.errors import InvalidParameterError
from rflaf.functions.bases import BSplineBasis, fit_function
from rflaf.functions.densities import Directions, Gaussian, draw
from rflaf.model.features import compile_map
from rflaf.model.normal_equations import NormalEquations
from rflaf.rows.blocks import ArraySource
from rflaf.rows.executors import ThreadExecutor
from rflaf.training.solvers.leverage import (
    Leverage,
    leverage_scores,
    resample,
    scores_from_equations,
    sum_pool,
)

seeds = st.integers(0, 2**32 - 1)
lambdas = st.floats(-6, 2).map(lambda exponent: 10.0**exponent)


def some_features(n_rows: int = 30, pool_size: int = 8, seed: int = 0):
    rng = np.random.default_rng(seed)
    return np.tanh(rng.standard_normal((n_rows, pool_size)) @ rng.standard_normal((pool_size, pool_size)))


def equations_of(Z, weight=None) -> NormalEquations:
    """Of features (n_rows, pool_size); the targets do not matter."""
    design = np.hstack([Z, np.ones((Z.shape[0], 1)), np.zeros((Z.shape[0], 1))]).T
    if weight is not None:
        design = design * np.sqrt(weight)
    return NormalEquations.from_design(np.ascontiguousarray(design), 1, weight)


def effective_dimension(Z, lam):
    """tr K (K + n lambda I)^-1 of the n x n kernel K = Z Z' / s."""
    n, s = Z.shape
    K = Z @ Z.T / s
    return np.trace(np.linalg.solve(K + n * lam * np.eye(n), K))


def scores_by_definition(Z, lam):
    """diag( G (G/s + n lambda I)^-1 ) with G = Z' Z."""
    n, s = Z.shape
    G = Z.T @ Z
    return np.diagonal(np.linalg.solve(G / s + n * lam * np.eye(s), G))


# The scores


@settings(max_examples=60)
@given(st.integers(1, 30), st.integers(1, 12), lambdas, seeds)
def test_scores_lie_in_the_unit_interval_and_sum_to_the_effective_dimension(n_rows, pool_size, lam, seed):
    Z = some_features(n_rows, pool_size, seed)
    leverage = scores_from_equations(equations_of(Z), lam)
    share = leverage.scores / pool_size
    assert np.all((share >= 0) & (share <= 1))
    np.testing.assert_allclose(share.sum(), effective_dimension(Z, lam), rtol=1e-9, atol=1e-10)
    assert leverage.effective_dimension == pytest.approx(share.sum(), rel=1e-12)
    assert leverage.effective_dimension <= min(n_rows, pool_size) + 1e-9


@settings(max_examples=60)
@given(st.integers(1, 30), st.integers(1, 12), lambdas, seeds)
def test_scores_are_those_of_algorithm_1(n_rows, pool_size, lam, seed):
    Z = some_features(n_rows, pool_size, seed)
    scores = scores_from_equations(equations_of(Z), lam).scores
    np.testing.assert_allclose(scores, scores_by_definition(Z, lam), rtol=1e-9, atol=1e-10 * pool_size)


def test_the_effective_dimension_falls_with_lambda_from_the_rank_to_zero():
    Z = some_features(40, 5)
    Z = np.hstack([Z, Z[:, :2]])
    equations = equations_of(Z)
    dimensions = [scores_from_equations(equations, lam).effective_dimension for lam in np.logspace(-5, 6, 40)]
    assert np.all(np.diff(dimensions) < 0)
    assert dimensions[0] < 5
    assert scores_from_equations(equations, 1e-9).effective_dimension == pytest.approx(5, abs=1e-4)
    assert dimensions[-1] < 1e-5


@settings(max_examples=40)
@given(st.integers(1, 8), lambdas, seeds)
def test_scores_of_orthogonal_features_have_a_closed_form(pool_size, lam, seed):
    rng = np.random.default_rng(seed)
    n_rows, size = pool_size + 3, rng.uniform(0.1, 10, pool_size)
    Z = np.linalg.qr(rng.standard_normal((n_rows, pool_size)))[0] * np.sqrt(size)
    scores = scores_from_equations(equations_of(Z), lam).scores
    np.testing.assert_allclose(scores, size / (size / pool_size + n_rows * lam), rtol=1e-8, atol=1e-10)


def test_whole_weights_equal_repeated_rows():
    Z, copies = some_features(), np.random.default_rng(1).integers(0, 4, 30)
    weighted = scores_from_equations(equations_of(Z, copies.astype(float)))
    repeated = scores_from_equations(equations_of(np.repeat(Z, copies, axis=0)))
    assert weighted.lam == pytest.approx(repeated.lam, rel=1e-12)
    np.testing.assert_allclose(weighted.scores, repeated.scores, rtol=1e-10)


def test_lambda_is_one_over_the_root_of_the_number_of_rows():
    assert scores_from_equations(equations_of(some_features(25))).lam == pytest.approx(0.2)
    fractional = equations_of(some_features(25), np.full(25, 0.5))
    assert scores_from_equations(fractional).lam == pytest.approx(0.2)


@pytest.mark.parametrize("lam", [0.0, -1.0, np.nan])
def test_a_lambda_that_is_not_positive_is_refused(lam):
    expected = rf"lambda of the leverage scores must be above zero; got {lam}\. Use 1 / sqrt\(n\)\."
    with pytest.raises(InvalidParameterError, match=expected):
        scores_from_equations(equations_of(some_features()), lam)


def test_a_feature_that_is_zero_has_no_leverage():
    Z = some_features()
    Z[:, 3] = 0
    leverage = scores_from_equations(equations_of(Z), 0.01)
    np.testing.assert_allclose(leverage.scores[3], 0, atol=1e-14)
    np.testing.assert_allclose(leverage.probabilities[3], 0, atol=1e-14)
    np.testing.assert_allclose(leverage.probabilities.sum(), 1, rtol=1e-14)


def test_features_that_are_all_zero_have_no_effective_dimension():
    leverage = scores_from_equations(equations_of(np.zeros((10, 4))), 0.1)
    np.testing.assert_allclose(leverage.scores, 0, atol=1e-14)
    assert leverage.effective_dimension == pytest.approx(0, abs=1e-14)


def test_a_pool_without_any_leverage_is_drawn_evenly():
    leverage = Leverage(np.zeros(4), 0.1)
    np.testing.assert_array_equal(leverage.probabilities, 0.25)
    assert leverage.spread == 1
    assert leverage.effective_dimension == 0


def test_the_spread_is_the_largest_score_over_the_mean():
    assert Leverage(np.array([1.0, 2.0, 6.0]), 0.1).spread == pytest.approx(2)


# Scores from rows


def some_pool(n_rows: int = 4000, pool_size: int = 60, seed: int = 0, weighted: bool = False):
    """A source of rows, and a pool of sine features of unlike frequency."""
    rng = np.random.default_rng(seed)
    basis = BSplineBasis(24)
    directions = draw(Gaussian(), 3, pool_size, rng).scaled(rng.uniform(0.05, 1, pool_size))
    a = fit_function(basis, lambda z: np.sin(2 * z))
    feature_map = compile_map(directions, basis.pieces(a[None]), a[None], np.float64)
    weight = rng.integers(1, 4, n_rows).astype(float) if weighted else None
    source = ArraySource(rng.standard_normal((n_rows, 3)), np.zeros((n_rows, 1)), weight, block_rows=512)
    return source, feature_map


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_from_rows_are_those_of_their_features(weighted):
    source, pool = some_pool(n_rows=1300, weighted=weighted)
    Z = pool.features(source.X, np.empty((pool.n_components, source.n_samples))).T
    with ThreadExecutor(2) as executor:
        leverage = leverage_scores(source, pool, 1e-3, executor)
    expected = scores_from_equations(equations_of(Z, source.weight), 1e-3)
    np.testing.assert_allclose(leverage.scores, expected.scores, rtol=1e-9, atol=1e-9)
    assert leverage.relative_error == 0


@pytest.mark.parametrize("n_rows", [700, 5000])
def test_a_sample_of_all_rows_gives_the_exact_scores(n_rows):
    source, pool = some_pool(n_rows=700)
    with ThreadExecutor() as executor:
        exact = leverage_scores(source, pool, None, executor)
        sampled = sum_pool(source, pool, n_rows, np.random.default_rng(0), executor).scores(None)
    np.testing.assert_array_equal(sampled.scores, exact.scores)
    assert (sampled.lam, sampled.relative_error) == (exact.lam, 0)


@pytest.mark.parametrize("lam", [1e-1, 1e-3])
@pytest.mark.parametrize("n_rows", [200, 500])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_stated_error_of_sampled_scores_is_the_error_they_have(lam, n_rows, weighted):
    source, pool = some_pool(weighted=weighted)
    with ThreadExecutor() as executor:
        exact = leverage_scores(source, pool, lam, executor).scores
        sampled = [
            sum_pool(source, pool, n_rows, np.random.default_rng(seed), executor).scores(lam) for seed in range(8)
        ]
    actual = np.mean([np.linalg.norm(one.scores - exact) / np.linalg.norm(exact) for one in sampled])
    stated = np.mean([one.relative_error for one in sampled])
    assert actual / 3 < stated < 3 * actual


def test_lambda_of_sampled_scores_is_that_of_the_whole_table():
    source, pool = some_pool(n_rows=3600, pool_size=20)
    with ThreadExecutor() as executor:
        sampled = sum_pool(source, pool, 400, np.random.default_rng(0), executor).scores(None)
    assert sampled.lam == pytest.approx(3600**-0.5)


# Resampling


def pool_and_scores(pool_size: int = 12, seed: int = 0) -> tuple[Directions, Leverage]:
    rng = np.random.default_rng(seed)
    return draw(Gaussian(), 3, pool_size, rng), Leverage(rng.exponential(size=pool_size), lam=0.1)


@settings(max_examples=60)
@given(st.integers(1, 40), st.integers(1, 60), seeds)
def test_resampled_weights_are_one_over_the_root_of_s_q(pool_size, n_components, seed):
    pool, leverage = pool_and_scores(pool_size, seed)
    kept = resample(pool, leverage, n_components, np.random.default_rng(seed))[0]
    q = leverage.probabilities
    origin = np.array([np.flatnonzero(np.all(column[:, None] == pool.W, axis=0))[0] for column in kept.W.T])
    copies = kept.importance**2 * pool_size * q[origin]
    np.testing.assert_allclose(copies, np.round(copies), rtol=1e-9)
    assert np.round(copies).sum() == kept.n_draws == n_components
    assert kept.n_components <= min(pool_size, n_components)
    assert np.unique(origin).size == origin.size


def test_the_directions_drawn_are_marked_among_the_scores():
    pool, leverage = pool_and_scores()
    kept, marked = resample(pool, leverage, 8, np.random.default_rng(3))
    np.testing.assert_array_equal(kept.W, pool.W[:, marked.kept])
    np.testing.assert_array_equal(marked.scores, leverage.scores)


def test_squared_importance_has_mean_one_under_q():
    pool, leverage = pool_and_scores()
    q = leverage.probabilities
    assert np.sum(q * 1 / (q.size * q)) == pytest.approx(1, rel=1e-14)
    kept = resample(pool, leverage, 200_000, np.random.default_rng(1))[0]
    assert np.sum(kept.importance**2) / kept.n_draws == pytest.approx(1, rel=0.01)


def test_a_direction_is_drawn_as_often_as_its_score_says():
    pool, leverage = pool_and_scores()
    kept = resample(pool, leverage, 100_000, np.random.default_rng(1))[0]
    q = leverage.probabilities
    copies = kept.importance**2 * q.size * q
    np.testing.assert_allclose(copies / kept.n_draws, q, atol=5 * np.sqrt(0.25 / 100_000))


def test_even_scores_are_plain_sampling():
    pool, _ = pool_and_scores()
    kept = resample(pool, Leverage(np.full(12, 3.0), 0.1), 5, np.random.default_rng(0))[0]
    np.testing.assert_allclose(kept.importance**2, np.round(kept.importance**2), rtol=1e-12)


def test_the_importance_a_pool_already_has_is_kept():
    pool, leverage = pool_and_scores()
    doubled = pool.take(np.arange(12), importance=np.full(12, 2.0))
    one, other = (resample(p, leverage, 20, np.random.default_rng(0))[0] for p in (pool, doubled))
    np.testing.assert_allclose(other.importance, 2 * one.importance, rtol=1e-15)


def test_a_direction_without_leverage_is_never_drawn():
    pool, _ = pool_and_scores()
    scores = np.ones(12)
    scores[[0, 5]] = 0
    kept = resample(pool, Leverage(scores, 0.1), 5000, np.random.default_rng(0))[0]
    assert kept.n_components == 10
    assert np.all(np.isfinite(kept.importance))
    assert not np.any(np.all(pool.W[:, [5]] == kept.W, axis=0))


def test_a_pool_without_any_leverage_can_be_drawn_from():
    pool, _ = pool_and_scores()
    kept = resample(pool, Leverage(np.zeros(12), 0.1), 5, np.random.default_rng(0))[0]
    assert kept.n_draws == 5
    assert np.all(np.isfinite(kept.importance))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("alpha", [1e-6, 1e-2])
def test_duplicates_merged_equal_duplicates_kept(alpha, intercept):
    rng = np.random.default_rng(0)
    pool, leverage = pool_and_scores()
    n_draws, q = 30, leverage.probabilities
    X, y = rng.standard_normal((80, 3)), rng.standard_normal((80, 1))

    def fitted_values(directions: Directions):
        Z = np.tanh(X @ directions.W + directions.offset) * directions.importance
        design = np.hstack([Z, np.ones((80, 1)), y]).T
        system = NormalEquations.from_design(np.ascontiguousarray(design), 1).system(intercept)
        solution = system.solve(alpha * directions.n_draws)
        return Z @ solution.v + solution.intercept

    drawn = np.random.default_rng(5).choice(12, size=n_draws, p=q)
    kept = pool.take(drawn, importance=np.sqrt(1 / (12 * q[drawn])))
    merged = resample(pool, leverage, n_draws, np.random.default_rng(5))[0]
    assert merged.n_components < kept.n_components == merged.n_draws
    np.testing.assert_allclose(fitted_values(merged), fitted_values(kept), atol=1e-9)


def test_the_error_of_sampled_scores_is_half_the_distance_of_the_scores_of_the_halves():
    source, pool = some_pool()
    with ThreadExecutor() as executor:
        sums = sum_pool(source, pool, 400, np.random.default_rng(0), executor)
        found = sums.scores(1e-2)
    even, odd = (scores_from_equations(half, 1e-2).scores for half in sums.halves)
    distance = np.linalg.norm(even - odd) / np.linalg.norm(found.scores)
    np.testing.assert_allclose(found.relative_error, distance / 2, rtol=1e-12)
    assert distance > 0
