"""Measure the lemmas, the orders of growth and the gain of leverage weighting on kernels with known features.

Lemmas E.3 and E.4: how often they hold, and the slack of their constant.

Tables 1 and 2: the least width at which Lemma E.3 holds is measured over lambda. Its error term is epsilon = 4 lambda
for the squared loss and 4 sqrt(lambda) for Lipschitz losses, so one measurement serves both tables: the slopes of
Table 2 are twice those of Table 1. The logarithm in the orders arises because all d directions must be hit at once; the
fit excludes it and estimates the slope of log( s / log(d / delta) ).

Gain: leverage lowers the width by at most the spread of the scores, their maximum over their mean: the factor between
the bound of plain sampling and the effective dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats

from rflaf.errors import Array
from rflaf.estimators.plan_targets import resolve_targets
from rflaf.estimators.width_plan import approximate_kernel
from rflaf.rows.blocks import array_source
from rflaf.rows.executors import ThreadExecutor
from rflaf.theory import bernstein_width, effective_dimension, growth_table, width

from . import kernels
from .kernels import SCHEMES, CoordinateKernel, DrawnKernel, FeatureKernel, Scheme, polynomial, worst_for_plain

_ACCURACY, _MOST_EXCESS = 0.5, 2.0  # the events of Lemmas E.4 and E.3
_WITHIN = 1.01
_CONFIDENCE = 0.95


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
        near = float(np.mean(kernel.deviations(s, scheme, lam, n_draws, rng) <= _ACCURACY))
        good = float(np.mean(kernel.excesses(s, scheme, lam, n_draws, rng) <= _MOST_EXCESS))
        constant = least_width(kernel, scheme, lam, delta, n_draws // 2, rng) / (mass * np.log(16 * d / delta))
        rigorous = bernstein_width(mass, d, delta)
        answers.append(LemmaCount(name, scheme, lam, d, s, rigorous, n_draws, near, good, 1 - delta, float(constant)))
    return answers


def mass_of(kernel: DrawnKernel, scheme: Scheme, lam: float) -> float:
    """Return the integral of the bound on the leverage score function used by a scheme."""
    return kernel.bound() / lam if scheme == "plain" else float(effective_dimension(kernel.eigenvalues, lam))


def least_width(
    kernel: DrawnKernel, scheme: Scheme, lam: float, delta: float, n_draws: int, rng: np.random.Generator
) -> int:
    """Return the least number of features at which Lemma E.3 holds in a share 1 - delta of ``n_draws`` draws."""

    def holds(s: int) -> bool:
        return bool(np.mean(kernel.excesses(s, scheme, lam, n_draws, rng) <= _MOST_EXCESS) >= 1 - delta)

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


@dataclass(frozen=True)
class Spectrum:
    """Kernel of known decay.

    ``rate`` is t of a polynomial decay, ``most`` to ``least`` the range of measured lambdas, and ``deepest`` the least
    lambda at which the width is computed.
    """

    name: str
    case: str
    rate: float
    kernel: CoordinateKernel
    least: float = 1e-5
    most: float = 1e-3
    deepest: float = 1e-7

    def lambdas(self, n_lambdas: int) -> Array:
        """Return lambdas from the largest to the least, evenly spaced in the logarithm."""
        return np.geomspace(self.most, self.least, n_lambdas)


def spectra(n_eigenvalues: int = 1_000_000) -> list[Spectrum]:
    """Return finite rank, exponential and polynomial decays, each in the worst case for plain sampling."""
    listed = [
        Spectrum("rank 20", "finite rank", 1.0, worst_for_plain(kernels.finite_rank(20))),
        Spectrum("0.7^i", "exponential", 1.0, worst_for_plain(kernels.exponential(0.7, 100))),
    ]
    for t in (1.5, 2.0, 3.0):
        mu = polynomial(t, n_eigenvalues if t < 2 else n_eigenvalues // 10)  # the tail beyond is negligible
        listed.append(Spectrum(f"i^-{t:g}", "polynomial", t, worst_for_plain(mu)))
    harmonic = worst_for_plain(polynomial(1.0, n_eigenvalues))
    return [*listed, Spectrum("i^-1", "polynomial", 1.0, harmonic, least=1e-4, most=1e-2, deepest=1e-5)]


@dataclass(frozen=True)
class Order:
    """Measured widths of one spectrum and scheme, with measured and predicted slope.

    Attributes
    ----------
    lams : (n_lambdas,); widths : (n_replicates, n_lambdas), least number of features
    dimensions : (n_lambdas,) effective dimensions
    slope, low, high : of log(s / log(d / delta)) in log(1 / lambda), with a 95 % interval over the replicates
    predicted : the power of 1/epsilon in Table 1
    expected : (n_lambdas,), the order of Table 1, logarithms included, without its constant
    deep : slope between ten times the deepest lambda and the deepest, from computed widths
    of_mass : slope of the theorem's mass, d or |sigma|^2 / lambda, over the same lambdas
    of_theorem : largest measured width over the theorem's 5 mass log(16 d / delta)
    """

    spectrum: str
    scheme: Scheme
    lams: Array
    widths: Array
    dimensions: Array
    slope: float
    low: float
    high: float
    predicted: float
    expected: Array
    deep: float
    of_mass: float
    of_theorem: float


def measure_order(
    spectrum: Spectrum,
    scheme: Scheme,
    n_lambdas: int,
    delta: float,
    n_draws: int,
    n_replicates: int,
    rng: np.random.Generator,
) -> Order:
    """Measure the least widths over the lambdas of a spectrum ``n_replicates`` times."""
    kernel, lams = spectrum.kernel, spectrum.lambdas(n_lambdas)
    widths = np.array(
        [[least_width(kernel, scheme, lam, delta, n_draws, rng) for lam in lams] for _ in range(n_replicates)]
    )
    d = effective_dimension(kernel.eigenvalues, lams)
    logs = np.log(d / delta)
    slopes = np.array([_slope(np.log(1 / lams), np.log(row / logs)) for row in widths])
    middle, half = float(slopes.mean()), _half_interval(slopes)
    cell = next(c for c in growth_table("squared") if (c.scheme, c.spectrum) == (scheme, spectrum.case))
    mass = np.array([mass_of(kernel, scheme, float(lam)) for lam in lams])
    theorem = [width(float(m), float(x), delta) for m, x in zip(mass, d, strict=True)]
    return Order(
        spectrum.name, scheme, lams, widths, d, middle, middle - half, middle + half,
        cell.exponent(spectrum.rate),
        cell.order(4 * lams, spectrum.rate),
        _deep_slope(spectrum, scheme, delta),
        _slope(np.log(1 / lams), np.log(mass)),
        float(np.max(widths / theorem)),
    )  # fmt: skip


def _deep_slope(spectrum: Spectrum, scheme: Scheme, delta: float) -> float:
    lams = np.array([10 * spectrum.deepest, spectrum.deepest])
    widths = np.array([exact_width(spectrum.kernel, scheme, lam, delta) for lam in lams])
    d = effective_dimension(spectrum.kernel.eigenvalues, lams)
    return _slope(np.log(1 / lams), np.log(widths / np.log(d / delta)))


def _slope(x: Array, y: Array) -> float:
    dx = x - x.mean()
    return float(dx @ y / (dx @ dx))


def _half_interval(slopes: Array) -> float:
    """Return half of the t interval of a mean; zero if all values agree."""
    if slopes.size < 2:
        return float("inf")
    quantile = scipy.stats.t.ppf((1 + _CONFIDENCE) / 2, slopes.size - 1)
    return float(quantile * slopes.std(ddof=1) / np.sqrt(slopes.size))


@dataclass(frozen=True)
class Gain:
    """Least widths of both schemes on one kernel at one lambda, and the spread of its scores."""

    kernel: str
    lam: float
    effective_dimension: float
    spread: float
    plain: int
    leverage: int

    @property
    def ratio(self) -> float:
        return self.plain / self.leverage


def measure_gain(
    name: str, kernel: DrawnKernel, lam: float, delta: float, n_draws: int, rng: np.random.Generator
) -> Gain:
    """Measure the widths at which Lemma E.3 holds in a share 1 - delta of the draws."""
    plain, leverage = (least_width(kernel, scheme, lam, delta, n_draws, rng) for scheme in SCHEMES)
    d = effective_dimension(kernel.eigenvalues, lam)
    return Gain(name, lam, d, kernels.spread(kernel, lam), plain, leverage)


def tilted_kernels(
    t: float = 2.0, n_eigenvalues: int = 2000, powers: Iterable[float] = (0.5, 0.75, 1, 1.25, 1.5)
) -> Iterator[tuple[str, CoordinateKernel]]:
    """Yield kernels of one spectrum, p ~ mu^power: from uniform features to the worst case of plain sampling and on."""
    mu = polynomial(t, n_eigenvalues)
    for power in powers:
        p = mu**power
        yield f"i^-{t:g}, p ~ mu^{power:g}", CoordinateKernel(mu, p / p.sum())


def learned_kernel(X: Array, y: Any, n_rows: int, pool_size: int, rng: np.random.Generator) -> FeatureKernel:
    """Learn the kernel of the paper's model on a table: the learned activation on a large plain pool.

    Features have mean square one over the ``n_rows`` sampled rows.
    """
    targets, loss = resolve_targets(X, y, "auto")
    with ThreadExecutor(1) as executor:
        kernel = approximate_kernel(array_source(X, targets), loss, rng, executor, n_rows, pool_size)
        return FeatureKernel(kernel.rows().astype(np.float64))
