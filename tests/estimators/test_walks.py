"""A prediction for an array goes straight to the compiled loop."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from rflaf import RFLAFClassifier, RFLAFRegressor

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
walks = pytest.importorskip("walks")

MOST_HOPS = 8
X = np.random.default_rng(0).standard_normal((200, 3))


@pytest.mark.parametrize(
    "model",
    [
        RFLAFRegressor(5, directions="random", random_state=0).fit(X, X[:, 0]),
        RFLAFRegressor(5, random_state=0).fit(X, X[:, 0] ** 2),
        RFLAFClassifier(5, directions="random", alpha=1e-3, random_state=0).fit(X, X[:, 0] > 0),
    ],
    ids=["random directions", "refined", "classifier"],
)
def test_predict_passes_few_functions_and_none_of_dask(model):
    for rows in (X, X.astype(np.float32), X[:1]):
        model.predict(rows)  # compiles
        hops = walks.hops_of_predict(model, rows)
        assert hops[0][1].endswith(".predict")
        assert len(hops) <= MOST_HOPS
        assert not any("dask" in file for file, _ in hops)
