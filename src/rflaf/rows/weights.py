"""Sample weights as importance: repeated rows become one weighted row, and weights have mean one.

A choice made on rows held out goes wrong where a row held out has a twin that was not. So rows that are equal in X and
y are merged into one, whose weight is the sum of theirs, before anything is measured: a row of weight three is the same
as three equal rows. Weights are then divided by their mean over the rows that count, so their unit has no effect.

Where targets are few, as classes are, and the same X comes with several of them, equal rows are observations rather
than copies: a row held out has equals among the others as a new row will. There weights that are whole multiples of a
common measure are counts of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from rflaf.errors import Array

from .blocks import ArraySource, Block, BlockSource, Scratch, SourceView, stack
from .executors import Executor
from .folds import hashes_of
from .moments import shortened
from .tables.moments import Moments

_MOST_ROWS, _MOST_NUMBERS = 20_000, 2**22  # of a table looked through for repeated rows: in larger ones they do no harm
_ROWS_PER_TARGET = 20  # at least, where equal rows are observations
_LEAST_VARIED = 0.5  # of the X that recur have several targets there,
_LEAST_VARIED_OF_MANY, _MANY_EQUAL = 0.1, 0.05  # or fewer, where this share of the rows has an equal before it
_MOST_SMALLEST = 200  # rows that the smallest weight may stand for
_ROUNDING = 1e-9
_BITS = {4: 22, 8: 46}  # of a weight of mean one, by the size of a number: another unit must not change these bits


@dataclass(frozen=True, slots=True)
class WeightedRows:
    """Rows with weights of mean one, the unit of the weights given, and where each row given stands among them."""

    source: BlockSource
    unit: float = 1.0
    place: Array | None = None


def as_importance(source: BlockSource, memory: int | None = None, merge: bool = True) -> WeightedRows | None:
    """Merge repeated rows and divide the weights by their mean; None for tables too large to look through.

    ``merge=False`` keeps every row at its place.

    >>> X, y = np.array([[1.0], [2.0], [1.0]]), np.array([[0.0], [5.0], [0.0]])
    >>> rows = as_importance(ArraySource(X, y))
    >>> rows.source.X.ravel(), rows.source.weight.round(3), rows.place
    (array([1., 2.]), array([1.333, 0.667]), array([0, 1, 0]))
    """
    n_numbers = source.n_samples * (source.n_features + source.n_outputs)
    if source.n_samples > _MOST_ROWS or n_numbers > _MOST_NUMBERS or (memory is not None and 16 * n_numbers > memory):
        return None
    rows = stack(source[i] for i in range(len(source)))
    first, place = _repeated(rows) if merge else (np.arange(rows.n_rows), np.arange(rows.n_rows))
    if rows.weight is None and first.size == rows.n_rows:
        return WeightedRows(source)
    given = np.ones(rows.n_rows) if rows.weight is None else rows.weight.astype(np.float64)
    weight = np.bincount(place, given)
    counts = _counts(weight)
    if counts is not None and _are_observations(rows, first, counts):
        return _counted(rows, first, place, counts, float(weight[0] / counts[0]))
    unit = Moments.of(weight[weight > 0]).mean or 1.0
    merged = ArraySource(rows.X[first], rows.y[first], _in_unit(weight, unit, source.dtype))
    return WeightedRows(merged, unit, place)


def _counts(weight: Array) -> Array | None:
    """Return weights as whole numbers without a common factor; None if no measure divides all, or they are too many.

    >>> _counts(np.array([0.5, 0.75, 1.5])), _counts(np.array([1.0, np.pi]))
    (array([2, 3, 6]), None)
    """
    if not np.all(weight > 0) or weight.min() < weight.max() / _MOST_ROWS:
        return None
    distinct = np.unique(weight) / weight.min()
    for smallest in range(1, _MOST_SMALLEST + 1):
        counts = smallest * distinct
        if np.all(np.abs(counts - np.round(counts)) <= _ROUNDING * counts):
            whole = np.round(smallest * (weight / weight.min()))
            return whole.astype(int) if whole.sum() <= _MOST_ROWS else None
    return None


def _are_observations(rows: Block, first: Array, counts: Array) -> bool:
    """Return whether equal rows are observations of their own: few targets, and X that recur with several of them."""
    cell = np.unique(hashes_of(rows.X[first]), return_inverse=True)[1]
    recurs, varied = np.bincount(cell, counts) > 1, np.bincount(cell) > 1
    n_targets = np.unique(hashes_of(rows.y[first])).size
    if n_targets * _ROWS_PER_TARGET > counts.sum():
        return False
    many = counts.sum() - counts.size > _MANY_EQUAL * counts.sum()
    return bool(varied.sum() > (_LEAST_VARIED_OF_MANY if many else _LEAST_VARIED) * recurs.sum())


def _counted(rows: Block, first: Array, place: Array, counts: Array, unit: float) -> WeightedRows:
    """Return every row as often as it counts."""
    start = np.cumsum(counts) - counts
    order = np.argsort(place, kind="stable")
    turn = np.empty_like(order)
    turn[order] = np.arange(order.size) - np.searchsorted(place[order], place[order])
    every = np.repeat(first, counts)
    return WeightedRows(ArraySource(rows.X[every], rows.y[every]), unit, start[place] + turn % counts[place])


def _in_unit(weight: Array, unit: float, dtype: Any) -> Array:
    """Return weights divided by ``unit``, without the last bits, which depend on it."""
    shorter: Array = shortened(weight.astype(np.float64) / unit, _BITS[dtype.itemsize]).astype(dtype)
    return shorter


@dataclass(frozen=True, slots=True)
class UnitWeights(SourceView):
    """Rows whose weights are divided by ``unit``."""

    unit: float = 1.0

    def seen(self, block: Block) -> Block:
        return block if block.weight is None else replace(block, weight=_in_unit(block.weight, self.unit, self.dtype))


def of_mean_one(source: BlockSource, executor: Executor) -> WeightedRows:
    """Divide the weights by their mean over the rows that count, where the rows are: none is merged."""
    if source[0].weight is None:
        return WeightedRows(source)

    def sum_weights(block: Block, scratch: Scratch) -> Any:
        weight = np.ones(block.n_rows) if block.weight is None else block.weight
        return Moments.of(weight[weight > 0])

    unit = executor.reduce(source, sum_weights, "sum the weights").mean or 1.0  # exact, whatever the blocks
    return WeightedRows(UnitWeights(source, unit), unit)


def _repeated(rows: Block) -> tuple[Array, Array]:
    """Return the first of every group of equal rows, in order, and the group of every row."""
    hashes = hashes_of(rows.X) ^ (hashes_of(rows.y) << np.uint64(1))
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    first, place = first[order], rank[group]
    twin = first[place]
    same = np.all(rows.y == rows.y[twin], axis=1) & _equal_rows(rows.X, twin)
    if same.all():
        return first, place
    return np.arange(rows.n_rows), np.arange(rows.n_rows)  # two rows with one hash, which never happens


def _equal_rows(X: Array, twin: Array) -> Array:
    """Return whether every row of ``X``, dense or CSR, equals the row that ``twin`` names."""
    if sp.issparse(X):
        return np.asarray(abs(X - X[twin]).sum(axis=1)).ravel() == 0
    return np.asarray(np.all(X[twin] == X, axis=1))
