"""Rows are written column by column and tile by tile; the reference writes each cleaned column as a whole."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rflaf.rows.tables import encoding as encodings
from rflaf.rows.tables import make_encoding, summarise
from rflaf.rows.tables.cells import as_table, clean
from rflaf.rows.tables.encoding import add_rows, level_sums
from rflaf.rows.tables.statistics import fold_of_rows

N_ROWS = 203


def every_kind():
    """A frame with a column of every kind that is encoded, with gaps where a kind has them."""
    rng = np.random.default_rng(0)

    def gappy(values):
        return pd.Series(values, dtype=object).where(rng.random(N_ROWS) > 0.1, None)

    words = [" ".join(rng.choice(["red", "blue", "hat", "coat", "silk"], 4)) + f" {at}" for at in range(N_ROWS)]
    start = pd.Timestamp("2023-11-05")
    return pd.DataFrame(
        {
            "float": rng.standard_normal(N_ROWS),
            "gaps": np.where(rng.random(N_ROWS) < 0.1, np.nan, rng.standard_normal(N_ROWS)),
            "single": rng.standard_normal(N_ROWS).astype(np.float32),
            "whole": rng.integers(0, 1000, N_ROWS),
            "nullable": gappy(rng.integers(0, 1000, N_ROWS)).astype("Int64"),
            "truth": rng.random(N_ROWS) < 0.4,
            "maybe": gappy(rng.random(N_ROWS) < 0.4).astype("boolean"),
            "code": rng.integers(0, 5, N_ROWS),
            "money": [f"${value:,.2f}" for value in rng.random(N_ROWS) * 9000],
            "level": gappy(rng.choice(["a", " b", "c ", "?"], N_ROWS)),
            "two": rng.choice(["no", "yes"], N_ROWS),
            "many": [f"town {at}" for at in rng.integers(0, 70, N_ROWS)],
            "declared": pd.Categorical(
                gappy(rng.choice(["x", "y", "z"], N_ROWS)), categories=["z", "unused", "x", "y"]
            ),
            "date": start + pd.to_timedelta(rng.integers(0, 10**6, N_ROWS), unit="min"),
            "written": [f"{day:02d}/{month:02d}/2024" for day, month in rng.integers(1, 13, (N_ROWS, 2))],
            "title": words,
        }
    )


@pytest.fixture(scope="module")
def frame():
    return every_kind()


@pytest.fixture(scope="module")
def encoding(frame):
    table = as_table(frame)
    summary = summarise(table, categories=["code"])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("rflaf.rows.tables.encoding._MOST_LEVELS", 50)
        learned = make_encoding(summary, categories=["code"])
    sums = level_sums(learned, summary, ["mean"])
    add_rows(sums, table, learned.missing, 0, frame[["float"]].to_numpy())
    assert {column.kind for column in learned.columns} == {"number", "category", "date", "text"}
    assert list(sums) == ["many"]
    return learned.with_statistics({name: of_column.finish() for name, of_column in sums.items()})


def as_a_whole(encoding, table, first):
    """Clean every column and write all of its rows at once."""
    folds = None if first is None else fold_of_rows(first, table.num_rows)
    parts = []
    for column in encoding.columns:
        parts.append(np.zeros((table.num_rows, len(column.feature_names))))
        column.write(clean(column.name, table[column.name], encoding.missing), parts[-1], folds)
    return np.hstack(parts)


@pytest.mark.parametrize("first", [None, 11])
@pytest.mark.parametrize("tile", [1, 50, 10**6])
def test_tiles_of_chunks_are_the_rows_of_whole_columns(frame, encoding, tile, first, monkeypatch):
    monkeypatch.setattr(encodings, "_TILE_ROWS", tile)
    table = as_table(frame)
    cut = pa.concat_tables([table.slice(0, 0), table.slice(0, 60), table.slice(60, 1), table.slice(61)])
    assert cut["float"].num_chunks > 2
    assert np.array_equal(encoding.transform(cut, first=first), as_a_whole(encoding, table, first))


HOLDERS = {
    "pandas": lambda frame: frame,
    "pandas, texts as objects": lambda frame: frame.astype({"many": object, "two": object, "money": object}),
    "pandas, texts as categories": lambda frame: frame.astype({"many": "category", "two": "category"}),
    "pandas, its own kinds": lambda frame: frame.convert_dtypes(),
    "pandas, kinds of Arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "pandas, columns of another order": lambda frame: frame[frame.columns[::-1]].assign(more=1),
    "pandas, every other row of a larger frame": lambda frame: pd.concat([frame, frame]).sort_index(kind="stable")[::2],
    "polars": pl.from_pandas,
    "Arrow": as_table,
    "Arrow batch": lambda frame: as_table(frame).to_batches()[0],
    "Arrow with dictionaries": lambda frame: pa.table(
        {
            name: column.dictionary_encode() if pa.types.is_string(column.type) else column
            for name, column in zip(frame.columns, as_table(frame).columns, strict=True)
        }
    ),
    "stream": lambda frame: Only("__arrow_c_stream__", as_table(frame)),
    "interchange": lambda frame: Only("__dataframe__", as_table(frame)),
}


class Only:
    """An object that offers nothing but one protocol of another."""

    def __init__(self, protocol, behind):
        setattr(type(self), protocol, lambda _, *given, **named: getattr(behind, protocol)(*given, **named))

    def __new__(cls, *given):
        return super().__new__(type("Only", (cls,), {}))


@pytest.mark.parametrize("holder", HOLDERS)
def test_the_same_values_are_the_same_numbers_whatever_holds_them(frame, encoding, holder):
    assert np.array_equal(encoding.transform(HOLDERS[holder](frame)), encoding.transform(frame))
    assert encoding.transform(frame)[:, 0].std() > 0.5


def test_numbers_of_a_frame_are_not_copied(frame):
    assert np.shares_memory(as_table(frame)["float"].chunk(0).to_numpy(), frame["float"].to_numpy())
