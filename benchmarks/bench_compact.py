"""The compact models in time: fits against LightGBM, predictions against XGBoost, the shared model and X @ W."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from interleaved import medians, options, report
from lightgbm import LGBMRegressor
from tables import load, standardised
from threadpoolctl import threadpool_limits
from xgboost import XGBRegressor

from rflaf import RFLAFRegressor


def fits(name: str, X: np.ndarray, y: np.ndarray, width: int, n_trees: int) -> None:
    X = X.astype(np.float32)
    trees = LGBMRegressor(n_estimators=n_trees, n_jobs=2, verbose=-1)
    refined = RFLAFRegressor(width, random_state=0, n_jobs=2)
    convex = RFLAFRegressor.convex(width, random_state=0, n_jobs=2)
    run = {"trees": trees, "refined": refined, "convex": convex}
    seconds = medians({who: partial(model.fit, X, y) for who, model in run.items()}, rounds=3)
    for who, limit in (("refined", "limit 1.5"), ("convex", "limit 1")):
        what = f"fit {name}, S={width}, {who}: rflaf / LightGBM, {n_trees} trees"
        report(what, seconds[who], seconds["trees"], limit)


def predictions(X: np.ndarray, y: np.ndarray, width: int, n_batch: int) -> None:
    X = X.astype(np.float32)
    batch = np.ascontiguousarray(X[:n_batch])
    trees = XGBRegressor(n_estimators=30, max_depth=8, n_jobs=1).fit(X, y)
    models = {
        "curves": RFLAFRegressor(width, curves=True, random_state=0, n_jobs=1),
        "no curves": RFLAFRegressor(width, curves=False, random_state=0, n_jobs=1),
        "per component": RFLAFRegressor(width, directions="random", random_state=0, n_jobs=1),
        "shared": RFLAFRegressor(width, directions="random", activation="shared", random_state=0, n_jobs=1),
    }
    runs = {name: partial(model.fit(X, y).predict, batch) for name, model in models.items()}
    seconds = medians({"trees": partial(trees.predict, batch), **runs}, rounds=15)
    for name, limit in (("curves", "limit 0.7"), ("no curves", "limit 0.35")):
        what = f"predict {len(batch)} rows, S={width}, d=9, {name}: rflaf / XGBoost"
        report(what, seconds[name], seconds["trees"], limit)
    what = f"predict {len(batch)} rows, S={width}: per component / shared"
    report(what, seconds["per component"], seconds["shared"], "limit 1.3")


def against_product(width: int, n_batch: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_batch, 100)).astype(np.float32)
    model = RFLAFRegressor(width, directions="random", activation="shared", n_jobs=1, random_state=0)
    model.fit(X, X[:, 0] ** 2)
    W, out = np.ascontiguousarray(model.directions_, np.float32), np.empty((n_batch, width), np.float32)
    seconds = medians({"ours": partial(model.predict, X), "bare": lambda: np.matmul(X, W, out=out)}, rounds=9)
    report(f"predict {n_batch} rows, S={width}, d=100: rflaf / X @ W", seconds["ours"], seconds["bare"], "limit 1.3")


def _repeat(run: Callable[[], object], times: int) -> None:
    for _ in range(times):
        run()


def one_row(width: int, n_rows: int, repeats: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, 10)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    for curves in (True, False):
        model = RFLAFRegressor(width, curves=curves, random_state=0, n_jobs=1).fit(X, y).model_
        seconds = medians({"one": partial(_repeat, partial(model.decision, X[:1]), repeats)})["one"] / repeats
        print(f"one row through model_, S={width}, d=10, curves={curves}: {1e6 * seconds:.2f} microseconds   limit 5")


def main(argv: Sequence[str] | None = None) -> None:
    defaults = {"rows": None, "batch": 10_000, "few": 2000, "width": 100, "wide": 1000, "trees": 1000}
    given = options(__doc__, argv, **defaults)
    X, y = standardised("protein", given.rows)
    with threadpool_limits(1):
        predictions(X, y, given.width, given.batch)
        against_product(given.wide, given.batch)
        one_row(given.width, given.few, repeats=given.few)
    fits("protein", X, y, given.width, given.trees)
    fits("kin8nm", *load("kin8nm", given.rows), given.width, given.trees)


if __name__ == "__main__":
    main()
