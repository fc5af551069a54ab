"""One activation per component: a single convex problem on fixed directions.

    minimise over c, b   1/n sum_i w_i |y_i - b - sum_m q_m B(u_im)' c_m|^2 + ridge sum_m c_m' P c_m

with B(u) the n_basis functions at the projection u and P = (1 - rho) I + rho D'D, D the second differences: one
P-spline per component, all at once. In the coordinates theta_m = T^-1 c_m with T' P T = I the penalty is a plain ridge,
so the normal equations, their spectrum and leave-one-out errors are those of any other feature.

With one output sigma_m is c_m itself. With several, each component keeps one activation, the leading singular vector of
its coefficients over the outputs, and the output weights are solved again: from the same sums, without another pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from rflaf.errors import Array
from rflaf.functions._kernels import features as _kernels
from rflaf.functions._kernels import pairs as _pair_kernels
from rflaf.functions.bases import Basis, Pieces
from rflaf.functions.densities import Directions
from rflaf.model.features import FeatureMap, RowFeatures, compile_map, complete_design
from rflaf.model.normal_equations import NormalEquations
from rflaf.model.ridge import RidgeSolution
from rflaf.rows.blocks import Block, BlockSource, Scratch
from rflaf.rows.executors import Executor

_ROUGHNESS = 0.99  # rho, the share of the penalty that second differences take


@dataclass(frozen=True, slots=True)
class ExpandedMap(RowFeatures):
    """The basis functions of every component's projection, in the coordinates theta: n_components * n_basis features.

    Attributes
    ----------
    to_cells : projections in cell coordinates
    pieces : the basis as cubics; T : (n_basis, n_basis), the change of coordinates
    """

    to_cells: FeatureMap
    pieces: Pieces
    T: Array

    @property
    def n_components(self) -> int:
        return self.to_cells.n_components * int(self.T.shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.to_cells.dtype

    def features(self, X: Any, out: Array) -> Array:
        """T' B(u_m) for every component m, one below the other: into ``out`` (n_components * n_basis, n_rows)."""
        n_basis, n_rows = self.T.shape[0], out.shape[1]
        u = self.to_cells.cells(X, np.empty((self.to_cells.n_components, n_rows), self.dtype))
        values = np.empty((u.shape[0], n_basis, n_rows), self.dtype)
        first, last = self.pieces.alive()
        _kernels.expand(u, self.pieces.coefficients.astype(self.dtype), first, last, values)
        np.matmul(self.T.T.astype(self.dtype), values, out=out.reshape(values.shape))
        return out

    def sum_equations(self, source: BlockSource, executor: Executor) -> NormalEquations:
        """Sum the normal equations in one pass: by pairs of components where few functions are nonzero."""
        local = self.pieces.local()
        if local is None:
            return RowFeatures.sum_equations(self, source, executor)
        cubics = local.astype(self.dtype)

        def sum_block(block: Block, scratch: Scratch) -> PairSums:
            u = scratch.array("u", (self.to_cells.n_components, block.n_rows), self.dtype)
            return self._sum_pairs(self.to_cells.cells(block.X, u), cubics, block)

        return executor.reduce(source, sum_block, "sum the normal equations").equations(self.T)

    def _sum_pairs(self, u: Array, cubics: Array, block: Block) -> PairSums:
        """The sums of a block whose cell coordinates are ``u`` (n_components, n_rows)."""
        (size, n_rows), n_basis, n_outputs = u.shape, self.T.shape[0], block.y.shape[1]
        pairs, cross = np.empty((size * (size + 1) // 2, n_basis, n_basis)), np.empty((size, n_basis, 1 + n_outputs))
        weight = np.ones(n_rows, self.dtype) if block.weight is None else block.weight.astype(self.dtype, copy=False)
        others = complete_design(np.empty((1 + n_outputs, n_rows), self.dtype), block.y, None)
        _pair_kernels.multiply_pairs(u, weight, others, cubics, pairs, cross)
        if block.weight is not None:
            others *= np.sqrt(weight)
        return PairSums(pairs, cross, NormalEquations.from_design(others, n_outputs, block.weight))


@dataclass(slots=True)
class PairSums:
    """Sums over rows of products of basis functions, by pairs of components.

    Attributes
    ----------
    pairs : (n_pairs, n_basis, n_basis), of components m <= n: (0, 0), (0, 1), (1, 1), (0, 2), ...
    cross : (n_components, n_basis, 1 + n_outputs), with one and y
    rest : equations of no features, the moments of [1 | y]
    """

    pairs: Array
    cross: Array
    rest: NormalEquations

    def __iadd__(self, more: PairSums) -> Self:
        self.pairs += more.pairs
        self.cross += more.cross
        self.rest += more.rest
        return self

    def equations(self, T: Array) -> NormalEquations:
        """The normal equations in coordinates ``T`` (n_basis, n_basis)."""
        n_components, n_basis, n_others = self.cross.shape
        n = n_components * n_basis
        moments = np.empty((n + n_others, n + n_others))
        for last in range(n_components):
            own, before = slice(last * n_basis, (last + 1) * n_basis), slice(0, (last + 1) * n_basis)
            turned = T.T @ self.pairs[last * (last + 1) // 2 : (last + 1) * (last + 2) // 2] @ T
            turned[last] = (turned[last] + turned[last].T) / 2
            moments[before, own] = turned.reshape(-1, n_basis)
            moments[own, before] = moments[before, own].T
        moments[:n, n:] = (T.T @ self.cross).reshape(n, n_others)
        moments[n:, :n] = moments[:n, n:].T
        moments[n:, n:] = self.rest.moments
        return replace(self.rest, moments=moments)


@dataclass(frozen=True, slots=True)
class ComponentActivations:
    """Activations ``a`` (n_components, n_basis), ``v`` (n_components, n_outputs), and equations of the last layer."""

    a: Array
    v: Array
    intercept: Array
    equations: NormalEquations
    objective: float


def expand(directions: Directions, basis: Basis, dtype: Any) -> ExpandedMap:
    """The expanded features of ``directions`` in ``basis``."""
    pieces = basis.pieces()
    to_cells = compile_map(directions, pieces, np.zeros((1, basis.n_basis)), dtype)
    return ExpandedMap(to_cells, pieces, smoothing_coordinates(basis))


def smoothing_coordinates(basis: Basis) -> Array:
    """T with T' P T = I, for the penalty P = (1 - rho) I + rho (roughness penalty of the basis).

    >>> from rflaf.functions.bases import BSplineBasis
    >>> T, basis = smoothing_coordinates(BSplineBasis(6)), BSplineBasis(6)
    >>> P = 0.01 * np.eye(6) + 0.99 * basis.penalty()
    >>> bool(np.allclose(T.T @ P @ T, np.eye(6)))
    True
    """
    penalty = (1 - _ROUGHNESS) * np.eye(basis.n_basis) + _ROUGHNESS * basis.penalty()
    return np.asarray(np.linalg.inv(np.linalg.cholesky(penalty)).T)


def solve_per_component(
    equations: NormalEquations, convex: RidgeSolution, T: Array, intercept: bool
) -> ComponentActivations:
    """Return unit activations and output weights from the expanded solution; several outputs are solved again."""
    theta = convex.v.reshape(-1, T.shape[0], equations.n_outputs)
    shapes = leading_shapes(theta)
    combined = combine(equations, shapes)
    if equations.n_outputs == 1:
        v, solution = np.einsum("mi,mio->mo", shapes, theta), convex
    else:
        solution = combined.system(intercept).solve(convex.ridge)
        v = solution.v
    return ComponentActivations(shapes @ T.T, v, solution.intercept, combined, solution.objective)


def leading_shapes(theta: Array) -> Array:
    """Unit vectors (n_components, n_basis) nearest to all columns of each theta (n_components, n_basis, n_outputs)."""
    left, _, _ = np.linalg.svd(theta, full_matrices=False)
    leading = left[:, :, 0]
    largest = np.take_along_axis(leading, np.argmax(np.abs(leading), axis=1)[:, None], axis=1)
    return np.asarray(leading * np.where(largest < 0, -1.0, 1.0))  # fixes the sign


def combine(equations: NormalEquations, shapes: Array) -> NormalEquations:
    """Return the equations of one feature per component, shapes[m] . theta-features of m."""

    def mixed(rows: Array) -> Array:
        own = rows[: shapes.size].reshape(*shapes.shape, -1)
        return np.vstack([np.einsum("mi,mir->mr", shapes, own), rows[shapes.size :]])

    return replace(equations, moments=mixed(np.ascontiguousarray(mixed(equations.moments).T)))
