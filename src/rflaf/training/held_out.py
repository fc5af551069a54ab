"""What models that were not fitted to a row say of it: the rows held out by folds, in closed form or by a search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rflaf.errors import Array
from rflaf.model.features import RowFeatures
from rflaf.model.ridge import RidgeSystem
from rflaf.rows.blocks import Block, BlockSource, stack

from .problem import Fit


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


def report_held_out(fit: Fit, outputs: Array, rows: Array, y: Array, weight: Array) -> HeldOut:
    """Report the outputs (k, n_outputs) of rows held out, numbered ``rows``; all in the units of the problem."""
    units = fit.problem.units
    decision = np.full((fit.source.n_samples, outputs.shape[1]), np.nan)
    decision[rows] = units.shift + units.stretch * outputs
    losses = fit.problem.own_loss.value(decision[rows], units.centre + units.scale * y) * (weight / weight.mean())
    return HeldOut(decision, float(losses.mean()), float(losses.std() / np.sqrt(max(losses.size - 1, 1))))


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
    z = features.features(rows.X, np.empty((features.n_components, rows.n_rows), fit.source.dtype))
    z = z.astype(np.float64) * importance[:, None]
    return system.spectrum.leave_folds_out(ridge, z, rows.y.astype(np.float64), rows.weight, fit.folds)


def noise_left_out(fit: Fit, left_out: Array) -> Array:
    """Return the noise variance per output: the mean square of what rows left out differ by."""
    used, rows = rows_in_use(fit.source)
    weight = None if rows.weight is None else rows.weight[used]
    return np.asarray(np.average((rows.y[used] - left_out[used]) ** 2, axis=0, weights=weight))
