"""Answers with a stated coverage: intervals of a regression, sets of labels of a classification.

Both come from rows that the model was not fitted to: those held out inside `fit`, or others given to `calibrate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from rflaf.errors import Array, InvalidParameterError
from rflaf.model.intervals import ErrorBands, Radii, inputs_of
from rflaf.training.calibration import bands_of, candidates, fit_spread_apart, label_scores

from .choices import is_number
from .offsets import checked_offset, offset_of, refuse_files_beside_offset, refuse_without_offset, shift_targets
from .rows_in import ReadsRows

Coverage = float | Sequence[float]
_LEAST_ROWS = 2


def coverages_of(coverage: Any) -> tuple[list[float], bool]:
    """Return coverages as a list, and whether there is a single one; refuse all but numbers between 0 and 1."""
    several = list(np.ravel(coverage)) if np.ndim(coverage) == 1 and np.size(coverage) else [coverage]
    if not all(is_number(each) and 0 < each < 1 for each in several):
        rule = "coverage must be a number between 0 and 1, without either, or a list of them"
        raise InvalidParameterError(rule, coverage, "0.9 is nine rows of ten.")
    return [float(each) for each in several], np.ndim(coverage) == 0


def uncalibrated(what: str) -> InvalidParameterError:
    """Return the refusal of an answer that needs errors of rows held out."""
    rule = f"{what} needs errors of rows that the model was not fitted to"
    return InvalidParameterError(rule, "none are known", "Call calibrate(X, y) with such rows.")


class PredictsIntervals(ReadsRows):
    """Intervals of a regression."""

    _bands: ErrorBands | None = None

    def predict_interval(
        self, X: Any, coverage: Coverage = 0.9, *, out: Any = None, offset: ArrayLike | str | None = None
    ) -> Array:
        """Return intervals that hold a share ``coverage`` of new targets: (n_samples, 2), lower and upper limits.

        The width follows the row: errors are counted in units of their usual size there, a second small model that
        `fit` trains on the errors of rows held out. Several coverages give (n_samples, n_coverages, 2), nested; several
        outputs have an axis of their own after the first. The limits are infinite where there were too few rows for a
        coverage: c needs c / (1 - c) of them. ``offset`` is that of `predict`.

        After `calibrate` a new row that is exchangeable with the n rows given there falls into its interval with
        probability at least c, and at most c + 1 / (n + 1) without ties, whatever their law and however bad the model.
        After `fit` alone the rows held out by its folds judge. The final model saw more rows than theirs; where models
        of fewer rows foretell by how much less it errs, intervals are up to a tenth narrower for it. The share holds
        if its errors are no larger than that.
        """
        check_is_fitted(self)
        levels, single = coverages_of(coverage)
        if self._bands is None:
            raise uncalibrated("predict_interval")
        if offset is not None:
            refuse_files_beside_offset(X)
            X, offset = offset_of(X, offset, self.target_encoding_)
        return self._by_rows(X, lambda rows: self._limits(rows, levels, single, offset), out)

    def _limits(self, rows: Any, levels: list[float], single: bool, offset: Any = None) -> Array:
        """Return the limits at validated rows, shaped like the targets."""
        assert self._bands is not None
        f = self.model_.decision(rows, self.n_jobs)
        size = self._bands.spread.at(rows, f)
        if offset is None:
            limits = self._bands.limits(self.loss_.middle(f), size, levels)
        else:
            off = checked_offset(offset, len(f))
            limits = self._bands.limits(self.loss_.middle(f), size * self.loss_.error_size(off), levels)
            known = np.isfinite(limits)
            limits = np.where(known, self.loss_.with_offset(np.where(known, limits, 0), off[:, :, None, None]), limits)
        limits = np.maximum(limits, self.loss_.least)
        limits = limits[:, :, 0] if single else limits
        return np.asarray(limits[:, 0] if self._single_target else limits)

    @property
    def _single_target(self) -> bool:
        """Whether y has one axis, whatever the number of answers."""
        return bool(self._single_output) or self.loss_.n_levels > 1

    def calibrate(self, X: Any, y: Any, sample_weight: Any = None, *, offset: ArrayLike | str | None = None) -> Self:
        """Take the errors of rows that the model was not fitted to for its intervals; the model stays as it is.

        A fit that held rows out has a model of the size of errors already, which stays. Otherwise half of the rows
        fit one and the other half judge it. ``offset`` is that of the rows, where the model was fitted beside one.
        """
        check_is_fitted(self)
        refuse_without_offset(self.target_encoding_, offset)
        X, offset = offset_of(X, offset, self.target_encoding_)
        if offset is not None:
            refuse_files_beside_offset(X)
        columns = candidates(self._feature_importance) if self._bands is None else self._bands.spread.columns

        def inputs(rows: Any) -> Array:
            return inputs_of(rows, self.model_.decision(rows, self.n_jobs), columns)

        y, Z, weight = self._scored(X, y, sample_weight, inputs, labels=False)
        y = np.asarray(y, np.float64).reshape(len(Z), -1)
        weight = np.ones(len(Z)) if weight is None else np.asarray(weight, np.float64)
        n_answers = self.model_.n_outputs
        _check_targets(y, n_answers // self.loss_.n_levels)
        off = np.zeros((len(y), 1)) if offset is None else checked_offset(offset, len(y))
        y = y if offset is None else shift_targets(self.loss_, y, off, weight)[0]
        error = (y - self.loss_.middle(Z[:, :n_answers])) / self.loss_.error_size(off)
        judges = weight > 0
        if self._bands is None:
            levels = getattr(self.table_encoding_, "level_counts", ())
            spread, judges = fit_spread_apart(Z, error, weight, columns, levels)
        else:
            spread = self._bands.spread
        read = np.append(np.arange(n_answers), n_answers + np.searchsorted(columns, spread.columns))
        size = spread.of_inputs(Z[judges][:, read])
        self._bands = bands_of(error[judges] / size, size, weight[judges], spread, self.loss_.symmetric)
        return self

    @property
    def _typical_deviation(self) -> Array:
        """The standard deviation of an error where it has its usual size, (n_outputs,)."""
        assert self._bands is not None
        return self._bands.deviation * self._bands.typical

    def _relative_size(self, rows: Any, f: Array) -> Array:
        """Return the size of errors at rows over that of all, (n_rows, n_outputs); one if it is not known."""
        if self._bands is None:
            return np.ones(f.shape)
        return np.asarray(self._bands.spread.at(rows, f) / self._bands.typical)


def _check_targets(y: Array, n_outputs: int) -> None:
    if y.shape[0] < _LEAST_ROWS or y.shape[1] != n_outputs or not np.isfinite(y).all():
        rule = f"calibrate needs at least {_LEAST_ROWS} rows with {n_outputs} finite targets each"
        raise InvalidParameterError(rule, f"shape {y.shape}", "Pass rows with their targets.")


class PredictsSets(ReadsRows):
    """Sets of labels of a classification."""

    _radii: Radii | None = None
    _several = False

    def _refuse_several(self, what: str) -> None:
        if self._several:
            rule = f"{what} is for classes of which one applies to a row, not for several labels"
            raise InvalidParameterError(rule, self.classes_.tolist(), "Use predict_proba, or a classifier per label.")

    def predict_set(self, X: Any, coverage: Coverage = 0.9, *, out: Any = None) -> Array:
        """Return sets that hold the label of a share ``coverage`` of new rows: (n_samples, n_classes), true or false.

        A set holds the labels whose probability is high enough, in the order of ``classes_``, the likeliest always
        among them. Several coverages give (n_samples, n_coverages, n_classes), nested. The share is that of all rows
        together, by the guarantee of `RFLAFRegressor.predict_interval`; single classes may have more or less.
        """
        check_is_fitted(self)
        self._refuse_several("predict_set")
        levels, single = coverages_of(coverage)
        if self._radii is None:
            raise uncalibrated("predict_set")
        reach = np.array([self._radii.at(level)[0] for level in levels])

        def sets(rows: Any) -> Array:
            scores = label_scores(self.model_.decision(rows, self.n_jobs), self.loss_)
            best = scores == scores.min(axis=1, keepdims=True)
            inside = (scores[:, None, :] <= reach[:, None]) | best[:, None, :]
            return np.asarray(inside[:, 0] if single else inside)

        return self._by_rows(X, sets, out)

    def calibrate(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Take rows that the model was not fitted to, with their labels, for its sets; the model stays as it is."""
        check_is_fitted(self)
        self._refuse_several("calibrate")

        def scores(rows: Any) -> Array:
            return label_scores(self.model_.decision(rows, self.n_jobs), self.loss_)

        y, answers, weight = self._scored(X, y, sample_weight, scores, labels=True)
        y = np.ravel(y).astype(self.classes_.dtype)
        at = np.minimum(np.searchsorted(self.classes_, y), self.classes_.size - 1)
        weight = np.ones(len(y)) if weight is None else np.asarray(weight, np.float64)
        known = (self.classes_[at] == y) & (weight > 0)
        of_label = np.where(known, answers[np.arange(len(y)), at], np.inf)  # a label never seen is in no set
        self._radii = Radii.of(of_label[weight > 0, None], weight[weight > 0])
        return self
