"""Rows that come later: the output weights go on learning while directions, curves and activations stay.

What rows have said is kept as sums: the products of their features, and a quadratic in the output weights around the
solution they led to (`rflaf.risk.Memory`). New rows are fitted together with that quadratic. For the squared loss it is
the loss itself, so any sequence of chunks ends at the fit of all of them; for other losses it is their curvature, as
in a Newton step that is never repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from .blocks import BlockSource
from .executors import Executor
from .features import sum_equations
from .losses import Loss
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
    alike = replace(equations, moments=factor * equations.moments, whole_weights=False)
    return Seen(alike, Memory(factor * memory.A, memory.centre, factor * memory.slope, weight))


def learn_more(
    model: RandomFeatureModel,
    seen: Seen,
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
