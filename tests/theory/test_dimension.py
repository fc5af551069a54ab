"""Spectra, effective dimension, leverage scores and deviations against closed forms and explicit inverses."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from rflaf import theory
from rflaf.model.normal_equations import NormalEquations
from rflaf.training.solvers.leverage import scores_from_equations

pytestmark = pytest.mark.usefixtures("one_blas_thread")
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 12)
below_one = st.floats(0.01, 1.0)  # of the largest eigenvalue: where Assumption 2.2 holds


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
    size = 1 + n_rows * lam / (f @ f)  # so that lambda is below the largest eigenvalue
    of_norm_one = size * np.outer(f, f)  # the kernel whose only functions of norm one are f and -f, times sqrt(size)
    assert size * risk == pytest.approx(theory.worst_risk(of_norm_one, K_hat, lam), rel=1e-8)


@settings(max_examples=50)
@given(st.integers(1, 15), st.integers(1, 8), below_one, seeds)
def test_in_the_event_of_lemma_e4_the_worst_risk_is_at_most_twice_lambda(n_rows, n_components, share, seed):
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
def test_lemma_e5_a_function_of_the_kernel_has_at_most_the_norm_of_its_weights(n_rows, n_directions, seed):
    """f = E_w[sigma(Xw) v(w)] under any p(w) on finitely many directions: f' K^+ f <= E[v^2]."""
    rng = np.random.default_rng(seed)
    sigma, v = some_features(n_rows, n_directions, seed), rng.standard_normal(n_directions)
    p = rng.dirichlet(np.ones(n_directions))
    K, f = (sigma * p) @ sigma.T, sigma @ (p * v)
    assert theory.squared_norm((K + K.T) / 2, f) <= np.sum(p * v**2) * (1 + 1e-6)


def test_the_least_weights_of_a_function_reach_lemma_e5():
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
