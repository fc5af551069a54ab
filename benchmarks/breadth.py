"""How defaults are judged: ours and its rivals on many data sets, with ranks, wins, relative errors and times.

python benchmarks/breadth.py --sets choose [--kinds pmlb tables sklearn paper] [--width 100] [--out breadth.jsonl]. Make
choices on the sets of `--sets choose` and report those of `--sets report`: every other name of a kind in sorted order.
Each run is one line of the file of records, appended at once; a second call carries on where the first stopped. The
summary is printed and written beside the records as .md and .csv; `--summary` prints it without running anything.
To compare two checkouts, give both the same file and each its `--name`. One process, one thread; a fit is measured in
processor seconds, a prediction in microseconds per row of a batch of 1,000 rows.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pandas as pd
from breadth_data import HALVES, PROTOCOLS, Problem, Split, found
from breadth_models import CONSTANT, CONTESTANTS, OURS, makers, missing_libraries, why_not
from breadth_report import markdown, published_markdown, write_csv
from breadth_summary import DONE, FAILED, LEFT_OUT, Record, comparisons
from interleaved import medians
from sklearn.metrics import log_loss, roc_auc_score
from threadpoolctl import threadpool_limits

BATCH = 1000


@dataclass(frozen=True)
class Run:
    """One contestant on one split of one data set."""

    problem: Problem
    seed: int
    contestant: str
    method: str

    @property
    def key(self) -> tuple[str, str, int, str]:
        return self.problem.kind, self.problem.name, self.seed, self.method


def key_of(record: Record) -> tuple[str, str, int, str]:
    return record["kind"], record["name"], record["seed"], record["method"]


def read_records(path: Path) -> list[Record]:
    """The records of a file; a damaged last line, of a run that was killed while it wrote, is passed over."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    records = []
    for number, line in enumerate(lines, 1):
        try:
            if not line.endswith(b"\n"):
                raise ValueError("the line has no end")
            records.append(json.loads(line))
        except ValueError as error:
            if number < len(lines):
                raise SystemExit(f"{path}, line {number}: not a record ({error}); remove the line") from None
    return records


def cut_damaged_line(path: Path) -> None:
    """Remove a damaged last line, so that the next record does not continue it."""
    n_records = len(read_records(path))
    if path.exists():
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:n_records]))


def losses(problem: Problem, model: Any, split: Split) -> dict[str, float]:
    """Losses on the test rows by the names of their measures; sets are ranked by the first."""
    if problem.task == "regression":
        measure = PROTOCOLS[problem.kind].measure
        error = float(np.mean((np.ravel(model.predict(split.X_test)) - split.y_test) ** 2))
        # r2 is the same in the units of the target and on the scale of the training rows.
        return {measure: {"1 - r2": error / np.var(split.y_test), "RMSE": math.sqrt(error)}.get(measure, error)}
    classes = np.arange(1 + max(split.y_train.max(), split.y_test.max()))
    p = np.zeros((len(split.y_test), len(classes)))
    p[:, model.classes_] = model.predict_proba(split.X_test)
    p = np.clip(p, 1e-15, 1)
    entropy = {"log-loss": float(log_loss(split.y_test, p / p.sum(axis=1, keepdims=True), labels=classes))}
    return (
        entropy if problem.task == "multi-class" else {"1 - AUC": 1 - roc_auc_score(split.y_test, p[:, 1]), **entropy}
    )


def batch_of(X: Any) -> Any:
    """1,000 rows: the test rows as often as it takes."""
    some = np.arange(BATCH) % len(X)
    return X.iloc[some].reset_index(drop=True) if isinstance(X, pd.DataFrame) else X[some]


def measured(run: Run, model: Any, split: Split) -> dict[str, Any]:
    """Losses and times of a model."""
    start = process_time()
    model.fit(split.X_train, split.y_train)
    seconds = process_time() - start
    lost = losses(run.problem, model, split)
    if not np.isfinite(list(lost.values())).all():
        raise ValueError(f"the losses must be finite, but they are {lost}")
    predict = model.predict if run.problem.task == "regression" else model.predict_proba
    batch = batch_of(split.X_test)
    per_row = medians({"predict": lambda: predict(batch)}, rounds=3)["predict"] / BATCH
    return {"losses": lost, "fit_seconds": seconds, "predict_microseconds": 1e6 * per_row}


def outcome_of(run: Run, split: Split, width: int | str) -> dict[str, Any]:
    """What is recorded of a run beside what it is: its numbers, or why there are none."""
    reason = why_not(run.contestant, run.problem.task, len(split.y_train))
    if reason:
        return {"state": LEFT_OUT, "message": reason}
    try:
        model = makers(width)[run.contestant](run.problem.task, split.X_train, run.seed)
        return {"state": DONE, **measured(run, model, split)}
    except Exception as error:
        if run.contestant == CONSTANT:
            raise  # no ratio could be formed: the data set itself is at fault
        return {"state": FAILED, "message": f"{type(error).__name__}: {error}"}


def warm_up(tasks: set[str], width: int | str) -> None:
    """A fit of ours for each task that nobody times: the first one compiles, or loads what is compiled."""
    X = np.random.default_rng(0).standard_normal((90, 3))
    for task in sorted(tasks):
        y = X[:, 0] if task == "regression" else np.digitize(X[:, 0], [0.0] if task == "binary" else [-0.5, 0.5])
        makers(width)[OURS](task, X, 0).fit(X, y).predict(X)


def records_of(runs: Sequence[Run], width: int | str) -> Iterator[Record]:
    """The runs, set by set and seed by seed, the contestants in turn."""
    table, split, at = (np.empty(0), np.empty(0)), None, (None, None)
    for run in runs:
        if run.problem is not at[0]:
            table = run.problem.read()
        if (run.problem, run.seed) != at:
            split, at = run.problem.split(table, run.seed), (run.problem, run.seed)
        about = {name: value for name, value in asdict(run.problem).items() if name != "read"}
        size = {"rows": len(table[1]), "columns": table[0].shape[1], "train_rows": len(split.y_train)}
        who = {"seed": run.seed, "contestant": run.contestant, "method": run.method}
        yield {**about, **size, **who, **outcome_of(run, split, width)}


def said(record: Record) -> str:
    """A record in a few words."""
    if record["state"] != DONE:
        return f"{record['state']}: {record['message']}"
    lost = ", ".join(f"{measure} {loss:.4g}" for measure, loss in record["losses"].items())
    return f"{lost}, {record['fit_seconds']:.2f} s"


def carry_out(runs: Sequence[Run], given: argparse.Namespace) -> None:
    """Run all, each appended to the records at once; progress goes to the standard error."""
    if any(run.contestant == OURS for run in runs):
        warm_up({run.problem.task for run in runs}, given.width)
    cut_damaged_line(given.out)
    started = perf_counter()
    with given.out.open("a", encoding="utf-8") as stream:
        for number, record in enumerate(records_of(runs, given.width), 1):
            stream.write(json.dumps(record) + "\n")
            stream.flush()
            left = (perf_counter() - started) / number * (len(runs) - number) / 60
            what = f"{record['kind']}/{record['name']}, seed {record['seed']}, {record['method']}"
            print(f"[{number}/{len(runs)}, {left:.0f} min left] {what}: {said(record)}", file=sys.stderr, flush=True)


def chosen(given: argparse.Namespace) -> list[Problem]:
    """The data sets asked for; a name that is not among them is refused."""
    halves = HALVES if given.sets == "all" else (given.sets,)
    problems = [problem for problem in found(given.kinds) if problem.half in halves]
    unknown = set(given.only or ()) - {problem.name for problem in problems}
    if unknown:
        names = " ".join(sorted(unknown))
        raise SystemExit(
            f"--only must name sets of --kinds and --sets {given.sets} on this machine; these are not: {names}"
        )
    return [problem for problem in problems if problem.name in (given.only or {problem.name})]


def pending(problems: Sequence[Problem], given: argparse.Namespace) -> list[Run]:
    """The runs that have no record yet, contestants in turn on every split."""
    done = {key_of(record) for record in read_records(given.out)}
    runs = [
        Run(problem, seed, contestant, given.name if contestant == OURS else contestant)
        for problem in problems
        for seed in PROTOCOLS[problem.kind].seeds[: given.seeds]
        for contestant in (CONSTANT, *given.methods)
    ]
    return [run for run in runs if run.key not in done]


def wanted(record: Record, given: argparse.Namespace) -> bool:
    """Whether the summary counts a record."""
    return (
        record["kind"] in given.kinds
        and given.sets in (record["half"], "all")
        and record["contestant"] in (CONSTANT, *given.methods)
        and record["seed"] in PROTOCOLS[record["kind"]].seeds[: given.seeds]
        and record["name"] in (given.only or {record["name"]})
    )


def summarise(given: argparse.Namespace) -> None:
    """Print the summary of the records and write it beside them."""
    records = [record for record in read_records(given.out) if wanted(record, given)]
    compared, unfinished = comparisons(records)
    text = f"# Breadth, sets: {given.sets}\n\n{markdown(compared, unfinished)}"
    if given.published:
        ours = sorted({record["method"] for record in records if record["contestant"] == OURS})
        text += "\n" + published_markdown(compared, ours, given.published)
    print(text)
    given.out.with_suffix(".md").write_text(text, encoding="utf-8")
    write_csv(given.out.with_suffix(".csv"), compared)


def width_of(text: str) -> int | str:
    return text if text == "auto" else int(text)


def options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", choices=(*HALVES, "all"), help="which half of the sets; choose, or all where --only")
    parser.add_argument("--kinds", nargs="+", choices=PROTOCOLS, default=list(PROTOCOLS))
    parser.add_argument("--seeds", type=int, help="at most so many splits of a set; all of its protocol unless given")
    parser.add_argument("--width", type=width_of, default=100, help="width of ours, or auto")
    parser.add_argument("--methods", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these sets of the half alone")
    parser.add_argument("--name", help="what ours is called in the records; rflaf-WIDTH unless given")
    parser.add_argument("--out", type=Path, default=Path("breadth.jsonl"), help="the file of records")
    parser.add_argument("--published", type=Path, help="CSV of algorithm, dataset, r2_median: SRBench's results")
    parser.add_argument("--summary", action="store_true", help="print the summary of the records, run nothing")
    given = parser.parse_args(argv)
    given.name = given.name or f"rflaf-{given.width}"
    given.sets = given.sets or ("all" if given.only else "choose")
    return given


def main(argv: Sequence[str] | None = None) -> None:
    given = options(argv)
    if not given.summary:
        missing = missing_libraries(given.methods)
        if missing:
            raise SystemExit(
                f"{' and '.join(missing)} cannot be imported: pip install --group bench, or leave out by --methods"
            )
        problems = chosen(given)
        print(f"{given.sets}: {' '.join(problem.key for problem in problems)}\n", flush=True)
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the rivals, about names of columns and convergence
            carry_out(pending(problems, given), given)
    summarise(given)


if __name__ == "__main__":
    main()
