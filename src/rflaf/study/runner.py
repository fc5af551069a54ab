"""Trials run in parallel by processes, their records appended to one file as they come.

A record is one line of JSON. A run that was killed goes on where it stopped: trials that have a record are not run
again. A line that was cut is dropped, the others are kept. Every process has one BLAS thread.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import queue
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import groupby
from pathlib import Path
from typing import Any

from rflaf.executors import SingleThreadedBLAS

from . import protocols
from .protocols import Record, Trial

Progress = Callable[[int, int, str], None]
"""Called with trials done, trials in all, and a line on what has just happened."""

_records: Any = None  # in a worker: where its records go
_POLL_SECONDS = 0.5


def silent(done: int, total: int, line: str) -> None:
    """Show nothing."""


def run(trials: Iterable[Trial], path: Path, n_jobs: int = 2, progress: Progress = silent) -> list[Record]:
    """Run the trials that have no record in ``path`` yet, and return the records of all of them.

    ``n_jobs=1`` runs in this process.
    """
    wanted = sorted(set(trials))
    records, complaint = read_records(path)
    done = {record.trial: record for record in records}
    missing = [trial for trial in wanted if trial not in done]
    n_done, total = len(wanted) - len(missing), len(wanted)
    if complaint:
        progress(n_done, total, complaint)
    progress(n_done, total, f"{n_done} of {total} trials are in {path.name} already")

    def keep(record: Record) -> None:
        nonlocal n_done
        append(record, path)
        done[record.trial] = record
        n_done += 1
        progress(n_done, total, describe(record))

    groups = [tuple(group) for _, group in groupby(missing, key=lambda trial: trial.group)]
    if n_jobs == 1:
        with SingleThreadedBLAS():
            for group in groups:
                for record in protocols.run(group):
                    keep(record)
    elif groups:
        _run_in_processes(groups, n_jobs, keep)
    return [done[trial] for trial in wanted]


def read_records(path: Path) -> tuple[list[Record], str]:
    """The records of a file, and a complaint if some of its lines are no records; the file is mended then."""
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
    """Add one line, in one write that reaches the disk."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record.to_json()) + "\n")
        file.flush()
        os.fsync(file.fileno())


def describe(record: Record) -> str:
    """A record in a line."""
    trial, score = record.trial, record.score
    loss = "diverged" if score.loss is None else f"loss {score.loss:.4f}"
    grid = f" {trial.basis} {trial.n_centres}" if trial.basis else ""
    return f"{trial.data} {trial.protocol}{grid} {trial.scheme} S={trial.width} seed {trial.seed}: {loss}"


def _run_in_processes(groups: list[tuple[Trial, ...]], n_jobs: int, keep: Callable[[Record], None]) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        arrived = manager.Queue()
        with ProcessPoolExecutor(n_jobs, mp_context=context, initializer=_begin, initargs=(arrived,)) as pool:
            futures = [pool.submit(_work, group) for group in groups]
            try:
                _collect(futures, arrived, keep)
            except BrokenProcessPool as error:
                _drain(arrived, keep)
                raise OSError(
                    "a worker process died, perhaps for want of memory; what was done is kept. "
                    "Run the same command again to go on, with fewer jobs if it dies again."
                ) from error
            finally:
                pool.shutdown(cancel_futures=True)


def _collect(futures: list[Future[None]], arrived: Any, keep: Callable[[Record], None]) -> None:
    """Keep records as they come until all work is done; the first error of a worker is raised."""
    while True:
        finished = all(future.done() for future in futures)  # asked before the queue is emptied
        _drain(arrived, keep)
        for future in futures:
            if future.done():
                future.result()
        if finished:
            return
        try:
            keep(arrived.get(timeout=_POLL_SECONDS))
        except queue.Empty:
            continue


def _drain(arrived: Any, keep: Callable[[Record], None]) -> None:
    while not arrived.empty():
        keep(arrived.get())


def _begin(arrived: Any) -> None:
    global _records
    _records = arrived
    SingleThreadedBLAS().__enter__()  # for as long as the process lives


def _work(group: tuple[Trial, ...]) -> None:
    for record in protocols.run(group):
        _records.put(record)
