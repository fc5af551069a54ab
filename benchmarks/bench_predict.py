"""Batch prediction on one thread: against the scikit-learn pipeline, and against the bare product X @ W."""

from __future__ import annotations

from functools import partial

import numpy as np
from interleaved import medians, protein, report
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from rflaf import RFLAFRegressor

ROWS = 10_000


def against_pipeline(dtype: type, limit: str) -> None:
    X, y = protein()
    X = X.astype(dtype)
    batch = np.ascontiguousarray(X[:ROWS])
    for basis in ("bspline", "rbf"):
        ours = RFLAFRegressor(300, basis=basis, n_jobs=1, random_state=0).fit(X, y)
        theirs = make_pipeline(StandardScaler(), RBFSampler(n_components=300, random_state=0), Ridge()).fit(X, y)
        seconds = medians({"ours": partial(ours.predict, batch), "theirs": partial(theirs.predict, batch)})
        what = f"predict {ROWS} rows, S=300, d=9, {basis}, {batch.dtype}: rflaf / pipeline"
        report(
            what, seconds["ours"], seconds["theirs"], f"{seconds['theirs'] / seconds['ours']:.1f} times faster {limit}"
        )


def against_product(dtype: type, n_features: int, width: int, limit: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, n_features)).astype(dtype)
    ours = RFLAFRegressor(width, n_jobs=1, random_state=0).fit(X, X[:, 0] ** 2)
    W = np.ascontiguousarray(ours.directions_, dtype)
    out = np.empty((ROWS, width), dtype)
    seconds = medians({"ours": lambda: ours.predict(X), "bare": lambda: np.matmul(X, W, out=out)})
    what = f"predict {ROWS} rows, S={width}, d={n_features}, {X.dtype}: rflaf / X @ W"
    report(what, seconds["ours"], seconds["bare"], limit)


def main() -> None:
    with threadpool_limits(1):
        against_pipeline(np.float64, "(at least 12)")
        against_pipeline(np.float32, "")
        for dtype in (np.float64, np.float32):
            against_product(dtype, 100, 300, "limit 1.6")
            against_product(dtype, 100, 1000, "")
            against_product(dtype, 9, 100, "")


if __name__ == "__main__":
    main()
