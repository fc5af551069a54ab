"""More than one machine: Dask arrays and frames as rows, a cluster as the place where sums are made.

Needs the extra ``dask``. A pass sends one function to every partition, where the data live; what comes back are sums,
added in a tree whose shape depends on the number of partitions and on nothing else: neither on which worker is done
first nor on one that died and had its part done again. So any scheduler, any number of workers and any partition of
the rows gives the same model to rounding. What is computed from few rows (bandwidth, activation, ridge) is computed
here, from the rows that the same generator draws from an array.

A partition is read again in every pass, unless the collection was persisted.
"""

from __future__ import annotations

import copy
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from itertools import accumulate
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets

from rflaf.errors import Array, ClusterError, InvalidParameterError, MissingExtraError

from .blocks import (
    MOST_ROWS,
    ArraySource,
    Block,
    BlockSource,
    Parts,
    Scratch,
    add_weights,
    array_source,
    drawn_rows,
    innermost,
    parts_of,
    stack,
    weigh_labels,
)
from .executors import Item, Items, SingleThreadedBLAS, State, ThreadExecutor, Total
from .progress import Begin, Quiet

_FAN_IN = 4  # sums that are added at a time


def is_collection(X: Any) -> bool:
    """Whether ``X`` is a Dask array, frame or series. Dask is not imported to find out."""
    dask, kind = sys.modules.get("dask"), type(X)
    return (
        dask is not None and bool(dask.is_dask_collection(X)) and hasattr(kind, "to_delayed") and hasattr(kind, "ndim")
    )


# Where sums are made


@dataclass(frozen=True)
class Handle:
    """What a cluster finds a value by: a graph, and keys of it, in lists where they belong together."""

    graph: dict[Any, Any] = field(repr=False)
    keys: Any


@dataclass(frozen=True)
class Cluster:
    """The scheduler that is active when a fit begins: a client of a cluster, threads, processes, or none."""

    get: Any

    @classmethod
    def current(cls) -> Cluster:
        dask = _dask()
        return cls(dask.base.get_scheduler() or dask.threaded.get)

    @property
    def client(self) -> Any:
        """The client of a distributed scheduler, else None."""
        owner = getattr(self.get, "__self__", None)
        return owner if hasattr(owner, "persist") else None

    def compute(self, graph: dict[Any, Any], keys: Sequence[Any]) -> list[Any]:
        """The values of some keys of a graph, in order."""
        with self._watched():
            return list(self.get(graph, list(keys)))

    def persist(self, graph: dict[Any, Any], keys: Sequence[Any]) -> list[Handle]:
        """The same values kept where they were made."""
        with self._watched():
            elsewhere = {} if self.client is None else {"sync": False}
            kept = dict(zip(keys, self.get(graph, list(keys), **elsewhere), strict=True))
        return [Handle(kept, key) for key in keys]

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """A cluster that is lost is told as such."""
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


class DaskExecutor:
    """Sums over items where they live; those at hand are summed by threads of this process."""

    def __init__(self, cluster: Cluster, here: ThreadExecutor) -> None:
        self.cluster = cluster
        self._here = here

    @property
    def n_workers(self) -> int:
        """Threads of this process."""
        return self._here.n_workers

    def limited(self, n_workers: int) -> DaskExecutor:
        """The same with at most so many threads here."""
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
        """``sum_i map_item(items[i], scratch)``, part by part; the parts are added in a fixed tree."""
        parts = parts_of(items)
        if parts is None:
            return self._here.reduce(items, map_item, label)
        graph, keys = _each_part(_sum_part, parts.handles, (parts.open, map_item))
        total: Total = self.cluster.compute(graph, [_add_all(graph, keys)])[0]
        return total

    def side_by_side(self, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        return self._here.side_by_side(tasks)

    def fold(self, n_steps: int, state: State, advance: Callable[[State, int], State], label: str = "") -> State:
        """Steps that follow one another, here."""
        return self._here.fold(n_steps, state, advance, label)

    def map(self, items: Items[Item], map_item: Callable[[Item], Any], label: str = "") -> Any:
        """``[map_item(item) for item in items]``; of items that live elsewhere the results stay there."""
        parts = parts_of(items)
        if parts is None:
            return self._here.map(items, map_item, label)
        graph, keys = _each_part(_map_part, parts.handles, (parts.open, map_item))
        return KeptItems(self.cluster, self.cluster.persist(graph, keys), parts.sizes)


@dataclass(frozen=True)
class KeptItems:
    """Items that were computed on a cluster and stay there. One part at a time is fetched to look at them."""

    cluster: Cluster
    handles: Sequence[Handle]
    sizes: Sequence[int]
    _fetched: dict[int, Any] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return sum(self.sizes)

    def __getitem__(self, index: int) -> Any:
        part, within = _locate(self.sizes, index)
        if part not in self._fetched:
            self._fetched.clear()
            self._fetched[part] = _fetch(self.cluster, self.handles[part])
        return self._fetched[part][within]

    @property
    def parts(self) -> Parts:
        return Parts(self.handles, self.sizes, _itself)


def _each_part(
    run: Callable[..., Any], handles: Sequence[Any], payload: Any, *others: Sequence[Any]
) -> tuple[dict[Any, Any], list[Any]]:
    """A graph with a task ``run(value, payload, *others)`` a part, and the keys of the tasks.

    What all need travels once, as one key of the graph, which survives a worker that dies. It is pickled here, so that
    workers get arrays of their own.
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
    """Take the graphs of handles in; most share one."""
    if isinstance(handle, Handle) and next(iter(handle.graph), None) not in graph:
        graph.update(handle.graph)
    elif isinstance(handle, tuple):
        for part in handle:
            _merge(graph, part)


def _keys_of(handle: Any) -> Any:
    """Of a handle, of several together, or a value that needs none."""
    if isinstance(handle, Handle):
        return handle.keys
    if _holds_handle(handle):
        return [_keys_of(part) for part in handle]
    return Given(handle)


def _holds_handle(handle: Any) -> bool:
    parts = handle if isinstance(handle, tuple) else ()
    return any(isinstance(part, Handle) or _holds_handle(part) for part in parts)


@dataclass(frozen=True)
class Given:
    """A value that a graph takes as it is."""

    value: Any


def _plain(value: Any) -> Any:
    if isinstance(value, Given):
        return value.value
    return [_plain(part) for part in value] if isinstance(value, list) else value


def _load(payload: Given) -> Any:
    import cloudpickle

    return cloudpickle.loads(payload.value)


def _fetch(cluster: Cluster, handle: Handle) -> Any:
    graph, keys = _each_part(_itself_of, [handle], None)
    return _plain(cluster.compute(graph, keys)[0])


def _itself_of(value: Any, payload: Given) -> Any:
    return value


def _sum_part(value: Any, payload: Given) -> Any:
    open_part, map_item = _load(payload)
    with SingleThreadedBLAS():
        items, scratch = open_part(_plain(value)), Scratch()
        total = map_item(items[0], scratch)
        for i in range(1, len(items)):
            total += map_item(items[i], scratch)
    return total


def _map_part(value: Any, payload: Given) -> Given:
    open_part, map_item = _load(payload)
    with SingleThreadedBLAS():
        items = open_part(_plain(value))
        return Given([map_item(items[i]) for i in range(len(items))])


def _add_all(graph: dict[Any, Any], keys: list[Any]) -> Any:
    """The key of the sum of all, a few neighbours added at a time."""
    name, level = keys[0][0] + "-add", 0
    while len(keys) > 1:
        groups = [keys[i : i + _FAN_IN] for i in range(0, len(keys), _FAN_IN)]
        keys = [(name, level, i) for i in range(len(groups))]
        graph.update({key: (_add, group) for key, group in zip(keys, groups, strict=True)})
        level += 1
    return keys[0]


def _add(sums: list[Any]) -> Any:
    total = copy.deepcopy(sums[0])  # what a task was given may be asked for again
    for other in sums[1:]:
        total += other
    return total


def _itself(value: Any) -> Any:
    return value


def _locate(sizes: Sequence[int], index: int) -> tuple[int, int]:
    """The part an item is in, and its place there."""
    if not 0 <= index < sum(sizes):
        raise IndexError(index)
    starts = [0, *accumulate(sizes)]
    part = bisect_right(starts, index) - 1
    return part, index - starts[part]


# Rows


@dataclass(frozen=True)
class DaskSource:
    """Rows that live on a cluster: partitions, each cut into blocks where it is.

    ``handles`` stand for [X, y, weight], ``rows`` are the numbers of rows of each, and ``open`` makes an `ArraySource`
    of one. Rows that are drawn are shown by ``begin``.
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
        """A block, here: its partition is fetched, and kept until another one is asked for."""
        part, within = _locate(self._sizes, index)
        if part not in self._fetched:
            self._fetched.clear()
            self._fetched[part] = self.open(_fetch(self.cluster, self.handles[part]))
        return replace(self._fetched[part], block_rows=self.block_rows, first=self._firsts[part])[within]

    @property
    def _firsts(self) -> list[int]:
        """The number of the first row of every partition."""
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
        """The rows that the same generator draws from an array; no others travel."""
        drawn = drawn_rows(self.n_samples, n_rows, rng)
        ends = np.cumsum(self.rows)
        first = np.searchsorted(drawn, ends - self.rows)
        last = np.searchsorted(drawn, ends)
        some = [part for part in range(len(self.rows)) if first[part] < last[part]]
        within = [drawn[first[part] : last[part]] - (ends[part] - self.rows[part]) for part in some]
        graph, keys = _each_part(_take_rows, [self.handles[part] for part in some], self.open, within)
        with self.begin("draw rows", drawn.size, drawn.size) as display:
            blocks = self.cluster.compute(graph, keys)
            display.advance(drawn.size)
        rows = stack(blocks)
        return ArraySource(rows.X, rows.y, rows.weight, self.block_rows)


def _take_rows(value: Any, payload: Given, rows: Given) -> Block:
    source, at = _load(payload)(_plain(value)), rows.value
    return Block(source.X[at], source.y[at], None if source.weight is None else source.weight[at])


def executor_for(source: BlockSource, n_workers: int) -> ThreadExecutor | DaskExecutor:
    """Who sums over the rows of a source: the cluster they live on, or threads of this process.

    Row groups of Parquet files are read by the workers of a cluster where a client of one is there.
    """
    source = innermost(source)
    if isinstance(source, DaskSource):
        return DaskExecutor(source.cluster, ThreadExecutor(n_workers))
    if parts_of(source) is not None and "distributed" in sys.modules:
        cluster = Cluster.current()
        if cluster.client is not None:
            return DaskExecutor(cluster, ThreadExecutor(n_workers))
    return ThreadExecutor(n_workers)


# What users pass


@dataclass(frozen=True)
class OpenCollection:
    """Rows that live on a cluster, looked at once and found fine.

    ``label_weights`` is the weight of every label, ``target_range`` the lowest and highest targets (2, n_outputs).
    """

    source: DaskSource
    single_output: bool
    feature_names: Sequence[str] | None
    label_weights: dict[Any, float]
    target_range: Array
    encoding: None = None

    def close(self) -> None:
        """Nothing is held open."""


def open_collection(
    X: Any, y: Any, sample_weight: Any = None, labels: bool = False, begin: Begin = Quiet
) -> OpenCollection:
    """Dask collections with numeric targets, or with labels, ready to be summed.

    One pass looks at every row before any work: whatever is wrong is told with its partition. Passes that are not sums
    are shown by ``begin``.
    """
    cluster, X = Cluster.current(), _whole_rows(X, "X")
    meta = _meta_of(X)
    dtype, names = _dtype_of(meta), _names(meta)
    handles = _side_by_side(X, y, sample_weight)
    look = _Look(dtype, list(names), labels)
    with begin("look at every value", len(handles), None) as display:
        seen: list[_Seen] = cluster.compute(*_each_part(_look_at, handles, look, range(len(handles))))
        display.advance(len(handles))
    full = [i for i, one in enumerate(seen) if one.n_rows]
    if not full:
        raise InvalidParameterError("there must be at least 2 rows", 0, "Check that no filter drops them all.")
    if not any(one.weighty for one in seen):
        raise InvalidParameterError(
            "sample_weight must have a positive entry", "zeros only", "Drop sample_weight to weigh all rows alike."
        )
    label_weights: dict[Any, float] = {}
    for one in seen:
        add_weights(label_weights, one.label_weights)
    source = DaskSource(
        cluster,
        [handles[i] for i in full],
        [seen[i].n_rows for i in full],
        len(names),
        seen[full[0]].n_outputs,
        dtype,
        _Opened(dtype, labels),
        begin,
    )
    named = list(names) if all(isinstance(name, str) for name in names) else None
    low, high = (np.array([seen[i].target_range[edge] for i in full]) for edge in (0, 1))
    return OpenCollection(source, y.ndim == 1, named, label_weights, np.array([low.min(axis=0), high.max(axis=0)]))


def _side_by_side(X: Any, y: Any, sample_weight: Any) -> list[Handle]:
    """[X, y, weight] of every partition; refused where partitions cannot be matched."""
    columns = [_partitions(X), _partitions(_beside(X, y, "y"))]
    if sample_weight is not None:
        columns.append(_partitions(_beside(X, sample_weight, "sample_weight")))
    graph: dict[Any, Any] = {}
    for parts in columns:
        for part in parts:
            if part.key not in graph:
                graph.update(part.__dask_graph__())
    weightless = [None] * (3 - len(columns))
    return [Handle(graph, [*(part.key for part in parts), *weightless]) for parts in zip(*columns, strict=True)]


def _beside(X: Any, other: Any, name: str) -> Any:
    """A collection with as many rows in every partition as X, as far as can be known."""
    if not is_collection(other):
        raise InvalidParameterError(
            f"{name} must be a Dask collection where X is one",
            type(other).__name__,
            "Use dask.array.from_array with the chunks of X.",
        )
    other = _whole_rows(other, name)
    if name == "sample_weight" and other.ndim != 1:
        raise InvalidParameterError("sample_weight must have one dimension", other.ndim, "Pass one weight a row.")
    of_X, of_other = _known_rows(X), _known_rows(other)
    if of_X is not None and of_other is not None:
        if sum(of_X) != sum(of_other):
            raise InvalidParameterError(
                f"X and {name} must have the same number of rows",
                [sum(of_X), sum(of_other)],
                "Check how they were made.",
            )
        return other.rechunk({0: of_X})
    if len(_partitions(other)) != len(_partitions(X)):
        raise InvalidParameterError(
            f"X and {name} must have the same number of partitions where their lengths are not known",
            [len(_partitions(X)), len(_partitions(other))],
            "Make both from one collection, or compute_chunk_sizes first.",
        )
    return other


def _whole_rows(collection: Any, name: str) -> Any:
    """An array with one chunk of columns; frames as they are."""
    if not hasattr(collection, "chunks"):
        return collection
    if collection.ndim not in (1, 2):
        raise InvalidParameterError(f"{name} must have one or two dimensions", collection.ndim, "Reshape it.")
    return collection.rechunk({1: -1}) if collection.ndim == 2 else collection


def _known_rows(collection: Any) -> tuple[int, ...] | None:
    """Rows of every chunk of an array, where they are known; of a frame they are not."""
    rows: Any = getattr(collection, "chunks", ((np.nan,),))[0]
    return None if np.isnan(rows).any() else rows


def _partitions(collection: Any) -> list[Any]:
    """The partitions, delayed. Optimised, an array that was persisted would forget what it is made of."""
    if hasattr(collection, "chunks"):
        return list(collection.to_delayed(optimize_graph=False).ravel())
    return list(collection.to_delayed())


def _meta_of(X: Any) -> Any:
    """An empty table with the columns of X."""
    if X.ndim != 2:
        raise InvalidParameterError("X must have two dimensions", X.ndim, "Use X.reshape(-1, 1) for a single column.")
    return np.empty((0, X.shape[1]), X.dtype) if hasattr(X, "chunks") else X._meta


def _names(meta: Any) -> Sequence[Any]:
    """Names of the columns, or their numbers."""
    return list(meta.columns) if hasattr(meta, "columns") else range(meta.shape[1])


def _dtype_of(meta: Any) -> np.dtype[Any]:
    """The precision of a fit: single where all columns are, else double."""
    dtypes = list(meta.dtypes) if hasattr(meta, "columns") else [meta.dtype]
    wrong = [name for name, dtype in zip(_names(meta), dtypes, strict=False) if dtype.kind not in "biuf"]
    if wrong:
        raise InvalidParameterError("every column of X must be numeric", wrong, "Encode or drop those columns.")
    return np.dtype(np.float32 if all(dtype == np.float32 for dtype in dtypes) else np.float64)


def _array(part: Any, dtype: Any) -> Any:
    """A partition as an array; what a frame has for missing is not a number."""
    if sp.issparse(part):
        return part.astype(dtype)
    if hasattr(part, "to_numpy"):
        return part.to_numpy(dtype=dtype, na_value=np.nan)
    return np.asarray(part, dtype)


@dataclass(frozen=True)
class _Opened:
    """What makes blocks of a partition: targets are numbers, or labels of any kind in one column."""

    dtype: np.dtype[Any]
    labels: bool

    def __call__(self, value: Any) -> ArraySource:
        X, y, weight = value
        rows = array_source(_array(X, self.dtype), np.zeros((_length(X), 1)), weight)
        if self.labels:
            return replace(rows, y=np.asarray(y).reshape(-1, 1))
        return replace(rows, y=_array(y, np.float64).reshape(rows.n_samples, -1))


@dataclass(frozen=True)
class _Seen:
    """What a partition holds: rows, columns of targets, whether any row weighs something, and its labels or targets."""

    n_rows: int
    n_outputs: int = 0
    weighty: bool = False
    label_weights: dict[Any, float] = field(default_factory=dict)
    target_range: Array = field(default_factory=lambda: np.empty((2, 0)))


@dataclass(frozen=True)
class _Look:
    """What to look at a partition for."""

    dtype: np.dtype[Any]
    names: list[Any]
    labels: bool

    def at(self, value: Any, where: str) -> _Seen:
        X, y, weight = value
        lengths = {"X": _length(X), "y": _length(y)} | ({} if weight is None else {"sample_weight": _length(weight)})
        if len(set(lengths.values())) > 1:
            raise InvalidParameterError(
                f"X, y and sample_weight must have the same number of rows in every partition: {where}",
                lengths,
                "Make them from one collection, or rechunk them alike.",
            )
        n_rows = lengths["X"]
        if n_rows == 0:
            return _Seen(0)
        rows = _array(X, self.dtype)
        _refuse_infinite(rows.data if sp.issparse(rows) else rows, where, None if sp.issparse(rows) else self.names)
        w = np.ones(n_rows) if weight is None else np.asarray(weight, np.float64)
        fine = np.isfinite(w) & (w >= 0)
        if not fine.all():
            raise InvalidParameterError(
                f"sample_weight must be finite numbers, at least zero: {where}",
                float(w[~fine][0]),
                "Use zero for rows to leave out.",
            )
        if self.labels:
            return _Seen(n_rows, 1, bool(w.any()), weigh_labels(_checked_labels(y, n_rows, where), w))
        targets = _array(y, np.float64).reshape(n_rows, -1)
        _refuse_infinite(targets, where, ["y"] * targets.shape[1])
        target_range = np.array([targets.min(axis=0), targets.max(axis=0)])
        return _Seen(n_rows, targets.shape[1], bool(w.any()), target_range=target_range)


def _checked_labels(y: Any, n_rows: int, where: str) -> Array:
    """The labels of a partition, one a row."""
    labels: Array = np.asarray(y).reshape(n_rows, -1)
    if labels.shape[1] != 1:
        raise InvalidParameterError("y must have one label a row", labels.shape[1], "Pass a single column.")
    missing = np.array([label is None or label != label for label in labels[:, 0].tolist()])
    if missing.any():
        raise InvalidParameterError(f"labels must not be missing: {where}", int(missing.sum()), "Drop those rows.")
    check_classification_targets(labels[:, 0])
    return labels[:, 0]


def _length(part: Any) -> int:
    return int(part.shape[0])


def _look_at(value: Any, payload: Given, number: Given) -> _Seen:
    look: _Look = _load(payload)
    return look.at(_plain(value), f"partition {number.value}")


def _refuse_infinite(rows: Array, where: str, names: Sequence[Any] | None) -> None:
    if np.isfinite(rows.sum()):
        return
    bad = ~np.isfinite(rows)
    if bad.any():
        column = f", column {names[int(np.argmax(bad.any(axis=0)))]!r}" if names else ""
        raise InvalidParameterError(
            f"every value must be a finite number: {where}{column}", float(rows[bad][0]), "Drop or repair those rows."
        )


# What users ask for


def by_partition(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of rows X that is lazy where X is a Dask collection: it answers with Dask arrays, cut as X is."""

    @wraps(method)
    def lazily(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_collection(X):
            return method(self, X, *args, **kwargs)
        if kwargs.get("out") is not None:
            raise InvalidParameterError(
                "out must be None for Dask collections, whose answers are lazy",
                type(kwargs["out"]).__name__,
                "Write them with dask.array.store.",
            )
        return _predict(lambda estimator, rows: method(estimator, rows, *args, **kwargs), self, X)

    return lazily


def _predict(call: Callable[[Any, Any], Any], estimator: Any, X: Any) -> Any:
    import cloudpickle
    import dask.array

    da: Any = dask.array
    X = _whole_rows(X, "X")
    meta = _meta_of(X)
    dtype = _dtype_of(meta)
    pattern = call(estimator, _one_row(meta, dtype))  # also refuses columns that are not those of the fit
    answers = pattern if isinstance(pattern, tuple) else (pattern,)
    rows = _known_rows(X) or (np.nan,) * len(_partitions(X))
    delayed = _dask().delayed
    payload = delayed(Given(cloudpickle.dumps((call, estimator, dtype, answers))), traverse=False)
    parts = [delayed(_predict_part, nout=len(answers))(part, payload) for part in _partitions(X)]
    lazy = tuple(
        da.concatenate(
            [
                da.from_delayed(part[i], (n_rows, *answer.shape[1:]), meta=answer[:0])
                for part, n_rows in zip(parts, rows, strict=True)
            ],
            allow_unknown_chunksizes=True,
        )
        for i, answer in enumerate(answers)
    )
    return lazy if isinstance(pattern, tuple) else lazy[0]


def _one_row(meta: Any, dtype: np.dtype[Any]) -> Any:
    """A row of zeros with the columns of X."""
    zeros = np.zeros((1, len(_names(meta))), dtype)
    return type(meta)(zeros, columns=meta.columns) if hasattr(meta, "columns") else zeros


def _predict_part(part: Any, payload: Given) -> tuple[Any, ...]:
    call, estimator, dtype, patterns = _load(payload)
    if _length(part) == 0:
        return tuple(np.empty((0, *pattern.shape[1:]), pattern.dtype) for pattern in patterns)
    with SingleThreadedBLAS():
        answer = call(estimator, part if hasattr(part, "columns") else _array(part, dtype))
    return answer if isinstance(answer, tuple) else (answer,)


def _dask() -> Any:
    try:
        import dask
        import dask.threaded
    except ImportError:
        raise MissingExtraError("Dask collections", "dask", "dask") from None
    return dask
