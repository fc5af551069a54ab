"""Rows in files as a source of blocks, which one thread reads a few blocks ahead of the computation."""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.rows.blocks import MOST_ROWS, READ_AHEAD, ArraySource, Block, Parts, RowTable, TableView, drawn_rows
from rflaf.rows.progress import Begin, Quiet

FEW_COUNTED = 10_000  # different texts of a column that are counted within a given memory
_AHEAD_BYTES = 2**25  # of blocks read before they are asked for


class Storage(RowTable, Protocol):
    """Rows that can be read from anywhere, and fast in order. Only one thread reads."""

    def read(self, start: int, stop: int, at_once: int) -> Block:
        """Rows start to stop; ``at_once`` rows are decoded at a time."""

    def take(self, rows: Array, at_once: int, advance: Callable[[int], None]) -> Block:
        """Return rows by their numbers, which increase; ``advance`` is called with how many more were found."""

    def parts(self, block_rows: int) -> Parts | None:
        """Return pieces that workers read where they sum them; None where only this process can read."""

    def fingerprint(self) -> int:
        """Return a number that changes with the files."""

    @property
    def reading_bytes(self) -> int:
        """Bytes that reading takes beside the rows read."""


class Reader:
    """One reading thread, shared by all cuts of a table into blocks, and the resources to be removed after it."""

    def __init__(self, begin: Begin = Quiet, memory: int | None = None) -> None:
        self.begin, self.memory = begin, memory
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="rflaf-reader")
        self.exits = ExitStack()
        self._seen: Mapping[str, tuple[int, ...]] = {}

    def watch(self, files: Sequence[str], seen: Mapping[str, tuple[int, ...]] | None = None) -> None:
        """Take these files for the ones to read from now on, as they are or as they were ``seen`` before."""
        self._seen = states_of(files) if seen is None else seen

    def check_unchanged(self) -> None:
        """Refuse to go on with a file that was replaced or written to since it was first read."""
        for file, before in self._seen.items():
            if states_of([file])[file] != before:
                rule = "files must not change while a model is fitted to them"
                raise InvalidParameterError(rule, f"{file}, which did", "Fit again when it is complete.")

    def close(self) -> None:
        self.pool.shutdown(wait=True, cancel_futures=True)
        self.exits.close()


class _Ahead:
    """Blocks made in order by the reader, some ahead of the requests of workers, which are not quite in order."""

    def __init__(self, n_blocks: int, make: Callable[[int], Block], pool: ThreadPoolExecutor, ahead: int) -> None:
        self._n_blocks, self._make, self._pool, self._ahead = n_blocks, make, pool, ahead
        self._coming: dict[int, Future[Block]] = {}
        self._next = 0
        self._lock = threading.Lock()

    def __getitem__(self, index: int) -> Block:
        with self._lock:
            if index not in self._coming:
                begun = self._next if self._next < self._n_blocks else 0  # the next pass begins at the first block
                if not begun <= index <= begun + self._ahead:
                    self._forget()
                    begun = index
                self._ask(begun, index + 1)
            future = self._coming.pop(index)
            self._ask(self._next, min(index + 1 + self._ahead, self._n_blocks))
        return future.result()

    def _ask(self, start: int, stop: int) -> None:
        for index in range(start, stop):
            self._coming[index] = self._pool.submit(self._make, index)
            self._next = index + 1

    def _forget(self) -> None:
        for future in self._coming.values():
            future.cancel()
        self._coming.clear()


@dataclass(frozen=True)
class FileSource(TableView):
    """Blocks of a table that is in files."""

    source: Storage
    reader: Reader = field(repr=False)
    block_rows: int = MOST_ROWS

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ahead", _Ahead(len(self), self._read, self.reader.pool, self.n_ahead))

    @property
    def fingerprint(self) -> int:
        return self.source.fingerprint()

    @property
    def reading_bytes(self) -> int:
        return self.source.reading_bytes

    @property
    def n_ahead(self) -> int:
        """Blocks read before they are asked for."""
        return min(READ_AHEAD, max(1, _AHEAD_BYTES // (8 * self.n_features * self.block_rows)))

    def __len__(self) -> int:
        return -(-self.n_samples // self.block_rows)

    def __getitem__(self, index: int) -> Block:
        if not 0 <= index < len(self):
            raise IndexError(index)
        block: Block = self._ahead[index]  # type: ignore[attr-defined]
        return block

    def _read(self, index: int) -> Block:
        start = index * self.block_rows
        self.reader.check_unchanged()
        block = self.source.read(start, min(start + self.block_rows, self.n_samples), self._at_once)
        self.reader.check_unchanged()  # while it was read
        return replace(block, first=start)

    @property
    def _at_once(self) -> int:
        """Rows to decode together."""
        return self.n_ahead * self.block_rows

    @property
    def parts(self) -> Parts | None:
        return self.source.parts(self.block_rows)

    def with_rows(self, block_rows: int) -> FileSource:
        return FileSource(self.source, self.reader, block_rows)

    def sample(self, n_rows: int, rng: np.random.Generator) -> ArraySource:
        """The rows that the same generator draws from an array, in one pass over the files that have some."""
        rows = drawn_rows(self.n_samples, n_rows, rng)
        self.reader.check_unchanged()
        with self.reader.begin("draw rows", rows.size, rows.size) as display:
            taking = self.reader.pool.submit(self.source.take, rows, self._at_once, display.advance)
            block = taking.result()
        self.reader.check_unchanged()
        return ArraySource(block.X, block.y, block.weight, self.block_rows)


def states_of(files: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the number, size and time of every file: they change when it is replaced or written to."""
    found: dict[str, tuple[int, ...]] = {}
    for file in files:
        try:
            about = os.stat(file)
            found[file] = about.st_ino, about.st_size, about.st_mtime_ns
        except OSError:  # removed, or its folder, or no longer to be reached
            found[file] = ()
    return found


def fingerprint_of(files: list[str], others: object) -> int:
    """A number that changes with names, sizes and times of files, and with what else is given."""
    stated = [(os.path.basename(file), os.stat(file).st_size, os.stat(file).st_mtime_ns) for file in files]
    return zlib.crc32(repr((stated, others)).encode())
