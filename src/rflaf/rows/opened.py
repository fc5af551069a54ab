"""Rows outside memory, opened: a source of blocks beside what the first look at their values found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from rflaf.errors import Array, InvalidParameterError

from .blocks import BlockSource
from .tables import TableEncoding, TargetEncoding


@dataclass(slots=True)
class TargetScan:
    """Total weight of rows, and the weight of every label or the lowest and highest targets (2, n_outputs).

    >>> TargetScan.of([np.array(["a", "b", "a"])], np.array([1.0, 0.5, 2.0]), labels=True).label_weights
    {'a': 3.0, 'b': 0.5}
    """

    weight: float = 0.0
    label_weights: dict[Any, float] = field(default_factory=dict)
    target_range: Array = field(default_factory=lambda: np.empty((2, 0)))

    @classmethod
    def of(cls, targets: Sequence[Array], weight: Array | None, labels: bool) -> Self:
        """Scan the columns of targets (n_rows,) of some rows, at least one row."""
        w = np.ones(targets[0].size if len(targets) else 0) if weight is None else weight.astype(np.float64)
        with np.errstate(over="ignore"):  # refused when all is summed
            total = cls(float(w.sum()))
        if not labels:
            edges = np.array([(column.min(), column.max()) for column in targets], np.float64)
            total.target_range = edges.reshape(-1, 2).T
            return total
        for column in targets:
            found, at = np.unique(column, return_inverse=True)
            total._add_labels(dict(zip(found.tolist(), np.bincount(at, w, found.size).tolist(), strict=True)))
        return total

    def __iadd__(self, other: TargetScan) -> Self:
        self.weight += other.weight
        self._add_labels(other.label_weights)
        (low, high), (other_low, other_high) = self.target_range, other.target_range
        known = self.target_range.size > 0
        edges = [np.minimum(low, other_low), np.maximum(high, other_high)] if known else [other_low, other_high]
        self.target_range = np.array(edges)
        return self

    def refuse_overflow(self) -> None:
        """Refuse weights whose sum is beyond a float64."""
        if not np.isfinite(self.weight):
            rule, remedy = "the sum of the weights must be a finite number", "their unit has no effect"
            raise InvalidParameterError(rule, self.weight, f"Divide all weights by one number: {remedy}.")

    def _add_labels(self, more: dict[Any, float]) -> None:
        for label, weight in more.items():
            self.label_weights[label] = self.label_weights.get(label, 0.0) + weight


def _nothing() -> None:
    """Close rows that hold no resource."""


@dataclass(frozen=True)
class OpenRows:
    """Rows outside memory, checked and ready to be read; to be closed.

    ``source`` has the targets as they are, numbers or labels; ``encoding`` turns columns into inputs, None where they
    are numbers already; ``target`` is the encoding of a named target column; ``feature_names`` is None where the
    inputs have none.
    """

    source: BlockSource
    feature_names: Sequence[str] | None = None
    seen: TargetScan = field(default_factory=TargetScan)
    single_output: bool = False
    encoding: TableEncoding | None = None
    target: TargetEncoding | None = None
    close: Callable[[], None] = _nothing
