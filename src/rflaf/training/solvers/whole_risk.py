"""J(a) of a shared activation under any loss, on all rows and all components, by passes over the rows.

    J(a) = min over v, b   1/n sum_i w_i loss(b + sum_m q_m v_m sigma_a(u_im), y_i) + ridge |v|^2

The minimum over v and b is that of `rflaf.training.solvers.convex_loss`, started from the one before and whitened by
the curvature at the first. The gradient is 1/n sum_i w_i H(v)_i' l'_i, with l' the slopes of the loss.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from rflaf.errors import Array
from rflaf.functions._kernels import curvature as _curvature
from rflaf.functions._kernels import features as _kernels
from rflaf.functions.bases import Pieces
from rflaf.functions.densities import Directions
from rflaf.functions.losses import Loss
from rflaf.model.features import FeatureMap, compile_map
from rflaf.rows.blocks import Block, BlockSource, Scratch
from rflaf.rows.executors import Executor

from .convex_loss import MadeRows, Risk, RiskSolution, minimise_risk
from .convex_loss.objective import Whitening
from .whole_problem import projected

_INNER = 1e-10  # of the gradient over v at the constant answer
_LEAST_CURVATURE = 1e-6  # of the largest: a flatter direction counts as that


@dataclass
class WholeRisk:
    """J(a) and its gradient for a given ridge; ``solution`` is the one at the last activation."""

    source: BlockSource
    directions: Directions
    pieces: Pieces
    loss: Loss
    base: Array
    ridge: float
    intercept: bool
    executor: Executor
    memory: int | None
    max_iter: int
    solution: RiskSolution | None = field(default=None, init=False)
    _whitening: Whitening | None = field(default=None, init=False)
    _first: Risk | None = field(default=None, init=False)

    def evaluate(self, a: Array) -> tuple[float, Array]:
        """J(a) and its gradient (n_basis,)."""
        solution = self.solve(a)
        return solution.objective, self._gradient(a, solution)

    def solve(self, a: Array) -> RiskSolution:
        """Minimise over v and b at the activation ``a``."""
        risk, last = self._risk(a), self.solution
        start = None if last is None else (last.v, last.intercept)
        solution = minimise_risk(risk, self.ridge, self.base, _INNER, self.max_iter, start, self._whitening)
        if self._whitening is None:
            self._first, self._whitening = risk, risk.whiten_at(solution.v, solution.intercept, self.ridge)
        self.solution = solution
        return solution

    def _risk(self, a: Array) -> Risk:
        """The risk over v and b; only the first sums the products of the features."""
        made = MadeRows(self.source, self._compiled(a), self.directions.importance)
        if self._first is None:
            return Risk.of_rows(made, self.loss, self.intercept, self.executor, self.memory)
        return replace(self._first, rows=made)

    def _compiled(self, a: Array) -> FeatureMap:
        return compile_map(self.directions, self.pieces, a[None], self.source.dtype)

    def _gradient(self, a: Array, solution: RiskSolution) -> Array:
        features, v = self._compiled(a), self._weights(solution)
        loss, intercept, n_cells, weight = self.loss, solution.intercept, self.pieces.n_cells, self._weight

        def scatter_slopes(block: Block, scratch: Scratch) -> Array:
            u, z = projected(features, block, scratch)
            slope = loss.slope((z.T @ v).astype(np.float64) + intercept, block.y)
            slope = slope if block.weight is None else slope * block.weight[:, None]
            sums = np.zeros((1, n_cells, 4))
            _kernels.scatter(u, v, np.ascontiguousarray(slope.T, z.dtype), sums)
            return sums

        sums = self.executor.reduce(self.source, scatter_slopes, "sum the gradient of the activation")
        return self.pieces.table_transposed(sums)[0] / weight

    def metric(self, a: Array) -> Array:
        """M (n_basis, n_basis) with M' Hessian M near the identity: the coordinates in which J is round near ``a``."""
        solution = self.solve(a)
        assert self._whitening is not None  # `solve` sets it
        features, v = self._compiled(a), self._weights(solution)
        loss, intercept = self.loss, solution.intercept
        cubics = np.ascontiguousarray(self.pieces.coefficients.transpose(0, 2, 1), self.source.dtype)

        def sum_curvature(block: Block, scratch: Scratch) -> Array:
            u, z = projected(features, block, scratch)
            curved = loss.curvature((z.T @ v).astype(np.float64) + intercept, block.y)
            curved = curved if block.weight is None else curved * block.weight[:, None]
            H = np.zeros((v.shape[1], block.n_rows, cubics.shape[2]), z.dtype)
            C = np.zeros((v.shape[1], u.shape[0], cubics.shape[2]))
            _curvature.contract_and_scatter(u, v, np.zeros((v.shape[1], block.n_rows), z.dtype), cubics, H, C)
            weighted = H * curved.T[:, :, None].astype(z.dtype)
            right = np.concatenate([H, np.broadcast_to(z.T, (v.shape[1], *z.T.shape)), np.ones((*H.shape[:2], 1))], 2)
            return np.asarray(weighted.transpose(0, 2, 1) @ right, np.float64)

        sums = (
            self.executor.reduce(self.source, sum_curvature, "measure the curvature of the activation") / self._weight
        )
        return _round_coordinates(self._reduced(sums, a.size))

    def _reduced(self, sums: Array, n_basis: int) -> Array:
        """The curvature in ``a`` after v and b have adapted, summed over outputs."""
        assert self._whitening is not None
        curvature, factor = self._whitening
        total = np.zeros((n_basis, n_basis))
        for HH, HZ, ones in zip(*np.split(sums, [n_basis, sums.shape[2] - 1], axis=2), strict=True):
            mean = ones[:, 0] * self.intercept / curvature
            cross = HZ * self.directions.importance - curvature * np.outer(mean, factor.system.z_mean)
            total += HH - curvature * np.outer(mean, mean) - cross @ factor.solve(cross.T) / curvature
        return total

    def _weights(self, solution: RiskSolution) -> Array:
        """Output weights times importance, in the precision of the rows."""
        return (self.directions.importance[:, None] * solution.v).astype(self.source.dtype)

    @property
    def _weight(self) -> float:
        assert self._first is not None  # `solve` sets it
        return self._first.weight


def _round_coordinates(curved: Array) -> Array:
    """M symmetric with M' A M = I for the curvature A, its small eigenvalues raised."""
    values, vectors = np.linalg.eigh((curved + curved.T) / 2)
    largest = float(values.max(initial=0.0))
    raised = np.maximum(values, _LEAST_CURVATURE * largest) if largest > 0 else np.ones_like(values)
    return np.asarray(vectors / np.sqrt(raised / raised.max()) @ vectors.T)
