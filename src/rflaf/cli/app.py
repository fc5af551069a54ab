"""The application behind ``rflaf``.

Exit codes: 0 success; 2 an error of the caller, reported in one line (``--debug`` shows the traceback); 1 an internal
error, with its traceback; 130 interrupted.

Only the module of the command that is called is imported: predictions need neither scikit-learn nor a compiler.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer

from rflaf import __version__

from .commands import in_plain_form
from .console import INTERRUPTED, explain, is_interruption, remark, say

# Command -> its module; the order is that of ``rflaf --help``.
_MODULES = {
    "fit": "fit_command",
    "predict": "predict_command",
    "explain": "explain_command",
    "evaluate": "model_commands",
    "inspect": "model_commands",
    "export": "model_commands",
    "report": "report_command",
    "check": "check_command",
    "serve": "serve_command",
    "plan": "table_commands",
    "bench": "table_commands",
    "bench srbench": "srbench_command",
    "warm-up": "warm_up_command",
    "demo": "study_commands",
    "reproduce": "study_commands",
}


def application(names: list[str]) -> typer.Typer:
    """Return the application with the commands of these names."""
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        help="Random feature models with learnable activation functions.",
    )
    app.callback()(options)
    for name in names:
        app.command(name)(
            getattr(import_module(f"rflaf.cli.{_MODULES[name]}"), name.replace("-", "_").replace(" ", "_"))
        )
    app.command()(version)
    return app


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code: 0 success, 2 error of the caller, 130 interrupted."""
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    if arguments[:2] == ["bench", "srbench"]:  # a benchmark of its own, not a table of that name
        arguments = ["bench srbench", *arguments[2:]]
    if arguments[:1] in (["version"], ["--version"]):
        named = []
    else:
        named = arguments[:1] if arguments[:1] and arguments[0] in _MODULES else list(_MODULES)
    try:
        plain = _in_plain_form(arguments)
        if plain is not None:
            plain.run()
            sys.stdout.flush()
            return 0
        code = application(named)(arguments or ["--help"], prog_name="rflaf", standalone_mode=False)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:  # whoever reads has seen enough, as in: rflaf predict ... | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if debug and not is_interruption(error):
            raise
        return explain(error)
    if code == INTERRUPTED:  # newer releases of the parser return the code and say nothing
        remark("rflaf: interrupted")
    return int(code or 0)


def _in_plain_form(arguments: list[str]) -> Any | None:
    """Return the predictions that are asked for in plain words, which do without the parser."""
    if arguments[:1] != ["predict"]:
        return None
    from .predict_command import PredictCommand

    return in_plain_form(PredictCommand, arguments[1:])


def _print_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options of every command."""


def version() -> None:
    """Print the version."""
    say(__version__)
