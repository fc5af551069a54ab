"""A fitted estimator as the plain arrays of its formula, for programs without this package.

    x' = x - centre
    u  = bias + x'[linear] @ W + sum over curved columns of H, interpolated between nodes, linear beyond them
    z_m = table_m(u_m)                      cubics on unit cells around 0, the nearest end outside
    f  = intercept + z @ weights            then the link

Nothing is fitted or approximated: the arrays are those of the compiled loops, shifted so that they also hold in single
precision. A centre is subtracted from the rows first, since a column of large mean and small spread would lose its
digits in a product with the directions; the difference is exact near the centre. For the same reason nodes are kept in
two parts, and u counts cells from the middle of the table, near most rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from sklearn.utils.validation import check_is_fitted

from rflaf.errors import Array, InvalidParameterError
from rflaf.estimators import RandomActivationFeatures, RFLAFClassifier, RFLAFRegressor
from rflaf.functions.curves import one_over_gaps
from rflaf.functions.losses import Logistic, Loss, Poisson, Quantiles, Softmax
from rflaf.model.curved_features import CurvedMap, compile_features
from rflaf.model.features import centre_of
from rflaf.model.random_feature_model import RandomFeatureModel


class Link(Enum):
    """Map from f to the prediction."""

    IDENTITY = "f"
    EXP = "exp(min(f, 30))"
    SIGMOID = "1 / (1 + exp(-f))"
    SOFTMAX = "exp(f) / sum exp(f)"
    SORTED = "f in rising order"


_LINKS = {
    Loss.mean: Link.IDENTITY,
    Poisson.mean: Link.EXP,
    Logistic.mean: Link.SIGMOID,
    Softmax.mean: Link.SOFTMAX,
    Quantiles.mean: Link.SORTED,
}


@dataclass(frozen=True, slots=True)
class Head:
    """Output layer: ``weights`` (n_components, n_outputs), ``intercept`` (n_outputs,) and the link.

    For a classifier ``classes`` (n_classes,) are its labels, and there is one answer per class: a single output f
    gives -f and f before the link.
    """

    weights: Array
    intercept: Array
    link: Link
    classes: Array | None = None

    @property
    def n_answers(self) -> int:
        """Number of answers per row."""
        return int(self.intercept.size if self.classes is None else self.classes.size)


@dataclass(frozen=True, slots=True)
class Formula:
    """Arrays of the formula above, in the precision of ``dtype``.

    Attributes
    ----------
    centre : (n_features,), zero for curved columns
    linear : (L,), indices of the linear columns; W : (L, S)
    columns : (C,), indices of the curved columns; start : (C + 1,), offsets of their nodes
    nodes, rest : (T,), a node is the sum of both, since ``rest`` keeps what rounding removes
    gaps : (T,), one over the distance from a node to the next, zero for the last of a column
    H : (T, S), values at the nodes, zero at the middle one of every column; the outer ones only define the
        line beyond the others
    bias : (S,)
    table : (1 or S, n_cells, 4), powers about the middle of each cell; ``middle`` is the cell centred on u = 0
    importance : (S,), factors of the features of a transformer
    head : the output layer, None for a transformer
    """

    centre: Array
    linear: Array
    W: Array
    columns: Array
    start: Array
    nodes: Array
    rest: Array
    gaps: Array
    H: Array
    bias: Array
    table: Array
    importance: Array
    head: Head | None

    @property
    def n_features(self) -> int:
        return int(self.centre.size)

    @property
    def n_components(self) -> int:
        return int(self.bias.size)

    @property
    def n_cells(self) -> int:
        return int(self.table.shape[1])

    @property
    def middle(self) -> int:
        """Cell of u = 0; the others are centred on whole numbers from -middle to n_cells - 1 - middle."""
        return self.n_cells // 2

    @property
    def n_answers(self) -> int:
        """Number of answers per row."""
        return self.n_components if self.head is None else self.head.n_answers

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.W.dtype)


def formula_of(estimator: Any, dtype: DTypeLike = np.float32) -> Formula:
    """Return the formula of a fitted estimator, or of a `RandomFeatureModel`, whose answer is f.

    >>> from rflaf import RFLAFRegressor
    >>> X = np.random.default_rng(0).standard_normal((100, 2))
    >>> formula = formula_of(RFLAFRegressor.paper(5, pool_size=20, random_state=0).fit(X, X[:, 0]))
    >>> formula.n_features, formula.n_answers
    (2, 1)
    """
    if isinstance(estimator, RandomFeatureModel):
        return _arrays(estimator, _head(estimator, Link.IDENTITY), dtype)
    if not isinstance(estimator, RFLAFRegressor | RFLAFClassifier | RandomActivationFeatures):
        remedy = "Pass a fitted RFLAFRegressor, RFLAFClassifier or RandomActivationFeatures."
        rule = "only the estimators and models of this package have a formula"
        raise InvalidParameterError(rule, type(estimator).__name__, remedy)
    check_is_fitted(estimator)
    model = estimator.model_
    if isinstance(estimator, RandomActivationFeatures):
        return _arrays(model, None, dtype)
    if isinstance(estimator, RFLAFClassifier) and not estimator._several:
        return _arrays(model, _head(model, _link_of_classes(estimator), estimator.classes_), dtype)
    if isinstance(estimator, RFLAFClassifier) and not hasattr(estimator, "predict_proba"):
        return _arrays(model, _head(model, Link.IDENTITY), dtype)
    return _arrays(model, _head(model, _link(estimator.loss_)), dtype)


def _link_of_classes(classifier: RFLAFClassifier) -> Link:
    if not hasattr(classifier, "predict_proba"):
        return Link.IDENTITY
    return Link.SIGMOID if classifier.model_.n_outputs == 1 else Link.SOFTMAX


def _link(loss: Loss) -> Link:
    link = _LINKS.get(type(loss).mean)
    if link is None:
        remedy = "Pass the estimator's model_, and apply the mean of your loss to its answer."
        raise InvalidParameterError("only the links of this package's losses can be written down", loss, remedy)
    return link


def _head(model: RandomFeatureModel, link: Link, classes: Array | None = None) -> Head:
    return Head(model.directions.importance[:, None] * model.v, model.intercept, link, classes)


def _arrays(model: RandomFeatureModel, head: Head | None, dtype: DTypeLike) -> Formula:
    pieces, a = model.activation.compile()
    compiled = compile_features(model.directions, model.curves, pieces, a, np.float64)
    if isinstance(compiled, CurvedMap):
        width = compiled.width
        linear, W, bias = compiled.linear, compiled.W[:, :width], compiled.bias[:width]
        columns, start, nodes = compiled.columns, compiled.first, compiled.nodes
        H = compiled.H.transpose(1, 0, 2).reshape(nodes.size, compiled.bias.size)[:, :width]
        table = compiled.table[:width]
    else:
        linear = np.flatnonzero(compiled.W.any(axis=1))
        W, bias, table = compiled.W[linear], compiled.offset, compiled.table
        columns, start, nodes, H = np.zeros(0, np.intp), np.zeros(1, np.intp), np.zeros(0), np.zeros((0, bias.size))
    middle = H[(start[:-1] + start[1:] - 1) // 2]
    H = H - np.repeat(middle, np.diff(start), axis=0)
    bias = bias + middle.sum(axis=0) - pieces.n_cells // 2
    centre = np.zeros(model.n_features)
    centre[linear] = centre_of(W, -bias)
    parts = [nodes[i:j] for i, j in pairwise(start)]
    centre = centre.astype(dtype).astype(np.float64)  # the subtracted value equals the folded one exactly
    gaps = np.concatenate([np.zeros(0, dtype), *(one_over_gaps(part, dtype) for part in parts)])
    rest = nodes - nodes.astype(dtype)
    bias = bias + centre[linear] @ W
    arrays = (centre, W, nodes, rest, gaps, H, bias, table, model.directions.importance)
    centre, W, nodes, rest, gaps, H, bias, table, importance = (np.ascontiguousarray(part, dtype) for part in arrays)
    if head is not None:
        head = Head(head.weights.astype(dtype), head.intercept.astype(dtype), head.link, head.classes)
    return Formula(centre, linear, W, columns, start, nodes, rest, gaps, H, bias, table, importance, head)
