"""Labels that are not quite sure: a model of them is never told to send its log odds to infinity."""

from __future__ import annotations

import numpy as np

from rflaf.errors import Array
from rflaf.functions.losses import Logistic, Loss, Softmax

CLASSES = Logistic, Softmax  # losses whose outputs are log odds


def smoothed(loss: Loss, y: Array, share: float) -> Array:
    """Return targets of classes, (n_rows, n_outputs), with a share of every row given to all classes alike.

    Every output of the logistic loss has two classes.

    >>> from rflaf.functions.losses import Softmax
    >>> smoothed(Softmax(), np.eye(4), 0.2)[0].round(2).tolist()
    [0.85, 0.05, 0.05, 0.05]
    """
    n_classes = y.shape[1] if isinstance(loss, Softmax) else 2
    return np.asarray((1 - share) * y + share / n_classes, y.dtype)
