"""Shared activations: the bilinear problem in (a, v), solved by variable projection on the sphere.

    minimise J(a) over |a| = R,     J(a) = min over v, b of the penalised loss (`rflaf.training.solvers.shared_problem`)

Equations (6) and (7) of the paper and line 2 of Algorithm 1, equation (8). L-BFGS on the sphere finds the few
unknowns a and never lets J rise. J has local minima, so several shapes are tried for a few steps on part of the data
and the best is carried on. Under another loss than the squared one the search starts from the solution for the squared
loss of the slopes at the constant answer (`rflaf.training.problem`), and every solution over v starts from the one
before.

The constraint |a| <= R of the paper holds with equality at any minimum: a longer a allows a shorter v. The balancing
penalty of line 2, lambda_0 (|a|^2 - |v|^2)^2, only picks one of the equal products (c a, v / c), as the sphere does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from rflaf.errors import Array, StopReason
from rflaf.functions.bases import Basis, fit_function
from rflaf.functions.densities import Directions
from rflaf.functions.losses import Loss
from rflaf.model.normal_equations import NormalEquations
from rflaf.rows.blocks import MOST_ROWS, BlockSource
from rflaf.rows.executors import Executor, ThreadExecutor

from .convex_loss import hides_rounding
from .shared_problem import SharedProblem, SharedRisk
from .sparse_activation import Objective, minimise_sparse

STARTS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "sine": lambda z: np.sin(2 * z + 0.7),
    "ramp": lambda z: np.maximum(z, 0),
    "bump": lambda z: np.exp(-(z**2)),
}
_LOWER_RIDGE = 0.2  # a ridge this much lower under the learned activation is worth another descent
_MOST_DESCENTS = 4
_POLISH_BLOCK = 8192  # rows, as there are few components
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
class LearnedActivation:
    """A learned shared activation.

    Attributes
    ----------
    a : (n_basis,), of the length asked for, or scaled to mean square one over the rows and components seen
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
class ActivationTask:
    """Rows, directions and basis to learn an activation for; projections are kept in ``dtype``, or the rows'.

    ``radius`` is the length of the coefficients, None for the one of mean square one; ``l1`` penalises their sizes.
    """

    source: BlockSource
    directions: Directions
    basis: Basis
    intercept: bool
    search: Search
    rng: np.random.Generator
    executor: Executor
    dtype: Any = None
    radius: float | None = None
    l1: float = 0.0

    def problem(self, sample: BlockSource, directions: Directions) -> SharedProblem:
        """Return J(a) on a sample of rows and on some of the directions."""
        pieces = self.basis.pieces()
        return SharedProblem.from_source(sample, directions, pieces, self.intercept, self.executor, self.dtype)


def search_dtype(source: BlockSource, loss: Loss) -> np.dtype[Any]:
    """Return the precision in which an activation is searched for under a loss."""
    return np.dtype(np.float32) if hides_rounding(source.n_samples, loss) else source.dtype


def polish_shared_activation(
    task: ActivationTask, activation: LearnedActivation, loss: Loss, base: Array, alpha: float
) -> LearnedActivation:
    """Continue from an activation learned by the squared loss under ``loss``, whose best constant answer is ``base``.

    On a sample of rows and components, as in `learn_shared_activation`. ``alpha`` is the ridge for one component.
    """
    search = task.search
    few = _first(task.directions, search.polish_components)
    sample = _evenly(task.source.sample(search.polish_rows, task.rng), _POLISH_BLOCK)
    problem = replace(task, dtype=search_dtype(task.source, loss)).problem(sample, few)
    risk = SharedRisk(problem, loss, base, max(alpha, np.finfo(float).tiny) * few.n_draws)
    first, _ = risk.evaluate(activation.a)
    floor = np.finfo(float).eps * first
    if not floor > 0:
        return replace(activation, stop_reason=StopReason.NOTHING_TO_LEARN)

    def objective(a: Array) -> tuple[float, Array]:
        value, slope = risk.evaluate(a)
        return max(value, floor), slope

    a, trace, reason = _minimise(objective, activation.a, task.l1, search.max_iter, search.tol)
    factor = _factor(problem.equations(a), a, task.radius)
    covariance = activation.covariance * factor**2
    return replace(activation, a=a * factor, covariance=covariance, trace=np.array(trace), stop_reason=reason)


def learn_shared_activation(task: ActivationTask, alpha: float | None, start: Array | None = None) -> LearnedActivation:
    """Learn one activation for all components from a sample of rows and, where there are many, of components.

    ``alpha`` is the ridge for one component, None to choose it by generalised cross-validation. The search begins at
    ``start`` (n_basis,) if given, else at the best of a few shapes after a few steps on a smaller sample.
    """
    search = task.search
    # Equal blocks of a fixed size: a search amplifies how blocks round the last bits.
    sample = _evenly(task.source.sample(search.n_rows, task.rng), MOST_ROWS)
    small = sample.sample(search.start_rows, task.rng)
    few = _first(task.directions, search.start_components)
    name, a = _best_start(task, small, few, alpha) if start is None else ("given", start)
    problem = task.problem(sample, _first(task.directions, search.n_components))
    here, trace, reason = _descend_repeatedly(task, problem, a, alpha)
    part = replace(task, dtype=None).problem(small, few)
    covariance = (
        part.covariance(here.a, here.ridge * few.n_draws / problem.n_draws) * small.n_samples / sample.n_samples
    )
    return LearnedActivation(here.a, covariance, np.array(trace), reason, name, here.ridge / problem.n_draws)


def _descend_repeatedly(
    task: ActivationTask, problem: SharedProblem, a: Array, alpha: float | None
) -> tuple[_Appraisal, list[float], StopReason]:
    """Descend again while the learned activation asks for a much lower ridge."""
    here, trace = _appraise(problem, a, alpha, task.radius), list[float]()
    for _ in range(_MOST_DESCENTS):
        a, steps, reason = _descend(problem, here, task.search.max_iter, task.search.tol, task.l1)
        trace += steps
        there = _appraise(problem, a, alpha, task.radius)
        same_penalty = here.ridge * (there.a @ there.a) / (a @ a)
        here = there
        if here.ridge > _LOWER_RIDGE * same_penalty:
            break
    return here, trace, reason


def minimise_on_sphere(
    objective: Callable[[Array], tuple[float, Array]],
    start: Array,
    max_iter: int,
    tol: float,
    metric: Array | None = None,
) -> tuple[Array, list[float], StopReason]:
    """Run L-BFGS over |a| = |start|: return the minimiser, the objective at every step, and why it ended.

    The logarithm of the objective is what descends, so that ``tol`` is a relative fall at any scale. ``metric``
    (a.size, a.size) gives coordinates x, a = metric x, in which the objective is round.
    """
    radius, to_a = float(np.linalg.norm(start)), np.eye(start.size) if metric is None else metric
    seen: dict[bytes, float] = {}
    trace: list[float] = []

    def on_sphere(x: Array) -> tuple[float, Array]:
        raw = to_a @ x
        length = float(np.linalg.norm(raw))
        a = raw * (radius / length)
        value, slope = objective(a)
        value = max(value, float(np.finfo(np.float64).tiny))  # rows that are fitted exactly have a risk of zero
        seen[x.tobytes()] = value
        trace.extend([value] if not trace else [])
        tangent = (slope - a * (slope @ a) / radius**2) * (radius / length)
        return float(np.log(value)), to_a.T @ tangent / value

    def record(x: Array) -> None:
        trace.append(seen[x.tobytes()])
        if trace[-2] - trace[-1] <= tol * trace[-2]:
            raise StopIteration

    answer = minimize(
        on_sphere, np.linalg.solve(to_a, start), jac=True, method="L-BFGS-B", callback=record,
        options={"maxiter": max_iter, "ftol": 0.0, "gtol": 1e-12, "maxcor": 12},
    )  # fmt: skip
    reason = _STOP_REASONS.get(answer.status, StopReason.ROUNDING)
    end = to_a @ answer.x
    return end * (radius / np.linalg.norm(end)), trace, reason


@dataclass(frozen=True, slots=True)
class _Appraisal:
    """An activation scaled as asked, its ridge, and the objective there against that of no model at all."""

    a: Array
    ridge: float
    objective: float
    y_square: float


def _appraise(problem: SharedProblem, a: Array, alpha: float | None, radius: float | None) -> _Appraisal:
    """Scale an activation; the ridge is given by alpha, or that of the lowest generalised cross-validation."""
    equations = problem.equations(a)
    factor = _factor(equations, a, radius)
    system = equations.scale(np.full(equations.n_components, factor)).system(problem.intercept)
    ridge = system.spectrum.best_ridge() if alpha is None else alpha * problem.n_draws
    return _Appraisal(a * factor, ridge, system.solve(ridge).objective, float(system.y_square.sum()))


def _factor(equations: NormalEquations, a: Array, radius: float | None) -> float:
    """Return the factor that gives ``a`` its length, or its features mean square one."""
    if radius is not None:
        return radius / (float(np.linalg.norm(a)) or radius)
    rounding = 8 * np.finfo(float).eps * float(np.abs(a).max())
    return float(equations.mean_square**-0.5) if equations.mean_square > rounding**2 else 1.0


def _descend(
    problem: SharedProblem, start: _Appraisal, max_iter: int, tol: float, l1: float = 0.0
) -> tuple[Array, list[float], StopReason]:
    if not start.y_square - start.objective > 1e-12 * start.y_square:
        return start.a, [start.objective], StopReason.NOTHING_TO_LEARN
    floor = np.finfo(float).eps * start.y_square

    def objective(a: Array) -> tuple[float, Array]:
        value, slope = problem.evaluate(a, start.ridge)
        return max(value, floor), slope

    return _minimise(objective, start.a, l1, max_iter, tol)


def _minimise(
    objective: Objective, start: Array, l1: float, max_iter: int, tol: float
) -> tuple[Array, list[float], StopReason]:
    if l1 > 0:
        return minimise_sparse(objective, start, l1, max_iter, tol, minimise_on_sphere)
    return minimise_on_sphere(objective, start, max_iter, tol)


def _best_start(
    task: ActivationTask, sample: BlockSource, directions: Directions, alpha: float | None
) -> tuple[str, Array]:
    """Take a few steps from every shape on a small sample, one shape per worker; the lowest cross-validation wins."""
    alone = replace(task, executor=ThreadExecutor(1))

    def descend(name: str) -> tuple[float, str, Array]:
        problem = alone.problem(sample, directions)
        start = _appraise(problem, fit_function(task.basis, STARTS[name]), alpha, task.radius)
        a, _, _ = _descend(problem, start, task.search.start_steps, task.search.tol)
        criterion = problem.equations(a).system(task.intercept).spectrum.gcv(np.array([start.ridge]))
        return float(criterion[0]), name, a

    outcomes = task.executor.map(list(STARTS), descend, "try shapes of the activation")
    _, name, a = min(outcomes, key=lambda outcome: outcome[0])
    return name, a


def _evenly(source: BlockSource, most: int) -> BlockSource:
    """Cut rows into an even number of equal blocks of at most ``most`` rows, so that two workers finish together."""
    n_blocks = 2 * -(-source.n_samples // (2 * most))
    return source.with_rows(-(-source.n_samples // n_blocks))


def _first(directions: Directions, n_components: int) -> Directions:
    """Return the first components: they are drawn independently, so the first are as good as any."""
    if directions.n_components <= n_components:
        return directions
    draws = round(directions.n_draws * n_components / directions.n_components)
    return directions.take(np.arange(n_components), n_draws=draws)
