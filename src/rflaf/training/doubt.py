"""How far log odds would move if the rows were drawn anew, told by the models of the folds of a fit.

Each model of a fold lacks a share q of the rows, so the models of several folds differ. For estimators that are nearly
sums over rows, the variance over such models times (1 - q)^2 / q is that over fits to rows drawn anew: the jackknife.
Few folds tell the variance of a single row badly, but the mean over rows well: it is the level of a law whose shape is
that of the last layer (`rflaf.model.doubt`).

Where a fit has no such models, what is said of a row held out is compared with what the final model says of it. The
difference also holds what the row itself did to the final model, which is taken off, and what two trainings differ by,
which is not: such a level is rather too high.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy  # its parts are imported on first use

from rflaf.errors import Array
from rflaf.functions.losses import Logistic, Loss, Softmax
from rflaf.model.doubt import Doubt
from rflaf.model.random_feature_model import RandomFeatureModel
from rflaf.training.solvers.refined.race import Settled
from rflaf.training.solvers.refined.search import Hunt

from .held_out import Judged

_MOST_ROWS, _MOST_COMPONENTS = 4000, 2048  # that the law of the last layer is taken from, and has
_RIDGE = 1e-4  # of the mean square of a feature
_LEAST_MODELS = 2
_LEAST_CURVATURE = 1e-6


@dataclass(frozen=True, slots=True)
class Refits:
    """What the models of folds say of the same rows.

    Attributes
    ----------
    kept : share of the rows of the final fit that a model of a fold was fitted to
    X : (n, n_features), rows that several of these models were fitted to; none where there are no such models
    variance : (n, n_outputs), of the log odds of a fit to rows drawn anew
    """

    kept: float
    X: Array = field(default_factory=lambda: np.zeros((0, 0)))
    variance: Array = field(default_factory=lambda: np.zeros((0, 0)))


def refits_of(found: Settled, n_rows: int) -> Refits:
    """Return how the models of the folds of a search differ, where the final fit has ``n_rows`` rows."""
    hunt, f, kept = found.hunt, np.asarray(found.shared, np.float64), share_kept(found.hunt, n_rows)
    if not isinstance(found.shape.loss, Logistic | Softmax) or not hunt.shared.size or not np.isfinite(f).all():
        return Refits(kept)
    if isinstance(found.shape.loss, Softmax):
        f = centred(f)
    fitted = np.array([np.isin(hunt.shared, rows) for rows, _ in hunt.splits])
    n_models = fitted.sum(axis=0)
    used = n_models >= _LEAST_MODELS
    mean = np.einsum("srk,sr->rk", f, fitted)[used] / n_models[used, None]
    squares = np.einsum("srk,sr->rk", (f[:, used] - mean) ** 2, fitted[:, used])
    left_out = 1 - kept
    variance = squares / (n_models[used, None] - 1) * (kept**2 / left_out)
    return Refits(kept, hunt.table.X[hunt.shared[used]], variance)


def share_kept(hunt: Hunt, n_rows: int) -> float:
    """Return the share of the ``n_rows`` rows of the final fit that a model of a split of a search is fitted to."""
    return float(np.mean([kept.size for kept, _ in hunt.splits]) / n_rows)


def centred(f: Array) -> Array:
    """Return log odds of several classes, on the last axis, about their mean, and as large as if they were independent.

    Probabilities do not depend on what is added to all of them.
    """
    about = f - f.mean(axis=-1, keepdims=True)
    return np.asarray(about / np.sqrt(1 - 1 / f.shape[-1]))


def doubt_of(model: RandomFeatureModel, loss: Loss, judged: Judged | None, refits: Refits | None) -> Doubt | None:
    """Return the variance of the log odds of a model from rows held out; None where they are too few, or none."""
    if judged is None or refits is None or not isinstance(loss, Logistic | Softmax):
        return None
    rows = np.arange(judged.rows.size)[:: -(-judged.rows.size // _MOST_ROWS) or 1]
    if rows.size < _LEAST_MODELS or model.n_components > _MOST_COMPONENTS or not 0 < refits.kept < 1:
        return None
    X = _dense(judged.X[judged.rows[rows]])
    f, z = np.asarray(model.decision(X), np.float64), np.asarray(model.features(X), np.float64)
    curvature = np.maximum(loss.curvature(f, judged.y[rows]).mean(axis=1), _LEAST_CURVATURE)
    shape = Doubt.of(z, curvature * judged.weight[rows], np.ones(f.shape[1]), _RIDGE)
    if len(refits.X):
        shared = _dense(refits.X)
        f, variance = np.asarray(model.decision(shared), np.float64), shape.of_features(model.features(shared))
        counts = loss.curvature(f, f) ** 2  # so much of the variance of log odds is one of probabilities
        level = (counts * refits.variance).sum(axis=0) / (counts * variance).sum(axis=0)
    else:
        off = judged.f[rows] - f
        off = centred(off) if isinstance(loss, Softmax) else off
        level = _of_differences(off, shape.of_features(z), loss.curvature(f, f), refits.kept)
    return shape.scaled(level) if np.isfinite(level).all() and np.isfinite(shape.covariance).all() else None


def _of_differences(off: Array, variance: Array, curvature: Array, kept: float) -> Array:
    """Return the level, (n_outputs,), of variances by what rows held out are off by, (n_rows, n_outputs) each.

    A row of variance V, left out together with a share q of all, moves by V q / (1 - q) (1 + (1 - q) / q w V) in the
    mean square: w is the curvature of its loss, and the second term what the row itself did to the model.
    """
    share, counts = (1 - kept) / kept, curvature**2
    by_others, by_itself = share * (counts * variance).sum(axis=0), (counts * curvature * variance**2).sum(axis=0)
    square = (counts * off**2).sum(axis=0)
    return np.asarray(2 * square / (by_others + np.sqrt(by_others**2 + 4 * by_itself * square)))


def _dense(X: Any) -> Array:
    return np.asarray(X.toarray() if scipy.sparse.issparse(X) else np.ascontiguousarray(X))
