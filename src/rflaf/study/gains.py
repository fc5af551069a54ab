"""Measure the gain of leverage weighting.

Leverage lowers the width by at most the spread of the scores, their maximum over their mean: the factor between the
bound of plain sampling and the effective dimension. The gain is measured on coordinate kernels, from uniform features
to the worst case of plain sampling, and on kernels learned from real tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rflaf.errors import Array
from rflaf.estimators.width_plan import approximate_kernel, resolve_targets
from rflaf.rows.blocks import array_source
from rflaf.rows.executors import ThreadExecutor
from rflaf.theory import effective_dimension

from .kernels import CoordinateKernel, DrawnKernel, FeatureKernel, polynomial, spread
from .lemmas import least_width


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
    plain = least_width(kernel, "plain", lam, delta, n_draws, rng)
    leverage = least_width(kernel, "leverage", lam, delta, n_draws, rng)
    d = effective_dimension(kernel.eigenvalues, lam)
    return Gain(name, lam, d, spread(kernel, lam), plain, leverage)


def tilted_kernels(
    t: float = 2.0, n_eigenvalues: int = 2000, powers: Iterable[float] = (0.5, 0.75, 1, 1.25, 1.5)
) -> Iterator[tuple[str, CoordinateKernel]]:
    """Yield coordinate kernels of one spectrum with feature probabilities proportional to mu^power."""
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
        source = array_source(X, targets)
        kernel = approximate_kernel(source, loss, rng, executor, n_rows, pool_size)
        return FeatureKernel(kernel.rows().astype(np.float64))
