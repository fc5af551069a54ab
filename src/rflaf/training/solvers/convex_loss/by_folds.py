"""A convex problem without every fold in turn: what each ridge says of the rows held out.

Features are turned to their principal axes, where their products are diagonal: dividing every axis by the root of its
curvature makes the problem of any ridge round, at no cost. The axes of least spread are left out, the path starts from
the stiffest ridge, each solution starts the next, and it ends where the loss of the rows held out rises. Two folds tell
ridges of log odds apart, and the others follow at the best. Nothing is solved to more digits than a comparison needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from rflaf.errors import Array
from rflaf.functions.losses import Logistic, Loss, Softmax

from .descent import descend

_MOST_AXES = 256
_SPARE_AXES = 16  # of a sketch
_LEAST_SPREAD = 1e-7  # of the mean square along the first axis
_TOLERANCE, _STEPS = 1e-2, 40  # of the gradient at the constant answer; for one ridge and fold
_FLAT_TOLERANCE, _FLAT_STEPS = 3e-3, 60  # under losses that flatten: a small gradient may be far from the least risk
_ROUNDING = 1e-6  # of the objective, in single precision
_RISES = 2  # after which the path ends
_STRIDE = 2  # on the way down; the neighbours of the best follow
_RIDGES = 10.0, 0.02  # the largest, and the least times the number of rows, of the mean square of a feature
_PER_DECADE = 2
_FOLDS_OF_CLASSES = 2  # that the ridge of log odds is chosen by

_TINY = float(np.finfo(np.float32).tiny)

Splits = Sequence[tuple[Array, Array]]


@dataclass(frozen=True, slots=True)
class FoldedProblem:
    """Rows of features ``Z`` (n_rows, n_components) with targets (n_rows, n_outputs), weights and pairs of rows.

    ``base`` (n_outputs,) is the best constant answer under the loss; ``intercept`` says whether one is fitted.
    """

    Z: Array
    y: Array
    weight: Array
    splits: Splits
    loss: Loss
    base: Array
    intercept: bool = True


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The chosen ridge, what it says of the rows held out, and the mean of the solutions, to start a fit from."""

    ridge: float
    outputs: Array
    start: tuple[Array, Array]


@dataclass(frozen=True, slots=True)
class Axes:
    """Principal axes of features: ``Q`` (n_components, n_axes), mean squares along them, and the mean taken off."""

    Q: Array
    spread: Array
    mean: Array


def principal_axes(Z: Array, weight: Array, intercept: bool) -> tuple[Axes, Array]:
    """Return the axes along which features spread most, and the features turned to them, in single precision."""
    share = (weight / weight.sum()).astype(np.float32)
    Z = Z.astype(np.float32)
    mean = share @ Z if intercept else np.zeros(Z.shape[1], np.float32)
    Z -= mean
    rooted = Z * np.sqrt(share)[:, None]
    first = np.eye(Z.shape[1], dtype=np.float32)
    if Z.shape[1] > 2 * _MOST_AXES:
        first = _sketch(rooted)
        rooted = rooted @ first
    values, vectors = np.linalg.eigh((rooted.T @ rooted).astype(np.float64))
    kept = np.flatnonzero(values > _LEAST_SPREAD * max(float(values[-1]), _TINY))[-_MOST_AXES:]
    Q = first @ vectors[:, kept].astype(np.float32)
    return Axes(Q, values[kept], mean), Z @ Q


def _sketch(Z: Array) -> Array:
    """Return an orthonormal basis of nearly the leading axes of ``Z``, by two rounds of subspace iteration."""
    Y = np.random.default_rng(0).standard_normal((Z.shape[1], _MOST_AXES + _SPARE_AXES)).astype(np.float32)
    for _ in range(2):
        Y = np.linalg.qr(Z.T @ (Z @ Y))[0]
    return Y


@dataclass
class _Round:
    """The regularised risk on some rows at one ridge, in coordinates in which it is round: U = x / root."""

    Z: Array
    y: Array
    share: Array
    loss: Loss
    ridge: float
    root: Array
    root_b: float
    rounding: float = 0.0

    def unpack(self, x: Array) -> tuple[Array, Array]:
        """Return weights (n_axes, n_outputs) and intercepts at the coordinates ``x``."""
        n_outputs = self.y.shape[1]
        return x[:-n_outputs].reshape(-1, n_outputs) / self.root[:, None], x[-n_outputs:] * self.root_b

    def pack(self, U: Array, b: Array) -> Array:
        """Return the coordinates of weights and intercepts."""
        back = b / self.root_b if self.root_b else 0 * b
        return np.concatenate([(U * self.root[:, None]).ravel(), back])

    def objective(self, x: Array) -> tuple[float, Array]:
        """Return value and gradient."""
        U, b = self.unpack(x)
        f = (self.Z @ U.astype(np.float32)).astype(np.float64) + b
        loss, slope = self.loss.value_and_slope(f, self.y)
        slope *= self.share[:, None]
        value = float(self.share @ loss) + self.ridge * float(np.sum(U**2))
        at_U = (self.Z.T @ slope.astype(np.float32)).astype(np.float64) + 2 * self.ridge * U
        return value, np.concatenate([(at_U / self.root[:, None]).ravel(), slope.sum(axis=0) * self.root_b])


@dataclass(frozen=True, slots=True)
class _Solved:
    """The solutions of one ridge without each fold, what they say of the rows held out, and the summed loss there."""

    loss: float
    solutions: list[tuple[Array, Array]]
    outputs: Array


@dataclass(frozen=True)
class _Path:
    """The ridges tried so far, by their place in falling order."""

    problem: FoldedProblem
    spread: Array
    turned: Array
    curvature: float
    ridges: Array
    n_judging: int
    found: dict[int, _Solved] = field(default_factory=dict, init=False)

    @cached_property
    def parts(self) -> list[tuple[Array, Array, Array]]:
        """Rows without each fold that judges."""
        return [self._without(kept) for kept, _ in self.problem.splits[: self.n_judging]]

    def _without(self, kept: Array) -> tuple[Array, Array, Array]:
        problem = self.problem
        return self.turned[kept], problem.y[kept].astype(np.float64), problem.weight[kept]

    def on_all_folds(self, place: int) -> _Solved:
        """Return the solutions of a ridge without every fold; those that did not judge start from the mean of these."""
        solved, others = self.found[place], self.problem.splits[self.n_judging :]
        if not others:
            return solved
        start = tuple(np.mean(part, axis=0) for part in zip(*solved.solutions, strict=True))
        more = [self._minimise(self._without(kept), start, float(self.ridges[place])) for kept, _ in others]
        return self._judged([*solved.solutions, *more])

    def loss_at(self, place: int) -> float:
        """Return the loss on the rows held out, each solution starting from that of the next larger ridge tried."""
        if place not in self.found:
            above = [other for other in self.found if other < place]
            nothing = np.zeros((self.spread.size, self.problem.base.size)), self.problem.base
            starts = self.found[max(above)].solutions if above else [nothing] * len(self.parts)
            solutions = [
                self._minimise(*pair, float(self.ridges[place])) for pair in zip(self.parts, starts, strict=True)
            ]
            self.found[place] = self._judged(solutions)
        return self.found[place].loss

    def _judged(self, solutions: list[tuple[Array, Array]]) -> _Solved:
        problem, splits = self.problem, self.problem.splits[: len(solutions)]
        rows = np.concatenate([held_out for _, held_out in splits])
        pairs = zip(splits, solutions, strict=True)
        outputs = np.concatenate([self.turned[held_out] @ U + b for (_, held_out), (U, b) in pairs])
        loss = float(problem.weight[rows] @ problem.loss.value(outputs, problem.y[rows].astype(np.float64)))
        return _Solved(loss if np.isfinite(loss) else np.inf, solutions, outputs)

    def _minimise(
        self, part: tuple[Array, Array, Array], start: tuple[Array, Array], ridge: float
    ) -> tuple[Array, Array]:
        """Return weights and intercepts of nearly the least risk on some rows."""
        problem, (Z, y, weight) = self.problem, part
        root_b = self.curvature**-0.5 if problem.intercept else 0.0
        root = np.sqrt(self.curvature * self.spread + 2 * ridge)
        risk = _Round(Z, y, weight / weight.sum(), problem.loss, ridge, root, root_b)
        value, slope = risk.objective(risk.pack(np.zeros_like(start[0]), problem.base))
        risk.rounding = _ROUNDING * abs(value)
        tolerance, steps = (_TOLERANCE, _STEPS) if problem.loss.closed_form else (_FLAT_TOLERANCE, _FLAT_STEPS)
        x, _ = descend(risk, risk.pack(*start), tolerance * float(np.linalg.norm(slope)), steps)
        return risk.unpack(x)


def leave_folds_out(problem: FoldedProblem) -> LeftOut:
    """Return the ridge whose loss on the rows held out is lowest."""
    axes, turned = principal_axes(problem.Z, problem.weight, problem.intercept)
    curvature = _curvature(problem)
    ridges = curvature / 2 * _falling_ridges(float(axes.spread.sum()) / problem.Z.shape[1], len(problem.Z))
    n_judging = _FOLDS_OF_CLASSES if isinstance(problem.loss, Logistic | Softmax) else len(problem.splits)
    path = _Path(problem, axes.spread, turned, curvature, ridges, n_judging)
    best = _walk(ridges.size, path.loss_at)
    solved = path.on_all_folds(best)
    V = axes.Q @ np.mean([U for U, _ in solved.solutions], axis=0)
    b = np.mean([b for _, b in solved.solutions], axis=0) - axes.mean @ V
    return LeftOut(float(ridges[best]), solved.outputs, (V, b * problem.intercept))


def _falling_ridges(scale: float, n_rows: int) -> Array:
    """Return ridges for features of mean square ``scale`` under the squared loss."""
    largest, least = _RIDGES
    least = min(least / n_rows, largest)
    n_ridges = 1 + int(np.ceil(_PER_DECADE * np.log10(largest / least)))
    return (scale or 1.0) * np.geomspace(largest, least, n_ridges)


def _walk(size: int, loss_at: Callable[[int], float]) -> int:
    """Return the place of lowest loss: of every other one until it has risen, and of the neighbours of the best."""
    losses = dict[int, float]()
    for place in range(0, size, _STRIDE):
        losses[place] = loss_at(place)
        if place - min(losses, key=losses.__getitem__) >= _RISES * _STRIDE:
            break
    lowest = min(losses, key=losses.__getitem__)
    beside = {place: loss_at(place) for place in (lowest - 1, lowest + 1) if 0 <= place < size}
    losses |= beside
    return min(losses, key=losses.__getitem__)


def _curvature(problem: FoldedProblem) -> float:
    """Return the mean curvature of the loss at the constant answer, or a usual one where it is straight there."""
    y = problem.y.astype(np.float64)
    curved = problem.loss.curvature(np.broadcast_to(problem.base, y.shape), y).mean(axis=1)
    mean, usual = float(np.average(curved, weights=problem.weight)), min(problem.loss.curvature_bound, 1.0)
    return mean if mean > 1e-6 * usual else usual
