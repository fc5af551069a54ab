"""Tables of mixed columns: summaries add up, encodings are scikit-learn's, and odd columns are refused."""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from rflaf.errors import InvalidParameterError, MissingExtraError
from rflaf.rows.indicators import indicators
from rflaf.rows.tables import (
    CategoryColumn,
    ColumnSummary,
    DateColumn,
    Dropped,
    Moments,
    NumberColumn,
    TableEncoding,
    TableSummary,
    TargetEncoding,
    find_column,
    make_encoding,
    make_target,
    readings,
    summaries,
    summarise,
)


def mixed(n_rows=300, seed=0):
    """Numbers, categories, dates, truth values and gaps."""
    rng = np.random.default_rng(seed)
    gaps = rng.random(n_rows) < 0.1
    return pd.DataFrame(
        {
            "size": np.where(gaps, np.nan, rng.standard_normal(n_rows) * 3 + 100),
            "count": rng.integers(0, 40, n_rows),
            "pet": rng.choice(["cat", "dog", "cow"], n_rows),
            "sex": rng.choice(["f", "m"], n_rows),
            "city": np.where(rng.random(n_rows) < 0.2, None, rng.choice(["Rome", "Oslo", "Lima"], n_rows)),
            "open": rng.random(n_rows) < 0.3,
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, n_rows), unit="h"),
        }
    )


def test_an_encoding_is_that_of_scikit_learn():
    frame = mixed()
    encoding = make_encoding(summarise(frame))
    codes = encoding.transform(frame[["size", "count", "pet", "sex", "city", "open", "day"]])
    ours = indicators(codes, encoding.level_counts)
    ours = ours[:, ours.any(axis=0)]  # no column of levels that do not occur
    reference = make_column_transformer(
        (SimpleImputer(add_indicator=True), ["size"]),
        ("passthrough", ["count"]),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["pet"]),
        (OneHotEncoder(drop="if_binary", sparse_output=False), ["sex"]),
        (OneHotEncoder(sparse_output=False), ["city"]),
        ("passthrough", ["open"]),
    ).fit_transform(frame.assign(city=frame["city"].fillna("~")))
    n_columns = reference.shape[1]
    np.testing.assert_allclose(ours[:, :n_columns], reference.astype(float), rtol=1e-14)
    day = frame["day"]
    seconds = (day - pd.Timestamp("1970-01-01")) / pd.Timedelta(seconds=1)
    parts = np.column_stack([seconds / 86400, day.dt.day_of_year, day.dt.day_of_week, day.dt.hour])
    np.testing.assert_allclose(ours[:, n_columns:], parts, rtol=1e-12, atol=1e-6)


@pytest.mark.slow
@settings(max_examples=30)
@given(cuts=st.lists(st.integers(0, 300), max_size=5))
def test_any_row_partition_gives_the_same_summary_and_the_same_rows(cuts):
    frame = mixed()
    edges = [0, *sorted(cuts), 300]
    chunks = [frame.iloc[a:b] for a, b in pairwise(edges)]
    total = summarise(chunks[0])
    for chunk in chunks[1:]:
        total = total + summarise(chunk)
    whole = summarise(frame)
    for name, column in whole.columns.items():
        merged = total.columns[name]
        assert (merged.n_rows, merged.n_missing, merged.levels, merged.kind) == (
            column.n_rows, column.n_missing, column.levels, column.kind,
        )  # fmt: skip
        for ours, theirs in ((merged.numbers, column.numbers), (merged.dates, column.dates)):
            assert (ours.count, ours.low, ours.high, ours.whole) == (
                theirs.count,
                theirs.low,
                theirs.high,
                theirs.whole,
            )
            assert ours.mean == pytest.approx(theirs.mean, rel=1e-12)
    encoding = make_encoding(whole)
    parts = [encoding.transform(chunk) for chunk in chunks]
    assert np.array_equal(np.concatenate(parts), encoding.transform(frame))


texts = st.text("0123456789.+-eEinfINFtya x", max_size=6)


@given(values=st.lists(texts, max_size=8))
def test_a_text_is_a_number_where_python_says_so(values):
    found = readings.plain_numbers(pa.array(values, pa.string())).to_pylist()
    for text, number in zip(values, found, strict=True):
        plain = re.fullmatch(readings.NUMBER, text) is not None
        assert (number is not None) == plain, text
        if plain:
            assert number == float(text)


@pytest.mark.slow
@given(values=st.lists(st.from_regex(r"\A(19|20)[0-9]{2}-[01][0-9]-[0-3][0-9]( [0-2][0-9]:[0-5][0-9])?\Z"), max_size=6))
def test_a_text_is_a_date_where_python_says_so(values):
    found = readings.iso_dates(pa.array(values, pa.string())).to_pylist()
    for text, date in zip(values, found, strict=True):
        try:
            assert date == pd.Timestamp(text).to_pydatetime()
        except ValueError:
            assert date is None


def test_a_frame_its_text_and_its_arrow_table_are_encoded_alike():
    frame = mixed()
    as_text = frame.astype(object).where(frame.notna(), "?").map(lambda value: f" {value} ").rename(columns=str)
    encoding = make_encoding(summarise(frame))
    text = make_encoding(summarise(as_text), categories=["open"])
    for name in ("size", "count", "pet", "sex", "city", "day"):
        ours, theirs = (next(c for c in e.columns if c.name == name) for e in (encoding, text))
        assert ours.feature_names == theirs.feature_names
    assert np.allclose(encoding.transform(frame), text.transform(as_text))
    for other in (pa.Table.from_pandas(frame), pl.from_pandas(frame), pa.RecordBatch.from_pandas(frame)):
        assert np.array_equal(encoding.transform(other), encoding.transform(frame))


def test_the_index_of_a_frame_is_no_column():
    frame = mixed().iloc[::3]
    assert list(summarise(frame).columns) == list(frame.columns)


def test_columns_are_found_by_name_and_others_ignored():
    frame = mixed()
    encoding = make_encoding(summarise(frame))
    shuffled = frame[frame.columns[::-1]].assign(extra=1)
    assert np.array_equal(encoding.transform(shuffled), encoding.transform(frame))
    with pytest.raises(InvalidParameterError, match="'pet', 'day' are missing; got"):
        encoding.transform(frame.drop(columns=["pet", "day"]))


def test_an_encoding_survives_json():
    encoding = make_encoding(summarise(mixed().assign(same=1)), missing=("", "-"))
    assert TableEncoding.from_dict(json.loads(json.dumps(encoding.to_dict()))) == encoding


NUMBER = {"kind": "number", "name": "x", "fill": 0.0, "indicator": False}


@pytest.mark.parametrize(
    "columns",
    [
        None,
        [{"kind": "number"}],
        [{"kind": "os.system", "name": "x"}],
        [{**NUMBER, "name": 3}],
        [{**NUMBER, "fill": math.nan}],
        [{**NUMBER, "indicator": 1}],
        [NUMBER, NUMBER],
        [{"kind": "category", "name": "x", "levels": [], "others": False, "missing": False}],
        [{"kind": "date", "name": "x", "fill": 1e300, "hours": False, "indicator": False}],
    ],
)
def test_what_is_no_encoding_is_refused(columns):
    with pytest.raises(InvalidParameterError):
        TableEncoding.from_dict({"columns": columns, "dropped": [], "missing": []})
    with pytest.raises(InvalidParameterError):
        TableEncoding.from_dict({"columns": [NUMBER], "dropped": [["x"]], "missing": []})


def test_missing_values_are_filled_and_told_only_where_they_were_seen():
    seen = NumberColumn("x", 2.5, indicator=True)
    encoding = TableEncoding((seen, NumberColumn("y", -1.0, indicator=False)))
    rows = encoding.transform(pa.table({"x": ["NA", "4"], "y": [None, 1.5]}))
    assert rows.tolist() == [[2.5, 1.0, -1.0], [4.0, 0.0, 1.5]]
    assert encoding.transform(pa.table({"x": [1], "y": [2]}), np.float32).dtype == np.float32


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (CategoryColumn("x", ("a", "b"), False, False), [[0], [1], [0.5], [0.5]]),
        (CategoryColumn("x", ("a", "b"), False, True), [[0], [1], [2], [3]]),
        (CategoryColumn("x", ("a", "b"), True, False), [[0], [1], [2], [3]]),
        (CategoryColumn("x", ("a",), True, True), [[0], [1], [1], [2]]),
    ],
)
def test_levels_never_seen_and_missing_ones_have_their_place(column, expected):
    rows = TableEncoding((column,)).transform(pa.table({"x": ["a", "b", "new", None]}))
    assert rows.tolist() == expected
    assert rows.shape[1] == len(column.feature_names)


def test_rare_levels_share_a_number(monkeypatch):
    monkeypatch.setattr("rflaf.rows.tables.encoding._MOST_LEVELS", 50)
    levels = [f"level {i}" for i in range(60) for _ in range(60 - i + 5)]
    column = make_encoding(summarise(pa.table({"x": levels, "y": range(len(levels))}))).columns[0]
    assert len(column.levels) == 50
    assert column.others
    assert "level 59" not in column.levels
    assert column.n_levels == 52


def test_levels_beyond_those_counted_add_up_to_none(monkeypatch):
    monkeypatch.setattr(summaries, "MOST_COUNTED", 3)
    few, others = (summarise(pa.table({"x": values})) for values in (["a", "b"], ["c", "d"]))
    assert few.columns["x"].levels == {"a": 1, "b": 1}
    assert (few + others).columns["x"].levels is None
    assert (few + others + few).columns["x"].levels is None
    assert summarise(pa.table({"x": list("abcd")})).columns["x"].levels is None


def test_missing_dates_are_the_mean_date():
    table = pa.table({"day": ["2024-01-01", "", "2024-01-03"]})
    encoding = make_encoding(summarise(table))
    assert isinstance(encoding.columns[0], DateColumn)
    assert encoding.feature_names == ("day days", "day day of year", "day day of week", "day missing")
    assert encoding.transform(table)[1].tolist() == [19724.0, 2.0, 1.0, 1.0]


@pytest.mark.parametrize("unix", [False, True], ids=["dates", "Unix seconds"])
def test_days_of_dates_go_no_further_than_those_of_the_fit(unix):
    def dates(*texts):
        stamps = np.array(texts, "datetime64[s]")
        return pa.table({"time": stamps.astype(np.int64) if unix else [str(stamp) for stamp in stamps]})

    encoding = make_encoding(summarise(dates("2021-03-01T06:00", "2024-03-09T18:00", "2024-03-05T12:00")))
    (column,) = encoding.columns
    limits = column.earliest, column.latest
    assert limits == (18687.0, 19792.0)  # from the start of the first day to the end of the last
    found = encoding.transform(dates("2020-07-01T12:00", "2024-03-05T12:00", "2030-07-01T12:00"))
    assert found[:, 0].tolist() == [18687.0, 19787.5, 19792.0]
    assert found[:, 1:3].tolist() == [[183.0, 2.0], [65.0, 1.0], [182.0, 0.0]]  # the seasons go on
    assert found[:, 3].tolist() == [12.0, 12.0, 12.0]
    free = encoding.without_limits().transform(dates("2020-07-01T12:00", "2030-07-01T12:00"))
    assert free[:, 0].tolist() == [18444.5, 22096.5]


def test_an_earliest_date_after_the_latest_is_refused():
    with pytest.raises(InvalidParameterError, match=r"the earliest date must not be after the latest; got 5\.0"):
        DateColumn("t", 0.0, False, False, earliest=5.0, latest=4.0)


def test_dates_with_a_zone_are_told_in_that_of_greenwich():
    noon = pd.DataFrame({"t": pd.to_datetime(["2024-06-01 12:00", "2024-06-02 13:00"]).tz_localize("Europe/Rome")})
    assert make_encoding(summarise(noon)).transform(noon)[:, 3].round(6).tolist() == [10.0, 11.0]


def test_columns_that_say_nothing_are_left_out_with_a_reason():
    n_rows = 120
    table = pa.table(
        {
            "x": [i * i % 37 for i in range(n_rows)],
            "count": range(n_rows),
            "same": [1.0] * n_rows,
            "none": ["?"] * n_rows,
            "id": [f"id {i}" for i in range(n_rows)],
        }
    )
    encoding = make_encoding(summarise(table))
    assert encoding.column_names == ("x",)
    assert encoding.dropped == (
        Dropped("count", "it counts the rows"),
        Dropped("same", "it is constant"),
        Dropped("none", "every value is missing"),
        Dropped("id", "most of its texts occur once"),
    )
    with pytest.raises(InvalidParameterError, match="a column to learn from"):
        make_encoding(summarise(table), exclude=["x"])


def test_a_column_of_too_many_texts_is_left_out(monkeypatch):
    monkeypatch.setattr(summaries, "MOST_COUNTED", 3)
    made = make_encoding(summarise(pa.table({"x": list("abcd"), "y": [4, 2, 3, 9]})))
    assert made.dropped == (Dropped("x", "it has more than 3 different texts"),)


def test_numbers_among_texts_are_numbers_codes_or_categories():
    values = [str(i / 7) for i in range(60)]
    number = make_encoding(summarise(pa.table({"x": [*values, "broken"]})))
    assert number.columns == (NumberColumn("x", number.columns[0].fill, True, words=("broken",)),)
    assert number.transform(pa.table({"x": ["broken", "2"]})).tolist() == [[number.columns[0].fill, 1.0], [2.0, 0.0]]
    assert "'broken' in 1 rows count as missing" in number.decisions[0].why
    with pytest.raises(
        InvalidParameterError, match=r"column 'x' must hold numbers such as 1234.5, as in the fit; got 'odd'"
    ):
        number.transform(pa.table({"x": ["odd"]}))
    codes = ["1", "2", "3+"] * 20
    assert make_encoding(summarise(pa.table({"x": codes}))).level_names == (("1", "2", "3+", "(others)", "(missing)"),)
    numbers = make_encoding(summarise(pa.table({"x": [1, 2, 3] * 9})), categories=["x"])
    assert numbers.columns[0].levels == ("1", "2", "3")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            pd.DataFrame({"x": [1, {"a": 2}]}),
            "column 'x' must hold numbers, texts, truth values or dates; got {'a': 2}",
        ),
        (pa.table([[1], [2]], names=["x", "x"]), r"column names must differ; got \['x'\]"),
        (pa.table({"x": [[1], [2]]}), "column 'x' must hold numbers, texts, truth values or dates; got 'list"),
        (pa.table({"x": pa.array([{"a": 1}])}), "column 'x' must hold numbers"),
    ],
)
def test_tables_of_another_kind_are_refused(table, message):
    with pytest.raises(InvalidParameterError, match=message):
        summarise(table)


def test_infinite_numbers_are_refused():
    with pytest.raises(InvalidParameterError, match="numbers of column 'x' must be finite"):
        make_encoding(summarise(pa.table({"x": [1.0, math.inf, 2.0]})))


def test_a_column_that_is_no_longer_of_its_kind_is_refused():
    encoding = TableEncoding((NumberColumn("x", 0.0, False), DateColumn("t", 0.0, False, False)))
    with pytest.raises(
        InvalidParameterError, match=r"column 'x' must hold numbers such as 1234.5, as in the fit; got 'many'"
    ):
        encoding.transform(pa.table({"x": ["1", "many"], "t": [None, None]}))
    with pytest.raises(
        InvalidParameterError, match="column 't' must hold dates such as 2024-02-29, as in the fit; got '30 June'"
    ):
        encoding.transform(pa.table({"x": [1, 2], "t": ["2024-02-29", "30 June"]}))


def test_chunks_of_other_columns_do_not_add_up():
    with pytest.raises(InvalidParameterError, match="chunks of a table must have the same columns"):
        summarise(pa.table({"x": [1]})) + summarise(pa.table({"y": [1]}))


def test_summaries_have_a_neutral_element():
    summary = summarise(pa.table({"x": [1.5, None, 2.0]})).columns["x"]
    assert ColumnSummary() + summary == summary == summary + ColumnSummary()
    assert Moments() + Moments() == Moments()
    assert ColumnSummary().kind == "empty"
    assert TableSummary({}).n_rows == 0
    assert summarise(pa.table({"x": [1]})).n_rows == 1


@pytest.mark.parametrize(
    ("values", "task", "kind", "dtype"),
    [
        ([0.5, 1.5, 2.5], "regression", "number", np.float64),
        (list(range(30)), "regression", "whole", np.float64),
        ([0, 1, 1, 2], "classification", "whole", np.int64),
        ([True, False], "classification", "truth", np.bool_),
        (["yes", "no"], "classification", "text", np.str_),
        ([" 1", "0 "], "classification", "whole", np.int64),
    ],
)
def test_the_task_is_seen_from_the_target_and_labels_are_kept(values, task, kind, dtype):
    table = pa.table({"y": values})
    target = make_target(summarise(table), "y")
    assert (target.task, target.values) == (task, kind)
    assert target.reason.startswith("it holds")
    read = target.read(table)
    assert np.issubdtype(read.dtype, dtype)
    assert read.tolist() == [value.strip() if kind == "text" else float(value) for value in values]


def test_the_task_can_be_said():
    table = pa.table({"y": [0, 1, 1, 2]})
    target = make_target(summarise(table), "y", "regression")
    assert target.read(table).dtype == np.float64
    assert make_target(summarise(pa.table({"y": [0.5, 1.5]})), "y", "classification").task == "classification"


@pytest.mark.parametrize(
    ("values", "task", "message"),
    [
        ([1.0, None, 2.0], "auto", "must be known in every row; got '1 missing of 3'"),
        (["?", "?"], "auto", "must be known in every row; got 'no value at all'"),
        ([3, 3], "auto", "the target 'y' must vary; got \"'3' in every row\""),
        (["a", "b"], "regression", "of a regression must hold numbers"),
        ([1.5, 2.0], "ranking", "task must be 'auto', 'regression' or 'classification'"),
        ([1.5, math.inf], "auto", "the target 'y' must be finite"),
    ],
)
def test_a_target_that_cannot_be_learned_is_refused(values, task, message):
    with pytest.raises(InvalidParameterError, match=re.escape(message)):
        make_target(summarise(pa.table({"y": values})), "y", task)


def test_a_target_is_read_only_where_it_is_whole():
    target = TargetEncoding("y", "regression", "number")
    with pytest.raises(InvalidParameterError, match="the table must have the target 'y'"):
        target.read(pa.table({"x": [1]}))
    with pytest.raises(InvalidParameterError, match="known in every row; got '1 missing'"):
        target.read(pa.table({"y": [1.0, None]}))
    with pytest.raises(
        InvalidParameterError, match=r"column 'y' must hold numbers such as 1234.5, as in the fit; got 'b'"
    ):
        target.read(pa.table({"y": ["1", "b"]}))


def test_a_column_is_found_by_name_first_then_by_number():
    assert find_column("1", ["2", "1"]) == "1"
    assert find_column("0", ["2", "1"]) == "2"
    assert find_column("-1", ["a", "b"]) == "b"
    for wrong in ("c", "2", "-3"):
        with pytest.raises(InvalidParameterError, match="the table must have the column"):
            find_column(wrong, ["a", "b"])


def test_without_arrow_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rflaf\[files\]'"):
        summarise({})
