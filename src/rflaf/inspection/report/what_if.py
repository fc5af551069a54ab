"""One row explained, picked by the reader, with controls that move it: the model itself is in the page.

The script beside this file computes f and the Shapley values of the columns as `rflaf.model.contributions` does, from
the same arrays; curves and tables are in single precision, all else in double.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from rflaf.errors import Array
from rflaf.estimators.svg import Markup, element, join
from rflaf.model.contributions import additive_arrays
from rflaf.model.random_feature_model import RandomFeatureModel
from rflaf.rows.tables import DateColumn

from .findings import Findings, quantile_name
from .page import Section
from .subject import Subject

_CONTROLS, _ROWS, _MOST_NUMBERS, _MOST_LEVELS = 8, 100, 100_000, 40
_LARGEST = 4_000_000  # characters of a model in the page
_COVERAGE = 0.9
_STEPS, _OUTER = 100, (0.005, 0.995)


def what_if_section(findings: Findings) -> Section:
    """Explain one of the rows, and let the reader move its strongest columns."""
    text, title = _payload(findings), "What if"
    if text is None or len(text) > _LARGEST:
        why = "has answers that this page cannot compute" if text is None else "is too large to be put into this page"
        return Section("what-if", title, f"The model {why}: use explain in Python.", Markup(""))
    lead = (
        "What each column adds to the prediction of one row, from the means of all columns to the row. Choose a row; "
        "move its columns to see the prediction follow."
    )
    body = element(
        "div",
        element("div", class_="card what-if", id="what-if-view"),
        element("pre", text, id="what-if-model", hidden="hidden"),
    )
    return Section("what-if", title, lead, join([body]))


def _payload(findings: Findings) -> str | None:
    """Return everything the script needs as JSON; None if it does not know the link of the model."""
    subject, link = findings.subject, _link(findings.subject)
    if link is None:
        return None
    names = list(dict.fromkeys(subject.origin))
    places = {name: at for at, name in enumerate(names)}
    groups = np.array([places[name] for name in subject.origin], np.intp)
    n_rows = int(np.clip(_MOST_NUMBERS // max(findings.rows.shape[1], 1), 1, _ROWS))
    chosen = np.unique(np.linspace(0, findings.n_rows - 1, min(n_rows, findings.n_rows)).astype(np.intp))
    strength = dict(subject.by_origin(subject.model.column_importance(findings.rows[: 10 * _ROWS])))
    ranked = sorted(range(len(names)), key=lambda at: -strength[names[at]])
    columns = [_control(findings, name, np.flatnonzero(groups == at)) for at, name in enumerate(names)]
    centre = getattr(subject.estimator, "_centre", None)
    classes = findings.classes
    one = classes is None or subject.model.n_outputs == 1
    outputs = [findings.predicted] if one and subject.model.n_outputs == 1 else _outputs(findings)
    return json.dumps(
        {
            "link": link,
            "outputs": outputs,
            "output": subject.output,
            "levels": list(subject.levels_predicted),
            "columns": columns,
            "controls": [at for at in ranked if strength[names[at]] > 0 and columns[at]["kind"]][:_CONTROLS],
            "rows": findings.rows[chosen].tolist(),
            "numbers": (chosen + 1).tolist(),
            "base": (findings.rows.mean(axis=0) if centre is None else centre).tolist(),
            "bands": _bands(subject, link),
            **_arrays(subject.model, groups),
        }
    )


def _bands(subject: Subject, link: str) -> dict[str, Any] | None:
    """Return what the interval of one answer is made of; None where the model has none."""
    bands = getattr(subject.estimator, "_bands", None)
    if bands is None or link not in ("identity", "exp") or subject.model.n_outputs > 1:
        return None
    level = _COVERAGE if bands.both else (1 + _COVERAGE) / 2
    below, above = (float(side.at(level)[0]) for side in (bands.below, bands.above))
    if not np.isfinite([below, above]).all():
        return None
    spread, floor = bands.spread, float(np.max(subject.estimator.loss_.least))
    groups = np.zeros(1 + spread.columns.size, np.intp)
    return {
        "coverage": _COVERAGE,
        "below": below,
        "above": above,
        "least": float(spread.least[0]),
        "most": float(spread.most[0]),
        "columns": spread.columns.tolist(),
        "floor": floor if np.isfinite(floor) else None,
        "spread": None if spread.model is None else _arrays(spread.model, groups),
    }


def _outputs(findings: Findings) -> list[str]:
    if findings.subject.levels_predicted:
        return [quantile_name(level) for level in findings.subject.levels_predicted]
    if findings.classes is None:
        return [f"output {number + 1}" for number in range(findings.subject.model.n_outputs)]
    what = "probability" if findings.gives_probabilities else "score"
    return [f"{what} of {label}" for label in findings.classes]


def _link(subject: Subject) -> str | None:
    """Return the name of the map from f to the answer, found out by trying it."""
    estimator, n_outputs = subject.estimator, subject.model.n_outputs
    if estimator is None:
        return "identity"
    if subject.classes is not None:
        if not hasattr(estimator, "predict_proba"):
            return "identity"
        return "sigmoid" if n_outputs == 1 else "softmax"
    f = np.linspace(1.0, -0.5, 2 * n_outputs).reshape(2, n_outputs)  # falling: answers in order are others
    answer = np.asarray(estimator.loss_.mean(f))
    known = {"identity": f, "exp": np.exp(f), "sort": np.sort(f, axis=1)}
    return next(
        (name for name, value in known.items() if np.shape(answer) == f.shape and np.allclose(answer, value)), None
    )


def _arrays(model: RandomFeatureModel, groups: Array) -> dict[str, Any]:
    """Return the arrays of a model, long ones as base64."""
    parts = additive_arrays(model, groups)
    numbers = {
        name: getattr(parts, name).tolist() for name in ("linear", "linear_group", "columns", "curve_group", "first")
    }
    numbers["curves"] = numbers.pop("columns")
    double = {name: _encoded(getattr(parts, name), "<f8") for name in ("W", "nodes", "bias", "v")}
    return numbers | double | {"H": _encoded(parts.H, "<f4"), "table": _encoded(parts.table, "<f4")} | {
        "n_tables": len(parts.table), "n_cells": parts.table.shape[1], "n_groups": int(groups.max(initial=0)) + 1,
        "intercept": model.intercept.tolist(),
    }  # fmt: skip


def _encoded(values: Array, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, kind).tobytes()).decode()


def _control(findings: Findings, name: str, features: Array) -> dict[str, Any]:
    """Return a column of the table: its encoded columns, and how it is moved: as a number or date, by level, or not."""
    plain = {"name": name, "features": features.tolist(), "kind": ""}
    own, names, column = findings.rows[:, features], findings.subject.names, _encoded_as(findings.subject, name)
    if isinstance(column, DateColumn):
        return plain | _date(column, own)
    coded = int(features[0]) in findings.subject.levels
    if coded or names[features[0]] != name:  # levels of a category, or parts of a date
        levels = np.unique(own, axis=0)
        labels = [_level(findings.subject, name, features, level) for level in levels]
        if None in labels or len(levels) > _MOST_LEVELS:
            return plain
        pairs = sorted(zip(labels, levels.tolist(), strict=True))
        return plain | {"kind": "level", "levels": pairs}
    low, high = (float(edge) for edge in np.quantile(own[:, 0], _OUTER))
    if not low < high:
        low, high = float(own[:, 0].min()), float(own[:, 0].max())
    if not low < high:
        return plain
    whole = bool(np.all(own[:, 0] == np.round(own[:, 0])))
    low, high = (np.floor(low), np.ceil(high)) if whole else (low, high)
    step = (high - low) / _STEPS
    return plain | {"kind": "number", "low": low, "high": high, "step": max(1.0, round(step)) if whole else step}


def _date(column: DateColumn, own: Array) -> dict[str, Any]:
    """Return how a date is shown and moved, by days between those of the rows."""
    low, high = (float(edge) for edge in np.quantile(own[:, 0], _OUTER))
    form = "time" if column.by_hour else "minutes" if column.hours else "days"
    found = {"date": form, "gaps": column.indicator, "low": low, "high": high}
    return found | {"kind": "date" if high >= low + 1 else "", "step": max(1, round((high - low) / _STEPS))}


def _encoded_as(subject: Subject, name: str) -> Any:
    """Return the encoding of a column of the table; None if there is none."""
    encoding = getattr(subject.estimator, "table_encoding_", None)
    return next((column for column in getattr(encoding, "columns", ()) if column.name == name), None)


def _level(subject: Subject, name: str, features: Array, values: Array) -> str | None:
    """Return the level of encoded values; None if they are no levels."""
    if int(features[0]) in subject.levels:
        return subject.levels[int(features[0])][int(values[0])]
    known = [subject.names[at].removeprefix(f"{name}=") if f"{name}=" in subject.names[at] else None for at in features]
    marks = [(label, value) for label, value in zip(known, values, strict=True) if label is not None]
    if not marks or not all(value in (0.0, 0.5, 1.0) for _, value in marks):
        return None
    found = [label for label, value in marks if value == 1.0]
    if found:
        return found[0]
    if marks[0][1] != 0.0:
        return "(others)"
    return next(iter(getattr(_encoded_as(subject, name), "levels", ())), f"not {marks[0][0]}")
