"""Regularised risks against scikit-learn, SciPy and their own definitions, and how a ridge is chosen for them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.svm import LinearSVC

from rflaf.errors import StopReason
from rflaf.functions.bases import BSplineBasis, fit_function
from rflaf.functions.densities import Directions
from rflaf.functions.losses import Huber, Logistic, Loss, Pinball, Poisson, Softmax, Squared, SquaredHinge
from rflaf.model.features import RowFeatures
from rflaf.model.normal_equations import NormalEquations
from rflaf.rows.blocks import ArraySource, Block, Scratch
from rflaf.rows.executors import SingleThreadedBLAS, ThreadExecutor
from rflaf.rows.folds import folds_of
from rflaf.training.solvers import shared_problem
from rflaf.training.solvers.convex_loss import (
    KeptRows,
    MadeRows,
    RidgeChoice,
    Risk,
    RiskSolution,
    choose_ridge,
    descent,
    minimise_risk,
    objective,
    on_row_space,
    ridge_choice,
    ridge_grid,
    tolerance,
)
from rflaf.training.solvers.shared_activation import (
    ActivationTask,
    LearnedActivation,
    Search,
    learn_shared_activation,
    polish_shared_activation,
    search_dtype,
)
from rflaf.training.solvers.shared_problem import SharedProblem, SharedRisk

RIDGE = 1e-2
EXECUTOR = ThreadExecutor()
LOSSES = (Squared(), Huber(0.7), Pinball(0.7, 0.3), Logistic(), SquaredHinge(), Softmax(), Poisson())
ONE_OUTPUT = tuple(loss for loss in LOSSES if not isinstance(loss, Softmax))
SMOOTH = (Squared(), Logistic(), Softmax(), Poisson())

seeds = st.integers(0, 2**32 - 1)
each_intercept = pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])
each_weighting = pytest.mark.parametrize("weighted", [True, False], ids=["weighted", "unweighted"])


def each(losses):
    return pytest.mark.parametrize("loss", losses, ids=lambda loss: loss.name)


@pytest.fixture(autouse=True, scope="module")
def small_products():
    """Are quicker in one thread."""
    with SingleThreadedBLAS():
        yield


@pytest.fixture(params=["Newton", "L-BFGS"])
def each_solver(request, monkeypatch):
    """Few features are solved by Newton steps; here by the other way as well."""
    if request.param == "L-BFGS":
        monkeypatch.setattr(descent, "_NEWTON_FEATURES", 0)


# Problems and references


@dataclass(frozen=True)
class Columns(RowFeatures):
    """Features that are the columns of the rows."""

    width: int
    precision: type = np.float64

    @property
    def n_components(self) -> int:
        return self.width

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.precision)

    def features(self, X, out):
        out[...] = (X.toarray() if sp.issparse(X) else X).T
        return out


def some_features(n_rows: int = 120, n_components: int = 5, seed: int = 0) -> np.ndarray:
    """Of unlike size and mean, (n_rows, n_components)."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n_rows, n_components)) * rng.uniform(0.5, 2, n_components)
    return Z + 0.5 * rng.standard_normal(n_components)


def some_targets(loss: Loss, Z, seed: int = 0, n_outputs: int = 1) -> np.ndarray:
    """Targets that depend on the features with some noise, (n_rows, n_outputs)."""
    rng = np.random.default_rng(seed + 1)
    n_outputs = max(n_outputs, 2) if isinstance(loss, Softmax) else n_outputs
    f = Z @ rng.standard_normal((Z.shape[1], n_outputs)) / Z.shape[1] ** 0.5
    if isinstance(loss, Logistic | SquaredHinge):
        return (f + rng.logistic(size=f.shape) > 0).astype(float)
    if isinstance(loss, Softmax):
        return np.eye(n_outputs)[np.argmax(f + rng.gumbel(size=f.shape), axis=1)]
    if isinstance(loss, Poisson):
        return rng.poisson(np.exp(np.clip(f / 2, -3, 3))).astype(float)
    return f + rng.standard_t(3, f.shape) / 2 + 1


def some_weights(n_rows: int, weighted: bool, seed: int = 0) -> np.ndarray | None:
    return np.random.default_rng(seed + 2).uniform(0.2, 2, n_rows) if weighted else None


def source_of(Z, y, weight=None, block_rows: int = 50) -> ArraySource:
    return ArraySource(Z, y, weight, block_rows)


def risk_of(
    Z, y, loss, weight=None, intercept=True, block_rows=50, memory=None, executor=EXECUTOR, dtype=np.float64
) -> Risk:
    features = Columns(Z.shape[1], dtype)
    made = MadeRows(source_of(Z, y, weight, block_rows), features, np.ones(Z.shape[1]))
    return Risk.of_rows(made, loss, intercept, executor, memory)


def base_of(loss, y, weight=None) -> np.ndarray:
    return loss.constant(y, np.ones(len(y)) if weight is None else weight)


def solve(
    Z, y, loss, ridge=RIDGE, weight=None, intercept=True, tol=1e-8, max_iter=500, start=None, **others
) -> RiskSolution:
    risk = risk_of(Z, y, loss, weight, intercept, **others)
    return minimise_risk(risk, ridge, base_of(loss, y, weight), tol, max_iter, start)


def objective_reference(Z, y, loss, V, b, ridge, weight=None) -> float:
    """1/n sum_i w_i loss(b + z_i V, y_i) + ridge |V|^2."""
    return float(np.average(loss.value(Z @ V + b, y), weights=weight) + ridge * np.sum(V**2))


def gradient_reference(Z, y, loss, V, b, ridge, weight=None):
    """Of the objective, in V and b."""
    w = np.ones(len(y)) if weight is None else weight
    slope = w[:, None] / w.sum() * loss.slope(Z @ V + b, y)
    return Z.T @ slope + 2 * ridge * V, slope.sum(axis=0)


def minimise_by_scipy(Z, y, loss, ridge, intercept, weight=None):
    """V (n_components, 1) and b of one output by BFGS."""
    m = Z.shape[1]

    def function(x):
        V, b = x[:m, None], x[m:] * intercept
        at_V, at_b = gradient_reference(Z, y, loss, V, b, ridge, weight)
        return objective_reference(Z, y, loss, V, b, ridge, weight), np.append(at_V, at_b * intercept)

    answer = minimize(function, np.zeros(m + 1), jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 5000})
    return answer.x[:m, None], answer.x[m:] * intercept, answer.fun


def assert_same_solution(one: RiskSolution, other: RiskSolution, bound: float) -> None:
    size = np.abs(other.v).max() + np.abs(other.intercept).max()
    np.testing.assert_allclose(one.v, other.v, atol=bound * size)
    np.testing.assert_allclose(one.intercept, other.intercept, atol=bound * size)
    assert one.objective == pytest.approx(other.objective, rel=bound)


# The problem


@each_weighting
@each_intercept
@each(LOSSES)
def test_the_objective_is_its_definition(loss, intercept, weighted):
    Z = some_features()
    y, weight = some_targets(loss, Z, n_outputs=2), some_weights(len(Z), weighted)
    rng = np.random.default_rng(3)
    V, b = rng.standard_normal((5, 2)) / 3, rng.standard_normal(2) * intercept
    risk = risk_of(Z, y, loss, weight, intercept)
    value, at_V, at_b = risk.objective(V, b, RIDGE)
    assert value == pytest.approx(objective_reference(Z, y, loss, V, b, RIDGE, weight), rel=1e-12)
    expected_V, expected_b = gradient_reference(Z, y, loss, V, b, RIDGE, weight)
    np.testing.assert_allclose(at_V, expected_V, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(at_b, expected_b * intercept, rtol=1e-11, atol=1e-12)
    curvature = np.average(loss.curvature(Z @ V + b, y).mean(axis=1), weights=weight)
    assert risk.mean_curvature(V, b) == pytest.approx(curvature, rel=1e-12)


@settings(max_examples=40)
@given(st.sampled_from(LOSSES), st.booleans(), st.booleans(), st.integers(1, 3), seeds)
def test_the_gradient_equals_finite_differences(loss, intercept, weighted, n_outputs, seed):
    Z = some_features(40, 3, seed)
    y, weight = some_targets(loss, Z, seed, n_outputs), some_weights(40, weighted, seed)
    rng = np.random.default_rng(seed)
    risk = risk_of(Z, y, loss, weight, intercept)
    V, b = rng.standard_normal((3, y.shape[1])), rng.standard_normal(y.shape[1]) * intercept
    to_V, to_b = rng.standard_normal(V.shape), rng.standard_normal(b.shape) * intercept
    _, at_V, at_b = risk.objective(V, b, RIDGE)
    step = 1e-6
    high, low = (risk.objective(V + side * step * to_V, b + side * step * to_b, RIDGE)[0] for side in (1, -1))
    expected = (high - low) / (2 * step)
    size = 1 + np.abs(at_V).sum() + np.abs(at_b).sum()
    assert float(np.sum(at_V * to_V) + at_b @ to_b) == pytest.approx(expected, abs=1e-4 * size)


def test_importance_multiplies_the_features():
    Z, importance = some_features(), np.array([0.5, 2.0, 1.0, 0.0, 3.0])
    y = some_targets(Logistic(), Z)
    for memory in (None, 1):
        made = MadeRows(source_of(Z, y), Columns(5), importance)
        risk = Risk.of_rows(made, Logistic(), True, EXECUTOR, memory)
        scaled = minimise_risk(risk, RIDGE, base_of(Logistic(), y), 1e-8, 100)
        assert_same_solution(scaled, solve(Z * importance, y, Logistic()), 1e-9)


@each(LOSSES)
def test_blocks_of_features_are_the_same_problem(loss):
    Z = some_features()
    y, weight = some_targets(loss, Z, n_outputs=2), some_weights(len(Z), True)
    kept = [Block(np.ascontiguousarray(Z[i : i + 50].T), y[i : i + 50], weight[i : i + 50]) for i in (0, 50, 100)]
    one = minimise_risk(Risk.of_blocks(kept, loss, True, EXECUTOR), RIDGE, base_of(loss, y, weight), 1e-8, 500)
    other = solve(Z, y, loss, weight=weight)
    np.testing.assert_array_equal(one.v, other.v)
    np.testing.assert_array_equal(one.intercept, other.intercept)


def test_features_are_kept_where_they_fit():
    Z = some_features()
    y = some_targets(Squared(), Z)
    assert isinstance(risk_of(Z, y, Squared()).rows, KeptRows)
    assert isinstance(risk_of(Z, y, Squared(), memory=1).rows, MadeRows)
    assert isinstance(risk_of(Z, y, Squared(), memory=Z.nbytes).rows, KeptRows)
    assert isinstance(risk_of(Z, y, Squared(), memory=Z.nbytes - 1).rows, MadeRows)
    for memory in (1, None):
        rows = risk_of(Z, y, Squared(), memory=memory).rows
        assert len(rows.items) == 3
        np.testing.assert_array_equal(rows.make(rows.items[1], Scratch()).X, Z[50:100].T)


# Solutions that others find


@pytest.mark.usefixtures("each_solver")
@pytest.mark.parametrize("ridge", [1e-1, 1e-3])
@each_weighting
@each_intercept
def test_the_logistic_solution_is_that_of_scikit_learn(intercept, weighted, ridge):
    Z = some_features()
    y, weight = some_targets(Logistic(), Z), some_weights(len(Z), weighted)
    total = len(Z) if weight is None else weight.sum()
    expected = LogisticRegression(C=1 / (2 * total * ridge), fit_intercept=intercept, tol=1e-10, max_iter=10_000)
    expected.fit(Z, y[:, 0], sample_weight=weight)
    solution = solve(Z, y, Logistic(), ridge, weight, intercept)
    assert solution.stop_reason is StopReason.GRADIENT
    np.testing.assert_allclose(solution.v, expected.coef_.T, atol=1e-4)
    np.testing.assert_allclose(solution.intercept, expected.intercept_, atol=1e-4)


@pytest.mark.parametrize("ridge", [1e-1, 1e-3])
@each_weighting
@each_intercept
def test_the_softmax_solution_is_that_of_scikit_learn(intercept, weighted, ridge):
    """Intercepts up to what is added to all classes, which the loss does not see."""
    Z = some_features(200)
    y, weight = some_targets(Softmax(), Z, n_outputs=4), some_weights(len(Z), weighted)
    total = len(Z) if weight is None else weight.sum()
    expected = LogisticRegression(C=1 / (2 * total * ridge), fit_intercept=intercept, tol=1e-10, max_iter=10_000)
    expected.fit(Z, np.argmax(y, axis=1), sample_weight=weight)
    solution = solve(Z, y, Softmax(), ridge, weight, intercept)
    assert solution.stop_reason is StopReason.GRADIENT
    np.testing.assert_allclose(solution.v, expected.coef_.T, atol=1e-4)
    centred = solution.intercept - solution.intercept.mean()
    np.testing.assert_allclose(centred, expected.intercept_ - np.mean(expected.intercept_), atol=1e-4)
    np.testing.assert_allclose(solution.v.sum(axis=1), 0, atol=1e-6)


@each_intercept
def test_softmax_of_two_classes_is_the_logistic_solution_for_half_the_penalty(intercept):
    """For d = v_1 - v_0 the best v_1 = -v_0 = d / 2, and ridge (|v_0|^2 + |v_1|^2) = ridge / 2 |d|^2."""
    Z = some_features()
    y, weight = some_targets(Logistic(), Z), some_weights(len(Z), True)
    one = solve(Z, y, Logistic(), RIDGE / 2, weight, intercept)
    two = solve(Z, np.hstack([1 - y, y]), Softmax(), RIDGE, weight, intercept)
    np.testing.assert_allclose(two.v[:, 1] - two.v[:, 0], one.v[:, 0], atol=1e-6)
    np.testing.assert_allclose(two.v[:, 1], -two.v[:, 0], atol=1e-6)
    assert two.intercept[1] - two.intercept[0] == pytest.approx(one.intercept[0], abs=1e-6)
    assert two.objective == pytest.approx(one.objective, rel=1e-10)


@pytest.mark.usefixtures("each_solver")
@pytest.mark.parametrize("ridge", [1e-6, 1e-2, 3.0])
@pytest.mark.parametrize("n_outputs", [1, 3])
@each_weighting
@each_intercept
def test_the_squared_solution_is_the_closed_form(intercept, weighted, n_outputs, ridge):
    Z = some_features()
    y, weight = some_targets(Squared(), Z, n_outputs=n_outputs), some_weights(len(Z), weighted)
    root = np.ones(len(Z)) if weight is None else np.sqrt(weight)
    design = np.ascontiguousarray((np.hstack([Z, np.ones((len(Z), 1)), y]) * root[:, None]).T)
    expected = NormalEquations.from_design(design, n_outputs, weight).system(intercept).solve(ridge)
    solution = solve(Z, y, Squared(), ridge, weight, intercept)
    np.testing.assert_allclose(solution.v, expected.v, atol=1e-7)
    np.testing.assert_allclose(solution.intercept, expected.intercept * intercept, atol=1e-7)
    assert solution.objective == pytest.approx(expected.objective, rel=1e-9)


@pytest.mark.usefixtures("each_solver")
@each_weighting
@each_intercept
@each([Huber(0.3), Huber(1.0), SquaredHinge(), Logistic(), Poisson()])
def test_the_solution_is_that_of_scipy(loss, intercept, weighted):
    Z = some_features()
    y, weight = some_targets(loss, Z), some_weights(len(Z), weighted)
    V, b, value = minimise_by_scipy(Z, y, loss, RIDGE, intercept, weight)
    solution = solve(Z, y, loss, weight=weight, intercept=intercept)
    assert solution.stop_reason is StopReason.GRADIENT
    np.testing.assert_allclose(solution.v, V, atol=1e-5)
    np.testing.assert_allclose(solution.intercept, b, atol=1e-5)
    assert solution.objective == pytest.approx(value, rel=1e-9)


@pytest.mark.usefixtures("each_solver")
@each_weighting
@each_intercept
def test_the_poisson_solution_is_that_of_scikit_learn(intercept, weighted):
    """It minimises half the deviance plus alpha / 2 |v|^2."""
    Z = some_features()
    y, weight = some_targets(Poisson(), Z), some_weights(len(Z), weighted)
    expected = PoissonRegressor(alpha=2 * RIDGE, fit_intercept=intercept, solver="newton-cholesky", tol=1e-8)
    expected.fit(Z, y[:, 0], sample_weight=weight)
    solution = solve(Z, y, Poisson(), weight=weight, intercept=intercept)
    np.testing.assert_allclose(solution.v[:, 0], expected.coef_, atol=1e-5)
    np.testing.assert_allclose(solution.intercept, expected.intercept_, atol=1e-5)


@pytest.mark.usefixtures("each_solver")
@each_weighting
def test_the_squared_hinge_solution_is_that_of_scikit_learn(weighted):
    """Without an intercept, which it would penalise."""
    Z = some_features()
    y, weight = some_targets(SquaredHinge(), Z), some_weights(len(Z), weighted)
    total = len(Z) if weight is None else weight.sum()
    expected = LinearSVC(C=1 / (2 * total * RIDGE), dual=False, fit_intercept=False, tol=1e-10, max_iter=10_000)
    expected.fit(Z, y[:, 0], sample_weight=weight)
    solution = solve(Z, y, SquaredHinge(), weight=weight, intercept=False)
    np.testing.assert_allclose(solution.v, expected.coef_.T, atol=1e-5)
    np.testing.assert_array_equal(solution.intercept, 0)


def quantile_regression(Z, y, quantile, intercept):
    """The lowest mean of the pinball loss that lines reach, as a linear program."""
    n = len(Z)
    columns = np.hstack([Z, np.ones((n, 1))]) if intercept else Z
    cost = np.concatenate([np.zeros(columns.shape[1]), np.full(n, quantile), np.full(n, 1 - quantile)]) / n
    bounds = [(None, None)] * columns.shape[1] + [(0, None)] * (2 * n)
    answer = linprog(cost, A_eq=np.hstack([columns, np.eye(n), -np.eye(n)]), b_eq=y[:, 0], bounds=bounds)
    return answer.fun


@pytest.mark.parametrize("smoothing", [0.1, 0.01, 1e-3])
@pytest.mark.parametrize("quantile", [0.5, 0.9])
@each_intercept
def test_the_pinball_solution_is_that_of_a_linear_program(intercept, quantile, smoothing, monkeypatch):
    """To a quarter of the smoothing, which is what it adds to the loss at most."""
    monkeypatch.setattr(descent, "_NEWTON_FEATURES", 0)
    Z = some_features(80, 3)
    y = some_targets(Squared(), Z)
    lowest = quantile_regression(Z, y, quantile, intercept)
    solution = solve(Z, y, Pinball(quantile, smoothing), 1e-9, intercept=intercept, tol=1e-5, max_iter=2000)
    residual = y - Z @ solution.v - solution.intercept
    found = np.mean(np.maximum(quantile * residual, (quantile - 1) * residual))
    assert lowest - 1e-9 <= found <= lowest + smoothing / 4 + 1e-6
    assert solution.objective <= lowest + smoothing / 4 + 1e-6


def test_least_absolute_deviations_do_not_see_an_outlier(monkeypatch):
    monkeypatch.setattr(descent, "_NEWTON_FEATURES", 0)
    z = np.linspace(-1, 1, 41)[:, None]
    y = 2 * z + 1
    y[[3, 30]] += [[100], [50]]
    solution = solve(z, y, Pinball(0.5, 1e-3), 1e-10, tol=1e-6, max_iter=2000)
    assert solution.v[0, 0] == pytest.approx(2, abs=2e-3)
    assert solution.intercept[0] == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize("smoothing", [0.01, 1e-3])
@pytest.mark.parametrize("n_components", [3, 40])
def test_a_sharp_loss_is_minimised_with_few_features_too(n_components, smoothing):
    """Newton steps would stall where most rows have no curvature, and L-BFGS where a direction it remembers fails."""
    for seed in range(3):
        Z = some_features(150, n_components, seed)
        y = some_targets(Squared(), Z, seed)
        solution = solve(Z, y / y.std(), Pinball(0.5, smoothing), 1e-6, tol=1e-4, max_iter=1000)
        assert solution.stop_reason is StopReason.GRADIENT
        assert solution.gradient <= 1e-4


@settings(max_examples=40)
@given(st.sampled_from(LOSSES), st.booleans(), st.booleans(), st.floats(-4, 0), st.integers(1, 3), seeds)
def test_the_gradient_vanishes_at_the_solution(loss, intercept, weighted, log_ridge, n_outputs, seed):
    Z = some_features(60, 4, seed)
    y, weight, ridge = some_targets(loss, Z, seed, n_outputs), some_weights(60, weighted, seed), 10.0**log_ridge
    y[: y.shape[1]] = np.eye(y.shape[1])  # every class and some counts
    solution = solve(Z, y, loss, ridge, weight, intercept, tol=1e-7, max_iter=2000)
    V, b = solution.v, solution.intercept
    start = gradient_reference(Z, y, loss, 0 * V, base_of(loss, y, weight) * intercept, ridge, weight)
    end = gradient_reference(Z, y, loss, V, b, ridge, weight)
    assert np.abs(end[0]).max() <= 1e-4 * (np.abs(start[0]).max() + np.abs(start[1]).max())
    assert np.abs(end[1]).max() * intercept <= 1e-4 * (np.abs(start[0]).max() + np.abs(start[1]).max())
    assert solution.objective == pytest.approx(objective_reference(Z, y, loss, V, b, ridge, weight), rel=1e-10)
    assert solution.ridge == ridge
    assert intercept or not b.any()


# Weights, starts, blocks, threads


@settings(max_examples=25)
@given(st.sampled_from(LOSSES), st.booleans(), seeds)
def test_whole_weights_equal_repeated_rows(loss, intercept, seed):
    Z = some_features(40, 3, seed)
    y = some_targets(loss, Z, seed)
    y[: y.shape[1]] = np.eye(y.shape[1])
    copies = np.random.default_rng(seed).integers(0, 4, 40)
    copies[:2] = 1
    weighted = solve(Z, y, loss, weight=copies.astype(float), intercept=intercept, tol=1e-9)
    repeated = solve(np.repeat(Z, copies, axis=0), np.repeat(y, copies, axis=0), loss, intercept=intercept, tol=1e-9)
    assert_same_solution(weighted, repeated, 1e-6)


@each(LOSSES)
def test_a_row_of_weight_zero_is_no_row(loss):
    Z = some_features()
    y, weight = some_targets(loss, Z), some_weights(len(Z), True)
    weight[::5] = 0
    kept = weight > 0
    assert_same_solution(solve(Z, y, loss, weight=weight), solve(Z[kept], y[kept], loss, weight=weight[kept]), 1e-6)


@each_weighting
@each_intercept
@each(ONE_OUTPUT)
def test_newton_steps_and_l_bfgs_agree(loss, intercept, weighted, monkeypatch):
    Z = some_features()
    y, weight = some_targets(loss, Z), some_weights(len(Z), weighted)
    newton = solve(Z, y, loss, weight=weight, intercept=intercept)
    monkeypatch.setattr(descent, "_NEWTON_FEATURES", 0)
    other = solve(Z, y, loss, weight=weight, intercept=intercept)
    assert newton.stop_reason is other.stop_reason is StopReason.GRADIENT
    assert_same_solution(newton, other, 1e-6)


@each_intercept
@each([Squared(), Logistic(), Poisson(), Huber(0.7), SquaredHinge()])
def test_few_newton_steps_are_enough(loss, intercept):
    Z = some_features(200, 20) + 2
    solution = solve(Z, some_targets(loss, Z), loss, 1e-3, some_weights(200, True), intercept, tol=1e-6)
    assert solution.stop_reason is StopReason.GRADIENT
    assert solution.n_passes <= 20


@pytest.mark.usefixtures("each_solver")
@each(ONE_OUTPUT)
def test_the_start_does_not_change_the_answer(loss):
    """Also not one from which the slope of the Poisson loss is 1e10 times that of the constant answer."""
    Z = some_features()
    y = some_targets(loss, Z)
    expected = solve(Z, y, loss)
    rng = np.random.default_rng(0)
    for size in (0.1, 1.0, 3.0):
        start = size * rng.standard_normal((5, 1)), size * rng.standard_normal(1)
        assert_same_solution(solve(Z, y, loss, start=start), expected, 1e-6)
    again = solve(Z, y, loss, start=(expected.v, expected.intercept), tol=1e-6)
    assert again.n_passes <= 4
    assert_same_solution(again, expected, 1e-9)


def test_the_start_of_softmax_does_not_change_the_answer():
    Z = some_features()
    y = some_targets(Softmax(), Z, n_outputs=3)
    expected, rng = solve(Z, y, Softmax()), np.random.default_rng(0)
    other = solve(Z, y, Softmax(), start=(rng.standard_normal((5, 3)), rng.standard_normal(3)))
    np.testing.assert_allclose(other.v, expected.v, atol=1e-6)
    shift = other.intercept - expected.intercept
    np.testing.assert_allclose(shift, shift[0], atol=1e-6)


@pytest.mark.usefixtures("each_solver")
@each(LOSSES)
def test_kept_and_remade_features_agree(loss):
    Z = some_features()
    y, weight = some_targets(loss, Z, n_outputs=2), some_weights(len(Z), True)
    one, other = (solve(Z, y, loss, weight=weight, memory=memory) for memory in (None, 1))
    assert_same_solution(one, other, 1e-12)
    assert one.n_passes == other.n_passes


@settings(max_examples=25)
@given(st.sampled_from(SMOOTH), st.integers(1, 130), seeds)
def test_the_blocks_do_not_change_the_answer(loss, block_rows, seed):
    Z = some_features(seed=seed)
    y = some_targets(loss, Z, seed)
    one, other = (solve(Z, y, loss, 0.1, block_rows=rows, tol=1e-10) for rows in (block_rows, 120))
    assert_same_solution(one, other, 1e-8)


@pytest.mark.usefixtures("each_solver")
@each(LOSSES)
def test_the_number_of_threads_does_not_change_a_bit(loss):
    Z = some_features()
    y, weight = some_targets(loss, Z), some_weights(len(Z), True)
    found = []
    for n_workers in (1, 2):
        with ThreadExecutor(n_workers) as executor:
            risk = risk_of(Z, y, loss, weight, block_rows=17, executor=executor, memory=1)
            found.append(minimise_risk(risk, RIDGE, base_of(loss, y, weight), 1e-6, 100))
    np.testing.assert_array_equal(found[0].v, found[1].v)
    np.testing.assert_array_equal(found[0].intercept, found[1].intercept)
    assert found[0].objective == found[1].objective


# Fewer rows than features


@each_weighting
@each_intercept
@each(LOSSES)
def test_the_solution_on_the_row_space_is_that_of_all_features(loss, intercept, weighted):
    Z = some_features(25, 60)
    y, weight = some_targets(loss, Z, n_outputs=2), some_weights(25, weighted)
    risk, base = risk_of(Z, y, loss, weight, intercept, block_rows=10), base_of(loss, y, weight)
    fewer, Q = on_row_space(risk)
    assert Q.shape == (60, 25)
    np.testing.assert_allclose(Q.T @ Q, np.eye(25), atol=1e-12)
    assert (fewer.weight, fewer.intercept, len(fewer.rows.items)) == (pytest.approx(risk.weight), intercept, 3)
    one, other = (minimise_risk(problem, 0.1, base, 1e-8, 2000) for problem in (fewer, risk))
    assert_same_solution(replace(one, v=Q @ one.v), other, 1e-5)


def test_there_is_no_row_space_where_it_would_not_be_smaller():
    Z = some_features(25, 60)
    y = some_targets(Logistic(), Z)
    assert on_row_space(risk_of(Z, y, Logistic(), memory=1)) is None
    assert on_row_space(risk_of(Z[:, :49], y, Logistic())) is None
    assert on_row_space(risk_of(Z[:, :50], y, Logistic())) is not None
    weight = np.zeros(25)
    weight[:5] = 1
    assert on_row_space(risk_of(Z[:, :20], y, Logistic(), weight)) is None
    assert on_row_space(risk_of(Z[:, :30], y, Logistic(), weight)) is not None


@pytest.mark.slow
@each([Squared(), Logistic()])
def test_the_ridge_on_the_row_space_is_that_of_all_features(loss):
    for seed in range(3):
        Z = some_features(25, 60, seed)
        y = some_targets(loss, Z, seed)
        risk, base = risk_of(Z, y, loss), base_of(loss, y)
        ridges = ridge_grid(risk, base)
        fewer, _ = on_row_space(risk)
        one, other = (choose_ridge(problem, source_of(Z, y), ridges, base, 200).ridge for problem in (fewer, risk))
        assert one == other


def test_more_is_asked_of_few_rows_in_double_precision():
    Z = some_features(40, 3)
    y = some_targets(Logistic(), Z)
    assert tolerance(risk_of(Z, y, Logistic()), 1e-5) < 1e-8
    assert tolerance(risk_of(Z.astype(np.float32), y, Logistic(), dtype=np.float32), 1e-5) == 1e-5
    many = np.tile(Z, (40, 1)), np.tile(y, (40, 1))
    assert tolerance(risk_of(*many, Logistic()), 1e-5) == 1e-5


# How it ends


def whitened_norm(Z, y, loss, V, b, ridge, weight, intercept) -> float:
    """Norm of the gradient in coordinates in which c G + 2 ridge is the identity, c the curvature at the base."""
    w = (np.ones(len(Z)) if weight is None else weight)[:, None]
    base = base_of(loss, y, weight) * intercept
    c = np.average(loss.curvature(np.broadcast_to(base, y.shape), y).mean(axis=1), weights=w[:, 0])
    mean = np.average(Z, axis=0, weights=w[:, 0]) * intercept
    G = ((Z - mean) * w).T @ (Z - mean) / w.sum()
    at_V, at_b = gradient_reference(Z, y, loss, V, b, ridge, weight)
    centred = at_V - np.outer(mean, at_b) * intercept
    square = np.sum(centred * np.linalg.solve(c * G + 2 * ridge * np.eye(len(G)), centred))
    return float(np.sqrt(square + np.sum(at_b**2) / c * intercept))


@pytest.mark.usefixtures("each_solver")
@each_intercept
@each(LOSSES)
def test_the_gradient_that_is_reported_is_the_whitened_one_over_that_of_the_constant(loss, intercept):
    Z = some_features()
    y, weight = some_targets(loss, Z, n_outputs=2), some_weights(len(Z), True)
    for tol, max_iter in ((1e-3, 500), (1e-12, 3)):
        solution = solve(Z, y, loss, weight=weight, intercept=intercept, tol=tol, max_iter=max_iter)
        nothing = 0 * solution.v, base_of(loss, y, weight) * intercept
        end = whitened_norm(Z, y, loss, solution.v, solution.intercept, RIDGE, weight, intercept)
        start = whitened_norm(Z, y, loss, *nothing, RIDGE, weight, intercept)
        assert solution.gradient == pytest.approx(end / start, rel=1e-5, abs=1e-12)


@settings(max_examples=40)
@given(st.sampled_from(LOSSES), st.floats(-8, -1), st.booleans(), seeds)
def test_a_fit_that_ends_by_its_gradient_is_within_tolerance(loss, log_tol, few, seed):
    Z = some_features(80, 4, seed)
    tol = 10.0**log_tol
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(descent, "_NEWTON_FEATURES", 64 if few else 0)
        solution = solve(Z, some_targets(loss, Z, seed), loss, tol=tol)
    if solution.stop_reason is StopReason.GRADIENT:
        assert solution.gradient <= tol * (1 + 1e-9)
    else:
        assert isinstance(loss, Pinball | Huber | SquaredHinge)
    assert solution.n_passes > 0


@pytest.mark.usefixtures("each_solver")
@each(LOSSES[1:])
def test_one_step_is_not_enough(loss):
    """But for the squared loss, which is round in these coordinates."""
    Z = some_features(200, 8)
    y = some_targets(loss, Z)
    one, many = (solve(Z, y, loss, 1e-3, max_iter=n, tol=1e-9) for n in (1, 500))
    assert one.stop_reason is StopReason.ITERATIONS
    assert one.gradient > 1e-9
    nothing = objective_reference(Z, y, loss, np.zeros((8, y.shape[1])), base_of(loss, y), 1e-3)
    assert many.objective <= one.objective <= nothing


@pytest.mark.usefixtures("each_solver")
@each([Squared(), Logistic(), Poisson(), SquaredHinge(), Huber(0.7)])
def test_what_is_asked_of_few_rows_is_reached(loss):
    """A last step that lowers the objective by less than its rounding must not end in halvings."""
    for seed in range(30):
        Z = some_features(200, 6, seed)
        y = some_targets(loss, Z, seed)
        risk = risk_of(Z, y, loss, block_rows=200)
        solution = minimise_risk(risk, 1e-3, base_of(loss, y), tolerance(risk, 1e-5), 500)
        assert solution.stop_reason is StopReason.GRADIENT
        assert solution.n_passes < 200


@pytest.mark.usefixtures("each_solver")
@each([Logistic(), Poisson(), SquaredHinge(), Huber(0.7)])
def test_single_precision_reaches_the_tolerance(loss):
    for seed in range(12):
        Z = some_features(300, 5, seed).astype(np.float32)
        y = some_targets(loss, Z, seed)
        solution = solve(Z, y, loss, 1e-3, tol=1e-5, dtype=np.float32)
        assert solution.stop_reason is StopReason.GRADIENT
        assert solution.gradient <= 1e-5
        exact = solve(Z.astype(float), y, loss, 1e-3)
        assert_same_solution(solution, exact, 1e-3)


@each([Softmax(), Logistic()])
def test_many_features_in_single_precision_reach_the_tolerance(loss):
    Z = some_features(400, 80).astype(np.float32)
    solution = solve(Z, some_targets(loss, Z, n_outputs=3), loss, 1e-3, tol=1e-5, dtype=np.float32)
    assert solution.stop_reason is StopReason.GRADIENT
    assert solution.gradient <= 1e-5


@pytest.mark.usefixtures("each_solver")
@each(LOSSES)
@pytest.mark.parametrize("kind", ["duplicated", "constant", "zero", "all", "more than rows"])
def test_singular_features_are_solved(loss, kind):
    Z = some_features(60, 4)
    y = some_targets(loss, Z)
    more = {
        "duplicated": Z[:, [0, 1, 1]],
        "constant": np.full((60, 2), 0.1),
        "zero": np.zeros((60, 2)),
        "all": np.hstack([Z[:, :2], np.full((60, 1), 3.0), np.zeros((60, 1))]),
        "more than rows": some_features(60, 59, 1),
    }[kind]
    wide = np.hstack([Z, more])
    solution = solve(wide, y, loss, tol=1e-6, max_iter=1000)
    assert solution.stop_reason is StopReason.GRADIENT
    at_V, at_b = gradient_reference(wide, y, loss, solution.v, solution.intercept, RIDGE)
    assert max(np.abs(at_V).max(), np.abs(at_b).max()) < 1e-4
    if kind in ("constant", "zero"):
        plain = solve(Z, y, loss, tol=1e-6, max_iter=1000)
        np.testing.assert_allclose(solution.v[:4], plain.v, atol=1e-4)
        np.testing.assert_allclose(solution.v[4:], 0, atol=1e-4)
    if kind == "duplicated":
        np.testing.assert_allclose(solution.v[1], solution.v[5], atol=1e-4)
        np.testing.assert_allclose(solution.v[1], solution.v[6], atol=1e-4)


@pytest.mark.usefixtures("each_solver")
@pytest.mark.parametrize("ridge", [1e-6, 1e-12, 0.0])
@each([Logistic(), SquaredHinge(), Softmax()])
def test_separable_classes_end_for_a_reason_with_finite_numbers(loss, ridge):
    Z = some_features()
    y = (Z[:, :1] > 0.2).astype(float)
    y = np.hstack([1 - y, y]) if isinstance(loss, Softmax) else y
    solution = solve(Z, y, loss, ridge, tol=1e-5)
    assert solution.stop_reason in (StopReason.GRADIENT, StopReason.ITERATIONS, StopReason.ROUNDING)
    assert np.all(np.isfinite(solution.v))
    assert np.all(np.isfinite(solution.intercept))
    assert 0 <= solution.objective < 0.1
    assert np.isfinite(solution.gradient)
    f = Z @ solution.v + solution.intercept
    right = np.argmax(f, axis=1) == np.argmax(y, axis=1) if isinstance(loss, Softmax) else (f > 0) == (y > 0)
    assert right.mean() > 0.98


@pytest.mark.usefixtures("each_solver")
@each([Logistic(), SquaredHinge()])
def test_columns_without_effect_do_not_keep_separable_classes_from_the_solution(loss):
    """The ridge is all the curvature they have, and much more than the rows have left."""
    Z = some_features()
    y = (Z[:, :1] > 0.2).astype(float)
    plain, wide = (solve(X, y, loss, 1e-6, tol=1e-7) for X in (Z, np.hstack([Z, np.zeros((120, 30))])))
    assert plain.stop_reason is wide.stop_reason is StopReason.GRADIENT
    assert wide.objective == pytest.approx(plain.objective, rel=1e-3)


@pytest.mark.parametrize("seed", [2, 5])
def test_terms_that_cancel_are_rounding_and_end_no_step_in_halvings(seed):
    """Three columns that are all but the same, without a ridge: the objective rounds more than its value tells."""
    rng = np.random.default_rng(seed)
    same = rng.standard_normal((60, 1))
    Z = same + 1e-4 * rng.standard_normal((60, 3))
    f = (Z - same) @ rng.standard_normal((3, 3)) / 1e-4 * 3
    y = np.eye(3)[np.argmax(f + rng.gumbel(size=f.shape), axis=1)]
    weight = np.maximum(rng.standard_normal(60), 0)
    risk = risk_of(Z, y, Softmax(), weight, block_rows=60)
    solution = minimise_risk(risk, 0.0, base_of(Softmax(), y, weight), 1e-10, 500)
    assert solution.gradient < 1e-8
    assert solution.n_passes < 1500


@pytest.mark.usefixtures("each_solver")
@pytest.mark.parametrize("value", [0.0, 0.1])
@each(LOSSES)
def test_features_that_say_nothing_leave_the_constant_answer(loss, value):
    """The gradient there is rounding, a small share of which cannot be asked for."""
    if loss in (Huber(0.7), Pinball(0.7, 0.3)):
        loss = Huber(100.0)  # whose constant is the median: here the mean matters
    Z = np.full((97, 3), value)
    y = some_targets(loss, some_features(97))
    base = y.mean(axis=0) if isinstance(loss, Huber) else base_of(loss, y)
    solution = minimise_risk(risk_of(Z, y, loss), RIDGE, base, 1e-5, 500)
    np.testing.assert_allclose(solution.v, 0, atol=1e-8)
    np.testing.assert_allclose(solution.intercept, base, atol=1e-8)
    assert solution.stop_reason in (StopReason.GRADIENT, StopReason.ROUNDING)
    assert solution.n_passes < 100


@pytest.mark.usefixtures("each_solver")
@each([Pinball(0.5, 0.01), Huber(0.05)])
def test_a_start_without_any_curvature_is_left(loss):
    """Without an intercept no target is near the constant answer, zero."""
    Z = some_features(60, 3)
    y = 10 + some_targets(Squared(), Z)
    solution = solve(Z, y, loss, 10.0, intercept=False, tol=1e-4)
    assert np.all(np.isfinite(solution.v))
    assert solution.objective <= objective_reference(Z, y, loss, 0 * solution.v, 0, 10.0)


# The compiled pass


@settings(max_examples=40)
@given(
    st.sampled_from(ONE_OUTPUT), st.sampled_from([np.float32, np.float64]), st.integers(0, 600), st.integers(1, 11),
    st.booleans(), seeds,
)  # fmt: skip
def test_a_compiled_pass_equals_that_of_numpy(loss, dtype, n_rows, n_components, weighted, seed):
    """For every remainder of components and of rows; sums in single precision are those of the features as they are."""
    Z = some_features(n_rows, n_components, seed)
    y, weight = some_targets(loss, Z, seed), some_weights(n_rows, weighted, seed)
    rng = np.random.default_rng(seed)
    V, b = rng.standard_normal((n_components, 1)) / n_components, rng.standard_normal(1)
    block = Block(np.ascontiguousarray(Z.T, dtype), y, weight)
    found = objective._compiled_totals(block, loss, V, b)
    exact = replace(block, X=block.X.astype(np.float64))
    expected = objective._totals_of_block(exact, loss, V.astype(dtype).astype(np.float64), b)
    tol = 1e-11 if dtype == np.float64 else 2e-5
    size = 1 + np.abs(exact.X) @ np.abs(loss.slope(exact.X.T @ V + b, y)) * (2 if weighted else 1)
    assert found.loss == pytest.approx(expected.loss, rel=tol, abs=tol * n_rows)
    assert np.all(np.abs(found.V - expected.V) <= 10 * tol * (size + n_rows))
    np.testing.assert_allclose(found.b, expected.b, rtol=tol, atol=10 * tol * (n_rows + 1))


@each([Logistic(), Poisson()])
def test_a_loss_the_compiled_loops_do_not_know_has_the_same_solution(loss, monkeypatch):
    Z = some_features()
    y = some_targets(loss, Z)
    compiled = solve(Z, y, loss)
    monkeypatch.setattr(type(loss), "kernel", lambda self: None)
    np.testing.assert_allclose(solve(Z, y, loss).v, compiled.v, rtol=1e-6)


# The ridge


def chosen_ridge(Z, y, loss, weight=None, block_rows=50, source_X=None) -> float:
    risk, base = risk_of(Z, y, loss, weight, block_rows=block_rows), base_of(loss, y, weight)
    source = source_of(Z if source_X is None else source_X, y, weight, block_rows)
    return choose_ridge(risk, source, ridge_grid(risk, base), base, 100).ridge


def stiffest(Z, y, loss) -> float:
    return float(ridge_grid(risk_of(Z, y, loss), base_of(loss, y))[0])


@each(LOSSES)
def test_the_grid_falls_from_stiff_to_loose_in_proportion_to_the_curvature(loss):
    Z = some_features(150, 6)
    y = some_targets(loss, Z)
    risk, base = risk_of(Z, y, loss), base_of(loss, y)
    ridges = ridge_grid(risk, base)
    assert np.all(np.diff(ridges) < 0)
    curvature = loss.curvature(np.broadcast_to(base, y.shape), y).mean()
    np.testing.assert_allclose(ridges[::-1], risk.system.ridges() * curvature / 2, rtol=1e-12)


@each(LOSSES)
def test_the_ridge_is_one_of_the_grid(loss):
    Z = some_features(150, 6)
    y = some_targets(loss, Z)
    ridge = chosen_ridge(Z, y, loss)
    assert ridge in ridge_grid(risk_of(Z, y, loss), base_of(loss, y))
    given = np.array([3.0, 0.3, 0.03])
    assert choose_ridge(risk_of(Z, y, loss), source_of(Z, y), given, base_of(loss, y), 100).ridge in given


@pytest.mark.slow
@each([Squared(), Logistic(), Softmax(), Poisson(), SquaredHinge()])
def test_noise_wants_a_stiff_model_and_a_clean_signal_a_loose_one(loss):
    Z = np.random.default_rng(1).standard_normal((200, 12))
    noise = some_targets(loss, np.random.default_rng(2).standard_normal((200, 12)))
    clean = Z @ np.random.default_rng(3).standard_normal((12, 1))
    signal = {
        "squared": clean,
        "Poisson": np.exp(clean / 3),
        "softmax": np.hstack([clean > 0, clean <= 0]).astype(float),
    }.get(loss.name, (clean > 0).astype(float))
    assert chosen_ridge(Z, noise, loss) > 0.05 * stiffest(Z, noise, loss)
    assert chosen_ridge(Z, signal, loss) < 0.01 * stiffest(Z, signal, loss)


@pytest.mark.parametrize("one_fold", [True, False])
def test_the_ridge_is_judged_by_rows_that_are_held_out(one_fold, monkeypatch):
    monkeypatch.setattr(ridge_choice, "_ROWS_FOR_ONE_FOLD", 100 if one_fold else 1000)
    Z, loss = some_features(150, 20, 5), Squared()
    y = some_targets(loss, Z, 5)
    ridge, grid = chosen_ridge(Z, y, loss), ridge_grid(risk_of(Z, y, loss), base_of(loss, y))
    errors = np.zeros(len(grid))
    for fold in range(1 if one_fold else 5):
        out = folds_of(Z, 5) == fold
        for i, candidate in enumerate(grid):
            fit = solve(Z[~out], y[~out], loss, candidate)
            errors[i] += loss.value(Z[out] @ fit.v + fit.intercept, y[out]).sum()
    assert errors[np.argmin(np.abs(grid - ridge))] <= 1.01 * errors.min()
    assert errors.min() < 0.97 * max(errors[0], errors[-1])


@pytest.mark.slow
@settings(max_examples=8)
@given(st.sampled_from([Squared(), Logistic(), Softmax()]), st.integers(10, 60), seeds)
def test_the_order_of_the_rows_and_their_blocks_do_not_change_the_ridge(loss, block_rows, seed):
    Z = some_features(60, 3, seed)
    y = some_targets(loss, Z, seed)
    y[: y.shape[1]] = np.eye(y.shape[1])
    order = np.random.default_rng(seed).permutation(60)
    one, other = chosen_ridge(Z, y, loss), chosen_ridge(Z[order], y[order], loss, block_rows=block_rows)
    assert one == pytest.approx(other, rel=1e-9)


def test_sparse_rows_have_the_ridge_of_dense_ones():
    Z = some_features(80, 4)
    Z[np.random.default_rng(0).random(Z.shape) < 0.5] = 0
    y = some_targets(Logistic(), Z)
    dense = chosen_ridge(Z, y, Logistic())
    assert chosen_ridge(Z, y, Logistic(), source_X=sp.csr_array(Z)) == dense
    sparse = risk_of(sp.csr_array(Z), y, Logistic(), memory=1)
    base = base_of(Logistic(), y)
    assert choose_ridge(sparse, source_of(sp.csr_array(Z), y), ridge_grid(sparse, base), base, 100).ridge == dense


def choices(Z, y, loss, weight, monkeypatch) -> tuple[Risk, list[RidgeChoice], int]:
    """The problem, the choice where there is room for a copy in single precision and where not; copies made."""
    monkeypatch.setattr(descent, "_MANY_ROWS", 1000)
    monkeypatch.setattr(descent, "_NEWTON_FEATURES", 0)
    split, copies = ridge_choice._split_in_single, []
    monkeypatch.setattr(ridge_choice, "_split_in_single", lambda *some: copies.append(1) or split(*some))
    risk, base = risk_of(Z, y, loss, weight, block_rows=512), base_of(loss, y, weight)
    source, ridges = source_of(Z, y, weight, 512), ridge_grid(risk, base)
    return risk, [choose_ridge(risk, source, ridges, base, 100, memory) for memory in (None, Z.nbytes)], len(copies)


@each_weighting
@each([Logistic(), Softmax(), Poisson(), SquaredHinge()])
def test_many_rows_are_searched_in_single_precision_where_there_is_room(loss, weighted, monkeypatch):
    """The choice is that of double precision, and the solution from there that from nothing."""
    Z = some_features(2500, 12)
    y, weight = some_targets(loss, Z), some_weights(2500, weighted)
    risk, (single, double), copies = choices(Z, y, loss, weight, monkeypatch)
    assert copies == 1
    assert single.ridge == double.ridge
    np.testing.assert_allclose(single.start[0], double.start[0], atol=1e-3 * np.abs(double.start[0]).max())
    base = base_of(loss, y, weight)
    from_nothing = minimise_risk(risk, single.ridge, base, 1e-8, 500)
    for choice in (single, double):
        assert (choice.whitening is None) == isinstance(loss, Softmax)
        there = minimise_risk(risk, choice.ridge, base, 1e-8, 500, choice.start, choice.whitening)
        np.testing.assert_allclose(there.v, from_nothing.v, atol=1e-5 * np.abs(from_nothing.v).max())
        assert there.n_passes <= from_nothing.n_passes


@each([Pinball(0.5, 0.1), Huber(0.5)])
def test_a_loss_of_straight_pieces_is_searched_in_the_precision_of_its_rows(loss, monkeypatch):
    Z = some_features(1200, 3)
    _, found, copies = choices(Z, some_targets(loss, Z), loss, None, monkeypatch)
    assert copies == 0
    assert all(choice.whitening is None for choice in found)


@each_weighting
@each_intercept
@each([Logistic(), Softmax(), Huber(0.5)])
def test_hessians_in_single_precision_are_those_in_double(loss, intercept, weighted):
    Z = some_features()
    y = some_targets(loss, Z)
    risk = risk_of(Z, y, loss, some_weights(120, weighted), intercept)
    rng = np.random.default_rng(0)
    V, b = rng.standard_normal((5, y.shape[1])), rng.standard_normal(y.shape[1])
    single, double = (risk.hessians(V, b, dtype) for dtype in (np.float32, np.float64))
    assert single.dtype == double.dtype == np.float64
    np.testing.assert_allclose(single, double, atol=1e-5 * np.abs(double).max())


@pytest.mark.slow
@settings(max_examples=8)
@given(st.sampled_from([Squared(), Logistic(), Poisson()]), seeds)
def test_whole_weights_have_the_ridge_of_repeated_rows(loss, seed):
    Z = some_features(50, 3, seed)
    y = some_targets(loss, Z, seed)
    y[:1] = 1
    copies = np.random.default_rng(seed).integers(0, 4, 50)
    copies[:10] = 1
    weighted = chosen_ridge(Z, y, loss, copies.astype(float))
    repeated = chosen_ridge(np.repeat(Z, copies, axis=0), np.repeat(y, copies, axis=0), loss)
    assert weighted == pytest.approx(repeated, rel=1e-9)


@pytest.mark.parametrize("seed", [9868, 3, 4, 5])
def test_rounding_does_not_choose_between_ridges_that_are_as_good(seed, monkeypatch):
    """With many rows the solution before is within the tolerance of the path at loose ridges, and nothing moves."""
    monkeypatch.setattr(descent, "_FEW_ROWS", 0)
    Z = some_features(60, 3, seed)
    y = some_targets(Squared(), Z, seed)
    y[0] = 1
    order = np.random.default_rng(seed).permutation(60)
    one, other = chosen_ridge(Z, y, Squared()), chosen_ridge(Z[order], y[order], Squared(), block_rows=10)
    assert one == pytest.approx(other, rel=1e-9)


def test_whole_weights_have_the_ridge_of_repeated_rows_where_one_fold_is_enough(monkeypatch):
    monkeypatch.setattr(ridge_choice, "_ROWS_FOR_ONE_FOLD", 80)
    for seed in range(6):
        Z = some_features(60, 8, seed)
        y = some_targets(Logistic(), Z, seed)
        weighted = chosen_ridge(Z, y, Logistic(), np.full(60, 2.0))
        repeated = chosen_ridge(np.repeat(Z, 2, axis=0), np.repeat(y, 2, axis=0), Logistic())
        assert weighted == pytest.approx(repeated, rel=1e-9)


@each(LOSSES)
def test_equal_rows_have_the_stiffest_ridge(loss):
    Z = np.full((40, 3), 0.7)
    y = some_targets(loss, some_features(40))
    assert chosen_ridge(Z, y, loss) == stiffest(Z, y, loss)


def test_where_the_first_fold_is_empty_another_is_held_out(monkeypatch):
    """Of six different rows none is in it for one table in four."""
    monkeypatch.setattr(ridge_choice, "_ROWS_FOR_ONE_FOLD", 50)
    different = np.random.default_rng(0).standard_normal((40, 2))
    different = different[folds_of(different, 5) != 0][:12]
    Z = np.repeat(different, 10, axis=0)
    y = Z @ np.array([[1.0], [-2.0]])
    assert chosen_ridge(Z, y, Squared()) < 0.01 * stiffest(Z, y, Squared())


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [20, 50])
def test_few_rows_have_a_ridge_under_a_sharp_loss(n_rows):
    """Of them only the median itself may be within the smoothing of the constant answer, and it is held out once."""
    loss = Pinball(0.5, 0.01)
    for seed in range(5):
        Z = some_features(n_rows, 3, seed)
        y = some_targets(Squared(), Z, seed)
        ridge = chosen_ridge(Z, y / y.std(), loss)
        assert np.isfinite(ridge)
        assert ridge > 0


# What rows leave behind


@settings(max_examples=20)
@given(st.sampled_from(LOSSES), st.booleans(), seeds)
def test_the_slope_of_past_rows_equals_finite_differences(loss, intercept, seed):
    Z = some_features(40, 3, seed)
    y, weight = some_targets(loss, Z, seed, 2), some_weights(40, True, seed)
    rng = np.random.default_rng(seed)
    risk, n_outputs = risk_of(Z, y, loss, weight, intercept), y.shape[1]
    past = risk.curvature(rng.standard_normal((3, n_outputs)), rng.standard_normal(n_outputs) * intercept, RIDGE)
    at = rng.standard_normal((4, n_outputs))
    _, slope = past.value_and_slope(at[:-1], at[-1])
    for entry in np.ndindex(at.shape):
        move = np.zeros_like(at)
        move[entry] = 1e-4
        high, low = (past.value_and_slope(*np.split(at + side * move, [3]))[0] for side in (1, -1))
        assert slope[entry] == pytest.approx((high - low) / 2e-4, rel=1e-6, abs=1e-6 * (1 + np.abs(slope).max()))
    assert past.weight == pytest.approx(weight.sum())


@each_intercept
@each(ONE_OUTPUT)
def test_the_curvature_of_past_rows_is_that_of_the_summed_loss(loss, intercept):
    Z = some_features(60, 3)
    y, weight = some_targets(loss, Z, n_outputs=2), some_weights(60, True)
    risk, rng = risk_of(Z, y, loss, weight, intercept), np.random.default_rng(0)
    V, b = rng.standard_normal((3, 2)) / 3, rng.standard_normal(2) * intercept
    past = risk.curvature(V, b)
    w = weight[:, None] * loss.curvature(Z @ V + b, y)
    columns = np.hstack([Z, np.full((60, 1), float(intercept))])
    for o in range(2):
        np.testing.assert_allclose(past.A[o], (columns * w[:, [o]]).T @ columns, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("ridge", [1e-9, 0.1])
@each_intercept
def test_the_memory_of_the_squared_loss_is_the_loss_itself(intercept, ridge):
    """Where there is a ridge the summed loss still falls at the solution, by 2 n ridge V."""
    Z = some_features(60, 3)
    y, weight = some_targets(Squared(), Z, n_outputs=2), some_weights(60, True)
    risk = risk_of(Z, y, Squared(), weight, intercept)
    solution = minimise_risk(risk, ridge, base_of(Squared(), y, weight), 1e-10, 500)
    past = risk.curvature(solution.v, solution.intercept, ridge)
    rng = np.random.default_rng(0)
    gaps = []
    for _ in range(5):
        V, b = rng.standard_normal((3, 2)), rng.standard_normal(2) * intercept
        total = risk.totals(V, b)
        value, slope = past.value_and_slope(V, b)
        gaps.append(total.loss - value)
        size = np.abs(total.V).max()
        np.testing.assert_allclose(slope[:-1], total.V, atol=1e-6 * size)
        np.testing.assert_allclose(slope[-1] * intercept, total.b * intercept, atol=1e-6 * size)
    np.testing.assert_allclose(gaps, gaps[0], rtol=1e-6)


def learn_in_chunks(Z, y, loss, ridge, cuts, intercept=True) -> RiskSolution:
    """Every chunk of rows with the past of those before; the features are whitened by all rows."""
    whole, past, base = risk_of(Z, y, loss, intercept=intercept), None, base_of(loss, y)
    solution, start, seen = None, None, 0
    for rows in np.split(np.arange(len(Z)), cuts):
        seen += len(rows)
        part = risk_of(Z[rows], y[rows], loss, intercept=intercept)
        risk = replace(part, system=whole.system, weight=float(seen), past=past)
        solution = minimise_risk(risk, ridge, base, 1e-9, 500, start)
        start = solution.v, solution.intercept
        past = risk.curvature(*start, ridge)
        assert past.weight == seen
    return solution


@each_intercept
@pytest.mark.parametrize("ridge", [1e-8, 0.1])
@pytest.mark.parametrize("cuts", [[60], [20, 50, 51, 100]])
def test_chunks_end_at_the_fit_of_all_rows_under_the_squared_loss(cuts, ridge, intercept):
    Z = some_features()
    y = some_targets(Squared(), Z, n_outputs=2)
    expected = solve(Z, y, Squared(), ridge, intercept=intercept, tol=1e-9)
    found = learn_in_chunks(Z, y, Squared(), ridge, cuts, intercept)
    np.testing.assert_allclose(found.v, expected.v, atol=1e-5)
    np.testing.assert_allclose(found.intercept, expected.intercept, atol=1e-5)


@each([Logistic(), Poisson()])
def test_chunks_end_near_the_fit_of_all_rows_under_other_losses(loss):
    Z = some_features(600, 3)
    y = some_targets(loss, Z)
    for ridge in (1e-6, 0.1):
        expected = solve(Z, y, loss, ridge)
        found = learn_in_chunks(Z, y, loss, ridge, [200, 400])
        first = solve(Z[:200], y[:200], loss, ridge)
        off, alone = (np.linalg.norm(fit.v - expected.v) for fit in (found, first))
        assert off < 0.3 * alone + 1e-4


def test_memories_add_up():
    Z = some_features()
    y = some_targets(Logistic(), Z)
    V, b = np.full((5, 1), 0.2), np.array([0.1])
    first, second, both = (risk_of(Z[rows], y[rows], Logistic()) for rows in (slice(50), slice(50, 120), slice(120)))
    past = replace(second, past=first.curvature(V, b), weight=120.0).curvature(V, b)
    np.testing.assert_allclose(past.A, both.curvature(V, b).A, rtol=1e-12)


# Shared activations under any loss


def some_directions(n_components: int = 6, seed: int = 0) -> Directions:
    rng = np.random.default_rng(seed)
    W, offset = rng.standard_normal((3, n_components)), 0.3 * rng.standard_normal(n_components)
    return Directions(W, offset, rng.uniform(0.5, 2, n_components), n_components)


def shared_source(loss, n_rows=150, weighted=True, n_outputs=1, seed=0, block_rows=61) -> ArraySource:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 3))
    y = some_targets(loss, 3 * np.sin(2 * X), seed, n_outputs)
    return ArraySource(X, y, some_weights(n_rows, weighted), block_rows)


def shared_risk(loss, source, intercept=True, basis=None) -> SharedRisk:
    basis = BSplineBasis(8) if basis is None else basis
    problem = SharedProblem.from_source(source, some_directions(), basis.pieces(), intercept, EXECUTOR)
    base = base_of(loss, source.y, source.weight) * intercept
    return SharedRisk(problem, loss, base, RIDGE)


@each_weighting
@each_intercept
@each(LOSSES)
def test_the_gradient_in_the_activation_equals_finite_differences(loss, intercept, weighted, monkeypatch):
    monkeypatch.setattr(shared_problem, "_INNER_TOLERANCE", 1e-9)
    risk = shared_risk(loss, shared_source(loss, weighted=weighted), intercept)
    a = fit_function(BSplineBasis(8), np.tanh) + 0.1 * np.random.default_rng(0).standard_normal(8)
    _, gradient = risk.evaluate(a)
    expected = np.empty(8)
    for k in range(8):
        high, low = (risk.evaluate(a + side * 1e-4 * np.eye(8)[k])[0] for side in (1, -1))
        expected[k] = (high - low) / 2e-4
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_under_the_squared_loss_it_is_the_problem_in_closed_form(monkeypatch):
    monkeypatch.setattr(shared_problem, "_INNER_TOLERANCE", 1e-9)
    risk = shared_risk(Squared(), shared_source(Squared(), n_outputs=2))
    a = fit_function(BSplineBasis(8), np.tanh)
    value, gradient = risk.evaluate(a)
    expected, expected_gradient = risk.problem.evaluate(a, RIDGE)
    assert value == pytest.approx(expected, rel=1e-7)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-5, atol=1e-6 * np.abs(gradient).max())


def test_evaluations_do_not_depend_on_those_before(monkeypatch):
    monkeypatch.setattr(shared_problem, "_INNER_TOLERANCE", 1e-9)
    source = shared_source(Logistic())
    a, other = fit_function(BSplineBasis(8), np.tanh), fit_function(BSplineBasis(8), np.cos)
    fresh, used = shared_risk(Logistic(), source), shared_risk(Logistic(), source)
    used.evaluate(other)
    assert used.evaluate(a)[0] == pytest.approx(fresh.evaluate(a)[0], rel=1e-9)


def proxy_of(loss, source) -> ArraySource:
    """The same rows with the targets a first step chases."""
    base = base_of(loss, source.y, source.weight)
    return ArraySource(source.X, -loss.slope(np.broadcast_to(base, source.y.shape), source.y), source.weight, 61)


def polish(loss, source, activation, alpha=1e-4, basis=None, **search) -> LearnedActivation:
    base = base_of(loss, source.y, np.ones(len(source.y)) if source.weight is None else source.weight)
    task = ActivationTask(
        source, some_directions(), BSplineBasis(8) if basis is None else basis, True,
        Search(**{"max_iter": 8, **search}), np.random.default_rng(0), EXECUTOR,
    )  # fmt: skip
    return polish_shared_activation(task, activation, loss, base, alpha)


def an_activation() -> LearnedActivation:
    a = fit_function(BSplineBasis(8), np.tanh)
    return LearnedActivation(a, np.eye(8), np.array([1.0]), StopReason.CONVERGED, "tanh")


@pytest.mark.parametrize("alpha", [0.0, 1e-2])
@each(LOSSES)
def test_polishing_never_raises_the_objective(loss, alpha):
    source = shared_source(loss)
    polished = polish(loss, source, an_activation(), alpha)
    assert np.all(np.diff(polished.trace) <= 0)
    assert polished.trace[-1] < polished.trace[0]
    assert np.all(np.isfinite(polished.a))
    problem = SharedProblem.from_source(source, some_directions(), BSplineBasis(8).pieces(), True, EXECUTOR)
    assert problem.equations(polished.a).mean_square == pytest.approx(1, rel=1e-6)


@each([Logistic(), Softmax(), Poisson()])
def test_polishing_goes_on_from_the_squared_proxy(loss):
    source, basis = shared_source(loss, 300), BSplineBasis(8)
    rng = np.random.default_rng(0)
    search = Search(max_iter=50)
    task = ActivationTask(proxy_of(loss, source), some_directions(), basis, True, search, rng, EXECUTOR)
    first = learn_shared_activation(task, 1e-4)
    polished = polish(loss, source, first)
    assert polished.trace[-1] < polished.trace[0]
    assert polished.start == first.start
    risk = shared_risk(loss, source)
    risk.ridge = 1e-4 * some_directions().n_components
    assert polished.trace[0] == pytest.approx(risk.evaluate(first.a)[0], rel=1e-5)
    scale = np.linalg.norm(polished.a) / np.linalg.norm(first.a)
    on_sphere = polished.a / scale
    assert risk.evaluate(on_sphere)[0] == pytest.approx(polished.trace[-1], rel=1e-5)
    np.testing.assert_allclose(polished.covariance, first.covariance * scale**2, rtol=1e-9)


@each([Logistic(), Huber(0.3), Pinball(0.7, 0.3)])
def test_polishing_is_the_same_for_any_blocks_and_for_repeated_rows(loss):
    source = shared_source(loss, 100, weighted=False)
    weight = np.random.default_rng(0).integers(1, 4, 100)
    weighted = [ArraySource(source.X, source.y, weight.astype(float), rows) for rows in (100, 33, 99)]
    repeated = ArraySource(np.repeat(source.X, weight, axis=0), np.repeat(source.y, weight, axis=0), None, 50)
    first, *others = (polish(loss, rows, an_activation(), 1e-2, max_iter=3).trace for rows in (*weighted, repeated))
    for trace in others:
        np.testing.assert_allclose(trace, first, rtol=1e-4)


@each([Logistic(), Softmax(), Poisson()])
def test_polishing_many_rows_in_single_precision_comes_to_the_same(loss, monkeypatch):
    source = shared_source(loss, 400)
    double = polish(loss, source, an_activation(), 1e-2)
    monkeypatch.setattr(descent, "_MANY_ROWS", 300)
    assert search_dtype(source, loss) == np.float32
    assert search_dtype(source, Pinball(0.5, 0.1)) == np.float64
    single = polish(loss, source, an_activation(), 1e-2)
    np.testing.assert_allclose(single.trace[[0, -1]], double.trace[[0, -1]], rtol=1e-3)
    np.testing.assert_allclose(single.a, double.a, atol=0.02 * np.abs(double.a).max())


@each([Huber(0.7), Poisson()])
def test_polishing_a_constant_target_changes_nothing(loss):
    """The objective is zero from the start, and its logarithm is what descends."""
    source = shared_source(Squared(), 60)
    constant = ArraySource(source.X, np.ones_like(source.y), source.weight, 61)
    polished = polish(loss, constant, an_activation())
    assert np.all(np.isfinite(polished.a))
    direction = an_activation().a / np.linalg.norm(an_activation().a)
    np.testing.assert_allclose(polished.a / np.linalg.norm(polished.a), direction, atol=1e-9)
