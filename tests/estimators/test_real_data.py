"""Test errors on the protein data, against fixed marks and cosine features of the same width; a plan for it."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from settings import PAPER
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rflaf import LeverageSampling, RFLAFRegressor, plan

pytestmark = pytest.mark.realdata
SEEDS = {100: (0, 1, 2), 1000: (0,)}  # by width: the wider, the less a draw matters


@cache
def protein():
    """Nine columns and the standardised first one: X (45730, 9), y (45730,)."""
    folder = os.environ.get("RFLAF_DATA_DIR")
    if not folder:
        pytest.skip("RFLAF_DATA_DIR is not set")
    path = Path(folder) / "protein" / "CASP.csv"
    if not path.is_file():
        pytest.skip(f"{path} does not exist")
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    y = table[:, 0]
    return table[:, 1:], (y - y.mean()) / y.std()


def mean_error(n_components: int, make_model) -> float:
    """Mean over seeds of the test error of ``make_model(seed)``, of so many components."""
    X, y = protein()
    errors = []
    for seed in SEEDS[n_components]:
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
        errors.append(mean_squared_error(y_test, make_model(seed).fit(X_train, y_train).predict(X_test)))
    return float(np.mean(errors))


@cache
def cosine_error(n_components: int, gamma: float | str) -> float:
    def cosine_features(seed):
        sampler = RBFSampler(n_components=n_components, gamma=gamma, random_state=seed)
        return make_pipeline(StandardScaler(), sampler, Ridge())

    return mean_error(n_components, cosine_features)


@pytest.mark.slow
@pytest.mark.parametrize("basis", ["bspline", "rbf"])
@pytest.mark.parametrize(("n_components", "mark"), [(100, 0.64), (1000, 0.505)])
def test_plain_sampling_meets_its_mark_and_beats_cosine_features(basis, n_components, mark):
    error = mean_error(n_components, lambda seed: RFLAFRegressor(n_components, basis=basis, random_state=seed, **PAPER))
    assert error <= mark
    assert error <= cosine_error(n_components, 1.0)
    assert error <= cosine_error(n_components, "scale")


@pytest.mark.slow
def test_leverage_sampling_meets_the_mark_of_plain_sampling():
    settings = {**PAPER, "sampling": LeverageSampling(1000)}
    error = mean_error(100, lambda seed: RFLAFRegressor(100, random_state=seed, **settings))
    assert error <= 0.64


@pytest.mark.slow
@pytest.mark.parametrize(("n_components", "mark"), [(30, 0.57), (100, 0.495)])
def test_a_greedy_selection_with_activations_of_its_own_meets_its_mark(n_components, mark):
    X, y = protein()
    X_train, X_test, y_train, y_test = train_test_split(X.astype(np.float32), y, test_size=0.2, random_state=0)
    model = RFLAFRegressor.convex(n_components, random_state=0)
    assert np.mean((model.fit(X_train, y_train).predict(X_test) - y_test) ** 2) <= mark


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "mark"), [({}, 0.36), ({"curves": False}, 0.43)], ids=["curves", "straight"])
def test_a_refined_model_meets_its_mark_and_covers_its_targets(settings, mark):
    X, y = protein()
    X_train, X_test, y_train, y_test = train_test_split(X.astype(np.float32), y, test_size=0.2, random_state=0)
    model = RFLAFRegressor(100, random_state=0, **settings).fit(X_train, y_train)
    mean, deviation = model.predict(X_test, return_std=True)
    assert mean_squared_error(y_test, mean) <= mark
    assert 0.85 < np.mean(np.abs(y_test - mean) < 1.6449 * deviation) < 0.95


@pytest.mark.slow
def test_a_plan_for_protein_says_why_leverage_and_plain_sampling_are_equal():
    X, y = protein()
    answer = plan(X[:36_584], y[:36_584], random_state=0)
    assert answer.lam == 36_584**-0.5
    assert answer.spectrum.relative_error < 0.2
    assert 1 < answer.spread < 6
    assert answer.enough_greedy < answer.leverage_width < answer.plain_width
    assert answer.enough_greedy < answer.enough_plain
    assert answer.practice.path.errors.min() < 0.55
