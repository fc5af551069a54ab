"""Fit on protein (36,584 rows) against StandardScaler + RBFSampler + Ridge of the same width, all defaults."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from interleaved import medians, options, report
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tables import standardised

from rflaf import RFLAFRegressor

LIMITS = {100: 2.0, 1000: 1.5}


def main(argv: Sequence[str] | None = None) -> None:
    given = options(__doc__, argv, rows=None, rounds=5, widths=[100, 300, 1000])
    X, y = standardised("protein", given.rows)
    for dtype in (np.float64, np.float32):
        X_train, _, y_train, _ = train_test_split(X.astype(dtype), y, test_size=0.2, random_state=0)
        for width in given.widths:
            ours = RFLAFRegressor(width, random_state=0)
            theirs = make_pipeline(StandardScaler(), RBFSampler(n_components=width, random_state=0), Ridge())
            runs = {"ours": partial(ours.fit, X_train, y_train), "theirs": partial(theirs.fit, X_train, y_train)}
            seconds = medians(runs, given.rounds)
            bound = f"limit {LIMITS[width]}" if width in LIMITS and dtype is np.float64 else ""
            what = f"fit, S={width}, {np.dtype(dtype)}: rflaf / RBFSampler + Ridge"
            report(what, seconds["ours"], seconds["theirs"], bound)


if __name__ == "__main__":
    main()
