"""The commands about fitted models: evaluate, inspect and export.

Each is a thin layer over Python: `rflaf.load` and `rflaf.export.programs`. Tables are read
chunk by chunk. Files are written whole or not at all. Needs the extra ``cli``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table as RichTable

from rflaf.errors import InvalidParameterError
from rflaf.estimators.metrics import figure_of
from rflaf.export.model_file import describe_file, load
from rflaf.export.programs import to_onnx, to_source

from .console import (
    Data,
    Encoding,
    Header,
    Json,
    Model,
    check_other,
    grid,
    measure,
    metrics_table,
    out_option,
    read_from,
    remark,
    show,
    working,
)
from .table_commands import inspect_table, is_model


class Language(StrEnum):
    """The language of an export."""

    ONNX = "onnx"
    C = "c"
    JS = "js"
    JAVA = "java"
    GO = "go"
    RUST = "rust"
    SQL = "sql"


def evaluate(model: Model, data: Data, header: Header = None, encoding: Encoding = None, as_json: Json = False) -> None:
    """Measure a model on a table with the target.

    Example:  rflaf evaluate houses.rflaf sold.csv
    """
    estimator = load_model(model, measured=True)
    target = estimator.target_encoding_
    with working("evaluating"):
        metrics, n_rows = measure(estimator, read_from(data, header, encoding))
    values = {"rows": n_rows, "task": target.task, "target": target.name, "metrics": metrics}
    first = f"{target.task} of {target.name!r}, {n_rows:,} rows"
    show(values, (first, metrics_table(metrics)), as_json)


def inspect(
    path: Annotated[Path, typer.Argument(help="A model, or a table: CSV, Parquet ...", show_default=False)],
    target: Annotated[str | None, typer.Option(help="Column to predict, of a table.", show_default=False)] = None,
    header: Header = None,
    encoding: Encoding = None,
    as_json: Json = False,
) -> None:
    """Show what is in a model file, without running anything of it; or how rflaf fit would read a table.

    Example:  rflaf inspect houses.rflaf
    """
    if not is_model(path):
        values, lines = inspect_table(read_from(path, header, encoding), target)
        show(values, lines, as_json)
        return
    about = describe_file(path)
    show(about, _inspect_lines(about), as_json)


def export(
    model: Model,
    to: Annotated[Language, typer.Option(help="The language.", show_default=False)],
    out: Annotated[Path, out_option("Where to write it.", show_default=False)],
    name: Annotated[
        str, typer.Option(help="Prefix of every name in C; class, package, module or table elsewhere.")
    ] = "rflaf",
    as_json: Json = False,
) -> None:
    """Write the model of a file as ONNX, or as C99, JavaScript, Java, Go, Rust or SQL without dependencies.

    All take the columns of the table: ONNX one input each, C a struct, SQL a table.

    Example:  rflaf export houses.rflaf --to c --out houses.h
    """
    check_other(out, model)
    fitted = load(model)
    if to is Language.ONNX:
        to_onnx(fitted, out)
    else:
        to_source(fitted, out, language=to.value, name=name)
    target = fitted.target_encoding_
    if target is not None and target.offset:
        of_logs = "multiply its answer by it" if target.exposure else "multiply its answer by its exponential"
        how = of_logs if fitted.loss_.offset_weighs else "add it to its answer"
        remark(f"rflaf: the program predicts without {target.offset!r}, the offset of the fit: {how}")
    show({"out": str(out), "bytes": out.stat().st_size}, [f"{to.value}: {out}, {out.stat().st_size:,} bytes"], as_json)


def load_model(path: Path, measured: bool = False) -> Any:
    """Return the estimator of a file, which must know the columns of its table, and its target to be measured."""
    model = load(path)
    if model.table_encoding_ is None:
        remedy = "Fit it with rflaf fit, or use it in Python: rflaf.load."
        found = f"a bare {type(model).__name__}"
        raise InvalidParameterError("the model must know the columns of its table", found, remedy)
    if measured and model.target_encoding_ is None:
        remedy = "Fit it anew with the target's name."
        raise InvalidParameterError("the model must know its target", "no name of a single column", remedy)
    return model


def _inspect_lines(about: dict[str, Any]) -> Iterator[str | RichTable]:
    library, number, size = about.get("library"), about.get("format"), about["bytes"]
    yield f"{about.get('class')} of rflaf {library}, format {number}, {size:,} bytes"
    target = about.get("target")
    if isinstance(target, dict):
        yield f"{target.get('task')} of {target.get('name')!r}"
    classes = about.get("classes")
    if isinstance(classes, dict):
        yield f"classes: {', '.join(map(str, classes.get('values', [])))}"
    table = about.get("columns")
    columns = table.get("columns", []) if isinstance(table, dict) else []
    if columns:
        yield grid(
            ((str(column.get("name")), _reading(column)) for column in columns), "column", "read as", right=False
        )
    yield f"provenance: {json.dumps(about.get('provenance'))}"
    parameters = about.get("parameters")
    if isinstance(parameters, dict):
        yield "parameters: " + ", ".join(f"{name}={value!r}" for name, value in parameters.items())
    for name, array in about["arrays"].items():
        yield f"  {name} {array['dtype']} {tuple(array['shape'])}"


def _reading(column: dict[str, Any]) -> str:
    """Say what a column of a table is read as, its levels and what stands for a gap."""
    words = str(column.get("reading") or column.get("kind"))
    levels, fill = column.get("levels"), column.get("fill")
    words += f": {_short(levels)}" if isinstance(levels, list) else ""
    return words + (f", gaps as {figure_of(fill, 4)}" if isinstance(fill, float) else "")


def _short(value: Any, most: int = 60) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= most else text[: most - 3] + "..."
