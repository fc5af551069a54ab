"""Compiled losses of refined models and of passes over features; NumPy references in `rflaf.functions.losses`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .loops import fast_jit, owning, part
from .shapes import HUBER, LOGISTIC, PINBALL, SOFTMAX, SQUARED_HINGE, TWEEDIE

_CHUNK = 256  # rows whose features stay in the second-level cache for both sums


class Objective(NamedTuple):
    """Index of a loss, its parameters ``first`` (O,) and ``second``, and ``base`` (O,), added to the outputs."""

    number: Any
    first: Any
    second: Any
    base: Any


@part
def _softmax_slopes(out: Any, i: Any, y: Any, row: Any) -> Any:
    """Replace row ``i`` of ``out`` by softmax(out) - y; return the loss."""
    n_outputs = out.shape[1]
    top = out[i, 0]
    for o in range(1, n_outputs):
        top = max(top, out[i, o])
    total, chosen = np.float32(0), np.float32(0)
    for o in range(n_outputs):
        chosen += y[row, o] * (out[i, o] - top)
        out[i, o] = np.exp(out[i, o] - top)
        total += out[i, o]
    for o in range(n_outputs):
        out[i, o] = out[i, o] / total - y[row, o]
    return np.log(total) - chosen


@part
def _tweedie(power: Any, f: Any, y: Any) -> Any:
    """Return value and slope of half the Tweedie deviance, straight beyond 30 on either side."""
    one, two, far = np.float32(1), np.float32(2), np.float32(30)
    inside = min(max(f, -far), far)
    a, b = two - power, one - power
    fall = y * np.exp(b * inside)
    if a == 0:
        slope = one - fall
        return fall + inside - np.log(y) - one + (f - inside) * slope, slope
    rise = np.exp(a * inside)
    lowest = np.exp(a * np.log(y)) * (one / a - one / b) if y > 0 else np.float32(0)
    return rise / a - fall / b - lowest + (f - inside) * (rise - fall), rise - fall


@part
def _pointwise(objective: Any, o: Any, f: Any, y: Any) -> Any:
    """Return value and slope of a loss at output ``o``."""
    number, first, one, half = objective.number, objective.first[o], np.float32(1), np.float32(0.5)
    if number == HUBER:
        size, inside = abs(f - y), min(max(f - y, -first), first)  # no branch, which a sign would be guessed by
        kept = min(size, first)
        return kept * (size + size - kept), inside + inside
    if number == LOGISTIC:
        e = np.exp(-abs(f))
        p = (one if f >= 0 else e) / (one + e)
        return max(f, np.float32(0)) + np.log1p(e) - y * f, p - y
    if number == PINBALL:
        r, h = y - f, objective.second
        rounded = half * (r * r / h + h) if abs(r) < h else abs(r)
        inside = min(max(r / h, -one), one)
        return (first - half) * r + half * rounded, half - first - half * inside
    if number == SQUARED_HINGE:
        s = y + y - one
        short = max(np.float32(0), one - s * f)
        return short * short, -(s + s) * short
    if number == TWEEDIE:
        return _tweedie(first, f, y)
    e = np.exp(min(f, first))
    mean = e * (one + max(f - first, np.float32(0)))
    return mean - y * f + (y * np.log(y) if y > 0 else np.float32(0)) - y, e - y


@part
def to_slopes(objective: Any, out: Any, rows: Any, index: Any) -> float:
    """Replace outputs ``out`` (n, O) without base by w / n times their slopes; return the weighted sum of losses."""
    n_rows, n_outputs = index.size, out.shape[1]
    step = np.float32(1.0 / n_rows)
    loss = 0.0
    for i in range(n_rows):
        row = index[i]
        weight = rows.weight[row]
        for o in range(n_outputs):
            out[i, o] += objective.base[o]
        if objective.number == SOFTMAX:
            loss += weight * _softmax_slopes(out, i, rows.y, row)
        else:
            for o in range(n_outputs):
                value, slope = _pointwise(objective, o, out[i, o], rows.y[row, o])
                loss += weight * value
                out[i, o] = slope
        for o in range(n_outputs):
            out[i, o] *= step * weight
    return loss


@owning(fast_jit)
def sum_pass(objective: Any, z: Any, y: Any, weight: Any, v: Any, b: Any, slopes: Any) -> Any:
    """Sum loss and slope in b of f = z' v + b, one output; ``slopes[m] += sum_r z[m, r] w_r loss'(f_r, y_r)``.

    Shapes (m, n), (n,), (n,) or (0,) for no weights, (m,), a number, (m,). Features are read from memory only once.
    """
    n_features, n_rows = z.shape
    f = np.empty(_CHUNK, z.dtype)
    whole = n_features - n_features % 4
    loss, at_b = 0.0, 0.0
    for first in range(0, n_rows, _CHUNK):
        last = min(first + _CHUNK, n_rows)
        size = last - first
        for r in range(size):
            f[r] = 0
        for k in range(0, whole, 4):
            z0, z1, z2, z3 = z[k, first:last], z[k + 1, first:last], z[k + 2, first:last], z[k + 3, first:last]
            v0, v1, v2, v3 = v[k], v[k + 1], v[k + 2], v[k + 3]
            for r in range(size):
                f[r] += (v0 * z0[r] + v1 * z1[r]) + (v2 * z2[r] + v3 * z3[r])
        for k in range(whole, n_features):
            z0, v0 = z[k, first:last], v[k]
            for r in range(size):
                f[r] += v0 * z0[r]
        for r in range(size):
            value, slope = _pointwise(objective, 0, f[r] + b, y[first + r])
            if weight.size:
                value, slope = value * weight[first + r], slope * weight[first + r]
            loss += value
            at_b += slope
            f[r] = slope
        for k in range(0, whole, 4):
            z0, z1, z2, z3 = z[k, first:last], z[k + 1, first:last], z[k + 2, first:last], z[k + 3, first:last]
            s0 = s1 = s2 = s3 = z.dtype.type(0)
            for r in range(size):
                s0 += z0[r] * f[r]
                s1 += z1[r] * f[r]
                s2 += z2[r] * f[r]
                s3 += z3[r] * f[r]
            slopes[k] += s0
            slopes[k + 1] += s1
            slopes[k + 2] += s2
            slopes[k + 3] += s3
        for k in range(whole, n_features):
            z0, s0 = z[k, first:last], z.dtype.type(0)
            for r in range(size):
                s0 += z0[r] * f[r]
            slopes[k] += s0
    return loss, at_b
