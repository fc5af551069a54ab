"""The compiled loops against their NumPy twins, on data whose answers are exact, and the feature maps built on them.

Most tables here are *exact*: coefficients are binary fractions, neighbouring cells meet, and the last cell is
flat, so that neither the side a border is counted to nor the clipping on the right costs a digit. With
cell coordinates in eighths every result is then a binary fraction, and compiled and plain loops must agree bit for bit.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.caching import NullCache
from reference_features import (
    activate_reference,
    contract_reference,
    expand_reference,
    predict_reference,
    scatter_reference,
)

import rflaf
from rflaf.functions._kernels import curves as _curve_kernels
from rflaf.functions._kernels import features as _kernels
from rflaf.functions._kernels import shapes as _shapes
from rflaf.functions.bases import BSplineBasis, Pieces, RBFBasis
from rflaf.functions.densities import Directions
from rflaf.model.features import FeatureMap, compile_map, pack
from rflaf.rows.blocks import Block, Scratch

KERNELS = (
    _kernels.activate, _kernels.scatter, _kernels.contract, _kernels.project, _kernels.predict, _kernels.expand,
    _curve_kernels.predict_sparse,
)  # fmt: skip
N_ROWS = (1, 3, 7, 8, 9, 31, 2048)  # below, at and above one vector, and a whole block
N_CELLS = (1, 2, 3, 16, 1201)
FAR = (-1e9, -3e4, 3e4, 1e9, -np.inf, np.inf)

quick = settings(max_examples=40)
each_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])
each_row_count = pytest.mark.parametrize("n_rows", N_ROWS)
each_cell_count = pytest.mark.parametrize("n_cells", N_CELLS)
dtypes = st.sampled_from([np.float32, np.float64])
seeds = st.integers(0, 2**32 - 1)


def exact_table(n_tables: int, n_cells: int, dtype, rng: np.random.Generator) -> np.ndarray:
    """Random cubics in quarters that meet at every border; the last cell is flat."""
    nodes = 2.0 * rng.integers(-3, 4, (n_tables, n_cells + 1))
    nodes[:, -1] = nodes[:, -2]
    bend, twist = rng.integers(-4, 5, (2, n_tables, n_cells))
    bend[:, -1] = twist[:, -1] = 0
    left, right = nodes[:, :-1], nodes[:, 1:]
    return np.stack([(left + right) / 2 - bend / 4, right - left - twist / 4, bend, twist], axis=-1).astype(dtype)


def spline_table(n_tables: int, n_cells: int, dtype, rng: np.random.Generator) -> np.ndarray:
    """Cubic splines, with a slope at either end."""
    return BSplineBasis(n_cells + 3).pieces().table(rng.standard_normal((n_tables, n_cells + 3))).astype(dtype)


def eighths(shape: tuple[int, ...], n_cells: int, dtype, rng: np.random.Generator) -> np.ndarray:
    """Cell coordinates in eighths, borders included, from two cells before the first to two after the last."""
    return (rng.integers(-8 * 2, 8 * (n_cells + 2), shape) / 8).astype(dtype)


def activate(u: np.ndarray, table: np.ndarray) -> np.ndarray:
    out = np.full_like(u, np.nan)
    _kernels.activate(u, table, out)
    return out


def scatter(u: np.ndarray, e: np.ndarray, n_tables: int, n_cells: int) -> np.ndarray:
    sums = np.zeros((n_tables, n_cells, 4))
    _kernels.scatter(u, np.eye(len(u), dtype=u.dtype), e, sums)
    return sums


def contract(u: np.ndarray, weights: np.ndarray, pieces: Pieces) -> np.ndarray:
    """Contraction with one dead cell behind the last: a look beyond the end does no harm, but it finds nothing."""
    n_cells, n_basis, _ = pieces.coefficients.shape
    first, last = (np.append(ends, 0) for ends in pieces.alive())
    coefficients = np.concatenate([pieces.coefficients, np.zeros((1, n_basis, 4))]).astype(u.dtype)
    out = np.zeros((n_basis, u.shape[1]), u.dtype)
    _kernels.contract(u, weights.astype(u.dtype), coefficients[:n_cells], first[:n_cells], last[:n_cells], out)
    return out


def exact_map(n_features: int, n_components: int, n_tables: int, n_cells: int, dtype, rng) -> FeatureMap:
    """Directions in eighths, of which few are not zero, so that projections are exact and often on a border."""
    W = rng.integers(-4, 5, (n_features, n_components)) / 8 * (rng.random((n_features, n_components)) < 0.5)
    offset = rng.integers(-4, 4 * n_cells + 4, n_components) / 4
    return FeatureMap(W.astype(dtype), offset.astype(dtype), exact_table(n_tables, n_cells, dtype, rng))


def exact_model(n_features: int, n_components: int, n_tables: int, n_cells: int, n_outputs: int, dtype, seed: int):
    rng = np.random.default_rng(seed)
    feature_map = exact_map(n_features, n_components, n_tables, n_cells, dtype, rng)
    v = rng.integers(-2, 3, (n_components, n_outputs)).astype(dtype)
    return feature_map, v, rng.integers(-9, 10, n_outputs).astype(dtype)


def whole_numbers(n_rows: int, n_features: int, dtype, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, (n_rows, n_features)).astype(dtype)


def predict(feature_map: FeatureMap, v, intercept, X, start: int = 0, stop: int | None = None) -> np.ndarray:
    out = np.full((X.shape[0], v.shape[1]), np.nan, X.dtype)
    pack(feature_map, v, intercept).predict(X, out, start, X.shape[0] if stop is None else stop)
    return out


# Looking up


@each_dtype
@each_cell_count
@each_row_count
def test_activation_equals_its_reference_exactly(dtype, n_cells, n_rows):
    rng = np.random.default_rng(n_rows)
    u = eighths((5, n_rows), n_cells, dtype, rng)
    for n_tables in (1, 5):
        table = exact_table(n_tables, n_cells, dtype, rng)
        np.testing.assert_array_equal(activate(u, table), activate_reference(u, table))


@each_dtype
@each_cell_count
def test_every_cell_has_its_own_polynomial(dtype, n_cells):
    """A table without continuity, looked up strictly inside its cells: a wrong cell cannot hide."""
    rng = np.random.default_rng(n_cells)
    table = rng.integers(-8, 9, (3, n_cells, 4)).astype(dtype)
    k = np.tile(np.arange(n_cells), (3, 3))
    t = rng.integers(-3, 4, k.shape) / 8
    expected = sum(np.take_along_axis(table[..., p], k, axis=1) * t**p for p in range(4))
    np.testing.assert_array_equal(activate((k + t).astype(dtype), table), expected)


@each_dtype
@each_cell_count
def test_far_outside_the_activation_is_the_value_at_the_end(dtype, n_cells):
    table = spline_table(2, n_cells, dtype, np.random.default_rng(n_cells))
    u = np.tile(np.array([*FAR, -0.5, n_cells - 0.5], dtype), (2, 1))
    powers = 0.5 ** np.arange(4)
    ends = np.stack([table[:, 0] @ (powers * [1, -1, 1, -1]), table[:, -1] @ powers], axis=1)
    expected = ends[:, (u[0] > 0).astype(int)]
    steepest = np.abs(table[..., 1]) + np.abs(table[..., 2]) + 0.75 * np.abs(table[..., 3])
    clipped = np.spacing(dtype(n_cells)) * steepest.max()  # the right end is the last number below it
    rounding = 8 * np.finfo(dtype).eps * np.abs(table).sum(axis=-1).max()
    np.testing.assert_allclose(activate(u, table), expected, rtol=0, atol=clipped + rounding)


@each_dtype
@each_cell_count
def test_on_the_borders_of_cells_the_two_pieces_agree(dtype, n_cells):
    table = exact_table(4, n_cells, dtype, np.random.default_rng(n_cells))
    borders = np.arange(-0.5, n_cells).astype(dtype)
    nodes = np.column_stack([table @ (0.5 ** np.arange(4) * [1, -1, 1, -1]), table[:, -1, 0]])
    np.testing.assert_array_equal(activate(np.tile(borders, (4, 1)), table), nodes)


@quick
@given(dtypes, st.integers(1, 40), st.integers(1, 5), st.integers(1, 70), st.booleans(), seeds)
def test_activation_of_a_spline_equals_its_reference_to_rounding(dtype, n_cells, n_components, n_rows, shared, seed):
    rng = np.random.default_rng(seed)
    table = spline_table(1 if shared else n_components, n_cells, dtype, rng)
    u = rng.uniform(-0.49, n_cells - 0.51, (n_components, n_rows)).astype(dtype)
    bound = 8 * np.finfo(dtype).eps * np.abs(table).sum(axis=-1).max()
    np.testing.assert_allclose(activate(u, table), activate_reference(u, table), rtol=0, atol=bound)


@each_dtype
@each_row_count
def test_activation_in_place_equals_activation_elsewhere(dtype, n_rows):
    rng = np.random.default_rng(n_rows)
    u, table = rng.uniform(-2, 18, (3, n_rows)).astype(dtype), spline_table(3, 16, dtype, rng)
    expected = activate(u, table)
    _kernels.activate(u, table, u)
    np.testing.assert_array_equal(u, expected)


@each_dtype
def test_activation_does_not_depend_on_the_other_rows(dtype):
    rng = np.random.default_rng(0)
    u, table = rng.uniform(-2, 18, (2, 61)).astype(dtype), spline_table(1, 16, dtype, rng)
    expected = activate(u, table)
    for n_rows in range(1, 61):
        np.testing.assert_array_equal(activate(np.ascontiguousarray(u[:, :n_rows]), table), expected[:, :n_rows])


@each_dtype
def test_a_constant_table_gives_its_constant_for_any_input(dtype):
    table = np.zeros((1, 5, 4), dtype)
    table[..., 0] = 3
    u = np.array([[*FAR, np.nan, 0.0, 1.5, -0.5, 4.5]], dtype)
    np.testing.assert_array_equal(activate(u, table), 3)


# Scattering


@each_dtype
@each_cell_count
@each_row_count
def test_scattering_equals_its_reference_exactly(dtype, n_cells, n_rows):
    rng = np.random.default_rng(n_rows)
    k = rng.integers(0, n_cells, (5, n_rows))
    u = (k + rng.integers(-3, 4, k.shape) / 8).astype(dtype)
    e = rng.integers(-4, 5, u.shape).astype(dtype)
    np.testing.assert_array_equal(scatter(u, e, 1, n_cells), scatter_reference(u, e, n_cells))
    expected = np.concatenate(
        [scatter_reference(row[None], pull[None], n_cells) for row, pull in zip(u, e, strict=True)]
    )
    np.testing.assert_array_equal(scatter(u, e, 5, n_cells), expected)


@each_dtype
def test_scattering_adds_to_what_is_there(dtype):
    rng = np.random.default_rng(0)
    u, e = eighths((3, 50), 6, dtype, rng), rng.integers(-4, 5, (3, 50)).astype(dtype)
    once = scatter(u, e, 1, 6)
    sums = np.full((1, 6, 4), 1000.0)
    for _ in range(3):
        _kernels.scatter(u, np.eye(len(u), dtype=u.dtype), e, sums)
    np.testing.assert_allclose(sums, 1000 + 3 * once, rtol=1e-6)  # clipping on the right is not exact
    np.testing.assert_array_equal(sums[:, :-1], 1000 + 3 * once[:, :-1])


@each_dtype
@pytest.mark.parametrize("n_tables", [1, 7])
@each_cell_count
def test_scattering_is_the_exact_adjoint_of_looking_up(dtype, n_tables, n_cells):
    """<table, scatter(u, e)> = <activate(u, table), e>, borders and clipped rows included."""
    rng = np.random.default_rng(n_cells)
    u = eighths((7, 33), n_cells, dtype, rng)
    table, e = exact_table(n_tables, n_cells, dtype, rng), rng.integers(-4, 5, u.shape).astype(dtype)
    looked_up = np.sum(activate(u, table).astype(float) * e)
    assert np.sum(table * scatter(u, e, n_tables, n_cells)) == looked_up


@quick
@given(dtypes, st.integers(1, 30), st.integers(1, 5), st.integers(1, 70), st.booleans(), seeds)
def test_scattering_is_the_adjoint_of_looking_up(dtype, n_cells, n_components, n_rows, shared, seed):
    rng = np.random.default_rng(seed)
    u = rng.uniform(-3, n_cells + 2, (n_components, n_rows)).astype(dtype)
    table = rng.standard_normal((1 if shared else n_components, n_cells, 4)).astype(dtype)
    e = rng.standard_normal(u.shape).astype(dtype)
    left = np.sum(table * scatter(u, e, len(table), n_cells))
    right = np.sum(activate(u, table).astype(float) * e)
    bound = (n_components * n_rows + 16) * np.finfo(dtype).eps * np.abs(table).sum(axis=-1).max() * np.abs(e).sum()
    assert abs(left - right) <= bound


@each_dtype
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_scattering_pulls_by_the_product_of_weights_and_residuals(dtype, n_outputs):
    rng = np.random.default_rng(n_outputs)
    u = rng.uniform(0, 5, (5, 21)).astype(dtype)
    v = rng.integers(-4, 5, (5, n_outputs)).astype(dtype)
    residual = rng.integers(-4, 5, (n_outputs, 21)).astype(dtype)
    sums = np.zeros((1, 6, 4))
    _kernels.scatter(u, v, residual, sums)
    np.testing.assert_allclose(sums, scatter_reference(u, v @ residual, 6), atol=1000 * np.finfo(dtype).eps)


def test_many_rows_in_one_cell_keep_the_digits_of_float32():
    """The sum needs 27 bits and each of its four parts 25: they must have moved to float64 before the end."""
    e = np.full((32, 2**15), 128, np.float32)
    e[-1, -1] = 127
    assert scatter(np.zeros_like(e), e, 1, 1)[0, 0, 0] == 2**27 - 1


# Contracting


@each_dtype
@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("n_cells", [1, 2, 3, 16, 200])
@pytest.mark.parametrize("n_rows", [1, 9, 40])
def test_contraction_equals_its_reference_exactly(dtype, degree, n_cells, n_rows):
    """Linear and quadratic B-splines have binary fractions for coefficients."""
    rng = np.random.default_rng(n_rows)
    pieces = BSplineBasis(n_cells + degree, degree).pieces()
    u = (rng.integers(-4, 8 * n_cells - 4, (6, n_rows)) / 8).astype(dtype)
    weights = rng.integers(-4, 5, 6)
    np.testing.assert_array_equal(contract(u, weights, pieces), contract_reference(u, weights, pieces))


@each_dtype
@pytest.mark.parametrize("basis", [BSplineBasis(4), BSplineBasis(5), BSplineBasis(20), RBFBasis(3)], ids=repr)
def test_contraction_equals_its_reference_inside_and_outside(dtype, basis):
    rng = np.random.default_rng(0)
    pieces = basis.pieces()
    u = rng.uniform(-4, pieces.n_cells + 3, (9, 30)).astype(dtype)
    u[0, :8] = [*FAR, -0.5, pieces.n_cells - 0.5]
    weights = rng.standard_normal(9)
    bound = 32 * np.finfo(dtype).eps * pieces.n_cells * np.abs(weights).sum()
    np.testing.assert_allclose(contract(u, weights, pieces), contract_reference(u, weights, pieces), rtol=0, atol=bound)


@each_dtype
@pytest.mark.parametrize("n_cells", [1, 2, 3, 4, 8, 100])
def test_at_the_right_end_contraction_stays_in_the_last_cell(dtype, n_cells):
    """B-splines sum to one, so the contraction sums to the weights; at the end the last three are alive."""
    pieces = BSplineBasis(n_cells + 3).pieces()
    u = np.array([[n_cells - 0.5, np.nextafter(n_cells - 0.5, 0), 1e9, np.inf]], dtype)
    H = contract(u, np.array([2.0]), pieces)
    np.testing.assert_allclose(H.sum(axis=0), 2, rtol=1e-5)
    ends = np.tile([[1 / 3], [4 / 3], [1 / 3]], 4)
    np.testing.assert_allclose(H[-3:], ends, atol=1e-4 if dtype == np.float32 else 1e-12)


@each_dtype
def test_contraction_adds_to_what_is_there(dtype):
    pieces = BSplineBasis(5, 2).pieces()
    first, last = pieces.alive()
    u = (np.arange(12).reshape(2, 6) / 4 - 0.5).astype(dtype)
    weights, coefficients = np.array([1, 2], dtype), pieces.coefficients.astype(dtype)
    out = np.full((5, 6), 7, dtype)
    _kernels.contract(u, weights, coefficients, first, last, out)
    np.testing.assert_array_equal(out, 7 + contract_reference(u, weights, pieces))


@each_dtype
def test_contraction_with_coefficients_is_the_activation_summed(dtype):
    """a' H(v) = sum_m v_m sigma(u_m): the same sum in two orders, exact for quadratic splines."""
    rng = np.random.default_rng(0)
    pieces = BSplineBasis(9, 2).pieces()
    a, v = rng.integers(-4, 5, 9), rng.integers(-4, 5, 6)
    u = (rng.integers(-4, 8 * pieces.n_cells - 4, (6, 25)) / 8).astype(dtype)
    expected = v @ activate(u, pieces.table(a).astype(dtype))
    np.testing.assert_array_equal(a @ contract(u, v, pieces), expected)


# Predicting


@each_dtype
@pytest.mark.parametrize("n_components", [*range(1, 10), 130])
@pytest.mark.parametrize("n_features", [1, 2, 5, 40])
def test_prediction_equals_its_reference_exactly(dtype, n_components, n_features):
    X = whole_numbers(53, n_features, dtype)
    for n_tables, n_outputs in ((1, 1), (1, 2), (n_components, 1), (n_components, 2)):
        model = exact_model(n_features, n_components, n_tables, 12, n_outputs, dtype, n_components)
        np.testing.assert_array_equal(predict(*model, X), predict_reference(*model, X))


@each_dtype
@each_cell_count
@pytest.mark.parametrize("n_outputs", [1, 3, 17])
def test_prediction_is_exact_for_any_number_of_cells_and_outputs(dtype, n_cells, n_outputs):
    model = exact_model(3, 6, 6, n_cells, n_outputs, dtype, n_cells)
    X = whole_numbers(30, 3, dtype)
    np.testing.assert_array_equal(predict(*model, X), predict_reference(*model, X))


@each_dtype
@each_row_count
def test_prediction_is_exact_for_any_number_of_rows(dtype, n_rows):
    model = exact_model(4, 7, 1, 20, 1, dtype, 0)
    X = whole_numbers(n_rows, 4, dtype)
    np.testing.assert_array_equal(predict(*model, X), predict_reference(*model, X))


@each_dtype
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_prediction_far_outside_equals_its_reference(dtype, n_outputs):
    model = exact_model(2, 5, 5, 9, n_outputs, dtype, 1)
    X = np.array([[1e9, 0], [0, -1e9], [1e9, -1e9], [3e4, 1], [-1e9, 1]], dtype)
    np.testing.assert_array_equal(predict(*model, X), predict_reference(*model, X))


@quick
@given(dtypes, st.integers(1, 9), st.integers(1, 12), st.integers(1, 40), st.integers(1, 3), seeds)
def test_prediction_equals_its_reference_to_rounding(dtype, n_features, n_components, n_rows, n_outputs, seed):
    """The bound follows the rounding of the projection through the steepest piece, and that of the sums."""
    rng = np.random.default_rng(seed)
    W, offset = rng.standard_normal((n_features, n_components)), rng.uniform(0, 10, n_components)
    feature_map = FeatureMap(W.astype(dtype), offset.astype(dtype), spline_table(n_components, 10, dtype, rng))
    v, intercept = rng.standard_normal((n_components, n_outputs)).astype(dtype), np.zeros(n_outputs, dtype)
    X = rng.standard_normal((n_rows, n_features)).astype(dtype)
    table, eps = np.abs(feature_map.table), np.finfo(dtype).eps
    steepest = (table[..., 1] + table[..., 2] + 0.75 * table[..., 3]).max()
    u_error = (n_features + 2) * eps * (np.abs(X) @ np.abs(W) + np.abs(offset) + 10)
    z_error = steepest * u_error + 8 * eps * table.sum(axis=-1).max()
    bound = z_error @ np.abs(v) + n_components * eps * table.sum(axis=-1).max() * np.abs(v).sum(axis=0)
    double = FeatureMap(*(part.astype(float) for part in (feature_map.W, feature_map.offset, feature_map.table)))
    error = np.abs(predict(feature_map, v, intercept, X) - predict_reference(double, v, intercept, X.astype(float)))
    assert np.all(error <= bound)


@quick
@given(dtypes, st.integers(1, 3), st.integers(1, 80), st.integers(0, 80), st.integers(0, 80), seeds)
def test_a_range_of_rows_is_written_alone_and_bit_for_bit(dtype, n_outputs, n_rows, one_end, other_end, seed):
    start, stop = sorted((min(one_end, n_rows), min(other_end, n_rows)))
    rng = np.random.default_rng(seed)
    feature_map = FeatureMap(
        rng.standard_normal((3, 5)).astype(dtype), rng.uniform(0, 9, 5).astype(dtype), spline_table(1, 9, dtype, rng)
    )
    v, intercept = rng.standard_normal((5, n_outputs)).astype(dtype), rng.standard_normal(n_outputs).astype(dtype)
    X = rng.standard_normal((n_rows, 3)).astype(dtype)
    whole, part = predict(feature_map, v, intercept, X), predict(feature_map, v, intercept, X, start, stop)
    np.testing.assert_array_equal(part[start:stop], whole[start:stop])
    assert np.isnan(part[:start]).all()
    assert np.isnan(part[stop:]).all()


@each_dtype
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_a_row_predicts_the_same_alone_and_in_company(dtype, n_outputs):
    rng = np.random.default_rng(0)
    feature_map = FeatureMap(
        rng.standard_normal((6, 11)).astype(dtype), rng.uniform(0, 9, 11).astype(dtype), spline_table(11, 9, dtype, rng)
    )
    v, intercept = rng.standard_normal((11, n_outputs)).astype(dtype), rng.standard_normal(n_outputs).astype(dtype)
    X = rng.standard_normal((50, 6)).astype(dtype)
    together = predict(feature_map, v, intercept, X)
    alone = np.concatenate([predict(feature_map, v, intercept, X[i : i + 1]) for i in range(len(X))])
    np.testing.assert_array_equal(alone, together)


# Predicting rows of zeros


zero_patterns = st.sampled_from([0.0, 0.02, 0.1, 0.4, 0.6, 1.0])  # shares of inputs that are not zero


def with_zeros(X: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Entries kept one by one, and whole columns at twice the share; a zero may have either sign."""
    kept = (rng.random(X.shape) < share) | (rng.random(X.shape[1]) < 2 * share - 1)
    return np.where(kept, X, rng.choice([-0.0, 0.0], X.shape)).astype(X.dtype)


@quick
@given(dtypes, st.integers(1, 40), st.integers(1, 12), st.integers(1, 60), st.integers(1, 3), zero_patterns, seeds)
def test_prediction_of_rows_with_zeros_is_exact(dtype, n_features, n_components, n_rows, n_outputs, share, seed):
    model = exact_model(n_features, n_components, n_components, 12, n_outputs, dtype, seed)
    X = with_zeros(whole_numbers(n_rows, n_features, dtype, seed), share, np.random.default_rng(seed))
    np.testing.assert_array_equal(predict(*model, X), predict_reference(*model, X))


@pytest.mark.slow
@quick
@given(dtypes, st.integers(1, 40), st.integers(2, 60), zero_patterns, seeds)
def test_a_row_with_zeros_predicts_the_same_bit_for_bit_in_any_company(dtype, n_features, n_rows, share, seed):
    """Whichever inputs a tile leaves out, and however rows are cut into tiles."""
    rng = np.random.default_rng(seed)
    W, offset = rng.standard_normal((n_features, 6)).astype(dtype), rng.uniform(0, 9, 6).astype(dtype)
    feature_map = FeatureMap(W, offset, spline_table(6, 9, dtype, rng))
    v, intercept = rng.standard_normal((6, 1)).astype(dtype), np.ones(1, dtype)
    X = with_zeros(rng.standard_normal((n_rows, n_features)).astype(dtype), share, rng)
    X[rng.integers(n_rows)] = rng.standard_normal(n_features)
    together = predict(feature_map, v, intercept, X)
    alone = np.concatenate([predict(feature_map, v, intercept, X[i : i + 1]) for i in range(n_rows)])
    np.testing.assert_array_equal(alone, together)
    order = rng.permutation(n_rows)
    np.testing.assert_array_equal(predict(feature_map, v, intercept, X[order]), together[order])
    np.testing.assert_array_equal(predict(feature_map, v, intercept, np.asfortranarray(X)), together)


@pytest.mark.slow
@quick
@given(
    dtypes, st.sampled_from([np.int32, np.int64]), st.integers(1, 30), st.integers(1, 20), st.integers(0, 60),
    st.integers(1, 3), st.booleans(), zero_patterns, seeds,
)  # fmt: skip
def test_prediction_of_sparse_rows_is_exact(
    dtype, index, n_features, n_components, n_rows, n_outputs, shared, share, seed
):
    """And a range of rows is written alone."""
    rng = np.random.default_rng(seed)
    model = exact_model(n_features, n_components, 1 if shared else n_components, 12, n_outputs, dtype, seed)
    X = sp.csr_array(with_zeros(whole_numbers(n_rows, n_features, dtype, seed), share, rng))
    expected = predict_reference(*model, X.toarray())
    start, stop = np.sort(rng.integers(0, n_rows + 1, 2))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    out = np.full((n_rows, n_outputs), np.nan, dtype)
    pack(*model).predict_sparse(X, out, start, stop)
    np.testing.assert_array_equal(out[start:stop], expected[start:stop])
    assert np.isnan(out[:start]).all()
    assert np.isnan(out[stop:]).all()


@pytest.mark.slow
@quick
@given(dtypes, st.integers(1, 30), st.integers(1, 12), st.integers(1, 200), zero_patterns, seeds)
def test_projections_of_rows_with_zeros_are_exact(dtype, n_features, n_components, n_rows, share, seed):
    """Whether their zeros are worth leaving out or not, and in an array that is part of a larger one."""
    rng = np.random.default_rng(seed)
    feature_map = exact_map(n_features, n_components, 1, 12, dtype, rng)
    X = with_zeros(whole_numbers(n_rows, n_features, dtype, seed), share, rng)
    out = np.full((n_components + 2, n_rows), np.nan, dtype)
    feature_map.cells(X, out[1:-1])
    np.testing.assert_array_equal(out[1:-1], feature_map.W.T @ X.T + feature_map.offset[:, None])
    assert np.isnan(out[[0, -1]]).all()


@each_dtype
def test_zeros_are_left_out_of_projections_where_neighbours_share_them(dtype, monkeypatch):
    rng = np.random.default_rng(0)
    feature_map = exact_map(40, 5, 1, 12, dtype, rng)
    indicators = np.eye(40, dtype=dtype)[rng.integers(0, 12, 200)]
    scattered = whole_numbers(200, 40, dtype) * (rng.random((200, 40)) < 0.3)
    taken = []
    monkeypatch.setattr(_kernels, "project", lambda x, w, bias, out: taken.append(x.shape))
    for X, zeros in ((indicators, True), (scattered.astype(dtype), False), (indicators[:5], False)):
        taken.clear()
        feature_map.cells(X, np.empty((5, len(X)), dtype))
        assert bool(taken) == zeros
    moved = replace(feature_map, centre=np.full(40, 0.5, dtype))  # zeros are not where they were
    moved.cells(indicators, np.empty((5, 200), dtype))
    assert not taken


# Inputs that are no numbers


@each_dtype
@pytest.mark.parametrize("n_cells", [1, 2, 9])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_inputs_stay_inside_the_table(dtype, n_cells, bad):
    """Looked-up values stay in the range of the table, and scattered weights between its first and last cell."""
    table = np.zeros((1, n_cells, 4), dtype)
    table[..., 0], table[..., 1] = 1.5, 1
    u = np.full((2, 13), bad, dtype)
    looked_up = activate(u, table)
    assert np.all(np.isnan(looked_up) | ((looked_up >= 1) & (looked_up <= 2)))
    guarded = np.zeros((3, n_cells, 4))
    _kernels.scatter(u, np.ones((len(u), 1), u.dtype), np.ones((1, u.shape[1]), u.dtype), guarded[1:2])
    assert guarded[1, :, 0].sum() == u.size
    assert not guarded[[0, 2]].any()


@each_dtype
@pytest.mark.parametrize("n_cells", [1, 2, 9])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_inputs_contract_inside_the_pieces(dtype, n_cells, bad):
    """B-splines sum to one in every cell there is, and in no other."""
    sums = contract(np.full((1, 5), bad, dtype), np.ones(1), BSplineBasis(n_cells + 3).pieces()).sum(axis=0)
    assert np.all(np.isnan(sums) | (np.abs(sums - 1) < 1e-6))


@each_dtype
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_rows_predict_nothing_wild_and_leave_their_neighbours_alone(dtype, n_outputs, bad):
    model = exact_model(3, 5, 5, 9, n_outputs, dtype, 2)
    X = whole_numbers(40, 3, dtype)
    expected = predict(*model, X)
    X[[3, 24, 39]] = bad
    found = predict(*model, X)
    others = np.setdiff1d(np.arange(40), [3, 24, 39])
    np.testing.assert_array_equal(found[others], expected[others])
    largest = np.abs(model[0].table).sum(axis=-1).max() * np.abs(model[1]).sum() + np.abs(model[2]).max()
    assert np.all(np.isnan(found) | (np.abs(found) <= largest))


# How the kernels are compiled


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_kernels_release_the_interpreter_lock_and_keep_the_order_of_operations(kernel):
    assert kernel.targetoptions["nogil"] is True
    assert not kernel.targetoptions.get("fastmath", False)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_kernels_are_cached_on_disk(kernel):
    assert not isinstance(kernel._cache, NullCache)


@pytest.mark.slow
def test_importing_the_package_compiles_nothing():
    script = (
        "import rflaf; from rflaf.functions._kernels import features as _kernels; "
        "compiled = {name for name, kernel in vars(_kernels).items() if getattr(kernel, 'signatures', None)}; "
        "assert not compiled, compiled; "
        "assert _kernels.activate.signatures == []"
    )
    package_parent = os.path.dirname(os.path.dirname(rflaf.__file__))
    environment = {**os.environ, "PYTHONPATH": package_parent}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment, timeout=120)


@pytest.mark.parametrize(("dtype", "expected"), [(np.float32, 8), (np.float64, 4), ("float32", 8)])
def test_a_vector_has_32_bytes(dtype, expected):
    assert _shapes.lanes(np.dtype(dtype)) == expected


# Feature maps


@each_dtype
@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("centre", [np.zeros(6), np.arange(6)])
def test_features_of_sparse_rows_equal_those_of_dense_rows(dtype, make, centre):
    rng = np.random.default_rng(0)
    feature_map = exact_map(6, 9, 9, 14, dtype, rng)
    X = whole_numbers(37, 6, dtype) * (rng.random((37, 6)) < 0.4).astype(dtype)
    u = feature_map.W.T @ (X - centre).T + feature_map.offset[:, None]
    expected = activate_reference(u.astype(dtype), feature_map.table)
    if centre.any():
        feature_map = replace(feature_map, centre=centre.astype(dtype))
    for rows in (X, make(X)):
        np.testing.assert_array_equal(feature_map.features(rows, np.empty((9, 37), dtype)), expected)


@each_dtype
@pytest.mark.parametrize("weight", [None, np.array([4.0, 0.0, 1.0, 0.25, 9.0])])
def test_the_design_is_features_one_and_targets_times_the_root_of_the_weight(dtype, weight):
    feature_map = exact_map(2, 3, 1, 8, dtype, np.random.default_rng(0))
    X, y = whole_numbers(5, 2, dtype), np.arange(10.0).reshape(5, 2)
    design = feature_map.design(Block(X, y, weight if weight is None else weight.astype(dtype)), Scratch())
    root = np.ones(5) if weight is None else np.sqrt(weight)
    features = feature_map.features(X, np.empty((3, 5), dtype))
    np.testing.assert_array_equal(design, np.vstack([features, np.ones(5), y.T]) * root)
    assert design.dtype == dtype


@pytest.mark.parametrize("n_tables", [1, 7])
@pytest.mark.parametrize("basis", [BSplineBasis(12), BSplineBasis(4), BSplineBasis(6, 1), RBFBasis(12)], ids=repr)
def test_compiling_folds_the_grid_into_the_directions(basis, n_tables):
    """Features are the activation at w . x + b, computed by the basis itself; far outside as well."""
    rng = np.random.default_rng(0)
    directions = Directions(3 * rng.standard_normal((3, 7)), rng.standard_normal(7), np.ones(7), 7)
    a, X = rng.standard_normal((n_tables, basis.n_basis)), rng.standard_normal((200, 3))
    found = compile_map(directions, basis.pieces(a), a, float).features(X, np.empty((7, 200)))
    values = basis.values(X @ directions.W + directions.offset)
    expected = np.einsum("rmi,mi->mr", values, np.broadcast_to(a, (7, basis.n_basis)))
    atol = 1e-12 if isinstance(basis, BSplineBasis) else 1e-6
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol * np.abs(expected).max())


@each_dtype
def test_compiling_gives_contiguous_arrays_of_one_dtype(dtype):
    directions = Directions(np.ones((2, 5)), np.zeros(5), np.ones(5), 5)
    feature_map = compile_map(directions, BSplineBasis(8).pieces(), np.ones((5, 8)), dtype)
    for part, shape in ((feature_map.W, (2, 5)), (feature_map.offset, (5,)), (feature_map.table, (5, 5, 4))):
        assert part.dtype == dtype
        assert part.flags.c_contiguous
        assert part.shape == shape


@each_dtype
@pytest.mark.parametrize("n_components", range(1, 10))
@pytest.mark.parametrize("shared", [True, False])
def test_packing_pads_the_width_with_components_of_weight_zero(dtype, n_components, shared):
    n_tables = 1 if shared else n_components
    feature_map, v, intercept = exact_model(3, n_components, n_tables, 4, 2, dtype, 0)
    packed = pack(feature_map, v, intercept)
    tile = _kernels.TILE_COMPONENTS
    width = -(-n_components // tile) * tile
    assert packed.w.shape == (width // tile, 3, tile)
    assert packed.bias.shape == (width,)
    assert packed.table.shape == (1 if n_tables == 1 else width, 4, 4)
    assert packed.v.shape == (width, 2)
    unpacked = packed.w.transpose(1, 0, 2).reshape(3, width)
    np.testing.assert_array_equal(unpacked[:, :n_components], feature_map.W)
    np.testing.assert_array_equal(packed.v[:n_components], v)
    assert not packed.v[n_components:].any()
    assert not unpacked[:, n_components:].any()
    for part in (packed.w, packed.bias, packed.table, packed.v, packed.intercept):
        assert part.dtype == dtype


# Expanding


def expand(u: np.ndarray, pieces: Pieces) -> np.ndarray:
    """Expansion into the middle of a larger array, whose borders must stay as they are."""
    first, last = pieces.alive()
    guarded = np.full((u.shape[0] + 2, pieces.coefficients.shape[1], u.shape[1]), np.nan, u.dtype)
    _kernels.expand(u, pieces.coefficients.astype(u.dtype), first, last, guarded[1:-1])
    assert np.isnan(guarded[[0, -1]]).all()
    return guarded[1:-1]


@each_dtype
@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("n_cells", [1, 2, 3, 16, 200])
@pytest.mark.parametrize("n_rows", [1, 9, 40])
def test_expansion_equals_its_reference_exactly(dtype, degree, n_cells, n_rows):
    """Linear and quadratic B-splines have binary fractions for coefficients."""
    rng = np.random.default_rng(n_rows)
    pieces = BSplineBasis(n_cells + degree, degree).pieces()
    u = (rng.integers(-4, 8 * n_cells - 4, (5, n_rows)) / 8).astype(dtype)
    np.testing.assert_array_equal(expand(u, pieces), expand_reference(u, pieces))


@each_dtype
@pytest.mark.parametrize("basis", [BSplineBasis(4), BSplineBasis(5), BSplineBasis(20), RBFBasis(3)], ids=repr)
@pytest.mark.parametrize("n_rows", [1, 7, 33])
def test_expansion_equals_its_reference_inside_and_outside(dtype, basis, n_rows):
    rng = np.random.default_rng(0)
    pieces = basis.pieces()
    u = rng.uniform(-4, pieces.n_cells + 3, (len(FAR) + 3, n_rows)).astype(dtype)
    u[: len(FAR) + 2, 0] = [*FAR, -0.5, pieces.n_cells - 0.5]
    bound = 32 * np.finfo(dtype).eps * pieces.n_cells
    np.testing.assert_allclose(expand(u, pieces), expand_reference(u, pieces), rtol=0, atol=bound)


@each_dtype
@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("n_cells", [1, 2, 9, 100])
def test_expanded_splines_sum_to_one_for_any_input(dtype, degree, n_cells):
    pieces = BSplineBasis(n_cells + degree, degree).pieces()
    u = np.random.default_rng(n_cells).uniform(-2, n_cells + 1, (3, 31)).astype(dtype)
    u[0, :8] = [*FAR, -0.5, n_cells - 0.5]
    B = expand(u, pieces)
    np.testing.assert_allclose(B.sum(axis=1), 1, rtol=8 * np.finfo(dtype).eps)
    assert B.min() > -np.finfo(dtype).eps


@pytest.mark.parametrize("basis", [BSplineBasis(9), BSplineBasis(4), BSplineBasis(6, 1), RBFBasis(9)], ids=repr)
def test_expansion_is_the_basis_at_the_projection(basis):
    z = np.random.default_rng(0).uniform(-5, 5, (4, 57))
    pieces = basis.pieces()
    found = expand(pieces.cell_coordinate(z), pieces)
    atol = 1e-13 if isinstance(basis, BSplineBasis) else 1e-7
    np.testing.assert_allclose(found, np.moveaxis(basis.values(z), -1, 1), rtol=0, atol=atol)


@each_dtype
def test_expansion_overwrites_what_is_there_and_contracts_to_the_contraction(dtype):
    rng = np.random.default_rng(0)
    pieces = BSplineBasis(9, 2).pieces()
    u = (rng.integers(-4, 8 * pieces.n_cells - 4, (6, 25)) / 8).astype(dtype)
    weights = rng.integers(-4, 5, 6).astype(dtype)
    np.testing.assert_array_equal(np.tensordot(weights, expand(u, pieces), 1), contract(u, weights, pieces))


@each_dtype
@pytest.mark.parametrize("n_cells", [1, 2, 9])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_inputs_expand_inside_the_pieces_and_leave_their_neighbours_alone(dtype, n_cells, bad):
    pieces = BSplineBasis(n_cells + 3).pieces()
    u = np.random.default_rng(0).uniform(-0.5, n_cells - 0.5, (3, 21)).astype(dtype)
    expected = expand(u, pieces)
    u[1, [0, 8, 20]] = bad
    B = expand(u, pieces)
    changed = np.zeros(u.shape, bool)
    changed[1, [0, 8, 20]] = True
    np.testing.assert_array_equal(np.moveaxis(B, 1, -1)[~changed], np.moveaxis(expected, 1, -1)[~changed])
    np.testing.assert_allclose(B.sum(axis=1), 1, rtol=8 * np.finfo(dtype).eps)
