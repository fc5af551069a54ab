"""Compiled inner loops: look up, scatter and contract a piecewise cubic on an even grid.

Every activation is a *table* of shape ``(n_tables, n_cells, 4)``: one table shared by all components or one per
component, with the coefficients of ``c0 + c1 t + c2 t^2 + c3 t^3`` about the **middle** of each cell of unit length,
so that ``t`` lies in [-1/2, 1/2].
Cell coordinates (see ``vectors.py``) are clipped to ``[-1/2, n_cells - 1/2)``, so an activation is constant, hence
bounded, outside its table. Blocks are component-major, ``(n_components, n_rows)``: a table stays in the first-level
cache for a whole row. The tests hold NumPy references.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .loops import jit, owning, part
from .shapes import TILE_COMPONENTS, TILE_VECTORS
from .tiles import pack_rows, project_few, project_tile
from .vectors import (
    I64,
    LANES,
    address,
    array_at,
    cell,
    clip,
    cubic,
    give_back,
    load,
    multiply_add,
    shifted,
    splat,
    stack_buffer,
    store,
    take_memory,
    to_rows,
)

_COPIES = 4  # copies of the moments, so that neighbouring rows of one cell do not wait for each other
_FLUSH = 1 << 14  # entries scattered in the precision of the block before the float64 sums


@intrinsic
def _look_up(typing: Any, table: Any, start: Any, u: Any, at: Any, out: Any, to: Any, top: Any) -> Any:
    """``out[to:to+L] = cubic(u[at:at+L])`` from the table at offset ``start``; L lanes."""
    kind = LANES[u.dtype]
    signature = types.void(table, types.int64, u, types.int64, out, types.int64, u.dtype)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        cells = address(context, builder, sig.args[0], args[0], args[1])
        source = address(context, builder, sig.args[2], args[2], args[3])
        target = address(context, builder, sig.args[4], args[4], args[5])
        top = splat(builder, args[6], kind.count)
        store(builder, cubic(builder, cells, load(builder, source, kind.vector), top, kind), target)
        return context.get_dummy_value()

    return signature, generate


def _accumulator(n_vectors: int) -> Any:
    """Make the intrinsic that adds to one row of a register tile, or to its first vectors only."""

    @intrinsic
    def accumulate(typing: Any, table: Any, start: Any, u: Any, at: Any, out: Any, factor: Any, top: Any) -> Any:
        """``out[0:nL] += factor * cubic(u[at:at+nL])`` from the table at offset ``start``; n vectors of L lanes."""
        kind = LANES[u.dtype]
        signature = types.void(table, types.int64, u, types.int64, out, u.dtype, u.dtype)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            cells = address(context, builder, sig.args[0], args[0], args[1])
            source = address(context, builder, sig.args[2], args[2], args[3])
            target = address(context, builder, sig.args[4], args[4], ir.Constant(I64, 0))
            factor, top = (splat(builder, scalar, kind.count) for scalar in args[5:7])
            places = [shifted(builder, source, v * kind.count) for v in range(n_vectors)]
            values = [cubic(builder, cells, load(builder, place, kind.vector), top, kind) for place in places]
            for v, value in enumerate(values):
                place = shifted(builder, target, v * kind.count)
                total = load(builder, place, kind.vector)
                store(builder, multiply_add(builder, factor, value, total, kind), place)
            return context.get_dummy_value()

        return signature, generate

    return accumulate


_one_vector, _row_of_tile, _tile = (
    stack_buffer(1, 1),
    stack_buffer(1, TILE_VECTORS),
    stack_buffer(TILE_COMPONENTS, TILE_VECTORS),
)
_accumulate, _accumulate_few = _accumulator(TILE_VECTORS), _accumulator(1)


@intrinsic
def _scatter(typing: Any, u: Any, at: Any, e: Any, e_at: Any, moments: Any, stride: Any, top: Any) -> Any:
    """``moments[copy, cell] += e (1, t, t^2, t^3)`` for L lanes; lane l goes to copy l mod _COPIES."""
    kind = LANES[u.dtype]
    signature = types.void(u, types.int64, e, types.int64, moments, types.int64, u.dtype)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        source = address(context, builder, sig.args[0], args[0], args[1])
        weight = address(context, builder, sig.args[2], args[2], args[3])
        base = address(context, builder, sig.args[4], args[4], ir.Constant(I64, 0))
        top = splat(builder, args[6], kind.count)
        t, offsets = cell(builder, clip(builder, load(builder, source, kind.vector), top, kind), kind)
        powers = [load(builder, weight, kind.vector)]
        for _ in range(3):
            powers.append(builder.fmul(powers[-1], t))
        for lane, row in enumerate(to_rows(builder, powers, kind)):
            copy = builder.mul(args[5], ir.Constant(I64, lane % _COPIES))
            place = builder.gep(base, [builder.add(offsets[lane], copy)])
            store(builder, builder.fadd(load(builder, place, kind.quad), row), place)
        return context.get_dummy_value()

    return signature, generate


@jit
def activate(u: Any, table: Any, out: Any) -> None:
    """``out[m, r] = table_m(u[m, r])``; ``out`` may be ``u``. Shapes (S, R), (1 or S, K, 4), (S, R)."""
    n_components, n_rows = u.shape
    n_tables, n_cells, _ = table.shape
    width = 32 // u.itemsize
    top = np.nextafter(u.dtype.type(n_cells - 0.5), u.dtype.type(0))
    whole = n_rows - n_rows % width
    tail = _one_vector(u)
    tail[:] = 0
    stride = n_cells * 4 if n_tables > 1 else 0
    for m in range(n_components):
        start = m * stride
        row = m * n_rows
        for r in range(0, whole, width):
            _look_up(table, start, u, row + r, out, row + r, top)
        for r in range(whole, n_rows):
            tail[0, r - whole] = u[m, r]
        if whole < n_rows:
            _look_up(table, start, tail, 0, tail, 0, top)
        for r in range(whole, n_rows):
            out[m, r] = tail[0, r - whole]


@owning(jit)
def scatter(u: Any, v: Any, residual: Any, sums: Any) -> None:
    """``sums[m, cell(u[m, r]), p] += e[m, r] t^p`` with ``e = v @ residual``, which is never formed.

    Shapes (S, R), (S, O), (O, R), (1 or S, K, 4): one table of sums for all components, or one per component;
    ``sums`` is float64. It is the transpose of `activate` as a linear map of the table, and through the pieces of a
    basis that of `contract`: H(v)' r.
    """
    n_components, n_rows = u.shape
    n_tables, n_cells, _ = sums.shape
    width = 32 // u.itemsize
    top = np.nextafter(u.dtype.type(n_cells - 0.5), u.dtype.type(0))
    padded = n_rows + -n_rows % width
    whole = n_rows - n_rows % width
    tail, e = _one_vector(u), np.zeros(padded, u.dtype)
    tail[:] = 0
    local = np.zeros((_COPIES, n_cells, 4), u.dtype)
    stride = n_cells * 4
    pending = 0
    for m in range(n_components):
        for r in range(n_rows):
            e[r] = v[m, 0] * residual[0, r]
        for o in range(1, v.shape[1]):
            for r in range(n_rows):
                e[r] += v[m, o] * residual[o, r]
        for r in range(0, whole, width):
            _scatter(u, m * n_rows + r, e, r, local, stride, top)
        for r in range(whole, n_rows):
            tail[0, r - whole] = u[m, r]
        if whole < n_rows:
            _scatter(tail, 0, e, whole, local, stride, top)
        pending += n_rows
        if n_tables > 1 or pending >= _FLUSH or m == n_components - 1:
            target = sums[m % n_tables]
            for copy in range(_COPIES):
                for k in range(n_cells):
                    for p in range(4):
                        target[k, p] += local[copy, k, p]
            local[:] = 0
            pending = 0


@part
def _locate(u: Any, bottom: Any, top: Any, half: Any, n_cells: Any) -> Any:
    """Return the cell of one cell coordinate, and the coordinate clipped to the cells."""
    clipped = u if u > bottom else bottom  # NaN goes to the first cell
    clipped = clipped if clipped < top else top
    k = min(np.int64(clipped + half), n_cells - 1)  # the sum may round up to n_cells
    return k, clipped


@jit
def contract(u: Any, weights: Any, pieces: Any, first: Any, last: Any, out: Any) -> None:
    """``out[i, r] += sum_m weights[m] B_i(u[m, r])``, the basis given by its cubic pieces.

    Shapes (S, R), (S,), (K, N, 4), (K,), (K,), (N, R); ``first[k]:last[k]`` are the nonzero basis functions of cell k.
    """
    n_components, n_rows = u.shape
    n_cells = pieces.shape[0]
    top = np.nextafter(u.dtype.type(n_cells - 0.5), u.dtype.type(0))
    bottom = u.dtype.type(-0.5)
    half = u.dtype.type(0.5)
    for m in range(n_components):
        weight = weights[m]
        for r in range(n_rows):
            k, clipped = _locate(u[m, r], bottom, top, half, n_cells)
            t = clipped - u.dtype.type(k)  # in the precision of the block
            for i in range(first[k], last[k]):
                c = pieces[k, i]
                out[i, r] += weight * (((c[3] * t + c[2]) * t + c[1]) * t + c[0])


@owning(jit)
def project(x: Any, w: Any, bias: Any, out: Any) -> None:
    """``out[m, i] = x[i] . w_m + bias[m]`` for rows with many zeros, packed as in `predict`.

    Shapes (n, d), (P/4, d, 4), (P,), (S, n), where P is S padded to a multiple of four.
    """
    n_features, (n_components, n_rows) = x.shape[1], out.shape
    tile = TILE_VECTORS * (32 // x.itemsize)
    packed, kept = np.zeros((n_features, tile), x.dtype), np.empty(n_features, np.int64)
    u = _tile(x)
    for i in range(0, n_rows, tile):
        last = min(tile, n_rows - i)
        depth = pack_rows(x, i, last, packed, kept)
        for j in range(0, n_components, TILE_COMPONENTS):
            project_tile(packed, kept, depth, w, j * n_features, bias, j, u)
            for c in range(min(TILE_COMPONENTS, n_components - j)):
                for r in range(last):
                    out[j + c, i + r] = u[c, r]


@jit
def predict(x: Any, model: Any, out: Any, start: Any, stop: Any) -> None:
    """``out[i] = intercept + sum_m v[m] table_m(x[i] . w_m + bias[m])`` for rows start to stop, in one sweep.

    ``model`` is `packed` of w, bias, table, v and intercept, of shapes (S/4, d, 4), (S,), (1 or S, K, 4), (S, O), (O,);
    x (n, d), out (n, O); S is padded to a multiple of four with zero weights. Tiles of a few vectors of rows stay in
    registers: no (n, S) array is ever formed. Inputs that are zero in all rows of a tile are skipped, as most indicator
    columns are.
    """
    w = array_at(model[0], x, (model[1], model[2], model[3]))
    bias = array_at(model[4], x, (model[5],))
    table = array_at(model[6], x, (model[7], model[8], model[9]))
    v = array_at(model[10], x, (model[11], model[12]))
    intercept = array_at(model[13], x, (model[14],))
    n_features = x.shape[1]
    n_components, n_outputs = v.shape
    n_tables, n_cells, _ = table.shape
    width = 32 // x.itemsize
    tile = TILE_VECTORS * width
    top = np.nextafter(x.dtype.type(n_cells - 0.5), x.dtype.type(0))
    size = tile * x.itemsize
    memory = take_memory(64 + 8 * n_features + size * (n_features + n_outputs))
    room = memory + -memory % 64  # the cache line
    packed, total = array_at(room, x, (n_features, tile)), array_at(room + size * n_features, x, (n_outputs, tile))
    kept = array_at(room + size * (n_features + n_outputs), model, (n_features,))
    packed[:] = 0
    u, z = _tile(x), _row_of_tile(x)
    stride = n_cells * 4 if n_tables > 1 else 0
    for i in range(start, stop, tile):
        n_rows = min(tile, stop - i)
        depth = pack_rows(x, i, n_rows, packed, kept)
        for o in range(n_outputs):
            for r in range(tile):
                total[o, r] = intercept[o]
        used = width if n_rows <= width else tile
        for j in range(0, n_components, TILE_COMPONENTS):
            if n_rows <= width:
                project_few(packed, kept, depth, w, j * n_features, bias, j, u)
            else:
                project_tile(packed, kept, depth, w, j * n_features, bias, j, u)
            for c in range(TILE_COMPONENTS):
                if n_outputs == 1:
                    if n_rows <= width:
                        _accumulate_few(table, (j + c) * stride, u, c * tile, total, v[j + c, 0], top)
                    else:
                        _accumulate(table, (j + c) * stride, u, c * tile, total, v[j + c, 0], top)
                    continue
                for r in range(0, used, width):
                    _look_up(table, (j + c) * stride, u, c * tile + r, z, r, top)
                for o in range(n_outputs):
                    factor = v[j + c, o]
                    for r in range(used):
                        total[o, r] += factor * z[0, r]
        for r in range(n_rows):
            for o in range(n_outputs):
                out[i + r, o] = total[o, r]
    give_back(memory)


@jit
def expand(u: Any, pieces: Any, first: Any, last: Any, out: Any) -> None:
    """``out[m, i, r] = B_i(u[m, r])``, the basis given by its cubic pieces: one group of rows per component.

    Shapes (S, R), (K, N, 4), (K,), (K,), (S, N, R); ``first[k]:last[k]`` are the nonzero basis functions of cell k.
    """
    n_components, n_rows = u.shape
    n_cells = pieces.shape[0]
    top = np.nextafter(u.dtype.type(n_cells - 0.5), u.dtype.type(0))
    bottom = u.dtype.type(-0.5)
    half = u.dtype.type(0.5)
    out[:] = 0
    for m in range(n_components):
        for r in range(n_rows):
            k, clipped = _locate(u[m, r], bottom, top, half, n_cells)
            t = clipped - u.dtype.type(k)  # in the precision of the block
            for i in range(first[k], last[k]):
                c = pieces[k, i]
                out[m, i, r] = ((c[3] * t + c[2]) * t + c[1]) * t + c[0]
