"""Two checkouts in time: fit and predict of each, in alternating fresh processes on the same rows.

python benchmarks/against.py BEFORE AFTER [--rounds 7] [--rows 4000] [--width 50]. Each is a path, or a commit that is
checked out into a temporary folder. Prints the median seconds of both and the median of the ratios after / before;
exits with 1 where a ratio exceeds --limit and the difference exceeds --least seconds. Times are of the processor.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import process_time

import numpy as np

PAPER = {"directions": "random", "activation": "shared"}


def models(width: int) -> dict[str, object]:
    """Estimators whose constructors are the same in both checkouts."""
    from rflaf import RFLAFClassifier, RFLAFRegressor

    common = {"random_state": 0, "n_jobs": 1}
    return {
        "refined": RFLAFRegressor(width, **common),
        "classifier": RFLAFClassifier(width, **common),
        "convex": RFLAFRegressor.convex(width, **common),
        "plain, shared": RFLAFRegressor(width, **PAPER, **common),
        "paper": RFLAFRegressor.paper(width, pool_size=4 * width, **common),
    }


def seconds(call: Callable[[], object], repeats: int) -> float:
    """The quickest of some calls."""
    found = []
    for _ in range(repeats):
        start = process_time()
        call()
        found.append(process_time() - start)
    return min(found)


def measure(n_rows: int, width: int) -> dict[str, float]:
    """Seconds of every model's fit, of a batch and of one row, after a first fit that compiles."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, 10))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n_rows)
    batch, row, found = np.concatenate([X] * 4), X[:1].copy(), {}
    for name, model in models(width).items():
        target = y > 0 if name == "classifier" else y
        model.fit(X, target)
        found[f"{name}, fit"] = seconds(lambda model=model, target=target: model.fit(X, target), 2)
        found[f"{name}, predict batch"] = seconds(lambda model=model: model.predict(batch), 10)
        found[f"{name}, predict one row"] = seconds(lambda model=model: model.predict(row), 200)
    return found


def turn(checkout: Path, given: argparse.Namespace) -> dict[str, float]:
    """One measurement of a checkout in a process of its own."""
    command = [sys.executable, __file__, "--measure", "--rows", str(given.rows), "--width", str(given.width)]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    environment = os.environ | threads | {"PYTHONPATH": str(checkout / "src")}
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd=checkout)
    where, found = json.loads(answer.stdout.splitlines()[-1])
    if not Path(where).is_relative_to(checkout):
        sys.exit(f"{checkout} must hold the package in src/, but {where} was imported")
    return found


@contextmanager
def checkout_of(name: str) -> Iterator[Path]:
    """The folder of a path, or a temporary one with the files of a commit."""
    if Path(name).is_dir():
        yield Path(name).resolve()
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(__file__).parent.parent
        archive = subprocess.run(["git", "archive", name, "src"], cwd=root, check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        yield Path(folder).resolve()


def compare(before: Path, after: Path, given: argparse.Namespace) -> int:
    turns: dict[Path | str, list[dict[str, float]]] = {"before": [], "after": []}
    for number in range(given.rounds):
        pair = [("before", before), ("after", after)]
        for who, checkout in reversed(pair) if number % 2 else pair:
            turns[who].append(turn(checkout, given))
    n_slower = 0
    for what in turns["before"][0]:
        old, new = (np.array([found[what] for found in turns[who]]) for who in ("before", "after"))
        ratio = float(np.median(new / old))
        slower = ratio > given.limit and float(np.median(new - old)) > given.least
        n_slower += slower
        mark = "   FAIL" if slower else ""
        print(f"{what:<32} {np.median(old) * 1e3:10.3f} ms {np.median(new) * 1e3:10.3f} ms   ratio {ratio:6.3f}{mark}")
    return int(n_slower > 0)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", nargs="*", help="two paths or commits: before and after")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--width", type=int, default=50)
    parser.add_argument("--limit", type=float, default=1.03, help="the largest ratio that is no failure")
    parser.add_argument("--least", type=float, default=1e-6, help="the largest slowdown in seconds that is no failure")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.measure:
        import rflaf

        print(json.dumps([rflaf.__file__, measure(given.rows, given.width)]))
        return 0
    if len(given.checkouts) != 2:
        parser.error("two checkouts are compared, such as: against.py HEAD~1 .")
    with ExitStack() as stack:
        before, after = (stack.enter_context(checkout_of(name)) for name in given.checkouts)
        return compare(before, after, given)


if __name__ == "__main__":
    sys.exit(main())
