"""The whole method on one page: from rows to a fitted model.

`_sample` is Algorithm 1 of the paper, line by line; `_keep_by_leverage` are its lines 2 to 5. `_refine`
trains the directions too, by the recipe that does best on rows held out. Everything reads the rows through blocks and
draws random numbers from one generator, so a seed fixes the model whatever the number of threads; for random directions
another block size changes the sums only by rounding.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np

from rflaf.errors import Array, StopReason
from rflaf.functions.densities import Directions
from rflaf.functions.losses import HUBER_DEVIATIONS, Huber, Loss, quantiles, same_units
from rflaf.model.features import compile_features
from rflaf.model.greedy import Selection
from rflaf.model.normal_equations import Remedy
from rflaf.model.random_feature_model import Activation, RandomFeatureModel
from rflaf.rows.blocks import MOST_ROWS, ArraySource, BlockSource
from rflaf.rows.executors import Executor
from rflaf.training.solvers.leverage import Leverage, resample_and_mark
from rflaf.training.solvers.refined.encoded_rows import Streamed, read
from rflaf.training.solvers.refined.ensemble import begin_members, fold_members
from rflaf.training.solvers.refined.ensemble import train as train_members
from rflaf.training.solvers.refined.search import (
    BENT,
    EITHER,
    STRAIGHT,
    TO_DEVIATIONS,
    WIDE,
    Hunt,
    Outliers,
    Plan,
    Trial,
    hold_out,
    settle,
)
from rflaf.training.solvers.refined.trainer import Shape
from rflaf.training.solvers.shared_activation import SharedActivation

from .final_fit import Fitted, fit_per_component, fit_shared, keep_trained
from .memory import TableSize, plan_fit
from .online import Terms
from .pools import draw_activations, draw_pool, enough_components, learn_activation, score_pool, select_pool
from .problem import Problem, in_units, measure_finite, state_problem
from .specification import FEW_ROWS, FIRST_WIDTH, FitSpec

_log = logging.getLogger("rflaf")
_SAMPLE_ROWS = 2000
_SEARCH_ROWS = 20_000
_EFFORT, _EFFORT_OF_MANY = 0.5, 0.4  # of the epochs: enough to tell which recipe is best under the squared loss
_MANY_ROWS = 10_000
_PILOT_ROWS, _PILOT_WIDTH = 6000, 100
_MANY_COLUMNS = 1000  # wider tables, as of pixels, stay straight unless asked to bend
_ENCODED_MEMORY = 2**31
LEAST_REFINED_ROWS = 50


@dataclass(frozen=True, slots=True)
class FitResult:
    """A model and how it came about."""

    model: RandomFeatureModel
    loss: Loss
    remedy: Remedy
    terms: Terms
    alpha: float
    bandwidth: float
    trace: Array
    stop_reason: StopReason
    column_importance: Array
    leverage: Leverage | None = None
    selection: Selection | None = None
    trials: tuple[Trial, ...] = ()
    outliers: Outliers | None = None


def train(source: BlockSource, spec: FitSpec, rng: np.random.Generator, executor: Executor) -> FitResult:
    """A model of the rows: refined directions, or random ones by Algorithm 1."""
    source, spec, executor = _plan(source, spec, executor)
    problem = state_problem(source, spec.loss, spec.intercept, rng, executor)
    if problem.loss == Huber():
        problem = problem.with_loss(_find_delta(problem, spec, rng, executor))
    if not spec.refined:
        return _sample(problem, spec, rng, executor)
    if problem.moments.n_used < LEAST_REFINED_ROWS:
        _log.info("too few rows to hold some out: directions that need no choice")
        return _sample(problem, _for_few_rows(problem, spec)[0], rng, executor)
    return _refine(problem, spec, rng, executor)


def _sample(problem: Problem, spec: FitSpec, rng: np.random.Generator, executor: Executor) -> FitResult:
    """Algorithm 1, lines 1 to 6; plain sampling is lines 1 and 6.

    Greedy selection takes the place of lines 3 to 5, and one activation a component that of the shared one in line 6.
    Under another loss than the squared one, lines 2 and 6 minimise that.
    """
    source = problem.source
    # Line 1: draw a pool of directions w ~ p(w), for standardised inputs at a length scale of the data.
    bandwidth, pool = draw_pool(problem, spec, rng, executor)
    _log.info("line 1: %d directions for %d columns, bandwidth %.3g", spec.n_pool, source.n_features, bandwidth)
    # Lines 2 to 5: the components to keep.
    kept = _SAMPLING[spec.sampling](problem, pool, spec, rng, executor)
    # Line 6: learn the activation of the components kept, and their output weights on all rows.
    fitted, trace, reason = _solve(problem, kept, spec, rng, executor)
    model = fitted.model(kept.directions, problem.units)
    alpha = fitted.ridge / kept.directions.n_draws
    _log.info("line 6: %d components on %d rows, alpha %.3g", model.n_components, source.n_samples, alpha)
    importance = _column_importance(model, source.sample(_SAMPLE_ROWS, rng))
    return FitResult(
        model,
        problem.own_loss,
        fitted.remedy,
        _terms(problem, fitted, spec),
        alpha,
        bandwidth,
        trace,
        reason,
        importance,
        kept.leverage,
        kept.selection,
    )


@dataclass(frozen=True, slots=True)
class _Kept:
    """The components to fit, an activation to start from, and what they were chosen by."""

    directions: Directions
    start: SharedActivation | None = None
    leverage: Leverage | None = None
    selection: Selection | None = None


def _keep_first(
    problem: Problem, pool: Directions, spec: FitSpec, rng: np.random.Generator, executor: Executor
) -> _Kept:
    """Plain sampling: the whole pool, or as many of its first directions as are enough."""
    return _Kept(pool) if spec.n_components is not None else _keep_enough(problem, pool, spec, rng, executor)


def _keep_enough(
    problem: Problem, pool: Directions, spec: FitSpec, rng: np.random.Generator, executor: Executor
) -> _Kept:
    """The first directions of the pool, as many as bring the error within the tolerance of the lowest."""
    first = pool.take(np.arange(min(spec.widest, pool.n_components)))
    start = learn_activation(problem, first, spec, rng, executor)
    width = enough_components(problem, first, start, spec, rng, executor).best_width(spec.tolerance)
    _log.info("width: %d components are enough", width)
    return _Kept(first.take(np.arange(width)), start)


def _keep_by_leverage(
    problem: Problem, pool: Directions, spec: FitSpec, rng: np.random.Generator, executor: Executor
) -> _Kept:
    """Lines 2 to 5: components drawn in proportion to their leverage scores, as many as plain sampling needs."""
    width, start = spec.n_components, None
    if width is None:
        enough = _keep_enough(problem, pool, spec, rng, executor)
        width, start = enough.directions.n_components, enough.start
    # Line 2: fit the pool and keep its activation.
    approximate = learn_activation(problem, pool, spec, rng, executor, start)
    _log.info("line 2: the pool's activation %s", approximate.stop_reason.value)
    # Line 3: ridge leverage scores of the pool under that activation.
    leverage = score_pool(problem.source, pool, approximate, spec, rng, executor).settled()
    _log.info("line 3: effective dimension %.1f, scores spread %.1f", leverage.effective_dimension, leverage.spread)
    # Lines 4 and 5: draw components in proportion to their scores, weights sqrt(p/q).
    directions, leverage = resample_and_mark(pool, leverage, width, rng)
    return _Kept(directions, approximate, leverage)


def _keep_greedily(
    problem: Problem, pool: Directions, spec: FitSpec, rng: np.random.Generator, executor: Executor
) -> _Kept:
    """Instead of lines 3 to 5: the components that lower the error most, one after the other.

    Where each is to have an activation of its own, each is judged by one drawn for it.
    """
    approximate = None if spec.per_component else learn_activation(problem, pool, spec, rng, executor)
    a = draw_activations(pool, spec.basis, rng) if approximate is None else approximate.a[None]
    selection = select_pool(problem.proxy, pool, a, spec, rng, executor)
    width = selection.best_width(spec.tolerance) if spec.n_components is None else selection.order.size
    _log.info("greedy: %d components of %d kept", width, spec.n_pool)
    return _Kept(pool.take(selection.order[:width]), approximate, selection=selection)


_SAMPLING = {"plain": _keep_first, "leverage": _keep_by_leverage, "greedy": _keep_greedily}


def _solve(
    problem: Problem, kept: _Kept, spec: FitSpec, rng: np.random.Generator, executor: Executor
) -> tuple[Fitted, Array, StopReason]:
    """Line 6: activation and output weights of the components, how the objective fell and why the search ended."""
    directions = kept.directions
    if spec.per_component:
        fitted = fit_per_component(problem, directions, spec, rng, executor)
        return fitted, np.array([fitted.objective]), fitted.solved
    learned = learn_activation(problem, directions, spec, rng, executor, kept.start)
    _log.info("line 6: the activation %s, after %d steps", learned.stop_reason.value, len(learned.trace) - 1)
    fitted = fit_shared(problem, directions, learned, spec, rng, executor)
    return fitted, learned.trace, fitted.solved if fitted.solved is StopReason.ITERATIONS else learned.stop_reason


def _refine(problem: Problem, spec: FitSpec, rng: np.random.Generator, executor: Executor) -> FitResult:
    """Directions, curves and activations trained together, then the output weights by a last fit on all rows."""
    source, column, n_rows = problem.source, problem.moments.X, problem.moments.n_used
    mean_weight = column.weight / n_rows
    to_search = source.sample(_SEARCH_ROWS * source.n_samples // n_rows, rng)
    sample = read(to_search, range(len(to_search)), mean_weight)
    effort = _EFFORT_OF_MANY if n_rows > _MANY_ROWS else _EFFORT
    if not problem.squared:  # the penalty depends on how long one trains
        effort = 1.0
    hunt = hold_out(sample, column.mean, problem.moments.scale, rng, effort)
    width = FIRST_WIDTH if spec.n_components is None else spec.n_components
    base = () if problem.squared else tuple(map(float, problem.base))
    shape = Shape(width, spec.basis, not spec.per_component, spec.density, spec.bandwidth, problem.loss, base)
    tolerance = spec.tolerance if spec.n_components is None else None
    hunt, trials, shape, outliers = settle(
        hunt, shape, _recipes(spec, problem), spec.keep_outliers, tolerance, executor
    )
    best = trials[0]
    if n_rows <= FEW_ROWS and outliers is None and spec.alpha is None and spec.per_component:
        rival = _better_rival(hunt, best, problem, spec, rng, executor)
        if rival is not None:
            return replace(_sample(problem, rival, rng, executor), trials=tuple(trials))

    encoding, _ = hunt.encoded(best.recipe.nodes)
    chunks = Streamed(source, encoding, mean_weight, _ENCODED_MEMORY if spec.memory is None else spec.memory)
    members = begin_members(encoding, chunks[0][0], sample.X[:_SAMPLE_ROWS], shape, best.recipe, rng, n_rows)
    trace = train_members(members, chunks, n_rows, fold=executor.fold, side_by_side=executor.side_by_side)
    _log.info("refined: %d components on %d rows, %s", shape.n_components, n_rows, best.recipe)

    refined = fold_members(members)
    activation = Activation(spec.basis, refined.a)
    if problem.squared:
        pieces, last = spec.basis.pieces(refined.a), replace(spec, alpha=None)
        features = compile_features(refined.directions, refined.curves, pieces, refined.a, source.dtype)
        squares = np.minimum(np.abs(hunt.residual(best).astype(np.float64)), shape.delta) ** 2
        noise = np.average(squares, axis=0, weights=sample.weight[hunt.held_out])
        fitted = keep_trained(
            source, refined.directions, features, activation, refined.V, shape.delta, noise, last, rng, executor
        )
    else:
        fitted = Fitted(activation, refined.V, problem.base, solved=StopReason.TRAINED)
    model = fitted.model(refined.directions, problem.units, refined.curves)
    return FitResult(
        model,
        problem.own_loss,
        fitted.remedy,
        _terms(problem, fitted, spec),
        best.recipe.alpha,
        1.0 if spec.bandwidth is None else spec.bandwidth,
        trace,
        StopReason.TRAINED if problem.units.scale.any() else StopReason.NOTHING_TO_LEARN,
        _column_importance(model, source.sample(_SAMPLE_ROWS, rng)),
        trials=tuple(trials),
        outliers=outliers,
    )


def _terms(problem: Problem, fitted: Fitted, spec: FitSpec) -> Terms:
    """What more rows are to be learned under."""
    return Terms(problem.loss, fitted.ridge, problem.units, problem.moments.y.weight, spec.intercept)


def _find_delta(problem: Problem, spec: FitSpec, rng: np.random.Generator, executor: Executor) -> Huber:
    """The Huber loss for the residuals of a first fit: the paper's model on a sample of rows."""
    sample = problem.source.sample(_PILOT_ROWS, rng).with_rows(MOST_ROWS)
    width = min(_PILOT_WIDTH, spec.most_components)
    pilot = replace(
        spec, refined=False, sampling="plain", per_component=False, n_shapes=None, n_components=width, alpha=None
    )
    moments, units = measure_finite(sample, executor), same_units(sample.n_outputs)
    inside = in_units(sample, problem.loss, moments, units, spec.intercept, rng)
    model = _sample(inside, pilot, rng, executor).model
    table = read(sample, range(len(sample)), 1.0)
    off = np.abs(table.y - model.decision(table.X)).astype(np.float64)
    spread = TO_DEVIATIONS * float(quantiles(off, table.weight, 0.5).mean())
    return Huber(HUBER_DEVIATIONS * spread) if spread > 0 else Huber(HUBER_DEVIATIONS)


def _recipes(spec: FitSpec, problem: Problem) -> Plan:
    """What to try: whether columns bend, or either, and the penalty if it is given, else in proportion to the loss."""
    plan = {None: EITHER, True: BENT, False: STRAIGHT}[spec.curves]
    if not spec.curves and problem.source.n_features > _MANY_COLUMNS:
        plan = WIDE
    if not problem.squared:
        plan = plan.scaled((problem.curvature / 2) ** 0.5)
    return plan if spec.alpha is None else plan.with_alpha(spec.alpha)


def _better_rival(
    hunt: Hunt, best: Trial, problem: Problem, spec: FitSpec, rng: np.random.Generator, executor: Executor
) -> FitSpec | None:
    """What few rows are better explained by than by the best trial: a model of directions that they had no say in."""
    rivals = _for_few_rows(problem, spec)
    errors = [_rival_error(hunt, problem, rival, rng, executor) for rival in rivals]
    if min(errors) >= best.error:
        return None
    _log.info("refined: given directions do better on the rows held out")
    return rivals[int(np.argmin(errors))]


def _for_few_rows(problem: Problem, spec: FitSpec) -> list[FitSpec]:
    """Models of directions that no target had a say in, the simplest first."""
    models = spec.for_few_rows(problem.source.n_features)
    return models if problem.squared else models[-1:]  # under another loss each takes its time; the last contains all


def _rival_error(hunt: Hunt, problem: Problem, spec: FitSpec, rng: np.random.Generator, executor: Executor) -> float:
    """Error of a model of given directions on the rows a hunt holds out; the first split chooses the ridge of all."""
    table, outputs = hunt.table, []
    for kept, held_out in hunt.splits:
        part = ArraySource(table.X[kept], table.y[kept], table.weight[kept].astype(table.X.dtype))
        same = same_units(part.n_outputs)
        inside = in_units(part, problem.loss, measure_finite(part, executor), same, spec.intercept, rng)
        result = _sample(inside, spec, rng, executor)
        spec = replace(spec, alpha=result.alpha)
        outputs.append(result.model.decision(table.X[held_out]))
    error = hunt.mean_loss(problem.loss, np.concatenate(outputs))
    _log.info("hold-out error %.5g: %d given directions", error, spec.most_components)
    return error


def _plan(source: BlockSource, spec: FitSpec, executor: Executor) -> tuple[BlockSource, FitSpec, Executor]:
    """Rows in blocks, and as many workers, as fit the memory; ``memory`` is then what is left to keep things in."""
    budget = plan_fit(spec, TableSize.of(source))
    if budget.n_workers is not None:
        executor = executor.limited(budget.n_workers)
    return source.with_rows(budget.block_rows), replace(spec, memory=budget.left), executor


def _column_importance(model: RandomFeatureModel, sample: BlockSource) -> Array:
    """How much every column moves the model over the rows of a sample, as shares (n_features,) that sum to one."""
    return model.column_importance(read(sample, range(len(sample)), 1.0).X)
