"""Sizes and numbers that the compiled loops share with their callers, free of numba."""

from __future__ import annotations

from typing import Any

import numpy as np

TILE_COMPONENTS = 4  # components per register tile
TILE_VECTORS = 3  # row vectors per register tile: 4 x 3 accumulators fill 12 of 16 vector registers
BLOCK_VECTORS = 2  # vectors of components that serve a whole tile of rows before the next
FARTHEST = 1e6  # cells beyond the outer nodes at which a straight line ends
HUBER, PINBALL, LOGISTIC, SQUARED_HINGE, SOFTMAX, POISSON, TWEEDIE = range(7)  # losses


def lanes(dtype: Any) -> int:
    """Return the number of elements in one vector of ``dtype``."""
    return 32 // np.dtype(dtype).itemsize


def packed(*arrays: Any) -> Any:
    """Return address and shape of every array, one after the other: as one argument they are passed ten times faster.

    Whoever passes it keeps the arrays. Numbers are of the dtype of the rows, whole numbers int64; all are contiguous.
    """
    for array in arrays:
        if not array.flags.c_contiguous or (array.dtype.kind != "f" and array.dtype != np.int64):
            raise ValueError(f"arrays must be contiguous, of numbers or int64; got {array.dtype}")
    return np.array([number for array in arrays for number in (array.ctypes.data, *array.shape)], np.int64)
