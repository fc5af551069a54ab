"""The normal equations against dense algebra on the rows themselves: hat matrices, scikit-learn's Ridge, refits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
from data import linear_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from rflaf.functions._kernels.cholesky import factor_in_place, solve_in_place
from rflaf.model.normal_equations import NormalEquations
from rflaf.model.ridge import Remedy, RidgeFactor, RidgeSolution, walk_downhill

RIDGES = np.array([1e-6, 1e-3, 0.1, 3.0])

each_intercept = pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])
each_ridge = pytest.mark.parametrize("ridge", RIDGES)
seeds = st.integers(0, 2**32 - 1)


def equations_of(Z, y, weight=None, dtype=np.float64) -> NormalEquations:
    """Of features (n_rows, n_components) and targets (n_rows, n_outputs), written as the docstring has it."""
    design = np.hstack([Z, np.ones((Z.shape[0], 1)), y]).T.astype(dtype)
    if weight is not None:
        design = design * np.sqrt(weight)
    return NormalEquations.from_design(np.ascontiguousarray(design), y.shape[1], weight)


def predictions(solution: RidgeSolution, Z):
    return Z @ solution.v + solution.intercept


def scikit_ridge(Z, y, ridge, intercept, weight=None) -> Ridge:
    total = Z.shape[0] if weight is None else weight.sum()
    return Ridge(alpha=ridge * total, fit_intercept=intercept, solver="cholesky").fit(Z, y, sample_weight=weight)


def hat_matrix(Z, ridge, intercept):
    """H with fitted values H y, from its definition; the intercept is a column that is not penalised."""
    n, m = Z.shape
    columns = np.hstack([Z, np.ones((n, 1))]) if intercept else Z
    penalty = n * ridge * np.eye(m)
    if intercept:
        penalty = np.pad(penalty, (0, 1))
    return columns @ np.linalg.solve(columns.T @ columns + penalty, columns.T)


def least_squares_fit(Z, y, intercept):
    """Fitted values of least squares; columns are normalised so that their scale decides nothing."""
    columns = np.hstack([Z, np.ones((Z.shape[0], 1))]) if intercept else Z
    norms = np.linalg.norm(columns, axis=0)
    columns = columns / np.where(norms > 0, norms, 1)
    return columns @ np.linalg.lstsq(columns, y, rcond=1e-12)[0]


def assert_same_equations(one: NormalEquations, other: NormalEquations, rtol: float = 1e-12) -> None:
    size = np.abs(other.moments).max()
    np.testing.assert_allclose(one.moments, other.moments, rtol=rtol, atol=rtol * size)
    assert (one.n_outputs, one.n_rows, one.whole_weights) == (other.n_outputs, other.n_rows, other.whole_weights)


# A monoid over rows


@st.composite
def partitions(draw):
    """Rows with or without weights, and a way to cut and shuffle them."""
    n_rows, seed = draw(st.integers(2, 40)), draw(seeds)
    Z, y = linear_rows(n_rows, draw(st.integers(1, 5)), draw(st.integers(1, 3)), seed)
    rng = np.random.default_rng(seed)
    weight = draw(st.sampled_from([None, rng.uniform(0.1, 2, n_rows), rng.integers(0, 4, n_rows).astype(float)]))
    cuts = sorted(draw(st.sets(st.integers(1, n_rows - 1), max_size=6)))
    return Z, y, weight, np.split(rng.permutation(n_rows), cuts)


@settings(max_examples=60)
@given(partitions())
def test_any_row_partition_gives_the_same_equations(case):
    Z, y, weight, parts = case
    whole = equations_of(Z, y, weight)
    blocks = [equations_of(Z[rows], y[rows], None if weight is None else weight[rows]) for rows in parts]
    total = blocks[0]
    for block in blocks[1:]:
        total = total + block
    assert_same_equations(total, whole)
    in_place = equations_of(Z[parts[0]], y[parts[0]], None if weight is None else weight[parts[0]])
    for block in blocks[1:]:
        in_place += block
    np.testing.assert_array_equal(in_place.moments, total.moments)
    assert (in_place.n_rows, in_place.whole_weights) == (total.n_rows, total.whole_weights)


@settings(max_examples=30)
@given(seeds)
def test_addition_is_associative_and_commutes(seed):
    a, b, c = (equations_of(*linear_rows(n, 4, 1, seed + n)) for n in (3, 8, 20))
    assert_same_equations((a + b) + c, a + (b + c))
    np.testing.assert_array_equal((a + b).moments, (b + a).moments)


def test_addition_leaves_its_terms_alone():
    a, b = (equations_of(*linear_rows(seed=seed)) for seed in (0, 1))
    before = a.moments.copy(), b.moments.copy()
    a + b
    np.testing.assert_array_equal(a.moments, before[0])
    np.testing.assert_array_equal(b.moments, before[1])


def test_counts_come_from_the_rows():
    Z, y = linear_rows(5, 3, 2)
    equations = equations_of(Z, y, np.array([0.0, 1.0, 2.0, 0.0, 3.0]))
    assert (equations.n_components, equations.n_outputs, equations.n_rows) == (3, 2, 3)
    assert equations.weight == pytest.approx(6)
    assert equations.system().count == pytest.approx(6)
    fractional = equations_of(Z, y, np.array([0.0, 1.5, 2.0, 0.0, 3.0]))
    assert not fractional.whole_weights
    assert fractional.system().count == 3


def test_the_mean_square_is_that_of_all_features():
    Z, y = linear_rows()
    assert equations_of(Z, y).mean_square == pytest.approx(np.mean(Z**2), rel=1e-13)


# The solution


@settings(max_examples=60)
@given(
    st.integers(2, 30), st.integers(1, 8), st.integers(1, 3), st.floats(-4, 1), st.booleans(),
    st.sampled_from([None, "real", "whole"]), seeds,
)  # fmt: skip
def test_the_solution_is_that_of_scikit_learn(n_rows, n_components, n_outputs, log_ridge, intercept, kind, seed):
    Z, y = linear_rows(n_rows, n_components, n_outputs, seed)
    rng, ridge = np.random.default_rng(seed), 10.0**log_ridge
    weights = {"real": rng.uniform(0.1, 3, n_rows), "whole": 1.0 + rng.integers(0, 3, n_rows)}
    weight = weights.get(kind)
    solution = equations_of(Z, y, weight).system(intercept).solve(ridge)
    expected = scikit_ridge(Z, y, ridge, intercept, weight)
    np.testing.assert_allclose(solution.v, expected.coef_.T.reshape(solution.v.shape), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        predictions(solution, Z), expected.predict(Z).reshape(y.shape), rtol=1e-10, atol=1e-10 * np.abs(y).max()
    )


@each_intercept
@each_ridge
@pytest.mark.parametrize("weighted", [False, True])
def test_coefficients_and_intercept_are_those_of_scikit_learn(intercept, ridge, weighted):
    Z, y = linear_rows(60, 8, 3)
    weight = np.random.default_rng(1).uniform(0.2, 2, 60) if weighted else None
    solution = equations_of(Z, y, weight).system(intercept).solve(ridge)
    expected = scikit_ridge(Z, y, ridge, intercept, weight)
    np.testing.assert_allclose(solution.v, expected.coef_.T, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(solution.intercept, np.broadcast_to(expected.intercept_, 3), rtol=1e-10, atol=1e-10)
    assert solution.factor.remedy is Remedy.NONE


@each_intercept
@each_ridge
def test_the_objective_is_the_mean_squared_residual_plus_the_penalty(intercept, ridge):
    Z, y = linear_rows()
    weight = np.random.default_rng(1).uniform(0.2, 2, Z.shape[0])
    solution = equations_of(Z, y, weight).system(intercept).solve(ridge)
    residual = np.average((y - predictions(solution, Z)) ** 2, axis=0, weights=weight)
    np.testing.assert_allclose(solution.mean_residual, residual, rtol=1e-10)
    assert solution.objective == pytest.approx(residual.sum() + ridge * np.sum(solution.v**2), rel=1e-10)


@each_intercept
def test_the_unpenalised_limit_is_least_squares(intercept):
    Z, y = linear_rows()
    fit = least_squares_fit(Z, y, intercept)
    system = equations_of(Z, y).system(intercept)
    np.testing.assert_allclose(predictions(system.solve(0.0), Z), fit, rtol=1e-11, atol=1e-11)
    gaps = [np.abs(predictions(system.solve(ridge), Z) - fit).max() for ridge in (1e-2, 1e-4, 1e-6, 1e-8)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-6


def test_a_large_ridge_leaves_the_mean():
    Z, y = linear_rows()
    solution = equations_of(Z, y).system().solve(1e12)
    np.testing.assert_allclose(predictions(solution, Z), np.broadcast_to(y.mean(axis=0), y.shape), rtol=1e-9)


@settings(max_examples=40)
@given(st.integers(3, 15), st.booleans(), seeds)
def test_integer_weights_equal_repeated_rows(n_rows, intercept, seed):
    Z, y = linear_rows(n_rows, 3, 2, seed)
    copies = np.random.default_rng(seed).integers(0, 4, n_rows)
    copies[:2] = 2
    weighted = equations_of(Z, y, copies.astype(float)).system(intercept)
    Z_long, y_long = np.repeat(Z, copies, axis=0), np.repeat(y, copies, axis=0)
    repeated = equations_of(Z_long, y_long).system(intercept)
    assert weighted.count == pytest.approx(repeated.count)
    np.testing.assert_allclose(weighted.solve(0.1).v, repeated.solve(0.1).v, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(
        weighted.spectrum.gcv(RIDGES[1:]), repeated.spectrum.gcv(RIDGES[1:]), rtol=1e-8, atol=1e-10
    )
    np.testing.assert_allclose(
        weighted.spectrum.leave_one_out(RIDGES[1:], Z.T, y, copies.astype(float)),
        repeated.spectrum.leave_one_out(RIDGES[1:], Z_long.T, y_long),
        rtol=1e-8,
    )


def test_a_row_of_weight_zero_is_no_row():
    Z, y = linear_rows()
    weight = np.ones(Z.shape[0])
    weight[7] = 0
    kept = weight > 0
    one, other = equations_of(Z, y, weight).system(), equations_of(Z[kept], y[kept]).system()
    assert one.count == other.count
    np.testing.assert_allclose(one.solve(0.1).v, other.solve(0.1).v, rtol=1e-11)


# Fewer and scaled features


@settings(max_examples=40)
@given(st.integers(1, 6), seeds)
def test_taking_and_scaling_equal_the_equations_of_that_design(n_taken, seed):
    Z, y = linear_rows(12, 6, 2, seed)
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.5, 2, 12)
    components, importance = rng.permutation(6)[:n_taken], rng.uniform(-2, 2, n_taken)
    equations = equations_of(Z, y, weight).take(components)
    assert_same_equations(equations, equations_of(Z[:, components], y, weight))
    assert_same_equations(equations.scale(importance), equations_of(Z[:, components] * importance, y, weight))


@each_intercept
@each_ridge
@pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])
def test_equations_answered_by_weights_have_them_for_their_solution(ridge, intercept, weighted):
    Z, y = linear_rows()
    rng = np.random.default_rng(1)
    before = equations_of(Z, y, rng.uniform(0.1, 2, len(Z)) if weighted else None)
    v = rng.standard_normal((Z.shape[1], y.shape[1]))
    after = before.answered_by(v, ridge, intercept)
    solution, system = after.system(intercept).solve(ridge), before.system(intercept)
    np.testing.assert_allclose(solution.v, v, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(solution.intercept, (system.y_mean - system.z_mean @ v) * intercept, rtol=1e-9)
    np.testing.assert_allclose(after.system(intercept).G, system.G, rtol=1e-12)
    expected = before.errors(v, solution.intercept)
    np.testing.assert_allclose(after.errors(v, solution.intercept), expected, rtol=1e-9)
    np.testing.assert_allclose(after.moments, after.moments.T, rtol=1e-12)


def test_targets_that_are_solved_already_stay():
    Z, y = linear_rows()
    equations = equations_of(Z, y)
    same = equations.answered_by(equations.system().solve(0.1).v, 0.1)
    assert_same_equations(same, equations, 1e-9)


def test_a_component_taken_twice_is_a_duplicated_feature():
    Z, y = linear_rows()
    assert_same_equations(equations_of(Z, y).take(np.array([2, 2, 0])), equations_of(Z[:, [2, 2, 0]], y))


# Leave-one-out, degrees of freedom, cross-validation


def refits_without_each_row(Z, y, ridge, intercept, weight=None):
    """Residual of every row under the ridge fitted to the others, its penalty ``n ridge |v|^2`` unchanged."""
    n = Z.shape[0]
    total = n if weight is None else weight.sum()
    residuals = np.empty_like(y)
    for i in range(n):
        others = np.arange(n) != i
        model = Ridge(alpha=ridge * total, fit_intercept=intercept, solver="cholesky")
        model.fit(Z[others], y[others], sample_weight=None if weight is None else weight[others])
        residuals[i] = y[i] - model.predict(Z[i : i + 1]).ravel()
    return residuals


@each_intercept
def test_leave_one_out_equals_refitting_without_the_row(intercept):
    Z, y = linear_rows(25, 4, 2)
    system = equations_of(Z, y).system(intercept)
    refits = [refits_without_each_row(Z, y, ridge, intercept) for ridge in RIDGES]
    for ridge, expected in zip(RIDGES, refits, strict=True):
        np.testing.assert_allclose(system.solve(ridge).leave_one_out(Z.T, y), expected, rtol=1e-9, atol=1e-10)
    errors = [np.sum(expected**2) for expected in refits]
    np.testing.assert_allclose(system.spectrum.leave_one_out(RIDGES, Z.T, y), errors, rtol=1e-9)


@each_intercept
def test_leave_one_out_with_real_weights_leaves_the_whole_row_out(intercept):
    Z, y = linear_rows(25, 4, 2)
    weight = np.random.default_rng(3).uniform(0.2, 1.8, 25)
    spectrum = equations_of(Z, y, weight).system(intercept).spectrum
    errors = [weight @ (refits_without_each_row(Z, y, r, intercept, weight) ** 2).sum(axis=1) for r in RIDGES]
    np.testing.assert_allclose(spectrum.leave_one_out(RIDGES, Z.T, y, weight), errors, rtol=1e-9)


def test_leave_one_out_is_a_sum_over_rows():
    Z, y = linear_rows()
    spectrum = equations_of(Z, y).system().spectrum
    parts = sum(spectrum.leave_one_out(RIDGES, Z[rows].T, y[rows]) for rows in (slice(0, 13), slice(13, None)))
    np.testing.assert_allclose(parts, spectrum.leave_one_out(RIDGES, Z.T, y), rtol=1e-12)


def test_a_row_that_fits_itself_does_not_make_leave_one_out_infinite():
    Z, y = linear_rows(12, 3, 1)
    Z[:, 2] = np.eye(12)[0]
    errors = equations_of(Z, y).system().spectrum.leave_one_out(np.array([0.0, 1e-300]), Z.T, y)
    assert np.all(np.isfinite(errors))


def test_features_of_few_directions_need_as_many_eigenvectors():
    rng = np.random.default_rng(5)
    Z, y = rng.standard_normal((120, 6)) @ rng.standard_normal((6, 80)), rng.standard_normal((120, 2))
    system = equations_of(Z, y).system()
    assert system.spectrum.values.size == 6
    ridges = system.scale * np.array([1e-4, 1e-2, 1.0])
    errors = [np.sum(system.solve(ridge).leave_one_out(Z.T, y) ** 2) for ridge in ridges]
    np.testing.assert_allclose(system.spectrum.leave_one_out(ridges, Z.T, y), errors, rtol=1e-9)
    np.testing.assert_allclose(system.spectrum.solve(ridges[0]), system.solve(ridges[0]).v, rtol=1e-7, atol=1e-9)


@each_intercept
def test_cross_validation_and_degrees_of_freedom_are_those_of_the_hat_matrix(intercept):
    Z, y = linear_rows(30, 5, 2)
    n = Z.shape[0]
    system = equations_of(Z, y).system(intercept)
    hats = [hat_matrix(Z, ridge, intercept) for ridge in RIDGES]
    traces = np.array([np.trace(hat) for hat in hats])
    residuals = np.array([np.sum((y - hat @ y) ** 2) for hat in hats])
    np.testing.assert_allclose(system.spectrum.degrees_of_freedom(RIDGES), traces - intercept, rtol=1e-10)
    np.testing.assert_allclose(system.spectrum.mean_residual(RIDGES), residuals / n, rtol=1e-9)
    np.testing.assert_allclose(system.spectrum.gcv(RIDGES), n * residuals / (n - traces) ** 2, rtol=1e-9)
    for ridge, trace, hat in zip(RIDGES, traces, hats, strict=True):
        factor = system.factor(ridge)
        assert factor.degrees_of_freedom == pytest.approx(trace - intercept, rel=1e-10)
        np.testing.assert_allclose(factor.hat_diagonal(Z.T), np.diagonal(hat), rtol=1e-10)


def test_cross_validation_is_infinite_where_the_rows_are_spent():
    Z, y = linear_rows(10, 12, 1)
    spectrum = equations_of(Z, y).system().spectrum
    assert np.isinf(spectrum.gcv(np.array([1e-12]))[0])
    assert np.isfinite(spectrum.gcv(np.array([10.0]))[0])


def test_the_best_ridge_is_the_lowest_of_its_grid():
    Z, y = linear_rows(60, 20, 1, seed=4)
    spectrum = equations_of(Z, y).system().spectrum
    ridges = spectrum.system.ridges()
    assert ridges[0] == pytest.approx(0.02 / 60 * spectrum.system.scale)
    assert ridges[-1] == pytest.approx(10 * spectrum.system.scale)
    assert spectrum.best_ridge() == ridges[np.argmin(spectrum.gcv(ridges))]


def test_few_lines_in_double_precision_have_far_smaller_ridges():
    few = equations_of(*linear_rows(60, 20, 1, seed=4)).system()
    np.testing.assert_allclose(few.ridges_of_lines()[:5], few.ridges()[0] * np.array([1e-5, 1e-4, 1e-3, 1e-2, 1]))
    many = equations_of(*linear_rows(60, 30, 1, seed=4)).system()  # more than a third of the rows
    np.testing.assert_array_equal(many.ridges_of_lines(), many.ridges())


def test_the_best_ridge_is_the_largest_where_none_is_finite():
    Z, y = linear_rows(2, 2, 1)
    spectrum = equations_of(Z, y).system().spectrum
    assert np.all(np.isinf(spectrum.gcv(spectrum.system.ridges()[:3])))
    single = equations_of(Z[:1], y[:1]).system().spectrum
    assert single.best_ridge() == single.system.ridges()[-1]


@settings(max_examples=40)
@given(st.integers(2, 30), st.integers(1, 8), st.floats(-4, 1), st.booleans(), seeds)
def test_eigenvalues_and_cholesky_agree(n_rows, n_components, log_ridge, intercept, seed):
    Z, y = linear_rows(n_rows, n_components, 2, seed)
    system, ridge = equations_of(Z, y).system(intercept), 10.0**log_ridge
    spectrum, solution = system.spectrum, system.solve(ridge)
    np.testing.assert_allclose(
        spectrum.degrees_of_freedom(np.array([ridge]))[0], solution.factor.degrees_of_freedom, rtol=1e-8, atol=1e-10
    )
    np.testing.assert_allclose(
        spectrum.mean_residual(np.array([ridge]))[0], solution.mean_residual.sum(), rtol=1e-8, atol=1e-10
    )


@each_ridge
def test_a_factor_solves_and_inverts(ridge):
    system = equations_of(*linear_rows()).system()
    factor = system.factor(ridge)
    A = system.G + ridge * np.eye(6)
    right = np.random.default_rng(0).standard_normal((6, 3))
    np.testing.assert_allclose(factor.solve(right), np.linalg.solve(A, right), rtol=1e-10)
    np.testing.assert_allclose(factor.inverse_root.T @ factor.inverse_root, np.linalg.inv(A), rtol=1e-9)
    np.testing.assert_allclose(factor.inverse_diagonal, np.diagonal(np.linalg.inv(A)), rtol=1e-10)


# Singular and badly scaled systems


def singular_designs():
    """Name -> features (60, m) of rank 5, or of rank 60 where there are more features than rows."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((60, 5))
    return {
        "duplicated features": np.hstack([Z, Z]),
        "scaled duplicates": np.hstack([Z, -7.5 * Z]),
        "linear combinations": np.hstack([Z, Z @ rng.standard_normal((5, 4))]),
        "a zero feature": np.hstack([Z, np.zeros((60, 1))]),
        "more features than rows": rng.standard_normal((60, 150)),
    }


def some_targets(Z):
    rng = np.random.default_rng(1)
    return Z[:, :5] @ rng.standard_normal((5, 1)) + rng.standard_normal((60, 1)) + 3


@each_intercept
@pytest.mark.parametrize("name", singular_designs())
def test_a_singular_system_without_a_ridge_predicts_like_least_squares(name, intercept):
    Z = singular_designs()[name]
    y = some_targets(Z)
    solution = equations_of(Z, y).system(intercept).solve(0.0)
    assert np.all(np.isfinite(solution.v))
    assert solution.factor.remedy is Remedy.JITTER
    np.testing.assert_allclose(predictions(solution, Z), least_squares_fit(Z, y, intercept), atol=1e-9)


@pytest.mark.parametrize("name", singular_designs())
def test_the_degrees_of_freedom_of_a_singular_system_are_its_rank(name):
    Z = singular_designs()[name]
    system = equations_of(Z, some_targets(Z)).system(intercept=False)
    assert system.factor(0.0).degrees_of_freedom == pytest.approx(np.linalg.matrix_rank(Z), rel=0.05)


@pytest.mark.parametrize("name", singular_designs())
def test_the_spectrum_of_a_singular_system_spends_its_rank(name):
    Z = singular_designs()[name]
    spectrum = equations_of(Z, some_targets(Z)).system(intercept=False).spectrum
    assert spectrum.degrees_of_freedom(np.zeros(1))[0] == pytest.approx(np.linalg.matrix_rank(Z), rel=1e-9)


@each_intercept
def test_features_that_are_all_zero_leave_the_mean(intercept):
    y = some_targets(np.zeros((60, 5)))
    system = equations_of(np.zeros((60, 5)), y).system(intercept)
    expected = y.mean() if intercept else 0.0
    for ridge in (0.0, 1.0):
        np.testing.assert_allclose(predictions(system.solve(ridge), np.zeros((3, 5))), expected, rtol=1e-12)
    assert system.scale == 1
    assert system.spectrum.best_ridge() > 0


def test_features_that_are_all_zero_spend_nothing():
    system = equations_of(np.zeros((60, 5)), some_targets(np.zeros((60, 5)))).system()
    assert system.factor(0.0).degrees_of_freedom == pytest.approx(0, abs=1e-6)


@each_intercept
def test_the_scale_of_the_features_does_not_matter_without_a_ridge(intercept):
    Z = np.random.default_rng(0).standard_normal((60, 5))
    y, scales = some_targets(Z), np.logspace(-12, 12, 5)
    solution = equations_of(Z * scales, y).system(intercept).solve(0.0)
    assert solution.factor.remedy is Remedy.NONE
    np.testing.assert_allclose(predictions(solution, Z * scales), least_squares_fit(Z, y, intercept), atol=1e-9)


@each_intercept
@pytest.mark.parametrize("extra", ["a zero feature", "duplicated features"])
def test_the_scale_of_the_features_does_not_matter_where_a_jitter_is_needed(extra, intercept):
    Z = singular_designs()[extra]
    y, scales = some_targets(Z), np.resize(np.logspace(-12, 12, 5), Z.shape[1])
    solution = equations_of(Z * scales, y).system(intercept).solve(0.0)
    np.testing.assert_allclose(predictions(solution, Z * scales), least_squares_fit(Z, y, intercept), atol=1e-3)


@each_intercept
def test_a_singular_sum_in_single_precision_gets_a_jitter_of_its_own_rounding(intercept):
    Z = singular_designs()["linear combinations"]
    y = some_targets(Z)
    solution = equations_of(Z, y, dtype=np.float32).system(intercept).solve(0.0)
    assert solution.factor.remedy is Remedy.JITTER
    np.testing.assert_allclose(predictions(solution, Z), least_squares_fit(Z, y, intercept), atol=1e-3)
    assert np.abs(solution.v).max() < 100


@each_intercept
def test_sums_less_precise_than_they_claim_are_solved_by_their_eigenvalues(intercept):
    Z = singular_designs()["linear combinations"]
    y = some_targets(Z)
    equations = replace(equations_of(Z, y, dtype=np.float32), precision=2.0**-52)
    solution = equations.system(intercept).solve(0.0)
    assert solution.factor.remedy is Remedy.EIGENVALUES
    np.testing.assert_allclose(predictions(solution, Z), least_squares_fit(Z, y, intercept), atol=1e-4)
    assert 5 <= solution.factor.degrees_of_freedom <= 9 + 1e-6
    assert np.all(np.isfinite(solution.factor.hat_diagonal(Z.T)))


def assert_usable(factor: RidgeFactor, Z) -> None:
    solution = factor.solution()
    for values in (solution.v, solution.intercept, solution.mean_residual, factor.hat_diagonal(Z.T)):
        assert np.all(np.isfinite(values))
    assert isinstance(factor.remedy, Remedy)


@settings(max_examples=80)
@given(
    st.integers(1, 12), st.integers(1, 12), st.lists(st.integers(-12, 12), min_size=12, max_size=12),
    st.sampled_from([0.0, 1e-300, 1e-12, 1.0]), st.booleans(), st.sampled_from([np.float32, np.float64]), seeds,
)  # fmt: skip
def test_no_system_fails(n_rows, n_components, exponents, ridge, intercept, dtype, seed):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n_rows, 12))[:, rng.integers(0, 12, n_components)]
    Z = Z * 10.0 ** np.array(exponents[:n_components]) * rng.integers(0, 2, n_components)
    system = equations_of(Z, rng.standard_normal((n_rows, 1)), dtype=dtype).system(intercept)
    assert_usable(system.factor(ridge), Z)
    assert np.isfinite(system.spectrum.best_ridge())


@each_intercept
def test_rows_taken_out_again_and_judged_by_their_sums(intercept):
    rng = np.random.default_rng(0)
    Z, y = rng.standard_normal((60, 4)), rng.standard_normal((60, 2))
    kept = equations_of(Z, y) - equations_of(Z[40:], y[40:])
    expected = equations_of(Z[:40], y[:40])
    np.testing.assert_allclose(kept.moments, expected.moments, atol=1e-12)
    assert kept.n_rows == expected.n_rows
    solution = kept.system(intercept).solve(0.1)
    off = y[40:] - solution.intercept - Z[40:] @ solution.v
    error = equations_of(Z[40:], y[40:]).errors(solution.v, solution.intercept).sum()
    assert error == pytest.approx(np.mean(np.sum(off**2, axis=1)), rel=1e-10)


@pytest.mark.slow
@given(size=st.integers(1, 40), bottom=st.floats(0, 40))
def test_a_walk_downhill_ends_at_the_lowest_of_a_valley(size, bottom):
    valley = np.abs(np.arange(size) - bottom) - 10.0  # errors may be below zero
    found = walk_downhill(size, lambda places: valley[places])
    assert valley[found] == pytest.approx(valley.min(), rel=1e-6)


@given(size=st.integers(1, 40), bottom=st.floats(0, 40), data=st.data())
def test_a_walk_downhill_ends_there_wherever_it_starts(size, bottom, data):
    valley = np.abs(np.arange(size) - bottom)
    start = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=3, unique=True))
    assert walk_downhill(size, lambda places: valley[places], start) == walk_downhill(
        size, lambda places: valley[places]
    )


def test_a_walk_downhill_takes_what_is_not_finite_for_the_worst():
    assert walk_downhill(9, lambda places: [np.nan if i > 4 else np.inf if i == 0 else float(i) for i in places]) == 1


@given(st.integers(0, 2**31))
def test_roundings_do_not_lead_a_walk_downhill_astray(seed):
    plateau = np.array([5.0, 4, 3, 3, 3, 3, 3, 3, 2, 2, 2, 4, 5])
    rounded = plateau * (1 + 1e-9 * np.random.default_rng(seed).standard_normal(plateau.size))
    assert walk_downhill(plateau.size, lambda places: rounded[places]) == 8


@each_intercept
def test_moments_in_the_order_of_columns_make_the_same_system(intercept):
    equations = equations_of(*linear_rows())
    turned = replace(equations, moments=np.asfortranarray(equations.moments))
    np.testing.assert_allclose(turned.system(intercept).G, equations.system(intercept).G, rtol=1e-12)


# Fewer rows than features


@settings(max_examples=60)
@given(st.integers(2, 12), st.integers(0, 20), st.integers(1, 3), st.booleans(), st.floats(-6, 1), seeds)
def test_the_eigenvectors_that_few_rows_reach_are_enough(n_rows, more, n_outputs, intercept, log_ridge, seed):
    Z, y = linear_rows(n_rows, n_rows + 1 + more, n_outputs, seed)
    system, ridges = equations_of(Z, y).system(intercept), np.array([10.0**log_ridge])
    spectrum, solution = system.spectrum, system.solve(float(ridges[0]))
    assert spectrum.values.size <= n_rows
    basis = spectrum.vectors.T @ spectrum.vectors
    np.testing.assert_allclose(basis, np.eye(spectrum.values.size), atol=1e-5)
    np.testing.assert_allclose(spectrum.vectors * spectrum.values @ spectrum.vectors.T, system.G, atol=1e-9)
    np.testing.assert_allclose(spectrum.solve(ridges[0]), solution.v, atol=1e-6 * np.abs(solution.v).max() + 1e-9)
    spent = solution.factor.degrees_of_freedom
    np.testing.assert_allclose(spectrum.degrees_of_freedom(ridges), [spent], atol=1e-5)


def test_rows_that_are_all_the_same_reach_no_eigenvector():
    system = equations_of(np.ones((3, 5)), np.ones((3, 1))).system(True)
    np.testing.assert_array_equal(system.spectrum.solve(0.1), np.zeros((5, 1)))


# Factors in place


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 7, 130])
def test_a_matrix_is_factored_in_place(size, dtype):
    B = np.random.default_rng(0).standard_normal((2 * size, size))
    A = np.asfortranarray(B.T @ B, dtype)
    expected = np.linalg.cholesky(A.astype(np.float64))
    assert factor_in_place(A)
    np.testing.assert_allclose(np.tril(A), expected, atol=1e2 * np.finfo(dtype).eps * np.abs(expected).max())


def test_a_matrix_that_is_not_positive_has_no_factor():
    assert not factor_in_place(np.asfortranarray(np.diag([1.0, -1.0])))


@pytest.mark.parametrize("A", [np.ones((3, 3)), np.broadcast_to(np.ones((1, 1)), (2, 2))], ids=["C", "read-only"])
def test_what_cannot_be_factored_in_place_is_refused(A):
    with pytest.raises(ValueError, match="order of Fortran"):
        factor_in_place(A)


def test_factors_are_made_in_several_threads_at_once():
    B = np.random.default_rng(0).standard_normal((300, 200))
    copies = [np.asfortranarray(B.T @ B) for _ in range(8)]
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(factor_in_place, copies))
    for other in copies[1:]:
        np.testing.assert_array_equal(np.tril(other), np.tril(copies[0]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("size", "n_sides"), [(1, 1), (7, 2), (130, 130)])
def test_systems_are_solved_in_place_as_scipy_solves_them(size, n_sides, dtype):
    rng = np.random.default_rng(0)
    root = rng.standard_normal((2 * size, size))
    A, B = np.asfortranarray(root.T @ root, dtype), np.asfortranarray(rng.standard_normal((size, n_sides)), dtype)
    factor, solve = scipy.linalg.get_lapack_funcs(("potrf", "potrs"), (A,))
    expected, failed = solve(factor(A, lower=1, clean=0)[0], B, lower=1)
    assert factor_in_place(A)
    solve_in_place(A, B)
    assert not failed
    np.testing.assert_array_equal(B, expected)


@pytest.mark.parametrize(
    ("L", "B", "rule"),
    [
        (np.eye(3, order="F"), np.ones((3, 2)), "order of Fortran"),
        (np.eye(3, order="F"), np.broadcast_to(np.ones((1, 1)), (3, 1)), "order of Fortran"),
        (np.eye(3, order="F"), np.ones((2, 1)), "same rows"),
        (np.eye(3, order="F"), np.ones((3, 1), np.float32), "precision"),
    ],
    ids=["C", "read-only", "shorter", "single"],
)
def test_what_cannot_be_solved_in_place_is_refused(L, B, rule):
    with pytest.raises(ValueError, match=rule):
        solve_in_place(L, B)


def test_systems_are_solved_in_several_threads_at_once():
    root = np.random.default_rng(0).standard_normal((300, 200))
    factor = np.asfortranarray(root.T @ root)
    assert factor_in_place(factor)
    inverses = [np.asfortranarray(np.eye(200)) for _ in range(8)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(solve_in_place, [factor] * 8, inverses))
    np.testing.assert_allclose(inverses[0] @ (root.T @ root), np.eye(200), atol=1e-6)
    for other in inverses[1:]:
        np.testing.assert_array_equal(other, inverses[0])


# Single precision


@settings(max_examples=40)
@given(st.integers(1, 12), st.integers(1, 3), st.sampled_from([1e-3, 0.1, 3.0]), st.booleans(), seeds)
def test_solutions_by_single_precision_are_those_of_double(n_components, n_outputs, share, intercept, seed):
    Z, y = linear_rows(60, n_components, n_outputs, seed)
    system = equations_of(Z, y).system(intercept)
    ridge = share * system.scale
    v, expected = system.in_single_precision.solve(ridge), system.solve(ridge).v
    residual = 1e-7 * np.linalg.norm(system.c)
    furthest = residual / (np.linalg.eigvalsh(system.G)[0] + ridge)
    assert np.linalg.norm(v - expected) <= 1.01 * furthest


@pytest.mark.parametrize("ridge", [0.0, 1e-12])
def test_a_ridge_too_small_for_single_precision_has_no_solution_there(ridge):
    Z, y = linear_rows(50, 4)
    system = equations_of(np.hstack([Z, Z]), y).system(True)
    assert system.in_single_precision.solve(ridge) is None


def test_features_that_are_zero_have_no_weight_in_single_precision_either():
    Z, y = linear_rows(50, 4)
    system = equations_of(np.hstack([Z, np.zeros((50, 2))]), y).system(True)
    np.testing.assert_array_equal(system.in_single_precision.solve(0.1)[4:], 0)


@pytest.mark.parametrize("size", [1e-21, 1e-25, 1e-30])
def test_features_of_hardly_any_size_have_hardly_any_weight_in_single_precision(size):
    Z, y = linear_rows(50, 4)
    system = equations_of(np.hstack([Z, size * Z[:, :2] ** 2]), y).system(True)
    v = system.in_single_precision.solve(100.0)
    np.testing.assert_allclose(v[:4], equations_of(Z, y).system(True).solve(100.0).v, rtol=1e-6)
    assert np.abs(v[4:]).max() <= 10 * size


def test_a_sum_is_as_imprecise_as_its_least_precise_part():
    design = np.random.default_rng(0).standard_normal((4, 20))
    double, single = (NormalEquations.from_design(design.astype(dtype), 1) for dtype in (np.float64, np.float32))
    assert double.precision == np.finfo(np.float64).eps
    for total in (double + single, single + double):
        assert total.precision == single.precision == np.finfo(np.float32).eps


# Folds left out


@settings(max_examples=40, deadline=None)
@given(
    st.integers(6, 40), st.integers(1, 12), st.integers(2, 6), st.booleans(), st.booleans(), st.integers(0, 2**32 - 1)
)
def test_what_a_fit_without_a_fold_says_needs_no_other_fit(n_rows, n_components, n_folds, weighted, intercept, seed):
    """The closed form against a fit of the rows of the other folds, under the same penalty on the sum over rows."""
    rng = np.random.default_rng(seed)
    z, y = rng.standard_normal((n_components, n_rows)), rng.standard_normal((n_rows, 2))
    weight = rng.uniform(0.1, 3, n_rows) if weighted else None
    folds, ridge = np.arange(n_rows) % n_folds, 0.1

    def equations(rows):
        w = np.ones(n_rows) if weight is None else weight
        design = np.vstack([z, np.ones(n_rows), y.T])[:, rows] * np.sqrt(w[rows])
        return NormalEquations.from_design(design, 2, w[rows])

    whole = equations(np.arange(n_rows))
    found = whole.system(intercept).spectrum.leave_folds_out(ridge, z, y, weight, folds)
    for fold in range(n_folds):
        part = equations(np.flatnonzero(folds != fold))
        solution = part.system(intercept).solve(ridge * whole.weight / part.weight)
        out = np.flatnonzero(folds == fold)
        np.testing.assert_allclose(found[out], z[:, out].T @ solution.v + solution.intercept, rtol=1e-7, atol=1e-9)


def test_faded_equations_are_those_of_rows_of_less_weight():
    design, weight = np.random.default_rng(0).standard_normal((5, 40)), np.linspace(1, 2, 40)
    whole, less = (NormalEquations.from_design(np.sqrt(part) * design, 1, part) for part in (weight, 0.25 * weight))
    faded = whole.faded(0.25)
    np.testing.assert_allclose(faded.moments, less.moments, rtol=1e-12)
    assert faded.n_rows == 0.25 * 40
