"""The compiled loops of refined models: a whole mini-batch forward and back, and one step of Adam.

Vectors run over the components, as in ``_curve_kernels.py``. Everything is float32; ``S`` is padded to whole vectors.

A component's input is u = bias + x W + sum_c ((1 - f_c) H[k_c] + f_c H[k_c + 1]), with k_c the node to the left of the
row in column c and f_c the fraction of the way to the next; then z = table(u) and the outputs are V z. The gradient in
the nodes H carries that of everything a column's curve is made of: of its ramps by a reverse cumulative sum, and of its
linear part as sum_k q_k A[k], since a straight line has the positions q_k of the nodes for its values there.

References in NumPy are beside the tests.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .curves import add_curves, lane_cubics, lane_offsets
from .losses import to_slopes
from .vectors import LANES, address, cell, clip, jit, load, multiply_add, splat, split_powers, store

LANE = 8  # float32 in a vector
_BLOCK = 32  # components whose tables are used for all rows of a batch before the next
_fast_jit = partial(jit, fastmath={"contract", "nsz", "arcp", "reassoc"})  # where no rounding trick is at stake
_EPSILON = 1e-8
_DECAY, _SQUARE_DECAY = 0.9, 0.99
_WARM_UP = 0.05


class Rows(NamedTuple):
    """Encoded rows: ``x`` (n, n_linear); ``cells`` and ``fractions`` (n, n_curves); ``y`` (n, O); ``weight`` (n,)."""

    x: Any
    cells: Any
    fractions: Any
    y: Any
    weight: Any


class Network(NamedTuple):
    """A row meets: ``W`` (n_linear, S), ``H`` (n_nodes, S), ``bias`` (S,), ``table`` (1 or S, 4 K), ``V`` (O, S)."""

    W: Any
    H: Any
    bias: Any
    table: Any
    V: Any


class Gradient(NamedTuple):
    """Derivatives in the network, ``table`` in one copy a component, or a lane where the activation is shared."""

    W: Any
    H: Any
    bias: Any
    table: Any
    V: Any


class Parameters(NamedTuple):
    """What Adam moves.

    ``W`` (n_linear + n_curves, S) linear weights, those of curved columns last; ``ramps`` (n_nodes, S), the rise to a
    node from the one before; ``bias`` (S,); ``C`` (1 or S, N); ``V`` (O, S); ``scale`` (n_linear + n_curves,) of the
    linear weights; ``ramp_scale`` (n_curves,).
    """

    W: Any
    ramps: Any
    bias: Any
    C: Any
    V: Any
    scale: Any
    ramp_scale: Any


class Nodes(NamedTuple):
    """Where columns bend: ``start`` (n_curves + 1,) into ``position``, ``size`` and ``centre`` (n_nodes,), float32.

    A ramp into node k rises by ``size[k]`` from the node before, and has the mean ``centre[k]`` over the rows.
    """

    start: Any
    position: Any
    size: Any
    centre: Any


class Rates(NamedTuple):
    """Step lengths and penalties, float32 scalars; ``V`` is zero where output weights are fixed."""

    W: Any
    C: Any
    V: Any
    scale: Any
    alpha: Any
    scale_alpha: Any


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
    """``z[to:to+L]``, ``slope[to:to+L]`` = cubic and derivative at ``u[at:at+L]``; lane l's table is l strides on."""
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
    typing: Any,
    u: Any,
    e: Any,
    slope: Any,
    at: Any,
    bias: Any,
    to: Any,
    moments: Any,
    start: Any,
    stride: Any,
    top: Any,
) -> Any:
    """The transpose of `_respond`: ``u[at:at+L] = e slope``, added to ``bias[to:to+L]`` too, and for every lane l
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
        for offset, row in zip(offsets, split_powers(builder, powers, kind), strict=True):
            place = builder.gep(base, [offset])
            store(builder, builder.fadd(load(builder, place, kind.quad), row), place)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _bend(
    typing: Any,
    H: Any,
    k: Any,
    run: Any,
    line: Any,
    bias: Any,
    slope: Any,
    j: Any,
    size: Any,
    centre: Any,
    position: Any,
) -> Any:
    """One node of a column: takes ``a = H[k:k+L]``, which is cleared, into the running sums
    ``run += a``, ``line += position a``, and writes the derivative in its ramp, ``slope = size run - centre bias``.
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


@intrinsic
def _descend(
    typing: Any, value: Any, moment: Any, square: Any, at: Any, slope: Any, s_at: Any,
    scale: Any, decay: Any, rate: Any, sharpen: Any,
) -> Any:  # fmt: skip
    """One step of Adam for L lanes with the derivative ``g = scale slope + decay value``."""
    kind = LANES[value.dtype]
    real = value.dtype
    signature = types.void(value, moment, square, types.int64, slope, types.int64, real, real, real, real)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value_at, moment_at, square_at = (address(context, builder, sig.args[i], args[i], args[3]) for i in range(3))
        slope_at = address(context, builder, sig.args[4], args[4], args[5])
        scale, decay, rate, sharpen = (splat(builder, scalar, kind.count) for scalar in args[6:10])
        value, m, s, slope = (load(builder, p, kind.vector) for p in (value_at, moment_at, square_at, slope_at))
        g = multiply_add(builder, decay, value, builder.fmul(scale, slope), kind)
        m = multiply_add(builder, kind.constant(1 - _DECAY), builder.fsub(g, m), m, kind)
        s = multiply_add(builder, kind.constant(1 - _SQUARE_DECAY), builder.fsub(builder.fmul(g, g), s), s, kind)
        store(builder, m, moment_at)
        store(builder, s, square_at)
        signature = ir.FunctionType(kind.vector, [kind.vector])
        root = cgutils.get_or_insert_function(builder.module, signature, f"llvm.sqrt.v{kind.count}{kind.mangled}")
        size = builder.fadd(builder.call(root, [builder.fmul(s, sharpen)]), kind.constant(_EPSILON))
        store(builder, builder.fsub(value, builder.fdiv(builder.fmul(rate, m), size)), value_at)
        return context.get_dummy_value()

    return signature, generate


@jit
def _add_curve_gradient(du: Any, i: Any, rows: Any, row: Any, A: Any) -> None:
    """The transpose of `add_curves`."""
    one = np.float32(1)
    for c in range(rows.cells.shape[1]):
        k, f = rows.cells[row, c], rows.fractions[row, c]
        m = one - f
        for j in range(du.shape[1]):
            A[k, j] += m * du[i, j]
            A[k + 1, j] += f * du[i, j]


@jit
def _inputs(rows: Any, index: Any, network: Any, work: Any) -> None:
    """Inputs of all components, ``work.u`` (n, S), for the rows ``index``."""
    n_rows, n_linear = index.size, network.W.shape[0]
    u = work.u[:n_rows]
    if n_linear:
        x = work.x[:n_rows]
        for i in range(n_rows):
            row = index[i]
            for c in range(n_linear):
                x[i, c] = rows.x[row, c]
        np.dot(x, network.W, u)
        for i in range(n_rows):
            for j in range(u.shape[1]):
                u[i, j] += network.bias[j]
    else:
        for i in range(n_rows):
            for j in range(u.shape[1]):
                u[i, j] = network.bias[j]
    if rows.cells.shape[1]:
        for i in range(n_rows):
            add_curves(work.u, i, rows.cells, rows.fractions, index[i], network.H)


@jit
def _respond_all(index: Any, network: Any, work: Any) -> None:
    """Values and slopes of every component at its inputs, ``work.z`` and ``work.slope``; and the outputs V z.

    A few components at a time for all rows, so that their tables stay in the first-level cache.
    """
    width, n_rows = network.bias.size, index.size
    n_cells = network.table.shape[1] // 4
    stride = 0 if network.table.shape[0] == 1 else 4 * n_cells
    top = np.nextafter(np.float32(n_cells - 0.5), np.float32(0))
    for first in range(0, width, _BLOCK):
        for i in range(n_rows):
            for j in range(first, min(first + _BLOCK, width), LANE):
                at = i * width + j
                _respond(network.table, j * stride, stride, work.u, at, work.z, work.slope, at, top)
    np.dot(work.z[:n_rows], network.V.T, work.out[:n_rows])


@jit
def _back_all(index: Any, network: Any, gradient: Any, work: Any) -> None:
    """From the derivatives in the outputs, ``work.out``, to those in the inputs, ``work.u``, and in the tables."""
    width, n_rows = network.bias.size, index.size
    n_cells = network.table.shape[1] // 4
    stride = 0 if network.table.shape[0] == 1 else 4 * n_cells
    top = np.nextafter(np.float32(n_cells - 0.5), np.float32(0))
    np.dot(work.out[:n_rows], network.V, work.e[:n_rows])
    gradient.bias[:] = 0
    for first in range(0, width, _BLOCK):
        for i in range(n_rows):
            for j in range(first, min(first + _BLOCK, width), LANE):
                at = i * width + j
                _back(work.u, work.e, work.slope, at, gradient.bias, j, gradient.table, j * stride, 4 * n_cells, top)


@jit
def batch_gradient(rows: Any, index: Any, network: Any, gradient: Any, work: Any, objective: Any) -> float:
    """``gradient`` of 1/m sum w loss(f, y) over the rows ``index``; their summed loss is returned.

    ``H`` and ``table`` are added to, the others are set.
    """
    n_rows = index.size
    _inputs(rows, index, network, work)
    _respond_all(index, network, work)
    loss: float = to_slopes(objective, work.out, rows, index)
    _back_all(index, network, gradient, work)
    np.dot(work.out[:n_rows].T, work.z[:n_rows], gradient.V)
    if rows.cells.shape[1]:
        for i in range(n_rows):
            _add_curve_gradient(work.u, i, rows, index[i], gradient.H)
    if network.W.shape[0]:
        np.dot(work.x[:n_rows].T, work.u[:n_rows], gradient.W)
    return loss


@jit
def outputs(rows: Any, index: Any, network: Any, work: Any, out: Any) -> None:
    """``out[i] = V z`` (n, O) for the rows ``index``, any number of them."""
    batch = work.u.shape[0]
    for first in range(0, index.size, batch):
        part = index[first : first + batch]
        _inputs(rows, part, network, work)
        _respond_all(part, network, work)
        for i in range(part.size):
            for o in range(out.shape[1]):
                out[first + i, o] = work.out[i, o]


@jit
def _adam(value: Any, slope: Any, moment: Any, square: Any, scale: Any, decay: Any, rate: Any, sharpen: Any) -> None:
    """Adam on (k,) arrays with the derivative scale slope + decay value.

    ``rate`` is divided by 1 - beta1^t beforehand, ``sharpen`` is 1 / (1 - beta2^t).
    """
    whole = value.size - value.size % LANE
    for j in range(0, whole, LANE):
        _descend(value, moment, square, j, slope, j, scale, decay, rate, sharpen)
    for j in range(whole, value.size):
        g = scale * slope[j] + decay * value[j]
        moment[j] += np.float32(1 - _DECAY) * (g - moment[j])
        square[j] += np.float32(1 - _SQUARE_DECAY) * (g * g - square[j])
        value[j] -= rate * moment[j] / (np.sqrt(square[j] * sharpen) + np.float32(_EPSILON))


@_fast_jit
def _adam_row(
    value: Any,
    moment: Any,
    square: Any,
    row: Any,
    slope: Any,
    s_row: Any,
    scale: Any,
    decay: Any,
    rate: Any,
    sharpen: Any,
) -> Any:
    """`_adam` on one row of (k, S) arrays; returns the derivative in ``scale``."""
    width = value.shape[1]
    total = np.float32(0)
    for j in range(width):
        total += slope[s_row, j] * value[row, j]
    for j in range(0, width, LANE):
        _descend(value, moment, square, row * width + j, slope, s_row * width + j, scale, decay, rate, sharpen)
    return total


@jit
def _adam_columns(
    parameters: Any, moments: Any, squares: Any, gradient: Any, slopes: Any, nodes: Any, decay: Any, work: Any,
    rate: Any, sharpen: Any,
) -> None:  # fmt: skip
    """Adam on the linear weights and ramps of every column; ``slopes`` receives the derivatives in the scales.

    Sweeps every column's nodes from the right, so that the derivative in a ramp is a running sum; clears gradient.H.
    """
    n_linear, width = gradient.W.shape[0], gradient.bias.size
    H, bias, run, line, slope = gradient.H, gradient.bias, work.run, work.line, work.ramp
    zero = np.float32(0)
    for c in range(n_linear):
        slopes.scale[c] = _adam_row(
            parameters.W, moments.W, squares.W, c, gradient.W, c, parameters.scale[c], decay, rate, sharpen
        )
    for c in range(nodes.start.size - 1):
        run[:] = 0
        line[:] = 0
        total, scale = zero, parameters.ramp_scale[c]
        for k in range(nodes.start[c + 1] - 1, nodes.start[c], -1):
            size, centre, position = nodes.size[k], nodes.centre[k], nodes.position[k]
            for j in range(0, width, LANE):
                _bend(H, k * width + j, run, line, bias, slope, j, size, centre, position)
            total += _adam_row(parameters.ramps, moments.ramps, squares.ramps, k, slope, 0, scale, decay, rate, sharpen)
        k, at = nodes.start[c], n_linear + c
        for j in range(0, width, LANE):  # the first node has no ramp into it
            _bend(H, k * width + j, run, line, bias, slope, j, zero, zero, nodes.position[k])
        slopes.ramp_scale[c] = total
        slopes.scale[at] = _adam_row(
            parameters.W, moments.W, squares.W, at, line, 0, parameters.scale[at], decay, rate, sharpen
        )


@_fast_jit
def assemble(parameters: Any, nodes: Any, by_basis: Any, network: Any) -> Any:
    """The network of the parameters: scales multiplied in, ramps summed to node values, coefficients to tables."""
    n_linear = network.W.shape[0]
    for c in range(n_linear):
        for j in range(network.bias.size):
            network.W[c, j] = parameters.scale[c] * parameters.W[c, j]
    for j in range(network.bias.size):
        network.bias[j] = parameters.bias[j]
    for c in range(nodes.start.size - 1):
        first, scale, ramp_scale = nodes.start[c], parameters.scale[n_linear + c], parameters.ramp_scale[c]
        position = nodes.position[first]
        for j in range(network.bias.size):
            network.H[first, j] = position * scale * parameters.W[n_linear + c, j]
        for k in range(first + 1, nodes.start[c + 1]):
            rise = (nodes.position[k] - nodes.position[k - 1]) * scale
            size, centre = nodes.size[k] * ramp_scale, nodes.centre[k] * ramp_scale
            for j in range(network.bias.size):
                ramp = parameters.ramps[k, j]
                network.H[k, j] = network.H[k - 1, j] + rise * parameters.W[n_linear + c, j] + size * ramp
                network.bias[j] -= centre * ramp
    np.dot(parameters.C, by_basis, network.table[: parameters.C.shape[0]])
    for o in range(network.V.shape[0]):
        for j in range(network.V.shape[1]):
            network.V[o, j] = parameters.V[o, j]


@jit
def _clear_padding(V: Any, slope: Any) -> None:
    """No derivative for components that only fill up a vector: theirs are the output weights that are all zero."""
    for j in range(V.shape[1]):
        size = np.float32(0)
        for o in range(V.shape[0]):
            size += abs(V[o, j])
        if size == 0:
            for o in range(V.shape[0]):
                slope[o, j] = 0


@jit
def adam_step(
    parameters: Any, moments: Any, squares: Any, gradient: Any, slopes: Any, nodes: Any, network: Any,
    by_basis: Any, roughness: Any, rates: Any, work: Any, step: Any, schedule: Any,
) -> None:  # fmt: skip
    """Step ``step`` (from 1) of Adam on everything, the gradient cleared and the network assembled again.

    ``roughness`` (N, N) is twice the penalty on C; ``by_basis`` (N, 4 K) maps coefficients to tables.
    """
    factor = schedule / (1.0 - _DECAY**step)
    sharpen = np.float32(1.0 / (1.0 - _SQUARE_DECAY**step))
    one, zero = np.float32(1), np.float32(0)
    rate = np.float32(factor) * rates.W
    decay = np.float32(2) * rates.alpha
    _adam_columns(parameters, moments, squares, gradient, slopes, nodes, decay, work, rate, sharpen)
    _adam(parameters.bias, gradient.bias, moments.bias, squares.bias, one, zero, rate, sharpen)
    rate, decay = np.float32(factor) * rates.scale, np.float32(2) * rates.scale_alpha
    _adam(parameters.scale, slopes.scale, moments.scale, squares.scale, one, decay, rate, sharpen)
    _adam(parameters.ramp_scale, slopes.ramp_scale, moments.ramp_scale, squares.ramp_scale, one, decay, rate, sharpen)
    n_tables = parameters.C.shape[0]
    if n_tables == 1:  # one copy a lane
        for lane in range(1, gradient.table.shape[0]):
            for k in range(gradient.table.shape[1]):
                gradient.table[0, k] += gradient.table[lane, k]
    np.dot(gradient.table[:n_tables], by_basis.T, slopes.C)
    gradient.table[:] = 0
    np.dot(parameters.C, roughness, work.rough)
    for m in range(n_tables):
        for i in range(slopes.C.shape[1]):
            slopes.C[m, i] += work.rough[m, i]
    rate = np.float32(factor) * rates.C
    _adam(
        parameters.C.reshape(-1), slopes.C.reshape(-1), moments.C.reshape(-1), squares.C.reshape(-1),
        one, zero, rate, sharpen,
    )  # fmt: skip
    if rates.V > 0:
        _clear_padding(parameters.V, gradient.V)
        rate = np.float32(factor) * rates.V
        _adam(
            parameters.V.reshape(-1), gradient.V.reshape(-1), moments.V.reshape(-1), squares.V.reshape(-1),
            one, zero, rate, sharpen,
        )  # fmt: skip
    assemble(parameters, nodes, by_basis, network)


@jit
def train_rows(
    rows: Any, order: Any, batch: Any, objective: Any,
    parameters: Any, moments: Any, squares: Any, gradient: Any, slopes: Any, nodes: Any, network: Any,
    by_basis: Any, roughness: Any, rates: Any, work: Any, step: Any, n_steps: Any,
) -> float:  # fmt: skip
    """Mini-batches of ``batch`` rows in ``order``, from step ``step`` of ``n_steps``; returns the summed loss."""
    loss = 0.0
    for first in range(0, order.size, batch):
        loss += batch_gradient(rows, order[first : first + batch], network, gradient, work, objective)
        step += 1
        done = step / n_steps
        schedule = 0.5 * (1 + np.cos(np.pi * done)) * min(1.0, step / (_WARM_UP * n_steps + 1))
        adam_step(
            parameters, moments, squares, gradient, slopes, nodes, network, by_basis, roughness, rates, work, step,
            schedule,
        )  # fmt: skip
    return loss
