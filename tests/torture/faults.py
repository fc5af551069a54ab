"""Kill, starve and damage: ``python tests/torture/faults.py --times 20``, or ``make faults``.

SIGKILL at random moments of fits with a checkpoint, of save, of predict and of a study, of workers and the scheduler of
a cluster; a full disk; a folder that is read-only; a limit on memory; damaged checkpoints and tables. After every fault
the old file is whole or the new one is, a fit and a study go on to the same answer, and what is damaged is refused by
name. ``--only fit save`` chooses; ``--records faults.jsonl`` keeps the count, so that a stopped run goes on. Exit code
1 if anything was lost.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

import rflaf
from rflaf.cli.app import run as command
from rflaf.errors import InvalidParameterError
from rflaf.rows import checkpoint
from rflaf.study import experiments, protocols, runner

sys.path.insert(0, str(Path(__file__).parent))
import clusters
import disks

LIMITED = """
import resource, sys, numpy as np, rflaf
rng = np.random.default_rng(0)
X = rng.standard_normal((9000, 5))
y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
size = int(open('/proc/self/statm').read().split()[0]) * 4096 + int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (size, size))
try:
    model = rflaf.RFLAFRegressor(20, directions="random", activation="shared", random_state=0, n_jobs=1)
    assert np.isfinite(model.fit(X, y).predict(X)).all()
except (MemoryError, ValueError, RuntimeError, ImportError, OSError) as error:
    print(type(error).__name__)
"""
STUDY = """
title = "A made-up figure"
metric = "loss"
[quick]
data = ["protein"]
seeds = [0, 1]
widths = [5]
pool = 20
[full]
data = ["protein"]
seeds = [0, 1]
widths = [5]
pool = 20
[[arms]]
protocol = ["paper"]
scheme = ["plain", "leverage"]
basis = ["rbf"]
n_centres = [9]
"""
Fault = Callable[[random.Random], str]


def begun(work: Callable[[], Any]) -> int:
    """Begin work in a process that has all modules and compiled loops of this one already; return its number."""
    pid = os.fork()
    if pid:
        return pid
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def ended(pid: int) -> int:
    """Return the exit code of a process; minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed(work: Callable[[], Any], seconds: float, after: Path | None = None) -> bool:
    """Begin work and kill it so long after its begin, or after a file is there; return whether it was running."""
    pid = begun(work)
    end = time.monotonic() + 60
    while after is not None and not after.exists() and time.monotonic() < end:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
        time.sleep(0.001)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    return ended(pid) == -signal.SIGKILL


def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9000, 5))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2


KINDS = {
    "shared": {"directions": "random", "activation": "shared"},
    "quantile": {"directions": "random", "loss": "quantile", "alpha": 1e-3},
    "refined": {"alpha": 1e-4, "curves": False, "loss": rflaf.functions.losses.Squared()},
}


def make(kind: str = "shared", **others: Any) -> rflaf.RFLAFRegressor:
    return rflaf.RFLAFRegressor(12, random_state=0, n_jobs=1, **KINDS[kind], **others)


@contextmanager
def fits() -> Iterator[Fault]:
    """Kill fits, most of them after their first record; each must go on to the model of an unbroken fit."""
    X, y = rows()
    seconds, expected = {}, {}
    for kind in KINDS:
        make(kind).fit(X, y)
        began = time.monotonic()
        expected[kind] = make(kind).fit(X, y).predict(X)
        seconds[kind] = time.monotonic() - began

    def fault(chance: random.Random) -> str:
        kind = chance.choice(list(KINDS))
        with tempfile.TemporaryDirectory() as name:
            file, out = Path(name) / "c", Path(name) / "p.npy"
            late = chance.random() < 0.8

            def fit() -> None:
                np.save(out, make(kind, checkpoint=file).fit(X, y).predict(X))

            running = killed(fit, chance.uniform(0, seconds[kind]), file if late else None)
            kept = len(checkpoint.Journal(file)) if file.exists() else 0
            if ended(begun(fit)) or not np.array_equal(np.load(out), expected[kind]):
                return f"LOST {kind}"
            if os.listdir(name) != ["p.npy"]:
                return f"LOST {os.listdir(name)} left"
        return f"{kind}, {'killed' if running else 'complete'}, {'resumed' if kept > 1 else 'anew'}: the same model"

    yield fault


@contextmanager
def writes(work: Callable[[Any, Path], None], output: str) -> Iterator[Fault]:
    """Kill writers; the output is whole whenever it is there, and the next writer sweeps what is left."""
    X, y = rows()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = np.column_stack([X[:500], y[:500]])
        np.savetxt(folder / "t.csv", table, delimiter=",", header="a,b,c,d,e,y", comments="")
        model = rflaf.RFLAFRegressor(20, directions="random", random_state=0).fit(str(folder / "t.csv"), "y")
        rflaf.save(model, folder / "m.rflaf")
        expected = rflaf.load(folder / "m.rflaf").model_.decision(X[:500])

        def fault(chance: random.Random) -> str:
            def forever() -> None:
                while True:
                    work(model, folder)

            killed(forever, chance.uniform(0, 0.5))
            left = len(list(folder.glob(".*.rflaf-part")))
            whole = np.array_equal(rflaf.load(folder / "m.rflaf").model_.decision(X[:500]), expected)
            out = folder / output
            if output == "out.csv" and out.exists():
                whole = whole and len(out.read_text().splitlines()) == 501
            ended(begun(lambda: work(model, folder)))
            swept = not list(folder.glob(f".{output}.*"))
            return f"whole, {left} left and swept" if whole and swept else f"LOST whole {whole} swept {swept}"

        yield fault


def write_model(model: Any, folder: Path) -> None:
    rflaf.save(model, folder / "m.rflaf")


def write_predictions(model: Any, folder: Path) -> None:
    command(["predict", str(folder / "m.rflaf"), str(folder / "t.csv"), "--out", str(folder / "out.csv"), "--json"])


@contextmanager
def studies() -> Iterator[Fault]:
    """Kill a study; run again it has the records of an unbroken one, and no trial is run twice."""
    with tempfile.TemporaryDirectory() as name:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((300, 9))
        table = np.column_stack([7 + 3 * np.tanh(X[:, 0]) + X[:, 1] ** 2, X])
        place = Path(name) / "protein" / "CASP.csv"
        place.parent.mkdir()
        head = ",".join(["RMSD", *(f"F{i}" for i in range(1, 10))])
        np.savetxt(place, table, "%.5f", delimiter=",", header=head, comments="")
        os.environ["RFLAF_DATA_DIR"] = name
        protocols.load_for_paper.cache_clear()
        trials = experiments.parse("tiny", STUDY).trials("full")
        runner.run(trials, Path(name) / "first.jsonl", 1)
        began = time.monotonic()
        expected = [record.score for record in runner.run(trials, Path(name) / "second.jsonl", 1)]
        usual = time.monotonic() - began

        def fault(chance: random.Random) -> str:
            with tempfile.TemporaryDirectory() as other:
                path = Path(other) / "records.jsonl"
                killed(lambda: runner.run(trials, path, 1), chance.uniform(0, usual))
                before = path.read_bytes().count(b"\n") if path.exists() else 0
                again = [record.score for record in runner.run(trials, path, 1)]
                if again != expected or path.read_bytes().count(b"\n") != len(trials):
                    return "LOST records"
            return f"{before} of {len(trials)} records kept, the same study"

        yield fault


@contextmanager
def checkpoints() -> Iterator[Fault]:
    """Flip bytes of checkpoints: refused, or, cut short, carried on to the same model; never another model."""
    X, y = rows()
    expected = make().fit(X, y).predict(X)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "c"
        for attempt in range(200):
            killed(lambda: make(checkpoint=file).fit(X, y), 0.002 * attempt, file)
            if file.exists() and len(checkpoint.Journal(file)) > 2:
                break
            file.unlink(missing_ok=True)
        whole = file.read_bytes()

        def fault(chance: random.Random) -> str:
            damaged = bytearray(whole)
            if chance.random() < 0.25:
                damaged = damaged[: chance.randrange(len(damaged))]
            else:
                for _ in range(chance.randrange(1, 4)):
                    damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            file.write_bytes(bytes(damaged))
            try:
                predicted = make(checkpoint=file).fit(X, y).predict(X)
                return "the same model" if np.array_equal(predicted, expected) else "LOST another model"
            except InvalidParameterError as error:
                return "refused by name" if str(file) in str(error) else f"LOST {error}"

        yield fault


@contextmanager
def tables() -> Iterator[Fault]:
    """Flip, cut and splice bytes of tables: a finite model, or an error of ours; never a crash."""
    X, y = rows()
    columns = {name: X[:300, j] for j, name in enumerate("abcde")}
    table = pa.table({**columns, "town": np.resize(["Ulm", "Bonn", "Kiel"], 300), "y": y[:300]})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parquet.write_table(table, folder / "t.parquet")
        arrow_csv.write_csv(table, folder / "t.csv")
        with pa.OSFile(str(folder / "t.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        np.savez(folder / "t.npz", **columns, y=y[:300])
        np.save(folder / "t.npy", X[:300])
        wholes = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}

        def fault(chance: random.Random) -> str:
            kind = chance.choice(list(wholes))
            damaged, how = bytearray(wholes[kind]), chance.randrange(3)
            if how == 0:
                damaged = damaged[: chance.randrange(len(damaged))]
            elif how == 1:
                for _ in range(chance.randrange(1, 9)):
                    damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            else:
                first, last = sorted(chance.randrange(len(damaged)) for _ in range(2))
                damaged = damaged[:first] + damaged[last:]
            path = folder / f"damaged.{kind.partition('.')[2]}"
            path.write_bytes(bytes(damaged))

            def fit() -> None:
                model = rflaf.RFLAFRegressor(2, directions="random", alpha=1e-3, random_state=0, n_jobs=1)
                try:
                    model.fit(path, y[:300] if kind == "t.npy" else "y")
                except (ValueError, TypeError, MemoryError):
                    os._exit(3)
                assert np.isfinite(model.output_weights_).all()

            code = ended(begun(fit))
            ends = {0: "read", 3: "refused"}
            if code not in ends:
                kept = Path(tempfile.mkstemp(suffix=path.suffix, prefix="rflaf-lost-")[1])
                kept.write_bytes(bytes(damaged))
                return f"LOST exit {code}: {kept}"
            return f"{kind} {ends[code]}"

        yield fault


@contextmanager
def limits() -> Iterator[Fault]:
    """Fit under little memory: a model, or an error of Python; never a crash."""

    def fault(chance: random.Random) -> str:
        given = [sys.executable, "-c", LIMITED, str(int(2 ** chance.uniform(16, 30)))]
        done = subprocess.run(given, capture_output=True, text=True, check=False)
        return (
            (done.stdout.strip() or "fitted")
            if done.returncode == 0
            else f"LOST exit {done.returncode} {done.stderr[-300:]}"
        )

    yield fault


FAULTS: dict[str, Callable[[], Any]] = {
    "fit": fits,
    "save": lambda: writes(write_model, "m.rflaf"),
    "predict": lambda: writes(write_predictions, "out.csv"),
    "study": studies,
    "checkpoint": checkpoints,
    "table": tables,
    "disk": disks.disks,
    "memory": limits,
    "cluster": clusters.clusters,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--only", nargs="+", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--records", type=Path, default=Path("faults.jsonl"))
    given = parser.parse_args()
    checkpoint._LEAST_SECONDS, checkpoint._BYTES_PER_SECOND = 0.0, float("inf")  # every pass is recorded
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    known = [json.loads(line) for line in given.records.read_text().splitlines()] if given.records.exists() else []
    end = time.monotonic() + 60 * given.minutes
    lost = False
    for name in given.only:
        outcomes = [outcome for of, outcome in known if of == name]
        if len(outcomes) < given.times and time.monotonic() < end:
            with FAULTS[name]() as fault, given.records.open("a") as log:
                while len(outcomes) < given.times and time.monotonic() < end:
                    outcomes.append(fault(random.Random(f"{name} {len(outcomes)}")))
                    log.write(json.dumps([name, outcomes[-1]]) + "\n")
                    log.flush()
        lost = lost or any(outcome.startswith("LOST") for outcome in outcomes)
        sys.stdout.write(f"{name}, {len(outcomes)} times: {dict(Counter(outcomes))}\n")
        sys.stdout.flush()
    return int(lost)


if __name__ == "__main__":
    sys.exit(main())
