"""A refined model is the mean of members, each trained alone on components of its own.

    f = 1/M sum_k f_k,        f_k a refined model of width S / M

The mean of models is a model of the same form, its components those of all members, so it predicts as fast as one that
was trained whole. Members start from other directions and see the rows in another order: what each of them learns by
heart differs and averages out. They know nothing of each other, so they are trained side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from rflaf.errors import Array
from rflaf.functions._kernels import refined as kernels
from rflaf.functions.curves import ColumnCurves
from rflaf.functions.densities import Directions, streams
from rflaf.rows.executors import all_in_turn, fold_in_turn

from .encoded_rows import Chunks, Encoding
from .trainer import Recipe, Refined, Shape, Trainer, begin, fold

Fold = Callable[[int, Any, Callable[[Any, int], Any]], Any]
SideBySide = Callable[[Sequence[Callable[[], Any]]], list[Any]]


@dataclass(frozen=True, slots=True)
class Members:
    """Trainers, each with a generator for the order of its rows, and one for the order of the chunks."""

    trainers: tuple[Trainer, ...]
    generators: tuple[np.random.Generator, ...]
    rng: np.random.Generator

    @property
    def recipe(self) -> Recipe:
        return self.trainers[0].recipe

    @property
    def batch(self) -> int:
        return self.trainers[0].batch


def share_out(shape: Shape, recipe: Recipe, rng: np.random.Generator) -> list[tuple[Shape, np.random.Generator]]:
    """The shape of every member, and a generator of its own; components that share one activation stay together."""
    widths = (shape.n_components,) if shape.shared else recipe.widths(shape.n_components)
    shapes = (replace(shape, n_components=width) for width in widths)
    return list(zip(shapes, streams(rng, len(widths)), strict=True))


def begin_members(
    encoding: Encoding,
    rows: kernels.Rows,
    X: Array,
    shape: Shape,
    recipe: Recipe,
    rng: np.random.Generator,
    n_rows: int,
) -> Members:
    """Members at their start, for ``n_rows`` rows like those of a sample ``X``."""
    parts = share_out(shape, recipe, rng)
    trainers = tuple(begin(encoding, rows, X, part, recipe, generator, n_rows) for part, generator in parts)
    return Members(trainers, tuple(generator for _, generator in parts), rng)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a member stands: what Adam knows, and the state of its generator."""

    parameters: kernels.Parameters
    moments: kernels.Parameters
    squares: kernels.Parameters
    generator: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stage:
    """Where training stands: its members, the state of the generator, and the losses until now.

    ``order`` are the chunks of the epoch under way, ``step`` the batches done, ``losses`` (n_epochs,) summed over rows.
    """

    members: tuple[Progress, ...]
    generator: Mapping[str, Any]
    order: Array
    step: int
    losses: Array


def train(
    members: Members,
    chunks: Chunks,
    n_rows: int,
    effort: float = 1.0,
    fold: Fold = fold_in_turn,
    side_by_side: SideBySide = all_in_turn,
) -> Array:
    """``effort`` times the epochs of the recipe over ``n_rows`` rows, in a new order every time.

    The mean loss of every epoch is returned, that of the members on their own. Chunk follows chunk by ``fold``, which
    may know how the first ones went; members meet a chunk ``side_by_side``.
    """
    steps = -(-n_rows // members.batch) + len(chunks) - 1  # at most: the last batch of a chunk may be short
    epochs = max(1, round(effort * members.recipe.epochs(n_rows)))
    rng = members.rng

    def train_on_a_chunk(stage: Stage, number: int) -> Stage:
        epoch, turn = divmod(number, len(chunks))
        rng.bit_generator.state = stage.generator
        order = rng.permutation(len(chunks)) if turn == 0 else stage.order
        rows, index = chunks[order[turn]]

        def one(k: int) -> tuple[Progress, float]:
            return _advance(members, k, stage.members[k], rows, index, stage.step, epochs * steps)

        done = side_by_side([partial(one, k) for k in range(len(members.trainers))])
        losses = stage.losses.copy()
        losses[epoch] += np.mean([loss for _, loss in done])
        step = stage.step + -(-index.size // members.batch)
        return Stage(tuple(progress for progress, _ in done), rng.bit_generator.state, order, step, losses)

    start = tuple(map(_progress, members.trainers, members.generators))
    first = Stage(start, rng.bit_generator.state, np.zeros(0, np.intp), 0, np.zeros(epochs))
    end = fold(epochs * len(chunks), first, train_on_a_chunk)
    for trainer, progress in zip(members.trainers, end.members, strict=True):
        trainer.resume(progress.parameters, progress.moments, progress.squares)
    rng.bit_generator.state = end.generator
    return np.asarray(end.losses / n_rows)


def _advance(
    members: Members, k: int, progress: Progress, rows: kernels.Rows, index: Array, step: int, n_steps: int
) -> tuple[Progress, float]:
    """Member ``k`` after the rows of a chunk, and their summed loss on the way."""
    trainer, generator = members.trainers[k], members.generators[k]
    trainer.resume(progress.parameters, progress.moments, progress.squares)
    generator.bit_generator.state = progress.generator
    loss = trainer.run(rows, generator.permutation(index), step, n_steps)
    return _progress(trainer, generator), loss


def _progress(trainer: Trainer, generator: np.random.Generator) -> Progress:
    return Progress(*trainer.state, generator.bit_generator.state)


def fold_members(members: Members) -> Refined:
    """One model of all members: their components side by side, the output weights divided by their number."""
    parts = [fold(trainer) for trainer in members.trainers]
    if len(parts) == 1:
        return parts[0]
    W, V = np.hstack([part.directions.W for part in parts]), np.vstack([part.V for part in parts]) / len(parts)
    offset, width = np.concatenate([part.directions.offset for part in parts]), W.shape[1]
    bent = [part.curves for part in parts if part.curves is not None]
    curves = ColumnCurves(bent[0].knots, np.hstack([part.values for part in bent])) if bent else None
    return Refined(Directions(W, offset, np.ones(width), width), curves, np.vstack([part.a for part in parts]), V)
