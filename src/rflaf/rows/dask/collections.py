"""Dask arrays and frames as users pass them: matched, checked in one pass and opened; and lazy predictions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets

from rflaf.errors import Array, InvalidParameterError
from rflaf.rows.blocks import ArraySource, array_source
from rflaf.rows.executors import SingleThreadedBLAS
from rflaf.rows.opened import OpenRows, TargetScan
from rflaf.rows.progress import Begin, Quiet

from .executor import DaskSource
from .graph import Cluster, Given, Handle, each_part, load_payload, plain, require_dask


def is_collection(X: Any) -> bool:
    """Return whether ``X`` is a Dask array, frame or series, without importing Dask."""
    dask, kind = sys.modules.get("dask"), type(X)
    known = dask is not None and bool(dask.is_dask_collection(X))
    return known and hasattr(kind, "to_delayed") and hasattr(kind, "ndim")


def open_collection(X: Any, y: Any, sample_weight: Any = None, labels: bool = False, begin: Begin = Quiet) -> OpenRows:
    """Open Dask collections with numeric targets or labels; one pass checks every row, errors name the partition."""
    cluster, X = Cluster.current(), whole_rows(X, "X")
    meta = meta_of(X)
    dtype, names = dtype_of(meta), names_of(meta)
    handles = _side_by_side(X, y, sample_weight)
    look = dtype, list(names), labels
    with begin("look at every value", len(handles), None) as display:
        seen: list[_Seen] = cluster.compute(*each_part(_look_at, handles, look, range(len(handles))))
        display.advance(len(handles))
    full = [i for i, one in enumerate(seen) if one.n_rows]
    if not full:
        raise InvalidParameterError("there must be at least 2 rows", 0, "Check that no filter drops them all.")
    total = TargetScan()
    for i in full:
        total += seen[i].targets
    total.refuse_overflow()
    if not total.weight > 0:
        raise InvalidParameterError(
            "sample_weight must have a positive entry", "zeros only", "Drop sample_weight to weigh all rows alike."
        )
    kept, rows, n_outputs = [handles[i] for i in full], [seen[i].n_rows for i in full], seen[full[0]].n_outputs
    source = DaskSource(cluster, kept, rows, len(names), n_outputs, dtype, _Opened(dtype, labels), begin)
    named = list(names) if all(isinstance(name, str) for name in names) else None
    return OpenRows(source, named, total, y.ndim == 1)


def _side_by_side(X: Any, y: Any, sample_weight: Any) -> list[Handle]:
    """Return handles of [X, y, weight] of every partition; refuse partitions that cannot be matched."""
    columns = [partitions_of(X), partitions_of(_beside(X, y, "y"))]
    if sample_weight is not None:
        columns.append(partitions_of(_beside(X, sample_weight, "sample_weight")))
    graph: dict[Any, Any] = {}
    for parts in columns:
        for part in parts:
            if part.key not in graph:
                graph.update(part.__dask_graph__())
    weightless = [None] * (3 - len(columns))
    return [Handle(graph, [*(part.key for part in parts), *weightless]) for parts in zip(*columns, strict=True)]


def _beside(X: Any, other: Any, name: str) -> Any:
    """Return ``other`` with as many rows in every partition as X, as far as lengths are known."""
    if not is_collection(other):
        rule = f"{name} must be a Dask collection where X is one"
        raise InvalidParameterError(rule, type(other).__name__, "Use dask.array.from_array with the chunks of X.")
    other = whole_rows(other, name)
    if name == "sample_weight" and other.ndim != 1:
        raise InvalidParameterError("sample_weight must have one dimension", other.ndim, "Pass one weight a row.")
    of_X, of_other = known_rows(X), known_rows(other)
    if of_X is not None and of_other is not None:
        n_rows = [sum(of_X), sum(of_other)]
        if n_rows[0] != n_rows[1]:
            rule = f"X and {name} must have the same number of rows"
            raise InvalidParameterError(rule, n_rows, "Check how they were made.")
        return other.rechunk({0: of_X})
    n_parts = [len(partitions_of(X)), len(partitions_of(other))]
    if n_parts[0] != n_parts[1]:
        rule = f"X and {name} must have the same number of partitions where their lengths are not known"
        raise InvalidParameterError(rule, n_parts, "Make both from one collection, or compute_chunk_sizes first.")
    return other


def whole_rows(collection: Any, name: str) -> Any:
    """Return an array with a single chunk of columns; frames stay as they are."""
    if not hasattr(collection, "chunks"):
        return collection
    if collection.ndim not in (1, 2):
        raise InvalidParameterError(f"{name} must have one or two dimensions", collection.ndim, "Reshape it.")
    return collection.rechunk({1: -1}) if collection.ndim == 2 else collection


def known_rows(collection: Any) -> tuple[int, ...] | None:
    """Return the rows of every chunk of an array, or None where they are unknown, as for frames."""
    rows: Any = getattr(collection, "chunks", ((np.nan,),))[0]
    return None if np.isnan(rows).any() else rows


def partitions_of(collection: Any) -> list[Any]:
    """Return the partitions, delayed. Optimising the graph of a persisted array would lose its chunks."""
    if hasattr(collection, "chunks"):
        return list(collection.to_delayed(optimize_graph=False).ravel())
    return list(collection.to_delayed())


def meta_of(X: Any) -> Any:
    """Return an empty table with the columns of X."""
    if X.ndim != 2:
        raise InvalidParameterError("X must have two dimensions", X.ndim, "Use X.reshape(-1, 1) for a single column.")
    return np.empty((0, X.shape[1]), X.dtype) if hasattr(X, "chunks") else X._meta


def names_of(meta: Any) -> Sequence[Any]:
    """Return the names of the columns, or their numbers."""
    return list(meta.columns) if hasattr(meta, "columns") else range(meta.shape[1])


def dtype_of(meta: Any) -> np.dtype[Any]:
    """Return the precision of a fit: single where all columns are, else double."""
    dtypes = list(meta.dtypes) if hasattr(meta, "columns") else [meta.dtype]
    wrong = [name for name, dtype in zip(names_of(meta), dtypes, strict=False) if dtype.kind not in "biuf"]
    if wrong:
        raise InvalidParameterError("every column of X must be numeric", wrong, "Encode or drop those columns.")
    return np.dtype(np.float32 if all(dtype == np.float32 for dtype in dtypes) else np.float64)


def as_array(part: Any, dtype: Any) -> Any:
    """Return a partition as an array, with NaN for the missing values of a frame."""
    if hasattr(part, "to_numpy"):
        return part.to_numpy(dtype=dtype, na_value=np.nan)
    return part.astype(dtype) if sp.issparse(part) else np.asarray(part, dtype)


@dataclass(frozen=True)
class _Opened:
    """Makes an `ArraySource` of a partition: targets are numbers, or labels of any kind in one column."""

    dtype: np.dtype[Any]
    labels: bool

    def __call__(self, value: Any) -> ArraySource:
        X, y, weight = value
        rows = array_source(as_array(X, self.dtype), np.zeros((X.shape[0], 1)), weight)
        if self.labels:
            return replace(rows, y=np.asarray(y).reshape(-1, 1))
        return replace(rows, y=as_array(y, np.float64).reshape(rows.n_samples, -1))


@dataclass(frozen=True)
class _Seen:
    """Contents of a partition: rows, target columns, and their scan."""

    n_rows: int
    n_outputs: int = 0
    targets: TargetScan = field(default_factory=TargetScan)


def _look_at(value: Any, payload: Given, number: Given) -> _Seen:
    """Check the values of a partition."""
    (dtype, names, labels), where = load_payload(payload), f"partition {number.value}"
    X, y, weight = plain(value)
    given = {"X": X, "y": y} | ({} if weight is None else {"sample_weight": weight})
    lengths = {name: int(part.shape[0]) for name, part in given.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidParameterError(
            f"X, y and sample_weight must have the same number of rows in every partition: {where}",
            lengths,
            "Make them from one collection, or rechunk them alike.",
        )
    n_rows = lengths["X"]
    if n_rows == 0:
        return _Seen(0)
    rows = as_array(X, dtype)
    _refuse_infinite(rows.data if sp.issparse(rows) else rows, where, None if sp.issparse(rows) else names)
    w = np.ones(n_rows) if weight is None else np.asarray(weight, np.float64)
    fine = np.isfinite(w) & (w >= 0)
    if not fine.all():
        raise InvalidParameterError(
            f"sample_weight must be finite numbers, at least zero: {where}",
            float(w[~fine][0]),
            "Use zero for rows to leave out.",
        )
    if labels:
        return _Seen(n_rows, 1, TargetScan.of([_checked_labels(y, n_rows, where)], w, True))
    targets = as_array(y, np.float64).reshape(n_rows, -1)
    _refuse_infinite(targets, where, ["y"] * targets.shape[1])
    return _Seen(n_rows, targets.shape[1], TargetScan.of(targets.T, w, False))


def _checked_labels(y: Any, n_rows: int, where: str) -> Array:
    """Return the labels of a partition, one per row."""
    labels: Array = np.asarray(y).reshape(n_rows, -1)
    if labels.shape[1] != 1:
        raise InvalidParameterError("y must have one label a row", labels.shape[1], "Pass a single column.")
    missing = np.array([label is None or label != label for label in labels[:, 0].tolist()])
    if missing.any():
        raise InvalidParameterError(f"labels must not be missing: {where}", int(missing.sum()), "Drop those rows.")
    check_classification_targets(labels[:, 0])
    return labels[:, 0]


def _refuse_infinite(rows: Array, where: str, names: Sequence[Any] | None) -> None:
    if np.isfinite(rows.sum()):
        return
    bad = ~np.isfinite(rows)
    if bad.any():
        column = f", column {names[int(np.argmax(bad.any(axis=0)))]!r}" if names else ""
        raise InvalidParameterError(
            f"every value must be a finite number: {where}{column}", float(rows[bad][0]), "Drop or repair those rows."
        )


def predict_lazily(answer: Callable[[Any], Array], X: Any, out: Any = None) -> Any:
    """Return ``answer`` of every partition of ``X`` as one lazy array with the partitions of ``X``."""
    if out is not None:
        raise InvalidParameterError(
            "out must be None for Dask collections, whose answers are lazy",
            type(out).__name__,
            "Write them with dask.array.store.",
        )
    import cloudpickle
    import dask.array

    da: Any = dask.array
    X = whole_rows(X, "X")
    meta = meta_of(X)
    dtype = dtype_of(meta)
    pattern = answer(_one_row(meta, dtype))  # also refuses columns other than those of the fit
    parts = partitions_of(X)
    rows = known_rows(X) or (np.nan,) * len(parts)
    delayed = require_dask().delayed
    payload = delayed(Given(cloudpickle.dumps((answer, dtype, pattern[:0]))), traverse=False)
    lazy = [
        da.from_delayed(delayed(_answer_part)(part, payload), (n_rows, *pattern.shape[1:]), meta=pattern[:0])
        for part, n_rows in zip(parts, rows, strict=True)
    ]
    return da.concatenate(lazy, allow_unknown_chunksizes=True)


def _one_row(meta: Any, dtype: np.dtype[Any]) -> Any:
    """Return a row of zeros with the columns of X."""
    zeros = np.zeros((1, len(names_of(meta))), dtype)
    return type(meta)(zeros, columns=meta.columns) if hasattr(meta, "columns") else zeros


def _answer_part(part: Any, payload: Given) -> Array:
    answer, dtype, nothing = load_payload(payload)
    if part.shape[0] == 0:
        return nothing
    with SingleThreadedBLAS():
        return answer(part if hasattr(part, "columns") else as_array(part, dtype))
