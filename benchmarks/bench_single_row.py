"""A row at a time from Python, S=100, d=10: the model object, its scikit-learn wrapper, onnxruntime and LightGBM."""

from __future__ import annotations

from collections.abc import Callable

import lightgbm
import numpy as np
import onnxruntime
from interleaved import medians
from threadpoolctl import threadpool_limits

from rflaf import RFLAFRegressor, to_onnx

CALLS = 500
LIMIT = 15  # microseconds


def repeated(call: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(CALLS):
            call()

    return run


def onnx_call(estimator: RFLAFRegressor, row: np.ndarray) -> Callable[[], object]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        to_onnx(estimator).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda: session.run(None, {"X": row})


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 10))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2]
    row, single = X[:1].copy(), X[:1].astype(np.float32)
    contestants = {}
    for what, curves in (("straight", False), ("with curves", True)):
        ours = RFLAFRegressor(100, curves=curves, random_state=0).fit(X, y)
        contestants |= {
            f"model.decision, {what}, float64": lambda model=ours.model_: model.decision(row),
            f"model.decision, {what}, float32": lambda model=ours.model_: model.decision(single),
            f"onnxruntime, {what}, float32": onnx_call(ours, single),
            f"estimator.predict, {what}": lambda ours=ours: ours.predict(row),
        }
    trees = lightgbm.LGBMRegressor(n_estimators=100, verbose=-1, n_jobs=1).fit(X, y).booster_
    contestants["LightGBM, 100 trees, Booster.predict"] = lambda: trees.predict(row, num_threads=1)
    with threadpool_limits(1):
        seconds = medians({name: repeated(call) for name, call in contestants.items()}, rounds=15)
    for name, value in seconds.items():
        limit = f"   limit {LIMIT}" if name.startswith("model") else ""
        print(f"{name:<44} {value / CALLS * 1e6:8.1f} microseconds a row{limit}")


if __name__ == "__main__":
    main()
