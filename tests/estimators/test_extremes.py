"""Extreme finite values: a model that is right, or an error that tells rule, value and remedy; never NaN."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from rflaf import RFLAFClassifier, RFLAFRegressor
from rflaf.errors import InvalidParameterError
from rflaf.functions.losses import Poisson
from rflaf.rows.moments import ColumnMoments

rng = np.random.default_rng(0)
X = rng.standard_normal((80, 3))
F = np.sin(2 * X[:, 0]) + X[:, 1]
COUNTS = rng.poisson(np.exp(0.5 * F)) + 1.0
LARGEST = np.finfo(float).max
MODES = {
    "refined": lambda kind, **others: kind(3, random_state=0, n_jobs=1, **others),
    "random": lambda kind, **others: kind(3, directions="random", random_state=0, n_jobs=1, **others),
    "shared": lambda kind, **others: kind(
        3, directions="random", activation="shared", random_state=0, n_jobs=1, **others
    ),
}
each_mode = pytest.mark.parametrize("mode", MODES)
each_fit = pytest.mark.parametrize("mode", [pytest.param("refined", marks=pytest.mark.slow), "random", "shared"])
REGRESSIONS = ("squared", "huber", "quantile", "poisson")


@each_fit
def test_the_unit_of_the_weights_has_no_effect_under_any_loss(mode):
    models = [(MODES[mode](RFLAFRegressor, loss=loss), COUNTS) for loss in REGRESSIONS]
    models += [(MODES[mode](RFLAFClassifier, loss=loss), F > 0) for loss in ("log_loss", "squared_hinge")]
    for model, y in models:
        plain = clone(model).fit(X, y).model_.decision(X)
        for weight in (LARGEST, 5e-324):
            weighted = model.fit(X, y, sample_weight=np.full(len(X), weight)).model_.decision(X)
            np.testing.assert_allclose(weighted, plain, rtol=1e-12)


@pytest.mark.parametrize("weight", [1e-15, 1e15])
@pytest.mark.parametrize("loss", REGRESSIONS)
def test_weights_at_the_limits_give_a_model(weight, loss):
    model = MODES["random"](RFLAFRegressor, loss=loss, alpha=1e-3).fit(X, COUNTS, np.full(len(X), weight))
    plain = MODES["random"](RFLAFRegressor, loss=loss, alpha=1e-3).fit(X, COUNTS)
    np.testing.assert_allclose(model.predict(X), plain.predict(X), rtol=1e-12)


@each_mode
@pytest.mark.parametrize("loss", ["squared", "huber", "quantile"])
def test_targets_whose_square_overflows_are_refused(mode, loss):
    for y in (np.where(F > 0, LARGEST, -LARGEST), np.where(np.arange(len(X)) == 3, LARGEST, 0.0), F * 1e200):
        with pytest.raises(InvalidParameterError, match=r"variance .*an overflow in column 0 of y.* Divide columns"):
            MODES[mode](RFLAFRegressor, loss=loss).fit(X, y)


@each_mode
@pytest.mark.parametrize("scale", [1e-200, 1e-310])
def test_a_variation_whose_square_underflows_is_refused_and_not_taken_for_none(mode, scale):
    small = X * [1, 1, scale]
    for rows, y, place in ((X, F * scale, "column 0 of y"), (small, F, "column 2 of X")):
        with pytest.raises(InvalidParameterError, match=rf"spread of every column .* {place}.* Multiply the column"):
            MODES[mode](RFLAFRegressor).fit(rows, y)
    with pytest.raises(InvalidParameterError, match="column 2 of X"):
        MODES[mode](RFLAFRegressor).fit(sp.csr_array(small), F)


def test_a_constant_column_of_any_size_stays_a_constant():
    for size in (0.0, 5e-324, 1e-310, 1e-200, 0.1, 1e149):
        dense = ColumnMoments.from_rows(np.full((50, 1), size), None)
        sparse = ColumnMoments.from_rows(sp.csr_array(np.full((50, 1), size)), None)
        assert dense.scale == sparse.scale == 0
    model = MODES["random"](RFLAFRegressor).fit(np.c_[X, np.full(len(X), 1e-300)], F)
    assert np.isfinite(model.predict(np.c_[X, np.full(len(X), 1e-300)])).all()


def test_small_values_in_some_rows_of_a_column_of_usual_spread_are_nothing():
    rows = np.concatenate([np.full(50, 1e-200), np.zeros(50), np.arange(10.0)])[:, None]
    parts = ColumnMoments.from_rows(rows[:100], None)
    parts += ColumnMoments.from_rows(rows[100:], None)
    np.testing.assert_allclose(parts.scale, rows.std(axis=0))


@each_fit
def test_large_counts_are_predicted_as_large(mode):
    ordinary = MODES[mode](RFLAFRegressor, loss="poisson").fit(X, COUNTS).predict(X)
    for size in (1e14, 1e20, 1e33):
        large = MODES[mode](RFLAFRegressor, loss="poisson").fit(X, size * COUNTS).predict(X)
        np.testing.assert_allclose(large / size, ordinary, rtol=1e-3)


@pytest.mark.parametrize("y", [np.arange(80).astype("datetime64[D]"), np.arange(80).astype("timedelta64[s]")])
def test_dates_are_no_targets(y):
    with pytest.raises(InvalidParameterError, match=r"targets of a regression must be numbers; got .* Subtract a date"):
        MODES["random"](RFLAFRegressor).fit(X, y)


def test_counts_that_cannot_be_scaled_are_refused():
    with pytest.raises(InvalidParameterError, match=r"counts must be at most 1e\+34.* Divide them"):
        MODES["random"](RFLAFRegressor, loss="poisson").fit(X, 1e35 * COUNTS)
    with pytest.raises(InvalidParameterError, match="without an intercept the mean count must be at most"):
        MODES["random"](RFLAFRegressor, loss="poisson", fit_intercept=False).fit(X, 1e12 * COUNTS)


def test_a_predicted_count_is_a_number_in_single_precision():
    counts = Poisson().mean(np.array([[1e4]], np.float32))
    assert np.isfinite(counts.astype(np.float32)).all()


@pytest.mark.parametrize("bandwidth", [1e-300, 1e-13, 1e101])
def test_a_bandwidth_beyond_reason_is_refused(bandwidth):
    with pytest.raises(InvalidParameterError, match=r"bandwidth must be .* from 1e-12 to 1e100"):
        MODES["random"](RFLAFRegressor, bandwidth=bandwidth).fit(X, F)


@each_fit
@pytest.mark.parametrize("setting", [{"bandwidth": 1e-12}, {"bandwidth": 1e100}, {"alpha": 1e-300}, {"alpha": 1e30}])
def test_settings_at_their_limits_give_a_model_without_a_warning(mode, setting):
    for loss in REGRESSIONS:
        model = MODES[mode](RFLAFRegressor, loss=loss, **setting).fit(X, COUNTS)
        assert np.isfinite(model.predict(X)).all()
