"""The whole method on one page: from rows to a fitted model.

`train` is Algorithm 1 of the paper, line by line; plain sampling is the same page without lines 2 to 5.
Everything reads the rows through sums over blocks and draws random numbers from one generator, so a seed fixes the
model whatever the number of threads; another block size changes the sums only by rounding.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bases import Basis, BSplineBasis
from .bilinear import Search, SharedActivation, learn_shared_activation
from .blocks import Block, BlockSource, Scratch, StandardisedTargets, plan_rows
from .convex import ComponentActivations, expand, solve_per_component
from .errors import InvalidParameterError
from .executors import Executor
from .features import FeatureMap, RowFeatures, compile_map, sum_equations
from .leverage import Leverage, leverage_scores, resample, sampled_leverage_scores
from .model import Activation, RandomFeatureModel
from .normal_equations import NormalEquations, RidgeSolution, RidgeSystem
from .scaling import ColumnMoments, TableMoments, measure
from .selection import Selection, select_greedily
from .spectral import Density, Directions, Gaussian, draw

Array = NDArray[Any]
_log = logging.getLogger("rflaf")
_BANDWIDTH_ROWS = 2000
_BLOCK_MEMORY = 2**28
_LARGEST_POOL = 5000
_GREEDY_POOL = 3000
_GREEDY_ROWS = 12_000
_LARGEST_AUTO_WIDTH = 500
_GREEDY_RIDGE = 1e-4  # of the mean square of a feature
_LEAVE_ONE_OUT_ROWS = 8000


@dataclass(frozen=True, slots=True)
class FitSpec:
    """What to fit. ``None`` stands for "choose from the data".

    Attributes
    ----------
    n_components : S, the number of components drawn; None for the smallest width on the greedy path whose
        cross-validation is within ``tolerance`` of the lowest
    sampling : "plain", "leverage" or "greedy"
    per_component : one activation a component, instead of one shared by all
    pool_size : s, directions drawn to choose from; None for ten times S, between 1000 and 5000, under leverage
        sampling, and for 3000 or twice S under greedy selection
    basis, density : where the activation lives, and p(w)
    bandwidth : length scale l on standardised inputs, directions are w / l with w ~ p(w); None for the median standard
        deviation of a projection, so that projections have unit scale
    alpha : lambda* of the paper, 1/n |y - f|^2 + alpha S |v|^2 for an activation of mean square one; None for
        generalised cross-validation
    leverage_alpha : lambda of the leverage scores; None for 1 / sqrt(n)
    leverage_rows : rows the scores are computed from; None for all
    search : how far to search for the activation
    memory : bytes for the blocks and sums of one worker; None for what the sums need and 256 MiB for the blocks
    """

    n_components: int | None = 100
    tolerance: float = 0.01
    sampling: str = "plain"
    per_component: bool = False
    pool_size: int | None = None
    basis: Basis = field(default_factory=BSplineBasis)
    density: Density = field(default_factory=Gaussian)
    bandwidth: float | None = None
    alpha: float | None = None
    leverage_alpha: float | None = None
    leverage_rows: int | None = None
    intercept: bool = True
    search: Search = field(default_factory=Search)
    memory: int | None = None

    @property
    def n_pool(self) -> int:
        """Directions drawn first: the width itself under plain sampling."""
        if self.sampling == "plain":
            return self.most_components
        if self.pool_size is not None:
            return self.pool_size
        if self.sampling == "greedy":
            return max(_GREEDY_POOL, 2 * self.most_components)
        return max(self.most_components, min(max(10 * self.most_components, 1000), _LARGEST_POOL))

    @property
    def most_components(self) -> int:
        """The width, or the largest that may be chosen."""
        return _LARGEST_AUTO_WIDTH if self.n_components is None else self.n_components


@dataclass(frozen=True, slots=True)
class FitResult:
    """A model and how it came about."""

    model: RandomFeatureModel
    solution: RidgeSolution
    equations: NormalEquations
    alpha: float
    bandwidth: float
    activation: SharedActivation | ComponentActivations
    leverage: Leverage | None
    selection: Selection | None


def train(source: BlockSource, spec: FitSpec, rng: np.random.Generator, executor: Executor) -> FitResult:
    """Algorithm 1, lines 1 to 6, for the squared loss; plain sampling is lines 1 and 6.

    Greedy selection takes the place of lines 3 to 5, and one activation a component that of the shared one in line 6.
    """
    source = _plan(source, spec)
    moments = _measure(source, executor)
    centre, scale = _target_scale(moments.y, spec.intercept)
    source = StandardisedTargets(source, centre, scale)

    # Line 1: draw a pool of directions w ~ p(w), for standardised inputs at a length scale of the data.
    pool = draw(spec.density, source.n_features, spec.n_pool, rng).fold(moments.X.mean, moments.X.scale)
    bandwidth, directions = _scale(source, pool, spec, rng)
    start, leverage, selection = None, None, None
    _log.info("line 1: %d directions for %d columns, bandwidth %.3g", spec.n_pool, source.n_features, bandwidth)

    if spec.sampling == "leverage":
        # Line 2: fit the pool and keep its activation.
        approximate = _learn(source, directions, spec, rng, executor, start=None)
        _log.info("line 2: the pool's activation %s", approximate.stop_reason.value)
        # Line 3: ridge leverage scores of the pool under that activation.
        leverage = _score(source, directions, approximate, spec, rng, executor)
        _log.info("line 3: effective dimension %.1f, scores spread %.1f", leverage.effective_dimension, leverage.spread)
        # Lines 4 and 5: draw components in proportion to their scores, weights sqrt(p/q).
        directions, start = resample(directions, leverage, spec.most_components, rng), approximate.a

    if spec.sampling == "greedy":
        # Instead of lines 3 to 5: the components that lower the error most, one after the other.
        approximate = _learn(source, directions, spec, rng, executor, start=None)
        selection = _select(source, directions, approximate, spec, rng, executor)
        width = selection.best_width(spec.tolerance) if spec.n_components is None else selection.order.size
        directions, start = directions.take(selection.order[:width]), approximate.a
        _log.info("greedy: %d components of %d kept", directions.n_components, spec.n_pool)

    # Line 6: learn the activation of the components drawn, and their output weights on all rows.
    if spec.per_component:
        fitted = _fit_per_component(source, directions, spec, rng, executor)
    else:
        fitted = _fit_shared(source, directions, spec, rng, executor, start)
    model = _unscale(directions, fitted, centre, scale)
    alpha = fitted.solution.ridge / directions.n_draws
    _log.info("line 6: %d components on %d rows, alpha %.3g", model.n_components, source.n_samples, alpha)
    return FitResult(model, fitted.solution, fitted.equations, alpha, bandwidth, fitted.learned, leverage, selection)


@dataclass(frozen=True, slots=True)
class _Fitted:
    """Line 6 on standardised targets: what was learned, and the sums and solution behind it."""

    activation: Activation
    v: Array
    intercept: Array
    learned: SharedActivation | ComponentActivations
    equations: NormalEquations
    solution: RidgeSolution


def _fit_shared(
    source: BlockSource,
    directions: Directions,
    spec: FitSpec,
    rng: np.random.Generator,
    executor: Executor,
    start: Array | None,
) -> _Fitted:
    learned = _learn(source, directions, spec, rng, executor, start)
    _log.info("line 6: the activation %s, after %d steps", learned.stop_reason.value, len(learned.trace) - 1)
    features = _compile(directions, learned, spec, source)
    equations = sum_equations(source, features, executor).scale(directions.importance)
    system = equations.system(spec.intercept)
    ridge = _ridge(source, features, directions.importance, directions.n_draws, system, spec, rng, executor)
    solution = system.solve(ridge)
    activation = Activation(spec.basis, learned.a[None], learned.covariance)
    return _Fitted(activation, solution.v, solution.intercept, learned, equations, solution)


def _fit_per_component(
    source: BlockSource, directions: Directions, spec: FitSpec, rng: np.random.Generator, executor: Executor
) -> _Fitted:
    features = expand(directions, spec.basis, source.dtype)
    importance = np.repeat(directions.importance, spec.basis.n_basis)
    equations = sum_equations(source, features, executor).scale(importance)
    system = equations.system(spec.intercept)
    ridge = _ridge(source, features, importance, directions.n_draws, system, spec, rng, executor)
    solution = system.solve(ridge)
    learned = solve_per_component(equations, solution, features.T, spec.intercept)
    activation = Activation(spec.basis, learned.a)
    return _Fitted(activation, learned.v, learned.intercept, learned, equations, solution)


def _plan(source: BlockSource, spec: FitSpec) -> BlockSource:
    """Cut the rows into blocks that fit the memory: the design of a block and its sums."""
    width = spec.most_components * (spec.basis.n_basis if spec.per_component else 1)
    n_columns = max(spec.n_pool, width) + 1 + source.n_outputs
    itemsize = source.dtype.itemsize
    row_bytes = itemsize * (n_columns + source.n_features)
    sums = n_columns**2 * (itemsize + 3 * 8)  # a block's product, the sums, and two of their size to factor them
    memory = sums + _BLOCK_MEMORY if spec.memory is None else spec.memory
    return source.with_rows(plan_rows(memory, row_bytes, sums))


def _measure(source: BlockSource, executor: Executor) -> TableMoments:
    with np.errstate(over="ignore", invalid="ignore"):
        moments = measure(source, executor)
        finite = np.isfinite(moments.X.scale).all() and np.isfinite(moments.y.scale).all()
    if not finite:
        raise InvalidParameterError(
            "the variance of every column of X and y must be a finite number",
            "an overflow",
            "Divide columns with values above 1e150 by a constant.",
        )
    return moments


def _target_scale(y: ColumnMoments, intercept: bool) -> tuple[Array, Array]:
    """Centre and scale of the targets; without an intercept they are not centred, only divided by their size."""
    if intercept:
        return y.mean, y.scale
    return np.zeros_like(y.mean), np.hypot(y.mean, y.scale)


def _scale(source: BlockSource, pool: Directions, spec: FitSpec, rng: np.random.Generator) -> tuple[float, Directions]:
    """The bandwidth, and the directions divided by it, so that projections have unit spread on the activation's grid.

    Unless given, the bandwidth is the median spread of a projection. Where every component has an activation of its
    own, every component is divided by its own spread.
    """
    if spec.bandwidth is not None:
        return spec.bandwidth, pool.scaled(1 / spec.bandwidth)
    spreads = _spreads(source.sample(_BANDWIDTH_ROWS, rng), pool)
    bandwidth = float(np.median(spreads)) or 1.0
    if spec.per_component:
        return bandwidth, pool.scaled(1 / np.where(spreads > 0, spreads, 1.0))
    return bandwidth, pool.scaled(1 / bandwidth)


def _spreads(sample: BlockSource, directions: Directions) -> Array:
    """Standard deviation of every projection w . x over the rows of a sample."""
    blocks = (sample[i] for i in range(len(sample)))
    parts = (ColumnMoments.from_rows(b.X @ directions.W + directions.offset, b.weight) for b in blocks)
    total = next(parts)
    for part in parts:
        total += part
    return np.sqrt(total.deviation / total.weight) if total.weight else np.zeros(directions.n_components)


def _learn(
    source: BlockSource,
    directions: Directions,
    spec: FitSpec,
    rng: np.random.Generator,
    executor: Executor,
    start: Array | None,
) -> SharedActivation:
    return learn_shared_activation(
        source, directions, spec.basis, spec.alpha, spec.intercept, spec.search, rng, executor, start
    )


def _compile(directions: Directions, activation: SharedActivation, spec: FitSpec, source: BlockSource) -> FeatureMap:
    return compile_map(directions, spec.basis.pieces(activation.a[None]), activation.a[None], source.dtype)


def _score(
    source: BlockSource,
    pool: Directions,
    activation: SharedActivation,
    spec: FitSpec,
    rng: np.random.Generator,
    executor: Executor,
) -> Leverage:
    feature_map = _compile(pool, activation, spec, source)
    if spec.leverage_rows is None:
        return leverage_scores(source, feature_map, spec.leverage_alpha, executor)
    return sampled_leverage_scores(source, feature_map, spec.leverage_alpha, spec.leverage_rows, rng, executor)


def _select(
    source: BlockSource,
    pool: Directions,
    activation: SharedActivation,
    spec: FitSpec,
    rng: np.random.Generator,
    executor: Executor,
) -> Selection:
    """Greedy selection from the pool's sums over a sample of rows; at least one component is kept."""
    sample = source.sample(_GREEDY_ROWS, rng)
    equations = sum_equations(sample, _compile(pool, activation, spec, source), executor)
    ridge = _GREEDY_RIDGE * equations.mean_square
    selection = select_greedily(equations, spec.most_components, ridge, spec.intercept)
    if selection.order.size:
        return selection
    return Selection(np.zeros(1, np.intp), np.repeat(selection.errors, 2), np.repeat(selection.gcv, 2))


def _ridge(
    source: BlockSource,
    features: RowFeatures,
    importance: Array,
    n_draws: int,
    system: RidgeSystem,
    spec: FitSpec,
    rng: np.random.Generator,
    executor: Executor,
) -> float:
    """alpha S, S counting every draw; where alpha is to be chosen, the ridge of lowest leave-one-out error.

    The error is summed over a sample of rows. Generalised cross-validation, which needs no rows, was seen to choose
    too little where a few rows have a leverage far above the mean.
    """
    if spec.alpha is not None:
        return spec.alpha * n_draws
    spectrum = system.spectrum
    ridges = spectrum.ridges()

    def one(block: Block, scratch: Scratch) -> Array:
        z = scratch.array("z", (features.n_components, block.n_rows), source.dtype)
        features.features(block.X, z)
        z *= importance[:, None].astype(source.dtype)
        return spectrum.leave_one_out(ridges, z, block.y, block.weight)

    error = executor.reduce(source.sample(_LEAVE_ONE_OUT_ROWS, rng), one)
    return float(ridges[np.argmin(error)])


def _unscale(directions: Directions, fitted: _Fitted, centre: Array, scale: Array) -> RandomFeatureModel:
    """Undo the scaling of the targets: it is folded into the output weights and the intercept."""
    return RandomFeatureModel(directions, fitted.activation, fitted.v * scale, centre + scale * fitted.intercept)
