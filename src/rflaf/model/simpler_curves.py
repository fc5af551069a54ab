"""Column curves with fewer nodes: those that hardly change the answers are merged.

Nodes are left out one by one, each time the one whose loss changes f least, to first order, on rows of a sample:

    (delta f)_i = sum_m q_m v_m sigma_m'(u_im) (delta kappa_cm)(x_ic)

The change is counted from the curve as it was, over all rows between the two nodes that stay. Every node counts as a
row too, so that no part of a curve without rows of the sample is lost. The values at the nodes that stay are those
nearest to the curve as it was, in mean squares over the rows.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from rflaf.errors import Array
from rflaf.functions.curves import ColumnCurves, Knots

from .curved_features import CurvedMap, compile_features
from .in_numpy import cells_of, slopes_of_cells
from .random_feature_model import RandomFeatureModel

_MOST_NUMBERS = 2**21  # of the slopes of a sample, which is cut to so many
_RIDGE = 1e-9  # of the mass of a node, for nodes that no row determines


@dataclass(frozen=True, slots=True)
class Simplification:
    """All nodes of a model's curves in the order in which they can go, the outer two of every column never.

    Attributes
    ----------
    model : the model with all nodes
    order : (n,), indices of nodes, the first to leave out first
    mass : (n_nodes,), rows around each node
    """

    model: RandomFeatureModel
    order: Array
    mass: Array

    def without(self, n_nodes: int) -> RandomFeatureModel:
        """Return the model without the first ``n_nodes`` nodes of the order."""
        curves = self.model.curves
        assert curves is not None
        kept = np.ones(curves.knots.nodes.size, bool)
        kept[self.order[:n_nodes]] = False
        parts = [slice(first, last) for first, last in pairwise(curves.knots.start)]
        values = [
            _nearest(curves.knots.nodes[part], kept[part], self.mass[part], curves.values[part]) for part in parts
        ]
        start = np.cumsum([0, *(np.count_nonzero(kept[part]) for part in parts)])
        knots = Knots(curves.knots.columns, start, curves.knots.nodes[kept])
        return replace(self.model, curves=ColumnCurves(knots, np.concatenate(values)))


def rank_nodes(model: RandomFeatureModel, X: Array, rng: np.random.Generator) -> Simplification:
    """Rank the nodes of a model with curves by what they matter at rows ``X`` (n_rows, n_features)."""
    curves = model.curves
    assert curves is not None
    most = max(64, _MOST_NUMBERS // (model.n_components * model.n_outputs))
    X = X[rng.permutation(len(X))[:most]].astype(np.float64)
    slopes = _slopes(model, X)
    mass = np.zeros(curves.knots.nodes.size)
    removals: list[tuple[float, int]] = []
    for curve, column in enumerate(curves.knots.columns):
        part = slice(curves.knots.start[curve], curves.knots.start[curve + 1])
        nodes = curves.knots.nodes[part]
        some = rng.integers(len(X), size=nodes.size)
        x = np.clip(np.concatenate([X[:, column], nodes]), nodes[0], nodes[-1])
        order = np.argsort(x, kind="stable")
        own = _Column(nodes, curves.values[part], x[order], np.concatenate([slopes, slopes[some]])[order])
        mass[part] = own.mass()
        removals += [(cost, int(part.start) + node) for cost, node in own.removals()]
    removals.sort()
    return Simplification(model, np.array([node for _, node in removals], np.intp), mass)


def _slopes(model: RandomFeatureModel, X: Array) -> Array:
    """Return the derivatives of f in u, (n_rows, n_components, n_outputs)."""
    pieces, a = model.activation.compile()
    compiled = compile_features(model.directions, model.curves, pieces, a, np.float64)
    assert isinstance(compiled, CurvedMap)
    of_cells = slopes_of_cells(cells_of(compiled, X), compiled.table[: compiled.width]) / pieces.step
    return np.asarray(of_cells[:, :, None] * (model.directions.importance[:, None] * model.v))


@dataclass(frozen=True, slots=True)
class _Column:
    """One curve: nodes (T,), values (T, S), and rows in order: x (n,), slopes of f (n, S, O)."""

    nodes: Array
    values: Array
    x: Array
    slopes: Array

    def mass(self) -> Array:
        """Return the number of rows around each node, shared between the two next to a row."""
        k = np.clip(np.searchsorted(self.nodes, self.x, side="right") - 1, 0, self.nodes.size - 2)
        f = (self.x - self.nodes[k]) / (self.nodes[k + 1] - self.nodes[k])
        size = self.nodes.size
        return np.asarray(np.bincount(k, 1 - f, size) + np.bincount(k + 1, f, size))

    def removals(self) -> list[tuple[float, int]]:
        """Return the inner nodes in the order of leaving, with the largest cost of a step so far."""
        last = self.nodes.size - 1
        exact = np.stack([np.interp(self.x, self.nodes, column) for column in self.values.T], axis=1)
        f = np.einsum("nso,ns->no", self.slopes, exact)
        begins = np.searchsorted(self.x, self.nodes)
        left, right = np.arange(-1, last), np.arange(1, last + 2)
        error = np.zeros(last + 1)  # of the gap that begins at a node

        def merged(node: int) -> float:
            a, b = int(left[node]), int(right[node])
            rows = slice(int(begins[a]), int(begins[b]))
            share = (self.x[rows] - self.nodes[a]) / (self.nodes[b] - self.nodes[a])
            ends = np.einsum("nso,es->noe", self.slopes[rows], self.values[[a, b]])
            line = ends[..., 0] * (1 - share)[:, None] + ends[..., 1] * share[:, None]
            return float(np.sum((f[rows] - line) ** 2))

        after = {node: merged(node) for node in range(1, last)}
        heap = [(after[node], node) for node in after]
        heapq.heapify(heap)
        order: list[tuple[float, int]] = []
        highest = 0.0
        while heap:
            cost, node = heapq.heappop(heap)
            if node not in after or cost != after[node] - error[left[node]] - error[node]:
                continue
            highest = max(highest, cost)
            order.append((highest, node))
            a, b = left[node], right[node]
            error[a] = after.pop(node)
            right[a], left[b] = b, a
            for beside in (int(a), int(b)):
                if 0 < beside < last:
                    after[beside] = merged(beside)
                    heapq.heappush(heap, (after[beside] - error[left[beside]] - error[beside], beside))
        return order


def _nearest(nodes: Array, kept: Array, mass: Array, values: Array) -> Array:
    """Return the values at the nodes kept of the curve nearest to ``values``, weighted by mass; the ends stay."""
    if kept.all():
        return values
    few = nodes[kept]
    k = np.clip(np.searchsorted(few, nodes, side="right") - 1, 0, few.size - 2)
    f = (nodes - few[k]) / (few[k + 1] - few[k])
    hats = np.zeros((nodes.size, few.size))
    rows = np.arange(nodes.size)
    hats[rows, k], hats[rows, k + 1] = 1 - f, f
    weight = np.maximum(mass, _RIDGE * max(float(mass.sum()), 1.0))[:, None]
    ends = np.zeros((few.size, values.shape[1]))
    ends[[0, -1]] = values[[0, -1]]
    inner = hats[:, 1:-1]
    if inner.shape[1]:
        right = inner.T @ (weight * (values - hats @ ends))
        ends[1:-1] = np.linalg.solve(inner.T @ (weight * inner), right)
    return ends
