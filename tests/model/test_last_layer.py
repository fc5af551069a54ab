"""The last layer: its variance by explicit matrices, pruning by refits on the rows, and both in the estimators."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from data import noisy_bounded_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from rflaf import RFLAFRegressor
from rflaf.errors import InvalidParameterError, StopReason
from rflaf.functions.bases import BSplineBasis
from rflaf.functions.curves import ColumnCurves, place_knots
from rflaf.functions.densities import Directions
from rflaf.model.last_layer import LastLayer, unscale
from rflaf.model.normal_equations import NormalEquations
from rflaf.model.random_feature_model import Activation, RandomFeatureModel

each_intercept = pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])
each_sharing = pytest.mark.parametrize("shared", [True, False], ids=["shared", "per_component"])
each_bend = pytest.mark.parametrize("bent", [True, False], ids=["bent", "straight"])
each_output_count = pytest.mark.parametrize("n_outputs", [1, 3])
seeds = st.integers(0, 2**32 - 1)
QUANTILE = 1.6448536269514722  # 5 % of a normal law lie above


def sums(Z, Y, weight=None) -> NormalEquations:
    """The equations of features ``Z`` (n_rows, n_components) and targets ``Y`` (n_rows, n_outputs)."""
    design = np.vstack([Z.T, np.ones(len(Z)), Y.T])
    return NormalEquations.from_design(design if weight is None else design * np.sqrt(weight), Y.shape[1], weight)


def some_layer(
    n_rows: int = 80, n_components: int = 6, n_outputs: int = 2, ridge: float = 0.1, seed: int = 0, **others
):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n_rows, n_components)) * rng.uniform(0.5, 2, n_components) + 1
    Y = Z @ rng.standard_normal((n_components, n_outputs)) + rng.standard_normal((n_rows, n_outputs)) + 5
    weight = others.pop("weight", None)
    return LastLayer(sums(Z, Y, weight), ridge, rng.uniform(1, 2, n_outputs), **others), Z, Y


def some_model(bent: bool, shared: bool, n_outputs: int, width: int = 12, ridge: float = 1e-3, intercept: bool = True):
    """A model whose output weights are the ridge on its own features, with its last layer; and its rows."""
    X, Y = noisy_bounded_rows(n_outputs=n_outputs)
    rng = np.random.default_rng(1)
    directions = Directions(
        rng.standard_normal((3, width)) / 2, rng.standard_normal(width), rng.uniform(0.5, 2, width), width
    )
    knots = place_knots(X, 9)
    curves = ColumnCurves(knots, rng.standard_normal((knots.nodes.size, width)) / 3) if bent else None
    activation = Activation(BSplineBasis(8), rng.standard_normal((1 if shared else width, 8)))
    model = RandomFeatureModel(directions, activation, np.zeros((width, n_outputs)), np.zeros(n_outputs), curves)
    layer = LastLayer(sums(model.features(X), Y), ridge, np.full(n_outputs, 0.09), intercept)
    solution = layer.solve()
    return replace(model, v=solution.v, intercept=solution.intercept, last_layer=layer), X, Y


# The variance


def posterior_variance(Z, weight, n, ridge, noise, intercept, z):
    """noise (1 + z' (Z' W Z + n ridge P)^-1 z) with the intercept as one more, unpenalised feature."""
    if intercept:
        Z, z = np.column_stack([Z, np.ones(len(Z))]), np.column_stack([z, np.ones(len(z))])
    penalty = n * ridge * np.eye(Z.shape[1])
    if intercept:
        penalty[-1, -1] = 0
    inverse = np.linalg.inv(Z.T @ (weight[:, None] * Z) + penalty)
    return (1 + np.einsum("ri,ij,rj->r", z, inverse, z))[:, None] * noise


@each_intercept
@pytest.mark.parametrize("weighted", [False, True], ids=["even", "counts"])
@pytest.mark.parametrize("ridge", [1e-6, 0.3, 50.0])
def test_the_variance_is_that_of_the_posterior_by_explicit_matrices(intercept, weighted, ridge):
    rng = np.random.default_rng(1)
    weight = rng.integers(0, 4, 80).astype(float) if weighted else np.ones(80)
    layer, Z, _ = some_layer(ridge=ridge, intercept=intercept, weight=weight)
    z = 3 * rng.standard_normal((17, 6))
    expected = posterior_variance(Z, weight, weight.sum(), ridge, layer.noise, intercept, z)
    found = layer.variance(z.T)
    assert found.shape == (17, 2)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 8), st.integers(1, 3), st.floats(-4, 2), st.booleans(), seeds)
def test_the_variance_is_above_the_noise_and_falls_towards_it_with_more_rows(
    n_rows, n_components, n_outputs, exponent, intercept, seed
):
    layer, Z, Y = some_layer(n_rows, n_components, n_outputs, 10.0**exponent, seed, intercept=intercept)
    many = replace(layer, equations=sums(np.tile(Z, (100, 1)), np.tile(Y, (100, 1))))
    z = np.random.default_rng(seed).standard_normal((n_components, 9))
    few, sure = layer.variance(z) / layer.noise - 1, many.variance(z) / layer.noise - 1
    assert np.all(few > 0)
    np.testing.assert_allclose(few, 100 * sure, rtol=1e-5)


def test_at_the_mean_of_the_features_only_the_mean_is_unsure():
    layer, Z, _ = some_layer()
    np.testing.assert_allclose(layer.variance(Z.mean(axis=0)[:, None]), [(1 + 1 / 80) * layer.noise], rtol=1e-12)


def test_single_precision_features_have_nearly_the_same_variance():
    layer, Z, _ = some_layer()
    np.testing.assert_allclose(layer.variance(Z.T.astype(np.float32)), layer.variance(Z.T), rtol=1e-5)


@pytest.mark.parametrize("factor", [0.5, 1e-3])
def test_the_unit_of_weights_that_are_no_counts_does_not_matter(factor):
    weight = np.random.default_rng(1).uniform(0.5, 1.5, 80)
    weight /= weight.mean()
    (one, Z, _), (other, _, _) = (some_layer(weight=size * weight) for size in (1, factor))
    np.testing.assert_allclose(other.solve().v, one.solve().v, rtol=1e-9)
    np.testing.assert_allclose(other.variance(Z.T), one.variance(Z.T), rtol=1e-9)


# Units of the targets


@settings(max_examples=30)
@given(st.integers(2, 40), st.integers(1, 6), st.integers(1, 3), st.booleans(), seeds)
def test_equations_of_scaled_targets_become_those_of_the_raw_ones(n_rows, n_components, n_outputs, weighted, seed):
    rng = np.random.default_rng(seed)
    Z, raw = rng.standard_normal((n_rows, n_components)), rng.standard_normal((n_rows, n_outputs))
    weight = rng.exponential(size=n_rows) if weighted else None
    centre, scale = rng.normal(0, 10, n_outputs), 10 ** rng.uniform(-2, 2, n_outputs)
    found = unscale(sums(Z, (raw - centre) / scale, weight), centre, scale)
    expected = sums(Z, raw, weight)
    np.testing.assert_allclose(found.moments, expected.moments, rtol=1e-9, atol=1e-9 * np.abs(expected.moments).max())
    assert (found.n_outputs, found.n_rows, found.whole_weights) == (n_outputs, n_rows, not weighted)


def test_the_equations_of_a_constant_target_are_those_of_its_constant():
    Z = np.random.default_rng(0).standard_normal((20, 3))
    found = unscale(sums(Z, np.zeros((20, 1))), np.array([7.0]), np.zeros(1))
    np.testing.assert_allclose(found.moments, sums(Z, np.full((20, 1), 7.0)).moments, rtol=1e-12)


# Fewer components


@each_intercept
def test_the_solution_is_the_ridge_on_the_rows(intercept):
    layer, Z, Y = some_layer(intercept=intercept)
    solution, ridge = layer.solve(), Ridge(80 * 0.1, fit_intercept=intercept).fit(Z, Y)
    np.testing.assert_allclose(solution.v, ridge.coef_.T, rtol=1e-10)
    np.testing.assert_allclose(solution.intercept, ridge.intercept_ if intercept else 0, rtol=1e-10, atol=1e-12)


@each_intercept
def test_some_components_have_the_noise_of_all_and_what_their_fit_loses(intercept):
    layer, Z, Y = some_layer(intercept=intercept)
    kept = np.array([4, 1])
    fewer = layer.take(kept)

    def mean_square(columns):
        ridge = Ridge(80 * 0.1, fit_intercept=intercept).fit(Z[:, columns], Y)
        return np.mean((Y - ridge.predict(Z[:, columns])) ** 2, axis=0)

    lost = mean_square(kept) - mean_square(np.arange(6))
    assert np.all(lost > 0.1)
    np.testing.assert_allclose(fewer.noise, layer.noise + lost, rtol=1e-9)
    assert (fewer.ridge, fewer.intercept) == (layer.ridge, intercept)
    np.testing.assert_allclose(fewer.equations.moments, sums(Z[:, kept], Y).moments, rtol=1e-12)


@each_intercept
@each_bend
@each_sharing
@each_output_count
@pytest.mark.parametrize("n_components", [1, 5, 12])
def test_a_pruned_model_is_the_ridge_on_the_features_it_keeps(bent, shared, n_outputs, intercept, n_components):
    model, X, Y = some_model(bent, shared, n_outputs, intercept=intercept)
    pruned = model.prune(n_components)
    kept = model.last_layer.path.order[:n_components]
    features = model.features(X)[:, kept]
    np.testing.assert_allclose(pruned.features(X), features, rtol=1e-10, atol=1e-12)
    ridge = Ridge(300 * 1e-3, fit_intercept=intercept).fit(features, Y)
    expected = ridge.predict(features).reshape(Y.shape)
    np.testing.assert_allclose(pruned.v, ridge.coef_.reshape(n_outputs, -1).T, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(pruned.decision(X), expected, rtol=0, atol=1e-8 * np.abs(Y).max())
    assert (pruned.n_components, pruned.n_outputs, pruned.n_features) == (n_components, n_outputs, 3)
    assert (pruned.curves is None) == (model.curves is None)


@each_bend
@each_sharing
def test_a_model_pruned_to_its_own_width_predicts_the_same(bent, shared):
    model, X, _ = some_model(bent, shared, 2)
    np.testing.assert_allclose(model.prune(12).decision(X), model.decision(X), rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.prune(12).deviation(X), model.deviation(X), rtol=1e-9)


def test_narrower_models_are_nested_in_wider_ones():
    model, X, _ = some_model(True, False, 2)
    whole = model.features(X)
    before: list[int] = []
    for n_components in range(1, 13):
        pruned = model.prune(n_components)
        order = [int(np.abs(whole - column[:, None]).max(axis=0).argmin()) for column in pruned.features(X).T]
        assert order[:-1] == before
        assert len(set(order)) == n_components
        before = order


def test_the_objective_never_rises_with_the_width():
    model, X, Y = some_model(True, False, 1)
    objectives = []
    for n_components in range(1, 13):
        pruned = model.prune(n_components)
        objectives.append(np.mean((Y - pruned.decision(X)) ** 2) + 1e-3 * np.sum(pruned.v**2))
    assert np.all(np.diff(objectives) <= 1e-10)
    path = model.last_layer.path.errors[1:]
    np.testing.assert_allclose(objectives / objectives[0], path / path[0], rtol=1e-8)


def test_the_first_component_is_the_best_one():
    model, X, Y = some_model(False, False, 1)
    Z = model.features(X)

    def objective(m):
        ridge = Ridge(300 * 1e-3).fit(Z[:, [m]], Y[:, 0])
        return np.mean((Y[:, 0] - ridge.predict(Z[:, [m]])) ** 2) + 1e-3 * ridge.coef_[0] ** 2

    assert model.last_layer.path.order[0] == np.argmin([objective(m) for m in range(12)])


def test_a_pruned_model_can_be_pruned_again():
    model, X, _ = some_model(True, False, 1)
    np.testing.assert_allclose(model.prune(8).prune(3).decision(X), model.prune(3).decision(X), rtol=1e-9, atol=1e-9)


def test_components_that_repeat_others_are_not_kept():
    """Without a ridge a copy adds nothing, and fewer components remain than were asked for."""
    rng = np.random.default_rng(0)
    W = np.repeat(rng.standard_normal((3, 4)), 2, axis=1)
    X, Y = noisy_bounded_rows()
    a = np.repeat(rng.standard_normal((4, 8)), 2, axis=0)
    directions, activation = Directions(W, np.zeros(8), np.ones(8), 8), Activation(BSplineBasis(8), a)
    model = RandomFeatureModel(directions, activation, np.zeros((8, 1)), np.zeros(1))
    model = replace(model, last_layer=LastLayer(sums(model.features(X), Y), 0.0, np.ones(1)))
    pruned = model.prune(8)
    assert pruned.n_components == 4
    design = np.column_stack([model.features(X)[:, ::2], np.ones(300)])
    expected = design @ np.linalg.lstsq(design, Y)[0]
    np.testing.assert_allclose(pruned.decision(X), expected, rtol=0, atol=1e-8)


def test_a_model_of_constant_features_without_a_ridge_can_be_pruned():
    X, y = np.ones((300, 2)), np.random.default_rng(0).standard_normal(300)
    model = RFLAFRegressor.convex(5, alpha=0.0, pool_size=20, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.prune(1).predict(X), y.mean(), rtol=1e-9)


def test_the_unit_of_an_output_does_not_matter_to_which_components_are_kept():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((200, 6))
    Y = np.column_stack([Z[:, 0] + 0.1 * Z[:, 2], Z[:, 1] + 0.1 * Z[:, 3]]) + 0.01 * rng.standard_normal((200, 2))
    orders = [LastLayer(sums(Z, Y * unit), 1e-6, np.ones(2)).path.order for unit in ([1, 1], [1, 1000])]
    assert set(orders[0][:2]) == {0, 1}
    assert set(orders[1][:2]) == {0, 1}


@pytest.mark.parametrize("n_components", [0, -1, 13])
def test_a_width_out_of_range_is_refused(n_components):
    model, _, _ = some_model(False, True, 1)
    with pytest.raises(InvalidParameterError, match="n_components must be between 1 and the model's 12"):
        model.prune(n_components)


def test_a_model_without_the_sums_can_neither_be_pruned_nor_asked_how_sure_it_is():
    model, X, _ = some_model(False, True, 1)
    bare = replace(model, last_layer=None)
    with pytest.raises(ValueError, match="without the sums of its last layer"):
        bare.prune(3)
    with pytest.raises(ValueError, match="without the sums of its last layer"):
        bare.deviation(X)


# Deviations of a model


@each_bend
@each_sharing
@each_intercept
def test_the_deviation_is_the_root_of_the_posterior_variance(bent, shared, intercept):
    model, X, _ = some_model(bent, shared, 2, intercept=intercept)
    new = np.random.default_rng(5).uniform(-3, 3, (1500, 3))
    variance = posterior_variance(
        model.features(X), np.ones(300), 300, 1e-3, model.last_layer.noise, intercept, model.features(new)
    )
    found = model.deviation(new)
    assert found.shape == (1500, 2)
    np.testing.assert_allclose(found, np.sqrt(variance), rtol=1e-8)


@each_bend
def test_deviations_of_sparse_rows_equal_those_of_dense_rows(bent):
    model, X, _ = some_model(bent, False, 2)
    X = X * (np.abs(X) > 1)
    np.testing.assert_allclose(model.deviation(sp.csr_array(X)), model.deviation(X), rtol=1e-10)
    np.testing.assert_allclose(model.deviation(X.astype(np.float32)), model.deviation(X), rtol=1e-3)


def test_a_last_layer_is_pickled_after_use():
    model, X, _ = some_model(True, False, 2)
    fresh = len(pickle.dumps(model.last_layer))
    expected, narrow = model.deviation(X), model.prune(4).decision(X)
    layer = pickle.loads(pickle.dumps(model.last_layer))
    z = model.features(X).T
    np.testing.assert_array_equal(layer.variance(z), model.last_layer.variance(z))
    assert len(pickle.dumps(model.last_layer)) < fresh + 2000  # no factor of the system goes along
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(restored.deviation(X), expected, rtol=1e-12)
    np.testing.assert_allclose(restored.prune(4).decision(X), narrow, rtol=1e-12)


# The importance of columns


def plain_model(W, v=None, curves=None) -> RandomFeatureModel:
    """Components whose activations are the identity over (-50, 50)."""
    W = np.asarray(W, float)
    n_components = W.shape[1]
    basis = BSplineBasis(5, 1, (-50.0, 50.0))
    return RandomFeatureModel(
        Directions(W, np.zeros(n_components), np.ones(n_components), n_components),
        Activation(basis, np.linspace(-50, 50, 5)[None]),
        np.ones((n_components, 1)) if v is None else v,
        np.zeros(1),
        curves,
    )


def test_in_a_linear_model_a_column_counts_by_its_spread_times_its_weight():
    X = np.random.default_rng(0).standard_normal((400, 3)) * [1.0, 5.0, 0.2] + 3
    model = plain_model([[1.0], [0.4], [0.0]])
    part = X.std(axis=0) * [1, 0.4, 0]
    np.testing.assert_allclose(model.column_importance(X), part / part.sum(), rtol=1e-6)


def test_components_count_by_how_much_they_move_the_model():
    X = np.random.default_rng(0).standard_normal((400, 2))
    v = np.array([[3.0, 4.0], [0.0, 1.0]])  # one component a column, two outputs
    model = replace(plain_model(np.eye(2), v=v), intercept=np.zeros(2))
    part = X.std(axis=0) * [5, 1]
    np.testing.assert_allclose(model.column_importance(X), part / part.sum(), rtol=1e-6)


def test_a_curve_counts_together_with_its_line():
    """Column 1 enters by a curve that undoes its line: it has no effect, and no importance."""
    X = np.random.default_rng(0).integers(0, 5, (300, 2)).astype(float)
    knots = place_knots(X)
    values = np.zeros((10, 1))
    values[5:, 0] = -np.arange(5.0)
    values[:5, 0] = np.arange(5.0) ** 2
    model = plain_model(np.array([[0.0], [1.0]]), curves=ColumnCurves(knots, values))
    np.testing.assert_allclose(model.column_importance(X), [1, 0], atol=1e-6)


@settings(max_examples=20)
@given(st.booleans(), seeds)
def test_shares_sum_to_one_whatever_the_units_of_the_columns(bent, seed):
    model, X, _ = some_model(bent, False, 2)
    shares = model.column_importance(X)
    assert shares.min() > 0
    assert shares.sum() == pytest.approx(1)
    unit = 10.0 ** np.random.default_rng(seed).integers(-3, 4, 3)
    directions = replace(model.directions, W=model.directions.W / unit[:, None])
    curves = None
    if bent:
        knots = model.curves.knots
        column = np.repeat(knots.columns, np.diff(knots.start))
        curves = ColumnCurves(replace(knots, nodes=knots.nodes * unit[column]), model.curves.values)
    other = replace(model, directions=directions, curves=curves)
    np.testing.assert_allclose(other.column_importance(X * unit), shares, rtol=1e-6)


def test_a_model_that_never_moves_has_no_important_column():
    X = np.random.default_rng(0).standard_normal((50, 2))
    np.testing.assert_array_equal(plain_model(np.zeros((2, 3))).column_importance(X), 0)
    np.testing.assert_array_equal(plain_model(np.eye(2)).column_importance(np.ones((50, 2))), 0)


# Estimators


@pytest.fixture(scope="module", params=["refined", "convex", "paper"])
def fitted(request):
    X, Y = noisy_bounded_rows(600)
    make = {"refined": RFLAFRegressor, "convex": RFLAFRegressor.convex, "paper": RFLAFRegressor.paper}[request.param]
    others = {"alpha": 1e-4} if request.param == "refined" else {"pool_size": 200}
    return make(20, random_state=0, **others).fit(X, Y[:, 0]), X, Y[:, 0]


def test_predictions_come_with_deviations_of_the_same_shape(fitted):
    model, X, _ = fitted
    mean, deviation = model.predict(X, return_std=True)
    assert mean.shape == deviation.shape == (600,)
    np.testing.assert_array_equal(mean, model.predict(X))
    assert np.all(deviation > 0.2)


@pytest.mark.parametrize("make", [RFLAFRegressor, RFLAFRegressor.convex])
def test_several_outputs_have_a_deviation_each(make):
    X, Y = noisy_bounded_rows(600, 2)
    Y[:, 1] += np.random.default_rng(7).standard_normal(600)
    model = make(20, random_state=0).fit(X, Y)
    mean, deviation = model.predict(X[:50], return_std=True)
    assert mean.shape == deviation.shape == (50, 2)
    assert np.all(deviation[:, 1] > 2 * deviation[:, 0])


def test_a_fit_pruned_to_its_own_width_is_the_fit_itself(fitted):
    """Of a convex fit as well: its activations are those of the optimum, whose output weights no ridge can better."""
    model, X, _ = fitted
    pruned = model.prune(model.n_components_)
    assert pruned.n_components_ == model.n_components_
    np.testing.assert_allclose(pruned.predict(X), model.predict(X), rtol=0, atol=1e-7)


def test_a_pruned_estimator_is_a_ridge_on_the_features_it_keeps(fitted):
    """Of trained features the targets are those that the trained weights answer: what they say and ridge v."""
    model, X, y = fitted
    pruned = model.prune(6)
    assert (pruned.n_components_, pruned.output_weights_.shape, pruned.directions_.shape) == (6, (6,), (3, 6))
    assert model.n_components_ > 6
    features, ridge = pruned.transform(X), model.model_.last_layer.ridge
    trained = model.stop_reason_ is StopReason.TRAINED
    target = model.predict(X) if trained else y
    pulled = ridge * model.output_weights_[model.model_.last_layer.path.order[:6]] if trained else np.zeros(6)
    Z = features - features.mean(axis=0)
    v = np.linalg.solve(Z.T @ Z / 600 + ridge * np.eye(6), Z.T @ target / 600 + pulled)
    np.testing.assert_allclose(pruned.predict(X), target.mean() + Z @ v, rtol=0, atol=1e-7)


def test_a_pruned_estimator_is_less_sure(fitted):
    model, X, _ = fitted
    wide, narrow = (each.predict(X, return_std=True)[1] for each in (model, model.prune(1)))
    assert narrow.mean() > 1.03 * wide.mean()


@pytest.mark.parametrize("n_components", [0, 1000])
def test_an_estimator_refuses_a_width_out_of_range(fitted, n_components):
    with pytest.raises(InvalidParameterError, match="n_components must be between 1 and"):
        fitted[0].prune(n_components)


@pytest.mark.slow
@pytest.mark.parametrize("make", [RFLAFRegressor, RFLAFRegressor.convex], ids=["refined", "convex"])
def test_nine_of_ten_new_observations_are_in_their_interval(make):
    coverage = []
    for seed in range(3):
        X, Y = noisy_bounded_rows(3600, seed=seed)
        model = make(30, random_state=seed).fit(X[:600], Y[:600, 0])
        mean, deviation = model.predict(X[600:], return_std=True)
        coverage.append(np.mean(np.abs(Y[600:, 0] - mean) <= QUANTILE * deviation))
    assert 0.85 <= np.mean(coverage) <= 0.95
