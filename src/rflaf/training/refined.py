"""Refined models in five steps: directions, curves and activations are trained together.

`refine` reads top to bottom: hold rows out, search for a recipe, let models of random directions compete where rows are
few, train the winner on all rows, fit its output weights.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from rflaf.errors import Array, StopReason
from rflaf.functions.losses import same_units
from rflaf.model.curved_features import compile_features
from rflaf.model.random_feature_model import Activation
from rflaf.rows.blocks import ArraySource
from rflaf.training.solvers.refined.encoded_rows import Streamed, read
from rflaf.training.solvers.refined.ensemble import merge_members, start_members, train_members
from rflaf.training.solvers.refined.recipes import CURVED, EITHER, STRAIGHT, WIDE, RecipeTree
from rflaf.training.solvers.refined.search import Hunt, Settled, hold_out, settle
from rflaf.training.solvers.refined.trainer import Refined, Shape

from .algorithm1 import run_algorithm1
from .final_fit import SAMPLE_ROWS, FitResult, Fitted, conclude, keep_trained
from .problem import Fit, in_units, measure_finite
from .specification import FEW_ROWS, FIRST_WIDTH, SEARCH_ROWS, FitSpec

_log = logging.getLogger("rflaf")
_EFFORT, _EFFORT_OF_MANY = 0.5, 0.4  # of the epochs: enough to rank recipes under the squared loss
_MANY_ROWS = 10_000
_MANY_COLUMNS = 1000  # wider tables, as of pixels, keep straight columns unless curves are asked for
_ENCODED_MEMORY = 2**31


def refine(fit: Fit) -> FitResult:
    """Train directions, curves and activations together, then fit the output weights on all rows."""
    # Step 1: hold rows of a sample out.
    hunt, shape = _hold_rows_out(fit)
    # Step 2: search for the recipe that does best on them.
    width_tolerance = fit.spec.width_tolerance if fit.spec.n_components is None else None
    found = settle(hunt, shape, _recipes(fit), fit.spec.keep_outliers, width_tolerance, fit.executor)
    # Step 3: with few rows, prefer a target-independent model that does better.
    rival = _better_rival(fit, found)
    if rival is not None:
        return replace(run_algorithm1(replace(fit, spec=rival)), trials=found.trials)
    # Step 4: train on all rows.
    refined, trace = _train_on_all_rows(fit, found)
    # Step 5: fit the output weights.
    fitted = _fit_output_weights(fit, found, refined)
    model = fitted.model(refined.directions, fit.problem.units, refined.curves)
    bandwidth = 1.0 if fit.spec.bandwidth is None else fit.spec.bandwidth
    reason = StopReason.TRAINED if fit.problem.units.scale.any() else StopReason.NOTHING_TO_LEARN
    training = {"bandwidth": bandwidth, "trace": trace, "stop_reason": reason}
    return conclude(fit, fitted, model, found.recipe.alpha, **training, trials=found.trials, outliers=found.outliers)


def for_few_rows(fit: Fit) -> list[FitSpec]:
    """Return models of target-independent directions, the simplest first."""
    models = fit.spec.for_few_rows(fit.source.n_features)
    return models if fit.closed_form else models[-1:]  # other losses take long; the last model contains all


def _mean_weight(fit: Fit) -> float:
    return fit.problem.moments.X.weight / fit.problem.moments.n_used


def _hold_rows_out(fit: Fit) -> tuple[Hunt, Shape]:
    """Step 1: return a sample of rows with some held out, and the shape of the model to train."""
    problem, spec, n_rows = fit.problem, fit.spec, fit.problem.moments.n_used
    to_search = fit.source.sample(SEARCH_ROWS * fit.source.n_samples // n_rows, fit.rng)
    sample = read(to_search, range(len(to_search)), _mean_weight(fit))
    effort = _EFFORT_OF_MANY if n_rows > _MANY_ROWS else _EFFORT
    if not fit.closed_form:  # the best penalty depends on the number of epochs
        effort = 1.0
    hunt = hold_out(sample, problem.moments.X.mean, problem.moments.scale, fit.rng, effort)
    width = FIRST_WIDTH if spec.n_components is None else spec.n_components
    base = tuple(map(float, problem.base))
    return hunt, Shape(width, spec.basis, not spec.per_component, spec.density, spec.bandwidth, problem.loss, base)


def _recipes(fit: Fit) -> RecipeTree:
    """Return the recipes to try: curved, straight or either; penalties are given or scale with the loss."""
    tree = {None: EITHER, True: CURVED, False: STRAIGHT}[fit.spec.curves]
    if not fit.spec.curves and fit.source.n_features > _MANY_COLUMNS:
        tree = WIDE
    if fit.spec.alpha is not None:
        return tree.with_alpha(fit.spec.alpha)
    return tree.scaled((fit.problem.curvature / 2) ** 0.5)


def _better_rival(fit: Fit, found: Settled) -> FitSpec | None:
    """Step 3: return the target-independent model that beats the best trial, or None."""
    few = fit.problem.moments.n_used <= FEW_ROWS
    if not few or found.outliers is not None or fit.spec.alpha is not None or not fit.spec.per_component:
        return None
    rivals = for_few_rows(fit)
    errors = [_rival_error(replace(fit, spec=rival), found.hunt) for rival in rivals]
    if min(errors) >= found.trials[0].error:
        return None
    _log.info("search: random directions do better on the rows held out")
    return rivals[int(np.argmin(errors))]


def _rival_error(fit: Fit, hunt: Hunt) -> float:
    """Return the error of random directions on the rows held out; the first split chooses the ridge of all."""
    table, loss, outputs = hunt.table, fit.problem.loss, []
    for kept, held_out in hunt.splits:
        part = ArraySource(table.X[kept], table.y[kept], table.weight[kept].astype(table.X.dtype))
        moments, units = measure_finite(part, fit.executor), same_units(part.n_outputs)
        inside = replace(fit, problem=in_units(part, loss, moments, units, fit.spec.intercept, fit.rng))
        result = run_algorithm1(inside)
        fit = fit.respecified(alpha=result.alpha)
        outputs.append(result.model.decision(table.X[held_out]))
    error = hunt.mean_loss(loss, np.concatenate(outputs))
    _log.info("search: hold-out error %.5g, %d random directions", error, fit.spec.most_components)
    return error


def _train_on_all_rows(fit: Fit, found: Settled) -> tuple[Refined, Array]:
    """Step 4: return the members of the winner, trained on all rows and merged, and the loss of every epoch."""
    n_rows, memory = fit.problem.moments.n_used, fit.spec.memory
    encoding, _ = found.hunt.encoded(found.recipe.nodes)
    chunks = Streamed(fit.source, encoding, _mean_weight(fit), _ENCODED_MEMORY if memory is None else memory)
    start = found.hunt.table.X[:SAMPLE_ROWS]
    members = start_members(encoding, chunks[0][0], start, found.shape, found.recipe, fit.rng, n_rows)
    trace = train_members(members, chunks, n_rows, run_steps=fit.executor.fold, side_by_side=fit.executor.side_by_side)
    _log.info("trained %d components on %d rows, %s", found.shape.n_components, n_rows, found.recipe)
    return _with_one_shape(merge_members(members)), trace


def _with_one_shape(refined: Refined) -> Refined:
    """Return the model with the scales of its activations in its output weights, where the basis is one function."""
    if refined.a.shape[1] > 1:
        return refined
    return replace(refined, a=np.ones((1, 1)), V=refined.V * refined.a)


def _fit_output_weights(fit: Fit, found: Settled, refined: Refined) -> Fitted:
    """Step 5: keep the trained output weights, with the sums that update them under the squared loss."""
    activation = Activation(fit.spec.basis, refined.a)
    if not fit.closed_form:
        return Fitted(activation, refined.V, fit.problem.base, solved=StopReason.TRAINED)
    hunt, delta, pieces = found.hunt, found.shape.loss.reach, fit.spec.basis.pieces(refined.a)
    features = compile_features(refined.directions, refined.curves, pieces, refined.a, fit.source.dtype)
    squares = np.minimum(np.abs(hunt.residual(found.trials[0]).astype(np.float64)), delta) ** 2
    noise = np.average(squares, axis=0, weights=hunt.table.weight[hunt.held_out])
    return keep_trained(fit, features, activation, refined.V, delta, noise)
