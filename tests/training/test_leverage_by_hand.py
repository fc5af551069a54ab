"""Leverage scores, their totals, halves of a sample and draws against answers found by hand or by plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from rflaf.functions.bases import BSplineBasis, fit_function
from rflaf.functions.densities import Gaussian, draw
from rflaf.model.features import compile_map
from rflaf.model.normal_equations import NormalEquations
from rflaf.rows.blocks import ArraySource
from rflaf.rows.executors import ThreadExecutor
from rflaf.training.solvers.leverage import (
    Leverage,
    Pool,
    PoolSums,
    draw_systematically,
    inclusion_probabilities,
    largest_eigenvalue,
    resample,
    scores_from_equations,
    spread_of,
    sum_pool,
)


def equations_of(Z, weight=None) -> NormalEquations:
    """Of features (n_rows, pool_size); the targets do not matter."""
    design = np.vstack([Z.T, np.ones(len(Z)), np.zeros(len(Z))])
    return NormalEquations.from_design(design if weight is None else design * np.sqrt(weight), 1, weight)


# Totals of scores


@pytest.mark.parametrize("unit", [1e-3, 0.1, 1.0, 1e3])
def test_totals_of_scores_do_not_depend_on_their_size(unit):
    scores = unit * np.array([1.0, 2.0, 6.0, 3.0])
    leverage = Leverage(scores, 0.1)
    np.testing.assert_allclose(leverage.probabilities, [1 / 12, 1 / 6, 1 / 2, 1 / 4], rtol=1e-14)
    assert leverage.effective_dimension == pytest.approx(3 * unit, rel=1e-14)
    assert leverage.spread == spread_of(scores) == pytest.approx(2, rel=1e-14)
    assert leverage.relative_error == 0
    q = leverage.probabilities
    pool = Pool(np.zeros((1, 4)), np.zeros(4), np.ones(3), None, None, 0.0, 0.1, scores, q, np.arange(4), np.ones(4), 1)
    assert pool.effective_dimension == pytest.approx(3 * unit, rel=1e-14)
    assert pool.spread == pytest.approx(2, rel=1e-14)


def test_scores_that_are_all_zero_are_even():
    np.testing.assert_array_equal(Leverage(np.zeros(5), 0.1).probabilities, 0.2)
    assert spread_of(np.zeros(5)) == 1


def test_settled_scores_have_thirty_eight_digits():
    last = 2.0**-37  # of a number from one to two
    settled = Leverage(np.array([1 + last, 1 + 0.49 * last, 1 + 0.6 * last]), 0.1).settled()
    np.testing.assert_array_equal(settled.scores, [1 + last, 1, 1 + last])


def test_scores_of_orthogonal_features_by_hand():
    """Two rows, of squares 9 and 1: p = g / (g/2 + 2 lambda)."""
    equations = equations_of(np.diag([3.0, 1.0]))
    for lam in (0.5, 2.0):
        found = scores_from_equations(equations, lam)
        np.testing.assert_allclose(found.scores, [9 / (4.5 + 2 * lam), 1 / (0.5 + 2 * lam)], rtol=1e-12)
        assert found.lam == lam
    np.testing.assert_allclose(scores_from_equations(equations).lam, 0.5**0.5, rtol=1e-15)


# A sample and its halves


def some_pool():
    rng, basis = np.random.default_rng(0), BSplineBasis(12)
    directions = draw(Gaussian(), 3, 6, rng)
    a = fit_function(basis, lambda z: np.sin(2 * z))
    return compile_map(directions, basis.pieces(a[None]), a[None], np.float64)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_halves_of_a_sample_are_its_even_and_its_odd_rows(weighted):
    rng, pool = np.random.default_rng(1), some_pool()
    weight = rng.integers(1, 5, 90).astype(float) if weighted else None
    source = ArraySource(rng.standard_normal((90, 3)), np.zeros((90, 1)), weight)
    with ThreadExecutor(1) as executor:
        sums = sum_pool(source, pool, 31, np.random.default_rng(2), executor)
        whole = sum_pool(source, pool, 90, np.random.default_rng(2), executor)
    sample = source.sample(31, np.random.default_rng(2))
    Z = pool.features(sample.X, np.empty((6, 31))).T
    parts = [(Z[start::2], None if weight is None else sample.weight[start::2]) for start in (0, 1)]
    for found, (half, of_half) in zip(sums.halves, parts, strict=True):
        expected = equations_of(half, of_half)
        np.testing.assert_allclose(found.moments, expected.moments, rtol=1e-10, atol=1e-10)
        assert (found.n_rows, found.whole_weights) == (expected.n_rows, expected.whole_weights)
    np.testing.assert_allclose(sums.equations.moments, equations_of(Z, sample.weight).moments, rtol=1e-10, atol=1e-10)
    assert sums.share == 90 / 31
    assert (whole.halves, whole.share) == ((), 1)


def test_scores_of_a_sample_have_the_lambda_of_the_table_and_half_the_distance_of_the_halves():
    even, odd = np.diag([3.0, 1.0]), np.diag([1.0, 2.0])
    sums = PoolSums(equations_of(np.vstack([even, odd])), (equations_of(even), equations_of(odd)), 25.0)
    assert sums.scores(None).lam == pytest.approx(0.1, rel=1e-14)
    found = sums.scores(0.5)
    whole = np.array([10 / (5 + 2), 5 / (2.5 + 2)])  # g / (g/s + n lambda)
    distance = np.array([9 / 5.5, 1 / 1.5]) - [1 / 1.5, 4 / 3]
    np.testing.assert_allclose(found.scores, whole, rtol=1e-12)
    expected = np.linalg.norm(distance) / 2 / np.linalg.norm(whole)
    assert found.relative_error == pytest.approx(expected, rel=1e-12)
    assert PoolSums(sums.equations).scores(None).lam == 0.5


def test_the_sums_of_features_multiplied_are_those_of_the_products():
    even, odd = np.diag([3.0, 1.0]), np.diag([1.0, 2.0])
    sums = PoolSums(equations_of(np.vstack([even, odd])), (equations_of(even), equations_of(odd)), 25.0).scaled(3.0)
    np.testing.assert_allclose(sums.equations.moments, equations_of(3 * np.vstack([even, odd])).moments, rtol=1e-15)
    for found, half in zip(sums.halves, (even, odd), strict=True):
        np.testing.assert_allclose(found.moments, equations_of(3 * half).moments, rtol=1e-15)
    assert sums.share == 25


# The largest eigenvalue


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("eigenvalues", [(0.8, 0.6, 0.0), (0.3, 2.0, 1.5)])  # from the first the start has length one
def test_the_largest_eigenvalue_is_that_of_the_products_over_rows_and_features(eigenvalues, unit):
    Z, expected = np.diag(np.sqrt(9 * unit * np.array(eigenvalues))), unit * max(eigenvalues)  # three rows and features
    assert largest_eigenvalue(equations_of(Z)) == pytest.approx(expected, rel=1e-3)
    assert largest_eigenvalue(equations_of(np.vstack([Z, 0 * Z]))) == pytest.approx(expected / 2, rel=1e-3)


def test_features_that_are_zero_have_no_eigenvalue():
    assert largest_eigenvalue(equations_of(np.zeros((4, 3)))) == 0


# Draws


@pytest.mark.parametrize(
    ("q", "n_drawn", "expected"),
    [
        ([0.5, 0.25, 0.25], 2, [1, 0.5, 0.5]),
        ([0.1, 0.2, 0.3, 0.4], 1, [0.1, 0.2, 0.3, 0.4]),
        ([0.5, 0.3, 0.1, 0.1], 3, [1, 1, 0.5, 0.5]),  # the second is sure once the first is
        ([0.7, 0.2, 0.1, 0.0], 2, [1, 2 / 3, 1 / 3, 0]),
        ([0.7, 0.2, 0.1, 0.0], 3, [1, 1, 1, 0]),
        ([0.7, 0.2, 0.1, 0.0], 4, [1, 1, 1, 0]),
        ([1.0, 0.0, 0.0], 2, [1, 0, 0]),
    ],
)
def test_probabilities_of_inclusion_by_hand(q, n_drawn, expected):
    np.testing.assert_allclose(inclusion_probabilities(np.array(q), n_drawn), expected, rtol=1e-12)


def walked(inclusion, rng) -> list[int]:
    """Walk along the lengths in random order and take the one under every mark; the marks are evenly apart."""
    order, total = rng.permutation(len(inclusion)), sum(inclusion)
    n_drawn, mark, end, taken = round(total), rng.random(), 0.0, []
    for i in order:
        end += inclusion[i]
        while len(taken) < n_drawn and (mark + len(taken)) * total / n_drawn < end:
            taken.append(int(i))
    return sorted(taken)


@pytest.mark.parametrize("inclusion", [[0.5, 0.25, 0.25], [1.0, 0.5, 0.5], [0.9, 0.6, 0.3, 0.2], [0.4, 0.4, 0.5]])
def test_draws_are_those_of_a_walk_along_the_lengths(inclusion):
    """Also of lengths whose sum is not whole, as that of the last, which is cut in equal parts."""
    for seed in range(40):
        found = draw_systematically(np.array(inclusion), np.random.default_rng(seed))
        assert found.tolist() == walked(inclusion, np.random.default_rng(seed))


@pytest.mark.parametrize("with_replacement", [True, False])
def test_the_square_of_an_importance_is_one_over_the_number_expected_of_an_even_pool(with_replacement):
    pool = draw(Gaussian(), 2, 4, np.random.default_rng(0))
    pool = pool.take(np.arange(4), importance=np.array([1.0, 2.0, 1.0, 3.0]))
    leverage = Leverage(np.array([4.0, 2.0, 1.0, 1.0]), 0.1)  # q = 1/2, 1/4, 1/8, 1/8
    for seed in range(20):
        taken, marked = resample(pool, leverage, 2, np.random.default_rng(seed), with_replacement)
        if with_replacement:
            drawn = np.random.default_rng(seed).choice(4, size=2, p=[0.5, 0.25, 0.125, 0.125])
            square = np.bincount(drawn, minlength=4) / np.array([2.0, 1.0, 0.5, 0.5])
        else:
            square = np.array([0.5, 1.0, 2.0, 2.0])  # inclusion 1, 1/2, 1/4, 1/4
        np.testing.assert_allclose(taken.importance, (pool.importance * np.sqrt(square))[marked.kept], rtol=1e-12)
        assert taken.n_draws == 2
