"""A file that changes between two passes, or is cut short, ends the fit with its name."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pytest

from rflaf import RFLAFRegressor
from rflaf.errors import InvalidParameterError
from rflaf.rows.files import converted, scan_table
from rflaf.rows.files.numpy_rows import NumpyFile, NumpyRows, open_numpy
from rflaf.rows.files.source import FileSource, Reader, states_of
from rflaf.rows.files.table import Table

rng = np.random.default_rng(0)
X = rng.standard_normal((5000, 2))
Y = np.sin(X[:, 0])
MODEL = RFLAFRegressor(3, directions="random", alpha=1e-3, random_state=0, n_jobs=1)


def write(kind, folder, values):
    path = folder / f"rows.{kind}"
    if kind == "npy":
        np.save(path, values)
        return path
    table = pa.table({"a": values[:, 0], "b": values[:, 1], "y": Y})
    if kind == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, path)
    else:
        import pyarrow.csv as arrow_csv

        arrow_csv.write_csv(table, path)
    return path


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_a_file_replaced_between_two_passes_is_named(kind, tmp_path, monkeypatch):
    (tmp_path / "new").mkdir()
    path = write(kind, tmp_path, X)
    other = write(kind, tmp_path / "new", -X)
    passes = []
    original = FileSource._read

    def read(source, index):
        passes.append(index)
        if passes.count(0) == 2 and other.exists():
            os.replace(other, path)
        return original(source, index)

    monkeypatch.setattr(FileSource, "_read", read)
    with pytest.raises(InvalidParameterError, match=f"must not change while .*{path.name}, which did"):
        MODEL.fit(path, Y if kind == "npy" else "y")


def test_a_text_file_that_grows_while_it_is_copied_is_named(tmp_path, monkeypatch):
    path = write("csv", tmp_path, X)
    original = converted._convert

    def convert(*about):
        done = original(*about)
        with path.open("a") as file:
            file.write("1,2,3\n")
        return done

    monkeypatch.setattr(converted, "_convert", convert)
    with pytest.raises(InvalidParameterError, match=r"must not change while .*rows.csv, which did"):
        MODEL.fit(path, "y")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_replaced_after_its_scan_is_named(kind, tmp_path):
    scanned = scan_table(Table(write(kind, tmp_path, X)), "y")
    write(kind, tmp_path, X[::-1])
    with pytest.raises(InvalidParameterError, match="must not change while"):
        MODEL.fit(scanned, "y")


@pytest.mark.parametrize("asked", ["read", "take"])
def test_a_file_replaced_while_it_is_read_for_the_last_time_is_named(asked, tmp_path, monkeypatch):
    (tmp_path / "new").mkdir()
    path, other, reader = write("npy", tmp_path, X), write("npy", tmp_path / "new", -X), Reader()
    source = open_numpy(str(path), Y, None, False, reader).source
    original = getattr(NumpyRows, asked)

    def replaced(*about):
        os.replace(other, path)
        return original(*about)

    monkeypatch.setattr(NumpyRows, asked, replaced)
    with pytest.raises(InvalidParameterError, match=r"rows.npy, which did"):
        source[len(source) - 1] if asked == "read" else source.sample(50, rng)
    reader.close()


def test_a_folder_that_is_gone_counts_as_changed(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    before = states_of([str(tmp_path / "folder" / "file")])
    (tmp_path / "folder" / "file").unlink()
    (tmp_path / "folder").rmdir()
    (tmp_path / "folder").touch()
    assert states_of(list(before)) != before


def test_a_removed_file_counts_as_changed(tmp_path):
    reader = Reader()
    (tmp_path / "file").touch()
    reader.watch([str(tmp_path / "file")])
    reader.check_unchanged()
    (tmp_path / "file").unlink()
    with pytest.raises(InvalidParameterError, match="file, which did"):
        reader.check_unchanged()
    reader.close()


def test_a_numpy_file_cut_short_names_itself(tmp_path, monkeypatch):
    path = write("npy", tmp_path, X)
    monkeypatch.setattr(Reader, "check_unchanged", lambda reader: None)
    file = NumpyFile.open(str(path))
    os.truncate(path, path.stat().st_size - 100)
    with pytest.raises(InvalidParameterError, match=r"rows.npy must hold all rows .* 5000; got '4993 whole ones'"):
        file[4000:5000]
    with pytest.raises(InvalidParameterError, match=r"one whole array; got .*rows.npy"):
        MODEL.fit(path, Y)


@pytest.mark.parametrize("values", [X, Y, Y > 0, np.array(["one", "two"])[(Y > 0) * 1], X.astype(">f4")], ids=str)
def test_rows_by_their_numbers_are_read_and_a_file_cut_short_names_itself(values, tmp_path):
    np.save(tmp_path / "rows.npy", values)
    file, rows = NumpyFile.open(str(tmp_path / "rows.npy")), np.array([0, 7, 8, 4990, 4999])
    np.testing.assert_array_equal(file[rows], values[rows])
    assert file[rows].dtype == values.dtype
    os.truncate(file.path, (tmp_path / "rows.npy").stat().st_size - 3 * values[:1].nbytes - 1)
    with pytest.raises(InvalidParameterError, match=r"rows.npy must hold all rows .* 5000; got '4996 whole ones'"):
        file[rows]


CUT = """
import os, sys
from rflaf.errors import InvalidParameterError
from rflaf.rows.files.chunks import read_chunks
chunks = read_chunks(sys.argv[1], block_bytes=1)
next(chunks)
n_rows = next(chunks).num_rows
os.truncate(sys.argv[1], os.path.getsize(sys.argv[1]) // 2)
try:
    while True:
        n_rows += next(chunks).num_rows
except InvalidParameterError as error:
    print(error)
"""


@pytest.mark.parametrize("kind", ["npy", "arrow", "stream"])
def test_a_file_cut_short_while_its_chunks_are_read_does_not_end_the_process(kind, tmp_path):
    path = tmp_path / f"rows.{kind.replace('stream', 'arrow')}"
    many = np.tile(X, (40, 1))
    if kind == "npy":
        np.save(path, many)
    else:
        table = pa.table({"a": many[:, 0], "b": many[:, 1]})
        with (ipc.new_file if kind == "arrow" else ipc.new_stream)(str(path), table.schema) as file:
            file.write_table(table, 10_000)
    done = subprocess.run([sys.executable, "-c", CUT, str(path)], capture_output=True, text=True, check=True)
    assert "rows.npy must be readable" in done.stdout or "rows.arrow must be readable" in done.stdout


def test_nobody_is_advised_to_unpickle_a_file_that_is_no_array(tmp_path):
    (tmp_path / "rows.npy").write_bytes(b"\x93NU")
    with pytest.raises(InvalidParameterError, match=r"rows.npy: no array of numbers'. Write it with np.save") as caught:
        MODEL.fit(tmp_path / "rows.npy", Y)
    assert "unsafely" not in str(caught.value)
