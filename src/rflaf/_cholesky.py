"""Cholesky factors without the lock of the interpreter, which SciPy holds while it factors.

So several threads can factor at once, a matrix each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._vectors import jit as _jit


@_jit
def cholesky(A: Any) -> Any:
    """L, lower, with L L' = A for a symmetric ``A`` in the order of Fortran; LinAlgError where it is not positive."""
    return np.linalg.cholesky(A)
