"""Kernels with known features, drawn repeatedly to count the events of the lemmas.

A kernel here is a finite law of features: feature i comes with probability p_i, and K / n = sum_i p_i z_i z_i' / n is
known exactly. Drawn s times from q, the draws give the counts c_i and the estimate K^ / n = sum_i (c_i / s) (p_i / q_i)
z_i z_i' / n. Two numbers measure its error at a given lambda:

    deviation = | (K + n lambda I)^-1/2 (K^ - K) (K + n lambda I)^-1/2 |       at most 1/2 in the event of Lemma E.4
    excess    = largest eigenvalue of (K^ + n lambda I)^-1 K                    at most 2 in the event of Lemma E.3
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
import scipy.linalg
import scipy.stats

from rflaf.errors import Array
from rflaf.theory import effective_dimension

Scheme = Literal["plain", "leverage"]
SCHEMES: tuple[Scheme, ...] = ("plain", "leverage")


class DrawnKernel(Protocol):
    """A kernel as the studies use it."""

    @property
    def eigenvalues(self) -> Array:
        """Eigenvalues of K / n, the largest first."""

    def leverage(self, lam: float) -> Array:
        """Return l / p of every feature."""

    def bound(self) -> float:
        """Return |sigma|^2, the largest mean square entry of a feature."""

    def deviations(self, s: int, scheme: Scheme, lam: float, n_draws: int, rng: np.random.Generator) -> Array:
        """Return the deviations of ``n_draws`` draws of s features each."""

    def excesses(self, s: int, scheme: Scheme, lam: float, n_draws: int, rng: np.random.Generator) -> Array:
        """Return the excesses of ``n_draws`` draws of s features each."""


def spread(kernel: DrawnKernel, lam: float) -> float:
    """Return the largest leverage over its mean, the effective dimension."""
    return float(kernel.leverage(lam).max()) / effective_dimension(kernel.eigenvalues, lam)


@dataclass(frozen=True)
class CoordinateKernel:
    """Features along the eigenvectors of K: z_i = sqrt(mu_i / p_i) phi_i, with orthogonal phi_i of entries +-1.

    The counts determine every event. With p proportional to mu all features are equally long and rare features carry
    the small eigenvalues, so the bound of plain sampling is attained. ``mu`` (m,), the largest first; ``p`` (m,).
    """

    mu: Array
    p: Array

    @property
    def eigenvalues(self) -> Array:
        return self.mu

    def bound(self) -> float:
        return float(np.max(self.mu / self.p))

    def leverage(self, lam: float) -> Array:
        return self.mu / (self.p * (self.mu + lam))

    def deviations(self, s: int, scheme: Scheme, lam: float, n_draws: int, rng: np.random.Generator) -> Array:
        q = self._law(scheme, lam)
        off = rng.multinomial(s, q, size=n_draws) / (s * q) - 1
        return np.max(np.abs(off) * (self.mu / (self.mu + lam)), axis=1)

    def excesses(self, s: int, scheme: Scheme, lam: float, n_draws: int, rng: np.random.Generator) -> Array:
        """Draw only eigenvalues above lambda, since the excess of the others is at most one."""
        mu, q = self._above(scheme, lam)
        counts = rng.multinomial(s, np.append(q, max(1 - q.sum(), 0.0)), size=n_draws)[:, :-1]
        return np.max(mu / (mu * counts / (s * q) + lam), axis=1, initial=1.0)

    def failure(self, s: int, scheme: Scheme, lam: float) -> float:
        """Return the probability of an excess above 2, with Binomial(s, q_i) draws of each direction.

        The counts are treated as independent, which they nearly are: only their sum is fixed.
        """
        mu, q = self._above(scheme, lam)
        missed = scipy.stats.binom.cdf(np.ceil((0.5 - lam / mu) * s * q) - 1, s, q)
        return float(-np.expm1(np.sum(np.log1p(-np.minimum(missed, 1 - 1e-16)))))

    def _above(self, scheme: Scheme, lam: float) -> tuple[Array, Array]:
        """Return the eigenvalues above lambda and the probabilities of their features."""
        above = self.mu > lam
        return self.mu[above], self._law(scheme, lam)[above]

    def _law(self, scheme: Scheme, lam: float) -> Array:
        if scheme == "plain":
            return self.p
        weight = self.mu / (self.mu + lam)
        return weight / weight.sum()


@dataclass(frozen=True)
class FeatureKernel:
    """Features ``Z`` (n_rows, m) of rows, equally likely under p, like the directions of a large pool."""

    Z: Array

    @cached_property
    def _basis(self) -> tuple[Array, Array]:
        """Eigenvalues of K / n and the features along its eigenvectors, (n_rows,) and (n_rows, m)."""
        n, m = self.Z.shape
        mu, U = scipy.linalg.eigh(self.Z @ self.Z.T / (n * m))
        return np.maximum(mu[::-1], 0), U[:, ::-1].T @ self.Z / np.sqrt(n)

    @property
    def eigenvalues(self) -> Array:
        return self._basis[0]

    def bound(self) -> float:
        return float(np.max(self.Z**2))

    def leverage(self, lam: float) -> Array:
        mu, along = self._basis
        return np.einsum("im,im,i->m", along, along, 1 / (mu + lam))

    def deviations(self, s: int, scheme: Scheme, lam: float, n_draws: int, rng: np.random.Generator) -> Array:
        mu = self.eigenvalues
        root = np.sqrt(mu + lam)
        drawn = (self._drawn(s, scheme, lam, rng) - np.diag(mu) for _ in range(n_draws))
        return np.array([np.abs(scipy.linalg.eigvalsh(off / root / root[:, None])).max() for off in drawn])

    def excesses(self, s: int, scheme: Scheme, lam: float, n_draws: int, rng: np.random.Generator) -> Array:
        mu = self.eigenvalues
        kept = mu > lam  # the excess of the others is at most one
        root = np.sqrt(mu[kept])

        def draw_excess() -> float:
            drawn = self._drawn(s, scheme, lam, rng)
            drawn[np.diag_indices(mu.size)] += lam
            inverse = scipy.linalg.cho_solve(scipy.linalg.cho_factor(drawn), np.eye(mu.size)[:, kept])[kept]
            return float(scipy.linalg.eigvalsh(root[:, None] * inverse * root)[-1])

        return np.array([draw_excess() for _ in range(n_draws)])

    def _drawn(self, s: int, scheme: Scheme, lam: float, rng: np.random.Generator) -> Array:
        """Draw K^ / n along the eigenvectors of K."""
        along = self._basis[1]
        m = along.shape[1]
        q = np.full(m, 1 / m)
        if scheme == "leverage":
            scores = self.leverage(lam)
            q = scores / scores.sum()
        counts = rng.multinomial(s, q)
        kept = counts > 0
        columns = along[:, kept] * np.sqrt(counts[kept] / (s * m * q[kept]))
        return columns @ columns.T


def polynomial(t: float, n_eigenvalues: int) -> Array:
    """Return i^-t, scaled to sum to one."""
    mu = np.arange(1, n_eigenvalues + 1, dtype=np.float64) ** -t
    return mu / mu.sum()


def exponential(A: float, n_eigenvalues: int) -> Array:
    """Return A^i, scaled to sum to one."""
    mu = A ** np.arange(1, n_eigenvalues + 1, dtype=np.float64)
    return mu / mu.sum()


def finite_rank(rank: int) -> Array:
    """Return ``rank`` equal eigenvalues that sum to one."""
    return np.full(rank, 1 / rank)


def worst_for_plain(mu: Array) -> CoordinateKernel:
    """Return the coordinate kernel with features of equal length, p = mu."""
    return CoordinateKernel(mu, mu / mu.sum())
