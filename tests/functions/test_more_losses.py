"""Losses of several quantiles and of positive amounts: derivatives, order, offsets, and the compiled twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from sklearn.metrics import mean_gamma_deviance, mean_tweedie_deviance

from rflaf.errors import InvalidParameterError
from rflaf.functions._kernels import losses as kernels
from rflaf.functions._kernels.refined import Rows, alone
from rflaf.functions.losses import Gamma, Huber, Logistic, Pinball, Poisson, Quantiles, Squared, Tweedie

AMOUNTS = (Gamma(), Tweedie(), Tweedie(1.1), Tweedie(1.9), Poisson())
FAN = Quantiles((0.1, 0.5, 0.9), 0.2)
seeds = st.integers(0, 2**32 - 1)
each_amount = pytest.mark.parametrize("loss", AMOUNTS, ids=repr)


def some_rows(loss, seed, n_rows=12):
    rng = np.random.default_rng(seed)
    if loss is FAN:
        return 2 * rng.standard_normal((n_rows, 3)), loss.targets(rng.standard_normal((n_rows, 1)))
    y = rng.gamma(2.0, size=(n_rows, 2)) * (1 if isinstance(loss, Gamma) else rng.integers(0, 2, (n_rows, 2)))
    return rng.standard_normal((n_rows, 2)), y


@given(st.sampled_from([*AMOUNTS, FAN]), seeds)
def test_slopes_and_curvatures_are_those_of_the_value(loss, seed):
    f, y = some_rows(loss, seed)
    step = 1e-6 * np.eye(f.shape[1])
    slope = np.stack([(loss.value(f + e, y) - loss.value(f - e, y)) / 2e-6 for e in step], axis=1)
    assert_allclose(loss.slope(f, y), slope, atol=1e-5, rtol=1e-5)
    smooth = np.abs(np.abs(y - f) - 0.2) > 1e-4 if loss is FAN else np.ones(f.shape, bool)
    curved = np.stack([(loss.slope(f + e, y) - loss.slope(f - e, y))[:, k] / 2e-6 for k, e in enumerate(step)], axis=1)
    assert_allclose(loss.curvature(f, y)[smooth], curved[smooth], atol=1e-5, rtol=1e-5)
    assert (loss.curvature(f, y) >= 0).all()


@given(st.sampled_from([*AMOUNTS, FAN]), seeds)
def test_the_compiled_losses_are_those_of_their_classes(loss, seed):
    f, y = some_rows(loss, seed)
    f, y = f.astype(np.float32), y.astype(np.float32)
    number, first, second = loss.kernel()
    by_output = np.broadcast_to(np.float32(first), f.shape[1:]).copy()
    objective = kernels.Objective(number, by_output, np.float32(second), np.zeros(f.shape[1], np.float32))
    nothing, index = np.zeros((len(f), 0), np.float32), np.arange(len(f))
    out = f.copy()
    none = np.zeros((len(f), 0), np.int32)
    rows = Rows(nothing, none, nothing, none, y, np.ones(len(f), np.float32))
    total = alone(kernels.to_slopes)(objective, out, rows, index)
    assert total == pytest.approx(float(loss.value(f.astype(float), y.astype(float)).sum()), rel=1e-4, abs=1e-4)
    assert_allclose(len(f) * out, loss.slope(f.astype(float), y.astype(float)), rtol=1e-4, atol=1e-4)


@given(seeds)
def test_half_the_deviance_of_scikit_learn(seed):
    f, y = some_rows(Gamma(), seed)
    mean = np.exp(f).ravel()
    assert_allclose(Gamma().value(f, y).sum() * 2 / y.size, mean_gamma_deviance(y.ravel(), mean))
    for power in (1.2, 1.5, 1.8):
        expected = mean_tweedie_deviance(y.ravel(), mean, power=power)
        assert_allclose(Tweedie(power).value(f, y).sum() * 2 / y.size, expected)


@each_amount
def test_the_best_constant_is_the_logarithm_of_the_mean(loss):
    y = np.random.default_rng(0).gamma(2.0, size=(50, 1))
    found = minimize_scalar(lambda f: loss.value(np.full((50, 1), f), y).sum())
    assert loss.constant(y, np.ones(50))[0] == pytest.approx(found.x, abs=1e-6)


@each_amount
def test_values_are_finite_and_rise_far_from_the_target(loss):
    y = np.full((6, 1), 2.0)
    f = np.array([[-1e30], [-700.0], [-40.0], [40.0], [700.0], [1e30]])
    value = loss.value(f, y)[:, None]
    assert np.isfinite(value).all()
    assert (value > 0).all()
    assert (loss.slope(f, y)[:3] < 0).all()
    assert (loss.slope(f, y)[3:] > 0).all()


@given(st.sampled_from([*AMOUNTS, Squared(), Huber(0.7), Pinball(0.3, 0.1)]), seeds)
def test_an_offset_moves_into_targets_and_weights_exactly(loss, seed):
    """The loss of y at f + offset is that of other targets at f, up to a term without f."""
    f, y = some_rows(loss, seed)
    rng = np.random.default_rng(seed)
    weight, offset = rng.exponential(size=len(f)), rng.standard_normal((len(f), 1))
    targets, weights = loss.without_offset(y, offset, weight)
    g = f + 0.3
    at_offset = weight * (loss.value(f + offset, y) - loss.value(g + offset, y))
    assert_allclose(weights * (loss.value(f, targets) - loss.value(g, targets)), at_offset, rtol=1e-8, atol=1e-8)
    assert_allclose(loss.with_offset(loss.mean(f), offset), loss.mean(f + offset))


def test_a_loss_of_labels_takes_no_offset():
    with pytest.raises(InvalidParameterError, match="an offset needs a loss of residuals or of logarithms"):
        Logistic().without_offset(np.zeros((2, 1)), np.zeros((2, 1)), np.ones(2))


@given(seeds, st.integers(1, 6))
def test_the_order_of_quantiles_never_raises_the_loss_of_a_row(seed, n_levels):
    rng = np.random.default_rng(seed)
    loss = Quantiles(tuple(np.sort(rng.uniform(0.01, 0.99, n_levels))), 1e-9)
    f, y = rng.standard_normal((40, n_levels)), loss.targets(rng.standard_normal((40, 1)))
    assert np.all(loss.value(loss.mean(f), y) <= loss.value(f, y) + 1e-12)
    assert np.all(np.diff(loss.mean(f), axis=1) >= 0)


@given(seeds)
def test_several_quantiles_are_the_sum_of_single_ones(seed):
    f, y = some_rows(FAN, seed)
    alone = [Pinball(level, 0.2) for level in FAN.levels]
    assert_allclose(FAN.value(f, y), sum(loss.value(f[:, [k]], y[:, [k]]) for k, loss in enumerate(alone)))
    slopes = [loss.slope(f[:, [k]], y[:, [k]]) for k, loss in enumerate(alone)]
    assert_allclose(FAN.slope(f, y), np.hstack(slopes))
    constant = [loss.constant(y[:, [k]], np.ones(len(y)))[0] for k, loss in enumerate(alone)]
    assert_array_equal(FAN.constant(y, np.ones(len(y))), constant)


@pytest.mark.parametrize("levels", [(), (0.5, 0.5), (0.9, 0.1), (0.0, 0.5), (0.5, 1.0)])
def test_levels_must_rise_between_zero_and_one(levels):
    with pytest.raises(InvalidParameterError, match="levels of quantiles must rise"):
        Quantiles(levels)


def test_targets_outside_the_domain_are_refused():
    with pytest.raises(InvalidParameterError, match=r"above zero.*Tweedie"):
        Gamma().check(np.array([[1.0], [0.0]]))
    with pytest.raises(InvalidParameterError, match="targets must not be negative"):
        Tweedie().check(np.array([[1.0], [-1.0]]))
    with pytest.raises(InvalidParameterError, match="single target"):
        FAN.targets(np.zeros((3, 2)))
    for power in (1, 2, 0.5, 3):
        with pytest.raises(InvalidParameterError, match="power of the Tweedie loss must be between 1 and 2"):
            Tweedie(power)
