"""The classifier in time on adult: fit and prediction against RBFSampler + LogisticRegression of the same width."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from classification import SHARED
from interleaved import medians, options, report
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tables import load
from threadpoolctl import threadpool_limits

from rflaf import RFLAFClassifier


def main(argv: Sequence[str] | None = None) -> None:
    given = options(__doc__, argv, rows=None, rounds=5, widths=[50, 300], default_width=30)
    widest = max(given.widths)
    X, y = load("adult", given.rows)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
    theirs = make_pipeline(
        StandardScaler(),
        RBFSampler(n_components=widest, gamma="scale", random_state=0),
        LogisticRegression(max_iter=1000),
    )
    models = {f"S={width}": RFLAFClassifier(width, random_state=0, **SHARED) for width in given.widths}
    default = RFLAFClassifier(given.default_width, random_state=0)
    models |= {f"default, S={given.default_width}": default, "theirs": theirs}
    seconds = medians({name: partial(model.fit, X, y) for name, model in models.items()}, given.rounds)
    for name, model in models.items():
        entropy = log_loss(y_test, model.predict_proba(X_test))
        what = f"fit adult, {name} (cross-entropy {entropy:.4f}): / RBFSampler({widest}) + logistic"
        report(what, seconds[name], seconds["theirs"], "limit 1 at equal cross-entropy")
    batch = np.ascontiguousarray(X_test)
    with threadpool_limits(1):
        single = RFLAFClassifier(widest, random_state=0, n_jobs=1, **SHARED).fit(X, y)
        runs = {"ours": partial(single.predict_proba, batch), "theirs": partial(theirs.predict_proba, batch)}
        seconds = medians(runs, 3 * given.rounds)
    what = f"predict {len(batch)} rows, S={widest}, one thread: theirs / rflaf"
    report(what, seconds["theirs"], seconds["ours"], "at least 5")
    runs["ours"] = partial(models[f"S={widest}"].predict_proba, batch)
    seconds = medians(runs, 3 * given.rounds)
    what = f"predict {len(batch)} rows, S={widest}, as they come: theirs / rflaf"
    report(what, seconds["theirs"], seconds["ours"], "at least 5")


if __name__ == "__main__":
    main()
