"""How a CSV file is laid out, seen from its beginning: encoding, separator, column names."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rflaf.errors import InvalidParameterError
from rflaf.rows.tables import is_number

_DELIMITERS = (",", ";", "\t", "|")
_FIRST_BYTES, _FIRST_ROWS = 2**18, 50
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class Layout:
    """How to read a CSV file: its delimiter, its column names, the lines before its first row, and its encoding.

    ``notes`` say what was seen rather than given, for `rflaf inspect`.
    """

    delimiter: str
    names: tuple[str, ...]
    skip_rows: int
    encoding: str = "utf-8"
    notes: tuple[str, ...] = field(default=(), compare=False)


def find_layout(path: str | Path, has_header: bool | None = None, encoding: str | None = None) -> Layout:
    """Return the layout of a CSV file from its beginning, which also shows what is not given."""
    path = Path(path)
    start = _first_bytes(path)
    seen = encoding or _seen_encoding(start)
    text = _decoded(path, start, seen)
    lines = text.splitlines(keepends=True)
    at = next((at for at, line in enumerate(lines) if line.strip()), None)
    if at is None:
        raise InvalidParameterError(f"{path.name} must have rows", "an empty file", "Name another file.")
    delimiter = _seen_delimiter("".join(lines[at:]))
    reader = csv.reader(io.StringIO("".join(lines[at:]), newline=None), delimiter=delimiter)  # any ends of lines
    try:
        cells = tuple(cell.strip() for cell in next(reader, []))
    except csv.Error as error:
        raise InvalidParameterError(f"{path.name} must begin as a table", str(error), "Check the file.") from None
    n_lines = reader.line_num
    if has_header is None:
        has_header = not any(is_number(cell) for cell in cells)
    given = [cell if has_header else "" for cell in cells]
    names, notes = _distinct([name or _unnamed(at, has_header) for at, name in enumerate(given)])
    said = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}[delimiter]
    notes = (f"cells are separated by {said}, text is {seen}" + ("" if encoding else " (--encoding)"), *notes)
    return Layout(delimiter, names, at + n_lines if has_header else at, seen, notes)


def _unnamed(number: int, has_header: bool) -> str:
    return f"Unnamed: {number}" if has_header else str(number)


def _distinct(names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return names that differ, as pandas makes them so, and what was changed.

    >>> _distinct(["a", "b", "a"])
    (('a', 'b', 'a.1'), ("a second column 'a' is called 'a.1'",))
    """
    found: list[str] = []
    notes: list[str] = []
    for name in names:
        number, new = 0, name
        while new in found or (number and new in names):
            number += 1
            new = f"{name}.{number}"
        found.append(new)
        if number:
            notes.append(f"a second column {name!r} is called {new!r}")
    return tuple(found), tuple(notes)


def _first_bytes(path: Path) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return bytes(file.read(_FIRST_BYTES))
    except (EOFError, gzip.BadGzipFile) as error:
        raise InvalidParameterError(f"{path.name} must be a whole gzip file", str(error), "Write it again.") from None


def _seen_encoding(start: bytes) -> str:
    """Return the encoding of a byte-order mark, else UTF-16 by its zeros, else UTF-8, or the Western one it is not."""
    for mark, name in _MARKS:
        if start.startswith(mark):
            return name
    zeros = start[:1000].count(0)
    if zeros > len(start[:1000]) // 4:
        return "utf-16-le" if start[1:2] == b"\0" else "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return "cp1252" if zeros == 0 else "utf-8"
    return "utf-8"


def _decoded(path: Path, start: bytes, encoding: str) -> str:
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(start)
        if "\0" in text:
            raise UnicodeError("it has zero bytes")
    except (UnicodeError, LookupError) as error:
        raise InvalidParameterError(
            f"{path.name} must be text in {encoding}",
            str(error),
            "Give its --encoding, such as latin-1 or utf-16, or name a .parquet or .npz file.",
        ) from None
    return text if len(start) < _FIRST_BYTES else text[: text.rfind("\n") + 1] or text


def _seen_delimiter(text: str) -> str:
    """Return the delimiter that cuts most of the first rows into as many cells as the first one, more than one."""

    def agreement(delimiter: str) -> tuple[float, int]:
        rows = []
        for row in csv.reader(io.StringIO(text), delimiter=delimiter):
            if row:
                rows.append(len(row))
            if len(rows) > _FIRST_ROWS:
                break
        return (rows.count(rows[0]) / len(rows), rows[0]) if rows and rows[0] > 1 else (0.0, 0)

    try:
        found = {delimiter: agreement(delimiter) for delimiter in _DELIMITERS}
    except csv.Error:
        found = {delimiter: (0.0, text.splitlines()[0].count(delimiter)) for delimiter in _DELIMITERS}
    return max(_DELIMITERS, key=lambda delimiter: found[delimiter])


def explain_csv(path: Path, layout: Layout, message: str) -> None:
    """Raise the error of a reader again with the number of the line, or with the flag that helps."""
    if "Expected" in message and "columns" in message:
        n_columns = len(layout.names)
        line, found = _ragged(path, layout)
        raise InvalidParameterError(
            f"every line of {path.name} must have the {n_columns} cells of the first",
            f"{found} in line {line}",
            "Mend the line; cells with the separator in them need quotes.",
        ) from None
    if re.search("utf|decod|codec|UTF", message):
        raise InvalidParameterError(
            f"{path.name} must be text in {layout.encoding}",
            message.splitlines()[0],
            "Give its --encoding, such as latin-1.",
        ) from None


def _ragged(path: Path, layout: Layout) -> tuple[int, Any]:
    """Return the number of the first line whose row has another number of cells, and that number."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding=layout.encoding, newline="") as file:
        reader, before = csv.reader(file, delimiter=layout.delimiter), 0
        for row in reader:
            if row and before >= layout.skip_rows and len(row) != len(layout.names):
                return before + 1, len(row)
            before = reader.line_num
    return 0, "another number"
