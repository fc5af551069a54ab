"""The classifier: labels of any kind, probabilities, weights of classes, hard problems, and what it refuses."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refusal
from scipy.special import expit
from settings import CONVEX, PAPER, limited
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, recall_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
    parametrize_with_checks,
)

from rflaf import (
    BSplineBasis,
    GreedySelection,
    InvalidParameterError,
    LeverageSampling,
    RFLAFClassifier,
    RFLAFRegressor,
    SharedActivation,
)
from rflaf.errors import StopReason
from rflaf.functions.losses import Huber, Logistic, Loss, Pinball, Poisson, Softmax, Squared, SquaredHinge
from rflaf.training import refined as refined_training
from rflaf.training.solvers.refined import recipes

pytestmark = pytest.mark.usefixtures("small_pool")
only_steps_may_run_out = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SHORT = {"tol": 0.1}  # a short search for the activation
RUNGS = {
    "shared": {**PAPER, **SHORT},
    "leverage": {**PAPER, **SHORT, "sampling": LeverageSampling(30)},
    "per component": CONVEX,
    "greedy": {**CONVEX, **SHORT, "sampling": GreedySelection(30)},
}
each_rung = pytest.mark.parametrize("rung", RUNGS.values(), ids=RUNGS)
refined_or_plain = pytest.mark.parametrize("rung", [{"curves": False}, PAPER], ids=["refined", "plain"])


def classifier(n_components: int = 10, **others) -> RFLAFClassifier:
    """A quick one: random directions, one convex problem, and a penalty that is given."""
    fixed = {**CONVEX, "basis": BSplineBasis(6), "alpha": 1e-5, "random_state": 0}
    return limited(RFLAFClassifier, n_components, **{**fixed, **others})


def steady(rung):
    """A rung whose leverage scores depend on the rows only by their sums."""
    sampling = rung.get("sampling", "plain")
    return {**rung, "sampling": replace(sampling, alpha=0.01)} if isinstance(sampling, LeverageSampling) else rung


def rounding(rung) -> float:
    """How far equal problems may end apart: the search for a shared activation amplifies rounding."""
    return 1e-3 if rung["activation"] == "shared" else 1e-7


def square(n_rows: int, seed: int = 0, n_columns: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 2, (n_rows, n_columns))


def rings(X: np.ndarray, n_classes: int = 3) -> np.ndarray:
    """The number of the ring around zero a row is in, all of equal area but the last."""
    return np.minimum(n_classes * (X[:, 0] ** 2 + X[:, 1] ** 2) / 4, n_classes - 1).astype(int)


ROWS = square(120)
RINGS = rings(ROWS)
INSIDE = RINGS == 0


@pytest.fixture(scope="module")
def two():
    """Fitted to two classes."""
    return classifier().fit(ROWS, INSIDE)


@pytest.fixture(scope="module")
def three():
    """Fitted to three classes."""
    return classifier().fit(ROWS, RINGS)


@pytest.fixture(scope="module")
def refined():
    """A refined model of three classes, of few components."""
    X = square(300)
    return RFLAFClassifier(6, curves=False, alpha=1e-3, random_state=0).fit(X, rings(X))


# The conventions of scikit-learn


@pytest.fixture
def no_rivals(monkeypatch):
    """Refined models only from 200 rows on: a trial of random directions takes longer than all else together."""
    monkeypatch.setattr(refined_training, "judge_rivals", lambda *_: [])


@pytest.fixture
def few_epochs(monkeypatch, no_rivals):
    """And refined quickly."""
    monkeypatch.setattr(recipes, "_STRAIGHT_EPOCHS", 6)


@pytest.mark.slow
@only_steps_may_run_out
@pytest.mark.usefixtures("few_epochs")
@parametrize_with_checks(
    [
        RFLAFClassifier(4, basis=BSplineBasis(5), curves=False, alpha=1e-2, n_jobs=1),
        RFLAFClassifier(4, basis=BSplineBasis(5), loss="squared_hinge", alpha=1e-2, n_jobs=1, **CONVEX),
    ]
)
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize(
    "check", [check_sample_weight_equivalence_on_dense_data, check_sample_weight_equivalence_on_sparse_data]
)
def test_weights_are_repeated_rows_to_the_last_digits_for_the_defaults_too(check):
    check("RFLAFClassifier", RFLAFClassifier())


def test_it_is_a_classifier_of_one_label_or_several():
    assert is_classifier(RFLAFClassifier())
    assert RFLAFClassifier().__sklearn_tags__().target_tags.multi_output


def test_parameters_are_stored_as_given_and_survive_clone_and_set_params():
    given_ones = {
        "n_components": 7,
        "loss": "squared_hinge",
        "class_weight": {0: 1.0, 1: 2.0},
        "basis": BSplineBasis(9),
    }
    model = RFLAFClassifier(**given_ones)
    assert given_ones.items() <= model.get_params().items()
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(loss="log_loss").loss == "log_loss"


def test_it_has_the_parameters_of_the_regressor_but_those_of_targets():
    own, others = RFLAFClassifier().get_params(), RFLAFRegressor().get_params()
    assert set(own) - set(others) == {"class_weight"}
    assert set(others) - set(own) == {"quantile"}
    same = set(own) & set(others) - {"loss"}
    assert {name: own[name] for name in same} == {name: others[name] for name in same}


@pytest.mark.slow
@refined_or_plain
def test_a_clone_is_unfitted_and_fits_to_the_same_model(rung):
    X = square(240)
    model = RFLAFClassifier(6, alpha=1e-3, random_state=0, **rung).fit(X, rings(X))
    copy = clone(model)
    assert not hasattr(copy, "classes_")
    assert_array_equal(copy.fit(X, rings(X)).decision_function(X), model.decision_function(X))


def test_a_stored_model_answers_bit_for_bit_as_before(two, three, refined):
    for model in (two, three, refined):
        loaded = pickle.loads(pickle.dumps(model))
        for method in ("decision_function", "predict_proba", "predict_log_proba", "predict", "transform"):
            assert_array_equal(getattr(loaded, method)(ROWS), getattr(model, method)(ROWS))


def test_it_works_in_a_pipeline_and_in_cross_validation():
    X = square(300)
    pipeline = make_pipeline(StandardScaler(), classifier(20))
    assert cross_val_score(pipeline, X, rings(X, 2), cv=3).mean() > 0.9


def test_it_feeds_its_features_to_another_model(three):
    Z = three.transform(ROWS)
    assert Z.shape == (120, 10)
    assert three.get_feature_names_out()[0] == "rflafclassifier0"
    assert_allclose(Z @ three.output_weights_.T + three.intercept_, three.decision_function(ROWS), rtol=0, atol=1e-9)


@pytest.mark.parametrize(("library", "frame"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_features_come_as_the_frame_asked_for(library, frame, three):
    model = pickle.loads(pickle.dumps(three)).set_output(transform=library)
    features = model.transform(ROWS)
    assert isinstance(features, frame)
    assert list(features.columns) == list(model.get_feature_names_out())
    assert_array_equal(features.to_numpy(), three.transform(ROWS))


# Labels


LABELS = {
    "strings": (["pear", "apple", "fig"], ["apple", "fig", "pear"]),
    "whole numbers": ([7, -1, 3], [-1, 3, 7]),
    "small whole numbers": (np.array([2, 0, 1], np.int8), np.array([0, 1, 2], np.int8)),
    "whole reals": ([2.0, 0.0, -1.0], [-1.0, 0.0, 2.0]),
    "objects": (np.array(["b", "a", "c"], object), np.array(["a", "b", "c"], object)),
}


@pytest.mark.parametrize(("names", "in_order"), LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_of_any_kind_come_back_as_they_were_given(names, in_order, n_classes):
    names = np.asarray(names)
    y = names[rings(ROWS, n_classes)]
    model = classifier().fit(ROWS, y)
    assert_array_equal(model.classes_, np.unique(y))
    assert model.classes_.dtype == y.dtype
    if n_classes == 3:
        assert_array_equal(model.classes_, in_order)
    assert model.predict(ROWS).dtype == y.dtype
    assert model.score(ROWS, y) > 0.8
    assert set(model.predict(ROWS)) == set(model.classes_)


def test_truth_values_are_labels(two):
    assert_array_equal(two.classes_, [False, True])
    assert two.predict(ROWS).dtype == bool
    assert np.mean(two.predict(ROWS) == INSIDE) > 0.9


@pytest.mark.parametrize("series", [pd.Series, pl.Series, list], ids=["pandas", "polars", "a list"])
def test_labels_may_be_a_series_or_a_list(series):
    y = np.array(["in", "out", "far"])[RINGS]
    model = classifier().fit(ROWS, series(y))
    assert_array_equal(model.classes_, ["far", "in", "out"])
    assert_array_equal(model.predict(ROWS), classifier().fit(ROWS, y).predict(ROWS))


def test_a_categorical_series_has_the_labels_it_shows():
    y = pd.Series(np.array(["in", "out"])[INSIDE.astype(int)], dtype="category")
    assert_array_equal(classifier().fit(ROWS, y).classes_, ["in", "out"])


def test_only_the_order_of_the_names_matters_not_what_they_are(three):
    for names in (["a", "b", "c"], [10, 20, 30], [-0.5, 0.0, 0.5] * np.full(3, 2.0)):
        renamed = classifier().fit(ROWS, np.array(names)[RINGS])
        assert_array_equal(renamed.decision_function(ROWS), three.decision_function(ROWS))


@pytest.mark.parametrize("order", [[1, 0, 2], [2, 0, 1], [2, 1, 0]])
def test_names_in_another_order_permute_the_probabilities(order, three):
    renamed = classifier().fit(ROWS, np.array(order)[RINGS])
    assert_allclose(renamed.predict_proba(ROWS)[:, order], three.predict_proba(ROWS), rtol=0, atol=1e-6)


def test_the_two_classes_are_treated_alike(two):
    other = classifier().fit(ROWS, ~INSIDE)
    assert_allclose(other.decision_function(ROWS), -two.decision_function(ROWS), rtol=0, atol=1e-6)


def test_the_order_of_the_rows_does_not_matter(three):
    order = np.random.default_rng(1).permutation(120)
    model = classifier().fit(ROWS[order], RINGS[order])
    assert_allclose(model.predict_proba(ROWS), three.predict_proba(ROWS), rtol=0, atol=1e-6)


# Answers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_classes", "decision", "n_outputs"), [(2, (120,), 1), (3, (120, 3), 3), (10, (120, 10), 10)]
)
@each_rung
def test_answers_have_a_column_a_class_and_agree(n_classes, decision, n_outputs, rung):
    y = rings(ROWS, n_classes)
    model = classifier(alpha=1e-4, **rung).fit(ROWS, y)
    f, p, label = model.decision_function(ROWS), model.predict_proba(ROWS), model.predict(ROWS)
    assert f.shape == decision
    assert p.shape == (120, n_classes)
    assert model.output_weights_.shape == (n_outputs, model.n_components_)
    assert model.n_components_ == 10 or rung is RUNGS["leverage"]
    assert model.intercept_.shape == (n_outputs,)
    assert_allclose(p.sum(axis=1), 1, rtol=0, atol=1e-12)
    assert np.all((p >= 0) & (p <= 1))
    assert_array_equal(label, model.classes_[p.argmax(axis=1)])
    assert_array_equal(label, model.classes_[(f > 0).astype(int) if n_classes == 2 else f.argmax(axis=1)])
    assert_allclose(model.predict_log_proba(ROWS), np.log(p), rtol=0, atol=1e-9)
    assert model.score(ROWS, y) == accuracy_score(y, label)
    assert accuracy_score(y, label) > 1.5 / n_classes


def test_probabilities_of_two_classes_are_those_of_the_odds(two):
    f, p = two.decision_function(ROWS), two.predict_proba(ROWS)
    assert_allclose(p[:, 1], expit(f), rtol=1e-12)
    assert_allclose(p[:, 0], expit(-f), rtol=1e-12)


def test_probabilities_of_three_classes_are_those_of_the_odds(three):
    e = np.exp(three.decision_function(ROWS))
    assert_allclose(three.predict_proba(ROWS), e / e.sum(axis=1, keepdims=True), rtol=1e-10)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_logarithms_of_probabilities_are_finite_where_these_are_not_numbers_any_more(n_classes):
    model = classifier().fit(ROWS, rings(ROWS, n_classes))
    model.model_ = replace(model.model_, v=1e5 * model.model_.v)
    p, logarithm = model.predict_proba(ROWS), model.predict_log_proba(ROWS)
    assert p.min() == 0
    assert np.isfinite(p).all()
    assert np.isfinite(logarithm).all()
    assert logarithm.min() < -1000
    assert logarithm.max() <= 0


def test_the_score_counts_weights(two):
    weight = np.random.default_rng(2).uniform(0, 1, 120)
    assert two.score(ROWS, INSIDE, sample_weight=weight) == accuracy_score(
        INSIDE, two.predict(ROWS), sample_weight=weight
    )


@pytest.mark.slow
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
@refined_or_plain
@pytest.mark.parametrize("n_classes", [2, 3])
def test_answers_have_the_dtype_of_the_rows(convert, rung, n_classes):
    X = square(210)
    y = rings(X, n_classes)
    for dtype in (np.float32, np.float64):
        rows = convert(X.astype(dtype))
        model = RFLAFClassifier(5, alpha=1e-3, random_state=0, **rung).fit(rows, y)
        for method in ("decision_function", "predict_proba", "predict_log_proba", "transform"):
            assert getattr(model, method)(rows).dtype == dtype
        assert model.predict(rows).dtype == y.dtype


def test_single_precision_says_nearly_the_same(three):
    single = classifier().fit(ROWS.astype(np.float32), RINGS)
    assert_allclose(single.predict_proba(ROWS.astype(np.float32)), three.predict_proba(ROWS), rtol=0, atol=0.02)
    assert_allclose(three.predict_proba(ROWS.astype(np.float32)), three.predict_proba(ROWS), rtol=0, atol=1e-4)


# Losses


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_margin_has_no_probabilities_before_and_after_the_fit(n_classes):
    model = classifier(loss="squared_hinge")
    for _ in range(2):
        assert not hasattr(model, "predict_proba")
        assert not hasattr(model, "predict_log_proba")
        with pytest.raises(AttributeError, match="'RFLAFClassifier' has no attribute 'predict_proba'"):
            model.predict_proba(ROWS)
        model.fit(ROWS, rings(ROWS, n_classes))
    assert model.loss_ == SquaredHinge()
    assert model.score(ROWS, rings(ROWS, n_classes)) > 0.8
    assert model.decision_function(ROWS).shape == ((120,) if n_classes == 2 else (120, 3))


def test_probabilities_are_there_before_and_after_the_fit():
    model = classifier()
    assert hasattr(model, "predict_proba")
    assert hasattr(model, "predict_log_proba")
    with pytest.raises(NotFittedError):
        model.predict_proba(ROWS)
    assert hasattr(model.fit(ROWS, RINGS), "predict_proba")


def test_whether_there_are_probabilities_is_a_matter_of_the_loss_that_was_fitted():
    model = classifier().fit(ROWS, RINGS).set_params(loss="squared_hinge")
    assert model.predict_proba(ROWS).shape == (120, 3)
    model.fit(ROWS, RINGS)
    assert not hasattr(model, "predict_proba")


def test_a_margin_of_many_classes_is_one_against_the_rest():
    model = classifier(loss="squared_hinge", alpha=1e-2, **PAPER).fit(ROWS, RINGS)
    Z, n = model.transform(ROWS), RINGS.size
    for k in range(3):
        s = np.where(k == RINGS, 1.0, -1.0)
        short = np.maximum(0, 1 - s * (Z @ model.output_weights_[k] + model.intercept_[k]))
        slope = -2 * s * short / n
        assert_allclose(Z.T @ slope + 2 * 1e-2 * 10 * model.output_weights_[k], 0, atol=1e-6)
        assert abs(slope.sum()) < 1e-6


def test_the_loss_that_was_minimised_is_told(two, three):
    assert two.loss_ == Logistic()
    assert three.loss_ == Softmax()


@pytest.mark.parametrize(("loss", "n_classes"), [(Logistic(), 2), (Softmax(), 3)])
def test_a_loss_object_is_the_loss_of_that_name(loss, n_classes):
    y = rings(ROWS, n_classes)
    named, given_one = classifier().fit(ROWS, y), classifier(loss=loss).fit(ROWS, y)
    assert hasattr(given_one, "predict_proba")
    assert_array_equal(given_one.predict_proba(ROWS), named.predict_proba(ROWS))


class Exponential(Loss):
    """exp(-s f) with s = 2 y - 1, the loss of boosting."""

    name = "exponential"

    def value(self, f, y):
        return np.sum(self.curvature(f, y), axis=1)

    def slope(self, f, y):
        return (1 - 2 * y) * self.curvature(f, y)

    def curvature(self, f, y):
        return np.exp(np.minimum((1 - 2 * y) * f, 50.0))

    def constant(self, y, weight):
        share = np.average(y, axis=0, weights=weight)
        return np.log(share / (1 - share)) / 2


@each_rung
def test_a_loss_of_your_own_works_with_random_directions(rung):
    model = classifier(loss=Exponential(), **rung).fit(ROWS, INSIDE)
    assert not hasattr(model, "predict_proba")
    assert model.score(ROWS, INSIDE) > 0.9
    assert isinstance(model.loss_, Exponential)


def test_softmax_needs_a_column_a_class():
    with pytest.raises(InvalidParameterError, match="softmax"):
        classifier(loss=Softmax()).fit(ROWS, INSIDE)


# The solution


@pytest.mark.parametrize("alpha", [1e-4, 1e-2])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_fit_is_the_logistic_regression_of_its_own_features(alpha, fit_intercept, n_classes):
    y = rings(ROWS, n_classes)
    model = classifier(alpha=alpha, fit_intercept=fit_intercept, **PAPER, **SHORT).fit(ROWS, y)
    reference = LogisticRegression(
        C=1 / (2 * 120 * alpha * 10), tol=1e-10, solver="newton-cholesky", fit_intercept=fit_intercept
    ).fit(model.transform(ROWS), y)
    assert model.alpha_ == pytest.approx(alpha)
    assert_allclose(model.output_weights_, reference.coef_, rtol=0, atol=1e-6 * np.abs(reference.coef_).max())
    ours, theirs = model.intercept_, reference.intercept_
    assert_allclose(ours - (n_classes > 2) * ours.mean(), theirs - (n_classes > 2) * theirs.mean(), atol=1e-6)
    assert_allclose(model.predict_proba(ROWS), reference.predict_proba(model.transform(ROWS)), atol=1e-7)


def test_the_fit_counts_weights_as_logistic_regression_does():
    weight = np.random.default_rng(3).uniform(0.1, 2, 120)
    model = classifier(alpha=1e-3, **PAPER).fit(ROWS, INSIDE, sample_weight=weight)
    reference = LogisticRegression(C=1 / (2 * weight.sum() * 1e-3 * 10), tol=1e-10, solver="newton-cholesky")
    reference.fit(model.transform(ROWS), INSIDE, sample_weight=weight)
    assert_allclose(model.output_weights_, reference.coef_, rtol=0, atol=1e-6 * np.abs(reference.coef_).max())


def test_draws_of_one_direction_count_in_the_penalty():
    model = classifier(alpha=1e-3, **RUNGS["leverage"] | {"sampling": LeverageSampling(12)}).fit(ROWS, INSIDE)
    assert model.n_components_ < 10
    reference = LogisticRegression(C=1 / (2 * 120 * 1e-3 * 10), tol=1e-10, solver="newton-cholesky")
    reference.fit(model.transform(ROWS), INSIDE)
    assert_allclose(model.output_weights_, reference.coef_, rtol=0, atol=1e-6 * np.abs(reference.coef_).max())


def test_a_heavier_penalty_says_less():
    sizes = [np.ptp(classifier(alpha=alpha).fit(ROWS, INSIDE).decision_function(ROWS)) for alpha in (1e-5, 1e-3, 1e3)]
    assert sizes[0] > sizes[1] > sizes[2]
    share = INSIDE.mean()
    model = classifier(alpha=1e6).fit(ROWS, INSIDE)
    assert_allclose(model.predict_proba(ROWS)[:, 1], share, rtol=0, atol=1e-3)


def test_labels_without_any_rule_get_the_stiffest_of_penalties():
    y = np.random.default_rng(4).integers(0, 2, 120)
    p = classifier(alpha="auto").fit(ROWS, y).predict_proba(ROWS)[:, 1]
    assert np.abs(p - y.mean()).max() < 0.3


# Rows


@pytest.mark.slow
@pytest.mark.parametrize("convert", [sp.csr_matrix, sp.csc_array])
@each_rung
def test_sparse_rows_give_the_model_of_the_same_dense_rows(convert, rung):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((150, 5)) * (rng.random((150, 5)) < 0.5)
    y = np.digitize(X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.standard_normal(150), [0.0, 1.0])
    dense, sparse = (classifier(**steady(rung)).fit(rows, y) for rows in (X, convert(X)))
    assert_allclose(sparse.decision_function(convert(X)), dense.decision_function(X), rtol=0, atol=rounding(rung))
    assert_allclose(dense.decision_function(convert(X)), dense.decision_function(X), rtol=0, atol=1e-10)


@pytest.mark.parametrize("frame_class", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_data_frame_names_the_features_and_another_order_is_refused(frame_class, three):
    frame = frame_class({"a": ROWS[:, 0], "b": ROWS[:, 1]})
    model = classifier().fit(frame, RINGS)
    assert_array_equal(model.feature_names_in_, ["a", "b"])
    assert_allclose(model.predict_proba(frame), three.predict_proba(ROWS), rtol=0, atol=1e-7)
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        model.predict(frame[["b", "a"]])


def test_fitting_and_predicting_leave_the_data_as_they_were():
    X, y, weight = ROWS.copy(), RINGS.copy(), np.ones(120)
    classifier(class_weight="balanced").fit(X, y, sample_weight=weight).predict_proba(X)
    assert_array_equal(X, ROWS)
    assert_array_equal(y, RINGS)
    assert_array_equal(weight, 1)


# Random numbers and threads


@pytest.mark.slow
@refined_or_plain
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_number_of_threads_does_not_change_a_bit(rung, n_classes):
    X = square(2500 if rung is PAPER else 210)  # several blocks, or several trials
    y = rings(X, n_classes)
    settings = {"alpha": 1e-3, "random_state": 0, **SHORT, **rung}
    one, other = (limited(RFLAFClassifier, 5, n_jobs=n_jobs, **settings).fit(X, y) for n_jobs in (1, 2))
    assert_array_equal(one.directions_, other.directions_)
    assert_array_equal(one.output_weights_, other.output_weights_)
    assert_array_equal(one.predict_proba(X), other.predict_proba(X))


@refined_or_plain
def test_the_same_seed_gives_the_same_model_and_another_seed_another(rung):
    X = square(210)
    y = rings(X)
    first, again, other = (
        RFLAFClassifier(5, alpha=1e-3, random_state=seed, **rung).fit(X, y).predict_proba(X) for seed in (0, 0, 1)
    )
    assert_array_equal(first, again)
    assert np.any(first != other)


# Weights


@pytest.mark.slow
@each_rung
@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_of_classes_act_as_repeated_rows(rung, n_classes):
    y = rings(ROWS, n_classes)
    times = np.array([1, 3, 2])[y]
    weighted = classifier(class_weight={0: 1, 1: 3, 2: 2}, **steady(rung))
    if n_classes == 2:
        weighted.set_params(class_weight={0: 1, 1: 3})
    repeated = classifier(**steady(rung)).fit(ROWS.repeat(times, axis=0), y.repeat(times))
    weighted.fit(ROWS, y)
    assert_allclose(weighted.predict_proba(ROWS), repeated.predict_proba(ROWS), rtol=0, atol=rounding(rung))


def test_a_balanced_weight_is_the_dictionary_it_stands_for():
    y = np.minimum(RINGS, 1)
    by_class = dict(enumerate(compute_class_weight("balanced", classes=np.array([0, 1]), y=y)))
    balanced, given_one = (classifier(class_weight=w).fit(ROWS, y) for w in ("balanced", by_class))
    assert_allclose(balanced.decision_function(ROWS), given_one.decision_function(ROWS), rtol=0, atol=1e-9)
    plain = classifier().fit(ROWS, y)
    assert np.abs(balanced.decision_function(ROWS) - plain.decision_function(ROWS)).max() > 0.1


def test_balanced_classes_weigh_the_same_counting_the_weights_of_the_rows():
    weight = np.random.default_rng(6).uniform(0.1, 3, 120)
    share = np.bincount(RINGS, weight)
    by_class = {k: weight.sum() / 3 / share[k] for k in range(3)}
    balanced, given_one = (
        classifier(class_weight=w).fit(ROWS, RINGS, sample_weight=weight) for w in ("balanced", by_class)
    )
    assert_allclose(balanced.predict_proba(ROWS), given_one.predict_proba(ROWS), rtol=0, atol=1e-7)
    stiff = classifier(class_weight="balanced", alpha=1e6).fit(ROWS, RINGS, sample_weight=weight)
    assert_allclose(stiff.predict_proba(ROWS), 1 / 3, rtol=0, atol=1e-3)


def test_weights_of_classes_and_rows_multiply():
    weight = np.random.default_rng(7).uniform(0.1, 2, 120)
    both = classifier(class_weight={0: 0.5, 1: 2.0, 2: 1.0}).fit(ROWS, RINGS, sample_weight=weight)
    product = classifier().fit(ROWS, RINGS, sample_weight=weight * np.array([0.5, 2.0, 1.0])[RINGS])
    assert_allclose(both.predict_proba(ROWS), product.predict_proba(ROWS), rtol=0, atol=1e-9)


def test_a_class_without_a_weight_weighs_one():
    some, all_of_them = (classifier(class_weight=w).fit(ROWS, RINGS) for w in ({1: 3.0}, {0: 1.0, 1: 3.0, 2: 1.0}))
    assert_array_equal(some.predict_proba(ROWS), all_of_them.predict_proba(ROWS))


def test_weights_of_classes_are_by_label():
    names = np.array(["b", "a", "c"])[RINGS]
    named = classifier(class_weight={"b": 4.0}).fit(ROWS, names)
    by_row = classifier().fit(ROWS, names, sample_weight=np.where(names == "b", 4.0, 1.0))
    assert_allclose(named.predict_proba(ROWS), by_row.predict_proba(ROWS), rtol=0, atol=1e-9)


@pytest.mark.slow
@each_rung
def test_whole_weights_act_as_repeated_rows(rung):
    times = np.random.default_rng(8).integers(0, 3, 120)
    weighted = classifier(**steady(rung)).fit(ROWS, RINGS, sample_weight=times)
    repeated = classifier(**steady(rung)).fit(ROWS.repeat(times, axis=0), RINGS.repeat(times))
    assert_allclose(weighted.predict_proba(ROWS), repeated.predict_proba(ROWS), rtol=0, atol=rounding(rung))


@pytest.mark.parametrize("factor", [2.0**-10, 7.0, 2.0**30])
def test_weights_times_a_constant_give_the_same_model(factor):
    weight = np.random.default_rng(9).uniform(0.5, 2, 120)
    one, other = (classifier().fit(ROWS, RINGS, sample_weight=w) for w in (weight, factor * weight))
    assert_allclose(other.predict_proba(ROWS), one.predict_proba(ROWS), rtol=0, atol=1e-7)


def test_a_class_whose_rows_all_weigh_nothing_is_known_and_unlikely():
    model = classifier().fit(ROWS, RINGS, sample_weight=(RINGS != 1).astype(float))
    assert_array_equal(model.classes_, [0, 1, 2])
    assert model.predict_proba(ROWS)[:, 1].max() < 0.1


def test_a_class_rarer_than_a_hundredth_is_found_where_classes_are_balanced():
    X = square(1000, seed=10)
    y = np.where(np.hypot(X[:, 0] - 1.5, X[:, 1]) < 0.17, "rare", "common")
    assert 2 < np.sum(y == "rare") < 10
    plain, balanced = (classifier(20, class_weight=w, tol=1e-2).fit(X, y) for w in (None, "balanced"))
    assert balanced.predict_proba(X)[:, 1].mean() > 3 * plain.predict_proba(X)[:, 1].mean()
    assert recall_score(y, balanced.predict(X), pos_label="rare") == 1
    assert plain.predict_proba(X)[:, 1].mean() == pytest.approx(np.mean(y == "rare"), rel=0.05)


@hypothesis_settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(2, 5), st.integers(0, 2**20), st.booleans())
def test_probabilities_average_to_the_shares_of_the_classes(n_classes, seed, weighted):
    """The slope in the intercept is zero at the solution."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((60, 3)), rng.permutation(np.arange(60) % n_classes)
    weight = rng.uniform(0.1, 2, 60) if weighted else np.ones(60)
    model = classifier(5, basis=BSplineBasis(6), alpha=1e-2, **CONVEX).fit(X, y, sample_weight=weight)
    mean = weight @ model.predict_proba(X) / weight.sum()
    assert_allclose(mean, np.bincount(y, weight) / weight.sum(), rtol=0, atol=1e-6)


# What is learned


def crossed(X):
    return X[:, 0] * X[:, 1] > 0


@pytest.mark.slow
@pytest.mark.parametrize("rule", [rings, crossed, lambda X: rings(X) == 0], ids=["three rings", "xor", "a disc"])
@pytest.mark.parametrize(
    "model",
    [
        RFLAFClassifier(30, random_state=0),
        limited(RFLAFClassifier.convex, 20, pool_size=60, basis=BSplineBasis(10), alpha=1e-6, random_state=0, **SHORT),
        limited(RFLAFClassifier.paper, 40, pool_size=60, n_basis=10, alpha=1e-6, random_state=0, **SHORT),
    ],
    ids=["refined", "convex", "paper"],
)
@only_steps_may_run_out
def test_classes_with_a_clear_boundary_are_told_apart(model, rule, monkeypatch):
    monkeypatch.setattr(refined_training, "judge_rivals", lambda *_: [])
    X, new = square(1000), square(2000, seed=1)
    assert clone(model).fit(X, rule(X)).score(new, rule(new)) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [{"activation": "shared"}, {"curves": True}, {"directions": "random", "alpha": 1e-6}],
    ids=["shared and refined", "curved columns", "per component"],
)
def test_other_models_tell_them_apart_too(settings):
    X, new = square(1000), square(2000, seed=1)
    model = RFLAFClassifier(30, **{"alpha": 1e-4, "random_state": 0, **settings}).fit(X, rings(X))
    assert model.score(new, rings(new)) > 0.95


def test_ten_classes_are_told_apart():
    X, new = square(1000), square(2000, seed=1)

    def pieces_of_cake(rows):
        return np.floor(10 * (np.arctan2(rows[:, 1], rows[:, 0]) / (2 * np.pi) + 0.5)).astype(int) % 10

    model = RFLAFClassifier(40, alpha=1e-4, curves=False, random_state=0).fit(X, pieces_of_cake(X))
    assert model.score(new, pieces_of_cake(new)) > 0.95


def odds(X):
    return 2 * np.sin(2 * X[:, 0]) + X[:, 1]


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"curves": False, "directions": "refined"}], ids=["plain", "refined"])
def test_probabilities_are_near_the_true_ones(settings):
    X, new, errors = square(1500), square(1000, seed=1), []
    for seed in (2, 3, 4):
        y = np.random.default_rng(seed).random(1500) < expit(odds(X))
        p = classifier(12, basis=BSplineBasis(16), alpha="auto", **settings).fit(X, y).predict_proba(new)[:, 1]
        errors.append(np.abs(p - expit(odds(new))).mean())
    assert np.median(errors) < 0.04
    assert max(errors) < 0.07


def test_probabilities_of_three_classes_are_near_the_true_ones():
    def truth(X):
        e = np.exp(np.column_stack([odds(X), -odds(X), X[:, 1]]))
        return e / e.sum(axis=1, keepdims=True)

    X, new = square(2000), square(1000, seed=1)
    y = np.argmax(np.random.default_rng(2).random((2000, 1)) < np.cumsum(truth(X), axis=1), axis=1)
    p = classifier(12, basis=BSplineBasis(16), alpha=1e-4).fit(X, y).predict_proba(new)
    assert np.abs(p - truth(new)).mean() < 0.05


def test_too_few_rows_to_train_on_some_are_fitted_by_functions_of_single_columns():
    few = RFLAFClassifier(5, random_state=0, alpha=1e-3).fit(ROWS[:19], INSIDE[:19])
    assert_array_equal(few.directions_ != 0, np.eye(2, dtype=bool))
    assert few.n_components_ == 2
    assert few.score(ROWS, INSIDE) > 0.8


def test_directions_that_are_given_are_tried_too_where_there_are_few_rows(caplog):
    X = square(250)
    with caplog.at_level("INFO", logger="rflaf"):
        model = RFLAFClassifier(5, basis=BSplineBasis(6), curves=False, random_state=0).fit(X, X[:, 0] > 0)
    assert "a linear model" in caplog.text
    assert "functions of single columns" in caplog.text
    assert len(model.trials_) > 0
    assert model.score(X, X[:, 0] > 0) > 0.98


def test_a_width_is_found_on_the_greedy_path():
    model = limited(
        RFLAFClassifier.convex, "auto", pool_size=30, basis=BSplineBasis(6), alpha=1e-5, random_state=0, **SHORT
    )
    model.fit(ROWS, RINGS)
    assert 1 <= model.n_components_ <= 30
    assert model.selection_.order.size >= model.n_components_
    assert model.score(ROWS, RINGS) > 0.8


@pytest.mark.slow
def test_the_paper_has_leverage_scores_of_its_pool():
    model = limited(RFLAFClassifier.paper, 8, pool_size=25, n_basis=6, alpha=1e-4, random_state=0, **SHORT)
    model.fit(ROWS, RINGS)
    assert (model.directions, model.sampling) == ("random", LeverageSampling(25))
    assert model.activation == SharedActivation("exact")
    assert model.leverage_scores_.shape == (25,)
    assert model.effective_dimension_ == pytest.approx(model.leverage_scores_.sum() / 25)


@pytest.mark.parametrize("rung", [PAPER, CONVEX], ids=["shared", "per component"])
def test_too_few_steps_are_warned_of_with_advice(rung):
    with pytest.warns(
        ConvergenceWarning, match="the fit stopped at the most steps .* raise alpha, or lower n_components"
    ):
        model = classifier(max_iter=1, alpha=1e-9, **rung).fit(ROWS, RINGS)
    assert model.stop_reason_ is StopReason.ITERATIONS
    assert np.isfinite(model.predict_proba(ROWS)).all()


def test_a_refined_model_says_how_it_was_found(refined):
    assert refined.stop_reason_ is StopReason.TRAINED
    assert len(refined.trials_) > 0
    assert refined.column_importance_.sum() == pytest.approx(1)
    assert refined.n_iter_ >= 1


# One hundred awkward tables


def awkward_table(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """20 to 150 rows of 2 to 5 classes: separable or not, some classes rare, some columns odd."""
    n_rows, n_columns, n_classes = int(rng.integers(20, 151)), int(rng.integers(2, 7)), int(rng.integers(2, 6))
    X = rng.standard_normal((n_rows, n_columns))
    score = X @ rng.standard_normal(n_columns) + rng.choice([0.0, 0.0, 1.0, 100.0]) * rng.standard_normal(n_rows)
    edges = np.sort(rng.random(n_classes - 1)) if rng.random() < 0.7 else np.linspace(0.98, 0.999, n_classes - 1)
    y = np.searchsorted(np.quantile(score, edges), score)
    y[np.argsort(score)[np.linspace(0, n_rows - 1, n_classes).astype(int)]] = np.arange(n_classes)  # all are there
    odd = rng.random(5) < 0.3
    if odd[0]:
        X[:, 0] = 7.0
    if odd[1]:
        X[:, -1] = X[:, 1]
    if odd[2]:
        X = np.column_stack([X, X[:, 0] - 2 * X[:, 1]])
    if odd[3]:
        X = np.round(X)
    if odd[4]:
        X = X[rng.integers(0, n_rows, n_rows)]
    return X * rng.choice([1e-8, 1.0, 1e8], X.shape[1]), y


def awkward_model(rng: np.random.Generator) -> RFLAFClassifier:
    rung = RUNGS[str(rng.choice(["shared", "per component", "greedy"], p=[0.35, 0.4, 0.25]))]
    small = {"sampling": GreedySelection(15)} if "sampling" in rung else {}
    return limited(
        RFLAFClassifier,
        int(rng.integers(5, 11 if rung["activation"] == "shared" else 16)),
        loss="log_loss" if rng.random() < 0.7 else "squared_hinge",
        class_weight=None if rng.random() < 0.5 else "balanced",
        basis=BSplineBasis(5),
        alpha="auto" if rng.random() < 0.25 else float(rng.choice([1e-10, 1e-6])),
        fit_intercept=bool(rng.random() < 0.8),
        random_state=0,
        n_jobs=1,
        **{**rung, "max_iter": 30, **small},
    )


@pytest.mark.slow
@only_steps_may_run_out
@pytest.mark.parametrize("seed", range(100))
def test_an_awkward_table_is_fitted_and_told_apart(seed):
    rng = np.random.default_rng(seed)
    X, y = awkward_table(rng)
    model = awkward_model(rng)
    dtype = rng.choice([np.float32, np.float64])
    model.fit(X.astype(dtype), y)
    assert isinstance(model.stop_reason_, StopReason)
    assert_array_equal(model.classes_, np.unique(y))
    assert np.isfinite(model.output_weights_).all()
    for rows in (X, 1e3 * X):
        f = model.decision_function(rows.astype(dtype))
        assert np.isfinite(f).all()
        assert set(model.predict(rows.astype(dtype))) <= set(y)
        if model.loss == "log_loss":
            p, logarithm = model.predict_proba(rows.astype(dtype)), model.predict_log_proba(rows.astype(dtype))
            assert np.isfinite(p).all()
            assert np.isfinite(logarithm).all()
            assert_allclose(p.sum(axis=1), 1, atol=1e-5)
            assert p.dtype == dtype


@only_steps_may_run_out
@pytest.mark.parametrize("n_rows", [2, 3, 30])
@each_rung
def test_columns_that_are_all_constant_leave_the_shares_of_the_classes(n_rows, rung):
    y = np.arange(n_rows) % 2
    model = classifier(5, **rung).fit(np.full((n_rows, 2), 3.0), y)
    assert_allclose(model.predict_proba(np.ones((4, 2)))[:, 1], y.mean(), rtol=0, atol=1e-6)


# What is refused


def fit_refusal(three, y=RINGS, X=ROWS, sample_weight=None, kind=ValueError, **parameters):
    fresh, fitted = classifier(**parameters), pickle.loads(pickle.dumps(three)).set_params(**parameters)
    return refusal(kind, [fresh, fitted], lambda model: model.fit(X, y, sample_weight=sample_weight))


def put(values, index, value):
    copy = np.array(values, dtype=object if not isinstance(value, float) else None)
    copy[index] = value
    return copy


def test_one_class_only_is_refused(three):
    error = fit_refusal(three, np.full(120, "same"), kind=InvalidParameterError)
    assert "labels must be of at least two classes" in str(error)
    assert "1 class: ['same']" in str(error)


def test_one_class_left_by_the_weights_of_rows_is_refused(three):
    error = fit_refusal(three, INSIDE, sample_weight=INSIDE.astype(float), kind=InvalidParameterError)
    assert "labels must be of at least two classes" in str(error)
    assert "1 class: [True]" in str(error)


def test_one_class_left_by_the_weights_of_classes_is_refused(three):
    error = fit_refusal(three, INSIDE, class_weight={False: 0.0, True: 1.0}, kind=InvalidParameterError)
    assert "at least two classes" in str(error)


def test_no_class_left_by_the_weights_of_classes_is_refused(three):
    fit_refusal(three, INSIDE, class_weight={False: 0.0, True: 0.0}, kind=InvalidParameterError)


@pytest.mark.parametrize(
    ("y", "fragment"),
    [
        (put(RINGS.astype(float), 3, np.nan), "Input y contains NaN"),
        (put(np.array(["a", "b", "c"], object)[RINGS], 3, None), ""),
        (put(np.array(["a", "b", "c"], object)[RINGS], 3, np.nan), ""),
        (put(RINGS, 3, "one"), ""),
        (ROWS[:, 0], "Unknown label type"),
        (RINGS + 0.5 * (RINGS == 1), "Unknown label type"),
        (np.column_stack([RINGS, RINGS]), "y should be a 1d array"),
        (RINGS[:-1], "inconsistent numbers of samples"),
        (None, "requires y to be passed"),
    ],
    ids=["NaN", "None", "NaN among strings", "a string among numbers", "reals", "halves", "two columns",
         "a row short", "nothing"],
)  # fmt: skip
def test_labels_that_cannot_be_used_are_refused(y, fragment, three):
    error = fit_refusal(three, y, kind=(ValueError, TypeError))
    assert fragment in str(error)
    assert len(str(error)) > 15


@pytest.mark.parametrize(
    ("weight", "fragment"),
    [
        (put(np.ones(120), 3, -1.0), "Negative values"),
        (np.zeros(120), "sample_weight must have a positive entry"),
        (np.ones(119), "sample_weight.shape == (119,), expected (120,)"),
        (np.ones((120, 1)), "Sample weights must be 1D"),
        (put(np.ones(120), 3, np.nan), "Input sample_weight contains NaN"),
    ],
    ids=["negative", "zeros", "a row short", "two dimensions", "NaN"],
)
def test_weights_of_rows_that_cannot_be_used_are_refused(weight, fragment, three):
    assert fragment in str(fit_refusal(three, sample_weight=weight))


@pytest.mark.parametrize(
    "class_weight",
    ["balance", 2.0, [1.0, 2.0, 3.0], {0: -1.0}, {0: "heavy"}, {0: np.nan}, {0: None}, True, np.ones(3)],
    ids=["a word", "a number", "a list", "negative", "a string", "NaN", "None", "a truth value", "an array"],
)
def test_weights_of_classes_of_another_kind_are_refused(class_weight, three):
    error = fit_refusal(three, class_weight=class_weight, kind=InvalidParameterError)
    assert "class_weight must be None or a dict of weights, at least zero or 'balanced'" in str(error)


def test_an_infinite_weight_of_a_class_is_refused(three):
    error = fit_refusal(three, class_weight={0: np.inf}, kind=InvalidParameterError)
    assert "class_weight" in str(error)


def test_a_weight_for_a_class_that_is_not_there_is_refused_where_one_is_missing(three):
    assert "class_weight" in str(fit_refusal(three, class_weight={0: 1.0, "nine": 2.0}))


@pytest.mark.parametrize("loss", ["hinge", "squared", "quantile", None, 3, Logistic, "deviance"])
def test_another_loss_is_refused(loss, three):
    error = fit_refusal(three, loss=loss, kind=InvalidParameterError)
    assert "loss must be 'log_loss', 'squared_hinge' or a Loss object" in str(error)
    assert "Use 'log_loss'." in str(error)


@pytest.mark.parametrize("loss", [Squared(), Huber(0.1), Pinball(), Poisson()])
def test_a_loss_for_numbers_is_refused(loss, three):
    assert "loss" in str(fit_refusal(three, INSIDE, loss=loss, kind=InvalidParameterError))


@pytest.mark.slow
def test_a_loss_of_your_own_trains_refined_directions():
    settings = {"curves": False, "alpha": 1e-2, "random_state": 0, "n_jobs": 1}
    model = RFLAFClassifier(5, loss=Exponential(), **settings).fit(ROWS, INSIDE)
    assert model.score(ROWS, INSIDE) > max(np.mean(label == INSIDE) for label in np.unique(INSIDE))


@pytest.mark.parametrize(
    ("argument", "value", "rule"),
    [
        ("n_components", 0, "must be 'auto' or a whole number, at least 1"),
        ("alpha", -1.0, "must be 'auto' or a number, at least zero"),
        ("activation", "relu", "must be 'per_component', 'shared' or a SharedActivation"),
        ("sampling", "fancy", "must be 'plain', 'leverage', 'greedy', a LeverageSampling or a GreedySelection"),
        ("basis", "fourier", "must be 'bspline'"),
        ("n_jobs", 0, "must be None or a whole number but zero"),
    ],
)
def test_an_argument_out_of_its_range_is_refused(argument, value, rule, three):
    error = fit_refusal(three, kind=InvalidParameterError, **{argument: value})
    assert f"{argument} {rule}" in str(error)


@pytest.mark.parametrize(
    ("X", "fragment"),
    [
        (ROWS[:, :1], "X has 1 features, but RFLAFClassifier is expecting 2 features"),
        (np.ones((4, 3)), "X has 3 features, but RFLAFClassifier is expecting 2 features"),
        (put(ROWS, (3, 1), np.nan), "column '1' must hold numbers without gaps, as in the fit"),
        (ROWS[:0], "minimum of 1 is required"),
    ],
    ids=["too narrow", "too wide", "NaN", "no rows"],
)
@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba", "decision_function", "transform"])
def test_rows_that_cannot_be_predicted_are_refused_and_the_model_stays(X, fragment, method, three):
    error = refusal(ValueError, [three], lambda model: getattr(model, method)(X))
    assert fragment in str(error)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function", "transform", "score"])
def test_an_unfitted_classifier_says_that_it_is(method):
    arguments = [ROWS, RINGS] if method == "score" else [ROWS]
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(RFLAFClassifier(), method)(*arguments)
