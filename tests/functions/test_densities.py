"""The densities against scipy.stats and their own definitions; the directions against the sums they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import integrate, stats

from rflaf.errors import InvalidParameterError
from rflaf.functions.densities import (
    AxesFirst,
    Cauchy,
    Density,
    Directions,
    Gaussian,
    OrthogonalGaussian,
    SobolGaussian,
    StudentT,
    draw,
    resolve_density,
)

NAMES = ("gaussian", "student_t", "cauchy", "orthogonal", "sobol")
DENSITIES = (Gaussian(), StudentT(), StudentT(df=0.7), Cauchy(), OrthogonalGaussian(), SobolGaussian())
NORMAL = (Gaussian(), OrthogonalGaussian(), SobolGaussian())
HEAVY = (StudentT(), StudentT(df=2.5), Cauchy())

each_density = pytest.mark.parametrize("density", DENSITIES, ids=repr)
each_normal = pytest.mark.parametrize("density", NORMAL, ids=repr)
each_heavy = pytest.mark.parametrize("density", HEAVY, ids=repr)

sizes = st.integers(1, 12)
seeds = st.integers(0, 2**32 - 1)
densities = st.sampled_from(DENSITIES)


def degrees_of_freedom(density: Density) -> float:
    return getattr(density, "df", 1.0)


def some_directions(n_features: int = 3, n_components: int = 5, seed: int = 0) -> Directions:
    rng = np.random.default_rng(seed)
    W, offset = rng.standard_normal((n_features, n_components)), rng.standard_normal(n_components)
    return Directions(W, offset, rng.uniform(0.5, 2, n_components), n_components + 4)


# The log densities


@each_normal
@pytest.mark.parametrize("n_features", [1, 2, 7])
def test_a_normal_log_density_is_that_of_scipy(density, n_features):
    W = np.random.default_rng(1).normal(scale=3, size=(n_features, 40))
    expected = stats.multivariate_normal(np.zeros(n_features)).logpdf(W.T)
    np.testing.assert_allclose(density.log_density(W), expected, rtol=1e-10, atol=1e-10)


@each_heavy
@pytest.mark.parametrize("n_features", [1, 2, 7])
def test_a_heavy_tailed_log_density_is_that_of_scipy(density, n_features):
    W = np.random.default_rng(1).normal(scale=3, size=(n_features, 40))
    expected = stats.multivariate_t(np.zeros(n_features), df=degrees_of_freedom(density)).logpdf(W.T)
    np.testing.assert_allclose(density.log_density(W), expected, rtol=1e-10, atol=1e-10)


@each_density
def test_a_density_integrates_to_one_on_the_line(density):
    total, _ = integrate.quad(lambda w: np.exp(density.log_density([[w]])[0]), -np.inf, np.inf, limit=200)
    assert total == pytest.approx(1, abs=1e-7)


def test_the_t_density_tends_to_the_normal_one():
    W = np.random.default_rng(0).standard_normal((4, 20))
    np.testing.assert_allclose(StudentT(df=1e12).log_density(W), Gaussian().log_density(W), atol=1e-9)


@given(densities, sizes, sizes, seeds)
def test_the_log_density_depends_on_the_norm_alone_and_falls_with_it(density, n_features, n_components, seed):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((n_features, n_components))
    rotation = stats.ortho_group.rvs(n_features, random_state=rng) if n_features > 1 else -np.eye(1)
    np.testing.assert_allclose(density.log_density(rotation @ W), density.log_density(W), rtol=1e-10, atol=1e-10)
    assert np.all(density.log_density(2 * W) < density.log_density(W))


# The samples


@given(densities, sizes, sizes, seeds)
def test_a_sample_has_its_shape_is_finite_and_repeats_with_the_seed(density, n_features, n_components, seed):
    first, second = (density.sample(n_features, n_components, np.random.default_rng(seed)) for _ in range(2))
    assert first.shape == (n_features, n_components)
    assert first.dtype == np.float64
    assert np.all(np.isfinite(first))
    np.testing.assert_array_equal(first, second)


@each_density
def test_a_restored_state_repeats_the_sample_and_the_next_sample_differs(density):
    rng = np.random.default_rng(0)
    state = rng.bit_generator.state
    first, following = density.sample(3, 8, rng), density.sample(3, 8, rng)
    rng.bit_generator.state = state
    np.testing.assert_array_equal(density.sample(3, 8, rng), first)
    assert not np.any(first == following)


@each_density
def test_the_generator_of_a_random_state_is_good_enough(density):
    legacy = np.random.Generator(np.random.RandomState(0)._bit_generator)
    assert density.sample(3, 8, legacy).shape == (3, 8)


@given(st.sampled_from([d for d in DENSITIES if d.name != "orthogonal"]), sizes, sizes, sizes, seeds)
def test_a_wider_sample_begins_with_the_narrower_one(density, n_features, n_narrow, n_more, seed):
    narrow = density.sample(n_features, n_narrow, np.random.default_rng(seed))
    wide = density.sample(n_features, n_narrow + n_more, np.random.default_rng(seed))
    np.testing.assert_array_equal(wide[:, :n_narrow], narrow)


@given(sizes, st.integers(1, 3), st.integers(1, 3), seeds)
def test_orthogonal_samples_are_nested_exactly_in_whole_blocks(n_features, n_blocks, n_more, seed):
    narrow = OrthogonalGaussian().sample(n_features, n_blocks * n_features, np.random.default_rng(seed))
    wide = OrthogonalGaussian().sample(n_features, (n_blocks + n_more) * n_features, np.random.default_rng(seed))
    np.testing.assert_array_equal(wide[:, : n_blocks * n_features], narrow)


@pytest.mark.parametrize("n_features", [1, 5, 40])
@pytest.mark.parametrize("n_narrow", [1, 3, 67])
def test_orthogonal_samples_are_nested_up_to_rounding(n_features, n_narrow):
    narrow = OrthogonalGaussian().sample(n_features, n_narrow, np.random.default_rng(2))
    wide = OrthogonalGaussian().sample(n_features, 100, np.random.default_rng(2))
    np.testing.assert_allclose(wide[:, :n_narrow], narrow, atol=1e-10)


# The law of the samples


@each_normal
def test_normal_samples_have_the_moments_of_the_standard_normal(density):
    W = density.sample(4, 2**14, np.random.default_rng(3))
    np.testing.assert_allclose(W.mean(axis=1), 0, atol=0.04)
    np.testing.assert_allclose(W @ W.T / W.shape[1], np.eye(4), atol=0.06)
    np.testing.assert_allclose((W**4).mean(axis=1), 3, rtol=0.1)


@each_normal
@pytest.mark.parametrize("n_features", [1, 3, 6])
def test_normal_samples_have_normal_entries_and_chi_norms(density, n_features):
    W = density.sample(n_features, 6000, np.random.default_rng(4))
    direction = np.ones(n_features) / np.sqrt(n_features)
    assert stats.kstest(direction @ W, stats.norm.cdf).pvalue > 0.01
    assert stats.kstest(W[0], stats.norm.cdf).pvalue > 0.01
    assert stats.kstest(np.linalg.norm(W, axis=0), stats.chi(n_features).cdf).pvalue > 0.01


@each_heavy
@pytest.mark.parametrize("n_features", [1, 3, 6])
def test_heavy_tailed_samples_have_t_projections_and_f_norms(density, n_features):
    df = degrees_of_freedom(density)
    W = density.sample(n_features, 6000, np.random.default_rng(5))
    direction = np.ones(n_features) / np.sqrt(n_features)
    assert stats.kstest(direction @ W, stats.t(df).cdf).pvalue > 0.01
    assert stats.kstest((W**2).sum(axis=0) / n_features, stats.f(n_features, df).cdf).pvalue > 0.01


def test_the_t_sample_has_covariance_df_over_df_minus_two():
    W = StudentT(df=12.0).sample(3, 40_000, np.random.default_rng(6))
    np.testing.assert_allclose(np.cov(W), 1.2 * np.eye(3), atol=0.04)


def test_a_t_with_hardly_any_degrees_of_freedom_stays_finite():
    assert np.all(np.isfinite(StudentT(df=1e-3).sample(2, 500, np.random.default_rng(0))))


@given(sizes, st.integers(1, 30), seeds)
def test_orthogonal_directions_are_orthogonal_within_blocks(n_features, n_components, seed):
    W = OrthogonalGaussian().sample(n_features, n_components, np.random.default_rng(seed))
    unit = W / np.linalg.norm(W, axis=0)
    for start in range(0, n_components, n_features):
        block = unit[:, start : start + n_features]
        np.testing.assert_allclose(block.T @ block, np.eye(block.shape[1]), atol=1e-10)


def test_the_last_direction_of_a_block_and_its_norm_are_as_free_as_the_first():
    W = OrthogonalGaussian().sample(4, 4 * 4000, np.random.default_rng(7))
    last = W[:, 3::4]
    assert stats.kstest(last[0], stats.norm.cdf).pvalue > 0.01
    assert stats.kstest(np.linalg.norm(last, axis=0), stats.chi(4).cdf).pvalue > 0.01


def test_norms_within_an_orthogonal_block_are_independent():
    norms = np.linalg.norm(OrthogonalGaussian().sample(3, 3 * 5000, np.random.default_rng(8)), axis=0)
    np.testing.assert_allclose(np.corrcoef(norms.reshape(-1, 3).T), np.eye(3), atol=0.05)


def test_fewer_orthogonal_directions_than_features_need_no_square_matrix():
    W = OrthogonalGaussian().sample(200_000, 2, np.random.default_rng(0))
    assert abs(W[:, 0] @ W[:, 1]) < 1e-6


def kernel_error(density: Density, n_components: int) -> float:
    """Root mean square error, over 20 seeds, of the mean of cos(w.x), which is exp(-|x|^2 / 2) for normal w."""
    x = np.array([0.3, -0.8, 0.5])
    means = [np.cos(x @ density.sample(3, n_components, np.random.default_rng(s))).mean() for s in range(20)]
    return float(np.sqrt(np.mean((np.array(means) - np.exp(-x @ x / 2)) ** 2)))


def test_sobol_integrates_a_smooth_function_far_better_than_chance():
    assert kernel_error(SobolGaussian(), 1024) < kernel_error(Gaussian(), 1024) / 5


def test_orthogonal_directions_integrate_a_smooth_function_better_than_chance():
    assert kernel_error(OrthogonalGaussian(), 300) < kernel_error(Gaussian(), 300)


@pytest.mark.parametrize("n_components", [1, 2, 3, 1000])
def test_sobol_entries_stay_within_the_stated_bound(n_components):
    assert np.abs(SobolGaussian().sample(5, n_components, np.random.default_rng(0))).max() < 6.13


def test_a_sobol_point_at_the_corner_is_moved_inside(monkeypatch):
    corners = np.array([[0.0, 1 - 2.0**-30]])
    monkeypatch.setattr(stats.qmc.Sobol, "random_base2", lambda self, m: corners)
    W = SobolGaussian().sample(2, 1, np.random.default_rng(0))
    np.testing.assert_allclose(W[:, 0], [-6.1208, 6.1208], atol=1e-4)
    assert W[0, 0] == pytest.approx(-W[1, 0])


# Names and rules


@pytest.mark.parametrize("name", NAMES)
def test_every_name_resolves_to_a_density_of_that_name(name):
    density = resolve_density(name)
    assert isinstance(density, Density)
    assert density.name == name


def test_an_object_with_sample_and_log_density_is_a_density():
    class Sparse:
        def sample(self, n_features, n_components, rng):
            return np.zeros((n_features, n_components))

        def log_density(self, W):
            return np.zeros(np.shape(W)[1])

    density = Sparse()
    assert resolve_density(density) is density
    assert draw(density, 2, 3, np.random.default_rng(0)).n_components == 3


def test_an_instance_resolves_to_itself():
    density = StudentT(df=3.0)
    assert resolve_density(density) is density


@pytest.mark.parametrize("wrong", ["laplace", None, 3, StudentT])
def test_anything_else_is_refused_with_the_names_that_work(wrong):
    with pytest.raises(InvalidParameterError) as caught:
        resolve_density(wrong)
    message = str(caught.value)
    assert "one of 'gaussian', 'student_t', 'cauchy', 'orthogonal', 'sobol'" in message
    assert "or an object with methods sample and log_density" in message
    assert f"got {wrong!r}." in message
    assert "an instance such as StudentT(df=3.0)" in message


@pytest.mark.parametrize("df", [0, -1.0, np.inf, np.nan])
def test_degrees_of_freedom_must_be_positive_and_finite(df):
    with pytest.raises(InvalidParameterError, match=f"df must be a positive finite number; got {df!r}"):
        StudentT(df=df)


@each_density
@pytest.mark.parametrize("bad", [0, -2, 1.5])
def test_sizes_below_one_or_not_whole_are_refused(density, bad):
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidParameterError, match=f"n_features must be an integer of at least 1; got {bad}"):
        density.sample(bad, 3, rng)
    with pytest.raises(InvalidParameterError, match=f"n_components must be an integer of at least 1; got {bad}"):
        draw(density, 3, bad, rng)


def test_numpy_integers_are_sizes():
    assert draw(SobolGaussian(), np.int64(2), np.int32(3), np.random.default_rng(0)).W.shape == (2, 3)


def test_sobol_refuses_more_columns_than_it_has_dimensions_and_names_another_density():
    with pytest.raises(InvalidParameterError, match=r"at most 21201; got 21202\. Use another density"):
        SobolGaussian().sample(21202, 1, np.random.default_rng(0))


def test_a_density_that_returns_rows_is_refused():
    class Rows(Gaussian):
        def sample(self, n_features, n_components, rng):
            return rng.standard_normal((n_components, n_features))

    with pytest.raises(InvalidParameterError, match=r"\(n_features, n_components\) = \(2, 3\); got \(3, 2\)"):
        draw(Rows(), 2, 3, np.random.default_rng(0))


# Directions


@each_density
def test_a_plain_draw_has_no_offset_unit_importance_and_a_draw_a_component(density):
    directions = draw(density, 3, 7, np.random.default_rng(0))
    np.testing.assert_array_equal(directions.W, density.sample(3, 7, np.random.default_rng(0)))
    np.testing.assert_array_equal(directions.offset, np.zeros(7))
    np.testing.assert_array_equal(directions.importance, np.ones(7))
    assert (directions.n_features, directions.n_components, directions.n_draws) == (3, 7, 7)


def test_directions_are_kept_contiguous_in_double_precision():
    directions = Directions(np.ones((4, 3), dtype=np.float32).T, np.zeros(4), np.ones(4), 4)
    assert directions.W.dtype == np.float64
    assert directions.W.flags.c_contiguous
    assert directions.take([2, 0]).W.flags.c_contiguous


@pytest.mark.parametrize(
    ("W", "offset", "importance", "message"),
    [
        (np.ones(3), np.zeros(3), np.ones(3), r"W must have two dimensions; got \(3,\)"),
        (np.ones((2, 3)), np.zeros(2), np.ones(3), r"offset must have the shape \(3,\); got \(2,\)"),
        (np.ones((2, 3)), np.zeros(3), np.ones((3, 1)), r"importance must have the shape \(3,\); got \(3, 1\)"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(W, offset, importance, message):
    with pytest.raises(InvalidParameterError, match=message):
        Directions(W, offset, importance, 3)


def test_take_keeps_the_columns_in_the_order_asked_for():
    directions = some_directions()
    taken = directions.take([4, 0, 0])
    np.testing.assert_array_equal(taken.W, directions.W[:, [4, 0, 0]])
    np.testing.assert_array_equal(taken.offset, directions.offset[[4, 0, 0]])
    np.testing.assert_array_equal(taken.importance, directions.importance[[4, 0, 0]])
    assert taken.n_draws == 3


def test_take_accepts_a_mask_a_new_importance_and_the_number_of_draws():
    taken = some_directions().take([False, True, False, True, False], importance=[2, 3], n_draws=9)
    np.testing.assert_array_equal(taken.W, some_directions().W[:, [1, 3]])
    np.testing.assert_array_equal(taken.importance, [2.0, 3.0])
    assert taken.n_draws == 9


def test_take_refuses_an_importance_of_another_length():
    with pytest.raises(InvalidParameterError, match=r"importance must have the shape \(2,\); got \(3,\)"):
        some_directions().take([0, 1], importance=np.ones(3))


@given(st.data(), sizes, sizes, seeds)
def test_folded_directions_see_raw_inputs_as_the_original_sees_scaled_ones(data, n_features, n_components, seed):
    center = data.draw(hnp.arrays(float, n_features, elements=st.floats(-1e3, 1e3)))
    scale = data.draw(hnp.arrays(float, n_features, elements=st.just(0.0) | st.floats(1e-2, 1e3)))
    directions = some_directions(n_features, n_components, seed)
    X = center + np.random.default_rng(seed).standard_normal((6, n_features)) * scale  # constant where scale is zero
    standard = (X - center) / np.where(scale == 0, 1, scale)
    folded = directions.fold(center, scale)
    expected = standard @ directions.W + directions.offset
    np.testing.assert_allclose(X @ folded.W + folded.offset, expected, atol=1e-7)
    assert not np.any(folded.W[scale == 0])


def test_folding_keeps_importance_and_draws():
    directions = some_directions()
    folded = directions.fold(np.ones(3), np.full(3, 2.0))
    np.testing.assert_array_equal(folded.W, directions.W / 2)
    np.testing.assert_array_equal(folded.importance, directions.importance)
    assert folded.n_draws == directions.n_draws


@pytest.mark.parametrize("part", ["center", "scale"])
def test_fold_refuses_vectors_of_another_length(part):
    vectors = {"center": np.zeros(3), "scale": np.ones(3), part: np.ones(2)}
    with pytest.raises(InvalidParameterError, match=rf"{part} must have the shape \(3,\); got \(2,\)"):
        some_directions().fold(**vectors)


@given(sizes, sizes, seeds, st.floats(-10, 10))
def test_scaled_directions_scale_every_projection(n_features, n_components, seed, factor):
    directions = some_directions(n_features, n_components, seed)
    scaled = directions.scaled(factor)
    X = np.random.default_rng(seed).standard_normal((5, n_features))
    expected = factor * (X @ directions.W + directions.offset)
    np.testing.assert_allclose(X @ scaled.W + scaled.offset, expected, atol=1e-10)
    np.testing.assert_array_equal(scaled.importance, directions.importance)


def test_directions_can_be_scaled_one_by_one():
    factors = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    directions = some_directions()
    scaled = directions.scaled(factors)
    np.testing.assert_array_equal(scaled.W, directions.W * factors)
    np.testing.assert_array_equal(scaled.offset, directions.offset * factors)


# The axes first


@pytest.mark.parametrize(("n_features", "n_components"), [(3, 3), (3, 8), (5, 2), (1, 1)])
def test_the_axes_come_first_and_then_the_rest(n_features, n_components):
    W = AxesFirst(Gaussian()).sample(n_features, n_components, np.random.default_rng(0))
    assert W.shape == (n_features, n_components)
    n_axes = min(n_features, n_components)
    np.testing.assert_array_equal(W[:, :n_axes], np.eye(n_features, n_axes))
    if n_components > n_features:
        rest = Gaussian().sample(n_features, n_components - n_features, np.random.default_rng(0))
        np.testing.assert_array_equal(W[:, n_features:], rest)
