"""Recipes: how a refined model may be trained, and the trees of recipes that the search walks through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, replace

import numpy as np

from rflaf.functions._kernels import refined as kernels

_EPOCHS, _STRAIGHT_EPOCHS = 15, 24
_MOST_EPOCHS, _LEAST_STEPS = 100, 1000
_NODES_OF_A_ROW, _LEAST_STEPS_OF_A_PASS = 32, 16  # in batches for many nodes
_MEMBERS = 0.2  # of the root of the width: two for a hundred components
_LEAST_WIDTH = 2 * kernels.LANE  # of a member
_STIFFER, _MORE_MEMBERS = 4.0, 3
_SMOOTHED, _SLOWER = (1.0, 1.0, 0.02, 0.0), (1.0, 0.5, 0.0, 0.0)
_SHRUNK, _SHRUNK_MORE = (0.5, 1.0, 0.0, 1e-3), (1.0, 1.0, 0.0, 1e-2)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to train: the penalty alpha on directions and ramps, a factor on their rate, and the nodes per column.

    ``nodes=0`` keeps every column straight; ``effort`` is a share of the usual epochs, ``split`` a multiple of the
    usual number of members, zero for a single one; ``smoothing`` is the share of every row's label that is given to all
    classes alike, ``shrinkage`` a ridge penalty on the coefficients of the activations. With ``own_values``
    numbers that recur have, beside the curve of their column, a value of their own each.
    """

    alpha: float
    rate: float = 1.0
    nodes: int = 33
    effort: float = 1.0
    split: int = 1
    smoothing: float = 0.0
    shrinkage: float = 0.0
    own_values: bool = False

    def __str__(self) -> str:
        """Return the recipe in words, for the log."""
        curves = f"curves of {self.nodes} nodes" if self.nodes else "straight columns"
        also = f", labels smoothed by {self.smoothing:.2g}" if self.smoothing else ""
        also += ", own values of numbers that recur" if self.own_values else ""
        also += f", activations shrunk by {self.shrinkage:.2g}" if self.shrinkage else ""
        return f"penalty {self.alpha:.2g}, {curves}{also}"

    def widths(self, width: int) -> tuple[int, ...]:
        """Return the widths of the members that share ``width`` components; whole vectors but for the last.

        Their number grows as the root of the width, so that wide models have wide members.

        >>> [Recipe(1e-4).widths(width) for width in (30, 100, 300)], Recipe(1e-4, split=3).widths(100)
        ([(30,), (48, 52), (96, 104, 100)], (16, 16, 16, 16, 16, 20))
        """
        n_members = int(np.clip(round(self.split * _MEMBERS * width**0.5), 1, max(width // _LEAST_WIDTH, 1)))
        ends = np.arange(1, n_members) * width // n_members
        return tuple(map(int, np.diff([0, *(kernels.LANE * np.round(ends / kernels.LANE)), width])))

    def batch(self, n_rows: int, n_nodes: int = 0) -> int:
        """Return the rows per step: steps that move nodes cost more, so fewer of them are made.

        Every step moves all of ``n_nodes``; where these are many, it has a row for every 32 of them, as long as a pass
        has 16 steps.

        >>> [Recipe(1e-4).batch(2800, n_nodes) for n_nodes in (0, 1000, 3000)]
        [32, 32, 128]
        """
        most = 512 if self.nodes else 256
        by_nodes = min(max(n_nodes, 1) / _NODES_OF_A_ROW, n_rows / _LEAST_STEPS_OF_A_PASS)
        least = np.clip(2 ** np.ceil(np.log2(by_nodes)), 32, most)
        return int(np.clip(2 ** np.round(np.log2(max(n_rows, 1) * most / 2**15)), least, most))

    def epochs(self, n_rows: int) -> int:
        """Return the passes over the rows: 15 for 36,000 rows, more for fewer rows and for straight columns.

        At most a hundred, but for few rows, whose passes have few steps, as many as make a thousand steps.

        >>> [Recipe(1e-4).epochs(n_rows) for n_rows in (40, 100, 1000, 36_000, 10**6)]
        [450, 250, 90, 15, 8]
        """
        base = self.effort * (_EPOCHS if self.nodes else _STRAIGHT_EPOCHS)
        most = max(_MOST_EPOCHS, _LEAST_STEPS / -(-n_rows // self.batch(n_rows)))
        return round(float(np.clip(base * (36_000 / n_rows) ** 0.5, min(8, base), most)))


@dataclass(frozen=True, slots=True)
class RecipeTree:
    """The recipes to try: with few rows those of ``grid`` side by side, the stiffest last; with many a walk.

    The walk tries ``first``, then those in ``following`` for the best so far, as long as there are some. Then the best
    is tried with each of ``doubts``: factors on its penalty and its rate, a smoothing and a shrinkage. ``split``
    multiplies the number of members in the walk; models of folds are too narrow to be split.
    """

    first: tuple[Recipe, ...]
    following: dict[Recipe, tuple[Recipe, ...]]
    grid: tuple[Recipe, ...] = ()
    doubts: tuple[tuple[float, float, float, float], ...] = ()
    split: int = 1

    def for_classes(self, n_outputs: int) -> RecipeTree:
        """Return the tree for labels: stiffer ends of the grid, and ways to be less sure.

        Labels of few rows can be told apart whatever the penalty, so log odds grow as long as nothing holds them; those
        of several outputs, whose weights are trained too, the most. Models of two classes and many rows have three
        times as many members: with several outputs these would be too narrow.
        """
        ends = {bool(recipe.nodes): recipe for recipe in sorted(self.grid, key=lambda recipe: recipe.alpha)}
        stiffer = (replace(recipe, alpha=_STIFFER * recipe.alpha) for recipe in ends.values())
        doubts = (_SMOOTHED, _SHRUNK, _SLOWER if n_outputs == 1 else _SHRUNK_MORE)
        return replace(self, grid=(*self.grid, *stiffer), doubts=doubts, split=_MORE_MEMBERS if n_outputs == 1 else 1)

    def shorter(self, share: float) -> RecipeTree:
        """Return the tree with a share of the epochs."""
        tree = self._walking(lambda recipe: replace(recipe, effort=share * recipe.effort))
        return replace(tree, grid=tuple(replace(recipe, effort=share * recipe.effort) for recipe in self.grid))

    def doubted(self, recipe: Recipe, slower: bool = True) -> tuple[Recipe, ...]:
        """Return a recipe with each of the doubts, ``slower`` ones included or not.

        A slower training needs more rows to be judged by than one part held out.
        """
        return tuple(
            replace(
                recipe, alpha=stiff * recipe.alpha, rate=fast * recipe.rate, smoothing=smoothing, shrinkage=shrinkage
            )
            for stiff, fast, smoothing, shrinkage in self.doubts
            if slower or fast >= 1
        )

    def scaled(self, factor: float) -> RecipeTree:
        """Return the tree with all penalties multiplied."""
        tree = self._walking(lambda recipe: replace(recipe, alpha=factor * recipe.alpha))
        return replace(tree, grid=tuple(replace(recipe, alpha=factor * recipe.alpha) for recipe in self.grid))

    def walked(self) -> RecipeTree:
        """Return the tree of the walk, with as many members as it says."""
        return replace(self._walking(lambda recipe: replace(recipe, split=self.split * recipe.split)), split=1)

    def _walking(self, change: Callable[[Recipe], Recipe]) -> RecipeTree:
        """Return the tree with another walk."""
        following = {change(best): tuple(map(change, others)) for best, others in self.following.items()}
        return replace(self, first=tuple(map(change, self.first)), following=following)

    def with_alpha(self, alpha: float) -> RecipeTree:
        """Return a tree with the penalty given: the search still chooses how columns move and curve."""
        tried = {replace(recipe, alpha=alpha) for recipe in (*self.first, *sum(self.following.values(), ()))}
        grid = tuple(dict.fromkeys(replace(recipe, alpha=alpha) for recipe in self.grid))
        doubts = tuple((1.0, fast, smoothing, shrinkage) for _, fast, smoothing, shrinkage in self.doubts)
        return RecipeTree(tuple(sorted(tried, key=astuple)), {}, grid, doubts, self.split)


_EASY, _MIDDLE, _STIFF = Recipe(1.5e-5, 0.3), Recipe(1.5e-4, 0.5), Recipe(5e-4, 0.5)
_FINE = Recipe(1.5e-6, 0.3, nodes=129, effort=1.5)
_STRAIGHT = Recipe(3e-4, 0.5, nodes=0)
_VERY_STIFF = (Recipe(5e-3), Recipe(5e-3, nodes=0))
# From hardly held back to nearly linear: noisy or few rows want penalties a thousand times those of many exact ones.
_CURVED_GRID = (
    _FINE, _EASY, _MIDDLE, _STIFF, Recipe(2e-3), Recipe(5e-3), Recipe(2e-2), Recipe(1e-1),
)  # fmt: skip
_STRAIGHT_GRID = tuple(Recipe(alpha, nodes=0) for alpha in (5e-6, 5e-5, 4e-4, 2e-3, 5e-3, 2e-2, 1e-1, 5e-1))
CURVED = RecipeTree(
    (_EASY, _MIDDLE, _STIFF),
    {
        _EASY: (_FINE, Recipe(1.5e-6, 0.3, effort=1.5)),
        _FINE: (Recipe(1.5e-6, 0.6, nodes=513, effort=2, split=3),),
        _MIDDLE: (Recipe(5e-5, 0.5), Recipe(3e-4, 0.3)),
        _STIFF: (Recipe(5e-3), Recipe(3e-4, 0.3)),
    },
    _CURVED_GRID,
)
_FREE = Recipe(5e-6, nodes=0, split=0)  # straight columns hardly overfit even with a weak penalty
STRAIGHT = RecipeTree(
    (_FREE, replace(_FREE, alpha=5e-5), _STRAIGHT),
    {_FREE: (replace(_FREE, effort=2),), _STRAIGHT: (Recipe(5e-3, nodes=0),)},
    _STRAIGHT_GRID,
)
EITHER = RecipeTree(
    (*CURVED.first, _STRAIGHT),
    CURVED.following | {_STIFF: _VERY_STIFF, _STRAIGHT: (*_VERY_STIFF, Recipe(5e-5, 0.5, nodes=0))},
    tuple(recipe for pair in zip(_STRAIGHT_GRID, _CURVED_GRID, strict=True) for recipe in pair),
)


_SOFT, _HARD = (Recipe(alpha, nodes=0, effort=0.35) for alpha in (5e-4, 2e-2))
WIDE = RecipeTree(  # wide inputs overfit quickly: strong penalties, few epochs
    (_SOFT, replace(_SOFT, alpha=5e-3), _HARD),
    {_SOFT: (replace(_SOFT, alpha=5e-5),), _HARD: (replace(_HARD, alpha=1e-1),)},
    tuple(replace(_SOFT, alpha=alpha) for alpha in (5e-5, 5e-4, 5e-3, 2e-2, 1e-1)),
)
