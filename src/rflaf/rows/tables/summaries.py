"""What the columns of a table hold: counts, means, levels. Summaries of chunks add up to that of the whole table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError

from .cells import MISSING, as_table, clean, dates_among, days_of, numbers_among, require_arrow, valid

MOST_COUNTED = 10_000  # levels of a column; beyond it they are not told apart
_FEW_LEVELS, _ROWS_A_LEVEL = 20, 10  # numbers and texts mixed are taken for codes up to here


@dataclass(frozen=True, slots=True)
class Moments:
    """Number, mean and range of values, and whether all are whole numbers. Adds up over chunks."""

    count: int = 0
    mean: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    whole: bool = True

    @classmethod
    def of(cls, values: Array, counts: Array) -> Moments:
        """Of ``values`` (k,) that occur ``counts`` (k,) times."""
        if not values.size:
            return cls()
        low, high = float(values.min()), float(values.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            return cls(int(counts.sum()), math.nan, low, high, False)
        mean = low + float(np.sum((values - low) * (counts / counts.sum())))
        whole = bool(np.all(values == np.floor(values)))
        return cls(int(counts.sum()), min(max(mean, low), high), low, high, whole)

    def __add__(self, other: Moments) -> Moments:
        if not (self.count and other.count):
            return self if self.count else other
        count = self.count + other.count
        mean = self.mean + (other.mean - self.mean) * (other.count / count)
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Moments(count, min(max(mean, low), high), low, high, self.whole and other.whole)


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """What a chunk of a column holds; ``+`` is that of both chunks together.

    Attributes
    ----------
    n_rows, n_missing : rows, and those without a value
    numbers, dates : of the values that are numbers (truth values are 0 and 1), and dates in days since 1970
    n_truths : how many are truth values
    levels : how often each value occurs, as text; None beyond 10,000 different ones
    """

    n_rows: int = 0
    n_missing: int = 0
    numbers: Moments = field(default_factory=Moments)
    dates: Moments = field(default_factory=Moments)
    n_truths: int = 0
    levels: Mapping[str, int] | None = field(default_factory=dict)

    def __add__(self, other: ColumnSummary) -> ColumnSummary:
        return ColumnSummary(
            self.n_rows + other.n_rows,
            self.n_missing + other.n_missing,
            self.numbers + other.numbers,
            self.dates + other.dates,
            self.n_truths + other.n_truths,
            _add_levels(self.levels, other.levels),
        )

    @property
    def n_present(self) -> int:
        return self.n_rows - self.n_missing

    @property
    def kind(self) -> str:
        """ "empty", "number", "date", "category", or "mixed": numbers among too many texts to be codes."""
        if not self.n_present:
            return "empty"
        if self.numbers.count == self.n_present:
            return "number"
        if self.dates.count == self.n_present:
            return "date"
        codes = self.levels is not None and len(self.levels) <= min(_FEW_LEVELS, self.n_present / _ROWS_A_LEVEL)
        return "category" if codes or not self.numbers.count else "mixed"


def _add_levels(first: Mapping[str, int] | None, second: Mapping[str, int] | None) -> Mapping[str, int] | None:
    if first is None or second is None:
        return None
    total = dict(first)
    for level, count in second.items():
        total[level] = total.get(level, 0) + count
    return total if len(total) <= MOST_COUNTED else None


@dataclass(frozen=True, slots=True)
class TableSummary:
    """The summaries of the columns of a table, by name; ``+`` is that of the rows of both."""

    columns: Mapping[str, ColumnSummary]

    def __add__(self, other: TableSummary) -> TableSummary:
        if set(self.columns) != set(other.columns):
            raise InvalidParameterError(
                f"chunks of a table must have the same columns, {list(self.columns)}",
                list(other.columns),
                "Read them from one file.",
            )
        return TableSummary({name: summary + other.columns[name] for name, summary in self.columns.items()})

    @property
    def n_rows(self) -> int:
        return next(iter(self.columns.values())).n_rows if self.columns else 0


def summarise(table: Any, missing: Sequence[str] = MISSING) -> TableSummary:
    """The summary of an Arrow table or batch, or of a pandas or polars frame.

    >>> import pyarrow as pa
    >>> summary = summarise(pa.table({"age": ["31", "?", "45"]}))
    >>> summary.columns["age"].kind, (summary + summary).columns["age"].numbers.mean
    ('number', 38.0)
    """
    table = as_table(table)
    return TableSummary({name: _summarise_column(name, table[name], missing) for name in table.column_names})


def _summarise_column(name: str, column: Any, missing: Sequence[str]) -> ColumnSummary:
    pa = require_arrow()
    values = clean(name, column, missing)
    counted = pa.compute.value_counts(values.drop_null())
    levels, counts = counted.field(0), counted.field(1).to_numpy()
    numbers = numbers_among(levels)
    dates = dates_among(levels) if numbers.null_count else pa.nulls(len(levels), pa.timestamp("us"))
    truths = pa.types.is_boolean(levels.type)
    few = len(levels) <= MOST_COUNTED
    return ColumnSummary(
        len(values),
        values.null_count,
        Moments.of(numbers.drop_null().to_numpy(), counts[valid(numbers)]),
        Moments.of(days_of(dates.drop_null()), counts[valid(dates)]),
        int(counts.sum()) if truths else 0,
        dict(zip(levels.cast(pa.string()).to_pylist(), counts.tolist(), strict=True)) if few else None,
    )
