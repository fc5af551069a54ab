"""A formula as a graph of plain ONNX operators, and its registration with skl2onnx (extra ``export``).

The graph uses only Gather, MatMul and arithmetic, which every runtime has: ramps of the curved columns times the rises
between their nodes in one product, cells of the activation by rounding, and Horner's rule on gathered coefficients.
Numbers are computed in the precision of the inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

from rflaf.errors import Array, MissingExtraError
from rflaf.estimators import RandomActivationFeatures, RFLAFClassifier, RFLAFRegressor
from rflaf.functions._kernels.shapes import FARTHEST
from rflaf.functions.losses import HIGHEST_LOGARITHM
from rflaf.model.random_feature_model import RandomFeatureModel

from .formula import Formula, Head, Link, formula_of

OPSET = 18  # of the standard operators
_LEARNING_OPSET = 3  # of ai.onnx.ml, used only by other steps of a pipeline
_INT64 = 7  # as ONNX numbers the types of tensors
_ONES_THAT_CONVERT = (RFLAFRegressor, RandomActivationFeatures, RandomFeatureModel)


def require_skl2onnx() -> Any:
    """Return the module ``skl2onnx``, or raise an error that names the extra to install."""
    try:
        import skl2onnx
    except ImportError as error:
        raise MissingExtraError("ONNX exports", "skl2onnx", "export") from error
    return skl2onnx


def register_onnx_converters() -> None:
    """Register the estimators of this package with skl2onnx, so that pipelines with them convert.

    `rflaf.to_onnx` does so itself; call this before ``skl2onnx.to_onnx``.
    """
    register = require_skl2onnx().update_registered_converter
    for kind in _ONES_THAT_CONVERT:
        register(kind, f"Rflaf{kind.__name__}", _declare_answers, _convert)
    register(
        RFLAFClassifier, "RflafClassifier", _declare_classes, _convert,
        options={"zipmap": [True, False, "columns"], "output_class_labels": [False, True], "nocl": [False, True]},
    )  # fmt: skip


def convert(estimator: Any, inputs: Sequence[tuple[str, np.dtype[Any], int]]) -> Any:
    """Return the ONNX model of a fitted estimator, or of a pipeline whose steps skl2onnx supports.

    ``inputs`` are (name, dtype, number of columns); strings have an object dtype. Class probabilities are one
    array, (n_rows, n_classes).
    """
    skl2onnx = require_skl2onnx()
    import onnx

    register_onnx_converters()
    classifies = isinstance(estimator, BaseEstimator) and is_classifier(estimator)
    model = skl2onnx.to_onnx(
        estimator,
        initial_types=[(name, tensor_type(dtype)([None, width])) for name, dtype, width in inputs],
        target_opset={"": OPSET, "ai.onnx.ml": _LEARNING_OPSET},
        options={id(estimator): {"zipmap": False}} if classifies else None,
        name="rflaf",  # the default is a random one
    )
    used = {node.domain for node in model.graph.node}
    for opset in [opset for opset in model.opset_import if opset.domain not in used]:
        model.opset_import.remove(opset)
    _name_inputs(model.graph, [name for name, _, _ in inputs])
    onnx.checker.check_model(model)
    return model


def _name_inputs(graph: Any, names: Sequence[str]) -> None:
    """Give the inputs the names asked for; skl2onnx turns those that are no identifiers into others."""
    wanted = {put.name: name for put, name in zip(graph.input, names, strict=True) if name}
    for put in graph.input:
        put.name = wanted.get(put.name, put.name)
    for node in graph.node:
        node.input[:] = [wanted.get(name, name) for name in node.input]


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes and constants of a skl2onnx graph, named on creation."""

    scope: Any
    container: Any

    def constant(self, name: str, values: Any) -> str:
        """Add a tensor of numbers in their own dtype, or of strings."""
        import onnx

        values = np.asarray(values)
        name = self.scope.get_unique_variable_name(name)
        if values.dtype.kind in "fi":
            self.container.add_initializer(name, None, None, onnx.numpy_helper.from_array(values))
        else:
            text = [str(value).encode() for value in values]
            self.container.add_initializer(name, onnx.TensorProto.STRING, list(values.shape), text)
        return name

    def node(self, operator: str, *inputs: str, result: str | None = None, **attributes: Any) -> str:
        """Add one operator; return the name of its result."""
        result = result or self.scope.get_unique_variable_name(operator.lower())
        name = self.scope.get_unique_operator_name(operator)
        self.container.add_node(operator, list(inputs), [result], name=name, **attributes)
        return result

    def sort(self, name: str, n_columns: int, result: str) -> None:
        """Sort the columns of every row."""
        count = self.constant("n_quantiles", np.array([n_columns], np.int64))
        others = self.scope.get_unique_variable_name("order")
        operator = self.scope.get_unique_operator_name("TopK")
        self.container.add_node("TopK", [name, count], [result, others], name=operator, axis=1, largest=0, sorted=1)

    def cast(self, name: str, dtype: np.dtype[Any]) -> str:
        """Convert numbers to another dtype."""
        import onnx

        return self.node("Cast", name, to=onnx.helper.np_dtype_to_tensor_dtype(dtype))


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of one fitted estimator (converter of skl2onnx)."""
    graph = Graph(scope, container)
    dtype = _dtype(operator)
    formula = formula_of(operator.raw_operator, dtype)
    z = _features(graph, _rows(graph, operator, dtype), formula)
    outputs = [output.full_name for output in operator.outputs]
    if formula.head is None:
        graph.node("Mul", z, graph.constant("importance", formula.importance), result=outputs[0])
        return
    f = _decision(graph, z, formula.head)
    if formula.head.classes is not None:
        chosen = graph.node("ArgMax", f, axis=1, keepdims=0)
        labels = graph.constant("classes", class_labels(formula.head.classes))
        graph.node("Gather", labels, chosen, result=outputs[0])
    elif len(outputs) > 1:  # several labels
        likely = graph.node("Greater", f, graph.constant("zero", np.zeros(1, formula.head.weights.dtype)))
        graph.node("Cast", likely, result=outputs[0], to=_INT64)
    _follow_link(graph, f, formula.head, dtype, outputs[-1])


def _rows(graph: Graph, operator: Any, dtype: np.dtype[Any]) -> str:
    """Concatenate all inputs in one precision."""
    parts = [
        v.full_name if isinstance(v.type, tensor_type(dtype)) else graph.cast(v.full_name, dtype)
        for v in operator.inputs
    ]
    return parts[0] if len(parts) == 1 else graph.node("Concat", *parts, axis=1)


def _features(graph: Graph, rows: str, formula: Formula) -> str:
    """Add the features without importance, (n_rows, n_components)."""
    rows = graph.node("Sub", rows, graph.constant("centre", formula.centre))
    parts = [graph.constant("bias", formula.bias)]
    if formula.linear.size:
        straight = rows
        if formula.linear.size < formula.n_features:
            straight = graph.node("Gather", rows, graph.constant("linear", formula.linear.astype(np.int64)), axis=1)
        parts.append(graph.node("MatMul", straight, graph.constant("W", formula.W)))
    if formula.columns.size:
        parts.append(_curves(graph, rows, formula))
    if len(parts) == 1:  # no column has weight: one row of inputs for every row
        empty = np.zeros((formula.n_features, formula.n_components), formula.dtype)
        parts.append(graph.node("MatMul", rows, graph.constant("W", empty)))
    u = parts[0]
    for part in parts[1:]:
        u = graph.node("Add", u, part)
    return _look_up(graph, u, formula)


def _curves(graph: Graph, rows: str, formula: Formula) -> str:
    """Sum clip((x_c - q_t) / (q_(t+1) - q_t), 0, 1) (H_(t+1) - H_t) over the ramps of all curved columns.

    Ramps to the left of the middle node, where H is zero, run from -1 to 0; the outer ramps continue as lines.
    """
    first, last = formula.start[:-1], formula.start[1:] - 1
    middle = (first + last) // 2
    ramps = np.delete(np.arange(formula.nodes.size), last)
    curve = np.repeat(np.arange(first.size), last - first)
    left = ramps < middle[curve]
    low = np.where(ramps == first[curve], -FARTHEST, 0) - left
    high = np.where(ramps + 1 == last[curve], FARTHEST, 1) - left
    column = formula.columns[curve].astype(np.int64)

    def numbers(name: str, values: Array) -> str:
        return graph.constant(name, values.astype(formula.dtype))

    x = graph.node("Gather", rows, graph.constant("ramp_column", column), axis=1)
    share = graph.node("Sub", x, numbers("ramp_origin", formula.nodes[ramps + left]))
    share = graph.node("Sub", share, numbers("ramp_origin_rest", formula.rest[ramps + left]))
    share = graph.node("Mul", share, numbers("ramp_slope", formula.gaps[ramps]))
    share = graph.node("Max", share, numbers("ramp_low", low))
    share = graph.node("Min", share, numbers("ramp_high", high))
    H = formula.H.astype(np.float64)
    return graph.node("MatMul", share, numbers("rises", H[ramps + 1] - H[ramps]))


def _look_up(graph: Graph, u: str, formula: Formula) -> str:
    """Evaluate cubics by Horner's rule with the coefficients of the cell nearest to u."""
    n_tables, n_cells, _ = formula.table.shape
    low, high = -formula.middle, n_cells - 1 - formula.middle

    def number(name: str, value: float) -> str:
        return graph.constant(name, np.array(value, formula.dtype))

    u = graph.node("Clip", u, number("lowest", low - 0.5), number("highest", high + 0.5))
    nearest = graph.node("Floor", graph.node("Add", u, number("half", 0.5)))
    k = graph.node("Clip", nearest, number("first_cell", low), number("last_cell", high))
    t = graph.node("Sub", u, k)
    start = formula.middle + n_cells * np.arange(n_tables, dtype=np.int64)
    cell = graph.node("Add", graph.cast(k, np.dtype(np.int64)), graph.constant("table_start", start))
    table = formula.table.reshape(-1, 4)
    c = [graph.node("Gather", graph.constant(f"c{p}", np.ascontiguousarray(table[:, p])), cell) for p in range(4)]
    z = c[3]
    for coefficient in c[2::-1]:
        z = graph.node("Add", graph.node("Mul", z, t), coefficient)
    return z


def _decision(graph: Graph, z: str, head: Head) -> str:
    """Add f (n_rows, n_outputs), summed in double precision; two classes give -f and f."""
    double = np.dtype(np.float64)
    f = graph.node("MatMul", graph.cast(z, double), graph.constant("weights", head.weights.astype(double)))
    f = graph.cast(graph.node("Add", f, graph.constant("intercept", head.intercept.astype(double))), head.weights.dtype)
    if head.classes is not None and head.intercept.size == 1:
        f = graph.node("Concat", graph.node("Neg", f), f, axis=1)
    return f


def _follow_link(graph: Graph, f: str, head: Head, dtype: np.dtype[Any], to: str) -> None:
    link, n_outputs = head.link, head.intercept.size
    if link is Link.EXP:
        highest = graph.constant("highest_logarithm", np.array(HIGHEST_LOGARITHM, dtype))
        graph.node("Exp", graph.node("Min", f, highest), result=to)
    elif link is Link.SIGMOID:
        graph.node("Sigmoid", f, result=to)
    elif link is Link.SOFTMAX:
        graph.node("Softmax", f, result=to, axis=1)
    elif link is Link.SORTED:
        graph.sort(f, n_outputs, to)
    else:
        graph.node("Identity", f, result=to)


def class_labels(classes: Array) -> Array:
    """Return labels as ONNX stores them: whole numbers as int64, all others as strings.

    >>> class_labels(np.array([0.0, 1.0])), class_labels(np.array(["no", "yes"], object))
    (array([0, 1]), array(['no', 'yes'], dtype=object))
    """
    return classes.astype(np.int64 if classes.dtype.kind in "biuf" else object)


def _declare_answers(operator: Any) -> None:
    """Declare the shapes of an estimator with one output."""
    n_answers = formula_of(operator.raw_operator, _dtype(operator)).n_answers
    operator.outputs[0].type = tensor_type(_dtype(operator))([None, n_answers])


def _declare_classes(operator: Any) -> None:
    """Declare the shapes of a classifier: labels, and one number per class."""
    classifier = operator.raw_operator
    labels = class_labels(np.arange(classifier.classes_.size) if classifier._several else classifier.classes_)
    operator.outputs[0].type = tensor_type(labels.dtype)([None, labels.size] if classifier._several else [None])
    operator.outputs[1].type = tensor_type(_dtype(operator))([None, labels.size])


def _dtype(operator: Any) -> np.dtype[Any]:
    """Return the precision of an operator: double if any input is, else single."""
    double = tensor_type(np.dtype(np.float64))
    return np.dtype(np.float64 if any(isinstance(v.type, double) for v in operator.inputs) else np.float32)


def tensor_type(dtype: np.dtype[Any]) -> Any:
    """Return the skl2onnx type of a numeric dtype; strings for any other."""
    from skl2onnx.common import data_types

    names = {"f4": "FloatTensorType", "f8": "DoubleTensorType", "i8": "Int64TensorType"}
    return getattr(data_types, names.get(dtype.str[1:], "StringTensorType"))
