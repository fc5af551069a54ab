"""A loss of one's own by two functions, value and slope: the rest is found from them."""

from __future__ import annotations

from typing import ClassVar

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose

from rflaf import RFLAFRegressor
from rflaf.functions.losses import Loss, Poisson, Softmax, Squared

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (200, 3))
Y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(200)
WEIGHT = RNG.uniform(0.5, 2, 200)


class ByTwo(Loss):
    """Another loss by its value and slope only."""

    def __init__(self, other):
        self.other = other

    def value(self, f, y):
        return self.other.value(f, y)

    def slope(self, f, y):
        return self.other.slope(f, y)


@pytest.mark.parametrize(
    ("loss", "y"),
    [
        (Squared(), Y[:, None] + 1e4),
        (Poisson(), np.floor(np.exp(Y))[:, None]),
        (Softmax(), np.eye(3)[np.arange(200) % 3]),
    ],
)
def test_curvature_and_constant_follow_from_value_and_slope(loss, y):
    f = 0.5 * RNG.standard_normal(y.shape)
    assert_allclose(ByTwo(loss).curvature(f, y), loss.curvature(f, y), rtol=1e-4, atol=1e-6)
    found, best = (each.constant(y, WEIGHT) for each in (ByTwo(loss), loss))
    slope = loss.slope(np.tile(found, (200, 1)), y)
    one = y.shape[1] == 1  # of several outputs each is found once, with those before it
    assert_allclose(WEIGHT @ slope / WEIGHT.sum(), 0, atol=1e-8 if one else 1e-2)
    if one:
        assert_allclose(found, best, rtol=1e-9)


@numba.njit
def _log_cosh(r):
    return np.abs(r) + np.log1p(np.exp(-2 * np.abs(r))) - np.log(2.0)


@numba.njit
def _tanh(r):
    return np.tanh(r)


class Compiled(Loss):
    """log cosh(f - y) by functions of numba."""

    curvature_bound: ClassVar[float] = 1.0

    def value(self, f, y):
        return _log_cosh(f - y).sum(axis=1)

    def slope(self, f, y):
        return _tanh(f - y)


class Called(Compiled):
    """The same by NumPy."""

    def slope(self, f, y):
        return np.tanh(f - y)


@pytest.mark.slow
@pytest.mark.parametrize("directions", ["refined", "random"])
def test_numba_and_numpy_losses_train_the_same_models(directions):
    settings = {"directions": directions, "alpha": 1e-3, "random_state": 0, "n_jobs": 1}
    models = [RFLAFRegressor(8, loss=loss, **settings).fit(X, Y) for loss in (Compiled(), Called())]
    assert_allclose(models[0].predict(X), models[1].predict(X), rtol=1e-6, atol=1e-6)
    assert np.mean((models[0].predict(X) - Y) ** 2) < 0.2 * np.var(Y)


@pytest.mark.parametrize("missing", ["value", "slope"])
def test_a_loss_that_lacks_a_function_says_which(missing):
    loss = type("Halved", (Compiled,), {missing: getattr(Loss, missing)})()
    with pytest.raises(NotImplementedError, match=rf"Halved must define {missing}\(f, y\)"):
        RFLAFRegressor(4, loss=loss, random_state=0).fit(X, Y)
