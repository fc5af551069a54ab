"""From a table to a model: the split, what is measured, and which estimator is fitted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from settings import CONVEX
from sklearn.metrics import log_loss, roc_auc_score

from rflaf import RFLAFClassifier, RFLAFRegressor
from rflaf.errors import InvalidParameterError
from rflaf.estimators.metrics import metrics_of
from rflaf.estimators.table_model import fit_table

QUICK = {"n_components": 3, "alpha": 1e-3, **CONVEX}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    x, side = rng.standard_normal(120), rng.choice(["left", "right"], 120)
    return pd.DataFrame({"x": x, "side": side, "y": np.abs(x) + (side == "left"), "z": np.where(x > 0, "up", "down")})


def test_the_encoding_is_learned_from_the_training_rows_only(frame):
    odd = frame.assign(side=np.where(np.arange(120) == 7, "odd", frame["side"]))
    seen = [("odd" in fit_table(odd, "y", parameters=QUICK, random_state=seed).model.encoding.columns[1].levels)
            for seed in range(12)]  # fmt: skip
    assert set(seen) == {True, False}


def test_classes_are_split_evenly_and_measured(frame):
    fitted = fit_table(frame.drop(columns="y"), "z", parameters=QUICK, test=0.25)
    assert isinstance(fitted.model.estimator, RFLAFClassifier)
    assert fitted.n_test == 30
    assert set(fitted.metrics) == {"accuracy", "log_loss", "auc"}
    whole = fitted.model.evaluate(frame)
    probabilities = fitted.model.predict_proba(frame)
    assert whole["accuracy"] == np.mean(fitted.model.predict(frame) == frame["z"])
    assert whole["log_loss"] == pytest.approx(log_loss(frame["z"], probabilities))
    assert whole["auc"] == pytest.approx(roc_auc_score(frame["z"] == "up", probabilities[:, 1]))


def test_another_table_or_nothing_can_be_measured_on(frame):
    fitted = fit_table(frame.iloc[:80], "y", parameters=QUICK, test=frame.iloc[80:], exclude=["z"])
    assert (fitted.n_train, fitted.n_test) == (80, 40)
    rest = frame.iloc[80:]
    error = fitted.model.predict(rest) - rest["y"].to_numpy()
    assert fitted.metrics["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)))
    assert fitted.metrics["mae"] == pytest.approx(np.mean(np.abs(error)))
    none = fit_table(frame, "y", parameters=QUICK, test=0)
    assert (none.n_train, none.n_test, none.metrics) == (120, 0, {})
    assert isinstance(none.model.estimator, RFLAFRegressor)


def test_a_class_of_one_row_does_not_stop_the_split(frame):
    labels = frame["z"].where(frame.index != 3, "once")
    fitted = fit_table(frame.assign(z=labels).drop(columns="y"), "z", parameters=QUICK)
    assert fitted.n_test == 24


def test_labels_never_seen_count_as_errors(frame):
    model = fit_table(frame.drop(columns="y"), "z", parameters=QUICK, test=0).model
    other = frame.assign(z="sideways")
    assert model.evaluate(other) == {"accuracy": 0.0}


def test_one_row_has_no_r_squared():
    X = np.arange(20.0)[:, None]
    metrics = metrics_of(RFLAFRegressor(2, **CONVEX).fit(X, X[:, 0]), X[:1], np.zeros(1))
    assert np.isnan(metrics["r2"])
    assert metrics["rmse"] == metrics["mae"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"test": 1.5}, "the share of rows to measure on must be from 0 to 1; got 1.5"),
        ({"parameters": {"colour": "red"}}, r"parameters must be those of RFLAFRegressor; got \['colour'\]"),
        ({"exclude": ["none"]}, "the table must have the column 'none'"),
    ],
)
def test_mistakes_are_refused(frame, arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        fit_table(frame, "y", **arguments)
    with pytest.raises(InvalidParameterError, match="at least 10 rows"):
        fit_table(frame.head(3), "y")
