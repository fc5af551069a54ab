"""The disk cache of compiled loops: numba's, which a damaged file does not stop and a read-only folder still serves.

Three things differ from numba's own. A loop is stale once any file of this folder changes, not only its own. What is
read is compared with its checksum: a file that is cut or overwritten is compiled anew. And where the folder of the
cache, ``NUMBA_CACHE_DIR`` or ``__pycache__``, cannot be written, what it holds is read all the same, as in a container
whose image was made with ``rflaf warm-up``.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import caching

_logger = logging.getLogger("rflaf.functions._kernels")
_missed: list[str] = []  # loops compiled by this process, in their order


class Progress:
    """Says that loops are compiled, once it has taken a second, and every few seconds how many there were.

    Loops call loops, so that the compilation of one lies within that of another. Where nobody reads along, neither at
    a terminal nor in a notebook, the log of level INFO has all of it. That nothing can be kept is said once.
    """

    def __init__(self) -> None:
        self._begun: list[float] = []
        self._spent, self._told, self._n_loops = 0.0, 0.0, 0
        self.is_kept = True  # on disk, what is compiled

    def begin(self, name: str) -> None:
        """A loop is to be compiled."""
        self._begun.append(time.monotonic())
        self._n_loops += 1
        _logger.info("compiling %s", name)
        spent = self._spent + self._begun[-1] - self._begun[0]
        is_due = spent - self._told > (_PATIENCE if self._told else 1.0)
        if is_due and (_is_watched() or not (self.is_kept or self._told)):
            self._told = spent
            _logger.warning(_ONCE if self.is_kept else _ALWAYS, self._n_loops, spent)

    def end(self) -> None:
        """The last loop that was begun is compiled."""
        if self._begun:
            begun = self._begun.pop()
            if not self._begun:
                self._spent += time.monotonic() - begun


_PATIENCE = 4.0  # seconds between two remarks
_ONCE = "compiling, once for this machine and release: %d loops in %.0f s (rflaf warm-up does it beforehand)"
_ALWAYS = "compiling, as every process will: %d loops in %.0f s; no folder can be written, set NUMBA_CACHE_DIR to one"
_progress = Progress()


def _is_watched() -> bool:
    return "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())


def _locator(name: str) -> Any:
    """Return a class of numba that tells where a cache is; releases of 0.61 have an underscore before its name."""
    return getattr(caching, name, None) or getattr(caching, f"_{name}")


_USER_PROVIDED, _IN_TREE = _locator("UserProvidedCacheLocator"), _locator("InTreeCacheLocator")


class _Filled:
    """A locator of a folder that holds compiled loops, whether or not it can be written."""

    def ensure_cache_path(self) -> None:
        path = Path(self.get_cache_path())  # type: ignore[attr-defined]
        if not any(path.glob("*.nbi")):
            raise FileNotFoundError(path)


class _FilledProvided(_Filled, _USER_PROVIDED):  # type: ignore[misc, valid-type]
    """``NUMBA_CACHE_DIR``."""


class _FilledInTree(_Filled, _IN_TREE):  # type: ignore[misc, valid-type]
    """``__pycache__`` beside the loops."""


class _Impl(caching.CompileResultCacheImpl):
    _locator_classes = [  # noqa: RUF012  numba reads it from the class
        _USER_PROVIDED,
        _FilledProvided,
        _IN_TREE,
        _FilledInTree,
        _locator("UserWideCacheLocator"),
        _locator("ZipCacheLocator"),
    ]


class _Checked(caching.IndexDataCacheFile):
    """Data files that begin with their checksum."""

    def _save_data(self, name: str, data: Any) -> None:
        content = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(hashlib.sha256(content).digest() + content)

    def _load_data(self, name: str) -> Any:
        with open(self._data_path(name), "rb") as file:
            digest, content = file.read(32), file.read()
        if hashlib.sha256(content).digest() != digest:
            raise ValueError(f"{name} is damaged")
        return pickle.loads(content)


class LoopCache(caching.FunctionCache):
    """The cache of one loop; raises RuntimeError where there is no folder for it."""

    _impl_class = _Impl

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        base = self._impl.filename_base
        self._cache_file = _Checked(cache_path=self._cache_path, filename_base=base, source_stamp=_stamp())

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return the compiled loop, or None if it is to be compiled: it is not there, or damaged."""
        try:
            found = super().load_overload(signature, target_context)
        except Exception as error:
            _logger.info("the cache of %s is damaged (%s): it is made anew", self._py_func.__name__, error)
            with suppress(OSError):
                self.flush()
            found = None
        if found is None:
            _missed.append(self._py_func.__name__)
            _progress.begin(self._py_func.__name__)
        return found

    def save_overload(self, signature: Any, data: Any) -> None:
        """Keep a compiled loop, if the folder can be written."""
        _progress.end()
        with suppress(OSError):
            super().save_overload(signature, data)


class NoCache(caching.NullCache):
    """Nothing is kept of a part of loops, but whoever waits for it is told."""

    def __init__(self, function: Any) -> None:
        self._name = function.__name__

    def load_overload(self, signature: Any, target_context: Any) -> None:
        _progress.begin(self._name)

    def save_overload(self, signature: Any, data: Any) -> None:
        _progress.end()


class NoFolder(NoCache):
    """There is no folder for a loop: every process compiles it."""

    def load_overload(self, signature: Any, target_context: Any) -> None:
        _missed.append(self._name)
        _progress.is_kept = False
        super().load_overload(signature, target_context)


def compiled() -> tuple[str, ...]:
    """Return the loops that this process had to compile."""
    return tuple(_missed)


@cache
def _stamp() -> bytes:
    """Return the checksum of every file of this folder."""
    digest = hashlib.sha256()
    folder = os.path.dirname(__file__)
    for name in sorted(name for name in os.listdir(folder) if name.endswith(".py")):
        digest.update(name.encode() + Path(folder, name).read_bytes())
    return digest.digest()
