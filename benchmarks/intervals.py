"""Intervals and quantiles: coverage, width and pinball loss beside MAPIE's CV+ and LightGBM's quantiles, in one run.

python benchmarks/intervals.py [coverage] [few] [quantiles] [crossings] [--sets abalone ...] [--rows 4000] [--splits 1]

Sets are the regressions of RFLAF_DATA_DIR/tables and rows whose noise grows with a column. A third of the rows, at most
as many as for the fit, is for the test; the columns of LightGBM are those that rflaf makes of a table.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMRegressor
from sklearn.model_selection import train_test_split

from rflaf import RFLAFRegressor

COVERAGES, LEVELS = (0.8, 0.9, 0.95), (0.05, 0.25, 0.5, 0.75, 0.95)
FEW_ROWS, FEW_DRAWS = 30, 20
Split = tuple[Any, Any, np.ndarray, np.ndarray]


def fanned(n_rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows whose noise grows with the third column."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (n_rows, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + (0.1 + np.abs(X[:, 2])) * rng.standard_normal(n_rows)
    return pd.DataFrame(X, columns=list("abcd")), y


def read_table(path: Path) -> tuple[pd.DataFrame, np.ndarray]:
    table = pd.read_parquet(path)
    return table.drop(columns="target"), table["target"].to_numpy(np.float64)


def sets_of(names: list[str]) -> dict[str, Callable[[], tuple[pd.DataFrame, np.ndarray]]]:
    paths = sorted(Path(os.environ.get("RFLAF_DATA_DIR", ".")).glob("tables/reg-*.parquet"))
    found: dict[str, Any] = {path.stem.removeprefix("reg-"): lambda path=path: read_table(path) for path in paths}
    found["fanned"] = lambda: fanned(6000)
    return {name: read for name, read in found.items() if not names or name in names}


def split(X: pd.DataFrame, y: np.ndarray, most: int, seed: int = 0) -> Split:
    a, b, c, d = train_test_split(X, y, test_size=1 / 3, random_state=seed)
    return a[:most], b[:most], c[:most], d[:most]


def numbers(model: RFLAFRegressor, X: pd.DataFrame) -> np.ndarray:
    """The columns of a table as rflaf makes them."""
    encoding = model.table_encoding_
    return X.to_numpy(np.float64) if encoding is None else encoding.transform(X)


def boosted(**others: Any) -> LGBMRegressor:
    return LGBMRegressor(n_jobs=1, verbose=-1, random_state=0, **others)


def covered(limits: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Share of targets inside, and the mean width."""
    return float(np.mean((limits[:, 0] <= y) & (y <= limits[:, 1]))), float(np.mean(limits[:, 1] - limits[:, 0]))


def by_mapie(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, coverage: float) -> np.ndarray:
    try:
        from mapie.regression import CrossConformalRegressor
    except ImportError:  # pip install mapie
        return np.full((len(X_test), 2), np.nan)
    model = CrossConformalRegressor(boosted(), confidence_level=coverage, method="plus", cv=5, n_jobs=1)
    return np.asarray(model.fit_conformalize(X, y).predict_interval(X_test)[1])[:, :, 0]


def coverage(options: argparse.Namespace) -> Iterator[str]:
    """Coverage of several levels, and at 90 % the width beside MAPIE's: means over splits."""
    ratios, off = [], []
    yield f"{'set':14s} rows   coverage of {COVERAGES}     at 0.9: width, CV+ covers, width / CV+ width"
    for name, read in sets_of(options.sets).items():
        table, measured = read(), []
        for seed in range(options.splits):
            X, X_test, y, y_test = split(*table, options.rows, seed)
            model = RFLAFRegressor(options.width, random_state=seed, n_jobs=1).fit(X, y)
            limits = model.predict_interval(X_test, COVERAGES)
            shares = [covered(limits[:, k], y_test)[0] for k in range(len(COVERAGES))]
            theirs = covered(by_mapie(numbers(model, X), y, numbers(model, X_test), 0.9), y_test)
            measured.append([*shares, covered(limits[:, 1], y_test)[1], *theirs])
        *shares, width, their_share, their_width = np.mean(measured, axis=0)
        ratios.append(width / their_width)
        off.append(np.subtract(shares, COVERAGES))
        told = " ".join(f"{share:.3f}" for share in shares)
        yield f"{name:14s} {len(y):5d}  {told}     {width:10.4g}   {their_share:.3f}   {ratios[-1]:.3f}"
    worst = np.max(np.abs(off), axis=0)
    mean = geometric(ratios)
    yield f"largest distance from the level {np.round(worst, 3)}; geometric mean of widths over CV+ {mean:.3f}"


def few(options: argparse.Namespace) -> Iterator[str]:
    """Mean coverage over draws of thirty rows."""
    yield f"{'set':14s} coverage of {COVERAGES} by fits of {FEW_ROWS} rows, mean of {options.draws} draws"
    for name, read in sets_of(options.sets).items():
        X, y = read()
        shares = []
        for seed in range(options.draws):
            a, b, c, d = train_test_split(X, y, train_size=FEW_ROWS, test_size=min(500, len(y) // 2), random_state=seed)
            limits = RFLAFRegressor(options.width, random_state=0, n_jobs=1).fit(a, c).predict_interval(b, COVERAGES)
            shares.append([covered(limits[:, k], d)[0] for k in range(len(COVERAGES))])
        yield f"{name:14s} " + " ".join(f"{share:.3f}" for share in np.mean(shares, axis=0))


def pinball(quantiles: np.ndarray, y: np.ndarray) -> float:
    """Mean pinball loss over rows and levels."""
    off, levels = y[:, None] - quantiles, np.array(LEVELS)
    return float(np.mean(np.maximum(levels * off, (levels - 1) * off)))


def quantiles(options: argparse.Namespace) -> Iterator[str]:
    """Pinball loss of one model of several quantiles, of separate ones, and of LightGBM's."""
    ratios: list[list[float]] = []
    yield f"{'set':14s} rows   pinball  / separate fits  / LightGBM, 100 trees   crossings: rflaf, LightGBM"
    for name, read in sets_of(options.sets).items():
        X, X_test, y, y_test = split(*read(), options.rows)
        arguments = {"loss": "quantile", "random_state": 0, "n_jobs": 1}
        model = RFLAFRegressor(options.width, quantile=list(LEVELS), **arguments).fit(X, y)
        ours = model.predict(X_test)
        alone = np.column_stack(
            [RFLAFRegressor(options.width, quantile=q, **arguments).fit(X, y).predict(X_test) for q in LEVELS]
            if options.separate
            else [ours]
        )
        rows, rows_test = numbers(model, X), numbers(model, X_test)
        trees = np.column_stack(
            [boosted(objective="quantile", alpha=q).fit(rows, y).predict(rows_test) for q in LEVELS]
        )
        losses = [pinball(found, y_test) for found in (ours, alone, trees)]
        ratios.append([losses[0] / losses[1], losses[0] / losses[2]])
        crossed = [int(np.sum(np.diff(found, axis=1) < 0)) for found in (ours, trees)]
        yield f"{name:14s} {len(y):5d} {losses[0]:9.4g}   {ratios[-1][0]:.3f}   {ratios[-1][1]:.3f}   {crossed}"
    yield f"geometric means {np.round([geometric(column) for column in zip(*ratios, strict=True)], 3)}"


def crossings(options: argparse.Namespace) -> Iterator[str]:
    """Rows anywhere, far outside those of the fit too, whose quantiles are out of order."""
    X, y = fanned(1000)
    model = RFLAFRegressor(options.width, loss="quantile", quantile=list(LEVELS), random_state=0, n_jobs=1)
    model.fit(X.to_numpy(), y)
    rng, found, done = np.random.default_rng(1), 0, 0
    while done < options.random_rows:
        rows = rng.standard_normal((min(10**5, options.random_rows), 4)) * 10.0 ** rng.uniform(-1, 2)
        found += int(np.sum(np.diff(model.predict(rows), axis=1) < 0))
        done += len(rows)
    yield f"{found} crossings in {done} random rows"


def geometric(ratios: Any) -> float:
    return float(np.exp(np.mean(np.log(ratios))))


PARTS = {part.__name__: part for part in (coverage, few, quantiles, crossings)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--sets", nargs="*", default=[])
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--draws", type=int, default=FEW_DRAWS)
    parser.add_argument("--random-rows", type=int, default=10**7)
    parser.add_argument("--separate", action="store_true", help="fit every quantile alone too")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for part in options.parts:
        for line in PARTS[part](options):
            print(line, flush=True)


if __name__ == "__main__":
    main()
