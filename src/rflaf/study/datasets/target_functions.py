"""Functions of the paper's target class, f*(x) = E_w[sigma(w.x) v(w)], and their activations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rflaf.errors import Array


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
