"""Directions, curves and activations trained together: refined models.

    minimise over everything   1/n sum_i w_i loss(f(x_i), y_i) + alpha (|W|^2 + |ramps|^2) + beta (|s|^2 + |s'|^2)
                               + gamma sum_m |second differences of c_m|^2

f(x) = base + sum_m v_m sigma_m(u_m(x)), where a component's input u_m is a sum over columns of s_c w_cm x_c, a line,
and of s'_c times ramps between nodes, a curve. The product of a column's scale and its weights under two ridges acts
as a group lasso: a useless column loses its scale. Adam on mini-batches from random directions, the activations
starting at zero; compiled loops in ``_refine_kernels.py``, in float32. Wide models are trained in parts
(`rflaf.training.solvers.refined.ensemble`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions._kernels import refined as kernels
from rflaf.functions._kernels.losses import Objective
from rflaf.functions.bases import Basis
from rflaf.functions.curves import ColumnCurves
from rflaf.functions.densities import Density, Directions, draw
from rflaf.functions.losses import Huber, Loss, Squared

from .encoded_rows import Encoding

_SCALE_PENALTY = 1e-3  # beta
_ROUGHNESS = 1e-3  # gamma
_EPOCHS, _STRAIGHT_EPOCHS = 15, 24
_MEMBERS = 0.2  # of the root of the width: two for a hundred components
_LEAST_WIDTH = 2 * kernels.LANE  # of a member


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to train: the penalty alpha on directions and ramps, a factor on their rate, and the nodes of a column.

    ``nodes=0`` keeps every column straight; ``effort`` is a share of the usual epochs, ``split`` a multiple of the
    usual number of members, zero for a single one.
    """

    alpha: float
    rate: float = 1.0
    nodes: int = 33
    effort: float = 1.0
    split: int = 1

    def widths(self, width: int) -> tuple[int, ...]:
        """Widths of the members that ``width`` components are shared out among; in whole vectors but for the last.

        Their number grows as the root of the width, so that wide models have wide members.

        >>> [Recipe(1e-4).widths(width) for width in (30, 100, 300)], Recipe(1e-4, split=3).widths(100)
        ([(30,), (48, 52), (96, 104, 100)], (16, 16, 16, 16, 16, 20))
        """
        n_members = int(np.clip(round(self.split * _MEMBERS * width**0.5), 1, max(width // _LEAST_WIDTH, 1)))
        ends = np.arange(1, n_members) * width // n_members
        return tuple(map(int, np.diff([0, *(kernels.LANE * np.round(ends / kernels.LANE)), width])))

    def batch(self, n_rows: int) -> int:
        """Rows a step: steps are dearer where there are nodes to move, so fewer of them are made."""
        most = 512 if self.nodes else 256
        return int(np.clip(2 ** np.round(np.log2(max(n_rows, 1) * most / 2**15)), 32, most))

    def epochs(self, n_rows: int) -> int:
        """Passes over the rows: 15 for 36,000 of them, more for fewer and where columns stay straight."""
        base = self.effort * (_EPOCHS if self.nodes else _STRAIGHT_EPOCHS)
        return round(float(np.clip(base * (36_000 / n_rows) ** 0.5, min(8, base), 100)))


@dataclass(frozen=True, slots=True)
class Shape:
    """What is trained: width, basis, one activation for all or one a component, how the directions start, and the loss.

    ``base`` are the outputs the activations add to, one a target; none for zero.
    """

    n_components: int
    basis: Basis
    shared: bool
    density: Density
    bandwidth: float | None = None
    loss: Loss = field(default_factory=Squared)
    base: tuple[float, ...] = ()

    @property
    def delta(self) -> float:
        """How far a residual pulls harder: infinitely, or up to that of the Huber loss."""
        return self.loss.reach if isinstance(self.loss, Huber) else float("inf")

    def objective(self, n_outputs: int) -> Objective:
        """The loss as the compiled loops know it."""
        kernel = self.loss.kernel()
        if kernel is None:
            raise InvalidParameterError(
                "directions='refined' are trained by compiled loops, which know only the losses of this package",
                self.loss,
                "Set directions='random' for a loss of your own.",
            )
        number, first, second = kernel
        base = np.array(self.base or (0.0,) * n_outputs, np.float32)
        return Objective(number, np.float32(first), np.float32(second), base)


@dataclass(frozen=True)
class Trainer:
    """Parameters on their way, and all the loops need beside them."""

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
            object.__setattr__(self, name, kernels.Parameters(*map(np.zeros_like, self.parameters)))
        width, n_linear = self.network.bias.size, self.network.W.shape[0]
        n_tables = self.network.table.shape[0] if self.network.table.shape[0] > 1 else kernels.LANE
        table = np.zeros((n_tables, self.network.table.shape[1]), np.float32)
        gradient = kernels.Gradient(*map(np.zeros_like, self.network))._replace(table=table)
        object.__setattr__(self, "gradient", gradient)
        block = (self.batch, width)
        shapes = [(self.batch, n_linear), block, block, block, (self.batch, self.network.V.shape[0]), block]
        shapes += [(1, width), (1, width), (1, width), self.parameters.C.shape]
        work = kernels.Work(*(np.zeros(shape, np.float32) for shape in shapes))
        object.__setattr__(self, "work", work)
        kernels.assemble(self.parameters, self.nodes, self.by_basis, self.network)

    def run(self, rows: kernels.Rows, order: Array, step: int, n_steps: int) -> float:
        """Train on the rows in ``order``, from step ``step`` of ``n_steps``; returns their summed loss on the way."""
        objective = self.shape.objective(self.network.V.shape[0])
        roughness = (2 * _ROUGHNESS * self.shape.basis.penalty()).astype(np.float32)
        loss: float = kernels.train_rows(
            rows, order, self.batch, objective, self.parameters, self.moments, self.squares,
            self.gradient, self.slopes, self.nodes, self.network, self.by_basis, roughness, self.rates, self.work,
            step, n_steps,
        )  # fmt: skip
        return loss

    @property
    def state(self) -> tuple[kernels.Parameters, kernels.Parameters, kernels.Parameters]:
        """All that training changes and remembers."""
        return self.parameters, self.moments, self.squares

    def resume(self, *state: kernels.Parameters) -> None:
        """Take up a state of this trainer, or of one like it that was interrupted."""
        if state[0] is self.parameters:
            return
        for mine, given in zip(self.state, state, strict=True):
            for to, part in zip(mine, given, strict=True):
                to[...] = part
        kernels.assemble(self.parameters, self.nodes, self.by_basis, self.network)

    def strength(self) -> Array:
        """How far every column moves the inputs of the components, (n_features,): root mean square over its nodes."""
        knots, size = self.encoding.knots, np.zeros(self.encoding.scale.size)
        size[self.encoding.linear] = np.sqrt(np.sum(self.network.W**2, axis=1))
        for curve, column in enumerate(knots.columns):
            size[column] = np.sqrt(np.var(self.network.H[knots.start[curve] : knots.start[curve + 1]], axis=0).sum())
        return size

    def outputs(self, rows: kernels.Rows, index: Array) -> Array:
        """f at the rows ``index``: (index.size, n_outputs)."""
        out = np.empty((index.size, self.network.V.shape[0]), np.float32)
        kernels.outputs(rows, index, self.network, self.work, out)
        out += self.shape.objective(out.shape[1]).base
        return out


def begin(
    encoding: Encoding,
    rows: kernels.Rows,
    X: Array,
    shape: Shape,
    recipe: Recipe,
    rng: np.random.Generator,
    n_rows: int,
) -> Trainer:
    """A trainer at its start, for ``n_rows``: random directions over the rows of a sample ``X``, activations zero."""
    columns, width = encoding.columns, shape.n_components
    padded = width + -width % kernels.LANE
    pieces = shape.basis.pieces()
    W, bias = _first_directions(encoding.standardise(X, columns), shape, rng)
    n_outputs, n_tables = rows.y.shape[1], 1 if shape.shared else width
    fixed = n_outputs == 1 and not shape.shared
    V = np.ones((1, width)) if fixed else rng.standard_normal((n_outputs, width))
    n_linear, n_nodes = encoding.linear.size, encoding.knots.nodes.size

    def wide(values: Array) -> Array:
        return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, padded - width)]).astype(np.float32)

    parameters = kernels.Parameters(
        W=wide(W / pieces.step),
        ramps=np.zeros((n_nodes, padded), np.float32),
        bias=wide((bias - pieces.low) / pieces.step - 0.5),
        C=np.zeros((n_tables, shape.basis.n_basis), np.float32),
        V=wide(V),
        scale=np.ones(columns.size, np.float32),
        ramp_scale=np.ones(encoding.knots.n_curves, np.float32),
    )
    by_basis = pieces.coefficients.transpose(1, 0, 2).reshape(shape.basis.n_basis, -1)
    network = kernels.Network(
        W=np.zeros((n_linear, padded), np.float32),
        H=np.zeros((n_nodes, padded), np.float32),
        bias=np.zeros(padded, np.float32),
        table=np.zeros((1 if shape.shared else padded, by_basis.shape[1]), np.float32),
        V=np.zeros((n_outputs, padded), np.float32),
    )
    rates = kernels.Rates(
        W=np.float32(recipe.rate * 0.1 / np.sqrt(max(columns.size, 1)) / pieces.step),
        C=np.float32(0.05 / np.sqrt(width)),
        V=np.float32(0.0 if fixed else 0.01),
        scale=np.float32(0.01),
        alpha=np.float32(recipe.alpha * pieces.step**2),
        scale_alpha=np.float32(_SCALE_PENALTY),
    )
    batch = recipe.batch(n_rows)
    nodes = _ramps(encoding, rows)
    return Trainer(
        shape, encoding, recipe, parameters, network, nodes, rates, np.ascontiguousarray(by_basis, np.float32), batch
    )


def _first_directions(x: Array, shape: Shape, rng: np.random.Generator) -> tuple[Array, Array]:
    """Random directions for standardised rows, every projection centred and of unit spread; and their offsets."""
    W = draw(shape.density, x.shape[1], shape.n_components, rng).W if x.shape[1] else np.zeros((0, shape.n_components))
    projections = x @ W
    spread = projections.std(axis=0) if shape.bandwidth is None else np.full(W.shape[1], shape.bandwidth)
    spread = np.where(spread > 0, spread, 1.0)
    return W / spread, -projections.mean(axis=0) / spread


def _ramps(encoding: Encoding, rows: kernels.Rows) -> kernels.Nodes:
    """Positions of the nodes on standardised columns, the size of the ramps into them, and their means."""
    knots = encoding.knots
    counts = np.diff(knots.start)
    column = np.repeat(knots.columns, counts)
    position = (knots.nodes - encoding.mean[column]) / encoding.scale[column]
    size = np.repeat(np.minimum(1, 3 / np.sqrt(np.maximum(counts - 1, 1))), counts)
    centre = np.zeros(knots.nodes.size)
    n_rows = max(rows.cells.shape[0], 1)
    for curve in range(knots.n_curves):
        first, last = knots.start[curve], knots.start[curve + 1]
        k = rows.cells[:, curve] - first
        within = np.bincount(k, rows.fractions[:, curve], last - first - 1)  # the ramp a row stands on
        above = np.cumsum(np.bincount(k, minlength=last - first - 1)[::-1])[::-1]
        centre[first + 1 : last] = (within + np.append(above[1:], 0)) / n_rows
    f4 = np.float32
    return kernels.Nodes(knots.start.astype(np.int64), position.astype(f4), size.astype(f4), (size * centre).astype(f4))


@dataclass(frozen=True, slots=True)
class Refined:
    """What training found, for raw inputs; ``V`` (n_components, n_outputs)."""

    directions: Directions
    curves: ColumnCurves | None
    a: Array
    V: Array


def fold(trainer: Trainer) -> Refined:
    """Scales, standardisation and the grid of the activation folded into directions and curves."""
    encoding, width = trainer.encoding, trainer.shape.n_components
    parameters = kernels.Parameters(*(part.astype(np.float64) for part in trainer.parameters))
    pieces, knots = trainer.shape.basis.pieces(), encoding.knots
    W = np.zeros((encoding.scale.size, width))
    columns = encoding.columns
    W[columns] = pieces.step * parameters.scale[:, None] * parameters.W[:, :width] / encoding.scale[columns, None]
    offset = pieces.low + pieces.step * (parameters.bias[:width] + 0.5) - encoding.mean[columns] @ W[columns]
    curves = None
    if knots.n_curves:
        scale = np.repeat(parameters.ramp_scale, np.diff(knots.start))
        size, centre = (part.astype(np.float64) * scale for part in (trainer.nodes.size, trainer.nodes.centre))
        ramps = pieces.step * parameters.ramps[:, :width]
        offset -= centre @ ramps
        rises = size[:, None] * ramps
        rises[knots.start[:-1]] = 0
        values = np.concatenate([np.cumsum(part, axis=0) for part in np.split(rises, knots.start[1:-1])])
        curves = ColumnCurves(knots, values)
    directions = Directions(W, offset, np.ones(width), width)
    return Refined(directions, curves, parameters.C, parameters.V[:, :width].T)
