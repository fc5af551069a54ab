"""Rows in files, read block by block and never whole. Needs the extra ``files``.

``fit("folder/*.parquet", "target")`` takes a file, a folder, a pattern or a list of them: CSV, also compressed,
Parquet, Arrow IPC and Feather, NPZ and NPY. `Table` chooses columns and rows too. One pass checks every value and
summarises the columns, from which the encoding follows (`rflaf.rows.tables`), the same for every kind of file.

Parquet and NPY files are read again in every pass, one thread a few blocks ahead of the computation: their footers say
how many rows every row group has, so block i is found at once and blocks do not depend on how the files are cut. Other
files are copied as numbers into a temporary Parquet file, which is removed after the fit.

May import `rflaf.errors`, `rflaf.rows.tables` and the modules of `rflaf.rows` about blocks and progress.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rflaf.errors import InvalidParameterError
from rflaf.rows.opened import OpenRows
from rflaf.rows.progress import Begin, Quiet
from rflaf.rows.tables import TableEncoding

from .converted import open_converted, scan_table
from .numpy_rows import open_numpy
from .parquet_rows import open_parquet
from .source import Reader
from .table import Request, RowChoice, ScannedTable, Table, digest_of, find_files, is_files, kind_of

__all__ = ["RowChoice", "ScannedTable", "Table", "digest_of", "find_files", "is_files", "open_table", "scan_table"]


def open_table(
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    labels: bool = False,
    encoding: TableEncoding | None = None,
    begin: Begin = Quiet,
    memory: int | None = None,
) -> OpenRows:
    """Open files to learn from, with the target column(s) ``y`` and the column ``sample_weight``; or to predict.

    To predict, ``encoding`` is that of the fit. ``begin`` shows the passes, which take at most ``memory`` bytes.
    """
    scanned = X if isinstance(X, ScannedTable) else None
    table = scanned.table if scanned else X if isinstance(X, Table) else Table(X)
    files = find_files(table.paths)
    kind, reader = kind_of(files[0]), Reader(begin, memory)
    try:
        of_column = isinstance(y, str) and not y.endswith(".npy")
        if kind == "NumPy" and encoding is None and not of_column:
            if len(files) > 1 or table != Table(table.paths):
                rule = "inputs must be one .npy file, all of it"
                raise InvalidParameterError(rule, files, "Use Parquet for many files.")
            return open_numpy(files[0], y, sample_weight, labels, reader)
        names, summary = _names(y), None if scanned is None else scanned.summary
        if not (sample_weight is None or isinstance(sample_weight, str)):
            rule = "sample_weight of rows in files must be the name of a column"
            raise InvalidParameterError(rule, type(sample_weight).__name__, "Add one.")
        seen = None if scanned is None else scanned.seen
        request = Request(files, table, names, sample_weight, labels, encoding, summary, seen)
        direct = kind == "Parquet" and table.rows is None and table.drop_missing is None
        opened = open_parquet(request, reader, open_converted) if direct else open_converted(request, reader)
        return replace(opened, single_output=isinstance(y, str))
    except BaseException:
        reader.close()
        raise


def _names(y: Any) -> list[str]:
    names = [] if y is None else [y] if isinstance(y, str) else y
    if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names) and (names or y is None):
        return list(names)
    raise InvalidParameterError(
        "y of rows in files must be the name of the target column, or a list of names", type(y).__name__, "Name it."
    )
