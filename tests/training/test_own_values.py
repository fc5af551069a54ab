"""Numbers that recur: beside the curve of a column, every value may have a value of its own."""

from __future__ import annotations

import numpy as np
import pytest

from rflaf import RFLAFRegressor
from rflaf.functions.bases import BSplineBasis
from rflaf.functions.densities import Gaussian
from rflaf.model.random_feature_model import Activation, RandomFeatureModel
from rflaf.rows.executors import ThreadExecutor
from rflaf.training.solvers.refined.encoded_rows import Encoding, RowsInMemory, encode
from rflaf.training.solvers.refined.ensemble import Members, train_members
from rflaf.training.solvers.refined.race import Search, settle
from rflaf.training.solvers.refined.recipes import Recipe, RecipeTree
from rflaf.training.solvers.refined.search import hold_out
from rflaf.training.solvers.refined.trainer import Shape, start_trainer, unscaled

LEVELS = (0, 0, 3, 0)
NOISE = 0.1
SPIKES = np.isin(np.arange(60), [5, 17, 18, 30, 41, 55]) * 3.0
SHAPE = Shape(16, BSplineBasis(16), False, Gaussian())


def some_table(n_rows: int = 600) -> tuple[RowsInMemory, np.ndarray]:
    """A number, ten whole numbers with a value each, three levels, and numbers that hardly recur; and the values."""
    rng = np.random.default_rng(0)
    of_value = rng.permutation(np.repeat([-1.0, 1.0], 5))
    whole = rng.integers(0, 10, n_rows)
    X = np.column_stack([
        rng.standard_normal(n_rows), whole, rng.integers(0, 3, n_rows), rng.choice(n_rows // 3, n_rows),
    ]).astype(float)  # fmt: skip
    y = of_value[whole] * (1 + (X[:, 2] == 1)) + 0.3 * X[:, 0]
    return RowsInMemory(X, y[:, None], np.ones(n_rows), LEVELS), of_value


def encoded(table: RowsInMemory, own_values: bool) -> Encoding:
    return encode(table, table.X.mean(axis=0), table.X.std(axis=0), 9, own_values)


def test_only_columns_whose_values_recur_have_own_values():
    table, _ = some_table()
    np.testing.assert_array_equal(encoded(table, True).repeated, [1])
    np.testing.assert_array_equal(encoded(table, True).level_columns, [2, 1])
    assert encoded(table, False).repeated.size == 0
    few = RowsInMemory(table.X[:30], table.y[:30], table.weight[:30], LEVELS)
    assert encode(few, few.X.mean(axis=0), few.X.std(axis=0), 9, True).repeated.size == 0


def test_rows_read_the_value_that_is_nearest():
    table, _ = some_table()
    encoding = encoded(table, True)
    X = np.zeros((4, 4))
    X[:, 1] = [0, 3, 3.4, 8.6]
    rows = encoding.rows(X, np.zeros((4, 1)), np.ones(4))
    assert encoding.level_start.tolist()[1:] == [encoding.level_start[0] + 3, encoding.level_start[0] + 13]
    np.testing.assert_array_equal(rows.levels[:, 1] - encoding.level_start[1], [0, 3, 3, 9])


@pytest.mark.parametrize("shape", [SHAPE, Shape(11, BSplineBasis(16), True, Gaussian())])
def test_the_folded_model_predicts_what_training_ended_with(shape):
    table, _ = some_table()
    encoding, rng = encoded(table, True), np.random.default_rng(1)
    rows = encoding.rows(table.X, table.y, table.weight)
    trainer = start_trainer(encoding, rows, table.X, shape, Recipe(1e-4, nodes=9, own_values=True), rng, 600)
    train_members(Members((trainer,), (rng,), rng), [(rows, np.arange(600))], 600, 0.2)
    refined, expected = unscaled(trainer), trainer.outputs(rows, np.arange(600))
    model = RandomFeatureModel(
        refined.directions, Activation(shape.basis, refined.a), refined.V, np.zeros(1), refined.curves
    )
    assert np.ptp(expected) > 1
    np.testing.assert_allclose(model.decision(table.X), expected, rtol=1e-3, atol=1e-3)
    assert np.argmax(trainer.strength()) == 1
    assert refined.curves.knots.columns.tolist() == [0, 1, 2, 3]  # one curve a column


def errors_of(of_value: np.ndarray, n_rows: int = 3200) -> dict[bool, float]:
    """Out-of-fold errors of recipes with and without own values: a value each, a number beside, and noise."""
    rng = np.random.default_rng(0)
    whole = rng.integers(0, of_value.size, n_rows)
    X = np.column_stack([whole, rng.standard_normal(n_rows)]).astype(float)
    y = (of_value[whole] + X[:, 1] + NOISE * rng.standard_normal(n_rows))[:, None]
    table = RowsInMemory(X, y, np.ones(n_rows))
    hunt = hold_out(table, X.mean(axis=0), X.std(axis=0), rng, 0.3)
    tree = RecipeTree((Recipe(1e-3),), {}, (Recipe(1e-3), Recipe(1e-2)))
    with ThreadExecutor(1) as executor:
        found = settle(hunt, SHAPE, Search(tree), executor)
    judged = [trial for trial in found.trials if len(trial.outputs) == hunt.held_out.size]
    assert found.recipes[0] == found.trials[0].recipe
    return {own: trial.error for trial in reversed(judged) for own in [trial.recipe.own_values]}


def test_a_search_takes_own_values_where_neighbours_differ():
    errors = errors_of(SPIKES)
    assert errors[True] - NOISE**2 < (errors[False] - NOISE**2) / 3


@pytest.mark.parametrize(("of_value", "n_rows"), [(np.sin(np.linspace(-3, 3, 60)), 3200), (SPIKES, 800)])
def test_smooth_targets_and_few_rows_have_none(of_value, n_rows):
    assert set(errors_of(of_value, n_rows)) == {False}


def test_columns_that_must_rise_and_sums_of_columns_keep_what_they_promise():
    table, of_value = some_table(n_rows=500)
    y = of_value[table.X[:, 1].astype(int)] + table.X[:, 0]
    grid = np.tile(table.X[:1], (10, 1))
    grid[:, 1] = np.arange(10)
    rising = RFLAFRegressor(16, monotone={1: 1}, random_state=0, n_jobs=1).fit(table.X, y)
    assert np.all(np.diff(rising.predict(grid)) >= -1e-12)
    alone = RFLAFRegressor(16, interactions="none", random_state=0, n_jobs=1).fit(table.X, y)
    other = grid.copy()
    other[:, [0, 3]] += [1.5, 20.0]
    np.testing.assert_allclose(np.diff(alone.predict(other)), np.diff(alone.predict(grid)), atol=1e-6)
    assert np.corrcoef(alone.predict(grid), of_value)[0, 1] > 0.95
