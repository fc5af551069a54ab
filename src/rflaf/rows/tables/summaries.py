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
    names_identifier,
    reading_of_type,
    require_arrow,
    valid,
)
from .free_text import text_sample
from .moments import Moments, Order
from .pandas_notes import categorical_columns, index_columns
from .readings import READINGS, padded_numbers

MOST_COUNTED = 200_000  # different texts of a column; with more of them none are counted
MOST_CODES = 50_000  # the same for numbers in a column of texts
_MOST_NUMBERS = 100  # the same for columns of numbers that are no codes
MOST_SPARSE = 3  # numbers for each row of a running number, of which some rows are held out
_CLOSE = 2**16  # between whole numbers that are counted by place
_FIRST_TEXTS = 100  # on which a reading is tried before all others
_OTHER_READINGS = [name for name in READINGS if name not in ("number", "date")]


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
    table: Any,
    missing: Sequence[str] = MISSING,
    categories: Collection[str] = (),
    most: int | None = None,
    after: TableSummary | None = None,
) -> TableSummary:
    """Return the summary of an Arrow table or batch, or of a frame of another library.

    Numbers in ``categories`` are codes, whose levels are all counted, at most ``most`` of a column, as are identifiers.
    ``after`` is the summary of the rows before, to which this will be added: readings that they lack are not tried.

    >>> import pyarrow as pa
    >>> summary = summarise(pa.table({"age": ["31", "?", "45"]}))
    >>> summary.columns["age"].kind, (summary + summary).columns["age"].numbers.mean
    ('number', 38.0)
    """
    table = as_table(table, coded=True)
    about = table.schema.metadata or {}
    categorical = categorical_columns(about)
    limits = (MOST_COUNTED if most is None else most, MOST_CODES if most is None else min(most, MOST_CODES))
    columns = {}
    for name in table.column_names:
        values = clean(name, table[name], missing)
        declared = is_declared(table.schema.field(name)) or name in categorical
        counted = name in categories or declared or names_identifier(name)
        alive = None if after is None or name not in after.columns else after.columns[name].readings
        column = _summarise_column(values, counted, declared, limits, alive)
        columns[name] = replace(column, typed=reading_of_type(table[name].type))
    return TableSummary(columns, index_columns(about), about.get(b"delimiter") == b";")


def _summarise_column(
    values: Any, coded: bool, declared: bool, most: tuple[int, int], alive: Collection[str] | None
) -> ColumnSummary:
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
    return _summarise_texts(values, declared, (most[0], max(most) if coded else most[1]), alive)


def _levels_of_numbers(present: Any, most: int) -> dict[str, int] | None:
    """Count the levels of numbers if they are few; a look at the first rows saves most counts."""
    pa = require_arrow()
    if pa.compute.count_distinct(present.slice(0, 4 * _MOST_NUMBERS)).as_py() > most:
        return None
    counted = _close_counts(present) if pa.types.is_integer(present.type) else None
    values, counts = counted or pa.compute.value_counts(present).flatten()
    if len(values) > most:
        return None
    return dict(zip(as_texts(values).to_pylist(), counts.tolist(), strict=True))


def _close_counts(whole: Any) -> tuple[Any, Array] | None:
    """Return the different ones of whole numbers and how often each occurs; None if they are far from each other."""
    numbers = whole.to_numpy()
    low, high = (int(numbers.min()), int(numbers.max())) if numbers.size else (0, 0)
    if high - low >= _CLOSE or high > np.iinfo(np.int64).max:
        return None
    numbers = numbers.astype(np.int64, copy=False)  # short ones have no room for their differences
    counts = np.bincount(numbers - low if low else numbers)
    seen = np.flatnonzero(counts)
    return require_arrow().array(seen + low), counts[seen]


def _summarise_typed(values: Any, declared: bool, most: tuple[int, int]) -> ColumnSummary:
    """Summarise truth values or dates."""
    pa = require_arrow()
    present = values.drop_null()
    n_rows, n_missing, most = len(values), values.null_count, (min(_MOST_NUMBERS, most[0]), most[1])
    if not pa.types.is_boolean(values.type):
        dates = Moments.of(days_of(present))
        named = _levels_of_numbers(present, _MOST_NUMBERS)
        return ColumnSummary(n_rows, n_missing, dates=dates, texts=named, declared=declared, most=most)
    n_true = pa.compute.sum(present).as_py() or 0
    counts = {truth: count for truth, count in ((0, len(present) - n_true), (1, n_true)) if count}
    numbers = Moments.of(np.array([*counts], np.float64), np.array([*counts.values()]))
    codes = {("false", "true")[truth]: count for truth, count in counts.items()}
    return ColumnSummary(
        n_rows, n_missing, numbers, n_truths=len(present), codes=codes, declared=declared, most=most
    )  # fmt: skip


def _summarise_texts(
    values: Texts, declared: bool, most: tuple[int, int], alive: Collection[str] | None
) -> ColumnSummary:
    pa = require_arrow()
    texts = values.different
    counts = np.bincount(values.at + 1, minlength=len(texts) + 1)  # first those missing
    n_missing, counts = int(counts[0]), counts[1:]
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
        n_missing,
        moments,
        Moments.of(days_of(dates.drop_null()), counts[valid(dates)]),
        0,
        _readings(texts, counts, moments if is_number.all() else None, alive) if len(texts) else None,
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


def _readings(texts: Any, counts: Array, plain: Moments | None, alive: Collection[str] | None) -> dict[str, Moments]:
    """Return the moments under every other reading that all texts have; ``plain`` is of texts that are all numbers.

    Only those ``alive`` are tried, by default all.
    """
    compute = require_arrow().compute
    found: dict[str, Moments] = {}
    for name in _OTHER_READINGS:
        if alive is not None and name not in alive:
            continue
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
