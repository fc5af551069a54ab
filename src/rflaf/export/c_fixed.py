"""A formula in fixed point for processors without a unit for floating point: tables of 16 bits, sums of integers.

Floating point is left at the ends alone: one comparison for every halving of a column's nodes, one product for every
column and one for every output. Inputs u count cells in units of 2^-30. Directions have a scale by column, curves by
column and component, cubics by table; output weights have 32 bits. `error_bound` states how far the answers f can be
from those of the formula in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from rflaf.errors import Array, InvalidParameterError

from .c_arrays import array_lines
from .formula import Formula

_LARGEST = 32767
_UNIT = 2**30  # of u
_NEARER = 16  # share of a column's range at which its outer nodes stand
_FARTHEST = 512  # such shares beyond the range, at which its line ends


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """Whole numbers of a formula, and the scales that turn them back.

    These are by column for directions, (L,), by column and component for curves, (C, S), by table and by output.
    """

    W: Array
    H: Array
    bias: Array
    table: Array
    weights: Array
    direction_scale: Array
    curve_scale: Array
    of_table: Array
    of_output: Array


def fixed_point(formula: Formula) -> FixedPoint:
    """Return a formula in double precision as whole numbers."""
    assert formula.head is not None
    of_W = _scale(np.abs(formula.W).max(axis=1, initial=0.0), _LARGEST)
    starts = formula.start
    largest = [np.abs(formula.H[i:j]).max(axis=0) for i, j in pairwise(starts)]
    of_H = _scale(np.array(largest).reshape(-1, formula.n_components), _LARGEST)
    of_table = _scale(np.abs(formula.table).max(axis=(1, 2)), _LARGEST)
    parts = formula.head.weights * of_table.repeat(formula.n_components // of_table.size)[:, None] / 256
    of_output = _scale(np.abs(parts).max(axis=0), 2**27)
    return FixedPoint(
        np.rint(formula.W / of_W[:, None]).astype(np.int64),
        np.rint(formula.H / np.repeat(of_H, np.diff(starts), axis=0)).astype(np.int64),
        np.rint(formula.bias * _UNIT).astype(np.int64),
        np.rint(formula.table / of_table[:, None, None]).astype(np.int64),
        np.rint(parts / of_output).astype(np.int64),
        of_W,
        of_H,
        of_table,
        of_output,
    )


def error_bound(formula: Formula) -> Array:
    """Return the largest difference of every output f from the formula, (n_outputs,).

    It holds for rows whose linear columns move no input by more than the width of the table, and whose curved columns
    are not beyond 32 times their range.
    """
    formula = _with_near_ends(formula)
    fixed = fixed_point(formula)
    assert formula.head is not None
    input_error = np.full(formula.n_components, formula.linear.size * formula.n_cells / (2 * _LARGEST) * 1.01 + 1e-6)
    for scale, (i, j) in zip(fixed.curve_scale, pairwise(formula.start), strict=True):
        rise = np.abs(np.diff(formula.H[i:j], axis=0)).max(axis=0)
        input_error += scale / 2 + rise * 2.0**-15
    size = np.abs(formula.table)
    slope = (size[..., 1] + size[..., 2] + 0.75 * size[..., 3]).max(axis=1)
    of_component = fixed.of_table * (1.0 + 4 / 256) + slope * input_error
    return np.asarray(np.abs(formula.head.weights).T @ np.broadcast_to(of_component, formula.n_components)) * 1.01


def fixed_body(formula: Formula) -> list[str]:
    """Return the statements from ``x`` to ``f``."""
    formula = _with_near_ends(formula)
    return [*_arrays(formula), "", *_inputs(formula), "", *_sums(formula)]


def _with_near_ends(formula: Formula) -> Formula:
    """Return the same formula with the outer nodes of a column near the next: far ones would take most of 16 bits."""
    nodes, H, gaps = formula.nodes.copy(), formula.H.copy(), formula.gaps.copy()
    for i, j in pairwise(formula.start):
        for outer, inner, gap in ((i, i + 1, i), (j - 1, j - 2, j - 2)):
            nodes[outer] = nodes[inner] + (nodes[outer] - nodes[inner]) / _NEARER
            H[outer] = H[inner] + (H[outer] - H[inner]) / _NEARER
            gaps[gap] *= _NEARER
    return replace(formula, nodes=nodes, H=H, gaps=gaps)


def _arrays(formula: Formula) -> list[str]:
    fixed = fixed_point(formula)
    assert formula.head is not None
    lines = array_lines("int64_t", "bias", fixed.bias)
    if formula.linear.size:
        lines += array_lines("int", "linear", formula.linear)
        lines += array_lines("float", "centre", formula.centre[formula.linear])
        lines += array_lines("float", "of_W", fixed.direction_scale * _UNIT)
        lines += array_lines("int16_t", "W", fixed.W)
    if formula.columns.size:
        rounded = formula.nodes.astype(np.float32).astype(np.float64)
        rest, gaps = formula.nodes - rounded + formula.rest, formula.gaps * 2.0**15
        lines += array_lines("int", "column", formula.columns) + array_lines("int", "start", formula.start)
        lines += array_lines("float", "nodes", formula.nodes) + array_lines("float", "rest", rest)
        lines += array_lines("float", "gaps", np.minimum(gaps, np.finfo(np.float32).max))
        lines += array_lines("int32_t", "of_H", np.rint(fixed.curve_scale * _UNIT).astype(np.int64))
        lines += array_lines("int16_t", "H", fixed.H)
    lines += array_lines("int16_t", "table", fixed.table.reshape(-1, 4))
    lines += array_lines("int32_t", "weights", fixed.weights.T)
    lines += array_lines("float", "of_output", fixed.of_output)
    return lines + array_lines("float", "intercept", formula.head.intercept)


def _inputs(formula: Formula) -> list[str]:
    S = formula.n_components
    lines = [f"int64_t u[{S}];", "int m;", "", f"for (m = 0; m < {S}; m++)", "    u[m] = bias[m];"]
    if formula.linear.size:
        lines += [
            f"for (int c = 0; c < {formula.linear.size}; c++) {{",
            "    float scaled = (x[linear[c]] - centre[c]) * of_W[c];",
            "    scaled = scaled > -1e11f ? (scaled < 1e11f ? scaled : 1e11f) : -1e11f;",
            "    const int64_t value = (int64_t)(scaled + (scaled < 0.0f ? -0.5f : 0.5f));",
            f"    for (m = 0; m < {S}; m++)",
            "        u[m] += value * W[c][m];",
            "}",
        ]
    if formula.columns.size:
        largest = float(fixed_point(formula).curve_scale.max() * _UNIT)
        if largest > 2**30:
            rule = "inputs must move by at most 32,767 cells of the activation for fixed point"
            raise InvalidParameterError(rule, f"{largest / 2**15:.3g}", "Use dtype='float32'.")
        far = 2.0**15 * max(1.0, min(_FARTHEST, 2.0**31 // largest))  # products stay below 2^63
        lines += [
            f"for (int c = 0; c < {formula.columns.size}; c++) {{",
            "    const float value = x[column[c]];",
            "    const int first = start[c], last = start[c + 1] - 2;",
            "    int k = first;",
            "    for (int n = last - first + 1, half; n > 1; n -= half) { /* the last node at or below the value */",
            "        half = n / 2;",
            "        k += half * (value - nodes[k + half] >= rest[k + half]);",
            "    }",
            f"    const float low = k == first ? -{far!r}f : 0.0f, high = k == last ? {far!r}f : 32768.0f;",
            "    float along = (value - nodes[k] - rest[k]) * gaps[k];",
            "    along = along > low ? (along < high ? along : high) : low;",
            "    const int32_t share = (int32_t)(along + (along < 0.0f ? -0.5f : 0.5f));",
            f"    for (m = 0; m < {S}; m++) {{",
            "        const int64_t h = (int64_t)H[k][m] * 32768 + (int64_t)share * (H[k + 1][m] - H[k][m]);",
            "        u[m] += h * of_H[c][m] / 32768;",
            "    }",
            "}",
        ]
    elif not formula.linear.size:
        lines.append("(void)x;")
    return lines


def _sums(formula: Formula) -> list[str]:
    n_tables, n_cells, _ = formula.table.shape
    assert formula.head is not None
    n_outputs, own = formula.head.intercept.size, f"m * {n_cells} + " if n_tables > 1 else ""
    half, low = _UNIT // 2, -(2 * formula.middle + 1) * (_UNIT // 2)
    high = (2 * (n_cells - formula.middle) - 1) * half
    return [
        f"int64_t sum[{n_outputs}] = {{0}};",
        f"float f[{n_outputs}];",
        "int o;",
        f"for (m = 0; m < {formula.n_components}; m++) {{",
        f"    const int64_t low = INT64_C({low}), high = INT64_C({high});",
        "    const int64_t v = u[m] > low ? (u[m] < high ? u[m] : high) : low;",
        f"    const int near = (int)((v - low) / {_UNIT}), k = near < {n_cells} ? near : {n_cells - 1};",
        f"    const int64_t t = (v - (int64_t)(k - {formula.middle}) * {_UNIT}) / 32768;",
        f"    const int16_t *c = table[{own}k];",
        "    int64_t z = (int64_t)c[3] * 256;",
        "    for (int j = 2; j >= 0; j--)",
        "        z = (int64_t)c[j] * 256 + z * t / 32768;",
        f"    for (o = 0; o < {n_outputs}; o++)",
        "        sum[o] += z * weights[o][m];",
        "}",
        f"for (o = 0; o < {n_outputs}; o++)",
        "    f[o] = intercept[o] + (float)sum[o] * of_output[o];",
    ]


def _scale(largest: Array, top: int) -> Array:
    return np.where(largest > 0, largest, 1.0) / top
