"""Variable projection against a dense reference: the objective, its gradient, the descent and the covariance."""

from __future__ import annotations

import numpy as np
import pytest
from data import weighted_sine_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from rflaf.functions.bases import BSplineBasis, RBFBasis, fit_function
from rflaf.functions.densities import Directions
from rflaf.rows.blocks import ArraySource
from rflaf.rows.executors import ThreadExecutor
from rflaf.training.solvers.shared_activation import (
    STARTS,
    ActivationTask,
    Search,
    StopReason,
    learn_shared_activation,
    minimise_on_sphere,
)
from rflaf.training.solvers.shared_problem import SharedProblem

RIDGE = 1e-3
BASES = (BSplineBasis(10), RBFBasis(10), BSplineBasis(8, degree=1))

each_basis = pytest.mark.parametrize("basis", BASES, ids=["bspline", "rbf", "linear"])
each_intercept = pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])
seeds = st.integers(0, 2**32 - 1)


def some_directions(n_features: int = 3, n_components: int = 7, seed: int = 0) -> Directions:
    rng = np.random.default_rng(seed)
    W, offset = rng.standard_normal((n_features, n_components)), 0.3 * rng.standard_normal(n_components)
    return Directions(W, offset, rng.uniform(0.5, 2, n_components), n_components)


def some_source(n_rows: int = 90, n_outputs: int = 2, weighted: bool = True, seed: int = 0, block_rows: int = 37):
    X, y, weight = weighted_sine_rows(n_rows, n_outputs, seed)
    return ArraySource(X, y, weight if weighted else None, block_rows)


def some_problem(basis, intercept=True, source=None, directions=None) -> SharedProblem:
    directions = some_directions() if directions is None else directions
    source = some_source() if source is None else source
    return SharedProblem.from_source(source, directions, basis.pieces(), intercept, ThreadExecutor())


def some_coefficients(basis, seed: int = 0):
    return np.random.default_rng(seed).standard_normal(basis.n_basis)


def dense_objective(basis, a, source, directions, intercept, ridge):
    """J(a) from its definition: least squares on the rows themselves, augmented by the penalty."""
    Z = basis.values(source.X @ directions.W + directions.offset) @ a * directions.importance
    weight = np.ones(source.n_samples) if source.weight is None else source.weight
    columns = np.hstack([Z, np.ones((source.n_samples, 1))]) if intercept else Z
    root = np.sqrt(weight / weight.sum())[:, None]
    penalty = np.sqrt(ridge) * np.eye(Z.shape[1], columns.shape[1])
    A = np.vstack([root * columns, penalty])
    b = np.vstack([root * source.y, np.zeros((Z.shape[1], source.n_outputs))])
    return float(np.sum((A @ np.linalg.lstsq(A, b, rcond=None)[0] - b) ** 2))


def finite_differences(function, a, step: float = 1e-5):
    moves = step * np.eye(a.size)
    return np.array([(function(a + move) - function(a - move)) / (2 * step) for move in moves])


# The objective and its gradient


@each_basis
@each_intercept
@pytest.mark.parametrize("weighted", [True, False], ids=["weighted", "unweighted"])
def test_the_objective_is_its_definition(basis, intercept, weighted):
    source, directions, a = some_source(weighted=weighted), some_directions(), some_coefficients(basis)
    value, _ = some_problem(basis, intercept, source, directions).evaluate(a, RIDGE)
    expected = dense_objective(basis, a, source, directions, intercept, RIDGE)
    assert value == pytest.approx(expected, rel=1e-6)


@each_basis
@each_intercept
@pytest.mark.parametrize("weighted", [True, False], ids=["weighted", "unweighted"])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_the_gradient_equals_finite_differences(basis, intercept, weighted, n_outputs):
    problem = some_problem(basis, intercept, some_source(weighted=weighted, n_outputs=n_outputs))
    a = some_coefficients(basis)
    _, gradient = problem.evaluate(a, RIDGE)
    expected = finite_differences(lambda b: problem.evaluate(b, RIDGE)[0], a)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@each_basis
def test_the_gradient_is_orthogonal_to_the_activation_without_a_ridge(basis):
    problem, a = some_problem(basis), some_coefficients(basis)
    _, gradient = problem.evaluate(a, 0.0)
    assert abs(gradient @ a) < 1e-9 * np.linalg.norm(gradient) * np.linalg.norm(a)


def test_single_precision_is_near_double_precision():
    basis, source = BASES[0], some_source()
    single = ArraySource(source.X.astype(np.float32), source.y.astype(np.float32), source.weight.astype(np.float32))
    a = some_coefficients(basis)
    value, gradient = some_problem(basis, source=source).evaluate(a, RIDGE)
    value_32, gradient_32 = some_problem(basis, source=single).evaluate(a, RIDGE)
    assert value_32 == pytest.approx(value, rel=1e-4)
    np.testing.assert_allclose(gradient_32, gradient, atol=1e-3 * np.abs(gradient).max())


@settings(max_examples=25)
@given(st.integers(1, 90), seeds)
def test_the_blocks_do_not_change_the_objective(block_rows, seed):
    basis = BASES[0]
    a = some_coefficients(basis, seed)
    one = some_problem(basis, source=some_source(seed=seed, block_rows=90)).evaluate(a, RIDGE)
    other = some_problem(basis, source=some_source(seed=seed, block_rows=block_rows)).evaluate(a, RIDGE)
    assert other[0] == pytest.approx(one[0], rel=1e-10)
    np.testing.assert_allclose(other[1], one[1], rtol=1e-7, atol=1e-9 * np.abs(one[1]).max())


@settings(max_examples=25)
@given(seeds)
def test_permuting_the_components_leaves_the_objective_unchanged(seed):
    basis, directions = BASES[0], some_directions(seed=seed)
    order = np.random.default_rng(seed).permutation(directions.n_components)
    a, source = some_coefficients(basis, seed), some_source(seed=seed)
    one, other = (some_problem(basis, source=source, directions=d) for d in (directions, directions.take(order)))
    assert other.evaluate(a, RIDGE)[0] == pytest.approx(one.evaluate(a, RIDGE)[0], rel=1e-10)
    v, permuted = (p.equations(a).system().solve(RIDGE).v for p in (one, other))
    np.testing.assert_allclose(permuted, v[order], rtol=1e-7, atol=1e-9)


@settings(max_examples=25)
@given(st.floats(-3, 3).map(lambda exponent: 10.0**exponent), st.booleans(), seeds)
def test_the_gauge_leaves_the_profile_unchanged(factor, negative, seed):
    basis, c = BASES[0], -factor if negative else factor
    problem, a = some_problem(basis, source=some_source(seed=seed)), some_coefficients(basis, seed)
    one, other = problem.equations(a).system().solve(RIDGE), problem.equations(c * a).system().solve(RIDGE * c**2)
    np.testing.assert_allclose(c * other.v, one.v, rtol=1e-7, atol=1e-9 * np.abs(one.v).max())
    np.testing.assert_allclose(other.intercept, one.intercept, rtol=1e-7, atol=1e-9)
    assert other.mean_residual.sum() == pytest.approx(one.mean_residual.sum(), rel=1e-9)


def test_a_longer_activation_never_costs_more():
    problem, a = some_problem(BASES[0]), some_coefficients(BASES[0])
    values = [problem.evaluate(c * a, RIDGE)[0] for c in (0.5, 1.0, 2.0, 4.0)]
    assert values == sorted(values, reverse=True)


# The sphere


@pytest.mark.slow
@settings(max_examples=30)
@given(st.integers(2, 12), st.floats(0.1, 10), seeds)
def test_the_sphere_is_kept_and_the_smallest_eigenvector_found(n_basis, radius, seed):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((n_basis, n_basis)))[0]
    values = np.concatenate([[1.0], rng.uniform(2, 10, n_basis - 1)])
    A = Q * values @ Q.T
    start = rng.standard_normal(n_basis) + Q[:, 0]
    start *= radius / np.linalg.norm(start)
    answer, trace, reason = minimise_on_sphere(lambda a: (a @ A @ a, 2 * A @ a), start, 200, 1e-14)
    assert np.linalg.norm(answer) == pytest.approx(radius, rel=1e-12)
    assert answer @ A @ answer == pytest.approx(radius**2, rel=1e-8)
    assert abs(answer @ Q[:, 0]) == pytest.approx(radius, rel=1e-6)
    assert trace[0] == start @ A @ start
    assert np.all(np.diff(trace) <= 1e-14 * trace[0])
    assert reason in (StopReason.CONVERGED, StopReason.ROUNDING)


def test_the_scale_of_the_objective_does_not_change_the_path():
    A, start = np.diag([1.0, 2.0, 5.0, 9.0]), np.full(4, 0.5)

    def steps(scale: float) -> int:
        _, trace, _ = minimise_on_sphere(lambda a: (scale * a @ A @ a, 2 * scale * A @ a), start, 50, 1e-8)
        return len(trace)

    assert steps(1.0) == steps(2.0**-60) == steps(2.0**60)


def test_one_step_stops_at_the_iterations():
    A, start = np.diag([1.0, 2.0, 5.0]), np.ones(3)
    _, trace, reason = minimise_on_sphere(lambda a: (a @ A @ a, 2 * A @ a), start, 1, 1e-14)
    assert reason is StopReason.ITERATIONS
    assert len(trace) == 2


def test_a_slope_that_points_uphill_stops_at_rounding():
    A, start = np.diag([1.0, 2.0, 5.0]), np.ones(3)
    answer, _, reason = minimise_on_sphere(lambda a: (a @ A @ a, -2 * A @ a), start, 50, 1e-14)
    assert reason is StopReason.ROUNDING
    np.testing.assert_allclose(answer, start, rtol=1e-12)


def test_every_stop_reason_carries_advice():
    assert all(len(reason.value) > 20 for reason in StopReason)


# Learning


def learn(source, basis=BASES[0], alpha=None, intercept=True, search=None, start=None, seed=0, n_workers=1):
    with ThreadExecutor(n_workers) as executor:
        directions, rng = some_directions(n_components=20), np.random.default_rng(seed)
        task = ActivationTask(source, directions, basis, intercept, search or Search(), rng, executor)
        return learn_shared_activation(task, alpha, start)


@each_basis
@each_intercept
@pytest.mark.parametrize("alpha", [None, 1e-4])
def test_the_objective_never_rises(basis, intercept, alpha):
    learned = learn(some_source(400), basis, alpha, intercept)
    assert np.all(np.diff(learned.trace) <= 1e-12 * learned.trace[0])
    assert learned.trace[-1] < learned.trace[0]
    assert learned.stop_reason is StopReason.CONVERGED
    assert learned.start in STARTS


def test_the_learned_activation_has_unit_mean_square():
    source, directions = some_source(400), some_directions(n_components=20)
    learned = learn(source)
    assert some_problem(BASES[0], True, source, directions).equations(learned.a).mean_square == pytest.approx(1)


def test_a_start_that_is_given_is_used():
    learned = learn(some_source(400), start=fit_function(BASES[0], np.cos))
    assert learned.start == "given"
    again = learn(some_source(400), start=5 * fit_function(BASES[0], np.cos))
    np.testing.assert_allclose(again.a, learned.a, rtol=1e-6, atol=1e-6)


def test_more_steps_never_end_higher():
    ends = [
        learn(some_source(400), alpha=1e-4, search=Search(max_iter=steps), start=some_coefficients(BASES[0])).trace[-1]
        for steps in (1, 2, 4, 8, 16)
    ]
    assert ends == sorted(ends, reverse=True)


def test_one_iteration_is_reported_as_such():
    learned = learn(some_source(400), alpha=1e-4, search=Search(max_iter=1))
    assert learned.stop_reason is StopReason.ITERATIONS


@each_intercept
def test_a_target_of_zero_leaves_nothing_to_learn(intercept):
    source = some_source(400)
    source = ArraySource(source.X, np.zeros_like(source.y), source.weight, source.block_rows)
    learned = learn(source, intercept=intercept)
    assert learned.stop_reason is StopReason.NOTHING_TO_LEARN
    assert np.all(np.isfinite(learned.a))
    assert np.all(np.isfinite(learned.covariance))


@pytest.mark.parametrize("n_workers", [2, 3])
def test_the_number_of_threads_does_not_change_a_bit(n_workers):
    one, other = (learn(some_source(400), n_workers=n) for n in (1, n_workers))
    np.testing.assert_array_equal(other.a, one.a)
    np.testing.assert_array_equal(other.trace, one.trace)
    np.testing.assert_array_equal(other.covariance, one.covariance)


# The covariance


def plain(directions: Directions) -> Directions:
    return directions.take(np.arange(directions.n_components), importance=np.ones(directions.n_components))


each_sampling = pytest.mark.parametrize(
    "sampling",
    [plain, lambda directions: directions],
    ids=["plain", "leverage"],
)


def dense_covariance(basis, a, source, directions, intercept, ridge):
    """noise / n (T' sum over outputs of H' (I - P) H T)^+ with T the projection onto the tangent of the sphere."""
    values = basis.values(source.X @ directions.W + directions.offset)
    Z, n = values @ a * directions.importance, source.n_samples
    columns = np.hstack([Z, np.ones((n, 1))]) if intercept else Z
    penalty = n * ridge * np.eye(Z.shape[1], columns.shape[1]).T @ np.eye(Z.shape[1], columns.shape[1])
    pseudo_inverse = np.linalg.solve(columns.T @ columns + penalty, columns.T)
    P, v = columns @ pseudo_inverse, (pseudo_inverse @ source.y)[: Z.shape[1]]
    H = np.einsum("rmi,mo->ori", values, directions.importance[:, None] * v)
    information = sum(h.T @ (np.eye(n) - P) @ h for h in H) / n
    T = np.eye(a.size) - np.outer(a, a) / (a @ a)
    noise = np.mean((source.y - P @ source.y) ** 2) / (1 - (np.trace(P) + 1 - intercept) / n)
    return noise / n * np.linalg.pinv(T @ information @ T, rcond=1e-6, hermitian=True)


@each_sampling
@each_basis
@each_intercept
def test_the_covariance_is_its_definition(basis, intercept, sampling):
    source, directions, a = some_source(weighted=False), sampling(some_directions()), some_coefficients(basis)
    covariance = some_problem(basis, intercept, source, directions).covariance(a, RIDGE)
    expected = dense_covariance(basis, a, source, directions, intercept, RIDGE)
    np.testing.assert_allclose(covariance, expected, atol=1e-5 * np.abs(expected).max())


@each_basis
@each_intercept
def test_the_covariance_is_positive_semi_definite_and_lies_on_the_sphere(basis, intercept):
    problem, a = some_problem(basis, intercept, directions=plain(some_directions())), some_coefficients(basis)
    covariance = problem.covariance(a, RIDGE)
    size = np.abs(covariance).max()
    np.testing.assert_allclose(covariance, covariance.T, atol=1e-12 * size)
    assert np.linalg.eigvalsh(covariance).min() > -1e-10 * size
    np.testing.assert_allclose(covariance @ a, 0, atol=1e-9 * size * np.linalg.norm(a))


@each_intercept
@pytest.mark.parametrize("copies", [4, 25])
def test_the_covariance_shrinks_like_one_over_the_number_of_rows(intercept, copies):
    basis, source, directions = BASES[0], some_source(weighted=False), plain(some_directions())
    repeated = ArraySource(np.tile(source.X, (copies, 1)), np.tile(source.y, (copies, 1)))
    a = some_coefficients(basis)
    one, many = (some_problem(basis, intercept, rows, directions) for rows in (source, repeated))
    spent = one.equations(a).system(intercept).factor(RIDGE).degrees_of_freedom + 1
    shrinkage = (1 - spent / source.n_samples) / (1 - spent / repeated.n_samples) / copies
    expected = one.covariance(a, RIDGE) * shrinkage
    np.testing.assert_allclose(many.covariance(a, RIDGE), expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.slow
@each_sampling
@each_intercept
def test_the_covariance_is_the_spread_over_repeated_noise(intercept, sampling):
    basis, rng = BSplineBasis(7), np.random.default_rng(0)
    directions, X = sampling(some_directions(n_components=12)), rng.uniform(-1.5, 1.5, (800, 3))
    a = fit_function(basis, lambda z: np.sin(2 * z))
    signal = basis.values(X @ directions.W + directions.offset) @ a * directions.importance @ rng.standard_normal(12)

    def learned(seed: int, executor: ThreadExecutor):
        y = signal + np.random.default_rng(seed).normal(scale=0.1, size=800)
        search = Search(tol=1e-9, max_iter=500)
        task = ActivationTask(ArraySource(X, y[:, None]), directions, basis, intercept, search, rng, executor)
        return learn_shared_activation(task, 1e-9, start=a)

    with ThreadExecutor() as executor:
        answers = [learned(seed, executor) for seed in range(25)]
    grid = basis.values(np.linspace(-2.5, 2.5, 40))
    spread = np.var([grid @ answer.a for answer in answers], axis=0)
    stated = np.mean([np.einsum("gi,ij,gj->g", grid, answer.covariance, grid) for answer in answers], axis=0)
    assert np.all(stated > 0)
    assert 0.5 < np.mean(stated) / np.mean(spread) < 2
