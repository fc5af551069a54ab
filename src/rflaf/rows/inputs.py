"""The one door for rows: arrays, frames, Arrow tables, files and Dask collections.

Frames in memory with columns that are no numbers or have gaps are encoded as files are; the estimators check all other
rows in memory.
"""

from __future__ import annotations

import sys
from typing import Any

from numpy.typing import NDArray

from .blocks import BlockSource, innermost, parts_of
from .dask import Cluster, DaskExecutor, DaskSource, is_collection, open_collection
from .executors import ThreadExecutor
from .files import is_files, open_table
from .opened import OpenRows
from .progress import Begin, Quiet
from .tables import TableEncoding, TargetEncoding, as_table, find_column, make_encoding, make_target, summarise


def open_rows(
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    labels: bool = False,
    encoding: TableEncoding | None = None,
    begin: Begin = Quiet,
    memory: int | None = None,
) -> OpenRows | None:
    """Open rows to learn from, or, with the ``encoding`` of a fit, to predict; None for arrays and frames in memory.

    ``begin`` shows the progress of passes over the rows; scanning files takes at most ``memory`` bytes.
    """
    if is_files(X):
        return open_table(X, y, sample_weight, labels, encoding, begin, memory)
    if is_collection(X):
        return open_collection(X, y, sample_weight, labels, begin)
    return None


def is_frame(X: Any) -> bool:
    """Return whether ``X`` is a table in memory with named columns: a pandas or polars frame, or an Arrow table."""
    return hasattr(X, "column_names") or (hasattr(X, "columns") and not is_collection(X))


def is_plain(frame: Any) -> bool:
    """Return whether every column of a frame holds numbers without gaps, which scikit-learn validates."""
    if hasattr(frame, "iloc"):  # pandas
        return all(getattr(kind, "kind", "O") in "biuf" for kind in frame.dtypes) and not frame.isna().any(axis=None)
    columns = as_table(frame).columns
    types = [str(column.type) for column in columns]
    numeric = all(kind.startswith(("int", "uint", "float", "double", "halffloat", "bool")) for kind in types)
    return numeric and not any(column.null_count or _has_nan(column) for column in columns)


def _has_nan(column: Any) -> bool:
    values = column.to_numpy()
    return values.dtype.kind == "f" and bool((values != values).any())


def encode_frame(frame: Any) -> tuple[NDArray[Any], TableEncoding]:
    """Return a frame as an array, and the encoding learned from it."""
    table = as_table(frame)
    encoding = make_encoding(summarise(table))
    return encoding.transform(table), encoding


def take_column(frame: Any, name: str, target: TargetEncoding | None, labels: bool) -> tuple[Any, TargetEncoding, Any]:
    """Return the column ``name`` of a frame as targets, its encoding, learned unless given, and the other columns."""
    table = as_table(frame)
    if target is None:
        column = table.select([find_column(name, table.column_names)])
        target = make_target(summarise(column), name, "classification" if labels else "regression")
    values = target.read(table)
    if hasattr(frame, "drop_columns"):  # Arrow
        return values, target, frame.drop_columns([name])
    return values, target, frame.drop(columns=[name]) if hasattr(frame, "iloc") else frame.drop(name)


def target_of(y: Any, labels: bool) -> TargetEncoding | None:
    """Return the encoding of targets in memory that have a name, as a column of a frame has."""
    name = getattr(y, "name", None)
    if not isinstance(name, str):
        return None
    kinds = {"b": "truth", "i": "whole", "u": "whole", "f": "number"}
    values = kinds.get(y.to_numpy().dtype.kind, "text")
    return TargetEncoding(name, "classification" if labels else "regression", values)


def executor_for(source: BlockSource, n_workers: int) -> ThreadExecutor:
    """Return the executor of sums over a source: the cluster its rows live on, or threads of this process."""
    source = innermost(source)
    if isinstance(source, DaskSource):
        return DaskExecutor(source.cluster, n_workers)
    if parts_of(source) is not None and "distributed" in sys.modules:  # its workers read Parquet files themselves
        cluster = Cluster.current()
        if cluster.client is not None:
            return DaskExecutor(cluster, n_workers)
    return ThreadExecutor(n_workers)
