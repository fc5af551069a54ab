"""Columns of a batch as arrays. Errors name the file, row group and column of a bad value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.rows.tables import NumberColumn, TableEncoding, clean, require_arrow


def write_inputs(batch: Any, encoding: TableEncoding, out: Array, where: object) -> None:
    """Write the encoded columns of a batch to ``out``; numbers are taken as they are."""
    start = 0
    for column in encoding.columns:
        stop = start + len(column.feature_names)
        values = batch.column(column.name)
        if isinstance(column, NumberColumn) and is_numeric(values.type):
            numbers = numbers_of(values)
            if column.indicator:
                out[:, start + 1] = gaps = np.isnan(numbers)
                numbers = np.where(gaps, column.fill, numbers)
            out[:, start] = numbers
            if not column.indicator:
                check_finite(out[:, start], column.name, where)
        else:
            with in_column(column.name, where):
                column.write(clean(column.name, values, encoding.missing), out[:, start:stop])
        start = stop


@contextmanager
def in_column(name: str, where: object) -> Iterator[None]:
    """Add file and column to errors raised inside."""
    try:
        yield
    except InvalidParameterError as error:
        if str(where) in str(error.value):
            raise
        raise wrong(error.rule, f"{error.value}", where, name, error.remedy) from error


def labels_of(batch: Any, name: str, where: object) -> Array:
    """Return a column of labels."""
    column = _plain(batch.column(name))
    if column.null_count:
        raise wrong("targets must be known in every row", "a missing value", where, name, "Drop those rows.")
    values: Array = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f" and not np.array_equal(values, np.floor(values)):
        raise wrong("labels must be texts, whole numbers or truth values", "fractions", where, name, "Regress them.")
    return values


def numbers_of(column: Any) -> Array:
    """Return a numeric column, with NaN for missing values."""
    types = require_arrow().types
    column = _plain(column)
    if not (types.is_integer(column.type) or types.is_floating(column.type)):
        column = column.cast("float64")
    numbers: Array = column.to_numpy(zero_copy_only=False)
    return numbers


def _plain(column: Any) -> Any:
    return column.dictionary_decode() if require_arrow().types.is_dictionary(column.type) else column


def is_numeric(kind: Any) -> bool:
    """Return whether columns of an Arrow type are numbers."""
    types = require_arrow().types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(test(kind) for test in tests)


def check_finite(values: Array, name: object, where: object, missing: bool = False) -> None:
    """Refuse infinite values, and missing ones unless ``missing``."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = values.sum(dtype=np.float64)
    if np.isfinite(total):
        return
    bad = np.isinf(values) if missing else ~np.isfinite(values)
    if bad.any():
        what = "a missing value" if np.isnan(values[bad][0]) else "an infinite value"
        raise wrong("every value must be a finite number", what, where, name, "Drop or repair those rows.")


def check_weights(weight: Array, name: str, where: object) -> None:
    """Refuse weights that are negative or not finite."""
    fine = np.isfinite(weight) & (weight >= 0)
    if not fine.all():
        raise wrong("weights must be numbers, at least zero", f"{weight[~fine][0]}", where, name, "Repair those rows.")


def wrong(rule: str, what: str, where: object, column: object, remedy: str) -> InvalidParameterError:
    """Return the error about a value of a column."""
    return InvalidParameterError(rule, f"{what} in {where}, column {column!r}", remedy)
