"""Checkpoints: a killed fit resumes from the results of its passes, which are kept in a file.

The seed determines everything between the passes, so the same fit started again reads their results in order and ends
at the same model, bit for bit. Refined models record their state after every epoch, or more often where it is long.

The file is a title line, then append-only records: a line of JSON, and arrays as NumPy writes them, without pickle. The
checksum drops a record cut short by a crash. A pass is recorded where computing its result took longer than reading it
will. The file is removed when the fit is complete.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp

from rflaf.errors import Array, CheckpointWarning, InvalidParameterError

from .blocks import Block, BlockSource, innermost
from .executors import Executor, Item, Items, State, Total, WrappingExecutor

_TITLE = b"rflaf checkpoint 2\n"
_LEAST_SECONDS = 0.5
_BYTES_PER_SECOND = 1e8  # lower bound on the speed of writing and reading a record
_MOST_DEAD = 2**26  # bytes of replaced records before the file is compacted
_PACKAGE = __name__.partition(".")[0]


class Recorded(WrappingExecutor):
    """An executor that reads the results of its calls, numbered in order of the fit, or computes and records them."""

    def __init__(self, executor: Executor, journal: Journal) -> None:
        super().__init__(executor)
        self._journal = journal

    def reduce(self, items: Items[Item], map_item: Callable[..., Total], label: str = "") -> Total:
        if isinstance(items, list | tuple):  # blocks in memory, which a pass may change
            return self._executor.reduce(items, map_item, label)
        total: Total = self._once(len(items), label, lambda: self._executor.reduce(items, map_item, label))
        return total

    def map(self, items: Items[Item], map_item: Callable[[Item], Any], label: str = "") -> Any:
        return self._once(len(items), label, lambda: self._executor.map(items, map_item, label))

    def fold(self, n_steps: int, state: State, advance: Callable[[State, int], State], label: str = "") -> State:
        key = self._journal.next_key(n_steps, label)
        first = 0
        if key in self._journal:
            first, state = self._journal.read(key)
        kept = perf_counter()

        def advance_and_record(before: State, step: int) -> State:
            nonlocal kept
            after = advance(before, first + step)
            if self._journal.keep(key, (first + step + 1, after), perf_counter() - kept):
                kept = perf_counter()
            return after

        return self._executor.fold(n_steps - first, state, advance_and_record, label)

    def _once(self, n_items: int, label: str, compute: Callable[[], Any]) -> Any:
        key = self._journal.next_key(n_items, label)
        if key in self._journal:
            return self._journal.read(key)
        started = perf_counter()
        result = compute()
        self._journal.keep(key, result, perf_counter() - started)
        return result


class Journal:
    """Records by key in one file; the last record of a key is valid."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records: dict[str, tuple[int, int]] = {}  # start and size
        self._end, self._calls, self._full = 0, 0, False
        if path.exists():
            self._scan()

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

    def read(self, key: str) -> Any:
        """Return the value of a key."""
        with self.path.open("rb") as file:
            file.seek(self._records[key][0])
            header = json.loads(file.readline())
            with np.load(io.BytesIO(file.read(header["size"])), allow_pickle=False) as arrays:
                return _unpack(header["value"], arrays)

    def keep(self, key: str, value: Any, seconds: float) -> bool:
        """Record a value if computing it took long enough; a value of foreign objects is not recorded."""
        if seconds < _LEAST_SECONDS or self._full:
            return False
        arrays: list[Array] = []
        try:
            packed = _pack(value, arrays)
        except TypeError:
            return False
        if seconds < _LEAST_SECONDS + sum(array.nbytes for array in arrays) / _BYTES_PER_SECOND:
            return False
        return self.write(key, packed, arrays)

    def write(self, key: str, packed: Any, arrays: list[Array]) -> bool:
        """Append a record and flush it to disk. A full disk ends the recording, not the fit."""
        payload = io.BytesIO()
        np.savez(payload, **{str(number): array for number, array in enumerate(arrays)})  # type: ignore[arg-type]
        body = payload.getvalue()
        header = {"key": key, "size": len(body), "crc": zlib.crc32(body), "value": packed}
        line = json.dumps(header).encode() + b"\n"
        try:
            self._append(line + body)
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
        self._records[key] = self._end, len(line) + len(body)
        self._end += len(line) + len(body)
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
        fresh = self.path.with_name(self.path.name + ".new")
        records, end = {}, len(_TITLE)
        with suppress(OSError):
            with self.path.open("rb") as old, fresh.open("wb") as new:
                new.write(_TITLE)
                for key, (start, size) in self._records.items():
                    old.seek(start)
                    new.write(old.read(size))
                    records[key] = end, size
                    end += size
                new.flush()
                os.fsync(new.fileno())
            os.replace(fresh, self.path)
            self._records, self._end = records, end

    def _scan(self) -> None:
        """Find the records of a file, up to the first damaged one."""
        with self.path.open("rb") as file:
            if file.readline() != _TITLE:
                raise InvalidParameterError(
                    "checkpoint must name a file of this package, or none", str(self.path), "Use another path."
                )
            self._end = len(_TITLE)
            while line := file.readline():
                try:
                    header = json.loads(line)
                    whole = zlib.crc32(file.read(header["size"])) == header["crc"]
                except (ValueError, KeyError, TypeError):
                    break
                if not whole:
                    break
                size = len(line) + header["size"]
                self._records[header["key"]] = self._end, size
                self._end += size


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
        before, state_before = journal.read(key)
        if before != about:
            differs = "parameters" if before["parameters"] != parameters else "rows"
            raise _another(file, f"one of other {differs}")
        if seeded and not _same(state_before, state):
            raise _another(file, "one of another random_state")
        rng.bit_generator.state = state_before
    else:
        arrays: list[Array] = []
        journal.write(key, _pack((about, state), arrays), arrays)
    try:
        yield Recorded(executor, journal)
    except BaseException:
        if len(journal) == 1:
            file.unlink(missing_ok=True)
        raise
    file.unlink(missing_ok=True)


def _another(path: Path, found: str) -> InvalidParameterError:
    rule = f"the checkpoint {path} must be one of this fit"
    return InvalidParameterError(rule, found, "Remove the file, or name another.")


def _same(first: Any, second: Any) -> bool:
    """Return whether two states of a generator are equal."""
    arrays: tuple[list[Array], list[Array]] = [], []
    alike = _pack(first, arrays[0]) == _pack(second, arrays[1])
    return alike and all(np.array_equal(a, b) for a, b in zip(*arrays, strict=True))


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


def _pack(value: Any, arrays: list[Array]) -> Any:
    """Return plain JSON for a value of numbers, strings, arrays and objects of this package; arrays are set aside."""
    if value is None or isinstance(value, bool | str) or type(value) in (int, float):
        return value
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.hasobject:
            raise TypeError(value.dtype)
        arrays.append(np.asarray(value))
        return {"array" if isinstance(value, np.ndarray) else "scalar": len(arrays) - 1}
    if isinstance(value, dict):
        return {"dict": [[_pack(key, arrays), _pack(part, arrays)] for key, part in value.items()]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [_pack(part, arrays) for part in value]}
    kind = type(value)
    if kind.__module__.partition(".")[0] != _PACKAGE:
        raise TypeError(kind)
    name = kind.__name__
    if isinstance(value, Enum):
        return {"enum": name, "member": value.name}
    if isinstance(value, tuple):
        return {"named": name, "fields": [_pack(part, arrays) for part in value]}
    if dataclasses.is_dataclass(value):
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        return {"data": name, "fields": {field: _pack(getattr(value, field), arrays) for field in fields}}
    raise TypeError(kind)


def _unpack(packed: Any, arrays: Any) -> Any:
    if not isinstance(packed, dict):
        return packed
    kind, content = next(iter(packed.items()))
    if kind in ("array", "scalar"):
        return arrays[str(content)] if kind == "array" else arrays[str(content)][()]
    if kind == "dict":
        return {_unpack(key, arrays): _unpack(part, arrays) for key, part in content}
    if kind in ("list", "tuple"):
        parts = [_unpack(part, arrays) for part in content]
        return parts if kind == "list" else tuple(parts)
    named = _type_named(content)
    if kind == "enum":
        return named[packed["member"]]
    if kind == "named":
        return named(*(_unpack(part, arrays) for part in packed["fields"]))
    return named(**{field: _unpack(part, arrays) for field, part in packed["fields"].items()})


def _type_named(name: str) -> Any:
    """Return the loaded tuple, dataclass or enumeration of this package with that unique name; nothing is imported."""
    found = {
        kind
        for module, content in list(sys.modules.items())
        if module.partition(".")[0] == _PACKAGE and isinstance(kind := vars(content).get(name), type)
        if kind.__module__.partition(".")[0] == _PACKAGE and kind.__name__ == name
        if dataclasses.is_dataclass(kind) or issubclass(kind, tuple | Enum)
    }
    if len(found) != 1:
        raise InvalidParameterError("a checkpoint must hold results of this package only", name, "Remove the file.")
    return found.pop()
