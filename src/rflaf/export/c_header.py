"""A formula as one C99 header: static constant arrays and a function of one row.

No heap, no recursion, no global state, and of the standard library only ``exp``, if the link needs it. A row that is
not finite gives some number: every index is computed from clipped values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from rflaf.errors import InvalidParameterError
from rflaf.functions._kernels.shapes import FARTHEST
from rflaf.functions.losses import HIGHEST_LOGARITHM

from .c_arrays import array_lines, literal, printable
from .c_fixed import error_bound, fixed_body
from .c_rows import row_comment, write_rows
from .formula import Formula, Head, Link
from .table_form import TableForm

_LANES = 8  # sums side by side, which fill a vector
_LONGEST_NAME = 40  # C99 guarantees 63 significant characters, and names get suffixes


def write_header(
    formula: Formula,
    name: str,
    feature_names: Sequence[str] | None = None,
    form: TableForm | None = None,
    fixed: bool = False,
) -> str:
    """Return the text of the header, ASCII; every name in it begins with ``name``. ``fixed`` is for fixed point."""
    if fixed and formula.head is None:
        remedy = "Use dtype='float32'."
        raise InvalidParameterError("only regressors and classifiers have fixed point", "features", remedy)
    check_name(name)
    real = "float" if fixed or formula.dtype == np.float32 else "double"
    upper = name.upper()
    lines = [
        *_comment(formula, name, real, feature_names, form),
        *(_fixed_comment(formula) if fixed else []),
        f"#ifndef {upper}_H",
        f"#define {upper}_H",
        "",
        *(["#include <stdint.h>", ""] if fixed else []),
        *(["#include <math.h>", ""] if _needs_exp(formula.head) else []),
        f"#define {upper}_N_FEATURES {formula.n_features}",
        f"#define {upper}_N_OUT {_n_out(formula)}",
        "",
        f"static inline void {name}_predict(const {real} *x, {real} *out)",
        "{",
        *("    " + line if line else "" for line in _body(formula, real, fixed)),
        "}",
        "",
        f"static inline void {name}_predict_rows(long n_rows, const {real} *x, {real} *out)",
        "{",
        "    for (long i = 0; i < n_rows; i++)",
        f"        {name}_predict(x + i * {upper}_N_FEATURES, out + i * {upper}_N_OUT);",
        "}",
        "",
        *([] if form is None else write_rows(form, name, real)),
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
    return head is not None and head.link not in (Link.IDENTITY, Link.SORTED)


def _n_out(formula: Formula) -> int:
    """Return how many numbers the function writes; a classifier adds the index of the label."""
    return formula.n_answers + (formula.head is not None and formula.head.classes is not None)


def _comment(
    formula: Formula, name: str, real: str, feature_names: Sequence[str] | None, form: TableForm | None
) -> list[str]:
    names: Sequence[str] = () if feature_names is None else feature_names
    exp = "Calls exp of math.h (link with -lm)." if _needs_exp(formula.head) else "Calls nothing."
    return [
        f"/* {name}: a random feature model with learned activations, written by rflaf as C99.",
        " *",
        f" * void {name}_predict(const {real} *x, {real} *out)",
        f" *     x    {formula.n_features} columns, finite",
        *(f" *          {i}: {printable(column)}" for i, column in enumerate(names)),
        f" *     out  {_n_out(formula)} numbers",
        *(f" *          {line}" for line in _meaning(formula)),
        f" * void {name}_predict_rows(long n_rows, const {real} *x, {real} *out)",
        " *     the same for rows that follow each other",
        *([] if form is None else row_comment(name, real)),
        " *",
        f" * No heap, no state. {exp}",
        " */",
    ]


def _fixed_comment(formula: Formula) -> list[str]:
    bounds = ", ".join(f"{bound:.2g}" for bound in error_bound(formula))
    return [
        "/* Fixed point: tables of 16 bits. Before the link the answers are at most these numbers from those in double",
        f" * precision, unless a column is far outside of those of the fit: {bounds} */",
    ]


def _meaning(formula: Formula) -> list[str]:
    head = formula.head
    if head is None:
        return [f"0 to {formula.n_answers - 1}: the features"]
    if head.classes is None:
        return [f"0 to {formula.n_answers - 1}: the prediction"]
    what = "score" if head.link is Link.IDENTITY else "probability"
    of_classes = [f"{i}: {what} of {printable(label)}" for i, label in enumerate(head.classes)]
    return [*of_classes, f"{head.classes.size}: the label, as one of the numbers above"]


def _body(formula: Formula, real: str, fixed: bool) -> list[str]:
    if fixed and formula.head is not None:
        return [*fixed_body(formula), "", *_answers(formula.head, real)]
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
        lines += array_lines("int", "linear", formula.linear)
        lines += array_lines(real, "centre", formula.centre[formula.linear])
        lines += array_lines(real, "W", formula.W)
    if formula.columns.size:
        lines += array_lines("int", "column", formula.columns)
        lines += array_lines("int", "start", formula.start)
        for name in ("nodes", "rest", "gaps", "H"):
            lines += array_lines(real, name, getattr(formula, name))
    lines += array_lines(real, "bias", formula.bias)
    lines += array_lines(real, "table", formula.table.reshape(-1, 4))
    if formula.head is None:
        return lines + array_lines(real, "importance", formula.importance)
    return (
        lines
        + array_lines(real, "weights", formula.head.weights.T)
        + array_lines(real, "intercept", formula.head.intercept)
    )


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
        far, zero, one = (literal(value, real) for value in (FARTHEST, 0, 1))
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
    low, high = literal(-formula.middle - 0.5, real), literal(n_cells - formula.middle - 0.5, real)
    each = f"for (m = 0; m < {S}; m++)"
    lines = [
        f"int cell[{S}];",
        f"{each} {{",
        f"    const {real} a = u[m], b = a < {high} ? a : {high};",
        f"    u[m] = b > {low} ? b : {low};",
        "}",
        f"{each} {{",
        f"    const int near = (int)(u[m] + {literal(formula.middle + 0.5, real)});",
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
    exp, one = "expf" if real == "float" else "exp", literal(1, real)
    each = f"for (o = 0; o < {n_outputs}; o++)"
    if head.classes is not None and n_outputs == 1:
        margin = [f"out[2] = f[0] > {literal(0, real)} ? {one} : {literal(0, real)};"]
        if head.link is Link.SIGMOID:
            return [f"out[0] = {one} / ({one} + {exp}(f[0]));", f"out[1] = {one} / ({one} + {exp}(-f[0]));", *margin]
        return ["out[0] = -f[0];", "out[1] = f[0];", *margin]
    lines = []
    if head.classes is not None or head.link is Link.SOFTMAX:
        lines += ["int best = 0;", f"for (o = 1; o < {n_outputs}; o++)", "    if (f[o] > f[best])", "        best = o;"]
    if head.link is Link.SOFTMAX:
        lines += [
            f"{real} total = {literal(0, real)};",
            each,
            f"    total += out[o] = {exp}(f[o] - f[best]);",
            each,
            "    out[o] /= total;",
        ]
    elif head.link is Link.EXP:
        highest = literal(HIGHEST_LOGARITHM, real)
        lines += [each, f"    out[o] = {exp}(f[o] < {highest} ? f[o] : {highest});"]
    elif head.link is Link.SIGMOID:
        lines += [each, f"    out[o] = {one} / ({one} + {exp}(-f[o]));"]
    else:
        lines += [each, "    out[o] = f[o];"]
    if head.link is Link.SORTED:
        lines += [
            "int q;",
            each,
            f"    for (q = 0; q + 1 < {n_outputs}; q++)",
            "        if (out[q] > out[q + 1]) {",
            f"            {real} higher = out[q];",
            "            out[q] = out[q + 1];",
            "            out[q + 1] = higher;",
            "        }",
        ]
    if head.classes is not None:
        lines.append(f"out[{n_outputs}] = ({real})best;")
    return lines
