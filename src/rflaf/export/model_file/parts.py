"""The parts of a saved model, each checked before it is used: bases, features, sums, and the model of its errors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from rflaf.functions.bases import RBFBasis
from rflaf.functions.curves import ColumnCurves, Knots
from rflaf.functions.densities import Directions
from rflaf.functions.smooth_bases import FixedActivation, PolynomialBasis
from rflaf.model.doubt import Doubt
from rflaf.model.intervals import ErrorBands, Radii, Spread
from rflaf.model.last_layer import LastLayer
from rflaf.model.normal_equations import NormalEquations
from rflaf.model.profile import LEVELS, Profile
from rflaf.model.random_feature_model import Activation, RandomFeatureModel

from .nodes import BASES, CHOICES, Node

_LARGEST_WORK, _WORK_A_BYTE = 2**26, 32  # bytes a model may take once it is compiled: these, and so many times its file
_MOST_BASIS = 1024
_FARTHEST_END = 1e100  # of the interval of a basis, and the width of its functions


def check_shapes(header: Node, size: int) -> None:
    """Refuse a model that would take far more memory than its file, before any array is read."""
    _check_activation(header["fitted"]["model"]["activation"], size)
    bands = header["fitted"].get("bands")
    if bands.value is not None and bands["spread"]["model"].value is not None:
        _check_activation(bands["spread"]["model"]["activation"], size)


def _check_activation(activation: Node, size: int) -> None:
    n_tables, n_basis = activation["coefficients"].shape(2)
    basis = read_part(activation["basis"], BASES)
    if n_basis != basis.n_basis:
        raise activation["coefficients"].refuse(f"of {basis.n_basis} columns")
    check_work(basis, n_tables, 1, size)


def check_work(basis: Any, n_tables: int, resolution: int, size: int) -> None:
    """Refuse activations whose cubic pieces, and what it takes to find these, are out of proportion to their file."""
    work = 32 * basis.n_basis * (basis.n_basis + n_tables)
    if isinstance(basis, RBFBasis):
        n_cells = ((basis.interval[1] - basis.interval[0]) / basis.h + 14) * resolution
        work += (72 * basis.n_basis + 32 * n_cells) * (basis.n_basis + n_tables)
    elif isinstance(basis, PolynomialBasis | FixedActivation):
        work += 32 * basis.pieces().n_cells * (basis.n_basis + n_tables)
    if not work <= _LARGEST_WORK + _WORK_A_BYTE * size:
        raise ValueError(f"its activations would take {work:.3g} bytes")


def read_part(node: Node, kinds: Mapping[str, Any]) -> Any:
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
        elif field.name == "levels":
            given["levels"] = tuple(level.number() for level in part.items())
        elif field.name in ("n_basis", "degree"):
            given[field.name] = part.whole(1, _MOST_BASIS)
        elif kind in CHOICES.values():
            given[field.name] = part.maybe(read_label)
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


def read_label(node: Node) -> Any:
    """Return a text, a number or a truth value."""
    if not isinstance(node.value, str | int | float | bool):
        raise node.refuse("a label")
    return node.value


def read_features(node: Node, n_features: int, last_layer: bool = True) -> RandomFeatureModel:
    """Return a model of ``n_features`` columns."""
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
    basis = read_part(node["basis"], BASES)
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


def read_equations(node: Node, width: int, n_outputs: int) -> NormalEquations:
    """Return sums of [z | 1 | y]."""
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
    equations = read_equations(node["equations"], width, n_outputs)
    return LastLayer(equations, node["ridge"].number(0.0), noise, node["intercept"].flag())


def read_bands(node: Node, n_features: int, n_outputs: int, n_levels: int) -> ErrorBands:
    """Return the intervals of a regression with ``n_levels`` outputs per target."""
    n_targets = n_outputs // n_levels
    spread = node["spread"]
    columns = spread["columns"].array(None, whole=True)
    if columns.size and not (columns[0] >= 0 and columns[-1] < n_features and (np.diff(columns) > 0).all()):
        raise spread["columns"].refuse(f"increasing numbers below {n_features}")
    model = spread["model"].maybe(lambda part: read_features(part, n_outputs + columns.size, last_layer=False))
    if model is not None and model.n_outputs != n_targets:
        raise spread["model"].refuse(f"of {n_targets} outputs")
    least, most = (spread[name].array(n_targets) for name in ("least", "most"))
    below, above = (read_radii(node[name], n_targets) for name in ("below", "above"))
    typical, deviation = (node[name].array(n_targets) for name in ("typical", "deviation"))
    if not (typical > 0).all():
        raise node["typical"].refuse("above zero")
    size = Spread(columns.astype(np.intp), model, least, most)
    return ErrorBands(size, below, above, node["both"].flag(), typical, deviation)


def read_radii(node: Node, n_outputs: int) -> Radii:
    """Return order statistics; both parts rise."""
    levels = node["levels"].array(None)
    radii = node["radii"].array(levels.size, n_outputs, finite=False)
    if (np.diff(levels) <= 0).any() or not (radii[1:] >= radii[:-1]).all() or np.isnan(radii).any():
        raise node.refuse("rising")
    return Radii(levels, radii)


def read_doubt(node: Node, width: int, n_outputs: int) -> Doubt:
    """Return the variance of the log odds of a classification."""
    level = node["level"].array(n_outputs)
    if (level < 0).any():
        raise node["level"].refuse("at least zero")
    return Doubt(node["mean"].array(width), node["covariance"].array(width + 1, width + 1), level)


def read_profile(node: Node, n_features: int, n_outputs: int) -> Profile:
    """Return what the rows of the fit were like."""
    n_levels = LEVELS.size
    quantiles, answers = node["quantiles"].array(n_levels, n_features), node["answers"].array(n_levels, n_outputs)
    if (np.diff(quantiles, axis=0) < 0).any() or (np.diff(answers, axis=0) < 0).any():
        raise node.refuse("of rising quantiles")
    n_rows, error = node["n_rows"].whole(1), node["error"].number(finite=False)
    return Profile(quantiles, node["mean"].array(n_features), answers, n_rows, error)
