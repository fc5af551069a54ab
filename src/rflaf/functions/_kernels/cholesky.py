"""Cholesky factors in place, without the interpreter lock that SciPy holds: several threads can factor at once."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numba.extending import get_cython_function_address
from numpy.typing import NDArray

_Int = ctypes.POINTER(ctypes.c_int)
_Routine = ctypes.CFUNCTYPE(None, ctypes.c_char_p, _Int, ctypes.c_void_p, _Int, _Int)  # releases the lock
_ROUTINES = {np.dtype(np.float32): "spotrf", np.dtype(np.float64): "dpotrf"}


def factor_in_place(A: NDArray[Any]) -> bool:
    """Write L with L L' = A into the lower triangle of ``A``, a symmetric matrix in Fortran order.

    Entries above the diagonal stay. Return False if there is no such L.

    >>> A = np.array([[4.0, 2.0], [2.0, 5.0]], order="F")
    >>> factor_in_place(A), np.tril(A)
    (True, array([[2., 0.],
           [1., 2.]]))
    """
    if not A.flags.f_contiguous or not A.flags.writeable:
        raise ValueError("a matrix is factored in place if it is writeable and in the order of Fortran")
    routine = _Routine(get_cython_function_address("scipy.linalg.cython_lapack", _ROUTINES[A.dtype]))
    n, failed = ctypes.c_int(len(A)), ctypes.c_int(0)
    routine(b"L", n, A.ctypes.data, n, failed)
    return failed.value == 0
