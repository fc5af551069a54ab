"""Moments of columns: the total of numbers is exact, by slices of their bits or by exponent."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from rflaf.rows.tables.moments import Moments, Order, _total, _total_by_exponent

RNG = np.random.default_rng(0)
NUMBERS = {
    "normal": RNG.standard_normal(40_000),
    "of many sizes": RNG.standard_normal(40_000) * 10.0 ** RNG.integers(-300, 300, 40_000),
    "below the normal ones": np.array([5e-324, -1e-310, 2.5e-308, 0.0]),
    "with one large": np.array([1e300, 1e-300, -1e300, 3.0]),
    "close to the largest": np.array([1.7e308, 1.7e308, 1e-308]),
    "beyond whole floats": np.array([2.0**53, 1.0, -(2.0**53) - 2, 2.0**60]),
    "powers of two": 2.0 ** np.arange(-1074, 1000),
    "a power of two, a tile of it": np.full(2**14, 2.0**-3),
    "of a tile and one": np.full(2**14 + 1, np.nextafter(1.0, 0.0)),
    "single": RNG.standard_normal(40_000).astype(np.float32),
    "zeros": np.array([0.0, -0.0]),
}


@pytest.mark.parametrize("values", NUMBERS.values(), ids=NUMBERS)
def test_totals_by_slices_of_bits_are_those_by_exponent(values):
    size = float(np.abs(values).max())
    assert _total(values, size) == _total_by_exponent(values) == Moments.of(values).total


@pytest.mark.parametrize("name", ["of many sizes", "below the normal ones", "beyond whole floats", "powers of two"])
def test_totals_are_those_of_fractions(name):
    values = NUMBERS[name][:2000]
    exact = sum(map(Fraction, values.tolist()))
    assert Fraction(Moments.of(values).total, 2**1074) == exact
    counts = np.arange(values.size) + 1
    repeated = Moments.of(values, counts)
    assert repeated.total == sum(int(n) * Moments.of(values[at : at + 1]).total for at, n in enumerate(counts))
    assert repeated.count == counts.sum()


def test_totals_of_every_other_number_are_their_own():
    values = NUMBERS["normal"]
    assert Moments.of(values[::2]) == Moments.of(values[::2].copy())


@pytest.mark.parametrize("values", NUMBERS.values(), ids=NUMBERS)
def test_moments_of_chunks_add_up_to_those_of_the_column(values):
    for cut in (0, 1, values.size // 2, values.size):
        assert Moments.of(values[:cut]) + Moments.of(values[cut:]) == Moments.of(values)
    whole, broken = Moments.of(np.array([3.0, -2.0])), Moments.of(np.array([0.5]))
    assert whole + broken == broken + whole == Moments(3, 3 << 1073, -2.0, 3.0, False)


def test_sums_of_whole_numbers_that_floats_do_not_hold_are_exact():
    assert Moments.of(np.array([2.0**53, 1.0, 1.0])).total == 2**53 + 2 << 1074
    assert Moments.of(np.array([2.0**53, 1.0]), np.array([1, 2])).total == 2**53 + 2 << 1074


def test_means_are_those_of_fractions_and_of_nothing_zero():
    for values in NUMBERS.values():
        mean = sum(map(Fraction, values[:500].tolist())) / values[:500].size
        assert Moments.of(values[:500]).mean == float(mean)
    nothing = Moments()
    assert nothing == Moments(0, 0, np.inf, -np.inf, True) == Moments.of(np.empty(0))
    assert (nothing.mean, nothing.finite) == (0.0, True)
    assert (Moments(1, 0, 0.0, np.inf).finite, Moments(1, 0, -np.inf, 0.0).finite) == (False, False)


@pytest.mark.parametrize("at", [0, 5000])
def test_one_fraction_among_whole_numbers_is_seen(at):
    values = np.arange(10_000.0)
    assert Moments.of(values).whole
    values[at] += 0.5
    assert not Moments.of(values).whole


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_numbers_with_an_infinite_one_have_no_mean(odd):
    found = Moments.of(np.array([1.0, odd]))
    assert (found.finite, found.count, found.whole, found.total) == (False, 2, False, 0)
    assert np.isnan(found.mean)


def test_orders_add_up_only_while_they_rise():
    first, second = Order.of(np.array([1.0, 2.0])), Order.of(np.array([3.0, 9.0]))
    assert first + second == Order(1.0, 9.0, True)
    assert not (second + first).rising
    assert Order() + first == first + Order() == first


@pytest.mark.filterwarnings("error")
def test_orders_of_the_farthest_numbers_leak_no_warning():
    far = np.finfo(float).max
    assert Order.of(np.array([-far, 0.0, far])).rising
    assert not Order.of(np.array([far, -far])).rising
