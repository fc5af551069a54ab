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
