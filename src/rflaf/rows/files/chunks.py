"""Files read in order as Arrow tables: CSV, Parquet, NPZ, NPY and Arrow files, in chunks of rows.

Columns of a CSV file arrive as text, whatever they hold: only the summary of all chunks shows whether they are numbers
or codes (`rflaf.rows.tables`). The first line of a CSV file shows its delimiter and whether it names the columns: a
line with a number names nothing, and columns are then called by number, from "0". Needs the extra ``files``.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.rows.tables import clean, refuse_repeated, require_arrow
from rflaf.rows.tables.cells import valid
from rflaf.rows.tables.text_views import without_views

from .csv_layout import Layout, explain_csv, find_layout
from .table import Table, find_files, kind_of, refuse_absent

_BLOCK_BYTES = 2**24  # of a CSV file in a chunk
_CHUNK_ROWS = 65_536  # of other files in a chunk


def read_table(path: str | Path, has_header: bool | None = None) -> Any:
    """Return a whole file as an Arrow table."""
    return require_arrow().concat_tables(read_chunks(path, has_header))


def read_masked(
    table: Table, block_bytes: int | None = None, needed: Sequence[str] | None = None
) -> Iterator[tuple[str, Any, Array | None]]:
    """Yield every file of a table with its chunks, and which of their rows are chosen; None for all of them.

    Columns other than those ``needed`` may be left out.
    """
    first, needed = 0, needed if needed is None or table.drop_missing is None else [*needed, table.drop_missing]
    for file in find_files(table.paths):
        for chunk in read_chunks(file, table.has_header, block_bytes, table.encoding, needed):
            mask = None if table.rows is None else table.rows.mask(first, chunk.num_rows)
            if table.drop_missing is not None:
                refuse_absent(table.drop_missing, file, chunk.column_names)
                known = valid(clean(table.drop_missing, chunk[table.drop_missing], table.missing))
                mask = known if mask is None else mask & known
            yield file, chunk, mask
            first += chunk.num_rows


def read_rows(
    table: Table, block_bytes: int | None = None, needed: Sequence[str] | None = None
) -> Iterator[tuple[str, Any]]:
    """Yield every file of a table with chunks of its chosen rows; the first chunk of a file has no rows."""
    for file, chunk, mask in read_masked(table, block_bytes, needed):
        yield file, chosen(chunk, mask)


def chosen(chunk: Any, mask: Array | None) -> Any:
    """Return the rows of a chunk that a mask chooses."""
    return chunk if mask is None else chunk.filter(require_arrow().array(mask))


def column_names(table: Table) -> list[str]:
    """Return the names of the columns of a table's first file."""
    names: list[str] = next(
        read_chunks(find_files(table.paths)[0], table.has_header, encoding=table.encoding)
    ).column_names
    return names


def read_chunks(
    path: str | Path,
    has_header: bool | None = None,
    block_bytes: int | None = None,
    encoding: str | None = None,
    needed: Sequence[str] | None = None,
) -> Iterator[Any]:
    """Yield a file as Arrow tables of consecutive rows with the same columns; the first one has no rows.

    A chunk of a CSV file holds ``block_bytes`` of it; Arrow reads some chunks ahead. Of a Parquet file only the columns
    ``needed`` are read, by default all.
    """
    path, kind = Path(path), kind_of(path)
    if not path.is_file():
        raise InvalidParameterError("the data must be a file", str(path), "Check the path.")
    if kind == "CSV":
        layout = find_layout(path, has_header, encoding)
        return _readable(path, _csv_chunks(path, layout, block_bytes or _BLOCK_BYTES), layout)
    if kind == "Parquet":
        return _readable(path, _parquet_chunks(path, block_bytes, needed))
    read = {"Arrow": _arrow_chunks, "NPZ": _npz_chunks, "NumPy": _npy_chunks}[kind]
    return _readable(path, read(path, block_bytes))


def _rows_of(block_bytes: int | None, n_columns: int) -> int:
    """Return the rows of a chunk of numbers, of ``block_bytes`` if given."""
    return _CHUNK_ROWS if block_bytes is None else max(64, min(_CHUNK_ROWS, block_bytes // (32 * max(n_columns, 1))))


def _readable(path: Path, chunks: Iterator[Any], layout: Layout | None = None) -> Iterator[Any]:
    """Yield chunks; errors of the reader, which a damaged file can end in any of, name the file."""
    try:
        first = next(chunks)
        refuse_repeated(first.column_names)
        yield from chain([first], chunks)
    except InvalidParameterError:
        raise
    except Exception as error:
        if layout is not None:
            explain_csv(path, layout, str(error))
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidParameterError(f"{path.name} must be readable as a table", first_line, "Check the file.") from None


def _csv_chunks(path: Path, layout: Layout, block_bytes: int) -> Iterator[Any]:
    pa = require_arrow()
    import pyarrow.csv as arrow_csv

    read = arrow_csv.ReadOptions(
        column_names=list(layout.names),
        skip_rows=layout.skip_rows,
        block_size=block_bytes,
        encoding="utf8" if layout.encoding.startswith("utf-8") else layout.encoding,
    )
    about = {"delimiter": layout.delimiter}
    parse = arrow_csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True)
    as_text = dict.fromkeys(layout.names, pa.string())
    convert = arrow_csv.ConvertOptions(column_types=as_text, strings_can_be_null=False)
    reader = arrow_csv.open_csv(path, read_options=read, parse_options=parse, convert_options=convert)
    yield reader.schema.empty_table().replace_schema_metadata(about)
    for batch in reader:
        yield pa.Table.from_batches([batch]).replace_schema_metadata(about)


def _parquet_chunks(path: Path, block_bytes: int | None, needed: Sequence[str] | None) -> Iterator[Any]:
    pa = require_arrow()
    import pyarrow.parquet as parquet

    with parquet.ParquetFile(path) as file:
        refuse_repeated(file.schema_arrow.names)
        names = [name for name in file.schema_arrow.names if needed is None or name in needed]
        yield file.schema_arrow.empty_table().select(names)
        for batch in file.iter_batches(_rows_of(block_bytes, len(file.schema_arrow)), columns=names):
            yield pa.Table.from_batches([batch])


def _arrow_chunks(path: Path, block_bytes: int | None) -> Iterator[Any]:
    """Arrow IPC files, which Feather files are too; a stream of batches is read as one.

    They are not mapped: of a file that is cut short meanwhile, the system would end this process.
    """
    pa = require_arrow()
    import pyarrow.ipc as ipc

    with pa.OSFile(str(path)) as opened:
        try:
            file = ipc.open_file(opened)
            batches = (file.get_batch(number) for number in range(file.num_record_batches))
        except pa.ArrowInvalid:
            opened.seek(0)
            file = batches = ipc.open_stream(opened)
        yield without_views(file.schema.empty_table())
        at_once = _rows_of(block_bytes, len(file.schema))
        for batch in batches:
            batch.validate(full=True)  # texts of a damaged file may lie anywhere in memory
            for start in range(0, batch.num_rows, at_once):
                yield without_views(pa.Table.from_batches([batch.slice(start, at_once)]))


def _npz_chunks(path: Path, block_bytes: int | None) -> Iterator[Any]:
    """Arrays of one dimension are columns, of two dimensions several, called X0, X1, ... for an array X."""
    with zipfile.ZipFile(path) as archive, ExitStack() as opened:
        arrays = {name: _StoredArray(opened.enter_context(archive.open(name)), name) for name in archive.namelist()}
        lengths = {name.removesuffix(".npy"): array.shape[0] for name, array in arrays.items()}
        if len(set(lengths.values())) != 1:
            raise InvalidParameterError(
                f"arrays of {path.name} must have as many rows as one another", lengths, "Save one array X and one y."
            )
        at_once = _rows_of(block_bytes, sum(int(np.prod(array.shape[1:])) for array in arrays.values()))
        n_chunks = -(-next(iter(lengths.values())) // at_once)
        for n_rows in (0, *[at_once] * n_chunks):
            columns: dict[str, Array] = {}
            for name, array in arrays.items():
                columns |= _columns_of(name.removesuffix(".npy"), array.read(n_rows))
            yield require_arrow().table(columns)


def _npy_chunks(path: Path, block_bytes: int | None) -> Iterator[Any]:
    """Columns of a matrix are called by number, from "0"."""
    with path.open("rb") as file:
        array = _StoredArray(file, path.name)
        at_once = _rows_of(block_bytes, int(np.prod(array.shape[1:])))
        for n_rows in (0, *[at_once] * -(-array.shape[0] // at_once)):
            rows = array.read(n_rows).reshape(-1, *(array.shape[1:] or (1,)))
            yield require_arrow().table({str(at): np.ascontiguousarray(rows[:, at]) for at in range(rows.shape[1])})


class _StoredArray:
    """An array of an archive, read row by row."""

    def __init__(self, file: Any, name: str) -> None:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        self.shape, by_column, self.dtype = read(file)
        self._file, self._whole = file, None
        if self.dtype.hasobject:
            raise ValueError(f"array {name!r} holds Python objects")
        if len(self.shape) not in (1, 2):
            raise ValueError(f"array {name.removesuffix('.npy')!r} has {len(self.shape)} dimensions, not one or two")
        if by_column and len(self.shape) == 2:  # stored column by column: its rows are known when all is read
            self._whole = np.frombuffer(file.read(), self.dtype).reshape(self.shape, order="F")
        self._at = 0

    def read(self, n_rows: int) -> Array:
        """Return the next rows, at most ``n_rows``."""
        n_rows = min(n_rows, self.shape[0] - self._at)
        start, self._at = self._at, self._at + n_rows
        if self._whole is not None:
            return self._whole[start : self._at]
        shape = (n_rows, *self.shape[1:])
        n_bytes = int(np.prod(shape)) * self.dtype.itemsize
        data = self._file.read(n_bytes)
        if len(data) != n_bytes:
            raise ValueError("it ends before its arrays do")
        return np.frombuffer(data, self.dtype).reshape(shape) if n_bytes else np.empty(shape, self.dtype)


def _columns_of(name: str, array: Array) -> dict[str, Array]:
    if array.ndim == 1 or array.shape[1] == 1:
        return {name: array.reshape(-1)}
    return {f"{name}{at}": np.ascontiguousarray(array[:, at]) for at in range(array.shape[1])}
