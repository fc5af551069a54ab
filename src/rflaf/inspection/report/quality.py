"""Comparison of the model with common baselines, and prediction times on this machine."""

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
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rflaf.errors import Array
from rflaf.estimators.metrics import Score
from rflaf.model.random_feature_model import RandomFeatureModel

_FOLDS = 5
_MOST_ROWS = 10_000
_MOST_WEIGHTS = 600
_BATCH = 10_000
_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Rival:
    """A model, its scores, of which the first decides, and its microseconds per row."""

    name: str
    scores: tuple[Score, ...]
    microseconds: float
    ours: bool = False


def usual_models(n_classes: int | None, n_features: int, width: int) -> dict[str, Any]:
    """Return unfitted baselines: a constant, a linear model, random Fourier features, boosted trees."""
    fourier = f"random Fourier features, {width}"
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
    return models if trees is None else {**models, "LightGBM, 100 trees": trees}


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
    """Scores of the baselines, and a sentence on how they were computed."""

    rivals: tuple[Rival, ...]
    how: str


Scoring = Callable[[Array, Array], tuple[Score, ...]]


def compare(
    X: Array, target: Array, train: tuple[Array, Array] | None, n_classes: int | None, width: int, score: Scoring
) -> Comparison:
    """Fit the baselines on ``train``, or by five-fold cross-validation on the rows given, and ``score`` them.

    ``target`` holds numbers (n, n_outputs) or class indices (n,).
    """
    index = _spread(X.shape[0])
    X, target = X[index], target[index]
    models = usual_models(n_classes, X.shape[1], width)
    rivals = []
    for name, model in models.items():
        if name.startswith("LightGBM") and n_classes is None and target.shape[1] > 1:
            continue
        answers, fitted = _answers(model, X, target, train, n_classes)
        cost = cost_in_batch(fitted.predict if n_classes is None else fitted.predict_proba, X)
        rivals.append(Rival(name, score(target, answers), cost))
    return Comparison(tuple(rivals), _how(index.size, train))


def _how(n_used: int, train: tuple[Array, Array] | None) -> str:
    if train is None:
        return (
            f"The baselines were scored by five-fold cross-validation on {n_used:,} rows of this data. "
            "The model itself was not fitted again: if it was fitted on these rows, its scores are optimistic."
        )
    n_train = _spread(train[0].shape[0]).size
    return f"The baselines were fitted on {n_train:,} training rows and scored on {n_used:,} rows of this data."


def _answers(
    model: Any, X: Array, target: Array, train: tuple[Array, Array] | None, n_classes: int | None
) -> tuple[Array, Any]:
    """Return predictions for every row, from fits without that row, and the last of these fits."""
    if train is not None:
        kept = _spread(train[0].shape[0])
        fitted = _fit(model, train[0][kept], train[1][kept])
        return _predict(fitted, X, n_classes), fitted
    out = np.zeros((X.shape[0], n_classes or target.shape[1]))
    for kept, held_out in _folds(X, target, n_classes):
        fitted = _fit(model, X[kept], target[kept])
        out[held_out] = _predict(fitted, X[held_out], n_classes)
    return out, fitted


def _folds(X: Array, target: Array, n_classes: int | None) -> Any:
    n_folds = min(_FOLDS, X.shape[0])
    if n_classes is not None and np.unique(target, return_counts=True)[1].min() >= n_folds:
        return StratifiedKFold(n_folds, shuffle=True, random_state=0).split(X, target)
    return KFold(n_folds, shuffle=True, random_state=0).split(X)


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
    """Return the indices of the rows for the baselines: all, or 10,000 evenly spread."""
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
