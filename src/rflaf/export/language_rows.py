"""Rows of a table in JavaScript, Java, Go and Rust: a function that encodes the fields of a row and predicts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from textwrap import indent

import numpy as np

from rflaf.rows.tables import Year

from .dialect import Dialect, block, filled, listed_words, loop, printable
from .table_form import DateField, NumberField, TableForm, TextField


@dataclass(frozen=True, slots=True)
class RowDialect:
    """Templates of a language for rows of a table.

    Attributes
    ----------
    page : the declarations out of the fields, the words and the body
    number, text : declaration of a field ``{label}``, whose column is called ``{name}``
    a_number, a_text : a field in an expression, by ``{label}`` or as ``{literal}`` of its name
    words : declaration of the words of a field, by its name in the program and the words
    find : the place of text ``{1}`` among the words ``{0}``, one more than the last for another one, two for a missing
    floor : the greatest whole number not above ``{0}``
    name : the label as the language writes it
    """

    page: str
    number: str
    text: str
    a_number: str
    a_text: str
    words: Callable[[str, tuple[str, ...]], str]
    find: str
    floor: str
    name: Callable[[str], str] = str


def write_rows(form: TableForm, d: Dialect, r: RowDialect) -> str:
    """Return the text that a program has beside its function of encoded rows."""
    lines: list[str] = []
    for field in form.fields:
        template = r.text if isinstance(field, TextField) else r.number
        lines.append(template.format(label=r.name(field.label), name=printable(field.name)))
    words: list[str] = []
    for number, field in enumerate(form.texts):
        words.append(r.words(f"WORDS_{number}", field.words))
        if field.flag_columns.size:
            words += [d.array(f"FLAG_OF_{number}", field.flag_of), d.array(f"FLAGS_{number}", field.flags.ravel())]
        if field.value_columns.size:
            words.append(d.array(f"VALUES_{number}", field.values.ravel()))
    body = indent("\n".join(_body(form, d, r)), "    ")
    of_row = "<'a>" if form.texts else ""
    return filled(r.page, {"fields": "\n".join(lines), "words": "\n".join(words), "body": body, "life": of_row})


def _body(form: TableForm, d: Dialect, r: RowDialect) -> Iterator[str]:
    """Yield the statements from the fields to ``x``."""
    yield d.buffer.format("x", form.n_encoded)
    for at, field in enumerate(form.fields):
        words = {"label": r.name(field.label), "literal": json.dumps(field.name)}
        if isinstance(field, TextField):
            yield from _text(field, form.texts.index(field), r.a_text.format(**words), d, r)
        elif isinstance(field, NumberField):
            yield from _number(field, f"v{at}", r.a_number.format(**words), d)
        else:
            yield from _date(field, f"v{at}", r.a_number.format(**words), d, r)


def _number(field: NumberField, value: str, given: str, d: Dialect) -> Iterator[str]:
    yield d.real.format(value, given)
    gap = [f"{value} = {field.fill!r};", *([f"x[{field.first + 1}] = 1.0;"] if field.indicator else [])]
    yield from block(d.test.format(f"{value} != {value}"), gap)
    yield f"x[{field.first}] = {value};"


def _text(field: TextField, number: int, given: str, d: Dialect, r: RowDialect) -> Iterator[str]:
    word = f"w{number}"
    yield d.whole.format(word, r.find.format(f"WORDS_{number}", given))
    parts = (("FLAGS", f"FLAG_OF_{number}[{word}]", field.flag_columns), ("VALUES", word, field.value_columns))
    for array, row, columns in parts:
        if not columns.size:
            continue
        source = f"{array}_{number}[{row} * {columns.size} + j]"
        if np.array_equal(columns, np.arange(columns[0], columns[0] + columns.size)):
            yield from loop(d, "j", columns.size, [f"x[{field.first + int(columns[0])} + j] = {source};"])
        else:
            for j, column in enumerate(columns):
                yield f"x[{field.first + int(column)}] = {source.replace('+ j', f'+ {j}')};"


def _date(field: DateField, v: str, given: str, d: Dialect, r: RowDialect) -> Iterator[str]:
    """Yield days, and the days of the year and of the week of the Gregorian calendar, counted from March 0000."""
    at, floor = field.first, r.floor.format
    yield d.real.format(v, given)
    n_parts = 3 + field.hours
    gap = [f"{v} = {field.fill!r};", *([f"x[{at + n_parts}] = 1.0;"] if field.indicator else [])]
    yield from block(d.test.format(f"{v} != {v}"), gap)
    era, year = f"{v}_e", f"{v}_y"
    yield d.real.format(f"{v}_w", floor(v))
    yield d.real.format(era, f"{v}_w + 719468.0")
    yield f"{era} -= 146097.0 * {floor(f'{era} / 146097.0')};"
    since = f"{era} - {floor(f'{era} / 1460.0')} + {floor(f'{era} / 36524.0')} - {floor(f'{era} / 146096.0')}"
    yield d.real.format(year, floor(f"({since}) / 365.0"))
    of_year = f"{era} - (365.0 * {year} + {floor(f'{year} / 4.0')} - {floor(f'{year} / 100.0')})"
    yield d.real.format(f"{v}_d", of_year)
    leap = f"{year} == 0.0 || ({year} - 4.0 * {floor(f'{year} / 4.0')} == 0.0 && "
    leap += f"{year} - 100.0 * {floor(f'{year} / 100.0')} != 0.0)"
    yield d.real.format(f"{v}_s", "60.0")
    yield from block(d.test.format(leap), [f"{v}_s = 61.0;"])
    yield from block(d.test.format(f"{v}_d > 305.0"), [f"{v}_s = -305.0;"])
    told = v
    if field.year is not None:
        yield from _in_year(field, field.year, v, d)
        told = f"{v}_t"
    yield f"x[{at}] = {told};"
    for beyond, limit in zip("<>", field.limits, strict=True):
        yield from block(d.test.format(f"{told} {beyond} {limit!r}"), [f"x[{at}] = {limit!r};"])
    yield f"x[{at + 1}] = {v}_d + {v}_s;"
    yield f"x[{at + 2}] = {v}_w + 3.0 - 7.0 * {floor(f'({v}_w + 3.0) / 7.0')};"
    if field.hours:
        yield f"x[{at + 3}] = ({v} - {v}_w) * 24.0;"


def _in_year(field: DateField, year: Year, v: str, d: Dialect) -> Iterator[str]:
    """Yield the days, beyond the fit in its year."""
    low, high = field.limits
    told = [f"{v}_t = {year.eve!r} + {v}_d + {v}_s + ({v} - {v}_w);"]
    told += block(d.test.format(f"{v}_d + {v}_s <= {year.turn}.0"), [f"{v}_t += {year.length}.0;"])
    yield d.real.format(f"{v}_t", v)
    yield from block(d.test.format(f"{v} < {low!r} || {v} > {high!r}"), told)


def _quoted(text: str, escape: str) -> str:
    """Return a literal in ASCII; ``escape`` formats the number of any other character."""
    plain = set(map(chr, range(32, 127))) - set('"\\')
    return '"' + "".join(letter if letter in plain else escape.format(ord(letter)) for letter in text) + '"'


def _rust_text(text: str) -> str:
    return _quoted(text, "\\u{{{:x}}}")


def _go_text(text: str) -> str:
    return _quoted(text, "\\U{:08x}")


def _javascript_words(name: str, words: tuple[str, ...]) -> str:
    return f"const {name} = new Map([\n{listed_words(words, json.dumps)}\n].map((word, at) => [word, at]));"


def _java_words(name: str, words: tuple[str, ...], chunk: int = 8000) -> str:
    """Words as one text, since the initialiser of an array has at most 64 KB of code."""
    used = {character for word in words for character in word}
    separator = next(chr(code) for code in (31, 30, 29, 28, *range(0xE000, 0xF8FF)) if chr(code) not in used)
    text = separator.join(words)
    parts = [json.dumps(text[at : at + chunk]) for at in range(0, max(len(text), 1), chunk)]
    listed = ",\n        ".join(parts)
    declared = f"    private static final java.util.Map<String, Integer> {name} = words("
    return f"{declared}{json.dumps(separator)},\n        {listed});"


def _go_words(name: str, words: tuple[str, ...]) -> str:
    return f"var {name} = wordsOf([]string{{\n{listed_words(words, _go_text)},\n}})"


def _rust_words(name: str, words: tuple[str, ...]) -> str:
    return f"static {name}: [&str; {len(words)}] = [\n{listed_words(words, _rust_text)},\n];"


def _exported(label: str) -> str:
    return label[:1].upper() + label[1:]


ROW_DIALECTS = {
    "js": RowDialect(
        "<<words>>\n"
        "function numberOf(value) {\n"
        '    return value === null || value === undefined || value === "" ? NaN : Number(value);\n}\n'
        "function find(words, text) {\n"
        "    if (text === null || text === undefined) return words.size + 1;\n"
        "    const at = words.get(String(text).trim());\n"
        "    return at === undefined ? words.size : at;\n}\n"
        "// row: an object of the columns\n<<fields>>\n"
        "function predictRow(row) {\n<<body>>\n    return predict(x);\n}\n",
        "//   {name}: a number, or days since 1970", "//   {name}: a text",
        "numberOf(row[{literal}])", "row[{literal}]", _javascript_words, "find({0}, {1})", "Math.floor({0})",
    ),
    "java": RowDialect(
        "    /** The columns of a row. */\n    public static final class Row {\n<<fields>>\n    }\n\n<<words>>\n\n"
        "    private static java.util.Map<String, Integer> words(String separator, String... parts) {\n"
        '        String[] words = String.join("", parts).split(separator, -1);\n'
        "        java.util.Map<String, Integer> places = new java.util.HashMap<>();\n"
        "        for (int at = 0; at < words.length; at++) {\n            places.put(words[at], at);\n        }\n"
        "        return places;\n    }\n\n"
        "    private static int find(java.util.Map<String, Integer> words, String text) {\n"
        "        return text == null ? words.size() + 1 : words.getOrDefault(text.strip(), words.size());\n    }\n\n"
        "    public static double[] predictRow(Row row) {\n<<body>>\n    return predict(x);\n    }\n",
        "        /** {name}: a number, or days since 1970. */\n        public double {label} = Double.NaN;",
        "        /** {name}. */\n        public String {label};",
        "row.{label}", "row.{label}", _java_words, "find({0}, {1})", "Math.floor({0})",
    ),
    "go": RowDialect(
        "// Row holds the columns of a row, numbers NaN and texts empty where missing.\n"
        "type Row struct {\n<<fields>>\n}\n\n<<words>>\n\n"
        "func wordsOf(words []string) map[string]int {\n    places := make(map[string]int)\n"
        "    for at, word := range words {\n        places[word] = at\n    }\n    return places\n}\n\n"
        "func find(words map[string]int, text string) int {\n    at, known := words[trim(text)]\n"
        "    if known {\n        return at\n    }\n"
        '    if trim(text) == "" {\n        return len(words) + 1\n    }\n    return len(words)\n}\n\n'
        "func PredictRow(row Row) []float64 {\n<<body>>\n    return Predict(x)\n}\n",
        "    {label} float64 // {name}: a number, or days since 1970", "    {label} string // {name}",
        "row.{label}", "row.{label}", _go_words, "find({0}, {1})", "math.Floor({0})", _exported,
    ),
    "rust": RowDialect(
        "/// The columns of a row, numbers NaN where missing.\npub struct Row<<life>> {\n<<fields>>\n}\n\n"
        "<<words>>\n\n"
        "fn find(words: &[&str], text: Option<&str>) -> usize {\n    match text {\n"
        "        None => words.len() + 1,\n"
        "        Some(word) => words.binary_search(&word.trim()).unwrap_or(words.len()),\n    }\n}\n\n"
        "pub fn predict_row(row: &Row) -> [f64; N_OUT] {\n<<body>>\n    predict(&x)\n}\n",
        "    /// {name}: a number, or days since 1970.\n    pub {label}: f64,",
        "    /// {name}.\n    pub {label}: Option<&'a str>,",
        "row.{label}", "row.{label}", _rust_words, "find(&{0}, {1})", "({0}).floor()",
    ),
}  # fmt: skip
