"""The whole method on one page: from rows to a fitted model.

`_sample` is Algorithm 1 of the paper, line by line; plain sampling is the same page without lines 2 to 5. `_refine`
trains the directions too, by the recipe that does best on rows held out. Everything reads the rows through blocks and
draws random numbers from one generator, so a seed fixes the model whatever the number of threads; for random directions
another block size changes the sums only by rounding.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bases import Basis, BSplineBasis
from .bilinear import Search, SharedActivation, learn_shared_activation
from .blocks import ArraySource, Block, BlockSource, Scratch, StandardisedTargets, plan_rows
from .convex import ComponentActivations, expand, solve_per_component, solve_shapes
from .encoding import Streamed, read
from .errors import InvalidParameterError
from .executors import Executor
from .features import FeatureMap, RowFeatures, compile_features, compile_map, sum_equations, sum_robust_equations
from .last_layer import LastLayer, unscale
from .leverage import Leverage, leverage_scores, resample, sampled_leverage_scores
from .model import Activation, RandomFeatureModel
from .normal_equations import NormalEquations, RidgeSolution, RidgeSystem
from .outcomes import StopReason
from .recipes import BENT, EITHER, STRAIGHT, Hunt, Outliers, Plan, Trial, hold_out, settle
from .refine import Shape, begin, fold
from .refine import train as train_refined
from .scaling import ColumnMoments, TableMoments, measure
from .selection import FeaturePool, Selection, feature_pool, select_from, select_greedily
from .spectral import Density, Directions, Gaussian, draw

Array = NDArray[Any]
_log = logging.getLogger("rflaf")
_BANDWIDTH_ROWS = 2000
_BLOCK_MEMORY = 2**28
_LARGEST_POOL = 5000
_GREEDY_POOL = 3000
_GREEDY_ROWS, _LEAST_GREEDY_ROWS = 12_000, 1000
_LARGEST_GRAM_POOL, _LAZY_SHARE = 6000, 20
_POOL_MEMORY = 2**30
_LARGEST_AUTO_WIDTH = 500
_GREEDY_RIDGE = 1e-4  # of the mean square of a feature
_LEAVE_ONE_OUT_ROWS = 8000
_SEARCH_ROWS = 20_000
_FIRST_WIDTH = 100
_LEAST_FOR_FEW_ROWS, _MOST_FOR_FEW_ROWS = 10, 100  # components
_CLEARLY = 0.05
_FEW_ROWS = 3000  # up to here random directions may do better, and are tried too
_ENCODED_MEMORY = 2**31
LEAST_REFINED_ROWS = 200


@dataclass(frozen=True, slots=True)
class FitSpec:
    """What to fit. ``None`` stands for "choose from the data".

    Attributes
    ----------
    n_components : S, the number of components; None for the smallest width whose estimated error is within
        ``tolerance`` of the lowest, on the greedy path or on rows held out
    widest : the largest width that may be chosen
    refined : train the directions too, from a plain draw
    curves : whether columns of a refined model bend; None for what does better on rows held out
    keep_outliers : trust every target; else those far from all others and from the fit weigh less
    sampling : "plain", "leverage" or "greedy"
    per_component : one activation a component, instead of one shared by all
    n_shapes : shapes the activations of the components are mixtures of; None for any
    pool_size : s, directions drawn to choose from; None for ten times S, between 1000 and 5000, under leverage
        sampling, and for 3000 or twice S under greedy selection
    basis, density : where the activation lives, and p(w)
    bandwidth : length scale l on standardised inputs, directions are w / l with w ~ p(w); None for the median standard
        deviation of a projection, so that projections have unit scale
    alpha : lambda* of the paper, 1/n |y - f|^2 + alpha S |v|^2 for an activation of mean square one; None for the
        lowest leave-one-out error. Of refined models the penalty on directions and curves; None for a search
    leverage_alpha : lambda of the leverage scores; None for 1 / sqrt(n)
    leverage_rows : rows the scores are computed from; None for all
    search : how far to search for the activation
    memory : bytes for the blocks and sums of one worker; None for what the sums need and 256 MiB for the blocks
    """

    n_components: int | None = 100
    tolerance: float = 0.01
    widest: int = _LARGEST_AUTO_WIDTH
    refined: bool = False
    curves: bool | None = None
    keep_outliers: bool = False
    sampling: str = "plain"
    per_component: bool = False
    n_shapes: int | None = None
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
    def lazy(self) -> bool:
        """Whether greedy selection keeps the features of a sample instead of the pool's Gram matrix.

        That takes less memory for a large pool and less time where few components are kept.
        """
        large = self.n_pool > _LARGEST_GRAM_POOL or _LAZY_SHARE * self.most_components < self.n_pool
        return self.sampling == "greedy" and large

    @property
    def most_components(self) -> int:
        """The width, or the largest that may be chosen."""
        return self.widest if self.n_components is None else self.n_components


@dataclass(frozen=True, slots=True)
class FitResult:
    """A model and how it came about."""

    model: RandomFeatureModel
    solution: RidgeSolution
    alpha: float
    bandwidth: float
    trace: Array
    stop_reason: StopReason
    column_importance: Array
    leverage: Leverage | None = None
    selection: Selection | None = None
    trials: tuple[Trial, ...] = ()
    outliers: Outliers | None = None


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows with standardised targets, what was measured of them, and the centre and scale of the targets."""

    source: BlockSource
    moments: TableMoments
    centre: Array
    scale: Array


def train(source: BlockSource, spec: FitSpec, rng: np.random.Generator, executor: Executor) -> FitResult:
    """A model of the rows: refined directions, or random ones by Algorithm 1."""
    source = _plan(source, spec)
    moments = _measure(source, executor)
    centre, scale = _target_scale(moments.y, spec.intercept)
    rows = _Rows(StandardisedTargets(source, centre, scale), moments, centre, scale)
    if not spec.refined:
        return _sample(rows, spec, rng, executor)
    if moments.n_used < LEAST_REFINED_ROWS:
        _log.info("too few rows to hold some out: random directions, chosen greedily")
        return _sample(rows, _for_few_rows(spec, moments.n_used), rng, executor)
    return _refine(rows, spec, rng, executor)


def _sample(rows: _Rows, spec: FitSpec, rng: np.random.Generator, executor: Executor) -> FitResult:
    """Algorithm 1, lines 1 to 6, for the squared loss; plain sampling is lines 1 and 6.

    Greedy selection takes the place of lines 3 to 5, and one activation a component that of the shared one in line 6.
    """
    source, moments = rows.source, rows.moments
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
    model = _unscale(directions, fitted, rows, spec.intercept)
    alpha = fitted.solution.ridge / directions.n_draws
    _log.info("line 6: %d components on %d rows, alpha %.3g", model.n_components, source.n_samples, alpha)
    learned = fitted.learned
    importance = _column_importance(model, source.sample(_BANDWIDTH_ROWS, rng))
    return FitResult(
        model, fitted.solution, alpha, bandwidth, learned.trace, learned.stop_reason, importance, leverage, selection
    )


def _refine(rows: _Rows, spec: FitSpec, rng: np.random.Generator, executor: Executor) -> FitResult:
    """Directions, curves and activations trained together, then the output weights as a ridge on all rows."""
    source, column, n_rows = rows.source, rows.moments.X, rows.moments.n_used
    mean_weight = column.weight / n_rows
    to_search = source.sample(_SEARCH_ROWS * source.n_samples // n_rows, rng)
    sample = read(to_search, range(len(to_search)), mean_weight)
    hunt = hold_out(sample, column.mean, column.scale, rng)
    width = _FIRST_WIDTH if spec.n_components is None else spec.n_components
    shape = Shape(width, spec.basis, not spec.per_component, spec.density, spec.bandwidth)
    tolerance = spec.tolerance if spec.n_components is None else None
    hunt, trials, shape, outliers = settle(hunt, shape, _recipes(spec), spec.keep_outliers, tolerance, executor)
    if n_rows <= _FEW_ROWS and outliers is None and spec.alpha is None and spec.per_component:
        convex = _for_few_rows(spec, n_rows)
        rivals = (convex, replace(convex, sampling="plain", per_component=False))
        errors = [_rival_error(hunt, rival, rng, executor) for rival in rivals]
        errors[1] *= 1 + _CLEARLY  # few rows judge badly: the convex model has the benefit of the doubt
        if min(errors) < trials[0].error:
            _log.info("refined: random directions do better on the rows held out")
            chosen = rivals[int(np.argmin(errors))]
            return replace(_sample(rows, chosen, rng, executor), trials=tuple(trials))
    best = trials[0]

    encoding, _ = hunt.encoded(best.recipe.nodes)
    chunks = Streamed(source, encoding, mean_weight, spec.memory or _ENCODED_MEMORY)
    trainer = begin(encoding, chunks[0][0], sample.X[:_BANDWIDTH_ROWS], shape, best.recipe, rng, n_rows)
    trace = train_refined(trainer, chunks, n_rows, rng)
    _log.info("refined: %d components on %d rows, %s", shape.n_components, n_rows, best.recipe)

    refined = fold(trainer)
    pieces = spec.basis.pieces(refined.a)
    features = compile_features(refined.directions, refined.curves, pieces, refined.a, source.dtype)
    equations = sum_robust_equations(source, features, refined.V, shape.delta, executor)
    system = equations.system(spec.intercept)
    ones = refined.directions.importance
    solution = system.solve(_ridge(source, features, ones, ones.size, system, replace(spec, alpha=None), rng, executor))
    squares = np.minimum(np.abs(best.residual.astype(np.float64)), shape.delta) ** 2
    noise = np.average(squares, axis=0, weights=sample.weight[hunt.held_out]) * rows.scale**2
    model = RandomFeatureModel(
        refined.directions,
        Activation(spec.basis, refined.a),
        solution.v * rows.scale,
        rows.centre + rows.scale * solution.intercept,
        refined.curves,
        LastLayer(unscale(equations, rows.centre, rows.scale), solution.ridge, noise, spec.intercept),
    )
    return FitResult(
        model,
        solution,
        best.recipe.alpha,
        1.0 if spec.bandwidth is None else spec.bandwidth,
        trace,
        StopReason.TRAINED if rows.scale.any() else StopReason.NOTHING_TO_LEARN,
        _column_importance(model, source.sample(_BANDWIDTH_ROWS, rng)),
        trials=tuple(trials),
        outliers=outliers,
    )


def _recipes(spec: FitSpec) -> Plan:
    """What to try: whether columns bend, or either, and the penalty if it is given."""
    plan = {None: EITHER, True: BENT, False: STRAIGHT}[spec.curves]
    return plan if spec.alpha is None else plan.with_alpha(spec.alpha)


def _for_few_rows(spec: FitSpec, n_rows: int) -> FitSpec:
    """Random directions chosen greedily, and no wider than few rows can tell apart."""
    most = min(_MOST_FOR_FEW_ROWS, max(_LEAST_FOR_FEW_ROWS, n_rows // 4))
    width = None if spec.n_components is None else min(spec.n_components, most)
    return replace(spec, refined=False, sampling="greedy", n_components=width, widest=most)


def _rival_error(hunt: Hunt, spec: FitSpec, rng: np.random.Generator, executor: Executor) -> float:
    """Error of a model of random directions on the rows a hunt holds out."""
    table, residuals = hunt.table, []
    for kept, held_out in hunt.splits:
        part = ArraySource(table.X[kept], table.y[kept], table.weight[kept].astype(table.X.dtype))
        rows = _Rows(part, _measure(part, executor), np.zeros(part.n_outputs), np.ones(part.n_outputs))
        model = _sample(rows, spec, rng, executor).model
        residuals.append(table.y[held_out] - model.decision(table.X[held_out]))
    error = hunt.loss(np.concatenate(residuals))
    _log.info("hold-out error %.5g: random directions, %s sampling", error, spec.sampling)
    return error


@dataclass(frozen=True, slots=True)
class _Fitted:
    """Line 6 on standardised targets: what was learned, and the sums and solution behind it."""

    activation: Activation
    v: Array
    intercept: Array
    learned: SharedActivation | ComponentActivations
    equations: NormalEquations
    solution: RidgeSolution
    noise: Array


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
    noise = _noise(system, solution, spec)
    return _Fitted(activation, solution.v, solution.intercept, learned, equations, solution, noise)


def _fit_per_component(
    source: BlockSource, directions: Directions, spec: FitSpec, rng: np.random.Generator, executor: Executor
) -> _Fitted:
    features = expand(directions, spec.basis, source.dtype)
    importance = np.repeat(directions.importance, spec.basis.n_basis)
    equations = sum_equations(source, features, executor).scale(importance)
    system = equations.system(spec.intercept)
    ridge = _ridge(source, features, importance, directions.n_draws, system, spec, rng, executor)
    solution = system.solve(ridge)
    if spec.n_shapes is None:
        learned = solve_per_component(equations, solution, features.T, spec.intercept)
    else:
        learned = solve_shapes(equations, solution, features.T, spec.intercept, spec.n_shapes)
    activation = Activation(spec.basis, learned.a)
    noise = _noise(system, solution, spec) + _lost(learned, solution, spec)
    return _Fitted(activation, learned.v, learned.intercept, learned, learned.equations, solution, noise)


def _plan(source: BlockSource, spec: FitSpec) -> BlockSource:
    """Cut the rows into blocks that fit the memory: the design of a block and its sums."""
    expanded = spec.per_component and not spec.refined
    width = spec.most_components * (spec.basis.n_basis if expanded else 1)
    n_columns = (width if spec.lazy else max(spec.n_pool, width)) + 1 + source.n_outputs
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
    features = _compile(pool, activation, spec, source)
    if not spec.lazy:
        equations = sum_equations(source.sample(_GREEDY_ROWS, rng), features, executor)
        ridge = _GREEDY_RIDGE * equations.mean_square
        selection = select_greedily(equations, spec.most_components, ridge, spec.intercept)
    else:
        row_bytes = features.dtype.itemsize * spec.n_pool
        n_rows = int(np.clip((spec.memory or _POOL_MEMORY) // row_bytes, _LEAST_GREEDY_ROWS, _GREEDY_ROWS))
        lazy = _feature_pool(source.sample(n_rows, rng), features, spec.intercept)
        ridge = _GREEDY_RIDGE * float(np.mean(lazy.length + lazy.z_mean**2))
        selection = select_from(lazy, spec.most_components, ridge, spec.intercept)
    return selection.at_least_one()


def _feature_pool(sample: BlockSource, features: FeatureMap, intercept: bool) -> FeaturePool:
    """The features of a sample of rows."""
    Z = np.empty((features.n_components, sample.n_samples), features.dtype)
    blocks = [sample[i] for i in range(len(sample))]
    first = 0
    for block in blocks:
        last = first + block.n_rows
        Z[:, first:last] = features.features(block.X, np.empty((features.n_components, block.n_rows), features.dtype))
        first = last
    weights = [block.weight for block in blocks if block.weight is not None]
    y = np.concatenate([block.y for block in blocks]).astype(np.float64)
    return feature_pool(Z, y, np.concatenate(weights) if weights else None, intercept)


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


def _noise(system: RidgeSystem, solution: RidgeSolution, spec: FitSpec) -> Array:
    """Variance of the noise by output: generalised cross-validation of the fit."""
    if spec.alpha is None:
        spent = float(system.spectrum.degrees_of_freedom(np.array([solution.ridge]))[0])
    else:
        spent = solution.factor.degrees_of_freedom
    left = max(1 - (spent + system.n_intercepts) / system.count, 1 / system.count)
    return solution.mean_residual / left**2


def _lost(learned: ComponentActivations, convex: RidgeSolution, spec: FitSpec) -> Array:
    """Mean squared residual by output that the activations kept have more than the convex solution."""
    kept = learned.equations.system(spec.intercept)
    fit = np.einsum("mo,mo->o", learned.v, 2 * kept.c - kept.G @ learned.v)
    return np.maximum(kept.y_square - fit - convex.mean_residual, 0)


def _unscale(directions: Directions, fitted: _Fitted, rows: _Rows, intercept: bool) -> RandomFeatureModel:
    """Undo the scaling of the targets: it is folded into the output weights and the intercept."""
    centre, scale = rows.centre, rows.scale
    equations = unscale(fitted.equations, centre, scale)
    last_layer = LastLayer(equations, fitted.solution.ridge, fitted.noise * scale**2, intercept)
    return RandomFeatureModel(
        directions, fitted.activation, fitted.v * scale, centre + scale * fitted.intercept, None, last_layer
    )


def _column_importance(model: RandomFeatureModel, sample: BlockSource) -> Array:
    """How much every column moves the model over the rows of a sample, as shares (n_features,) that sum to one."""
    return model.column_importance(read(sample, range(len(sample)), 1.0).X)
