"""What models that were not fitted to a row say of it: the rows held out by folds, in closed form or by a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.losses import Loss
from rflaf.model.features import RowFeatures
from rflaf.model.normal_equations import NormalEquations
from rflaf.model.ridge import RidgeSolution, RidgeSystem
from rflaf.rows.blocks import Block, BlockSource, SourceView, stack
from rflaf.rows.folds import N_FOLDS, folds_of

from .problem import Fit
from .specification import LEAST_REFINED_ROWS

_BYTES_PER_NUMBER = 64  # of a budget: a feature of a row is held a few times, beside the sums
_MOST_LEFT_OUT = 2048  # unknowns: the leverage of a row takes their factor
_LEFT_OUT_ROWS, _LEFT_OUT_NUMBERS = 2000, 2**22
_LEAST_LEFT = 1e-6  # of a row in its own fit


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What models that were not fitted to a row say of it, in the units of the targets.

    Attributes
    ----------
    decision : (n_samples, n_outputs), NaN for rows that were never held out
    error, standard_error : mean loss of the rows held out, and the standard error of that mean
    """

    decision: Array
    error: float
    standard_error: float


@dataclass(frozen=True, slots=True)
class FewerRows:
    """What models of fewer rows than those of the folds say of the first rows held out: a learning curve.

    Attributes
    ----------
    f : (k, n_outputs), in the units of the targets
    power : of the ratio of the errors of the folds to these, that gives the errors of all rows over those of the folds:
        errors are taken to fall as a power of the number of rows
    """

    f: Array
    power: float


@dataclass(frozen=True, slots=True)
class Judged:
    """Rows with what models that were not fitted to them say of them, in the units of the targets.

    Attributes
    ----------
    X : (n_rows, n_features), dense or CSR, read where ``rows`` says
    rows : (n,), numbers of the rows judged, in ``X``
    y, f : (n, n_outputs); weight : (n,)
    unit : of the weights given, whose mean over the rows of the fit is one here
    precision : (n,), one over the variance of a target that the row alone determines; None where that is one
    fewer : what models of fewer rows still say of the first of them; None where that is not known
    """

    X: Any
    rows: Array
    y: Array
    f: Array
    weight: Array
    unit: float = 1.0
    precision: Array | None = None
    fewer: FewerRows | None = None

    def by_precision(self) -> Judged:
        """Return the rows with their weights as given for precisions: each counts once."""
        return replace(self, weight=np.ones_like(self.weight), precision=self.weight * self.unit)


def judged(fit: Fit, X: Any, rows: Array, y: Array, outputs: Array, weight: Array) -> Judged:
    """Return rows held out, numbered ``rows`` in ``X``, with targets and outputs (n, n_outputs) in the problem's units.

    Rows of which a model says nothing finite are left out.
    """
    units = fit.problem.units
    fine = np.isfinite(outputs).all(axis=1)
    targets, f = units.centre + units.scale * y[fine], units.shift + units.stretch * outputs[fine]
    return Judged(X, rows[fine], targets, f.astype(np.float64), weight[fine].astype(np.float64))


def mean_loss(rows: Judged | None, loss: Loss) -> float:
    """Return the weighted mean of a loss over rows judged."""
    if rows is None or not rows.rows.size:
        return float("nan")
    return float(np.average(loss.value(rows.f, rows.y), weights=rows.weight))


def judge_left_out(fit: Fit, features: RowFeatures, importance: Array, solution: RidgeSolution) -> Judged | None:
    """Return what the ridge without a row says of it, for a sample of rows; None unless the context asks for it.

    In closed form: no row is read twice and nothing is fitted again. None too where unknowns are many.
    """
    width = features.n_components
    if not fit.judge or width > _MOST_LEFT_OUT:
        return None
    numbers = _LEFT_OUT_NUMBERS
    if fit.spec.memory is not None:
        numbers = min(numbers, fit.spec.memory // _BYTES_PER_NUMBER)
    n_rows = max(2, min(_LEFT_OUT_ROWS, numbers // width))
    source = fit.source.sample(n_rows, np.random.default_rng(0))
    rows = stack(source[i] for i in range(len(source)))
    used = np.arange(rows.n_rows) if rows.weight is None else np.flatnonzero(rows.weight > 0)
    weight = np.ones(rows.n_rows) if rows.weight is None else rows.weight.astype(np.float64)
    z, y = _features_of(fit, features, importance, rows), rows.y.astype(np.float64)
    residual = y - solution.intercept - z.T @ solution.v
    left = 1 - weight * solution.factor.hat_diagonal(z)
    outputs = y - residual / np.maximum(left, _LEAST_LEFT)[:, None]
    return judged(fit, rows.X, used, y[used], outputs[used], weight[used])


def report_held_out(fit: Fit, outputs: Array, rows: Array, y: Array, weight: Array) -> HeldOut:
    """Report the outputs (k, n_outputs) of rows held out, numbered ``rows``; all in the units of the problem."""
    units = fit.problem.units
    decision = np.full((fit.source.n_samples, outputs.shape[1]), np.nan)
    decision[rows] = units.shift + units.stretch * outputs
    losses = fit.problem.own_loss.value(decision[rows], units.centre + units.scale * y) * (weight / weight.mean())
    size = float(np.abs(losses).max()) or 1.0  # squares of the losses may be no numbers
    error = size * (losses / size).std() / np.sqrt(max(losses.size - 1, 1))
    return HeldOut(decision, float(losses.mean()), float(error))


def rows_in_use(source: BlockSource) -> tuple[Array, Block]:
    """Return the numbers of the rows whose weight is above zero, and all rows in memory."""
    rows = stack(source[i] for i in range(len(source)))
    used = np.arange(rows.n_rows) if rows.weight is None else np.flatnonzero(rows.weight > 0)
    return used, rows


def left_out_by_folds(
    fit: Fit, features: RowFeatures, importance: Array, system: RidgeSystem, ridge: float
) -> Array | None:
    """Return what the fit without its fold says of every row, in the units of the problem; None if nobody asks."""
    if fit.folds is None:
        return None
    _, rows = rows_in_use(fit.source)
    z = _features_of(fit, features, importance, rows)
    return system.spectrum.leave_folds_out(ridge, z, rows.y.astype(np.float64), rows.weight, fit.folds)


def errors_by_folds(fit: Fit, features: RowFeatures, importance: Array, system: RidgeSystem, ridges: Array) -> Array:
    """Return the squared error of every ridge (n_ridges,) on the rows that the splits of the specification hold out."""
    assert fit.spec.splits is not None
    folds = folds_of_splits(fit.spec.splits, fit.source.n_samples)
    if folds is None:
        rule = "with random directions or few rows every split of cv must train on all rows that it does not hold out"
        remedy = f"Set directions='refined' for {LEAST_REFINED_ROWS} rows or more, or use KFold or GroupKFold."
        raise InvalidParameterError(rule, "other splits, as those of time", remedy)
    _, rows = rows_in_use(fit.source)
    z, y = _features_of(fit, features, importance, rows), rows.y.astype(np.float64)
    weight = (folds >= 0) * (np.ones(rows.n_rows) if rows.weight is None else rows.weight)
    outputs = (system.spectrum.leave_folds_out(float(ridge), z, y, rows.weight, folds) for ridge in ridges)
    return np.array([weight @ np.sum((y - each) ** 2, axis=1) for each in outputs])


def _features_of(fit: Fit, features: RowFeatures, importance: Array, rows: Block) -> Array:
    """Return the features of all rows, (n_components, n_rows)."""
    z = features.features(rows.X, np.empty((features.n_components, rows.n_rows), fit.source.dtype))
    return np.asarray(z.astype(np.float64) * importance[:, None])


def noise_left_out(fit: Fit, left_out: Array) -> Array:
    """Return the noise variance per output: the mean square of what rows left out differ by."""
    used, rows = rows_in_use(fit.source)
    weight = None if rows.weight is None else rows.weight[used]
    return np.asarray(np.average((rows.y[used] - left_out[used]) ** 2, axis=0, weights=weight))


def splits_in_use(fit: Fit) -> Fit:
    """Return a fit whose splits keep, and hold out, at least one row of a weight above zero each."""
    if fit.spec.splits is None or fit.problem.moments.n_used == fit.source.n_samples:
        return fit
    weighs = np.zeros(fit.source.n_samples, bool)
    weighs[rows_in_use(fit.source)[0]] = True
    splits = tuple(split for split in fit.spec.splits if all(weighs[part].any() for part in split))
    if not splits:
        rule = "rows whose weight is above zero must be of two groups or times at least, on both sides of a split of cv"
        raise InvalidParameterError(rule, f"{weighs.sum()} such rows", "Leave groups, time or cv out.")
    return fit.respecified(splits=splits)


def among_used(splits: Sequence[tuple[Array, Array]], used: Array, n_samples: int) -> tuple[tuple[Array, Array], ...]:
    """Return splits of all rows as splits of the rows in use, by their numbers among these."""
    place = np.full(n_samples, -1)
    place[used] = np.arange(used.size)
    return tuple((kept[kept >= 0], out[out >= 0]) for kept, out in ((place[a], place[b]) for a, b in splits))


def folds_of_splits(splits: Sequence[tuple[Array, Array]], n_rows: int) -> Array | None:
    """Return the fold of every row, -1 for those never held out; None if some split does not train on all others."""
    folds = np.full(n_rows, -1)
    for fold, (kept, held_out) in enumerate(splits):
        if kept.size + held_out.size != n_rows or np.any(folds[held_out] >= 0):
            return None
        folds[held_out] = fold
    return folds


def rows_to_judge_by(fit: Fit, n_rows: int) -> BlockSource:
    """Return a fifth of all rows, chosen by content, or a sample of many."""
    if fit.source.n_samples > N_FOLDS * n_rows:
        return fit.source.sample(n_rows, fit.rng)
    return _FirstFold(fit.source, fit.problem.moments.X.scale)


@dataclass(frozen=True, slots=True)
class _FirstFold(SourceView):
    """The rows of the first fold of every block, given the spread of the columns."""

    scale: Array

    def seen(self, block: Block) -> Block:
        rows = np.flatnonzero(folds_of(block.X, N_FOLDS, self.scale) == 0)
        return Block(block.X[rows], block.y[rows], None if block.weight is None else block.weight[rows])


def residual_lost(equations: NormalEquations, v: Array, convex: RidgeSolution, intercept: bool) -> Array:
    """Return by how much the mean squared residual per output exceeds that of the convex solution."""
    kept = equations.system(intercept)
    fit = np.einsum("mo,mo->o", v, 2 * kept.c - kept.G @ v)
    return np.maximum(kept.y_square - fit - convex.mean_residual, 0)
