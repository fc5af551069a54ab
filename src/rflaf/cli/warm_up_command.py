"""``rflaf warm-up``: compile every loop once, for images, continuous integration and read-only containers."""

from __future__ import annotations

import warnings
from time import process_time
from typing import Any

import numpy as np

from rflaf.errors import Array
from rflaf.estimators import RFLAFClassifier, RFLAFRegressor
from rflaf.functions import _kernels

from .console import Json, show, working

_ROWS, _COLUMNS = 400, 4


def warm_up(as_json: Json = False) -> None:
    """Compile what fits and predictions need, once, and keep it on disk.

    The folder is that of the environment variable NUMBA_CACHE_DIR, else the package's own, else one of the user.

    Example:  NUMBA_CACHE_DIR=/opt/rflaf-loops rflaf warm-up
    """
    started = process_time()
    with working("compiling"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the rows are too few to learn anything from
        for fit in (_regress, _classify):
            fit(*_rows())
    loops, folder = _kernels.cache.compiled(), _folder()
    seconds = process_time() - started
    values = {"compiled": list(loops), "folder": folder, "processor_seconds": seconds}
    show(values, [f"{len(loops)} loops compiled, {seconds:.0f} s of processor time: {folder}"], as_json)


def _rows() -> tuple[Array, Array]:
    """Rows and a target that the columns bend and do not bend, so that both kinds of models are tried."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((_ROWS, _COLUMNS))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]


def _regress(X: Array, y: Array) -> None:
    few: dict[str, Any] = {"n_components": 10, "random_state": 0}
    curved, straight = RFLAFRegressor(**few, curves=True), RFLAFRegressor(**few, curves=False)
    for estimator in (RFLAFRegressor(**few), curved, straight, RFLAFRegressor.convex(10, random_state=0)):
        estimator.fit(X, y)
        for dtype in (np.float64, np.float32):
            estimator.predict(X.astype(dtype))
    RFLAFRegressor(**few).fit(X.astype(np.float32), y)


def _classify(X: Array, y: Array) -> None:
    for labels in (y > 0, np.digitize(y, [-0.5, 0.5])):
        RFLAFClassifier(10, random_state=0).fit(X, labels).predict(X)


def _folder() -> str:
    loop: Any = _kernels.features.predict
    return str(getattr(loop._cache, "cache_path", None) or "nowhere: no folder can be written, set NUMBA_CACHE_DIR")
