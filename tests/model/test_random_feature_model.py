"""The fitted model against the sum it stands for, and against itself through every way of asking."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import rflaf.model.random_feature_model
from rflaf.functions.bases import BSplineBasis, RBFBasis
from rflaf.functions.curves import ColumnCurves, Knots, place_knots
from rflaf.functions.densities import Directions
from rflaf.functions.smooth_bases import FixedActivation
from rflaf.model.random_feature_model import Activation, RandomFeatureModel

BASES = (BSplineBasis(12), BSplineBasis(9, degree=1), RBFBasis(12))

each_basis = pytest.mark.parametrize("basis", BASES, ids=["bspline", "linear", "rbf"])
each_sharing = pytest.mark.parametrize("shared", [True, False], ids=["shared", "per_component"])
each_dtype = pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
seeds = st.integers(0, 2**32 - 1)


def some_model(
    basis=BASES[0], n_features: int = 4, n_components: int = 10, n_outputs: int = 2, shared: bool = True, seed: int = 0
) -> RandomFeatureModel:
    rng = np.random.default_rng(seed)
    directions = Directions(
        rng.standard_normal((n_features, n_components)) / np.sqrt(n_features),
        0.3 * rng.standard_normal(n_components),
        rng.uniform(0.5, 2, n_components),
        n_components,
    )
    coefficients = rng.standard_normal((1 if shared else n_components, basis.n_basis))
    v = rng.standard_normal((n_components, n_outputs))
    return RandomFeatureModel(directions, Activation(basis, coefficients), v, rng.standard_normal(n_outputs))


def some_inputs(n_rows: int = 50, n_features: int = 4, seed: int = 1):
    return np.random.default_rng(seed).standard_normal((n_rows, n_features))


def decision_by_definition(model: RandomFeatureModel, X):
    """b + sum_m q_m v_m sigma_m(w_m . x + b_m), one component after the other."""
    total = np.tile(model.intercept, (X.shape[0], 1))
    coefficients = np.broadcast_to(model.activation.coefficients, (model.n_components, model.activation.basis.n_basis))
    for m in range(model.n_components):
        u = X @ model.directions.W[:, m] + model.directions.offset[m]
        sigma = model.activation.basis.values(u) @ coefficients[m]
        total += model.directions.importance[m] * np.outer(sigma, model.v[m])
    return total


# The decision


@each_basis
@each_sharing
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_the_decision_is_the_sum_over_components(basis, shared, n_outputs):
    model, X = some_model(basis, n_outputs=n_outputs, shared=shared), some_inputs()
    np.testing.assert_allclose(model.decision(X), decision_by_definition(model, X), rtol=1e-6, atol=1e-5)


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 11), st.integers(1, 3), st.booleans(), seeds)
def test_the_decision_is_features_times_coefficients(n_rows, n_features, n_components, n_outputs, shared, seed):
    model = some_model(BASES[0], n_features, n_components, n_outputs, shared, seed)
    X = some_inputs(n_rows, n_features, seed)
    expected = model.features(X) @ model.v + model.intercept
    np.testing.assert_allclose(model.decision(X), expected, rtol=1e-11, atol=1e-11)


@each_basis
@each_sharing
def test_features_are_the_activation_of_the_projections(basis, shared):
    model, X = some_model(basis, shared=shared), some_inputs(1500)
    u = X @ model.directions.W + model.directions.offset
    values = model.activation(u) if shared else np.einsum("mrm->rm", model.activation(u))
    np.testing.assert_allclose(model.features(X), values * model.directions.importance, rtol=1e-6, atol=1e-5)


@each_basis
@each_dtype
def test_sparse_rows_equal_dense_rows(basis, dtype):
    model, X = some_model(basis), some_inputs(1300).astype(dtype)
    X[np.abs(X) < 0.7] = 0
    rtol = 1e-10 if dtype == np.float64 else 1e-4
    sparse = sp.csr_array(X)
    np.testing.assert_allclose(model.decision(sparse), model.decision(X), rtol=rtol, atol=rtol)
    np.testing.assert_allclose(model.features(sparse), model.features(X), rtol=rtol, atol=rtol)


@each_basis
@each_sharing
def test_single_precision_is_near_double_precision(basis, shared):
    model, X = some_model(basis, shared=shared), some_inputs(200).astype(np.float32)
    single = model.decision(X)
    assert single.dtype == model.features(X).dtype == np.float32
    np.testing.assert_allclose(single, model.decision(X.astype(np.float64)), atol=1e-4)


@each_basis
@each_dtype
@each_sharing
def test_one_row_is_predicted_as_in_a_batch(basis, dtype, shared):
    model, X = some_model(basis, n_components=13, shared=shared), some_inputs(97).astype(dtype)
    batch = model.decision(X)
    for i in (0, 1, 23, 24, 96):
        np.testing.assert_array_equal(model.decision(X[i : i + 1])[0], batch[i])


@each_dtype
@pytest.mark.parametrize("n_jobs", [2, 3, 5])
def test_threads_predict_the_same_bits(monkeypatch, dtype, n_jobs):
    model, X = some_model(n_components=13), some_inputs(1001).astype(dtype)
    sparse = sp.csr_array(np.where(X > 0.5, X, 0))
    alone = model.decision(X, n_jobs=1), model.decision(sparse, n_jobs=1)
    monkeypatch.setattr(rflaf.model.random_feature_model, "_THREAD_WORK", 100)
    np.testing.assert_array_equal((model.decision(X, n_jobs=n_jobs), model.decision(sparse, n_jobs=n_jobs)), alone)


def test_a_large_batch_is_predicted_by_threads(monkeypatch):
    model, X = some_model(n_components=13, n_outputs=1), some_inputs(200)
    started = []
    monkeypatch.setattr(rflaf.model.random_feature_model, "_THREAD_WORK", 200 * 13 // 2)
    monkeypatch.setattr(
        rflaf.model.random_feature_model, "_predict_in_threads", lambda *arguments: started.append(arguments[-1])
    )
    model.decision(X, n_jobs=8)
    model.decision(X[:100], n_jobs=8)
    model.decision(X, n_jobs=1)
    assert started == [2]


@pytest.mark.slow
def test_the_order_of_the_rows_in_memory_does_not_matter():
    model, X = some_model(), some_inputs()
    np.testing.assert_array_equal(model.decision(np.asfortranarray(X)), model.decision(X))
    np.testing.assert_array_equal(model.decision(np.repeat(X, 2, axis=0)[::2]), model.decision(X))


def test_no_rows_give_no_predictions():
    for model in (some_model(), bent(some_model(), [0])):
        assert model.decision(np.empty((0, 4))).shape == model.decision(sp.csr_array((0, 4))).shape == (0, 2)
    assert some_model().features(np.empty((0, 4))).shape == (0, 10)


@each_basis
@each_dtype
@each_sharing
def test_the_model_is_bounded_far_away(basis, dtype, shared):
    model = some_model(basis, shared=shared)
    far = (1e9 * some_inputs(200)).astype(dtype)
    coefficients = np.broadcast_to(model.activation.coefficients, (model.n_components, basis.n_basis))
    sup = np.abs(basis.values(np.linspace(-4, 4, 2001)) @ coefficients.T).max(axis=0)
    bound = np.abs(model.intercept) + (model.directions.importance * sup) @ np.abs(model.v)
    assert np.all(np.abs(model.decision(far)) <= bound * 1.001)


def test_an_rbf_model_far_away_is_its_intercept():
    model = some_model(BASES[2])
    np.testing.assert_allclose(model.decision(1e9 * some_inputs()), np.tile(model.intercept, (50, 1)), atol=1e-8)


# Columns far from zero


def moved(model: RandomFeatureModel, centre, scale) -> RandomFeatureModel:
    """The model of rows x * scale + centre."""
    curves = model.curves
    if curves is not None:
        repeats = np.diff(curves.knots.start)
        stretch, shift = (np.repeat(part[curves.knots.columns], repeats) for part in (scale, centre))
        curves = replace(curves, knots=replace(curves.knots, nodes=curves.knots.nodes * stretch + shift))
    return replace(model, directions=model.directions.fold(centre, scale), curves=curves)


def bent(model: RandomFeatureModel, columns) -> RandomFeatureModel:
    """The model with curves on some columns."""
    rng = np.random.default_rng(0)
    knots = place_knots(rng.standard_normal((300, model.n_features)))
    kept = np.isin(knots.columns, columns)
    nodes = np.concatenate([knots.of(curve) for curve in np.flatnonzero(kept)])
    start = np.cumsum([0, *np.diff(knots.start)[kept]])
    values = 0.3 * rng.standard_normal((nodes.size, model.n_components))
    return replace(model, curves=ColumnCurves(Knots(knots.columns[kept], start, nodes), values))


def spread_of_error(model: RandomFeatureModel, X) -> float:
    """Largest difference of the decision in single precision from that in double, over the spread of the latter."""
    expected = model.decision(X.astype(np.float64))
    return float(np.max(np.abs(model.decision(X) - expected) / expected.std(axis=0)))


CURVED = {"straight": None, "bent": [0, 1, 2, 3], "some bent": [0, 3], "others bent": [1, 2]}


@pytest.mark.parametrize("columns", CURVED.values(), ids=CURVED)
@each_basis
def test_columns_far_from_zero_keep_their_digits_in_single_precision(basis, columns):
    centre, scale = np.array([1e5, 0.0, -3e3, 7.0]), np.array([1.0, 1.0, 0.1, 1e-3])
    model = some_model(basis, n_components=12, shared=False)
    model = moved(model if columns is None else bent(model, columns), centre, scale)
    X = (some_inputs(400) * scale + centre).astype(np.float32)
    assert model.feature_map(np.float32).centre is not None
    assert spread_of_error(model, X) < 2e-5
    np.testing.assert_allclose(model.features(X), model.features(X.astype(np.float64)), atol=2e-5)


@pytest.mark.parametrize("columns", CURVED.values(), ids=CURVED)
@pytest.mark.parametrize("centre", [np.zeros(4), np.array([1e5, 0.0, -3e3, 7.0])], ids=["near", "far"])
def test_sparse_rows_predict_as_dense_ones_where_zeros_move(columns, centre, monkeypatch):
    monkeypatch.setattr(rflaf.model.random_feature_model, "_BLOCK_ENTRIES", 100)
    model = some_model(n_components=12, shared=False)
    model = moved(model if columns is None else bent(model, columns), centre, np.ones(4))
    kept = np.random.default_rng(0).random((90, 4)) < 0.8
    X = np.where(kept, some_inputs(90) + centre, 0).astype(np.float32)
    if columns is None and not centre.any():
        np.testing.assert_allclose(model.decision(sp.csr_array(X)), model.decision(X), atol=1e-4)
    else:
        np.testing.assert_array_equal(model.decision(sp.csr_array(X)), model.decision(X))


@settings(max_examples=30)
@given(st.floats(0, 5), st.floats(-3, 3), st.integers(1, 4), st.integers(8, 20), seeds)
def test_a_shift_of_any_size_costs_no_digits(shift, scale, n_features, n_components, seed):
    """Of rows that single precision tells apart, by components enough to tell where they are."""
    rng = np.random.default_rng(seed)
    scales = 10 ** (scale * rng.uniform(0, 1, n_features))
    centre = scales * rng.choice([-1, 1], n_features) * 10**shift
    model = moved(some_model(n_features=n_features, n_components=n_components, seed=seed), centre, scales)
    X = (some_inputs(60, n_features) * scales + centre).astype(np.float32)
    error = np.abs(model.decision(X) - model.decision(X.astype(np.float64))).max(axis=0)
    largest = model.directions.importance @ np.abs(model.v) * np.abs(model.activation.coefficients).max()
    assert np.all(error <= 1e-4 * largest)


@pytest.mark.parametrize("columns", CURVED.values(), ids=CURVED)
def test_rows_near_zero_or_in_double_precision_are_taken_as_they_are(columns):
    model = some_model() if columns is None else bent(some_model(), columns)
    near = moved(model, np.full(4, 5.0), np.full(4, 2.0))
    assert near.feature_map(np.float32).centre is None
    assert moved(model, np.full(4, 1e6), np.ones(4)).feature_map(np.float64).centre is None


def test_a_centre_beyond_single_precision_is_not_taken():
    model = moved(some_model(), np.full(4, 1e63), np.full(4, 1e60))
    X = some_inputs().astype(np.float32)
    np.testing.assert_allclose(model.decision(X), model.decision(X.astype(np.float64)), rtol=1e-5)


def test_without_any_column_there_is_no_centre():
    model = some_model()
    far = replace(model.directions, W=np.zeros((4, 10)), offset=np.full(10, 1e4))
    assert replace(model, directions=far).feature_map(np.float32).centre is None


# The gradient


@each_basis
@each_sharing
def test_the_gradient_equals_finite_differences(basis, shared):
    model, X = some_model(basis, shared=shared), 0.5 * some_inputs(30)
    step = 1e-5
    expected = np.stack(
        [(model.decision(X + step * e) - model.decision(X - step * e)) / (2 * step) for e in np.eye(4)], axis=-1
    )
    gradient = model.gradient(X)
    assert gradient.shape == (30, 2, 4)
    np.testing.assert_allclose(gradient, expected, atol=2e-4 * np.abs(expected).max())


def test_the_activations_are_read_at_the_projections():
    model, X = some_model(), some_inputs()
    at = model.activation.basis.values(model.projections(X))
    a = np.broadcast_to(model.activation.coefficients, at.shape[1:])
    features = np.einsum("rmi,mi->rm", at, a) * model.directions.importance
    np.testing.assert_allclose(features, model.features(X), atol=1e-6 * np.abs(features).max())


def test_the_gradient_is_taken_block_by_block():
    model, X = some_model(), some_inputs(2500)
    whole = model.gradient(X)
    np.testing.assert_allclose(model.gradient(X[2300:2310]), whole[2300:2310], rtol=1e-10, atol=1e-12)


def test_the_gradient_vanishes_far_away():
    np.testing.assert_array_equal(some_model().gradient(1e9 * some_inputs()), 0)


# Invariances


@settings(max_examples=30)
@given(st.floats(-3, 3).map(lambda exponent: 10.0**exponent), st.booleans(), seeds)
def test_the_gauge_leaves_predictions_unchanged(factor, shared, seed):
    model, X = some_model(shared=shared, seed=seed), some_inputs(seed=seed)
    activation = Activation(model.activation.basis, factor * model.activation.coefficients)
    other = RandomFeatureModel(model.directions, activation, model.v / factor, model.intercept)
    np.testing.assert_allclose(other.decision(X), model.decision(X), rtol=1e-10, atol=1e-10)


@settings(max_examples=30)
@given(st.booleans(), seeds)
def test_permuting_the_components_leaves_predictions_unchanged(shared, seed):
    model, X = some_model(shared=shared, seed=seed), some_inputs(seed=seed)
    order = np.random.default_rng(seed).permutation(10)
    coefficients = model.activation.coefficients if shared else model.activation.coefficients[order]
    activation = Activation(model.activation.basis, coefficients)
    other = RandomFeatureModel(model.directions.take(order), activation, model.v[order], model.intercept)
    np.testing.assert_allclose(other.decision(X), model.decision(X), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(other.features(X), model.features(X)[:, order], rtol=1e-10, atol=1e-10)


@each_basis
@each_sharing
@each_dtype
def test_a_pickled_model_predicts_the_same_bits(basis, shared, dtype):
    model, X = some_model(basis, shared=shared), some_inputs(200).astype(dtype)
    before = model.decision(X)
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.decision(X), before)
    np.testing.assert_array_equal(restored.features(X), model.features(X))


def test_a_pickle_carries_no_compiled_tables():
    model = some_model(RBFBasis(12))
    fresh = len(pickle.dumps(model))
    model.decision(some_inputs())
    assert len(pickle.dumps(model)) == fresh


# The activation


@each_basis
def test_the_slope_of_an_activation_equals_finite_differences(basis):
    activation, z = some_model(basis).activation, np.linspace(-2.9, 2.9, 38)
    expected = (activation(z + 1e-6) - activation(z - 1e-6)) / 2e-6
    np.testing.assert_allclose(activation.slope(z), expected, atol=1e-6 * np.abs(expected).max())


def test_an_activation_keeps_the_shape_of_its_argument():
    shared, separate = some_model().activation, some_model(shared=False).activation
    assert shared(0.5).shape == ()
    assert shared(np.zeros((3, 2))).shape == shared.slope(np.zeros((3, 2))).shape == (3, 2)
    assert separate(np.zeros((3, 2))).shape == (10, 3, 2)


def test_the_standard_error_is_the_root_of_the_quadratic_form():
    basis, rng = BASES[0], np.random.default_rng(0)
    root = rng.standard_normal((12, 12))
    activation = Activation(basis, rng.standard_normal((1, 12)), root @ root.T)
    z = np.linspace(-4, 4, 20).reshape(4, 5)
    expected = np.linalg.norm(basis.values(z) @ root, axis=-1)
    np.testing.assert_allclose(activation.standard_error(z), expected, rtol=1e-10)


def test_only_a_learned_shared_activation_has_a_standard_error():
    with pytest.raises(ValueError, match="only a learned shared activation has a standard error"):
        some_model().activation.standard_error(0.0)


# What it says of itself


def test_a_model_describes_itself_in_plain_values():
    assert some_model().describe() == {
        "n_features": 4, "n_components": 10, "n_outputs": 2, "form": "interacting", "activations": 1,
        "basis": "BSplineBasis", "n_basis": 12, "interval": (-3.0, 3.0),
        "curved_columns": 0,
    }  # fmt: skip
    assert some_model(RBFBasis(5), shared=False).describe()["activations"] == 10
    assert some_model(RBFBasis(5)).describe()["basis"] == "RBFBasis"


def test_a_model_says_which_form_it_has():
    model = some_model()
    W = np.eye(4)[:, np.arange(10) % 4]
    additive = replace(model, directions=replace(model.directions, W=W))
    assert additive.describe()["form"] == "additive"
    assert replace(model, v=0 * model.v).describe()["form"] == "constant"
    assert some_model(FixedActivation("identity")).describe()["form"] == "linear"
    knots = Knots(np.array([0]), np.array([0, 2]), np.array([-1.0, 1.0]))
    for rise, form in ((0.0, "additive"), (1.0, "interacting")):
        curves = ColumnCurves(knots, np.outer([0.0, rise], np.ones(10)))
        assert replace(additive, curves=curves).describe()["form"] == form
    unused = np.where(np.arange(10)[:, None] == 0, 0.0, model.v)
    W = np.where(np.arange(10) == 0, 1.0, W)
    one_joint = replace(additive, directions=replace(model.directions, W=W))
    assert one_joint.describe()["form"] == "interacting"
    assert replace(one_joint, v=unused).describe()["form"] == "additive"
