"""Losses against their definitions: derivatives, convexity, best constants, units, links, and the compiled twins."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from rflaf.errors import InvalidParameterError
from rflaf.functions._kernels import losses as _loss_kernels
from rflaf.functions._kernels.refined import Rows, alone
from rflaf.functions.losses import (
    HUBER_DEVIATIONS,
    Huber,
    Logistic,
    Loss,
    Pinball,
    Poisson,
    Softmax,
    Squared,
    SquaredHinge,
    Units,
    same_units,
)

LOSSES = (
    Squared(),
    Huber(),
    Huber(0.7),
    Pinball(0.5, 0.2),
    Pinball(0.9, 0.4),
    Logistic(),
    SquaredHinge(),
    Softmax(),
    Poisson(),
)
OF_RESIDUAL = LOSSES[:5]
OF_SIGN = (Logistic(), SquaredHinge())
LINKED = (Logistic(), Softmax(), Poisson())
EXTREMES = (1e30, -1e30, 700.0, -700.0, 40.0, -40.0, 0.0)


def name_of(loss: Loss) -> str:
    parameters = [value for value in vars(loss).values() if value is not None]
    return " ".join([loss.name, *map(str, parameters)])


def each(losses):
    return pytest.mark.parametrize("loss", losses, ids=name_of)


seeds = st.integers(0, 2**32 - 1)
losses = st.sampled_from(LOSSES)


def outputs_for(loss: Loss, n_outputs: int) -> int:
    return max(n_outputs, 2) if isinstance(loss, Softmax) else n_outputs


def some_targets(loss: Loss, n_rows: int, n_outputs: int, rng) -> np.ndarray:
    """Targets that the loss takes: real numbers, zeros and ones, a single one a row, or counts with some zeros."""
    shape = (n_rows, outputs_for(loss, n_outputs))
    if loss in OF_SIGN:
        return rng.integers(0, 2, shape).astype(float)
    if isinstance(loss, Softmax):
        return np.eye(shape[1])[rng.integers(0, shape[1], n_rows)]
    if isinstance(loss, Poisson):
        return rng.poisson(2.0, shape) * rng.choice([1.0, 0.4], shape)
    return 1.5 * rng.standard_normal(shape) + 0.3


def kink_distance(loss: Loss, f, y) -> np.ndarray:
    """How far every row is from the nearest jump of the curvature, (n_rows,)."""
    if isinstance(loss, Huber):
        far = np.abs(np.abs(f - y) - loss.reach)
    elif isinstance(loss, Pinball):
        far = np.abs(np.abs(f - y) - loss.width)
    elif isinstance(loss, SquaredHinge):
        far = np.abs((2 * y - 1) * f - 1)
    else:
        far = np.full_like(f, np.inf)
    return far.min(axis=1)


def differences(function, f, step: float) -> np.ndarray:
    """Central differences of ``function`` (n_rows, ...) in every output, the derivatives last."""
    moves = step * np.eye(f.shape[1])
    return np.stack([(function(f + move) - function(f - move)) / (2 * step) for move in moves], axis=-1)


def some_problem(loss: Loss, n_rows: int, n_outputs: int, seed: int, size: float = 2.0):
    rng = np.random.default_rng(seed)
    y = some_targets(loss, n_rows, n_outputs, rng)
    return size * rng.standard_normal(y.shape), y


def mean_loss(loss: Loss, constant, y, weight) -> float:
    return float(np.average(loss.value(np.broadcast_to(constant, y.shape), y), weights=weight))


# Definitions


def test_values_are_their_definitions():
    f, y = np.array([[0.5], [-2.0], [3.0]]), np.array([[1.0], [0.0], [0.0]])
    r = (y - f)[:, 0]
    np.testing.assert_allclose(Squared().value(f, y), r**2)
    np.testing.assert_allclose(Huber(0.7).value(f, y), [0.25, 0.7 * (2 * 2 - 0.7), 0.7 * (2 * 3 - 0.7)])
    np.testing.assert_allclose(Pinball(0.9, 1e-3).value(f, y), np.where(r > 0, 0.9 * r, -0.1 * r))
    np.testing.assert_allclose(Logistic().value(f, y), np.log(1 + np.exp(f[:, 0])) - y[:, 0] * f[:, 0])
    np.testing.assert_allclose(SquaredHinge().value(f, y), [0.25, 0, 16])
    np.testing.assert_allclose(Poisson().value(f, y), [np.exp(0.5) - 0.5 - 1, np.exp(-2), np.exp(3)])
    scores, chosen = np.array([[1.0, 2.0, 0.0]]), np.array([[0.0, 0.0, 1.0]])
    np.testing.assert_allclose(Softmax().value(scores, chosen), np.log(np.exp(1) + np.exp(2) + 1))


@each(LOSSES)
def test_values_are_one_a_row_and_derivatives_one_an_output(loss):
    f, y = some_problem(loss, 7, 3, 0)
    assert loss.value(f, y).shape == (7,)
    assert loss.slope(f, y).shape == loss.curvature(f, y).shape == loss.mean(f).shape == (7, 3)
    assert loss.constant(y, np.ones(7)).shape == (3,)


@each([loss for loss in LOSSES if not isinstance(loss, Softmax)])
def test_outputs_add_up(loss):
    f, y = some_problem(loss, 9, 3, 0)
    one_by_one = sum(loss.value(f[:, [o]], y[:, [o]]) for o in range(3))
    np.testing.assert_allclose(loss.value(f, y), one_by_one, rtol=1e-13)


def test_squared_is_the_huber_loss_without_an_end():
    f, y = some_problem(Squared(), 30, 2, 0)
    for method in ("value", "slope", "curvature"):
        np.testing.assert_allclose(getattr(Huber(np.inf), method)(f, y), getattr(Squared(), method)(f, y), rtol=1e-13)


# Derivatives


@settings(max_examples=120)
@given(losses, st.integers(1, 12), st.integers(1, 4), seeds)
def test_the_slope_equals_finite_differences_of_the_value(loss, n_rows, n_outputs, seed):
    f, y = some_problem(loss, n_rows, n_outputs, seed)
    smooth = kink_distance(loss, f, y) > 1e-3
    f, y = f[smooth], y[smooth]
    expected = differences(lambda g: loss.value(g, y), f, 1e-5)
    np.testing.assert_allclose(loss.slope(f, y), expected, rtol=1e-6, atol=1e-7)


@settings(max_examples=120)
@given(losses, st.integers(1, 12), st.integers(1, 4), seeds)
def test_the_curvature_is_the_diagonal_of_finite_differences_of_the_slope(loss, n_rows, n_outputs, seed):
    f, y = some_problem(loss, n_rows, n_outputs, seed)
    smooth = kink_distance(loss, f, y) > 1e-3
    f, y = f[smooth], y[smooth]
    hessian = differences(lambda g: loss.slope(g, y), f, 1e-5)
    diagonal = np.diagonal(hessian, axis1=1, axis2=2)
    np.testing.assert_allclose(loss.curvature(f, y), diagonal, rtol=1e-6, atol=1e-7)
    if not isinstance(loss, Softmax):
        rounding = 1e-7 * (1 + np.exp(f.max(initial=0)))
        np.testing.assert_allclose(hessian, diagonal[..., None] * np.eye(f.shape[1]), atol=rounding)


def test_at_a_kink_the_slope_is_that_of_both_sides():
    y = np.zeros((2, 1))
    for loss, kink in ((Huber(0.7), 0.7), (Pinball(0.3, 0.2), 0.2)):
        f = np.array([[kink], [-kink]])
        for side in (1 - 1e-12, 1 + 1e-12):
            np.testing.assert_allclose(loss.slope(side * f, y), loss.slope(f, y), atol=1e-10)
            np.testing.assert_allclose(loss.value(side * f, y), loss.value(f, y), atol=1e-10)
    one = np.ones((1, 1))
    assert SquaredHinge().slope(one, one) == SquaredHinge().value(one, one) == 0


@each([loss for loss in LOSSES if loss not in (Logistic(), Softmax())])  # theirs are lowest at infinity
def test_the_lowest_value_is_zero_and_has_no_slope(loss):
    """But for the smoothing of the pinball loss, which lifts its corner by a quarter and makes it lean."""
    _, y = some_problem(loss, 40, 2, 1)
    f = np.log(np.maximum(y, 1e-300)) if isinstance(loss, Poisson) else 2 * y - 1 if loss in OF_SIGN else y
    corner, lean = (loss.width / 4, 0.5 - loss.quantile) if isinstance(loss, Pinball) else (0.0, 0.0)
    np.testing.assert_allclose(loss.value(f, y), 2 * corner, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(loss.slope(f, y), lean, rtol=1e-13, atol=1e-13)


# Shape


@settings(max_examples=150)
@given(losses, st.integers(1, 12), st.integers(1, 4), st.floats(-2, 6), seeds)
def test_no_answer_costs_less_than_nothing(loss, n_rows, n_outputs, log_size, seed):
    f, y = some_problem(loss, n_rows, n_outputs, seed, 10.0**log_size)
    value = loss.value(f, y)
    assert np.all(np.isfinite(value))
    assert np.all(value >= -1e-14 * (1 + np.abs(f).max() + np.abs(y).max() ** 2))


@settings(max_examples=150)
@given(losses, st.integers(1, 4), st.floats(-2, 4), st.floats(0, 1), seeds)
def test_losses_are_convex_along_any_segment(loss, n_outputs, log_size, share, seed):
    f, y = some_problem(loss, 20, n_outputs, seed, 10.0**log_size)
    g = 10.0**log_size * np.random.default_rng(seed + 1).standard_normal(f.shape)
    at_f, at_g = loss.value(f, y), loss.value(g, y)
    rounding = 1e-12 * (at_f + at_g + 1)
    assert np.all(loss.value(share * f + (1 - share) * g, y) <= share * at_f + (1 - share) * at_g + rounding)
    tangent = at_f + np.sum(loss.slope(f, y) * (g - f), axis=1)
    size = np.sum(np.abs(loss.slope(f, y) * (g - f)), axis=1)
    assert np.all(at_g >= tangent - rounding - 1e-12 * size)


@pytest.mark.parametrize("y", [0.0, 1.0, 1e5])
def test_the_poisson_loss_stays_convex_where_its_exponential_ends(y):
    """It goes on as a straight line, whose slope is that of the class and which -y f does not pull below zero."""
    f = np.array([*range(0, 100, 3), 700, 1e5, 1e30], float)[:, None]
    target = np.full_like(f, y)
    value, slope = Poisson().value(f, target), Poisson().slope(f, target)
    assert np.all(np.isfinite(value))
    assert np.all(value >= 0)
    gap = np.diff(f[:, 0])
    assert np.all(np.diff(value) >= slope[:-1, 0] * gap * (1 - 1e-9))
    assert np.all(np.diff(value) <= slope[1:, 0] * gap * (1 + 1e-9))


@each(LOSSES)
def test_curvatures_are_between_zero_and_their_bound(loss):
    f, y = some_problem(loss, 4000, 2, 0, 3.0)
    curvature = loss.curvature(f, y)
    assert np.all(curvature >= 0)
    assert np.all(curvature <= loss.curvature_bound)


@each([loss for loss in LOSSES if np.isfinite(loss.curvature_bound)])
def test_the_bound_of_the_curvature_is_attained(loss):
    """Across outputs too: for softmax it is the largest eigenvalue of the Hessian, at two equal classes."""
    n_outputs = outputs_for(loss, 1)
    f, y = np.zeros((1, n_outputs)), np.eye(n_outputs)[:1] if isinstance(loss, Softmax) else np.zeros((1, 1))
    hessian = differences(lambda g: loss.slope(g, y), f, 1e-5)[0]
    assert np.linalg.eigvalsh(hessian)[-1] == pytest.approx(loss.curvature_bound, rel=1e-6)


@settings(max_examples=30)
@given(st.integers(2, 6), seeds)
def test_no_direction_of_softmax_is_more_curved_than_its_bound(n_classes, seed):
    f, y = some_problem(Softmax(), 10, n_classes, seed)
    hessian = differences(lambda g: Softmax().slope(g, y), f, 1e-5)
    assert np.linalg.eigvalsh(hessian).max() <= Softmax().curvature_bound + 1e-6


@each([loss for loss in LOSSES if loss.curved_everywhere])
def test_losses_that_are_said_to_be_curved_everywhere_are(loss):
    f, y = some_problem(loss, 1000, 2, 0, 8.0)
    assert np.all(loss.curvature(np.clip(f, -30, 30), y) > 0)


def test_only_the_poisson_loss_has_no_bound():
    assert [loss for loss in LOSSES if np.isinf(loss.curvature_bound)] == [Poisson()]
    assert Pinball(0.5, 0.2).curvature_bound == pytest.approx(2.5)


@each([Huber(0.7), Pinball(0.9, 0.1), Logistic(), Softmax()])
def test_lipschitz_losses_have_bounded_slopes(loss):
    """Theorem 4.2 asks for it."""
    f, y = some_problem(loss, 500, 1, 0, 1e6)
    most = {"Huber": 1.4, "pinball": 0.9}.get(loss.name, 1.0)
    assert np.abs(loss.slope(f, y)).max() == pytest.approx(most, rel=1e-12)


# The best constant


@st.composite
def samples(draw, kinds=LOSSES):
    """A loss, targets and weights, some of them zero; every class and some counts are there."""
    loss, n_rows, seed = draw(st.sampled_from(kinds)), draw(st.integers(3, 30)), draw(seeds)
    rng = np.random.default_rng(seed)
    y = some_targets(loss, n_rows, draw(st.integers(1, 3)), rng)
    weight = draw(st.sampled_from([np.ones(n_rows), rng.uniform(0.1, 2, n_rows), rng.integers(0, 3, n_rows) + 0.0]))
    first = y.shape[1] + 1
    weight[:first] = np.maximum(weight[:first], 1)
    if isinstance(loss, Softmax | Logistic | SquaredHinge):
        y = np.vstack([np.eye(y.shape[1]), np.zeros((1, y.shape[1])), y])
        y = np.delete(y, y.shape[1], axis=0) if isinstance(loss, Softmax) else y
        weight = np.concatenate([np.ones(len(y) - n_rows), weight])
    if isinstance(loss, Poisson):
        y[:1] += 1
    return loss, y, weight


@settings(max_examples=120)
@given(samples([Squared(), Logistic(), SquaredHinge(), Softmax(), Poisson()]))
def test_the_mean_slope_is_zero_at_the_best_constant(case):
    loss, y, weight = case
    slope = loss.slope(np.broadcast_to(loss.constant(y, weight), y.shape), y)
    np.testing.assert_allclose(np.average(slope, axis=0, weights=weight), 0, atol=1e-12 * (1 + np.abs(y).max()))


@settings(max_examples=60)
@given(samples())
def test_no_constant_is_better_than_the_best_one(case):
    """To rounding; Huber to delta^2, as it takes the median, and pinball to a quarter of its smoothing."""
    loss, y, weight = case
    best = loss.constant(y, weight)
    excess = {"Huber": getattr(loss, "reach", 0.0) ** 2, "pinball": getattr(loss, "width", 0.0) / 4}
    allowed = excess.get(loss.name, 0.0) * y.shape[1] + 1e-12
    found = mean_loss(loss, best, y, weight)
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.1, 1.0):
        other = best + size * rng.standard_normal(best.shape)
        assert found <= mean_loss(loss, other, y, weight) + allowed
    if loss.name in ("Huber", "pinball"):
        lowest = minimize(lambda c: mean_loss(loss, c, y, weight), best, method="Powell").fun
        assert found <= lowest + allowed


@settings(max_examples=60)
@given(samples(), seeds)
def test_the_best_constant_counts_weights_and_leaves_out_rows_of_weight_zero(case, seed):
    loss, y, _ = case
    copies = np.random.default_rng(seed).integers(0, 4, len(y))
    copies[: y.shape[1] + 1] = 1
    weighted = loss.constant(y, copies.astype(float))
    np.testing.assert_allclose(
        weighted, loss.constant(np.repeat(y, copies, axis=0), np.ones(copies.sum())), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("quantile", [0.05, 0.5, 0.75])
def test_the_constant_of_the_pinball_loss_is_the_quantile(quantile):
    y = np.random.default_rng(0).permutation(np.arange(1.0, 101))[:, None]
    assert Pinball(quantile).constant(y, np.ones(100)) == pytest.approx(100 * quantile)
    heavy = np.where(y[:, 0] == 80, 1e6, 1.0)
    assert Pinball(quantile).constant(y, heavy) == 80


@each([*OF_SIGN, Softmax()])
def test_a_class_that_is_not_there_has_a_finite_constant(loss):
    y = np.tile([1.0, 0.0], (5, 1))
    constant = loss.constant(y, np.ones(5))
    assert np.all(np.isfinite(constant))
    assert constant[0] > constant[1]
    assert Poisson().constant(np.zeros((3, 1)), np.ones(3)) == pytest.approx(np.log(1e-6))


# Units


def units_of(loss: Loss, y, intercept: bool) -> Units:
    return loss.units(y.mean(axis=0), y.std(axis=0), intercept)


def size_of(loss: Loss, scale: float) -> float:
    """What a loss in units of ``scale`` is multiplied by: its square for losses that are squares near zero."""
    return {"squared": scale**2, "Huber": scale**2, "pinball": scale, "Poisson": scale}.get(loss.name, 1.0)


EXPLICIT = [loss for loss in LOSSES if loss != Huber()]  # delta None is for targets of unit spread


@settings(max_examples=100)
@given(st.sampled_from(EXPLICIT), st.booleans(), st.floats(-3, 3), seeds)
def test_a_problem_in_units_is_the_same_up_to_a_factor(loss, intercept, log_size, seed):
    """That is: the squared scale for squared and Huber, the scale for pinball and Poisson, one for the others."""
    rng = np.random.default_rng(seed)
    y = some_targets(loss, 30, 1, rng)
    if loss in OF_RESIDUAL:
        y = 10.0**log_size * y + rng.standard_normal()
    if isinstance(loss, Poisson):
        y[0] += 1
    units = units_of(loss, y, intercept)
    scale = float(units.scale[0])
    inside, y_inside = loss.scaled(scale), (y - units.centre) / units.scale
    f = rng.standard_normal(y.shape)
    np.testing.assert_allclose(
        loss.value(units.shift + units.stretch * f, y),
        size_of(loss, scale) * inside.value(f, y_inside),
        rtol=1e-9,
        atol=1e-9 * size_of(loss, scale) * (1 + np.abs(y_inside).max()),
    )


@settings(max_examples=60)
@given(st.sampled_from([loss for loss in OF_RESIDUAL if loss != Huber()]), st.floats(-4, 4), seeds)
def test_a_scaled_loss_is_that_of_scaled_targets(loss, log_scale, seed):
    f, y = some_problem(loss, 20, 2, seed)
    scale = 10.0**log_scale
    scaled, factor = loss.scaled(scale), size_of(loss, scale)
    np.testing.assert_allclose(factor * scaled.value(f / scale, y / scale), loss.value(f, y), rtol=1e-10, atol=1e-12)
    slope = factor / scale * scaled.slope(f / scale, y / scale)
    np.testing.assert_allclose(slope, loss.slope(f, y), rtol=1e-10, atol=1e-10)
    f_back, y_back = some_problem(loss, 20, 2, seed)
    np.testing.assert_allclose(scaled.scaled(1 / scale).value(f_back, y_back), loss.value(f, y), rtol=1e-10)


def test_parameters_that_are_still_to_be_found_are_for_unit_spread():
    assert Huber().reach == HUBER_DEVIATIONS
    assert Huber().scaled(5.0) == Huber()
    assert Pinball(0.9).width == 0.01
    assert Pinball(0.9).scaled(5.0) == Pinball(0.9, 0.01)
    assert Pinball(0.9).scaled(5.0).scaled(1 / 5.0).width == pytest.approx(0.05)
    assert Pinball(0.9, 0.1).scaled(5.0) == Pinball(0.9, 0.1 / 5)
    assert Huber(2.0).scaled(4.0) == Huber(0.5)


@each([Squared(), *OF_SIGN, Softmax(), Poisson()])
def test_losses_without_a_length_are_the_same_at_any_scale(loss):
    assert loss.scaled(7.0) is loss


@pytest.mark.parametrize("intercept", [True, False])
@each(LOSSES)
def test_units_are_those_of_the_targets(loss, intercept):
    mean, spread = np.array([3.0, 0.5]), np.array([4.0, 0.0])
    units = loss.units(mean, spread, intercept)
    if loss in OF_RESIDUAL:
        centre, size = (mean, spread) if intercept else (np.zeros(2), np.array([np.hypot(3, 4), 0.5]))
        if loss.length is not None:  # one distance for all targets
            size = np.full(2, np.sqrt(np.mean(size**2)))
        expected = Units(centre, size, centre, size)
    elif isinstance(loss, Poisson) and intercept:
        expected = Units(np.zeros(2), mean, np.log(mean), np.ones(2))
    else:
        expected = same_units(2)
    for name in ("centre", "scale", "shift", "stretch"):
        np.testing.assert_allclose(getattr(units, name), getattr(expected, name), err_msg=name)


def test_counts_without_any_weight_have_finite_units():
    """Counts above zero may all have weight zero, which `check` does not see."""
    units = Poisson().units(np.array([0.0, 2.0]), np.array([0.0, 1.0]), True)
    for name in ("centre", "scale", "shift", "stretch"):
        assert np.all(np.isfinite(getattr(units, name)))
    np.testing.assert_allclose([units.scale[1], units.shift[1]], [2.0, np.log(2)])


# Links


@settings(max_examples=60)
@given(st.sampled_from(LINKED), st.integers(1, 4), seeds)
def test_the_slope_is_the_mean_less_the_target(loss, n_outputs, seed):
    f, y = some_problem(loss, 20, n_outputs, seed)
    np.testing.assert_allclose(loss.slope(f, y), loss.mean(f) - y, rtol=1e-13, atol=1e-14)


@each(LOSSES)
def test_the_mean_of_the_best_constant_is_the_mean_of_the_targets(loss):
    _, y = some_problem(loss, 50, 3, 0)
    mean = loss.mean(loss.constant(y, np.ones(50))[None])[0]
    if loss in LINKED or isinstance(loss, Squared):
        np.testing.assert_allclose(mean, y.mean(axis=0), rtol=1e-12)
    else:
        np.testing.assert_array_equal(mean, loss.constant(y, np.ones(50)))


@settings(max_examples=40)
@given(st.integers(2, 5), st.floats(-2, 30), seeds)
def test_probabilities_are_probabilities(n_classes, log_size, seed):
    f, _ = some_problem(Softmax(), 20, n_classes, seed, 10.0**log_size)
    p = Softmax().mean(f)
    assert np.all((p >= 0) & (p <= 1))
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-14)
    p = Logistic().mean(f)
    assert np.all((p >= 0) & (p <= 1))
    np.testing.assert_allclose(p + Logistic().mean(-f), 1, rtol=1e-14)


@settings(max_examples=60)
@given(st.floats(-2, 3), seeds)
def test_softmax_of_two_classes_is_the_logistic_loss_of_the_difference(log_size, seed):
    f, y = some_problem(Softmax(), 20, 2, seed, 10.0**log_size)
    difference, second = f[:, 1:] - f[:, :1], y[:, 1:]
    rounding = 1e-14 * np.abs(f).max()
    np.testing.assert_allclose(
        Softmax().value(f, y), Logistic().value(difference, second), rtol=1e-10, atol=1e-14 + rounding
    )
    slope, one_slope = Softmax().slope(f, y), Logistic().slope(difference, second)
    np.testing.assert_allclose(slope, np.hstack([-one_slope, one_slope]), rtol=1e-9, atol=1e-14 + rounding)
    curvature = Softmax().curvature(f, y)
    one_curvature = Logistic().curvature(difference, second)
    np.testing.assert_allclose(curvature, np.hstack([one_curvature] * 2), rtol=1e-9, atol=1e-14 + rounding)
    np.testing.assert_allclose(Softmax().mean(f)[:, 1:], Logistic().mean(difference), rtol=1e-9, atol=1e-14 + rounding)


@settings(max_examples=30)
@given(st.integers(2, 5), st.floats(-100, 100), seeds)
def test_softmax_does_not_see_what_is_added_to_every_class(n_classes, shift, seed):
    f, y = some_problem(Softmax(), 20, n_classes, seed)
    np.testing.assert_allclose(Softmax().value(f + shift, y), Softmax().value(f, y), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(Softmax().slope(f, y).sum(axis=1), 0, atol=1e-14)


@settings(max_examples=30)
@given(st.sampled_from(OF_SIGN), seeds)
def test_the_two_classes_are_treated_alike(loss, seed):
    f, y = some_problem(loss, 20, 2, seed)
    np.testing.assert_allclose(loss.value(-f, 1 - y), loss.value(f, y), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(loss.slope(-f, 1 - y), -loss.slope(f, y), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(loss.curvature(-f, 1 - y), loss.curvature(f, y), rtol=1e-12, atol=1e-14)


# The smoothing of the pinball loss


@settings(max_examples=60)
@given(st.floats(0.01, 0.99), st.floats(-4, 1).map(lambda exponent: 10.0**exponent), seeds)
def test_the_pinball_loss_is_rounded_within_its_smoothing_only(quantile, smoothing, seed):
    loss = Pinball(quantile, smoothing)
    r = smoothing * np.concatenate([np.random.default_rng(seed).uniform(-3, 3, 50), [-1, 0, 1]])[:, None]
    sharp = np.where(r > 0, quantile * r, (quantile - 1) * r)[:, 0]
    excess = loss.value(np.zeros_like(r), r) - sharp
    near = np.abs(r[:, 0]) < smoothing
    rounding = 1e-14 * smoothing
    np.testing.assert_allclose(excess[~near], 0, atol=4 * rounding)
    np.testing.assert_allclose(excess[near], (smoothing - np.abs(r[near, 0])) ** 2 / (4 * smoothing), atol=4 * rounding)
    assert excess.max() == pytest.approx(smoothing / 4)
    slope = loss.slope(np.zeros_like(r), r)[:, 0]
    np.testing.assert_allclose(slope[~near], np.where(r[~near, 0] > 0, -quantile, 1 - quantile), rtol=1e-12)
    assert np.all((slope >= -quantile - 1e-15) & (slope <= 1 - quantile + 1e-15))


# Extreme answers


@pytest.mark.parametrize("target", [0.0, 1.0])
@each([loss for loss in LOSSES if not isinstance(loss, Softmax)])
def test_extreme_answers_have_finite_losses(loss, target):
    f = np.array(EXTREMES)[:, None]
    y = np.full_like(f, target)
    for found in (loss.value(f, y), loss.slope(f, y), loss.curvature(f, y), loss.mean(f)):
        assert np.all(np.isfinite(found))
    assert np.all(loss.value(f, y) >= 0)
    assert np.all(loss.curvature(f, y) >= 0)


def test_extreme_scores_have_finite_losses():
    f = np.array([[a, b, 0.0] for a in EXTREMES for b in EXTREMES])
    for chosen in range(3):
        y = np.eye(3)[np.full(len(f), chosen)]
        for found in (Softmax().value(f, y), Softmax().slope(f, y), Softmax().curvature(f, y)):
            assert np.all(np.isfinite(found))
        top = f.max(axis=1) - f[:, chosen]
        value = Softmax().value(f, y)
        assert np.all((value >= top) & (value <= top + np.log(3) + 1e-12 * top))


def test_far_from_the_middle_the_logistic_loss_is_a_line():
    f = np.array([[700.0], [1e30]])
    np.testing.assert_allclose(Logistic().value(f, 0 * f), f[:, 0])
    np.testing.assert_array_equal(Logistic().value(f, 0 * f + 1), 0)
    np.testing.assert_allclose(Logistic().value(-f, 0 * f + 1), f[:, 0])
    assert 0 < Logistic().value(np.array([[-700.0]]), np.zeros((1, 1)))[0] < 1e-300


# Targets and parameters


@pytest.mark.parametrize(
    ("loss", "y"),
    [
        (Squared(), [[-3.0], [2.5]]),
        (Huber(), [[-3.0], [2.5]]),
        (Pinball(), [[-3.0], [2.5]]),
        (Logistic(), [[0.0, 1.0], [1.0, 1.0]]),
        (Logistic(), [[True], [False]]),
        (SquaredHinge(), [[0.0], [1.0]]),
        (Softmax(), [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
        (Poisson(), [[0.0, 1.0], [2.5, 0.0]]),
    ],
)
def test_targets_a_loss_is_made_for_are_taken(loss, y):
    loss.check(np.array(y))


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        (Logistic(), [[0.0], [2.0]], r"logistic loss must be 0 or 1; got .*2\.0"),
        (Logistic(), [[-1.0], [1.0]], r"must be 0 or 1; got .*-1\.0"),
        (Logistic(), [[0.5], [1.0]], "must be 0 or 1"),
        (Logistic(), [[np.nan], [1.0]], "must be 0 or 1"),
        (SquaredHinge(), [[-1.0], [1.0]], "squared hinge loss must be 0 or 1"),
        (Softmax(), [[1.0], [1.0]], "rows of zeros with a single one"),
        (Softmax(), [[1.0, 1.0], [0.0, 1.0]], "rows of zeros with a single one"),
        (Softmax(), [[0.0, 0.0], [0.0, 1.0]], "rows of zeros with a single one"),
        (Softmax(), [[0.5, 0.5], [0.0, 1.0]], "rows of zeros with a single one"),
        (Softmax(), [[2.0, -1.0], [0.0, 1.0]], "rows of zeros with a single one"),
        (Poisson(), [[1.0], [-0.5]], r"not be negative; got -0\.5"),
        (Poisson(), [[0.0, 1.0], [0.0, 2.0]], "some counts must be above zero"),
    ],
)
def test_other_targets_are_refused(loss, y, message):
    with pytest.raises(InvalidParameterError, match=message):
        loss.check(np.array(y))


def test_the_row_that_softmax_refuses_is_named():
    with pytest.raises(InvalidParameterError, match=r"got \[+0\.0, 7\.0\]"):
        Softmax().check(np.array([[0.0, 1.0], [0.0, 7.0]]))


def test_softmax_refuses_a_plain_vector_of_targets():
    """Estimators hand over the targets as they are."""
    with pytest.raises(InvalidParameterError, match="rows of zeros with a single one"):
        Softmax().check(np.array([0.0, 1.0, 1.0]))


@pytest.mark.parametrize("loss", [Squared(), Logistic(), SquaredHinge(), Poisson()], ids=name_of)
def test_a_plain_vector_of_targets_is_taken(loss):
    loss.check(np.array([0.0, 1.0, 1.0]))


@pytest.mark.parametrize("quantile", [0.0, 1.0, -0.1, 1.5, np.nan, np.inf])
def test_a_quantile_outside_zero_and_one_is_refused(quantile):
    with pytest.raises(InvalidParameterError, match="quantile must be between 0 and 1; got"):
        Pinball(quantile)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, -np.inf])
def test_lengths_that_are_not_above_zero_are_refused(value):
    with pytest.raises(InvalidParameterError, match=r"delta of the Huber loss must be .*above zero; got"):
        Huber(value)
    with pytest.raises(InvalidParameterError, match=r"smoothing must be .*above zero; got"):
        Pinball(0.5, value)


def test_an_infinite_smoothing_is_refused():
    """Every value would be infinite."""
    with pytest.raises(InvalidParameterError, match="smoothing"):
        Pinball(0.5, np.inf)


@each(LOSSES)
def test_losses_are_values(loss):
    copy = pickle.loads(pickle.dumps(loss))
    assert copy == loss
    assert hash(copy) == hash(loss)
    assert len(set(LOSSES)) == len(LOSSES)


def test_a_loss_of_its_own_needs_values_slopes_curvatures_and_a_constant_only():
    loss, f = Loss(), np.ones((2, 3))
    for method in (loss.value, loss.slope, loss.curvature, loss.constant):
        with pytest.raises(NotImplementedError):
            method(f, f)
    loss.check(f)
    assert loss.mean(f) is f
    assert loss.scaled(2.0) is loss
    assert loss.kernel() is None
    assert np.isinf(loss.curvature_bound)
    np.testing.assert_array_equal(loss.units(np.ones(3), np.full(3, 2.0), True).stretch, 1)


# The compiled twins


def rows_of(y, weight) -> Rows:
    n_rows = len(y)
    nothing = np.zeros((n_rows, 0), np.float32)
    no_cells = np.zeros((n_rows, 0), np.int32)
    return Rows(nothing, no_cells, nothing, no_cells, y.astype(np.float32), weight.astype(np.float32))


def objective_of(loss: Loss, base) -> _loss_kernels.Objective:
    number, first, second = loss.kernel()
    return _loss_kernels.Objective(
        number, np.broadcast_to(np.float32(first), base.shape).copy(), np.float32(second), base.astype(np.float32)
    )


def single(values) -> np.ndarray:
    """The same numbers after a visit to float32."""
    return np.asarray(values, np.float32).astype(np.float64)


@pytest.mark.slow
@settings(max_examples=200)
@given(losses, st.integers(1, 30), st.integers(1, 4), st.floats(-2, 1), seeds)
def test_the_compiled_losses_are_those_of_their_classes(loss, n_rows, n_outputs, log_size, seed):
    f, y = some_problem(loss, n_rows, n_outputs, seed, 10.0**log_size)
    rng = np.random.default_rng(seed)
    weight, base = rng.exponential(size=n_rows) * rng.integers(0, 2, n_rows), rng.standard_normal(y.shape[1])
    index = rng.integers(0, n_rows, rng.integers(1, 2 * n_rows + 1))
    out = np.minimum(f, 5)[index].astype(np.float32)
    f, y, weight, base = (single(part) for part in (out, y, weight, base))
    total = alone(_loss_kernels.to_slopes)(objective_of(loss, base), out, rows_of(y, weight), index)

    f, y, w = f + base, y[index], weight[index]
    value, slope = loss.value(f, y), loss.slope(f, y)
    terms = 1 + np.sum((1 + np.abs(slope)) * (np.abs(f) + np.abs(y)), axis=1)  # what is added up, roughly
    assert total == pytest.approx(float(w @ value), rel=1e-6, abs=1e-6 * float(w @ terms))
    steepness = min(loss.curvature_bound, 1 + np.exp(f.max()))
    atol = 4e-7 * (1 + steepness) * (1 + np.abs(f).max() + np.abs(y).max()) * w.max() / index.size
    np.testing.assert_allclose(out, w[:, None] * slope / index.size, rtol=1e-5, atol=atol)


@pytest.mark.parametrize("target", [0.0, 3.0])
def test_the_compiled_poisson_loss_ends_where_its_class_does(target):
    f = np.array([[20.0], [29.0], [31.0], [60.0], [85.0], [700.0]])
    y = np.full_like(f, target)
    for row in range(len(f)):
        out, objective = f[[row]].astype(np.float32), objective_of(Poisson(), np.zeros(1))
        total = alone(_loss_kernels.to_slopes)(objective, out, rows_of(y[[row]], np.ones(1)), np.zeros(1, np.intp))
        assert total == pytest.approx(Poisson().value(f, y)[row], rel=1e-4)
        assert out[0, 0] == pytest.approx(Poisson().slope(f, y)[row, 0], rel=1e-4)


@each(LOSSES)
def test_the_rows_of_a_batch_are_those_of_its_index(loss):
    f, y = some_problem(loss, 20, 2, 0)
    rng = np.random.default_rng(0)
    weight, index, base = rng.exponential(size=20), rng.permutation(20)[:7], np.zeros(y.shape[1])
    objective = objective_of(loss, base)
    all_rows, some_rows = f[index].astype(np.float32), f[index].astype(np.float32)
    one = alone(_loss_kernels.to_slopes)(objective, all_rows, rows_of(y, weight), index)
    other = alone(_loss_kernels.to_slopes)(objective, some_rows, rows_of(y[index], weight[index]), np.arange(7))
    assert one == other
    np.testing.assert_array_equal(all_rows, some_rows)


@each(LOSSES)
def test_extreme_outputs_have_finite_slopes_in_the_compiled_loops(loss):
    """Slopes are what the training needs; squares of 1e30 are beyond float32."""
    far = np.array(EXTREMES)
    n_outputs = outputs_for(loss, 1)
    out = np.repeat(far[:, None], n_outputs, axis=1)
    out[:, 1:] *= -1
    for chosen in range(2):
        y = np.zeros_like(out)
        y[:, -1] = chosen
        if isinstance(loss, Softmax):
            y[:, 0] = 1 - chosen
        slopes = out.astype(np.float32)
        total = alone(_loss_kernels.to_slopes)(
            objective_of(loss, np.zeros(n_outputs)), slopes, rows_of(y, np.ones(len(y))), np.arange(len(y))
        )
        assert not np.isnan(total)
        assert np.all(np.isfinite(slopes))
        expected = loss.slope(out, y)
        size = np.maximum(np.abs(expected), 1)
        np.testing.assert_allclose(slopes * len(y) / size, expected / size, rtol=2e-5, atol=1e-6)


@each(LOSSES)
def test_every_loss_here_has_a_compiled_twin(loss):
    number, first, second = loss.kernel()
    assert number in range(6)
    assert isinstance(first, float)
    assert isinstance(second, float)
