"""Several labels at once: a target of zeros and ones for each of them, as scikit-learn's multilabel indicators."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from rflaf.errors import Array, InvalidParameterError
from rflaf.rows.inputs import is_frame, names_columns


def is_several(X: Any, y: Any) -> bool:
    """Return whether ``y`` says of several labels whether each of them applies to a row of ``X``.

    A matrix of zeros and ones (n_samples, n_labels) does, dense or sparse, and a list of such columns of a frame.

    >>> is_several(None, [[0, 1], [1, 1]]), is_several(None, [0, 1]), is_several(None, [[0.5, 0.5], [0.0, 1.0]])
    (True, False, False)
    """
    if y is None or isinstance(y, str) or hasattr(y, "__dask_graph__"):
        return False
    if names_columns(X, y):
        return True
    if sp.issparse(y):
        return bool(y.shape[1] > 1 and np.isin(y.data, (0, 1)).all())
    try:
        values = np.asarray(y)
    except ValueError:  # rows of different lengths
        return False
    if values.ndim != 2 or values.shape[1] < 2 or values.dtype.kind not in "biufO":
        return False
    return bool(np.isin(values, (0, 1)).all())


def label_names(y: Any) -> Array:
    """Return the names of several labels, (n_labels,): those of columns, else 0, 1, and so on."""
    names = list(y if isinstance(y, list | tuple) else getattr(y, "columns", ()))
    if names and all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
        return np.array(names)
    return np.arange(np.shape(y)[1])


def indicators(y: Any) -> Any:
    """Return several labels as a matrix; names of columns as they are."""
    if sp.issparse(y):
        return y.toarray()
    if isinstance(y, list | tuple) and y and isinstance(y[0], str):
        return y
    return np.asarray(y.to_numpy() if is_frame(y) and hasattr(y, "to_numpy") else y, np.float64)


def check_indicators(Y: Array, n_labels: int, first: bool) -> None:
    """Refuse targets (n_samples, n_labels) other than zeros and ones, and first ones that never differ."""
    if Y.ndim != 2 or Y.shape[1] != n_labels:
        raise InvalidParameterError(f"y must have {n_labels} columns, one for each label", Y.shape, "Add the others.")
    if not np.isin(Y, (0, 1)).all():
        rule = "columns of several labels must hold zeros and ones"
        raise InvalidParameterError(rule, float(Y[~np.isin(Y, (0, 1))][0]), "Name other columns.")
    if first and not np.ptp(Y, axis=0).any():
        rule, remedy = "some of several labels must differ between rows", "There is nothing to learn."
        raise InvalidParameterError(rule, Y[0].tolist(), remedy)
