"""Radii, spreads and limits of intervals, number for number."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from rflaf.functions.bases import BSplineBasis
from rflaf.functions.densities import Directions
from rflaf.model.intervals import MOST_LEVELS, ErrorBands, Radii, Spread, inputs_of
from rflaf.model.random_feature_model import Activation, RandomFeatureModel


def weighted(scores, weight, rank):
    """Return the least score at which the weight below, of mean one, reaches a rank."""
    order = np.argsort(scores)
    reached = np.cumsum(weight[order]) * len(scores) / weight.sum() >= rank * (1 - 1e-10)
    return scores[order][np.argmax(reached) if reached.any() else -1]


def test_radii_are_order_statistics_by_weight():
    rng = np.random.default_rng(0)
    scores, weight = rng.standard_normal((50, 2)), rng.uniform(0.1, 3, 50)
    radii = Radii.of(scores, weight)
    assert_array_equal(radii.levels, np.arange(1, 51) / 51)
    for output in range(2):
        expected = [weighted(scores[:, output], weight, rank) for rank in range(1, 51)]
        assert_array_equal(radii.radii[:, output], expected)


def test_many_scores_keep_a_thousand_ranks_and_every_one_of_the_highest_twenty():
    n_rows = 12_345
    radii = Radii.of(np.arange(1.0, n_rows + 1)[::-1, None], np.ones(n_rows))
    ranks = {int(np.ceil(rank - 1e-9)) for rank in np.linspace(1, n_rows, MOST_LEVELS)}
    kept = np.array(sorted(ranks | set(range(n_rows - 20, n_rows + 1))))
    assert_array_equal(radii.levels, kept / (n_rows + 1))
    assert_array_equal(radii.radii[:, 0], kept)


@pytest.mark.parametrize("n_rows", [19, 20, 21, 22])
def test_few_scores_are_all_kept(n_rows):
    assert_array_equal(Radii.of(np.arange(n_rows)[:, None], np.ones(n_rows)).radii[:, 0], np.arange(n_rows))


def test_a_level_takes_the_radius_that_reaches_it_and_none_reaches_beyond_the_highest():
    radii = Radii(np.array([0.25, 0.5, 0.75]), np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]))
    for level, expected in ((0.2, 0), (0.25, 0), (0.25 + 1e-14, 0), (0.26, 1), (0.75, 2)):
        assert_array_equal(radii.at(level), radii.radii[expected])
    assert_array_equal(radii.at(0.76), [np.inf, np.inf])


def test_a_spread_stays_within_the_range_it_took():
    basis = BSplineBasis(4, 1, (-1.0, 1.0))
    directions = Directions(np.array([[0.0], [1.0]]), np.zeros(1), np.ones(1), 1)
    activation = Activation(basis, np.array([[-3.0, -1.0, 1.0, 3.0]]))
    model = RandomFeatureModel(directions, activation, np.ones((1, 1)), np.zeros(1))
    X, f = np.linspace(-0.9, 0.9, 7)[:, None], np.zeros((7, 1))
    g = model.decision(np.column_stack([f, X]))
    assert np.ptp(g) > 4
    spread = Spread(np.array([0]), model, np.array([-1.0]), np.array([0.5]))
    expected = np.exp(np.clip(g, -1.0, 0.5))
    assert_allclose(spread.at(X, f), expected, rtol=1e-12)
    assert_allclose(spread.at(sp.csr_array(X), f), expected, rtol=1e-12)
    assert_allclose(spread.of_inputs(inputs_of(X, f, np.array([0]))), expected, rtol=1e-12)
    constant = Spread(np.zeros(0, int), None, np.array([0.3, 0.7]), np.array([5.0, 5.0]))
    for size in (constant.at(X, f), constant.of_inputs(X)):
        assert_array_equal(size, np.tile(np.exp([0.3, 0.7]), (7, 1)))


def test_inputs_of_a_spread_are_the_answers_and_some_columns():
    X, f = np.arange(12.0).reshape(3, 4), np.array([[100.0], [200.0], [300.0]])
    expected = [[100, 3, 1], [200, 7, 5], [300, 11, 9]]
    for rows in (X, sp.csr_array(X)):
        assert_array_equal(inputs_of(rows, f, np.array([3, 1])), expected)


@pytest.mark.parametrize("both", [True, False])
def test_limits_are_radii_times_sizes_on_either_side(both):
    levels = np.array([0.5, 0.75, 0.9])
    below, above = Radii(levels, np.array([[1.0], [2.0], [3.0]])), Radii(levels, np.array([[10.0], [20.0], [30.0]]))
    bands = ErrorBands(
        Spread(np.zeros(0, int), None, np.zeros(1), np.zeros(1)), below, above, both, np.ones(1), np.ones(1)
    )
    mean, size = np.array([[5.0], [-1.0], [7.0]]), np.array([[2.0], [0.5], [0.0]])
    limits = bands.limits(mean, size, [0.5, 0.95])
    first = (1.0, 10.0) if both else (2.0, 20.0)  # (1 + 0.5) / 2 of one side
    for row in range(2):
        assert_array_equal(limits[row, 0, 0], mean[row] + np.array([-first[0], first[1]]) * size[row])
        assert_array_equal(limits[row, 0, 1], [-np.inf, np.inf])
    assert_array_equal(limits[2, 0, 0], [7.0, 7.0])
    assert_array_equal(limits[2, 0, 1], [-np.inf, np.inf])
