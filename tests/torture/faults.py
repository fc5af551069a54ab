"""Kill, starve and damage: ``python tests/torture/faults.py --times 20``, or ``make faults``.

SIGKILL at random moments of a fit with a checkpoint, of save and of predict; a full disk; a folder that is read-only; a
limit on memory; and damaged checkpoints and model files. After every fault the old file is whole or the new one is, a
fit goes on to the same model, and what is damaged is refused by name. Exit code 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import rflaf
from rflaf.errors import InvalidParameterError
from rflaf.rows import checkpoint

PRELUDE = """
import sys, numpy as np, rflaf
from rflaf.rows import checkpoint
checkpoint._LEAST_SECONDS, checkpoint._BYTES_PER_SECOND = 0.0, float("inf")
folder = sys.argv[1]
rng = np.random.default_rng(0)
X = rng.standard_normal((9000, 5))
y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
make = lambda **o: rflaf.RFLAFRegressor(20, directions="random", activation="shared", random_state=0, n_jobs=1, **o)
print("ready", flush=True)
"""
FIT = PRELUDE + "np.save(folder + '/p.npy', make(checkpoint=folder + '/c').fit(X, y).predict(X))"
SAVE = PRELUDE + "model = rflaf.load(folder + '/m.rflaf')\nwhile True: rflaf.save(model, folder + '/m.rflaf')"
PREDICT = PRELUDE + (
    "from rflaf.cli.app import run\nwhile True: run(['predict', folder + '/m.rflaf', folder + '/t.csv', '--out', "
    "folder + '/out.csv'])"
)
LIMITED = PRELUDE + (
    "import resource\nsize = int(open('/proc/self/statm').read().split()[0]) * 4096 + int(sys.argv[2])\n"
    "resource.setrlimit(resource.RLIMIT_AS, (size, size))\n"
    "try:\n    p = make().fit(X, y).predict(X)\n    assert np.isfinite(p).all()\n"
    "except (MemoryError, ValueError, RuntimeError, ImportError) as error:\n    print(type(error).__name__)\n"
)


def start(script: str, folder: Path, *others: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(folder), *others], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()[1]
    return process


def killed(script: str, folder: Path, seconds: float) -> bool:
    """Run a script and kill it; return whether it was still running."""
    process = start(script, folder)
    time.sleep(seconds)
    alive = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return alive


def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9000, 5))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2


def make(**others: object) -> rflaf.RFLAFRegressor:
    return rflaf.RFLAFRegressor(20, directions="random", activation="shared", random_state=0, n_jobs=1, **others)


def fits(times: int, chance: random.Random) -> Counter[str]:
    """Kill fits; each must go on to the model of an unbroken fit."""
    X, y = rows()
    expected, found = make().fit(X, y).predict(X), Counter()
    usual = _seconds_of_a_fit()
    for _ in range(times):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            was_running = killed(FIT, folder, chance.uniform(0, 1.2 * usual))
            kept = (folder / "c").exists()
            process = start(FIT, folder)
            errors = process.communicate()[1]
            same = process.returncode == 0 and np.array_equal(np.load(folder / "p.npy"), expected)
            left = [path.name for path in folder.iterdir() if path.name != "p.npy"]
            found["same" if same and not left else f"LOST {errors[-200:]} {left}"] += 1
            found["killed while running"] += was_running
            found["with records"] += kept
    return found


def _seconds_of_a_fit() -> float:
    """Return how long a new process takes for it, beginning with its first loop."""
    with tempfile.TemporaryDirectory() as name:
        process, began = start(FIT, Path(name)), time.monotonic()
        process.communicate()
        return time.monotonic() - began


def writes(times: int, chance: random.Random, script: str, output: str) -> Counter[str]:
    """Kill writers; the output is whole whenever it is there, and the next writer sweeps what is left."""
    X, y = rows()
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = np.column_stack([X[:500], y[:500]])
        np.savetxt(folder / "t.csv", table, delimiter=",", header="a,b,c,d,e,y", comments="")
        model = rflaf.RFLAFRegressor(20, directions="random", random_state=0).fit(str(folder / "t.csv"), "y")
        rflaf.save(model, folder / "m.rflaf")
        expected = rflaf.load(folder / "m.rflaf").model_.decision(X[:500])
        for _ in range(times):
            killed(script, folder, chance.uniform(0, 1.0))
            whole = np.array_equal(rflaf.load(folder / "m.rflaf").model_.decision(X[:500]), expected)
            if output == "out.csv" and (folder / output).exists():
                whole = whole and len((folder / output).read_text().splitlines()) == 501
            found["whole" if whole else "LOST"] += 1
            found["left by a kill"] += len(list(folder.glob(".*.rflaf-part")))
            rflaf.save(model, folder / "m.rflaf")
        found["left after a save"] += len(list(folder.glob(".m.rflaf.*")))
    return found


def limits(times: int) -> Counter[str]:
    """Fit under ever less memory: a model, or an error of Python; never a crash."""
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        for number in range(times):
            process = start(LIMITED, Path(name), str(2 ** (16 + 14 * number // max(times - 1, 1))))
            printed = process.communicate()[0].strip() or "fitted"
            found[printed if process.returncode == 0 else f"LOST exit {process.returncode}"] += 1
    return found


def disks() -> Counter[str]:
    """A full disk and a read-only folder: an error that names the reason, and the old file as it was."""
    X, y = rows()
    model = make().fit(X, y)
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", name], capture_output=True)
        if mounted.returncode:
            found["a full disk: not tried, mounting is not allowed"] += 1
        else:
            try:
                (folder / "m.rflaf").write_bytes(b"old")
                (folder / "filler").write_bytes(b"x" * 50_000)
                try:
                    rflaf.save(model, folder / "m.rflaf")
                    found["LOST a save to a full disk went through"] += 1
                except OSError as error:
                    old = (folder / "m.rflaf").read_bytes() == b"old"
                    left = sorted(path.name for path in folder.iterdir()) == ["filler", "m.rflaf"]
                    found[f"a full disk: {error.strerror}" if old and left else "LOST the old file"] += 1
            finally:
                subprocess.run(["umount", name], check=True)
        folder.chmod(0o500)
        try:
            rflaf.save(model, folder / "m.rflaf")
            found["read-only: written, as the superuser may"] += 1
        except (InvalidParameterError, OSError) as error:
            found[f"read-only: {error}"[:60]] += 1
        folder.chmod(0o700)
    return found


def damages(times: int, chance: random.Random) -> Counter[str]:
    """Flip bytes of checkpoints: refused, or, cut short, carried on to the same model; never another model."""
    X, y = rows()
    expected, found = make().fit(X, y).predict(X), Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        usual = _seconds_of_a_fit()
        while not (folder / "c").exists() or (folder / "c").stat().st_size < 20_000:
            killed(FIT, folder, chance.uniform(0, 1.2 * usual))
            (folder / "p.npy").unlink(missing_ok=True)
        whole = (folder / "c").read_bytes()
        checkpoint._LEAST_SECONDS = 0.0
        for number in range(times):
            damaged = bytearray(whole)
            if number % 4 == 0:
                damaged = damaged[: chance.randrange(len(damaged))]
            else:
                for _ in range(number % 3 + 1):
                    damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            (folder / "c").write_bytes(bytes(damaged))
            try:
                predicted = make(checkpoint=folder / "c").fit(X, y).predict(X)
                found["same" if np.array_equal(predicted, expected) else "LOST another model"] += 1
            except InvalidParameterError as error:
                found["refused by name" if str(folder / "c") in str(error) else f"LOST {error}"] += 1
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chance, lost = random.Random(given.seed), False
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    for name, run in {
        "fit killed": lambda: fits(given.times, chance),
        "save killed": lambda: writes(given.times, chance, SAVE, "m.rflaf"),
        "predict killed": lambda: writes(given.times, chance, PREDICT, "out.csv"),
        "checkpoint damaged": lambda: damages(given.times, chance),
        "disk": disks,
        "memory limited": lambda: limits(min(given.times, 15)),
    }.items():
        found = run()
        lost = lost or any(outcome.startswith("LOST") for outcome in found)
        sys.stdout.write(f"{name}: {dict(found)}\n")
        sys.stdout.flush()
    return int(lost)


if __name__ == "__main__":
    sys.exit(main())
