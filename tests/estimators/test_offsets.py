"""Offsets: columns by name, intervals, deviations, scores and later rows beside them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from rflaf import InvalidParameterError, RFLAFRegressor, load, save
from rflaf.inspection.drift import check_drift
from rflaf.inspection.report import render_report
from rflaf.rows.files import Table

N, TRAIN = 900, slice(600)
RANDOM = {"directions": "random", "alpha": 1e-3, "random_state": 0}
SMALL = {"n_components": 8, "random_state": 0, "alpha": 1e-3, "curves": False}


def claims(seed=0, n_rows=N):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.uniform(-1, 1, n_rows), "town": rng.choice(["Rome", "Oslo", "Lima"], n_rows)})
    frame["logs"] = rng.uniform(-2, 3, n_rows)
    frame["claims"] = rng.poisson(np.exp(frame["logs"] + 0.5 + frame["age"])).astype(float)
    return frame


def inputs(frame):
    return frame[["age", "town"]]


@pytest.fixture(scope="module")
def fitted():
    frame = claims()
    return frame, RFLAFRegressor(**SMALL, loss="poisson").fit(frame[TRAIN], "claims", offset="logs")


@pytest.mark.parametrize("loss", ["poisson", "squared"])
def test_columns_by_name_are_arrays(loss):
    frame, rung = claims(), {**RANDOM, "n_components": 6, "loss": loss}
    named = RFLAFRegressor(**rung).fit(frame, "claims", offset="logs")
    alone = RFLAFRegressor(**rung).fit(inputs(frame), frame["claims"], offset=frame["logs"])
    mixed = RFLAFRegressor(**rung).fit(frame.drop(columns="logs"), "claims", offset=frame["logs"].to_numpy())
    expected = alone.predict(inputs(frame), offset=frame["logs"])
    assert named.target_encoding_.offset == "logs"
    assert mixed.target_encoding_.offset == ""
    assert list(named.feature_names_in_) == ["age", "town"]
    for model in (named, mixed):
        assert_allclose(model.predict(frame, offset="logs"), expected)
    assert named.score(frame, "claims", offset="logs") == pytest.approx(
        1 - np.mean((frame["claims"] - expected) ** 2) / np.var(frame["claims"])
    )


def test_several_targets_and_weights_by_name_keep_their_columns():
    frame = claims().assign(more=lambda f: f["claims"] + 1, weight=1.0 + np.arange(N) % 3)
    settings = {**RANDOM, "n_components": 6}
    named = RFLAFRegressor(**settings).fit(frame, ["claims", "more"], "weight", offset="logs")
    y, weight = frame[["claims", "more"]].to_numpy(), frame["weight"].to_numpy()
    alone = RFLAFRegressor(**settings).fit(inputs(frame), y, weight, offset=frame["logs"])
    assert_allclose(named.predict(inputs(frame)), alone.predict(inputs(frame)))


def test_intervals_beside_exposures_cover_small_and_large_ones_alike(fitted):
    frame, model = fitted
    for n_rows, rows in ((300, frame[600:]), (4000, claims(1, 4000))):
        limits = model.predict_interval(rows, 0.9, offset="logs")
        inside = (limits[:, 0] <= rows["claims"]) & (rows["claims"] <= limits[:, 1])
        assert inside.mean() == pytest.approx(0.9, abs=0.02 + 2 * 0.3 / n_rows**0.5)
        if n_rows == 4000:  # an error per unit of exposure would cover 70 % of the small and all of the large
            large = rows["logs"] > 0.5
            assert inside[large].mean() == pytest.approx(0.9, abs=0.05)
            assert inside[~large].mean() == pytest.approx(0.9, abs=0.06)
    nested = model.predict_interval(frame[600:], [0.5, 0.9], offset="logs")
    assert np.all(nested[:, 1, 0] <= nested[:, 0, 0])
    assert np.all(nested[:, 0, 1] <= nested[:, 1, 1])
    assert nested.min() >= 0


def test_a_deviation_grows_as_the_root_of_an_exposure(fitted):
    frame, model = fitted
    rows = frame[600:700]
    mean, deviation = model.predict(rows, return_std=True, offset=np.zeros(100))
    far_mean, far = model.predict(rows, return_std=True, offset=np.full(100, np.log(9.0)))
    assert_allclose(far_mean, 9 * mean)
    assert_allclose(far, 3 * deviation)
    off = (frame["claims"][600:] - model.predict(frame[600:], offset="logs")) / model.predict(
        frame[600:], return_std=True, offset="logs"
    )[1]
    assert 0.8 < np.std(off) < 1.3


def test_rows_without_claims_of_equal_columns_are_observations_of_their_own():
    frame = claims()
    frame["age"] = np.round(frame["age"])
    model = RFLAFRegressor(**SMALL, loss="poisson").fit(frame[TRAIN], "claims", offset="logs")
    rows = claims(1, 3000)
    rows["age"] = np.round(rows["age"])
    rows["claims"] = np.random.default_rng(3).poisson(np.exp(rows["logs"] + 0.5 + rows["age"]))
    low, high = model.predict_interval(rows, 0.8, offset="logs").T
    assert np.mean((low <= rows["claims"]) & (rows["claims"] <= high)) == pytest.approx(0.8, abs=0.05)


def test_an_offset_of_residuals_moves_intervals_and_leaves_deviations():
    frame = claims()
    model = RFLAFRegressor(**SMALL).fit(frame[TRAIN], "claims", offset="logs")
    rest = frame[TRAIN].assign(claims=frame["claims"] - frame["logs"]).drop(columns="logs")
    plain = RFLAFRegressor(**SMALL).fit(rest, "claims")
    off = frame["logs"].to_numpy()
    moved = plain.predict_interval(inputs(frame), [0.5, 0.9]) + off[:, None, None]
    assert_allclose(model.predict_interval(frame, [0.5, 0.9], offset="logs"), moved)
    assert_allclose(model.predict(frame, return_std=True, offset=off)[1], plain.predict(frame, return_std=True)[1])


def test_intervals_without_enough_rows_stay_infinite_beside_an_offset():
    frame = claims(0, 12)
    model = RFLAFRegressor(3, directions="random", loss="poisson", random_state=0).fit(frame, "claims", offset="logs")
    model.calibrate(frame[:5], "claims", offset="logs")
    assert np.isinf(model.predict_interval(frame, 0.99, offset="logs")[:, 1]).all()
    assert (model.predict_interval(frame, 0.99, offset="logs")[:, 0] == 0).all()


def test_calibrated_intervals_hold_beside_weights_and_offsets(fitted):
    frame, _ = fitted
    settings = {**SMALL, "directions": "random", "curves": "auto", "loss": "poisson"}
    model = RFLAFRegressor(**settings).fit(frame[:300], "claims", offset="logs")
    with pytest.raises(InvalidParameterError, match="Call calibrate"):
        model.predict_interval(frame, offset="logs")
    model.calibrate(frame[300:], "claims", offset="logs")
    rows = claims(1, 4000)
    low, high = model.predict_interval(rows, 0.9, offset="logs").T
    assert np.mean((low <= rows["claims"]) & (rows["claims"] <= high)) == pytest.approx(0.9, abs=0.04)


def test_weights_beside_exposures_need_calibration():
    frame = claims()
    weighted = RFLAFRegressor(**SMALL, loss="poisson").fit(frame, "claims", np.full(N, 2.0), offset="logs")
    with pytest.raises(InvalidParameterError, match="Call calibrate"):
        weighted.predict_interval(frame, offset="logs")


def test_drift_and_report_read_the_offset_of_the_table(fitted, tmp_path):
    frame, model = fitted
    rest, y = frame[600:], frame["claims"][600:]
    seen = check_drift(model, rest, y)
    off = frame["logs"][600:].to_numpy()
    f = model(inputs(rest)) + off
    per_unit = np.sum(model.loss_.value(f[:, None], y.to_numpy()[:, None])) / np.sum(np.exp(off))
    assert seen.error == pytest.approx(per_unit)
    assert seen == check_drift(model, inputs(rest), y, offset=rest["logs"])
    assert seen == check_drift(model, rest, "claims")
    assert check_drift(model, inputs(rest)).error != seen.error  # no target, no error
    with pytest.raises(InvalidParameterError, match=r"rows need the offset of the fit|must have the offset"):
        check_drift(model, inputs(rest), y)
    page = render_report(model, rest, y, train=(frame[TRAIN], frame["claims"][TRAIN]))
    assert "All know the offset" in page
    named = render_report(model, rest, "claims", train=(frame[TRAIN], "claims"))
    assert "All know the offset" in named
    assert "prediction without the offset" in page
    with pytest.raises(InvalidParameterError, match="must have the offset of the fit"):
        render_report(model, inputs(rest), y)
    score = f"{np.sqrt(np.mean((model.predict(rest, offset='logs') - y) ** 2)):.3g}"
    assert score in page
    assert score in named
    save(model, tmp_path / "m.rflaf")
    loaded = load(tmp_path / "m.rflaf")
    assert_allclose(loaded.predict_interval(rest, offset="logs"), model.predict_interval(rest, offset="logs"))


def test_later_rows_need_the_offset_of_the_first():
    frame, settings = claims(), {**RANDOM, "n_components": 6}
    model = RFLAFRegressor(**settings).partial_fit(frame[:300], "claims", offset="logs")
    other = RFLAFRegressor(**settings).fit(frame[:300], "claims", offset="logs")
    model.partial_fit(frame[300:], "claims", offset="logs")
    whole = RFLAFRegressor(**settings).partial_fit(inputs(frame[:300]), (frame["claims"] - frame["logs"])[:300])
    whole.partial_fit(inputs(frame[300:]), (frame["claims"] - frame["logs"])[300:])
    assert_allclose(model.predict(inputs(frame)), whole.predict(inputs(frame)))
    with pytest.raises(InvalidParameterError, match=r"need the offset of the fit.*offset='logs'"):
        other.partial_fit(frame[300:], "claims")
    for forgetful in (model.partial_fit, other.score, other.calibrate):
        with pytest.raises(InvalidParameterError, match="need the offset of the fit"):
            forgetful(frame[300:], "claims")


def test_what_an_offset_does_not_go_with_is_refused_in_words(fitted):
    frame, model = fitted
    with pytest.raises(InvalidParameterError, match=r"an offset needs rows in memory.*rflaf fit --offset"):
        RFLAFRegressor().fit(Table("some.csv"), "claims", offset="logs")
    with pytest.raises(InvalidParameterError, match="offset is named where rows are a frame"):
        model.predict(np.zeros((3, 2)), offset="logs")
    with pytest.raises(InvalidParameterError, match="out beside it"):
        model.predict(frame, out=np.zeros(N), offset="logs")
    with pytest.raises((InvalidParameterError, KeyError), match="years"):
        RFLAFRegressor().fit(frame, "claims", offset="years")
    with pytest.raises(InvalidParameterError, match=r"must have the offset of the fit, column 'logs'"):
        model.predict(inputs(frame), offset="logs")
    with pytest.raises(InvalidParameterError, match="the offset 'logs' must be known in every row; got nan"):
        model.predict(frame.assign(logs=frame["logs"].where(frame.index > 3)), offset="logs")


LOGARITHMS = ["poisson", "gamma", "tweedie"]


@pytest.fixture(scope="module", params=LOGARITHMS)
def judged(request):
    frame = claims(n_rows=120).assign(claims=lambda f: f["claims"] + 0.5)
    model = RFLAFRegressor(4, **RANDOM, loss=request.param).fit(frame, "claims", offset="logs")
    return frame, model.calibrate(frame, "claims", offset="logs")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("offset", [-1e300, -1500.0, -700.0, 700.0, 1500.0, 1e300])
def test_offsets_far_out_leak_no_warning_and_keep_the_order(judged, offset):
    frame, model = judged
    limits = model.predict_interval(frame[:2], [0.5, 0.999], offset=[offset] * 2)
    assert not np.isnan(limits).any()
    assert (limits[:, 1, 1] == np.inf).all()
    mean, deviation = model.predict(frame[:2], return_std=True, offset=[offset] * 2)
    assert np.isfinite(mean).all()
    assert (deviation > model.predict(frame[:2], return_std=True)[1] if offset > 0 else deviation < 1e-100).all()


@pytest.mark.filterwarnings("error")
def test_errors_beyond_the_numbers_are_refused_by_calibrate(judged):
    frame, model = judged
    with pytest.raises(InvalidParameterError, match=r"y exp\(-offset\).* Divide the exposures"):
        model.calibrate(inputs(frame), frame["claims"], offset=np.where(frame["age"] > 0, 800.0, -800.0))


@pytest.mark.parametrize(
    ("y", "weight", "rule"),
    [
        (np.full(N, np.nan), None, "targets beside an offset must be finite numbers; got nan"),
        (np.full(N, pd.NA), None, "targets beside an offset must be finite numbers"),
        (np.full(N, "much"), None, "targets of a regression must be numbers; got 'much'"),
        (np.datetime64("2020-01-01") + np.arange(N), None, r"targets of a regression must be numbers; got .datetime64"),
        (np.arange(N), np.ones(5), r"sample_weight must be 900 numbers, one per row; got .shape \(5,\)"),
        (np.arange(N), np.ones((N, 1)), r"sample_weight must be 900 numbers, one per row; got .shape \(900, 1\)"),
        (np.arange(N), np.full(N, np.inf), "sample_weight beside an offset must be finite numbers; got inf"),
    ],
)
def test_targets_and_weights_beside_an_offset_are_refused_as_those_without_one(y, weight, rule):
    frame = claims()
    with pytest.raises(InvalidParameterError, match=rule):
        RFLAFRegressor(4, **RANDOM).fit(inputs(frame), y, weight, offset=frame["logs"])


def test_a_first_chunk_beside_an_offset_is_a_fit_beside_it():
    frame, settings = claims(n_rows=200), {**SMALL, "n_components": 4, "loss": "poisson", "directions": "random"}
    fit = RFLAFRegressor(**settings).fit(frame, "claims", offset="logs")
    begun = RFLAFRegressor(**settings).partial_fit(frame, "claims", offset="logs")
    assert begun.target_encoding_ == fit.target_encoding_
    assert_allclose(begun.predict(frame, offset="logs"), fit.predict(frame, offset="logs"))
    with pytest.raises(InvalidParameterError, match="need the offset of the fit"):
        begun.partial_fit(frame, "claims")


def test_intervals_after_a_first_chunk_know_its_exposures():
    frame = claims()
    fit = RFLAFRegressor(**SMALL, loss="poisson").fit(frame, "claims", offset="logs")
    begun = RFLAFRegressor(**SMALL, loss="poisson").partial_fit(frame, "claims", offset="logs")
    found, expected = (model.predict_interval(frame, offset="logs") for model in (begun, fit))
    assert_allclose(found, expected)
