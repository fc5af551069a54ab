"""Rows as the loops of refined models read them: straight columns standardised, others as cells or levels.

The cell of a row in a column is found once, before training; every epoch then reads a number and a fraction. Encoded
rows take about as much memory as the rows themselves; where they do not fit, every epoch encodes them again chunk by
chunk.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from rflaf.errors import Array
from rflaf.functions._kernels import curves as _curve_kernels
from rflaf.functions._kernels.refined import Rows
from rflaf.functions.curves import Knots, no_knots, one_over_gaps, place_knots
from rflaf.rows.blocks import BlockSource, stack

_ROWS_AT_ONCE = 2048
_OFTEN = 4  # rows a value, of a column whose values may have a value of their own
FARTHEST = 1e15  # standard deviations of a row that hardly weighs anything


@dataclass(frozen=True, slots=True)
class RowsInMemory:
    """Rows in memory: ``X`` (n, n_features) dense, ``y`` (n, n_outputs), ``weight`` (n,) of mean one.

    ``levels`` says how many levels the codes of each column stand for, zero for numbers; empty where all are numbers.
    """

    X: Array
    y: Array
    weight: Array
    levels: tuple[int, ...] = ()

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])


def read(source: BlockSource, blocks: range, mean_weight: float) -> RowsInMemory:
    """Read blocks of a source into memory; rows of weight zero are left out."""
    rows = stack(source[i] for i in blocks)
    X = rows.X.toarray() if sp.issparse(rows.X) else rows.X
    if rows.weight is None:
        return RowsInMemory(X, rows.y, np.ones(rows.n_rows))
    weight = rows.weight.astype(np.float64)
    used = weight > 0
    return RowsInMemory(X[used], rows.y[used], weight[used] / mean_weight)


@dataclass(frozen=True)
class Encoding:
    """How rows are encoded for the compiled loops.

    Straight columns come first, as (x - mean) / scale; curved columns as a cell and a fraction each, categories as the
    row of their level behind the nodes of all curves.

    Attributes
    ----------
    mean, scale : (n_features,); a scale of zero leaves a column out
    knots : of the curved columns
    levels : (n_features,), how many levels a column has, zero for numbers; empty where all are numbers
    repeated : (n_repeated,), columns of numbers whose nodes have, beside the curve, a value of their own each
    """

    mean: Array
    scale: Array
    knots: Knots
    levels: tuple[int, ...] = ()
    repeated: Array = field(default_factory=lambda: np.zeros(0, np.intp))

    @cached_property
    def linear(self) -> Array:
        """Return the numbers of the straight columns."""
        other = np.zeros(self.scale.size, bool)
        other[self.knots.columns] = True
        other[self.categories] = True
        return np.flatnonzero((self.scale > 0) & ~other)

    @cached_property
    def categories(self) -> Array:
        """Return the numbers of the columns of levels."""
        used = [column for column, n_levels in enumerate(self.levels) if n_levels and self.scale[column] > 0]
        return np.array(used, np.intp)

    @cached_property
    def level_columns(self) -> Array:
        """Return the numbers of the columns with levels: categories, then those whose nodes serve as levels."""
        return np.concatenate([self.categories, self.repeated])

    @cached_property
    def repeated_curves(self) -> Array:
        """Return which curves belong to the columns of repeated values."""
        return np.searchsorted(self.knots.columns, self.repeated)

    @cached_property
    def level_start(self) -> Array:
        """Return where the levels of each column begin behind the nodes, and where the last ones end."""
        of_categories = (self.levels[column] for column in self.categories)
        of_repeated = np.diff(self.knots.start)[self.repeated_curves]
        return self.knots.nodes.size + np.cumsum([0, *of_categories, *of_repeated])

    @cached_property
    def columns(self) -> Array:
        """Return all columns of numbers in use, the curved ones last."""
        return np.concatenate([self.linear, self.knots.columns])

    @cached_property
    def weight_columns(self) -> Array:
        """Return the column that each weight of a component belongs to: one of a number, one of every level."""
        return np.concatenate([self.columns, np.repeat(self.level_columns, np.diff(self.level_start))])

    def standardise(self, X: Array, columns: Array) -> Array:
        return (X[:, columns] - self.mean[columns]) / self.scale[columns]

    def rows(self, X: Array, y: Array, weight: Array) -> Rows:
        """Rows ``X`` (n, n_features), ``y`` (n, n_outputs) and ``weight`` (n,) as the loops read them."""
        shape = (X.shape[0], self.knots.n_curves)
        cells, fractions = np.empty(shape, np.int32), np.empty(shape, np.float32)
        if self.knots.n_curves:
            curved = np.ascontiguousarray(X[:, self.knots.columns], np.float64)
            within = np.arange(self.knots.n_curves)
            gaps = np.concatenate([one_over_gaps(self.knots.of(curve)) for curve in range(within.size)])
            _curve_kernels.locate_within(curved, within, self.knots.nodes, gaps, self.knots.start, cells, fractions)
        x = np.empty((X.shape[0], self.linear.size), np.float32)
        for first in range(0, X.shape[0], _ROWS_AT_ONCE):  # in double precision, which for all rows would not fit
            part = slice(first, first + _ROWS_AT_ONCE)
            x[part] = np.clip(self.standardise(X[part], self.linear), -FARTHEST, FARTHEST)
        curves = self.repeated_curves
        nearest = cells[:, curves] - self.knots.start[curves] + (fractions[:, curves] > 0.5)
        levels = np.hstack([X[:, self.categories], nearest]) + self.level_start[:-1]
        levels = np.ascontiguousarray(levels, np.int32)
        return Rows(x, cells, fractions, levels, as_targets(y), weight.astype(np.float32))


def as_targets(y: Array) -> Array:
    """Return targets as the loops read them, (n, n_outputs)."""
    return np.ascontiguousarray(np.clip(y, -FARTHEST, FARTHEST), np.float32)


def encode(table: RowsInMemory, mean: Array, scale: Array, nodes: int, own_values: bool = False) -> Encoding:
    """Place the knots of the columns and state their scaling.

    With ``own_values`` the columns of numbers that come up again and again are read by the value too.
    """
    numbers = (scale > 0) & ~np.array(table.levels or np.zeros(scale.size), bool)
    varying = np.where(numbers, table.X, 0)  # a column constant to rounding has no curve
    knots = place_knots(varying, nodes) if nodes else no_knots()
    repeated = [
        column for k, column in enumerate(knots.columns) if own_values and _recurs(table.X[:, column], knots.of(k))
    ]
    return Encoding(mean, scale, knots, table.levels, np.array(repeated, np.intp))


def _recurs(x: Array, nodes: Array) -> bool:
    """Return whether the nodes are all values of a column, of several rows each."""
    return bool(_OFTEN * nodes.size <= x.size and np.isin(x, nodes).all())


class Chunks(Protocol):
    """Encoded rows, as many at a time as fit in memory."""

    def __len__(self) -> int: ...

    def __getitem__(self, i: int) -> tuple[Rows, Array]:
        """Rows, and the index of those to use."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """All rows of a source, encoded as many blocks at a time as ``memory`` holds; kept where one chunk holds them."""

    source: BlockSource
    encoding: Encoding
    mean_weight: float
    memory: int
    _kept: dict[int, tuple[Rows, Array]] = field(default_factory=dict)

    @property
    def _blocks(self) -> int:
        """Blocks in a chunk."""
        source = self.source
        row_bytes = (8 + source.dtype.itemsize) * source.n_features + 8 * source.n_outputs + 16
        a_block = row_bytes * -(-source.n_samples // len(source))
        return max(1, min(len(source), self.memory // a_block))

    def __len__(self) -> int:
        return -(-len(self.source) // self._blocks)

    def __getitem__(self, i: int) -> tuple[Rows, Array]:
        if i in self._kept:
            return self._kept[i]
        blocks = range(i * self._blocks, min((i + 1) * self._blocks, len(self.source)))
        chunk = self._encoded(blocks)
        if len(self) == 1:
            self._kept[i] = chunk
        return chunk

    def _encoded(self, blocks: range) -> tuple[Rows, Array]:
        """Blocks encoded one after the other, then moved into one table, each part let go as soon as it has moved."""
        parts: deque[Rows] = deque()
        for index in blocks:
            table = read(self.source, range(index, index + 1), self.mean_weight)
            parts.append(self.encoding.rows(table.X, table.y, table.weight))
        n_rows = sum(part.weight.size for part in parts)
        whole = Rows(*(np.empty((n_rows, *values.shape[1:]), values.dtype) for values in parts[0]))
        first = 0
        while parts:
            part = parts.popleft()
            for to, values in zip(whole, part, strict=True):
                to[first : first + part.weight.size] = values
            first += part.weight.size
        return whole, np.arange(n_rows)
