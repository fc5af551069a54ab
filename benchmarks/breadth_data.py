"""The data sets of breadth.py: where they lie, which half they belong to, how their rows are split.

Four kinds: SRBench's black-box problems (RFLAF_DATA_DIR/pmlb/NAME.tsv.gz, column `target`), tables as they come
(RFLAF_DATA_DIR/tables/{reg,bin,multi}-NAME.parquet, column `target`), those of scikit-learn, and the paper's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import LabelEncoder
from tables import FOLDER, READERS, REGRESSION

from rflaf.study import srbench

TASKS = {"reg": "regression", "bin": "binary", "multi": "multi-class"}
HALVES = ("choose", "report")
SAME_ROWS = {  # a set -> the one whose rows it repeats, and whose half it therefore joins
    "pmlb/230_machine_cpu": "pmlb/561_cpu",
    "tables/reg-cpu_act": "pmlb/197_cpu_act",
    "sklearn/california": "pmlb/537_houses",
}

Table = tuple[Any, np.ndarray]  # rows, as an array or a frame, and their targets; classes are whole numbers from 0


@dataclass(frozen=True)
class Split:
    """Rows to fit and rows to test."""

    X_train: Any
    X_test: Any
    y_train: np.ndarray
    y_test: np.ndarray


@dataclass(frozen=True)
class Protocol:
    """How the sets of a kind are split, the measure of their regressions, and what stands for all seeds."""

    seeds: tuple[int, ...]
    split: Callable[[Table, str, int], Split]
    measure: str
    average: Callable[[Sequence[float]], float]


@dataclass(frozen=True)
class Problem:
    """One data set; `read` gives its table."""

    kind: str
    name: str
    task: str
    half: str
    read: Callable[[], Table]

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.name}"

    def split(self, table: Table, seed: int) -> Split:
        return PROTOCOLS[self.kind].split(table, self.task, seed)


def srbench_split(table: Table, task: str, seed: int) -> Split:
    """SRBench's split; of a set of more than 10,000 rows, 10,000 training rows are drawn with replacement."""
    return Split(*srbench.split(*table, seed))


def plain_split(test_size: float) -> Callable[[Table, str, int], Split]:
    """A share of the rows for the test, the same share of every class."""

    def split(table: Table, task: str, seed: int) -> Split:
        classes = None if task == "regression" else table[1]
        return Split(*train_test_split(*table, test_size=test_size, random_state=seed, stratify=classes))

    return split


def paper_split(table: Table, task: str, seed: int) -> Split:
    """The split of compact.py and classification.py: a fifth for the test, not stratified."""
    return Split(*train_test_split(*table, test_size=0.2, random_state=seed))


PROTOCOLS = {
    "pmlb": Protocol(srbench.SEEDS, srbench_split, "1 - r2", np.median),
    "tables": Protocol((0, 1), plain_split(1 / 3), "RMSE", np.mean),
    "sklearn": Protocol((0, 1), plain_split(1 / 3), "RMSE", np.mean),
    "paper": Protocol((0, 1, 2), paper_split, "MSE / variance", np.mean),
}


def halves(names: Iterable[str]) -> dict[str, str]:
    """The half of every name: the first in sorted order is for choices, the second for reports, and so on."""
    return {name: HALVES[number % 2] for number, name in enumerate(sorted(names))}


def _read_frame(path: Path, task: str) -> Table:
    table = pd.read_parquet(path)
    target = table.pop("target").to_numpy()
    return table, target.astype(np.float64) if task == "regression" else LabelEncoder().fit_transform(target)


def _read_paper(name: str) -> Table:
    """The table as compact.py and classification.py have it: a standardised target, or classes."""
    X, y = READERS[name]()
    if name in REGRESSION:
        return X.astype(np.float32), (y - y.mean()) / y.std()
    return X, LabelEncoder().fit_transform(y)


def _california() -> Table:
    return datasets.fetch_california_housing(return_X_y=True, download_if_missing=False)


SKLEARN: dict[str, tuple[str, Callable[[], Table]]] = {  # Friedman's noise: a third of the signal's deviation or less
    "breast_cancer": ("binary", lambda: datasets.load_breast_cancer(return_X_y=True)),
    "california": ("regression", _california),
    "diabetes": ("regression", lambda: datasets.load_diabetes(return_X_y=True)),
    "digits": ("multi-class", lambda: datasets.load_digits(return_X_y=True)),
    "friedman1": ("regression", lambda: datasets.make_friedman1(500, noise=1.0, random_state=1)),
    "friedman2": ("regression", lambda: datasets.make_friedman2(500, noise=125.0, random_state=1)),
    "friedman3": ("regression", lambda: datasets.make_friedman3(500, noise=0.1, random_state=1)),
    "iris": ("multi-class", lambda: datasets.load_iris(return_X_y=True)),
    "wine": ("multi-class", lambda: datasets.load_wine(return_X_y=True)),
}
PAPER = ("adult", *REGRESSION)


def _pmlb(folder: Path) -> list[Problem]:
    paths = {path.name.removesuffix(".tsv.gz"): path for path in folder.glob("pmlb/*.tsv.gz")}
    return [
        Problem("pmlb", name, "regression", half, lambda path=paths[name]: srbench.read_problem(path))
        for name, half in halves(paths).items()
    ]


def _tables(folder: Path) -> list[Problem]:
    paths = {path.stem: path for path in folder.glob("tables/*.parquet")}
    found = []
    for name, half in halves(paths).items():
        task = TASKS.get(name.split("-")[0])
        if task is None:
            raise SystemExit(f"{paths[name]}: the name of a table begins with reg-, bin- or multi-")
        found.append(Problem("tables", name, task, half, lambda path=paths[name], task=task: _read_frame(path, task)))
    return found


def _on_disk(name: str) -> bool:
    """Whether a set of scikit-learn is here; california is the only one that may have to be fetched."""
    try:
        return name != "california" or bool(_california())
    except OSError:
        return False


def _sklearn() -> list[Problem]:
    return [
        Problem("sklearn", name, SKLEARN[name][0], half, SKLEARN[name][1])
        for name, half in halves(SKLEARN).items()
        if _on_disk(name)
    ]


def _paper(folder: Path) -> list[Problem]:
    return [
        Problem(
            "paper", name, "regression" if name in REGRESSION else "binary", half, lambda name=name: _read_paper(name)
        )
        for name, half in halves(PAPER).items()
        if (folder / name.split("-")[0]).is_dir()
    ]


def together(problems: Sequence[Problem]) -> list[Problem]:
    """The problems, those that repeat the rows of another in its half: no choice has seen the rows of a report."""
    half = {problem.key: problem.half for problem in problems}
    return [replace(item, half=half.get(SAME_ROWS.get(item.key, item.key), item.half)) for item in problems]


def found(kinds: Iterable[str]) -> list[Problem]:
    """Every data set of some kinds that lies on this machine; nothing is fetched or made up in its place."""
    folder = FOLDER if os.environ.get("RFLAF_DATA_DIR") else Path("no folder of data")
    every = together([*_pmlb(folder), *_tables(folder), *_sklearn(), *_paper(folder)])
    return [problem for kind in kinds for problem in every if problem.kind == kind]
