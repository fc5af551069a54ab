"""Losses in the compiled loops of refined models; the NumPy twin of each is its class in ``losses.py``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ._vectors import jit

HUBER, PINBALL, LOGISTIC, SQUARED_HINGE, SOFTMAX, POISSON = range(6)


class Objective(NamedTuple):
    """A loss by its number, its two parameters as float32, and ``base`` (O,), what is added to the outputs."""

    number: Any
    first: Any
    second: Any
    base: Any


@jit
def _softmax_slopes(out: Any, i: Any, y: Any, row: Any) -> Any:
    """Row ``i`` of ``out`` becomes softmax(out) - y; returns the loss."""
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


@jit
def _pointwise(objective: Any, f: Any, y: Any) -> Any:
    """Value and slope of a loss of one output."""
    number, one, half = objective.number, np.float32(1), np.float32(0.5)
    if number == HUBER:
        size = abs(f - y)
        kept = min(size, objective.first)
        return kept * (size + size - kept), (kept + kept) * np.float32(np.sign(f - y))
    if number == LOGISTIC:
        e = np.exp(-abs(f))
        p = (one if f >= 0 else e) / (one + e)
        return max(f, np.float32(0)) + np.log1p(e) - y * f, p - y
    if number == PINBALL:
        r, h = y - f, objective.second
        rounded = half * (r * r / h + h) if abs(r) < h else abs(r)
        inside = min(max(r / h, -one), one)
        return (objective.first - half) * r + half * rounded, half - objective.first - half * inside
    if number == SQUARED_HINGE:
        s = y + y - one
        short = max(np.float32(0), one - s * f)
        return short * short, -(s + s) * short
    e = np.exp(min(f, objective.first))
    mean = e * (one + max(f - objective.first, np.float32(0)))
    return mean - y * f + (y * np.log(y) if y > 0 else np.float32(0)) - y, e - y


@jit
def to_slopes(objective: Any, out: Any, rows: Any, index: Any) -> float:
    """Outputs ``out`` (n, O) less their base become w / n times the slopes there; returns the summed loss, weighted."""
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
                value, slope = _pointwise(objective, out[i, o], rows.y[row, o])
                loss += weight * value
                out[i, o] = slope
        for o in range(n_outputs):
            out[i, o] *= step * weight
    return loss
