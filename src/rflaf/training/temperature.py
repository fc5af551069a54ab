"""Probabilities one can trust: classes in every fold, and log odds no surer than rows held out allow."""

from __future__ import annotations

import numpy as np

from rflaf.errors import Array
from rflaf.functions.losses import Logistic, Loss, Softmax

_LEAST_FACTOR = 0.2
_HALVINGS = 12
_CLEARLY = 1.0  # standard errors of the fall in loss


def classes_of(loss: Loss, y: Array) -> Array | None:
    """Return the class of every row, (n_rows,), from targets (n_rows, n_outputs); None unless a loss of classes.

    Of several labels it is the number of the combination that applies.
    """
    if isinstance(loss, Softmax):
        return np.asarray(y.argmax(axis=1))
    if not isinstance(loss, Logistic):
        return None
    return np.unique(y > 0.5, axis=0, return_inverse=True)[1].ravel()


def temperature(loss: Loss, outputs: Array, y: Array, weight: Array, base: Array) -> float:
    """Return the factor on log odds, at most one, of lowest loss on rows held out; one where it is not clearly lower.

    Log odds ``outputs`` (n_rows, n_outputs) are multiplied around ``base``, those of the shares of the classes. The
    models of the folds saw fewer rows than the final one, so their word is taken only where they are too sure.

    >>> rng = np.random.default_rng(0)
    >>> f = rng.standard_normal((2000, 1))
    >>> y = (f + rng.logistic(size=f.shape) > 0).astype(float)
    >>> round(temperature(Logistic(), 2 * f, y, np.ones(2000), np.zeros(1)), 1)
    0.5
    >>> temperature(Logistic(), f / 2, y, np.ones(2000), np.zeros(1))
    1.0
    """
    if not isinstance(loss, Logistic | Softmax) or not np.isfinite(outputs).all():
        return 1.0
    f, y = (np.asarray(outputs, np.float64) - base), y.astype(np.float64)
    share = weight / weight.sum()

    def slope(factor: float) -> float:
        return float(share @ np.einsum("io,io->i", loss.slope(base + factor * f, y), f))

    low, high = _LEAST_FACTOR, 1.0
    if slope(high) <= 0:
        return 1.0
    for _ in range(_HALVINGS):  # the loss is convex in the factor
        middle = (low + high) / 2
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    fall = (loss.value(base + f, y) - loss.value(base + high * f, y)) * weight / weight.mean()
    clear = fall.mean() > _CLEARLY * fall.std() / np.sqrt(fall.size)
    return high if clear else 1.0
