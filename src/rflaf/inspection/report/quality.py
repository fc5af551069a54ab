"""How good the model is, beside models anyone would try first."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rflaf.errors import Array

from .speed import cost_in_batch

_FOLDS = 5
_MOST_ROWS = 10_000
_MOST_WEIGHTS = 600
_LEAST_PROBABILITY = 1e-15


@dataclass(frozen=True, slots=True)
class Score:
    """One number about predictions; ``lower`` tells whether lower is better, ``shown`` how to write it."""

    name: str
    value: float
    lower: bool
    shown: str = "figure"


@dataclass(frozen=True, slots=True)
class Rival:
    """A model, its scores, the first of which decides, and what a row costs it, in microseconds."""

    name: str
    scores: tuple[Score, ...]
    microseconds: float
    ours: bool = False


def regression_scores(y: Array, predicted: Array) -> tuple[Score, ...]:
    """Root mean square and mean absolute error, and the share of the variance explained; means over outputs."""
    off, centred = y - predicted, y - y.mean(axis=0)
    square, variance = np.mean(off**2, axis=0), np.mean(centred**2, axis=0)
    explained = np.mean(1 - np.divide(square, variance, out=np.full_like(square, np.nan), where=variance > 0))
    return (
        Score("root mean square error", float(np.mean(np.sqrt(square))), True),
        Score("mean absolute error", float(np.mean(np.abs(off))), True),
        Score("variance explained", float(explained), False, "share"),
    )


def classification_scores(code: Array, probability: Array) -> tuple[Score, ...]:
    """Log-loss, accuracy and, where every class occurs, the area under the ROC curve.

    ``code`` (n,) are numbers of classes, ``probability`` (n, n_classes).
    """
    said = np.maximum(probability[np.arange(code.size), code], _LEAST_PROBABILITY)
    scores = [
        Score("log-loss", float(-np.mean(np.log(said))), True),
        Score("accuracy", float(np.mean(np.argmax(probability, axis=1) == code)), False, "share"),
    ]
    n_classes = probability.shape[1]
    if np.unique(code).size == n_classes:
        if n_classes == 2:
            area = roc_auc_score(code, probability[:, 1])
        else:
            rows = probability / probability.sum(axis=1, keepdims=True)
            area = roc_auc_score(code, rows, multi_class="ovr", labels=np.arange(n_classes))
        scores.append(Score("area under the ROC curve", float(area), False))
    return tuple(scores)


def label_scores(code: Array, votes: Array) -> tuple[Score, ...]:
    """The accuracy, of a classifier without probabilities: ``votes`` (n, n_classes), the largest counts."""
    return (Score("accuracy", float(np.mean(code == np.argmax(votes, axis=1))), False, "share"),)


def usual_models(n_classes: int | None, n_features: int, width: int) -> dict[str, Any]:
    """What anyone would try first, unfitted: a constant, a linear model, random Fourier features, boosted trees."""
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
    """By Newton's method unless its matrix of second derivatives is large."""
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
    """The usual models' scores, and in words how they came about."""

    rivals: tuple[Rival, ...]
    how: str


Scoring = Callable[[Array, Array], tuple[Score, ...]]


def compare(
    X: Array, target: Array, train: tuple[Array, Array] | None, n_classes: int | None, width: int, score: Scoring
) -> Comparison:
    """Fit the usual models on ``train``, or else, in turn, on four fifths of the rows given, and ``score`` them.

    ``target`` are numbers (n, n_outputs), or, of a classification, numbers of classes (n,).
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
            f"The usual models were fitted on four fifths of {n_used:,} rows of this data and scored on the last "
            "fifth, five times in turn. The model itself was not fitted again: if it was fitted on these very rows, "
            "its scores flatter it."
        )
    n_train = _spread(train[0].shape[0]).size
    return f"The usual models were fitted on {n_train:,} training rows and scored on {n_used:,} rows of this data."


def _answers(
    model: Any, X: Array, target: Array, train: tuple[Array, Array] | None, n_classes: int | None
) -> tuple[Array, Any]:
    """Predictions for every row, from fits that have not seen it, and the last of these fits."""
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
    if target.ndim == 1 and np.unique(target).size == 1:  # one class only: nothing to tell apart
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
    """Rows to fit or score the usual models on: all, or 10,000 evenly spread."""
    return np.arange(n_rows) if n_rows <= _MOST_ROWS else np.linspace(0, n_rows - 1, _MOST_ROWS).astype(np.intp)
