"""Bounds on the parameters of refined models, kept by a projection after every step.

A component reads a column freely, only upwards, only downwards or not at all, and its activation may have to rise.
B-splines with non-decreasing coefficients do not fall, so a component that rises, read upwards in a column, rises
with the column everywhere, and so do all outputs, whose weights of it are not negative.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .loops import part

FREE = 2


class Bounds(NamedTuple):
    """``sign`` (n_linear + n_curves + n_levels, S), int8: 1, -1, 0 for a column not read, `FREE`; ``rises`` (S,), bool.

    Empty arrays bound nothing.
    """

    sign: Any
    rises: Any


NO_BOUNDS = Bounds(np.zeros((0, 0), np.int8), np.zeros(0, np.bool_))


@part
def _bound_row(values: Any, row: Any, sign: Any, sign_row: Any) -> bool:
    """Project one row of (k, S) weights; return whether any of them has a sign to keep."""
    signed = False
    for j in range(sign.shape[1]):
        s = sign[sign_row, j]
        if s == 0:
            values[row, j] = 0
        elif s == 1:
            signed = True
            values[row, j] = max(values[row, j], np.float32(0))
        elif s == -1:
            signed = True
            values[row, j] = min(values[row, j], np.float32(0))
    return signed


@part
def rise(c: Any, row: Any, level: Any, weight: Any) -> None:
    """Replace one row of ``c`` by the nearest non-decreasing one: neighbours that fall are pooled into their mean."""
    blocks = 0
    for i in range(c.shape[1]):
        level[blocks], weight[blocks] = c[row, i], 1
        blocks += 1
        while blocks > 1 and level[blocks - 2] > level[blocks - 1]:
            total = weight[blocks - 2] + weight[blocks - 1]
            level[blocks - 2] += (level[blocks - 1] - level[blocks - 2]) * weight[blocks - 1] / total
            weight[blocks - 2] = total
            blocks -= 1
    i = 0
    for block in range(blocks):
        for _ in range(int(weight[block])):
            c[row, i] = level[block]
            i += 1


@part
def project(parameters: Any, start: Any, bounds: Any, level: Any, weight: Any) -> None:
    """Move the parameters to the nearest that keep the bounds; ``start`` (n_curves + 1,) of the nodes of the curves.

    ``level`` and ``weight`` are buffers, of one number for every function of the basis.
    """
    if bounds.rises.size == 0:
        return
    n_linear = parameters.scale.size - (start.size - 1)
    zero = np.float32(0)
    for c in range(parameters.scale.size):
        signed = _bound_row(parameters.W, c, bounds.sign, c)
        if c >= n_linear:
            curve = c - n_linear
            for k in range(start[curve] + 1, start[curve + 1]):
                _bound_row(parameters.ramps, k, bounds.sign, c)
            if signed:
                parameters.ramp_scale[curve] = max(parameters.ramp_scale[curve], zero)
        if signed:
            parameters.scale[c] = max(parameters.scale[c], zero)
    for k in range(start[-1], parameters.ramps.shape[0]):  # levels
        _bound_row(parameters.ramps, k, bounds.sign, parameters.scale.size + k - start[-1])
    for m in range(parameters.C.shape[0]):
        if bounds.rises[m]:
            rise(parameters.C, m, level, weight)
            for o in range(parameters.V.shape[0]):
                parameters.V[o, m] = max(parameters.V[o, m], zero)
