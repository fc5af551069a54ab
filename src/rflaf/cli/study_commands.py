"""The commands that run experiments: demo and reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

from rflaf.rows.files.outputs import check_output

from . import demo as demonstration
from .console import errors, out_option, results, say, working

_COUNT = TextColumn("{task.completed}/{task.total}")


def demo(
    out: Annotated[Path, out_option("File of the picture.")] = Path("rflaf-demo.png"),
    report: Annotated[Path, typer.Option(help="File of the report.")] = Path("rflaf-demo.html"),
) -> None:
    """Compare models on a problem whose answer is known; draw accuracy, speed and what was learned; write a report.

    Example:  rflaf demo --out picture.png --report report.html
    """
    check_output(out)
    check_output(report)
    with working("compiling, once (about 20 s on first use)"):
        seconds = demonstration.compile_loops()
    problem = demonstration.friedman()
    with _bar(TextColumn("fitting"), BarColumn(), _COUNT, TimeElapsedColumn()) as progress:
        task = progress.add_task("fit", total=len(demonstration.contestants()))
        outcomes = list(demonstration.run(problem, lambda: progress.advance(task)))
    results().print(_table(problem, outcomes))
    say(f"compiled in {seconds:.0f} s before, which later runs need not")
    demonstration.draw(outcomes, problem, out)
    say(f"picture: {out}")
    demonstration.report(outcomes[-1], problem, report)
    say(f"report:  {report}, open it in a browser")


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
        say(str(path))


def _bar(*columns: ProgressColumn) -> Progress:
    return Progress(*columns, console=errors(), disable=not errors().is_terminal, transient=True)


def _table(problem: demonstration.Problem, outcomes: list[demonstration.Outcome]) -> RichTable:
    n_rows, n_columns = problem.X_train.shape
    title = f"Friedman's first problem: {n_rows:,} rows of {n_columns} columns, five without effect"
    table = RichTable(title=title, title_justify="left", min_width=len(title))
    for heading in ("model", "test error / variance", "seconds to fit", "µs per row"):
        table.add_column(heading, justify="left" if heading == "model" else "right", no_wrap=heading == "model")
    for one in sorted(outcomes, key=lambda one: -one.error):
        style = "bold" if one.family == "rflaf" else None
        table.add_row(one.name, f"{one.error:.4f}", f"{one.seconds:.2f}", f"{one.microseconds:.2f}", style=style)
    table.add_row("noise alone", f"{demonstration.least_error(problem):.4f}", "", "", style="dim")
    return table
