"""What hostile data once broke."""

from __future__ import annotations

import numpy as np
import pytest

from rflaf import RFLAFClassifier, RFLAFRegressor

rng = np.random.default_rng(0)


@pytest.mark.filterwarnings("ignore::rflaf.errors.AssumptionWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_labels_that_are_told_apart_without_a_ridge_leak_no_warning():
    X = rng.standard_normal((30, 12))
    model = RFLAFClassifier.paper(3, pool_size=8, alpha=0.0, scale=False, bandwidth=1.0, random_state=0)
    weight = np.maximum(rng.standard_normal(30), 0)
    assert np.isfinite(model.fit(X, X[:, 0] > 0, weight).predict_proba(X)).all()


def test_importance_of_columns_under_a_flat_activation_is_a_share():
    X = rng.standard_normal((3, 2))
    model = RFLAFRegressor.convex(3, loss="huber", bandwidth=1e100, basis="polynomial", alpha=1e-300, random_state=0)
    importance = model.fit(X, X[:, 0]).column_importance_
    assert np.isfinite(importance).all()
    assert importance.sum() == pytest.approx(1) or importance.sum() == 0


def test_a_constant_column_of_large_numbers_leaks_no_warning():
    X = np.c_[rng.standard_normal((30, 2)), np.full(30, 1e300)]
    model = RFLAFClassifier.convex(3, loss="squared_hinge", random_state=0).fit(X, X[:, 0] > 0)
    assert np.isfinite(model.decision_function(X)).all()
