"""Data sets: publishers' files in their own layouts, preparation, downloads, and files that would like to run code."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import os
import pickle
import tarfile
import threading
import zipfile
from dataclasses import replace
from functools import partial

import numpy as np
import openpyxl
import pytest

from rflaf import datasets
from rflaf.errors import DataNotFoundError, InvalidParameterError, MissingExtraError
from rflaf.study.datasets import published_files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of data sets, made up for these tests, and an empty cache."""
    monkeypatch.setenv("RFLAF_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def write(path, content):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def table_text(header, rows):
    return "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n"


def made_up_protein(n_rows=50):
    rng = np.random.default_rng(0)
    return table_text("RMSD,F1,F2,F3,F4,F5,F6,F7,F8,F9", rng.uniform(1, 20, (n_rows, 10)).round(3))


MADE_UP_ADULT = [  # the publisher's layout: comma and blank, ? for missing, an empty last line
    "39, State-gov, 77516, Bachelors, 13, Never-married, Sales, Not-in-family, White, Male, 2174, 0, 40, X, <=50K",
    "50, Private, 83311, HS-grad, 9, Divorced, Sales, Husband, White, Female, 0, 0, 13, Y, >50K",
    "38, ?, 215646, HS-grad, 9, Divorced, Sales, Husband, Black, Male, 0, 10, 40, X, <=50K",
    "28, Private, 338409, Bachelors, 13, Divorced, Sales, Wife, Black, Female, 0, 0, 40, ?, <=50K",
    "31, Private, 45781, Masters, 14, Never-married, Sales, Wife, White, Female, 14084, 0, 50, X, >50K",
    "",
]


def python2_batch(pixels, labels):
    """A pickle as Python 2 wrote the published batches: byte strings, numpy.core, protocol 2. Made up."""

    def text(value):
        return b"U" + bytes([len(value)]) + value

    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\nt" + text(b"b") + b"tR(I1\n"
        b"(I%d\nI%d\nt"
        % pixels.shape
        + b"cnumpy\ndtype\n("
        + text(b"u1")
        + b"I0\nI1\ntR(I3\n"
        + text(b"|")
        + b"NNNI-1\nI-1\nI0\ntbI00\nT"
        + pixels.nbytes.to_bytes(4, "little")
        + pixels.tobytes()
        + b"tb"
    )
    numbers = b"".join(b"I%d\n" % label for label in labels)
    return b"\x80\x02}(" + text(b"data") + array + text(b"labels") + b"](" + numbers + b"eu."


def cifar_archive(path, batch):
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for i, name in enumerate(
            ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
        ):
            content = batch(i)
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


# --- layouts -------------------------------------------------------------------------------------------------


def test_protein_has_its_first_column_for_a_target(folder):
    write(folder / "protein" / "CASP.csv", made_up_protein())
    data = datasets.load("protein")
    assert data.task == "regression"
    assert data.columns == tuple(f"F{i}" for i in range(1, 10))
    assert data.X_train.shape == (40, 9)
    assert data.X_test.shape == (10, 9)
    assert data.X_train.dtype == np.float32
    raw = np.loadtxt(folder / "protein" / "CASP.csv", delimiter=",", skiprows=1)
    assert np.isin(np.round(10 * np.concatenate([data.y_train, data.y_test]), 3), raw[:, 0]).all()


def test_the_papers_scaling_is_of_all_rows_over_ten(folder):
    write(folder / "protein" / "CASP.csv", made_up_protein())
    data = datasets.load("protein")
    X = np.vstack([data.X_train, data.X_test])
    assert np.allclose(X.mean(axis=0), 0, atol=1e-7)
    assert np.allclose(X.std(axis=0), 0.1, rtol=1e-5)


def test_the_standard_scaling_is_of_the_training_rows(folder):
    write(folder / "protein" / "CASP.csv", made_up_protein())
    data = datasets.load("protein", "standard")
    assert np.allclose(data.X_train.mean(axis=0), 0, atol=1e-6)
    assert np.allclose(data.X_train.std(axis=0), 1, rtol=1e-5)
    assert np.isclose(data.y_train.std(), 1)
    assert not np.allclose(data.X_test.mean(axis=0), 0, atol=1e-3)


def test_both_preparations_split_the_same_rows(folder):
    write(folder / "protein" / "CASP.csv", made_up_protein())
    paper, standard = (datasets.load("protein", kind) for kind in datasets.PREPROCESSINGS)
    assert np.argsort(paper.y_test).tolist() == np.argsort(standard.y_test).tolist()
    other = datasets.load("protein", random_state=1)
    assert not np.array_equal(np.sort(other.y_test), np.sort(paper.y_test))


def test_adult_is_numbers_then_categories_without_their_first_level(folder):
    write(folder / "adult" / "adult.data", "\n".join(MADE_UP_ADULT))
    data = datasets.load("adult")
    assert data.task == "classification"
    assert data.columns[:7] == (
        "age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week", "workclass=Private",
    )  # fmt: skip
    assert "workclass=?" not in data.columns  # the first level
    assert "native-country=X" in data.columns
    assert set(data.y_train) | set(data.y_test) == {"<=50K", ">50K"}
    indicators = np.vstack([data.X_train, data.X_test])[:, 6:]
    assert set(np.unique(indicators.round(6))) == {0.0, np.float32(0.1)}


def test_workloads_in_the_publishers_layout_drops_numbers_copies_and_missing_values(folder):
    rows = [
        [0, 1.0, 2.0, 0.1, 0.2, 5, 50, 10.0],
        [1, 1.0, 2.0, 0.1, 0.2, 5, 50, 10.0],  # a copy but for its number
        [2, 3.0, 2.0, 0.1, 0.2, 0, 0, ""],  # an average of nothing
        [3, 4.0, 2.0, 0.3, 0.2, 7, 70, 30.0],
        [4, 5.0, 1.0, 0.3, 0.1, 7, 70, 20.0],
    ]  # made up
    write(
        folder / "workloads" / "Range-Queries-Aggregates.csv", table_text(",x,y,x_range,y_range,count,sum_,avg", rows)
    )
    data = datasets.load("workloads")
    assert data.columns == ("x", "y", "x_range", "y_range", "count", "sum_")
    assert len(data.y_train) + len(data.y_test) == 3
    assert sorted([*data.y_train, *data.y_test]) == [0.1, 0.2, 0.3]
    assert np.allclose(np.vstack([data.X_train, data.X_test])[:, 0].std(), 1 / 7.5, rtol=1e-5)


@pytest.mark.parametrize("header", ["X,Y,R,Count", ",X,Y,R,Count"])
def test_workloads_radius_takes_the_columns_before_the_count(folder, header):
    rows = [[*range(header.count(",") - 3), 0.1 * i, 0.2, 0.3 + i, 100 * i] for i in range(10)]  # made up
    packed = gzip.compress(table_text(header, rows).encode())
    write(folder / "workloads" / "workloads_radius_count.csv.gz", packed)
    data = datasets.load("workloads-radius")
    assert data.columns == ("X", "Y", "R")
    assert data.X_train.shape == (8, 3)
    assert data.X_train[:, 1].tolist() == [0.0] * 8  # constant
    assert set(data.y_train) <= set(range(10))


@pytest.mark.parametrize(("name", "arrays"), [("kin8nm", "kin8nm.npz"), ("powerplant", "power-plant.npz")])
def test_arrays_and_published_tables_give_the_same_rows(folder, name, arrays):
    table = np.random.default_rng(0).uniform(size=(20, 5)).round(4)
    (folder / name).mkdir()
    np.savez(folder / name / arrays, X=table[:, :-1], y=table[:, -1])
    from_arrays = datasets.load(name)
    header = ["a", "b", "c", "d", "y"]
    if name == "kin8nm":
        write(folder / name / "kin8nm.csv", table_text(",".join(f'"{word}"' for word in header), table))
    else:
        book = openpyxl.Workbook()
        for row in (header, *table.tolist()):
            book.active.append(row)
        book.save(folder / name / "Folds5x2_pp.xlsx")
    published = datasets.load(name)
    assert published.columns == ("a", "b", "c", "d")
    assert np.array_equal(published.X_train, from_arrays.X_train)
    assert np.array_equal(published.y_test, from_arrays.y_test)


def test_cifar10_batches_written_by_python_2_are_read(folder):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (6, 2, 3072), dtype=np.uint8)
    cifar_archive(folder / "cifar10" / "cifar-10-python.tar.gz", lambda i: python2_batch(pixels[i], [i, 9 - i]))
    data = datasets.load("cifar10")
    assert data.X_train.shape == (10, 3072)
    assert np.allclose(data.X_train, (pixels[:5].reshape(10, -1) / 255 - 0.5) / 65, atol=1e-7)
    assert data.y_train.tolist() == [0, 9, 1, 8, 2, 7, 3, 6, 4, 5]
    assert np.allclose(data.X_test, (pixels[5] / 255 - 0.5) / 65, atol=1e-7)


def test_cifar10_as_arrays_is_the_same_as_batches(folder):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (6, 2, 3072), dtype=np.uint8)
    archive = folder / "cifar10" / "cifar-10-python.tar.gz"
    cifar_archive(archive, lambda i: pickle.dumps({b"data": pixels[i], b"labels": [i, i]}))
    batches = datasets.load("cifar10", "standard")
    archive.unlink()
    images = pixels.reshape(12, 3, 32, 32).transpose(0, 2, 3, 1)
    labels = np.repeat(np.arange(6), 2).astype(np.uint8)
    np.savez(
        folder / "cifar10" / "cifar10.npz",
        X_train=images[:10], y_train=labels[:10], X_test=images[10:], y_test=labels[10:],
    )  # fmt: skip
    arrays = datasets.load("cifar10", "standard")
    assert np.array_equal(arrays.X_train, batches.X_train)
    assert np.array_equal(arrays.y_test, batches.y_test)
    assert np.allclose(batches.X_train.reshape(10, 3, -1).mean(axis=(0, 2)), 0, atol=1e-4)
    assert np.allclose(batches.X_train.reshape(10, 3, -1).std(axis=(0, 2)), 1, rtol=1e-4)


class Evil:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda mark: Evil(os.system, f"touch {mark}"), "system"),
        (lambda mark: Evil(eval, f"open({mark!r}, 'w')"), "eval"),
        (lambda mark: Evil(np.save, mark, 1), "save"),
        (lambda mark: Evil(getattr, "x", "upper"), "getattr"),
    ],
)
def test_a_pickle_that_would_run_code_is_refused_and_runs_none(tmp_path, call, name):
    mark = str(tmp_path / "ran")
    batch = pickle.dumps({b"data": call(mark), b"labels": [1]})
    with pytest.raises(
        InvalidParameterError, match=f"arrays and plain values only; got '.*{name}'. Nothing of it was run"
    ):
        datasets.read_batch(io.BytesIO(batch))
    assert list(tmp_path.iterdir()) == []


# --- where files come from -----------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path):
    """Files over HTTP from this computer."""
    shared = tmp_path / "published"
    shared.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = partial(Quiet, directory=str(shared))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield shared, f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


def test_a_file_is_downloaded_once_and_checked(folder, server, monkeypatch):
    shared, address = server
    content = made_up_protein().encode()
    write(shared / "CASP.csv", content)
    checksum = hashlib.sha256(content).hexdigest()
    file = replace(published_files.FILES["protein"], address=f"{address}/CASP.csv", checksum=checksum)
    monkeypatch.setitem(published_files.FILES, "protein", file)
    first = datasets.load("protein")
    (shared / "CASP.csv").unlink()
    assert np.array_equal(datasets.load("protein").X_train, first.X_train)


def test_a_file_in_an_archive_is_taken_out_of_it(folder, server, monkeypatch):
    shared, address = server
    rows = [[i, 0.1 * i, 0.2, 0.3 + i, 100 * i] for i in range(10)]  # made up
    with zipfile.ZipFile(shared / "datasets.zip", "w") as archive:
        archive.writestr("Datasets/Radius-Queries-Count.csv", table_text(",X,Y,R,Count", rows))
    file = replace(published_files.FILES["workloads-radius"], address=f"{address}/datasets.zip")
    monkeypatch.setitem(published_files.FILES, "workloads-radius", file)
    assert datasets.load("workloads-radius").columns == ("X", "Y", "R")


def test_a_download_that_is_not_what_it_was_is_refused(folder, server, monkeypatch):
    shared, address = server
    write(shared / "CASP.csv", "something else")
    monkeypatch.setitem(
        published_files.FILES, "protein", replace(published_files.FILES["protein"], address=f"{address}/CASP.csv")
    )
    with pytest.raises(DataNotFoundError, match=r"its checksum differs. Put CASP.csv into FOLDER/protein"):
        datasets.load("protein")


@pytest.mark.parametrize("name", ["protein", "cifar10", "workloads"])
def test_offline_the_message_says_where_to_put_the_file(folder, monkeypatch, name):
    for scheme in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(scheme, "http://127.0.0.1:9")  # nobody listens there
    with pytest.raises(
        DataNotFoundError, match=f"{name!r} is not on this computer and https://.* RFLAF_DATA_DIR=FOLDER"
    ):
        datasets.load(name)


def test_without_pooch_the_extra_is_named(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(MissingExtraError, match=r"rflaf\[datasets\]"):
        datasets.load("protein")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("protien",), "the data set must be one of 'protein', .*; got 'protien'"),
        (("teacher", "raw"), "preprocessing must be 'paper' or 'standard'; got 'raw'"),
    ],
)
def test_a_wrong_word_is_refused_by_name(arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        datasets.load(*arguments)


# --- the teacher ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", [*datasets.ACTIVATIONS, np.tanh])
@pytest.mark.parametrize("spectrum", ["gaussian", "student_t"])
def test_the_truth_of_a_teacher_is_known(activation, spectrum):
    data = datasets.teacher(600, 3, activation=activation, spectrum=spectrum, noise=0.0, n_atoms=300)
    assert np.allclose(data.truth(data.X_train), data.y_train)
    sigma = data.truth.activation
    by_hand = [np.mean(sigma(x.astype(float) @ data.truth.W) * data.truth.v) for x in data.X_test[:5]]
    assert np.allclose(by_hand, data.y_test[:5])
    assert np.isclose(np.mean(data.truth.v**2), 1)  # E[v^2] <= 1, as the class F_K asks


def test_the_noise_of_a_teacher_is_in_its_deviations():
    data = datasets.teacher(4000, 2, noise=0.3, n_atoms=200)
    truth = data.truth(data.X_train)
    assert np.isclose(np.std(data.y_train - truth), 0.3 * truth.std(), rtol=0.05)


def test_a_teacher_is_fixed_by_its_seed():
    first, again, other = (datasets.load("teacher", random_state=seed) for seed in (0, 0, 1))
    assert np.array_equal(first.y_train, again.y_train)
    assert not np.array_equal(first.y_train, other.y_train)


def test_an_unknown_activation_is_refused():
    with pytest.raises(InvalidParameterError, match="activation must be one of 'wave', 'triangle', 'bump'"):
        datasets.teacher(activation="relu")


# --- the real files ------------------------------------------------------------------------------------------

SHAPES = {
    "protein": (36584, 9146, 9),
    "adult": (26049, 6512, 100),
    "workloads-radius": (8000, 2000, 3),
    "kin8nm": (6554, 1638, 8),
    "powerplant": (7654, 1914, 4),
}


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.parametrize("name", SHAPES)
def test_the_published_files_have_the_shapes_of_the_paper(name):
    if not os.environ.get("RFLAF_DATA_DIR"):
        pytest.skip("RFLAF_DATA_DIR is not set")
    data = datasets.load(name)
    n_train, n_test, n_features = SHAPES[name]
    assert data.X_train.shape == (n_train, n_features)
    assert data.X_test.shape == (n_test, n_features)
    assert len(data.columns) == n_features
    assert np.isfinite(data.X_train).all()
