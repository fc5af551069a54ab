"""Rows of probabilities in place of labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rflaf import InvalidParameterError, RFLAFClassifier
from rflaf.estimators.soft_labels import SoftLabels, soft_labels

QUICK = {"n_components": 8, "directions": "random", "alpha": 1e-3, "random_state": 0, "n_jobs": 1}


def some_rows(n_rows: int = 150, n_classes: int = 3, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 2))
    P = np.exp(np.hstack([X, np.zeros((n_rows, n_classes - 2))]) * 2)
    return X, P / P.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_certain_probabilities_are_labels(n_classes):
    X, P = some_rows(n_classes=n_classes)
    labels = P.argmax(axis=1)
    certain = SoftLabels(np.arange(n_classes), np.eye(n_classes)[labels])
    a, b = (RFLAFClassifier(**QUICK).fit(X, y) for y in (certain, labels))
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))
    np.testing.assert_array_equal(a.classes_, b.classes_)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_a_soft_row_is_its_labels_weighted_by_their_probabilities(n_classes, class_weight):
    X, P = some_rows(n_classes=n_classes)
    again, labels = np.tile(X, (n_classes, 1)), np.repeat(np.arange(n_classes), len(X))
    soft = RFLAFClassifier(**QUICK, class_weight=class_weight).fit(X, P)
    hard = RFLAFClassifier(**QUICK, class_weight=class_weight).fit(again, labels, sample_weight=P.T.ravel())
    if class_weight is None:
        np.testing.assert_allclose(soft.predict_proba(X), hard.predict_proba(X), atol=2e-3)
    else:  # a class weighs each of the labels of a row there, and their mean here
        assert np.abs(soft.predict_proba(X) - hard.predict_proba(X)).mean() < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_refined_models_learn_the_probabilities_themselves(n_classes):
    X, P = some_rows(600, n_classes)
    model = RFLAFClassifier(random_state=0, n_jobs=1).fit(X, P)
    new, truth = some_rows(500, n_classes, seed=1)
    assert np.abs(model.predict_proba(new) - truth).mean() < 0.03
    entropy = -np.sum(P * np.log(P), axis=1).mean()
    assert entropy <= model.cv_error_ < entropy + 0.02


def test_a_frame_names_the_classes_in_any_order():
    X, P = some_rows()
    frame = pd.DataFrame(P[:, [2, 0, 1]], columns=["c", "a", "b"])
    model = RFLAFClassifier(**QUICK).fit(pd.DataFrame(X, columns=["u", "v"]), frame)
    assert model.classes_.tolist() == ["a", "b", "c"]
    plain = RFLAFClassifier(**QUICK).fit(X, P)
    np.testing.assert_allclose(model.predict_proba(pd.DataFrame(X, columns=["u", "v"])), plain.predict_proba(X))


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 6), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_classes_are_sorted_with_their_columns(n_classes, n_rows, seed):
    rng = np.random.default_rng(seed)
    P, names = rng.dirichlet(np.ones(n_classes), n_rows), rng.permutation(n_classes)
    soft = SoftLabels(names, P)
    assert (np.diff(soft.classes) > 0).all()
    np.testing.assert_allclose(soft.P[:, names], P)
    np.testing.assert_array_equal(soft.labels, names[P.argmax(axis=1)])


@pytest.mark.parametrize(
    ("y", "rule"),
    [
        ([[0.5, 0.6], [0.5, 0.5]], "sum to one"),
        ([[1.5, -0.5], [0.5, 0.5]], "at least zero"),
        ([[np.nan, 0.5], [0.5, 0.5]], "sum to one"),
    ],
)
def test_what_is_no_probability_is_refused_and_changes_nothing(y, rule):
    model = RFLAFClassifier(**QUICK)
    before = dict(vars(model))
    with pytest.raises(InvalidParameterError, match=rule):
        model.fit([[0.0], [1.0]], y)
    assert vars(model) == before


def test_a_loss_of_margins_has_no_use_for_probabilities():
    X, P = some_rows()
    with pytest.raises(InvalidParameterError, match="log_loss"):
        RFLAFClassifier(**QUICK, loss="squared_hinge").fit(X, P)


@pytest.mark.parametrize("y", [None, "label", [0, 1], np.ones((3, 1)), np.eye(3), np.eye(3, dtype=int)])
def test_everything_else_is_labels(y):
    assert soft_labels(y) is None
