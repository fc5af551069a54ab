"""Predictions for Dask collections: lazy arrays with the partitions of the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.rows.executors import SingleThreadedBLAS

from .collections import as_array, dtype_of, known_rows, length_of, meta_of, names_of, partitions_of, whole_rows
from .graph import Given, load_payload, require_dask


def predict_lazily(answer: Callable[[Any], Array], X: Any, out: Any = None) -> Any:
    """Return ``answer`` of every partition of ``X`` as one lazy array with the partitions of ``X``."""
    if out is not None:
        raise InvalidParameterError(
            "out must be None for Dask collections, whose answers are lazy",
            type(out).__name__,
            "Write them with dask.array.store.",
        )
    import cloudpickle
    import dask.array

    da: Any = dask.array
    X = whole_rows(X, "X")
    meta = meta_of(X)
    dtype = dtype_of(meta)
    pattern = answer(_one_row(meta, dtype))  # also refuses columns other than those of the fit
    parts = partitions_of(X)
    rows = known_rows(X) or (np.nan,) * len(parts)
    delayed = require_dask().delayed
    payload = delayed(Given(cloudpickle.dumps((answer, dtype, pattern[:0]))), traverse=False)
    lazy = [
        da.from_delayed(delayed(_answer_part)(part, payload), (n_rows, *pattern.shape[1:]), meta=pattern[:0])
        for part, n_rows in zip(parts, rows, strict=True)
    ]
    return da.concatenate(lazy, allow_unknown_chunksizes=True)


def _one_row(meta: Any, dtype: np.dtype[Any]) -> Any:
    """Return a row of zeros with the columns of X."""
    zeros = np.zeros((1, len(names_of(meta))), dtype)
    return type(meta)(zeros, columns=meta.columns) if hasattr(meta, "columns") else zeros


def _answer_part(part: Any, payload: Given) -> Array:
    answer, dtype, nothing = load_payload(payload)
    if length_of(part) == 0:
        return nothing
    with SingleThreadedBLAS():
        return answer(part if hasattr(part, "columns") else as_array(part, dtype))
