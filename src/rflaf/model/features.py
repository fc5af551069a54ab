"""Random features z_m(x) = sigma_m(w_m . x + b_m), the one place where they are computed.

A `FeatureMap` is directions and activation compiled together: the grid of the activation is folded into the directions,
so that a projection *is* a cell coordinate. `rflaf.model.curved_features` adds column curves. Blocks are
component-major: (n_components, n_rows).

In single precision a column of large mean and small spread would lose its digits in a product with the directions. A
map compiled for such columns subtracts a ``centre`` from the rows first, which is exact near it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # its parts are imported on first use

from rflaf.errors import Array
from rflaf.functions import _kernels
from rflaf.functions._kernels.shapes import TILE_COMPONENTS, TILE_VECTORS, lanes, packed
from rflaf.functions.bases import Pieces
from rflaf.functions.densities import Directions

from .normal_equations import NormalEquations

if TYPE_CHECKING:
    from rflaf.rows.blocks import Block, BlockSource, Scratch
    from rflaf.rows.executors import Executor

FAR = 16  # times the length of a table, or of a column's nodes, from zero: where single precision needs a centre
_EVERY = 8  # tiles, one is looked at for zeros
_WEAK = 1e-3  # directions in which a centre is not sought, as a share of the strongest


class RowFeatures:
    """Features of rows, from which normal equations are summed."""

    __slots__ = ()

    @property
    def n_components(self) -> int:
        """Number of features."""
        raise NotImplementedError

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision the features are computed in."""
        raise NotImplementedError

    def features(self, X: Any, out: Array) -> Array:
        """Features of rows ``X`` into ``out`` (n_components, n_rows)."""
        raise NotImplementedError

    def design(self, block: Block, scratch: Scratch) -> Array:
        """Rows of [Z | 1 | y], each times the square root of its weight: (n_components + 1 + n_outputs, n_rows)."""
        size = (self.n_components + 1 + block.y.shape[1], block.n_rows)
        rows = scratch.array("design", size, self.dtype)
        self.features(block.X, rows[: self.n_components])
        return complete_design(rows, block.y, block.weight)

    def sum_equations(self, source: BlockSource, executor: Executor) -> NormalEquations:
        """Sum the normal equations of the features of all rows, in one pass."""

        def sum_block(block: Block, scratch: Scratch) -> NormalEquations:
            return NormalEquations.from_design(self.design(block, scratch), block.y.shape[1], block.weight)

        return executor.reduce(source, sum_block, "sum the normal equations")


@dataclass(frozen=True, slots=True)
class FeatureMap(RowFeatures):
    """Directions and tables in one dtype: ``z[m] = table_m(W[:, m] . (x - centre) + offset[m])``, in cell coordinates.

    Attributes
    ----------
    W : (n_features, n_components); offset : (n_components,); table : (1 or n_components, n_cells, 4)
    centre : (n_features,), or None for zero
    """

    W: Array
    offset: Array
    table: Array
    centre: Array | None = None

    @property
    def n_components(self) -> int:
        return int(self.offset.shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.W.dtype)

    def part(self, components: slice) -> FeatureMap:
        """Return the map of some of the components."""
        table = self.table if len(self.table) == 1 else self.table[components]
        return FeatureMap(self.W[:, components], self.offset[components], table, self.centre)

    def cells(self, X: Any, out: Array) -> Array:
        """Cell coordinates of the projections of rows ``X`` into ``out`` (n_components, n_rows)."""
        if scipy.sparse.issparse(X):
            out[...] = (X @ self.W).T
            if self.centre is not None:
                out -= (self.centre @ self.W)[:, None]
        else:
            rows = from_centre(X, self.centre)
            if _mostly_zero(rows):
                _kernels.features.project(rows, *_in_tiles(self), out)
                return out
            with np.errstate(over="ignore", invalid="ignore"):
                np.matmul(self.W.T, rows.T, out=out)
                if not math.isfinite(out.sum()):
                    _make_finite(out)
        out += self.offset[:, None]
        return out

    def features(self, X: Any, out: Array) -> Array:
        """Features of rows ``X`` into ``out`` (n_components, n_rows)."""
        self.cells(X, out)
        _kernels.features.activate(out, self.table, out)
        return out


def from_centre(X: Array, centre: Array | None) -> Array:
    """Return dense rows minus a centre."""
    return X if centre is None else X - centre


def _mostly_zero(X: Array) -> bool:
    """Estimate from some rows whether neighbouring rows have most of their zeros in common."""
    tile = TILE_VECTORS * lanes(X.dtype)
    some = X[: len(X) // tile * tile].reshape(-1, tile, X.shape[1])[::_EVERY]
    return 2 * int(np.count_nonzero(some.any(axis=1))) < some.shape[0] * some.shape[2]


def _in_tiles(feature_map: FeatureMap) -> tuple[Array, Array]:
    """Directions and offsets in the tiles of the kernels, the width padded with zeros: (S / B, n_features, B), (S,)."""
    tile = TILE_COMPONENTS
    n_features, n_components = feature_map.W.shape
    padding = -n_components % tile
    W = np.pad(feature_map.W, ((0, 0), (0, padding)))
    tiles = np.ascontiguousarray(W.reshape(n_features, -1, tile).transpose(1, 0, 2))
    return tiles, np.pad(feature_map.offset, (0, padding))


def complete_design(rows: Array, y: Array, weight: Array | None) -> Array:
    """Fill the rows below the features with one and y, and weight every column of the block."""
    n_outputs = y.shape[1]
    rows[-n_outputs - 1] = 1
    rows[-n_outputs:] = y.T
    if weight is not None:
        rows *= np.sqrt(weight)
    return rows


def sum_robust_equations(
    source: BlockSource, feature_map: RowFeatures, v: Array, delta: float, executor: Executor
) -> NormalEquations:
    """Sum normal equations with every row that is farther than ``delta`` from z . v weighted down in proportion."""

    def sum_block(block: Block, scratch: Scratch) -> NormalEquations:
        z = feature_map.features(
            block.X, scratch.array("z", (feature_map.n_components, block.n_rows), feature_map.dtype)
        )
        off = np.max(np.abs(block.y - z.T @ v), axis=1)
        weight = np.minimum(1, delta / np.maximum(off, np.finfo(float).tiny))
        weight = (weight if block.weight is None else weight * block.weight).astype(feature_map.dtype)
        weighted = replace(block, weight=weight)
        return NormalEquations.from_design(feature_map.design(weighted, scratch), block.y.shape[1], weight)

    return executor.reduce(source, sum_block, "sum the normal equations, outliers weighted down")


def compile_map(directions: Directions, pieces: Pieces, a: Array, dtype: Any) -> FeatureMap:
    """Fold the grid of the activation into the directions: u = (z - low) / step - 1/2."""
    W, offset = directions.W, directions.offset
    centre = far_centre(W, offset, pieces, dtype)
    if centre is not None:
        offset = offset + centre @ W
    return FeatureMap(
        np.ascontiguousarray(W / pieces.step, dtype),
        ((offset - pieces.low) / pieces.step - 0.5).astype(dtype),
        pieces.table(a).astype(dtype),
        None if centre is None else centre.astype(dtype),
    )


def far_centre(W: Array, offset: Array, pieces: Pieces, dtype: Any) -> Array | None:
    """Return the point that projects on the middle of the table, (n_features,), if it is too far from zero for float32.

    Fewer components than columns determine the centre only in part, and keep part of the digits.
    """
    length = pieces.step * pieces.n_cells
    way = pieces.low + length / 2 - offset
    used = W.any(axis=1)
    if np.dtype(dtype) != np.float32 or not used.any() or not np.abs(way).max(initial=0) > FAR * length:
        return None
    centre = np.zeros(W.shape[0])
    centre[used] = centre_of(W[used], way)
    return in_single_precision(centre)


def centre_of(W: Array, target: Array) -> Array:
    """Return c (n_features,) with W' c nearest to ``target``, columns in units of directions; W has no row of zeros."""
    largest = np.abs(W).max(axis=1)[:, None]
    length = largest * np.sqrt(np.sum((W / largest) ** 2, axis=1, keepdims=True))
    found = np.linalg.lstsq((W / length).T, target, rcond=_WEAK)[0]
    return np.asarray(found / length[:, 0])


def in_single_precision(centre: Any) -> Any:
    """Round a centre to float32; zero where it overflows."""
    return np.where(np.abs(centre) < np.finfo(np.float32).max, centre, 0).astype(np.float32).astype(np.float64)


@dataclass(frozen=True)
class Predictor:
    """A whole model packed for the fused kernel: f(x) = intercept + sum_m v_m sigma_m(w_m . x + b_m).

    Rows are counted from the centre of the map, where it has one.
    """

    w: Array
    bias: Array
    table: Array
    v: Array
    intercept: Array

    def predict(self, X: Array, out: Array, start: int, stop: int) -> None:
        """Rows start to stop of the prediction (n_rows, n_outputs), without any (n_rows, n_components) array."""
        _kernels.features.predict(X, self._packed, out, start, stop)

    def predict_sparse(self, X: Any, out: Array, start: int, stop: int) -> None:
        """The same for CSR rows, to rounding."""
        packed = *self._for_sparse, self.intercept
        _kernels.curves.predict_sparse(X.data, X.indices, X.indptr, *packed, out, start, stop)

    def call(self) -> Callable[..., None]:
        """Return `predict` with as few steps as there can be; it keeps this object."""
        loop, model = _kernels.features.predict, self._packed
        return lambda X, out, start, stop, _keep=self: loop(X, model, out, start, stop)

    @cached_property
    def _packed(self) -> Array:
        """The arrays as one argument; this object keeps them."""
        return np.asarray(packed(self.w, self.bias, self.table, self.v, self.intercept))

    @cached_property
    def _for_sparse(self) -> tuple[Array, ...]:
        """Directions (n_features, S), offsets, tables and ``v``, the width padded to whole vectors."""
        n_features, padding = self.w.shape[1], -self.bias.size % lanes(self.bias.dtype)
        W = np.pad(self.w.transpose(1, 0, 2).reshape(n_features, -1), ((0, 0), (0, padding)))
        tables = ((0, padding if self.table.shape[0] > 1 else 0), (0, 0), (0, 0))
        return W, np.pad(self.bias, (0, padding)), np.pad(self.table, tables), np.pad(self.v, ((0, padding), (0, 0)))


def _make_finite(projections: Array) -> None:
    """Put projections beyond half the range of their precision there, and infinity less infinity in the middle."""
    limit = float(np.finfo(projections.dtype).max) / 2
    np.nan_to_num(projections, copy=False, nan=0.0, posinf=limit, neginf=-limit)


def pack(feature_map: FeatureMap, v: Array, intercept: Array) -> Predictor:
    """Pack ``v`` (n_components, n_outputs) and the map for `Predictor`; the width is padded with zeros."""
    W, bias = _in_tiles(feature_map)
    padding = bias.size - feature_map.n_components
    table = feature_map.table
    if table.shape[0] > 1:
        table = np.pad(table, ((0, padding), (0, 0), (0, 0)))
    dtype = feature_map.W.dtype
    return Predictor(
        W,
        bias,
        np.ascontiguousarray(table),
        np.ascontiguousarray(np.pad(v, ((0, padding), (0, 0))), dtype),
        np.ascontiguousarray(intercept, dtype),
    )
