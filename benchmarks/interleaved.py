"""Timing on a noisy machine: contestants take turns, and their medians are compared as ratios within one run."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

import numpy as np


def medians(
    contestants: Mapping[str, Callable[[], object]], rounds: int = 5, clock: Callable[[], float] = perf_counter
) -> dict[str, float]:
    """Median seconds of each contestant over ``rounds`` turns, after one turn each that is not counted."""
    for run in contestants.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            start = clock()
            run()
            seconds[name].append(clock() - start)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def report(what: str, ours: float, theirs: float, limit: str) -> None:
    """One line: the ratio ours / theirs beside its limit."""
    print(
        f"{what:<66} {ours * 1e3:10.2f} ms {theirs * 1e3:10.2f} ms   ratio {ours / theirs:6.3f}   {limit}", flush=True
    )


def options(
    about: str | None, argv: Sequence[str] | None, **defaults: float | list[int] | list[str] | None
) -> argparse.Namespace:
    """The command line of a benchmark: one option of the kind of each default; ``--rows`` unset means all rows."""
    parser = argparse.ArgumentParser(description=about)
    for name, default in defaults.items():
        many = "+" if isinstance(default, list) else None
        one = default[0] if isinstance(default, list) else default
        kind = int if one is None else type(one)
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, nargs=many, default=default)
    return parser.parse_args(argv)
