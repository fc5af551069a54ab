"""Plain NumPy twins of the compiled feature loops; the tests hold them equal."""

from __future__ import annotations

import numpy as np

from rflaf.errors import Array
from rflaf.functions.bases import Pieces
from rflaf.model.features import FeatureMap, from_centre


def scatter_reference(u: Array, e: Array, n_cells: int) -> Array:
    """Moments sum_{m, r} e[m, r] t^p of every cell, (1, n_cells, 4): the transpose of a shared look-up."""
    k, t = _locate(u, n_cells)
    moments = np.zeros((n_cells, 4))
    for p in range(4):
        np.add.at(moments[:, p], k, e * t**p)
    return moments[None]


def activate_reference(u: Array, table: Array) -> Array:
    """table_m(u[m, r]) for cell coordinates (n_components, n_rows) and tables (1 or n_components, n_cells, 4)."""
    k, t = _locate(u, table.shape[1])
    c = np.broadcast_to(table, (u.shape[0], *table.shape[1:]))[np.arange(u.shape[0])[:, None], k]
    return c[..., 0] + t * (c[..., 1] + t * (c[..., 2] + t * c[..., 3]))


def expand_reference(u: Array, pieces: Pieces) -> Array:
    """B_i(u[m, r]): (n_components, n_basis, n_rows)."""
    k, t = _locate(u, pieces.n_cells)
    return np.einsum("mrip,mrp->mir", pieces.coefficients[k], t[..., None] ** np.arange(4))


def contract_reference(u: Array, weights: Array, pieces: Pieces) -> Array:
    """H(v)' (n_basis, n_rows): sum_m weights[m] B_i(u[m, r])."""
    k, t = _locate(u, pieces.n_cells)
    values = np.einsum("mrip,mrp->mri", pieces.coefficients[k], t[..., None] ** np.arange(4))
    return np.einsum("m,mri->ir", weights, values)


def predict_reference(feature_map: FeatureMap, v: Array, intercept: Array, X: Array) -> Array:
    """Compute the result of `Predictor.predict` through an (n_components, n_rows) array."""
    u = feature_map.W.T @ from_centre(X, feature_map.centre).T + feature_map.offset[:, None]
    return activate_reference(u, feature_map.table).T @ v + intercept


def _locate(u: Array, n_cells: int) -> tuple[Array, Array]:
    clipped = np.clip(u, -0.5, np.nextafter(n_cells - 0.5, 0))
    k = np.minimum(np.floor(clipped + 0.5), n_cells - 1).astype(np.intp)  # the sum may round up to n_cells
    return k, clipped - k
