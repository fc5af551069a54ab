"""An estimator from a header and arrays, all of them checked before they are used."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from rflaf.errors import Array, StopReason, UnreadableModelFile
from rflaf.export.predictor import Predictor
from rflaf.functions.bases import RBFBasis
from rflaf.functions.losses import Logistic, Softmax, Units
from rflaf.model.greedy import Selection
from rflaf.model.ridge import Remedy
from rflaf.rows.tables import TableEncoding, TargetEncoding
from rflaf.rows.tables.readings import READINGS

from .envelope import Arrays, present
from .indicators import encoding_for, of_codes, result_of_codes
from .nodes import ESTIMATORS, LOSSES, PARTS, Node
from .parts import (
    check_shapes,
    check_work,
    read_bands,
    read_doubt,
    read_equations,
    read_features,
    read_label,
    read_part,
    read_profile,
    read_radii,
)

if TYPE_CHECKING:  # these import scikit-learn and the compiler, which a `Predictor` does without
    from rflaf.training.final_fit import FitResult
    from rflaf.training.online import Seen, Terms
    from rflaf.training.solvers.leverage import Leverage
    from rflaf.training.solvers.refined.search import Trial


def build(header: dict[str, Any], arrays: Arrays, size: int, light: bool = False) -> Any:
    """Return the estimator, or the `Predictor`, of values that are all checked before they are used."""
    try:
        header = present(header, arrays.path)
        check_shapes(Node(header, arrays.shapes, "header"), size)
        return _read_model(Node(header, arrays.read(), "header"), size, light)
    except UnreadableModelFile:
        raise
    except (ValueError, TypeError, KeyError, IndexError, ArithmeticError, AttributeError, RecursionError) as error:
        raise UnreadableModelFile(arrays.path, str(error)) from None


def _read_model(header: Node, size: int, light: bool) -> Any:
    built: Any = _read_predictor(header) if light else _read_estimator(header)
    activation = (built.model if light else built.model_).activation
    if isinstance(activation.basis, RBFBasis):
        resolution = activation.basis.resolution(activation.coefficients)
        check_work(activation.basis, activation.coefficients.shape[0], resolution, size)
    return built


def _read_predictor(header: Node) -> Predictor:
    """Return what predicts of an estimator; how it was fitted is not read."""
    kind = header["class"].one_of({name: name for name in ("RFLAFRegressor", "RFLAFClassifier")})
    n_features, fitted = header["n_features"].whole(1), header["fitted"]
    model, classes = read_features(fitted["model"], n_features, last_layer=False), None
    several = _read_several(fitted)
    loss = read_part(fitted["loss"], LOSSES)
    encoding = _read_columns(header, n_features)
    if encoding is not None and header["indicators"].flag():
        model = of_codes(model, encoding)
    if kind == "RFLAFClassifier":
        classes = _read_labels(header["classes"], model.n_outputs, several)
        _check_loss(fitted["loss"], loss, model.n_outputs, several)
    single = _read_single(fitted["single_output"], model.n_outputs) and classes is None
    names = _read_names(header["feature_names"], n_features) if encoding is None else encoding.feature_names
    target = _read_target(header, kind)
    known = None if names is None else tuple(names)
    return Predictor(model, loss, classes, encoding, target, known, single, several and classes is not None)


def _read_several(fitted: Node) -> bool:
    """Return whether several labels apply to a row, of which earlier files do not speak."""
    return bool(fitted.get("several_labels").maybe(Node.flag))


def _check_loss(node: Node, loss: Any, n_outputs: int, several: bool) -> None:
    exclusive = n_outputs > 1 and not several
    if isinstance(loss, Softmax | Logistic) and isinstance(loss, Softmax) != exclusive:
        raise node.refuse("that of the number of classes")


def _read_single(node: Node, n_outputs: int) -> bool:
    if node.flag() and n_outputs != 1:
        raise node.refuse(f"false for {n_outputs} outputs")
    return node.flag()


def _read_names(node: Node, n_features: int) -> list[str] | None:
    names = node.maybe(lambda node: [name.text() for name in node.items()])
    if names is not None and len(names) != n_features:
        raise node.refuse(f"{n_features} names")
    return names


def _read_target(header: Node, kind: str) -> TargetEncoding | None:
    """Return the encoding of the target, which must be one the estimator can predict."""
    target = header["target"]
    if target.value is None:
        return None
    kinds = {kind: kind for kind in ("number", "whole", "truth", "text")}
    task = target["task"].one_of({"regression": "regression", "classification": "classification"})
    if (task == "classification") != (kind == "RFLAFClassifier"):
        raise ValueError(f"a {kind} cannot do {task}")
    reading = target["reading"].one_of({name: name for name, known in READINGS.items() if known.kind == "number"})
    offset, exposure = target.get("offset").maybe(Node.text) or "", target.get("exposure").maybe(Node.flag) or False
    values, reason = target["values"].one_of(kinds), target["reason"].text()
    return TargetEncoding(target["name"].text(), task, values, reason, reading, offset, exposure)


def _read_estimator(header: Node) -> Any:
    from rflaf import estimators
    from rflaf.estimators.parameters import check_values
    from rflaf.estimators.retired import RETIRED, translate

    kind = getattr(estimators, header["class"].one_of(ESTIMATORS))
    given = header["parameters"]
    known = kind._get_param_names()
    if not isinstance(given.value, dict) or not set(given.value) <= {*known, *RETIRED}:
        raise given.refuse(f"an object of {', '.join(known)}")
    arguments, retired = translate({name: _read_argument(given[name]) for name in given.value}, "loss" in known)
    estimator = kind(**arguments)
    if retired:
        estimator._retired = retired
    check_values(estimator)
    n_features = header["n_features"].whole(1)
    names, fitted = _read_names(header["feature_names"], n_features), header["fitted"]
    result = _read_result(fitted, n_features)
    n_outputs, single_output = result.model.n_outputs, fitted["single_output"].flag()
    estimator.n_features_in_ = n_features
    encoding = _read_columns(header, n_features)
    if encoding is not None and header["indicators"].flag():
        result = result_of_codes(result, encoding)
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    estimator.table_encoding_ = encoding
    if encoding is not None:
        estimator._name_columns(header["named"].flag())
    estimator.target_encoding_ = _read_target(header, kind.__name__)
    if not isinstance(header["provenance"].value, dict):
        raise header["provenance"].refuse("an object")
    if header["provenance"].value:
        estimator.provenance_ = header["provenance"].value
    if issubclass(kind, estimators.RFLAFClassifier):
        several, single_output = _read_several(fitted), False
        estimator.classes_ = _read_labels(header["classes"], n_outputs, several)
        _check_loss(fitted["loss"], result.loss, n_outputs, several)
        estimator._several = several
    else:
        single_output = _read_single(fitted["single_output"], n_outputs)
        if n_outputs % result.loss.n_levels or (result.loss.n_levels > 1 and single_output):
            raise fitted["loss"].refuse(f"of {n_outputs} outputs")
    estimator._accept(result, single_output)
    estimator._profile = fitted.get("profile").maybe(lambda node: read_profile(node, n_features, n_outputs))
    estimator._seen = fitted["seen"].maybe(lambda node: _read_seen(node, result.model.n_components, n_outputs))
    if issubclass(kind, estimators.RFLAFClassifier):
        estimator._radii = fitted.get("radii").maybe(lambda node: read_radii(node, 1))
        width = result.model.n_components
        estimator._doubt = fitted.get("doubt").maybe(lambda node: read_doubt(node, width, n_outputs))
    elif issubclass(kind, estimators.RFLAFRegressor):
        estimator._bands = fitted.get("bands").maybe(
            lambda node: read_bands(node, n_features, n_outputs, result.loss.n_levels)
        )
    if header["indicators"].flag():  # these speak of the columns of old models
        estimator._profile = estimator._bands = None
    return estimator


def _read_columns(header: Node, n_features: int) -> TableEncoding | None:
    """Return the encoding of the columns of an estimator that was fitted to a table."""
    plain = header["columns"].value
    return None if plain is None else encoding_for(plain, header["indicators"].flag(), n_features)


def _read_argument(node: Node) -> Any:
    value = node.value
    if isinstance(value, dict) and "signs" in value:
        pairs = [pair.items(2) for pair in node["signs"].items()]
        return {read_label(column): int(sign.number(-1.0)) for column, sign in pairs}
    if isinstance(value, dict) and "sets" in value:
        return [tuple(read_label(column) for column in one.items()) for one in node["sets"].items()]
    if isinstance(value, dict) and "weights" in value:
        pairs = [pair.items(2) for pair in node["weights"].items()]
        return {read_label(label): weight.number(0.0) for label, weight in pairs}
    if isinstance(value, dict):
        return read_part(node, PARTS)
    if isinstance(value, list):
        return [read_label(one) for one in node.items()]
    if value in ("inf", "-inf", "nan"):
        return node.number(finite=False)
    if value is not None and not isinstance(value, bool | int | float | str):
        raise node.refuse("a plain value")
    return value


def _read_labels(node: Node, n_outputs: int, several: bool) -> Array:
    dtype = node["dtype"].text()
    kind = {"str": str, "object": str, "bool": bool}.get(dtype) or {"i": int, "u": int, "f": float}.get(dtype[:1])
    values = [read_label(label) for label in node["values"].items()]
    if kind is None or any(type(value) is not kind for value in values):
        raise node.refuse("labels of one kind")
    if dtype not in ("str", "object", "bool") and np.dtype(dtype).name not in np.sctypeDict:
        raise node.refuse("of a known dtype")
    classes: Array = np.array(values, dtype=object if dtype == "object" else dtype)
    if len(classes) != (2 if n_outputs == 1 and not several else n_outputs) or len(set(classes.tolist())) != len(
        classes
    ):
        raise node.refuse(f"as many different labels as {n_outputs} outputs tell apart")
    if not several and not all(low < high for low, high in pairwise(classes)):
        raise node.refuse("in order")
    return classes


def _read_result(node: Node, n_features: int) -> FitResult:
    from rflaf.training.final_fit import FitResult

    model = read_features(node["model"], n_features)
    terms: Any = node["terms"].maybe(lambda terms: _read_terms(terms, model.n_outputs))  # none in files for predictions
    return FitResult(
        model=model,
        loss=read_part(node["loss"], LOSSES),
        remedy=node["remedy"].one_of(Remedy.__members__),
        terms=terms,
        alpha=node["alpha"].number(finite=False),
        bandwidth=node["bandwidth"].number(finite=False),
        trace=node["trace"].array(None, finite=False),
        stop_reason=node["stop_reason"].one_of(StopReason.__members__),
        column_importance=node["column_importance"].array(n_features, finite=False),
        centre=node["centre"].maybe(lambda means: means.array(n_features)) if "centre" in node.value else None,
        leverage=node["leverage"].maybe(_read_leverage),
        selection=node["selection"].maybe(_read_selection),
        trials=tuple(_read_trial(trial) for trial in node["trials"].items()),
    )


def _read_terms(node: Node, n_outputs: int) -> Terms:
    from rflaf.training.online import Terms

    units = Units(*(node["units"][name].array(n_outputs) for name in ("centre", "scale", "shift", "stretch")))
    loss = read_part(node["loss"], LOSSES)
    return Terms(loss, node["ridge"].number(0.0), units, node["weight"].number(0.0), node["intercept"].flag())


def _read_seen(node: Node, width: int, n_outputs: int) -> Seen:
    from rflaf.training.online import Seen
    from rflaf.training.solvers.convex_loss import PastRows

    memory, side = node["memory"], width + 1
    return Seen(
        read_equations(node["equations"], width, n_outputs),
        PastRows(
            memory["A"].array(n_outputs, side, side),
            memory["centre"].array(side, n_outputs),
            memory["slope"].array(side, n_outputs),
            memory["weight"].number(0.0),
        ),
    )


def _read_leverage(node: Node) -> Leverage:
    from rflaf.training.solvers.leverage import Leverage

    scores = node["scores"].array(None, finite=False)
    kept = node["kept"].maybe(lambda drawn: drawn.array(None, whole=True)) if "kept" in node.value else None
    if kept is not None and kept.size and not (kept.min() >= 0 and kept.max() < scores.size):
        raise node["kept"].refuse(f"numbers below {scores.size}")
    return Leverage(scores, node["lam"].number(), node["relative_error"].number(finite=False), kept)


def _read_selection(node: Node) -> Selection:
    order = node["order"].array(None, whole=True)
    errors, gcv = (node[name].array(order.size + 1, finite=False) for name in ("errors", "gcv"))
    return Selection(order, errors, gcv)


def _read_trial(node: Node) -> Trial:
    from rflaf.training.solvers.refined.recipes import Recipe
    from rflaf.training.solvers.refined.search import Trial

    recipe = node["recipe"]
    rates = recipe["alpha"].number(), recipe["rate"].number()
    split = recipe["split"].whole() if "split" in recipe.value else 0  # of which the first files do not speak
    smoothing, shrinkage = (
        recipe[name].number() if name in recipe.value else 0.0 for name in ("smoothing", "shrinkage")
    )
    own_values = "own_values" in recipe.value and recipe["own_values"].flag()
    how = Recipe(*rates, recipe["nodes"].whole(), recipe["effort"].number(), split, smoothing, shrinkage, own_values)
    strength = node["strength"].array(None, finite=False)
    return Trial(how, node["width"].whole(1), node["error"].number(finite=False), np.zeros(0), strength)
