"""Rows on a cluster as a source of blocks: partitions, each cut into blocks where it lives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np

from rflaf.rows.blocks import MOST_ROWS, ArraySource, Block, Parts, drawn_rows, stack
from rflaf.rows.progress import Begin, Quiet

from .graph import Cluster, Given, Handle, each_part, fetch, load_payload, locate, plain


@dataclass(frozen=True)
class DaskSource:
    """Rows on a cluster: partitions, each cut into blocks where it lives.

    ``handles`` address [X, y, weight] of every partition, ``rows`` are their numbers of rows, and ``open`` makes an
    `ArraySource` of one partition. ``begin`` shows the progress of a sample.
    """

    cluster: Cluster
    handles: Sequence[Handle]
    rows: Sequence[int]
    n_features: int
    n_outputs: int
    dtype: np.dtype[Any]
    open: Callable[[Any], ArraySource]
    begin: Begin = Quiet
    block_rows: int = MOST_ROWS
    _fetched: dict[int, ArraySource] = field(default_factory=dict, init=False, repr=False)

    @property
    def n_samples(self) -> int:
        return sum(self.rows)

    @property
    def _sizes(self) -> list[int]:
        return [-(-n_rows // self.block_rows) for n_rows in self.rows]

    def __len__(self) -> int:
        return sum(self._sizes)

    def __getitem__(self, index: int) -> Block:
        """Fetch the partition of a block to this process, and keep it until another one is needed."""
        part, within = locate(self._sizes, index)
        if part not in self._fetched:
            self._fetched.clear()
            self._fetched[part] = self.open(fetch(self.cluster, self.handles[part]))
        return replace(self._fetched[part], block_rows=self.block_rows, first=self._firsts[part])[within]

    @property
    def _firsts(self) -> list[int]:
        """Return the number of the first row of every partition."""
        return [0, *accumulate(self.rows)][:-1]

    @property
    def parts(self) -> Parts:
        opened, block_rows = self.open, self.block_rows
        return Parts(
            list(zip(self.handles, self._firsts, strict=True)),
            self._sizes,
            lambda part: replace(opened(part[0]), block_rows=block_rows, first=part[1]),
        )

    def with_rows(self, block_rows: int) -> DaskSource:
        return replace(self, block_rows=block_rows)

    def sample(self, n_rows: int, rng: np.random.Generator) -> ArraySource:
        """Return the rows that the same generator draws from an array; no other rows travel."""
        drawn = drawn_rows(self.n_samples, n_rows, rng)
        ends = np.cumsum(self.rows)
        first = np.searchsorted(drawn, ends - self.rows)
        last = np.searchsorted(drawn, ends)
        some = [part for part in range(len(self.rows)) if first[part] < last[part]]
        within = [drawn[first[part] : last[part]] - (ends[part] - self.rows[part]) for part in some]
        graph, keys = each_part(_take_rows, [self.handles[part] for part in some], self.open, within)
        with self.begin("draw rows", drawn.size, drawn.size) as display:
            blocks = self.cluster.compute(graph, keys)
            display.advance(drawn.size)
        rows = stack(blocks)
        return ArraySource(rows.X, rows.y, rows.weight, self.block_rows)


def _take_rows(value: Any, payload: Given, rows: Given) -> Block:
    source, at = load_payload(payload)(plain(value)), rows.value
    return Block(source.X[at], source.y[at], None if source.weight is None else source.weight[at])
