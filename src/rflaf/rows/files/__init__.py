"""Rows in files: Parquet, CSV and NumPy files, read block by block and never whole. Needs the extra ``files``.

``fit("folder/*.parquet", "target")`` takes a file, a folder, a pattern or a list of them; `Table` chooses columns too.
Footers are read first: they say how many rows every row group has, so that block i is found at once and blocks do not
depend on how the files are cut. One cheap pass then looks at every value: numbers must be finite, levels of categories
are counted, means are taken to fill gaps with (`rflaf.rows.tables`). Every later pass reads again, one thread ahead of
those
who compute by a few blocks. A CSV file is parsed twice, to see its values and to write them as numbers into a temporary
Parquet file, which is removed after the fit.

| | |
| --- | --- |
| `finding` | which files a table is in |
| `request` | which of its columns are asked for |
| `source` | blocks, read ahead by one thread |
| `row_groups` | Parquet files in Arrow batches |
| `values` | columns as arrays, and what is wrong with them |
| `room` | how much is looked at together |
| `first_scan` | the pass that looks at every value |
| `parquet_rows`, `csv_rows`, `numpy_rows` | one kind of file each |
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rflaf.errors import InvalidParameterError
from rflaf.rows.progress import Begin, Quiet
from rflaf.rows.tables import TableEncoding

from .csv_rows import open_csv
from .finding import Table, find_files, is_files, kind_of
from .numpy_rows import open_numpy
from .parquet_rows import open_parquet
from .request import Request
from .source import FileSource, OpenTable, Reader

__all__ = ["FileSource", "OpenTable", "Table", "find_files", "is_files", "open_table"]


def open_table(
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    labels: bool = False,
    encoding: TableEncoding | None = None,
    begin: Begin = Quiet,
    memory: int | None = None,
) -> OpenTable:
    """Open files to learn from, with the target column(s) ``y`` and the column ``sample_weight``; or to predict.

    To predict, ``encoding`` is that of the fit. Everything that can be wrong with the files is found here. Passes are
    shown by ``begin``, and take no more than ``memory`` bytes.
    """
    table = X if isinstance(X, Table) else Table(X)
    files = find_files(table.paths)
    kind = kind_of(files[0])
    if kind == "NumPy" and (len(files) > 1 or table.columns is not None):
        raise InvalidParameterError("inputs must be one .npy file, all of it", files, "Use Parquet for many files.")
    reader = Reader(begin, memory)
    try:
        if kind == "NumPy":
            return open_numpy(files[0], y, sample_weight, labels, reader)
        request = Request(files, table.columns, _names(y), _name(sample_weight), labels, encoding)
        opened = open_csv(request, reader) if kind == "CSV" else open_parquet(request, reader)
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


def _name(sample_weight: Any) -> str | None:
    if sample_weight is None or isinstance(sample_weight, str):
        return sample_weight
    raise InvalidParameterError(
        "sample_weight of rows in files must be the name of a column", type(sample_weight).__name__, "Add one."
    )
