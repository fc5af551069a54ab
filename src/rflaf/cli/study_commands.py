"""The commands that run experiments: demo and reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

from rflaf.rows.files.outputs import check_output

from . import demo as demonstration
from .console import errors, out_option, results

_COUNT = TextColumn("{task.completed}/{task.total}")


def demo(
    out: Annotated[Path, out_option("File of the picture.")] = Path("rflaf-demo.png"),
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


def reproduce(
    figures: Annotated[list[str] | None, typer.Argument(help="Figures or studies (default: the usual ones).")] = None,
    full: Annotated[bool, typer.Option("--full/--quick", help="Run for hours, or for minutes.")] = False,
    out: Annotated[Path, out_option("Folder for records, tables and figures.")] = Path("rflaf-paper"),
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
