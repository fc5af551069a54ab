"""The first pass over rows, before anything is fitted: every value is checked, and columns are summarised.

From the summary follows the encoding (`rflaf.rows.tables`), whatever the kind of file. Blocks that are summed are
planned in `rflaf.training.memory`, when the table is known; the pass that makes it known takes

    fixed + rows * row_bytes        bytes,    rows checked together

and a memory that does not hold a few rows is refused before anything is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError, MemoryBudgetError
from rflaf.rows.blocks import LEAST_ROWS
from rflaf.rows.opened import TargetScan
from rflaf.rows.tables import TableEncoding, TableSummary, clean, make_encoding, summarise

from .row_groups import RowGroup, batches, page_bytes
from .source import Reader
from .table import Request, distinct
from .values import check_finite, check_weights, in_column, is_numeric, labels_of, numbers_of, wrong

_ENOUGH_BYTES = 2**22  # to check together
_MARGIN = 2**19  # small things
_NUMBER_BYTES, _TEXT_BYTES = 20, 160  # of a value while it is checked, decoded and as it is


def rows_together(row_bytes: int, fixed: int, memory: int | None) -> int:
    """Return how many rows to check together.

    >>> rows_together(1000, 0, None)
    4194
    >>> rows_together(1000, 10**6, 2 * 10**6)
    475
    """
    enough = max(LEAST_ROWS, _ENOUGH_BYTES // row_bytes)
    if memory is None:
        return enough
    refuse_less(memory, fixed + LEAST_ROWS * row_bytes)
    return min(enough, (memory - fixed - _MARGIN) // row_bytes)


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
    """Refuse weights that are all zero."""
    if request.weight is not None and not seen.weight > 0:
        raise InvalidParameterError(
            "some weights must be above zero", f"zeros only in column {request.weight!r}", "Drop sample_weight."
        )


def scan(
    groups: tuple[RowGroup, ...], schema: Any, request: Request, reader: Reader
) -> tuple[TableEncoding, TargetScan]:
    """Check every value of Parquet files once, and learn how to encode the inputs unless that is known."""
    inputs, targets, summary = request.inputs(schema.names), TargetScan(), TableSummary({})
    columns = distinct(*inputs, *request.beside)
    at_once = rows_together(_row_bytes(schema, columns), page_bytes(groups, len(columns)), reader.memory)
    n_rows, learn = sum(group.n_rows for group in groups), request.encoding is None and request.summary is None
    with reader.begin("look at every value", n_rows, n_rows) as display:
        for group, batch in batches(groups, columns, at_once):
            _check_inputs(batch, inputs, group)
            if learn:
                part = summarise(batch.select(inputs), request.table.missing, request.table.categories)
                summary = summary + part if summary.columns else part
            targets += scan_targets(_beside(batch, request, group), request, group)
            display.advance(batch.num_rows)
    refuse_weightless(targets, request)
    return request.encoding or encoding_of(request, request.summary or summary, inputs), targets


def encoding_of(request: Request, summary: TableSummary, inputs: list[str]) -> TableEncoding:
    """Return the encoding of the inputs of a table that was summarised."""
    table = request.table
    chosen = TableSummary({name: summary.columns[name] for name in inputs})
    return make_encoding(chosen, (), [name for name in table.categories if name in inputs], table.missing)


def _row_bytes(schema: Any, columns: list[str]) -> int:
    n_numbers = sum(is_numeric(schema.field(name).type) for name in columns)
    return 64 + _NUMBER_BYTES * n_numbers + _TEXT_BYTES * (len(columns) - n_numbers)


def _check_inputs(batch: Any, inputs: list[str], group: RowGroup) -> None:
    for name in inputs:
        if is_numeric(batch.schema.field(name).type):
            check_finite(numbers_of(batch.column(name)), name, group, missing=True)
        else:
            with in_column(name, group):
                clean(name, batch.column(name))


def _beside(batch: Any, request: Request, group: RowGroup) -> dict[str, Array]:
    """Return targets and weights of a batch, by name."""
    of_target = labels_of if request.labels else _target
    columns = {name: of_target(batch, name, group) for name in request.targets}
    if request.weight is not None:
        columns[request.weight] = numbers_of(batch.column(request.weight))
    return columns


def _target(batch: Any, name: str, group: RowGroup) -> Array:
    """Return a column of numbers, all of them known."""
    column = batch.column(name)
    if not is_numeric(column.type):
        raise wrong("targets must be numbers", f"{column.type}", group, name, "Use RFLAFClassifier for labels.")
    values = numbers_of(column)
    if np.isnan(values).any():
        raise wrong("targets must be known in every row", "a missing value", group, name, "Drop those rows.")
    return values
