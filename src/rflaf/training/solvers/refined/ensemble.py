"""A refined model is the mean of members, each trained alone on components of its own.

    f = 1/M sum_k f_k,        f_k a refined model of width S / M

The mean of models is a model of the same form, its components those of all members, so it predicts as fast as one that
was trained whole. Members start from other directions and see the rows in another order: their overfitting differs and
averages out. They are independent, so they are trained side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from rflaf.errors import Array
from rflaf.functions._kernels import refined as kernels
from rflaf.functions.curves import side_by_side as side_by_side_curves
from rflaf.functions.densities import Directions, streams
from rflaf.rows.executors import all_in_turn, fold_in_turn

from .encoded_rows import Chunks, Encoding
from .recipes import Recipe
from .trainer import Refined, Shape, Trainer, start_trainer, unscaled

Fold = Callable[[int, Any, Callable[[Any, int], Any], str], Any]
_ORDERED_ROWS = 2**15  # of the passes that one call makes: with few rows a pass takes less time than a call
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
    """Return the shape and generator of every member; components that must be trained together stay so."""
    widths = (shape.n_components,) if shape.whole else recipe.widths(shape.n_components)
    shapes = (replace(shape, n_components=width) for width in widths)
    return list(zip(shapes, streams(rng, len(widths)), strict=True))


def start_members(
    encoding: Encoding,
    rows: kernels.Rows,
    X: Array,
    shape: Shape,
    recipe: Recipe,
    rng: np.random.Generator,
    n_rows: int,
) -> Members:
    """Return untrained members for ``n_rows`` rows like those of a sample ``X``."""
    parts = share_out(shape, recipe, rng)
    trainers = tuple(start_trainer(encoding, rows, X, part, recipe, generator, n_rows) for part, generator in parts)
    return Members(trainers, tuple(generator for _, generator in parts), rng)


@dataclass(frozen=True, slots=True)
class MemberState:
    """Parameters of a member, the moments of Adam, and the state of its generator."""

    parameters: kernels.Parameters
    moments: kernels.Parameters
    squares: kernels.Parameters
    generator: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TrainingState:
    """The members under training, the state of the generator, and the losses so far.

    ``order`` holds the chunks of the current pass, ``step`` the batches done, ``losses`` (n_epochs,) summed over rows.
    """

    members: tuple[MemberState, ...]
    generator: Mapping[str, Any]
    order: Array
    step: int
    losses: Array


def train_members(
    members: Members,
    chunks: Chunks,
    n_rows: int,
    effort: float = 1.0,
    run_steps: Fold = fold_in_turn,
    side_by_side: SideBySide = all_in_turn,
) -> Array:
    """Train for ``effort`` times the epochs of the recipe over ``n_rows`` rows, in a new order every epoch.

    Return the mean loss of every epoch, averaged over the members. ``run_steps`` goes from chunk to chunk, or of a
    single one from some epochs to the next, and may resume after the first ones; members train ``side_by_side``.
    """
    steps = -(-n_rows // members.batch) + len(chunks) - 1  # at most: the last batch of a chunk may be short
    epochs, rng = n_epochs(members.recipe, n_rows, effort), members.rng
    turns = _turns(epochs, n_rows if len(chunks) == 1 else _ORDERED_ROWS)

    def train_on_a_chunk(before: TrainingState, number: int) -> TrainingState:
        turn, place = divmod(number, len(chunks))
        rng.bit_generator.state = before.generator
        order = rng.permutation(len(chunks)) if place == 0 else before.order
        rows, index = chunks[order[place]]
        passes = turns[turn]

        def train_member(k: int) -> tuple[MemberState, Array]:
            return _advance(members, k, before.members[k], rows, index, passes, before.step, epochs * steps)

        done = side_by_side([partial(train_member, k) for k in range(len(members.trainers))])
        losses = before.losses.copy()
        losses[passes] += np.mean([loss for _, loss in done], axis=0)
        step = before.step + len(passes) * -(-index.size // members.batch)
        return TrainingState(tuple(progress for progress, _ in done), rng.bit_generator.state, order, step, losses)

    start = tuple(map(_progress, members.trainers, members.generators))
    first = TrainingState(start, rng.bit_generator.state, np.zeros(0, np.intp), 0, np.zeros(epochs))
    end = run_steps(len(turns) * len(chunks), first, train_on_a_chunk, "train the refined model")
    for trainer, progress in zip(members.trainers, end.members, strict=True):
        trainer.resume(progress.parameters, progress.moments, progress.squares)
    rng.bit_generator.state = end.generator
    return np.asarray(end.losses / n_rows)


def train_alone(
    trainer: Trainer, generator: np.random.Generator, rows: kernels.Rows, index: Array, effort: float
) -> None:
    """Train one member as `train_members` does on rows in memory, without the losses on the way."""
    steps, epochs = -(-index.size // trainer.batch), n_epochs(trainer.recipe, index.size, effort)
    for passes in _turns(epochs, index.size):
        trainer.run(rows, _orders(generator, index, len(passes)), passes.start * steps, epochs * steps)


def _turns(epochs: int, n_rows: int) -> list[range]:
    """Return the passes over ``n_rows`` rows that are made by one call each."""
    at_a_time = max(1, _ORDERED_ROWS // n_rows)
    return [range(first, min(first + at_a_time, epochs)) for first in range(0, epochs, at_a_time)]


def _orders(generator: np.random.Generator, index: Array, n_passes: int) -> Array:
    """Return the rows ``index`` in a new order for every pass, (n_passes, index.size)."""
    return generator.permuted(np.tile(index, (n_passes, 1)), axis=1)


def n_epochs(recipe: Recipe, n_rows: int, effort: float) -> int:
    """Return the passes over ``n_rows`` rows for a share of the epochs of a recipe."""
    return max(1, round(effort * recipe.epochs(n_rows)))


def _advance(
    members: Members, k: int, progress: MemberState, rows: kernels.Rows, index: Array, passes: range, step: int,
    n_steps: int,
) -> tuple[MemberState, Array]:  # fmt: skip
    """Return member ``k`` after some passes over the rows of a chunk, and their summed losses on the way."""
    trainer, generator = members.trainers[k], members.generators[k]
    trainer.resume(progress.parameters, progress.moments, progress.squares)
    generator.bit_generator.state = progress.generator
    losses = trainer.run(rows, _orders(generator, index, len(passes)), step, n_steps)
    return _progress(trainer, generator), losses


def _progress(trainer: Trainer, generator: np.random.Generator) -> MemberState:
    return MemberState(*trainer.state, generator.bit_generator.state)


def merge_members(members: Members) -> Refined:
    """Merge all members into one model, their mean."""
    return merge_models([unscaled(trainer) for trainer in members.trainers])


def merge_models(parts: Sequence[Refined]) -> Refined:
    """Return the mean of models: components side by side, output weights divided by their number."""
    if len(parts) == 1:
        return parts[0]
    W, V = np.hstack([part.directions.W for part in parts]), np.vstack([part.V for part in parts]) / len(parts)
    offset, width = np.concatenate([part.directions.offset for part in parts]), W.shape[1]
    curves = side_by_side_curves([(part.curves, part.directions.n_components) for part in parts])
    return Refined(Directions(W, offset, np.ones(width), width), curves, np.vstack([part.a for part in parts]), V)
