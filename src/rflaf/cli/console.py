"""Input and output of the commands: shared options, files, metrics on a table, results, progress and errors.

Results go to standard output, as text or, with ``--json``, as one JSON object. Everything else goes to standard error,
and progress only to a terminal.
"""

from __future__ import annotations

import atexit
import glob
import json
import logging
import math
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from rflaf.errors import Array, InvalidParameterError, MissingExtraError
from rflaf.estimators.metrics import figure_of, levels_of, metrics_of, quantile_metrics
from rflaf.rows.files import Table
from rflaf.rows.files.chunks import read_rows
from rflaf.rows.files.outputs import check_output
from rflaf.rows.tables import Decision
from rflaf.rows.tables.decisions import PLAIN

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status
    from rich.table import Table as RichTable

MISTAKE, INTERRUPTED = 2, 130  # exit codes
_METRICS = {  # as people call them
    "r2": "r2 (share of variance explained)",
    "rmse": "rmse (root mean square error)",
    "mae": "mae (mean absolute error)",
    "log_loss": "log-loss",
    "brier": "Brier score",
    "ece": "ece (expected calibration error)",
    "auc": "auc (area under the ROC curve)",
    "pinball": "pinball loss (mean over the quantiles)",
}

Data = Annotated[
    Path, typer.Argument(help="A CSV, Parquet, Arrow, NPZ or NPY file; - is standard input.", show_default=False)
]
Encoding = Annotated[str | None, typer.Option(help="Of a CSV file, such as latin-1 or utf-16.", show_default="seen")]
Model = Annotated[Path, typer.Argument(help="A file that rflaf fit or rflaf.save wrote.", show_default=False)]
Target = Annotated[str, typer.Option(help="Column to predict: its name, or its number from 0.", show_default=False)]
Header = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether a CSV file names its columns.", show_default="seen")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def out_option(about: str, **options: Any) -> Any:
    """Return the option ``--out``, ``-o`` for short."""
    return typer.Option("--out", "-o", help=about, **options)


@cache
def results() -> Console:
    """Return the console of standard output, for tables; rich is slow to import, and predictions do without."""
    from rich.console import Console

    return Console()


@cache
def errors() -> Console:
    """Return the console of standard error, for progress."""
    from rich.console import Console

    return Console(stderr=True)


def say(line: str) -> None:
    """Print a line to standard output."""
    sys.stdout.write(f"{line}\n")


def show(values: Mapping[str, Any], lines: Iterable[str | RichTable], as_json: bool) -> None:
    """Print ``values`` as JSON, or else ``lines``."""
    if as_json:
        say(json.dumps(_finite(values), default=str))
        return
    for line in lines:
        if isinstance(line, str):
            say(line)
        else:
            results().print(line)


def remark(line: str) -> None:
    """Print a line to standard error."""
    sys.stderr.write(f"{line}\n")


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show a status on a terminal, with the latest line of the package's log."""
    if not errors().is_terminal:
        yield
        return
    from rflaf.estimators.verbose import logged  # slow to import, and only needed here

    with errors().status(what) as status, logged(_LastLine(what, status)):
        yield


class _LastLine(logging.Handler):
    """Log handler that shows the latest line as a status."""

    def __init__(self, what: str, status: Status) -> None:
        super().__init__()
        self.what, self.status = what, status

    def emit(self, record: logging.LogRecord) -> None:
        self.status.update(f"{self.what}: {record.getMessage()}".replace("[", "\\["))


def grid(rows: Iterable[Iterable[str]], *headings: str, right: bool = True) -> RichTable:
    """Return a table to print; all columns with a heading but the first are aligned to the ``right`` if so asked."""
    from rich.table import Table as RichTable

    table = RichTable(show_header=bool(headings))
    for at, heading in enumerate(headings):
        table.add_column(heading, justify="right" if at and right else "left")
    for row in rows:
        table.add_row(*row)
    return table


def is_interruption(error: Exception) -> bool:
    """Return whether the parser's error stands for an interruption by the user."""
    return isinstance(error, typer.Abort) or (isinstance(error, typer.Exit) and error.exit_code == INTERRUPTED)


def explain(error: Exception) -> int:
    """Print one line for an error of the caller and return the exit code; raise any other error again."""
    if is_interruption(error):
        remark("rflaf: interrupted")
        return INTERRUPTED
    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    if hasattr(error, "format_message"):  # an error of the argument parser
        command = getattr(getattr(error, "ctx", None), "command_path", None) or "rflaf"
        message = f"{error.format_message().replace('Value error, ', '')} (see {command} --help)"
    elif isinstance(error, OSError | ValueError | MissingExtraError):
        message = " ".join([str(error), *getattr(error, "__notes__", ())])
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


def read_from(data: Path, header: bool | None, encoding: str | None = None) -> Table:
    """Return a table to read, which must be there; ``-`` is standard input, kept in a temporary file until the end."""
    if str(data) == "-":
        data = _standard_input()
    if not (data.exists() or glob.glob(str(data))):
        raise InvalidParameterError("the data must be a file", str(data), "Check the path.")
    return Table(data, has_header=header, encoding=encoding)


def _standard_input() -> Path:
    """Copy standard input to a temporary file, whose ending says what its first bytes are."""
    start = sys.stdin.buffer.read(8)
    kinds = {b"PAR1": ".parquet", b"ARRO": ".arrow", b"PK\x03\x04": ".npz", b"\x93NUM": ".npy", b"\x1f\x8b": ".csv.gz"}
    ending = next((ending for mark, ending in kinds.items() if start.startswith(mark)), ".csv")
    folder = tempfile.mkdtemp(prefix="rflaf-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / f"standard_input{ending}"
    with path.open("wb") as file:
        file.write(start)
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def decision_lines(decisions: Iterable[Decision]) -> Iterator[str | RichTable]:
    """Return a table of how every column is read and why, with the remedy where it may surprise, and all remedies."""
    from rich.markup import escape
    from rich.table import Table as RichTable

    table = RichTable()
    for heading in ("column", "read as", "why"):
        table.add_column(heading, overflow="fold")
    for line in decisions:
        why = line.why if line.why in PLAIN else f"{line.why}; to change it: {line.change}"
        table.add_row(*(escape(cell) for cell in (line.column, line.read_as, why)))
    yield table
    yield "to read a column otherwise: --read COLUMN=HOW, --category COLUMN (its numbers are codes), --drop COLUMN"


def check_other(out: Path, *inputs: Path | None) -> None:
    """The output must be writable and none of the files that are read."""
    if str(out) == "-":
        raise InvalidParameterError("only predict writes to standard output", "-", "Name a file.")
    check_output(out)
    for path in inputs:
        if path is not None and path.exists() and out.exists() and path.samefile(out):
            raise InvalidParameterError("the output must not be a file that is read", str(out), "Choose another path.")


def metrics_table(metrics: dict[str, float]) -> RichTable:
    """Return metrics as a table to print."""
    return grid(
        (_METRICS.get(name, name.replace("below(", "share below (")), figure_of(value, 4))
        for name, value in metrics.items()
    )


def predicted_with_offset(estimator: Any, rows: Any) -> Array:
    """Return the predictions of a table, with the offsets of its rows where the model was fitted with some."""
    return np.asarray(estimator.predict(rows, **offsets_in(estimator, rows)))


def offsets_in(estimator: Any, rows: Any) -> dict[str, Array]:
    """Return the argument of methods that take the offset of a table's rows; none for a model fitted without one."""
    target = estimator.target_encoding_
    offset = None if target is None else target.offsets(rows, estimator.table_encoding_.missing)
    return {} if offset is None else {"offset": offset}


def measure(estimator: Any, table: Table) -> tuple[dict[str, float], int]:
    """Return the metrics of an estimator's predictions for a table, and the number of rows."""
    target, missing = estimator.target_encoding_, estimator.table_encoding_.missing
    gives = hasattr(estimator, "predict_proba")
    parts: list[tuple[Array, Array, Array | None]] = []
    for _, chunk in read_rows(table):
        y = target.read(chunk, missing)
        if chunk.num_rows:
            answer = predicted_with_offset(estimator, chunk)
            parts.append((y, answer, estimator.predict_proba(chunk) if gives else None))
    if not parts:
        raise InvalidParameterError("the table must have rows", str(table.paths), "Name another file.")
    y, predicted = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    probabilities = np.concatenate([part[2] for part in parts]) if gives else None
    levels = levels_of(estimator.loss_)
    own = quantile_metrics(y, predicted.reshape(len(y), -1), levels) if levels and y.ndim == 1 else {}
    if len(levels) > 1:
        predicted = estimator.loss_.middle(predicted)[:, 0]
    return {**metrics_of(y, predicted, getattr(estimator, "classes_", None), probabilities), **own}, len(y)
