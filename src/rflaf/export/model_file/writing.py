"""A fitted estimator, with the encodings of its columns and its target, as a header and arrays."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

import rflaf.estimators
from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.bases import Basis
from rflaf.functions.losses import Loss

from .envelope import FORMAT
from .nodes import ESTIMATORS, PARTS

_HALVED = ("curves.values", "activation.coefficients", "model.v")  # arrays that single precision serves as well
_RADII = ("radii", "below", "above")  # order statistics of errors
_LABELS = {"U": str, "O": str, "i": int, "u": int, "f": float, "b": bool}  # kind of a NumPy dtype -> class of a label


def header_of(
    estimator: Any, provenance: Mapping[str, Any] | None, small: bool = False
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the header of a fitted estimator, and the arrays it names; ``small`` for what predicts alone."""
    from rflaf import __version__

    kind = type(estimator).__name__
    if kind not in ESTIMATORS or getattr(rflaf.estimators, kind) is not type(estimator):
        remedy = f"Save one of {list(ESTIMATORS)}."
        raise InvalidParameterError("only estimators of this package can be saved", kind, remedy)
    check_is_fitted(estimator)
    arrays: dict[str, Array] = {}
    parameters = {**estimator.get_params(deep=False), **estimator._retired}
    names, classes = getattr(estimator, "feature_names_in_", None), getattr(estimator, "classes_", None)
    header = {
        "format": FORMAT,
        "library": __version__,
        "class": kind,
        "parameters": {name: _argument(name, value) for name, value in parameters.items()},
        "n_features": int(estimator.model_.n_features),
        "feature_names": None if names is None or estimator.table_encoding_ else [str(name) for name in names],
        "classes": None if classes is None else _labels(classes),
        "fitted": _plain(_fitted(estimator, small), "", arrays),
        "columns": None if estimator.table_encoding_ is None else estimator.table_encoding_.to_dict(),
        "indicators": False,
        "named": hasattr(estimator, "feature_names_in_"),
        "target": None if estimator.target_encoding_ is None else _plain(estimator.target_encoding_, "", arrays),
        "provenance": _json({**estimator.provenance_, **(provenance or {})}),
    }
    return _shared(header, {name: _halved(name, x) for name, x in arrays.items()} if small else arrays)


def _halved(name: str, x: Array) -> Array:
    """An array in single precision where that serves; intervals become wider by the rounding, never narrower."""
    parent, last = f"..{name}".split(".")[-2:]
    with np.errstate(over="ignore"):  # infinite numbers are refused
        half = x.astype(np.float32)
        if parent in _RADII and last == "radii":
            return np.where(half < x, np.nextafter(half, np.float32(np.inf)), half)
        if parent in _RADII and last == "levels":
            lower = np.where(half > x, np.nextafter(half, np.float32(-np.inf)), half)
            return lower if (np.diff(lower) > 0).all() else x
    return half if name.endswith(_HALVED) else x


def _shared(header: dict[str, Any], arrays: dict[str, Array]) -> tuple[dict[str, Any], dict[str, Array]]:
    """The same with equal arrays once, under the name of the first: most intervals reach as far up as down."""
    first: dict[tuple[str, tuple[int, ...], bytes], str] = {}
    names = {name: first.setdefault((x.dtype.str, x.shape, x.tobytes()), name) for name, x in arrays.items()}
    return _renamed(header, names), {name: arrays[name] for name in first.values()}


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """JSON with other names of its arrays."""
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    if isinstance(value, dict):
        if value.keys() == {"array"} and value["array"] in names:
            return {"array": names[value["array"]]}
        return {key: _renamed(item, names) for key, item in value.items()}
    return value


def _fitted(estimator: Any, small: bool) -> dict[str, Any]:
    seen = None if small else estimator._seen
    return {
        "single_output": bool(estimator._single_output),
        "model": replace(estimator.model_, last_layer=None) if small else estimator.model_,
        "loss": estimator.loss_,
        "remedy": estimator.solver_remedy_,
        "alpha": float(estimator.alpha_),
        "bandwidth": float(estimator.bandwidth_),
        "trace": np.asarray(estimator.objective_trace_, np.float64),
        "stop_reason": estimator.stop_reason_,
        "column_importance": estimator._feature_importance,
        "centre": estimator._centre,
        "leverage": estimator.leverage_,
        "selection": estimator.selection_,
        "trials": [
            {"recipe": trial.recipe, "width": trial.width, "error": trial.error, "strength": trial.strength}
            for trial in (() if small else estimator.trials_)
        ],
        "terms": None if small else estimator._terms,
        "profile": estimator._profile,
        "bands": getattr(estimator, "_bands", None),
        "radii": getattr(estimator, "_radii", None),
        "doubt": None if small else getattr(estimator, "_doubt", None),
        "several_labels": bool(getattr(estimator, "_several", False)),
        "seen": None if seen is None else {"equations": seen.equations, "memory": seen.past},
    }


def _plain(value: Any, at: str, arrays: dict[str, Array]) -> Any:
    """JSON for a value; arrays are put into ``arrays`` and named by where they are."""
    if isinstance(value, Loss) or type(value).__name__ in PARTS:
        return _part(at, value)
    if isinstance(value, np.ndarray):
        wide = np.float64 if value.dtype.kind == "f" else np.int64
        arrays[at] = np.ascontiguousarray(value, wide)
        return {"array": at}
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value):
        kept = [field.name for field in fields(value) if not field.name.startswith("_")]
        return {name: _plain(getattr(value, name), f"{at}.{name}".lstrip("."), arrays) for name in kept}
    if isinstance(value, dict):
        return {name: _plain(item, f"{at}.{name}".lstrip("."), arrays) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{at}.{number}", arrays) for number, item in enumerate(value)]
    if isinstance(value, Basis):
        raise _not_ours(at, value)
    return _scalar(value)


def _scalar(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _part(name: str, value: Any) -> dict[str, Any]:
    """Return a basis, density, loss or sampling as its class and fields."""
    kind = type(value).__name__
    if PARTS.get(kind) is not type(value):
        raise _not_ours(name, value)
    if callable(getattr(value, "function", None)):
        rule = "an activation given as a callable cannot be saved: a model file holds no code"
        remedy = "Use a named activation, or a learned one; to_c and to_onnx write its values."
        raise InvalidParameterError(rule, value, remedy)
    return {"class": kind} | {field.name: _plain(getattr(value, field.name), "", {}) for field in fields(value)}


def _not_ours(name: str, value: Any) -> InvalidParameterError:
    return InvalidParameterError(
        f"{name} must be of this package to be saved without code", value, f"Use one of {', '.join(PARTS)}."
    )


def _argument(name: str, value: Any) -> Any:
    """JSON for an argument of an estimator."""
    value = value.item() if isinstance(value, np.generic) else value
    if name == "random_state" and not isinstance(value, int | None):
        return None
    if name == "monotone" and value is not None:
        return {"signs": [[_scalar(column), int(sign)] for column, sign in value.items()]}
    if name == "interactions" and isinstance(value, list | tuple):
        return {"sets": [[_scalar(column) for column in one] for one in value]}
    if isinstance(value, dict):
        return {"weights": [[_scalar(label), float(weight)] for label, weight in value.items()]}
    if value is None or isinstance(value, bool | int | float | str):
        return _scalar(value)
    if name in ("categorical_features", "quantile"):
        return [_scalar(one) for one in np.asarray(value).tolist()]
    return _part(name, value)


def _labels(classes: Array) -> dict[str, Any]:
    values = [_scalar(label) for label in classes]
    kind = _LABELS.get(classes.dtype.kind)
    if kind is None or not all(type(value) is kind for value in values):
        raise InvalidParameterError(
            "labels must be texts, whole numbers, numbers or truth values to be saved", classes.dtype, "Convert them."
        )
    return {"dtype": "str" if kind is str and classes.dtype.kind == "U" else classes.dtype.name, "values": values}


def _json(provenance: Mapping[str, Any]) -> Any:
    try:
        return json.loads(json.dumps(provenance, default=str), parse_constant=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidParameterError("provenance must be plain values", str(error), "Use texts and numbers.") from None
