"""Rows of a NumPy file, read in pieces."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rflaf.blocks import Block, weigh_labels
from rflaf.errors import InvalidParameterError

from .source import FileSource, OpenTable, Reader, fingerprint_of
from .values import check_finite, check_weights

Array = NDArray[Any]


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
        return fingerprint_of([self.path], (self.y.shape, zlib.crc32(np.ascontiguousarray(self.y).tobytes())))

    def read(self, start: int, stop: int, at_once: int) -> Block:
        # Read, not mapped: pages of a map would count as memory of this process until the system takes them back.
        rows, width = self.rows, self.n_features
        offset: int = rows.offset + start * width * rows.dtype.itemsize  # type: ignore[attr-defined]
        X = np.fromfile(self.path, rows.dtype, (stop - start) * width, offset=offset).reshape(-1, width)
        return self._block(X, slice(start, stop))

    def parts(self, block_rows: int) -> None:
        """Only this process reads."""

    def take(self, rows: Array, at_once: int, advance: Callable[[int], None]) -> Block:
        X = np.empty((rows.size, self.n_features), self.rows.dtype)
        for start in range(0, rows.size, at_once):
            some = slice(start, start + at_once)
            X[some] = _map_numpy(self.path)[rows[some]]
            advance(rows[some].size)
        return self._block(X, rows)

    def _block(self, X: Array, rows: Any) -> Block:
        X = X.astype(self.dtype, copy=False)
        if not np.isfinite(X.sum(dtype=np.float64)):
            for column in range(X.shape[1]):
                first = rows.start if isinstance(rows, slice) else int(rows[0])
                check_finite(X[:, column], column, f"{self.path}, rows from {first}")
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


def open_numpy(file: str, y: Any, sample_weight: Any, labels: bool, reader: Reader) -> OpenTable:
    """A .npy file of inputs, with targets and weights as .npy files or arrays."""
    rows = _map_numpy(file)
    if rows.ndim != 2 or rows.dtype.kind not in "fiub" or (rows.flags.f_contiguous and min(rows.shape) > 1):
        found = f"{rows.dtype} of shape {rows.shape}" + (", column by column" if rows.flags.f_contiguous else "")
        raise InvalidParameterError(
            f"{file} must hold numbers (n_samples, n_features), row by row", found, "Save it as such."
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
        check_weights(np.asarray(weight), "sample_weight", file)
        if not np.any(weight):
            raise InvalidParameterError("some weights must be above zero", "zeros only", "Drop sample_weight.")
    if not labels:
        for column in range(targets.shape[1]):
            check_finite(targets[:, column], column, "y")
    label_weights: dict[Any, float] = {}
    if labels:
        label_weights = weigh_labels(targets[:, 0], np.ones(len(targets)) if weight is None else np.asarray(weight))
    source = FileSource(NumpyRows(file, targets, weight, labels), reader)
    if labels or y is None:
        return OpenTable(source, None, label_weights)
    target_range = np.array([targets.min(axis=0), targets.max(axis=0)], np.float64)
    return OpenTable(source, None, label_weights, target_range, given.ndim == 1)


def _array_of(values: Any) -> Array:
    return _map_numpy(os.fspath(values)) if isinstance(values, str | os.PathLike) else np.asarray(values)
