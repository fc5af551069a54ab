"""A row at a time from Python at d=10: the model object, its scikit-learn wrapper, onnxruntime and LightGBM."""

from __future__ import annotations

import timeit
from collections.abc import Callable, Sequence
from functools import partial

import lightgbm
import numpy as np
import onnxruntime
from interleaved import medians, options
from threadpoolctl import threadpool_limits

from rflaf import RFLAFRegressor, to_onnx

TURN = 3e-4  # seconds, shorter than a slice of a busy machine
LIMIT = 15  # microseconds


def calls_a_turn(call: Callable[[], object]) -> int:
    """As many as fit into a turn, seen from the quickest of some."""
    quickest = min(timeit.repeat(call, number=1, repeat=50))
    return max(1, int(TURN / quickest))


def onnx_call(estimator: RFLAFRegressor, row: np.ndarray) -> Callable[[], object]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        to_onnx(estimator).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda: session.run(None, {"X": row})


def main(argv: Sequence[str] | None = None) -> None:
    given = options(__doc__, argv, rows=4000, rounds=301, width=100)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((given.rows, 10))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2]
    row, single = X[:1].copy(), X[:1].astype(np.float32)
    contestants = {}
    for what, curves in (("straight", False), ("with curves", True)):
        ours = RFLAFRegressor(given.width, curves=curves, random_state=0).fit(X, y)
        contestants |= {
            f"model.decision, {what}, float64": lambda model=ours.model_: model.decision(row),
            f"model.decision, {what}, float32": lambda model=ours.model_: model.decision(single),
            f"onnxruntime, {what}, float32": onnx_call(ours, single),
            f"estimator.predict, {what}": lambda ours=ours: ours.predict(row),
        }
    trees = lightgbm.LGBMRegressor(n_estimators=100, verbose=-1, n_jobs=1).fit(X, y).booster_
    contestants["LightGBM, 100 trees, Booster.predict"] = lambda: trees.predict(row, num_threads=1)
    with threadpool_limits(1):
        calls = {name: calls_a_turn(call) for name, call in contestants.items()}
        turns = {name: partial(timeit.timeit, call, number=calls[name]) for name, call in contestants.items()}
        seconds = medians(turns, given.rounds)
    for name, value in seconds.items():
        limit = f"   limit {LIMIT}" if name.startswith("model") else ""
        print(f"{name:<44} {value / calls[name] * 1e6:8.1f} microseconds a row{limit}")


if __name__ == "__main__":
    main()
