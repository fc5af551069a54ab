"""Checks of the first pass over rows in files, and columns of a batch as arrays.

Errors name the file, row group and column of a bad value. The pass takes fixed + rows * row_bytes bytes, for rows
checked together; a memory that does not hold a few rows is refused before anything is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError, MemoryBudgetError
from rflaf.rows.blocks import LEAST_ROWS
from rflaf.rows.opened import TargetScan
from rflaf.rows.tables import NumberColumn, TableEncoding, TableSummary, clean, make_encoding, require_arrow
from rflaf.rows.tables.cells import as_floats
from rflaf.rows.tables.statistics import fold_of_rows

from .table import Request

_ENOUGH_BYTES = 2**26  # to check together
_SHARE = 16  # of a given memory, that these take
LEAST_BYTES = 2**22  # the same in a small memory
_MARGIN = 2**19  # small things


def rows_together(row_bytes: int, fixed: int, memory: int | None) -> int:
    """Return how many rows to check together.

    >>> rows_together(1000, 0, None)
    67108
    >>> rows_together(1000, 10**6, 2 * 10**6)
    475
    """
    if memory is None:
        return max(LEAST_ROWS, _ENOUGH_BYTES // row_bytes)
    refuse_less(memory, fixed + LEAST_ROWS * row_bytes)
    enough = max(LEAST_BYTES, min(_ENOUGH_BYTES, memory // _SHARE))
    return min(max(LEAST_ROWS, enough // row_bytes), (memory - fixed - _MARGIN) // row_bytes)


def refuse_less(memory: int, needed: int) -> None:
    """Refuse a memory that does not hold ``needed`` bytes and small things."""
    least = needed + _MARGIN
    if memory < least:
        raise MemoryBudgetError(
            f"memory must hold the first look at the files of {least} bytes",
            memory,
            f"Allow at least {least} bytes, or choose fewer columns.",
        )


def scan_targets(columns: Mapping[str, Array], request: Request, where: object) -> TargetScan:
    """Check the targets and weights of some rows, by name, and return their scan."""
    weight = None
    if request.weight is not None:
        weight = columns[request.weight].astype(np.float64)
        check_weights(weight, request.weight, where)
    targets = [columns[name] for name in request.targets]
    for name, values in zip(request.targets, () if request.labels else targets, strict=False):
        check_finite(values, name, where)
    return TargetScan.of(targets, weight, request.labels)


def refuse_weightless(seen: TargetScan, request: Request) -> None:
    """Refuse weights that are all zero, and those whose sum is no number."""
    seen.refuse_overflow()
    if request.weight is not None and not seen.weight > 0:
        raise InvalidParameterError(
            "some weights must be above zero", f"zeros only in column {request.weight!r}", "Drop sample_weight."
        )


def encoding_of(request: Request, summary: TableSummary, inputs: list[str]) -> TableEncoding:
    """Return the encoding of the inputs of a table that was summarised."""
    table = request.table
    categories = [name for name in table.categories if name in inputs]
    read = {name: how for name, how in table.read.items() if name in inputs}
    return make_encoding(summary.select(inputs), (), categories, table.missing, read)


def write_inputs(batch: Any, encoding: TableEncoding, out: Array, where: object, first: int | None = None) -> None:
    """Write the encoded columns of a batch to ``out``; numbers are taken as they are.

    ``first`` is the number of the first row among those of a fit, None in a prediction.
    """
    start, folds = 0, None if first is None else fold_of_rows(first, batch.num_rows)
    for column in encoding.columns:
        stop = start + len(column.feature_names)
        values = batch.column(column.name)
        if isinstance(column, NumberColumn) and is_numeric(values.type) and not _is_dictionary(values):
            numbers = numbers_of(values)
            gaps = np.isnan(numbers)
            out[:, start] = numbers
            if gaps.any():
                out[gaps, start] = column.fill
            if column.indicator:
                out[:, start + 1] = gaps
            check_finite(out[:, start], column.name, where)
        else:
            with in_column(column.name, where):
                column.write(clean(column.name, values, encoding.missing), out[:, start:stop], folds)
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
        column = as_floats(column)
    numbers: Array = column.to_numpy(zero_copy_only=False)
    return numbers


def _plain(column: Any) -> Any:
    return column.dictionary_decode() if _is_dictionary(column) else column


def _is_dictionary(column: Any) -> bool:
    return bool(require_arrow().types.is_dictionary(column.type))


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
