"""Compiled loops over curved columns (locate cells, add curves, predict) and over sparse rows.

Vectors run over the components: the curve of a column is a table of node values ``H`` (n_nodes, S), contiguous over
the components, and a row locates its cell in a column once for all of them. ``S`` is padded to whole vectors. Functions
take whole arrays and a row index, since views of rows cost more than their use. NumPy reference: ``ColumnCurves``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .loops import jit, owning, part
from .shapes import BLOCK_VECTORS, FARTHEST
from .vectors import (
    I32,
    I64,
    LANES,
    address,
    array_at,
    cell,
    clip,
    gather_cubics,
    give_back,
    load,
    multiply_add,
    shifted,
    splat,
    store,
    take_memory,
)

_TILE = 64  # rows of a tile


def lane_offsets(builder: Any, stride: Any, kind: Any) -> Any:
    """Return ``stride`` times the index of the lane."""
    numbers = [ir.Constant(kind.integer, lane) for lane in range(kind.count)]
    vector = ir.Constant(ir.VectorType(kind.integer, kind.count), numbers)
    stride = builder.trunc(stride, I32) if kind.integer is I32 else stride
    return builder.mul(vector, splat(builder, stride, kind.count))


def lane_cubics(builder: Any, cells: Any, inside: Any, stride: Any, kind: Any) -> tuple[Any, list[Any]]:
    """Return t and four coefficients at clipped cell coordinates; the table of lane l is l strides after ``cells``."""
    t, offsets = cell(builder, inside, kind, lane_offsets(builder, stride, kind))
    return t, gather_cubics(builder, cells, offsets, kind)


@intrinsic
def _add_response(
    typing: Any, table: Any, start: Any, stride: Any, u: Any, at: Any, v: Any, v_at: Any, total: Any, to: Any, top: Any
) -> Any:
    """Add ``total[to:to+L] += v cubic(u[at:at+L])``; the table of lane l is l strides after ``start``."""
    kind = LANES[u.dtype]
    i64 = types.int64
    signature = types.void(table, i64, i64, u, i64, v, i64, total, i64, u.dtype)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        cells = address(context, builder, sig.args[0], args[0], args[1])
        source = address(context, builder, sig.args[3], args[3], args[4])
        weight = address(context, builder, sig.args[5], args[5], args[6])
        target = address(context, builder, sig.args[7], args[7], args[8])
        inside = clip(builder, load(builder, source, kind.vector), splat(builder, args[9], kind.count), kind)
        t, (c0, c1, c2, value) = lane_cubics(builder, cells, inside, args[2], kind)
        for coefficient in (c2, c1, c0):
            value = multiply_add(builder, value, t, coefficient, kind)
        before = load(builder, target, kind.vector)
        store(builder, multiply_add(builder, load(builder, weight, kind.vector), value, before, kind), target)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _add_curve_block(
    typing: Any, u: Any, at: Any, H: Any, start: Any, cells: Any, fractions: Any, first: Any, n_curves: Any
) -> Any:
    """``u[at:at+2L] += sum_c (1 - f_c) H[k_c] + f_c H[k_c + 1]``, H packed in rows of 2L from offset ``start``.

    ``cells`` and ``fractions`` hold ``k_c`` and ``f_c`` from ``first`` on; at least one curve.
    """
    kind = LANES[u.dtype]
    i64 = types.int64
    signature = types.void(u, i64, H, i64, cells, fractions, i64, i64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        target = address(context, builder, sig.args[0], args[0], args[1])
        table = address(context, builder, sig.args[2], args[2], args[3])
        cell_at = address(context, builder, sig.args[4], args[4], args[6])
        fraction_at = address(context, builder, sig.args[5], args[5], args[6])
        places = [shifted(builder, target, v * kind.count) for v in range(BLOCK_VECTORS)]
        before = builder.block
        zero = ir.Constant(I64, 0)
        start = [load(builder, place, kind.vector) for place in places]
        loop, after = builder.append_basic_block("curve"), builder.append_basic_block("done")
        builder.branch(loop)
        builder.position_at_end(loop)
        c = builder.phi(I64)
        c.add_incoming(zero, before)
        sums = [builder.phi(kind.vector) for _ in start]
        for total, value in zip(sums, start, strict=True):
            total.add_incoming(value, before)
        row = builder.mul(builder.load(builder.gep(cell_at, [c])), ir.Constant(I64, BLOCK_VECTORS * kind.count))
        left = builder.gep(table, [row])
        f = splat(builder, builder.load(builder.gep(fraction_at, [c])), kind.count)
        updated = []
        for v, total in enumerate(sums):
            low = load(builder, shifted(builder, left, v * kind.count), kind.vector)
            high = load(builder, shifted(builder, left, (v + BLOCK_VECTORS) * kind.count), kind.vector)
            rise = multiply_add(builder, f, builder.fsub(high, low), low, kind)
            updated.append(builder.fadd(total, rise))
        following = builder.add(c, ir.Constant(I64, 1))
        c.add_incoming(following, loop)
        for total, value in zip(sums, updated, strict=True):
            total.add_incoming(value, loop)
        builder.cbranch(builder.icmp_signed("<", following, args[7]), loop, after)
        builder.position_at_end(after)
        for value, place in zip(updated, places, strict=True):
            store(builder, value, place)
        return context.get_dummy_value()

    return signature, generate


@part
def locate(
    X: Any, row: Any, n_rows: Any, columns: Any, nodes: Any, gaps: Any, start: Any, cells: Any, fractions: Any, x: Any,
    count: Any,
) -> None:  # fmt: skip
    """Write the cells of rows row to row + n_rows in every curved column to ``cells`` and ``fractions`` (n_rows, C).

    A cell is the index of the node to the left, the fraction the share of the way to the next node; beyond the outer
    nodes the fraction leaves [0, 1], up to a million. ``gaps[k]`` is one over the distance from node k to the next.
    Counting the nodes below many rows at once is faster than a binary search for each; ``x`` and ``count`` hold them.
    """
    farthest = X.dtype.type(FARTHEST)
    for c in range(columns.size):
        for i in range(n_rows):
            x[i] = X[row + i, columns[c]]
            count[i] = 0
        for k in range(start[c] + 1, start[c + 1] - 1):  # the first and last cell have no other end
            node = nodes[k]
            for i in range(n_rows):
                count[i] += x[i] >= node
        for i in range(n_rows):
            k = start[c] + count[i]
            f = (x[i] - nodes[k]) * gaps[k]
            cells[i, c] = k
            fractions[i, c] = min(max(f, -farthest), farthest)


def locate_within(X: Any, columns: Any, nodes: Any, gaps: Any, start: Any, cells: Any, fractions: Any) -> None:
    """Apply `locate` to every row of ``X``; fractions are clipped to [0, 1]."""
    shape = (_TILE, columns.size)
    buffers = np.empty(shape, np.int64), np.empty(shape, X.dtype), np.empty(_TILE, X.dtype), np.empty(_TILE, np.int32)
    _locate_within(X, columns, nodes, gaps, start, cells, fractions, *buffers)


@jit
def _locate_within(
    X: Any, columns: Any, nodes: Any, gaps: Any, start: Any, cells: Any, fractions: Any, own_cells: Any,
    own_fractions: Any, x: Any, count: Any,
) -> None:  # fmt: skip
    for row in range(0, X.shape[0], _TILE):
        n_rows = min(_TILE, X.shape[0] - row)
        locate(X, row, n_rows, columns, nodes, gaps, start, own_cells, own_fractions, x, count)
        for i in range(n_rows):
            for c in range(columns.size):
                cells[row + i, c] = own_cells[i, c]
                fractions[row + i, c] = min(max(own_fractions[i, c], 0.0), 1.0)


@part
def _straight_inputs(X: Any, row: Any, n_rows: Any, linear: Any, W: Any, bias: Any, u: Any) -> None:
    """``u[i] = bias + sum_linear x_c W[c]`` for rows row to row + n_rows."""
    for i in range(n_rows):
        for j in range(bias.size):
            u[i, j] = bias[j]
        for c in range(linear.size):
            x = X[row + i, linear[c]]
            if x != 0:  # most entries of dummy columns
                for j in range(bias.size):
                    u[i, j] += x * W[c, j]


@owning(jit)
def curved_inputs(
    X: Any, linear: Any, W: Any, columns: Any, nodes: Any, gaps: Any, first: Any, H: Any, bias: Any, u: Any
) -> None:
    """``u[i] = bias + sum_linear x_c W[c] + sum_c curves``: (n, d) to (n, S); ``H`` packed (S / 2L, T, 2L)."""
    width, n_curves, n_nodes = bias.size, columns.size, nodes.size
    block = H.shape[2]
    cells = np.empty((_TILE, n_curves), np.int64)
    fractions = np.empty((_TILE, n_curves), X.dtype)
    x, count = np.empty(_TILE, X.dtype), np.empty(_TILE, np.int32)
    _straight_inputs(X, 0, X.shape[0], linear, W, bias, u)
    if n_curves:
        for row in range(0, X.shape[0], _TILE):
            n_rows = min(_TILE, X.shape[0] - row)
            locate(X, row, n_rows, columns, nodes, gaps, first, cells, fractions, x, count)
            for b in range(H.shape[0]):
                for i in range(n_rows):
                    at = (row + i) * width + b * block
                    _add_curve_block(u, at, H, b * n_nodes * block, cells, fractions, i * n_curves, n_curves)


@jit
def predict_curved(X: Any, model: Any, out: Any, start: Any, stop: Any) -> None:
    """``out[i] = intercept + sum_m v[:, m] table_m(u_m)`` for rows start to stop; ``v`` (O, S), no (n, S) array.

    ``model`` is `packed` of linear, W, columns, nodes, gaps, first, H, bias, table, v and intercept, of shapes (L,),
    (L, S), (C,), (T,), (T,), (C + 1,), (S / 2L, T, 2L), (S,), (1 or S, K, 4), (O, S), (O,); X (n, d), out (n, O).
    A few components serve a tile of rows, so that their nodes and tables stay in the first-level cache.
    """
    linear = array_at(model[0], model, (model[1],))
    W = array_at(model[2], X, (model[3], model[4]))
    columns = array_at(model[5], model, (model[6],))
    nodes = array_at(model[7], X, (model[8],))
    gaps = array_at(model[9], X, (model[10],))
    first = array_at(model[11], model, (model[12],))
    H = array_at(model[13], X, (model[14], model[15], model[16]))
    bias = array_at(model[17], X, (model[18],))
    table = array_at(model[19], X, (model[20], model[21], model[22]))
    v = array_at(model[23], X, (model[24], model[25]))
    intercept = array_at(model[26], X, (model[27],))
    width, n_outputs, n_curves, n_nodes = bias.size, intercept.size, columns.size, nodes.size
    n_tables, n_cells, _ = table.shape
    lanes, block = 32 // X.itemsize, H.shape[2]
    stride = 4 * n_cells if n_tables > 1 else 0
    top = np.nextafter(X.dtype.type(n_cells - 0.5), X.dtype.type(0))
    tile = max(1, min(_TILE, stop - start))
    size, curved = tile * X.itemsize, 8 * tile * n_curves  # bytes of one column, and of all cells
    memory = take_memory(64 + curved + size * (width + lanes + n_curves + 1) + 4 * tile)
    room = memory + -memory % 64  # the cache line
    cells, place = array_at(room, model, (tile, n_curves)), room + curved
    u, total = array_at(place, X, (tile, width)), array_at(place + size * width, X, (tile, lanes))
    place += size * (width + lanes)
    fractions, x = array_at(place, X, (tile, n_curves)), array_at(place + size * n_curves, X, (tile,))
    count = array_at(place + size * (n_curves + 1), np.int32, (tile,))
    for row in range(start, stop, tile):
        n_rows = min(tile, stop - row)
        _straight_inputs(X, row, n_rows, linear, W, bias, u)
        locate(X, row, n_rows, columns, nodes, gaps, first, cells, fractions, x, count)
        for o in range(n_outputs):
            total[:] = 0
            for b in range(H.shape[0]):
                for i in range(n_rows):
                    at = i * width + b * block
                    if n_curves and o == 0:
                        _add_curve_block(u, at, H, b * n_nodes * block, cells, fractions, i * n_curves, n_curves)
                    for j in range(b * block, (b + 1) * block, lanes):
                        _add_response(
                            table, j * stride, stride, u, i * width + j, v, o * width + j, total, i * lanes, top
                        )
            for i in range(n_rows):
                answer = intercept[o]
                for lane in range(lanes):
                    answer += total[i, lane]
                out[row + i, o] = answer
    give_back(memory)


@part
def _sparse_inputs(data: Any, columns: Any, first: Any, last: Any, W: Any, bias: Any, u: Any) -> None:
    """``u = bias + sum_e data[e] W[columns[e]]`` for e from first to last, two at a time."""
    for j in range(bias.size):
        u[j] = bias[j]
    for e in range(first, last - 1, 2):
        x, k, y, p = data[e], columns[e], data[e + 1], columns[e + 1]
        for j in range(bias.size):
            u[j] += x * W[k, j] + y * W[p, j]
    if (last - first) % 2:
        x, k = data[last - 1], columns[last - 1]
        for j in range(bias.size):
            u[j] += x * W[k, j]


@owning(jit)
def predict_sparse(
    data: Any, columns: Any, ends: Any, W: Any, bias: Any, table: Any, v: Any, intercept: Any, out: Any, start: Any,
    stop: Any,
) -> None:  # fmt: skip
    """``out[i] = intercept + sum_m v[m] table_m(x[i] . W[:, m] + bias[m])`` for rows start to stop in CSR.

    Row i has ``data[e]`` in ``columns[e]`` for e from ends[i] to ends[i + 1]. Shapes (E,), (E,), (n + 1,), (d, S),
    (S,), (1 or S, K, 4), (S, O), (O,), (n, O); S is padded to whole vectors with zero weights.
    """
    width, n_outputs = bias.size, intercept.size
    n_tables, n_cells, _ = table.shape
    lanes = 32 // data.itemsize
    stride = 4 * n_cells if n_tables > 1 else 0
    top = np.nextafter(data.dtype.type(n_cells - 0.5), data.dtype.type(0))
    u, z, one = np.empty(width, data.dtype), np.empty(width, data.dtype), np.ones(lanes, data.dtype)
    for i in range(start, stop):
        _sparse_inputs(data, columns, ends[i], ends[i + 1], W, bias, u)
        z[:] = 0
        for j in range(0, width, lanes):
            if n_outputs == 1:
                _add_response(table, j * stride, stride, u, j, v, j, z, 0, top)
            else:
                _add_response(table, j * stride, stride, u, j, one, 0, z, j, top)
        for o in range(n_outputs):
            out[i, o] = intercept[o]
        if n_outputs == 1:
            for lane in range(lanes):
                out[i, 0] += z[lane]
        else:
            for j in range(width):
                for o in range(n_outputs):
                    out[i, o] += z[j] * v[j, o]
