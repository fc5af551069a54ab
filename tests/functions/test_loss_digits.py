"""Values, slopes and curvatures of the losses against fifty digits, from moderate answers to absurd ones."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from rflaf.functions.losses import Gamma, Huber, Logistic, Pinball, Poisson, Softmax, Squared, SquaredHinge, Tweedie
from rflaf.functions.losses.labels_and_counts import HIGHEST_LOGARITHM

EPS = np.finfo(float).eps
ANSWERS = [-700.0, -50.0, -30.0, -29.5, -1.0, -1e-9, 0.0, 1e-300, 0.3, 2.0, 29.5, 30.0, 31.0, 60.0, 700.0]
mp = mpmath.mpf


def tangent(loss, bounds):
    """A loss of f that goes on as a straight line outside of the bounds."""
    low, high = map(mp, bounds)

    def extended(f, y):
        inside = min(max(f, low), high)
        return loss(inside, y) + (f - inside) * mpmath.diff(lambda x: loss(x, y), inside)

    return extended


def tweedie(p):
    def deviance(f, y):
        lowest = y ** (2 - p) * (1 / (2 - p) - 1 / (1 - p)) if y else mp(0)
        return mpmath.exp((2 - p) * f) / (2 - p) - y * mpmath.exp((1 - p) * f) / (1 - p) - lowest

    return deviance


def huber(f, y):
    r, delta = abs(f - y), mp("1.5")
    return r**2 if r <= delta else delta * (2 * r - delta)


def pinball(f, y):
    r, q, h = y - f, mp("0.25"), mp("0.125")
    return (q - mp("0.5")) * r + ((r * r / h + h) / 2 if abs(r) < h else abs(r)) / 2


def poisson(f, y):
    return mpmath.exp(f) - y * f + (y * mpmath.log(y) if y else 0) - y


LOSSES = {
    "squared": (Squared(), lambda f, y: (f - y) ** 2, [-2.0, 0.0, 3.5]),
    "huber": (Huber(1.5), huber, [-2.25, 0.0, 3.5]),
    "pinball": (Pinball(0.25, 0.125), pinball, [-2.0, 0.0625, 3.5]),
    "logistic": (Logistic(), lambda f, y: mpmath.log(1 + mpmath.exp(f)) - y * f, [0.0, 1.0]),
    "squared hinge": (SquaredHinge(), lambda f, y: max(mp(0), 1 - (2 * y - 1) * f) ** 2, [0.0, 1.0]),
    "poisson": (Poisson(), tangent(poisson, (-1000, 30)), [0.0, 1.0, 7.0]),
    "tweedie": (Tweedie(1.5), tangent(tweedie(mp("1.5")), (-30, 30)), [0.0, 1e-6, 1.0, 700.0]),
    "gamma": (
        Gamma(), tangent(lambda f, y: y * mpmath.exp(-f) + f - mpmath.log(y) - 1, (-30, 30)), [1e-6, 1.0, 700.0]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_values_and_slopes_have_their_digits(name):
    loss, exact, targets = LOSSES[name]
    for f in ANSWERS:
        for y in targets:
            with mpmath.workdps(50):
                value = float(exact(mp(f), mp(y)))
                slope = float(mpmath.diff(lambda x, y=y: exact(x, mp(y)), mp(f), direction=-1 if f > 0 else 1))
            F, Y = np.array([[f]]), np.array([[y]])
            terms = max(abs(value), abs(f * y), abs(f), abs(y), 1.0)
            assert loss.value(F, Y)[0] == pytest.approx(value, rel=8 * EPS, abs=8 * EPS * terms), (f, y)
            assert loss.slope(F, Y)[0, 0] == pytest.approx(slope, rel=1e-12, abs=1e-12 * max(y, 1.0)), (f, y)
            both = loss.value_and_slope(F, Y)
            assert both[0][0] == pytest.approx(value, rel=8 * EPS, abs=8 * EPS * terms)


@pytest.mark.parametrize("name", LOSSES)
def test_curvatures_are_those_of_the_slope(name):
    loss, exact, targets = LOSSES[name]
    for f in (-5.0, -1.25, 0.3, 2.25, 20.0):
        for y in targets:
            with mpmath.workdps(50):
                curvature = float(mpmath.diff(lambda x, y=y: exact(x, mp(y)), mp(f), 2))
            found = loss.curvature(np.array([[f]]), np.array([[y]]))[0, 0]
            assert found == pytest.approx(curvature, rel=1e-10, abs=1e-14), (f, y)
            assert found <= loss.curvature_bound


@pytest.mark.parametrize("far", [1.0, 50.0, 700.0, 1e5])
def test_softmax_has_its_digits(far):
    F = np.array([[0.0, far, -far], [far, far, far], [far, far - 1e-9, 0.0]])
    Y = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    loss = Softmax()
    values, slopes = loss.value_and_slope(F, Y)
    for row in range(3):
        with mpmath.workdps(50):
            parts = [mpmath.exp(mp(x)) for x in F[row]]
            total = mpmath.fsum(parts)
            value = float(mpmath.log(total) - mpmath.fsum(mp(a) * mp(b) for a, b in zip(F[row], Y[row], strict=True)))
            slope = [float(part / total - mp(y)) for part, y in zip(parts, Y[row], strict=True)]
        for found, found_slope in ((values, slopes), (loss.value(F, Y), loss.slope(F, Y))):
            assert found[row] == pytest.approx(value, rel=8 * EPS, abs=8 * EPS * max(far, 1))
            np.testing.assert_allclose(found_slope[row], slope, atol=8 * EPS * max(1.0, min(far, 1.0)))


@pytest.mark.parametrize("loss", [Poisson(), Tweedie(1.5), Gamma()])
@pytest.mark.parametrize("offset", [-3.0, 0.0, 5.0])
def test_an_offset_moves_the_loss_by_a_constant_exactly(loss, offset):
    y, f = np.array([[0.5], [7.0]]), np.array([[0.3], [-2.0]])
    off, weight = np.full((2, 1), offset), np.array([1.0, 3.0])
    rates, weights = loss.without_offset(y, off, weight)
    with mpmath.workdps(50):
        slope = [
            float(w * mpmath.exp((1 - p) * (g + mp(offset))) * (mpmath.exp(g + mp(offset)) - mp(t)))
            for w, g, t, p in zip(weight, map(mp, f[:, 0]), y[:, 0], [mp(loss.variance_power)] * 2, strict=True)
        ]
    np.testing.assert_allclose(weights * loss.slope(f, rates)[:, 0], slope, rtol=1e-12)
    np.testing.assert_allclose(loss.with_offset(loss.mean(f), off), np.exp(f + off), rtol=1e-14)


def test_means_of_logarithms_stop_at_the_largest_count():
    assert Poisson().mean(np.array([[1e3]]))[0, 0] == np.exp(HIGHEST_LOGARITHM)


@pytest.mark.parametrize("loss", [Poisson(), Tweedie(1.5), Gamma()])
def test_straight_parts_have_no_curvature(loss):
    low = [] if isinstance(loss, Poisson) else [-30.5]
    for f in (30.5, *low):
        assert loss.curvature(np.array([[f]]), np.array([[2.0]]))[0, 0] == 0
    assert loss.curvature(np.array([[29.5]]), np.array([[2.0]]))[0, 0] > 0


def test_refusals_name_the_least_target():
    y = np.array([[3.0], [-2.0], [5.0]])
    for loss in (Poisson(), Tweedie(1.5), Gamma()):
        with pytest.raises(ValueError, match=r"got -2\.0"):
            loss.check_more(y)
    with pytest.raises(ValueError, match=r"at most 1e\+34; got 3e\+35"):
        Poisson().check_range(np.zeros(2), np.array([2e35, 3e35]))
