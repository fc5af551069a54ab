"""Compiled Gram matrix of basis functions: products summed over rows for every pair of components.

If only functions k to k + 3 are nonzero in cell k, as for cubic B-splines, a row adds a 4 x 4 square to the block of
components m and n, instead of the product of all functions with all:

    block[k_m + i, k_n + j] += B_(k_m + i)(u_m) B_(k_n + j)(u_n),      i, j = 0 to 3

Rows are sorted by their cell k_m once for all n. So while the rows of a cell pass, only the squares of the cells k_n
are written, which stay in the first-level cache, one aligned square per cell, and are then added to the block.
Several n run at once, since their squares are independent. The reference is the product of the expanded features.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .loops import jit, part
from .vectors import I64, LANES, address, load, multiply_add, shifted, shuffle, store

_ABREAST = 4  # components n at once
_SQUARE = 16


@intrinsic
def _add_squares(typing: Any, left: Any, at: Any, right: Any, squares: Any, row: Any, sums: Any) -> Any:
    """``sums[squares[row, n]:][:16] += left[at:at+4]' right[row, n]`` for the components n at once."""
    kind = LANES[left.dtype]
    signature = types.void(left, types.int64, right, squares, types.int64, sums)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        a = load(builder, address(context, builder, sig.args[0], args[0], args[1]), kind.quad)
        a = shuffle(builder, a, a, [p for p in range(4) for _ in range(4)])
        first = builder.mul(args[4], ir.Constant(I64, _ABREAST))
        values = address(context, builder, sig.args[2], args[2], builder.mul(first, ir.Constant(I64, 4)))
        offsets = address(context, builder, sig.args[3], args[3], first)
        base = address(context, builder, sig.args[5], args[5], ir.Constant(I64, 0))
        ahead = [builder.sext(builder.load(shifted(builder, offsets, b)), I64) for b in range(_ABREAST)]
        rows = [load(builder, shifted(builder, values, 4 * b), kind.quad) for b in range(_ABREAST)]
        for offset, b in zip(ahead, rows, strict=True):
            place = builder.gep(base, [offset])
            b = shuffle(builder, b, b, [q for _ in range(4) for q in range(4)])
            store(builder, multiply_add(builder, a, b, load(builder, place, a.type), kind), place)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _move_squares(typing: Any, sums: Any, at: Any, block: Any, to: Any, width: Any) -> Any:
    """Add the squares of four neighbouring cells, each one column to the right of the one before, and clear them.

    ``block[p, i:i+4] += sums[i, p]`` for i and p from 0 to 3, with offsets ``at`` and ``to`` and rows of ``width``.
    """
    kind = LANES[sums.dtype]
    signature = types.void(sums, types.int64, block, types.int64, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        source = address(context, builder, sig.args[0], args[0], args[1])
        target = address(context, builder, sig.args[2], args[2], args[3])
        zeros = ir.Constant(kind.quad, [ir.Constant(kind.real, 0.0)] * 4)
        for p in range(4):
            place = builder.gep(target, [builder.mul(args[4], ir.Constant(I64, p))])
            total = load(builder, place, ir.VectorType(kind.real, 8))
            for i in range(4):
                row = load(builder, shifted(builder, source, _SQUARE * i + 4 * p), kind.quad)
                shift = [j - i if 0 <= j - i < 4 else 4 for j in range(8)]
                total = builder.fadd(total, shuffle(builder, row, zeros, shift))
            store(builder, total, place)
        for i in range(_SQUARE):
            store(builder, zeros, shifted(builder, source, 4 * i))
        return context.get_dummy_value()

    return signature, generate


class _Sorted(NamedTuple):
    """Rows sorted by their cell for every component m, and squares to sum into; see `multiply_pairs`.

    ``order`` (S, R) are the rows, ``ends`` (S, K + 1) of the cells, ``left`` (S, R, 4) the weighted values in this
    order; ``right`` (G, R, A, 4) the values and ``squares`` (G, R, A) the places of the components abreast, row by row.
    """

    order: Any
    ends: Any
    left: Any
    right: Any
    squares: Any
    cell: Any
    clipped: Any
    place: Any
    sums: Any
    block: Any


def _buffers(u: Any, n_cells: int) -> _Sorted:
    (n_components, n_rows), dtype = u.shape, u.dtype
    n_groups, padded = -(-n_components // _ABREAST), n_cells + -n_cells % 4
    return _Sorted(
        order=np.empty((n_components, n_rows), np.int32),
        ends=np.zeros((n_components, n_cells + 1), np.int64),
        left=np.empty((n_components, n_rows, 4), dtype),
        right=np.zeros((n_groups, n_rows, _ABREAST, 4), dtype),
        squares=np.zeros((n_groups, n_rows, _ABREAST), np.int32),
        cell=np.empty(n_rows, np.int64),
        clipped=np.empty(n_rows, dtype),
        place=np.empty(n_cells, np.int64),
        sums=np.zeros((_ABREAST, padded, 4, 4), dtype),
        block=np.zeros((_ABREAST, n_cells + 3, padded + 4), dtype),
    )


def multiply_pairs(u: Any, weight: Any, others: Any, pieces: Any, out: Any, cross: Any) -> None:
    """``out[n (n + 1) / 2 + m, i, j] = sum_r weight[r] B_i(u[m, r]) B_j(u[n, r])`` for m <= n, and
    ``cross[m, i, o] = sum_r weight[r] B_i(u[m, r]) others[o, r]``.

    Shapes (S, R), (R,), (O, R), (K, 4, 4), (S (S + 1) / 2, N, N) and (S, N, O), both float64, N at most K + 3. In cell
    k the functions k to k + 3 are nonzero, ``pieces[k]`` are their cubics. Pairs are summed in the precision of ``u``.
    """
    _multiply_pairs(u, weight, others, pieces, _buffers(u, pieces.shape[0]), out, cross)


@part
def _sort(u: Any, m: Any, weight: Any, pieces: Any, rows: Any, padded: Any) -> None:
    """Sort the rows by their cell of component ``m``, and compute its basis functions."""
    n_rows, n_cells = u.shape[1], pieces.shape[0]
    real = u.dtype.type
    top, bottom, half = np.nextafter(real(n_cells - 0.5), real(0)), real(-0.5), real(0.5)
    cell, clipped, place, ends = rows.cell, rows.clipped, rows.place, rows.ends[m]
    group, abreast = m // _ABREAST, m % _ABREAST
    for r in range(n_rows):
        inside = u[m, r] if u[m, r] > bottom else bottom  # NaN goes to the first cell
        inside = inside if inside < top else top
        k = min(np.int64(inside + half), n_cells - 1)  # the sum may round up to n_cells
        cell[r], clipped[r] = k, inside
        ends[k + 1] += 1
    for k in range(n_cells):
        place[k] = ends[k]
        ends[k + 1] += ends[k]
    for r in range(n_rows):
        k = cell[r]
        t = clipped[r] - real(k)  # in the precision of the block
        i = place[k]
        place[k] += 1
        rows.order[m, i] = r
        rows.squares[group, r, abreast] = _SQUARE * (abreast * padded + k)
        for a in range(4):
            value = ((pieces[k, a, 3] * t + pieces[k, a, 2]) * t + pieces[k, a, 1]) * t + pieces[k, a, 0]
            rows.left[m, i, a] = weight[r] * value
            rows.right[group, r, abreast, a] = value


@part
def _multiply_others(m: Any, others: Any, rows: Any, cross: Any) -> None:
    n_cells, n_basis = rows.place.size, cross.shape[1]
    for i in range(n_basis):
        for o in range(others.shape[0]):
            cross[m, i, o] = 0
    for k in range(n_cells):
        for a in range(min(4, n_basis - k)):
            for o in range(others.shape[0]):
                total = 0.0
                for i in range(rows.ends[m, k], rows.ends[m, k + 1]):
                    total += rows.left[m, i, a] * others[o, rows.order[m, i]]
                cross[m, k + a, o] += total


@jit
def _multiply_pairs(u: Any, weight: Any, others: Any, pieces: Any, rows: Any, out: Any, cross: Any) -> None:
    n_components, n_cells, n_basis = u.shape[0], pieces.shape[0], out.shape[2]
    sums, block = rows.sums, rows.block
    padded, height, width = sums.shape[1], block.shape[1], block.shape[2]
    for m in range(n_components):
        _sort(u, m, weight, pieces, rows, padded)
        _multiply_others(m, others, rows, cross)
    for group in range(rows.right.shape[0]):
        values, offsets = rows.right[group], rows.squares[group]
        for m in range(min((group + 1) * _ABREAST, n_components)):
            sorted_values, order = rows.left[m], rows.order[m]
            for k in range(n_cells):
                for i in range(rows.ends[m, k], rows.ends[m, k + 1]):
                    _add_squares(sorted_values, 4 * i, values, offsets, np.int64(order[i]), sums)
                for o in range(0, padded, 4):
                    for b in range(_ABREAST):
                        _move_squares(sums, _SQUARE * (b * padded + o), block, (b * height + k) * width + o, width)
            for b in range(_ABREAST):
                n = group * _ABREAST + b
                if m <= n < n_components:
                    for i in range(n_basis):
                        for j in range(n_basis):
                            out[n * (n + 1) // 2 + m, i, j] = block[b, i, j]
            block[:] = 0
