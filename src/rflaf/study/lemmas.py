"""Do Lemmas E.3 and E.4 hold as often as they promise, and how loose is their constant?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.stats

from rflaf.theory import bernstein_width, effective_dimension, width

from .kernels import SCHEMES, CoordinateKernel, DrawnKernel, Scheme

ACCURACY, MOST_EXCESS = 0.5, 2.0  # of Lemma E.4 as it is used, and of Lemma E.3
_WITHIN = 1.01


@dataclass(frozen=True)
class LemmaCount:
    """How often the events held in ``n_draws`` draws.

    Attributes
    ----------
    s : features drawn, 5 mass log(16 d / delta)
    rigorous : features that the Bernstein inequality gives with all its constants
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
    """Both lemmas under both schemes at the number of features the paper asks for."""
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
    """Integral of the bound on the leverage score function that a scheme samples by."""
    if scheme == "plain":
        return kernel.bound() / lam
    return float(effective_dimension(kernel.eigenvalues, lam))


def least_width(
    kernel: DrawnKernel, scheme: Scheme, lam: float, delta: float, n_draws: int, rng: np.random.Generator
) -> int:
    """The least number of features at which Lemma E.3 holds in a share 1 - delta of ``n_draws`` draws."""

    def holds(s: int) -> bool:
        return bool(np.mean(kernel.excesses(s, scheme, lam, n_draws, rng) <= MOST_EXCESS) >= 1 - delta)

    return bisect_width(holds)


def exact_width(kernel: CoordinateKernel, scheme: Scheme, lam: float, delta: float) -> int:
    """The same without draws, for a coordinate kernel, at any lambda."""
    return bisect_width(lambda s: kernel.failure(s, scheme, lam) <= delta)


def bisect_width(holds: Callable[[int], bool]) -> int:
    """About the least s for which something holds, by bisection of log s until it is known within a per cent."""
    low, high = 1.0, 2.0
    while not holds(round(high)):
        low, high = high, 2 * high
    while high / low > _WITHIN and round(high) - round(low) > 1:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if holds(round(middle)) else (middle, high)
    return round(high)


def failure_of_equal_eigenvalues(rank: int, delta: float, constant: float, ratio: float = 1e-3) -> float:
    """Probability that Lemma E.3 fails on ``rank`` equal eigenvalues mu at lambda = ratio mu, under either scheme.

    s = constant d log(16 d / delta) features meet each direction s / rank times on average, and one met less than half
    as often breaks the event. The chance of that falls as exp(-0.153 s / rank) at best, so that no constant below
    1 / 0.153 = 6.5 is enough for large ranks.
    """
    d = rank / (1 + ratio)
    s = width(d, d, delta, constant)
    missed = scipy.stats.binom.cdf(np.ceil((0.5 - ratio) * s / rank) - 1, s, 1 / rank)
    return float(-np.expm1(rank * np.log1p(-missed)))
