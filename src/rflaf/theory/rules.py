"""Checks of the arguments of the theory, and the warning when its main assumption fails."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from rflaf.errors import Array, AssumptionWarning, InvalidParameterError

Case = Literal["squared", "lipschitz"]
CASES: tuple[Case, ...] = ("squared", "lipschitz")
ROUNDING = 1e-10  # of the largest eigenvalue or entry: smaller values are rounding
_ROUNDINGS = 100.0  # of the precision of a Gram matrix coarser than float64: likewise


def check_eigenvalues(eigenvalues: ArrayLike) -> Array:
    """Return eigenvalues as an array (k,); values below zero by no more than rounding become zero."""
    mu = np.asarray(eigenvalues, dtype=np.float64)
    if mu.ndim != 1 or mu.size == 0:
        raise InvalidParameterError("eigenvalues must have the shape (k,)", mu.shape, "Pass a list of one or more.")
    check_finite("eigenvalues", mu)
    if mu.min() < -ROUNDING * max(float(mu.max()), 0.0):
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


def warn_if_above(lam: float, largest: float) -> None:
    """Warn if lambda exceeds mu_1 (Assumption 2.2)."""
    if lam > largest * (1 + ROUNDING):
        warnings.warn(
            f"lambda = {lam:.3g} is above the largest eigenvalue {largest:.3g} of K / n (Assumption 2.2): the penalty"
            " is stronger than the strongest signal, fits are close to zero and the bounds do not hold. Lower lambda.",
            AssumptionWarning,
            stacklevel=3,
        )


def largest_eigenvalue(K: Array, B: Array | None = None) -> float:
    """Return the largest eigenvalue of K, or of B^-1 K."""
    last = [K.shape[0] - 1] * 2
    return float(scipy.linalg.eigvalsh(K, B, subset_by_index=last)[0])


def check_gram(matrix: ArrayLike) -> Array:
    """Return a Gram matrix in float64; up to rounding it must be symmetric and positive semi-definite."""
    given = np.asarray(matrix)
    K: Array = given.astype(np.float64)
    if K.ndim != 2 or K.shape[0] != K.shape[1] or K.size == 0:
        raise InvalidParameterError("a Gram matrix must be square", K.shape, "Pass K of shape (n, n).")
    check_finite("a Gram matrix", K)
    coarse = given.dtype.kind == "f" and given.dtype.itemsize < K.itemsize
    rounding = _ROUNDINGS * float(np.finfo(given.dtype).eps) if coarse else ROUNDING
    off = float(np.abs(K - K.T).max())
    if off > rounding * float(np.abs(K).max()):
        raise InvalidParameterError(
            "a Gram matrix must be symmetric", f"entries that differ by {off:.3g}", "Use (K + K.T) / 2."
        )
    K = (K + K.T) / 2
    try:  # much cheaper than the eigenvalues, which only the message needs
        scipy.linalg.cholesky(K + rounding * np.trace(K) * np.eye(K.shape[0]), lower=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        smallest = float(scipy.linalg.eigvalsh(K, subset_by_index=[0, 0])[0])
        if smallest < 0:  # a kernel that vanishes on these rows gives zero
            _refuse_negative(smallest)
    return K


def check_pair(K: ArrayLike, K_hat: ArrayLike) -> tuple[Array, Array]:
    """Return two Gram matrices of the same rows."""
    first, second = check_gram(K), check_gram(K_hat)
    if first.shape != second.shape:
        raise InvalidParameterError(
            f"both Gram matrices must be of the same rows, {first.shape}", second.shape, "Compute them on the same X."
        )
    return first, second


def check_finite(name: str, values: Array) -> None:
    """Refuse NaN and infinity."""
    if not np.isfinite(values).all():
        wrong = float(values[~np.isfinite(values)][0])
        raise InvalidParameterError(f"{name} must be finite", wrong, "Leave out the rows it comes from.")


def _refuse_negative(smallest: float) -> None:
    raise InvalidParameterError(
        "eigenvalues of a Gram matrix must be at least zero",
        smallest,
        "The matrix is not positive semi-definite: use K = Z Z'.",
    )


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
