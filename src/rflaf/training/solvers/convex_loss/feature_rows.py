"""Where the rows of a convex problem come from: features computed in every pass, kept features, or one fold of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from rflaf.errors import Array
from rflaf.model.features import RowFeatures
from rflaf.rows.blocks import Block, BlockSource, Pairs, Scratch, Unchanged
from rflaf.rows.executors import Items

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
