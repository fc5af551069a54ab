"""What probabilities are worth out of the box: log-loss, Brier score and expected calibration error.

    python benchmarks/probabilities.py [--only NAME ...] [--rivals catboost ...] [--out FILE]

Tables of classes, two thirds of the rows to fit and a third to test, on one thread, everything untuned. The calibration
error has 15 bins. Every result is a line of the file of records, appended at once; what has a record is not measured
again. Beside the records the table is written as .md; `--summary` measures nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from breadth import cut_damaged_line, read_records
from breadth_data import Problem, Split, found
from breadth_models import OURS, makers
from markdown_tables import markdown_table
from threadpoolctl import threadpool_limits

from rflaf.estimators.metrics import brier_score, calibration_error

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "probabilities.jsonl"
LEAST = 1e-15
NAMES = {OURS: "rflaf", "catboost": "CatBoost", "lightgbm-100": "LightGBM, 100", "lightgbm-1000": "LightGBM, 1000"}
Record = dict[str, Any]


def log_loss(model: Any, split: Split) -> tuple[float, np.ndarray]:
    """The log-loss on the rows to test, and what the model says of them."""
    said = np.asarray(model.predict_proba(split.X_test), np.float64)
    said /= said.sum(axis=1, keepdims=True)
    return float(-np.mean(np.log(np.maximum(said[np.arange(len(said)), split.y_test], LEAST)))), said


def measured(problem: Problem, split: Split, name: str, width: int) -> Record:
    """The scores of a model, and what its fit takes."""
    model = makers(width)[name](problem.task, split.X_train, 0)
    start = process_time()
    model.fit(split.X_train, split.y_train)
    seconds = process_time() - start
    loss, p = log_loss(model, split)
    scores = {"brier": brier_score(split.y_test, p), "ece": calibration_error(split.y_test, p)}
    return {"log_loss": loss, **scores, "test_rows": len(p), "fit_seconds": seconds}


def carry_out(problems: Sequence[Problem], given: argparse.Namespace) -> None:
    """Measure what has no record yet."""
    cut_damaged_line(given.out)
    done = {(one["name"], one["seed"], one["model"]) for one in read_records(given.out)}
    with given.out.open("a", encoding="utf-8") as stream:
        for problem in problems:
            for model in (OURS, *given.rivals):
                if (problem.name, given.seed, model) in done:
                    continue
                about = {"name": problem.name, "seed": given.seed, "model": model}
                split = problem.split(problem.read(), given.seed)
                record = about | measured(problem, split, model, given.width)
                stream.write(json.dumps(record) + "\n")
                stream.flush()
                print(record, file=sys.stderr, flush=True)


def markdown(records: Sequence[Record]) -> str:
    """A line of every table; the means are over those that all models have records of."""
    models = list(dict.fromkeys(one["model"] for one in records))
    by_table: dict[str, dict[str, Record]] = {}
    for one in records:
        by_table.setdefault(one["name"], {})[one["model"]] = one
    lines = []
    for name, of in sorted(by_table.items()):
        scores = [
            [f"{of[model][score]:.{digits}f}" if model in of else "not measured" for model in models]
            for score, digits in (("ece", 3), ("brier", 3), ("log_loss", 3))
        ]
        lines.append([name, next(iter(of.values()))["test_rows"], *map(", ".join, scores)])
    complete = [of for of in by_table.values() if len(of) == len(models)]
    means = [
        ", ".join(f"{np.mean([of[model][score] for of in complete]):.3f}" for model in models)
        for score in ("ece", "brier", "log_loss")
    ]
    lines.append([f"mean of {len(complete)}", "", *means])
    of_models = ", ".join(NAMES.get(model, model) for model in models)
    return (
        markdown_table(("table", "rows to test", f"calibration error of {of_models}", "Brier score", "log-loss"), lines)
        + "\n"
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", default=["tables"])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names of data sets; all of classes unless given")
    parser.add_argument("--seed", type=int, default=0, help="of the split")
    parser.add_argument("--rivals", nargs="*", default=["catboost"], help="see breadth_models.py")
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--out", type=Path, default=RESULTS, help="the file of records")
    parser.add_argument("--summary", action="store_true", help="print the table of the records, measure nothing")
    given = parser.parse_args(argv)
    if not given.summary:
        problems = [problem for problem in found(given.kinds) if problem.task != "regression"]
        problems = [problem for problem in problems if problem.name in (given.only or {problem.name})]
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            carry_out(problems, given)
    text = markdown(read_records(given.out))
    print(text)
    given.out.with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
