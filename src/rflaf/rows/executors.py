"""Executors: ``reduce(items, map_item, label)``, a sum over blocks, runs every solver.

Blocks are mapped in parallel, one thread each with BLAS held to one thread inside, and the results are added **in the
order of the blocks**: the sum is the same, bit for bit, for any number of threads. Labels name a pass in plain words;
progress bars show them and checkpoints are keyed by them. While an executor is open BLAS has one thread in the whole
process; the earlier limit returns when the last open executor closes, also when several threads fit models at once.
"""

from __future__ import annotations

import copy
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, Protocol, Self, TypeVar

from threadpoolctl import ThreadpoolController

from rflaf.errors import InvalidParameterError

from .blocks import Scratch

Item = TypeVar("Item")
ItemOut = TypeVar("ItemOut", covariant=True)


class Items(Protocol[ItemOut]):
    """A sequence with a length and numbered items: a list of blocks or a source of them."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> ItemOut: ...


class Summable(Protocol):
    """A partial sum to which another one can be added."""

    def __iadd__(self, other: Any) -> Any: ...


Total = TypeVar("Total", bound=Summable)
State = TypeVar("State")


class Executor(Protocol):
    """Maps and sums blocks. A ``label`` says in plain words what a pass does."""

    @property
    def n_workers(self) -> int: ...

    def reduce(self, items: Items[Item], map_item: Callable[[Item, Scratch], Total], label: str = "") -> Total: ...

    def map(self, items: Items[Item], map_item: Callable[[Item], Any], label: str = "") -> Any:
        """Return a list, or results that stay where the items live."""

    def elsewhere(self, items: Items[Any]) -> bool:
        """Return whether these items are mapped in other processes, which share no memory with this one."""

    def fold(self, n_steps: int, state: State, advance: Callable[[State, int], State], label: str = "") -> State:
        """Return the state after ``n_steps`` steps ``state = advance(state, step)``."""

    def side_by_side(self, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        """Return the results of tasks in this process that belong to one step; they are neither recorded nor shown."""

    def limited(self, n_workers: int) -> Executor:
        """Return the executor with at most ``n_workers`` workers at once."""


class WrappingExecutor:
    """An executor around another one, which does whatever a subclass leaves."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    @property
    def n_workers(self) -> int:
        return self._executor.n_workers

    def limited(self, n_workers: int) -> Self:
        fewer = copy.copy(self)
        fewer._executor = self._executor.limited(n_workers)
        return fewer

    def elsewhere(self, items: Items[Any]) -> bool:
        return self._executor.elsewhere(items)

    def side_by_side(self, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        return self._executor.side_by_side(tasks)


def fold_in_turn(n_steps: int, state: State, advance: Callable[[State, int], State], label: str = "") -> State:
    """Return the state after ``n_steps`` steps.

    >>> fold_in_turn(3, 1, lambda state, step: 10 * state + step)
    1012
    """
    for step in range(n_steps):
        state = advance(state, step)
    return state


def all_in_turn(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Return the results of tasks, run one after the other.

    >>> all_in_turn([lambda: 1, lambda: 2])
    [1, 2]
    """
    return [task() for task in tasks]


class SingleThreadedBLAS:
    """A process-wide hold on BLAS threads, counted: the first holder sets it, the last one restores it."""

    _lock = threading.Lock()
    _holders = 0
    _before: list[int]

    def __enter__(self) -> Self:
        cls = type(self)
        with cls._lock:
            if cls._holders == 0:
                cls._before = [library.num_threads for library in _blas_libraries()]
                _set_blas_threads([1] * len(cls._before))
            cls._holders += 1
        return self

    def __exit__(self, *_: object) -> None:
        cls = type(self)
        with cls._lock:
            cls._holders -= 1
            if cls._holders == 0:
                _set_blas_threads(cls._before)


class ThreadExecutor:
    """Threads over blocks, in this process. ``n_workers=1`` runs in the calling thread.

    >>> import numpy as np
    >>> with ThreadExecutor(2) as executor:
    ...     executor.reduce([1, 2, 3], lambda item, scratch: np.full(2, float(item)))
    array([6., 6.])
    """

    def __init__(self, n_workers: int = 1) -> None:
        self.n_workers = n_workers
        self._window = n_workers + 1  # one item waits while every worker is busy, so none idles
        self._blas = SingleThreadedBLAS()
        self._pool: ThreadPoolExecutor | None = None
        self._local = threading.local()

    def __enter__(self) -> Self:
        self._blas.__enter__()
        if self.n_workers > 1:
            self._pool = ThreadPoolExecutor(self.n_workers, thread_name_prefix="rflaf")
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
        self._blas.__exit__()

    def reduce(self, items: Items[Item], map_item: Callable[[Item, Scratch], Total], label: str = "") -> Total:
        """``sum_i map_item(items[i], scratch)`` in the order of the items; at least one item."""
        results = self._results(len(items), lambda i: map_item(items[i], self._scratch()), self._window)
        total = next(results)
        for partial in results:
            total += partial
        return total

    def map(self, items: Items[Item], map_item: Callable[[Item], Any], label: str = "") -> list[Any]:
        """``[map_item(item) for item in items]``."""
        return self._all_results(len(items), lambda i: map_item(items[i]))

    def elsewhere(self, items: Items[Any]) -> bool:
        return False

    def fold(self, n_steps: int, state: State, advance: Callable[[State, int], State], label: str = "") -> State:
        """Run steps one after the other, in the calling thread."""
        return fold_in_turn(n_steps, state, advance, label)

    def side_by_side(self, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        """``[task() for task in tasks]``."""
        return self._all_results(len(tasks), lambda i: tasks[i]())

    def limited(self, n_workers: int) -> Self:
        """Return an executor on the same threads, at most ``n_workers`` of them busy."""
        if n_workers >= self.n_workers:
            return self
        fewer = copy.copy(self)
        fewer.n_workers = fewer._window = n_workers
        return fewer

    def _scratch(self) -> Scratch:
        if not hasattr(self._local, "scratch"):
            self._local.scratch = Scratch()
        scratch: Scratch = self._local.scratch
        return scratch

    def _all_results(self, n_items: int, task: Callable[[int], Any]) -> list[Any]:
        """Return results that are kept anyway: no worker waits for the first of them."""
        is_limited = self._window <= self.n_workers
        return list(self._results(n_items, task, self._window if is_limited else n_items))

    def _results(self, n_items: int, task: Callable[[int], Any], window: int) -> Any:
        if self._pool is None or n_items == 1 or self.n_workers == 1:
            yield from map(task, range(n_items))
            return
        pending: deque[Future[Any]] = deque()
        try:
            for i in range(n_items):
                if len(pending) >= window:
                    yield pending.popleft().result()
                pending.append(self._pool.submit(task, i))
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def resolve_n_jobs(n_jobs: int | None) -> int:
    """Return the number of worker threads; None follows the limit of BLAS, negative numbers count back from all."""
    if n_jobs is None:
        limits = [library["num_threads"] for library in _controller().info() if library["user_api"] == "blas"]
        return max(1, min(limits, default=_processors()))
    if n_jobs == 0:
        raise InvalidParameterError("n_jobs must not be zero", n_jobs, "Use 1, or -1 for every processor.")
    return n_jobs if n_jobs > 0 else max(1, _processors() + 1 + n_jobs)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _blas_libraries() -> list[Any]:
    return list(_controller().select(user_api="blas").lib_controllers)


def _set_blas_threads(counts: list[int]) -> None:
    """Set the threads of every BLAS, from any thread: threadpoolctl 3.8 ignores all but the controlling thread."""
    for library, count in zip(_blas_libraries(), counts, strict=True):
        let_go = getattr(library, "clear_controlling_thread", lambda force: None)
        let_go(force=True)
        library.set_num_threads(count)
        let_go(force=True)


@cache
def _controller() -> ThreadpoolController:
    import numpy as np  # noqa: F401  loads one BLAS library, which the controller must see
    import scipy.linalg  # noqa: F401  loads another

    return ThreadpoolController()
