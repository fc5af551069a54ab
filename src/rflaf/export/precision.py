"""The precision of numbers in a file or a program."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from rflaf.errors import InvalidParameterError


def precision_of(dtype: DTypeLike, usual: str) -> np.dtype[Any]:
    """Return single or double precision; refuse any other, with the ``usual`` one as the remedy.

    >>> precision_of("float32", usual="float64")
    dtype('float32')
    """
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = ""
    if name not in ("float32", "float64"):
        raise InvalidParameterError("dtype must be float32 or float64", dtype, f"Use '{usual}'.")
    return np.dtype(name)
