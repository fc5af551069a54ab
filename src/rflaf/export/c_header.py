"""A formula as one C99 header: static constant arrays and a function of one row.

No heap, no recursion, no global state, and of the standard library only ``exp``, if the link needs it. A row that is
not finite gives some number: every index is computed from clipped values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions._kernels.shapes import FARTHEST
from rflaf.functions.losses import HIGHEST_LOGARITHM

from .formula import Formula, Head, Link

_LANES = 8  # sums side by side, which fill a vector
_LONGEST_NAME = 40  # C99 guarantees 63 significant characters, and names get suffixes


def write_header(formula: Formula, name: str, feature_names: Sequence[str] | None = None) -> str:
    """Return the text of the header, ASCII; every name in it begins with ``name``."""
    check_name(name)
    real = "float" if formula.dtype == np.float32 else "double"
    upper = name.upper()
    lines = [
        *_comment(formula, name, real, feature_names),
        f"#ifndef {upper}_H",
        f"#define {upper}_H",
        "",
        *(["#include <math.h>", ""] if _needs_exp(formula.head) else []),
        f"#define {upper}_N_FEATURES {formula.n_features}",
        f"#define {upper}_N_OUT {_n_out(formula)}",
        "",
        f"static inline void {name}_predict(const {real} *x, {real} *out)",
        "{",
        *("    " + line if line else "" for line in _body(formula, real)),
        "}",
        "",
        f"static inline void {name}_predict_rows(long n_rows, const {real} *x, {real} *out)",
        "{",
        "    for (long i = 0; i < n_rows; i++)",
        f"        {name}_predict(x + i * {upper}_N_FEATURES, out + i * {upper}_N_OUT);",
        "}",
        "",
        f"#endif /* {upper}_H */",
        "",
    ]
    return "\n".join(lines)


def check_name(name: str) -> None:
    """Refuse a prefix that is no C identifier."""
    fine = isinstance(name, str) and re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name, re.ASCII)
    if not fine or len(name) > _LONGEST_NAME:
        rule = f"name must be a C identifier of at most {_LONGEST_NAME} letters, digits and underscores"
        raise InvalidParameterError(rule, name, "Use name='rflaf'.")


def _needs_exp(head: Head | None) -> bool:
    return head is not None and head.link is not Link.IDENTITY


def _n_out(formula: Formula) -> int:
    """Return how many numbers the function writes; a classifier adds the index of the label."""
    return formula.n_answers + (formula.head is not None and formula.head.classes is not None)


def _comment(formula: Formula, name: str, real: str, feature_names: Sequence[str] | None) -> list[str]:
    names: Sequence[str] = () if feature_names is None else feature_names
    exp = "Calls exp of math.h (link with -lm)." if _needs_exp(formula.head) else "Calls nothing."
    return [
        f"/* {name}: a random feature model with learned activations, written by rflaf as C99.",
        " *",
        f" * void {name}_predict(const {real} *x, {real} *out)",
        f" *     x    {formula.n_features} columns, finite",
        *(f" *          {i}: {_printable(column)}" for i, column in enumerate(names)),
        f" *     out  {_n_out(formula)} numbers",
        *(f" *          {line}" for line in _meaning(formula)),
        f" * void {name}_predict_rows(long n_rows, const {real} *x, {real} *out)",
        " *     the same for rows that follow each other",
        " *",
        f" * No heap, no state. {exp}",
        " */",
    ]


def _meaning(formula: Formula) -> list[str]:
    head = formula.head
    if head is None:
        return [f"0 to {formula.n_answers - 1}: the features"]
    if head.classes is None:
        return [f"0 to {formula.n_answers - 1}: the prediction"]
    what = "score" if head.link is Link.IDENTITY else "probability"
    of_classes = [f"{i}: {what} of {_printable(label)}" for i, label in enumerate(head.classes)]
    return [*of_classes, f"{head.classes.size}: the label, as one of the numbers above"]


def _printable(value: object) -> str:
    """Return text that can neither end nor begin a comment."""
    return re.sub(r"[^A-Za-z0-9 _.,:;+()<>=%#$&@!-]", lambda found: f"\\x{ord(found[0]):02x}", str(value))


def _body(formula: Formula, real: str) -> list[str]:
    return [
        *_arrays(formula, real),
        "",
        *_inputs(formula, real),
        "",
        *_features(formula, real),
        *([] if formula.head is None else ["", *_answers(formula.head, real)]),
    ]


def _arrays(formula: Formula, real: str) -> list[str]:
    """Return the arrays in use; the weights of an output are contiguous."""
    lines = []
    if formula.linear.size:
        lines += _array("int", "linear", formula.linear)
        lines += _array(real, "centre", formula.centre[formula.linear])
        lines += _array(real, "W", formula.W)
    if formula.columns.size:
        lines += _array("int", "column", formula.columns)
        lines += _array("int", "start", formula.start)
        for name in ("nodes", "rest", "gaps", "H"):
            lines += _array(real, name, getattr(formula, name))
    lines += _array(real, "bias", formula.bias)
    lines += _array(real, "table", formula.table.reshape(-1, 4))
    if formula.head is None:
        return lines + _array(real, "importance", formula.importance)
    return lines + _array(real, "weights", formula.head.weights.T) + _array(real, "intercept", formula.head.intercept)


def _inputs(formula: Formula, real: str) -> list[str]:
    """Return the code of u, the inputs of the components."""
    S = formula.n_components
    lines = [f"{real} u[{S}];", "int m;", "", f"for (m = 0; m < {S}; m++)", "    u[m] = bias[m];"]
    if formula.linear.size:
        lines += [
            f"for (int c = 0; c < {formula.linear.size}; c++) {{",
            f"    const {real} value = x[linear[c]] - centre[c];",
            f"    for (m = 0; m < {S}; m++)",
            "        u[m] += value * W[c][m];",
            "}",
        ]
    if formula.columns.size:
        far, zero, one = (_number(value, real) for value in (FARTHEST, 0, 1))
        lines += [
            f"for (int c = 0; c < {formula.columns.size}; c++) {{",
            f"    const {real} value = x[column[c]];",
            "    const int first = start[c], last = start[c + 1] - 2;",
            "    int k = first;",
            "    for (int n = last - first + 1, half; n > 1; n -= half) { /* the last node at or below the value */",
            "        half = n / 2;",
            "        k += half * (value - nodes[k + half] >= rest[k + half]);",
            "    }",
            f"    const {real} low = k == first ? -{far} : {zero}, high = k == last ? {far} : {one};",
            f"    {real} share = (value - nodes[k] - rest[k]) * gaps[k];",
            "    share = share > low ? (share < high ? share : high) : low;",
            f"    for (m = 0; m < {S}; m++)",
            "        u[m] += H[k][m] + share * (H[k + 1][m] - H[k][m]);",
            "}",
        ]
    elif not formula.linear.size:
        lines.append("(void)x;")
    return lines


def _features(formula: Formula, real: str) -> list[str]:
    """Return the code of the cubics and their sums, in short loops that compilers turn into vectors."""
    n_tables, n_cells, _ = formula.table.shape
    S, own = formula.n_components, f"m * {n_cells} + " if n_tables > 1 else ""
    low, high = _number(-formula.middle - 0.5, real), _number(n_cells - formula.middle - 0.5, real)
    each = f"for (m = 0; m < {S}; m++)"
    lines = [
        f"int cell[{S}];",
        f"{each} {{",
        f"    const {real} a = u[m], b = a < {high} ? a : {high};",
        f"    u[m] = b > {low} ? b : {low};",
        "}",
        f"{each} {{",
        f"    const int near = (int)(u[m] + {_number(formula.middle + 0.5, real)});",
        f"    const int k = near < {n_cells} ? near : {n_cells - 1};",
        f"    u[m] -= ({real})(k - {formula.middle});",
        f"    cell[m] = {own}k;",
        "}",
        f"{each} {{",
        f"    const {real} *c = table[cell[m]];",
        "    u[m] = c[0] + u[m] * (c[1] + u[m] * (c[2] + u[m] * c[3]));",
        "}",
    ]
    if formula.head is None:
        return [*lines, each, "    out[m] = u[m] * importance[m];"]
    n_outputs, whole = formula.head.intercept.size, S - S % _LANES
    rest = [
        f"    for (m = {whole}; m < {S}; m++)",
        "        sum += (double)u[m] * (double)weights[o][m];",
    ]
    return [
        *lines,
        f"{real} f[{n_outputs}];",
        "int o;",
        f"for (o = 0; o < {n_outputs}; o++) {{",
        f"    double sum = (double)intercept[o], part[{_LANES}] = {{0}}; /* parts may be far larger than the sum */",
        f"    for (m = 0; m < {whole}; m += {_LANES})",
        f"        for (int l = 0; l < {_LANES}; l++)",
        "            part[l] += (double)u[m + l] * (double)weights[o][m + l];",
        *(rest if S % _LANES else []),
        f"    for (int l = 0; l < {_LANES}; l++)",
        "        sum += part[l];",
        f"    f[o] = ({real})sum;",
        "}",
    ]


def _answers(head: Head, real: str) -> list[str]:
    """Return the code from f to ``out``."""
    n_outputs = head.intercept.size
    exp, one = "expf" if real == "float" else "exp", _number(1, real)
    each = f"for (o = 0; o < {n_outputs}; o++)"
    if head.classes is not None and n_outputs == 1:
        margin = [f"out[2] = f[0] > {_number(0, real)} ? {one} : {_number(0, real)};"]
        if head.link is Link.SIGMOID:
            return [f"out[0] = {one} / ({one} + {exp}(f[0]));", f"out[1] = {one} / ({one} + {exp}(-f[0]));", *margin]
        return ["out[0] = -f[0];", "out[1] = f[0];", *margin]
    lines = []
    if head.classes is not None or head.link is Link.SOFTMAX:
        lines += ["int best = 0;", f"for (o = 1; o < {n_outputs}; o++)", "    if (f[o] > f[best])", "        best = o;"]
    if head.link is Link.SOFTMAX:
        lines += [
            f"{real} total = {_number(0, real)};",
            each,
            f"    total += out[o] = {exp}(f[o] - f[best]);",
            each,
            "    out[o] /= total;",
        ]
    elif head.link is Link.EXP:
        highest = _number(HIGHEST_LOGARITHM, real)
        lines += [each, f"    out[o] = {exp}(f[o] < {highest} ? f[o] : {highest});"]
    elif head.link is Link.SIGMOID:
        lines += [each, f"    out[o] = {one} / ({one} + {exp}(-f[o]));"]
    else:
        lines += [each, "    out[o] = f[o];"]
    if head.classes is not None:
        lines.append(f"out[{n_outputs}] = ({real})best;")
    return lines


def _array(kind: str, name: str, values: Array) -> list[str]:
    """Return a static constant array of one or two dimensions, lines of at most 120 characters."""
    size = "".join(f"[{length}]" for length in values.shape)
    if values.ndim == 1:
        return [f"static const {kind} {name}{size} = {{", *_wrapped(values, kind), "};"]
    rows: list[str] = []
    for row in values:
        body = _wrapped(row, kind)
        body[0] = "    {" + body[0].lstrip()
        body[-1] = body[-1].rstrip(",") + "},"
        rows += body
    return [f"static const {kind} {name}{size} = {{", *rows, "};"]


def _wrapped(values: Array, kind: str, width: int = 104) -> list[str]:
    lines, line = [], "   "
    for value in values:
        text = f" {_number(value, kind)},"
        if len(line) + len(text) > width:
            lines.append(line)
            line = "   "
        line += text
    return [*lines, line]


def _number(value: Any, kind: str) -> str:
    """Return the shortest literal that reads back as the same number."""
    if kind == "int":
        return str(int(value))
    size = abs(float(value))
    number = np.float32(value) if kind == "float" else np.float64(value)
    text = np.format_float_scientific(number, trim="-") if size and not 1e-4 <= size < 1e6 else str(number)
    text = text if "." in text or "e" in text else f"{text}.0"
    return f"{text}f" if kind == "float" else text
