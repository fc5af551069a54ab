"""Shared by the commands: options, the files they read and write, and the metrics of a model on a table."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table as RichTable

from rflaf.errors import Array, InvalidParameterError
from rflaf.estimators.metrics import metrics_of
from rflaf.rows.files import Table
from rflaf.rows.files.chunks import read_rows
from rflaf.rows.files.outputs import check_output

from .console import grid

Data = Annotated[Path, typer.Argument(help="A CSV, Parquet, Arrow, NPZ or NPY file.", show_default=False)]
Model = Annotated[Path, typer.Argument(help="A file that rflaf fit or rflaf.save wrote.", show_default=False)]
Target = Annotated[str, typer.Option(help="Column to predict: its name, or its number from 0.", show_default=False)]
Header = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether a CSV file names its columns.", show_default="seen")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def read_from(data: Path, header: bool | None) -> Table:
    """Return a table to read, which must be there."""
    if not (data.exists() or glob.glob(str(data))):
        raise InvalidParameterError("the data must be a file", str(data), "Check the path.")
    return Table(data, has_header=header)


def check_other(out: Path, *inputs: Path | None) -> None:
    """The output must be writable and none of the files that are read."""
    check_output(out)
    for path in inputs:
        if path is not None and path.exists() and out.exists() and path.samefile(out):
            raise InvalidParameterError("the output must not be a file that is read", str(out), "Choose another path.")


def metrics_table(metrics: dict[str, float]) -> RichTable:
    """Return metrics as a table to print."""
    return grid((name, f"{value:.4g}") for name, value in metrics.items())


def measure(estimator: Any, table: Table) -> tuple[dict[str, float], int]:
    """Return the metrics of an estimator's predictions for a table, and the number of rows."""
    target, missing = estimator.target_encoding_, estimator.table_encoding_.missing
    gives = hasattr(estimator, "predict_proba")
    parts: list[tuple[Array, Array, Array | None]] = []
    for _, chunk in read_rows(table):
        y = target.read(chunk, missing)
        if chunk.num_rows:
            parts.append((y, estimator.predict(chunk), estimator.predict_proba(chunk) if gives else None))
    if not parts:
        raise InvalidParameterError("the table must have rows", str(table.paths), "Name another file.")
    y, predicted = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    probabilities = np.concatenate([part[2] for part in parts]) if gives else None
    return metrics_of(y, predicted, getattr(estimator, "classes_", None), probabilities), len(y)
