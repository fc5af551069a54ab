"""The application behind ``rflaf``.

Exit codes: 0 success; 2 an error of the caller, reported in one line (``--debug`` shows the traceback); 1 an internal
error, with its traceback; 130 interrupted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

from rflaf import __version__
from rflaf.rows.files.outputs import check_output

from . import demo as demonstration
from . import model_commands, table_commands
from .console import INTERRUPTED, errors, explain, is_interruption, remark, results

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Random feature models with learnable activation functions.",
)
_COUNT = TextColumn("{task.completed}/{task.total}")
for command in (*model_commands.COMMANDS, *table_commands.COMMANDS):
    app.command()(command)


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code: 0 success, 2 error of the caller, 130 interrupted."""
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        code = app(arguments or ["--help"], prog_name="rflaf", standalone_mode=False)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:
        if debug and not is_interruption(error):
            raise
        return explain(error)
    if code == INTERRUPTED:  # newer releases of the parser return the code and say nothing
        remark("rflaf: interrupted")
    return int(code or 0)


@app.callback()
def options(debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False) -> None:
    """Options of every command."""


@app.command()
def version() -> None:
    """Print the version."""
    results.print(__version__, highlight=False)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="File of the picture.")] = Path("rflaf-demo.png"),
    report: Annotated[Path, typer.Option(help="File of the report.")] = Path("rflaf-demo.html"),
) -> None:
    """Fit two problems at several widths, print and plot the test errors, and write a report on one model.

    Example:  rflaf demo --out picture.png --report report.html
    """
    check_output(out)
    check_output(report)
    problems = [demonstration.diabetes(), demonstration.teacher()]
    n_fits = len(problems) * demonstration.fits_per_problem()
    with _bar(TextColumn("fitting"), BarColumn(), _COUNT, TimeElapsedColumn()) as progress:
        task = progress.add_task("fit", total=n_fits)
        outcomes = list(demonstration.run(problems, lambda: progress.advance(task)))
    for problem in problems:
        results.print(_table(problem, [outcome for outcome in outcomes if outcome.problem == problem.name]))
    demonstration.draw(outcomes, out)
    results.print(f"picture: {out}", highlight=False)
    demonstration.report_diabetes(report)
    results.print(f"report:  {report}, open it in a browser", highlight=False)


@app.command()
def reproduce(
    figures: Annotated[list[str] | None, typer.Argument(help="Figures or studies (default: the usual ones).")] = None,
    full: Annotated[bool, typer.Option("--full/--quick", help="Run for hours, or for minutes.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for records, tables and figures.")] = Path("rflaf-paper"),
    jobs: Annotated[int, typer.Option(help="Number of processes.", min=1)] = 2,
) -> None:
    """Repeat the experiments of the paper beside the authors' numbers; an interrupted run resumes.

    Example:  rflaf reproduce figure1 --quick --out results
    """
    from rflaf.study import command

    with _bar(BarColumn(), _COUNT, TimeElapsedColumn(), TextColumn("{task.description}")) as progress:
        task = progress.add_task("", total=None)

        def show(done: int, total: int, line: str) -> None:
            progress.update(task, completed=done, total=total, description=line)

        written = command.reproduce(figures or [], "full" if full else "quick", out, show, jobs)
    for path in written:
        results.print(str(path), highlight=False, soft_wrap=True)


def _bar(*columns: ProgressColumn) -> Progress:
    return Progress(*columns, console=errors, disable=not errors.is_terminal, transient=True)


def _table(problem: demonstration.Problem, outcomes: list[demonstration.Outcome]) -> RichTable:
    n_rows, n_columns = problem.X_train.shape
    title = f"{problem.name}: {n_rows} training rows x {n_columns} columns; test error / variance (seconds to fit)"
    table = RichTable(title=title, title_justify="left", min_width=len(title))
    table.add_column("width", justify="right")
    for scheme in dict.fromkeys(outcome.scheme for outcome in outcomes):
        table.add_column(scheme, justify="right")
    for width in demonstration.WIDTHS:
        row = [outcome for outcome in outcomes if outcome.width == width]
        table.add_row(str(width), *(f"{outcome.error:.3f} ({outcome.seconds:.2f} s)" for outcome in row))
    return table
