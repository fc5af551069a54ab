"""Intervals and sets of labels: their coverage, nesting, width by row, and where they are refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import rflaf
from rflaf import InvalidParameterError, RFLAFClassifier, RFLAFRegressor
from rflaf.model.intervals import Radii
from rflaf.training.calibration import bands_of, constant_spread, fit_spread_apart

QUICK = {"curves": False, "alpha": 2e-2, "random_state": 0, "n_jobs": 1}
COVERAGES = [0.5, 0.8, 0.9, 0.95]
KINDS = {
    "refined": lambda: RFLAFRegressor(20, **QUICK),
    "convex": lambda: RFLAFRegressor.convex(20, pool_size=200, random_state=0),
    "paper": lambda: RFLAFRegressor.paper(20, pool_size=100, random_state=0),
    "shared": lambda: RFLAFRegressor(30, directions="random", activation="shared", random_state=0),
}


def fanned_rows(n_rows: int, seed: int = 0):
    """Four columns, a target whose noise grows with the third, and the standard deviation of that noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n_rows, 4))
    size = 0.1 + np.abs(X[:, 2])
    return X, np.sin(X[:, 0]) + X[:, 1] + size * rng.standard_normal(n_rows), size


X, Y, SIZE = fanned_rows(800)
X_NEW, Y_NEW, SIZE_NEW = fanned_rows(4000, seed=1)


@pytest.fixture(scope="module", params=KINDS)
def fitted(request):
    return KINDS[request.param]().fit(X, Y)


@pytest.fixture(scope="module")
def refined():
    return KINDS["refined"]().fit(X, Y)


def shares_inside(limits, y):
    return np.mean((limits[..., 0] <= y[:, None]) & (y[:, None] <= limits[..., 1]), axis=0)


def test_intervals_hold_their_share_of_new_targets(fitted):
    assert_allclose(shares_inside(fitted.predict_interval(X_NEW, COVERAGES), Y_NEW), COVERAGES, atol=0.04)


def test_the_width_follows_the_noise_and_so_does_the_deviation(fitted):
    width = np.ptp(fitted.predict_interval(X_NEW), axis=1)
    deviation = fitted.predict(X_NEW, return_std=True)[1]
    for found in (width, deviation):
        assert np.corrcoef(found, SIZE_NEW)[0, 1] > 0.85
    quiet, loud = SIZE_NEW < 0.6, SIZE_NEW > 1.6
    assert_allclose(np.sqrt(np.mean(deviation[loud] ** 2)), np.sqrt(np.mean(SIZE_NEW[loud] ** 2)), rtol=0.25)
    assert np.median(deviation[quiet]) < 0.4 * np.median(deviation[loud])
    for rows in (quiet, loud):
        assert_allclose(shares_inside(fitted.predict_interval(X_NEW[rows], [0.9]), Y_NEW[rows]), 0.9, atol=0.07)


def test_intervals_are_nested_around_the_prediction(fitted):
    limits, prediction = fitted.predict_interval(X_NEW[:200], COVERAGES), fitted.predict(X_NEW[:200])
    assert np.all(np.diff(limits[..., 0], axis=1) <= 0)
    assert np.all(np.diff(limits[..., 1], axis=1) >= 0)
    assert np.all(limits[:, 0, 0] <= prediction)
    assert np.all(prediction <= limits[:, 0, 1])
    assert_array_equal(fitted.predict_interval(X_NEW[:200], 0.8), limits[:, 1])


def test_saved_models_answer_the_same(fitted, tmp_path):
    rflaf.save(fitted, tmp_path / "model.rflaf")
    again = rflaf.load(tmp_path / "model.rflaf")
    assert_array_equal(again.predict_interval(X_NEW, COVERAGES), fitted.predict_interval(X_NEW, COVERAGES))
    assert_array_equal(again.predict(X_NEW, return_std=True)[1], fitted.predict(X_NEW, return_std=True)[1])


@given(st.integers(1, 60), st.floats(0.01, 0.99), st.integers(0, 2**32 - 1))
def test_the_radius_is_the_order_statistic_of_split_conformal_prediction(n_rows, coverage, seed):
    scores = np.random.default_rng(seed).standard_normal(n_rows)
    rank = int(np.ceil((n_rows + 1) * coverage * (1 - 1e-12)))
    expected = np.sort(scores)[rank - 1] if rank <= n_rows else np.inf
    assert Radii.of(scores[:, None], np.ones(n_rows)).at(coverage)[0] == expected


@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.lists(st.floats(0.01, 0.99), min_size=2, max_size=5))
def test_radii_rise_with_the_coverage_whatever_the_weights(n_rows, seed, levels):
    rng = np.random.default_rng(seed)
    radii = Radii.of(rng.standard_normal((n_rows, 2)), rng.uniform(0.1, 3, n_rows))
    found = np.array([radii.at(level) for level in sorted(levels)])
    assert np.all(found[1:] >= found[:-1])


def test_many_scores_are_thinned_on_the_safe_side():
    scores = np.random.default_rng(0).exponential(size=(20_000, 1))
    radii = Radii.of(scores, np.ones(20_000))
    assert radii.levels.size < 1100
    for level in (0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999):
        assert level <= np.mean(scores <= radii.at(level)) <= level + 1.1e-3


def test_calibration_covers_as_the_theorem_says_for_every_model_and_law():
    """The mean over draws of both the rows and the test row lies between c and c + 1 / (n + 1)."""
    rng = np.random.default_rng(0)
    n_rows, coverage, hits = 19, 0.8, []
    model = RFLAFRegressor(3, directions="random", random_state=0).fit(rng.standard_normal((40, 1)), rng.random(40))
    for _ in range(400):
        rows = rng.standard_normal((n_rows + 50, 1))
        y = np.exp(2 * rng.standard_normal(n_rows + 50)) * (rows[:, 0] > 0)  # nothing like the rows of the fit
        model.calibrate(rows[:n_rows], y[:n_rows])
        hits.append(shares_inside(model.predict_interval(rows[n_rows:], [coverage]), y[n_rows:]))
    error = np.std(hits) / np.sqrt(len(hits))
    assert coverage - 3 * error <= np.mean(hits) <= coverage + 1 / (n_rows + 1) + 3 * error + 0.03  # ties at zero


@pytest.mark.slow
def test_thirty_rows_are_covered_in_the_mean():
    shares = []
    for seed in range(8):
        rows, y, _ = fanned_rows(30, seed=100 + seed)
        model = RFLAFRegressor(8, **QUICK).fit(rows, y)
        shares.append(shares_inside(model.predict_interval(X_NEW, [0.8]), Y_NEW))
    assert_allclose(np.mean(shares), 0.8, atol=0.06)


def test_too_few_rows_for_a_coverage_give_the_whole_line():
    model = RFLAFRegressor(3, random_state=0).fit(X[:12], Y[:12])
    limits = model.predict_interval(X_NEW[:3], [0.9, 0.99])
    assert np.isfinite(limits[:, 0]).all()
    assert np.isinf(limits[:, 1]).all()


def test_columns_that_tell_the_noise_are_found_among_many():
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((600, 40))
    y = rows[:, 0] + np.exp(rows[:, 33]) * rng.standard_normal(600)
    spread = RFLAFRegressor.convex(10, pool_size=50, random_state=0).fit(rows, y)._bands.spread
    assert 33 in spread.columns
    assert spread.columns.size <= 15


def test_errors_that_are_the_same_everywhere_have_one_spread():
    rng = np.random.default_rng(3)
    rows = rng.uniform(-2, 2, (500, 2))
    model = RFLAFRegressor.convex(10, pool_size=50, random_state=0).fit(rows, rows[:, 0] + rng.standard_normal(500))
    size = model._bands.spread.at(rows, model.model_.decision(rows))
    assert size.max() / size.min() < 1.6


def test_one_row_with_errors_far_larger_leaves_the_deviation_of_the_others():
    rng = np.random.default_rng(0)
    scores, size, weight = rng.standard_normal((500, 1)), np.ones((500, 1)), np.ones(500)
    before = bands_of(scores, size, weight, constant_spread(1), symmetric=True)
    size[0] = 1e6
    after = bands_of(scores, size, weight, constant_spread(1), symmetric=True)
    assert_allclose(before.typical, 1, rtol=1e-12)
    usual = np.sqrt(np.mean((scores * size) ** 2)) / after.typical  # the deviation of a row whose errors have size one
    assert before.deviation / 1.5 <= usual <= before.deviation * 1.01
    assert after.deviation == pytest.approx(before.deviation)


def test_counts_have_limits_of_at_least_zero():
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.exp(0.5 * X[:, 0]))
    limits = RFLAFRegressor(10, loss="poisson", **QUICK).fit(X, counts).predict_interval(X_NEW, 0.9)
    new = rng.poisson(np.exp(0.5 * X_NEW[:, 0]))
    assert limits.min() == 0
    assert 0.87 < np.mean((limits[:, 0] <= new) & (new <= limits[:, 1])) < 0.97


def test_a_quantile_is_wrapped_as_evenly_as_a_mean():
    model = RFLAFRegressor(10, loss="quantile", quantile=0.8, **QUICK).fit(X, Y)
    limits = model.predict_interval(X_NEW, 0.8)
    assert_allclose([np.mean(limits[:, 0] > Y_NEW), np.mean(limits[:, 1] < Y_NEW)], 0.1, atol=0.04)


def test_several_outputs_have_intervals_each():
    targets = np.column_stack([Y, 3 * X[:, 1] + np.random.default_rng(5).standard_normal(len(X))])
    model = RFLAFRegressor(20, directions="random", random_state=0).fit(X, targets)
    limits = model.predict_interval(X_NEW[:30], COVERAGES)
    assert limits.shape == (30, 2, 4, 2)
    assert model.predict_interval(X_NEW[:30]).shape == (30, 2, 2)


def test_frames_files_and_sparse_rows_have_the_same_intervals(refined, tmp_path):
    names = list("abcd")
    model = KINDS["convex"]().fit(pd.DataFrame(X, columns=names).assign(y=Y), "y")
    frame = pd.DataFrame(X_NEW[:50], columns=names)
    frame.to_parquet(tmp_path / "rows.parquet")
    expected = model.predict_interval(frame, COVERAGES)
    assert_allclose(model.predict_interval(str(tmp_path / "rows.parquet"), COVERAGES), expected)
    dense = refined.predict_interval(X_NEW[:50], COVERAGES)
    assert_allclose(refined.predict_interval(sp.csr_array(X_NEW[:50]), COVERAGES), dense)
    into = np.empty((50, 2))
    assert refined.predict_interval(X_NEW[:50], out=into) is into


def test_streamed_rows_hold_some_out_too(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=Y)
    frame.to_parquet(tmp_path / "rows.parquet")
    model = RFLAFRegressor(10, directions="random", random_state=0).fit(str(tmp_path / "rows.parquet"), "y")
    assert_allclose(shares_inside(model.predict_interval(X_NEW, COVERAGES), Y_NEW), COVERAGES, atol=0.04)


def test_intervals_are_refused_without_rows_held_out_until_the_model_is_calibrated(refined):
    model = RFLAFRegressor(10, directions="random", loss="huber", random_state=0).fit(X, Y)
    for ask in (
        model.predict_interval,
        lambda rows: model.predict(rows, return_std=True),
        refined.prune(5).predict_interval,
    ):
        with pytest.raises(InvalidParameterError, match=r"errors of rows that the model was not fitted to.*calibrate"):
            ask(X_NEW)
    limits = model.calibrate(X_NEW[:2000], Y_NEW[:2000]).predict_interval(X_NEW[2000:], COVERAGES)
    # Half of the 2,000 rows set the limits; rounding, as of another release of NumPy, draws another half.
    by_chance = np.sqrt(np.multiply(COVERAGES, np.subtract(1, COVERAGES)) * (1 / 1000 + 1 / 2000))
    assert (np.abs(shares_inside(limits, Y_NEW[2000:]) - COVERAGES) < 4 * by_chance).all()
    width = np.ptp(limits[:, 2], axis=1)
    assert np.corrcoef(width, SIZE_NEW[2000:])[0, 1] > 0.8


def test_no_row_both_fits_and_judges_a_spread():
    Z, error, weight = X, (Y - Y.mean())[:, None], np.ones(len(X))
    spread, judges = fit_spread_apart(Z, error, weight, np.arange(3))
    moved = np.where(judges[:, None], 100 * error, error)
    again, same = fit_spread_apart(Z, moved, weight, np.arange(3))
    assert_array_equal(judges, same)
    assert_array_equal(spread.of_inputs(Z), again.of_inputs(Z))


@pytest.mark.parametrize("coverage", [0, 1, 1.5, "0.9", [0.5, 2], [], None])
def test_coverages_outside_zero_and_one_are_refused(refined, coverage):
    with pytest.raises(InvalidParameterError, match=r"coverage must be a number between 0 and 1.*nine rows of ten"):
        refined.predict_interval(X_NEW, coverage)


@pytest.mark.parametrize("targets", [Y_NEW[:1], np.full(10, np.nan), np.ones((10, 3))])
def test_calibration_refuses_targets_unlike_those_of_the_fit(refined, targets):
    with pytest.raises(InvalidParameterError, match="calibrate needs at least 2 rows with 1 finite targets"):
        refined.calibrate(X_NEW[: len(targets)], targets)


# Sets of labels


def labels_of(y):
    return np.array(["low", "mid", "top"])[np.digitize(y, [-0.7, 0.7])]


@pytest.fixture(scope="module", params=["log_loss", "squared_hinge"])
def classifier(request):
    return RFLAFClassifier(15, loss=request.param, **QUICK).fit(X, labels_of(Y))


def test_sets_hold_their_share_of_labels_and_are_nested(classifier, tmp_path):
    sets = classifier.predict_set(X_NEW, COVERAGES)
    at = np.searchsorted(classifier.classes_, labels_of(Y_NEW))
    inside = np.take_along_axis(sets, at[:, None, None], axis=2)[..., 0].mean(axis=0)
    assert np.all(inside > np.array(COVERAGES) - 0.03)
    assert np.all(inside[2:] < np.array(COVERAGES[2:]) + 0.06)
    assert np.all(sets[:, 1:] >= sets[:, :-1])
    assert sets.any(axis=2).all()
    rflaf.save(classifier, tmp_path / "model.rflaf")
    assert_array_equal(rflaf.load(tmp_path / "model.rflaf").predict_set(X_NEW, COVERAGES), sets)


def test_class_weights_do_not_change_what_rows_the_coverage_counts():
    y = (X[:, 0] + 0.3 * np.random.default_rng(0).standard_normal(len(X)) > 1.2).astype(int)
    new = (X_NEW[:, 0] + 0.3 * np.random.default_rng(1).standard_normal(len(X_NEW)) > 1.2).astype(int)
    model = RFLAFClassifier(10, class_weight="balanced", **QUICK).fit(X, y)
    sets = model.predict_set(X_NEW, 0.95)
    assert_allclose(sets[np.arange(len(new)), new].mean(), 0.95, atol=0.03)


@pytest.mark.slow
def test_random_directions_need_rows_to_calibrate_sets():
    model = RFLAFClassifier(15, directions="random", random_state=0).fit(X, labels_of(Y))
    with pytest.raises(InvalidParameterError, match="predict_set needs errors"):
        model.predict_set(X_NEW)
    sets = model.calibrate(X_NEW[:1000], labels_of(Y_NEW[:1000])).predict_set(X_NEW[1000:], 0.9)
    at = np.searchsorted(model.classes_, labels_of(Y_NEW[1000:]))
    assert_allclose(sets[np.arange(3000), at].mean(), 0.9, atol=0.03)


def noisy_levels(n_rows, seed):
    """Rows of eight levels; those of every other one have a noise ten times larger."""
    rng = np.random.default_rng(seed)
    level = rng.integers(0, 8, n_rows)
    frame = pd.DataFrame({"kind": np.array(list("abcdefgh"))[level], "x": rng.standard_normal(n_rows)})
    return frame, frame["x"].to_numpy() + np.where(level % 2, 2.0, 0.2) * rng.standard_normal(n_rows), level


@pytest.mark.slow
def test_the_width_follows_the_levels_of_a_category_whatever_their_order(tmp_path, caplog):
    X, y, _ = noisy_levels(1200, 0)
    with caplog.at_level("INFO", logger="rflaf"):
        model = RFLAFRegressor(10, alpha=1e-3, random_state=0, n_jobs=1).fit(X, y)
    assert not any("solved for" in line and "1200" not in line for line in caplog.messages)  # not as a second fit
    new, y_new, level = noisy_levels(4000, 1)
    limits = model.predict_interval(new)
    width = (limits[:, 1] - limits[:, 0])[:, None]
    by_level = np.array([width[level == k].mean() for k in range(8)])
    assert by_level[1::2].min() > 4 * by_level[::2].max()
    inside = (limits[:, 0] <= y_new) & (y_new <= limits[:, 1])
    assert abs(inside.mean() - 0.9) < 0.02
    assert min(inside[level % 2 == odd].mean() for odd in (0, 1)) > 0.82  # with one width the loud ones have .8
    rflaf.save(model, tmp_path / "m.rflaf")
    assert_array_equal(rflaf.load(tmp_path / "m.rflaf").predict_interval(new), limits)
    again = RFLAFRegressor(10, directions="random", random_state=0).fit(X, y).calibrate(new, y_new)
    assert np.isfinite(again.predict_interval(X)).all()
