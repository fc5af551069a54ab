"""An estimator from a header and arrays, all of them checked before they are used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from rflaf.errors import Array, StopReason, UnreadableModelFile
from rflaf.export.predictor import Predictor
from rflaf.functions.bases import RBFBasis
from rflaf.functions.curves import ColumnCurves, Knots
from rflaf.functions.densities import Directions
from rflaf.functions.losses import Logistic, Softmax, Units
from rflaf.functions.smooth_bases import FixedActivation, PolynomialBasis
from rflaf.model.greedy import Selection
from rflaf.model.last_layer import LastLayer
from rflaf.model.normal_equations import NormalEquations
from rflaf.model.random_feature_model import Activation, RandomFeatureModel
from rflaf.model.ridge import Remedy
from rflaf.rows.tables import TableEncoding, TargetEncoding
from rflaf.rows.tables.readings import READINGS

from .envelope import Arrays, present
from .nodes import BASES, CHOICES, ESTIMATORS, LOSSES, PARTS, Node

if TYPE_CHECKING:  # these import scikit-learn and the compiler, which a `Predictor` does without
    from rflaf.training.final_fit import FitResult
    from rflaf.training.online import Seen, Terms
    from rflaf.training.solvers.leverage import Leverage
    from rflaf.training.solvers.refined.search import Trial

_LARGEST_WORK, _WORK_A_BYTE = 2**26, 32  # bytes a model may take once it is compiled: these, and so many times its file
_MOST_BASIS = 1024
_FARTHEST_END = 1e100  # of the interval of a basis, and the width of its functions


def build(header: dict[str, Any], arrays: Arrays, size: int, light: bool = False) -> Any:
    """Return the estimator, or the `Predictor`, of values that are all checked before they are used."""
    try:
        header = present(header, arrays.path)
        _check_shapes(Node(header, arrays.shapes, "header"), size)
        return _read_model(Node(header, arrays.read(), "header"), size, light)
    except UnreadableModelFile:
        raise
    except (ValueError, TypeError, KeyError, IndexError, ArithmeticError, AttributeError, RecursionError) as error:
        raise UnreadableModelFile(arrays.path, str(error)) from None


def _check_shapes(header: Node, size: int) -> None:
    """Refuse a model that would take far more memory than its file, before any array is read."""
    activation = header["fitted"]["model"]["activation"]
    n_tables, n_basis = activation["coefficients"].shape(2)
    basis = _read_part(activation["basis"], BASES)
    if n_basis != basis.n_basis:
        raise activation["coefficients"].refuse(f"of {basis.n_basis} columns")
    _check_work(basis, n_tables, 1, size)


def _check_work(basis: Any, n_tables: int, resolution: int, size: int) -> None:
    """Refuse activations whose cubic pieces, and what it takes to find these, are out of proportion to their file."""
    work = 32 * basis.n_basis * (basis.n_basis + n_tables)
    if isinstance(basis, RBFBasis):
        n_cells = ((basis.interval[1] - basis.interval[0]) / basis.h + 14) * resolution
        work += (72 * basis.n_basis + 32 * n_cells) * (basis.n_basis + n_tables)
    elif isinstance(basis, PolynomialBasis | FixedActivation):
        work += 32 * basis.pieces().n_cells * (basis.n_basis + n_tables)
    if not work <= _LARGEST_WORK + _WORK_A_BYTE * size:
        raise ValueError(f"its activations would take {work:.3g} bytes")


def _read_model(header: Node, size: int, light: bool) -> Any:
    built: Any = _read_predictor(header) if light else _read_estimator(header)
    activation = (built.model if light else built.model_).activation
    if isinstance(activation.basis, RBFBasis):
        resolution = activation.basis.resolution(activation.coefficients)
        _check_work(activation.basis, activation.coefficients.shape[0], resolution, size)
    return built


def _read_predictor(header: Node) -> Predictor:
    """Return what predicts of an estimator; how it was fitted is not read."""
    kind = header["class"].one_of({name: name for name in ("RFLAFRegressor", "RFLAFClassifier")})
    n_features, fitted = header["n_features"].whole(1), header["fitted"]
    model, classes = _read_features(fitted["model"], n_features, last_layer=False), None
    loss = _read_part(fitted["loss"], LOSSES)
    encoding = _read_columns(header, n_features)
    if kind == "RFLAFClassifier":
        classes = _read_labels(header["classes"], model.n_outputs)
        _check_loss(fitted["loss"], loss, model.n_outputs)
    single = _read_single(fitted["single_output"], model.n_outputs) and classes is None
    names = _read_names(header["feature_names"], n_features) if encoding is None else encoding.feature_names
    target = _read_target(header, kind)
    return Predictor(model, loss, classes, encoding, target, None if names is None else tuple(names), single)


def _check_loss(node: Node, loss: Any, n_outputs: int) -> None:
    if isinstance(loss, Softmax | Logistic) and isinstance(loss, Softmax) != (n_outputs > 1):
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
    return TargetEncoding(target["name"].text(), task, target["values"].one_of(kinds), target["reason"].text(), reading)


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
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    estimator.table_encoding_ = encoding = _read_columns(header, n_features)
    if encoding is not None:
        estimator._name_columns(header["named"].flag())
    estimator.target_encoding_ = _read_target(header, kind.__name__)
    if not isinstance(header["provenance"].value, dict):
        raise header["provenance"].refuse("an object")
    if header["provenance"].value:
        estimator.provenance_ = header["provenance"].value
    if issubclass(kind, estimators.RFLAFClassifier):
        estimator.classes_ = _read_labels(header["classes"], n_outputs)
        single_output = False
        _check_loss(fitted["loss"], result.loss, n_outputs)
    else:
        single_output = _read_single(fitted["single_output"], n_outputs)
    estimator._accept(result, single_output)
    estimator._seen = fitted["seen"].maybe(lambda node: _read_seen(node, result.model.n_components, n_outputs))
    return estimator


def _read_columns(header: Node, n_features: int) -> TableEncoding | None:
    """Return the encoding of the columns of an estimator that was fitted to a table."""
    if header["columns"].value is None:
        return None
    encoding = TableEncoding.from_dict(header["columns"].value)
    if len(encoding.feature_names) != n_features:
        raise ValueError(f"the encoding makes {len(encoding.feature_names)} columns for {n_features}")
    return encoding


def _read_argument(node: Node) -> Any:
    value = node.value
    if isinstance(value, dict) and "signs" in value:
        pairs = [pair.items(2) for pair in node["signs"].items()]
        return {_read_label(column): int(sign.number(-1.0)) for column, sign in pairs}
    if isinstance(value, dict) and "sets" in value:
        return [tuple(_read_label(column) for column in one.items()) for one in node["sets"].items()]
    if isinstance(value, dict) and "weights" in value:
        pairs = [pair.items(2) for pair in node["weights"].items()]
        return {_read_label(label): weight.number(0.0) for label, weight in pairs}
    if isinstance(value, dict):
        return _read_part(node, PARTS)
    if isinstance(value, list):
        return [_read_label(one) for one in node.items()]
    if value in ("inf", "-inf", "nan"):
        return node.number(finite=False)
    if value is not None and not isinstance(value, bool | int | float | str):
        raise node.refuse("a plain value")
    return value


def _read_label(node: Node) -> Any:
    if not isinstance(node.value, str | int | float | bool):
        raise node.refuse("a label")
    return node.value


def _read_part(node: Node, kinds: Mapping[str, Any]) -> Any:
    """Return a basis, density, loss or sampling; each checks its own values."""
    kind = node["class"].one_of(kinds)
    given: dict[str, Any] = {}
    for field in fields(kind):
        if kind in CHOICES.values() and field.name not in node.value:
            continue  # a setting that came later: its default is what the file means
        part = node[field.name]
        if field.name == "interval":
            given["interval"] = tuple(_read_length(end) for end in part.items(2))
            if not abs(np.subtract(*given["interval"])) > 1 / _FARTHEST_END:
                raise part.refuse("two numbers apart")
        elif field.name == "width":
            given["width"] = part.maybe(_read_length)
        elif field.name == "function":
            given["function"] = part.text()
        elif field.name in ("n_basis", "degree"):
            given[field.name] = part.whole(1, _MOST_BASIS)
        elif kind in CHOICES.values():
            given[field.name] = part.maybe(_read_label)
        else:
            given[field.name] = part.maybe(lambda part: part.number(finite=False))
    if set(node.value) != {"class", *given}:
        raise node.refuse(f"of {', '.join(given)}")
    if any(isinstance(value, float) and math.isnan(value) for value in given.values()):
        raise node.refuse("numbers")
    return kind(**given)


def _read_length(node: Node) -> float:
    if abs(node.number()) > _FARTHEST_END:
        raise node.refuse(f"at most {_FARTHEST_END:g} in size")
    return node.number()


def _read_labels(node: Node, n_outputs: int) -> Array:
    dtype = node["dtype"].text()
    kind = {"str": str, "object": str, "bool": bool}.get(dtype) or {"i": int, "u": int, "f": float}.get(dtype[:1])
    values = [_read_label(label) for label in node["values"].items()]
    if kind is None or any(type(value) is not kind for value in values):
        raise node.refuse("labels of one kind")
    if dtype not in ("str", "object", "bool") and np.dtype(dtype).name not in np.sctypeDict:
        raise node.refuse("of a known dtype")
    classes: Array = np.array(values, dtype=object if dtype == "object" else dtype)
    if len(classes) != (2 if n_outputs == 1 else n_outputs) or len(set(classes.tolist())) != len(classes):
        raise node.refuse(f"as many different labels as {n_outputs} outputs tell apart")
    if not all(low < high for low, high in pairwise(classes)):
        raise node.refuse("in order")
    return classes


def _read_result(node: Node, n_features: int) -> FitResult:
    from rflaf.training.final_fit import FitResult

    model = _read_features(node["model"], n_features)
    return FitResult(
        model=model,
        loss=_read_part(node["loss"], LOSSES),
        remedy=node["remedy"].one_of(Remedy.__members__),
        terms=_read_terms(node["terms"], model.n_outputs),
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


def _read_features(node: Node, n_features: int, last_layer: bool = True) -> RandomFeatureModel:
    directions = node["directions"]
    W = directions["W"].array(n_features, None)
    width = W.shape[1]
    drawn = Directions(
        W, directions["offset"].array(width), directions["importance"].array(width), directions["n_draws"].whole(1)
    )
    v = node["v"].array(width, None)
    n_outputs = v.shape[1]
    return RandomFeatureModel(
        drawn,
        _read_activation(node["activation"], width),
        v,
        node["intercept"].array(n_outputs),
        node["curves"].maybe(lambda curves: _read_curves(curves, n_features, width)),
        node["last_layer"].maybe(lambda layer: _read_last_layer(layer, width, n_outputs)) if last_layer else None,
    )


def _read_activation(node: Node, width: int) -> Activation:
    basis = _read_part(node["basis"], BASES)
    coefficients = node["coefficients"].array(None, basis.n_basis)
    if coefficients.shape[0] not in (1, width):
        raise node["coefficients"].refuse(f"one activation or {width}")
    square = (basis.n_basis, basis.n_basis)
    return Activation(basis, coefficients, node["covariance"].maybe(lambda part: part.array(*square, finite=False)))


def _read_curves(node: Node, n_features: int, width: int) -> ColumnCurves:
    """Return column curves; compiled loops rely on increasing columns and two or more increasing nodes each."""
    knots = node["knots"]
    columns, nodes = knots["columns"].array(None, whole=True), knots["nodes"].array(None)
    start = knots["start"].array(columns.size + 1, whole=True)
    if columns.size and not (columns[0] >= 0 and columns[-1] < n_features and (np.diff(columns) > 0).all()):
        raise knots["columns"].refuse(f"increasing numbers below {n_features}")
    if start[0] != 0 or start[-1] != nodes.size or (np.diff(start) < 2).any():
        raise knots["start"].refuse(f"increasing from 0 to {nodes.size}")
    inner = np.ones(max(nodes.size - 1, 0), bool)
    inner[start[1:-1] - 1] = False
    if (np.diff(nodes)[inner] <= 0).any():
        raise knots["nodes"].refuse("increasing within a column")
    if not nodes.size:
        return ColumnCurves(Knots(columns.astype(np.intp), start.astype(np.intp), nodes), np.zeros((0, width)))
    values = node["values"].array(nodes.size, width)
    return ColumnCurves(Knots(columns.astype(np.intp), start.astype(np.intp), nodes), values)


def _read_equations(node: Node, width: int, n_outputs: int) -> NormalEquations:
    side = width + 1 + n_outputs
    moments = node["moments"].array(side, side)
    if not moments[width, width] > 0 or (np.diagonal(moments) < 0).any():
        raise node["moments"].refuse("sums of squares")
    if node["n_outputs"].whole() != n_outputs:
        raise node["n_outputs"].refuse(f"{n_outputs}")
    return NormalEquations(
        moments, n_outputs, node["n_rows"].number(0.0), node["whole_weights"].flag(), node["precision"].number(0.0)
    )


def _read_last_layer(node: Node, width: int, n_outputs: int) -> LastLayer:
    noise = node["noise"].array(n_outputs)
    if (noise < 0).any():
        raise node["noise"].refuse("at least zero")
    equations = _read_equations(node["equations"], width, n_outputs)
    return LastLayer(equations, node["ridge"].number(0.0), noise, node["intercept"].flag())


def _read_terms(node: Node, n_outputs: int) -> Terms:
    from rflaf.training.online import Terms

    units = Units(*(node["units"][name].array(n_outputs) for name in ("centre", "scale", "shift", "stretch")))
    loss = _read_part(node["loss"], LOSSES)
    return Terms(loss, node["ridge"].number(0.0), units, node["weight"].number(0.0), node["intercept"].flag())


def _read_seen(node: Node, width: int, n_outputs: int) -> Seen:
    from rflaf.training.online import Seen
    from rflaf.training.solvers.convex_loss import PastRows

    memory, side = node["memory"], width + 1
    return Seen(
        _read_equations(node["equations"], width, n_outputs),
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
    how = Recipe(*rates, recipe["nodes"].whole(), recipe["effort"].number(), split)
    strength = node["strength"].array(None, finite=False)
    return Trial(how, node["width"].whole(1), node["error"].number(finite=False), np.zeros(0), strength)
