"""Intervals around predictions: how far targets lie from them, in units of a spread that follows the row.

    interval(x) = [ m(x) - a(c) s(x),  m(x) + b(c) s(x) ],      s(x) = exp( g(m(x), x) )

m is the prediction and s(x) the usual size of its error at x. The numbers a(c) and b(c) are order statistics of
(y - m) / s over rows that neither m nor s was fitted to: with n of them, a new row exchangeable with them falls inside
with probability at least c. Without enough rows for c the interval is the whole line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its parts are imported on first use

from rflaf.errors import Array

from .random_feature_model import RandomFeatureModel

MOST_LEVELS = 1000  # order statistics kept, beside the highest
_HIGHEST = 20
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Radii:
    """How far scores reach: a share ``levels[k]`` of new scores lies at or below ``radii[k]``.

    Attributes
    ----------
    levels : (n_levels,), rising, k / (n + 1) for n scores
    radii : (n_levels, n_outputs), rising along the first axis

    >>> Radii.of(np.array([[3.0], [1.0], [2.0]]), np.ones(3)).at(0.5)
    array([2.])
    """

    levels: Array
    radii: Array

    @classmethod
    def of(cls, scores: Array, weight: Array) -> Radii:
        """Return the order statistics of scores (n_rows, n_outputs); many of them are thinned out, rounding up."""
        n_rows = len(scores)
        ranks = np.unique(np.ceil(np.linspace(1, n_rows, min(n_rows, MOST_LEVELS))).astype(int))
        ranks = np.union1d(ranks, np.arange(max(1, n_rows - _HIGHEST), n_rows + 1))
        order = np.argsort(scores, axis=0, kind="stable")
        below = np.cumsum(weight[order], axis=0)
        below *= n_rows / below[-1]
        ascending, wanted = np.take_along_axis(scores, order, axis=0), ranks * (1 - _ROUNDING)
        radii = [
            column[np.minimum(np.searchsorted(share, wanted), n_rows - 1)]
            for column, share in zip(ascending.T, below.T, strict=True)
        ]
        return cls(ranks / (n_rows + 1), np.column_stack(radii))

    def times(self, levels: Array, factors: Array) -> Radii:
        """Return the radii times ``factors`` (n_levels, n_outputs) at ``levels``, lines between; they still rise.

        >>> radii = Radii(np.array([0.5, 1.0]), np.array([[2.0], [4.0]]))
        >>> radii.times(np.array([0.0, 1.0]), np.array([[0.5], [1.0]])).radii
        array([[1.5],
               [4. ]])
        """
        between = [np.interp(self.levels, levels, column) for column in factors.T]
        return Radii(self.levels, np.maximum.accumulate(self.radii * np.column_stack(between), axis=0))

    def at(self, level: float) -> Array:
        """Return the least radius (n_outputs,) with that share of new scores at or below; infinite if there is none."""
        k = int(np.searchsorted(self.levels, level * (1 - _ROUNDING)))
        return self.radii[k] if k < self.levels.size else np.full(self.radii.shape[1], np.inf)


@dataclass(frozen=True, eq=False)
class Spread:
    """The usual size of an error at a row, s(x) = exp(g): a sum of functions of the prediction and of single columns.

    Attributes
    ----------
    columns : (k,), the columns that g reads beside the predictions
    model : g, or None for a constant
    least, most : (n_outputs,), limits of g: the range it took over the rows it was fitted to
    """

    columns: Array
    model: RandomFeatureModel | None
    least: Array
    most: Array

    def at(self, X: Any, f: Array) -> Array:
        """Return s at rows ``X``, where the model says ``f`` (n_rows, n_outputs): (n_rows, n_targets)."""
        if self.model is None:
            return np.broadcast_to(np.exp(self.least), (len(f), self.least.size))
        return self.of_inputs(inputs_of(X, f, self.columns))

    def of_inputs(self, Z: Array) -> Array:
        """Return s, (n_rows, n_outputs), where `inputs_of` gives ``Z``."""
        if self.model is None:
            return np.broadcast_to(np.exp(self.least), (len(Z), self.least.size))
        return np.exp(np.clip(self.model.decision(Z), self.least, self.most))


def inputs_of(X: Any, f: Array, columns: Array) -> Array:
    """Return what a spread is a function of, (n_rows, n_outputs + k): the answers ``f`` and some columns."""
    chosen = X[:, columns]
    chosen = chosen.toarray() if scipy.sparse.issparse(chosen) else chosen
    return np.ascontiguousarray(np.column_stack([f, chosen]), np.float64)


@dataclass(frozen=True, eq=False)
class ErrorBands:
    """Intervals of every coverage around a prediction.

    Attributes
    ----------
    spread : s(x)
    below, above : scores on either side, the same where intervals are symmetric
    both : whether ``below`` and ``above`` are of the same scores, |y - m| / s, else each takes half of what is left out
    typical : (n_outputs,), root mean square of s over the rows judged, but for rows far out; deviation : of (y - m) / s
    """

    spread: Spread
    below: Radii
    above: Radii
    both: bool
    typical: Array
    deviation: Array

    def limits(self, mean: Array, size: Array, coverages: Sequence[float]) -> Array:
        """Return (n_rows, n_outputs, n_coverages, 2) for predictions and sizes (n_rows, n_outputs); nested."""
        levels = [coverage if self.both else (1 + coverage) / 2 for coverage in coverages]
        radii = (np.stack([side.at(level) for level in levels], axis=-1) for side in (self.below, self.above))
        with np.errstate(invalid="ignore"):
            down, up = (size[:, :, None] * radius for radius in radii)
        down, up = (np.where(np.isnan(reach), np.inf, reach) for reach in (down, up))  # nothing known beats no spread
        return np.stack([mean[:, :, None] - down, mean[:, :, None] + up], axis=-1)
