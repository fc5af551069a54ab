"""Rows of CSV files: parsed twice, to see their values and to write them as numbers into a temporary Parquet file.

The file is removed with the reader.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from rflaf.errors import InvalidParameterError
from rflaf.rows.progress import Begin, PassDisplay
from rflaf.rows.tables import (
    NumberColumn,
    TableEncoding,
    TableSummary,
    TargetEncoding,
    make_encoding,
    require_arrow,
    summarise,
)

from .chunks import find_layout, read_chunks
from .first_scan import scan
from .parquet_rows import ParquetRows
from .request import Request, distinct
from .room import refuse_less, rows_together
from .row_groups import RowGroup, index_files
from .source import FileSource, OpenTable, Reader
from .values import in_column, write_inputs

_LEAST_BYTES, _MOST_BYTES = 2**16, 2**24  # of a file that are parsed at once
_BLOCKS_AHEAD = 44  # that Arrow holds, on their way and parsed
_LEVELS_BYTES = 5 * 2**18  # of a column, for the levels that are counted
_WRITER_BYTES = 3 * 2**22  # for rows as numbers, and on their way to the disk


def open_csv(request: Request, reader: Reader) -> OpenTable:
    """CSV files, read once to see what their columns hold and once more to write them as numbers."""
    block_bytes = _block_bytes(request.files, reader.memory)
    total = _summary_of_all(request, block_bytes, reader.begin)
    encoding = request.encoding
    if encoding is None:
        encoding = make_encoding(total, exclude=request.beside)
    folder = reader.exits.enter_context(tempfile.TemporaryDirectory(prefix="rflaf-"))
    shown = {os.path.join(folder, f"{number}.parquet"): file for number, file in enumerate(request.files)}
    columns = _Columns(encoding, _target_encodings(request, total), request.weight)
    with reader.begin("write as numbers", total.n_rows, total.n_rows) as display:
        for path, file in shown.items():
            _convert(file, path, columns, block_bytes, display)
    groups, schemas = index_files(list(shown), shown)
    plain = [_input_name(j) for j in range(len(encoding.feature_names))]
    seen = reader.pool.submit(scan, groups, schemas[0], plain, request, reader).result()
    written = TableEncoding(tuple(NumberColumn(name, 0.0, False) for name in plain))
    dtype = np.dtype(np.float64)
    storage = ParquetRows(groups, written, tuple(request.targets), request.weight, dtype, request.labels)
    return OpenTable(FileSource(storage, reader), encoding, seen.label_weights, seen.target_range)


def _block_bytes(files: list[str], memory: int | None) -> int | None:
    """How much of a file to parse at once, beside the levels of every column that are counted."""
    if memory is None:
        return None
    levels = min(len(files), 2) * _LEVELS_BYTES * len(find_layout(files[0]).names)
    refuse_less(memory, levels + _WRITER_BYTES + _BLOCKS_AHEAD * _LEAST_BYTES)
    return min(_MOST_BYTES, (memory - levels - _WRITER_BYTES) // (_BLOCKS_AHEAD + 1))


def _summary_of_all(request: Request, block_bytes: int | None, begin: Begin) -> TableSummary:
    """What the columns that are needed hold in all files, the inputs first."""
    files = request.files
    with begin("look at every value", None, None) as display:
        first = _summary_of(files[0], block_bytes, display)
        needed = distinct(*request.inputs(list(first.columns)), *request.beside)
        total = _checked(files[0], first, files[0], first, needed)
        for file in files[1:]:
            total = total + _checked(file, _summary_of(file, block_bytes, display), files[0], total, needed)
    return total


def _summary_of(file: str, block_bytes: int | None, display: PassDisplay) -> TableSummary:
    """What the columns of a CSV file hold."""
    chunks = read_chunks(file, block_bytes=block_bytes)
    total = summarise(next(chunks))
    for chunk in chunks:
        total = total + summarise(chunk)
        display.advance(chunk.num_rows)
    if total.n_rows == 0:
        raise InvalidParameterError("every file must have rows", f"{file}, which has none", "Leave it out.")
    return total


def _checked(file: str, summary: TableSummary, first: str, expected: TableSummary, needed: list[str]) -> TableSummary:
    """The columns that are needed, which a file must have, of the kinds they have in the first one."""
    for name in needed:
        if name not in summary.columns:
            raise InvalidParameterError(
                f"every file must have a column {name!r}, once", f"{file} with {list(summary.columns)}", "Add it."
            )
        here, there = summary.columns[name].kind, expected.columns[name].kind
        if here != there and "empty" not in (here, there):
            raise InvalidParameterError(
                f"column {name!r} must be of one type in all files: {there} in {first}",
                f"{here} in {file}, row group 0, column {name!r}",
                "Write the files with one schema.",
            )
    return TableSummary({name: summary.columns[name] for name in needed})


def _target_encodings(request: Request, total: TableSummary) -> list[TargetEncoding]:
    task = "classification" if request.labels else "regression"
    kinds = [_label_kind(total, name) if request.labels else "number" for name in request.targets]
    return [TargetEncoding(name, task, kind) for name, kind in zip(request.targets, kinds, strict=True)]


def _label_kind(summary: TableSummary, name: str) -> str:
    column = summary.columns[name]
    return "whole" if column.kind == "number" and column.numbers.whole else "text"


def _input_name(number: int) -> str:
    return f"input {number}"


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a CSV file as numbers, and labels as they are."""

    encoding: TableEncoding
    targets: list[TargetEncoding]
    weight: str | None

    @property
    def row_bytes(self) -> int:
        """What a row takes while it is encoded and written."""
        return 24 * (len(self.encoding.feature_names) + 2) + 160 * len(self.targets)

    def of(self, rows: Any, group: RowGroup) -> dict[str, Any]:
        """By name, of some rows."""
        X = np.zeros((rows.num_rows, len(self.encoding.feature_names)))
        write_inputs(rows, self.encoding, X, group)
        columns: dict[str, Any] = {_input_name(j): X[:, j] for j in range(X.shape[1])}
        weights = [] if self.weight is None else [TargetEncoding(self.weight, "regression", "number")]
        for column in (*self.targets, *weights):
            with in_column(column.name, group):
                columns[column.name] = column.read(rows)
        return columns


def _convert(file: str, path: str, columns: _Columns, block_bytes: int | None, display: PassDisplay) -> None:
    """Write the rows of a CSV file as numbers into a Parquet file, a few together as a row group."""
    pa = require_arrow()
    import pyarrow.parquet as pq

    at_once = rows_together(columns.row_bytes, 0, None)
    number = 0
    with ExitStack() as exits:
        writer = None
        for chunk in read_chunks(file, block_bytes=block_bytes):
            for start in range(0, chunk.num_rows, at_once):
                rows = chunk.slice(start, at_once)
                written = pa.table(columns.of(rows, RowGroup(path, file, number, 0, rows.num_rows)))
                if writer is None:
                    writer = exits.enter_context(pq.ParquetWriter(path, written.schema))
                writer.write_table(written, row_group_size=rows.num_rows)
                display.advance(rows.num_rows)
                number += 1
