"""Offsets: a known part of f, which moves into targets and weights, exactly, and back into predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.losses import Loss
from rflaf.rows.blocks import BlockSource
from rflaf.rows.files import is_files
from rflaf.rows.inputs import as_rows, drop_column, is_frame, names_columns, take_column
from rflaf.rows.tables import MISSING, TargetEncoding, as_table, require_arrow
from rflaf.training.final_fit import FitResult

from .rows_in import Fitting, refuse_texts, refuse_times

OFFSET_WEIGHT = "rflaf weight of the offset"  # the column of a file that holds the weights that an offset leaves


def fit_beside(
    estimator: Any, fit: Fitting, rows: tuple[Any, Any, Any], offset: Any, held_out: dict[str, Any]
) -> tuple[FitResult, BlockSource]:
    """Fit a regressor to what an offset, or None, leaves of rows, targets and weights; return the rows, too."""
    X, y, weight = rows
    in_file = isinstance(weight, str) and weight == OFFSET_WEIGHT
    estimator._exposed = (offset is not None or in_file) and estimator._loss().offset_weighs
    alone = weight is None or in_file
    if offset is not None:
        X, y, weight = without_offset(estimator._loss(), X, y, weight, offset)
    found: tuple[FitResult, BlockSource] = estimator._fit_rows(fit, X, y, weight, held_out)
    estimator.target_encoding_ = named_offset(estimator.target_encoding_, offset)
    if estimator._exposed and not alone:  # which part of a weight counts rows is not known
        estimator._bands = None
    del estimator._exposed  # it is of this fit alone
    return found


def without_offset(
    loss: Loss, X: Any, y: Any, weight: Any, offset: Any, target: TargetEncoding | None = None
) -> tuple[Any, Any, Any]:
    """Return rows, targets and weights or None under which f alone is to be learned; columns by name or as arrays.

    ``target`` is the encoding of an earlier fit.
    """
    if is_files(X):
        rule, remedy = "an offset needs rows in memory", "Use rflaf fit --offset, or read them: pandas.read_csv."
        raise InvalidParameterError(rule, X if isinstance(X, str) else type(X).__name__, remedy)
    X, offset = offset_of(X, offset, target)
    if isinstance(weight, str):
        X, weight = column_of(X, weight)
    name = y if isinstance(y, str) and is_frame(X) else None
    if name is not None:
        y, _, X = take_column(X, name, None, False)
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
    refuse_times(np.asarray(y))
    refuse_texts(np.asarray(y))
    y, off = _finite("targets", y), checked_offset(offset, len(y))
    given = np.ones(len(y)) if weight is None else _finite("sample_weight", weight)
    if given.shape not in ((), (len(y),)):
        rule = f"sample_weight must be {len(y)} numbers, one per row"
        raise InvalidParameterError(rule, f"shape {given.shape}", "Pass one number for each row.")
    targets, weights = shift_targets(loss, y.reshape(len(y), -1), off, given)
    return targets.reshape(y.shape), None if weight is None and weights is given else weights


def _finite(what: str, values: Any) -> Array:
    rule, remedy = f"{what} beside an offset must be finite numbers", "Drop such rows."
    numbers = _numbers(values, rule, remedy)
    if not np.isfinite(numbers).all():
        raise InvalidParameterError(rule, float(numbers[~np.isfinite(numbers)][0]), remedy)
    return numbers


def _numbers(values: Any, rule: str, remedy: str) -> Array:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(rule, str(error), remedy) from error


def shift_targets(loss: Loss, y: Array, off: Array, weight: Array) -> tuple[Array, Array]:
    """Return `Loss.without_offset`, whose answers are to be numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        targets, weights = loss.without_offset(y, off, weight)
    if not (np.isfinite(targets).all() and np.isfinite(weights).all()):
        rule = "y exp(-offset), and weights times their power of exp(offset), must be numbers"
        found = f"offsets from {off.min():g} to {off.max():g}"
        raise InvalidParameterError(rule, found, "Divide the exposures by their mean.")
    return targets, weights


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


def offset_of(X: Any, offset: Any, target: TargetEncoding | None = None) -> tuple[Any, Any]:
    """Return rows and their offset, which may be a column of a frame: it is taken out.

    A column that the fit, with the encoding ``target``, took for exposures, is one of exposures here, too.
    """
    if not isinstance(offset, str):
        return X, offset
    X = X if is_files(X) else as_rows(X)
    if is_files(X) or not is_frame(X):
        rule, remedy = "an offset is named where rows are a frame", "Pass the numbers themselves."
        raise InvalidParameterError(rule, offset, remedy)
    exposure = target is not None and target.exposure and target.offset == offset
    values = TargetEncoding("", "regression", "number", offset=offset, exposure=exposure).offsets(X)
    return drop_column(X, offset), values


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
    off = _numbers(offset, rule, remedy)
    if off.shape != (n_rows,):
        raise InvalidParameterError(rule, f"shape {off.shape}", remedy)
    if not np.isfinite(off).all():
        raise InvalidParameterError(rule, f"{off[~np.isfinite(off)][0]} in row {np.argmin(np.isfinite(off))}", remedy)
    return off[:, None]


def refuse_without_offset(target: TargetEncoding | None, offset: Any) -> None:
    """Refuse targets without the offset that the model was fitted beside."""
    if target is not None and target.offset and offset is None:
        rule = "rows with their targets need the offset of the fit"
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
