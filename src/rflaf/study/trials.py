"""One trial of the study, its score and its record.

A trial is a model of one width on one data set, fitted by one protocol. Trials that share everything but their width
and their way of drawing run together, so that their pool is fitted and scored once.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

from rflaf.errors import Array

from . import optimisers
from .datasets import Dataset
from .optimisers import CrossEntropy, MeanSquare

STUDY = "2"  # what a trial means: another number for another protocol, so that no run resumes from older records
BASES = ("rbf", "bspline", "bspline-published")
POOLED = ("leverage", "placebo", "without_replacement")  # drawn from a pool
_SAMPLING = ("plain", *POOLED)
SCHEMES = {
    "paper": _SAMPLING,
    "converged": _SAMPLING,
    "regimes": _SAMPLING,
    "compact": ("greedy", "per_component", "convex", "refined"),
    "reference": ("RBFSampler", "Nystroem", "LightGBM"),
}


@dataclass(frozen=True, slots=True, order=True)
class Trial:
    """Model to fit. ``basis``, ``n_centres`` and ``pool`` are "", 0 and 0 if the protocol fixes them."""

    data: str
    protocol: str
    basis: str
    n_centres: int
    scheme: str
    pool: int
    seed: int
    width: int

    @property
    def group(self) -> tuple[Any, ...]:
        """What trials that run together share: all fields but the width and, where there is a pool, the scheme."""
        scheme = "" if self.pool else self.scheme
        return (self.data, self.protocol, self.basis, self.n_centres, scheme, self.pool, self.seed)


@dataclass(frozen=True, slots=True)
class Score:
    """Test loss and accuracy (None in regression) of the last epoch, and the best values of any epoch."""

    loss: float | None
    accuracy: float | None
    best_loss: float | None
    best_accuracy: float | None


@dataclass(frozen=True, slots=True)
class Record:
    """A trial and its outcome.

    Attributes
    ----------
    diverged : whether the loss became infinite or NaN
    components : components left after duplicates were merged
    fit_seconds : processor time of this width; pool_seconds : of its pool, shared by all widths
    predict_seconds : processor time of all test rows
    spread : largest leverage score of the pool over the mean score; zero without a pool
    when, environment : of the run
    """

    trial: Trial
    score: Score
    diverged: bool
    components: int
    fit_seconds: float
    pool_seconds: float
    predict_seconds: float
    spread: float
    when: str
    environment: dict[str, str]

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Record:
        """Invert ``dataclasses.asdict``; raise ``KeyError`` or ``TypeError`` for anything else."""
        nested = {"trial": Trial(**values["trial"]), "score": Score(**values["score"])}
        return cls(**{**values, **nested})


def environment() -> dict[str, str]:
    """Return versions and machine."""
    names = ("numpy", "scipy", "scikit-learn", "numba")
    try:
        ours = version("rflaf")
    except ModuleNotFoundError:  # run from a checkout
        ours = "unknown"
    versions = {"study": STUDY, "rflaf": ours, **{name: version(name) for name in names}}
    machine = {"python": platform.python_version(), "system": platform.platform(), "processors": str(os.cpu_count())}
    return versions | machine


@dataclass(frozen=True, slots=True)
class Seconds:
    """Processor time of a fit, of its pool and of the prediction of all test rows."""

    fit: float
    pool: float
    predict: float


def record(trial: Trial, score: Score, components: int, seconds: Seconds, spread: float = 0.0) -> Record:
    """Return the record of a trial that has just ended."""
    diverged = score.loss is None or not bool(np.isfinite(score.loss))
    times = round(seconds.fit, 4), round(seconds.pool, 4), round(seconds.predict, 6)
    when = datetime.now(UTC).isoformat(timespec="seconds")
    return Record(trial, score, diverged, int(components), *times, round(spread, 4), when, environment())


def targets(data: Dataset, labels: Array) -> Array:
    """Return numbers as one column, classes as columns of zeros and ones."""
    return labels[:, None] if data.task == "regression" else (labels[:, None] == np.unique(data.y_train)).astype(float)


def judge(f: Array, data: Dataset) -> Score:
    """Score outputs: numbers, log odds of two classes, or one output per class."""
    y = targets(data, data.y_test)
    if data.task == "classification" and f.shape[1] == 1:
        f = np.hstack([np.zeros_like(f), f])
    loss: optimisers.Loss = MeanSquare() if data.task == "regression" else CrossEntropy()
    return score_of([(loss.value(f, y), accuracy(f, y))], data.task)


def score_of(trace: list[tuple[float, float]], task: str) -> Score:
    """Return the score of losses and accuracies per epoch."""
    losses, accuracies = zip(*trace, strict=True)
    if task == "regression":
        return Score(losses[-1], None, min(losses), None)
    return Score(losses[-1], accuracies[-1], min(losses), max(accuracies))


def accuracy(f: Array, y: Array) -> float:
    """Return the share of rows whose largest output is that of their class."""
    return float(np.mean(np.argmax(f, axis=1) == np.argmax(y, axis=1)))
