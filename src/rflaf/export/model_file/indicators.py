"""Models of files up to format 3, whose categories had one column for every level, as models of codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rflaf.errors import Array
from rflaf.model.indicators import fold_indicators, spread_columns
from rflaf.model.random_feature_model import RandomFeatureModel
from rflaf.rows.indicators import indicator_starts
from rflaf.rows.tables import CategoryColumn, TableEncoding


def encoding_for(plain: Mapping[str, Any], indicators: bool, n_features: int) -> TableEncoding:
    """Return the encoding of a file whose model takes ``n_features`` columns."""
    encoding = TableEncoding.from_dict(plain)
    n_columns = indicator_columns(encoding).size if indicators else len(encoding.feature_names)
    if n_columns != n_features:
        raise ValueError(f"the encoding makes {n_columns} columns for {n_features}")
    return encoding


def indicator_columns(encoding: TableEncoding) -> Array:
    """Return the encoded column that each column of an old model belongs to."""
    return np.array([column for column, _ in _old_columns(encoding)], np.intp)


def result_of_codes(result: Any, encoding: TableEncoding) -> Any:
    """Return an old result, its model and the importance of its columns, for rows as an encoding writes them now."""
    importance = np.bincount(indicator_columns(encoding), result.column_importance)
    return replace(result, model=of_codes(result.model, encoding), column_importance=importance, centre=None)


def of_codes(model: RandomFeatureModel, encoding: TableEncoding) -> RandomFeatureModel:
    """Return an old model for rows as an encoding writes them now."""
    levels = encoding.level_counts
    start = indicator_starts(levels)
    place = np.array([start[column] + code for column, code in _old_columns(encoding)], np.intp)
    return fold_indicators(spread_columns(model, place, int(start[-1])), levels)


def _old_columns(encoding: TableEncoding) -> list[tuple[int, int]]:
    """Return the encoded column and the code of each column of an old model, of other levels and gaps if it had any."""
    columns, number = list[tuple[int, int]](), 0
    for column in encoding.columns:
        codes = [0]
        if isinstance(column, CategoryColumn) and column.n_levels:
            n_levels = len(column.levels)
            codes = [*range(n_levels), *[n_levels] * column.others, *[n_levels + 1] * column.missing]
        columns += [(number, code) for code in codes]
        columns += [(number + k, 0) for k in range(1, len(column.feature_names))]
        number += len(column.feature_names)
    return columns
