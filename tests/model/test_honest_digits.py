"""Small ill-conditioned ridge problems against fifty digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from rflaf.model.normal_equations import NormalEquations
from rflaf.model.ridge import Remedy

EPS = np.finfo(float).eps


def exact(Z, y, ridge, intercept):
    """(G + ridge I)^-1 c and its residual mean square, with fifty digits, from the rows themselves."""
    with mpmath.workdps(50):
        Z, y = mpmath.matrix(Z.tolist()), mpmath.matrix(y.tolist())
        n, m = Z.rows, Z.cols
        means = [sum(Z[i, j] for i in range(n)) / n if intercept else mpmath.mpf(0) for j in range(m)]
        y_mean = sum(y) / n if intercept else mpmath.mpf(0)
        centred = mpmath.matrix([[Z[i, j] - means[j] for j in range(m)] for i in range(n)])
        target = mpmath.matrix([y[i] - y_mean for i in range(n)])
        G = centred.T * centred / n + ridge * mpmath.eye(m)
        v = mpmath.lu_solve(G, centred.T * target / n)
        residual = target - centred * v
        condition = mpmath.mnorm(G, 1) * mpmath.mnorm(G**-1, 1)
        fitted = centred * v
        return (
            np.array([float(x) for x in v]),
            np.array([float(x) for x in fitted]),
            float(sum(r**2 for r in residual) / n),
            float(condition),
        )


def vandermonde(n, m):
    return np.vander(np.linspace(0, 1, n), m, increasing=True)


def nearly_equal(n, m):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 1)) + 1e-5 * rng.standard_normal((n, m))


def badly_scaled(n, m):
    return np.random.default_rng(0).standard_normal((n, m)) * np.logspace(-6, 6, m)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("ridge", [1e-2, 1e-6, 1e-10])
@pytest.mark.parametrize("make", [vandermonde, nearly_equal, badly_scaled])
def test_solutions_are_as_exact_as_the_condition_allows(make, ridge, intercept):
    Z = make(30, 6)
    y = np.sin(7 * np.linspace(0, 1, 30)) + Z[:, 2] / np.abs(Z[:, 2]).max()
    v, fitted, square, condition = exact(Z, y, ridge, intercept)
    equations = NormalEquations.from_design(np.vstack([Z.T, np.ones(30), y]), 1)
    solution = equations.system(intercept).solve(ridge)
    found = (Z - intercept * Z.mean(axis=0)) @ solution.v[:, 0]
    assert solution.factor.remedy is Remedy.NONE
    bound = 100 * EPS * condition
    assert np.linalg.norm(solution.v[:, 0] - v) <= max(bound, 1e-12) * np.linalg.norm(v)
    assert np.linalg.norm(found - fitted) <= max(min(bound, 1e-3), 1e-12) * np.linalg.norm(y)
    assert solution.mean_residual[0] == pytest.approx(square, rel=1e-6, abs=1e3 * EPS * np.mean(y**2) * 30)


@pytest.mark.parametrize("make", [vandermonde, nearly_equal])
def test_a_remedy_is_stated_and_the_fit_still_close(make):
    Z = np.hstack([make(30, 6), make(30, 6)[:, :1]])  # a feature twice, and no ridge
    y = np.sin(7 * np.linspace(0, 1, 30))
    fitted = exact(Z, y, mpmath.mpf(10) ** -20, True)[1]
    solution = NormalEquations.from_design(np.vstack([Z.T, np.ones(30), y]), 1).system(True).solve(0.0)
    assert solution.factor.remedy is not Remedy.NONE
    found = (Z - Z.mean(axis=0)) @ solution.v[:, 0]
    assert np.linalg.norm(found - fitted) <= 0.15 * np.linalg.norm(y)


@pytest.mark.parametrize("ridge", [1e-2, 1e-4])
def test_degrees_of_freedom_have_their_digits(ridge):
    Z, y = vandermonde(30, 6), np.ones(30)
    with mpmath.workdps(50):
        rows = mpmath.matrix(Z.tolist())
        G = rows.T * rows / 30
        trace = mpmath.fsum((G * (G + ridge * mpmath.eye(6)) ** -1)[i, i] for i in range(6))
    system = NormalEquations.from_design(np.vstack([Z.T, np.ones(30), y]), 1).system(False)
    assert system.spectrum.degrees_of_freedom(np.array([ridge]))[0] == pytest.approx(float(trace), rel=1e-12)
    assert system.factor(ridge).degrees_of_freedom == pytest.approx(float(trace), rel=1e-9)
