"""Spectrum of a kernel on data and the law of its decay, which selects a row of Tables 1 and 2 of the paper.

Eigenvalues mu_1 >= mu_2 >= ... of K / n, K = Z Z' / s, carry the sampling error of rows and components. Their decay is
a case of Appendix C: finite rank, exponential (mu_i ~ A^i), polynomial (mu_i ~ i^-t) or harmonic (t = 1).
"""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.extmath import randomized_svd

from rflaf.errors import Array, InvalidParameterError

from .dimension import check_eigenvalues, effective_dimension, spectrum_of_features

_MOST_EXACT, _N_LEADING = 2048, 512  # components up to which all eigenvalues are found; number found of a wider kernel
_BLOCK_ROWS = 2048
_N_POINTS = 24  # eigenvalues compared with a law, evenly spaced in the logarithm of their index
_LEAST_EIGENVALUES = 8
_CLIFF = 1e-6  # a fall by this factor from one eigenvalue to the next ends a finite rank
_NUMERICAL_ZERO = 1e-10  # of the largest
_RELIABLE, _NOT_ZERO = 0.25, 0.6  # relative errors up to which one enters the fit, and the last confirms a rank
_HARMONIC = 1.05  # t up to which a decay counts as harmonic; with its standard error


@dataclass(frozen=True, slots=True)
class KernelSpectrum:
    """Eigenvalues of K / n with their sampling error.

    Attributes
    ----------
    eigenvalues : (k,), the largest first
    error : (k,), root mean square error from sampling rows and components, estimated from halves of either
    trace : sum of all eigenvalues, including those not computed
    """

    eigenvalues: Array
    error: Array
    trace: float
    n_rows: int
    n_components: int

    @property
    def left(self) -> float:
        """Sum of the eigenvalues that were not computed."""
        return max(self.trace - float(self.eigenvalues.sum()), 0.0)

    @property
    def relative_error(self) -> float:
        """Root mean square error over root mean square of the eigenvalues."""
        size = float(np.linalg.norm(self.eigenvalues))
        return float(np.linalg.norm(self.error)) / size if size > 0 else 0.0

    def effective_dimension(self, lam: ArrayLike) -> Any:
        """Return an upper bound of d(lambda): eigenvalues not computed contribute ``left`` / lambda."""
        d = effective_dimension(self.eigenvalues, lam) + self.left / np.asarray(lam, dtype=np.float64)
        return float(d) if np.ndim(lam) == 0 else d

    @property
    def decay(self) -> Decay:
        """Law of decay of the reliable eigenvalues; a finite rank only if the last eigenvalue is reliable."""
        whole = classify_decay(self.eigenvalues)
        if whole.case == "finite rank" and self.error[whole.last - 1] <= _NOT_ZERO * self.eigenvalues[whole.last - 1]:
            return whole
        known = self.error <= _RELIABLE * self.eigenvalues
        n_known = known.size if known.all() else int(np.argmin(known))
        return classify_decay(self.eigenvalues[: max(n_known, _LEAST_EIGENVALUES)])


@dataclass(frozen=True, slots=True)
class Decay:
    """Law of decay fitted to eigenvalues.

    Attributes
    ----------
    case : "finite rank", "exponential", "polynomial" or "harmonic"
    rate, rate_error : the rank, A of A^i, or t of i^-t, and its standard error; zero for a rank
    fit : share of the variance of log mu that the law explains (R^2)
    confidence : Akaike weight of the law against the other one; one for a rank
    first, last : indices of the first and last eigenvalue compared
    """

    case: str
    rate: float
    rate_error: float
    fit: float
    confidence: float
    first: int
    last: int

    @property
    def law(self) -> str:
        """The law as a short formula."""
        return {
            "finite rank": f"rank {self.rate:.0f}",
            "exponential": f"mu_i ~ {self.rate:.3g}^i",
            "polynomial": f"mu_i ~ i^-{self.rate:.2f}",
            "harmonic": f"mu_i ~ i^-{self.rate:.2f}, no faster than 1/i",
        }[self.case]


def decay_curve(decay: Decay, eigenvalues: ArrayLike) -> tuple[Array, Array]:
    """Return the indices i of the eigenvalues compared and the law at them, at the mean level of log mu.

    >>> decay_curve(classify_decay(1.0 / np.arange(1, 500) ** 2), 1.0 / np.arange(1, 500) ** 2)[1][:2]
    array([0.25      , 0.11111111])
    """
    number = np.arange(decay.first, decay.last + 1, dtype=np.float64)
    log_mu = np.log(np.maximum(np.asarray(eigenvalues)[decay.first - 1 : decay.last], np.finfo(float).tiny))
    shape = {"finite rank": 0 * number, "exponential": number * np.log(max(decay.rate, np.finfo(float).tiny))}
    log_law = shape.get(decay.case, -decay.rate * np.log(number))
    return number, np.exp(log_law + np.mean(log_mu - log_law))


def spectrum_of_rows(Z: Array) -> KernelSpectrum:
    """Compute the spectrum of the kernel of features ``Z`` (n_rows, s), with its error.

    Up to 2,048 components give all eigenvalues; more give the 512 largest, by a randomised singular value
    decomposition. Halves of the rows and of the components give the sampling error, so the last s / 2 of s eigenvalues
    are never reliable.

    >>> Z = np.random.default_rng(0).standard_normal((4000, 3)) * [2.0, 1.0, 0.5]
    >>> np.round(3 * spectrum_of_rows(Z).eigenvalues)                    # variances 4, 1 and 1/4
    array([4., 1., 0.])
    """
    Z = np.asarray(Z, dtype=np.float64)
    if Z.ndim != 2 or Z.shape[0] < 4 or Z.shape[1] < 2:
        raise InvalidParameterError("features must have at least 4 rows and 2 columns", Z.shape, "Pass more.")
    if not np.isfinite(Z).all():
        raise InvalidParameterError("features must be finite", "NaN or infinity", "Leave those rows out.")
    mu = _eigenvalues(Z)
    rows, columns = (_sampling_error(mu, halves) for halves in ((Z[::2], Z[1::2]), (Z[:, ::2], Z[:, 1::2])))
    trace = float(np.einsum("rj,rj->", Z, Z)) / Z.size
    return KernelSpectrum(mu, np.hypot(rows, columns), trace, *Z.shape)


def classify_decay(eigenvalues: ArrayLike) -> Decay:
    """Return the case of Appendix C that eigenvalues (k,) follow.

    A finite rank shows as a cliff. Otherwise log mu is regressed on i and on log i, at 24 indices evenly spaced in
    log i, without the first eigenvalue, which often belongs to a constant. The better law wins; a power that exceeds
    one by no more than 0.05 and its error counts as harmonic.

    >>> classify_decay(0.5 ** np.arange(30)).law
    'mu_i ~ 0.5^i'
    >>> classify_decay(1.0 / np.arange(1, 500) ** 2).law
    'mu_i ~ i^-2.00'
    """
    mu = np.sort(check_eigenvalues(eigenvalues))[::-1]
    if mu[0] == 0:
        raise InvalidParameterError("one eigenvalue must be above zero", 0.0, "The kernel is zero on these rows.")
    rank = int(np.count_nonzero(mu > _NUMERICAL_ZERO * mu[0]))
    ends_in_a_cliff = rank < mu.size and mu[rank] <= _CLIFF * mu[rank - 1]
    if ends_in_a_cliff or rank < _LEAST_EIGENVALUES:
        return Decay("finite rank", rank, 0.0, 1.0, 1.0, 1, rank)
    number = np.unique(np.geomspace(2, rank, _N_POINTS).astype(int))
    log_mu = np.log(mu[number - 1])
    exponential, power = _line(number.astype(float), log_mu), _line(np.log(number), log_mu)
    confidence = 1 / (1 + (min(exponential.rss, power.rss) / max(exponential.rss, power.rss)) ** (number.size / 2))
    if exponential.rss < power.rss:
        A = float(np.exp(exponential.slope))
        return Decay("exponential", A, A * exponential.error, exponential.fit, confidence, 2, rank)
    t = abs(power.slope)  # the eigenvalues are sorted
    case = "harmonic" if t <= _HARMONIC + 2 * power.error and t <= _HARMONIC + 0.1 else "polynomial"
    return Decay(case, t, power.error, power.fit, confidence, 2, rank)


_Line = namedtuple("_Line", "slope error rss fit")


def _line(x: Array, y: Array) -> _Line:
    """Fit y on x by least squares."""
    dx, dy = x - x.mean(), y - y.mean()
    slope = float(dx @ dy / (dx @ dx))
    total, tiny = float(dy @ dy), np.finfo(float).eps
    rss = max(float(np.sum((dy - slope * dx) ** 2)), tiny * total, np.finfo(float).tiny)
    return _Line(slope, float(np.sqrt(rss / (x.size - 2) / (dx @ dx))), rss, 1 - rss / max(total, rss))


def _eigenvalues(Z: Array) -> Array:
    n_rows, s = Z.shape
    if s <= _MOST_EXACT:
        blocks = (Z[start : start + _BLOCK_ROWS] for start in range(0, n_rows, _BLOCK_ROWS))
        return spectrum_of_features(blocks)[: min(n_rows, s)]
    _, singular, _ = randomized_svd(Z, min(_N_LEADING, n_rows), n_iter=4, random_state=0)
    return np.asarray(singular**2 / (n_rows * s))


def _sampling_error(mu: Array, halves: tuple[Array, Array]) -> Array:
    """Estimate the root mean square error of eigenvalues ``mu`` (k,), variance and bias, from two halves.

    A single difference may vanish by chance; the mean square over a few neighbours does not.
    """
    found = (_eigenvalues(half)[: mu.size] for half in halves)
    first, second = (np.pad(values, (0, mu.size - values.size)) for values in found)
    size = np.maximum(mu, _NUMERICAL_ZERO * mu[0]) if mu[0] > 0 else np.ones_like(mu)
    square = ((first - second) / size) ** 2 / 4 + ((first + second) / (2 * size) - mu / size) ** 2
    window = np.ones(min(5, mu.size))
    return size * np.sqrt(np.convolve(square, window, "same") / np.convolve(np.ones(mu.size), window, "same"))
