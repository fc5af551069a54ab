"""The column to predict: the task it sets, and its values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError

from . import cells
from .columns import refuse_others
from .decisions import choose, moments
from .readings import READINGS, numbers_in
from .summaries import ColumnSummary, TableSummary

_MOST_WHOLE_CLASSES = 10  # whole numbers with at most so many values are taken for classes
_FEW_CLASSES, _ROWS_A_CLASS = 3, 2  # whole numbers beyond so few classes occur so often on average
_MOST_TEXT_CLASSES = 20  # texts of more values must occur twice on average


@dataclass(frozen=True, slots=True)
class TargetEncoding:
    """The column to predict: its name, the task, what its values are, why the task was chosen, how texts are read.

    ``offset`` names a column that is a known part of f, or, if ``exposure``, whose logarithm is; empty for none.
    """

    name: str
    task: str
    values: str  # "number", "whole", "truth" or "text"
    reason: str = ""
    reading: str = "number"
    offset: str = ""
    exposure: bool = False

    def offsets(self, table: Any, missing: Sequence[str] = cells.MISSING) -> Array | None:
        """Return the known part of f in every row, (n_rows,); None if there is none."""
        if not self.offset:
            return None
        what, table = "exposure" if self.exposure else "offset", cells.as_table(table)
        if self.offset not in table.column_names:
            rule = f"the table must have the {what} of the fit, column {self.offset!r}"
            raise InvalidParameterError(rule, table.column_names, "Add it.")
        values = cells.clean(self.offset, table[self.offset], missing)
        numbers = numbers_in(values)
        refuse_others(self.offset, values, numbers, "numbers")
        known = numbers.to_numpy(zero_copy_only=False)
        fine = np.isfinite(known) & (known > 0) if self.exposure else np.isfinite(known)
        if not fine.all():
            rule = f"the {what} {self.offset!r} must be known in every row" + " and above zero" * self.exposure
            raise InvalidParameterError(rule, float(known[~fine][0]), "Mend or drop such rows.")
        return np.asarray(np.log(known) if self.exposure else known)

    def read(self, table: Any, missing: Sequence[str] = cells.MISSING) -> Array:
        """Return the targets (n_rows,): float64 for regression, labels as they are for classification."""
        table = cells.as_table(table)
        if self.name not in table.column_names:
            raise InvalidParameterError(f"the table must have the target {self.name!r}", table.column_names, "Add it.")
        values = cells.clean(self.name, table[self.name], missing)
        if cells.n_missing(values):
            raise unknown_target(self.name, f"{cells.n_missing(values)} missing")
        if self.values == "text":
            return np.asarray(cells.as_texts(values).to_pylist(), np.str_)
        if self.values == "truth":
            truths = values if not isinstance(values, cells.Texts) else cells.as_texts(values)
            return np.asarray(truths.cast("bool").to_numpy(zero_copy_only=False))
        numbers = numbers_in(values, self.reading)
        refuse_others(self.name, values, numbers, f"numbers such as {READINGS[self.reading].example}")
        answer = numbers.to_numpy(zero_copy_only=False)
        return answer.astype(np.int64) if self.values == "whole" and self.task == "classification" else answer


def own_labels(name: str, column: Any) -> tuple[Array, str] | None:
    """Return the labels of a column in memory as they are, and what they are; None for dates and the like.

    Texts stay texts, even of digits only. Files are another matter: there everything may be a text, and is read.

    >>> import pyarrow as pa
    >>> own_labels("y", pa.chunked_array([["0", "1", " 1"]]))
    (array(['0', '1', ' 1'], dtype='<U2'), 'text')
    """
    pa = cells.require_arrow()
    values = column.combine_chunks()
    values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    if values.null_count:
        raise unknown_target(name, f"{values.null_count} missing")
    if cells.is_text(values.type):
        return np.asarray(values.to_pylist(), np.str_), "text"
    kinds = {"truth": pa.types.is_boolean, "whole": pa.types.is_integer, "number": pa.types.is_floating}
    for kind, is_one in kinds.items():
        if is_one(values.type):
            labels = values.to_numpy(zero_copy_only=False)
            if kind == "number" and np.isnan(labels).any():
                raise unknown_target(name, f"{np.isnan(labels).sum()} missing")
            return labels, kind
    return None


def unknown_target(name: str, found: str) -> InvalidParameterError:
    """Return the error for rows without a target."""
    remedy = (
        "Leave such rows out: --drop-missing-target, Table(..., drop_missing=NAME), or frame.dropna(subset=[NAME])."
    )
    return InvalidParameterError(f"the target {name!r} must be known in every row", found, remedy)


def make_target(summary: TableSummary, name: str, task: str = "auto") -> TargetEncoding:
    """Return the target called ``name``, or its column number, for "regression", "classification" or "auto".

    "auto" is classification for texts, truth values and whole numbers of at most ten different values, if these occur
    twice on average. Texts that are all numbers as people write them, such as $1,234.50, are numbers.

    >>> import pyarrow as pa
    >>> from rflaf.rows.tables import summarise
    >>> make_target(summarise(pa.table({"y": ["no", "yes", "no"]})), "y").task
    'classification'
    """
    if task not in ("auto", "regression", "classification"):
        raise InvalidParameterError("task must be 'auto', 'regression' or 'classification'", task, "Use 'auto'.")
    name = cells.find_column(name, list(summary.columns))
    column = summary.columns[name]
    _refuse_gaps(name, column)
    reading = _reading_of(name, summary)
    numbers = column.numbers if reading is None else moments(column, reading)
    is_number = column.kind == "number" or reading is not None
    values, found, reason = _seen(column, is_number, numbers.whole, max(abs(numbers.low), abs(numbers.high)))
    if reading is not None:
        reason += f", written like {READINGS[reading].example}"
    if task == "regression" and not is_number:
        raise InvalidParameterError(
            f"the target {name!r} of a regression must hold numbers",
            reason,
            "Fit a classifier, or make them numbers: a date minus another one, in days.",
        )
    if is_number and not numbers.finite:
        raise InvalidParameterError(f"the target {name!r} must be finite", "an infinite number", "Drop such rows.")
    if not is_number and not column.n_truths:
        _refuse_unique(name, column)
    chosen = found if task == "auto" else task
    return TargetEncoding(name, chosen, values, reason if task == "auto" else "as asked", reading or "number")


def _refuse_gaps(name: str, column: ColumnSummary) -> None:
    if column.n_missing:
        given = "no value at all" if not column.n_present else f"{column.n_missing} missing of {column.n_rows}"
        raise unknown_target(name, given)
    if column.levels is not None and len(column.levels) == 1:
        given = f"{next(iter(column.levels))!r} in every row"
        raise InvalidParameterError(f"the target {name!r} must vary", given, "There is nothing to learn.")


def _refuse_unique(name: str, column: ColumnSummary) -> None:
    """Refuse texts that hardly repeat: they are no classes."""
    levels = column.levels
    if levels is None or len(levels) > max(_MOST_TEXT_CLASSES, column.n_present / 2):
        n_values = "too many to count" if levels is None else f"{len(levels):,}"
        example = next(iter(column.texts or {}), "a text")
        found = f"{n_values} different texts in {column.n_rows:,} rows, such as {example!r}"
        remedy = f"Name another --target, or make its numbers plain: see rflaf inspect, --read {name}=number."
        raise InvalidParameterError(f"classes of the target {name!r} must occur more than once", found, remedy)


def _reading_of(name: str, summary: TableSummary) -> str | None:
    """Return how texts of numbers are read, None where they are plain or no numbers."""
    column = summary.columns[name]
    if column.kind != "category" or column.padded or column.declared:
        return None
    choice = choose(name, summary, False, None)
    number = choice.kind == "number" and choice.reading != "number"
    return choice.reading if number else None


def _seen(column: ColumnSummary, is_number: bool, whole: bool, largest: float) -> tuple[str, str, str]:
    """Return what the values of a target are, the task that they set, and why."""
    levels = column.levels
    n_values = "many" if levels is None else str(len(levels))
    few = levels is not None and len(levels) <= max(_FEW_CLASSES, column.n_present / _ROWS_A_CLASS)
    if column.n_truths:
        return "truth", "classification", "it holds truth values"
    if column.n_present and column.dates.count == column.n_present:
        return "text", "classification", f"it holds dates, {n_values} different"
    if not is_number:
        return "text", "classification", f"it holds texts, {n_values} different"
    if whole and levels is not None and len(levels) <= _MOST_WHOLE_CLASSES and few:
        return "whole", "classification", f"it holds {n_values} different whole numbers"
    return "whole" if whole and largest < 2**53 else "number", "regression", f"it holds numbers, {n_values} different"
