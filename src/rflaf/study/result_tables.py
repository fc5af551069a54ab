"""Tables of results: mean and spread over seeds, beside the authors' numbers, as CSV and Markdown.

The authors' numbers are means and standard deviations of the last epoch, read from their published result logs.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from .paired import Difference
from .trials import Record

_CLOSE, _STANDARD_ERRORS = 0.05, 3.0
_INTERVAL = 0.8


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a result table.

    Attributes
    ----------
    mean, sd, low, high : over the seeds that did not diverge; low and high bound the 80 % interval of the mean
    seeds, diverged : number of seeds, and of diverged seeds
    authors_mean, authors_sd, authors_seeds : None if the authors report no such cell
    fit_seconds, pool_seconds, predict_microseconds : medians; prediction per test row
    """

    data: str
    protocol: str
    basis: str
    n_centres: int
    scheme: str
    pool: int
    width: int
    metric: str
    mean: float
    sd: float
    low: float
    high: float
    seeds: int
    diverged: int
    components: float
    fit_seconds: float
    pool_seconds: float
    predict_microseconds: float
    authors_mean: float | None
    authors_sd: float | None
    authors_seeds: int | None

    @property
    def difference(self) -> float | None:
        """Our mean minus the authors' mean, in the authors' standard deviations."""
        if self.authors_mean is None or not self.authors_sd:
            return None
        return (self.mean - self.authors_mean) / self.authors_sd

    @property
    def agrees(self) -> bool | None:
        """Whether our mean lies within three standard errors, or 5 %, of the authors' mean."""
        if self.authors_mean is None or self.authors_sd is None or not self.authors_seeds:
            return None
        allowed = max(_STANDARD_ERRORS * self.authors_sd / self.authors_seeds**0.5, _CLOSE * abs(self.authors_mean))
        return abs(self.mean - self.authors_mean) <= allowed

    @property
    def no_worse(self) -> bool | None:
        """Whether our mean is at least as good as the authors' mean."""
        if self.authors_mean is None:
            return None
        return self.mean <= self.authors_mean if self.metric == "loss" else self.mean >= self.authors_mean


def summarise(records: Iterable[Record], metric: str, n_test: dict[str, int]) -> list[Cell]:
    """Return sorted cells of a metric, "loss" or "accuracy"; ``n_test`` is the number of test rows per data set."""
    cells: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        if metric == "loss" or record.score.accuracy is not None or record.diverged:
            trial = record.trial
            key = (trial.data, trial.protocol, trial.basis, trial.n_centres, trial.scheme, trial.pool, trial.width)
            cells.setdefault(key, []).append(record)
    return [_cell(key, cells[key], metric, n_test[key[0]]) for key in sorted(cells)]


def _cell(key: tuple[Any, ...], records: list[Record], metric: str, n_test: int) -> Cell:
    values = np.array([getattr(record.score, metric) for record in records if not record.diverged], float)
    mean = float(values.mean()) if values.size else float("nan")
    sd = float(values.std(ddof=1)) if values.size > 1 else 0.0
    margin = interval_margin(sd, values.size)

    def median(name: str) -> float:
        return float(np.median([getattr(record, name) for record in records]))

    data, protocol, basis, n_centres, scheme, pool, width = key
    theirs = authors().get((data, basis.removesuffix("-published"), n_centres, scheme, width, metric))
    return Cell(
        data, protocol, basis, n_centres, scheme, pool, width, metric, mean, sd, mean - margin, mean + margin,
        len(records), len(records) - values.size,
        float(np.mean([record.components for record in records])), median("fit_seconds"), median("pool_seconds"),
        median("predict_seconds") / n_test * 1e6, *(theirs or (None, None, None))
    )  # fmt: skip


def interval_margin(sd: float, n_seeds: int) -> float:
    """Return half the 80 % interval of a mean over seeds, by Student's t; zero for a single seed.

    >>> round(interval_margin(1.0, 8), 3)
    0.5
    """
    if n_seeds < 2:
        return 0.0
    return float(stdtrit(n_seeds - 1, (1 + _INTERVAL) / 2)) * sd / n_seeds**0.5


@cache
def authors() -> dict[tuple[Any, ...], tuple[float, float, int]]:
    """Return (data, basis, centres, scheme, width, metric) -> mean, sd and seeds of the last epoch."""
    text = (files(__package__ or "") / "authors-results.csv").read_text()
    found: dict[tuple[Any, ...], tuple[float, float, int]] = {}
    seeds_of: dict[tuple[Any, ...], int] = {}
    for row in csv.DictReader(io.StringIO(text)):
        key = (row["dataset"], row["basis"], int(row["n_centres"]), row["scheme"], int(row["width"]), row["metric"])
        seeds = int(row["seeds"])
        if seeds >= seeds_of.get(key, 0):  # of two pools, the one with more seeds
            found[key], seeds_of[key] = (float(row["mean"]), float(row["sd"]), seeds), seeds
    return found


def write(cells: list[Cell], path: Path) -> None:
    """Write the cells to a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([field.name for field in fields(Cell)] + ["difference", "agrees", "no_worse"])
        for cell in cells:
            values = [*astuple(cell), cell.difference, cell.agrees, cell.no_worse]
            writer.writerow([f"{value:.6g}" if isinstance(value, float) else value for value in values])


def to_markdown(cells: list[Cell]) -> str:
    """Return the cells as Markdown: ours, the authors', and the difference in standard deviations."""
    head = [
        "data", "protocol", "basis", "centres", "scheme", "width", "metric", "ours", "seeds", "diverged",
        "authors", "difference, sd", "fit, s", "pool, s", "predict, us per row",
    ]  # fmt: skip
    return markdown_table(head, map(_markdown_row, cells)) + "\n"


def to_page(title: str, cells: list[Cell], pairs: Sequence[Difference]) -> str:
    """Return the page of an experiment: paired differences, then cells."""
    parts = [f"# {title}"]
    if pairs:
        parts += ["## Paired differences, 95 % intervals", paired_table(pairs)]
    return "\n\n".join([*parts, "## Cells", to_markdown(cells)])


def paired_table(pairs: Sequence[Difference]) -> str:
    """Return differences as Markdown, one line each; a star marks intervals without zero."""
    head = [
        "data", "protocol", "basis", "centres", "pool", "S", "arm", "against", "their means", "difference",
        "95 % interval", "change", "seeds",
    ]  # fmt: skip
    rows = [
        [
            one.data, one.protocol, one.basis, str(one.n_centres or ""), str(one.pool), str(one.width),
            words(one.scheme), words(one.against), f"{one.value:.4f}, {one.base:.4f}", f"{one.mean:+.4f}",
            f"{one.low:+.4f} to {one.high:+.4f}{' *' if one.is_clear else ''}",
            "" if one.change is None else f"{one.change:+.1%}", str(one.seeds),
        ]
        for one in pairs
    ]  # fmt: skip
    return markdown_table(head, rows)


def words(scheme: str) -> str:
    """Return the name of a scheme in words.

    >>> words("without_replacement")
    'without replacement'
    """
    return scheme.replace("_", " ")


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, one line per row.

    >>> print(markdown_table(["S", "error"], [["10", "0.5"]]))
    | S | error |
    | --- | --- |
    | 10 | 0.5 |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _markdown_row(cell: Cell) -> list[str]:
    theirs = "" if cell.authors_mean is None else f"{cell.authors_mean:.4f} ± {cell.authors_sd:.4f}"
    apart = "" if cell.difference is None else f"{cell.difference:+.1f}"
    return [
        cell.data, cell.protocol, cell.basis, str(cell.n_centres or ""), cell.scheme, str(cell.width), cell.metric,
        f"{cell.mean:.4f} ± {cell.sd:.4f}", str(cell.seeds), str(cell.diverged), theirs, apart,
        f"{cell.fit_seconds:.2f}", f"{cell.pool_seconds:.1f}", f"{cell.predict_microseconds:.2f}",
    ]  # fmt: skip
