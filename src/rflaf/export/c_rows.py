"""Rows of a table in C: a struct of named fields and a function that encodes it, without the standard library."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rflaf.rows.tables import Year

from .c_arrays import array_lines, literal, printable
from .table_form import DateField, NumberField, TableForm, TextField

_HELPERS = """
static inline double {name}_floor_(double value)
{{
    const long long whole = (long long)value;
    return (double)(whole - (value < (double)whole));
}}

/* days since 1970 of a date of the Gregorian calendar */
static inline double {name}_days(int year, int month, int day, double hours)
{{
    const double y = (double)(month > 2 ? year : year - 1);
    const double era = {name}_floor_(y / 400.0), of_era = y - 400.0 * era;
    const double of_year = (double)((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1);
    const double leaps = {name}_floor_(of_era / 4.0) - {name}_floor_(of_era / 100.0);
    return 146097.0 * era + 365.0 * of_era + leaps + of_year - 719468.0 + hours / 24.0;
}}

static inline void {name}_date_(double days, {real} *out, int hours)
{{
    const double whole = {name}_floor_(days);
    double of_era = whole + 719468.0;
    of_era -= 146097.0 * {name}_floor_(of_era / 146097.0);
    const int d = (int)of_era, year = (d - d / 1460 + d / 36524 - d / 146096) / 365;
    const int of_year = d - (365 * year + year / 4 - year / 100);
    const int leap = year == 0 || (year % 4 == 0 && year % 100 != 0);
    out[0] = ({real})days;
    out[1] = ({real})(of_year > 305 ? of_year - 305 : of_year + 60 + leap);
    out[2] = ({real})(whole + 3.0 - 7.0 * {name}_floor_((whole + 3.0) / 7.0));
    if (hours)
        out[3] = ({real})((days - whole) * 24.0);
}}

/* the place of a text among words in the order of their bytes; n for another one, n + 1 for none */
static inline int {name}_find_(const char *const *words, int n, const char *text)
{{
    if (!text)
        return n + 1;
    while (*text == ' ' || (*text >= '\\t' && *text <= '\\r'))
        text++;
    int length = 0;
    for (int i = 0; text[i]; i++)
        if (text[i] != ' ' && !(text[i] >= '\\t' && text[i] <= '\\r'))
            length = i + 1;
    for (int low = 0, high = n; low < high;) {{
        const int middle = (low + high) / 2;
        const char *word = words[middle];
        int i = 0;
        while (i < length && text[i] == word[i])
            i++;
        const int a = i < length ? (unsigned char)text[i] : 0, b = (unsigned char)word[i];
        if (a == b)
            return middle;
        if (a < b)
            high = middle;
        else
            low = middle + 1;
    }}
    return n;
}}"""


def row_comment(name: str, real: str) -> list[str]:
    """Return the lines that explain the function of rows of the table."""
    return [
        f" * void {name}_predict_row(const struct {name}_row *row, {real} *out)",
        " *     the same for the columns of the table; a number or date is missing if it is NaN, a text if it is NULL",
    ]


def write_rows(form: TableForm, name: str, real: str) -> list[str]:
    """Return the struct of a row, the functions it needs, and ``NAME_predict_row``."""
    return [
        f"struct {name}_row {{",
        *(
            f"    {_kind(field, real)}{field.label}; /* {printable(field.name)}{_what(field)} */"
            for field in form.fields
        ),
        "};",
        *_HELPERS.format(name=name, real=real).splitlines(),
        "",
        f"static inline void {name}_predict_row(const struct {name}_row *row, {real} *out)",
        "{",
        *("    " + line for line in _body(form, name, real)),
        f"    {name}_predict(x, out);",
        "}",
        "",
    ]


def _kind(field: object, real: str) -> str:
    if isinstance(field, TextField):
        return "const char *"
    return "double " if isinstance(field, DateField) else f"{real} "


def _in_year(year: Year, of_year: str) -> str:
    return f"{year.eve!r} + {of_year} + ({of_year} <= {year.turn} ? {year.length}.0 : 0.0)"


def _rest(days: str, name: str) -> str:
    return f"(({days}) - {name}_floor_({days}))"


def _what(field: object) -> str:
    return ", days since 1970" if isinstance(field, DateField) else ", UTF-8" if isinstance(field, TextField) else ""


def _body(form: TableForm, name: str, real: str) -> Iterator[str]:
    for number, text in enumerate(form.texts):
        yield from _text_arrays(text, number, real)
    yield f"{real} x[{name.upper()}_N_FEATURES] = {{0}};"
    for field in form.fields:
        value = f"row->{field.label}"
        if isinstance(field, NumberField):
            yield f"x[{field.first}] = {value} == {value} ? {value} : {literal(field.fill, real)};"
            if field.indicator:
                yield f"x[{field.first + 1}] = ({real})({value} != {value});"
        elif isinstance(field, DateField):
            days = f"{value} == {value} ? {_near(value)} : {field.fill!r}"
            yield f"{name}_date_({days}, x + {field.first}, {int(field.hours)});"
            at = f"x[{field.first}]"
            if field.year is not None:
                beyond = f"({days}) < {field.limits[0]!r} || ({days}) > {field.limits[1]!r}"
                told = f"{_in_year(field.year, f'x[{field.first + 1}]')} + {_rest(days, name)}"
                yield f"if ({beyond}) {at} = ({real})({told});"
            for beyond, limit in zip("<>", (literal(day, real) for day in field.limits), strict=True):
                yield f"if ({at} {beyond} {limit}) {at} = {limit};"
            if field.indicator:
                yield f"x[{field.first + 3 + field.hours}] = ({real})({value} != {value});"
        else:
            yield from _look_up(field, form.texts.index(field), name, value)


def _near(days: str) -> str:
    return f"({days} > -1e8 ? ({days} < 1e8 ? {days} : 1e8) : -1e8)"


def _text_arrays(field: TextField, number: int, real: str) -> Iterator[str]:
    words = [f'    "{_octal(word)}",' for word in field.words]
    yield from [f"static const char *const words_{number}[{len(words)}] = {{", *words, "};"]
    if field.flag_columns.size:
        yield from array_lines("int", f"flag_of_{number}", field.flag_of)
        yield from array_lines(real, f"flags_{number}", field.flags)
    if field.value_columns.size:
        yield from array_lines(real, f"values_{number}", field.values)


def _look_up(field: TextField, number: int, name: str, value: str) -> Iterator[str]:
    yield f"const int w{number} = {name}_find_(words_{number}, {len(field.words)}, {value});"
    parts = (
        ("flags", f"flag_of_{number}[w{number}]", field.flag_columns),
        ("values", f"w{number}", field.value_columns),
    )
    for array, row, columns in parts:
        if columns.size and np.array_equal(columns, np.arange(columns[0], columns[0] + columns.size)):
            yield f"for (int j = 0; j < {columns.size}; j++)"
            yield f"    x[{field.first + int(columns[0])} + j] = {array}_{number}[{row}][j];"
        else:
            for j, column in enumerate(columns):
                yield f"x[{field.first + int(column)}] = {array}_{number}[{row}][{j}];"


def _octal(word: str) -> str:
    return "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in word.encode()
    )
