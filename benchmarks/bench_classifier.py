"""The classifier in time on adult: fit and prediction against RBFSampler + LogisticRegression of the same width."""

from __future__ import annotations

import os
import sys
from functools import partial

import numpy as np
from classification import FOLDER, SHARED, adult
from interleaved import medians, report
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from rflaf import RFLAFClassifier

WIDTH = 300


def main() -> None:
    if not os.environ.get("RFLAF_DATA_DIR") or not (FOLDER / "adult").is_dir():
        sys.exit("skipped: set RFLAF_DATA_DIR to the folder that holds adult/adult.data")
    X, y = adult()
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
    theirs = make_pipeline(
        StandardScaler(),
        RBFSampler(n_components=WIDTH, gamma="scale", random_state=0),
        LogisticRegression(max_iter=1000),
    )
    models = {f"S={width}": RFLAFClassifier(width, random_state=0, **SHARED) for width in (50, WIDTH)}
    models |= {"default, S=30": RFLAFClassifier(30, random_state=0), "theirs": theirs}
    seconds = medians({name: partial(model.fit, X, y) for name, model in models.items()}, rounds=5)
    for name, model in models.items():
        entropy = log_loss(y_test, model.predict_proba(X_test))
        what = f"fit adult, {name} (cross-entropy {entropy:.4f}): / RBFSampler({WIDTH}) + logistic"
        report(what, seconds[name], seconds["theirs"], "limit 1 at equal cross-entropy")
    batch = np.ascontiguousarray(X_test)
    with threadpool_limits(1):
        single = RFLAFClassifier(WIDTH, random_state=0, n_jobs=1, **SHARED).fit(X, y)
        runs = {"ours": partial(single.predict_proba, batch), "theirs": partial(theirs.predict_proba, batch)}
        seconds = medians(runs, rounds=15)
    what = f"predict {len(batch)} rows, S={WIDTH}, one thread: theirs / rflaf"
    report(what, seconds["theirs"], seconds["ours"], "at least 5")
    runs["ours"] = partial(models[f"S={WIDTH}"].predict_proba, batch)
    seconds = medians(runs, rounds=15)
    what = f"predict {len(batch)} rows, S={WIDTH}, as they come: theirs / rflaf"
    report(what, seconds["theirs"], seconds["ours"], "at least 5")


if __name__ == "__main__":
    main()
