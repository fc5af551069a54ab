"""Line 6 of Algorithm 1: the output weights of the components kept, on all rows.

The squared loss has a closed form, whose sums stay with the model as its last layer; any other loss is minimised by
passes over the rows (`rflaf.training.solvers.convex_loss`). The ridge is given, or chosen by the leave-one-out error in
closed form or on rows held out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rflaf.errors import Array, StopReason
from rflaf.functions.bases import Basis
from rflaf.functions.curves import ColumnCurves
from rflaf.functions.densities import Directions
from rflaf.functions.losses import Loss, Units
from rflaf.functions.smooth_bases import FixedActivation
from rflaf.model.features import RowFeatures, compile_map, sum_robust_equations
from rflaf.model.greedy import Selection
from rflaf.model.indicators import typical_row
from rflaf.model.last_layer import LastLayer, unscale_layer
from rflaf.model.normal_equations import NormalEquations
from rflaf.model.profile import Profile
from rflaf.model.random_feature_model import Activation, RandomFeatureModel
from rflaf.model.ridge import Remedy, RidgeSolution
from rflaf.rows.blocks import in_double_precision

from .doubt import Refits
from .held_out import (
    HeldOut,
    Judged,
    judge_left_out,
    judged,
    left_out_by_folds,
    noise_left_out,
    report_held_out,
    residual_lost,
    rows_in_use,
    rows_to_judge_by,
)
from .online import Terms
from .problem import Fit
from .ridge_rule import JUDGED_ROWS, RidgeChoice, best_ridge, by_leave_one_out, by_one_part, choose_jointly, noise_of
from .solvers.convex_loss import MadeRows, Risk, RiskSolution, choose_ridge, minimise_risk, on_row_space, ridge_grid
from .solvers.convex_loss.descent import tolerance, whiten
from .solvers.exact_search import ExactTask, descend
from .solvers.joint_model import JointSums
from .solvers.leverage import Leverage, Pool
from .solvers.per_component import ExpandedMap, expand, leading_shapes, solve_per_component
from .solvers.refined.encoded_rows import read
from .solvers.refined.search import Outliers, Trial
from .solvers.shared_activation import LearnedActivation, minimise_on_sphere
from .solvers.sparse_activation import minimise_sparse
from .solvers.whole_problem import Place, WholeProblem
from .solvers.whole_risk import WholeRisk

SAMPLE_ROWS = 2000  # to measure the importance of columns on
_FALL, _SPARSE_FALL = 1e-15, 1e-10  # of the objective in a step or a round, at which an exact descent ends
_TOLERANCE = 1e-5  # of the gradient at the constant answer


@dataclass(frozen=True, slots=True)
class Fitted:
    """Activations, output weights and intercept in the units of a problem, and how they were found.

    ``last_layer`` holds the sums behind a solution in closed form, ``solved`` why the search for any other ended,
    ``trace`` the objective at every step of an exact descent, ``left_out`` (n_samples, n_outputs) what the fit without
    a row's fold says of it, ``judged`` what the fit without a row says of it, where the context asks for them.
    """

    activation: Activation
    v: Array
    intercept: Array
    ridge: float = 0.0
    remedy: Remedy = Remedy.NONE
    last_layer: LastLayer | None = None
    solved: StopReason = StopReason.CONVEX
    objective: float = 0.0
    trace: tuple[float, ...] = ()
    left_out: Array | None = None
    judged: Judged | None = None

    def model(self, directions: Directions, units: Units, curves: ColumnCurves | None = None) -> RandomFeatureModel:
        """Return the model in the units of the targets, which are folded into output weights and intercept."""
        layer = None if self.last_layer is None else unscale_layer(self.last_layer, units.centre, units.scale)
        v, intercept = self.v * units.stretch, units.shift + units.stretch * self.intercept
        return RandomFeatureModel(directions, self.activation, v, intercept, curves, layer)


@dataclass(frozen=True, slots=True)
class FitResult:
    """A model and how it was found; ``beyond`` is the share of projections that a fixed activation does not follow."""

    model: RandomFeatureModel
    loss: Loss
    remedy: Remedy
    terms: Terms
    alpha: float
    bandwidth: float
    trace: Array
    stop_reason: StopReason
    column_importance: Array
    leverage: Leverage | None = None
    pool: Pool | None = None
    selection: Selection | None = None
    trials: tuple[Trial, ...] = ()
    outliers: Outliers | None = None
    beyond: float = 0.0
    left_out: Array | None = None
    held_out: HeldOut | None = None
    centre: Array | None = None
    judged: Judged | None = None
    profile: Profile | None = None
    refits: Refits | None = None


def conclude(fit: Fit, fitted: Fitted, model: RandomFeatureModel, alpha: float, **found: Any) -> FitResult:
    """Return the result of a fit, with the terms of later updates and the importance of the columns on a sample."""
    problem, sample = fit.problem, fit.source.sample(SAMPLE_ROWS, fit.rng)
    terms = Terms(problem.loss, fitted.ridge, problem.units, problem.moments.y.weight, fit.spec.intercept)
    rows = read(sample, range(len(sample)), 1.0).X
    if fitted.left_out is not None:
        used, all_rows = rows_in_use(fit.source)
        weight = np.ones(used.size) if all_rows.weight is None else all_rows.weight[used]
        found["held_out"] = report_held_out(fit, fitted.left_out[used], used, all_rows.y[used], weight)
        found["judged"] = judged(fit, all_rows.X, used, all_rows.y[used], fitted.left_out[used], weight)
    elif fitted.judged is not None:
        found["judged"] = fitted.judged
    measured: dict[str, Any] = {"column_importance": model.column_importance(rows), "beyond": _beyond(model, rows)}
    measured |= {"left_out": fitted.left_out, "centre": typical_row(problem.moments.X.mean, rows, fit.spec.levels)}
    measured["profile"] = Profile.of(rows, model.decision_of_sample(rows))
    return FitResult(model, problem.own_loss, fitted.remedy, terms, alpha=alpha, **measured, **found)


def _beyond(model: RandomFeatureModel, rows: Array) -> float:
    """Return the share of projections outside the interval of a fixed activation that is not constant there."""
    basis = model.activation.basis
    if not isinstance(basis, FixedActivation) or basis.constant_outside:
        return 0.0
    u, (low, high) = model.projections(rows), basis.interval
    return float(np.mean((u < low) | (u > high)))


def _of_shapes(basis: Basis, a: Array) -> Activation:
    """Return one activation per component; one for all where the basis has one shape only."""
    return Activation(basis, a[:1] if basis.n_basis == 1 else a)


def fit_shared(fit: Fit, directions: Directions, learned: LearnedActivation) -> Fitted:
    """Fit the output weights under one activation for all components: as learned, or the best of all on all rows."""
    if fit.spec.exact:
        return _descend_exactly(fit, directions, learned)
    spec, a = fit.spec, learned.a[None]
    features = compile_map(directions, spec.basis.pieces(a), a, fit.source.dtype)
    activation = Activation(spec.basis, a, learned.covariance)
    if not fit.closed_form:
        return of_risk(activation, minimise_on(fit, directions, features, directions.importance))
    equations = features.sum_equations(fit.source, fit.executor).scale(directions.importance)
    system = equations.system(spec.intercept)
    choice = best_ridge(fit, features, directions, directions.importance, equations, system)
    solution = system.solve(choice.ridge)
    layer = LastLayer(equations, choice.ridge, noise_of(system, solution, choice), spec.intercept)
    without = judge_left_out(fit, features, directions.importance, solution)
    return replace(_of_ridge(activation, solution, layer), judged=without)


def _descend_exactly(fit: Fit, directions: Directions, learned: LearnedActivation) -> Fitted:
    """Fit activation and output weights together, to the minimum on all rows and components."""
    if not fit.closed_form:
        return _descend_exactly_by_loss(fit, directions, learned)
    spec, choices = fit.spec, dict[float, RidgeChoice]()
    double = replace(fit, problem=replace(fit.problem, source=in_double_precision(fit.source)))
    one_part = spec.alpha is None and by_one_part(fit, directions.n_components, fit.source.n_samples)
    judges = rows_to_judge_by(fit, JUDGED_ROWS) if one_part else None

    def choose_ridge(a: Array, equations: NormalEquations) -> float:
        features = compile_map(directions, spec.basis.pieces(a[None]), a[None], double.source.dtype)
        system = equations.system(spec.intercept)
        return kept(best_ridge(double, features, directions, directions.importance, equations, system))

    def choose_by_slopes(problem: WholeProblem, place: Place, sums: JointSums) -> float:
        choice = None if judges is None else choose_jointly(problem, place, sums, judges)
        return choose_ridge(place.a, place.equations) if choice is None else kept(choice)

    def kept(choice: RidgeChoice) -> float:
        choices[choice.ridge] = choice
        return choice.ridge

    task = ExactTask(fit.source, directions, spec.basis, spec.intercept, fit.rng, fit.executor, spec.l1)
    alpha = learned.alpha if spec.alpha is None else spec.alpha
    descent = descend(task, learned.a, alpha * directions.n_draws, choose_ridge, choose_by_slopes)
    place, activation = descent.place, Activation(spec.basis, descent.place.a[None], learned.covariance)
    choice = choices.get(place.solution.ridge, RidgeChoice(place.solution.ridge))
    layer = LastLayer(place.equations, choice.ridge, noise_of(place.system, place.solution, choice), spec.intercept)
    features = compile_map(directions, spec.basis.pieces(activation.coefficients), place.a[None], fit.source.dtype)
    without = judge_left_out(fit, features, directions.importance, place.solution)
    fitted = replace(_of_ridge(activation, place.solution, layer), judged=without)
    return replace(fitted, solved=descent.stop_reason, trace=tuple(descent.trace))


def _descend_exactly_by_loss(fit: Fit, directions: Directions, learned: LearnedActivation) -> Fitted:
    """The same under any loss; its ridge is chosen under the activation learned before."""
    spec, problem = fit.spec, fit.problem
    sample = replace(fit, spec=replace(spec, exact=False))
    first = fit_shared(sample, directions, learned)
    risk = WholeRisk(
        fit.source, directions, spec.basis.pieces(), problem.loss, problem.base, first.ridge, spec.intercept,
        fit.executor, spec.memory, spec.search.max_iter,
    )  # fmt: skip
    steps = spec.search.max_iter
    if spec.l1 > 0:
        found = minimise_sparse(risk.evaluate, learned.a, spec.l1, steps, _SPARSE_FALL, minimise_on_sphere)
    else:
        found = minimise_on_sphere(risk.evaluate, learned.a, steps, _FALL, risk.metric(learned.a))
    a, trace, reason = found
    activation = Activation(spec.basis, a[None], learned.covariance)
    return replace(of_risk(activation, risk.solve(a)), solved=reason, trace=tuple(trace))


def fit_per_component(fit: Fit, directions: Directions) -> Fitted:
    """Fit one activation per component: a single convex problem."""
    spec = fit.spec
    features = expand(directions, spec.basis, fit.source.dtype)
    importance = np.repeat(directions.importance, spec.basis.n_basis)
    if not fit.closed_form:
        return _minimise_per_component(fit, directions, features, importance)
    equations = features.sum_equations(fit.source, fit.executor).scale(importance)
    system = equations.system(spec.intercept)
    choice = best_ridge(fit, features, directions, importance, equations, system)
    solution = system.solve(choice.ridge)
    learned = solve_per_component(equations, solution, features.T, spec.intercept)
    left_out = left_out_by_folds(fit, features, importance, system, choice.ridge)
    noise = noise_of(system, solution, choice) if left_out is None else noise_left_out(fit, left_out)
    noise += residual_lost(learned.equations, learned.v, solution, spec.intercept)
    layer = LastLayer(learned.equations, choice.ridge, noise, spec.intercept)
    fitted = _of_ridge(_of_shapes(spec.basis, learned.a), solution, layer)
    fitted = replace(fitted, judged=judge_left_out(fit, features, importance, solution))
    return replace(fitted, v=learned.v, intercept=learned.intercept, objective=learned.objective, left_out=left_out)


def _minimise_per_component(fit: Fit, directions: Directions, features: ExpandedMap, importance: Array) -> Fitted:
    """Fit one activation per component under any loss; if outputs share the activations, v is solved for again."""
    spec = fit.spec
    convex = minimise_on(fit, directions, features, importance)
    theta = convex.v.reshape(directions.n_components, -1, fit.source.n_outputs)
    shapes = leading_shapes(theta)
    a = shapes @ features.T.T
    if theta.shape[2] == 1:
        return replace(of_risk(_of_shapes(spec.basis, a), convex), v=np.einsum("mi,mio->mo", shapes, theta))
    kept = compile_map(directions, spec.basis.pieces(a), a, fit.source.dtype)
    same = fit.respecified(alpha=convex.ridge / directions.n_draws)
    start = np.einsum("mi,mio->mo", shapes, theta), convex.intercept
    return of_risk(_of_shapes(spec.basis, a), minimise_on(same, directions, kept, directions.importance, start))


def keep_trained(
    fit: Fit, features: RowFeatures, activation: Activation, v: Array, delta: float, noise: Array
) -> Fitted:
    """Return the last layer of features trained together with their output weights ``v`` (n_components, n_outputs).

    Solving for ``v`` again on the training rows overfits: no error on these rows shows the overfitting of the features.
    So the sums are those of targets whose solution is ``v``, and later rows, or fewer components, start from these.
    Rows whose residual exceeds ``delta`` weigh less.
    """
    intercept = fit.spec.intercept
    equations = sum_robust_equations(fit.source, features, v, delta, fit.executor)
    system = equations.system(intercept)
    alone = fit.respecified(splits=None)  # a ridge for later rows: those held out had no part in this choice
    ridge = by_leave_one_out(alone, features, np.ones(features.n_components), system).ridge
    kept = equations.answered_by(v, ridge, intercept)
    solution = kept.system(intercept).solve(ridge)
    fitted = _of_ridge(activation, solution, LastLayer(kept, ridge, noise, intercept))
    return replace(fitted, v=v, intercept=system.y_mean - system.z_mean @ v)  # a solution with a jitter has another


def minimise_on(
    fit: Fit, directions: Directions, features: RowFeatures, importance: Array, start: tuple[Array, Array] | None = None
) -> RiskSolution:
    """Minimise the regularised risk on given features; choose its ridge if none is given."""
    problem, spec = fit.problem, fit.spec
    made = MadeRows(fit.source, features, importance)
    risk = Risk.of_rows(made, problem.loss, spec.intercept, fit.executor, spec.memory)
    ridges = np.array([spec.alpha * directions.n_draws]) if spec.alpha is not None else ridge_grid(risk, problem.base)
    fewer = on_row_space(risk)
    if fewer is not None:
        risk, Q = fewer
        start = None if start is None else (Q.T @ start[0], start[1])
    max_iter = spec.search.max_iter
    ridge, whitening = float(ridges[0]), None
    if ridges.size > 1:
        scale = problem.moments.X.scale
        choice = choose_ridge(risk, fit.source, ridges, problem.base, max_iter, spec.memory, scale)
        ridge, start, whitening = choice.ridge, choice.start, choice.whitening
    solution = minimise_risk(risk, ridge, problem.base, tolerance(risk, _TOLERANCE), max_iter, start, whitening)
    if whitening is not None:  # its factor may be in single precision, whose remedy is not to be reported
        solution = replace(solution, factor=whiten(risk, ridge, problem.base)[1])
    if solution.gradient <= _TOLERANCE:
        solution = replace(solution, stop_reason=StopReason.GRADIENT)
    return solution if fewer is None else replace(solution, v=Q @ solution.v)


def _fitted(
    activation: Activation, solution: RidgeSolution | RiskSolution, layer: LastLayer | None, solved: StopReason
) -> Fitted:
    found = solution.v, solution.intercept, solution.ridge, solution.factor.remedy
    return Fitted(activation, *found, layer, solved, solution.objective)


def _of_ridge(activation: Activation, solution: RidgeSolution, layer: LastLayer) -> Fitted:
    return _fitted(activation, solution, layer, StopReason.CONVEX)


def of_risk(activation: Activation, solution: RiskSolution) -> Fitted:
    """Return what a solution for given features says of a fit."""
    return _fitted(activation, solution, None, solution.stop_reason)
