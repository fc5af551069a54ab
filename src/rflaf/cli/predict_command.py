"""``rflaf predict``, which starts quickly: of the model file only what predicts is read.

Tables are read chunk by chunk. Files are written whole or not at all.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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

from .commands import as_command
from .console import (
    Data,
    Encoding,
    Header,
    Json,
    Model,
    check_other,
    offsets_in,
    out_option,
    read_from,
    show,
    working,
)

_Columns = Callable[[Any], dict[str, Array]]  # from a chunk of a table to columns


@dataclass(frozen=True, slots=True)
class PredictCommand:
    """Predict the target for the rows of a table, in their order.

    Columns are found by name, in any order and among others; a file without names has them by number.

    Example:  rflaf predict houses.rflaf new.csv --out prices.csv
    """

    model: Model
    data: Data
    out: Annotated[
        Path | None,
        out_option("Where to write: .csv, .parquet or .npz; - prints.", show_default="print"),
    ] = None
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Add those of the classes.")] = False
    std: Annotated[
        bool, typer.Option("--std", help="Add standard deviations: of observations, or of probabilities.")
    ] = False
    interval: Annotated[
        list[float] | None,
        typer.Option(help="Add an interval, or a set of labels, of this coverage.", show_default=False),
    ] = None
    header: Header = None
    encoding: Encoding = None
    as_json: Json = False

    def run(self) -> None:
        """Predict chunk by chunk, and write or print."""
        out = None if str(self.out) == "-" else self.out
        if out is not None:
            check_other(out, self.data, self.model)
            check_table_output(out)
        predictor, rows = _load(self.model), read_rows(read_from(self.data, self.header, self.encoding))
        more = self._more()
        chunks = (_predictions(predictor, chunk, self.probabilities, more) for _, chunk in rows if chunk.num_rows)
        if out is None:
            print_rows(chunks, self.as_json)
            return
        with working("predicting"), replacing(out) as temporary:
            n_rows = write_chunks(chunks, temporary, like=out)
            if not n_rows:
                raise InvalidParameterError("the table must have rows", str(self.data), "Name another file.")
        show({"rows": n_rows, "out": str(out)}, [f"{n_rows:,} predictions: {out}"], self.as_json)

    def _more(self) -> list[_Columns]:
        """Return what gives other columns than the prediction."""
        given = [_deviation(self.model)] if self.std else []
        return [*given, _intervals(self.model, self.interval)] if self.interval else given


predict = as_command(PredictCommand, "predict")


def _load(path: Path) -> Predictor:
    """Return what predicts of a file, which must know the columns of its table."""
    predictor = load_predictor(path)
    if predictor.encoding is None:
        kind = "RFLAFRegressor" if predictor.classes is None else "RFLAFClassifier"
        remedy = "Fit it with rflaf fit, or use it in Python: rflaf.load."
        raise InvalidParameterError("the model must know the columns of its table", f"a bare {kind}", remedy)
    return predictor


def _deviation(path: Path) -> _Columns:
    """Return what gives the standard deviations of a regression, or of probabilities; it needs the whole estimator."""
    estimator = load(path)
    if hasattr(estimator, "classes_"):
        if not hasattr(estimator, "predict_proba"):
            raise InvalidParameterError("--std needs a regression, or probabilities", estimator.loss, "Leave it out.")
        return lambda table: {
            f"std({label})": of_class
            for label, of_class in zip(
                estimator.classes_, estimator.predict_proba(table, return_std=True)[1].T, strict=True
            )
        }
    return lambda table: {
        "std": np.asarray(estimator.predict(table, return_std=True, **offsets_in(estimator, table))[1])
    }


def _intervals(path: Path, coverages: list[float]) -> _Columns:
    """Return what gives the limits of intervals, or sets of labels divided by bars, one column or two per coverage."""
    from rflaf.estimators.intervals import coverages_of  # slow to import, and only needed here

    coverages_of(coverages)
    estimator = load(path)

    def limits(table: Any) -> dict[str, Array]:
        low, high = np.moveaxis(estimator.predict_interval(table, coverages, **offsets_in(estimator, table)), -1, 0)
        sides = (("lower", low), ("upper", high))
        return {f"{name}({c:g})": side[:, at] for at, c in enumerate(coverages) for name, side in sides}

    def sets(table: Any) -> dict[str, Array]:
        inside, labels = estimator.predict_set(table, coverages), estimator.classes_.astype(str)
        texts = (np.array(["|".join(labels[row]) for row in inside[:, at]]) for at in range(len(coverages)))
        return {f"set({c:g})": text for c, text in zip(coverages, texts, strict=True)}

    return sets if hasattr(estimator, "classes_") else limits


def _predictions(predictor: Predictor, table: Any, probabilities: bool, more: list[_Columns]) -> Any:
    """Return the predictions of a chunk as a table: the target, and what else was asked for."""
    pa, target = require_arrow(), predictor.target
    f = predictor.decision(table)
    name, answer = "prediction" if target is None else target.name, predictor.answer_with_offset(f, table)
    columns = {name: answer} if answer.ndim == 1 else _by_level(name, predictor, answer)
    if probabilities:
        if predictor.classes is None or not predictor.gives_probabilities:
            task = "regression" if predictor.classes is None else "classification"
            raise InvalidParameterError("--probabilities needs a classifier", task, "Leave it out.")
        by_class = predictor.probabilities(f)
        columns |= {f"p({label})": by_class[:, at] for at, label in enumerate(predictor.classes)}
    for give in more:
        columns |= give(table)
    return pa.table({name: pa.array(np.asarray(values).tolist()) for name, values in columns.items()})


def _by_level(name: str, predictor: Predictor, answer: Array) -> dict[str, Array]:
    """Return several answers as columns, named by their quantiles, or by their numbers."""
    levels = getattr(predictor.loss, "levels", range(answer.shape[1]))
    return {f"{name}({level:g})": answer[:, at] for at, level in enumerate(levels)}


def print_rows(chunks: Iterator[Any], as_json: bool) -> None:
    """Print rows: CSV with a first line of names, or one JSON object per line."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for at, row in enumerate(row for chunk in chunks for row in chunk.to_pylist()):
        if as_json:
            sys.stdout.write(json.dumps(row) + "\n")
        else:
            writer.writerows([row.values()] if at else [row, row.values()])
