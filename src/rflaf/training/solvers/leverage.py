"""Ridge leverage scores of random features, and sampling by them: lines 3 to 5 of Algorithm 1.

With G = Z' Z over n rows of a pool of s features,

    p_i = [ G (G/s + n lambda I)^-1 ]_ii = s (1 - lambda s [ (G/n + lambda s I)^-1 ]_ii )

from one Cholesky factor. p_i / s lies in [0, 1] and the p_i / s sum to the effective dimension
d = tr K (K + n lambda I)^-1 of the kernel K = Z Z' / s. Directions are drawn with replacement from
q_i = p_i / sum p and carry the importance sqrt(1 / (s q_i)), whose square has mean one under q. A
direction drawn k times is one component of importance sqrt(k / (s q_i)): the model is the same, the width is lower.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.densities import Directions
from rflaf.model.features import FeatureMap
from rflaf.model.normal_equations import NormalEquations
from rflaf.rows.blocks import Block, BlockSource, Scratch
from rflaf.rows.executors import Executor
from rflaf.rows.moments import shortened

_BITS = 30  # of a score that do not depend on how the rows were cut


@dataclass(frozen=True, slots=True)
class Leverage:
    """Scores of a pool.

    Attributes
    ----------
    scores : (pool_size,), p_i of Algorithm 1, between 0 and pool_size
    lam : the lambda they were computed for
    relative_error : root mean square error of the scores over their root mean square, estimated from two halves of
        the rows; zero where all rows were used
    kept : (n_kept,), indices of those drawn from the pool, increasing; None before the draw
    """

    scores: Array
    lam: float
    relative_error: float = 0.0
    kept: Array | None = None

    @property
    def effective_dimension(self) -> float:
        """d = sum_i p_i / s."""
        return float(self.scores.sum() / self.scores.size)

    @property
    def probabilities(self) -> Array:
        """q_i = p_i / sum p; even where all scores are zero."""
        total = self.scores.sum()
        return self.scores / total if total > 0 else np.full(self.scores.size, 1 / self.scores.size)

    def settled(self) -> Leverage:
        """Return the scores without their last bits, which depend on how the rows were cut."""
        return replace(self, scores=shortened(self.scores, _BITS))

    @property
    def spread(self) -> float:
        """Largest score over the mean score: one means that leverage sampling is plain sampling."""
        mean = float(self.scores.mean())
        return float(self.scores.max()) / mean if mean > 0 else 1.0


def scores_from_equations(equations: NormalEquations, lam: float | None = None) -> Leverage:
    """Exact scores from the summed moments of the pool's features; lambda is 1 / sqrt(n) unless given.

    >>> Z = np.diag([3.0, 1.0])                                # two rows, two orthogonal features
    >>> design = np.vstack([Z, np.ones(2), np.zeros(2)])       # [z | 1 | y]
    >>> leverage = scores_from_equations(NormalEquations.from_design(design, n_outputs=1), lam=0.5)
    >>> leverage.scores                                        # 9 / (9/2 + 1) and 1 / (1/2 + 1)
    array([1.63636364, 0.66666667])
    """
    s, system = equations.n_components, equations.system(intercept=False)
    lam = system.count**-0.5 if lam is None else lam
    if not lam > 0:
        raise InvalidParameterError("lambda of the leverage scores must be above zero", lam, "Use 1 / sqrt(n).")
    factor = system.factor(lam * s)
    return Leverage(np.clip(s * (1 - lam * s * factor.inverse_diagonal), 0, s), lam)


def leverage_scores(source: BlockSource, pool: FeatureMap, lam: float | None, executor: Executor) -> Leverage:
    """Exact scores from one pass over all rows; memory is a few (pool_size, pool_size) matrices."""
    return scores_from_equations(pool.sum_equations(source, executor), lam)


def sampled_leverage_scores(
    source: BlockSource, pool: FeatureMap, lam: float | None, n_rows: int, rng: np.random.Generator, executor: Executor
) -> Leverage:
    """Scores from a sample of rows, with their error estimated.

    The kernel normalised by the number of rows is estimated from the sample. The scores of its two halves differ by
    twice the standard error of the scores of the whole, which is what ``relative_error`` reports.
    """
    if n_rows >= source.n_samples:
        return leverage_scores(source, pool, lam, executor)
    sample = source.sample(n_rows, rng)
    halves = executor.reduce(
        sample, lambda block, scratch: _halve(block, pool, scratch), "sum the products of the pool"
    )
    both = halves.even + halves.odd
    if lam is None:  # that of the whole table
        lam = (both.system(intercept=False).count * source.n_samples / sample.n_samples) ** -0.5
    whole = scores_from_equations(both, lam)
    even, odd = (scores_from_equations(half, whole.lam).scores for half in (halves.even, halves.odd))
    error = np.linalg.norm(even - odd) / 2 / max(float(np.linalg.norm(whole.scores)), np.finfo(float).tiny)
    return replace(whole, relative_error=float(error))


def resample(
    pool: Directions, leverage: Leverage, n_components: int, rng: np.random.Generator
) -> tuple[Directions, Leverage]:
    """Draw ``n_components`` directions of the pool with replacement from q; merge duplicates, mark those kept.

    >>> from rflaf.functions.densities import Gaussian, draw
    >>> rng = np.random.default_rng(0)
    >>> pool = draw(Gaussian(), 2, 4, rng)
    >>> kept, _ = resample(pool, Leverage(np.array([3.0, 1.0, 1.0, 1.0]), lam=0.1), 3, rng)
    >>> kept.n_draws
    3
    """
    q = leverage.probabilities
    drawn = rng.choice(q.size, size=n_components, p=q)
    kept, copies = np.unique(drawn, return_counts=True)
    importance = pool.importance[kept] * np.sqrt(copies / (q.size * q[kept]))
    return pool.take(kept, importance=importance, n_draws=n_components), replace(leverage, kept=kept)


@dataclass(slots=True)
class _Halves:
    even: NormalEquations
    odd: NormalEquations

    def __iadd__(self, other: _Halves) -> _Halves:
        self.even += other.even
        self.odd += other.odd
        return self


def _halve(block: Block, pool: FeatureMap, scratch: Scratch) -> _Halves:
    design = pool.design(block, scratch)

    def half(start: int) -> NormalEquations:
        weight = None if block.weight is None else block.weight[start::2]
        return NormalEquations.from_design(np.ascontiguousarray(design[:, start::2]), block.y.shape[1], weight)

    return _Halves(half(0), half(1))
