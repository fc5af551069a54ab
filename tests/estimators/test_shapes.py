"""Activations that are mixtures of a few shapes: their rank, their limits, known shapes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from data import rows_of_several_shapes
from settings import CONVEX
from sklearn.base import clone
from sklearn.linear_model import Ridge

from rflaf import BSplineBasis, RFLAFRegressor
from rflaf.errors import InvalidParameterError, StopReason
from rflaf.functions.bases import Basis
from rflaf.model.normal_equations import NormalEquations
from rflaf.training.solvers.per_component import smoothing_coordinates, solve_per_component, solve_shapes

N_BASIS = 8
each_intercept = pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])
each_sampling = pytest.mark.parametrize("sampling", ["plain", "leverage", "greedy"])
weighted_or_not = pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])


def regressor_of_shapes(activation, n_components: int = 10, **others) -> RFLAFRegressor:
    fixed = {**CONVEX, "basis": BSplineBasis(N_BASIS), "alpha": 1e-4, "random_state": 0}
    return RFLAFRegressor(n_components, **{**fixed, "activation": activation, **others})


def penalty(basis: Basis) -> np.ndarray:
    differences = np.diff(np.eye(basis.n_basis), 2, axis=0)
    return 0.01 * np.eye(basis.n_basis) + 0.99 * differences.T @ differences


def coefficients(model: RFLAFRegressor) -> np.ndarray:
    """v_m a_m of one output: (n_components, n_basis)."""
    return model.coef_[:, None] * model.activation_.coefficients


def explicit_design(model: RFLAFRegressor, X: np.ndarray) -> np.ndarray:
    """q_m B_i(w_m . x + b_m): (n_rows, n_components, n_basis)."""
    directions = model.model_.directions
    return model.activation_.basis.values(X @ directions.W + directions.offset) * directions.importance[:, None]


def objective(model: RFLAFRegressor, X, y, weight=None) -> float:
    """Mean squared residual plus the penalty, from the rows."""
    C = coefficients(model)
    residual = y - model.intercept_ - np.einsum("rmi,mi->r", explicit_design(model, X), C)
    ridge = model.alpha * model.model_.directions.n_draws
    return float(np.average(residual**2, weights=weight) + ridge * np.sum(C * (C @ penalty(model.activation_.basis))))


def rank(matrix: np.ndarray) -> int:
    return int(np.linalg.matrix_rank(matrix, tol=1e-7 * np.linalg.norm(matrix, 2)))


# Rank and limits


@each_sampling
@pytest.mark.parametrize("n_shapes", [1, 2, 3, 5])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_the_activations_have_as_many_shapes_as_asked_for(n_shapes, n_outputs, sampling):
    X, y = rows_of_several_shapes(n_outputs=n_outputs)
    model = regressor_of_shapes(n_shapes, sampling=sampling).fit(X, y)
    assert model.activation_.coefficients.shape == (model.n_components_, N_BASIS)
    assert rank(model.activation_.coefficients) == n_shapes
    assert rank(regressor_of_shapes("per_component", sampling=sampling).fit(X, y).activation_.coefficients) > n_shapes
    assert model.stop_reason_ is StopReason.CONVEX


@each_intercept
@weighted_or_not
@pytest.mark.parametrize(("n_components", "n_shapes"), [(10, N_BASIS), (10, 50), (4, 4), (4, 7), (1, 1)])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_with_as_many_shapes_as_there_can_be_every_component_has_its_own(
    n_outputs, n_components, n_shapes, weighted, intercept
):
    X, y = rows_of_several_shapes(n_outputs=n_outputs)
    weight = np.random.default_rng(1).exponential(size=len(y)) if weighted else None
    all_shapes, own = (
        regressor_of_shapes(activation, n_components, fit_intercept=intercept).fit(X, y, sample_weight=weight)
        for activation in (n_shapes, "per_component")
    )
    scale = np.abs(own.predict(X)).max(axis=0)
    np.testing.assert_allclose(all_shapes.predict(X) / scale, own.predict(X) / scale, rtol=0, atol=1e-6)
    np.testing.assert_allclose(all_shapes.intercept_ / scale, own.intercept_ / scale, rtol=0, atol=1e-6)
    np.testing.assert_allclose(
        np.abs(all_shapes.activation_.coefficients), np.abs(own.activation_.coefficients), rtol=0, atol=1e-5
    )


@pytest.mark.slow
@each_intercept
@weighted_or_not
@each_sampling
@pytest.mark.parametrize("alpha", [1e-6, 1e-4, 1e-2])
def test_more_shapes_have_a_lower_objective(alpha, sampling, weighted, intercept):
    X, y = rows_of_several_shapes()
    weight = np.random.default_rng(1).exponential(size=len(y)) if weighted else None
    objectives = [
        objective(
            regressor_of_shapes(activation, alpha=alpha, sampling=sampling, fit_intercept=intercept).fit(X, y, weight),
            X, y, weight,
        )
        for activation in (*range(1, N_BASIS + 1), "per_component")
    ]  # fmt: skip
    assert np.all(np.diff(objectives) <= 1e-4 * objectives[0])
    assert objectives[0] > 1.02 * objectives[-1]
    assert objectives[-2] == pytest.approx(objectives[-1], rel=1e-6)


def test_the_objective_reported_is_that_of_the_rows():
    X, y = rows_of_several_shapes()
    for n_shapes in (1, 2, 4):
        model = regressor_of_shapes(n_shapes).fit(X, y)
        assert model.objective_trace_[-1] * y.var() == pytest.approx(objective(model, X, y), rel=1e-8)


@pytest.mark.parametrize("n_shapes", [1, 2, 3])
def test_neither_mixtures_nor_shapes_alone_can_be_improved(n_shapes):
    """The ridge on the shapes found gives the mixtures found, and the ridge on the mixtures the shapes."""
    X, y = rows_of_several_shapes()
    model = regressor_of_shapes(n_shapes, n_components=6).fit(X, y)
    found = objective(model, X, y)
    B, P = explicit_design(model, X), penalty(model.activation_.basis)
    left, size, right = np.linalg.svd(coefficients(model), full_matrices=False)
    left, right = left[:, :n_shapes] * size[:n_shapes], right[:n_shapes]
    root = np.linalg.inv(np.linalg.cholesky(P)).T
    for designs, sizes in (
        (B @ right.T, np.linalg.inv(np.linalg.cholesky(right @ P @ right.T)).T),
        (np.einsum("rmi,mk->rki", B, np.linalg.qr(left)[0]), root),
    ):
        ridge = Ridge(model.alpha * 6 * len(y)).fit((designs @ sizes).reshape(len(y), -1), y)
        residual = y - ridge.predict((designs @ sizes).reshape(len(y), -1))
        best = np.mean(residual**2) + model.alpha * 6 * np.sum(ridge.coef_**2)
        assert best <= found * (1 + 1e-9)
        assert best == pytest.approx(found, rel=2e-3)


# One shape


def test_one_shape_is_the_same_for_all_components_but_for_its_sign():
    a = regressor_of_shapes(1).fit(*rows_of_several_shapes()).activation_.coefficients
    sign = np.sign(a @ a[0])
    np.testing.assert_allclose(sign[:, None] * a, np.broadcast_to(a[0], a.shape), atol=1e-8)


def test_one_shape_fits_about_as_well_as_a_shared_activation():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 3))
    y = np.sin(X @ [1.5, -1.0, 0.5]) + 0.05 * rng.standard_normal(800)
    one, shared = (regressor_of_shapes(activation, 30, alpha="auto").fit(X, y) for activation in (1, "shared"))
    assert 1 - one.score(X, y) < 1.5 * (1 - shared.score(X, y)) < 0.1


# Known shapes


def from_known_shapes(n_rows: int, noise: float, seed: int = 0):
    """Targets made on the directions a model of this seed draws: mixtures of a wave and a bump, (loadings, 2)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 3))
    directions = regressor_of_shapes("per_component", basis=BSplineBasis(16)).fit(X, X[:, 0]).model_.directions
    loadings = rng.standard_normal((10, 2))

    def shapes(z: np.ndarray) -> np.ndarray:
        return np.stack([np.sin(2 * z), np.exp(-2 * z**2)], axis=-1)

    def signal(rows: np.ndarray) -> np.ndarray:
        return np.einsum("rmk,mk->r", shapes(rows @ directions.W + directions.offset), loadings)

    return X, signal(X) + noise * rng.standard_normal(n_rows), signal, loadings, shapes


def test_two_known_shapes_are_recovered():
    X, y, signal, loadings, shapes = from_known_shapes(3000, 0.01)
    model = regressor_of_shapes(2, basis=BSplineBasis(16), alpha=1e-8).fit(X, y)
    new = 0.8 * np.random.default_rng(1).standard_normal((1000, 3))
    assert np.mean((model.predict(new) - signal(new)) ** 2) < 1e-3 * signal(new).var()
    assert 1 - regressor_of_shapes(1, basis=BSplineBasis(16), alpha=1e-8).fit(X, y).score(X, y) > 0.05
    z = np.linspace(-1.5, 1.5, 61)
    found, true = model.coef_[:, None] * model.activation_(z), loadings @ shapes(z).T
    found, true = (values - values.mean(axis=1, keepdims=True) for values in (found, true))
    assert np.linalg.norm(found - true) < 0.05 * np.linalg.norm(true)


def test_the_right_number_of_shapes_suffers_less_from_noise():
    errors = {}
    for seed in range(3):
        X, y, signal, _, _ = from_known_shapes(600, 1.0, seed)
        new = np.random.default_rng(1).standard_normal((2000, 3))
        for activation in (1, 2, "per_component"):
            model = regressor_of_shapes(activation, basis=BSplineBasis(16), alpha="auto").fit(X, y)
            errors.setdefault(activation, []).append(np.mean((model.predict(new) - signal(new)) ** 2))
    means = {activation: np.mean(error) for activation, error in errors.items()}
    assert means[2] < means["per_component"]
    assert means[2] < means[1]


# Several outputs


@pytest.mark.parametrize("n_shapes", [1, 3])
def test_the_output_weights_of_several_outputs_are_the_ridge_on_the_features(n_shapes):
    X, y = rows_of_several_shapes(n_outputs=3)
    model = regressor_of_shapes(n_shapes, alpha=1e-3).fit(X, y)
    Z = model.transform(X)
    ridge = Ridge(1e-3 * 10 * len(y)).fit(Z, y)
    np.testing.assert_allclose(model.predict(X) / y.std(axis=0), ridge.predict(Z) / y.std(axis=0), atol=1e-7)
    assert model.predict(X).shape == y.shape


def test_more_shapes_fit_several_outputs_better():
    X, y = rows_of_several_shapes(n_outputs=2)
    scores = [regressor_of_shapes(activation).fit(X, y).score(X, y) for activation in (1, 3, N_BASIS)]
    assert scores[0] < scores[1] <= scores[2] + 1e-9
    assert scores[0] > 0.4


# From sums alone


@each_intercept
@pytest.mark.parametrize("n_shapes", [1, 2, 4])
def test_shapes_are_solved_from_sums(n_shapes, intercept):
    rng = np.random.default_rng(0)
    basis = regressor_of_shapes(1).fit(*rows_of_several_shapes()).activation_.basis
    T = smoothing_coordinates(basis)
    Z = rng.standard_normal((5 * N_BASIS, 200))
    y = Z.T @ np.kron(rng.standard_normal((5, 2)), np.eye(N_BASIS)) @ rng.standard_normal(2 * N_BASIS) + 1.0
    equations = NormalEquations.from_design(np.vstack([Z, np.ones(200), y]), 1)
    convex = equations.system(intercept).solve(1e-3)
    found = solve_shapes(equations, convex, T, intercept, n_shapes)
    theta = found.v * np.linalg.solve(T, found.a.T).T
    assert rank(theta) == n_shapes
    np.testing.assert_allclose(np.sum(np.linalg.solve(T, found.a.T) ** 2, axis=0), 1, rtol=1e-9)
    residual = y - Z.T @ theta.ravel() - found.intercept
    by_rows = np.mean(residual**2) + 1e-3 * np.sum(theta**2)
    assert found.trace[-1] == pytest.approx(by_rows, rel=1e-8)
    assert by_rows >= convex.objective * (1 - 1e-10)
    own = solve_per_component(equations, convex, T, intercept)
    assert own.trace[-1] == pytest.approx(convex.objective, rel=1e-10)


# The estimator


def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads():
    X, y = rows_of_several_shapes(5000)
    one, two, other = (
        regressor_of_shapes(2, n_jobs=n_jobs, random_state=seed).fit(X, y) for n_jobs, seed in ((1, 0), (2, 0), (1, 1))
    )
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    assert not np.array_equal(one.predict(X), other.predict(X))


@pytest.mark.parametrize("activation", [2, np.int64(2)])
def test_a_number_of_shapes_is_an_argument_like_any_other(activation):
    model = regressor_of_shapes(activation)
    assert model.get_params()["activation"] == 2
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    X, y = rows_of_several_shapes()
    np.testing.assert_array_equal(copy.fit(X, y).predict(X), model.fit(X, y).predict(X))
    assert rank(clone(model).set_params(activation=3).fit(X, y).activation_.coefficients) == 3


def test_a_constant_target_is_predicted_everywhere():
    X, _ = rows_of_several_shapes()
    np.testing.assert_allclose(regressor_of_shapes(2).fit(X, np.full(len(X), 7.0)).predict(X), 7.0)


def test_constant_columns_predict_the_mean():
    y = np.arange(50.0)
    np.testing.assert_allclose(regressor_of_shapes(2).fit(np.full((50, 3), 4.2), y).predict(np.zeros((2, 3))), y.mean())


def test_a_fit_in_single_precision_is_near_that_in_double_precision():
    X, y = rows_of_several_shapes()
    single, double = (regressor_of_shapes(2, alpha=1e-3).fit(X.astype(dtype), y) for dtype in (np.float32, np.float64))
    assert single.predict(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.predict(X.astype(np.float32)), double.predict(X), atol=0.05 * y.std())


def test_the_deviation_of_one_shape_covers_its_own_residuals():
    X, y = rows_of_several_shapes(2000)
    surprise = {}
    for activation in (1, "per_component"):
        model = regressor_of_shapes(activation, 30, alpha=1e-6).fit(X[:1000], y[:1000])
        answers, deviation = model.predict(X[1000:], return_std=True)
        surprise[activation] = np.mean(((y[1000:] - answers) / deviation) ** 2)
    assert surprise["per_component"] < 1.6
    assert surprise[1] < 1.6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"activation": 0}, r"activation must be 'per_component', 'shared' or a number of shapes, at least 1; got 0\."),
        ({"activation": -3}, r"a number of shapes, at least 1; got -3\. Use 'per_component'\."),
        ({"activation": True}, r"a number of shapes, at least 1; got True\."),
        ({"activation": 1.5}, r"a number of shapes, at least 1; got 1\.5\."),
        ({"activation": 2.0}, r"a number of shapes, at least 1; got 2\.0\."),
        ({"activation": "x"}, r"activation must be 'per_component', 'shared' or a number .*; got 'x'\."),
        ({"activation": None}, r"activation must be .*; got None\."),
        (
            {"activation": 2, "directions": "refined"},
            r"a number of shapes as activation needs directions='random'; got 2\. Set directions='random', or",
        ),
        (
            {"activation": "shared", "directions": "refined", "sampling": "leverage"},
            r"directions='refined' starts from a plain draw: .*; got 'leverage'\. Set directions='random' for sampling",
        ),
        ({"directions": "refined", "sampling": "greedy", "activation": 2}, r"sampling must be 'plain'; got 'greedy'\."),
        ({"curves": "no"}, r"curves must be 'auto', True or False; got 'no'\. Use 'auto'\."),
        ({"curves": 1}, r"curves must be 'auto', True or False; got 1\."),
        ({"curves": None}, r"curves must be 'auto', True or False; got None\."),
        ({"directions": "trained"}, r"directions must be 'refined' or 'random'; got 'trained'\."),
    ],
)
def test_what_does_not_fit_is_refused_before_any_work(arguments, message):
    model = regressor_of_shapes("shared").set_params(**arguments)
    with pytest.raises(InvalidParameterError, match=message):
        model.fit(*rows_of_several_shapes())
    assert not hasattr(model, "model_")
