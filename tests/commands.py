"""Commands run in this process: what they print, or the one line they refuse with."""

from __future__ import annotations

from rflaf.cli import app as cli


def output(capsys, *arguments) -> str:
    """What a command prints, which it must do without a word beside it."""
    assert cli.run([str(argument) for argument in arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def refusal(capsys, *arguments) -> str:
    """The one line of a command that says no."""
    assert cli.run([str(argument) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("rflaf: ")
    assert captured.err.endswith("\n")
    assert len(captured.err.splitlines()) == 1
    return captured.err
