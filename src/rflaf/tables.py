"""Tables of mixed columns as matrices: numbers, categories, truth values, dates and what is missing.

First every column is summed up (`summarise`): counts, means, levels. Summaries of chunks add up to that of the whole
table, so a file read once in pieces and a frame in memory are encoded alike. From the summary follows a
`TableEncoding`, plain data that turns any table with these columns into an array:

| a column of | becomes |
| --- | --- |
| numbers, truth values | itself, its mean where missing; a second column says where, if anything was missing |
| two levels | 0 or 1; 0.5 where missing or never seen before |
| more levels | one column a level; the rarest beyond 50 share one, which also takes what was never seen before |
| dates (ISO 8601) | days since 1970, day of the year, day of the week, and the hour where there are any |
| one value, nothing, identifiers | nothing, with the reason in ``dropped`` |

Where a level is missing it has a column of its own if that was seen before; what has no column is zero in all of them.

This is scikit-learn's ``ColumnTransformer`` of ``SimpleImputer`` and ``OneHotEncoder``, and tested to be equal to it,
but computed by Arrow: those take categories from arrays of Python objects, several times slower, and learn them from
all rows at once. Needs the extra ``files``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidParameterError, MissingExtraError

Array = NDArray[Any]
MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL")  # texts that stand for nothing
_MOST_COUNTED = 10_000  # levels of a column; beyond it they are not told apart
_MOST_LEVELS = 50  # levels with a column of their own
_FEW_LEVELS, _ROWS_A_LEVEL = 20, 10  # numbers and texts mixed are taken for codes up to here
_MOST_WHOLE_CLASSES = 10  # whole numbers with at most so many values are taken for classes
_MICROSECONDS_A_DAY = 86_400_000_000
_NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf|infinity))$"
_DATE = r"^\d{4}-\d{2}-\d{2}([ T]\d{2}(:\d{2}(:\d{2}(\.\d{1,6})?)?)?)?$"


def require_arrow() -> Any:
    """``pyarrow`` with its compute functions, or an error that names the extra to install."""
    try:
        import pyarrow as pa
        import pyarrow.compute
    except ImportError as error:
        raise MissingExtraError("tables of mixed columns", "pyarrow", "files") from error
    return pa


def as_table(table: Any) -> Any:
    """An Arrow table of an Arrow table or batch, or of a pandas or polars frame; column names are texts and differ."""
    pa = require_arrow()
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if not isinstance(table, pa.Table):
        try:
            framed = hasattr(table, "iloc")  # pandas: its index is no column
            table = pa.Table.from_pandas(table, preserve_index=False) if framed else pa.table(table)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InvalidParameterError(
                "a column must hold values of one kind",
                "; ".join(map(str, error.args)),
                "Make it all text, or numbers.",
            ) from error
    refuse_repeated(table.column_names)
    return table


def refuse_repeated(names: Sequence[str]) -> None:
    """Column names must differ."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidParameterError("column names must differ", repeated, "Rename or drop the repeated columns.")


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
    return total if len(total) <= _MOST_COUNTED else None


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
    numbers = _numbers_among(levels)
    dates = _dates_among(levels) if numbers.null_count else pa.nulls(len(levels), pa.timestamp("us"))
    truths = pa.types.is_boolean(levels.type)
    few = len(levels) <= _MOST_COUNTED
    return ColumnSummary(
        len(values),
        values.null_count,
        Moments.of(numbers.drop_null().to_numpy(), counts[_valid(numbers)]),
        Moments.of(_days(dates.drop_null()), counts[_valid(dates)]),
        int(counts.sum()) if truths else 0,
        dict(zip(levels.cast(pa.string()).to_pylist(), counts.tolist(), strict=True)) if few else None,
    )


def clean(name: str, column: Any, missing: Sequence[str] = MISSING) -> Any:
    """A column as one Arrow array of truth values, numbers, dates or trimmed text, empty where something is missing."""
    pa = require_arrow()
    types, compute = pa.types, pa.compute
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kind = values.type
    if types.is_null(kind):
        return values.cast(pa.float64())
    if types.is_boolean(kind):
        return values
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _without_nan(values if types.is_integer(kind) else values.cast(pa.float64()))
    if types.is_temporal(kind) and not (types.is_time(kind) or types.is_duration(kind) or types.is_interval(kind)):
        return values.cast(pa.timestamp("us", tz=kind.tz if types.is_timestamp(kind) else None), safe=False).cast(
            pa.timestamp("us")
        )
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        trimmed = compute.utf8_trim_whitespace(values.cast(pa.string()))
        return compute.if_else(compute.is_in(trimmed, pa.array(missing, pa.string())), None, trimmed)
    raise InvalidParameterError(
        f"column {name!r} must hold numbers, texts, truth values or dates", str(kind), "Drop or convert it."
    )


def _valid(values: Any) -> Array:
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False), bool)


def _numbers_among(values: Any) -> Any:
    """Numbers as float64, nothing where a value is none."""
    pa = require_arrow()
    if pa.types.is_string(values.type):
        return _parsed(values, _NUMBER, pa.float64())
    return pa.nulls(len(values), pa.float64()) if pa.types.is_timestamp(values.type) else values.cast(pa.float64())


def _dates_among(values: Any) -> Any:
    """Dates, nothing where a value is none."""
    pa = require_arrow()
    if pa.types.is_string(values.type):
        return _parsed(values, _DATE, pa.timestamp("us"))
    return values if pa.types.is_timestamp(values.type) else pa.nulls(len(values), pa.timestamp("us"))


def _parsed(texts: Any, pattern: str, kind: Any) -> Any:
    """Texts as values of a kind, nothing where one is none: not of the pattern, or 30 February."""
    pa = require_arrow()
    try:
        values = texts.cast(kind)
    except pa.ArrowInvalid:
        alike = pa.compute.if_else(pa.compute.match_substring_regex(texts, pattern), texts, None)
        try:
            return alike.cast(kind)
        except pa.ArrowInvalid:
            return pa.array([_value_or_none(text, kind) for text in alike], kind)
    return _without_nan(values)


def _without_nan(values: Any) -> Any:
    pa = require_arrow()
    return pa.compute.if_else(pa.compute.is_nan(values), None, values) if pa.types.is_floating(values.type) else values


def _value_or_none(text: Any, kind: Any) -> Any:
    pa = require_arrow()
    try:
        return text.cast(kind).as_py()
    except pa.ArrowInvalid:
        return None


def _days(dates: Any) -> Array:
    """Days since 1970 with their fractions, of an array of dates without gaps."""
    return np.asarray(dates.cast("int64").to_numpy() / _MICROSECONDS_A_DAY, np.float64)


class ColumnEncoding(Protocol):
    """How one column becomes some columns of numbers."""

    kind: ClassVar[str]

    @property
    def name(self) -> str: ...

    @property
    def feature_names(self) -> tuple[str, ...]: ...

    def write(self, values: Any, out: Array) -> None:
        """Write cleaned ``values`` (n_rows) to ``out`` (n_rows, n_features), which holds zeros."""
        ...


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A number, ``fill`` where it is missing, and, if ``indicator``, whether it was."""

    kind: ClassVar[str] = "number"
    name: str
    fill: float
    indicator: bool

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_number("fill", self.fill)
        _check_flag("indicator", self.indicator)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return (self.name, f"{self.name} missing") if self.indicator else (self.name,)

    def write(self, values: Any, out: Array) -> None:
        numbers = _numbers_among(values)
        _refuse_others(self.name, values, numbers, "numbers")
        column = numbers.to_numpy(zero_copy_only=False)
        gaps = np.isnan(column)
        out[:, 0] = np.where(gaps, self.fill, column) if gaps.any() else column
        if self.indicator:
            out[:, 1] = gaps


@dataclass(frozen=True, slots=True)
class CategoryColumn:
    """A level out of ``levels``; ``others`` and ``missing`` tell whether those have a column of their own."""

    kind: ClassVar[str] = "category"
    name: str
    levels: tuple[str, ...]
    others: bool
    missing: bool

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not (isinstance(self.levels, tuple) and self.levels and len(set(self.levels)) == len(self.levels)):
            raise InvalidParameterError("levels must be different texts, at least one", self.levels, "Name them.")
        for level in self.levels:
            _check_name(level)
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
        pa = require_arrow()
        texts = values.cast(pa.string())
        code = pa.compute.index_in(texts, pa.array(self.levels, pa.string())).fill_null(-1).to_numpy()
        if self._two:
            out[:, 0] = np.where(code < 0, 0.5, code)
            return
        gaps = ~_valid(texts)
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
        _check_name(self.name)
        _check_number("fill", self.fill, 3e6)  # the years that dates are told apart in
        _check_flag("hours", self.hours)
        _check_flag("indicator", self.indicator)

    @property
    def feature_names(self) -> tuple[str, ...]:
        parts = ["days", "day of year", "day of week", *["hour"] * self.hours, *["missing"] * self.indicator]
        return tuple(f"{self.name} {part}" for part in parts)

    def write(self, values: Any, out: Array) -> None:
        pa = require_arrow()
        found = _dates_among(values)
        _refuse_others(self.name, values, found, "dates such as 2024-02-29")
        gaps = ~_valid(found)
        dates = found.fill_null(pa.scalar(round(self.fill * _MICROSECONDS_A_DAY), pa.timestamp("us")))
        days = _days(dates)
        out[:, 0] = days
        out[:, 1] = pa.compute.day_of_year(dates).to_numpy()
        out[:, 2] = pa.compute.day_of_week(dates).to_numpy()
        if self.hours:
            out[:, 3] = (days - np.floor(days)) * 24
        if self.indicator:
            out[:, -1] = gaps


_KINDS: dict[str, Any] = {column.kind: column for column in (NumberColumn, CategoryColumn, DateColumn)}


@dataclass(frozen=True, slots=True)
class Dropped:
    """A column that was left out, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class TableEncoding:
    """How a table becomes an array, as plain data.

    Attributes
    ----------
    columns : how each column used is encoded, in the order of the array
    dropped : the columns left out
    missing : texts that stand for nothing

    >>> import pyarrow as pa
    >>> table = pa.table({"age": [31.0, None, 45.0], "pet": ["cat", "dog", "cat"]})
    >>> encoding = make_encoding(summarise(table))
    >>> encoding.feature_names
    ('age', 'age missing', 'pet=dog')
    >>> encoding.transform(table)
    array([[31.,  0.,  0.],
           [38.,  1.,  1.],
           [45.,  0.,  0.]])
    """

    columns: tuple[ColumnEncoding, ...]
    dropped: tuple[Dropped, ...] = ()
    missing: tuple[str, ...] = MISSING

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns a table must have."""
        return tuple(column.name for column in self.columns)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of the array."""
        return tuple(name for column in self.columns for name in column.feature_names)

    def transform(self, table: Any, dtype: Any = np.float64) -> Array:
        """A table with these columns, in any order and among others, as an array (n_rows, n_features)."""
        table = as_table(table)
        absent = [name for name in self.column_names if name not in table.column_names]
        if absent:
            raise InvalidParameterError(
                f"the table must have the columns the model was fitted to; {_listed(absent)} missing",
                table.column_names,
                "Columns are found by name, in any order.",
            )
        out = np.zeros((table.num_rows, len(self.feature_names)), dtype)
        start = 0
        for column in self.columns:
            stop = start + len(column.feature_names)
            column.write(clean(column.name, table[column.name], self.missing), out[:, start:stop])
            start = stop
        return out

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON; `from_dict` takes them back."""
        columns = [
            {"kind": column.kind} | {name: _plain(getattr(column, name)) for name in _fields(type(column))}
            for column in self.columns
        ]
        dropped = [[left.name, left.reason] for left in self.dropped]
        return {"columns": columns, "dropped": dropped, "missing": list(self.missing)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> TableEncoding:
        """The encoding of `to_dict`; whatever is not one is refused."""
        try:
            columns = tuple(_column_from(dict(column)) for column in plain["columns"])
            dropped = tuple(Dropped(_text(name), _text(reason)) for name, reason in plain["dropped"])
            encoding = cls(columns, dropped, tuple(_text(word) for word in plain["missing"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidParameterError(
                "an encoding must be what to_dict gives", str(error), "Make it anew from a table."
            ) from error
        refuse_repeated(encoding.column_names)
        return encoding


def make_encoding(
    summary: TableSummary,
    exclude: Iterable[str] = (),
    categories: Iterable[str] = (),
    missing: Sequence[str] = MISSING,
) -> TableEncoding:
    """The encoding of a table that was summed up.

    ``exclude`` are columns to leave out, the target among them; ``categories`` those whose numbers are codes.
    """
    exclude, categories = set(exclude), set(categories)
    for name in exclude | categories:
        find_column(name, list(summary.columns))
    inputs = TableSummary({name: column for name, column in summary.columns.items() if name not in exclude})
    columns, dropped = encode_columns(inputs, categories)
    if not columns:
        raise InvalidParameterError(
            "a table must have a column to learn from", [f"{left.name}: {left.reason}" for left in dropped],
            "Add columns that vary.",
        )  # fmt: skip
    return TableEncoding(tuple(columns), tuple(dropped), tuple(missing))


def encode_columns(
    summary: TableSummary, categories: Collection[str] = ()
) -> tuple[list[ColumnEncoding], list[Dropped]]:
    """The encodings of columns that have something to say, and those that do not, with the reason."""
    columns: list[ColumnEncoding] = []
    dropped: list[Dropped] = []
    for name, column in summary.columns.items():
        reason = _useless(column, name in categories)
        if reason is None:
            columns.append(_encode(name, column, name in categories))
        else:
            dropped.append(Dropped(name, reason))
    return columns, dropped


def _useless(column: ColumnSummary, coded: bool) -> str | None:
    """Why a column has nothing to say, or None."""
    if column.kind == "empty":
        return "every value is missing"
    if column.levels is not None and len(column.levels) == 1 and not column.n_missing:
        return "it is constant"
    if column.kind == "category" or coded:
        if column.levels is None:
            return f"it has more than {_MOST_COUNTED} different texts"
        if len(column.levels) > max(_MOST_LEVELS, column.n_present / 2):
            return "most of its texts occur once"
    return None


def _encode(name: str, column: ColumnSummary, coded: bool) -> ColumnEncoding:
    kind, gaps = "category" if coded else column.kind, column.n_missing > 0
    if kind == "number":
        if not (math.isfinite(column.numbers.low) and math.isfinite(column.numbers.high)):
            raise InvalidParameterError(
                f"numbers of column {name!r} must be finite", "an infinite one", "Leave such values empty."
            )
        return NumberColumn(name, column.numbers.mean, gaps)
    if kind == "date":
        return DateColumn(name, column.dates.mean, not column.dates.whole, gaps)
    if kind == "mixed":
        odd = next((level for level in column.levels or () if not _is_number(level)), "texts")
        raise InvalidParameterError(
            f"column {name!r} must hold numbers or texts, not both",
            odd,
            "Say that it stands for a missing value, or that the column holds categories.",
        )
    counts = column.levels or {}
    by_count = sorted(counts, key=lambda level: (-counts[level], level))
    return CategoryColumn(name, tuple(sorted(by_count[:_MOST_LEVELS])), len(by_count) > _MOST_LEVELS, gaps)


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
        """The targets (n_rows,): float64 of a regression, labels as they are of a classification."""
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
        numbers = _numbers_among(values)
        _refuse_others(self.name, values, numbers, "numbers")
        answer = numbers.to_numpy(zero_copy_only=False)
        return answer.astype(np.int64) if self.values == "whole" and self.task == "classification" else answer


def make_target(summary: TableSummary, name: str, task: str = "auto") -> TargetEncoding:
    """The target called ``name``, or its column number, for a task: "regression", "classification" or "auto".

    "auto" is classification for texts, truth values and whole numbers of at most ten different values.

    >>> import pyarrow as pa
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


def find_column(name: str, names: Sequence[str]) -> str:
    """The column called ``name``, or else the one of that number, counted from 0 or, if negative, from the end.

    >>> find_column("-1", ["a", "b"])
    'b'
    """
    if name in names:
        return name
    try:
        return names[int(name)]
    except (ValueError, IndexError):
        raise InvalidParameterError(
            f"the table must have the column {name!r}", list(names), "Give a name or a number, counted from 0."
        ) from None


def _refuse_others(name: str, values: Any, found: Any, what: str) -> None:
    """Every value must have been found to be a number, or a date."""
    if found.null_count > values.null_count:
        at = int(np.flatnonzero(_valid(values) & ~_valid(found))[0])
        raise InvalidParameterError(
            f"column {name!r} must hold {what}", values[at].as_py(), "Leave it empty where there is none."
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names) + (" is" if len(names) == 1 else " are")


def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(kind.__dataclass_fields__)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _column_from(plain: dict[str, Any]) -> ColumnEncoding:
    column = _KINDS[_text(plain.pop("kind"))]
    if "levels" in plain:
        plain["levels"] = tuple(plain["levels"])
    built: ColumnEncoding = column(**plain)
    return built


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidParameterError("a name must be a text", value, "Make the encoding anew from a table.")
    return value


_check_name = _text


def _check_number(name: str, value: Any, most: float = float(np.finfo(np.float64).max)) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= most:
        raise InvalidParameterError(f"{name} must be a number of at most {most:g} in size", value, "Make it anew.")


def _check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise InvalidParameterError(f"{name} must be True or False", value, "Make it anew.")
