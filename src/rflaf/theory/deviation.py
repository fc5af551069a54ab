"""Deviation of a sampled Gram matrix from its kernel: the events of Lemmas E.3, E.4 and E.5."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from rflaf.errors import InvalidParameterError

from .rules import ROUNDING, check_finite, check_gram, check_lambda, check_pair, largest_eigenvalue


def gram_deviation(K: ArrayLike, K_hat: ArrayLike, lam: float) -> float:
    """Return | (K + n lambda I)^-1/2 (K^ - K) (K + n lambda I)^-1/2 |, at most e in the event of Lemma E.4.

    >>> gram_deviation(np.diag([1.0, 3.0]), np.diag([1.0, 1.0]), lam=0.5)      # |1 - 3| / (3 + 1)
    0.5
    """
    K, K_hat = check_pair(K, K_hat)
    check_lambda(lam)
    n = K.shape[0]
    values = scipy.linalg.eigh(K_hat - K, K + n * lam * np.eye(n), eigvals_only=True)
    return float(np.abs(values).max())


def worst_risk(K: ArrayLike, K_hat: ArrayLike, lam: float) -> float:
    """Return the maximum of min_v |Zv - f|^2 / n + lambda s |v|^2 over functions f of norm at most one (Lemma E.3).

    The minimum is lambda f' (K^ + n lambda I)^-1 f with f' K^-1 f <= 1 (Lemma E.5), so the maximum is lambda times the
    largest eigenvalue of (K^ + n lambda I)^-1 K; at most 2 lambda in the event of Lemma E.3.

    >>> round(worst_risk(np.diag([1.0, 3.0]), np.diag([1.0, 1.0]), lam=0.5), 12)      # 0.5 * 3 / (1 + 1)
    0.75
    """
    K, K_hat = check_pair(K, K_hat)
    check_lambda(lam)
    n = K.shape[0]
    return lam * largest_eigenvalue(K, K_hat + n * lam * np.eye(n))


def squared_norm(K: ArrayLike, values: ArrayLike) -> float:
    """Return f' K^+ f, the least squared norm of a kernel function with ``values`` (n,) on the rows (Lemma E.5).

    It is at most E[v(w)^2] for f(x) = E_w[sigma(w.x) v(w)].
    """
    K, f = check_gram(K), np.asarray(values, dtype=np.float64)
    if f.shape != K.shape[:1]:
        raise InvalidParameterError(
            f"values must have the shape (n,) with n = {K.shape[0]}", f.shape, "Pass one value per row."
        )
    check_finite("values", f)
    mu, U = scipy.linalg.eigh(K)
    kept = mu > ROUNDING * max(float(mu[-1]), np.finfo(float).tiny)
    return float(np.sum((U[:, kept].T @ f) ** 2 / mu[kept]))
