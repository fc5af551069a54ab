"""What a refined model must not do: fall where it is to rise in a column, or join columns that are to act apart.

A model keeps the limits because each of its components does. With columns to rise or fall in, most components have a
non-decreasing activation and read these columns in their direction only, and the others do not read them; with sets of
columns, each component reads the columns of one set. Sums and means of such components keep the limits too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rflaf.errors import Array
from rflaf.functions._kernels.bounds import FREE, NO_BOUNDS, Bounds

_RISING = 0.75  # of the components, where some columns are free


@dataclass(frozen=True, slots=True)
class ColumnSet:
    """Columns that may act together: encoded columns, and how many columns of the table they are."""

    columns: tuple[int, ...]
    size: int = 1


@dataclass(frozen=True, slots=True)
class Limits:
    """``signs`` pairs a column with 1, to rise in it, or -1; ``sets`` are None where any columns may act together."""

    signs: tuple[tuple[int, int], ...] = ()
    sets: tuple[ColumnSet, ...] | None = None

    def __bool__(self) -> bool:
        return bool(self.signs) or self.sets is not None

    def bounds(self, columns: Array, width: int, padded: int) -> Bounds:
        """Return the bounds of ``width`` components that read ``columns``, in their order."""
        if not self:
            return NO_BOUNDS
        sign = np.full((columns.size, padded), FREE, np.int8)
        if self.sets is not None:
            sign[:, :width] = np.where(_read(self.sets, columns, width), FREE, 0)
        rises = np.zeros(padded, bool)
        rises[:width] = self._bound_signs(sign[:, :width], columns)
        return NO_BOUNDS._replace(sign=sign, rises=rises)

    def _bound_signs(self, sign: Array, columns: Array) -> Array:
        """Bound the columns to rise or fall in; return which components rise."""
        wanted = dict(self.signs)
        direction = np.array([wanted.get(int(column), 0) for column in columns], np.int8)
        read = sign != 0
        able, free = (read & (direction != 0)[:, None]).any(axis=0), (read & (direction == 0)[:, None]).any(axis=0)
        rises = able.copy()
        both = np.flatnonzero(able & free)  # spread evenly: neighbours may serve the same set
        rises[both] = np.floor(np.arange(1, both.size + 1) * _RISING) > np.floor(np.arange(both.size) * _RISING)
        signed = np.where(rises, direction[:, None], 0)
        sign[...] = np.where(read & (direction != 0)[:, None], signed, sign)
        return rises


def _read(sets: tuple[ColumnSet, ...], columns: Array, width: int) -> Array:
    """Return which component reads which column, (n_columns, width): sets of more columns have more components."""
    used = [one for one in sets if np.isin(one.columns, columns).any()]
    if not used:
        return np.zeros((columns.size, width), bool)
    share = np.cumsum([0.0, *(float(one.size) ** 2 for one in used)])
    extra = width - len(used)
    ends = np.round(share / share[-1] * max(extra, 0)).astype(int) + np.arange(len(used) + 1)
    of_component = np.searchsorted(ends, np.arange(width), side="right") - 1
    members = np.array([np.isin(columns, one.columns) for one in used])
    return members[np.minimum(of_component, len(used) - 1)].T


def bounded_start(W: Array, bounds: Bounds) -> Array:
    """Return random directions (n_columns, n_components) that keep the bounds: signs are turned, not cut."""
    if not bounds.rises.size:
        return W
    sign = bounds.sign[:, : W.shape[1]]
    return np.where(sign == FREE, W, sign * np.abs(W))
