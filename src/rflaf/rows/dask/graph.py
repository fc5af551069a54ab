"""Task graphs on a Dask scheduler: values that stay on the cluster, and one task per part of the rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any
from uuid import uuid4

from rflaf.errors import ClusterError, MissingExtraError


@dataclass(frozen=True)
class Handle:
    """The address of a value on a cluster: a graph and keys in it, nested in lists where values belong together."""

    graph: dict[Any, Any] = field(repr=False)
    keys: Any


@dataclass(frozen=True)
class Cluster:
    """The scheduler active when a fit begins: a distributed client, threads, processes or the calling thread."""

    get: Any

    @classmethod
    def current(cls) -> Cluster:
        dask = require_dask()
        return cls(dask.base.get_scheduler() or dask.threaded.get)

    @property
    def client(self) -> Any:
        """The client of a distributed scheduler, else None."""
        owner = getattr(self.get, "__self__", None)
        return owner if hasattr(owner, "persist") else None

    def compute(self, graph: dict[Any, Any], keys: Sequence[Any]) -> list[Any]:
        """Return the values of keys of a graph, in order."""
        with self._watched():
            return list(self.get(graph, list(keys)))

    def persist(self, graph: dict[Any, Any], keys: Sequence[Any]) -> list[Handle]:
        """Compute the values and keep them on the workers."""
        with self._watched():
            elsewhere = {} if self.client is None else {"sync": False}
            kept = dict(zip(keys, self.get(graph, list(keys), **elsewhere), strict=True))
        return [Handle(kept, key) for key in keys]

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Translate connection loss into `ClusterError`."""
        client = self.client
        if client is None:
            yield
            return
        if client.status != "running":
            raise ClusterError(f"its client is {client.status}")
        from concurrent.futures import CancelledError

        from distributed.comm.core import CommClosedError
        from distributed.scheduler import KilledWorker

        try:
            yield
        except (KilledWorker, CancelledError, CommClosedError) as error:
            raise ClusterError(f"{type(error).__name__}: {error}") from error
        except Exception as error:
            if client.status != "running":
                raise ClusterError(f"its client is {client.status}") from error
            raise


def each_part(
    run: Callable[..., Any], handles: Sequence[Any], payload: Any, *others: Sequence[Any]
) -> tuple[dict[Any, Any], list[Any]]:
    """Return a graph with one task ``run(value, payload, *others)`` per part, and the keys of the tasks.

    The payload travels once, as one key of the graph; it is pickled, so that every worker gets its own arrays.
    """
    import cloudpickle

    token = uuid4().hex
    graph: dict[Any, Any] = {}
    for handle in handles:
        _merge(graph, handle)
    shared = f"rflaf-payload-{token}"
    graph[shared] = Given(cloudpickle.dumps(payload))
    keys = [(f"rflaf{run.__name__}-{token}", i) for i in range(len(handles))]
    for i, key in enumerate(keys):
        graph[key] = (run, _keys_of(handles[i]), shared, *(Given(other[i]) for other in others))
    return graph, keys


def _merge(graph: dict[Any, Any], handle: Any) -> None:
    """Add the graphs of handles to ``graph``; most handles share one."""
    if isinstance(handle, Handle) and next(iter(handle.graph), None) not in graph:
        graph.update(handle.graph)
    elif isinstance(handle, tuple):
        for part in handle:
            _merge(graph, part)


def _keys_of(handle: Any) -> Any:
    """Return the keys of a handle or of nested handles; other values are passed as they are."""
    if isinstance(handle, Handle):
        return handle.keys
    parts = [_keys_of(part) for part in handle] if isinstance(handle, tuple) else []
    return Given(handle) if all(isinstance(part, Given) for part in parts) else parts


@dataclass(frozen=True)
class Given:
    """A value that the graph must not interpret as keys."""

    value: Any


def plain(value: Any) -> Any:
    """Return a value without the wrapping of `Given`."""
    if isinstance(value, Given):
        return value.value
    return [plain(part) for part in value] if isinstance(value, list) else value


def load_payload(payload: Given) -> Any:
    """Unpickle what all tasks of a graph share."""
    import cloudpickle

    return cloudpickle.loads(payload.value)


def fetch(cluster: Cluster, handle: Handle) -> Any:
    """Return the value of a handle, in this process."""
    graph, keys = each_part(_itself_of, [handle], None)
    return plain(cluster.compute(graph, keys)[0])


def _itself_of(value: Any, payload: Given) -> Any:
    return value


def locate(sizes: Sequence[int], index: int) -> tuple[int, int]:
    """Return the number of the part that holds an item, and the item's place in it."""
    if not 0 <= index < sum(sizes):
        raise IndexError(index)
    starts = [0, *accumulate(sizes)]
    part = bisect_right(starts, index) - 1
    return part, index - starts[part]


def require_dask() -> Any:
    """Import ``dask``, or raise an error that names the extra to install."""
    try:
        import dask
        import dask.threaded
    except ImportError:
        raise MissingExtraError("Dask collections", "dask", "dask") from None
    return dask
