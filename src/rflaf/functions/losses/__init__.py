"""Losses as small objects.

    minimise over f    1/n sum_i w_i loss(f_i, y_i) + penalties

A loss gives the cost of the answer f for the target y, for all rows at once: ``f`` is (n_rows, n_outputs), with one
output for most losses and one per class for softmax. It also gives its slope and curvature in f, checks its targets,
and maps f to the expected y (the inverse of the link). Theorems 3.6 and 4.2 of the paper assume a Lipschitz loss:
logistic, softmax, Huber and pinball, each with its constant ``lipschitz``. The slopes of squared, squared hinge,
Poisson, Tweedie and Gamma have no bound; the squared loss has its own Theorems 3.2 and 4.1.

>>> import numpy as np
>>> Logistic().value(np.zeros((1, 1)), np.ones((1, 1)))
array([0.69314718])
"""

from .base import Loss, Units, same_units
from .labels_and_counts import HIGHEST_LOGARITHM, Gamma, Logistic, Poisson, Softmax, SquaredHinge, Tweedie
from .residual import HUBER_DEVIATIONS, Huber, Pinball, Quantiles, Squared, quantiles

__all__ = [
    "HIGHEST_LOGARITHM", "HUBER_DEVIATIONS", "Gamma", "Huber", "Logistic", "Loss", "Pinball", "Poisson", "Quantiles",
    "Softmax", "Squared", "SquaredHinge", "Tweedie", "Units", "quantiles", "same_units",
]  # fmt: skip
