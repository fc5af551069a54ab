"""Rows of Parquet files, checked in one pass and encoded while they are read.

Footers say how many rows every row group has, so a row is found at once, however the files are cut.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product, starmap
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.rows.blocks import ArraySource, Block, Parts, stack
from rflaf.rows.opened import OpenRows, TargetScan
from rflaf.rows.tables import TableEncoding, TableSummary, TargetEncoding, clean, require_arrow, summarise
from rflaf.rows.tables.pandas_notes import index_columns

from . import first_scan
from .source import FEW_COUNTED, FileSource, Reader, fingerprint_of
from .table import Request, distinct, refuse_absent, refuse_other_type

_PAGE_BYTES = 3 * 2**20  # of a column, that its pages take while they are decoded
_PAGES = 2**16  # bytes of a column chunk that are buffered
_NUMBER_BYTES, _TEXT_BYTES = 20, 160  # of a value while it is checked, decoded and as it is
_PART_ROWS = 2**16  # that a worker of a cluster reads at once, or a row group if that has more


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Consecutive rows of one file. ``path`` is read; ``file`` is named where something is wrong."""

    path: str
    file: str
    number: int
    first: int
    n_rows: int
    column_bytes: int = 0  # size of the largest column

    def __str__(self) -> str:
        return f"{self.file}, row group {self.number}"


def index_files(files: list[str], names: dict[str, str]) -> tuple[tuple[RowGroup, ...], list[Any]]:
    """Return the row groups of Parquet files and their schemas; ``names`` are the names to show where they differ."""
    groups: list[RowGroup] = []
    schemas = []
    first = 0
    for path in files:
        file = names.get(path, path)
        with _open_parquet(path, file) as opened:
            footer = opened.metadata
            if footer.num_rows == 0:
                raise InvalidParameterError("every file must have rows", f"{file}, which has none", "Leave it out.")
            schemas.append(opened.schema_arrow)
            for number in range(footer.num_row_groups):
                about = footer.row_group(number)
                largest = max(about.column(j).total_uncompressed_size for j in range(about.num_columns))
                if about.num_rows:
                    groups.append(RowGroup(path, file, number, first, about.num_rows, largest))
                    first += about.num_rows
    return tuple(groups), schemas


class Cursor:
    """Reads row groups from any row on; consecutive reads continue without seeking.

    Batches are encoded whole, since many rows take little more time than few.
    """

    def __init__(self, groups: tuple[RowGroup, ...], columns: list[str]) -> None:
        self._groups, self._columns = groups, columns
        self._firsts = [group.first for group in groups]
        self._at = -1
        self._batches: Iterator[Block] = iter(())
        self._left: Block | None = None

    def read(self, start: int, stop: int, at_once: int, encode: Callable[[RowGroup, Any], Block]) -> Block:
        """Return rows start to stop, which share memory with the rows after them where one batch has them all."""
        if start != self._at:
            self._batches, self._left = starmap(encode, self._from(start, at_once)), None
        self._at = -1  # until all is well
        found, missing = [], stop - start
        while missing:
            some = self._left or next(self._batches)
            self._left = some.part(missing, some.n_rows) if missing < some.n_rows else None
            found.append(some.part(0, missing))
            missing -= found[-1].n_rows
        self._at = stop
        return found[0] if len(found) == 1 else stack(found)

    def close(self) -> None:
        """Close the file that is being read."""
        self._batches, self._left, self._at = iter(()), None, -1

    def _from(self, start: int, at_once: int) -> Iterator[tuple[RowGroup, Any]]:
        first = bisect_right(self._firsts, start) - 1
        skip = start - self._firsts[first]
        for group, batch in batches(self._groups[first:], self._columns, at_once):
            unread = min(skip, batch.num_rows)
            skip -= unread
            if unread < batch.num_rows:
                yield group, batch.slice(unread)


def batches(groups: Sequence[RowGroup], columns: list[str], at_once: int) -> Iterator[tuple[RowGroup, Any]]:
    """All rows of row groups, at most ``at_once`` together, with the row group they are from."""
    for path, inside in groupby(groups, key=lambda group: group.path):
        yield from _batches_of_file(path, list(inside), columns, at_once)


def _batches_of_file(
    path: str, groups: list[RowGroup], columns: list[str], at_once: int
) -> Iterator[tuple[RowGroup, Any]]:
    pa = require_arrow()
    at, left = 0, groups[0].n_rows
    with _open_parquet(path, groups[0].file) as file:
        batches = file.iter_batches(at_once, row_groups=[group.number for group in groups], columns=columns)
        while True:
            try:
                batch = next(batches, None)
            except (pa.ArrowException, OSError) as error:
                raise _unreadable(groups[at:], columns, error) from error
            if batch is None:
                return
            while batch.num_rows:
                if left == 0:
                    at += 1
                    left = groups[at].n_rows
                part = batch.slice(0, left)
                left -= part.num_rows
                batch = batch.slice(part.num_rows)
                yield groups[at], part


def page_bytes(groups: tuple[RowGroup, ...], n_columns: int) -> int:
    """Return the bytes that reading takes beside the rows read: pages of every column."""
    return n_columns * min(_PAGE_BYTES, 2 * max(group.column_bytes for group in groups))


def picked(
    groups: tuple[RowGroup, ...], rows: Array, columns: list[str], at_once: int
) -> Iterator[tuple[RowGroup, Any]]:
    """The rows with these numbers, batch by batch; row groups without any are not read."""
    pa = require_arrow()
    ends = np.array([group.first + group.n_rows for group in groups])
    wanted = [groups[i] for i in np.unique(np.searchsorted(ends, rows, side="right"))]
    before, start = None, 0
    for group, batch in batches(wanted, columns, at_once):
        start = group.first if group is not before else start
        begin, end = np.searchsorted(rows, (start, start + batch.num_rows))
        if begin < end:
            yield group, batch.take(pa.array(rows[begin:end] - start))
        before, start = group, start + batch.num_rows


def _unreadable(groups: list[RowGroup], columns: list[str], error: Exception) -> InvalidParameterError:
    """Return the error of the reader with file, row group and column."""
    pa = require_arrow()
    where = str(groups[0])
    for group, column in product(groups, columns):
        try:
            with _open_parquet(group.path, group.file) as file:
                file.read_row_group(group.number, columns=[column])
        except (pa.ArrowException, OSError, InvalidParameterError):
            where = f"{group}, column {column!r}"
            break
    return InvalidParameterError(
        "every row group must be readable", f"{where}: {error}", "Write the file again, or leave it out."
    )


def _open_parquet(path: str, file: str) -> Any:
    pa = require_arrow()
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, buffer_size=_PAGES, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise InvalidParameterError(
            "every file must be a whole Parquet file", f"{file}: {error}", "Write the file again, or leave it out."
        ) from error


@dataclass(frozen=True)
class ParquetRows:
    """Rows of Parquet files: row groups in order, the encoding of inputs, names of targets and weight."""

    groups: tuple[RowGroup, ...]
    encoding: TableEncoding
    targets: tuple[str, ...]
    weight: str | None
    dtype: np.dtype[Any]
    labels: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "_cursor", Cursor(self.groups, self.needed))
        object.__setattr__(self, "_width", len(self.encoding.feature_names))

    @property
    def needed(self) -> list[str]:
        return distinct(*self.encoding.column_names, *self.targets, self.weight)

    @property
    def n_samples(self) -> int:
        return self.groups[-1].first + self.groups[-1].n_rows

    @property
    def n_features(self) -> int:
        width: int = self._width  # type: ignore[attr-defined]
        return width

    @property
    def n_outputs(self) -> int:
        return len(self.targets)

    @property
    def reading_bytes(self) -> int:
        return page_bytes(self.groups, len(self.needed))

    def fingerprint(self) -> int:
        files = dict.fromkeys(group.file for group in self.groups)
        return fingerprint_of([*files], (self.encoding.to_dict(), self.targets, self.weight))

    def read(self, start: int, stop: int, at_once: int) -> Block:
        cursor: Cursor = self._cursor  # type: ignore[attr-defined]
        return cursor.read(start, stop, at_once, lambda group, batch: self._block([(group, batch)], batch.num_rows))

    def close(self) -> None:
        """Close the file that is being read, so that a temporary one is gone when its folder is."""
        cursor: Cursor = self._cursor  # type: ignore[attr-defined]
        cursor.close()

    def take(self, rows: Array, at_once: int, advance: Callable[[int], None]) -> Block:
        return self._block(picked(self.groups, rows, self.needed, at_once), rows.size, advance)

    def parts(self, block_rows: int) -> Parts | None:
        """Neighbouring row groups that are read whole, by whoever sees the files; none of a temporary copy."""
        if any(group.path != group.file for group in self.groups):
            return None
        handles: list[tuple[RowGroup, ...]] = [()]
        for group in self.groups:
            if sum(before.n_rows for before in handles[-1]) >= _PART_ROWS:
                handles.append(())
            handles[-1] += (group,) if group.n_rows else ()
        handles = [groups for groups in handles if groups]
        shell = replace(self, groups=())

        def opened(groups: tuple[RowGroup, ...]) -> ArraySource:
            first = groups[0].first
            part = replace(shell, groups=tuple(replace(group, first=group.first - first) for group in groups))
            block = part.read(0, part.n_samples, part.n_samples)
            return ArraySource(block.X, block.y, block.weight, block_rows, first)

        sizes = [-(-sum(group.n_rows for group in groups) // block_rows) for groups in handles]
        return Parts(handles, sizes, opened)

    def _block(
        self, parts: Iterable[tuple[RowGroup, Any]], n_rows: int, advance: Callable[[int], None] = lambda _: None
    ) -> Block:
        X = np.zeros((n_rows, self.n_features), self.dtype)
        y: Array = np.empty((n_rows, self.n_outputs), object if self.labels else np.float64)
        weight = None if self.weight is None else np.empty(n_rows, self.dtype)
        first = 0
        for group, batch in parts:
            rows = slice(first, first + batch.num_rows)
            first = rows.stop
            first_scan.write_inputs(batch, self.encoding, X[rows], group)
            for j, name in enumerate(self.targets):
                column = batch.column(name)
                y[rows, j] = first_scan.labels_of(batch, name, group) if self.labels else first_scan.numbers_of(column)
            if weight is not None:
                weight[rows] = first_scan.numbers_of(batch.column(self.weight))
            advance(batch.num_rows)
        return Block(X, y, weight)


def open_parquet(request: Request, reader: Reader, wide: Callable[[Request, Reader], OpenRows]) -> OpenRows:
    """Open Parquet files, scanned once unless they are only to be predicted.

    ``wide`` opens tables with columns of many levels, whose statistics of the target depend on the row.
    """
    files, targets, encoding = request.files, request.targets, request.encoding
    reader.watch(files, request.seen)
    groups, schemas = index_files(files, {})
    _check_schemas(files, schemas, request.beside)
    _check_schemas(files, schemas, request.inputs(schemas[0].names))
    seen = TargetScan()
    if encoding is None or targets:
        encoding, seen, summary = reader.pool.submit(scan, groups, schemas[0], request, reader).result()
        if (
            request.encoding is None
            and targets
            and any(getattr(column, "others", False) for column in encoding.columns)
        ):
            return wide(replace(request, summary=summary), reader)
    types = [schema.field(name).type for schema in schemas for name in encoding.column_names]
    single = all(str(kind) in ("float", "halffloat") for kind in types)
    dtype = np.dtype(np.float32 if single else np.float64)
    storage = ParquetRows(groups, encoding, tuple(targets), request.weight, dtype, request.labels)
    reader.exits.callback(storage.close)
    source, target = FileSource(storage, reader), _target_of(request, schemas[0])
    return OpenRows(source, encoding.feature_names, seen, False, encoding, target, reader.close)


def scan(
    groups: tuple[RowGroup, ...], schema: Any, request: Request, reader: Reader
) -> tuple[TableEncoding, TargetScan, TableSummary]:
    """Check every value of Parquet files once, and learn how to encode the inputs unless that is known."""
    inputs, targets, summary = request.inputs(schema.names), TargetScan(), TableSummary({})
    most = None if reader.memory is None else FEW_COUNTED
    columns = distinct(*inputs, *request.beside)
    at_once = first_scan.rows_together(_row_bytes(schema, columns), page_bytes(groups, len(columns)), reader.memory)
    n_rows, learn = sum(group.n_rows for group in groups), request.encoding is None and request.summary is None
    with reader.begin("look at every value", n_rows, n_rows) as display:
        for group, batch in batches(groups, columns, at_once):
            _check_inputs(batch, inputs, group)
            if learn:
                part = summarise(batch.select(columns), request.table.missing, request.table.categories, most, summary)
                summary = summary + part if summary.columns else part
            targets += first_scan.scan_targets(_beside(batch, request, group), request, group)
            display.advance(batch.num_rows)
    first_scan.refuse_weightless(targets, request)
    summary = request.summary or replace(summary, index=index_columns(schema.metadata))
    return request.encoding or first_scan.encoding_of(request, summary, inputs), targets, summary


def _row_bytes(schema: Any, columns: list[str]) -> int:
    n_numbers = sum(first_scan.is_numeric(schema.field(name).type) for name in columns)
    return 64 + _NUMBER_BYTES * n_numbers + _TEXT_BYTES * (len(columns) - n_numbers)


def _check_inputs(batch: Any, inputs: list[str], group: RowGroup) -> None:
    for name in inputs:
        if first_scan.is_numeric(batch.schema.field(name).type):
            first_scan.check_finite(first_scan.numbers_of(batch.column(name)), name, group, missing=True)
        else:
            with first_scan.in_column(name, group):
                clean(name, batch.column(name).slice(0, 1))


def _beside(batch: Any, request: Request, group: RowGroup) -> dict[str, Array]:
    """Return targets and weights of a batch, by name."""
    of_target = first_scan.labels_of if request.labels else _target
    columns = {name: of_target(batch, name, group) for name in request.targets}
    if request.weight is not None:
        columns[request.weight] = first_scan.numbers_of(batch.column(request.weight))
    return columns


def _target(batch: Any, name: str, group: RowGroup) -> Array:
    """Return a column of numbers, all of them known."""
    column = batch.column(name)
    if not first_scan.is_numeric(column.type):
        raise first_scan.wrong(
            "targets must be numbers", f"{column.type}", group, name, "Use RFLAFClassifier for labels."
        )
    values = first_scan.numbers_of(column)
    if np.isnan(values).any():
        raise first_scan.wrong("targets must be known in every row", "a missing value", group, name, "Drop those rows.")
    return values


def _target_of(request: Request, schema: Any) -> TargetEncoding | None:
    """Return the encoding of a single target, from its type."""
    if len(request.targets) != 1:
        return None
    types, kind = require_arrow().types, schema.field(request.targets[0]).type
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if not request.labels:
        return TargetEncoding(request.targets[0], "regression", "number")
    values = "whole" if types.is_integer(kind) else "truth" if types.is_boolean(kind) else "number"
    return TargetEncoding(request.targets[0], "classification", values if first_scan.is_numeric(kind) else "text")


def _check_schemas(files: list[str], schemas: list[Any], needed: list[str]) -> None:
    """Every file must have the columns, of one kind."""
    for file, schema in zip(files, schemas, strict=True):
        for name in needed:
            refuse_absent(name, file, schema.names)
            here, first = schema.field(name).type, schemas[0].field(name).type
            if _kind_of_type(here) != _kind_of_type(first):
                refuse_other_type(name, (file, here), (files[0], first))


def _kind_of_type(kind: Any) -> str:
    types = require_arrow().types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if first_scan.is_numeric(kind):
        return "number"
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return "text" if text else "date" if types.is_temporal(kind) else str(kind)
