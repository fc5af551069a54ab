"""A fitted estimator with fewer numbers, for a smaller file, header and cache footprint."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from rflaf.errors import Array, InvalidParameterError
from rflaf.estimators import RFLAFClassifier, RFLAFRegressor
from rflaf.model.random_feature_model import RandomFeatureModel
from rflaf.model.simpler_curves import rank_nodes

_Estimator = TypeVar("_Estimator", RFLAFRegressor, RFLAFClassifier)
_FEWEST_ROWS = 50


def simplify(estimator: _Estimator, X: Any, y: Any, *, within: float = 0.01) -> _Estimator:
    """Return a fitted copy whose column curves have as few nodes as rows that were held out allow.

    The nodes that matter least are merged (`rflaf.model.simpler_curves`), as many as raise the mean loss over the rows
    by at most ``within`` of itself, with one standard error of the rise to spare. Models of fine columns shrink several
    times in memory, file and header. Exports, `save` and `predict` take the copy as any other; `partial_fit` and
    ``return_std`` go on from the sums of the fit.

    Parameters
    ----------
    estimator : a fitted regressor or classifier; one without curves is returned as a copy
    X, y : rows and targets that the fit has not seen, at least fifty
    within : the largest rise of the mean loss, as a share of it

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((600, 2))
    >>> y = np.abs(X[:, 0]) + 0.1 * rng.standard_normal(600)
    >>> model = RFLAFRegressor(10, curves=True, random_state=0).fit(X[:400], y[:400])
    >>> smaller = simplify(model, X[400:], y[400:])
    >>> smaller.curves_.values.size < model.curves_.values.size
    True
    """
    if not isinstance(estimator, RFLAFRegressor | RFLAFClassifier):
        rule = "only regressors and classifiers of this package are simplified"
        raise InvalidParameterError(rule, type(estimator).__name__, "Pass a fitted RFLAFRegressor.")
    check_is_fitted(estimator)
    if isinstance(within, bool) or not isinstance(within, int | float) or not (0 <= within < math.inf):
        raise InvalidParameterError("within must be a number of at least 0", within, "Use within=0.01.")
    rows, targets = _rows(estimator, X, y)
    simpler = copy.copy(estimator)
    if estimator.model_.curves is not None:
        loss = lambda model: estimator.loss_.value(model.decision(rows), targets)  # noqa: E731
        simpler._adopt(_smallest(estimator.model_, rows, loss, within))
    return simpler


def _smallest(
    model: RandomFeatureModel, rows: Array, loss: Callable[[RandomFeatureModel], Array], within: float
) -> RandomFeatureModel:
    """Halve the number of nodes to leave out until it is the largest whose loss is allowed."""
    ranked = rank_nodes(model, rows, np.random.default_rng(0))
    before = loss(model)
    fine, too_many = 0, ranked.order.size + 1
    while too_many - fine > 1:
        middle = (fine + too_many) // 2
        rise = loss(ranked.without(middle)) - before
        if rise.mean() + rise.std() / math.sqrt(rise.size) <= within * abs(before.mean()):
            fine = middle
        else:
            too_many = middle
    return ranked.without(fine)


def _rows(estimator: Any, X: Any, y: Any) -> tuple[Array, Array]:
    """Return encoded rows, and targets as the loss takes them."""
    rows = estimator._check_rows(X)
    rows = rows.toarray() if sp.issparse(rows) else rows
    targets = np.asarray(y)
    if len(targets) != len(rows) or len(rows) < _FEWEST_ROWS:
        rule = f"X and y must have the same number of rows, at least {_FEWEST_ROWS}"
        raise InvalidParameterError(rule, f"{len(rows)} and {len(targets)}", "Hold more rows out.")
    if not isinstance(estimator, RFLAFClassifier) or estimator._several:
        targets = targets.astype(np.float64).reshape(len(rows), -1)
        if targets.shape[1] != estimator.model_.n_outputs or not np.isfinite(targets).all():
            rule = f"y must be {estimator.model_.n_outputs} columns of finite numbers"
            raise InvalidParameterError(rule, f"shape {np.shape(y)}", "Pass targets like those of the fit.")
        return rows, targets
    equal = targets[:, None] == estimator.classes_
    if not equal.any(axis=1).all():
        odd = targets[~equal.any(axis=1)][0]
        raise InvalidParameterError(f"y must hold labels of {estimator.classes_.tolist()}", odd, "Drop other rows.")
    indicators = equal.astype(np.float64)
    return rows, indicators[:, 1:] if estimator.classes_.size == 2 else indicators
