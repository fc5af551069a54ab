"""Fit on protein (36,584 rows) against StandardScaler + RBFSampler + Ridge of the same width, all defaults."""

from __future__ import annotations

import numpy as np
from interleaved import medians, protein, report
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rflaf import RFLAFRegressor


def main() -> None:
    X, y = protein()
    for dtype in (np.float64, np.float32):
        X_train, _, y_train, _ = train_test_split(X.astype(dtype), y, test_size=0.2, random_state=0)
        for width, limit in ((100, 2.0), (300, None), (1000, 1.5)):
            ours = RFLAFRegressor(width, random_state=0)
            theirs = make_pipeline(StandardScaler(), RBFSampler(n_components=width, random_state=0), Ridge())
            seconds = medians(
                {
                    "ours": lambda ours=ours, X=X_train, y=y_train: ours.fit(X, y),
                    "theirs": lambda theirs=theirs, X=X_train, y=y_train: theirs.fit(X, y),
                }
            )
            bound = f"limit {limit}" if limit and dtype is np.float64 else ""
            what = f"fit, S={width}, {np.dtype(dtype)}: rflaf / RBFSampler + Ridge"
            report(what, seconds["ours"], seconds["theirs"], bound)


if __name__ == "__main__":
    main()
