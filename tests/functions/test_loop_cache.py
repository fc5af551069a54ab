"""The cache of compiled loops: kept, rebuilt when damaged, read where it cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # every test starts processes that compile a loop

SCRIPT = """
import numpy as np
from rflaf.functions import _kernels
u, table = np.array([[0.25, 1.0]]), np.array([[[1.0, 2, 0, 0], [3, 0, 0, 0]]])
out = np.empty_like(u)
_kernels.features.activate(u, table, out)
assert out.tolist() == [[1.5, 3.0]], out
print(*_kernels.cache.compiled())
"""


def compiled_by_a_new_process(folder: Path) -> list[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    run = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


@pytest.fixture
def filled(tmp_path) -> Path:
    assert compiled_by_a_new_process(tmp_path) == ["activate"]
    return tmp_path


def test_a_second_process_compiles_nothing(filled):
    assert compiled_by_a_new_process(filled) == []


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("harm", ["cut", "flip", "empty", "foreign"])
def test_a_damaged_cache_is_made_anew(filled, ending, harm):
    for path in filled.rglob(f"*.{ending}"):
        content = path.read_bytes()
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]
        path.write_bytes({"cut": content[:middle], "flip": flipped, "empty": b"", "foreign": b"hello"}[harm])
    found = compiled_by_a_new_process(filled)
    assert found in ([], ["activate"]) if (ending, harm) == ("nbi", "flip") else found == ["activate"]
    assert compiled_by_a_new_process(filled) == []


def test_a_folder_that_cannot_be_written_is_read(filled, monkeypatch):
    monkeypatch.setenv("HOME", str(filled / "nowhere"))
    writable = "import numba.core.caching as c\ndef no(self): raise OSError\nc._CacheLocator.ensure_cache_path = no\n"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(filled)}
    run = subprocess.run([sys.executable, "-c", writable + SCRIPT], env=environment, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr.decode()
    assert run.stdout.split() == []


def test_who_waits_for_the_compiler_is_told(monkeypatch, caplog):
    from rflaf.functions._kernels import cache

    clock = iter([0.0, 0.5, 0.9, 1.5, 1.6, 2.0, 3.0, 3.0, 9.0])
    monkeypatch.setattr(cache.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(cache, "_is_watched", lambda: True)
    progress = cache.Progress()
    progress.begin("outer")  # at 0
    progress.begin("inner")  # at 0.5: half a second is no wait
    progress.end()
    assert not caplog.records
    progress.begin("second")  # at 0.9
    progress.begin("third")  # at 1.5
    progress.end()
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == [
        "compiling, once for this machine and release: 4 loops in 2 s"
    ]
    progress.end()
    progress.end()  # the outer one: 1.6 to 2.0
    progress.begin("later")  # nothing was compiled in between
    assert len(caplog.records) == 1


def test_where_no_folder_can_be_written_every_process_says_that_it_compiles(monkeypatch, caplog):
    from rflaf.functions._kernels import cache, loops

    def nowhere(function):
        raise RuntimeError("no locator available")

    clock = iter([0.0, 2.0, 2.0, 9.0, 9.0, 20.0])
    monkeypatch.setattr(cache.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(cache, "_is_watched", lambda: False)
    monkeypatch.setattr(cache, "_progress", cache.Progress())
    monkeypatch.setattr(cache, "_missed", [])
    monkeypatch.setattr(loops, "LoopCache", nowhere)
    for name in ("double", "triple", "again"):
        times = len(name)
        function = eval(f"lambda x: {times} * x")
        function.__name__ = name
        assert loops.jit(function)(2) == 2 * times
    assert cache.compiled() == ("double", "triple", "again")
    assert [record.getMessage() for record in caplog.records] == [
        "compiling, as every process will: 2 loops in 2 s; no folder can be written, set NUMBA_CACHE_DIR to one"
    ]


def test_the_folders_of_older_releases_of_numba_are_found(monkeypatch):
    """Releases of 0.61 have an underscore before the names of these classes."""
    from rflaf.functions._kernels import cache

    for name in ("UserProvidedCacheLocator", "InTreeCacheLocator"):
        found = cache._locator(name)
        monkeypatch.delattr(cache.caching, found.__name__)
        monkeypatch.setattr(cache.caching, f"_{name}", found, raising=False)
        assert cache._locator(name) is found
