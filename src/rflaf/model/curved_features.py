"""Random features of models whose columns have curves: u_m(x) = b_m + w_m . x + sum of column curves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy  # its parts are imported on first use

from rflaf.errors import Array
from rflaf.functions import _kernels
from rflaf.functions._kernels.shapes import BLOCK_VECTORS, lanes, packed
from rflaf.functions.bases import Pieces
from rflaf.functions.curves import ColumnCurves, one_over_gaps
from rflaf.functions.densities import Directions

from .features import FAR, FeatureMap, RowFeatures, compile_map, far_centre, from_centre, in_single_precision


@dataclass(frozen=True, slots=True)
class CurvedMap(RowFeatures):
    """Directions, column curves and tables in one dtype; the width is padded to whole vectors.

    Columns in ``linear`` enter through ``W``, those in ``columns`` through ``H``, the values of line and curve together
    at the nodes, with one more node on either side so that the line goes on beyond them.

    Attributes
    ----------
    linear : (L,); W : (L, S); columns : (C,); nodes : (T,); first : (C + 1,); bias : (S,)
    gaps : (T,), one over the distance from a node to the next; H : (S / B, T, B), packed in blocks of components
    table : (1 or S, n_cells, 4)
    width : number of components without the padding
    centre : (n_features,), or None for zero; nodes are those of x - centre
    """

    linear: Array
    W: Array
    columns: Array
    nodes: Array
    gaps: Array
    first: Array
    H: Array
    bias: Array
    table: Array
    width: int
    centre: Array | None = None

    @property
    def n_components(self) -> int:
        return self.width

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.H.dtype)

    def features(self, X: Any, out: Array) -> Array:
        """Features of rows ``X`` into ``out`` (n_components, n_rows)."""
        rows = from_centre(X.toarray() if scipy.sparse.issparse(X) else X, self.centre)
        u = np.empty((rows.shape[0], self.bias.size), self.dtype)
        _kernels.curves.curved_inputs(
            rows, self.linear, self.W, self.columns, self.nodes, self.gaps, self.first, self.H, self.bias, u
        )
        out[...] = u.T[: self.width]
        _kernels.features.activate(out, self.table[: self.width], out)
        return out


@dataclass(frozen=True)
class CurvedPredictor:
    """A whole model with column curves, packed for its fused kernel; ``v`` (n_outputs, S); rows as of `Predictor`."""

    map: CurvedMap
    v: Array
    intercept: Array

    def predict(self, X: Array, out: Array, start: int, stop: int) -> None:
        """Rows start to stop of the prediction (n_rows, n_outputs), without any (n_rows, n_components) array."""
        _kernels.curves.predict_curved(X, self._packed, out, start, stop)

    def call(self) -> Callable[..., None]:
        """Return `predict` with as few steps as there can be; it keeps this object."""
        loop, model = _kernels.curves.predict_curved, self._packed
        return lambda X, out, start, stop, _keep=self: loop(X, model, out, start, stop)

    @cached_property
    def _packed(self) -> Array:
        """The arrays as one argument; this object keeps them."""
        m = self.map
        of_map = (m.linear, m.W, m.columns, m.nodes, m.gaps, m.first, m.H, m.bias, m.table)
        return np.asarray(packed(*of_map, self.v, self.intercept))


def compile_curved_map(directions: Directions, curves: ColumnCurves, pieces: Pieces, a: Array, dtype: Any) -> CurvedMap:
    """Fold the grid of the activation into directions and curves; columns without any effect are left out."""
    knots, W = curves.knots, directions.W
    offset, moved = directions.offset.astype(np.float64), np.zeros(directions.n_features)
    columns, nodes, values = [], [], []
    for curve, column in enumerate(knots.columns):
        own = curves.values[knots.start[curve] : knots.start[curve + 1]]
        if not (W[column].any() or own.any()):
            continue
        q = knots.of(curve)
        centre, unit = (q[0] + q[-1]) / 2, q[-1] - q[0]
        wide = np.concatenate([[q[0] - unit], q, [q[-1] + unit]])
        if np.dtype(dtype) == np.float32 and abs(centre) > FAR * unit:
            moved[column] = in_single_precision(centre)
        columns.append(column)
        nodes.append(wide - moved[column])
        values.append((wide - centre)[:, None] * W[column] + np.concatenate([own[:1], own, own[-1:]]))
        offset += centre * W[column]
    linear = np.setdiff1d(np.flatnonzero(W.any(axis=1)), knots.columns)
    straight = far_centre(W[linear], offset, pieces, dtype)
    if straight is not None:
        moved[linear] = straight
        offset += straight @ W[linear]
    block = BLOCK_VECTORS * lanes(dtype)
    padding = -offset.size % block

    def wide_as(rows: Array) -> Array:
        return np.ascontiguousarray(np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, padding)]), dtype)

    table = pieces.table(a)
    if table.shape[0] > 1:
        table = np.pad(table, ((0, padding), (0, 0), (0, 0)))
    H = wide_as((np.concatenate(values) if values else np.zeros((0, offset.size))) / pieces.step)
    return CurvedMap(
        linear,
        wide_as(W[linear] / pieces.step),
        np.array(columns, np.intp),
        np.concatenate(nodes).astype(dtype) if nodes else np.zeros(0, dtype),
        np.concatenate([one_over_gaps(part, dtype) for part in nodes]) if nodes else np.zeros(0, dtype),
        np.cumsum([0, *(part.size for part in nodes)]),
        np.ascontiguousarray(H.reshape(H.shape[0], H.shape[1] // block, block).transpose(1, 0, 2)),
        wide_as((offset - pieces.low) / pieces.step - 0.5),
        np.ascontiguousarray(table, dtype),
        int(offset.size),
        moved.astype(dtype) if moved.any() else None,
    )


def compile_features(
    directions: Directions, curves: ColumnCurves | None, pieces: Pieces, a: Array, dtype: Any
) -> FeatureMap | CurvedMap:
    """Compile the map of a model whose columns may have curves."""
    if curves is None:
        return compile_map(directions, pieces, a, dtype)
    return compile_curved_map(directions, curves, pieces, a, dtype)


def pack_curved(curved_map: CurvedMap, v: Array, intercept: Array) -> CurvedPredictor:
    """Pack ``v`` (n_components, n_outputs) and the map for `CurvedPredictor`."""
    padding = curved_map.bias.size - curved_map.width
    dtype = curved_map.dtype
    wide = np.ascontiguousarray(np.pad(v.T, ((0, 0), (0, padding))), dtype)
    return CurvedPredictor(curved_map, wide, np.ascontiguousarray(intercept, dtype))
