"""Checkpoints: a killed fit resumes from the results of its passes, which are kept in a file.

The seed determines everything between the passes, so the same fit started again reads their results in order and ends
at the same model, bit for bit. Refined models record their state after every epoch of many rows, or more often where it
is long, and after several of few rows.

The file is a title line, then append-only records: a line of sizes and checksums, JSON, and the bytes of arrays. The
last record may be cut short by a crash and is dropped then; any other damage, and a record that no pass of this fit
makes, is refused. A pass is recorded where computing its result took longer than reading it will; copies of rows, and
passes over one block, are not. What a pass must make is known from its first block, which is computed again. The file
is removed when the fit is complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp

from rflaf.errors import Array, CheckpointWarning, InvalidParameterError

from .blocks import Block, BlockSource, innermost
from .executors import Executor, Item, Items, State, Total, WrappingExecutor
from .packed import Packed, UnlikeError, is_plain, pack, refuse_unlike, unpack

_TITLE = b"rflaf checkpoint 3\n"
_SIZES = re.compile(rb"([0-9a-f]{16}) ([0-9a-f]{16}) ([0-9a-f]{64}) ([0-9a-f]{8})\n")
_SIZES_LENGTH = 16 + 1 + 16 + 1 + 64 + 1 + 8 + 1
_LEAST_SECONDS = 0.5
_BYTES_PER_SECOND = 1e8  # lower bound on the speed of writing and reading a record
_MOST_DEAD = 2**26  # bytes of replaced records before the file is compacted


class Recorded(WrappingExecutor):
    """An executor that reads the results of its calls, numbered in order of the fit, or computes and records them."""

    def __init__(self, executor: Executor, journal: Journal) -> None:
        super().__init__(executor)
        self._journal = journal

    def reduce(self, items: Items[Item], map_item: Callable[..., Total], label: str = "") -> Total:
        if isinstance(items, list | tuple) or len(items) < 2:  # blocks in memory, which a pass may change; or one block
            return self._executor.reduce(items, map_item, label)
        key = self._journal.next_key(len(items), label)
        if key in self._journal:
            total: Total = self._journal.read(key, self._executor.reduce([items[0]], map_item, label))
            return total
        return self._computed(key, lambda: self._executor.reduce(items, map_item, label))

    def map(self, items: Items[Item], map_item: Callable[[Item], Any], label: str = "") -> Any:
        key = self._journal.next_key(len(items), label)
        if key not in self._journal:
            return self._computed(key, lambda: self._executor.map(items, map_item, label), is_plain)
        results = self._journal.read(key)
        if not isinstance(results, list) or len(results) != len(items):
            raise _forged(self._journal.path, f"no results of {len(items)} items")
        return results

    def fold(self, n_steps: int, state: State, advance: Callable[[State, int], State], label: str = "") -> State:
        key = self._journal.next_key(n_steps, label)
        first = 0
        if key in self._journal:
            first, state = self._journal.read(key, (0, state))
            if not 0 < first <= n_steps or not isinstance(first, int):
                raise _forged(self._journal.path, f"step {first} of {n_steps}")
        kept = perf_counter()

        def advance_and_record(before: State, step: int) -> State:
            nonlocal kept
            after = advance(before, first + step)
            if self._journal.keep(key, (first + step + 1, after), perf_counter() - kept):
                kept = perf_counter()
            return after

        return self._executor.fold(n_steps - first, state, advance_and_record, label)

    def _computed(
        self, key: str, compute: Callable[[], Any], recordable: Callable[[Packed], bool] = lambda packed: True
    ) -> Any:
        started = perf_counter()
        result = compute()
        self._journal.keep(key, result, perf_counter() - started, recordable)
        return result


class Journal:
    """Records by key in one file; the last record of a key is valid."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records: dict[str, tuple[int, int]] = {}  # start and size
        self._end, self._calls, self._full = 0, 0, False
        self.was_read = False
        self._fresh = path.with_name(path.name + ".new")  # of a compaction
        if path.exists():
            self._scan()
            self._fresh.unlink(missing_ok=True)

    def __contains__(self, key: str) -> bool:
        return key in self._records

    def __len__(self) -> int:
        return len(self._records)

    def next_key(self, n_items: int, label: str) -> str:
        """Return the key of the next call: call number, label and number of items; a mismatch means another fit."""
        self._calls += 1
        key = f"{self._calls} {label} {n_items}"
        others = [other for other in self._records if other.startswith(f"{self._calls} ") and other != key]
        if others:
            raise _another(self.path, f"pass {others[0]!r} where this fit has {key!r}")
        return key

    def read(self, key: str, like: Any = None) -> Any:
        """Return the value of a key, which has the outline of ``like``, or is plain if that is None."""
        start, _ = self._records[key]
        with self.path.open("rb") as file:
            record = _read_record(file, start, self._end)
        try:
            if record is None:
                raise UnlikeError("a record that was there a moment ago")
            packed = _decode(*record)[1]
            if like is not None:
                refuse_unlike(packed, pack(like))
            elif not is_plain(packed):
                raise UnlikeError("objects where a pass makes numbers and arrays")
            value = unpack(packed)
        except (UnlikeError, TypeError) as error:
            raise _forged(self.path, str(error)) from None
        self.was_read = True
        return value

    def keep(
        self,
        key: str,
        value: Any,
        seconds: float,
        recordable: Callable[[Packed], bool] = lambda packed: True,
    ) -> bool:
        """Record a value if computing it took long enough; a value of foreign objects is not recorded."""
        if seconds < _LEAST_SECONDS or self._full:
            return False
        try:
            packed = pack(value)
        except TypeError:
            return False
        size = sum(array.nbytes for array in packed.arrays)
        if not recordable(packed) or seconds < _LEAST_SECONDS + size / _BYTES_PER_SECOND:
            return False
        return self.write(key, packed)

    def write(self, key: str, packed: Packed) -> bool:
        """Append a record and flush it to disk. A full disk ends the recording, not the fit."""
        content = _encode(key, packed)
        try:
            self._append(content)
        except OSError as error:
            self._full = True
            with suppress(OSError):
                os.truncate(self.path, self._end)
            warnings.warn(
                f"the checkpoint {self.path} cannot be written any more ({error}): the fit goes on without, and what"
                " was recorded until now is kept",
                CheckpointWarning,
                stacklevel=2,
            )
            return False
        self._records[key] = self._end, len(content)
        self._end += len(content)
        if self._end - sum(size for _, size in self._records.values()) > _MOST_DEAD:
            self._compact()
        return True

    def _append(self, content: bytes) -> None:
        with self.path.open("r+b" if self._end else "w+b") as file:
            file.seek(self._end)
            if not self._end:
                file.write(_TITLE)
                self._end = len(_TITLE)
            file.write(content)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())

    def _compact(self) -> None:
        """Write the valid records to a new file and replace the old one atomically."""
        records, end = {}, len(_TITLE)
        with suppress(OSError):
            with self.path.open("rb") as old, self._fresh.open("wb") as new:
                new.write(_TITLE)
                for key, (start, size) in self._records.items():
                    old.seek(start)
                    new.write(old.read(size))
                    records[key] = end, size
                    end += size
                new.flush()
                os.fsync(new.fileno())
            os.replace(self._fresh, self.path)
            self._records, self._end = records, end

    def _scan(self) -> None:
        """Find the records of a file, but for a last one that a crash cut short; any other damage is refused."""
        if not stat.S_ISREG(self.path.stat().st_mode):
            raise _foreign(self.path)
        with self.path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if file.read(len(_TITLE)) != _TITLE:
                raise _foreign(self.path)
            self._end = len(_TITLE)
            try:
                while (record := _read_record(file, self._end, size)) is not None:
                    key = _decode(*record)[0]
                    length = _SIZES_LENGTH + sum(map(len, record))
                    self._records[key] = self._end, length
                    self._end += length
            except UnlikeError as error:
                raise _forged(self.path, str(error)) from None


def _encode(key: str, packed: Packed) -> bytes:
    """Return the bytes of a record: sizes and checksums, JSON, arrays."""
    about = [[array.dtype.str, list(array.shape), _order(array)] for array in packed.arrays]
    text = json.dumps({"key": key, "value": packed.value, "arrays": about}).encode()
    body = b"".join(array.tobytes(order=_order(array)) for array in packed.arrays)  # type: ignore[arg-type]
    sizes = f"{len(text):016x} {len(body):016x} {hashlib.sha256(text + body).hexdigest()} ".encode()
    return sizes + f"{zlib.crc32(sizes):08x}\n".encode() + text + body


def _order(array: Array) -> str:
    """Return the order of an array in memory, on which the rounding of products depends."""
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def _read_record(file: Any, start: int, end: int) -> tuple[bytes, bytes] | None:
    """Return JSON and arrays of the record at ``start``; None if the file ends before the record does."""
    file.seek(start)
    line = file.read(_SIZES_LENGTH)
    if len(line) < _SIZES_LENGTH:
        return None
    found = _SIZES.fullmatch(line)
    if found is None or zlib.crc32(line[:-9]) != int(found[4], 16):
        raise UnlikeError(f"a damaged record at byte {start}")
    n_text, n_body = int(found[1], 16), int(found[2], 16)
    if start + _SIZES_LENGTH + n_text + n_body > end:
        return None
    text, body = file.read(n_text), file.read(n_body)
    if hashlib.sha256(text + body).hexdigest().encode() != found[3]:
        raise UnlikeError(f"a damaged record at byte {start}")
    return text, body


def _decode(text: bytes, body: bytes) -> tuple[str, Packed]:
    """Return key and packed value of a record; the arrays may be written to."""
    try:
        header = json.loads(text)
        key, arrays, start = header["key"], [], 0
        for name, shape, order in header["arrays"]:
            dtype = np.dtype(name)
            if dtype.hasobject or dtype.kind not in "biufcSU" or not all(type(n) is int and n >= 0 for n in shape):
                raise UnlikeError(f"an array of {name} {shape}")
            n_bytes = dtype.itemsize * int(np.prod(shape, dtype=object))
            if n_bytes > len(body) - start:
                raise UnlikeError(f"an array of {name} {shape} that is not there")
            flat = np.frombuffer(body, dtype, n_bytes // max(dtype.itemsize, 1), start)
            arrays.append(flat.reshape(shape, order=order).copy(order))
            start += n_bytes
        if start != len(body) or not isinstance(key, str):
            raise UnlikeError("arrays that nothing speaks of")
        return key, Packed(header["value"], arrays)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise UnlikeError(str(error)) from None


@contextmanager
def resumed(
    path: str | os.PathLike[str] | None,
    parameters: str,
    source: BlockSource,
    rng: np.random.Generator,
    executor: Executor,
    seeded: bool,
) -> Iterator[Executor]:
    """Yield an executor that records the passes of a fit in the file ``path`` and reads those of a killed fit.

    An ``rng`` that is not ``seeded`` is set to its state in the killed fit.
    """
    if path is None:
        yield executor
        return
    file = Path(path)
    if file.is_dir() or not file.absolute().parent.is_dir():
        rule = "checkpoint must be a file in a folder that is there"
        raise InvalidParameterError(rule, str(path), "Make the folder.")
    journal = Journal(file)
    about = {"parameters": parameters, "rows": fingerprint(source, executor)}
    key, state = "0 fit", rng.bit_generator.state
    if key in journal:
        before, state_before = journal.read(key, (about, state))
        if before != about:
            differs = "parameters" if before["parameters"] != parameters else "rows"
            raise _another(file, f"one of other {differs}")
        if seeded and not _same(state_before, state):
            raise _another(file, "one of another random_state")
        try:
            rng.bit_generator.state = state_before
        except (TypeError, ValueError, OverflowError) as error:
            raise _forged(file, str(error)) from None
    else:
        if len(journal):
            raise _forged(file, "no record of what the fit is")
        journal.write(key, pack((about, state)))
    journal.was_read = False
    try:
        yield Recorded(executor, journal)
    except BaseException as error:
        if journal.was_read and not isinstance(error, KeyboardInterrupt):
            error.add_note(f"The fit had read results from the checkpoint {file}; if it fails only with it, remove it.")
        if len(journal) == 1:
            file.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # a read-only folder must not cost the model
        file.unlink(missing_ok=True)


def _another(path: Path, found: str) -> InvalidParameterError:
    rule = f"the checkpoint {path} must be one of this fit"
    return InvalidParameterError(rule, found, "Remove the file, or name another.")


def _forged(path: Path, found: str) -> InvalidParameterError:
    rule = f"the checkpoint {path} must be as a fit of this package wrote it"
    return InvalidParameterError(rule, found, "Remove the file; the fit begins anew.")


def _foreign(path: Path) -> InvalidParameterError:
    rule = "checkpoint must name a file of this package and version, or none"
    return InvalidParameterError(rule, str(path), "Use another path.")


def _same(first: Any, second: Any) -> bool:
    """Return whether two states of a generator are equal."""
    one, other = pack(first), pack(second)
    return one.value == other.value and all(map(np.array_equal, one.arrays, other.arrays))


def fingerprint(source: BlockSource, executor: Executor) -> int:
    """Return a number that identifies the rows: that of their files, or a checksum computed in one pass."""
    source = innermost(source)
    stated = getattr(source, "fingerprint", None)
    if stated is not None:
        return int(stated)
    found = executor.map(source, _block_crc, "check the rows against the checkpoint")
    return zlib.crc32(repr((source.n_samples, [found[i] for i in range(len(found))])).encode())


def _block_crc(block: Block) -> int:
    parts = (block.X.data, block.X.indices, block.X.indptr) if sp.issparse(block.X) else (block.X,)
    crc = 0
    for part in (*parts, block.y, block.weight):
        if part is not None:
            crc = zlib.crc32(np.ascontiguousarray(part).tobytes(), crc)
    return crc
