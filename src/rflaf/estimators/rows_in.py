"""Rows as the estimators take them: checked, encoded, and read block by block where they are not in memory.

Rows to learn from become a `BlockSource`; rows to predict become arrays, all at once or in blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import _check_feature_names, _check_sample_weight, check_is_fitted, validate_data

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.losses import Loss
from rflaf.rows.blocks import BlockSource, CheckedTargets, RepeatedTargets, array_source
from rflaf.rows.dask import is_collection, predict_lazily
from rflaf.rows.files import ScannedTable, Table, is_files
from rflaf.rows.files.chunks import column_names
from rflaf.rows.inputs import (
    as_rows,
    encode_rows,
    is_frame,
    names_columns,
    native,
    needs_encoding,
    open_rows,
    take_column,
    target_of,
)
from rflaf.rows.opened import OpenRows
from rflaf.rows.progress import Begin
from rflaf.rows.tables import TableEncoding, TargetEncoding, as_table, is_number
from rflaf.training.memory import TableSize, plan_prediction

from .table_columns import category_names, has_names, log_decisions, names_of, unlike_the_fit
from .verbose import shown

_FLOATS = (np.float64, np.float32)
_LEAST_WEIGHT = 1e-30


@dataclass(frozen=True, slots=True)
class Fitting:
    """A fit under way: the resources it has opened, and how the progress of its passes is shown."""

    opened: ExitStack
    begin: Begin


class ReadsRows(BaseEstimator):
    """The methods of the estimators that read rows, whatever the rows are given as."""

    table_encoding_: TableEncoding | None = None
    target_encoding_: TargetEncoding | None = None
    provenance_: Mapping[str, Any] = MappingProxyType({})
    _given_names = True  # whether the columns of an encoded table had names

    @property
    def _memory(self) -> int | None:
        return None if self.memory == "auto" else int(self.memory)

    def _open(self, fit: Fitting, X: Any, y: Any, sample_weight: Any, labels: bool, reset: bool) -> OpenRows | None:
        """Open rows that are not in memory, and take their columns; return None for arrays and frames."""
        if reset:
            self.__dict__.pop("provenance_", None)  # that of an earlier fit
        encoding = None if reset else self.table_encoding_
        rows = open_rows(self._with_categories(X), y, sample_weight, labels, encoding, fit.begin, self._memory)
        if rows is not None:
            fit.opened.enter_context(closing(rows))
            self._take_columns(rows, reset)
            if reset and rows.encoding is not None:
                log_decisions(rows.encoding, rows.target if labels else None)
        return rows

    def _rows(
        self, fit: Fitting, X: Any, y: Any, sample_weight: Any, loss: Loss, reset: bool = True
    ) -> tuple[BlockSource, bool]:
        """Return rows with numeric targets that ``loss`` accepts, and whether y is a single column."""
        rows = self._open(fit, X, y, sample_weight, False, reset)
        if rows is not None:
            if reset:
                loss.check_range(*rows.seen.target_range)
            checked = CheckedTargets(rows.source, loss)
            if loss.n_levels == 1:
                return checked, rows.single_output
            loss.targets(np.zeros((1, rows.source.n_outputs)))  # refuses several
            return RepeatedTargets(checked, loss.n_levels), False
        X, y, sample_weight = self._encoded(X, y, sample_weight, False, reset)
        X, y = self._checked(X, y, reset, multi_output=True, y_numeric=True)
        if sp.issparse(y):
            raise InvalidParameterError("y must be dense", "a sparse matrix", "Pass y.toarray().")
        (loss.check if reset else loss.check_more)(y)
        targets = loss.targets(y.reshape(len(y), -1))
        return array_source(X, targets, check_weight(sample_weight, X)), np.ndim(y) == 1 and loss.n_levels == 1

    def _with_categories(self, X: Any) -> Any:
        """Return files with the columns that ``categorical_features`` names among their categories."""
        if not is_files(X) or isinstance(self.categorical_features, str):
            return X
        if isinstance(X, ScannedTable):
            return X
        table = X if isinstance(X, Table) else Table(X)
        names = category_names(self.categorical_features, list(column_names(table)))
        return replace(table, categories=[*table.categories, *names])

    def _encoded(self, X: Any, y: Any, sample_weight: Any, labels: bool, reset: bool) -> tuple[Any, Any, Any]:
        """Return rows, targets and weights in memory; a frame gives its named columns, and is encoded if need be.

        Rows of numbers without gaps stay as they are, unless the target is one of their columns.
        """
        encoding, target = (None, None) if reset else (self.table_encoding_, self.target_encoding_)
        X = as_rows(X)
        named = isinstance(y, str) or names_columns(X, y)
        if is_frame(X):
            X, y, sample_weight, target = _named_columns(X, y, sample_weight, target, labels)
        if encoding is not None:
            X = self._transformed(X)
        elif reset:
            names = category_names(self.categorical_features, names_of(X))
            if names or (named and is_frame(X)) or needs_encoding(X):
                self._given_names = is_frame(X) and has_names(X)
                sample_weight = check_weight(sample_weight, X)
                X, encoding = encode_rows(X, y, sample_weight, labels, names)
                log_decisions(encoding)
        if reset:
            self.table_encoding_, self.target_encoding_ = encoding, target
        return X, y, sample_weight

    def _transformed(self, X: Any) -> Any:
        """Return rows as the encoding of the fit makes them; a matrix has its columns in order."""
        encoding = self.table_encoding_
        assert encoding is not None
        X = as_rows(X)
        if is_frame(X):
            return encoding.transform(X)
        if not isinstance(X, np.ndarray) or X.ndim != 2 or X.shape[1] != len(encoding.input_names):
            return X
        table = as_table(X)
        return encoding.transform(table.rename_columns(list(encoding.input_names)))

    @property
    def _n_encoded(self) -> int:
        """The number of columns that the model takes."""
        encoding = self.table_encoding_
        return int(self.n_features_in_ if encoding is None else len(encoding.feature_names))

    def _checked(self, X: Any, y: Any, reset: bool, **of_targets: Any) -> tuple[Any, Array]:
        """Return rows and targets in memory, validated by scikit-learn; encoded rows have the names of the table."""
        rules = {"accept_sparse": "csr", "dtype": _FLOATS, "ensure_min_samples": 2 if reset else 1, **of_targets}
        if rules.get("y_numeric"):
            refuse_times(np.asarray(y))
            refuse_texts(np.asarray(y))
        if self.table_encoding_ is None or not isinstance(X, np.ndarray):
            with _quietly():
                X, y = validate_data(self, X, y, reset=reset, **rules)
            return native(X), y
        with _quietly():
            X, y = check_X_y(X, y, estimator=self, **rules)
        if reset:
            self._name_columns(self._given_names)
        return X, y

    def _name_columns(self, named: bool) -> None:
        """Set the columns of the fit from the encoding: those of the table."""
        assert self.table_encoding_ is not None
        names = self.table_encoding_.input_names
        _check_feature_names(self, None, reset=True)
        self.n_features_in_ = len(names)
        if named:
            self.feature_names_in_ = np.array(names, dtype=object)

    def _take_columns(self, rows: OpenRows, reset: bool) -> None:
        """Set or check the columns of rows outside memory, as `validate_data` does for arrays."""
        names = None if rows.feature_names is None else np.array(rows.feature_names, dtype=object)
        if reset:
            _check_feature_names(self, None, reset=True)
            self.n_features_in_ = rows.source.n_features
            self.table_encoding_, self.target_encoding_ = rows.encoding, rows.target
            if rows.encoding is not None:
                self._name_columns(True)
            elif names is not None:
                self.feature_names_in_ = names
            if rows.source.n_samples < 2:
                raise InvalidParameterError("there must be at least 2 rows", rows.source.n_samples, "Add rows.")
            return
        known = getattr(self, "feature_names_in_", None)
        if self.table_encoding_ is not None:
            known = np.array(self.table_encoding_.feature_names, dtype=object)
        renamed = names is not None and known is not None and names.tolist() != known.tolist()
        if rows.source.n_features != self._n_encoded or renamed:
            raise InvalidParameterError(
                "columns must be those of the first rows, in their order",
                rows.source.n_features if names is None else names.tolist(),
                f"Pass {self._n_encoded if known is None else known.tolist()}.",
            )

    def _by_rows(self, X: Any, answer: Callable[[Any], Array], out: Array | None = None) -> Array:
        """Return ``answer`` of validated rows, written to ``out`` if given; rows in files are read block by block."""
        if type(X) is not np.ndarray:
            check_is_fitted(self)
            if is_files(X):
                return self._by_files(X, answer, out)
            if is_collection(X):
                lazy: Array = predict_lazily(lambda rows: self._by_rows(rows, answer), X, out)
                return lazy
        answers = answer(self._check_rows(X))
        return answers if out is None else _write(answers, out, 0, answers.shape[0])

    def _check_rows(self, X: Any) -> Any:
        """Return rows to predict, validated; a matrix that is plainly fine costs no more than a sum."""
        if (
            type(X) is np.ndarray
            and X.ndim == 2
            and X.dtype in _FLOATS
            and X.shape == (len(X) or 1, getattr(self, "n_features_in_", -1))
            and self.table_encoding_ is None
            and not hasattr(self, "feature_names_in_")
            and math.isfinite(np.vdot(X, X))  # rows that are finite though this is not are looked at again below
        ):
            return X
        check_is_fitted(self)
        if self.table_encoding_ is not None:
            return self._check_encoded(X)
        X = as_rows(X)
        if needs_encoding(X) and is_frame(X) | (np.shape(X)[1:] == (self.n_features_in_,)):
            raise unlike_the_fit(X)
        with _quietly():
            X = native(validate_data(self, X, accept_sparse="csr", dtype=_FLOATS, reset=False))
        return sp.csr_array(X) if sp.issparse(X) else X

    def _check_encoded(self, X: Any) -> Any:
        """Return rows to predict as the encoding makes them; arrays of encoded columns are taken too."""
        X = as_rows(X)
        rows = self._transformed(X)
        if rows is not X and type(rows) is np.ndarray and len(rows):
            return rows  # made by the encoding: of the right columns, and finite
        checked: Any = check_array(rows, accept_sparse="csr", dtype=_FLOATS, estimator=self)
        if checked.shape[1] != self._n_encoded:
            raise InvalidParameterError(
                f"X has {checked.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input: rows must have the columns of the fit",
                checked.shape[1],
                f"Pass a table with {list(self.table_encoding_.column_names)}.",  # type: ignore[union-attr]
            )
        return sp.csr_array(checked) if sp.issparse(checked) else checked

    def _by_files(self, X: Any, answer: Callable[[Any], Array], out: Array | None) -> Array:
        with shown(bool(self.verbose)) as begin:
            opened = open_rows(X, None, None, False, self.table_encoding_, begin, self._memory)
            assert opened is not None
            with closing(opened):
                return _by_blocks(self._readable(opened), answer, out, begin)

    def _readable(self, opened: OpenRows) -> BlockSource:
        """Return rows to predict in blocks that are worth a call and fit the memory."""
        if opened.source.n_features != self._n_encoded:
            raise InvalidParameterError(
                f"rows must have the {self._n_encoded} columns of the fit", opened.source.n_features, "Check them."
            )
        width = self.model_.n_components + self.model_.n_outputs
        return opened.source.with_rows(plan_prediction(self._memory, TableSize.of(opened.source), width))

    def _scored(
        self, X: Any, y: Any, sample_weight: Any, answer: Callable[[Any], Array], labels: bool
    ) -> tuple[Any, Array, Any]:
        """Return targets, answers and weights of rows, which are read once."""
        check_is_fitted(self)
        if not is_files(X):
            X = as_rows(X)
            if is_frame(X):
                X, y, sample_weight, _ = _named_columns(X, y, sample_weight, self.target_encoding_, labels)
            return y, answer(self._check_rows(X)), sample_weight
        opened = open_rows(X, y, sample_weight, labels, self.table_encoding_)
        assert opened is not None
        with closing(opened):
            source = self._readable(opened)
            blocks = (source[i] for i in range(len(source)))
            parts = [(block.y, answer(block.X), block.weight) for block in blocks]
        targets, answers = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        weights = [part[2] for part in parts if part[2] is not None]
        return targets, answers, np.concatenate(weights) if weights else None


def _named_columns(
    X: Any, y: Any, sample_weight: Any, target: TargetEncoding | None, labels: bool
) -> tuple[Any, Any, Any, TargetEncoding | None]:
    """Return a frame without the columns that ``y`` and ``sample_weight`` name, these columns, and the target.

    Several columns have no target of one name.
    """
    if isinstance(sample_weight, str):
        role = TargetEncoding(sample_weight, "regression", "number")
        sample_weight, _, X = take_column(X, sample_weight, role, False)
    if names_columns(X, y):
        columns = []
        for name in y:
            column, _, X = take_column(X, name, None, labels)
            columns.append(column)
        return X, np.column_stack(columns), sample_weight, None
    if not isinstance(y, str):
        return X, y, sample_weight, target_of(y, labels)
    y, target, X = take_column(X, y, target, labels)
    return X, y, sample_weight, target


def _by_blocks(source: BlockSource, answer: Callable[[Any], Array], out: Array | None, begin: Begin) -> Array:
    n_rows = source.n_samples
    with begin("predict", n_rows, n_rows) as display:
        for i in range(len(source)):
            block = source[i]
            answers = answer(block.X)
            if out is None:
                out = np.empty((n_rows, *answers.shape[1:]), answers.dtype)
            _write(answers, out, block.first, n_rows)
            display.advance(block.n_rows)
    assert out is not None  # files have rows
    return out


def _write(answers: Array, out: Any, first: int, n_rows: int) -> Array:
    """Write answers for some of ``n_rows`` rows to their place in ``out``; refuse an array that cannot hold all."""
    shape, rounded = (n_rows, *answers.shape[1:]), answers.dtype.kind == "f"
    if not (
        isinstance(out, np.ndarray)
        and out.shape == shape
        and np.can_cast(answers.dtype, out.dtype, "same_kind" if rounded else "safe")
    ):
        found = f"{out.dtype} of shape {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        rule = f"out must be an array of shape {shape} that can hold {answers.dtype}"
        remedy = "Make it with np.empty, or np.lib.format.open_memmap for a file."
        raise InvalidParameterError(rule, found, remedy)
    out[first : first + answers.shape[0]] = answers
    return out


def refuse_times(y: Array) -> None:
    """Refuse dates, periods and durations as targets of a regression, also those that an array holds as objects."""
    first = y.flat[0] if y.dtype.kind == "O" and y.size else None
    of_objects = isinstance(first, (timedelta, np.datetime64)) or hasattr(first, "year")
    if y.dtype.kind in "mM" or of_objects:
        kind = type(first).__name__ if of_objects else str(y.dtype)
        rule = "targets of a regression must be numbers"
        raise InvalidParameterError(rule, kind, "Subtract a date and divide by a unit of time.")


def refuse_texts(y: Array) -> None:
    """Refuse texts as targets of a regression; those that are plain numbers are taken."""
    if y.dtype.kind not in "OU":
        return
    for value in y.flat:
        if isinstance(value, str) and not is_number(value):
            rule = "targets of a regression must be numbers"
            remedy = "Name a column of the table, whose texts such as $1,234.50 are read, or use RFLAFClassifier."
            raise InvalidParameterError(rule, str(value), remedy)


def _quietly() -> np.errstate:
    """Return a context in which sums of large values, by which scikit-learn finds NaN, may overflow."""
    return np.errstate(over="ignore", invalid="ignore")


def check_weight(sample_weight: ArrayLike | None, X: Any) -> Array | None:
    """Return the weights of the rows of ``X``, validated, or None."""
    if sample_weight is None:
        return None
    if not np.any(np.asarray(sample_weight)):
        raise InvalidParameterError(
            "sample_weight must have a positive entry", "zeros only", "Drop sample_weight to weigh all rows alike."
        )
    with _quietly():
        weight: Array = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    largest = float(weight.max())
    if not _LEAST_WEIGHT < largest < 1 / _LEAST_WEIGHT:  # their unit has no effect, but single precision has a range
        weight = np.ldexp(weight, -int(np.frexp(largest)[1]))
    return weight
