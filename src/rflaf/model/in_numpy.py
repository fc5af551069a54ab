"""Predictions of few rows in NumPy: the formula of the compiled loops, without the compiler.

Importing the compiler and its loops takes longer than a few thousand rows take here, and without a cache they have to
be compiled first. So a process begins in NumPy, in double precision whatever the rows are, and goes on with the
compiled loops once it has computed `WORTH` features or once they are loaded, as a fit does.

Both compute the same sum in another order. With eps of the precision of the rows, their answers differ by at most

    eps (n_features + n_components + 16) (|b| + sum_m |q_m v_m| (max |sigma_m| + max |sigma_m'| U_m)),

where U_m is the sum of the absolute values of the terms of u_m, in the cells of the activation; the part of a curve
counts as its largest value and its steepest slope times the size of x and of the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rflaf.errors import Array
from rflaf.functions import _kernels
from rflaf.functions._kernels.shapes import FARTHEST

from .curved_features import CurvedMap
from .features import FeatureMap

WORTH = 2**23  # features, after which the compiled loops are loaded
_CALL = 2**11  # features that take as long as the call itself
_BLOCK = 2**16  # features at once, so that they stay in the second-level cache

_done = 0  # features that this process has computed here


def suffices(n_rows: int, n_components: int) -> bool:
    """Return whether so few rows are better computed here than by loops that are still to be loaded."""
    return not _kernels.is_loaded() and _done + n_rows * n_components <= WORTH


def decision(feature_map: FeatureMap | CurvedMap, weights: Array, intercept: Array, X: Array) -> Array:
    """Return f = intercept + z @ weights at rows ``X``, (n_rows, n_outputs), in their dtype; the map is of float64."""
    global _done
    _done += X.shape[0] * len(weights) + _CALL
    out = np.empty((X.shape[0], intercept.size), X.dtype)
    for rows in _blocks(X, len(weights)):
        out[rows] = _features(feature_map, X[rows]) @ weights + intercept
    return out


def features(feature_map: FeatureMap | CurvedMap, X: Array) -> Array:
    """Return z before the importance, (n_rows, n_components); the map is of float64."""
    width = feature_map.offset.size if isinstance(feature_map, FeatureMap) else feature_map.width
    out = np.empty((X.shape[0], width))
    for rows in _blocks(X, width):
        out[rows] = _features(feature_map, X[rows])
    return out


def _blocks(X: Array, width: int) -> Iterator[slice]:
    step = max(1, _BLOCK // max(1, width))
    return (slice(start, start + step) for start in range(0, X.shape[0], step))


def _features(feature_map: FeatureMap | CurvedMap, X: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):  # rows near the end of the range: any cell will do
        u = np.nan_to_num(cells_of(feature_map, X.astype(np.float64, copy=False)), copy=False, nan=0.0)
    return _cubics(u, feature_map.table)


def cells_of(feature_map: Any, rows: Array) -> Array:
    """Return the cell coordinates of rows, (n_rows, n_components); the arrays are those of the compiled loops."""
    if isinstance(feature_map, FeatureMap):
        return np.asarray(rows @ feature_map.W + feature_map.offset)
    width, start = feature_map.width, feature_map.first
    u = rows[:, feature_map.linear] @ feature_map.W[:, :width] + feature_map.bias[:width]
    for curve, column in enumerate(feature_map.columns):
        first, last = start[curve], start[curve + 1]
        x, nodes = rows[:, column], feature_map.nodes[first:last]
        k = np.searchsorted(nodes[1:-1], x, side="right")
        share = np.clip((x - nodes[k]) * feature_map.gaps[first + k], -FARTHEST, FARTHEST)[:, None]
        low, high = (_nodes(feature_map, first + k + step) for step in (0, 1))
        u += low + share * (high - low)
    return np.asarray(u)


def _nodes(feature_map: CurvedMap, index: Array) -> Array:
    """Return the values at some nodes, (n, n_components), out of blocks of components (S / B, T, B)."""
    blocks = feature_map.H[:, index]
    return blocks.transpose(1, 0, 2).reshape(index.size, -1)[:, : feature_map.width]


def _cubics(u: Array, table: Array) -> Array:
    """Return table_m(u_m), (n_rows, n_components): cubics about the middles of the cells, constant outside."""
    n_tables, n_cells, _ = table.shape
    inside = np.clip(u, -0.5, n_cells - 0.5)
    k = np.minimum(np.rint(inside), n_cells - 1).astype(np.intp)
    t = inside - k
    if n_tables > 1:
        k += n_cells * np.arange(u.shape[1])
    c = table.reshape(-1, 4)[k]
    return np.asarray(((c[..., 3] * t + c[..., 2]) * t + c[..., 1]) * t + c[..., 0])


def slopes_of_cells(u: Array, table: Array) -> Array:
    """Return table_m'(u_m), (n_rows, n_components): zero outside the cells."""
    n_tables, n_cells, _ = table.shape
    k = np.clip(np.rint(u), 0, n_cells - 1).astype(np.intp)
    t, inside = u - k, np.abs(u - (n_cells - 1) / 2) <= n_cells / 2
    c = table.reshape(-1, 4)[k + n_cells * np.arange(u.shape[1]) if n_tables > 1 else k]
    return np.asarray(((3 * c[..., 3] * t + 2 * c[..., 2]) * t + c[..., 1]) * inside)
