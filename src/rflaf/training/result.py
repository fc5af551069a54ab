"""The result of a fit."""

from __future__ import annotations

from dataclasses import dataclass

from rflaf.errors import Array, StopReason
from rflaf.functions.losses import Loss
from rflaf.model.greedy import Selection
from rflaf.model.random_feature_model import RandomFeatureModel
from rflaf.model.ridge import Remedy
from rflaf.training.solvers.leverage import Leverage
from rflaf.training.solvers.refined.encoded_rows import read
from rflaf.training.solvers.refined.search import Outliers, Trial

from .context import Fit
from .final_fit import Fitted
from .online import Terms

SAMPLE_ROWS = 2000  # to measure the importance of columns on


@dataclass(frozen=True, slots=True)
class FitResult:
    """A model and how it was found."""

    model: RandomFeatureModel
    loss: Loss
    remedy: Remedy
    terms: Terms
    alpha: float
    bandwidth: float
    trace: Array
    stop_reason: StopReason
    column_importance: Array
    leverage: Leverage | None = None
    selection: Selection | None = None
    trials: tuple[Trial, ...] = ()
    outliers: Outliers | None = None


def update_terms(fit: Fit, fitted: Fitted) -> Terms:
    """Return the terms under which later rows update the model."""
    problem = fit.problem
    return Terms(problem.loss, fitted.ridge, problem.units, problem.moments.y.weight, fit.spec.intercept)


def column_importance(fit: Fit, model: RandomFeatureModel) -> Array:
    """Return how much every column moves the model over a sample of rows, as shares (n_features,) that sum to one."""
    sample = fit.source.sample(SAMPLE_ROWS, fit.rng)
    return model.column_importance(read(sample, range(len(sample)), 1.0).X)
