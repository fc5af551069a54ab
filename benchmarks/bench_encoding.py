"""How long encoding a table takes: one million rows of 20 mixed columns beside pandas.read_parquet of the same file.

python benchmarks/bench_encoding.py [rows]. Prints seconds of processor time of all threads of this process, Arrow's
among them, the median of seven turns that all works take one after the other, and the memory that each of them took.
A fit looks at every value and encodes it; a prediction only encodes. Ratios are to the quicker of two turns of
read_parquet.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from interleaved import medians
from memory import forget_peak, peak_since, resident

from rflaf.rows.files import Table
from rflaf.rows.inputs import encode_rows, open_rows
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


def most_bytes(work: Callable[[], object]) -> float:
    """Return how many bytes a work takes at most, its answer among them."""
    pa.default_memory_pool().release_unused()
    before = resident()
    forget_peak()
    work()
    return peak_since() - before


def from_file(table: Table) -> None:
    """Look at every value of a file, and read it once in blocks."""
    opened = open_rows(table, "y")
    assert opened is not None
    with closing(opened):
        for at in range(len(opened.source)):
            opened.source[at]


def main(n_rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mixed.parquet"
        mixed(n_rows).assign(y=np.random.default_rng(1).standard_normal(n_rows)).to_parquet(path)
        frame = pd.read_parquet(path)
        y = frame.pop("y").to_numpy()
        texts = [name for name in frame if name.startswith("text")]
        frames: dict[str, Any] = {
            "the pandas frame": frame,
            "it with a Python object in every cell of texts": frame.astype(dict.fromkeys(texts, object)),
            "it with an object per level": frame.astype(dict.fromkeys(texts, "category")).astype(
                dict.fromkeys(texts, object)
            ),
            "an Arrow table": pq.read_table(path).drop_columns(["y"]),
            "the polars frame": pl.read_parquet(path).drop("y"),
        }
        encoding = make_encoding(summarise(frame))
        works: dict[str, Callable[[], object]] = {"pandas.read_parquet": lambda: pd.read_parquet(path)}
        for what, X in frames.items():
            works[f"encode {what}"] = partial(encoding.transform, X)
        for what, X in frames.items():
            works[f"look at and encode {what}"] = partial(encode_rows, X, y, None, False)
        works["pandas.read_parquet, again"] = works["pandas.read_parquet"]  # after other works it takes another time
        works["look at and encode the file, in blocks"] = lambda: from_file(Table(path))
        works["the same without the column of 200 levels"] = lambda: from_file(Table(path, exclude=["text 5"]))
        seconds = medians(works, rounds=7, clock=process_time)
        memory = {what: most_bytes(work) for what, work in works.items()}
    reading = min(of_work for what, of_work in seconds.items() if what.startswith("pandas.read_parquet"))
    for what, of_work in seconds.items():
        ratio = f"{of_work / reading:5.2f} of read_parquet"
        print(f"{what:<65} {of_work:7.3f} s   {ratio}   {memory[what] / 1e6:6.0f} MB")
    answer = 8 * len(encoding.feature_names) * n_rows / 1e6
    n_columns, n_numbers = len(encoding.columns), len(encoding.feature_names)
    print(f"{n_columns} columns as {n_numbers} numbers, {n_rows:,} rows; the answer takes {answer:.0f} MB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
