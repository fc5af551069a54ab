"""Log odds that rows held out show to be too sure; the reference looks at every factor of a grid."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.optimize import minimize_scalar

from rflaf.functions.losses import Logistic, Softmax, Squared
from rflaf.training.temperature import classes_of, temperature

RNG = np.random.default_rng(0)
F = RNG.standard_normal((3000, 3))
BASE = np.array([0.3, -0.2, 0.1])
WEIGHT = RNG.gamma(2.0, 1.0, 3000)
TWO = (F[:, :1] + BASE[:1] + RNG.logistic(size=(3000, 1)) > 0).astype(float)
THREE = np.eye(3)[np.argmax(F + BASE + RNG.gumbel(size=F.shape), axis=1)]
CASES = {"two": (Logistic(), F[:, :1], TWO, BASE[:1]), "three": (Softmax(), F, THREE, BASE)}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sureness", [1.5, 2.5])
def test_the_factor_has_the_lowest_weighted_loss_on_the_rows(name, sureness):
    loss, f, y, base = CASES[name]

    def risk(factor):
        return WEIGHT @ loss.value(base + factor * sureness * f, y)

    found = temperature(loss, base + sureness * f, y, WEIGHT, base)
    assert found == pytest.approx(minimize_scalar(risk, (0.2, 1.0), method="bounded", bounds=(0.2, 1.0)).x, abs=3e-4)
    assert found == pytest.approx(1 / sureness, rel=0.1)
    assert found == pytest.approx(temperature(loss, base + sureness * f, y, 1e3 * WEIGHT, base), abs=3e-4)


@pytest.mark.parametrize("name", CASES)
def test_models_that_are_not_too_sure_stay_as_they_are(name):
    loss, f, y, base = CASES[name]
    assert temperature(loss, base + 0.5 * f, y, WEIGHT, base) == 1.0
    assert temperature(Squared(), base + 5 * f, y, WEIGHT, base) == 1.0


def test_a_factor_below_a_fifth_is_not_believed():
    assert temperature(Logistic(), 50 * F[:, :1], TWO, WEIGHT, np.zeros(1)) == pytest.approx(0.2, abs=3e-4)


def test_rows_too_few_to_tell_change_nothing():
    f, y = 1.1 * np.array([[1.0], [1.0], [1.0], [1.0], [-1.0]]), np.array([[1.0], [1.0], [0.0], [0.0], [0.0]])
    assert Logistic().slope(f, y).T @ f > 0  # a lower factor does better, by less than it might by chance
    assert temperature(Logistic(), f, y, np.ones(5), np.zeros(1)) == 1.0


def test_the_class_of_a_row_is_its_column_or_its_combination_of_labels():
    assert_array_equal(classes_of(Softmax(), THREE), THREE.argmax(axis=1))
    several = np.array([[0.0, 1.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    assert_array_equal(classes_of(Logistic(), several), [1, 2, 1, 0])
    assert classes_of(Squared(), several) is None
