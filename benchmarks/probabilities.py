"""Probabilities of ours and of a rival on tables of classes.

python benchmarks/probabilities.py [--kinds tables sklearn] [--only NAME ...] [--seed 1] [--rivals catboost] prints
log-loss, Brier score and expected calibration error (15 bins) on rows held out.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from time import process_time
from typing import Any

import numpy as np
from breadth_data import Problem, Split, found
from breadth_models import OURS, makers
from threadpoolctl import threadpool_limits

from rflaf.estimators.metrics import brier_score, calibration_error

LEAST = 1e-15


def log_loss(model: Any, split: Split) -> tuple[float, np.ndarray]:
    """The log-loss on the rows to test, and what the model says of them."""
    said = np.asarray(model.predict_proba(split.X_test), np.float64)
    said /= said.sum(axis=1, keepdims=True)
    return float(-np.mean(np.log(np.maximum(said[np.arange(len(said)), split.y_test], LEAST)))), said


def calibration(problem: Problem, split: Split, given: argparse.Namespace) -> None:
    for name in (OURS, *given.rivals):
        model = makers(given.width)[name](problem.task, split.X_train, 0)
        start = process_time()
        model.fit(split.X_train, split.y_train)
        seconds = process_time() - start
        loss, p = log_loss(model, split)
        brier, error = brier_score(split.y_test, p), calibration_error(split.y_test, p)
        scores = f"log-loss {loss:.4f}   Brier {brier:.4f}   ECE {error:.4f}"
        print(f"{problem.name:<20} {name:<14} {scores}   {seconds:.1f} s", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", default=["tables"])
    parser.add_argument("--only", nargs="+", help="names of data sets; all of classes unless given")
    parser.add_argument("--seed", type=int, default=1, help="of the split")
    parser.add_argument("--rivals", nargs="+", default=["catboost"], help="see breadth_models.py")
    parser.add_argument("--width", type=int, default=100)
    given = parser.parse_args(argv)
    problems = [problem for problem in found(given.kinds) if problem.task != "regression"]
    for problem in problems:
        if given.only and problem.name not in given.only:
            continue
        split = problem.split(problem.read(), given.seed)
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            calibration(problem, split, given)


if __name__ == "__main__":
    main()
