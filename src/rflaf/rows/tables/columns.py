"""The encoding of one column, as plain data that checks itself: inputs as columns of numbers, or as levels."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from rflaf.errors import Array, InvalidParameterError

from . import cells
from .readings import READINGS, UNITS, dates_in, numbers_in
from .statistics import LevelStatistic, check_text

_CLOSE_DAYS = 200_000  # between the first and last of dates that are looked up
MOST_SEASONAL = 457  # days of dates in which a season is hardly told from a trend: fifteen months
END_OF_TIME = 3e6  # days: Arrow distinguishes dates in the years until then


class ColumnEncoding(Protocol):
    """Turns one column into columns of numbers."""

    kind: ClassVar[str]

    @property
    def name(self) -> str: ...

    @property
    def feature_names(self) -> tuple[str, ...]: ...

    def write(self, values: Any, out: Array, folds: Array | None = None) -> None:
        """Write cleaned ``values`` (n_rows) to ``out`` (n_rows, n_features), which holds zeros.

        ``folds`` are those of the rows of a fit, for statistics of the target that must not know a row's own.
        """


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A number, ``fill`` where it is missing, and, if ``indicator``, whether it was.

    Texts are read by ``reading``, and those among ``words`` count as missing.
    """

    kind: ClassVar[str] = "number"
    name: str
    fill: float
    indicator: bool
    reading: str = "number"
    words: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_text(self.name)
        _check_number("fill", self.fill)
        _check_flag("indicator", self.indicator)
        _check_reading(self.reading, "number", "time", "truth")
        for word in self.words:
            check_text(word)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return (self.name, f"{self.name} missing") if self.indicator else (self.name,)

    def write(self, values: Any, out: Array, folds: Array | None = None) -> None:
        values = _without_words(values, self.words)
        numbers = numbers_in(values, self.reading)
        refuse_others(self.name, values, numbers, f"numbers such as {READINGS[self.reading].example}")
        self.write_numbers(numbers.to_numpy(zero_copy_only=False), out)

    def write_numbers(self, numbers: Array, out: Array) -> None:
        """Write ``numbers`` (n_rows,), NaN where missing, as `write` does."""
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(numbers.sum(dtype=np.float64)):
                out[:, 0] = numbers
                return
            gaps = np.isnan(numbers)
            filled = np.where(gaps, np.float64(self.fill), numbers)  # not in the precision of the numbers
            fine = np.isfinite(filled.sum(dtype=np.float64))
        if not fine and np.isinf(numbers).any():
            remedy = "Leave such cells empty, or drop the rows."
            raise InvalidParameterError(f"numbers of column {self.name!r} must be finite", "an infinite one", remedy)
        out[:, 0] = filled
        if self.indicator:
            out[:, 1] = gaps


@dataclass(frozen=True, slots=True)
class CategoryColumn:
    """A level out of ``levels``, by its number; then come that of all others, and that of missing ones.

    Two levels, of which none may be missing, are the numbers 0 and 1, and .5 where there is neither. ``others`` and
    ``missing`` say whether there were any in the fit; ``statistic`` adds the target's mean by level, for columns of
    more levels than have a number each.
    """

    kind: ClassVar[str] = "category"
    name: str
    levels: tuple[str, ...]
    others: bool
    missing: bool
    statistic: LevelStatistic | None = None

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
    def n_levels(self) -> int:
        """How many codes there are; 0 where the column is a number."""
        return 0 if self._two else len(self.levels) + 2

    @property
    def feature_names(self) -> tuple[str, ...]:
        means = () if self.statistic is None else tuple(f"{self.name} {part}" for part in self.statistic.parts)
        if self._two:
            return (f"{self.name}={self.levels[1]}", *means)
        return (self.name, *means)

    def write(self, values: Any, out: Array, folds: Array | None = None) -> None:
        numbers = np.array([0.0, 1.0, 0.5, 0.5]) if self._two else np.arange(self.n_levels, dtype=np.float64)
        out[:, 0] = numbers[level_codes(values, self.levels)]
        if self.statistic is not None:
            where = level_codes(values, self.statistic.levels)
            out[:, out.shape[1] - len(self.statistic.parts) :] = self.statistic.of(where, folds)


@dataclass(frozen=True, slots=True)
class Year:
    """A year that begins after its ``turn``, a day of the year; days up to it are those of the next calendar year.

    ``eve`` is the day before New Year, ``length`` the number of days from there to the next one.
    """

    eve: float
    turn: int
    length: int

    def day(self, of_year: Array) -> Array:
        """Return the days since 1970 of days of the year, which are counted from 1."""
        return np.asarray(self.eve + of_year + self.length * (of_year <= self.turn))


def year_around(earliest: float, latest: float) -> Year:
    """Return the year with dates, in days since 1970, in its middle; of almost a year's dates, that from the first.

    >>> year_around(0.0, 365.0), year_around(304.0, 365.0 + 59.0)
    (Year(eve=-1.0, turn=0, length=365), Year(eve=-1.0, turn=182, length=365))
    """
    first = min(math.floor(earliest), math.ceil((earliest + latest - 365) / 2))
    new_year = (np.datetime64(first, "D").astype("datetime64[Y]") + np.arange(2)).astype("datetime64[D]")
    start, end = new_year.astype(np.int64).tolist()
    return Year(start - 1.0, first - start, end - start)


@dataclass(frozen=True, slots=True)
class DateColumn:
    """A date as numbers, that of ``fill`` (days since 1970) where it is missing; the hour only if ``hours``.

    Its days stay between ``earliest`` and ``latest``, those of the fit: beyond them a model would go on along a line
    that nothing supports. Within a year days and day of the year are the same line, so that days alone must not stop:
    ``by_season`` days beyond become those of the same season in the last year of the fit. Within a day hours say it
    all: there ``earliest`` and ``latest`` are the same.
    """

    kind: ClassVar[str] = "date"
    name: str
    fill: float
    hours: bool
    indicator: bool
    reading: str = "date"
    earliest: float = -END_OF_TIME
    latest: float = END_OF_TIME
    by_season: bool = False

    def __post_init__(self) -> None:
        check_text(self.name)
        for name in ("fill", "earliest", "latest"):
            _check_number(name, getattr(self, name), END_OF_TIME)
        if self.earliest > self.latest:
            rule = "the earliest date must not be after the latest"
            raise InvalidParameterError(rule, self.earliest, "Make the encoding anew.")
        for name in ("hours", "indicator", "by_season"):
            _check_flag(name, getattr(self, name))
        if self.reading not in UNITS:
            _check_reading(self.reading, "date")

    @property
    def feature_names(self) -> tuple[str, ...]:
        parts = ["days", "day of year", "day of week", *["hour"] * self.hours, *["missing"] * self.indicator]
        return tuple(f"{self.name} {part}" for part in parts)

    @property
    def by_hour(self) -> bool:
        """Whether nothing but the hour says when a date was."""
        return self.hours and self.earliest == self.latest

    @property
    def year(self) -> Year | None:
        """The year of the fit in which dates beyond it are told; None if their days stop."""
        return year_around(max(self.earliest, self.latest - 366), self.latest) if self.by_season else None

    def write(self, values: Any, out: Array, folds: Array | None = None) -> None:
        pa = cells.require_arrow()
        if self.reading in UNITS and isinstance(values, cells.Texts):
            numbers = numbers_in(values)
            refuse_others(self.name, values, numbers, self.reading)
            values = numbers
        found = dates_in(values, self.reading)
        example = READINGS[self.reading].example if self.reading in READINGS else self.reading
        refuse_others(self.name, values, found, f"dates such as {example}")
        if self.indicator:
            out[:, -1] = ~cells.valid(found)
        if found.null_count:
            found = found.fill_null(pa.scalar(round(self.fill * cells.MICROSECONDS_A_DAY), pa.timestamp("us")))
        days = cells.days_of(found)
        whole = np.floor(days)
        of_year, out[:, 2] = _days_of_year_and_week(whole)
        out[:, 1], rest = of_year, days - whole
        if self.hours:
            out[:, 3] = rest * 24
        if self.year is not None:
            beyond = (days < self.earliest) | (days > self.latest)
            days = np.where(beyond, self.year.day(of_year) + rest, days)
        out[:, 0] = np.clip(days, self.earliest, self.latest)


def _days_of_year_and_week(days: Array) -> tuple[Array, Array]:
    """Return the day of the year, from 1, and of the week, Monday 0, of whole days since 1970, looked up."""
    if not days.size:
        return days, days
    low, high = int(days.min()), int(days.max())
    known = np.arange(low, high + 1) if high - low < _CLOSE_DAYS else np.unique(days).astype(np.int64)
    dates = known.astype("datetime64[D]")
    of_year = ((dates - dates.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.int64) + 1).astype(np.float64)
    of_week = ((known + 3) % 7).astype(np.float64)  # 1970 began on a Thursday
    at = days.astype(np.int64) - low if known.size == high - low + 1 else np.searchsorted(known, days)
    return of_year[at], of_week[at]


def level_codes(values: Any, levels: Any) -> Array:
    """Return the number of each row's level, len(levels) where it is another one, len(levels) + 1 where missing."""
    pa = cells.require_arrow()
    known = levels if isinstance(levels, pa.Array) else pa.array(levels, pa.string())
    other, absent = len(known), len(known) + 1
    if isinstance(values, cells.Texts):
        of_text = pa.compute.index_in(values.different, known).fill_null(other).to_numpy()
        return values.spread(of_text.astype(np.int64), absent)
    texts = cells.as_texts(values)
    codes: Array = pa.compute.index_in(texts, known).fill_null(other).to_numpy().astype(np.int64)
    codes[~cells.valid(texts)] = absent
    return codes


def refuse_others(name: str, values: Any, found: Any, what: str) -> None:
    """Refuse values that were not found to be numbers, or dates."""
    if found.null_count and found.null_count > cells.n_missing(values):
        at = int(np.flatnonzero(cells.valid(values) & ~cells.valid(found))[0])
        odd = values.different[int(values.at[at])] if isinstance(values, cells.Texts) else values[at]
        flags = f"--category {shlex.quote(name)} (categorical_features=[{name!r}]) or --missing {shlex.quote(str(odd))}"
        remedy = f"Leave it empty where there is none, or fit anew with {flags}."
        raise InvalidParameterError(f"column {name!r} must hold {what}, as in the fit", odd.as_py(), remedy)


def _without_words(values: Any, words: tuple[str, ...]) -> Any:
    if not words or not isinstance(values, cells.Texts):
        return values
    pa = cells.require_arrow()
    odd = pa.compute.is_in(values.different, pa.array(words, pa.string())).to_numpy(zero_copy_only=False)
    kept = np.append(np.where(odd, -1, np.cumsum(~odd) - 1), -1)
    return cells.Texts(values.different.filter(pa.array(~odd)), kept[values.at])


def _check_reading(reading: Any, *kinds: str) -> None:
    if reading not in READINGS or READINGS[reading].kind not in kinds:
        known = [name for name, known in READINGS.items() if known.kind in kinds]
        raise InvalidParameterError(f"a reading must be one of {known}", reading, "Make the encoding anew.")


def _check_number(name: str, value: Any, most: float = float(np.finfo(np.float64).max)) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= most:
        raise InvalidParameterError(f"{name} must be a number of at most {most:g} in size", value, "Make it anew.")


def _check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise InvalidParameterError(f"{name} must be True or False", value, "Make it anew.")
