"""The objective J(a) of a shared activation and its derivatives, on rows whose projections are kept in memory.

    J(a) = min over v, b   1/n sum_i w_i loss(b + sum_m q_m v_m sigma_a(u_im), y_i) + ridge |v|^2

Under the squared loss the minimum over v and b is a ridge with a closed form; by the envelope theorem the gradient of J
is -2/n H(v)' r, with H(v)[i, k] = sum_m q_m v_m B_k(u_im) and r the residuals. Under any other loss the minimum
is that of `rflaf.training.solvers.convex_loss` and the gradient is 1/n H(v)' l', with l' the slopes of the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rflaf.errors import Array
from rflaf.functions._kernels import features as _kernels
from rflaf.functions.bases import Pieces
from rflaf.functions.densities import Directions
from rflaf.functions.losses import Loss
from rflaf.model.features import compile_map, complete_design
from rflaf.model.normal_equations import NormalEquations
from rflaf.model.ridge import RidgeSolution, RidgeSystem
from rflaf.rows.blocks import Block, BlockSource, Scratch
from rflaf.rows.executors import Executor

from .convex_loss import Risk, minimise_risk, tolerance

_INNER_TOLERANCE, _INNER_STEPS = 1e-3, 500  # of the risk over v, under other losses


@dataclass(frozen=True, slots=True)
class ProjectedBlock:
    """Rows of the sample: cell coordinates (n_components, n_rows), targets, weights and room for the design."""

    u: Array
    y: Array
    weight: Array | None
    design: Array


@dataclass(frozen=True, slots=True)
class SharedProblem:
    """J(a) and its derivatives on rows whose projections are kept in memory."""

    blocks: Sequence[ProjectedBlock]
    pieces: Pieces
    importance: Array
    n_draws: int
    intercept: bool
    executor: Executor

    @classmethod
    def from_source(
        cls,
        source: BlockSource,
        directions: Directions,
        pieces: Pieces,
        intercept: bool,
        executor: Executor,
        dtype: Any = None,
    ) -> SharedProblem:
        """``dtype`` is what the projections are kept in, that of the rows unless given."""
        n_components, n_basis = directions.n_components, pieces.coefficients.shape[1]
        to_cells = compile_map(directions, pieces, np.zeros((1, n_basis)), source.dtype)
        dtype = source.dtype if dtype is None else dtype

        def project(index: int) -> ProjectedBlock:
            block = source[index]
            u = to_cells.cells(block.X, np.empty((n_components, block.n_rows), source.dtype))
            design = np.empty((n_components + 1 + source.n_outputs, block.n_rows), dtype)
            weight = None if block.weight is None else block.weight.astype(dtype, copy=False)
            return ProjectedBlock(u.astype(dtype, copy=False), block.y.astype(dtype, copy=False), weight, design)

        blocks = executor.map(range(len(source)), project, "project the rows")
        return cls(blocks, pieces, directions.importance, directions.n_draws, intercept, executor)

    def equations(self, a: Array) -> NormalEquations:
        """Normal equations of the features under the activation ``a``; fills the designs of the blocks."""
        n_components = self.importance.shape[0]
        table = self.pieces.table(a)

        def activate_and_sum(block: ProjectedBlock, scratch: Scratch) -> NormalEquations:
            _kernels.activate(block.u, table.astype(block.u.dtype), block.design[:n_components])
            design = complete_design(block.design, block.y, block.weight)
            return NormalEquations.from_design(design, block.y.shape[1], block.weight)

        return self.executor.reduce(self.blocks, activate_and_sum, "sum the normal equations").scale(self.importance)

    def gradient(self, solution: RidgeSolution, weight: float) -> Array:
        """-2/n H(v)' r at the activation whose designs the blocks hold, for its ridge solution."""
        v = self.importance[:, None] * solution.v
        to_residual = np.vstack([-v, -solution.intercept, np.eye(v.shape[1])]).T

        def scatter_residual(block: ProjectedBlock, scratch: Scratch) -> Array:
            residual = to_residual.astype(block.u.dtype) @ block.design
            if block.weight is not None:
                residual *= np.sqrt(block.weight)
            moments = np.zeros((1, self.pieces.n_cells, 4))
            _kernels.scatter(block.u, v.astype(block.u.dtype), residual, moments)
            return moments

        moments = self.executor.reduce(self.blocks, scatter_residual, "sum the gradient of the activation")
        return -2 / weight * self.pieces.table_transposed(moments)[0]

    def evaluate(self, a: Array, ridge: float) -> tuple[float, Array]:
        """J(a) and its gradient (n_basis,)."""
        equations = self.equations(a)
        solution = equations.system(self.intercept).solve(ridge)
        return solution.objective, self.gradient(solution, equations.weight)

    def covariance(self, a: Array, ridge: float) -> Array:
        """Covariance of the coefficients by Gauss and Newton, v having adapted to them; on the sphere.

        noise / n (sum over outputs of H' (I - P) H)^+, with P the projection onto features and intercept.
        """
        equations = self.equations(a)
        system = equations.system(self.intercept)
        solution = system.solve(ridge)
        HH, HA = np.split(self._curvature(solution), [a.size], axis=2)
        information = sum(
            _projected_information(HH[o], HA[o], self.importance, equations, system, solution)
            for o in range(solution.v.shape[1])
        )
        tangent = np.eye(a.size) - np.outer(a, a) / (a @ a)
        spent = min((solution.factor.degrees_of_freedom + 1) / system.count, 0.95)
        noise = float(solution.mean_residual.mean()) / (1 - spent)
        return noise / system.count * np.linalg.pinv(tangent @ information @ tangent, rcond=1e-6, hermitian=True)

    def _curvature(self, solution: RidgeSolution) -> Array:
        """H' [H | z | 1 | y] summed over rows, one matrix per output."""
        v = self.importance[:, None] * solution.v
        first, last = self.pieces.alive()
        n_basis = self.pieces.coefficients.shape[1]

        def sum_curvature(block: ProjectedBlock, scratch: Scratch) -> Array:
            H = scratch.array("H", (v.shape[1], n_basis, block.u.shape[1]), block.u.dtype)
            H[...] = 0
            pieces = self.pieces.coefficients.astype(block.u.dtype)
            for o in range(v.shape[1]):
                _kernels.contract(block.u, v[:, o].astype(block.u.dtype), pieces, first, last, H[o])
            if block.weight is not None:
                H *= np.sqrt(block.weight)
            return np.concatenate([H @ H.transpose(0, 2, 1), H @ block.design.T], axis=2).astype(float)

        return self.executor.reduce(self.blocks, sum_curvature, "measure the curvature of the activation")


@dataclass
class SharedRisk:
    """J(a) under any loss and its gradient, on rows whose projections are kept in memory."""

    problem: SharedProblem
    loss: Loss
    base: Array
    ridge: float
    _last: tuple[Array, Array] | None = field(default=None, init=False)

    def evaluate(self, a: Array) -> tuple[float, Array]:
        """J(a) and its gradient (n_basis,)."""
        problem, executor = self.problem, self.problem.executor
        table, weighted = problem.pieces.table(a), bool((problem.importance != 1).any())

        def features(index: int) -> Block:
            block = problem.blocks[index]
            z = np.empty_like(block.u)
            _kernels.activate(block.u, table.astype(z.dtype), z)
            if weighted:
                z *= problem.importance[:, None].astype(z.dtype)
            return Block(z, block.y, block.weight)

        kept = executor.map(range(len(problem.blocks)), features, "compute the features")
        risk = Risk.of_blocks(kept, self.loss, problem.intercept, executor)
        inner = tolerance(risk, _INNER_TOLERANCE)
        solution = minimise_risk(risk, self.ridge, self.base, inner, _INNER_STEPS, self._last)
        self._last = solution.v, solution.intercept
        return solution.objective, self._gradient(kept, solution.v, solution.intercept, risk.weight)

    def _gradient(self, kept: Sequence[Block], V: Array, b: Array, weight: float) -> Array:
        problem = self.problem
        v = problem.importance[:, None] * V

        def scatter_slopes(index: int, scratch: Scratch) -> Array:
            block, u = kept[index], problem.blocks[index].u
            slope = self.loss.slope((block.X.T @ V.astype(u.dtype)).astype(np.float64) + b, block.y).T
            if block.weight is not None:
                slope = slope * block.weight
            moments = np.zeros((1, problem.pieces.n_cells, 4))
            _kernels.scatter(u, v.astype(u.dtype), np.ascontiguousarray(slope, u.dtype), moments)
            return moments

        moments = problem.executor.reduce(range(len(kept)), scatter_slopes, "sum the gradient of the activation")
        return problem.pieces.table_transposed(moments)[0] / weight


def _projected_information(
    HH: Array, HA: Array, importance: Array, equations: NormalEquations, system: RidgeSystem, solution: RidgeSolution
) -> Array:
    """H' (I - P) H / n for one output, P the ridge projection onto the features, centred as the system is."""
    m = equations.n_components
    h_mean = HA[:, m] / equations.weight * system.n_intercepts
    HZ = HA[:, :m] * importance / equations.weight - np.outer(h_mean, system.z_mean)
    return HH / equations.weight - np.outer(h_mean, h_mean) - HZ @ solution.factor.solve(HZ.T)
