"""Every kind of table: the same values give the same model and the same predictions, bit for bit."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pytest

from rflaf import RFLAFRegressor
from rflaf.errors import InvalidParameterError

N = 200
QUICK = {"directions": "random", "alpha": 1e-3, "random_state": 0}


class OnlyStream:
    """A table that offers nothing but Arrow's stream."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class OnlyInterchange:
    """A table that offers nothing but the interchange protocol."""

    def __init__(self, table):
        self._table = table

    def __dataframe__(self, *given, **options):
        return self._table.__dataframe__(*given, **options)


def columns_of_every_kind():
    """Return every kind of column whose values a CSV file holds too, most with gaps; and a target."""
    rng = np.random.default_rng(0)
    gaps, size = rng.random(N) < 0.1, rng.standard_normal(N).round(4)
    town = rng.choice(["Rome", "Oslo", "Lima"], N)
    moments = pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 9000, N), unit="h"))
    clock = [datetime.time(hour, 15 * (hour % 4)) for hour in rng.integers(0, 24, N)]
    frame = pd.DataFrame(
        {
            "size": np.where(gaps, np.nan, size),
            "single": np.where(gaps, np.nan, rng.integers(0, 9, N) / 8).astype(np.float32),
            "whole": rng.integers(0, 90, N).astype("int8"),
            "nullable": pd.array(np.where(gaps, None, rng.integers(0, 99, N)), dtype="Int64"),
            "truth": size > 0,
            "truth or not": pd.array(np.where(gaps, None, size > 0.5), dtype="boolean"),
            "object": np.where(gaps, None, town).astype(object),
            "string": pd.Series(town).astype("string"),
            "category": pd.Categorical(np.where(gaps, None, town)),
            "codes": pd.Series([f"0{at}" for at in rng.integers(1, 9, N)]),
            "day": moments.dt.normalize(),
            "moment": moments.dt.tz_localize("Europe/Rome", nonexistent="shift_forward", ambiguous="NaT"),
            "lasting": pd.to_timedelta(rng.integers(-900, 90_000, N), unit="s"),
            "clock": np.where(gaps, None, clock).astype(object),
            "money": [decimal.Decimal(f"{value:.2f}") for value in size],
            "level": [f"level {at}" for at in rng.integers(0, 60, N)],
        }
    )
    return frame, 3 * np.abs(size) + (town == "Oslo")


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    """The same table in every kind, as functions, since some can be read once only."""
    folder = tmp_path_factory.mktemp("kinds")
    frame, y = columns_of_every_kind()
    with_price = frame.assign(price=y)
    arrow = pa.Table.from_pandas(with_price, preserve_index=False)
    with_price.to_csv(folder / "a.csv", index=False)
    with_price.to_csv(folder / "a.csv.gz", index=False, sep=";", encoding="utf-16")
    pl.from_arrow(arrow).with_columns(pl.col("lasting").dt.total_seconds()).write_csv(folder / "polars.csv")
    with_price.to_parquet(folder / "a.parquet", row_group_size=70)
    pl.from_arrow(arrow).write_parquet(folder / "polars.parquet")
    feather.write_feather(arrow, str(folder / "a.feather"))
    made = {
        "pandas": lambda: with_price,
        "pandas, objects": lambda: with_price.astype(object),
        "pandas, nullable": with_price.convert_dtypes,
        "pandas, Arrow": lambda: arrow.to_pandas(types_mapper=pd.ArrowDtype),
        "pandas, shuffled columns": lambda: with_price[with_price.columns[::-1]].assign(more="ignored"),
        "polars": lambda: pl.from_pandas(with_price),
        "polars, lazy": lambda: pl.from_pandas(with_price).lazy(),
        "Arrow": lambda: arrow,
        "Arrow, chunks": lambda: pa.concat_tables([arrow[:70], arrow[70:71], arrow[71:]]),
        "Arrow, batch": lambda: arrow.combine_chunks().to_batches()[0],
        "Arrow, reader": arrow.to_reader,
        "a stream": lambda: OnlyStream(arrow),
    }
    return made | {path.name: lambda path=path: path for path in folder.iterdir()}


KINDS = [
    "pandas", "pandas, objects", "pandas, nullable", "pandas, Arrow", "polars", "polars, lazy", "Arrow",
    "Arrow, chunks", "Arrow, batch", "Arrow, reader", "a stream", "a.csv", "a.csv.gz", "a.parquet", "polars.parquet",
    "a.feather",
]  # fmt: skip


@pytest.fixture(scope="module")
def expected(kinds):
    frame = kinds["pandas"]()
    return RFLAFRegressor(6, **QUICK).fit(frame.drop(columns="price"), frame["price"]).predict(frame)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_to_fit_gives_the_same_bits(kind, kinds, expected):
    model = RFLAFRegressor(6, **QUICK).fit(kinds[kind](), "price")
    assert len(model.table_encoding_.columns) == 16
    for other in ("pandas", "a.csv", kind):
        np.testing.assert_array_equal(model.predict(kinds[other]()), expected, err_msg=f"{kind} to {other}")


@pytest.mark.parametrize("kind", ["pandas", "polars", "a.csv", "a.parquet"])
def test_every_kind_to_predict_gives_the_same_bits(kind, kinds, expected):
    model = RFLAFRegressor(6, **QUICK).fit(kinds[kind](), "price")
    for other, make in kinds.items():
        np.testing.assert_array_equal(model.predict(make()), expected, err_msg=f"{kind} to {other}")


def test_a_matrix_of_objects_is_the_table_without_its_names(kinds, expected):
    frame = kinds["pandas"]()
    rows = frame.drop(columns="price").to_numpy(object)
    for X in (rows, rows.tolist()):
        model = RFLAFRegressor(6, **QUICK).fit(X, frame["price"])
        np.testing.assert_array_equal(model.predict(rows), expected)


def test_the_interchange_protocol_gives_the_same_bits_where_it_knows_the_type(kinds):
    arrow = kinds["Arrow"]().select(["size", "single", "whole", "nullable", "truth", "object", "category", "day"])
    y = kinds["pandas"]()["price"].to_numpy()
    model = RFLAFRegressor(6, **QUICK).fit(arrow, y)
    again = RFLAFRegressor(6, **QUICK).fit(OnlyInterchange(arrow), y)
    for rows in (arrow, OnlyInterchange(arrow)):
        np.testing.assert_array_equal(again.predict(rows), model.predict(arrow))
    with pytest.raises(InvalidParameterError, match="rows must be a table with named columns; got 'Data type decimal"):
        RFLAFRegressor(6, **QUICK).fit(OnlyInterchange(kinds["Arrow"]().select(["size", "money"])), y)


@pytest.mark.parametrize("kind", ["b", "f", "i", "O", "M"])
def test_masked_values_are_missing(kind):
    values = np.random.default_rng(0).integers(0, 2 if kind == "b" else 9, (N, 2))
    dtype = {"b": "bool", "f": "float32", "i": "int64", "O": "object", "M": "datetime64[D]"}[kind]
    mask = np.arange(2 * N).reshape(N, 2) % 7 == 0
    masked = np.ma.masked_array(values.astype(dtype), mask=mask)
    plain = values.astype(dtype).astype(object)
    plain[mask] = None
    y = values.sum(axis=1)
    model = RFLAFRegressor(4, **QUICK).fit(masked, y)
    np.testing.assert_array_equal(model.predict(masked), RFLAFRegressor(4, **QUICK).fit(plain, y).predict(plain))
    unmasked = np.ma.masked_array(values.astype(float))
    np.testing.assert_array_equal(
        RFLAFRegressor(4, **QUICK).fit(unmasked, y).predict(unmasked),
        RFLAFRegressor(4, **QUICK).fit(values.astype(float), y).predict(values.astype(float)),
    )


def test_a_matrix_of_dates_is_read_as_dates_and_records_are_refused():
    days = np.datetime64("2024-01-01") + np.arange(2 * N).reshape(N, 2) * 37 % 365
    days[3, 1] = "NaT"
    model = RFLAFRegressor(4, **QUICK).fit(days, np.arange(N) % 7)
    assert [line.read_as for line in model.table_encoding_.decisions] == ["date", "date, 1 missing"]
    with pytest.raises(InvalidParameterError, match="rows must be an array or a table; got 'an array of records'"):
        RFLAFRegressor(4, **QUICK).fit(np.zeros(N, [("a", float), ("b", float)]), np.arange(N))


def test_numbers_that_were_categories_in_pandas_are_categories_in_its_files(tmp_path):
    rng = np.random.default_rng(0)
    codes = rng.integers(1, 9, N)
    frame = pd.DataFrame({"code": pd.Categorical(codes), "size": rng.standard_normal(N), "price": codes % 3 * 1.0})
    frame.to_parquet(tmp_path / "a.parquet")
    model = RFLAFRegressor(4, **QUICK).fit(tmp_path / "a.parquet", "price")
    assert model.table_encoding_.columns[0].levels == tuple("12345678")
    assert model.table_encoding_.decisions[0].why == "the table says that its values are categories"
    in_memory = RFLAFRegressor(4, **QUICK).fit(frame, "price")
    for rows in (frame, frame.assign(code=codes), tmp_path / "a.parquet"):
        np.testing.assert_array_equal(model.predict(rows), in_memory.predict(frame))


def test_truth_values_may_be_written_and_nothing_else_is_one(tmp_path):
    truth = np.arange(N) % 3 == 0
    frame = pd.DataFrame({"sold": truth, "size": np.arange(N) % 7.0})
    model = RFLAFRegressor(4, **QUICK).fit(frame.assign(y=truth * 2.0), "y")
    for written in (truth.astype(str), np.char.upper(truth.astype(str)), truth.astype(int).astype(str), truth * 1.0):
        np.testing.assert_array_equal(model.predict(frame.assign(sold=written)), model.predict(frame))
    with pytest.raises(InvalidParameterError, match="column 'sold' must hold numbers such as True, as in the fit"):
        model.predict(frame.assign(sold="perhaps"))
    levels = RFLAFRegressor(4, **QUICK).fit(frame.assign(sold=["True", "False", "maybe", "True"] * (N // 4)), truth)
    assert levels.table_encoding_.columns[0].levels == ("False", "True", "maybe")
