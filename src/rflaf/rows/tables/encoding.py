"""The encoding of a table as an array: the columns used, the columns left out, and why."""

from __future__ import annotations

import logging
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError

from .cells import MISSING, as_table, clean, find_column, refuse_repeated
from .columns import (
    END_OF_TIME,
    MOST_SEASONAL,
    CategoryColumn,
    ColumnEncoding,
    DateColumn,
    NumberColumn,
    level_codes,
)
from .decisions import Choice, Decision, choose, explain, moments
from .free_text import TextColumn, TextComponents, learn_components, text_sample
from .moments import Moments
from .readings import UNITS
from .statistics import (
    MOST_KEPT,
    MOST_OUTPUTS,
    LevelStatistic,
    LevelSums,
    check_text,
    fold_of_rows,
    giveaways,
)
from .summaries import ColumnSummary, TableSummary
from .writers import writer_of

KINDS: dict[str, Any] = {column.kind: column for column in (NumberColumn, CategoryColumn, DateColumn, TextColumn)}
_MOST_LISTED = 6  # names of columns in a message
_MOST_LEVELS = 500  # of a column with a value each
GIVES_AWAY = "WARNING: it gives the target away"
_log = logging.getLogger("rflaf")
_TILE_ROWS = 32_768  # written together, so that they stay in the cache


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
    names : all columns of the table but target and weight, in their order
    decisions : what each of them was read as, why, and how to change it

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
    names: tuple[str, ...] = field(default=(), compare=False)
    decisions: tuple[Decision, ...] = field(default=(), compare=False, repr=False)

    @property
    def input_names(self) -> tuple[str, ...]:
        """The columns of the table of the fit, those left out among them."""
        return self.names or (*self.column_names, *(left.name for left in self.dropped))

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns a table must have."""
        return tuple(column.name for column in self.columns)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of the array."""
        return tuple(name for column in self.columns for name in column.feature_names)

    def transform(self, table: Any, dtype: Any = np.float64, first: int | None = None) -> Array:
        """Return a table with these columns, in any order and among others, as an array (n_rows, n_features).

        ``first`` is the number of the first row if these are rows of the fit: statistics leave out a row's fold.
        """
        given, table = table, as_table(table, self.column_names, coded=True)
        if table.num_columns < len(self.columns):
            self.check(as_table(given))
        starts = np.cumsum([0, *(len(column.feature_names) for column in self.columns)])
        out = np.zeros((table.num_rows, starts[-1]), dtype)
        by_fold = any(getattr(column, "statistic", None) is not None for column in self.columns)
        folds = fold_of_rows(first, table.num_rows) if by_fold and first is not None else None
        writers = [writer_of(column, table[column.name], self.missing, folds) for column in self.columns]
        for first_row in range(0, table.num_rows, _TILE_ROWS):
            rows = slice(first_row, min(first_row + _TILE_ROWS, table.num_rows))
            for at, write in enumerate(writers):
                write(rows, out[rows, starts[at] : starts[at + 1]])
        return out

    @property
    def level_names(self) -> tuple[tuple[str, ...], ...]:
        """For each column of the array the names of its levels; none for a number."""
        names: list[tuple[str, ...]] = []
        for column in self.columns:
            coded = isinstance(column, CategoryColumn) and column.n_levels > 0
            first = (*column.levels, "(others)", "(missing)") if coded else ()  # type: ignore[attr-defined]
            names += [first, *[()] * (len(column.feature_names) - 1)]
        return tuple(names)

    @property
    def level_counts(self) -> tuple[int, ...]:
        """For each column of the array the number of its levels; 0 for a number."""
        return tuple(map(len, self.level_names))

    def unseen_levels(self, table: Any) -> dict[str, tuple[list[str], float]]:
        """Return by column of categories the levels of a table that the fit did not have, and their share of the rows.

        Columns whose rare levels share a column without a name are left out: theirs are not known.
        """
        table, found = self.check(as_table(table)), dict[str, tuple[list[str], float]]()
        for column in self.columns:
            if not isinstance(column, CategoryColumn) or (column.others and column.statistic is None):
                continue
            levels = column.levels if column.statistic is None else tuple(column.statistic.names)
            codes = level_codes(clean(column.name, table[column.name], self.missing), levels)
            rows = np.flatnonzero(codes == len(levels))
            if rows.size:
                texts = [str(text) for text in table[column.name].take(rows).unique().to_pylist()]
                found[column.name] = texts, rows.size / table.num_rows
        return found

    def check(self, table: Any) -> Any:
        """Return an Arrow table, which must have the columns of the fit."""
        absent = [name for name in self.column_names if name not in table.column_names]
        if absent:
            more = len(absent) - _MOST_LISTED
            listed = ", ".join(map(repr, absent[:_MOST_LISTED])) + (f" and {more:,} more" if more > 0 else "")
            listed += " is" if len(absent) == 1 else " are"
            raise InvalidParameterError(
                f"the table must have the columns the model was fitted to; {listed} missing",
                table.column_names[:_MOST_LISTED] + ["..."] * (table.num_columns > _MOST_LISTED),
                "Columns are found by name, in any order: add or rename them.",
            )
        return table

    def with_statistics(self, statistics: Mapping[str, LevelStatistic]) -> TableEncoding:
        """Return the encoding with statistics of the target for some categories, by name."""
        columns = tuple(
            replace(column, statistic=statistics[column.name])
            if isinstance(column, CategoryColumn) and column.name in statistics
            else column
            for column in self.columns
        )
        return replace(self, columns=columns)

    def suspecting(self, X: Array, Y: Array) -> TableEncoding:
        """Return the encoding with a warning of columns that give the targets ``Y`` of rows ``X`` away."""
        origin = [column.name for column in self.columns for _ in column.feature_names]
        found = {origin[at] for at in giveaways(X, Y, self.level_counts)}
        for name in sorted(found):
            _log.warning("column %r gives the target away: leave it out if a prediction will not have it", name)
        decisions = tuple(
            replace(line, why=f"{line.why}; {GIVES_AWAY}", change=f"--drop {shlex.quote(line.column)}")
            if line.column in found
            else line
            for line in self.decisions
        )
        return replace(self, decisions=decisions)

    @property
    def origins(self) -> Array:
        """For each encoded column the number of its column among ``input_names``, (n_features,)."""
        place = {name: at for at, name in enumerate(self.input_names)}
        return np.array([place[column.name] for column in self.columns for _ in column.feature_names], np.intp)

    def totals_by_column(self, values: Array) -> Array:
        """Return values of the encoded columns (n_features,) summed by column of the table: (n_columns,)."""
        return np.bincount(self.origins, values, len(self.input_names))

    def without_limits(self) -> TableEncoding:
        """Return the same encoding with days of dates that go on beyond the fit."""
        free = {"earliest": -END_OF_TIME, "latest": END_OF_TIME, "by_season": False}
        columns = (replace(at, **free) if isinstance(at, DateColumn) else at for at in self.columns)  # type: ignore[arg-type]
        return replace(self, columns=tuple(columns))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, fit for JSON; `from_dict` takes them back."""
        columns = []
        for column in self.columns:
            fields = {name: getattr(column, name) for name in KINDS[column.kind].__dataclass_fields__}
            plain = {name: _plain(value) for name, value in fields.items()}
            columns.append({"kind": column.kind} | plain)
        dropped = [[left.name, left.reason] for left in self.dropped]
        decisions = [[line.column, line.read_as, line.why, line.change] for line in self.decisions]
        return {
            "columns": columns,
            "dropped": dropped,
            "missing": list(self.missing),
            "names": list(self.names),
            "decisions": decisions,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> TableEncoding:
        """Return the encoding of `to_dict`; refuse anything else."""
        try:
            columns = tuple(_column_from(dict(column)) for column in plain["columns"])
            dropped = tuple(Dropped(check_text(name), check_text(reason)) for name, reason in plain["dropped"])
            missing, names = (tuple(map(check_text, plain.get(name, ()))) for name in ("missing", "names"))
            decisions = tuple(Decision(*map(check_text, line)) for line in plain.get("decisions", ()))
            encoding = cls(columns, dropped, missing, names, decisions)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidParameterError(
                "an encoding must be what to_dict gives", str(error), "Make it anew from a table."
            ) from error
        refuse_repeated(encoding.column_names)
        if encoding.names and set(encoding.names) < {*encoding.column_names, *(left.name for left in dropped)}:
            raise InvalidParameterError("names must be all columns", encoding.names, "Make it anew from a table.")
        return encoding


def make_encoding(
    summary: TableSummary,
    exclude: Iterable[str] = (),
    categories: Iterable[str] = (),
    missing: Sequence[str] = MISSING,
    read: Mapping[str, str] | None = None,
) -> TableEncoding:
    """Return the encoding of a table that was summarised.

    ``exclude`` are columns to leave out, the target among them; ``categories`` those whose numbers are codes; ``read``
    says how to read others, see `rflaf.rows.tables.decisions.HOW`.
    """
    exclude, categories, read = set(exclude), set(categories), dict(read or {})
    for name in exclude | categories | set(read):
        find_column(name, list(summary.columns))
    columns: list[ColumnEncoding] = []
    dropped: list[Dropped] = []
    decisions: list[Decision] = []
    for name in summary.columns:
        if name in exclude:
            continue
        column = summary.columns[name]
        choice = choose(name, summary, name in categories, read.get(name))
        made = None if choice.kind == "drop" else _encode(name, column, choice)
        if made is None:
            dropped.append(Dropped(name, choice.why))
        else:
            columns.append(made)
        decisions.append(explain(name, choice, made, column))
    if not columns:
        reasons = [f"{left.name}: {left.reason}" for left in dropped]
        raise InvalidParameterError("a table must have a column to learn from", reasons, "Add columns that vary.")
    names = tuple(name for name in summary.columns if name not in exclude)
    return TableEncoding(tuple(columns), tuple(dropped), tuple(missing), names, tuple(decisions))


def _encode(name: str, column: ColumnSummary, choice: Choice) -> ColumnEncoding:
    gaps = column.n_missing > 0 or bool(choice.words)
    if choice.kind == "category":
        counts = column.levels or column.texts or {}
        by_count = sorted(counts, key=lambda level: (-counts[level], level))
        others = len(by_count) > _MOST_LEVELS or column.levels is None
        return CategoryColumn(name, tuple(sorted(by_count[:_MOST_LEVELS])), others, gaps)
    if choice.kind == "text":
        return TextColumn(name, learn_components(text_sample(column.some_texts)), gaps)
    found = moments(column, choice.reading)
    if not found.finite:
        raise InvalidParameterError(
            f"numbers of column {name!r} must be finite",
            "an infinite one",
            f"Leave such values empty, or --drop {name}.",
        )
    if choice.reading in UNITS:
        return _dates(name, found, UNITS[choice.reading] / 86_400e6, gaps, choice.reading)
    if choice.kind == "date":
        return _dates(name, found, 1.0, gaps, choice.reading)
    return NumberColumn(name, found.mean, gaps, choice.reading, choice.words)


def _dates(name: str, found: Moments, days: float, gaps: bool, reading: str) -> DateColumn:
    """Return the encoding of dates in units of ``days``; it takes none further than those of the fit."""
    farthest = max(found.low, found.high, key=abs) * days
    if abs(farthest) > END_OF_TIME:
        rule = f"dates of column {name!r} must be at most {END_OF_TIME:g} days from 1970"
        raise InvalidParameterError(rule, f"{farthest:g}", "Leave such cells empty, or drop the column.")
    hours = not found.whole or days != 1
    earliest, latest = math.floor(found.low * days), math.ceil(found.high * days)
    column = DateColumn(name, found.mean * days, hours, gaps, reading, float(earliest), float(latest))
    if found.low < found.high and math.floor(found.high * days) == earliest:
        return replace(column, latest=column.earliest)
    return replace(column, by_season=latest - earliest <= MOST_SEASONAL)


def level_sums(encoding: TableEncoding, summary: TableSummary, parts: Sequence[str]) -> dict[str, LevelSums]:
    """Return empty sums of the target by level for the columns of more levels than have a column each."""
    if len(parts) > MOST_OUTPUTS:
        return {}
    sums = {}
    for column in encoding.columns:
        counts = summary.columns[column.name].levels if column.name in summary.columns else None
        if isinstance(column, CategoryColumn) and column.others and counts:
            by_count = sorted(counts, key=lambda level: (-counts[level], level))
            kept = [level for level in by_count[:MOST_KEPT] if "\x1f" not in level]
            sums[column.name] = LevelSums(sorted(kept), parts)
    return sums


def add_rows(
    sums: Mapping[str, LevelSums], table: Any, missing: Sequence[str], first: int, Y: Array, weight: Array | None = None
) -> None:
    """Add rows with their targets to the sums by level; ``first`` is the number of the first row."""
    folds = fold_of_rows(first, table.num_rows)
    for name, of_column in sums.items():
        codes = level_codes(clean(name, table[name], missing), of_column.names)
        of_column.add(codes, folds, Y, weight)


def _plain(value: Any) -> Any:
    if isinstance(value, LevelStatistic | TextComponents):
        return value.to_dict()
    return list(value) if isinstance(value, tuple) else value


def _column_from(plain: dict[str, Any]) -> ColumnEncoding:
    column = KINDS[check_text(plain.pop("kind"))]
    for name in ("levels", "words"):
        if name in plain:
            plain[name] = tuple(plain[name])
    if plain.get("statistic") is not None:
        plain["statistic"] = LevelStatistic.from_dict(plain["statistic"])
    if column is TextColumn:
        plain["components"] = TextComponents.from_dict(plain["components"])
    built: ColumnEncoding = column(**plain)
    return built
