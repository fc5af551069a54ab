"""``rflaf bench srbench``: the problems of SRBench by its protocol, beside its published results."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from rflaf.errors import InvalidParameterError
from rflaf.study import leaderboard, srbench

from .console import Json, errors, out_option, remark, say, show


def bench_srbench(
    folder: Annotated[
        Path | None,
        typer.Option(help="Of PMLB's files NAME.tsv.gz.", show_default="RFLAF_DATA_DIR/pmlb, or pmlb's own"),
    ] = None,
    published: Annotated[
        Path | None, typer.Option(help="CSV of published medians: algorithm, dataset, r2_median ...")
    ] = None,
    out: Annotated[Path, out_option("Records, one line a run; .json, .md and .png beside them.")] = Path(
        "srbench.jsonl"
    ),
    seeds: Annotated[int, typer.Option(help="Splits of every problem.", min=1, max=len(srbench.SEEDS))] = 10,
    width: Annotated[str, typer.Option(help="Number of components, or auto.")] = "100",
    only_summary: Annotated[bool, typer.Option("--summary", help="Fit nothing, sum the records up.")] = False,
    as_json: Json = False,
) -> None:
    """Fit SRBench's regression problems by its protocol and rank the results among the published ones; resumes.

    Example:  rflaf bench srbench --folder pmlb --published srbench-results.csv --out srbench.jsonl
    """
    size: int | str = int(width) if width.isdigit() else width
    table = {} if published is None else leaderboard.read_published(published)
    if not only_summary:
        problems = _problems(folder, list(table), out)
        runs = srbench.pending(problems, size, seeds, srbench.read_records(out))
        for number, run in enumerate(srbench.carry_out(problems, runs, size, out), 1):
            if errors().is_terminal:
                remark(f"[{number}/{len(runs)}] {run.problem}, seed {run.seed}: r2 {run.r2:.4f}, {run.seconds:.1f} s")
    known = [run for run in srbench.read_records(out) if run.seed in srbench.SEEDS[:seeds] and run.width == size]
    if not known:
        raise InvalidParameterError("there must be records to sum up", str(out), "Run without --summary first.")
    _sum_up(known, table, out, as_json)


def _problems(folder: Path | None, names: list[str], out: Path) -> srbench.Problems:
    data = os.environ.get("RFLAF_DATA_DIR")
    if folder is None and data and (Path(data) / "pmlb").is_dir():
        folder = Path(data) / "pmlb"
    if folder is not None:
        return srbench.problems_in(folder)
    if not names:
        rule = "without a --folder the problems are those of --published"
        raise InvalidParameterError(rule, "neither", "Name one of them.")
    return srbench.problems_of_pmlb(names, out.parent / "pmlb")


def _sum_up(runs: list[srbench.Run], published: leaderboard.Medians, out: Path, as_json: bool) -> None:
    """Write summary, table and picture beside the records, and print the standings."""
    ours = leaderboard.medians_of(runs)
    found = leaderboard.standings(ours, published)
    summary: dict[str, Any] = leaderboard.summary_of(runs, found)
    leaderboard.write_summary(out.with_suffix(".json"), summary)
    if not found:
        show(summary, [f"{summary['problems']} problems, none of them among the published ones"], as_json)
        return
    text = f"{leaderboard.standings_table(found)}\n\n{leaderboard.losses_table(ours, published)}\n"
    out.with_suffix(".md").write_text(text, encoding="utf-8")
    leaderboard.draw_standings(found, out.with_suffix(".png"))
    if as_json:
        show(summary, [], as_json)
        return
    say(text)
