"""The tables that the benchmarks measure on: real ones from RFLAF_DATA_DIR, or made-up rows of the same shape."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.preprocessing import OneHotEncoder

Rows = tuple[np.ndarray, np.ndarray]
FOLDER = Path(os.environ.get("RFLAF_DATA_DIR", ""))


def _protein() -> Rows:
    table = np.loadtxt(FOLDER / "protein" / "CASP.csv", delimiter=",", skiprows=1)
    return np.ascontiguousarray(table[:, 1:]), table[:, 0]


def _arrays(path: str) -> Rows:
    table = np.load(FOLDER / path)
    return table["X"], table["y"]


def _workloads_radius() -> Rows:
    with gzip.open(FOLDER / "workloads" / "workloads_radius_count.csv.gz") as stream:
        table = np.genfromtxt(stream, delimiter=",", skip_header=1)
    return table[:, :-1], table[:, -1]


def _adult() -> Rows:
    """100 columns: six numbers, and eight categories one-hot without their first level."""
    lines = (FOLDER / "adult" / "adult.data").read_text().splitlines()
    table = np.array([[cell.strip() for cell in line.split(",")] for line in lines if line.strip()])
    numbers = [0, 2, 4, 10, 11, 12]
    words = [column for column in range(14) if column not in numbers]
    indicators = OneHotEncoder(drop="first", sparse_output=False).fit_transform(table[:, words])
    return np.hstack([table[:, numbers].astype(np.float64), indicators]), table[:, 14]


def _cifar10() -> Rows:
    """Pixels from 0 to 1, flattened: 50,000 rows to fit, then 10,000 to test."""
    images = np.load(FOLDER / "cifar10" / "cifar10.npz")
    rows = [images[name].reshape(-1, 3072).astype(np.float32) / 255 for name in ("X_train", "X_test")]
    return np.concatenate(rows), np.concatenate([images[name].ravel() for name in ("y_train", "y_test")])


READERS: dict[str, Callable[[], Rows]] = {
    "protein": _protein,
    "kin8nm": lambda: _arrays("kin8nm/kin8nm.npz"),
    "powerplant": lambda: _arrays("powerplant/power-plant.npz"),
    "workloads-radius": _workloads_radius,
    "adult": _adult,
    "cifar10": _cifar10,
}
REGRESSION = ("protein", "kin8nm", "powerplant", "workloads-radius")
SHAPES = {  # rows, columns, classes
    "protein": (45_730, 9, 0),
    "kin8nm": (8192, 8, 0),
    "powerplant": (9568, 4, 0),
    "workloads-radius": (10_000, 3, 0),
    "adult": (32_561, 100, 2),
    "cifar10": (3000, 3072, 10),
}


def load(name: str, n_rows: int | None = None) -> Rows:
    """Inputs and target of a table; the first ``n_rows`` of them where given."""
    try:
        X, y = READERS[name]() if os.environ.get("RFLAF_DATA_DIR") else made_up(name, n_rows)
    except FileNotFoundError:
        X, y = made_up(name, n_rows)
    return X[:n_rows], y[:n_rows]


def made_up(name: str, n_rows: int | None = None) -> Rows:
    """Normal rows of the shape of a table, and a smooth target of three columns with noise, or its quantiles."""
    print(
        f"{name}: made-up rows, since RFLAF_DATA_DIR holds no such table; limits are for the real one", file=sys.stderr
    )
    n_most, n_columns, n_classes = SHAPES[name]
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows or n_most, n_columns))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(len(X))
    if not n_classes:
        return X, y
    return X, np.searchsorted(np.quantile(y, np.arange(1, n_classes) / n_classes), y)


def standardised(name: str, n_rows: int | None = None) -> Rows:
    """A table whose target has mean zero and variance one."""
    X, y = load(name, n_rows)
    return X, (y - y.mean()) / y.std()
