"""The encoding of one column, as plain data that checks itself: inputs as columns of numbers, and the target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from rflaf.errors import Array, InvalidParameterError

from . import cells
from .summaries import TableSummary

_MOST_WHOLE_CLASSES = 10  # whole numbers with at most so many values are taken for classes


class ColumnEncoding(Protocol):
    """Turns one column into columns of numbers."""

    kind: ClassVar[str]

    @property
    def name(self) -> str: ...

    @property
    def feature_names(self) -> tuple[str, ...]: ...

    def write(self, values: Any, out: Array) -> None:
        """Write cleaned ``values`` (n_rows) to ``out`` (n_rows, n_features), which holds zeros."""


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A number, ``fill`` where it is missing, and, if ``indicator``, whether it was."""

    kind: ClassVar[str] = "number"
    name: str
    fill: float
    indicator: bool

    def __post_init__(self) -> None:
        check_text(self.name)
        _check_number("fill", self.fill)
        _check_flag("indicator", self.indicator)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return (self.name, f"{self.name} missing") if self.indicator else (self.name,)

    def write(self, values: Any, out: Array) -> None:
        numbers = cells.numbers_among(values)
        cells.refuse_others(self.name, values, numbers, "numbers")
        column = numbers.to_numpy(zero_copy_only=False)
        gaps = np.isnan(column)
        out[:, 0] = np.where(gaps, self.fill, column) if gaps.any() else column
        if self.indicator:
            out[:, 1] = gaps


@dataclass(frozen=True, slots=True)
class CategoryColumn:
    """A level out of ``levels``; ``others`` and ``missing`` say whether these have a column of their own."""

    kind: ClassVar[str] = "category"
    name: str
    levels: tuple[str, ...]
    others: bool
    missing: bool

    def __post_init__(self) -> None:
        check_text(self.name)
        if not (isinstance(self.levels, tuple) and self.levels and len(set(self.levels)) == len(self.levels)):
            raise InvalidParameterError("levels must be different texts, at least one", self.levels, "Name them.")
        for level in self.levels:
            check_text(level)
        _check_flag("others", self.others)
        _check_flag("missing", self.missing)

    @property
    def _two(self) -> bool:
        return len(self.levels) == 2 and not (self.others or self.missing)

    @property
    def feature_names(self) -> tuple[str, ...]:
        if self._two:
            return (f"{self.name}={self.levels[1]}",)
        extra = ["(others)"] * self.others + ["(missing)"] * self.missing
        return tuple(f"{self.name}={level}" for level in (*self.levels, *extra))

    def write(self, values: Any, out: Array) -> None:
        pa = cells.require_arrow()
        texts = values.cast(pa.string())
        code = pa.compute.index_in(texts, pa.array(self.levels, pa.string())).fill_null(-1).to_numpy()
        if self._two:
            out[:, 0] = np.where(code < 0, 0.5, code)
            return
        gaps = ~cells.valid(texts)
        nowhere, last = -1, len(self.levels)
        code = np.where(code < 0, last if self.others else nowhere, code)
        code[gaps] = last + self.others if self.missing else nowhere
        rows = np.flatnonzero(code >= 0)
        out[rows, code[rows]] = 1


@dataclass(frozen=True, slots=True)
class DateColumn:
    """A date as numbers, that of ``fill`` (days since 1970) where it is missing; the hour only if ``hours``."""

    kind: ClassVar[str] = "date"
    name: str
    fill: float
    hours: bool
    indicator: bool

    def __post_init__(self) -> None:
        check_text(self.name)
        _check_number("fill", self.fill, 3e6)  # the years in which Arrow distinguishes dates
        _check_flag("hours", self.hours)
        _check_flag("indicator", self.indicator)

    @property
    def feature_names(self) -> tuple[str, ...]:
        parts = ["days", "day of year", "day of week", *["hour"] * self.hours, *["missing"] * self.indicator]
        return tuple(f"{self.name} {part}" for part in parts)

    def write(self, values: Any, out: Array) -> None:
        pa = cells.require_arrow()
        found = cells.dates_among(values)
        cells.refuse_others(self.name, values, found, "dates such as 2024-02-29")
        gaps = ~cells.valid(found)
        dates = found.fill_null(pa.scalar(round(self.fill * cells.MICROSECONDS_A_DAY), pa.timestamp("us")))
        days = cells.days_of(dates)
        out[:, 0] = days
        out[:, 1] = pa.compute.day_of_year(dates).to_numpy()
        out[:, 2] = pa.compute.day_of_week(dates).to_numpy()
        if self.hours:
            out[:, 3] = (days - np.floor(days)) * 24
        if self.indicator:
            out[:, -1] = gaps


@dataclass(frozen=True, slots=True)
class TargetEncoding:
    """The column to predict: its name, the task, what its values are, and why the task was chosen."""

    name: str
    task: str
    values: str  # "number", "whole", "truth" or "text"
    reason: str = ""

    def read(self, table: Any, missing: Sequence[str] = cells.MISSING) -> Array:
        """Return the targets (n_rows,): float64 for regression, labels as they are for classification."""
        table = cells.as_table(table)
        if self.name not in table.column_names:
            raise InvalidParameterError(f"the table must have the target {self.name!r}", table.column_names, "Add it.")
        values = cells.clean(self.name, table[self.name], missing)
        if values.null_count:
            rule = f"the target {self.name!r} must be known in every row"
            raise InvalidParameterError(rule, f"{values.null_count} missing", "Drop such rows.")
        if self.values == "text":
            return np.asarray(values.cast("string").to_pylist(), np.str_)
        if self.values == "truth":
            return np.asarray(values.cast("bool").to_numpy(zero_copy_only=False))
        numbers = cells.numbers_among(values)
        cells.refuse_others(self.name, values, numbers, "numbers")
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
    name = cells.find_column(name, list(summary.columns))
    column = summary.columns[name]
    if column.n_missing:
        given = "no value at all" if not column.n_present else f"{column.n_missing} missing of {column.n_rows}"
        raise InvalidParameterError(f"the target {name!r} must be known in every row", given, "Drop such rows.")
    if column.levels is not None and len(column.levels) == 1:
        given = f"{next(iter(column.levels))!r} in every row"
        raise InvalidParameterError(f"the target {name!r} must vary", given, "There is nothing to learn.")
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


KINDS: dict[str, Any] = {column.kind: column for column in (NumberColumn, CategoryColumn, DateColumn)}


def check_text(value: Any) -> str:
    """Return a name or a level, which must be a text."""
    if not isinstance(value, str):
        raise InvalidParameterError("a name must be a text", value, "Make the encoding anew from a table.")
    return value


def _check_number(name: str, value: Any, most: float = float(np.finfo(np.float64).max)) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= most:
        raise InvalidParameterError(f"{name} must be a number of at most {most:g} in size", value, "Make it anew.")


def _check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise InvalidParameterError(f"{name} must be True or False", value, "Make it anew.")
