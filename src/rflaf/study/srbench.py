"""SRBench's black-box problems by its own protocol, for ``rflaf bench srbench``.

La Cava et al., *Contemporary Symbolic Regression Methods and their Relative Performance* (2021): regression problems of
PMLB, ten seeds, three quarters of the rows to train on, at most 10,000 of them, inputs and target standardised, the
coefficient of determination r2 on the other quarter, medians over the seeds. Every run is one line of a file of
records, appended at once, so an interrupted run resumes.
"""

from __future__ import annotations

import gzip
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from rflaf.errors import Array, InvalidParameterError, MissingExtraError
from rflaf.estimators import RFLAFRegressor

SEEDS = (23654, 15795, 860, 5390, 16850, 29910, 4426, 21962, 14423, 28020)
MOST_ROWS = 10_000
TRAIN_SHARE = 0.75


@dataclass(frozen=True, slots=True)
class Run:
    """One fit: the problem, the seed of its split, r2 on the test rows, numbers stored, seconds of processor time."""

    problem: str
    seed: int
    width: int | str
    r2: float
    size: int
    seconds: float
    rows: int
    columns: int


def split(X: Array, y: Array, seed: int) -> tuple[Array, Array, Array, Array]:
    """Return X_train, X_test, y_train and y_test as SRBench splits and standardises them.

    Of a problem of more than 10,000 rows, 10,000 training rows are drawn with replacement.
    """
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, train_size=TRAIN_SHARE, test_size=1 - TRAIN_SHARE, random_state=seed
    )
    if len(y) > MOST_ROWS:
        # SRBench seeds NumPy's global generator and draws from it; this one gives the same numbers.
        drawn = np.random.RandomState(seed).choice(np.arange(len(X_train)), size=MOST_ROWS)
        X_train, y_train = X_train[drawn], y_train[drawn]
    rows, target = StandardScaler().fit(X_train), StandardScaler().fit(y_train[:, None])
    scaled = [target.transform(values[:, None]).ravel() for values in (y_train, y_test)]
    return rows.transform(X_train), rows.transform(X_test), scaled[0], scaled[1]


Problems = dict[str, Callable[[], tuple[Array, Array]]]  # name -> how to read its rows and targets


def problems_in(folder: Path) -> Problems:
    """Return the problems of a folder of PMLB's files, NAME.tsv.gz each with a column ``target``."""
    paths = sorted(folder.glob("*.tsv.gz"))
    if not paths:
        rule = "the folder must hold problems of PMLB, NAME.tsv.gz each"
        raise InvalidParameterError(rule, str(folder), "Name another --folder, or pip install 'rflaf[bench]'.")
    return {path.name.removesuffix(".tsv.gz"): lambda path=path: read_problem(path) for path in paths}  # type: ignore[misc]


def read_problem(path: Path) -> tuple[Array, Array]:
    """Return rows and targets of one file of PMLB."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        names = file.readline().rstrip("\n").split("\t")
        table = np.loadtxt(file, delimiter="\t", ndmin=2, converters=lambda cell: float(cell or "nan"))
    at = names.index("target")
    return np.delete(table, at, axis=1), table[:, at]


def problems_of_pmlb(names: Sequence[str], cache: Path) -> Problems:
    """Return the problems of these names, read through the package ``pmlb``, which downloads them once."""
    try:
        from pmlb import fetch_data
    except ImportError:
        raise MissingExtraError("SRBench's problems", "pmlb", "bench") from None

    def reader(name: str) -> Callable[[], tuple[Array, Array]]:
        return lambda: fetch_data(name, return_X_y=True, local_cache_dir=str(cache))

    return {name: reader(name) for name in names}


def read_records(path: Path) -> list[Run]:
    """Return the runs of a file of records; a last line without an end, of a killed run, is passed over."""
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines(keepends=True)
    return [Run(**json.loads(line)) for line in lines if line.endswith(b"\n")]


def pending(problems: Problems, width: int | str, n_seeds: int, done: Sequence[Run]) -> list[tuple[str, int]]:
    """Return problems and seeds without a record, all problems on the first seed before any on the second."""
    known = {(run.problem, run.seed, run.width) for run in done}
    return [(name, seed) for seed in SEEDS[:n_seeds] for name in problems if (name, seed, width) not in known]


def carry_out(problems: Problems, runs: Sequence[tuple[str, int]], width: int | str, path: Path) -> Iterator[Run]:
    """Yield the runs, each appended to the file of records first."""
    kept = read_records(path)
    path.write_text("".join(json.dumps(asdict(run)) + "\n" for run in kept), encoding="utf-8")
    with path.open("a", encoding="utf-8") as file:
        for name, seed in runs:
            run = fit_and_score(name, *problems[name](), seed, width)
            file.write(json.dumps(asdict(run)) + "\n")
            file.flush()
            yield run


def fit_and_score(name: str, X: Array, y: Array, seed: int, width: int | str) -> Run:
    """Fit one model by the protocol and return its scores."""
    X_train, X_test, y_train, y_test = split(np.asarray(X, np.float64), np.asarray(y, np.float64), seed)
    model: Any = RFLAFRegressor(width, random_state=seed % 2**31)
    started = process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of targets that are outliers or cannot be predicted
        model.fit(X_train, y_train)
    seconds = process_time() - started
    error = np.mean((model.predict(X_test) - y_test) ** 2) / np.var(y_test)
    return Run(name, seed, width, 1 - float(error), model.model_.n_parameters, round(seconds, 3), len(y), X.shape[1])
