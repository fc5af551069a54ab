"""The commands about models: fit, predict, evaluate, inspect, export and report.

Each is a thin layer over what Python offers: `rflaf.estimators.table_model.fit_table`, `rflaf.load`,
`rflaf.export.model_file`,
`rflaf.export.programs` and `rflaf.inspection.report`. Files are written whole or not at all. Needs the extra ``cli``.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sys
import time
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from rflaf.errors import InvalidParameterError, OutlierWarning
from rflaf.estimators.retired import refuse_retired, translate
from rflaf.estimators.table_model import TableFit, TableModel, fit_table
from rflaf.export.model_file import describe_file, load, save
from rflaf.export.programs import to_c, to_onnx
from rflaf.inspection.report import write_report
from rflaf.rows.files.chunks import read_chunks, read_table, write_chunks
from rflaf.rows.files.outputs import check_output, replacing
from rflaf.rows.tables import MISSING, find_column, require_arrow, summarise

from .console import remark, show, working


class Task(StrEnum):
    """What to predict."""

    AUTO = "auto"
    REGRESSION = "regression"
    CLASSIFICATION = "classification"


class Language(StrEnum):
    """What to export to."""

    ONNX = "onnx"
    C = "c"


Data = Annotated[Path, typer.Argument(help="A CSV, Parquet or NPZ file.", show_default=False)]
Model = Annotated[Path, typer.Argument(help="A file that rflaf fit wrote.", show_default=False)]
Header = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether a CSV file names its columns.", show_default="seen")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def fit(
    data: Data,
    target: Annotated[str, typer.Option(help="Column to predict: its name, or its number from 0.", show_default=False)],
    task: Annotated[Task, typer.Option(help="Seen from the target unless given.")] = Task.AUTO,
    out: Annotated[Path, typer.Option(help="Where to write the model.")] = Path("model.rflaf"),
    width: Annotated[str, typer.Option(help="Number of components, or auto.")] = "100",
    test: Annotated[Path | None, typer.Option(help="Measure on this file instead.", show_default=False)] = None,
    test_share: Annotated[float, typer.Option(help="Share of rows to measure on; 0 fits all.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Of the split and of the fit.")] = 0,
    drop: Annotated[list[str] | None, typer.Option(help="A column not to learn from.", show_default=False)] = None,
    category: Annotated[list[str] | None, typer.Option(help="Its numbers are codes.", show_default=False)] = None,
    missing: Annotated[list[str] | None, typer.Option(help="A text for nothing.", show_default=False)] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="NAME=VALUE: any argument of the estimator.", show_default=False),
    ] = None,
    header: Header = None,
    as_json: Json = False,
) -> None:
    """Fit a model to a table, measure it on rows it has not seen and write it to a file.

    Numbers, categories, dates and missing values need no preparation. A fifth of the rows is held back and the model
    measured on it; `rflaf evaluate` measures on other data.

    Example:  rflaf fit houses.csv --target price --out houses.rflaf
    """
    _check_other(out, data, test)
    tokens = (*MISSING, *(missing or ()))
    with working("reading"):
        table = read_table(data, header)
        measured = test_share if test is None else read_table(test, header)
    left_out = _names(table, drop)
    _refuse_empty(table, {*left_out, find_column(target, table.column_names)}, tokens)
    parameters = _settings(setting or [], width)
    started = time.perf_counter()
    with working("fitting"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = fit_table(
            table, target, task.value, test=measured, parameters=parameters, exclude=left_out,
            categories=_names(table, category), missing=tokens, random_state=seed,
        )  # fmt: skip
    seconds = time.perf_counter() - started
    provenance = {
        "data": data.name,
        "data_sha256": _digest(data),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": {"train": fitted.n_train, "test": fitted.n_test},
        "seed": seed,
        "seconds": round(seconds, 3),
        "metrics": fitted.metrics,
    }
    save(fitted.model, out, provenance=provenance)
    for warning in caught:
        if issubclass(warning.category, OutlierWarning):
            remark(f"rflaf: {warning.message}")
    show(_fit_values(fitted, provenance, out), _fit_lines(fitted, seconds, out), as_json)


def predict(
    model: Model,
    data: Data,
    out: Annotated[
        Path | None, typer.Option(help="Where to write: .csv, .parquet or .npz.", show_default="print")
    ] = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Add those of the classes.")] = False,
    std: Annotated[bool, typer.Option("--std", help="Add the standard deviation of a new observation.")] = False,
    header: Header = None,
    as_json: Json = False,
) -> None:
    """Predict the target for the rows of a table, in their order.

    Columns are found by name, in any order and among others; a file without names has them by number.

    Example:  rflaf predict houses.rflaf new.csv --out prices.csv
    """
    if out is not None:
        _check_other(out, data, model)
    fitted = _load_table_model(model)
    chunks = (_predictions(fitted, chunk, probabilities, std) for chunk in read_chunks(data, header) if chunk.num_rows)
    if out is None:
        _print_rows(chunks, as_json)
        return
    with working("predicting"), replacing(out) as temporary:
        n_rows = write_chunks(chunks, temporary, like=out)
        if not n_rows:
            raise InvalidParameterError("the table must have rows", str(data), "Name another file.")
    show({"rows": n_rows, "out": str(out)}, [f"{n_rows} predictions: {out}"], as_json)


def evaluate(model: Model, data: Data, header: Header = None, as_json: Json = False) -> None:
    """Measure a model on a table with the target.

    Example:  rflaf evaluate houses.rflaf sold.csv
    """
    fitted = _load_table_model(model)
    with working("evaluating"):
        table = read_table(data, header)
        metrics = fitted.evaluate(table)
    values = {"rows": table.num_rows, "task": fitted.task, "target": fitted.target.name, "metrics": metrics}
    first = f"{fitted.task} of {fitted.target.name!r}, {table.num_rows} rows"
    show(values, (first, _metrics_table(metrics)), as_json)


def inspect(model: Model, as_json: Json = False) -> None:
    """Tell what is in a model file, without running anything of it.

    Example:  rflaf inspect houses.rflaf
    """
    about = describe_file(model)
    show(about, _inspect_lines(about), as_json)


def export(
    model: Model,
    to: Annotated[Language, typer.Option(help="The language.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Where to write it.", show_default=False)],
    name: Annotated[str, typer.Option(help="Prefix of every name in C.")] = "rflaf",
    as_json: Json = False,
) -> None:
    """Write the model of a file as ONNX, or as a C99 header without dependencies.

    ONNX takes the columns of the table, one input each; C takes a row of encoded columns, which its comment lists.

    Example:  rflaf export houses.rflaf --to c --out houses.h
    """
    _check_other(out, model)
    fitted = load(model)
    if to is Language.ONNX:
        to_onnx(fitted, out)
    else:
        to_c(fitted, out, name=name)
    show({"out": str(out), "bytes": out.stat().st_size}, [f"{to.value}: {out}, {out.stat().st_size} bytes"], as_json)


def report(
    model: Model,
    data: Annotated[Path, typer.Option(help="A table with the target.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Where to write the page.")] = Path("report.html"),
    header: Header = None,
    as_json: Json = False,
) -> None:
    """Write a page about a model: how good it is beside others, how fast, and what it has learned.

    Example:  rflaf report houses.rflaf --data sold.csv --out houses.html
    """
    _check_other(out, data, model)
    fitted = _load_table_model(model)
    with working("reporting"):
        table = read_table(data, header)
        y = fitted.target.read(table, fitted.encoding.missing)
        facts = {name: str(fitted.provenance[name]) for name in ("data", "date") if name in fitted.provenance}
        title = f"{fitted.task} of {fitted.target.name}"
        write_report(fitted, table, y, out, title=title, facts=facts)
    show({"out": str(out)}, [f"report: {out}"], as_json)


COMMANDS = (fit, predict, evaluate, inspect, export, report)


def _check_other(out: Path, *inputs: Path | None) -> None:
    """The output must be writable and none of the files that are read."""
    check_output(out)
    for path in inputs:
        if path is not None and path.exists() and out.exists() and path.samefile(out):
            raise InvalidParameterError("the output must not be a file that is read", str(out), "Choose another path.")


def _refuse_empty(table: Any, others: set[str], missing: tuple[str, ...]) -> None:
    """A column without a value is likelier a mistake than a choice."""
    columns = summarise(table.select([name for name in table.column_names if name not in others]), missing).columns
    empty = [name for name, column in columns.items() if column.kind == "empty"]
    if empty:
        raise InvalidParameterError("every column must have a value", empty, f"Leave it out: --drop {empty[0]!r}.")


def _names(table: Any, names: list[str] | None) -> list[str]:
    return [find_column(name, table.column_names) for name in names or ()]


def _settings(given: list[str], width: str) -> dict[str, Any]:
    """Return the arguments of the estimator; values are JSON, or else texts."""
    parameters = {"n_components": _json_or_text(width)}
    for setting in given:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InvalidParameterError("--set must be NAME=VALUE", setting, "For example --set loss=huber.")
        parameters[name] = _json_or_text(value)
    present, retired = translate(parameters, has_loss=True)  # here n_basis, pool_size and the like stay short names
    refuse_retired(retired)
    return present


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _load_table_model(path: Path) -> TableModel:
    model = load(path)
    if not isinstance(model, TableModel):
        raise InvalidParameterError(
            "the model must know the columns of its table", f"a bare {type(model).__name__}",
            "Fit it with rflaf fit, or use it in Python: rflaf.load.",
        )  # fmt: skip
    return model


def _predictions(model: TableModel, table: Any, probabilities: bool, std: bool) -> Any:
    """Predictions of a chunk as a table: the target, and what else was asked for."""
    pa = require_arrow()
    X = model.encoding.transform(table)
    columns = {model.target.name: model.estimator.predict(X)}
    if probabilities:
        if not hasattr(model.estimator, "predict_proba"):
            raise InvalidParameterError("--probabilities needs a classifier", model.task, "Leave it out.")
        by_class = model.estimator.predict_proba(X)
        columns |= {f"p({label})": by_class[:, at] for at, label in enumerate(model.estimator.classes_)}
    if std:
        if model.task != "regression":
            raise InvalidParameterError("--std needs a regression", model.task, "Leave it out.")
        columns["std"] = model.estimator.predict(X, return_std=True)[1]
    return pa.table({name: pa.array(np.asarray(values).tolist()) for name, values in columns.items()})


def _print_rows(chunks: Iterator[Any], as_json: bool) -> None:
    """Predictions on standard output: CSV with a first line of names, or a JSON object a line."""
    writer, names = csv.writer(sys.stdout, lineterminator="\n"), None
    for chunk in chunks:
        for row in chunk.to_pylist():
            if as_json:
                sys.stdout.write(json.dumps(row) + "\n")
                continue
            if names is None:
                names = list(row)
                writer.writerow(names)
            writer.writerow(row.values())


def _fit_values(fitted: TableFit, provenance: dict[str, Any], out: Path) -> dict[str, Any]:
    model = fitted.model
    return {
        "task": model.task,
        "reason": model.target.reason,
        "target": model.target.name,
        "classes": [str(label) for label in getattr(model.estimator, "classes_", [])],
        "features": len(model.encoding.feature_names),
        "dropped": {left.name: left.reason for left in model.encoding.dropped},
        "n_components": model.estimator.n_components_,
        **provenance,
        "out": str(out),
        "bytes": out.stat().st_size,
    }


def _fit_lines(fitted: TableFit, seconds: float, out: Path) -> Iterator[str | Table]:
    model = fitted.model
    yield f"{model.task} of {model.target.name!r}: {model.target.reason}"
    yield from (f"left out {left.name!r}: {left.reason}" for left in model.encoding.dropped)
    n_columns, n_features = len(model.encoding.columns), len(model.encoding.feature_names)
    yield f"{n_columns} columns as {n_features} numbers, {model.estimator.n_components_} components, {seconds:.1f} s"
    if fitted.n_test:
        yield f"measured on {fitted.n_test} rows it has not seen, fitted to {fitted.n_train}:"
        yield _metrics_table(fitted.metrics)
    else:
        yield f"fitted to all {fitted.n_train} rows, not measured"
    yield f"model: {out}, {out.stat().st_size} bytes"


def _metrics_table(metrics: dict[str, float]) -> Table:
    table = Table(show_header=False)
    for name, value in metrics.items():
        table.add_row(name, f"{value:.4g}")
    return table


def _inspect_lines(about: dict[str, Any]) -> Iterator[str]:
    yield f"{about.get('class')} of rflaf {about.get('library')}, format {about.get('format')}, {about['bytes']} bytes"
    target = about.get("target")
    if isinstance(target, dict):
        yield f"{target.get('task')} of {target.get('name')!r}"
    classes = about.get("classes")
    if isinstance(classes, dict):
        yield f"classes: {', '.join(map(str, classes.get('values', [])))}"
    table = about.get("table")
    for column in table.get("columns", []) if isinstance(table, dict) else []:
        yield "  " + ", ".join(f"{name} {_short(value)}" for name, value in column.items())
    yield f"provenance: {json.dumps(about.get('provenance'))}"
    parameters = about.get("parameters")
    if isinstance(parameters, dict):
        yield "parameters: " + ", ".join(f"{name}={value!r}" for name, value in parameters.items())
    for name, array in about["arrays"].items():
        yield f"  {name} {array['dtype']} {tuple(array['shape'])}"


def _short(value: Any, most: int = 60) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= most else text[: most - 3] + "..."
