"""The mean of a refined model and of simpler ones that the rows held out cannot tell from it, as one model.

    f = 1/K sum_k f_k,        k of: refined, linear, a sum of functions of single columns

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
from .rivals import ADDITIVE, LINEAR, Rival, as_one_component, chosen_rival

_log = logging.getLogger("rflaf")
_MOST_WORSE = 1.5  # times the error of the best, at most
_PAYS, _PAYS_OVER_A_LINE = 0.005, 0.05  # of the error: what the mean must win on the rows held out
_MOST_SHARE = 0.5  # of the components, for the simpler models
_REACH = 4.0  # half-ranges of the projections that a line is followed to


@dataclass(frozen=True, slots=True)
class Blend:
    """What the mean says of the rows held out, with a narrower refined part; the simpler models, and as its parts."""

    found: Settled
    rivals: tuple[Rival, ...]
    parts: tuple[Refined, ...]

    def joined(self, refined: Refined) -> Refined:
        """Return the mean of a refined model and the simpler parts."""
        return merge_models([refined, *self.parts])


def blend(fit: Fit, rivals: Sequence[Rival], found: Settled) -> Blend | None:
    """Return the simpler models to blend a refined one with; None if one of all does as well alone."""
    if not fit.closed_form or found.outliers is not None or found.shape.whole or not rivals:
        return None
    losses = found.hunt.losses(found.shape.loss, found.outputs)
    if rivals[0].losses.size != losses.size:
        return None
    alone = chosen_rival(rivals, losses)
    if alone is not None and alone.name not in (LINEAR, ADDITIVE):
        return None
    # Other bases have no line.
    kinds = (LINEAR, ADDITIVE) if isinstance(fit.spec.basis, BSplineBasis) else (ADDITIVE,)
    members = _as_good([rival for rival in rivals if rival.name in kinds], losses)
    outputs = np.mean([found.outputs, *(rival.outputs for rival in members)], axis=0)
    error = found.hunt.mean_loss(found.shape.loss, outputs)
    pays = _PAYS if alone is None or alone.name != LINEAR else _PAYS_OVER_A_LINE
    if not members or error > (1 - pays) * float((losses if alone is None else alone.losses).mean()):
        return None
    mean = with_indicators(fit).problem.moments.X.mean
    parts = tuple(_part(fit, rival, mean, found.hunt.table.X) for rival in members)
    width = found.shape.n_components - sum(part.directions.n_components for part in parts)
    if width < (1 - _MOST_SHARE) * found.shape.n_components:
        return None
    _log.info("search: out-of-fold error %.5g, the mean with %s", error, " and ".join(rival.name for rival in members))
    return Blend(replace(found, outputs=outputs, shape=replace(found.shape, n_components=width)), tuple(members), parts)


def _as_good(rivals: Sequence[Rival], losses: Array) -> list[Rival]:
    """Return the rivals that cannot be told from the best; none if a refined model of ``losses`` can be."""
    best = min([losses, *(rival.losses for rival in rivals)], key=np.mean)
    as_good = [rival for rival in rivals if _is_as_good(rival.losses, best)]
    return as_good if _is_as_good(losses, best) else []


def _is_as_good(losses: Array, best: Array) -> bool:
    if not np.isfinite(losses).all():
        return False
    return not is_told_from(losses, best) and bool(losses.mean() <= _MOST_WORSE * best.mean())


def _part(fit: Fit, rival: Rival, mean: Array, X: Array) -> Refined:
    """Return a simpler model in the units of a fit and the basis of its refined models; ``mean`` is of indicators."""
    model = rival.finish().model
    if rival.name == LINEAR:
        model = as_one_component(model)
    if any(fit.spec.levels):
        model = fold_indicators(model, fit.spec.levels, mean)
    stretch = fit.problem.units.stretch
    V = model.v * model.directions.importance[:, None] / np.where(stretch != 0, stretch, 1.0)
    part = Refined(_even(model.directions), model.curves, model.activation.coefficients, V)
    width, n_basis = model.n_components, fit.spec.basis.n_basis
    if rival.name == LINEAR:
        return _line_in(fit.spec.basis, part, model, X)
    return replace(part, a=np.array(np.broadcast_to(part.a, (width, n_basis))))


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
    a = np.tile(averages, (len(part.V), 1))
    return Refined(directions, curves, a, part.V / shrink[:, None] * model.activation.coefficients[:, :1])
