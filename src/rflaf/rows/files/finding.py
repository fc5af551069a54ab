"""Which files a table is in: a path, a folder, a pattern or a list of them, all of one kind."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rflaf.errors import InvalidParameterError

_PARQUET, _CSV, _NUMPY = (".parquet", ".pq", ".parq"), (".csv", ".tsv", ".csv.gz", ".tsv.gz"), (".npy",)


@dataclass(frozen=True)
class Table:
    """Files of one table, and which of their columns are inputs.

    ``paths`` is a file, a folder, a pattern such as ``"data/*.parquet"`` or a list of them, all of one kind;
    ``columns`` the names of the inputs in order, all columns but target and weight where it is None.

    >>> Table("data/*.parquet", columns=["age", "height"]).columns
    ['age', 'height']
    """

    paths: Any
    columns: Sequence[str] | None = None


def is_files(X: Any) -> bool:
    """Whether rows are given as files: a `Table`, a path, or a list of paths."""
    if isinstance(X, list | tuple):
        return bool(X) and all(isinstance(path, str | os.PathLike) for path in X)
    return isinstance(X, Table | str | os.PathLike)


def find_files(paths: Any) -> list[str]:
    """The files that paths, folders and patterns name, in order."""
    found: list[str] = []
    for path in paths if isinstance(paths, list | tuple) else [paths]:
        name = os.fspath(path)
        if os.path.isdir(name):
            inside = sorted(str(file) for file in Path(name).rglob("*") if str(file).endswith(_PARQUET + _CSV))
        else:
            inside = [name] if os.path.exists(name) else sorted(glob.glob(name, recursive=True))
        if not inside:
            raise InvalidParameterError(
                "X must name files that are there", name, "Check the path; a folder must hold .parquet or .csv files."
            )
        found += inside
    kinds = {kind_of(file) for file in found}
    if len(kinds) > 1:
        raise InvalidParameterError("all files of a table must be of one kind", sorted(kinds), "Name them by pattern.")
    return found


def kind_of(file: str) -> str:
    """ "Parquet", "CSV" or "NumPy", by the ending of a name."""
    for kind, endings in (("Parquet", _PARQUET), ("CSV", _CSV), ("NumPy", _NUMPY)):
        if file.lower().endswith(endings):
            return kind
    raise InvalidParameterError(
        "files must end in .parquet, .csv, .tsv or .npy", file, "Convert the file, or pass its rows as an array."
    )
