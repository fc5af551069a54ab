"""CIFAR-10: pixels and labels, read without running code of the pickled batches."""

from __future__ import annotations

import pickle
import tarfile
from typing import Any, ClassVar

import numpy as np

from rflaf.errors import Array, InvalidParameterError

from .preparation import Dataset
from .published_files import find


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


def prepare_pixels(preprocessing: str, X: Array, y: Array, X_test: Array, y_test: Array) -> Dataset:
    """Scale pixels as the paper does, or standardise each colour."""
    parts = [rows.astype(np.float32) / np.float32(255) for rows in (X, X_test)]
    if preprocessing == "paper":
        parts = [(rows - np.float32(0.5)) / np.float32(65) for rows in parts]
    else:
        by_colour = parts[0].reshape(len(X), 3, -1)
        center, scale = (np.repeat(f(by_colour, axis=(0, 2)), by_colour.shape[2]) for f in (np.mean, np.std))
        parts = [(rows - center) / scale for rows in parts]
    names = tuple(f"{colour}{i}" for colour in "rgb" for i in range(X.shape[1] // 3))
    return Dataset("cifar10", preprocessing, "classification", parts[0], y, parts[1], y_test, names)
