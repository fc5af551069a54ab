"""Writing to a disk that is full or read-only: models, predictions and checkpoints, on a file system of 64 kB."""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

import numpy as np

import rflaf
from rflaf.cli.app import run as command
from rflaf.errors import InvalidParameterError

HOW = ("full", "read-only")


def _made(checkpoint: Path | None = None) -> rflaf.RFLAFRegressor:
    shared = {"directions": "random", "activation": "shared"}
    return rflaf.RFLAFRegressor(12, random_state=0, n_jobs=1, checkpoint=checkpoint, **shared)


@contextmanager
def disks() -> Iterator[Callable[[random.Random], str]]:
    """Save and predict there: an error and the old file as it was. Fit with a checkpoint: the model, or an error."""
    X = np.random.default_rng(0).standard_normal((3000, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
    model = _made().fit(X, y)
    expected = model.predict(X)
    with tempfile.TemporaryDirectory() as name:
        elsewhere = Path(name)
        rflaf.save(model, elsewhere / "m.rflaf")
        np.savez(elsewhere / "t.npz", **{f"x{j}": X[:, j] for j in range(5)})

        def save(target: Path) -> None:
            rflaf.save(model, target)

        def predict(target: Path) -> None:
            given = ["predict", str(elsewhere / "m.rflaf"), str(elsewhere / "t.npz"), "--out", str(target)]
            with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
                code = command(given)
            if code:
                raise OSError(f"exit code {code}")

        def fit(target: Path) -> None:
            if not np.array_equal(_made(target.with_name("checkpoint")).fit(X, y).predict(X), expected):
                raise AssertionError("another model")

        def fault(chance: random.Random) -> str:
            work, how = chance.choice([save, predict, fit]), chance.choice(HOW)
            with tempfile.TemporaryDirectory() as place:
                mounted = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", place]
                if subprocess.run(mounted, capture_output=True, check=False).returncode:
                    return "not tried, mounting is not allowed"
                try:
                    return f"{work.__name__}, {how}: {_tried(work, Path(place), how, chance)}"
                finally:
                    subprocess.run(["umount", place], check=True)

        yield lambda chance: _lost_first(fault(chance))


def _lost_first(outcome: str) -> str:
    return f"LOST {outcome}" if "LOST" in outcome else outcome


def _tried(work: Callable[[Path], None], folder: Path, how: str, chance: random.Random) -> str:
    target = folder / "out.csv"
    target.write_bytes(b"old")
    if how == "full":
        (folder / "filler").write_bytes(b"x" * chance.randrange(45_000, 57_000))
    else:
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    before = sorted(path.name for path in folder.iterdir())
    try:
        work(target)
    except (InvalidParameterError, OSError) as error:
        whole = target.read_bytes() == b"old" and sorted(path.name for path in folder.iterdir()) == before
        return type(error).__name__ if whole else "LOST the old file"
    return "the same model" if work.__name__ == "fit" else "LOST it went through"
