"""A data set, its split and its two preparations, and the target functions of synthetic ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rflaf.errors import Array

PREPROCESSINGS = ("paper", "standard")
_TEST_SHARE = 0.2
_DIVISORS = {"protein": (10.0, 10.0), "workloads": (7.5, 100.0), "workloads-radius": (7.5, 100.0)}  # of X and y


@dataclass(frozen=True, slots=True, eq=False)
class Teacher:
    """Function of the paper's target class over equal atoms: f*(x) = mean_j sigma(w_j . x) v_j.

    Attributes
    ----------
    W : (n_features, n_atoms); v : (n_atoms,) with mean square one; activation : sigma
    """

    W: Array
    v: Array
    activation: Callable[[Array], Array]

    def __call__(self, X: Array) -> Array:
        """Return f* at rows ``X`` (n_rows, n_features), (n_rows,)."""
        parts = np.array_split(np.asarray(X, np.float64), max(1, len(X) // 500))
        return np.concatenate([self.activation(part @ self.W) @ self.v for part in parts]) / self.v.size


def wave(z: Array) -> Array:
    """Return a damped wave, zero outside [-3, 3]."""
    return np.sin(3 * z) * np.maximum(1 - np.abs(z) / 3, 0)


def triangle(z: Array) -> Array:
    """Return the hat of height one on [-1, 1]."""
    return np.maximum(1 - np.abs(z), 0)


def bump(z: Array) -> Array:
    """Return the smooth bump (1 - z^2/4)^3 on [-2, 2]."""
    return np.maximum(1 - z**2 / 4, 0) ** 3


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"wave": wave, "triangle": triangle, "bump": bump}


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Data set split into rows to fit and rows to test.

    Attributes
    ----------
    name, preprocessing : arguments of `load`
    task : "regression" or "classification"
    X_train, X_test : (n_rows, n_features), float32
    y_train, y_test : (n_rows,), float64 targets or labels
    columns : n_features names
    truth : the noise-free function behind the targets; None if unknown
    """

    name: str
    preprocessing: str
    task: str
    X_train: Array
    y_train: Array
    X_test: Array
    y_test: Array
    columns: tuple[str, ...]
    truth: Teacher | None = None


def split(n_rows: int, random_state: int) -> tuple[Array, Array]:
    """Return the indices of the rows to fit and of the rows to test."""
    order = np.random.default_rng(random_state).permutation(n_rows)
    n_test = round(_TEST_SHARE * n_rows)
    return order[n_test:], order[:n_test]


def prepare(name: str, preprocessing: str, X: Array, y: Array, columns: tuple[str, ...], random_state: int) -> Dataset:
    """Standardise, scale and split a table."""
    train, test = split(len(X), random_state)
    numeric, as_published = y.dtype.kind == "f", preprocessing == "paper" and name in _DIVISORS
    seen = slice(None) if preprocessing == "paper" else train
    X = _standardise(X, seen)
    x_divisor, y_divisor = _DIVISORS.get(name, (10.0, 1.0))
    if numeric:
        y = y / y_divisor if as_published else _standardise(y[:, None], seen)[:, 0]
    X = (X / x_divisor if preprocessing == "paper" else X).astype(np.float32)
    task = "regression" if numeric else "classification"
    return Dataset(name, preprocessing, task, X[train], y[train], X[test], y[test], columns)


def _standardise(X: Array, seen: Any) -> Array:
    """Standardise columns by the rows ``seen``; indicators stay unchanged, constants become zero."""
    center, scale = X[seen].mean(axis=0), X[seen].std(axis=0)
    constant = scale <= 8 * np.finfo(np.float64).eps * np.abs(center)
    indicator = np.all((X == 0) | (X == 1), axis=0) & ~constant
    moved = np.where(constant, 0.0, X - np.where(indicator, 0.0, center))
    return moved / np.where(indicator | constant, 1.0, scale)


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
