"""Laws of decay found in spectra that follow them, exactly, with noise and through samples; the error of a sample."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rflaf.errors import AssumptionWarning, InvalidParameterError
from rflaf.theory import effective_dimension, spectrum, spectrum_of_gram
from rflaf.theory.spectrum import KernelSpectrum, classify_decay, spectrum_of_rows

pytestmark = pytest.mark.usefixtures("one_blas_thread")
seeds = st.integers(0, 2**32 - 1)
NUMBERS = np.arange(1.0, 801.0)


def with_noise(mu, size: float, seed: int = 0):
    """Eigenvalues multiplied by lognormal noise and sorted again."""
    return np.sort(mu * np.exp(size * np.random.default_rng(seed).standard_normal(mu.size)))[::-1]


def features_of(mu, n_rows: int, n_components: int, seed: int = 0):
    """Features whose kernel has the eigenvalues ``mu`` (k,) under the law of the rows: (n_rows, n_components).

    sigma(w, x) = sum_j sqrt(mu_j) w_j phi_j(x) with w ~ N(0, I), and phi_j the cosines, orthonormal for x uniform.
    """
    rng = np.random.default_rng(seed)
    phi = np.sqrt(2) * np.cos(np.pi * np.outer(rng.random(n_rows), np.arange(1, mu.size + 1)))
    return (phi * np.sqrt(mu)) @ rng.standard_normal((mu.size, n_components))


def padded(mu, size: int):
    return np.pad(mu, (0, max(size - mu.size, 0)))[:size]


# Laws of decay


@pytest.mark.parametrize("rank", [1, 3, 8, 20, 200])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_a_finite_rank_is_seen_as_a_cliff(rank, noise):
    mu = with_noise(padded(NUMBERS[:rank] ** -1.5, 300), noise)
    decay = classify_decay(mu)
    assert (decay.case, decay.rate, decay.law) == ("finite rank", rank, f"rank {rank}")
    assert (decay.rate_error, decay.fit, decay.confidence, decay.first, decay.last) == (0, 1, 1, 1, rank)


@pytest.mark.parametrize("rank", [3, 20])
def test_a_floor_of_rounding_does_not_hide_a_finite_rank(rank):
    rounding = 1e-16 * np.random.default_rng(0).random(300)
    decay = classify_decay(np.sort(padded(NUMBERS[:rank] ** -1.0, 300) + rounding)[::-1])
    assert (decay.case, decay.rate) == ("finite rank", rank)


@pytest.mark.parametrize("A", [0.1, 0.3, 0.5, 0.8, 0.95, 0.99])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_an_exact_exponential_spectrum_gives_its_rate(A, scale):
    decay = classify_decay(scale * A ** np.arange(500))
    assert decay.case == "exponential"
    assert decay.rate == pytest.approx(A, rel=1e-9)
    assert decay.rate_error < 1e-6
    assert decay.fit == pytest.approx(1, abs=1e-9)
    assert decay.confidence == pytest.approx(1, abs=1e-9)
    assert decay.law == f"mu_i ~ {A:.3g}^i"


@pytest.mark.parametrize("t", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("size", [20, 100, 800])
def test_an_exact_power_law_gives_its_power(t, size):
    decay = classify_decay(7 * NUMBERS[:size] ** -t)
    assert decay.case == ("harmonic" if t == 1 else "polynomial")
    assert decay.rate == pytest.approx(t, rel=1e-9)
    assert decay.fit == pytest.approx(1, abs=1e-9)
    assert decay.confidence == pytest.approx(1, abs=1e-6)
    assert (decay.first, decay.last) == (2, size)
    assert f"i^-{t:.2f}" in decay.law


@pytest.mark.parametrize("A", [0.3, 0.8, 0.95])
@pytest.mark.parametrize("seed", range(3))
def test_a_noisy_exponential_spectrum_gives_its_rate_within_its_error(A, seed):
    decay = classify_decay(with_noise(A ** np.arange(200), 0.2, seed))
    assert decay.case == "exponential"
    assert abs(decay.rate - A) <= max(4 * decay.rate_error, 0.01)
    assert 0 < decay.rate_error < 0.05
    assert 0.95 < decay.fit < 1
    assert decay.confidence > 0.99


@pytest.mark.parametrize("t", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_noisy_power_law_gives_its_power_within_its_error(t, seed):
    decay = classify_decay(with_noise(NUMBERS**-t, 0.2, seed))
    assert decay.case == ("harmonic" if t == 1 else "polynomial")
    assert abs(decay.rate - t) <= max(4 * decay.rate_error, 0.1)
    assert 0 < decay.rate_error < 0.1
    assert 0.95 < decay.fit < 1
    assert decay.confidence > 0.99


def test_noise_lowers_the_fit_and_few_eigenvalues_the_confidence():
    fits = [classify_decay(with_noise(NUMBERS**-2, size)).fit for size in (0.0, 0.3, 1.0)]
    assert fits == sorted(fits, reverse=True)
    noisy = with_noise(NUMBERS**-1.5, 0.3, 1)
    assert classify_decay(noisy[:10]).confidence < classify_decay(noisy).confidence


def test_between_two_laws_one_is_taken_with_less_confidence():
    """exp(-i^a) goes from a power law to an exponential one as a goes from zero to one."""
    number = NUMBERS[:20]
    decays = [classify_decay(np.exp(-5 * (number / 20) ** a)) for a in np.linspace(0.05, 1, 60)]
    exponential = [decay.case == "exponential" for decay in decays]
    assert exponential == sorted(exponential)
    assert not exponential[0]
    assert exponential[-1]
    least = int(np.argmin([decay.confidence for decay in decays]))
    assert abs(least - exponential.index(True)) <= 1
    assert decays[least].confidence < 0.75
    assert min(decays[0].confidence, decays[-1].confidence) > 0.99


def test_a_first_eigenvalue_out_of_line_does_not_matter():
    mu = NUMBERS**-2.0
    mu[0] = 1000
    assert classify_decay(mu).rate == pytest.approx(2, rel=1e-9)


def test_the_order_of_eigenvalues_does_not_matter():
    mu = with_noise(NUMBERS**-1.5, 0.1)
    assert classify_decay(np.random.default_rng(0).permutation(mu)) == classify_decay(mu)


@pytest.mark.parametrize("t", [0.0, 0.5])
def test_what_is_slower_than_harmonic_is_not_called_faster(t):
    decay = classify_decay(NUMBERS**-t)
    assert decay.case == "harmonic"
    assert decay.law == f"mu_i ~ i^-{t:.2f}, no faster than 1/i"


@settings(max_examples=60)
@given(st.integers(1, 60), st.floats(-20, 20), seeds)
def test_any_spectrum_has_a_law_whatever_its_unit(size, exponent, seed):
    rng = np.random.default_rng(seed)
    mu = rng.exponential(size=size) ** rng.uniform(0.1, 6)
    decay, scaled = classify_decay(mu), classify_decay(10.0**exponent * mu)
    assert decay.case == scaled.case
    assert scaled.rate == pytest.approx(decay.rate, rel=1e-6, abs=1e-9)
    assert 0 <= decay.fit <= 1
    assert 0.5 <= decay.confidence <= 1
    assert decay.law


@pytest.mark.parametrize("mu", [[0.0], np.zeros(20)])
def test_a_kernel_that_is_zero_has_no_law(mu):
    with pytest.raises(
        InvalidParameterError, match=r"one eigenvalue must be above zero; got 0\.0\. The kernel is zero"
    ):
        classify_decay(mu)


@pytest.mark.parametrize("mu", [[1.0, -0.1], [np.nan], [], [[1.0]]])
def test_what_is_no_spectrum_has_no_law(mu):
    with pytest.raises(InvalidParameterError, match="eigenvalues"):
        classify_decay(mu)


# Spectra of samples

LAWS = {
    "harmonic": NUMBERS**-1,
    "power 1.5": NUMBERS**-1.5,
    "power 2": NUMBERS**-2,
    "power 3": NUMBERS**-3,
    "exponential 0.9": 0.9**NUMBERS,
    "exponential 0.5": 0.5**NUMBERS,
    "rank 12": padded(NUMBERS[:12] ** -1, 800),
    "rank 40": padded(NUMBERS[:40] ** -1, 800),
}


@pytest.fixture(scope="module")
def sampled():
    """The spectra of 300 components on 900 rows of kernels whose eigenvalues sum to one, by the name of their law."""
    return {name: spectrum_of_rows(features_of(mu / mu.sum(), 900, 300)) for name, mu in LAWS.items()}


@pytest.mark.parametrize(
    ("name", "case", "rate", "within"),
    [
        ("harmonic", "harmonic", 1.0, 0.15),
        ("power 1.5", "polynomial", 1.5, 0.1),
        ("power 2", "polynomial", 2.0, 0.1),
        ("power 3", "polynomial", 3.0, 0.2),
        ("exponential 0.9", "exponential", 0.9, 0.015),
        ("exponential 0.5", "exponential", 0.5, 0.015),
        ("rank 12", "finite rank", 12, 0),
        ("rank 40", "finite rank", 40, 0),
    ],
)
def test_the_law_is_found_through_a_sample(sampled, name, case, rate, within):
    """What sampling has cut off, the smallest of 300 eigenvalues, must not be read as a faster decay."""
    decay = sampled[name].decay
    assert decay.case == case
    assert abs(decay.rate - rate) <= within
    assert decay.fit > 0.97
    assert decay.confidence > 0.95


def test_the_smallest_eigenvalues_of_a_sample_are_not_believed(sampled):
    one = sampled["power 1.5"]
    assert one.decay.last <= 150
    assert np.all(one.error[150:] >= 0.8 * one.eigenvalues[150:])
    believed = classify_decay(one.eigenvalues)
    assert abs(believed.rate - 1.5) > 2 * abs(one.decay.rate - 1.5)
    assert believed.fit < one.decay.fit


def test_a_rank_that_is_only_that_of_the_draw_is_not_believed():
    """Components drawn from infinitely many orthonormal ones: the rare ones are drawn once or not at all."""
    rng = np.random.default_rng(2)
    share = LAWS["power 2"] / LAWS["power 2"].sum()
    drawn = rng.choice(800, size=300, p=share)
    one = spectrum_of_rows(np.sqrt(2) * np.cos(np.pi * np.outer(rng.random(900), drawn + 1)))
    assert classify_decay(one.eigenvalues).case == "finite rank"
    assert one.decay.case == "polynomial"


@pytest.mark.parametrize("name", ["power 1.5", "power 2", "power 3", "exponential 0.5"])
def test_the_stated_error_covers_the_truth(name):
    truth = LAWS[name][:8] / LAWS[name].sum()
    distances = []
    for seed in range(20):
        one = spectrum_of_rows(features_of(LAWS[name] / LAWS[name].sum(), 400, 100, seed))
        distances.append((one.eigenvalues[:8] - truth) / one.error[:8])
    assert np.mean(np.abs(distances) <= 3) > 0.9
    assert 0.5 < np.sqrt(np.mean(np.square(distances))) < 2


def test_the_stated_relative_error_is_the_error_a_spectrum_has():
    mu = LAWS["power 1.5"] / LAWS["power 1.5"].sum()
    spectra = [spectrum_of_rows(features_of(mu, 600, 150, seed)) for seed in range(12)]
    actual = np.mean([np.linalg.norm(one.eigenvalues - mu[:150]) / np.linalg.norm(mu[:150]) for one in spectra])
    stated = np.mean([one.relative_error for one in spectra])
    assert actual / 3 < stated < 3 * actual


def test_larger_samples_have_smaller_errors():
    mu = LAWS["power 2"] / LAWS["power 2"].sum()
    errors = [
        np.mean([spectrum_of_rows(features_of(mu, n, s, seed)).relative_error for seed in range(5)])
        for n, s in ((100, 40), (300, 120), (900, 300))
    ]
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize(("n_rows", "n_components"), [(4, 2), (30, 3), (7, 40), (3000, 20)])
def test_eigenvalues_are_those_of_the_gram_matrix(n_rows, n_components):
    Z = np.random.default_rng(0).standard_normal((n_rows, n_components))
    one = spectrum_of_rows(Z)
    k = min(n_rows, n_components)
    assert one.eigenvalues.shape == one.error.shape == (k,)
    assert (one.n_rows, one.n_components) == (n_rows, n_components)
    expected = np.linalg.svd(Z, compute_uv=False) ** 2 / (n_rows * n_components)
    np.testing.assert_allclose(one.eigenvalues, expected, rtol=1e-9)
    assert one.trace == pytest.approx(expected.sum(), rel=1e-12)
    assert one.left == pytest.approx(0, abs=1e-12)
    assert np.all(one.error > 0)
    assert isinstance(one.decay.law, str)
    if n_rows < 100:
        np.testing.assert_allclose(one.eigenvalues, spectrum_of_gram(Z @ Z.T / n_components)[:k], atol=1e-12)


def test_features_that_are_all_zero_have_a_spectrum_without_error():
    one = spectrum_of_rows(np.zeros((10, 4)))
    np.testing.assert_array_equal(one.eigenvalues, 0)
    assert (one.relative_error, one.left, one.trace) == (0, 0, 0)
    assert np.all(np.isfinite(one.error))


@pytest.mark.parametrize("n_rows", [150, 600])
def test_a_wide_kernel_has_its_largest_eigenvalues_by_a_randomised_decomposition(monkeypatch, n_rows):
    mu = LAWS["power 1.5"] / LAWS["power 1.5"].sum()
    Z = features_of(mu, n_rows, 200)
    exact = spectrum_of_rows(Z)
    monkeypatch.setattr(spectrum, "_MOST_EXACT", 50)
    monkeypatch.setattr(spectrum, "_N_LEADING", 40)
    leading = spectrum_of_rows(Z)
    assert leading.eigenvalues.shape == leading.error.shape == (40,)
    np.testing.assert_allclose(leading.eigenvalues[:20], exact.eigenvalues[:20], rtol=1e-5)
    np.testing.assert_allclose(leading.eigenvalues, exact.eigenvalues[:40], rtol=0.05)
    assert np.all(leading.eigenvalues <= exact.eigenvalues[:40] * (1 + 1e-9))
    np.testing.assert_allclose(leading.error[:20], exact.error[:20], rtol=0.2)
    assert leading.trace == exact.trace
    assert leading.left == pytest.approx(exact.eigenvalues[40:].sum(), rel=0.05)
    assert leading.decay.case == exact.decay.case == "polynomial"


def test_eigenvalues_not_found_make_the_effective_dimension_an_upper_bound(monkeypatch):
    mu = LAWS["power 1.5"] / LAWS["power 1.5"].sum()
    Z = features_of(mu, 600, 200)
    lams = np.array([1e-3, 1e-2, 1e-1])
    exact = spectrum_of_rows(Z).effective_dimension(lams)
    np.testing.assert_allclose(exact, effective_dimension(spectrum_of_gram(Z @ Z.T / 200), lams), rtol=1e-8)
    monkeypatch.setattr(spectrum, "_MOST_EXACT", 50)
    monkeypatch.setattr(spectrum, "_N_LEADING", 40)
    bound = spectrum_of_rows(Z).effective_dimension(lams)
    assert np.all(bound >= exact * (1 - 1e-9))
    np.testing.assert_allclose(bound[1:], exact[1:], rtol=0.5)  # close where lambda is above what was not found


def test_the_randomised_decomposition_is_the_same_every_time(monkeypatch):
    monkeypatch.setattr(spectrum, "_MOST_EXACT", 10)
    Z = features_of(LAWS["power 2"], 100, 30)
    np.testing.assert_array_equal(spectrum_of_rows(Z).eigenvalues, spectrum_of_rows(Z).eigenvalues)


def test_a_spectrum_of_few_parts_has_a_number_and_an_array_of_dimensions():
    one = KernelSpectrum(np.array([0.5, 0.25]), np.zeros(2), 1.0, 10, 10)
    assert one.left == 0.25
    assert one.effective_dimension(0.25) == pytest.approx(2 / 3 + 1 / 2 + 1)
    assert isinstance(one.effective_dimension(0.25), float)
    np.testing.assert_allclose(one.effective_dimension([0.25, 0.5]), [2 / 3 + 1 / 2 + 1, 1 / 2 + 1 / 3 + 1 / 2])


def test_a_lambda_above_the_first_eigenvalue_is_warned_about():
    one = KernelSpectrum(np.array([0.5, 0.25]), np.zeros(2), 0.75, 10, 10)
    with pytest.warns(AssumptionWarning, match=r"lambda = 0\.7 is above the largest eigenvalue 0\.5"):
        one.effective_dimension(0.7)


@pytest.mark.parametrize("shape", [(3, 5), (10, 1), (10,), (2, 5, 5)])
def test_too_few_features_are_refused(shape):
    with pytest.raises(InvalidParameterError, match=r"features must have at least 4 rows and 2 columns; got \("):
        spectrum_of_rows(np.ones(shape))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("most", [5, 2048])
def test_features_that_are_not_finite_are_refused(monkeypatch, value, most):
    monkeypatch.setattr(spectrum, "_MOST_EXACT", most)
    Z = np.ones((20, 10))
    Z[3, 4] = value
    with pytest.raises(InvalidParameterError, match=r"features must be finite; got 'NaN or infinity'\. Leave"):
        spectrum_of_rows(Z)


@pytest.mark.parametrize(
    "mu",
    [
        1.0 / np.arange(1, 300) ** 1.5,
        0.8 ** np.arange(1.0, 60.0),
        1.0 / np.arange(1, 300),
        np.r_[np.ones(5), np.zeros(9)],
    ],
    ids=["polynomial", "exponential", "harmonic", "finite rank"],
)
def test_the_curve_of_a_law_goes_through_eigenvalues_that_follow_it(mu):
    decay = spectrum.classify_decay(mu)
    number, law = spectrum.decay_curve(decay, mu)
    assert (number[0], number[-1]) == (decay.first, decay.last)
    assert law == pytest.approx(mu[decay.first - 1 : decay.last], rel=1e-6)
