"""Line 6 from a sample and at its minimum: test error and processor time of both searches on protein, in turns.

Plain sampling, 17 Gaussians, no intercept, one thread; inputs and targets as the paper prepares them: y / 10, mean
squared error.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import process_time

import numpy as np
from interleaved import options
from sklearn.model_selection import train_test_split
from tables import FOLDER, standardised

from rflaf import RBFBasis, RFLAFRegressor, SharedActivation
from rflaf.study.datasets import load

SEARCHES = ("sample", "exact")
LIMITS = {100: 0.229, 300: 0.2095, 1000: 0.190}  # of the error of "exact"
LIMIT_OF_TIME = 2.0  # of that of "sample"
SETTINGS = {"directions": "random", "scale": False, "bandwidth": 1.0, "fit_intercept": False, "n_jobs": 1}


def split(n_rows: int | None) -> list[np.ndarray]:
    """X_train, X_test, y_train, y_test: the paper's rows, or made-up ones of their shape."""
    if n_rows is None and (FOLDER / "protein").is_dir():
        data = load("protein", "paper")
        return [data.X_train, data.X_test, data.y_train, data.y_test]
    return list(train_test_split(*standardised("protein", n_rows), test_size=0.2, random_state=0))


def main(argv: Sequence[str] | None = None) -> None:
    given = options(__doc__, argv, rows=None, seeds=list(range(8)), widths=[100, 300, 1000])
    X_train, X_test, y_train, y_test = split(given.rows)
    for width in given.widths:
        errors: dict[str, list[float]] = {search: [] for search in SEARCHES}
        seconds: dict[str, list[float]] = {search: [] for search in SEARCHES}
        for seed in given.seeds:
            for search in SEARCHES:
                shared = SharedActivation(search)
                basis = RBFBasis(17, interval=(-2.0, 2.0))
                model = RFLAFRegressor(width, activation=shared, basis=basis, random_state=seed, **SETTINGS)
                start = process_time()
                model.fit(X_train, y_train)
                seconds[search].append(process_time() - start)
                errors[search].append(float(np.mean((model.predict(X_test) - y_test) ** 2)))
        for search in SEARCHES:
            limit = f"limit {LIMITS[width]}" if search == "exact" and width in LIMITS else ""
            mean, median = np.mean(errors[search]), np.median(seconds[search])
            print(f"S={width:<5} {search:<7} error {mean:.4f}   fit {median:7.2f} s   {limit}", flush=True)
        change = np.subtract(errors["exact"], errors["sample"]) / np.mean(errors["sample"])
        ratio = np.median(seconds["exact"]) / np.median(seconds["sample"])
        limit = f"limit {LIMIT_OF_TIME}" if width == max(LIMITS) else ""
        print(
            f"S={width:<5} exact / sample: error {np.mean(change):+.2%}, time {ratio:.2f} times   {limit}", flush=True
        )


if __name__ == "__main__":
    main()
