"""Files as tables: what is read is what was written, whole or in chunks, and what is no table is refused."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import rflaf
from rflaf.errors import InvalidParameterError
from rflaf.rows.files import chunks as reading
from rflaf.rows.files.chunks import Layout, find_layout, read_chunks, read_table
from rflaf.rows.files.outputs import write_chunks
from rflaf.rows.tables import summarise


def written(path, text):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("a,b\n1,2\n", Layout(",", ("a", "b"), 1)),
        ("\n\na;b c\n1;2\n", Layout(";", ("a", "b c"), 3)),
        ("a\tb\n1\t2\n", Layout("\t", ("a", "b"), 1)),
        ("39, State-gov, 7\n50, Private, 8\n", Layout(",", ("0", "1", "2"), 0)),
        ('"a, or b",,c\n1,2,3\n', Layout(",", ("a, or b", "Unnamed: 1", "c"), 1)),
        ("\ufeffa,b\n1,2\n", Layout(",", ("a", "b"), 1, "utf-8-sig")),
        ("x\n1\n", Layout(",", ("x",), 1)),
    ],
)
def test_the_layout_is_seen_from_the_first_line(tmp_path, text, layout):
    assert find_layout(written(tmp_path / "data.csv", text)) == layout


def test_whether_there_is_a_header_can_be_said(tmp_path):
    path = written(tmp_path / "years.csv", "2019,2020\n1,2\n")
    assert read_table(path).num_rows == 2
    assert read_table(path, has_header=True).column_names == ["2019", "2020"]
    assert read_table(written(tmp_path / "words.csv", "a,b\nc,d\n"), has_header=False).num_rows == 2


@pytest.mark.parametrize("name", ["data.csv", "data.csv.gz", "data.data"])
def test_text_arrives_as_it_is(tmp_path, name):
    table = read_table(written(tmp_path / name, 'n,t\n 1 ,"x, ""y""\nz"\n?,\n'))
    assert table.to_pydict() == {"n": [" 1 ", "?"], "t": ['x, "y"\nz', ""]}
    assert summarise(table).columns["n"].n_missing == 1


def test_chunks_of_a_file_are_its_rows_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_BLOCK_BYTES", 4096)
    monkeypatch.setattr(reading, "_CHUNK_ROWS", 100)
    numbers = np.arange(3000.0)
    table = pa.table({"x": numbers, "y": numbers**2})
    for name in ("a.csv", "a.parquet", "a.npz"):
        path = tmp_path / name
        assert write_chunks([table.slice(0, 1000), table.slice(1000)], path) == 3000
        chunks = list(read_chunks(path))
        assert len(chunks) > 3
        assert chunks[0].num_rows == 0
        assert np.array_equal(np.asarray(pa.concat_tables(chunks)["y"], float), numbers**2)


def test_an_archive_is_columns_of_its_arrays(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.arange(6.0).reshape(3, 2), y=np.array(["a", "b", "c"]), z=np.ones((3, 1)))
    assert read_table(tmp_path / "a.npz").to_pydict() == {
        "X0": [0.0, 2.0, 4.0], "X1": [1.0, 3.0, 5.0], "y": ["a", "b", "c"], "z": [1.0, 1.0, 1.0],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "a.csv must have rows; got 'an empty file'"),
        ("a.csv", b"a,b\n1,2\n3\n", "every line of a.csv must have the 2 cells of the first; got '1 in line 3'"),
        ("a.csv", b"a,b\n\0\0\0,\xff\n", "a.csv must be text in utf-16-be"),
        ("a.csv.gz", b"no gzip", "a.csv.gz must be a whole gzip file"),
        ("a.parquet", b"no parquet", "a.parquet must be readable as a table"),
        ("a.npz", b"no archive", "a.npz must be readable as a table"),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidParameterError, match=message) as caught:
        read_table(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidParameterError, match="the data must be a file"):
        read_table(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.zeros((3, 2)), "y": np.zeros(2)}, "must have as many rows as one another"),
        ({"X": np.zeros((3, 2, 2))}, "has 3 dimensions, not one or two"),
        ({"X": np.array([object()])}, "must be readable as a table"),
        ({}, "must have as many rows"),
    ],
)
def test_archives_that_are_no_tables_are_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InvalidParameterError, match=message):
        read_table(tmp_path / "a.npz")


def test_repeated_names_in_parquet_are_refused(tmp_path):
    parquet.write_table(pa.table([[1], [2]], names=["x", "x"]), tmp_path / "a.parquet")
    with pytest.raises(InvalidParameterError, match="column names must differ"):
        read_table(tmp_path / "a.parquet")


def test_texts_of_a_damaged_arrow_file_are_refused_before_they_are_read(tmp_path):
    path = tmp_path / "t.arrow"
    texts = pa.array(["Ulm", "Bonn", "Kiel"] * 20)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, pa.schema({"a": pa.string()})) as writer:
        writer.write_table(pa.table({"a": texts}))
    content, offsets = path.read_bytes(), texts.buffers()[1].to_pybytes()[: 4 * 61]
    at = content.index(offsets)
    path.write_bytes(content[: at + 40] + (2**30).to_bytes(4, "little") + content[at + 44 :])
    with pytest.raises(InvalidParameterError, match=r"t.arrow must be readable as a table.*offset"):
        read_table(path)  # reading them ended the process


@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_a_damaged_header_of_numpy_is_refused_by_name(kind, tmp_path):
    path = tmp_path / f"t.{kind}"
    np.save(path, np.ones((3, 2))) if kind == "npy" else np.savez(path, X=np.ones((3, 2)))
    path.write_bytes(path.read_bytes().replace(b"{'descr", b"y'descr"))
    with pytest.raises(InvalidParameterError, match=f"t.{kind}"):
        read_table(path)
    with pytest.raises(InvalidParameterError, match=f"t.{kind}"):
        rflaf.RFLAFRegressor().fit(path, np.ones(3) if kind == "npy" else "X1")


def test_any_end_of_lines_is_read_and_a_first_line_that_is_none_is_refused(tmp_path):
    for end in ("\n", "\r\n", "\r"):
        (tmp_path / "t.csv").write_bytes(end.join(["a,b", "1,2", "3,x", ""]).encode())
        assert read_table(tmp_path / "t.csv").to_pydict() == {"a": ["1", "3"], "b": ["2", "x"]}
    (tmp_path / "t.csv").write_bytes(b"a" * 200_000 + b",b\n1,2\n")
    with pytest.raises(InvalidParameterError, match=r"t.csv must begin as a table; got 'field larger"):
        read_table(tmp_path / "t.csv")
