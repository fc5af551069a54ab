"""Paired differences between schemes: the same data, rows and seeds, so that only the draw differs.

A difference is the mean over seeds of (scheme - against), with its 95 % interval by Student's t. The change is the same
of the logarithms of losses, as a share: exp(mean log(scheme / against)) - 1, between the ends of its own interval.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from rflaf.errors import Array

from .trials import Record

CONFIDENCE = 0.95
PAIRS = (
    ("leverage", "plain"), ("placebo", "plain"), ("without_replacement", "plain"), ("leverage", "placebo"),
    ("without_replacement", "leverage"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """One cell of a paired table; ``low`` and ``high`` bound the 95 % interval, NaN for a single seed.

    ``mean`` is in the units of the metric; ``change`` is a share of the loss, None for accuracies.
    ``value`` and ``base`` are the means of scheme and against, over the seeds that both have.
    """

    data: str
    protocol: str
    basis: str
    n_centres: int
    scheme: str
    against: str
    pool: int
    width: int
    metric: str
    value: float
    base: float
    mean: float
    low: float
    high: float
    change: float | None
    change_low: float | None
    change_high: float | None
    seeds: int
    spread: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return bool(self.low > 0 or self.high < 0)


def interval(values: Array) -> tuple[float, float, float]:
    """Return the mean of ``values`` and its 95 % interval by Student's t; NaN bounds for a single value.

    >>> interval(np.array([1.0, 3.0]))
    (2.0, -10.706..., 14.706...)
    """
    mean = float(values.mean())
    if values.size < 2:
        return mean, float("nan"), float("nan")
    margin = float(stdtrit(values.size - 1, (1 + CONFIDENCE) / 2)) * float(values.std(ddof=1)) / values.size**0.5
    return mean, mean - margin, mean + margin


def differences(
    records: Iterable[Record], metric: str = "loss", pairs: Sequence[tuple[str, str]] = PAIRS
) -> list[Difference]:
    """Return the paired differences of every cell for which both schemes have a seed in common; diverged ones are out.

    Schemes without a pool are compared with those of every pool.
    """
    cells: dict[tuple[Any, ...], dict[tuple[str, int], dict[int, Record]]] = {}
    for record in records:
        trial = record.trial
        if not record.diverged and getattr(record.score, metric) is not None:
            key = (trial.data, trial.protocol, trial.basis, trial.n_centres, trial.width)
            cells.setdefault(key, {}).setdefault((trial.scheme, trial.pool), {})[trial.seed] = record
    found = []
    for _, schemes in sorted(cells.items()):
        for name, base in pairs:
            for (scheme, pool), ours in sorted(schemes.items()):
                theirs = schemes.get((base, pool), schemes.get((base, 0), {})) if scheme == name else {}
                both = [(ours[seed], theirs[seed]) for seed in sorted(ours.keys() & theirs.keys())]
                if both:
                    found.append(_difference(name, base, metric, both))
    return found


def _difference(scheme: str, against: str, metric: str, both: list[tuple[Record, Record]]) -> Difference:
    x, y = (np.array([getattr(record.score, metric) for record in part], float) for part in zip(*both, strict=True))
    change: tuple[float | None, float | None, float | None] = (None, None, None)
    if metric == "loss" and bool((x > 0).all() and (y > 0).all()):
        mean, low, high = (float(np.expm1(value)) for value in interval(np.log(x / y)))
        change = mean, low, high
    spread = float(np.mean([max(ours.spread, theirs.spread) for ours, theirs in both]))
    trial = both[0][0].trial
    return Difference(
        trial.data, trial.protocol, trial.basis, trial.n_centres, scheme, against, trial.pool, trial.width, metric,
        float(x.mean()), float(y.mean()), *interval(x - y), *change, len(both), spread
    )  # fmt: skip


def write(found: Sequence[Difference], path: Path) -> None:
    """Write differences to a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([field.name for field in fields(Difference)])
        for one in found:
            writer.writerow([f"{value:.6g}" if isinstance(value, float) else value for value in astuple(one)])
