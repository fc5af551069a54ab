"""Reasons for predictions: what each column of a row adds, as Shapley values that sum to the prediction.

`ExplainsRows` gives the estimators ``explain``, ``interaction_strengths`` and what scikit-learn and SHAP look for;
`Reasons` is the answer, free of the estimator.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from rflaf.errors import Array, InvalidParameterError, MissingExtraError
from rflaf.model.contributions import ColumnGroups, contributions, pair_strengths
from rflaf.rows.executors import resolve_n_jobs
from rflaf.rows.files.outputs import check_output, replacing
from rflaf.rows.inputs import as_rows, is_frame
from rflaf.rows.tables import as_table

from .metrics import levels_of
from .rows_in import ReadsRows
from .svg import Markup, element

_SHOWN = 5  # rows, in a notebook


@dataclass(frozen=True, slots=True, repr=False)
class Reasons:
    """Contributions of the columns to f, the prediction before the link, at some rows.

    For every row, ``base_values + values.sum(axis=1)`` is f: the prediction of a regressor (its logarithm for counts),
    the log odds of the second of two classes, the score of each of more classes. Several quantiles are in order at each
    row, as `predict` gives them.

    Attributes
    ----------
    values : array (n_rows, n_columns), or (n_rows, n_columns, n_outputs) for several outputs or classes
    base_values : array (n_rows,) or (n_rows, n_outputs), f at the base: equal for all rows
    data : array (n_rows, n_columns), the rows as given
    feature_names : names of the columns, those of the table for a model of a table
    output_names : names of the outputs or classes, None if there is one
    standard_error : shaped as ``values``; zero where the values are exact
    """

    values: Array
    base_values: Array
    data: Array
    feature_names: list[str]
    output_names: list[str] | None
    standard_error: Array

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def __repr__(self) -> str:
        outputs = "" if self.output_names is None else f", {len(self.output_names)} outputs"
        return f"Reasons({len(self)} rows, {len(self.feature_names)} columns{outputs})"

    def _repr_html_(self) -> str:
        """Show the first rows in a notebook: every column's value and what it adds, strong where it adds most."""
        titles = ["base", *self.feature_names, "sum"]
        head = element("tr", *[element("th", title) for title in titles])
        rows = [element("tr", *self._cells_of(row)) for row in range(min(len(self), _SHOWN))]
        which = "" if self.output_names is None else f"; shown: {self.output_names[0]}"
        return element("div", element("p", f"{self!r}{which}"), element("table", head, *rows))

    def _cells_of(self, row: int) -> list[Markup]:
        one = self.values.ndim == 2
        values = self.values[row] if one else self.values[row, :, 0]
        base = float(self.base_values[row] if one else self.base_values[row, 0])
        most = np.abs(values).max(initial=0)
        cells = [
            element("td", element("b" if abs(added) == most > 0 else "span", f"{added:+.3g}"), f" ({value})")
            for added, value in zip(values.tolist(), self.data[row].tolist(), strict=True)
        ]
        return [element("td", f"{base:.4g}"), *cells, element("td", f"{base + float(values.sum()):.4g}")]

    def ranked(self, row: int = 0, output: int = 0) -> list[tuple[str, Any, float]]:
        """Return name, value and contribution of every column of one row, the largest contribution first.

        >>> one = np.ones((1, 2))
        >>> Reasons(one * [[1.0, -2.0]], one[:, 0], one, ["a", "b"], None, 0 * one).ranked()
        [('b', 1.0, -2.0), ('a', 1.0, 1.0)]
        """
        values = self.values[row] if self.values.ndim == 2 else self.values[row, :, output]
        cells = (value.item() if isinstance(value, np.generic) else value for value in self.data[row])
        found = zip(self.feature_names, cells, values.tolist(), strict=True)
        return sorted(found, key=lambda one: -abs(one[2]))

    def to_shap(self) -> Any:
        """Return a ``shap.Explanation``, which the plots of SHAP take; needs the package ``shap``."""
        try:
            import shap
        except ImportError as error:
            raise MissingExtraError("to_shap", "shap", "shap") from error
        return shap.Explanation(
            self.values,
            base_values=self.base_values,
            data=self.data,
            feature_names=list(self.feature_names),
            output_names=None if self.output_names is None else list(self.output_names),
        )

    def table(self) -> dict[str, Array]:
        """Return columns to write: row, output if there are several, every contribution, base, and the sum of all.

        A row has one line per output. The sum is f, the prediction before the link.
        """
        values, base = (self.values, self.base_values) if self.values.ndim == 3 else (
            self.values[:, :, None], self.base_values[:, None]
        )  # fmt: skip
        n_rows, _, n_outputs = values.shape
        lines = values.transpose(0, 2, 1).reshape(n_rows * n_outputs, -1)
        found: dict[str, Array] = {"(row)": np.repeat(np.arange(n_rows), n_outputs)}
        if self.output_names is not None:
            found["(output)"] = np.tile(np.array(self.output_names, object), n_rows)
        found |= {name: lines[:, at] for at, name in enumerate(self.feature_names)}
        return {**found, "(base)": base.ravel(), "(sum)": base.ravel() + lines.sum(axis=1)}

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write `table` to a CSV file, atomically; return its path."""
        target, columns = Path(path), self.table()
        check_output(target)
        with replacing(target) as part, part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
        return target


def _in_order(values: Array, errors: Array, base: Array) -> tuple[Array, Array, Array]:
    """Return contributions, their errors and bases with the outputs of every row in rising order of f, their sum."""
    order = np.argsort(base + values.sum(axis=1), axis=1, kind="stable")
    values, errors = (np.take_along_axis(each, order[:, None], axis=2) for each in (values, errors))
    return values, errors, np.take_along_axis(base, order, axis=1)


class ExplainsRows(ReadsRows):
    """The methods of the estimators that give reasons for predictions."""

    _centre: Array | None = None  # means of the encoded columns over the rows of the fit

    def __call__(self, X: Any) -> Array:
        """Return f at rows ``X``, the prediction before the link: what the explainers of SHAP call.

        (n_rows,), or (n_rows, n_outputs) for several outputs or classes.
        """
        f = self._by_rows(X, lambda rows: self.model_.decision(rows, self.n_jobs))
        return f[:, 0] if self._has_one_output else f

    def explain(self, X: Any, background: Any = None, *, n_orders: int = 16) -> Reasons:
        """Return what each column adds to the prediction of each row of ``X``, as Shapley values.

        With x_T, the row that takes the columns T from x and all others from a base row, the value of a column is the
        mean over all orders of the columns of f(x with it and those before it) - f(x with those before it). Values sum
        to f(x) - f(base) exactly. All columns that a column of a table is encoded as count as one.

        Parameters
        ----------
        X : rows as `predict` takes them, in memory
        background : rows, or None
            Base rows; the values are means over them, and cost as many times more. None is one base row, the means of
            the encoded columns over the rows of the fit: of a category, the shares of its levels.
        n_orders : int, default=16
            Where more than 8 columns of a row differ from the base row, that many orders are walked through instead of
            all, in pairs of opposite ones; ``standard_error`` of the answer falls as one over its root. A model without
            interactions of more than two columns is exact at any number.

        >>> from rflaf import RFLAFRegressor
        >>> X = np.random.default_rng(0).standard_normal((200, 3))
        >>> model = RFLAFRegressor(20, random_state=0).fit(X, 2 * X[:, 0] + X[:, 1] * X[:, 2])
        >>> reasons = model.explain(X[:5])
        >>> bool(np.allclose(reasons.base_values + reasons.values.sum(axis=1), model.predict(X[:5])))
        True
        """
        check_is_fitted(self)
        if not isinstance(n_orders, int | np.integer) or n_orders < 2:
            raise InvalidParameterError("n_orders must be a whole number, at least 2", n_orders, "The default is 16.")
        rows, bases = self._dense_rows(X), self._base_rows(background)
        found = contributions(self.model_, rows, bases, self._groups, int(n_orders), resolve_n_jobs(self.n_jobs))
        values, errors, base = found.values, found.errors, np.tile(found.base, (rows.shape[0], 1))
        if self._n_quantiles > 1:
            values, errors, base = _in_order(values, errors, base)
        if self._has_one_output:
            values, errors, base = values[:, :, 0], errors[:, :, 0], base[:, 0]
        names = None if self._has_one_output else self._output_names
        return Reasons(values, base, self._cells(X), self._column_names, names, errors)

    def interaction_strengths(self, X: Any, background: Any = None) -> Array:
        """Return how strongly each pair of columns interacts over rows ``X``: (n_columns, n_columns), diagonal zero.

        Entry i, j is the root mean square over rows, base rows and outputs of f(x_ij) - f(x_i) - f(x_j) + f(base), x_ij
        being the base row with columns i and j of x: zero if f is a sum of functions that do not join them.
        ``background`` as in `explain`.
        """
        check_is_fitted(self)
        return pair_strengths(self.model_, self._dense_rows(X), self._base_rows(background), self._groups)

    @property
    def feature_importances_(self) -> Array:
        """``column_importance_`` under the name that scikit-learn looks for: `SelectFromModel`, `RFE`."""
        importance: Array = self.column_importance_
        return importance

    @property
    def coef_(self) -> Array:
        """Refuse the former name of ``output_weights_``: others take it for weights of the columns."""
        words = (
            "coef_ is now output_weights_: SHAP and scikit-learn took it for one weight per column of a linear model"
        )
        raise AttributeError(words)

    @property
    def _has_one_output(self) -> bool:
        return bool(self.model_.n_outputs == 1 and (self._single_output or hasattr(self, "classes_")))

    @property
    def _n_quantiles(self) -> int:
        return 0 if hasattr(self, "classes_") else len(levels_of(self.loss_))

    @property
    def _output_names(self) -> list[str]:
        if self._n_quantiles:
            return [f"quantile {level:g}" for level in levels_of(self.loss_)]
        known = getattr(self, "classes_", range(self.model_.n_outputs))
        return [str(name) for name in known]

    @property
    def _column_names(self) -> list[str]:
        if self.table_encoding_ is not None:
            return list(self.table_encoding_.input_names)
        names = getattr(self, "feature_names_in_", None)
        return [f"x{i}" for i in range(self.n_features_in_)] if names is None else [str(name) for name in names]

    @property
    def _groups(self) -> ColumnGroups:
        """Encoded columns by column of the table."""
        encoding = self.table_encoding_
        if encoding is None:
            return ColumnGroups(np.arange(self.n_features_in_), self.n_features_in_)
        return ColumnGroups(encoding.origins, len(encoding.input_names))

    def _dense_rows(self, X: Any) -> Array:
        rows = self._check_rows(X)
        return np.ascontiguousarray(rows.toarray() if sp.issparse(rows) else rows, np.float64)

    def _base_rows(self, background: Any) -> Array:
        if background is not None:
            return self._dense_rows(background)
        if self._centre is None:
            rule = "a model of an earlier release does not know the means of its columns"
            raise InvalidParameterError(rule, None, "Pass some rows as background, or fit anew.")
        return np.asarray(self._centre, np.float64)[None]

    def _cells(self, X: Any) -> Array:
        """Return the cells of rows as given, by column of the table; None for one that is not there."""
        X = as_rows(X)
        if sp.issparse(X):
            return np.asarray(X.toarray())
        if not is_frame(X):
            return np.asarray(X)
        table = as_table(X)
        columns = [table[name].to_pylist() if name in table.column_names else None for name in self._column_names]
        cells = np.full((table.num_rows, len(columns)), None, object)
        for at, column in enumerate(columns):
            cells[:, at] = column
        numbers = all(isinstance(value, int | float) for value in cells.ravel().tolist())
        return cells.astype(np.float64) if numbers else cells
