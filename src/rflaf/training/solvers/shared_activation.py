"""Shared activations: the bilinear problem in (a, v), solved by variable projection on the sphere.

    J(a) = min over v, b   1/n sum_i w_i |y_i - b - sum_m q_m v_m sigma_a(u_im)|^2 + ridge |v|^2,     |a| = R

Paper, problem (mzer) and line 2 of Algorithm 1. For a fixed activation the problem is a ridge with a closed
form; by the envelope theorem the gradient of J is -2/n H(v)' r, with H(v)[i, k] = sum_m q_m v_m B_k(u_im). The few
unknowns that are left are found by L-BFGS on the sphere, which never lets J rise. J has local minima, so several
shapes are tried for a few steps on part of the data and the best is carried on.

Under another loss J(a) is the regularised risk of `rflaf.training.solvers.convex_loss`, minimised over v and b for
every a, and its gradient is
1/n H(v)' l' with l' the slopes of the loss. The search starts where that for the squared loss of the slopes of the
constant answer ended (`rflaf.training.algorithm1`), and every solution over v starts from the one before.

The constraint |a| <= R of the paper holds with equality at any minimum: a longer a allows a shorter v. The balancing
penalty of line 2, lambda_0 (|a|^2 - |v|^2)^2, only picks one of the equal products (c a, v / c), as the sphere does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from rflaf.errors import Array, StopReason
from rflaf.functions._kernels import features as _kernels
from rflaf.functions.bases import Basis, Pieces, fit_function
from rflaf.functions.densities import Directions
from rflaf.functions.losses import Loss
from rflaf.model.features import compile_map, complete_design
from rflaf.model.normal_equations import NormalEquations, RidgeSolution, RidgeSystem
from rflaf.rows.blocks import MOST_ROWS, Block, BlockSource, Scratch
from rflaf.rows.executors import Executor, ThreadExecutor

from .convex_loss import Risk, hides_rounding, minimise_risk, tolerance

STARTS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "sine": lambda z: np.sin(2 * z + 0.7),
    "ramp": lambda z: np.maximum(z, 0),
    "bump": lambda z: np.exp(-(z**2)),
}
_LOWER_RIDGE = 0.2  # a ridge this much lower under the learned activation is worth another descent
_MOST_DESCENTS = 4
_POLISH_BLOCK = 8192  # rows, as there are few components
_INNER_TOLERANCE, _INNER_STEPS = 1e-3, 500  # of the risk over v, under other losses


_STOP_REASONS = {0: StopReason.CONVERGED, 1: StopReason.ITERATIONS, 99: StopReason.CONVERGED}  # of L-BFGS-B


@dataclass(frozen=True, slots=True)
class Search:
    """How far to search: rows and components to learn from, steps, and the fall of the objective that ends it."""

    n_rows: int = 6000
    polish_rows: int = 20_000
    polish_components: int = 64
    n_components: int = 256
    start_rows: int = 1500
    start_components: int = 100
    start_steps: int = 8
    max_iter: int = 500
    tol: float = 1e-4


@dataclass(frozen=True, slots=True)
class SharedActivation:
    """A learned shared activation.

    Attributes
    ----------
    a : (n_basis,), scaled so that the activation has mean square one over the rows and components seen
    covariance : (n_basis, n_basis) of ``a`` around the minimum, the directions given
    trace : the objective at the start and after every step; it never rises
    start : name of the shape it grew from
    alpha : the ridge for one component that the squared loss was searched with
    """

    a: Array
    covariance: Array
    trace: Array
    stop_reason: StopReason
    start: str
    alpha: float = 0.0


@dataclass(frozen=True, slots=True)
class ProjectedBlock:
    """Rows of the sample: cell coordinates (n_components, n_rows), targets, weights and room for the design."""

    u: Array
    y: Array
    weight: Array | None
    design: Array


@dataclass(slots=True)
class Curvature:
    """Sums over rows, one matrix an output: H' H and H' [z | 1 | y]."""

    HH: Array
    HA: Array

    def __iadd__(self, other: Curvature) -> Curvature:
        self.HH += other.HH
        self.HA += other.HA
        return self


@dataclass(frozen=True, slots=True)
class SharedProblem:
    """J(a) and its derivatives on rows whose projections are kept in memory."""

    blocks: Sequence[ProjectedBlock]
    pieces: Pieces
    importance: Array
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

        blocks = executor.map(range(len(source)), project)
        return cls(blocks, pieces, directions.importance, intercept, executor)

    def equations(self, a: Array) -> NormalEquations:
        """Normal equations of the features under the activation ``a``; fills the designs of the blocks."""
        n_components = self.importance.shape[0]
        table = self.pieces.table(a)

        def one(block: ProjectedBlock, scratch: Scratch) -> NormalEquations:
            _kernels.activate(block.u, table.astype(block.u.dtype), block.design[:n_components])
            design = complete_design(block.design, block.y, block.weight)
            return NormalEquations.from_design(design, block.y.shape[1], block.weight)

        return self.executor.reduce(self.blocks, one).scale(self.importance)

    def gradient(self, solution: RidgeSolution, weight: float) -> Array:
        """-2/n H(v)' r at the activation whose designs the blocks hold, for its ridge solution."""
        v = self.importance[:, None] * solution.v
        to_residual = np.vstack([-v, -solution.intercept, np.eye(v.shape[1])]).T

        def one(block: ProjectedBlock, scratch: Scratch) -> Array:
            residual = to_residual.astype(block.u.dtype) @ block.design
            if block.weight is not None:
                residual *= np.sqrt(block.weight)
            moments = np.zeros((1, self.pieces.n_cells, 4))
            _kernels.scatter(block.u, v.astype(block.u.dtype), residual, moments)
            return moments

        moments = self.executor.reduce(self.blocks, one)
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
        curvature = self._curvature(solution)
        information = sum(
            _projected_information(curvature.HH[o], curvature.HA[o], self.importance, equations, system, solution)
            for o in range(solution.v.shape[1])
        )
        tangent = np.eye(a.size) - np.outer(a, a) / (a @ a)
        spent = min((solution.factor.degrees_of_freedom + 1) / system.count, 0.95)
        noise = float(solution.mean_residual.mean()) / (1 - spent)
        return noise / system.count * np.linalg.pinv(tangent @ information @ tangent, rcond=1e-6, hermitian=True)

    def _curvature(self, solution: RidgeSolution) -> Curvature:
        v = self.importance[:, None] * solution.v
        first, last = self.pieces.alive()
        n_basis = self.pieces.coefficients.shape[1]

        def one(block: ProjectedBlock, scratch: Scratch) -> Curvature:
            H = scratch.array("H", (v.shape[1], n_basis, block.u.shape[1]), block.u.dtype)
            H[...] = 0
            pieces = self.pieces.coefficients.astype(block.u.dtype)
            for o in range(v.shape[1]):
                _kernels.contract(block.u, v[:, o].astype(block.u.dtype), pieces, first, last, H[o])
            if block.weight is not None:
                H *= np.sqrt(block.weight)
            return Curvature((H @ H.transpose(0, 2, 1)).astype(float), (H @ block.design.T).astype(float))

        return self.executor.reduce(self.blocks, one)


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

        kept = executor.map(range(len(problem.blocks)), features)
        risk = Risk.of_blocks(kept, self.loss, problem.intercept, executor)
        inner = tolerance(risk, _INNER_TOLERANCE)
        solution = minimise_risk(risk, self.ridge, self.base, inner, _INNER_STEPS, self._last)
        self._last = solution.v, solution.intercept
        return solution.objective, self._gradient(kept, solution.v, solution.intercept, risk.weight)

    def _gradient(self, kept: Sequence[Block], V: Array, b: Array, weight: float) -> Array:
        problem = self.problem
        v = problem.importance[:, None] * V

        def one(index: int, scratch: Scratch) -> Array:
            block, u = kept[index], problem.blocks[index].u
            slope = self.loss.slope((block.X.T @ V.astype(u.dtype)).astype(np.float64) + b, block.y).T
            if block.weight is not None:
                slope = slope * block.weight
            moments = np.zeros((1, problem.pieces.n_cells, 4))
            _kernels.scatter(u, v.astype(u.dtype), np.ascontiguousarray(slope, u.dtype), moments)
            return moments

        moments = problem.executor.reduce(range(len(kept)), one)
        return problem.pieces.table_transposed(moments)[0] / weight


def search_dtype(source: BlockSource, loss: Loss) -> np.dtype[Any]:
    """The precision in which an activation is searched for under a loss."""
    return np.dtype(np.float32) if hides_rounding(source.n_samples, loss) else source.dtype


def polish_shared_activation(
    source: BlockSource,
    directions: Directions,
    basis: Basis,
    activation: SharedActivation,
    loss: Loss,
    base: Array,
    alpha: float,
    intercept: bool,
    search: Search,
    rng: np.random.Generator,
    executor: Executor,
) -> SharedActivation:
    """An activation learned by the squared loss, carried on under ``loss``; ``base`` is the best constant answer.

    On a sample of rows and components, as in `learn_shared_activation`. ``alpha`` is the ridge for one component.
    """
    few = _first(directions, search.polish_components)
    sample = _evenly(source.sample(search.polish_rows, rng), _POLISH_BLOCK)
    dtype = search_dtype(source, loss)
    problem = SharedProblem.from_source(sample, few, basis.pieces(), intercept, executor, dtype)
    risk = SharedRisk(problem, loss, base, max(alpha, np.finfo(float).tiny) * few.n_components)
    first, _ = risk.evaluate(activation.a)
    floor = np.finfo(float).eps * first
    if not floor > 0:
        return replace(activation, stop_reason=StopReason.NOTHING_TO_LEARN)

    def objective(a: Array) -> tuple[float, Array]:
        value, slope = risk.evaluate(a)
        return max(value, floor), slope

    a, trace, reason = minimise_on_sphere(objective, activation.a, search.max_iter, search.tol)
    square = problem.equations(a).mean_square
    factor = square**-0.5 if square > 0 else 1.0
    covariance = activation.covariance * factor**2
    return replace(activation, a=a * factor, covariance=covariance, trace=np.array(trace), stop_reason=reason)


def learn_shared_activation(
    source: BlockSource,
    directions: Directions,
    basis: Basis,
    alpha: float | None,
    intercept: bool,
    search: Search,
    rng: np.random.Generator,
    executor: Executor,
    start: Array | None = None,
    dtype: Any = None,
) -> SharedActivation:
    """Learn one activation for all components from a sample of rows and, where there are many, of components.

    ``alpha`` is the ridge for one component, None to choose it by generalised cross-validation. The search begins at
    ``start`` (n_basis,) if given, else at the best of a few shapes after a few steps on a smaller sample. Projections
    are kept in ``dtype``, that of the rows unless given.
    """
    pieces = basis.pieces()
    sample = _evenly(source.sample(search.n_rows, rng), MOST_ROWS)  # a search amplifies what blocks do to last bits
    small = sample.sample(search.start_rows, rng)
    few = _first(directions, search.start_components)
    if start is None:
        name, a = _best_start(small, few, basis, alpha, intercept, search, executor, dtype)
    else:
        name, a = "given", start
    most = _first(directions, search.n_components)
    problem = SharedProblem.from_source(sample, most, pieces, intercept, executor, dtype)
    here = _appraise(problem, a, alpha)
    trace: list[float] = []
    for _ in range(_MOST_DESCENTS):
        a, steps, reason = _descend(problem, here, search.max_iter, search.tol)
        trace += steps
        there = _appraise(problem, a, alpha)
        same_penalty = here.ridge * (there.a @ there.a) / (a @ a)
        here = there
        if here.ridge > _LOWER_RIDGE * same_penalty:
            break
    part = SharedProblem.from_source(small, few, pieces, intercept, executor)
    covariance = part.covariance(here.a, here.ridge * few.n_components / problem.importance.size)
    return SharedActivation(
        here.a,
        covariance * small.n_samples / sample.n_samples,
        np.array(trace),
        reason,
        name,
        here.ridge / problem.importance.size,
    )


def minimise_on_sphere(
    objective: Callable[[Array], tuple[float, Array]], start: Array, max_iter: int, tol: float
) -> tuple[Array, list[float], StopReason]:
    """L-BFGS over |a| = |start|: the minimiser, the objective at the start and after every step, why it ended.

    The logarithm of the objective is what descends, so that ``tol`` is a relative fall at any scale.
    """
    radius = float(np.linalg.norm(start))
    seen: dict[bytes, float] = {}
    trace: list[float] = []

    def on_sphere(x: Array) -> tuple[float, Array]:
        length = float(np.linalg.norm(x))
        a = x * (radius / length)
        value, slope = objective(a)
        seen[x.tobytes()] = value
        trace.extend([value] if not trace else [])
        tangent = (slope - a * (slope @ a) / radius**2) * (radius / length)
        return float(np.log(value)), tangent / value

    def record(x: Array) -> None:
        trace.append(seen[x.tobytes()])
        if trace[-2] - trace[-1] <= tol * trace[-2]:
            raise StopIteration

    answer = minimize(
        on_sphere, start, jac=True, method="L-BFGS-B", callback=record,
        options={"maxiter": max_iter, "ftol": 0.0, "gtol": 1e-12, "maxcor": 12},
    )  # fmt: skip
    reason = _STOP_REASONS.get(answer.status, StopReason.ROUNDING)
    return answer.x * (radius / np.linalg.norm(answer.x)), trace, reason


@dataclass(frozen=True, slots=True)
class _Appraisal:
    """An activation scaled to mean square one, its ridge, and the objective there against that of no model at all."""

    a: Array
    ridge: float
    objective: float
    y_square: float


def _appraise(problem: SharedProblem, a: Array, alpha: float | None) -> _Appraisal:
    """The ridge is the one given, or that of the lowest generalised cross-validation."""
    equations = problem.equations(a)
    rounding = 8 * np.finfo(float).eps * float(np.abs(a).max())
    factor = equations.mean_square**-0.5 if equations.mean_square > rounding**2 else 1.0
    system = equations.scale(np.full(equations.n_components, factor)).system(problem.intercept)
    ridge = system.spectrum.best_ridge() if alpha is None else alpha * equations.n_components
    return _Appraisal(a * factor, ridge, system.solve(ridge).objective, float(system.y_square.sum()))


def _descend(
    problem: SharedProblem, start: _Appraisal, max_iter: int, tol: float
) -> tuple[Array, list[float], StopReason]:
    if not start.y_square - start.objective > 1e-12 * start.y_square:
        return start.a, [start.objective], StopReason.NOTHING_TO_LEARN
    floor = np.finfo(float).eps * start.y_square

    def objective(a: Array) -> tuple[float, Array]:
        value, slope = problem.evaluate(a, start.ridge)
        return max(value, floor), slope

    return minimise_on_sphere(objective, start.a, max_iter, tol)


def _best_start(
    sample: BlockSource,
    directions: Directions,
    basis: Basis,
    alpha: float | None,
    intercept: bool,
    search: Search,
    executor: Executor,
    dtype: Any,
) -> tuple[str, Array]:
    """A few steps from every shape on a small sample, one shape a worker; the lowest cross-validation wins."""

    def descend(name: str) -> tuple[float, str, Array]:
        problem = SharedProblem.from_source(sample, directions, basis.pieces(), intercept, ThreadExecutor(1), dtype)
        start = _appraise(problem, fit_function(basis, STARTS[name]), alpha)
        a, _, _ = _descend(problem, start, search.start_steps, search.tol)
        criterion = problem.equations(a).system(intercept).spectrum.gcv(np.array([start.ridge]))
        return float(criterion[0]), name, a

    _, name, a = min(executor.map(list(STARTS), descend), key=lambda outcome: outcome[0])
    return name, a


def _evenly(source: BlockSource, most: int) -> BlockSource:
    """Rows in an even number of equal blocks of at most ``most`` rows, so that two workers finish together."""
    n_blocks = 2 * -(-source.n_samples // (2 * most))
    return source.with_rows(-(-source.n_samples // n_blocks))


def _first(directions: Directions, n_components: int) -> Directions:
    """The first of the components: they are drawn independently, so the first are as good as any."""
    if directions.n_components <= n_components:
        return directions
    return directions.take(np.arange(n_components))


def _projected_information(
    HH: Array, HA: Array, importance: Array, equations: NormalEquations, system: RidgeSystem, solution: RidgeSolution
) -> Array:
    """H' (I - P) H / n for one output, P the ridge projection onto the features, centred as the system is."""
    m = equations.n_components
    h_mean = HA[:, m] / equations.weight * system.n_intercepts
    HZ = HA[:, :m] * importance / equations.weight - np.outer(h_mean, system.z_mean)
    return HH / equations.weight - np.outer(h_mean, h_mean) - HZ @ solution.factor.solve(HZ.T)
