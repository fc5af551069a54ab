"""Rows that can only be read in order: read once to learn their encoding, once more to write them as numbers.

The numbers go into a temporary Parquet file, which is removed with the reader. So are read CSV, NPZ and Arrow files,
matrices with a target among their columns, and any file of which only some rows are chosen.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from rflaf.errors import InvalidParameterError
from rflaf.rows.blocks import LEAST_ROWS
from rflaf.rows.opened import OpenRows, TargetScan
from rflaf.rows.progress import Begin, PassDisplay, Quiet
from rflaf.rows.tables import (
    NumberColumn,
    TableEncoding,
    TableSummary,
    TargetEncoding,
    add_rows,
    level_sums,
    require_arrow,
    summarise,
    target_parts,
)
from rflaf.rows.tables.decisions import choose

from .chunks import chosen, column_names, read_masked, read_rows
from .first_scan import (
    LEAST_BYTES,
    encoding_of,
    in_column,
    refuse_less,
    refuse_weightless,
    scan_targets,
    write_inputs,
)
from .parquet_rows import ParquetRows, RowGroup, index_files
from .source import FEW_COUNTED, FileSource, Reader, states_of
from .table import Request, ScannedTable, Table, distinct, find_files, refuse_absent, refuse_other_type

_LEAST_BYTES, _MOST_BYTES = 2**16, 2**24  # of a file that are parsed at once
_BLOCKS_AHEAD = 44  # that Arrow holds, on their way and parsed
_LOOKED_AT = 20_000  # rows in which a column may give the target away
_LEVELS_BYTES = 5 * 2**18  # of a column, for the levels that are counted
_WRITER_BYTES = 3 * 2**22  # for rows as numbers, and on their way to the disk
_ENOUGH_BYTES = 2**24  # of rows that are written together, where the memory is not given


def scan_table(table: Table, target: str, begin: Begin = Quiet, memory: int | None = None) -> ScannedTable:
    """Summarise all columns of a table in one pass: the target over all rows, the others over the chosen rows."""
    files, block_bytes = find_files(table.paths), _block_bytes(table, memory)
    seen = states_of(files)
    return ScannedTable(table, _summarise_files(files[0], table, block_bytes, begin, whole=target), seen)


def open_converted(request: Request, reader: Reader) -> OpenRows:
    """Open files that are copied as numbers to a temporary file."""
    table, encoding, summary = request.table, request.encoding, request.summary
    block_bytes = _block_bytes(table, reader.memory)
    reader.watch(request.files, request.seen)
    if summary is None and (encoding is None or request.targets):
        needed = distinct(*request.inputs(column_names(table)), *request.beside)
        summary = _summarise_files(request.files[0], table, block_bytes, reader.begin, needed)
    if encoding is None:
        assert summary is not None
        encoding = encoding_of(request, summary, request.inputs(list(summary.columns)))
    targets = [_target_of(request, name, summary) for name in request.targets]
    if request.encoding is None and targets:
        assert summary is not None
        encoding = _with_statistics(request, encoding, summary, targets, block_bytes)
        encoding = _suspecting(request, encoding, targets, block_bytes)
    columns, seen = _Columns(encoding, targets, request.weight), TargetScan()
    folder = reader.exits.enter_context(tempfile.TemporaryDirectory(prefix="rflaf-"))
    n_rows = None if summary is None else summary.n_rows
    at_once = max(LEAST_ROWS, (_ENOUGH_BYTES if block_bytes is None else LEAST_BYTES) // columns.row_bytes)
    with reader.begin("write as numbers", n_rows, n_rows) as display:
        shown, first = {}, 0
        pairs_of_files = read_rows(table, block_bytes, columns.needed)
        for number, (file, pairs) in enumerate(groupby(pairs_of_files, key=lambda pair: pair[0])):
            path = os.path.join(folder, f"{number}.parquet")
            group = RowGroup(path, file, 0, first, 0)
            first = _convert((chunk for _, chunk in pairs), at_once, group, columns, seen, request, display)
            if os.path.exists(path):
                shown[path] = file
    _refuse_no_rows(request.files[0], table, bool(shown))
    reader.check_unchanged()
    reader.watch([])  # what is read from now on is the copy
    refuse_weightless(seen, request)
    groups, _ = index_files(list(shown), shown)
    plain = [f"input {j}" for j in range(len(encoding.feature_names))]
    as_written = TableEncoding(tuple(NumberColumn(name, 0.0, False) for name in plain))
    names, dtype = tuple(request.targets), np.dtype(np.float64)
    storage = ParquetRows(groups, as_written, names, request.weight, dtype, request.labels)
    reader.exits.callback(storage.close)
    target = targets[0] if len(targets) == 1 else None
    return OpenRows(FileSource(storage, reader), encoding.feature_names, seen, False, encoding, target, reader.close)


def _with_statistics(
    request: Request,
    encoding: TableEncoding,
    summary: TableSummary,
    targets: list[TargetEncoding],
    block_bytes: int | None,
) -> TableEncoding:
    """Return the encoding with the target's means by level where a column has many; that takes one more pass."""
    levels = list(summary.columns[targets[0].name].levels or {}) if request.labels else []
    parts, as_numbers = target_parts(
        np.array(levels) if request.labels else np.empty((0, len(targets))), request.labels
    )
    sums = level_sums(encoding, summary, parts)
    if not sums or (request.labels and not levels):
        return encoding
    columns, first = _Columns(encoding, targets, request.weight), 0
    for file, chunk in read_rows(request.table, block_bytes, distinct(*sums, *request.beside)):
        if chunk.num_rows:
            found = columns.beside(chunk, RowGroup(file, file, 0, 0, 0))
            Y = as_numbers(np.column_stack([found[target.name] for target in targets]))
            weight = None if request.weight is None else found[request.weight]
            add_rows(sums, chunk, encoding.missing, first, Y, weight)
            first += chunk.num_rows
    return encoding.with_statistics({name: of_column.finish() for name, of_column in sums.items()})


def _suspecting(
    request: Request, encoding: TableEncoding, targets: list[TargetEncoding], block_bytes: int | None
) -> TableEncoding:
    """Return the encoding with a warning of columns that give the target away in the first rows."""
    columns = _Columns(encoding, targets, None)
    for file, chunk in read_rows(request.table, block_bytes, columns.needed):
        if chunk.num_rows:
            rows = chunk.slice(0, _LOOKED_AT)
            inputs, beside = columns.of(rows, RowGroup(file, file, 0, 0, 0))
            found = np.column_stack([beside[target.name] for target in targets])
            _, as_numbers = target_parts(found, request.labels)
            return encoding.suspecting(np.column_stack(list(inputs.values())), as_numbers(found))
    return encoding


def _block_bytes(table: Table, memory: int | None) -> int | None:
    """Return how much of a file to parse at once, beside the levels of every column that are counted."""
    if memory is None:
        return None
    files = find_files(table.paths)
    levels = min(len(files), 2) * _LEVELS_BYTES * len(column_names(table))
    refuse_less(memory, levels + _WRITER_BYTES + _BLOCKS_AHEAD * _LEAST_BYTES)
    return min(_MOST_BYTES, (memory - levels - _WRITER_BYTES) // (_BLOCKS_AHEAD + 1))


def _summarise_files(
    first: str,
    table: Table,
    block_bytes: int | None,
    begin: Begin,
    needed: list[str] | None = None,
    whole: str | None = None,
) -> TableSummary:
    """Return the summary of the needed columns in all files, of all columns by default."""
    total = TableSummary({})
    with begin("look at every value", None, None) as display:
        for file, triples in groupby(read_masked(table, block_bytes), key=lambda triple: triple[0]):
            found = TableSummary({})
            for _, chunk, mask in triples:
                most = None if block_bytes is None else FEW_COUNTED
                part = _summarise_chunk(chunk, mask, table, whole, most, found)
                found = found + part if found.columns else part
                display.advance(chunk.num_rows)
            _refuse_no_rows(file, table, found.n_rows > 0)
            needed = list(found.columns) if needed is None else needed
            found = _checked(file, found, first, total if total.columns else found, needed)
            total = total + found if total.columns else found
    return total


def _summarise_chunk(
    chunk: Any, mask: Any, table: Table, whole: str | None, most: int | None, after: TableSummary
) -> TableSummary:
    """Return the summary of the chosen rows; that of the column ``whole``, the last one, is of all rows."""
    others = [name for name in chunk.column_names if name != whole]
    part = summarise(chosen(chunk.select(others), mask), table.missing, table.categories, most, after)
    if whole is None:
        return part
    of_whole = summarise(chunk.select([whole]), table.missing, most=most, after=after)
    return replace(part, columns={**part.columns, **of_whole.columns})


def _refuse_no_rows(file: str, table: Table, some: bool) -> None:
    if not some and table.rows is not None:
        rule = "the rows must be enough to hold some out"
        raise InvalidParameterError(rule, f"none left of {file}", "Use another share.")
    if not some:
        raise InvalidParameterError("every file must have rows", f"{file}, which has none", "Leave it out.")


def _checked(file: str, summary: TableSummary, first: str, expected: TableSummary, needed: list[str]) -> TableSummary:
    """Return the needed columns, which a file must have, of the kinds they have in the first file."""
    for name in needed:
        refuse_absent(name, file, list(summary.columns))
        here, there = summary.columns[name].kind, expected.columns[name].kind
        if "empty" not in (here, there):
            refuse_other_type(name, (file, here), (first, there))
    return summary.select(needed)


def _target_of(request: Request, name: str, summary: TableSummary | None) -> TargetEncoding:
    assert summary is not None  # targets are always summarised
    column = summary.columns[name]
    if not request.labels:
        choice = choose(name, summary, False, None) if column.kind == "category" else None
        styled = choice is not None and choice.kind == "number" and not choice.words
        return TargetEncoding(name, "regression", "number", "", choice.reading if choice and styled else "number")
    if column.kind == "number" and not column.n_truths and not column.numbers.whole:
        rule = "labels must be texts, whole numbers or truth values"
        raise InvalidParameterError(rule, f"fractions in {request.files[0]}, column {name!r}", "Regress them.")
    values = "truth" if column.n_truths else "whole" if column.kind == "number" else "text"
    return TargetEncoding(name, "classification", values)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a table as numbers, and labels as they are."""

    encoding: TableEncoding
    targets: list[TargetEncoding]
    weight: str | None

    @property
    def needed(self) -> list[str]:
        """The columns of the table."""
        return distinct(*self.encoding.column_names, *(target.name for target in self.targets), self.weight)

    @property
    def repeating(self) -> list[str]:
        """The columns of numbers that hold few different ones, as codes and flags do."""
        kinds = [(column.kind, at) for column in self.encoding.columns for at in range(len(column.feature_names))]
        labels = [target.name for target in self.targets if target.task == "classification"]
        return [*(f"input {j}" for j, (kind, at) in enumerate(kinds) if kind != "number" or at), *labels]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row while it is encoded and written."""
        return 24 * (len(self.encoding.feature_names) + 2) + 160 * len(self.targets)

    def of(self, rows: Any, group: RowGroup) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the inputs of some rows, and their targets and weights, by name."""
        X = np.zeros((rows.num_rows, len(self.encoding.feature_names)))
        write_inputs(rows, self.encoding, X, group, group.first if self.targets else None)
        return {f"input {j}": X[:, j] for j in range(X.shape[1])}, self.beside(rows, group)

    def beside(self, rows: Any, group: RowGroup) -> dict[str, Any]:
        """Return the targets and weights of some rows, by name."""
        weights = [] if self.weight is None else [TargetEncoding(self.weight, "regression", "number")]
        found = {}
        for column in (*self.targets, *weights):
            with in_column(column.name, group):
                found[column.name] = column.read(rows, self.encoding.missing)
        return found


def _convert(
    chunks: Iterator[Any],
    at_once: int,
    group: RowGroup,
    columns: _Columns,
    seen: TargetScan,
    request: Request,
    display: PassDisplay,
) -> int:
    """Write the rows of a file as numbers into the Parquet file of ``group``, and return the number of the next row."""
    pa = require_arrow()
    import pyarrow.parquet as pq

    writer = None
    with ExitStack() as exits:
        for chunk in chunks:
            for name in columns.encoding.column_names:
                refuse_absent(name, group.file, chunk.column_names)
            for start in range(0, chunk.num_rows, at_once):
                rows = chunk.slice(start, at_once)
                inputs, beside = columns.of(rows, group)
                seen += scan_targets(beside, request, group)
                written = pa.table(inputs | beside)
                if writer is None:
                    repeating = columns.repeating  # all others take most of the time where they are looked up
                    made = pq.ParquetWriter(group.path, written.schema, use_dictionary=repeating)
                    writer = exits.enter_context(made)
                writer.write_table(written, row_group_size=rows.num_rows)
                display.advance(rows.num_rows)
                group = replace(group, number=group.number + 1, first=group.first + rows.num_rows)
    return group.first
