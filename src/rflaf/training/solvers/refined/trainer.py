"""Directions, curves and activations trained together: refined models.

    minimise over everything   1/n sum_i w_i loss(f(x_i), y_i) + alpha (|W|^2 + |ramps|^2) + beta (|s|^2 + |s'|^2)
                               + gamma sum_m |second differences of c_m|^2

f(x) = base + sum_m v_m sigma_m(u_m(x)), where a component's input u_m is a sum over columns of s_c w_cm x_c, a line,
and of s'_c times ramps between nodes, a curve; a category adds the value of its level, which has a scale of its own.
The product of a scale and its weights under two ridges acts as a group lasso: a useless column, or a level that hardly
differs from the others, loses its scale. Adam on mini-batches from random directions, the activations
starting at zero; compiled loops in `rflaf.functions._kernels`, in float32. Wide models are trained in parts
(`rflaf.training.solvers.refined.ensemble`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from rflaf.errors import Array
from rflaf.functions._kernels import refined as kernels
from rflaf.functions._kernels.bounds import Bounds
from rflaf.functions._kernels.losses import Objective
from rflaf.functions.bases import Basis
from rflaf.functions.curves import ColumnCurves, curves_of
from rflaf.functions.densities import Density, Directions, draw
from rflaf.functions.losses import Loss, Squared

from .encoded_rows import FARTHEST, Encoding
from .limits import Limits, bounded_start
from .recipes import Recipe
from .smoothing import CLASSES, smoothed

_SCALE_PENALTY = 1e-3  # beta
_ROUGHNESS = 1e-3  # gamma
_FRESH, _LESS_FRESH = 0.05, 0.01  # 1 - beta2 of Adam, under the squared loss; under others and with very fine curves
_MOST_PENALTY = 1e15  # leaves nothing of the weights; Adam squares it in single precision
_LARGEST_SQUARED = 2.0**50  # sums of squares of many of these are numbers in single precision
_MOST_VISITED_NODES = 129  # of a column: of more, a batch visits most nodes once or never


@dataclass(frozen=True, slots=True)
class Shape:
    """The model to train; ``base`` holds the outputs that the activations add to, one per target, empty for zero.

    ``limits`` say what it must not do.
    """

    n_components: int
    basis: Basis
    shared: bool
    density: Density
    bandwidth: float | None = None
    loss: Loss = field(default_factory=Squared)
    base: tuple[float, ...] = ()
    limits: Limits = field(default_factory=Limits)

    @property
    def whole(self) -> bool:
        """Whether all components are trained together: they share an activation, or each serves columns of its own."""
        return self.shared or self.limits.sets is not None

    def objective(self, n_outputs: int) -> Objective:
        """Return the loss in the form the compiled loops take."""
        kernel = self.loss.kernel()
        assert kernel is not None  # `Trainer.run` asks
        (number, first, second), base = kernel, self.base_of(n_outputs)
        by_output = np.broadcast_to(np.asarray(first, np.float32), (n_outputs,)).copy()
        return Objective(number, by_output, np.float32(second), base)

    def base_of(self, n_outputs: int) -> Array:
        """Return what is added to the outputs, (n_outputs,)."""
        return np.array(self.base or (0.0,) * n_outputs, np.float32)


_NUMBERS, _INDICES = np.zeros((0, 0), np.float32), np.zeros((0, 0), np.int32)
_NO_ROWS = kernels.Rows(_NUMBERS, _INDICES, _NUMBERS, _INDICES, _NUMBERS, np.zeros(0, np.float32))


@dataclass(frozen=True)
class Trainer:
    """Parameters under training, and everything else the loops need."""

    shape: Shape
    encoding: Encoding
    recipe: Recipe
    parameters: kernels.Parameters
    network: kernels.Network
    nodes: kernels.Nodes
    rates: kernels.Rates
    by_basis: Array
    batch: int
    moments: kernels.Parameters = field(init=False)
    squares: kernels.Parameters = field(init=False)
    slopes: kernels.Parameters = field(init=False)
    gradient: kernels.Gradient = field(init=False)
    work: kernels.Work = field(init=False)

    def __post_init__(self) -> None:
        for name in ("moments", "squares", "slopes"):
            object.__setattr__(self, name, kernels.Parameters(*map(_zeros_like, self.parameters)))
        width, n_linear = self.network.bias.size, self.network.W.shape[0]
        n_tables = self.network.table.shape[0] if self.network.table.shape[0] > 1 else kernels.LANE
        table = np.zeros((n_tables, self.network.table.shape[1]), np.float32)
        gradient = kernels.Gradient(*map(_zeros_like, self.network))._replace(table=table)
        object.__setattr__(self, "gradient", gradient)
        block = (self.batch, width)
        shapes = [(self.batch, n_linear), block, block, block, (self.batch, self.network.V.shape[0]), block]
        shapes += [(1, width), (1, width), (1, width), self.parameters.C.shape]
        work = kernels.Work(*(np.zeros(shape, np.float32) for shape in shapes))
        object.__setattr__(self, "work", work)
        self._assemble()

    def run(self, rows: kernels.Rows, orders: Array, step: int, n_steps: int) -> Array:
        """Train on the rows in each of ``orders`` (n_passes, n), from step ``step`` of ``n_steps``.

        Return the loss of every pass, (n_passes,), summed over the rows on the way.
        """
        if self.recipe.smoothing and orders.size:
            rows = rows._replace(y=smoothed(self.shape.loss, rows.y, self.recipe.smoothing))
        if self.shape.loss.kernel() is None:
            a_pass = -(-orders.shape[1] // self.batch)
            return np.array(
                [self._run_in_turn(rows, order, step + k * a_pass, n_steps) for k, order in enumerate(orders)]
            )
        losses = np.zeros(orders.shape[0])
        kernels.train_rows(
            rows, orders, self.batch, self._objective, self.parameters, self.moments, self.squares,
            self.gradient, self.slopes, self.nodes, self.network, self.by_basis, self._roughness, self.rates, self.work,
            step, n_steps, losses,
        )  # fmt: skip
        return losses

    @cached_property
    def _objective(self) -> Objective:
        return self.shape.objective(self.network.V.shape[0])

    @cached_property
    def _roughness(self) -> Array:
        """Twice the penalty on the coefficients of an activation."""
        twice = 2 * _ROUGHNESS * self.shape.basis.penalty()
        if self.recipe.shrinkage:
            twice = twice + 2 * self.recipe.shrinkage * np.eye(len(twice))
        return np.asarray(twice, np.float32)

    def _run_in_turn(self, rows: kernels.Rows, order: Array, step: int, n_steps: int) -> float:
        """`run` for a loss that is not compiled: NumPy computes its values and slopes, batch by batch."""
        loss, out, roughness, total = self.shape.loss, self.work.out, self._roughness, 0.0
        base = self.shape.base_of(out.shape[1])
        for first in range(0, order.size, self.batch):
            index = order[first : first + self.batch]
            kernels.alone(kernels.forward)(rows, index, self.network, self.work)
            f, y, weight = ((out[: index.size] + base), rows.y[index], rows.weight[index])
            f, y = f.astype(np.float64), y.astype(np.float64)
            total += float(weight @ loss.value(f, y))
            out[: index.size] = loss.slope(f, y) * (weight[:, None] / index.size)
            kernels.alone(kernels.backward)(rows, index, self.network, self.gradient, self.work)
            step += 1
            kernels.alone(kernels.adam_step)(
                self.parameters, self.moments, self.squares, self.gradient, self.slopes, self.nodes, self.network,
                self.by_basis, roughness, self.rates, self.work, step,
                kernels.alone(kernels.schedule_of)(step, n_steps),
            )  # fmt: skip
        return total

    @property
    def state(self) -> tuple[kernels.Parameters, kernels.Parameters, kernels.Parameters]:
        """Return the parameters and the moments of Adam."""
        return self.parameters, self.moments, self.squares

    def resume(self, *state: kernels.Parameters) -> None:
        """Set the state to one of this trainer, or of an equal trainer that was interrupted."""
        if state[0] is self.parameters:
            return
        for mine, given in zip(self.state, state, strict=True):
            for to, part in zip(mine, given, strict=True):
                to[...] = part
        self._assemble()

    def _assemble(self) -> None:
        """Compute the network from the parameters, by the loop that training needs anyway."""
        if self.shape.loss.kernel() is None:
            kernels.alone(kernels.assemble)(self.parameters, self.nodes, self.by_basis, self.network)
        else:
            self.run(_NO_ROWS, np.zeros((0, 0), np.intp), 0, 1)

    def strength(self) -> Array:
        """Return how far every column moves the components' inputs, (n_features,): root mean square over nodes."""
        knots, size = self.encoding.knots, np.zeros(self.encoding.scale.size)
        unit = _unit(self.network.W, self.network.H)
        W, H = self.network.W / unit, self.network.H / unit
        size[self.encoding.linear] = np.sqrt(np.sum(W**2, axis=1))
        if knots.n_curves:
            first, counts = knots.start[:-1], np.diff(knots.start)
            curved = H[: knots.start[-1]]
            mean = np.add.reduceat(curved, first) / counts[:, None]
            off = curved - np.repeat(mean, counts, axis=0)
            size[knots.columns] = np.sqrt(np.add.reduceat(off**2, first).sum(axis=1) / counts)
        start = self.encoding.level_start
        for at, column in enumerate(self.encoding.level_columns):
            part = slice(start[at], start[at + 1])
            values, share = H[part], _shares(self.nodes, part)
            size[column] = np.hypot(size[column], np.sqrt(np.sum(share @ (values - share @ values) ** 2)))
        return size * unit

    def outputs(self, rows: kernels.Rows, index: Array) -> Array:
        """Return f at the rows ``index``: (index.size, n_outputs)."""
        out = np.empty((index.size, self.network.V.shape[0]), np.float32)
        kernels.outputs(rows, index, self.network, self.work, out)
        out += self.shape.base_of(out.shape[1])
        return out


def start_trainer(
    encoding: Encoding,
    rows: kernels.Rows,
    X: Array,
    shape: Shape,
    recipe: Recipe,
    rng: np.random.Generator,
    n_rows: int,
) -> Trainer:
    """Return a trainer for ``n_rows`` rows: random directions over the rows of a sample ``X``, activations zero."""
    columns, width = encoding.columns, shape.n_components
    padded = width + -width % kernels.LANE
    pieces = shape.basis.pieces()
    bounds = shape.limits.bounds(encoding.weight_columns, width, padded)
    nodes = _ramps(encoding, rows)
    W, levels, bias = _first_directions(encoding, nodes, X, shape, bounds, rng)
    n_outputs, n_tables = rows.y.shape[1], 1 if shape.shared else width
    fixed = n_outputs == 1 and not shape.shared
    V = np.ones((1, width)) if fixed else rng.standard_normal((n_outputs, width))
    V = np.where(bounds.rises[:width], np.abs(V), V) if bounds.rises.size else V
    n_linear, n_nodes = encoding.linear.size, encoding.knots.nodes.size

    def wide(values: Array) -> Array:
        padded_values = np.zeros((*values.shape[:-1], padded), np.float32)
        padded_values[..., :width] = values
        return padded_values

    parameters = kernels.Parameters(
        W=wide(W / pieces.step),
        ramps=wide(np.vstack([np.zeros((n_nodes, width)), levels / pieces.step])),
        bias=wide(np.clip((bias - pieces.low) / pieces.step - 0.5, -FARTHEST, FARTHEST)),
        C=np.zeros((n_tables, shape.basis.n_basis), np.float32),
        V=wide(V),
        scale=np.ones(columns.size, np.float32),
        ramp_scale=np.ones(encoding.knots.n_curves + levels.shape[0], np.float32),
    )
    by_basis = pieces.coefficients.transpose(1, 0, 2).reshape(shape.basis.n_basis, -1)
    network = kernels.Network(
        W=np.zeros((n_linear, padded), np.float32),
        H=np.zeros((n_nodes + levels.shape[0], padded), np.float32),
        bias=np.zeros(padded, np.float32),
        table=np.zeros((1 if shape.shared else padded, by_basis.shape[1]), np.float32),
        V=np.zeros((n_outputs, padded), np.float32),
    )
    rates = kernels.Rates(
        W=np.float32(recipe.rate * 0.1 / np.sqrt(max(columns.size + encoding.level_columns.size, 1)) / pieces.step),
        C=np.float32(0.05 / np.sqrt(width)),
        V=np.float32(0.0 if fixed else 0.01),
        scale=np.float32(0.01),
        alpha=np.float32(min(recipe.alpha * pieces.step**2, _MOST_PENALTY)),
        scale_alpha=np.float32(_SCALE_PENALTY),
        fresh=np.float32(_fresh(shape.loss, recipe)),
        bounds=bounds,
    )
    batch = recipe.batch(n_rows, nodes.size.size if isinstance(shape.loss, CLASSES) else 0)
    return Trainer(
        shape, encoding, recipe, parameters, network, nodes, rates, np.ascontiguousarray(by_basis, np.float32), batch
    )


def _zeros_like(array: Array) -> Array:
    return np.zeros(array.shape, array.dtype)  # a fraction of the time of NumPy's


def _fresh(loss: Loss, recipe: Recipe) -> float:
    """Return the share of the last squared slope in their mean; slopes that come seldom are averaged for longer."""
    return _FRESH if loss.closed_form and recipe.nodes <= _MOST_VISITED_NODES else _LESS_FRESH


def _first_directions(
    encoding: Encoding, nodes: kernels.Nodes, X: Array, shape: Shape, bounds: Bounds, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Random weights of standardised columns and of levels, so that projections have unit spread; and their offsets.

    The values of numbers that recur start at zero: a column has a direction already.
    """
    x, start = encoding.standardise(X, encoding.columns), encoding.level_start
    n_numbers, width = x.shape[1], shape.n_components
    n_weights = n_numbers + int(start[encoding.categories.size] - start[0])
    W = draw(shape.density, n_weights, width, rng).W if n_weights else np.zeros((0, width))
    own_values = np.zeros((int(start[-1] - start[encoding.categories.size]), width))
    W = bounded_start(np.vstack([W, own_values]), bounds)
    projections = x @ W[:n_numbers]
    for category, column in enumerate(encoding.categories):
        part = slice(start[category], start[category + 1])
        values = W[n_numbers:][start[category] - start[0] : start[category + 1] - start[0]]
        projections += values[X[:, column].astype(np.intp)] - _shares(nodes, part) @ values
    spread = projections.std(axis=0) if shape.bandwidth is None else np.full(width, shape.bandwidth)
    spread = np.where(spread > 0, spread, 1.0)
    return W[:n_numbers] / spread, W[n_numbers:] / spread, -projections.mean(axis=0) / spread


def _unit(*weights: Array) -> float:
    """Return one, or, for weights whose squares may exceed single precision, the power of two to divide them by."""
    largest = max((float(np.abs(part).max()) for part in weights if part.size), default=0.0)
    return math.ldexp(0.5, math.frexp(largest)[1]) if _LARGEST_SQUARED < largest < np.inf else 1.0


def _shares(nodes: kernels.Nodes, part: slice) -> Array:
    """Return the shares of the rows that some levels have."""
    return np.asarray(nodes.centre[part].astype(np.float64) / nodes.size[part])


def _ramps(encoding: Encoding, rows: kernels.Rows) -> kernels.Nodes:
    """Positions of the nodes on standardised columns, the size of the ramps into them, and their means.

    The size of a level is one, its mean the share of its rows.
    """
    knots, starts = encoding.knots, encoding.level_start
    counts = np.diff(knots.start)
    column = np.repeat(knots.columns, counts)
    position = np.clip((knots.nodes - encoding.mean[column]) / encoding.scale[column], -FARTHEST, FARTHEST)
    n_rows, size, centre = max(rows.cells.shape[0], 1), np.ones(starts[-1]), np.zeros(starts[-1])
    size[: knots.nodes.size] = np.repeat(np.minimum(1, 3 / np.sqrt(np.maximum(counts - 1, 1))), counts)
    if knots.n_curves:
        n_nodes, cells = knots.nodes.size, rows.cells.ravel()
        within = np.bincount(cells, rows.fractions.ravel(), n_nodes)  # the ramps that rows stand on
        beyond = np.append(np.cumsum(np.bincount(cells, minlength=n_nodes)[::-1])[::-1], 0)
        above = beyond[:-1] - np.repeat(beyond[knots.start[1:]], counts)  # rows that have passed a ramp, of its column
        centre[1:n_nodes] = (within[:-1] + above[1:]) / n_rows
        centre[knots.start[:-1]] = 0
    centre[starts[0] :] = np.bincount(rows.levels.ravel() - starts[0], minlength=starts[-1] - starts[0]) / n_rows
    numbers = (part.astype(np.float32) for part in (position, size, size * centre))
    return kernels.Nodes(knots.start.astype(np.int64), *numbers)


@dataclass(frozen=True, slots=True)
class Refined:
    """A trained model for raw inputs; ``V`` (n_components, n_outputs)."""

    directions: Directions
    curves: ColumnCurves | None
    a: Array
    V: Array


def unscaled(trainer: Trainer) -> Refined:
    """Fold scales, standardisation and the grid of the activation into directions and curves for raw inputs."""
    encoding, width = trainer.encoding, trainer.shape.n_components
    parameters = kernels.Parameters(*(part.astype(np.float64) for part in trainer.parameters))
    pieces = trainer.shape.basis.pieces()
    W = np.zeros((encoding.scale.size, width))
    columns = encoding.columns
    W[columns] = pieces.step * parameters.scale[:, None] * parameters.W[:, :width] / encoding.scale[columns, None]
    offset = pieces.low + pieces.step * (parameters.bias[:width] + 0.5) - encoding.mean[columns] @ W[columns]
    tables, means = _tables(trainer, pieces.step * parameters.ramps[:, :width], parameters.ramp_scale)
    offset -= means
    directions = Directions(W, offset, np.ones(width), width)
    return Refined(directions, curves_of(tables), parameters.C, parameters.V[:, :width].T)


def _tables(trainer: Trainer, ramps: Array, scales: Array) -> tuple[list[tuple[int, Array, Array]], Array]:
    """Return every curve as its column, nodes and values, and the mean of all over the rows, (n_components,).

    A level without rows has the mean value of its category.
    """
    encoding, knots, start = trainer.encoding, trainer.encoding.knots, trainer.encoding.level_start
    ends, n_curves = [*knots.start[:-1], *start], knots.n_curves
    scale = np.concatenate([np.repeat(scales[:n_curves], np.diff(knots.start)), scales[n_curves:]])
    size, centre = (part.astype(np.float64) * scale for part in (trainer.nodes.size, trainer.nodes.centre))
    values = size[:, None] * ramps
    values[knots.start[:-1]] = 0
    tables = {}
    for at, column in enumerate([*knots.columns, *encoding.level_columns]):
        part = slice(ends[at], ends[at + 1])
        own = values[part]
        if at < n_curves:
            tables[column] = knots.of(at), np.cumsum(own, axis=0)
        else:
            share = _shares(trainer.nodes, part)
            own = np.where(share[:, None] > 0, own, share @ own)
            nodes, curve = tables.get(column, (np.arange(own.shape[0]), 0.0))
            tables[column] = nodes, curve + own
    return [(column, *table) for column, table in tables.items()], centre @ ramps
