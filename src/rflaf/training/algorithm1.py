"""Algorithm 1 of the paper, line by line.

`run_algorithm1` is the algorithm; `_keep_by_leverage` is its lines 2 to 5. Everything reads the rows through blocks and
draws random numbers from one generator, so a seed fixes the model whatever the number of threads; another block size
changes the sums only by rounding.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from rflaf.errors import Array, StopReason
from rflaf.functions.densities import Directions
from rflaf.model.greedy import Selection
from rflaf.theory import leverage_advice
from rflaf.training.solvers.leverage import Leverage, Pool, resample
from rflaf.training.solvers.shared_activation import LearnedActivation

from .final_fit import FitResult, Fitted, conclude, fit_per_component, fit_shared
from .first_fit import fit_pool, report_pool
from .levels import on_indicators
from .pools import draw_activations, draw_pool, enough_components, learn_activation, select_pool
from .problem import Fit

_log = logging.getLogger("rflaf")


def run_algorithm1(fit: Fit) -> FitResult:
    """Run lines 1 to 6; plain sampling is lines 1 and 6.

    Greedy selection replaces lines 3 to 5, and one activation per component replaces the shared one in line 6. Under
    another loss than the squared one, lines 2 and 6 minimise that loss. Directions are drawn for indicators of levels.
    """
    return on_indicators(fit, _run)


def _run(fit: Fit) -> FitResult:
    """Run all lines on columns of numbers."""
    n_columns, n_rows = fit.source.n_features, fit.source.n_samples
    # Line 1: draw a pool of directions w ~ p(w), for standardised inputs at a length scale of the data.
    bandwidth, pool = draw_pool(fit)
    _log.info("drew %d directions for %d columns, bandwidth %.3g", fit.spec.n_pool, n_columns, bandwidth)
    # Lines 2 to 5: choose the components to keep.
    kept = _SAMPLING[fit.spec.sampling](fit, pool)
    # Line 6: learn the activation of the components kept, and their output weights on all rows.
    fitted, trace, reason = _solve(fit, kept)
    model = fitted.model(kept.directions, fit.problem.units)
    alpha = fitted.ridge / kept.directions.n_draws
    _log.info("solved for %d output weights on %d rows, alpha %.3g", model.n_components, n_rows, alpha)
    search = {"bandwidth": bandwidth, "trace": trace, "stop_reason": reason}
    return conclude(
        fit, fitted, model, alpha, **search, leverage=kept.leverage, pool=kept.pool, selection=kept.selection
    )


@dataclass(frozen=True, slots=True)
class _Kept:
    """The components to fit, an activation to start from, and the scores they were chosen by."""

    directions: Directions
    start: LearnedActivation | None = None
    leverage: Leverage | None = None
    pool: Pool | None = None
    selection: Selection | None = None


def _keep_first(fit: Fit, pool: Directions) -> _Kept:
    """Plain sampling: keep the whole pool, or as many of its first directions as are enough."""
    return _Kept(pool) if fit.spec.n_components is not None else _keep_enough(fit, pool)


def _keep_enough(fit: Fit, pool: Directions) -> _Kept:
    """Keep the first directions of the pool, as many as bring the error within the tolerance of the lowest."""
    first = pool.take(np.arange(min(fit.spec.widest, pool.n_components)))
    start = learn_activation(fit, first)
    width = enough_components(fit, first, start).best_width(fit.spec.width_tolerance)
    _log.info("chose a width of %d components", width)
    return _Kept(first.take(np.arange(width)), start)


def _keep_by_leverage(fit: Fit, pool: Directions) -> _Kept:
    """Lines 2 to 5: draw components in proportion to their leverage scores, as many as plain sampling needs."""
    width, start = fit.spec.n_components, None
    if width is None:
        enough = _keep_enough(fit, pool)
        width, start = enough.directions.n_components, enough.start
    # Line 2: fit the pool and keep its activation.
    fitted = fit_pool(fit, pool, start)
    _log.info("learned the activation of the pool: %s", fitted.activation.stop_reason.value)
    # Line 3: ridge leverage scores of the pool under that activation.
    leverage = fitted.scores(fit)
    _log.info("scored the pool: effective dimension %.1f", leverage.effective_dimension)
    _log.info("%s", leverage_advice(leverage.spread))
    # Lines 4 and 5: draw components in proportion to their scores, weights sqrt(p/q).
    directions, leverage = resample(pool, leverage, width, fit.rng, fit.spec.replace)
    return _Kept(directions, fitted.activation, leverage, report_pool(fit, pool, fitted, leverage, directions))


def _keep_greedily(fit: Fit, pool: Directions) -> _Kept:
    """Instead of lines 3 to 5: keep, one by one, the components that lower the error most."""
    approximate = None if fit.spec.per_component else learn_activation(fit, pool)
    a = draw_activations(pool, fit.spec.basis, fit.rng) if approximate is None else approximate.a[None]
    selection = select_pool(fit, pool, a)
    chosen = fit.spec.n_components is None
    width = selection.best_width(fit.spec.width_tolerance) if chosen else selection.order.size
    _log.info("selected %d of %d components greedily", width, fit.spec.n_pool)
    return _Kept(pool.take(selection.order[:width]), approximate, selection=selection)


_SAMPLING = {"plain": _keep_first, "leverage": _keep_by_leverage, "greedy": _keep_greedily}


def _solve(fit: Fit, kept: _Kept) -> tuple[Fitted, Array, StopReason]:
    """Line 6: return activation and output weights, the objective at every step, and why the search ended."""
    if fit.spec.per_component:
        fitted = fit_per_component(fit, kept.directions)
        return fitted, np.array([fitted.objective]), fitted.solved
    learned = learn_activation(fit, kept.directions, kept.start)
    _log.info("learned the activation in %d steps: %s", len(learned.trace) - 1, learned.stop_reason.value)
    fitted = fit_shared(fit, kept.directions, learned)
    if fitted.trace and learned.stop_reason is not StopReason.NOTHING_TO_LEARN:
        _log.info("descended on all rows in %d steps: %s", len(fitted.trace) - 1, fitted.solved.value)
        return fitted, np.array(fitted.trace), fitted.solved
    return fitted, learned.trace, fitted.solved if fitted.solved is StopReason.ITERATIONS else learned.stop_reason
