"""Batch prediction on one thread: against the scikit-learn pipeline, and against the bare product X @ W."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from interleaved import medians, options, report
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tables import standardised
from threadpoolctl import threadpool_limits

from rflaf import RFLAFRegressor


def against_pipeline(X: np.ndarray, y: np.ndarray, dtype: type, width: int, n_batch: int, limit: str) -> None:
    X = X.astype(dtype)
    batch = np.ascontiguousarray(X[:n_batch])
    for basis in ("bspline", "rbf"):
        ours = RFLAFRegressor(width, basis=basis, n_jobs=1, random_state=0).fit(X, y)
        theirs = make_pipeline(StandardScaler(), RBFSampler(n_components=width, random_state=0), Ridge()).fit(X, y)
        seconds = medians({"ours": partial(ours.predict, batch), "theirs": partial(theirs.predict, batch)})
        what = f"predict {len(batch)} rows, S={width}, d=9, {basis}, {batch.dtype}: rflaf / pipeline"
        faster = f"{seconds['theirs'] / seconds['ours']:.1f} times faster {limit}"
        report(what, seconds["ours"], seconds["theirs"], faster)


def against_product(dtype: type, n_features: int, width: int, n_batch: int, limit: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_batch, n_features)).astype(dtype)
    ours = RFLAFRegressor(width, directions="random", n_jobs=1, random_state=0).fit(X, X[:, 0] ** 2)
    W = np.ascontiguousarray(ours.directions_, dtype)
    out = np.empty((n_batch, width), dtype)
    seconds = medians({"ours": lambda: ours.predict(X), "bare": lambda: np.matmul(X, W, out=out)})
    what = f"predict {n_batch} rows, S={width}, d={n_features}, {X.dtype}: rflaf / X @ W"
    report(what, seconds["ours"], seconds["bare"], limit)


def main(argv: Sequence[str] | None = None) -> None:
    given = options(__doc__, argv, rows=None, batch=10_000, widths=[100, 300, 1000])
    X, y = standardised("protein", given.rows)
    narrow, middle, wide = given.widths
    with threadpool_limits(1):
        against_pipeline(X, y, np.float64, middle, given.batch, "(at least 12)")
        against_pipeline(X, y, np.float32, middle, given.batch, "")
        for dtype in (np.float64, np.float32):
            against_product(dtype, 100, middle, given.batch, "limit 1.6")
            against_product(dtype, 100, wide, given.batch, "")
            against_product(dtype, 9, narrow, given.batch, "")


if __name__ == "__main__":
    main()
