"""Readers of the published files: X (n_rows, n_features), y (n_rows,) and the names of the columns."""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rflaf.errors import Array, InvalidParameterError, MissingExtraError

from .published_files import find

_Table = tuple[Array, Array, tuple[str, ...]]


def _protein() -> _Table:
    header, table = _read_csv(find("protein"))
    return table[:, 1:], table[:, 0], header[1:]


_ADULT = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
    "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
)  # fmt: skip
_ADULT_NUMBERS = (0, 2, 4, 10, 11, 12)


def _adult() -> _Table:
    """Return numbers, then one-hot categories without their first level; a missing value is a level."""
    lines = find("adult").read_text().splitlines()
    table = np.array([[cell.strip() for cell in line.split(",")] for line in lines if line.strip()])
    blocks, names = [table[:, _ADULT_NUMBERS].astype(np.float64)], [_ADULT[i] for i in _ADULT_NUMBERS]
    for column in (i for i in range(len(_ADULT)) if i not in _ADULT_NUMBERS):
        levels = np.unique(table[:, column])[1:]
        blocks.append((table[:, column, None] == levels).astype(np.float64))
        names += [f"{_ADULT[column]}={level}" for level in levels]
    return np.hstack(blocks), table[:, -1], tuple(names)


def _workloads() -> _Table:
    """Return range queries without their index, duplicates and rows with missing values."""
    header, table = _read_csv(find("workloads"))
    rows = np.unique(table[:, 1:], axis=0)
    rows = rows[~np.isnan(rows).any(axis=1)]
    return rows[:, :-1], rows[:, -1], header[1:-1]


def _workloads_radius() -> _Table:
    """Return radius queries: the last three columns before the count."""
    header, table = _read_csv(find("workloads-radius"))
    return table[:, -4:-1], table[:, -1], header[-4:-1]


def _kin8nm() -> _Table:
    path = find("kin8nm")
    if path.suffix == ".npz":
        return _read_npz(path)
    header, table = _read_csv(path)
    return table[:, :-1], table[:, -1], header[:-1]


def _powerplant() -> _Table:
    path = find("powerplant")
    if path.suffix == ".npz":
        return _read_npz(path)
    try:
        import openpyxl
    except ImportError as error:
        raise MissingExtraError("spreadsheets", "openpyxl", "datasets") from error
    book = openpyxl.load_workbook(path, read_only=True)
    header, *rows = book.worksheets[0].iter_rows(values_only=True)
    book.close()
    table = np.array(rows, np.float64)
    return table[:, :-1], table[:, -1], tuple(map(str, header[:-1]))


READERS: dict[str, Callable[[], _Table]] = {
    "protein": _protein,
    "adult": _adult,
    "workloads": _workloads,
    "workloads-radius": _workloads_radius,
    "kin8nm": _kin8nm,
    "powerplant": _powerplant,
}


def _read_csv(path: Path) -> tuple[tuple[str, ...], Array]:
    """Read header and numbers of a CSV file, plain or gzip; an empty cell is missing."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    header, _, rest = text.partition("\n")
    table = np.genfromtxt(io.StringIO(rest), delimiter=",", dtype=np.float64, ndmin=2)
    return tuple(name.strip().strip('"') for name in header.split(",")), table


def _read_npz(path: Path) -> _Table:
    with np.load(path) as arrays:
        X, y = arrays["X"], arrays["y"]
    return X, y, tuple(f"x{i}" for i in range(X.shape[1]))


class _ArrayUnpickler(pickle.Unpickler):
    """Unpickler of dicts, lists, bytes, numbers and NumPy arrays that refuses every other name."""

    _ALLOWED: ClassVar = {
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ALLOWED:
            raise InvalidParameterError(
                "a pickled batch of CIFAR-10 may hold arrays and plain values only",
                f"{module}.{name}",
                "Nothing of it was run. Fetch the file anew from its publisher.",
            )
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def read_batch(stream: Any) -> tuple[Array, Array]:
    """Read pixels (n_rows, 3072), colour by colour, and labels (n_rows,) of a pickled batch; run no code of it."""
    batch = _ArrayUnpickler(stream, encoding="bytes").load()
    return np.asarray(batch[b"data"], np.uint8), np.asarray(batch[b"labels"], np.int64)


def read_cifar10() -> tuple[Array, Array, Array, Array]:
    """Read bytes of pixels, colour by colour, and labels: X_train, y_train, X_test, y_test."""
    path = find("cifar10")
    if path.suffix == ".npz":
        with np.load(path) as a:
            rows = [a[key].transpose(0, 3, 1, 2).reshape(len(a[key]), -1) for key in ("X_train", "X_test")]
            return rows[0], a["y_train"].astype(np.int64), rows[1], a["y_test"].astype(np.int64)
    batches = {}
    with tarfile.open(path) as archive:
        for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
            stream = archive.extractfile(f"cifar-10-batches-py/{name}")
            batches[name] = read_batch(stream)
    X_test, y_test = batches.pop("test_batch")
    X, y = (np.concatenate(parts) for parts in zip(*batches.values(), strict=True))
    return X, y, X_test, y_test
