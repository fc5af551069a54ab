"""An estimator fitted to a table as ONNX: the encoding of its columns before the model, one input per column.

| a column of | its input, (n_rows, 1) | missing |
| --- | --- | --- |
| numbers, truth values | numbers | NaN |
| levels | strings, without spaces around them | "" or another text for a missing value |
| dates | days since 1970, float64, with their fraction | NaN |

Levels are found by ``LabelEncoder`` of ai.onnx.ml, since the standard operators of this opset do not compare strings.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from rflaf.errors import Array
from rflaf.rows.tables import CategoryColumn, DateColumn, NumberColumn, TableEncoding, Year

from .onnx_graph import Graph, convert, require_skl2onnx, tensor_type
from .table_form import refuse_free_text

_LONGEST_YEAR = 366  # days
_CYCLE = 146_097  # days after which the calendar repeats itself: 400 years, whole weeks


class _Encoder(TransformerMixin, BaseEstimator):
    """The first step of the pipeline that is converted: an encoding, and the precision it writes."""

    def __init__(self, encoding: TableEncoding, dtype: np.dtype[Any]) -> None:
        self.encoding = encoding
        self.dtype = dtype


def convert_table(estimator: Any, dtype: np.dtype[Any]) -> Any:
    """Return the ONNX model of an estimator with an encoding: inputs are its columns, by name and in its order."""
    from sklearn.pipeline import Pipeline  # slow to import, and only needed here

    require_skl2onnx().update_registered_converter(_Encoder, "RflafTableEncoding", _declare, _encode)
    encoding: TableEncoding = estimator.table_encoding_
    refuse_free_text(encoding)
    pipeline = Pipeline([("encoding", _Encoder(encoding, dtype)), ("estimator", estimator)])
    return convert(pipeline, [(column.name, _input_dtype(column, dtype), 1) for column in encoding.columns])


def encoded_columns(encoding: TableEncoding) -> list[str]:
    """Describe every column of an encoded row, for readers who write such rows."""
    names: list[str] = []
    for column in encoding.columns:
        first, *others = column.feature_names
        if isinstance(column, CategoryColumn) and column.statistic is not None:
            others = [
                f"{name}, the mean of the target by level" if name in means_of(column) else name for name in others
            ]
        if isinstance(column, NumberColumn | DateColumn):
            first = f"{first}, {column.fill:.9g} where missing"
        elif isinstance(column, CategoryColumn) and column.n_levels:
            numbered = [f"{number} {level}" for number, level in enumerate((*column.levels, "(others)", "(missing)"))]
            first = f"{first}, the number of the level: {', '.join(numbered)}"
        else:
            first = f"{first}, 0 or 1, 0.5 where unknown"
        names += [first, *others]
    return names


def means_of(column: CategoryColumn) -> tuple[str, ...]:
    """Return the names of the columns of statistics."""
    return () if column.statistic is None else column.feature_names[-len(column.statistic.parts) :]


def _input_dtype(column: Any, dtype: np.dtype[Any]) -> np.dtype[Any]:
    if isinstance(column, CategoryColumn):
        return np.dtype(object)
    return np.dtype(np.float64) if isinstance(column, DateColumn) else dtype


def _declare(operator: Any) -> None:
    """Declare the shapes of the encoding to skl2onnx."""
    encoder = operator.raw_operator
    operator.outputs[0].type = tensor_type(encoder.dtype)([None, len(encoder.encoding.feature_names)])


def _encode(scope: Any, operator: Any, container: Any) -> None:
    """Convert the encoding for skl2onnx."""
    graph, encoder = Graph(scope, container), operator.raw_operator
    parts: list[str] = []
    for column, variable in zip(encoder.encoding.columns, operator.inputs, strict=True):
        if isinstance(column, NumberColumn):
            parts += _number(graph, variable.full_name, column, encoder.dtype)
        elif isinstance(column, CategoryColumn):
            parts.append(_category(graph, variable.full_name, column, encoder))
            parts += _statistic(graph, variable.full_name, column, encoder)
        else:
            parts += _date(graph, variable.full_name, column, encoder.dtype)
    graph.node("Concat", *parts, axis=1, result=operator.outputs[0].full_name)


def _number(graph: Graph, x: str, column: NumberColumn, dtype: np.dtype[Any]) -> list[str]:
    gaps = graph.node("IsNaN", x)
    filled = graph.node("Where", gaps, graph.constant("fill", np.array(column.fill, dtype)), x)
    return [filled, graph.cast(gaps, dtype)] if column.indicator else [filled]


def _category(graph: Graph, text: str, column: CategoryColumn, encoder: _Encoder) -> str:
    """Return the number of the level; of two levels 0, 1, or .5 for any other text."""
    other, absent = (float(len(column.levels) + k) if column.n_levels else 0.5 for k in (0, 1))
    codes = dict.fromkeys(encoder.encoding.missing, absent)
    codes |= {level: float(number) for number, level in enumerate(column.levels)}
    return graph.cast(_look_up(graph, text, codes, other), encoder.dtype)


def _statistic(graph: Graph, text: str, column: CategoryColumn, encoder: _Encoder) -> list[str]:
    """Return the target's means by level, one column for each target or class."""
    statistic = column.statistic
    if statistic is None:
        return []
    parts = []
    for at in range(len(statistic.parts)):
        *of_levels, others, absent = (float(mean) for mean in statistic.means[:, at])
        means = dict.fromkeys(encoder.encoding.missing, absent)
        means |= dict(zip(statistic.names, of_levels, strict=True))
        parts.append(graph.cast(_look_up(graph, text, means, others), encoder.dtype))
    return parts


def _look_up(graph: Graph, text: str, codes: dict[str, float], default: float) -> str:
    return graph.node(
        "LabelEncoder", text, op_domain="ai.onnx.ml", op_version=2,
        keys_strings=list(codes), values_floats=list(codes.values()), default_float=default,
    )  # fmt: skip


def _date(graph: Graph, days: str, column: DateColumn, dtype: np.dtype[Any]) -> list[str]:
    """Days, day of the year and of the week, which repeat themselves every 400 years, and hours."""
    gaps = graph.node("IsNaN", days)
    days = graph.node("Where", gaps, graph.constant("fill", np.array(column.fill)), days)
    whole = graph.node("Floor", days)
    cycle = graph.constant("cycle", np.array(float(_CYCLE)))
    before = graph.node("Mul", graph.node("Floor", graph.node("Div", whole, cycle)), cycle)
    day = graph.cast(graph.node("Sub", whole, before), np.dtype(np.int64))
    of_year, of_week = (
        graph.node("Gather", graph.constant(name, values), day)
        for name, values in zip(("day_of_year", "day_of_week"), _calendar(), strict=True)
    )
    rest = graph.node("Sub", days, whole)
    early, late = (graph.constant(name, np.array(float(getattr(column, name)))) for name in ("earliest", "latest"))
    if column.year is not None:
        beyond = graph.node("Or", graph.node("Less", days, early), graph.node("Greater", days, late))
        days = graph.node("Where", beyond, graph.node("Add", _in_year(graph, column.year, of_year), rest), days)
    parts = [graph.node("Min", graph.node("Max", days, early), late), of_year, of_week]
    if column.hours:
        hours = graph.constant("hours", np.array(24.0))
        parts.append(graph.node("Mul", rest, hours))
    return [graph.cast(part, dtype) for part in [*parts, *[gaps] * column.indicator]]


def _in_year(graph: Graph, year: Year, of_year: str) -> str:
    """Return the days since 1970 of days of the year in that of the fit, looked up."""
    days = graph.constant("year", year.day(np.arange(_LONGEST_YEAR + 1)))
    return graph.node("Gather", days, graph.cast(of_year, np.dtype(np.int64)))


def _calendar() -> tuple[Array, Array]:
    """Day of the year, from 1, and of the week, Monday 0, of every day of 400 years from 1970 on."""
    days = np.datetime64("1970-01-01") + np.arange(_CYCLE)
    of_year = (days - days.astype("datetime64[Y]")).astype(np.int64) + 1
    return of_year.astype(np.int16), ((np.arange(_CYCLE) + 3) % 7).astype(np.int16)  # it began on a Thursday
