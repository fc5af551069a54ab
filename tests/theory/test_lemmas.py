"""Bounds by decay, the complexity of the class and the costs of Algorithm 1, against what they bound."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rflaf import RBFBasis, theory
from rflaf.errors import AssumptionWarning, InvalidParameterError

pytestmark = pytest.mark.usefixtures("one_blas_thread")


# Appendix C


@given(
    mu=st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=40),
    share=st.floats(1e-6, 1.0),
)
def test_equation_11_encloses_the_effective_dimension(mu, share):
    lam = share * max(mu)
    tail, d = theory.tail_bound(mu, lam), theory.effective_dimension(mu, lam)
    assert tail.count == sum(value >= lam for value in mu)
    assert tail.count / 2 * (1 - 1e-12) <= d <= tail.bound * (1 + 1e-12)
    assert tail.constant >= 1


def test_its_constant_stays_for_a_polynomial_decay_and_grows_for_a_harmonic_one():
    def constants(t: float) -> list[float]:
        return [theory.tail_bound(np.arange(1.0, n + 1) ** -t, 1e-3).constant for n in (10**4, 10**5, 10**6)]

    polynomial, harmonic = constants(2.0), constants(1.0)
    assert polynomial[2] == pytest.approx(polynomial[1], rel=0.01)
    assert polynomial[2] < 2.1  # 1 + 1 / (t - 1), up to rounding of m
    assert harmonic[2] - harmonic[1] == pytest.approx(math.log(10), rel=0.01)


LAWS = {
    "exponential": (lambda m, rate, c: c * rate**m, st.floats(0.05, 0.99)),
    "polynomial": (lambda m, rate, c: c * m**-rate, st.floats(1.05, 6.0)),
    "harmonic": (lambda m, rate, c: c / m, st.just(1.0)),
}


@pytest.mark.parametrize("case", LAWS)
@given(data=st.data(), lam=st.floats(1e-6, 1.0), c=st.floats(0.01, 10.0), n=st.integers(1, 3000))
@settings(max_examples=40)
def test_the_dimension_of_a_law_is_below_its_bound(case, data, lam, c, n):
    law, rates = LAWS[case]
    rate = data.draw(rates)
    mu = law(np.arange(1.0, n + 1), rate, c)
    d = float(np.sum(mu / (mu + lam)))
    arguments = {"n_samples": n} if case == "harmonic" else {"rate": rate}
    assert d <= theory.dimension_bound(case, lam, constant=c, **arguments) * (1 + 1e-12)


def test_bounds_are_nearly_attained_and_of_the_orders_of_the_paper():
    m = np.arange(1.0, 10**6 + 1)
    for case, mu, arguments in (
        ("exponential", 0.9**m, {"rate": 0.9}),
        ("polynomial", m**-2.0, {"rate": 2.0}),
        ("harmonic", 1 / m, {"n_samples": 10**6}),
    ):
        d = theory.effective_dimension(mu, 1e-4)
        assert d <= theory.dimension_bound(case, 1e-4, **arguments) <= d + 1
    assert theory.dimension_bound("finite rank", 1e-9, rate=7) == 7
    ratio = [theory.dimension_bound("polynomial", lam, rate=3.0) for lam in (1e-3, 1e-6)]
    assert ratio[1] / ratio[0] == pytest.approx(10)
    harmonic = theory.dimension_bound("harmonic", 1e-3, n_samples=10**6)
    assert harmonic <= 1e3 * (1 + math.log(10**6))  # as printed: sum of 1 / (m lambda)


# Lemmas E.1 and E.2


def test_the_radius_is_that_of_section_3():
    assert theory.activation_radius(0.4, 16) == pytest.approx(1 / (0.4 * 4))
    assert theory.activation_radius(0.1, 100, constant=3.0) == pytest.approx(3)


@pytest.mark.parametrize("weighted", [False, True])
def test_lemma_e1_bounds_the_complexity_of_the_class(weighted):
    """The supremum over a and Qv is R K_2 times a spectral norm, so the complexity is its mean over signs."""
    rng, basis, n, s = np.random.default_rng(0), RBFBasis(8), 200, 30
    importance = rng.uniform(0.5, 3.0, s) if weighted else np.ones(s)
    B = basis.values(rng.standard_normal((n, 3)) @ rng.standard_normal((3, s)))  # (n, s, N)
    radius = theory.activation_radius(basis.h, 8)
    signs = rng.choice([-1.0, 1.0], (100, n))
    of_signs = np.einsum("en,nsk->esk", signs, B, optimize=True) * importance[:, None] / n
    complexity = radius * 2 / np.sqrt(s) * np.mean(np.linalg.norm(of_signs, 2, axis=(1, 2)))
    bound = theory.rademacher_bound(radius, importance.max(), 8, n)
    assert complexity <= bound
    assert bound < 20 * complexity
    assert theory.rademacher_bound(radius, importance.max(), 8, n, lipschitz=3.0) == pytest.approx(3 * bound)


def test_lemma_e2_holds_for_a_class_of_two_functions():
    """The gap of the better of two coins on few rows, and the Rademacher complexity of that class."""
    rng, n, delta = np.random.default_rng(0), 50, 0.1
    failed = 0
    for _ in range(300):
        losses = rng.integers(0, 2, (2, n)).astype(float)
        signs = rng.choice([-1.0, 1.0], (200, n))
        complexity = np.mean(np.max(signs @ losses.T / n, axis=1))
        gap = 0.5 - losses.mean(axis=1).min()
        failed += gap > theory.generalisation_gap(max(complexity, 1e-9), 1.0, n, delta)
    assert failed / 300 <= delta
    expected = 2 * 0.05 + 4 * 2.0 * math.sqrt(2 * math.log(40) / 1000)
    assert theory.generalisation_gap(0.05, 2.0, 1000, 0.1) == pytest.approx(expected)


# Section 4


def test_costs_are_those_of_section_4():
    costs = {(cost.step, cost.kind): cost for cost in theory.complexity_table(1000, 20, 16, 500, 50, epochs=3)}
    assert costs["line 2", "time"].order == 3 * 1000 * 20 * 500
    assert costs["line 3", "time"].order == 1000 * 500**2 + 500**3
    assert costs["line 6", "time"].order == 3 * 1000 * 20 * 50
    assert costs["a prediction", "time"].order == 20 * 50
    assert costs["a prediction of the pool", "time"].order == 20 * 500
    assert costs["the pool W", "space"].order == 20 * 500
    assert costs["line 3", "space"].order == 500**2


def test_the_page_on_the_width_shows_the_costs():
    page = Path(__file__).parent.parent.parent / "docs" / "width.md"
    assert theory.render_complexity_table() in page.read_text()


# Refusals


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.dimension_bound("exponential", 0.1, rate=1.0), "the rate A must lie between 0 and 1; got 1.0"),
        (lambda: theory.dimension_bound("polynomial", 0.1, rate=1.0), "the rate t must lie between 1 and inf; got 1.0"),
        (lambda: theory.dimension_bound("polynomial", 0.1), "the rate t must lie between 1 and inf; got nan"),
        (lambda: theory.dimension_bound("finite rank", 0.1), "rate must be a number above zero; got nan"),
        (lambda: theory.dimension_bound("harmonic", 0.1), "n_samples must be a number above zero; got inf"),
        (lambda: theory.dimension_bound("slow", 0.1), "the case must be 'finite rank', 'exponential', 'polynomial' or"),
        (lambda: theory.dimension_bound("harmonic", 0.0, n_samples=3), "lambda must be a number above zero"),
        (lambda: theory.dimension_bound("harmonic", 0.1, constant=0.0, n_samples=3), "constant must be a number above"),
        (lambda: theory.activation_radius(0.0, 4), "h must be a number above zero"),
        (lambda: theory.activation_radius(0.1, 0), "n_basis must be a number above zero"),
        (lambda: theory.rademacher_bound(1.0, 0.0, 4, 10), "largest_importance must be a number above zero"),
        (lambda: theory.generalisation_gap(0.1, 0.0, 10, 0.1), "largest_loss must be a number above zero"),
        (lambda: theory.generalisation_gap(0.1, 1.0, 10, 1.0), "delta must lie between 0 and 1"),
        (lambda: theory.tail_bound([0.1], -1.0), "lambda must be a number above zero"),
    ],
)
def test_what_breaks_a_rule_is_refused(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call()


def test_equation_11_needs_an_eigenvalue_above_lambda():
    with (
        pytest.warns(AssumptionWarning, match=r"Assumption 2\.2"),
        pytest.raises(InvalidParameterError, match=r"an eigenvalue must be at least lambda; got 0\.1"),
    ):
        theory.tail_bound([0.1], 0.5)
