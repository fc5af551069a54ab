"""Texts that are held once each, with a number for every row: the same summaries and rows as of plain texts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rflaf import InvalidParameterError, RFLAFRegressor
from rflaf.rows.indicators import indicator_starts, indicators
from rflaf.rows.inputs import encode_rows
from rflaf.rows.tables import make_encoding, summarise, text_views
from rflaf.rows.tables.cells import as_table, dictionary_of, is_declared
from rflaf.rows.tables.statistics import giveaways

N_ROWS = 4000


def texts(n_levels=70, gaps=True):
    rng = np.random.default_rng(n_levels)
    names = np.array([f" level {at}" for at in range(n_levels)], object)
    column = names[rng.integers(0, n_levels, N_ROWS)]
    if gaps:
        column[rng.random(N_ROWS) < 0.1] = None
    return column


def apart(column):
    """The same texts, each an object of its own."""
    return np.array([None if text is None else "".join([text[:1], text[1:]]) for text in column], object)


def held_by(column):
    """Frames of one column that hold the same texts in different ways."""
    plain = pa.table({"a": pa.array(column, pa.string())})
    mixed = column.copy()
    mixed[::5] = apart(column)[::5]  # some of a text share an object, some do not
    wide = np.empty((N_ROWS, 3), object)
    wide[:, 1] = column
    return {
        "plain": plain,
        "shared objects": pd.DataFrame({"a": column}, dtype=object),
        "objects apart": pd.DataFrame({"a": apart(column)}, dtype=object),
        "objects of both kinds": pd.DataFrame({"a": mixed}, dtype=object),
        "a column of a wider array": pd.DataFrame(wide, columns=["b", "a", "c"])[["a"]],
        "every row of twice as many": pd.DataFrame({"a": np.repeat(column, 2)}, dtype=object)[::2],
        "missing as NaN": pd.DataFrame({"a": pd.Series(column, dtype=object).fillna(np.nan)}, dtype=object),
        "missing as NA": pd.DataFrame({"a": [pd.NA if text is None else text for text in column]}, dtype=object),
        "pandas' own texts": pd.DataFrame({"a": pd.Series(column, dtype="str")}),
        "polars": pl.DataFrame({"a": column.tolist()}),
        "large": plain.cast(pa.schema({"a": pa.large_string()})),
        "views": pa.table({"a": pa.array(column.tolist(), pa.string_view())}),
        "chunks": pa.concat_tables([plain[:1000], plain[1000:1000], plain[1000:1700], plain[1700:]]),
        "coded": as_table(plain, coded=True),
        "coded, of a longer one": as_table(pa.concat_tables([pa.table({"a": ["more"]}), plain]), coded=True)[1:],
    }


WAYS = list(held_by(texts()))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("n_levels", [2, 70, N_ROWS])
def test_however_texts_are_held_summaries_and_rows_are_the_same(way, n_levels):
    column = texts(n_levels)
    plain, held = held_by(column)["plain"], held_by(column)[way]
    y = np.random.default_rng(1).standard_normal(N_ROWS)
    number = np.arange(N_ROWS) % 7
    if hasattr(held, "append_column"):
        held = held.append_column("number", pa.array(number))
    else:
        held = held.assign(number=number) if hasattr(held, "assign") else held.with_columns(number=pl.Series(number))
    plain = plain.append_column("number", pa.array(number))
    assert summarise(held).columns == summarise(plain).columns
    rows, encoding = encode_rows(held, y, None, False)
    expected, of_plain = encode_rows(plain, y, None, False)
    assert encoding == of_plain
    assert np.array_equal(rows, expected)
    assert np.array_equal(encoding.transform(held), of_plain.transform(plain))


def test_coded_texts_are_no_categories_that_the_table_declares():
    declared = pa.table({"a": pa.array(texts()).dictionary_encode()})
    coded = as_table(pa.table({"a": texts()}), coded=True)
    assert pa.types.is_dictionary(coded.schema.field("a").type)
    assert not is_declared(coded.schema.field("a"))
    assert is_declared(as_table(declared, coded=True).schema.field("a"))
    assert summarise(declared).columns["a"].declared
    assert not summarise(coded).columns["a"].declared


ODD = {
    "truths": [True, False, "True"],
    "numbers": [1, True, 1.0, "1"],
    "bytes": [b"a", "a", b"b"],
    "dates": ["2024-01-01", pd.Timestamp("2024-01-01"), None],
}


@pytest.mark.parametrize("values", ODD.values(), ids=ODD)
@pytest.mark.parametrize("n_each", [1, 500])
def test_values_of_several_kinds_are_read_as_without_codes(values, n_each):
    frame = pd.DataFrame({"a": pd.Series(values * n_each, dtype=object)})
    try:
        plain = as_table(frame)
    except ValueError as error:
        with pytest.raises(ValueError, match=str(error).splitlines()[0][:20]):
            as_table(frame, coded=True)
        return
    coded = as_table(frame, coded=True)["a"].combine_chunks()
    assert coded.type == plain["a"].type or coded.type.value_type == plain["a"].type
    decoded = coded.dictionary_decode() if pa.types.is_dictionary(coded.type) else coded
    assert decoded.to_pylist() == plain["a"].to_pylist()


def test_texts_of_few_rows_are_left_as_they_are():
    frame = pd.DataFrame({"a": ["x", None, "y"] * 333})
    assert as_table(frame, coded=True).equals(as_table(frame))
    more = pd.concat([frame, frame[:1]])
    assert pa.types.is_dictionary(as_table(more, coded=True)["a"].type)


def test_views_are_coded_by_way_of_plain_texts_where_arrow_cannot():
    class Old:
        """A column as releases before 19 have it."""

        def dictionary_encode(self):
            raise pa.ArrowNotImplementedError("string_view")

        def cast(self, kind):
            return pa.array(["a", "b", "a"], kind)

    assert dictionary_of(Old()).to_pylist() == ["a", "b", "a"]


def test_views_are_plain_texts_from_the_start_where_arrow_casts_none(monkeypatch):
    views = held_by(texts())["views"]
    levels = pa.chunked_array([chunk.dictionary_encode() for chunk in views["a"].chunks])
    table = views.append_column("b", pa.array(np.arange(N_ROWS))).append_column("c", levels)
    monkeypatch.setattr(text_views, "_casts_views", lambda: False)
    old = as_table(table)
    assert old.schema.types == [pa.string(), pa.int64(), pa.dictionary(pa.int32(), pa.string())]
    assert as_table(table[:0]).schema.types == [pa.string(), pa.int64(), pa.dictionary(pa.int32(), pa.string())]
    assert old.to_pydict() == table.to_pydict()
    assert as_table(table, coded=True)["a"].type.value_type == pa.string()


def test_only_the_columns_of_the_model_are_converted():
    class Refusing(pd.DataFrame):
        def __getitem__(self, name):
            assert name != "unused"
            return super().__getitem__(name)

    frame = pd.DataFrame({"a": ["x", "y", "x", "z"], "b": [1.0, 2.0, 0.5, 3.0]})
    encoding = make_encoding(summarise(frame))
    given = Refusing(frame.assign(unused=object()))
    assert np.array_equal(encoding.transform(given), encoding.transform(frame))


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 3))
def test_codes_give_the_target_away_where_their_indicators_do(seed, n_levels, n_parts):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, n_levels, 60), rng.standard_normal(60), rng.integers(0, 2, 60)]).astype(float)
    choices = [X[:, 0] == 0, 3.0 * X[:, 1] + 1, X[:, 2], np.full(60, 0.1), rng.standard_normal(60)]
    Y = np.column_stack([choices[at] for at in rng.integers(0, len(choices), n_parts)]).astype(float)
    levels = (n_levels + 1, 0, 2)
    column_of = np.repeat(np.arange(3), np.diff(indicator_starts(levels)))
    expected = sorted({int(column_of[at]) for at in giveaways(indicators(X, levels), Y)})
    assert giveaways(X, Y, levels).tolist() == expected


@pytest.mark.parametrize("n_rows", [60, 1200])
def test_texts_that_are_no_unicode_are_refused_with_their_column(n_rows):
    odd = np.resize(np.array([b"caf\xe9".decode("utf8", "surrogateescape"), "tea"], object), n_rows)
    frame = pd.DataFrame({"drink": pd.Series(odd, dtype=object), "x": np.arange(n_rows)})
    with pytest.raises(InvalidParameterError, match=r"texts of column 'drink' must be Unicode.* Decode them"):
        RFLAFRegressor(3, directions="random").fit(frame, np.arange(n_rows))
