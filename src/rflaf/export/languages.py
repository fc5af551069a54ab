"""A formula as a function of one row in JavaScript, Java, Go or Rust, in double precision and without dependencies.

`lower` turns a formula into the statements of one function, in the words of a `Dialect`: a handful of templates, which
are all that the languages differ in. Arrays are flat and constant. There is no state: the function may be called from
any number of threads. A row that is not finite gives some number, since every index comes from clipped values.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from textwrap import indent

import numpy as np

from rflaf.errors import Array
from rflaf.functions._kernels.shapes import FARTHEST
from rflaf.functions.losses import HIGHEST_LOGARITHM

from .dialect import Dialect, block, filled, listed, loop, printable
from .formula import Formula, Head, Link
from .language_rows import ROW_DIALECTS, write_rows
from .table_form import TableForm

_BASE64_CHUNK = 60_000  # characters; a constant of a Java class has at most 65,535 bytes


def write_program(formula: Formula, language: str, name: str, columns: list[str], form: TableForm | None = None) -> str:
    """Return the text of a program; ``columns`` describe the columns of a row, ``form`` the table they come from."""
    dialect = DIALECTS[language]
    arrays = "\n".join(dialect.array(label, values) for label, values in _arrays(formula).items())
    note = "\n".join(dialect.comment.format(line) for line in _notes(formula, columns))
    n_out = formula.n_answers + (formula.head is not None and formula.head.classes is not None)
    words = {"name": name, "n_features": formula.n_features, "n_out": n_out, "notes": note, "arrays": arrays}
    body = indent("\n".join(lower(formula, dialect)), "    ")
    rows = "" if form is None else write_rows(form, dialect, ROW_DIALECTS[language])
    return filled(dialect.page, {**words, "rows": rows, "more": " predictRow," if rows else "", "body": body})


def lower(formula: Formula, d: Dialect) -> Iterator[str]:
    """Yield the statements from ``x`` to ``out``, both arrays of numbers."""
    S = formula.n_components
    yield d.buffer.format("u", S)
    yield from loop(d, "m", S, ["u[m] = BIAS[m];"])
    if formula.linear.size:
        inner = loop(d, "m", S, [f"u[m] += value * W[c * {S} + m];"])
        yield from loop(d, "c", formula.linear.size, [d.real.format("value", "x[LINEAR[c]] - CENTRE[c]"), *inner])
    if formula.columns.size:
        yield from loop(d, "c", formula.columns.size, list(_curve(formula, d)))
    n_outputs = 0 if formula.head is None else formula.head.intercept.size
    if formula.head is not None:
        yield d.buffer.format("f", n_outputs)
        yield from loop(d, "o", n_outputs, ["f[o] = INTERCEPT[o];"])
    yield from loop(d, "m", S, list(_cubic(formula, d, n_outputs)))
    if formula.head is not None:
        yield from _answers(formula.head, d)


def _curve(formula: Formula, d: Dialect) -> Iterator[str]:
    """Yield the part of one curved column, found by halving its nodes."""
    S = formula.n_components
    yield d.real.format("value", "x[COLUMN[c]]")
    yield d.whole.format("first", "START[c]")
    yield d.whole.format("last", "START[c + 1] - 2")
    yield d.whole.format("k", "first")
    yield d.whole.format("top", "last")
    halve = [
        d.whole.format("middle", "k + " + d.to_whole.format(d.to_real.format("(top - k + 1)") + " / 2.0")),
        d.test.format("value - NODES[middle] >= REST[middle]") + " {",
        "    k = middle;",
        "} else {",
        "    top = middle - 1;",
        "}",
    ]
    yield from block(d.repeat.format("k < top"), halve)
    yield d.real.format("share", "(value - NODES[k] - REST[k]) * GAPS[k]")
    yield d.real.format("low", "0.0")
    yield d.real.format("high", "1.0")
    yield from block(d.test.format("k == first"), [f"low = -{FARTHEST!r};"])
    yield from block(d.test.format("k == last"), [f"high = {FARTHEST!r};"])
    yield from _clipped(d, "share", "low", "high")
    yield from loop(d, "m", S, [f"u[m] += H[k * {S} + m] + share * (H[(k + 1) * {S} + m] - H[k * {S} + m]);"])


def _cubic(formula: Formula, d: Dialect, n_outputs: int) -> Iterator[str]:
    """Yield the feature of one component, and what it adds to the outputs."""
    n_tables, n_cells, _ = formula.table.shape
    own = f"m * {n_cells} + " if n_tables > 1 else ""
    yield d.real.format("v", f"u[m] + {formula.middle + 0.5!r}")
    yield from _clipped(d, "v", "0.0", repr(float(n_cells)))
    yield d.whole.format("k", d.to_whole.format("v"))
    yield from block(d.test.format(f"k > {n_cells - 1}"), [f"k = {n_cells - 1};"])
    yield d.real.format("t", f"v - 0.5 - {d.to_real.format('k')}")
    yield d.whole.format("c", f"4 * ({own}k)")
    yield d.real.format("z", "TABLE[c] + t * (TABLE[c + 1] + t * (TABLE[c + 2] + t * TABLE[c + 3]))")
    if n_outputs == 0:
        yield "out[m] = z * IMPORTANCE[m];"
    else:
        yield from loop(d, "o", n_outputs, [f"f[o] += z * WEIGHTS[m * {n_outputs} + o];"])


def _answers(head: Head, d: Dialect) -> Iterator[str]:
    """Yield the way from f to ``out``."""
    n = head.intercept.size
    if head.classes is not None and n == 1:
        sides = ("-f[0]", "f[0]")
        for at, side in enumerate(sides):
            odds = f"1.0 / (1.0 + {d.exp.format(sides[1 - at])})"
            yield f"out[{at}] = {odds if head.link is Link.SIGMOID else side};"
        yield from block(d.test.format("f[0] > 0.0"), ["out[2] = 1.0;"])
        return
    if head.classes is not None or head.link is Link.SOFTMAX:
        yield d.whole.format("best", "0")
        yield from loop(d, "o", n, block(d.test.format("f[o] > f[best]"), ["best = o;"]))
    if head.link is Link.SOFTMAX:
        yield d.real.format("total", "0.0")
        yield from loop(d, "o", n, [f"out[o] = {d.exp.format('f[o] - f[best]')};", "total += out[o];"])
        yield from loop(d, "o", n, ["out[o] /= total;"])
    else:
        highest = block(d.test.format(f"f[o] > {HIGHEST_LOGARITHM}"), [f"f[o] = {HIGHEST_LOGARITHM};"])
        answer = {
            Link.EXP: [*highest, f"out[o] = {d.exp.format('f[o]')};"],
            Link.SIGMOID: [f"out[o] = 1.0 / (1.0 + {d.exp.format('-f[o]')});"],
            Link.IDENTITY: ["out[o] = f[o];"],
            Link.SORTED: ["out[o] = f[o];"],
        }
        yield from loop(d, "o", n, answer[head.link])
    if head.link is Link.SORTED:
        swap = [d.real.format("higher", "out[q]"), "out[q] = out[q + 1];", "out[q + 1] = higher;"]
        exchange = block(d.test.format("out[q] > out[q + 1]"), swap)
        yield from loop(d, "o", n, loop(d, "q", n - 1, exchange))
    if head.classes is not None:
        yield f"out[{n}] = {d.to_real.format('best')};"


def _clipped(d: Dialect, name: str, low: str, high: str) -> Iterator[str]:
    """Yield a variable's way between two ends; what is no number becomes the lower one."""
    yield from [d.test.format(f"{name} < {high}") + " {", "} else {", f"    {name} = {high};", "}"]
    yield from [d.test.format(f"{name} > {low}") + " {", "} else {", f"    {name} = {low};", "}"]


def _arrays(formula: Formula) -> dict[str, Array]:
    arrays = {"BIAS": formula.bias, "TABLE": formula.table}
    if formula.linear.size:
        arrays |= {"LINEAR": formula.linear, "CENTRE": formula.centre[formula.linear], "W": formula.W}
    if formula.columns.size:
        arrays |= {"COLUMN": formula.columns, "START": formula.start, "NODES": formula.nodes, "REST": formula.rest}
        arrays |= {"GAPS": formula.gaps, "H": formula.H}
    if formula.head is None:
        return arrays | {"IMPORTANCE": formula.importance}
    return arrays | {"WEIGHTS": formula.head.weights, "INTERCEPT": formula.head.intercept}


def _notes(formula: Formula, columns: list[str]) -> Iterator[str]:
    yield "A random feature model with learned activations, written by rflaf; stateless."
    yield f"x: {formula.n_features} finite numbers" + (":" if columns else "")
    for at, column in enumerate(columns):
        yield f"  {at}: {printable(column)}"
    head = formula.head
    if head is None or head.classes is None:
        yield f"returns {formula.n_answers} numbers: the {'features' if head is None else 'prediction'}"
        return
    what = "score" if head.link is Link.IDENTITY else "probability"
    labels = ", ".join(printable(label) for label in head.classes)
    yield f"returns the {what} of each of {labels}; last the number of the label, from 0"


def _javascript(name: str, values: Array) -> str:
    kind = "Int32Array" if values.dtype.kind in "iu" else "Float64Array"
    return f"const {name} = new {kind}([\n{listed(values)}\n]);"


def _java(name: str, values: Array) -> str:
    """Numbers as base64: the initialiser of an array has at most 64 KB of code."""
    if values.dtype.kind in "iu":
        return f"    private static final int[] {name} = {{\n{listed(values)}\n    }};"
    text = base64.b64encode(np.ascontiguousarray(values, "<f8").tobytes()).decode()
    parts = [text[at : at + _BASE64_CHUNK] for at in range(0, len(text), _BASE64_CHUNK)]
    chunks = ",\n".join(f'        "{part}"' for part in parts)
    return f"    private static final double[] {name} = numbers(\n{chunks});"


def _go(name: str, values: Array) -> str:
    kind = "int" if values.dtype.kind in "iu" else "float64"
    return f"var {name} = [...]{kind}{{\n{listed(values)},\n}}"


def _rust(name: str, values: Array) -> str:
    kind = "usize" if values.dtype.kind in "iu" else "f64"
    return f"static {name}: [{kind}; {values.size}] = [\n{listed(values)},\n];"


DIALECTS = {
    "js": Dialect(
        _javascript,
        '<<notes>>\n"use strict";\nconst <<name>> = (function () {\n<<arrays>>\nfunction predict(x) {\n'
        "    const out = new Float64Array(<<n_out>>);\n<<body>>\n    return out;\n}\n<<rows>>"
        "return { predict,<<more>> nFeatures: <<n_features>>, nOut: <<n_out>> };\n})();\n"
        'if (typeof module !== "undefined") module.exports = <<name>>;\n',
        "let {0} = {1};", "let {0} = {1};", "const {0} = new Float64Array({1});",
        "for (let {0} = 0; {0} < {1}; {0}++)", "if ({0})", "while ({0})", "Math.floor({0})", "{0}", "Math.exp({0})",
    ),
    "java": Dialect(
        _java,
        "<<notes>>\npublic final class <<name>> {\n    private <<name>>() {\n    }\n\n"
        "    public static final int N_FEATURES = <<n_features>>;\n    public static final int N_OUT = <<n_out>>;\n"
        "<<arrays>>\n\n"
        "    private static double[] numbers(String... parts) {\n"
        "        java.nio.ByteBuffer bytes = java.nio.ByteBuffer.wrap(\n"
        '                java.util.Base64.getDecoder().decode(String.join("", parts)));\n'
        "        double[] numbers = new double[bytes.capacity() / 8];\n"
        "        bytes.order(java.nio.ByteOrder.LITTLE_ENDIAN).asDoubleBuffer().get(numbers);\n"
        "        return numbers;\n    }\n\n"
        "    public static double[] predict(double[] x) {\n    double[] out = new double[N_OUT];\n<<body>>\n"
        "    return out;\n    }\n\n<<rows>>}\n",
        "double {0} = {1};", "int {0} = {1};", "double[] {0} = new double[{1}];",
        "for (int {0} = 0; {0} < {1}; {0}++)", "if ({0})", "while ({0})", "(int) ({0})", "(double) {0}",
        "Math.exp({0})",
    ),
    "go": Dialect(
        _go,
        '<<notes>>\npackage <<name>>\n\nimport (\n    "math"\n    "strings"\n)\n\n'
        "const NFeatures = <<n_features>>\nconst NOut = <<n_out>>\n\n"
        "<<arrays>>\n\nvar exp = math.Exp\nvar trim = strings.TrimSpace\n\n"
        "func Predict(x []float64) []float64 {\n    out := make([]float64, NOut)\n<<body>>\n    return out\n}\n\n"
        "<<rows>>",
        "var {0} float64 = {1}", "var {0} int = {1}", "{0} := make([]float64, {1})",
        "for {0} := 0; {0} < {1}; {0}++", "if {0}", "for {0}", "int({0})", "float64({0})", "exp({0})",
    ),
    "rust": Dialect(
        _rust,
        "<<notes>>\n#[allow(unused_mut, unused_assignments, clippy::all)]\npub mod <<name>> {\n"
        "pub const N_FEATURES: usize = <<n_features>>;\npub const N_OUT: usize = <<n_out>>;\n<<arrays>>\n\n"
        "pub fn predict(x: &[f64]) -> [f64; N_OUT] {\n    let mut out = [0.0f64; N_OUT];\n<<body>>\n    out\n}\n\n"
        "<<rows>>}\n",
        "let mut {0}: f64 = {1};", "let mut {0}: usize = {1};", "let mut {0} = [0.0f64; {1}];",
        "for {0} in 0..{1}", "if {0}", "while {0}", "(({0}) as usize)", "({0} as f64)", "({0}).exp()",
    ),
}  # fmt: skip
