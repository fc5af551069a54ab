"""``rflaf predict``, which starts quickly: of the model file only what predicts is read.

Tables are read chunk by chunk. Files are written whole or not at all.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from rflaf.errors import Array, InvalidParameterError
from rflaf.export.model_file import load, load_predictor
from rflaf.export.predictor import Predictor
from rflaf.rows.files.chunks import read_rows
from rflaf.rows.files.outputs import check_table_output, replacing, write_chunks
from rflaf.rows.tables import require_arrow

from .console import Data, Encoding, Header, Json, Model, check_other, out_option, read_from, show, working


def predict(
    model: Model,
    data: Data,
    out: Annotated[
        Path | None,
        out_option("Where to write: .csv, .parquet or .npz; - prints.", show_default="print"),
    ] = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Add those of the classes.")] = False,
    std: Annotated[bool, typer.Option("--std", help="Add the standard deviation of a new observation.")] = False,
    header: Header = None,
    encoding: Encoding = None,
    as_json: Json = False,
) -> None:
    """Predict the target for the rows of a table, in their order.

    Columns are found by name, in any order and among others; a file without names has them by number.

    Example:  rflaf predict houses.rflaf new.csv --out prices.csv
    """
    out = None if str(out) == "-" else out
    if out is not None:
        check_other(out, data, model)
        check_table_output(out)
    predictor, rows = _load(model), read_rows(read_from(data, header, encoding))
    deviation = _deviation(model) if std else None
    chunks = (_predictions(predictor, chunk, probabilities, deviation) for _, chunk in rows if chunk.num_rows)
    if out is None:
        print_rows(chunks, as_json)
        return
    with working("predicting"), replacing(out) as temporary:
        n_rows = write_chunks(chunks, temporary, like=out)
        if not n_rows:
            raise InvalidParameterError("the table must have rows", str(data), "Name another file.")
    show({"rows": n_rows, "out": str(out)}, [f"{n_rows:,} predictions: {out}"], as_json)


def _load(path: Path) -> Predictor:
    """Return what predicts of a file, which must know the columns of its table."""
    predictor = load_predictor(path)
    if predictor.encoding is None:
        kind = "RFLAFRegressor" if predictor.classes is None else "RFLAFClassifier"
        remedy = "Fit it with rflaf fit, or use it in Python: rflaf.load."
        raise InvalidParameterError("the model must know the columns of its table", f"a bare {kind}", remedy)
    return predictor


def _deviation(path: Path) -> Callable[[Any], Array]:
    """Return what gives the standard deviations of a regression; it needs the whole estimator."""
    estimator = load(path)
    if hasattr(estimator, "classes_"):
        raise InvalidParameterError("--std needs a regression", "classification", "Leave it out.")
    return lambda table: np.asarray(estimator.predict(table, return_std=True)[1])


def _predictions(predictor: Predictor, table: Any, probabilities: bool, deviation: Any) -> Any:
    """Return the predictions of a chunk as a table: the target, and what else was asked for."""
    pa, target = require_arrow(), predictor.target
    f = predictor.decision(table)
    columns = {"prediction" if target is None else target.name: predictor.answer(f)}
    if probabilities:
        if predictor.classes is None or not predictor.gives_probabilities:
            task = "regression" if predictor.classes is None else "classification"
            raise InvalidParameterError("--probabilities needs a classifier", task, "Leave it out.")
        by_class = predictor.probabilities(f)
        columns |= {f"p({label})": by_class[:, at] for at, label in enumerate(predictor.classes)}
    if deviation is not None:
        columns["std"] = deviation(table)
    return pa.table({name: pa.array(np.asarray(values).tolist()) for name, values in columns.items()})


def print_rows(chunks: Iterator[Any], as_json: bool) -> None:
    """Print rows: CSV with a first line of names, or one JSON object per line."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for at, row in enumerate(row for chunk in chunks for row in chunk.to_pylist()):
        if as_json:
            sys.stdout.write(json.dumps(row) + "\n")
        else:
            writer.writerows([row.values()] if at else [row, row.values()])
