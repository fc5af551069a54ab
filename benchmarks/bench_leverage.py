"""Exact leverage scores of a pool of directions on protein against numpy's Z.T @ Z of the same size in blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from interleaved import medians, options, report
from memory import peak_bytes
from tables import load

from rflaf.functions.bases import BSplineBasis, fit_function
from rflaf.functions.densities import Gaussian, draw
from rflaf.model.features import compile_map
from rflaf.rows.blocks import array_source
from rflaf.rows.executors import ThreadExecutor, resolve_n_jobs
from rflaf.training.solvers.leverage import leverage_scores

BLOCK = 2048


def main(argv: Sequence[str] | None = None) -> None:
    given = options(__doc__, argv, rows=36_584, rounds=5, pool=5000)
    (X, y), n_pool = load("protein", given.rows), given.pool
    basis = BSplineBasis()
    pool = draw(Gaussian(), X.shape[1], n_pool, np.random.default_rng(0)).fold(X.mean(0), X.std(0)).scaled(1 / 3)
    for dtype in (np.float64, np.float32):
        source = array_source(X.astype(dtype), y).with_rows(BLOCK)
        features = compile_map(pool, basis.pieces(), fit_function(basis, np.tanh)[None], dtype)
        block = np.random.default_rng(0).standard_normal((BLOCK, n_pool)).astype(dtype)

        def ours(source=source, features=features) -> None:
            with ThreadExecutor(resolve_n_jobs(None)) as executor:
                leverage_scores(source, features, None, executor)

        def bare(block=block, n_rows=X.shape[0]) -> None:
            total = np.zeros((n_pool, n_pool), block.dtype)
            for start in range(0, n_rows, BLOCK):
                rows = block[: min(BLOCK, n_rows - start)]
                total += rows.T @ rows

        seconds = medians({"ours": ours, "bare": bare}, given.rounds)
        what = f"leverage scores, pool {n_pool}, {np.dtype(dtype)}: rflaf / Z.T @ Z"
        report(what, seconds["ours"], seconds["bare"], "limit 2.0")
    peak = peak_bytes() / 2**30
    print(f"peak memory of the whole process {peak:.2f} GiB   limit 2 GB")


if __name__ == "__main__":
    main()
