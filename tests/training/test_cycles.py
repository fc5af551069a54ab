"""Columns that go round: curves that end where they begin."""

from __future__ import annotations

import numpy as np
import pytest

from rflaf.functions._kernels.bounds import close
from rflaf.functions._kernels.refined import Parameters
from rflaf.functions.bases import BSplineBasis
from rflaf.functions.densities import Gaussian
from rflaf.training.solvers.refined.encoded_rows import InMemory, RowsInMemory, encode
from rflaf.training.solvers.refined.ensemble import Members, train_members
from rflaf.training.solvers.refined.recipes import Recipe
from rflaf.training.solvers.refined.trainer import Shape, start_trainer, unscaled

CYCLES = ((1, 0.0, 24.0),)


def test_a_projection_closes_the_curves_it_is_told_to_and_no_others():
    rng, start = np.random.default_rng(0), np.array([0, 4, 9])
    parts = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 8), (9, 8), 8, (8, 5), (1, 8), 3, 2))
    parameters = Parameters(*parts)
    before = Parameters(*(part.copy() for part in parameters))
    close.py_func(parameters, start, np.array([False, True]))
    expected = before.ramps.astype(np.float64)
    expected[5:9] -= expected[5:9].mean(axis=0)  # the first node of a curve has no ramp into it
    np.testing.assert_allclose(parameters.ramps, expected, atol=1e-6)
    np.testing.assert_array_equal(parameters.W[:2], before.W[:2])
    assert not parameters.W[2].any()


@pytest.mark.parametrize("nodes", [0, 9])
def test_a_closed_curve_ends_where_it_begins(nodes):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal(300), rng.uniform(0.5, 23, 300), rng.standard_normal(300)])
    y = np.sin(2 * np.pi * X[:, [1]] / 24) + 0.1 * rng.standard_normal((300, 1))
    table = RowsInMemory(X, y, np.ones(300), cycles=CYCLES)
    encoding = encode(table, X.mean(axis=0), X.std(axis=0), nodes)
    place = int(np.flatnonzero(encoding.knots.columns == 1)[0])
    assert encoding.knots.n_curves == (3 if nodes else 1)
    assert encoding.knots.of(place)[[0, -1]].tolist() == [0.0, 24.0]
    rows = encoding.rows(X, y, table.weight)
    shape = Shape(8, BSplineBasis(8), False, Gaussian())
    trainer = start_trainer(encoding, rows, X, shape, Recipe(1e-4, nodes=nodes), np.random.default_rng(1), 300)
    began = unscaled(trainer)
    u = began.directions.offset + X @ began.directions.W + began.curves(X)
    np.testing.assert_allclose(u.mean(axis=0), 0, atol=1e-2)
    np.testing.assert_allclose(u.std(axis=0), 1, atol=0.05)  # lines between nodes cut the sine
    own = slice(*began.curves.knots.start[place : place + 2])
    wave = began.curves.values[own]
    assert np.ptp(wave, axis=0).min() > 0  # it starts as a sine, not at zero
    train_members(
        Members((trainer,), (np.random.default_rng(2),), np.random.default_rng(3)), InMemory(rows, np.arange(300)), 300
    )
    trained = unscaled(trainer)
    values = trained.curves.values[own]
    np.testing.assert_allclose(values[-1], values[0], atol=1e-4 * np.abs(values).max())
    assert not trained.directions.W[1].any()
    assert np.abs(values - wave).max() > 0.01
