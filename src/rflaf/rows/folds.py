"""Folds: a hash of its numbers assigns every row to a fold.

The folds are the same for any order, blocks or partition of the rows, sparse or dense, and repeated rows stay together:
a row of weight two is held out as the two rows it stands for. Numbers are taken in units of the spread of their column
and with few digits, so that neither units nor, for nearly all rows, single precision move a row to another fold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from rflaf.errors import Array

from .moments import shortened

N_FOLDS = 5  # of which one is held out
_STEP = np.uint64(0x9E3779B97F4A7C15)  # odd, with well mixed bits, as are the factors below
_BITS = 12  # of a number in units of its column
_ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def folds_of(X: Any, n_folds: int, scale: Array | None = None) -> Array:
    """Return the fold of every row of ``X`` (n_rows, n_features), dense or CSR: (n_rows,), from 0 to n_folds - 1.

    ``scale`` (n_features,) is the spread of the columns, zero for constant ones; None is one.

    >>> X = np.random.default_rng(0).standard_normal((6, 2))
    >>> bool((folds_of(X[::-1], 5) == folds_of(X, 5)[::-1]).all())
    True
    """
    hashes = hashes_of(X if scale is None else _in_units(X, np.where(scale > 0, scale, 1.0)))
    return (hashes >> np.uint64(33)) % np.uint64(n_folds)


def _in_units(X: Any, scale: Array) -> Any:
    """Return rows over the scale of their columns, rounded to few binary digits."""
    if sp.issparse(X):
        return sp.csr_array((shortened(X.data / scale[X.indices], _BITS), X.indices, X.indptr), X.shape)
    return shortened(np.asarray(X, np.float64) / scale, _BITS)


def hashes_of(X: Any) -> Array:
    """Return 64 well mixed bits of every row of ``X`` (n_rows, n_features), dense or CSR: (n_rows,)."""
    if sp.issparse(X):
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        hashes = np.zeros(X.shape[0], np.uint64)
        np.add.at(hashes, rows, _mixed(X.data, X.indices))
    else:
        hashes = _mixed(X, np.arange(X.shape[1])).sum(axis=1, dtype=np.uint64)
    return _stir(hashes)


def _mixed(values: Array, columns: Array) -> Array:
    """Return well mixed bits of numbers and their columns; zero for zero, as for entries that are not stored."""
    numbers = np.ascontiguousarray(values, np.float64) + 0.0  # there is one zero only
    return _stir(_stir(numbers.view(np.uint64)) + columns.astype(np.uint64) * _STEP) * (numbers != 0)


def _stir(bits: Array) -> Array:
    """Mix bits so that every bit of the result depends on all bits given."""
    for shift, factor in _ROUNDS:
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))
