"""Intervals and sets after `calibrate`, number for number: order statistics of errors and of scores of labels."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rflaf import InvalidParameterError, RFLAFClassifier, RFLAFRegressor
from rflaf.estimators.intervals import coverages_of
from rflaf.training.calibration import candidates, fit_spread_apart

RNG = np.random.default_rng(0)
X, X_NEW = RNG.standard_normal((60, 3)), RNG.standard_normal((39, 3))
Y = X @ [[1.0, 2.0], [0.0, 1.0], [-1.0, 0.0]] + 0.3 * RNG.standard_normal((60, 2))
Y_NEW = X_NEW @ [[1.0, 2.0], [0.0, 1.0], [-1.0, 0.0]] + RNG.standard_normal((39, 2))
FEW = {"directions": "random", "alpha": 1e-2, "random_state": 0, "n_jobs": 1}


def regressor(y=Y[:, 0], **given):
    model = RFLAFRegressor(4, **FEW, **given).fit(X, y)
    model._bands = None  # as after a fit without rows held out
    return model


def test_coverages_are_a_number_or_a_list():
    assert coverages_of(0.9) == ([0.9], True)
    assert coverages_of([0.9]) == ([0.9], False)
    assert coverages_of(np.array([0.5, 0.8])) == ([0.5, 0.8], False)
    for coverage in (0.0, 1.0, -0.1, 1.1, [0.5, 1.0], [], None, "0.5", [[0.5]], True):
        with pytest.raises(InvalidParameterError, match="between 0 and 1"):
            coverages_of(coverage)


@pytest.mark.parametrize("n_rows", [2, 39])
def test_limits_are_the_prediction_and_the_order_statistic_of_errors(n_rows):
    model = regressor().calibrate(X_NEW[:n_rows], Y_NEW[:n_rows, 0])
    error = np.sort(np.abs(Y_NEW[:n_rows, 0] - model.predict(X_NEW[:n_rows])))
    middle = model.predict(X)
    limits = model.predict_interval(X, [0.5, 0.6])
    assert limits.shape == (60, 2, 2)
    for at, level in enumerate((0.5, 0.6)):
        radius = error[int(np.ceil(level * (n_rows + 1))) - 1]
        assert_allclose(limits[:, at], middle[:, None] + [-radius, radius], rtol=1e-9)
    assert_array_equal(model.predict_interval(X, 0.6), limits[:, 1])
    assert_array_equal(model.predict_interval(X), model.predict_interval(X, 0.9))
    assert np.isinf(model.predict_interval(X, 0.99)).all()


def test_rows_of_no_weight_are_not_counted():
    weight = np.r_[np.ones(19), np.zeros(20)]
    some = regressor().calibrate(X_NEW, Y_NEW[:, 0], weight).predict_interval(X, 0.8)
    assert_array_equal(some, regressor().calibrate(X_NEW[:19], Y_NEW[:19, 0]).predict_interval(X, 0.8))


def test_several_outputs_have_limits_each():
    model = regressor(Y).calibrate(X_NEW, Y_NEW)
    limits, error = model.predict_interval(X, 0.8), np.sort(np.abs(Y_NEW - model.predict(X_NEW)), axis=0)
    assert limits.shape == (60, 2, 2)
    for output in range(2):
        around = model.predict(X)[:, output, None] + [-error[31, output], error[31, output]]
        assert_allclose(limits[:, output], around, rtol=1e-9)
    assert model.predict_interval(X, [0.5, 0.8]).shape == (60, 2, 2, 2)


def test_counts_have_no_limit_below_zero():
    counts = np.random.default_rng(1).poisson(1.0, 99)
    model = RFLAFRegressor(4, loss="poisson", **FEW).fit(X, counts[:60])
    model._bands = None
    limits = model.calibrate(X_NEW, counts[60:]).predict_interval(X, 0.9)
    assert limits[:, 0].min() == 0
    assert model.predict_interval(X, 0.99)[0].tolist() == [0.0, np.inf]


def test_the_spread_of_many_rows_is_that_of_half_of_them_and_stays_at_the_next_calibration():
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((600, 3))
    y = rows[:, 0] - rows[:, 2] + np.exp(rows[:, 1]) * rng.standard_normal(600)
    model = regressor()
    f, columns = model.predict(rows)[:, None], candidates(model._feature_importance)
    assert_array_equal(columns, [0, 1, 2])
    Z = np.column_stack([f, rows])
    spread, judges = fit_spread_apart(Z, y[:, None] - f, np.ones(600), columns)
    assert spread.model is not None
    model.calibrate(rows, y)
    size, scores = spread.of_inputs(Z)[:, 0], np.abs(y - f[:, 0]) / spread.of_inputs(Z)[:, 0]
    for kept in (judges, np.arange(600) < 200):
        of_rows = np.sort(scores[kept])
        radius = of_rows[int(np.ceil(0.8 * (of_rows.size + 1))) - 1]
        limits = model.predict_interval(rows, 0.8)
        assert_allclose(limits, f + np.outer(radius * size, [-1, 1]), rtol=1e-9)
        root = np.sqrt(np.mean(size[kept] ** 2)), np.sqrt(np.mean(scores[kept] ** 2))
        assert_allclose(model._relative_size(rows, f)[:, 0], size / root[0], rtol=1e-9)
        assert_allclose(model._typical_deviation, [root[0] * root[1]], rtol=1e-9)
        model.calibrate(rows[:200], y[:200])


def test_without_errors_the_size_is_one_and_intervals_are_refused():
    model = regressor()
    assert_array_equal(model._relative_size(X, np.zeros((60, 2))), np.ones((60, 2)))
    with pytest.raises(InvalidParameterError, match="Call calibrate"):
        model.predict_interval(X)


@pytest.mark.parametrize("y", [Y_NEW[:1, 0], Y_NEW[:5], np.full(5, np.inf)])
def test_targets_unlike_those_of_the_fit_are_refused(y):
    with pytest.raises(InvalidParameterError):
        regressor().calibrate(X_NEW[: len(y)], y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sets_hold_labels_whose_score_is_at_most_the_order_statistic_and_the_likeliest(n_classes):
    edges = [0.0] if n_classes == 2 else [-0.7, 0.7]
    labels, truth = (np.digitize(y, edges) * 10 for y in (Y[:, 0], Y_NEW[:, 0]))
    model = RFLAFClassifier(4, **FEW).fit(X, labels)
    model._radii = None
    with pytest.raises(InvalidParameterError, match="Call calibrate"):
        model.predict_set(X)
    model.calibrate(X_NEW, truth)
    scores = np.sort(1 - model.predict_proba(X_NEW)[np.arange(39), truth // 10])
    p, sets = model.predict_proba(X), model.predict_set(X, [0.5, 0.8])
    for at, rank in ((0, 20), (1, 32)):
        inside = (1 - p <= scores[rank - 1] + 1e-12) | (p == p.max(axis=1, keepdims=True))
        assert_array_equal(sets[:, at], inside)
    assert_array_equal(model.predict_set(X, 0.8), sets[:, 1])
    assert_array_equal(model.predict_set(X), model.predict_set(X, 0.9))
    assert model.predict_set(X, 0.99).all()
    assert not model.predict_set(X, 1e-6).all(axis=1).any()
    assert (model.predict_set(X, 1e-6).sum(axis=1) == 1).all()


def test_labels_never_seen_are_in_no_set_and_rows_of_no_weight_not_counted():
    labels, truth = np.digitize(Y[:, 0], [0.0]) * 10, np.digitize(Y_NEW[:, 0], [0.0]) * 10
    weight = np.r_[np.ones(19), np.zeros(20)]
    model = RFLAFClassifier(4, **FEW).fit(X, labels)
    some = model.calibrate(X_NEW, truth, weight)._radii
    assert_array_equal(some.radii, model.calibrate(X_NEW[:19], truth[:19])._radii.radii)
    truth[:4], truth[4:8] = 5, 15
    radii = model.calibrate(X_NEW, truth)._radii.radii[:, 0]
    assert_array_equal(np.isinf(radii), np.arange(39) >= 31)
    finite = np.sort(1 - model.predict_proba(X_NEW)[np.arange(8, 39), truth[8:] // 10])
    assert_allclose(radii[:31], finite, rtol=1e-9)
    assert model.predict_set(X, 0.9).all()
