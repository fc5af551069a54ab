"""The resident memory of this process: the largest so far, the largest since a moment, and now."""

from __future__ import annotations

import re
import sys
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"  # what Linux takes for it


def peak_bytes() -> float:
    """As the operating system counts it; not a number on Windows, which does not."""
    try:
        import resource
    except ImportError:
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def resident() -> float:
    """Bytes resident now; not a number outside of Linux."""
    return _of_status("VmRSS")


def forget_peak() -> None:
    """Let `peak_since` count from now; on Linux only."""
    if _CLEAR.exists():
        _CLEAR.write_text(_RESET_PEAK)


def peak_since() -> float:
    """The largest resident memory since it was last forgotten; not a number outside of Linux."""
    return _of_status("VmHWM")


def _of_status(name: str) -> float:
    if not _STATUS.exists():
        return float("nan")
    found = re.search(rf"{name}:\s+(\d+) kB", _STATUS.read_text())
    return 1024.0 * int(found[1]) if found else float("nan")
