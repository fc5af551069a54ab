"""Probabilities of ours and of a rival on tables of classes, and what students of slow teachers keep of them.

python benchmarks/probabilities.py [calibration | students] [--kinds tables sklearn] [--only NAME ...] [--seed 1]
[--rivals catboost]. Calibration prints log-loss, Brier score and expected calibration error (15 bins) on rows held out.
Students prints the loss of a teacher, of its student (`rflaf.distil`) and of the same model without a teacher, the
share of the gap between the last and the first that the student closes, and how many times quicker it predicts: from
frames as they come, and from encoded rows against the teacher's frames. The loss of a regression is its mean squared
error.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from time import process_time
from typing import Any

import numpy as np
from breadth_data import Problem, Split, found
from breadth_models import OURS, makers
from interleaved import medians
from threadpoolctl import threadpool_limits

import rflaf
from rflaf.estimators.metrics import brier_score, calibration_error

LEAST = 1e-15


def losses(model: Any, split: Split, regression: bool) -> tuple[float, np.ndarray]:
    """The mean loss on the rows to test, and what the model says of them."""
    if regression:
        said = model.predict(split.X_test)
        return float(np.mean((said - split.y_test) ** 2)), said
    said = np.asarray(model.predict_proba(split.X_test), np.float64)
    said /= said.sum(axis=1, keepdims=True)
    return float(-np.mean(np.log(np.maximum(said[np.arange(len(said)), split.y_test], LEAST)))), said


def calibration(problem: Problem, split: Split, given: argparse.Namespace) -> None:
    for name in (OURS, *given.rivals):
        model = makers(given.width)[name](problem.task, split.X_train, 0)
        start = process_time()
        model.fit(split.X_train, split.y_train)
        seconds = process_time() - start
        loss, p = losses(model, split, False)
        brier, error = brier_score(split.y_test, p), calibration_error(split.y_test, p)
        scores = f"log-loss {loss:.4f}   Brier {brier:.4f}   ECE {error:.4f}"
        print(f"{problem.name:<20} {name:<14} {scores}   {seconds:.1f} s", flush=True)


def students(problem: Problem, split: Split, given: argparse.Namespace) -> None:
    regression = problem.task == "regression"
    alone = makers(given.width)[OURS](problem.task, split.X_train, 0).fit(split.X_train, split.y_train)
    without, _ = losses(alone, split, regression)
    for name in given.rivals:
        teacher = makers(given.width)[name](problem.task, split.X_train, 0)
        student = makers(given.width)[OURS](problem.task, split.X_train, 0)
        student = rflaf.distil(teacher, split.X_train, split.y_train, student=student, random_state=0)
        teacher.fit(split.X_train, split.y_train)
        (taught, _), (by, _) = losses(student, split, regression), losses(teacher, split, regression)
        gap = without - by
        closed = f"{(without - taught) / gap:.2f}" if gap > 0 else "none: the teacher is no better"
        frames, rows = quicker(teacher, student, split.X_test, regression)
        print(
            f"{problem.name:<20} {name:<14} teacher {by:.4g}   student {taught:.4g} (mix {student.distillation_.mix:g})"
            f"   alone {without:.4g}   gap closed {closed}   quicker {frames:.0f} (frames), {rows:.0f} (encoded)",
            flush=True,
        )


def quicker(teacher: Any, student: Any, X: Any, regression: bool) -> tuple[float, float]:
    """How many times quicker a student predicts, from rows as they come and from encoded ones."""
    what = "predict" if regression else "predict_proba"
    rows = np.ascontiguousarray(student._check_rows(X), np.float64)
    runs: dict[str, Callable[[], Any]] = {
        "teacher": lambda: getattr(teacher, what)(X),
        "student": lambda: getattr(student, what)(X),
        "encoded": lambda: student.model_.decision(rows, 1),
    }
    seconds = medians(runs, 5, process_time)
    return seconds["teacher"] / seconds["student"], seconds["teacher"] / seconds["encoded"]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["calibration", "students"])
    parser.add_argument("--kinds", nargs="+", default=["tables"])
    parser.add_argument("--only", nargs="+", help="names of data sets; all of classes unless given")
    parser.add_argument("--seed", type=int, default=1, help="of the split")
    parser.add_argument("--rivals", nargs="+", default=["catboost"], help="rivals, or teachers: see breadth_models.py")
    parser.add_argument("--width", type=int, default=100)
    given = parser.parse_args(argv)
    problems = [problem for problem in found(given.kinds) if not given.only or problem.name in given.only]
    if given.what == "calibration" or not given.only:
        problems = [problem for problem in problems if problem.task != "regression"]
    for problem in problems:
        split = problem.split(problem.read(), given.seed)
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            {"calibration": calibration, "students": students}[given.what](problem, split, given)


if __name__ == "__main__":
    main()
