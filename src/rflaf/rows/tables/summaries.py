"""Summaries of the columns of a table: counts, means, levels. Summaries of chunks add up to that of the whole table."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError

from .cells import MISSING, as_table, clean, dates_among, days_of, numbers_among, require_arrow, valid

MOST_COUNTED = 10_000  # levels of a column; with more of them none are counted
_MOST_NUMBERS = 100  # the same for columns of numbers that are no codes
_FEW_LEVELS, _ROWS_A_LEVEL = 20, 10  # numbers and texts mixed count as codes up to here
_SMALLEST = 1074  # floats are multiples of 2**-1074


@dataclass(frozen=True, slots=True)
class Moments:
    """Number, total and range of values, and whether all are whole numbers. Adds up over chunks.

    ``total`` is exact, in units of 2**-1074, so the mean depends neither on the chunks nor on their order.
    """

    count: int = 0
    total: int = 0
    low: float = math.inf
    high: float = -math.inf
    whole: bool = True

    @classmethod
    def of(cls, values: Array, counts: Array | None = None) -> Moments:
        """Return the moments of ``values`` (k,) that occur ``counts`` (k,) times, once by default."""
        if not values.size:
            return cls()
        count = values.size if counts is None else int(counts.sum())
        low, high = float(values.min()), float(values.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            return cls(count, 0, low, high, False)
        return cls(count, _exact_total(values, counts), low, high, bool(np.all(values == np.floor(values))))

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.count + other.count,
            self.total + other.total,
            min(self.low, other.low),
            max(self.high, other.high),
            self.whole and other.whole,
        )

    @property
    def mean(self) -> float:
        """The mean, correctly rounded; NaN among infinite values, 0 of none."""
        if not self.count:
            return 0.0
        finite = math.isfinite(self.low) and math.isfinite(self.high)
        return self.total / (self.count << _SMALLEST) if finite else math.nan


def _exact_total(values: Array, counts: Array | None) -> int:
    """Return the exact sum of values times counts, of at most 2**26 rows, in units of 2**-1074.

    Halves of the mantissas, 27 bits each, are summed per exponent: floats hold these sums without rounding.
    """
    mantissa, exponent = np.frexp(np.asarray(values, np.float64))
    whole, shift = np.ldexp(mantissa, 53).astype(np.int64), exponent.astype(np.int64) - 53 + _SMALLEST
    whole >>= np.maximum(-shift, 0)  # zeros of numbers below the normal ones
    shift = np.maximum(shift, 0)
    total = 0
    for bits, half in ((27, whole >> 27), (0, whole & (2**27 - 1))):
        sums = np.bincount(shift, half if counts is None else half * counts)
        total += sum(int(sums[at]) << (int(at) + bits) for at in np.flatnonzero(sums))
    return total


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """Summary of a chunk of a column; ``+`` is that of both chunks together.

    ``numbers`` and ``dates`` are of the values that are numbers (truth values are 0 and 1), and dates in days since
    1970; ``levels`` says how often each value occurs, as text, None beyond 10,000 different ones, or 100 numbers;
    ``counted``, whether all levels count, not only those of few numbers.
    """

    n_rows: int = 0
    n_missing: int = 0
    numbers: Moments = field(default_factory=Moments)
    dates: Moments = field(default_factory=Moments)
    n_truths: int = 0
    levels: Mapping[str, int] | None = field(default_factory=dict)
    counted: bool = True

    def __add__(self, other: ColumnSummary) -> ColumnSummary:
        counted = self.counted and other.counted
        return ColumnSummary(
            self.n_rows + other.n_rows,
            self.n_missing + other.n_missing,
            self.numbers + other.numbers,
            self.dates + other.dates,
            self.n_truths + other.n_truths,
            _add_levels(self.levels, other.levels, MOST_COUNTED if counted else _MOST_NUMBERS),
            counted,
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


def _add_levels(
    first: Mapping[str, int] | None, second: Mapping[str, int] | None, most: int
) -> Mapping[str, int] | None:
    if first is None or second is None:
        return None
    total = dict(first)
    for level, count in second.items():
        total[level] = total.get(level, 0) + count
    return total if len(total) <= most else None


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


def summarise(table: Any, missing: Sequence[str] = MISSING, categories: Collection[str] = ()) -> TableSummary:
    """Return the summary of an Arrow table or batch, or of a pandas or polars frame.

    Numbers in ``categories`` are codes, whose levels are all counted.

    >>> import pyarrow as pa
    >>> summary = summarise(pa.table({"age": ["31", "?", "45"]}))
    >>> summary.columns["age"].kind, (summary + summary).columns["age"].numbers.mean
    ('number', 38.0)
    """
    table = as_table(table)
    columns = {name: clean(name, table[name], missing) for name in table.column_names}
    return TableSummary({name: _summarise_column(values, name in categories) for name, values in columns.items()})


def _summarise_column(values: Any, coded: bool) -> ColumnSummary:
    types, present = require_arrow().types, values.drop_null()
    if (types.is_integer(values.type) or types.is_floating(values.type)) and not coded:
        numbers = Moments.of(present.cast("float64").to_numpy(zero_copy_only=False))
        return ColumnSummary(len(values), values.null_count, numbers, levels=_levels_of_numbers(present), counted=False)
    return _summarise_levels(values)


def _levels_of_numbers(present: Any) -> dict[str, int] | None:
    """Count the levels of numbers if they are few; a look at the first rows saves most counts."""
    compute = require_arrow().compute
    for values in (present.slice(0, 4 * _MOST_NUMBERS), present):
        if compute.count_distinct(values).as_py() > _MOST_NUMBERS:
            return None
    counted = compute.value_counts(present)
    return dict(zip(counted.field(0).cast("string").to_pylist(), counted.field(1).to_pylist(), strict=True))


def _summarise_levels(values: Any) -> ColumnSummary:
    pa = require_arrow()
    counted = pa.compute.value_counts(values.drop_null())
    levels, counts = counted.field(0), counted.field(1).to_numpy()
    numbers = numbers_among(levels)
    dates = dates_among(levels) if numbers.null_count else pa.nulls(len(levels), pa.timestamp("us"))
    few = len(levels) <= MOST_COUNTED
    texts = dict(zip(levels.cast("string").to_pylist(), counts.tolist(), strict=True)) if few else None
    return ColumnSummary(
        len(values),
        values.null_count,
        Moments.of(numbers.drop_null().to_numpy(), counts[valid(numbers)]),
        Moments.of(days_of(dates.drop_null()), counts[valid(dates)]),
        int(counts.sum()) if pa.types.is_boolean(levels.type) else 0,
        texts,
    )
