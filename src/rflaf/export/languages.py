"""A formula as a function of one row in JavaScript, Java, Go or Rust, in double precision and without dependencies.

`lower` turns a formula into the statements of one function, in the words of a `Dialect`: a handful of templates, which
are all that the languages differ in. Arrays are flat and constant. There is no state: the function may be called from
any number of threads. A row that is not finite gives some number, since every index comes from clipped values.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from textwrap import indent

import numpy as np

from rflaf.errors import Array
from rflaf.functions._kernels.shapes import FARTHEST
from rflaf.functions.losses import HIGHEST_LOGARITHM

from .formula import Formula, Head, Link

_BASE64_CHUNK = 60_000  # characters; a constant of a Java class has at most 65,535 bytes


@dataclass(frozen=True, slots=True)
class Dialect:
    """Templates of a language.

    Attributes
    ----------
    array : lines of a constant array of a name, of numbers or of whole numbers
    page : the whole file out of name, comment, arrays, function body, and number of columns and answers
    real, whole : declaration of a variable ``{0}`` with the value ``{1}``
    buffer : declaration of ``{1}`` zeros
    loop : head of a loop of ``{0}`` from 0 to below ``{1}``
    test, repeat : heads of a condition and of a loop with one
    to_whole, to_real : conversions of a number at least zero, rounded down, and of a whole number
    exp : the exponential function
    comment : a line of comment
    """

    array: Callable[[str, Array], str]
    page: str
    real: str
    whole: str
    buffer: str
    loop: str
    test: str
    repeat: str
    to_whole: str
    to_real: str
    exp: str
    comment: str = "// {0}"


def write_program(formula: Formula, dialect: Dialect, name: str, columns: list[str]) -> str:
    """Return the text of a program; ``columns`` describe the columns of a row."""
    arrays = "\n".join(dialect.array(label, values) for label, values in _arrays(formula).items())
    note = "\n".join(dialect.comment.format(line) for line in _notes(formula, columns))
    n_out = formula.n_answers + (formula.head is not None and formula.head.classes is not None)
    words = {"name": name, "n_features": formula.n_features, "n_out": n_out, "notes": note, "arrays": arrays}
    body = indent("\n".join(lower(formula, dialect)), "    ")
    text = dialect.page
    for word, value in {**words, "body": body}.items():
        text = text.replace(f"<<{word}>>", str(value))
    return text


def lower(formula: Formula, d: Dialect) -> Iterator[str]:
    """Yield the statements from ``x`` to ``out``, both arrays of numbers."""
    S = formula.n_components
    yield d.buffer.format("u", S)
    yield from _loop(d, "m", S, ["u[m] = BIAS[m];"])
    if formula.linear.size:
        inner = _loop(d, "m", S, [f"u[m] += value * W[c * {S} + m];"])
        yield from _loop(d, "c", formula.linear.size, [d.real.format("value", "x[LINEAR[c]] - CENTRE[c]"), *inner])
    if formula.columns.size:
        yield from _loop(d, "c", formula.columns.size, list(_curve(formula, d)))
    n_outputs = 0 if formula.head is None else formula.head.intercept.size
    if formula.head is not None:
        yield d.buffer.format("f", n_outputs)
        yield from _loop(d, "o", n_outputs, ["f[o] = INTERCEPT[o];"])
    yield from _loop(d, "m", S, list(_cubic(formula, d, n_outputs)))
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
    yield from _block(d.repeat.format("k < top"), halve)
    yield d.real.format("share", "(value - NODES[k] - REST[k]) * GAPS[k]")
    yield d.real.format("low", "0.0")
    yield d.real.format("high", "1.0")
    yield from _block(d.test.format("k == first"), [f"low = -{FARTHEST!r};"])
    yield from _block(d.test.format("k == last"), [f"high = {FARTHEST!r};"])
    yield from _clipped(d, "share", "low", "high")
    yield from _loop(d, "m", S, [f"u[m] += H[k * {S} + m] + share * (H[(k + 1) * {S} + m] - H[k * {S} + m]);"])


def _cubic(formula: Formula, d: Dialect, n_outputs: int) -> Iterator[str]:
    """Yield the feature of one component, and what it adds to the outputs."""
    n_tables, n_cells, _ = formula.table.shape
    own = f"m * {n_cells} + " if n_tables > 1 else ""
    yield d.real.format("v", f"u[m] + {formula.middle + 0.5!r}")
    yield from _clipped(d, "v", "0.0", repr(float(n_cells)))
    yield d.whole.format("k", d.to_whole.format("v"))
    yield from _block(d.test.format(f"k > {n_cells - 1}"), [f"k = {n_cells - 1};"])
    yield d.real.format("t", f"v - 0.5 - {d.to_real.format('k')}")
    yield d.whole.format("c", f"4 * ({own}k)")
    yield d.real.format("z", "TABLE[c] + t * (TABLE[c + 1] + t * (TABLE[c + 2] + t * TABLE[c + 3]))")
    if n_outputs == 0:
        yield "out[m] = z * IMPORTANCE[m];"
    else:
        yield from _loop(d, "o", n_outputs, [f"f[o] += z * WEIGHTS[m * {n_outputs} + o];"])


def _answers(head: Head, d: Dialect) -> Iterator[str]:
    """Yield the way from f to ``out``."""
    n = head.intercept.size
    if head.classes is not None and n == 1:
        sides = ("-f[0]", "f[0]")
        for at, side in enumerate(sides):
            odds = f"1.0 / (1.0 + {d.exp.format(sides[1 - at])})"
            yield f"out[{at}] = {odds if head.link is Link.SIGMOID else side};"
        yield from _block(d.test.format("f[0] > 0.0"), ["out[2] = 1.0;"])
        return
    if head.classes is not None or head.link is Link.SOFTMAX:
        yield d.whole.format("best", "0")
        yield from _loop(d, "o", n, _block(d.test.format("f[o] > f[best]"), ["best = o;"]))
    if head.link is Link.SOFTMAX:
        yield d.real.format("total", "0.0")
        yield from _loop(d, "o", n, [f"out[o] = {d.exp.format('f[o] - f[best]')};", "total += out[o];"])
        yield from _loop(d, "o", n, ["out[o] /= total;"])
    else:
        highest = _block(d.test.format(f"f[o] > {HIGHEST_LOGARITHM}"), [f"f[o] = {HIGHEST_LOGARITHM};"])
        answer = {
            Link.EXP: [*highest, f"out[o] = {d.exp.format('f[o]')};"],
            Link.SIGMOID: [f"out[o] = 1.0 / (1.0 + {d.exp.format('-f[o]')});"],
            Link.IDENTITY: ["out[o] = f[o];"],
        }
        yield from _loop(d, "o", n, answer[head.link])
    if head.classes is not None:
        yield f"out[{n}] = {d.to_real.format('best')};"


def _loop(d: Dialect, variable: str, count: int, body: list[str]) -> list[str]:
    return _block(d.loop.format(variable, count), body)


def _block(head: str, body: list[str]) -> list[str]:
    return [head + " {", *("    " + line for line in body), "}"]


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
        yield f"  {at}: {_printable(column)}"
    head = formula.head
    if head is None or head.classes is None:
        yield f"returns {formula.n_answers} numbers: the {'features' if head is None else 'prediction'}"
        return
    what = "score" if head.link is Link.IDENTITY else "probability"
    labels = ", ".join(_printable(label) for label in head.classes)
    yield f"returns the {what} of each of {labels}; last the number of the label, from 0"


def _printable(value: object) -> str:
    return re.sub(r"[^A-Za-z0-9 _.,:;+()<>=%#$&@!-]", lambda found: f"?{ord(found[0]):x}", str(value))


def _listed(values: Array, width: int = 20) -> str:
    """Return the shortest literals that read back as the same numbers, some on a line."""
    whole = values.dtype.kind in "iu"
    words = [str(int(value)) if whole else repr(float(value)) for value in values.ravel()]
    return ",\n".join(", ".join(words[at : at + width]) for at in range(0, len(words), width))


def _javascript(name: str, values: Array) -> str:
    kind = "Int32Array" if values.dtype.kind in "iu" else "Float64Array"
    return f"const {name} = new {kind}([\n{_listed(values)}\n]);"


def _java(name: str, values: Array) -> str:
    """Numbers as base64: the initialiser of an array has at most 64 KB of code."""
    if values.dtype.kind in "iu":
        return f"    private static final int[] {name} = {{\n{_listed(values)}\n    }};"
    text = base64.b64encode(np.ascontiguousarray(values, "<f8").tobytes()).decode()
    parts = [text[at : at + _BASE64_CHUNK] for at in range(0, len(text), _BASE64_CHUNK)]
    listed = ",\n".join(f'        "{part}"' for part in parts)
    return f"    private static final double[] {name} = numbers(\n{listed});"


def _go(name: str, values: Array) -> str:
    kind = "int" if values.dtype.kind in "iu" else "float64"
    return f"var {name} = [...]{kind}{{\n{_listed(values)},\n}}"


def _rust(name: str, values: Array) -> str:
    kind = "usize" if values.dtype.kind in "iu" else "f64"
    return f"static {name}: [{kind}; {values.size}] = [\n{_listed(values)},\n];"


DIALECTS = {
    "js": Dialect(
        _javascript,
        '<<notes>>\n"use strict";\nconst <<name>> = (function () {\n<<arrays>>\nfunction predict(x) {\n'
        "    const out = new Float64Array(<<n_out>>);\n<<body>>\n    return out;\n}\n"
        "return { predict, nFeatures: <<n_features>>, nOut: <<n_out>> };\n})();\n"
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
        "    return out;\n    }\n}\n",
        "double {0} = {1};", "int {0} = {1};", "double[] {0} = new double[{1}];",
        "for (int {0} = 0; {0} < {1}; {0}++)", "if ({0})", "while ({0})", "(int) ({0})", "(double) {0}",
        "Math.exp({0})",
    ),
    "go": Dialect(
        _go,
        '<<notes>>\npackage <<name>>\n\nimport "math"\n\nconst NFeatures = <<n_features>>\nconst NOut = <<n_out>>\n\n'
        "<<arrays>>\n\nvar exp = math.Exp\n\n"
        "func Predict(x []float64) []float64 {\n    out := make([]float64, NOut)\n<<body>>\n    return out\n}\n",
        "var {0} float64 = {1}", "var {0} int = {1}", "{0} := make([]float64, {1})",
        "for {0} := 0; {0} < {1}; {0}++", "if {0}", "for {0}", "int({0})", "float64({0})", "exp({0})",
    ),
    "rust": Dialect(
        _rust,
        "<<notes>>\n#[allow(unused_mut, unused_assignments, clippy::all)]\npub mod <<name>> {\n"
        "pub const N_FEATURES: usize = <<n_features>>;\npub const N_OUT: usize = <<n_out>>;\n<<arrays>>\n\n"
        "pub fn predict(x: &[f64]) -> [f64; N_OUT] {\n    let mut out = [0.0f64; N_OUT];\n<<body>>\n    out\n}\n}\n",
        "let mut {0}: f64 = {1};", "let mut {0}: usize = {1};", "let mut {0} = [0.0f64; {1}];",
        "for {0} in 0..{1}", "if {0}", "while {0}", "(({0}) as usize)", "({0} as f64)", "({0}).exp()",
    ),
}  # fmt: skip
