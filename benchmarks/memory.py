"""The largest resident memory of this process so far."""

from __future__ import annotations

import sys


def peak_bytes() -> float:
    """As the operating system counts it; not a number on Windows, which does not."""
    try:
        import resource
    except ImportError:
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
