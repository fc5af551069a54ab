"""A fitted estimator stored by skops, which builds objects without pickle, predicts as before."""

from __future__ import annotations

import numpy as np
import pytest

from rflaf import RFLAFClassifier, RFLAFRegressor

skops_io = pytest.importorskip("skops.io")
X = np.random.default_rng(0).standard_normal((120, 3))


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        RFLAFRegressor(3, random_state=0),
        RFLAFRegressor.paper(4, pool_size=10, random_state=0),
        RFLAFRegressor.convex(3, random_state=0),
        RFLAFClassifier(3, random_state=0),
    ],
)
def test_skops_stores_a_fitted_estimator(model):
    y = np.sin(X[:, 0]) if isinstance(model, RFLAFRegressor) else X[:, 0] > 0
    stored = skops_io.dumps(model.fit(X, y))
    names = skops_io.get_untrusted_types(data=stored)
    assert all(name.startswith("rflaf.") for name in names)
    back = skops_io.loads(stored, trusted=names)
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    assert back.stop_reason_ is model.stop_reason_
