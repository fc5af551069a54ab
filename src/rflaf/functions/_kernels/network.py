"""Compiled loops of a refined network: one mini-batch forward and back.

Vectors run over the components, as in ``curves.py``. Everything is float32; ``S`` is padded to whole vectors.

The input of a component is u = bias + x W + sum_c ((1 - f_c) H[k_c] + f_c H[k_c + 1]), where k_c is the node to the
left of the row in column c and f_c the fraction of the way to the next node; a category adds H[l], the row of its
level; then z = table(u) and the outputs are V z.

The tests hold NumPy references.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from .curves import lane_cubics, lane_offsets
from .loops import jit, part
from .losses import to_slopes
from .products import multiply
from .vectors import I64, LANES, address, cell, clip, load, multiply_add, over_all, shifted, splat, store, to_rows

LANE = 8  # float32 in a vector
_BLOCK = 32  # components whose tables serve all rows of a batch before the next block


class Rows(NamedTuple):
    """Encoded rows: ``x`` (n, n_linear); ``cells`` and ``fractions`` (n, n_curves); ``y`` (n, O); ``weight`` (n,).

    ``levels`` (n, n_categories) are the rows of H that belong to the levels of a row.
    """

    x: Any
    cells: Any
    fractions: Any
    levels: Any
    y: Any
    weight: Any


class Network(NamedTuple):
    """Weights: ``W`` (n_linear, S), ``H`` (n_rows, S), ``bias`` (S,), ``table`` (1 or S, 4 K), ``V`` (O, S).

    ``H`` holds the nodes of every curve, then the levels of every category.
    """

    W: Any
    H: Any
    bias: Any
    table: Any
    V: Any


Gradient = Network  # derivatives; ``table`` has one copy per component, or per lane if the activation is shared


class Work(NamedTuple):
    """Buffers of one trainer."""

    x: Any
    u: Any
    z: Any
    slope: Any
    out: Any
    e: Any
    run: Any
    line: Any
    ramp: Any
    rough: Any


@intrinsic
def _respond(
    typing: Any, table: Any, start: Any, stride: Any, u: Any, at: Any, z: Any, slope: Any, to: Any, top: Any
) -> Any:
    """Set ``z[to:to+L]``, ``slope[to:to+L]`` to cubic and derivative at ``u[at:at+L]``; lane l is l strides on."""
    kind = LANES[u.dtype]
    signature = types.void(table, types.int64, types.int64, u, types.int64, z, slope, types.int64, u.dtype)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        cells = address(context, builder, sig.args[0], args[0], args[1])
        source = address(context, builder, sig.args[3], args[3], args[4])
        value_at = address(context, builder, sig.args[5], args[5], args[7])
        slope_at = address(context, builder, sig.args[6], args[6], args[7])
        u = load(builder, source, kind.vector)
        inside = clip(builder, u, splat(builder, args[8], kind.count), kind)
        t, (c0, c1, c2, c3) = lane_cubics(builder, cells, inside, args[2], kind)
        value = multiply_add(builder, multiply_add(builder, c3, t, c2, kind), t, c1, kind)
        value = multiply_add(builder, value, t, c0, kind)
        rise = multiply_add(builder, builder.fmul(c3, kind.constant(3)), t, builder.fadd(c2, c2), kind)
        rise = multiply_add(builder, rise, t, c1, kind)
        store(builder, value, value_at)
        flat = builder.select(builder.fcmp_ordered("==", u, inside), rise, kind.constant(0))
        store(builder, flat, slope_at)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _back(
    typing: Any, u: Any, e: Any, slope: Any, at: Any, bias: Any, to: Any, moments: Any, start: Any, stride: Any,
    top: Any,
) -> Any:  # fmt: skip
    """Apply the transpose of `_respond`: ``u[at:at+L] = e slope``, also added to ``bias[to:to+L]``; for every lane l,
    ``moments[start + l stride + 4 cell] += e (1, t, t^2, t^3)``.
    """
    kind = LANES[u.dtype]
    i64 = types.int64
    signature = types.void(u, e, slope, i64, bias, i64, moments, i64, i64, u.dtype)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        u_at, e_at, slope_at = (address(context, builder, sig.args[i], args[i], args[3]) for i in range(3))
        bias_at = address(context, builder, sig.args[4], args[4], args[5])
        base = address(context, builder, sig.args[6], args[6], args[7])
        inside = clip(builder, load(builder, u_at, kind.vector), splat(builder, args[9], kind.count), kind)
        t, offsets = cell(builder, inside, kind, lane_offsets(builder, args[8], kind))
        powers = [load(builder, e_at, kind.vector)]
        du = builder.fmul(powers[0], load(builder, slope_at, kind.vector))
        store(builder, du, u_at)
        store(builder, builder.fadd(load(builder, bias_at, kind.vector), du), bias_at)
        for _ in range(3):
            powers.append(builder.fmul(powers[-1], t))
        for offset, row in zip(offsets, to_rows(builder, powers, kind), strict=True):
            place = builder.gep(base, [offset])
            store(builder, builder.fadd(load(builder, place, kind.quad), row), place)
        return context.get_dummy_value()

    return signature, generate


def _column_visits(vectors: int, back: bool) -> Any:
    """Return the loop over the columns of one row for ``vectors`` vectors of components, forward or back."""

    @intrinsic
    def visit_columns(
        typing: Any, u: Any, at: Any, H: Any, j: Any, width: Any, cells: Any, fractions: Any, first: Any, n_curves: Any,
        levels: Any, first_level: Any, n_levels: Any,
    ) -> Any:  # fmt: skip
        kind = LANES[u.dtype]
        i64 = types.int64
        signature = types.void(u, i64, H, i64, i64, cells, fractions, i64, i64, levels, i64, i64)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            target = address(context, builder, sig.args[0], args[0], args[1])
            table = address(context, builder, sig.args[2], args[2], args[3])
            cell_at = address(context, builder, sig.args[5], args[5], args[7])
            fraction_at = address(context, builder, sig.args[6], args[6], args[7])
            level_at = address(context, builder, sig.args[9], args[9], args[10])
            places = [shifted(builder, target, v * kind.count) for v in range(vectors)]
            start = [load(builder, place, kind.vector) for place in places]

            def row_at(number_at: Any, c: Any) -> Any:
                number = builder.sext(builder.load(builder.gep(number_at, [c])), I64)
                return builder.gep(table, [builder.mul(number, args[4])])

            def of(row: Any) -> list[Any]:
                return [shifted(builder, row, v * kind.count) for v in range(vectors)]

            def along_curves(c: Any, values: list[Any]) -> list[Any]:
                low = row_at(cell_at, c)
                high = builder.gep(low, [args[4]])
                f = splat(builder, builder.load(builder.gep(fraction_at, [c])), kind.count)
                rest = builder.fsub(kind.constant(1), f)
                updated = []
                for left, right, value in zip(of(low), of(high), values, strict=True):
                    below, above = load(builder, left, kind.vector), load(builder, right, kind.vector)
                    if back:
                        store(builder, multiply_add(builder, rest, value, below, kind), left)
                        store(builder, multiply_add(builder, f, value, above, kind), right)
                        updated.append(value)
                    else:
                        part = multiply_add(builder, f, above, builder.fmul(rest, below), kind)
                        updated.append(builder.fadd(value, part))
                return updated

            def along_levels(c: Any, values: list[Any]) -> list[Any]:
                updated = []
                for place, value in zip(of(row_at(level_at, c)), values, strict=True):
                    total = builder.fadd(value, load(builder, place, kind.vector))
                    if back:
                        store(builder, total, place)
                    updated.append(value if back else total)
                return updated

            values = over_all(builder, args[8], start, along_curves)
            values = over_all(builder, args[11], values, along_levels)
            if not back:
                for value, place in zip(values, places, strict=True):
                    store(builder, value, place)
            return context.get_dummy_value()

        return signature, generate

    return visit_columns


_add_to_three, _add_to_two, _add_to_one = (_column_visits(vectors, back=False) for vectors in (3, 2, 1))
_back_of_three, _back_of_two, _back_of_one = (_column_visits(vectors, back=True) for vectors in (3, 2, 1))


@part
def _add_columns(u: Any, rows: Any, index: Any, H: Any) -> None:
    """``u[i] += sum_c (1 - f_c) H[k_c] + f_c H[k_c + 1]`` over curves, ``+ sum_c H[l_c]`` over categories.

    A few components visit all rows, so that their part of H stays in the first-level cache.
    """
    width, n_curves, n_levels = u.shape[1], rows.cells.shape[1], rows.levels.shape[1]
    cells, fractions, levels = rows.cells, rows.fractions, rows.levels
    j = 0
    while j < width:
        vectors = (width - j) // LANE
        for i in range(index.size):
            row, at = index[i], i * width + j
            if vectors >= 3:  # the width of most members
                _add_to_three(
                    u, at, H, j, width, cells, fractions, row * n_curves, n_curves, levels, row * n_levels, n_levels
                )
            elif vectors == 2:
                _add_to_two(
                    u, at, H, j, width, cells, fractions, row * n_curves, n_curves, levels, row * n_levels, n_levels
                )
            else:
                _add_to_one(
                    u, at, H, j, width, cells, fractions, row * n_curves, n_curves, levels, row * n_levels, n_levels
                )
        j += min(vectors, 3) * LANE


@part
def _add_column_gradient(du: Any, rows: Any, index: Any, A: Any) -> None:
    """Apply the transpose of `_add_columns`."""
    width, n_curves, n_levels = du.shape[1], rows.cells.shape[1], rows.levels.shape[1]
    cells, fractions, levels = rows.cells, rows.fractions, rows.levels
    j = 0
    while j < width:
        vectors = (width - j) // LANE
        for i in range(index.size):
            row, at = index[i], i * width + j
            if vectors >= 3:  # the width of most members
                _back_of_three(
                    du, at, A, j, width, cells, fractions, row * n_curves, n_curves, levels, row * n_levels, n_levels
                )
            elif vectors == 2:
                _back_of_two(
                    du, at, A, j, width, cells, fractions, row * n_curves, n_curves, levels, row * n_levels, n_levels
                )
            else:
                _back_of_one(
                    du, at, A, j, width, cells, fractions, row * n_curves, n_curves, levels, row * n_levels, n_levels
                )
        j += min(vectors, 3) * LANE


@part
def _inputs(rows: Any, index: Any, network: Any, work: Any) -> None:
    """Compute the inputs of all components, ``work.u`` (n, S), for the rows ``index``."""
    n_rows, n_linear = index.size, network.W.shape[0]
    u = work.u[:n_rows]
    if n_linear:
        x = work.x[:n_rows]
        for i in range(n_rows):
            row = index[i]
            for c in range(n_linear):
                x[i, c] = rows.x[row, c]
        multiply(x, network.W, u)
        for i in range(n_rows):
            for j in range(u.shape[1]):
                u[i, j] += network.bias[j]
    else:
        for i in range(n_rows):
            for j in range(u.shape[1]):
                u[i, j] = network.bias[j]
    if rows.cells.shape[1] + rows.levels.shape[1]:
        _add_columns(work.u, rows, index, network.H)


@part
def _respond_all(index: Any, network: Any, work: Any) -> None:
    """Compute ``work.z``, ``work.slope`` and V z; a block of components visits all rows, for the cache."""
    width, n_rows = network.bias.size, index.size
    n_cells = network.table.shape[1] // 4
    stride = 0 if network.table.shape[0] == 1 else 4 * n_cells
    top = np.nextafter(np.float32(n_cells - 0.5), np.float32(0))
    for first in range(0, width, _BLOCK):
        for i in range(n_rows):
            for j in range(first, min(first + _BLOCK, width), LANE):
                at = i * width + j
                _respond(network.table, j * stride, stride, work.u, at, work.z, work.slope, at, top)
    multiply(work.z[:n_rows], network.V.T, work.out[:n_rows])


@part
def _back_all(index: Any, network: Any, gradient: Any, work: Any) -> None:
    """Propagate derivatives from the outputs, ``work.out``, to the inputs, ``work.u``, and the tables."""
    width, n_rows = network.bias.size, index.size
    n_cells = network.table.shape[1] // 4
    stride = 0 if network.table.shape[0] == 1 else 4 * n_cells
    top = np.nextafter(np.float32(n_cells - 0.5), np.float32(0))
    multiply(work.out[:n_rows], network.V, work.e[:n_rows])
    gradient.bias[:] = 0
    for first in range(0, width, _BLOCK):
        for i in range(n_rows):
            for j in range(first, min(first + _BLOCK, width), LANE):
                at = i * width + j
                _back(work.u, work.e, work.slope, at, gradient.bias, j, gradient.table, j * stride, 4 * n_cells, top)


@part
def forward(rows: Any, index: Any, network: Any, work: Any) -> None:
    """Compute ``work.out``, V z at the rows ``index`` of one batch, and what `backward` needs."""
    _inputs(rows, index, network, work)
    _respond_all(index, network, work)


@part
def backward(rows: Any, index: Any, network: Any, gradient: Any, work: Any) -> None:
    """Compute the ``gradient`` from the derivatives in the outputs, ``work.out``, after `forward`."""
    n_rows = index.size
    _back_all(index, network, gradient, work)
    multiply(work.out[:n_rows].T, work.z[:n_rows], gradient.V)
    if rows.cells.shape[1] + rows.levels.shape[1]:
        _add_column_gradient(work.u, rows, index, gradient.H)
    if network.W.shape[0]:
        multiply(work.x[:n_rows].T, work.u[:n_rows], gradient.W)


@part
def batch_gradient(rows: Any, index: Any, network: Any, gradient: Any, work: Any, objective: Any) -> float:
    """Compute the ``gradient`` of 1/m sum w loss over ``index`` (H and table accumulate); return the summed loss."""
    forward(rows, index, network, work)
    loss: float = to_slopes(objective, work.out, rows, index)
    backward(rows, index, network, gradient, work)
    return loss


@jit
def outputs(rows: Any, index: Any, network: Any, work: Any, out: Any) -> None:
    """Compute ``out[i] = V z`` (n, O) for any number of rows ``index``."""
    batch = work.u.shape[0]
    for first in range(0, index.size, batch):
        part = index[first : first + batch]
        _inputs(rows, part, network, work)
        _respond_all(part, network, work)
        for i in range(part.size):
            for o in range(out.shape[1]):
                out[first + i, o] = work.out[i, o]
