"""Statistics of levels: sums, shrinking, giveaways and names, number for number beside slow references."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rflaf import InvalidParameterError
from rflaf.rows.tables.statistics import (
    LevelStatistic,
    LevelSums,
    check_text,
    fold_of_rows,
    giveaways,
    label_texts,
    shrunken_means,
    target_parts,
)


def shrunken(codes, y, weight, n_levels):
    """Return (n m + k M) / (n + k) by the analysis of variance, a level at a time."""
    overall, levels = np.average(y, weights=weight), [codes == level for level in range(n_levels)]
    n = np.array([weight[rows].sum() for rows in levels])
    means = np.array([np.average(y[rows], weights=weight[rows]) if rows.any() else overall for rows in levels])
    n_seen = np.count_nonzero(n)
    within = sum(weight[rows] @ (y[rows] - mean) ** 2 for rows, mean in zip(levels, means, strict=True))
    within /= n.sum() - n_seen
    spread = (n @ (means - overall) ** 2 / (n_seen - 1) - within) / ((n.sum() - n @ n / n.sum()) / (n_seen - 1))
    return overall + n * spread / (n * spread + within) * (means - overall)


def summed(codes, folds, Y, weight, n_levels):
    sums = LevelSums([str(level) for level in range(n_levels - 2)], [str(part) for part in range(Y.shape[1])])
    for some in (slice(0, 70), slice(70, None)):
        sums.add(codes[some], folds[some], Y[some], None if weight is None else weight[some])
    return sums


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    codes, weight = rng.integers(0, 7, 300), rng.uniform(0.2, 3, 300)
    codes[codes == 3] = 2  # one level is not seen
    weight[rng.random(300) < 0.1] = 0
    return codes, rng.integers(0, 5, 300), rng.standard_normal((300, 2)) + np.column_stack([codes, codes % 2]), weight


@pytest.mark.parametrize("unit", [1.0, 1e-8, 1e8])
def test_weighted_statistics_are_those_of_the_formula_in_any_unit_of_weights(rows, unit):
    codes, folds, Y, weight = rows
    statistic = summed(codes, folds, Y, unit * weight, 8).finish()
    share = weight / weight[weight > 0].mean()
    for part in range(2):
        assert_allclose(statistic.means[:, part], shrunken(codes, Y[:, part], share, 8), rtol=1e-9)
        for fold in range(5):
            kept = folds != fold
            expected = shrunken(codes[kept], Y[kept, part], share[kept], 8)
            assert_allclose(statistic.by_fold[fold, :, part], expected, rtol=1e-9)
    assert_array_equal(statistic.of(codes, None), statistic.means[codes])
    assert_array_equal(statistic.of(codes, folds), [statistic.by_fold[f, c] for f, c in zip(folds, codes, strict=True)])


def test_statistics_without_weights_are_those_of_weights_of_one(rows):
    codes, folds, Y, _ = rows
    without, ones = summed(codes, folds, Y, None, 8), summed(codes, folds, Y, np.ones(300), 8)
    assert without.n_used == ones.n_used == 300
    assert_array_equal(without.finish().by_fold, ones.finish().by_fold)
    assert summed(codes, folds, Y, rows[3], 8).n_used == np.count_nonzero(rows[3])


def test_a_target_whose_squares_overflow_has_no_statistic(rows):
    codes, folds, Y, _ = rows
    statistic = summed(codes, folds, Y * [1.0, 1e200], None, 8).finish()
    assert_allclose(statistic.means[:, 0], shrunken(codes, Y[:, 0], np.ones(300), 8), rtol=1e-9)
    assert_array_equal(statistic.means[:, 1], np.zeros(8))


def test_no_rows_and_rows_of_one_level_say_nothing_but_their_mean():
    empty = LevelSums(["a"], ["mean"])
    assert_array_equal(empty.finish().means, np.zeros((3, 1)))
    assert_array_equal(shrunken_means(np.zeros(3), np.zeros((3, 1)), np.zeros(1)), np.zeros((3, 1)))
    one = shrunken_means(np.array([4.0, 0.0]), np.array([[8.0], [0.0]]), np.array([20.0]))
    assert_array_equal(one, [[2.0], [2.0]])


def test_levels_without_variance_within_have_their_means_and_without_any_the_mean():
    weight = np.array([2.0, 3.0, 0.0])
    exact = shrunken_means(weight, weight[:, None] * [[1.0], [4.0], [0.0]], np.array([2.0 + 3 * 16]))
    assert_allclose(exact[:, 0], [1.0, 4.0, 14 / 5], rtol=1e-12)
    same = shrunken_means(weight, weight[:, None] * 3.0, np.array([45.0]))
    assert_array_equal(same, np.full((3, 1), 3.0))
    # Levels that differ by no more than rows do: n_1 = n_2 = 2, means 0 and 1, variance 4.
    noise = shrunken_means(np.array([2.0, 2.0]), np.array([[0.0], [2.0]]), np.array([1.0 + 0.5 * 2 + 8.0]))
    assert_array_equal(noise, np.full((2, 1), 0.5))


def test_two_levels_are_shrunken_by_hand():
    # n = (1, 3), means 0 and 4: M = 3, between 12, within 4 / (4 - 2) = 2; spread (12 - 2) / (4 - 10 / 4) = 20 / 3.
    found = shrunken_means(np.array([1.0, 3.0]), np.array([[0.0], [12.0]]), np.array([4 + 12 + 36.0]))
    k = 2 / (20 / 3)
    assert_allclose(found[:, 0], [(0 + 3 * k) / (1 + k), (12 + 3 * k) / (3 + k)], rtol=1e-12)


def test_two_levels_of_less_weight_than_one_row_are_shrunken_by_hand():
    # n = (1/4, 1/2), means 0 and 4: M = 8/3, between 8/3, within .1 / 1; spread (8/3 - .1) / (3/4 - 5/16 / 3/4) = 7.7.
    found = shrunken_means(np.array([0.25, 0.5]), np.array([[0.0], [2.0]]), np.array([0.5 * 16 + 0.1]))
    k = 0.1 / 7.7
    assert_allclose(found[:, 0], [8 / 3 * k / (0.25 + k), (2 + 8 / 3 * k) / (0.5 + k)], rtol=1e-9)


def test_weight_beside_which_the_rest_is_rounding_shrinks_all():
    for share, shrinks in ((1e-14, True), (1e-9, False)):
        weight = np.array([1.0, share])
        means = shrunken_means(weight, weight[:, None] * [[1.0], [2.0]], np.array([1 + 4 * share + 1e-15 * share]))
        assert bool(np.ptp(means) == 0) is shrinks


def test_folds_follow_the_number_of_the_row_alone():
    mask = 2**64 - 1
    expected = []
    for number in range(1, 41):
        mixed = number * 0x9E3779B97F4A7C15 & mask
        mixed = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9 & mask
        expected.append((mixed >> 33) % 5)
    assert_array_equal(fold_of_rows(0, 40), expected)
    assert_array_equal(fold_of_rows(25, 15), expected[25:])


def test_a_statistic_comes_back_from_its_texts():
    statistic = LevelStatistic(("a", "b"), ("mean", "other"), np.arange(8.0).reshape(4, 2) / 3)
    back = LevelStatistic.from_dict(statistic.to_dict())
    assert back == statistic
    assert hash(back) == hash(statistic)
    assert back != LevelStatistic(("a", "c"), statistic.parts, statistic.means)
    assert back != LevelStatistic(statistic.names, statistic.parts, statistic.means + 1)
    assert back != "a"
    assert back.levels.to_pylist() == ["a", "b"]
    with pytest.raises(InvalidParameterError, match="1F"):
        LevelStatistic(("a\x1fb",), ("mean",), np.zeros((3, 1))).to_dict()
    for means in (np.zeros((3, 2)), np.zeros((4, 1)), np.full((4, 2), np.nan)):
        with pytest.raises(InvalidParameterError, match="4 x 2 finite"):
            LevelStatistic(("a", "b"), ("mean", "other"), means)
    with pytest.raises(InvalidParameterError, match="must be a text"):
        check_text(1)


def test_targets_are_columns_of_numbers_or_of_shares():
    names, columns = target_parts(np.zeros(3), labels=False)
    assert (names, columns([1, 2]).tolist()) == (["mean"], [[1.0], [2.0]])
    assert target_parts(np.zeros((3, 1)), labels=False)[0] == ["mean"]
    names, columns = target_parts(np.zeros((3, 2)), labels=False)
    assert names == ["mean of target 0", "mean of target 1"]
    assert columns([[1, 2]]).tolist() == [[1.0, 2.0]]
    names, columns = target_parts(np.array(["no", "yes"]), labels=True)
    assert (names, columns(["yes", "no"]).tolist()) == (["share of yes"], [[1.0], [0.0]])
    names, columns = target_parts(np.array([3.0, 1.0, 2.0]), labels=True)
    assert names == ["share of 1", "share of 2", "share of 3"]
    assert columns([2, 2, 1]).tolist() == [[0, 1, 0], [0, 1, 0], [1, 0, 0]]
    assert target_parts(np.array([5]), labels=True)[0] == ["share of 5"]


def test_labels_are_texts_whole_numbers_without_a_point():
    assert label_texts(np.array([1.0, -2.0])) == ["1", "-2"]
    assert label_texts(np.array([1.0, 2.5])) == ["1.0", "2.5"]
    assert label_texts([True, False]) == ["true", "false"]
    assert label_texts([[1], [2]]) == ["1", "2"]


@pytest.mark.parametrize(("n_rows", "found"), [(29, []), (30, [1])])
def test_thirty_rows_show_a_column_that_gives_the_target_away(n_rows, found):
    rng = np.random.default_rng(0)
    y = rng.standard_normal((n_rows, 2))
    X = np.column_stack([rng.standard_normal(n_rows), 5 - 1e200 * y[:, 1], np.ones(n_rows)])
    assert giveaways(X, y).tolist() == found
    assert giveaways(X, np.where(y > 5, y, np.inf)).tolist() == []


def test_a_correlation_above_five_nines_gives_the_target_away():
    rng = np.random.default_rng(0)
    y = rng.standard_normal((4000, 1))
    y = (y - y.mean()) / y.std()
    noise = rng.standard_normal((4000, 1))
    noise -= noise.mean() + y * np.mean(noise * y)
    noise /= noise.std()
    for correlation, found in ((0.999989, []), (0.999991, [0])):
        x = correlation * y + np.sqrt(1 - correlation**2) * noise
        assert giveaways(x, y).tolist() == found
    beyond = np.vstack([np.tile(y, (5, 1)), noise])  # only 20,000 rows are looked at
    assert giveaways(beyond, np.vstack([np.tile(y, (5, 1)), -noise])).tolist() == [0]


def test_a_level_gives_the_target_away_and_a_column_of_one_level_does_not():
    number = np.arange(40)
    codes, target = np.column_stack([number % 7, number % 3, np.ones(40)]), (number % 3 == 2)[:, None]
    assert giveaways(codes, target, (7, 3, 3)).tolist() == [1]
    assert giveaways(codes, 5 - 2.0 * target, (7, 3, 3)).tolist() == [1]


def test_giveaways_of_no_columns_are_none():
    assert giveaways(np.empty((40, 0)), np.ones((40, 1))).tolist() == []
    assert giveaways(np.ones((40, 2)), np.empty((40, 0))).tolist() == []
