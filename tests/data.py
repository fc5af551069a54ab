"""Rows and targets that the tests are run on, each by a name that says what they are like.

Every function draws in a fixed order from a generator of its own seed: the numbers of a test never change.
"""

from __future__ import annotations

import numpy as np

UNLIKE_UNITS, FAR_FROM_ZERO = [1.0, 20.0, 0.1], [5.0, 0.0, -1.0]


def sine_rows(n_rows: int = 700, n_outputs: int = 1, seed: int = 0):
    """Three normal columns, and sines of random projections with little noise: X (n_rows, 3), y (n_rows, n_outputs)."""
    return weighted_sine_rows(n_rows, n_outputs, seed)[:2]


def weighted_sine_rows(n_rows: int = 700, n_outputs: int = 1, seed: int = 0):
    """`sine_rows`, and weights (n_rows,) between 0.2 and 2."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 3))
    y = _sines(X, n_outputs, rng) + 0.5
    return X, y, rng.uniform(0.2, 2, n_rows)


def sine_rows_in_unlike_units(n_rows: int = 300, n_outputs: int = 1, seed: int = 0):
    """Rows far from the origin in unlike units, and sines of them, each with a scale and offset of its own."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 3))
    y = _sines(X, n_outputs, rng)
    return X * UNLIKE_UNITS + FAR_FROM_ZERO, y * 10.0 ** np.arange(n_outputs) + 2.5


def _sines(X: np.ndarray, n_outputs: int, rng: np.random.Generator) -> np.ndarray:
    return np.sin(2 * X @ rng.standard_normal((3, n_outputs))) + 0.1 * rng.standard_normal((len(X), n_outputs))


def noisy_bounded_rows(n_rows: int = 300, n_outputs: int = 1, seed: int = 0):
    """Three bounded columns, and up to three targets, each of two of them, with noise of deviation 0.3."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n_rows, 3))
    targets = [np.sin(1.5 * X[:, 0]) + X[:, 1] ** 2 / 2, X[:, 1] * X[:, 2], np.abs(X[:, 0])]
    return X, np.column_stack(targets)[:, :n_outputs] + 0.3 * rng.standard_normal((n_rows, n_outputs))


def linear_rows(n_rows: int = 40, n_components: int = 6, n_outputs: int = 2, seed: int = 0):
    """Features (n_rows, n_components) of unlike size and mean, and linear targets of them with much noise."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n_rows, n_components)) * rng.uniform(0.3, 3, n_components) + rng.normal(size=n_components)
    y = Z @ rng.standard_normal((n_components, n_outputs)) + rng.standard_normal((n_rows, n_outputs)) + 2
    return Z, y


def noise_rows(n_rows: int, n_outputs: int, weighted: bool, rng: np.random.Generator):
    """Four columns, targets that have nothing to do with them, and small whole weights, some of them zero, or None."""
    X, y = rng.standard_normal((n_rows, 4)), rng.standard_normal((n_rows, n_outputs))
    return X, y, rng.integers(0, 4, n_rows).astype(float) if weighted else None


def columns_with_zeros(n_rows: int, n_features: int, seed: int, zeros: float = 0.3) -> np.ndarray:
    """Numbers of unlike size, some of them whole, some of them zero."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features)) * 10.0 ** rng.integers(-3, 4, n_features)
    whole = rng.random(n_features) < 0.3
    X[:, whole] = np.round(X[:, whole])
    X[rng.random(X.shape) < zeros] = 0
    return X


def weighted_columns(n_rows: int, seed: int, n_columns: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Columns of different size, and weights of which some are zero."""
    rng = np.random.default_rng(seed)
    scale = 10.0 ** np.arange(-2, n_columns - 2)
    rows = rng.standard_normal((n_rows, n_columns)) * scale + rng.standard_normal(n_columns)
    return rows, np.maximum(rng.uniform(-0.5, 2, n_rows), 0)
