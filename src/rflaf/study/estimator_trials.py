"""Trials of complete estimators: the compact models of this package and the reference models of others."""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time
from typing import Any

import numpy as np

from rflaf.errors import MissingExtraError
from rflaf.estimators import RFLAFClassifier, RFLAFRegressor

from .datasets import Dataset
from .trials import Record, Trial, judge, record

WARM_UP = 64  # rows predicted before the clock starts: kernels may have to be compiled


def run_estimators(trials: tuple[Trial, ...], data: Dataset) -> Iterator[Record]:
    """Fit and score one estimator per trial."""
    X, X_test = data.X_train, data.X_test
    if trials[0].protocol == "reference":  # ridge warns of its condition in single precision
        X, X_test = X.astype(np.float64), X_test.astype(np.float64)
    for trial in trials:
        model = make_estimator(trial, data.task)
        started = process_time()
        model.fit(X, data.y_train)
        fit_seconds = process_time() - started
        predict = model.predict if data.task == "regression" else model.predict_proba
        predict(X_test[:WARM_UP])
        started = process_time()
        answer = predict(X_test).astype(np.float64)
        predict_seconds = process_time() - started
        f = answer[:, None] if answer.ndim == 1 else np.log(np.maximum(answer, np.finfo(np.float64).tiny))
        components = getattr(model, "n_components_", trial.width)
        yield record(trial, judge(f, data), components, fit_seconds, 0.0, predict_seconds)


def make_estimator(trial: Trial, task: str) -> Any:
    """Return the unfitted model of a compact or reference trial."""
    if trial.protocol == "reference":
        return _reference(trial, task)
    kind = RFLAFRegressor if task == "regression" else RFLAFClassifier
    settings: dict[str, dict[str, Any]] = {
        "greedy": {"directions": "random", "sampling": "greedy", "activation": "shared"},
        "per_component": {"directions": "random"},
        "convex": {"directions": "random", "sampling": "greedy"},
        "refined": {},
    }
    return kind(trial.width, random_state=trial.seed, n_jobs=1, **settings[trial.scheme])


def _reference(trial: Trial, task: str) -> Any:
    from sklearn.kernel_approximation import Nystroem, RBFSampler
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    seed = trial.seed
    if trial.scheme == "LightGBM":
        try:
            import lightgbm
        except ImportError as error:
            raise MissingExtraError("reference models", "lightgbm", "study") from error
        kind = lightgbm.LGBMRegressor if task == "regression" else lightgbm.LGBMClassifier
        return kind(n_estimators=trial.width, n_jobs=1, random_state=seed, verbose=-1)
    gamma = "scale"
    if trial.scheme == "RBFSampler":
        features: Any = RBFSampler(gamma=gamma, n_components=trial.width, random_state=seed)
    else:
        features = Nystroem(n_components=trial.width, random_state=seed)  # gamma: one over the number of columns
    linear = Ridge(1e-3) if task == "regression" else LogisticRegression(max_iter=1000)
    return make_pipeline(StandardScaler(), features, linear)
