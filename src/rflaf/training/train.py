"""The entry to training: plan the memory, state the problem, choose refined directions or Algorithm 1."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from rflaf.errors import InvalidParameterError
from rflaf.functions.losses import Loss, quantiles, same_units
from rflaf.rows.blocks import MOST_ROWS, BlockSource
from rflaf.rows.executors import Executor
from rflaf.rows.weights import WeightedRows, as_importance, of_mean_one
from rflaf.training.solvers.refined.encoded_rows import read
from rflaf.training.solvers.refined.search import TO_DEVIATIONS

from .algorithm1 import run_algorithm1
from .final_fit import FitResult
from .held_out import splits_in_use
from .levels import on_indicators
from .memory import TableSize, plan_fit
from .problem import Fit, in_units, measure_finite, state_problem
from .refined import refine
from .rivals import best_of_simple
from .specification import LEAST_REFINED_ROWS, FitSpec

_log = logging.getLogger("rflaf")
_PILOT_ROWS, _PILOT_WIDTH = 6000, 100
_LEAST_UNIT = 1e-100  # of weights: sums in a smaller one would not be numbers


def train_model(source: BlockSource, spec: FitSpec, rng: np.random.Generator, executor: Executor) -> FitResult:
    """Train a model on the rows of a source: refined directions, or random ones by Algorithm 1."""
    rows = None
    if not executor.elsewhere(source):
        rows = as_importance(source, spec.memory, merge=spec.splits is None and not spec.exposed)
    rows = of_mean_one(source, executor) if rows is None else rows
    result = _train_weighted(rows.source, spec, rng, executor)
    model = result.model
    parts = (model.directions.W, model.directions.offset, model.activation.coefficients, model.v, model.intercept)
    if not all(np.isfinite(part).all() for part in parts):
        rule = "the numbers of a fitted model must be finite"
        raise InvalidParameterError(rule, "some that are not", "Divide columns and targets by their spread.")
    return _in_unit(result, rows)


def _in_unit(result: FitResult, rows: WeightedRows) -> FitResult:
    """Return the result with its sums in the unit of the weights given, so that weights of later rows compare."""
    if rows.place is not None and result.held_out is not None:
        result = replace(result, held_out=replace(result.held_out, decision=result.held_out.decision[rows.place]))
    if result.judged is not None:
        result = replace(result, judged=replace(result.judged, unit=rows.unit))
    if rows.unit == 1.0 or not _LEAST_UNIT < rows.unit < 1 / _LEAST_UNIT:
        return result
    layer, terms = result.model.last_layer, replace(result.terms, weight=result.terms.weight * rows.unit)
    if layer is not None:
        sums = replace(layer.equations, moments=layer.equations.moments * rows.unit)
        layer = replace(layer, equations=sums)
    return replace(result, model=replace(result.model, last_layer=layer), terms=terms)


def _train_weighted(source: BlockSource, spec: FitSpec, rng: np.random.Generator, executor: Executor) -> FitResult:
    """Train a model on rows whose weights have mean one."""
    source, spec, executor = _within_memory(source, spec, executor)
    fit = Fit(state_problem(source, spec.loss, spec.intercept, rng, executor), spec, rng, executor)
    if fit.problem.loss.needs_spread:
        fit = replace(fit, problem=replace(fit.problem, loss=_loss_for_spread(fit)))
    fit = splits_in_use(fit)
    if not spec.refined:
        return run_algorithm1(replace(fit, judge=fit.closed_form))
    if fit.problem.moments.n_used < LEAST_REFINED_ROWS:
        _log.info("too few rows to train on some of them: using the best of simpler models")
        return on_indicators(fit, best_of_simple)
    return refine(fit)


def _within_memory(source: BlockSource, spec: FitSpec, executor: Executor) -> tuple[BlockSource, FitSpec, Executor]:
    """Cut blocks and limit workers to fit the memory; ``memory`` of the returned specification is what is left."""
    size = TableSize.of(source)
    table = replace(size, n_features=spec.n_drawn_for(size.n_features))
    budget = plan_fit(spec, replace(table, itemsize=8) if spec.exact else table)
    if budget.n_workers is not None:
        executor = executor.limited(budget.n_workers)
    return source.with_rows(budget.block_rows), replace(spec, memory=budget.left), executor


def _loss_for_spread(fit: Fit) -> Loss:
    """Return the loss for the spread of the residuals of a first fit: the paper's model on a sample of rows."""
    sample = fit.source.sample(_PILOT_ROWS, fit.rng).with_rows(MOST_ROWS)
    width = min(_PILOT_WIDTH, fit.spec.most_components)
    pilot = fit.respecified(refined=False, sampling="plain", per_component=False, n_components=width, alpha=None)
    moments, units = measure_finite(sample, fit.executor), same_units(sample.n_outputs)
    inside = in_units(sample, fit.problem.loss, moments, units, fit.spec.intercept, fit.rng)
    model = run_algorithm1(replace(pilot, problem=inside)).model
    table = read(sample, range(len(sample)), 1.0)
    off = np.abs(table.y - model.decision(table.X)).astype(np.float64)
    return fit.problem.loss.for_spread(TO_DEVIATIONS * float(quantiles(off, table.weight, 0.5).mean()))
