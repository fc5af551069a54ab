"""The one door: the same content gives the same model, bit for bit, whatever the rows are given as."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rflaf import RFLAFClassifier, RFLAFRegressor
from rflaf.errors import InvalidParameterError
from rflaf.rows.files import RowChoice, Table, scan_table
from rflaf.rows.files.chunks import read_rows
from rflaf.rows.tables import Moments

pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")

N = 160
QUICK = {"directions": "random", "random_state": 0}


def mixed(seed=0):
    """Numbers with gaps, texts, dates and whole numbers; a target of numbers and one of labels."""
    rng = np.random.default_rng(seed)
    area = np.where(rng.random(N) < 0.1, np.nan, rng.uniform(30, 200, N).round(2))
    town = rng.choice(["Rome", "Oslo", "Lima"], N)
    frame = pd.DataFrame({"area": area, "town": town, "rooms": rng.integers(1, 6, N)})
    frame["built"] = [f"{1950 + i % 60}-03-{1 + i % 28:02d}" for i in range(N)]
    frame["price"] = (2.0 * frame["rooms"] + (town == "Oslo") + rng.standard_normal(N)).round(3)
    return frame.assign(dear=np.where(frame["price"] > 6, "yes", "no"))


@pytest.fixture(scope="module")
def doors(tmp_path_factory):
    """The same table in every kind of file and in memory, by kind."""
    folder, frame = tmp_path_factory.mktemp("doors"), mixed()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    frame.to_csv(folder / "a.csv", index=False)
    frame.to_csv(folder / "a.tsv", index=False, sep="\t")
    frame.to_csv(folder / "a.csv.gz", index=False)
    for name in ("a.parquet", "a.pq", "a.parq"):
        frame.to_parquet(folder / name, row_group_size=50)
    for name in ("a.feather", "a.arrow"):
        feather.write_feather(table, str(folder / name))
    texts = ("town", "built", "dear")
    np.savez(folder / "a.npz", **{name: frame[name].to_numpy(str if name in texts else None) for name in frame})
    return {"frame": frame, "table": table} | {path.name: path for path in folder.iterdir()}


KINDS = ["frame", "table", "a.csv", "a.tsv", "a.csv.gz", "a.parquet", "a.pq", "a.parq", "a.feather", "a.arrow", "a.npz"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_door_leads_to_the_same_model_bit_for_bit(doors, kind):
    price = RFLAFRegressor(4, **QUICK).fit(doors["a.csv"], "price")
    dear = RFLAFClassifier(4, alpha=1e-3, **QUICK).fit(doors["a.csv"], "dear")
    same = RFLAFRegressor(4, **QUICK).fit(doors[kind], "price")
    assert same.table_encoding_ == price.table_encoding_
    assert (same.target_encoding_.name, same.target_encoding_.task) == ("price", "regression")
    labels = RFLAFClassifier(4, alpha=1e-3, **QUICK).fit(doors[kind], "dear")
    for other in ("frame", "a.csv", kind):
        np.testing.assert_array_equal(same.predict(doors[other]), price.predict(doors["a.csv"]))
        np.testing.assert_array_equal(labels.predict_proba(doors[other]), dear.predict_proba(doors["a.csv"]))
    assert same.score(doors[kind], "price") == pytest.approx(price.score(doors["a.csv"], "price"), rel=1e-12)
    assert labels.score(doors[kind], "dear") == dear.score(doors["a.csv"], "dear")


@pytest.mark.parametrize("kind", ["frame", "table", "a.csv", "a.parquet", "a.npz", "a.arrow"])
def test_more_rows_come_by_any_door(doors, kind):
    model = RFLAFRegressor(4, **QUICK).partial_fit(doors["a.csv"], "price")
    expected = RFLAFRegressor(4, **QUICK).partial_fit(doors["a.csv"], "price").partial_fit(doors["a.csv"], "price")
    model.partial_fit(doors[kind], "price")
    np.testing.assert_allclose(model.predict(doors["frame"]), expected.predict(doors["frame"]), rtol=1e-9)


@pytest.mark.slow
def test_a_matrix_in_a_file_may_hold_the_target(tmp_path):
    X = np.random.default_rng(0).standard_normal((N, 4))
    np.save(tmp_path / "X.npy", X)
    model = RFLAFRegressor(4, **QUICK).fit(tmp_path / "X.npy", "3")
    expected = RFLAFRegressor(4, **QUICK).fit(X[:, :3], X[:, 3])
    np.testing.assert_allclose(model.predict(tmp_path / "X.npy"), expected.predict(X[:, :3]), atol=1e-9)


def test_a_frame_of_numbers_without_gaps_stays_what_it_is():
    X = pd.DataFrame(np.random.default_rng(0).standard_normal((N, 2)), columns=["a", "b"]).assign(same=1.0)
    model = RFLAFRegressor(4, **QUICK).fit(X, X["a"])
    assert model.table_encoding_ is None
    assert list(model.feature_names_in_) == ["a", "b", "same"]
    gappy = X.assign(b=X["b"].where(X["b"] < 1))
    with pytest.raises(
        InvalidParameterError, match="column 'b' must hold numbers without gaps, as in the fit; got 'missing"
    ):
        model.predict(gappy)
    encoded = RFLAFRegressor(4, **QUICK).fit(gappy, X["a"])
    assert list(encoded.feature_names_in_) == ["a", "b", "same"]
    assert encoded.table_encoding_.feature_names == ("a", "b", "b missing")
    assert encoded.column_importance_.shape == (3,)
    assert encoded.column_importance_.sum() == pytest.approx(1)
    assert encoded.target_encoding_.name == "a"
    assert np.isfinite(encoded.predict(gappy)).all()
    matrix = RFLAFRegressor(4, **QUICK).fit(gappy.to_numpy(), X["a"])
    assert not hasattr(matrix, "feature_names_in_")
    np.testing.assert_array_equal(matrix.predict(gappy.to_numpy()), encoded.predict(gappy))


def test_weights_may_be_a_column_of_a_frame(doors):
    frame = doors["frame"].assign(w=np.arange(N) % 3)
    named = RFLAFRegressor(4, **QUICK).fit(frame, "price", sample_weight="w")
    given_apart = RFLAFRegressor(4, **QUICK).fit(frame.drop(columns=["price", "w"]), frame["price"], frame["w"])
    np.testing.assert_array_equal(named.predict(frame), given_apart.predict(frame))


# A part of the rows


@given(st.sampled_from([0.2, 0.25, 0.3, 0.5, 0.125]), st.integers(0, 50), st.integers(0, 4000), st.integers(1, 900))
def test_every_group_of_rows_holds_out_exactly_its_share(share, seed, first, n_rows):
    held_out = RowChoice(share, seed, held_out=True)
    whole = held_out.mask(0, 5000)
    np.testing.assert_array_equal(held_out.mask(first, n_rows), whole[first : first + n_rows])
    np.testing.assert_array_equal(~whole, RowChoice(share, seed).mask(0, 5000))
    fraction = Fraction(share).limit_denominator(1000)
    groups = whole[: 5000 // fraction.denominator * fraction.denominator].reshape(-1, fraction.denominator)
    assert set(groups.sum(axis=1).tolist()) == {fraction.numerator}


def test_the_encoding_is_learned_from_the_chosen_rows_only(tmp_path):
    frame = mixed()
    choice = RowChoice(0.2, 0)
    odd = int(np.flatnonzero(~choice.mask(0, N))[0])
    frame.loc[odd, "town"] = "odd"
    for path in (tmp_path / "a.csv", tmp_path / "a.parquet"):
        (frame.to_csv if path.suffix == ".csv" else frame.to_parquet)(path, index=False)
        table = Table(path, rows=choice)
        train = RFLAFRegressor(4, **QUICK).fit(table, "price")
        assert "odd" not in train.table_encoding_.columns[1].levels
        assert "odd" in RFLAFRegressor(4, **QUICK).fit(path, "price").table_encoding_.columns[1].levels
        in_memory = RFLAFRegressor(4, **QUICK).fit(frame[choice.mask(0, N)], "price")
        np.testing.assert_array_equal(train.predict(frame), in_memory.predict(frame))
        rest = replace(table, rows=replace(choice, held_out=True))
        assert sum(chunk.num_rows for _, chunk in read_rows(rest)) == N // 5
        scanned = scan_table(table, "price")
        assert scanned.summary.columns["price"].n_rows == N
        np.testing.assert_array_equal(
            RFLAFRegressor(4, **QUICK).fit(scanned, "price").predict(frame), train.predict(frame)
        )


def test_columns_can_be_left_out_and_numbers_be_codes(doors):
    for kind in ("a.csv", "a.parquet", "a.npz"):
        table = Table(doors[kind], exclude=["built", "dear"], categories=["rooms"], missing=("", "Lima"))
        encoding = RFLAFRegressor(4, **QUICK).fit(table, "price").table_encoding_
        assert [column.kind for column in encoding.columns] == ["number", "category", "category"]
        assert encoding.columns[1].levels == ("Oslo", "Rome")


def test_a_share_outside_its_range_is_refused():
    with pytest.raises(InvalidParameterError, match="from 0 to 1; got 2"):
        RowChoice(2.0)


# Exact means


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64), min_size=1, max_size=30), st.randoms())
def test_a_mean_is_correctly_rounded_in_any_order_and_any_chunks(values, random):
    exact = sum(map(Fraction, values)) / len(values)
    random.shuffle(values)
    cut = len(values) // 2
    parts = [Moments.of(np.array(part, float)) for part in (values[:cut], values[cut:])]
    assert (parts[0] + parts[1]).mean == exact.numerator / exact.denominator


LABELS = {
    "digits": ["0", "1"], "points": ["1.0", "2.0"], "padded": [" a", "b"], "sums": ["1,000", "$2"], "gaps": ["NA", ""],
    "whole": [3, 4], "halves": [0.0, 1.0], "truths": [False, True],
}  # fmt: skip


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("as_frame", [pd.DataFrame, pa.Table.from_pandas], ids=["pandas", "arrow"])
def test_labels_of_a_frame_are_its_own_by_name_and_apart(labels, as_frame):
    frame = pd.DataFrame({"a": np.arange(40.0) * 7 % 40, "b": np.arange(40.0) % 7})
    y = np.array(labels)[(frame["a"] > 19).astype(int)]
    apart = RFLAFClassifier(4, alpha=1e-3, **QUICK).fit(frame, y)
    named = RFLAFClassifier(4, alpha=1e-3, **QUICK).fit(as_frame(frame.assign(y=y)), "y")
    assert named.classes_.tolist() == apart.classes_.tolist() == sorted(labels)
    assert [type(one) for one in named.classes_.tolist()] == [type(one) for one in labels]
    np.testing.assert_array_equal(named.predict(frame), apart.predict(frame))
    assert named.score(as_frame(frame.assign(y=y)), "y") == apart.score(frame, y) == 1
    named.partial_fit(as_frame(frame.assign(y=y)), "y", classes=labels)
    assert named.classes_.tolist() == sorted(labels)


def test_categories_of_a_frame_are_labels_by_their_values():
    frame = pd.DataFrame(
        {"a": np.arange(40.0), "b": np.arange(40.0) % 7, "y": pd.Categorical(np.where(np.arange(40) > 19, "1", "0"))}
    )
    assert RFLAFClassifier(4, alpha=1e-3, **QUICK).fit(frame, "y").classes_.tolist() == ["0", "1"]
    with pytest.raises(InvalidParameterError, match="'y' must be known in every row; got '1 missing'"):
        RFLAFClassifier(4, **QUICK).fit(frame.assign(y=frame["y"].where(frame.index > 0)), "y")


def test_labels_of_digits_in_a_csv_file_are_numbers_and_the_log_says_so(tmp_path, caplog):
    a = np.arange(40.0) * 7 % 40
    frame = pd.DataFrame({"a": a, "y": np.where(a > 19, "1", "0")})
    frame.to_csv(tmp_path / "a.csv", index=False)
    with caplog.at_level("INFO", "rflaf"):
        model = RFLAFClassifier(4, alpha=1e-3, **QUICK).fit(tmp_path / "a.csv", "y")
    assert model.classes_.tolist() == [0, 1]
    assert "target 'y': labels are whole numbers" in caplog.text
    assert model.score(frame, "y") == model.score(tmp_path / "a.csv", "y") == 1


@pytest.mark.parametrize("kind", ["int8", "int16", "uint64"])
def test_whole_numbers_of_few_bits_may_be_far_apart(kind):
    about = np.iinfo(kind)
    far = np.resize([about.max, about.max - 3] if about.min == 0 else [about.min, about.max], 60).astype(kind)
    frame = pd.DataFrame({"code": far, "word": ["u", "v", "w"] * 20})
    y = np.arange(60.0)
    found = RFLAFRegressor(3, directions="random", random_state=0).fit(frame, y).predict(frame)
    wide = frame.assign(code=frame["code"].astype(object))
    assert np.array_equal(RFLAFRegressor(3, directions="random", random_state=0).fit(wide, y).predict(wide), found)


@pytest.mark.parametrize("library", ["pandas", "arrow"])
def test_columns_of_a_frame_go_by_their_names_alone(library):
    frame = pd.DataFrame(np.random.default_rng(0).standard_normal((60, 3)), columns=["a", "b", "y"])
    rows = frame if library == "pandas" else pa.Table.from_pandas(frame)
    with pytest.raises(InvalidParameterError, match="the table must have the column '-1'"):
        RFLAFRegressor(3, directions="random").fit(rows, "-1")
    numbered = frame.set_axis([0, 1, 2], axis=1)
    found = RFLAFRegressor(3, directions="random", random_state=0).fit(numbered, "2")
    apart = RFLAFRegressor(3, directions="random", random_state=0).fit(frame[["a", "b"]].to_numpy(), frame["y"])
    assert np.allclose(found.predict(numbered), apart.predict(frame[["a", "b"]].to_numpy()))
