"""Students of slow teachers (`rflaf.distil`): what they keep of a teacher, and how many times quicker they predict.

python benchmarks/distillation.py [--only NAME ...] [--teachers catboost ...] [--seeds 0 1] [--out FILE] [--summary]. Of
every table and teacher the loss on rows held out of the teacher, of its student and of the same model without a
teacher: log-loss, or the mean squared error. Times are processor microseconds a row of a batch of 1,000 on one thread,
of frames as they come and of encoded rows. A teacher and its student on a split are one line of the records, appended
at once; what has a record is not measured again. Beside the records the table is written as .md; `--summary` measures
nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from breadth import BATCH, batch_of, cut_damaged_line, read_records
from breadth_data import PROTOCOLS, Problem, Split, found
from breadth_models import CONTESTANTS, OURS, makers
from interleaved import medians
from markdown_tables import markdown_table
from threadpoolctl import threadpool_limits

import rflaf

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "distillation.jsonl"
LEAST = 1e-15
TABLES = ("bin-bank_churn", "bin-churn", "multi-cmc", "multi-maternal", "reg-abalone", "reg-wage")
TEACHERS = ("catboost", "extra-trees")
Record = dict[str, Any]


def loss(model: Any, split: Split, regression: bool) -> float:
    """The mean loss on the rows to test."""
    if regression:
        return float(np.mean((model.predict(split.X_test) - split.y_test) ** 2))
    said = np.asarray(model.predict_proba(split.X_test), np.float64)
    said /= said.sum(axis=1, keepdims=True)
    return float(-np.mean(np.log(np.maximum(said[np.arange(len(said)), split.y_test], LEAST))))


def microseconds(teacher: Any, student: Any, X: Any, regression: bool) -> dict[str, float]:
    """Times to predict a row: of teacher and student as rows come, and of the student's model of encoded rows."""
    what, batch = "predict" if regression else "predict_proba", batch_of(X)
    rows = np.ascontiguousarray(student._check_rows(batch), np.float64)
    runs: dict[str, Callable[[], Any]] = {
        "teacher": lambda: getattr(teacher, what)(batch),
        "student": lambda: getattr(student, what)(batch),
        "encoded": lambda: student.model_.decision(rows, 1),
    }
    return {name: 1e6 * seconds / BATCH for name, seconds in medians(runs, 5, process_time).items()}


def measured(problem: Problem, split: Split, teacher_name: str, width: int) -> Record:
    """Losses and times of a teacher, its student and the same model without a teacher."""
    regression, make = problem.task == "regression", makers(width)
    alone = make[OURS](problem.task, split.X_train, 0).fit(split.X_train, split.y_train)
    teacher = make[teacher_name](problem.task, split.X_train, 0)
    start = process_time()
    student = make[OURS](problem.task, split.X_train, 0)
    student = rflaf.distil(teacher, split.X_train, split.y_train, student=student, random_state=0)
    seconds = process_time() - start
    teacher.fit(split.X_train, split.y_train)
    models = {"teacher": teacher, "student": student, "alone": alone}
    how = student.distillation_
    return {
        "train_rows": len(split.y_train),
        "losses": {name: loss(model, split, regression) for name, model in models.items()},
        "mix": how.mix,
        "held_out": {str(mix): value for mix, value in how.losses.items()},
        "seconds": seconds,
        "microseconds": microseconds(teacher, student, split.X_test, regression),
    }


def carry_out(problems: Sequence[Problem], given: argparse.Namespace) -> None:
    """Measure what has no record yet."""
    cut_damaged_line(given.out)
    done = {(one["name"], one["seed"], one["teacher"]) for one in read_records(given.out)}
    runs = [(problem, seed, teacher) for problem in problems for seed in given.seeds for teacher in given.teachers]
    with given.out.open("a", encoding="utf-8") as stream:
        for problem, seed, teacher in runs:
            if (problem.name, seed, teacher) in done:
                continue
            split = PROTOCOLS[problem.kind].split(problem.read(), problem.task, seed)
            about = {"name": problem.name, "task": problem.task, "seed": seed, "teacher": teacher}
            record = about | measured(problem, split, teacher, given.width)
            stream.write(json.dumps(record) + "\n")
            stream.flush()
            print(record, file=sys.stderr, flush=True)


def closed(records: Sequence[Record]) -> str:
    """The share of the gap between the same model without a teacher and the teacher that a student closes."""
    alone, teacher, student = (mean(records, "losses", name) for name in ("alone", "teacher", "student"))
    return f"{(alone - student) / (alone - teacher):.0%}" if teacher < alone else "no gap"


def mean(records: Sequence[Record], what: str, name: str) -> float:
    return float(np.mean([one[what][name] for one in records]))


def changes(records: Sequence[Record]) -> np.ndarray:
    """The log of the loss of each student over that of the same model without a teacher."""
    return np.array([np.log(one["losses"]["student"] / one["losses"]["alone"]) for one in records])


def markdown(records: Sequence[Record]) -> str:
    """A line of every table and teacher, the means over the splits; then how students compare on all of them."""
    head = ("table, teacher", "teacher", "student (mixes)", "without", "gap closed", "quicker: frames", "encoded rows")
    ordered = sorted(records, key=lambda one: (one["name"], one["teacher"], one["seed"]))
    lines = []
    for (name, teacher), group in groupby(ordered, lambda one: (one["name"], one["teacher"])):
        some = list(group)
        mixes = ", ".join(f"{one['mix']:g}" for one in some)
        losses = [mean(some, "losses", of) for of in ("teacher", "student", "alone")]
        slow, quick, encoded = (mean(some, "microseconds", of) for of in ("teacher", "student", "encoded"))
        student = f"{losses[1]:.4g} ({mixes})"
        times = f"{slow / quick:.1f}", f"{slow / encoded:.0f}"
        lines.append((f"{name}, {teacher}", losses[0], student, losses[2], closed(some), *times))
    change = changes(records)
    middle, low, high = (f"{100 * np.expm1(value):+.1f} %" for value in (change.mean(), change.min(), change.max()))
    error = change.std(ddof=1) / np.sqrt(change.size) if change.size > 1 else float("nan")
    mean_change = (
        f"{len(records)} students: loss {middle} (standard error {100 * error:.1f}) beside that without a teacher in "
        f"the geometric mean, from {low} to {high}."
    )
    return f"{markdown_table(head, lines)}\n\n{mean_change}\n"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", default=["tables"], choices=PROTOCOLS)
    parser.add_argument("--only", nargs="+", default=list(TABLES), metavar="NAME", help="names of data sets")
    parser.add_argument("--teachers", nargs="+", default=list(TEACHERS), choices=CONTESTANTS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1], help="of the splits")
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--out", type=Path, default=RESULTS, help="the file of records")
    parser.add_argument("--summary", action="store_true", help="print the table of the records, measure nothing")
    given = parser.parse_args(argv)
    if not given.summary:
        problems = [problem for problem in found(given.kinds) if problem.name in given.only]
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")  # of the teachers, about names of columns
            carry_out(problems, given)
    text = markdown(read_records(given.out))
    print(text)
    given.out.with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
