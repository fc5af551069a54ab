"""A formula as one SELECT statement in the common dialect of SQL, tested on SQLite and DuckDB.

Innermost the inputs of the components are computed from the columns of a table, around them the features, then the
outputs and the link. Every choice is a CASE, so of functions only EXP is used, and that only by a link that needs it.
SQLite writes the columns of an inner statement out wherever the outer one reads them, which takes all memory here; an
offset, of no rows, keeps it from that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions._kernels.shapes import FARTHEST
from rflaf.functions.losses import HIGHEST_LOGARITHM

from .formula import Formula, Head, Link
from .sql_rows import clipped, encoded_columns, number, quoted_name, text_literal
from .table_form import TableForm

_APART = "LIMIT 9223372036854775807 OFFSET 0"  # an inner statement is computed first, once a row


def write_select(formula: Formula, table: str, columns: Sequence[str], form: TableForm | None = None) -> str:
    """Return the statement: the columns of ``table``, and the answers of every row as further columns.

    With ``form`` the columns are those of the table that the model was fitted to.
    """
    if formula.head is None:
        remedy = "Export it to C or ONNX, or fit a regressor."
        raise InvalidParameterError("only regressors and classifiers are written as SQL", "features", remedy)
    quoted, source = [quoted_name(column) for column in columns], quoted_name(table)
    kept = ", ".join(quoted)
    if form is not None:
        kept = ", ".join(quoted_name(field.name) for field in form.fields)
        encoded = ",\n".join(f"{text} AS rflaf_x{at}" for at, text in enumerate(encoded_columns(form)))
        quoted = [f"rflaf_x{at}" for at in range(form.n_encoded)]
        source = f"(SELECT {kept},\n{encoded}\nFROM {source} {_APART}) AS rflaf_table"
    codes = {} if form is None else form.codes
    places = ",\n".join(_places(formula, quoted, codes))
    rows = f"(SELECT *{',' if places else ''}\n{places}\nFROM {source} {_APART}) AS rflaf_rows"
    inputs = ",\n".join(f"{_input(formula, m, quoted, codes)} AS rflaf_u{m}" for m in range(formula.n_components))
    outputs = ",\n".join(f"{_output(formula, o)} AS rflaf_f{o}" for o in range(formula.head.intercept.size))
    answers = ",\n".join(f"{text} AS {quoted_name(name)}" for name, text in _answers(formula.head))
    inner = f"(SELECT {kept},\n{inputs}\nFROM {rows} {_APART}) AS rflaf_inputs"
    outer = f"(SELECT {kept},\n{outputs}\nFROM {inner} {_APART}) AS rflaf_outputs"
    return f"SELECT {kept},\n{answers}\nFROM {outer}\n"


def _places(formula: Formula, columns: Sequence[str], codes: Collection[int]) -> Iterator[str]:
    """Yield the cell of every curved column but those of codes, and how far along it a row is."""
    for c, column in enumerate(formula.columns):
        if column in codes:
            continue
        x = columns[column]
        first, last = int(formula.start[c]), int(formula.start[c + 1]) - 2
        cells = [f"WHEN {x} >= {number(formula.nodes[k] + formula.rest[k])} THEN {k}" for k in range(last, first, -1)]
        yield f"CASE {' '.join(cells)} ELSE {first} END AS rflaf_k{c}" if cells else f"{first} AS rflaf_k{c}"
        shares = []
        for k in range(first, last + 1):
            low, high = (-FARTHEST if k == first else 0.0), (FARTHEST if k == last else 1.0)
            share = f"({x} - {number(formula.nodes[k] + formula.rest[k])}) * {number(formula.gaps[k])}"
            shares.append((k, clipped(share, low, high)))
        parts = [
            f"WHEN {x} >= {number(formula.nodes[k] + formula.rest[k])} THEN {share}"
            for k, share in reversed(shares)
            if k > first
        ]
        yield (
            f"CASE {' '.join(parts)} ELSE {shares[0][1]} END AS rflaf_t{c}"
            if parts
            else f"{shares[0][1]} AS rflaf_t{c}"
        )


def _input(formula: Formula, m: int, columns: Sequence[str], codes: Mapping[int, Array]) -> str:
    terms = [number(formula.bias[m])]
    for c, column in enumerate(formula.linear):
        terms.append(f"{number(formula.W[c, m])} * ({columns[column]} - {number(formula.centre[column])})")
    for c, column in enumerate(formula.columns):
        first, last = int(formula.start[c]), int(formula.start[c + 1]) - 2
        if column in codes:  # one comparison each: a database may write the column out wherever it is read
            own = slice(first, last + 2)
            values = np.interp(codes[column], formula.nodes[own] + formula.rest[own], formula.H[own, m])
            pairs = zip(codes[column], values, strict=True)
            cases = " ".join(f"WHEN {number(code)} THEN {number(value)}" for code, value in pairs)
            terms.append(f"CASE {columns[column]} {cases} END")
            continue
        cases = " ".join(
            f"WHEN {k} THEN {number(formula.H[k, m])} + rflaf_t{c} * {number(formula.H[k + 1, m] - formula.H[k, m])}"
            for k in range(first, last + 1)
        )
        terms.append(f"CASE rflaf_k{c} {cases} END")
    return "(" + " + ".join(terms) + ")"


def _output(formula: Formula, o: int) -> str:
    assert formula.head is not None
    terms = [number(formula.head.intercept[o])]
    n_tables, n_cells, _ = formula.table.shape
    for m in range(formula.n_components):
        table, u = formula.table[m % n_tables], f"rflaf_u{m}"
        cases = [f"WHEN {u} < {number(k + 0.5 - formula.middle)} THEN {_cubic(table[k], u, k - formula.middle)}"
                 for k in range(n_cells)]  # fmt: skip
        ends = [_at(table[0], -0.5), _at(table[-1], 0.5)]
        below = f"WHEN {u} < {number(-0.5 - formula.middle)} THEN {number(ends[0])}"
        weight = number(formula.head.weights[m, o])
        terms.append(f"{weight} * CASE {below} {' '.join(cases)} ELSE {number(ends[1])} END")
    return "(" + " + ".join(terms) + ")"


def _cubic(c: Sequence[float], u: str, middle: int) -> str:
    t = f"({u} - {number(middle)})"
    return f"{number(c[0])} + {t} * ({number(c[1])} + {t} * ({number(c[2])} + {t} * {number(c[3])}))"


def _at(c: Sequence[float], t: float) -> float:
    return float(c[0] + t * (c[1] + t * (c[2] + t * c[3])))


def _answers(head: Head) -> Iterator[tuple[str, str]]:
    f = [f"rflaf_f{o}" for o in range(head.intercept.size)]
    if head.classes is None:
        for o, value in enumerate(_in_order(f) if head.link is Link.SORTED else f):
            yield "prediction" if len(f) == 1 else f"prediction_{o}", _linked(value, head.link)
        return
    labels = [str(label) for label in head.classes]
    if len(f) == 1:
        sides = [f"(-{f[0]})", f[0]]
        for label, side in zip(labels, sides, strict=True):
            yield f"p({label})", _linked(side, head.link)
        yield "label", f"CASE WHEN {f[0]} > 0 THEN {text_literal(labels[1])} ELSE {text_literal(labels[0])} END"
        return
    best = (
        "CASE "
        + " ".join(f"WHEN {' AND '.join(f'{own} >= {other}' for other in f if other != own)} THEN {own}" for own in f)
        + " END"
    )
    total = " + ".join(f"EXP({value} - {best})" for value in f)
    for label, value in zip(labels, f, strict=True):
        yield f"p({label})", f"EXP({value} - {best}) / ({total})" if head.link is Link.SOFTMAX else value
    cases = " ".join(
        f"WHEN {' AND '.join(f'{own} >= {other}' for other in f if other != own)} THEN {text_literal(label)}"
        for own, label in zip(f, labels, strict=True)
    )
    yield "label", f"CASE {cases} END"


def _in_order(f: list[str]) -> list[str]:
    """Return the values in rising order: each is the one that as many others precede as its place says."""

    def before(own: int) -> str:
        signs = ((other, "<=" if other < own else "<") for other in range(len(f)) if other != own)
        return " + ".join(f"CASE WHEN {f[other]} {sign} {f[own]} THEN 1 ELSE 0 END" for other, sign in signs) or "0"

    cases = [(before(own), value) for own, value in enumerate(f)]
    return [
        f"CASE {' '.join(f'WHEN {count} = {place} THEN {value}' for count, value in cases)} END"
        for place in range(len(f))
    ]


def _linked(f: str, link: Link) -> str:
    if link is Link.EXP:
        return f"EXP(CASE WHEN {f} < {HIGHEST_LOGARITHM} THEN {f} ELSE {HIGHEST_LOGARITHM} END)"
    return f"1.0 / (1.0 + EXP(-({f})))" if link is Link.SIGMOID else f
