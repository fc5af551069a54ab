"""Centre and scale of columns, as a monoid over rows.

Projections must match the grid of the activation, so inputs are centred and scaled inside; both are folded into the
directions afterwards. Means and sums of squared deviations are merged pairwise, so a column of large mean and small
spread keeps its digits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from rflaf.errors import Array

from .blocks import Block, BlockSource, Scratch
from .executors import Executor

_LEAST_SQUARE = float(np.finfo(np.float64).tiny)  # a sum of squares below it is rounding, or nothing
_ROUNDING = 8 * np.finfo(np.float64).eps  # of a mean: a smaller deviation is none
_BITS, _WEIGHT_BITS = 30, 40  # of a mean or a spread, relative to the spread, and of a sum of weights that matter


@dataclass(slots=True)
class ColumnMoments:
    """Sum of weights, means (k,) and weighted sums of squared deviations (k,) of columns.

    Squares that underflow count as the least number, so that a column that varies is never taken for a constant.
    """

    weight: float
    mean: Array
    deviation: Array

    @classmethod
    def from_rows(cls, rows: Any, weight: Array | None) -> Self:
        """Of dense or CSR ``rows`` (n_rows, k) with weights (n_rows,)."""
        w = np.ones(rows.shape[0]) if weight is None else weight.astype(np.float64)
        total = float(w.sum())
        if total == 0:
            return cls(0.0, np.zeros(rows.shape[1]), np.zeros(rows.shape[1]))
        if sp.issparse(rows):
            return cls(total, *_sparse_moments(rows, w, total))
        dense = np.asarray(rows, np.float64)
        mean = w @ dense / total
        centred = dense - mean
        rest = w @ centred / total
        centred -= rest
        deviation = w @ np.square(centred)
        if (low := deviation < _LEAST_SQUARE).any():
            varies = (np.abs(centred[:, low]) > _ROUNDING * np.abs(mean[low])) & (w > 0)[:, None]
            deviation[low] = np.where(varies.any(axis=0), _LEAST_SQUARE, deviation[low])
        return cls(total, mean + rest, deviation)

    def __iadd__(self, other: ColumnMoments) -> Self:
        total = self.weight + other.weight
        share = other.weight / total if total else 0.0
        gap = other.mean - self.mean
        self.deviation += other.deviation + gap**2 * (self.weight * share)
        self.mean = self.mean + gap * share
        self.weight = total
        return self

    def settled(self) -> ColumnMoments:
        """Return the moments without their last bits: they depend on the cuts of rows; a search amplifies them."""
        spread = np.where(self.scale > 0, np.frexp(self.scale)[1] - _BITS, 0)
        mean = np.ldexp(np.round(np.ldexp(self.mean, -spread)), spread)
        weight = float(shortened(np.float64(self.weight), _WEIGHT_BITS))
        return ColumnMoments(weight, np.where(self.scale > 0, mean, self.mean), shortened(self.deviation, _BITS))

    @property
    def scale(self) -> Array:
        """Standard deviations; zero for a column that is constant to rounding."""
        scale = np.sqrt(self.deviation / self.weight)
        rounding = _ROUNDING * np.abs(self.mean)
        return np.where(scale > rounding, scale, 0.0)


@dataclass(slots=True)
class ColumnRange:
    """Lowest and highest values of columns (k,), and whether they have no other value."""

    low: Array
    high: Array
    two: Array

    @classmethod
    def from_rows(cls, rows: Any, weight: Array | None) -> Self:
        """Of dense or CSR ``rows`` (n_rows, k), those of weight zero left out."""
        rows = rows if weight is None or np.all(weight > 0) else rows[np.flatnonzero(weight)]
        n_rows, k = rows.shape
        if n_rows == 0:
            return cls(np.full(k, np.inf), np.full(k, -np.inf), np.ones(k, bool))
        if not sp.issparse(rows):
            low, high = rows.min(axis=0), rows.max(axis=0)
            return cls(low, high, ((rows == low) | (rows == high)).all(axis=0))
        low, high = (np.asarray(edge.toarray()).ravel() for edge in (rows.min(axis=0), rows.max(axis=0)))
        between = (rows.data != low[rows.indices]) & (rows.data != high[rows.indices])
        absent = np.bincount(rows.indices, minlength=k) < n_rows
        two = (np.bincount(rows.indices, between, k) == 0) & ~(absent & (low < 0) & (high > 0))
        return cls(low, high, two)

    def __iadd__(self, other: ColumnRange) -> Self:
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        edges = (self.low, self.high, other.low, other.high)
        self.two = np.logical_and.reduce(
            [self.two, other.two, *((edge == low) | (edge == high) | np.isinf(edge) for edge in edges)]
        )
        self.low, self.high = low, high
        return self


@dataclass(slots=True)
class TableMoments:
    """Column moments of inputs and targets, ranges of the inputs, and the number of rows whose weight is not zero."""

    X: ColumnMoments
    y: ColumnMoments
    range: ColumnRange
    n_used: int

    def __iadd__(self, other: TableMoments) -> Self:
        self.X += other.X
        self.y += other.y
        self.range += other.range
        self.n_used += other.n_used
        return self

    def settled(self) -> TableMoments:
        """Return the moments without the bits that depend on how the rows were cut."""
        return replace(self, X=self.X.settled(), y=self.y.settled())

    @property
    def scale(self) -> Array:
        """Of the inputs: the distance of a column's values if these are two, else its standard deviation.

        A rare indicator would by its small standard deviation outweigh everything where it is set. Zero for a column
        that is constant to rounding.
        """
        deviation = self.X.scale
        distance = self.range.high.astype(np.float64) - self.range.low
        return np.where(self.range.two & (deviation > 0), distance, deviation)


def shortened(values: Any, bits: int) -> Any:
    """Round numbers to ``bits`` binary digits."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits)


def measure(source: BlockSource, executor: Executor) -> TableMoments:
    """Return means and spreads of every input and target column, in one pass."""

    def measure_block(block: Block, scratch: Scratch) -> TableMoments:
        return TableMoments(
            ColumnMoments.from_rows(block.X, block.weight),
            ColumnMoments.from_rows(block.y, block.weight),
            ColumnRange.from_rows(block.X, block.weight),
            block.n_rows if block.weight is None else int(np.count_nonzero(block.weight)),
        )

    return executor.reduce(source, measure_block, "measure the columns")


def _sparse_moments(rows: Any, w: Array, total: float) -> tuple[Array, Array]:
    """Return means and deviations of a CSR matrix: stored entries, then the zeros that are not stored."""
    column = rows.indices
    weight = np.repeat(w, np.diff(rows.indptr))
    stored = np.bincount(column, weight, rows.shape[1])
    missing = np.bincount(column, minlength=rows.shape[1]) < rows.shape[0]
    absent = np.where(missing, np.maximum(total - stored, 0), 0)  # exactly zero for a full column
    mean = np.bincount(column, weight * rows.data, rows.shape[1]) / total
    mean += (np.bincount(column, weight * (rows.data - mean[column]), rows.shape[1]) - absent * mean) / total
    spread = np.bincount(column, weight * (rows.data - mean[column]) ** 2, rows.shape[1]) + absent * mean**2
    if (low := spread < _LEAST_SQUARE).any():
        off = np.abs(rows.data - mean[column]) > _ROUNDING * np.abs(mean[column])
        varies = np.bincount(column, off & (weight > 0), rows.shape[1]) > 0
        spread[low & varies] = _LEAST_SQUARE
    return mean, spread
