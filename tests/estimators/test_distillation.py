"""Students of teachers: what they learn from, and that they predict as well."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.utils.validation import check_is_fitted

import rflaf
from rflaf import InvalidParameterError, RFLAFClassifier, RFLAFRegressor
from rflaf.estimators.distillation import _best_mix
from rflaf.estimators.splits import Lessons

CLASSIFIER = RFLAFClassifier(8, directions="random", alpha=1e-4, random_state=0, n_jobs=1)
REGRESSOR = RFLAFRegressor(8, directions="random", random_state=0, n_jobs=1)


class KnowsTheTruth(RegressorMixin, BaseEstimator):
    """Predicts the truth, whatever the targets, and counts the rows it was fitted to."""

    def fit(self, X, y):
        self.n_rows_ = len(X)
        return self

    def predict(self, X):
        return np.sin(2 * np.asarray(X)[:, 0])


class OnlyLies(ClassifierMixin, BaseEstimator):
    """Says the contrary of the truth."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(3 * np.asarray(X)[:, 0]))
        return np.stack([1 - p, p], axis=1)


def noisy(n_rows=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n_rows, 2))
    return X, np.sin(2 * X[:, 0]) + rng.standard_normal(n_rows)


def test_a_good_teacher_takes_the_noise_off_the_targets():
    X, y = noisy(400)
    student = rflaf.distil(KnowsTheTruth(), X, y, student=REGRESSOR, folds=4, random_state=0)
    truth = np.sin(2 * X[:, 0])
    alone = REGRESSOR.fit(X, y)
    assert student.distillation_.mix >= 0.5
    assert np.mean((student.predict(X) - truth) ** 2) < 0.5 * np.mean((alone.predict(X) - truth) ** 2)
    assert student.distillation_.teacher_loss == pytest.approx(np.mean((y - truth) ** 2))


def test_a_bad_teacher_is_not_listened_to():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 1))
    y = (X[:, 0] + 0.3 * rng.logistic(size=300) > 0).astype(int)
    student = rflaf.distil(OnlyLies(), X, y, student=CLASSIFIER, folds=3, random_state=0)
    found = student.distillation_
    assert found.mix == 0.0
    assert min(found.losses.values()) == found.losses[0.0] < found.teacher_loss
    assert student.score(X, y) > 0.8


class Remembers(RegressorMixin, BaseEstimator):
    """Says the target of the nearest row it was fitted to, and which targets it has seen."""

    fits: ClassVar[list] = []

    def fit(self, X, y):
        self.X_, self.y_ = np.asarray(X), np.asarray(y)
        self.fits.append(set(y.tolist()))
        return self

    def predict(self, X):
        return self.y_[np.abs(np.asarray(X)[:, None, 0] - self.X_[:, 0]).argmin(axis=1)]


@pytest.mark.parametrize("folds", [3, 4, 5])
def test_no_teacher_of_a_judged_student_has_seen_the_labels_that_judge(folds):
    X, y = noisy(120)
    Remembers.fits.clear()
    taught = list[set]()

    class Spy(RFLAFRegressor):
        def fit(self, X, y):
            taught.append(set(np.asarray(y).tolist()))
            return super().fit(X, y)

    spy = Spy(4, directions="random", alpha=1.0, random_state=0)
    rflaf.distil(Remembers(), X, y, student=spy, folds=folds, mixes=(0.0, 1.0), random_state=0)
    splits = list(KFold(folds, shuffle=True, random_state=0).split(X))
    for fold, (_, judged) in enumerate(splits):
        assert not taught[len(splits) + fold] & set(y[judged].tolist())  # a teacher says nothing but targets it saw


def test_the_search_of_a_student_learns_from_teachers_that_saw_no_label_held_out():
    X, y = noisy(60)
    schools = []

    class Spy(RFLAFRegressor):
        def fit(self, X, y, cv=None):
            schools.append(cv)
            return super().fit(X, y, cv=cv)

    more, _ = noisy(10, seed=1)
    rflaf.distil(Remembers(), X, y, student=Spy(4, alpha=0.1), folds=3, unlabelled=more, mixes=[1.0], random_state=0)
    for (train, test), targets in zip(schools[0].splits, schools[0].targets[:-1], strict=True):
        assert set(range(60, 70)) <= set(train)
        assert set(targets[train[train < 60]].ravel()) <= set(y) - set(y[test])
        assert np.isnan(targets[test]).all()


def test_lessons_equal_to_the_targets_change_nothing():
    X, y = noisy(80)
    splits = tuple(KFold(4).split(X))
    plain = RFLAFRegressor(4, random_state=0, n_jobs=1).fit(X, y, cv=KFold(4))
    taught = RFLAFRegressor(4, random_state=0, n_jobs=1).fit(X, y, cv=Lessons(splits, (y[:, None],) * 5))
    np.testing.assert_array_equal(plain.predict(X), taught.predict(X))
    np.testing.assert_array_equal(plain.oof_prediction_, taught.oof_prediction_)


def test_the_last_lesson_is_that_of_the_model_and_the_others_those_of_the_search():
    X, y = noisy(300)
    truth, splits = np.sin(2 * X[:, 0]), tuple(KFold(5).split(X))
    lessons = Lessons(splits, (*(truth[:, None],) * 5, -truth[:, None]))
    model = RFLAFRegressor(8, random_state=0, n_jobs=1).fit(X, y, cv=lessons)
    assert np.corrcoef(model.oof_prediction_, truth)[0, 1] > 0.95
    assert np.corrcoef(model.predict(X), truth)[0, 1] < -0.95


def test_a_teacher_that_copies_noise_does_not_make_its_student_wiggle():
    rng = np.random.default_rng(0)
    X, y, fresh = rng.uniform(-2, 2, (200, 2)), rng.standard_normal(200), rng.uniform(-2, 2, (500, 2))
    teacher = KNeighborsRegressor(2)
    student = rflaf.distil(
        teacher, X, y, student=RFLAFRegressor(8, random_state=0, n_jobs=1), mixes=[1.0], random_state=0
    )
    assert student.predict(fresh).std() < 0.25


def test_what_teachers_say_must_suit_the_loss_of_the_student():
    X, _ = noisy(60)
    y = np.random.default_rng(0).poisson(1.0, 60)
    student = RFLAFRegressor(4, loss="poisson", random_state=0)
    with pytest.raises(InvalidParameterError, match="must not be negative"):
        rflaf.distil(KnowsTheTruth(), X, y, student=student, folds=3, random_state=0)


def test_classes_of_no_weight_take_no_part_in_a_lesson():
    X, y = noisy(90)
    labels = np.digitize(y, [-0.5, 1.0])
    student = RFLAFClassifier(4, class_weight={0: 1.0, 1: 2.0, 2: 0.0}, random_state=0, n_jobs=1)
    found = rflaf.distil(LogisticRegression(), X, labels, student=student, folds=3, mixes=[0.5], random_state=0)
    assert found.predict(X[labels < 2]).size


def test_a_teacher_that_hardly_helps_is_not_listened_to():
    X, y = noisy(150)
    losses = {0.0: np.zeros(4), 0.5: np.array([-1.0, 1.0, -1.0, 0.9])}
    assert _best_mix(losses) == 0.0
    assert _best_mix({**losses, 1.0: np.full(4, -0.1)}) == 1.0
    student = rflaf.distil(KnowsTheTruth(), X, y, student=REGRESSOR, mixes=(0.5, 1.0), random_state=0)
    assert set(student.distillation_.losses) == {0.0, 0.5, 1.0}


@pytest.mark.slow
def test_labels_of_any_kind_and_frames_come_back():
    X, _ = noisy()
    frame = pd.DataFrame(X, columns=["u", "v"])
    y = np.where(X[:, 0] > 0, "right", np.where(X[:, 1] > 0, "above", "below"))
    teacher = LogisticRegression()
    student = rflaf.distil(teacher, frame, y, student=CLASSIFIER, folds=3, unlabelled=frame.iloc[:50], random_state=0)
    assert set(student.predict(frame)) <= {"above", "below", "right"}
    assert student.score(frame, y) > 0.85
    assert student.distillation_.n_unlabelled == 50
    with pytest.raises(NotFittedError):
        check_is_fitted(teacher)


def test_unlabelled_rows_help_where_labels_are_few():
    X, y = noisy(30)
    more, _ = noisy(500, seed=1)
    few, many = (
        rflaf.distil(KnowsTheTruth(), X, y, student=REGRESSOR, folds=3, unlabelled=u, mixes=[0.0], random_state=0)
        for u in (None, more)
    )
    truth = np.sin(2 * more[:, 0])
    assert np.mean((many.predict(more) - truth) ** 2) < 0.3 * np.mean((few.predict(more) - truth) ** 2)


def test_a_fitted_teacher_needs_neither_labels_nor_folds():
    X, y = noisy()
    teacher = KnowsTheTruth().fit(X, y)
    unseen = rflaf.distil(teacher, X, student=REGRESSOR)
    assert unseen.distillation_.mix == 1.0
    assert unseen.distillation_.teacher_loss is None
    trusted = rflaf.distil(teacher, X, y, student=REGRESSOR, folds=None, mixes=[1.0])
    np.testing.assert_array_equal(unseen.predict(X), trusted.predict(X))
    assert teacher.n_rows_ == len(X)


@pytest.mark.slow
def test_classes_rarer_than_folds_are_kept():
    X, _ = noisy()
    y = np.r_[np.full(3, 2), np.arange(197) % 2]
    student = rflaf.distil(LogisticRegression(), X, y, student=CLASSIFIER, folds=5, random_state=0)
    assert student.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("others", "rule"),
    [
        ({"folds": 2}, "without two of them"),
        ({"mixes": [2.0]}, "mixes"),
        ({"student": REGRESSOR}, "both classify"),
        ({"student": RFLAFClassifier(loss="squared_hinge")}, "log_loss"),
        ({"teacher": RidgeClassifier()}, "predict_proba"),
        ({"y": None}, "fitted"),
        ({"unlabelled": [[0.0, 0.0]]}, "kind of X"),
    ],
)
def test_what_makes_no_sense_is_refused(others, rule):
    X, y = noisy(60)
    given = {"teacher": LogisticRegression(), "X": X, "y": y > 0, "student": CLASSIFIER, "folds": 3} | others
    with pytest.raises(InvalidParameterError, match=rule):
        rflaf.distil(given.pop("teacher"), given.pop("X"), given.pop("y"), **given)
