"""What new users bring: frames of every kind, CSV as it comes, numbers and dates as people write them, leaks."""

from __future__ import annotations

import decimal
import json
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from commands import output, refusal
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_score

from rflaf import RFLAFClassifier, RFLAFRegressor, load, save
from rflaf.cli import app as cli
from rflaf.errors import InvalidParameterError
from rflaf.rows.files import Table
from rflaf.rows.files.chunks import read_table
from rflaf.rows.files.csv_layout import find_layout
from rflaf.rows.tables import CategoryColumn, make_encoding, make_target, readings, summaries, summarise
from rflaf.rows.tables.statistics import shrunken_means

N = 240
QUICK = {"directions": "random", "alpha": 1e-3, "random_state": 0}


def frame_of_every_kind(seed=0):
    rng = np.random.default_rng(seed)
    size = rng.standard_normal(N)
    gaps = np.arange(N) % 9 == 0
    town = rng.choice(["Rome", "Oslo", "Lima"], N)
    days = pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 9000, N), unit="h"))
    return pd.DataFrame(
        {
            "size": np.where(gaps, np.nan, size),
            "object": np.where(gaps, None, town).astype(object),
            "string": pd.Series(town).astype("string"),
            "category": pd.Categorical(rng.integers(1, 4, N)),
            "nullable": pd.array(np.where(gaps, None, rng.integers(0, 99, N)), dtype="Int64"),
            "truth": pd.array(np.where(gaps, None, size > 0), dtype="boolean"),
            "day": days.dt.tz_localize("Europe/Rome", nonexistent="shift_forward", ambiguous="NaT"),
            "lasting": pd.to_timedelta(rng.integers(0, 9000, N), unit="s"),
            "money": [decimal.Decimal(f"{value:.2f}") for value in size],
        }
    ), 3 * np.abs(size) + (town == "Oslo")


@pytest.fixture(scope="module")
def fitted():
    X, y = frame_of_every_kind()
    return X, y, RFLAFRegressor(6, **QUICK).fit(X, y)


def test_every_kind_of_column_is_read_and_told(fitted):
    X, _, model = fitted
    assert list(model.feature_names_in_) == list(X.columns)
    assert model.n_features_in_ == X.shape[1] == model.column_importance_.size
    read_as = {line.column: line.read_as for line in model.table_encoding_.decisions}
    assert read_as["size"].startswith("number")
    assert read_as["category"].startswith("category, 3 levels")
    assert read_as["day"].startswith("date")
    assert read_as["lasting"] == "number (duration)"
    assert read_as["money"] == "number"
    assert read_as["truth"].startswith("truth value, 27 missing")
    assert model.table_encoding_.columns[3].levels == ("1", "2", "3")
    assert len(model.get_feature_names_out()) == model.n_components_


def test_tools_of_scikit_learn_take_frames(fitted):
    X, y, model = fitted
    search = GridSearchCV(RFLAFRegressor(4, **QUICK), {"n_components": [3, 6]}, cv=2).fit(X, y)
    assert np.isfinite(search.best_score_)
    assert np.isfinite(cross_val_score(RFLAFRegressor(4, **QUICK), X, y, cv=2)).all()
    importance = permutation_importance(model, X, y, n_repeats=2, random_state=0).importances_mean
    assert importance.shape == (X.shape[1],)
    assert (
        partial_dependence(model, X.assign(size=X["size"].fillna(0)), ["size"], grid_resolution=5)["average"].size == 5
    )
    assert model.set_output(transform="pandas").transform(X).shape == (N, model.n_components_)
    model.set_output(transform="default")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    classes = RFLAFClassifier(4, **QUICK).fit(X, np.where(y > 2, "dear", "cheap"))
    assert set(classes.predict(X)) <= {"dear", "cheap"}


def test_plots_take_the_table_of_the_fit(fitted):
    from rflaf.inspection.plots import PartialEffectDisplay

    X, _, model = fitted
    display = PartialEffectDisplay.from_estimator(model, X, "size")
    assert display.names == ("size",)
    assert np.isfinite(display.effect.mean).all()


def test_plots_of_a_category_name_its_levels(fitted):
    from matplotlib import pyplot as plt

    from rflaf.inspection.plots import ColumnCurveDisplay, PartialEffectDisplay

    X, _, model = fitted
    at = next(at for at, names in enumerate(model.table_encoding_.level_names) if names)
    column, names = model.table_encoding_.feature_names[at], model.table_encoding_.level_names[at]
    shown = set(model.table_encoding_.transform(X)[:, at].astype(int))
    single = PartialEffectDisplay.from_estimator(model, X, column).ax_.get_xticklabels()
    assert [tick.get_text() for tick in single] == [names[code] for code in sorted(shown)]
    pair = PartialEffectDisplay.from_estimator(model, X, ("size", column)).ax_.get_yticklabels()
    assert [tick.get_text() for tick in pair] == [names[code] for code in sorted(shown)]
    curves = ColumnCurveDisplay.from_estimator(model, X, column).ax_
    assert [tick.get_text() for tick in curves.get_xticklabels()] == list(names)
    plt.close("all")


def test_a_file_keeps_the_columns_and_the_decisions(fitted, tmp_path):
    X, _, model = fitted
    save(model, tmp_path / "model.rflaf")
    again = load(tmp_path / "model.rflaf")
    assert again.table_encoding_.decisions == model.table_encoding_.decisions
    assert list(again.feature_names_in_) == list(X.columns)
    np.testing.assert_array_equal(again.column_importance_, model.column_importance_)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_matrices_may_have_gaps_and_texts(tmp_path):
    X, y = np.random.default_rng(0).standard_normal((2, N, 3))[0], np.arange(N) % 7
    X[::5, 1] = np.nan
    model = RFLAFRegressor(4, **QUICK).fit(X, y)
    assert (model.n_features_in_, hasattr(model, "feature_names_in_")) == (3, False)
    assert model.table_encoding_.feature_names == ("0", "1", "1 missing", "2")
    np.testing.assert_array_equal(model.predict(X.tolist()), model.predict(X))
    save(model, tmp_path / "m.rflaf")
    assert not hasattr(load(tmp_path / "m.rflaf"), "feature_names_in_")
    texts = np.column_stack([X[:, 0].astype(object), np.where(X[:, 2] > 0, "up", "down")])
    assert RFLAFRegressor(4, **QUICK).fit(texts, X[:, 2]).score(texts, X[:, 2]) > 0.3
    with pytest.raises(ValueError, match="infin"):
        RFLAFRegressor(4, **QUICK).fit(np.where(np.isnan(X), np.inf, X), y)


@pytest.mark.parametrize("given", [["code"], [1], [False, True]])
def test_numbers_can_be_codes(given):
    rng = np.random.default_rng(0)
    code = rng.integers(0, 12, 600)
    y = rng.permutation(12)[code] + 0.1 * rng.standard_normal(600)
    X = pd.DataFrame({"x": rng.standard_normal(600), "code": code})
    model = RFLAFRegressor(8, categorical_features=given, **QUICK).fit(X, y)
    assert isinstance(model.table_encoding_.columns[1], CategoryColumn)
    assert model.score(X, y) > RFLAFRegressor(8, **QUICK).fit(X, y).score(X, y)
    with pytest.raises(InvalidParameterError, match="categorical_features must be columns of X"):
        RFLAFRegressor(8, categorical_features=["none"], **QUICK).fit(X, y)


# As people write


@pytest.mark.parametrize(
    ("reading", "texts", "values"),
    [
        (
            "1,234.50",
            ["1,234.50", "$12", "12 %", "-$1,234", "($5)", "USD 3", "1e-5"],
            [1234.5, 12, 12, -1234, -5, 3, 1e-5],
        ),
        ("1.234,50", ["1.234,50", "12,5", "-3,1", "1 234,5 €", "0,132"], [1234.5, 12.5, -3.1, 1234.5, 0.132]),
        ("time", ["08:30", "5:15 pm", "12:00 AM"], [8.5, 17.25, 0]),
    ],
)
def test_numbers_are_read_as_people_write_them(reading, texts, values):
    column = make_encoding(summarise(pa.table({"x": texts * 3, "n": [3, 1, 2] * len(texts)}))).columns[0]
    assert column.reading == reading
    assert readings.READINGS[reading].parse(pa.array(texts)).to_pylist() == values


@pytest.mark.parametrize(
    ("reading", "text"),
    [
        ("date", "2023-12-31T08:30:00Z"),
        ("date", "2023-12-31 09:30:00+01:00"),
        ("d/m/y", "31/12/2023 08:30"),
        ("d/m/y", "31.12.23 08:30:00"),
        ("m/d/y", "12/31/2023 8:30 AM"),
        ("mon d y", "Dec 31, 2023 08:30"),
        ("d mon y", "31 December 2023 08:30"),
    ],
)
def test_dates_are_read_as_people_write_them(reading, text):
    encoding = make_encoding(summarise(pa.table({"t": [text, ""] * 5})))
    assert encoding.columns[0].reading == reading
    assert encoding.columns[0].feature_names[0] == "t days"
    assert encoding.transform(pa.table({"t": [text]}))[0, :4].round(6).tolist() == [19722.354167, 365.0, 6.0, 8.5]


def test_seconds_since_1970_are_dates_if_the_name_says_so():
    seconds = [1_700_000_000 + 4_321 * (i * i % 97) for i in range(60)]
    encoding = make_encoding(summarise(pa.table({"created_at": seconds, "size": seconds})))
    assert [column.kind for column in encoding.columns] == ["date", "number"]
    assert encoding.transform(pa.table({"created_at": ["1700006400"], "size": [1]}))[0, 0] == 19676.0


def test_the_day_comes_first_where_both_fit_and_the_table_says_so():
    encoding = make_encoding(summarise(pa.table({"t": ["01/02/2024", "03/04/2024"] * 9})))
    assert encoding.columns[0].reading == "d/m/y"
    assert "m/d/y would fit too" in encoding.decisions[0].why
    assert encoding.decisions[0].change == "--read t=m/d/y"
    asked = make_encoding(summarise(pa.table({"t": ["01/02/2024", "03/04/2024"] * 9})), read={"t": "m/d/y"})
    assert asked.columns[0].reading == "m/d/y"
    with pytest.raises(InvalidParameterError, match="--read t=HOW must be one of"):
        make_encoding(summarise(pa.table({"t": ["01/02/2024", "03/04/2024"]})), read={"t": "x"})


# Traps


def test_leading_zeros_keep_texts_and_titles_may_be_numbers():
    codes = ["01004", "90210", "00501"] * 20
    titles = ["Alien", "1984", "Heat", "300", "Up", "Brazil"] * 10
    years = [str(i % 21) if i % 7 else ">20" for i in range(60)]
    table = pa.table({"zip": codes, "title": titles, "years": years})
    encoding = make_encoding(summarise(table))
    assert [column.kind for column in encoding.columns] == ["category"] * 3
    assert "leading zeros" in encoding.decisions[0].why
    mixed = pd.DataFrame({"title": [1984, "Alien"] * 30, "n": np.arange(60) % 7})
    assert RFLAFRegressor(4, **QUICK).fit(mixed, mixed["n"]).table_encoding_.columns[0].levels == ("1984", "Alien")


@pytest.mark.parametrize("asked", [{"categories": ["zip"]}, {"read": {"zip": "category"}}])
def test_codes_that_hardly_repeat_are_categories_if_asked_for(asked):
    summary = summarise(pd.DataFrame({"zip": [f"{at:05d}" for at in range(120)], "x": np.arange(120) % 7.0}))
    left_out = make_encoding(summary).decisions[0]
    assert (left_out.read_as, left_out.change) == ("left out", "--read zip=category")
    learned = make_encoding(summary, **asked)
    assert learned.decisions[0].read_as == "category, 120 levels"
    assert learned.column_names == ("zip", "x")


def test_the_index_of_pandas_is_no_feature(tmp_path):
    X, y = frame_of_every_kind()
    frame = X[["size", "string"]].assign(price=y).sort_values("price")
    frame.index = pd.Index(np.arange(N), name=None)
    frame.to_csv(tmp_path / "a.csv")
    frame.set_index(pd.Index(np.random.default_rng(1).permutation(N), name="key")).to_parquet(tmp_path / "a.parquet")
    for path, name in ((tmp_path / "a.csv", "Unnamed: 0"), (tmp_path / "a.parquet", "key")):
        model = RFLAFRegressor(4, **QUICK).fit(path, "price")
        assert [left.name for left in model.table_encoding_.dropped] == [name]
        assert model.predict(frame.drop(columns="price")).shape == (N,)
    assert "pandas stored it" in model.table_encoding_.dropped[0].reason


@pytest.mark.parametrize("name", ["Unnamed: 0", "customer_id", "orderId", "id"])
@pytest.mark.parametrize("n_rows", [60, 5_000])
def test_identifiers_are_no_feature_in_any_order(name, n_rows, tmp_path):
    rng = np.random.default_rng(0)
    number = rng.permutation(3 * n_rows // 2)[:n_rows] + 1000
    frame = pd.DataFrame(
        {name: number, "size": rng.standard_normal(n_rows), "price": np.sort(rng.standard_normal(n_rows))}
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    for rows in (frame, tmp_path / "a.csv"):
        encoding = RFLAFRegressor(4, **QUICK).fit(rows, "price").table_encoding_
        assert [(left.name, left.reason) for left in encoding.dropped] == [
            (name, "its numbers differ from row to row, as its name says an identifier's do")
        ]
    for kept in (
        frame.assign(**{name: number // 2}),
        frame.rename(columns={name: "paid"}),
        frame.assign(**{name: number / 2}),
    ):
        assert not RFLAFRegressor(4, **QUICK).fit(kept, "price").table_encoding_.dropped


@pytest.mark.parametrize("name", ["shop_id", "shopId", "id", "nr"])
def test_identifiers_that_repeat_are_categories(name, tmp_path):
    rng = np.random.default_rng(0)
    shop, size = rng.permutation(np.arange(N) % 40 + 100), rng.standard_normal(N)
    frame = pd.DataFrame({name: shop, "size": size, "price": rng.standard_normal(200)[shop] + size})
    frame.to_csv(tmp_path / "a.csv", index=False)
    new = frame.drop(columns="price")
    predicted = []
    for rows in (frame, tmp_path / "a.csv", frame.astype({name: float})):
        model = RFLAFRegressor(4, **QUICK).fit(rows, "price")
        decision = model.table_encoding_.decisions[0]
        assert (decision.read_as, decision.change) == ("category, 40 levels", f"--read {name}=number")
        predicted += [model.predict(new), model.predict(new.astype({name: float}))]
    for other in predicted[1:]:
        np.testing.assert_array_equal(other, predicted[0])
    plain = RFLAFRegressor(4, **QUICK).fit(Table(tmp_path / "a.csv", read={name: "number"}), "price")
    assert plain.table_encoding_.decisions[0].read_as == "number"


def test_identifiers_that_hardly_repeat_are_left_out():
    number = np.random.default_rng(0).permutation(3 * N)[:N]
    number[:10] = number[10:20]
    frame = pd.DataFrame({"patient_id": number, "paid": number, "size": np.arange(N) % 7})
    made = make_encoding(summarise(frame))
    assert [(left.name, left.reason) for left in made.dropped] == [
        ("patient_id", "nearly all its numbers differ, as its name says an identifier's do")
    ]
    assert made.decisions[0].change == "--read patient_id=number"


@pytest.mark.parametrize("name", ["time", "YEAR", "ordinal_date", "day.no", "t"])
def test_a_running_number_called_as_time_is_a_feature(name, tmp_path):
    frame = pd.DataFrame({name: np.arange(1900, 1900 + N), "level": np.arange(N) * 0.5})
    frame.to_csv(tmp_path / "a.csv", index=False)
    for rows in (frame, tmp_path / "a.csv"):
        model = RFLAFRegressor(4, **QUICK).fit(rows, "level")
        assert model.table_encoding_.decisions[0].read_as == "number"
        np.testing.assert_allclose(model.predict(frame[[name]]), frame["level"], atol=3)


@pytest.mark.parametrize("name", ["count", "holiday", "time_id", "outdated", "sometime"])
def test_a_running_number_called_otherwise_is_none(name):
    frame = pd.DataFrame({name: np.arange(N), "level": np.random.default_rng(0).standard_normal(N)})
    assert [left.name for left in make_encoding(summarise(frame)).dropped] == [name]


@pytest.mark.parametrize("name", ["index", "row", "no", "Unnamed: 0", "paid", "grid"])
def test_numbers_that_only_count_rows_or_are_called_alike_are_no_categories(name):
    frame = pd.DataFrame({name: np.arange(N) % 40, "size": np.random.default_rng(0).standard_normal(N)})
    assert make_encoding(summarise(frame)).decisions[0].read_as == "number"


def test_identifiers_beyond_those_counted_are_told_by_their_range(monkeypatch):
    monkeypatch.setattr(summaries, "MOST_COUNTED", 200)
    number = np.random.default_rng(0).permutation(900)[:600]
    for values, dropped in ((number, ["user_id"]), (number % 400, []), (number * 7, [])):
        made = make_encoding(summarise(pd.DataFrame({"user_id": values, "size": number % 7})))
        assert [left.name for left in made.dropped] == dropped


def test_targets_are_numbers_refused_or_a_regression():
    def aim(values):
        return make_target(summarise(pa.table({"y": values})), "y")

    assert (aim(["$1,200.50", "$3"] * 9).task, aim(["$1,200.50", "$3", "$4"] * 9).reading) == ("regression", "1,234.50")
    assert aim(list(range(10))).task == "regression"
    assert aim(list(range(10)) * 2).task == "classification"
    with pytest.raises(InvalidParameterError, match="classes of the target 'y' must occur more than once"):
        aim([f"name {i}" for i in range(400)])
    with pytest.raises(InvalidParameterError, match=r"known in every row; got '1 missing of 3'.*frame.dropna"):
        aim([1.5, 2.5, None])
    with pytest.raises(
        InvalidParameterError, match="of a regression must hold numbers; got 'it holds dates, 2 different'"
    ):
        make_target(summarise(pa.table({"y": ["2024-01-01", "2024-01-02"]})), "y", "regression")


def test_a_column_that_gives_the_target_away_is_warned_of(tmp_path, caplog):
    X, y = frame_of_every_kind()
    told = X[["size", "string"]].assign(copy=3 * y + 1, price=y)
    told.to_csv(tmp_path / "a.csv", index=False)
    for rows in (told, tmp_path / "a.csv"):
        caplog.clear()
        model = RFLAFRegressor(4, **QUICK).fit(rows, "price")
        assert "column 'copy' gives the target away" in caplog.text
        assert ["WARNING" in line.why for line in model.table_encoding_.decisions] == [False, False, True]


# Many levels


def many_levels(n_rows=4000, n_levels=300, seed=0):
    rng = np.random.default_rng(seed)
    level = rng.integers(0, n_levels, n_rows)
    effect = rng.standard_normal(n_levels)[level]
    frame = pd.DataFrame({"who": [f"w{i}" for i in level], "x": rng.standard_normal(n_rows)})
    return frame, effect + 0.1 * rng.standard_normal(n_rows), rng.standard_normal(n_rows)


def test_slopes_of_many_levels_are_learned():
    rng = np.random.default_rng(0)
    shop, x = rng.integers(0, 120, 4000), rng.standard_normal(4000)
    y = rng.standard_normal(120)[shop] * x + 0.1 * rng.standard_normal(4000)
    X = pd.DataFrame({"shop": [f"shop {at}" for at in shop], "x": x})
    model = RFLAFRegressor(20, alpha=1e-3, random_state=0).fit(X[:2400], y[:2400])
    assert model.table_encoding_.feature_names == ("shop", "x")
    assert model.score(X[2400:], y[2400:]) > 0.9  # .46 where only fifty levels have a value each


def test_many_levels_are_learned_and_nothing_leaks(monkeypatch):
    monkeypatch.setattr("rflaf.rows.tables.encoding._MOST_LEVELS", 50)
    X, y, noise = many_levels()
    model = RFLAFRegressor(20, **QUICK).fit(X[:3000], y[:3000])
    assert model.table_encoding_.feature_names[-2:] == ("who mean", "x")
    assert model.score(X[3000:], y[3000:]) > 0.9
    X, _, noise = many_levels(n_levels=2000)
    model = RFLAFRegressor(6, **QUICK).fit(X[:3000], noise[:3000])
    error = np.sqrt(np.mean((noise[3000:] - model.predict(X[3000:])) ** 2))
    assert error < 1.02 * np.std(noise[3000:] - noise[:3000].mean())


def test_a_level_that_has_all_the_weight_tells_nothing_of_the_others():
    weight = np.array([1e60, 1e-14, 1.0])
    means = shrunken_means(weight, weight[:, None] * [[1.0], [1e70], [3.0]], np.array([1e126]))
    assert np.array_equal(means, np.full((3, 1), means[0, 0]))


def test_a_statistic_is_cross_fitted_and_shrunken_as_the_formula_says():
    from rflaf.rows.tables.statistics import LevelSums, fold_of_rows

    rng = np.random.default_rng(0)
    code, y = rng.integers(0, 6, 500), rng.standard_normal(500)
    y += code
    sums = LevelSums([str(i) for i in range(6)], ["mean"])
    for start, stop in ((0, 130), (130, 500)):
        folds = fold_of_rows(start, stop - start)
        sums.add(code[start:stop], folds, y[start:stop, None], None)
    statistic, folds = sums.finish(), fold_of_rows(0, 500)
    assert set(folds) == set(range(5))
    for fold in (None, 2):
        kept = np.ones(500, bool) if fold is None else folds != fold
        groups = [y[kept & (code == level)] for level in range(6)]
        n = np.array([group.size for group in groups])
        means, overall = np.array([group.mean() for group in groups]), y[kept].mean()
        within = sum(((group - group.mean()) ** 2).sum() for group in groups) / (n.sum() - 6)
        spread = ((n * (means - overall) ** 2).sum() / 5 - within) / ((n.sum() - (n**2).sum() / n.sum()) / 5)
        k = within / spread
        expected = (n * means + k * overall) / (n + k)
        found = statistic.means if fold is None else statistic.by_fold[fold]
        np.testing.assert_allclose(found[:6, 0], expected, rtol=1e-10)
        np.testing.assert_allclose(found[6:, 0], overall, rtol=1e-10)


@pytest.mark.parametrize("labels", [False, True])
def test_many_levels_come_by_any_door_and_stay(tmp_path, labels):
    X, y, _ = many_levels(1500)
    frame = X.assign(y=np.where(y > 0, "up", "down") if labels else y)
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    kind = RFLAFClassifier if labels else RFLAFRegressor
    model = kind(4, **QUICK).fit(frame, "y")
    for door in (tmp_path / "a.csv", tmp_path / "a.parquet"):
        same = kind(4, **QUICK).fit(door, "y")
        assert same.table_encoding_ == model.table_encoding_
        np.testing.assert_array_equal(same.predict(frame), model.predict(frame))
        np.testing.assert_array_equal(same.predict(door), model.predict(frame))
    save(model, tmp_path / "m.rflaf")
    np.testing.assert_array_equal(load(tmp_path / "m.rflaf").predict(frame), model.predict(frame))


def test_many_levels_are_exported_to_onnx():
    runtime = pytest.importorskip("onnxruntime")
    from rflaf.export.programs import to_onnx

    X, y, _ = many_levels(1500)
    model = RFLAFRegressor(4, **QUICK).fit(X, y)
    session = runtime.InferenceSession(to_onnx(model, dtype=np.float64).SerializeToString())
    rows = pd.concat([X[:50], pd.DataFrame({"who": ["new", ""], "x": [0.0, 1.0]})])
    given = {"who": rows[["who"]].to_numpy(object), "x": rows[["x"]].to_numpy()}
    np.testing.assert_allclose(session.run(None, given)[0].ravel(), model.predict(rows), rtol=1e-5, atol=1e-5)


def test_a_category_is_one_column_of_the_model(monkeypatch):
    monkeypatch.setattr("rflaf.rows.tables.encoding._MOST_LEVELS", 50)
    X, y, _ = many_levels(1500)
    model = RFLAFRegressor(4, **QUICK).fit(X, y)
    encoding = model.table_encoding_
    assert encoding.level_counts == (52, 0, 0)
    assert model.model_.n_features == 3
    names = (*encoding.level_names[0][:-2], *["(others)"] * 2)
    codes = encoding.transform(X)[:, 0].astype(int)
    assert [names[code] for code in codes] == [who if who in names else "(others)" for who in X["who"]]


# CSV as it comes


def test_encodings_separators_and_names_are_seen(tmp_path):
    text = "\n".join(["größe;ort;ort", *[f"{i % 9},5;Köln;b" for i in range(40)], '1,5;"zwei\nZeilen";c'])
    for encoding, seen in (("utf-8", "utf-8"), ("utf-8-sig", "utf-8-sig"), ("utf-16", "utf-16"), ("latin-1", "cp1252")):
        path = tmp_path / f"{encoding}.csv"
        path.write_bytes(text.encode(encoding))
        layout = find_layout(path)
        assert (layout.delimiter, layout.encoding) == (";", seen)
        assert layout.names == ("größe", "ort", "ort.1")
        assert "'ort' is called 'ort.1'" in layout.notes[1]
        table = read_table(path)
        assert table["ort"][0].as_py() == "Köln"
        assert table["ort"][-1].as_py() == "zwei\nZeilen"
        assert make_encoding(summarise(table)).columns[0].reading == "1.234,50"
    path = tmp_path / "late.csv"
    path.write_bytes(b"a,b\n" + b"1,x\n" * 100_000 + "1,é\n".encode("latin-1"))
    with pytest.raises(InvalidParameterError, match=r"late.csv must be text in utf-8.*--encoding"):
        read_table(path)
    assert summarise(pa.concat_tables(list(_chunks(path, "latin-1")))).n_rows == 100_001


def _chunks(path, encoding):
    from rflaf.rows.files.chunks import read_rows

    return (chunk for _, chunk in read_rows(Table(path, encoding=encoding)))


def test_the_command_says_what_it_does_with_a_table(tmp_path, capsys, monkeypatch):
    rng = np.random.default_rng(0)
    a = rng.standard_normal(N)
    frame = pd.DataFrame({"a": a, "name": [f"n{i}" for i in range(N)], "price": np.abs(a).round(3)})
    frame.loc[:3, "price"] = np.nan
    path, model = tmp_path / "p.csv", tmp_path / "m.rflaf"
    frame.to_csv(path, index=False)
    command = ("fit", path, "--target", "price", "--out", model, "--width", "3", "--set", "directions=random", "--json")
    assert "--drop-missing-target" in refusal(capsys, *command)
    said = json.loads(output(capsys, *command, "--drop-missing-target"))
    assert said["rows"].pop("without_target") == 4
    assert sum(said["rows"].values()) == N - 4
    assert {line["column"]: line["read_as"] for line in said["decisions"]} == {"a": "number", "name": "left out"}
    shown = output(capsys, "inspect", path, "--target", "a")
    assert "most of its texts occur once" in shown.replace("\n", " ") or "left out" in shown
    monkeypatch.setattr("sys.stdin", _Piped(path.read_bytes()))
    assert len(output(capsys, "predict", model, "-").splitlines()) == N + 1
    monkeypatch.setattr("sys.stdin", _Piped(path.read_bytes()))
    piped = json.loads(output(capsys, *("fit", "-", *command[2:]), "--drop-missing-target"))
    assert piped["metrics"] == said["metrics"]


def test_an_odd_cell_among_the_rows_held_out_does_not_cost_the_model(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"pots of ink": rng.integers(3, 9, N).astype(str), "size": rng.standard_normal(N)})
    frame["price"] = frame["size"].round(3)
    frame.to_csv(tmp_path / "fine.csv", index=False)
    frame.head(20).assign(**{"pots of ink": ["rotary", *["4"] * 19]}).to_csv(tmp_path / "odd.csv", index=False)
    path = tmp_path / "m.rflaf"
    fit = [
        "fit",
        tmp_path / "fine.csv",
        "--target",
        "price",
        "--out",
        path,
        "--width",
        "3",
        "--set",
        "directions=random",
    ]
    assert cli.run([str(part) for part in (*fit, "--test", tmp_path / "odd.csv")]) == 2
    said = capsys.readouterr()
    assert f"fitted to all {N} rows, not measured" in said.out
    assert said.err == (
        "rflaf: column 'pots of ink' must hold numbers such as 1234.5, as in the fit; got 'rotary'. Leave it empty "
        "where there is none, or fit anew with --category 'pots of ink' (categorical_features=['pots of ink']) or "
        "--missing rotary.\n"
    )
    assert load(path).predict(frame[["pots of ink", "size"]]).shape == (N,)
    again = output(capsys, *fit, "--test", tmp_path / "odd.csv", "--category", "pots of ink")
    assert "measured on 20 rows" in again


class _Piped:
    def __init__(self, data):
        import io

        self.buffer = io.BytesIO(data)


def test_columns_at_prediction_are_told_apart(fitted):
    X, _, model = fitted
    with pytest.raises(InvalidParameterError, match=r"'size' is missing; got .*'größe'.*add or rename"):
        model.predict(X.rename(columns={"size": "größe"}))
    with pytest.raises(InvalidParameterError, match=r"column 'size' must hold numbers .* as in the fit; got 'big'"):
        model.predict(X.assign(size="big"))
    with pytest.raises(InvalidParameterError, match="numbers of column 'size' must be finite"):
        model.predict(X.assign(size=np.inf))
    with pytest.raises(InvalidParameterError, match="column 'money' must hold numbers, texts, truth values or dates"):
        model.predict(X.assign(money=[[1]] * N))


def test_inspect_tells_of_rows_without_a_target_and_quotes_names(tmp_path, capsys):
    rows = pd.DataFrame({"y": [1.5, None, 2.5, 3.5] * 10, "my size": np.arange(40) % 7, "no. of it": range(40)})
    rows.to_csv(tmp_path / "a.csv", index=False)
    told = json.loads(output(capsys, "inspect", tmp_path / "a.csv", "--target", "y", "--json"))
    assert told["rows"] == 40
    assert "10 rows have no target 'y': fit leaves them out with --drop-missing-target" in told["notes"]
    changes = {line["column"]: line["change"] for line in told["decisions"]}
    assert changes == {"my size": "--category 'my size'", "no. of it": "--read 'no. of it=number'"}
