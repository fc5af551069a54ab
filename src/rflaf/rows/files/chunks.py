"""Files as tables and tables as files: CSV, Parquet and NPZ, whole or in chunks of rows.

Columns of a CSV file arrive as text, whatever they hold: a chunk alone cannot tell a number from a code, the summary of
all of them can (`rflaf.rows.tables`). Its delimiter and whether its first line names the columns are seen from that
line:
one that holds a number names nothing, and columns are then called by number, from "0". Needs the extra ``files``.
"""

from __future__ import annotations

import csv
import gzip
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.rows.tables import is_number, refuse_repeated, require_arrow

_BLOCK_BYTES = 2**24  # of a CSV file in a chunk
_CHUNK_ROWS = 65_536  # of a Parquet or NPZ file in a chunk
_PARQUET = (".parquet", ".pq")
_DELIMITERS = (",", ";", "\t")


@dataclass(frozen=True, slots=True)
class Layout:
    """How to read a CSV file: its delimiter, its column names, and the lines before its first row."""

    delimiter: str
    names: tuple[str, ...]
    skip_rows: int


def find_layout(path: str | Path, has_header: bool | None = None) -> Layout:
    """The layout of a CSV file from its first line; ``has_header`` is seen from it too unless given."""
    path = Path(path)
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            at, line = next(((at, line) for at, line in enumerate(file) if line.strip()), (0, ""))
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile) as error:
        raise InvalidParameterError(
            f"{path.name} must be text in UTF-8", str(error), "Save it as CSV, or name a .parquet or .npz file."
        ) from None
    delimiter = max(_DELIMITERS, key=line.count)
    cells = tuple(cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), []))
    if not cells:
        raise InvalidParameterError(f"{path.name} must have rows", "an empty file", "Name another file.")
    if has_header is None:
        has_header = not any(is_number(cell) for cell in cells)
    names = (
        tuple(cell or str(number) for number, cell in enumerate(cells))
        if has_header
        else tuple(map(str, range(len(cells))))
    )
    refuse_repeated(names)
    return Layout(delimiter, names, at + has_header)


def read_table(path: str | Path, has_header: bool | None = None) -> Any:
    """A whole file as an Arrow table."""
    pa = require_arrow()
    return pa.concat_tables(read_chunks(path, has_header))


def read_chunks(path: str | Path, has_header: bool | None = None, block_bytes: int | None = None) -> Iterator[Any]:
    """A file as Arrow tables of consecutive rows, at least one, all of the same columns.

    A table of a CSV file are the rows of ``block_bytes`` of it; some of them are read ahead.

    .parquet and .pq are Parquet, .npz is NumPy's archive, anything else is taken for CSV, .gz for a compressed one.
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidParameterError("the data must be a file", str(path), "Check the path.")
    if path.suffix in _PARQUET:
        return _parquet_chunks(path)
    if path.suffix == ".npz":
        return _npz_chunks(path)
    return _csv_chunks(path, find_layout(path, has_header), block_bytes or _BLOCK_BYTES)


def write_chunks(chunks: Iterable[Any], path: str | Path, like: str | Path | None = None) -> int:
    """Write Arrow tables one after the other to a file; the number of rows written.

    Its kind is that of its name, or of ``like``: .parquet and .pq are Parquet, .npz is NumPy's archive with an array a
    column, anything else is CSV.
    """
    suffix = Path(path if like is None else like).suffix
    if suffix == ".npz":
        return _write_npz(chunks, Path(path))
    pa = require_arrow()
    import pyarrow.csv as arrow_csv
    import pyarrow.parquet as parquet

    open_writer = parquet.ParquetWriter if suffix in _PARQUET else arrow_csv.CSVWriter
    writer, n_rows = None, 0
    with pa.OSFile(str(path), "wb") as file:
        try:
            for chunk in chunks:
                writer = writer or open_writer(file, chunk.schema)
                writer.write_table(chunk)
                n_rows += chunk.num_rows
        finally:
            if writer is not None:
                writer.close()
    return n_rows


def _write_npz(chunks: Iterable[Any], path: Path) -> int:
    pa = require_arrow()
    table = pa.concat_tables(chunks)
    with path.open("wb") as file:
        arrays: dict[str, Any] = {name: np.asarray(table[name].to_pylist()) for name in table.column_names}
        np.savez(file, **arrays)
    return int(table.num_rows)


def _csv_chunks(path: Path, layout: Layout, block_bytes: int) -> Iterator[Any]:
    pa = require_arrow()
    import pyarrow.csv as arrow_csv

    try:
        reader = arrow_csv.open_csv(
            path,
            read_options=arrow_csv.ReadOptions(
                column_names=list(layout.names), skip_rows=layout.skip_rows, block_size=block_bytes
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(layout.names, pa.string()), strings_can_be_null=False
            ),
        )
        yield reader.schema.empty_table()
        for batch in reader:
            yield pa.Table.from_batches([batch])
    except (pa.ArrowInvalid, OSError) as error:
        raise _unreadable(path, error) from None


def _parquet_chunks(path: Path) -> Iterator[Any]:
    pa = require_arrow()
    import pyarrow.parquet as parquet

    try:
        with parquet.ParquetFile(path) as file:
            refuse_repeated(file.schema_arrow.names)
            yield file.schema_arrow.empty_table()
            for batch in file.iter_batches(_CHUNK_ROWS):
                yield pa.Table.from_batches([batch])
    except (pa.ArrowInvalid, OSError) as error:
        raise _unreadable(path, error) from None


def _npz_chunks(path: Path) -> Iterator[Any]:
    """Arrays of one dimension are columns, of two dimensions several, called X0, X1, ... for an array X."""
    pa = require_arrow()
    columns: dict[str, Array] = {}
    try:
        with np.load(path, allow_pickle=False) as archive:
            for name in archive.files:
                columns |= _columns_of(name, archive[name])
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise _unreadable(path, error) from None
    if len({column.shape[0] for column in columns.values()}) != 1:
        raise InvalidParameterError(
            f"arrays of {path.name} must have as many rows as one another",
            {name: column.shape[0] for name, column in columns.items()},
            "Save one array X and one array y.",
        )
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    yield table.slice(0, 0)
    for start in range(0, table.num_rows, _CHUNK_ROWS):
        yield table.slice(start, _CHUNK_ROWS)


def _columns_of(name: str, array: Array) -> dict[str, Array]:
    if array.ndim == 1:
        return {name: array}
    if array.ndim == 2 and array.shape[1] == 1:
        return {name: array[:, 0]}
    if array.ndim == 2:
        return {f"{name}{at}": np.ascontiguousarray(array[:, at]) for at in range(array.shape[1])}
    raise ValueError(f"array {name!r} has {array.ndim} dimensions, not one or two")


def _unreadable(path: Path, error: Exception) -> InvalidParameterError:
    first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
    return InvalidParameterError(f"{path.name} must be readable as a table", first_line, "Check the file.")
