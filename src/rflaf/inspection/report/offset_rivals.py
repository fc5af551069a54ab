"""Baselines beside an offset: each learns what the offset leaves, as the model of the report does."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline

from rflaf.errors import Array
from rflaf.functions.losses import Loss


class BesideOffset(BaseEstimator):
    """A model of a number whose rows have their offset as a last column; it moves into targets and weights."""

    def __init__(self, model: Any, loss: Loss) -> None:
        self.model = model
        self.loss = loss

    def fit(self, X: Array, y: Array) -> Self:
        targets, weight = self.loss.without_offset(y[:, None], X[:, -1:], np.ones(len(y)))
        model, step = clone(self.model), ""
        if isinstance(model, Pipeline):
            step = f"{model.steps[-1][0]}__"
        weights = {f"{step}sample_weight": weight / weight.mean()} if self.loss.offset_weighs else {}
        self.model_ = model.fit(X[:, :-1], targets[:, 0], **weights)
        return self

    def predict(self, X: Array) -> Array:
        answer = np.asarray(self.model_.predict(X[:, :-1]))
        return np.asarray(self.loss.with_offset(answer, X[:, -1] if answer.ndim == 1 else X[:, -1:]))
