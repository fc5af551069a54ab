"""A model of fewer components, nearest to the whole one at given rows: for losses whose sums a fit does not keep."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rflaf.errors import Array
from rflaf.functions.losses import Logistic, Loss, Softmax

from .last_layer import LastLayer
from .normal_equations import NormalEquations
from .random_feature_model import RandomFeatureModel

_RIDGE = 1e-6  # of the mean square of a feature
_LEAST_CURVATURE = 1e-3  # of a row: even rows that are certain must not become uncertain


def prune_at(model: RandomFeatureModel, X: Array, loss: Loss, n_components: int) -> RandomFeatureModel:
    """Return the model of ``n_components`` components with f nearest to that of ``model`` at rows ``X``.

        minimise over components and v   sum_i c_i |f(x_i) - f_kept(x_i)|^2,    c_i the curvature of the loss at f(x_i)

    which is the rise of the loss to second order if ``model`` minimises it. Components are chosen greedily, so narrower
    models are nested in wider ones.
    """
    z, f = np.asarray(model.features(X), np.float64), np.asarray(model.decision(X), np.float64)
    weight = np.ones(len(f))
    if isinstance(loss, Logistic | Softmax):
        weight = np.maximum(loss.curvature(f, f).mean(axis=1), _LEAST_CURVATURE)
    rows = np.hstack([z, np.ones((len(f), 1)), f]) * np.sqrt(weight)[:, None]
    equations = NormalEquations.from_design(rows.T, f.shape[1], weight)
    ridge = _RIDGE * float(np.mean(z**2)) or _RIDGE
    layer = LastLayer(equations, ridge, np.zeros(f.shape[1]))
    return replace(replace(model, last_layer=layer).prune(n_components), last_layer=None)
