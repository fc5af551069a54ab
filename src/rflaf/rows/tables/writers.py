"""The columns of a table, each ready to write any of its rows as numbers.

What costs time is done once a column: texts are encoded each once and looked up by row. Numbers are taken from the
table as they lie there, a few rows at a time, so that no copy of a column is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from rflaf.errors import Array

from . import cells
from .columns import CategoryColumn, ColumnEncoding, NumberColumn

Writer = Callable[[slice, Array], None]


def writer_of(column: ColumnEncoding, values: Any, missing: Sequence[str], folds: Array | None = None) -> Writer:
    """Return the function that writes the rows of a slice to an array of zeros (n_rows, n_features).

    ``values`` is a column of an Arrow table, ``folds`` are those of its rows in a fit; see `ColumnEncoding.write`.
    """
    if isinstance(column, NumberColumn) and _is_plain(values.type):
        return partial(_write_numbers, column, values)
    cleaned = cells.clean(column.name, values, missing)
    if column.kind in ("category", "text") and not isinstance(cleaned, cells.Texts):
        cleaned = cells.by_level(cleaned)
    by_fold = folds if isinstance(column, CategoryColumn) and column.statistic is not None else None
    if isinstance(cleaned, cells.Texts) and by_fold is None:
        return partial(_look_up, _by_text(column, cleaned.different), cleaned.at)
    return partial(_write, column, cleaned, by_fold)


def _by_text(column: ColumnEncoding, different: Any) -> Array:
    """Return the numbers of each text, and last those of a missing one: (n_texts + 1, n_features)."""
    table = np.zeros((len(different) + 1, len(column.feature_names)))
    column.write(cells.Texts(different, np.append(np.arange(len(different)), -1)), table)
    return table


def _look_up(table: Array, at: Array, rows: slice, out: Array) -> None:
    out[:] = table[:, 0][at[rows]][:, None] if table.shape[1] == 1 else table[at[rows]]


def _write(column: ColumnEncoding, values: Any, folds: Array | None, rows: slice, out: Array) -> None:
    some = values.rows(rows.start, rows.stop) if isinstance(values, cells.Texts) else _rows_of(values, rows)
    column.write(some, out, None if folds is None else folds[rows])


def _write_numbers(column: NumberColumn, values: Any, rows: slice, out: Array) -> None:
    some = _rows_of(values, rows)
    if cells.require_arrow().types.is_boolean(some.type) and some.null_count:
        some = cells.as_floats(some)
    column.write_numbers(some.to_numpy(zero_copy_only=False), out)


def _rows_of(values: Any, rows: slice) -> Any:
    """Return some rows of an Arrow column as one array."""
    some = values.slice(rows.start, rows.stop - rows.start)
    if not isinstance(some, cells.require_arrow().ChunkedArray):
        return some
    return some.chunk(0) if some.num_chunks == 1 else some.combine_chunks()


def _is_plain(kind: Any) -> bool:
    """Return whether NumPy holds numbers of an Arrow type."""
    types = cells.require_arrow().types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))
