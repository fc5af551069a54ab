"""Targets and losses of a plan: which theorem covers them, and numbers from labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array
from sklearn.utils.validation import check_consistent_length, column_or_1d

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.losses import Logistic, Loss, Softmax, Squared

_LOSSES: dict[str, Loss] = {"squared": Squared(), "log_loss": Logistic()}


def refuse_uncovered(loss: Loss) -> None:
    """Refuse a loss that neither Theorem 3.2 (squared) nor 3.6 (Lipschitz, Assumption 3.5) covers."""
    if not loss.closed_form and not np.isfinite(loss.lipschitz):
        rule = f"a plan needs the squared loss or one with a Lipschitz constant; the {loss.name} loss has none"
        raise InvalidParameterError(rule, loss, "Plan with loss='squared', or fit with n_components='auto'.")


def resolve_targets(X: Array, y: ArrayLike | None, loss: str | Loss) -> tuple[Array, Loss]:
    """Return targets as numbers, and the loss: zeros without a target, one column per class for labels."""
    if not (isinstance(loss, Loss) or (isinstance(loss, str) and loss in ("auto", *_LOSSES))):
        raise InvalidParameterError("loss must be 'auto', 'squared', 'log_loss' or a Loss object", loss, "Use 'auto'.")
    if y is None:
        return np.zeros(X.shape[0]), _LOSSES["squared" if loss == "auto" else loss] if isinstance(loss, str) else loss
    check_consistent_length(X, y)
    labels = np.asarray(y)
    numeric = labels.dtype.kind in "iuf"
    if numeric:
        labels = check_array(labels, ensure_2d=False, dtype=np.float64)
    if loss == "auto":
        loss = "squared" if numeric and (labels.ndim > 1 or np.unique(labels).size != 2) else "log_loss"
    if loss == "log_loss":
        return _one_column_a_class(labels)
    if labels.dtype.kind in "US":
        raise InvalidParameterError("this loss needs a numeric target", str(labels.flat[0]), "Use loss='log_loss'.")
    loss = loss if isinstance(loss, Loss) else Squared()
    numbers = check_array(labels, ensure_2d=False, dtype=np.float64)
    loss.check(numbers)
    return numbers, loss


def _one_column_a_class(labels: Array) -> tuple[Array, Loss]:
    """Zeros and ones, (n_samples,) for two classes, else (n_samples, n_classes), and the loss for them."""
    try:
        classes, at = np.unique(column_or_1d(labels), return_inverse=True)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in labels.flat})
        raise InvalidParameterError("labels must be of one kind, none missing", kinds, "Fill or drop them.") from None
    if classes.size < 2:
        raise InvalidParameterError("labels must be of two classes or more", classes.tolist(), "Check y.")
    return (at.astype(float), Logistic()) if classes.size == 2 else (np.eye(classes.size)[at], Softmax())
