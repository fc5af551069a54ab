"""Files of publishers: names, addresses, checksums, and where to find or download them."""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rflaf.errors import DataNotFoundError, MissingExtraError

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
