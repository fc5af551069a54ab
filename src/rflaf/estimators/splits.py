"""The rows held out while choices are made, as ``groups``, ``time`` or ``cv`` of ``fit`` ask for.

Rows at random are the right ones to hold out only if new rows are like them. Where new rows belong to other groups
(patients, shops) or to a later time, rows of the same group or of later times must not be trained on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError

Splits = tuple[tuple[Array, Array], ...]
_N_FOLDS, _N_PERIODS = 5, 4


@dataclass(frozen=True, slots=True)
class Lessons:
    """A splitter whose rows to train on have targets other than those that judge the rows held out.

    ``targets`` (n_samples, n_outputs) are those of every split and, last, of all rows: what teachers say of a row may
    depend on the targets held out, unless the teachers of a split saw none of them.
    """

    splits: Splits
    targets: tuple[Array, ...]

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Array, Array]]:
        return iter(self.splits)


def splits_of(n_rows: int, y: Any, groups: Any = None, time: Any = None, cv: Any = None) -> Splits | None:
    """Return pairs of row numbers, to train on and held out; None where nothing is asked for.

    >>> splits = splits_of(6, None, groups=["a", "a", "b", "b", "c", "c"])
    >>> [held_out.tolist() for _, held_out in splits]
    [[4, 5], [2, 3], [0, 1]]
    """
    if groups is None and time is None and cv is None:
        return None
    if time is not None and (cv is not None or groups is not None):
        rule = "time makes the folds alone: groups and cv must be None beside it"
        raise InvalidParameterError(rule, cv if groups is None else "groups", "Leave the others out.")
    if time is not None:
        return _by_time(_column("time", time, n_rows))
    groups = None if groups is None else _column("groups", groups, n_rows)
    return _by_groups(groups) if cv is None else _by_splitter(cv, n_rows, y, groups)


def _column(name: str, values: Any, n_rows: int) -> Array:
    """Return one value per row."""
    column = np.asarray(values)
    if column.shape != (n_rows,):
        raise InvalidParameterError(f"{name} must have one value per row, shape ({n_rows},)", column.shape, "Check it.")
    missing = column != column if column.dtype.kind in "fmM" else np.zeros(n_rows, bool)
    if missing.any():
        raise InvalidParameterError(f"{name} must have no gaps", int(missing.sum()), "Fill them.")
    return column


def _by_groups(groups: Array) -> Splits:
    """Return folds of whole groups, of sizes as even as may be."""
    from sklearn.model_selection import GroupKFold  # slow to import, and only needed here

    n_groups = np.unique(groups).size
    if n_groups < 2:
        raise InvalidParameterError("groups must be at least two", n_groups, "Leave groups out.")
    folds = GroupKFold(min(_N_FOLDS, n_groups))
    return tuple(folds.split(np.zeros((groups.size, 1)), groups=groups))


def _by_time(time: Array) -> Splits:
    """Return periods, each held out from a model of the rows before it; rows of one moment stay together."""
    _, moment = np.unique(time, return_inverse=True)
    starts = np.quantile(moment, np.arange(1, _N_PERIODS + 1) / (_N_PERIODS + 1), method="nearest").astype(int)
    ends = np.append(starts[1:], moment.max() + 1)
    periods = [
        (np.flatnonzero(moment < start), np.flatnonzero((moment >= start) & (moment < end)))
        for start, end in zip(starts, ends, strict=True)
    ]
    splits = tuple((before, held_out) for before, held_out in periods if before.size > 1 and held_out.size)
    if not splits:
        raise InvalidParameterError(
            "time must have two rows or more before its last values",
            f"{len(time)} rows, {np.unique(time).size} different values",
            "Leave it out.",
        )
    return splits


def _by_splitter(cv: Any, n_rows: int, y: Any, groups: Array | None) -> Splits:
    """Return the splits of a splitter of scikit-learn."""
    if not callable(getattr(cv, "split", None)):
        raise InvalidParameterError("cv must be a splitter of scikit-learn", cv, "Use KFold(5, shuffle=True).")
    splits = tuple((np.asarray(a), np.asarray(b)) for a, b in cv.split(np.zeros((n_rows, 1)), y, groups))
    if not splits or any(part.size == 0 for split in splits for part in split):
        raise InvalidParameterError("cv must give rows to train on and rows to hold out", cv, "Use other settings.")
    return splits
