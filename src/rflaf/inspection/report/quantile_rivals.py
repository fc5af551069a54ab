"""Baselines that answer with several quantiles: of the errors of a model of the mean, or by one model per quantile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import KFold, cross_val_predict

from rflaf.errors import Array

_FOLDS = 5


class ErrorQuantiles(BaseEstimator):
    """A model of the mean plus the quantiles of its errors out of folds, the same for every row."""

    def __init__(self, model: Any, levels: Sequence[float]) -> None:
        self.model = model
        self.levels = levels

    def fit(self, X: Array, y: Array) -> Self:
        folds = KFold(min(_FOLDS, len(y)), shuffle=True, random_state=0)
        errors = y - cross_val_predict(self.model, X, y, cv=folds)
        self.model_, self.quantiles_ = clone(self.model).fit(X, y), np.quantile(errors, self.levels)
        return self

    def predict(self, X: Array) -> Array:
        return np.asarray(self.model_.predict(X)[:, None] + self.quantiles_)


class ModelPerQuantile(BaseEstimator):
    """One model for each quantile, named by a parameter; the answers of a row are put in order."""

    def __init__(self, model: Any, parameter: str, levels: Sequence[float]) -> None:
        self.model = model
        self.parameter = parameter
        self.levels = levels

    def fit(self, X: Array, y: Array) -> Self:
        models = (clone(self.model).set_params(**{self.parameter: level}) for level in self.levels)
        self.models_ = [model.fit(X, y) for model in models]
        return self

    def predict(self, X: Array) -> Array:
        return np.sort([model.predict(X) for model in self.models_], axis=0).T
