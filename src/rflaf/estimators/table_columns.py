"""The columns of tables as the estimators speak of them: their names, which are categories, how they are read."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from rflaf.errors import InvalidParameterError
from rflaf.rows.inputs import is_frame, needs_encoding
from rflaf.rows.tables import TableEncoding, TargetEncoding, as_table

_log = logging.getLogger("rflaf")


_LABELS = {"whole": "whole numbers", "number": "numbers", "truth": "truth values", "text": "texts"}


def log_decisions(encoding: TableEncoding, labels: TargetEncoding | None = None) -> None:
    """Log how each column of a table is read, and what the labels of a file are taken for."""
    if labels is not None:
        _log.info("target %r: labels are %s", labels.name, _LABELS[labels.values])
    for line in encoding.decisions:
        _log.info("column %r: %s (%s)", line.column, line.read_as, line.why)


def category_names(given: Any, names: Sequence[str]) -> list[str]:
    """Return the columns that ``categorical_features`` says are categories: names, numbers or a mask; none for "auto".

    >>> category_names([True, False], ["a", "b"]), category_names(["b"], ["a", "b"])
    (['a'], ['b'])
    """
    if given is None or isinstance(given, str):
        return []
    chosen = np.asarray(given)
    if chosen.dtype == bool:
        if chosen.shape != (len(names),):
            rule = f"a mask of categorical_features must have the {len(names)} columns of X"
            raise InvalidParameterError(rule, chosen.shape, "Give names.")
        return [name for name, is_one in zip(names, chosen, strict=True) if is_one]
    found = [
        names[int(one)] if chosen.dtype.kind in "iu" and -len(names) <= one < len(names) else str(one) for one in chosen
    ]
    absent = [name for name in found if name not in names]
    if absent:
        raise InvalidParameterError("categorical_features must be columns of X", absent, f"Choose of {list(names)}.")
    return found


def names_of(X: Any) -> list[str]:
    """Return the names of columns, which are numbers for a matrix."""
    if is_frame(X):
        return [str(name) for name in (X.column_names if hasattr(X, "column_names") else X.columns)]
    shape: tuple[int, ...] = getattr(X, "shape", ())
    return [str(at) for at in range(shape[1])] if len(shape) == 2 else []


def has_names(X: Any) -> bool:
    """Return whether all names of a frame are texts."""
    return all(isinstance(name, str) for name in (X.column_names if hasattr(X, "column_names") else X.columns))


def unlike_the_fit(X: Any) -> InvalidParameterError:
    """Return the error for texts or gaps in rows of a model whose rows had none."""
    columns = as_table(X)
    odd = next(name for name in columns.column_names if needs_encoding(columns.select([name])))
    what = (
        "missing values, NaN"
        if str(columns[odd].type) in ("double", "float")
        else f"values of type {columns[odd].type}"
    )
    return InvalidParameterError(
        f"column {odd!r} must hold numbers without gaps, as in the fit",
        what,
        "Fit to rows with such values too, or fill them.",
    )
