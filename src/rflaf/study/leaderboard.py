"""Our results among published ones: medians by problem, ranks with bootstrap intervals, a table and a picture.

Published results are a CSV file of the columns algorithm, dataset, r2_median, size_median and train_s_median.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

from rflaf.errors import Array
from rflaf.inspection.plots import BLUE, GREY, require_matplotlib
from rflaf.inspection.plots.labels import put_labels

from .result_tables import markdown_table
from .srbench import SEEDS, Run

OURS = "rflaf"
_DRAWS = 2000
_MEASURES = ("r2_median", "size_median", "train_s_median")
_PUBLISHED_DIGITS = 5  # of r2: a difference beyond them decides no rank
Median = tuple[float, float, float]  # r2, numbers stored, seconds to train
Medians = dict[str, dict[str, Median]]  # problem -> algorithm -> its medians


@dataclass(frozen=True, slots=True)
class Standing:
    """An algorithm over all problems: mean ranks, the interval of the first, first places, medians of size and time."""

    algorithm: str
    rank: float
    low: float
    high: float
    first: int
    size_rank: float
    time_rank: float
    size: float
    seconds: float
    problems: int


def read_published(path: Path) -> Medians:
    """Return published medians by problem and algorithm; an empty cell is NaN."""
    found: Medians = {}
    with path.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            numbers = [float(line.get(name) or "nan") for name in _MEASURES]
            found.setdefault(line["dataset"], {})[line["algorithm"]] = (numbers[0], numbers[1], numbers[2])
    return found


def medians_of(runs: Sequence[Run]) -> dict[str, Median]:
    """Return our medians over the seeds of each problem, r2 to as many digits as the published ones have."""
    by_problem: dict[str, list[Run]] = {}
    for run in runs:
        by_problem.setdefault(run.problem, []).append(run)
    return {name: _median(group) for name, group in by_problem.items()}


def _median(runs: Sequence[Run]) -> Median:
    values = np.median([(run.r2, run.size, run.seconds) for run in runs], axis=0)
    return round(float(values[0]), _PUBLISHED_DIGITS), float(values[1]), float(values[2])


def standings(ours: Mapping[str, Median], published: Mapping[str, Mapping[str, Median]]) -> list[Standing]:
    """Rank all algorithms on the problems that both have, best mean rank of r2 first.

    Equal values share the mean of their places; an algorithm is ranked where it is listed, last where its value is NaN.
    """
    shared = sorted(ours.keys() & published.keys())
    ranked: dict[str, list[tuple[float, ...]]] = {}
    for problem in shared:
        results = {OURS: ours[problem], **published[problem]}
        values = np.array(list(results.values()))
        ranks = np.column_stack([_ranks(-values[:, 0]), _ranks(values[:, 1]), _ranks(values[:, 2])])
        best = values[:, 0] == np.nanmax(values[:, 0])
        for who, rank, first, value in zip(results, ranks, best, values, strict=True):
            ranked.setdefault(who, []).append((*rank, first, *value[1:]))
    every = [_standing(who, np.array(rows, float)) for who, rows in ranked.items()]
    return sorted(every, key=lambda standing: standing.rank)


def _ranks(losses: Array) -> Array:
    return rankdata(np.where(np.isnan(losses), np.inf, losses))


def _standing(algorithm: str, rows: Array) -> Standing:
    rng = np.random.default_rng(0)
    draws = rows[rng.integers(0, len(rows), (_DRAWS, len(rows))), 0].mean(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    means, middle = rows.mean(axis=0), np.nanmedian(rows, axis=0)
    return Standing(
        algorithm, float(means[0]), float(low), float(high), int(rows[:, 3].sum()), float(means[1]), float(means[2]),
        float(middle[4]), float(middle[5]), len(rows),
    )  # fmt: skip


def losses_table(ours: Mapping[str, Median], published: Mapping[str, Mapping[str, Median]], most: int = 12) -> str:
    """Return the problems where ours is farthest behind the best, as Markdown."""
    behind = []
    for problem in ours.keys() & published.keys():
        r2 = ours[problem][0]
        best, who = max((value[0], who) for who, value in published[problem].items() if value[0] == value[0])
        if best > r2:
            behind.append((best - r2, [problem, f"{r2:.3f}", f"{best:.3f}", who]))
    rows = [row for _, row in sorted(behind, key=lambda pair: -pair[0])[:most]]
    return markdown_table(["problem", "r2", "best published r2", "by"], rows)


def standings_table(found: Sequence[Standing]) -> str:
    """Return the standings as Markdown."""
    head = ["method", "mean rank by r2", "95% interval", "first", "rank by size", "rank by time", "size", "seconds"]
    rows = [
        [
            f"**{one.algorithm}**" if one.algorithm == OURS else one.algorithm, f"{one.rank:.2f}",
            f"{one.low:.1f} to {one.high:.1f}", str(one.first), f"{one.size_rank:.1f}", f"{one.time_rank:.1f}",
            f"{one.size:,.0f}", f"{one.seconds:,.3g}",
        ]
        for one in found
    ]  # fmt: skip
    return markdown_table(head, rows)


def summary_of(runs: Sequence[Run], found: Sequence[Standing]) -> dict[str, Any]:
    """Return the standings with what they rest on, as plain values."""
    n_seeds = min(np.unique([run.problem for run in runs], return_counts=True)[1], default=0)
    about = {"problems": len({run.problem for run in runs}), "seeds": int(n_seeds), "seeds_of_protocol": len(SEEDS)}
    return {**about, "standings": [asdict(one) for one in found]}


def write_summary(path: Path, summary: Mapping[str, Any]) -> None:
    """Write a summary as JSON."""
    path.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")


def draw_standings(found: Sequence[Standing], path: Path) -> None:
    """Plot the mean rank by r2, with its interval, against the median size."""
    plt = require_matplotlib()
    figure, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
    for one in found:
        ours = one.algorithm == OURS
        colour = BLUE if ours else GREY
        ax.plot([one.size] * 2, [one.low, one.high], color=colour, lw=2.5, alpha=0.45, solid_capstyle="round")
        ax.plot(one.size, one.rank, "o", color=colour, ms=9 if ours else 6)
    ax.set(xscale="log", xlabel="numbers or nodes in the model (median)", ylabel="mean rank by r2, 1 is best")
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
    first = sorted(found, key=lambda one: one.algorithm != OURS)
    strong, weak = {"fontweight": "bold", "fontsize": 11, "color": BLUE}, {"fontsize": 8, "color": "0.35"}
    styles = [strong if one.algorithm == OURS else weak for one in first]
    put_labels(ax, [(one.size, one.rank, one.algorithm) for one in first], styles)
    figure.savefig(path, dpi=150)
    plt.close(figure)
