"""Bootstrap intervals of scores, paired between models: every model is scored on the same draws of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from rflaf.errors import Array
from rflaf.estimators.metrics import AREA, Score, classification_scores

Scoring = Callable[[Array, Array], tuple[Score, ...]]

_DRAWS = 200
LEVEL = 0.95


def resample(score: Scoring, target: Array, answers: Array, n_draws: int = _DRAWS) -> Array:
    """Return the scores (n_draws, n_scores) on rows drawn with replacement, the same rows for the same ``target``.

    A score that a draw lacks, for want of a class, is NaN.
    """
    names = [value.name for value in score(target, answers)]
    costly = score is classification_scores and AREA in names  # sorting all classes anew in every draw
    quick = partial(classification_scores, area=False) if costly else score
    ranks = _ranks(target, answers) if costly else []
    rng = np.random.default_rng(0)
    out = np.full((n_draws, len(names)), np.nan)
    for draw in out:
        rows = rng.integers(0, len(target), len(target))
        found = {value.name: value.value for value in quick(target[rows], answers[rows])}
        if ranks:
            times = np.bincount(rows, minlength=len(target)).astype(np.float64)
            found[AREA] = float(np.mean([one.area(times) for one in ranks]))
        draw[:] = [found.get(name, np.nan) for name in names]
    return out


def _ranks(code: Array, probability: Array) -> list[Ranks]:
    """Return the ranks of all classes, by the probabilities as ``classification_scores`` compares them."""
    if probability.shape[1] > 2:
        probability = probability / probability.sum(axis=1, keepdims=True)
    return [Ranks.of(code == one, probability[:, one]) for one in range(probability.shape[1])]


@dataclass(frozen=True, slots=True)
class Ranks:
    """Rows in the order of a score (n,), where runs of equal scores begin, and which rows are of the class."""

    order: Array
    starts: Array
    positive: Array

    @classmethod
    def of(cls, positive: Array, value: Array) -> Ranks:
        """Sort the rows by their score, once for all draws."""
        order = np.argsort(value, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(value[order]) != 0])
        return cls(order, starts, positive[order].astype(np.float64))

    def area(self, times: Array) -> float:
        """Return the area under the ROC curve when row i is there ``times[i]`` times, NaN if a side is missing.

        The share of pairs of a row of the class and another in which the former scores higher, ties as a half.

        >>> Ranks.of(np.array([False, True, True]), np.array([0.1, 0.1, 0.7])).area(np.array([1.0, 1.0, 3.0]))
        0.875
        """
        there = times[self.order]
        of_class = np.add.reduceat(there * self.positive, self.starts)
        others = np.add.reduceat(there, self.starts) - of_class
        below = np.cumsum(others) - others / 2
        pairs = of_class.sum() * others.sum()
        return float(of_class @ below / pairs) if pairs > 0 else float("nan")


def interval(draws: Array, level: float = LEVEL) -> tuple[float, float] | None:
    """Return the middle ``level`` of draws (n_draws,), or None where too many are missing.

    >>> np.round(interval(np.arange(101.0), level=0.9), 9).tolist()
    [5.0, 95.0]
    """
    known = draws[np.isfinite(draws)]
    if known.size < 0.9 * draws.size:
        return None
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def paired_ratio(ours: Array, theirs: Array) -> tuple[float, float] | None:
    """Return the interval of ours / theirs from paired draws (n_draws,), or None where it is not known.

    >>> paired_ratio(np.array([1.0, 2.0, 4.0]), np.array([2.0, 4.0, 8.0]))
    (0.5, 0.5)
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return interval(ours / theirs)
