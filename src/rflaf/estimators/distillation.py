"""Students of slow teachers: a small model fitted to what another estimator says of rows that it was not fitted to.

    target of a row = (1 - mix) label + mix (mean of what teachers fitted without the row say of it)

Soft targets carry more than a label does: how sure the teacher is, with the noise of the labels averaged out. Too much
of them copies the mistakes of the teacher, so the mix is chosen on labels of rows held out; labels alone, mix 0, are
taken unless the teacher clearly helps.

What a teacher says of one row follows from the labels of the others. A student that searched for its penalty among such
targets would find the labels held out in them, and take one far too weak. So every teacher is fitted without two folds:
while one of them judges a student, its recipe or its mix, the student learns what is said of the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from rflaf.errors import Array, InvalidParameterError
from rflaf.rows.inputs import is_frame
from rflaf.training.specification import LEAST_REFINED_ROWS

from .classifier import RFLAFClassifier
from .labelled_rows import gives_probabilities
from .regressor import RFLAFRegressor
from .soft_labels import SoftLabels
from .splits import Lessons, Splits

_log = logging.getLogger("rflaf")
_MIXES = (0.0, 0.5, 0.8, 1.0)
_LEAST_PROBABILITY = 1e-12
_USUAL_FOLDS, _LEAST_FOLDS = 5, 3
_JUDGES = ((3000, 5), (12_000, 3))  # of so many rows so many folds judge, as in the search; of more rows one does
_CLEARLY = 1.0  # standard errors


@dataclass(frozen=True, slots=True)
class Distillation:
    """How a student was taught.

    Attributes
    ----------
    mix : the share of the teacher in the targets
    losses : of every mix tried, the mean loss of students on labels that neither they nor their teachers have seen:
        log-loss, or the squared error
    teacher_loss : the same of the means of the teachers, of rows they were not fitted to; None without labels
    n_unlabelled : number of rows that only the teacher labelled
    """

    mix: float
    losses: dict[float, float]
    teacher_loss: float | None
    n_unlabelled: int = 0


def distil(
    teacher: Any,
    X: Any,
    y: Any = None,
    *,
    student: Any = None,
    folds: int | None = 5,
    unlabelled: Any = None,
    mixes: Sequence[float] = _MIXES,
    random_state: int | None = None,
) -> Any:
    """Return a student of a slow ``teacher``: a small model that predicts nearly as well, and far quicker.

    Parameters
    ----------
    teacher : classifier or regressor of scikit-learn's kind, fitted or not
        It is cloned and fitted without every two folds of the rows; the teacher itself is left as it is.
    X, y : rows (n_samples, n_features) and their labels or targets (n_samples,)
        Without ``y`` a fitted teacher alone says what the student learns, and ``X`` should be rows it never saw.
    student : RFLAFClassifier, RFLAFRegressor or None, default=None
        Cloned, then fitted; None for the defaults with ``random_state``.
    folds : int or None, default=5
        Number of folds, at least three: ten fits of the teacher for five folds, nine above 3,000 rows, four above
        12,000. None trusts a fitted teacher at ``X`` as it is: right only if it was not fitted to these rows.
    unlabelled : rows like ``X`` or None, default=None
        More rows to learn from; the fitted teacher, or the mean of those of the folds, labels them.
    mixes : sequence of float, default=(0.0, 0.5, 0.8, 1.0)
        Shares of the teacher in the targets to choose from, 0 always among them: the best on labels held out, of all
        folds, of three above 3,000 rows and of one above 12,000. It must clearly beat 0, labels alone. A single one is
        taken as it is.
    random_state : int or None, default=None
        Seed of the folds, and of the student unless one is given.

    Returns
    -------
    The fitted student, with an attribute ``distillation_``, a `Distillation`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import ExtraTreesClassifier
    >>> import rflaf
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((120, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "even", "odd")
    >>> student = rflaf.distil(ExtraTreesClassifier(20, random_state=0), X, y, folds=3, random_state=0)
    >>> student.predict([[1.0, 1.0], [1.0, -1.0]])
    array(['even', 'odd'], dtype='<U4')
    """
    task = _Task(is_classifier(teacher), None if y is None else np.asarray(y), student, random_state)
    _check(teacher, task, folds, mixes)
    if folds is None or y is None:
        check_is_fitted(teacher)
    rows = X if unlabelled is None else _stacked(X, unlabelled)
    if task.y is None:
        said = task.said(teacher, rows)
        return _with_report(task.fitted(rows, said), Distillation(1.0, {}, None, len(said) - _n_rows(X)))
    splits = _splits(task, _USUAL_FOLDS if folds is None else folds)
    judges = splits[: next((most for n_rows, most in _JUDGES if len(task.y) <= n_rows), 1)]
    if folds is None:
        said = task.said(teacher, rows)
        taught = _Taught((said,) * len(judges), said)
    else:
        taught = _without_two_folds(teacher, task, rows, splits, len(judges))
    lesson = _Lesson(task, rows, taught, judges)
    tried = sorted({0.0, *map(float, mixes)}) if len(mixes) > 1 else []
    losses = {mix: lesson.losses(mix) for mix in tried}
    mix = _best_mix(losses) if losses else float(mixes[0])
    student = lesson.learned(mix)
    loss, n_unlabelled = float(task.losses(taught.whole[: len(task.y)]).mean()), len(taught.whole) - len(task.y)
    means = {mix: float(each.mean()) for mix, each in losses.items()}
    return _with_report(student, Distillation(mix, means, loss, n_unlabelled))


def _with_report(student: Any, report: Distillation) -> Any:
    student.distillation_ = report
    _log.info("distilled: %s", report)
    return student


@dataclass(frozen=True)
class _Task:
    """Classification or regression, the labels if there are some, and the student."""

    classifies: bool
    y: Array | None
    student: Any
    random_state: int | None

    @property
    def classes(self) -> Array:
        return np.unique(self.y) if self.y is not None else np.zeros(0)

    def new_student(self) -> Any:
        if self.student is not None:
            return clone(self.student)
        return (RFLAFClassifier if self.classifies else RFLAFRegressor)(random_state=self.random_state)

    def fitted(self, X: Any, targets: Array) -> Any:
        """Return a student fitted to targets alone, of which it searches for a recipe too."""
        if not self.classifies:
            return self.new_student().fit(X, targets)
        classes = self.classes if self.y is not None else np.arange(targets.shape[1])
        return self.new_student().fit(X, SoftLabels(classes, targets))

    def said(self, teacher: Any, X: Any) -> Array:
        """Return probabilities (n_samples, n_classes) in the order of ``classes``, or predictions (n_samples, ...)."""
        if not self.classifies:
            return np.asarray(teacher.predict(X), np.float64)
        P = np.asarray(teacher.predict_proba(X), np.float64)
        if self.y is None:
            return P
        classes, own = self.classes, np.asarray(teacher.classes_)
        whole = np.full((len(P), classes.size), _LEAST_PROBABILITY)
        whole[:, np.searchsorted(classes, own)] = np.maximum(P, _LEAST_PROBABILITY)
        return np.asarray(whole / whole.sum(axis=1, keepdims=True))

    def labels(self, said: Array) -> Array:
        """Return the labels, and what is said of the rows without, (n_samples,) or (n_samples, n_outputs)."""
        assert self.y is not None
        extra = said[len(self.y) :]
        return np.concatenate([self.y, self.classes[extra.argmax(axis=1)] if self.classifies else extra])

    def columns(self, targets: Array) -> Array:
        """Return targets as the losses of students take them, (n_samples, n_outputs)."""
        one_of_two = self.classifies and self.classes.size == 2
        return targets[:, 1:] if one_of_two else targets.reshape(len(targets), -1)

    def mixed(self, said: Array, mix: float) -> Array:
        """Return targets: labels mixed with what is said of their rows, then what is said of the rows without."""
        assert self.y is not None
        own, n_rows = (self.y[:, None] == self.classes) if self.classifies else self.y, len(self.y)
        return np.concatenate([(1 - mix) * own + mix * said[:n_rows], said[n_rows:]])

    def losses(self, said: Array, rows: Array | slice = slice(None)) -> Array:
        """Return the loss of what is said of some rows, (n_rows,)."""
        assert self.y is not None
        if not self.classifies:
            return np.asarray(np.mean((said - self.y[rows]).reshape(len(said), -1) ** 2, axis=1))
        at = np.searchsorted(self.classes, self.y[rows])
        return np.asarray(-np.log(np.maximum(said[np.arange(at.size), at], _LEAST_PROBABILITY)))


@dataclass(frozen=True)
class _Taught:
    """What teachers say of the labelled rows and then of the others: for every split that judges, and for all rows.

    That of a split is the word of teachers which saw none of its rows held out; of these themselves it is NaN.
    """

    by_split: tuple[Array, ...]
    whole: Array


@dataclass(frozen=True)
class _Lesson:
    """Rows, those without a label last, what the teachers say of them, and the splits that judge the students."""

    task: _Task
    X: Any
    taught: _Taught
    splits: Splits

    @property
    def _searches(self) -> bool:
        """Return whether students search for a recipe on rows held out."""
        return self.task.new_student().directions == "refined" and len(self.taught.whole) >= LEAST_REFINED_ROWS

    def learned(self, mix: float) -> Any:
        """Return a student of a mix; of labels alone it is the very one that they give without a teacher."""
        task, whole = self.task, self.taught.whole
        assert task.y is not None
        if mix == 0 and len(whole) == len(task.y):
            return task.new_student().fit(self.X, task.y)
        return self._searched(mix) if self._searches else task.fitted(self.X, task.mixed(whole, mix))

    def losses(self, mix: float) -> Array:
        """Return the losses of students of a mix on the labels that the splits hold out."""
        task, held_out = self.task, np.concatenate([test for _, test in self.splits])
        if self._searches:
            said = np.asarray(self._searched(mix).oof_prediction_)[held_out]
        else:
            said = np.concatenate([self._said_without(split, mix) for split in range(len(self.splits))])
        losses = task.losses(np.asarray(said, np.float64), held_out)
        _log.info("distil: mix %.3g, loss of students on labels held out %.5g", mix, losses.mean())
        return losses

    def _searched(self, mix: float) -> Any:
        """Return a student whose search learns from the teachers of each split, and is judged by labels."""
        task, taught = self.task, self.taught
        targets = tuple(task.columns(task.mixed(said, mix)) for said in (*taught.by_split, taught.whole))
        n_rows = len(taught.whole)
        splits = tuple((np.setdiff1d(np.arange(n_rows), test), test) for _, test in self.splits)
        return task.new_student().fit(self.X, task.labels(taught.whole), cv=Lessons(splits, targets))

    def _said_without(self, split: int, mix: float) -> Array:
        """Return what a student that learned without the rows held out by a split says of them."""
        task, test = self.task, self.splits[split][1]
        targets = task.mixed(self.taught.by_split[split], mix)
        train = np.setdiff1d(np.arange(len(targets)), test)
        student = task.fitted(_safe_indexing(self.X, train), targets[train])
        X = _safe_indexing(self.X, test)
        return np.asarray(student.predict_proba(X) if task.classifies else student.predict(X), np.float64)


def _best_mix(losses: dict[float, Array]) -> float:
    """Return the mix of lowest mean loss among those clearly better than 0, labels alone; 0 where there is none."""
    gains = {mix: losses[0.0] - each for mix, each in losses.items()}
    clear = [mix for mix, gain in gains.items() if gain.mean() > _CLEARLY * gain.std() / np.sqrt(gain.size)]
    return min(clear, key=lambda mix: float(losses[mix].mean()), default=0.0)


def _without_two_folds(teacher: Any, task: _Task, X: Any, splits: Splits, n_judges: int) -> _Taught:
    """Return what clones of the teacher, each fitted without two folds, say of these and of the rows without a label.

    Where one of the two folds judges, what is said of the other is taught.
    """
    assert task.y is not None
    words = list[tuple[int, Array, Array]]()  # the fold that may judge, rows, and what is said of them
    n_rows, others = _n_rows(X), np.arange(len(task.y), _n_rows(X))
    pairs = [pair for pair in combinations(range(len(splits)), 2) if pair[0] < n_judges]
    for number, (first, second) in enumerate(pairs, 1):
        fitted_to = np.setdiff1d(splits[first][0], splits[second][1])
        fitted = _unfitted(teacher).fit(_safe_indexing(X, fitted_to), task.y[fitted_to])
        for judge, fold in ((first, second), (second, first)):
            rows = np.concatenate([splits[fold][1], others])
            words.append((judge, rows, task.said(fitted, _safe_indexing(X, rows))))
        _log.info("distil: fitted teacher %d of %d, without folds %d and %d", number, len(pairs), first + 1, second + 1)
    by_split = tuple(_mean([word[1:] for word in words if word[0] == judge], n_rows) for judge in range(n_judges))
    whole = _mean([word[1:] for word in words], n_rows)
    if others.size and _is_fitted(teacher):
        whole[others] = task.said(teacher, _safe_indexing(X, others))
    return _Taught(by_split, whole)


def _mean(words: Sequence[tuple[Array, Array]], n_rows: int) -> Array:
    """Return the mean of what is said of every row, (n_rows, ...), NaN where nothing is."""
    said, times = np.zeros((n_rows, *words[0][1].shape[1:])), np.zeros(n_rows)
    for rows, word in words:
        said[rows] += word
        times[rows] += 1
    said[times == 0] = np.nan
    return np.asarray((said.T / np.maximum(times, 1)).T)


def _splits(task: _Task, folds: int) -> Splits:
    """Return pairs of row numbers, to fit and held out."""
    assert task.y is not None
    kind: Callable[..., Any] = KFold
    if task.classifies and np.unique(task.y, return_counts=True)[1].min() >= folds:
        kind = StratifiedKFold
    return tuple(kind(folds, shuffle=True, random_state=task.random_state).split(np.zeros(len(task.y)), task.y))


def _unfitted(teacher: Any) -> Any:
    """Return a clone of a teacher, or a copy of one that cannot be cloned, as of CatBoost with a list of columns."""
    try:
        return clone(teacher)
    except RuntimeError:
        return deepcopy(teacher)


def _stacked(first: Any, second: Any) -> Any:
    """Return the rows of two tables of one kind, one below the other."""
    if type(first) is not type(second):
        rule = "unlabelled rows must be of the kind of X"
        raise InvalidParameterError(rule, type(second).__name__, f"Pass a {type(first).__name__}.")
    if is_frame(first):  # of pandas or polars
        return import_module(type(first).__module__.partition(".")[0]).concat([first, second])
    return np.concatenate([np.asarray(first), np.asarray(second)])


def _n_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _is_fitted(teacher: Any) -> bool:
    try:
        check_is_fitted(teacher)
    except Exception:  # whatever an estimator raises, it is not ready
        return False
    return True


def _check(teacher: Any, task: _Task, folds: int | None, mixes: Sequence[float]) -> None:
    if task.classifies and not hasattr(teacher, "predict_proba"):
        rule = "a teacher of classes must have predict_proba"
        raise InvalidParameterError(rule, type(teacher).__name__, "Wrap it in CalibratedClassifierCV.")
    if task.classifies and task.y is not None and task.y.ndim != 1:
        rule = "labels to distil must be one for each row"
        raise InvalidParameterError(rule, f"shape {task.y.shape}", "Distil each label by itself.")
    if task.y is None and not _is_fitted(teacher):
        raise InvalidParameterError("a teacher without labels to learn from must be fitted", teacher, "Pass y.")
    if folds is not None and (not isinstance(folds, int) or folds < _LEAST_FOLDS):
        rule = "folds must be None or a whole number, at least 3: every teacher is fitted without two of them"
        raise InvalidParameterError(rule, folds, "Use 5.")
    if not len(mixes) or not all(0 <= mix <= 1 for mix in mixes):
        raise InvalidParameterError("mixes must be numbers from 0 to 1", mixes, "Use (0.0, 0.5, 0.8, 1.0).")
    if task.student is not None and is_classifier(task.student) != task.classifies:
        rule = "student and teacher must both classify or both predict numbers"
        raise InvalidParameterError(rule, type(task.student).__name__, "Leave student out.")
    if task.classifies and not gives_probabilities(task.new_student()):
        rule = "a student of classes must have loss='log_loss'"
        raise InvalidParameterError(rule, task.student.loss, "Leave loss out.")
