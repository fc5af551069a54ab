"""Measure Tables 1 and 2: the growth of the number of features as the error falls.

The least width at which Lemma E.3 holds is measured over lambda on kernels of known spectrum. Its error term is
epsilon = 4 lambda for the squared loss and 4 sqrt(lambda) for Lipschitz losses, so one measurement serves both tables:
the slopes of Table 2 are twice those of Table 1. The logarithm in the orders arises because all d directions must be
hit at once; the fit excludes it and estimates the slope of log( s / log(d / delta) ).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.stats

from rflaf.errors import Array
from rflaf.theory import effective_dimension, growth_table, width

from .kernels import CoordinateKernel, Scheme, exponential, finite_rank, polynomial, worst_for_plain
from .lemmas import exact_width, least_width, mass_of

_CONFIDENCE = 0.95


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
        Spectrum("rank 20", "finite rank", 1.0, worst_for_plain(finite_rank(20))),
        Spectrum("0.7^i", "exponential", 1.0, worst_for_plain(exponential(0.7, 100))),
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

    @property
    def as_predicted(self) -> bool:
        """Whether the predicted power lies in the interval."""
        return self.low <= self.predicted <= self.high


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
    middle = float(slopes.mean())
    half = _half_interval(slopes)
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
