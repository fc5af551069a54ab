"""From two classes to a thousand, and classes with fewer rows than there are folds."""

from __future__ import annotations

import numpy as np
import pytest

import rflaf
from rflaf import RFLAFClassifier
from rflaf.functions.losses import Softmax
from rflaf.training.temperature import classes_of


def on_a_spiral(n_classes, n_rows, seed=0):
    """Every class once at least, each a small cloud of its own."""
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(n_classes), rng.integers(0, n_classes, n_rows - n_classes)]
    place = 6 * np.pi * y / n_classes
    X = np.c_[place * np.sin(place), place * np.cos(place), y / n_classes]
    return X + 0.02 * rng.standard_normal(X.shape), y


def log_loss(model, X, y):
    P = model.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-9)
    return -np.mean(np.log(P[np.arange(len(y)), np.searchsorted(model.classes_, y)]))


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3, 40])
def test_classes_of_one_row_have_probabilities(n_classes):
    X, y = on_a_spiral(n_classes, 90)
    y[y == n_classes - 1] = 0
    y[-1] = n_classes - 1  # seen once: held out by one fold, unknown to its model
    model = RFLAFClassifier(16, random_state=0, n_jobs=1).fit(X, y)
    assert model.classes_.tolist() == list(range(n_classes))
    assert log_loss(model, X, y) < np.log(n_classes)
    assert np.isfinite(model.oof_prediction_).all()
    assert np.isfinite(model.cv_error_)


@pytest.mark.slow
def test_a_thousand_classes_are_learned():
    X, y = on_a_spiral(1000, 2000)
    model = RFLAFClassifier(8, alpha=1e-3, curves=False, random_state=0, n_jobs=1).fit(X, y)
    assert log_loss(model, X, y) < 0.7 * np.log(1000)


@pytest.fixture(scope="module")
def many():
    X, y = on_a_spiral(30, 300)
    names = np.array([f"class {k:02d}" for k in range(30)])
    return X, RFLAFClassifier(16, alpha=1e-4, curves=True, random_state=0, n_jobs=1).fit(X, names[y])


def test_what_is_made_of_a_model_of_many_classes_answers_the_same(many, tmp_path):
    X, model = many
    P, labels = model.predict_proba(X), model.predict(X)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), P, atol=1e-12)
    rflaf.save(model, tmp_path / "a.rflaf")
    np.testing.assert_array_equal(rflaf.load(tmp_path / "a.rflaf").predict_proba(X), P)
    light = rflaf.load_predictor(tmp_path / "a.rflaf")
    np.testing.assert_array_equal(light.predict(X), labels)
    inside = model.predict_set(X, 0.9)
    assert inside[np.arange(len(X)), np.searchsorted(model.classes_, labels)].all()
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("skl2onnx")
    session = onnxruntime.InferenceSession(rflaf.to_onnx(model, dtype=np.float64).SerializeToString())
    found, probabilities = session.run(None, {"X": X})
    np.testing.assert_allclose(probabilities, P, atol=1e-8)
    assert found.tolist() == labels.tolist()


def test_a_model_of_many_classes_is_pruned_to_nested_ones(many):
    X, model = many
    f = model.decision_function(X)
    whole, half, few = (model.prune(width, X) for width in (16, 12, 8))
    np.testing.assert_allclose(whole.decision_function(X), f, atol=0.05 * f.std())
    off = [np.mean((part.decision_function(X) - f) ** 2) for part in (whole, half, few)]
    assert off == sorted(off)
    kept = [{tuple(column) for column in part.directions_.T} for part in (half, few)]
    assert kept[1] < kept[0]
    assert (few.predict(X) == model.predict(X)).mean() > 0.5
    with pytest.raises(rflaf.InvalidParameterError, match="must be between 1 and the model's 16"):
        model.prune(17, X)


def test_pruning_two_classes_minimises_the_weighted_squares_of_the_log_odds(many):
    X = many[0]
    model = RFLAFClassifier(6, directions="random", alpha=1e-3, random_state=0).fit(X, X[:, 0] > X[:, 1])
    pruned, f = model.prune(3, X), model.decision_function(X)
    p = 1 / (1 + np.exp(-f))
    weight = np.maximum(p * (1 - p), 1e-3)
    Z = np.column_stack([pruned.transform(X), np.ones(len(X))]) * np.sqrt(weight)[:, None]
    best = np.linalg.lstsq(Z, np.sqrt(weight) * f, rcond=None)[0]
    found = np.append(pruned.output_weights_, pruned.intercept_)
    np.testing.assert_allclose(Z @ found, Z @ best, atol=1e-3 * f.std())


@pytest.mark.parametrize("language", ["c", "js", "java", "go", "rust", "sql"])
def test_every_language_names_all_of_many_classes(many, language):
    text = rflaf.to_source(many[1], language=language)
    assert all(f"class {k:02d}" in text for k in range(30))


def test_folds_have_their_share_of_every_class():
    y = np.eye(4)[np.r_[np.zeros(20, int), np.ones(10, int), [2, 3]]]
    assert np.bincount(classes_of(Softmax(), y)).tolist() == [20, 10, 1, 1]
