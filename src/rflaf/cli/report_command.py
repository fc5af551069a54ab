"""``rflaf report``: a page about a model, beside other models fitted on the same rows.

A model file of ``rflaf fit`` keeps the fingerprint of the table it was fitted to and which rows were held out. So the
rows of the fit are found again: in the file given as ``--train``, in ``--data`` itself, or in the file of that name
beside the model or the data. Where they are not, no lead is stated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from rflaf.errors import Array, InvalidParameterError
from rflaf.inspection.report import write_report
from rflaf.rows.files import RowChoice, Table, digest_of
from rflaf.rows.files.chunks import read_rows
from rflaf.rows.tables import require_arrow

from .console import Encoding, Header, Json, Model, check_other, out_option, read_from, show, working
from .model_commands import load_model


@dataclass(frozen=True, slots=True)
class Origin:
    """What a model file knows of the rows of its fit: name and digest of the file, and the rows held out."""

    name: str | None
    digest: str | None
    held_out: RowChoice | None

    def is_(self, path: Path | None) -> bool:
        """Return whether a file is the one the model was fitted to."""
        return self.digest is not None and path is not None and path.is_file() and digest_of(path) == self.digest


def origin_of(provenance: Mapping[str, Any]) -> Origin:
    """Return the origin that a model file states; what it lacks, or states in another form, is not known."""
    held = provenance.get("held_out")
    choice = None
    if isinstance(held, Mapping) and isinstance(held.get("share"), float) and isinstance(held.get("seed"), int):
        choice = RowChoice(held["share"], held["seed"], held_out=True)
    name, digest = provenance.get("data"), provenance.get("data_sha256")
    known = isinstance(name, str) and isinstance(digest, str)
    return Origin(name if known else None, digest if known else None, choice)


def report(
    model: Model,
    data: Annotated[Path, typer.Option(help="A table with the target.", show_default=False)],
    train: Annotated[
        Path | None, typer.Option(help="The table of the fit, to fit other models on.", show_default="found again")
    ] = None,
    out: Annotated[Path, out_option("Where to write the page.")] = Path("report.html"),
    header: Header = None,
    encoding: Encoding = None,
    as_json: Json = False,
) -> None:
    """Write a page about a model: how good it is beside others, how fast, and what it has learned.

    Other models are fitted on the rows of the fit. These are found again by their fingerprint in --data, of which then
    only the rows held out are scored, or in a file of the same name beside the model or the data.

    Example:  rflaf report houses.rflaf --data sold.csv --train houses.csv --out houses.html
    """
    check_other(out, data, model, train)
    estimator = load_model(model, measured=True)
    provenance = estimator.provenance_
    origin = origin_of(provenance)
    with working("reading the tables"):
        scored = read_from(data, header, encoding)
        path = Path(scored.paths)
        rows, used = _scored_rows(scored, path, origin), _training(train, path, model, origin, header, encoding)
        table, y = _read(estimator, rows)
        fitted = None if used is None else (*_read(estimator, used[0]), used[1])
    facts = {name: str(provenance[name]) for name in ("data", "date") if name in provenance}
    with working("fitting other models and drawing"):
        write_report(estimator, table, y, out, train=fitted, facts=facts)
    values = {"out": str(out), "rows": len(y), "train_rows": None if fitted is None else len(fitted[1])}
    show(values, [*_lines(values, used), f"report: {out}"], as_json)


def _scored_rows(table: Table, path: Path, origin: Origin) -> Table:
    """Return the rows to score: of the table of the fit only those held out."""
    return _part(table, origin.held_out) if origin.held_out is not None and origin.is_(path) else table


def _part(table: Table, rows: RowChoice | None) -> Table:
    return Table(table.paths, has_header=table.has_header, encoding=table.encoding, rows=rows)


def _training(
    train: Path | None, data: Path, model: Path, origin: Origin, header: bool | None, encoding: str | None
) -> tuple[Table, str | None] | None:
    """Return the rows of the fit and why they may be others, if so; None where they are not found."""
    if train is not None:
        table = read_from(train, header, encoding)
        path = Path(table.paths)
        if origin.digest is None or origin.is_(path):
            return _fitted_part(table, origin), None
        return table, f"{path.name} is not the table of the fit: its fingerprint differs"
    beside = [] if origin.name is None else [model.parent / origin.name, data.parent / origin.name]
    found = next((path for path in (data, *beside) if origin.is_(path)), None)
    return None if found is None else (_fitted_part(read_from(found, header, encoding), origin), None)


def _fitted_part(table: Table, origin: Origin) -> Table:
    held = origin.held_out
    return table if held is None else _part(table, RowChoice(held.share, held.seed, held_out=False))


def _read(estimator: Any, table: Table) -> tuple[Any, Array]:
    """Return the rows of a table whose target is known, and their targets."""
    target, missing = estimator.target_encoding_, estimator.table_encoding_.missing
    known = Table(
        table.paths, has_header=table.has_header, encoding=table.encoding, rows=table.rows, missing=missing,
        drop_missing=target.name,
    )  # fmt: skip
    rows = require_arrow().concat_tables(chunk for _, chunk in read_rows(known))
    if not rows.num_rows:
        raise InvalidParameterError("the table must have rows with a target", str(table.paths), "Name another file.")
    return rows, target.read(rows, missing)


def _lines(values: Mapping[str, Any], used: tuple[Table, str | None] | None) -> list[str]:
    if used is None:
        return [f"scored on {values['rows']:,} rows; without the table of the fit (--train) no other model is compared"]
    doubt = "" if used[1] is None else f"; {used[1]}, so no lead is stated"
    return [f"scored on {values['rows']:,} rows, other models fitted on {values['train_rows']:,}{doubt}"]
