"""What the rows of a fit were like, kept with the model: quantiles of every column and of the answers.

Enough to say later how far new rows have moved, without a single row of the fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rflaf.errors import Array

LEVELS = np.array([0.0, 0.005, *np.linspace(0.025, 0.975, 39), 0.995, 1.0])


@dataclass(frozen=True, eq=False)
class Profile:
    """Quantiles of a sample of the rows of a fit.

    Attributes
    ----------
    quantiles : (n_levels, n_features), of the columns at `LEVELS`; the first and the last are the least and the largest
    mean : (n_features,)
    answers : (n_levels, n_outputs), quantiles of f
    n_rows : rows in the sample
    error : mean loss of rows held out; NaN if there are none
    """

    quantiles: Array
    mean: Array
    answers: Array
    n_rows: int
    error: float = float("nan")

    @classmethod
    def of(cls, X: Array, f: Array) -> Profile:
        """Return the profile of dense rows ``X`` (n_rows, n_features) with answers ``f`` (n_rows, n_outputs)."""
        quantiles, answers = (
            np.quantile(np.asarray(part, np.float64), LEVELS, axis=0, method="inverted_cdf") for part in (X, f)
        )
        return cls(quantiles, np.asarray(np.mean(X, axis=0, dtype=np.float64)), answers, len(X))

    @property
    def two_valued(self) -> Array:
        """Which columns (n_features,) take their least and largest value only, as far as the quantiles show."""
        inner = (self.quantiles != self.quantiles[0]) & (self.quantiles != self.quantiles[-1])
        return (self.quantiles[0] < self.quantiles[-1]) & ~inner.any(axis=0)

    @property
    def spread(self) -> Array:
        """Half the distance of the outer sixths of the answers, (n_outputs,), a standard deviation of a normal law."""
        low, high = (self.answers[np.searchsorted(LEVELS, level)] for level in (0.15, 0.85))
        return np.asarray((high - low) / 2)

    def distances(self, X: Array) -> Array:
        """Return how far the law of every column of ``X`` is from that of the fit, (n_features,): the largest
        difference of distribution functions at the quantiles kept.
        """
        found = np.zeros(X.shape[1])
        for column, (values, known) in enumerate(zip(np.sort(X, axis=0).T, self.quantiles.T, strict=True)):
            if self.two_valued[column]:
                share = (self.mean[column] - known[0]) / (known[-1] - known[0])
                found[column] = abs(np.mean(values == known[-1]) - share)
                continue
            at_or_below = np.searchsorted(values, known, side="right") / len(values)
            below = np.searchsorted(values, known, side="left") / len(values)
            found[column] = max(0.0, float(np.max(LEVELS - at_or_below)), float(np.max(below - LEVELS)))
        return found

    def outside(self, X: Array, beyond: float = 0.05) -> Array:
        """Return which entries of ``X`` lie outside the range of the fit by more than a share of its length."""
        low, high = self.quantiles[0], self.quantiles[-1]
        margin = beyond * (high - low)
        return np.asarray((low - margin > X) | (high + margin < X))

    def mapped_back(self, X: Array, columns: Array, rng: np.random.Generator) -> Array:
        """Return ``X`` with some columns moved to the law of the fit, every row keeping its rank among the rows."""
        moved = X.copy()
        for column in columns:
            ties, ranks = rng.permutation(len(X)), np.empty(len(X))  # equal values are ranked at random
            order = np.lexsort((ties, X[:, column]))
            ranks[order] = (np.arange(len(X)) + 0.5) / len(X)
            known = self.quantiles[:, column]
            if self.two_valued[column]:
                share = (self.mean[column] - known[0]) / (known[-1] - known[0])
                moved[:, column] = np.where(ranks > 1 - share, known[-1], known[0])
            else:
                values = np.interp(ranks, LEVELS, known)
                whole = bool(np.all(known == np.floor(known)))  # as are codes of levels
                moved[:, column] = np.round(values) if whole else values
        return moved
