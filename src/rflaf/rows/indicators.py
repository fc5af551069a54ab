"""Codes of levels as indicators: one column per level, for models that know numbers only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rflaf.errors import Array

from .blocks import Block, SourceView


@dataclass(frozen=True, slots=True)
class Indicators(SourceView):
    """A source whose categories, of ``levels`` each, have one column per level; numbers, of none, stay."""

    levels: tuple[int, ...] = ()

    @property
    def n_features(self) -> int:
        return int(indicator_starts(self.levels)[-1])

    def seen(self, block: Block) -> Block:
        return replace(block, X=indicators(block.X, self.levels))


def indicators(X: Array, levels: Sequence[int]) -> Array:
    """Return rows of numbers and codes (n, n_features) with one column per level.

    >>> indicators(np.array([[7.5, 1.0], [2.5, 0.0]]), (0, 3))
    array([[7.5, 0. , 1. , 0. ],
           [2.5, 1. , 0. , 0. ]])
    """
    start, rows = indicator_starts(levels), np.arange(X.shape[0])
    out = np.zeros((X.shape[0], start[-1]), X.dtype)
    for column, n_levels in enumerate(levels):
        if n_levels:
            out[rows, start[column] + X[:, column].astype(np.intp)] = 1
        else:
            out[:, start[column]] = X[:, column]
    return out


def codes_of(rows: Array, levels: Sequence[int]) -> Array:
    """Return rows of indicators as rows of codes.

    >>> codes_of(np.array([[7.5, 0.0, 1.0, 0.0], [2.5, 1.0, 0.0, 0.0]]), (0, 3))
    array([[7.5, 1. ],
           [2.5, 0. ]])
    """
    start, out = indicator_starts(levels), np.empty((rows.shape[0], len(levels)), rows.dtype)
    for column, n_levels in enumerate(levels):
        own = rows[:, start[column] : start[column + 1]]
        out[:, column] = np.argmax(own, axis=1) if n_levels else own[:, 0]
    return out


def indicator_starts(levels: Sequence[int]) -> Array:
    """Return the first of the columns that each column becomes, and the number of all."""
    return np.cumsum([0, *(n_levels or 1 for n_levels in levels)])
