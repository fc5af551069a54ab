"""Offsets: a known part of f, which moves into targets and weights, exactly, and back into predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.losses import Loss


def without_offset(loss: Loss, y: Any, weight: Any, offset: Any) -> tuple[Array, Array | None]:
    """Return targets shaped like ``y`` and weights (n_samples,) or None under which f alone is to be learned."""
    if isinstance(y, str) or np.ndim(y) == 0:
        rule = "an offset needs targets given as an array, of rows in memory"
        raise InvalidParameterError(rule, y, "Pass the column itself as y, and X without it.")
    y = np.asarray(y, np.float64)
    off = _checked(offset, len(y))
    given = np.ones(len(y)) if weight is None else np.asarray(weight, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        targets, weights = loss.without_offset(y.reshape(len(y), -1), off, given)
    if not (np.isfinite(targets).all() and np.isfinite(weights).all()):
        rule = "y exp(-offset), and weights times their power of exp(offset), must be numbers"
        found = f"offsets from {off.min():g} to {off.max():g}"
        raise InvalidParameterError(rule, found, "Divide the exposures by their mean.")
    return targets.reshape(y.shape), None if weight is None and weights is given else weights


def with_offset(loss: Loss, mean: Array, offset: Any) -> Array:
    """Return predictions (n_samples,) or (n_samples, n_outputs) with the offset of their rows."""
    off = _checked(offset, len(mean))
    return np.asarray(loss.with_offset(mean, off if mean.ndim == 2 else off[:, 0]))


def _checked(offset: Any, n_rows: int) -> Array:
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


def refuse_beside_offset(return_std: bool, out: Any) -> None:
    """Refuse what an offset is not combined with."""
    if return_std or out is not None:
        raise InvalidParameterError("offset acts on plain predictions", "return_std or out beside it", "Leave it out.")
