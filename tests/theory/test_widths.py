"""Widths are the formulas of the theorems; their growth is that of Tables 1 and 2."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rflaf import theory
from rflaf.errors import InvalidParameterError
from rflaf.theory import CASES

pytestmark = pytest.mark.usefixtures("one_blas_thread")
deltas = st.floats(1e-6, 0.999)
dimensions = st.floats(0.5, 1e6)
each_case = pytest.mark.parametrize("case", CASES)


# Widths


def test_widths_are_the_formulas_of_the_theorems():
    assert theory.width(12.5, 7.0, 0.05) == math.ceil(5 * 12.5 * math.log(16 * 7 / 0.05)) == 483
    assert theory.leverage_width(7.0, 0.05) == math.ceil(5 * 7 * math.log(16 * 7 / 0.05)) == 270
    assert theory.plain_width(2.0, 0.01, 7.0, 0.05) == math.ceil(5 * 4 / 0.01 * math.log(16 * 7 / 0.05)) == 15_429
    assert theory.width(12.5, 7.0, 0.05, constant=1.0) == math.ceil(12.5 * math.log(16 * 7 / 0.05))
    assert theory.bernstein_width(12.5, 7.0, 0.05) == math.ceil(2 * 12.5 * (16 / 3) * math.log(8 * 7 / 0.05)) == 937


def test_every_claim_has_its_constant():
    one_sided = math.ceil(8 * (12.5 + 1 / 6) * math.log(8 * 7 / 0.05))
    assert theory.one_sided_width(12.5, 7.0, 0.05) == one_sided == 712
    named = [theory.width_for(claim, 12.5, 7.0, 0.05) for claim in theory.CLAIMS]
    assert named == [theory.width(12.5, 7.0, 0.05), one_sided, theory.bernstein_width(12.5, 7.0, 0.05)]


@given(st.floats(0.5, 1e6), st.floats(1.0, 1e3), deltas, st.floats(0.5, 1.0))
def test_the_one_sided_inequality_gives_delta_at_that_width(d, factor, delta, top):
    """Intrinsic Bernstein for the largest eigenvalue: L = top / s, v = mass top / s, intrinsic dimension d / top."""
    mass = d * factor
    s, e = theory.one_sided_width(mass, d, delta), 0.5
    variance, largest = mass * top / s, top / s
    exponent = e**2 / 2 / (variance + largest * e / 3)
    assert math.log(4 * d / top) - exponent <= math.log(delta) + 1e-9
    assert e >= math.sqrt(variance) + largest / 3  # where the inequality holds


def test_the_pair_of_the_algorithm_is_a_plain_pool_and_a_leverage_weighted_draw():
    printed = theory.algorithm_widths(2.0, 0.01, 9.0, 0.02, 7.0, 0.05, "printed")
    assert printed.pool_size == theory.plain_width(2.0, 0.01, 9.0, 0.05)
    assert printed.n_components == theory.leverage_width(7.0, 0.05)
    pair = theory.algorithm_widths(2.0, 0.01, 9.0, 0.02, 7.0, 0.05)
    assert pair.pool_size == theory.one_sided_width(4 / 0.01, 9.0, 0.025)  # two events share delta
    assert pair.n_components == theory.one_sided_width(7.0, 7.0, 0.025)


def test_an_unknown_claim_is_refused():
    with pytest.raises(InvalidParameterError, match="the claim must be one of 'printed', 'one-sided', 'two-sided'"):
        theory.width_for("exact", 1.0, 1.0, 0.1)


@pytest.mark.parametrize(
    ("spread", "words"),
    [(26.4, "spread 26: leverage sampling is worth it"), (7.0, "7.0: leverage sampling is worth it"),
     (2.7, "2.7: leverage sampling may gain a little"), (1.2, "1.2: leverage sampling gains nothing")],
)  # fmt: skip
def test_advice_follows_the_spread_of_the_scores(spread, words):
    assert theory.leverage_advice(spread).endswith(words)


def test_plain_sampling_is_the_theorem_for_the_trivial_bound():
    """l(w) <= p(w) |sigma|^2 / lambda, whose integral is |sigma|^2 / lambda."""
    assert theory.plain_width(1.5, 0.02, 9.0, 0.1) == theory.width(1.5**2 / 0.02, 9.0, 0.1)


def test_there_is_at_least_one_feature():
    assert theory.leverage_width(1e-6, 0.9) == 1


@given(dimensions, dimensions, deltas, deltas, st.floats(0.5, 1e4))
def test_widths_grow_with_the_dimension_and_with_one_over_delta(d, other_d, delta, other_delta, mass):
    (d, larger_d), (smaller_delta, delta) = sorted([d, other_d]), sorted([delta, other_delta])
    assert theory.width(mass, d, delta) <= theory.width(mass, larger_d, smaller_delta)
    assert theory.leverage_width(d, delta) <= theory.leverage_width(larger_d, smaller_delta)
    assert theory.plain_width(1.0, 1 / mass, d, delta) <= theory.plain_width(1.0, 1 / mass, larger_d, smaller_delta)
    assert theory.bernstein_width(mass, d, delta) <= theory.bernstein_width(mass, larger_d, smaller_delta)


@given(dimensions, deltas, st.floats(0.05, 0.95), st.floats(0.5, 1e4))
def test_a_proof_that_keeps_every_constant_asks_for_more_than_the_lemma_and_for_less_than_twice(
    d, delta, accuracy, mass
):
    """Lemma E.4 as printed has 1/e^2 + 2/(3e) and log(16 d / delta)."""
    printed, twice = (theory.width(mass, d, delta, k * (1 / accuracy**2 + 2 / (3 * accuracy))) for k in (1, 2))
    assert printed <= theory.bernstein_width(mass, d, delta, accuracy) <= twice


@given(dimensions, deltas, st.floats(0.5, 1.0), st.floats(0.5, 1e4))
def test_at_accuracy_one_half_it_asks_for_more_than_the_theorem(d, delta, top, mass):
    assert theory.bernstein_width(mass, d, delta, 0.5, top) >= theory.width(mass, d, delta)


@given(dimensions, deltas, st.floats(0.05, 0.95), st.floats(0.5, 1.0))
def test_the_bernstein_inequality_gives_delta_at_that_width(d, delta, accuracy, top):
    """Lemma E.6 with L = mass, M = mass top, D = 2 d / top."""
    s, mass = theory.bernstein_width(d, d, delta, accuracy, top), d
    exponent = s * accuracy**2 / 2 / (mass * top + 2 * mass * accuracy / 3)
    assert math.log(4 * 2 * d / top) - exponent <= math.log(delta) + 1e-9
    assert accuracy >= math.sqrt(mass * top / s) + 2 * mass / (3 * s)  # where the inequality holds


# Tables 1 and 2, typed from the paper

TABLES = {
    "squared": [
        ("leverage", "finite rank", "1", lambda x, t: 1.0),
        ("leverage", "exponential", "log(1/e) loglog(1/e)", lambda x, t: math.log(x) * math.log(math.log(x))),
        ("leverage", "polynomial", "(1/e)^(1/t) log(1/e)", lambda x, t: x ** (1 / t) * math.log(x)),
        ("plain", "finite rank", "(1/e)", lambda x, t: x),
        ("plain", "exponential", "(1/e) loglog(1/e)", lambda x, t: x * math.log(math.log(x))),
        ("plain", "polynomial", "(1/e) log(1/e)", lambda x, t: x * math.log(x)),
        ("former result", "any", "(1/e^2)", lambda x, t: x**2),
    ],
    "lipschitz": [
        ("leverage", "finite rank", "1", lambda x, t: 1.0),
        ("leverage", "exponential", "log(1/e) loglog(1/e)", lambda x, t: math.log(x) * math.log(math.log(x))),
        ("leverage", "polynomial", "(1/e^2)^(1/t) log(1/e)", lambda x, t: x ** (2 / t) * math.log(x)),
        ("plain", "finite rank", "(1/e^2)", lambda x, t: x**2),
        ("plain", "exponential", "(1/e^2) loglog(1/e)", lambda x, t: x**2 * math.log(math.log(x))),
        ("plain", "polynomial", "(1/e^2) log(1/e)", lambda x, t: x**2 * math.log(x)),
        ("former result", "any", "(1/e^2)", lambda x, t: x**2),
    ],
}


@each_case
def test_growth_tables_are_those_of_the_paper(case):
    cells = theory.growth_table(case)
    assert [(cell.scheme, cell.spectrum, cell.formula) for cell in cells] == [row[:3] for row in TABLES[case]]
    for cell, (*_, order) in zip(cells, TABLES[case], strict=True):
        for epsilon in (0.2, 1e-2, 1e-5):
            for t in (1.0, 1.5, 3.0):
                assert cell.order(epsilon, t) == pytest.approx(order(1 / epsilon, t), rel=1e-10)


@each_case
def test_orders_of_many_epsilons_come_at_once(case):
    epsilons = np.geomspace(1e-6, 0.1, 5)
    for cell in theory.growth_table(case):
        np.testing.assert_allclose(cell.order(epsilons, 2.0), [cell.order(e, 2.0) for e in epsilons], rtol=1e-14)


def test_the_exponent_is_the_slope_without_logarithms():
    squared, lipschitz = ({(cell.scheme, cell.spectrum): cell for cell in theory.growth_table(case)} for case in CASES)
    assert [squared["leverage", "polynomial"].exponent(t) for t in (1.0, 2.0)] == [1.0, 0.5]
    assert [lipschitz["leverage", "polynomial"].exponent(t) for t in (1.0, 2.0)] == [2.0, 1.0]
    assert [squared["plain", "polynomial"].exponent(t) for t in (1.0, 2.0)] == [1.0, 1.0]
    assert squared["leverage", "finite rank"].exponent(3.0) == 0.0


@each_case
def test_a_rendered_table_has_a_line_a_cell(case):
    lines = theory.render_growth_table(case).splitlines()
    assert lines[1] == "| --- | --- | --- |"
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert cells == [list(row[:3]) for row in TABLES[case]]


@each_case
def test_the_page_on_the_width_shows_the_tables(case):
    page = Path(__file__).parent.parent.parent / "docs" / "width.md"
    assert theory.render_growth_table(case) in page.read_text()


def test_leverage_sampling_never_asks_for_a_higher_order_than_plain_sampling():
    for case in CASES:
        by_cell = {(cell.scheme, cell.spectrum): cell for cell in theory.growth_table(case)}
        for spectrum in ("finite rank", "exponential", "polynomial"):
            leverage, plain = by_cell["leverage", spectrum], by_cell["plain", spectrum]
            assert leverage.order(1e-4, 2.0) < plain.order(1e-4, 2.0)
