"""Line 6 of Algorithm 1: the output weights of the components kept, on all rows.

The squared loss has a closed form, whose sums stay with the model as its last layer; any other loss is minimised by
passes over the rows (`rflaf.training.solvers.convex_loss`). The ridge is the one given, or chosen: by the
leave-one-out error in closed form,
or on rows held out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rflaf.errors import Array, StopReason
from rflaf.functions.curves import ColumnCurves
from rflaf.functions.densities import Directions
from rflaf.functions.losses import Units
from rflaf.model.features import RowFeatures, compile_map, sum_equations, sum_robust_equations
from rflaf.model.last_layer import LastLayer, noise_variance, unscale
from rflaf.model.normal_equations import NormalEquations, Remedy, RidgeSolution, RidgeSystem, walk_downhill
from rflaf.model.random_feature_model import Activation, RandomFeatureModel
from rflaf.rows.blocks import Block, BlockSource, Scratch, SourceView
from rflaf.rows.executors import Executor
from rflaf.rows.folds import N_FOLDS, folds_of
from rflaf.training.solvers.convex_loss import (
    Risk,
    RiskSolution,
    choose_ridge,
    minimise_risk,
    on_row_space,
    ridge_grid,
    tolerance,
    whiten,
)
from rflaf.training.solvers.per_component import (
    ExpandedMap,
    expand,
    main_activations,
    solve_per_component,
    solve_shapes,
)
from rflaf.training.solvers.shared_activation import SharedActivation

from .problem import Problem
from .specification import FitSpec

_JUDGED_ROWS = 8000
_FEW_UNKNOWNS = 512  # whose eigenvalues cost hardly anything
_FEW_ROWS = 2000
_TOLERANCE = 1e-5  # of the gradient at the constant answer


@dataclass(frozen=True, slots=True)
class Fitted:
    """Activations, output weights and intercept in the units of a problem, and how they came about.

    ``last_layer`` are the sums behind a solution in closed form, ``solved`` how a search for another ended.
    """

    activation: Activation
    v: Array
    intercept: Array
    ridge: float = 0.0
    remedy: Remedy = Remedy.NONE
    last_layer: LastLayer | None = None
    solved: StopReason = StopReason.CONVEX
    objective: float = 0.0

    def model(self, directions: Directions, units: Units, curves: ColumnCurves | None = None) -> RandomFeatureModel:
        """The model in the units of the targets: they are folded into the output weights and the intercept."""
        layer = self.last_layer
        if layer is not None:
            equations = unscale(layer.equations, units.centre, units.scale)
            layer = replace(layer, equations=equations, noise=layer.noise * units.scale**2)
        v, intercept = self.v * units.stretch, units.shift + units.stretch * self.intercept
        return RandomFeatureModel(directions, self.activation, v, intercept, curves, layer)


def fit_shared(
    problem: Problem,
    directions: Directions,
    learned: SharedActivation,
    spec: FitSpec,
    rng: np.random.Generator,
    executor: Executor,
) -> Fitted:
    """One activation for all components, as it was learned."""
    a = learned.a[None]
    features = compile_map(directions, spec.basis.pieces(a), a, problem.source.dtype)
    activation = Activation(spec.basis, a, learned.covariance)
    if not problem.squared:
        return _of_risk(activation, _minimise(problem, directions, features, directions.importance, spec, executor))
    equations = sum_equations(problem.source, features, executor).scale(directions.importance)
    system = equations.system(spec.intercept)
    choice = best_ridge(
        problem.source, features, directions, directions.importance, equations, system, spec, rng, executor
    )
    solution = system.solve(choice.ridge)
    layer = LastLayer(equations, choice.ridge, _noise(system, solution, choice), spec.intercept)
    return _of_ridge(activation, solution, layer)


def fit_per_component(
    problem: Problem, directions: Directions, spec: FitSpec, rng: np.random.Generator, executor: Executor
) -> Fitted:
    """One activation a component: a single convex problem."""
    features = expand(directions, spec.basis, problem.source.dtype)
    importance = np.repeat(directions.importance, spec.basis.n_basis)
    if not problem.squared:
        return _minimise_per_component(problem, directions, features, importance, spec, executor)
    equations = sum_equations(problem.source, features, executor).scale(importance)
    system = equations.system(spec.intercept)
    choice = best_ridge(problem.source, features, directions, importance, equations, system, spec, rng, executor)
    solution = system.solve(choice.ridge)
    if spec.n_shapes is None:
        learned = solve_per_component(equations, solution, features.T, spec.intercept)
    else:
        learned = solve_shapes(equations, solution, features.T, spec.intercept, spec.n_shapes)
    noise = _noise(system, solution, choice) + _lost(learned.equations, learned.v, solution, spec)
    layer = LastLayer(learned.equations, choice.ridge, noise, spec.intercept)
    activation = Activation(spec.basis, learned.a)
    fitted = _of_ridge(activation, solution, layer)
    return replace(fitted, v=learned.v, intercept=learned.intercept, objective=float(learned.trace[-1]))


def _minimise_per_component(
    problem: Problem,
    directions: Directions,
    features: ExpandedMap,
    importance: Array,
    spec: FitSpec,
    executor: Executor,
) -> Fitted:
    """The same under any loss; where components share their activation among outputs, v is found again for it."""
    convex = _minimise(problem, directions, features, importance, spec, executor)
    theta = convex.v.reshape(directions.n_components, -1, problem.source.n_outputs)
    shapes = main_activations(theta, spec.n_shapes)
    a = shapes @ features.T.T
    if spec.n_shapes is None and theta.shape[2] == 1:
        return replace(_of_risk(Activation(spec.basis, a), convex), v=np.einsum("mi,mio->mo", shapes, theta))
    kept = compile_map(directions, spec.basis.pieces(a), a, problem.source.dtype)
    same = replace(spec, alpha=convex.ridge / directions.n_draws)
    start = np.einsum("mi,mio->mo", shapes, theta), convex.intercept
    solution = _minimise(problem, directions, kept, directions.importance, same, executor, start)
    return _of_risk(Activation(spec.basis, a), solution)


def keep_trained(
    source: BlockSource,
    directions: Directions,
    features: RowFeatures,
    activation: Activation,
    v: Array,
    delta: float,
    noise: Array,
    spec: FitSpec,
    rng: np.random.Generator,
    executor: Executor,
) -> Fitted:
    """The last layer of features that were trained together with their output weights ``v`` (n_components, n_outputs).

    Solved again on the rows they were trained on, the weights were seen to overfit: what features have learned by heart
    no error on these rows can tell. So the sums are those of targets that ``v`` answers, of which later rows, or fewer
    components, make the best. Rows farther than ``delta`` from what ``v`` says weigh less.
    """
    equations = sum_robust_equations(source, features, v, delta, executor)
    system = equations.system(spec.intercept)
    ridge = _by_leave_one_out(source, features, directions.importance, system, rng, executor).ridge
    kept = equations.answered_by(v, ridge, spec.intercept)
    solution = kept.system(spec.intercept).solve(ridge)
    fitted = _of_ridge(activation, solution, LastLayer(kept, ridge, noise, spec.intercept))
    return replace(fitted, v=v, intercept=system.y_mean - system.z_mean @ v)  # a solution with a jitter has another


def _minimise(
    problem: Problem,
    directions: Directions,
    features: RowFeatures,
    importance: Array,
    spec: FitSpec,
    executor: Executor,
    start: tuple[Array, Array] | None = None,
) -> RiskSolution:
    """The regularised risk on given features, its ridge chosen where none is given."""
    risk = Risk.of_rows(problem.source, features, importance, problem.loss, spec.intercept, executor, spec.memory)
    ridges = np.array([spec.alpha * directions.n_draws]) if spec.alpha is not None else ridge_grid(risk, problem.base)
    fewer = on_row_space(risk)
    if fewer is not None:
        risk, Q = fewer
        start = None if start is None else (Q.T @ start[0], start[1])
    max_iter = spec.search.max_iter
    ridge, whitening = float(ridges[0]), None
    if ridges.size > 1:
        choice = choose_ridge(risk, problem.source, ridges, problem.base, max_iter, spec.memory)
        ridge, start, whitening = choice.ridge, choice.start, choice.whitening
    solution = minimise_risk(risk, ridge, problem.base, tolerance(risk, _TOLERANCE), max_iter, start, whitening)
    if whitening is not None:  # it may be in single precision, and what that needed is not to be told
        solution = replace(solution, factor=whiten(risk, ridge, problem.base)[1])
    if solution.gradient <= _TOLERANCE:
        solution = replace(solution, stop_reason=StopReason.GRADIENT)
    return solution if fewer is None else replace(solution, v=Q @ solution.v)


@dataclass(frozen=True, slots=True)
class _Choice:
    """A ridge, and what is known of it by the way it was chosen.

    That is the mean squared error by output (n_outputs,) on rows held out, or the degrees of freedom of the fit.
    """

    ridge: float
    error: Array | None = None
    degrees_of_freedom: float | None = None


def best_ridge(
    source: BlockSource,
    features: RowFeatures,
    directions: Directions,
    importance: Array,
    equations: NormalEquations,
    system: RidgeSystem,
    spec: FitSpec,
    rng: np.random.Generator,
    executor: Executor,
) -> _Choice:
    """alpha S, S counting every draw; where alpha is to be chosen, the ridge of lowest error on rows not fitted.

    Generalised cross-validation, which needs no rows, was seen to choose too little where a few rows have a leverage
    far above the mean.
    """
    if spec.alpha is not None:
        return _Choice(spec.alpha * directions.n_draws)
    if equations.n_components > _FEW_UNKNOWNS and system.count > _FEW_ROWS:
        held_out = _hold_out(source, features, rng, executor).scale(importance)
        if 0 < held_out.weight < equations.weight:
            kept = (equations - held_out).system(spec.intercept)
            return _by_hold_out(kept, held_out, system.ridges()[::-1], executor)
    return _by_leave_one_out(source, features, importance, system, rng, executor)


def _by_leave_one_out(
    source: BlockSource,
    features: RowFeatures,
    importance: Array,
    system: RidgeSystem,
    rng: np.random.Generator,
    executor: Executor,
) -> _Choice:
    """The ridge of lowest leave-one-out error, summed over a sample of rows: one eigenvalue problem for all ridges."""
    spectrum, ridges = system.spectrum, system.ridges()

    def one(block: Block, scratch: Scratch) -> Array:
        z = scratch.array("z", (features.n_components, block.n_rows), source.dtype)
        features.features(block.X, z)
        z *= importance[:, None].astype(source.dtype)
        return spectrum.leave_one_out(ridges, z, block.y, block.weight)

    error = executor.reduce(source.sample(_JUDGED_ROWS, rng), one)
    best = ridges[[np.argmin(error)]]
    return _Choice(float(best[0]), degrees_of_freedom=float(spectrum.degrees_of_freedom(best)[0]))


def _hold_out(
    source: BlockSource, features: RowFeatures, rng: np.random.Generator, executor: Executor
) -> NormalEquations:
    """The equations of rows to judge by: a fifth of all, by what they contain, or a sample of many."""
    if source.n_samples > N_FOLDS * _JUDGED_ROWS:
        return sum_equations(source.sample(_JUDGED_ROWS, rng), features, executor)
    return sum_equations(_FirstFold(source), features, executor)


@dataclass(frozen=True, slots=True)
class _FirstFold(SourceView):
    """Of every block the rows of the first fold."""

    def seen(self, block: Block) -> Block:
        rows = np.flatnonzero(folds_of(block.X, N_FOLDS) == 0)
        return Block(block.X[rows], block.y[rows], None if block.weight is None else block.weight[rows])


def _by_hold_out(kept: RidgeSystem, held_out: NormalEquations, ridges: Array, executor: Executor) -> _Choice:
    """The ridge, of some in falling order, of lowest error on rows held out: a factorisation each.

    With many unknowns that takes a fraction of the time of their eigenvalues, and the rows enter by their sums alone.
    Of sums in single precision a ridge that is lost in their rounding is not considered.
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
        known.update(zip(places, executor.map(places, errors_at), strict=True))
        return [float(known[i].sum()) for i in places]

    middle = ridges.size // 2
    best = walk_downhill(ridges.size, total_at, [middle - 1, middle + 2], strides=(1,))
    return _Choice(float(ridges[best]), known[best])


def _of_ridge(activation: Activation, solution: RidgeSolution, layer: LastLayer) -> Fitted:
    return Fitted(
        activation,
        solution.v,
        solution.intercept,
        solution.ridge,
        solution.factor.remedy,
        layer,
        objective=solution.objective,
    )


def _of_risk(activation: Activation, solution: RiskSolution) -> Fitted:
    return Fitted(
        activation,
        solution.v,
        solution.intercept,
        solution.ridge,
        solution.factor.remedy,
        None,
        solution.stop_reason,
        solution.objective,
    )


def _noise(system: RidgeSystem, solution: RidgeSolution, choice: _Choice) -> Array:
    """Variance of the noise by output: the error on rows held out, or generalised cross-validation of the fit."""
    if choice.error is not None and np.isfinite(choice.error).all():
        return choice.error
    spent = choice.degrees_of_freedom
    return noise_variance(
        system, solution.mean_residual, solution.factor.degrees_of_freedom if spent is None else spent
    )


def _lost(equations: NormalEquations, v: Array, convex: RidgeSolution, spec: FitSpec) -> Array:
    """Mean squared residual by output that the activations kept have more than the convex solution."""
    kept = equations.system(spec.intercept)
    fit = np.einsum("mo,mo->o", v, 2 * kept.c - kept.G @ v)
    return np.maximum(kept.y_square - fit - convex.mean_residual, 0)
