"""Spectrum, leverage scores and effective dimension of a kernel, deviation of sampled Gram matrices, and checks.

Section 2.3 of the paper, equation (10), and the events of Lemmas E.3, E.4 and E.5.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from rflaf.errors import Array, AssumptionWarning, InvalidParameterError

Case = Literal["squared", "lipschitz"]
CASES: tuple[Case, ...] = ("squared", "lipschitz")
_ROUNDING = 1e-10  # of the largest eigenvalue or entry: smaller values are rounding
_ROUNDINGS = 100.0  # of the precision of a Gram matrix coarser than float64: likewise


def spectrum_of_gram(K: ArrayLike) -> Array:
    """Return the eigenvalues mu (n,) of K / n for a Gram matrix ``K`` (n, n), the largest first.

    >>> spectrum_of_gram(np.diag([2.0, 4.0]))
    array([2., 1.])
    """
    K = _check_gram(K)
    return np.maximum(scipy.linalg.eigvalsh(K)[::-1] / K.shape[0], 0.0)


def spectrum_of_features(blocks: Iterable[Array]) -> Array:
    """Return the eigenvalues mu (s,) of Z Z' / (s n), the largest first, for blocks of rows (n_rows, s) of Z.

    They equal those of Z' Z / (s n), so that K = Z Z' / s is never formed. If s > n, the last s - n are zero.

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
    K, Z = _check_gram(K), np.asarray(features, dtype=np.float64)
    check_lambda(lam)
    if Z.ndim != 2 or Z.shape[0] != K.shape[0]:
        rule = f"features must have the shape (n, m) with n = {K.shape[0]}"
        raise InvalidParameterError(rule, Z.shape, "Pass one column per direction.")
    check_finite("features", Z)
    warn_if_above(lam, largest_eigenvalue(K) / len(K))
    factor = scipy.linalg.cho_factor(K + len(K) * lam * np.eye(len(K)), lower=True)
    return np.einsum("nm,nm->m", Z, scipy.linalg.cho_solve(factor, Z))


def pool_scores(blocks: Iterable[Array], lam: float) -> Array:
    """Return the scores p_i = [ G (G/s + n lambda I)^-1 ]_ii of Algorithm 1, line 3, (s,), with G = Z' Z.

    The features Z come as blocks of rows (n_rows, s). p_i is `leverage_function` under the kernel of the pool; the mean
    of p is the effective dimension of that kernel.

    >>> pool_scores([np.diag([3.0, 1.0])], lam=0.5)                      # 9 / (9/2 + 1) and 1 / (1/2 + 1)
    array([1.63636364, 0.66666667])
    """
    check_lambda(lam)
    G, n_rows = _sum_products(blocks)
    s, ridge = G.shape[0], G.shape[0] * n_rows * lam
    warn_if_above(lam, largest_eigenvalue(G) / (s * n_rows))
    factor = scipy.linalg.cho_factor(G + ridge * np.eye(s), lower=True)
    inverse = scipy.linalg.cho_solve(factor, np.eye(s)).diagonal()
    return np.clip(s * (1 - ridge * inverse), 0, s)


def _sum_products(blocks: Iterable[Array]) -> tuple[Array, int]:
    """Return Z' Z and the number of rows."""
    total, n_rows = None, 0
    for block in blocks:
        Z = np.asarray(block, dtype=np.float64)
        if Z.ndim != 2 or (total is not None and Z.shape[1] != total.shape[0]):
            rule = "every block of features must have the shape (n_rows, s)"
            raise InvalidParameterError(rule, Z.shape, "Pass blocks of equal width.")
        check_finite("features", Z)
        total = Z.T @ Z if total is None else total + Z.T @ Z
        n_rows += Z.shape[0]
    if total is None or n_rows == 0 or total.size == 0:
        rule = "features must have at least one row and one column"
        shape = None if total is None else (n_rows, total.shape[0])
        raise InvalidParameterError(rule, shape, "Pass at least one block.")
    return total, n_rows


def gram_deviation(K: ArrayLike, K_hat: ArrayLike, lam: float) -> float:
    """Return | (K + n lambda I)^-1/2 (K^ - K) (K + n lambda I)^-1/2 |, at most e in the event of Lemma E.4.

    >>> gram_deviation(np.diag([1.0, 3.0]), np.diag([1.0, 1.0]), lam=0.5)      # |1 - 3| / (3 + 1)
    0.5
    """
    K, K_hat, shift = _check_pair(K, K_hat, lam)
    warn_if_above(lam, largest_eigenvalue(K) / len(K))
    values = scipy.linalg.eigh(K_hat - K, K + shift, eigvals_only=True)
    return float(np.abs(values).max())


def worst_risk(K: ArrayLike, K_hat: ArrayLike, lam: float) -> float:
    """Return the maximum of min_v |Zv - f|^2 / n + lambda s |v|^2 over functions f of norm at most one (Lemma E.3).

    The minimum is lambda f' (K^ + n lambda I)^-1 f with f' K^-1 f <= 1 (Lemma E.5), so the maximum is lambda times the
    largest eigenvalue of (K^ + n lambda I)^-1 K; at most 2 lambda in the event of Lemma E.3.

    >>> round(worst_risk(np.diag([1.0, 3.0]), np.diag([1.0, 1.0]), lam=0.5), 12)      # 0.5 * 3 / (1 + 1)
    0.75
    """
    K, K_hat, shift = _check_pair(K, K_hat, lam)
    warn_if_above(lam, largest_eigenvalue(K) / len(K))
    return lam * largest_eigenvalue(K, K_hat + shift)


def squared_norm(K: ArrayLike, values: ArrayLike) -> float:
    """Return f' K^+ f, the least squared norm of a kernel function with ``values`` (n,) on the rows (Lemma E.5).

    It is at most E[v(w)^2] for f(x) = E_w[sigma(w.x) v(w)].
    """
    K, f = _check_gram(K), np.asarray(values, dtype=np.float64)
    if f.shape != K.shape[:1]:
        rule = f"values must have the shape (n,) with n = {K.shape[0]}"
        raise InvalidParameterError(rule, f.shape, "Pass one value per row.")
    check_finite("values", f)
    mu, U = scipy.linalg.eigh(K)
    kept = mu > _ROUNDING * max(float(mu[-1]), np.finfo(float).tiny)
    return float(np.sum((U[:, kept].T @ f) ** 2 / mu[kept]))


def check_eigenvalues(eigenvalues: ArrayLike) -> Array:
    """Return eigenvalues as an array (k,); values below zero by no more than rounding become zero."""
    mu = np.asarray(eigenvalues, dtype=np.float64)
    if mu.ndim != 1 or mu.size == 0:
        raise InvalidParameterError("eigenvalues must have the shape (k,)", mu.shape, "Pass a list of one or more.")
    check_finite("eigenvalues", mu)
    if mu.min() < -_ROUNDING * max(float(mu.max()), 0.0):
        _refuse_negative(float(mu.min()))
    return np.maximum(mu, 0.0)


def check_lambda(lam: float) -> float:
    """Return lambda, which must be above zero."""
    if not (np.isfinite(lam) and lam > 0):
        raise InvalidParameterError("lambda must be a number above zero", lam, "The paper uses 1 / sqrt(n).")
    return lam


def check_delta(delta: float) -> float:
    """Return delta, which must lie between 0 and 1."""
    return check_fraction("delta", delta)


def warn_if_above(lam: float, largest: float, stacklevel: int = 3) -> None:
    """Warn the caller of the caller if lambda exceeds mu_1, the ``largest`` eigenvalue of K / n (Assumption 2.2)."""
    if lam > largest * (1 + _ROUNDING):
        warnings.warn(
            f"lambda = {lam:.3g} is above the largest eigenvalue {largest:.3g} of K / n (Assumption 2.2): the penalty"
            " is stronger than the strongest signal, fits are close to zero and the bounds do not hold. Lower lambda.",
            AssumptionWarning,
            stacklevel=stacklevel,
        )


def largest_eigenvalue(K: Array, B: Array | None = None) -> float:
    """Return the largest eigenvalue of K, or of B^-1 K."""
    return float(scipy.linalg.eigvalsh(K, B, subset_by_index=[len(K) - 1] * 2)[0])


def _check_gram(matrix: ArrayLike) -> Array:
    """Return a Gram matrix in float64; up to rounding it must be symmetric and positive semi-definite."""
    given = np.asarray(matrix)
    K: Array = given.astype(np.float64)
    if K.ndim != 2 or K.shape[0] != K.shape[1] or K.size == 0:
        raise InvalidParameterError("a Gram matrix must be square", K.shape, "Pass K of shape (n, n).")
    check_finite("a Gram matrix", K)
    coarse = given.dtype.kind == "f" and given.dtype.itemsize < K.itemsize
    rounding = _ROUNDINGS * float(np.finfo(given.dtype).eps) if coarse else _ROUNDING
    off = float(np.abs(K - K.T).max())
    if off > rounding * float(np.abs(K).max()):
        entries = f"entries that differ by {off:.3g}"
        raise InvalidParameterError("a Gram matrix must be symmetric", entries, "Use (K + K.T) / 2.")
    K = (K + K.T) / 2
    try:  # much cheaper than the eigenvalues, which only the message needs
        scipy.linalg.cholesky(K + rounding * np.trace(K) * np.eye(K.shape[0]), lower=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        smallest = float(scipy.linalg.eigvalsh(K, subset_by_index=[0, 0])[0])
        if smallest < 0:  # a kernel that vanishes on these rows gives zero
            _refuse_negative(smallest)
    return K


def _check_pair(K: ArrayLike, K_hat: ArrayLike, lam: float) -> tuple[Array, Array, Array]:
    """Return two Gram matrices of the same rows, and n lambda I."""
    first, second = _check_gram(K), _check_gram(K_hat)
    if first.shape != second.shape:
        rule = f"both Gram matrices must be of the same rows, {first.shape}"
        raise InvalidParameterError(rule, second.shape, "Compute them on the same X.")
    return first, second, len(first) * check_lambda(lam) * np.eye(len(first))


def check_finite(name: str, values: Array) -> None:
    """Refuse NaN and infinity."""
    if not np.isfinite(values).all():
        wrong = float(values[~np.isfinite(values)][0])
        raise InvalidParameterError(f"{name} must be finite", wrong, "Leave out the rows it comes from.")


def _refuse_negative(smallest: float) -> None:
    remedy = "The matrix is not positive semi-definite: use K = Z Z'."
    raise InvalidParameterError("eigenvalues of a Gram matrix must be at least zero", smallest, remedy)


def check_case(case: Case) -> Case:
    """Return the case, one of `CASES`."""
    if case not in CASES:
        raise InvalidParameterError("the case must be 'squared' or 'lipschitz'", case, "Use 'squared'.")
    return case


def check_positive(name: str, value: float, remedy: str) -> None:
    """Refuse a value that is not finite and above zero."""
    if not (np.isfinite(value) and value > 0):
        raise InvalidParameterError(f"{name} must be a number above zero", value, remedy)


def check_fraction(name: str, value: float) -> float:
    """Return a value strictly between 0 and 1."""
    if not 0 < value < 1:
        raise InvalidParameterError(f"{name} must lie between 0 and 1, without either", value, "Try 0.1.")
    return value
