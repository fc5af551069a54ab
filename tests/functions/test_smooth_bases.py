"""Polynomials and fixed activations against NumPy and SciPy, and their cubic pieces against both."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_features import activate_reference
from scipy import special, stats

from rflaf.errors import InvalidParameterError
from rflaf.functions.bases import Basis, fit_function, random_shapes
from rflaf.functions.pieces import interpolated
from rflaf.functions.smooth_bases import FIXED_ACTIVATIONS, FixedActivation, PolynomialBasis

FORMULAS = {
    "relu": lambda z: np.where(z > 0, z, 0),
    "cos": np.cos,
    "sin": np.sin,
    "tanh": np.tanh,
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "erf": special.erf,
    "gelu": lambda z: z * stats.norm.cdf(z),
    "silu": lambda z: z / (1 + np.exp(-z)),
    "softplus": lambda z: np.log1p(np.exp(-np.abs(z))) + np.maximum(z, 0),
    "identity": lambda z: z,
}
each_function = pytest.mark.parametrize("name", FORMULAS)
each_degree = pytest.mark.parametrize("degree", [1, 2, 3, 4, 9, 15, 24])
intervals = st.tuples(st.floats(-20, 20), st.floats(0.1, 40)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def compiled(basis, a: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The activation as the kernels see it: a table looked up at cell coordinates."""
    pieces = basis.pieces()
    return activate_reference(pieces.cell_coordinate(z)[None], pieces.table(a))[0]


def test_every_name_is_tested():
    assert tuple(FORMULAS) == FIXED_ACTIVATIONS


@each_function
def test_a_fixed_activation_is_its_formula_and_so_are_its_pieces(name):
    basis = FixedActivation(name)
    z = np.linspace(-16, 16, 20_001)
    exact = FORMULAS[name](z)
    np.testing.assert_allclose(basis.values(z)[:, 0], exact, rtol=1e-12, atol=1e-15)
    assert np.abs(compiled(basis, np.ones(1), z) - exact).max() <= 1e-6 * min(np.abs(exact).max(), 1)


@each_function
def test_the_slope_of_a_fixed_activation_is_its_derivative(name):
    z = np.random.default_rng(0).uniform(-15.9, 15.9, 500)
    step = 1e-5
    difference = (FORMULAS[name](z + step) - FORMULAS[name](z - step)) / (2 * step)
    np.testing.assert_allclose(FixedActivation(name).slopes(z)[:, 0], difference, rtol=0, atol=1e-8)


@each_function
def test_outside_a_fixed_activation_keeps_its_value_and_has_slope_zero(name):
    basis = FixedActivation(name, (-12.0, 12.0))
    far = np.array([-99.0, 99.0])
    np.testing.assert_array_equal(basis.values(far), basis.values(np.array([-12.0, 12.0])))
    np.testing.assert_array_equal(basis.slopes(far), 0)
    np.testing.assert_allclose(compiled(basis, np.ones(1), far), basis.values(far)[:, 0], rtol=0, atol=1e-6)
    changes = np.abs(FORMULAS[name](far) - FORMULAS[name](far / 8)).max()
    assert basis.constant_outside == (changes < 1e-4)


def test_a_relu_has_two_exact_pieces():
    assert FixedActivation("relu", (-5.0, 5.0)).pieces().n_cells == 2
    np.testing.assert_array_equal(FixedActivation("relu").values([-2.0, 0.0, 3.0])[:, 0], [0, 0, 3])


def test_a_callable_is_followed_with_its_slopes():
    basis = FixedActivation(np.arctan, (-4.0, 6.0))
    z = np.linspace(-3.9, 5.9, 3001)
    np.testing.assert_allclose(basis.values(z)[:, 0], np.arctan(z), rtol=1e-15)
    assert np.abs(compiled(basis, np.ones(1), z) - np.arctan(z)).max() < 1e-6
    np.testing.assert_allclose(basis.slopes(z)[:, 0], 1 / (1 + z**2), rtol=0, atol=1e-4)


@each_degree
def test_polynomials_are_orthonormal_over_their_interval(degree):
    basis = PolynomialBasis(degree, (-2.0, 5.0))
    x, weights = np.polynomial.legendre.leggauss(degree + 1)
    V = basis.values(1.5 + 3.5 * x)
    np.testing.assert_allclose((V.T * (weights / 2)) @ V, np.eye(degree + 1), rtol=0, atol=1e-12)


@each_degree
def test_the_table_of_a_polynomial_is_within_the_tolerance_of_its_values(degree):
    basis = PolynomialBasis(degree)
    z = np.linspace(-4, 4, 10_001)
    for a in (np.random.default_rng(degree).standard_normal(degree + 1), np.eye(degree + 1)[-1]):
        exact = basis.values(z) @ a
        assert np.abs(compiled(basis, a, z) - exact).max() <= 2e-6 * np.abs(exact).max()


@settings(max_examples=30)
@given(st.integers(1, 12), intervals, st.integers(0, 2**32 - 1))
def test_polynomials_reproduce_every_polynomial_of_their_degree(degree, interval, seed):
    rng = np.random.default_rng(seed)
    basis = PolynomialBasis(degree, interval)
    polynomial = np.polynomial.Chebyshev(rng.standard_normal(degree + 1), interval)
    z = np.linspace(*interval, 101)
    np.testing.assert_allclose(basis.values(z) @ fit_function(basis, polynomial), polynomial(z), rtol=0, atol=1e-9)


@settings(max_examples=30)
@given(st.integers(1, 12), intervals, st.floats(-0.99, 0.99))
def test_slopes_of_polynomials_equal_finite_differences(degree, interval, x):
    basis, (low, high) = PolynomialBasis(degree, interval), interval
    z, step = (low + high) / 2 + x * (high - low) / 2, 1e-5 * (high - low)
    difference = (basis.values(z + step) - basis.values(z - step)) / (2 * step)
    np.testing.assert_allclose(basis.slopes(z) * (high - low), difference * (high - low), rtol=1e-4, atol=1e-3)


@each_degree
def test_the_penalty_of_polynomials_is_the_mean_square_of_their_second_derivative(degree):
    basis, a = PolynomialBasis(degree), np.random.default_rng(1).standard_normal(degree + 1)
    series = np.polynomial.Legendre(a * np.sqrt(2 * np.arange(degree + 1) + 1))
    x, weights = np.polynomial.legendre.leggauss(30)
    expected = weights / 2 @ (series.deriv(2)(x) * (2 / degree) ** 2) ** 2
    assert a @ basis.penalty() @ a == pytest.approx(expected, rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(basis.penalty()[:2], 0, atol=1e-12)


def test_polynomials_keep_the_value_of_the_nearer_end():
    basis = PolynomialBasis(5, (-1.0, 1.0))
    np.testing.assert_array_equal(basis.values([-7.0, 7.0]), basis.values([-1.0, 1.0]))
    np.testing.assert_array_equal(basis.slopes([-7.0, 7.0]), 0)


def test_random_shapes_of_polynomials_are_as_smooth_as_those_of_a_grid():
    steps = np.random.default_rng(0).standard_normal((2000, 16))
    spread = random_shapes(PolynomialBasis(15), steps).std(axis=0)
    np.testing.assert_allclose(spread, 1 / np.arange(1, 17), rtol=0.1)


@pytest.mark.parametrize("basis", [PolynomialBasis(3), FixedActivation("relu"), FixedActivation(np.arctan)], ids=repr)
@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_they_keep_the_protocol_and_add_one_axis(basis, shape):
    assert isinstance(basis, Basis)
    z = np.full(shape, 0.25)
    assert basis.values(z).shape == basis.slopes(z).shape == (*shape, basis.n_basis)
    assert basis.pieces(np.ones((1, basis.n_basis)), 1e-6).coefficients.shape[1] == basis.n_basis


@settings(max_examples=25)
@given(st.floats(0.1, 3.0), st.floats(-3, 3), st.sampled_from([1e-4, 1e-6, 1e-8]))
def test_interpolation_meets_its_tolerance_and_its_neighbours(speed, shift, tolerance):
    def function(z):
        return np.sin(speed * z + shift)[:, None]

    pieces = interpolated(function, (-5.0, 5.0), tolerance, "a sine")
    z = np.linspace(-5, 5, 4001)
    exact = function(z)
    assert np.abs(pieces.values(z) - exact).max() <= 1.2 * tolerance * np.abs(exact).max()
    powers = 0.5 ** np.arange(4)
    table = pieces.coefficients[:, 0]
    np.testing.assert_allclose((table @ powers)[:-1], (table @ (powers * [1, -1, 1, -1]))[1:], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "rule", "remedy"),
    [
        (lambda: PolynomialBasis(0), "the degree of polynomials must be a whole number from 1 to 24; got 0", "Use BS"),
        (lambda: PolynomialBasis(25), "the degree of polynomials must be a whole number from 1 to 24; got 25", "BSpl"),
        (lambda: PolynomialBasis(2.5), "the degree of polynomials must be a whole number from 1 to 24; got 2.5", "BS"),
        (lambda: PolynomialBasis(3, (1.0, 1.0)), "low < high, both finite; got (1.0, 1.0)", "default is (-3.0, 3.0)"),
        (lambda: FixedActivation("step"), "a fixed activation must be 'relu', 'cos', ", "Use 'relu'"),
        (lambda: FixedActivation(3), "or a callable; got 3", "Use 'relu'"),
        (lambda: FixedActivation("tanh", (0.0, np.inf)), "low < high, both finite", "default is (-16.0, 16.0)"),
        (lambda: FixedActivation("relu", (-1.0, 2.0)), "kinks at their ends only, no jumps; got (-1.0, 2.0)", "halves"),
        (lambda: FixedActivation("cos", (-1e4, 1e4)), "16384 even cells over the interval must give", "shorter"),
        (lambda: FixedActivation(np.sign), "kinks at their ends only, no jumps", "Pass a shorter interval"),
        (lambda: FixedActivation(np.sum), "must map an array to one of finite numbers of the same shape", "linspace"),
        (lambda: FixedActivation(lambda z: z * np.nan), "of finite numbers of the same shape", "Test it on"),
    ],
)
def test_what_is_no_smooth_basis_is_refused_with_rule_value_and_remedy(make, rule, remedy):
    with pytest.raises(InvalidParameterError) as refusal:
        make()
    assert rule in str(refusal.value)
    assert remedy in refusal.value.remedy


def test_random_polynomials_fall_with_the_degree():
    np.testing.assert_allclose(
        random_shapes(PolynomialBasis(4), np.ones((2, 5))), [[1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]] * 2
    )
