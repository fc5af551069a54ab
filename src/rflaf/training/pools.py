"""The pool of random directions: lines 1 to 5 of Algorithm 1, each a function.

Draw directions at the length scale of the data, learn the activation of the pool, score its components or choose
among them. `rflaf.training.algorithm1` calls these lines in order; `rflaf.estimators.width_plan` calls some of them to
estimate a width beforehand.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import scipy.sparse as sp

from rflaf.errors import Array
from rflaf.functions.bases import Basis, random_shapes
from rflaf.functions.densities import Directions, draw
from rflaf.model.features import FeatureMap, compile_map
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
from rflaf.training.solvers.leverage import PoolSums, sum_pool
from rflaf.training.solvers.refined.encoded_rows import read
from rflaf.training.solvers.shared_activation import (
    ActivationTask,
    LearnedActivation,
    learn_shared_activation,
    polish_shared_activation,
    search_dtype,
)

from .problem import Fit
from .specification import FitSpec

_BANDWIDTH_ROWS = 2000
_GREEDY_ROWS_PER_COMPONENT, GREEDY_ROWS = 40, (4000, 12_000)  # to choose by, between these
LEAST_GREEDY_ROWS = 1000  # where memory is short
_WIDTH_ROWS = 12_000
_POOL_MEMORY = 2**30
_EXACT_PIECES = 1e-12  # error of compiled basis functions, so that scores are those of the functions themselves
_LEAST_SPREAD = 1e-300  # of a projection: columns that vary have 1e-150, constant ones anything
_GREEDY_RIDGE = 1e-4  # of the mean square of a feature


def draw_pool(fit: Fit) -> tuple[float, Directions]:
    """Line 1: draw directions w ~ p(w); return their length scale and the directions, for inputs as they are.

    They are drawn for standardised inputs, or for inputs as they are if ``scale`` of the specification is False.
    """
    moments = fit.problem.moments
    pool = draw(fit.spec.density, fit.source.n_features, fit.spec.n_pool, fit.rng)
    return _scale(fit, pool.fold(moments.X.mean, moments.scale) if fit.spec.scale else pool)


def learn_activation(fit: Fit, directions: Directions, start: LearnedActivation | None = None) -> LearnedActivation:
    """Learn one shared activation; under another loss the squared loss of a first step starts the search."""
    problem, spec = fit.problem, fit.spec
    task = ActivationTask(problem.proxy, directions, spec.basis, spec.intercept, spec.search, fit.rng, fit.executor)
    task = replace(task, radius=spec.radius, l1=spec.l1)
    if fit.closed_form:
        return learn_shared_activation(task, spec.alpha, None if start is None else start.a)
    if start is None:
        start = learn_shared_activation(replace(task, dtype=search_dtype(problem.source, problem.loss)), None)
    alpha = start.alpha * problem.curvature / 2 if spec.alpha is None else spec.alpha
    return polish_shared_activation(replace(task, source=problem.source), start, problem.loss, problem.base, alpha)


def draw_activations(pool: Directions, basis: Basis, rng: np.random.Generator) -> Array:
    """Draw an activation per component to judge it by, (n_components, n_basis): a random walk along the grid.

    In experiments, components chosen by these do as well as those chosen by one activation learned for all.
    """
    return random_shapes(basis, rng.standard_normal((pool.n_components, basis.n_basis)))


def compile_pool(pool: Directions, a: Array, spec: FitSpec, source: BlockSource) -> FeatureMap:
    """Compile the features of directions under the activations ``a`` (1 or n_components, n_basis)."""
    return compile_map(pool, spec.basis.pieces(a), a, source.dtype)


def sum_products(fit: Fit, pool: Directions, a: Array) -> PoolSums:
    """Sum what line 3 needs of the pool under its activation ``a`` (n_basis,), over all rows or a sample."""
    source, spec = fit.source, fit.spec
    features = compile_map(pool, spec.basis.pieces(a[None], _EXACT_PIECES), a[None], source.dtype)
    n_rows = source.n_samples if spec.leverage_rows is None else spec.leverage_rows
    return sum_pool(source, features, n_rows, fit.rng, fit.executor)


def select_pool(fit: Fit, pool: Directions, a: Array) -> Selection:
    """Instead of lines 3 to 5: select greedily by features under activations ``a`` (1 or n_components, n_basis)."""
    source, spec = fit.problem.proxy, fit.spec
    features = compile_pool(pool, a, spec, source)
    n_rows = int(np.clip(_GREEDY_ROWS_PER_COMPONENT * spec.most_components, *GREEDY_ROWS))
    row_bytes = features.dtype.itemsize * spec.n_pool
    most = _POOL_MEMORY // row_bytes
    if spec.memory is not None:  # the least are planned for
        most = LEAST_GREEDY_ROWS + spec.memory // row_bytes
    n_rows = max(LEAST_GREEDY_ROWS, min(n_rows, most))
    kept = _feature_pool(source.sample(n_rows, fit.rng), features, spec.intercept, fit.executor)
    ridge = _GREEDY_RIDGE * float(np.mean(kept.length + kept.z_mean**2))
    return select_from(kept, spec.most_components, ridge, spec.intercept).at_least_one()


def _feature_pool(sample: BlockSource, features: FeatureMap, intercept: bool, executor: Executor) -> FeaturePool:
    """Return the features of a sample of rows."""
    rows = stack(sample[i] for i in range(len(sample)))

    def of_part(components: slice) -> Array:
        part = features.part(components)
        return part.features(rows.X, np.empty((part.n_components, rows.n_rows), part.dtype))

    return feature_pool(of_part, features.n_components, rows.y.astype(np.float64), rows.weight, intercept, executor)


def enough_components(fit: Fit, pool: Directions, activation: LearnedActivation) -> WidthPath:
    """Return the held-out error of the first k components of a pool, the nested draw of width k, for k on a grid."""
    sample = fit.problem.proxy.sample(_WIDTH_ROWS, fit.rng)
    table = read(sample, range(len(sample)), 1.0)
    kept, held_out = _split(table.X, fit.problem.moments.X.scale)
    features = compile_pool(pool, activation.a[None], fit.spec, sample)

    def sums(rows: Array) -> NormalEquations:
        part = ArraySource(table.X[rows], table.y[rows], table.weight[rows].astype(sample.dtype))
        return features.sum_equations(part, fit.executor)

    return nested_errors(sums(kept), sums(held_out), width_grid(pool.n_components), fit.spec.intercept)


def _split(X: Array, scale: Array) -> tuple[Array, Array]:
    """Return the rows to fit and the rows to hold out, by content; all rows are both if all are in one fold."""
    folds = folds_of(X, N_FOLDS, scale)
    held_out = folds == folds.min()
    return (held_out if held_out.all() else ~held_out), held_out


def _scale(fit: Fit, pool: Directions) -> tuple[float, Directions]:
    """Return the bandwidth and the directions divided by it, for projections of unit spread on the activation's grid.

    Unless given, the bandwidth is the median spread of a projection: its standard deviation, or its root mean square
    if inputs are not centred. Where every component has an activation of its own, every component is divided by its
    own spread.
    """
    spec = fit.spec
    if spec.bandwidth is not None:
        return spec.bandwidth, pool.scaled(1 / spec.bandwidth)
    sample = fit.source.sample(_BANDWIDTH_ROWS, fit.rng)
    spreads = _spreads(sample, pool, fit.executor)
    if not spec.scale:
        spreads = np.hypot(spreads, _means(sample, pool))
    spreads = np.where(spreads > _LEAST_SPREAD, spreads, 0.0)
    bandwidth = float(np.median(spreads)) or 1.0
    if spec.per_component:
        return bandwidth, pool.scaled(1 / np.where(spreads > 0, spreads, 1.0))
    return bandwidth, pool.scaled(1 / bandwidth)


def _spreads(sample: BlockSource, directions: Directions, executor: Executor) -> Array:
    """Return the standard deviation of every projection w . x over the rows of a sample."""
    rows = stack(sample[i] for i in range(len(sample)))
    root = None if sp.issparse(rows.X) else _root_of_covariance(rows)

    def of_part(first: int) -> Array:
        W = directions.W[:, first : first + PART]
        if root is not None:
            return _norms(root @ W)
        moments = ColumnMoments.from_rows(rows.X @ W + directions.offset[first : first + PART], rows.weight)
        return np.sqrt(moments.deviation / (moments.weight or 1.0))

    starts = range(0, directions.n_components, PART)
    return np.concatenate(executor.side_by_side([partial(of_part, first) for first in starts]))


def _norms(columns: Array) -> Array:
    """Return the Euclidean norm of every column, also of those whose squares are no numbers."""
    unit = math.ldexp(0.5, math.frexp(float(np.abs(columns).max(initial=0.0)))[1])  # a power of two divides exactly
    return np.linalg.norm(columns / unit, axis=0) * unit


def _means(sample: BlockSource, directions: Directions) -> Array:
    """Return the mean of every projection w . x over the rows of a sample."""
    rows = stack(sample[i] for i in range(len(sample)))
    return ColumnMoments.from_rows(rows.X, rows.weight).mean @ directions.W + directions.offset


def _root_of_covariance(rows: Block) -> Array:
    """Return R with R'R the covariance of dense rows, at most square: w . x has the standard deviation |R w|."""
    w = np.ones(rows.n_rows) if rows.weight is None else rows.weight.astype(np.float64)
    share = w / (w.sum() or 1.0)
    centred = rows.X - share @ rows.X
    centred -= share @ centred
    centred *= np.sqrt(share)[:, None]
    return centred if rows.n_rows <= rows.X.shape[1] else np.asarray(np.linalg.qr(centred, mode="r"))
