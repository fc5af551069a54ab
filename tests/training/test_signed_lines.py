"""The search for the ridge of lines whose weights keep signs, step by step, and lines without an intercept."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rflaf import RFLAFRegressor
from rflaf.functions.losses import Squared
from rflaf.training import signed_lines
from rflaf.training.signed_lines import _Lines, judge_signed_lines

RNG = np.random.default_rng(0)
Z, Y, WEIGHT = RNG.standard_normal((12, 2)), RNG.standard_normal((12, 1)), RNG.uniform(0.5, 2.0, 12)
SPLITS = ((np.arange(6, 12), np.arange(6)), (np.arange(6), np.arange(6, 12)))


@dataclass(frozen=True)
class Context:
    """The parts of a fit that a search for a ridge reads."""

    problem: SimpleNamespace
    spec: SimpleNamespace


@pytest.fixture
def judged(monkeypatch):
    """The answer of a search whose errors on the rows held out are given, and what it fitted: ridges and starts."""

    def run(errors, curvature=3.0, spread=2.0):
        tried, errors = [], iter(errors)

        def fitted(lines, ridge, start):
            tried.append((ridge, float(start[1][0]), lines.Z.shape[0]))
            return np.full((2, 1), ridge), start[1] + 1

        monkeypatch.setattr(_Lines, "fitted", fitted)
        monkeypatch.setattr(signed_lines, "draw_pool", lambda fit: (1.0, None))
        features = SimpleNamespace(T=np.array([[spread]]))
        monkeypatch.setattr(signed_lines, "expand", lambda *given: features)
        lines = _Lines(Z, Y, WEIGHT, Squared(), np.zeros(2, int), True)
        monkeypatch.setattr(signed_lines, "_lines", lambda *given: lines)
        problem = SimpleNamespace(curvature=curvature, loss=Squared(), base=np.zeros(1))
        hunt = SimpleNamespace(
            table=None,
            splits=SPLITS,
            held_out=np.concatenate([out for _, out in SPLITS]),
            mean_loss=lambda loss, outputs: next(errors),
        )
        spec = SimpleNamespace(basis=None)
        return judge_signed_lines(Context(problem, None), spec, hunt), tried

    return run


def test_the_search_ends_after_two_rises_and_takes_the_lowest(judged):
    found, tried = judged([5.0, 6.0, 4.0, 4.5, 4.2, 0.0])
    ridges = 10.0 ** np.arange(1, -4, -1) * 3.0 / 2 * 2.0**2
    assert_allclose([ridge for ridge, *_ in tried], np.repeat(ridges, 2), rtol=1e-12)
    assert [start for _, start, _ in tried] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]  # each from the one before
    assert {n_rows for *_, n_rows in tried} == {6}
    assert found.ridge == tried[4][0]
    expected = Z.sum(axis=1, keepdims=True) * found.ridge + 3  # the splits hold out the rows in their order
    assert_allclose(found.outputs, expected, rtol=1e-12)
    assert_allclose(found.noise, np.average((Y - expected) ** 2, axis=0, weights=WEIGHT), rtol=1e-12)


def test_errors_that_fall_are_followed_to_the_least_ridge_and_no_curvature_leaves_some(judged):
    found, tried = judged(np.arange(9.0, 0.0, -1), curvature=0.0, spread=1.0)
    assert_allclose([tried[0][0], found.ridge], [10 * 1e-6 / 2, 1e-7 * 1e-6 / 2], rtol=1e-12)
    assert len(tried) == 18


def test_lines_without_an_intercept_are_least_squares_through_the_start():
    lines = _Lines(Z, Y, WEIGHT, Squared(), np.zeros(2, int), False)
    v, b = lines.fitted(0.1, (np.zeros((2, 1)), np.full(1, 0.25)))
    share = (WEIGHT / WEIGHT.sum())[:, None]
    expected = np.linalg.solve(Z.T @ (share * Z) + 0.1 * np.eye(2), Z.T @ (share * (Y - 0.25)))
    assert_allclose(v, expected, atol=1e-6)
    assert_array_equal(b, [0.25])


def test_few_rows_that_keep_a_direction_have_no_bandwidth_to_find():
    model = RFLAFRegressor(random_state=0, monotone={0: 1}).fit(Z, Z[:, 0] + 0.1 * Y[:, 0])
    assert model.bandwidth_ == 1.0
    assert_array_equal(model.objective_trace_, [0.0])
