"""What is written replaces a file in one step, follows links, and never replaces a device."""

from __future__ import annotations

import errno
import gc
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import rflaf
from rflaf.cli.app import run
from rflaf.errors import InvalidParameterError, UnreadableModelFile
from rflaf.rows.files.outputs import check_output, check_table_output, replacing

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links, pipes and locks of POSIX")


def write(path, text="new"):
    with replacing(path) as temporary:
        temporary.write_text(text)


def test_a_link_stays_and_the_file_it_names_is_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write(link)
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["folder", "link", "target"]


def test_a_link_to_nothing_yet_makes_its_file(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_a_link_to_itself_is_refused(tmp_path):
    for name in ("loop", "loop/file"):
        (tmp_path / "loop").unlink(missing_ok=True)
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        with pytest.raises(InvalidParameterError, match="the output must"):
            write(tmp_path / name)
        assert (tmp_path / "loop").is_symlink()


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.npy", "rows.arrow", "rows"])
def test_tables_that_are_pipes_are_refused_at_once(name, tmp_path, capsys):
    os.mkfifo(tmp_path / name)
    with pytest.raises(InvalidParameterError, match=r"a table must be in files.* a pipe or a device"):
        rflaf.RFLAFRegressor().fit(tmp_path / name, np.zeros(3) if name.endswith("npy") else "y")
    assert run(["inspect", str(tmp_path / name)]) == 2
    assert "a pipe or a device" in capsys.readouterr().err


def test_a_table_is_closed_when_it_was_read(tmp_path):
    rng = np.random.default_rng(0)
    np.savetxt(tmp_path / "t.csv", rng.standard_normal((50, 3)), delimiter=",", header="a,b,y", comments="")
    before = os.listdir("/proc/self/fd")
    gc.disable()  # a cycle would keep the file, and the disk it takes, until it is collected
    try:
        model = rflaf.RFLAFRegressor(2, directions="random", random_state=0).fit(tmp_path / "t.csv", "y")
        model.predict(tmp_path / "t.csv")
        assert len(os.listdir("/proc/self/fd")) <= len(before)
    finally:
        gc.enable()


def test_a_device_is_written_into_and_stays_a_device():
    write(Path("/dev/null"))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_pipe_is_written_into(tmp_path):
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    write(pipe)
    reader.join(10)
    assert found == ["new"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_the_mode_of_a_replaced_file_stays(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o640)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EBUSY])
def test_a_file_that_cannot_be_replaced_is_written_into(tmp_path, monkeypatch, number):
    path = tmp_path / "file"
    path.write_text("old")

    def refuse(self, target):
        raise OSError(number, "as if mounted from elsewhere")

    monkeypatch.setattr(Path, "replace", refuse)
    write(path)
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_folders_and_sockets_are_refused(tmp_path):
    import socket

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for name in ("", "socket", "no/file"):
            with pytest.raises(InvalidParameterError, match="a file in a folder that exists"):
                check_output(tmp_path / name)


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def fail():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


KILLED = """
import sys, time
from pathlib import Path
from rflaf.rows.files.outputs import replacing
with replacing(Path(sys.argv[1])) as temporary:
    temporary.write_text("half")
    print("ready", flush=True)
    time.sleep(600)
"""


def test_temporaries_of_a_killed_process_are_swept_and_those_of_a_living_one_are_not(tmp_path):
    path = tmp_path / "file"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"ready\n"
        write(path)
        assert len(list(tmp_path.iterdir())) == 2
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert len(list(tmp_path.iterdir())) == 2
    other = tmp_path / ".file.of-yours"
    other.write_text("kept")
    write(path, "newer")
    assert sorted(tmp_path.iterdir()) == [other, path]
    assert path.read_text() == "newer"


@pytest.mark.parametrize("name", ["p.xlsx", "p.tsv", "p.csv.gz", "p.npy", "p.txt"])
def test_a_table_is_not_named_as_what_it_is_not(name, tmp_path):
    with pytest.raises(InvalidParameterError, match=f"must end in one of .csv, .*; got '{name}'"):
        check_table_output(tmp_path / name)


def test_names_of_tables_that_are_written(tmp_path):
    for name in ("p.csv", "P.CSV", "p.parquet", "p.npz", "p.arrow", "predictions"):
        check_table_output(tmp_path / name)


@pytest.mark.parametrize("read", [rflaf.load, rflaf.export.model_file.describe_file])
def test_a_pipe_or_a_device_is_no_model_and_is_not_waited_for(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    began = time.monotonic()
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(UnreadableModelFile, match="a pipe or a device"):
            read(path)
    assert time.monotonic() - began < 5


def test_a_model_is_saved_through_a_link(tmp_path):
    X = np.linspace(0, 1, 60)[:, None]
    model = rflaf.RFLAFRegressor.convex(3, random_state=0).fit(X, X[:, 0])
    (tmp_path / "latest").symlink_to(tmp_path / "first.rflaf")
    rflaf.save(model, tmp_path / "latest")
    np.testing.assert_array_equal(rflaf.load(tmp_path / "first.rflaf").predict(X), model.predict(X))
