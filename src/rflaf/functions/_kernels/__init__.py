"""Compiled loops (numba), private as a whole.

Every loop has a NumPy reference, and a test that compares the two. Imports nothing of rflaf. The modules are loaded on
first use, ``_kernels.features.predict``, since the compiler takes longer to import than a few rows to predict.
"""

import sys
from importlib import import_module
from typing import Any

_LOOPS = (
    "cache",
    "cholesky",
    "contributions",
    "curvature",
    "curves",
    "features",
    "loops",
    "losses",
    "network",
    "pairs",
    "products",
    "refined",
    "tiles",
    "vectors",
)


def __getattr__(name: str) -> Any:
    if name in _LOOPS:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_loaded() -> bool:
    """Return whether the compiler is in this process already."""
    return f"{__name__}.vectors" in sys.modules
