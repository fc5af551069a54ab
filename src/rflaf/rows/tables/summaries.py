"""Summaries of the columns of a table: counts, means, levels. Summaries of chunks add up to that of the whole table."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError

from .cells import (
    MISSING,
    Texts,
    as_floats,
    as_table,
    as_texts,
    clean,
    days_of,
    is_declared,
    n_missing,
    names_identifier,
    reading_of_type,
    require_arrow,
    valid,
)
from .free_text import text_sample
from .pandas_notes import categorical_columns, index_columns
from .readings import READINGS, padded_numbers

MOST_COUNTED = 200_000  # different texts of a column; with more of them none are counted
MOST_CODES = 50_000  # the same for numbers in a column of texts
_MOST_NUMBERS = 100  # the same for columns of numbers that are no codes
_SMALLEST = 1074  # floats are multiples of 2**-1074
MOST_SPARSE = 3  # numbers for each row of a running number, of which some rows are held out
_FIRST_TEXTS = 100  # on which a reading is tried before all others
_OTHER_READINGS = [name for name in READINGS if name not in ("number", "date")]


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
    def finite(self) -> bool:
        """Whether no value is infinite."""
        return not self.count or (math.isfinite(self.low) and math.isfinite(self.high))

    @property
    def mean(self) -> float:
        """The mean, correctly rounded; NaN among infinite values, 0 of none."""
        if not self.count:
            return 0.0
        return self.total / (self.count << _SMALLEST) if self.finite else math.nan


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
class Order:
    """Whether whole numbers rise from row to row, with the first and last of them."""

    first: float = math.nan
    last: float = math.nan
    rising: bool = True

    @classmethod
    def of(cls, values: Array) -> Order:
        if not values.size:
            return cls()
        rising = all(bool(np.all(np.diff(some) > 0)) for some in (values[:_FIRST_TEXTS], values))
        return cls(float(values[0]), float(values[-1]), rising)

    def __add__(self, other: Order) -> Order:
        if math.isnan(self.first) or math.isnan(other.first):
            return other if math.isnan(self.first) else self
        rising = self.rising and other.rising and other.first > self.last
        return Order(self.first, other.last, rising)


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """Summary of a chunk of a column; ``+`` is that of both chunks together.

    Attributes
    ----------
    numbers, dates : moments of the values that are plain numbers (truth values are 0 and 1), and ISO dates in days
    readings : moments under every other way to read the texts that all of them have; None before any text
    texts, codes : how often each value occurs that is no number, and each that is; None beyond ``most`` of them
    padded : numbers with leading zeros
    declared : whether the table says that the values are categories
    order : whether the values rise from row to row
    most : different texts and different numbers that are counted
    sample : some of the texts where they are too many to count
    typed : the reading of texts that say the same as the type of the values does, such as "truth"
    """

    n_rows: int = 0
    n_missing: int = 0
    numbers: Moments = field(default_factory=Moments)
    dates: Moments = field(default_factory=Moments)
    n_truths: int = 0
    readings: Mapping[str, Moments] | None = None
    texts: Mapping[str, int] | None = field(default_factory=dict)
    codes: Mapping[str, int] | None = field(default_factory=dict)
    padded: int = 0
    declared: bool = False
    order: Order = field(default_factory=Order)
    most: tuple[int, int] = (MOST_COUNTED, MOST_CODES)
    sample: tuple[str, ...] = ()
    typed: str = ""

    def __add__(self, other: ColumnSummary) -> ColumnSummary:
        most = (min(self.most[0], other.most[0]), min(self.most[1], other.most[1]))
        texts = _add_levels(self.texts, other.texts, most[0])
        return ColumnSummary(
            self.n_rows + other.n_rows,
            self.n_missing + other.n_missing,
            self.numbers + other.numbers,
            self.dates + other.dates,
            self.n_truths + other.n_truths,
            _add_readings(self.readings, other.readings),
            texts,
            _add_levels(self.codes, other.codes, most[1]),
            self.padded + other.padded,
            self.declared or other.declared,
            self.order + other.order,
            most,
            () if texts is not None else text_sample([*self.some_texts, *other.some_texts]),
            self.typed or other.typed,
        )

    @property
    def some_texts(self) -> Collection[str]:
        """The texts that are no numbers, or a sample of them where they are too many to count."""
        return self.sample if self.texts is None else self.texts

    @property
    def n_present(self) -> int:
        return self.n_rows - self.n_missing

    @property
    def levels(self) -> Mapping[str, int] | None:
        """How often each value occurs, as text; None where they were too many to count."""
        return None if self.texts is None or self.codes is None else {**self.texts, **self.codes}

    @property
    def is_running(self) -> bool:
        """Whether the values are whole numbers that rise from row to row with few gaps, as if to count rows."""
        return self.is_rising and self.numbers.high - self.numbers.low <= MOST_SPARSE * self.n_rows

    @property
    def is_rising(self) -> bool:
        """Whether the values are whole numbers, each above that of the row before."""
        rising = self.order.rising and not math.isnan(self.order.first)
        return rising and self.n_present == self.n_rows > 1 and self.numbers.whole

    @property
    def kind(self) -> str:
        """ "empty", "number", "date", or "category"; `rflaf.rows.tables.decisions` also knows other ways to read."""
        if not self.n_present:
            return "empty"
        if self.numbers.count == self.n_present:
            return "number"
        return "date" if self.dates.count == self.n_present else "category"


def _add_readings(
    first: Mapping[str, Moments] | None, second: Mapping[str, Moments] | None
) -> Mapping[str, Moments] | None:
    if first is None or second is None:
        return second if first is None else first
    return {name: moments + second[name] for name, moments in first.items() if name in second}


def _add_levels(
    first: Mapping[str, int] | None, second: Mapping[str, int] | None, most: int
) -> Mapping[str, int] | None:
    if first is None or second is None:
        return None
    if len(first) < len(second):
        first, second = second, first
    total = dict(first)
    for level, count in second.items():
        total[level] = total.get(level, 0) + count
    return total if len(total) <= most else None


@dataclass(frozen=True, slots=True)
class TableSummary:
    """The summaries of the columns of a table, by name; ``+`` is that of the rows of both.

    ``index`` are the columns that pandas stored as its index; ``commas`` says that the table is from a file whose
    cells are separated by semicolons, where a comma is likelier the point of a number.
    """

    columns: Mapping[str, ColumnSummary]
    index: frozenset[str] = frozenset()
    commas: bool = False

    def __add__(self, other: TableSummary) -> TableSummary:
        if set(self.columns) != set(other.columns):
            raise InvalidParameterError(
                f"chunks of a table must have the same columns, {list(self.columns)}",
                list(other.columns),
                "Read them from one file.",
            )
        columns = {name: summary + other.columns[name] for name, summary in self.columns.items()}
        return replace(self, columns=columns, index=self.index | other.index, commas=self.commas or other.commas)

    @property
    def n_rows(self) -> int:
        return next(iter(self.columns.values())).n_rows if self.columns else 0

    def without_gaps(self, name: str) -> TableSummary:
        """Return the summary with that of a column over the rows where it is known."""
        column = self.columns[name]
        known = replace(column, n_rows=column.n_present, n_missing=0)
        return replace(self, columns={**self.columns, name: known})

    def select(self, names: Collection[str]) -> TableSummary:
        """Return the summary of some columns."""
        return replace(self, columns={name: self.columns[name] for name in names})


def summarise(
    table: Any, missing: Sequence[str] = MISSING, categories: Collection[str] = (), most: int | None = None
) -> TableSummary:
    """Return the summary of an Arrow table or batch, or of a frame of another library.

    Numbers in ``categories`` are codes, whose levels are all counted, at most ``most`` of a column, as are identifiers.

    >>> import pyarrow as pa
    >>> summary = summarise(pa.table({"age": ["31", "?", "45"]}))
    >>> summary.columns["age"].kind, (summary + summary).columns["age"].numbers.mean
    ('number', 38.0)
    """
    table = as_table(table)
    about = table.schema.metadata or {}
    categorical = categorical_columns(about)
    limits = (MOST_COUNTED if most is None else most, MOST_CODES if most is None else min(most, MOST_CODES))
    columns = {}
    for name in table.column_names:
        values, declared = clean(name, table[name], missing), is_declared(table[name].type) or name in categorical
        counted = name in categories or declared or names_identifier(name)
        column = _summarise_column(values, counted, declared, limits)
        columns[name] = replace(column, typed=reading_of_type(table[name].type))
    return TableSummary(columns, index_columns(about), about.get(b"delimiter") == b";")


def _summarise_column(values: Any, coded: bool, declared: bool, most: tuple[int, int]) -> ColumnSummary:
    types = require_arrow().types
    if not isinstance(values, Texts) and (types.is_integer(values.type) or types.is_floating(values.type)):
        present = values.drop_null()
        floats = as_floats(present).to_numpy(zero_copy_only=False)
        moments, limit = Moments.of(floats), MOST_COUNTED if coded else _MOST_NUMBERS
        codes = _levels_of_numbers(present, limit)
        order = Order.of(floats) if moments.whole and not values.null_count else Order()
        return ColumnSummary(
            len(values), values.null_count, moments, codes=codes, order=order, declared=declared, most=(most[0], limit)
        )
    if not isinstance(values, Texts):
        return _summarise_typed(values, declared, most)
    return _summarise_texts(values, declared, (most[0], max(most) if coded else most[1]))


def _levels_of_numbers(present: Any, most: int) -> dict[str, int] | None:
    """Count the levels of numbers if they are few; a look at the first rows saves most counts."""
    compute = require_arrow().compute
    for values in (present.slice(0, 4 * _MOST_NUMBERS), present):
        if compute.count_distinct(values).as_py() > most:
            return None
    counted = compute.value_counts(present)
    return dict(zip(as_texts(counted.field(0)).to_pylist(), counted.field(1).to_pylist(), strict=True))


def _summarise_typed(values: Any, declared: bool, most: tuple[int, int]) -> ColumnSummary:
    """Summarise truth values or dates."""
    pa = require_arrow()
    present, truths = values.drop_null(), pa.types.is_boolean(values.type)
    numbers = as_floats(present).to_numpy(zero_copy_only=False) if truths else np.empty(0)
    named = _levels_of_numbers(present, _MOST_NUMBERS)
    return ColumnSummary(
        len(values),
        values.null_count,
        Moments.of(numbers),
        Moments() if truths else Moments.of(days_of(present)),
        len(present) if truths else 0,
        texts={} if truths else named,
        codes=named if truths else {},
        declared=declared,
        most=(min(_MOST_NUMBERS, most[0]), most[1]),
    )


def _summarise_texts(values: Texts, declared: bool, most: tuple[int, int]) -> ColumnSummary:
    pa = require_arrow()
    texts, counts = values.different, np.bincount(values.at[values.at >= 0], minlength=len(values.different))
    numbers = READINGS["number"].parse(texts)
    is_number = valid(numbers)
    dates = READINGS["date"].parse(texts) if not is_number.all() else pa.nulls(len(texts), pa.timestamp("us"))
    padded = padded_numbers(texts) & is_number
    moments = Moments.of(numbers.drop_null().to_numpy(), counts[is_number])
    unique = len(texts) == len(values) and is_number.all()
    in_order = numbers.to_numpy(zero_copy_only=False)[values.at] if unique and moments.whole else np.empty(0)
    named = _named(texts, counts, ~is_number | padded, most[0])
    return ColumnSummary(
        len(values),
        n_missing(values),
        moments,
        Moments.of(days_of(dates.drop_null()), counts[valid(dates)]),
        0,
        _readings(texts, counts, moments if is_number.all() else None) if len(texts) else None,
        named,
        _named(texts, counts, is_number & ~padded, most[1]),
        int(counts[padded].sum()),
        declared,
        Order.of(in_order) if unique else Order(0.0, 0.0, False) if len(values) else Order(),
        most,
        () if named is not None else text_sample(texts.filter(pa.array(~is_number | padded)).to_pylist()),
    )


def _named(texts: Any, counts: Array, chosen: Array, most: int) -> dict[str, int] | None:
    if int(chosen.sum()) > most:
        return None
    at = np.flatnonzero(chosen)
    return dict(zip(texts.take(require_arrow().array(at)).to_pylist(), counts[at].tolist(), strict=True))


def _readings(texts: Any, counts: Array, plain: Moments | None) -> dict[str, Moments]:
    """Return the moments under every other reading that all texts have; ``plain`` is of texts that are all numbers."""
    compute = require_arrow().compute
    found: dict[str, Moments] = {}
    for name in _OTHER_READINGS:
        no_point = (
            name == "1.234,50" and plain is not None and not compute.any(compute.match_substring(texts, ".")).as_py()
        )
        if plain is not None and plain.finite and (name == "1,234.50" or no_point):
            found[name] = plain  # a plain number is one of these too
            continue
        parse = READINGS[name].parse
        if parse(texts.slice(0, _FIRST_TEXTS)).null_count:
            continue
        values = parse(texts)
        if not values.null_count:
            numbers = days_of(values) if READINGS[name].kind == "date" else values.to_numpy()
            found[name] = Moments.of(numbers, counts)
    return found
