"""The minimum over a shared activation on all rows and all components, under the squared loss: line 6 of Algorithm 1.

    minimise over |a| = R, v, b    1/n sum_i w_i |y_i - f(x_i)|^2 + ridge |v|^2,        ridge = alpha S, S counts draws

Newton's method on the sphere (`rflaf.training.solvers.sphere`), from the activation that a sample gave. There are local
minima. Where products of all basis functions are cheap to sum, the descent needs no rows and starts from the usual
shapes and many random ones (`rflaf.training.solvers.moment_problem`). Elsewhere it makes passes over the rows
(`rflaf.training.solvers.whole_problem`): first over some of them, for a start near the minimum, then over all in double
precision, since products summed in single precision err by as much as the ridge. A ridge left to the data is chosen
again under the activation found. A penalty l1 |a|_1 is minimised by `rflaf.training.solvers.sparse_activation`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rflaf.errors import Array, StopReason
from rflaf.functions.bases import Basis, fit_function
from rflaf.functions.densities import Directions
from rflaf.model.normal_equations import NormalEquations
from rflaf.rows.blocks import BlockSource, in_double_precision
from rflaf.rows.executors import Executor

from .joint_descent import Choose, descend_jointly
from .moment_problem import MomentProblem
from .shared_activation import STARTS, minimise_on_sphere
from .sparse_activation import minimise_sparse
from .sphere import GRADIENT, Descent, best_descent, further, newton_on_sphere
from .whole_problem import Place, WholeProblem

_MOST_STEPS = 100
_MOST_DESCENTS = 3
_OTHER_RIDGE = 1.6  # a ridge so many times higher or lower is worth another descent
_MOST_FUNCTIONS = 1000  # of all components together, for sums of all their products
_SUMMING = 3e9  # multiplications that these sums may take
_SEARCHING = 2e7  # square of the number of functions, times starts
_MOST_STARTS, _MOST_SPARSE_STARTS = 64, 16
_SPARSE_FALL = 1e-11  # of the objective in a round, at which the descent to a sparse activation ends
_EXACT_PIECES = 1e-12  # error of compiled basis functions where these are few
_FINE_PIECES, _COARSE_PIECES = 1e-9, 1e-6  # likewise in passes over rows in double and in single precision
_SOME_ROWS = 8192  # of a descent to a start near the minimum, if there are twice as many
_NEAR, _FEW_STEPS = 0.03, 10  # tangential gradient, of the whole one, at which it ends; or after so many steps


@dataclass(frozen=True, slots=True)
class ExactTask:
    """Rows with scaled targets, directions and basis to find the best activation for."""

    source: BlockSource
    directions: Directions
    basis: Basis
    intercept: bool
    rng: np.random.Generator
    executor: Executor
    l1: float = 0.0

    @property
    def n_functions(self) -> int:
        """Basis functions of all components together."""
        return self.directions.n_components * self.basis.n_basis

    @property
    def is_small(self) -> bool:
        """Whether products of all functions are cheap to sum."""
        return self.n_functions <= _MOST_FUNCTIONS and self.source.n_samples * self.n_functions**2 <= _SUMMING

    def problem(self) -> MomentProblem | WholeProblem:
        """J(a), its ridge yet to be set."""
        rows = in_double_precision(self.source)
        if self.is_small:
            pieces = self.basis.pieces(None, _EXACT_PIECES)
            return MomentProblem.of_rows(rows, self.directions, pieces, self.intercept, self.executor)
        return self.whole(rows, 0.0)

    def nearer(self, a: Array, ridge: float) -> Array:
        """Return an activation nearer to the minimum, from some of the rows, if these are few among all."""
        if self.is_small or self.l1 > 0 or self.source.n_samples < 2 * _SOME_ROWS:
            return a
        problem = self.whole(self.source.sample(_SOME_ROWS, self.rng), ridge)
        return newton_on_sphere(problem, problem.at(a), _FEW_STEPS, _NEAR).place.a

    def whole(self, rows: BlockSource, ridge: float) -> WholeProblem:
        """J(a) by passes over rows."""
        fine = _FINE_PIECES if rows.dtype == np.float64 else _COARSE_PIECES
        pieces = self.basis.pieces(None, fine)
        return WholeProblem(rows, self.directions, pieces, ridge, self.intercept, self.executor)

    def starts(self, radius: float) -> list[Array]:
        """Shapes and random activations, all of one length, to start from beside the one learned."""
        most = _MOST_SPARSE_STARTS if self.l1 > 0 else _MOST_STARTS
        n_starts = int(min(most, _SEARCHING / self.n_functions**2)) if self.is_small else 0
        shapes = [fit_function(self.basis, shape) for shape in STARTS.values()][:n_starts]
        random = self.rng.standard_normal((max(0, n_starts - len(shapes)), self.basis.n_basis))
        alone = np.eye(self.basis.n_basis if self.l1 > 0 and n_starts else 0)  # the sparsest activations of all
        starts = [*shapes, *random, *alone]
        return [start * (radius / np.linalg.norm(start)) for start in starts if np.linalg.norm(start) > 0]


def descend(
    task: ExactTask,
    a: Array,
    first_ridge: float,
    choose_ridge: Callable[[Array, NormalEquations], float],
    choose_jointly: Choose | None = None,
) -> Descent[Place]:
    """Return the lowest descent over |a| fixed, at the ridge chosen under the activation found, or nearly that.

    ``first_ridge`` is near enough to that for a first descent on some of the rows. Passes over rows choose by
    ``choose_jointly``, if given.
    """
    if not task.is_small and task.l1 == 0:
        return _by_passes(task, task.nearer(a, first_ridge), first_ridge, choose_jointly)
    return _by_newton(task, a, choose_ridge)


def _by_passes(task: ExactTask, a: Array, ridge: float, choose: Choose | None) -> Descent[Place]:
    """Descend by passes over the rows, to the last digits in double precision."""
    exact = task.whole(in_double_precision(task.source), ridge)
    descent = descend_jointly(task.whole(task.source, ridge), exact, a, choose)
    if descent.stop_reason is StopReason.GRADIENT:
        return descent
    exact = exact.with_ridge(descent.place.solution.ridge)
    return newton_on_sphere(exact, exact.at(descent.place.a), _MOST_STEPS)


def _by_newton(task: ExactTask, a: Array, choose_ridge: Callable[[Array, NormalEquations], float]) -> Descent[Place]:
    """Descend by Newton's method under a ridge chosen for fixed activations, again and again."""
    problem = task.problem()
    equations = problem.equations(a)
    ridge = choose_ridge(a, equations)
    others = task.starts(float(np.linalg.norm(a)))
    tol = GRADIENT if others or task.l1 > 0 else _NEAR
    for _ in range(_MOST_DESCENTS):
        problem = problem.with_ridge(ridge)
        starts = [problem.of_equations(a, equations), *map(problem.at, others)]
        if task.l1 > 0:
            descent = _best_sparse_descent(problem, starts, task.l1)
        else:
            descent = best_descent(problem, starts, _MOST_STEPS, tol)
        a, equations = descent.place.a, descent.place.equations
        another = choose_ridge(a, equations)
        if max(another, ridge) <= _OTHER_RIDGE * min(another, ridge):
            break
        ridge = another
    return descent if tol == GRADIENT else further(problem, descent, _MOST_STEPS)


def _best_sparse_descent(problem: MomentProblem | WholeProblem, starts: list[Place], l1: float) -> Descent[Place]:
    """Return the lowest descent of J(a) + l1 |a|_1; its trace includes the penalty."""

    def objective(a: Array) -> tuple[float, Array]:
        place = problem.at(a)
        return place.value, problem.derivatives(place)[0]

    ends = [minimise_sparse(objective, s.a, l1, _MOST_STEPS, _SPARSE_FALL, minimise_on_sphere) for s in starts]
    a, trace, reason = min(ends, key=lambda end: end[1][-1])
    return Descent(problem.at(a), trace, reason)
