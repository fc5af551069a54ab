"""One activation a component: the ridge on an explicit design, its limits, and the estimators that use it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp
from data import sine_rows_in_unlike_units
from hypothesis import given, settings
from hypothesis import strategies as st
from settings import CONVEX, convex_regressor
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from rflaf import GreedySelection, LeverageSampling, RandomActivationFeatures, RFLAFRegressor
from rflaf.errors import StopReason
from rflaf.functions.bases import Basis, BSplineBasis, RBFBasis
from rflaf.functions.densities import Directions, Gaussian, draw
from rflaf.model.features import RowFeatures
from rflaf.rows.blocks import ArraySource
from rflaf.rows.executors import ThreadExecutor
from rflaf.training.solvers.per_component import expand, smoothing_coordinates

PLAIN = {}
LEVERAGE = {"sampling": LeverageSampling(60)}
GREEDY = {"sampling": GreedySelection(60)}
SAMPLINGS = {"plain": PLAIN, "leverage": LEVERAGE, "greedy": GREEDY}

each_sampling = pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
each_intercept = pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])
each_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])
only_steps_may_run_out = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def penalty(basis: Basis) -> np.ndarray:
    """One per cent of the squared coefficients and 99 of their squared second differences."""
    differences = np.diff(np.eye(basis.n_basis), 2, axis=0)
    return 0.01 * np.eye(basis.n_basis) + 0.99 * differences.T @ differences


def inverse_root(P: np.ndarray) -> np.ndarray:
    """The symmetric P^(-1/2): other coordinates than those of the package, with the same ridge."""
    values, vectors = np.linalg.eigh(P)
    return vectors / np.sqrt(values) @ vectors.T


def explicit_design(model: RFLAFRegressor, X: np.ndarray) -> np.ndarray:
    """q_m B_i(w_m . x + b_m): (n_rows, n_components, n_basis)."""
    directions = model.model_.directions
    values = model.activation_.basis.values(X @ directions.W + directions.offset)
    return values * directions.importance[:, None]


def coefficients(model: RFLAFRegressor) -> np.ndarray:
    """v_m a_m of one output: (n_components, n_basis)."""
    return model.output_weights_[:, None] * model.activation_.coefficients


def explicit_ridge(model: RFLAFRegressor, X, y, weight=None):
    """Coefficients (n_components, n_basis) and intercept of scikit-learn's ridge on the explicit design."""
    B, total = explicit_design(model, X), len(y) if weight is None else weight.sum()
    T = inverse_root(penalty(model.activation_.basis))
    ridge = Ridge(model.alpha * model.model_.directions.n_draws * total, fit_intercept=model.fit_intercept)
    ridge.fit((B @ T).reshape(len(y), -1), y, sample_weight=weight)
    return ridge.coef_.reshape(B.shape[1:]) @ T, ridge.intercept_


# Coordinates


@pytest.mark.parametrize("basis", [BSplineBasis(4), BSplineBasis(16), BSplineBasis(7, 1), RBFBasis(2), RBFBasis(9)])
def test_in_the_smoothing_coordinates_the_penalty_is_a_plain_ridge(basis):
    T = smoothing_coordinates(basis)
    np.testing.assert_allclose(T.T @ penalty(basis) @ T, np.eye(basis.n_basis), atol=1e-11)
    np.testing.assert_allclose(T @ T.T, np.linalg.inv(penalty(basis)), rtol=1e-9, atol=1e-9)


@each_dtype
@pytest.mark.parametrize("basis", [BSplineBasis(4), BSplineBasis(12), RBFBasis(5)], ids=repr)
def test_expanded_features_are_the_basis_in_the_smoothing_coordinates(dtype, basis):
    rng = np.random.default_rng(0)
    directions = Directions(2 * rng.standard_normal((3, 5)), rng.standard_normal(5), np.ones(5), 5)
    X = rng.standard_normal((41, 3)).astype(dtype)
    expanded = expand(directions, basis, dtype)
    assert (expanded.n_components, expanded.dtype) == (5 * basis.n_basis, dtype)
    values = basis.values(X @ directions.W + directions.offset) @ smoothing_coordinates(basis)
    expected = values.reshape(41, -1).T
    size = np.abs(smoothing_coordinates(basis)).sum(axis=0).max()
    bound = size * (1e-7 if isinstance(basis, RBFBasis) else 1e-13) + (1e-4 * size if dtype == np.float32 else 0)
    for rows in (X, sp.csr_array(X)):
        out = np.full(expected.shape, np.nan, dtype)
        assert expanded.features(rows, out) is out
        np.testing.assert_allclose(out, expected, rtol=0, atol=bound)


# The convex problem


@each_intercept
@each_sampling
@pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])
@pytest.mark.parametrize("alpha", [1e-5, 1e-1])
def test_the_fit_is_the_ridge_on_the_explicit_design(sampling, intercept, weighted, alpha):
    X, y = sine_rows_in_unlike_units()
    weight = np.random.default_rng(1).exponential(size=len(y)) if weighted else None
    model = convex_regressor(alpha=alpha, fit_intercept=intercept, **sampling).fit(X, y[:, 0], sample_weight=weight)
    C, b = explicit_ridge(model, X, y[:, 0], weight)
    fitted = np.einsum("rmi,mi->r", explicit_design(model, X), C) + b
    np.testing.assert_allclose(model.predict(X), fitted, rtol=0, atol=1e-8)
    np.testing.assert_allclose(coefficients(model), C, rtol=0, atol=1e-8 * max(1, np.abs(C).max()))
    assert model.intercept_ == pytest.approx(b, abs=1e-8)


def test_leverage_sampling_counts_every_draw_in_the_penalty():
    X, y = sine_rows_in_unlike_units()
    model = convex_regressor(50, alpha=1e-3, sampling=LeverageSampling(50)).fit(X, y[:, 0])
    assert model.n_components_ < model.model_.directions.n_draws == 50
    assert np.ptp(model.importance_) > 0.1
    C, _ = explicit_ridge(model, X, y[:, 0])
    np.testing.assert_allclose(coefficients(model), C, rtol=0, atol=1e-8)


@each_intercept
def test_the_penalised_normal_equations_hold(intercept):
    X, y = sine_rows_in_unlike_units()
    model = convex_regressor(alpha=1e-3, fit_intercept=intercept).fit(X, y[:, 0])
    residual = y[:, 0] - model.predict(X)
    pull = np.einsum("rmi,r->mi", explicit_design(model, X), residual) / len(y)
    np.testing.assert_allclose(pull, 1e-3 * 8 * coefficients(model) @ penalty(model.activation_.basis), atol=1e-9)
    if intercept:
        assert residual.mean() == pytest.approx(0, abs=1e-10)


def test_a_radial_basis_is_fitted_as_well():
    X, y = sine_rows_in_unlike_units()
    model = convex_regressor(alpha=1e-3, basis=RBFBasis(8)).fit(X, y[:, 0])
    C, b = explicit_ridge(model, X, y[:, 0])
    fitted = np.einsum("rmi,mi->r", explicit_design(model, X), C) + b
    np.testing.assert_allclose(model.predict(X), fitted, rtol=0, atol=1e-5)


def test_every_activation_has_a_penalty_of_one_and_the_objective_is_that_of_the_fit():
    X, y = sine_rows_in_unlike_units()
    model = convex_regressor(alpha=1e-2).fit(X, y[:, 0])
    P = penalty(model.activation_.basis)
    a = model.activation_.coefficients
    np.testing.assert_allclose(np.einsum("mi,ij,mj->m", a, P, a), 1, rtol=1e-10)
    objective = np.mean((y[:, 0] - model.predict(X)) ** 2) + 1e-2 * 8 * np.sum(model.output_weights_**2)
    np.testing.assert_allclose(model.objective_trace_, [objective / y.var()], rtol=1e-9)


def test_whole_weights_equal_repeated_rows():
    X, y = sine_rows_in_unlike_units(200)
    copies = np.random.default_rng(1).integers(1, 4, 200)
    fixed = {"alpha": 1e-3, "bandwidth": 1.5}
    weighted = convex_regressor(**fixed).fit(X, y[:, 0], sample_weight=copies)
    repeated = convex_regressor(**fixed).fit(np.repeat(X, copies, axis=0), np.repeat(y[:, 0], copies))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=0, atol=1e-8)


@settings(max_examples=12)
@given(st.integers(1, 6), st.integers(4, 12), st.floats(-5, 1), st.integers(0, 1000))
def test_no_other_coefficients_have_a_lower_objective(n_components, n_basis, exponent, seed):
    X, y = sine_rows_in_unlike_units(60, seed=seed)
    model = convex_regressor(n_components, basis=BSplineBasis(n_basis), alpha=10.0**exponent).fit(X, y[:, 0])
    B, C, P = explicit_design(model, X), coefficients(model), penalty(model.activation_.basis)

    def objective(C):
        residual = y[:, 0] - np.einsum("rmi,mi->r", B, C) - model.intercept_
        return np.mean(residual**2) + 10.0**exponent * n_components * np.einsum("mi,ij,mj->", C, P, C)

    rng = np.random.default_rng(seed)
    others = [objective(C + size * rng.standard_normal(C.shape)) for size in (1e-3, 1e-1) for _ in range(5)]
    assert objective(C) <= min(others) + 1e-12


# How far it smooths


def test_the_largest_penalties_leave_the_mean():
    X, y = sine_rows_in_unlike_units()
    model = convex_regressor(alpha=1e12).fit(X, y[:, 0])
    np.testing.assert_allclose(model.predict(X), y.mean(), rtol=0, atol=1e-9)
    origin = convex_regressor(alpha=1e12, fit_intercept=False).fit(X, y[:, 0])
    np.testing.assert_allclose(origin.predict(X), 0, atol=1e-9)


def test_under_a_large_penalty_the_activations_are_the_smoothed_pull_of_the_target():
    """The limit c_m = P^-1 B_m' (y - mean) / ridge, up to its scale."""
    X, y = sine_rows_in_unlike_units()
    model = convex_regressor(alpha=1e9).fit(X, y[:, 0])
    pull = np.einsum("rmi,r->mi", explicit_design(model, X), y[:, 0] - y.mean()) / len(y)
    limit = np.linalg.solve(penalty(model.activation_.basis), pull.T).T / (1e9 * 8)
    np.testing.assert_allclose(coefficients(model), limit, rtol=0, atol=1e-7 * np.abs(limit).max())


def test_a_larger_alpha_gives_straighter_activations_and_a_larger_error():
    X, y = sine_rows_in_unlike_units()
    models = [convex_regressor(alpha=alpha).fit(X, y[:, 0]) for alpha in np.logspace(-6, 2, 9)]
    size = [np.sum(model.output_weights_**2) for model in models]
    bend = [np.sum(np.diff(coefficients(model), 2, axis=1) ** 2) for model in models]
    error = [np.mean((model.predict(X) - y[:, 0]) ** 2) for model in models]
    assert np.all(np.diff(size) < 0)
    assert np.all(np.diff(bend) < 0)
    assert np.all(np.diff(error) > 0)


def test_a_straight_target_is_fitted_by_nearly_straight_activations():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 1))
    model = convex_regressor(1, alpha=1e-5, bandwidth=0.5).fit(X, 3 * X[:, 0] + 1)
    np.testing.assert_allclose(model.predict(X), 3 * X[:, 0] + 1, atol=0.02)


def test_a_known_sum_of_different_activations_is_recovered():
    """The additive model of one feature each: a sine of one projection and a tent of another."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4000, 2))

    @dataclass(frozen=True)
    class Axes:
        name: str = "axes"

        def sample(self, n_features, n_components, rng):
            return np.eye(2)

        def log_density(self, W):
            return np.zeros(W.shape[1])

    y = np.sin(3 * X[:, 0]) + np.abs(X[:, 1])
    model = convex_regressor(2, density=Axes(), basis=BSplineBasis(24)).fit(X, y)
    assert model.score(X, y) > 0.999
    np.testing.assert_allclose(model.predict(X[:500]), y[:500], atol=0.06)


# Several outputs


@each_intercept
@each_sampling
@pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])
def test_the_output_weights_of_several_outputs_are_the_ridge_on_the_features(sampling, intercept, weighted):
    X, Y = sine_rows_in_unlike_units(n_outputs=3)
    weight = np.random.default_rng(1).exponential(size=len(Y)) if weighted else None
    model = convex_regressor(alpha=1e-3, fit_intercept=intercept, **sampling).fit(X, Y, sample_weight=weight)
    total = len(Y) if weight is None else weight.sum()
    ridge = Ridge(1e-3 * model.model_.directions.n_draws * total, fit_intercept=intercept)
    ridge.fit(model.model_.features(X), Y, sample_weight=weight)
    np.testing.assert_allclose(model.output_weights_, ridge.coef_, rtol=0, atol=1e-8 * np.abs(ridge.coef_).max())
    np.testing.assert_allclose(model.predict(X), ridge.predict(model.model_.features(X)), rtol=0, atol=1e-8 * 100)


def test_the_activations_of_several_outputs_are_the_leading_singular_vectors_of_their_own():
    X, Y = sine_rows_in_unlike_units(n_outputs=3)
    model = convex_regressor(alpha=1e-3).fit(X, Y)
    T, scale = inverse_root(penalty(model.activation_.basis)), Y.std(axis=0)
    alone = [coefficients(convex_regressor(alpha=1e-3).fit(X, Y[:, o])) / scale[o] for o in range(3)]
    theta = np.linalg.solve(T, np.stack(alone, axis=-1))
    leading = np.linalg.svd(theta)[0][:, :, 0] @ T
    a = model.activation_.coefficients
    sign = np.sign(np.einsum("mi,mi->m", a, leading))
    np.testing.assert_allclose(a * sign[:, None], leading, rtol=0, atol=1e-6)


@each_sampling
@pytest.mark.parametrize("copy", [(1.0, 0.0), (-30.0, 7.0)], ids=["the same", "a multiple"])
def test_one_output_and_a_copy_of_it_have_the_activations_of_one(sampling, copy):
    X, y = sine_rows_in_unlike_units()
    factor, offset = copy
    one = convex_regressor(alpha=1e-3, **sampling).fit(X, y[:, 0])
    both = convex_regressor(alpha=1e-3, **sampling).fit(X, np.hstack([y, factor * y + offset]))
    expected = one.predict(X)
    size = max(1, abs(factor))
    if "sampling" not in sampling:  # the pool's shared activation is found by a search, which may end elsewhere
        np.testing.assert_allclose(both.predict(X)[:, 0], expected, rtol=0, atol=1e-8)
        np.testing.assert_allclose(both.predict(X)[:, 1], factor * expected + offset, rtol=0, atol=1e-8 * size)
        a, b = one.activation_.coefficients, both.activation_.coefficients
        sign = np.sign(np.einsum("mi,mi->m", a, b))
        np.testing.assert_allclose(a, b * sign[:, None], rtol=0, atol=1e-6)
    np.testing.assert_allclose(both.predict(X)[:, 1], factor * both.predict(X)[:, 0] + offset, atol=1e-8 * size)


def test_one_column_of_targets_is_one_output():
    X, y = sine_rows_in_unlike_units()
    flat, column = convex_regressor().fit(X, y[:, 0]), convex_regressor().fit(X, y)
    np.testing.assert_array_equal(column.predict(X)[:, 0], flat.predict(X))
    assert column.output_weights_.shape == (1, 8)


# The estimators


@pytest.mark.slow
@parametrize_with_checks(
    [
        RFLAFRegressor(20, **CONVEX),
        RFLAFRegressor.convex(10, pool_size=40),
    ]
)
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


@each_sampling
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_any_number_of_threads_gives_the_same_model_bit_for_bit(sampling, n_outputs):
    X, y = sine_rows_in_unlike_units(5000, n_outputs)
    one, two = (convex_regressor(n_jobs=n_jobs, **sampling).fit(X, y) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.directions_, two.directions_)
    np.testing.assert_array_equal(one.activation_.coefficients, two.activation_.coefficients)
    np.testing.assert_array_equal(one.output_weights_, two.output_weights_)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


@each_sampling
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_sparse_rows_give_the_model_of_dense_rows(sampling, n_outputs):
    X, y = sine_rows_in_unlike_units(n_outputs=n_outputs)
    X = (X - X.mean(axis=0)) * (np.random.default_rng(1).random(X.shape) < 0.7)
    y = y / np.abs(y).max(axis=0)
    dense, sparse = (convex_regressor(alpha=1e-3, **sampling).fit(rows, y) for rows in (X, sp.csr_array(X)))
    np.testing.assert_allclose(dense.predict(X), sparse.predict(sp.csr_array(X)), rtol=0, atol=1e-8)
    np.testing.assert_allclose(dense.transform(X), dense.transform(sp.csr_array(X)), rtol=0, atol=1e-8)


@each_dtype
@each_sampling
def test_answers_have_the_precision_of_the_rows(sampling, dtype):
    X, y = sine_rows_in_unlike_units()
    model = convex_regressor(alpha=1e-3, **sampling).fit(X.astype(dtype), y[:, 0].astype(dtype))
    assert model.predict(X.astype(dtype)).dtype == dtype
    assert model.transform(X.astype(dtype)).dtype == dtype
    np.testing.assert_allclose(model.predict(X.astype(np.float32)), model.predict(X), atol=1e-3)


def test_single_precision_gives_the_fit_of_double_precision():
    X, y = sine_rows_in_unlike_units(2000)
    double = convex_regressor(alpha=1e-4).fit(X, y[:, 0])
    single = convex_regressor(alpha=1e-4).fit(X.astype(np.float32), y[:, 0])
    np.testing.assert_allclose(single.predict(X), double.predict(X), atol=1e-3)


@each_sampling
@pytest.mark.parametrize("basis", ["bspline", "rbf"])
def test_predictions_are_bounded_far_from_the_data(sampling, basis):
    X, y = sine_rows_in_unlike_units()
    model = convex_regressor(basis=basis, **sampling).fit(X, y[:, 0])
    far = 1e9 * np.random.default_rng(0).choice([-1.0, 0.0, 1.0], (50, 3))
    size = np.abs(coefficients(model)).max(axis=1) @ model.importance_
    size *= 1 if basis == "bspline" else 3  # Gaussians of their spacing's width sum to 2.51
    assert np.all(np.abs(model.predict(far) - model.intercept_) <= size)
    np.testing.assert_array_equal(model.predict(far[far.all(axis=1)]), model.predict(10 * far[far.all(axis=1)]))


@each_sampling
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_features_times_weights_are_the_prediction(sampling, n_outputs):
    X, y = sine_rows_in_unlike_units(n_outputs=n_outputs)
    y = y[:, 0] if n_outputs == 1 else y
    model = convex_regressor(**sampling).fit(X, y)
    np.testing.assert_allclose(
        model.transform(X) @ model.output_weights_.T + model.intercept_, model.predict(X), rtol=1e-9
    )
    features = RandomActivationFeatures(8, random_state=0, **CONVEX, **sampling).fit(X, y)
    np.testing.assert_array_equal(features.transform(X), model.transform(X))


@each_sampling
def test_the_search_is_over_before_it_begins(sampling):
    X, y = sine_rows_in_unlike_units()
    model = convex_regressor(**sampling).fit(X, y[:, 0])
    assert model.stop_reason_ is StopReason.CONVEX
    assert model.n_iter_ == len(model.objective_trace_) == 1
    assert model.activation_.coefficients.shape == (model.n_components_, 16)
    assert model.activation_([0.0, 1.0]).shape == (model.n_components_, 2)
    with pytest.raises(ValueError, match="only a learned shared activation has a standard error"):
        model.activation_.standard_error(0.0)


def test_slopes_equal_finite_differences():
    X, y = sine_rows_in_unlike_units()
    model = convex_regressor(n_components=8).fit(X, y[:, 0])
    gradient, h = model.model_.gradient(X)[:, 0], 1e-6
    for k, step in enumerate(h * np.eye(3)):
        np.testing.assert_allclose(
            gradient[:, k], (model.predict(X + step) - model.predict(X - step)) / (2 * h), atol=1e-4, rtol=1e-4
        )


def test_one_component_has_one_activation():
    X, y = sine_rows_in_unlike_units()
    model = convex_regressor(1).fit(X, y[:, 0])
    assert model.activation_.coefficients.shape == (1, 16)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("name", ["per_feature", "", None, True])
def test_an_unknown_activation_is_refused(name):
    with pytest.raises(ValueError, match="activation must be 'per_component', 'shared' or a SharedActivation"):
        convex_regressor(activation=name).fit(*sine_rows_in_unlike_units(10))


# Awkward data


@each_sampling
def test_constant_columns_predict_the_mean(sampling):
    y = np.arange(20.0)
    model = convex_regressor(**sampling).fit(np.full((20, 3), 4.2), y)
    np.testing.assert_allclose(model.predict(np.zeros((3, 3))), y.mean())


@each_sampling
def test_a_constant_target_is_predicted_everywhere(sampling):
    X, y = sine_rows_in_unlike_units()
    np.testing.assert_allclose(convex_regressor(**sampling).fit(X, np.full(len(X), 7.0)).predict(X), 7.0)
    half = convex_regressor(**sampling).fit(X, np.hstack([y, np.full_like(y, 7.0)]))
    np.testing.assert_allclose(half.predict(X)[:, 1], 7.0)
    assert half.score(X, np.hstack([y, np.full_like(y, 7.0)])) > 0.5


@each_sampling
def test_more_components_than_rows_are_fitted(sampling):
    X, y = sine_rows_in_unlike_units(15)
    model = convex_regressor(50, **sampling).fit(X, y[:, 0])
    assert np.abs(model.predict(X) - y.mean()).max() <= 2 * np.ptp(y)


def test_without_a_penalty_more_coefficients_than_rows_go_through_the_rows():
    X, y = sine_rows_in_unlike_units(15)
    model = convex_regressor(50, alpha=0.0).fit(X, y[:, 0])
    np.testing.assert_allclose(model.predict(X), y[:, 0], atol=1e-4)


def test_a_column_that_is_seldom_not_constant_does_no_harm():
    """A sample of rows may miss what makes a projection vary."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 2))
    X[:, 1] = 0.1
    X[7, 1] = 5.0
    y = np.sin(2 * X[:, 0])
    assert convex_regressor(20).fit(X, y).score(X, y) > 0.99
    alone = convex_regressor(5).fit(X[:, 1:], y)
    assert np.abs(alone.predict(X[:, 1:]) - y.mean()).max() <= 2


# Sums by pairs of components

LOCAL = [BSplineBasis(4), BSplineBasis(16), BSplineBasis(7, degree=1), BSplineBasis(9, degree=2), BSplineBasis(21)]
each_kind = pytest.mark.parametrize("basis", LOCAL, ids=lambda basis: f"{basis.n_basis} of degree {basis.degree}")


def expanded(n_components: int, basis: Basis, dtype=np.float64, seed: int = 0):
    return expand(draw(Gaussian(), 3, n_components, np.random.default_rng(seed)), basis, dtype)


@each_kind
@each_dtype
@pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_sums_by_pairs_are_those_of_the_expanded_features(basis, dtype, weighted, n_outputs):
    rng = np.random.default_rng(1)
    X, y = 1.5 * rng.standard_normal((301, 3)).astype(dtype), rng.standard_normal((301, n_outputs))
    weight = rng.integers(0, 3, 301).astype(dtype) if weighted else None
    features, source = expanded(6, basis, dtype), ArraySource(X, y, weight, block_rows=64)
    assert features.pieces.local() is not None
    with ThreadExecutor(2) as executor:
        found = features.sum_equations(source, executor)
        expected = RowFeatures.sum_equations(features, source, executor)
    atol = 200 * np.finfo(dtype).eps * np.diagonal(expected.moments).max()
    np.testing.assert_allclose(found.moments, expected.moments, atol=atol)
    m, size = features.n_components, np.sqrt(np.diagonal(found.moments))
    assert np.all(np.abs(found.moments[:m]) <= size[:m, None] * size * (1 + 1e-4))  # one set of values made them all
    np.testing.assert_array_equal(found.moments, found.moments.T)
    for fact in ("n_outputs", "n_rows", "whole_weights", "precision"):
        assert getattr(found, fact) == getattr(expected, fact)


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(4, 18), st.integers(0, 40), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_any_partition_of_the_rows_gives_the_same_sums_by_pairs(n_components, n_basis, n_rows, block_rows, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n_rows + 1, 3)), rng.standard_normal((n_rows + 1, 1))
    features = expanded(n_components, BSplineBasis(n_basis), seed=seed)
    with ThreadExecutor(1) as executor:
        whole, cut = (features.sum_equations(ArraySource(X, y, None, rows), executor) for rows in (64, block_rows))
    np.testing.assert_allclose(cut.moments, whole.moments, rtol=1e-9, atol=1e-9)


def test_rows_beyond_the_grid_or_without_a_value_are_summed_in_its_end_cells():
    features = expanded(2, BSplineBasis(5))
    X = np.array([[1e30, 0, 0], [-1e30, 0, 0], [np.nan, 0, 0]])
    with ThreadExecutor(1) as executor, np.errstate(invalid="ignore"):
        total = features.sum_equations(ArraySource(X, np.zeros((3, 1))), executor)
    ones = np.linalg.solve(features.T, np.ones(5))  # B-splines sum to one
    square = np.kron(np.eye(2), ones[:, None]).T @ total.moments[:10, :10] @ np.kron(np.eye(2), ones[:, None])
    np.testing.assert_allclose(square, 3, rtol=1e-12)


def test_functions_that_are_alive_everywhere_are_not_local():
    assert RBFBasis(6).pieces().local() is None
    turned = BSplineBasis(6).pieces()
    assert replace(turned, coefficients=turned.coefficients[::-1]).local() is None
    local = BSplineBasis(9, degree=2).pieces()
    np.testing.assert_array_equal(local.local()[3, :3], local.coefficients[3, 3:6])
    assert not local.local()[:, 3].any()
