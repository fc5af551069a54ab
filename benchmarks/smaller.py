"""Smaller models: files and headers of a fit, of `rflaf.simplify`, and of these in single precision and 16 bits.

Three fifths of the rows are fitted, a fifth says which nodes can go, the last fifth what that costs. Tables are
RFLAF_DATA_DIR/tables/{reg,bin,multi}-NAME.parquet, column `target`; by default made-up rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import process_time

import numpy as np
import pandas as pd
from interleaved import medians, options
from tables import FOLDER

import rflaf


def rows_of(name: str, n_rows: int) -> tuple[pd.DataFrame, np.ndarray, bool]:
    """Rows and targets in some order, and whether these are classes."""
    path = FOLDER / "tables" / f"{name}.parquet"
    rng = np.random.default_rng(0)
    if not path.exists():
        frame = pd.DataFrame(rng.standard_normal((n_rows, 4)), columns=list("abcd"))
        return frame, np.abs(frame["a"].to_numpy()) + frame["b"].to_numpy() ** 2, False
    frame = pd.read_parquet(path).sample(frac=1, random_state=0)[:n_rows].reset_index(drop=True)
    return frame.drop(columns="target"), frame["target"].to_numpy(), not name.startswith("reg")


def sizes(model: rflaf.RFLAFRegressor | rflaf.RFLAFClassifier, dtype: str, of_header: str) -> tuple[float, float]:
    """KB of the model file and of the header."""
    with tempfile.TemporaryDirectory() as folder:
        rflaf.save(model, Path(folder) / "model.rflaf", dtype=dtype)
        size = (Path(folder) / "model.rflaf").stat().st_size
    return size / 1024, len(rflaf.to_c(model, dtype=of_header)) / 1024


def shift(model: rflaf.RFLAFRegressor | rflaf.RFLAFClassifier, X: pd.DataFrame) -> float:
    """The largest change of an answer f through a file of single precision, in spreads of f."""
    with tempfile.TemporaryDirectory() as folder:
        rflaf.save(model, Path(folder) / "model.rflaf", dtype="float32")
        again = rflaf.load(Path(folder) / "model.rflaf")
    encoded = model._check_rows(X)
    wanted = model.model_.decision(encoded)
    return float(np.max(np.abs(again.model_.decision(encoded) - wanted) / wanted.std(axis=0)))


def main(argv: Sequence[str] | None = None) -> None:
    given = options(__doc__, argv, tables=["made-up"], rows=12_000, width=100, within=0.01, rounds=21)
    print("table: numbers in curves; KB of file, simplified, in single precision; of header, simplified, of 16 bits")
    for name in given.tables:
        X, y, classes = rows_of(name, given.rows)
        first, second = len(X) * 3 // 5, len(X) * 4 // 5
        kind = rflaf.RFLAFClassifier if classes else rflaf.RFLAFRegressor
        model = kind(given.width, random_state=0).fit(X[:first], y[:first])
        small = rflaf.simplify(model, X[first:second], y[first:second], within=given.within)
        files, headers = zip(
            *(sizes(model, "float64", "float32"), sizes(small, "float64", "float32"), sizes(small, "float32", "int16")),
            strict=True,
        )
        counts = [0 if one.model_.curves is None else one.model_.curves.values.size for one in (model, small)]
        rows = model._check_rows(X)
        turns = {key: partial(one.model_.decision, rows) for key, one in (("whole", model), ("small", small))}
        times = medians(turns, given.rounds, process_time)
        print(
            f"{name}: {counts[0]:,} to {counts[1]:,}; file {files[0]:.0f} {files[1]:.0f} {files[2]:.0f}, "
            f"{files[0] / files[2]:.1f} times smaller; header {headers[0]:.0f} {headers[1]:.0f} {headers[2]:.0f}, "
            f"{headers[0] / headers[2]:.1f} times smaller; score {model.score(X[second:], y[second:]):.4f} to "
            f"{small.score(X[second:], y[second:]):.4f}; single precision moves answers by {shift(small, X):.1e}; "
            f"time of a row {times['small'] / times['whole']:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
