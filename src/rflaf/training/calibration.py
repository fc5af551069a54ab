"""Intervals from rows held out: a small model of the size of their errors, and how far errors reach in its units.

The spread is log s(x) = c + g_0(m(x)) + sum_j g_j(x_j), one ridge for max(log |y - m|, a floor): a sum of functions of
the prediction and of the strongest columns, if it explains the sizes of errors of other rows better than a constant.
A row is judged by the spread that was fitted without the row's fold, which has a closed form. A category is read by the
mean of log |y - m| at its levels, shrunken and cross-fitted as statistics of the target are (`rflaf.rows.tables`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import get_ident

import numpy as np

from rflaf.errors import Array
from rflaf.functions.densities import AxesFirst, Gaussian
from rflaf.functions.losses import Logistic, Loss, Softmax, Squared, quantiles
from rflaf.model.indicators import fold_values
from rflaf.model.intervals import ErrorBands, Radii, Spread, inputs_of
from rflaf.model.profile import Profile
from rflaf.model.random_feature_model import RandomFeatureModel
from rflaf.rows.blocks import ArraySource
from rflaf.rows.executors import ThreadExecutor
from rflaf.rows.folds import folds_of
from rflaf.rows.tables.statistics import N_FOLDS, LevelSums

from .algorithm1 import run_algorithm1
from .final_fit import FitResult
from .held_out import FewerRows, Judged, mean_loss
from .problem import Fit, state_problem
from .specification import FitSpec

_log = logging.getLogger("rflaf")
_LEAST_ROWS = 100  # to follow the row by: fewer have one spread
_MOST_CANDIDATES, _MOST_COLUMNS, _MOST_ANSWERS = 200, 15, 4
_FLOOR = 0.3  # of the median error: what is smaller says little of the spread
_FOLDS = 10
_TINY = np.finfo(float).tiny
_PAYS = 1e-3  # of the error: a smaller gain leaves the spread constant
_FAR_OUT = 1.5  # times the size of errors over that of scores: what the usual size may be at most
_GRID = np.append(np.linspace(0.05, 0.95, 19), 1.0)  # of levels; the farthest errors are too few to tell a ratio
_CHOSEN = 0.03  # of the errors: about by how much they are smaller on the rows that chose the recipe
_LEAST_GAIN = 0.9  # errors that fall faster, as where there is no noise, fall too irregularly to be foretold
SPREAD_MEMORY = 2**26  # bytes that suffice to fit a spread


def profile_of(result: FitResult) -> Profile | None:
    """Return the profile of the rows of a fit, with the mean loss of those held out."""
    if result.profile is None or (result.held_out is None and result.judged is None):
        return result.profile
    error = mean_loss(result.judged, result.loss) if result.held_out is None else result.held_out.error
    return replace(result.profile, error=error)


def error_bands(judged: Judged, loss: Loss, importance: Array, levels: Sequence[int] = ()) -> ErrorBands | None:
    """Return intervals from rows held out; None without rows.

    ``importance`` (n_features,) ranks the columns; ``levels`` are how many the codes of each stand for, 0 for numbers.
    """
    if not judged.rows.size:
        return None
    error, columns = _errors(judged, loss), candidates(importance)
    Z = inputs_of(judged.X[judged.rows], judged.f, columns)
    spread, size = _fit_spread(Z, error, judged.weight, columns, levels)
    bands = bands_of(error / size, size, judged.weight, spread, loss.symmetric)
    if judged.fewer is None or not loss.symmetric:
        return bands
    nearer = bands.below.times(_GRID, _gains(judged, judged.fewer, loss, size))
    return replace(bands, below=nearer, above=nearer)


def _gains(judged: Judged, fewer: FewerRows, loss: Loss, size: Array) -> Array:
    """Return what scores of the final model are of those of rows held out, at the levels of the grid, at most one.

    Scores of models of fewer rows tell how they fall with the number of rows. The rows held out also chose the recipe,
    and noise does not fall: a gain counts as far as it exceeds what these make of it.
    """
    k = len(fewer.f)
    rows = replace(judged, rows=judged.rows[:k], y=judged.y[:k], weight=judged.weight[:k])
    rows = rows if judged.precision is None else replace(rows, precision=judged.precision[:k])
    of_folds, of_fewer = (
        Radii.of(np.abs(_errors(replace(rows, f=f), loss)) / size[:k], rows.weight) for f in (judged.f[:k], fewer.f)
    )
    ratios = [of_folds.at(level) / np.maximum(of_fewer.at(level), _TINY) for level in _GRID[:-1]]
    gains = np.clip((1 + _CHOSEN) * np.array(ratios) ** fewer.power, _LEAST_GAIN, 1.0)
    return np.vstack([gains, np.ones(gains.shape[1])])


def bands_of_one_width(judged: Judged, loss: Loss) -> ErrorBands | None:
    """Return intervals from rows held out that are as wide at every row; None without rows."""
    if not judged.rows.size:
        return None
    error = _errors(judged, loss)
    return bands_of(error, np.ones_like(error), judged.weight, constant_spread(error.shape[1]), loss.symmetric)


def _errors(judged: Judged, loss: Loss) -> Array:
    """Return what the middle of the answers is off by at the rows held out, (n_rows, n_outputs) at precision one."""
    middle = loss.middle(judged.f)
    error = np.asarray(judged.y[:, : middle.shape[1]] - middle)
    return error if judged.precision is None else error * np.sqrt(judged.precision)[:, None]


def fit_spread_apart(
    Z: Array, error: Array, weight: Array, columns: Array, levels: Sequence[int] = ()
) -> tuple[Spread, Array]:
    """Return a spread fitted to half of the rows, and which rows (n_rows,) are left to judge it.

    Few rows all judge a constant one. ``Z`` is what `inputs_of` gives for ``columns``.
    """
    used, half = weight > 0, folds_of(Z, 2) == 0
    fitted, judges = used & half, used & ~half
    if np.count_nonzero(fitted) < _LEAST_ROWS or not judges.any():
        return constant_spread(error.shape[1]), used
    return _fit_spread(Z[fitted], error[fitted], weight[fitted], columns, levels)[0], judges


def candidates(importance: Array) -> Array:
    """Return the numbers of columns that a spread may read, in order: those that move the prediction most, and others.

    >>> candidates(np.array([0.2, 0.0, 0.8]))
    array([0, 1, 2])
    """
    return np.sort(np.argsort(-importance, kind="stable")[:_MOST_CANDIDATES])


def label_radii(judged: Judged, loss: Loss, of_class: Array | None) -> Radii | None:
    """Return how unlikely the labels of rows held out were; ``of_class`` (n_classes,) is undone in the weights."""
    if not judged.rows.size:
        return None
    label = np.argmax(judged.y, axis=1) if judged.y.shape[1] > 1 else judged.y[:, 0].astype(int)
    weight = judged.weight if of_class is None else judged.weight / of_class[label]
    scores = label_scores(judged.f, loss)
    return Radii.of(scores[np.arange(len(label)), label][:, None], weight)


def label_scores(f: Array, loss: Loss) -> Array:
    """Return how far every label is from certain, (n_rows, n_classes): one minus its probability, or minus a margin."""
    f = np.asarray(f, np.float64)
    if isinstance(loss, Logistic | Softmax):
        p = loss.mean(f)
        return 1 - (np.hstack([1 - p, p]) if p.shape[1] == 1 else p)
    return -(np.hstack([-f, f]) if f.shape[1] == 1 else f)


def bands_of(scores: Array, size: Array, weight: Array, spread: Spread, symmetric: bool) -> ErrorBands:
    """Return intervals from scores (y - m) / s and sizes s of rows, (n_rows, n_outputs) each."""
    sides = (np.abs(scores),) * 2 if symmetric else (-scores, scores)
    below, above = (Radii.of(side, weight) for side in sides)
    deviation, of_errors, of_sizes = (
        np.sqrt(np.average(part**2, axis=0, weights=weight)) for part in (scores, scores * size, size)
    )
    # Deviations that follow the sizes have the root mean square of the errors; but a single row far out may have nearly
    # all of that of the sizes, and would shrink the deviations of all others.
    most = _FAR_OUT * of_errors / np.where(deviation > 0, deviation, 1.0)
    typical = np.where(deviation > 0, np.minimum(of_sizes, most), of_sizes)
    return ErrorBands(spread, below, above, symmetric, typical, deviation)


def constant_spread(n_outputs: int) -> Spread:
    """Return the spread that is one everywhere."""
    return Spread(np.zeros(0, np.intp), None, np.zeros(n_outputs), np.zeros(n_outputs))


def _fit_spread(Z: Array, error: Array, weight: Array, columns: Array, levels: Sequence[int]) -> tuple[Spread, Array]:
    """Return the spread as a function of ``Z``, and what the spread without a row's fold says of it, like ``error``."""
    same, n_outputs = np.ones_like(error), error.shape[1]
    size = np.abs(error)
    floor = _FLOOR * quantiles(size, weight, 0.5)
    if len(size) < _LEAST_ROWS or not (floor > 0).all() or n_outputs > _MOST_ANSWERS:
        return constant_spread(n_outputs), same
    log_size = np.log(np.maximum(size, floor))
    n_answers = Z.shape[1] - columns.size
    Z, of_level = _with_sizes(Z, n_answers + np.arange(columns.size), columns, levels, log_size, weight)
    chosen = _telling(Z[:, n_answers:], log_size, weight)
    found = _additive(np.column_stack([Z[:, :n_answers], Z[:, n_answers + chosen]]), log_size, weight)
    if found is None:
        return constant_spread(n_outputs), same
    model, left_out = found
    columns = columns[chosen]
    values = {n_answers + at: of_level[int(column)] for at, column in enumerate(columns) if int(column) in of_level}
    model = fold_values(model, values)
    least, most = left_out.min(axis=0), left_out.max(axis=0)
    return Spread(columns, model, least, most), np.exp(left_out)


def _with_sizes(
    Z: Array, places: Array, columns: Array, levels: Sequence[int], log_size: Array, weight: Array
) -> tuple[Array, dict[int, Array]]:
    """Return ``Z`` with usual sizes of errors instead of codes, and by column that of every level, (n_levels,)."""
    coded = [pair for pair in zip(places, columns, strict=True) if levels and levels[int(pair[1])]]
    found = dict[int, Array]()
    if not coded:
        return Z, found
    Z, folds, target = Z.copy(), folds_of(Z, N_FOLDS).astype(np.intp), log_size.mean(axis=1, keepdims=True)
    for place, column in coded:
        sums, codes = LevelSums([str(k) for k in range(levels[int(column)] - 2)], ["size"]), Z[:, place].astype(np.intp)
        sums.add(codes, folds, target, weight)
        statistic = sums.finish()
        Z[:, place], found[int(column)] = statistic.of(codes, folds)[:, 0], statistic.means[:, 0]
    return Z, found


def _telling(X: Array, log_size: Array, weight: Array) -> Array:
    """Return the columns of ``X`` whose values tell the sizes of errors apart most, in order: few of many.

    Judged by the share of variance between four groups of rows of about as many rows each.
    """
    if X.shape[1] <= _MOST_COLUMNS:
        return np.arange(X.shape[1])
    shares = np.zeros(X.shape[1])
    for column, values in enumerate(X.T):
        group = np.searchsorted(np.quantile(values, (0.25, 0.5, 0.75)), values)
        of_group = np.bincount(group, weight, 4)
        for size in (log_size - np.average(log_size, axis=0, weights=weight)).T:
            sums = np.bincount(group, weight * size, 4)
            shares[column] += np.sum(sums**2 / np.where(of_group > 0, of_group, 1)) / max(weight @ size**2, _TINY)
    return np.sort(np.argsort(-shares, kind="stable")[:_MOST_COLUMNS])


def _additive(Z: Array, log_size: Array, weight: Array) -> tuple[RandomFeatureModel, Array] | None:
    """Return a sum of functions of columns of ``Z``, and its answers for rows left out; None if a mean does as well.

    ``log_size`` and the answers for rows left out are (n_rows, n_outputs).
    """
    source = ArraySource(Z, log_size, weight / weight.mean())
    spec = FitSpec(Z.shape[1], per_component=True, density=AxesFirst(Gaussian()))
    with ThreadExecutor() as executor, _unlogged():
        rng = np.random.default_rng(0)
        problem = state_problem(source, Squared(), True, rng, executor)
        result = run_algorithm1(Fit(problem, spec, rng, executor, folds=folds_of(Z, _FOLDS)))
    assert result.left_out is not None  # the context asks for it
    left_out = problem.units.shift + problem.units.stretch * result.left_out
    about_mean = log_size - np.average(log_size, axis=0, weights=weight)
    error, of_mean = (np.average(np.sum(off**2, axis=1), weights=weight) for off in (log_size - left_out, about_mean))
    if not error < (1 - _PAYS) * of_mean:
        return None
    return replace(result.model, last_layer=None), left_out


@contextmanager
def _unlogged() -> Iterator[None]:
    """Keep the steps of a spread out of the log, where they would look like a second fit."""
    thread = get_ident()

    def from_elsewhere(record: logging.LogRecord) -> bool:
        return record.thread != thread or record.levelno > logging.INFO

    _log.addFilter(from_elsewhere)
    try:
        yield
    finally:
        _log.removeFilter(from_elsewhere)
