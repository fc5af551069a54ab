"""A cluster of real processes whose worker or scheduler is killed while a model is fitted on it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

import rflaf

Fault = Callable[[random.Random], str]
WORKERS = 2


def _cluster_process(stack: ExitStack, kind: str, file: Path, *others: str) -> subprocess.Popen[bytes]:
    given = [sys.executable, "-m", "dask", kind, "--scheduler-file", str(file), "--no-dashboard", *others]
    process = subprocess.Popen(given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def slowly(part: Any) -> Any:
    time.sleep(0.03)
    return part


@contextmanager
def clusters() -> Iterator[Fault]:
    """Kill a worker: the same model. Kill the scheduler: an error that says so, and the estimator as it was."""
    import dask.array as da
    import distributed

    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3))
    y = np.sin(X[:, 0])
    model = rflaf.RFLAFRegressor(5, directions="random", activation="shared", random_state=0, n_jobs=1)
    expected = model.fit(da.from_array(X, (50, 3)), da.from_array(y, 50)).predict(X)

    def fault(chance: random.Random) -> str:
        which = chance.choice(["worker", "scheduler"])
        with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
            file = Path(name) / "scheduler.json"
            scheduler = _cluster_process(stack, "scheduler", file, "--port", "0")
            while not file.exists():
                time.sleep(0.05)
            common = ("--nthreads", "1", "--no-nanny", "--local-directory", name)
            workers = [_cluster_process(stack, "worker", file, *common) for _ in range(WORKERS)]
            client = stack.enter_context(distributed.Client(scheduler_file=str(file), timeout=30))
            client.wait_for_workers(WORKERS, timeout=60)
            lazy = da.from_array(X, (50, 3)).map_blocks(slowly, meta=np.empty((0, 0)))
            victim, when = (workers[0] if which == "worker" else scheduler), chance.uniform(0.05, 0.8)
            subprocess.Popen(["sh", "-c", f"sleep {when}; kill -KILL {victim.pid}"])
            before = dict(vars(model))
            try:
                found = model.fit(lazy, da.from_array(y, 50)).predict(X)
            except rflaf.errors.ClusterError as error:
                kept = which == "scheduler" and vars(model) == before
                return f"{which} killed: refused" if kept else f"LOST {error}"
            same = np.allclose(found, expected, rtol=0, atol=1e-8)
            return f"{which} killed: the same model" if same else "LOST another model"

    yield fault
