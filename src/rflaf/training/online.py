"""Online updates: later rows update the output weights; directions, curves and activations stay.

Under the squared loss the sums of the last layer hold all past rows, and sums add: any sequence of chunks ends at the
fit of all of them. Under any other loss past rows are kept as a quadratic in the output weights around their solution
(`rflaf.training.solvers.convex_loss.PastRows`), and new rows are fitted together with it.

Rows may fade: with a half-life of H rows, a row weighs 2^(-k / H) once k rows have come after it, however the rows are
cut into chunks and blocks; rows of files and partitions come in their order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from rflaf.errors import Array, StopReason
from rflaf.functions.losses import Loss, Units
from rflaf.model.features import RowFeatures
from rflaf.model.last_layer import LastLayer, unscale
from rflaf.model.normal_equations import NormalEquations
from rflaf.model.random_feature_model import RandomFeatureModel
from rflaf.rows.blocks import Block, BlockSource, Scratch, SourceView, StandardisedTargets
from rflaf.rows.executors import Executor
from rflaf.training.solvers.convex_loss import MadeRows, PastRows, Risk, minimise_risk

_TOLERANCE, _MOST_STEPS = 1e-8, 500


@dataclass(frozen=True)
class Seen:
    """Sums over past rows: products of their features, and their loss as a quadratic in the output weights."""

    equations: NormalEquations
    past: PastRows

    def faded(self, factor: float) -> Seen:
        """Return the sums of rows whose weights are multiplied by ``factor``."""
        return Seen(self.equations.faded(factor), self.past.faded(factor))


@dataclass(frozen=True)
class Terms:
    """The terms of updates: loss, ridge and units of the first fit, and the sum of its rows' weights."""

    loss: Loss
    ridge: float
    units: Units
    weight: float
    intercept: bool

    def pull(self, f: Array, y: Array) -> Array:
        """Return minus the slope of the loss where the model says ``f`` of targets ``y``, (n_rows, n_outputs) each."""
        units = self.units
        stretch, scale = (np.where(unit > 0, unit, 1.0) for unit in (units.stretch, units.scale))
        return np.asarray(-self.loss.slope((f - units.shift) / stretch, (y.astype(np.float64) - units.centre) / scale))


@dataclass(frozen=True, slots=True)
class Fade:
    """The weights of fading rows: 2^(-k / half_life) with k of ``n_rows`` rows after them."""

    half_life: float
    n_rows: int

    @property
    def past(self) -> float:
        """The factor on the weights of all earlier rows."""
        return float(np.exp2(-self.n_rows / self.half_life))

    def freshness(self, block: Block) -> Array:
        """Return the factor on the weight of every row of a block, (n_rows,)."""
        after = self.n_rows - 1 - block.first - np.arange(block.n_rows)
        return np.exp2(-after / self.half_life)

    def faded(self, block: Block) -> Block:
        """
        >>> Fade(half_life=1, n_rows=3).faded(Block(np.zeros((2, 1)), np.zeros((2, 1)), first=1)).weight
        array([0.5, 1. ])
        """
        fresh = self.freshness(block)
        weight = fresh if block.weight is None else fresh * block.weight
        return replace(block, weight=weight.astype(block.X.dtype))


@dataclass(frozen=True, slots=True)
class FadedRows(SourceView):
    """Rows in their order, with faded weights."""

    fade: Fade

    def seen(self, block: Block) -> Block:
        return self.fade.faded(block)

    def sample(self, n_rows: int, rng: np.random.Generator) -> Self:
        """Not offered: drawn rows lose their place."""
        raise NotImplementedError


@dataclass(frozen=True)
class Chunk:
    """New rows, in their order if they fade."""

    source: BlockSource
    half_life: float | None = None

    @property
    def fade(self) -> Fade | None:
        return None if self.half_life is None else Fade(self.half_life, self.source.n_samples)

    @property
    def past(self) -> float:
        """The factor on the weights of all earlier rows."""
        return 1.0 if self.fade is None else self.fade.past

    @property
    def rows(self) -> BlockSource:
        """The rows with faded weights."""
        return self.source if self.fade is None else FadedRows(self.source, self.fade)


def start_updates(
    model: RandomFeatureModel, terms: Terms, chunk: Chunk, executor: Executor
) -> tuple[RandomFeatureModel, Seen | None]:
    """Prepare a model fitted to a first chunk for updates; solve for the output weights again if rows fade."""
    layer = model.last_layer
    if layer is not None:
        if chunk.half_life is not None:
            model = _with_layer(model, replace(layer, equations=_sums(model, layer, chunk, executor)))
        return model, None
    targets, inside = StandardisedTargets(chunk.rows, terms.units.centre, terms.units.scale), _inside(model, terms)
    if chunk.half_life is None:
        return model, remember(inside, targets, terms, executor)
    inside, seen, _ = learn_more(inside, None, targets, terms, executor)
    return _outside(inside, terms), seen


def carry_on(
    model: RandomFeatureModel, seen: Seen | None, terms: Terms, chunk: Chunk, executor: Executor
) -> tuple[RandomFeatureModel, Seen | None, StopReason]:
    """Update a model with more rows; return it with the sums so far, which are in its last layer for the squared loss.

    If a fit under another loss kept no sums, its rows are taken to have been like the new ones.
    """
    layer = model.last_layer
    if layer is not None:
        past = layer.equations.faded(chunk.past)
        total = past + _sums(model, layer, chunk, executor)
        return _with_layer(model, layer.after(total, past.weight / total.weight)), None, StopReason.CONVEX
    targets, inside = StandardisedTargets(chunk.rows, terms.units.centre, terms.units.scale), _inside(model, terms)
    seen = seen or remember(inside, targets, terms, executor, terms.weight)
    inside, seen, reason = learn_more(inside, seen.faded(chunk.past), targets, terms, executor)
    return _outside(inside, terms), seen, reason


def remember(
    model: RandomFeatureModel, source: BlockSource, terms: Terms, executor: Executor, weight: float | None = None
) -> Seen:
    """Return the sums over the rows a model was fitted to.

    If those rows are gone, any similar rows do, with the sum of the original weights given as ``weight``.
    """
    risk, equations = _risk(model, source, terms, executor, None)
    past = risk.curvature(model.v, model.intercept, terms.ridge)
    if weight is None:
        return Seen(equations, past)
    alike = Seen(replace(equations, whole_weights=False), past).faded(weight / past.weight)
    return replace(alike, past=replace(alike.past, weight=weight))


def learn_more(
    model: RandomFeatureModel, seen: Seen | None, source: BlockSource, terms: Terms, executor: Executor
) -> tuple[RandomFeatureModel, Seen, StopReason]:
    """Update a model with more rows; return it with the sums so far."""
    risk, equations = _risk(model, source, terms, executor, seen)
    start = model.v, model.intercept
    solution = minimise_risk(risk, terms.ridge, model.intercept, _TOLERANCE, _MOST_STEPS, start)
    past = risk.curvature(solution.v, solution.intercept, terms.ridge)
    learned = replace(model, v=solution.v, intercept=solution.intercept, last_layer=None)
    return learned, Seen(equations, past), solution.stop_reason


def _risk(
    model: RandomFeatureModel, source: BlockSource, terms: Terms, executor: Executor, seen: Seen | None
) -> tuple[Risk, NormalEquations]:
    """Return the risk of new and past rows, and the sums over all of them."""
    features, importance = model.feature_map(source.dtype), model.directions.importance
    equations = features.sum_equations(source, executor).scale(importance)
    if seen is not None:
        equations = seen.equations + equations
    rows = MadeRows(source, features, importance)
    risk = Risk(rows, terms.loss, equations.system(terms.intercept), equations.weight, terms.intercept, executor)
    return (risk if seen is None else replace(risk, past=seen.past)), equations


def _sums(model: RandomFeatureModel, layer: LastLayer, chunk: Chunk, executor: Executor) -> NormalEquations:
    """Sum [z | 1 | y] over a chunk; in single precision targets far from zero keep their digits."""
    known = layer.equations.system()
    centre, scale = known.y_mean, np.sqrt(np.where(known.y_square > 0, known.y_square, 1.0))
    targets = StandardisedTargets(chunk.source, centre, scale)
    features = model.feature_map(chunk.source.dtype)
    if chunk.fade is None:
        sums = features.sum_equations(targets, executor)
    else:
        sums = _sum_faded_equations(targets, features, chunk.fade, executor)
    return unscale(sums.scale(model.directions.importance), centre, scale)


def _sum_faded_equations(source: BlockSource, features: RowFeatures, fade: Fade, executor: Executor) -> NormalEquations:
    """Sum the normal equations of fading rows; the number of observations fades too."""

    def sum_faded(block: Block, scratch: Scratch) -> NormalEquations:
        faded, given = fade.faded(block), np.ones(block.n_rows) if block.weight is None else block.weight
        sums = NormalEquations.from_design(features.design(faded, scratch), block.y.shape[1], faded.weight)
        count, whole = float(fade.freshness(block)[given > 0].sum()), bool(np.all(given == np.floor(given)))
        return replace(sums, n_rows=count, whole_weights=whole)

    return executor.reduce(source, sum_faded, "sum the normal equations of new rows")


def _with_layer(model: RandomFeatureModel, layer: LastLayer) -> RandomFeatureModel:
    solution = layer.solve()
    return replace(model, v=solution.v, intercept=solution.intercept, last_layer=layer)


def _inside(model: RandomFeatureModel, terms: Terms) -> RandomFeatureModel:
    """Return the model in the units of its fit."""
    units = terms.units
    stretch = np.divide(1.0, units.stretch, out=np.zeros_like(units.stretch), where=units.stretch > 0)
    return replace(model, v=model.v * stretch, intercept=(model.intercept - units.shift) * stretch)


def _outside(model: RandomFeatureModel, terms: Terms) -> RandomFeatureModel:
    """Return the model in the units of the targets."""
    units = terms.units
    return replace(model, v=model.v * units.stretch, intercept=units.shift + units.stretch * model.intercept)
