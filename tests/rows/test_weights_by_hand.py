"""Weights, their units, counts and limits against answers found by hand."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from rflaf.rows.blocks import ArraySource
from rflaf.rows.executors import ThreadExecutor
from rflaf.rows.weights import (
    UnitWeights,
    WeightedRows,
    _are_observations,
    _counts,
    _in_unit,
    as_importance,
    of_mean_one,
)


def some_rows(weight=None, n_rows: int = 4) -> ArraySource:
    return ArraySource(np.arange(2.0 * n_rows).reshape(n_rows, 2), np.arange(float(n_rows))[:, None], weight)


# Units


def test_weights_are_divided_by_their_mean_over_the_rows_that_count():
    weight = np.array([0.0, 0.25, 0.5, 0.75])
    rows = as_importance(some_rows(weight))
    assert rows.unit == 0.5
    np.testing.assert_array_equal(rows.source.weight, [0, 0.5, 1, 1.5])
    np.testing.assert_array_equal(rows.place, np.arange(4))
    with ThreadExecutor(1) as executor:
        there = of_mean_one(some_rows(weight), executor)
    assert there.unit == 0.5
    np.testing.assert_array_equal(there.source[0].weight, [0, 0.5, 1, 1.5])


def test_where_no_row_counts_or_none_is_weighted_the_unit_is_one():
    none, source = np.zeros(4), some_rows()
    rows = as_importance(some_rows(none))
    assert rows.unit == 1
    np.testing.assert_array_equal(rows.source.weight, none)
    assert as_importance(source) == WeightedRows(source, 1.0)
    with ThreadExecutor(1) as executor:
        assert of_mean_one(some_rows(none), executor).unit == 1
        assert of_mean_one(source, executor) == WeightedRows(source, 1.0)
    weight = np.array([3.0, 1.0, 0.0, 2.0])
    np.testing.assert_array_equal(UnitWeights(some_rows(weight))[0].weight, weight)


@pytest.mark.parametrize(("dtype", "bits"), [(np.float32, 22), (np.float64, 46)])
def test_digits_that_another_unit_may_change_are_dropped(dtype, bits):
    last = 2.0 ** (1 - bits)  # of a number from one to two
    found = _in_unit(3 * np.array([1, 1 + last, 1 + last / 2 * 0.99, 1 + 0.6 * last]), 3.0, np.dtype(dtype))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, [1, 1 + last, 1, 1 + last])


# Repeated rows


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_rows_that_recur_are_merged_where_their_first_stands(form):
    X = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 5.0], [0.0, 0.0], [1.0, 0.0]])
    y = np.array([[2.0, 1.0], [0.0, 0.0], [2.0, 1.0], [2.0, 1.0], [0.0, 0.5], [2.0, 1.0]])
    rows = as_importance(ArraySource(form(X), y))
    found = rows.source.X.toarray() if form is sp.csr_array else rows.source.X
    np.testing.assert_array_equal(found, X[[0, 1, 3, 4]])
    np.testing.assert_array_equal(rows.source.y, y[[0, 1, 3, 4]])
    np.testing.assert_array_equal(rows.place, [0, 1, 0, 2, 3, 0])
    np.testing.assert_allclose(rows.source.weight, np.array([3, 1, 1, 1]) / 1.5, rtol=1e-12)
    kept = as_importance(ArraySource(form(X), y, np.arange(1.0, 7.0)), merge=False)
    np.testing.assert_array_equal(kept.place, np.arange(6))
    assert (kept.source.n_samples, kept.unit) == (6, 3.5)


def test_observations_stand_as_often_as_they_count_in_the_unit_of_their_weights():
    """Three pairs of X and target, of which the first is given twice: their weights are 4, 60 and 36 halves."""
    X, y = np.array([[1.0], [1.0], [2.0], [1.0]]), np.array([[0.0], [1.0], [0.0], [0.0]])
    rows = as_importance(ArraySource(X, y, np.array([1.0, 30.5, 18.0, 1.0])))
    assert rows.unit == 0.5
    assert rows.source.weight is None
    np.testing.assert_array_equal(rows.source.X[:, 0], np.repeat([1.0, 1.0, 2.0], [4, 61, 36]))
    np.testing.assert_array_equal(rows.source.y[:, 0], np.repeat([0.0, 1.0, 0.0], [4, 61, 36]))
    np.testing.assert_array_equal(rows.place, [0, 4, 65, 1])


# Counts


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        ([0.5, 0.75, 1.5], [2, 3, 6]),
        ([6.0, 3.0, 3.0], [2, 1, 1]),
        ([1.0, np.pi], None),
        ([1.0, 0.0], None),
        ([200.0, 201.0], [200, 201]),
        ([201.0, 202.0], None),  # the smallest would stand for too many rows
        ([1.0, 19_999.0], [1, 19_999]),
        ([1.0, 20_000.0], None),  # one row too many
        ([1.0, 3 + 2e-9], [1, 3]),
        ([1.0, 3 + 4e-9], None),
        ([1e-300, 1e300], None),
        ([0.0, 0.0], None),
    ],
)
def test_weights_are_counts_where_a_measure_divides_them_all(weight, expected):
    with np.errstate(all="raise"):
        found = _counts(np.array(weight))
    assert (found is None) == (expected is None)
    if expected is not None:
        np.testing.assert_array_equal(found, expected)


# Whether equal rows are observations


def observed(*groups: tuple[float, float, int]) -> bool:
    """Of groups (x, y, count)."""
    X, y, counts = np.array(groups).T
    source = ArraySource(X[:, None], y[:, None])
    return _are_observations(source[0], np.arange(len(groups)), counts.astype(int))


def singles(n_rows: int):
    return [(100.0 + i, 0.0, 1) for i in range(n_rows)]


def test_equal_rows_are_observations_of_targets_that_have_twenty_rows_each():
    assert observed((0, 0, 20), (0, 1, 20))
    assert not observed((0, 0, 20), (0, 1, 19))


def test_with_many_equal_rows_more_than_a_tenth_of_the_x_that_recur_must_vary():
    same = [(float(x), 0.0, 4) for x in range(2, 10)]
    assert observed((0, 0, 4), (0, 1, 4), (1, 0, 4), (1, 1, 4), *same)
    assert not observed((0, 0, 4), (0, 1, 4), (1, 0, 8), *same)


def test_with_few_equal_rows_more_than_half_of_the_x_that_recur_must_vary():
    assert observed((0, 0, 1), (0, 1, 1), *singles(38))
    assert not observed((0, 0, 1), (0, 1, 1), (1, 0, 2), *singles(36))
    assert not observed((0, 0, 1), (0, 1, 1), (1, 0, 3), *singles(35))  # a twentieth of the rows has an equal before it
    assert observed((0, 0, 1), (0, 1, 1), (1, 0, 4), *singles(34))


# Tables too large to look through


def test_up_to_twenty_thousand_rows_are_looked_through():
    X = np.arange(20_001.0)[:, None]
    assert as_importance(ArraySource(X[:-1], X[:-1])) is not None
    assert as_importance(ArraySource(X, X)) is None


def test_up_to_four_million_numbers_are_looked_through():
    y = np.array([[0.0], [1.0]])
    assert as_importance(ArraySource(sp.csr_array((2, 2**21 - 1)), y)) is not None
    assert as_importance(ArraySource(sp.csr_array((2, 2**21)), y)) is None


def test_rows_are_looked_through_where_two_copies_fit_the_memory():
    source = some_rows(n_rows=20)  # of sixty numbers
    assert as_importance(source, memory=960) is not None
    assert as_importance(source, memory=959) is None
