"""The encoding of a table as expressions of SQL, one for every encoded column."""

from __future__ import annotations

from collections.abc import Iterator

from .table_form import DateField, NumberField, TableForm, TextField


def encoded_columns(form: TableForm) -> Iterator[str]:
    """Yield the expressions, in their order; dates are columns of days since 1970."""
    for field in form.fields:
        column = quoted_name(field.name)
        value = f"CAST({column} AS DOUBLE PRECISION)"
        if isinstance(field, TextField):
            yield from _text(field, f"TRIM(CAST({column} AS VARCHAR))")
            continue
        filled = f"COALESCE({value}, {number(field.fill)})"
        yield from [filled] if isinstance(field, NumberField) else _date(field, filled)
        if field.indicator:
            yield f"CASE WHEN {column} IS NULL THEN 1e0 ELSE 0e0 END"


def _text(field: TextField, text: str) -> Iterator[str]:
    """Yield a CASE for every encoded column; words of equal value share a branch."""
    *of_words, others, missing = field.encoded
    for at, other in enumerate(others):
        groups: dict[float, list[str]] = {}
        for word, row in zip(field.words, of_words, strict=True):
            if row[at] != other:
                groups.setdefault(float(row[at]), []).append(text_literal(word))
        cases = [f"WHEN {text} IS NULL THEN {number(missing[at])}"]
        cases += [f"WHEN {text} IN ({', '.join(words)}) THEN {number(value)}" for value, words in groups.items()]
        yield f"CASE {' '.join(cases)} ELSE {number(other)} END"


def _date(field: DateField, days: str) -> Iterator[str]:
    """Yield days, and the days of the year and of the week of the Gregorian calendar, counted from March 0000."""
    whole = f"FLOOR({days})"
    era = f"({whole} + 719468e0 - 146097e0 * FLOOR(({whole} + 719468e0) / 146097e0))"
    year = f"FLOOR(({era} - FLOOR({era} / 1460e0) + FLOOR({era} / 36524e0) - FLOOR({era} / 146096e0)) / 365e0)"
    of_year = f"({era} - (365e0 * {year} + FLOOR({year} / 4e0) - FLOOR({year} / 100e0)))"
    leap = f"{year} = 0e0 OR ({year} = 4e0 * FLOOR({year} / 4e0) AND {year} <> 100e0 * FLOOR({year} / 100e0))"
    start = f"CASE WHEN {of_year} > 305e0 THEN -305e0 WHEN {leap} THEN 61e0 ELSE 60e0 END"
    told = f"{of_year} + {start}"
    yield clipped(_in_year(field, days, told), *field.limits)
    yield told
    yield f"{whole} + 3e0 - 7e0 * FLOOR(({whole} + 3e0) / 7e0)"
    if field.hours:
        yield f"({days} - {whole}) * 24e0"


def _in_year(field: DateField, days: str, of_year: str) -> str:
    """Return the days, beyond the fit in its year, if they are told there."""
    if field.year is None:
        return days
    later = f"CASE WHEN {of_year} <= {number(field.year.turn)} THEN {number(field.year.length)} ELSE 0e0 END"
    told = f"{number(field.year.eve)} + {of_year} + {later} + ({days} - FLOOR({days}))"
    low, high = map(number, field.limits)
    return f"(CASE WHEN {days} < {low} OR {days} > {high} THEN {told} ELSE {days} END)"


def clipped(value: str, low: float, high: float) -> str:
    """Return an expression that is a value, but no lower than ``low`` and no higher than ``high``."""
    below, above = (f"{number(end)} THEN {number(end)}" for end in (low, high))
    return f"CASE WHEN {value} < {below} WHEN {value} > {above} ELSE {value} END"


def number(value: float) -> str:
    """Return a literal of double precision: with an exponent, or DuckDB reads a decimal."""
    text = repr(float(value))
    text = text if "e" in text else f"{text}e0"
    return f"({text})" if text.startswith("-") else text


def quoted_name(name: str) -> str:
    """Return a name of a table or column."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(label: str) -> str:
    """Return a text."""
    return "'" + label.replace("'", "''") + "'"
