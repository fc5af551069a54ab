"""Progress of a fit: every pass over the rows, with rows per second and the time left.

`Watched` wraps an executor, so no solver knows about displays; file readers report their own initial scan and sampling
passes. On a terminal with ``rich`` installed a long pass has a bar; elsewhere it is one line of the log. Short passes
are not shown, and passes on a cluster are counted once they are complete.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any, Self

from .executors import Executor, Item, Items, State, Total, WrappingExecutor

_log = logging.getLogger("rflaf")
_LONG = 1.0  # seconds before a pass is shown
_SHOWN_EVERY = 0.1


class PassDisplay:
    """One pass: counts its items, rows if their number is unknown, and logs its duration if long and not failed."""

    def __init__(self, name: str, n_items: int | None, n_rows: int | None) -> None:
        self.name, self.n_items, self.n_rows = name, n_items, n_rows
        self.n_done = 0
        self.started = perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.finish(whole=kind is None)

    @property
    def seconds(self) -> float:
        return perf_counter() - self.started

    def advance(self, n_items: int = 1) -> None:
        self.n_done += n_items

    def finish(self, whole: bool) -> None:
        if whole and self.seconds > _LONG:
            _log.info("%s: %s", self.name, self.pace())

    def pace(self) -> str:
        """Return the number of rows or steps, and how many per second."""
        rows = self.n_done if self.n_items is None else self.n_done / max(self.n_items, 1) * (self.n_rows or 0)
        count, unit = (rows, "rows") if rows else (float(self.n_done), "steps")
        seconds = max(self.seconds, 1e-9)
        return f"{count:,.0f} {unit} in {seconds:.1f} s, {count / seconds:,.3g} {unit}/s"


class Quiet(PassDisplay):
    """A pass that is not shown."""

    def finish(self, whole: bool) -> None:
        """Show nothing."""


class _Bar(PassDisplay):
    """One pass with a bar of ``rich``, shown once the pass has lasted a while."""

    def __init__(self, progress: Any, name: str, n_items: int | None, n_rows: int | None) -> None:
        super().__init__(name, n_items, n_rows)
        self._progress, self._task, self._shown = progress, None, 0.0

    def advance(self, n_items: int = 1) -> None:
        super().advance(n_items)
        now = self.seconds
        if now < _LONG or now - self._shown < _SHOWN_EVERY:
            return
        self._shown = now
        if self._task is None:
            self._task = self._progress.add_task(self.name, total=self.n_items, pace="")
        self._progress.update(self._task, completed=self.n_done, pace=self.pace())

    def finish(self, whole: bool) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        super().finish(whole)


Begin = Callable[[str, int | None, int | None], PassDisplay]  # from label, number of items and number of rows


@contextmanager
def displays(verbose: bool) -> Iterator[Begin]:
    """Yield the function that begins a display per pass, shown on standard error if ``verbose``."""
    progress = _rich_progress() if verbose and sys.stderr.isatty() else None
    if progress is None:
        yield PassDisplay if verbose else Quiet
        return
    with progress:
        yield partial(_Bar, progress)


def watched(executor: Executor, begin: Begin) -> Executor:
    """Return the executor with its passes shown, or the executor itself if they are not shown."""
    return executor if begin is Quiet else Watched(executor, begin)


class Watched(WrappingExecutor):
    """An executor whose passes are shown."""

    def __init__(self, executor: Executor, begin: Begin) -> None:
        super().__init__(executor)
        self._begin = begin
        self._rows: dict[int, int] = {}  # number of blocks -> rows of the last source with as many

    def reduce(self, items: Items[Item], map_item: Callable[..., Total], label: str = "") -> Total:
        with self._begun(items, len(items), label) as done:
            if self.elsewhere(items):
                total: Total = done(self._executor.reduce(items, map_item, label), len(items))
                return total
            return self._executor.reduce(items, lambda item, scratch: done(map_item(item, scratch)), label)

    def map(self, items: Items[Item], map_item: Callable[[Item], Any], label: str = "") -> Any:
        with self._begun(items, len(items), label) as done:
            if self.elsewhere(items):
                return done(self._executor.map(items, map_item, label), len(items))
            return self._executor.map(items, lambda item: done(map_item(item)), label)

    def fold(self, n_steps: int, state: State, advance: Callable[[State, int], State], label: str = "") -> State:
        with self._begun(None, n_steps, label) as done:
            return self._executor.fold(n_steps, state, lambda before, step: done(advance(before, step)), label)

    @contextmanager
    def _begun(self, items: Any, n_items: int, label: str) -> Iterator[Callable[..., Any]]:
        n_rows = getattr(items, "n_samples", None)
        if n_rows is not None:
            self._rows[n_items] = n_rows
        lock = threading.Lock()
        n_rows = None if items is None else self._rows.get(n_items)
        with self._begin(label or "pass over the rows", n_items, n_rows) as display:

            def done(result: Any, n_done: int = 1) -> Any:
                with lock:
                    display.advance(n_done)
                return result

            yield done


def _rich_progress() -> Any:
    """Return a display for bars, or None where ``rich`` is not installed."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        return None
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[pace]}"), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
