"""Rows that come later: chunk by chunk under the squared loss, and `partial_fit` of the classifier."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refusal
from settings import CONVEX, PAPER, limited
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss

from rflaf import BSplineBasis, InvalidParameterError, LeverageSampling, RFLAFClassifier, RFLAFRegressor
from rflaf.errors import StopReason
from rflaf.functions.losses import Logistic, Softmax, Squared, same_units
from rflaf.model.random_feature_model import RandomFeatureModel
from rflaf.rows.blocks import array_source
from rflaf.rows.executors import ThreadExecutor
from rflaf.training.online import Seen, Terms, learn_more, remember

pytestmark = pytest.mark.usefixtures("small_pool")
EXECUTOR = ThreadExecutor(1)
quick = hypothesis_settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


def terms(loss, ridge, intercept):
    """The terms of updates in the units of the targets."""
    return Terms(loss, ridge, same_units(1), 0.0, intercept)


# Sums of rows under the squared loss


@pytest.fixture(scope="module")
def table():
    """Rows (90, 3), two targets (90, 2) and weights (90,)."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (90, 3))
    targets = np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2]) + 0.1 * rng.standard_normal((90, 2))
    return X, targets, rng.uniform(0.2, 2, 90)


def features_of(table, n_outputs: int, **settings) -> RandomFeatureModel:
    """A model whose output weights say nothing yet."""
    X, targets, _ = table
    fitted = RFLAFRegressor(6, **{**PAPER, "alpha": 1e-2, "basis": BSplineBasis(6), "random_state": 0, **settings})
    model = fitted.fit(X, targets[:, :n_outputs]).model_
    return replace(model, v=np.zeros_like(model.v), intercept=np.zeros_like(model.intercept), last_layer=None)


@pytest.fixture(scope="module")
def untaught(table):
    return {n_outputs: features_of(table, n_outputs) for n_outputs in (1, 2)}


def ridge_of(model, X, targets, weight, ridge, intercept):
    """The fit of all rows by scikit-learn, as output weights (n_components, n_outputs) and intercept."""
    total = len(X) if weight is None else weight.sum()
    reference = Ridge(ridge * total, fit_intercept=intercept, solver="cholesky")
    reference.fit(model.features(X), targets, sample_weight=weight)
    return reference.coef_.T.reshape(model.v.shape), np.broadcast_to(reference.intercept_, model.intercept.shape)


def solved(model, X, targets, weight, ridge, intercept):
    v, b = ridge_of(model, X, targets, weight, ridge, intercept)
    return replace(model, v=v, intercept=np.array(b, dtype=float))


def in_chunks(model, table, cuts, ridge, intercept, weighted, n_outputs, dtype=np.float64):
    """The model after the first chunk, and the others one after the other."""
    X, targets, weight = table[0].astype(dtype), table[1][:, :n_outputs], table[2] if weighted else None
    parts = np.split(np.arange(len(X)), cuts)
    first = parts[0]
    model = solved(model, X[first], targets[first], None if weight is None else weight[first], ridge, intercept)
    seen, reason = None, None
    for part in parts:
        source = array_source(X[part], targets[part], None if weight is None else weight[part])
        if seen is None:
            seen = remember(model, source, terms(Squared(), ridge, intercept), EXECUTOR)
        else:
            model, seen, reason = learn_more(model, seen, source, terms(Squared(), ridge, intercept), EXECUTOR)
    return model, seen, reason


@quick
@given(
    st.sets(st.integers(1, 89), min_size=1, max_size=8).map(sorted),
    st.sampled_from([1e-4, 1e-2, 1.0]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 2]),
)
def test_chunks_in_sequence_are_the_fit_of_all_rows(table, untaught, cuts, ridge, intercept, weighted, n_outputs):
    X, targets, weight = table
    model, _, _ = in_chunks(untaught[n_outputs], table, cuts, ridge, intercept, weighted, n_outputs)
    v, b = ridge_of(model, X, targets[:, :n_outputs], weight if weighted else None, ridge, intercept)
    assert_allclose(model.v, v, rtol=0, atol=1e-8 * max(1, np.abs(v).max()))
    assert_allclose(model.intercept, b, rtol=0, atol=1e-8 * max(1, np.abs(v).max()))


@quick
@given(st.permutations(range(5)), st.booleans())
def test_the_order_of_the_chunks_does_not_matter(table, untaught, order, intercept):
    rows = np.concatenate([np.arange(18 * k, 18 * (k + 1)) for k in order])
    shuffled = tuple(part[rows] for part in table)
    cuts = [18, 36, 54, 72]
    one, other = (in_chunks(untaught[1], t, cuts, 1e-3, intercept, True, 1)[0] for t in (table, shuffled))
    assert_allclose(other.v, one.v, rtol=0, atol=1e-8 * max(1, np.abs(one.v).max()))


@pytest.mark.parametrize(
    "settings",
    [{"sampling": LeverageSampling(8)}, {"activation": "per_component"}],
    ids=["importance", "per component"],
)
def test_chunks_end_at_the_fit_of_all_rows_for_other_features_too(settings, table):
    model = features_of(table, 1, **settings)
    taught, _, _ = in_chunks(model, table, [20, 55], 1e-3, True, True, 1)
    v, b = ridge_of(model, table[0], table[1][:, :1], table[2], 1e-3, True)
    assert_allclose(taught.v, v, rtol=0, atol=1e-7 * np.abs(v).max())
    assert_allclose(taught.intercept, b, rtol=0, atol=1e-7 * np.abs(v).max())


@pytest.mark.slow
def test_a_bent_model_learns_more_too():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, (240, 2))
    y = np.abs(X[:, :1]) + X[:, 1:] ** 2
    fitted = RFLAFRegressor(5, alpha=1e-4, curves=True, random_state=0).fit(X, y)
    assert fitted.curves_ is not None
    model = replace(fitted.model_, last_layer=None)
    taught, _, _ = in_chunks(model, (X, y, np.ones(240)), [100, 170], 1e-4, True, False, 1)
    v, _ = ridge_of(model, X, y, None, 1e-4, True)
    assert_allclose(taught.v, v, rtol=0, atol=1e-6 * np.abs(v).max())


def test_single_precision_ends_near_the_fit_of_all_rows(table, untaught):
    taught, _, _ = in_chunks(untaught[1], table, [30, 60], 1e-2, True, False, 1, np.float32)
    v, _ = ridge_of(untaught[1], table[0], table[1][:, :1], None, 1e-2, True)
    assert_allclose(taught.v, v, rtol=0, atol=1e-4 * np.abs(v).max())


def test_sparse_chunks_are_those_of_dense_rows(table, untaught):
    X, targets, _ = table
    model = solved(untaught[1], X[:40], targets[:40, :1], None, 1e-3, True)
    answers = []
    for convert in (np.asarray, sp.csr_array):
        first, second = (array_source(convert(X[part]), targets[part, :1]) for part in (slice(40), slice(40, 90)))
        seen = remember(model, first, terms(Squared(), 1e-3, True), EXECUTOR)
        answers.append(learn_more(model, seen, second, terms(Squared(), 1e-3, True), EXECUTOR)[0].v)
    assert_allclose(answers[1], answers[0], rtol=0, atol=1e-9)


def test_what_was_seen_is_counted(table, untaught):
    X, _, weight = table
    _, seen, reason = in_chunks(untaught[2], table, [10, 50], 1e-2, True, True, 2)
    assert isinstance(seen, Seen)
    assert seen.past.weight == pytest.approx(weight.sum())
    assert seen.equations.weight == pytest.approx(weight.sum())
    assert seen.past.A.shape == (2, 7, 7)
    assert seen.past.centre.shape == (7, 2)
    assert reason is StopReason.GRADIENT
    design = np.column_stack([untaught[2].features(X), np.ones(90)])
    assert_allclose(seen.past.A[0], 2 * design.T @ (weight[:, None] * design), rtol=1e-9)


def test_the_rows_before_are_what_is_left_of_them_only(table, untaught):
    """Chunks may be forgotten: what is kept does not grow with them."""
    sizes = []
    for n_rows in (20, 80):
        part = tuple(values[:n_rows] for values in table)
        _, seen, _ = in_chunks(untaught[1], part, [10], 1e-2, True, False, 1)
        sizes.append(len(pickle.dumps(seen)))
    assert sizes[0] == pytest.approx(sizes[1], rel=0.05)


def test_a_model_that_learned_more_has_no_sums_of_a_closed_form(table):
    X, targets, _ = table
    model = RFLAFRegressor(6, alpha=1e-2, basis=BSplineBasis(6), random_state=0, **PAPER).fit(X, targets).model_
    source = array_source(X, targets)
    seen = remember(model, source, terms(Squared(), 6e-2, True), EXECUTOR)
    learned, _, _ = learn_more(model, seen, source, terms(Squared(), 6e-2, True), EXECUTOR)
    assert learned.last_layer is None
    assert_array_equal(learned.directions.W, model.directions.W)
    assert_array_equal(learned.activation.coefficients, model.activation.coefficients)


@pytest.mark.parametrize("loss", [Squared(), Logistic()])
def test_the_same_rows_again_change_nothing(loss, table):
    X, targets, _ = table
    y = (targets[:, :1] > 0).astype(float)
    fitted = RFLAFRegressor(6, loss=loss, alpha=1e-3, basis=BSplineBasis(6), random_state=0, **PAPER).fit(X, y)
    source = array_source(X, y)
    seen = remember(fitted.model_, source, terms(loss, 6e-3, True), EXECUTOR)
    again, _, _ = learn_more(fitted.model_, seen, source, terms(loss, 6e-3, True), EXECUTOR)
    assert_allclose(again.v, fitted.model_.v, rtol=0, atol=1e-6 * np.abs(again.v).max())
    assert_allclose(again.intercept, fitted.model_.intercept, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("loss", "n_outputs"), [(Squared(), 2), (Logistic(), 1), (Softmax(), 3)])
def test_rows_like_those_that_are_gone_stand_for_as_many(loss, n_outputs, table):
    X, targets, _ = table
    y = np.eye(3)[np.digitize(targets[:, 0], [-0.5, 0.5])][:, :n_outputs] if loss != Squared() else targets
    rng = np.random.default_rng(2)
    model = replace(
        features_of(table, 1), v=rng.standard_normal((6, n_outputs)), intercept=rng.standard_normal(n_outputs)
    )
    twice = array_source(np.tile(X, (2, 1)), np.tile(y, (2, 1)))
    expected = remember(model, twice, terms(loss, 0.1, True), EXECUTOR)
    alike = remember(model, array_source(X, y), terms(loss, 0.1, True), EXECUTOR, weight=180.0)
    assert_allclose(alike.past.A, expected.past.A, rtol=1e-10, atol=1e-10)
    assert_allclose(alike.past.slope, expected.past.slope, rtol=1e-10, atol=1e-10)
    assert_array_equal(alike.past.centre, expected.past.centre)
    assert alike.past.weight == expected.past.weight == 180
    assert alike.equations.weight == pytest.approx(180)
    assert_allclose(alike.equations.moments, expected.equations.moments, rtol=1e-10, atol=1e-8)


# partial_fit


CLASSES = {2: ["in", "out"], 3: ["far", "in", "out"]}


def made(n_rows: int, seed: int, n_classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Noisy rings around zero."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n_rows, 2))
    radius = np.hypot(X[:, 0], X[:, 1]) + 0.3 * rng.standard_normal(n_rows)
    edges = [1.5] if n_classes == 2 else [1.0, 1.8]
    return X, np.array(["in", "out", "far"])[np.digitize(radius, edges)]


def classifier(n_components: int = 8, **others) -> RFLAFClassifier:
    fixed = {**CONVEX, "basis": BSplineBasis(8), "alpha": 1e-4, "random_state": 0}
    return limited(RFLAFClassifier, n_components, **{**fixed, **others})


def taught(model, X, y, cuts, n_classes=3, sample_weight=None):
    for part in np.split(np.arange(len(y)), cuts):
        weight = None if sample_weight is None else sample_weight[part]
        model.partial_fit(X[part], y[part], classes=CLASSES[n_classes], sample_weight=weight)
    return model


def on_all_rows(model, X, y, weight=None) -> LogisticRegression:
    """The fit of all rows on the features and with the penalty of a model."""
    total = len(y) if weight is None else weight.sum()
    reference = LogisticRegression(C=1 / (2 * total * model._terms.ridge), tol=1e-8, solver="newton-cholesky")
    return reference.fit(model.transform(X), y, sample_weight=weight)


def entropy(model, X, y) -> float:
    return log_loss(y, model.predict_proba(X), labels=model.classes_)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("rung", [PAPER, CONVEX], ids=["shared", "per component"])
def test_chunks_end_near_the_fit_of_all_rows(n_classes, rung):
    (X, y), (new, unseen) = made(1000, 0, n_classes), made(4000, 1, n_classes)
    first = taught(classifier(tol=1e-2, **rung), X[:200], y[:200], [], n_classes)
    alone = entropy(first, new, unseen)
    model = taught(classifier(tol=1e-2, **rung), X, y, [200, 400, 600, 800], n_classes)
    reference = on_all_rows(model, X, y)
    best = log_loss(unseen, reference.predict_proba(model.transform(new)), labels=reference.classes_)
    assert entropy(model, new, unseen) < 1.02 * best
    assert entropy(model, new, unseen) < alone
    assert_allclose(model.predict_proba(new), reference.predict_proba(model.transform(new)), rtol=0, atol=0.15)


@pytest.mark.parametrize(("n_classes", "near"), [(2, 0.015), (3, 0.05)])  # of softmax without that between classes
@pytest.mark.parametrize("step", [50, 400])
def test_what_is_kept_of_the_rows_before_is_their_curvature(n_classes, near, step):
    (X, y), (new, _) = made(1000, 10, n_classes), made(1000, 1, n_classes)
    model = taught(classifier(6), X, y, range(200, 1000, step), n_classes)
    reference = on_all_rows(model, X, y)
    assert_allclose(model.predict_proba(new), reference.predict_proba(model.transform(new)), rtol=0, atol=near)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_order_of_the_last_chunks_matters_little(n_classes):
    (X, y), (new, unseen) = made(900, 0, n_classes), made(2000, 1, n_classes)
    order = np.concatenate([np.arange(300), np.arange(600, 900), np.arange(300, 600)])
    one, other = (taught(classifier(), X[rows], y[rows], [300, 600], n_classes) for rows in (np.arange(900), order))
    assert_array_equal(one.directions_, other.directions_)
    assert_allclose(one.predict_proba(new), other.predict_proba(new), rtol=0, atol=0.05)
    assert entropy(one, new, unseen) == pytest.approx(entropy(other, new, unseen), rel=0.01)


def test_the_first_chunk_alone_is_a_fit():
    X, y = made(200, 0)
    partial, whole = classifier().partial_fit(X, y, classes=CLASSES[3]), classifier().fit(X, y)
    assert_array_equal(partial.predict_proba(X), whole.predict_proba(X))
    assert_array_equal(partial.classes_, whole.classes_)
    assert partial.alpha_ == whole.alpha_


def test_later_chunks_change_the_output_weights_only():
    X, y = made(400, 0)
    model = classifier().partial_fit(X[:200], y[:200], classes=CLASSES[3])
    before = {name: getattr(model, name) for name in ("directions_", "activation_", "alpha_", "n_components_")}
    coef, features = model.output_weights_.copy(), model.transform(X)
    assert model.partial_fit(X[200:], y[200:]) is model
    for name, value in before.items():
        assert getattr(model, name) is value or name == "n_components_"
    assert_array_equal(model.transform(X), features)
    assert np.any(model.output_weights_ != coef)
    assert_allclose(
        features @ model.output_weights_.T + model.intercept_, model.decision_function(X), rtol=0, atol=1e-9
    )
    assert model.stop_reason_ is StopReason.GRADIENT


def test_classes_need_to_be_named_only_once_and_in_any_order():
    X, y = made(400, 0)
    named = classifier().partial_fit(X[:200], y[:200], classes=["out", "in", "far", "in"])
    assert_array_equal(named.classes_, CLASSES[3])
    once = named.partial_fit(X[200:], y[200:]).predict_proba(X)
    assert_array_equal(taught(classifier(), X, y, [200]).predict_proba(X), once)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_more_rows_are_learned_after_a_fit(n_classes):
    (X, y), (new, unseen) = made(1000, 0, n_classes), made(4000, 1, n_classes)
    model = classifier().fit(X[:200], y[:200])
    alone = entropy(model, new, unseen)
    for first in range(200, 1000, 200):
        model.partial_fit(X[first : first + 200], y[first : first + 200])
    assert entropy(model, new, unseen) < alone
    reference = on_all_rows(model, X, y)
    best = log_loss(unseen, reference.predict_proba(model.transform(new)), labels=reference.classes_)
    assert entropy(model, new, unseen) < 1.03 * best


@pytest.mark.parametrize("n_classes", [2, 3])
def test_more_rows_do_a_refined_model_no_harm(n_classes):
    (X, y), (new, unseen) = made(900, 0, n_classes), made(4000, 1, n_classes)
    model = RFLAFClassifier(8, alpha=1e-3, curves=False, random_state=0)
    model.partial_fit(X[:300], y[:300], classes=CLASSES[n_classes])
    assert model.stop_reason_ is StopReason.TRAINED
    alone = entropy(model, new, unseen)
    for first in (300, 600):
        model.partial_fit(X[first : first + 300], y[first : first + 300])
    assert entropy(model, new, unseen) < alone


def test_fit_forgets_what_was_learned_before():
    X, y = made(400, 0)
    model = taught(classifier(), X, y, [200])
    fresh = classifier().fit(X[:100], y[:100])
    assert_array_equal(model.fit(X[:100], y[:100]).predict_proba(X), fresh.predict_proba(X))
    model.partial_fit(X[100:200], y[100:200])
    assert_array_equal(model.predict_proba(X), fresh.partial_fit(X[100:200], y[100:200]).predict_proba(X))


def test_a_clone_has_seen_nothing():
    X, y = made(200, 0)
    copy = clone(taught(classifier(), X, y, [100]))
    with pytest.raises(InvalidParameterError, match="needs classes"):
        copy.partial_fit(X, y)


def test_a_class_may_be_absent_from_a_later_chunk():
    (X, y), (new, unseen) = made(900, 0), made(2000, 1)
    rest = y != "far"
    model = classifier().partial_fit(X[:600], y[:600], classes=CLASSES[3])
    before = entropy(model, new, unseen)
    model.partial_fit(X[600:][rest[600:]][:30], y[600:][rest[600:]][:30])
    assert_array_equal(model.classes_, CLASSES[3])
    assert entropy(model, new, unseen) < 1.1 * before
    assert "far" in model.predict(new)


def test_a_later_chunk_may_be_of_one_class_only():
    (X, y), (new, unseen) = made(620, 0), made(2000, 1)
    model = classifier().partial_fit(X[:600], y[:600], classes=CLASSES[3])
    before = entropy(model, new, unseen)
    model.partial_fit(X[600:][y[600:] == "in"], y[600:][y[600:] == "in"])
    assert entropy(model, new, unseen) < 1.1 * before


def test_a_class_that_comes_later_is_learned_when_it_comes():
    (X, y), (new, unseen) = made(1200, 0), made(2000, 1)
    early = np.flatnonzero(y != "far")[:200]
    later = np.setdiff1d(np.arange(1200), early)
    model = classifier().partial_fit(X[early], y[early], classes=CLASSES[3])
    assert_array_equal(model.classes_, CLASSES[3])
    assert model.predict_proba(new)[:, 0].max() < 0.01
    for part in np.array_split(later, 3):
        model.partial_fit(X[part], y[part])
    assert model.score(new, unseen) > 0.7
    assert entropy(model, new, unseen) < 0.8


def test_a_single_row_is_learned():
    X, y = made(200, 0)
    model = classifier().partial_fit(X, y, classes=CLASSES[3])
    before = model.predict_proba(X[:1])[0, list(model.classes_).index("far")]
    for _ in range(3):
        model.partial_fit(X[:1], ["far"])
    assert model.predict_proba(X[:1])[0, 0] > before


@pytest.mark.parametrize("n_classes", [2, 3])
def test_whole_weights_act_as_repeated_rows(n_classes):
    X, y = made(300, 0, n_classes)
    times = np.random.default_rng(2).integers(1, 4, 300)
    weighted = taught(classifier(), X, y, [150, 220], n_classes, times.astype(float))
    ends = np.cumsum(times)
    repeated = taught(classifier(), X.repeat(times, axis=0), y.repeat(times), ends[[149, 219]], n_classes)
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=0, atol=1e-6)


def test_a_row_of_weight_zero_is_as_good_as_absent():
    X, y = made(300, 0)
    weight = np.where(np.arange(300) % 3 == 0, 0.0, 1.0)
    kept = weight > 0
    spoiled = np.where(kept, y, "in")
    weighted = taught(classifier(), X, spoiled, [150], 3, weight)
    dropped = taught(classifier(), X[kept], y[kept], [100])
    assert_allclose(weighted.predict_proba(X), dropped.predict_proba(X), rtol=0, atol=1e-6)


def test_weights_of_all_chunks_times_a_constant_change_nothing():
    X, y = made(300, 0)
    weight = np.random.default_rng(3).uniform(0.5, 2, 300)
    one, other = (taught(classifier(), X, y, [150], 3, factor * weight) for factor in (1.0, 1000.0))
    assert_allclose(other.predict_proba(X), one.predict_proba(X), rtol=0, atol=1e-6)


def test_weights_of_classes_are_counted_in_every_chunk():
    X, y = made(300, 0)
    by_class = {"far": 3.0, "in": 1.0, "out": 0.5}
    by_row = np.array([by_class[label] for label in y])
    named = taught(classifier(class_weight=by_class), X, y, [150, 200])
    given_ones = taught(classifier(), X, y, [150, 200], 3, by_row)
    assert_allclose(named.predict_proba(X), given_ones.predict_proba(X), rtol=0, atol=1e-9)


def test_weights_of_classes_do_not_mind_a_class_that_is_absent_from_a_chunk():
    X, y = made(300, 0)
    model = classifier(class_weight={"far": 3.0, "in": 1.0, "out": 0.5}).partial_fit(X, y, classes=CLASSES[3])
    model.partial_fit(X[y != "far"][:20], y[y != "far"][:20])
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_stored_model_goes_on_learning_bit_for_bit(loss, n_classes):
    X, y = made(400, 0, n_classes)
    model = taught(classifier(loss=loss), X[:300], y[:300], [150], n_classes)
    loaded = pickle.loads(pickle.dumps(model))
    for one in (model, loaded):
        one.partial_fit(X[300:], y[300:])
    assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert_array_equal(loaded.output_weights_, model.output_weights_)


def test_the_number_of_threads_does_not_change_a_bit():
    X, y = made(5000, 0)
    one, other = (taught(classifier(4, n_jobs=n_jobs), X, y, [200]) for n_jobs in (1, 2))
    assert_array_equal(one.output_weights_, other.output_weights_)
    assert_array_equal(one.intercept_, other.intercept_)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_margin_goes_on_learning(n_classes):
    (X, y), (new, unseen) = made(900, 0, n_classes), made(4000, 1, n_classes)
    model = classifier(loss="squared_hinge")
    model.partial_fit(X[:150], y[:150], classes=CLASSES[n_classes])
    alone = model.score(new, unseen)
    for first in range(150, 900, 150):
        model.partial_fit(X[first : first + 150], y[first : first + 150])
    assert model.score(new, unseen) > alone - 0.01
    assert not hasattr(model, "predict_proba")


def test_without_an_intercept_there_stays_none():
    X, y = made(400, 0)
    model = taught(classifier(fit_intercept=False), X, y, [200])
    assert_array_equal(model.intercept_, 0)
    assert model.score(X, y) > 0.7


def test_sparse_chunks_are_learned():
    X, y = made(300, 0)
    dense, sparse = (
        classifier().partial_fit(convert(X[:150]), y[:150], classes=CLASSES[3]).partial_fit(convert(X[150:]), y[150:])
        for convert in (np.asarray, sp.csr_array)
    )
    assert_allclose(sparse.predict_proba(X), dense.predict_proba(X), rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtypes", [(np.float32, np.float64), (np.float64, np.float32), (np.float32, np.float32)])
def test_chunks_may_change_their_precision(dtypes):
    X, y = made(300, 0)
    model = classifier().partial_fit(X[:150].astype(dtypes[0]), y[:150], classes=CLASSES[3])
    model.partial_fit(X[150:].astype(dtypes[1]), y[150:])
    expected = taught(classifier(), X, y, [150])
    assert_allclose(model.predict_proba(X), expected.predict_proba(X), rtol=0, atol=0.01)
    assert model.predict_proba(X.astype(np.float32)).dtype == np.float32


@pytest.mark.slow
def test_chunks_of_data_frames_must_have_the_same_columns():
    X, y = made(300, 0)
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = classifier().partial_fit(frame[:150], y[:150], classes=CLASSES[3]).partial_fit(frame[150:], y[150:])
    assert_array_equal(model.feature_names_in_, ["a", "b"])
    with pytest.raises(ValueError, match="feature names should match"):
        model.partial_fit(frame.rename(columns={"a": "z"}), y)


@pytest.mark.slow
def test_many_small_chunks_end_near_the_fit_of_all_rows():
    (X, y), (new, unseen) = made(600, 0), made(2000, 1)
    model = taught(classifier(5), X, y, range(200, 600, 10))
    reference = on_all_rows(model, X, y)
    best = log_loss(unseen, reference.predict_proba(model.transform(new)), labels=reference.classes_)
    assert entropy(model, new, unseen) < 1.02 * best


def test_rows_that_can_be_told_apart_without_error_stay_finite():
    rng = np.random.default_rng(4)
    X = rng.uniform(-2, 2, (300, 2))
    y = X[:, 0] > 0
    model = classifier(alpha=1e-9)
    for first in range(0, 300, 100):
        model.partial_fit(X[first : first + 100], y[first : first + 100], classes=[False, True])
    assert np.isfinite(model.predict_log_proba(X)).all()
    assert model.score(X, y) > 0.97


# What is refused


@pytest.fixture(scope="module")
def stored():
    X, y = made(200, 0)
    return pickle.dumps(taught(classifier(), X, y, [150]))


MORE, LABELS = made(50, 5)


def both_refusals(stored, kind=ValueError, X=MORE, y=LABELS, sample_weight=None, **parameters) -> str:
    """Of a first call and of a later one."""
    fresh, fitted = classifier(**parameters), pickle.loads(stored).set_params(**parameters)
    chunk = {"X": X, "y": y, "classes": CLASSES[3], "sample_weight": sample_weight}
    return str(refusal(kind, [fresh, fitted], lambda model: model.partial_fit(**chunk)))


def test_a_first_call_without_classes_is_refused():
    error = refusal(InvalidParameterError, [classifier()], lambda model: model.partial_fit(MORE, LABELS))
    assert "the first call to partial_fit needs classes, all labels that will come" in str(error)
    assert str(error).endswith("Pass np.unique(y).")


@pytest.mark.parametrize("classes", [["in", "out"], ["far", "in", "out", "near"], [1, 2, 3]])
def test_other_classes_in_a_later_call_are_refused(classes, stored):
    error = refusal(
        InvalidParameterError, [pickle.loads(stored)], lambda model: model.partial_fit(MORE, LABELS, classes=classes)
    )
    assert "classes must be those of the first call to partial_fit, ['far', 'in', 'out']" in str(error)
    assert str(error).endswith("Leave classes out.")


def test_a_label_that_is_not_among_the_classes_is_refused(stored):
    odd = np.where(np.arange(50) == 3, "nowhere", LABELS)
    message = both_refusals(stored, InvalidParameterError, y=odd)
    assert "labels must be among the classes given first, ['far', 'in', 'out']; got ['nowhere']" in message


def test_labels_of_another_kind_are_refused(stored):
    both_refusals(stored, (ValueError, TypeError), y=np.digitize(MORE[:, 0], [-1, 1]))


def test_a_first_chunk_of_one_class_is_refused():
    error = refusal(
        InvalidParameterError,
        [classifier()],
        lambda model: model.partial_fit(MORE, np.full(50, "in"), classes=CLASSES[3]),
    )
    assert "labels must be of at least two classes" in str(error)


@pytest.mark.parametrize("class_weight", ["balanced", "heavy", [1.0, 2.0], {"in": -1.0}])
def test_weights_of_classes_that_cannot_be_kept_are_refused(class_weight, stored):
    message = both_refusals(stored, InvalidParameterError, class_weight=class_weight)
    assert "class_weight must be None or a dict of weights, at least zero" in message
    assert "partial_fit cannot balance classes it has not seen" in message


@pytest.mark.parametrize(
    ("weight", "fragment"),
    [
        (np.where(np.arange(50) == 3, -1.0, 1.0), "Negative values"),
        (np.zeros(50), "sample_weight must have a positive entry"),
        (np.ones(49), "sample_weight.shape == (49,), expected (50,)"),
        (np.where(np.arange(50) == 3, np.nan, 1.0), "Input sample_weight contains NaN"),
    ],
    ids=["negative", "zeros", "a row short", "NaN"],
)
def test_weights_of_rows_that_cannot_be_used_are_refused(weight, fragment, stored):
    assert fragment in both_refusals(stored, sample_weight=weight)


@pytest.mark.parametrize(
    ("y", "fragment"),
    [
        (np.column_stack([LABELS, LABELS]), "y should be a 1d array"),
        (LABELS[:-1], "inconsistent numbers of samples"),
        (MORE[:, 0], "Unknown label type"),
        (None, "requires y to be passed"),
    ],
    ids=["two columns", "a row short", "reals", "nothing"],
)
def test_labels_that_cannot_be_used_are_refused(y, fragment, stored):
    assert fragment in both_refusals(stored, y=y)


@pytest.mark.parametrize(
    ("X", "fragment"),
    [
        (MORE[:, :1], "X has 1 features, but RFLAFClassifier is expecting 2 features"),
        (np.ones((50, 3)), "X has 3 features, but RFLAFClassifier is expecting 2 features"),
        (np.where(np.arange(50)[:, None] == 3, np.nan, MORE), "Input X contains NaN"),
        (MORE[0], "Expected 2D array, got 1D array"),
    ],
    ids=["too narrow", "too wide", "NaN", "one row"],
)
def test_rows_that_cannot_be_used_are_refused_in_a_later_call(X, fragment, stored):
    error = refusal(ValueError, [pickle.loads(stored)], lambda model: model.partial_fit(X, LABELS))
    assert fragment in str(error)


def test_a_refusal_after_a_fit_leaves_it_as_it_was():
    X, y = made(100, 0)
    refusal(ValueError, [classifier().fit(X, y)], lambda model: model.partial_fit(X[:, :1], y))


def test_a_model_goes_on_learning_after_a_refusal(stored):
    model, undisturbed = pickle.loads(stored), pickle.loads(stored)
    with pytest.raises(ValueError, match="expecting 2 features"):
        model.partial_fit(MORE[:, :1], LABELS)
    for one in (model, undisturbed):
        one.partial_fit(MORE, LABELS)
    assert_array_equal(model.predict_proba(MORE), undisturbed.predict_proba(MORE))
