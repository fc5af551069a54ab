"""Rows in files: Parquet, CSV and NumPy files, read block by block and never whole. Needs the extra ``files``.

``fit("folder/*.parquet", "target")`` takes a file, a folder, a pattern or a list of them; `Table` chooses columns too.
Footers are read first: they say how many rows every row group has, so that block i is found at once and blocks do not
depend on how the files are cut. One cheap pass then looks at every value: numbers must be finite, levels of categories
are counted, means are taken to fill gaps with (`rflaf.tables`). Every later pass reads again, one thread ahead of those
who compute by a few blocks. A CSV file is parsed twice, to see its values and to write them as numbers into a temporary
Parquet file, which is removed after the fit.

Whatever is wrong with a value is told with its file, row group and column.
"""

from __future__ import annotations

import glob
import os
import tempfile
import threading
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from .blocks import LEAST_ROWS, MOST_ROWS, ArraySource, Block, Parts
from .errors import InvalidParameterError
from .reading import read_chunks
from .tables import (
    NumberColumn,
    TableEncoding,
    TableSummary,
    TargetEncoding,
    clean,
    make_encoding,
    require_arrow,
    summarise,
)

Array = NDArray[Any]
_AHEAD, _AHEAD_BYTES = 8, 2**25  # blocks read before they are asked for, at most; as many are decoded at a time
_DECODED_BYTES = 2**22  # at a time, where rows are only looked at
_PAGE_BYTES = 3 * 2**20  # of a column, that its pages take while they are decoded
_PARQUET, _CSV, _NUMPY = (".parquet", ".pq", ".parq"), (".csv", ".tsv", ".csv.gz", ".tsv.gz"), (".npy",)
_PART_ROWS = 2**16  # that a worker of a cluster reads at once, or a row group if that has more
_PAGES = 2**16  # bytes of a column chunk that are buffered


@dataclass(frozen=True)
class Table:
    """Files of one table, and which of their columns are inputs.

    ``paths`` is a file, a folder, a pattern such as ``"data/*.parquet"`` or a list of them, all of one kind;
    ``columns`` the names of the inputs in order, all columns but target and weight where it is None.

    >>> Table("data/*.parquet", columns=["age", "height"]).columns
    ['age', 'height']
    """

    paths: Any
    columns: Sequence[str] | None = None


def is_files(X: Any) -> bool:
    """Whether rows are given as files: a `Table`, a path, or a list of paths."""
    if isinstance(X, list | tuple):
        return bool(X) and all(isinstance(path, str | os.PathLike) for path in X)
    return isinstance(X, Table | str | os.PathLike)


def find_files(paths: Any) -> list[str]:
    """The files that paths, folders and patterns name, in order."""
    found: list[str] = []
    for path in paths if isinstance(paths, list | tuple) else [paths]:
        name = os.fspath(path)
        if os.path.isdir(name):
            inside = sorted(str(file) for file in Path(name).rglob("*") if str(file).endswith(_PARQUET + _CSV))
        else:
            inside = [name] if os.path.exists(name) else sorted(glob.glob(name, recursive=True))
        if not inside:
            raise InvalidParameterError(
                "X must name files that are there", name, "Check the path; a folder must hold .parquet or .csv files."
            )
        found += inside
    kinds = {_kind(file) for file in found}
    if len(kinds) > 1:
        raise InvalidParameterError("all files of a table must be of one kind", sorted(kinds), "Name them by pattern.")
    return found


def _kind(file: str) -> str:
    for kind, endings in (("Parquet", _PARQUET), ("CSV", _CSV), ("NumPy", _NUMPY)):
        if file.lower().endswith(endings):
            return kind
    raise InvalidParameterError(
        "files must end in .parquet, .csv, .tsv or .npy", file, "Convert the file, or pass its rows as an array."
    )


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


class Storage(Protocol):
    """Rows that can be read from anywhere, and fast in order. Only one thread reads."""

    @property
    def n_samples(self) -> int: ...

    @property
    def n_features(self) -> int: ...

    @property
    def n_outputs(self) -> int: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def read(self, start: int, stop: int, at_once: int) -> Block:
        """Rows start to stop; ``at_once`` rows are decoded at a time."""
        ...

    def take(self, rows: Array) -> Block:
        """Rows by their numbers, which increase."""
        ...

    def fingerprint(self) -> int:
        """A number that changes with the files."""
        ...

    @property
    def reading_bytes(self) -> int:
        """What reading takes beside the rows that are read."""
        ...


class Reader:
    """One thread that reads, shared by all cuts of a table into blocks, and what must be removed after it."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="rflaf-reader")
        self.exits = ExitStack()

    def close(self) -> None:
        self.pool.shutdown(wait=True, cancel_futures=True)
        self.exits.close()


class _Ahead:
    """Blocks made in order by the reader, some before they are asked for.

    Workers of one pass ask for neighbouring blocks, not quite in order; who asks for another part starts there.
    """

    def __init__(self, n_blocks: int, make: Callable[[int], Block], pool: ThreadPoolExecutor, ahead: int) -> None:
        self._n_blocks, self._make, self._pool, self._ahead = n_blocks, make, pool, ahead
        self._coming: dict[int, Future[Block]] = {}
        self._next = 0
        self._lock = threading.Lock()

    def __getitem__(self, index: int) -> Block:
        with self._lock:
            if index not in self._coming:
                begun = self._next if self._next < self._n_blocks else 0  # the next pass begins at the first block
                if not begun <= index <= begun + self._ahead:
                    self._forget()
                    begun = index
                self._ask(begun, index + 1)
            future = self._coming.pop(index)
            self._ask(self._next, min(index + 1 + self._ahead, self._n_blocks))
        return future.result()

    def _ask(self, start: int, stop: int) -> None:
        for index in range(start, stop):
            self._coming[index] = self._pool.submit(self._make, index)
            self._next = index + 1

    def _forget(self) -> None:
        for future in self._coming.values():
            future.cancel()
        self._coming.clear()


@dataclass(frozen=True)
class FileSource:
    """Blocks of a table that is in files."""

    storage: Storage
    reader: Reader = field(repr=False)
    block_rows: int = MOST_ROWS

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ahead", _Ahead(len(self), self._read, self.reader.pool, self.n_ahead))

    @property
    def n_samples(self) -> int:
        return self.storage.n_samples

    @property
    def n_features(self) -> int:
        return self.storage.n_features

    @property
    def n_outputs(self) -> int:
        return self.storage.n_outputs

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.storage.dtype

    @property
    def fingerprint(self) -> int:
        return self.storage.fingerprint()

    @property
    def reading_bytes(self) -> int:
        return self.storage.reading_bytes

    @property
    def n_ahead(self) -> int:
        """Blocks read before they are asked for."""
        return min(_AHEAD, max(1, _AHEAD_BYTES // (8 * self.n_features * self.block_rows)))

    def __len__(self) -> int:
        return -(-self.n_samples // self.block_rows)

    def __getitem__(self, index: int) -> Block:
        if not 0 <= index < len(self):
            raise IndexError(index)
        block: Block = self._ahead[index]  # type: ignore[attr-defined]
        return block

    def _read(self, index: int) -> Block:
        start = index * self.block_rows
        return self.storage.read(start, min(start + self.block_rows, self.n_samples), self.n_ahead * self.block_rows)

    @property
    def parts(self) -> Parts | None:
        """Row groups of Parquet files as a cluster reads them, each where it is summed; None for other files."""
        return self.storage.parts(self.block_rows) if isinstance(self.storage, ParquetRows) else None

    def with_rows(self, block_rows: int) -> FileSource:
        return FileSource(self.storage, self.reader, block_rows)

    def sample(self, n_rows: int, rng: np.random.Generator) -> ArraySource:
        """The rows that the same generator draws from an array, in one pass over the files that have some."""
        if n_rows >= self.n_samples:
            rows = np.arange(self.n_samples)
        else:
            rows = np.sort(rng.choice(self.n_samples, n_rows, replace=False))
        block = self.reader.pool.submit(self.storage.take, rows).result()
        return ArraySource(block.X, block.y, block.weight, self.block_rows)


# Parquet


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

    @property
    def reading_bytes(self) -> int:
        chunk = max(group.column_bytes for group in self.groups)
        return len(self.needed) * min(_PAGE_BYTES, 2 * chunk)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_cursor", _Cursor(self.groups, self.needed))
        object.__setattr__(self, "_width", len(self.encoding.feature_names))

    @property
    def needed(self) -> list[str]:
        return _distinct(*self.encoding.column_names, *self.targets, self.weight)

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

    def fingerprint(self) -> int:
        files = dict.fromkeys(group.file for group in self.groups)
        return _fingerprint([*files], (self.encoding.to_dict(), self.targets, self.weight))

    def read(self, start: int, stop: int, at_once: int) -> Block:
        cursor: _Cursor = self._cursor  # type: ignore[attr-defined]
        return self._block(cursor.read(start, stop, at_once), stop - start)

    def take(self, rows: Array) -> Block:
        return self._block(_picked(self.groups, rows, self.needed), rows.size)

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
            return ArraySource(block.X, block.y, block.weight, block_rows)

        sizes = [-(-sum(group.n_rows for group in groups) // block_rows) for groups in handles]
        return Parts(handles, sizes, opened)

    def _block(self, parts: Iterator[tuple[RowGroup, Any]], n_rows: int) -> Block:
        X = np.zeros((n_rows, self.n_features), self.dtype)
        y: Array = np.empty((n_rows, self.n_outputs), object if self.labels else np.float64)
        weight = None if self.weight is None else np.empty(n_rows, self.dtype)
        first = 0
        for group, batch in parts:
            rows = slice(first, first + batch.num_rows)
            first = rows.stop
            _write_inputs(batch, self.encoding, X[rows], group)
            for j, name in enumerate(self.targets):
                y[rows, j] = _labels(batch, name, group) if self.labels else _numbers(batch.column(name))
            if weight is not None:
                weight[rows] = _numbers(batch.column(self.weight))
        return Block(X, y, weight)


class _Cursor:
    """Reads row groups from any row on, without looking back where the next rows are those after the last."""

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
        for group, batch in _batches(self._groups[first:], self._columns, at_once):
            unread = min(skip, batch.num_rows)
            skip -= unread
            if unread < batch.num_rows:
                yield group, batch.slice(unread)


def _batches(groups: Sequence[RowGroup], columns: list[str], at_once: int) -> Iterator[tuple[RowGroup, Any]]:
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


def _picked(groups: tuple[RowGroup, ...], rows: Array, columns: list[str]) -> Iterator[tuple[RowGroup, Any]]:
    """The rows with these numbers, batch by batch; row groups without any are not read."""
    pa = require_arrow()
    ends = np.array([group.first + group.n_rows for group in groups])
    wanted = [groups[i] for i in np.unique(np.searchsorted(ends, rows, side="right"))]
    before, start = None, 0
    for group, batch in _batches(wanted, columns, max(LEAST_ROWS, _DECODED_BYTES // (8 * len(columns)))):
        start = group.first if group is not before else start
        begin, end = np.searchsorted(rows, (start, start + batch.num_rows))
        if begin < end:
            yield group, batch.take(pa.array(rows[begin:end] - start))
        before, start = group, start + batch.num_rows


def _unreadable(groups: list[RowGroup], columns: list[str], error: Exception) -> InvalidParameterError:
    """What the reader found wrong, told with file, row group and column."""
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


def _write_inputs(batch: Any, encoding: TableEncoding, out: Array, group: RowGroup) -> None:
    """Encode a batch; numbers are taken as they are, without what other columns need to be understood."""
    start = 0
    for column in encoding.columns:
        stop = start + len(column.feature_names)
        values = batch.column(column.name)
        if isinstance(column, NumberColumn) and _is_numeric(values.type):
            numbers = _numbers(values)
            if column.indicator:
                out[:, start + 1] = gaps = np.isnan(numbers)
                numbers = np.where(gaps, column.fill, numbers)
            out[:, start] = numbers
            if not column.indicator:
                _check_finite(out[:, start], column.name, group)
        else:
            with _in_column(column.name, group):
                column.write(clean(column.name, values, encoding.missing), out[:, start:stop])
        start = stop


@contextmanager
def _in_column(name: str, group: RowGroup) -> Iterator[None]:
    try:
        yield
    except InvalidParameterError as error:
        if str(group) in str(error.value):
            raise
        raise _wrong(error.rule, f"{error.value}", group, name, error.remedy) from error


def _labels(batch: Any, name: str, group: RowGroup) -> Array:
    """A column of labels."""
    column = _plain(batch.column(name))
    if column.null_count:
        raise _wrong("targets must be known in every row", "a missing value", group, name, "Drop those rows.")
    values: Array = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f" and not np.array_equal(values, np.floor(values)):
        raise _wrong("labels must be texts, whole numbers or truth values", "fractions", group, name, "Regress them.")
    return values


def _numbers(column: Any) -> Array:
    """A numeric column; missing values are NaN."""
    types = require_arrow().types
    column = _plain(column)
    if not (types.is_integer(column.type) or types.is_floating(column.type)):
        column = column.cast("float64")
    numbers: Array = column.to_numpy(zero_copy_only=False)
    return numbers


def _plain(column: Any) -> Any:
    return column.dictionary_decode() if require_arrow().types.is_dictionary(column.type) else column


def _is_numeric(kind: Any) -> bool:
    types = require_arrow().types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(test(kind) for test in tests)


def _check_finite(values: Array, name: object, where: object, missing: bool = False) -> None:
    """Refuse infinite values, and missing ones unless these are allowed."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = values.sum(dtype=np.float64)
    if np.isfinite(total):
        return
    bad = np.isinf(values) if missing else ~np.isfinite(values)
    if bad.any():
        what = "a missing value" if np.isnan(values[bad][0]) else "an infinite value"
        raise _wrong("every value must be a finite number", what, where, name, "Drop or repair those rows.")


def _check_weights(weight: Array, name: str, where: object) -> None:
    fine = np.isfinite(weight) & (weight >= 0)
    if not fine.all():
        raise _wrong("weights must be numbers, at least zero", f"{weight[~fine][0]}", where, name, "Repair those rows.")


def _wrong(rule: str, what: str, where: object, column: object, remedy: str) -> InvalidParameterError:
    return InvalidParameterError(rule, f"{what} in {where}, column {column!r}", remedy)


def _distinct(*names: str | None) -> list[str]:
    return list(dict.fromkeys(name for name in names if name is not None))


def _fingerprint(files: list[str], others: object) -> int:
    stated = [(os.path.basename(file), os.stat(file).st_size, os.stat(file).st_mtime_ns) for file in files]
    return zlib.crc32(repr((stated, others)).encode())


# What is in the files


def _index(files: list[str], names: dict[str, str]) -> tuple[tuple[RowGroup, ...], list[Any]]:
    """The row groups of Parquet files and their schemas; ``names`` are the names to show where they differ."""
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


def _check_schemas(files: list[str], schemas: list[Any], needed: list[str]) -> None:
    """Every file must have the columns, of one kind."""
    for file, schema in zip(files, schemas, strict=True):
        for name in needed:
            if schema.names.count(name) != 1:
                raise InvalidParameterError(
                    f"every file must have a column {name!r}, once",
                    f"{file} with {schema.names}",
                    "Add it, or choose columns with rflaf.files.Table.",
                )
            here, first = schema.field(name).type, schemas[0].field(name).type
            if _kind_of_type(here) != _kind_of_type(first):
                raise InvalidParameterError(
                    f"column {name!r} must be of one type in all files: {first} in {files[0]}",
                    f"{here} in {file}, row group 0, column {name!r}",
                    "Write the files with one schema.",
                )


def _kind_of_type(kind: Any) -> str:
    types = require_arrow().types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if _is_numeric(kind):
        return "number"
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return "text" if text else "date" if types.is_temporal(kind) else str(kind)


@dataclass
class _Numeric:
    """What the first pass keeps of a numeric column."""

    n_rows: int = 0
    n_missing: int = 0
    mean: float = 0.0

    def add(self, values: Array) -> None:
        gaps = int(np.isnan(values).sum()) if values.dtype.kind == "f" else 0
        known = values.size - gaps
        self.n_rows += values.size
        self.n_missing += gaps
        if known:
            mean = float(np.nanmean(values, dtype=np.float64) if gaps else values.mean(dtype=np.float64))
            self.mean += (mean - self.mean) * known / (self.n_rows - self.n_missing)


@dataclass(frozen=True)
class Scan:
    """What one pass over a table saw: how to encode its inputs, and the weight of every label."""

    encoding: TableEncoding
    label_weights: dict[Any, float]


def scan(
    groups: tuple[RowGroup, ...], schema: Any, inputs: list[str], targets: list[str], weight: str | None, labels: bool
) -> Scan:
    """Look at every value once: refuse what cannot be used, and learn how to encode the rest."""
    numeric = {name: _Numeric() for name in inputs if _is_numeric(schema.field(name).type)}
    others = [name for name in inputs if name not in numeric]
    summary: TableSummary | None = None
    seen: dict[Any, float] = {}
    total_weight = 0.0
    columns = _distinct(*inputs, *targets, weight)
    for group, batch in _batches(groups, columns, max(LEAST_ROWS, _DECODED_BYTES // (8 * len(columns)))):
        for name, sums in numeric.items():
            values = _numbers(batch.column(name))
            _check_finite(values, name, group, missing=True)
            sums.add(values)
        if others:
            for name in others:
                with _in_column(name, group):
                    clean(name, batch.column(name))
            part = summarise(batch.select(others))
            summary = part if summary is None else summary + part
        w = np.ones(batch.num_rows) if weight is None else _numbers(batch.column(weight)).astype(np.float64)
        if weight is not None:
            _check_weights(w, weight, group)
        total_weight += float(w.sum())
        for name in targets:
            if labels:
                _count_labels(_labels(batch, name, group), w, seen)
            else:
                _check_target(batch, name, group)
    if not total_weight > 0:
        raise InvalidParameterError(
            "some weights must be above zero", f"zeros only in column {weight!r}", "Drop sample_weight."
        )
    encoded = {} if summary is None else {column.name: column for column in make_encoding(summary).columns}
    chosen = [
        NumberColumn(name, numeric[name].mean, numeric[name].n_missing > 0) if name in numeric else encoded.get(name)
        for name in inputs
    ]
    return Scan(TableEncoding(tuple(column for column in chosen if column is not None)), seen)


def _check_target(batch: Any, name: str, group: RowGroup) -> None:
    column = batch.column(name)
    if not _is_numeric(column.type):
        raise _wrong("targets must be numbers", f"{column.type}", group, name, "Use RFLAFClassifier for labels.")
    values = _numbers(column)
    if np.isnan(values).any():
        raise _wrong("targets must be known in every row", "a missing value", group, name, "Drop those rows.")
    _check_finite(values, name, group)


def _count_labels(labels: Array, weight: Array, seen: dict[Any, float]) -> None:
    found, codes = np.unique(labels, return_inverse=True)
    for label, total in zip(found.tolist(), np.bincount(codes, weight, found.size), strict=True):
        seen[label] = seen.get(label, 0.0) + float(total)


# NumPy files


@dataclass(frozen=True)
class NumpyRows:
    """Rows of a .npy file (n_samples, n_features); targets and weights are in memory or memory-mapped."""

    path: str
    y: Array
    weight: Array | None
    labels: bool = False
    reading_bytes: ClassVar[int] = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "_rows", _map_numpy(self.path))

    @property
    def rows(self) -> Array:
        rows: Array = self._rows  # type: ignore[attr-defined]
        return rows

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32 if self.rows.dtype == np.float32 else np.float64)

    @property
    def n_samples(self) -> int:
        return int(self.rows.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.rows.shape[1])

    @property
    def n_outputs(self) -> int:
        return int(self.y.shape[1])

    def fingerprint(self) -> int:
        return _fingerprint([self.path], (self.y.shape, zlib.crc32(np.ascontiguousarray(self.y).tobytes())))

    def read(self, start: int, stop: int, at_once: int) -> Block:
        # Read, not mapped: pages of a map would count as memory of this process until the system takes them back.
        rows, width = self.rows, self.n_features
        offset: int = rows.offset + start * width * rows.dtype.itemsize  # type: ignore[attr-defined]
        X = np.fromfile(self.path, rows.dtype, (stop - start) * width, offset=offset).reshape(-1, width)
        return self._block(X, slice(start, stop))

    def take(self, rows: Array) -> Block:
        return self._block(np.asarray(_map_numpy(self.path)[rows]), rows)

    def _block(self, X: Array, rows: Any) -> Block:
        X = X.astype(self.dtype, copy=False)
        if not np.isfinite(X.sum(dtype=np.float64)):
            for column in range(X.shape[1]):
                first = rows.start if isinstance(rows, slice) else int(rows[0])
                _check_finite(X[:, column], column, f"{self.path}, rows from {first}")
        weight = None if self.weight is None else np.asarray(self.weight[rows], self.dtype)
        y = np.asarray(self.y[rows], None if self.labels else np.float64)
        return Block(X, y, weight)


def _map_numpy(path: str) -> Array:
    try:
        rows: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InvalidParameterError(
            "a .npy file must hold one whole array", f"{path}: {error}", "Write it with np.save."
        ) from error
    return rows


# One entry


@dataclass(frozen=True)
class OpenTable:
    """A table in files, ready to be read; to be closed.

    ``source`` has the targets as they are, numbers or labels; ``encoding`` is None where columns have no names.
    """

    source: FileSource
    encoding: TableEncoding | None
    single_output: bool
    label_weights: dict[Any, float]

    @property
    def feature_names(self) -> Sequence[str] | None:
        return None if self.encoding is None else self.encoding.feature_names

    def close(self) -> None:
        self.source.reader.close()


def open_table(
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    labels: bool = False,
    encoding: TableEncoding | None = None,
) -> OpenTable:
    """Open files to learn from, with the target column(s) ``y`` and the column ``sample_weight``; or to predict.

    To predict, ``encoding`` is that of the fit. Everything that can be wrong with the files is found here.
    """
    table = X if isinstance(X, Table) else Table(X)
    files = find_files(table.paths)
    reader = Reader()
    try:
        if _kind(files[0]) == "NumPy":
            return _open_numpy(files, table, y, sample_weight, labels, reader)
        targets = [] if y is None else [y] if isinstance(y, str) else _names(y)
        if not (sample_weight is None or isinstance(sample_weight, str)):
            raise InvalidParameterError(
                "sample_weight of rows in files must be the name of a column", type(sample_weight).__name__, "Add one."
            )
        opened = _open_csv if _kind(files[0]) == "CSV" else _open_columns
        storage, encoding, label_weights = opened(files, table, targets, sample_weight, labels, encoding, reader)
        return OpenTable(FileSource(storage, reader), encoding, isinstance(y, str), label_weights)
    except BaseException:
        reader.close()
        raise


def _names(y: Any) -> list[str]:
    if isinstance(y, list | tuple) and y and all(isinstance(name, str) for name in y):
        return list(y)
    raise InvalidParameterError(
        "y of rows in files must be the name of the target column, or a list of names", type(y).__name__, "Name it."
    )


def _open_columns(
    files: list[str],
    table: Table,
    targets: list[str],
    weight: str | None,
    labels: bool,
    encoding: TableEncoding | None,
    reader: Reader,
) -> tuple[ParquetRows, TableEncoding, dict[Any, float]]:
    """Parquet files, looked at once unless their encoding is known."""
    groups, schemas = _index(files, {})
    _check_schemas(files, schemas, _distinct(*targets, weight))
    if encoding is None or targets:
        inputs = _inputs(table, schemas[0].names, targets, weight)
        inputs = inputs if encoding is None else list(encoding.column_names)
        _check_schemas(files, schemas, inputs)
        seen = reader.pool.submit(scan, groups, schemas[0], inputs, targets, weight, labels).result()
        encoding, label_weights = encoding or seen.encoding, seen.label_weights
    else:
        _check_schemas(files, schemas, list(encoding.column_names))
        label_weights = {}
    types = [schema.field(name).type for schema in schemas for name in encoding.column_names]
    single = all(str(kind) in ("float", "halffloat") for kind in types)
    dtype = np.dtype(np.float32 if single else np.float64)
    return ParquetRows(groups, encoding, tuple(targets), weight, dtype, labels), encoding, label_weights


def _inputs(table: Table, names: list[str], targets: list[str], weight: str | None) -> list[str]:
    used = _distinct(*targets, weight)
    inputs = list(table.columns) if table.columns is not None else [name for name in names if name not in used]
    both = [name for name in inputs if name in used]
    if both or not inputs:
        raise InvalidParameterError(
            "inputs must be columns other than target and weight, at least one", both or inputs, "Choose others."
        )
    return inputs


def _open_numpy(files: list[str], table: Table, y: Any, sample_weight: Any, labels: bool, reader: Reader) -> OpenTable:
    """A .npy file of inputs, with targets and weights as .npy files or arrays."""
    rows = _map_numpy(files[0])
    if len(files) > 1 or table.columns is not None:
        raise InvalidParameterError("inputs must be one .npy file, all of it", files, "Use Parquet for many files.")
    if rows.ndim != 2 or rows.dtype.kind not in "fiub" or (rows.flags.f_contiguous and min(rows.shape) > 1):
        found = f"{rows.dtype} of shape {rows.shape}" + (", column by column" if rows.flags.f_contiguous else "")
        raise InvalidParameterError(
            f"{files[0]} must hold numbers (n_samples, n_features), row by row", found, "Save it as such."
        )
    given = np.zeros((rows.shape[0], 0)) if y is None else _array_of(y)
    targets = given.reshape(given.shape[0], -1)
    weight = None if sample_weight is None else _array_of(sample_weight)
    for what, array in (("y", targets), ("sample_weight", weight)):
        if array is not None and array.shape[0] != rows.shape[0]:
            raise InvalidParameterError(
                f"{what} must have as many rows as X, {rows.shape[0]}", array.shape[0], "Check the files."
            )
    if weight is not None:
        _check_weights(np.asarray(weight), "sample_weight", files[0])
        if not np.any(weight):
            raise InvalidParameterError("some weights must be above zero", "zeros only", "Drop sample_weight.")
    if not labels:
        for column in range(targets.shape[1]):
            _check_finite(targets[:, column], column, "y")
    label_weights: dict[Any, float] = {}
    if labels:
        _count_labels(targets[:, 0], np.ones(len(targets)) if weight is None else np.asarray(weight), label_weights)
    source = FileSource(NumpyRows(files[0], targets, weight, labels), reader)
    return OpenTable(source, None, given.ndim == 1, label_weights)


def _array_of(values: Any) -> Array:
    return _map_numpy(os.fspath(values)) if isinstance(values, str | os.PathLike) else np.asarray(values)


# CSV files


def _open_csv(
    files: list[str],
    table: Table,
    targets: list[str],
    weight: str | None,
    labels: bool,
    encoding: TableEncoding | None,
    reader: Reader,
) -> tuple[ParquetRows, TableEncoding, dict[Any, float]]:
    """CSV files, read once to see what their columns hold and once more to write them as numbers."""
    summaries = [_summary_of(file) for file in files]
    names = list(summaries[0].columns)
    inputs = _inputs(table, names, targets, weight) if encoding is None else list(encoding.column_names)
    needed = _distinct(*inputs, *targets, weight)
    for file, summary in zip(files, summaries, strict=True):
        _check_columns(file, summary, files[0], summaries[0], needed)
    total = TableSummary({name: summaries[0].columns[name] for name in needed})
    for summary in summaries[1:]:
        total = total + TableSummary({name: summary.columns[name] for name in needed})
    if encoding is None:
        encoding = _in_order(make_encoding(total, exclude=_distinct(*targets, weight)), inputs)
    task = "classification" if labels else "regression"
    answers = [TargetEncoding(name, task, "number" if not labels else _label_kind(total, name)) for name in targets]
    folder = reader.exits.enter_context(tempfile.TemporaryDirectory(prefix="rflaf-"))
    shown = {os.path.join(folder, f"{number}.parquet"): file for number, file in enumerate(files)}
    for path, file in shown.items():
        _convert(file, path, encoding, answers, weight)
    groups, schemas = _index(list(shown), shown)
    plain = [_input_name(j) for j in range(len(encoding.feature_names))]
    seen = reader.pool.submit(scan, groups, schemas[0], plain, targets, weight, labels).result()
    written = TableEncoding(tuple(NumberColumn(name, 0.0, False) for name in plain))
    storage = ParquetRows(groups, written, tuple(targets), weight, np.dtype(np.float64), labels)
    return storage, encoding, seen.label_weights


def _summary_of(file: str) -> TableSummary:
    """What the columns of a CSV file hold."""
    chunks = read_chunks(file)
    total = summarise(next(chunks))
    for chunk in chunks:
        total = total + summarise(chunk)
    if total.n_rows == 0:
        raise InvalidParameterError("every file must have rows", f"{file}, which has none", "Leave it out.")
    return total


def _check_columns(file: str, summary: TableSummary, first: str, expected: TableSummary, needed: list[str]) -> None:
    """A CSV file must have the columns, of the kinds they have in the first file."""
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


def _in_order(encoding: TableEncoding, names: list[str]) -> TableEncoding:
    by_name = {column.name: column for column in encoding.columns}
    return replace(encoding, columns=tuple(by_name[name] for name in names if name in by_name))


def _label_kind(summary: TableSummary, name: str) -> str:
    column = summary.columns[name]
    return "whole" if column.kind == "number" and column.numbers.whole else "text"


def _input_name(number: int) -> str:
    return f"input {number}"


def _convert(file: str, path: str, encoding: TableEncoding, targets: list[TargetEncoding], weight: str | None) -> None:
    """Write the rows of a CSV file as numbers into a Parquet file, one row group a chunk."""
    pa = require_arrow()
    import pyarrow.parquet as pq

    with ExitStack() as exits:
        writer = None
        for number, chunk in enumerate(read_chunks(file)):
            if chunk.num_rows == 0:
                continue
            group = RowGroup(path, file, number - 1, 0, chunk.num_rows)  # the first chunk has no rows, only names
            X = np.zeros((chunk.num_rows, len(encoding.feature_names)))
            _write_inputs(chunk, encoding, X, group)
            columns = {_input_name(j): X[:, j] for j in range(X.shape[1])}
            for target in targets:
                with _in_column(target.name, group):
                    columns[target.name] = target.read(chunk)
            if weight is not None:
                with _in_column(weight, group):
                    columns[weight] = TargetEncoding(weight, "regression", "number").read(chunk)
            written = pa.table(columns)
            if writer is None:
                writer = exits.enter_context(pq.ParquetWriter(path, written.schema))
            writer.write_table(written, row_group_size=chunk.num_rows)
