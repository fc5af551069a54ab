"""Exact leverage scores of a pool of 5,000 on protein against numpy's Z.T @ Z of the same size in blocks."""

from __future__ import annotations

import resource

import numpy as np
from interleaved import medians, protein, report

from rflaf.functions.bases import BSplineBasis, fit_function
from rflaf.functions.densities import Gaussian, draw
from rflaf.model.features import compile_map
from rflaf.rows.blocks import array_source, plan_rows
from rflaf.rows.executors import ThreadExecutor, resolve_n_jobs
from rflaf.training.solvers.leverage import leverage_scores

POOL, BLOCK = 5000, 2048


def main() -> None:
    X, y = protein()
    X, y = X[:36_584], y[:36_584]
    basis = BSplineBasis()
    pool = draw(Gaussian(), X.shape[1], POOL, np.random.default_rng(0)).fold(X.mean(0), X.std(0)).scaled(1 / 3)
    for dtype in (np.float64, np.float32):
        source = array_source(X.astype(dtype), y).with_rows(plan_rows(2**30, POOL * 8, 4 * POOL**2 * 8))
        features = compile_map(pool, basis.pieces(), fit_function(basis, np.tanh)[None], dtype)
        block = np.random.default_rng(0).standard_normal((BLOCK, POOL)).astype(dtype)

        def ours(source=source, features=features) -> None:
            with ThreadExecutor(resolve_n_jobs(None)) as executor:
                leverage_scores(source, features, None, executor)

        def bare(block=block, n_rows=X.shape[0]) -> None:
            total = np.zeros((POOL, POOL), block.dtype)
            for start in range(0, n_rows, BLOCK):
                rows = block[: min(BLOCK, n_rows - start)]
                total += rows.T @ rows

        seconds = medians({"ours": ours, "bare": bare}, rounds=5 if dtype is np.float32 else 3)
        what = f"leverage scores, pool {POOL}, {np.dtype(dtype)}: rflaf / Z.T @ Z"
        report(what, seconds["ours"], seconds["bare"], "limit 2.0")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory of the whole process {peak:.2f} GiB   limit 2 GB")


if __name__ == "__main__":
    main()
