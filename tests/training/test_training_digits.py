"""Leverage scores and the joint problem of an ill-conditioned pool against fifty digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from rflaf.functions.bases import BSplineBasis
from rflaf.functions.densities import Directions
from rflaf.model.normal_equations import NormalEquations
from rflaf.rows.blocks import ArraySource
from rflaf.rows.executors import ThreadExecutor
from rflaf.training.solvers.leverage import scores_from_equations
from rflaf.training.solvers.shared_problem import SharedProblem

EPS = np.finfo(float).eps
BASIS = BSplineBasis(5)


def nearly_equal(n_rows, n_columns, distance=1e-4):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n_rows, 1)) + distance * rng.standard_normal((n_rows, n_columns))


@pytest.mark.parametrize("lam", [1e-1, 1e-5, 1e-9])
def test_leverage_scores_are_as_exact_as_the_condition_allows(lam):
    Z = nearly_equal(20, 5)
    n, s = Z.shape
    with mpmath.workdps(50):
        rows = mpmath.matrix(Z.tolist())
        G = rows.T * rows
        shifted = G / s + n * lam * mpmath.eye(s)
        product = G * shifted**-1
        exact = np.array([float(product[i, i]) for i in range(s)])
        condition = float(mpmath.mnorm(shifted, 1) * mpmath.mnorm(shifted**-1, 1))
    design = np.vstack([Z.T, np.ones(n), np.zeros(n)])
    found = scores_from_equations(NormalEquations.from_design(design, 1), lam)
    bound = max(100 * EPS * condition, 1e-12)
    np.testing.assert_allclose(found.scores, exact, rtol=0, atol=bound * s)  # a score is at most s
    assert found.effective_dimension == pytest.approx(exact.sum() / s, abs=bound * s)


def exact_objective(values, a, y, ridge):
    """Least over v, b: mean (y - Z v - b)^2 + ridge |v|^2 with Z[i, j] = sum_k values[i, j, k] a[k]."""
    n, m, _ = values.shape
    Z = mpmath.matrix([[mpmath.fdot(values[i, j].tolist(), a) for j in range(m)] for i in range(n)])
    means = [mpmath.fsum(Z[i, j] for i in range(n)) / n for j in range(m)]
    y_mean = mpmath.fsum(y.tolist()) / n
    centred = mpmath.matrix([[Z[i, j] - means[j] for j in range(m)] for i in range(n)])
    target = mpmath.matrix([value - y_mean for value in y.tolist()])
    c = centred.T * target / n
    v = mpmath.lu_solve(centred.T * centred / n + ridge * mpmath.eye(m), c)
    return mpmath.fsum(value**2 for value in target) / n - mpmath.fsum(c[j] * v[j] for j in range(m))


@pytest.mark.parametrize("ridge", [1e-2, 1e-5, 1e-8])
def test_the_joint_problem_of_nearly_equal_directions_has_its_digits(ridge):
    rng = np.random.default_rng(0)
    X, W = rng.uniform(-1, 1, (18, 2)), nearly_equal(2, 3)
    y, a = np.sin(3 * X[:, 0]) + X[:, 1], rng.standard_normal(BASIS.n_basis)
    source, directions = ArraySource(X, y[:, None]), Directions(W, np.zeros(3), np.ones(3), 3)
    problem = SharedProblem.from_source(source, directions, BASIS.pieces(), True, ThreadExecutor())
    value, gradient = problem.evaluate(a, ridge)
    values, step = BASIS.values(X @ W), mpmath.mpf(10) ** -20
    with mpmath.workdps(50):
        exact = exact_objective(values, a.tolist(), y, ridge)
        slopes = []
        for k in range(a.size):
            ends = [[mpmath.mpf(x) + sign * step * (j == k) for j, x in enumerate(a)] for sign in (1, -1)]
            above, below = (exact_objective(values, end, y, ridge) for end in ends)
            slopes.append(float((above - below) / (2 * step)))
        exact = float(exact)
    bound = 1e3 * EPS / min(ridge, 1.0)  # of the condition: features are of size one
    assert value == pytest.approx(exact, rel=max(bound, 1e-11))
    np.testing.assert_allclose(gradient, slopes, rtol=0, atol=max(bound, 1e-10) * np.abs(slopes).max())
