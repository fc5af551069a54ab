"""Measures of a fitted estimator on a table with the target, read chunk by chunk."""

from __future__ import annotations

from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.estimators.metrics import metrics_of
from rflaf.rows.files import Table
from rflaf.rows.files.chunks import read_rows


def measure(estimator: Any, table: Table) -> tuple[dict[str, float], int]:
    """Return the metrics of an estimator's predictions for a table, and the number of rows."""
    target, missing = estimator.target_encoding_, estimator.table_encoding_.missing
    gives = hasattr(estimator, "predict_proba")
    parts: list[tuple[Array, Array, Array | None]] = []
    for _, chunk in read_rows(table):
        y = target.read(chunk, missing)
        if chunk.num_rows:
            parts.append((y, estimator.predict(chunk), estimator.predict_proba(chunk) if gives else None))
    if not parts:
        raise InvalidParameterError("the table must have rows", str(table.paths), "Name another file.")
    y, predicted = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    probabilities = np.concatenate([part[2] for part in parts]) if gives else None
    return metrics_of(y, predicted, getattr(estimator, "classes_", None), probabilities), len(y)
