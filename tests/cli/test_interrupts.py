"""Ctrl-C is one line and exit code 130, whenever it comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import typer
from commands import output, refusal

from rflaf.cli import app as cli

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


@pytest.mark.parametrize("error", [KeyboardInterrupt, typer.Abort, lambda: typer.Exit(130)])
def test_an_interruption_is_one_line(monkeypatch, capsys, error):
    def interrupt(*arguments, **others):
        raise error()

    monkeypatch.setattr(cli, "application", lambda names: interrupt)
    for arguments in (["version"], ["version", "--debug"]):
        assert cli.run(arguments) == 130
        assert capsys.readouterr().err == "rflaf: interrupted\n"


def interrupted(command, **others):
    """Exit code and standard error of a command that is interrupted after it printed a line."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **others)
    assert process.stdout.readline() == "ready\n"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    printed = process.communicate(timeout=60)[1]
    return process.returncode, printed


@pytest.mark.parametrize("late", ["numpy", "typer"])
def test_an_interruption_while_the_command_is_imported_is_one_line(tmp_path, late):
    (tmp_path / f"{late}.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    paths = os.pathsep.join([str(tmp_path), *(path for path in sys.path if path)])
    found = interrupted([sys.executable, "-m", "rflaf", "version"], env={**os.environ, "PYTHONPATH": paths})
    assert found == (130, "rflaf: interrupted\n")


def test_an_interruption_that_a_module_turns_into_another_error_is_one_line(tmp_path):
    (tmp_path / "typer.py").write_text(
        "import time\nprint('ready', flush=True)\n"
        "try:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    raise ImportError('not initialised') from None\n"
    )
    paths = os.pathsep.join([str(tmp_path), *(path for path in sys.path if path)])
    found = interrupted([sys.executable, "-m", "rflaf", "version"], env={**os.environ, "PYTHONPATH": paths})
    assert found == (130, "rflaf: interrupted\n")


FIT = """
import sys
from rflaf.__main__ import main
from rflaf.training import train
original = train.run_algorithm1
def run(fit):
    print("ready", flush=True)
    while True:
        original(fit)
train.run_algorithm1 = run
sys.exit(main())
"""


@pytest.mark.slow
def test_an_interruption_of_a_fit_is_one_line_and_leaves_nothing(tmp_path):
    X = np.random.default_rng(0).standard_normal((20_000, 8))
    np.savez(tmp_path / "rows.npz", y=X.sum(axis=1), **{f"x{j}": X[:, j] for j in range(8)})
    options = ["--target", "y", "--out", str(tmp_path / "model.rflaf"), "--set", "directions=random"]
    command = [sys.executable, "-c", FIT, "fit", str(tmp_path / "rows.npz"), *options]
    assert interrupted(command) == (130, "rflaf: interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.npz"]


MORE = """
import atexit, sys, threading, time
from rflaf import __main__ as command
from rflaf.cli import app
def run(arguments):
    threading.Thread(target=time.sleep, args=(50,)).start()
    print("ready", flush=True)
    try:
        time.sleep(50)
    except KeyboardInterrupt:
        sys.stderr.write("rflaf: interrupted\\n")
        return 130
app.run = run
atexit.register(lambda: (sys.stderr.write("swept\\n"), sys.stderr.flush(), time.sleep(1)))
sys.exit(command.main())
"""
LATE = """
import atexit, sys, time
from rflaf import __main__ as command
from rflaf.cli import app
app.run = lambda arguments: 0
atexit.register(lambda: (print("ready", flush=True), time.sleep(2)))
sys.exit(command.main())
"""


def test_more_interruptions_neither_wait_for_threads_nor_say_more():
    process = subprocess.Popen([sys.executable, "-c", MORE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert [process.stderr.readline() for _ in range(2)] == ["rflaf: interrupted\n", "swept\n"]
    for _ in range(3):
        process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[1] == ""
    assert process.returncode == 130


def test_a_command_that_has_ended_is_not_interrupted():
    assert interrupted([sys.executable, "-c", LATE]) == (0, "")


# Arguments that were once ignored or blamed on something else


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 60))
    lines = ["a,b,y", *(f"{one},{two},{one + two}" for one, two in zip(a, b, strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "t.csv"


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_out_of_range_is_named(table, seed, tmp_path, capsys):
    line = refusal(capsys, "fit", table, "--target", "y", "--out", tmp_path / "m", "--seed", seed)
    assert "--seed must be a whole number from 0 to 4294967295" in line


@pytest.mark.parametrize("option", ["--drop", "--category"])
@pytest.mark.parametrize("target", ["y", "2"])
def test_the_target_can_be_neither_dropped_nor_an_input(table, option, target, tmp_path, capsys):
    line = refusal(capsys, "fit", table, "--target", target, "--out", tmp_path / "m", option, "y")
    assert f"{option} must name a column other than the target; got 'y'" in line


def test_a_category_cannot_be_dropped_too(table, tmp_path, capsys):
    line = refusal(capsys, "fit", table, "--target", "y", "--out", tmp_path / "m", "--drop", "a", "--category", "a")
    assert "--category must name a column that is kept; got 'a'. Do not --drop it too." in line


@pytest.mark.slow
def test_predictions_go_to_standard_output_by_a_dash_and_never_into_a_workbook(table, tmp_path, capsys):
    model = tmp_path / "m.rflaf"
    output(capsys, "fit", table, "--target", "y", "--out", model, "--width", "3")
    assert output(capsys, "predict", model, table, "--out", "-") == output(capsys, "predict", model, table)
    assert "must end in one of .csv" in refusal(capsys, "predict", model, table, "--out", tmp_path / "p.xlsx")
    assert not (tmp_path / "p.xlsx").exists()
    assert "only predict writes to standard output" in refusal(capsys, "fit", table, "--target", "y", "--out", "-")
