"""Measures of a fitted estimator on a table with the target, read chunk by chunk."""

from __future__ import annotations

from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError
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


def metrics_of(
    y: Array, predicted: Array, classes: Array | None = None, probabilities: Array | None = None
) -> dict[str, float]:
    """Return R squared, root mean squared and mean absolute error; for classes accuracy, log-loss and AUC of two.

    Labels outside ``classes`` count as errors; log-loss and AUC are then left out.
    """
    from sklearn import metrics as measures  # slow to import, and only needed here

    if classes is None:
        return {
            "r2": float(measures.r2_score(y, predicted)) if len(y) > 1 else float("nan"),
            "rmse": float(np.sqrt(measures.mean_squared_error(y, predicted))),
            "mae": float(measures.mean_absolute_error(y, predicted)),
        }
    metrics = {"accuracy": float(measures.accuracy_score(y, predicted))}
    if probabilities is not None and np.isin(y, classes).all():
        metrics["log_loss"] = float(measures.log_loss(y, probabilities, labels=classes))
        if len(classes) == 2 and np.unique(y).size == 2:
            metrics["auc"] = float(measures.roc_auc_score(y == classes[1], probabilities[:, 1]))
    return metrics
