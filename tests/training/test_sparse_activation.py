"""Sparse activations against brute force on small spheres, and against the conditions of a minimum."""

from __future__ import annotations

import numpy as np
import pytest
from data import weighted_sine_rows
from exact_reference import Reference
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import zscore as standardise

from rflaf import BSplineBasis, RFLAFClassifier, RFLAFRegressor, SharedActivation
from rflaf.errors import StopReason
from rflaf.training.solvers.shared_activation import minimise_on_sphere
from rflaf.training.solvers.sparse_activation import minimise_sparse, nearest_sparse, soft

seeds = st.integers(0, 2**32 - 1)


def bilinear(n_basis: int, seed: int, ridge: float = 0.1, n_rows: int = 30, width: int = 4):
    """J(a) of a small random bilinear problem and its gradient, by the normal equations."""
    rng = np.random.default_rng(seed)
    B, y = rng.standard_normal((n_basis, n_rows, width)), rng.standard_normal(n_rows)

    def objective(a):
        Z = np.einsum("i,inm->nm", a, B)
        v = np.linalg.solve(Z.T @ Z / n_rows + ridge * np.eye(width), Z.T @ y / n_rows)
        e = y - Z @ v
        return e @ e / n_rows + ridge * v @ v, -2 / n_rows * np.einsum("n,inm,m->i", e, B, v)

    return objective


def solve(J, start, l1):
    return minimise_sparse(J, start, l1, 200, 1e-11, minimise_on_sphere)


def starts(n_basis: int, count: int, radius: float = 1.0) -> np.ndarray:
    x = np.random.default_rng(0).standard_normal((count, n_basis))
    return radius * x / np.linalg.norm(x, axis=1, keepdims=True)


def half_a_sphere(n: int) -> np.ndarray:
    """Points all over half of the unit sphere of three dimensions (J is even), its axes and planes included."""
    angle, height = np.meshgrid(np.linspace(0, np.pi, n), np.linspace(-np.pi / 2, np.pi / 2, n))
    points = np.stack([np.cos(height) * np.cos(angle), np.cos(height) * np.sin(angle), np.sin(height)], -1)
    circle = np.linspace(0, np.pi, 20 * n)
    planes = [np.roll(np.column_stack([np.cos(circle), np.sin(circle), 0 * circle]), k, axis=1) for k in range(3)]
    return np.concatenate([points.reshape(-1, 3), *planes])


@pytest.mark.parametrize("l1", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("seed", [0, 1])
def test_no_point_of_the_sphere_is_lower(seed, l1):
    J = bilinear(3, seed)
    lowest = min(J(a)[0] + l1 * np.abs(a).sum() for a in half_a_sphere(34))
    found = min(solve(J, start, l1)[1][-1] for start in starts(3, 6))
    assert found <= lowest + 1e-9
    assert found > lowest - 0.01


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(2, 8), st.sampled_from([0.003, 0.03, 0.1, 1.0]), st.floats(0.3, 5.0))
def test_the_end_meets_the_conditions_of_a_minimum(seed, n_basis, l1, radius):
    """Some mu: gradient + l1 sign(a) + mu a is zero where a is not, and the gradient is within l1 where it is."""
    J = bilinear(n_basis, seed)
    a, trace, reason = solve(J, starts(n_basis, 1, radius)[0], l1)
    assert reason is StopReason.CONVERGED
    assert np.all(np.diff(trace) <= 0)
    np.testing.assert_allclose(np.linalg.norm(a), radius, rtol=1e-12)
    value, slope = J(a)
    assert trace[-1] == pytest.approx(value + l1 * np.abs(a).sum(), rel=1e-12)
    kept = a != 0
    full = slope + l1 * np.sign(a)
    mu = -(full @ a) / radius**2
    size = max(np.abs(slope).max(), l1)
    assert np.abs(full + mu * a)[kept].max() <= 2e-3 * size
    assert np.all(np.abs(slope[~kept]) <= l1 + 2e-3 * size)


def test_more_penalty_leaves_fewer_functions_and_at_last_one():
    J = bilinear(8, 3)
    kept = [np.count_nonzero(solve(J, starts(8, 1)[0], l1)[0]) for l1 in (0.0, 0.03, 0.3, 10.0)]
    assert kept[0] == 8
    assert kept == sorted(kept, reverse=True)
    assert kept[-1] == 1


def test_without_a_penalty_it_ends_where_the_smooth_search_does():
    J, start = bilinear(5, 4), starts(5, 1)[0]
    smooth, _, _ = minimise_on_sphere(J, start, 500, 1e-13)
    assert solve(J, start, 0.0)[1][-1] <= J(smooth)[0] * (1 + 1e-8)


@settings(max_examples=60)
@given(seeds, st.floats(0, 2), st.floats(0.2, 3))
def test_the_proximal_point_is_the_best_of_the_sphere(seed, size, radius):
    x = np.random.default_rng(seed).standard_normal(3)
    points = radius * np.concatenate([half_a_sphere(30), -half_a_sphere(30)])
    best = nearest_sparse(x, size, radius)

    def total(a):
        return np.sum((a - x) ** 2, axis=-1) / 2 + size * np.abs(a).sum(axis=-1)

    assert total(best) <= total(points).min() + 1e-12
    assert np.linalg.norm(best) == pytest.approx(radius)


def test_soft_thresholding_leaves_exact_zeros():
    np.testing.assert_array_equal(soft(np.array([-2.0, -1.0, 0.0, 0.5, 3.0]), 1.0), [-1, 0, 0, 0, 2])


def test_too_few_rounds_are_told():
    assert (
        minimise_sparse(bilinear(6, 5), starts(6, 1)[0], 0.01, 1, 0.0, minimise_on_sphere)[2] is StopReason.ITERATIONS
    )


# Through the estimators


def sparse_model(l1: float, search: str = "exact", **others):
    X, y = weighted_sine_rows(300, 1)[:2]
    y = standardise(y[:, 0])  # of variance one and of mean square one, the units of l1
    shared = SharedActivation(search, radius=1.0, l1=l1)
    settings = {"directions": "random", "basis": BSplineBasis(8), "alpha": 1e-3, "random_state": 0, **others}
    return RFLAFRegressor(6, activation=shared, **settings).fit(X, y), X, y


@pytest.mark.slow
@pytest.mark.parametrize("search", ["sample", "exact"])
def test_more_penalty_leaves_fewer_coefficients_of_a_model(search):
    kept = [np.count_nonzero(sparse_model(l1, search)[0].activation_.coefficients) for l1 in (0.0, 0.01, 0.1, 10.0)]
    assert kept[0] == 8
    assert kept == sorted(kept, reverse=True)
    assert kept[1] < 8
    assert kept[-1] == 1


@pytest.mark.slow
@pytest.mark.parametrize("l1", [0.003, 0.03, 0.3])
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "origin"])
def test_no_start_ends_below_an_exact_sparse_model(l1, fit_intercept, one_blas_thread):
    model, X, y = sparse_model(l1, fit_intercept=fit_intercept)
    a, reference = model.activation_.coefficients[0], Reference.of(model, X, y)
    assert np.linalg.norm(a) == pytest.approx(1.0, rel=1e-12)

    def total(x):  # on the sphere by its direction; derivative-free at last, as |a|_1 has kinks
        a = x / np.linalg.norm(x)
        return reference.value(a) + l1 * np.abs(a).sum()

    def with_slope(x):
        length = np.linalg.norm(x)
        value, slope = reference.value_and_gradient(x / length)
        slope = slope + l1 * np.sign(x)
        return value + l1 * np.abs(x).sum() / length, (slope - x * (slope @ x) / length**2) / length

    rng = np.random.default_rng(0)
    smooth = [minimize(with_slope, x, jac=True, method="L-BFGS-B").x for x in rng.standard_normal((40, 8))]
    lowest = min(smooth, key=total)
    lowest = minimize(total, lowest, method="Powell", options={"xtol": 1e-8, "ftol": 1e-12}).x
    assert total(a) <= total(lowest) * (1 + 1e-6)


def test_the_penalty_acts_under_other_losses():
    X, y = weighted_sine_rows(300, 1)[:2]
    kept = []
    for l1 in (0.0, 0.1):
        shared = SharedActivation("exact", radius=1.0, l1=l1)
        model = RFLAFClassifier(6, directions="random", activation=shared, basis=BSplineBasis(8), random_state=0)
        kept.append(np.count_nonzero(model.set_params(alpha=1e-3).fit(X, y[:, 0] > 0.5).activation_.coefficients))
    assert kept[1] < kept[0] == 8
