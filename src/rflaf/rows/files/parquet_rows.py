"""Rows of Parquet files, encoded while they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rflaf.errors import Array
from rflaf.rows.blocks import ArraySource, Block, Parts
from rflaf.rows.opened import OpenRows, TargetScan
from rflaf.rows.tables import TableEncoding, TargetEncoding, require_arrow

from .first_scan import is_numeric, labels_of, numbers_of, scan, write_inputs
from .row_groups import Cursor, RowGroup, index_files, page_bytes, picked
from .source import FileSource, Reader, fingerprint_of, opened_files
from .table import Request, distinct, refuse_absent, refuse_other_type

_PART_ROWS = 2**16  # that a worker of a cluster reads at once, or a row group if that has more


@dataclass(frozen=True)
class ParquetRows:
    """Rows of Parquet files.

    Attributes
    ----------
    groups : the row groups, in order
    encoding : how columns become inputs
    targets, weight : names of columns; labels are left as they are
    """

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
        return self._block(cursor.read(start, stop, at_once), stop - start)

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
        self, parts: Iterator[tuple[RowGroup, Any]], n_rows: int, advance: Callable[[int], None] = lambda _: None
    ) -> Block:
        X = np.zeros((n_rows, self.n_features), self.dtype)
        y: Array = np.empty((n_rows, self.n_outputs), object if self.labels else np.float64)
        weight = None if self.weight is None else np.empty(n_rows, self.dtype)
        first = 0
        for group, batch in parts:
            rows = slice(first, first + batch.num_rows)
            first = rows.stop
            write_inputs(batch, self.encoding, X[rows], group)
            for j, name in enumerate(self.targets):
                y[rows, j] = labels_of(batch, name, group) if self.labels else numbers_of(batch.column(name))
            if weight is not None:
                weight[rows] = numbers_of(batch.column(self.weight))
            advance(batch.num_rows)
        return Block(X, y, weight)


def open_parquet(request: Request, reader: Reader) -> OpenRows:
    """Open Parquet files, scanned once unless they are only to be predicted."""
    files, targets, encoding = request.files, request.targets, request.encoding
    groups, schemas = index_files(files, {})
    _check_schemas(files, schemas, request.beside)
    _check_schemas(files, schemas, request.inputs(schemas[0].names))
    seen = TargetScan()
    if encoding is None or targets:
        encoding, seen = reader.pool.submit(scan, groups, schemas[0], request, reader).result()
    types = [schema.field(name).type for schema in schemas for name in encoding.column_names]
    single = all(str(kind) in ("float", "halffloat") for kind in types)
    dtype = np.dtype(np.float32 if single else np.float64)
    storage = ParquetRows(groups, encoding, tuple(targets), request.weight, dtype, request.labels)
    return opened_files(FileSource(storage, reader), encoding, seen, _target_of(request, schemas[0]))


def _target_of(request: Request, schema: Any) -> TargetEncoding | None:
    """Return the encoding of a single target, from its type."""
    if len(request.targets) != 1:
        return None
    types, kind = require_arrow().types, schema.field(request.targets[0]).type
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if not request.labels:
        return TargetEncoding(request.targets[0], "regression", "number")
    values = "whole" if types.is_integer(kind) else "truth" if types.is_boolean(kind) else "number"
    return TargetEncoding(request.targets[0], "classification", values if is_numeric(kind) else "text")


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
    if is_numeric(kind):
        return "number"
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return "text" if text else "date" if types.is_temporal(kind) else str(kind)
