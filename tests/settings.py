"""Arguments that several test modules fit estimators with, and estimators of few components with a fixed seed."""

from __future__ import annotations

from rflaf import RFLAFRegressor

PAPER = {"directions": "random", "activation": "shared"}  # with plain or leverage sampling
CONVEX = {"directions": "random", "activation": "per_component"}


def seeded_regressor(n_components: int | str = 30, **others) -> RFLAFRegressor:
    return RFLAFRegressor(n_components, **{"random_state": 0, **others})


def one_thread_regressor(n_components: int | str = 20, **others) -> RFLAFRegressor:
    return seeded_regressor(n_components, **{"n_jobs": 1, **others})


def convex_regressor(n_components: int = 8, **others) -> RFLAFRegressor:
    return seeded_regressor(n_components, **{**CONVEX, **others})
