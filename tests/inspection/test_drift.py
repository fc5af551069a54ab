"""Drift: what moved, what it does, and what is nothing but chance; the profile that model files keep."""

from __future__ import annotations

import copy
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import ks_2samp

import rflaf
from rflaf import InvalidParameterError, RFLAFClassifier, RFLAFRegressor
from rflaf.cli import app as cli
from rflaf.inspection.drift import check_drift
from rflaf.model.profile import LEVELS, Profile

seeds = st.integers(0, 2**32 - 1)


def houses(n_rows: int, seed: int) -> pd.DataFrame:
    """Prices by area, age and district; the noise grows with the area."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "area": rng.uniform(50, 150, n_rows),
            "age": rng.uniform(0, 80, n_rows),
            "district": rng.choice(["north", "south", "west"], n_rows),
        }
    )
    mean = 3 * frame["area"] + 40 * (frame["district"] == "north")
    return frame.assign(price=mean + 0.2 * frame["area"] * rng.standard_normal(n_rows))


@pytest.fixture(scope="module")
def model():
    return RFLAFRegressor(20, directions="random", random_state=0).fit(houses(600, 0), "price")


def test_the_same_law_is_no_drift(model):
    new = houses(500, 1)
    for targets in (None, new["price"]):
        assert check_drift(model, new, targets).reasons() == []


def test_a_column_that_moves_is_named_with_what_it_does(model):
    new = houses(500, 1)
    drift = check_drift(model, new.assign(area=new["area"] + 40))
    first = drift.columns[0]
    assert first.name == "area"
    assert first.moved
    assert not any(column.moved for column in drift.columns[1:])
    assert first.distance == pytest.approx(0.4, abs=0.07)
    sizes = 40 * 3 / (np.quantile(houses(600, 0)["price"], [0.15, 0.85]) @ [-0.5, 0.5])
    assert first.effect == pytest.approx(sizes, rel=0.35)
    assert "column 'area' moved" in drift.reasons()[0]


def test_a_column_without_effect_may_move(model):
    new = houses(500, 1)
    drift = check_drift(model, new.assign(age=new["age"] * 0.8))
    age = next(column for column in drift.columns if column.name == "age")
    assert age.moved
    assert age.effect < 0.1
    assert drift.reasons() == []


def test_shares_of_levels_and_levels_never_seen_are_found(model):
    new = houses(500, 1)
    drift = check_drift(model, new.assign(district=np.where(np.arange(500) % 5 == 0, "harbour", "north")))
    district = next(column for column in drift.columns if column.name == "district")
    assert district.moved
    assert district.unseen == ("harbour",)
    assert district.unseen_share == pytest.approx(0.2)
    assert any("levels that the fit did not have: harbour" in reason for reason in drift.reasons())


def test_the_error_is_measured_or_expected(model):
    new = houses(800, 1)
    large = new[new["area"] > 125]
    expected = check_drift(model, large)
    assert expected.expected > 1.2
    assert np.isnan(expected.error)
    measured = check_drift(model, new.assign(price=new["price"] + 100), new["price"] + 100)
    assert measured.ratio > 2
    assert any("as measured" in reason for reason in measured.reasons())


def test_rows_outside_the_range_are_counted(model):
    new = houses(400, 1)
    drift = check_drift(model, new.assign(area=np.where(np.arange(400) < 100, 900.0, new["area"])))
    assert drift.outside == pytest.approx(0.25, abs=0.02)
    assert any("outside the range" in reason for reason in drift.reasons())


@pytest.mark.parametrize("start", ["2024-01-01", "2023-08-01"], ids=["one year", "across New Year"])
def test_dates_after_the_fit_are_outside_though_the_model_reads_none_further(start):
    frame = houses(300, 0).assign(sold=pd.Timestamp(start) + pd.to_timedelta(np.arange(300), unit="D"))
    dated = RFLAFRegressor(10, directions="random", random_state=0).fit(frame, "price")
    later = frame.assign(sold=frame["sold"] + pd.Timedelta(days=3 * 365 + 1))  # in the same seasons
    assert check_drift(dated, frame).outside == 0
    drift = check_drift(dated, later)
    sold = next(column for column in drift.columns if column.name == "sold")
    assert drift.outside == sold.outside == 1
    area = next(column for column in drift.columns if column.name == "area")
    assert area.effect < 0.02  # has not moved: its effect is not that of the dates


def test_dates_of_the_rows_looked_at_are_those_of_a_table_of_them(monkeypatch):
    frame = houses(300, 0).assign(sold=pd.Timestamp("2022-01-01") + pd.to_timedelta(np.arange(300) * 3, unit="D"))
    dated = RFLAFRegressor(10, directions="random", random_state=0).fit(frame, "price")
    later = frame.assign(sold=frame["sold"] + pd.Timedelta(days=300))
    monkeypatch.setattr("rflaf.inspection.drift._MOST_ROWS", 50)
    few = later.iloc[np.linspace(0, 299, 50).astype(int)]
    assert check_drift(dated, later, later["price"]) == check_drift(dated, few, few["price"])
    first, last = frame["sold"].min(), frame["sold"].max()
    assert check_drift(dated, few).outside == np.mean(few["sold"] > last + 0.05 * (last - first)) > 0.1


def test_classifiers_and_arrays_are_checked_too():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(400) > 0, "yes", "no")
    settings = {"curves": False, "alpha": 1e-2, "random_state": 0, "n_jobs": 1}
    model = RFLAFClassifier(4, **settings).fit(X, y)
    new = rng.standard_normal((400, 3))
    labels = np.where(new[:, 0] > 0, "yes", "no")
    assert check_drift(model, new, labels).reasons() == []
    moved = check_drift(model, new + np.array([0, 0, 2]), np.where(new[:, 0] > 0, "no", "yes"))
    assert next(column for column in moved.columns if column.moved).name == "x2"
    assert moved.ratio > 2


def test_a_saved_model_finds_the_same(model, tmp_path):
    rflaf.save(model, tmp_path / "model.rflaf")
    new = houses(300, 2).assign(age=30.0)
    found = [check_drift(one, new, new["price"]) for one in (model, rflaf.load(tmp_path / "model.rflaf"))]
    assert found[0] == found[1]


def test_files_of_earlier_releases_keep_no_profile(model):
    old = copy.copy(model)
    old._profile = None
    with pytest.raises(InvalidParameterError, match=r"must keep quantiles of the columns.*Fit it anew"):
        check_drift(old, houses(30, 1))


@given(seeds, st.integers(50, 300))
def test_distances_are_those_of_kolmogorov_and_smirnov_up_to_the_levels_kept(seed, n_rows):
    rng = np.random.default_rng(seed)
    known, new = rng.standard_normal((500, 2)), rng.standard_normal((n_rows, 2)) * [1, 2] + [0.5, 0]
    found = Profile.of(known, known).distances(new)
    exact = [ks_2samp(known[:, k], new[:, k]).statistic for k in range(2)]
    assert np.all(found <= np.array(exact) + 1e-9)
    assert_allclose(found, exact, atol=0.035)


@given(seeds)
def test_columns_moved_back_have_the_law_of_the_fit(seed):
    rng = np.random.default_rng(seed)
    known = np.column_stack([rng.exponential(size=400), rng.random(400) < 0.3]).astype(float)
    new = np.column_stack([rng.normal(5, 2, 300), rng.random(300) < 0.8]).astype(float)
    profile = Profile.of(known, known)
    moved = profile.mapped_back(new, np.arange(2), rng)
    assert np.all(profile.distances(moved) < 0.03)
    assert_array_equal(np.argsort(moved[:, 0], kind="stable"), np.argsort(new[:, 0], kind="stable"))
    assert LEVELS[0] == 0


def test_the_command_has_an_exit_code(tmp_path, capsys):
    paths = {name: str(tmp_path / name) for name in ("old.csv", "same.csv", "moved.csv", "model.rflaf")}
    houses(400, 0).to_csv(paths["old.csv"], index=False)
    houses(300, 1).to_csv(paths["same.csv"], index=False)
    houses(300, 1).drop(columns="price").assign(area=300.0).to_csv(paths["moved.csv"], index=False)
    settings = ["--width", "5", "--set", "directions=random"]
    assert cli.run(["fit", paths["old.csv"], "--target", "price", "--out", paths["model.rflaf"], *settings]) == 0
    capsys.readouterr()
    assert cli.run(["check", paths["model.rflaf"], paths["same.csv"]]) == 0
    said = capsys.readouterr().out
    assert "no drift that matters" in said
    assert "mean loss (squared): " in said
    assert cli.run(["check", paths["model.rflaf"], paths["moved.csv"], "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["drifted"]
    assert found["columns"][0]["name"] == "area"
    assert cli.run(["check", paths["model.rflaf"], paths["same.csv"], "--limit", "0"]) == 2


# Intervals in the report


def report_of(model, X, y, path):
    rflaf.report.write_report(model, X, y, path)
    return path.read_text()


@pytest.mark.slow
def test_the_report_says_how_many_targets_intervals_and_sets_hold(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (300, 2))
    y = X[:, 0] + 0.3 * rng.standard_normal(300)
    model = RFLAFRegressor(4, directions="random", random_state=0).fit(X[:150], y[:150])
    limits = model.predict_interval(X[150:], 0.9)
    inside = np.mean((limits[:, 0] <= y[150:]) & (y[150:] <= limits[:, 1]))
    assert f"those of 90% hold {100 * inside:.0f}% of the targets" in report_of(model, X[150:], y[150:], tmp_path / "a")


def test_a_small_fit_and_many_rows_like_it_are_no_drift():
    alarms = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((3000, 2))
        y = X[:, 0] + rng.standard_normal(3000)
        model = RFLAFRegressor(3, directions="random", alpha=0.01, random_state=0).fit(X[:60], y[:60])
        drift = check_drift(model, X[60:], y[60:])
        alarms += any("the error is" in reason for reason in drift.reasons())
    assert alarms <= 2  # twelve and more where the error of the fit was taken for exact
