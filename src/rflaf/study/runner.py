"""Run trials in parallel processes and append their records to one file.

A record is one line of JSON. An interrupted run resumes where it stopped: trials with a record are not run again,
unless it was written when trials meant something else (`rflaf.study.trials.STUDY`). A truncated line is dropped. Every
process has one BLAS thread.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from rflaf.rows.executors import SingleThreadedBLAS

from . import protocols
from .trials import STUDY, Record, Trial

Progress = Callable[[int, int, str], None]
"""Callback with the number of finished trials, the number of all trials, and a line about the latest event."""

_POLL_SECONDS = 0.5


def silent(done: int, total: int, line: str) -> None:
    """Show nothing."""


def run(trials: Iterable[Trial], path: Path, n_jobs: int = 2, progress: Progress = silent) -> list[Record]:
    """Run the trials without a record in ``path`` and return the records of all of them.

    ``n_jobs=1`` runs in this process.
    """
    wanted = sorted(set(trials), key=lambda trial: (trial.group, trial))
    records, complaint = read_records(path)
    done = {record.trial: record for record in records if record.environment.get("study") == STUDY}
    missing = [trial for trial in wanted if trial not in done]
    n_done, total = len(wanted) - len(missing), len(wanted)
    if complaint:
        progress(n_done, total, complaint)
    progress(n_done, total, f"{n_done} of {total} trials are in {path.name} already")

    def report(record: Record) -> None:
        nonlocal n_done
        done[record.trial] = record
        n_done += 1
        progress(n_done, total, describe(record))

    groups = [tuple(group) for _, group in groupby(missing, key=lambda trial: trial.group)]
    if n_jobs == 1:
        with SingleThreadedBLAS():
            for group in groups:
                for record in protocols.run(group):
                    append(record, path)
                    report(record)
    elif groups:
        _run_in_processes(groups, path, n_jobs, report)
    return [done[trial] for trial in sorted(wanted)]


def read_records(path: Path) -> tuple[list[Record], str]:
    """Read the records of a file, drop invalid lines from it, and return a complaint about them."""
    if not path.exists():
        return [], ""
    records, kept, bad = [], [], []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        try:
            records.append(Record.from_json(json.loads(line)))
            kept.append(line)
        except (ValueError, KeyError, TypeError):
            bad.append(number)
    if bad:
        part = path.with_suffix(".part")
        part.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        part.replace(path)
    where = ", ".join(map(str, bad))
    plural = "lines" if len(bad) > 1 else "line"
    return records, f"{path.name}: {plural} {where} cut or no record, dropped; {len(kept)} kept" if bad else ""


def append(record: Record, path: Path) -> None:
    """Add one line, in one write, so that several processes may add to one file."""
    line = (json.dumps(asdict(record)) + "\n").encode()
    with path.open("ab", buffering=0) as file:
        file.write(line)


def describe(record: Record) -> str:
    """Return a record as one line of text."""
    trial, score = record.trial, record.score
    loss = "diverged" if score.loss is None else f"loss {score.loss:.4f}"
    grid = f" {trial.basis} {trial.n_centres}" if trial.basis else ""
    return f"{trial.data} {trial.protocol}{grid} {trial.scheme} S={trial.width} seed {trial.seed}: {loss}"


def _run_in_processes(
    groups: list[tuple[Trial, ...]], path: Path, n_jobs: int, report: Callable[[Record], None]
) -> None:
    """Let workers append their records, so that none is lost with this process, and report those in the file."""
    n_read = path.stat().st_size if path.exists() else 0
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(n_jobs, mp_context=context, initializer=_begin) as pool:
        pending = {pool.submit(_work, group, path) for group in groups}
        try:
            while pending:
                finished, pending = wait(pending, _POLL_SECONDS, FIRST_COMPLETED)
                n_read = _report_new(path, n_read, report)
                for future in finished:
                    future.result()
        except BrokenProcessPool as error:
            raise OSError(
                "a worker process died, perhaps for want of memory; finished trials are kept. "
                "Run the same command again to resume, with fewer jobs if it dies again."
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _report_new(path: Path, n_read: int, report: Callable[[Record], None]) -> int:
    """Report complete lines after the first ``n_read`` bytes; return the number of bytes read so far."""
    if not path.exists():
        return n_read
    with path.open("rb") as file:
        file.seek(n_read)
        whole, _, _ = file.read().rpartition(b"\n")
    for line in whole.splitlines():
        report(Record.from_json(json.loads(line)))
    return n_read + len(whole) + 1 if whole else n_read


def _begin() -> None:
    """Give a worker one BLAS thread and end it with its parent process."""
    SingleThreadedBLAS().__enter__()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(group: tuple[Trial, ...], path: Path) -> None:
    for record in protocols.run(group):
        append(record, path)
