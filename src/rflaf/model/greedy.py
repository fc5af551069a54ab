"""Greedy forward selection of components from a pool, by orthogonal least squares.

Every step adds the component that lowers the squared error most, all the weights being refitted:

    gain_j = |r_j|^2 / d_j,      r_j = z_j' (y - fit),    d_j = squared length of z_j off the span of those kept

A pivoted partial Cholesky factorisation of the pool's Gram matrix gives every r_j and d_j from those of the step
before, so the whole path costs O(pool_size S^2) and no pass over the rows. The path is nested: the first k
components are the selection of width k, and its generalised cross-validation error is known at every k.

Only the columns of the Gram matrix that belong to components kept are ever needed. So `FeaturePool` keeps the features
of a sample of rows and makes columns when they are asked for, several at once, which costs little more than one: those
of the components that would be next among the ones of largest gain. Where the component of largest gain is not one of
them, the best that is may take its place if its gain is nearly as large: the weak form of the greedy algorithm, whose
error falls at the same rate up to a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rflaf.errors import Array

from .normal_equations import NormalEquations

if TYPE_CHECKING:
    from rflaf.rows.executors import Executor

_LEAST_LENGTH = 1e-9  # of a component's own: what is shorter off the span is a repetition of those kept
PART = 256  # components of a pool whose features are made and multiplied at once
AHEAD, _SHORTLIST = 16, 192  # columns made at once, and components they are guessed among
_ROWS = 1024  # whose products are summed at once
_NEARLY = 0.6  # of the largest gain, for which a column that is there is preferred to one that is not
_ROUNDINGS = 100.0  # of the precision of the sums: likewise


@dataclass(frozen=True, slots=True)
class Selection:
    """A nested path of components.

    Attributes
    ----------
    order : (n_kept,), indices into the pool, the first to be chosen first
    errors : (n_kept + 1,), mean squared residual, plus ridge |v|^2, at every width, zero components first
    gcv : (n_kept + 1,), generalised cross-validation at every width
    """

    order: Array
    errors: Array
    gcv: Array

    def best_width(self, tolerance: float = 0.0) -> int:
        """The smallest width, at least one, whose cross-validation is within ``tolerance`` of the lowest."""
        return max(1, int(np.argmax(self.gcv <= self.gcv.min() * (1 + tolerance))))

    def at_least_one(self) -> Selection:
        """The path itself, or that of the first component where no component is of any use."""
        if self.order.size:
            return self
        return Selection(np.zeros(1, np.intp), np.repeat(self.errors, 2), np.repeat(self.gcv, 2))


class Pool(Protocol):
    """A pool of features to select from: means over rows, centred if an intercept is fitted."""

    @property
    def c(self) -> Array:
        """Mean products with y, (pool_size, n_outputs)."""

    @property
    def y_square(self) -> Array:
        """Mean squares of y, (n_outputs,)."""

    @property
    def z_mean(self) -> Array:
        """Means of the features, (pool_size,)."""

    @property
    def length(self) -> Array:
        """Mean squares of the features, (pool_size,)."""

    @property
    def count(self) -> float:
        """Number of observations."""

    @property
    def precision(self) -> float:
        """Relative rounding of the means."""

    @property
    def ahead(self) -> int:
        """How many columns are as good as made with the first of them."""

    def columns(self, chosen: Array) -> Array:
        """Mean products of the features ``chosen`` with all features, (n_chosen, pool_size)."""

    def products(self, chosen: Array) -> Array:
        """Mean products of the features ``chosen`` with one another, (n_chosen, n_chosen)."""


@dataclass(frozen=True, slots=True)
class GramPool:
    """A pool given by its Gram matrix ``G`` (pool_size, pool_size): every column is there."""

    G: Array
    c: Array
    y_square: Array
    z_mean: Array
    count: float
    precision: float

    @property
    def length(self) -> Array:
        return np.diagonal(self.G)

    @property
    def ahead(self) -> int:
        return 1

    def columns(self, chosen: Array) -> Array:
        return np.asarray(self.G[chosen])

    def products(self, chosen: Array) -> Array:
        return np.asarray(self.G[np.ix_(chosen, chosen)])


@dataclass(frozen=True)
class FeaturePool:
    """A pool given by its features, centred and weighted so that rows sum to means: arrays (n_part, n_rows)."""

    parts: Sequence[Array]
    c: Array
    y_square: Array
    z_mean: Array
    length: Array
    count: float
    executor: Executor

    @property
    def precision(self) -> float:
        return float(np.finfo(self.parts[0].dtype).eps)

    @property
    def ahead(self) -> int:
        return AHEAD

    def columns(self, chosen: Array) -> Array:
        z = self._features(chosen)
        columns = self.executor.side_by_side([partial(_multiply, z, part) for part in self.parts])
        return np.hstack(columns).astype(np.float64)

    def products(self, chosen: Array) -> Array:
        z = self._features(chosen)
        rows = [z[:, first : first + _ROWS] for first in range(0, z.shape[1], _ROWS)]
        sums = self.executor.side_by_side([partial(_multiply, some, some) for some in rows])
        return np.asarray(np.sum(sums, axis=0, dtype=np.float64))

    def _features(self, chosen: Array) -> Array:
        return np.stack([self.parts[j // PART][j % PART] for j in chosen])


def _multiply(one: Array, other: Array) -> Array:
    return np.asarray(one @ other.T)


def feature_pool(
    features: Callable[[slice], Array],
    pool_size: int,
    y: Array,
    weight: Array | None,
    intercept: bool,
    executor: Executor,
) -> FeaturePool:
    """Build the pool of features and targets ``y`` (n_rows, n_outputs).

    ``features`` computes those of a part of the components, (n_part, n_rows), which is overwritten.
    """
    w = np.ones(y.shape[0]) if weight is None else weight.astype(np.float64)
    share = w / w.sum()
    root = np.sqrt(share)
    y = y - share @ y if intercept else y

    def make_part(first: int) -> tuple[Array, Array, Array, Array]:
        Z = features(slice(first, min(first + PART, pool_size)))
        z_mean = Z @ share.astype(Z.dtype) if intercept else np.zeros(len(Z), Z.dtype)
        Z -= z_mean[:, None]
        Z *= root.astype(Z.dtype)
        return Z, Z @ (root[:, None] * y).astype(Z.dtype), z_mean, np.einsum("jr,jr->j", Z, Z)

    tasks = [partial(make_part, first) for first in range(0, pool_size, PART)]
    parts, *sums = zip(*executor.side_by_side(tasks), strict=True)
    c, z_mean, length = (np.concatenate(part).astype(np.float64) for part in sums)
    whole = bool(np.all(w == np.floor(w)))  # weights are counts of repeated rows
    count = float(w.sum() if whole else np.count_nonzero(w))
    return FeaturePool(parts, c, share @ y**2, z_mean, length, count, executor)


def gram_pool(equations: NormalEquations, intercept: bool) -> GramPool:
    """Return the pool of all components of some equations."""
    system = equations.system(intercept)
    return GramPool(system.G, system.c, system.y_square, system.z_mean, system.count, system.precision)


def select_greedily(
    equations: NormalEquations, n_components: int, ridge: float = 0.0, intercept: bool = True
) -> Selection:
    """Select at most ``n_components`` of the pool's components, fewer if the rest repeat those kept.

    >>> Z = np.array([[1.0, 0, 0, 0], [0, 2, 0, 0], [0, 0, 1, 0]])     # three orthogonal components, four rows
    >>> design = np.vstack([Z, np.ones(4), [3.0, 4.0, 2.0, 0.0]])      # [z | 1 | y]
    >>> select_greedily(NormalEquations.from_design(design, 1), 2, intercept=False).order
    array([1, 0])
    """
    return select_from(gram_pool(equations, intercept), n_components, ridge, intercept)


def select_from(pool: Pool, n_components: int, ridge: float = 0.0, intercept: bool = True) -> Selection:
    """Select from any pool, as `select_greedily` does."""
    length = pool.length + ridge
    pool_size = length.size
    least = max(_LEAST_LENGTH, _ROUNDINGS * pool.precision) * (length + pool.z_mean**2)
    left, residual = length.copy(), pool.c.copy()
    factor = np.zeros((pool_size, min(n_components, pool_size)), order="F")
    order: list[int] = []
    ready: dict[int, Array] = {}
    errors = [float(pool.y_square.sum())]
    for k in range(factor.shape[1]):
        usable = left > least
        usable[order] = False
        if not usable.any():
            break
        gain = np.where(usable, np.sum(residual**2, axis=1) / np.where(usable, left, 1.0), -1.0)
        j = int(np.argmax(gain))
        nearly = max(ready, key=lambda i: gain[i], default=j)
        if gain[nearly] >= _NEARLY * gain[j]:
            j = nearly
        if j not in ready:
            n_ahead = min(pool.ahead, factor.shape[1] - k)
            likely = np.array([j]) if n_ahead == 1 else _likely(pool, factor[:, :k], left, residual, gain, n_ahead)
            ready = dict(zip(likely.tolist(), pool.columns(likely), strict=True))
        column = ready.pop(j) - factor[:, :k] @ factor[j, :k]
        column[j] += ridge
        column /= np.sqrt(left[j])
        factor[:, k] = column
        residual -= np.outer(column, residual[j] / np.sqrt(left[j]))
        left -= column**2
        order.append(j)
        errors.append(max(errors[-1] - float(gain[j]), 0.0))
    return Selection(np.array(order, dtype=np.intp), np.array(errors), _gcv(np.array(errors), pool.count, intercept))


def _likely(pool: Pool, factor: Array, left: Array, residual: Array, gain: Array, n_ahead: int) -> Array:
    """Return the component of largest gain and the next ones if the components near it were the whole pool."""
    near = np.argsort(-gain, kind="stable")[:_SHORTLIST]
    near = near[gain[near] >= 0]  # repetitions of others are not usable
    G = pool.products(near) - factor[near] @ factor[near].T
    np.fill_diagonal(G, left[near])
    y_square, z_mean = np.zeros(residual.shape[1]), np.zeros(near.size)
    off_the_span = GramPool(G, residual[near], y_square, z_mean, pool.count, pool.precision)
    return near[select_from(off_the_span, n_ahead).order]


@dataclass(frozen=True, slots=True)
class WidthPath:
    """Nested models: their ``widths`` (n_widths,), and mean squared ``errors`` (n_widths,) on rows held out."""

    widths: Array
    errors: Array

    def best_width(self, tolerance: float = 0.0) -> int:
        """The smallest width whose error is within ``tolerance`` of the lowest."""
        return int(self.widths[np.argmax(self.errors <= self.errors.min() * (1 + tolerance))])


def width_grid(most: int) -> Array:
    """Widths from 1 to ``most``, about six per decade.

    >>> width_grid(80)
    array([ 1,  2,  3,  5,  7, 10, 15, 20, 30, 50, 70, 80])
    """
    decades = 10.0 ** np.arange(len(str(most)))
    widths = np.unique(np.append(np.outer(decades, [1, 1.5, 2, 3, 5, 7]), most))
    return widths[(widths == np.floor(widths)) & (widths <= most)].astype(int)


def nested_errors(kept: NormalEquations, held_out: NormalEquations, widths: Array, intercept: bool = True) -> WidthPath:
    """Return the error on rows held out of the ridge on the first k components, each k at its best ridge there."""

    def error(width: int) -> float:
        first = np.arange(width)
        there, system = held_out.take(first), kept.take(first).system(intercept)
        solutions = map(system.spectrum.solve, system.ridges())
        return min(float(there.errors(v, system.y_mean - system.z_mean @ v).sum()) for v in solutions)

    return WidthPath(np.asarray(widths), np.array([error(int(width)) for width in widths]))


def _gcv(errors: Array, count: float, intercept: bool) -> Array:
    """Mean squared residual over (1 - parameters / n)^2; infinite where there are as many parameters as rows."""
    left = 1 - (np.arange(errors.size) + intercept) / count
    return np.divide(errors, left**2, out=np.full_like(errors, np.inf), where=left > 0)
