"""The command ``rflaf reproduce``: run experiments by name and write records, tables and figures into a folder.

A name stands for the TOML file of a figure or for a function (effort, folder, progress) in `STUDIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rflaf.errors import InvalidParameterError

from . import archive, experiments, figures, paired, protocols, result_tables, runner, theory_study
from .experiments import EFFORTS, Experiment
from .paired import Difference
from .result_tables import Cell

RECORDS, PACKED = "records.jsonl", "records.jsonl.gz"
Study = Callable[[str, Path, runner.Progress], list[Path]]
STUDIES: dict[str, Study] = {"theory": theory_study.study}


def reproduce(
    names: Sequence[str], effort: str, out: Path, progress: runner.Progress = runner.silent, n_jobs: int = 2
) -> list[Path]:
    """Run the experiments named, or all that run by default, and return the files written.

    Records go to ``out/records.jsonl``; trials with a record there are not run again.
    """
    if effort not in EFFORTS:
        raise InvalidParameterError("the effort must be 'quick' or 'full'", effort, "Use 'quick' for minutes.")
    known = [*experiments.names(), *STUDIES]
    for name in names:
        if name not in known:
            rule = f"the figure must be one of {', '.join(map(repr, known))}"
            raise InvalidParameterError(rule, name, "Leave it out to run the usual ones.")
    chosen = [experiments.read(name) for name in (names or experiments.names()) if name not in STUDIES]
    if not names:
        chosen = [experiment for experiment in chosen if experiment.by_default]
    out.mkdir(parents=True, exist_ok=True)
    written = run_experiments(chosen, effort, out, progress, n_jobs) if chosen else []
    for name in names or STUDIES:
        if name in STUDIES:
            written += STUDIES[name](effort, out, progress)
    return written


def run_experiments(
    chosen: Sequence[Experiment], effort: str, out: Path, progress: runner.Progress, n_jobs: int
) -> list[Path]:
    """Run all trials of some experiments together, then write tables and a figure for each, and pack the records."""
    trials = {trial for experiment in chosen for trial in experiment.trials(effort)}
    n_test = {name: protocols.n_test_rows(name) for name in sorted({trial.data for trial in trials})}
    records = {record.trial: record for record in runner.run(trials, out / RECORDS, n_jobs, progress)}
    written = [out / RECORDS, *archive.pack(records.values(), out / PACKED)]
    for experiment in chosen:
        own = [records[trial] for trial in experiment.trials(effort)]
        cells = result_tables.summarise(own, experiment.metric, n_test)
        pairs = paired.differences(own, experiment.metric)
        table, differences, page = (out / f"{experiment.name}{end}" for end in (".csv", "-differences.csv", ".md"))
        result_tables.write(cells, table)
        paired.write(pairs, differences)
        page.write_text(result_tables.to_page(experiment.title, cells, pairs), encoding="utf-8")
        written += [table, differences, page, *_draw(experiment, cells, pairs, out)]
    return written


def _draw(experiment: Experiment, cells: list[Cell], pairs: list[Difference], out: Path) -> list[Path]:
    if any("regimes" in arm.protocol for arm in experiment.arms):
        return figures.draw_gains(experiment, pairs, out)
    return figures.draw(experiment, cells, out)
