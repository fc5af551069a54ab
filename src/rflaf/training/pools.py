"""The pool of random directions: lines 1 to 5 of Algorithm 1, each a function.

Draw directions at the length scale of the data, learn the activation of the pool, score its components or choose
among them. `rflaf.training.algorithm1` reads these lines in order; `rflaf.estimators.width_plan` reads some of them to
tell a width beforehand.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.sparse as sp

from rflaf.errors import Array
from rflaf.functions.bases import Basis
from rflaf.functions.densities import Directions, draw
from rflaf.model.features import FeatureMap, compile_map, sum_equations
from rflaf.model.greedy import (
    PART,
    FeaturePool,
    Selection,
    WidthPath,
    feature_pool,
    nested_errors,
    select_from,
    width_grid,
)
from rflaf.model.normal_equations import NormalEquations
from rflaf.rows.blocks import ArraySource, Block, BlockSource, stack
from rflaf.rows.executors import Executor
from rflaf.rows.folds import N_FOLDS, folds_of
from rflaf.rows.moments import ColumnMoments
from rflaf.training.solvers.leverage import Leverage, leverage_scores, sampled_leverage_scores
from rflaf.training.solvers.refined.encoded_rows import read
from rflaf.training.solvers.shared_activation import (
    SharedActivation,
    learn_shared_activation,
    polish_shared_activation,
    search_dtype,
)

from .problem import Problem
from .specification import FitSpec

_BANDWIDTH_ROWS = 2000
_GREEDY_ROWS_A_COMPONENT, _GREEDY_ROWS = 40, (4000, 12_000)  # to choose by, between these
_LEAST_GREEDY_ROWS = 1000  # where memory is short
_WIDTH_ROWS = 12_000
_POOL_MEMORY = 2**30
_GREEDY_RIDGE = 1e-4  # of the mean square of a feature


def draw_pool(
    problem: Problem, spec: FitSpec, rng: np.random.Generator, executor: Executor
) -> tuple[float, Directions]:
    """Line 1: directions w ~ p(w) for standardised inputs at a length scale of the data, and that length scale."""
    source, moments = problem.source, problem.moments
    pool = draw(spec.density, source.n_features, spec.n_pool, rng).fold(moments.X.mean, moments.scale)
    return _scale(source, pool, spec, rng, executor)


def learn_activation(
    problem: Problem,
    directions: Directions,
    spec: FitSpec,
    rng: np.random.Generator,
    executor: Executor,
    start: SharedActivation | None = None,
) -> SharedActivation:
    """One activation for all components; under another loss the squared one of a first step only starts the search."""
    basis, intercept, search = spec.basis, spec.intercept, spec.search
    if problem.squared or start is None:
        alpha, dtype = (spec.alpha, None) if problem.squared else (None, search_dtype(problem.source, problem.loss))
        a = None if start is None else start.a
        start = learn_shared_activation(
            problem.proxy, directions, basis, alpha, intercept, search, rng, executor, a, dtype
        )
    if problem.squared:
        return start
    alpha = start.alpha * problem.curvature / 2 if spec.alpha is None else spec.alpha
    return polish_shared_activation(
        problem.source, directions, basis, start, problem.loss, problem.base, alpha, intercept, search, rng, executor
    )


def draw_activations(pool: Directions, basis: Basis, rng: np.random.Generator) -> Array:
    """An activation for every component to be judged by, (n_components, n_basis): a random walk along the grid.

    Components chosen by these were seen to do as well as those chosen by one activation learned for all.
    """
    return np.cumsum(rng.standard_normal((pool.n_components, basis.n_basis)), axis=1)


def compile_pool(pool: Directions, a: Array, spec: FitSpec, source: BlockSource) -> FeatureMap:
    """The features of directions under the activations ``a`` (1 or n_components, n_basis)."""
    return compile_map(pool, spec.basis.pieces(a), a, source.dtype)


def score_pool(
    source: BlockSource,
    pool: Directions,
    activation: SharedActivation,
    spec: FitSpec,
    rng: np.random.Generator,
    executor: Executor,
) -> Leverage:
    """Line 3: ridge leverage scores of the pool under its activation."""
    feature_map = compile_pool(pool, activation.a[None], spec, source)
    if spec.leverage_rows is None:
        return leverage_scores(source, feature_map, spec.leverage_alpha, executor)
    return sampled_leverage_scores(source, feature_map, spec.leverage_alpha, spec.leverage_rows, rng, executor)


def select_pool(
    source: BlockSource,
    pool: Directions,
    a: Array,
    spec: FitSpec,
    rng: np.random.Generator,
    executor: Executor,
) -> Selection:
    """Instead of lines 3 to 5: greedy selection by the features of a sample of rows, at least one component.

    They are features under the activations ``a`` (1 or n_components, n_basis).
    """
    features = compile_pool(pool, a, spec, source)
    n_rows = int(np.clip(_GREEDY_ROWS_A_COMPONENT * spec.most_components, *_GREEDY_ROWS))
    row_bytes = features.dtype.itemsize * spec.n_pool
    most = _POOL_MEMORY // row_bytes
    if spec.memory is not None:  # the least are planned for
        most = _LEAST_GREEDY_ROWS + spec.memory // row_bytes
    n_rows = max(_LEAST_GREEDY_ROWS, min(n_rows, most))
    kept = _feature_pool(source.sample(n_rows, rng), features, spec.intercept, executor)
    ridge = _GREEDY_RIDGE * float(np.mean(kept.length + kept.z_mean**2))
    return select_from(kept, spec.most_components, ridge, spec.intercept).at_least_one()


def enough_components(
    problem: Problem,
    pool: Directions,
    activation: SharedActivation,
    spec: FitSpec,
    rng: np.random.Generator,
    executor: Executor,
) -> WidthPath:
    """The error of the first components of a pool at every width of a grid, on rows held out of a sample.

    A plain draw is nested, so its first k directions are the draw of width k.
    """
    sample = problem.proxy.sample(_WIDTH_ROWS, rng)
    table = read(sample, range(len(sample)), 1.0)
    kept, held_out = _split(table.X)
    features = compile_pool(pool, activation.a[None], spec, sample)

    def sums(rows: Array) -> NormalEquations:
        part = ArraySource(table.X[rows], table.y[rows], table.weight[rows].astype(sample.dtype))
        return sum_equations(part, features, executor)

    return nested_errors(sums(kept), sums(held_out), width_grid(pool.n_components), spec.intercept)


def _split(X: Array) -> tuple[Array, Array]:
    """Which rows to fit and which to hold out, by content; all are both where all are in one fold."""
    folds = folds_of(X, N_FOLDS)
    held_out = folds == folds.min()
    return (held_out if held_out.all() else ~held_out), held_out


def _scale(
    source: BlockSource, pool: Directions, spec: FitSpec, rng: np.random.Generator, executor: Executor
) -> tuple[float, Directions]:
    """The bandwidth, and the directions divided by it, so that projections have unit spread on the activation's grid.

    Unless given, the bandwidth is the median spread of a projection. Where every component has an activation of its
    own, every component is divided by its own spread.
    """
    if spec.bandwidth is not None:
        return spec.bandwidth, pool.scaled(1 / spec.bandwidth)
    spreads = _spreads(source.sample(_BANDWIDTH_ROWS, rng), pool, executor)
    bandwidth = float(np.median(spreads)) or 1.0
    if spec.per_component:
        return bandwidth, pool.scaled(1 / np.where(spreads > 0, spreads, 1.0))
    return bandwidth, pool.scaled(1 / bandwidth)


def _spreads(sample: BlockSource, directions: Directions, executor: Executor) -> Array:
    """Standard deviation of every projection w . x over the rows of a sample."""
    rows = stack(sample[i] for i in range(len(sample)))
    root = None if sp.issparse(rows.X) else _root_of_covariance(rows)

    def of_part(first: int) -> Array:
        W = directions.W[:, first : first + PART]
        if root is not None:
            return np.linalg.norm(root @ W, axis=0)
        moments = ColumnMoments.from_rows(rows.X @ W + directions.offset[first : first + PART], rows.weight)
        return np.sqrt(moments.deviation / (moments.weight or 1.0))

    starts = range(0, directions.n_components, PART)
    return np.concatenate(executor.side_by_side([partial(of_part, first) for first in starts]))


def _root_of_covariance(rows: Block) -> Array:
    """R with R'R the covariance of the columns of dense rows: so w . x has the standard deviation |R w|.

    It has no more rows than columns, so that many w cost little.
    """
    w = np.ones(rows.n_rows) if rows.weight is None else rows.weight.astype(np.float64)
    share = w / (w.sum() or 1.0)
    centred = rows.X - share @ rows.X
    centred -= share @ centred
    centred *= np.sqrt(share)[:, None]
    return centred if rows.n_rows <= rows.X.shape[1] else np.asarray(np.linalg.qr(centred, mode="r"))


def _feature_pool(sample: BlockSource, features: FeatureMap, intercept: bool, executor: Executor) -> FeaturePool:
    """The features of a sample of rows."""
    rows = stack(sample[i] for i in range(len(sample)))

    def of_part(components: slice) -> Array:
        part = features.part(components)
        return part.features(rows.X, np.empty((part.n_components, rows.n_rows), part.dtype))

    y = rows.y.astype(np.float64)
    return feature_pool(of_part, features.n_components, y, rows.weight, intercept, executor)
