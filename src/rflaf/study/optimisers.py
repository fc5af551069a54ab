"""Training as in the paper: mini-batch SGD and Adam on (a, v) with frozen directions, its start values and penalties.

f(x) = sum_m q_m v_m sigma(w_m . x), no intercept. With S components and O outputs,

    loss(f) + lambda_1 (sum a^2 / sqrt(N) - sum v^2 / sqrt(S))^2 + lambda_2 S sum v^2

Plain sampling uses lambda_1 = 1, lambda_2 = 0 and q = 1; leverage weighting lambda_1 = 0 and lambda_2 = 1 / sqrt(n).
The loss is the mean square for numbers and the softmax cross-entropy for two or more classes. Directions
never change, so projections are computed once; the activation is looked up in a table and its gradient scattered back
into one, by the package's kernels. Row-major throughout: (rows, components).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.special import log_softmax, softmax

from rflaf.errors import Array
from rflaf.functions._kernels import features as _kernels
from rflaf.functions.bases import Basis, Pieces

_TOLERANCE = 1e-5  # of the table of an activation, in its sup norm


@dataclass(frozen=True, slots=True)
class Schedule:
    """Settings of one training run; ``optimiser`` is "sgd" or "adam"."""

    optimiser: str
    epochs: int
    rate: float = 1e-3
    batch: int = 128
    balance: float = 0.0  # lambda_1
    ridge: float = 0.0  # lambda_2


@dataclass(slots=True)
class Weights:
    """Learned weights: ``a`` (n_basis,) and ``v`` (n_components, n_outputs)."""

    a: Array
    v: Array


def start(n_basis: int, n_components: int, n_outputs: int, rng: np.random.Generator) -> Weights:
    """Draw the start values of the paper: a ~ N(0, 1) / sqrt(N) and v ~ N(0, 1) / sqrt(S)."""
    a = rng.standard_normal(n_basis) / np.sqrt(n_basis)
    return Weights(a, rng.standard_normal((n_components, n_outputs)) / np.sqrt(n_components))


class Loss(Protocol):
    """Mean loss of outputs f (rows, outputs) and its slope in f."""

    def value(self, f: Array, y: Array) -> float: ...

    def slope(self, f: Array, y: Array) -> Array: ...


class MeanSquare:
    """mean (f - y)^2 with y (rows, 1)."""

    def value(self, f: Array, y: Array) -> float:
        return float(np.mean((f - y) ** 2, dtype=np.float64))

    def slope(self, f: Array, y: Array) -> Array:
        return 2 * (f - y) / len(f)


class CrossEntropy:
    """Mean softmax cross-entropy with y (rows, classes) of zeros and ones."""

    def value(self, f: Array, y: Array) -> float:
        return float(-np.sum(y * log_softmax(f.astype(np.float64), axis=1)) / len(f))

    def slope(self, f: Array, y: Array) -> Array:
        return (softmax(f, axis=1) - y) / len(f)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Activations of a basis as look-up tables: ``table = a @ matrix``; gradients go back by the transpose.

    Attributes
    ----------
    low, step : of the cells; matrix : (n_basis, n_cells * 4), float32
    """

    low: float
    step: float
    matrix: Array

    @classmethod
    def of(cls, basis: Basis) -> Table:
        """Tabulate the basis, fine enough for coefficients of any size."""
        pieces: Pieces = basis.pieces(np.ones((1, basis.n_basis)), _TOLERANCE)
        by_basis = pieces.coefficients.transpose(1, 0, 2).reshape(basis.n_basis, -1)
        return cls(pieces.low, pieces.step, np.ascontiguousarray(by_basis, np.float32))

    def cells(self, X: Array, W: Array) -> Array:
        """Return cell coordinates of the projections of ``X`` on ``W``, (n_rows, n_components), float32.

        Outside the cells the table is constant, so far projections need no special case.
        """
        u = np.asarray(X, np.float32) @ (W / self.step).astype(np.float32)
        u += np.float32(-self.low / self.step - 0.5)
        return u

    def activation(self, a: Array) -> Array:
        """Return the table of one activation, (1, n_cells, 4)."""
        return (a.astype(np.float32) @ self.matrix).reshape(1, -1, 4)

    def gradient(self, moments: Array) -> Array:
        """Return the gradient in ``a`` (n_basis,) from the gradient in the table."""
        return self.matrix @ moments.ravel().astype(np.float32)


def features(u: Array, table: Array) -> Array:
    """Return sigma(u) for cell coordinates ``u`` (n_rows, n_components) and a table (1, n_cells, 4)."""
    z = np.empty_like(u)
    _kernels.activate(u, table, z)
    return z


def outputs(u: Array, table: Table, weights: Weights, importance: Array) -> Array:
    """Return f (n_rows, n_outputs) at cell coordinates ``u``, one batch at a time."""
    look_up, qv = table.activation(weights.a), _weighted(weights, importance)
    parts = [features(u[i : i + 1024], look_up) @ qv for i in range(0, len(u), 1024)]
    return np.concatenate(parts)


def gradients(
    u: Array, y: Array, table: Table, weights: Weights, importance: Array, loss: Loss, schedule: Schedule
) -> Weights:
    """Return the gradient of the penalised loss of one batch in a and v."""
    a, v = weights.a, weights.v
    z, qv = features(u, table.activation(a)), _weighted(weights, importance)
    slope = loss.slope(z @ qv, y).astype(np.float32)
    moments = np.zeros((1, table.matrix.shape[1] // 4, 4))
    _kernels.scatter(u, slope, np.ascontiguousarray(qv.T), moments)
    by_a = table.gradient(moments).astype(np.float64)
    by_v = importance[:, None] * (z.T @ slope).astype(np.float64)
    root_n, root_s = np.sqrt(a.size), np.sqrt(len(v))
    gap = schedule.balance * (np.sum(a**2) / root_n - np.sum(v**2) / root_s)
    by_a += 4 * gap * a / root_n
    by_v += (2 * schedule.ridge * len(v) - 4 * gap / root_s) * v
    return Weights(by_a, by_v)


@dataclass(slots=True)
class SGD:
    """w <- w - rate g, in place."""

    rate: float

    def __call__(self, weights: Weights, gradient: Weights) -> None:
        weights.a -= self.rate * gradient.a
        weights.v -= self.rate * gradient.v


@dataclass(slots=True)
class Adam:
    """Adam with decay 0.9 and 0.999 and epsilon 1e-8, in place."""

    rate: float
    count: int = 0
    mean: dict[str, Array] = field(default_factory=dict)
    square: dict[str, Array] = field(default_factory=dict)

    def __call__(self, weights: Weights, gradient: Weights) -> None:
        self.count += 1
        for name in ("a", "v"):
            g = getattr(gradient, name)
            self.mean[name] = 0.9 * self.mean.get(name, 0.0) + 0.1 * g
            self.square[name] = 0.999 * self.square.get(name, 0.0) + 0.001 * g**2
            mean = self.mean[name] / (1 - 0.9**self.count)
            square = self.square[name] / (1 - 0.999**self.count)
            getattr(weights, name)[...] -= self.rate * mean / (np.sqrt(square) + 1e-8)


def train(
    u: Array,
    y: Array,
    table: Table,
    weights: Weights,
    importance: Array,
    loss: Loss,
    schedule: Schedule,
    rng: np.random.Generator,
) -> Iterator[bool]:
    """Train ``weights`` in place on all rows, shuffled every epoch; yield after each epoch whether they are finite.

    Training ends at the first epoch that leaves a value infinite or NaN. ``u`` (n_rows, n_components) are cell
    coordinates and ``y`` (n_rows, n_outputs) targets.
    """
    step: SGD | Adam = Adam(schedule.rate) if schedule.optimiser == "adam" else SGD(schedule.rate)
    y = y.astype(np.float32)
    for _ in range(schedule.epochs):
        order = rng.permutation(len(u))
        for first in range(0, len(u), schedule.batch):
            rows = order[first : first + schedule.batch]
            step(weights, gradients(u[rows], y[rows], table, weights, importance, loss, schedule))
        finite = bool(np.isfinite(weights.a).all() and np.isfinite(weights.v).all())
        yield finite
        if not finite:
            return


def _weighted(weights: Weights, importance: Array) -> Array:
    """Return q_m v_m, (n_components, n_outputs), float32."""
    return (importance[:, None] * weights.v).astype(np.float32)
