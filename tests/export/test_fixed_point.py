"""The C header in fixed point: its error is below the bound it states, and below a thousandth of the spread."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_programs import compile_c, needs_gcc

import rflaf
from rflaf import RandomActivationFeatures, RFLAFClassifier, RFLAFRegressor
from rflaf.export.c_fixed import error_bound
from rflaf.export.formula import formula_of
from rflaf.export.programs import to_c

RANDOM = {"directions": "random", "random_state": 0}
TOLERANCE = 1e-3  # of the spread of an answer over the rows
TABLES = ["reg-abalone", "reg-wind", "reg-cpu_act", "bin-magic"]


def rows(n_rows, seed):
    X = np.random.default_rng(seed).uniform(-2, 2, (n_rows, 3))
    X[:, 2] += 1000
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 2 + 0.3 * (X[:, 2] - 1000)


@pytest.fixture(scope="module")
def fitted():
    X, y = rows(200, 0)
    return {
        "curves": RFLAFRegressor(12, curves=True, alpha=1e-3, random_state=0).fit(X, np.c_[y, -3 * y]),
        "shared": RFLAFRegressor(12, activation="shared", **RANDOM).fit(X, y),
        "own": RFLAFRegressor(13, **RANDOM).fit(X, y),
        "classes": RFLAFClassifier(12, **RANDOM).fit(X, np.digitize(y, [0, 1])),
    }


@needs_gcc
@pytest.mark.parametrize("name", ["curves", "shared", "own"])
def test_the_error_is_below_its_bound(fitted, name, tmp_path):
    model, X = fitted[name], rows(5000, 1)[0]
    found = compile_c(tmp_path, to_c(model, name="model", dtype="int16"), np.float32)(X)
    wanted = model.predict(X).reshape(len(X), -1)
    error = np.abs(found - wanted).max(axis=0)
    bound = error_bound(formula_of(model, np.float64))
    assert np.all(error <= bound + 1e-6 * np.abs(wanted).max())
    assert np.all(bound < 0.1 * wanted.std(axis=0))
    assert np.all(error < TOLERANCE * wanted.std(axis=0))
    far = np.array([[1e30, -1e30, 0], [-1e9, 1e9, 1e9], [np.nan, 0, 1e38]])
    assert np.isfinite(compile_c(tmp_path / "far", to_c(model, name="model", dtype="int16"), np.float32)(far)).all()


@needs_gcc
def test_probabilities_and_labels(fitted, tmp_path):
    model, X = fitted["classes"], rows(5000, 1)[0]
    found = compile_c(tmp_path, to_c(model, name="model", dtype="int16"), np.float32)(X)
    assert np.abs(found[:, :3] - model.predict_proba(X)).max() < TOLERANCE
    assert (found[:, 3] == model.predict(X)).mean() > 0.998


@needs_gcc
@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_real_data(table, tmp_path):
    folder = os.environ.get("RFLAF_DATA_DIR")
    path = Path(folder or ".") / "tables" / f"{table}.parquet"
    if folder is None or not path.exists():
        pytest.skip("RFLAF_DATA_DIR has no such table")
    frame = pd.read_parquet(path).sample(3000, random_state=0)
    frame = frame.select_dtypes("number") if table.startswith("reg") else frame
    X, y = frame.iloc[:, :-1].to_numpy(np.float64), frame.iloc[:, -1].to_numpy()
    if table.startswith("reg"):
        model = RFLAFRegressor(30, curves=True, alpha=1e-3, random_state=0).fit(X[:2000], y[:2000])
        wanted = model.predict(X)[:, None]
    else:
        model = RFLAFClassifier(30, curves=True, alpha=1e-3, random_state=0).fit(X[:2000], y[:2000])
        wanted = model.predict_proba(X)
    found = compile_c(tmp_path, to_c(model, name="model", dtype="int16"), np.float32)(X)[:, : wanted.shape[1]]
    assert np.max(np.abs(found - wanted) / wanted.std(axis=0)) < TOLERANCE


def test_the_header_is_smaller_and_states_its_bound(fitted):
    model = fitted["curves"]
    header = to_c(model, name="model", dtype="int16")
    assert len(header) < 0.7 * len(to_c(model, name="model"))
    assert "static const int16_t H[" in header
    assert f"{error_bound(formula_of(model, np.float64))[0]:.2g}" in header


def test_features_have_no_fixed_point():
    X, y = rows(100, 0)
    features = RandomActivationFeatures(5, **RANDOM).fit(X, y)
    with pytest.raises(rflaf.InvalidParameterError, match="only regressors and classifiers have fixed point"):
        to_c(features, dtype="int16")
