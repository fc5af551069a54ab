"""The loss in (v, a) to second order, and ridges judged with the activation learned again under each."""

from __future__ import annotations

import numpy as np
import pytest
from data import weighted_sine_rows
from exact_reference import Reference, tangential_share

from rflaf import RFLAFRegressor, SharedActivation
from rflaf.functions.bases import BSplineBasis, RBFBasis
from rflaf.rows.blocks import array_source
from rflaf.rows.executors import ThreadExecutor
from rflaf.training import ridge_rule
from rflaf.training.ridge_rule import choose_jointly
from rflaf.training.solvers import exact_search
from rflaf.training.solvers.joint_model import JointAnswer, JointSums, on_sphere
from rflaf.training.solvers.sphere import newton_on_sphere
from rflaf.training.solvers.whole_problem import WholeProblem

N_BASIS, RIDGE = 7, 1e-2


def problem_of(rows, ridge=RIDGE, intercept=True, directions=None):
    """J(a) by passes over some rows, under directions of a model fitted to all."""
    basis = BSplineBasis(N_BASIS)
    if directions is None:
        settings = {"directions": "random", "activation": SharedActivation(), "basis": basis, "random_state": 0}
        directions = RFLAFRegressor(6, alpha=1e-3, n_jobs=1, **settings).fit(*rows).model_.directions
    return WholeProblem(array_source(*rows), directions, basis.pieces(), ridge, intercept, ThreadExecutor(1))


def errors(problem, a, v, intercept):
    """Mean squared errors by output of any activation and output weights."""
    return problem.equations(a).errors(v, intercept)


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("weighted", [True, False], ids=["weighted", "unweighted"])
def test_errors_are_right_to_second_order(n_outputs, weighted, one_blas_thread):
    X, y, weight = weighted_sine_rows(300, n_outputs)
    problem = problem_of((X, y, weight if weighted else None))
    place = problem.at(np.cos(np.arange(float(N_BASIS))))
    sums = JointSums.around(place, place.equations, problem.products(place, problem.source))
    rng = np.random.default_rng(0)
    dv, t, db = rng.normal(size=place.solution.v.shape), rng.normal(size=N_BASIS - 1), rng.normal(size=n_outputs)
    left = []
    for size in (1e-2, 1e-3):
        answer = JointAnswer(place.solution.v + size * dv, place.solution.intercept + size * db, size * t)
        exact = errors(problem, on_sphere(place.a, sums.tangent.T @ answer.t), answer.v, answer.intercept)
        left.append(np.abs(sums.errors(answer) - exact).max())
    assert left[1] < 2e-3 * left[0]  # terms of third order


@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])
def test_a_step_is_that_of_newton(intercept, one_blas_thread):
    X, y, weight = weighted_sine_rows(300, 2)
    problem = problem_of((X, y, weight), intercept=intercept)
    near = newton_on_sphere(problem, problem.at(np.cos(np.arange(float(N_BASIS)))), 50, 1e-2).place
    sums = JointSums.around(near, near.equations, problem.products(near, problem.source))
    answer = sums.system(intercept).at(RIDGE)
    after = problem.at(on_sphere(near.a, sums.tangent.T @ answer.t))
    lowest = newton_on_sphere(problem, near, 50).place
    assert after.value - lowest.value <= 0.05 * (near.value - lowest.value)
    np.testing.assert_allclose(answer.v, lowest.solution.v, atol=0.02 * np.abs(lowest.solution.v).max())


def test_ridges_are_judged_as_if_fitted_anew_without_the_rows(one_blas_thread):
    X, y, weight = weighted_sine_rows(3000, 1)
    y = y + np.random.default_rng(1).normal(size=y.shape)
    whole = problem_of((X, y, weight))
    start = newton_on_sphere(whole, whole.at(np.cos(np.arange(float(N_BASIS)))), 50).place
    sums = JointSums.around(start, start.equations, whole.products(start, whole.source))
    judges = array_source(X[:600], y[:600], weight[:600])
    choice = choose_jointly(whole, start, sums, judges)
    kept = problem_of((X[600:], y[600:], weight[600:]), directions=whole.directions)
    held_out = problem_of((X[:600], y[:600], weight[:600]), directions=whole.directions)

    def error(ridge: float) -> float:
        refitted = kept.with_ridge(ridge)
        place = newton_on_sphere(refitted, refitted.at(start.a), 50).place
        return float(errors(held_out, place.a, place.solution.v, place.solution.intercept)[0])

    assert choice.error[0] == pytest.approx(error(choice.ridge), rel=0.01)
    assert error(choice.ridge) <= min(error(choice.ridge * factor) for factor in (0.1, 10)) * 1.001


def test_rows_that_are_all_held_out_leave_the_choice_to_others(one_blas_thread):
    X, y, _ = weighted_sine_rows(100, 1)
    problem = problem_of((X, y))
    place = problem.at(np.cos(np.arange(float(N_BASIS))))
    sums = JointSums.around(place, place.equations, problem.products(place, problem.source))
    assert choose_jointly(problem, place, sums, problem.source) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_ridge_chosen_jointly_ends_at_a_minimum(dtype, monkeypatch, one_blas_thread):
    monkeypatch.setattr(exact_search, "_MOST_FUNCTIONS", 0)
    monkeypatch.setattr(ridge_rule, "_FEW_ROWS", 100)
    monkeypatch.setattr(ridge_rule, "_FEW_UNKNOWNS", 10)
    X, y = weighted_sine_rows(900, 1)[:2]
    shared = SharedActivation("exact")
    settings = {"directions": "random", "activation": shared, "basis": RBFBasis(9), "random_state": 0, "n_jobs": 1}
    model = RFLAFRegressor(12, **settings).fit(X.astype(dtype), y[:, 0])
    reference, a = Reference.of(model, X.astype(dtype).astype(float), y[:, 0]), model.activation_.coefficients[0]
    assert tangential_share(reference.gradient(a), a) < 1e-6
    v, b = reference.solve(a)
    np.testing.assert_allclose(model.output_weights_, v[:, 0], rtol=1e-5, atol=1e-7 * np.abs(v).max())
    np.testing.assert_allclose(model.intercept_, b[0], rtol=1e-5)
    solved = model.model_.last_layer.solve()
    np.testing.assert_allclose(solved.v, model.model_.v, rtol=1e-5, atol=1e-7 * np.abs(v).max())
