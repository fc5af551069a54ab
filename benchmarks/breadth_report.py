"""The summary of breadth.py as Markdown and CSV, and ours among the published results of SRBench."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from breadth_data import PROTOCOLS
from breadth_models import CONSTANT
from breadth_summary import Comparison, Standing, groups, ranks, split_by_part, standings
from markdown_tables import markdown_table

from rflaf.study import leaderboard

FEW_ROWS = 100
ABOUT = ("kind", "name", "task", "half", "rows", "columns", "splits", "measure")
NUMBERS = ("method", "loss", "rank", "fit_seconds", "predict_microseconds", "message")


STANDING_HEAD = (
    "method",
    "mean rank",
    "wins",
    "mean loss / best",
    "worst loss / best",
    "worst loss / linear or constant",
    "failures",
    "fit, s",
    "predict a row, µs",
)


def standing_row(standing: Standing) -> list[object]:
    return [
        standing.method,
        f"{standing.rank:.2f}",
        standing.wins,
        f"{standing.relative:.3f}",
        f"{standing.worst:.3f}",
        f"{standing.worst_to_simple:.3f}",
        standing.failures,
        standing.fit_seconds,
        standing.predict_microseconds,
    ]


def markdown(found: Sequence[Comparison], unfinished: Sequence[str]) -> str:
    """All standings, then the losses set by set, then what failed and what is not finished."""
    parts = [
        f"## {name} (sets: {len(sets)})\n\n{markdown_table(STANDING_HEAD, map(standing_row, standings(sets, methods)))}"
        for title, group in groups(found).items()
        for name, (sets, methods) in split_by_part(title, group).items()
        if methods
    ]
    parts += [f"## Losses\n\n{_losses_table(found)}"] if found else []
    failures = _failures(found)
    parts += ["## Failures\n\n" + "\n".join(failures)] if failures else []
    parts += [f"Not finished, not counted above: {', '.join(unfinished)}"] if unfinished else []
    return "\n\n".join(parts) + "\n"


def _losses_table(found: Sequence[Comparison]) -> str:
    methods = list(found[0].outcomes)
    about = ("set", "half", "rows", "columns", "splits", "measure")
    rows = [
        [*(getattr(item, name) for name in about), *(item.outcomes[method].loss for method in methods)]
        for item in found
    ]
    return markdown_table([*about, *methods], rows)


def _failures(found: Sequence[Comparison]) -> list[str]:
    return [
        f"- {item.set}, {method}: {result.message}"
        for item in {item.set: item for item in found}.values()
        for method, result in item.outcomes.items()
        if math.isinf(result.loss)
    ]


def write_csv(path: Path, found: Sequence[Comparison]) -> None:
    """One line for each set, measure and method."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow([*ABOUT, *NUMBERS])
        for item in found:
            about, ranked = [getattr(item, name) for name in ABOUT], _ranks_of(item)
            for method, result in item.outcomes.items():
                numbers = [result.loss, ranked.get(method, ""), result.fit_seconds, result.predict_microseconds]
                writer.writerow([*about, method, *numbers, result.message])


def _ranks_of(item: Comparison) -> dict[str, float]:
    """The ranks of the methods that take part in one set."""
    methods = [method for method in item.outcomes if method != CONSTANT and item.takes_part(method)]
    losses = np.array([[item.outcomes[method].loss for method in methods]])
    return dict(zip(methods, ranks(losses)[0].tolist(), strict=True))


def published_markdown(found: Sequence[Comparison], ours: Sequence[str], path: Path) -> str:
    """Each of our methods among the published ones on SRBench's sets, and on those below 100 rows."""
    published = leaderboard.read_published(path)
    problems = [item for item in found if item.kind == "pmlb" and item.name in published]
    few = [item for item in problems if item.rows < FEW_ROWS]
    parts = [
        _published_table(method, f"{method} among the published methods{title}", items, published)
        for method in ours
        for title, items in (("", problems), (f", fewer than {FEW_ROWS} rows", few))
        if items
    ]
    unknown = [item.name for item in found if item.kind == "pmlb" and item.name not in published]
    parts += [f"Not published, not counted above: {', '.join(unknown)}"] if unknown else []
    return "\n\n".join(parts) + "\n"


def _published_table(method: str, title: str, items: Sequence[Comparison], published: leaderboard.Medians) -> str:
    ours = {item.name: (1 - item.outcomes[method].loss, math.nan, item.outcomes[method].fit_seconds) for item in items}
    named = [
        replace(standing, algorithm=method if standing.algorithm == leaderboard.OURS else standing.algorithm)
        for standing in leaderboard.standings(ours, published)
    ]
    rows = [
        [row.algorithm, f"{row.rank:.2f}", f"{row.low:.2f} to {row.high:.2f}", row.first, row.problems] for row in named
    ]
    head = ["algorithm", "mean rank", "95% interval", "first places", "sets"]
    splits = f"medians over {min(item.splits for item in items)} of {len(PROTOCOLS['pmlb'].seeds)} splits"
    return f"## {title} (sets: {len(items)}, {splits})\n\n{markdown_table(head, rows)}"
