"""Prediction times of the model on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from rflaf.errors import Array
from rflaf.model.random_feature_model import RandomFeatureModel

_BATCH = 10_000
_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Speed:
    """Microseconds per row: in a batch of ``batch`` rows on one thread, alone, and alone through the estimator."""

    batch: int
    in_batch: float
    alone: float
    through_estimator: float | None


def measure_speed(model: RandomFeatureModel, X: Array, predict: Callable[[Array], Array] | None = None) -> Speed:
    """Time the model on rows ``X``, repeated to fill a batch; ``predict`` belongs to the estimator."""
    rows = [np.ascontiguousarray(row[None]) for row in np.resize(X, (64, X.shape[1]))]
    through = None if predict is None else _alone(predict, rows)
    return Speed(_BATCH, cost_in_batch(model.decision, X), _alone(model.decision, rows), through)


def cost_in_batch(predict: Callable[[Array], Any], X: Array) -> float:
    """Return microseconds per row in a batch of 10,000; the fastest of several calls excludes the load of others.

    Rows ``X`` are repeated to fill the batch.
    """
    batch = np.ascontiguousarray(np.resize(X, (_BATCH, X.shape[1])))
    return min(_times(lambda: predict(batch))) / _BATCH * 1e6


def _alone(call: Callable[[Array], Any], rows: list[Array]) -> float:
    """Return microseconds of a call for one row, in the median round over all ``rows``."""
    return float(np.median(_times(lambda: [call(row) for row in rows]))) / len(rows) * 1e6


def _times(call: Callable[[], Any]) -> list[float]:
    """Return seconds of several calls, after one warm-up call."""
    call()
    times: list[float] = []
    begun = perf_counter()
    while len(times) < 3 or perf_counter() - begun < _SECONDS:
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return times
