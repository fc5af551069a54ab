"""Simpler models that compete with refined ones on the same rows held out.

    constant, linear, a sum of functions of single columns, such a sum with random directions

Under the squared loss each is one ridge, and what it says of a row without the row's fold has a closed form
(`Spectrum.leave_folds_out`); under other losses it is fitted without each fold (`rflaf.training.loss_rivals`). The mean
or a linear model is the answer where it does as well on the rows held out, so no answer is worse on them than these;
sums of functions are where they do better by a standard error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.densities import AxesFirst, Directions
from rflaf.functions.smooth_bases import FixedActivation
from rflaf.model.random_feature_model import Activation, RandomFeatureModel
from rflaf.training.solvers.refined.encoded_rows import read
from rflaf.training.solvers.refined.race import Settled
from rflaf.training.solvers.refined.search import Hunt
from rflaf.training.solvers.refined.smoothing import CLASSES

from .algorithm1 import run_algorithm1
from .doubt import Refits, share_kept
from .final_fit import FitResult
from .held_out import among_used, folds_of_splits, judged, report_held_out, rows_in_use
from .levels import hunt_on_indicators, on_codes, with_indicators
from .loss_rivals import constant_outputs, fit_judged, judge_by_folds
from .problem import Fit
from .signed_lines import fit_signed_lines, judge_signed_lines
from .specification import FEW_ROWS, FIRST_WIDTH, LEAST_REFINED_ROWS, SEARCH_ROWS, FitSpec

_log = logging.getLogger("rflaf")
LINES = FixedActivation("identity", (-1024.0, 1024.0))  # deviations of a column: followed far beyond the rows
_MEAN, LINEAR, ADDITIVE = "the mean", "a linear model", "functions of single columns"
_MOST_LINEAR_COLUMNS = 1000
_NO_WEIGHT = 1e9  # of the mean square of a column: a ridge that leaves nothing but the constant
_AS_GOOD = 1e-3  # of the error: a smaller difference decides nothing, and the simpler model is taken
_MOST_FOLDED_ANSWERS, _MOST_LINEAR_ANSWERS = 100_000, 2_000_000  # of all folds and outputs, without a closed form
_MOST_LINEAR_NUMBERS = 5_000_000  # of a table that is split once and fitted without a closed form


@dataclass(frozen=True, slots=True)
class Rival:
    """A simpler model: what it says of every row held out, with the loss, and how to fit it to all rows."""

    name: str
    outputs: Array
    losses: Array
    finish: Callable[[], FitResult]
    result: FitResult | None = None

    @property
    def error(self) -> float:
        return float(self.losses.mean())


def specifications(fit: Fit, n_answers: int = 0) -> list[tuple[str, FitSpec]]:
    """Return the simpler models, the simplest first; not those that take too long for ``n_answers`` of all folds."""
    n_features, models, few = fit.source.n_features, list[tuple[str, FitSpec]](), _for_few_rows(fit)
    if n_features <= _MOST_LINEAR_COLUMNS:
        random = few[-1]
        axes = replace(random, density=AxesFirst(fit.spec.density), n_components=n_features, basis=LINES, bandwidth=1.0)
        models = [(_MEAN, replace(axes, alpha=_NO_WEIGHT)), (LINEAR, axes)]
        models = models[:1] if n_answers > _MOST_LINEAR_ANSWERS else models
    if fit.spec.limits.signs:
        return models
    if fit.problem.moments.n_used > FEW_ROWS or n_answers > _MOST_FOLDED_ANSWERS:
        return models
    if len(few) == 1:
        return models if fit.spec.limits else [*models, ("random directions", few[0])]
    if fit.spec.limits:
        return [*models, (ADDITIVE, few[0])]
    return [*models, (ADDITIVE, few[0]), (f"{ADDITIVE} and random directions", few[1])]


def _for_few_rows(fit: Fit) -> list[FitSpec]:
    """Return models of given directions; half as many of them where outputs may need two shapes of each."""
    spec, n_features = fit.spec, fit.source.n_features
    if not fit.closed_form and fit.source.n_outputs > 1:
        width = FIRST_WIDTH if spec.n_components is None else spec.n_components
        halved = replace(spec, n_components=-(-width // 2))
        return halved.for_few_rows(n_features) if 2 * n_features <= width // 2 else spec.for_few_rows(n_features)[:1]
    return spec.for_few_rows(n_features)


def judge_rivals(fit: Fit, hunt: Hunt) -> list[Rival]:
    """Return the simpler models with what they say of the rows held out; none where the search has no folds."""
    if fit.spec.alpha is not None or not fit.spec.per_component:
        return []
    n_numbers = hunt.table.n_rows * fit.spec.n_drawn_for(fit.source.n_features)
    if not hunt.is_folded and (fit.closed_form or n_numbers > _MOST_LINEAR_NUMBERS):
        return []
    fit, hunt = with_indicators(fit), hunt_on_indicators(hunt, fit.spec.levels)
    if not hunt.is_folded:
        return _by_fits(fit, hunt)
    folds = folds_of_splits(hunt.splits, hunt.table.n_rows)
    if fit.closed_form and folds is not None and not fit.spec.limits.signs:
        return _in_closed_form(fit, hunt, folds)
    return _by_fits(fit, hunt)


def better_rival(fit: Fit, rivals: Sequence[Rival], found: Settled) -> FitResult | None:
    """Return a simpler model that is to be preferred by the rows held out; None if the refined one is the answer."""
    if not rivals or found.outliers is not None:
        return None
    losses = found.hunt.losses(found.shape.loss, found.outputs)[: rivals[0].losses.size]
    for rival in rivals:
        _log.info("search: out-of-fold error %.5g, %s", rival.error, rival.name)
    chosen = preferred_rival(fit, rivals, losses)
    if chosen is None:
        return None
    _log.info("search: %s does better on the rows held out", chosen.name)
    inside = with_indicators(fit)
    if chosen.result is not None:
        return on_codes(fit, inside, _answer(fit, chosen, chosen.result))
    hunt = found.hunt
    return _with_rows_held_out(fit, hunt, chosen, on_codes(fit, inside, _answer(fit, chosen, chosen.finish())))


def _with_rows_held_out(fit: Fit, hunt: Hunt, chosen: Rival, result: FitResult) -> FitResult:
    """Return the result with what the rival says of the rows held out."""
    rows = hunt.held_out[: chosen.losses.size]
    y, weight = hunt.table.y[rows], hunt.table.weight[rows]
    refits = Refits(share_kept(hunt, fit.problem.moments.n_used))
    result = replace(result, judged=judged(fit, hunt.table.X, rows, y, chosen.outputs, weight), refits=refits)
    if fit.source.n_samples > SEARCH_ROWS and fit.spec.splits is None:  # the search saw a sample of the rows
        return result
    used = rows_in_use(fit.source)[0]
    return replace(result, held_out=report_held_out(fit, chosen.outputs, used[rows], y, weight))


def best_of_simple(fit: Fit) -> FitResult:
    """Return the best of the simpler models for rows too few to train on some of them."""
    if fit.spec.limits and fit.source.n_features > _MOST_LINEAR_COLUMNS:
        rule = f"monotone and interactions need at least {LEAST_REFINED_ROWS} rows of more than {_MOST_LINEAR_COLUMNS}"
        raise InvalidParameterError(f"{rule} columns", fit.problem.moments.n_used, "Leave them out.")
    if fit.spec.limits.signs:
        return _best_of_signed(fit.respecified(alpha=None))
    models = specifications(fit)
    if fit.spec.alpha is not None or not fit.spec.per_component or not fit.closed_form:
        few = fit.spec.for_few_rows(fit.source.n_features)
        spec = dict(models)[LINEAR] if fit.spec.limits and len(few) == 1 else few[0]
        return run_algorithm1(replace(fit, spec=spec, judge=fit.closed_form))
    folds = np.arange(fit.source.n_samples)
    if fit.spec.splits is not None:
        given = folds_of_splits(fit.spec.splits, fit.source.n_samples)
        folds = folds if given is None else given
    rivals = [_left_out(fit, name, spec, folds) for name, spec in models]
    best = min(rivals, key=lambda rival: rival.error)
    chosen = _simplest(rivals, best.losses)
    answer = best if chosen is None else chosen
    assert answer.result is not None  # of a closed form
    return _answer(fit, answer, answer.result)


def preferred_rival(fit: Fit, rivals: Sequence[Rival], losses: Array) -> Rival | None:
    """Return the rival to prefer to a refined model of ``losses``, None if there is none."""
    strict = fit.closed_form or isinstance(fit.problem.loss, CLASSES)
    return chosen_rival(rivals, losses) if strict else _simplest(rivals, losses)


def _best_of_signed(fit: Fit) -> FitResult:
    """Return the constant or lines with signs, by every row left out in its turn, or by the splits given."""
    used, moments = rows_in_use(fit.source)[0], fit.problem.moments
    table = read(fit.source, range(len(fit.source)), moments.X.weight / moments.n_used)
    splits = tuple((np.delete(np.arange(used.size), row), np.array([row])) for row in range(used.size))
    if fit.spec.splits is not None:
        splits = among_used(fit.spec.splits, used, fit.source.n_samples)
    elif used.size == 1:  # nothing to judge lines by
        return run_algorithm1(replace(fit, spec=dict(specifications(fit))[_MEAN]))
    hunt = Hunt(table, moments.X.mean, moments.scale, splits, seed=0, effort=1.0)
    rivals = _by_fits(fit, hunt)
    chosen = _simplest(rivals, min(rivals, key=lambda rival: rival.error).losses)
    assert chosen is not None  # the best of them is as good as itself
    return _with_rows_held_out(fit, hunt, chosen, _answer(fit, chosen, chosen.finish()))


def chosen_rival(rivals: Sequence[Rival], losses: Array) -> Rival | None:
    """Return the rival to prefer to a refined model of ``losses``, of squares or of classes; None if there is none.

    The mean and a linear model are if they do as well. Sums of functions must do better by a standard error of the
    difference: their ridge was chosen on the rows that judge them.
    """
    chosen = _simplest([rival for rival in rivals if rival.name in (_MEAN, LINEAR)], losses)
    reference = losses if chosen is None else chosen.losses
    for rival in rivals:
        if rival.name in (_MEAN, LINEAR) or rival.error >= float(reference.mean()):
            continue
        gain = reference - rival.losses
        if gain.mean() > gain.std() / np.sqrt(gain.size):
            return rival
    return chosen


def _simplest(rivals: Sequence[Rival], losses: Array) -> Rival | None:
    """Return the simplest that is as good as the best of rivals and of ``losses``; None if only the latter are."""
    best = min([losses, *(rival.losses for rival in rivals)], key=np.mean)
    for rival in rivals:
        if rival.error <= (1 + _AS_GOOD) * float(best.mean()):
            return rival
    return None


def _in_closed_form(fit: Fit, hunt: Hunt, folds: Array) -> list[Rival]:
    """Return the simpler models, each fitted once, with their losses in the order of the rows held out."""
    used, _ = rows_in_use(fit.source)
    if used.size != hunt.table.n_rows:
        return []
    of_all = np.full(fit.source.n_samples, -1)
    of_all[used] = folds
    rivals = [_left_out(fit, name, spec, of_all) for name, spec in specifications(fit)]
    in_order = used[hunt.held_out]
    return [replace(rival, outputs=rival.outputs[in_order], losses=rival.losses[in_order]) for rival in rivals]


def _left_out(fit: Fit, name: str, spec: FitSpec, folds: Array) -> Rival:
    """Return a model fitted to all rows, with the loss of every row without its fold."""
    result = run_algorithm1(replace(fit, spec=spec, folds=folds))
    _, rows = rows_in_use(fit.source)
    assert result.left_out is not None  # the context asks for it
    losses = fit.problem.loss.value(result.left_out, rows.y.astype(np.float64))
    if rows.weight is not None:
        weight = rows.weight.astype(np.float64)
        losses = losses * weight * (np.count_nonzero(weight) / weight.sum())
    return Rival(name, result.left_out, losses, lambda: result, result)


def _by_fits(fit: Fit, hunt: Hunt) -> list[Rival]:
    """Return the simpler models, each with the ridge of lowest loss on the rows held out."""
    rivals, alone = list[Rival](), fit.respecified(splits=None)
    n_answers = sum(kept.size for kept, _ in hunt.splits) * fit.source.n_outputs
    for name, spec in specifications(alone, n_answers):
        finish = partial(run_algorithm1, replace(alone, spec=spec))
        if spec.alpha is not None:
            outputs = constant_outputs(fit, hunt)
        elif fit.spec.limits.signs:
            lines = judge_signed_lines(alone, spec, hunt)
            outputs, finish = lines.outputs, partial(fit_signed_lines, alone, lines)
        else:
            judged = judge_by_folds(alone, spec, hunt)
            outputs = judged.left_out.outputs
            finish = finish if fit.closed_form else partial(fit_judged, alone, judged)
        rivals.append(Rival(name, outputs, hunt.losses(fit.problem.loss, outputs), finish))
    return rivals


def _answer(fit: Fit, chosen: Rival, result: FitResult) -> FitResult:
    """Return the result; a linear model of more columns than components asked for is one component per output."""
    model, spec = result.model, fit.spec
    wide = spec.n_components is not None and model.n_components > spec.n_components
    if wide and model.activation.basis == LINES:
        model = as_one_component(model)
    if chosen.name == _MEAN:  # the ridge left rounding
        model = replace(model, v=np.zeros_like(model.v))
    return replace(result, model=model)


def as_one_component(model: RandomFeatureModel) -> RandomFeatureModel:
    """Return a linear model as one component per output, whose projections have the spread of the answers."""
    a, v, layer = model.activation.coefficients[:, 0], model.v * model.directions.importance[:, None], model.last_layer
    weights = v * a[:, None]
    size = np.linalg.norm(weights, axis=0)
    size = np.where(size > 0, size, 1.0)
    turn, width = weights / size, weights.shape[1]
    directions = Directions(model.directions.W @ turn, model.directions.offset @ turn, np.ones(width), width)
    if layer is not None:
        T = np.zeros((layer.equations.moments.shape[0], width + 1 + layer.equations.n_outputs))
        T[: len(turn), :width] = model.v / size
        T[len(turn) :, width:] = np.eye(1 + layer.equations.n_outputs)
        sums = replace(layer.equations, moments=T.T @ layer.equations.moments @ T)
        layer = replace(layer, equations=sums.answered_by(np.diag(size), layer.ridge, layer.intercept))
    activation = Activation(LINES, np.ones((1, 1)))
    return RandomFeatureModel(directions, activation, np.diag(size), model.intercept, None, layer)
