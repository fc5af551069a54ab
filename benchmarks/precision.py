"""What single precision changes: fits to the same rows as float32 and as float64, on every table.

python benchmarks/precision.py [--sets reg-abalone ...] [--rows 1000] [--width 20] [--records precision.jsonl]

Tables are those of RFLAF_DATA_DIR/tables, by the columns that rflaf makes of them, rounded to single precision: both
fits see the same numbers. The difference is the root mean square of that of predictions (of decision values for labels)
on rows held out, over their spread; the error is that of float32 over that of float64.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from rflaf import RFLAFClassifier, RFLAFRegressor

MODES = ("refined", "random", "convex")


def estimator(kind: Any, mode: str, width: int) -> Any:
    common = {"random_state": 0, "n_jobs": 1}
    if mode == "convex":
        return kind.convex(width, **common)
    return kind(width, **common, **({"directions": "random"} if mode == "random" else {}))


def compared(X: np.ndarray, y: np.ndarray, labels: bool, mode: str, width: int) -> tuple[float, float]:
    """Difference of the predictions and ratio of the errors."""
    kind = RFLAFClassifier if labels else RFLAFRegressor
    rows = train_test_split(X, y, test_size=1 / 3, random_state=0, stratify=y if labels else None)
    answers, errors = [], []
    for dtype in (np.float64, np.float32):
        X_train, X_test = (part.astype(np.float32).astype(dtype) for part in rows[:2])
        model = estimator(kind, mode, width).fit(X_train, rows[2])
        answers.append(model.decision_function(X_test) if labels else model.predict(X_test))
        if labels:
            errors.append(log_loss(rows[3], model.predict_proba(X_test), labels=model.classes_))
        else:
            errors.append(float(np.sqrt(np.mean((answers[-1] - rows[3]) ** 2))))
    spread = max(float(answers[0].std()), 1e-300)
    return float(np.sqrt(np.mean((answers[1] - answers[0]) ** 2))) / spread, errors[1] / errors[0]


def read(path: Path, most: int) -> tuple[np.ndarray, np.ndarray, bool]:
    table = pd.read_parquet(path)
    table = table.sample(min(most * 3 // 2, len(table)), random_state=0)
    labels = not path.stem.startswith("reg-")
    y = table["target"].astype(str).to_numpy() if labels else table["target"].to_numpy(np.float64)
    if labels:
        table, y = (part[pd.Series(y).map(pd.Series(y).value_counts()).to_numpy() >= 6] for part in (table, y))
    made = RFLAFRegressor(2, directions="random", alpha=1.0, random_state=0).fit(
        table.drop(columns="target"), np.arange(len(y)) % 7 if labels else y
    )
    frame = table.drop(columns="target")
    rows = frame.to_numpy(np.float64) if made.table_encoding_ is None else made.table_encoding_.transform(frame)
    return rows, y, labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=[])
    parser.add_argument("--rows", type=int, default=1000, help="of a fit")
    parser.add_argument("--width", type=int, default=20)
    parser.add_argument("--records", type=Path, default=Path("precision.jsonl"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    known = [json.loads(line) for line in given.records.read_text().splitlines()] if given.records.exists() else []
    done = {(record["set"], record["mode"]): record for record in known}
    paths = sorted(Path(os.environ.get("RFLAF_DATA_DIR", ".")).glob("tables/*.parquet"))
    paths = [path for path in paths if not given.sets or path.stem in given.sets]
    with given.records.open("a") as log:
        for path in paths:
            missing = [mode for mode in MODES if (path.stem, mode) not in done]
            rows = read(path, given.rows) if missing else None
            for mode in missing:
                assert rows is not None
                difference, error = compared(*rows, mode, given.width)
                done[path.stem, mode] = {"set": path.stem, "mode": mode, "difference": difference, "error": error}
                log.write(json.dumps(done[path.stem, mode]) + "\n")
                log.flush()
    print("| table | " + " | ".join(f"{mode}: difference, error" for mode in MODES) + " |")
    print("| --- |" + " --- |" * len(MODES))
    for path in paths:
        cells = (done[path.stem, mode] for mode in MODES)
        print(f"| {path.stem} | " + " | ".join(f"{c['difference']:.1e}, {c['error']:.4f}" for c in cells) + " |")


if __name__ == "__main__":
    main()
