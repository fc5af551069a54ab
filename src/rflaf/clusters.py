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

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from .blocks import MOST_ROWS, ArraySource, Block, Parts, Scratch, array_source, parts_of
from .errors import ClusterError, InvalidParameterError, MissingExtraError
from .executors import Item, Items, SingleThreadedBLAS, ThreadExecutor, Total
from .losses import Loss

Array = NDArray[Any]
_FAN_IN = 4  # sums that are added at a time


def is_collection(X: Any) -> bool:
    """Whether ``X`` is a Dask array, frame or series. Dask is not imported to find out."""
    dask = sys.modules.get("dask")
    return dask is not None and bool(dask.is_dask_collection(X)) and hasattr(X, "to_delayed")


# Where sums are made


@dataclass(frozen=True)
class Cluster:
    """The scheduler that is active when a fit begins: a client of a cluster, threads, processes, or none."""

    get: Any

    @classmethod
    def current(cls) -> Cluster:
        return cls(_dask().base.get_scheduler())

    @property
    def client(self) -> Any:
        """The client of a distributed scheduler, else None."""
        owner = getattr(self.get, "__self__", None)
        return owner if hasattr(owner, "persist") else None

    def compute(self, tasks: Sequence[Any]) -> list[Any]:
        """The results of delayed tasks, in order."""
        with self._watched():
            return list(_dask().compute(*tasks, scheduler=self.get))

    def persist(self, tasks: Sequence[Any]) -> list[Any]:
        """The tasks with their results kept where they were made."""
        with self._watched():
            return list(_dask().persist(*tasks, scheduler=self.get))

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """A cluster that is lost is told as such."""
        client = self.client
        if client is None:
            yield
            return
        if client.status != "running":
            raise ClusterError(f"the client of the cluster is {client.status}")
        from concurrent.futures import CancelledError

        from distributed.scheduler import KilledWorker

        try:
            yield
        except (KilledWorker, CancelledError, TimeoutError, OSError) as error:
            raise ClusterError(f"{type(error).__name__}: {error}") from error
        except Exception as error:
            if client.status != "running":
                raise ClusterError(f"the client of the cluster is {client.status}") from error
            raise


class DaskExecutor:
    """Sums over items where they live; those at hand are summed by threads of this process."""

    def __init__(self, cluster: Cluster, n_workers: int = 1) -> None:
        self.cluster = cluster
        self._here = ThreadExecutor(n_workers)

    def __enter__(self) -> Self:
        self._here.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._here.__exit__(kind, error, trace)

    def reduce(self, items: Items[Item], map_item: Callable[[Item, Scratch], Total]) -> Total:
        """``sum_i map_item(items[i], scratch)``, part by part; the parts are added in a fixed tree."""
        parts = parts_of(items)
        if parts is None:
            return self._here.reduce(items, map_item)
        total: Total = self.cluster.compute([_tree(_each_part(_sum_part, parts, map_item))])[0]
        return total

    def map(self, items: Items[Item], map_item: Callable[[Item], Any]) -> Any:
        """``[map_item(item) for item in items]``; of items that live elsewhere the results stay there."""
        parts = parts_of(items)
        if parts is None:
            return self._here.map(items, map_item)
        return KeptItems(self.cluster, self.cluster.persist(_each_part(_map_part, parts, map_item)), parts.sizes)


@dataclass(frozen=True)
class KeptItems:
    """Items that were computed on a cluster and stay there. One part at a time is fetched to look at them."""

    cluster: Cluster
    handles: Sequence[Any]
    sizes: Sequence[int]
    _fetched: dict[int, Any] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return sum(self.sizes)

    def __getitem__(self, index: int) -> Any:
        part, within = _locate(self.sizes, index)
        if part not in self._fetched:
            self._fetched.clear()
            self._fetched[part] = self.cluster.compute([self.handles[part]])[0]
        return self._fetched[part][within]

    @property
    def parts(self) -> Parts:
        return Parts(self.handles, self.sizes, _as_it_is)


def _each_part(run: Callable[..., Any], parts: Parts, map_item: Callable[..., Any]) -> list[Any]:
    """A task a part. What all need travels once, as one key of the graph, which survives a worker that dies."""
    shared = _shared((parts.open, map_item))
    delayed = _dask().delayed(run)
    return [delayed(handle, shared) for handle in parts.handles]


def _shared(payload: Any) -> Any:
    """Any functions and arrays as one node of a graph; pickled here, so that workers get arrays of their own."""
    import cloudpickle

    return _dask().delayed(_Pickled(cloudpickle.dumps(payload)), traverse=False)


@dataclass(frozen=True)
class _Pickled:
    data: bytes

    def load(self) -> Any:
        import cloudpickle

        return cloudpickle.loads(self.data)


def _sum_part(value: Any, shared: _Pickled) -> Any:
    open_part, map_item = shared.load()
    with SingleThreadedBLAS():
        items, scratch = open_part(value), Scratch()
        total = map_item(items[0], scratch)
        for i in range(1, len(items)):
            total += map_item(items[i], scratch)
    return total


def _map_part(value: Any, shared: _Pickled) -> list[Any]:
    open_part, map_item = shared.load()
    with SingleThreadedBLAS():
        items = open_part(value)
        return [map_item(items[i]) for i in range(len(items))]


def _tree(sums: list[Any]) -> Any:
    """One task that adds all, a few neighbours at a time."""
    add = _dask().delayed(_add)
    while len(sums) > 1:
        sums = [add(sums[i : i + _FAN_IN]) for i in range(0, len(sums), _FAN_IN)]
    return sums[0]


def _add(sums: list[Any]) -> Any:
    total = copy.deepcopy(sums[0])  # what a task was given may be asked for again
    for other in sums[1:]:
        total += other
    return total


def _as_it_is(value: Any) -> Any:
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

    ``handles`` are delayed (X, y, weight), ``rows`` the number of rows of each, and ``open`` makes an `ArraySource` of
    one.
    """

    cluster: Cluster
    handles: Sequence[Any]
    rows: Sequence[int]
    n_features: int
    n_outputs: int
    dtype: np.dtype[Any]
    open: Callable[[Any], ArraySource]
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
            value = self.cluster.compute([_dask().delayed(_as_it_is)(self.handles[part])])[0]
            self._fetched[part] = self.open(value)
        return self._fetched[part].with_rows(self.block_rows)[within]

    @property
    def parts(self) -> Parts:
        block_rows = self.block_rows
        return Parts(self.handles, self._sizes, self.open).then(lambda source: source.with_rows(block_rows))

    def with_rows(self, block_rows: int) -> DaskSource:
        return replace(self, block_rows=block_rows)

    def sample(self, n_rows: int, rng: np.random.Generator) -> ArraySource:
        """The rows that the same generator draws from an array; no others travel."""
        everyone = n_rows >= self.n_samples
        drawn = np.arange(self.n_samples) if everyone else np.sort(rng.choice(self.n_samples, n_rows, replace=False))
        ends = np.cumsum(self.rows)
        first = np.searchsorted(drawn, ends - self.rows)
        last = np.searchsorted(drawn, ends)
        shared, take = _shared(self.open), _dask().delayed(_take)
        tasks = [
            take(handle, shared, drawn[i:j] - (end - n))
            for handle, n, end, i, j in zip(self.handles, self.rows, ends, first, last, strict=True)
            if i < j
        ]
        blocks = self.cluster.compute(tasks)
        X = sp.vstack([b.X for b in blocks], "csr") if sp.issparse(blocks[0].X) else np.vstack([b.X for b in blocks])
        weights = [b.weight for b in blocks if b.weight is not None]
        y = np.concatenate([b.y for b in blocks])
        return ArraySource(X, y, np.concatenate(weights) if weights else None, self.block_rows)


def _take(value: Any, shared: _Pickled, rows: Array) -> Block:
    source = shared.load()(value)
    return Block(source.X[rows], source.y[rows], None if source.weight is None else source.weight[rows])


def executor_for(source: Any, n_workers: int) -> ThreadExecutor | DaskExecutor:
    """Who sums over the rows of a source: the cluster they live on, or threads of this process."""
    if isinstance(source, DaskSource):
        return DaskExecutor(source.cluster, n_workers)
    return executor_for(source.source, n_workers) if hasattr(source, "source") else ThreadExecutor(n_workers)


# What users pass


@dataclass(frozen=True)
class Collection:
    """X, y and weights as Dask collections, partition beside partition, not yet looked at.

    ``meta`` is an empty table with the columns of X.
    """

    cluster: Cluster
    handles: Sequence[Any]
    meta: Any
    dtype: np.dtype[Any]
    single_output: bool

    def numbers(self, loss: Loss) -> DaskSource:
        """The rows with numeric targets that the loss takes, every value a finite number."""
        seen = self._look(_Look(self.dtype, list(_names(self.meta)), loss))
        largest = np.max([one.largest for one in seen if one.n_rows], axis=0)
        if not largest.all():
            loss.check(largest[None])
        return self._source(seen, largest.size, _Numbers(self.dtype))

    def labels(self) -> tuple[DaskSource, Array, Array]:
        """The rows with labels for targets, all labels in order, and the sum of the weights of each."""
        seen = self._look(_Look(self.dtype, list(_names(self.meta)), None))
        classes = np.unique(np.concatenate([one.classes for one in seen if one.n_rows]))
        weights = np.zeros(classes.size)
        for one in seen:
            weights[np.searchsorted(classes, one.classes)] += one.weights
        return self._source(seen, 1, _Labels(self.dtype)), classes, weights

    def _look(self, look: _Look) -> list[_Seen]:
        """One pass over all rows, before any work: whatever is wrong is told with its partition."""
        shared, at = _shared(look), _dask().delayed(_look_at)
        seen = self.cluster.compute([at(handle, shared, number) for number, handle in enumerate(self.handles)])
        n_rows = sum(one.n_rows for one in seen)
        if n_rows < 2:
            raise InvalidParameterError("there must be at least 2 rows", n_rows, "Check that no filter drops them all.")
        if not any(one.weighty for one in seen):
            raise InvalidParameterError(
                "sample_weight must have a positive entry", "zeros only", "Drop sample_weight to weigh all rows alike."
            )
        return seen

    def _source(self, seen: list[_Seen], n_outputs: int, open_part: Callable[[Any], ArraySource]) -> DaskSource:
        full = [i for i, one in enumerate(seen) if one.n_rows]
        handles, rows = [self.handles[i] for i in full], [seen[i].n_rows for i in full]
        return DaskSource(self.cluster, handles, rows, len(_names(self.meta)), n_outputs, self.dtype, open_part)


def collect(X: Any, y: Any, sample_weight: Any = None) -> Collection:
    """X, y and weights side by side; refused where their partitions cannot be matched."""
    X = _whole_rows(X, "X")
    meta = _meta_of(X)
    columns = [_partitions(X)]
    for name, other in (("y", y), ("sample_weight", sample_weight)):
        if name == "y" or other is not None:
            columns.append(_partitions(_beside(X, other, name)))
    if sample_weight is None:
        columns.append([None] * len(columns[0]))
    return Collection(Cluster.current(), list(zip(*columns, strict=True)), meta, _dtype_of(meta), y.ndim == 1)


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
    delayed = collection.to_delayed()
    return list(delayed.ravel()) if hasattr(delayed, "ravel") else list(delayed)


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
class _Numbers:
    """Opens a partition of numeric targets."""

    dtype: np.dtype[Any]

    def __call__(self, value: Any) -> ArraySource:
        X, y, weight = value
        return array_source(
            _array(X, self.dtype), _array(y, np.float64), None if weight is None else np.asarray(weight)
        )


@dataclass(frozen=True)
class _Labels:
    """Opens a partition of labels: targets (n_rows, 1) of any kind."""

    dtype: np.dtype[Any]

    def __call__(self, value: Any) -> ArraySource:
        X, y, weight = value
        X = _array(X, self.dtype)
        w = None if weight is None else np.asarray(weight, self.dtype)
        return ArraySource(sp.csr_array(X) if sp.issparse(X) else X, np.asarray(y).reshape(-1, 1), w)


@dataclass(frozen=True)
class _Seen:
    """What a partition holds: rows, largest targets, labels with the sums of their weights, and any weight at all."""

    n_rows: int
    largest: Array
    classes: Array
    weights: Array
    weighty: bool


@dataclass(frozen=True)
class _Look:
    """What to look for: numbers that a loss takes, or labels where there is none."""

    dtype: np.dtype[Any]
    names: list[Any]
    loss: Loss | None

    def at(self, value: Any, number: int) -> _Seen:
        X, y, weight = value
        lengths = {"X": len(X) if hasattr(X, "columns") else X.shape[0], "y": len(y)}
        lengths |= {} if weight is None else {"sample_weight": len(weight)}
        where = f"partition {number}"
        if len(set(lengths.values())) > 1:
            raise InvalidParameterError(
                f"X, y and sample_weight must have the same number of rows in every partition: {where}",
                lengths,
                "Make them from one collection, or rechunk them alike.",
            )
        n_rows = lengths["X"]
        if n_rows == 0:
            return _Seen(0, np.empty(0), np.empty(0, np.asarray(y).dtype), np.empty(0), False)
        rows = _array(X, self.dtype)
        _refuse_infinite(rows.data if sp.issparse(rows) else rows, where, [] if sp.issparse(rows) else self.names)
        w = np.ones(n_rows) if weight is None else np.asarray(weight, np.float64)
        if not (np.isfinite(w).all() and (w >= 0).all()):
            raise InvalidParameterError(
                f"sample_weight must be finite numbers, at least zero: {where}",
                float(w[~(w >= 0) | np.isinf(w)][0]),
                "Use zero for rows to leave out.",
            )
        if self.loss is not None:
            targets = _array(y, np.float64).reshape(n_rows, -1)
            _refuse_infinite(targets, where, ["y"] * targets.shape[1])
            self.loss.check_more(targets)
            return _Seen(n_rows, targets.max(axis=0), np.empty(0), np.empty(0), bool(w.any()))
        labels = np.asarray(y).reshape(n_rows, -1)
        if labels.shape[1] != 1:
            raise InvalidParameterError("y must have one label a row", labels.shape[1], "Pass a single column.")
        check_classification_targets(labels[:, 0])
        classes, at = np.unique(labels[:, 0], return_inverse=True)
        return _Seen(n_rows, np.empty(0), classes, np.bincount(at, w, classes.size), bool(w.any()))


def _look_at(value: Any, shared: _Pickled, number: int) -> _Seen:
    look: _Look = shared.load()
    return look.at(value, number)


def _refuse_infinite(rows: Array, where: str, names: Sequence[Any]) -> None:
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
        return _predict(lambda estimator, rows: method(estimator, rows, *args, **kwargs), self, X)

    return lazily


def _predict(call: Callable[[Any, Any], Any], estimator: Any, X: Any) -> Any:
    import dask.array

    da: Any = dask.array
    X = _whole_rows(X, "X")
    meta = _meta_of(X)
    dtype = _dtype_of(meta)
    pattern = call(estimator, _one_row(meta, dtype))  # also refuses columns that are not those of the fit
    answers = pattern if isinstance(pattern, tuple) else (pattern,)
    rows = _known_rows(X) or (np.nan,) * len(_partitions(X))
    shared, task = _shared((call, estimator, dtype, answers)), _dask().delayed(_predict_part, nout=len(answers))
    parts = [task(part, shared) for part in _partitions(X)]
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


def _predict_part(part: Any, shared: _Pickled) -> tuple[Any, ...]:
    call, estimator, dtype, patterns = shared.load()
    if len(part) == 0 if hasattr(part, "columns") else part.shape[0] == 0:
        return tuple(np.empty((0, *pattern.shape[1:]), pattern.dtype) for pattern in patterns)
    with SingleThreadedBLAS():
        answer = call(estimator, part if hasattr(part, "columns") else _array(part, dtype))
    return answer if isinstance(answer, tuple) else (answer,)


def _dask() -> Any:
    try:
        import dask
    except ImportError:
        raise MissingExtraError("Dask collections", "dask", "dask") from None
    return dask
