"""A cluster of worker processes on one machine: two against one, and the model they end at.

Rows are made by the workers and persisted there, so that only sums travel. Run on an otherwise idle machine:

    python benchmarks/bench_dask.py --rows 1000000
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait
from interleaved import options

from rflaf import RFLAFRegressor

N_FEATURES = 20


def made_rows(block_info=None) -> np.ndarray:
    """Inputs and, in the last column, targets of one partition."""
    (first, last), _ = block_info[None]["array-location"]
    rng = np.random.default_rng(first)
    X = rng.uniform(-2, 2, (last - first, N_FEATURES + 1))
    X[:, -1] = np.sin(1.5 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2 / 2 + 0.1 * rng.standard_normal(last - first)
    return X


def table(n_rows: int, n_parts: int) -> da.Array:
    chunks = da.core.normalize_chunks((-(-n_rows // n_parts), N_FEATURES + 1), (n_rows, N_FEATURES + 1))
    return da.map_blocks(made_rows, chunks=chunks, dtype=float, meta=np.empty((0, 0)))


def timed(n_workers: int, n_rows: int, n_parts: int, width: int) -> tuple[float, np.ndarray]:
    """Seconds of a fit on so many workers, the second of two; and predictions."""
    model = RFLAFRegressor(width, directions="random", activation="shared", random_state=0, n_jobs=1)
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", silence_logs="ERROR"
        ) as cluster,
        Client(cluster),
    ):
        rows = table(n_rows, n_parts).persist()
        wait(rows)
        few = rows[: n_rows // n_parts].compute()
        model.fit(rows.blocks[:2][:, :-1], rows.blocks[:2][:, -1])  # compiles, and loads what was compiled
        started = perf_counter()
        model.fit(rows[:, :-1], rows[:, -1])
        return perf_counter() - started, model.predict(few[:, :-1])


def main(argv: Sequence[str] | None = None) -> None:
    given = options(__doc__, argv, rows=1_000_000, parts=16, width=300)
    one, predicted = timed(1, given.rows, given.parts, given.width)
    print(f"one worker   {one:7.2f} s", flush=True)
    two, again = timed(2, given.rows, given.parts, given.width)
    print(f"two workers  {two:7.2f} s, {one / two:.2f} times faster")
    print(f"largest difference of predictions {np.abs(predicted - again).max():.2g}")


if __name__ == "__main__":
    main()
