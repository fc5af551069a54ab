"""Hostile tables: categories, gaps, dates, texts; classes, labels, offsets, limits, quantiles; and questions.

Numbers are stored in every way that frames and Arrow know. The contract is that of `cases`, and more: rows of unseen
levels and gaps are answered too, intervals are in order and nested, quantiles in order, probabilities sum to one, a
monotone model rises, reasons are numbers, a model file predicts the same, and one of single precision nearly.
"""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from cases import ALLOWED, CELLS, _column, _scales, _weights
from hypothesis import strategies as st

import rflaf
from rflaf import RFLAFClassifier, RFLAFRegressor
from rflaf.estimators.soft_labels import SoftLabels

REGRESSIONS = ("squared", "huber", "quantile", "quantiles", "poisson", "gamma", "tweedie")
CLASSIFICATIONS = ("log_loss", "soft labels", "several labels", "squared_hinge")
STORED = ("float64", "float64", "float32", "float16", ">f8", ">i4", "longdouble", "Float32", "Int64", "double[pyarrow]",
          "float[pyarrow]", "int16[pyarrow]", "boolean", "object", "string")  # fmt: skip
TEXTS = ("few", "many", "one each", "odd", "category", "gaps", "numbers", "constant", "days", "yes", "whole", "nothing",
         "sentences", "uncommon", "spans")  # fmt: skip
ODD = ["", " ", "nan", "NULL", "=1+1", "1e400", "\N{SNOWMAN}", "a" * 300, "a\nb", '"', "0", "-0", "True"]


@dataclass(frozen=True)
class TableCase:
    """One fit to a table, and what else is told to it."""

    loss: str
    settings: dict[str, Any]
    X: Any
    y: Any
    others: dict[str, Any]  # arguments of fit

    def __repr__(self) -> str:
        kinds = dict(self.X.dtypes.astype(str)) if isinstance(self.X, pd.DataFrame) else type(self.X).__name__
        return f"{self.loss} {self.settings} {len(self.X)} rows {kinds} {sorted(self.others)}"


@st.composite
def table_cases(draw: st.DrawFn) -> TableCase:
    """Draw a fit to a table."""
    n_rows = draw(st.sampled_from([2, 8, 30, 60, 60, 120, 120, 260]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    columns: dict[str, Any] = {}
    for j in range(draw(st.integers(1, 3))):
        columns[f"n{j}"] = _column(draw(st.sampled_from(CELLS)), n_rows, rng) * draw(_scales)
    for j in range(draw(st.integers(0, 3))):
        columns[f"t{j}"] = _texts(draw(st.sampled_from(TEXTS)), n_rows, rng)
    loss = draw(st.sampled_from(REGRESSIONS + CLASSIFICATIONS))
    settings = draw(_limits(n_rows, "n1" in columns) if draw(st.booleans()) else _others_settings)
    frame = pd.DataFrame(columns)
    for name in columns:
        if name.startswith("n"):
            frame[name] = _stored(frame[name], draw(st.sampled_from(STORED)))
    container = draw(st.sampled_from(["pandas", "pandas", "pandas", "arrow", "chunks"]))
    return TableCase(
        loss, settings, _contained(frame, container),
        _target(draw, loss, n_rows, rng), _others(draw, loss, n_rows, rng),
    )  # fmt: skip


_others_settings = st.sampled_from(
    [{}, {}, {"alpha": 1e-6}, {"alpha": 1.0, "curves": False}, {"directions": "random"}, {"curves": True}]
)


def _limits(n_rows: int, pairs: bool) -> st.SearchStrategy[dict[str, Any]]:
    """Return settings of monotone columns and interactions, most of them possible."""
    interactions = ["none", [("n0", "n1")]] if pairs else ["none"]
    optional = {
        "monotone": st.sampled_from([{"n0": 1}, {"n0": -1}, {"n0": 0}]),
        "interactions": st.sampled_from(interactions),
    }
    return st.fixed_dictionaries({}, optional=optional)


def _texts(kind: str, n_rows: int, rng: np.random.Generator) -> Any:
    made = {
        "few": lambda: rng.choice(["u", "v", "w"], n_rows),
        "many": lambda: rng.choice([f"level {i}" for i in range(max(2, n_rows // 3))], n_rows),
        "one each": lambda: np.array([f"id {i}" for i in range(n_rows)]),
        "odd": lambda: rng.choice(ODD, n_rows),
        "category": lambda: pd.Categorical(rng.choice(["u", "v"], n_rows), ["v", "u", "never"]),
        "gaps": lambda: np.where(rng.random(n_rows) < 0.5, None, rng.choice(["u", "v"], n_rows)),
        "numbers": lambda: rng.choice(["1", "2", "3.5"], n_rows),
        "constant": lambda: np.full(n_rows, "same"),
        "days": lambda: pd.Timestamp("1970-01-01") + pd.to_timedelta(rng.integers(-30_000, 30_000, n_rows), unit="D"),
        "yes": lambda: rng.random(n_rows) < 0.5,
        "whole": lambda: pd.array([*rng.integers(-(2**60), 2**60, n_rows - 1), None], "Int64"),
        "nothing": lambda: np.full(n_rows, None),
        "sentences": lambda: [" ".join(rng.choice(["red", "hat", "\N{SNOWMAN}"], 5)) + f" {i}" for i in range(n_rows)],
        "uncommon": lambda: pd.Categorical(rng.choice([1.5, -2.0, 1e300], n_rows)),
        "spans": lambda: pd.to_timedelta(rng.integers(-(10**9), 10**9, n_rows), unit="s"),
    }  # fmt: skip
    return made[kind]()


def _stored(column: pd.Series, dtype: str) -> pd.Series:
    """Return numbers in another storage; those that it cannot hold are clipped, without fractions if it has none."""
    with np.errstate(all="ignore"):
        values = column.to_numpy(np.float64)
        if "nt" in dtype or dtype == ">i4":
            least = 2.0**14 if "16" in dtype else 2.0**30
            values = np.round(np.clip(np.nan_to_num(values), -least, least))
        elif dtype == "float16":
            values = np.clip(values, -6e4, 6e4)
        elif "32" in dtype or dtype == "float[pyarrow]":
            values = np.clip(values, -3e38, 3e38)
        if dtype == "boolean":
            return pd.Series(np.where(np.isnan(values), None, values > 0), dtype=object).astype("boolean")
        return pd.Series(values).astype(dtype)


def _contained(frame: pd.DataFrame, container: str) -> Any:
    """Return a frame, or an Arrow table of one or several chunks; what Arrow does not hold stays in a frame."""
    if container == "pandas" or any(str(dtype) in (">f8", ">i4", "float128") for dtype in frame.dtypes):
        return frame
    table = pa.Table.from_pandas(frame)
    if container == "arrow":
        return table
    third = len(frame) // 3
    return pa.concat_tables([table.slice(0, third), table.slice(third, 0), table.slice(third)])


def _target(draw: st.DrawFn, loss: str, n_rows: int, rng: np.random.Generator) -> Any:
    if loss == "soft labels":
        scores = rng.standard_normal((n_rows, draw(st.sampled_from([2, 3, 8])))) * draw(
            st.sampled_from([0.1, 1.0, 50.0])
        )
        P = np.exp(scores - scores.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        names = [f"c{k}" for k in range(P.shape[1])]
        return draw(st.sampled_from([P, SoftLabels(names, P), pd.DataFrame(P, columns=names)]))
    if loss == "several labels":
        Y = (rng.random((n_rows, draw(st.sampled_from([2, 5])))) < draw(st.sampled_from([0.05, 0.5]))).astype(int)
        return draw(st.sampled_from([Y, pd.DataFrame(Y, columns=[f"l{k}" for k in range(Y.shape[1])])]))
    if loss in CLASSIFICATIONS:
        labels = [["no", "yes"], ["a", "b", "c"], list(range(10)), [True, False], [-7, 3]]
        return rng.choice(np.array(draw(st.sampled_from(labels))), n_rows)
    if loss in ("poisson", "gamma", "tweedie"):
        positive = {"poisson": rng.poisson(2.0, n_rows), "gamma": rng.gamma(2.0, 1.0, n_rows) + 1e-3}
        return positive.get(loss, rng.gamma(1.0, 1.0, n_rows) * (rng.random(n_rows) < 0.6)) * draw(
            st.sampled_from([1.0, 1.0, 1e-6, 1e14])
        )
    with np.errstate(all="ignore"):
        return _column(draw(st.sampled_from(CELLS)), n_rows, rng) * draw(_scales)


def _others(draw: st.DrawFn, loss: str, n_rows: int, rng: np.random.Generator) -> dict[str, Any]:
    others = {"sample_weight": _weights(draw, n_rows, rng)}
    if loss in REGRESSIONS and draw(st.integers(0, 3)) == 0:
        others["offset"] = rng.standard_normal(n_rows) * draw(st.sampled_from([1.0, 1e-6, 100.0, 1000.0]))
    rare = draw(st.sampled_from(["", "", "", "groups", "time"]))
    if rare:
        others[rare] = rng.integers(0, 6, n_rows)
    return {name: value for name, value in others.items() if value is not None}


def estimator_of(case: TableCase) -> Any:
    """Return the unfitted estimator of a case."""
    kind = RFLAFRegressor if case.loss in REGRESSIONS else RFLAFClassifier
    named: dict[str, dict[str, Any]] = {
        "quantiles": {"loss": "quantile", "quantile": [0.1, 0.5, 0.95]},
        "soft labels": {"loss": "log_loss"},
        "several labels": {"loss": "log_loss"},
    }
    settings = named.get(case.loss, {"loss": case.loss}) | case.settings
    return kind(8, random_state=0, n_jobs=1, **settings)


def check_table(case: TableCase) -> str:
    """Fit, ask all that can be asked; return "fitted" or "refused: ..."; raise AssertionError where it is broken."""
    given = (case.X, case.y, *case.others.values())
    before = [_content(part) for part in given]
    model, fitted = None, False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = estimator_of(case)
            untouched = dict(vars(model))
            model.fit(case.X, case.y, **case.others)
            fitted, outcome = True, "fitted"
            _ask(model, case)
        except (ValueError, TypeError) as error:
            if fitted or not str(error) or isinstance(error, np.linalg.LinAlgError):
                raise
            outcome = f"refused: {error}"
    assert fitted or model is None or vars(model) == untouched, "the estimator is half fitted"
    leaked = [warning for warning in caught if not issubclass(warning.category, ALLOWED)]
    assert not leaked, f"leaked {leaked[0].category.__name__}: {leaked[0].message} at {leaked[0].filename}"
    assert before == [_content(part) for part in given], "the input was changed"
    return outcome


def _content(value: Any) -> Any:
    if isinstance(value, SoftLabels):
        return value.P.tobytes()
    if isinstance(value, pd.DataFrame):
        return value.to_csv(), tuple(map(str, value.dtypes))
    return value.to_pandas().to_csv() if isinstance(value, pa.Table) else value.tobytes()


def _strange(X: Any) -> pd.DataFrame:
    """Rows of levels that were not seen, of gaps, and of far numbers."""
    frame = (X.to_pandas() if isinstance(X, pa.Table) else X).iloc[:3].copy()
    for name in frame:
        if name.startswith("n"):
            frame[name] = np.resize([np.nan, 1e30, -1e30], len(frame))
        elif frame[name].dtype == object:
            frame[name] = np.resize(["never seen", None, ""], len(frame))
    return frame


def need(kept: Any, what: str) -> None:
    if not kept:
        raise AssertionError(what)


def _ask(model: Any, case: TableCase) -> None:
    """Ask a fitted model everything; refusals of single questions are allowed, wrong answers are not."""
    offset = _offset_of(case)
    predicted = model.predict(case.X, **offset)
    if predicted.dtype.kind == "f":
        need(np.isfinite(predicted).all(), "predictions that are not finite")
    if case.loss == "quantiles":
        need((np.diff(model.predict(case.X), axis=-1) >= 0).all(), "quantiles that cross")
    _ask_strange_rows(model, case.X)
    with tempfile.TemporaryDirectory() as folder:
        rflaf.save(model, Path(folder) / "m.rflaf")
        loaded = rflaf.load(Path(folder) / "m.rflaf")
        halved = _or_refused(lambda: _saved_small(model, Path(folder) / "s.rflaf"))
    need(np.array_equal(loaded.predict(case.X, **offset), predicted), "the file predicts otherwise")
    if halved is not None and predicted.dtype.kind == "f":
        need(np.isfinite(halved.predict(case.X, **offset)).all(), "the small file predicts no numbers")
    _ask_direction(model, case)
    if case.loss in CLASSIFICATIONS:
        _ask_classes(model, case)
    else:
        _ask_numbers(model, case)


def _offset_of(case: TableCase) -> dict[str, Any]:
    return {"offset": case.others["offset"]} if "offset" in case.others else {}


def _saved_small(model: Any, path: Path) -> Any:
    rflaf.save(model, path, dtype="float32")
    return rflaf.load(path)


def _ask_direction(model: Any, case: TableCase) -> None:
    """A model of a monotone column moves in its direction, or not at all, whatever the other columns say."""
    sign = (case.settings.get("monotone") or {}).get("n0", 0)
    frame = case.X.to_pandas() if isinstance(case.X, pa.Table) else case.X
    if not sign or frame["n0"].dtype.kind != "f":
        return
    far = np.sort(np.nan_to_num(frame["n0"].to_numpy(np.float64)))[[0, len(frame) // 2, -1]]
    low, middle, high = (_answers(model, frame.assign(n0=value)) for value in far)
    slack = 1e-6 * max(np.abs(low).max(), np.abs(high).max())
    need((sign * (middle - low) >= -slack).all() and (sign * (high - middle) >= -slack).all(), "the wrong direction")


def _answers(model: Any, rows: Any) -> Any:
    return model.decision_function(rows) if isinstance(model, RFLAFClassifier) else model.predict(rows)


def _ask_strange_rows(model: Any, X: Any) -> None:
    try:
        answers = model.predict(_strange(X))
    except ValueError as error:
        need(any(word in str(error) for word in ("inf", "missing", "NaN")), str(error))
        return
    if answers.dtype.kind == "f":
        need(np.isfinite(answers).all(), "predictions of strange rows that are not finite")


def _ask_classes(model: Any, case: TableCase) -> None:
    if case.loss == "squared_hinge":
        need(np.isfinite(model.decision_function(case.X)).all(), "scores that are not finite")
        return
    P = model.predict_proba(case.X)
    several = case.loss == "several labels"
    need(several or np.allclose(P.sum(axis=1), 1), "probabilities that do not sum to one")
    need(((P >= 0) & (P <= 1)).all(), "probabilities that are none")
    need(not np.isnan(model.predict_log_proba(case.X)).any(), "logarithms that are no numbers")
    sets = _or_refused(lambda: model.predict_set(case.X, [0.5, 0.9]))
    if sets is not None and not several:
        need(sets.any(axis=-1).all() and (sets[:, 1] >= sets[:, 0]).all(), "sets that are empty or not nested")


def _ask_numbers(model: Any, case: TableCase) -> None:
    if case.loss == "quantiles":
        return
    offset = _offset_of(case)
    limits = _or_refused(lambda: model.predict_interval(case.X, [0.5, 0.9], **offset))
    if limits is not None:
        need(not np.isnan(limits).any(), "limits that are no numbers")
        need((limits[:, 1, 0] <= limits[:, 0, 0]).all() and (limits[:, 0, 1] <= limits[:, 1, 1]).all(), "not nested")
        need((limits[..., 0] <= limits[..., 1]).all(), "limits out of order")
    pair = _or_refused(lambda: model.predict(case.X, return_std=True, **offset))
    need(pair is None or (np.isfinite(pair[1]).all() and (pair[1] >= 0).all()), "deviations that are none")
    reasons = _or_refused(lambda: model.explain(case.X))
    if reasons is not None:
        need(np.isfinite(reasons.values).all(), "reasons that are not finite")
        need(np.isfinite(model.interaction_strengths(case.X)).all(), "interactions that are not finite")


def _or_refused(ask: Any) -> Any:
    try:
        return ask()
    except ValueError as error:
        need(str(error), "a refusal without a message")
        need(not isinstance(error, np.linalg.LinAlgError), "an error of linear algebra")
        return None
