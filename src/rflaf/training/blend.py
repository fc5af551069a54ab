"""The mean of a refined model and of simpler ones that the rows held out cannot tell from it, as one model.

    f = 1/K sum_k f_k,        k of: refined, linear, a sum of functions of single columns

of outputs: answers under the squared loss, log odds of classes, log means of counts.

Where rows are few or noisy, models of several kinds do equally well on the rows held out, and err on different rows:
their mean errs less than any of them. All are sums of components of one basis, so their mean is one too, of the width
asked for: the refined part has the components that the simpler ones leave. A line is a B-spline on its interval, which
the projections of the rows fill to a quarter; beyond four times their range the answer stays constant.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rflaf.errors import Array
from rflaf.functions.bases import Basis, BSplineBasis
from rflaf.functions.curves import ColumnCurves
from rflaf.functions.densities import Directions
from rflaf.model.indicators import fold_indicators
from rflaf.model.random_feature_model import RandomFeatureModel
from rflaf.training.solvers.refined.ensemble import merge_models
from rflaf.training.solvers.refined.race import Settled, is_told_from
from rflaf.training.solvers.refined.trainer import Refined

from .levels import with_indicators
from .problem import Fit
from .rivals import ADDITIVE, LINEAR, Rival, as_one_component, preferred_rival

_log = logging.getLogger("rflaf")
_MOST_WORSE = 1.5  # times the error of the best, at most
_PAYS, _PAYS_OVER_A_LINE = 0.005, 0.05  # of the error: what the mean must win on the rows held out
_MOST_SHARE = 0.5  # of the components, for the simpler models
_REACH = 4.0  # half-ranges of the projections that a line is followed to


@dataclass(frozen=True, slots=True)
class Blend:
    """What the mean says of the rows held out, with a narrower refined part; the simpler models, and as its parts.

    ``intercepts`` (n_parts, n_outputs) are those of the simpler models, in the units of the problem.
    """

    found: Settled
    rivals: tuple[Rival, ...]
    parts: tuple[Refined, ...]
    intercepts: Array

    def joined(self, refined: Refined) -> Refined:
        """Return the mean of a refined model and the simpler parts."""
        return merge_models([refined, *self.parts])

    def intercept(self, base: Array) -> Array:
        """Return the intercept of the mean, (n_outputs,), where that of the refined model is ``base``."""
        return np.asarray(np.mean([base, *self.intercepts], axis=0))


def blend(fit: Fit, rivals: Sequence[Rival], found: Settled) -> Blend | None:
    """Return the simpler models to blend a refined one with; None if one of all does as well alone."""
    if found.outliers is not None or found.shape.whole or not rivals:
        return None
    losses = found.hunt.losses(found.shape.loss, found.outputs)
    if rivals[0].losses.size != losses.size:
        return None
    alone = preferred_rival(fit, rivals, losses)
    if alone is not None and alone.name not in (LINEAR, ADDITIVE):
        return None
    # Other bases have no line.
    kinds = (LINEAR, ADDITIVE) if isinstance(fit.spec.basis, BSplineBasis) else (ADDITIVE,)
    members = _as_good([rival for rival in rivals if rival.name in kinds], losses)
    pays = _PAYS if alone is None or alone.name != LINEAR else _PAYS_OVER_A_LINE
    most = (1 - pays) * float((losses if alone is None else alone.losses).mean())
    for some in (members, *([rival] for rival in members if len(members) > 1)):
        mixed = _mean_with(fit, some, found)
        if mixed is not None and mixed.found.error <= most:
            names = " and ".join(rival.name for rival in some)
            _log.info("search: out-of-fold error %.5g, the mean with %s", mixed.found.error, names)
            return mixed
    return None


def _mean_with(fit: Fit, rivals: Sequence[Rival], found: Settled) -> Blend | None:
    """Return the mean of a refined model with some simpler ones; None where these leave it too few components."""
    outputs = np.mean([found.outputs, *(rival.outputs for rival in rivals)], axis=0)
    mean = with_indicators(fit).problem.moments.X.mean
    models = [_model_of(fit, rival, mean) for rival in rivals]
    parts = tuple(_part(fit, rival, model, found.hunt.table.X) for rival, model in zip(rivals, models, strict=True))
    width = found.shape.n_components - sum(part.directions.n_components for part in parts)
    if not rivals or width < (1 - _MOST_SHARE) * found.shape.n_components:
        return None
    narrower = replace(found, outputs=outputs, shape=replace(found.shape, n_components=width))
    intercepts = np.array([(model.intercept - fit.problem.units.shift) / _stretch(fit) for model in models])
    return Blend(narrower, tuple(rivals), parts, intercepts)


def _as_good(rivals: Sequence[Rival], losses: Array) -> list[Rival]:
    """Return the rivals that cannot be told from the best; none if a refined model of ``losses`` can be."""
    best = min([losses, *(rival.losses for rival in rivals)], key=np.mean)
    as_good = [rival for rival in rivals if _is_as_good(rival.losses, best)]
    return as_good if _is_as_good(losses, best) else []


def _is_as_good(losses: Array, best: Array) -> bool:
    if not np.isfinite(losses).all():
        return False
    return not is_told_from(losses, best) and bool(losses.mean() <= _MOST_WORSE * best.mean())


def _model_of(fit: Fit, rival: Rival, mean: Array) -> RandomFeatureModel:
    """Return a simpler model fitted to all rows, of codes; ``mean`` is of indicators."""
    model = rival.finish().model
    if rival.name == LINEAR:
        model = as_one_component(model)
    return fold_indicators(model, fit.spec.levels, mean) if any(fit.spec.levels) else model


def _part(fit: Fit, rival: Rival, model: RandomFeatureModel, X: Array) -> Refined:
    """Return a simpler model, without its intercept, in the units of a fit and the basis of its refined models."""
    V = model.v * model.directions.importance[:, None] / _stretch(fit)
    part = Refined(_even(model.directions), model.curves, model.activation.coefficients, V)
    width, n_basis = model.n_components, fit.spec.basis.n_basis
    if rival.name == LINEAR:
        return _line_in(fit.spec.basis, part, model, X)
    return replace(part, a=np.array(np.broadcast_to(part.a, (width, n_basis))))


def _stretch(fit: Fit) -> Array:
    """Return what the units of a problem are of those of the targets, (n_outputs,)."""
    stretch = fit.problem.units.stretch
    return np.asarray(np.where(stretch != 0, stretch, 1.0))


def _even(directions: Directions) -> Directions:
    """Return directions whose importance is one: it is in the output weights."""
    width = directions.n_components
    return Directions(directions.W, directions.offset, np.ones(width), width)


def _line_in(basis: Basis, part: Refined, model: RandomFeatureModel, X: Array) -> Refined:
    """Return lines as components of B-splines, which give a line exactly by their averages of knots."""
    assert isinstance(basis, BSplineBasis)  # others are not blended with lines
    u = model.projections(X.astype(np.float64))
    low, high = u.min(axis=0), u.max(axis=0)
    centre, half = (low + high) / 2, np.where(high > low, (high - low) / 2, 1.0)
    ends = basis.interval
    shrink = (ends[1] - ends[0]) / 2 / (_REACH * half)
    offset = (part.directions.offset - centre) * shrink + (ends[0] + ends[1]) / 2
    directions = replace(part.directions, W=part.directions.W * shrink, offset=offset)
    curves = None if part.curves is None else ColumnCurves(part.curves.knots, part.curves.values * shrink)
    averages = ends[0] + basis.step * (np.arange(basis.n_basis) - (basis.degree - 1) / 2)
    a = averages + (centre * shrink - (ends[0] + ends[1]) / 2)[:, None]  # B-splines sum to one
    return Refined(directions, curves, a, part.V / shrink[:, None] * model.activation.coefficients[:, :1])
