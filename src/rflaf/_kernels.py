"""The compiled inner loops: an even-grid piecewise cubic looked up, scattered and contracted.

Every activation of the package reaches this file as a *table* of shape ``(n_tables, n_cells, 4)``: one
table shared by all components or one a component, ``n_cells`` cells of unit length, and in each cell the
coefficients of ``c0 + c1 t + c2 t^2 + c3 t^3`` about its **middle**, so that ``t`` lies in [-1/2, 1/2].
A *cell coordinate* ``u`` has its cells centred on 0, 1, ..., n_cells - 1; it is clipped to
``[-1/2, n_cells - 1/2)``, so an activation is constant, hence bounded, outside its table.

Blocks are component-major, ``(n_components, n_rows)``: a table stays in the first-level cache for a whole row.

The loops are written on short vectors (8 float32 or 4 float64) as LLVM instructions, without any
instruction of one processor family: clipping, adding 1.5 * 2^p and subtracting it again rounds to the nearest
cell without a conversion, and the low bits of the sum are the cell. That rounding must not be
reassociated, so no kernel here is compiled with ``fastmath``. NaN lands in a valid cell: memory-safe, not
propagated; callers validate first.

The intrinsics live beside the kernels because numba's disk cache is keyed on the kernel's own file.
Each kernel has a NumPy reference in ``features.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

TILE_COMPONENTS = 4  # components a register tile
_TILE_VECTORS = 3  # row vectors a register tile: 4 x 3 accumulators fill 12 of 16 vector registers
_COPIES = 4  # copies of the moments, so that neighbouring rows of one cell do not wait for each other
_FLUSH = 1 << 14  # entries scattered in the block's own precision before they join the float64 sums

_I64 = ir.IntType(64)
_I32 = ir.IntType(32)


def _jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on first use, cached on disk where some directory can be written."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # neither the package's nor the user's cache directory is writable
        return njit(**options)(function)


# --- vectors -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Lanes:
    """A vector type: its element, the integer of the same width, and the constant that rounds."""

    real: ir.Type
    integer: ir.IntType
    count: int
    magic: float
    mangled: str

    @property
    def vector(self) -> ir.VectorType:
        return ir.VectorType(self.real, self.count)

    @property
    def quad(self) -> ir.VectorType:
        return ir.VectorType(self.real, 4)

    def constant(self, value: float) -> ir.Constant:
        return ir.Constant(self.vector, [ir.Constant(self.real, value)] * self.count)

    def integers(self, value: int) -> ir.Constant:
        vector = ir.VectorType(self.integer, self.count)
        return ir.Constant(vector, [ir.Constant(self.integer, value)] * self.count)


_LANES = {
    types.float32: _Lanes(ir.FloatType(), _I32, 8, 1.5 * 2**23, "f32"),
    types.float64: _Lanes(ir.DoubleType(), _I64, 4, 1.5 * 2**52, "f64"),
}
_N_LANES = {np.dtype(np.float32): 8, np.dtype(np.float64): 4}


def lanes(dtype: np.dtype[Any]) -> int:
    """Number of elements in one vector of ``dtype``."""
    return _N_LANES[np.dtype(dtype)]


def _address(context: Any, builder: Any, array_type: Any, array: Any, offset: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [offset])


def _at(builder: Any, pointer: Any, offset: int) -> Any:
    return builder.gep(pointer, [ir.Constant(_I64, offset)]) if offset else pointer


def _load(builder: Any, pointer: Any, vector: ir.VectorType) -> Any:
    itemsize = 4 if isinstance(vector.element, ir.FloatType) else 8
    return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=itemsize)


def _store(builder: Any, value: Any, pointer: Any) -> None:
    vector = value.type
    itemsize = 4 if isinstance(vector.element, ir.FloatType) else 8
    builder.store(value, builder.bitcast(pointer, vector.as_pointer()), align=itemsize)


def _shuffle(builder: Any, left: Any, right: Any, order: list[int]) -> Any:
    mask = ir.Constant(ir.VectorType(_I32, len(order)), [ir.Constant(_I32, i) for i in order])
    return builder.shuffle_vector(left, right, mask)


def _splat(builder: Any, scalar: Any, count: int) -> Any:
    vector = ir.VectorType(scalar.type, count)
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
    return _shuffle(builder, first, undefined, [0] * count)


def _multiply_add(builder: Any, x: Any, y: Any, z: Any, kind: _Lanes) -> Any:
    name = f"llvm.fmuladd.v{x.type.count}{kind.mangled}"
    signature = ir.FunctionType(x.type, [x.type] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), [x, y, z])


def _cell(builder: Any, u: Any, top: Any, kind: _Lanes) -> tuple[Any, list[Any]]:
    """``t`` and, lane by lane, the offset ``4 * cell`` of clipped cell coordinates."""
    bottom = kind.constant(-0.5)
    u = builder.select(builder.fcmp_ordered(">", u, bottom), u, bottom)
    u = builder.select(builder.fcmp_ordered("<", u, top), u, top)
    magic = kind.constant(kind.magic)
    rounded = builder.fadd(u, magic)
    t = builder.fsub(u, builder.fsub(rounded, magic))
    bits = builder.bitcast(rounded, ir.VectorType(kind.integer, kind.count))
    offset = builder.shl(builder.and_(bits, kind.integers(0x3FFFFF)), kind.integers(2))
    return t, _extract_offsets(builder, offset, kind)


def _extract_offsets(builder: Any, offset: Any, kind: _Lanes) -> list[Any]:
    if kind.integer is _I64:
        return [builder.extract_element(offset, ir.Constant(_I32, lane)) for lane in range(kind.count)]
    pairs = builder.bitcast(offset, ir.VectorType(_I64, kind.count // 2))  # half as many extractions
    offsets = []
    for lane in range(kind.count // 2):
        pair = builder.extract_element(pairs, ir.Constant(_I32, lane))
        low = builder.and_(pair, ir.Constant(_I64, 0xFFFFFFFF))
        offsets += [low, builder.lshr(pair, ir.Constant(_I64, 32))]
    return offsets


def _interleave(builder: Any, left: Any, right: Any, chunk: int, half: int) -> Any:
    """Within every 128 bits, chunks of ``left`` and ``right`` in turn: of their low (0) or high (1) halves.

    These are the shuffles that stay within 128-bit lanes, the cheap ones on every processor.
    """
    count = left.type.count
    group = 4 if isinstance(left.type.element, ir.FloatType) else 2
    order = []
    for start in range(0, count, group):
        low = start + half * group // 2
        for i in range(low, low + group // 2, chunk):
            order += [*range(i, i + chunk), *range(count + i, count + i + chunk)]
    return _shuffle(builder, left, right, order)


def _transpose_lanes(builder: Any, rows: list[Any]) -> list[Any]:
    """Transpose the 4 x 4 squares of four float32 vectors, or the 2 x 2 squares of float64 ones, lane by lane."""
    a, b, c, d = rows
    if isinstance(a.type.element, ir.DoubleType):
        return [_interleave(builder, x, y, 1, half) for x, y in ((a, b), (c, d)) for half in (0, 1)]
    ab, ab2 = (_interleave(builder, a, b, 1, half) for half in (0, 1))
    cd, cd2 = (_interleave(builder, c, d, 1, half) for half in (0, 1))
    return [_interleave(builder, x, y, 2, half) for x, y in ((ab, cd), (ab2, cd2)) for half in (0, 1)]


def _gather_cubics(builder: Any, cells: Any, offsets: list[Any], kind: _Lanes) -> list[Any]:
    """Four vectors, one a power of t, of the coefficients that stand at ``offsets``, one a lane."""
    half = ir.VectorType(kind.real, 16 * 8 // (32 if kind.integer is _I32 else 64))

    def joined(first: int, second: int, skip: int) -> Any:
        low, high = (
            _load(builder, _at(builder, builder.gep(cells, [offsets[i]]), skip), half) for i in (first, second)
        )
        return _shuffle(builder, low, high, list(range(kind.count)))

    if kind.integer is _I32:
        return _transpose_lanes(builder, [joined(i, i + 4, 0) for i in range(4)])
    return _transpose_lanes(builder, [joined(i, i + 2, skip) for skip in (0, 2) for i in (0, 1)])


def _split_powers(builder: Any, powers: list[Any], kind: _Lanes) -> list[Any]:
    """One row of four a lane from four vectors, one a power of t: what `_gather_cubics` undoes."""
    rows = _transpose_lanes(builder, powers)
    if kind.integer is _I32:
        halves = [[0, 1, 2, 3], [4, 5, 6, 7]]
        return [_shuffle(builder, row, row, half) for half in halves for row in rows]
    first, second, third, fourth = rows  # lanes 0 and 2, then 1 and 3, of powers 0 and 1, then of powers 2 and 3
    pairs = [(first, third), (second, fourth)]
    return [_shuffle(builder, *pair, order) for order in ([0, 1, 4, 5], [2, 3, 6, 7]) for pair in pairs]


def _cubic(builder: Any, cells: Any, u: Any, top: Any, kind: _Lanes) -> Any:
    """The piecewise cubic whose table begins at ``cells``, at the cell coordinates ``u``."""
    t, offsets = _cell(builder, u, top, kind)
    c0, c1, c2, value = _gather_cubics(builder, cells, offsets, kind)
    for coefficient in (c2, c1, c0):
        value = _multiply_add(builder, value, t, coefficient, kind)
    return value


# --- intrinsics --------------------------------------------------------------------------------------------


@intrinsic
def _look_up(typing: Any, table: Any, start: Any, u: Any, at: Any, out: Any, to: Any, top: Any) -> Any:
    """``out[to:to+L] = cubic(u[at:at+L])`` from the table at offset ``start``; L lanes."""
    kind = _LANES[u.dtype]
    signature = types.void(table, types.int64, u, types.int64, out, types.int64, u.dtype)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        cells = _address(context, builder, sig.args[0], args[0], args[1])
        source = _address(context, builder, sig.args[2], args[2], args[3])
        target = _address(context, builder, sig.args[4], args[4], args[5])
        top = _splat(builder, args[6], kind.count)
        _store(builder, _cubic(builder, cells, _load(builder, source, kind.vector), top, kind), target)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _accumulate(typing: Any, table: Any, start: Any, u: Any, at: Any, out: Any, factor: Any, top: Any) -> Any:
    """``out[0:3L] += factor * cubic(u[at:at+3L])`` from the table at offset ``start``: one row of a register tile."""
    kind = _LANES[u.dtype]
    signature = types.void(table, types.int64, u, types.int64, out, u.dtype, u.dtype)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        cells = _address(context, builder, sig.args[0], args[0], args[1])
        source = _address(context, builder, sig.args[2], args[2], args[3])
        target = _address(context, builder, sig.args[4], args[4], ir.Constant(_I64, 0))
        factor, top = (_splat(builder, scalar, kind.count) for scalar in args[5:7])
        places = [_at(builder, source, v * kind.count) for v in range(_TILE_VECTORS)]
        values = [_cubic(builder, cells, _load(builder, place, kind.vector), top, kind) for place in places]
        for v, value in enumerate(values):
            place = _at(builder, target, v * kind.count)
            total = _load(builder, place, kind.vector)
            _store(builder, _multiply_add(builder, factor, value, total, kind), place)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _scatter(typing: Any, u: Any, at: Any, e: Any, e_at: Any, moments: Any, stride: Any, top: Any) -> Any:
    """``moments[copy, cell] += e (1, t, t^2, t^3)`` for L lanes; lane l goes to copy l mod _COPIES."""
    kind = _LANES[u.dtype]
    signature = types.void(u, types.int64, e, types.int64, moments, types.int64, u.dtype)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        source = _address(context, builder, sig.args[0], args[0], args[1])
        weight = _address(context, builder, sig.args[2], args[2], args[3])
        base = _address(context, builder, sig.args[4], args[4], ir.Constant(_I64, 0))
        top = _splat(builder, args[6], kind.count)
        t, offsets = _cell(builder, _load(builder, source, kind.vector), top, kind)
        powers = [_load(builder, weight, kind.vector)]
        for _ in range(3):
            powers.append(builder.fmul(powers[-1], t))
        for lane, row in enumerate(_split_powers(builder, powers, kind)):
            copy = builder.mul(args[5], ir.Constant(_I64, lane % _COPIES))
            place = builder.gep(base, [builder.add(offsets[lane], copy)])
            _store(builder, builder.fadd(_load(builder, place, kind.quad), row), place)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _project(typing: Any, x: Any, w: Any, w_at: Any, bias: Any, b_at: Any, depth: Any, u: Any) -> Any:
    """A register tile ``u[4, 3L] = bias[4] + w[depth, 4]' x[depth, 3L]``, everything packed."""
    kind = _LANES[x.dtype]
    signature = types.void(x, w, types.int64, bias, types.int64, types.int64, u)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        zero = ir.Constant(_I64, 0)
        rows = _address(context, builder, sig.args[0], args[0], zero)
        weights = _address(context, builder, sig.args[1], args[1], args[2])
        offsets = _address(context, builder, sig.args[3], args[3], args[4])
        target = _address(context, builder, sig.args[6], args[6], zero)
        start = [_splat(builder, builder.load(_at(builder, offsets, c)), kind.count) for c in range(TILE_COMPONENTS)]
        before = builder.block
        loop, after = builder.append_basic_block("depth"), builder.append_basic_block("done")
        builder.branch(loop)
        builder.position_at_end(loop)
        k = builder.phi(_I64)
        k.add_incoming(zero, before)
        sums = []
        for c in range(TILE_COMPONENTS):
            for _ in range(_TILE_VECTORS):
                accumulator = builder.phi(kind.vector)
                accumulator.add_incoming(start[c], before)
                sums.append(accumulator)
        row = builder.gep(rows, [builder.mul(k, ir.Constant(_I64, _TILE_VECTORS * kind.count))])
        weight = builder.gep(weights, [builder.mul(k, ir.Constant(_I64, TILE_COMPONENTS))])
        xs = [_load(builder, _at(builder, row, v * kind.count), kind.vector) for v in range(_TILE_VECTORS)]
        updated = []
        for c in range(TILE_COMPONENTS):
            factor = _splat(builder, builder.load(_at(builder, weight, c)), kind.count)
            old = sums[c * _TILE_VECTORS : (c + 1) * _TILE_VECTORS]
            updated += [_multiply_add(builder, factor, x, y, kind) for x, y in zip(xs, old, strict=True)]
        following = builder.add(k, ir.Constant(_I64, 1))
        k.add_incoming(following, loop)
        for accumulator, value in zip(sums, updated, strict=True):
            accumulator.add_incoming(value, loop)
        builder.cbranch(builder.icmp_signed("<", following, args[5]), loop, after)
        builder.position_at_end(after)
        for i, value in enumerate(updated):
            _store(builder, value, _at(builder, target, i * kind.count))
        return context.get_dummy_value()

    return signature, generate


# --- kernels -----------------------------------------------------------------------------------------------


@_jit
def activate(u: Any, table: Any, out: Any) -> None:
    """``out[m, r] = table_m(u[m, r])``; ``out`` may be ``u``. Shapes (S, R), (1 or S, K, 4), (S, R)."""
    n_components, n_rows = u.shape
    n_tables, n_cells, _ = table.shape
    width = 32 // u.itemsize
    top = np.nextafter(u.dtype.type(n_cells - 0.5), u.dtype.type(0))
    whole = n_rows - n_rows % width
    tail = np.zeros(width, u.dtype)
    stride = n_cells * 4 if n_tables > 1 else 0
    for m in range(n_components):
        start = m * stride
        row = m * n_rows
        for r in range(0, whole, width):
            _look_up(table, start, u, row + r, out, row + r, top)
        for r in range(whole, n_rows):
            tail[r - whole] = u[m, r]
        if whole < n_rows:
            _look_up(table, start, tail, 0, tail, 0, top)
        for r in range(whole, n_rows):
            out[m, r] = tail[r - whole]


@_jit
def scatter(u: Any, v: Any, residual: Any, sums: Any) -> None:
    """``sums[m, cell(u[m, r]), p] += e[m, r] t^p`` with ``e = v @ residual``, which is never formed.

    Shapes (S, R), (S, O), (O, R), (1 or S, K, 4): one table of sums for all components, or one a component;
    ``sums`` is float64. It is the transpose of `activate` as a linear map of the table, and through the pieces of a
    basis that of `contract`: H(v)' r.
    """
    n_components, n_rows = u.shape
    n_tables, n_cells, _ = sums.shape
    width = 32 // u.itemsize
    top = np.nextafter(u.dtype.type(n_cells - 0.5), u.dtype.type(0))
    padded = n_rows + -n_rows % width
    whole = n_rows - n_rows % width
    tail, e = np.zeros(width, u.dtype), np.zeros(padded, u.dtype)
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
            tail[r - whole] = u[m, r]
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


@_jit
def _locate(u: Any, bottom: Any, top: Any, half: Any, n_cells: Any) -> Any:
    """The cell of one cell coordinate, and the coordinate clipped to the cells."""
    clipped = u if u > bottom else bottom  # NaN goes to the first cell
    clipped = clipped if clipped < top else top
    k = min(np.int64(clipped + half), n_cells - 1)  # the sum may round up to n_cells
    return k, clipped


@_jit
def contract(u: Any, weights: Any, pieces: Any, first: Any, last: Any, out: Any) -> None:
    """``out[i, r] += sum_m weights[m] B_i(u[m, r])``, the basis given by its cubic pieces.

    Shapes (S, R), (S,), (K, N, 4), (K,), (K,), (N, R); ``first[k]:last[k]`` are the basis functions alive in cell k.
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


@_jit
def predict(x: Any, w: Any, bias: Any, table: Any, v: Any, intercept: Any, out: Any, start: Any, stop: Any) -> None:
    """``out[i] = intercept + sum_m v[m] table_m(x[i] . w_m + bias[m])`` for rows start to stop, in one sweep.

    Shapes (n, d), (S/4, d, 4), (S,), (1 or S, K, 4), (S, O), (O,), (n, O); S is padded to a multiple of four with
    zero weights. Tiles of a few vectors of rows stay in registers: no (n, S) array is ever formed.
    """
    n_features = x.shape[1]
    n_components, n_outputs = v.shape
    n_tables, n_cells, _ = table.shape
    width = 32 // x.itemsize
    tile = _TILE_VECTORS * width
    top = np.nextafter(x.dtype.type(n_cells - 0.5), x.dtype.type(0))
    packed = np.zeros((n_features, tile), x.dtype)
    u = np.empty((TILE_COMPONENTS, tile), x.dtype)
    z = np.empty(tile, x.dtype)
    total = np.empty((n_outputs, tile), x.dtype)
    stride = n_cells * 4 if n_tables > 1 else 0
    for i in range(start, stop, tile):
        n_rows = min(tile, stop - i)
        for r in range(n_rows):
            for k in range(n_features):
                packed[k, r] = x[i + r, k]
        for o in range(n_outputs):
            for r in range(tile):
                total[o, r] = intercept[o]
        for j in range(0, n_components, TILE_COMPONENTS):
            _project(packed, w, j * n_features, bias, j, n_features, u)
            for c in range(TILE_COMPONENTS):
                if n_outputs == 1:
                    _accumulate(table, (j + c) * stride, u, c * tile, total, v[j + c, 0], top)
                    continue
                for r in range(0, tile, width):
                    _look_up(table, (j + c) * stride, u, c * tile + r, z, r, top)
                for o in range(n_outputs):
                    factor = v[j + c, o]
                    for r in range(tile):
                        total[o, r] += factor * z[r]
        for r in range(n_rows):
            for o in range(n_outputs):
                out[i + r, o] = total[o, r]


@_jit
def expand(u: Any, pieces: Any, first: Any, last: Any, out: Any) -> None:
    """``out[m, i, r] = B_i(u[m, r])``, the basis given by its cubic pieces: one group of rows a component.

    Shapes (S, R), (K, N, 4), (K,), (K,), (S, N, R); ``first[k]:last[k]`` are the basis functions alive in cell k.
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
