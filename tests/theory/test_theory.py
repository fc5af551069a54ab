"""The theory against closed forms and explicit inverses, its inequalities as properties, its tables as printed."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from rflaf import theory
from rflaf.errors import AssumptionWarning, InvalidParameterError
from rflaf.model.normal_equations import NormalEquations
from rflaf.theory import CASES, Growth, RiskBound
from rflaf.training.solvers.leverage import scores_from_equations

pytestmark = pytest.mark.usefixtures("one_blas_thread")
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 12)
below_one = st.floats(0.01, 1.0)  # of the largest eigenvalue: where Assumption 2.2 holds
deltas = st.floats(1e-6, 0.999)
dimensions = st.floats(0.5, 1e6)
each_case = pytest.mark.parametrize("case", CASES)


def some_features(n_rows: int, n_components: int, seed: int):
    """Features (n_rows, n_components) of unlike size, not of full rank where there are more rows or components."""
    rng = np.random.default_rng(seed)
    return np.tanh(rng.standard_normal((n_rows, 4)) @ rng.standard_normal((4, n_components))) * rng.uniform(
        0.1, 3, n_components
    )


def gram_of(Z):
    return Z @ Z.T / Z.shape[1]


def some_eigenvalues(size: int, seed: int):
    rng = np.random.default_rng(seed)
    mu = rng.exponential(size=size) ** 3
    mu[rng.random(size) < 0.3] = 0
    mu[0] += 0.1
    return np.sort(mu)[::-1]


def root_inverse(K, lam: float):
    """(K + n lambda I)^-1/2 by its eigenvectors."""
    n = K.shape[0]
    values, vectors = np.linalg.eigh(K + n * lam * np.eye(n))
    return (vectors / np.sqrt(values)) @ vectors.T


# Spectra


@pytest.mark.parametrize("values", [[3.0], [4.0, 1.0], [9.0, 5.0, 0.5, 0.0], np.arange(30.0)[::-1]])
def test_the_spectrum_of_a_diagonal_matrix_is_its_diagonal_over_n(values):
    mu = theory.spectrum_of_gram(np.diag(values)[:, ::-1][::-1])
    np.testing.assert_allclose(mu, np.asarray(values) / len(values), rtol=0, atol=1e-12)


@settings(max_examples=30)
@given(st.integers(2, 15), seeds)
def test_a_rotation_does_not_change_a_spectrum(size, seed):
    mu = some_eigenvalues(size, seed)
    U = scipy.stats.ortho_group.rvs(size, random_state=np.random.default_rng(seed))
    K = (U * (size * mu)) @ U.T
    np.testing.assert_allclose(theory.spectrum_of_gram((K + K.T) / 2), mu, rtol=0, atol=1e-10 * mu[0])


@settings(max_examples=40)
@given(st.integers(1, 25), sizes, st.lists(st.integers(0, 25), max_size=4), seeds)
def test_the_spectrum_of_features_is_that_of_their_gram_matrix_in_whatever_blocks(n_rows, n_components, cuts, seed):
    Z = some_features(n_rows, n_components, seed)
    blocks = np.split(Z, sorted(cut for cut in cuts if cut <= n_rows))
    streamed = theory.spectrum_of_features(iter(blocks))
    assert streamed.shape == (n_components,)
    k = min(n_rows, n_components)
    expected = theory.spectrum_of_gram(gram_of(Z))
    np.testing.assert_allclose(streamed[:k], expected[:k], rtol=0, atol=1e-10 * expected[0])
    np.testing.assert_allclose(streamed[k:], 0, atol=1e-10 * expected[0])
    assert streamed.min() >= 0


def test_blocks_of_other_precision_are_summed_in_double_precision():
    Z = some_features(50, 6, 0).astype(np.float32)
    expected = theory.spectrum_of_features([Z.astype(np.float64)])
    np.testing.assert_allclose(theory.spectrum_of_features([Z[:20], Z[20:]]), expected, rtol=1e-12, atol=1e-14)


def test_a_gram_matrix_rounded_to_single_precision_is_accepted():
    Z = some_features(60, 5, 0)
    rounded = gram_of(Z).astype(np.float32)
    assert np.linalg.eigvalsh(rounded.astype(np.float64))[0] < 0
    mu = theory.spectrum_of_gram(rounded)
    assert mu.min() >= 0
    np.testing.assert_allclose(mu[:5], theory.spectrum_of_gram(gram_of(Z))[:5], atol=1e-5 * mu[0])


def test_a_kernel_that_is_zero_on_the_rows_has_a_spectrum_of_zeros():
    np.testing.assert_array_equal(theory.spectrum_of_gram(np.zeros((3, 3))), 0)
    np.testing.assert_array_equal(theory.spectrum_of_features([np.zeros((5, 2))]), 0)
    assert theory.squared_norm(np.zeros((3, 3)), np.zeros(3)) == 0


# The effective dimension


@pytest.mark.parametrize(
    ("mu", "lam", "expected"),
    [
        ([1.0], 1.0, 1 / 2),
        ([1.0, 1.0, 1.0], 0.5, 2.0),
        ([1.0, 0.5, 0.25], 0.25, 4 / 5 + 2 / 3 + 1 / 2),
        ([3.0, 0.0, 0.0], 1.0, 3 / 4),
        (np.full(1000, 1e-3), 1e-3, 500.0),
    ],
)
def test_effective_dimensions_of_known_spectra(mu, lam, expected):
    d = theory.effective_dimension(mu, lam)
    assert isinstance(d, float)
    assert d == pytest.approx(expected, rel=1e-12)


def test_effective_dimensions_of_infinite_spectra_have_closed_forms():
    """Sum of 1 / (1 + lambda i^2) is (x coth(x) - 1) / 2, x = pi / sqrt(lambda); its tail is below 1 / (k lambda)."""
    lam, i = 0.01, np.arange(1.0, 2_000_001)
    x = math.pi / math.sqrt(lam)
    tail = 1 / (lam * i[-1])
    assert theory.effective_dimension(i**-2, lam) == pytest.approx((x / math.tanh(x) - 1) / 2, abs=1.01 * tail)


def test_lambdas_of_any_shape_give_dimensions_of_that_shape():
    mu = some_eigenvalues(9, 0)
    lams = mu[0] * np.geomspace(1e-4, 1, 6).reshape(2, 3)
    expected = [[theory.effective_dimension(mu, lam) for lam in row] for row in lams]
    np.testing.assert_allclose(theory.effective_dimension(mu, lams), expected, rtol=1e-14)
    assert theory.effective_dimension(mu, [mu[0]]).shape == (1,)


@settings(max_examples=60)
@given(st.integers(1, 25), sizes, below_one, seeds)
def test_the_effective_dimension_is_the_trace_of_the_definition(n_rows, n_components, share, seed):
    Z = some_features(n_rows, n_components, seed)
    K = gram_of(Z)
    mu = theory.spectrum_of_gram(K)
    lam = share * mu[0]
    expected = np.trace(K @ np.linalg.inv(K + n_rows * lam * np.eye(n_rows)))
    assert theory.effective_dimension(mu, lam) == pytest.approx(expected, rel=1e-9)
    assert theory.effective_dimension(theory.spectrum_of_features([Z]), lam) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=100)
@given(st.integers(1, 40), below_one, below_one, seeds)
def test_the_effective_dimension_falls_with_lambda_below_the_rank_and_below_the_trace_over_lambda(
    size, one, other, seed
):
    mu = some_eigenvalues(size, seed)
    low, high = sorted([one * mu[0], other * mu[0]])
    d_low, d_high = theory.effective_dimension(mu, low), theory.effective_dimension(mu, high)
    assert d_high <= d_low
    assert d_high < d_low or high / low - 1 < 1e-9
    for lam, d in ((low, d_low), (high, d_high)):
        assert 0.5 - 1e-12 <= d <= np.count_nonzero(mu) + 1e-12  # at least 1/2 where lambda is below mu_1
        assert d <= mu.sum() / lam * (1 + 1e-12)


def test_the_effective_dimension_tends_to_the_rank():
    assert theory.effective_dimension([2.0, 1.0, 1e-3, 0.0], 1e-12) == pytest.approx(3, abs=1e-8)


@pytest.mark.parametrize(("A", "bound"), [(0.5, 2), (0.9, 9)])
def test_the_effective_dimension_of_an_exponential_spectrum_grows_as_the_logarithm(A, bound):
    mu, lams = A ** np.arange(1, 2000), np.geomspace(1e-9, 1e-3, 7)
    d = theory.effective_dimension(mu, lams)
    np.testing.assert_allclose(np.diff(d), -np.log(10) / -np.log(A), rtol=0.02)
    assert np.all(d <= np.log(1 / lams) / -np.log(A) + bound)


@pytest.mark.parametrize("t", [1.5, 2.0, 3.0])
def test_the_effective_dimension_of_a_polynomial_spectrum_grows_as_one_over_lambda_to_one_over_t(t):
    """Integral of 1 / (1 + lambda x^t) is lambda^(-1/t) (pi/t) / sin(pi/t); the sum is off by at most one."""
    mu = np.arange(1.0, 3_000_001) ** -t
    for lam in (1e-2, 1e-4):
        tail = mu[-1] * mu.size / (t - 1) / lam
        expected = lam ** (-1 / t) * (math.pi / t) / math.sin(math.pi / t)
        assert expected - 1 - tail <= theory.effective_dimension(mu, lam) <= expected


# Leverage


def test_the_leverage_function_of_a_diagonal_matrix_is_known():
    values, lam = np.array([4.0, 2.0, 0.5]), 0.25
    scores = theory.leverage_function(np.diag(values), np.diag([1.0, 2.0, 3.0]), lam)
    np.testing.assert_allclose(scores, np.array([1.0, 4.0, 9.0]) / (values + 3 * lam), rtol=1e-12)


@settings(max_examples=60)
@given(st.integers(1, 25), sizes, below_one, seeds)
def test_the_leverage_function_is_that_of_the_definition(n_rows, n_components, share, seed):
    Z = some_features(n_rows, n_components, seed)
    K = gram_of(Z)
    lam = share * theory.spectrum_of_gram(K)[0]
    inverse = np.linalg.inv(K + n_rows * lam * np.eye(n_rows))
    expected = [z @ inverse @ z for z in Z.T]
    np.testing.assert_allclose(theory.leverage_function(K, Z, lam), expected, rtol=1e-9, atol=1e-12)


@settings(max_examples=60)
@given(st.integers(1, 25), sizes, below_one, seeds)
def test_scores_are_below_the_bound_of_plain_sampling_and_have_the_effective_dimension_as_mean(
    n_rows, n_components, share, seed
):
    Z = some_features(n_rows, n_components, seed)
    mu = theory.spectrum_of_features([Z])
    lam = share * mu[0]
    for scores in (theory.pool_scores([Z], lam), theory.leverage_function(gram_of(Z), Z, lam)):
        assert scores.shape == (n_components,)
        assert np.all(scores >= 0)
        assert np.all(scores <= np.abs(Z).max(axis=0) ** 2 / lam * (1 + 1e-9) + 1e-12)
        assert scores.mean() == pytest.approx(theory.effective_dimension(mu, lam), rel=1e-9)


@settings(max_examples=60)
@given(st.integers(1, 25), sizes, st.lists(st.integers(0, 25), max_size=4), below_one, seeds)
def test_pool_scores_are_those_of_algorithm_1_and_of_the_leverage_module(n_rows, n_components, cuts, share, seed):
    Z = some_features(n_rows, n_components, seed)
    lam = share * theory.spectrum_of_features([Z])[0]
    scores = theory.pool_scores(np.split(Z, sorted(cut for cut in cuts if cut <= n_rows)), lam)
    G = Z.T @ Z
    by_definition = np.diagonal(G @ np.linalg.inv(G / n_components + n_rows * lam * np.eye(n_components)))
    design = np.vstack([Z.T, np.ones(n_rows), np.zeros(n_rows)])
    streamed = scores_from_equations(NormalEquations.from_design(design, 1), lam).scores
    for expected in (by_definition, streamed, theory.leverage_function(gram_of(Z), Z, lam)):
        np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-10 * n_components)


def test_pool_scores_of_orthogonal_features_have_a_closed_form():
    size, lam, n = np.array([9.0, 4.0, 1.0]), 0.1, 20
    Z = scipy.stats.ortho_group.rvs(n, random_state=np.random.default_rng(0))[:, :3] * np.sqrt(size)
    np.testing.assert_allclose(theory.pool_scores([Z[:7], Z[7:]], lam), size / (size / 3 + n * lam), rtol=1e-12)


# Widths


def test_widths_are_the_formulas_of_the_theorems():
    assert theory.width(12.5, 7.0, 0.05) == math.ceil(5 * 12.5 * math.log(16 * 7 / 0.05)) == 483
    assert theory.leverage_width(7.0, 0.05) == math.ceil(5 * 7 * math.log(16 * 7 / 0.05)) == 270
    assert theory.plain_width(2.0, 0.01, 7.0, 0.05) == math.ceil(5 * 4 / 0.01 * math.log(16 * 7 / 0.05)) == 15_429
    assert theory.width(12.5, 7.0, 0.05, constant=1.0) == math.ceil(12.5 * math.log(16 * 7 / 0.05))
    assert theory.bernstein_width(12.5, 7.0, 0.05) == math.ceil(2 * 12.5 * (16 / 3) * math.log(8 * 7 / 0.05)) == 937


def test_plain_sampling_is_the_theorem_for_the_trivial_bound():
    """l(w) <= p(w) |sigma|^2 / lambda, whose integral is |sigma|^2 / lambda."""
    assert theory.plain_width(1.5, 0.02, 9.0, 0.1) == theory.width(1.5**2 / 0.02, 9.0, 0.1)


def test_there_is_at_least_one_feature():
    assert theory.leverage_width(1e-6, 0.9) == 1


@given(dimensions, dimensions, deltas, deltas, st.floats(0.5, 1e4))
def test_widths_grow_with_the_dimension_and_with_one_over_delta(d, other_d, delta, other_delta, mass):
    (d, larger_d), (smaller_delta, delta) = sorted([d, other_d]), sorted([delta, other_delta])
    assert theory.width(mass, d, delta) <= theory.width(mass, larger_d, smaller_delta)
    assert theory.leverage_width(d, delta) <= theory.leverage_width(larger_d, smaller_delta)
    assert theory.plain_width(1.0, 1 / mass, d, delta) <= theory.plain_width(1.0, 1 / mass, larger_d, smaller_delta)
    assert theory.bernstein_width(mass, d, delta) <= theory.bernstein_width(mass, larger_d, smaller_delta)


@given(dimensions, deltas, st.floats(0.05, 0.95), st.floats(0.5, 1e4))
def test_a_proof_that_keeps_every_constant_asks_for_more_than_the_lemma_and_for_less_than_twice(
    d, delta, accuracy, mass
):
    """Lemma E.4 as printed has 1/e^2 + 2/(3e) and log(16 d / delta)."""
    printed, twice = (theory.width(mass, d, delta, k * (1 / accuracy**2 + 2 / (3 * accuracy))) for k in (1, 2))
    assert printed <= theory.bernstein_width(mass, d, delta, accuracy) <= twice


@given(dimensions, deltas, st.floats(0.5, 1.0), st.floats(0.5, 1e4))
def test_at_accuracy_one_half_it_asks_for_more_than_the_theorem(d, delta, top, mass):
    assert theory.bernstein_width(mass, d, delta, 0.5, top) >= theory.width(mass, d, delta)


@given(dimensions, deltas, st.floats(0.05, 0.95), st.floats(0.5, 1.0))
def test_the_bernstein_inequality_gives_delta_at_that_width(d, delta, accuracy, top):
    """Lemma E.6 with L = mass, M = mass top, D = 2 d / top."""
    s, mass = theory.bernstein_width(d, d, delta, accuracy, top), d
    exponent = s * accuracy**2 / 2 / (mass * top + 2 * mass * accuracy / 3)
    assert math.log(4 * 2 * d / top) - exponent <= math.log(delta) + 1e-9
    assert accuracy >= math.sqrt(mass * top / s) + 2 * mass / (3 * s)  # where the inequality holds


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


# Tables 1 and 2, typed from the paper

TABLES = {
    "squared": [
        ("leverage", "finite rank", "1", lambda x, t: 1.0),
        ("leverage", "exponential", "log(1/e) loglog(1/e)", lambda x, t: math.log(x) * math.log(math.log(x))),
        ("leverage", "polynomial", "(1/e)^(1/t) log(1/e)", lambda x, t: x ** (1 / t) * math.log(x)),
        ("plain", "finite rank", "(1/e)", lambda x, t: x),
        ("plain", "exponential", "(1/e) loglog(1/e)", lambda x, t: x * math.log(math.log(x))),
        ("plain", "polynomial", "(1/e) log(1/e)", lambda x, t: x * math.log(x)),
        ("former result", "any", "(1/e^2)", lambda x, t: x**2),
    ],
    "lipschitz": [
        ("leverage", "finite rank", "1", lambda x, t: 1.0),
        ("leverage", "exponential", "log(1/e) loglog(1/e)", lambda x, t: math.log(x) * math.log(math.log(x))),
        ("leverage", "polynomial", "(1/e^2)^(1/t) log(1/e)", lambda x, t: x ** (2 / t) * math.log(x)),
        ("plain", "finite rank", "(1/e^2)", lambda x, t: x**2),
        ("plain", "exponential", "(1/e^2) loglog(1/e)", lambda x, t: x**2 * math.log(math.log(x))),
        ("plain", "polynomial", "(1/e^2) log(1/e)", lambda x, t: x**2 * math.log(x)),
        ("former result", "any", "(1/e^2)", lambda x, t: x**2),
    ],
}


@each_case
def test_growth_tables_are_those_of_the_paper(case):
    cells = theory.growth_table(case)
    assert [(cell.scheme, cell.spectrum, cell.formula) for cell in cells] == [row[:3] for row in TABLES[case]]
    for cell, (*_, order) in zip(cells, TABLES[case], strict=True):
        for epsilon in (0.2, 1e-2, 1e-5):
            for t in (1.0, 1.5, 3.0):
                assert cell.order(epsilon, t) == pytest.approx(order(1 / epsilon, t), rel=1e-10)


@each_case
def test_orders_of_many_epsilons_come_at_once(case):
    epsilons = np.geomspace(1e-6, 0.1, 5)
    for cell in theory.growth_table(case):
        np.testing.assert_allclose(cell.order(epsilons, 2.0), [cell.order(e, 2.0) for e in epsilons], rtol=1e-14)


def test_the_exponent_is_the_slope_without_logarithms():
    squared, lipschitz = ({(cell.scheme, cell.spectrum): cell for cell in theory.growth_table(case)} for case in CASES)
    assert [squared["leverage", "polynomial"].exponent(t) for t in (1.0, 2.0)] == [1.0, 0.5]
    assert [lipschitz["leverage", "polynomial"].exponent(t) for t in (1.0, 2.0)] == [2.0, 1.0]
    assert [squared["plain", "polynomial"].exponent(t) for t in (1.0, 2.0)] == [1.0, 1.0]
    assert squared["leverage", "finite rank"].exponent(3.0) == 0.0


@each_case
def test_a_rendered_table_has_a_line_a_cell(case):
    lines = theory.render_growth_table(case).splitlines()
    assert lines[1] == "| --- | --- | --- |"
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert cells == [list(row[:3]) for row in TABLES[case]]


@each_case
def test_the_page_on_the_width_shows_the_tables(case):
    page = Path(__file__).parent.parent.parent / "docs" / "width.md"
    assert theory.render_growth_table(case) in page.read_text()


def test_leverage_sampling_never_asks_for_a_higher_order_than_plain_sampling():
    for case in CASES:
        by_cell = {(cell.scheme, cell.spectrum): cell for cell in theory.growth_table(case)}
        for spectrum in ("finite rank", "exponential", "polynomial"):
            leverage, plain = by_cell["leverage", spectrum], by_cell["plain", spectrum]
            assert leverage.order(1e-4, 2.0) < plain.order(1e-4, 2.0)


# The events of the lemmas


def two_grams(n_rows: int, n_components: int, seed: int):
    """A Gram matrix, and that of a few of its components, both often singular."""
    Z = some_features(n_rows, 2 * n_components, seed)
    return gram_of(Z), gram_of(Z[:, :n_components])


@settings(max_examples=50)
@given(st.integers(1, 15), st.integers(1, 8), below_one, seeds)
def test_the_deviation_is_the_norm_in_the_metric_of_the_kernel(n_rows, n_components, share, seed):
    K, K_hat = two_grams(n_rows, n_components, seed)
    lam = share * theory.spectrum_of_gram(K)[0]
    root = root_inverse(K, lam)
    expected = np.linalg.norm(root @ (K_hat - K) @ root, ord=2)
    assert theory.gram_deviation(K, K_hat, lam) == pytest.approx(expected, rel=1e-8, abs=1e-10)
    assert theory.gram_deviation(K, K, lam) == pytest.approx(0, abs=1e-12)


@settings(max_examples=50)
@given(st.integers(1, 15), st.integers(1, 8), below_one, seeds)
def test_the_worst_risk_is_that_of_the_worst_of_many_functions(n_rows, n_components, share, seed):
    K, K_hat = two_grams(n_rows, n_components, seed)
    lam = share * theory.spectrum_of_gram(K)[0]
    inverse = np.linalg.inv(K_hat + n_rows * lam * np.eye(n_rows))
    root = np.real(scipy.linalg.sqrtm(K + 1e-14 * np.trace(K) * np.eye(n_rows)))
    worst = theory.worst_risk(K, K_hat, lam)
    values, vectors = np.linalg.eigh(root @ inverse @ root)
    assert worst == pytest.approx(lam * values[-1], rel=1e-6)
    functions = root @ np.random.default_rng(seed).standard_normal((n_rows, 20))
    functions = np.column_stack([functions / np.linalg.norm(np.linalg.pinv(root) @ functions, axis=0), root @ vectors])
    risks = lam * np.einsum("nk,nk->k", functions, inverse @ functions)
    assert np.all(risks <= worst * (1 + 1e-6) + 1e-12)
    assert risks.max() == pytest.approx(worst, rel=1e-6)


@settings(max_examples=30)
@given(st.integers(2, 15), st.integers(1, 8), below_one, seeds)
def test_the_risk_of_a_function_is_the_least_of_the_ridge_problem(n_rows, n_components, share, seed):
    """min_v |Zv - f|^2 / n + lambda s |v|^2 = lambda f' (K^ + n lambda I)^-1 f, as in the proof of Lemma E.3."""
    rng = np.random.default_rng(seed)
    Z, f = some_features(n_rows, n_components, seed), rng.standard_normal(n_rows)
    s, lam = n_components, share * theory.spectrum_of_features([Z])[0]
    design = np.vstack([Z / math.sqrt(n_rows), math.sqrt(lam * s) * np.eye(s)])
    least = np.linalg.lstsq(design, np.concatenate([f / math.sqrt(n_rows), np.zeros(s)]), rcond=None)[0]
    risk = np.sum((Z @ least - f) ** 2) / n_rows + lam * s * np.sum(least**2)
    K_hat = gram_of(Z)
    assert risk == pytest.approx(lam * f @ np.linalg.solve(K_hat + n_rows * lam * np.eye(n_rows), f), rel=1e-8)
    of_norm_one = np.outer(f, f)  # the kernel whose only function of norm one is f
    assert risk == pytest.approx(theory.worst_risk(of_norm_one, K_hat, lam), rel=1e-8)


@settings(max_examples=50)
@given(st.integers(1, 15), st.integers(1, 8), below_one, seeds)
def test_in_the_event_of_lemma_27_the_worst_risk_is_at_most_twice_lambda(n_rows, n_components, share, seed):
    K, K_hat = two_grams(n_rows, n_components, seed)
    lam = share * theory.spectrum_of_gram(K)[0]
    deviation = theory.gram_deviation(K, K_hat, lam)
    if deviation < 1:  # K^ + n lambda I >= (1 - deviation) (K + n lambda I)
        assert theory.worst_risk(K, K_hat, lam) <= lam / (1 - deviation) * (1 + 1e-9)
    if deviation <= 0.5:
        assert theory.worst_risk(K, K_hat, lam) <= 2 * lam * (1 + 1e-9)


def test_events_of_diagonal_matrices_have_closed_forms():
    k, k_hat, lam = np.array([4.0, 1.0, 0.5]), np.array([1.0, 2.0, 0.5]), 0.2
    assert theory.gram_deviation(np.diag(k), np.diag(k_hat), lam) == pytest.approx(3 / 4.6, rel=1e-12)
    assert theory.worst_risk(np.diag(k), np.diag(k_hat), lam) == pytest.approx(0.2 * 4 / 1.6, rel=1e-12)
    assert theory.squared_norm(np.diag(k), [2.0, 3.0, 1.0]) == pytest.approx(1 + 9 + 2, rel=1e-12)


@settings(max_examples=50)
@given(st.integers(1, 12), seeds)
def test_the_squared_norm_is_that_of_the_inverse(n_rows, seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n_rows, n_rows + 3))
    f = rng.standard_normal(n_rows)
    expected = f @ np.linalg.inv(A @ A.T) @ f
    assert theory.squared_norm(A @ A.T, f) == pytest.approx(expected, rel=1e-7)


@settings(max_examples=80)
@given(st.integers(1, 15), st.integers(1, 20), seeds)
def test_lemma_29_a_function_of_the_kernel_has_at_most_the_norm_of_its_weights(n_rows, n_directions, seed):
    """f = E_w[sigma(Xw) v(w)] under any p(w) on finitely many directions: f' K^+ f <= E[v^2]."""
    rng = np.random.default_rng(seed)
    sigma, v = some_features(n_rows, n_directions, seed), rng.standard_normal(n_directions)
    p = rng.dirichlet(np.ones(n_directions))
    K, f = (sigma * p) @ sigma.T, sigma @ (p * v)
    assert theory.squared_norm((K + K.T) / 2, f) <= np.sum(p * v**2) * (1 + 1e-6)


def test_the_least_weights_of_a_function_reach_lemma_29():
    rng = np.random.default_rng(0)
    sigma = some_features(4, 10, 0)
    K, f = gram_of(sigma), rng.standard_normal(4)
    v = sigma.T @ np.linalg.solve(K, f)
    np.testing.assert_allclose(sigma @ v / 10, f, atol=1e-9)
    assert theory.squared_norm(K, f) == pytest.approx(np.mean(v**2), rel=1e-9)


@pytest.mark.parametrize("scheme", ["plain", "leverage"])
def test_the_event_holds_at_the_stated_width_on_a_kernel_of_finitely_many_directions(scheme):
    """Draws from p or from leverage scores of 60 directions, 40 times at delta = 1/4: the event of Lemma E.4 at 1/2."""
    rng = np.random.default_rng(0)
    sigma = some_features(30, 60, 1)
    K = gram_of(sigma)
    mu = theory.spectrum_of_gram(K)
    lam, delta = mu[0] / 10, 0.25
    d = theory.effective_dimension(mu, lam)
    scores = theory.leverage_function(K, sigma, lam)
    q = np.full(60, 1 / 60) if scheme == "plain" else scores / scores.sum()
    plain = theory.plain_width(float(np.abs(sigma).max()), lam, d, delta)
    s = plain if scheme == "plain" else theory.leverage_width(d, delta)
    deviations = []
    for _ in range(40):
        share = rng.multinomial(s, q) / s
        deviations.append(theory.gram_deviation(K, (sigma * (share / (60 * q))) @ sigma.T, lam))
    assert np.mean(np.array(deviations) <= 0.5) >= 1 - delta


# What is refused, and how it is told

GRAM = np.diag([2.0, 1.0])
each_lambda = pytest.mark.parametrize("lam", [0.0, -0.1, np.nan, np.inf])


@each_lambda
@pytest.mark.parametrize(
    "call",
    [
        lambda lam: theory.effective_dimension([1.0], lam),
        lambda lam: theory.effective_dimension([1.0], [0.1, lam]),
        lambda lam: theory.leverage_function(GRAM, GRAM, lam),
        lambda lam: theory.pool_scores([GRAM], lam),
        lambda lam: theory.plain_width(1.0, lam, 1.0, 0.1),
        lambda lam: theory.risk_bound("squared", lam, 0.1, 100, 0.1),
        lambda lam: theory.algorithm_bound("lipschitz", 0.1, lam, 0.1, 100, 0.1),
        lambda lam: theory.gram_deviation(GRAM, GRAM, lam),
        lambda lam: theory.worst_risk(GRAM, GRAM, lam),
    ],
)
def test_a_lambda_that_is_not_positive_is_refused(call, lam):
    with pytest.raises(InvalidParameterError, match=r"lambda must be a number above zero; got .*1 / sqrt\(n\)\."):
        call(lam)


def test_no_lambda_at_all_is_refused():
    with pytest.raises(InvalidParameterError, match="lambda must be a number or several"):
        theory.effective_dimension([1.0], [])


@pytest.mark.parametrize(
    "call",
    [
        lambda lam: theory.effective_dimension([0.5, 0.1], lam),
        lambda lam: theory.effective_dimension([0.5, 0.1], [0.1, lam]),
        lambda lam: theory.leverage_function(np.diag([1.0, 0.2]), np.eye(2), lam),
        lambda lam: theory.pool_scores([np.diag([np.sqrt(2.0), 0.5])], lam),
    ],
)
def test_a_lambda_above_the_largest_eigenvalue_is_warned_about_in_words(call):
    message = (
        r"lambda = 0\.6 is above the largest eigenvalue 0\.5 of K / n \(Assumption 2\.2\): the penalty is stronger than"
        r" the strongest signal.*Lower lambda\."
    )
    with pytest.warns(AssumptionWarning, match=message) as caught:
        call(0.6)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(0.5)  # the assumption includes equality


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 1.5, np.nan])
@pytest.mark.parametrize(
    "call",
    [
        lambda delta: theory.width(1.0, 1.0, delta),
        lambda delta: theory.leverage_width(1.0, delta),
        lambda delta: theory.plain_width(1.0, 0.1, 1.0, delta),
        lambda delta: theory.bernstein_width(1.0, 1.0, delta),
        theory.check_delta,
    ],
)
def test_a_delta_that_is_no_probability_is_refused(call, delta):
    with pytest.raises(
        InvalidParameterError, match=r"delta must lie between 0 and 1, without either; got .*Try 0\.1\."
    ):
        call(delta)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, -0.1, np.nan])
@pytest.mark.parametrize(
    "call",
    [
        lambda e: theory.risk_bound("squared", 0.1, 0.1, 100, e),
        lambda e: theory.algorithm_bound("squared", 0.1, 0.1, 0.1, 100, e),
        lambda e: theory.lambda_for("lipschitz", e),
        lambda e: theory.grid_for("squared", e),
        lambda e: theory.n_samples_for(0.1, e),
    ],
)
def test_an_epsilon_outside_zero_to_one_is_refused(call, epsilon):
    with pytest.raises(InvalidParameterError, match="epsilon must lie between 0 and 1, without either; got"):
        call(epsilon)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, -1.0, np.nan, [0.1, 0.4]])
def test_orders_are_told_only_where_their_logarithms_are_positive(epsilon):
    with pytest.raises(InvalidParameterError, match=r"epsilon must lie between 0 and exp\(-1\); got"):
        Growth("plain", "exponential", 1.0, 0.0, 1.0).order(epsilon)


@pytest.mark.parametrize("mu", [[1.0, -1e-3], [-1.0], [0.0, -1e-30]])
def test_negative_eigenvalues_are_refused(mu):
    message = rf"eigenvalues of a Gram matrix must be at least zero; got {min(mu)}\. The matrix is not positive"
    with pytest.raises(InvalidParameterError, match=message):
        theory.effective_dimension(mu, 0.1)


def test_negative_eigenvalues_of_rounding_are_zeros():
    np.testing.assert_array_equal(theory.check_eigenvalues([1.0, -1e-12]), [1.0, 0.0])
    assert theory.effective_dimension([1.0, -1e-12], 1.0) == 0.5


@pytest.mark.parametrize(
    ("mu", "message"),
    [
        ([], r"eigenvalues must have the shape \(k,\); got \(0,\)"),
        ([[1.0]], r"eigenvalues must have the shape \(k,\); got \(1, 1\)"),
        (1.0, r"eigenvalues must have the shape \(k,\); got \(\)"),
        ([1.0, np.nan], "eigenvalues must be finite; got nan"),
        ([np.inf], "eigenvalues must be finite; got inf"),
    ],
)
def test_what_is_no_list_of_eigenvalues_is_refused(mu, message):
    with pytest.raises(InvalidParameterError, match=message):
        theory.effective_dimension(mu, 0.1)


each_use_of_a_gram_matrix = pytest.mark.parametrize(
    "call",
    [
        theory.spectrum_of_gram,
        lambda K: theory.leverage_function(K, np.ones((2, 1)), 0.1),
        lambda K: theory.gram_deviation(K, np.eye(2), 0.1),
        lambda K: theory.gram_deviation(np.eye(2), K, 0.1),
        lambda K: theory.worst_risk(K, np.eye(2), 0.1),
        lambda K: theory.worst_risk(np.eye(2), K, 0.1),
        lambda K: theory.squared_norm(K, np.ones(2)),
    ],
)


@each_use_of_a_gram_matrix
@pytest.mark.parametrize(
    ("K", "message"),
    [
        ([[1.0, 0.5], [0.4, 1.0]], r"must be symmetric; got 'entries that differ by 0\.1'\. Use \(K \+ K\.T\) / 2\."),
        ([[1.0, 2.0], [2.0, 1.0]], r"eigenvalues of a Gram matrix must be at least zero; got -(1\.0|0\.99).*Z Z'\."),
        ([[0.0, 1.0], [1.0, 0.0]], r"eigenvalues of a Gram matrix must be at least zero; got -(1\.0|0\.99)"),
        ([[1.0, 0.0], [0.0, -1e-3]], r"eigenvalues of a Gram matrix must be at least zero; got -0\.001"),
        ([[1.0, np.nan], [np.nan, 1.0]], "a Gram matrix must be finite; got nan"),
        ([[np.inf, 0.0], [0.0, 1.0]], "a Gram matrix must be finite; got inf"),
        (np.ones((2, 3)), r"a Gram matrix must be square; got \(2, 3\)\. Pass K of shape \(n, n\)\."),
        (np.ones(2), r"a Gram matrix must be square; got \(2,\)"),
        (np.empty((0, 0)), r"a Gram matrix must be square; got \(0, 0\)"),
    ],
)
def test_what_is_no_gram_matrix_is_refused(call, K, message):
    with pytest.raises(InvalidParameterError, match=message):
        call(K)


@pytest.mark.parametrize("event", [theory.gram_deviation, theory.worst_risk])
@pytest.mark.parametrize("n_rows", [1, 3])
def test_gram_matrices_of_other_rows_are_refused(event, n_rows):
    with pytest.raises(InvalidParameterError, match=r"must be of the same rows, \(2, 2\); got \(., .\)\. Compute"):
        event(GRAM, np.eye(n_rows), 0.1)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.ones(2), r"features must have the shape \(n, m\) with n = 2; got \(2,\)\. Pass one column per direction\."),
        (np.ones((3, 2)), r"features must have the shape \(n, m\) with n = 2; got \(3, 2\)"),
        (np.full((2, 1), np.nan), "features must be finite; got nan"),
    ],
)
def test_features_that_do_not_fit_the_gram_matrix_are_refused(features, message):
    with pytest.raises(InvalidParameterError, match=message):
        theory.leverage_function(GRAM, features, 0.1)


@pytest.mark.parametrize("use", [theory.spectrum_of_features, lambda blocks: theory.pool_scores(blocks, 0.1)])
@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([], "features must have at least one row and one column; got None"),
        ([np.empty((0, 3))], r"features must have at least one row and one column; got \(0, 3\)"),
        ([np.empty((3, 0))], r"features must have at least one row and one column; got \(3, 0\)"),
        (
            [np.ones((2, 3)), np.ones((2, 2))],
            r"every block of features must have the shape \(n_rows, s\); got \(2, 2\)",
        ),
        ([np.ones(3)], r"every block of features must have the shape \(n_rows, s\); got \(3,\)"),
        ([np.ones((2, 2)), np.full((1, 2), np.inf)], "features must be finite; got inf"),
    ],
)
def test_blocks_that_are_no_features_are_refused(use, blocks, message):
    with pytest.raises(InvalidParameterError, match=message):
        use(blocks)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones(3), r"values must have the shape \(n,\) with n = 2; got \(3,\)"),
        (np.ones((2, 1)), r"values must have the shape \(n,\) with n = 2; got \(2, 1\)"),
        ([1.0, np.nan], "values must be finite; got nan"),
    ],
)
def test_values_that_do_not_fit_the_gram_matrix_are_refused(values, message):
    with pytest.raises(InvalidParameterError, match=message):
        theory.squared_norm(GRAM, values)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: theory.width(x, 1.0, 0.1), "mass"),
        (lambda x: theory.width(1.0, x, 0.1), "dimension"),
        (lambda x: theory.bernstein_width(x, 1.0, 0.1), "mass"),
        (lambda x: theory.bernstein_width(1.0, x, 0.1), "dimension"),
        (lambda x: theory.plain_width(x, 0.1, 1.0, 0.1), "bound"),
        (lambda x: theory.risk_bound("squared", 0.1, x, 100, 0.1), "h"),
        (lambda x: theory.risk_bound("squared", 0.1, 0.1, x, 0.1), "n_samples"),
        (lambda x: theory.n_samples_for(x, 0.1), "h"),
    ],
)
def test_sizes_that_are_not_positive_are_refused(call, name, bad):
    with pytest.raises(InvalidParameterError, match=f"{name} must be a number above zero; got "):
        call(bad)


@pytest.mark.parametrize("top", [0.4, 1.1, np.nan])
def test_a_top_that_the_assumption_excludes_is_refused(top):
    with pytest.raises(InvalidParameterError, match=r"top must lie between 1/2 and 1; got"):
        theory.bernstein_width(1.0, 1.0, 0.1, top=top)


def test_an_accuracy_outside_zero_to_one_is_refused():
    with pytest.raises(InvalidParameterError, match="accuracy must lie between 0 and 1"):
        theory.bernstein_width(1.0, 1.0, 0.1, accuracy=1.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda case: theory.risk_bound(case, 0.1, 0.1, 100, 0.1),
        lambda case: theory.algorithm_bound(case, 0.1, 0.1, 0.1, 100, 0.1),
        lambda case: theory.lambda_for(case, 0.1),
        lambda case: theory.grid_for(case, 0.1),
        theory.growth_table,
        theory.render_growth_table,
    ],
)
def test_a_case_the_paper_does_not_have_is_refused(call):
    with pytest.raises(InvalidParameterError, match=r"the case must be 'squared' or 'lipschitz'; got 'hinge'\."):
        call("hinge")
