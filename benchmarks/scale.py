"""Rows beyond memory: 100 thousand to 10 million rows of 20 columns in a Parquet file, on all processors.

python benchmarks/scale.py [--rows 100000 1000000 10000000] [--folder DIR] [--rivals]

Every fit and every bare pass runs in a process of its own, whose largest resident memory is read at its end. The bare
pass is NumPy alone: read the same file block by block, random features of the same number, sum their products with
threaded BLAS. What is asked at 10 million rows: resident memory at most 1.5 GB, the fit at most 3 bare passes, and a
cost that grows with an exponent of at most 1.05 from the fewest rows to the most. Exits with 1 where one is missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
from memory import peak_bytes

N_COLUMNS, ROW_GROUP, BLOCK = 20, 100_000, 8192
MODELS = {
    "width 300, shared": (300, {"n_components": 300, "directions": "random", "activation": "shared"}),
    "width 100, one per component": (1600, {"n_components": 100, "directions": "random"}),
}
MOST_BYTES, MOST_PASSES, MOST_EXPONENT = 1.5e9, 3.0, 1.05


def make(path: Path, n_rows: int) -> None:
    """Float32 columns x0 to x19 and a target y, written row group by row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(N_COLUMNS)]
    schema = pa.schema([(name, pa.float32()) for name in [*names, "y"]])
    with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
        for first in range(0, n_rows, ROW_GROUP):
            X = rng.standard_normal((min(ROW_GROUP, n_rows - first), N_COLUMNS), dtype=np.float32)
            noise = 0.1 * rng.standard_normal(len(X), dtype=np.float32)
            y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + noise
            writer.write_table(pa.table([*X.T.copy(), y], schema=schema), row_group_size=ROW_GROUP)


def blocks(path: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows and targets of the file, in order."""
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(path).iter_batches(BLOCK):
        table = np.column_stack([column.to_numpy() for column in batch.columns])
        yield table[:, :N_COLUMNS], table[:, N_COLUMNS]


def bare_pass(path: str, n_features: int) -> None:
    """One pass of the arithmetic of the normal equations: project, apply tanh, multiply, sum in float64."""
    W = np.random.default_rng(0).standard_normal((N_COLUMNS, n_features)).astype(np.float32)
    total = np.zeros((n_features + 2, n_features + 2))
    design = np.empty((BLOCK, n_features + 2), np.float32)
    for X, y in blocks(path):
        rows = design[: len(X)]
        np.tanh(X @ W, out=rows[:, :n_features])
        rows[:, n_features], rows[:, n_features + 1] = 1, y
        total += rows.T @ rows


def fit(path: str, name: str) -> None:
    from rflaf import RFLAFRegressor

    RFLAFRegressor(random_state=0, **MODELS[name][1]).fit(path, "y")


def fit_lightgbm(path: str) -> None:
    from lightgbm import LGBMRegressor

    parts = list(blocks(path))
    X, y = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    LGBMRegressor(n_estimators=100, verbose=-1).fit(X, y)


def fit_sgd(path: str) -> None:
    from sklearn.linear_model import SGDRegressor

    model = SGDRegressor()
    for X, y in blocks(path):
        model.partial_fit(X, y)


def measured(path: Path, *task: str) -> tuple[float, float]:
    """Seconds and largest resident bytes of a task in a process of its own, which warms up on few rows first."""
    run = [sys.executable, __file__, "--task", str(path), *task]
    answer = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    seconds, size = json.loads(answer.splitlines()[-1])
    return seconds, size


def perform(path: str, task: str, about: str) -> None:
    tasks = {
        "bare": lambda path: bare_pass(path, int(about)),
        "fit": lambda path: fit(path, about),
        "lightgbm": fit_lightgbm,
        "sgd": fit_sgd,
    }
    tasks[task](str(Path(path).with_name("few.parquet")))  # imports and compiles
    started = perf_counter()
    tasks[task](path)
    seconds = perf_counter() - started
    print(json.dumps([seconds, peak_bytes()]))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--folder", type=Path, help="where to make the files; a temporary folder unless given")
    parser.add_argument("--rivals", action="store_true", help="LightGBM and SGDRegressor too")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--task", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.task:
        path, task, *about = options.task
        perform(path, task, about[0] if about else "")
        return 0
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        return run(Path(folder), sorted(options.rows), options.models, options.rivals)


def run(folder: Path, sizes: list[int], models: list[str], rivals: bool) -> int:
    make(folder / "few.parquet", 5000)
    missed = 0
    times: dict[str, list[float]] = {name: [] for name in models}
    for n_rows in sizes:
        path = folder / "rows.parquet"
        make(path, n_rows)
        print(f"{n_rows:,} rows, {path.stat().st_size / 1e9:.2f} GB", flush=True)
        for name in models:
            bare, _ = measured(path, "bare", str(MODELS[name][0]))
            seconds, size = measured(path, "fit", name)
            times[name].append(seconds)
            line = f"  {name}: fit {seconds:.1f} s, bare pass {bare:.1f} s, {seconds / bare:.2f} passes"
            print(f"{line}, {n_rows / seconds:,.0f} rows/s, {size / 1e9:.2f} GB resident", flush=True)
            if n_rows == max(sizes):
                missed += size > MOST_BYTES or seconds > MOST_PASSES * bare
        for rival in ("lightgbm", "sgd") if rivals else ():
            seconds, size = measured(path, rival)
            print(f"  {rival}: fit {seconds:.1f} s, {size / 1e9:.2f} GB resident", flush=True)
    if len(sizes) > 1:
        for name, seconds in times.items():
            exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
            print(f"{name}: cost grows with exponent {exponent:.3f}, at most {MOST_EXPONENT} asked")
            missed += exponent > MOST_EXPONENT
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
