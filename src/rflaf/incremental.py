"""Rows that come later: the output weights go on learning while directions, curves and activations stay.

Under the squared loss the sums of the last layer are all that rows leave behind, and they add: any sequence of chunks
ends at the fit of all of them. Under any other loss what rows have said is kept as a quadratic in the output weights
around the solution they led to (`rflaf.risk.Memory`), and new rows are fitted together with it: a Newton step that is
never repeated.

Rows may fade: with a half-life of H rows, a row weighs 2^(-k / H) once k rows have come after it. That is the same
however the rows are cut into chunks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .blocks import ArraySource, BlockSource, StandardisedTargets
from .executors import Executor
from .features import sum_equations
from .last_layer import LastLayer, unscale
from .losses import Loss, Units
from .model import RandomFeatureModel
from .normal_equations import NormalEquations
from .outcomes import StopReason
from .risk import MadeRows, Memory, Risk, minimise_risk

Array = NDArray[Any]
_TOLERANCE, _MOST_STEPS = 1e-8, 500


@dataclass(frozen=True)
class Seen:
    """Sums over the rows seen: products of their features, and what they said of the output weights."""

    equations: NormalEquations
    memory: Memory

    def faded(self, factor: float) -> Seen:
        """The sums of rows that count ``factor`` of what they did."""
        return Seen(self.equations.faded(factor), self.memory.faded(factor))


@dataclass(frozen=True)
class Terms:
    """What more rows are learned under: loss, ridge and units of the fit before, and the sum of its rows' weights."""

    loss: Loss
    ridge: float
    units: Units
    weight: float
    intercept: bool


@dataclass(frozen=True)
class Chunk:
    """New rows. All rows before them count ``past`` of what they did; those that fade have ``count`` observations."""

    source: BlockSource
    past: float = 1.0
    count: float | None = None
    whole_weights: bool = True

    @classmethod
    def fading(cls, source: ArraySource, half_life: float) -> Chunk:
        """Rows in the order in which they came, the last of full weight.

        >>> rows = ArraySource(np.zeros((3, 1)), np.zeros((3, 1)))
        >>> Chunk.fading(rows, half_life=1).source.weight
        array([0.25, 0.5 , 1.  ])
        """
        fresh = np.exp2(-np.arange(source.n_samples)[::-1] / half_life)
        given = np.ones(source.n_samples) if source.weight is None else source.weight
        faded = replace(source, weight=(given * fresh).astype(source.dtype))
        whole = bool(np.all(given == np.floor(given)))
        return cls(faded, float(np.exp2(-source.n_samples / half_life)), float(fresh[given > 0].sum()), whole)

    def counted(self, equations: NormalEquations) -> NormalEquations:
        """Their sums, with the number of observations they stand for."""
        if self.count is None:
            return equations
        return replace(equations, n_rows=self.count, whole_weights=self.whole_weights)


def begin(
    model: RandomFeatureModel, terms: Terms, chunk: Chunk, executor: Executor
) -> tuple[RandomFeatureModel, Seen | None]:
    """A model that was fitted to the rows of a first chunk, ready for more; output weights anew where rows fade."""
    layer = model.last_layer
    if layer is not None:
        if chunk.count is not None:
            model = _with_layer(model, replace(layer, equations=_sums(model, layer, chunk, executor)))
        return model, None
    targets, inside = StandardisedTargets(chunk.source, terms.units.centre, terms.units.scale), _inside(model, terms)
    if chunk.count is None:
        return model, remember(inside, targets, terms.loss, terms.ridge, terms.intercept, executor)
    inside, seen, _ = learn_more(inside, None, targets, terms.loss, terms.ridge, terms.intercept, executor)
    return _outside(inside, terms), seen


def carry_on(
    model: RandomFeatureModel, seen: Seen | None, terms: Terms, chunk: Chunk, executor: Executor
) -> tuple[RandomFeatureModel, Seen | None, StopReason]:
    """The model after more rows, and what was seen until now; under the squared loss its last layer knows.

    Where a fit under another loss left nothing behind, its rows are taken to have been like the new ones.
    """
    layer = model.last_layer
    if layer is not None:
        past = layer.equations.faded(chunk.past)
        total = past + _sums(model, layer, chunk, executor)
        return _with_layer(model, layer.after(total, past.weight / total.weight)), None, StopReason.CONVEX
    targets, inside = StandardisedTargets(chunk.source, terms.units.centre, terms.units.scale), _inside(model, terms)
    loss, ridge, intercept = terms.loss, terms.ridge, terms.intercept
    seen = seen or remember(inside, targets, loss, ridge, intercept, executor, terms.weight)
    inside, seen, reason = learn_more(inside, seen.faded(chunk.past), targets, loss, ridge, intercept, executor)
    return _outside(inside, terms), seen, reason


def remember(
    model: RandomFeatureModel,
    source: BlockSource,
    loss: Loss,
    ridge: float,
    intercept: bool,
    executor: Executor,
    weight: float | None = None,
) -> Seen:
    """What the rows a model was fitted to leave behind.

    Where those are gone, any rows like them will do, with the sum of their weights given as ``weight``.
    """
    risk, equations = _risk(model, source, loss, intercept, executor, None)
    memory = risk.curvature(model.v, model.intercept, ridge)
    if weight is None:
        return Seen(equations, memory)
    factor = weight / memory.weight
    alike = Seen(replace(equations, whole_weights=False), memory).faded(factor)
    return replace(alike, memory=replace(alike.memory, weight=weight))


def learn_more(
    model: RandomFeatureModel,
    seen: Seen | None,
    source: BlockSource,
    loss: Loss,
    ridge: float,
    intercept: bool,
    executor: Executor,
) -> tuple[RandomFeatureModel, Seen, StopReason]:
    """The model after more rows, with all that was seen until now."""
    risk, equations = _risk(model, source, loss, intercept, executor, seen)
    start = model.v, model.intercept
    solution = minimise_risk(risk, ridge, model.intercept, _TOLERANCE, _MOST_STEPS, start)
    memory = risk.curvature(solution.v, solution.intercept, ridge)
    learned = replace(model, v=solution.v, intercept=solution.intercept, last_layer=None)
    return learned, Seen(equations, memory), solution.stop_reason


def _risk(
    model: RandomFeatureModel, source: BlockSource, loss: Loss, intercept: bool, executor: Executor, seen: Seen | None
) -> tuple[Risk, NormalEquations]:
    """The risk of new rows together with those seen, and the sums over all of them."""
    features, importance = model.feature_map(source.dtype), model.directions.importance
    equations = sum_equations(source, features, executor).scale(importance)
    if seen is not None:
        equations = seen.equations + equations
    rows = MadeRows(source, features, importance)
    risk = Risk(rows, loss, equations.system(intercept), equations.weight, intercept, executor)
    return (risk if seen is None else replace(risk, memory=seen.memory)), equations


def _sums(model: RandomFeatureModel, layer: LastLayer, chunk: Chunk, executor: Executor) -> NormalEquations:
    """Sums of [z | 1 | y] over a chunk; in single precision targets far from zero keep their digits."""
    known = layer.equations.system()
    centre, scale = known.y_mean, np.sqrt(np.where(known.y_square > 0, known.y_square, 1.0))
    targets = StandardisedTargets(chunk.source, centre, scale)
    sums = sum_equations(targets, model.feature_map(chunk.source.dtype), executor).scale(model.directions.importance)
    return unscale(chunk.counted(sums), centre, scale)


def _with_layer(model: RandomFeatureModel, layer: LastLayer) -> RandomFeatureModel:
    solution = layer.solve()
    return replace(model, v=solution.v, intercept=solution.intercept, last_layer=layer)


def _inside(model: RandomFeatureModel, terms: Terms) -> RandomFeatureModel:
    """The model in the units its fit had."""
    units = terms.units
    stretch = np.divide(1.0, units.stretch, out=np.zeros_like(units.stretch), where=units.stretch > 0)
    return replace(model, v=model.v * stretch, intercept=(model.intercept - units.shift) * stretch)


def _outside(model: RandomFeatureModel, terms: Terms) -> RandomFeatureModel:
    """And back in those of the targets."""
    units = terms.units
    return replace(model, v=model.v * units.stretch, intercept=units.shift + units.stretch * model.intercept)
