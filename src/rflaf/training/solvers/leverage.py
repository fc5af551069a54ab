"""Ridge leverage scores of random features, and sampling by them: lines 3 to 5 of Algorithm 1.

With G = Z' Z over n rows of a pool of s features,

    p_i = [ G (G/s + n lambda I)^-1 ]_ii = s (1 - lambda s [ (G/n + lambda s I)^-1 ]_ii )

from one Cholesky factor. p_i / s lies in [0, 1] and the p_i / s sum to the effective dimension
d = tr K (K + n lambda I)^-1 of the kernel K = Z Z' / s. Directions are drawn with replacement from
q_i = p_i / sum p and carry the importance sqrt(1 / (s q_i)), whose square has mean one under q. A
direction drawn k times is one component of importance sqrt(k / (s q_i)): the model is the same, the width is lower.

Without replacement S different directions are drawn, i with probability pi_i = min(1, c p_i), where c makes the pi_i
sum to S: systematic sampling of the pool in random order. The importance is sqrt(S / (s pi_i)). In both ways the kernel
1/S sum_m q_m^2 z_m z_m' has the mean K, the estimate of Horvitz and Thompson; with pi_i = S q_i they agree.
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

_BITS = 38  # of a score that do not depend on how the rows were cut
_POWER_STEPS, _POWER_TOLERANCE = 100, 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The pool of Algorithm 1 after its lines 2 to 5, in the units of X and y: line 3 can be computed again from it.

    With Z[i, m] = sum_k a_k B_k(x_i . W[:, m] + offset[m]) over the n rows that were scored,

        scores[m] = [ Z'Z (Z'Z / s + n lam I)^-1 ]_mm,        probabilities = scores / sum of scores

    Attributes
    ----------
    W, offset : (n_features, s) and (s,), the directions of line 1
    a : (n_basis,), the activation of line 2
    v, intercept : (s, n_outputs) and (n_outputs,), the output weights of line 2; None where they were not solved for
    ridge : that of line 2, ridge |v|^2 beside the mean loss; zero for problem (8)
    lam : lambda of the scores
    scores, probabilities : (s,), p_i and q_i of lines 3 and 4
    drawn, counts : indices of the directions drawn in line 5, increasing, and how often each was
    largest_eigenvalue : of K / n; Assumption 2.2 is that ``lam`` is at most this
    """

    W: Array
    offset: Array
    a: Array
    v: Array | None
    intercept: Array | None
    ridge: float
    lam: float
    scores: Array
    probabilities: Array
    drawn: Array
    counts: Array
    largest_eigenvalue: float

    @property
    def effective_dimension(self) -> float:
        """d = sum_i p_i / s."""
        return float(self.scores.sum() / self.scores.size)

    @property
    def spread(self) -> float:
        """Largest score over the mean score."""
        return spread_of(self.scores)


def spread_of(scores: Array) -> float:
    """Largest score over the mean score: one means that leverage sampling is plain sampling.

    >>> spread_of(np.array([1.0, 1.0, 4.0]))
    2.0
    """
    mean = float(scores.mean())
    return float(scores.max()) / mean if mean > 0 else 1.0


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
        return spread_of(self.scores)


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


@dataclass(frozen=True, slots=True)
class PoolSums:
    """Normal equations of the pool's features over rows: all of them, or a sample and its two halves.

    ``share`` is the number of rows in the table for every row of the sample.
    """

    equations: NormalEquations
    halves: tuple[NormalEquations, ...] = ()
    share: float = 1.0

    def scaled(self, factor: float) -> PoolSums:
        """Return the sums of features multiplied by ``factor``."""
        factors = np.full(self.equations.n_components, factor)
        halves = tuple(half.scale(factors) for half in self.halves)
        return PoolSums(self.equations.scale(factors), halves, self.share)

    def scores(self, lam: float | None) -> Leverage:
        """Leverage scores; lambda is 1 / sqrt(n) of the whole table unless given.

        The kernel normalised by the number of rows is estimated from the sample. The scores of its two halves differ by
        twice the standard error of the scores of the whole, which is what ``relative_error`` reports.
        """
        if lam is None:
            lam = (self.equations.system(intercept=False).count * self.share) ** -0.5
        whole = scores_from_equations(self.equations, lam)
        if not self.halves:
            return whole
        even, odd = (scores_from_equations(half, lam).scores for half in self.halves)
        error = np.linalg.norm(even - odd) / 2 / max(float(np.linalg.norm(whole.scores)), np.finfo(float).tiny)
        return replace(whole, relative_error=float(error))


def sum_pool(
    source: BlockSource, pool: FeatureMap, n_rows: int, rng: np.random.Generator, executor: Executor
) -> PoolSums:
    """Sum the normal equations of the pool over all rows, or over a sample of ``n_rows``."""
    if n_rows >= source.n_samples:
        return PoolSums(pool.sum_equations(source, executor))
    sample = source.sample(n_rows, rng)
    halves = executor.reduce(
        sample, lambda block, scratch: _halve(block, pool, scratch), "sum the products of the pool"
    )
    return PoolSums(halves.even + halves.odd, (halves.even, halves.odd), source.n_samples / sample.n_samples)


def largest_eigenvalue(equations: NormalEquations) -> float:
    """The largest eigenvalue of K / n = Z Z' / (s n), from Z'Z: by power iteration, to about one in a thousand."""
    s = equations.n_components
    G, x = equations.moments[:s, :s] / (equations.weight * s), np.ones(s)
    size = 0.0
    for _ in range(_POWER_STEPS):
        y = G @ x
        before, size = size, float(np.linalg.norm(y))
        if not size > 0 or abs(size - before) <= _POWER_TOLERANCE * size:
            break
        x = y / size
    return size


def resample(
    pool: Directions, leverage: Leverage, n_components: int, rng: np.random.Generator, with_replacement: bool = True
) -> tuple[Directions, Leverage]:
    """Draw ``n_components`` directions of the pool by their scores; merge duplicates, mark those kept.

    >>> from rflaf.functions.densities import Gaussian, draw
    >>> rng = np.random.default_rng(0)
    >>> pool = draw(Gaussian(), 2, 4, rng)
    >>> kept, _ = resample(pool, Leverage(np.array([3.0, 1.0, 1.0, 1.0]), lam=0.1), 3, rng)
    >>> kept.n_draws
    3
    """
    q = leverage.probabilities
    if with_replacement:
        kept, copies = np.unique(rng.choice(q.size, size=n_components, p=q), return_counts=True)
        square = copies / (q.size * q[kept])
    else:
        inclusion = inclusion_probabilities(q, n_components)
        kept = draw_systematically(inclusion, rng)
        square = n_components / (q.size * inclusion[kept])
    taken = pool.take(kept, importance=pool.importance[kept] * np.sqrt(square), n_draws=n_components)
    return taken, replace(leverage, kept=kept)


def inclusion_probabilities(q: Array, n_drawn: int) -> Array:
    """pi_i = min(1, c q_i) with c such that they sum to ``n_drawn``, or to the number of positive q if that is less.

    >>> inclusion_probabilities(np.array([0.5, 0.25, 0.25]), 2)
    array([1. , 0.5, 0.5])
    """
    sure = np.zeros(q.size, bool)
    n_drawn = min(n_drawn, int(np.count_nonzero(q)))
    while True:
        left = float(q[~sure].sum())
        inclusion = np.where(sure, 1.0, q * ((n_drawn - sure.sum()) / left if left > 0 else 0.0))
        if not (inclusion > 1).any():
            return inclusion
        sure |= inclusion >= 1


def draw_systematically(inclusion: Array, rng: np.random.Generator) -> Array:
    """Draw indices, increasing, each at most once and with its own probability; their number is fixed.

    The probabilities, in random order, are lengths along a line; one is drawn wherever the line meets u, u + 1, ...
    """
    order = rng.permutation(inclusion.size)
    ends = np.cumsum(inclusion[order])
    n_drawn = round(float(ends[-1]))
    at = (rng.random() + np.arange(n_drawn)) * (ends[-1] / n_drawn)
    return np.sort(order[np.searchsorted(ends, at, side="right")])


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
