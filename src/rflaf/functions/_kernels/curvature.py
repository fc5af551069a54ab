"""The compiled loop behind the Hessian of a shared activation: basis functions at every projection, never stored."""

from __future__ import annotations

from typing import Any

import numpy as np

from .loops import fast_jit, owning


@owning(fast_jit)
def contract_and_scatter(u: Any, v: Any, residual: Any, pieces: Any, H: Any, C: Any) -> None:
    """``H[o, r] += sum_m v[m, o] B(u[m, r])`` and ``C[o, m] += sum_r residual[o, r] B(u[m, r])``, B all functions.

    Shapes (S, R), (S, O), (O, R), (K, 4, N), (O, R, N), (O, S, N); ``pieces`` are cubics about the middle of each cell.
    """
    n_components, n_rows = u.shape
    n_cells, _, n_basis = pieces.shape
    n_outputs = v.shape[1]
    top = np.nextafter(u.dtype.type(n_cells - 0.5), u.dtype.type(0))
    bottom = u.dtype.type(-0.5)
    half = u.dtype.type(0.5)
    values, sums = np.empty(n_basis, u.dtype), np.empty((n_outputs, n_basis), u.dtype)
    for m in range(n_components):
        sums[:] = 0
        for r in range(n_rows):
            clipped = u[m, r] if u[m, r] > bottom else bottom
            clipped = clipped if clipped < top else top
            k = min(np.int64(clipped + half), n_cells - 1)
            t = clipped - u.dtype.type(k)
            for i in range(n_basis):
                values[i] = ((pieces[k, 3, i] * t + pieces[k, 2, i]) * t + pieces[k, 1, i]) * t + pieces[k, 0, i]
            for o in range(n_outputs):
                weight, left = v[m, o], residual[o, r]
                for i in range(n_basis):
                    H[o, r, i] += weight * values[i]
                    sums[o, i] += left * values[i]
        for o in range(n_outputs):
            for i in range(n_basis):
                C[o, m, i] += sums[o, i]
