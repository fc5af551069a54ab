"""Compiled training of refined models: Adam on all parameters after each mini-batch.

The gradient in the nodes H carries the gradient of all parts of a column curve: of its ramps by a reverse cumulative
sum, and of its linear part as sum_k q_k A[k], since a straight line takes the values q_k, the positions of the nodes.
The levels of a category are free values behind the nodes of all curves in H, with no line and no sums.

The tests hold NumPy references.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .bounds import NO_BOUNDS, project
from .loops import alone, fast_part, jit, part
from .network import LANE, Gradient, Network, Rows, Work, backward, batch_gradient, forward, outputs
from .nodes import climb_curve
from .products import multiply
from .vectors import LANES, address, flat, load, multiply_add, splat, store

__all__ = [
    "LANE", "Gradient", "Network", "Nodes", "Parameters", "Rates", "Rows", "Work", "adam_step", "alone", "assemble",
    "backward", "batch_gradient", "forward", "outputs", "schedule_of", "train_rows",
]  # fmt: skip

_WARM_UP = 0.05  # share of the steps
_DECAY, _EPSILON = 0.9, 1e-8


class Parameters(NamedTuple):
    """Parameters that Adam updates.

    ``W`` (n_linear + n_curves, S) linear weights, curved columns last; ``ramps`` (n_nodes + n_levels, S), the rise to a
    node from the one before, or the value of a level; ``bias`` (S,); ``C`` (1 or S, N); ``V`` (O, S); ``scale``
    (n_linear + n_curves,) of the linear weights; ``ramp_scale`` (n_curves + n_levels,).
    """

    W: Any
    ramps: Any
    bias: Any
    C: Any
    V: Any
    scale: Any
    ramp_scale: Any


class Nodes(NamedTuple):
    """Nodes of column curves: ``start`` (n_curves + 1,) into ``position``, ``size`` and ``centre`` (n_nodes,), float32.

    A ramp into node k rises by ``size[k]`` from the node before, and has the mean ``centre[k]`` over the rows. The
    levels of categories follow the nodes in ``size`` and ``centre``; the centre of a level is its share of the rows.
    """

    start: Any
    position: Any
    size: Any
    centre: Any


class Rates(NamedTuple):
    """Step lengths and penalties, float32 scalars; ``V`` is zero if output weights are fixed. And `Bounds`.

    ``fresh`` is the share of the last squared slope in the mean of squares: 1 - beta2 of Adam.
    """

    W: Any
    C: Any
    V: Any
    scale: Any
    alpha: Any
    scale_alpha: Any
    fresh: Any
    bounds: Any = NO_BOUNDS


@intrinsic
def _descend_lanes(
    typing: Any, value: Any, moment: Any, square: Any, at: Any, slope: Any, s_at: Any,
    scale: Any, decay: Any, rate: Any, sharpen: Any, fresh: Any,
) -> Any:  # fmt: skip
    """Take one step of Adam on L lanes with the derivative ``g = scale slope + decay value``."""
    kind = LANES[value.dtype]
    real = value.dtype
    signature = types.void(value, moment, square, types.int64, slope, types.int64, real, real, real, real, real)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value_at, moment_at, square_at = (address(context, builder, sig.args[i], args[i], args[3]) for i in range(3))
        slope_at = address(context, builder, sig.args[4], args[4], args[5])
        scale, decay, rate, sharpen, fresh = (splat(builder, scalar, kind.count) for scalar in args[6:11])
        value, m, s, slope = (load(builder, p, kind.vector) for p in (value_at, moment_at, square_at, slope_at))
        g = multiply_add(builder, decay, value, builder.fmul(scale, slope), kind)
        m = multiply_add(builder, kind.constant(1 - _DECAY), builder.fsub(g, m), m, kind)
        s = multiply_add(builder, fresh, builder.fsub(builder.fmul(g, g), s), s, kind)
        store(builder, m, moment_at)
        store(builder, s, square_at)
        signature = ir.FunctionType(kind.vector, [kind.vector])
        root = cgutils.get_or_insert_function(builder.module, signature, f"llvm.sqrt.v{kind.count}{kind.mangled}")
        size = builder.fadd(builder.call(root, [builder.fmul(s, sharpen)]), kind.constant(_EPSILON))
        store(builder, builder.fsub(value, builder.fdiv(builder.fmul(rate, m), size)), value_at)
        return context.get_dummy_value()

    return signature, generate


@part
def descend(
    value: Any, slope: Any, moment: Any, square: Any, scale: Any, decay: Any, rate: Any, sharpen: Any, fresh: Any
) -> None:  # fmt: skip
    """Take one step of Adam on (k,) arrays with the derivative scale slope + decay value.

    ``rate`` is divided by 1 - beta1^t beforehand, ``sharpen`` is 1 / (1 - beta2^t), ``fresh`` 1 - beta2.
    """
    whole = value.size - value.size % LANE
    for j in range(0, whole, LANE):
        _descend_lanes(value, moment, square, j, slope, j, scale, decay, rate, sharpen, fresh)
    for j in range(whole, value.size):
        g = scale * slope[j] + decay * value[j]
        moment[j] += np.float32(1 - _DECAY) * (g - moment[j])
        square[j] += fresh * (g * g - square[j])
        value[j] -= rate * moment[j] / (np.sqrt(square[j] * sharpen) + np.float32(_EPSILON))


@fast_part
def descend_row(
    value: Any, moment: Any, square: Any, row: Any, slope: Any, s_row: Any, scale: Any, decay: Any, rate: Any,
    sharpen: Any, fresh: Any,
) -> Any:  # fmt: skip
    """`descend` for one row of (k, S) arrays; return the derivative in ``scale``."""
    width = value.shape[1]
    total = np.float32(0)
    for j in range(width):
        total += slope[s_row, j] * value[row, j]
    for j in range(0, width, LANE):
        at, s_at = row * width + j, s_row * width + j
        _descend_lanes(value, moment, square, at, slope, s_at, scale, decay, rate, sharpen, fresh)
    return total


@intrinsic
def _sweep_node(
    typing: Any, H: Any, k: Any, run: Any, line: Any, bias: Any, slope: Any, j: Any, size: Any, centre: Any,
    position: Any,
) -> Any:  # fmt: skip
    """Sweep one node of a column: clear ``a = H[k:k+L]``, add it to the running sums ``run += a`` and
    ``line += position a``, and write the derivative in its ramp, ``slope = size run - centre bias``.
    """
    kind = LANES[H.dtype]
    signature = types.void(H, types.int64, run, line, bias, slope, types.int64, H.dtype, H.dtype, H.dtype)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        node = address(context, builder, sig.args[0], args[0], args[1])
        run_at, line_at, bias_at, slope_at = (
            address(context, builder, sig.args[i], args[i], args[6]) for i in range(2, 6)
        )
        size, centre, position = (splat(builder, scalar, kind.count) for scalar in args[7:10])
        a = load(builder, node, kind.vector)
        store(builder, kind.constant(0), node)
        run = builder.fadd(load(builder, run_at, kind.vector), a)
        store(builder, run, run_at)
        store(builder, multiply_add(builder, position, a, load(builder, line_at, kind.vector), kind), line_at)
        drift = builder.fmul(centre, load(builder, bias_at, kind.vector))
        store(builder, builder.fsub(builder.fmul(size, run), drift), slope_at)
        return context.get_dummy_value()

    return signature, generate


@part
def _adam_columns(
    parameters: Any, moments: Any, squares: Any, gradient: Any, slopes: Any, nodes: Any, decay: Any, work: Any,
    rate: Any, sharpen: Any, fresh: Any,
) -> None:  # fmt: skip
    """Apply Adam to the linear weights and ramps of every column; ``slopes`` receives the derivatives in the scales.

    Sweep the nodes of a column from the right, so that the derivative in a ramp is a running sum; clear gradient.H.
    """
    n_linear, width = gradient.W.shape[0], gradient.bias.size
    H, bias, run, line, slope = gradient.H, gradient.bias, work.run, work.line, work.ramp
    zero = np.float32(0)
    for c in range(n_linear):
        slopes.scale[c] = descend_row(
            parameters.W, moments.W, squares.W, c, gradient.W, c, parameters.scale[c], decay, rate, sharpen, fresh
        )
    for c in range(nodes.start.size - 1):
        run[:] = 0
        line[:] = 0
        total, scale = zero, parameters.ramp_scale[c]
        for k in range(nodes.start[c + 1] - 1, nodes.start[c], -1):
            size, centre, position = nodes.size[k], nodes.centre[k], nodes.position[k]
            for j in range(0, width, LANE):
                _sweep_node(H, k * width + j, run, line, bias, slope, j, size, centre, position)
            total += descend_row(
                parameters.ramps, moments.ramps, squares.ramps, k, slope, 0, scale, decay, rate, sharpen, fresh
            )
        k, at = nodes.start[c], n_linear + c
        for j in range(0, width, LANE):  # the first node has no ramp into it
            _sweep_node(H, k * width + j, run, line, bias, slope, j, zero, zero, nodes.position[k])
        slopes.ramp_scale[c] = total
        slopes.scale[at] = descend_row(
            parameters.W, moments.W, squares.W, at, line, 0, parameters.scale[at], decay, rate, sharpen, fresh
        )


@intrinsic
def _level_slope(typing: Any, H: Any, k: Any, bias: Any, slope: Any, j: Any, size: Any, centre: Any) -> Any:
    """Clear ``a = H[k:k+L]`` and write the derivative in the value of a level, ``slope = size a - centre bias``."""
    kind = LANES[H.dtype]
    signature = types.void(H, types.int64, bias, slope, types.int64, H.dtype, H.dtype)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        level = address(context, builder, sig.args[0], args[0], args[1])
        bias_at, slope_at = (address(context, builder, sig.args[i], args[i], args[4]) for i in (2, 3))
        size, centre = (splat(builder, scalar, kind.count) for scalar in args[5:7])
        a = load(builder, level, kind.vector)
        store(builder, kind.constant(0), level)
        drift = builder.fmul(centre, load(builder, bias_at, kind.vector))
        store(builder, builder.fsub(builder.fmul(size, a), drift), slope_at)
        return context.get_dummy_value()

    return signature, generate


@part
def _adam_levels(
    parameters: Any, moments: Any, squares: Any, gradient: Any, slopes: Any, nodes: Any, decay: Any, work: Any,
    rate: Any, sharpen: Any, fresh: Any,
) -> None:  # fmt: skip
    """Apply Adam to the values of all levels; ``slopes`` receives the derivatives in the scales; clear gradient.H."""
    H, bias, slope = gradient.H, gradient.bias, work.ramp
    at = nodes.start.size - 1 - nodes.start[-1]  # from the row of a level to its scale
    for k in range(nodes.start[-1], H.shape[0]):
        for j in range(0, bias.size, LANE):
            _level_slope(H, k * bias.size + j, bias, slope, j, nodes.size[k], nodes.centre[k])
        slopes.ramp_scale[at + k] = descend_row(
            parameters.ramps, moments.ramps, squares.ramps, k, slope, 0, parameters.ramp_scale[at + k], decay, rate,
            sharpen, fresh,
        )  # fmt: skip


@fast_part
def _assemble_levels(parameters: Any, nodes: Any, network: Any) -> Any:
    """Compute the rows of the levels from the parameters, and take their mean over the rows from the bias."""
    at = nodes.start.size - 1 - nodes.start[-1]
    for k in range(nodes.start[-1], network.H.shape[0]):
        size, centre = nodes.size[k] * parameters.ramp_scale[at + k], nodes.centre[k] * parameters.ramp_scale[at + k]
        for j in range(network.bias.size):
            network.H[k, j] = size * parameters.ramps[k, j]
            network.bias[j] -= centre * parameters.ramps[k, j]


@fast_part
def assemble(parameters: Any, nodes: Any, by_basis: Any, network: Any) -> Any:
    """Compute the network from the parameters: multiply scales in, sum ramps to node values, expand tables."""
    n_linear = network.W.shape[0]
    for c in range(n_linear):
        for j in range(network.bias.size):
            network.W[c, j] = parameters.scale[c] * parameters.W[c, j]
    for j in range(network.bias.size):
        network.bias[j] = parameters.bias[j]
    for c in range(nodes.start.size - 1):
        at = n_linear + c
        climb_curve(
            network.H, parameters.ramps, nodes.start[c], nodes.start[c + 1], parameters.W, at, network.bias, nodes,
            parameters.scale[at], parameters.ramp_scale[c],
        )  # fmt: skip
    _assemble_levels(parameters, nodes, network)
    multiply(parameters.C, by_basis, network.table[: parameters.C.shape[0]])
    for o in range(network.V.shape[0]):
        for j in range(network.V.shape[1]):
            network.V[o, j] = parameters.V[o, j]


@part
def _clear_padding(V: Any, slope: Any) -> None:
    """Zero the derivatives of padding components, whose output weights are all zero."""
    for j in range(V.shape[1]):
        size = np.float32(0)
        for o in range(V.shape[0]):
            size += abs(V[o, j])
        if size == 0:
            for o in range(V.shape[0]):
                slope[o, j] = 0


@part
def adam_step(
    parameters: Any, moments: Any, squares: Any, gradient: Any, slopes: Any, nodes: Any, network: Any,
    by_basis: Any, roughness: Any, rates: Any, work: Any, step: Any, schedule: Any,
) -> None:  # fmt: skip
    """Take step ``step`` (from 1) of Adam on all parameters, clear the gradient and assemble the network again.

    ``roughness`` (N, N) is twice the penalty on C; ``by_basis`` (N, 4 K) maps coefficients to tables.
    """
    factor = schedule / (1.0 - _DECAY**step)
    sharpen, fresh = np.float32(1.0 / (1.0 - (1.0 - rates.fresh) ** step)), rates.fresh
    one, zero = np.float32(1), np.float32(0)
    rate = np.float32(factor) * rates.W
    decay = np.float32(2) * rates.alpha
    _adam_columns(parameters, moments, squares, gradient, slopes, nodes, decay, work, rate, sharpen, fresh)
    _adam_levels(parameters, moments, squares, gradient, slopes, nodes, decay, work, rate, sharpen, fresh)
    descend(parameters.bias, gradient.bias, moments.bias, squares.bias, one, zero, rate, sharpen, fresh)
    rate, decay = np.float32(factor) * rates.scale, np.float32(2) * rates.scale_alpha
    descend(parameters.scale, slopes.scale, moments.scale, squares.scale, one, decay, rate, sharpen, fresh)
    descend(
        parameters.ramp_scale, slopes.ramp_scale, moments.ramp_scale, squares.ramp_scale,
        one, decay, rate, sharpen, fresh,
    )  # fmt: skip
    n_tables = parameters.C.shape[0]
    if n_tables == 1:  # one copy per lane
        for lane in range(1, gradient.table.shape[0]):
            for k in range(gradient.table.shape[1]):
                gradient.table[0, k] += gradient.table[lane, k]
    multiply(gradient.table[:n_tables], by_basis.T, slopes.C)
    gradient.table[:] = 0
    multiply(parameters.C, roughness, work.rough)
    for m in range(n_tables):
        for i in range(slopes.C.shape[1]):
            slopes.C[m, i] += work.rough[m, i]
    rate = np.float32(factor) * rates.C
    descend(
        flat(parameters.C), flat(slopes.C), flat(moments.C), flat(squares.C),
        one, zero, rate, sharpen, fresh,
    )  # fmt: skip
    if rates.V > 0:
        _clear_padding(parameters.V, gradient.V)
        rate = np.float32(factor) * rates.V
        descend(
            flat(parameters.V), flat(gradient.V), flat(moments.V), flat(squares.V),
            one, zero, rate, sharpen, fresh,
        )  # fmt: skip
    project(parameters, nodes.start, rates.bounds, slopes.C[0], work.rough[0])
    assemble(parameters, nodes, by_basis, network)


@part
def schedule_of(step: Any, n_steps: Any) -> float:
    """Return the share of the step length at ``step`` (from 1): a short warm-up, then half a cosine down to zero."""
    return 0.5 * (1 + np.cos(np.pi * step / n_steps)) * min(1.0, step / (_WARM_UP * n_steps + 1))


@jit
def train_rows(
    rows: Any, orders: Any, batch: Any, objective: Any,
    parameters: Any, moments: Any, squares: Any, gradient: Any, slopes: Any, nodes: Any, network: Any,
    by_basis: Any, roughness: Any, rates: Any, work: Any, step: Any, n_steps: Any, losses: Any,
) -> None:  # fmt: skip
    """Train on mini-batches of ``batch`` rows, from step ``step`` of ``n_steps``; add to the ``losses`` (n_passes,).

    Every row of ``orders`` (n_passes, n) is one pass over n rows, in its order; without any the network is assembled.
    """
    if orders.shape[0] == 0:
        assemble(parameters, nodes, by_basis, network)
    for turn in range(orders.shape[0]):
        order = orders[turn]
        for first in range(0, order.size, batch):
            losses[turn] += batch_gradient(rows, order[first : first + batch], network, gradient, work, objective)
            step += 1
            adam_step(
                parameters, moments, squares, gradient, slopes, nodes, network, by_basis, roughness, rates, work, step,
                schedule_of(step, n_steps),
            )  # fmt: skip
