"""``rflaf check``: whether new rows are like those that a model was fitted to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table as RichTable

from rflaf.errors import InvalidParameterError
from rflaf.export.model_file import load
from rflaf.inspection.drift import Drift, check_drift
from rflaf.rows.files.chunks import read_rows
from rflaf.rows.tables import require_arrow

from .console import Data, Encoding, Header, Json, Model, grid, read_from, show, working

DRIFTED = 3  # exit code
_MOST_SHOWN = 12


def check(
    model: Model,
    data: Data,
    limit: Annotated[float, typer.Option(help="What matters: an effect, an excess of the error, a share.")] = 0.1,
    header: Header = None,
    encoding: Encoding = None,
    as_json: Json = False,
) -> int:
    """Check whether the rows of a table are like those that a model was fitted to; exit code 3 if they are not.

    Which columns moved and what that does to the predictions, levels never seen, rows outside the range of the fit, and
    the error: measured if the table has the target, expected otherwise.

    Example:  rflaf check houses.rflaf new.csv
    """
    if not limit > 0:
        raise InvalidParameterError("--limit must be a number above zero", limit, "The default is 0.1.")
    estimator = _load(model)
    with working("checking"):
        table = require_arrow().concat_tables(chunk for _, chunk in read_rows(read_from(data, header, encoding)))
        if not table.num_rows:
            raise InvalidParameterError("the table must have rows", str(data), "Name another file.")
        target = estimator.target_encoding_
        known = target is not None and target.name in table.column_names
        y = target.read(table, estimator.table_encoding_.missing) if known else None
        drift = check_drift(estimator, table, y)
    reasons = drift.reasons(limit)
    values = {**asdict(drift), "ratio": drift.ratio, "drifted": bool(reasons), "reasons": reasons}
    show(values, _lines(drift, reasons, str(estimator.loss_.name)), as_json)
    return DRIFTED if reasons else 0


def _load(path: Path) -> Any:
    estimator = load(path)
    if estimator.table_encoding_ is None:
        found, remedy = f"a bare {type(estimator).__name__}", "Use rflaf.inspection.drift.check_drift in Python."
        raise InvalidParameterError("the model must know the columns of its table", found, remedy)
    return estimator


def _lines(drift: Drift, reasons: list[str], loss: str) -> Iterator[str | RichTable]:
    yield f"{drift.n_rows:,} rows, {drift.outside:.1%} of them outside the range of the fit"
    shown = [column for column in drift.columns if column.moved or column.unseen][:_MOST_SHOWN]
    if shown:
        rows = (
            (column.name, f"{column.distance:.2f}", f"{column.effect:.2f}", f"{column.outside:.1%}") for column in shown
        )
        yield grid(rows, "column moved", "by", "effect", "outside")
    if drift.error == drift.error:
        yield f"mean loss ({loss}): {drift.error:.4g}, of rows held out in the fit {drift.error_in_fit:.4g}"
    elif drift.expected == drift.expected:
        yield f"expected error {drift.expected:.2f} times that of the fit"
    yield from (f"drift: {reason}" for reason in reasons)
    if not reasons:
        yield "no drift that matters"
