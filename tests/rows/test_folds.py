"""Folds by content: the same for any order, partition and storage of the rows, and about even."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from data import columns_with_zeros
from hypothesis import given, settings
from hypothesis import strategies as st

from rflaf.rows.folds import folds_of
from rflaf.rows.moments import shortened

MOST = 30.0  # of chi-square with four degrees of freedom: exceeded once in 200,000
seeds = st.integers(0, 2**32 - 1)
n_folds_each = st.sampled_from([2, 3, 5, 10])


@st.composite
def tables(draw):
    return columns_with_zeros(draw(st.integers(1, 60)), draw(st.integers(1, 8)), draw(seeds))


def unevenness(folds, n_folds: int = 5) -> float:
    """Chi-square of the sizes of the folds."""
    sizes = np.bincount(folds.astype(int), minlength=n_folds)
    expected = len(folds) / n_folds
    return float(np.sum((sizes - expected) ** 2) / expected)


def sparse_with_stored_zeros(X: np.ndarray, seed: int) -> sp.csr_array:
    """CSR with every other zero stored as well."""
    stored = (X != 0) | (np.random.default_rng(seed).random(X.shape) < 0.5)
    indptr = np.concatenate([[0], np.cumsum(stored.sum(axis=1))])
    return sp.csr_array((X[stored], np.nonzero(stored)[1], indptr), shape=X.shape)


# The same folds however the rows come


@settings(max_examples=60)
@given(tables(), n_folds_each)
def test_folds_are_numbers_below_their_count(X, n_folds):
    folds = folds_of(X, n_folds)
    assert folds.shape == (len(X),)
    assert np.all((folds >= 0) & (folds < n_folds))
    np.testing.assert_array_equal(folds, folds_of(X.copy(), n_folds))


@settings(max_examples=60)
@given(tables(), n_folds_each, seeds)
def test_the_order_of_the_rows_does_not_matter(X, n_folds, seed):
    order = np.random.default_rng(seed).permutation(len(X))
    np.testing.assert_array_equal(folds_of(X[order], n_folds), folds_of(X, n_folds)[order])


@settings(max_examples=60)
@given(tables(), n_folds_each, st.sets(st.integers(1, 59), max_size=6))
def test_any_partition_into_blocks_gives_the_same_folds(X, n_folds, cuts):
    parts = np.split(X, sorted(cut for cut in cuts if cut < len(X)))
    np.testing.assert_array_equal(np.concatenate([folds_of(part, n_folds) for part in parts]), folds_of(X, n_folds))


@settings(max_examples=60)
@given(tables(), n_folds_each, seeds)
def test_sparse_rows_are_in_the_folds_of_dense_ones(X, n_folds, seed):
    expected = folds_of(X, n_folds)
    np.testing.assert_array_equal(folds_of(sp.csr_array(X), n_folds), expected)
    np.testing.assert_array_equal(folds_of(sp.csr_matrix(X), n_folds), expected)
    stored = sparse_with_stored_zeros(X, seed)
    np.testing.assert_array_equal(folds_of(stored, n_folds), expected)
    half = len(X) // 2
    np.testing.assert_array_equal(folds_of(stored[half:], n_folds), expected[half:])


@settings(max_examples=40)
@given(tables(), n_folds_each)
def test_the_layout_of_the_memory_does_not_matter(X, n_folds):
    expected = folds_of(X, n_folds)
    np.testing.assert_array_equal(folds_of(np.asfortranarray(X), n_folds), expected)
    wide = np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)
    np.testing.assert_array_equal(folds_of(wide[::2, ::2], n_folds), expected)


@settings(max_examples=40)
@given(tables(), n_folds_each)
def test_single_precision_is_in_the_folds_of_the_same_numbers(X, n_folds):
    X = X.astype(np.float32)
    expected = folds_of(X.astype(np.float64), n_folds)
    np.testing.assert_array_equal(folds_of(X, n_folds), expected)
    np.testing.assert_array_equal(folds_of(sp.csr_array(X), n_folds), expected)


def test_whole_numbers_are_in_the_folds_of_the_same_reals():
    X = np.random.default_rng(0).integers(-5, 200, (50, 4))
    np.testing.assert_array_equal(folds_of(X, 5), folds_of(X.astype(float), 5))


def test_zero_has_no_sign():
    X = columns_with_zeros(60, 4, 0)
    signed = np.where(X == 0, -0.0, X)
    assert np.signbit(signed[X == 0]).all()
    np.testing.assert_array_equal(folds_of(signed, 5), folds_of(X, 5))
    np.testing.assert_array_equal(folds_of(sparse_with_stored_zeros(signed, 0), 5), folds_of(X, 5))


@settings(max_examples=40)
@given(tables(), n_folds_each, seeds)
def test_equal_rows_are_in_the_same_fold(X, n_folds, seed):
    copies = np.random.default_rng(seed).integers(0, 4, len(X))
    repeated = folds_of(np.repeat(X, copies, axis=0), n_folds)
    np.testing.assert_array_equal(repeated, np.repeat(folds_of(X, n_folds), copies))


def test_rows_of_zeros_have_a_fold():
    assert len(set(folds_of(np.zeros((7, 3)), 5))) == 1
    np.testing.assert_array_equal(folds_of(sp.csr_array((7, 3)), 5), folds_of(np.zeros((7, 3)), 5))


def test_the_input_is_left_alone():
    X = columns_with_zeros(20, 3, 0)
    sparse, before = sp.csr_array(X), X.copy()
    folds_of(X, 5), folds_of(sparse, 5)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(sparse.toarray(), before)


# About even


@pytest.mark.parametrize("n_features", [1, 2, 30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_random_rows_are_spread_evenly(n_features, dtype):
    X = np.random.default_rng(n_features).standard_normal((4000, n_features)).astype(dtype)
    assert unevenness(folds_of(X, 5)) < MOST


@pytest.mark.parametrize("unit", [1.0, 10.0, 256.0, 0.1, 0.25, -1.0])
def test_a_column_of_whole_numbers_is_spread_evenly(unit):
    k = unit * np.arange(1, 4001.0)
    assert unevenness(folds_of(k[:, None], 5)) < MOST
    assert unevenness(folds_of(np.column_stack([np.ones(4000), k]), 5)) < MOST
    assert unevenness(folds_of(1e6 + k[:, None], 5)) < MOST


def test_grids_and_pixels_are_spread_evenly():
    grid = np.stack(np.meshgrid(np.arange(60.0), np.arange(60.0)), axis=-1).reshape(-1, 2)
    assert unevenness(folds_of(grid, 5)) < MOST
    pixels = np.random.default_rng(0).integers(0, 256, (4000, 64)).astype(float)
    assert unevenness(folds_of(pixels, 5)) < MOST


@pytest.mark.parametrize("factors", [(1, 2), (1, -1), (1, 1), (1, 3, 10), (1, 0.5, 0.25, 0.125)])
def test_columns_that_are_multiples_of_each_other_are_spread_evenly(factors):
    for x in (np.random.default_rng(0).standard_normal(4000), np.arange(1, 4001.0)):
        assert unevenness(folds_of(np.outer(x, factors), 5)) < MOST


@pytest.mark.parametrize("value", [1.0, 3.0, 0.5, 255.0, 2.0, 4.0, -2.0])
def test_rows_with_a_single_entry_are_spread_evenly(value):
    """Powers of two have few bits set, 2.0 a single one: products with odd numbers would leave them in their place."""
    assert unevenness(folds_of(value * np.eye(1000), 5)) < MOST
    assert unevenness(folds_of(sp.csr_array(value * sp.eye_array(3000)), 5)) < MOST


def one_hot(*digits) -> np.ndarray:
    """Every column of digits as zeros and a one, side by side."""
    return np.hstack([np.eye(int(digit.max()) + 1)[digit] for digit in digits])


def test_several_categories_are_spread_evenly():
    """Sums of the hashes of ones: they must differ in all their bits."""
    i = np.arange(2500)
    assert unevenness(folds_of(one_hot(i // 50, i % 50), 5)) < MOST
    i = np.arange(8000)
    assert unevenness(folds_of(one_hot(i // 400, i // 20 % 20, i % 20), 5)) < MOST


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_columns_of_two_values_are_spread_evenly(low):
    bits = (np.arange(4096)[:, None] >> np.arange(12)) & 1
    assert unevenness(folds_of(np.where(bits, 1.0, low), 5)) < MOST
    four = (np.arange(4096)[:, None] >> (2 * np.arange(6))) & 3
    assert unevenness(folds_of(four.astype(float), 5)) < MOST


@pytest.mark.parametrize("n_folds", [2, 3, 10])
def test_any_number_of_folds_is_spread_evenly(n_folds):
    rng = np.random.default_rng(0)
    for X in (rng.standard_normal((4000, 3)), np.arange(1, 4001.0)[:, None], np.eye(1000)):
        assert unevenness(folds_of(X, n_folds), n_folds) < MOST + n_folds


def test_columns_matter():
    """A row and the same numbers in other columns are not bound to the same fold."""
    X = np.random.default_rng(0).standard_normal((1000, 3))
    together = np.mean(folds_of(X, 5) == folds_of(X[:, ::-1], 5))
    assert together == pytest.approx(0.2, abs=0.06)


@pytest.mark.parametrize("unit", [1024.0, 1e3, 1 / 3, 1e-140])
@pytest.mark.parametrize("heavy", [False, True])
def test_units_move_no_row_to_another_fold(unit, heavy):
    rng = np.random.default_rng(0)
    X = rng.standard_cauchy((2000, 3)) if heavy else rng.standard_normal((2000, 3))
    X[:, 2] = X[:, 2] > 0  # few values
    scale = X.std(axis=0)
    folds = folds_of(X, 5, scale)
    assert np.bincount(folds.astype(int)).min() > 300
    assert np.array_equal(folds_of(X * unit, 5, scale * unit), folds)
    assert np.array_equal(folds_of(sp.csr_array(X), 5, scale), folds)
    assert np.mean(folds_of(X.astype(np.float32), 5, scale) == folds) > 0.99
    assert np.array_equal(folds_of(np.full((4, 1), 7.0), 5, np.zeros(1)), folds_of(np.full((4, 1), 7.0), 5))


def hashed(row):
    """The 64 bits of a row, by Python's whole numbers."""
    mask = 2**64 - 1

    def stir(bits):
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            bits = (bits ^ bits >> shift) * factor & mask
        return bits ^ bits >> 31

    bits = [int(np.float64(x).view(np.uint64)) for x in row]
    parts = [stir(stir(one) + at * 0x9E3779B97F4A7C15 & mask) for at, one in enumerate(bits) if one << 1 & mask]
    return stir(sum(parts) & mask)


def test_folds_are_those_of_the_formula_bit_for_bit():
    X = np.random.default_rng(0).standard_normal((60, 4))
    X[::3, 1], X[::4, 0], X[5] = 0.0, -0.0, 0.0
    for n_folds in (2, 5, 10):
        np.testing.assert_array_equal(folds_of(X, n_folds), [(hashed(row) >> 33) % n_folds for row in X])
    scale = np.array([2.0, 0.0, 3.0, 1e-3])
    short = shortened(X / np.where(scale > 0, scale, 1.0), 12)
    np.testing.assert_array_equal(folds_of(X, 5, scale), [(hashed(row) >> 33) % 5 for row in short])
