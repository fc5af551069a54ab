"""Columns that bend: where nodes stand, the curves against interpolation, and the compiled loops against both.

Some data here are *exact*: nodes, values, weights and inputs are binary fractions, neighbouring cells of a table meet,
and its last cell is flat, so that compiled and plain loops must agree bit for bit. Other data are drawn, and agree to
rounding.
"""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_features import activate_reference

import rflaf.model.random_feature_model
from rflaf.functions._kernels import curves as _curve_kernels
from rflaf.functions._kernels.loops import alone
from rflaf.functions.bases import BSplineBasis, RBFBasis
from rflaf.functions.curves import ColumnCurves, Knots, curves_of, no_knots, one_over_gaps, place_knots, side_by_side
from rflaf.functions.densities import Directions
from rflaf.model.curved_features import CurvedMap, compile_curved_map, pack_curved
from rflaf.model.features import compile_map
from rflaf.model.random_feature_model import Activation, RandomFeatureModel
from rflaf.rows.blocks import Block, Scratch
from rflaf.rows.executors import SingleThreadedBLAS

BASIS = BSplineBasis(12)
WIDTHS = (1, 7, 8, 33)

quick = settings(max_examples=30)
each_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])
each_width = pytest.mark.parametrize("width", WIDTHS)
each_sharing = pytest.mark.parametrize("shared", [True, False], ids=["shared", "per_component"])
each_output_count = pytest.mark.parametrize("n_outputs", [1, 3])
seeds = st.integers(0, 2**32 - 1)
increasing = st.lists(st.integers(-1000, 1000), min_size=3, max_size=40, unique=True).map(
    lambda values: np.sort(np.array(values) / 8)
)


def some_knots(rng: np.random.Generator, columns=(0, 2, 3), sizes=(3, 9, 4)) -> Knots:
    """Nodes within (-2, 2), far enough from each other for any precision."""
    parts = [np.sort(rng.choice(np.arange(-16, 17), size, replace=False)) / 8 for size in sizes]
    return Knots(np.array(columns, np.intp), np.cumsum([0, *sizes]), np.concatenate(parts))


def some_model(
    width: int = 10, n_outputs: int = 2, shared: bool = False, basis=BASIS, seed: int = 0, sizes=(3, 9, 4)
) -> RandomFeatureModel:
    """Five columns: 0, 2 and 3 bend, 1 and 4 are straight."""
    rng = np.random.default_rng(seed)
    knots = some_knots(rng, (0, 2, 3)[: len(sizes)], sizes)
    directions = Directions(
        0.4 * rng.standard_normal((5, width)), 0.3 * rng.standard_normal(width), rng.uniform(0.5, 2, width), width
    )
    curves = ColumnCurves(knots, 0.5 * rng.standard_normal((knots.nodes.size, width)))
    activation = Activation(basis, rng.standard_normal((1 if shared else width, basis.n_basis)))
    v = rng.standard_normal((width, n_outputs))
    return RandomFeatureModel(directions, activation, v, rng.standard_normal(n_outputs), curves)


def some_inputs(n_rows: int = 60, seed: int = 1) -> np.ndarray:
    """Rows within the nodes and beyond them."""
    return 1.5 * np.random.default_rng(seed).standard_normal((n_rows, 5))


def interpolated(curves: ColumnCurves, X: np.ndarray) -> np.ndarray:
    """sum_c kappa_cm(x_c) by `numpy.interp`, one curve and one component after the other."""
    total = np.zeros((X.shape[0], curves.values.shape[1]))
    for curve, column in enumerate(curves.knots.columns):
        own = curves.values[curves.knots.start[curve] : curves.knots.start[curve + 1]]
        for m in range(own.shape[1]):
            total[:, m] += np.interp(X[:, column], curves.knots.of(curve), own[:, m])
    return total


def inputs_by_definition(model: RandomFeatureModel, X: np.ndarray) -> np.ndarray:
    X = X.astype(np.float64)
    return X @ model.directions.W + model.directions.offset + interpolated(model.curves, X)


def features_by_definition(model: RandomFeatureModel, X: np.ndarray) -> np.ndarray:
    """sigma_m(u_m), without importance: (n_components, n_rows)."""
    pieces, a = model.activation.compile()
    return activate_reference(pieces.cell_coordinate(inputs_by_definition(model, X).T), pieces.table(a))


def decision_by_definition(model: RandomFeatureModel, X: np.ndarray) -> np.ndarray:
    return (features_by_definition(model, X) * model.directions.importance[:, None]).T @ model.v + model.intercept


def tolerance(dtype, size: float = 1.0) -> float:
    return size * (2e-5 if dtype == np.float32 else 1e-12)


def compiled(model: RandomFeatureModel, dtype) -> CurvedMap:
    pieces, a = model.activation.compile()
    return compile_curved_map(model.directions, model.curves, pieces, a, dtype)


# Where nodes stand


def test_a_column_of_few_values_has_all_of_them_for_nodes():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.permutation(np.arange(129.0)), rng.integers(0, 3, 129)])
    knots = place_knots(X, 5)
    np.testing.assert_array_equal(knots.columns, [0, 1])
    np.testing.assert_array_equal(knots.of(0), np.arange(129))
    np.testing.assert_array_equal(knots.of(1), [0, 1, 2])
    np.testing.assert_array_equal(knots.start, [0, 129, 132])


def test_a_column_of_many_values_has_its_quantiles_for_nodes():
    x = np.random.default_rng(0).permutation(np.arange(1001.0)) ** 2
    np.testing.assert_allclose(place_knots(x[:, None], 11).nodes, np.arange(0, 1001, 100) ** 2)
    assert place_knots(x[:, None]).nodes.size == 49


def test_columns_of_one_or_two_values_do_not_bend():
    X = np.column_stack([np.full(200, 3.0), np.arange(200) % 2, np.arange(200) % 3, np.arange(200.0)])
    np.testing.assert_array_equal(place_knots(X).columns, [2, 3])
    none = place_knots(X[:, :2])
    for found, expected in zip((none.columns, none.start, none.nodes), ([], [0], []), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert none.n_curves == no_knots().n_curves == 0


def test_where_quantiles_tie_the_rest_stand_on_the_distinct_values():
    """Most rows share one value: their quantiles are one node, the others spread over what is left."""
    x = np.concatenate([np.zeros(9000), np.arange(1, 1001.0)])
    nodes = place_knots(x[:, None], 21).nodes
    assert 15 <= nodes.size <= 21
    assert (nodes[0], nodes[-1]) == (0, 1000)
    assert np.count_nonzero(nodes > 200) >= 10
    assert np.all(np.diff(nodes) > 0)


@quick
@given(st.integers(0, 20), st.integers(130, 400), st.integers(3, 60), seeds)
def test_nodes_increase_from_the_least_value_to_the_largest(ties, n_values, n_nodes, seed):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(n_values)
    x = rng.permutation(np.concatenate([values, np.repeat(values[:3], ties * 50)]))
    nodes = place_knots(x[:, None], n_nodes).nodes
    assert np.all(np.diff(nodes) > 0)
    assert (nodes[0], nodes[-1]) == (x.min(), x.max())
    assert 3 <= nodes.size <= n_nodes


@pytest.mark.parametrize("rare", [1, 2, 130])
def test_rare_values_beside_a_heavy_tie_are_kept_in_the_span(rare):
    x = np.concatenate([np.zeros(100_000), np.arange(-rare, 0), np.arange(1, 1 + rare)]).astype(float)
    nodes = place_knots(x[:, None], 33).nodes
    assert (nodes[0], nodes[-1]) == (-rare, rare)
    assert 0 in nodes
    assert nodes.size >= min(33, 2 * rare + 1) - 2


def test_single_precision_rows_have_the_nodes_of_their_values():
    X = np.random.default_rng(0).standard_normal((300, 2)).astype(np.float32)
    np.testing.assert_array_equal(place_knots(X).nodes, place_knots(X.astype(np.float64)).nodes)


# Curves in NumPy


@quick
@given(st.integers(1, 30), st.integers(1, 5), seeds)
def test_curves_interpolate_between_nodes_and_are_constant_beyond(n_rows, width, seed):
    rng = np.random.default_rng(seed)
    knots = some_knots(rng)
    curves = ColumnCurves(knots, rng.standard_normal((knots.nodes.size, width)))
    X = rng.uniform(-4, 4, (n_rows, 5))
    np.testing.assert_allclose(curves(X), interpolated(curves, X), rtol=1e-12, atol=1e-12)
    parts = [curves.part(X, curve) for curve in range(3)]
    np.testing.assert_allclose(sum(parts), curves(X), rtol=1e-12, atol=1e-12)


def test_at_its_nodes_a_curve_has_its_values():
    model = some_model()
    knots, values = model.curves.knots, model.curves.values
    for curve, column in enumerate(knots.columns):
        X = np.zeros((knots.of(curve).size, 5))
        X[:, column] = knots.of(curve)
        np.testing.assert_array_equal(model.curves.part(X, curve), values[knots.start[curve] : knots.start[curve + 1]])


def test_slopes_of_curves_equal_finite_differences_and_vanish_beyond():
    curves, X = some_model().curves, some_inputs(200)
    step = 1e-7
    found = curves.slopes(X)
    assert found.shape == (200, 3, 10)
    for curve, column in enumerate(curves.knots.columns):
        nodes = curves.knots.of(curve)
        clear = np.abs(X[:, [column]] - nodes).min(axis=1) > 1e-6
        e = step * np.eye(5)[column]
        expected = (curves(X + e) - curves(X - e)) / (2 * step)
        np.testing.assert_allclose(found[clear, curve], expected[clear], atol=1e-6)
        beyond = (X[:, column] < nodes[0]) | (X[:, column] > nodes[-1])
        assert 0 < beyond.sum() < 200
        np.testing.assert_array_equal(found[beyond, curve], 0)


def test_curves_of_some_components_are_those_columns():
    curves, X = some_model().curves, some_inputs()
    np.testing.assert_array_equal(curves.take(np.array([7, 0]))(X), curves(X)[:, [7, 0]])


def test_no_curves_add_nothing():
    np.testing.assert_array_equal(ColumnCurves(no_knots(), np.zeros((0, 4)))(np.ones((3, 2))), np.zeros((3, 4)))


# Finding cells


def located(x: np.ndarray, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cells and fractions of a column that is the second of two, by the compiled loop, from the second row on."""
    both, start = np.concatenate([[0, 1, 2], nodes]).astype(x.dtype), np.array([0, 3, 3 + nodes.size])
    gaps = np.concatenate([one_over_gaps(np.arange(3.0)), one_over_gaps(nodes)]).astype(x.dtype)
    cells, fractions = np.full((x.size, 2), -1), np.full((x.size, 2), np.nan, x.dtype)
    X = np.zeros((x.size + 1, 3), x.dtype)
    X[1:, 1] = x
    buffers = np.empty(x.size, x.dtype), np.empty(x.size, np.int32)
    alone(_curve_kernels.locate)(X, 1, x.size, np.array([2, 1]), both, gaps, start, cells, fractions, *buffers)
    np.testing.assert_array_equal(cells[:, 0], 0)
    np.testing.assert_array_equal(fractions[:, 0], 0)
    return cells[:, 1] - 3, fractions[:, 1]


@each_dtype
@quick
@given(increasing, seeds)
def test_a_cell_is_the_one_that_numpy_finds(dtype, nodes, seed):
    """Eighths: values on the nodes themselves, between them and beyond."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([nodes, rng.integers(-1100, 1100, 60) / 8]).astype(dtype)
    cells, fractions = located(x, nodes.astype(dtype))
    expected = np.clip(np.searchsorted(nodes, x, side="right") - 1, 0, nodes.size - 2)
    np.testing.assert_array_equal(cells, expected)
    step = np.diff(nodes)[expected]
    np.testing.assert_allclose(fractions, (x - nodes[expected]) / step, rtol=4 * np.finfo(dtype).eps)


@quick
@given(increasing, increasing, seeds)
def test_cells_of_whole_rows_are_found_with_fractions_between_zero_and_one(first, second, seed):
    rng = np.random.default_rng(seed)
    nodes, start = np.concatenate([first, second]), np.array([0, first.size, first.size + second.size])
    X = rng.integers(-1100, 1100, (40, 3)) / 8
    X[0], X[1] = -1e300, 1e300
    cells, fractions = np.full((40, 2), -1, np.int32), np.full((40, 2), np.nan, np.float32)
    gaps = np.concatenate([one_over_gaps(first), one_over_gaps(second)])
    _curve_kernels.locate_within(X, np.array([2, 0]), nodes, gaps, start, cells, fractions)
    for c, (column, own) in enumerate([(2, first), (0, second)]):
        x = X[:, column]
        k = np.clip(np.searchsorted(own, x, side="right") - 1, 0, own.size - 2)
        np.testing.assert_array_equal(cells[:, c], k + start[c])
        expected = np.clip((x - own[k]) / (own[k + 1] - own[k]), 0, 1)
        np.testing.assert_allclose(fractions[:, c], expected, rtol=1e-6)


@each_dtype
def test_far_beyond_the_nodes_a_fraction_ends_at_a_million(dtype):
    x = np.array([-1e30, -1e9, 1e9, 1e30, -np.inf, np.inf], dtype)
    cells, fractions = located(x, np.array([-1, 0, 3], dtype))
    np.testing.assert_array_equal(cells, [0, 0, 1, 1, 0, 1])
    np.testing.assert_array_equal(fractions, [-1e6, -1e6, 1e6, 1e6, -1e6, 1e6])


# Features of rows


@each_dtype
@each_width
@each_sharing
def test_features_are_the_activation_of_line_and_curve(dtype, width, shared):
    model, X = some_model(width, shared=shared), some_inputs(70).astype(dtype)
    feature_map = compiled(model, dtype)
    assert (feature_map.n_components, feature_map.dtype) == (width, dtype)
    out = np.full((width, 70), np.nan, dtype)
    assert feature_map.features(X, out) is out
    np.testing.assert_allclose(out, features_by_definition(model, X), rtol=0, atol=tolerance(dtype, 10))


@each_dtype
@pytest.mark.parametrize("basis", [BSplineBasis(4), BSplineBasis(7, 1), RBFBasis(6)], ids=repr)
def test_any_basis_is_compiled_with_the_curves(dtype, basis):
    model, X = some_model(9, basis=basis), some_inputs().astype(dtype)
    found = compiled(model, dtype).features(X, np.empty((9, 60), dtype))
    u = inputs_by_definition(model, X)
    expected = np.einsum("rmi,mi->mr", basis.values(u), model.activation.coefficients)
    atol = (1e-4 if dtype == np.float32 else 1e-6) * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


@each_dtype
@each_width
@each_sharing
@each_output_count
def test_predictions_equal_the_reference(dtype, width, shared, n_outputs):
    model, X = some_model(width, n_outputs, shared), some_inputs(70).astype(dtype)
    expected = decision_by_definition(model, X)
    found = model.decision(X)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance(dtype, 10 * width**0.5))


@settings(max_examples=25)
@given(
    st.sampled_from([np.float32, np.float64]), st.integers(1, 70), st.integers(1, 40), st.booleans(),
    st.lists(st.integers(3, 12), min_size=1, max_size=3), seeds,
)  # fmt: skip
def test_exact_predictions_equal_the_reference_bit_for_bit(dtype, n_rows, width, shared, sizes, seed):
    """Every sum is exact: nodes are powers of two apart, rows within them, and all else small binary fractions."""
    rng = np.random.default_rng(seed)
    basis = BSplineBasis(10, 1, (0.0, 9.0))  # cells of unit length, whose borders are whole numbers
    a = 2.0 * rng.integers(-3, 4, (1 if shared else width, 10))
    a[:, -1] = a[:, -2]  # flat at the end: the clipping there costs no digit
    nodes = [np.cumsum(2.0 ** rng.integers(-1, 2, size)) for size in sizes]
    knots = Knots(np.array([0, 2, 3][: len(sizes)]), np.cumsum([0, *sizes]), np.concatenate(nodes))
    model = RandomFeatureModel(
        Directions(rng.integers(-2, 3, (5, width)) / 2, rng.integers(0, 9, width) / 4, np.ones(width), width),
        Activation(basis, a),
        rng.integers(-2, 3, (width, 2)).astype(float),
        rng.integers(-9, 10, 2).astype(float),
        ColumnCurves(knots, rng.integers(-8, 9, (knots.nodes.size, width)) / 2),
    )
    model.directions.W[[0, 2, 3][len(sizes) :]] = 0
    X = rng.integers(-2, 3, (n_rows, 5)).astype(dtype)
    for column, own in zip(knots.columns, nodes, strict=True):
        X[:, column] = rng.integers(4 * own[0], 4 * own[-1] + 1, n_rows) / 4
    z = features_by_definition(model, X)
    assert np.all(4096 * z == np.round(4096 * z))
    np.testing.assert_array_equal(model.features(X), z.T)
    np.testing.assert_array_equal(model.decision(X), z.T @ model.v + model.intercept)


@pytest.mark.slow
@each_dtype
def test_the_order_of_the_rows_in_memory_does_not_matter(dtype):
    model, X = some_model(), some_inputs().astype(dtype)
    np.testing.assert_array_equal(model.decision(np.asfortranarray(X)), model.decision(X))
    np.testing.assert_array_equal(model.decision(np.repeat(X, 2, axis=0)[::2]), model.decision(X))


@each_dtype
@pytest.mark.parametrize(("start", "stop"), [(0, 0), (0, 1), (31, 33), (32, 64), (5, 70), (69, 70)])
def test_a_range_of_rows_is_predicted_and_the_others_are_left_alone(dtype, start, stop):
    model, X = some_model(13), some_inputs(70).astype(dtype)
    whole = model.decision(X)
    out = np.full((70, 2), np.nan, dtype)
    predictor = pack_curved(compiled(model, dtype), model.directions.importance[:, None] * model.v, model.intercept)
    predictor.predict(X, out, start, stop)
    np.testing.assert_array_equal(out[start:stop], whole[start:stop])
    assert np.isnan(out[:start]).all()
    assert np.isnan(out[stop:]).all()


@each_dtype
def test_threads_predict_the_same_bits(monkeypatch, dtype):
    model, X = some_model(13), some_inputs(1001).astype(dtype)
    alone = model.decision(X)
    monkeypatch.setattr(rflaf.model.random_feature_model, "_THREAD_WORK", 100)
    np.testing.assert_array_equal(model.decision(X, n_jobs=3), alone)


@each_dtype
def test_predictions_do_not_depend_on_the_threads_of_blas(dtype):
    model, X = some_model(), some_inputs(500).astype(dtype)
    with SingleThreadedBLAS():
        held = model.decision(X)
    np.testing.assert_array_equal(model.decision(X), held)


@each_dtype
def test_one_row_is_predicted_as_in_a_batch(dtype):
    model, X = some_model(13), some_inputs(70).astype(dtype)
    batch = model.decision(X)
    for i in (0, 1, 31, 32, 69):
        np.testing.assert_array_equal(model.decision(X[i : i + 1])[0], batch[i])


def test_no_rows_give_no_predictions():
    assert some_model().decision(np.empty((0, 5))).shape == (0, 2)
    assert some_model().features(np.empty((0, 5))).shape == (0, 10)


@each_dtype
@each_sharing
def test_the_decision_is_features_times_coefficients(dtype, shared):
    model, X = some_model(shared=shared), some_inputs(1500).astype(dtype)
    expected = model.features(X) @ model.v + model.intercept
    np.testing.assert_allclose(model.decision(X), expected, rtol=0, atol=tolerance(dtype, 30))


@each_dtype
@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_matrix])
def test_sparse_rows_equal_dense_rows(dtype, make):
    model, X = some_model(), some_inputs(1300).astype(dtype)
    X[np.abs(X) < 0.7] = 0
    bound = tolerance(dtype, 30)
    np.testing.assert_array_equal(model.features(make(X)), model.features(X))
    np.testing.assert_allclose(model.decision(make(X)), model.decision(X), rtol=bound, atol=bound)


@each_dtype
def test_the_design_of_a_block_begins_with_its_features(dtype):
    model, X = some_model(9), some_inputs(20).astype(dtype)
    weight = np.random.default_rng(0).exponential(size=20).astype(dtype)
    feature_map, y = compiled(model, dtype), np.arange(40.0).reshape(20, 2)
    design = feature_map.design(Block(X, y, weight), Scratch())
    z = feature_map.features(X, np.empty((9, 20), dtype))
    expected = np.vstack([z, np.ones(20), y.T]) * np.sqrt(weight)
    np.testing.assert_allclose(design, expected, rtol=1e-6)


# Beyond the nodes


@each_dtype
def test_beyond_the_nodes_the_line_goes_on_and_the_curve_stays(dtype):
    """A linear activation of a small slope lets through what its input is."""
    model = some_model(3, basis=BSplineBasis(5, 1, (-200.0, 200.0)))
    for m in range(3):
        model.activation.coefficients[m] = np.linspace(-200, 200, 5)
    edge = np.array([[3.0, 0, -3, 3, 0]])
    for far in (1, 10, 50):
        X = (far * edge).astype(dtype)
        found = compiled(model, dtype).features(X, np.empty((3, 1), dtype))[:, 0]
        expected = X[0] @ model.directions.W + model.directions.offset
        for curve, end in enumerate([-1, 0, -1]):
            own = model.curves.values[model.curves.knots.start[curve] : model.curves.knots.start[curve + 1]]
            expected = expected + own[end]
        assert np.abs(expected).max() < 200
        np.testing.assert_allclose(found, expected, rtol=1e-4 if dtype == np.float32 else 1e-11, atol=1e-4)


@each_dtype
@each_sharing
@pytest.mark.parametrize("size", [1e3, 1e9, 1e30])
def test_far_away_the_model_is_finite_and_bounded(dtype, shared, size):
    model = some_model(shared=shared)
    far = (size * some_inputs(200)).astype(dtype)
    coefficients = np.broadcast_to(model.activation.coefficients, (10, BASIS.n_basis))
    sup = np.abs(BASIS.values(np.linspace(-3, 3, 2001)) @ coefficients.T).max(axis=0)
    bound = np.abs(model.intercept) + (model.directions.importance * sup) @ np.abs(model.v)
    decision = model.decision(far)
    assert np.all(np.isfinite(decision))
    assert np.all(np.abs(decision) <= bound * 1.001)
    assert np.all(np.isfinite(model.features(far)))


@each_dtype
def test_far_out_along_a_column_every_activation_has_reached_its_end(dtype):
    model = some_model()
    for column in range(5):
        for sign in (-1, 1):
            X = np.zeros((1, 5), dtype)
            X[0, column] = sign * 1e9
            ends = np.where(sign * model.directions.W[column] > 0, 3.0, -3.0)
            expected = np.einsum("mi,mi->m", BASIS.values(ends), model.activation.coefficients)
            expected *= model.directions.importance
            np.testing.assert_allclose(model.features(X)[0], expected, rtol=1e-4, atol=1e-4)


def test_a_column_far_from_the_origin_keeps_its_digits_in_single_precision():
    """Values around 1e5 a few units apart: line and curve are stored about the middle of the nodes."""
    rng = np.random.default_rng(0)
    nodes = 1e5 + np.array([-4.0, -1, 0, 2, 4])
    knots = Knots(np.array([0]), np.array([0, 5]), nodes)
    W = rng.standard_normal((1, 8))
    model = RandomFeatureModel(
        Directions(W, -1e5 * W[0], np.ones(8), 8),
        Activation(BASIS, rng.standard_normal((8, 12))),
        rng.standard_normal((8, 1)),
        np.zeros(1),
        ColumnCurves(knots, rng.standard_normal((5, 8))),
    )
    X = (1e5 + rng.integers(-40, 40, (100, 1)) / 8).astype(np.float32)
    np.testing.assert_allclose(model.decision(X), decision_by_definition(model, X), atol=1e-3)


@pytest.mark.parametrize("gap", [1e-9, 1e-12])
def test_nodes_that_coincide_in_single_precision_do_no_harm(gap):
    rng = np.random.default_rng(0)
    knots = Knots(np.array([0]), np.array([0, 5]), np.array([0.0, 1, 1 + gap, 2 - gap, 2]))
    model = RandomFeatureModel(
        Directions(rng.standard_normal((1, 8)), np.zeros(8), np.ones(8), 8),
        Activation(BASIS, rng.standard_normal((8, 12))),
        rng.standard_normal((8, 1)),
        np.zeros(1),
        ColumnCurves(knots, rng.standard_normal((5, 8))),
    )
    X = np.array([[-3.0], [0.0], [0.5], [0.75], [1.25], [1.5], [1.75], [2.5], [9.0]], np.float32)
    np.testing.assert_allclose(model.decision(X), decision_by_definition(model, X), atol=1e-4)
    assert np.all(np.isfinite(model.decision(np.array([[1.0], [2.0]], np.float32))))


@each_dtype
def test_nodes_a_tiny_distance_apart_are_told_apart(dtype):
    """A column such as p-values, most of which are zero to every purpose."""
    rng = np.random.default_rng(0)
    knots = Knots(np.array([0]), np.array([0, 4]), np.array([0.0, 1e-42, 0.5, 1]))
    model = RandomFeatureModel(
        Directions(rng.standard_normal((1, 8)), np.zeros(8), np.ones(8), 8),
        Activation(BASIS, rng.standard_normal((8, 12))),
        rng.standard_normal((8, 1)),
        np.zeros(1),
        ColumnCurves(knots, rng.standard_normal((4, 8))),
    )
    X = np.array([[-1.0], [0.0], [1e-42], [0.25], [0.5], [0.75], [1.0], [2.0]], dtype)
    np.testing.assert_allclose(model.decision(X), decision_by_definition(model, X), atol=1e-4)


def test_nodes_that_all_coincide_in_single_precision_still_give_a_bounded_model():
    rng = np.random.default_rng(0)
    knots = Knots(np.array([0]), np.array([0, 3]), 1e9 + np.array([0.0, 1, 2]))
    W = rng.standard_normal((1, 8))
    model = RandomFeatureModel(
        Directions(W, -1e9 * W[0], np.ones(8), 8),
        Activation(BASIS, rng.standard_normal((8, 12))),
        rng.standard_normal((8, 1)),
        np.zeros(1),
        ColumnCurves(knots, rng.standard_normal((3, 8))),
    )
    decision = model.decision(np.array([[-1e9], [0.0], [1e9], [2e9]], np.float32))
    sup = np.abs(BASIS.values(np.linspace(-3, 3, 2001)) @ model.activation.coefficients.T).max(axis=0)
    assert np.all(np.abs(decision) <= 1.001 * sup @ np.abs(model.v))


# What is compiled


@each_dtype
@each_width
def test_compiling_pads_the_width_with_zeros(dtype, width):
    feature_map = compiled(some_model(width), dtype)
    block = 2 * 32 // np.dtype(dtype).itemsize  # two vectors
    padded = -(-width // block) * block
    assert feature_map.W.shape == (2, padded)
    assert feature_map.H.shape == (padded // block, 16 + 2 * 3, block)
    assert feature_map.bias.shape == (padded,)
    assert feature_map.table.shape == (1 if width == 1 else padded, 9, 4)
    H = feature_map.H.transpose(1, 0, 2).reshape(-1, padded)
    for part in (feature_map.W, H, feature_map.bias):
        assert part[..., :width].any()
        assert not part[..., width:].any()
    for part in (
        feature_map.W,
        feature_map.H,
        feature_map.bias,
        feature_map.table,
        feature_map.nodes,
        feature_map.gaps,
    ):
        assert part.dtype == dtype
        assert part.flags.c_contiguous


def test_columns_without_any_effect_are_left_out():
    model = some_model()
    model.directions.W[[1, 2]] = 0
    model.curves.values[3:12] = 0
    feature_map = compiled(model, np.float64)
    np.testing.assert_array_equal(feature_map.linear, [4])
    np.testing.assert_array_equal(feature_map.columns, [0, 3])
    X = some_inputs()
    expected = decision_by_definition(model, X)
    np.testing.assert_allclose(model.decision(X), expected, rtol=1e-11, atol=1e-11)
    X[:, [1, 2]] = 1e6
    np.testing.assert_allclose(model.decision(X), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("silent", ["line", "curve"])
def test_a_column_with_only_a_line_or_only_a_curve_is_kept(silent):
    model, X = some_model(), some_inputs()
    if silent == "line":
        model.directions.W[2] = 0
    else:
        model.curves.values[3:12] = 0
    np.testing.assert_array_equal(compiled(model, np.float64).columns, [0, 2, 3])
    np.testing.assert_allclose(model.decision(X), decision_by_definition(model, X), rtol=1e-11, atol=1e-11)


@each_dtype
def test_a_model_without_any_effect_is_its_constant(dtype):
    model = some_model(9)
    model.directions.W[:] = 0
    model.curves.values[:] = 0
    feature_map = compiled(model, dtype)
    assert feature_map.linear.size == feature_map.columns.size == feature_map.nodes.size == 0
    X = some_inputs().astype(dtype)
    assert np.ptp(model.decision(X), axis=0).max() == 0
    np.testing.assert_allclose(model.decision(X), decision_by_definition(model, X), atol=tolerance(dtype, 30))


@each_dtype
def test_flat_curves_leave_the_model_without_curves(dtype):
    model, X = some_model(), some_inputs().astype(dtype)
    model.curves.values[:] = 0
    plain = replace(model, curves=None)
    np.testing.assert_allclose(model.decision(X), plain.decision(X), rtol=0, atol=tolerance(dtype, 30))
    pieces, a = model.activation.compile()
    expected = compile_map(model.directions, pieces, a, dtype).features(X, np.empty((10, 60), dtype))
    found = compiled(model, dtype).features(X, np.empty((10, 60), dtype))
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance(dtype, 10))


# The model


@each_sharing
@each_output_count
def test_the_gradient_equals_finite_differences(shared, n_outputs):
    model, X = some_model(n_outputs=n_outputs, shared=shared), some_inputs(40)
    knots = model.curves.knots
    clear = np.ones(40, bool)
    for curve, column in enumerate(knots.columns):
        clear &= np.abs(X[:, [column]] - knots.of(curve)).min(axis=1) > 1e-5
    assert clear.sum() > 30
    step = 1e-6
    expected = np.stack(
        [(model.decision(X + step * e) - model.decision(X - step * e)) / (2 * step) for e in np.eye(5)], axis=-1
    )
    gradient = model.gradient(X)
    assert gradient.shape == (40, n_outputs, 5)
    np.testing.assert_allclose(gradient[clear], expected[clear], atol=1e-6 * np.abs(expected).max())


def test_the_gradient_is_taken_block_by_block():
    model, X = some_model(), some_inputs(2500)
    whole = model.gradient(X)
    np.testing.assert_allclose(model.gradient(X[2300:2310]), whole[2300:2310], rtol=1e-10, atol=1e-12)


def test_some_components_of_a_model_are_those_components():
    model, X = some_model(), some_inputs()
    kept = np.array([6, 2, 9])
    fewer = RandomFeatureModel(
        model.directions.take(kept),
        model.activation.take(kept),
        model.v[kept],
        model.intercept,
        model.curves.take(kept),
    )
    np.testing.assert_allclose(fewer.features(X), model.features(X)[:, kept], rtol=1e-12, atol=1e-12)
    shared = some_model(shared=True).activation
    assert shared.take(kept) is shared


def test_a_model_counts_its_curved_columns():
    model = some_model()
    assert model.describe()["curved_columns"] == 3
    assert replace(model, curves=None).describe()["curved_columns"] == 0


@each_dtype
def test_a_pickled_model_predicts_the_same_bits(dtype):
    model, X = some_model(), some_inputs().astype(dtype)
    fresh = len(pickle.dumps(model))
    before = model.decision(X)
    assert len(pickle.dumps(model)) == fresh
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).decision(X), before)


@settings(max_examples=25)
@given(st.booleans(), seeds)
def test_permuting_the_components_leaves_predictions_unchanged(shared, seed):
    model, X = some_model(shared=shared, seed=seed), some_inputs(seed=seed)
    order = np.random.default_rng(seed).permutation(10)
    other = RandomFeatureModel(
        model.directions.take(order), model.activation.take(order), model.v[order], model.intercept,
        model.curves.take(order),
    )  # fmt: skip
    np.testing.assert_allclose(other.decision(X), model.decision(X), rtol=1e-10, atol=1e-10)


@settings(max_examples=25)
@given(st.integers(1, 3), seeds)
def test_a_line_may_be_moved_from_the_directions_into_the_curves_between_the_nodes(column, seed):
    """A curve may hold any piecewise linear function, so a line too; only beyond the nodes do they differ."""
    model = some_model(seed=seed)
    knots, column = model.curves.knots, (0, 2, 3)[column - 1]
    curve = int(np.flatnonzero(knots.columns == column)[0])
    X = np.random.default_rng(seed).uniform(-0.1, 0.1, (30, 5))
    nodes = knots.of(curve)
    X[:, column] = np.random.default_rng(seed).uniform(nodes[0], nodes[-1], 30)
    W, values = model.directions.W.copy(), model.curves.values.copy()
    values[knots.start[curve] : knots.start[curve + 1]] += np.outer(nodes, W[column])
    W[column] = 0
    other = replace(model, directions=replace(model.directions, W=W), curves=ColumnCurves(knots, values))
    np.testing.assert_allclose(other.decision(X), model.decision(X), rtol=1e-10, atol=1e-10)


def test_curves_side_by_side_are_those_of_each_group_on_the_nodes_of_all():
    rng = np.random.default_rng(0)
    one = curves_of(
        [(3, np.array([0.0, 1.0, 4.0]), rng.standard_normal((3, 2))), (0, np.arange(4.0), np.eye(4)[:, :2])]
    )
    other = curves_of([(0, np.array([-1.0, 1.5, 9.0, 10.0]), rng.standard_normal((4, 3)))])
    third = curves_of(
        [(1, np.array([2.0, 5.0]), rng.standard_normal((2, 1))), (3, np.array([3.0, 6.0]), np.ones((2, 1)))]
    )
    joined = side_by_side([(one, 2), (None, 2), (other, 3), (third, 1)])
    assert joined.knots.columns.tolist() == [0, 1, 3]
    nodes = [[-1, 0, 1, 1.5, 2, 3, 9, 10], [2, 5], [0, 1, 3, 4, 6]]
    assert [joined.knots.of(curve).tolist() for curve in range(3)] == nodes
    X = np.concatenate([rng.uniform(-2, 11, (200, 4)), np.tile(np.arange(-2.0, 11.0)[:, None], 4)])
    expected = np.hstack([one(X), np.zeros((len(X), 2)), other(X), third(X)])
    np.testing.assert_allclose(joined(X), expected, rtol=1e-12, atol=1e-12)
    assert side_by_side([(None, 2), (None, 1)]) is None


def test_curves_are_ordered_by_their_columns():
    tables = [
        (2, np.arange(3.0), np.zeros((3, 1))),
        (0, np.arange(2.0), np.ones((2, 1))),
        (1, np.arange(2.0), 2 * np.eye(2, 1)),
    ]
    found = curves_of(tables)
    assert found.knots.columns.tolist() == [0, 1, 2]
    assert found.values.ravel().tolist() == [1, 1, 2, 0, 0, 0, 0]
    assert curves_of([]) is None
