"""``scale=False``: columns enter as they are, by every door, sampling and activation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import rflaf
from rflaf import RandomActivationFeatures, RFLAFClassifier, RFLAFRegressor
from rflaf.errors import InvalidParameterError
from rflaf.estimators.parameters import resolve_random_state
from rflaf.functions.densities import Gaussian, draw

RNG = np.random.default_rng(3)
X = RNG.standard_normal((300, 4)) * [1.0, 0.5, 2.0, 0.1] + [0.0, 1.0, 0.0, 0.0]
Y = np.sin(2 * X[:, 0]) + X[:, 2]
RAW = {"directions": "random", "scale": False, "random_state": 0}
SAMPLINGS = ["plain", "leverage", "greedy"]
ACTIVATIONS = ["shared", "per_component"]
each_way = [(sampling, activation) for sampling in SAMPLINGS for activation in ACTIVATIONS]


def as_drawn(n_components: int) -> np.ndarray:
    return draw(Gaussian(), X.shape[1], n_components, resolve_random_state(0)).W


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_directions_are_those_drawn_divided_by_the_bandwidth(activation):
    model = RFLAFRegressor(20, activation=activation, bandwidth=2.0, **RAW).fit(X, Y)
    np.testing.assert_array_equal(model.directions_, as_drawn(20) / 2)
    np.testing.assert_array_equal(model.model_.directions.offset, 0)


def test_the_bandwidth_is_the_median_root_mean_square_of_a_projection():
    model = RFLAFRegressor(20, activation="shared", **RAW).fit(X, Y)
    sizes = np.sqrt(np.mean((X @ as_drawn(20)) ** 2, axis=0))
    assert model.bandwidth_ == pytest.approx(np.median(sizes), rel=1e-12)
    each = RFLAFRegressor(20, activation="per_component", **RAW).fit(X, Y)
    np.testing.assert_allclose(each.directions_, as_drawn(20) / sizes, rtol=1e-12)


@pytest.mark.parametrize(("sampling", "activation"), each_way)
def test_on_columns_standardised_beforehand_scaling_changes_nothing(sampling, activation):
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    ways = {"sampling": sampling, "activation": activation, "bandwidth": 1.5, "alpha": 1e-4}
    raw, scaled = (RFLAFRegressor(15, **{**RAW, "scale": scale}, **ways).fit(Z, Y) for scale in (False, True))
    np.testing.assert_allclose(raw.directions_, scaled.directions_, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(raw.predict(Z), scaled.predict(Z), rtol=0, atol=1e-4)


@pytest.mark.parametrize(("sampling", "activation"), each_way)
def test_a_column_of_small_scale_matters_little(sampling, activation):
    """Unscaled, a target of a column that is far smaller than another cannot be learned; scaled, it can."""
    small = np.column_stack([X[:, 0], X[:, 1] / 1e8])
    y = np.sin(3 * X[:, 1])
    ways = {"sampling": sampling, "activation": activation}
    raw, scaled = (RFLAFRegressor(15, **{**RAW, "scale": scale}, **ways).fit(small, y) for scale in (False, True))
    assert scaled.score(small, y) > 0.9
    assert raw.score(small, y) < 0.3


def test_every_door_gives_the_same_model(tmp_path):
    model = RFLAFRegressor(12, **RAW).fit(X, Y)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["y"] = Y
    by_frame = RFLAFRegressor(12, **RAW).fit(frame, "y")
    np.testing.assert_array_equal(by_frame.directions_, model.directions_)
    frame.to_parquet(tmp_path / "rows.parquet")
    by_file = RFLAFRegressor(12, **RAW).fit(str(tmp_path / "rows.parquet"), "y")
    np.testing.assert_array_equal(by_file.directions_, model.directions_)
    by_sparse = RFLAFRegressor(12, **RAW).fit(sp.csr_matrix(X), Y)
    np.testing.assert_allclose(by_sparse.directions_, model.directions_, rtol=1e-12)
    np.testing.assert_allclose(by_sparse.predict(sp.csr_matrix(X)), model.predict(X), atol=1e-6)


def test_chunks_and_saved_models_keep_columns_as_they_are(tmp_path):
    whole = RFLAFRegressor(12, bandwidth=1.0, alpha=1e-3, **RAW).fit(X, Y)
    chunks = RFLAFRegressor(12, bandwidth=1.0, alpha=1e-3, **RAW).partial_fit(X[:200], Y[:200])
    chunks.partial_fit(X[200:], Y[200:])
    np.testing.assert_array_equal(chunks.directions_, whole.directions_)
    rflaf.save(whole, tmp_path / "model.rflaf")
    back = rflaf.load(tmp_path / "model.rflaf")
    assert back.scale is False
    np.testing.assert_array_equal(back.predict(X), whole.predict(X))


@pytest.mark.parametrize("kind", [RFLAFClassifier, RandomActivationFeatures])
def test_the_other_estimators_take_it_too(kind):
    y = Y > 0 if kind is RFLAFClassifier else Y
    model = kind(10, bandwidth=1.0, **RAW).fit(X, y)
    np.testing.assert_array_equal(model.directions_, as_drawn(10))


def test_refined_directions_refuse_it_and_so_do_other_values():
    with pytest.raises(InvalidParameterError, match=r"scale must be True; got False\. Set directions='random'"):
        RFLAFRegressor(scale=False).fit(X, Y)
    with pytest.raises(InvalidParameterError, match="scale must be True or False; got 'no'"):
        RFLAFRegressor(scale="no").fit(X, Y)
