"""The model of a report, taken out of its estimator, pipeline or encoding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_regressor
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from rflaf.errors import Array, InvalidParameterError
from rflaf.estimators.metrics import levels_of
from rflaf.estimators.offsets import known_offset
from rflaf.inspection.effects import middle_of
from rflaf.model.random_feature_model import RandomFeatureModel
from rflaf.rows.inputs import targets_in


@dataclass(frozen=True, slots=True)
class Subject:
    """A fitted model with its encoding of rows.

    Attributes
    ----------
    estimator : the fitted estimator, or None for a bare model
    model : the model inside
    encode : function from a table of the user to rows of numbers
    names : (n_features,) of the columns of those rows
    origin : (n_features,), the table column of each of them
    left_out : columns of the table the encoding leaves out, and why
    missing : texts that mark a missing value
    target : name of the target, if known
    levels : the names of the levels of each column that is a category, by its number
    """

    estimator: Any
    model: RandomFeatureModel
    encode: Callable[[Any], Any]
    names: tuple[str, ...]
    origin: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()
    target: str | None = None
    levels: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def classes(self) -> Array | None:
        """Classes of a classifier; None otherwise."""
        return None if self.estimator is None or is_regressor(self.estimator) else self.estimator.classes_

    @property
    def levels_predicted(self) -> tuple[float, ...]:
        """Quantiles that the model predicts; none if it predicts a mean, a median alone, or classes."""
        levels = () if self.classes is not None else levels_of(getattr(self.estimator, "loss_", None))
        return () if levels == (0.5,) or self.model.n_outputs != len(levels) else levels

    @property
    def output(self) -> int:
        """The output that effects and components are shown for: of several quantiles the one nearest to the median."""
        return middle_of(self.levels_predicted) if self.levels_predicted else 0

    def rows(self, X: Any) -> Array:
        """Encode rows of a table as dense numbers in double precision."""
        encoded = self.encode(X)
        if sp.issparse(encoded):
            encoded = encoded.toarray()
        rows = np.ascontiguousarray(np.asarray(encoded), np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.model.n_features:
            rule = f"X must be of {self.model.n_features} columns, as the model was fitted to"
            raise InvalidParameterError(rule, rows.shape, "Pass the same.")
        if not np.all(np.isfinite(rows)):
            remedy = "Impute in a pipeline with the estimator."
            raise InvalidParameterError("X must be finite once encoded", "NaN or infinity", remedy)
        return rows

    def offset(self, X: Any) -> Array | None:
        """Return the offset of the rows of a table, (n_rows, 1), from the column of the fit; None for none."""
        known = known_offset(getattr(self.estimator, "target_encoding_", None), X, None, self.missing)
        return None if known is None else np.asarray(known)[:, None]

    def targets(self, X: Any, y: Any) -> Any:
        """Return targets, which may be named by the column of a frame that holds them."""
        return targets_in(X, y, getattr(self.estimator, "target_encoding_", None))

    def columns(self, X: Any) -> dict[str, Array]:
        """Return the columns of a table that the model uses, by name, each as an array (n,).

        An encoding selects columns by name, so a table may hold others, such as the target.
        """
        if hasattr(X, "column_names"):  # an Arrow table
            found = {str(name): X[name].to_numpy(zero_copy_only=False) for name in X.column_names}
        elif hasattr(X, "columns"):
            found = {str(name): np.asarray(X[name]) for name in X.columns}
        else:
            table = X.toarray() if sp.issparse(X) else np.asarray(X)
            numbered = [f"column {number}" for number in range(table.shape[1])]
            return dict(zip(self.origin if len(self.origin) == len(numbered) else numbered, table.T, strict=True))
        seen = dict.fromkeys(self.origin)
        return {name: found[name] for name in seen} if set(seen) <= set(found) else found

    def by_origin(self, share: Array) -> list[tuple[str, float]]:
        """Return the root of the summed squares per column of the table, largest first."""
        total: dict[str, float] = {}
        for name, value in zip(self.origin, share, strict=True):
            total[name] = total.get(name, 0.0) + float(value) ** 2
        return sorted(((name, value**0.5) for name, value in total.items()), key=lambda pair: -pair[1])


def subject_of(model: Any, feature_names: Sequence[str] | None = None) -> Subject:
    """Return the subject of a report: an estimator, a pipeline that ends in one, or a `RandomFeatureModel`."""
    if isinstance(model, RandomFeatureModel):
        names = _names(feature_names, None, model.n_features)
        return Subject(None, model, lambda X: X, names, names)
    if isinstance(model, Pipeline):
        estimator, before = _fitted(model[-1]), model[:-1]
        names = _names(feature_names, _feature_names_out(before), estimator.n_features_in_)
        return Subject(estimator, estimator.model_, before.transform if len(before.steps) else _same, names, names)
    estimator = _fitted(model)
    if estimator.table_encoding_ is not None:
        return _encoded(estimator.table_encoding_, estimator, estimator.target_encoding_)
    names = _names(feature_names, getattr(estimator, "feature_names_in_", None), estimator.n_features_in_)
    return Subject(estimator, estimator.model_, _same, names, names)


def _encoded(encoding: Any, estimator: Any, target: Any) -> Subject:
    origin = tuple(column.name for column in encoding.columns for _ in column.feature_names)
    left_out = tuple((dropped.name, dropped.reason) for dropped in encoding.dropped)
    names, missing = tuple(encoding.feature_names), tuple(encoding.missing)
    target_name = None if target is None else str(target.name)

    def encode(X: Any) -> Any:
        return X if isinstance(X, np.ndarray) or sp.issparse(X) else encoding.transform(X)

    levels = {number: found for number, found in enumerate(encoding.level_names) if found}
    return Subject(estimator, estimator.model_, encode, names, origin, left_out, missing, target_name, levels)


def _fitted(estimator: Any) -> Any:
    check_is_fitted(estimator)
    if not isinstance(getattr(estimator, "model_", None), RandomFeatureModel) or not hasattr(estimator, "predict"):
        rule = "a report is about a regressor or classifier of this package, or a pipeline that ends in one"
        raise InvalidParameterError(rule, type(estimator).__name__, "Pass RFLAFRegressor or RFLAFClassifier.")
    if getattr(estimator, "_several", False):
        rule = "a report is about one target, or classes of which one applies to a row"
        raise InvalidParameterError(rule, "several labels", "Report on a classifier per label.")
    return estimator


def _same(X: Any) -> Any:
    return X


def _feature_names_out(before: Any) -> Any:
    try:
        return before.get_feature_names_out()
    except (AttributeError, ValueError):  # a step without column names
        return None


def _names(asked: Sequence[str] | None, known: Any, n_features: int) -> tuple[str, ...]:
    if asked is not None and len(asked) != n_features:
        raise InvalidParameterError(f"feature_names must be {n_features} names", len(asked), "Name every column.")
    if asked is None and known is None:
        return tuple(f"column {i}" for i in range(n_features))
    return tuple(str(name) for name in (known if asked is None else asked))
