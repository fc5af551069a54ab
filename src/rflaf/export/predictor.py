"""What predicts of a saved regressor or classifier, without scikit-learn: a model, its encoding and its link.

Loading one and predicting a few rows needs NumPy and the model file alone: no compiler is imported and nothing is
compiled (`rflaf.model.in_numpy`). Answers are those of the estimator in the file, to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.losses import Logistic, Loss, Softmax
from rflaf.model.random_feature_model import RandomFeatureModel
from rflaf.rows.tables import MISSING, TableEncoding, TargetEncoding, as_table

_FLOATS = (np.float64, np.float32)


@dataclass(frozen=True, slots=True)
class Predictor:
    """A saved estimator reduced to its predictions, as `rflaf.load_predictor` returns it.

    Parameters
    ----------
    model : RandomFeatureModel
        The fitted model, f before the link.
    loss : Loss
        The loss it was fitted with, which determines the link.
    classes : array of shape (n_classes,) or None
        Labels of a classifier, None for a regressor.
    encoding : TableEncoding or None
        The encoding of the columns of a table.
    target : TargetEncoding or None
        Name and kind of the column that is predicted.
    feature_names : tuple of str or None
        Names of the encoded columns.
    single_output : bool
        Whether predictions of a regressor have one axis.
    several : bool
        Whether any number of the labels may apply to a row.
    """

    model: RandomFeatureModel
    loss: Loss
    classes: Array | None
    encoding: TableEncoding | None
    target: TargetEncoding | None
    feature_names: tuple[str, ...] | None
    single_output: bool
    several: bool = False

    @property
    def n_features(self) -> int:
        """Number of encoded columns."""
        return self.model.n_features

    @property
    def gives_probabilities(self) -> bool:
        """Whether the model is a classifier whose loss has probabilities."""
        return self.classes is not None and isinstance(self.loss, Logistic | Softmax)

    def decision(self, X: Any) -> Array:
        """Return f at rows ``X``, (n_rows, n_outputs)."""
        return self.model.decision(self.rows(X))

    def predict(self, X: Any) -> Array:
        """Return the prediction at rows ``X``: (n_rows,), or (n_rows, n_outputs); labels of a classifier."""
        return self.answer(self.decision(X))

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classes, (n_rows, n_classes), in the order of ``classes``."""
        return self.probabilities(self.decision(X))

    def probabilities(self, f: Array) -> Array:
        """Return the probabilities of the classes for ``f`` (n_rows, n_outputs)."""
        if not self.gives_probabilities:
            what = "a regressor" if self.classes is None else f"the {self.loss.name} loss"
            raise InvalidParameterError("only classifiers under the log loss have probabilities", what, "Use predict.")
        return self.loss.mean(f) if self.several else _probabilities(f)

    def answer(self, f: Array) -> Array:
        """Return the prediction for ``f`` (n_rows, n_outputs)."""
        if self.several:
            return (f > 0).astype(int)
        if self.classes is not None:
            return np.asarray(self.classes[(f[:, 0] > 0).astype(int) if f.shape[1] == 1 else np.argmax(f, axis=1)])
        mean = self.loss.mean(f)
        return mean[:, 0] if self.single_output else mean

    def answer_with_offset(self, f: Array, X: Any) -> Array:
        """Return `answer` for ``f``, with the offset of rows ``X`` where the fit had a column of one."""
        answer = self.answer(f)
        if self.target is None or not self.target.offset:
            return answer
        if not (hasattr(X, "columns") or hasattr(X, "column_names")):
            rule, remedy = "rows need the offset of the fit, by name", f"Name the columns; {self.target.offset!r} too."
            raise InvalidParameterError(rule, type(X).__name__, remedy)
        offset = self.target.offsets(X, MISSING if self.encoding is None else self.encoding.missing)
        assert offset is not None  # the target has one
        return np.asarray(self.loss.with_offset(answer, offset if answer.ndim == 1 else offset[:, None]))

    def rows(self, X: Any) -> Array:
        """Return rows as the model takes them: an array of finite numbers, or a frame or Arrow table, encoded."""
        if hasattr(X, "columns") or hasattr(X, "column_names"):
            X = self._of_table(X)
        X = np.asarray(X)
        if X.dtype not in _FLOATS:
            X = X.astype(np.float64)
        if X.ndim != 2 or X.shape[1] != self.n_features or not len(X):
            rule = f"rows must be a matrix of {self.n_features} columns with at least one row"
            raise InvalidParameterError(rule, f"shape {X.shape}", "Pass X[None] for one row.")
        if not np.isfinite(X).all():
            at = tuple(int(i) for i in np.argwhere(~np.isfinite(X))[0])
            raise InvalidParameterError("rows must hold finite numbers", f"{X[at]} at {at}", "Fill or drop it.")
        return np.ascontiguousarray(X)

    def _of_table(self, X: Any) -> Array:
        if self.encoding is not None:
            return self.encoding.transform(X)
        table = as_table(X)
        names = table.column_names if self.feature_names is None else list(self.feature_names)
        missing = [name for name in names if name not in table.column_names]
        if missing:
            raise InvalidParameterError("the table must have the columns of the fit", missing, "Add them.")
        return np.column_stack([table[name].to_numpy() for name in names]).astype(np.float64)


def _probabilities(f: Array) -> Array:
    """Softmax of (0, f) or of f, without overflow."""
    f = np.hstack([0 * f, f]) if f.shape[1] == 1 else f
    powers = np.exp(f - f.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
