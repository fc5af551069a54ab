"""How each column of a table is read, why, and how to change it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from rflaf.errors import InvalidParameterError

from .cells import names_identifier, names_one_of_many
from .columns import DateColumn
from .free_text import has_words, text_sample
from .moments import Moments
from .readings import READINGS, UNITS
from .summaries import MOST_SPARSE, ColumnSummary, TableSummary

NUMBERS, TEXTS = "all values are numbers", "texts"
_NAMES_THINGS = "its name says that it identifies, and its numbers repeat"
PLAIN = (NUMBERS, TEXTS)  # reasons that surprise nobody
_FEW_LEVELS = 50  # so many are few, however few the rows
_MOST_WORDS = 20  # different texts among numbers that count as missing
_FEWEST_RUNNING = 10  # rows of a running number
_NEARLY_ALL = 0.9  # of an identifier's numbers differ: what repeats by chance says nothing
_MOMENT = re.compile(r"time|date|stamp|epoch|_at$|^ts$|created|updated", re.I)
_CLOCK = re.compile(r"(?i)(^|[^a-z])(year|quarter|month|week|day|date|time|hour|minute|period|trend)s?($|[^a-z])|^t$")
_RANGES = {"unix seconds": (946_684_800, 2_208_988_800), "unix milliseconds": (946_684_800e3, 2_208_988_800e3)}
HOW = (
    "number",
    "category",
    "date",
    "text",
    "drop",
    *[name for name in READINGS if name not in ("number", "date")],
    *UNITS,
)


@dataclass(frozen=True, slots=True)
class Decision:
    """A column of a table: what it is read as, why, and how to change that."""

    column: str
    read_as: str
    why: str
    change: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The kind of a column, its reading, why, and texts for nothing.

    Kinds are "number", "truth", "time", "date", "category", "text", "drop".
    """

    kind: str
    reading: str
    why: str
    words: tuple[str, ...] = ()


def choose(name: str, summary: TableSummary, coded: bool, how: str | None) -> Choice:
    """Return how the column ``name`` is read; ``coded`` and ``how`` are what the user says of it."""
    column = summary.columns[name]
    if how is not None:
        return _as_asked(name, column, how)
    if not column.n_present:
        return Choice("drop", "", "every value is missing")
    levels = column.levels
    if levels is not None and len(levels) == 1 and not column.n_missing:
        return Choice("drop", "", "it is constant")
    if coded:
        return _as_asked(name, column, "category")
    if column.declared:
        return _category(column, "the table says that its values are categories")
    if name in summary.index:
        return Choice("drop", "", "pandas stored it as the index of the table")
    if column.padded:
        return _category(column, "numbers with leading zeros are codes")
    if column.kind == "number":
        return _number(name, column)
    if column.kind == "date":
        return Choice("date", "date", "all values are dates")
    other = _other_reading(column, summary.commas)
    return other or _texts_and_numbers(column)


def _number(name: str, column: ColumnSummary) -> Choice:
    if column.is_running and column.n_rows >= _FEWEST_RUNNING and not _CLOCK.search(name):
        return Choice("drop", "", "it counts the rows")
    if column.n_rows >= _FEWEST_RUNNING and names_identifier(name):
        if column.is_rising:
            return Choice("drop", "", "it rises from row to row, as its name says an identifier does")
        if _numbers_rows(column):
            return Choice("drop", "", "its numbers differ from row to row, as its name says an identifier's do")
        if column.numbers.whole and column.codes is not None and names_one_of_many(name):
            if len(column.codes) > _NEARLY_ALL * column.n_present:
                return Choice("drop", "", "nearly all its numbers differ, as its name says an identifier's do")
            return Choice("category", "", _NAMES_THINGS)
    for unit, (low, high) in _RANGES.items():
        if column.numbers.whole and low <= column.numbers.low and column.numbers.high <= high and _MOMENT.search(name):
            return Choice("date", unit, f"its name and its numbers are those of {unit}")
    if column.typed:
        what = {"truth": "truth values", "time": "times of the day", "duration": "durations in seconds"}[column.typed]
        return Choice(READINGS[column.typed].kind, column.typed, what)
    return Choice("number", "number", NUMBERS)


def _numbers_rows(column: ColumnSummary) -> bool:
    """Return whether whole numbers are different in every row; of too many to count, whether they may be."""
    if not column.numbers.whole or column.n_missing:
        return False
    if column.codes is not None:
        return len(column.codes) == column.n_rows
    return column.n_rows <= column.numbers.high - column.numbers.low + 1 <= MOST_SPARSE * column.n_rows


def _other_reading(column: ColumnSummary, commas: bool) -> Choice | None:
    """Return the first other reading that all texts have; a comma alone may be a point or separate thousands."""
    alive = column.readings or {}
    order = [name for name in READINGS if name in alive]
    if not order:
        return None
    name = order[0]
    if commas and "1.234,50" in alive:
        name = "1.234,50"
    unsure = [other for other in order if other != name and READINGS[other].kind == READINGS[name].kind]
    why = f"all values look like {READINGS[name].example}"
    same = not unsure or alive[unsure[0]].total == alive[name].total
    return Choice(READINGS[name].kind, name, why if same else f"{why}; {unsure[0]} would fit too")


def _texts_and_numbers(column: ColumnSummary) -> Choice:
    """Read numbers among few texts as numbers, unless they are few enough to be codes; all else are categories."""
    many = column.codes is None or len(column.codes) > _FEW_LEVELS
    words = column.texts
    if many and words is not None and len(words) <= _MOST_WORDS and 2 * column.numbers.count >= column.n_present:
        listed = ", ".join(repr(word) for word in sorted(words)[:5])
        n_rows = column.n_present - column.numbers.count
        why = f"most values are numbers; {listed} in {n_rows} rows count as missing"
        return Choice("number", "number", why, tuple(sorted(words)))
    return _category(column, TEXTS if not column.numbers.count else "texts, some of which look like numbers")


def _category(column: ColumnSummary, why: str) -> Choice:
    if column.texts is None:
        return _free_text(column, f"it has more than {column.most[0]:,} different texts")
    counts = column.levels or column.texts
    if column.codes is not None and len(counts) > max(_FEW_LEVELS, column.n_present / 2):
        return _free_text(column, "most of its texts occur once")
    if not counts:
        return Choice("drop", "", f"it has more than {column.most[1]:,} different numbers")
    return Choice("category", "", why)


def _free_text(column: ColumnSummary, why: str) -> Choice:
    """Read texts that hardly repeat by the runs of letters they share, if they have words; leave out all others."""
    if has_words(text_sample(column.some_texts)):
        return Choice("text", "", f"{why}, and they have words")
    return Choice("drop", "", why)


def _as_asked(name: str, column: ColumnSummary, how: str) -> Choice:
    if how not in HOW:
        raise InvalidParameterError(f"--read {name}=HOW must be one of {', '.join(HOW)}", how, "Choose one.")
    if how == "drop":
        return Choice("drop", "", "as asked")
    if how == "category":
        known = column.levels or column.texts
        return Choice("category", "", "as asked") if known else _category(column, "as asked")
    if how == "text" and column.some_texts:
        return Choice("text", "", "as asked")
    if how in UNITS and column.kind == "number":
        return Choice("date", how, "as asked")
    reading = next((r for r in _readings_of(column, how) if moments(column, r).count == column.n_present), None)
    if reading is None:
        odd = next(iter(column.texts or column.codes or ()), "other values")
        raise InvalidParameterError(f"column {name!r} must be all {how} to be read so", odd, "Use another --read.")
    return Choice(READINGS[reading].kind, reading, "as asked")


def _readings_of(column: ColumnSummary, how: str) -> list[str]:
    """Return the readings that a word of the user means."""
    return [r for r, known in READINGS.items() if how in (r, known.kind)] if how in ("number", "date") else [how]


def moments(column: ColumnSummary, reading: str) -> Moments:
    """Return the moments of a column under a reading."""
    if reading in UNITS:
        return column.numbers
    if reading in ("number", column.typed):
        return column.numbers
    if reading == "date":
        return column.dates
    return (column.readings or {}).get(reading, Moments())


def explain(name: str, choice: Choice, encoding: object, column: ColumnSummary) -> Decision:
    """Return the line of a column in the table of decisions."""
    gaps = f", {column.n_missing} missing" if column.n_missing else ""
    quoted = shlex.quote(name)
    if choice.kind == "drop":
        how = "category" if column.padded else "number" if column.kind == "number" else "text"
        ways = f"--read {shlex.quote(f'{name}={how}')}"
        return Decision(name, "left out", choice.why, ways if column.n_present else "")
    if choice.kind == "category":
        levels = getattr(encoding, "levels", ())
        more = ", others together" if getattr(encoding, "others", False) else ""
        ways = f"--read {shlex.quote(f'{name}=number')}" if choice.why == _NAMES_THINGS else f"--drop {quoted}"
        return Decision(name, f"category, {len(levels)} levels{more}{gaps}", choice.why, ways)
    if choice.kind == "text":
        n_columns = len(getattr(encoding, "feature_names", ())) - bool(column.n_missing)
        return Decision(name, f"free text, {n_columns} columns{gaps}", choice.why, f"--drop {quoted}")
    example = f" ({choice.reading})" if choice.reading not in ("number", "date", "truth") else ""
    kinds = {"number": "number", "time": "time of day", "date": "date", "truth": "truth value"}
    read_as = kinds[choice.kind] + example + gaps
    others = [r for r in column.readings or () if r != choice.reading and READINGS[r].kind == choice.kind]
    other = f"--read {shlex.quote(f'{name}={others[0]}')}" if others else ""
    change = f"--category {quoted}" if not others or choice.reading == "number" else other
    return Decision(name, read_as, choice.why + _span(encoding), change)


def _span(encoding: object) -> str:
    """Return what follows from the span of dates, if it is short."""
    if not isinstance(encoding, DateColumn):
        return ""
    if encoding.by_season:
        return "; within fifteen months, so later ones are read by their season"
    return "; within a day, so later ones are read by their hour" if encoding.by_hour else ""
