"""The theory of the paper as numbers: effective dimension, widths, risk bounds and the orders of growth.

Numbers in, numbers out. K is the Gram matrix of n rows under the kernel of an activation sigma and directions w ~ p,
and mu_1 >= mu_2 >= ... are the eigenvalues of K / n:

    K = E_p[ sigma(Xw) sigma(Xw)' ],      l(w) / p(w) = sigma(Xw)' (K + n lambda I)^-1 sigma(Xw),
    d = tr K (K + n lambda I)^-1 = sum_m mu_m / (mu_m + lambda)

Section 2.3 and Theorems 3.1, 3.6, 4.1 and 4.2 of the paper, its appendix on the effective dimension, and Lemmas 22, 27
and 29. What the paper leaves as O(.) or Omega(.) is computed with the constant one, or with a constant given: such
numbers tell how a quantity grows, not how large it is.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from rflaf.errors import Array, AssumptionWarning, InvalidParameterError

Case = Literal["squared", "lipschitz"]
CASES: tuple[Case, ...] = ("squared", "lipschitz")
PAPER_CONSTANT = 5.0
_ROUNDING = 1e-10  # of the largest eigenvalue or entry: what is smaller is rounding
_ROUNDINGS = 100.0  # of the precision of a Gram matrix that is not float64: likewise


# Spectrum, effective dimension and leverage


def spectrum_of_gram(K: ArrayLike) -> Array:
    """Eigenvalues mu (n,) of K / n for a Gram matrix ``K`` (n, n), the largest first.

    >>> spectrum_of_gram(np.diag([2.0, 4.0]))
    array([2., 1.])
    """
    K = _check_gram(K)
    return np.maximum(scipy.linalg.eigvalsh(K)[::-1] / K.shape[0], 0.0)


def spectrum_of_features(blocks: Iterable[Array]) -> Array:
    """Eigenvalues mu (s,) of Z Z' / (s n), the largest first, for features Z given as blocks of rows (n_rows, s).

    They are those of Z' Z / (s n), summed over the blocks; K = Z Z' / s is never formed. Where s > n the last s - n are
    zero.

    >>> spectrum_of_features([np.array([[2.0, 0.0]]), np.array([[0.0, 4.0]])])
    array([4., 1.])
    """
    G, n_rows = _sum_products(blocks)
    return np.maximum(scipy.linalg.eigvalsh(G)[::-1] / (n_rows * G.shape[0]), 0.0)


def effective_dimension(eigenvalues: ArrayLike, lam: ArrayLike) -> Any:
    """d = sum_m mu_m / (mu_m + lambda) for eigenvalues mu of K / n; a float, or an array of the shape of ``lam``.

    Falls with lambda, lies below the number of positive eigenvalues, and below the sum of the eigenvalues over lambda.

    >>> effective_dimension([1.0, 0.5, 0.0], 0.5)
    1.1666666666666665
    """
    mu = check_eigenvalues(eigenvalues)
    lams = np.atleast_1d(np.asarray(lam, dtype=np.float64))
    if lams.size == 0:
        raise InvalidParameterError("lambda must be a number or several", lam, "The paper uses 1 / sqrt(n).")
    for value in lams.flat:
        check_lambda(float(value))
    _warn_if_above(float(lams.max()), float(mu.max()))
    d = np.sum(mu / (mu + lams[..., None]), axis=-1)
    return float(d[0]) if np.ndim(lam) == 0 else d.reshape(np.shape(lam))


def leverage_function(K: ArrayLike, features: ArrayLike, lam: float) -> Array:
    """l(w) / p(w) = sigma(Xw)' (K + n lambda I)^-1 sigma(Xw) for each column sigma(Xw) of ``features`` (n, m): (m,).

    Its mean over w ~ p is the effective dimension, and it is at most |sigma|^2 / lambda, the bound of plain sampling.

    >>> leverage_function(np.diag([1.0, 3.0]), np.eye(2), lam=0.5)      # 1 / (1 + 1) and 1 / (3 + 1)
    array([0.5 , 0.25])
    """
    K, Z = _check_gram(K), np.asarray(features, dtype=np.float64)
    check_lambda(lam)
    if Z.ndim != 2 or Z.shape[0] != K.shape[0]:
        raise InvalidParameterError(
            f"features must have the shape (n, m) with n = {K.shape[0]}", Z.shape, "Pass one column a direction."
        )
    _check_finite("features", Z)
    n = K.shape[0]
    _warn_if_above(lam, _largest(K) / n)
    factor = scipy.linalg.cho_factor(K + n * lam * np.eye(n), lower=True)
    return np.einsum("nm,nm->m", Z, scipy.linalg.cho_solve(factor, Z))


def pool_scores(blocks: Iterable[Array], lam: float) -> Array:
    """The scores p_i = [ G (G/s + n lambda I)^-1 ]_ii of line 3 of Algorithm 1, (s,), with G = Z' Z.

    The features Z come as blocks of rows (n_rows, s), so any number of rows streams through an (s, s) matrix. p_i is
    `leverage_function` under the kernel of the pool itself; their mean is its effective dimension.

    >>> pool_scores([np.diag([3.0, 1.0])], lam=0.5)                      # 9 / (9/2 + 1) and 1 / (1/2 + 1)
    array([1.63636364, 0.66666667])
    """
    check_lambda(lam)
    G, n_rows = _sum_products(blocks)
    s = G.shape[0]
    ridge = s * n_rows * lam
    _warn_if_above(lam, _largest(G) / (s * n_rows))
    factor = scipy.linalg.cho_factor(G + ridge * np.eye(s), lower=True)
    inverse = scipy.linalg.cho_solve(factor, np.eye(s)).diagonal()
    return np.clip(s * (1 - ridge * inverse), 0, s)


# Widths


def width(mass: float, dimension: float, delta: float, constant: float = PAPER_CONSTANT) -> int:
    """Theorem 3.1: features enough when drawn from q = l~ / mass, for any l~ >= l whose integral is ``mass``.

    s >= 5 mass log(16 d / delta). The 5 is the paper's: its Lemma 27 gives 1/e^2 + 2/(3e) = 16/3 at e = 1/2, and a
    factor of two is lost there in the exponent; `bernstein_width` keeps it.

    >>> width(mass=10.0, dimension=10.0, delta=0.1)
    369
    """
    _check_positive("mass", mass, "It is the integral of the bound on the leverage score function.")
    _check_positive("dimension", dimension, "Use effective_dimension.")
    check_delta(delta)
    return max(1, math.ceil(constant * mass * math.log(16 * dimension / delta)))


def leverage_width(dimension: float, delta: float, constant: float = PAPER_CONSTANT) -> int:
    """Corollaries 3.2 and 3.7: 5 d log(16 d / delta) features drawn in proportion to the leverage score function."""
    return width(dimension, dimension, delta, constant)


def plain_width(bound: float, lam: float, dimension: float, delta: float, constant: float = PAPER_CONSTANT) -> int:
    """Corollaries 3.3 and 3.8: (5 |sigma|^2 / lambda) log(16 d / delta) features drawn from p.

    ``bound`` is |sigma|, the largest absolute value of the activation.

    >>> plain_width(bound=1.0, lam=0.1, dimension=10.0, delta=0.1)
    369
    """
    _check_positive("bound", bound, "It is the largest absolute value of the activation.")
    check_lambda(lam)
    return width(bound**2 / lam, dimension, delta, constant)


def bernstein_width(mass: float, dimension: float, delta: float, accuracy: float = 0.5, top: float = 1.0) -> int:
    """Lemma 27 with every constant of the matrix Bernstein inequality (Lemma 26) kept.

    2 mass (top / e^2 + 2 / (3 e)) log(8 d / (top delta)) features bring the Gram matrix within ``accuracy`` e, where
    ``top`` = mu_1 / (mu_1 + lambda) lies between 1/2 and 1 under Assumption 2.3.
    """
    _check_positive("mass", mass, "It is the integral of the bound on the leverage score function.")
    _check_positive("dimension", dimension, "Use effective_dimension.")
    check_delta(delta)
    _check_fraction("accuracy", accuracy)
    if not 0.5 <= top <= 1:
        raise InvalidParameterError("top must lie between 1/2 and 1", top, "Use 1.")
    rate = 2 * mass * (top / accuracy**2 + 2 / (3 * accuracy))
    return max(1, math.ceil(rate * math.log(8 * dimension / (top * delta))))


# Risk bounds, and the settings they ask for


@dataclass(frozen=True, slots=True)
class RiskBound:
    """An upper bound on the excess risk, term by term.

    Attributes
    ----------
    sampling : 4 lambda or 4 sqrt(lambda), of drawing finitely many features
    complexity : C / (h sqrt(n)), Rademacher complexity of the learned activation
    approximation : of an activation by N basis functions
    resampling : 4 lambda* or 4 sqrt(lambda*), of drawing again from the pool; zero without a pool

    >>> risk_bound("squared", lam=0.01, h=0.5, n_samples=10_000, epsilon=0.01)
    RiskBound(sampling=0.04, complexity=0.02, approximation=0.02, resampling=0.0)
    """

    sampling: float
    complexity: float
    approximation: float
    resampling: float = 0.0

    @property
    def total(self) -> float:
        return self.sampling + self.complexity + self.approximation + self.resampling


def risk_bound(case: Case, lam: float, h: float, n_samples: float, epsilon: float, constant: float = 1.0) -> RiskBound:
    """Theorems 3.1 and 3.6, with probability 1 - delta at the widths above.

    squared:    4 lambda       + C / (h sqrt(n)) + 2 epsilon
    lipschitz:  4 sqrt(lambda) + C / (h sqrt(n)) + epsilon

    ``constant`` is C. For the squared loss the paper's epsilon is the square of the error of the activation.
    """
    return RiskBound(
        _sampling_term(case, lam),
        _complexity_term(h, n_samples, constant),
        {"squared": 2.0, "lipschitz": 1.0}[case] * _check_fraction("epsilon", epsilon),
    )


def algorithm_bound(
    case: Case, lam: float, lam_star: float, h: float, n_samples: float, epsilon: float, constant: float = 1.0
) -> RiskBound:
    """Theorems 4.1 and 4.2, for Algorithm 1: a pool drawn plainly at lambda, then leverage sampling at lambda*.

    squared:    4 lambda + 4 lambda*             + C / (h sqrt(n)) + 4 epsilon
    lipschitz:  4 sqrt(lambda) + 4 sqrt(lambda*) + C / (h sqrt(n)) + 2 epsilon
    """
    return RiskBound(
        _sampling_term(case, lam),
        _complexity_term(h, n_samples, constant),
        {"squared": 4.0, "lipschitz": 2.0}[case] * _check_fraction("epsilon", epsilon),
        _sampling_term(case, lam_star),
    )


def lambda_for(case: Case, epsilon: float) -> float:
    """The lambda whose sampling term is ``epsilon``: epsilon / 4 for the squared loss, (epsilon / 4)^2 for others."""
    quarter = _check_fraction("epsilon", epsilon) / 4
    return quarter if _check_case(case) == "squared" else quarter**2


@dataclass(frozen=True, slots=True)
class Grid:
    """A grid for the activation: ``n_basis`` functions of width ``h`` on an interval of length one."""

    n_basis: int
    h: float


def grid_for(case: Case, epsilon: float, constant: float = 1.0) -> Grid:
    """The grid that approximates the activation well enough for a risk of order ``epsilon``, up to ``constant``.

    squared (Theorem 3.1):        1/h = (log(1/e) / e)^(1/2),   N = log(1/e)^(3/2) / e
    lipschitz (Theorem 3.6, Lemma 2.1):  1/h = log(1/e)^(1/2) / e,    N = log(1/e)^(3/2) / e^2

    >>> grid_for("squared", 0.1).n_basis
    35
    """
    e = _check_fraction("epsilon", epsilon)
    log = math.log(1 / e)
    rate = e if _check_case(case) == "squared" else e**2
    return Grid(max(2, math.ceil(constant * log**1.5 / rate)), math.sqrt(rate / log) / constant)


def n_samples_for(h: float, epsilon: float) -> int:
    """Rows at which the term 1 / (h sqrt(n)) is ``epsilon``: n = 1 / (epsilon h)^2."""
    _check_positive("h", h, "Use grid_for.")
    return math.ceil(1 / (_check_fraction("epsilon", epsilon) * h) ** 2)


# Orders of growth: Tables 1 and 2


@dataclass(frozen=True, slots=True)
class Growth:
    """One cell of Table 1 or 2: s grows as (1/e)^power log(1/e)^logs loglog(1/e)^loglogs.

    ``by_rate`` says that the power of 1/e is divided by t, of eigenvalues that decay as i^-t.
    """

    scheme: str
    spectrum: str
    power: float
    logs: float
    loglogs: float
    by_rate: bool = False

    def exponent(self, t: float = 1.0) -> float:
        """The power of 1/e, that is the slope of log s in log(1/e) without its logarithms."""
        return self.power / t if self.by_rate else self.power

    def order(self, epsilon: ArrayLike, t: float = 1.0) -> Any:
        """The order itself at ``epsilon`` below exp(-1), where loglog(1/e) is above zero."""
        e = np.asarray(epsilon, dtype=np.float64)
        if not np.all((e > 0) & (e < math.exp(-1))):
            raise InvalidParameterError("epsilon must lie between 0 and exp(-1)", epsilon, "Try 0.1.")
        log = np.log(1 / e)
        return np.exp(self.exponent(t) * log) * log**self.logs * np.log(log) ** self.loglogs

    @property
    def formula(self) -> str:
        """The cell as the paper prints it.

        >>> [cell.formula for cell in growth_table("squared")][:3]
        ['1', 'log(1/e) loglog(1/e)', '(1/e)^(1/t) log(1/e)']
        """
        base = {0.0: "", 1.0: "1/e", 2.0: "1/e^2"}[self.power]
        power = f"({base})^(1/t)" if self.by_rate else f"({base})" if base else ""
        factors = [power, "log(1/e)" if self.logs else "", "loglog(1/e)" if self.loglogs else ""]
        return " ".join(factor for factor in factors if factor) or "1"


def growth_table(case: Case) -> tuple[Growth, ...]:
    """Table 1 (squared loss) or Table 2 (Lipschitz losses) of the paper as data."""
    power = 1.0 if _check_case(case) == "squared" else 2.0
    return (
        Growth("leverage", "finite rank", 0.0, 0.0, 0.0),
        Growth("leverage", "exponential", 0.0, 1.0, 1.0),
        Growth("leverage", "polynomial", power, 1.0, 0.0, by_rate=True),
        Growth("plain", "finite rank", power, 0.0, 0.0),
        Growth("plain", "exponential", power, 0.0, 1.0),
        Growth("plain", "polynomial", power, 1.0, 0.0),
        Growth("former result", "any", 2.0, 0.0, 0.0),
    )


def render_growth_table(case: Case) -> str:
    """The same as a Markdown table."""
    rows = [f"| {cell.scheme} | {cell.spectrum} | {cell.formula} |" for cell in growth_table(case)]
    return "\n".join(["| sampling | spectrum | features for risk O(e) |", "| --- | --- | --- |", *rows])


# The events of the lemmas


def gram_deviation(K: ArrayLike, K_hat: ArrayLike, lam: float) -> float:
    """Lemma 27: | (K + n lambda I)^-1/2 (K^ - K) (K + n lambda I)^-1/2 |, at most e in the event of the lemma.

    >>> gram_deviation(np.diag([1.0, 3.0]), np.diag([1.0, 1.0]), lam=0.5)      # |1 - 3| / (3 + 1)
    0.5
    """
    K, K_hat = _check_pair(K, K_hat)
    check_lambda(lam)
    n = K.shape[0]
    values = scipy.linalg.eigh(K_hat - K, K + n * lam * np.eye(n), eigvals_only=True)
    return float(np.abs(values).max())


def worst_risk(K: ArrayLike, K_hat: ArrayLike, lam: float) -> float:
    """Lemma 22: the largest of min_v |Zv - f|^2 / n + lambda s |v|^2 over functions f of norm at most one.

    It is lambda f' (K^ + n lambda I)^-1 f with f' K^-1 f <= 1 (Lemma 29), so lambda times the largest eigenvalue of
    (K^ + n lambda I)^-1 K; at most 2 lambda in the event of the lemma.

    >>> round(worst_risk(np.diag([1.0, 3.0]), np.diag([1.0, 1.0]), lam=0.5), 12)      # 0.5 * 3 / (1 + 1)
    0.75
    """
    K, K_hat = _check_pair(K, K_hat)
    check_lambda(lam)
    n = K.shape[0]
    return lam * _largest(K, K_hat + n * lam * np.eye(n))


def squared_norm(K: ArrayLike, values: ArrayLike) -> float:
    """Lemma 29: f' K^+ f, the least squared norm of a function of the kernel with these ``values`` (n,) on the rows.

    At most E[v(w)^2] for f(x) = E_w[sigma(w.x) v(w)].
    """
    K, f = _check_gram(K), np.asarray(values, dtype=np.float64)
    if f.shape != K.shape[:1]:
        raise InvalidParameterError(
            f"values must have the shape (n,) with n = {K.shape[0]}", f.shape, "Pass one value a row."
        )
    _check_finite("values", f)
    mu, U = scipy.linalg.eigh(K)
    kept = mu > _ROUNDING * max(float(mu[-1]), np.finfo(float).tiny)
    return float(np.sum((U[:, kept].T @ f) ** 2 / mu[kept]))


# Rules


def check_eigenvalues(eigenvalues: ArrayLike) -> Array:
    """Eigenvalues as an array (k,), those below zero by no more than rounding set to zero."""
    mu = np.asarray(eigenvalues, dtype=np.float64)
    if mu.ndim != 1 or mu.size == 0:
        raise InvalidParameterError("eigenvalues must have the shape (k,)", mu.shape, "Pass a list of one or more.")
    _check_finite("eigenvalues", mu)
    if mu.min() < -_ROUNDING * max(float(mu.max()), 0.0):
        _refuse_negative(float(mu.min()))
    return np.maximum(mu, 0.0)


def check_lambda(lam: float) -> float:
    """lambda, refused unless it is above zero."""
    if not (np.isfinite(lam) and lam > 0):
        raise InvalidParameterError("lambda must be a number above zero", lam, "The paper uses 1 / sqrt(n).")
    return lam


def check_delta(delta: float) -> float:
    """delta, refused unless it lies between 0 and 1."""
    return _check_fraction("delta", delta)


def _warn_if_above(lam: float, largest: float) -> None:
    if lam > largest * (1 + _ROUNDING):
        warnings.warn(
            f"lambda = {lam:.3g} is above the largest eigenvalue {largest:.3g} of K / n (Assumption 2.3): the penalty"
            " is stronger than the strongest signal, fits are close to zero and the bounds do not hold. Lower lambda.",
            AssumptionWarning,
            stacklevel=3,
        )


def _largest(K: Array, B: Array | None = None) -> float:
    """The largest eigenvalue of K, or of B^-1 K."""
    last = [K.shape[0] - 1] * 2
    return float(scipy.linalg.eigvalsh(K, B, subset_by_index=last)[0])


def _check_gram(matrix: ArrayLike) -> Array:
    """A Gram matrix in float64, refused unless it is symmetric and positive semi-definite but for rounding."""
    given = np.asarray(matrix)
    K: Array = given.astype(np.float64)
    if K.ndim != 2 or K.shape[0] != K.shape[1] or K.size == 0:
        raise InvalidParameterError("a Gram matrix must be square", K.shape, "Pass K of shape (n, n).")
    _check_finite("a Gram matrix", K)
    coarse = given.dtype.kind == "f" and given.dtype.itemsize < K.itemsize
    rounding = _ROUNDINGS * float(np.finfo(given.dtype).eps) if coarse else _ROUNDING
    off = float(np.abs(K - K.T).max())
    if off > rounding * float(np.abs(K).max()):
        raise InvalidParameterError(
            "a Gram matrix must be symmetric", f"entries that differ by {off:.3g}", "Use (K + K.T) / 2."
        )
    K = (K + K.T) / 2
    try:  # a factor costs a fraction of the eigenvalues, which only the message needs
        scipy.linalg.cholesky(K + rounding * np.trace(K) * np.eye(K.shape[0]), lower=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        smallest = float(scipy.linalg.eigvalsh(K, subset_by_index=[0, 0])[0])
        if smallest < 0:  # zero is the matrix of a kernel that vanishes on these rows
            _refuse_negative(smallest)
    return K


def _check_pair(K: ArrayLike, K_hat: ArrayLike) -> tuple[Array, Array]:
    one, other = _check_gram(K), _check_gram(K_hat)
    if one.shape != other.shape:
        raise InvalidParameterError(
            f"both Gram matrices must be of the same rows, {one.shape}", other.shape, "Compute them on the same X."
        )
    return one, other


def _check_finite(name: str, values: Array) -> None:
    if not np.isfinite(values).all():
        wrong = float(values[~np.isfinite(values)][0])
        raise InvalidParameterError(f"{name} must be finite", wrong, "Leave out the rows it comes from.")


def _refuse_negative(smallest: float) -> None:
    raise InvalidParameterError(
        "eigenvalues of a Gram matrix must be at least zero",
        smallest,
        "The matrix is not positive semi-definite: use K = Z Z'.",
    )


def _sum_products(blocks: Iterable[Array]) -> tuple[Array, int]:
    """Z' Z and the number of rows."""
    total: Array | None = None
    n_rows = 0
    for block in blocks:
        Z = np.asarray(block, dtype=np.float64)
        if Z.ndim != 2 or (total is not None and Z.shape[1] != total.shape[0]):
            raise InvalidParameterError(
                "every block of features must have the shape (n_rows, s)", Z.shape, "Pass blocks of equal width."
            )
        _check_finite("features", Z)
        total = Z.T @ Z if total is None else total + Z.T @ Z
        n_rows += Z.shape[0]
    if total is None or n_rows == 0 or total.size == 0:
        raise InvalidParameterError(
            "features must have at least one row and one column",
            None if total is None else (n_rows, total.shape[0]),
            "Pass at least one block.",
        )
    return total, n_rows


def _check_case(case: Case) -> Case:
    if case not in CASES:
        raise InvalidParameterError("the case must be 'squared' or 'lipschitz'", case, "Use 'squared'.")
    return case


def _check_positive(name: str, value: float, remedy: str) -> None:
    if not (np.isfinite(value) and value > 0):
        raise InvalidParameterError(f"{name} must be a number above zero", value, remedy)


def _check_fraction(name: str, value: float) -> float:
    if not 0 < value < 1:
        raise InvalidParameterError(f"{name} must lie between 0 and 1, without either", value, "Try 0.1.")
    return value


def _sampling_term(case: Case, lam: float) -> float:
    check_lambda(lam)
    return 4 * (lam if _check_case(case) == "squared" else math.sqrt(lam))


def _complexity_term(h: float, n_samples: float, constant: float) -> float:
    _check_positive("h", h, "Use grid_for.")
    _check_positive("n_samples", n_samples, "Give the number of rows.")
    return constant / (h * math.sqrt(n_samples))
