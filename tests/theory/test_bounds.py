"""Risk bounds and their settings are the formulas of the theorems."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rflaf import theory
from rflaf.theory import CASES, RiskBound

pytestmark = pytest.mark.usefixtures("one_blas_thread")
each_case = pytest.mark.parametrize("case", CASES)


# Bounds and the settings they ask for


def test_risk_bounds_are_those_of_the_theorems_term_by_term():
    lam, star, h, n, e = 0.01, 0.04, 0.5, 400, 0.1
    assert theory.risk_bound("squared", lam, h, n, e) == RiskBound(4 * lam, 0.1, 2 * e)
    assert theory.risk_bound("lipschitz", lam, h, n, e) == RiskBound(0.4, 0.1, e)
    assert theory.algorithm_bound("squared", lam, star, h, n, e) == RiskBound(4 * lam, 0.1, 4 * e, 4 * star)
    assert theory.algorithm_bound("lipschitz", lam, star, h, n, e) == RiskBound(0.4, 0.1, 2 * e, 0.8)


@each_case
def test_the_total_is_the_sum_of_the_terms_and_the_constant_is_that_of_the_complexity(case):
    bound = theory.algorithm_bound(case, 0.01, 0.02, 0.3, 1000, 0.05, constant=3.0)
    assert bound.total == pytest.approx(bound.sampling + bound.complexity + bound.approximation + bound.resampling)
    one = theory.algorithm_bound(case, 0.01, 0.02, 0.3, 1000, 0.05)
    assert bound.complexity == pytest.approx(3 * one.complexity, rel=1e-14)
    assert (bound.sampling, bound.approximation) == (one.sampling, one.approximation)


@given(st.sampled_from(CASES), st.floats(1e-4, 0.99))
def test_lambda_grid_and_rows_for_an_epsilon_give_a_risk_of_that_order(case, epsilon):
    lam, grid = theory.lambda_for(case, epsilon), theory.grid_for(case, epsilon)
    n = theory.n_samples_for(grid.h, epsilon)
    bound = theory.risk_bound(case, lam, grid.h, n, epsilon)
    assert bound.sampling == pytest.approx(epsilon, rel=1e-12)
    assert bound.complexity <= epsilon * (1 + 1e-12)
    assert bound.total <= {"squared": 4, "lipschitz": 3}[case] * epsilon * (1 + 1e-12)


def test_grids_are_those_of_the_theorems():
    log = math.log(100)
    squared, lipschitz = (theory.grid_for(case, 0.01) for case in CASES)
    assert squared.n_basis == math.ceil(log**1.5 / 0.01) == 989
    assert 1 / squared.h == pytest.approx(math.sqrt(log / 0.01), rel=1e-12)
    assert lipschitz.n_basis == math.ceil(log**1.5 / 0.01**2) == 98_826
    assert 1 / lipschitz.h == pytest.approx(math.sqrt(log) / 0.01, rel=1e-12)
    finer = theory.grid_for("squared", 0.01, constant=2.0)
    assert finer.h == pytest.approx(squared.h / 2)
    assert finer.n_basis == math.ceil(2 * log**1.5 / 0.01)


@each_case
def test_a_coarse_epsilon_still_has_two_basis_functions(case):
    assert theory.grid_for(case, 0.999).n_basis == 2


def test_rows_for_an_epsilon():
    assert theory.n_samples_for(h=0.5, epsilon=0.01) == pytest.approx(40_000, abs=1)
    assert theory.risk_bound("squared", 0.1, 0.5, theory.n_samples_for(0.5, 0.01), 0.1).complexity <= 0.01 + 1e-15
