"""Trials run in parallel by processes, their records appended to one file as they come.

A record is one line of JSON. A run that was killed goes on where it stopped: trials that have a record are not run
again. A line that was cut is dropped, the others are kept. Every process has one BLAS thread.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import groupby
from pathlib import Path

from rflaf.rows.executors import SingleThreadedBLAS

from . import protocols
from .protocols import Record, Trial

Progress = Callable[[int, int, str], None]
"""Called with trials done, trials in all, and a line on what has just happened."""

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

    def tell(record: Record) -> None:
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
                    tell(record)
    elif groups:
        _run_in_processes(groups, path, n_jobs, tell)
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
    """Add one line, in one write, so that several processes may add to one file."""
    line = (json.dumps(record.to_json()) + "\n").encode()
    with path.open("ab", buffering=0) as file:
        file.write(line)


def describe(record: Record) -> str:
    """A record in a line."""
    trial, score = record.trial, record.score
    loss = "diverged" if score.loss is None else f"loss {score.loss:.4f}"
    grid = f" {trial.basis} {trial.n_centres}" if trial.basis else ""
    return f"{trial.data} {trial.protocol}{grid} {trial.scheme} S={trial.width} seed {trial.seed}: {loss}"


def _run_in_processes(groups: list[tuple[Trial, ...]], path: Path, n_jobs: int, tell: Callable[[Record], None]) -> None:
    """Workers append their own records, so that none is lost with this process; it reads the file to tell of them."""
    told = path.stat().st_size if path.exists() else 0
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(n_jobs, mp_context=context, initializer=_begin) as pool:
        pending = {pool.submit(_work, group, path) for group in groups}
        try:
            while pending:
                finished, pending = wait(pending, _POLL_SECONDS, FIRST_COMPLETED)
                told = _tell_of_new(path, told, tell)
                for future in finished:
                    future.result()
        except BrokenProcessPool as error:
            raise OSError(
                "a worker process died, perhaps for want of memory; what was done is kept. "
                "Run the same command again to go on, with fewer jobs if it dies again."
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _tell_of_new(path: Path, told: int, tell: Callable[[Record], None]) -> int:
    """Read the whole lines added after ``told`` bytes; the bytes told of now."""
    if not path.exists():
        return told
    with path.open("rb") as file:
        file.seek(told)
        whole, _, _ = file.read().rpartition(b"\n")
    for line in whole.splitlines():
        tell(Record.from_json(json.loads(line)))
    return told + len(whole) + 1 if whole else told


def _begin() -> None:
    """A worker has one BLAS thread, and ends with the process that started it, however that ended."""
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
