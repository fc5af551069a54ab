"""Fit, predict, save and load in one process for a while: ``python benchmarks/soak.py --minutes 120``.

Prints resident memory and open descriptors as it goes. Exit code 1 if memory at the end is more than 5 % above that
after the first tenth of the time, or a descriptor is left open.
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

import rflaf


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def one_round(number: int, folder: Path) -> None:
    rng = np.random.default_rng(number)
    X = rng.standard_normal((400 + number % 5 * 100, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    models = [
        rflaf.RFLAFRegressor(5, random_state=number),
        rflaf.RFLAFRegressor.convex(5, random_state=number),
        rflaf.RFLAFClassifier(5, directions="random", random_state=number),
    ]
    model = models[number % 3]
    model.fit(X, y > 0 if number % 3 == 2 else y)
    rflaf.save(model, folder / "m.rflaf")
    assert np.array_equal(rflaf.load(folder / "m.rflaf").predict(X), model.predict(X))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=120.0)
    minutes = parser.parse_args().minutes
    began, number, first = time.monotonic(), 0, None
    with tempfile.TemporaryDirectory() as name:
        while (passed := (time.monotonic() - began) / 60) < minutes or number < 30:
            one_round(number, Path(name))
            number += 1
            if first is None and passed >= minutes / 10 and number >= 15:
                gc.collect()
                first = resident(), descriptors()
            if number % 100 == 0:
                print(f"{passed:6.1f} min {number:6d} rounds {resident() / 2**20:7.1f} MiB {descriptors()} open")
        gc.collect()
    last = resident(), descriptors()
    assert first is not None
    growth = last[0] / first[0] - 1
    print(f"{number} rounds: memory {growth:+.1%}, descriptors {first[1]} to {last[1]}")
    return int(growth > 0.05 or last[1] > first[1])


if __name__ == "__main__":
    sys.exit(main())
