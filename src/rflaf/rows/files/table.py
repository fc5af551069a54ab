"""Tables in files as users name them: which files, which of their columns, which of their rows."""

from __future__ import annotations

import glob
import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.rows.tables import MISSING, TableEncoding, TableSummary

KINDS = {
    "Parquet": (".parquet", ".pq", ".parq"),
    "CSV": (".csv", ".tsv", ".csv.gz", ".tsv.gz"),
    "NumPy": (".npy",),
    "NPZ": (".npz",),
    "Arrow": (".arrow", ".feather"),
}
_IN_FOLDERS = tuple(ending for kind in ("Parquet", "CSV", "Arrow") for ending in KINDS[kind])
_GROUPED_ROWS = 1000  # rows drawn from by one generator, about


@dataclass(frozen=True)
class RowChoice:
    """A random part of the rows, chosen while they are read, without knowing how many there are.

    With ``share`` = p/q in lowest terms (q at most 1000), exactly p of every q consecutive rows are held out; which
    ones is random and depends only on ``seed`` and the number of the row. ``held_out`` chooses these rows, its
    opposite all others.
    """

    share: float
    seed: int = 0
    held_out: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise InvalidParameterError("the share of rows to measure on must be from 0 to 1", self.share, "Use 0.2.")

    def mask(self, first: int, n_rows: int) -> Array:
        """Return which of the rows ``first`` to ``first + n_rows`` are chosen."""
        share = Fraction(self.share).limit_denominator(1000)
        n_groups = -(-_GROUPED_ROWS // share.denominator)
        pattern = np.arange(share.denominator) < share.numerator
        size, found = n_groups * share.denominator, []
        for block in range(first // size, -(-(first + n_rows) // size)):
            rng = np.random.default_rng([self.seed, block])
            found.append(rng.permuted(np.tile(pattern, (n_groups, 1)), axis=1).ravel())
        start = first % size
        held: Array = np.concatenate([*found, np.empty(0, bool)])[start : start + n_rows]
        return held if self.held_out else ~held


@dataclass(frozen=True)
class Table:
    """Files of one table, and how to read them.

    Parameters
    ----------
    paths : a file, a folder, a pattern such as ``"data/*.parquet"`` or a list of them, all of one kind
    columns : names of the inputs in order; by default all columns but target, weight and ``exclude``
    exclude : columns not to learn from
    categories : columns whose numbers are codes
    missing : texts that stand for missing values
    has_header : whether the first line of a CSV file names the columns; by default a line without numbers does
    rows : a random part of the rows; all of them by default
    read : how to read columns, by name, one of `rflaf.rows.tables.decisions.HOW` each
    encoding : of a CSV file, such as "latin-1"; by default seen from its first bytes
    drop_missing : a column, usually the target: rows where it is missing are left out

    >>> Table("data/*.parquet", columns=["age", "height"]).columns
    ['age', 'height']
    """

    paths: Any
    columns: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    categories: Sequence[str] = ()
    missing: Sequence[str] = MISSING
    has_header: bool | None = None
    rows: RowChoice | None = None
    read: Mapping[str, str] = field(default_factory=dict)
    encoding: str | None = None
    drop_missing: str | None = None


@dataclass(frozen=True)
class ScannedTable:
    """A table whose columns were summarised before; estimators take it where they take a `Table`."""

    table: Table
    summary: TableSummary
    seen: Mapping[str, tuple[int, ...]] | None = None  # state of every file when it was scanned


@dataclass(frozen=True, slots=True)
class Request:
    """Files of one kind, and what to read from them: inputs, and columns of targets and weights by name."""

    files: list[str]
    table: Table
    targets: list[str]
    weight: str | None = None
    labels: bool = False  # whether targets are labels, left as they are
    encoding: TableEncoding | None = None  # of a fit, None where it is to be learned
    summary: TableSummary | None = None  # of the columns, where they were scanned before
    seen: Mapping[str, tuple[int, ...]] | None = None  # state of every file then

    @property
    def beside(self) -> list[str]:
        """The columns read beside the inputs."""
        return distinct(*self.targets, self.weight)

    def inputs(self, names: Sequence[str]) -> list[str]:
        """Return the inputs among the columns of the files."""
        if self.encoding is not None:
            return list(self.encoding.column_names)
        others = {*self.beside, *self.table.exclude}
        chosen = self.table.columns
        inputs = list(chosen) if chosen is not None else [name for name in names if name not in others]
        both = [name for name in inputs if name in others]
        if both or not inputs:
            raise InvalidParameterError(
                "inputs must be columns other than target and weight, at least one", both or inputs, "Choose others."
            )
        return inputs


def distinct(*names: str | None) -> list[str]:
    """Return the names that are not None, each once."""
    return list(dict.fromkeys(name for name in names if name is not None))


def refuse_absent(name: str, file: str, names: Sequence[str]) -> None:
    """Refuse a file that does not have a column exactly once."""
    if names.count(name) != 1:
        raise InvalidParameterError(
            f"every file must have a column {name!r}, once",
            f"{file} with {names}",
            "Add it, or choose columns with rflaf.rows.files.Table.",
        )


def refuse_other_type(name: str, here: tuple[str, object], first: tuple[str, object]) -> None:
    """Refuse a column whose type, given with its file, is not that of the first file."""
    if here[1] != first[1]:
        raise InvalidParameterError(
            f"column {name!r} must be of one type in all files: {first[1]} in {first[0]}",
            f"{here[1]} in {here[0]}, row group 0, column {name!r}",
            "Write the files with one schema.",
        )


def is_files(X: Any) -> bool:
    """Return whether rows are given as files: a `Table`, a path, or a list of paths."""
    if isinstance(X, list | tuple):
        return bool(X) and all(isinstance(path, str | os.PathLike) for path in X)
    return isinstance(X, Table | ScannedTable | str | os.PathLike)


def find_files(paths: Any) -> list[str]:
    """Return the files that paths, folders and patterns name, in order."""
    found: list[str] = []
    for path in paths if isinstance(paths, list | tuple) else [paths]:
        name = os.fspath(path)
        if os.path.isdir(name):
            inside = sorted(str(file) for file in Path(name).rglob("*") if str(file).endswith(_IN_FOLDERS))
        else:
            inside = [name] if os.path.exists(name) else sorted(glob.glob(name, recursive=True))
        if not inside:
            raise InvalidParameterError(
                "X must name files that are there", name, "Check the path; a folder must hold .parquet or .csv files."
            )
        found += inside
    for file in found:
        refuse_streams(file)
    kinds = {kind_of(file) for file in found}
    if len(kinds) > 1:
        raise InvalidParameterError("all files of a table must be of one kind", sorted(kinds), "Name them by pattern.")
    return found


def refuse_streams(file: str | os.PathLike[str]) -> None:
    """Refuse a pipe or a device: reading it may wait for ever, and nothing can be read from it twice."""
    mode = os.stat(file).st_mode if os.path.exists(file) else stat.S_IFREG
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        remedy = "Write the rows to a file first; the commands read standard input by the name -."
        raise InvalidParameterError("a table must be in files", f"{os.fspath(file)}, a pipe or a device", remedy)


def digest_of(paths: Any) -> str:
    """Return the SHA-256 of the files that paths name, in order: their fingerprint."""
    digest = hashlib.sha256()
    for name in find_files(paths):
        with open(name, "rb") as file:
            while block := file.read(2**20):
                digest.update(block)
    return digest.hexdigest()


def kind_of(file: str | os.PathLike[str]) -> str:
    """Return the kind of a file by the ending of its name; an unknown ending is that of a CSV file.

    >>> kind_of("houses.feather"), kind_of("adult.data")
    ('Arrow', 'CSV')
    """
    name = os.fspath(file).lower()
    return next((kind for kind, endings in KINDS.items() if name.endswith(endings)), "CSV")
