"""Output of the commands: results, progress and errors.

Results go to standard output, as text or, with ``--json``, as one JSON object. Everything else goes to standard error,
and progress only to a terminal.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table as RichTable

from rflaf.errors import MissingExtraError
from rflaf.estimators.rows_in import logged

results = Console()
errors = Console(stderr=True)
MISTAKE, INTERRUPTED = 2, 130  # exit codes


def show(values: Mapping[str, Any], lines: Iterable[str | RichTable], as_json: bool) -> None:
    """Print ``values`` as JSON, or else ``lines``."""
    if as_json:
        results.print(json.dumps(_finite(values), default=str), markup=False, highlight=False, soft_wrap=True)
        return
    for line in lines:
        if isinstance(line, str):
            results.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            results.print(line)


def remark(line: str) -> None:
    """Print a line to standard error."""
    errors.print(line, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show a status on a terminal, with the latest line of the package's log."""
    if not errors.is_terminal:
        yield
        return
    with errors.status(what) as status, logged(_LastLine(what, status)):
        yield


class _LastLine(logging.Handler):
    """Log handler that shows the latest line as a status."""

    def __init__(self, what: str, status: Status) -> None:
        super().__init__()
        self.what, self.status = what, status

    def emit(self, record: logging.LogRecord) -> None:
        self.status.update(f"{self.what}: {record.getMessage()}".replace("[", "\\["))


def grid(rows: Iterable[Iterable[str]], *headings: str) -> RichTable:
    """Return a table to print; all columns with a heading but the first are aligned to the right."""
    table = RichTable(show_header=bool(headings))
    for at, heading in enumerate(headings):
        table.add_column(heading, justify="right" if at else "left")
    for row in rows:
        table.add_row(*row)
    return table


def explain(error: Exception) -> int:
    """Print one line for an error of the caller and return the exit code; raise any other error again."""
    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    if isinstance(error, typer.Abort):
        remark("rflaf: interrupted")
        return INTERRUPTED
    if hasattr(error, "format_message"):  # an error of the argument parser
        message = f"{error.format_message()} (see rflaf --help)"
    elif isinstance(error, OSError | ValueError | MissingExtraError):
        message = str(error)
    else:
        raise error
    remark(f"rflaf: {' '.join(message.split())}")
    return MISTAKE


def _finite(value: Any) -> Any:
    """Replace infinite numbers and NaN, which JSON lacks, by null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(name): _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
