"""Register tiles: a few vectors of rows, packed, times a few components; sums stay in registers."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .loops import part
from .shapes import TILE_COMPONENTS, TILE_VECTORS
from .vectors import I64, LANES, address, load, multiply_add, shifted, splat, store


def _projector(n_vectors: int) -> Any:
    """Make the intrinsic that projects the rows of a register tile, or of its first vectors only."""

    @intrinsic
    def project_vectors(
        typing: Any, x: Any, kept: Any, depth: Any, w: Any, w_at: Any, bias: Any, b_at: Any, u: Any
    ) -> Any:
        """``u[4, 3L] = bias[4] + w[kept[:depth], 4]' x[:depth, 3L]``, everything packed, or n of the 3 vectors."""
        kind = LANES[x.dtype]
        i64 = types.int64
        signature = types.void(x, kept, i64, w, i64, bias, i64, u)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            zero = ir.Constant(I64, 0)
            rows = address(context, builder, sig.args[0], args[0], zero)
            columns = address(context, builder, sig.args[1], args[1], zero)
            weights = address(context, builder, sig.args[3], args[3], args[4])
            offsets = address(context, builder, sig.args[5], args[5], args[6])
            target = address(context, builder, sig.args[7], args[7], zero)
            start = [
                splat(builder, builder.load(shifted(builder, offsets, c)), kind.count) for c in range(TILE_COMPONENTS)
            ]
            before = builder.block
            loop, after = builder.append_basic_block("depth"), builder.append_basic_block("done")
            builder.branch(loop)
            builder.position_at_end(loop)
            k = builder.phi(I64)
            k.add_incoming(zero, before)
            sums = []
            for c in range(TILE_COMPONENTS):
                for _ in range(n_vectors):
                    accumulator = builder.phi(kind.vector)
                    accumulator.add_incoming(start[c], before)
                    sums.append(accumulator)
            row = builder.gep(rows, [builder.mul(k, ir.Constant(I64, TILE_VECTORS * kind.count))])
            column = builder.load(builder.gep(columns, [k]))
            weight = builder.gep(weights, [builder.mul(column, ir.Constant(I64, TILE_COMPONENTS))])
            xs = [load(builder, shifted(builder, row, v * kind.count), kind.vector) for v in range(n_vectors)]
            updated = []
            for c in range(TILE_COMPONENTS):
                factor = splat(builder, builder.load(shifted(builder, weight, c)), kind.count)
                old = sums[c * n_vectors : (c + 1) * n_vectors]
                updated += [multiply_add(builder, factor, x, y, kind) for x, y in zip(xs, old, strict=True)]
            following = builder.add(k, ir.Constant(I64, 1))
            k.add_incoming(following, loop)
            for accumulator, value in zip(sums, updated, strict=True):
                accumulator.add_incoming(value, loop)
            builder.cbranch(builder.icmp_signed("<", following, args[2]), loop, after)
            builder.position_at_end(after)
            for i, value in enumerate(updated):
                c, v = divmod(i, n_vectors)
                store(builder, value, shifted(builder, target, (c * TILE_VECTORS + v) * kind.count))
            return context.get_dummy_value()

        return signature, generate

    return project_vectors


project_tile, project_few = _projector(TILE_VECTORS), _projector(1)


@part
def pack_rows(x: Any, start: Any, n_rows: Any, packed: Any, kept: Any) -> Any:
    """Copy rows of ``x`` from ``start`` on to columns of ``packed`` (d, tile), without inputs that are zero in all.

    ``kept`` (d,) receives the indices of the inputs kept; return their number, at least one. If the first row is not
    mostly zero, all are kept. A zero adds nothing to a sum, not even rounding, so no result depends on what is skipped.
    """
    n_features, zeros = x.shape[1], 0
    for k in range(n_features):
        zeros += x[start, k] == 0
    if 2 * zeros <= n_features:
        for k in range(n_features):
            kept[k] = k
        for r in range(n_rows):
            for k in range(n_features):
                packed[k, r] = x[start + r, k]
        return n_features
    for k in range(n_features):
        kept[k] = 0
    for r in range(start, start + n_rows):
        for k in range(n_features):
            kept[k] |= np.int64(x[r, k] != 0)
    depth = 0
    for k in range(n_features):
        found = kept[k]
        kept[depth] = k
        depth += found
    depth = max(depth, 1)
    for r in range(n_rows):
        for k in range(depth):
            packed[k, r] = x[start + r, kept[k]]
    return depth
