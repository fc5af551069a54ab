"""The loop that assembles one column curve: a few components climb all its nodes, their sums in registers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .loops import part
from .network import LANE
from .vectors import I64, LANES, address, load, multiply_add, over_all, shifted, splat, store


def _climb(vectors: int) -> Any:
    """Return the intrinsic behind `climb_curve` for ``vectors`` vectors of components."""

    @intrinsic
    def climb(
        typing: Any, H: Any, ramps: Any, first: Any, n_ramps: Any, width: Any, j: Any, W: Any, row: Any, bias: Any,
        size: Any, centre: Any, position: Any, scale: Any, ramp_scale: Any,
    ) -> Any:  # fmt: skip
        kind, i64, real = LANES[H.dtype], types.int64, H.dtype
        signature = types.void(H, ramps, i64, i64, i64, i64, W, i64, bias, size, centre, position, real, real)
        blocks = range(0, vectors * kind.count, kind.count)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            first, n_ramps, width, j = args[2:6]
            scale, ramp_scale = args[12:]
            table, steps, W_at, bias_at = (address(context, builder, sig.args[i], args[i], j) for i in (0, 1, 6, 8))
            of_node = [address(context, builder, sig.args[i], args[i], first) for i in (9, 10, 11)]

            def of(place: Any) -> list[Any]:
                return [shifted(builder, place, block) for block in blocks]

            def node(values: Any, number: Any) -> list[Any]:
                return of(builder.gep(values, [builder.mul(builder.add(first, number), width)]))

            weights = [load(builder, at, kind.vector) for at in of(builder.gep(W_at, [args[7]]))]
            lowest = splat(builder, builder.fmul(builder.load(of_node[2]), scale), kind.count)
            values = [builder.fmul(lowest, weight) for weight in weights]
            for at, value in zip(node(table, ir.Constant(I64, 0)), values, strict=True):
                store(builder, value, at)

            def visit(turn: Any, sums: list[Any]) -> list[Any]:
                number = builder.add(turn, ir.Constant(I64, 1))
                size, centre, position = (builder.load(builder.gep(start, [number])) for start in of_node)
                gap = builder.fsub(position, builder.load(builder.gep(of_node[2], [turn])))
                rise, size, centre = (
                    splat(builder, builder.fmul(*factors), kind.count)
                    for factors in ((gap, scale), (size, ramp_scale), (builder.fneg(centre), ramp_scale))
                )
                values, biases = [], []
                for v, (at, ramp_at) in enumerate(zip(node(table, number), node(steps, number), strict=True)):
                    ramp = load(builder, ramp_at, kind.vector)
                    step = multiply_add(builder, rise, weights[v], builder.fmul(size, ramp), kind)
                    values.append(builder.fadd(sums[v], step))
                    biases.append(multiply_add(builder, centre, ramp, sums[vectors + v], kind))
                    store(builder, values[v], at)
                return values + biases

            before = [load(builder, at, kind.vector) for at in of(bias_at)]
            biases = over_all(builder, n_ramps, values + before, visit)[vectors:]
            for at, bias in zip(of(bias_at), biases, strict=True):
                store(builder, bias, at)
            return context.get_dummy_value()

        return signature, generate

    return climb


_climb_three, _climb_two, _climb_one = _climb(3), _climb(2), _climb(1)


@part
def climb_curve(
    H: Any, ramps: Any, first: Any, last: Any, W: Any, row: Any, bias: Any, nodes: Any, scale: Any, ramp_scale: Any
) -> None:  # fmt: skip
    """Set the rows ``first`` to ``last`` - 1 of ``H``, the values of a column at its nodes, one above the other.

    They rise by its linear weights, row ``row`` of ``W``, and its ``ramps``, whose means over the rows leave ``bias``.
    """
    width, n_ramps, of_row = H.shape[1], last - first - 1, row * H.shape[1]
    size, centre, position = nodes.size, nodes.centre, nodes.position
    j = 0
    while j < width:
        vectors = (width - j) // LANE
        if vectors >= 3:  # the width of most members
            _climb_three(H, ramps, first, n_ramps, width, j, W, of_row, bias, size, centre, position, scale, ramp_scale)
        elif vectors == 2:
            _climb_two(H, ramps, first, n_ramps, width, j, W, of_row, bias, size, centre, position, scale, ramp_scale)
        else:
            _climb_one(H, ramps, first, n_ramps, width, j, W, of_row, bias, size, centre, position, scale, ramp_scale)
        j += min(vectors, 3) * LANE
