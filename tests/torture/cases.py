"""Hostile data for every mode and loss, drawn by Hypothesis, and the contract that a fit must keep.

The contract: finite predictions, or an error that is a ValueError or TypeError with a message; no other exception, no
warning but those of this package and of convergence, no changed input, no half-fitted estimator.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from rflaf import RFLAFClassifier, RFLAFRegressor
from rflaf.errors import AssumptionWarning, CheckpointWarning, IntervalWarning, OutlierWarning

ALLOWED = (OutlierWarning, IntervalWarning, AssumptionWarning, CheckpointWarning, ConvergenceWarning)
MODES = ("refined", "random", "shared", "paper", "convex")
REGRESSIONS = ("squared", "huber", "quantile", "poisson")
CLASSIFICATIONS = ("log_loss", "squared_hinge")
CONTAINERS = ("array", "fortran", "strided", "swapped", "read-only", "list", "frame", "csr", "csc")
CELLS = ("normal", "whole", "constant", "two values", "mostly zero", "one far", "cauchy")


@dataclass(frozen=True)
class Case:
    """One fit: how the estimator is made, and its rows."""

    mode: str
    loss: str
    settings: dict[str, Any]
    X: Any
    y: Any
    weight: Any

    def __repr__(self) -> str:
        shape = getattr(self.X, "shape", None) or (len(self.X), len(self.X[0]))
        return (
            f"{self.mode} {self.loss} {self.settings} {type(self.X).__name__}{shape} weight {self.weight is not None}"
        )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a fit."""
    n_rows, n_columns = draw(st.sampled_from([1, 3, 8, 30, 30, 60, 60, 120, 120])), draw(st.sampled_from([1, 2, 5, 12]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    loss = draw(st.sampled_from(REGRESSIONS + CLASSIFICATIONS))
    columns = [_column(draw(st.sampled_from(CELLS)), n_rows, rng) * draw(_scales) for _ in range(n_columns)]
    with np.errstate(all="ignore"):
        X = np.stack(columns, axis=1).astype(
            draw(st.sampled_from([np.float64, np.float64, np.float32, np.float16, np.int16]))
        )
    y = _target(draw, loss, n_rows, rng)
    settings = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "alpha": st.sampled_from([0.0, 1e-300, 1e-6, 1.0, 1e30]),
                "bandwidth": st.sampled_from([1e-12, 1e-3, 1.0, 1e100]),
                "fit_intercept": st.booleans(),
                "scale": st.booleans(),
                "basis": st.sampled_from(["bspline", "rbf", "relu", "polynomial"]),
            },
        )
    )
    return Case(
        draw(st.sampled_from(MODES)), loss, settings, _contained(draw(st.sampled_from(CONTAINERS)), X), y,
        _weights(draw, n_rows, rng),
    )  # fmt: skip


_scales = st.sampled_from([1.0] * 20 + [1e-3, 1e6] * 5 + [1e-30, 1e30, 1e-100, 1e100, 1e-150, 1e150, 1e-300, 1e300])


def _column(kind: str, n_rows: int, rng: np.random.Generator) -> Any:
    made = {
        "normal": lambda: rng.standard_normal(n_rows),
        "whole": lambda: rng.integers(-3, 4, n_rows).astype(float),
        "constant": lambda: np.full(n_rows, rng.standard_normal()),
        "two values": lambda: rng.integers(0, 2, n_rows).astype(float),
        "mostly zero": lambda: rng.standard_normal(n_rows) * (rng.random(n_rows) < 0.1),
        "one far": lambda: np.r_[1e6, rng.standard_normal(n_rows - 1)],
        "cauchy": lambda: rng.standard_cauchy(n_rows),
    }
    return made[kind]()


def _target(draw: st.DrawFn, loss: str, n_rows: int, rng: np.random.Generator) -> Any:
    if loss in CLASSIFICATIONS:
        labels = [np.array([0, 1]), np.array(["a", "b", "c"]), np.array([True, False]), np.array([-7, 3, 9])]
        return rng.choice(draw(st.sampled_from(labels)), n_rows)
    if loss == "poisson":
        return rng.poisson(2.0, n_rows) * draw(st.sampled_from([1.0, 1e-300, 1e-6, 1e14, 1e33, 1e300]))
    with np.errstate(all="ignore"):
        y = _column(draw(st.sampled_from(CELLS)), n_rows, rng) * draw(_scales)
    shape = draw(st.sampled_from([(n_rows,), (n_rows, 1), (n_rows, 2)]))
    return np.resize(y, shape) if len(shape) == 2 else y


def _weights(draw: st.DrawFn, n_rows: int, rng: np.random.Generator) -> Any:
    kind = draw(
        st.sampled_from(["none", "none", "none", "none", "none", "even", "whole", "some zero", "zeros", "extreme"])
    )
    return {
        "none": lambda: None,
        "even": lambda: np.ones(n_rows),
        "whole": lambda: rng.integers(1, 5, n_rows),
        "some zero": lambda: np.maximum(rng.standard_normal(n_rows), 0),
        "zeros": lambda: np.zeros(n_rows),
        "extreme": lambda: 10.0 ** rng.uniform(-300, 300, n_rows),
    }[kind]()


def _contained(kind: str, X: Any) -> Any:
    if kind == "strided":
        wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]), X.dtype)
        wide[::2, ::3] = X
        return wide[::2, ::3]
    if kind == "read-only":
        X = X.copy()
        X.flags.writeable = False
        return X
    if kind == "frame":
        frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
        frame["text"] = pd.Categorical(np.resize(["u", "v", "w"], len(X)))
        frame["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(len(X)), unit="D")
        return frame
    made = {
        "array": lambda: X,
        "fortran": lambda: np.asfortranarray(X),
        "swapped": lambda: X.astype(X.dtype.newbyteorder()),
        "list": lambda: X.tolist(),
        "csr": lambda: sp.csr_array(X.astype(np.float64)),
        "csc": lambda: sp.csc_array(X.astype(np.float64)),
    }
    return made[kind]()


def estimator_of(case: Case) -> Any:
    """Return the unfitted estimator of a case."""
    kind = RFLAFRegressor if case.loss in REGRESSIONS else RFLAFClassifier
    common = {"loss": case.loss, "random_state": 0, "n_jobs": 1, **case.settings}
    if case.mode == "paper":
        return kind.paper(3, pool_size=8, **common)
    if case.mode == "convex":
        return kind.convex(3, **common)
    others = {"refined": {}, "random": {"directions": "random"}}
    return kind(3, **others.get(case.mode, {"directions": "random", "activation": "shared"}), **common)


def _content(value: Any) -> Any:
    if value is None or isinstance(value, list):
        return repr(value)
    if isinstance(value, pd.DataFrame):
        return value.to_csv()
    if sp.issparse(value):
        return value.data.tobytes(), value.indices.tobytes(), value.indptr.tobytes()
    return value.tobytes()


def check(case: Case) -> str:
    """Fit and predict; return "fitted" or "refused: ..."; raise AssertionError where the contract is broken."""
    before = [_content(part) for part in (case.X, case.y, case.weight)]
    model = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = estimator_of(case)
            untouched = dict(vars(model))
            model.fit(case.X, case.y, sample_weight=case.weight)
            outcome, predicted = "fitted", model.predict(case.X)
        except (ValueError, TypeError) as error:
            if not str(error) or isinstance(error, np.linalg.LinAlgError):
                raise AssertionError(f"an error without rule and remedy: {error!r}") from error
            outcome, predicted = f"refused: {error}", np.zeros(0)
    assert outcome == "fitted" or model is None or vars(model) == untouched, "the estimator is half fitted"
    leaked = [warning for warning in caught if not issubclass(warning.category, ALLOWED)]
    assert not leaked, f"leaked {leaked[0].category.__name__}: {leaked[0].message} at {leaked[0].filename}"
    if np.asarray(predicted).dtype.kind == "f":
        assert np.isfinite(predicted).all(), "predictions that are not finite"
    assert before == [_content(part) for part in (case.X, case.y, case.weight)], "the input was changed"
    return outcome
