"""The commands about a table before there is a model: plan a width, and compare with what anyone would try first.

Needs the extra ``cli``; pictures need ``plots``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table as RichTable

from rflaf.errors import Array, InvalidParameterError
from rflaf.estimators import RFLAFClassifier, RFLAFRegressor
from rflaf.estimators.metrics import classification_scores, figure_of, regression_scores
from rflaf.estimators.width_plan import WidthPlan
from rflaf.estimators.width_plan import plan as plan_width
from rflaf.inspection.report.quality import Task, cost_in_batch, usual_models
from rflaf.rows.files import Table, find_files, scan_table
from rflaf.rows.files.chunks import column_names, read_rows
from rflaf.rows.files.csv_layout import find_layout
from rflaf.rows.files.outputs import check_output
from rflaf.rows.files.table import KINDS, kind_of
from rflaf.rows.indicators import indicators
from rflaf.rows.tables import find_column, make_encoding, make_target, require_arrow, summarise

from .console import Data, Header, Json, Target, decision_lines, grid, out_option, read_from, show, working


def plan(
    data: Data,
    target: Target,
    epsilon: Annotated[
        float | None, typer.Option(help="Sampling error, a share of the variance.", show_default="4 / sqrt(rows)")
    ] = None,
    delta: Annotated[float, typer.Option(help="Probability that the promise fails.")] = 0.1,
    out: Annotated[Path | None, out_option("Where to write a picture.", show_default="none")] = None,
    seed: Annotated[int, typer.Option(help="Of the sample and the directions.")] = 0,
    header: Header = None,
    as_json: Json = False,
) -> None:
    """Say how wide a model should be before it is trained, by theory and from a sample.

    Example:  rflaf plan houses.csv --target price --out spectrum.png
    """
    if out is not None:
        check_output(out)
    with working("reading"):
        X, y, task = _encoded(data, target, header)
    with working("planning"):
        answer = plan_width(
            X, y, epsilon=epsilon, delta=delta, loss="log_loss" if task == "classification" else "squared",
            random_state=seed,
        )  # fmt: skip
    if out is not None:
        _draw(answer, out)
    lines: list[str | RichTable] = [grid(answer.table())]
    show(_plan_values(answer), lines if out is None else [*lines, f"picture: {out}"], as_json)


def bench(
    data: Data,
    target: Target,
    width: Annotated[
        list[int] | None, typer.Option(metavar="NUMBER", help="Widths to try.", show_default="30 and 100")
    ] = None,
    test_share: Annotated[float, typer.Option(help="Share of rows to measure on.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Of the split and of the fits.")] = 0,
    header: Header = None,
    as_json: Json = False,
) -> None:
    """Compare with the models anyone would try first: error on rows held out, seconds to fit, microseconds a row.

    rflaf bench srbench runs a public benchmark instead.

    Example:  rflaf bench houses.csv --target price --width 30 --width 100
    """
    widths = width or [30, 100]
    if not 0 < test_share < 1:
        raise InvalidParameterError("--test-share must lie between 0 and 1", test_share, "Use 0.2.")
    with working("reading"):
        X, y, task = _encoded(data, target, header)
    with working("comparing"):
        results = list(_compare(X, y, task == "classification", widths, test_share, seed))
    values = {"task": task, "rows": len(X), "columns": X.shape[1], "models": [asdict(result) for result in results]}
    ranked = sorted(results, key=lambda result: result.error)
    cells = ((r.name, figure_of(r.error, 4), f"{r.fit_seconds:.2f}", f"{r.microseconds:.2f}") for r in ranked)
    table = grid(cells, "model", results[0].metric, "seconds to fit", "microseconds a row")
    show(values, [f"{task} of {target!r}, {len(X):,} rows", table], as_json)


@dataclass(frozen=True)
class Benched:
    """A model on rows held out: the name of its error and the error, seconds to fit, microseconds a row in a batch."""

    name: str
    metric: str
    error: float
    fit_seconds: float
    microseconds: float


def _encoded(data: Path, target: str, header: bool | None) -> tuple[Array, Array, str]:
    """The columns as numbers, with an indicator for every level that occurs, the target, and the task."""
    table = require_arrow().concat_tables(chunk for _, chunk in read_rows(read_from(data, header)))
    summary = summarise(table)
    aim = make_target(summary, find_column(target, table.column_names))
    encoding = make_encoding(summary, {aim.name})
    rows = indicators(encoding.transform(table), encoding.level_counts)
    return rows[:, rows.any(axis=0)], aim.read(table), aim.task


def is_model(path: Path) -> bool:
    """Return whether a file is taken for a model: it has a model's ending, or no other known one and its beginning."""
    if str(path) == "-" or any(str(path).lower().endswith(ending) for endings in KINDS.values() for ending in endings):
        return False
    if path.suffix == ".rflaf" or not path.is_file():
        return path.suffix == ".rflaf" or not path.exists()
    with path.open("rb") as file:
        return file.read(9)[8:] == b"{"  # of safetensors


def inspect_table(table: Table, target: str | None) -> tuple[dict[str, Any], list[str | RichTable]]:
    """Return how every column of a table would be read, as values and as lines to print."""
    first = find_files(table.paths)[0]
    notes = list(find_layout(first, table.has_header, table.encoding).notes) if kind_of(first) == "CSV" else []
    names = column_names(table)
    name = names[-1] if target is None else find_column(target, names)
    with working("reading"):
        summary = scan_table(table, name).summary
    n_rows = summary.columns[name].n_rows
    column = summary.columns[name]
    if target is not None and 0 < column.n_missing < column.n_rows:
        notes.append(
            f"{column.n_missing:,} rows have no target {name!r}: fit leaves them out with --drop-missing-target"
        )
        summary = summary.without_gaps(name)
    aim = None if target is None else make_target(summary, name)
    encoding = make_encoding(summary.select(names), () if aim is None else {name})
    lines: list[str | RichTable] = [f"{n_rows:,} rows, {len(names)} columns", *notes]
    lines += [] if aim is None else [f"{aim.task} of {aim.name!r}: {aim.reason}"]
    lines += [
        *decision_lines(encoding.decisions),
        f"{len(encoding.feature_names)} number{'s' * (len(encoding.feature_names) > 1)} a row",
    ]
    values = {
        "rows": n_rows,
        "notes": notes,
        "target": None if aim is None else asdict(aim),
        "decisions": [asdict(line) for line in encoding.decisions],
    }
    return values, lines


def _compare(X: Array, y: Array, classify: bool, widths: list[int], test_share: float, seed: int) -> Iterator[Benched]:
    from sklearn.model_selection import train_test_split  # slow to import, and only needed here

    classes, code = np.unique(y, return_inverse=True) if classify else (None, y)
    X_train, X_test, y_train, y_test = train_test_split(X, code, test_size=test_share, random_state=seed)
    ours = RFLAFClassifier if classify else RFLAFRegressor
    n_classes = None if classes is None else len(classes)
    models: dict[str, Any] = {f"rflaf, {width}": ours(width, random_state=seed) for width in widths}
    models |= usual_models(Task(n_classes), X.shape[1], max(widths))
    for name, model in models.items():
        started = perf_counter()
        fitted = model.fit(X_train, y_train)
        seconds = perf_counter() - started
        predict = fitted.predict_proba if classify else fitted.predict
        answers = predict(X_test)
        scores = classification_scores(y_test, answers) if classify else regression_scores(y_test, answers)
        yield Benched(name, scores[0].name, scores[0].value, seconds, cost_in_batch(predict, X_test))


def _plan_values(answer: WidthPlan) -> dict[str, Any]:
    practice = answer.practice
    return {
        "rows": answer.n_samples,
        "columns": answer.n_features,
        "loss": answer.case,
        "lambda": answer.lam,
        "epsilon": answer.epsilon,
        "delta": answer.delta,
        "effective_dimension": answer.effective_dimension,
        "decay": asdict(answer.decay),
        "spread": answer.spread,
        "plain_width": answer.plain_width,
        "leverage_width": answer.leverage_width,
        "algorithm_widths": asdict(answer.algorithm_widths),
        "advice": answer.advice,
        "enough_plain": answer.enough_plain,
        "enough_greedy": answer.enough_greedy,
        "squared_norm": None if practice is None else practice.squared_norm,
        "fit_seconds": None if practice is None else practice.fit_seconds,
        "fit_bytes": answer.fit_bytes,
    }


def _draw(answer: WidthPlan, out: Path) -> None:
    from rflaf.inspection.plots import SpectrumDisplay, require_matplotlib

    figure = SpectrumDisplay.from_plan(answer).figure_
    figure.savefig(out, dpi=150)
    require_matplotlib().close(figure)
