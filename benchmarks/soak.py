"""Fit, predict, save and load in one process for a while: ``python benchmarks/soak.py --minutes 120``.

``--share 0.25`` leaves three quarters of a core to others, by sleeping between rounds. Prints resident memory and open
descriptors as it goes. Exit code 1 if memory at the end is more than 5 % above that after the first tenth of the time,
or a descriptor is left open.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import rflaf
from rflaf import RFLAFClassifier, RFLAFRegressor


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def table(X: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["town"] = rng.choice(["Ulm", "Bonn", "Kiel", None], len(X))
    return frame


def squared(number: int) -> RFLAFRegressor:
    return RFLAFRegressor(5, random_state=number, n_jobs=1)


def one_round(number: int, folder: Path) -> None:
    """Fit one of eight kinds of models; its file and its rows in a file give the same predictions."""
    rng = np.random.default_rng(number)
    X = rng.standard_normal((400 + number % 5 * 100, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    frame, path, common = table(X, rng), folder / "t.csv", {"random_state": number, "n_jobs": 1}
    frame.assign(y=y).to_csv(path, index=False)
    fits = [
        lambda: (squared(number).fit(X, y), X),
        lambda: (RFLAFRegressor.convex(5, **common).fit(X, y), X),
        lambda: (RFLAFClassifier(5, directions="random", **common).fit(X, y > 0), X),
        lambda: (squared(number).fit(frame, y), frame),
        lambda: (RFLAFClassifier(5, **common).fit(frame, np.digitize(y, [-1, 1])), frame),
        lambda: (RFLAFRegressor(5, loss="quantile", quantile=[0.1, 0.5, 0.9], **common).fit(X, y), X),
        lambda: (RFLAFRegressor(5, monotone={"b": 1}, **common).fit(frame, y), frame),
        lambda: (squared(number).fit(str(path), "y"), str(path)),
    ]
    model, rows = fits[number % len(fits)]()
    rflaf.save(model, folder / "m.rflaf")
    loaded = rflaf.load(folder / "m.rflaf")
    assert np.array_equal(loaded.predict(rows), model.predict(rows))
    if number % len(fits) in (0, 3):
        assert np.isfinite(loaded.predict_interval(rows)).all()
        assert np.isfinite(loaded.explain(rows).values).all()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--share", type=float, default=1.0, help="of a core that the rounds may take")
    given = parser.parse_args()
    minutes = given.minutes
    began, number, first = time.monotonic(), 0, None
    with tempfile.TemporaryDirectory() as name:
        while (passed := (time.monotonic() - began) / 60) < minutes or number < 17:
            used = time.process_time()
            one_round(number, Path(name))
            number += 1
            time.sleep((time.process_time() - used) * (1 / given.share - 1))
            if first is None and passed >= minutes / 10 and number >= 16:
                gc.collect()
                first = resident(), descriptors()
            if number % 40 == 0:
                taken = f"{resident() / 2**20:7.1f} MiB {descriptors()} open"
                print(f"{passed:6.1f} min {number:6d} rounds {taken}", flush=True)
        gc.collect()
    last = resident(), descriptors()
    assert first is not None
    growth = last[0] / first[0] - 1
    print(f"{number} rounds: memory {growth:+.1%}, descriptors {first[1]} to {last[1]}")
    return int(growth > 0.05 or last[1] > first[1])


if __name__ == "__main__":
    sys.exit(main())
