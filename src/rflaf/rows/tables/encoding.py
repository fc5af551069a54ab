"""The encoding of a table as an array: the columns used, the columns left out, and why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError

from .cells import MISSING, as_table, clean, find_column, is_number, refuse_repeated
from .columns import KINDS, CategoryColumn, ColumnEncoding, DateColumn, NumberColumn, check_text
from .summaries import MOST_COUNTED, ColumnSummary, TableSummary

_MOST_LEVELS = 50  # levels with a column of their own


@dataclass(frozen=True, slots=True)
class Dropped:
    """A column that was left out, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class TableEncoding:
    """Turns a table into an array, as plain data.

    Attributes
    ----------
    columns : how each column used is encoded, in the order of the array
    dropped : the columns left out
    missing : texts that stand for nothing

    >>> import pyarrow as pa
    >>> from rflaf.rows.tables import summarise
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
        """Return a table with these columns, in any order and among others, as an array (n_rows, n_features)."""
        table = as_table(table)
        absent = [name for name in self.column_names if name not in table.column_names]
        if absent:
            listed = ", ".join(map(repr, absent)) + (" is" if len(absent) == 1 else " are")
            raise InvalidParameterError(
                f"the table must have the columns the model was fitted to; {listed} missing",
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
        """Return plain values, fit for JSON; `from_dict` takes them back."""
        columns = []
        for column in self.columns:
            fields = {name: getattr(column, name) for name in KINDS[column.kind].__dataclass_fields__}
            plain = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
            columns.append({"kind": column.kind} | plain)
        dropped = [[left.name, left.reason] for left in self.dropped]
        return {"columns": columns, "dropped": dropped, "missing": list(self.missing)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> TableEncoding:
        """Return the encoding of `to_dict`; refuse anything else."""
        try:
            columns = tuple(_column_from(dict(column)) for column in plain["columns"])
            dropped = tuple(Dropped(check_text(name), check_text(reason)) for name, reason in plain["dropped"])
            encoding = cls(columns, dropped, tuple(check_text(word) for word in plain["missing"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidParameterError(
                "an encoding must be what to_dict gives", str(error), "Make it anew from a table."
            ) from error
        refuse_repeated(encoding.column_names)
        return encoding


def make_encoding(
    summary: TableSummary, exclude: Iterable[str] = (), categories: Iterable[str] = (), missing: Sequence[str] = MISSING
) -> TableEncoding:
    """Return the encoding of a table that was summarised.

    ``exclude`` are columns to leave out, the target among them; ``categories`` those whose numbers are codes.
    """
    exclude, categories = set(exclude), set(categories)
    for name in exclude | categories:
        find_column(name, list(summary.columns))
    inputs = {name: column for name, column in summary.columns.items() if name not in exclude}
    columns: list[ColumnEncoding] = []
    dropped: list[Dropped] = []
    for name, column in inputs.items():
        reason = _useless(column, name in categories)
        if reason is None:
            columns.append(_encode(name, column, name in categories))
        else:
            dropped.append(Dropped(name, reason))
    if not columns:
        reasons = [f"{left.name}: {left.reason}" for left in dropped]
        raise InvalidParameterError("a table must have a column to learn from", reasons, "Add columns that vary.")
    return TableEncoding(tuple(columns), tuple(dropped), tuple(missing))


def _useless(column: ColumnSummary, coded: bool) -> str | None:
    """Return why a column is uninformative, or None."""
    if column.kind == "empty":
        return "every value is missing"
    if column.levels is not None and len(column.levels) == 1 and not column.n_missing:
        return "it is constant"
    if column.kind == "category" or coded:
        if column.levels is None:
            return f"it has more than {MOST_COUNTED} different texts"
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
        odd = next((level for level in column.levels or () if not is_number(level)), "texts")
        remedy = "Say that it stands for a missing value, or that the column holds categories."
        raise InvalidParameterError(f"column {name!r} must hold numbers or texts, not both", odd, remedy)
    counts = column.levels or {}
    by_count = sorted(counts, key=lambda level: (-counts[level], level))
    return CategoryColumn(name, tuple(sorted(by_count[:_MOST_LEVELS])), len(by_count) > _MOST_LEVELS, gaps)


def _column_from(plain: dict[str, Any]) -> ColumnEncoding:
    column = KINDS[check_text(plain.pop("kind"))]
    if "levels" in plain:
        plain["levels"] = tuple(plain["levels"])
    built: ColumnEncoding = column(**plain)
    return built
