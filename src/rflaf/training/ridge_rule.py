"""The ridge of output weights: given, or of lowest error on rows that had no part in the fit.

By leave-one-out in closed form where eigenvalues are cheap, by groups of rows held out, or by one part of many rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rflaf.errors import Array
from rflaf.functions.densities import Directions
from rflaf.model.features import RowFeatures
from rflaf.model.last_layer import noise_variance
from rflaf.model.normal_equations import NormalEquations
from rflaf.model.ridge import RidgeSolution, RidgeSystem, walk_downhill
from rflaf.rows.blocks import Block, BlockSource, Scratch
from rflaf.rows.executors import Executor

from .held_out import errors_by_folds, rows_to_judge_by
from .problem import Fit
from .solvers.joint_model import JointSums
from .solvers.whole_problem import Place, WholeProblem

JUDGED_ROWS = 8000  # sampled to choose a ridge by
_FEW_UNKNOWNS = 512  # up to here eigenvalues are cheap
_FEW_ROWS = 2000


@dataclass(frozen=True, slots=True)
class RidgeChoice:
    """A ridge, with the squared error per output (n_outputs,) on rows held out or the degrees of freedom."""

    ridge: float
    error: Array | None = None
    degrees_of_freedom: float | None = None


def best_ridge(
    fit: Fit,
    features: RowFeatures,
    directions: Directions,
    importance: Array,
    equations: NormalEquations,
    system: RidgeSystem,
) -> RidgeChoice:
    """Return alpha S, S counting every draw; or, if alpha is to be chosen, the ridge of lowest error on other rows.

    Generalised cross-validation, which needs no rows, chooses too small a ridge where a few rows have a leverage far
    above the mean.
    """
    if fit.spec.alpha is not None:
        return RidgeChoice(fit.spec.alpha * directions.n_draws)
    if by_one_part(fit, equations.n_components, system.count):
        rows = rows_to_judge_by(fit, JUDGED_ROWS)
        held_out = features.sum_equations(rows, fit.executor).scale(importance)
        if 0 < held_out.weight < equations.weight:
            kept = (equations - held_out).system(fit.spec.intercept)
            return _by_hold_out(kept, held_out, system.ridges()[::-1], fit.executor)
    return by_leave_one_out(fit, features, importance, system)


def by_leave_one_out(fit: Fit, features: RowFeatures, importance: Array, system: RidgeSystem) -> RidgeChoice:
    """Return the ridge of lowest leave-one-out error over a sample of rows: one eigenvalue problem for all ridges."""
    spectrum, dtype = system.spectrum, fit.source.dtype
    ridges = system.ridges_of_lines() if fit.spec.basis.n_basis == 1 else system.ridges()
    if fit.spec.splits is not None:
        error = errors_by_folds(fit, features, importance, system, ridges)
        best = ridges[[np.argmin(error)]]
        return RidgeChoice(float(best[0]), degrees_of_freedom=float(spectrum.degrees_of_freedom(best)[0]))

    def sum_errors(block: Block, scratch: Scratch) -> Array:
        z = scratch.array("z", (features.n_components, block.n_rows), dtype)
        features.features(block.X, z)
        z *= importance[:, None].astype(dtype)
        return spectrum.leave_one_out(ridges, z, block.y, block.weight)

    sample = fit.source.sample(JUDGED_ROWS, fit.rng)
    error = fit.executor.reduce(sample, sum_errors, "choose the ridge")
    best = ridges[[np.argmin(error)]]
    return RidgeChoice(float(best[0]), degrees_of_freedom=float(spectrum.degrees_of_freedom(best)[0]))


def _by_hold_out(kept: RidgeSystem, held_out: NormalEquations, ridges: Array, executor: Executor) -> RidgeChoice:
    """Return the ridge of lowest error on rows held out, of some in falling order: one factorisation each.

    With many unknowns that takes a fraction of the time of their eigenvalues, and the rows enter by their sums alone.
    A ridge below the rounding of sums in single precision is not considered.
    """
    quick, single = kept.in_single_precision, kept.precision >= np.finfo(np.float32).eps
    known: dict[int, Array] = {}

    def errors_at(i: int) -> Array:
        ridge = float(ridges[i])
        v = quick.solve(ridge)
        if v is None and single:
            return np.full(held_out.n_outputs, np.inf)
        v = kept.solve(ridge).v if v is None else v
        return held_out.errors(v, kept.y_mean - kept.z_mean @ v)

    def total_at(places: list[int]) -> list[float]:
        known.update(zip(places, executor.map(places, errors_at, "choose the ridge"), strict=True))
        return [float(known[i].sum()) for i in places]

    middle = ridges.size // 2
    best = walk_downhill(ridges.size, total_at, [middle - 1, middle + 2], strides=(1,))
    return RidgeChoice(float(ridges[best]), known[best])


def by_one_part(fit: Fit, n_components: int, n_rows: float) -> bool:
    """Whether one part of the rows chooses a ridge: where leave-one-out, which uses all, takes long."""
    return fit.spec.splits is None and n_components > _FEW_UNKNOWNS and n_rows > _FEW_ROWS


def choose_jointly(problem: WholeProblem, place: Place, sums: JointSums, rows: BlockSource) -> RidgeChoice | None:
    """Return the ridge of lowest error on ``rows``, the activation learned again under every ridge without them.

    ``sums`` are those of all rows at the place; None if ``rows`` are none or all of them.
    """
    equations = problem.compiled(place.a).sum_equations(rows, problem.executor).scale(problem.directions.importance)
    if not 0 < equations.weight < sums.equations.weight:
        return None
    held_out = JointSums.around(place, equations, problem.products(place, rows))
    kept, ridges = (sums - held_out).system(problem.intercept), place.system.ridges()[::-1]
    known: dict[int, Array] = {}

    def errors_at(places: list[int]) -> list[float]:
        known.update({i: held_out.errors(kept.at(float(ridges[i]))) for i in places})
        return [float(known[i].sum()) for i in places]

    here = int(np.argmin(np.abs(np.log(ridges / problem.ridge)))) if problem.ridge > 0 else ridges.size // 2
    best = walk_downhill(ridges.size, errors_at, [here], strides=(1,))
    return RidgeChoice(float(ridges[best]), known[best])


def noise_of(system: RidgeSystem, solution: RidgeSolution, choice: RidgeChoice) -> Array:
    """Return the noise variance per output: the error on rows held out, or generalised cross-validation."""
    if choice.error is not None and np.isfinite(choice.error).all():
        return choice.error
    spent = choice.degrees_of_freedom
    return noise_variance(
        system, solution.mean_residual, solution.factor.degrees_of_freedom if spent is None else spent
    )
