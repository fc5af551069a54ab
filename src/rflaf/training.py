"""The whole method on one page: from rows to a fitted model.

`train` is Algorithm 1 of the paper, line by line; plain sampling is the same page without lines 2 to 5.
Everything reads the rows through sums over blocks and draws random numbers from one generator, so a seed fixes the
model whatever the number of threads; another block size changes it only by rounding.
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
from .errors import InvalidParameterError
from .executors import Executor
from .features import FeatureMap, compile_map, sum_equations
from .leverage import Leverage, leverage_scores, resample, sampled_leverage_scores
from .model import Activation, RandomFeatureModel
from .normal_equations import NormalEquations, RidgeSolution
from .scaling import ColumnMoments, TableMoments, measure
from .spectral import Density, Directions, Gaussian, draw

Array = NDArray[Any]
_log = logging.getLogger("rflaf")
_BANDWIDTH_ROWS = 2000
_BANDWIDTH_COMPONENTS = 256
_BLOCK_MEMORY = 2**28
_LARGEST_POOL = 5000
_LEAVE_ONE_OUT_ROWS = 8000


@dataclass(frozen=True, slots=True)
class FitSpec:
    """What to fit. ``None`` stands for "choose from the data".

    Attributes
    ----------
    n_components : S, the number of components drawn
    sampling : "plain" or "leverage"
    pool_size : s, directions drawn before leverage sampling; None for ten times S, at least 1000, at most 5000
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

    n_components: int = 100
    sampling: str = "plain"
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
            return self.n_components
        if self.pool_size is None:
            return max(self.n_components, min(max(10 * self.n_components, 1000), _LARGEST_POOL))
        return self.pool_size


@dataclass(frozen=True, slots=True)
class FitResult:
    """A model and how it came about."""

    model: RandomFeatureModel
    solution: RidgeSolution
    equations: NormalEquations
    alpha: float
    bandwidth: float
    activation: SharedActivation
    leverage: Leverage | None


def train(source: BlockSource, spec: FitSpec, rng: np.random.Generator, executor: Executor) -> FitResult:
    """Algorithm 1, lines 1 to 6, for the squared loss; or plain sampling, lines 1 and 6."""
    source = _plan(source, spec)
    moments = _measure(source, executor)
    centre, scale = _target_scale(moments.y, spec.intercept)
    source = StandardisedTargets(source, centre, scale)

    # Line 1: draw a pool of directions w ~ p(w), for standardised inputs at a length scale of the data.
    pool = draw(spec.density, source.n_features, spec.n_pool, rng).fold(moments.X.mean, moments.X.scale)
    bandwidth = _bandwidth(source, pool, rng) if spec.bandwidth is None else spec.bandwidth
    directions, start, leverage = pool.scaled(1 / bandwidth), None, None
    _log.info("line 1: %d directions for %d columns, bandwidth %.3g", spec.n_pool, source.n_features, bandwidth)

    if spec.sampling == "leverage":
        # Line 2: fit the pool and keep its activation.
        approximate = _learn(source, directions, spec, rng, executor, start=None)
        _log.info("line 2: the pool's activation %s", approximate.stop_reason.value)
        # Line 3: ridge leverage scores of the pool under that activation.
        leverage = _score(source, directions, approximate, spec, rng, executor)
        _log.info("line 3: effective dimension %.1f, scores spread %.1f", leverage.effective_dimension, leverage.spread)
        # Lines 4 and 5: draw components in proportion to their scores, weights sqrt(p/q).
        directions, start = resample(directions, leverage, spec.n_components, rng), approximate.a

    # Line 6: learn the activation of the components drawn, and their output weights on all rows.
    activation = _learn(source, directions, spec, rng, executor, start)
    _log.info("line 6: the activation %s, after %d steps", activation.stop_reason.value, len(activation.trace) - 1)
    feature_map = _compile(directions, activation, spec, source)
    equations = sum_equations(source, feature_map, executor).scale(directions.importance)
    ridge = _ridge(source, feature_map, directions, equations, spec, rng, executor)
    solution = equations.system(spec.intercept).solve(ridge)
    model = _assemble(directions, activation, spec, solution, centre, scale)
    alpha = solution.ridge / directions.n_draws
    _log.info("line 6: %d components on %d rows, alpha %.3g", model.n_components, source.n_samples, alpha)
    return FitResult(model, solution, equations, alpha, bandwidth, activation, leverage)


def _plan(source: BlockSource, spec: FitSpec) -> BlockSource:
    """Cut the rows into blocks that fit the memory: the design of a block and its sums."""
    n_columns = spec.n_pool + 1 + source.n_outputs
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


def _bandwidth(source: BlockSource, directions: Directions, rng: np.random.Generator) -> float:
    """Median over components of the standard deviation of w . x, one where every projection is constant."""
    sample = source.sample(_BANDWIDTH_ROWS, rng)
    few = directions.take(np.arange(min(_BANDWIDTH_COMPONENTS, directions.n_components)))
    spread: ColumnMoments | None = None
    for i in range(len(sample)):
        block = sample[i]
        rows = ColumnMoments.from_rows(block.X @ few.W + few.offset, block.weight)
        if spread is None:
            spread = rows
        else:
            spread += rows
    deviation = np.zeros(1) if spread is None else np.sqrt(spread.deviation / max(spread.weight, 1e-300))
    return float(np.median(deviation)) or 1.0


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


def _ridge(
    source: BlockSource,
    feature_map: FeatureMap,
    directions: Directions,
    equations: NormalEquations,
    spec: FitSpec,
    rng: np.random.Generator,
    executor: Executor,
) -> float:
    """alpha S, S counting every draw; where alpha is to be chosen, the ridge of lowest leave-one-out error.

    The error is summed over a sample of rows. Generalised cross-validation, which needs no rows, was seen to choose
    too little where a few rows have a leverage far above the mean.
    """
    if spec.alpha is not None:
        return spec.alpha * directions.n_draws
    spectrum = equations.system(spec.intercept).spectrum
    ridges = spectrum.ridges()

    def one(block: Block, scratch: Scratch) -> Array:
        z = scratch.array("z", (directions.n_components, block.n_rows), source.dtype)
        feature_map.features(block.X, z)
        return spectrum.leave_one_out(ridges, z * directions.importance[:, None], block.y, block.weight)

    error = executor.reduce(source.sample(_LEAVE_ONE_OUT_ROWS, rng), one)
    return float(ridges[np.argmin(error)])


def _assemble(
    directions: Directions,
    activation: SharedActivation,
    spec: FitSpec,
    solution: RidgeSolution,
    centre: Array,
    scale: Array,
) -> RandomFeatureModel:
    """Undo the scaling of the targets: it is folded into the output weights and the intercept."""
    return RandomFeatureModel(
        directions,
        Activation(spec.basis, activation.a[None], activation.covariance),
        solution.v * scale,
        centre + scale * solution.intercept,
    )
