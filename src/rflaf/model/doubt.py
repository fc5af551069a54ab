"""How far the log odds of a model would be others, had it been fitted to other rows.

    variance of f_k(x) = level_k (1, z(x) - mean)' C (1, z(x) - mean)

C is the inverse of the curvature of the loss in intercept and output weights: the law of these weights given directions
and activations. That tells rows apart, but it knows nothing of the directions, so the models of the folds of a fit set
the level (`rflaf.training.doubt`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # its parts are imported on first use

from rflaf.errors import Array

_NODES = 15
_LEAST = 1e-300


@dataclass(frozen=True, eq=False)
class Doubt:
    """The variance of log odds.

    Attributes
    ----------
    mean : (n_components,), of the features
    covariance : (1 + n_components,) squared, C
    level : (n_outputs,)
    """

    mean: Array
    covariance: Array
    level: Array

    @classmethod
    def of(cls, z: Array, curvature: Array, level: Array, ridge: float) -> Doubt:
        """Return the law of the output weights from features (n_rows, n_components) and the curvature of every row.

        ``ridge`` is a share of the mean of the diagonal.
        """
        mean = z.mean(axis=0)
        rows = _with_one(z, mean)
        total = (rows * curvature[:, None]).T @ rows
        size = np.diagonal(total)
        total[np.diag_indices_from(total)] += ridge * max(float(size.mean()), _LEAST)
        factor = scipy.linalg.cho_factor(total, lower=True)
        return cls(mean, scipy.linalg.cho_solve(factor, np.eye(len(total))), level)

    def scaled(self, level: Array) -> Doubt:
        """Return the same with another level."""
        return Doubt(self.mean, self.covariance, level)

    def of_features(self, z: Array) -> Array:
        """Return the variance of log odds where the features are ``z`` (n_rows, n_components): (n_rows, n_outputs)."""
        rows = _with_one(z, self.mean)
        return np.maximum(np.einsum("ri,ri->r", rows @ self.covariance, rows), 0)[:, None] * self.level


def _with_one(z: Array, mean: Array) -> Array:
    return np.hstack([np.ones((len(z), 1)), np.asarray(z, np.float64) - mean])


def deviations(f: Array, variance: Array, several: bool) -> Array:
    """Return the standard deviations of probabilities, (n_rows, n_classes), from log odds and their variances.

    Those of one class against all others are taken for normal. ``several`` log odds are each of a label of its own.

    >>> deviations(np.zeros((1, 1)), np.full((1, 1), 0.01), False).round(3)
    array([[0.025, 0.025]])
    """
    f, variance = np.asarray(f, np.float64), np.asarray(variance, np.float64)
    if f.shape[1] > 1 and not several:
        f, variance = _against_others(f, variance)
    found = _of_sigmoid(f, np.sqrt(variance))
    return np.hstack([found, found]) if f.shape[1] == 1 and not several else found


def _against_others(f: Array, variance: Array) -> tuple[Array, Array]:
    """Return the log odds of every class against all others together, and their variances."""
    odds, spread = np.empty_like(f), np.empty_like(f)
    for k in range(f.shape[1]):
        others = np.delete(f, k, axis=1)
        odds[:, k] = f[:, k] - scipy.special.logsumexp(others, axis=1)
        share = scipy.special.softmax(others, axis=1)
        spread[:, k] = variance[:, k] + np.sum(share**2 * np.delete(variance, k, axis=1), axis=1)
    return odds, spread


def _of_sigmoid(f: Array, size: Array) -> Array:
    """Return the standard deviation of 1 / (1 + exp(-t)), t normal with mean ``f`` and deviation ``size``."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    weights = weights / weights.sum()
    first, second = np.zeros_like(f), np.zeros_like(f)
    at_mean = scipy.special.expit(f)
    for node, weight in zip(nodes, weights, strict=True):  # about the value at the mean, for the digits
        off = scipy.special.expit(f + node * size) - at_mean
        first += weight * off
        second += weight * off**2
    return np.asarray(np.sqrt(np.maximum(second - first**2, 0)))
