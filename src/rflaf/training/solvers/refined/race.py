"""The choice of recipes: a race over folds for few rows, a walk for many, and what follows from the rows held out.

In a race all recipes of a grid are trained on the first folds, the better ones on the others too, so that every row is
held out once; a model of a fold has the width of a member, and the race costs what a few fits of the whole width cost.
The recipes that the rows held out cannot tell from the best share the components of the final model: their mean errs
less than the best alone (on the sets of `benchmarks/breadth.py --sets choose`, by 4 % in the geometric mean).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rflaf.errors import Array
from rflaf.functions._kernels.refined import LANE
from rflaf.functions.losses import Huber, Squared
from rflaf.rows.executors import Executor

from .recipes import Recipe, RecipeTree
from .search import (
    PAYS,
    USUAL_FOLDS,
    Hunt,
    Outliers,
    Trial,
    by_error,
    by_rank,
    by_relevance,
    choose_width,
    find_outliers,
    search,
    without_weak_columns,
)
from .smoothing import CLASSES
from .trainer import Shape

_log = logging.getLogger("rflaf")
_MOST_ROUNDS = 3  # of leaving out columns
_FIRST_FOLDS, _FIRST_ROWS = 0.3, 100  # at most a share of the folds, with rows enough, that every recipe is tried on
_FIRST_EFFORT = 0.5  # of the epochs to come
_FIRST_EFFORT_OF_MANY, _MANY_ROWS = 0.3, 3000  # of more rows than this, of all epochs
_N_KEPT, _N_KEPT_OF_FEW = 4, 5  # recipes go on to all folds
_TRIED_AGAIN = 7  # recipes, without weak columns
_LEAST_WIDTH = 2 * LANE  # of the model of a fold
_MOST_BLENDED = 3
_ALIKE = 2.01  # times the penalty
_DOUBT_PAYS = 0.005  # of the error: what a doubt must win where it is not blended
_AS_GOOD = 2.0  # standard errors of the difference to the best
_LEAST_BLENDED_WIDTH = 3 * _LEAST_WIDTH  # of the model
_FOLDS_FOR_WIDTHS = 2
_MOST_RELEVANCE_ROWS = 250


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome of a search: the hunt on the columns kept, the trials with the best first, and its shape.

    ``recipes`` share the components of the final model among them, the best first; ``outputs`` (n_held_out, O) is
    what their mean says of the rows held out, and ``error`` its loss; ``shared`` (n_splits, n_shared, O) what the
    means of every split say of the same rows.
    """

    hunt: Hunt
    trials: tuple[Trial, ...]
    shape: Shape
    outliers: Outliers | None
    recipes: tuple[Recipe, ...]
    outputs: Array
    factors: tuple[float, ...]
    shared: Array

    @property
    def error(self) -> float:
        """The mean loss of the rows held out."""
        return self.hunt.mean_loss(self.shape.loss, self.outputs)


@dataclass(frozen=True, slots=True)
class Search:
    """What to search: recipes, whether far targets are right, and the width unless the tolerance is None.

    ``rivals`` are what simpler models say of the rows held out: a target that one of them explains is no outlier.
    ``independent`` rows tell the relevance of columns; rows of groups or of a time are alike, and mislead.
    """

    tree: RecipeTree
    keep_outliers: bool = False
    width_tolerance: float | None = None
    rivals: tuple[Array, ...] = ()
    independent: bool = True


def settle(hunt: Hunt, shape: Shape, search_for: Search, executor: Executor) -> Settled:
    """Search for the recipe; leave weak columns out, weigh outliers less, choose the width if a tolerance is given."""
    tree, width_tolerance = search_for.tree, search_for.width_tolerance
    relevant = search_for.independent and _tells_relevance(hunt, shape)
    hunts = [hunt, by_relevance(hunt, executor)] if relevant else [hunt]
    best, trials = _tried(hunts, shape, tree, executor)
    outliers = None if search_for.keep_outliers else find_outliers(hunt, trials[0], search_for.rivals)
    if outliers is not None:
        _log.info("%s", outliers)
        shape = replace(shape, loss=Huber(outliers.delta))
        best, trials = _tried([hunt], shape, tree, executor)
    hunt = best
    doubted = tree.doubted(trials[0].recipe, hunt.is_folded)
    trials = _with_doubts(hunt, shape, doubted, trials, executor)
    for _ in range(0 if hunt.scales else _MOST_ROUNDS):
        narrower = without_weak_columns(hunt, trials[0])
        if narrower is None:
            break
        (again,) = narrower.compare([(_judged_shape(hunt, shape), trials[0].recipe)], executor)
        if again.error > trials[0].error:
            break
        _log.info("search: %d of %d columns kept", np.count_nonzero(narrower.scale), narrower.scale.size)
        again_tried = {trial.recipe for trial in _to_try_again(hunt, shape, trials)}
        grid = tuple(recipe for recipe in (*tree.grid, *doubted) if recipe in again_tried)
        hunt, trials = _tried([narrower], shape, replace(tree, grid=grid), executor)
    trials = _with_own_values(hunt, shape, trials, executor)
    if width_tolerance is not None:
        trials = [*_widths(hunt, shape, trials[0], width_tolerance, executor), *trials]
        shape = replace(shape, n_components=trials[0].width)
    blended = _blend(hunt, shape, _judged(hunt, trials))
    outputs = np.mean([trial.outputs for trial in blended], axis=0)
    shared = np.mean([trial.shared for trial in blended], axis=0)
    recipes, factors = zip(*((trial.recipe, trial.factor) for trial in blended), strict=True)
    return Settled(hunt, tuple(trials), shape, outliers, recipes, outputs, factors, shared)


def _to_try_again(hunt: Hunt, shape: Shape, trials: Sequence[Trial]) -> Sequence[Trial]:
    """Return the trials whose recipes are tried without weak columns.

    The columns were chosen by all folds together, so the rows held out no longer tell weak penalties from strong ones.
    Under other losses than the squared one too weak a penalty costs most, and the recipes stay those of all columns.
    """
    return trials[:_TRIED_AGAIN] if shape.loss.closed_form else _blend(hunt, shape, _judged(hunt, trials))


def _tells_relevance(hunt: Hunt, shape: Shape) -> bool:
    """Return whether rows are few enough to measure the relevance of several columns, under the squared loss."""
    few = hunt.is_folded and hunt.table.n_rows <= _MOST_RELEVANCE_ROWS
    return few and shape.bandwidth is None and isinstance(shape.loss, Squared) and int(np.count_nonzero(hunt.scale)) > 1


def _widths(hunt: Hunt, shape: Shape, best: Trial, tolerance: float, executor: Executor) -> list[Trial]:
    """Return trials of the best recipe at several widths, the chosen one first; a few folds tell widths apart."""
    if not hunt.is_folded:
        return choose_width(hunt, shape, best, tolerance, executor)
    few = hunt.first(_FOLDS_FOR_WIDTHS)
    (usual,) = few.compare([(shape, best.recipe)], executor)
    return choose_width(few, shape, usual, tolerance, executor)


def _tried(hunts: Sequence[Hunt], shape: Shape, tree: RecipeTree, executor: Executor) -> tuple[Hunt, list[Trial]]:
    """Return the best of some hunts on the same rows, with the trials of a race or a walk, the best first."""
    hunt = hunts[0]
    if not hunt.is_folded:
        return hunt, search(hunt, shape, tree, executor)
    judged = _judged_shape(hunt, shape)
    hunt, trials = race(hunts, judged, tree.grid, executor)
    return hunt, trials if hunt.table.n_rows <= _MANY_ROWS else _followed(hunt, judged, tree, trials, executor)


def _followed(hunt: Hunt, shape: Shape, tree: RecipeTree, trials: list[Trial], executor: Executor) -> list[Trial]:
    """Return the trials with those that follow from the best of a race, such as finer nodes, while the error falls."""
    before = float("inf")
    while by_error(trials[0]) < before * (1 - PAYS):
        before, tried = by_error(trials[0]), {trial.recipe for trial in trials}
        next_ones = [recipe for recipe in tree.following.get(trials[0].recipe, ()) if recipe not in tried]
        trials = _with_others(hunt, shape, next_ones, trials, executor)
    return trials


def _with_own_values(hunt: Hunt, shape: Shape, trials: list[Trial], executor: Executor) -> list[Trial]:
    """Return the trials with the best recipes again, numbers that recur having a value each, where these are better.

    By two standard errors of the difference: most columns need no such values, few rows do not tell, and a column that
    must rise or fall has none.
    """

    def again(*recipes: Recipe) -> list[Trial]:
        judged = _judged_shape(hunt, shape)
        return hunt.compare([(judged, replace(recipe, own_values=True)) for recipe in recipes], executor)

    best, *others = _blend(hunt, shape, _judged(hunt, trials))
    few = hunt.table.n_rows <= _MANY_ROWS
    if few or shape.limits.signs or not best.recipe.nodes or not hunt.affords(replace(best.recipe, own_values=True)):
        return trials
    own = again(best.recipe)
    if not _is_better(*(hunt.losses(shape.loss, trial.outputs) for trial in (*own, best))):
        return trials
    own += again(*(other.recipe for other in others if other.recipe.nodes))
    return [*sorted(own, key=by_rank), *trials]


def _with_doubts(
    hunt: Hunt, shape: Shape, recipes: Sequence[Recipe], trials: list[Trial], executor: Executor
) -> list[Trial]:
    """Return the trials with those of recipes that are less sure.

    Where no mean of recipes is taken, the best of them must pay.
    """
    tried = _with_others(hunt, _judged_shape(hunt, shape), recipes, trials, executor)
    if hunt.is_folded or tried[0] is trials[0]:
        return tried
    pays = tried[0].error <= (1 - _DOUBT_PAYS) * trials[0].error
    return tried if pays else sorted(tried, key=lambda trial: trial is not trials[0])


def _with_others(
    hunt: Hunt, shape: Shape, recipes: Sequence[Recipe], trials: list[Trial], executor: Executor
) -> list[Trial]:
    """Return the trials with those of other recipes on all rows held out, the best first."""
    new = hunt.compare([(shape, recipe) for recipe in filter(hunt.affords, recipes)], executor)
    on_all = sorted([*_judged(hunt, trials), *new], key=by_rank)
    return [*on_all, *(trial for trial in trials if len(trial.outputs) < hunt.held_out.size)]


def _judged_shape(hunt: Hunt, shape: Shape) -> Shape:
    """Return the shape of the model of a fold: the width of all folds together is the width asked for."""
    if not hunt.is_folded or shape.whole:
        return shape
    of_a_fold = LANE * -(-shape.n_components // (LANE * USUAL_FOLDS))
    return replace(shape, n_components=min(shape.n_components, max(_LEAST_WIDTH, of_a_fold)))


def race(
    hunts: Sequence[Hunt], shape: Shape, recipes: Sequence[Recipe], executor: Executor
) -> tuple[Hunt, list[Trial]]:
    """Return the hunt that has the best trial, and its trials, the best first.

    All recipes are tried on the first folds for a share of the epochs, the better ones then on all folds.
    """
    tried = list[tuple[Hunt, Trial]]()
    for hunt in hunts:
        affordable = [(shape, recipe) for recipe in recipes if hunt.affords(recipe)]
        tried += [(hunt, trial) for trial in _first_folds(hunt, shape).compare(affordable, executor)]
    tried.sort(key=lambda pair: by_rank(pair[1]))
    n_kept = _N_KEPT if hunts[0].table.n_rows > _MANY_ROWS else _N_KEPT_OF_FEW
    n_kept -= isinstance(shape.loss, CLASSES)  # in favour of the doubts that follow
    on_all = [(hunt, _on_all_folds(hunt, shape, tried[:n_kept], executor)) for hunt in hunts]
    hunt, trials = min(on_all, key=lambda pair: min(map(by_error, pair[1]), default=float("inf")))
    for trial in trials:
        _log.info("search: out-of-fold error %.5g, %s", trial.error, trial.recipe)
    return hunt, [*trials, *(trial for own, trial in tried[n_kept:] if own is hunt)]


def _first_folds(hunt: Hunt, shape: Shape) -> Hunt:
    """Return the hunt on the folds that all recipes are tried on, under the squared loss for a share of the epochs."""
    if hunt.table.n_rows > _MANY_ROWS:
        return hunt.first(1).with_effort(min(_FIRST_EFFORT_OF_MANY, hunt.effort))
    n_first = int(np.clip(-(-_FIRST_ROWS // hunt.splits[0][1].size), 1, round(_FIRST_FOLDS * len(hunt.splits))))
    return hunt.first(n_first).with_effort((_FIRST_EFFORT if shape.loss.closed_form else 1.0) * hunt.effort)


def _on_all_folds(hunt: Hunt, shape: Shape, kept: Sequence[tuple[Hunt, Trial]], executor: Executor) -> list[Trial]:
    """Return trials on all folds of the recipes kept of a hunt, the best first."""
    own = [(shape, trial.recipe) for of, trial in kept if of is hunt]
    return sorted(hunt.compare(own, executor), key=by_rank)


def _judged(hunt: Hunt, trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials on all rows held out."""
    return [trial for trial in trials if len(trial.outputs) == hunt.held_out.size]


def _blend(hunt: Hunt, shape: Shape, trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials that the rows held out cannot tell from the best, which comes first."""
    if not hunt.is_folded or shape.whole or shape.n_components < _LEAST_BLENDED_WIDTH:
        return list(trials[:1])
    best = hunt.losses(shape.loss, trials[0].outputs)
    as_good = [trial for trial in trials[1:] if not is_told_from(hunt.losses(shape.loss, trial.outputs), best)]
    if isinstance(shape.loss, CLASSES):
        return _unlike([trials[0], *as_good])[:_MOST_BLENDED]
    return [trials[0], *as_good][:_MOST_BLENDED]


def _unlike(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials without those that two better ones resemble: of as many nodes, the penalty at most twofold."""
    kept = list[Trial]()
    for trial in trials:
        penalties = [other.recipe.alpha for other in kept if other.recipe.nodes == trial.recipe.nodes]
        if sum(max(alpha, trial.recipe.alpha) <= _ALIKE * min(alpha, trial.recipe.alpha) for alpha in penalties) < 2:
            kept.append(trial)
    return kept


def _is_better(losses: Array, best: Array) -> bool:
    """Return whether the rows held out tell a model, as the better one, from the best."""
    return bool(losses.mean() < best.mean()) and is_told_from(best, losses)


def is_told_from(losses: Array, best: Array) -> bool:
    """Return whether the rows held out tell a model from the best: by two standard errors of the difference."""
    worse = losses - best
    return not worse.mean() <= _AS_GOOD * worse.std() / np.sqrt(worse.size)
