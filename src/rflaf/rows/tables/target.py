"""The column to predict, numbers or classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError

from .cells import MISSING, as_table, clean, find_column, numbers_among, refuse_others
from .summaries import TableSummary

_MOST_WHOLE_CLASSES = 10  # whole numbers with at most so many values are taken for classes


@dataclass(frozen=True, slots=True)
class TargetEncoding:
    """The column to predict: its name, the task, what its values are, and why the task was chosen.

    ``values`` is "number", "whole", "truth" or "text".
    """

    name: str
    task: str
    values: str
    reason: str = ""

    def read(self, table: Any, missing: Sequence[str] = MISSING) -> Array:
        """Return the targets (n_rows,): float64 for regression, labels as they are for classification."""
        table = as_table(table)
        if self.name not in table.column_names:
            raise InvalidParameterError(f"the table must have the target {self.name!r}", table.column_names, "Add it.")
        values = clean(self.name, table[self.name], missing)
        if values.null_count:
            raise InvalidParameterError(
                f"the target {self.name!r} must be known in every row",
                f"{values.null_count} missing",
                "Drop such rows.",
            )
        if self.values == "text":
            return np.asarray(values.cast("string").to_pylist(), np.str_)
        if self.values == "truth":
            return np.asarray(values.cast("bool").to_numpy(zero_copy_only=False))
        numbers = numbers_among(values)
        refuse_others(self.name, values, numbers, "numbers")
        answer = numbers.to_numpy(zero_copy_only=False)
        return answer.astype(np.int64) if self.values == "whole" and self.task == "classification" else answer


def make_target(summary: TableSummary, name: str, task: str = "auto") -> TargetEncoding:
    """Return the target called ``name``, or its column number, for "regression", "classification" or "auto".

    "auto" is classification for texts, truth values and whole numbers of at most ten different values.

    >>> import pyarrow as pa
    >>> from rflaf.rows.tables import summarise
    >>> make_target(summarise(pa.table({"y": ["no", "yes", "no"]})), "y").task
    'classification'
    """
    name = find_column(name, list(summary.columns))
    column = summary.columns[name]
    if column.n_missing:
        given = "no value at all" if not column.n_present else f"{column.n_missing} missing of {column.n_rows}"
        raise InvalidParameterError(f"the target {name!r} must be known in every row", given, "Drop such rows.")
    if column.levels is not None and len(column.levels) == 1:
        raise InvalidParameterError(
            f"the target {name!r} must vary",
            f"{next(iter(column.levels))!r} in every row",
            "There is nothing to learn.",
        )
    is_number = column.kind == "number"
    n_values = "many" if column.levels is None else str(len(column.levels))
    if column.n_truths:
        values, found, reason = "truth", "classification", "it holds truth values"
    elif is_number and column.numbers.whole and n_values != "many" and int(n_values) <= _MOST_WHOLE_CLASSES:
        values, found, reason = "whole", "classification", f"it holds {n_values} different whole numbers"
    elif is_number:
        whole = column.numbers.whole and abs(column.numbers.low) < 2**53 and abs(column.numbers.high) < 2**53
        values, found, reason = "whole" if whole else "number", "regression", f"it holds numbers, {n_values} different"
    else:
        values, found, reason = "text", "classification", f"it holds texts, {n_values} different"
    if task not in ("auto", "regression", "classification"):
        raise InvalidParameterError("task must be 'auto', 'regression' or 'classification'", task, "Use 'auto'.")
    if task == "regression" and not is_number:
        raise InvalidParameterError(
            f"the target {name!r} of a regression must hold numbers", reason, "Use task 'classification'."
        )
    if is_number and not (math.isfinite(column.numbers.low) and math.isfinite(column.numbers.high)):
        raise InvalidParameterError(f"the target {name!r} must be finite", "an infinite number", "Drop such rows.")
    return TargetEncoding(name, found if task == "auto" else task, values, reason if task == "auto" else "as asked")
