"""Groups, time and splitters: which rows are held out while choices are made."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, TimeSeriesSplit

from rflaf import InvalidParameterError, RFLAFClassifier, RFLAFRegressor
from rflaf.estimators.splits import splits_of

RANDOM = {"directions": "random", "activation": "per_component"}


def rows_of_groups(n_groups=12, each=15, seed=0):
    """Rows whose columns tell the group, and whose target has an effect per group that no column explains."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), each)
    place = rng.standard_normal((n_groups, 2))
    X = np.column_stack([rng.standard_normal(group.size), place[group] + 0.05 * rng.standard_normal((group.size, 2))])
    return X, X[:, 0] + 2 * rng.standard_normal(n_groups)[group] + 0.1 * rng.standard_normal(group.size), group


@pytest.mark.parametrize("n_groups", [2, 4, 30])
def test_a_group_is_held_out_whole_and_every_row_once(n_groups):
    groups = np.random.default_rng(0).integers(0, n_groups, 200)
    splits = splits_of(200, None, groups=groups)
    assert len(splits) == min(5, n_groups)
    for kept, held_out in splits:
        assert not set(groups[kept]) & set(groups[held_out])
    np.testing.assert_array_equal(np.sort(np.concatenate([held_out for _, held_out in splits])), np.arange(200))


def test_every_period_is_held_out_from_the_rows_before_it():
    time = np.random.default_rng(0).integers(0, 40, 300).astype("datetime64[D]")
    splits = splits_of(300, None, time=time)
    assert len(splits) == 4
    for kept, held_out in splits:
        assert time[kept].max() < time[held_out].min()
    late = np.concatenate([held_out for _, held_out in splits])
    assert np.unique(late).size == late.size > 200


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, RANDOM], ids=["refined", "random"])
def test_groups_show_the_error_on_other_groups(settings):
    X, y, groups = rows_of_groups()
    careless = RFLAFRegressor(20, random_state=0, n_jobs=1, **settings).fit(X, y)
    careful = RFLAFRegressor(20, random_state=0, n_jobs=1, **settings).fit(X, y, groups=groups)
    new, target, _ = rows_of_groups(seed=1)
    errors = [np.mean((model.predict(new) - target) ** 2) for model in (careless, careful)]
    assert errors[1] < 0.95 * errors[0]
    if not settings:
        assert careless.cv_error_ < 0.2 < careful.cv_error_
        assert careful.cv_error_ == pytest.approx(np.nanmean((careful.oof_prediction_ - y) ** 2))


def test_rows_never_held_out_have_no_prediction():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 2))
    model = RFLAFRegressor(16, random_state=0, n_jobs=1).fit(X, np.sin(X[:, 0]), time=np.arange(150))
    missing = np.isnan(model.oof_prediction_)
    assert missing[:29].all()
    assert not missing[31:].any()


@pytest.mark.parametrize("cv", [KFold(3, shuffle=True, random_state=0), TimeSeriesSplit(3)], ids=repr)
def test_a_splitter_of_scikit_learn_is_taken(cv):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 3))
    labels = np.where(X[:, 0] + 0.3 * rng.standard_normal(120) > 0, "yes", "no")
    classifier = RFLAFClassifier(16, random_state=0, n_jobs=1).fit(X, labels, cv=cv)
    assert classifier.score(X, labels) > 0.8
    held_out = np.unique(np.concatenate([rows for _, rows in cv.split(X)]))
    assert np.isfinite(classifier.oof_prediction_[held_out]).all()


@pytest.mark.slow
def test_groups_pass_through_a_grid_search():
    X, y, groups = rows_of_groups()
    search = GridSearchCV(RFLAFRegressor(random_state=0, n_jobs=1), {"n_components": [8, 16]}, cv=GroupKFold(3))
    assert search.fit(X, y, groups=groups).best_params_["n_components"] in (8, 16)


@pytest.mark.slow
def test_weights_of_zero_leave_rows_out_of_the_splits():
    X, y, groups = rows_of_groups()
    weight = np.ones(len(y))
    weight[::3] = 0
    with_zeros = RFLAFRegressor(16, random_state=0, n_jobs=1).fit(X, y, sample_weight=weight, groups=groups)
    kept = weight > 0
    assert np.isnan(with_zeros.oof_prediction_[~kept]).all()
    assert np.isfinite(with_zeros.oof_prediction_[kept]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"groups": [1, 2]}, r"groups must have one value per row, shape \(180,\); got \(2,\)"),
        ({"groups": np.ones(180)}, "groups must be at least two; got 1"),
        ({"time": np.r_[np.nan, np.arange(179.0)]}, "time must have no gaps; got 1"),
        ({"time": np.ones(180)}, "time must have two rows or more before its last values; got .180 rows, 1 different"),
        (
            {"time": np.arange(180), "cv": KFold(3)},
            "time makes the folds alone: groups and cv must be None beside it; got KFold",
        ),
        ({"cv": 5}, "cv must be a splitter of scikit-learn; got 5"),
    ],
)
def test_splits_that_cannot_be_are_refused(arguments, message):
    X, y, _ = rows_of_groups()
    with pytest.raises(InvalidParameterError, match=message):
        RFLAFRegressor(8, random_state=0).fit(X, y, **arguments)


def test_random_directions_refuse_time_and_groups_under_other_losses():
    X, y, groups = rows_of_groups()
    for arguments, settings in (({"time": y}, {}), ({"groups": groups}, {"loss": "huber"})):
        with pytest.raises(InvalidParameterError, match="groups and cv act under the squared loss, and time does not"):
            RFLAFRegressor(8, **RANDOM, **settings).fit(X, y, **arguments)
    with pytest.raises(
        InvalidParameterError, match="every split of cv must train on all rows that it does not hold out"
    ):
        RFLAFRegressor(8, **RANDOM).fit(X, y, cv=TimeSeriesSplit(3))


@pytest.mark.parametrize("kind", [RFLAFRegressor, RFLAFClassifier])
@pytest.mark.parametrize("n_rows", [12, 40])
def test_groups_and_times_whose_rows_weigh_nothing_hold_nothing_out(kind, n_rows):
    X = np.random.default_rng(0).standard_normal((n_rows, 2))
    y = X[:, 0] > X[:, 1] if kind is RFLAFClassifier else X[:, 0]
    weight, half = (np.arange(n_rows) < n_rows // 2) * 1.0, np.arange(n_rows) // (n_rows // 2)
    for settings in ({}, {"monotone": {0: 1}}):
        model = kind(4, random_state=0, **settings)
        with pytest.raises(InvalidParameterError, match="above zero must be of two groups or times at least"):
            model.fit(X, y, weight, groups=half)
        assert np.isfinite(model.fit(X, y, weight, groups=np.arange(n_rows) // 3).predict(X)).all()
    if n_rows >= 40:
        assert np.isfinite(model.fit(X, y, weight, time=np.arange(n_rows)).predict(X)).all()
