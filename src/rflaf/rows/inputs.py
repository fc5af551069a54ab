"""The one door for rows: arrays, frames, Arrow tables, files and Dask collections.

Frames in memory with columns that are no numbers or have gaps are encoded as files are; the estimators check all other
rows in memory.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rflaf.errors import InvalidParameterError

from .blocks import BlockSource, innermost, parts_of
from .dask import Cluster, DaskExecutor, DaskSource, is_collection, open_collection
from .executors import ThreadExecutor
from .files import is_files, open_table
from .opened import OpenRows
from .progress import Begin, Quiet
from .tables import (
    TableEncoding,
    TargetEncoding,
    add_rows,
    as_table,
    level_sums,
    make_encoding,
    make_target,
    own_labels,
    summarise,
    target_parts,
)


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
    """Return whether ``X`` is a table in memory with named columns, of whatever library."""
    if isinstance(X, np.ndarray | list | tuple) or is_collection(X):
        return False
    of_tables = ("columns", "column_names", "__arrow_c_stream__", "__dataframe__")
    return _is_lazy(X) or any(hasattr(X, name) for name in of_tables)


def as_rows(X: Any) -> Any:
    """Return rows in memory as they are, but lists as arrays, and tables of libraries unknown here as Arrow tables.

    Masked values are missing; a lazy frame of polars is collected.
    """
    if _is_lazy(X):
        X = X.collect()
    _refuse_no_table(X)
    if isinstance(X, np.ma.MaskedArray):
        return _unmasked(X)
    if isinstance(X, list | tuple):
        with suppress(ValueError, TypeError):
            return np.asarray(X)
        return X
    known = hasattr(X, "iloc") or hasattr(X, "column_names") or hasattr(X, "drop")
    return as_table(X) if is_frame(X) and not known else X


def native(X: Any) -> Any:
    """Return a dense or sparse matrix in the byte order of this machine, which compiled loops read."""
    return X if X.dtype.isnative else X.astype(X.dtype.newbyteorder("="))


def _is_lazy(X: Any) -> bool:
    """Return whether ``X`` is a lazy frame of polars."""
    return hasattr(type(X), "collect_schema") and hasattr(type(X), "collect")


def _unmasked(X: Any) -> NDArray[Any]:
    """Return a masked array as a plain one: None among texts, NaN among numbers, where there is no value."""
    if not np.ma.is_masked(X):
        return np.asarray(X.data)
    if X.dtype.kind in "biu":
        X = X.astype(np.float64)
    elif X.dtype.kind not in "fmM":
        X = X.astype(object)
    nothing = None if X.dtype.kind == "O" else np.nan if X.dtype.kind == "f" else np.array("NaT", X.dtype)
    plain = np.array(X.data)
    plain[np.ma.getmaskarray(X)] = nothing
    return plain


def _refuse_no_table(X: Any) -> None:
    """Refuse what holds values, but is no table: dictionaries, and one column or row of a frame."""
    first = X[0] if isinstance(X, list | tuple) and len(X) else X
    if isinstance(first, dict) and not sp.issparse(first):  # one kind of sparse arrays is a dict
        raise InvalidParameterError("rows must be an array or a table", "dictionaries", "Pass pandas.DataFrame(X).")
    if isinstance(X, np.ndarray) and X.dtype.names:
        remedy = "Pass pandas.DataFrame(X)."
        raise InvalidParameterError("rows must be an array or a table", "an array of records", remedy)
    if (is_frame(X) or hasattr(X, "iloc")) and len(getattr(X, "shape", (0, 0))) == 1:
        remedy = "Use frame[['a']] for a column, frame.iloc[[0]] for a row."
        raise InvalidParameterError("rows must have two dimensions", f"a {type(X).__name__}", remedy)


def needs_encoding(X: Any) -> bool:
    """Return whether rows in memory hold texts, dates, categories or gaps."""
    if is_frame(X):
        return not is_plain(X)
    if not isinstance(X, np.ndarray) or X.ndim != 2 or not X.size:
        return False
    if X.dtype.kind in "USmM":
        return True
    if X.dtype.kind == "O":
        try:
            X = X.astype(np.float64)
        except (ValueError, TypeError):
            return not any(isinstance(value, complex | dict | list) for value in X.flat)
    if X.dtype.kind != "f":
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isnan(X.sum())) and bool(np.isnan(X).any())


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


def encode_rows(
    X: Any, y: Any, sample_weight: Any, labels: bool, categories: Sequence[str] = ()
) -> tuple[NDArray[Any], TableEncoding]:
    """Return a frame or matrix as an array, and the encoding learned from it and its targets."""
    table = as_table(X, coded=True)
    summary = summarise(table, categories=categories)
    encoding = make_encoding(summary, categories=[name for name in categories if name in summary.columns])
    targets = _targets(y, labels) if np.shape(y)[:1] == (table.num_rows,) else None
    if targets is not None:
        sums = level_sums(encoding, summary, targets[0])
        if sums:
            weight = None if sample_weight is None else np.asarray(sample_weight, np.float64)
            add_rows(sums, table, encoding.missing, 0, targets[1], weight)
            encoding = encoding.with_statistics({name: of_column.finish() for name, of_column in sums.items()})
    rows = encoding.transform(table, first=0)
    return rows, encoding if targets is None else encoding.suspecting(rows, targets[1])


def _targets(y: Any, labels: bool) -> tuple[list[str], NDArray[Any]] | None:
    """Return targets as columns of numbers and their names; None where they are none, which others refuse."""
    with suppress(ValueError, TypeError):
        parts, as_numbers = target_parts(np.asarray(y), labels)
        Y = as_numbers(y)
        return (parts, Y) if np.isfinite(Y).all() else None
    return None


def take_column(frame: Any, name: str, target: TargetEncoding | None, labels: bool) -> tuple[Any, TargetEncoding, Any]:
    """Return the column ``name`` of a frame as targets, its encoding, learned unless given, and the other columns.

    Labels are the frame's own values, as if they were passed apart.
    """
    names = [str(one) for one in getattr(frame, "column_names", None) or frame.columns]
    if name not in names:
        raise InvalidParameterError(f"the table must have the column {name!r}", names, "Give the name of one.")
    table = as_table(frame, [name])
    own = own_labels(name, table.column(0)) if labels and (target is None or target.values == "text") else None
    if target is None and own is not None:
        target = replace(make_target(summarise(table, ()), name, "classification"), values=own[1], reading="number")
    elif target is None:
        target = make_target(summarise(table), name, "classification" if labels else "regression")
    values = own[0] if own is not None and own[1] == target.values else target.read(table)
    return values, target, drop_column(frame, name)


def targets_in(X: Any, y: Any, target: TargetEncoding | None) -> Any:
    """Return the column of a frame that targets ``y`` are named by, read as those of the fit, or ``y`` itself."""
    if not isinstance(y, str) or not is_frame(X):
        return y
    return take_column(X, y, target, target is not None and target.task == "classification")[0]


def drop_column(frame: Any, name: str) -> Any:
    """Return the other columns of a frame."""
    if hasattr(frame, "drop_columns"):  # Arrow
        return frame.drop_columns([name])
    if not hasattr(frame, "iloc"):
        return frame.drop(name)
    return frame.drop(columns=[label for label in frame.columns if str(label) == name][:1])


def names_columns(X: Any, y: Any) -> bool:
    """Return whether ``y`` lists columns of a frame, rather than one text for each of its rows."""
    if not (is_frame(X) and isinstance(y, list | tuple) and y and all(isinstance(name, str) for name in y)):
        return False
    columns = getattr(X, "column_names", None) or list(getattr(X, "columns", ()))
    return len(y) != len(X) and set(y) <= set(columns)


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
