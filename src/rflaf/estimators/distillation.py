"""Students of slow teachers: a small model fitted to what another estimator says of rows that it was not fitted to.

    target of a row = (1 - mix) label + mix (what teachers fitted without the row's fold say of it)

Soft targets carry more than a label does: how sure the teacher is, with the noise of the labels averaged out. Too much
of them copies the mistakes of the teacher, so the mix is chosen on labels of rows held out, which no teacher that the
judged student learns from has seen; labels alone, mix 0, are taken unless the teacher helps by a standard error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from rflaf.errors import Array, InvalidParameterError
from rflaf.rows.inputs import is_frame

from .classifier import RFLAFClassifier
from .regressor import RFLAFRegressor
from .soft_labels import SoftLabels

_log = logging.getLogger("rflaf")
_MIXES = (0.0, 0.5, 0.8, 1.0)
_LEAST_PROBABILITY = 1e-12
_USUAL_FOLDS = 5
_JUDGED_ROWS, _MOST_JUDGED = 3000, 3  # folds that judge the mix: one of many rows, three of few


@dataclass(frozen=True, slots=True)
class Distillation:
    """How a student was taught.

    Attributes
    ----------
    mix : the share of the teacher in the targets
    losses : of every mix tried, the mean loss of students on labels that neither they nor their teachers have seen:
        log-loss, or the squared error
    teacher_loss : the same of the teachers, each on the rows it was not fitted to; None without labels
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
        It is cloned and fitted without each fold of the rows; the teacher itself is left as it is.
    X, y : rows (n_samples, n_features) and their labels or targets (n_samples,)
        Without ``y`` a fitted teacher alone says what the student learns, and ``X`` should be rows it never saw.
    student : RFLAFClassifier, RFLAFRegressor or None, default=None
        Cloned, then fitted; None for the defaults with ``random_state``.
    folds : int or None, default=5
        Number of folds. None trusts a fitted teacher at ``X`` as it is: right only if it was not fitted to these rows.
    unlabelled : rows like ``X`` or None, default=None
        More rows to learn from; the fitted teacher, or the mean of those of the folds, labels them.
    mixes : sequence of float, default=(0.0, 0.5, 0.8, 1.0)
        Shares of the teacher in the targets to choose from, 0 always among them: the best on labels held out, of one
        fold or, where rows are few, of three. It must beat 0, labels alone, by a standard error. A single one is taken
        as it is.
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
    >>> student = rflaf.distil(ExtraTreesClassifier(20, random_state=0), X, y, folds=2, random_state=0)
    >>> student.predict([[1.0, 1.0], [1.0, -1.0]])
    array(['even', 'odd'], dtype='<U4')
    """
    task = _Task(is_classifier(teacher), None if y is None else np.asarray(y), student, random_state)
    _check(teacher, task, folds, mixes)
    if folds is None or y is None:
        check_is_fitted(teacher)
        splits, taught, others = None, task.said(teacher, X), [teacher]
    else:
        splits = _splits(task, folds)
        taught, others = _without_each_fold(teacher, task, X, splits)
        others = [teacher] if _is_fitted(teacher) else others
    extra = None
    if unlabelled is not None:
        extra = np.mean([task.said(other, unlabelled) for other in others], axis=0)
    lesson = _Lesson(task, X, taught, unlabelled, extra)
    losses = dict[float, Array]()
    if task.y is not None and len(mixes) > 1:
        n_judged = int(np.clip(_JUDGED_ROWS // len(taught), 1, _MOST_JUDGED))
        lessons = _judged_lessons(lesson, None if splits is None else teacher, splits, n_judged)
        tried = sorted({0.0, *map(float, mixes)})
        losses = {mix: np.concatenate([one.held_out_losses(mix, *split) for one, split in lessons]) for mix in tried}
    mix = 1.0 if task.y is None else _best_mix(losses) if losses else float(mixes[0])
    fitted = lesson.learned(mix, np.arange(len(taught)))
    loss = None if task.y is None else float(task.losses(taught).mean())
    means = {mix: float(each.mean()) for mix, each in losses.items()}
    fitted.distillation_ = Distillation(mix, means, loss, 0 if extra is None else len(extra))
    _log.info("distilled: %s", fitted.distillation_)
    return fitted


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

    def targets(self, taught: Array, mix: float, rows: Array) -> Array:
        """Return the labels of some rows mixed with what the teachers say of them."""
        if self.y is None:
            return taught[rows]
        own = (self.y[rows, None] == self.classes) if self.classifies else self.y[rows]
        return np.asarray((1 - mix) * own + mix * taught[rows])

    def losses(self, said: Array, rows: Array | slice = slice(None)) -> Array:
        """Return the loss of what is said of some rows, (n_rows,)."""
        assert self.y is not None
        if not self.classifies:
            return np.asarray(np.mean((said - self.y[rows]).reshape(len(said), -1) ** 2, axis=1))
        at = np.searchsorted(self.classes, self.y[rows])
        return np.asarray(-np.log(np.maximum(said[np.arange(at.size), at], _LEAST_PROBABILITY)))


@dataclass(frozen=True)
class _Lesson:
    """Rows, and what the teachers say of them and of unlabelled ones."""

    task: _Task
    X: Any
    taught: Array
    unlabelled: Any
    extra: Array | None

    def learned(self, mix: float, rows: Array) -> Any:
        """Return a student fitted to some of the rows and to all unlabelled ones."""
        X, targets = _safe_indexing(self.X, rows), self.task.targets(self.taught, mix, rows)
        if self.extra is not None:
            X, targets = _stacked(X, self.unlabelled), np.concatenate([targets, self.extra])
        student = self.task.new_student()
        if not self.task.classifies:
            return student.fit(X, targets)
        classes = self.task.classes if self.task.y is not None else np.arange(targets.shape[1])
        return student.fit(X, SoftLabels(classes, targets))

    def held_out_losses(self, mix: float, train: Array, test: Array) -> Array:
        """Return the losses, on labels held out, of a student fitted to the other rows."""
        student, X = self.learned(mix, train), _safe_indexing(self.X, test)
        said = student.predict_proba(X) if self.task.classifies else student.predict(X)
        losses = self.task.losses(np.asarray(said, np.float64), test)
        _log.info("distil: mix %.3g, loss of a student on labels held out %.5g", mix, losses.mean())
        return losses


def _best_mix(losses: dict[float, Array]) -> float:
    """Return the mix of lowest mean loss; 0, labels alone, unless another is better by a standard error."""
    best = min(losses, key=lambda mix: float(losses[mix].mean()))
    gain = losses[0.0] - losses[best]
    return best if gain.mean() > gain.std() / np.sqrt(gain.size) else 0.0


def _judged_lessons(
    lesson: _Lesson, teacher: Any, splits: list[tuple[Array, Array]] | None, n_judged: int
) -> list[tuple[_Lesson, tuple[Array, Array]]]:
    """Return lessons without a fold each, and the splits; a fitted teacher, given as None, stays as it is.

    What is taught of the rows of another fold comes from a teacher fitted without both folds: labels that judge a
    student have no part in what it learns.
    """
    if splits is None:
        return [(lesson, split) for split in _splits(lesson.task, _USUAL_FOLDS)[:n_judged]]
    task, X, unlabelled, pairs = lesson.task, lesson.X, lesson.unlabelled, dict[tuple[int, int], Any]()
    assert task.y is not None
    lessons = []
    for fold, (train, test) in enumerate(splits[:n_judged]):
        taught, extra = np.full_like(lesson.taught, np.nan), []
        others = [(other, rows) for other, (_, rows) in enumerate(splits) if other != fold]
        if len(others) == 1:  # nothing would be left to teach by: halves of the other fold
            others = list(zip((fold, fold + 2), (train[::2], train[1::2]), strict=True))
        for other, rows in others:
            pair = (min(fold, other), max(fold, other))
            if pair not in pairs:
                fitted_to = np.setdiff1d(train, rows)
                pairs[pair] = _unfitted(teacher).fit(_safe_indexing(X, fitted_to), task.y[fitted_to])
            taught[rows] = task.said(pairs[pair], _safe_indexing(X, rows))
            extra += [] if unlabelled is None else [task.said(pairs[pair], unlabelled)]
        mean = np.mean(extra, axis=0) if extra else None
        lessons.append((_Lesson(task, X, taught, unlabelled, mean), (train, test)))
        _log.info("distil: fitted the teachers of the students that fold %d judges", fold + 1)
    return lessons


def _splits(task: _Task, folds: int) -> list[tuple[Array, Array]]:
    """Return pairs of row numbers, to fit and held out."""
    assert task.y is not None
    kind: Callable[..., Any] = KFold
    if task.classifies and np.unique(task.y, return_counts=True)[1].min() >= folds:
        kind = StratifiedKFold
    return list(kind(folds, shuffle=True, random_state=task.random_state).split(np.zeros(len(task.y)), task.y))


def _without_each_fold(teacher: Any, task: _Task, X: Any, splits: list[tuple[Array, Array]]) -> tuple[Array, list[Any]]:
    """Return what clones of the teacher, each fitted without a fold, say of its rows; and the clones."""
    assert task.y is not None
    taught, clones = None, []
    for fold, (train, test) in enumerate(splits):
        clones.append(_unfitted(teacher).fit(_safe_indexing(X, train), task.y[train]))
        said = task.said(clones[-1], _safe_indexing(X, test))
        taught = np.empty((len(task.y), *said.shape[1:])) if taught is None else taught
        taught[test] = said
        _log.info("distil: fitted the teacher without fold %d of %d", fold + 1, len(splits))
    assert taught is not None
    return taught, clones


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
    if folds is not None and (not isinstance(folds, int) or folds < 2):
        raise InvalidParameterError("folds must be None or a whole number, at least 2", folds, "Use 5.")
    if not len(mixes) or not all(0 <= mix <= 1 for mix in mixes):
        raise InvalidParameterError("mixes must be numbers from 0 to 1", mixes, "Use (0.0, 0.5, 0.8, 1.0).")
    if task.student is not None and is_classifier(task.student) != task.classifies:
        rule = "student and teacher must both classify or both predict numbers"
        raise InvalidParameterError(rule, type(task.student).__name__, "Leave student out.")
