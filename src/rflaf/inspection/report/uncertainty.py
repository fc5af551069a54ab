"""Bootstrap intervals of scores, paired between models: every model is scored on the same draws of rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from rflaf.errors import Array
from rflaf.estimators.metrics import Score, classification_scores

Scoring = Callable[[Array, Array], tuple[Score, ...]]

_DRAWS = 200
LEVEL = 0.95


def resample(score: Scoring, target: Array, answers: Array, n_draws: int = _DRAWS) -> Array:
    """Return the scores (n_draws, n_scores) on rows drawn with replacement, the same rows for the same ``target``.

    A score that a draw lacks, for want of a class, is NaN, and so is the area under the ROC curve of many classes.
    """
    names = [value.name for value in score(target, answers)]
    costly = score is classification_scores and answers.shape[1] > 2  # one area per class
    quick = partial(classification_scores, area=False) if costly else score
    rng = np.random.default_rng(0)
    out = np.full((n_draws, len(names)), np.nan)
    for draw in out:
        rows = rng.integers(0, len(target), len(target))
        found = {value.name: value.value for value in quick(target[rows], answers[rows])}
        draw[:] = [found.get(name, np.nan) for name in names]
    return out


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
