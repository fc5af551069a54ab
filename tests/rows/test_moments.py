"""Column moments and ranges form monoids: any cut of the rows, any storage and repeated rows give the same numbers."""

from __future__ import annotations

from copy import deepcopy
from functools import reduce
from itertools import chain, pairwise
from operator import iadd

import numpy as np
import pytest
import scipy.sparse as sp
from data import weighted_columns
from hypothesis import given, settings
from hypothesis import strategies as st

from rflaf.rows.blocks import array_source
from rflaf.rows.executors import ThreadExecutor
from rflaf.rows.moments import ColumnMoments, ColumnRange, TableMoments, measure

quick = settings(max_examples=60)
seeds = st.integers(0, 2**32 - 1)


def assert_same(found: ColumnMoments, expected: ColumnMoments, rtol: float = 1e-11) -> None:
    """To rounding of the largest number that went in: a mean may be small by cancellation."""
    size = np.sqrt(expected.deviation / max(expected.weight, 1e-300)) + np.abs(expected.mean)
    assert found.weight == pytest.approx(expected.weight, rel=rtol)
    np.testing.assert_allclose(found.mean / size, expected.mean / size, rtol=0, atol=rtol)
    tolerance = rtol * size**2 * max(expected.weight, 1e-300)
    assert np.all(np.abs(found.deviation - expected.deviation) <= tolerance)


# What the moments are


@quick
@given(st.integers(1, 50), seeds)
def test_without_weights_they_are_mean_and_standard_deviation(n_rows, seed):
    rows, _ = weighted_columns(n_rows, seed)
    moments = ColumnMoments.from_rows(rows, None)
    assert moments.weight == n_rows
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0), rtol=0, atol=1e-12)
    np.testing.assert_allclose(moments.scale, rows.std(axis=0), rtol=1e-9, atol=1e-14)


def test_moments_of_a_small_table_are_exact():
    moments = ColumnMoments.from_rows(np.array([[1.0, 4.0], [3.0, 4.0]]), np.array([3.0, 1.0]))
    assert moments.weight == 4
    np.testing.assert_array_equal(moments.mean, [1.5, 4])
    np.testing.assert_array_equal(moments.deviation, [3, 0])
    np.testing.assert_array_equal(moments.scale, [np.sqrt(0.75), 0])


@quick
@given(st.lists(st.integers(0, 5), min_size=1, max_size=20).filter(any), seeds)
def test_whole_weights_equal_repeated_rows(counts, seed):
    rows, _ = weighted_columns(len(counts), seed)
    weighted = ColumnMoments.from_rows(rows, np.array(counts, float))
    assert_same(weighted, ColumnMoments.from_rows(np.repeat(rows, counts, axis=0), None))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_run_in_double_precision(dtype):
    rows = np.full((2000, 1), 2**24, dtype)
    rows[::2] -= 1
    moments = ColumnMoments.from_rows(rows, np.ones(2000, dtype))
    np.testing.assert_array_equal(moments.mean, 2**24 - 0.5)
    np.testing.assert_array_equal(moments.scale, 0.5)


# Merging


@quick
@given(st.integers(1, 60), st.lists(st.integers(0, 60), max_size=6), st.booleans(), seeds)
def test_any_cut_of_the_rows_merges_to_the_whole(n_rows, cuts, weighted, seed):
    rows, weight = weighted_columns(n_rows, seed)
    weight = weight + 1e-3 if weighted else None
    whole = ColumnMoments.from_rows(rows, weight)
    ends = [0, *sorted(min(cut, n_rows) for cut in cuts), n_rows]
    parts = [ColumnMoments.from_rows(rows[i:j], None if weight is None else weight[i:j]) for i, j in pairwise(ends)]
    assert_same(reduce(iadd, parts), whole)


@quick
@given(st.integers(1, 20), st.integers(1, 20), seeds)
def test_merging_does_not_depend_on_the_order(n_first, n_second, seed):
    rows, _ = weighted_columns(n_first + n_second, seed)
    one, other = ColumnMoments.from_rows(rows[:n_first], None), ColumnMoments.from_rows(rows[n_first:], None)
    turned = deepcopy(other)
    turned += one
    one += other
    assert_same(one, turned)


@pytest.mark.parametrize("n_empty", [0, 4])
def test_a_block_without_weight_changes_nothing_on_either_side(n_empty):
    rows, weight = weighted_columns(9, 0)
    whole = ColumnMoments.from_rows(rows, weight)
    nothing = ColumnMoments.from_rows(np.full((n_empty, 3), 1e6), np.zeros(n_empty))
    for first, second in ((whole, nothing), (nothing, whole), (nothing, nothing)):
        merged = deepcopy(first)
        merged += second
        expected = nothing if first is second else whole
        assert merged.weight == expected.weight
        np.testing.assert_array_equal(merged.mean, expected.mean)
        np.testing.assert_array_equal(merged.deviation, expected.deviation)


# Digits


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_large_mean_and_a_small_spread_keep_their_digits(make, weighted):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        noise = np.round(rng.standard_normal((1200 + 11 * seed, 1)) * 2**20) / 2**20  # 1e9 + noise is exact
        weight = rng.random(len(noise)) if weighted else None
        near_zero = ColumnMoments.from_rows(noise, weight)
        far = ColumnMoments.from_rows(make(noise + 1e9), weight)
        np.testing.assert_allclose(far.mean - 1e9, near_zero.mean, rtol=0, atol=1e-6)
        np.testing.assert_allclose(far.scale, near_zero.scale, rtol=1e-6)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_a_large_mean_and_a_small_spread_keep_their_digits_over_blocks(make):
    rng = np.random.default_rng(0)
    noise = np.round(rng.standard_normal((3000, 1)) * 2**20) / 2**20
    parts = [ColumnMoments.from_rows(make(noise[i : i + 500] + 1e9), None) for i in range(0, 3000, 500)]
    np.testing.assert_allclose(reduce(iadd, parts).scale, noise.std(axis=0), rtol=1e-6)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("n_rows", [1, 2, 3, 100, 2048])
@pytest.mark.parametrize("weighted", [False, True])
def test_constant_columns_have_exactly_zero_scale(make, n_rows, weighted):
    rng = np.random.default_rng(n_rows)
    values = np.concatenate([[0.0, 0.1, -0.1, 1 / 3, 1e9, 1e-9, np.pi], rng.standard_normal(100)])
    weight = rng.random(n_rows) + 0.01 if weighted else None
    moments = ColumnMoments.from_rows(make(np.tile(values, (n_rows, 1))), weight)
    np.testing.assert_array_equal(moments.scale, 0)
    moments += ColumnMoments.from_rows(make(np.tile(values, (n_rows + 7, 1))), None)
    np.testing.assert_array_equal(moments.scale, 0)
    np.testing.assert_allclose(moments.mean, values, rtol=1e-14)


def test_a_column_that_varies_a_little_is_not_constant():
    rows = 1.0 + np.array([[0.0], [1e-12]])
    np.testing.assert_allclose(ColumnMoments.from_rows(rows, None).scale, 5e-13, rtol=1e-3)


# Storage


@quick
@given(st.integers(1, 40), st.floats(0, 1), st.booleans(), seeds)
def test_sparse_rows_have_the_moments_of_dense_rows(n_rows, share, weighted, seed):
    rows, weight = weighted_columns(n_rows, seed)
    rows[np.random.default_rng(seed).random(rows.shape) < share] = 0
    weight = weight + 1e-3 if weighted else None
    dense, sparse = ColumnMoments.from_rows(rows, weight), ColumnMoments.from_rows(sp.csr_array(rows), weight)
    np.testing.assert_allclose(sparse.mean, dense.mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(sparse.deviation, dense.deviation, rtol=0, atol=1e-9)


def test_explicit_zeros_count_as_zeros():
    explicit = sp.csr_array((np.array([0.0, 2.0]), np.array([0, 0]), np.array([0, 1, 2, 2])), shape=(3, 1))
    dense = ColumnMoments.from_rows(explicit.toarray(), None)
    sparse = ColumnMoments.from_rows(explicit, None)
    np.testing.assert_allclose(sparse.mean, dense.mean, rtol=1e-15)
    np.testing.assert_allclose(sparse.deviation, dense.deviation, rtol=1e-15)


def test_an_entry_stored_twice_counts_as_its_sum():
    twice = sp.csr_array((np.array([1.0, 1.0, 2.0]), np.array([0, 0, 0]), np.array([0, 2, 3])), shape=(2, 1))
    with ThreadExecutor() as executor:
        moments = measure(array_source(twice, np.zeros(2)), executor).X
    np.testing.assert_array_equal(moments.mean, 2)
    np.testing.assert_array_equal(moments.deviation, 0)


# Lowest and highest values, and whether there are others


def few_values(n_rows: int, seed: int) -> np.ndarray:
    """Columns of one, two, three and four values on either side of zero, in which zero has every place."""
    rng = np.random.default_rng(seed)
    few = ([0], [7], [-3], [0, 1], [-2, 0], [2, 5], [-4, -1], [-1, 1])
    more = ([0, 1, 2], [-1, 0, 1], [-2, -1, 0], [1, 2, 3], [-2, -1, 1, 2])
    return np.column_stack([rng.choice(values, n_rows) for values in (*few, *more)]).astype(float)


def with_explicit_zeros(rows: np.ndarray, share: float, seed: int) -> sp.csr_array:
    """CSR rows that store some of their zeros."""
    stored = (rows != 0) | (np.random.default_rng(seed).random(rows.shape) < share)
    start = np.concatenate([[0], np.cumsum(stored.sum(axis=1))])
    return sp.csr_array((rows[stored], np.nonzero(stored)[1], start), shape=rows.shape)


def range_by_hand(rows: np.ndarray, weight: np.ndarray | None = None) -> ColumnRange:
    """From the set of the values of every column."""
    values = [set(column.tolist()) for column in (rows if weight is None else rows[weight > 0]).T]
    return ColumnRange(
        np.array([min(column, default=np.inf) for column in values]),
        np.array([max(column, default=-np.inf) for column in values]),
        np.array([len(column) <= 2 for column in values]),
    )


def assert_same_range(found: ColumnRange, expected: ColumnRange) -> None:
    np.testing.assert_array_equal(found.low, expected.low)
    np.testing.assert_array_equal(found.high, expected.high)
    np.testing.assert_array_equal(found.two, expected.two)


storages = st.sampled_from(["dense", "sparse", "explicit zeros", "all stored"])


def stored_as(storage: str, rows: np.ndarray, seed: int = 0):
    if storage == "dense":
        return rows
    return with_explicit_zeros(rows, {"sparse": 0.0, "explicit zeros": 0.5, "all stored": 1.0}[storage], seed)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", ["dense", "sparse", "explicit zeros", "all stored"])
@pytest.mark.parametrize(
    ("column", "low", "high", "two"),
    [
        ([0, 1, 1, 0], 0, 1, True),
        ([2, 5, 2, 5], 2, 5, True),
        ([-2, 0, 0, -2], -2, 0, True),
        ([-1, 1, 1, -1], -1, 1, True),
        ([-1, 1, 0, -1], -1, 1, False),
        ([0, 1, 2, 0], 0, 2, False),
        ([0.1, 0.2, 0.3, 0.1], 0.1, 0.3, False),
        ([0, 0, 0, 0], 0, 0, True),
        ([7, 7, 7, 7], 7, 7, True),
        ([-7, -7, -7, -7], -7, -7, True),
        ([0, 7, 7, 7], 0, 7, True),
        ([-7, -7, -7, 0], -7, 0, True),
    ],
)
def test_the_range_of_a_column_and_whether_it_has_other_values(column, low, high, two, storage, dtype):
    rows = np.array(column, dtype)[:, None]
    found = ColumnRange.from_rows(stored_as(storage, np.hstack([rows, 1 - rows])), None)
    assert (found.low[0], found.high[0], found.two[0]) == (dtype(low), dtype(high), two)
    assert (found.low[1], found.high[1]) == (1 - dtype(high), 1 - dtype(low))


@quick
@given(st.integers(1, 30), st.booleans(), storages, seeds)
def test_a_range_is_that_of_the_set_of_values(n_rows, weighted, storage, seed):
    rows = few_values(n_rows, seed)
    weight = np.random.default_rng(seed).integers(0, 3, n_rows).astype(float) if weighted else None
    assert_same_range(ColumnRange.from_rows(stored_as(storage, rows, seed), weight), range_by_hand(rows, weight))


@quick
@given(st.integers(1, 30), st.lists(st.integers(0, 30), max_size=8), st.booleans(), storages, storages, seeds)
def test_the_ranges_of_any_partition_merge_to_that_of_the_whole(n_rows, cuts, weighted, one, other, seed):
    rng = np.random.default_rng(seed)
    rows = few_values(n_rows, seed)[rng.permutation(n_rows)]
    weight = rng.integers(0, 2, n_rows).astype(float) if weighted else None
    ends = [0, *sorted(min(cut, n_rows) for cut in cuts), n_rows]
    parts = [
        ColumnRange.from_rows(
            stored_as(one if k % 2 else other, rows[i:j], seed), None if weight is None else weight[i:j]
        )
        for k, (i, j) in enumerate(pairwise(ends))
    ]
    parts = [parts[k] for k in rng.permutation(len(parts))]
    assert_same_range(reduce(iadd, parts), range_by_hand(rows, weight))


@quick
@given(st.lists(st.lists(st.sampled_from([-1.0, 0.0, 1.0, 2.0]), max_size=3), min_size=1, max_size=6))
def test_every_way_to_part_a_few_values_merges_to_the_whole(parts):
    ranges = [ColumnRange.from_rows(np.reshape(part, (-1, 1)), None) for part in parts]
    whole = range_by_hand(np.reshape([*chain(*parts)], (-1, 1)))
    assert_same_range(reduce(iadd, deepcopy(ranges)), whole)
    tree = deepcopy(ranges)
    while len(tree) > 1:  # pairs of neighbours, and pairs of these
        tree = [reduce(iadd, tree[i : i + 2]) for i in range(0, len(tree), 2)]
    assert_same_range(tree[0], whole)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("n_empty", [0, 4])
def test_rows_without_weight_do_not_move_a_range(make, n_empty):
    rows = few_values(20, 0)
    whole = ColumnRange.from_rows(make(rows), None)
    nothing = ColumnRange.from_rows(make(np.full((n_empty, rows.shape[1]), 1e6)), np.zeros(n_empty))
    for first, second in ((whole, nothing), (nothing, whole)):
        merged = deepcopy(first)
        merged += second
        assert_same_range(merged, whole)
    spoilt = np.vstack([rows, np.full((3, rows.shape[1]), 1e6), rows[:1] + 0.5])
    weight = np.concatenate([np.full(20, 0.3), np.zeros(4)])
    assert_same_range(ColumnRange.from_rows(make(spoilt), weight), whole)


def test_two_constants_that_differ_merge_to_two_values_and_a_third_ends_that():
    merged = ColumnRange.from_rows(np.full((3, 1), 4.0), None)
    for value, two in ((4.0, True), (-1.0, True), (4.0, True), (2.0, False), (-1.0, False)):
        merged += ColumnRange.from_rows(np.full((2, 1), value), None)
        assert bool(merged.two[0]) is two
    assert (merged.low[0], merged.high[0]) == (-1, 4)


# The scale of the inputs


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_only_a_column_of_exactly_two_values_is_scaled_by_their_distance(dtype):
    X = np.array([[0, 0, 5, 2], [0, 1, 5, 8], [3, 2, 5, 2]], dtype)
    deviation = np.array([0.3, 0.5, 0.0, 0.0])  # as measured; the last column is constant to rounding
    moments = TableMoments(
        ColumnMoments(4.0, X.mean(axis=0, dtype=float), 4 * deviation**2),
        ColumnMoments.from_rows(np.zeros((3, 1)), None),
        ColumnRange.from_rows(X, None),
        3,
    )
    np.testing.assert_allclose(moments.scale, [3, 0.5, 0, 0], rtol=1e-15)


def scale_of(X, weight: np.ndarray | None = None, block_rows: int = 1000) -> np.ndarray:
    with ThreadExecutor(1) as executor:
        return measure(array_source(X, np.zeros(X.shape[0]), weight).with_rows(block_rows), executor).scale


@quick
@given(st.integers(1, 40), st.integers(1, 12), st.booleans(), storages, seeds)
def test_the_scale_is_the_distance_of_two_values_and_else_the_deviation(n_rows, block_rows, weighted, storage, seed):
    rows = few_values(n_rows, seed)
    weight = np.random.default_rng(seed).integers(0, 3, n_rows).astype(float) if weighted else np.ones(n_rows)
    weight[0] = 1.0
    expected = []
    for column in rows.T:
        used, w = column[weight > 0], weight[weight > 0]
        deviation = np.sqrt(np.average((used - np.average(used, weights=w)) ** 2, weights=w))
        expected.append(np.ptp(used) if len(set(used)) <= 2 else deviation)
    found = scale_of(stored_as(storage, rows, seed), weight if weighted else None, block_rows)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_rare_indicator_is_scaled_by_one_however_rare_it_is(make, dtype):
    X = np.zeros((5000, 3), dtype)
    X[0, 0], X[::2, 1], X[:, 2] = 1, 1, np.arange(5000) % 3
    found = scale_of(make(X), block_rows=700)
    np.testing.assert_array_equal(found[:2], 1)
    assert found[2] == pytest.approx(X[:, 2].std(dtype=float), rel=1e-12)


def test_two_values_of_float32_that_lie_far_from_zero_have_their_distance_in_double_precision():
    low, high = np.float32(1 / 3), np.float32(-1e7)
    X = np.tile(np.array([low, high])[:, None], (10, 1))
    np.testing.assert_array_equal(scale_of(X), float(low) - float(high))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_a_column_constant_to_rounding_has_scale_zero_though_it_has_two_values(make):
    X = np.repeat([[1e9, 1.0], [np.nextafter(1e9, 2e9), 2.0]], 5, axis=0)
    np.testing.assert_array_equal(scale_of(make(X)), [0, 1])


# Measuring a source


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("n_workers", [1, 3])
@pytest.mark.parametrize("block_rows", [7, 64, 1000])
def test_measuring_in_blocks_equals_measuring_at_once(make, n_workers, block_rows):
    rows, weight = weighted_columns(200, 5)
    weight[:14] = 0  # the first blocks carry nothing
    y = rows @ np.array([[1.0, 0.0], [2.0, 1.0], [0.0, 1.0]])
    with ThreadExecutor(n_workers) as executor:
        moments = measure(array_source(make(rows), y, weight).with_rows(block_rows), executor)
    assert_same(moments.X, ColumnMoments.from_rows(rows, weight))
    assert_same(moments.y, ColumnMoments.from_rows(y, weight))
    assert_same_range(moments.range, range_by_hand(rows, weight))
    assert moments.n_used == np.count_nonzero(weight)


@settings(quick, derandomize=True)  # a number may lie on the edge of rounding, if rarely
@given(seeds, st.lists(st.integers(1, 199), min_size=1, max_size=5, unique=True).map(sorted))
def test_settled_moments_do_not_depend_on_the_cut_and_keep_nine_digits(seed, cuts):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(200, 3)) * [1.0, 1e-6, 1e8] + [10.0, 0.0, 1.0]
    weight = rng.uniform(0.1, 2, 200)

    def measured(parts):
        total = ColumnMoments.from_rows(rows[parts[0]], weight[parts[0]])
        for part in parts[1:]:
            total += ColumnMoments.from_rows(rows[part], weight[part])
        return total

    whole, cut = measured([np.arange(200)]), measured(np.split(np.arange(200), cuts))
    one, other = whole.settled(), cut.settled()
    assert one.weight == other.weight
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.scale, other.scale)
    np.testing.assert_allclose(whole.settled().scale, whole.scale, rtol=1e-9)
    assert (np.abs(whole.settled().mean - whole.mean) < 1e-9 * whole.scale).all()


def test_a_constant_column_keeps_its_value_when_it_is_settled():
    moments = ColumnMoments.from_rows(np.full((7, 1), 0.1), None).settled()
    assert moments.mean[0] == 0.1
    assert moments.scale[0] == 0
