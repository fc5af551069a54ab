"""Sums over items that live on a cluster: the executor, and results that stay where they were computed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from rflaf.rows.blocks import Parts, Scratch, parts_of
from rflaf.rows.executors import Item, Items, SingleThreadedBLAS, State, ThreadExecutor, Total

from .graph import Cluster, Given, Handle, each_part, fetch, load_payload, locate, plain

_FAN_IN = 4  # sums added by one task


class DaskExecutor:
    """Sums items where they live; items of this process are summed by its threads."""

    def __init__(self, cluster: Cluster, here: ThreadExecutor) -> None:
        self.cluster = cluster
        self._here = here

    @property
    def n_workers(self) -> int:
        """Threads of this process."""
        return self._here.n_workers

    def limited(self, n_workers: int) -> DaskExecutor:
        """Return this executor with at most ``n_workers`` threads in this process."""
        return DaskExecutor(self.cluster, self._here.limited(n_workers))

    def __enter__(self) -> Self:
        self._here.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._here.__exit__(kind, error, trace)

    def elsewhere(self, items: Items[Any]) -> bool:
        return parts_of(items) is not None

    def reduce(self, items: Items[Item], map_item: Callable[[Item, Scratch], Total], label: str = "") -> Total:
        """Return ``sum_i map_item(items[i], scratch)``, part by part; the parts are added in a fixed tree."""
        parts = parts_of(items)
        if parts is None:
            return self._here.reduce(items, map_item, label)
        graph, keys = each_part(_sum_part, parts.handles, (parts.open, map_item))
        total: Total = self.cluster.compute(graph, [_add_all(graph, keys)])[0]
        return total

    def side_by_side(self, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        return self._here.side_by_side(tasks)

    def fold(self, n_steps: int, state: State, advance: Callable[[State, int], State], label: str = "") -> State:
        """Run consecutive steps in this process."""
        return self._here.fold(n_steps, state, advance, label)

    def map(self, items: Items[Item], map_item: Callable[[Item], Any], label: str = "") -> Any:
        """Return ``[map_item(item) for item in items]``; results of items on the cluster stay there."""
        parts = parts_of(items)
        if parts is None:
            return self._here.map(items, map_item, label)
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
