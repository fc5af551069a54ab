"""The command line: what it prints, what it writes, and how it says no."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rflaf import __main__, __version__
from rflaf.cli import app as cli
from rflaf.cli import demo
from rflaf.errors import MissingExtraError
from rflaf.inspection import plots

NO_FOLDER = str(Path("/no/such/folder/x.png"))


@pytest.fixture
def quick_demo(monkeypatch):
    monkeypatch.setattr(demo, "WIDTHS", (5, 10))
    monkeypatch.setattr(demo, "ROWS", 600)
    monkeypatch.setattr(demo, "_KNOWN_WIDTH", 5)


@pytest.mark.slow
def test_the_demo_prints_a_table_and_writes_a_picture_and_a_report(quick_demo, tmp_path, capsys):
    report = tmp_path / "report.html"
    assert cli.run(["demo", "--out", str(tmp_path / "picture.png"), "--report", str(report)]) == 0
    printed = capsys.readouterr().out
    assert "450 rows of 10 columns" in printed
    errors = {name.strip(): float(error) for name, error in re.findall(r"│ ([\w, ]+?) +│ +([\d.]+) │", printed)}
    assert errors["rflaf, 10"] < errors["boosted trees, 100"] < errors["linear regression"]
    assert errors["noise alone"] < errors["rflaf, 10"]
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert "Friedman" in report.read_text()


def test_version_prints_the_version(capsys):
    assert cli.run(["version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


def test_no_arguments_print_the_help(capsys):
    assert cli.run([]) == 0
    assert "Usage: rflaf" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dmeo"], "No such command 'dmeo'."),
        (["demo", "--uot", "x"], "No such option"),
        (["demo", "--out", NO_FOLDER], f"a file in a folder that exists; got {NO_FOLDER!r}."),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments, message, capsys):
    assert cli.run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("rflaf: ")
    assert message in captured.err
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""


def test_debug_shows_the_traceback():
    with pytest.raises(ValueError, match="the output must be a file in a folder that exists"):
        cli.run(["--debug", "demo", "--out", NO_FOLDER])


def test_a_bug_of_ours_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(demo, "compile_loops", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli.run(["demo"])


def test_a_missing_plotting_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rflaf\[plots\]'"):
        plots.require_matplotlib()


def test_without_its_extra_the_command_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "rflaf.cli.app")
    assert __main__.main() == 2
    assert "pip install 'rflaf[cli]'" in capsys.readouterr().err


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "rflaf", "version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == __version__
