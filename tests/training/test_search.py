"""The search for a recipe on rows held out, outliers among them, and what the estimator makes of both."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from settings import one_thread_regressor

from rflaf import RFLAFRegressor
from rflaf.errors import OutlierWarning, StopReason
from rflaf.functions.bases import BSplineBasis
from rflaf.functions.densities import Gaussian
from rflaf.functions.losses import Huber, Squared
from rflaf.rows.blocks import ArraySource
from rflaf.rows.executors import ThreadExecutor
from rflaf.training import refined, rivals
from rflaf.training.memory import TableSize, least_memory
from rflaf.training.solvers.refined import search as recipes
from rflaf.training.solvers.refined.encoded_rows import RowsInMemory
from rflaf.training.solvers.refined.race import race
from rflaf.training.solvers.refined.recipes import CURVED, EITHER, STRAIGHT, Recipe, RecipeTree
from rflaf.training.solvers.refined.search import (
    Hunt,
    Outliers,
    Trial,
    choose_width,
    find_outliers,
    hold_out,
    search,
    without_weak_columns,
)
from rflaf.training.solvers.refined.trainer import Shape
from rflaf.training.specification import FitSpec
from rflaf.training.train import LEAST_REFINED_ROWS, train_model

SHAPE = Shape(16, BSplineBasis(10, 3), False, Gaussian())
PLANS = {"bent": CURVED, "straight": STRAIGHT, "either": EITHER}
QUICK, QUICK_BENT = Recipe(1e-4, nodes=0), Recipe(1e-4, nodes=9)

each_plan = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
each_quick_recipe = pytest.mark.parametrize("recipe", [QUICK, QUICK_BENT], ids=["straight", "bent"])
seeds = st.integers(0, 2**32 - 1)


def every_recipe(plan: RecipeTree) -> list[Recipe]:
    return [*plan.first, *(recipe for follows in plan.following.values() for recipe in follows)]


def some_table(n_rows: int = 300, n_outputs: int = 1, seed: int = 0, weighted: bool = False) -> RowsInMemory:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n_rows, 3))
    y = np.stack([np.sin(X[:, 0] + o) + X[:, 1] for o in range(n_outputs)], axis=1)
    weight = rng.uniform(0.1, 2, n_rows) if weighted else np.ones(n_rows)
    return RowsInMemory(X, y + 0.1 * rng.standard_normal(y.shape), weight / weight.mean())


def hunt_on(table: RowsInMemory, seed: int = 0) -> Hunt:
    return hold_out(table, table.X.mean(axis=0), table.X.std(axis=0), np.random.default_rng(seed), 0.5)


def trial_of(hunt: Hunt, shape: Shape, recipe: Recipe) -> Trial:
    with ThreadExecutor(1) as executor:
        return hunt.compare([(shape, recipe)], executor)[0]


# Plans


@each_plan
@pytest.mark.parametrize("alpha", [0.0, 5e-4, 0.3])
def test_with_alpha_given_every_recipe_has_it_and_none_is_tried_twice(plan, alpha):
    given_alpha = plan.with_alpha(alpha)
    assert given_alpha.following == {}
    assert {recipe.alpha for recipe in given_alpha.first} == {alpha}
    assert len(set(given_alpha.first)) == len(given_alpha.first)
    assert set(given_alpha.first) == {replace(recipe, alpha=alpha) for recipe in every_recipe(plan)}
    assert given_alpha.with_alpha(alpha) == given_alpha


def ways(plan: RecipeTree, tried: list[Recipe]) -> list[list[Recipe]]:
    """All that a search may try after what it has tried, each way to its end."""
    lasts = [recipe for recipe in tried if recipe in plan.following]
    new = [plan.following[last] for last in lasts if not {*plan.following[last]} & {*tried}]
    return [tried, *(way for follows in new for way in ways(plan, [*tried, *follows]))]


@each_plan
def test_what_follows_follows_from_what_may_be_tried_and_nothing_is_tried_twice(plan):
    assert set(plan.following) <= set(every_recipe(plan))
    for tried in ways(plan, list(plan.first)):
        assert len(set(tried)) == len(tried)


@each_plan
@pytest.mark.parametrize("factor", [0.3, 1.0, 7.0])
def test_a_scaled_plan_is_the_same_but_for_its_penalties(plan, factor):
    scaled = plan.scaled(factor)
    for recipe, before in zip(every_recipe(scaled), every_recipe(plan), strict=True):
        assert recipe == replace(before, alpha=factor * before.alpha)
    assert set(scaled.following) <= set(every_recipe(scaled))
    assert [len(follows) for follows in scaled.following.values()] == [len(f) for f in plan.following.values()]
    trials, tried = search_known(dict.fromkeys(every_recipe(scaled), 2.0) | {scaled.first[-1]: 1.0}, scaled)
    assert trials[0].recipe == scaled.first[-1]
    assert tried == [*scaled.first, *scaled.following.get(scaled.first[-1], ())]


def test_plans_bend_as_they_are_named():
    assert all(recipe.nodes for recipe in every_recipe(CURVED))
    assert not any(recipe.nodes for recipe in every_recipe(STRAIGHT))
    assert {bool(recipe.nodes) for recipe in EITHER.first} == {True, False}


# Rows held out


@settings(max_examples=60)
@given(st.integers(20, 14_000), seeds)
def test_every_split_is_a_partition_and_no_row_is_held_out_twice(n_rows, seed):
    table = RowsInMemory(np.zeros((n_rows, 1)), np.zeros((n_rows, 1)), np.ones(n_rows))
    hunt = hold_out(table, np.zeros(1), np.ones(1), np.random.default_rng(seed), 0.5)
    for kept, held_out in hunt.splits:
        np.testing.assert_array_equal(np.sort(np.concatenate([kept, held_out])), np.arange(n_rows))
        assert np.all(np.diff(held_out) > 0)
    sizes = [held_out.size for _, held_out in hunt.splits]
    assert max(sizes) - min(sizes) <= 1
    assert np.unique(hunt.held_out).size == hunt.held_out.size == sum(sizes)
    assert (hunt.held_out.size == n_rows) == (n_rows <= 3000)
    np.testing.assert_array_equal(hunt.held_out, np.concatenate([held_out for _, held_out in hunt.splits]))


@pytest.mark.parametrize(
    ("n_rows", "n_splits"), [(50, 10), (120, 10), (121, 5), (3000, 5), (3001, 3), (12_000, 3), (12_001, 1)]
)
def test_the_fewer_the_rows_the_more_folds_judge(n_rows, n_splits):
    hunt = hunt_on(some_table(n_rows))
    assert len(hunt.splits) == n_splits
    assert hunt.is_folded == (n_splits > 1)


@pytest.mark.parametrize("recipe", [QUICK, QUICK_BENT], ids=["straight", "bent"])
def test_trials_on_the_first_folds_begin_those_on_all(recipe):
    hunt, another = hunt_on(some_table(200)), hunt_on(some_table(200))  # neither knows what the other has trained
    first, whole = (trial_of(part, SHAPE, recipe) for part in (hunt.first(2), another))
    np.testing.assert_array_equal(first.outputs, whole.outputs[: len(first.outputs)])
    assert trial_of(hunt.with_effort(0.2), SHAPE, recipe).error != whole.error


def test_trainings_that_take_long_begin_first_and_trials_come_as_asked():
    begun = list[int]()

    class Watching(ThreadExecutor):
        def map(self, items, map_item, label=""):
            begun.extend(part.recipe.nodes for part in items)
            return super().map(items, map_item, label)

    tried = [QUICK, replace(QUICK_BENT, nodes=5), QUICK_BENT]
    assert QUICK_BENT.nodes > 5
    with Watching() as executor:
        trials = hunt_on(some_table(200)).compare([(SHAPE, recipe) for recipe in tried], executor)
    assert begun == sorted(begun, reverse=True)
    assert [trial.recipe for trial in trials] == tried
    assert len(set(begun)) == 3


def test_nothing_is_trained_twice(monkeypatch):
    hunt, sizes, train = hunt_on(some_table(200)), [], recipes.train_alone

    def count(*arguments):
        sizes.append(arguments[3].size)
        train(*arguments)

    monkeypatch.setattr(recipes, "train_alone", count)
    first = trial_of(hunt.first(2), SHAPE, QUICK)
    whole = trial_of(hunt, SHAPE, QUICK)
    np.testing.assert_array_equal(first.outputs, whole.outputs[: len(first.outputs)])
    again = trial_of(hunt, SHAPE, QUICK)
    np.testing.assert_array_equal(again.outputs, whole.outputs)
    assert sizes == [kept.size for kept, _ in hunt.splits]
    for other in (replace(SHAPE, loss=Huber(0.5)), replace(SHAPE, n_components=24)):
        assert trial_of(hunt, other, QUICK).error != whole.error
    assert trial_of(hunt.with_effort(0.2), SHAPE, QUICK).error != whole.error
    assert trial_of(hunt, SHAPE, replace(QUICK, alpha=2 * QUICK.alpha)).error != whole.error
    assert trial_of(replace(hunt, scale=np.r_[0.0, hunt.scale[1:]]), SHAPE, QUICK).error != whole.error
    assert len(sizes) == 6 * len(hunt.splits)


def test_rows_are_held_out_at_random():
    one, same, other = (hunt_on(some_table(800), seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.held_out, same.held_out)
    assert one.seed == same.seed
    assert not np.array_equal(one.held_out, other.held_out)
    assert one.seed != other.seed


# The loss


@pytest.mark.parametrize("delta", [0.05, 0.8, 3.0, np.inf])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])
@pytest.mark.parametrize("n_rows", [300, 900], ids=["three splits", "one split"])
def test_the_loss_is_the_weighted_mean_of_huber(n_rows, weighted, n_outputs, delta):
    hunt = hunt_on(some_table(n_rows, n_outputs, weighted=weighted))
    residual = 2 * np.random.default_rng(1).standard_normal((hunt.held_out.size, n_outputs))
    expected = total = 0.0
    for row, weight in zip(residual, hunt.table.weight[hunt.held_out], strict=True):
        expected += weight * sum(r**2 if abs(r) <= delta else delta * (2 * abs(r) - delta) for r in row)
        total += weight
    outputs = hunt.table.y[hunt.held_out] - residual
    assert hunt.mean_loss(Huber(delta), outputs) == pytest.approx(expected / total, rel=1e-12)
    assert hunt.mean_loss(Huber(delta), outputs.astype(np.float32)) == pytest.approx(expected / total, rel=1e-5)
    if delta == np.inf:
        assert hunt.mean_loss(Squared(), outputs) == pytest.approx(expected / total, rel=1e-12)


# A trial


@pytest.mark.slow
@each_quick_recipe
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_a_trial_is_the_same_for_any_number_of_threads(recipe, n_outputs):
    hunt = hunt_on(some_table(n_outputs=n_outputs, weighted=True))
    recipes = [recipe, replace(recipe, rate=0.3), replace(recipe, alpha=1e-2)]
    alone = [trial_of(hunt, SHAPE, recipe) for recipe in recipes]
    assert len({trial.error for trial in alone}) == 3
    for n_workers in (1, 2):
        with ThreadExecutor(n_workers) as executor:
            trials = hunt.compare([(SHAPE, recipe) for recipe in recipes], executor)
        assert [trial.recipe for trial in trials] == recipes
        for one, other in zip(alone, trials, strict=True):
            np.testing.assert_array_equal(one.outputs, other.outputs)
            assert one.error == other.error


@each_quick_recipe
@pytest.mark.parametrize("n_rows", [300, 800], ids=["three splits", "one split"])
def test_the_outputs_of_a_trial_are_those_of_the_rows_held_out(recipe, n_rows):
    hunt = hunt_on(some_table(n_rows, 2, weighted=True))
    trial = trial_of(hunt, SHAPE, recipe)
    y = hunt.table.y[hunt.held_out]
    assert trial.outputs.shape == y.shape
    np.testing.assert_array_equal(hunt.residual(trial), y - trial.outputs)
    assert np.mean(hunt.residual(trial) ** 2) < 0.15 * y.var()  # out of order they would explain nothing
    assert (trial.recipe, trial.width) == (recipe, 16)
    assert trial.error == hunt.mean_loss(Squared(), trial.outputs)
    bounded = trial_of(hunt, replace(SHAPE, loss=Huber(0.2)), recipe)
    assert bounded.error == hunt.mean_loss(Huber(0.2), bounded.outputs)
    assert not np.array_equal(bounded.outputs, trial.outputs)


def test_a_trial_is_trained_for_a_share_of_the_epochs_of_its_recipe(monkeypatch):
    efforts = []
    monkeypatch.setattr(recipes, "train_alone", lambda *arguments: efforts.append(arguments[-1]))
    hunt = hunt_on(some_table(300))
    for effort in (0.25, 1.0):
        trial_of(replace(hunt, effort=effort), SHAPE, QUICK)
    assert efforts == [0.25] * 5 + [1.0] * 5


@each_quick_recipe
def test_targets_of_rows_held_out_have_no_influence_on_a_trial(recipe):
    table = some_table(800, 2)
    predictions = []
    for held_out_target in (0.0, 4.0):
        hunt = hunt_on(table).first(1)
        y = table.y.copy()
        y[hunt.held_out] = held_out_target
        hunt = replace(hunt, table=replace(table, y=y))
        predictions.append(trial_of(hunt, SHAPE, recipe).outputs)
    np.testing.assert_array_equal(predictions[0], predictions[1])
    assert np.corrcoef(predictions[0].ravel(), table.y[hunt.held_out].ravel())[0, 1] > 0.9
    y = table.y.copy()
    y[hunt.splits[0][0][0]] += 1.0
    moved = trial_of(replace(hunt, table=replace(table, y=y)), SHAPE, recipe)
    assert np.abs(moved.outputs - predictions[0]).max() > 1e-6


def test_weights_of_rows_held_out_count_in_the_error_only():
    table = some_table(800)
    hunt = hunt_on(table).first(1)
    weight = table.weight.copy()
    weight[hunt.held_out] = np.linspace(0.1, 3, hunt.held_out.size)
    even = trial_of(hunt, SHAPE, QUICK)
    heavy = trial_of(replace(hunt, table=replace(table, weight=weight)), SHAPE, QUICK)
    np.testing.assert_array_equal(even.outputs, heavy.outputs)
    expected = np.average(hunt.residual(even)[:, 0] ** 2, weights=weight[hunt.held_out])
    assert heavy.error == pytest.approx(expected, rel=1e-12)
    assert heavy.error != even.error


# The search


@dataclass
class KnownErrors:
    """A hunt whose trials have the errors of a table, by recipe and width, and that remembers what was tried."""

    by_recipe: dict[Recipe, float] = field(default_factory=dict)
    by_width: dict[int, float] = field(default_factory=dict)
    tried: list = field(default_factory=list)

    too_fine: int = 10**6

    def compare(self, candidates: list[tuple[Shape, Recipe]], _: ThreadExecutor) -> list[Trial]:
        self.tried += [(recipe, shape.n_components) for shape, recipe in candidates]
        errors = [self.by_width[shape.n_components] if self.by_width else self.by_recipe[r] for shape, r in candidates]
        return [
            Trial(recipe, shape.n_components, error, np.zeros((1, 1)))
            for (shape, recipe), error in zip(candidates, errors, strict=True)
        ]

    def affords(self, recipe: Recipe) -> bool:
        return recipe.nodes < self.too_fine


def search_known(errors: dict[Recipe, float], plan: RecipeTree, **limits: int):
    hunt = KnownErrors(by_recipe=errors, **limits)
    return search(hunt, SHAPE, plan, ThreadExecutor(1)), [recipe for recipe, _ in hunt.tried]


@each_plan
def test_the_search_goes_on_from_the_best_of_the_first_only(plan):
    for best in plan.first:
        errors = dict.fromkeys(every_recipe(plan), 2.0) | {best: 1.0}
        trials, tried = search_known(errors, plan)
        assert tried == [*plan.first, *plan.following.get(best, ())]
        assert trials[0].recipe == best


@given(st.sampled_from(list(PLANS)), st.data())
def test_the_search_returns_all_it_tried_the_best_first(name, data):
    plan = PLANS[name]
    numbers = st.floats(0, 10) | st.sampled_from([np.nan, np.inf])
    errors = {recipe: data.draw(numbers) for recipe in dict.fromkeys(every_recipe(plan))}
    trials, tried = search_known(errors, plan)
    assert sorted(map(repr, tried)) == sorted(repr(trial.recipe) for trial in trials)
    found = [trial.error if np.isfinite(trial.error) else np.inf for trial in trials]
    assert found == sorted(found)


@each_plan
def test_of_equal_errors_the_stiffest_recipe_of_a_walk_comes_first(plan):
    trials, tried = search_known(dict.fromkeys(every_recipe(plan), 1.0), plan)
    assert [trial.recipe.alpha for trial in trials] == sorted((recipe.alpha for recipe in tried), reverse=True)


@each_plan
def test_of_equal_errors_the_stiffest_recipe_of_a_race_comes_first(plan):
    table = some_table(40)
    nothing = replace(table, y=np.zeros_like(table.y))  # to learn: every training ends where it starts
    with ThreadExecutor(1) as executor:
        _, trials = race([hunt_on(nothing).with_effort(0.01)], SHAPE, plan.grid, executor)
    assert {trial.error for trial in trials} == {0.0}
    assert [trial.recipe.alpha for trial in trials] == sorted((one.alpha for one in plan.grid), reverse=True)


THREE = RecipeTree((QUICK,), {QUICK: (QUICK_BENT,), QUICK_BENT: (Recipe(1.0, nodes=65),)})


@pytest.mark.parametrize(("second", "n_tried"), [(0.97, 3), (0.99, 2), (1.5, 2), (np.nan, 2)])
def test_the_search_goes_on_while_it_wins_two_per_cent(second, n_tried):
    errors = {QUICK: 1.0, QUICK_BENT: second, Recipe(1.0, nodes=65): 0.1}
    trials, tried = search_known(errors, THREE)
    assert tried == [QUICK, QUICK_BENT, Recipe(1.0, nodes=65)][:n_tried]
    assert trials[0].error == np.nanmin([errors[recipe] for recipe in tried])


def test_the_search_leaves_out_what_takes_too_long():
    errors = {QUICK: 1.0, QUICK_BENT: 0.5, Recipe(1.0, nodes=65): 0.1}
    assert search_known(errors, THREE, too_fine=65)[1] == [QUICK, QUICK_BENT]


def test_columns_that_bend_in_more_places_than_there_is_time_for_are_told_by_what_they_hold():
    rng = np.random.default_rng(0)
    wide = RowsInMemory(rng.standard_normal((600, 40)), np.zeros((600, 1)), np.ones(600))
    two_valued = replace(wide, X=(wide.X > 0).astype(float))
    fine = Recipe(1e-4, nodes=129)
    assert not hunt_on(wide).affords(fine)
    assert hunt_on(wide).affords(Recipe(1e-4))
    assert hunt_on(two_valued).affords(fine)


def test_a_training_that_diverged_is_never_the_best():
    plan = RecipeTree((QUICK, QUICK_BENT), {QUICK_BENT: (Recipe(1.0),), QUICK: (Recipe(2.0),)})
    trials, tried = search_known({QUICK: np.nan, QUICK_BENT: 5.0, Recipe(1.0): np.inf, Recipe(2.0): 0.0}, plan)
    assert tried == [QUICK, QUICK_BENT, Recipe(1.0)]
    assert trials[0].recipe == QUICK_BENT


# The width


def width_of(errors: dict[int, float], tolerance: float):
    """The widths in the order of the answer, and those that were tried."""
    hunt = KnownErrors(by_width=errors)
    best = Trial(QUICK, 100, errors[100], np.zeros((1, 1)))
    trials = choose_width(hunt, replace(SHAPE, n_components=100), best, tolerance, ThreadExecutor(1))
    assert {recipe for recipe, _ in hunt.tried} == {QUICK}
    assert sorted(trial.width for trial in trials) == sorted([100, *(width for _, width in hunt.tried)])
    return trials, [width for _, width in hunt.tried]


@pytest.mark.parametrize(
    ("errors", "tolerance", "chosen", "tried"),
    [
        ({12: 9, 25: 5, 50: 3, 100: 2, 200: 1, 400: 0.5}, 0.01, 400, [12, 25, 50, 200, 400]),
        ({12: 9, 25: 5, 50: 3, 100: 2, 200: 1, 400: 0.999}, 0.01, 200, [12, 25, 50, 200, 400]),
        ({12: 9, 25: 5, 50: 3, 100: 2, 200: 1.99}, 0.01, 100, [12, 25, 50, 200]),
        ({12: 9, 25: 5, 50: 1.01, 100: 1, 200: 1}, 0.02, 50, [12, 25, 50, 200]),
        ({12: 9, 25: 1, 50: 2, 100: 3, 200: 4}, 0.0, 25, [12, 25, 50, 200]),
        ({12: 1.5, 25: 1.2, 50: 1.1, 100: 1, 200: 1}, 0.5, 12, [12, 25, 50, 200]),
        ({12: 0, 25: 0, 50: 0, 100: 0, 200: 0, 400: 0}, 0.01, 12, [12, 25, 50, 200, 400]),
        ({12: np.nan, 25: np.inf, 50: 2, 100: 1, 200: np.inf}, 0.01, 100, [12, 25, 50, 200]),
    ],
)
def test_the_narrowest_width_within_the_tolerance_is_chosen(errors, tolerance, chosen, tried):
    trials, widths = width_of(errors, tolerance)
    assert trials[0].width == chosen
    assert widths == tried


@given(st.lists(st.floats(0.1, 10), min_size=6, max_size=6), st.sampled_from([0.0, 0.01, 0.3]))
def test_no_narrower_width_that_was_tried_is_as_good(values, tolerance):
    trials, _ = width_of(dict(zip((12, 25, 50, 100, 200, 400), values, strict=True)), tolerance)
    limit = min(trial.error for trial in trials) * (1 + tolerance)
    assert trials[0].error <= limit
    assert all(trial.error > limit for trial in trials[1:] if trial.width < trials[0].width)


# Outliers


def outliers_of(signal: np.ndarray, noise: np.ndarray, predicted: np.ndarray | None = None):
    """What is found where targets are signal + noise and the signal, or ``predicted``, is what a trial predicts."""
    signal, noise = (part.reshape(len(part), -1) for part in (signal, noise))
    table = RowsInMemory(np.zeros((len(signal), 1)), signal + noise, np.ones(len(signal)))
    hunt = hold_out(table, np.zeros(1), np.ones(1), np.random.default_rng(0), 0.5)
    predicted = signal if predicted is None else predicted.reshape(signal.shape)
    trial = Trial(QUICK, 16, 0.0, predicted[hunt.held_out])
    return find_outliers(hunt, trial), hunt, (table.y - predicted)[hunt.held_out]


def share_far(hunt: Hunt) -> float:
    """Share of the rows held out that are far from the median."""
    off = np.abs(hunt.table.y - np.median(hunt.table.y, axis=0))
    return float((off[hunt.held_out] > 8 * 1.4826 * np.median(off, axis=0)).any(axis=1).mean())


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("explained", [0.0, 1.0, 10.0])
@pytest.mark.parametrize("law", ["normal", "t5", "laplace"])
def test_clean_noise_has_no_outliers(law, explained, seed):
    rng = np.random.default_rng(seed)
    noise = {
        "normal": rng.standard_normal,
        "t5": lambda n: rng.standard_t(5, n),
        "laplace": lambda n: rng.laplace(size=n),
    }
    assert outliers_of(explained * rng.standard_normal(2000), noise[law](2000))[0] is None


@pytest.mark.parametrize("seed", range(5))
def test_a_long_tail_that_the_columns_explain_is_no_outlier(seed):
    rng = np.random.default_rng(seed)
    signal = np.exp(1.5 * rng.standard_normal(4000))
    found, hunt, _ = outliers_of(signal, 0.2 * signal * rng.standard_normal(4000))
    assert share_far(hunt) > 0.01
    assert found is None


@pytest.mark.parametrize("rare", [0.03, 0.5])
def test_two_groups_of_targets_have_no_outliers(rare):
    rng = np.random.default_rng(0)
    group = 50.0 * (rng.random(2000) < rare)
    noise = rng.standard_normal(2000)
    found, hunt, _ = outliers_of(group, noise)
    assert found is None  # explained
    assert (share_far(hunt) > 0.01) == (rare < 0.5)
    if rare == 0.5:
        assert outliers_of(group, noise, np.full(2000, group.mean()))[0] is None  # not explained, but not rare


def test_rare_targets_explained_by_more_than_half_stay_and_by_less_are_outliers():
    rng = np.random.default_rng(0)
    group = 50.0 * (rng.random(2000) < 0.03)
    noise = rng.standard_normal(2000)
    assert outliers_of(group, noise, 0.6 * group)[0] is None
    assert outliers_of(group, noise, 0.4 * group)[0] is not None


@pytest.mark.parametrize("rate", [0.02, 0.05])
def test_rare_events_are_no_outliers(rate):
    rng = np.random.default_rng(0)
    chance = rate * rng.uniform(0, 2, 4000)
    happened = (rng.random(4000) < chance).astype(float)
    assert outliers_of(chance, happened - chance)[0] is None


@pytest.mark.parametrize("sigma", [0.8, 1.0])
def test_the_tail_of_log_normal_noise_is_no_outlier(sigma):
    rng = np.random.default_rng(0)
    signal = np.exp(0.7 * rng.uniform(-2, 2, 4000) + sigma**2 / 2)
    noise = signal * (np.exp(sigma * rng.standard_normal(4000) - sigma**2 / 2) - 1)
    assert outliers_of(signal, noise)[0] is None


@pytest.mark.parametrize("share", [0.003, 0.01, 0.05])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_shifted_targets_are_found_with_about_their_share(n_outputs, share):
    rng = np.random.default_rng(0)
    units = 10.0 ** np.arange(n_outputs)
    signal, noise = (rng.standard_normal((40_000, n_outputs)) * size * units for size in (1.0, 0.5))
    shifted = rng.random(40_000) < share
    noise[shifted, -1] += 20 * (signal + noise)[:, -1].std()
    found, hunt, residual = outliers_of(signal, noise)
    assert found.share == shifted[hunt.held_out].mean() == pytest.approx(share, rel=0.4)
    deviations = 1.4826 * np.median(np.abs(residual), axis=0)
    assert found.delta == pytest.approx(3 * deviations.max(), rel=1e-12)


def test_an_outlier_in_any_output_counts_once():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((5000, 2))
    first, both = rng.random(5000) < 0.01, rng.random(5000) < 0.01
    noise[first, 0] += 30
    noise[both] -= 30
    found, hunt, _ = outliers_of(np.zeros((5000, 2)), noise)
    assert found.share == (first | both)[hunt.held_out].mean()


@pytest.mark.parametrize(("share", "found"), [(0.06, True), (0.08, True), (0.12, False), (0.3, False)])
def test_more_than_a_tenth_of_the_targets_are_no_outliers(share, found):
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(20_000) + 30 * (rng.random(20_000) < share)
    assert (outliers_of(rng.standard_normal(20_000), noise)[0] is not None) == found


def test_a_far_target_that_has_little_of_the_error_is_left():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(20_000)
    noise[hunt_on(some_table(20_000)).held_out[0]] += 15  # the rows `outliers_of` holds out too: one of 3000
    found, hunt, residual = outliers_of(rng.standard_normal(20_000) * 0.5, noise)
    assert np.abs(residual).max() > 12
    assert share_far(hunt) > 0
    assert found is None


def test_the_message_names_the_share_and_the_remedy():
    message = str(Outliers(0.0123, 0.4))
    assert "about 1.2 % of the targets" in message
    assert "pass loss=rflaf.functions.losses.Squared()" in message


# The estimator


def target(X: np.ndarray) -> np.ndarray:
    return np.sin(2 * X[:, 0]) * X[:, 1] + X[:, 1] ** 2 / 2


def rows(n_rows: int = 700, seed: int = 0, n_columns: int = 3, noise: float = 0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n_rows, n_columns))
    return X, target(X) + noise * rng.standard_normal(n_rows)


TEST_X = rows(3000, 99)[0]


def error_of(model: RFLAFRegressor, X: np.ndarray = TEST_X) -> float:
    """Mean squared error off the noiseless target, in units of its variance."""
    return float(np.mean((model.predict(X) - target(X)) ** 2) / target(X).var())


def noisy_error_of(model: RFLAFRegressor) -> float:
    """The error on targets as noisy as those of the rows."""
    X, y = rows(3000, 99)
    return float(np.mean((model.predict(X) - y) ** 2) / y.var())


@pytest.mark.slow
@pytest.mark.parametrize("curves", [True, False])
def test_one_in_a_hundred_targets_shifted_at_most_doubles_the_error(curves):
    X, y = rows(1000)
    shifted = np.random.default_rng(1).choice(1000, 10, replace=False)
    wild = y.copy()
    wild[shifted] += 20 * y.std()
    with pytest.warns(OutlierWarning, match=r"% of the targets .* pass loss=rflaf"):
        robust = one_thread_regressor(curves=curves).fit(X, wild)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clean = one_thread_regressor(curves=curves).fit(X, y)
        trusting = one_thread_regressor(curves=curves, loss=Squared()).fit(X, wild)
    assert noisy_error_of(robust) < 2 * noisy_error_of(clean) < 0.05
    assert noisy_error_of(trusting) > 2 * noisy_error_of(robust)


@pytest.mark.slow
def test_outliers_of_one_of_two_outputs_are_found():
    X, y = rows(1000)
    Y = np.stack([y, X[:, 2]], axis=1)
    Y[np.random.default_rng(1).choice(1000, 10, replace=False), 0] -= 20 * y.std()
    with pytest.warns(OutlierWarning):
        model = one_thread_regressor(curves=False).fit(X, Y)
    answers = model.predict(TEST_X)
    assert np.mean((answers[:, 0] - target(TEST_X)) ** 2) < 0.1 * target(TEST_X).var()
    assert np.mean((answers[:, 1] - TEST_X[:, 2]) ** 2) < 0.1


@pytest.mark.slow
def test_outliers_cost_a_shared_activation_little_too():
    X, y = rows(1000)
    wild = y.copy()
    wild[::100] += 20 * y.std()
    with pytest.warns(OutlierWarning):
        robust = one_thread_regressor(activation="shared", curves=False, random_state=1).fit(X, wild)
    clean = one_thread_regressor(activation="shared", curves=False, random_state=1).fit(X, y)
    assert noisy_error_of(robust) < 2 * noisy_error_of(clean) < 0.05


@pytest.mark.slow
def test_columns_of_noise_get_little_importance():
    X, y = rows(1000, n_columns=12)
    importance = one_thread_regressor().fit(X, y).column_importance_
    assert importance.sum() == pytest.approx(1)
    assert importance[2:].sum() < 0.15
    assert importance[:2].min() > 5 * importance[2:].max()


@pytest.mark.slow
@pytest.mark.parametrize(("error", "reason"), [(0.0, StopReason.CONVEX), (np.inf, StopReason.TRAINED)])
def test_of_few_rows_the_model_that_does_better_on_rows_held_out_is_kept(monkeypatch, error, reason):
    X, y = rows(300)
    judged = rivals._in_closed_form
    monkeypatch.setattr(
        rivals, "_in_closed_form", lambda *of: [replace(r, losses=0 * r.losses + error) for r in judged(*of)]
    )
    model = one_thread_regressor(curves=False).fit(X, y)
    assert model.stop_reason_ is reason
    on_all = [trial.error for trial in model.trials_ if len(trial.outputs) == len(y)]
    assert on_all == sorted(on_all)
    assert len(on_all) == 5
    assert len(model.trials_) >= 7


@pytest.mark.slow
def test_a_noisy_line_of_few_rows_is_fitted_about_as_well_as_by_the_better_of_both(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5))
    slopes = np.array([1.0, -0.5, 0.3, 0.0, 0.0])
    y, new = X @ slopes + 1.5 * rng.standard_normal(300), rng.standard_normal((5000, 5))
    errors = {}
    for name, forced in (("chosen", None), ("given", 0.0), ("refined", np.inf)):
        with monkeypatch.context() as patch:
            if forced is not None:
                judged = rivals._in_closed_form
                patch.setattr(
                    rivals,
                    "_in_closed_form",
                    lambda *of, error=forced, judged=judged: [
                        replace(r, losses=0 * r.losses + error) for r in judged(*of)
                    ][2:],
                )
            model = one_thread_regressor().fit(X, y)
        errors[name] = np.mean((model.predict(new) - new @ slopes) ** 2)
    assert errors["chosen"] < 1.25 * min(errors["given"], errors["refined"])
    assert errors["chosen"] < 0.1 * (slopes @ slopes)


@pytest.mark.parametrize("n_rows", [10, LEAST_REFINED_ROWS - 1])
def test_too_few_rows_to_train_on_some_of_them_have_a_simpler_model(n_rows):
    X, y = rows(n_rows)
    model = one_thread_regressor().fit(X, y)
    assert model.stop_reason_ is StopReason.CONVEX
    assert model.trials_ == ()
    assert model.curves_ is None
    assert model.oof_prediction_.shape == y.shape
    assert model.cv_error_ == pytest.approx(np.mean((model.oof_prediction_ - y) ** 2))


def losses_held_out(model: RFLAFRegressor, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The squared error of every row held out, times its weight over their mean weight."""
    held_out = np.isfinite(model.oof_prediction_)
    own = weight[held_out]
    return (model.oof_prediction_ - y)[held_out] ** 2 * own / own.mean()


@pytest.mark.parametrize(("n_rows", "ordered", "weighted"), [(15, False, False), (40, False, True), (60, True, True)])
def test_the_standard_error_is_that_of_the_mean_loss_of_rows_held_out(n_rows, ordered, weighted):
    X, y = rows(n_rows, n_columns=2, noise=0.5)
    weight = np.random.default_rng(1).uniform(0.5, 2, n_rows) if weighted else np.ones(n_rows)
    time = {"time": np.arange(n_rows)} if ordered else {}  # the first rows are never held out
    model = one_thread_regressor(16).fit(X, y, weight, **time)
    losses = losses_held_out(model, y, weight)
    assert ordered == (losses.size < n_rows)
    assert model.cv_error_ == pytest.approx(losses.mean(), rel=1e-9)
    assert model.cv_standard_error_ == pytest.approx(losses.std(ddof=1) / np.sqrt(losses.size), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [12, 40, 400])
def test_targets_that_nothing_explains_get_their_mean(n_rows):
    rng = np.random.default_rng(n_rows)
    X, y = rng.standard_normal((n_rows, 4)), rng.standard_normal(n_rows)
    model = one_thread_regressor().fit(X, y)
    new = rng.standard_normal((500, 4))
    assert np.mean((model.predict(new) - y.mean()) ** 2) < 0.2
    if model.model_.describe()["form"] == "constant":
        assert np.ptp(model.predict(new)) == 0


@pytest.mark.slow
def test_the_mean_is_an_answer_and_says_so():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 4)), rng.standard_normal(40)
    for width in (2, 20):
        model = one_thread_regressor(width).fit(X, y)
        assert model.model_.describe()["form"] == "constant"
        np.testing.assert_allclose(model.predict(X), y.mean(), atol=1e-6)
        assert 0.7 < model.predict(X, return_std=True)[1].mean() / y.std() < 1.4


@pytest.mark.slow
@pytest.mark.parametrize("n_columns", [3, 30])
def test_a_line_with_noise_is_fitted_by_a_linear_model_of_no_more_components_than_asked_for(n_columns):
    rng = np.random.default_rng(n_columns)
    slopes = rng.standard_normal(n_columns)
    X, new = rng.standard_normal((150, n_columns)), rng.standard_normal((400, n_columns))
    y = X @ slopes + 0.5 * rng.standard_normal(150)
    model = one_thread_regressor().fit(X, y)
    assert model.n_components_ <= 20
    assert model.model_.describe()["form"] == "linear"
    assert np.mean((model.predict(new) - new @ slopes) ** 2) < 0.15 * (slopes @ slopes)
    deviation = model.predict(new, return_std=True)[1]
    assert np.all((deviation > 0.4) & (deviation < 1.5))


@pytest.mark.slow
def test_rows_enough_are_held_out_and_those_of_weight_zero_do_not_count():
    X, y = rows(LEAST_REFINED_ROWS)
    assert len(one_thread_regressor().fit(X, y).trials_) > 3
    weight = np.ones(len(y))
    weight[0] = 0
    assert one_thread_regressor().fit(X, y, sample_weight=weight).trials_ == ()


def test_an_automatic_width_for_too_few_rows_is_that_of_the_table():
    X, _ = rows(LEAST_REFINED_ROWS - 1)
    assert one_thread_regressor("auto").fit(X, np.sin(3 * X[:, 0])).n_components_ == X.shape[1]


@pytest.mark.slow
@pytest.mark.parametrize("tolerance", [0.01, 1.0])
def test_an_automatic_width_is_the_first_of_its_trials(tolerance):
    X, y = rows(800)
    model = one_thread_regressor("auto", curves=False, width_tolerance=tolerance, alpha=1e-4).fit(X, y)
    assert model.stop_reason_ is StopReason.TRAINED
    tried = {trial.width: trial.error for trial in model.trials_ if trial.width != 24}  # the width of the race
    assert {12, 25, 50, 100, 200} <= set(tried) <= {12, 25, 50, 100, 200, 400}
    limit = min(tried.values()) * (1 + tolerance)
    assert model.n_components_ == model.trials_[0].width == min(w for w, error in tried.items() if error <= limit)
    assert error_of(model) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("curves", [True, False])
def test_columns_bend_where_they_are_told_to(curves):
    model = one_thread_regressor(curves=curves).fit(*rows())
    assert model.stop_reason_ is StopReason.TRAINED
    assert (model.curves_ is not None) == curves
    assert {bool(trial.recipe.nodes) for trial in model.trials_} == {curves}
    assert error_of(model) < 0.05


@pytest.mark.slow
def test_whether_columns_bend_is_chosen_where_it_is_not_told():
    model = one_thread_regressor().fit(*rows())
    assert {bool(trial.recipe.nodes) for trial in model.trials_} == {True, False}
    assert model.curves_ is not None or not model.trials_[0].recipe.nodes
    assert model.alpha_ == model.trials_[0].recipe.alpha


@pytest.mark.slow
@pytest.mark.parametrize("curves", ["auto", False])
def test_a_penalty_given_is_used(curves):
    model = one_thread_regressor(alpha=3e-4, curves=curves).fit(*rows())
    assert model.stop_reason_ is StopReason.TRAINED
    assert model.alpha_ == 3e-4
    assert {trial.recipe.alpha for trial in model.trials_} == {3e-4}


@pytest.mark.slow
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_a_seed_fixes_the_model_for_any_number_of_threads(n_outputs):
    X, y = rows(600)
    Y = y if n_outputs == 1 else np.stack([y, X[:, 2]], axis=1)
    one, two, other = (
        one_thread_regressor(n_jobs=n_jobs, random_state=seed).fit(X, Y) for n_jobs, seed in ((1, 0), (2, 0), (1, 1))
    )
    np.testing.assert_array_equal(one.predict(TEST_X), two.predict(TEST_X))
    assert [trial.error for trial in one.trials_] == [trial.error for trial in two.trials_]
    assert not np.array_equal(one.predict(TEST_X), other.predict(TEST_X))


@pytest.mark.slow
@pytest.mark.parametrize("curves", [True, False])
def test_little_memory_trains_on_several_chunks_and_still_learns(monkeypatch, curves):
    n_chunks = []

    def streamed(*arguments):
        chunks = original(*arguments)
        n_chunks.append(len(chunks))
        return chunks

    original = refined.Streamed
    monkeypatch.setattr(refined, "Streamed", streamed)
    X, y = rows(3500)
    spec = FitSpec(n_components=16, refined=True, per_component=True, curves=curves)
    spec = replace(spec, memory=least_memory(spec, TableSize(*X.shape, 1, 8)))
    results = []
    for n_workers in (1, 2):
        with ThreadExecutor(n_workers) as executor:
            results.append(
                train_model(ArraySource(X, y[:, None], block_rows=64), spec, np.random.default_rng(0), executor)
            )
    assert n_chunks[0] == n_chunks[1] > 5
    one, two = (result.model.decision(TEST_X)[:, 0] for result in results)
    np.testing.assert_array_equal(one, two)
    assert results[0].stop_reason is StopReason.TRAINED
    assert np.mean((one - target(TEST_X)) ** 2) < 0.03 * target(TEST_X).var()


@pytest.mark.slow
def test_chunks_in_which_no_row_has_a_weight_do_no_harm():
    X, y = rows(3500)
    weight = np.ones(3500)
    weight[:1000] = 0  # the first chunk and more
    y[:1000] = 1e6
    memory = least_memory(one_thread_regressor(16, curves=False)._spec(), TableSize(*X.shape, 1, 8))
    model = one_thread_regressor(16, curves=False, memory=memory).fit(X, y, sample_weight=weight)
    assert error_of(model) < 0.03


@pytest.mark.slow
@pytest.mark.parametrize("curves", [True, False])
def test_single_and_double_precision_learn_alike(curves):
    X, y = rows()
    double, single = (one_thread_regressor(curves=curves).fit(X.astype(dtype), y) for dtype in (np.float64, np.float32))
    assert double.predict(TEST_X).dtype == np.float64
    assert single.predict(TEST_X.astype(np.float32)).dtype == np.float32
    assert error_of(double) < 0.04
    assert error_of(single, TEST_X.astype(np.float32)) < 0.04


@pytest.mark.slow
@pytest.mark.parametrize("curves", [True, False])
def test_sparse_rows_learn_what_dense_rows_do(curves):
    X, y = rows()
    X[:, 2] *= np.random.default_rng(1).random(len(X)) < 0.3
    dense, sparse = (one_thread_regressor(curves=curves).fit(data, y) for data in (X, sp.csr_array(X)))
    np.testing.assert_allclose(sparse.predict(X), dense.predict(X), atol=0.1 * y.std())
    np.testing.assert_allclose(sparse.predict(sp.csr_array(X)), sparse.predict(X), atol=1e-9)
    assert sparse.score(X, y) > 0.95


@pytest.mark.slow
def test_rows_of_weight_zero_are_as_good_as_absent():
    X, y = rows(800)
    wrong = np.arange(800) % 4 == 0
    y[wrong] = 30 * np.random.default_rng(1).standard_normal(200)
    seeds_tried = range(3)
    without = [error_of(one_thread_regressor(random_state=seed).fit(X[~wrong], y[~wrong])) for seed in seeds_tried]
    weight = np.where(wrong, 0.0, 2.0)
    weighted = [
        error_of(one_thread_regressor(random_state=seed).fit(X, y, sample_weight=weight)) for seed in seeds_tried
    ]
    assert np.mean(weighted) == pytest.approx(np.mean(without), rel=0.2)
    assert np.mean(without) < 0.04


@pytest.mark.slow
def test_rows_of_weight_zero_take_no_place_in_the_sample_that_is_searched_on(monkeypatch):
    monkeypatch.setattr(refined, "SEARCH_ROWS", 600)
    X, y = rows(6000)
    weight = np.zeros(6000)
    weight[::20] = 1
    without = one_thread_regressor(curves=False).fit(X[::20], y[::20])
    weighted = one_thread_regressor(curves=False).fit(X, y, sample_weight=weight)
    assert len(weighted.trials_[0].outputs) == len(without.trials_[0].outputs) == 300


@pytest.mark.slow
@pytest.mark.parametrize("curves", [True, False])
def test_a_column_far_from_zero_does_no_harm(curves):
    X, y = rows()
    far, new = X.copy(), TEST_X.copy()
    for part in (far, new):
        part[:, 0] = part[:, 0] * 1e3 + 1e12
    model = one_thread_regressor(curves=curves).fit(far, y)
    assert np.mean((model.predict(new) - target(TEST_X)) ** 2) < 0.05 * target(TEST_X).var()


@pytest.mark.slow
@pytest.mark.parametrize("curves", [True, False])
def test_constant_columns_have_no_influence(curves):
    X, y = rows()
    constants = np.tile([0.0, 1e12, 0.1], (len(X), 1))
    model = one_thread_regressor(curves=curves).fit(np.hstack([constants, X]), y)
    np.testing.assert_array_equal(model.column_importance_[:3], 0)
    at = np.hstack([np.tile([5.0, -1e12, 3.0], (len(TEST_X), 1)), TEST_X])
    assert np.mean((model.predict(at) - target(TEST_X)) ** 2) < 0.05 * target(TEST_X).var()


@pytest.mark.parametrize("curves", [True, False])
def test_rows_that_are_all_alike_predict_the_mean(curves):
    y = rows()[1]
    model = one_thread_regressor(curves=curves).fit(np.full((700, 3), 4.2), y)
    np.testing.assert_allclose(model.predict(np.zeros((2, 3))), y.mean(), rtol=1e-6, atol=1e-6 * y.std())
    assert np.isfinite(model.column_importance_).all()


@pytest.mark.slow
@pytest.mark.parametrize("curves", [True, False])
def test_a_constant_target_is_predicted_everywhere_without_a_warning(curves):
    model = one_thread_regressor(curves=curves).fit(rows()[0], np.full(700, 7.0))
    np.testing.assert_allclose(model.predict(TEST_X), 7.0)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("curves", [True, False])
def test_predictions_are_bounded_far_from_the_rows(curves, dtype):
    X, y = rows()
    model = one_thread_regressor(curves=curves).fit(X.astype(dtype), y)
    far = np.random.default_rng(0).choice([-1e9, 0.0, 1e9], (200, 3)).astype(dtype)
    answers = model.predict(far)
    assert np.isfinite(answers).all()
    bound = abs(model.intercept_) + np.abs(model.output_weights_) @ np.abs(
        model.activation_(np.linspace(-3, 3, 301))
    ).max(axis=-1)
    assert np.abs(answers).max() <= 1.01 * bound
    assert np.abs(answers - y.mean()).max() < 50 * y.std()


# Columns


def test_columns_weaker_than_a_tenth_of_the_strongest_are_left_out_of_a_hunt():
    hunt = hunt_on(some_table())
    trial = Trial(QUICK, 16, 0.1, np.zeros((1, 1)), np.array([1.0, 0.0999, 0.1]))
    narrower = without_weak_columns(hunt, trial)
    assert narrower is not None
    np.testing.assert_array_equal(narrower.scale, [hunt.scale[0], 0, hunt.scale[2]])
    assert without_weak_columns(narrower, trial) is None  # it is left out already
    assert without_weak_columns(hunt, replace(trial, strength=np.ones(3))) is None


@each_quick_recipe
def test_a_column_that_was_left_out_has_no_influence_on_a_trial(recipe):
    table = some_table(400)
    hunt = hunt_on(table)
    hunt = replace(hunt, scale=hunt.scale * [1, 1, 0])
    other = np.random.default_rng(1).standard_normal(400)
    moved = replace(hunt, table=replace(table, X=np.column_stack([table.X[:, :2], other])))
    first, second = trial_of(hunt, SHAPE, recipe), trial_of(moved, SHAPE, recipe)
    np.testing.assert_array_equal(first.outputs, second.outputs)
    assert first.strength[2] == 0 < first.strength[:2].min()


@pytest.mark.slow
def test_useless_columns_leave_the_model_and_the_rest_is_as_good_as_without_them():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (3600, 12))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(3600)
    fitted = [RFLAFRegressor(24, random_state=0).fit(X[:1600, :d], y[:1600]) for d in (3, 12)]
    few, all_columns = (np.mean((m.predict(X[1600:, : m.n_features_in_]) - y[1600:]) ** 2) for m in fitted)
    assert all_columns < 1.15 * few
    assert fitted[1].column_importance_[3:].sum() < 0.01
    assert (fitted[1].column_importance_[:3] > 0.1).all()
