"""Labels that are not certain: a row of probabilities in place of a label, and several labels at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from rflaf.errors import Array, InvalidParameterError

_SUM_WITHIN = 1e-5  # of one


@dataclass(frozen=True)
class SoftLabels:
    """Probabilities ``P`` (n_samples, n_classes) of labels ``classes`` (n_classes,), sorted; rows sum to one.

    `RFLAFClassifier.fit` takes it for y, and an array or frame of such probabilities too, whose classes are 0, 1, ...
    or the names of the columns.

    >>> SoftLabels(["no", "yes"], [[0.9, 0.1], [0.2, 0.8]]).labels
    array(['no', 'yes'], dtype='<U3')
    """

    classes: Array
    P: Array

    def __init__(self, classes: ArrayLike, P: ArrayLike) -> None:
        classes, P = np.asarray(classes), np.asarray(P, dtype=np.float64)
        _check(classes, P)
        order = np.argsort(classes)
        object.__setattr__(self, "classes", classes[order])
        object.__setattr__(self, "P", (P / P.sum(axis=1, keepdims=True))[:, order])

    @property
    def labels(self) -> Array:
        """The most likely label of every row, (n_samples,)."""
        return np.asarray(self.classes[self.P.argmax(axis=1)])

    @property
    def targets(self) -> Array:
        """The targets of the log-loss: (n_samples, 1) for two classes, else (n_samples, n_classes)."""
        return self.P[:, 1:] if self.classes.size == 2 else self.P

    def __len__(self) -> int:
        return len(self.P)


def _check(classes: Array, P: Array) -> None:
    if P.ndim != 2 or P.shape[1] != classes.size or classes.size < 2:
        rule = "probabilities must have one column for each of at least two classes"
        raise InvalidParameterError(rule, f"shape {P.shape} for {classes.size} classes", "Add the missing columns.")
    if np.unique(classes).size != classes.size:
        raise InvalidParameterError("classes must differ", classes.tolist(), "Add the columns of equal ones.")
    wrong = ~(np.isfinite(P).all(axis=1) & (P >= 0).all(axis=1) & (np.abs(P.sum(axis=1) - 1) <= _SUM_WITHIN))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        rule = "rows of probabilities must be at least zero and sum to one"
        raise InvalidParameterError(rule, f"row {row}: {P[row].tolist()}", "Divide every row by its sum.")


def soft_labels(y: Any) -> SoftLabels | None:
    """Return y as soft labels if it holds a fraction in at least two columns; None for labels of any kind.

    >>> soft_labels([[0.5, 0.5], [0.0, 1.0]]).P.tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    >>> soft_labels(["a", "b"]) is None
    True
    """
    if isinstance(y, SoftLabels) or y is None or isinstance(y, str) or sp.issparse(y) or hasattr(y, "__dask_graph__"):
        return y if isinstance(y, SoftLabels) else None
    values = y.to_numpy() if hasattr(y, "to_numpy") else y
    shape = values.shape if hasattr(values, "shape") else np.asarray(values).shape
    if len(shape) != 2 or shape[1] < 2:
        return None
    values = np.asarray(values)
    if values.dtype.kind != "f" or np.isin(values, (0, 1)).all():
        return None
    names = getattr(y, "columns", None)
    return SoftLabels(np.arange(values.shape[1]) if names is None else np.asarray(names), values)
