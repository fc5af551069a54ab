"""Refined models in five steps: directions, curves and activations are trained together.

`refine` reads top to bottom: hold rows out, search for recipes, let simpler models compete on the same rows, train the
winners on all rows, fit their output weights.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from rflaf.errors import Array, StopReason
from rflaf.model.curved_features import compile_features
from rflaf.model.random_feature_model import Activation
from rflaf.rows.blocks import StandardisedTargets
from rflaf.training.solvers.refined.encoded_rows import Chunks, Streamed, read
from rflaf.training.solvers.refined.ensemble import merge_members, merge_models, start_members, train_members
from rflaf.training.solvers.refined.race import Search, Settled, settle
from rflaf.training.solvers.refined.recipes import CURVED, EITHER, STRAIGHT, WIDE, Recipe, RecipeTree
from rflaf.training.solvers.refined.search import MOST_FOLDED_ROWS, Hunt, hold_out
from rflaf.training.solvers.refined.smoothing import CLASSES
from rflaf.training.solvers.refined.trainer import Refined, Shape

from .blend import blend
from .doubt import refits_of
from .fewer_rows import judge_by_fewer
from .final_fit import SAMPLE_ROWS, FitResult, Fitted, conclude, keep_trained
from .held_out import HeldOut, Judged, among_used, judged, report_held_out, rows_in_use
from .problem import Fit
from .rivals import better_rival, judge_rivals
from .specification import FEW_ROWS, FIRST_WIDTH, SEARCH_ROWS
from .temperature import classes_of, temperature

_log = logging.getLogger("rflaf")
_EFFORT, _EFFORT_OF_MANY = 0.5, 0.4  # of the epochs: enough to rank recipes under the squared loss
_EFFORT_OF_OTHERS = 0.5  # under other losses: penalties that are too weak for all epochs are refused all the same
_ALL_EPOCHS = 1000  # rows, up to which all epochs are trained for
_FEW_LABELS = 400  # rows, up to which a pass has few steps
_EPOCHS_OF_TWO, _EPOCHS_OF_MORE = 0.5, 0.7  # share for labels of few rows: for two classes, for more
_MANY_COLUMNS = 1000  # wider tables, as of pixels, keep straight columns unless curves are asked for
_ENCODED_MEMORY = 2**31
_STARTS, _STUCK = 3, 1.1  # at most; of the loss of the rows held out, above which training has met a poor minimum
_STRONG = 0.05  # a penalty


def refine(fit: Fit) -> FitResult:
    """Train directions, curves and activations together, then fit the output weights on all rows."""
    # Step 1: hold rows of a sample out.
    hunt, shape = _hold_rows_out(fit)
    # Step 2: search for the recipes that do best on them, beside simpler models.
    rivals = judge_rivals(fit, hunt)
    search = Search(
        _recipes(fit),
        keep_outliers=fit.spec.keep_outliers or not fit.closed_form,
        width_tolerance=fit.spec.width_tolerance if fit.spec.n_components is None else None,
        rivals=tuple(rival.outputs for rival in rivals),
        independent=fit.spec.splits is None,
    )
    found = settle(hunt, shape, search, fit.executor)
    # Step 3: prefer the mean with simpler models, or one of them, that does as well on the rows held out.
    mixed = blend(fit, rivals, found)
    rival = better_rival(fit, rivals, found) if mixed is None else None
    if rival is not None:
        return replace(rival, trials=found.trials)
    # Step 4: train on all rows.
    found = found if mixed is None else mixed.found
    refined, trace = _train_on_all_rows(fit, found)
    intercept = fit.problem.base
    if mixed is not None:
        refined, intercept = mixed.joined(refined), mixed.intercept(intercept)
    # Step 5: fit the output weights.
    found, refined, intercept = _calibrated(fit, found, refined, intercept)
    fitted = _fit_output_weights(fit, found, refined, intercept)
    judges = _judged(fit, found)
    if mixed is None:
        judges = replace(judges, fewer=judge_by_fewer(fit, found))
    model = fitted.model(refined.directions, fit.problem.units, refined.curves)
    bandwidth = 1.0 if fit.spec.bandwidth is None else fit.spec.bandwidth
    reason = StopReason.TRAINED if fit.problem.units.scale.any() else StopReason.NOTHING_TO_LEARN
    training = {"bandwidth": bandwidth, "trace": trace, "stop_reason": reason}
    alpha = found.recipes[0].alpha
    found_out = {"trials": found.trials, "outliers": found.outliers, "held_out": _held_out(fit, found)}
    refits = refits_of(found, fit.problem.moments.n_used)
    return conclude(fit, fitted, model, alpha, **training, **found_out, judged=judges, refits=refits)


def _held_out(fit: Fit, found: Settled) -> HeldOut | None:
    """Return what the search says of the rows that it held out; None if it saw a sample of the rows only."""
    hunt = found.hunt
    if fit.source.n_samples > SEARCH_ROWS and fit.spec.splits is None:
        return None
    rows, table = rows_in_use(fit.source)[0][hunt.held_out], hunt.table
    return report_held_out(fit, found.outputs, rows, table.y[hunt.held_out], table.weight[hunt.held_out])


def _judged(fit: Fit, found: Settled) -> Judged:
    """Return the rows that the search held out, of all rows or of a sample, with what their mean says of them."""
    rows, table = found.hunt.held_out, found.hunt.table
    return judged(fit, table.X, rows, table.y[rows], found.outputs, table.weight[rows])


def _calibrated(fit: Fit, found: Settled, refined: Refined, intercept: Array) -> tuple[Settled, Refined, Array]:
    """Return outputs nearer to the constant answer where the rows held out show them to be too sure."""
    hunt, base = found.hunt, fit.problem.base
    weight = hunt.table.weight[hunt.held_out]
    factor = temperature(fit.problem.loss, found.outputs, hunt.table.y[hunt.held_out], weight, base)
    if factor == 1:
        return found, refined, intercept
    _log.info("search: the rows held out show models that are too sure: log odds times %.3g", factor)
    outputs, shared = (base + factor * (f - base) for f in (found.outputs, found.shared))
    return (
        replace(found, outputs=outputs, shared=shared),
        replace(refined, V=factor * refined.V),
        base + factor * (intercept - base),
    )


def _mean_weight(fit: Fit) -> float:
    return fit.problem.moments.X.weight / fit.problem.moments.n_used


def _hold_rows_out(fit: Fit) -> tuple[Hunt, Shape]:
    """Step 1: return a sample of rows with some held out, and the shape of the model to train."""
    problem, spec, n_rows = fit.problem, fit.spec, fit.problem.moments.n_used
    to_search = fit.source
    if spec.splits is None:
        to_search = fit.source.sample(SEARCH_ROWS * fit.source.n_samples // n_rows, fit.rng)
    sample = replace(read(to_search, range(len(to_search)), _mean_weight(fit)), levels=spec.levels)
    effort = _EFFORT_OF_MANY if n_rows > MOST_FOLDED_ROWS else max(_EFFORT, min(1.0, (_ALL_EPOCHS / n_rows) ** 0.5))
    if not fit.closed_form:
        effort = _EFFORT_OF_OTHERS
    classes = classes_of(problem.loss, sample.y)
    hunt = hold_out(sample, problem.moments.X.mean, problem.moments.scale, fit.rng, effort, classes)
    if spec.splits is not None:
        hunt = replace(hunt, splits=among_used(spec.splits, rows_in_use(fit.source)[0], fit.source.n_samples))
    if spec.lessons:
        scaled = StandardisedTargets(fit.source, problem.units.centre, problem.units.scale)
        used = rows_in_use(fit.source)[0]
        hunt = replace(hunt, lessons=tuple(scaled.transformed(targets[used]) for targets in spec.lessons))
    width = FIRST_WIDTH if spec.n_components is None else spec.n_components
    base = tuple(map(float, problem.base))
    kind = spec.basis, not spec.per_component, spec.density, spec.bandwidth
    return hunt, Shape(width, *kind, problem.loss, base, spec.limits)


def _recipes(fit: Fit) -> RecipeTree:
    """Return the recipes to try: curved, straight or either; penalties are given or scale with the loss."""
    tree = {None: EITHER, True: CURVED, False: STRAIGHT}[fit.spec.curves]
    if not fit.spec.curves and fit.source.n_features > _MANY_COLUMNS:
        tree = WIDE
    if isinstance(fit.problem.loss, CLASSES):
        tree = tree.for_classes(fit.source.n_outputs)
        if _FEW_LABELS < fit.problem.moments.n_used <= FEW_ROWS:
            tree = tree.shorter(_EPOCHS_OF_TWO if fit.source.n_outputs == 1 else _EPOCHS_OF_MORE)
    if fit.spec.alpha is not None:
        return tree.with_alpha(fit.spec.alpha)
    return tree.scaled((fit.problem.curvature / 2) ** 0.5)


def _train_on_all_rows(fit: Fit, found: Settled) -> tuple[Refined, Array]:
    """Step 4: return the members of the winners, trained on all rows and merged, and the loss of every epoch.

    The losses are those of the best recipe.
    """
    width, n_recipes = found.shape.n_components, len(found.recipes)
    shares = np.diff(np.arange(n_recipes + 1) * width // n_recipes)
    models, traces = zip(
        *(
            _train_well(fit, found, replace(found.shape, n_components=int(share)), recipe)
            for share, recipe in zip(shares, found.recipes, strict=True)
        ),
        strict=True,
    )
    as_judged = [
        model if factor == 1 else replace(model, V=factor * model.V)
        for model, factor in zip(models, found.factors, strict=True)
    ]
    return _with_one_shape(merge_models(as_judged)), traces[0]


def _train_well(fit: Fit, found: Settled, shape: Shape, recipe: Recipe) -> tuple[Refined, Array]:
    """Return the best of a few trainings from other directions, the first if it errs no more than on rows held out.

    Under a strong penalty every other random start loses a direction for good; its training rows tell. A search passes
    such penalties over for weaker ones. Where the penalty is given, the rows held out may have lost it too.
    """
    trained, most = [_train(fit, found, shape, recipe)], _expected_loss(found, recipe)
    if fit.spec.alpha is not None and recipe.alpha >= _STRONG:
        most = -float("inf")
    while len(trained) < _STARTS and trained[-1][1][-1] > most:
        _log.info("trained to a loss of %.5g: trained again", trained[-1][1][-1])
        trained.append(_train(fit, found, shape, recipe))
    return min(trained, key=lambda model_and_losses: float(model_and_losses[1][-1]))


def _expected_loss(found: Settled, recipe: Recipe) -> float:
    """Return what a training on all rows should not exceed, by the rows that a recipe's trial held out."""
    hunt, loss = found.hunt, found.shape.loss
    tried = (trial for trial in found.trials if trial.recipe == recipe)
    outputs = next((one.outputs for one in tried if len(one.outputs) == hunt.held_out.size), None)
    if outputs is None:
        return float("inf")
    losses = (hunt.with_smoothed_labels(loss, recipe.smoothing) if recipe.smoothing else hunt).losses(loss, outputs)
    return float(_STUCK * losses.mean() + 2 * losses.std() / np.sqrt(losses.size))


def _train(fit: Fit, found: Settled, shape: Shape, recipe: Recipe) -> tuple[Refined, Array]:
    """Return a model trained on all rows by one recipe, and the loss of every epoch."""
    n_rows, memory = fit.problem.moments.n_used, fit.spec.memory
    encoding, rows = found.hunt.encoded(recipe)
    chunks: Chunks = [(rows, np.arange(n_rows))]
    if not found.hunt.lessons:
        chunks = Streamed(fit.source, encoding, _mean_weight(fit), _ENCODED_MEMORY if memory is None else memory)
    start = found.hunt.table.X[:SAMPLE_ROWS]
    members = start_members(encoding, chunks[0][0], start, shape, recipe, fit.rng, n_rows)
    trace = train_members(members, chunks, n_rows, run_steps=fit.executor.fold, side_by_side=fit.executor.side_by_side)
    _log.info("trained %d components on %d rows, %s", shape.n_components, n_rows, recipe)
    return merge_members(members), trace


def _with_one_shape(refined: Refined) -> Refined:
    """Return the model with the scales of its activations in its output weights, where the basis is one function."""
    if refined.a.shape[1] > 1:
        return refined
    return replace(refined, a=np.ones((1, 1)), V=refined.V * refined.a)


def _fit_output_weights(fit: Fit, found: Settled, refined: Refined, intercept: Array) -> Fitted:
    """Step 5: keep the trained output weights, with the sums that give the intercept under the squared loss."""
    activation = Activation(fit.spec.basis, refined.a)
    if not fit.closed_form:
        return Fitted(activation, refined.V, intercept, solved=StopReason.TRAINED)
    hunt, delta, pieces = found.hunt, found.shape.loss.reach, fit.spec.basis.pieces(refined.a)
    features = compile_features(refined.directions, refined.curves, pieces, refined.a, fit.source.dtype)
    residual = np.abs(hunt.table.y[hunt.held_out] - found.outputs).astype(np.float64)
    squares = np.minimum(residual, delta) ** 2
    noise = np.average(squares, axis=0, weights=hunt.table.weight[hunt.held_out])
    return keep_trained(fit, features, activation, refined.V, delta, noise)
