"""Compiled steps of Adam on float32 arrays."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .vectors import LANES, address, jit, load, multiply_add, splat, store

LANE = 8  # float32 in a vector
DECAY, SQUARE_DECAY = 0.9, 0.99
_EPSILON = 1e-8
fast_jit = partial(jit, fastmath={"contract", "nsz", "arcp", "reassoc"})  # for loops without a rounding trick


@intrinsic
def _descend_lanes(
    typing: Any, value: Any, moment: Any, square: Any, at: Any, slope: Any, s_at: Any,
    scale: Any, decay: Any, rate: Any, sharpen: Any,
) -> Any:  # fmt: skip
    """Take one step of Adam on L lanes with the derivative ``g = scale slope + decay value``."""
    kind = LANES[value.dtype]
    real = value.dtype
    signature = types.void(value, moment, square, types.int64, slope, types.int64, real, real, real, real)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value_at, moment_at, square_at = (address(context, builder, sig.args[i], args[i], args[3]) for i in range(3))
        slope_at = address(context, builder, sig.args[4], args[4], args[5])
        scale, decay, rate, sharpen = (splat(builder, scalar, kind.count) for scalar in args[6:10])
        value, m, s, slope = (load(builder, p, kind.vector) for p in (value_at, moment_at, square_at, slope_at))
        g = multiply_add(builder, decay, value, builder.fmul(scale, slope), kind)
        m = multiply_add(builder, kind.constant(1 - DECAY), builder.fsub(g, m), m, kind)
        s = multiply_add(builder, kind.constant(1 - SQUARE_DECAY), builder.fsub(builder.fmul(g, g), s), s, kind)
        store(builder, m, moment_at)
        store(builder, s, square_at)
        signature = ir.FunctionType(kind.vector, [kind.vector])
        root = cgutils.get_or_insert_function(builder.module, signature, f"llvm.sqrt.v{kind.count}{kind.mangled}")
        size = builder.fadd(builder.call(root, [builder.fmul(s, sharpen)]), kind.constant(_EPSILON))
        store(builder, builder.fsub(value, builder.fdiv(builder.fmul(rate, m), size)), value_at)
        return context.get_dummy_value()

    return signature, generate


@jit
def descend(value: Any, slope: Any, moment: Any, square: Any, scale: Any, decay: Any, rate: Any, sharpen: Any) -> None:
    """Take one step of Adam on (k,) arrays with the derivative scale slope + decay value.

    ``rate`` is divided by 1 - beta1^t beforehand, ``sharpen`` is 1 / (1 - beta2^t).
    """
    whole = value.size - value.size % LANE
    for j in range(0, whole, LANE):
        _descend_lanes(value, moment, square, j, slope, j, scale, decay, rate, sharpen)
    for j in range(whole, value.size):
        g = scale * slope[j] + decay * value[j]
        moment[j] += np.float32(1 - DECAY) * (g - moment[j])
        square[j] += np.float32(1 - SQUARE_DECAY) * (g * g - square[j])
        value[j] -= rate * moment[j] / (np.sqrt(square[j] * sharpen) + np.float32(_EPSILON))


@fast_jit
def descend_row(
    value: Any, moment: Any, square: Any, row: Any, slope: Any, s_row: Any, scale: Any, decay: Any, rate: Any,
    sharpen: Any,
) -> Any:  # fmt: skip
    """`descend` for one row of (k, S) arrays; return the derivative in ``scale``."""
    width = value.shape[1]
    total = np.float32(0)
    for j in range(width):
        total += slope[s_row, j] * value[row, j]
    for j in range(0, width, LANE):
        _descend_lanes(value, moment, square, row * width + j, slope, s_row * width + j, scale, decay, rate, sharpen)
    return total
