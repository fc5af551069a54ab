"""Dates beyond fits of few months or of a day: what they are told as, and what models answer to them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rflaf import RFLAFRegressor
from rflaf.errors import InvalidParameterError
from rflaf.rows.tables import DateColumn, make_encoding, summarise


@pytest.mark.parametrize(
    ("fit", "new", "expected"),
    [
        (["2023-01-01", "2023-12-31"], ["2024-07-02", "1999-01-01"], ["2023-07-03", "2023-01-01"]),
        (["2024-01-01", "2024-12-31"], ["2023-12-31", "2019-03-01"], ["2024-12-30", "2024-02-29"]),
        (
            ["2023-10-01", "2024-03-31"],
            ["2024-12-24", "2022-02-01", "2022-06-20"],
            ["2023-12-25", "2024-02-01", "2024-03-31"],
        ),
        (["2024-04-01", "2024-09-30"], ["2026-11-01", "2026-02-10"], ["2024-09-30", "2024-04-01"]),
        (
            ["2022-11-01", "2023-12-31"],
            ["2022-12-24", "2024-12-24", "2021-07-01"],
            ["2022-12-24", "2023-12-25", "2023-07-01"],
        ),
    ],
    ids=["a year", "a leap year", "a winter", "a summer", "fourteen months"],
)
def test_later_dates_are_told_in_the_year_of_the_fit(fit, new, expected):
    encoding = make_encoding(summarise(pa.table({"day": fit})))
    days = [encoding.transform(pa.table({"day": texts}))[:, 0].tolist() for texts in (fit, new)]
    assert days == [(np.array(texts, "datetime64[D]").astype(float)).tolist() for texts in (fit, expected)]
    why = "all values are dates; within fifteen months, so later ones are read by their season"
    assert encoding.decisions[0].why == why


def test_dates_within_a_day_are_told_by_the_hour():
    encoding = make_encoding(summarise(pa.table({"time": ["2024-05-01T08:00", "2024-05-01T20:30"]})))
    rows = encoding.transform(pa.table({"time": ["2024-05-01T12:00", "2026-11-02T23:00"]}))
    np.testing.assert_allclose(rows[:, [0, 3]], [[19844, 12], [19844, 23]], rtol=1e-9)
    assert encoding.decisions[0].why == "all values are dates; within a day, so later ones are read by their hour"


@given(first=st.integers(-40_000, 40_000), length=st.integers(1, 457))
def test_dates_of_a_fit_are_their_own_and_those_beyond_of_the_same_season(first, length):
    stamps = np.datetime64("1970-01-01") + np.arange(first, first + length + 1)
    encoding = make_encoding(summarise(pa.table({"day": stamps})))
    found = encoding.transform(pa.table({"day": stamps}))
    assert found[:, 0].tolist() == list(range(first, first + length + 1))
    days, of_year, _ = encoding.transform(
        pa.table({"day": stamps + (365 * 400 + 97)})
    ).T  # when the calendar begins anew
    told = (np.datetime64("1970-01-01") + days.astype(int)).astype("datetime64[D]")
    assert np.array_equal(pd.DatetimeIndex(told).day_of_year, of_year) or length > 360
    assert np.all(np.abs((days - found[:, 0] + 183) % 365.25 - 183) <= 2)
    assert found[:, 0].max() - days.min() <= 366


def test_seasons_and_trends_are_told_apart_in_longer_spans():
    two_years = make_encoding(summarise(pa.table({"day": ["2022-01-01", "2023-12-31"]})))
    assert two_years.transform(pa.table({"day": ["2030-07-01"]})).tolist() == [[19722.0, 182.0, 0.0]]
    assert two_years.decisions[0].why == "all values are dates"


@pytest.mark.parametrize("name", ["hours", "indicator", "by_season"])
def test_what_a_date_is_told_by_is_a_truth_value(name):
    with pytest.raises(InvalidParameterError, match=f"{name} must be True or False; got 1"):
        DateColumn("t", 0.0, **{"hours": False, "indicator": False, name: 1})


def sales(first, season, trend, seed):
    """800 sales within the year from ``first`` on, by season, trend and size, with noise of .3."""
    rng = np.random.default_rng(seed)
    day, size = rng.integers(0, 365, 800), rng.standard_normal(800)
    sold = pd.Timestamp(first) + pd.to_timedelta(day, unit="D")
    by_date = season * np.sin(2 * np.pi * sold.day_of_year / 365) + trend * day / 365
    return pd.DataFrame({"sold": sold, "size": size, "sales": by_date + size + 0.3 * rng.standard_normal(800)})


@pytest.mark.slow
@pytest.mark.parametrize("first", ["2023-01-01", "2022-07-01"], ids=["calendar year", "across New Year"])
def test_a_season_that_was_seen_once_comes_again(first):
    rows = sales(first, season=5, trend=0, seed=0)
    model = RFLAFRegressor(random_state=0).fit(rows, "sales")
    assert model.score(sales(first, season=5, trend=0, seed=1), "sales") > 0.98
    assert model.score(rows.assign(sold=rows["sold"] + pd.DateOffset(years=1)), "sales") > 0.98
    assert model.score(rows.assign(sold=rows["sold"] - pd.DateOffset(years=3)), "sales") > 0.98


@pytest.mark.slow
@pytest.mark.parametrize("first", ["2023-01-01", "2022-07-01"], ids=["calendar year", "across New Year"])
def test_a_trend_within_a_year_is_followed_and_not_beyond(first):
    rows = sales(first, season=0, trend=5, seed=0)
    model = RFLAFRegressor(random_state=0).fit(rows, "sales")
    assert model.score(sales(first, season=0, trend=5, seed=1), "sales") > 0.96
    later = rows.assign(sold=rows["sold"] + pd.DateOffset(years=1))
    assert np.corrcoef(model.predict(later), model.predict(rows))[0, 1] > 0.99


@pytest.mark.slow
def test_the_hours_of_a_day_come_again_the_next():
    rng = np.random.default_rng(0)
    minute = rng.integers(0, 1440, 800)
    time = pd.Timestamp("2024-05-31") + pd.to_timedelta(minute, unit="min")
    rows = pd.DataFrame({"time": time, "load": np.sin(minute / 1440 * 2 * np.pi) + 0.1 * rng.standard_normal(800)})
    model = RFLAFRegressor(random_state=0).fit(rows, "load")
    assert model.score(rows, "load") > 0.95
    assert np.array_equal(model.predict(rows.assign(time=time + pd.Timedelta(days=7))), model.predict(rows))


@pytest.mark.parametrize(("year", "days"), [("-9000", "-4.00671e"), ("12000", "3.66338e")])
def test_dates_beyond_those_that_arrow_tells_apart_are_refused_with_their_column(year, days):
    paid = np.resize(np.array(["2020-01-01", f"{year}-01-01"], "datetime64[s]"), 60)
    with pytest.raises(InvalidParameterError, match=f"dates of column 'paid' must be at most 3e.06 days.*{days}"):
        RFLAFRegressor(3, directions="random").fit(pd.DataFrame({"paid": paid}), np.arange(60))
