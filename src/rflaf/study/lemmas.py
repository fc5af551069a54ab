"""Count how often Lemmas E.3 and E.4 hold, and measure the slack of their constant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.stats

from rflaf.theory import bernstein_width, effective_dimension, width

from .kernels import SCHEMES, CoordinateKernel, DrawnKernel, Scheme

ACCURACY, MOST_EXCESS = 0.5, 2.0  # the events of Lemmas E.4 and E.3
_WITHIN = 1.01


@dataclass(frozen=True)
class LemmaCount:
    """Frequency of the events in ``n_draws`` draws.

    Attributes
    ----------
    s : features drawn, 5 mass log(16 d / delta)
    rigorous : features by the Bernstein inequality with all its constants
    deviation_held, risk_held : shares of the draws in which the event held
    promised : 1 - delta
    risk_constant : the constant in place of 5 at which Lemma E.3 holds in a share 1 - delta of the draws
    """

    kernel: str
    scheme: Scheme
    lam: float
    effective_dimension: float
    s: int
    rigorous: int
    n_draws: int
    deviation_held: float
    risk_held: float
    promised: float
    risk_constant: float


def count_events(
    name: str, kernel: DrawnKernel, lam: float, delta: float, n_draws: int, rng: np.random.Generator
) -> list[LemmaCount]:
    """Count both lemmas under both schemes at the number of features of Theorem 3.2."""
    d = effective_dimension(kernel.eigenvalues, lam)
    answers = []
    for scheme in SCHEMES:
        mass = mass_of(kernel, scheme, lam)
        s = width(mass, d, delta)
        near = float(np.mean(kernel.deviations(s, scheme, lam, n_draws, rng) <= ACCURACY))
        good = float(np.mean(kernel.excesses(s, scheme, lam, n_draws, rng) <= MOST_EXCESS))
        enough = least_width(kernel, scheme, lam, delta, n_draws // 2, rng)
        constant = enough / (mass * np.log(16 * d / delta))
        rigorous = bernstein_width(mass, d, delta)
        counted = LemmaCount(name, scheme, lam, d, s, rigorous, n_draws, near, good, 1 - delta, float(constant))
        answers.append(counted)
    return answers


def mass_of(kernel: DrawnKernel, scheme: Scheme, lam: float) -> float:
    """Return the integral of the bound on the leverage score function used by a scheme."""
    if scheme == "plain":
        return kernel.bound() / lam
    return float(effective_dimension(kernel.eigenvalues, lam))


def least_width(
    kernel: DrawnKernel, scheme: Scheme, lam: float, delta: float, n_draws: int, rng: np.random.Generator
) -> int:
    """Return the least number of features at which Lemma E.3 holds in a share 1 - delta of ``n_draws`` draws."""

    def holds(s: int) -> bool:
        return bool(np.mean(kernel.excesses(s, scheme, lam, n_draws, rng) <= MOST_EXCESS) >= 1 - delta)

    return bisect_width(holds)


def exact_width(kernel: CoordinateKernel, scheme: Scheme, lam: float, delta: float) -> int:
    """Return `least_width` of a coordinate kernel without draws, at any lambda."""
    return bisect_width(lambda s: kernel.failure(s, scheme, lam) <= delta)


def bisect_width(holds: Callable[[int], bool]) -> int:
    """Return the least s that satisfies ``holds``, within a per cent, by bisection of log s."""
    low, high = 1.0, 2.0
    while not holds(round(high)):
        low, high = high, 2 * high
    while high / low > _WITHIN and round(high) - round(low) > 1:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if holds(round(middle)) else (middle, high)
    return round(high)


def failure_of_equal_eigenvalues(rank: int, delta: float, constant: float, ratio: float = 1e-3) -> float:
    """Return the probability that Lemma E.3 fails on ``rank`` equal eigenvalues mu at lambda = ratio mu.

    s = constant d log(16 d / delta) features hit each direction s / rank times on average; a direction hit less than
    half as often breaks the event. That probability falls as exp(-0.153 s / rank) at best, so no constant below
    1 / 0.153 = 6.5 suffices for large ranks.
    """
    d = rank / (1 + ratio)
    s = width(d, d, delta, constant)
    missed = scipy.stats.binom.cdf(np.ceil((0.5 - ratio) * s / rank) - 1, s, 1 / rank)
    return float(-np.expm1(rank * np.log1p(-missed)))
