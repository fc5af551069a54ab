"""Rows and results that live on a cluster, and the executor that sums them there."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np

from rflaf.rows.blocks import MOST_ROWS, ArraySource, Block, Parts, Scratch, drawn_rows, parts_of, stack
from rflaf.rows.executors import Item, Items, SingleThreadedBLAS, ThreadExecutor, Total
from rflaf.rows.progress import Begin, Quiet

from .graph import Cluster, Given, Handle, each_part, fetch, load_payload, locate, plain

_FAN_IN = 4  # sums added by one task


class DaskExecutor(ThreadExecutor):
    """Sums items where they live; items of this process are summed by its threads."""

    def __init__(self, cluster: Cluster, n_workers: int = 1) -> None:
        super().__init__(n_workers)
        self.cluster = cluster

    def elsewhere(self, items: Items[Any]) -> bool:
        return parts_of(items) is not None

    def reduce(self, items: Items[Item], map_item: Callable[[Item, Scratch], Total], label: str = "") -> Total:
        """Return ``sum_i map_item(items[i], scratch)``, part by part; the parts are added in a fixed tree."""
        if (parts := parts_of(items)) is None:
            return super().reduce(items, map_item, label)
        graph, keys = each_part(_sum_part, parts.handles, (parts.open, map_item))
        total: Total = self.cluster.compute(graph, [_add_all(graph, keys)])[0]
        return total

    def map(self, items: Items[Item], map_item: Callable[[Item], Any], label: str = "") -> Any:
        """Return ``[map_item(item) for item in items]``; results of items on the cluster stay there."""
        if (parts := parts_of(items)) is None:
            return super().map(items, map_item, label)
        graph, keys = each_part(_map_part, parts.handles, (parts.open, map_item))
        return KeptItems(self.cluster, self.cluster.persist(graph, keys), parts.sizes)


@dataclass(frozen=True)
class KeptItems:
    """Items computed on a cluster that stay there; reading one fetches its part, one part at a time."""

    cluster: Cluster
    handles: Sequence[Handle]
    sizes: Sequence[int]
    _fetched: dict[int, Any] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return sum(self.sizes)

    def __getitem__(self, index: int) -> Any:
        part, within = locate(self.sizes, index)
        if part not in self._fetched:
            self._fetched.clear()
            self._fetched[part] = fetch(self.cluster, self.handles[part])
        return self._fetched[part][within]

    @property
    def parts(self) -> Parts:
        return Parts(self.handles, self.sizes, _itself)


@dataclass(frozen=True)
class DaskSource:
    """Rows on a cluster: partitions, each cut into blocks where it lives."""

    cluster: Cluster
    handles: Sequence[Handle]  # of [X, y, weight] of every partition
    rows: Sequence[int]  # in every partition
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
    source: ArraySource = load_payload(payload)(plain(value))
    return source.rows(rows.value)


def _sum_part(value: Any, payload: Given) -> Any:
    open_part, map_item = load_payload(payload)
    with SingleThreadedBLAS():
        items, scratch = open_part(plain(value)), Scratch()
        total = map_item(items[0], scratch)
        for i in range(1, len(items)):
            total += map_item(items[i], scratch)
    return total


def _map_part(value: Any, payload: Given) -> Given:
    open_part, map_item = load_payload(payload)
    with SingleThreadedBLAS():
        items = open_part(plain(value))
        return Given([map_item(items[i]) for i in range(len(items))])


def _add_all(graph: dict[Any, Any], keys: list[Any]) -> Any:
    """Return the key of the total, which neighbours are added up to a few at a time."""
    name, level = keys[0][0] + "-add", 0
    while len(keys) > 1:
        groups = [keys[i : i + _FAN_IN] for i in range(0, len(keys), _FAN_IN)]
        keys = [(name, level, i) for i in range(len(groups))]
        graph.update({key: (_add, group) for key, group in zip(keys, groups, strict=True)})
        level += 1
    return keys[0]


def _add(sums: list[Any]) -> Any:
    total = copy.deepcopy(sums[0])  # the scheduler may hand out a task's inputs again
    for other in sums[1:]:
        total += other
    return total


def _itself(value: Any) -> Any:
    return value
