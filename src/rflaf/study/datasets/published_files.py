"""Files of publishers: names, addresses, checksums, where to find or download them, and their readers.

A reader returns X (n_rows, n_features), y (n_rows,) and the names of the columns.
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

_Table = tuple[Array, Array, tuple[str, ...]]
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """Published file: accepted names on disk, preferred first, and the address of the first one.

    ``checksum`` belongs to the download, None if no trustworthy one is known. ``member`` is the path in the archive.
    """

    names: tuple[str, ...]
    address: str
    checksum: str | None
    member: str | None = None


FILES = {
    "protein": PublishedFile(
        ("CASP.csv",), _UCI + "00265/CASP.csv", "4277cfcb4e91a181746cbc654f001b57951c9e6a80f4f795fdb5c807e0848f40"
    ),
    "adult": PublishedFile(
        ("adult.data",), _UCI + "adult/adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"
    ),
    "cifar10": PublishedFile(
        ("cifar-10-python.tar.gz", "cifar10.npz"),
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
    ),
    "workloads": PublishedFile(
        ("Range-Queries-Aggregates.csv",), _UCI + "00493/datasets.zip", None, "Datasets/Range-Queries-Aggregates.csv"
    ),
    "workloads-radius": PublishedFile(
        ("Radius-Queries-Count.csv", "workloads_radius_count.csv.gz"),
        _UCI + "00493/datasets.zip",
        None,
        "Datasets/Radius-Queries-Count.csv",
    ),
    "kin8nm": PublishedFile(
        ("kin8nm.csv", "kin8nm.npz"),
        "https://www.openml.org/data/get_csv/3626/dataset_2175_kin8nm.arff",
        "7b9bf0301ac936d88122557a151e1ba8f1ebc278fcf46d9f3c6d462debdbc8ad",
    ),
    "powerplant": PublishedFile(
        ("Folds5x2_pp.xlsx", "power-plant.npz"),
        _UCI + "00294/CCPP.zip",
        "cc7b2a4977c0a44e8221c91d9a7e5746b3c68186cff7e5c61c70af6432b98c7a",
        "CCPP/Folds5x2_pp.xlsx",
    ),
}


def find(name: str) -> Path:
    """Return the file of a data set from RFLAF_DATA_DIR or the cache, or download it into the cache."""
    file, folder = FILES[name], name.split("-")[0]
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
    except OSError as error:  # includes the errors of requests
        raise DataNotFoundError(
            f"the data set {name!r} is not on this computer and {file.address} cannot be reached "
            f"({type(error).__name__}). Put {file.names[0]} into FOLDER/{folder} and set RFLAF_DATA_DIR=FOLDER."
        ) from error
    except ValueError as error:  # checksum mismatch
        raise DataNotFoundError(
            f"the data set {name!r} is not what {file.address} used to send: its checksum differs. "
            f"Put {file.names[0]} into FOLDER/{folder} and set RFLAF_DATA_DIR=FOLDER."
        ) from error
    return path if file.member is None else _extract(path, file.member, cache / file.names[0])


def _download(pooch: Any, file: PublishedFile, cache: Path) -> str:
    name = file.names[0] if file.member is None else file.address.rsplit("/", 1)[1]
    path: str = pooch.retrieve(file.address, file.checksum, fname=name, path=cache, progressbar=True)
    return path


def _extract(archive: Path, member: str, target: Path) -> Path:
    """Extract one member of a zip archive; write it under another name first, so that the target is always whole."""
    if not target.exists():
        with zipfile.ZipFile(archive) as opened:
            part = target.with_suffix(".part")
            part.write_bytes(opened.read(member))
        part.replace(target)
    return target


def _protein() -> _Table:
    header, table = _read_csv(find("protein"))
    return table[:, 1:], table[:, 0], header[1:]


_ADULT = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
    "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
)  # fmt: skip
_ADULT_NUMBERS = (0, 2, 4, 10, 11, 12)


def _adult() -> _Table:
    """Return numbers, then one-hot categories without their first level; a missing value is a level."""
    lines = find("adult").read_text().splitlines()
    table = np.array([[cell.strip() for cell in line.split(",")] for line in lines if line.strip()])
    blocks, names = [table[:, _ADULT_NUMBERS].astype(np.float64)], [_ADULT[i] for i in _ADULT_NUMBERS]
    for column in (i for i in range(len(_ADULT)) if i not in _ADULT_NUMBERS):
        levels = np.unique(table[:, column])[1:]
        blocks.append((table[:, column, None] == levels).astype(np.float64))
        names += [f"{_ADULT[column]}={level}" for level in levels]
    return np.hstack(blocks), table[:, -1], tuple(names)


def _workloads() -> _Table:
    """Return range queries without their index, duplicates and rows with missing values."""
    header, table = _read_csv(find("workloads"))
    rows = np.unique(table[:, 1:], axis=0)
    rows = rows[~np.isnan(rows).any(axis=1)]
    return rows[:, :-1], rows[:, -1], header[1:-1]


def _workloads_radius() -> _Table:
    """Return radius queries: the last three columns before the count."""
    header, table = _read_csv(find("workloads-radius"))
    return table[:, -4:-1], table[:, -1], header[-4:-1]


def _kin8nm() -> _Table:
    path = find("kin8nm")
    if path.suffix == ".npz":
        return _read_npz(path)
    header, table = _read_csv(path)
    return table[:, :-1], table[:, -1], header[:-1]


def _powerplant() -> _Table:
    path = find("powerplant")
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


READERS: dict[str, Callable[[], _Table]] = {
    "protein": _protein,
    "adult": _adult,
    "workloads": _workloads,
    "workloads-radius": _workloads_radius,
    "kin8nm": _kin8nm,
    "powerplant": _powerplant,
}


def _read_csv(path: Path) -> tuple[tuple[str, ...], Array]:
    """Read header and numbers of a CSV file, plain or gzip; an empty cell is missing."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    header, _, rest = text.partition("\n")
    table = np.genfromtxt(io.StringIO(rest), delimiter=",", dtype=np.float64, ndmin=2)
    return tuple(name.strip().strip('"') for name in header.split(",")), table


def _read_npz(path: Path) -> _Table:
    with np.load(path) as arrays:
        X, y = arrays["X"], arrays["y"]
    return X, y, tuple(f"x{i}" for i in range(X.shape[1]))


class _ArrayUnpickler(pickle.Unpickler):
    """Unpickler of dicts, lists, bytes, numbers and NumPy arrays that refuses every other name."""

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
    """Read pixels (n_rows, 3072), colour by colour, and labels (n_rows,) of a pickled batch; run no code of it."""
    batch = _ArrayUnpickler(stream, encoding="bytes").load()
    return np.asarray(batch[b"data"], np.uint8), np.asarray(batch[b"labels"], np.int64)


def read_cifar10() -> tuple[Array, Array, Array, Array]:
    """Read bytes of pixels, colour by colour, and labels: X_train, y_train, X_test, y_test."""
    path = find("cifar10")
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
