"""Reasons and monotone columns: time and error of explain, error of monotone models against free ones, violations.

python benchmarks/bench_reasons.py [--rows 2000] [--width 100] [--columns 20] [--pairs 1000000] [--truths 6].
Processor time, one thread. The first model has 20 curved columns and strong interactions; its values are compared with
those of 10,000 orders.
"""

from __future__ import annotations

import argparse
from time import process_time

import numpy as np

from rflaf import RFLAFRegressor
from rflaf.errors import Array

_TRUTHS = {
    "sums": (lambda X: np.tanh(2 * X[:, 0]) - np.exp(X[:, 1] / 2) + np.sin(2 * X[:, 2]), {0: 1, 1: -1}),
    "ridges": (
        lambda X: np.exp(0.5 * X[:, 0] + 0.3 * X[:, 1]) + np.tanh(X[:, 2] + X[:, 3]),
        dict.fromkeys(range(4), 1),
    ),
    "products": (lambda X: (X[:, 0] + 2) * (X[:, 1] + 2) + (X[:, 2] > 0), dict.fromkeys(range(3), 1)),
    "saturation": (lambda X: (1 - np.exp(-(X[:, 0] + 2))) * (X[:, 1] + 3), {0: 1, 1: 1}),
    "with a free column": (lambda X: np.exp(0.5 * X[:, 0]) * (1 + np.tanh(X[:, 2])) - np.abs(X[:, 4]), {0: 1}),
    "the larger of two": (lambda X: np.maximum(X[:, 0], X[:, 1]), {0: 1, 1: 1}),
}


def show_explain(n_rows: int, width: int, n_columns: int) -> None:
    """Print the time per row and the error of values at several numbers of orders."""
    rng = np.random.default_rng(1)
    X, B = rng.standard_normal((n_rows, n_columns)), rng.standard_normal((n_columns, 3))
    y = np.sin(0.4 * X @ B[:, 0]) + np.tanh(0.3 * X @ B[:, 1]) + 0.3 * np.abs(X @ B[:, 2]) + 0.2 * np.sin(3 * X).sum(1)
    model = RFLAFRegressor(width, random_state=0, n_jobs=1, alpha=5e-4, curves=True).fit(X, y)
    exact, rows = model.explain(X[:50], n_orders=10_000).values, X[: min(1000, n_rows)]
    for n_orders in (16, 64):
        model.explain(X[:2], n_orders=n_orders)
        seconds = []
        for _ in range(5):
            started = process_time()
            found = model.explain(rows, n_orders=n_orders)
            seconds.append((process_time() - started) / len(rows))
        off = np.abs(found.base_values + found.values.sum(axis=1) - model.predict(rows)).max()
        few = model.explain(X[:50], n_orders=n_orders)
        size = np.sqrt(np.mean(exact**2))
        error, stated = np.sqrt(np.mean((few.values - exact) ** 2)), np.sqrt(np.mean(few.standard_error**2))
        print(
            f"explain, S={width}, {n_columns} columns, {n_orders} orders: {1e6 * np.median(seconds):.1f} microseconds "
            f"per row, error {error / size:.3f} of the values (stated {stated / size:.3f}), sum within {off:.1e}"
        )


def show_monotone(n_rows: int, n_pairs: int, n_truths: int) -> None:
    """Print the error of monotone models over that of free ones, and how many moves go the wrong way."""
    for name, (truth, monotone) in list(_TRUTHS.items())[-n_truths:]:
        rng = np.random.default_rng(0)
        X = rng.uniform(-2, 2, (n_rows + 4000, 6))
        f = truth(X)
        y = f + 0.3 * f.std() * rng.standard_normal(len(f))
        settings = {"n_components": 60, "random_state": 0, "n_jobs": 1}
        models = [RFLAFRegressor(**settings, monotone=given).fit(X[:n_rows], y[:n_rows]) for given in (None, monotone)]
        free, bound = (float(np.mean((model.predict(X[n_rows:]) - y[n_rows:]) ** 2)) for model in models)
        wrong = [_wrong_moves(model, monotone, n_pairs, rng) for model in models]
        print(
            f"monotone, {name}: {bound / free:.3f} of the free error, "
            f"{wrong[1]} of {n_pairs} moves wrong (free: {wrong[0]})"
        )


def _wrong_moves(model: RFLAFRegressor, monotone: dict[int, int], n_pairs: int, rng: np.random.Generator) -> int:
    wrong, block = 0, min(n_pairs, 100_000)
    for _ in range(n_pairs // block):
        rows: Array = rng.uniform(-4, 4, (block, 6))
        column, sign = list(monotone.items())[rng.integers(len(monotone))]
        moved = rows.copy()
        moved[:, column] += rng.exponential(10.0 ** rng.uniform(-6, 0), block)
        wrong += int(np.count_nonzero(sign * (model(moved) - model(rows)) < -1e-12))
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for option, default in (("rows", 2000), ("width", 100), ("columns", 20), ("pairs", 1_000_000), ("truths", 6)):
        parser.add_argument(f"--{option}", type=int, default=default)
    given = parser.parse_args()
    show_explain(given.rows, given.width, given.columns)
    show_monotone(given.rows // 3, given.pairs, given.truths)
