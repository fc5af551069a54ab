"""Simpler models under losses without a closed form: judged by folds, and fitted once they are chosen.

Directions do not depend on the targets, so one draw serves all folds. With several outputs, as of many classes, the
functions of a direction differ between outputs: each of their leading shapes becomes a component of its own, as long as
the width has room, so the model that is fitted is the one that was judged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rflaf.errors import Array
from rflaf.functions.densities import Directions
from rflaf.model.features import compile_map
from rflaf.model.random_feature_model import Activation
from rflaf.training.solvers.convex_loss import FoldedProblem, LeftOut, leave_folds_out
from rflaf.training.solvers.per_component import ExpandedMap, expand
from rflaf.training.solvers.refined.search import Hunt

from .final_fit import FitResult, Fitted, conclude, minimise_on, of_risk
from .pools import draw_pool
from .problem import Fit
from .specification import FIRST_WIDTH, FitSpec

_LEAST_SIZE = 1e-12  # of the largest: a shape of this size is rounding


@dataclass(frozen=True, slots=True)
class Judged:
    """A simpler model, judged: its draw, and what it says of the rows held out."""

    spec: FitSpec
    bandwidth: float
    directions: Directions
    left_out: LeftOut


def judge_by_folds(fit: Fit, spec: FitSpec, hunt: Hunt) -> Judged:
    """Return a model whose ridge is chosen on the rows that the splits of a hunt hold out."""
    inside, table = replace(fit, spec=spec), hunt.table
    bandwidth, directions = draw_pool(inside)
    features = expand(directions, spec.basis, fit.source.dtype)
    Z = features.features(table.X, np.empty((features.n_components, table.n_rows), fit.source.dtype)).T
    problem = FoldedProblem(
        Z, table.y, table.weight, hunt.splits, fit.problem.loss, fit.problem.base, fit.spec.intercept
    )
    return Judged(spec, bandwidth, directions, leave_folds_out(problem))


def constant_outputs(fit: Fit, hunt: Hunt) -> Array:
    """Return what the best constant answer without a fold says of its rows."""
    table = hunt.table
    answers = [
        np.broadcast_to(_constant(fit, table.y[kept], table.weight[kept]), (held_out.size, table.y.shape[1]))
        for kept, held_out in hunt.splits
    ]
    return np.concatenate(answers)


def _constant(fit: Fit, y: Array, weight: Array) -> Array:
    if not fit.spec.intercept:
        return np.zeros_like(fit.problem.base)
    return fit.problem.loss.constant(y.astype(np.float64), weight)


def fit_judged(fit: Fit, judged: Judged) -> FitResult:
    """Return a judged model fitted to all rows at the ridge it was judged by."""
    directions, ridge = judged.directions, judged.left_out.ridge
    alpha = ridge / directions.n_draws
    inside = replace(fit, spec=replace(judged.spec, splits=None, alpha=alpha))
    features = expand(directions, judged.spec.basis, fit.source.dtype)
    width = FIRST_WIDTH if fit.spec.n_components is None else fit.spec.n_components
    fitted, kept = _by_shapes(inside, directions, features, judged.left_out.start, width)
    model = fitted.model(kept, fit.problem.units)
    found = {"bandwidth": judged.bandwidth, "trace": np.array([fitted.objective]), "stop_reason": fitted.solved}
    return conclude(inside, fitted, model, alpha, **found)


def _by_shapes(
    fit: Fit, directions: Directions, features: ExpandedMap, start: tuple[Array, Array], width: int
) -> tuple[Fitted, Directions]:
    """Return the model with a component for every shape of a direction, of the largest as many as ``width``.

    Where some are left out, the output weights of the others are solved for again.
    """
    basis, n_outputs = fit.spec.basis, fit.source.n_outputs
    importance = np.repeat(directions.importance, basis.n_basis)
    convex = minimise_on(fit, directions, features, importance, start)
    if basis.n_basis == 1:
        return replace(of_risk(Activation(basis, features.T), convex), v=convex.v), directions
    theta = convex.v.reshape(directions.n_components, basis.n_basis, n_outputs)
    left, size, right = np.linalg.svd(theta, full_matrices=False)
    order = np.argsort(-size.ravel(), kind="stable")
    needed = max(1, int(np.count_nonzero(size > _LEAST_SIZE * size.max(initial=0.0))))
    direction, shape = np.divmod(np.sort(order[: min(needed, width)]), size.shape[1])
    kept = directions.take(direction, n_draws=directions.n_draws)
    shapes, v = left[direction, :, shape], size[direction, shape, None] * right[direction, shape]
    a = shapes @ features.T.T
    solution = convex
    if needed > width:
        chosen = compile_map(kept, basis.pieces(a), a, fit.source.dtype)
        solution = minimise_on(fit, kept, chosen, kept.importance, (v, convex.intercept))
        v = solution.v
    return replace(of_risk(Activation(basis, a), solution), v=v), kept
