"""Rows of NumPy files, read in pieces.

They are read, not mapped: pages of a map would count as memory of this process until the system takes them back, and
the system ends a process that looks at a map whose file was cut short.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.rows.blocks import Block
from rflaf.rows.opened import OpenRows, TargetScan

from .first_scan import check_finite, check_weights, rows_together
from .source import FileSource, Reader, fingerprint_of
from .table import refuse_streams

_LOOKED_BYTES = 64  # of a target or weight while it is looked at


@dataclass(frozen=True, slots=True)
class NumpyFile:
    """An array in a .npy file, row by row, of which some rows are read at a time."""

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int

    @classmethod
    def open(cls, path: str) -> NumpyFile:
        """Open a file; refuse one without a whole array, or with an array stored column by column."""
        rows = _map(path)
        if rows.ndim == 0 or (rows.flags.f_contiguous and rows.ndim > 1 and min(rows.shape) > 1):
            raise InvalidParameterError(
                f"{path} must hold an array row by row", f"shape {rows.shape}, column by column", "Save it as such."
            )
        return cls(path, rows.shape, rows.dtype, rows.offset)  # type: ignore[attr-defined]

    def __getitem__(self, rows: Any) -> Array:
        """Return a range of rows, or rows by their numbers."""
        if not isinstance(rows, slice):
            return self._picked(rows)
        start, stop, _ = rows.indices(self.shape[0])
        width = prod(self.shape[1:])
        found = np.fromfile(
            self.path, self.dtype, (stop - start) * width, offset=self.offset + start * width * self.dtype.itemsize
        )
        if found.size < (stop - start) * width:
            raise self._cut_short(start + found.size // max(width, 1))
        return found.reshape(stop - start, *self.shape[1:])

    def _picked(self, rows: Array) -> Array:
        found = np.empty((rows.size, *self.shape[1:]), self.dtype)
        row_bytes = prod(self.shape[1:]) * self.dtype.itemsize
        to_fill = found.reshape(-1).view(np.uint8).data
        with open(self.path, "rb", buffering=0) as file:
            for at, row in enumerate(rows.tolist()):
                file.seek(self.offset + row * row_bytes)
                if file.readinto(to_fill[at * row_bytes : (at + 1) * row_bytes]) < row_bytes:
                    raise self._cut_short((os.fstat(file.fileno()).st_size - self.offset) // row_bytes)
        return found

    def _cut_short(self, n_rows: int) -> InvalidParameterError:
        rule = f"{self.path} must hold all rows that its header promises, {self.shape[0]}"
        return InvalidParameterError(rule, f"{n_rows} whole ones", "It was cut short: write it again.")


def _map(path: str) -> Array:
    refuse_streams(path)
    try:
        rows: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # of the many that a damaged header ends in
        reason = "no array of numbers" if "pickle" in str(error) else error  # NumPy's words advise to unpickle it
        raise InvalidParameterError(
            "a .npy file must hold one whole array", f"{path}: {reason}", "Write it with np.save."
        ) from error
    return rows


@dataclass(frozen=True)
class NumpyRows:
    """Rows of a .npy file (n_samples, n_features); targets and weights are in memory or in such files."""

    file: NumpyFile
    y: Array | NumpyFile
    weight: Array | NumpyFile | None
    labels: bool = False
    reading_bytes: ClassVar[int] = 0

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32 if self.file.dtype == np.float32 else np.float64)

    @property
    def n_samples(self) -> int:
        return self.file.shape[0]

    @property
    def n_features(self) -> int:
        return self.file.shape[1]

    @property
    def n_outputs(self) -> int:
        return prod(self.y.shape[1:])

    def fingerprint(self) -> int:
        crc = 0
        for rows in _pieces(self.n_samples, self.n_outputs, None):
            crc = zlib.crc32(np.ascontiguousarray(self.y[rows]).tobytes(), crc)
        return fingerprint_of([self.file.path], (self.y.shape, crc))

    def read(self, start: int, stop: int, at_once: int) -> Block:
        return self._block(self.file[start:stop], slice(start, stop))

    def parts(self, block_rows: int) -> None:
        """Only this process reads."""

    def take(self, rows: Array, at_once: int, advance: Callable[[int], None]) -> Block:
        X = np.empty((rows.size, self.n_features), self.file.dtype)
        for start in range(0, rows.size, at_once):
            some = slice(start, start + at_once)
            X[some] = self.file[rows[some]]
            advance(rows[some].size)
        return self._block(X, rows)

    def _block(self, X: Array, rows: Any) -> Block:
        X = X.astype(self.dtype, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            total = X.sum(dtype=np.float64)  # not finite, where a number is not, or where large ones are
        if not np.isfinite(total):
            for column in range(X.shape[1]):
                first = rows.start if isinstance(rows, slice) else int(rows[0])
                check_finite(X[:, column], column, f"{self.file.path}, rows from {first}")
        weight = None if self.weight is None else np.asarray(self.weight[rows], self.dtype)
        y = np.asarray(self.y[rows], None if self.labels else np.float64).reshape(X.shape[0], -1)
        return Block(X, y, weight)


def open_numpy(path: str, y: Any, sample_weight: Any, labels: bool, reader: Reader) -> OpenRows:
    """Open a .npy file of inputs, with targets and weights as .npy files or arrays."""
    reader.watch([path, *(os.fspath(part) for part in (y, sample_weight) if isinstance(part, str | os.PathLike))])
    file = NumpyFile.open(path)
    if len(file.shape) != 2 or file.dtype.kind not in "fiub":
        raise InvalidParameterError(
            f"{path} must hold numbers (n_samples, n_features)", f"{file.dtype} of shape {file.shape}", "Save such."
        )
    n_rows = file.shape[0]
    targets = np.zeros((n_rows, 0)) if y is None else _array_of(y)
    weight = None if sample_weight is None else _array_of(sample_weight)
    for what, array in (("y", targets), ("sample_weight", weight)):
        if array is not None and array.shape[0] != n_rows:
            rule = f"{what} must have as many rows as X, {n_rows}"
            raise InvalidParameterError(rule, array.shape[0], "Check the files.")
    storage = NumpyRows(file, targets, weight, labels)
    source = FileSource(storage, reader)
    if y is None:
        return OpenRows(source, close=reader.close)
    return OpenRows(source, None, _look(storage, reader), len(targets.shape) == 1, close=reader.close)


def _look(rows: NumpyRows, reader: Reader) -> TargetScan:
    """Return the scan of all targets; refuse bad values."""
    n_rows, seen = rows.n_samples, TargetScan()
    with reader.begin("look at targets", n_rows, n_rows) as display:
        for some in _pieces(n_rows, rows.n_outputs, reader.memory):
            columns = np.asarray(rows.y[some]).reshape(some.stop - some.start, -1).T
            weight = np.ones(some.stop - some.start) if rows.weight is None else np.asarray(rows.weight[some])
            check_weights(weight, "sample_weight", rows.file.path)
            for number, column in enumerate(() if rows.labels else columns):
                check_finite(column, number, "y")
            seen += TargetScan.of(list(columns[:1] if rows.labels else columns), weight, rows.labels)
            display.advance(weight.size)
    seen.refuse_overflow()
    if not seen.weight > 0:
        raise InvalidParameterError("some weights must be above zero", "zeros only", "Drop sample_weight.")
    return seen


def _pieces(n_rows: int, n_outputs: int, memory: int | None) -> Iterator[slice]:
    """All rows, some at a time."""
    at_once = rows_together(_LOOKED_BYTES * (n_outputs + 1), 0, memory)
    for start in range(0, n_rows, at_once):
        yield slice(start, min(start + at_once, n_rows))


def _array_of(values: Any) -> Array | NumpyFile:
    return NumpyFile.open(os.fspath(values)) if isinstance(values, str | os.PathLike) else np.asarray(values)
