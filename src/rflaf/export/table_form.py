"""The encoding of a table as plain numbers: what programs in other languages do to a row before the model.

A row has one field for every column of the table:

| a column of | its field | missing |
| --- | --- | --- |
| numbers, truth values | a number | NaN, null |
| levels | a text | a text for a missing value such as "", null |
| dates | days since 1970, with their fraction | NaN, null |

Every text leads to a row of numbers, whatever the encoding makes of it: the words it knows are encoded once, here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.rows.tables import CategoryColumn, DateColumn, NumberColumn, TableEncoding, TextColumn, Year, require_arrow

# Words that some language keeps for itself.
_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """abstract alignas alignof as asm assert async atomic auto await become bool boolean box break byte
        case catch chan char class complex const continue crate default defer delete do double dyn else enum
        eval export extends extern fallthrough false final finally float fn for func function go goto if
        impl implements import in inline instanceof int interface let long loop macro map match mod move mut
        native new nil null operator override package priv private protected pub public range ref register
        restrict return row select self short signed sizeof static struct super switch synchronized this
        throw throws trait transient true try type typedef typeof union unsafe unsigned unsized use var
        virtual void volatile where while with yield string out len""",
    )
)


@dataclass(frozen=True, slots=True)
class NumberField:
    """A number, ``fill`` where missing; if ``indicator``, the next encoded column says whether it was."""

    name: str
    label: str
    first: int
    fill: float
    indicator: bool


@dataclass(frozen=True, slots=True)
class DateField:
    """Days since 1970 as days, day of the year, day of the week, the hour if ``hours``, and whether it was missing.

    ``limits``: the days go no further than from the first to the last of them. ``year`` is that of the fit in which
    days beyond are told before, None if they are not.
    """

    name: str
    label: str
    first: int
    fill: float
    hours: bool
    indicator: bool
    limits: tuple[float, float]
    year: Year | None


@dataclass(frozen=True, slots=True)
class TextField:
    """A text among ``words``, which are in the order of their bytes; then come any other one, and a missing one.

    Attributes
    ----------
    flag_of : (n_words + 2,), rows of ``flags`` (n, n_flags), which hold few different numbers
    values : (n_words + 2, n_values), the other encoded columns
    flag_columns, value_columns : where both go, counted from ``first``
    """

    name: str
    label: str
    first: int
    words: tuple[str, ...]
    flag_of: Array
    flags: Array
    values: Array
    flag_columns: Array
    value_columns: Array

    @property
    def encoded(self) -> Array:
        """The encoded columns of every word, (n_words + 2, n_columns)."""
        out = np.zeros((len(self.words) + 2, self.flag_columns.size + self.value_columns.size))
        out[:, self.flag_columns] = self.flags[self.flag_of]
        out[:, self.value_columns] = self.values
        return out


Field = NumberField | DateField | TextField


@dataclass(frozen=True, slots=True)
class TableForm:
    """The fields of a row, in the order of the table, and the number of encoded columns."""

    fields: tuple[Field, ...]
    n_encoded: int

    @property
    def texts(self) -> list[TextField]:
        """The fields of levels."""
        return [field for field in self.fields if isinstance(field, TextField)]

    @property
    def codes(self) -> dict[int, Array]:
        """The encoded columns of levels that hold whole numbers, with all of these."""
        found = {
            field.first + at: np.unique(values) for field in self.texts for at, values in enumerate(field.encoded.T)
        }
        return {column: values for column, values in found.items() if np.all(values == np.floor(values))}


def form_of(encoding: TableEncoding) -> TableForm:
    """Return what an encoding does to a row."""
    refuse_free_text(encoding)
    labels = _labels(encoding.column_names)
    fields: list[Field] = []
    first = 0
    for column, label in zip(encoding.columns, labels, strict=True):
        if isinstance(column, NumberColumn):
            fields.append(NumberField(column.name, label, first, float(column.fill), column.indicator))
        elif isinstance(column, DateColumn):
            limits, gaps = (float(column.earliest), float(column.latest)), column.indicator
            fill = float(column.fill)
            fields.append(DateField(column.name, label, first, fill, column.hours, gaps, limits, column.year))
        elif isinstance(column, CategoryColumn):
            fields.append(_text_field(encoding, column, label, first))
        else:
            raise TypeError(type(column).__name__)
        first += len(column.feature_names)
    return TableForm(tuple(fields), first)


def refuse_free_text(encoding: TableEncoding) -> None:
    """Refuse columns that only this package encodes."""
    free = [column.name for column in encoding.columns if isinstance(column, TextColumn)]
    if free:
        rule = "a model to export must take numbers, categories and dates"
        remedy = f"Predict with rflaf, or fit anew without free text: --drop {free[0]}."
        raise InvalidParameterError(rule, f"free text in {free}", remedy)


def _text_field(encoding: TableEncoding, column: CategoryColumn, label: str, first: int) -> TextField:
    known = {*column.levels, *encoding.missing, *(() if column.statistic is None else column.statistic.names)}
    words = sorted(known, key=lambda word: word.encode())
    other = "other"
    while other in known:
        other += "_"
    alone: Any = replace(encoding, columns=(column,))
    table = require_arrow().table({column.name: [*words, other, None]})
    encoded = alone.transform(table)
    few = np.array([np.unique(part).size <= 2 for part in encoded.T], bool)
    flags, flag_of = np.unique(encoded[:, few], axis=0, return_inverse=True)
    places = np.flatnonzero(few), np.flatnonzero(~few)
    return TextField(column.name, label, first, tuple(words), flag_of.ravel(), flags, encoded[:, ~few], *places)


def _labels(names: Iterable[str]) -> list[str]:
    """Return names of columns as different identifiers, in small letters.

    >>> _labels(["Age", "age", "2nd floor", "class"])
    ['age', 'age_2', 'x2nd_floor', 'class_']
    """
    labels: list[str] = []
    for name in names:
        label = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "x"
        label = f"x{label}" if label[0].isdigit() else label
        label = f"{label}_" if label in _KEYWORDS else label
        number, found = 1, label
        while found in labels:
            number += 1
            found = f"{label}_{number}"
        labels.append(found)
    return labels
