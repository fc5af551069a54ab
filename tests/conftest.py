"""Data and settings that several test modules use."""

from __future__ import annotations

import hypothesis
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from rflaf.training import specification

pytest.register_assert_rewrite("commands", "data", "refusals")
hypothesis.settings.register_profile("patient", deadline=None)  # a busy machine is no fault of an example
hypothesis.settings.load_profile("patient")


@pytest.fixture(scope="module")
def easy():
    """A smooth target of two of three bounded columns with little noise: X (600, 3), y (600,)."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (600, 3))
    return X, np.sin(1.5 * X[:, 0]) + X[:, 1] ** 2 / 2 + 0.1 * rng.standard_normal(600)


@pytest.fixture(scope="module")
def small_pool():
    """Few directions to choose from, so that greedy selection is quick."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(specification, "_GREEDY_POOL", 60)
        patch.setattr(specification, "_GREEDY_SHARE", 2)
        yield


@pytest.fixture(scope="module")
def one_blas_thread():
    """Many small decompositions: threads of BLAS would spend their time waiting for one another."""
    with threadpool_limits(1, "blas"):
        yield
