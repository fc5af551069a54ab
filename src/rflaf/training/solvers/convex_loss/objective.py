"""The regularised risk, its derivatives and its curvature, as sums over blocks of features.

The features are computed in every pass, kept, or one fold of either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from rflaf.errors import Array
from rflaf.functions._kernels.losses import Objective, sum_pass
from rflaf.functions.losses import Loss
from rflaf.model.features import RowFeatures, complete_design
from rflaf.model.normal_equations import NormalEquations
from rflaf.model.ridge import RidgeFactor, RidgeSystem
from rflaf.rows.blocks import Block, BlockSource, Pairs, Scratch, Unchanged
from rflaf.rows.executors import Executor, Items

KEPT_FEATURE_BYTES = 2**30  # features up to this size are kept, larger ones are computed in every pass
_LEAST_SHARE = 1e-4  # lower bound on a row's curvature, as a share of the mean

Whitening = tuple[float, RidgeFactor]  # mean curvature c of the loss, and the factor of G + 2 ridge / c
Make = Callable[[Any, Scratch], Block]  # from an item to a block whose ``X`` are features (n_components, n_rows)


class FeatureRows(Protocol):
    """Features with targets and weights: items, and the function that makes a block of one where the item lives."""

    @property
    def items(self) -> Items[Any]: ...

    @property
    def make(self) -> Make: ...


@dataclass(frozen=True, slots=True)
class MadeRows:
    """Features times their importance, computed again in every pass."""

    source: BlockSource
    features: RowFeatures
    importance: Array

    @property
    def items(self) -> Items[Any]:
        return self.source

    @property
    def make(self) -> Make:
        features, importance = self.features, self.importance
        weighted = bool((importance != 1).any())  # it is one throughout under plain sampling

        def compute(block: Block, scratch: Scratch) -> Block:
            z = scratch.array("z", (features.n_components, block.n_rows), features.dtype)
            features.features(block.X, z)
            if weighted:
                z *= importance[:, None].astype(z.dtype)
            return Block(z, block.y, block.weight)

        return compute

    @property
    def size(self) -> int:
        """Return the bytes of all features."""
        return self.source.n_samples * self.features.n_components * self.features.dtype.itemsize


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Features kept in memory, or where the cluster keeps them."""

    blocks: Items[Block]

    @property
    def items(self) -> Items[Any]:
        return Unchanged(self.blocks)

    @property
    def make(self) -> Make:
        return lambda block, scratch: block


@dataclass(frozen=True, slots=True)
class OneFold:
    """Rows of one fold with a weight of zero or, where ``held_out``, the rows of that fold alone.

    ``folds`` holds per block the fold of every row, and the weights of all folds there.
    """

    rows: FeatureRows
    folds: Items[tuple[Array, Array]]
    fold: int
    held_out: bool

    @property
    def items(self) -> Items[Any]:
        return Pairs(self.rows.items, self.folds)

    @property
    def make(self) -> Make:
        make, fold, held_out = self.rows.make, self.fold, self.held_out

        def weigh(pair: Any, scratch: Scratch) -> Block:
            item, (folds, _) = pair
            block = make(item, scratch)
            weighs = (folds == fold) == held_out
            return replace(block, weight=weighs * (1.0 if block.weight is None else block.weight))

        return weigh


@dataclass(slots=True)
class _Totals:
    """Sums over rows: loss, and its derivatives in V (n_components, n_outputs) and b (n_outputs,)."""

    loss: float
    V: Array
    b: Array

    def __iadd__(self, other: _Totals) -> _Totals:
        self.loss += other.loss
        self.V += other.V
        self.b += other.b
        return self


def _totals_of_block(block: Block, of_loss: Loss, V: Array, b: Array) -> _Totals:
    """Return the sums over one block, for any loss."""
    z, y, weight = block.X, block.y, block.weight
    f = (z.T @ V.astype(z.dtype)).astype(np.float64) + b
    loss, slope = of_loss.value(f, y), of_loss.slope(f, y)
    if weight is not None:
        loss, slope = loss * weight, slope * weight[:, None]
    return _Totals(float(loss.sum()), (z @ slope.astype(z.dtype)).astype(np.float64), slope.sum(axis=0))


def _compiled_totals(block: Block, of_loss: Loss, V: Array, b: Array) -> _Totals:
    """Return the same for one output of a loss with a compiled loop, in one sweep."""
    z, slopes = block.X, np.zeros(V.shape[0])
    y, weight = (np.ascontiguousarray(part, np.float64).ravel() for part in (block.y, _given(block.weight)))
    number, first, second = of_loss.kernel() or (0, 0.0, 0.0)
    objective = Objective(number, np.broadcast_to(np.asarray(first, np.float64), b.shape).copy(), second, b)
    loss, at_b = sum_pass(objective, z, y, weight, V[:, 0].astype(z.dtype), float(b[0]), slopes)
    return _Totals(loss, slopes[:, None], np.array([at_b]))


def _given(weight: Array | None) -> Array:
    """Return the weights; an empty array stands for weights of one."""
    return np.empty(0) if weight is None else weight


@dataclass(frozen=True)
class PastRows:
    """The loss of earlier rows as a quadratic: s'(V - V0) + (V - V0)' A (V - V0) / 2, summed over outputs.

    The intercept b is the last row of V. ``A`` is (n_outputs, n_components + 1, n_components + 1), ``centre`` V0 and
    ``slope`` s are (n_components + 1, n_outputs), ``weight`` is the sum of weights. The quadratic is exact for the
    squared loss; for others it has the curvature at the solution, where a ridge makes the slope of the loss
    s = - 2 weight ridge V0.
    """

    A: Array
    centre: Array
    slope: Array
    weight: float

    def faded(self, factor: float) -> PastRows:
        """Return the quadratic of rows whose weights are multiplied by ``factor``."""
        return PastRows(factor * self.A, self.centre, factor * self.slope, factor * self.weight)

    def value_and_slope(self, V: Array, b: Array) -> tuple[float, Array]:
        off = np.vstack([V, b]) - self.centre
        curved = np.einsum("oij,jo->io", self.A, off)
        return float(np.sum(off * (self.slope + 0.5 * curved))), self.slope + curved


@dataclass(frozen=True)
class Risk:
    """The regularised risk, with mean products of features to whiten by; ``past`` is the quadratic of earlier rows."""

    rows: FeatureRows
    loss: Loss
    system: RidgeSystem
    weight: float
    intercept: bool
    executor: Executor
    past: PastRows | None = None
    _constant: dict[bytes, tuple[float, Array, Array, float]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of_rows(
        cls, made: MadeRows, loss: Loss, intercept: bool, executor: Executor, memory: int | None = None
    ) -> Risk:
        """Return the risk on the features of rows, which are kept where they fit in ``memory`` bytes."""
        if made.size <= (KEPT_FEATURE_BYTES if memory is None else memory):
            make = made.make
            kept = executor.map(made.source, lambda block: make(block, Scratch()), "compute the features")
            return cls.of_blocks(kept, loss, intercept, executor)
        equations = made.features.sum_equations(made.source, executor).scale(made.importance)
        return cls(made, loss, equations.system(intercept), equations.weight, intercept, executor)

    @classmethod
    def of_blocks(cls, kept: Items[Block], loss: Loss, intercept: bool, executor: Executor) -> Risk:
        """Return the risk on blocks whose ``X`` are features (n_components, n_rows)."""

        def sum_block(block: Block, scratch: Scratch) -> NormalEquations:
            design = scratch.array("design", (block.X.shape[0] + 1 + block.y.shape[1], block.y.shape[0]), block.X.dtype)
            design[: block.X.shape[0]] = block.X
            complete_design(design, block.y, block.weight)
            return NormalEquations.from_design(design, block.y.shape[1], block.weight)

        equations = executor.reduce(kept, sum_block, "sum the normal equations")
        return cls(KeptRows(kept), loss, equations.system(intercept), equations.weight, intercept, executor)

    @property
    def n_outputs(self) -> int:
        return int(self.system.c.shape[1])

    def totals(self, V: Array, b: Array) -> _Totals:
        """Return summed loss and slopes at output weights ``V`` and intercepts ``b``, in one pass."""
        of_loss, of_block = self.loss, _totals_of_block
        if self.n_outputs == 1 and of_loss.kernel() is not None:
            of_block = _compiled_totals
        total: _Totals = self._sum(lambda block, scratch: of_block(block, of_loss, V, b), "sum loss and gradient")
        if self.past is not None:
            value, slope = self.past.value_and_slope(V, b)
            total += _Totals(value, slope[:-1], slope[-1])
        return total

    def _sum(self, of_block: Callable[[Block, Scratch], Any], label: str) -> Any:
        """Sum over all blocks; only ``of_block`` and the function that makes a block travel, not the problem."""
        make = self.rows.make
        return self.executor.reduce(
            self.rows.items, lambda item, scratch: of_block(make(item, scratch), scratch), label
        )

    def at_constant(self, base: Array) -> tuple[float, Array, Array, float]:
        """Return value, derivatives in V and b, and mean curvature at the constant answer ``base``; computed once."""
        base = base * self.intercept
        if base.tobytes() not in self._constant:
            nothing = np.zeros((self.system.G.shape[0], self.n_outputs))
            found = (*self.objective(nothing, base, 0.0), self.mean_curvature(nothing, base))
            self._constant[base.tobytes()] = found
        return self._constant[base.tobytes()]

    def objective(self, V: Array, b: Array, ridge: float) -> tuple[float, Array, Array]:
        """Return the value and the derivatives in V and b."""
        total = self.totals(V, b)
        value = total.loss / self.weight + ridge * float(np.sum(V**2))
        return value, total.V / self.weight + 2 * ridge * V, total.b / self.weight * self.intercept

    def mean_curvature(self, V: Array, b: Array) -> float:
        """Return the mean of the loss' curvature over rows and outputs."""
        loss = self.loss

        def sum_curvature(block: Block, scratch: Scratch) -> Array:
            z, y, weight = block.X, block.y, block.weight
            curved = loss.curvature((z.T @ V.astype(z.dtype)).astype(np.float64) + b, y).mean(axis=1)
            w = np.ones_like(curved) if weight is None else weight
            return np.array([w @ curved, w.sum()])

        curved, weight = self._sum(sum_curvature, "measure the curvature")
        return float(curved / weight) if weight > 0 else 1.0

    def whiten_at(self, V: Array, b: Array, ridge: float) -> Whitening:
        """Return the coordinates in which the problem is round at V and b, outputs taken together."""
        loss = self.loss

        def sum_weighted(block: Block, scratch: Scratch) -> NormalEquations:
            z, y = block.X, block.y
            curved = loss.curvature((z.T @ V.astype(z.dtype)).astype(np.float64) + b, y).mean(axis=1)
            curved = np.maximum(curved, _LEAST_SHARE * curved.mean()) if curved.any() else np.ones_like(curved)
            weight = (curved if block.weight is None else curved * block.weight).astype(z.dtype)
            design = scratch.array("weighted", (z.shape[0] + 2, z.shape[1]), z.dtype)
            design[:-2] = z
            complete_design(design, np.zeros((z.shape[1], 1), z.dtype), weight)
            return NormalEquations.from_design(design, 1, weight)

        equations: NormalEquations = self._sum(sum_weighted, "sum curvature-weighted products")
        if self.past is not None:
            equations.moments[:-1, :-1] += self.past.A.mean(axis=0)
        curvature = equations.weight / self.weight
        return curvature, equations.system(self.intercept).factor(2 * ridge / curvature)

    def hessians(self, V: Array, b: Array, dtype: Any = np.float64) -> Array:
        """Return the second derivatives of the summed loss in V and b: one Hessian per output, including past rows.

        (n_outputs, n_components + 1, n_components + 1); products are summed in ``dtype`` within a block.
        """
        m, loss = V.shape[0], self.loss

        def sum_hessians(block: Block, scratch: Scratch) -> Array:
            z, y, weight = block.X, block.y, block.weight
            curved = loss.curvature((z.T @ V.astype(z.dtype)).astype(np.float64) + b, y)
            root = np.sqrt(curved if weight is None else curved * weight[:, None]).T.astype(dtype)
            design = scratch.array("weighted", (m + 1, z.shape[1]), dtype)
            A = np.empty((root.shape[0], m + 1, m + 1))
            for o, column in enumerate(root):
                np.multiply(z, column, out=design[:m])
                design[m] = column
                A[o] = design @ design.T
            return A

        A: Array = self._sum(sum_hessians, "sum the Hessians")
        if not self.intercept:
            A[:, m], A[:, :, m] = 0, 0
        return A if self.past is None else A + self.past.A

    def curvature(self, V: Array, b: Array, ridge: float = 0.0) -> PastRows:
        """Return the quadratic of these rows at the solution for a ridge, including that of past rows."""
        slope = np.vstack([-2 * self.weight * ridge * V, np.zeros_like(b)])
        return PastRows(self.hessians(V, b), np.vstack([V, b]), slope, self.weight)


def on_row_space(risk: Risk) -> tuple[Risk, Array] | None:
    """Return the problem in the span of fewer rows than features and Q (n_components, rank), V = Q V'; or None."""
    rows = risk.rows
    if not isinstance(rows, KeptRows) or 2 * risk.system.n_rows > risk.system.G.shape[0]:
        return None
    kept = [rows.blocks[i] for i in range(len(rows.blocks))]
    Z = np.hstack([block.X for block in kept])
    if Z.shape[1] >= Z.shape[0]:  # rows of weight zero
        return None
    Q, R = np.linalg.qr(Z)
    ends = np.cumsum([block.X.shape[1] for block in kept])[:-1]
    parts = np.split(R, ends, axis=1)
    blocks = [replace(block, X=np.ascontiguousarray(part)) for block, part in zip(kept, parts, strict=True)]
    return Risk.of_blocks(blocks, risk.loss, risk.intercept, risk.executor), Q
