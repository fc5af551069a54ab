"""The first pass over Parquet files, which looks at every value before anything is fitted.

Numbers must be finite, levels of categories are counted, means are taken to fill gaps with (`rflaf.rows.tables`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.rows.blocks import add_weights, weigh_labels
from rflaf.rows.tables import NumberColumn, TableEncoding, TableSummary, clean, encode_columns, make_encoding, summarise

from .request import Request, distinct
from .room import rows_together
from .row_groups import RowGroup, batches, page_bytes
from .source import Reader
from .values import check_finite, check_weights, in_column, is_numeric, labels_of, numbers_of, wrong

_NUMBER_BYTES, _TEXT_BYTES = 20, 160  # of a value while it is looked at, decoded and as it is


@dataclass(frozen=True)
class Scan:
    """What one pass over a table saw: how to encode its inputs, the weight of every label, and the range of targets.

    ``target_range`` (2, n_outputs) is empty for labels.
    """

    encoding: TableEncoding
    label_weights: dict[Any, float]
    target_range: Array


def scan(groups: tuple[RowGroup, ...], schema: Any, inputs: list[str], request: Request, reader: Reader) -> Scan:
    """Look at every value once: refuse what cannot be used, and learn how to encode the rest."""
    columns = distinct(*inputs, *request.beside)
    numeric = {name: _Numbers() for name in inputs if is_numeric(schema.field(name).type)}
    seen = _Seen(numeric, [name for name in inputs if name not in numeric])
    numbers = [name for name in columns if is_numeric(schema.field(name).type)]
    row_bytes = 64 + _NUMBER_BYTES * len(numbers) + _TEXT_BYTES * (len(columns) - len(numbers))
    at_once = rows_together(row_bytes, page_bytes(groups, len(columns)), reader.memory)
    n_rows = sum(group.n_rows for group in groups)
    with reader.begin("look at every value", n_rows, n_rows) as display:
        for group, batch in batches(groups, columns, at_once):
            seen.add_inputs(batch, group)
            seen.add_targets(batch, group, request)
            display.advance(batch.num_rows)
    if not seen.weight > 0:
        raise InvalidParameterError(
            "some weights must be above zero", f"zeros only in column {request.weight!r}", "Drop sample_weight."
        )
    return Scan(seen.encoding(inputs), seen.label_weights, np.array([*seen.target_ranges.values()]).reshape(-1, 2).T)


@dataclass
class _Numbers:
    """What the pass keeps of a numeric column."""

    n_rows: int = 0
    n_missing: int = 0
    mean: float = 0.0

    def add(self, values: Array) -> None:
        gaps = int(np.isnan(values).sum()) if values.dtype.kind == "f" else 0
        known = values.size - gaps
        self.n_rows += values.size
        self.n_missing += gaps
        if known:
            mean = float(np.nanmean(values, dtype=np.float64) if gaps else values.mean(dtype=np.float64))
            self.mean += (mean - self.mean) * known / (self.n_rows - self.n_missing)


@dataclass
class _Seen:
    """What the pass keeps: of numeric columns, of the other columns, of weights, labels and targets."""

    numeric: dict[str, _Numbers]
    others: list[str]
    summary: TableSummary | None = None
    weight: float = 0.0
    label_weights: dict[Any, float] = field(default_factory=dict)
    target_ranges: dict[str, tuple[float, float]] = field(default_factory=dict)

    def add_inputs(self, batch: Any, group: RowGroup) -> None:
        for name, sums in self.numeric.items():
            values = numbers_of(batch.column(name))
            check_finite(values, name, group, missing=True)
            sums.add(values)
        if self.others:
            for name in self.others:
                with in_column(name, group):
                    clean(name, batch.column(name))
            part = summarise(batch.select(self.others))
            self.summary = part if self.summary is None else self.summary + part

    def add_targets(self, batch: Any, group: RowGroup, request: Request) -> None:
        weight = np.ones(batch.num_rows)
        if request.weight is not None:
            weight = numbers_of(batch.column(request.weight)).astype(np.float64)
            check_weights(weight, request.weight, group)
        self.weight += float(weight.sum())
        for name in request.targets:
            if request.labels:
                add_weights(self.label_weights, weigh_labels(labels_of(batch, name, group), weight))
            else:
                values = _target(batch, name, group)
                low, high = self.target_ranges.get(name, (np.inf, -np.inf))
                self.target_ranges[name] = min(low, float(values.min())), max(high, float(values.max()))

    def encoding(self, inputs: list[str]) -> TableEncoding:
        """How to encode the inputs; columns that say nothing are left out, refused where there are no others."""
        summary = self.summary or TableSummary({})
        others, dropped = encode_columns(summary)
        if not (self.numeric or others):
            return make_encoding(summary)  # refuses
        found: dict[str, Any] = {column.name: column for column in others}
        for name, seen in self.numeric.items():
            found[name] = NumberColumn(name, seen.mean, seen.n_missing > 0)
        return TableEncoding(tuple(found[name] for name in inputs if name in found), tuple(dropped))


def _target(batch: Any, name: str, group: RowGroup) -> Array:
    """A column of numbers that are all known."""
    column = batch.column(name)
    if not is_numeric(column.type):
        raise wrong("targets must be numbers", f"{column.type}", group, name, "Use RFLAFClassifier for labels.")
    values = numbers_of(column)
    if np.isnan(values).any():
        raise wrong("targets must be known in every row", "a missing value", group, name, "Drop those rows.")
    check_finite(values, name, group)
    return values
