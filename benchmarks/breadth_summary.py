"""What the records of breadth.py say: ranks, wins, relative errors and times.

A record is one run: a contestant on one split of one data set. Losses are averaged over the splits of a set first (by
the protocol of its kind), then compared set by set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from breadth_data import PROTOCOLS
from breadth_models import CONSTANT, LINEAR
from scipy.stats import rankdata

DONE, FAILED, LEFT_OUT = "done", "failed", "left out"
SMALLEST_SHARE = 1e-3  # a loss below this share of the constant model's counts as this share: ratios stay finite

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """A method on one set, averaged over its splits. A failure has infinite loss; one left out, not a number."""

    loss: float
    fit_seconds: float
    predict_microseconds: float
    message: str = ""


@dataclass(frozen=True)
class Comparison:
    """Methods on one set by one measure."""

    kind: str
    name: str
    task: str
    half: str
    measure: str
    rows: int
    columns: int
    splits: int
    outcomes: dict[str, Outcome]

    @property
    def set(self) -> str:
        return f"{self.kind}/{self.name}"

    def takes_part(self, method: str) -> bool:
        return not math.isnan(self.outcomes[method].loss)


@dataclass(frozen=True)
class Standing:
    """A method over many sets; ratios of losses are to the best of all, and to the better of constant and linear."""

    method: str
    rank: float
    wins: int
    relative: float
    worst: float
    worst_to_simple: float
    failures: int
    fit_seconds: float
    predict_microseconds: float


def ranks(losses: np.ndarray) -> np.ndarray:
    """Ranks within each row of losses (n_sets, n_methods), from 1; equal losses share the mean of their places."""
    return rankdata(losses, axis=1, method="average")


def wins(losses: np.ndarray) -> np.ndarray:
    """Sets on which each method is the best; equal losses are wins of all, a failure is none."""
    best = losses.min(axis=1, keepdims=True)
    return np.sum((losses == best) & np.isfinite(losses), axis=0)


def without_failures(losses: np.ndarray, constant: np.ndarray) -> np.ndarray:
    """Losses with the worst of the row, the constant model's included, in the place of infinite ones."""
    finite = np.where(np.isfinite(losses), losses, -np.inf)
    return np.where(np.isfinite(losses), losses, np.maximum(finite.max(axis=1), constant)[:, None])


def ratios(losses: np.ndarray, to: np.ndarray, constant: np.ndarray) -> np.ndarray:
    """Losses (n_sets, n_methods) / to (n_sets,), none below a thousandth of the constant model's."""
    least = SMALLEST_SHARE * constant[:, None]
    return np.maximum(without_failures(losses, constant), least) / np.maximum(to[:, None], least)


def standings(comparisons: Sequence[Comparison], methods: Sequence[str]) -> list[Standing]:
    """Every method over sets that all of them take part in, best mean rank first."""
    table = [[comparison.outcomes[method] for method in methods] for comparison in comparisons]
    losses = np.array([[outcome.loss for outcome in row] for row in table])
    constant = np.array([comparison.outcomes[CONSTANT].loss for comparison in comparisons])
    to_best = ratios(losses, losses.min(axis=1), constant)
    to_simple = ratios(losses, np.array([simple_loss(comparison) for comparison in comparisons]), constant)
    columns = zip(ranks(losses).mean(axis=0), wins(losses), to_best.T, to_simple.T, losses.T, strict=True)
    found = [
        Standing(
            method,
            float(rank),
            int(won),
            float(np.mean(best)),
            float(np.max(best)),
            float(np.max(simple)),
            int(np.isinf(loss).sum()),
            median(row[number].fit_seconds for row in table),
            median(row[number].predict_microseconds for row in table),
        )
        for number, (method, (rank, won, best, simple, loss)) in enumerate(zip(methods, columns, strict=True))
    ]
    return sorted(found, key=lambda standing: standing.rank)


def simple_loss(comparison: Comparison) -> float:
    """The loss of the constant or the linear model, whichever is lower."""
    simple = [comparison.outcomes[name].loss for name in (CONSTANT, LINEAR) if name in comparison.outcomes]
    return min(loss for loss in simple if not math.isnan(loss))


def median(values: Iterable[float]) -> float:
    """The median of the numbers among values; a failure has no times."""
    numbers = [value for value in values if not math.isnan(value)]
    return float(np.median(numbers)) if numbers else math.nan


def outcome(records: Sequence[Record], measure: str, average: Callable[[Sequence[float]], float]) -> Outcome:
    """The splits of one set as one: a failure on any is a failure, left out on any is left out."""
    for state, loss in ((FAILED, math.inf), (LEFT_OUT, math.nan)):
        for record in records:
            if record["state"] == state:
                return Outcome(loss, math.nan, math.nan, f"seed {record['seed']}: {record['message']}")
    times = (float(np.mean([record[name] for record in records])) for name in ("fit_seconds", "predict_microseconds"))
    return Outcome(float(average([record["losses"][measure] for record in records])), *times)


def comparisons(records: Iterable[Record]) -> tuple[list[Comparison], list[str]]:
    """The finished sets, once for each of their measures, and the names of those that are not finished."""
    by_set: dict[tuple[str, str], dict[str, dict[int, Record]]] = {}
    for record in records:
        runs = by_set.setdefault((record["kind"], record["name"]), {})
        runs.setdefault(record["method"], {})[record["seed"]] = record
    methods = {method for runs in by_set.values() for method in runs}
    found, unfinished = [], []
    for (kind, name), runs in by_set.items():
        seeds = {seed for run in runs.values() for seed in run}
        if any(runs.get(method, {}).keys() != seeds for method in methods):
            unfinished.append(f"{kind}/{name}")
            continue
        found += _by_measure(runs, sorted(seeds))
    return found, unfinished


def _by_measure(runs: Mapping[str, Mapping[int, Record]], seeds: Sequence[int]) -> list[Comparison]:
    first = runs[CONSTANT][seeds[0]]
    about = [first[name] for name in ("kind", "name", "task", "half")]
    average = PROTOCOLS[first["kind"]].average
    return [
        Comparison(
            *about,
            measure,
            first["rows"],
            first["columns"],
            len(seeds),
            {method: outcome([run[seed] for seed in seeds], measure, average) for method, run in runs.items()},
        )
        for measure in first["losses"]
    ]


def groups(found: Sequence[Comparison]) -> dict[str, list[Comparison]]:
    """Every kind, task and measure by itself; before them, where they are many, all sets by their first measure."""
    by_name: dict[str, list[Comparison]] = {}
    first: dict[str, Comparison] = {}
    for comparison in found:
        by_name.setdefault(f"{comparison.kind}, {comparison.task}, {comparison.measure}", []).append(comparison)
        first.setdefault(comparison.set, comparison)
    return {"all sets": list(first.values()), **by_name} if len(by_name) > 1 else by_name


def split_by_part(name: str, group: Sequence[Comparison]) -> dict[str, tuple[list[Comparison], list[str]]]:
    """A group with the methods that take all its sets; where some do not, also the sets that all methods take."""
    every = [method for method in group[0].outcomes if method != CONSTANT]
    some = [method for method in every if any(comparison.takes_part(method) for comparison in group)]
    always = [method for method in some if all(comparison.takes_part(method) for comparison in group)]
    found = {name: (list(group), always)}
    if always != some:
        common = [comparison for comparison in group if all(comparison.takes_part(method) for method in some)]
        if common:
            found[f"{name}: sets that {' and '.join(sorted(set(some) - set(always)))} takes"] = (common, some)
    return found
