"""Arguments that several test modules fit estimators with, and estimators of few components with a fixed seed."""

from __future__ import annotations

from rflaf import RFLAFRegressor

PAPER = {"directions": "random", "activation": "shared"}  # with plain or leverage sampling
CONVEX = {"directions": "random", "activation": "per_component"}


def limited(make, *args, **arguments):
    """An estimator whose search for an activation has other limits, ``max_iter`` and ``tol``, than the usual ones."""
    limits = {name: arguments.pop(name) for name in ("max_iter", "tol") if name in arguments}
    estimator = make(*args, **arguments)
    if limits:
        estimator._retired = limits
    return estimator


def seeded_regressor(n_components: int | str = 30, **others) -> RFLAFRegressor:
    return limited(RFLAFRegressor, n_components, **{"random_state": 0, **others})


def one_thread_regressor(n_components: int | str = 20, **others) -> RFLAFRegressor:
    return seeded_regressor(n_components, **{"n_jobs": 1, **others})


def convex_regressor(n_components: int = 8, **others) -> RFLAFRegressor:
    return seeded_regressor(n_components, **{**CONVEX, **others})
