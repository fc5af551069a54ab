"""Row groups of Parquet files: found in the footers, and read as Arrow batches from any row on.

Footers say how many rows every row group has, so a row is found at once, however the files are cut.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.rows.tables import require_arrow

_PAGE_BYTES = 3 * 2**20  # of a column, that its pages take while they are decoded
_PAGES = 2**16  # bytes of a column chunk that are buffered


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Consecutive rows of one file. ``path`` is read; ``file`` is named where something is wrong.

    ``column_bytes`` is the size of the largest column.
    """

    path: str
    file: str
    number: int
    first: int
    n_rows: int
    column_bytes: int = 0

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
    """Reads row groups from any row on; consecutive reads continue without seeking."""

    def __init__(self, groups: tuple[RowGroup, ...], columns: list[str]) -> None:
        self._groups, self._columns = groups, columns
        self._firsts = [group.first for group in groups]
        self._at = -1
        self._batches: Iterator[tuple[RowGroup, Any]] = iter(())
        self._left: tuple[RowGroup, Any] | None = None

    def read(self, start: int, stop: int, at_once: int) -> Iterator[tuple[RowGroup, Any]]:
        """Arrow batches of rows start to stop, with the row group each is from."""
        if start != self._at:
            self._batches, self._left = self._from(start, at_once), None
        self._at = -1  # until all is well
        missing = stop - start
        while missing:
            group, batch = self._left or next(self._batches)
            taken = min(missing, batch.num_rows)
            self._left = (group, batch.slice(taken)) if taken < batch.num_rows else None
            missing -= taken
            yield group, batch.slice(0, taken)
        self._at = stop

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
        of_file = list(inside)
        yield from _batches_of_file(path, of_file, columns, at_once)


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
    for group in groups:
        for column in columns:
            try:
                with _open_parquet(group.path, group.file) as file:
                    file.read_row_group(group.number, columns=[column])
            except (pa.ArrowException, OSError, InvalidParameterError):
                where = f"{group}, column {column!r}"
                break
        else:
            continue
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
