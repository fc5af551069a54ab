"""Cholesky factors and their systems in place, without the interpreter lock that SciPy holds while it solves."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numba.extending import get_cython_function_address
from numpy.typing import NDArray

_Int = ctypes.POINTER(ctypes.c_int)
_Matrix = ctypes.c_void_p, _Int  # and its leading dimension
_Factor = ctypes.CFUNCTYPE(None, ctypes.c_char_p, _Int, *_Matrix, _Int)  # these release the lock
_Solve = ctypes.CFUNCTYPE(None, ctypes.c_char_p, _Int, _Int, *_Matrix, *_Matrix, _Int)
_LETTERS = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}


def factor_in_place(A: NDArray[Any]) -> bool:
    """Write L with L L' = A into the lower triangle of ``A``, a symmetric matrix in Fortran order.

    Entries above the diagonal stay. Return False if there is no such L.

    >>> A = np.array([[4.0, 2.0], [2.0, 5.0]], order="F")
    >>> factor_in_place(A), np.tril(A)
    (True, array([[2., 0.],
           [1., 2.]]))
    """
    _refuse_others(A)
    n, failed = ctypes.c_int(len(A)), ctypes.c_int(0)
    _Factor(_address("potrf", A))(b"L", n, A.ctypes.data, n, failed)
    return failed.value == 0


def solve_in_place(L: NDArray[Any], B: NDArray[Any]) -> None:
    """Replace ``B`` (n, m) by X with L L' X = B, both in Fortran order; ``L`` is of `factor_in_place`.

    >>> L, B = np.array([[2.0, 0.0], [1.0, 2.0]], order="F"), np.array([[8.0], [14.0]], order="F")
    >>> solve_in_place(L, B)
    >>> B.ravel()
    array([0.75, 2.5 ])
    """
    _refuse_others(L, B)
    if L.shape != (len(B), len(B)) or L.dtype != B.dtype:
        raise ValueError("a factor and what it solves for have the same rows and precision")
    n, m, failed = ctypes.c_int(len(B)), ctypes.c_int(B.shape[1]), ctypes.c_int(0)
    _Solve(_address("potrs", L))(b"L", n, m, L.ctypes.data, n, B.ctypes.data, n, failed)


def _refuse_others(*matrices: NDArray[Any]) -> None:
    if not all(A.flags.f_contiguous and A.flags.writeable for A in matrices):
        raise ValueError("a matrix is factored or solved in place if it is writeable and in the order of Fortran")


def _address(routine: str, A: NDArray[Any]) -> Any:
    return get_cython_function_address("scipy.linalg.cython_lapack", _LETTERS[A.dtype] + routine)
