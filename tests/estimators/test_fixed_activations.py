"""Learned against fixed activations in one argument: the fixed ones against a ridge on features made by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from rflaf import FixedActivation, PolynomialBasis, RFLAFClassifier, RFLAFRegressor
from rflaf.errors import IntervalWarning

RNG = np.random.default_rng(5)
X = RNG.standard_normal((400, 3))
Y = np.cos(2 * X[:, 0]) + np.maximum(X[:, 1], 0) + 0.1 * RNG.standard_normal(400)
FUNCTIONS = {"relu": lambda z: np.maximum(z, 0), "cos": np.cos, "tanh": np.tanh}
RANDOM = {"directions": "random", "random_state": 0}


@pytest.mark.parametrize("activation", ["shared", "per_component"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_fixed_activation_is_the_ridge_on_its_random_features(name, activation):
    """The penalty is alpha S |v|^2 for features of mean square one."""
    model = RFLAFRegressor(25, basis=name, activation=activation, alpha=1e-3, **RANDOM).fit(X, Y)
    a = model.activation_.coefficients
    assert a.shape == (1, 1)
    Z = a[0, 0] * FUNCTIONS[name](X @ model.directions_ + model.model_.directions.offset)
    np.testing.assert_allclose(model.transform(X), Z, rtol=0, atol=2e-6 * np.abs(Z).max())
    ridge = Ridge(alpha=1e-3 * 25 * len(Y)).fit(Z, Y)
    np.testing.assert_allclose(model.predict(X), ridge.predict(Z), rtol=0, atol=1e-4)
    np.testing.assert_allclose(model.output_weights_, ridge.coef_, rtol=0, atol=1e-4 * np.abs(ridge.coef_).max())
    if activation == "shared":
        assert np.mean(Z**2) == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("sampling", ["leverage", "greedy"])
@pytest.mark.parametrize("basis", ["cos", "polynomial"])
def test_every_sampling_takes_them(sampling, basis):
    y = np.cos(2 * X[:, 0])  # cosines without a shift make even functions only
    model = RFLAFRegressor(25, basis=basis, activation="shared", sampling=sampling, **RANDOM).fit(X, y)
    assert model.score(X, y) > 0.8


def test_a_learned_activation_does_better_than_the_wrong_fixed_one():
    scores = {name: RFLAFRegressor(25, basis=name, activation="shared", **RANDOM).fit(X, Y).score(X, Y)
              for name in ("bspline", "polynomial", "relu")}  # fmt: skip
    assert min(scores["bspline"], scores["polynomial"]) > scores["relu"] + 0.1


def test_a_polynomial_target_of_one_direction_is_learned_exactly():
    """x^3 is one polynomial of the projection, whatever its scale."""
    x = RNG.uniform(-1, 1, (200, 1))
    y = x[:, 0] ** 3
    model = RFLAFRegressor(3, basis=PolynomialBasis(3), activation="shared", alpha=1e-9, **RANDOM).fit(x, y)
    np.testing.assert_allclose(model.predict(x), y, rtol=0, atol=1e-4)


def test_other_losses_and_classes_take_them():
    robust = RFLAFRegressor(20, basis="cos", loss="huber", **RANDOM).fit(X, X[:, 0] ** 2)
    assert robust.score(X, X[:, 0] ** 2) > 0.8
    assert RFLAFClassifier(20, basis="tanh", **RANDOM).fit(X, X[:, 0] > 0).score(X, X[:, 0] > 0) > 0.95


def test_refined_directions_train_under_a_fixed_activation():
    model = RFLAFRegressor(10, basis="relu", curves=False, alpha=1e-4, random_state=0).fit(X, Y)
    assert model.activation_.coefficients.shape == (1, 1)
    assert model.score(X, Y) > 0.8
    u = X @ model.directions_ + model.model_.directions.offset
    np.testing.assert_allclose(model.predict(X), np.maximum(u, 0) @ model.output_weights_ + model.intercept_, atol=1e-4)


def test_projections_that_a_fixed_activation_does_not_follow_are_warned_of():
    with pytest.warns(IntervalWarning, match=r"% of the projections lie beyond the interval .* larger bandwidth"):
        RFLAFRegressor(10, basis="relu", bandwidth=0.05, **RANDOM).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RFLAFRegressor(10, basis="relu", **RANDOM).fit(X, Y)
        RFLAFRegressor(10, basis="tanh", bandwidth=0.05, **RANDOM).fit(X, Y)
        wide = FixedActivation("relu", (-400.0, 400.0))
        RFLAFRegressor(10, basis=wide, bandwidth=0.05, **RANDOM).fit(X, Y)
