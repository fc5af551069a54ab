"""Test error of the compact models by width on the real data sets, three seeds, and of what they are measured against.

python benchmarks/compact.py [data set ...]     all of them unless named; widths 30, 100 and 300
"""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from sklearn.model_selection import train_test_split

from rflaf import RFLAFRegressor

FOLDER = Path(os.environ.get("RFLAF_DATA_DIR", ""))
SEEDS = (0, 1, 2)


def protein() -> tuple[np.ndarray, np.ndarray]:
    table = np.loadtxt(FOLDER / "protein" / "CASP.csv", delimiter=",", skiprows=1)
    return table[:, 1:], table[:, 0]


def kin8nm() -> tuple[np.ndarray, np.ndarray]:
    table = np.load(FOLDER / "kin8nm" / "kin8nm.npz")
    return table["X"], table["y"]


def powerplant() -> tuple[np.ndarray, np.ndarray]:
    table = np.load(FOLDER / "powerplant" / "power-plant.npz")
    return table["X"], table["y"]


def workloads_radius() -> tuple[np.ndarray, np.ndarray]:
    with gzip.open(FOLDER / "workloads" / "workloads_radius_count.csv.gz") as stream:
        table = np.genfromtxt(stream, delimiter=",", skip_header=1)
    return table[:, :-1], table[:, -1]


DATA = {"protein": protein, "kin8nm": kin8nm, "powerplant": powerplant, "workloads-radius": workloads_radius}


def contestants(seed: int) -> dict[str, object]:
    from lightgbm import LGBMRegressor

    convex = {"sampling": "greedy", "activation": "per_component"}
    models: dict[str, object] = {
        f"convex (greedy, per component), S={width}": RFLAFRegressor(width, random_state=seed, **convex)
        for width in (30, 100, 300)
    }
    return models | {
        "per component, plain, S=100": RFLAFRegressor(100, activation="per_component", random_state=seed),
        "shared, greedy, S=100": RFLAFRegressor(100, sampling="greedy", random_state=seed),
        "shared, plain, S=100": RFLAFRegressor(100, random_state=seed),
        "shared, plain, S=1000": RFLAFRegressor(1000, random_state=seed),
        "LightGBM, 100 trees": LGBMRegressor(n_jobs=2, random_state=seed, verbose=-1),
        "LightGBM, 1000 trees": LGBMRegressor(n_estimators=1000, n_jobs=2, random_state=seed, verbose=-1),
    }


def main(names: list[str]) -> None:
    if not FOLDER.is_dir() or not os.environ.get("RFLAF_DATA_DIR"):
        sys.exit("skipped: set RFLAF_DATA_DIR to the folder that holds protein/CASP.csv and the other data sets")
    for name in names or DATA:
        X, y = DATA[name]()
        X, y = np.asarray(X, np.float32), (y - y.mean()) / y.std()
        errors: dict[str, list[float]] = {}
        seconds: dict[str, list[float]] = {}
        for seed in SEEDS:
            X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
            for model_name, model in contestants(seed).items():
                start = perf_counter()
                model.fit(X_train, y_train)
                seconds.setdefault(model_name, []).append(perf_counter() - start)
                errors.setdefault(model_name, []).append(float(np.mean((model.predict(X_test) - y_test) ** 2)))
        for model_name, values in errors.items():
            print(
                f"{name:<17} {model_name:<40} {np.mean(values):.4f}   {np.median(seconds[model_name]):6.2f} s",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
