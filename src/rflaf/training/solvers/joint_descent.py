"""Descent in activation and output weights together on all rows: sums in the rows' precision, slopes in double.

Newton's method near the minimum needs products of the features at a place, which cost most, and slopes. Products may be
rounded or belong to a place nearby: they decide how fast the descent is, the slopes where it ends. So products are
summed in the precision of the rows at two or three places, and from the last of these the descent goes on by passes
that sum slopes alone, in double precision, each a third of the time of products in single precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from rflaf.errors import Array, StopReason
from rflaf.functions._kernels import features as _kernels
from rflaf.model.ridge import Remedy, RidgeSolution
from rflaf.rows.blocks import Block, Scratch

from .joint_model import JointSums, JointSystem, on_sphere
from .sphere import GRADIENT, Descent
from .whole_problem import Place, WholeProblem, projected

_NEAR = 0.01  # of its length, a step of the activation within which products need not be summed again
_MOST_PLACES, _MOST_RIDGES, _MOST_PASSES, _MOST_HALVINGS = 20, 2, 12, 6
_SLOW = 0.75  # of the slopes, what a pass may leave to be worth another: a place takes as long as eight passes
_SETTLED = 1e-8  # of v, the last step
_RISE = 1e-6  # of the objective, what counts as rounding
_OTHER_RIDGE = 1.6  # a ridge so many times higher or lower is worth another place

Choose = Callable[[WholeProblem, Place, JointSums], float]


@dataclass(slots=True)
class _Slopes:
    """Sums over rows of Z'r (n_components, n_outputs), H'r in the pieces' monomials, r and r^2, all weighted."""

    by_v: Array
    by_cell: Array
    residual: Array
    square: Array
    weight: float

    def __iadd__(self, other: _Slopes) -> _Slopes:
        self.by_v = self.by_v + other.by_v
        self.by_cell = self.by_cell + other.by_cell
        self.residual = self.residual + other.residual
        self.square = self.square + other.square
        self.weight += other.weight
        return self


@dataclass(frozen=True, slots=True)
class _Point:
    """Activation, output weights and intercept, which need not solve the equations of the activation."""

    a: Array
    v: Array
    intercept: Array


def descend_jointly(quick: WholeProblem, exact: WholeProblem, a: Array, choose: Choose | None) -> Descent[Place]:
    """Descend from ``a`` to the minimum over the sphere: ``quick`` and ``exact`` are one problem in two precisions.

    ``choose`` names the ridge to descend under, at a place; without it the ridge stays.
    """
    place, trace, asked = quick.at(a), list[float](), 0
    if place.solution.factor.remedy is not Remedy.NONE:  # singular in the precision of the rows
        quick, place = exact, exact.at(a)
    for _ in range(_MOST_PLACES):
        trace.append(min([place.value, *trace[-1:]]))
        sums = JointSums.around(place, place.equations, quick.products(place, quick.source))
        system, ridge = sums.system(quick.intercept), quick.ridge
        if choose is not None and asked < _MOST_RIDGES:
            ridge, asked = choose(quick, place, sums), asked + 1
        other = max(ridge, quick.ridge) > _OTHER_RIDGE * min(ridge, quick.ridge)
        quick, trace = (quick.with_ridge(ridge), []) if other else (quick, trace)
        step = system.tangent.T @ system.at(quick.ridge).t
        near = bool(np.linalg.norm(step) <= _NEAR * system.radius)
        if other:
            place = quick.at(on_sphere(place.a, step))
        elif not near:
            place = _downhill(quick, place, step)
        else:
            end = _finish(exact.with_ridge(quick.ridge), place, system, trace)
            if end.stop_reason is StopReason.GRADIENT:
                return end
            place = quick.at(end.place.a)
        choose = choose if other else None
    return Descent(place, trace, StopReason.ITERATIONS)


def _downhill(problem: WholeProblem, place: Place, step: Array) -> Place:
    """Return the first place along halved steps where the objective does not rise; the last of them if all do."""
    for _ in range(_MOST_HALVINGS):
        there = problem.at(on_sphere(place.a, step))
        if there.value <= place.value * (1 + _RISE):
            break
        step = step / 2
    return there


def _finish(problem: WholeProblem, place: Place, system: JointSystem, trace: list[float]) -> Descent[Place]:
    """Descend by slopes alone, under the products of a place nearby; ITERATIONS if these are too far."""
    point = _Point(place.a, place.solution.v, place.solution.intercept)
    factor, alone, last = place.solution.factor, system.alone, np.inf
    for _ in range(_MOST_PASSES):
        sums = _sum_slopes(problem, point)
        mean = sums.residual / sums.weight * alone.n_intercepts
        by_v = sums.by_v / sums.weight - np.outer(alone.z_mean, mean) - problem.ridge * point.v
        by_a = problem.pieces.table_transposed(sums.by_cell)[0] / sums.weight
        along = by_a - point.a * (point.a @ by_a) / (point.a @ point.a)
        by_t = system.tangent @ along - mean @ system.H_mean
        share = _share(factor.solve(by_v), by_t, by_a, system)
        dv, t = system.step(factor, by_v, by_t)
        if share <= GRADIENT and np.linalg.norm(dv) <= _SETTLED * np.linalg.norm(point.v):
            return Descent(_placed(problem, place, point, sums), [*trace, trace[-1]], StopReason.GRADIENT)
        if share > max(_SLOW * last, GRADIENT):
            break
        last = share
        intercept = point.intercept + mean - alone.z_mean @ dv - system.H_mean @ t
        point = _Point(on_sphere(point.a, system.tangent.T @ t), point.v + dv, intercept)
    return Descent(_placed(problem, place, point, sums), trace, StopReason.ITERATIONS)


def _share(solved: Array, by_t: Array, by_a: Array, system: JointSystem) -> float:
    """The tangential gradient of J, of the whole one; zero where that vanishes."""
    whole = float(np.linalg.norm(by_a))
    reduced = by_t - np.einsum("okm,mo->k", system.HZ, solved)
    return float(np.linalg.norm(reduced)) / whole if whole > 0 else 0.0


def _sum_slopes(problem: WholeProblem, point: _Point) -> _Slopes:
    """Sum the slopes of the squared loss in one pass."""
    features, importance = problem.compiled(point.a), problem.directions.importance
    dtype, n_cells = problem.source.dtype, problem.pieces.n_cells
    v = np.ascontiguousarray(importance[:, None] * point.v, dtype)

    def sum_slopes(block: Block, scratch: Scratch) -> _Slopes:
        u, z = projected(features, block, scratch)
        residual = np.ascontiguousarray(block.y.T - point.intercept[:, None] - v.T @ z, dtype)
        weighted = residual if block.weight is None else residual * block.weight.astype(dtype)
        by_cell = np.zeros((1, n_cells, 4))
        _kernels.scatter(u, v, weighted, by_cell)
        weight = float(block.n_rows if block.weight is None else block.weight.sum(dtype=np.float64))
        square = np.einsum("or,or->o", weighted, residual)
        return _Slopes(importance[:, None] * (z @ weighted.T), by_cell, weighted.sum(axis=1), square, weight)

    return problem.executor.reduce(problem.source, sum_slopes, "sum the slopes of the activation")


def _placed(problem: WholeProblem, near: Place, point: _Point, sums: _Slopes) -> Place:
    """Return a point as a place: the equations are those of a place nearby, answered by its output weights."""
    equations = near.equations.answered_by(point.v, problem.ridge, problem.intercept)
    system = equations.system(problem.intercept)
    factor = replace(near.solution.factor, system=system)
    solution = RidgeSolution(point.v, point.intercept, problem.ridge, sums.square / sums.weight, factor)
    return Place(point.a, equations, system, solution)
