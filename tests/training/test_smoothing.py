"""Labels that are not quite sure, activations that are held back, and how the search comes to them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rflaf
from rflaf import RFLAFClassifier, RFLAFRegressor
from rflaf.functions.bases import BSplineBasis
from rflaf.functions.densities import Gaussian
from rflaf.functions.losses import Logistic, Softmax, Squared
from rflaf.rows.executors import ThreadExecutor
from rflaf.training import refined
from rflaf.training.refined import _expected_loss, _train_well
from rflaf.training.solvers.refined.encoded_rows import RowsInMemory, encode
from rflaf.training.solvers.refined.ensemble import merge_models
from rflaf.training.solvers.refined.race import Search, _unlike, settle
from rflaf.training.solvers.refined.recipes import CURVED, EITHER, STRAIGHT, WIDE, Recipe, RecipeTree
from rflaf.training.solvers.refined.search import Trial, hold_out
from rflaf.training.solvers.refined.smoothing import smoothed
from rflaf.training.solvers.refined.trainer import Shape, start_trainer
from rflaf.training.temperature import temperature

SURE = Recipe(1e-4, nodes=9)
TREES = {"curved": CURVED, "straight": STRAIGHT, "either": EITHER, "wide": WIDE}
each_tree = pytest.mark.parametrize("tree", TREES.values(), ids=TREES)


def labelled(n_rows=300, n_classes=3, noise=0.0, seed=0) -> RowsInMemory:
    """Rows of classes by their angle; a share of the labels is any class."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 3))
    k = np.floor((np.arctan2(X[:, 0], X[:, 1]) / np.pi + 1) / 2 * n_classes).astype(int) % n_classes
    k = np.where(rng.random(n_rows) < noise, rng.integers(0, n_classes, n_rows), k)
    y = np.eye(n_classes)[k] if n_classes > 2 else k[:, None].astype(float)
    return RowsInMemory(X, y, np.ones(n_rows))


def loss_of(table):
    return Softmax() if table.y.shape[1] > 1 else Logistic()


def trained(table, recipe, loss=None):
    encoding = encode(table, table.X.mean(axis=0), table.X.std(axis=0), recipe.nodes)
    rows = encoding.rows(table.X, table.y, table.weight)
    shape = Shape(16, BSplineBasis(10), False, Gaussian(), loss=loss or loss_of(table))
    rng = np.random.default_rng(0)
    trainer = start_trainer(encoding, rows, table.X, shape, recipe, rng, table.n_rows)
    trainer.run(rows, np.tile(np.arange(table.n_rows), (20, 1)), 0, 20 * -(-table.n_rows // trainer.batch))
    return trainer, rows


def settled(table, tree, width=16):
    hunt = hold_out(table, table.X.mean(axis=0), table.X.std(axis=0), np.random.default_rng(0), 0.2)
    shape = Shape(width, BSplineBasis(10), False, Gaussian(), loss=loss_of(table))
    with ThreadExecutor(1) as executor:
        return settle(hunt, shape, Search(tree, keep_outliers=True), executor)


@given(st.integers(2, 7), st.floats(0, 0.5))
def test_smoothed_labels_are_shares_that_keep_their_order(n_classes, share):
    y = np.eye(n_classes)
    soft = smoothed(Softmax(), y, share)
    np.testing.assert_allclose(soft.sum(axis=1), 1)
    np.testing.assert_allclose(soft, (1 - share) * y + share * y.mean(axis=0))
    one = smoothed(Logistic(), y, share)
    np.testing.assert_allclose(one, np.where(y == 1, 1 - share / 2, share / 2))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_training_on_smoothed_labels_is_training_on_such_labels(n_classes):
    table = labelled(n_classes=n_classes)
    by_recipe, rows = trained(table, replace(SURE, smoothing=0.1))
    soft = replace(table, y=smoothed(loss_of(table), table.y.astype(np.float32), 0.1))
    by_hand, _ = trained(soft, SURE)
    for one, other in zip(by_recipe.parameters, by_hand.parameters, strict=True):
        np.testing.assert_array_equal(one, other)
    assert set(np.unique(rows.y)) == {0, 1}


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("less_sure", [{"smoothing": 0.1}, {"shrinkage": 0.1}], ids=str)
def test_doubt_makes_log_odds_smaller(n_classes, less_sure):
    table = labelled(n_classes=n_classes)
    size = [
        np.std(trainer.outputs(rows, np.arange(table.n_rows)))
        for trainer, rows in (trained(table, recipe) for recipe in (SURE, replace(SURE, **less_sure)))
    ]
    assert size[1] < 0.8 * size[0]


def test_shrinkage_is_a_ridge_on_the_coefficients_of_the_activations():
    table = labelled()
    (plain, _), (shrunk, _) = (trained(table, recipe) for recipe in (SURE, replace(SURE, shrinkage=0.25)))
    C = np.random.default_rng(0).standard_normal((5, 10))

    def penalty(trainer):
        return np.einsum("mi,ij,mj->", C, trainer._roughness.astype(np.float64), C) / 2

    assert penalty(shrunk) - penalty(plain) == pytest.approx(0.25 * np.sum(C**2), rel=1e-6)


@pytest.mark.parametrize(("n_rows", "n_classes", "share"), [(300, 2, 1), (600, 2, 0.5), (3001, 2, 1), (600, 3, 0.7)])
def test_labels_judged_by_folds_are_trained_for_fewer_epochs(n_rows, n_classes, share):
    X = np.random.default_rng(0).standard_normal((n_rows, 2))
    y = np.digitize(np.sin(3 * X[:, 0]) + X[:, 1] ** 2, [0.5, 1.5][: n_classes - 1])
    model = RFLAFClassifier(16, curves=False, random_state=0).fit(X, y)
    assert model.trials_[0].recipe.effort == share
    assert len(model.objective_trace_) == model.trials_[0].recipe.epochs(n_rows)


@each_tree
def test_a_tree_for_classes_keeps_the_recipes_and_adds_stiffer_ends(tree):
    own = tree.for_classes(3)
    assert own.grid[: len(tree.grid)] == tree.grid
    added = own.grid[len(tree.grid) :]
    assert len(added) == len({bool(recipe.nodes) for recipe in tree.grid})
    for recipe in added:
        stiffest = max(other.alpha for other in tree.grid if bool(other.nodes) == bool(recipe.nodes))
        assert recipe.alpha == pytest.approx(4 * stiffest)
    assert (own.first, own.following) == (tree.first, tree.following)
    assert len(own.doubts) == len(tree.for_classes(1).doubts)


@each_tree
def test_only_labels_are_doubted_and_a_penalty_that_is_given_stays(tree):
    assert tree.doubted(SURE) == ()
    doubted = tree.for_classes(3).doubted(SURE)
    assert all(replace(recipe, alpha=SURE.alpha) != SURE for recipe in doubted)
    assert len(set(doubted)) == len(doubted)
    of_given = tree.for_classes(3).with_alpha(0.7).doubted(replace(SURE, alpha=0.7))
    assert {recipe.alpha for recipe in of_given} == {0.7}
    assert tree.for_classes(3).scaled(2.0).doubted(SURE) == doubted


@pytest.mark.parametrize("n_rows", [200, 13_000], ids=["folds", "a part"])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_the_best_recipe_is_tried_with_every_doubt_and_the_best_of_all_is_kept(n_rows, noise):
    tree = RecipeTree((SURE,), {}, (SURE, Recipe(1e-2, nodes=0)), EITHER.for_classes(3).doubts)
    found = settled(labelled(n_rows, noise=noise), tree)
    errors = [trial.error for trial in found.trials if len(trial.outputs) == found.hunt.held_out.size]
    assert errors[0] <= min(errors) / (1 if found.hunt.is_folded else 0.995)
    assert errors[1:] == sorted(errors[1:])
    tried = {trial.recipe for trial in found.trials}
    folded = found.hunt.is_folded
    assert any(set(tree.doubted(recipe, folded)) <= tried for recipe in (*tree.grid, *tree.first))
    assert len(EITHER.for_classes(1).doubted(SURE, folded)) == (3 if folded else 2)


def test_clear_labels_are_not_smoothed():
    tree = RecipeTree((), {}, (SURE,), ((1.0, 1.0, 0.3, 0.0),))
    found = settled(labelled(600), tree)
    assert found.trials[0].recipe == found.recipes[0] == SURE
    assert found.trials[1].recipe.smoothing == 0.3


def trial_of(recipe, error=0.0):
    return Trial(recipe, 16, error, np.zeros((1, 1)))


def test_at_most_two_recipes_that_are_alike_are_blended():
    alike = [trial_of(recipe) for recipe in (SURE, replace(SURE, smoothing=0.1), replace(SURE, alpha=2 * SURE.alpha))]
    others = [trial_of(replace(SURE, nodes=0)), trial_of(replace(SURE, alpha=3 * SURE.alpha))]
    assert _unlike([*alike, *others]) == [*alike[:2], *others]
    assert _unlike([trial_of(replace(SURE, alpha=0.0, rate=rate)) for rate in (1, 2, 3)])[-1].recipe.rate == 2


def test_a_recipe_that_is_too_sure_is_judged_at_its_temperature():
    table = labelled(300, n_classes=2, noise=0.5)
    eager = Recipe(1e-7, nodes=33)
    found = settled(table, RecipeTree((eager,), {}, (eager,)))
    trial, hunt, shape = found.trials[0], found.hunt, found.shape
    assert found.factors == (trial.factor,)
    assert trial.factor < 0.9
    assert trial.error == pytest.approx(hunt.mean_loss(shape.loss, trial.outputs))
    assert trial.error < hunt.mean_loss(shape.loss, trial.outputs / trial.factor)
    rest = hunt.table.y[hunt.held_out], hunt.table.weight[hunt.held_out], np.zeros(1)
    assert temperature(shape.loss, trial.outputs, *rest) > 0.99


def test_several_classes_are_judged_as_they_are():
    found = settled(labelled(300, noise=0.5), RecipeTree((), {}, (Recipe(1e-7, nodes=33),)))
    assert found.factors == (1.0,)


def test_outputs_that_are_no_numbers_have_no_temperature():
    y = np.array([[0.0], [1.0]])
    assert temperature(Logistic(), np.array([[np.nan], [np.inf]]), y, np.ones(2), np.zeros(1)) == 1


def test_final_models_are_as_sure_as_they_were_judged(monkeypatch):
    """The factor of every recipe is on the output weights of its part of the model."""
    table = labelled(300, n_classes=2, noise=0.5)
    merged = []
    monkeypatch.setattr(refined, "merge_models", lambda models: merged.append(models) or merge_models(models))
    kept = []
    monkeypatch.setattr(refined, "_train_well", lambda *given: kept.append(_train_well(*given)) or kept[-1])
    settle_as = []
    monkeypatch.setattr(refined, "settle", lambda *given: settle_as.append(settle(*given)) or settle_as[-1])
    RFLAFClassifier(48, alpha=1e-7, random_state=0, n_jobs=1).fit(table.X, table.y[:, 0].astype(int))
    (found,) = settle_as
    assert min(found.factors) < 1
    for (model, _), scaled, factor in zip(kept, merged[0], found.factors, strict=True):
        np.testing.assert_array_equal(scaled.V, factor * model.V)


def test_a_training_on_smoothed_labels_is_held_to_their_loss():
    sure, unsure = SURE, replace(SURE, smoothing=0.3)
    found = settled(labelled(600), RecipeTree((), {}, (sure, unsure)))
    assert _expected_loss(found, unsure) > _expected_loss(found, sure)
    errors = {trial.recipe: trial.error for trial in found.trials}
    soft = found.hunt.with_smoothed_labels(found.shape.loss, 0.3)
    outputs = next(trial.outputs for trial in found.trials if trial.recipe == unsure)
    assert _expected_loss(found, unsure) > 1.1 * soft.mean_loss(found.shape.loss, outputs)
    assert errors[unsure] < soft.mean_loss(found.shape.loss, outputs)


def test_batches_for_many_nodes_are_of_labels_alone():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 40))
    table = RowsInMemory(X, (X[:, :1] > 0).astype(float), np.ones(2000))
    recipe = Recipe(1e-3)
    encoding = encode(table, X.mean(axis=0), X.std(axis=0), recipe.nodes)
    rows = encoding.rows(table.X, table.y, table.weight)
    batches = [
        start_trainer(
            encoding, rows, X, Shape(16, BSplineBasis(10), False, Gaussian(), loss=loss), recipe, rng, 2000
        ).batch
        for loss in (Squared(), Logistic())
    ]
    assert batches == [32, 64]
    assert [recipe.batch(n_rows, 3000) for n_rows in (100, 1000, 2000, 10**6)] == [32, 64, 128, 512]


@pytest.mark.slow
def test_doubts_of_a_classifier_are_saved_and_regression_has_none(tmp_path):
    table = labelled(400, noise=0.3)
    label = table.y.argmax(axis=1)
    model = RFLAFClassifier(16, random_state=0, n_jobs=1).fit(table.X, label)
    assert any(trial.recipe.smoothing for trial in model.trials_)
    rflaf.save(model, tmp_path / "a.rflaf")
    again = rflaf.load(tmp_path / "a.rflaf")
    assert [trial.recipe for trial in again.trials_] == [trial.recipe for trial in model.trials_]
    regressor = RFLAFRegressor(16, random_state=0, n_jobs=1).fit(table.X, label.astype(float))
    assert not any(trial.recipe.smoothing or trial.recipe.shrinkage for trial in regressor.trials_)


@each_tree
def test_a_walk_of_two_classes_has_more_members(tree):
    walk, usual = tree.for_classes(1).walked(), tree.for_classes(3).walked()
    assert [recipe.split for recipe in walk.first] == [3 * recipe.split for recipe in tree.first]
    assert (usual.first, usual.following) == (tree.first, tree.following)
    assert [replace(recipe, split=0) for recipe in walk.following] == [
        replace(recipe, split=0) for recipe in tree.following
    ]
    assert walk.grid[: len(tree.grid)] == tree.grid


def test_two_classes_of_many_rows_are_answered_by_more_members():
    tree = replace(EITHER, first=(SURE,), following={}).for_classes(1)
    found = settled(labelled(13_000, n_classes=2, noise=0.5), tree)
    assert found.recipes[0].split == 3
    assert len(found.recipes[0].widths(100)) == 6
