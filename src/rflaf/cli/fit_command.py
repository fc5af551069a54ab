"""The command ``rflaf fit``: open a table, choose the task, fit, measure on rows held out, and save.

A thin layer over `RFLAFRegressor.fit` and `RFLAFClassifier.fit`; the table is read chunk by chunk. Needs the extra
``cli``.
"""

from __future__ import annotations

import json
import re
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table as RichTable

from rflaf.errors import InvalidParameterError, OutlierWarning
from rflaf.estimators import RFLAFClassifier, RFLAFRegressor
from rflaf.estimators.offsets import OFFSET_WEIGHT
from rflaf.estimators.parameters import check_parameters
from rflaf.estimators.retired import refuse_retired, translate, warn_shapes
from rflaf.export.model_file import save
from rflaf.rows.files import RowChoice, ScannedTable, Table, digest_of, scan_table
from rflaf.rows.files.chunks import column_names
from rflaf.rows.tables import MISSING, TargetEncoding, find_column, make_target
from rflaf.rows.tables.encoding import GIVES_AWAY

from .commands import as_command
from .console import (
    Data,
    Encoding,
    Header,
    Json,
    Target,
    check_other,
    decision_lines,
    measure,
    metrics_table,
    out_option,
    read_from,
    remark,
    show,
    working,
)
from .offset_column import with_offset_column, without_offsets

_LEAST_ROWS = 10
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


class Task(StrEnum):
    """The kind of prediction."""

    AUTO = "auto"
    REGRESSION = "regression"
    CLASSIFICATION = "classification"


_TASKS = {
    **dict.fromkeys(("log_loss", "squared_hinge"), Task.CLASSIFICATION),
    **dict.fromkeys(("squared", "huber", "quantile", "poisson", "gamma", "tweedie"), Task.REGRESSION),
}  # by the name of the loss


@dataclass(frozen=True, slots=True)
class FitCommand:
    """Fit a model to a table, measure it on rows it has not seen and write it to a file.

    Numbers, categories, dates and missing values need no preparation. A fifth of the rows is held back and the model
    measured on it; `rflaf evaluate` measures on other data. The table is read chunk by chunk and may be larger than
    memory.

    Example:  rflaf fit houses.csv --target price --out houses.rflaf
    """

    data: Data
    target: Target
    task: Annotated[Task, typer.Option(help="Seen from the target unless given.")] = Task.AUTO
    out: Annotated[Path, out_option("Where to write the model.")] = Path("model.rflaf")
    width: Annotated[str, typer.Option(help="Number of components, or auto.")] = "100"
    test: Annotated[Path | None, typer.Option(help="Measure on this file instead.", show_default=False)] = None
    test_share: Annotated[float, typer.Option(help="Share of rows to measure on; 0 fits all.")] = 0.2
    seed: Annotated[int, typer.Option(help="Of the split and of the fit.")] = 0
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column not to learn from.", show_default=False)
    ] = None
    category: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Its numbers are codes.", show_default=False)
    ] = None
    missing: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="A text for nothing.", show_default=False)
    ] = None
    read: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=HOW", help="HOW is number, category, date, d/m/y ...", show_default=False),
    ] = None
    drop_missing_target: Annotated[
        bool, typer.Option("--drop-missing-target", help="Leave out rows without a target.")
    ] = False
    offset: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="A known part of what is learned.", show_default=False)
    ] = None
    exposure: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Its logarithm is one: --set loss=poisson.", show_default=False)
    ] = None
    encoding: Encoding = None
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any argument of the estimator.", show_default=False),
    ] = None
    memory: Annotated[
        str | None, typer.Option(help="Most memory to use: bytes, or such as 500MB.", show_default="auto")
    ] = None
    header: Header = None
    as_json: Json = False

    def run(self) -> None:
        """Scan the table, fit, measure, save and print."""
        if str(self.data) == "-":  # read once, from a copy
            replace(self, data=Path(read_from(self.data, None).paths)).run()
            return
        check_other(self.out, self.data, self.test)
        if not 0 <= self.seed < 2**32:
            raise InvalidParameterError("--seed must be a whole number from 0 to 4294967295", self.seed, "Use 0.")
        parameters = {"random_state": self.seed, **_settings(self.setting or [], self.width, self.memory)}
        scanned, aim, n_unknown = self._scan(parameters)
        estimator = _make_estimator(aim.task, parameters)
        started = time.perf_counter()
        caught = _fit_recorded(estimator, self._without_offset(scanned, aim, estimator), aim)
        (metrics, n_test), refused = self._measured(estimator, scanned.table)
        provenance = {
            "data": self.data.name,
            "data_sha256": digest_of(self.data),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "rows": {"train": scanned.summary.n_rows, "test": n_test, **_unless_zero("without_target", n_unknown)},
            **_held_out_facts(self._held_out),
            "seed": self.seed,
            "seconds": round(time.perf_counter() - started, 3),
            "metrics": metrics,
        }
        save(estimator, self.out, provenance=provenance)
        for line in _remarks(estimator, scanned, caught):
            remark(f"rflaf: {line}")
        show(_fit_values(estimator, provenance, self.out), _fit_lines(estimator, provenance, self.out), self.as_json)
        if refused is not None:
            raise refused

    def _scan(self, parameters: Mapping[str, Any]) -> tuple[ScannedTable, TargetEncoding, int]:
        """Return the rows to train on, scanned, the target, and how many rows lack it; columns by name or number."""
        table = read_from(self.data, self.header, self.encoding)
        names = column_names(table)
        exclude, categories = (
            [find_column(name, names) for name in given or ()] for given in (self.drop, self.category)
        )
        name = find_column(self.target, names)
        held_out = self._held_out
        rows = None if held_out is None else replace(held_out, held_out=False)
        missing = (*MISSING, *(self.missing or ()))
        known = name if self.drop_missing_target else None
        read = readings_of(self.read or [], names)
        table = replace(
            table, exclude=exclude, categories=categories, missing=missing, rows=rows, read=read, drop_missing=known
        )
        with working("reading"):
            for option, given in (("--drop", exclude), ("--category", categories)):
                if name in given:
                    rule = f"{option} must name a column other than the target"
                    raise InvalidParameterError(rule, name, "Leave it out, or predict another column.")
            for both in sorted(set(exclude) & set(categories)):
                raise InvalidParameterError("--category must name a column that is kept", both, "Do not --drop it too.")
            scanned = scan_table(table, name, memory=parameters.get("memory"))
        n_unknown = scanned.summary.columns[name].n_missing if self.drop_missing_target else 0
        scanned = replace(scanned, summary=scanned.summary.without_gaps(name)) if n_unknown else scanned
        _refuse_useless(scanned, name)
        known_parts = [None if one is None else find_column(one, names) for one in (self.offset, self.exposure)]
        aim = with_offset_column(make_target(scanned.summary, name, self._task(parameters.get("loss"))), *known_parts)
        return scanned, aim, n_unknown

    def _task(self, loss: Any) -> str:
        """Return the task asked for, or that of the loss, or a regression beside an offset; "auto" if none says."""
        if self.task is not Task.AUTO:
            return self.task.value
        beside = None if self.offset is None and self.exposure is None else Task.REGRESSION
        return (_TASKS.get(str(loss), beside) or Task.AUTO).value

    def _without_offset(self, scanned: ScannedTable, aim: TargetEncoding, estimator: Any) -> ScannedTable:
        """Return the rows to train on with the targets and weights that an offset leaves; the same without one."""
        if not aim.offset:
            return scanned
        check_parameters(estimator)
        with working("reading"):
            return scan_table(without_offsets(scanned.table, aim, estimator._loss()), aim.name)

    @property
    def _held_out(self) -> RowChoice | None:
        """The rows of the table to measure on; None if another file has them, or none are asked for."""
        whole = self.test is not None or not self.test_share
        return None if whole else RowChoice(self.test_share, self.seed, held_out=True)

    def _measured(
        self, estimator: Any, table: Table
    ) -> tuple[tuple[dict[str, float], int], InvalidParameterError | None]:
        """Return what `_measure` does, and why it could not: one odd cell must not cost the model."""
        try:
            return self._measure(estimator, table), None
        except InvalidParameterError as error:
            return ({}, 0), error

    def _measure(self, estimator: Any, table: Table) -> tuple[dict[str, float], int]:
        """Return the metrics on rows not trained on, and their number."""
        if self.test is not None:
            test = read_from(self.test, self.header, self.encoding)
            return measure(estimator, replace(test, drop_missing=table.drop_missing))
        held_out = self._held_out
        return ({}, 0) if held_out is None else measure(estimator, replace(table, rows=held_out))


fit = as_command(FitCommand, "fit")


def readings_of(given: list[str], names: list[str]) -> dict[str, str]:
    """Return how to read columns, from texts COLUMN=HOW.

    >>> readings_of(["day=d/m/y"], ["day"])
    {'day': 'd/m/y'}
    """
    pairs = [one.rpartition("=") for one in given]
    for one, (name, _, _) in zip(given, pairs, strict=True):
        if not name:
            raise InvalidParameterError("--read must be COLUMN=HOW", one, "For example --read day=d/m/y.")
    return {find_column(name, names): how for name, _, how in pairs}


def _held_out_facts(held_out: RowChoice | None) -> dict[str, Any]:
    """Return which rows were held out, so that a report can find them again."""
    return {} if held_out is None else {"held_out": {"share": held_out.share, "seed": held_out.seed}}


def _unless_zero(name: str, value: int) -> dict[str, int]:
    return {name: value} if value else {}


def _fit_recorded(estimator: Any, scanned: ScannedTable, aim: TargetEncoding) -> list[warnings.WarningMessage]:
    """Fit to scanned rows; return the warnings."""
    with working("fitting"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(scanned, aim.name, OFFSET_WEIGHT if aim.offset else None)
    estimator.target_encoding_ = aim
    return caught


def _refuse_useless(scanned: ScannedTable, target: str) -> None:
    """Refuse a table of few rows, and columns without a value: these are likelier a mistake than a choice."""
    columns = scanned.summary.columns
    if columns[target].n_rows < _LEAST_ROWS:
        raise InvalidParameterError(
            f"a table to fit must have at least {_LEAST_ROWS} rows", columns[target].n_rows, "Add rows."
        )
    others = {target, *scanned.table.exclude}
    empty = [name for name, column in columns.items() if name not in others and column.kind == "empty"]
    if empty:
        raise InvalidParameterError("every column must have a value", empty, f"Leave it out: --drop {empty[0]!r}.")


def _make_estimator(task: str, parameters: dict[str, Any]) -> Any:
    kind = RFLAFClassifier if task == "classification" else RFLAFRegressor
    known = kind._get_param_names()
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise InvalidParameterError(
            f"parameters must be those of {kind.__name__}", unknown, f"It takes {', '.join(known)}."
        )
    return kind(**parameters)


def _remarks(estimator: Any, scanned: ScannedTable, caught: list[warnings.WarningMessage]) -> Iterator[str]:
    """Yield what a user should know beside the result: outliers, and classes that only held-out rows have."""
    yield from (str(warning.message) for warning in caught if issubclass(warning.category, OutlierWarning))
    levels = scanned.summary.columns[estimator.target_encoding_.name].levels or {}
    known = {str(label) for label in getattr(estimator, "classes_", ())}
    absent = sorted(level for level in levels if level not in known) if known and scanned.table.rows else []
    if absent and len(levels) > len(known):
        yield f"classes only among the rows held out, which the model cannot predict: {', '.join(absent)}"


def _settings(given: list[str], width: str, memory: str | None) -> dict[str, Any]:
    """Return the arguments of the estimator; values are JSON, or else texts."""
    parameters = {"n_components": _json_or_text(width)}
    if memory is not None:
        parameters["memory"] = _bytes_of(memory)
    for setting in given:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InvalidParameterError("--set must be NAME=VALUE", setting, "For example --set loss=huber.")
        parameters[name] = _json_or_text(value)
    warn_shapes(parameters)
    present, retired = translate(parameters, has_loss=True)  # n_basis, pool_size and the like are short names here
    refuse_retired(retired)
    return present


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _bytes_of(text: str) -> int:
    """Return a number of bytes.

    >>> _bytes_of("500MB"), _bytes_of("1.5 GiB"), _bytes_of("4096")
    (500000000, 1610612736, 4096)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?i?B|)\s*", text, re.IGNORECASE)
    if found is None or found[2].upper() not in _UNITS:
        raise InvalidParameterError("--memory must be a number of bytes", text, "For example --memory 500MB.")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def _fit_values(estimator: Any, provenance: dict[str, Any], out: Path) -> dict[str, Any]:
    encoding, target = estimator.table_encoding_, estimator.target_encoding_
    return {
        "task": target.task,
        "reason": target.reason,
        "target": target.name,
        "classes": [str(label) for label in getattr(estimator, "classes_", [])],
        "features": len(encoding.feature_names),
        "dropped": {left.name: left.reason for left in encoding.dropped},
        "decisions": [asdict(line) for line in encoding.decisions],
        "n_components": estimator.n_components_,
        **provenance,
        "out": str(out),
        "bytes": out.stat().st_size,
    }


def _fit_lines(estimator: Any, provenance: dict[str, Any], out: Path) -> Iterator[str | RichTable]:
    encoding, target, rows = estimator.table_encoding_, estimator.target_encoding_, provenance["rows"]
    yield f"{target.task} of {target.name!r}: {target.reason}"
    if "without_target" in rows:
        yield f"left out {rows['without_target']:,} rows without a target"
    yield from (f"left out {left.name!r}: {left.reason}" for left in encoding.dropped)
    yield from decision_lines(encoding.decisions)
    given_away = [line.column for line in encoding.decisions if GIVES_AWAY in line.why]
    yield from (
        f"warning: column {name!r} gives the target away; leave it out with --drop {name}" for name in given_away
    )
    n_columns, n_features, seconds = len(encoding.columns), len(encoding.feature_names), provenance["seconds"]
    from rflaf.inspection.report.wording import count_of  # the report takes long to import

    width = count_of(estimator.n_components_, "component")
    yield f"{count_of(n_columns, 'column')} as {count_of(n_features, 'number')}, {width}, {seconds:.1f} s"
    if rows["test"]:
        yield f"measured on {rows['test']:,} rows it has not seen, fitted to {rows['train']:,}:"
        yield metrics_table(provenance["metrics"])
    else:
        share = "" if "held_out" in provenance else "all "
        yield f"fitted to {share}{rows['train']:,} rows, not measured"
    yield f"model: {out}, {out.stat().st_size:,} bytes"
