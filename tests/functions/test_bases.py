"""The bases against SciPy and their own formulas; their cubic pieces against the functions they stand for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_features import activate_reference
from scipy.interpolate import BSpline

from rflaf.errors import InvalidParameterError
from rflaf.functions.bases import (
    Basis,
    BSplineBasis,
    Pieces,
    RBFBasis,
    fit_function,
    make_basis,
    second_difference_penalty,
)
from rflaf.functions.smooth_bases import FixedActivation, PolynomialBasis

EPS = np.finfo(float).eps
REACH = 7  # widths beyond the interval at which the pieces of a Gaussian end

each_degree = pytest.mark.parametrize("degree", [1, 2, 3])
each_size = pytest.mark.parametrize("n_basis", [2, 5, 16, 64])

quick = settings(max_examples=40)
degrees = st.sampled_from([1, 2, 3])
seeds = st.integers(0, 2**32 - 1)
intervals = st.tuples(st.floats(-50, 50), st.floats(0.1, 100)).map(lambda pair: (pair[0], pair[0] + pair[1]))
bsplines = st.builds(
    lambda degree, more, interval: BSplineBasis(degree + more, degree, interval), degrees, st.integers(1, 30), intervals
)
rbfs = st.builds(RBFBasis, st.integers(2, 30), intervals)


def knots(basis: BSplineBasis) -> np.ndarray:
    """Even knots, the interval and ``degree`` more on either side."""
    n_cells = basis.n_basis - basis.degree
    return basis.interval[0] + basis.step * np.arange(-basis.degree, n_cells + basis.degree + 1)


def inside(basis: BSplineBasis, n_points: int = 257) -> np.ndarray:
    """Points over the whole interval, ends and every knot included."""
    t = knots(basis)[basis.degree : basis.n_basis + 1]
    return np.unique(np.concatenate([np.linspace(t[0], t[-1], n_points), t]))


def compiled(pieces: Pieces, a: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The activation as the kernels see it: a table looked up at cell coordinates."""
    return activate_reference(pieces.cell_coordinate(z)[None], pieces.table(a))[0]


def coefficient_vectors(basis: RBFBasis) -> dict[str, np.ndarray]:
    """Easy activations and hard ones: "cancelling" is the combination that is smallest at the centres."""
    rng = np.random.default_rng(basis.n_basis)
    return {
        "random": rng.standard_normal(basis.n_basis),
        "smooth": np.sin(basis.centres),
        "alternating": (-1.0) ** np.arange(basis.n_basis),
        "cancelling": np.linalg.eigh(basis.values(basis.centres))[1][:, 0],
        "one": np.eye(basis.n_basis)[0],
    }


# Values


@each_degree
@pytest.mark.parametrize("more", [1, 2, 5, 60])
@pytest.mark.parametrize("interval", [(-3.0, 3.0), (0.1, 0.2), (100.0, 101.0)])
def test_bsplines_are_those_of_scipy(degree, more, interval):
    basis = BSplineBasis(degree + more, degree, interval)
    z = inside(basis)
    expected = BSpline.design_matrix(z, knots(basis), degree).toarray()
    np.testing.assert_allclose(basis.values(z), expected, rtol=0, atol=1e-12)


@quick
@given(bsplines, st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=5))
def test_bsplines_are_non_negative_and_sum_to_one_everywhere(basis, z):
    values = basis.values(np.concatenate([z, inside(basis, 9)]))
    assert values.min() >= -EPS
    np.testing.assert_allclose(values.sum(axis=-1), 1, rtol=0, atol=8 * EPS)


def test_gaussians_are_their_formula():
    basis = RBFBasis(4, interval=(-1.0, 2.0), width=0.5)
    expected = [math.exp(-((0.3 - c) ** 2) / (2 * 0.25)) for c in (-1, 0, 1, 2)]
    np.testing.assert_allclose(basis.values(0.3), expected, rtol=4 * EPS)


def test_the_width_of_a_gaussian_is_the_spacing_of_the_centres_unless_given():
    assert RBFBasis(4, interval=(-1.0, 2.0)).h == 1.0
    assert RBFBasis(4, interval=(-1.0, 2.0), width=0.25).h == 0.25
    np.testing.assert_array_equal(RBFBasis(4, interval=(-1.0, 2.0)).centres, [-1, 0, 1, 2])


@pytest.mark.parametrize("basis", [BSplineBasis(6), RBFBasis(6)], ids=repr)
@pytest.mark.parametrize("shape", [(), (1,), (4,), (2, 3)])
def test_values_and_slopes_add_one_axis_to_the_points(basis, shape):
    z = np.full(shape, 0.25)
    assert basis.values(z).shape == (*shape, 6)
    assert basis.slopes(z).shape == (*shape, 6)


# Slopes


@quick
@given(st.data(), st.one_of(bsplines, rbfs), st.floats(-0.45, 0.45))
def test_slopes_equal_finite_differences(data, basis, t):
    """Inside a cell, where a piece is one cubic: central differences err by step^2 / 6 times the third slope."""
    length = basis.step if isinstance(basis, BSplineBasis) else basis.h
    n_cells = round((basis.interval[1] - basis.interval[0]) / length)
    cell = data.draw(st.integers(0, n_cells - 1))
    z = basis.interval[0] + length * (cell + 0.5 + t)
    step = 2**-10
    difference = (basis.values(z + step * length) - basis.values(z - step * length)) / (2 * step)
    rounding = 8 * EPS * (1 + np.abs(basis.interval).max() / length) / step
    np.testing.assert_allclose(basis.slopes(z) * length, difference, rtol=0, atol=step**2 * 3 / 6 + rounding)


@each_degree
def test_slopes_of_bsplines_are_those_of_scipy(degree):
    basis = BSplineBasis(degree + 6, degree, (-2.0, 1.0))
    z = inside(basis)[1:-1]
    if degree == 1:
        z = z[np.abs(z[:, None] - knots(basis)).min(axis=1) > 1e-9]  # a corner has two slopes
    expected = BSpline(knots(basis), np.eye(basis.n_basis), degree).derivative()(z)
    np.testing.assert_allclose(basis.slopes(z), expected, rtol=0, atol=1e-11)


@quick
@given(bsplines)
def test_slopes_of_bsplines_sum_to_zero(basis):
    slopes = basis.slopes(inside(basis, 33)) * basis.step
    np.testing.assert_allclose(slopes.sum(axis=-1), 0, rtol=0, atol=16 * EPS)


# Outside the interval


@quick
@given(bsplines, st.floats(1e-3, 1e6))
def test_outside_bsplines_keep_the_value_of_the_nearer_end_and_slope_zero(basis, distance):
    ends = np.array(basis.interval)
    z = ends + distance * np.array([-1, 1])
    np.testing.assert_array_equal(basis.values(z), basis.values(np.array([-1e9, 1e9])))
    rounding = 8 * EPS * (basis.n_basis + np.abs(ends).max() / basis.step)
    np.testing.assert_allclose(basis.values(z), basis.values(ends), rtol=0, atol=rounding)
    np.testing.assert_array_equal(basis.slopes(z), 0)


@quick
@given(rbfs, seeds, st.floats(REACH, 1e3))
def test_outside_gaussians_decay_and_so_do_their_pieces(basis, seed, widths):
    a = np.random.default_rng(seed).standard_normal(basis.n_basis)
    z = np.array([basis.interval[0] - widths * basis.h, basis.interval[1] + widths * basis.h])
    limit = 3e-11 * np.abs(a).sum()
    assert np.abs(basis.values(z) @ a).max() <= limit
    assert np.abs(compiled(basis.pieces(), a, z)).max() <= limit


# Penalty


@pytest.mark.parametrize("basis", [BSplineBasis(4), BSplineBasis(16), BSplineBasis(2, 1), RBFBasis(2), RBFBasis(33)])
def test_the_penalty_is_symmetric_and_positive_semi_definite(basis):
    P = basis.penalty()
    assert P.shape == (basis.n_basis, basis.n_basis)
    np.testing.assert_array_equal(P, P.T)
    assert np.linalg.eigvalsh(P).min() >= -1e-14 * max(np.abs(P).max(), 1)


@given(st.integers(2, 40), st.integers(-100, 100), st.integers(-100, 100))
def test_the_penalty_is_exactly_zero_for_coefficients_on_a_line(n_basis, start, rise):
    P = second_difference_penalty(n_basis)
    np.testing.assert_array_equal(P @ (start + rise * np.arange(n_basis)), 0)


@given(st.integers(3, 20), seeds)
def test_the_penalty_is_the_sum_of_squared_second_differences(n_basis, seed):
    a = np.random.default_rng(seed).integers(-9, 10, n_basis)
    assert a @ second_difference_penalty(n_basis) @ a == np.sum(np.diff(a, 2) ** 2)


def test_only_lines_are_free_of_penalty():
    assert np.linalg.matrix_rank(second_difference_penalty(12)) == 10


# Pieces


@each_degree
@pytest.mark.parametrize("more", [1, 2, 13, 61])
def test_the_table_of_a_bspline_activation_is_exact_to_rounding(degree, more):
    basis = BSplineBasis(degree + more, degree)
    z = inside(basis)
    for a in (np.random.default_rng(more).standard_normal(basis.n_basis), (-1.0) ** np.arange(basis.n_basis)):
        expected = BSpline(knots(basis), a, degree)(z)
        np.testing.assert_allclose(compiled(basis.pieces(a), a, z), expected, rtol=0, atol=1e-13 * np.abs(a).max())


@each_size
@pytest.mark.parametrize("kind", ["random", "smooth", "alternating", "cancelling", "one"])
def test_the_table_of_a_gaussian_activation_errs_by_at_most_the_tolerance(n_basis, kind):
    basis = RBFBasis(n_basis)
    a = coefficient_vectors(basis)[kind]
    z = np.linspace(basis.interval[0] - 9 * basis.h, basis.interval[1] + 9 * basis.h, 8_011)
    exact = basis.values(z) @ a
    for tolerance in (1e-6,) if n_basis > 16 else (1e-6, 1e-9):
        error = np.abs(compiled(basis.pieces(a, tolerance), a, z) - exact).max()
        assert error <= tolerance * np.abs(exact).max()


def test_activations_compiled_together_each_meet_the_tolerance():
    basis = RBFBasis(16)
    a = np.stack(list(coefficient_vectors(basis).values()))
    z = np.linspace(basis.interval[0] - 9 * basis.h, basis.interval[1] + 9 * basis.h, 5_003)
    exact = a @ basis.values(z).T
    pieces = basis.pieces(a)
    u = np.tile(pieces.cell_coordinate(z), (len(a), 1))
    error = np.abs(activate_reference(u, pieces.table(a)) - exact).max(axis=1)
    assert np.all(error <= 1e-6 * np.abs(exact).max(axis=1))


@each_size
@pytest.mark.parametrize("width", [None, 0.7])
def test_the_documented_bound_of_the_gaussian_pieces_holds(n_basis, width):
    basis = RBFBasis(n_basis, width=width)
    a = (-1.0) ** np.arange(n_basis)
    z = np.linspace(basis.interval[0] - REACH * basis.h, basis.interval[1] + REACH * basis.h, 8_011)
    for pieces in (basis.pieces(), basis.pieces(a, 1e-10)):
        resolution = basis.h / pieces.step
        bound = (3 / 384 / resolution**4 + 16 * EPS) * np.abs(a).sum()
        assert np.abs(compiled(pieces, a, z) - basis.values(z) @ a).max() <= bound


def test_a_finer_tolerance_never_makes_coarser_pieces():
    basis = RBFBasis(16)
    a = coefficient_vectors(basis)["cancelling"]
    n_cells = [basis.pieces(a, tolerance).n_cells for tolerance in (1e-3, 1e-6, 1e-9, 1e-12)]
    assert n_cells == sorted(n_cells)
    assert n_cells[0] < n_cells[-1]


def test_an_activation_of_zeros_compiles_to_zeros():
    basis = RBFBasis(8)
    assert not basis.pieces(np.zeros(8)).table(np.zeros(8)).any()


@quick
@given(st.one_of(bsplines, rbfs), seeds)
def test_pieces_meet_where_two_cells_touch(basis, seed):
    a = np.random.default_rng(seed).uniform(-1, 1, basis.n_basis)
    powers = 0.5 ** np.arange(4)
    table = basis.pieces().table(a)[0]
    ends, starts = table @ powers, table @ (powers * [1, -1, 1, -1])
    np.testing.assert_allclose(ends[:-1], starts[1:], rtol=0, atol=16 * EPS * basis.n_basis)


@quick
@given(st.one_of(bsplines, rbfs))
def test_cells_are_centred_on_whole_cell_coordinates(basis):
    pieces = basis.pieces()
    k = np.arange(pieces.n_cells)
    middles = pieces.low + (k + 0.5) * pieces.step
    rounding = 8 * EPS * (np.abs(middles).max() + abs(pieces.low)) / pieces.step + 8 * EPS * pieces.n_cells
    np.testing.assert_allclose(pieces.cell_coordinate(middles), k, rtol=0, atol=rounding)


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("n_tables", [1, 3])
def test_the_transposed_table_is_the_exact_adjoint(degree, n_tables):
    """Linear and quadratic pieces have binary fractions: with whole numbers both sides are exact."""
    rng = np.random.default_rng(degree)
    pieces = BSplineBasis(9, degree).pieces()
    a, M = rng.integers(-9, 10, (n_tables, 9)), rng.integers(-9, 10, (n_tables, pieces.n_cells, 4))
    assert np.sum(pieces.table(a) * M) == np.sum(a * pieces.table_transposed(M))


@quick
@given(st.one_of(bsplines, rbfs), st.integers(1, 4), seeds)
def test_the_transposed_table_is_the_adjoint_of_every_basis(basis, n_tables, seed):
    rng = np.random.default_rng(seed)
    pieces = basis.pieces()
    a, M = rng.standard_normal((n_tables, basis.n_basis)), rng.standard_normal((n_tables, pieces.n_cells, 4))
    forward, backward = np.sum(pieces.table(a) * M), np.sum(a * pieces.table_transposed(M))
    size = np.sum(np.abs(a) * (np.abs(M).reshape(n_tables, -1) @ np.abs(_by_basis(pieces)).T))
    assert abs(forward - backward) <= 1e-13 * size


def _by_basis(pieces: Pieces) -> np.ndarray:
    return pieces.coefficients.transpose(1, 0, 2).reshape(pieces.coefficients.shape[1], -1)


def test_a_table_of_one_coefficient_vector_needs_no_second_axis():
    pieces = BSplineBasis(7).pieces()
    a = np.arange(7.0)
    np.testing.assert_array_equal(pieces.table(a), pieces.table(a[None]))
    assert pieces.table(a).shape == (1, 4, 4)


# Which functions are alive


@each_degree
def test_degree_plus_one_bsplines_are_alive_in_a_cell(degree):
    first, last = BSplineBasis(degree + 5, degree).pieces().alive()
    np.testing.assert_array_equal(first, np.arange(5))
    np.testing.assert_array_equal(last, np.arange(5) + degree + 1)


def test_all_gaussians_of_one_grid_are_alive_in_every_cell():
    first, last = RBFBasis(5).pieces().alive()
    assert set(first) == {0}
    assert set(last) == {5}


@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4).filter(any), min_size=1, max_size=6), st.integers(0, 3))
def test_alive_is_the_smallest_range_that_misses_no_function(pattern, power):
    coefficients = np.zeros((len(pattern), 4, 4))
    coefficients[..., power] = pattern
    first, last = Pieces(0.0, 1.0, coefficients).alive()
    for k, row in enumerate(pattern):
        found = np.flatnonzero(row)
        assert (first[k], last[k]) == (found[0], found[-1] + 1)


# Fitting a function


@each_degree
@pytest.mark.parametrize("interval", [(-3.0, 3.0), (0.0, 1.0)])
def test_bsplines_reproduce_polynomials_of_their_degree(degree, interval):
    basis = BSplineBasis(degree + 9, degree, interval)
    polynomial = np.polynomial.Polynomial(np.arange(1.0, degree + 2))
    z = np.linspace(*interval, 101)
    fitted = basis.values(z) @ fit_function(basis, polynomial)
    np.testing.assert_allclose(fitted, polynomial(z), rtol=0, atol=1e-12 * np.abs(polynomial(z)).max())


@pytest.mark.parametrize("basis", [BSplineBasis(4), BSplineBasis(16), BSplineBasis(9, 1), RBFBasis(2), RBFBasis(16)])
def test_fitting_an_activation_of_the_basis_gives_its_coefficients_back(basis):
    a = np.random.default_rng(3).standard_normal(basis.n_basis)
    np.testing.assert_allclose(fit_function(basis, lambda z: basis.values(z) @ a), a, rtol=0, atol=1e-10)


# Making bases


def test_bases_are_made_by_name():
    assert make_basis("bspline", 8, (0.0, 1.0)) == BSplineBasis(8, 3, (0.0, 1.0))
    assert make_basis("rbf", 8) == RBFBasis(8, (-3.0, 3.0))
    assert make_basis("polynomial", 8) == PolynomialBasis(7, (-3.0, 3.0))
    assert make_basis("cos") == FixedActivation("cos", (-16.0, 16.0))


@pytest.mark.parametrize("basis", [BSplineBasis(), RBFBasis()], ids=repr)
def test_both_bases_keep_the_protocol(basis):
    assert isinstance(basis, Basis)


@pytest.mark.parametrize(
    ("make", "rule", "value", "remedy"),
    [
        (lambda: BSplineBasis(8, 4), "degree of a B-spline must be 1, 2 or 3", "4", "Use degree=3"),
        (lambda: BSplineBasis(8, 0), "degree of a B-spline must be 1, 2 or 3", "0", "Use degree=3"),
        (lambda: BSplineBasis(1, 1), "n_basis must be a whole number, at least 2", "1", "default is 16"),
        (lambda: BSplineBasis(2, 2), "n_basis must be a whole number, at least 3", "2", "default is 16"),
        (lambda: BSplineBasis(3, 3), "n_basis must be a whole number, at least 4", "3", "default is 16"),
        (lambda: BSplineBasis(4.5), "n_basis must be a whole number", "4.5", "default is 16"),
        (lambda: RBFBasis(1), "n_basis must be a whole number, at least 2", "1", "default is 16"),
        (lambda: RBFBasis(8, (1.0, 1.0)), "low < high", "(1.0, 1.0)", "default is (-3.0, 3.0)"),
        (lambda: RBFBasis(8, (1.0, -1.0)), "low < high", "(1.0, -1.0)", "default is (-3.0, 3.0)"),
        (lambda: BSplineBasis(8, 3, (0.0, np.inf)), "both finite", "(0.0, inf)", "default is (-3.0, 3.0)"),
        (lambda: BSplineBasis(8, 3, (np.nan, 1.0)), "both finite", "(nan, 1.0)", "default is (-3.0, 3.0)"),
        (lambda: RBFBasis(8, width=0.0), "width of a Gaussian must be finite and at least", "0.0", "Use width=None"),
        (lambda: RBFBasis(8, width=-1.0), "width of a Gaussian must be finite and at least", "-1.0", "Use width=None"),
        (lambda: RBFBasis(8, width=np.nan), "width of a Gaussian must be finite and at least", "nan", "Use width=None"),
        (
            lambda: make_basis("fourier", 8),
            "basis must be 'bspline', 'rbf', 'polynomial', or a",
            "'fourier'",
            "pass a Basis object",
        ),
        (lambda: make_basis("relu", 8), "basis 'relu' is one function", "8", "Leave n_basis out"),
        (lambda: make_basis("rbf", 1), "n_basis must be a whole number, at least 2", "1", "default is 16"),
    ],
)
def test_a_bad_basis_is_refused_with_rule_value_and_remedy(make, rule, value, remedy):
    with pytest.raises(InvalidParameterError) as refusal:
        make()
    message = str(refusal.value)
    assert rule in message
    assert f"; got {value}." in message
    assert remedy in message
