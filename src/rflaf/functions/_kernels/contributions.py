"""Compiled loops that share a prediction out among the columns: Shapley values of f(x) = b + sum_m v_m sigma_m(u_m).

The input of a component is a sum over columns, u_m(x) = b_m + sum_j h_jm(x_j), so a row that takes some of its columns
from x and the others from a base row differs from the base by a sum of *parts* p_jm = h_jm(x_j) - h_jm(base_j). Parts
are computed once per row and base; a coalition of columns costs one addition and one look-up per component.

Walks through orders are in float32 between ends in float64: what the columns add sums to the difference of the ends,
whatever the answers between them.

The tests hold NumPy references.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from .curves import lane_cubics
from .loops import fast_part, jit, owning, part
from .vectors import LANES, address, clip, load, multiply_add, splat, store

LANE = 8  # components that the width is padded to: a vector of float32
_FAR = 1000.0  # cells, beyond which single precision does not do


class Additive(NamedTuple):
    """A model as sums of columns, in float64 and in cell coordinates; ``S`` is padded to whole vectors.

    ``linear`` (L,) and ``columns`` (C,), straight and curved columns, of the groups ``linear_group`` and
    ``curve_group``; ``W`` (L, S); ``nodes`` and ``gaps`` (T,); ``first`` (C + 1,); ``H`` (T, S) line and curve at
    the nodes; ``bias`` (S,); ``table`` (1 or S, K, 4); ``v`` (O, S).
    """

    linear: Any
    linear_group: Any
    columns: Any
    curve_group: Any
    W: Any
    nodes: Any
    gaps: Any
    first: Any
    H: Any
    bias: Any
    table: Any
    v: Any


class Scratch(NamedTuple):
    """Buffers of one thread.

    ``u``, ``z`` (S,); ``ends`` (2, S), inputs at the base and at the row; ``parts`` (G, S); ``f`` (4, O), answers
    before and after a step, at the base and at the row; ``worth`` (2^k, O); ``sums`` (G, O).
    """

    u: Any
    z: Any
    ends: Any
    parts: Any
    f: Any
    worth: Any
    sums: Any


@intrinsic
def _move(
    typing: Any, u: Any, at: Any, parts: Any, p_at: Any, sign: Any, table: Any, start: Any, stride: Any, z: Any,
    top: Any,
) -> Any:  # fmt: skip
    """``u[at:at+L] += sign parts[p_at:p_at+L]``, then ``z[at:at+L] = cubic(u)`` with the table of lane l."""
    kind = LANES[u.dtype]
    i64 = types.int64
    signature = types.void(u, i64, parts, i64, u.dtype, table, i64, i64, z, u.dtype)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = address(context, builder, sig.args[0], args[0], args[1])
        part = load(builder, address(context, builder, sig.args[2], args[2], args[3]), kind.vector)
        cells = address(context, builder, sig.args[5], args[5], args[6])
        target = address(context, builder, sig.args[8], args[8], args[1])
        sign = splat(builder, args[4], kind.count)
        moved = multiply_add(builder, sign, part, load(builder, place, kind.vector), kind)
        store(builder, moved, place)
        inside = clip(builder, moved, splat(builder, args[9], kind.count), kind)
        t, (c0, c1, c2, value) = lane_cubics(builder, cells, inside, args[7], kind)
        for coefficient in (c2, c1, c0):
            value = multiply_add(builder, value, t, coefficient, kind)
        store(builder, value, target)
        return context.get_dummy_value()

    return signature, generate


@part
def _step(model: Any, work: Any, group: Any, direction: Any, highest: Any) -> None:
    """Let one group of columns join (direction 1) or leave (-1); features of the coalition into ``work.z``."""
    sign, top = work.u.dtype.type(direction), work.u.dtype.type(highest)
    width, stride = work.u.size, 4 * model.table.shape[1] if model.table.shape[0] > 1 else 0
    for m in range(0, width, 32 // work.u.itemsize):
        _move(work.u, m, work.parts, group * width + m, sign, model.table, m * stride, stride, work.z, top)


@fast_part
def _answer(v: Any, z: Any, f: Any, row: Any) -> None:
    """``f[row, o] = v[o] . z``."""
    for o in range(v.shape[0]):
        total = v[o, 0] * z[0]
        for m in range(1, z.size):
            total += v[o, m] * z[m]
        f[row, o] = total


@part
def _place(x: Any, nodes: Any, gaps: Any, first: Any, last: Any) -> Any:
    """Return the node to the left of ``x`` and the share of the way to the next, which may leave [0, 1]."""
    low, high = first, last - 2
    while low < high:
        middle = (low + high + 1) // 2
        if x >= nodes[middle]:
            low = middle
        else:
            high = middle - 1
    return low, min(max((x - nodes[low]) * gaps[low], -1e6), 1e6)


@fast_part
def _add_curve(row: Any, part: Any, H: Any, k: Any, f: Any, sign: Any) -> None:
    """``part[row] += sign ((1 - f) H[k] + f H[k + 1])``."""
    for m in range(part.shape[1]):
        part[row, m] += sign * (H[k, m] + f * (H[k + 1, m] - H[k, m]))


@owning(part)
def find_parts(model: Any, X: Any, i: Any, bases: Any, b: Any, work: Any) -> None:
    """Set ``work.u`` to the inputs at base row b, and ``work.parts`` to what each group adds to them at row i."""
    u, parts = work.u.reshape((1, work.u.size)), work.parts
    u[0] = model.bias
    parts[:] = 0
    for c in range(model.linear.size):
        group, base = model.linear_group[c], bases[b, model.linear[c]]
        step = X[i, model.linear[c]] - base
        for m in range(u.size):
            u[0, m] += base * model.W[c, m]
            parts[group, m] += step * model.W[c, m]
    for c in range(model.columns.size):
        group, first, last = model.curve_group[c], model.first[c], model.first[c + 1]
        x, base = X[i, model.columns[c]], bases[b, model.columns[c]]
        k, f = _place(base, model.nodes, model.gaps, first, last)
        _add_curve(0, u, model.H, k, f, 1.0)
        if x != base:
            _add_curve(group, parts, model.H, k, f, -1.0)
            k, f = _place(x, model.nodes, model.gaps, first, last)
            _add_curve(group, parts, model.H, k, f, 1.0)


@owning(part)
def _start(model: Any, work: Any, group: Any, top: Any) -> None:
    """Compute inputs and answers at the base, where ``work.u`` is, and at the row."""
    work.ends[0] = work.u
    _step(model, work, group, 0.0, top)
    _answer(model.v, work.z, work.f, 2)
    for g in range(work.parts.shape[0]):
        for m in range(work.u.size):
            work.u[m] += work.parts[g, m]
    work.ends[1] = work.u
    _step(model, work, group, 0.0, top)
    _answer(model.v, work.z, work.f, 3)


@owning(part)
def _shorten(work: Any, short: Any) -> bool:
    """Copy ends and parts to single precision; return whether that does."""
    largest = 0.0
    for m in range(work.u.size):
        for end in range(2):
            short.ends[end, m] = work.ends[end, m]
            largest = max(largest, abs(work.ends[end, m]))
        for g in range(work.parts.shape[0]):
            short.parts[g, m] = work.parts[g, m]
            largest = max(largest, abs(work.parts[g, m]))
    short.f[:] = work.f
    return largest < _FAR


@owning(part)
def _walk(model: Any, work: Any, order: Any, count: Any, top: Any) -> None:
    """Let the groups of an order join the base one after the other, then leave the row one after the other.

    ``work.sums[g]`` receives half of what g adds to the groups before it and half of what it adds to those after it:
    the mean of the order and the opposite one.
    """
    f = work.f
    work.sums[:] = 0
    for end in range(2):
        sign = 1.0 - 2.0 * end
        work.u[:] = work.ends[end]
        f[0] = f[2 + end]
        for place in range(count):
            if place < count - 1:
                _step(model, work, order[place], sign, top)
                _answer(model.v, work.z, f, 1)
            else:
                f[1] = f[3 - end]
            for o in range(f.shape[1]):
                work.sums[order[place], o] += 0.5 * sign * (f[1, o] - f[0, o])
                f[0, o] = f[1, o]


@owning(part)
def _enumerate(model: Any, work: Any, active: Any, count: Any, top: Any) -> None:
    """Shapley values of ``count`` groups from all coalitions, each one step from the one before, in ``work.sums``."""
    coalition = 0
    _step(model, work, active[0], 0.0, top)
    _answer(model.v, work.z, work.worth, 0)
    for number in range(1, 1 << count):
        changed = 0
        while (number >> changed) & 1 == 0:
            changed += 1
        sign = -1.0 if (coalition >> changed) & 1 else 1.0
        coalition ^= 1 << changed
        _step(model, work, active[changed], sign, top)
        _answer(model.v, work.z, work.worth, coalition)
    work.sums[:] = 0
    weights = np.empty(count)
    weights[0] = 1.0 / count
    for size in range(1, count):
        weights[size] = weights[size - 1] * size / (count - size)
    for coalition in range(1 << count):
        size = 0
        for bit in range(count):
            size += (coalition >> bit) & 1
        for bit in range(count):
            if (coalition >> bit) & 1 == 0:
                joined = coalition | (1 << bit)
                for o in range(work.f.shape[1]):
                    gain = work.worth[joined, o] - work.worth[coalition, o]
                    work.sums[active[bit], o] += weights[size] * gain


@owning(jit)
def explain(
    X: Any, bases: Any, model: Any, short_model: Any, orders: Any, designs: Any, n_exact: Any, work: Any, short: Any,
    values: Any, errors: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    """Shapley values (n, G, O) of rows start to stop against the mean of base rows, and their standard errors.

    A row with at most ``n_exact`` groups that differ from the base has all coalitions enumerated; any other walks
    through ``orders[designs[i]]``, each forwards and backwards; ``orders`` (n_designs, n_bases, n_pairs, G).
    """
    _, n_bases, n_pairs, n_groups = orders.shape
    n_outputs = model.v.shape[0]
    n_cells = model.table.shape[1]
    top, short_top = np.nextafter(n_cells - 0.5, 0.0), np.nextafter(np.float32(n_cells - 0.5), np.float32(0))
    active = np.empty(n_groups, np.int64)
    order = np.empty(n_groups, np.int64)
    mean = np.empty((n_groups, n_outputs))
    squares = np.empty((n_groups, n_outputs))
    differs = np.empty(n_groups, np.bool_)
    for i in range(start, stop):
        values[i] = 0
        errors[i] = 0
        for b in range(n_bases):
            find_parts(model, X, i, bases, b, work)
            count = 0
            for g in range(n_groups):
                differs[g] = np.any(work.parts[g] != 0)
                if differs[g]:
                    active[count] = g
                    count += 1
            if count == 0:
                continue
            if count <= n_exact:
                _enumerate(model, work, active, count, top)
                for g in range(n_groups):
                    for o in range(n_outputs):
                        values[i, g, o] += work.sums[g, o] / n_bases
                continue
            _start(model, work, active[0], top)
            is_short = _shorten(work, short)
            mean[:] = 0
            squares[:] = 0
            for pair in range(n_pairs):
                place = 0
                for p in range(n_groups):
                    g = orders[designs[i], b, pair, p]
                    if differs[g]:
                        order[place] = g
                        place += 1
                if is_short:
                    _walk(short_model, short, order, count, short_top)
                    work.sums[:] = short.sums
                else:
                    _walk(model, work, order, count, top)
                for g in range(n_groups):
                    for o in range(n_outputs):
                        off = work.sums[g, o] - mean[g, o]
                        mean[g, o] += off / (pair + 1)
                        squares[g, o] += off * (work.sums[g, o] - mean[g, o])
            for g in range(n_groups):
                for o in range(n_outputs):
                    values[i, g, o] += mean[g, o] / n_bases
                    errors[i, g, o] += squares[g, o] / (n_pairs * max(n_pairs - 1, 1)) / n_bases**2
        for g in range(n_groups):
            for o in range(n_outputs):
                errors[i, g, o] = np.sqrt(errors[i, g, o])
