"""A model of indicators of levels as one of their codes: the weights of the indicators are curves on the codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rflaf.errors import Array
from rflaf.functions.curves import ColumnCurves, curves_of
from rflaf.functions.densities import Directions
from rflaf.rows.indicators import indicator_starts

from .random_feature_model import RandomFeatureModel


def fold_indicators(model: RandomFeatureModel, levels: Sequence[int], share: Array | None = None) -> RandomFeatureModel:
    """Return a model of indicators as one of codes; a level of no ``share`` takes the mean of its category."""
    start, given = indicator_starts(levels), model.directions.W
    W, tables = np.zeros((len(levels), given.shape[1])), list[tuple[int, Array, Array]]()
    for column, n_levels in enumerate(levels):
        own = given[start[column] : start[column + 1]]
        if not n_levels:
            W[column] = own[0]
            tables += _curve_of(model.curves, start[column], column)
            continue
        if share is not None:
            part = share[start[column] : start[column + 1]]
            own = np.where(part[:, None] > 0, own, part @ own)
        tables.append((column, np.arange(n_levels), own))
    directions = Directions(W, model.directions.offset, model.directions.importance, model.directions.n_draws)
    return replace(model, directions=directions, curves=curves_of(tables))


def _curve_of(curves: ColumnCurves | None, column: int, to: int) -> list[tuple[int, Array, Array]]:
    """Return the curve of a column, if it has one, as that of another."""
    if curves is None:
        return []
    knots = curves.knots
    places = map(int, np.flatnonzero(knots.columns == column))
    return [(to, knots.of(k), curves.values[knots.start[k] : knots.start[k + 1]]) for k in places]


def fold_values(model: RandomFeatureModel, values: Mapping[int, Array]) -> RandomFeatureModel:
    """Return a model of numbers as one of codes: ``values`` gives by column the number of every level, (n_levels,)."""
    if not values:
        return model
    W = np.where(np.isin(np.arange(model.n_features), list(values))[:, None], 0.0, model.directions.W)
    tables = [(column, np.arange(t.size), np.outer(t, model.directions.W[column])) for column, t in values.items()]
    for column in set(range(model.n_features)) - set(values):
        tables += _curve_of(model.curves, column, column)
    curves = curves_of(tables)
    return replace(model, directions=replace(model.directions, W=W), curves=curves)


def spread_columns(model: RandomFeatureModel, place: Array, n_columns: int) -> RandomFeatureModel:
    """Return a model whose columns stand at ``place`` (n_features,), increasing, among ``n_columns`` of which it takes
    no other.
    """
    W = np.zeros((n_columns, model.n_components))
    W[place] = model.directions.W
    curves = model.curves
    if curves is not None:
        curves = replace(curves, knots=replace(curves.knots, columns=place[curves.knots.columns]))
    return replace(model, directions=replace(model.directions, W=W), curves=curves)


def typical_row(mean: Array, rows: Array, levels: Sequence[int]) -> Array:
    """Return the means of the columns, and of categories the most frequent level among some rows."""
    centre = mean.copy()
    for column in np.flatnonzero(levels):
        centre[column] = np.argmax(np.bincount(rows[:, column].astype(np.intp)))
    return centre
