"""The cells of a table, as Arrow holds them: truth values, numbers, dates, trimmed texts, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError, MissingExtraError

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL")  # texts that stand for nothing
MICROSECONDS_A_DAY = 86_400_000_000
_NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf|infinity))$"
_DATE = r"^\d{4}-\d{2}-\d{2}([ T]\d{2}(:\d{2}(:\d{2}(\.\d{1,6})?)?)?)?$"


def require_arrow() -> Any:
    """``pyarrow`` with its compute functions, or an error that names the extra to install."""
    try:
        import pyarrow as pa
        import pyarrow.compute
    except ImportError as error:
        raise MissingExtraError("tables of mixed columns", "pyarrow", "files") from error
    return pa


def as_table(table: Any) -> Any:
    """An Arrow table of an Arrow table or batch, or of a pandas or polars frame; column names are texts and differ."""
    pa = require_arrow()
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if not isinstance(table, pa.Table):
        try:
            framed = hasattr(table, "iloc")  # pandas: its index is no column
            table = pa.Table.from_pandas(table, preserve_index=False) if framed else pa.table(table)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            rule, found = "a column must hold values of one kind", "; ".join(map(str, error.args))
            raise InvalidParameterError(rule, found, "Make it all text, or numbers.") from error
    refuse_repeated(table.column_names)
    return table


def refuse_repeated(names: Sequence[str]) -> None:
    """Refuse column names that occur twice."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidParameterError("column names must differ", repeated, "Rename or drop the repeated columns.")


def find_column(name: str, names: Sequence[str]) -> str:
    """The column called ``name``, or else the one of that number, counted from 0 or, if negative, from the end.

    >>> find_column("-1", ["a", "b"])
    'b'
    """
    if name in names:
        return name
    try:
        return names[int(name)]
    except (ValueError, IndexError):
        raise InvalidParameterError(
            f"the table must have the column {name!r}", list(names), "Give a name or a number, counted from 0."
        ) from None


def clean(name: str, column: Any, missing: Sequence[str] = MISSING) -> Any:
    """Return a column as one Arrow array of truth values, numbers, dates or trimmed texts, null where missing."""
    pa = require_arrow()
    types, compute = pa.types, pa.compute
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kind = values.type
    if types.is_null(kind):
        return values.cast(pa.float64())
    if types.is_boolean(kind):
        return values
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _without_nan(values if types.is_integer(kind) else values.cast(pa.float64()))
    if types.is_temporal(kind) and not (types.is_time(kind) or types.is_duration(kind) or types.is_interval(kind)):
        return values.cast(pa.timestamp("us", tz=kind.tz if types.is_timestamp(kind) else None), safe=False).cast(
            pa.timestamp("us")
        )
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        trimmed = compute.utf8_trim_whitespace(values.cast(pa.string()))
        return compute.if_else(compute.is_in(trimmed, pa.array(missing, pa.string())), None, trimmed)
    raise InvalidParameterError(
        f"column {name!r} must hold numbers, texts, truth values or dates", str(kind), "Drop or convert it."
    )


def valid(values: Any) -> Array:
    """Return where there is a value: (n_rows,)."""
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False), bool)


def numbers_among(values: Any) -> Any:
    """Return numbers as float64, null where a value is none."""
    pa = require_arrow()
    if pa.types.is_string(values.type):
        return _parsed(values, _NUMBER, pa.float64())
    return pa.nulls(len(values), pa.float64()) if pa.types.is_timestamp(values.type) else values.cast(pa.float64())


def dates_among(values: Any) -> Any:
    """Return dates, null where a value is none."""
    pa = require_arrow()
    if pa.types.is_string(values.type):
        return _parsed(values, _DATE, pa.timestamp("us"))
    return values if pa.types.is_timestamp(values.type) else pa.nulls(len(values), pa.timestamp("us"))


def _parsed(texts: Any, pattern: str, kind: Any) -> Any:
    """Texts as values of a kind, nothing where one is none: not of the pattern, or 30 February."""
    pa = require_arrow()
    try:
        values = texts.cast(kind)
    except pa.ArrowInvalid:
        alike = pa.compute.if_else(pa.compute.match_substring_regex(texts, pattern), texts, None)
        try:
            return alike.cast(kind)
        except pa.ArrowInvalid:
            return pa.array([_value_or_none(text, kind) for text in alike], kind)
    return _without_nan(values)


def _without_nan(values: Any) -> Any:
    pa = require_arrow()
    return pa.compute.if_else(pa.compute.is_nan(values), None, values) if pa.types.is_floating(values.type) else values


def _value_or_none(text: Any, kind: Any) -> Any:
    with suppress(require_arrow().ArrowInvalid):
        return text.cast(kind).as_py()
    return None


def days_of(dates: Any) -> Array:
    """Days since 1970 with their fractions, of an array of dates without gaps."""
    return np.asarray(dates.cast("int64").to_numpy() / MICROSECONDS_A_DAY, np.float64)


def refuse_others(name: str, values: Any, found: Any, what: str) -> None:
    """Refuse values that were not found to be numbers, or dates."""
    if found.null_count > values.null_count:
        at = int(np.flatnonzero(valid(values) & ~valid(found))[0])
        raise InvalidParameterError(
            f"column {name!r} must hold {what}", values[at].as_py(), "Leave it empty where there is none."
        )


def is_number(text: str) -> bool:
    """Return whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
