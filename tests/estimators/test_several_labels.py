"""Several labels at once: one model for all of them, with the answers of scikit-learn's multilabel classifiers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import accuracy_score
from sklearn.model_selection import cross_val_score

import rflaf
from rflaf import InvalidParameterError, RFLAFClassifier
from rflaf.estimators.several_labels import is_several
from rflaf.export.formula import formula_of

N_LABELS = 4
QUICK = {"directions": "random", "alpha": 1e-3, "random_state": 0}


def log_loss(Y, P):
    return -np.mean(Y * np.log(P) + (1 - Y) * np.log(1 - P))


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(600, n_features=8, n_classes=N_LABELS, n_labels=2, random_state=0)
    return X[:400], Y[:400], X[400:], Y[400:]


@pytest.fixture(scope="module")
def refined(data):
    return RFLAFClassifier(24, random_state=0).fit(data[0], data[1])


@pytest.fixture(scope="module")
def quick(data):
    return RFLAFClassifier(8, **QUICK).fit(data[0], data[1])


@pytest.mark.slow
def test_one_model_learns_all_labels_about_as_well_as_one_for_each(data, refined):
    X, Y, X_new, Y_new = data
    apart = [RFLAFClassifier(24, random_state=0).fit(X, y).predict_proba(X_new)[:, 1] for y in Y.T]
    constant = np.broadcast_to(Y.mean(axis=0), Y_new.shape)
    P = refined.predict_proba(X_new)
    assert log_loss(Y_new, P) < 1.05 * log_loss(Y_new, np.column_stack(apart))
    assert log_loss(Y_new, P) < 0.85 * log_loss(Y_new, constant)
    assert refined.cv_error_ / N_LABELS == pytest.approx(log_loss(Y_new, P), rel=0.2)  # summed over labels
    assert refined.oof_prediction_.shape == Y.shape


def test_answers_are_those_of_the_log_odds(data, refined):
    X = data[2]
    f, P, labels = refined.decision_function(X), refined.predict_proba(X), refined.predict(X)
    assert P.shape == f.shape == labels.shape == (200, N_LABELS)
    np.testing.assert_array_equal(P, expit(f))
    np.testing.assert_array_equal(labels, f > 0)
    assert labels.dtype.kind == "i"
    np.testing.assert_allclose(refined.predict_log_proba(X), np.log(P), rtol=1e-12)
    assert refined.score(X, data[3]) == accuracy_score(data[3], labels) == np.mean((labels == data[3]).all(axis=1))
    out = np.empty_like(P)
    assert refined.predict_proba(X, out=out) is out


def test_any_form_of_the_same_labels_gives_the_same_model(data, quick):
    X, Y, X_new, _ = data
    wanted = quick.predict_proba(X_new)
    for form in (Y.tolist(), Y.astype(bool), Y.astype(float), sp.csr_array(Y), pd.DataFrame(Y)):
        model = RFLAFClassifier(8, **QUICK).fit(X, form)
        assert model.classes_.tolist() == [0, 1, 2, 3]
        np.testing.assert_array_equal(model.predict_proba(X_new), wanted)
    names = ["wet", "cold", "dark", "loud"]
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(8)]).assign(**dict(zip(names, Y.T, strict=True)))
    apart = RFLAFClassifier(8, **QUICK).fit(frame.drop(columns=names), frame[names])
    named = RFLAFClassifier(8, **QUICK).fit(frame, names)
    assert named.classes_.tolist() == apart.classes_.tolist() == names
    np.testing.assert_allclose(named.predict_proba(frame), wanted_on(quick, X), atol=1e-12)
    assert named.score(frame, names) == named.score(frame.drop(columns=names), frame[names])
    assert not is_several(frame, ["wet"] * len(frame))


def wanted_on(model, X):
    return model.predict_proba(X)


def test_labels_are_independent_given_random_directions(data):
    X, Y, X_new, _ = data
    both = RFLAFClassifier(8, activation="shared", basis="cos", **QUICK).fit(X, Y).predict_proba(X_new)
    for label, y in enumerate(Y.T):
        alone = RFLAFClassifier(8, activation="shared", basis="cos", **QUICK).fit(X, y)
        np.testing.assert_allclose(both[:, label], alone.predict_proba(X_new)[:, 1], atol=1e-3)


@pytest.mark.slow
def test_rare_and_constant_labels_are_learned_with_the_others(data):
    X, Y, X_new, _ = data
    Y = np.column_stack([Y[:, 0], np.zeros(len(Y), int), np.arange(len(Y)) == 7])
    P = RFLAFClassifier(16, random_state=0).fit(X, Y).predict_proba(X_new)
    assert np.isfinite(P).all()
    assert P[:, 1].max() < 0.01
    assert P[:, 2].mean() < 0.05


def test_a_model_file_keeps_several_labels(data, refined, tmp_path):
    X_new = data[2]
    rflaf.save(refined, tmp_path / "a.rflaf")
    loaded, predictor = rflaf.load(tmp_path / "a.rflaf"), rflaf.load_predictor(tmp_path / "a.rflaf")
    np.testing.assert_array_equal(loaded.predict_proba(X_new), refined.predict_proba(X_new))
    np.testing.assert_array_equal(loaded.predict(X_new), refined.predict(X_new))
    np.testing.assert_array_equal(predictor.predict(X_new), refined.predict(X_new))
    np.testing.assert_allclose(predictor.predict_proba(X_new), refined.predict_proba(X_new), atol=1e-7)


def test_more_rows_of_several_labels(data):
    X, Y, X_new, Y_new = data
    model = RFLAFClassifier(8, **QUICK).partial_fit(X[:200], Y[:200])
    model.partial_fit(X[200:], Y[200:], classes=[0, 1, 2, 3])
    whole = RFLAFClassifier(8, **QUICK).fit(X, Y)
    assert log_loss(Y_new, model.predict_proba(X_new)) < 1.05 * log_loss(Y_new, whole.predict_proba(X_new))
    with pytest.raises(InvalidParameterError, match="one label, or all of them several"):
        model.partial_fit(X, Y[:, 0])
    with pytest.raises(InvalidParameterError, match="must have 4 columns"):
        model.partial_fit(X, Y[:, :3])
    one = RFLAFClassifier(8, **QUICK).fit(X, Y[:, 0])
    with pytest.raises(InvalidParameterError, match="one label, or all of them several"):
        one.partial_fit(X, Y)
    assert one.fit(X, Y).classes_.size == N_LABELS
    assert one.fit(X, Y[:, 0]).predict(X).ndim == 1


def test_exports_answer_with_the_probability_of_every_label(data, refined, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("skl2onnx")
    X = data[2]
    session = onnxruntime.InferenceSession(rflaf.to_onnx(refined, dtype=np.float64).SerializeToString())
    labels, P = session.run(None, {"X": X})
    np.testing.assert_allclose(P, refined.predict_proba(X), atol=1e-8)
    np.testing.assert_array_equal(labels, refined.predict(X))
    head = formula_of(refined).head
    assert (head.link.name, head.classes, head.n_answers) == ("SIGMOID", None, N_LABELS)
    assert f"N_OUT {N_LABELS}\n" in rflaf.to_c(refined)


def test_scikit_learn_tools_take_several_labels(data):
    model = clone(RFLAFClassifier(8, **QUICK))
    assert cross_val_score(model, data[0], data[1], cv=3).shape == (3,)
    assert cross_val_score(model, data[0], data[1], cv=3, scoring="f1_macro").min() > 0


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda m, X, Y: m.set_params(class_weight="balanced").fit(X, Y), "class_weight must be None"),
        (lambda m, X, Y: m.set_params(loss=rflaf.functions.losses.Softmax()).fit(X, Y), "exclude each other"),
        (lambda m, X, Y: m.fit(X, np.ones_like(Y)), "some of several labels must differ"),
        (lambda m, X, Y: m.fit(X, Y).predict_set(X), "predict_set is for classes of which one applies"),
        (lambda m, X, Y: m.fit(X, Y).calibrate(X, Y), "calibrate is for classes of which one applies"),
        (lambda m, X, Y: rflaf.report.render_report(m.fit(X, Y), X, Y[:, 0]), "about one target"),
        (lambda m, X, Y: rflaf.distil(m, X, Y), "one for each row"),
    ],
)
def test_what_several_labels_cannot_do_is_refused_in_words(data, make, says):
    with pytest.raises(InvalidParameterError, match=says):
        make(RFLAFClassifier(8, **QUICK), *data[:2])


def test_columns_that_are_no_labels_are_refused(data):
    frame = pd.DataFrame(data[0][:, :2], columns=["a", "b"]).assign(y=data[1][:, 0], z=np.arange(400) % 3)
    with pytest.raises(InvalidParameterError, match="zeros and ones; got 2"):
        RFLAFClassifier(8, **QUICK).fit(frame, ["y", "z"])
