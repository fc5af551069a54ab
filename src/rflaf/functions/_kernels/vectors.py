"""Short vectors as LLVM instructions: the building blocks of the compiled loops.

Vectors hold 8 float32 or 4 float64, without any instruction of one processor family. A *cell coordinate* ``u`` has its
cells centred on 0, 1, ..., n_cells - 1; clipping, adding 1.5 * 2^p and subtracting it again rounds it to the nearest
cell without a conversion, and the low bits of the sum are the cell. That rounding must not be reassociated, so nothing
here is compiled with reassociation. NaN lands in a valid cell: memory-safe, not propagated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

I64 = ir.IntType(64)
I32 = ir.IntType(32)


@dataclass(frozen=True, slots=True)
class Lanes:
    """Vector type: its element, the integer of the same width, and the constant that rounds."""

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


LANES = {
    types.float32: Lanes(ir.FloatType(), I32, 8, 1.5 * 2**23, "f32"),
    types.float64: Lanes(ir.DoubleType(), I64, 4, 1.5 * 2**52, "f64"),
}


def _array(context: Any, builder: Any, kind: Any, data: Any, shape: list[Any]) -> Any:
    """Return a contiguous array at ``data``, which nobody owns."""
    itemsize = ir.Constant(I64, 32 // LANES[kind.dtype].count if kind.dtype in LANES else kind.dtype.bitwidth // 8)
    strides = [itemsize]
    for size in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], size))
    array = context.make_array(kind)(context, builder)
    populate_array(array, data, shape, strides, itemsize, None)
    return array._getvalue()


@intrinsic
def array_at(typing: Any, place: Any, like: Any, shape: Any) -> Any:
    """Return the contiguous array of a shape at an address, of the dtype of another array."""
    kind = types.Array(like.dtype, len(shape), "C")

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = builder.inttoptr(args[0], context.get_value_type(types.CPointer(like.dtype)))
        return _array(context, builder, kind, data, cgutils.unpack_tuple(builder, args[2]))

    return kind(types.int64, like, shape), generate


@intrinsic
def take_memory(typing: Any, n_bytes: Any) -> Any:
    """Return the address of so many bytes; `give_back` frees them. An array that numba owns would cost far more."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        signature = ir.FunctionType(ir.IntType(8).as_pointer(), [I64])
        allocate = cgutils.get_or_insert_function(builder.module, signature, "NRT_Allocate")
        return builder.ptrtoint(builder.call(allocate, args), I64)

    return types.int64(types.int64), generate


@intrinsic
def give_back(typing: Any, place: Any) -> Any:
    """Free what `take_memory` returned."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        free = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), [pointer]), "NRT_Free")
        builder.call(free, [builder.inttoptr(args[0], pointer)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def flat(typing: Any, array: Any) -> Any:
    """Return a contiguous array as a view of one dimension, which lives no longer than the array."""
    kind = array.copy(ndim=1)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        given = context.make_array(array)(context, builder, args[0])
        return _array(context, builder, kind, given.data, [given.nitems])

    return kind(array), generate


def stack_buffer(n_rows: int, n_vectors: int) -> Any:
    """Make the intrinsic that returns an array (n_rows, n_vectors L) on the stack, of the dtype of another."""

    @intrinsic
    def buffer(typing: Any, like: Any) -> Any:
        kind, lanes = types.Array(like.dtype, 2, "C"), LANES[like.dtype]
        width = n_vectors * lanes.count

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            data = cgutils.alloca_once(builder, lanes.real, size=n_rows * width)
            return _array(context, builder, kind, data, [ir.Constant(I64, size) for size in (n_rows, width)])

        return kind(like), generate

    return buffer


def address(context: Any, builder: Any, array_type: Any, array: Any, offset: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [offset])


def shifted(builder: Any, pointer: Any, offset: int) -> Any:
    return builder.gep(pointer, [ir.Constant(I64, offset)]) if offset else pointer


def load(builder: Any, pointer: Any, vector: ir.VectorType) -> Any:
    itemsize = 4 if isinstance(vector.element, ir.FloatType) else 8
    return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=itemsize)


def store(builder: Any, value: Any, pointer: Any) -> None:
    vector = value.type
    itemsize = 4 if isinstance(vector.element, ir.FloatType) else 8
    builder.store(value, builder.bitcast(pointer, vector.as_pointer()), align=itemsize)


def over_all(builder: Any, count: Any, values: list[Any], visit: Any) -> list[Any]:
    """Loop over ``count`` columns or nodes, none or more; ``visit(c, values)`` returns the vectors to go on with."""
    zero, one = ir.Constant(I64, 0), ir.Constant(I64, 1)
    before = builder.block
    loop, after = builder.append_basic_block("visit"), builder.append_basic_block("done")
    builder.cbranch(builder.icmp_signed(">", count, zero), loop, after)
    builder.position_at_end(loop)
    c = builder.phi(I64)
    c.add_incoming(zero, before)
    carried = [builder.phi(value.type) for value in values]
    for phi, value in zip(carried, values, strict=True):
        phi.add_incoming(value, before)
    updated = visit(c, carried)
    following = builder.add(c, one)
    c.add_incoming(following, loop)
    for phi, value in zip(carried, updated, strict=True):
        phi.add_incoming(value, loop)
    builder.cbranch(builder.icmp_signed("<", following, count), loop, after)
    builder.position_at_end(after)
    ends = []
    for value, last in zip(values, updated, strict=True):
        end = builder.phi(value.type)
        end.add_incoming(value, before)
        end.add_incoming(last, loop)
        ends.append(end)
    return ends


def shuffle(builder: Any, left: Any, right: Any, order: list[int]) -> Any:
    mask = ir.Constant(ir.VectorType(I32, len(order)), [ir.Constant(I32, i) for i in order])
    return builder.shuffle_vector(left, right, mask)


def splat(builder: Any, scalar: Any, count: int) -> Any:
    vector = ir.VectorType(scalar.type, count)
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(I32, 0))
    return shuffle(builder, first, undefined, [0] * count)


def multiply_add(builder: Any, x: Any, y: Any, z: Any, kind: Lanes) -> Any:
    name = f"llvm.fmuladd.v{x.type.count}{kind.mangled}"
    signature = ir.FunctionType(x.type, [x.type] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), [x, y, z])


def clip(builder: Any, u: Any, top: Any, kind: Lanes) -> Any:
    """Clip cell coordinates to the cells."""
    bottom = kind.constant(-0.5)
    u = builder.select(builder.fcmp_ordered(">", u, bottom), u, bottom)
    return builder.select(builder.fcmp_ordered("<", u, top), u, top)


def cell(builder: Any, clipped: Any, kind: Lanes, spread: Any = None) -> tuple[Any, list[Any]]:
    """Return ``t`` and, per lane, the offset ``4 * cell + spread`` of clipped cell coordinates."""
    magic = kind.constant(kind.magic)
    rounded = builder.fadd(clipped, magic)
    t = builder.fsub(clipped, builder.fsub(rounded, magic))
    bits = builder.bitcast(rounded, ir.VectorType(kind.integer, kind.count))
    offset = builder.shl(builder.and_(bits, kind.integers(0x3FFFFF)), kind.integers(2))
    if spread is not None:
        offset = builder.add(offset, spread)
    return t, _extract_offsets(builder, offset, kind)


def _extract_offsets(builder: Any, offset: Any, kind: Lanes) -> list[Any]:
    if kind.integer is I64:
        return [builder.extract_element(offset, ir.Constant(I32, lane)) for lane in range(kind.count)]
    pairs = builder.bitcast(offset, ir.VectorType(I64, kind.count // 2))  # half as many extractions
    offsets = []
    for lane in range(kind.count // 2):
        pair = builder.extract_element(pairs, ir.Constant(I32, lane))
        low = builder.and_(pair, ir.Constant(I64, 0xFFFFFFFF))
        offsets += [low, builder.lshr(pair, ir.Constant(I64, 32))]
    return offsets


def _interleave(builder: Any, left: Any, right: Any, chunk: int, half: int) -> Any:
    """Interleave chunks within every 128 bits (cheap on every processor), from low (0) or high (1) halves."""
    count = left.type.count
    group = 4 if isinstance(left.type.element, ir.FloatType) else 2
    order = []
    for start in range(0, count, group):
        low = start + half * group // 2
        for i in range(low, low + group // 2, chunk):
            order += [*range(i, i + chunk), *range(count + i, count + i + chunk)]
    return shuffle(builder, left, right, order)


def _transpose_lanes(builder: Any, rows: list[Any]) -> list[Any]:
    """Transpose the 4 x 4 squares of four float32 vectors, or the 2 x 2 squares of float64 ones, lane by lane."""
    a, b, c, d = rows
    if isinstance(a.type.element, ir.DoubleType):
        return [_interleave(builder, x, y, 1, half) for x, y in ((a, b), (c, d)) for half in (0, 1)]
    ab, ab2 = (_interleave(builder, a, b, 1, half) for half in (0, 1))
    cd, cd2 = (_interleave(builder, c, d, 1, half) for half in (0, 1))
    return [_interleave(builder, x, y, 2, half) for x, y in ((ab, cd), (ab2, cd2)) for half in (0, 1)]


def gather_cubics(builder: Any, cells: Any, offsets: list[Any], kind: Lanes) -> list[Any]:
    """Return four vectors, one per power of t, of the coefficients at ``offsets``, one per lane."""
    half = ir.VectorType(kind.real, 16 * 8 // (32 if kind.integer is I32 else 64))

    def joined(first: int, second: int, skip: int) -> Any:
        low, high = (
            load(builder, shifted(builder, builder.gep(cells, [offsets[i]]), skip), half) for i in (first, second)
        )
        return shuffle(builder, low, high, list(range(kind.count)))

    if kind.integer is I32:
        return _transpose_lanes(builder, [joined(i, i + 4, 0) for i in range(4)])
    return _transpose_lanes(builder, [joined(i, i + 2, skip) for skip in (0, 2) for i in (0, 1)])


def to_rows(builder: Any, powers: list[Any], kind: Lanes) -> list[Any]:
    """Return one row of four per lane from four vectors, one per power of t: the inverse of `gather_cubics`."""
    rows = _transpose_lanes(builder, powers)
    if kind.integer is I32:
        halves = [[0, 1, 2, 3], [4, 5, 6, 7]]
        return [shuffle(builder, row, row, half) for half in halves for row in rows]
    first, second, third, fourth = rows  # lanes 0 and 2, then 1 and 3, of powers 0 and 1, then of powers 2 and 3
    pairs = [(first, third), (second, fourth)]
    return [shuffle(builder, *pair, order) for order in ([0, 1, 4, 5], [2, 3, 6, 7]) for pair in pairs]


def cubic(builder: Any, cells: Any, u: Any, top: Any, kind: Lanes) -> Any:
    """Return the piecewise cubic with its table at ``cells``, at the cell coordinates ``u``."""
    t, offsets = cell(builder, clip(builder, u, top, kind), kind)
    c0, c1, c2, value = gather_cubics(builder, cells, offsets, kind)
    for coefficient in (c2, c1, c0):
        value = multiply_add(builder, value, t, coefficient, kind)
    return value
