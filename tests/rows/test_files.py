"""Rows in files: the same fit as in memory, however they are cut; and files that cannot be used, refused by name."""

from __future__ import annotations

import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from rflaf import GreedySelection, LeverageSampling, RandomActivationFeatures, RFLAFClassifier, RFLAFRegressor
from rflaf.errors import InvalidParameterError, MissingExtraError
from rflaf.rows.blocks import ArraySource, LabelTargets
from rflaf.rows.files import Table, find_files, is_files, open_table

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
csv = pytest.importorskip("pyarrow.csv")

rng = np.random.default_rng(0)
N = 900
X = rng.standard_normal((N, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(N)
WEIGHT = rng.integers(0, 3, N).astype(float)
COUNTS = np.floor(np.abs(2 * Y))
LABELS = np.where(Y > 1, "high", np.where(Y > 0, "middle", "low"))
INPUTS = ["a", "b", "c"]
RANDOM = {"directions": "random", "random_state": 0, "n_jobs": 1}
TABLE = pa.table(
    {"a": X[:, 0], "y": Y, "b": X[:, 1], "c": X[:, 2], "w": WEIGHT, "count": COUNTS, "label": LABELS, "y2": Y**2}
)
quick = settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])


def write(folder, edges=(), row_group=N, table=TABLE):
    """Parquet files of consecutive rows, cut at edges; returns the folder."""
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    bounds = [0, *sorted(set(edges)), table.num_rows]
    for number, (first, last) in enumerate(pairwise(bounds)):
        pq.write_table(table.slice(first, last - first), folder / f"{number:03}.parquet", row_group_size=row_group)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("files") / "rows", (100, 350), 77)


def rows(folder):
    return Table(folder, columns=INPUTS)


# Blocks


def collected(source):
    blocks = [source[i] for i in range(len(source))]
    return [np.concatenate([getattr(block, name) for block in blocks]) for name in ("X", "y", "weight")]


@pytest.mark.slow
@quick
@given(st.lists(st.integers(1, N - 1), max_size=4), st.integers(5, N), st.integers(20, 1000))
def test_blocks_do_not_depend_on_files_and_row_groups(tmp_path, edges, row_group, block_rows):
    opened = open_table(rows(write(tmp_path / "rows", edges, row_group)), ["y", "y2"], "w")
    try:
        source = opened.source.with_rows(block_rows)
        assert [source[i].n_rows for i in range(len(source))] == [
            block.n_rows for block in ArraySource(X, Y[:, None], None, block_rows)
        ]
        for found, expected in zip(collected(source), (X, np.column_stack([Y, Y**2]), WEIGHT), strict=True):
            np.testing.assert_array_equal(found, expected)
    finally:
        opened.close()


@quick
@given(st.integers(10, 400), st.lists(st.integers(0, 10**6), min_size=1, max_size=12))
def test_any_block_can_be_read_at_any_time(folder, block_rows, wanted):
    opened = open_table(rows(folder), "y")
    try:
        source, expected = opened.source.with_rows(block_rows), ArraySource(X, Y[:, None], None, block_rows)
        for index in wanted:
            np.testing.assert_array_equal(source[index % len(source)].X, expected[index % len(source)].X)
        with pytest.raises(IndexError):
            source[len(source)]
    finally:
        opened.close()


def test_workers_may_ask_for_blocks_in_any_order(folder):
    opened = open_table(rows(folder), "y")
    source, expected = opened.source.with_rows(10), ArraySource(X, Y[:, None], None, 10)
    found: dict[int, np.ndarray] = {}

    def worker(start):
        for index in range(start, len(source), 3):
            found[index] = source[index].X

    threads = [threading.Thread(target=worker, args=(start,)) for start in (2, 0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    opened.close()
    for index in range(len(source)):
        np.testing.assert_array_equal(found[index], expected[index].X)


@quick
@given(st.integers(1, 2 * N), st.integers(0, 2**31))
def test_a_sample_is_that_of_the_array_for_the_same_generator(folder, n_rows, seed):
    opened = open_table(rows(folder), "y", "w")
    try:
        ours, theirs = np.random.default_rng(seed), np.random.default_rng(seed)
        sample = opened.source.sample(n_rows, ours)
        expected = ArraySource(X, Y[:, None], WEIGHT).sample(n_rows, theirs)
        np.testing.assert_array_equal(sample.X, expected.X)
        np.testing.assert_array_equal(sample.weight, expected.weight)
        assert ours.random() == theirs.random()
    finally:
        opened.close()


def test_single_precision_files_are_read_as_such(tmp_path):
    table = TABLE.set_column(0, "a", TABLE["a"].cast("float32")).select(["a", "y"])
    opened = open_table(write(tmp_path / "rows", table=table), "y")
    assert opened.source.dtype == opened.source[0].X.dtype == np.float32
    assert opened.source[0].y.dtype == np.float64
    opened.close()


def test_labels_become_zeros_and_ones_and_classes_weigh():
    source = ArraySource(np.zeros((4, 1)), np.array([["b"], ["a"], ["c"], ["b"]], object), np.arange(4.0))
    view = LabelTargets(source, np.array(["a", "b", "c"]), np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(view[0].y, [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]])
    np.testing.assert_array_equal(view[0].weight, [0, 1, 6, 6])
    assert view.n_outputs == 3
    two = LabelTargets(ArraySource(np.zeros((2, 1)), np.array([[7], [3]], object)), np.array([3, 7]))
    np.testing.assert_array_equal(two[0].y, [[1], [0]])


# The same fit

MODELS = {
    "shared": RFLAFRegressor(8, activation="shared", **RANDOM),
    "one a component": RFLAFRegressor(4, **RANDOM),
    "leverage": RFLAFRegressor(8, activation="shared", sampling=LeverageSampling(60), **RANDOM),
    "leverage of a sample": RFLAFRegressor(8, activation="shared", sampling=LeverageSampling(60, rows=500), **RANDOM),
    "greedy": RFLAFRegressor("auto", sampling=GreedySelection(60), **RANDOM),
    "huber": RFLAFRegressor(4, loss="huber", **RANDOM),
    "quantile": RFLAFRegressor(8, loss="quantile", quantile=0.8, activation="shared", **RANDOM),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_fit_from_files_is_that_from_memory(name, folder):
    model = MODELS[name]
    expected = model.fit(X, Y, sample_weight=WEIGHT).predict(X)
    model.fit(rows(folder), "y", sample_weight="w")
    np.testing.assert_allclose(model.predict(folder), expected, rtol=0, atol=1e-6)
    assert list(model.feature_names_in_) == INPUTS
    assert model.n_features_in_ == 3


@pytest.mark.slow
@quick
@given(st.lists(st.integers(1, N - 1), max_size=5), st.integers(5, N), st.sampled_from(["shared", "one a component"]))
def test_any_partition_into_files_and_row_groups_gives_the_same_model(tmp_path, edges, row_group, name):
    model = MODELS[name]
    expected = model.fit(X, Y).predict(X)
    files = write(tmp_path / "rows", edges, row_group)
    assert np.abs(model.fit(rows(files), "y").predict(files) - expected).max() < 1e-6


@pytest.mark.slow
def test_counts_and_two_outputs_from_files(folder):
    poisson = RFLAFRegressor(4, loss="poisson", **RANDOM)
    expected = poisson.fit(X, COUNTS).predict(X)
    np.testing.assert_allclose(poisson.fit(rows(folder), "count").predict(folder), expected, atol=1e-6)
    both = MODELS["shared"]
    expected = both.fit(X, np.column_stack([Y, Y**2])).predict(X)
    np.testing.assert_allclose(both.fit(rows(folder), ["y", "y2"]).predict(folder), expected, atol=1e-6)
    with pytest.raises(InvalidParameterError, match="counts must not be negative"):
        poisson.fit(rows(folder), "y")


@pytest.mark.parametrize("options", [{}, {"class_weight": "balanced"}, {"class_weight": {"low": 3.0}}])
def test_labels_from_files(folder, options):
    model = RFLAFClassifier(4, alpha=1e-4, **RANDOM, **options)
    expected = model.fit(X, LABELS, sample_weight=WEIGHT).predict_proba(X)
    accuracy = model.score(X, LABELS)
    model.fit(rows(folder), "label", sample_weight="w")
    np.testing.assert_allclose(model.predict_proba(folder), expected, atol=1e-6)
    np.testing.assert_allclose(model.predict_log_proba(folder), np.log(expected), atol=1e-5)
    assert model.score(folder, "label") == pytest.approx(accuracy)
    assert list(model.classes_) == ["high", "low", "middle"]
    assert set(model.predict(folder)) <= set(model.classes_)


def test_refined_directions_from_files(folder):
    model = RFLAFRegressor(4, curves=False, alpha=1e-4, random_state=0)
    expected = model.fit(X, Y).predict(X)
    np.testing.assert_allclose(model.fit(rows(folder), "y").predict(folder), expected, atol=1e-6)


def test_features_deviations_and_scores_from_files(folder):
    features = RandomActivationFeatures(8, activation="shared", **RANDOM)
    expected = features.fit(X, Y).transform(X)
    np.testing.assert_allclose(features.fit(rows(folder), "y").transform(folder), expected, atol=1e-6)
    model = MODELS["shared"].fit(X, Y)
    expected, score = model.predict(X, return_std=True)[1], model.score(X, Y, WEIGHT)
    model.fit(rows(folder), "y")
    np.testing.assert_allclose(model.predict(folder, return_std=True)[1], expected, atol=1e-6)
    assert model.score(folder, "y", "w") == pytest.approx(score, abs=1e-9)


def test_predictions_are_written_where_they_are_wanted(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("rflaf.training.memory._PREDICTED_ROWS", 100)
    model = MODELS["shared"].fit(X, Y)
    mean, deviation = model.predict(X, return_std=True)
    model.fit(rows(folder), "y")
    out = np.lib.format.open_memmap(tmp_path / "predictions.npy", "w+", np.float32, (N,))
    assert model.predict(folder, out=out) is out
    np.testing.assert_allclose(np.load(tmp_path / "predictions.npy"), mean, atol=1e-5)
    pair = np.empty(N), np.empty(N)
    assert model.predict(folder, return_std=True, out=pair)[1] is pair[1]
    np.testing.assert_allclose(pair, (mean, deviation), atol=1e-6)
    features = np.empty((N, model.n_components_))
    np.testing.assert_array_equal(model.transform(rows(folder), out=features), model.transform(rows(folder)))
    table = TABLE.select(INPUTS).to_pandas()
    np.testing.assert_allclose(model.predict(table, out=pair[0]), mean, atol=1e-6)
    labels = RFLAFClassifier(4, alpha=1e-4, **RANDOM).fit(rows(folder), "label")
    probabilities = np.empty((N, 3))
    for method in ("predict_proba", "predict_log_proba", "decision_function"):
        answers = getattr(labels, method)
        np.testing.assert_array_equal(answers(folder, out=probabilities), answers(table))
    np.testing.assert_array_equal(labels.predict(folder, out=np.empty(N, "U9")), labels.predict(table))


@pytest.mark.parametrize(
    ("out", "found"),
    [
        (np.empty(N - 1), "float64 of shape \\(899,\\)"),
        (np.empty((N, 1)), "shape \\(900, 1\\)"),
        (np.empty(N, int), "int64"),
        ([0.0] * N, "list"),
    ],
)
def test_an_array_that_cannot_hold_the_predictions_is_refused(folder, out, found):
    model = MODELS["shared"].fit(rows(folder), "y")
    for table in (folder, TABLE.select(INPUTS).to_pandas()):
        with pytest.raises(InvalidParameterError, match=f"out must be an array of shape .900,. .*{found}"):
            model.predict(table, out=out)
    labels = RFLAFClassifier(4, alpha=1e-4, **RANDOM).fit(X, LABELS)
    with pytest.raises(InvalidParameterError, match=r"out must be .* that can hold <U6"):
        labels.predict(X, out=np.empty(N, "U3"))


def test_csv_and_numpy_files_give_the_model_of_the_array(tmp_path):
    model = MODELS["one a component"]
    expected = model.fit(X, Y, sample_weight=WEIGHT).predict(X)
    csv.write_csv(TABLE.slice(0, 400), tmp_path / "0.csv")
    csv.write_csv(TABLE.slice(400), tmp_path / "1.csv")
    model.fit(Table(str(tmp_path / "*.csv"), columns=INPUTS), "y", sample_weight="w")
    np.testing.assert_allclose(model.predict(str(tmp_path / "*.csv")), expected, atol=1e-6)
    for name, array in (("X", X), ("y", Y), ("w", WEIGHT)):
        np.save(tmp_path / f"{name}.npy", array)
    model.fit(tmp_path / "X.npy", tmp_path / "y.npy", sample_weight=tmp_path / "w.npy")
    np.testing.assert_allclose(model.predict(tmp_path / "X.npy"), expected, atol=1e-6)
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-6)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_allclose(model.fit(mapped, Y, sample_weight=WEIGHT).predict(X), expected, atol=1e-6)
    labels = RFLAFClassifier(4, alpha=1e-4, **RANDOM)
    expected = labels.fit(X, LABELS).predict_proba(X)
    np.testing.assert_allclose(labels.fit(tmp_path / "X.npy", LABELS).predict_proba(X), expected, atol=1e-6)
    files = Table([tmp_path / "0.csv", tmp_path / "1.csv"], columns=INPUTS)
    np.testing.assert_allclose(labels.fit(files, "label").predict_proba(files), expected, atol=1e-6)


def test_nothing_is_left_behind_by_a_csv_file(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    csv.write_csv(TABLE, tmp_path / "rows.csv")
    before = threading.active_count()
    MODELS["shared"].fit(Table(tmp_path / "rows.csv", columns=INPUTS), "y")
    with pytest.raises(InvalidParameterError):
        MODELS["shared"].fit(Table(tmp_path / "rows.csv", columns=INPUTS), "label")
    assert list((tmp_path / "temporary").iterdir()) == []
    assert threading.active_count() == before


# Columns of all kinds


def test_categories_and_gaps_are_encoded_as_in_memory(tmp_path):
    colours = np.array(["red", "green", "blue"])[rng.integers(0, 3, N)]
    gappy = pa.array(np.where(rng.random(N) < 0.2, np.nan, X[:, 2]), from_pandas=True)
    table = TABLE.append_column("colour", pa.array(colours)).append_column("gappy", gappy)
    columns = ["a", "colour", "gappy"]
    in_memory = table.select(columns)
    model = MODELS["shared"]
    expected = model.fit(in_memory, Y).predict(in_memory)
    files = write(tmp_path / "rows", (123,), 50, table)
    model.fit(Table(files, columns=columns), "y")
    np.testing.assert_allclose(model.predict(files), expected, atol=1e-6)
    assert list(model.feature_names_in_) == columns
    features = ("a", "colour", "gappy", "gappy missing")
    assert model.table_encoding_.feature_names == features
    unseen = table.slice(0, 5).set_column(table.column_names.index("colour"), "colour", pa.array(["mauve"] * 5))
    assert np.isfinite(model.predict(write(tmp_path / "unseen", table=unseen))).all()
    csv.write_csv(table, tmp_path / "rows.csv")
    model.fit(Table(tmp_path / "rows.csv", columns=columns), "y")
    np.testing.assert_allclose(model.predict(tmp_path / "rows.csv"), expected, atol=1e-6)


def test_a_text_that_says_nothing_is_left_out(tmp_path):
    table = TABLE.select([*INPUTS, "y"]).append_column("day", pa.array(["Monday"] * N))
    files = write(tmp_path / "rows", (100,), 77, table)
    model = MODELS["shared"].fit(files, "y")
    assert list(model.feature_names_in_) == [*INPUTS, "day"]
    assert list(model.table_encoding_.feature_names) == INPUTS
    assert [left.name for left in model.table_encoding_.dropped] == ["day"]
    assert "a column to learn from" in refused(Table(files, columns=["day"]))


def test_missing_values_are_missing_whether_empty_or_not_a_number(tmp_path):
    gaps = np.where(rng.random(N) < 0.2, np.nan, X[:, 2])
    answers = []
    for column in (pa.array(gaps), pa.array(gaps, from_pandas=True)):
        files = write(tmp_path / "rows", (), 100, TABLE.select(["a", "y"]).append_column("gaps", column))
        answers.append(MODELS["shared"].fit(files, "y").predict(files))
    np.testing.assert_array_equal(*answers)


# Which files


def test_what_names_files(tmp_path):
    assert is_files("a.parquet")
    assert is_files(tmp_path)
    assert is_files(Table("a"))
    assert is_files(["a.csv", tmp_path])
    assert not any(is_files(rows) for rows in ([], [["a"]], [1.0], X, None, {"a": [1]}))


def test_files_are_found_in_order(folder, tmp_path):
    expected = [str(folder / f"{number:03}.parquet") for number in range(3)]
    assert find_files(folder) == find_files(str(folder / "*.parquet")) == find_files(list(expected)) == expected
    with pytest.raises(InvalidParameterError, match="files that are there"):
        find_files(tmp_path)
    with pytest.raises(InvalidParameterError, match=r"files that are there; got 'nowhere\.parquet'"):
        RFLAFRegressor().fit("nowhere.parquet", "y")
    (tmp_path / "a.csv").write_text("a\n1\n")
    with pytest.raises(InvalidParameterError, match="of one kind"):
        find_files([folder, tmp_path / "a.csv"])
    (tmp_path / "a.txt").write_text("a")
    assert find_files(tmp_path / "a.txt") == [str(tmp_path / "a.txt")]  # read as CSV


def test_without_the_extra_it_is_named(folder, monkeypatch):
    import sys

    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rflaf\[files\]'"):
        RFLAFRegressor().fit(folder, "y")


# What cannot be used


def replaced(table, column, row, value):
    values = table[column].to_numpy().copy()
    values[row] = value
    return table.set_column(table.column_names.index(column), column, pa.array(values))


def refused(X, y="y", weight=None, model=None):
    """The error of a fit, after which nothing is fitted."""
    model = RFLAFRegressor(4, **RANDOM) if model is None else model
    before = threading.active_count()
    with pytest.raises(InvalidParameterError) as error:
        model.fit(X, y, sample_weight=weight)
    assert not hasattr(model, "model_")
    assert not hasattr(model, "n_features_in_")
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    assert threading.active_count() == before
    return str(error.value)


@pytest.mark.parametrize(
    ("column", "value", "options", "rule"),
    [
        ("b", np.inf, {}, "an infinite value"),
        ("y", np.nan, {}, 'targets must be known in every row; got "a missing value'),
        ("y", -np.inf, {}, "an infinite value"),
        ("w", -1.0, {"weight": "w"}, 'weights must be numbers, at least zero; got "-1.0'),
        ("w", np.nan, {"weight": "w"}, 'weights must be numbers, at least zero; got "nan'),
    ],
)
def test_a_bad_value_is_told_with_file_row_group_and_column(tmp_path, column, value, options, rule):
    files = write(tmp_path / "rows", (300,), 100, replaced(TABLE, column, 555, value))
    message = refused(rows(files), **options)
    for part in (rule, "001.parquet, row group 2", f"column {column!r}"):
        assert part in message


def test_a_column_missing_in_one_file_is_named(tmp_path):
    files = write(tmp_path / "rows", (300, 600))
    pq.write_table(TABLE.slice(300, 300).drop_columns(["b"]), files / "001.parquet")
    message = refused(rows(files))
    assert "every file must have a column 'b'" in message
    assert "001.parquet" in message
    (tmp_path / "csv").mkdir()
    for number, part in enumerate((TABLE, TABLE.drop_columns(["b"]))):
        csv.write_csv(part, tmp_path / "csv" / f"{number}.csv")
    message = refused(rows(tmp_path / "csv"))
    assert "every file must have a column 'b'" in message
    assert "1.csv" in message


def test_another_type_in_one_file_is_named(tmp_path):
    files = write(tmp_path / "rows", (300, 600))
    odd = TABLE.slice(300, 300).set_column(2, "b", pa.array(["x"] * 300))
    pq.write_table(odd, files / "001.parquet")
    message = refused(rows(files))
    for part in ("column 'b' must be of one type in all files", "double in", "string in", "001.parquet, row group 0"):
        assert part in message
    (tmp_path / "csv").mkdir()
    for number, part in enumerate((TABLE, odd)):
        csv.write_csv(part, tmp_path / "csv" / f"{number}.csv")
    message = refused(rows(tmp_path / "csv"))
    for part in ("column 'b' must be of one type in all files", "number in", "category in", "1.csv"):
        assert part in message


def test_a_file_cut_short_is_named(tmp_path):
    files = write(tmp_path / "rows", (300, 600))
    whole = (files / "001.parquet").read_bytes()
    (files / "001.parquet").write_bytes(whole[: len(whole) // 2])
    message = refused(rows(files))
    assert "whole Parquet file" in message
    assert "001.parquet" in message
    (files / "001.parquet").write_bytes(b"")
    assert "001.parquet" in refused(rows(files))


def test_a_row_group_that_is_damaged_is_named_with_its_column(tmp_path):
    files = write(tmp_path / "rows", (300,), 100)
    file = files / "001.parquet"
    chunk = pq.ParquetFile(file).metadata.row_group(3).column(2)
    whole = bytearray(file.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    whole[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    file.write_bytes(bytes(whole))
    message = refused(rows(files))
    for part in ("every row group must be readable", "001.parquet, row group 3", "column 'b'"):
        assert part in message


def test_a_file_without_rows_is_named(tmp_path):
    files = write(tmp_path / "rows", (300,))
    pq.write_table(TABLE.slice(0, 0), files / "002.parquet")
    assert "002.parquet, which has none" in refused(rows(files))
    (tmp_path / "rows.csv").write_text("a,b,c,y\n")
    assert "rows.csv" in refused(tmp_path / "rows.csv")
    (tmp_path / "rows.csv").write_text("")
    assert "rows.csv" in refused(tmp_path / "rows.csv")


def test_a_bad_value_of_a_csv_file_is_named(tmp_path):
    csv.write_csv(replaced(TABLE.select([*INPUTS, "y"]), "y", 500, np.nan), tmp_path / "rows.csv")
    message = refused(tmp_path / "rows.csv")
    for part in ("must be known in every row", "rows.csv, row group 0", "column 'y'"):
        assert part in message


@pytest.mark.parametrize("door", ["parquet", "csv", "npy"])
def test_weights_whose_sum_is_beyond_double_precision_are_refused(door, tmp_path):
    weight = np.full(N, 1e306)  # each a number, their sum none
    far = TABLE.select([*INPUTS, "y"]).append_column("w", pa.array(weight))
    if door == "parquet":
        message = refused(rows(write(tmp_path / "rows", (100, 350), 77, far)), "y", "w")
    elif door == "csv":
        csv.write_csv(far, tmp_path / "rows.csv")
        message = refused(tmp_path / "rows.csv", "y", "w")
    else:
        for name, values in {"X": X, "y": Y, "w": weight}.items():
            np.save(tmp_path / f"{name}.npy", values)
        message = refused(*(tmp_path / f"{name}.npy" for name in "Xyw"))
    assert "the sum of the weights must be a finite number; got inf. Divide all weights" in message


def test_names_that_do_not_fit_are_refused(folder, tmp_path):
    assert "every file must have a column 'nothing', once" in refused(folder, "nothing")
    assert "the name of the target column" in refused(folder, Y)
    assert "the name of a column" in refused(folder, "y", WEIGHT)
    assert "other than target and weight" in refused(Table(folder, columns=["a", "y"]), "y")
    assert "targets must be numbers" in refused(rows(folder), "label")
    nothing = write(tmp_path / "rows", table=replaced(TABLE, "w", slice(None), 0.0))
    assert "some weights must be above zero" in refused(rows(nothing), "y", "w")
    assert "labels must be texts" in refused(rows(folder), "y", model=RFLAFClassifier(4, **RANDOM))
    one = write(tmp_path / "rows", table=TABLE.append_column("one", pa.array(["same"] * N)))
    assert "at least two classes" in refused(rows(one), "one", model=RFLAFClassifier(4, **RANDOM))


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_counts_that_are_all_zero_are_refused_as_in_memory(folder, tmp_path, fit_intercept):
    model = RFLAFRegressor(4, loss="poisson", fit_intercept=fit_intercept, **RANDOM)
    with pytest.raises(InvalidParameterError) as error:
        model.fit(X, np.zeros(N))
    assert "some counts must be above zero" in str(error.value)
    zeros = write(tmp_path / "rows", (100,), 70, replaced(TABLE, "count", slice(None), 0.0))
    assert refused(rows(zeros), "count", model=model) == str(error.value)
    csv.write_csv(pq.read_table(zeros), tmp_path / "zeros.csv")
    assert refused(rows(tmp_path / "zeros.csv"), "count", model=model) == str(error.value)
    np.save(tmp_path / "X.npy", X)
    assert refused(tmp_path / "X.npy", np.zeros(N), model=model) == str(error.value)


def test_numpy_files_that_do_not_fit_are_refused(tmp_path):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "F.npy", np.asfortranarray(X))
    np.save(tmp_path / "bad.npy", np.where(X[700, 1] == X, np.inf, X))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "X.npy").read_bytes()[:1000])
    assert "as many rows as X, 900; got 899" in refused(tmp_path / "X.npy", Y[:-1])
    assert "row by row" in refused(tmp_path / "F.npy", Y)
    assert "one whole array" in refused(tmp_path / "cut.npy", Y)
    message = refused(tmp_path / "bad.npy", Y)
    assert "an infinite value" in message
    assert "bad.npy" in message
    assert "column 1" in message
    model = MODELS["shared"].fit(X, Y)
    np.save(tmp_path / "narrow.npy", X[:, :2])
    with pytest.raises(InvalidParameterError, match="rows must have the 3 columns of the fit; got 2"):
        model.predict(tmp_path / "narrow.npy")


def test_a_failed_fit_leaves_a_fitted_model_as_it_was(folder, tmp_path):
    model = RFLAFRegressor(4, **RANDOM).fit(rows(folder), "y")
    before = model.predict(folder)
    files = write(tmp_path / "rows", (), 100, replaced(TABLE, "b", 555, np.inf))
    with pytest.raises(InvalidParameterError):
        model.fit(Table(files, columns=["b"]), "y")
    np.testing.assert_array_equal(model.predict(folder), before)


@pytest.mark.parametrize("odd", [[np.inf, -np.inf], [1.7e308, 1.7e308]])
def test_numbers_of_a_numpy_file_that_overflow_leak_no_warning(odd, tmp_path):
    values = X.copy()
    values[:2, 1] = odd
    np.save(tmp_path / "X.npy", values)
    with pytest.raises(InvalidParameterError, match="finite"):
        RFLAFRegressor(2, **RANDOM).fit(tmp_path / "X.npy", Y)
