"""A point of the learning curve: what the recipes chosen, trained on fewer rows, say of rows held out.

The models of the folds saw fewer rows than the final model, and err more. By how much is extrapolated from models that
saw fewer still (`rflaf.training.calibration`): a training or two of the width of a fold.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rflaf.training.solvers.refined.race import Settled
from rflaf.training.solvers.refined.smoothing import CLASSES

from .held_out import FewerRows
from .problem import Fit

_LEAST_ROWS = 500  # fewer tell too little of a ratio of errors
_ALL_JUDGED = 1000  # rows, up to which all of them are needed to tell
_LEFT_OUT = 3  # folds, of the usual five


def judge_by_fewer(fit: Fit, found: Settled) -> FewerRows | None:
    """Return what the recipes say of the rows of the first folds, trained without one and without several of them.

    None where rows are few, or not held out by folds of independent rows, and for classes.
    """
    hunt, n_rows = found.hunt, found.hunt.table.n_rows
    if n_rows < _LEAST_ROWS or len(hunt.splits) < _LEFT_OUT or isinstance(found.shape.loss, CLASSES):
        return None
    if fit.spec.splits is not None or hunt.lessons:
        return None
    widths = {trial.recipe: trial.width for trial in found.trials if len(trial.outputs) == hunt.held_out.size}
    if not set(found.recipes) <= set(widths):
        return None
    shapes = [(replace(found.shape, n_components=widths[recipe]), recipe) for recipe in found.recipes]
    fewer = hunt.with_fewer_rows(_LEFT_OUT, judged_by_all=n_rows <= _ALL_JUDGED)
    outputs = np.mean([trial.outputs for trial in fewer.compare(shapes, fit.executor)], axis=0, dtype=np.float64)
    if not (np.isfinite(outputs).all() and np.isfinite(found.outputs).all()):
        return None
    most_share, fewer_share = (np.mean([kept.size for kept, _ in each.splits]) / n_rows for each in (hunt, fewer))
    units = fit.problem.units
    power = np.log(most_share) / np.log(fewer_share / most_share)
    return FewerRows(units.shift + units.stretch * outputs, float(power))
