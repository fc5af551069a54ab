"""From a table to a model and back: an encoding, a target and an estimator as one thing.

What the command line fits, in Python:

>>> import numpy as np, pyarrow as pa
>>> rng = np.random.default_rng(0)
>>> x, side = rng.standard_normal(300), rng.choice(["left", "right"], 300)
>>> table = pa.table({"x": x, "side": side, "y": np.abs(x) + (side == "left")})
>>> fit = fit_table(table, "y", parameters={"n_components": 10})
>>> fit.model.task, fit.n_test, fit.metrics["r2"] > 0.9
('regression', 60, True)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.rows.tables import (
    MISSING,
    TableEncoding,
    TargetEncoding,
    as_table,
    find_column,
    make_encoding,
    make_target,
    summarise,
)

from . import RFLAFClassifier, RFLAFRegressor
from .metrics import metrics_of

_LEAST_ROWS = 10


@dataclass(frozen=True, eq=False)
class TableModel:
    """A fitted estimator with the encoding of its table and its target; ``provenance`` is what is known of its making.

    Tables are Arrow tables, or pandas or polars frames; their columns are found by name.
    """

    encoding: TableEncoding
    target: TargetEncoding
    estimator: Any
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def task(self) -> str:
        """ "regression" or "classification"."""
        return self.target.task

    def predict(self, table: Any) -> Array:
        """Predictions (n_rows,): numbers, or labels as they were in the table."""
        return self.estimator.predict(self.encoding.transform(table))

    def predict_proba(self, table: Any) -> Array:
        """Probabilities of the classes, (n_rows, n_classes), in the order of ``estimator.classes_``."""
        return self.estimator.predict_proba(self.encoding.transform(table))

    def evaluate(self, table: Any) -> dict[str, float]:
        """How good the predictions for a table with the target are: see `metrics_of`."""
        table = as_table(table)
        y = self.target.read(table, self.encoding.missing)
        return metrics_of(self.estimator, self.encoding.transform(table), y)


@dataclass(frozen=True, eq=False)
class TableFit:
    """A model, how good it is on rows it has not seen, and how many there were."""

    model: TableModel
    metrics: dict[str, float]
    n_train: int
    n_test: int


def fit_table(
    table: Any,
    target: str,
    task: str = "auto",
    *,
    test: float | Any = 0.2,
    parameters: Mapping[str, Any] | None = None,
    exclude: Iterable[str] = (),
    categories: Iterable[str] = (),
    missing: Sequence[str] = MISSING,
    random_state: int = 0,
    provenance: Mapping[str, Any] | None = None,
) -> TableFit:
    """Encode a table, fit an estimator to most of its rows and measure it on the rest.

    ``test`` is the share of rows to measure on, zero for none, or another table. ``parameters`` go to `RFLAFRegressor`
    or `RFLAFClassifier`; ``exclude`` are columns not to learn from and ``categories`` those whose numbers are codes.
    """
    table = as_table(table)
    if table.num_rows < _LEAST_ROWS:
        raise InvalidParameterError(
            f"a table to fit must have at least {_LEAST_ROWS} rows", table.num_rows, "Add rows."
        )
    name = find_column(target, table.column_names)
    aim = make_target(summarise(table.select([name]), missing), name, task)
    train, held_out = _split(table, aim, test, missing, random_state)
    encoding = make_encoding(summarise(train, missing), {*exclude, aim.name}, categories, missing)
    estimator = _make_estimator(aim.task, {"random_state": random_state, **(parameters or {})})
    estimator.fit(encoding.transform(train), aim.read(train, missing))
    model = TableModel(encoding, aim, estimator, dict(provenance or {}))
    metrics = {} if held_out is None else model.evaluate(held_out)
    return TableFit(model, metrics, train.num_rows, 0 if held_out is None else held_out.num_rows)


def _make_estimator(task: str, parameters: Mapping[str, Any]) -> Any:
    kind = RFLAFClassifier if task == "classification" else RFLAFRegressor
    known = kind._get_param_names()
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise InvalidParameterError(
            f"parameters must be those of {kind.__name__}", unknown, f"It takes {', '.join(known)}."
        )
    return kind(**parameters)


def _split(
    table: Any, aim: TargetEncoding, test: float | Any, missing: Sequence[str], random_state: int
) -> tuple[Any, Any | None]:
    """Rows to train on and rows to measure on, which are spread evenly over the classes."""
    from sklearn.model_selection import train_test_split  # slow to import, and only needed here

    if not isinstance(test, int | float):
        return table, as_table(test)
    if not 0 <= test < 1:
        raise InvalidParameterError("the share of rows to measure on must be from 0 to 1", test, "Use 0.2.")
    if not test:
        return table, None
    rows = np.arange(table.num_rows)
    labels = aim.read(table, missing) if aim.task == "classification" else None
    if labels is not None and np.unique(labels, return_counts=True)[1].min() < 2:
        labels = None  # a class of one row cannot be on both sides
    try:
        train, held_out = train_test_split(rows, test_size=test, random_state=random_state, stratify=labels)
    except ValueError as error:
        raise InvalidParameterError(
            "the rows must be enough to hold some out", str(error), "Use another share."
        ) from None
    return table.take(np.sort(train)), table.take(np.sort(held_out))
