"""Test error of the default on tables of a few hundred rows, eight splits, beside the usual models with their defaults.

python benchmarks/few_rows.py [table ...] [--seeds 0 1 2]. Tables come with scikit-learn, or are some rows of the real
data sets; errors are shares of the variance of the target.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from lightgbm import LGBMRegressor
from sklearn import datasets
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from tables import Rows, load

from rflaf import RFLAFRegressor


def first_rows(name: str, n_rows: int) -> Rows:
    X, y = load(name)
    some = np.random.default_rng(5).permutation(len(y))[:n_rows]
    return X[some], y[some]


def column_of(table: np.ndarray, column: int) -> Rows:
    return np.delete(table, column, axis=1), table[:, column]


def faint_line(n_rows: int) -> Rows:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, 8))
    return X, 0.3 * X[:, 0] + rng.standard_normal(n_rows)


TABLES: dict[str, Callable[[], Rows]] = {
    "diabetes": lambda: datasets.load_diabetes(return_X_y=True),
    "wine, alcohol": lambda: column_of(datasets.load_wine().data, 0),
    "iris, petal width": lambda: column_of(datasets.load_iris().data, 3),
    "friedman1, 200": lambda: datasets.make_friedman1(200, noise=1.0, random_state=1),
    "a noisy line, 100": lambda: datasets.make_regression(100, 10, n_informative=5, noise=30.0, random_state=1),
    "a faint line, 500": lambda: faint_line(500),
    "kin8nm, 300": lambda: first_rows("kin8nm", 300),
    "powerplant, 300": lambda: first_rows("powerplant", 300),
    "protein, 300": lambda: first_rows("protein", 300),
    "protein, 1000": lambda: first_rows("protein", 1000),
    "workloads-radius, 300": lambda: first_rows("workloads-radius", 300),
}


def contestants(seed: int) -> dict[str, Any]:
    return {
        "rflaf": RFLAFRegressor(random_state=seed),
        "ridge": make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 15))),
        "LightGBM": LGBMRegressor(verbose=-1),
        "SVR": make_pipeline(StandardScaler(), SVR()),
        "forest": RandomForestRegressor(random_state=seed),
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"tables, of {', '.join(TABLES)}; all unless named")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(8)), help="seeds of the splits and models")
    given = parser.parse_args(argv)
    for name in given.names or TABLES:
        X, y = TABLES[name]()
        y = (y - y.mean()) / y.std()
        errors: dict[str, list[float]] = {}
        seconds = []
        for seed in given.seeds:
            X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
            for who, model in contestants(seed).items():
                started = perf_counter()
                model.fit(X_train, y_train)
                if who == "rflaf":
                    seconds.append(perf_counter() - started)
                errors.setdefault(who, []).append(float(np.mean((model.predict(X_test) - y_test) ** 2)))
        found = "   ".join(f"{who} {np.mean(error):.4f}" for who, error in errors.items())
        print(f"{name:22} {found}   ({np.median(seconds):.1f} s)", flush=True)


if __name__ == "__main__":
    main()
