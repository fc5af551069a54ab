"""The compact models in time: fits against LightGBM, predictions against XGBoost, the shared model and X @ W."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from compact import kin8nm
from interleaved import medians, protein, report
from lightgbm import LGBMRegressor
from threadpoolctl import threadpool_limits
from xgboost import XGBRegressor

from rflaf import RFLAFRegressor

ROWS = 10_000


def fits(name: str, X: np.ndarray, y: np.ndarray) -> None:
    X = X.astype(np.float32)
    trees = LGBMRegressor(n_estimators=1000, n_jobs=2, verbose=-1)
    refined = RFLAFRegressor(random_state=0, n_jobs=2)
    convex = RFLAFRegressor.convex(random_state=0, n_jobs=2)
    run = {"trees": trees, "refined": refined, "convex": convex}
    seconds = medians({who: partial(model.fit, X, y) for who, model in run.items()}, rounds=3)
    report(
        f"fit {name}, S=100, refined: rflaf / LightGBM, 1000 trees", seconds["refined"], seconds["trees"], "limit 1.5"
    )
    report(f"fit {name}, S=100, convex: rflaf / LightGBM, 1000 trees", seconds["convex"], seconds["trees"], "limit 1")


def predictions(X: np.ndarray, y: np.ndarray) -> None:
    X = X.astype(np.float32)
    batch = np.ascontiguousarray(X[:ROWS])
    trees = XGBRegressor(n_estimators=30, max_depth=8, n_jobs=1).fit(X, y)
    models = {
        "curves": RFLAFRegressor(curves=True, random_state=0, n_jobs=1),
        "no curves": RFLAFRegressor(curves=False, random_state=0, n_jobs=1),
        "per component": RFLAFRegressor(directions="random", random_state=0, n_jobs=1),
        "shared": RFLAFRegressor(directions="random", activation="shared", random_state=0, n_jobs=1),
    }
    runs = {name: partial(model.fit(X, y).predict, batch) for name, model in models.items()}
    seconds = medians({"trees": partial(trees.predict, batch), **runs}, rounds=15)
    for name, limit in (("curves", "limit 0.7"), ("no curves", "limit 0.35")):
        report(f"predict {ROWS} rows, S=100, d=9, {name}: rflaf / XGBoost", seconds[name], seconds["trees"], limit)
    report(
        f"predict {ROWS} rows, S=100: per component / shared", seconds["per component"], seconds["shared"], "limit 1.3"
    )


def against_product() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, 100)).astype(np.float32)
    model = RFLAFRegressor(1000, directions="random", activation="shared", n_jobs=1, random_state=0)
    model.fit(X, X[:, 0] ** 2)
    W, out = np.ascontiguousarray(model.directions_, np.float32), np.empty((ROWS, 1000), np.float32)
    seconds = medians({"ours": partial(model.predict, X), "bare": lambda: np.matmul(X, W, out=out)}, rounds=9)
    report(f"predict {ROWS} rows, S=1000, d=100: rflaf / X @ W", seconds["ours"], seconds["bare"], "limit 1.3")


def _repeat(run: Callable[[], object], times: int) -> None:
    for _ in range(times):
        run()


def one_row() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 10)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    for curves in (True, False):
        model = RFLAFRegressor(curves=curves, random_state=0, n_jobs=1).fit(X, y).model_
        repeats = 2000
        seconds = medians({"one": partial(_repeat, partial(model.decision, X[:1]), repeats)})["one"] / repeats
        print(f"one row through model_, S=100, d=10, curves={curves}: {1e6 * seconds:.2f} microseconds   limit 5")


def main() -> None:
    X, y = protein()
    with threadpool_limits(1):
        predictions(X, y)
        against_product()
        one_row()
    fits("protein", X, y)
    fits("kin8nm", *kin8nm())


if __name__ == "__main__":
    main()
