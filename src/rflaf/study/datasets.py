"""Public data sets, as the paper's experiments use them, and targets of the paper's own class.

>>> load("teacher", random_state=0).X_train.shape
(8000, 6)

A file is looked for in ``RFLAF_DATA_DIR/<data set>/``, then in the user's cache, and downloaded there if it is not in
either (extra ``datasets``). Files keep the names their publishers gave them; nothing in them is ever executed.

| name | rows | columns | target | publisher |
| --- | --- | --- | --- | --- |
| protein | 45,730 | 9 | RMSD of a decoy | UCI 265 |
| adult | 32,561 | 100, one-hot | income above 50,000 | UCI 2, `adult.data` only |
| cifar10 | 50,000 + 10,000 | 3,072 | ten classes | Toronto |
| workloads | 200,000 | 6 | average of a range query | UCI 493, range queries |
| workloads-radius | 10,000 | 3 | count of a radius query | UCI 493, radius queries |
| kin8nm | 8,192 | 8 | distance of a robot arm | Delve, through OpenML |
| powerplant | 9,568 | 4 | energy output | UCI 294 |
| teacher | 10,000 | 6 | f*(x) = E_w[sigma(w.x) v(w)] plus noise | drawn here, the truth is known |

Two ways of preparing them:

- ``"paper"``: numbers standardised over *all* rows, then all inputs divided by 10 (7.5 for workloads); targets divided
  by 10 (100 for workloads), or standardised where the paper has no such data. CIFAR-10 pixels are (x/255 - 1/2) / 65.
  The scaler sees the test rows, as in the published experiments.
- ``"standard"``: inputs and numeric targets standardised by the training rows; pixels by channel.

Indicators of a category are not standardised. Both split the same rows: 80 % to fit and 20 % to test by one fixed seed;
CIFAR-10 comes split.
"""

from __future__ import annotations

import gzip
import io
import os
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rflaf.errors import Array, DataNotFoundError, InvalidParameterError, MissingExtraError
from rflaf.functions.densities import Density, resolve_density

PREPROCESSINGS = ("paper", "standard")
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
_TEST_SHARE = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """A data set split into rows to fit and rows to test.

    Attributes
    ----------
    name, preprocessing : what was asked for
    task : "regression" or "classification"
    X_train, X_test : (n_rows, n_features), float32
    y_train, y_test : (n_rows,), float64 targets or labels
    columns : n_features names
    truth : the function the targets were drawn from, without noise; None where nobody knows it
    """

    name: str
    preprocessing: str
    task: str
    X_train: Array
    y_train: Array
    X_test: Array
    y_test: Array
    columns: tuple[str, ...]
    truth: Teacher | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Teacher:
    """A function of the paper's target class over a spectrum of many equal atoms: f*(x) = mean_j sigma(w_j . x) v_j.

    Attributes
    ----------
    W : (n_features, n_atoms); v : (n_atoms,) with mean square one; activation : sigma
    """

    W: Array
    v: Array
    activation: Callable[[Array], Array]

    def __call__(self, X: Array) -> Array:
        """f* at rows ``X`` (n_rows, n_features): (n_rows,)."""
        parts = np.array_split(np.asarray(X, np.float64), max(1, len(X) // 500))
        return np.concatenate([self.activation(part @ self.W) @ self.v for part in parts]) / self.v.size


def wave(z: Array) -> Array:
    """A damped wave, zero outside [-3, 3]."""
    return np.sin(3 * z) * np.maximum(1 - np.abs(z) / 3, 0)


def triangle(z: Array) -> Array:
    """The hat of height one on [-1, 1]."""
    return np.maximum(1 - np.abs(z), 0)


def bump(z: Array) -> Array:
    """The smooth bump (1 - z^2/4)^3 on [-2, 2]."""
    return np.maximum(1 - z**2 / 4, 0) ** 3


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"wave": wave, "triangle": triangle, "bump": bump}


def load(name: str, preprocessing: str = "paper", *, random_state: int = 0) -> Dataset:
    """A data set by name, prepared and split; ``random_state`` fixes the split (and all of ``teacher``).

    >>> load("protien")
    Traceback (most recent call last):
    rflaf.errors.InvalidParameterError: the data set must be one of 'protein', 'adult', 'cifar10', 'workloads',
    'workloads-radius', 'kin8nm', 'powerplant', 'teacher'; got 'protien'. Pass one of these names.
    """
    if name not in NAMES:
        raise InvalidParameterError(
            f"the data set must be one of {', '.join(map(repr, NAMES))}", name, "Pass one of these names."
        )
    if preprocessing not in PREPROCESSINGS:
        raise InvalidParameterError(
            "preprocessing must be 'paper' or 'standard'", preprocessing, "Use 'paper' to compare with the paper."
        )
    if name == "teacher":
        return teacher(preprocessing=preprocessing, random_state=random_state)
    if name == "cifar10":
        return _pixels(preprocessing, *_cifar10())
    X, y, columns = _READERS[name]()
    return _prepare(name, preprocessing, X, y, columns, random_state)


def teacher(
    n_samples: int = 10_000,
    n_features: int = 6,
    *,
    activation: str | Callable[[Array], Array] = "wave",
    spectrum: str | Density = "gaussian",
    n_atoms: int = 1_000,
    noise: float = 0.05,
    preprocessing: str = "standard",
    random_state: int = 0,
) -> Dataset:
    """Rows of the paper's target class, f*(x) = E_w[sigma(w.x) v(w)], with x ~ N(0, I) and the truth known.

    w follows the density ``spectrum`` divided by sqrt(n_features), so that w . x has unit spread for a Gaussian one;
    ``n_atoms`` draws of it are the spectrum. v(w) is a Lipschitz wave along a random axis, of mean square one.
    ``noise`` is in standard deviations of f*. Targets are divided by the standard deviation of f* under either
    preprocessing, inputs are left as drawn.

    >>> data = teacher(100, 2, activation="triangle", noise=0.0)
    >>> bool(np.allclose(data.truth(data.X_test), data.y_test, atol=1e-5))
    True
    """
    if isinstance(activation, str) and activation not in ACTIVATIONS:
        raise InvalidParameterError(
            f"activation must be one of {', '.join(map(repr, ACTIVATIONS))}, or a function", activation, "Use 'wave'."
        )
    sigma = ACTIVATIONS[activation] if isinstance(activation, str) else activation
    rng = np.random.default_rng(random_state)
    X = rng.standard_normal((n_samples, n_features)).astype(np.float32)
    W = resolve_density(spectrum).sample(n_features, n_atoms, rng) / np.sqrt(n_features)
    axis = rng.standard_normal(n_features)
    v = np.sin(2 * axis @ W + rng.uniform(0, 2 * np.pi))
    v /= np.sqrt(np.mean(v**2))
    f = Teacher(W, v, sigma)(X)
    truth = Teacher(W, v / f.std(), sigma)
    y = f / f.std() + noise * rng.standard_normal(n_samples)
    train, test = _split(n_samples, random_state)
    names = tuple(f"x{i}" for i in range(n_features))
    return Dataset("teacher", preprocessing, "regression", X[train], y[train], X[test], y[test], names, truth)


# --- files ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _File:
    """A publisher's file: names it may have on disk, best first, and where to get the first one.

    ``checksum`` is of the download, None where no trustworthy one is known. ``member`` is its path in the archive.
    """

    names: tuple[str, ...]
    address: str
    checksum: str | None
    member: str | None = None


_FILES = {
    "protein": _File(
        ("CASP.csv",), _UCI + "00265/CASP.csv", "4277cfcb4e91a181746cbc654f001b57951c9e6a80f4f795fdb5c807e0848f40"
    ),
    "adult": _File(
        ("adult.data",), _UCI + "adult/adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"
    ),
    "cifar10": _File(
        ("cifar-10-python.tar.gz", "cifar10.npz"),
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
    ),
    "workloads": _File(
        ("Range-Queries-Aggregates.csv",),
        _UCI + "00493/datasets.zip",
        None,
        "Datasets/Range-Queries-Aggregates.csv",
    ),
    "workloads-radius": _File(
        ("Radius-Queries-Count.csv", "workloads_radius_count.csv.gz"),
        _UCI + "00493/datasets.zip",
        None,
        "Datasets/Radius-Queries-Count.csv",
    ),
    "kin8nm": _File(
        ("kin8nm.csv", "kin8nm.npz"),
        "https://www.openml.org/data/get_csv/3626/dataset_2175_kin8nm.arff",
        "7b9bf0301ac936d88122557a151e1ba8f1ebc278fcf46d9f3c6d462debdbc8ad",
    ),
    "powerplant": _File(
        ("Folds5x2_pp.xlsx", "power-plant.npz"),
        _UCI + "00294/CCPP.zip",
        "cc7b2a4977c0a44e8221c91d9a7e5746b3c68186cff7e5c61c70af6432b98c7a",
        "CCPP/Folds5x2_pp.xlsx",
    ),
}
NAMES = (*_FILES, "teacher")


def _find(name: str) -> Path:
    """The file of a data set: of RFLAF_DATA_DIR, of the cache, or downloaded into the cache."""
    file, folder = _FILES[name], name.split("-")[0]
    given = os.environ.get("RFLAF_DATA_DIR")
    for candidate in file.names if given else ():
        path = Path(str(given)) / folder / candidate
        if path.is_file():
            return path
    try:
        import pooch
        import tqdm  # noqa: F401  pooch shows progress with it
    except ImportError as error:
        raise MissingExtraError("downloads of data sets", "pooch and tqdm", "datasets") from error
    cache = Path(pooch.os_cache("rflaf")) / folder
    try:
        path = Path(_download(pooch, file, cache))
    except OSError as error:  # requests' errors are too
        raise DataNotFoundError(
            f"the data set {name!r} is not on this computer and {file.address} cannot be reached "
            f"({type(error).__name__}). Put {file.names[0]} into FOLDER/{folder} and set RFLAF_DATA_DIR=FOLDER."
        ) from error
    except ValueError as error:  # a checksum that differs
        raise DataNotFoundError(
            f"the data set {name!r} is not what {file.address} used to send: its checksum differs. "
            f"Put {file.names[0]} into FOLDER/{folder} and set RFLAF_DATA_DIR=FOLDER."
        ) from error
    return path if file.member is None else _extract(path, file.member, cache / file.names[0])


def _download(pooch: Any, file: _File, cache: Path) -> str:
    name = file.names[0] if file.member is None else file.address.rsplit("/", 1)[1]
    path: str = pooch.retrieve(file.address, file.checksum, fname=name, path=cache, progressbar=True)
    return path


def _extract(archive: Path, member: str, target: Path) -> Path:
    """One member of a zip archive beside it; written under another name first, so that it is whole or not there."""
    if not target.exists():
        with zipfile.ZipFile(archive) as opened:
            part = target.with_suffix(".part")
            part.write_bytes(opened.read(member))
        part.replace(target)
    return target


# --- readers: X (n_rows, n_features), y (n_rows,) and the names of the columns --------------------------------

_Table = tuple[Array, Array, tuple[str, ...]]


def _protein() -> _Table:
    header, table = _read_csv(_find("protein"))
    return table[:, 1:], table[:, 0], header[1:]


_ADULT = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
    "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
)  # fmt: skip
_ADULT_NUMBERS = (0, 2, 4, 10, 11, 12)


def _adult() -> _Table:
    """Numbers, then categories one-hot without their first level; a missing value is a level of its own."""
    lines = _find("adult").read_text().splitlines()
    table = np.array([[cell.strip() for cell in line.split(",")] for line in lines if line.strip()])
    blocks, names = [table[:, _ADULT_NUMBERS].astype(np.float64)], [_ADULT[i] for i in _ADULT_NUMBERS]
    for column in (i for i in range(len(_ADULT)) if i not in _ADULT_NUMBERS):
        levels = np.unique(table[:, column])[1:]
        blocks.append((table[:, column, None] == levels).astype(np.float64))
        names += [f"{_ADULT[column]}={level}" for level in levels]
    return np.hstack(blocks), table[:, -1], tuple(names)


def _workloads() -> _Table:
    """Range queries: without their numbers, equal rows once, rows with a missing value left out."""
    header, table = _read_csv(_find("workloads"))
    rows = np.unique(table[:, 1:], axis=0)
    rows = rows[~np.isnan(rows).any(axis=1)]
    return rows[:, :-1], rows[:, -1], header[1:-1]


def _workloads_radius() -> _Table:
    """Radius queries: the last three columns before the count."""
    header, table = _read_csv(_find("workloads-radius"))
    return table[:, -4:-1], table[:, -1], header[-4:-1]


def _kin8nm() -> _Table:
    path = _find("kin8nm")
    if path.suffix == ".npz":
        return _read_npz(path)
    header, table = _read_csv(path)
    return table[:, :-1], table[:, -1], header[:-1]


def _powerplant() -> _Table:
    path = _find("powerplant")
    if path.suffix == ".npz":
        return _read_npz(path)
    try:
        import openpyxl
    except ImportError as error:
        raise MissingExtraError("spreadsheets", "openpyxl", "datasets") from error
    book = openpyxl.load_workbook(path, read_only=True)
    header, *rows = book.worksheets[0].iter_rows(values_only=True)
    book.close()
    table = np.array(rows, np.float64)
    return table[:, :-1], table[:, -1], tuple(map(str, header[:-1]))


_READERS: dict[str, Callable[[], _Table]] = {
    "protein": _protein,
    "adult": _adult,
    "workloads": _workloads,
    "workloads-radius": _workloads_radius,
    "kin8nm": _kin8nm,
    "powerplant": _powerplant,
}


def _read_csv(path: Path) -> tuple[tuple[str, ...], Array]:
    """Header and numbers of a CSV file, perhaps compressed; an empty cell is missing."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    header, _, rest = text.partition("\n")
    table = np.genfromtxt(io.StringIO(rest), delimiter=",", dtype=np.float64, ndmin=2)
    return tuple(name.strip().strip('"') for name in header.split(",")), table


def _read_npz(path: Path) -> _Table:
    with np.load(path) as arrays:
        X, y = arrays["X"], arrays["y"]
    return X, y, tuple(f"x{i}" for i in range(X.shape[1]))


# --- CIFAR-10 ------------------------------------------------------------------------------------------------


class _ArrayUnpickler(pickle.Unpickler):
    """Reads pickled dicts, lists, bytes, numbers and NumPy arrays; any other name a pickle asks for is refused."""

    _ALLOWED: ClassVar = {
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ALLOWED:
            raise InvalidParameterError(
                "a pickled batch of CIFAR-10 may hold arrays and plain values only",
                f"{module}.{name}",
                "Nothing of it was run. Fetch the file anew from its publisher.",
            )
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def read_batch(stream: Any) -> tuple[Array, Array]:
    """Pixels (n_rows, 3072), colour by colour, and labels (n_rows,) of a pickled batch, without running code of it."""
    batch = _ArrayUnpickler(stream, encoding="bytes").load()
    return np.asarray(batch[b"data"], np.uint8), np.asarray(batch[b"labels"], np.int64)


def _cifar10() -> tuple[Array, Array, Array, Array]:
    """Bytes of pixels, colour by colour, and labels: X_train, y_train, X_test, y_test."""
    path = _find("cifar10")
    if path.suffix == ".npz":
        with np.load(path) as a:
            rows = [a[key].transpose(0, 3, 1, 2).reshape(len(a[key]), -1) for key in ("X_train", "X_test")]
            return rows[0], a["y_train"].astype(np.int64), rows[1], a["y_test"].astype(np.int64)
    batches = {}
    with tarfile.open(path) as archive:
        for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
            stream = archive.extractfile(f"cifar-10-batches-py/{name}")
            batches[name] = read_batch(stream)
    X_test, y_test = batches.pop("test_batch")
    X, y = (np.concatenate(parts) for parts in zip(*batches.values(), strict=True))
    return X, y, X_test, y_test


def _pixels(preprocessing: str, X: Array, y: Array, X_test: Array, y_test: Array) -> Dataset:
    parts = [rows.astype(np.float32) / np.float32(255) for rows in (X, X_test)]
    if preprocessing == "paper":
        parts = [(rows - np.float32(0.5)) / np.float32(65) for rows in parts]
    else:
        by_colour = parts[0].reshape(len(X), 3, -1)
        center, scale = (np.repeat(f(by_colour, axis=(0, 2)), by_colour.shape[2]) for f in (np.mean, np.std))
        parts = [(rows - center) / scale for rows in parts]
    names = tuple(f"{colour}{i}" for colour in "rgb" for i in range(X.shape[1] // 3))
    return Dataset("cifar10", preprocessing, "classification", parts[0], y, parts[1], y_test, names)


# --- preparation ---------------------------------------------------------------------------------------------

_DIVISORS = {  # of inputs and target
    "protein": (10.0, 10.0),
    "workloads": (7.5, 100.0),
    "workloads-radius": (7.5, 100.0),
}


def _split(n_rows: int, random_state: int) -> tuple[Array, Array]:
    """Numbers of the rows to fit and of those to test."""
    order = np.random.default_rng(random_state).permutation(n_rows)
    n_test = round(_TEST_SHARE * n_rows)
    return order[n_test:], order[:n_test]


def _prepare(name: str, preprocessing: str, X: Array, y: Array, columns: tuple[str, ...], random_state: int) -> Dataset:
    train, test = _split(len(X), random_state)
    numeric, as_published = y.dtype.kind == "f", preprocessing == "paper" and name in _DIVISORS
    seen = slice(None) if preprocessing == "paper" else train
    X = _standardise(X, seen)
    x_divisor, y_divisor = _DIVISORS.get(name, (10.0, 1.0))
    if numeric:
        y = y / y_divisor if as_published else _standardise(y[:, None], seen)[:, 0]
    X = (X / x_divisor if preprocessing == "paper" else X).astype(np.float32)
    task = "regression" if numeric else "classification"
    return Dataset(name, preprocessing, task, X[train], y[train], X[test], y[test], columns)


def _standardise(X: Array, seen: Any) -> Array:
    """Columns minus mean over standard deviation, both of the rows ``seen``; indicators stay, constants become zero."""
    center, scale = X[seen].mean(axis=0), X[seen].std(axis=0)
    constant = scale <= 8 * np.finfo(np.float64).eps * np.abs(center)
    indicator = np.all((X == 0) | (X == 1), axis=0) & ~constant
    moved = np.where(constant, 0.0, X - np.where(indicator, 0.0, center))
    return moved / np.where(indicator | constant, 1.0, scale)
