"""Rows in blocks: every row once, whatever the storage."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from rflaf.rows.blocks import ArraySource, Scratch, StandardisedTargets, array_source

quick = settings(max_examples=60)
seeds = st.integers(0, 2**32 - 1)


def numbered(n_samples: int, block_rows: int = 2048, weighted: bool = True) -> ArraySource:
    """A source in which row i holds i everywhere, so that each row can be told."""
    row = np.arange(n_samples, dtype=float)
    X, y = np.column_stack([row, -row]), np.column_stack([10 * row, row, row + 1])
    return ArraySource(X, y, row + 0.5 if weighted else None, block_rows)


def rows_of(source) -> list[int]:
    return [int(i) for block in source for i in block.X[:, 0]]


# Blocks


@quick
@given(st.integers(0, 200), st.integers(1, 220), st.booleans())
def test_blocks_of_any_size_cover_all_rows_once(n_samples, block_rows, weighted):
    whole = numbered(n_samples, weighted=weighted)
    blocks = list(whole.with_rows(block_rows))
    assert len(blocks) == len(whole.with_rows(block_rows))
    assert all(block.n_rows == block_rows for block in blocks[:-1])
    assert all(0 < block.n_rows <= block_rows for block in blocks)
    assert rows_of(blocks) == list(range(n_samples))
    for block in blocks:
        np.testing.assert_array_equal(block.y, whole.y[block.X[:, 0].astype(int)])
        if weighted:
            np.testing.assert_array_equal(block.weight, block.X[:, 0] + 0.5)
        else:
            assert block.weight is None


@pytest.mark.parametrize("index", [-1, 3, 100])
def test_there_is_no_block_before_the_first_or_after_the_last(index):
    with pytest.raises(IndexError):
        numbered(5, block_rows=2)[index]


def test_cutting_again_keeps_rows_and_sizes():
    source = numbered(7, block_rows=3).with_rows(2)
    assert [block.n_rows for block in source] == [2, 2, 2, 1]
    assert (source.n_samples, source.n_features, source.n_outputs, source.dtype) == (7, 2, 3, np.float64)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("block_rows", [1, 4, 11, 50])
def test_memory_maps_and_sparse_matrices_give_the_blocks_of_the_array(tmp_path, dtype, block_rows):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((33, 4)) * (rng.random((33, 4)) < 0.5)).astype(dtype)
    y = rng.standard_normal((33, 1))
    mapped = np.memmap(tmp_path / "X", dtype, "w+", shape=X.shape)
    mapped[:] = X
    mapped.flush()
    on_disk = np.memmap(tmp_path / "X", dtype, "r", shape=X.shape)
    for other in (on_disk, sp.csr_array(X), sp.csr_matrix(X), sp.csc_array(X), sp.coo_array(X)):
        source = array_source(other, y).with_rows(block_rows)
        assert source.dtype == dtype
        for block, expected in zip(source, ArraySource(X, y, None, block_rows), strict=True):
            dense = block.X.toarray() if sp.issparse(block.X) else block.X
            np.testing.assert_array_equal(dense, expected.X)
            np.testing.assert_array_equal(block.y, expected.y)


def test_a_block_of_a_memory_map_is_a_view_of_it(tmp_path):
    mapped = np.memmap(tmp_path / "X", float, "w+", shape=(10, 2))
    block = array_source(mapped, np.zeros(10)).with_rows(4)[1]
    assert np.shares_memory(block.X, mapped)


def test_arrays_become_a_source_with_targets_in_columns():
    X = np.zeros((4, 2), np.float32)
    source = array_source(X, [1, 2, 3, 4], [1, 1, 2, 2])
    assert source.X is X
    assert (source.y.shape, source.y.dtype) == ((4, 1), np.float64)
    assert source.weight.dtype == np.float32
    assert array_source(X, np.zeros((4, 3))).n_outputs == 3
    assert array_source(X, np.zeros(4)).weight is None


def test_an_entry_stored_twice_counts_as_its_sum_and_the_matrix_passed_is_left_alone():
    twice = sp.csr_array((np.array([1.0, 1.0, 2.0]), np.array([0, 0, 0]), np.array([0, 2, 3])), shape=(2, 1))
    source = array_source(twice, np.zeros(2))
    np.testing.assert_array_equal(source.X.data, [2, 2])
    np.testing.assert_array_equal(twice.data, [1, 1, 2])


# Samples


@quick
@given(st.integers(2, 60), st.data(), seeds)
def test_a_sample_has_distinct_rows_in_their_order(n_samples, data, seed):
    n_rows = data.draw(st.integers(1, n_samples - 1))
    source = numbered(n_samples)
    sample = source.sample(n_rows, np.random.default_rng(seed))
    rows = rows_of(sample)
    assert len(rows) == sample.n_samples == n_rows
    assert rows == sorted(set(rows))
    np.testing.assert_array_equal(sample.y, source.y[rows])
    np.testing.assert_array_equal(sample.weight, source.weight[rows])


@quick
@given(st.integers(2, 60), seeds)
def test_the_same_seed_draws_the_same_sample(n_samples, seed):
    one, other = (numbered(n_samples).sample(n_samples // 2, np.random.default_rng(seed)) for _ in range(2))
    assert rows_of(one) == rows_of(other)


def test_different_seeds_draw_different_samples():
    samples = {tuple(rows_of(numbered(100).sample(10, np.random.default_rng(seed)))) for seed in range(20)}
    assert len(samples) == 20


@pytest.mark.parametrize("n_rows", [9, 10, 10**9])
def test_a_sample_of_all_rows_is_the_source_itself_and_draws_nothing(n_rows):
    source, rng = numbered(9), np.random.default_rng(0)
    assert source.sample(n_rows, rng) is source
    assert rng.random() == np.random.default_rng(0).random()


def test_samples_do_not_depend_on_the_storage_and_live_in_memory(tmp_path):
    X = np.arange(40.0).reshape(20, 2)
    mapped = np.memmap(tmp_path / "X", float, "w+", shape=X.shape)
    mapped[:] = X
    expected = array_source(X, X[:, 0]).sample(6, np.random.default_rng(1))
    for other in (mapped, sp.csr_array(X)):
        sample = array_source(other, X[:, 0]).sample(6, np.random.default_rng(1))
        dense = sample.X.toarray() if sp.issparse(sample.X) else sample.X
        np.testing.assert_array_equal(dense, expected.X)
        assert not np.shares_memory(dense, mapped)


def test_a_sample_keeps_the_block_size():
    assert [block.n_rows for block in numbered(9, block_rows=2).sample(5, np.random.default_rng(0))] == [2, 2, 1]


# Standardised targets


def test_targets_are_centred_and_scaled_and_a_constant_one_is_zero():
    y = np.array([[1.0, 5.0], [3.0, 5.0], [7.0, 5.0]])
    source = ArraySource(np.zeros((3, 1)), y, np.arange(3.0), block_rows=2)
    standard = StandardisedTargets(source, np.array([3.0, 5.0]), np.array([2.0, 0.0]))
    np.testing.assert_array_equal(standard[0].y, [[-1, 0], [0, 0]])
    np.testing.assert_array_equal(standard[1].y, [[2, 0]])
    np.testing.assert_array_equal(standard[1].weight, [2])
    np.testing.assert_array_equal(source[0].y, y[:2])


def test_standardised_targets_take_the_dtype_of_the_inputs_after_the_subtraction():
    """1e9 and 1e9 + 1 are one number in float32."""
    source = array_source(np.zeros((2, 1), np.float32), np.array([1e9, 1e9 + 1]))
    standard = StandardisedTargets(source, np.array([1e9]), np.array([1.0]))
    assert standard[0].y.dtype == np.float32
    np.testing.assert_array_equal(standard[0].y, [[0], [1]])


def test_a_view_with_standardised_targets_is_a_source_like_the_one_below():
    source = numbered(11, block_rows=4)
    standard = StandardisedTargets(source, np.zeros(3), np.ones(3))
    for name in ("n_samples", "n_features", "n_outputs", "dtype"):
        assert getattr(standard, name) == getattr(source, name)
    assert len(standard) == len(source) == 3
    assert rows_of(standard) == list(range(11))
    assert [block.n_rows for block in standard.with_rows(5)] == [5, 5, 1]
    sample = standard.sample(4, np.random.default_rng(2))
    assert rows_of(sample) == rows_of(source.sample(4, np.random.default_rng(2)))
    np.testing.assert_array_equal(sample[0].y[:, 1], rows_of(sample))


# Scratch


def test_scratch_gives_the_same_memory_for_the_same_name():
    scratch = Scratch()
    first = scratch.array("Z", (4, 5), np.float32)
    for shape in ((4, 5), (5, 4), (20,), (2, 3)):
        again = scratch.array("Z", shape, np.float32)
        assert again.shape == shape
        assert again.flags.c_contiguous
        assert np.shares_memory(first, again)
        assert again.__array_interface__["data"] == first.__array_interface__["data"]


def test_scratch_grows_when_asked_for_more_and_then_keeps_the_larger():
    scratch = Scratch()
    small = scratch.array("Z", (2,), float)
    large = scratch.array("Z", (100,), float)
    assert not np.shares_memory(small, large)
    assert np.shares_memory(large, scratch.array("Z", (2,), float))


def test_scratch_of_other_names_dtypes_and_workers_is_other_memory():
    scratch = Scratch()
    arrays = [
        scratch.array("Z", (8,), np.float32),
        scratch.array("Z", (8,), np.float64),
        scratch.array("u", (8,), np.float32),
        Scratch().array("Z", (8,), np.float32),
    ]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])
