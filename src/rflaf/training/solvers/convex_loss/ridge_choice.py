"""Choosing the ridge of a convex problem by the loss on rows held out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np

from rflaf.errors import Array
from rflaf.model.ridge import walk_downhill
from rflaf.rows.blocks import Block, BlockSource, Pairs
from rflaf.rows.executors import Items
from rflaf.rows.folds import N_FOLDS, folds_of

from .descent import hides_rounding, minimise_risk, tolerance, whiten, worth_rewhitening
from .objective import KEPT_FEATURE_BYTES, KeptRows, OneFold, Risk, Whitening

_ROWS_FOR_ONE_FOLD = 2000  # with more rows a single fold suffices to judge by
_PATH_TOLERANCE = 3e-2  # of the gradient while ridges are compared
_FEW_UNKNOWNS = 200  # are solved for to all digits at hardly any cost
_OF_FEW_ROWS = 1.0, 1e-2  # of that tolerance, with many rows and with few


def ridge_grid(risk: Risk, base: Array) -> Array:
    """Return the ridges to choose from, in falling order: those of the squared loss, for the curvature of this one."""
    curvature, _ = whiten(risk, 1.0, base)
    return risk.system.ridges()[::-1] * curvature / 2


@dataclass(frozen=True, slots=True)
class RidgeChoice:
    """A ridge, the solution (V, b) it was judged by, and the whitening at that solution where it pays."""

    ridge: float
    start: tuple[Array, Array] | None = None
    whitening: Whitening | None = None


def choose_ridge(
    risk: Risk, source: BlockSource, ridges: Array, base: Array, max_iter: int, memory: int | None = None,
    scale: Array | None = None,
) -> RidgeChoice:  # fmt: skip
    """Return the ridge of lowest loss on rows held out, among ``ridges`` in falling order.

    ``source`` holds the rows of the problem. Their content decides which are held out (see `rflaf.rows.folds`): one
    fifth where there are many, else every fifth in turn. Each solution starts the next. Kept features of many rows are
    copied in single precision for the search where ``memory`` bytes hold both. ``scale`` is the spread of the columns.
    """
    folds, weights = _fold_weights(risk, source, scale)
    used = [fold for fold in range(N_FOLDS) if 0 < weights[fold] < weights.sum()]
    few = risk.system.count <= _ROWS_FOR_ONE_FOLD
    used = used if few else used[:1]
    split = _split_in_single if _searched_in_single(risk, source, memory) else _split
    parts = [split(risk, folds, weights, fold) for fold in used]
    if not parts:
        return RidgeChoice(float(ridges[0]))
    exact = risk.loss.straight or risk.system.G.shape[0] * risk.n_outputs <= _FEW_UNKNOWNS
    tol = tolerance(risk, _PATH_TOLERANCE) if exact else _PATH_TOLERANCE * _OF_FEW_ROWS[few]
    starts: list[tuple[Array, Array] | None] = [None] * len(parts)
    first: dict[int, tuple[Array, Array]] = {}

    def loss_at(i: int) -> float:
        ridge, loss = float(ridges[i]), 0.0
        whitening = whiten(risk, ridge, base)
        for part, (kept, held_out) in enumerate(parts):
            solution = minimise_risk(kept, ridge, base, tol, max_iter, starts[part], whitening)
            starts[part] = solution.v, solution.intercept
            first.setdefault(i, (solution.v, solution.intercept))
            loss += held_out.totals(solution.v, solution.intercept).loss
        return loss

    chosen = walk_downhill(ridges.size, lambda places: [loss_at(i) for i in places])
    ridge, start = float(ridges[chosen]), first[chosen]
    return RidgeChoice(ridge, start, parts[0][0].whiten_at(*start, ridge) if worth_rewhitening(risk) else None)


def _fold_weights(risk: Risk, source: BlockSource, scale: Array | None) -> tuple[Items[tuple[Array, Array]], Array]:
    """Return the fold of every row, one byte each, and the weights of the folds: per block, and summed."""

    def folds_of_rows(block: Block) -> tuple[Array, Array]:
        folds = folds_of(block.X, N_FOLDS, scale).astype(np.uint8)
        return folds, np.bincount(folds, block.weight, N_FOLDS).astype(np.float64)

    found = risk.executor.map(source, folds_of_rows, "assign rows to folds")
    return found, risk.executor.reduce(found, lambda folds, scratch: folds[1].copy(), "weigh the folds")


def _split(risk: Risk, folds: Items[tuple[Array, Array]], weights: Array, fold: int) -> tuple[Risk, Risk]:
    """Return the problem on all folds but one, and on that one."""
    kept, held_out = (OneFold(risk.rows, folds, fold, held_out) for held_out in (False, True))
    out = float(weights[fold])
    return replace(risk, rows=kept, weight=float(weights.sum()) - out), replace(risk, rows=held_out, weight=out)


def _searched_in_single(risk: Risk, source: BlockSource, memory: int | None) -> bool:
    """Return whether the search uses single precision: features are kept and a copy of them fits."""
    size = source.n_samples * risk.system.G.shape[0] * np.dtype(np.float64).itemsize
    room = 1.5 * size <= (KEPT_FEATURE_BYTES if memory is None else memory)
    return room and isinstance(risk.rows, KeptRows) and hides_rounding(risk.system.count, risk.loss)


def _split_in_single(risk: Risk, folds: Items[tuple[Array, Array]], weights: Array, fold: int) -> tuple[Risk, Risk]:
    """Split kept features as `_split` does; both parts are copies in single precision."""

    def copy_parts(pair: Any) -> list[Block]:
        block, (folds, _) = pair
        z, weight = block.X.astype(np.float32, copy=False), block.weight
        parts = (np.flatnonzero((folds == fold) == held_out) for held_out in (False, True))
        return [
            Block(np.take(z, part, axis=1), block.y[part], None if weight is None else weight[part]) for part in parts
        ]

    both = risk.executor.map(Pairs(risk.rows.items, folds), copy_parts, "copy the features")
    kept, held_out = (KeptRows(risk.executor.map(both, itemgetter(part), "split the copies")) for part in (0, 1))
    risk = replace(risk, system=replace(risk.system, precision=float(np.finfo(np.float32).eps)))
    out = float(weights[fold])
    return replace(risk, rows=kept, weight=float(weights.sum()) - out), replace(risk, rows=held_out, weight=out)
