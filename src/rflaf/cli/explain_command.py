"""``rflaf explain``: what each column adds to the prediction of each row of a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from rflaf.errors import InvalidParameterError
from rflaf.export.model_file import load
from rflaf.rows.files.chunks import read_rows
from rflaf.rows.files.outputs import check_table_output, replacing, write_chunks
from rflaf.rows.tables import require_arrow

from .console import Data, Encoding, Header, Json, Model, check_other, read_from, show, working
from .predict_command import print_rows


def explain(
    model: Model,
    data: Data,
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write: .csv, .parquet or .npz; - prints.", show_default="print"),
    ] = None,
    orders: Annotated[int, typer.Option(help="Orders of the columns to average over; more are more exact.")] = 16,
    header: Header = None,
    encoding: Encoding = None,
    as_json: Json = False,
) -> None:
    """Say what each column adds to the prediction of each row: Shapley values, one line per row (and class).

    The column (base) is the answer at the means of all columns; contributions and base sum to (sum), the prediction
    before its link: log odds of classes, the logarithm of counts.

    Example:  rflaf explain houses.rflaf new.csv --out reasons.csv
    """
    out = None if str(out) == "-" else out
    if out is not None:
        check_other(out, data, model)
        check_table_output(out)
    estimator = load(model)
    if estimator.table_encoding_ is None:
        remedy = "Fit it with rflaf fit, or use it in Python: rflaf.load(...).explain."
        raise InvalidParameterError("the model must know the columns of its table", f"a bare {estimator!r}", remedy)
    chunks = _reasons(estimator, read_rows(read_from(data, header, encoding)), orders)
    if out is None:
        print_rows(chunks, as_json)
        return
    with working("explaining"), replacing(out) as temporary:
        n_lines = write_chunks(chunks, temporary, like=out)
        if not n_lines:
            raise InvalidParameterError("the table must have rows", str(data), "Name another file.")
    show({"lines": n_lines, "out": str(out)}, [f"{n_lines} lines of reasons: {out}"], as_json)


def _reasons(estimator: Any, rows: Iterator[tuple[Any, Any]], orders: int) -> Iterator[Any]:
    """Yield the reasons for chunks of rows as tables; rows are numbered from one."""
    pa, first = require_arrow(), 1
    for _, chunk in rows:
        if chunk.num_rows:
            columns = estimator.explain(chunk, n_orders=orders).table()
            columns["(row)"] = columns["(row)"] + first
            yield pa.table({name: pa.array(values.tolist()) for name, values in columns.items()})
            first += chunk.num_rows
