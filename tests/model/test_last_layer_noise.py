"""The noise of a last layer by hat matrices: of its sums, after later rows, of fewer components, in other units."""

from __future__ import annotations

import numpy as np
import pytest

from rflaf.model.last_layer import LastLayer, noise_variance, unscale_layer
from rflaf.model.normal_equations import NormalEquations

each_intercept = pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])
RIDGE = 0.2


def sums(Z, Y) -> NormalEquations:
    """The equations of features ``Z`` (n_rows, n_components) and targets ``Y`` (n_rows, n_outputs)."""
    return NormalEquations.from_design(np.vstack([Z.T, np.ones(len(Z)), Y.T]), Y.shape[1])


def rows(n_rows: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n_rows, 4)) + 1
    return Z, Z @ rng.standard_normal((4, 2)) + rng.standard_normal((n_rows, 2)) * [1.0, 0.3] + 5


def cross_validated(Z, Y, intercept):
    """The mean square of the residuals over the square of the mean of 1 - h, from the hat matrix of the rows."""
    n, centre = len(Z), np.full((len(Z), len(Z)), 1 / len(Z)) if intercept else np.zeros((len(Z), len(Z)))
    Z = Z - centre @ Z
    hat = centre + Z @ np.linalg.solve(Z.T @ Z + n * RIDGE * np.eye(4), Z.T)
    return np.mean((Y - hat @ Y) ** 2, axis=0) / (1 - np.trace(hat) / n) ** 2


@each_intercept
def test_the_noise_is_that_of_generalised_cross_validation_by_the_hat_matrix(intercept):
    Z, Y = rows(30)
    system = sums(Z, Y).system(intercept)
    factor = system.factor(RIDGE)
    found = noise_variance(system, factor.solution().mean_residual, factor.degrees_of_freedom)
    np.testing.assert_allclose(found, cross_validated(Z, Y, intercept), rtol=1e-9)


def test_of_a_fit_that_takes_all_rows_a_single_row_is_left():
    system = sums(*rows(10)).system(True)
    residual = np.array([2.0, 0.5])
    np.testing.assert_allclose(noise_variance(system, residual, 4.0), 4 * residual, rtol=1e-12)  # half the rows
    for degrees in (8.0, 8.5, 9.0, 12.0):
        np.testing.assert_allclose(noise_variance(system, residual, degrees), 100 * residual, rtol=1e-12)


@each_intercept
@pytest.mark.parametrize("share", [1.0, 0.25, 0.0])
def test_after_later_rows_the_excess_over_the_noise_of_the_sums_is_that_of_the_first_rows(intercept, share):
    (Z, Y), (more, answers) = rows(30), rows(50, seed=1)
    first = cross_validated(Z, Y, intercept)
    layer = LastLayer(sums(Z, Y), RIDGE, first * [3.0, 0.5], intercept)  # of the second output there is no excess
    later = layer.after(sums(more, answers), share)
    expected = cross_validated(more, answers, intercept) + share * first * [2.0, 0.0]
    np.testing.assert_allclose(later.noise, expected, rtol=1e-9)
    np.testing.assert_array_equal(later.equations.moments, sums(more, answers).moments)
    assert (later.ridge, later.intercept) == (RIDGE, intercept)
    np.testing.assert_allclose(layer.noise, first * [3.0, 0.5], rtol=1e-15)


def test_all_components_have_the_noise_they_had():
    layer = LastLayer(sums(*rows(30)), RIDGE, np.array([1.0, 4.0]))
    np.testing.assert_allclose(layer.take(np.arange(4)).noise, [1.0, 4.0], rtol=1e-12)


def test_in_other_units_of_the_targets_the_noise_has_their_squares():
    Z, Y = rows(30)
    centre, scale = np.array([10.0, -3.0]), np.array([3.0, 0.1])
    layer = LastLayer(sums(Z, Y), RIDGE, np.array([1.0, 4.0]))
    found = unscale_layer(layer, centre, scale)
    assert found is not None
    np.testing.assert_allclose(found.noise, [9.0, 0.04], rtol=1e-12)
    np.testing.assert_allclose(found.equations.moments, sums(Z, centre + scale * Y).moments, rtol=1e-11)
    new = np.random.default_rng(5).standard_normal((4, 7))
    np.testing.assert_allclose(found.variance(new), layer.variance(new) * scale**2, rtol=1e-11)
    assert unscale_layer(layer, centre, np.array([3.0, 1e160])) is None


def least_squares(Z, Y):
    design = np.column_stack([Z, np.ones(len(Z))])
    return design @ np.linalg.lstsq(design, Y)[0]


@pytest.mark.parametrize("unit", [1e-3, 0.5, 1.0, 1e3])
def test_the_path_is_that_of_targets_of_mean_square_one_in_any_unit(unit):
    """The second output, whatever its unit, has the same part in the errors, and one that never moves has none."""
    Z, Y = rows(30)
    Y = np.column_stack([Y * [1.0, unit], np.full(30, 7.0)])
    layer = LastLayer(sums(Z, Y), 0.0, np.ones(3))
    errors = layer.path.errors
    assert errors[0] == pytest.approx(2, rel=1e-9)
    residual = Y[:, :2] - least_squares(Z, Y[:, :2])
    assert errors[-1] == pytest.approx(np.sum(np.mean(residual**2, axis=0) / Y[:, :2].var(axis=0)), rel=1e-9)


def test_a_layer_is_stored_without_what_was_computed_from_it():
    layer = LastLayer(sums(*rows(30)), RIDGE, np.ones(2))
    layer.variance(np.zeros((4, 1)))
    assert set(layer.__getstate__()) == {"equations", "ridge", "noise", "intercept"}
