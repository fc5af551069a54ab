"""How texts are read: as numbers and dates the way people write them.

A `Reading` takes an array of different texts and returns their values, null where a text is not of its kind. A column
has a reading if all its texts have; where several do, the first of `READINGS` is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from rflaf.errors import Array

from .cells import Texts, as_floats, require_arrow

_MONEY = r"[$€£¥₹₽]|USD|EUR|GBP|CHF|JPY"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf|infinity))$"
ISO_DATE = r"^\d{4}-\d{2}-\d{2}([ T]\d{2}(:\d{2}(:\d{2}(\.\d{1,9})?)?)?)?$"
_ZONE = r"\s?(Z|UTC|[+-]\d{2}(:?\d{2})?)$"
_US = r"(([1-9]\d{0,2}([,'\x{2019}]\d{3})+|\d+)(\.\d*)?|\.\d+)([eE][+-]?\d+)?"
_EUROPE = r"([1-9]\d{0,2}([.'\x{2019} \x{a0}\x{202f}]\d{3})+|\d+)(,\d*)?"
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(:(?P<second>\d{2}(\.\d+)?))?\s?(?P<half>[AaPp]\.?[Mm]\.?)?"
_DURATION = r"^(?P<days>-?\d{1,7}) days?( \+?(?P<hour>\d{2}):(?P<minute>\d{2}):(?P<second>\d{2}(\.\d{1,9})?))?$"
_DAY_NAME = r"((?i:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?\s+)?"
_MONTH_NAME = r"(?P<name>(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))[a-z]*\.?"
_SHORT_YEAR = 69  # two digits from here on are of the twentieth century


@dataclass(frozen=True, slots=True)
class Reading:
    """A way to read texts: its name, what they then are ("number", "time", "date" or "truth"), an example, and how."""

    name: str
    kind: str
    example: str
    parse: Callable[[Any], Any]


def plain_numbers(texts: Any) -> Any:
    """Return numbers such as -1.5e3, null where a text is none; NaN is none."""
    pa = require_arrow()
    try:
        values = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return _matching(texts, NUMBER).cast(pa.float64())
    gaps = pa.compute.is_nan(values)
    return pa.compute.if_else(gaps, None, values) if pa.compute.any(gaps).as_py() else values


def truth_values(texts: Any) -> Any:
    """Return 1 for true, 0 for false, in any case, and for the digits 1 and 0; null for all other texts."""
    pa = require_arrow()
    found = pa.compute.index_in(pa.compute.utf8_lower(texts), pa.array(["false", "true", "0", "1"]))
    return pa.compute.bit_wise_and(found, 1).cast(pa.float64())


def padded_numbers(texts: Any) -> Array:
    """Return which texts are whole numbers with leading zeros."""
    compute = require_arrow().compute
    zeros = compute.starts_with(texts, "0")
    if not compute.any(zeros).as_py():
        return np.zeros(len(texts), bool)
    return np.asarray(compute.match_substring_regex(texts, r"^0\d+$").to_numpy(zero_copy_only=False), bool)


def iso_dates(texts: Any) -> Any:
    """Return dates such as 2024-02-29T18:30:00+01:00, those with a zone in that of Greenwich."""
    pa = require_arrow()
    with suppress(pa.ArrowInvalid):
        return texts.cast(pa.timestamp("us"))
    plain = _timestamps(_matching(texts, ISO_DATE))
    zoned = pa.compute.match_substring_regex(texts, ISO_DATE[:-1] + _ZONE)
    if not pa.compute.any(zoned).as_py():
        return plain
    zone = _extract(texts, r"^(?P<rest>.*?\d)" + _ZONE.replace("(Z", "(?P<zone>Z", 1))
    shift = _zone_shift(zone.field("zone"))
    there = _timestamps(pa.compute.if_else(zoned, zone.field("rest"), None))
    shifted = pa.compute.subtract(there.cast(pa.int64()), pa.array(shift, pa.int64())).cast(pa.timestamp("us"))
    return pa.compute.coalesce(plain, shifted)


def _zone_shift(zones: Any) -> list[int]:
    """Return the microseconds that zones such as +01:00 are ahead of Greenwich."""
    shifts = []
    for zone in zones.to_pylist():
        digits = (zone or "").replace(":", "")[1:] if (zone or "Z")[0] in "+-" else ""
        minutes = int(digits[:2] or 0) * 60 + int(digits[2:] or 0)
        shifts.append((-1 if (zone or "")[:1] == "-" else 1) * minutes * 60_000_000)
    return shifts


def _matching(texts: Any, pattern: str) -> Any:
    compute = require_arrow().compute
    return compute.if_else(compute.match_substring_regex(texts, pattern), texts, None)


def _extract(texts: Any, pattern: str) -> Any:
    """Return the named groups of a pattern; Arrow wants all others not to be captured."""
    return require_arrow().compute.extract_regex(texts, re.sub(r"\((?!\?)", "(?:", pattern))


def _timestamps(texts: Any) -> Any:
    """Return texts of the ISO pattern as dates; 30 February is none."""
    pa = require_arrow()
    kind = pa.timestamp("us")
    for finer in (texts, pa.compute.replace_substring_regex(texts, r"(\.\d{6})\d+$", r"\1")):
        with suppress(pa.ArrowInvalid):
            return finer.cast(kind)
    return pa.array([_date_or_none(text, kind) for text in finer], kind)


def _date_or_none(text: Any, kind: Any) -> Any:
    with suppress(require_arrow().ArrowInvalid):
        return text.cast(kind).as_py()
    return None


def _grouped(number: str, drop: str, comma: bool) -> Callable[[Any], Any]:
    """Return the reader of numbers with groups of digits, a currency or a percent sign, or accounting's brackets."""
    sign = r"[+\x{2212}-]?"
    unit = rf"(({_MONEY})\s?)?"
    plain = rf"{sign}\s?{unit}{sign}({number})(\s?({_MONEY}|%))?"
    pattern = rf"^({plain}|\({unit}{number}(\s?({_MONEY}|%))?\))$"

    def parse(texts: Any) -> Any:
        compute = require_arrow().compute
        found = _matching(texts, pattern)
        below = compute.match_substring_regex(found, "[(\\x{2212}-]").fill_null(False)
        digits = compute.replace_substring_regex(found, drop, "")
        digits = compute.replace_substring(digits, ",", ".") if comma else digits
        size = compute.abs(digits.cast("float64"))
        return compute.if_else(below, compute.negate(size), size) if comma else _signed(found, size, below)

    return parse


def _signed(found: Any, size: Any, below: Any) -> Any:
    """Give numbers their sign; that of an exponent is not the number's."""
    compute = require_arrow().compute
    outer = compute.match_substring_regex(found, "^[^eE]*[(\\x{2212}-]").fill_null(False)
    return compute.if_else(compute.and_(below, outer), compute.negate(size), size)


def _calendar(pattern: str, clock: bool = True) -> Callable[[Any], Any]:
    """Return the reader of dates of a pattern with the groups day, month or name, and year."""
    whole = "^" + _DAY_NAME + pattern + (rf"((,?\s+|T){_CLOCK})?" if clock else "") + "$"

    def parse(texts: Any) -> Any:
        pa = require_arrow()
        found = _extract(texts, whole)
        names = {found.type.field(at).name for at in range(found.type.num_fields)}
        part = {name: found.field(name).to_pylist() for name in names}
        there = found.is_valid().to_pylist()
        dates = [_moment({name: part[name][at] for name in names}) if ok else None for at, ok in enumerate(there)]
        return pa.array(dates, pa.timestamp("us"))

    return parse


def _moment(part: dict[str, str | None]) -> Any:
    """Return the moment of a date in parts, None where there is no such day."""
    year = int(part["year"] or 0)
    if len(part["year"] or "") == 2:
        year += 1900 if year >= _SHORT_YEAR else 2000
    name = part.get("name")
    month = int(part["month"] or 0) if name is None else 1 + _MONTHS.index(name.lower())
    hours = _hours(part)
    try:
        day = np.datetime64(f"{year:04d}-{month:02d}-{int(part['day'] or 0):02d}", "us")
    except ValueError:
        return None
    return None if hours is None else (day + np.timedelta64(round(hours * 3.6e9), "us")).item()


def _hours(part: dict[str, str | None]) -> float | None:
    """Return the hours of a clock time, 0 where there is none, None for 25:00."""
    hour, minute, second = int(part.get("hour") or 0), int(part.get("minute") or 0), float(part.get("second") or 0)
    half = (part.get("half") or "").lower()[:1]
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (half == "p")
    return hour + minute / 60 + second / 3600 if hour < 24 and minute < 60 and second < 60 else None


def _clock_times(texts: Any) -> Any:
    """Return times of the day in hours."""
    pa = require_arrow()
    found = _extract(texts, f"^{_CLOCK}$")
    return pa.array([None if part is None else _hours(part) for part in found.to_pylist()], pa.float64())


def _durations(texts: Any) -> Any:
    """Return durations as pandas writes them, such as 1 days 02:03:04.5, in seconds."""
    pa = require_arrow()
    found = _extract(texts, _DURATION)
    parts = [found.field(name).to_pylist() for name in ("days", "hour", "minute", "second")]
    there = found.is_valid().to_pylist()
    seconds = [
        (int(days) * 24 + int(hour or 0)) * 3600 + int(minute or 0) * 60 + float(second or 0) if ok else None
        for ok, days, hour, minute, second in zip(there, *parts, strict=True)
    ]
    return pa.array(seconds, pa.float64())


_DMY = r"(?P<day>\d{1,2})[/.-](?P<month>\d{1,2})[/.-](?P<year>\d{4}|\d{2})"
_MDY = r"(?P<month>\d{1,2})[/.-](?P<day>\d{1,2})[/.-](?P<year>\d{4}|\d{2})"
READINGS: dict[str, Reading] = {
    reading.name: reading
    for reading in (
        Reading("number", "number", "1234.5", plain_numbers),
        Reading("date", "date", "2024-02-29", iso_dates),
        Reading("1,234.50", "number", "$1,234.50", _grouped(_US, r"[^0-9.eE+-]|^[+-]", False)),
        Reading("1.234,50", "number", "1.234,50 €", _grouped(_EUROPE, r"[^0-9,]", True)),
        Reading("d/m/y", "date", "31/12/2024", _calendar(_DMY)),
        Reading("m/d/y", "date", "12/31/2024", _calendar(_MDY)),
        Reading("y/m/d", "date", "2024/12/31", _calendar(r"(?P<year>\d{4})[/.](?P<month>\d{1,2})[/.](?P<day>\d{1,2})")),
        Reading(
            "d mon y",
            "date",
            "31 Dec 2024",
            _calendar(rf"(?P<day>\d{{1,2}})[. -]+{_MONTH_NAME}[ ,-]+(?P<year>\d{{4}})"),
        ),
        Reading(
            "mon d y",
            "date",
            "Dec 31, 2024",
            _calendar(rf"{_MONTH_NAME}[ -]+(?P<day>\d{{1,2}})[ ,-]+(?P<year>\d{{4}})"),
        ),
        Reading("time", "time", "08:30", _clock_times),
        Reading("duration", "number", "1 days 02:03:04", _durations),
        Reading("truth", "truth", "True", truth_values),
    )
}


def numbers_in(values: Any, reading: str = "number") -> Any:
    """Return cleaned values as float64, null where one is missing or no number of this reading."""
    pa = require_arrow()
    if isinstance(values, Texts):
        kind = READINGS[reading]
        if kind.kind == "date":
            return pa.nulls(len(values), pa.float64())
        read = kind.parse(values.different)
        if reading in ("time", "duration"):  # which tables hold as plain hours and seconds, too
            read = pa.compute.coalesce(read, plain_numbers(values.different))
        numbers = values.spread(read.to_numpy(zero_copy_only=False), np.nan)
        return pa.array(numbers, pa.float64(), from_pandas=True)
    return pa.nulls(len(values), pa.float64()) if pa.types.is_timestamp(values.type) else as_floats(values)


def dates_in(values: Any, reading: str = "date") -> Any:
    """Return cleaned values as dates, null where one is missing or no date of this reading."""
    pa = require_arrow()
    kind = pa.timestamp("us")
    if isinstance(values, Texts):
        read = (
            READINGS[reading].parse(values.different) if reading in READINGS else pa.nulls(len(values.different), kind)
        )
        return read.take(pa.array(values.at, mask=values.at < 0))
    if reading in UNITS and not pa.types.is_timestamp(values.type):
        scaled = pa.compute.multiply(as_floats(values), UNITS[reading])
        return pa.compute.round(scaled).cast(pa.int64()).cast(kind)
    return values if pa.types.is_timestamp(values.type) else pa.nulls(len(values), kind)


UNITS = {"unix seconds": 1e6, "unix milliseconds": 1e3}  # microseconds in each
