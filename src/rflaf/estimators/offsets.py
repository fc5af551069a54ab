"""Offsets: a known part of f, which moves into targets and weights, exactly, and back into predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.losses import Loss
from rflaf.rows.files import is_files
from rflaf.rows.inputs import as_rows, is_frame, names_columns, take_column
from rflaf.rows.tables import MISSING, TargetEncoding, as_table, require_arrow

OFFSET_WEIGHT = "rflaf weight of the offset"  # the column of a file that holds the weights that an offset leaves


def without_offset(loss: Loss, X: Any, y: Any, weight: Any, offset: Any) -> tuple[Any, Any, Any]:
    """Return rows, targets and weights or None under which f alone is to be learned; columns by name or as arrays."""
    if is_files(X):
        rule, remedy = "an offset needs rows in memory", "Use rflaf fit --offset, or read them: pandas.read_csv."
        raise InvalidParameterError(rule, X if isinstance(X, str) else type(X).__name__, remedy)
    X, offset = offset_of(X, offset)
    if isinstance(weight, str):
        X, weight = column_of(X, weight)
    name = y if isinstance(y, str) and is_frame(X) else None
    if name is not None:
        y, target, X = take_column(X, name, None, False)
        name = target.name
    elif names_columns(X, y):
        columns = []
        for one in y:
            X, column = column_of(X, one)
            columns.append(column)
        y = np.column_stack(columns)
    targets, weights = _targets(loss, y, weight, offset)
    if name is None:
        return X, targets, weights
    return as_table(X).append_column(name, require_arrow().array(targets)), name, weights


def _targets(loss: Loss, y: Any, weight: Any, offset: Any) -> tuple[Array, Array | None]:
    if isinstance(y, str) or np.ndim(y) == 0:
        rule = "an offset needs targets given as an array, or as a column of a frame"
        raise InvalidParameterError(rule, y, "Pass the column itself as y, and X without it.")
    y = np.asarray(y, np.float64)
    off = checked_offset(offset, len(y))
    given = np.ones(len(y)) if weight is None else np.asarray(weight, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        targets, weights = loss.without_offset(y.reshape(len(y), -1), off, given)
    if not (np.isfinite(targets).all() and np.isfinite(weights).all()):
        rule = "y exp(-offset), and weights times their power of exp(offset), must be numbers"
        found = f"offsets from {off.min():g} to {off.max():g}"
        raise InvalidParameterError(rule, found, "Divide the exposures by their mean.")
    return targets.reshape(y.shape), None if weight is None and weights is given else weights


def named_offset(target: TargetEncoding | None, offset: Any) -> TargetEncoding | None:
    """Return a target with the column that an offset was named by."""
    return replace(target, offset=offset) if target is not None and isinstance(offset, str) else target


def with_offset(loss: Loss, mean: Array, offset: Any) -> Array:
    """Return predictions (n_samples,) or (n_samples, n_outputs) with the offset of their rows."""
    off = checked_offset(offset, len(mean))
    return np.asarray(loss.with_offset(mean, off if mean.ndim == 2 else off[:, 0]))


def deviation_with_offset(loss: Loss, deviation: Array, offset: Any) -> Array:
    """Return standard deviations of new observations, shaped as predictions, at the offset of their rows."""
    off = checked_offset(offset, len(deviation))
    off = off if deviation.ndim == 2 else off[:, 0]
    return np.asarray(loss.deviation_with_offset(deviation, off))


def offset_of(X: Any, offset: Any) -> tuple[Any, Any]:
    """Return rows and their offset, which may be a column of a frame: it is taken out."""
    if not isinstance(offset, str):
        return X, offset
    X = X if is_files(X) else as_rows(X)
    if is_files(X) or not is_frame(X):
        rule, remedy = "an offset is named where rows are a frame", "Pass the numbers themselves."
        raise InvalidParameterError(rule, offset, remedy)
    return column_of(X, offset)


def known_offset(target: TargetEncoding | None, X: Any, given: Any, missing: Sequence[str] = MISSING) -> Any:
    """Return the offset of rows whose targets are known: as given, or from the column of the fit; None for none."""
    if given is not None or target is None or not target.offset:
        return given
    if not is_frame(X):
        rule, remedy = "rows need the offset of the fit", f"Pass the numbers of {target.offset!r}."
        raise InvalidParameterError(rule, type(X).__name__, remedy)
    return target.offsets(X, missing)


def column_of(frame: Any, name: str) -> tuple[Any, Array]:
    """Return a frame without a column of numbers, and the column."""
    values, _, others = take_column(frame, name, TargetEncoding(name, "regression", "number"), False)
    return others, values


def checked_offset(offset: Any, n_rows: int) -> Array:
    """Return an offset as a column (n_rows, 1); refuse all but one finite number per row."""
    rule, remedy = f"offset must be {n_rows} finite numbers, one per row", "Pass np.log(exposure) under a loss of logs."
    try:
        off = np.asarray(offset, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(rule, str(error), remedy) from error
    if off.shape != (n_rows,):
        raise InvalidParameterError(rule, f"shape {off.shape}", remedy)
    if not np.isfinite(off).all():
        raise InvalidParameterError(rule, f"{off[~np.isfinite(off)][0]} in row {np.argmin(np.isfinite(off))}", remedy)
    return off[:, None]


def refuse_without_offset(target: TargetEncoding | None, offset: Any) -> None:
    """Refuse later rows without the offset that the model was fitted beside."""
    if target is not None and target.offset and offset is None:
        rule = "later rows need the offset of the fit"
        raise InvalidParameterError(rule, None, f"Pass offset={target.offset!r}.")


def refuse_files_beside_offset(X: Any) -> None:
    """Refuse rows in files, which are read block by block."""
    if is_files(X):
        rule = "intervals beside an offset need rows in memory"
        raise InvalidParameterError(rule, type(X).__name__, "Read them first.")


def refuse_out_beside_offset(out: Any) -> None:
    """Refuse an array to write into: predictions change once more beside an offset."""
    if out is not None:
        raise InvalidParameterError("offset acts on predictions that are returned", "out beside it", "Leave it out.")
