"""A problem in its own units: rows with scaled targets, the loss for them, and the targets of a first step.

Under the squared loss a step from the constant answer follows the targets themselves. Under any other it follows

    t_i = - slope of the loss at the best constant answer, for row i:    y - p for probabilities, signs for quantiles

so wherever a choice is made before the final fit (directions of the pool, a first activation), the squared loss of t
stands in for the loss. `Fit` is the context of a fit: the problem and all that every step of it reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.losses import Loss, Squared, Units
from rflaf.rows.blocks import BlockSource, StandardisedTargets
from rflaf.rows.executors import Executor
from rflaf.rows.moments import TableMoments, measure
from rflaf.training.solvers.refined.encoded_rows import read

from .specification import FitSpec

_ROWS_FOR_A_CONSTANT = 20_000
_LEAST_SPREAD = 1e-150  # of a column: squares of smaller deviations are lost
_LEAST_WEIGHT, _MOST_WEIGHT = 1e-15, 1e15  # of a row on average: single precision holds sums of such


@dataclass(frozen=True, slots=True)
class Problem:
    """Rows with scaled targets, their moments, and the loss in those units.

    Attributes
    ----------
    source : rows; proxy : the same rows with the targets of a first step
    base : (n_outputs,), the best constant answer under another loss than the squared one, else zero
    curvature : mean curvature of the loss there
    """

    source: BlockSource
    proxy: BlockSource
    moments: TableMoments
    loss: Loss
    base: Array
    units: Units
    curvature: float = 2.0

    @property
    def own_loss(self) -> Loss:
        """The loss in the units of the targets."""
        return self.loss.scaled(1 / (float(self.units.scale.mean()) or 1.0))


@dataclass(frozen=True, slots=True)
class Fit:
    """The problem, the specification, the generator of all random numbers, and the executor of all passes.

    ``folds`` (n_samples,), where given, asks for what the fit without a row's fold says of the row; ``judge`` for what
    the fit without a row says of it, for a sample of rows.
    """

    problem: Problem
    spec: FitSpec
    rng: np.random.Generator
    executor: Executor
    folds: Array | None = None
    judge: bool = False

    @property
    def source(self) -> BlockSource:
        """The rows with scaled targets."""
        return self.problem.source

    @property
    def closed_form(self) -> bool:
        """Whether sums over the rows determine the output weights."""
        return self.problem.loss.closed_form

    def respecified(self, **changes: Any) -> Fit:
        """Return the context under a changed specification."""
        return replace(self, spec=replace(self.spec, **changes))


@dataclass(frozen=True, slots=True)
class FirstStep(StandardisedTargets):
    """A source whose targets are minus the slopes of a loss at ``mean``, its best constant answer, over ``scale``."""

    loss: Loss = field(default_factory=Squared)

    def transformed(self, y: Array) -> Array:
        return -self.loss.slope(np.broadcast_to(self.mean, y.shape), y) / self.scale


def state_problem(
    source: BlockSource, loss: Loss, intercept: bool, rng: np.random.Generator, executor: Executor
) -> Problem:
    """Measure the rows, scale the targets as the loss allows, and find its best constant answer."""
    moments = measure_finite(source, executor)
    units = loss.units(moments.y.mean, moments.y.scale, intercept)
    return in_units(source, loss, moments, units, intercept, rng)


def in_units(
    source: BlockSource, loss: Loss, moments: TableMoments, units: Units, intercept: bool, rng: np.random.Generator
) -> Problem:
    """State the problem of rows whose units are given."""
    targets = StandardisedTargets(source, units.centre, units.scale)
    zero = np.zeros_like(units.scale)
    if loss.closed_form:
        return Problem(targets, targets, moments, loss, zero, units)
    loss = loss.scaled(float(units.scale.mean()) or 1.0)
    sample = targets.sample(_ROWS_FOR_A_CONSTANT, rng)
    table = read(sample, range(len(sample)), 1.0)
    y = table.y.astype(np.float64)
    base = loss.constant(y, table.weight) if intercept else zero
    steps = loss.slope(np.broadcast_to(base, y.shape), y)
    size = np.sqrt(np.average(steps**2, axis=0, weights=table.weight))
    proxy = FirstStep(targets, base, np.where(size > 0, size, 1.0), loss)
    curved = loss.curvature(np.broadcast_to(base, y.shape), y).mean(axis=1)
    return Problem(targets, proxy, moments, loss, base, units, float(np.average(curved, weights=table.weight)))


def measure_finite(source: BlockSource, executor: Executor) -> TableMoments:
    """Return means and spreads of every column, the same for any partition of the rows; refuse over- and underflows."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        moments = measure(source, executor)
        weight = moments.X.weight / max(moments.n_used, 1)
        if not _LEAST_WEIGHT <= weight <= _MOST_WEIGHT:
            rule = f"the mean of the weights above zero must be from {_LEAST_WEIGHT:g} to {_MOST_WEIGHT:g}"
            raise InvalidParameterError(rule, weight, "Divide the weights by their mean.")
        measured = {"X": moments.X, "y": moments.y}
        finite = {name: np.isfinite(of.mean) & np.isfinite(of.deviation) for name, of in measured.items()}
        spreads = {name: of.scale for name, of in measured.items()}
    for name, of_columns in finite.items():
        for column in np.flatnonzero(~of_columns)[:1]:
            rule = "the variance of every column of X and y must be a finite number"
            found = f"an overflow in column {column} of {name}"
            raise InvalidParameterError(rule, found, "Divide columns with values above 1e150 by a constant.")
    for name, spread in spreads.items():
        for column in np.flatnonzero((spread > 0) & (spread < _LEAST_SPREAD))[:1]:
            rule = f"the spread of every column of X and y must be zero, or at least {_LEAST_SPREAD:g}"
            found = f"{spread[column]:.2g} or less in column {column} of {name}"
            raise InvalidParameterError(rule, found, "Multiply the column by a constant.")
    return moments.settled()
