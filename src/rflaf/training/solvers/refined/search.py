"""The search for a recipe: candidates are trained on part of the rows and compared on the rest.

The search chooses the penalty alpha, how fast columns move and whether they have curves. With up to 12,000 rows every
row is held out once, by folds, and all recipes of a grid compete (`rflaf.training.solvers.refined.race`). With more
rows 15 % held out once tell recipes apart: a tree names the recipes to try first and those that follow from the best of
them, as long as the error falls. Every member of a candidate is one task, so threads change no bit of the result. The
winner is trained again on all rows.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rflaf.errors import Array
from rflaf.functions._kernels.refined import Rows
from rflaf.functions.losses import Loss
from rflaf.rows.executors import Executor
from rflaf.training.temperature import temperature

from .encoded_rows import Encoding, RowsInMemory, as_targets, encode
from .ensemble import share_out, train_alone
from .recipes import Recipe, RecipeTree
from .relevance import relevances
from .smoothing import smoothed
from .trainer import Shape, start_trainer

_log = logging.getLogger("rflaf")
_HELD_OUT = 0.15
_NARROWER, _WIDER = (12, 25, 50), (200, 400)
MOST_FOLDED_ROWS = 12_000  # up to here every row is held out once
_VERY_FEW_ROWS, _MOST_FOLDS, USUAL_FOLDS = 120, 10, 5
_MANY_ROWS, _FOLDS_OF_MANY = 3000, 3  # of the usual folds, that are held out of more rows
_START_ROWS = 4000  # that the spread of the first projections is measured on
_SHARED_ROWS = 300  # that the models of all folds answer
_WEAK, _WEAK_SHARE = 0.1, 0.25  # of the strongest column; of the columns, before another search is worth its time
_MOST_ROUNDS = 3  # of leaving out columns
TO_DEVIATIONS = 1.4826  # from a median absolute deviation to the standard deviation of a normal law
USUAL_NODES, MOST_NODES = 33, 4096  # of a column; of all columns where they are finer than that
PAYS = 0.02  # of the error: what a step of the search must win to go on to another
_FAR = 8.0  # deviations from the rest
_MOST_OUTLIERS, _LEAST_BLAME = 0.1, 0.3  # share of the rows, and share of the squared error that must be theirs
_LEAST_OUTLIERS = 5
_KEPT_DEVIATIONS = 3.0  # of the noise: what is farther off pulls no harder


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate's held-out loss and outputs (n_held_out, O), and the strength of its columns (n_features,).

    Log odds are those of the candidate times ``factor``, around those of the shares of the classes. ``shared``
    (n_splits, n_shared, O) are those that the models of all splits give to the same rows.
    """

    recipe: Recipe
    width: int
    error: float
    outputs: Array = field(repr=False)
    strength: Array = field(default_factory=lambda: np.zeros(0), repr=False)
    factor: float = 1.0
    shared: Array = field(default_factory=lambda: np.zeros((0, 0, 0)), repr=False)


_Key = tuple[Recipe, int, float, int]  # recipe, width, effort, split
# Outputs on the rows held out, (n_held_out, O); strength of the columns, (n_features,); outputs on the rows shared.
_Answer = tuple[Array, Array, Array]


@dataclass(frozen=True, slots=True)
class _Part:
    """A member of a candidate, to be trained on a split."""

    key: _Key
    split: int
    recipe: Recipe
    shape: Shape
    generator: np.random.Generator


@dataclass(frozen=True, slots=True)
class Hunt:
    """Rows to search on, pairs (to train on, held out), one seed, and the share of a recipe's epochs to train for.

    ``scales``, where given, holds a scale of the columns for every split, that its rows held out have no part in.
    ``lessons``, where given, holds targets to train on, (n_rows, n_outputs), for every split and, last, for all rows;
    those of the table judge. The models of all splits answer the rows ``shared``, (n_shared,), by which they differ.
    """

    table: RowsInMemory
    mean: Array
    scale: Array
    splits: tuple[tuple[Array, Array], ...]
    seed: int
    effort: float
    scales: tuple[Array, ...] = ()
    lessons: tuple[Array, ...] = ()
    shared: Array = field(default_factory=lambda: np.zeros(0, np.intp))
    _encoded: dict[tuple[int, bool, bytes], tuple[Encoding, Rows]] = field(default_factory=dict, init=False, repr=False)
    _trained: dict[_Key, tuple[Loss, list[_Answer]]] = field(default_factory=dict, init=False, repr=False)

    def encoded(self, recipe: Recipe, split: int | None = None) -> tuple[Encoding, Rows]:
        """Return the rows as the loops read them, encoded once for all recipes with as many nodes; as of a split."""
        scale = self.scales[split] if self.scales and split is not None else self.scale
        key = recipe.nodes, recipe.own_values, scale.tobytes()
        if key not in self._encoded:
            encoding = encode(self.table, self.mean, scale, recipe.nodes, recipe.own_values)
            self._encoded[key] = encoding, encoding.rows(self.table.X, self.table.y, self.table.weight)
        encoding, rows = self._encoded[key]
        if self.lessons:
            rows = rows._replace(y=as_targets(self.lessons[-1 if split is None else split]))
        return encoding, rows

    def affords(self, recipe: Recipe) -> bool:
        """Return whether the columns have no more nodes under a recipe than there is time to train.

        And, where their values are to have values of their own, whether there are such columns.
        """
        if recipe.own_values and not self.encoded(recipe)[0].repeated.size:
            return False
        return recipe.nodes <= USUAL_NODES or self.encoded(recipe)[0].knots.nodes.size <= MOST_NODES

    @property
    def held_out(self) -> Array:
        """Return the rows held out, each by one split."""
        return np.concatenate([held_out for _, held_out in self.splits])

    @property
    def is_folded(self) -> bool:
        """Return whether every row is held out once."""
        return len(self.splits) > 1

    def first(self, n_splits: int) -> Hunt:
        """Return the hunt that judges by the first splits only."""
        lessons = (*self.lessons[:n_splits], *self.lessons[-1:])
        return self._changed(splits=self.splits[:n_splits], scales=self.scales[:n_splits], lessons=lessons)

    def with_fewer_rows(self, n_splits: int, judged_by_all: bool) -> Hunt:
        """Return the hunt that trains on none of the rows that the first splits hold out, and holds these out.

        ``judged_by_all`` holds the rows of the other splits out too, trained on none of as many of the last.
        """
        held_out, every = [rows for _, rows in self.splits], np.arange(self.table.n_rows)
        parts = [(held_out[:n_splits], held_out[:n_splits]), (held_out[-n_splits:], held_out[n_splits:])]
        parts = parts if judged_by_all and len(held_out) > n_splits else parts[:1]
        splits = [(np.setdiff1d(every, np.concatenate(out)), np.concatenate(judged)) for out, judged in parts]
        other = replace(self, splits=tuple(splits), scales=())
        object.__setattr__(other, "_encoded", self._encoded)
        return other

    def with_effort(self, effort: float) -> Hunt:
        """Return the hunt that trains for another share of the epochs."""
        return self._changed(effort=effort)

    def with_smoothed_labels(self, loss: Loss, share: float) -> Hunt:
        """Return the hunt on labels that are not quite sure."""
        return replace(self, table=replace(self.table, y=smoothed(loss, self.table.y, share)))

    def _changed(self, **changes: Any) -> Hunt:
        """Return another hunt on the same encoded rows; what one of the two has trained, the other knows."""
        other = replace(self, **changes)
        object.__setattr__(other, "_encoded", self._encoded)
        object.__setattr__(other, "_trained", self._trained)
        return other

    def compare(self, candidates: Sequence[tuple[Shape, Recipe]], executor: Executor) -> list[Trial]:
        """Return the trials of several candidates; every member of every candidate is one task."""
        splits = range(len(self.splits))
        wanted = {self._key(shape, recipe, split): (shape, recipe) for shape, recipe in candidates for split in splits}
        parts = [
            _Part(key, key[-1], recipe, shape, generator)
            for key, (whole, recipe) in wanted.items()
            if key not in self._trained or self._trained[key][0] is not whole.loss
            for shape, generator in share_out(whole, recipe, np.random.default_rng(self.seed))
        ]
        # Rows are encoded once, and not by several threads at a time; trainings that take long do not begin last.
        parts.sort(key=lambda part: self.encoded(part.recipe, part.split)[0].knots.nodes.size, reverse=True)
        answers: list[_Answer] = executor.map(parts, self._train, "train candidates")
        self._trained.update({part.key: (part.shape.loss, []) for part in parts})
        for part, answer in zip(parts, answers, strict=True):
            self._trained[part.key][1].append(answer)
        trials = []
        for shape, recipe in candidates:
            trials.append(
                self._judge(shape, recipe, [self._trained[self._key(shape, recipe, split)][1] for split in splits])
            )
            _log.info("search: hold-out error %.5g, %s, %d components", trials[-1].error, recipe, shape.n_components)
        return trials

    def _key(self, shape: Shape, recipe: Recipe, split: int) -> _Key:
        """Return what tells a training from others of the hunt under the same loss."""
        return recipe, shape.n_components, self.effort, split

    def _train(self, part: _Part) -> _Answer:
        """Train one member on its split and predict the rows held out."""
        kept, held_out = self.splits[part.split]
        encoding, rows = self.encoded(part.recipe, part.split)
        start = self.table.X[kept[:_START_ROWS]]
        trainer = start_trainer(encoding, rows, start, part.shape, part.recipe, part.generator, kept.size)
        train_alone(trainer, part.generator, rows, kept, self.effort)
        return trainer.outputs(rows, held_out), trainer.strength(), trainer.outputs(rows, self.shared)

    def _judge(self, shape: Shape, recipe: Recipe, answers: Sequence[Sequence[_Answer]]) -> Trial:
        """Judge the mean of the members of a candidate on the rows held out by every split."""
        outputs, strengths, shared = [], [], []
        for of_split in answers:
            members, moved, others = zip(*of_split, strict=True)
            outputs.append(np.mean(members, axis=0))
            shared.append(np.mean(others, axis=0))
            strengths.append(np.sqrt(np.sum([strength**2 for strength in moved], axis=0)))
        held_out_outputs, factor = self._no_surer(shape, np.concatenate(outputs))
        error = self.mean_loss(shape.loss, held_out_outputs)
        strength, alike = np.max(strengths, axis=0), np.array(shared)
        if factor != 1:
            base = shape.base_of(alike.shape[2])
            alike = base + np.float32(factor) * (alike - base)
        return Trial(recipe, shape.n_components, error, held_out_outputs, strength, factor, alike)

    def _no_surer(self, shape: Shape, outputs: Array) -> tuple[Array, float]:
        """Return outputs no surer than the rows held out allow, and the factor on them.

        Two classes alone are judged so: with more of them weak penalties seem best, whose factors are another at the
        whole width.
        """
        rows, base = self.held_out, shape.base_of(outputs.shape[1])
        if base.size > 1:
            return outputs, 1.0
        factor = temperature(shape.loss, outputs, self.table.y[rows], self.table.weight[rows], base)
        return (outputs if factor == 1 else base + np.float32(factor) * (outputs - base)), factor

    def losses(self, loss: Loss, outputs: Array) -> Array:
        """Return a loss for every row held out, (n_held_out,), times its weight over their mean weight."""
        held_out = self.held_out
        weight = self.table.weight[held_out]
        values = loss.value(outputs.astype(np.float64), self.table.y[held_out])
        return np.asarray(values * (weight / weight.mean()))

    def mean_loss(self, loss: Loss, outputs: Array) -> float:
        """Return the weighted mean of a loss over the rows held out."""
        return float(self.losses(loss, outputs).mean())

    def residual(self, trial: Trial) -> Array:
        """Return the residuals of a trial on the rows held out, (n_held_out, O)."""
        return self.table.y[self.held_out] - trial.outputs


def hold_out(
    table: RowsInMemory,
    mean: Array,
    scale: Array,
    rng: np.random.Generator,
    effort: float,
    classes: Array | None = None,
) -> Hunt:
    """Split rows for the search: into folds, or once where there are many rows to judge by.

    Every part has its share of each of the ``classes`` (n_rows,), as far as their numbers allow.
    """
    order = rng.permutation(table.n_rows)
    if classes is not None:
        order = order[np.argsort(classes[order], kind="stable")]
    if table.n_rows <= MOST_FOLDED_ROWS:
        n_folds = min(_MOST_FOLDS if table.n_rows <= _VERY_FEW_ROWS else USUAL_FOLDS, table.n_rows)
        held_out = [order[fold::n_folds] for fold in range(_FOLDS_OF_MANY if table.n_rows > _MANY_ROWS else n_folds)]
    else:
        places = np.arange(max(1, round(_HELD_OUT * table.n_rows)))
        held_out = [order[places if classes is None else (places / _HELD_OUT).astype(np.intp)]]
    splits = tuple((np.setdiff1d(order, rows), np.sort(rows)) for rows in held_out)
    hunt = Hunt(table, mean, scale, splits, int(rng.integers(2**31)), effort)
    if classes is None or not hunt.is_folded:
        return hunt
    return replace(hunt, shared=np.sort(order[:: -(-table.n_rows // _SHARED_ROWS)]))


@dataclass(frozen=True, slots=True)
class Outliers:
    """Targets far from all others that the columns do not explain."""

    share: float
    delta: float

    def __str__(self) -> str:
        return (
            f"about {100 * self.share:.2g} % of the targets lie far from all others and are not explained by the"
            " columns: they are taken for outliers and weigh less (Huber loss). If they are right, pass"
            " loss=rflaf.functions.losses.Squared()."
        )


def find_outliers(hunt: Hunt, trial: Trial, others: Sequence[Array] = ()) -> Outliers | None:
    """Find outliers among the rows held out: far in the target, and as far from the prediction.

    Rare but true values are explained at least in part, by the trial or by the outputs of ``others``, and stay; so does
    the tail of a skewed target. A few far targets of few rows are rather where no other row is near.
    """
    y = hunt.table.y
    centre = np.median(y, axis=0)
    far = np.abs(y[hunt.held_out] - centre)
    residual = np.abs(hunt.residual(trial))
    for outputs in others:
        residual = np.minimum(residual, np.abs(y[hunt.held_out] - outputs))
    spread, noise = (TO_DEVIATIONS * np.median(size, axis=0) for size in (np.abs(y - centre), residual))
    judged = (spread > 0) & (residual > far / 2)  # where most targets are the same, the others are events
    odd = (judged & (far > _FAR * spread) & (residual > _FAR * noise)).any(axis=1)
    between = (judged & (far > _FAR / 2 * spread)).any(axis=1) & ~odd
    share = float(odd.mean())
    blame = np.sum(residual[odd] ** 2) / max(float(np.sum(residual**2)), np.finfo(float).tiny)
    a_tail = between.sum() > odd.sum()  # outliers stand apart, the end of a heavy tail does not
    if odd.sum() < _LEAST_OUTLIERS or share >= _MOST_OUTLIERS or blame < _LEAST_BLAME or a_tail:
        return None
    return Outliers(share, float(_KEPT_DEVIATIONS * noise.max()))


def by_error(trial: Trial) -> float:
    """Return the error of a trial, infinite where its training diverged."""
    return trial.error if np.isfinite(trial.error) else float("inf")


def by_rank(trial: Trial) -> tuple[float, float]:
    """Return what orders trials, the best first: their error, and of equal errors the stiffer penalty."""
    return by_error(trial), -trial.recipe.alpha


def search(hunt: Hunt, shape: Shape, tree: RecipeTree, executor: Executor) -> list[Trial]:
    """Return the trials of a tree, the best first."""
    tree = tree.walked()
    trials = hunt.compare([(shape, recipe) for recipe in tree.first], executor)
    before = float("inf")
    while (best := min(trials, key=by_rank)).recipe in tree.following and by_error(best) < before * (1 - PAYS):
        before = by_error(best)
        following = filter(hunt.affords, tree.following[best.recipe])
        trials += hunt.compare([(shape, recipe) for recipe in following], executor)
    return sorted(trials, key=by_rank)


def without_weak_columns(hunt: Hunt, trial: Trial) -> Hunt | None:
    """Return the hunt without the columns that hardly move a trial, or None if these are too few to matter."""
    used = np.any([scale > 0 for scale in (hunt.scale, *hunt.scales)], axis=0)
    weak = used & (trial.strength < _WEAK * trial.strength.max(initial=0.0))
    enough = weak.sum() >= max(1, _WEAK_SHARE * used.sum())
    if not enough:
        return None
    scales = tuple(np.where(weak, 0.0, scale) for scale in hunt.scales)
    return replace(hunt, scale=np.where(weak, 0.0, hunt.scale), scales=scales)


def by_relevance(hunt: Hunt, executor: Executor) -> Hunt:
    """Return the hunt on columns scaled by their relevance: that on all rows, and on those every split trains on."""
    used = np.flatnonzero(hunt.scale > 0)
    x = (hunt.table.X[:, used] - hunt.mean[used]) / hunt.scale[used]

    def scale(rows: Array) -> Array:
        shares = relevances(x[rows], hunt.table.y[rows], hunt.table.weight[rows])
        scaled = np.zeros_like(hunt.scale)
        scaled[used] = np.where(shares > 0, hunt.scale[used] / np.where(shares > 0, shares, 1.0), 0.0)
        return scaled

    every = np.arange(hunt.table.n_rows)
    whole, *parts = executor.map([every, *(kept for kept, _ in hunt.splits)], scale, "measure relevance")
    return replace(hunt, scale=whole, scales=tuple(parts))


def choose_width(hunt: Hunt, shape: Shape, best: Trial, tolerance: float, executor: Executor) -> list[Trial]:
    """Try the best recipe at halved and doubled widths; return the narrowest trial within ``tolerance`` first."""

    def at(*widths: int) -> list[Trial]:
        return hunt.compare([(replace(shape, n_components=width), best.recipe) for width in widths], executor)

    trials = [best, *at(*_NARROWER)]
    for width in _WIDER:
        trials += at(width)
        before = min(trial.error for trial in trials[:-1])
        if trials[-1].error > before * (1 - tolerance):
            break
    limit = min(trial.error for trial in trials) * (1 + tolerance)
    chosen = min((trial for trial in trials if trial.error <= limit), key=lambda trial: trial.width)
    return [chosen, *(trial for trial in trials if trial is not chosen)]
