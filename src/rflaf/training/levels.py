"""Categories where directions are drawn before any training: one column per level, and back.

A column of codes means nothing to a random direction, so these are drawn for indicators of the levels. The indicators
of a category have a total variance of at most one, so that it counts as one column. A weight per level is a curve on
the codes (`rflaf.functions.curves`), so the model found takes codes, as every model does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from rflaf.model.indicators import fold_indicators, typical_row
from rflaf.model.profile import Profile
from rflaf.rows.indicators import Indicators, codes_of, indicators

from .final_fit import SAMPLE_ROWS, FitResult
from .problem import Fit, measure_finite
from .solvers.refined.encoded_rows import read
from .solvers.refined.search import Hunt


def on_indicators(fit: Fit, run: Callable[[Fit], FitResult]) -> FitResult:
    """Return the result of a fit on indicators as one for codes."""
    inside = with_indicators(fit)
    return on_codes(fit, inside, run(inside))


def with_indicators(fit: Fit) -> Fit:
    """Return the context with one column per level instead of codes; itself where there are no codes."""
    problem, levels = fit.problem, fit.spec.levels
    if not any(levels):
        return fit
    source, proxy = Indicators(problem.source, levels), Indicators(problem.proxy, levels)
    if problem.proxy is problem.source:
        proxy = source
    measured = measure_finite(source, fit.executor)
    moments = replace(problem.moments, X=measured.X, range=measured.range)
    problem = replace(problem, source=source, proxy=proxy, moments=moments)
    limits = replace(fit.spec.limits, signs=_signs_of_numbers(fit.spec.limits.signs, levels))
    return replace(fit.respecified(levels=(), limits=limits), problem=problem)


def _signs_of_numbers(signs: tuple[tuple[int, int], ...], levels: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return the columns of numbers to rise or fall in by their places beside indicators."""
    first = np.concatenate([[0], np.cumsum([n_levels or 1 for n_levels in levels])])
    return tuple((int(first[column]), sign) for column, sign in signs)


def hunt_on_indicators(hunt: Hunt, levels: tuple[int, ...]) -> Hunt:
    """Return a hunt for models of indicators, on the same splits."""
    if not any(levels):
        return hunt
    return replace(hunt, table=replace(hunt.table, X=indicators(hunt.table.X, levels), levels=()))


def on_codes(fit: Fit, inside: Fit, result: FitResult) -> FitResult:
    """Return the result of the context ``inside``, of indicators, as one for rows of codes."""
    if inside is fit:
        return result
    model = fold_indicators(result.model, fit.spec.levels, inside.problem.moments.X.mean)
    sample = fit.source.sample(SAMPLE_ROWS, fit.rng)
    rows = read(sample, range(len(sample)), 1.0).X
    centre = typical_row(fit.problem.moments.X.mean, rows, fit.spec.levels)
    judged = result.judged
    if judged is not None:
        result = replace(result, judged=replace(judged, X=codes_of(judged.X, fit.spec.levels)))
    profile = Profile.of(rows, model.decision_of_sample(rows))
    result = replace(result, profile=profile)
    return replace(result, model=model, column_importance=model.column_importance(rows), centre=centre)
