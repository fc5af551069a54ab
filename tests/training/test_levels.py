"""Categories as codes: indicators and back, levels in training, and levels that no row has."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rflaf import RFLAFClassifier, RFLAFRegressor
from rflaf.functions.bases import BSplineBasis
from rflaf.functions.densities import Directions, Gaussian
from rflaf.model.indicators import fold_indicators, fold_values, typical_row
from rflaf.model.random_feature_model import Activation, RandomFeatureModel
from rflaf.rows.blocks import ArraySource
from rflaf.rows.indicators import Indicators, indicators
from rflaf.training.solvers.refined.encoded_rows import RowsInMemory, encode
from rflaf.training.solvers.refined.ensemble import Members, train_members
from rflaf.training.solvers.refined.recipes import Recipe
from rflaf.training.solvers.refined.trainer import Shape, start_trainer, unscaled

LEVELS = (0, 3, 0, 4)


def coded_rows(n_rows: int, levels: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Numbers, and codes of all levels but the last two of each category."""
    return np.column_stack([rng.integers(0, n - 2, n_rows) if n else rng.standard_normal(n_rows) for n in levels])


@given(st.lists(st.sampled_from([0, 3, 5]), min_size=1, max_size=5), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_indicators_are_one_where_the_code_is_theirs(levels, n_rows, seed):
    X = coded_rows(n_rows, tuple(levels), np.random.default_rng(seed))
    rows, start = indicators(X, levels), 0
    for column, n_levels in enumerate(levels):
        own = rows[:, start : start + (n_levels or 1)]
        expected = X[:, [column]] == np.arange(n_levels) if n_levels else X[:, [column]]
        np.testing.assert_array_equal(own, expected)
        start += n_levels or 1
    assert start == rows.shape[1]


def test_a_view_of_indicators_is_that_of_every_block():
    X = coded_rows(50, LEVELS, np.random.default_rng(0))
    view = Indicators(ArraySource(X, X[:, :1], block_rows=7), LEVELS)
    assert view.n_features == 9
    np.testing.assert_array_equal(np.concatenate([view[i].X for i in range(len(view))]), indicators(X, LEVELS))


@pytest.mark.parametrize("unseen", ["as it is", "mean"])
def test_a_model_of_indicators_answers_the_same_on_codes(unseen):
    rng = np.random.default_rng(0)
    X = coded_rows(60, LEVELS, rng)
    rows = indicators(X, LEVELS)
    directions = Directions(rng.standard_normal((9, 6)), rng.standard_normal(6), np.ones(6), 6)
    activation = Activation(BSplineBasis(8), rng.standard_normal((6, 8)))
    model = RandomFeatureModel(directions, activation, rng.standard_normal((6, 2)), np.ones(2))
    share = rows.mean(axis=0) if unseen == "mean" else None
    folded = fold_indicators(model, LEVELS, share)
    np.testing.assert_allclose(folded.decision(X), model.decision(rows), rtol=1e-12, atol=1e-12)
    new = X.copy()
    new[:, 3] = 3  # a level without rows
    expected = indicators(new, LEVELS)
    if unseen == "mean":
        expected[:, 5:] = share[5:]
    np.testing.assert_allclose(folded.decision(new), model.decision(expected), rtol=1e-12, atol=1e-12)


def test_the_typical_row_has_means_and_the_most_frequent_levels():
    rows = np.array([[1.0, 2.0], [3.0, 0.0], [5.0, 2.0]])
    np.testing.assert_array_equal(typical_row(rows.mean(axis=0), rows, (0, 4)), [3.0, 2.0])
    np.testing.assert_array_equal(typical_row(rows.mean(axis=0), rows, ()), [3.0, 4 / 3])


@pytest.mark.parametrize("nodes", [0, 9])
def test_a_trained_model_says_the_same_of_codes_and_its_unseen_levels_have_the_mean(nodes):
    rng = np.random.default_rng(1)
    X = coded_rows(400, LEVELS, rng)
    y = (X[:, 0] * (X[:, 1] == 0) + X[:, 3])[:, None]
    table = RowsInMemory(X, y, np.ones(400), LEVELS)
    encoding = encode(table, X.mean(axis=0), X.std(axis=0), nodes)
    np.testing.assert_array_equal(encoding.categories, [3] if X[:, 1].std() == 0 else [1, 3])
    rows = encoding.rows(X, y, table.weight)
    shape = Shape(8, BSplineBasis(16), False, Gaussian())
    trainer = start_trainer(encoding, rows, X, shape, Recipe(1e-4, nodes=nodes), rng, 400)
    train_members(Members((trainer,), (rng,), rng), [(rows, np.arange(400))], 400, 0.1)
    refined = unscaled(trainer)
    model = RandomFeatureModel(
        refined.directions, Activation(shape.basis, refined.a), refined.V, np.zeros(1), refined.curves
    )
    np.testing.assert_allclose(model.decision(X), trainer.outputs(rows, np.arange(400)), rtol=1e-3, atol=1e-3)
    strength = trainer.strength()
    trainer.network.W[...] *= 2.0**70  # whose squares single precision cannot hold
    trainer.network.H[...] *= 2.0**70
    np.testing.assert_array_equal(trainer.strength(), strength * 2.0**70)
    new = X.copy()
    new[:, 3] = 3
    curve = int(np.flatnonzero(refined.curves.knots.columns == 3)[0])
    mean = refined.curves.part(X, curve).mean(axis=0)
    np.testing.assert_allclose(refined.curves.part(new, curve), np.tile(mean, (400, 1)), rtol=1e-4, atol=1e-6)
    assert np.all(refined.directions.W[3] == 0)


def category_frame(n_rows: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.standard_normal(n_rows), "who": rng.choice(list("abcde"), n_rows)})
    signs = frame["who"].map(dict(zip("abcde", [-2.0, -1, 0, 1, 2], strict=True))).to_numpy()
    return frame, frame["x"].to_numpy() * signs


@pytest.mark.parametrize("how", [{}, {"directions": "random"}, {"directions": "random", "sampling": "greedy"}])
def test_every_rung_learns_the_product_of_a_number_and_a_category(how):
    frame, y = category_frame(600)
    model = RFLAFRegressor(60, random_state=0, n_jobs=1, **how).fit(frame[:500], y[:500])
    assert model.model_.n_features == 2
    assert model.score(frame[500:], y[500:]) > 0.9
    odd = frame[500:].assign(who="never seen")
    assert np.abs(model.predict(odd)).max() < np.abs(y).max()


@pytest.mark.slow
def test_the_order_of_levels_has_no_effect_on_the_rivals():
    """A linear model of a category is one of its levels, not of their numbers."""
    frame, _ = category_frame(300)
    y = frame["who"].map(dict(zip("abcde", [0.0, 5, -5, 5, 0], strict=True))).to_numpy()
    y = y + 0.5 * np.random.default_rng(1).standard_normal(300)
    model = RFLAFRegressor(20, random_state=0, n_jobs=1).fit(frame[:200], y[:200])
    assert model.score(frame[200:], y[200:]) > 0.9


def test_few_rows_and_labels_have_categories_too():
    frame, y = category_frame(15)
    assert RFLAFRegressor(20, random_state=0).fit(frame, y).predict(frame).shape == (15,)
    frame, y = category_frame(300)
    model = RFLAFClassifier(20, random_state=0, n_jobs=1).fit(frame[:200], y[:200] > 0)
    assert model.score(frame[200:], y[200:] > 0) > 0.85
    assert model.column_importance_.shape == (2,)


def test_numbers_of_levels_are_folded_into_a_model_of_codes():
    rng = np.random.default_rng(0)
    directions = Directions(rng.standard_normal((3, 6)), rng.standard_normal(6), np.ones(6), 6)
    activation = Activation(BSplineBasis(8), rng.standard_normal((6, 8)))
    model = RandomFeatureModel(directions, activation, rng.standard_normal((6, 1)), np.ones(1))
    codes, value = rng.integers(0, 5, 40), rng.standard_normal(5)
    X = rng.standard_normal((40, 3))
    X[:, 1] = value[codes]
    coded = X.copy()
    coded[:, 1] = codes
    np.testing.assert_allclose(
        fold_values(model, {1: value}).decision(coded), model.decision(X), rtol=1e-12, atol=1e-12
    )
    assert fold_values(model, {}) is model
