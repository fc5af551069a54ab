"""Timing on a noisy machine: contestants take turns, and their medians are compared as ratios within one run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter

import numpy as np


def medians(contestants: Mapping[str, Callable[[], object]], rounds: int = 5) -> dict[str, float]:
    """Median seconds of each contestant over ``rounds`` turns, after one turn each that is not counted."""
    for run in contestants.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            start = perf_counter()
            run()
            seconds[name].append(perf_counter() - start)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def report(what: str, ours: float, theirs: float, limit: str) -> None:
    """One line: the ratio ours / theirs beside its limit."""
    print(f"{what:<66} {ours * 1e3:10.2f} ms {theirs * 1e3:10.2f} ms   ratio {ours / theirs:6.3f}   {limit}")


def protein() -> tuple[np.ndarray, np.ndarray]:
    """Inputs and standardised target of the protein data, or the end of the script with the reason."""
    path = Path(os.environ.get("RFLAF_DATA_DIR", ""), "protein", "CASP.csv")
    if not path.is_file():
        sys.exit(f"skipped: {path} is not there; set RFLAF_DATA_DIR to the folder that holds protein/CASP.csv")
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    y = table[:, 0]
    return np.ascontiguousarray(table[:, 1:]), (y - y.mean()) / y.std()
