"""How long encoding a table takes: one million rows of 20 mixed columns beside pandas.read_parquet of the same file.

python benchmarks/bench_encoding.py [rows]. Prints seconds of processor time, the least of five.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import process_time

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from rflaf.rows.tables import make_encoding, summarise


def mixed(n_rows: int) -> pd.DataFrame:
    """Ten columns of numbers, two of them with gaps, six of texts of 2 to 200 levels, two of dates, two of truths."""
    rng = np.random.default_rng(0)
    columns: dict[str, object] = {f"number {i}": rng.standard_normal(n_rows) for i in range(6)}
    columns |= {f"whole {i}": rng.integers(0, 10 ** (i + 1), n_rows) for i in range(2)}
    for i in range(2):
        columns[f"gaps {i}"] = np.where(rng.random(n_rows) < 0.1, np.nan, rng.standard_normal(n_rows))
    for i, n_levels in enumerate((2, 3, 8, 20, 50, 200)):
        names = np.array([f"level {level}" for level in range(n_levels)], object)
        columns[f"text {i}"] = names[rng.integers(0, n_levels, n_rows)]
    for i in range(2):
        columns[f"date {i}"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 10**6, n_rows), unit="min")
        columns[f"truth {i}"] = rng.random(n_rows) < 0.5
    return pd.DataFrame(columns)


def least(works: Mapping[str, Callable[[], object]], times: int = 5) -> dict[str, float]:
    """Return the least seconds of processor time of each work; the works take turns, so that load falls on all."""
    seconds = dict.fromkeys(works, math.inf)
    for _ in range(times):
        for what, work in works.items():
            started = process_time()
            work()
            seconds[what] = min(seconds[what], process_time() - started)
    return seconds


def main(n_rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mixed.parquet"
        mixed(n_rows).to_parquet(path)
        table = pq.read_table(path)
        encoding = make_encoding(summarise(table))
        frame = pd.read_parquet(path)
        lines = least(
            {
                "pandas.read_parquet": lambda: pd.read_parquet(path),
                "summarise an Arrow table": lambda: summarise(table),
                "encode an Arrow table": lambda: encoding.transform(table),
                "encode the pandas frame": lambda: encoding.transform(frame),
            }
        )
    reading = lines["pandas.read_parquet"]
    for what, seconds in lines.items():
        print(f"{what:<42} {seconds:7.3f} s   {seconds / reading:5.2f} of read_parquet")
    print(f"{len(encoding.columns)} columns as {len(encoding.feature_names)} numbers, {n_rows:,} rows")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
