"""Rows in blocks: the only way data reach the solvers.

A source knows its size, returns block i, and draws a sample of rows; arrays, memory maps and SciPy sparse matrices are
served here. The number of rows per block depends on the memory budget alone (`rflaf.training.memory`), never on the
number of threads, so threads cannot change a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
import scipy  # its parts are imported on first use

from rflaf.errors import Array

MOST_ROWS = 2048  # per block: larger blocks leave the second-level cache and gain nothing
LEAST_ROWS = 64
READ_AHEAD = 8  # blocks that a source of files reads before they are asked for, at most


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive rows: ``X`` (n_rows, n_features) dense or CSR, ``y`` (n_rows, n_outputs), ``weight`` (n_rows,)."""

    X: Any
    y: Array
    weight: Array | None = None
    first: int = 0  # number of the first row in its table

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    def part(self, start: int, stop: int) -> Block:
        """Return some of the rows, in the same memory."""
        weight = None if self.weight is None else self.weight[start:stop]
        return Block(self.X[start:stop], self.y[start:stop], weight, self.first + start)


def stack(blocks: Iterable[Block]) -> Block:
    """Stack the rows of all blocks."""
    blocks = list(blocks)
    X, weights = [block.X for block in blocks], [block.weight for block in blocks if block.weight is not None]
    return Block(
        scipy.sparse.vstack(X, "csr") if scipy.sparse.issparse(X[0]) else np.concatenate(X),
        np.concatenate([block.y for block in blocks]),
        np.concatenate(weights) if weights else None,
        blocks[0].first,
    )


class RowTable(Protocol):
    """A table of rows of a known size, with inputs of one type."""

    @property
    def n_samples(self) -> int: ...

    @property
    def n_features(self) -> int: ...

    @property
    def n_outputs(self) -> int: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...


class BlockSource(RowTable, Protocol):
    """A table of rows that can be read block by block, any number of times."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Block: ...

    def with_rows(self, block_rows: int) -> BlockSource:
        """Return the same rows in blocks of another size."""

    def sample(self, n_rows: int, rng: np.random.Generator) -> BlockSource:
        """Draw at most ``n_rows`` rows without replacement, in memory, in their original order."""


def drawn_rows(n_samples: int, n_rows: int, rng: np.random.Generator) -> Array:
    """Draw the numbers of ``n_rows`` rows without replacement, in order; all rows if there are no more.

    >>> drawn_rows(3, 5, np.random.default_rng(0))
    array([0, 1, 2])
    """
    if n_rows >= n_samples:
        return np.arange(n_samples)
    return np.sort(rng.choice(n_samples, n_rows, replace=False))


@dataclass(frozen=True, slots=True)
class Parts:
    """Items in parts on a cluster; only results computed from them travel."""

    handles: Sequence[Any]  # by which a cluster finds each part
    sizes: Sequence[int]  # number of items in each part, at least one
    open: Callable[[Any], Any]  # makes the items of a part where the part lives

    def then(self, change: Callable[[Any], Any]) -> Parts:
        """Return the parts with a change applied to their items."""
        opened = self.open
        return replace(self, open=lambda value: change(opened(value)))


def parts_of(items: Any) -> Parts | None:
    """Return the parts of items on a cluster, or None for items in this process."""
    parts: Parts | None = getattr(items, "parts", None)
    return parts


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of items of two sequences, with equal parts on a cluster."""

    first: Any
    second: Any

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.first[index], self.second[index]

    @property
    def parts(self) -> Parts | None:
        first, second = parts_of(self.first), parts_of(self.second)
        if first is None or second is None:
            return None
        one, other = first.open, second.open
        handles = list(zip(first.handles, second.handles, strict=True))
        return Parts(handles, first.sizes, lambda both: Pairs(one(both[0]), other(both[1])))


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Items that no pass changes, so that a checkpoint may record the result of a pass."""

    items: Any

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]

    @property
    def parts(self) -> Parts | None:
        return parts_of(self.items)


@dataclass(frozen=True, slots=True)
class ArraySource:
    """Blocks of validated arrays, memory maps or sparse matrices; ``first`` is the number of the first row.

    >>> source = ArraySource(np.zeros((5, 2)), np.zeros((5, 1)), block_rows=2)
    >>> [block.n_rows for block in source]
    [2, 2, 1]
    """

    X: Any
    y: Array
    weight: Array | None = None
    block_rows: int = MOST_ROWS
    first: int = 0

    @property
    def n_samples(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @property
    def n_outputs(self) -> int:
        return int(self.y.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.X.dtype)

    def __len__(self) -> int:
        return -(-self.n_samples // self.block_rows)

    def __getitem__(self, index: int) -> Block:
        if not 0 <= index < len(self):
            raise IndexError(index)
        start = index * self.block_rows
        return replace(self.rows(slice(start, start + self.block_rows)), first=self.first + start)

    def rows(self, rows: Any) -> Block:
        weight = None if self.weight is None else self.weight[rows]
        return Block(self.X[rows], self.y[rows], weight)

    def with_rows(self, block_rows: int) -> ArraySource:
        return replace(self, block_rows=block_rows)

    def sample(self, n_rows: int, rng: np.random.Generator) -> ArraySource:
        if n_rows >= self.n_samples:
            return self
        block = self.rows(drawn_rows(self.n_samples, n_rows, rng))
        return ArraySource(block.X, block.y, block.weight, self.block_rows)


_NO_ROWS = ArraySource(np.empty((0, 0)), np.empty((0, 0)))


@dataclass(frozen=True, slots=True)
class TableView:
    """A view of another table of rows."""

    source: Any

    @property
    def n_samples(self) -> int:
        return int(self.source.n_samples)

    @property
    def n_features(self) -> int:
        return int(self.source.n_features)

    @property
    def n_outputs(self) -> int:
        return int(self.source.n_outputs)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.source.dtype)


@dataclass(frozen=True, slots=True)
class SourceView(TableView):
    """A view of the rows of another source."""

    source: BlockSource

    def __len__(self) -> int:
        return len(self.source)

    def seen(self, block: Block) -> Block:
        """Return a block of the source as this view shows it."""
        raise NotImplementedError

    def __getitem__(self, index: int) -> Block:
        return self.seen(self.source[index])

    @property
    def parts(self) -> Parts | None:
        parts, shell = parts_of(self.source), replace(self, source=_NO_ROWS)
        return None if parts is None else parts.then(lambda source: replace(shell, source=source))

    def with_rows(self, block_rows: int) -> Self:
        return replace(self, source=self.source.with_rows(block_rows))

    def sample(self, n_rows: int, rng: np.random.Generator) -> Self:
        return replace(self, source=self.source.sample(n_rows, rng))


def innermost(source: BlockSource) -> BlockSource:
    """Return the source behind all views of it."""
    while isinstance(source, SourceView):
        source = source.source
    return source


@dataclass(frozen=True, slots=True)
class StandardisedTargets(SourceView):
    """A source whose targets are (y - mean) / scale in the dtype of the inputs; where the scale is zero, zero."""

    mean: Array
    scale: Array

    def transformed(self, y: Array) -> Array:
        return (y - self.mean) * np.divide(1.0, self.scale, out=np.zeros_like(self.scale), where=self.scale > 0)

    def seen(self, block: Block) -> Block:
        return replace(block, y=self.transformed(block.y).astype(self.dtype, copy=False))


@dataclass(frozen=True, slots=True)
class InDoublePrecision(SourceView):
    """A source whose numbers are float64."""

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    def seen(self, block: Block) -> Block:
        weight = None if block.weight is None else block.weight.astype(self.dtype, copy=False)
        return replace(block, X=block.X.astype(self.dtype), y=block.y.astype(self.dtype, copy=False), weight=weight)


def in_double_precision(source: BlockSource) -> BlockSource:
    """Return the source, or a view of it, whose numbers are float64; targets are standardised as such."""
    if source.dtype == np.float64:
        return source
    if isinstance(source, StandardisedTargets):
        return replace(source, source=in_double_precision(source.source))
    return InDoublePrecision(source)


class TargetRule(Protocol):
    """A condition on targets."""

    def check_more(self, y: Array) -> None: ...


@dataclass(frozen=True, slots=True)
class CheckedTargets(SourceView):
    """A source whose targets are checked by a rule as they are read."""

    rule: TargetRule

    def seen(self, block: Block) -> Block:
        self.rule.check_more(block.y)
        return block


@dataclass(frozen=True, slots=True)
class RepeatedTargets(SourceView):
    """A source of one target per row, repeated for several outputs."""

    times: int

    @property
    def n_outputs(self) -> int:
        return self.times

    def seen(self, block: Block) -> Block:
        return replace(block, y=np.repeat(block.y, self.times, axis=1))


@dataclass(frozen=True, slots=True)
class LabelTargets(SourceView):
    """A source of labels, one per row, as targets 0 and 1: one output for two classes, else one per class.

    ``classes`` (n_classes,) are the labels in order; rows are weighted by ``class_weight`` (n_classes,) too.
    """

    classes: Array
    class_weight: Array | None = None

    @property
    def n_outputs(self) -> int:
        return 1 if self.classes.size == 2 else int(self.classes.size)

    def seen(self, block: Block) -> Block:
        at = np.searchsorted(self.classes, block.y[:, 0].astype(self.classes.dtype))
        y = at[:, None].astype(float) if self.classes.size == 2 else np.eye(self.classes.size)[at]
        if self.class_weight is None:
            return replace(block, y=y)
        weight = self.class_weight[at] * (1.0 if block.weight is None else block.weight)
        return replace(block, y=y, weight=weight.astype(self.dtype))


def array_source(X: Any, y: Array, weight: Array | None = None) -> ArraySource:
    """Return a source of validated arrays; sparse matrices become CSR, ``y`` becomes two-dimensional."""
    X = _canonical(X) if scipy.sparse.issparse(X) else X
    y = np.asarray(y, dtype=np.float64).reshape(X.shape[0], -1)
    return ArraySource(X, y, None if weight is None else np.asarray(weight, dtype=X.dtype))


def _canonical(X: Any) -> Any:
    """Return CSR that stores every entry once; the matrix passed is left unchanged."""
    X = scipy.sparse.csr_array(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


class Scratch:
    """Arrays that one worker reuses for every block: fresh pages cost more than the arithmetic on them."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, np.dtype[Any]], Array] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return an uninitialised C-contiguous array, valid until the same name is asked for again."""
        key, size = (name, np.dtype(dtype)), int(np.prod(shape))
        buffer = self._buffers.get(key)
        if buffer is None or buffer.size < size:
            buffer = self._buffers[key] = np.empty(size, dtype)
        return buffer[:size].reshape(shape)
