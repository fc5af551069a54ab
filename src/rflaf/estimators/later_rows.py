"""Later rows: what `partial_fit` cannot learn from them, said once."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from rflaf.errors import Array
from rflaf.model.profile import Profile
from rflaf.model.random_feature_model import RandomFeatureModel

_MOST_ROWS, _MOST_NAMED = 2000, 5
_HARDLY = 0.02  # of the importance of the strongest column
_TELLING, _TELLING_ROWS = 0.02, 30  # share of the squared errors; that of few rows is this number over theirs


def warn_of_new_columns(profile: Profile, model: RandomFeatureModel, X: Any, names: Any) -> Profile:
    """Warn of columns of later rows ``X`` that vary but were constant in the first rows: no direction reads them.

    Return the profile that knows them, so that they are named once.
    """
    rows = X[:_MOST_ROWS].toarray() if sp.issparse(X) else np.asarray(X[:_MOST_ROWS])
    low, high = profile.quantiles[0], profile.quantiles[-1]
    varies = (rows.min(axis=0) < rows.max(axis=0)) | (rows[0] != low)
    new = np.flatnonzero((low == high) & varies & ~_read_by(model))
    if not new.size:
        return profile
    named = ", ".join(repr(str(names[at])) if names is not None else f"number {at}" for at in new[:_MOST_NAMED])
    warnings.warn(
        f"the first rows had one value in some columns, which the model therefore does not read, and later rows have "
        f"others: {named}{' ...' if new.size > _MOST_NAMED else ''}. Call fit with rows of both to learn from them.",
        UserWarning,
        stacklevel=4,
    )
    quantiles = profile.quantiles.copy()
    quantiles[0, new], quantiles[-1, new] = rows.min(axis=0)[new], np.maximum(rows.max(axis=0), high)[new] + 1
    return Profile(quantiles, profile.mean, profile.answers, profile.n_rows, profile.error)


def _read_by(model: RandomFeatureModel) -> Array:
    """Return which columns (n_features,) a direction or a curve reads."""
    read = np.any(model.directions.W != 0, axis=1)
    if model.curves is not None:
        read[model.curves.knots.columns] = True
    return read


def warn_of_hidden_columns(X: Any, pull: Array, importance: Array, names: Any) -> None:
    """Warn of columns that a model hardly reads and that tell the errors of later rows.

    ``pull`` (n_rows, n_outputs) is minus the slope of the loss at rows ``X``, the error under the squared loss;
    ``importance`` (n_features,) that of the first fit.
    """
    rows = X[:_MOST_ROWS].toarray() if sp.issparse(X) else np.asarray(X[:_MOST_ROWS], np.float64)
    pull = pull[:_MOST_ROWS] - pull[:_MOST_ROWS].mean(axis=0)
    least = max(_TELLING, _TELLING_ROWS / max(len(rows), 1))
    hardly = np.flatnonzero(importance <= _HARDLY * importance.max(initial=0.0))
    shares = np.array([_told(rows[:, column], pull) for column in hardly])
    hidden = hardly[shares > least] if hardly.size else hardly
    if not hidden.size:
        return
    named = ", ".join(repr(str(names[at])) if names is not None else f"number {at}" for at in hidden[:_MOST_NAMED])
    warnings.warn(
        f"{shares.max():.0%} of the squared errors of these rows are told by a column that was of no use in the first "
        f"rows, so that the model hardly reads it: {named}. partial_fit learns output weights only: call fit with rows "
        "of both to learn from it.",
        UserWarning,
        stacklevel=5,
    )


def _told(x: Array, pull: Array) -> float:
    """Return the share of the squares of ``pull`` (n_rows, n_outputs) that lies between quarters of the rows by x."""
    group = np.searchsorted(np.unique(np.quantile(x, (0.25, 0.5, 0.75))), x)
    count = np.bincount(group, minlength=4)
    sums = np.array([np.bincount(group, part, 4) for part in pull.T])
    between = np.sum(sums**2 / np.where(count > 0, count, 1))
    return float(between / max(float(np.sum(pull**2)), np.finfo(float).tiny))
