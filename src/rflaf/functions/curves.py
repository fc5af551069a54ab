"""Column curves: each column enters a component through a straight line and a curve.

    u_m(x) = b_m + sum_c ( w_cm x_c + kappa_cm(x_c) )

kappa_cm is piecewise linear on the nodes of column c, which are the same for every component, and constant beyond the
outer nodes. Nodes follow the data: every distinct value of a column with few of them, otherwise quantiles, so that a
curve can have steps where the data have them. A column of two values stays linear. The nodes of a category are the
numbers of its levels, 0, 1, 2, ...: only its values there count, and w_cm is zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rflaf.errors import Array

_FEW_VALUES = 129  # up to this number, every distinct value is a node


@dataclass(frozen=True, slots=True)
class Knots:
    """Nodes of the curved columns.

    Attributes
    ----------
    columns : (n_curves,), indices of the columns, increasing
    start : (n_curves + 1,), offsets of the columns in ``nodes``
    nodes : (n_nodes,), increasing within a column
    """

    columns: Array
    start: Array
    nodes: Array

    @property
    def n_curves(self) -> int:
        return int(self.columns.size)

    def of(self, curve: int) -> Array:
        """Return the nodes of one curve."""
        return self.nodes[self.start[curve] : self.start[curve + 1]]


@dataclass(frozen=True, slots=True)
class ColumnCurves:
    """kappa_cm by its values (n_nodes, n_components) at the nodes."""

    knots: Knots
    values: Array

    def __call__(self, X: Array) -> Array:
        """Return sum_c kappa_cm(x_c), (n_rows, n_components), for rows ``X`` (n_rows, n_features)."""
        total = np.zeros((X.shape[0], self.values.shape[1]))
        for curve in range(self.knots.n_curves):
            total += self.part(X, curve)
        return total

    def part(self, X: Array, curve: int) -> Array:
        """Return kappa_cm(x_c) of one curve, (n_rows, n_components)."""
        x = X[:, self.knots.columns[curve]].astype(np.float64)
        k, f = _place(x, self.knots.of(curve))
        k += self.knots.start[curve]
        return np.asarray(self.values[k] * (1 - f)[:, None] + self.values[k + 1] * f[:, None])

    def slopes(self, X: Array) -> Array:
        """Return kappa_cm'(x_c), (n_rows, n_curves, n_components); zero beyond the nodes."""
        rows = np.empty((X.shape[0], self.knots.n_curves, self.values.shape[1]))
        for curve, column in enumerate(self.knots.columns):
            x, nodes = X[:, column].astype(np.float64), self.knots.of(curve)
            k, _ = _place(x, nodes)
            inside = (x > nodes[0]) & (x < nodes[-1])
            rise = np.diff(self.values[self.knots.start[curve] : self.knots.start[curve + 1]], axis=0)
            rows[:, curve] = (rise / np.diff(nodes)[:, None])[k] * inside[:, None]
        return rows

    def take(self, components: Array) -> ColumnCurves:
        """Return the curves of some components."""
        return ColumnCurves(self.knots, self.values[:, components])


def curves_of(tables: Iterable[tuple[int, Array, Array]]) -> ColumnCurves | None:
    """Return curves from columns with their nodes (k,) and values (k, n_components), in any order; None of none.

    >>> curves_of([(3, np.arange(2), np.ones((2, 1))), (0, np.arange(3), np.zeros((3, 1)))]).knots.columns
    array([0, 3])
    """
    ordered = sorted(tables, key=lambda table: table[0])
    if not ordered:
        return None
    columns, nodes, values = zip(*ordered, strict=True)
    start = np.cumsum([0, *(part.size for part in nodes)])
    knots = Knots(np.array(columns, np.intp), start, np.concatenate(nodes).astype(np.float64))
    return ColumnCurves(knots, np.concatenate(values))


def side_by_side(parts: Sequence[tuple[ColumnCurves | None, int]]) -> ColumnCurves | None:
    """Return the curves of several groups of components as one, on the nodes of all; None where there are none.

    Each group is given by its curves, or None, and its number of components.
    """
    curved = [curves for curves, _ in parts if curves is not None]
    if not curved:
        return None
    knots = _joined_knots([curves.knots for curves in curved])
    return ColumnCurves(knots, np.hstack([_values_at(knots, curves, width) for curves, width in parts]))


def _joined_knots(all_knots: Sequence[Knots]) -> Knots:
    """Return the nodes of all, column by column."""
    columns = np.unique(np.concatenate([knots.columns for knots in all_knots]))
    nodes = [
        np.unique(
            np.concatenate([knots.of(int(k)) for knots in all_knots for k in np.flatnonzero(knots.columns == column)])
        )
        for column in columns
    ]
    return Knots(columns, np.cumsum([0, *(part.size for part in nodes)]), np.concatenate(nodes))


def _values_at(knots: Knots, curves: ColumnCurves | None, width: int) -> Array:
    """Return the values of curves at the nodes of ``knots``, which contain their own; zero for a straight column."""
    values = np.zeros((knots.nodes.size, width))
    for curve, column in enumerate([] if curves is None else curves.knots.columns):
        assert curves is not None  # for the type checker
        at = int(np.flatnonzero(knots.columns == column)[0])
        part = slice(knots.start[at], knots.start[at + 1])
        own = curves.values[curves.knots.start[curve] : curves.knots.start[curve + 1]]
        k, f = _place(knots.nodes[part], curves.knots.of(curve))
        values[part] = own[k] * (1 - f)[:, None] + own[k + 1] * f[:, None]
    return values


def _place(x: Array, nodes: Array) -> tuple[Array, Array]:
    """Return the node to the left and the fraction of the way to the next, in [0, 1]."""
    k = np.clip(np.searchsorted(nodes, x, side="right") - 1, 0, nodes.size - 2)
    return k, np.clip((x - nodes[k]) / (nodes[k + 1] - nodes[k]), 0, 1)


def place_knots(X: Array, n_nodes: int = 49) -> Knots:
    """Return nodes for the columns of a sample ``X`` (n_rows, n_features) with more than two values.

    They are all values of a column with at most 129 of them, otherwise about ``n_nodes`` quantiles.

    >>> knots = place_knots(np.array([[0.0, 1.0], [1.0, 2.0], [0.0, 4.0]]))
    >>> knots.columns, knots.nodes
    (array([1]), array([1., 2., 4.]))
    """
    columns, nodes = [], []
    for column in range(X.shape[1]):
        placed = _nodes(X[:, column].astype(np.float64), n_nodes)
        if placed is not None:
            columns.append(column)
            nodes.append(placed)
    start = np.cumsum([0, *(part.size for part in nodes)])
    return Knots(np.array(columns, np.intp), start, np.concatenate(nodes) if nodes else np.zeros(0))


def one_over_gaps(nodes: Array, dtype: Any = np.float64) -> Array:
    """Return one over the distance from each node to the next, at most the largest float; zero for the last node."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.append(np.minimum(1 / np.diff(nodes), np.finfo(dtype).max), 0.0).astype(dtype)


def no_knots() -> Knots:
    """Return knots without curved columns."""
    return Knots(np.zeros(0, np.intp), np.zeros(1, np.intp), np.zeros(0))


def _nodes(x: Array, n_nodes: int) -> Array | None:
    values = np.unique(x)
    if values.size <= 2:
        return None
    if values.size <= _FEW_VALUES:
        return values
    nodes = np.unique(np.quantile(x, np.linspace(0, 1, n_nodes)))
    missing = n_nodes - nodes.size
    if missing:  # ties: the remaining nodes are quantiles of the distinct values
        nodes = np.unique(np.concatenate([nodes, np.quantile(values, np.linspace(0, 1, missing + 2))]))
    return nodes
