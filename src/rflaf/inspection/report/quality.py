"""Comparison of the model with common baselines, and prediction times on this machine.

Baselines are fitted on the rows that the model was fitted on. Where these are not known, no baseline is fitted and no
lead is stated.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rflaf.errors import Array
from rflaf.estimators.metrics import Score
from rflaf.functions.losses import Loss
from rflaf.model.random_feature_model import RandomFeatureModel

from .offset_rivals import BesideOffset
from .quantile_rivals import ErrorQuantiles, ModelPerQuantile
from .uncertainty import Scoring, resample

_MOST_ROWS = 200_000  # to fit baselines on
_MOSTLY = 0.99  # share of scored rows among those of the fit from which on they are taken for the same
_MOST_WEIGHTS = 600
_BATCH = 10_000
_TREES = "LightGBM, 100 trees"
_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Rival:
    """A model, its scores, of which the first decides, their bootstrap draws, and its microseconds per row.

    ``draws`` is (n_draws, n_scores); the rows of every draw are the same for all models of a page.
    """

    name: str
    scores: tuple[Score, ...]
    draws: Array
    microseconds: float
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """What is predicted: one of ``n_classes`` classes, or else ``levels`` of quantiles, or else a mean.

    ``beside`` is the loss under which rows have an offset, as a last column; None where they have none.
    """

    n_classes: int | None = None
    levels: tuple[float, ...] = ()
    beside: Loss | None = None


def usual_models(task: Task, n_features: int, width: int) -> dict[str, Any]:
    """Return unfitted baselines: a constant, a linear model, random Fourier features, boosted trees."""
    n_classes, fourier = task.n_classes, f"random Fourier features, {width}"
    sampler = RBFSampler(gamma="scale", n_components=width, random_state=0)
    penalties = np.logspace(-3, 4, 15)
    if n_classes is not None:
        models: dict[str, Any] = {
            "class frequencies": DummyClassifier(strategy="prior"),
            "logistic regression": make_pipeline(StandardScaler(), _logistic(n_features * n_classes)),
            fourier: make_pipeline(StandardScaler(), sampler, _logistic(width * n_classes)),
        }
    else:
        models = {
            "the mean": DummyRegressor(),
            "linear regression": make_pipeline(StandardScaler(), RidgeCV(penalties)),
            fourier: make_pipeline(StandardScaler(), sampler, RidgeCV(penalties)),
        }
    trees = _lightgbm(n_classes is not None)
    models = models if trees is None else {**models, _TREES: trees}
    models = _of_quantiles(models, task.levels) if task.levels else models
    loss = task.beside
    return models if loss is None else {name: BesideOffset(model, loss) for name, model in models.items()}


def _of_quantiles(models: dict[str, Any], levels: tuple[float, ...]) -> dict[str, Any]:
    """Return constant quantiles, models of the mean with the quantiles of their errors, and trees for each quantile."""
    _, *others = models
    found: dict[str, Any] = {
        "constant quantiles": ModelPerQuantile(DummyRegressor(strategy="quantile"), "quantile", levels)
    }
    found |= {name: ErrorQuantiles(models[name], levels) for name in others}
    if _TREES in found:
        trees = clone(models[_TREES]).set_params(objective="quantile")
        found[_TREES] = ModelPerQuantile(trees, "alpha", levels)
    return found


def _logistic(n_weights: int) -> Any:
    """Return a logistic regression, by Newton's method unless its Hessian is large."""
    return LogisticRegression(solver="newton-cholesky" if n_weights <= _MOST_WEIGHTS else "lbfgs", max_iter=1000)


def _lightgbm(classification: bool) -> Any:
    try:
        import lightgbm
    except ImportError:
        return None
    kind = lightgbm.LGBMClassifier if classification else lightgbm.LGBMRegressor
    return kind(n_estimators=100, random_state=0, n_jobs=1, verbose=-1)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Scores of the baselines, a sentence on how they were computed, and whether they may be compared with ours.

    ``rivals`` begins with the constant; without known training rows it is alone.
    """

    rivals: tuple[Rival, ...]
    how: str
    fair: bool


@dataclass(frozen=True, slots=True)
class Training:
    """Rows and targets a model was fitted on; ``doubt`` says why they may not be those, if so."""

    rows: Array
    target: Array
    doubt: str | None = None


def compare(X: Array, target: Array, train: Training | None, task: Task, width: int, score: Scoring) -> Comparison:
    """Fit the baselines on the training rows and ``score`` them on the rows given.

    ``target`` holds numbers (n, n_outputs) or class indices (n,).
    """
    models, n_classes = usual_models(task, X.shape[1] - (task.beside is not None), width), task.n_classes
    if train is None:
        constant = next(iter(models))
        rival = _judged(constant, models[constant], Training(X, target), X, target, n_classes, score)
        return Comparison((rival,), _UNKNOWN, fair=False)
    kept = _spread(train.rows.shape[0])
    used = Training(train.rows[kept], train.target[kept], train.doubt)
    rivals = [
        _judged(name, model, used, X, target, n_classes, score)
        for name, model in models.items()
        if not (name == _TREES and n_classes is None and target.shape[1] > 1)
    ]
    doubt = _doubt(used, train, X, target)
    how = _how(used, X.shape[0], doubt) + (_HOW_QUANTILES if task.levels else "")
    how += "" if task.beside is None else _HOW_OFFSET
    return Comparison(tuple(rivals), how, fair=doubt is None)


_UNKNOWN = (
    "No other model is shown: the rows this model was fitted on are not known. Give them with train=(X, y), or with "
    "--train at the command line."
)


_HOW_QUANTILES = (
    " Linear models and random features add the quantiles of their errors out of folds to the mean; the trees are one "
    "model per quantile, put in order."
)


_HOW_OFFSET = " All know the offset: they learn what it leaves, with its weights, and their answers have it added."


def _doubt(used: Training, train: Training, X: Array, target: Array) -> str | None:
    """Return why the scores of the baselines may not be compared with those of the model, or None."""
    if train.doubt is not None:
        return train.doubt
    if len(used.rows) < len(train.rows):
        return f"The model itself was fitted on {len(train.rows):,} rows"
    if _share_among(X, target, used) > _MOSTLY:
        return "The scored rows are among the rows of the fit"
    return None


def _share_among(X: Array, target: Array, train: Training) -> float:
    """Return the share of rows that occur among the training rows, target included."""
    known = {row.tobytes() for row in np.column_stack([train.rows, train.target]).astype(np.float64)}
    return float(np.mean([row.tobytes() in known for row in np.column_stack([X, target]).astype(np.float64)]))


def _how(used: Training, n_scored: int, doubt: str | None) -> str:
    fitted = (
        f"All models were fitted on the same {len(used.rows):,} rows and scored on {n_scored:,} others. "
        "The other models are untuned and see the same encoded columns."
    )
    if doubt is None:
        return fitted
    found = f"The other models were fitted on {len(used.rows):,} rows and scored on {n_scored:,}."
    return f"{found} {doubt}: no lead is stated."


def _judged(
    name: str, model: Any, train: Training, X: Array, target: Array, n_classes: int | None, score: Scoring
) -> Rival:
    with warnings.catch_warnings():
        # LightGBM 4.6 gives columns names of its own, and warns of rows without them.
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        fitted = _fit(model, train.rows, train.target)
        answers = _predict(fitted, X, n_classes)
        cost = cost_in_batch(fitted.predict if n_classes is None else fitted.predict_proba, X)
    return Rival(name, score(target, answers), resample(score, target, answers), cost)


def _fit(model: Any, X: Array, target: Array) -> Any:
    if target.ndim == 1 and np.unique(target).size == 1:  # a single class
        model = DummyClassifier(strategy="prior")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # close enough for a comparison
        return clone(model).fit(X, target[:, 0] if target.ndim == 2 and target.shape[1] == 1 else target)


def _predict(fitted: Any, X: Array, n_classes: int | None) -> Array:
    if n_classes is None:
        answer = np.asarray(fitted.predict(X))
        return answer if answer.ndim == 2 else answer[:, None]
    probability = np.zeros((X.shape[0], n_classes))
    probability[:, fitted.classes_] = fitted.predict_proba(X)
    return probability


def _spread(n_rows: int) -> Array:
    """Return the indices of the rows for the baselines: all, or as many as they take, evenly spread."""
    return np.arange(n_rows) if n_rows <= _MOST_ROWS else np.linspace(0, n_rows - 1, _MOST_ROWS).astype(np.intp)


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
