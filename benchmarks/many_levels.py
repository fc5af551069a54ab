"""Columns of many levels: ours as they come, behind the encoders of skrub and scikit-learn, and CatBoost.

python benchmarks/many_levels.py [--only NAME ...] [--width 100] [--seeds 0 1] [--models NAME ...] [--out records.jsonl]

Every table with a category of more than 50 levels is measured, two thirds of the rows for training, one thread; only
these columns are given to an encoder, the others come as they are. The first column is the loss of ours: RMSE, or the
log-loss of classes; all others are ratios to it, beyond 1 where they are worse. A model whose library is not installed
is left out. Without RFLAF_DATA_DIR a table of 3,000 shops is made up.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from breadth_data import PROTOCOLS, Problem, Split, found
from breadth_models import OURS, makers
from distillation import loss
from markdown_tables import markdown_table
from sklearn.preprocessing import TargetEncoder
from threadpoolctl import threadpool_limits

from rflaf.rows.tables import CategoryColumn, make_encoding, summarise

WITHOUT, TARGET, STRING, MIN_HASH, CATBOOST = (
    "without them", "scikit-learn TargetEncoder", "skrub StringEncoder", "skrub MinHashEncoder", "catboost",
)  # fmt: skip
MODELS = (OURS, WITHOUT, TARGET, STRING, MIN_HASH, CATBOOST)
LIBRARIES = {STRING: "skrub", MIN_HASH: "skrub", CATBOOST: "catboost"}
MADE_UP_ROWS, MANY = 9000, 50


def many(X: pd.DataFrame) -> list[str]:
    """The columns of more than 50 levels."""
    columns = make_encoding(summarise(X)).columns
    return [column.name for column in columns if isinstance(column, CategoryColumn) and len(column.levels) > MANY]


def shops(n_rows: int) -> Problem:
    """Rows of a third as many shops, each with an effect, and a number with a curve."""

    def read() -> tuple[pd.DataFrame, np.ndarray]:
        rng = np.random.default_rng(0)
        shop, x = rng.integers(0, n_rows // 3, n_rows), rng.standard_normal(n_rows)
        y = rng.standard_normal(n_rows // 3)[shop] + np.sin(2 * x) + 0.5 * rng.standard_normal(n_rows)
        return pd.DataFrame({"shop": [f"shop {at}" for at in shop], "x": x}), y

    return Problem("tables", "reg-shops", "regression", "report", read)


def encoded(split: Split, columns: list[str], encode: Callable[[pd.Series], tuple[Any, Any]]) -> Split:
    """The split with some columns replaced by what ``encode`` learns of each of them in the training rows."""
    tables = [split.X_train.drop(columns=columns), split.X_test.drop(columns=columns)]
    for name in columns:
        learned, encoder = encode(split.X_train[name])
        for at, values in enumerate((learned, encoder(split.X_test[name]))):
            numbers = np.asarray(values, np.float64).reshape(len(tables[at]), -1)
            names = [f"{name} {number}" for number in range(numbers.shape[1])]
            tables[at] = tables[at].join(pd.DataFrame(numbers, tables[at].index, names))
    return Split(*tables, split.y_train, split.y_test)


def by_target(task: str, y: np.ndarray) -> Callable[[pd.Series], tuple[Any, Any]]:
    """Means of the target, cross-fitted."""

    def encode(column: pd.Series) -> tuple[Any, Any]:
        kind = "continuous" if task == "regression" else "auto"
        encoder = TargetEncoder(target_type=kind, random_state=0)
        words = column.astype(object).where(column.notna(), "missing").to_frame()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of random_state, from scikit-learn 1.9 on
            learned = encoder.fit_transform(words, y)
        return learned, lambda some: encoder.transform(some.astype(object).where(some.notna(), "missing").to_frame())

    return encode


def by_letters(name: str) -> Callable[[pd.Series], tuple[Any, Any]]:
    """Columns of skrub's encoders, with its own numbers of them."""

    def encode(column: pd.Series) -> tuple[Any, Any]:
        import skrub

        encoder = skrub.StringEncoder(random_state=0) if name == STRING else skrub.MinHashEncoder()
        words = column.astype(object).where(column.notna(), "").map(str)
        learned = encoder.fit_transform(words)
        return learned, lambda some: encoder.transform(some.astype(object).where(some.notna(), "").map(str))

    return encode


def rows_for(model: str, task: str, split: Split, columns: list[str]) -> Split:
    """The split as a model takes it."""
    if model == WITHOUT:
        rest = [table.drop(columns=columns) for table in (split.X_train, split.X_test)]
        return Split(*rest, split.y_train, split.y_test)
    if model == TARGET:
        return encoded(split, columns, by_target(task, split.y_train))
    return encoded(split, columns, by_letters(model)) if model in (STRING, MIN_HASH) else split


def measured(model: str, problem: Problem, seed: int, width: int) -> dict[str, Any]:
    """The loss of a model on one split, and the processor time of its encoding and fit."""
    table = problem.read()
    split, columns = problem.split(table, seed), many(table[0])
    start = process_time()
    given = rows_for(model, problem.task, split, columns)
    fitted = makers(width)[CATBOOST if model == CATBOOST else OURS](problem.task, given.X_train, seed)
    fitted.fit(given.X_train, given.y_train)
    seconds = process_time() - start
    lost = loss(fitted, given, problem.task == "regression")
    lost = float(np.sqrt(lost)) if problem.task == "regression" else lost
    return {"set": problem.name, "model": model, "seed": seed, "loss": lost, "seconds": round(seconds, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(PROTOCOLS["tables"].seeds))
    parser.add_argument("--rows", type=int, default=MADE_UP_ROWS, help="of the made-up shops")
    parser.add_argument("--out", type=Path, help="records, one a line; those there are not made again")
    given = parser.parse_args()
    models = [name for name in given.models if find_spec(LIBRARIES.get(name, "rflaf")) is not None]
    problems = [
        problem
        for problem in [*found(["tables"]), shops(given.rows)]
        if (not given.only or problem.name in given.only) and many(problem.read()[0])
    ]
    records = (
        [json.loads(line) for line in given.out.read_text().splitlines()] if given.out and given.out.exists() else []
    )
    known = {(record["set"], record["model"], record["seed"]) for record in records}
    for problem in problems:
        for seed in given.seeds:
            for model in models:
                if (problem.name, model, seed) in known:
                    continue
                with threadpool_limits(1):
                    records.append(measured(model, problem, seed, given.width))
                if given.out:
                    with given.out.open("a") as file:
                        file.write(json.dumps(records[-1]) + "\n")
    names = {problem.name for problem in problems}
    print(summary([record for record in records if record["seed"] in given.seeds and record["set"] in names], models))


def summary(records: list[dict[str, Any]], models: list[str]) -> str:
    """A line for each set, means over seeds, and one of geometric means of the ratios and of the seconds."""
    frame = pd.DataFrame(records).groupby(["set", "model"], sort=True)[["loss", "seconds"]].mean()
    loss, seconds = frame["loss"].unstack()[models], frame["seconds"].unstack()[models]
    ratio = loss.div(loss[OURS], axis=0)
    others = [model for model in models if model != OURS]
    lines = [[name, float(loss.loc[name, OURS]), *map(float, ratio.loc[name, others])] for name in loss.index]
    mean = ["geometric mean", "", *(float(np.exp(np.log(ratio[model]).mean())) for model in others)]
    spent = [f"seconds of a fit, {seconds[OURS].mean():.1f}", "", *(f"{seconds[model].mean():.1f}" for model in others)]
    return markdown_table(["set", "rflaf", *others], [*lines, mean, spent])


if __name__ == "__main__":
    main()
