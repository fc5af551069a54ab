"""Spectrum, leverage scores and effective dimension of a kernel, and deviation of sampled Gram matrices.

Section 2.3 of the paper, equation (10), and the events of Lemmas E.3, E.4 and E.5.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from rflaf.errors import Array, InvalidParameterError

from .rules import (
    ROUNDING,
    check_eigenvalues,
    check_finite,
    check_gram,
    check_lambda,
    check_pair,
    largest_eigenvalue,
    warn_if_above,
)


def spectrum_of_gram(K: ArrayLike) -> Array:
    """Return the eigenvalues mu (n,) of K / n for a Gram matrix ``K`` (n, n), the largest first.

    >>> spectrum_of_gram(np.diag([2.0, 4.0]))
    array([2., 1.])
    """
    K = check_gram(K)
    return np.maximum(scipy.linalg.eigvalsh(K)[::-1] / K.shape[0], 0.0)


def spectrum_of_features(blocks: Iterable[Array]) -> Array:
    """Return the eigenvalues mu (s,) of Z Z' / (s n), the largest first, for blocks of rows (n_rows, s) of Z.

    They equal the eigenvalues of Z' Z / (s n), summed over the blocks; K = Z Z' / s is never formed. If s > n, the last
    s - n are zero.

    >>> spectrum_of_features([np.array([[2.0, 0.0]]), np.array([[0.0, 4.0]])])
    array([4., 1.])
    """
    G, n_rows = _sum_products(blocks)
    return np.maximum(scipy.linalg.eigvalsh(G)[::-1] / (n_rows * G.shape[0]), 0.0)


def effective_dimension(eigenvalues: ArrayLike, lam: ArrayLike) -> Any:
    """Return d = sum_m mu_m / (mu_m + lambda) for eigenvalues mu of K / n: a float, or an array shaped as ``lam``.

    d falls with lambda and stays below the number of positive eigenvalues and below sum_m mu_m / lambda.

    >>> effective_dimension([1.0, 0.5, 0.0], 0.5)
    1.1666666666666665
    """
    mu = check_eigenvalues(eigenvalues)
    lams = np.atleast_1d(np.asarray(lam, dtype=np.float64))
    if lams.size == 0:
        raise InvalidParameterError("lambda must be a number or several", lam, "The paper uses 1 / sqrt(n).")
    for value in lams.flat:
        check_lambda(float(value))
    warn_if_above(float(lams.max()), float(mu.max()))
    d = np.sum(mu / (mu + lams[..., None]), axis=-1)
    return float(d[0]) if np.ndim(lam) == 0 else d.reshape(np.shape(lam))


def leverage_function(K: ArrayLike, features: ArrayLike, lam: float) -> Array:
    """Return sigma(Xw)' (K + n lambda I)^-1 sigma(Xw) = l(w) / p(w), (m,), per column sigma(Xw) of ``features`` (n, m).

    Its mean over w ~ p is the effective dimension; it is at most |sigma|^2 / lambda, the bound of plain sampling.

    >>> leverage_function(np.diag([1.0, 3.0]), np.eye(2), lam=0.5)      # 1 / (1 + 1) and 1 / (3 + 1)
    array([0.5 , 0.25])
    """
    K, Z = check_gram(K), np.asarray(features, dtype=np.float64)
    check_lambda(lam)
    if Z.ndim != 2 or Z.shape[0] != K.shape[0]:
        raise InvalidParameterError(
            f"features must have the shape (n, m) with n = {K.shape[0]}", Z.shape, "Pass one column per direction."
        )
    check_finite("features", Z)
    n = K.shape[0]
    warn_if_above(lam, largest_eigenvalue(K) / n)
    factor = scipy.linalg.cho_factor(K + n * lam * np.eye(n), lower=True)
    return np.einsum("nm,nm->m", Z, scipy.linalg.cho_solve(factor, Z))


def pool_scores(blocks: Iterable[Array], lam: float) -> Array:
    """Return the scores p_i = [ G (G/s + n lambda I)^-1 ]_ii of Algorithm 1, line 3, (s,), with G = Z' Z.

    The features Z come as blocks of rows (n_rows, s), so any number of rows streams through an (s, s) matrix. p_i is
    `leverage_function` under the kernel of the pool; the mean of p is the effective dimension of that kernel.

    >>> pool_scores([np.diag([3.0, 1.0])], lam=0.5)                      # 9 / (9/2 + 1) and 1 / (1/2 + 1)
    array([1.63636364, 0.66666667])
    """
    check_lambda(lam)
    G, n_rows = _sum_products(blocks)
    s = G.shape[0]
    ridge = s * n_rows * lam
    warn_if_above(lam, largest_eigenvalue(G) / (s * n_rows))
    factor = scipy.linalg.cho_factor(G + ridge * np.eye(s), lower=True)
    inverse = scipy.linalg.cho_solve(factor, np.eye(s)).diagonal()
    return np.clip(s * (1 - ridge * inverse), 0, s)


def _sum_products(blocks: Iterable[Array]) -> tuple[Array, int]:
    """Return Z' Z and the number of rows."""
    total: Array | None = None
    n_rows = 0
    for block in blocks:
        Z = np.asarray(block, dtype=np.float64)
        if Z.ndim != 2 or (total is not None and Z.shape[1] != total.shape[0]):
            raise InvalidParameterError(
                "every block of features must have the shape (n_rows, s)", Z.shape, "Pass blocks of equal width."
            )
        check_finite("features", Z)
        total = Z.T @ Z if total is None else total + Z.T @ Z
        n_rows += Z.shape[0]
    if total is None or n_rows == 0 or total.size == 0:
        raise InvalidParameterError(
            "features must have at least one row and one column",
            None if total is None else (n_rows, total.shape[0]),
            "Pass at least one block.",
        )
    return total, n_rows


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
