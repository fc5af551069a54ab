"""Effects of columns and components of a fitted model, as numbers for plots and reports.

Everything is computed from a model, or any function of rows, and a sample of rows; nothing is fitted.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import is_classifier

from rflaf.errors import Array, InvalidParameterError
from rflaf.estimators.metrics import levels_of
from rflaf.model.random_feature_model import RandomFeatureModel
from rflaf.rows.inputs import is_frame
from rflaf.theory import spectrum_of_features

Response = Callable[[Array], Array]
_BINS = 48
_MANY = 200  # values from which outliers may be left out of a picture
_MIDDLE = (0.1, 0.9)  # share of the rows around a mean effect
_OUTER = (0.01, 0.99)  # quantiles of a column between which its effect is computed


def sample_rows(X: Any, n_rows: int = 2000) -> Array:
    """Return at most ``n_rows`` rows of ``X``, evenly spread over it, dense and in double precision."""
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    index = np.arange(n) if n <= n_rows else np.linspace(0, n - 1, n_rows).astype(np.intp)
    if sp.issparse(X):
        return np.asarray(X.tocsr()[index].toarray(), np.float64)
    return np.ascontiguousarray(np.asarray(X)[index], np.float64)


def model_rows(estimator: Any, X: Any) -> Any:
    """Return rows as the model of an estimator takes them: a table is encoded, all else stays."""
    encoding = estimator.table_encoding_
    return X if encoding is None or not is_frame(X) else encoding.transform(X)


def model_columns(estimator: Any) -> Any:
    """Return the names of the columns that the model of an estimator takes, None if they have none."""
    encoding = estimator.table_encoding_
    return getattr(estimator, "feature_names_in_", None) if encoding is None else np.array(encoding.feature_names)


def level_names(estimator: Any, column: int) -> tuple[str, ...]:
    """Return the names of the levels whose numbers a column of the model holds; none for a number."""
    encoding = estimator.table_encoding_
    return () if encoding is None else tuple(encoding.level_names[column])


def response(estimator: Any, output: int | None = None) -> Response:
    """Return a function from rows of numbers to one answer of an estimator per row.

    The answer is the prediction of a regressor, or the probability of a class, or its decision value if the loss has
    no probabilities. ``output`` is the index of the output or class: by default the first output or the quantile
    nearest to the median, the second of two classes and the first of more.
    """
    estimator = of_numbers(estimator)
    if not is_classifier(estimator):
        levels = levels_of(estimator.loss_)
        return _column_of(estimator.predict, (middle_of(levels) if levels else 0) if output is None else output)
    chosen = (1 if len(estimator.classes_) == 2 else 0) if output is None else output
    if hasattr(estimator, "predict_proba"):
        return _column_of(estimator.predict_proba, chosen)
    return _column_of(estimator.decision_function, chosen)


def of_numbers(estimator: Any) -> Any:
    """Return a copy of an estimator that takes encoded rows of numbers, without names."""
    estimator = copy.copy(estimator)
    vars(estimator).pop("feature_names_in_", None)
    if estimator.table_encoding_ is not None:
        estimator.table_encoding_, estimator.n_features_in_ = None, estimator.model_.n_features
    return estimator


def _column_of(function: Callable[[Array], Array], column: int) -> Response:
    def answer_rows(X: Array) -> Array:
        answer = np.asarray(function(X), np.float64)
        return answer if answer.ndim == 1 else answer[:, column]

    return answer_rows


@dataclass(frozen=True, slots=True)
class ComponentBank:
    """The most important components.

    Attributes
    ----------
    z : (n_points,) grid of projections
    value : (n_shown, n_points), centred contributions q_m v_m sigma_m(z) to one output
    component : (n_shown,) indices, the most important first
    share : (n_shown,) of the summed spreads of all contributions
    edges, density : (n_bins + 1,) and (n_shown, n_bins), histogram of every component's projections over the rows
    """

    z: Array
    value: Array
    component: Array
    share: Array
    edges: Array
    density: Array


def rank_components(
    model: RandomFeatureModel, X: Array, n_shown: int = 8, n_points: int = 200, output: int = 0
) -> ComponentBank:
    """Return the ``n_shown`` components whose contributions to an output vary most over rows ``X``."""
    spread = np.std(model.features(X) * model.v[:, output], axis=0)
    component = np.argsort(-spread, kind="stable")[:n_shown]
    low, high = model.activation.basis.interval
    z = np.linspace(low, high, n_points)
    a = np.broadcast_to(model.activation.coefficients, (model.n_components, model.activation.basis.n_basis))
    weight = (model.directions.importance * model.v[:, output])[component]
    value = (model.activation.basis.values(z) @ a[component].T * weight).T
    edges = np.linspace(low, high, _BINS + 1)
    u = np.clip(model.projections(X)[:, component], low, high)
    density = np.array([np.histogram(column, edges, density=True)[0] for column in u.T])
    total = spread.sum()
    share = spread[component] / total if total > 0 else spread[component]
    return ComponentBank(z, value - value.mean(axis=1, keepdims=True), component, share, edges, density)


@dataclass(frozen=True, slots=True)
class Effect:
    """Partial effect of one column.

    Attributes
    ----------
    grid, mean : (n_points,), values of the column, and the mean response with the column set to them
    low, high : (n_points,), range of the middle four fifths of the rows, each row about its own mean, clipped to the
        range of all responses
    """

    grid: Array
    mean: Array
    low: Array
    high: Array


@dataclass(frozen=True, slots=True)
class PairEffect:
    """Partial effect of two columns: values (n_first,), (n_second,) and mean response (n_first, n_second)."""

    first: Array
    second: Array
    mean: Array


def partial_effect(f: Response, X: Array, column: int, n_points: int = 40, categories: Collection[int] = ()) -> Effect:
    """Average ``f`` over rows ``X`` with one column set to each of its values, or to a grid if there are many.

    Of one of the ``categories`` with many levels these are the most frequent ones.

    >>> effect = partial_effect(lambda X: X[:, 0] + 2 * X[:, 1], np.array([[0.0, 1.0], [1.0, 3.0]]), 1)
    >>> effect.grid, effect.mean
    (array([1., 3.]), array([2.5, 6.5]))
    """
    grid = _grid(X, column, n_points, categories)
    answers = np.array([f(_with(X, {column: value})) for value in grid])
    mean = answers.mean(axis=1)
    about_own_mean = answers - answers.mean(axis=0) + mean.mean()
    low, high = np.clip(np.quantile(about_own_mean, _MIDDLE, axis=1), answers.min(), answers.max())
    return Effect(grid, mean, low, high)


def level_effects(f: Response, X: Array, column: int, codes: ArrayLike) -> Array:
    """Average ``f`` over rows ``X`` with a category set to each of some levels, (n_codes,).

    >>> level_effects(lambda X: X[:, 0] + X[:, 1] ** 2, np.array([[1.0, 0.0], [0.0, 2.0]]), 1, [0, 3])
    array([0.5, 9.5])
    """
    return np.array([float(np.mean(f(_with(X, {column: code})))) for code in np.asarray(codes, np.float64)])


def pair_effect(
    f: Response, X: Array, first: int, second: int, n_points: int = 20, categories: Collection[int] = ()
) -> PairEffect:
    """Average ``f`` over rows ``X`` with two columns set to a grid of values, as `partial_effect` places them."""
    grids = _grid(X, first, n_points, categories), _grid(X, second, n_points, categories)
    mean = [[float(np.mean(f(_with(X, {first: a, second: b})))) for b in grids[1]] for a in grids[0]]
    return PairEffect(*grids, np.array(mean))


def gradient_outer_product(
    model: RandomFeatureModel, X: Array, step: float = 0.5, categories: Collection[int] = ()
) -> Array:
    """Return M = mean over rows of sum_o (D g_o)(D g_o)', with gradients g_o of the outputs and column spreads D.

    (n_features, n_features). The root of M_cc is the change of f when column c changes by its spread; the leading
    eigenvectors are the directions in which f varies. The gradient is a difference quotient over ``step`` spreads to
    either side, within the range of the column: a column curve is steep between close nodes, where the slope at a point
    is not representative. The gradient in one of the ``categories`` is the change of f when the level of another row
    takes the place of a row's own, over the root of two.

    >>> from rflaf import RFLAFRegressor
    >>> X = np.random.default_rng(0).standard_normal((300, 2))
    >>> model = RFLAFRegressor(10, directions="random", random_state=0).fit(X, 3 * X[:, 0]).model_
    >>> np.round(np.sqrt(np.diag(gradient_outer_product(model, X)))).astype(int)
    array([3, 0])
    """
    gradient = np.zeros((X.shape[0], model.n_outputs, X.shape[1]))
    for column, spread in enumerate(np.std(X, axis=0)):
        x = X[:, column]
        if column in categories:
            other = np.roll(x, X.shape[0] // 2)
            gradient[:, :, column] = (model.decision(_with(X, {column: other})) - model.decision(X)) / np.sqrt(2)
            continue
        ahead, behind = np.minimum(x + step * spread, x.max()), np.maximum(x - step * spread, x.min())
        moved = ahead - behind
        if moved.any():
            rise = model.decision(_with(X, {column: ahead})) - model.decision(_with(X, {column: behind}))
            gradient[:, :, column] = rise * (spread / moved)[:, None]
    return np.einsum("roc,rod->cd", gradient, gradient, optimize=True) / X.shape[0]


def interactions(f: Response, X: Array, columns: ArrayLike) -> Array:
    """Return the strength of pairwise interactions, (n_columns, n_columns), symmetric, with diagonal 0.

    Entry i, j is the root mean square over rows of f(x) with both ``columns[i]`` and ``columns[j]`` taken from another
    row, minus f with either, plus f with neither: zero for a sum of functions of one column each.

    >>> X = np.random.default_rng(0).choice([-1.0, 1.0], (64, 3))
    >>> np.round(interactions(lambda X: X[:, 0] * X[:, 1] + X[:, 2], X, [0, 1, 2]) > 0).astype(int)
    array([[0, 1, 0],
           [1, 0, 0],
           [0, 0, 0]])
    """
    chosen = np.asarray(columns, np.intp)
    strength = np.zeros((chosen.size, chosen.size))
    other = np.roll(X, X.shape[0] // 2, axis=0)
    alone = {column: f(_with(X, {column: other[:, column]})) for column in chosen}
    none = f(X)
    floor = 1e-6 * float(np.abs(none).max(initial=0))  # rounding of f
    for i, j in combinations(range(chosen.size), 2):
        first, second = chosen[i], chosen[j]
        both = f(_with(X, {first: other[:, first], second: other[:, second]}))
        size = float(np.sqrt(np.mean((both - alone[first] - alone[second] + none) ** 2)))
        strength[i, j] = strength[j, i] = size if size > floor else 0.0
    return strength


def feature_eigenvalues(model: RandomFeatureModel, X: Array) -> Array:
    """Return eigenvalues mu of Z'Z / (n S) over rows ``X``, largest first, for features with mean square one.

    (n_components,). They sum to one; their `rflaf.theory.effective_dimension` belongs to the kernel of the model.
    """
    Z = model.features(X)
    size = float(np.sqrt(np.mean(Z**2)))
    return spectrum_of_features([Z / size if size > 0 else Z])


def inner_range(values: Array) -> tuple[float, float]:
    """Return the range of values, without the outer half per cent of many; never of zero width.

    >>> inner_range(np.array([1.0, 1.0]))
    (0.5, 1.5)
    """
    outer = 0.005 if values.size >= _MANY else 0.0
    low, high = (float(edge) for edge in np.quantile(values, (outer, 1 - outer)))
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def column_index(column: int | str, names: ArrayLike | None, n_features: int) -> int:
    """Return the index of a column given by index or name."""
    known = [] if names is None else [str(name) for name in np.asarray(names)]
    if isinstance(column, str):
        if column in known:
            return known.index(column)
        remedy = f"Known: {known or 'by number only'}."
        raise InvalidParameterError("a column must be one of those fitted", column, remedy)
    if not 0 <= column < n_features:
        raise InvalidParameterError(f"a column must be between 0 and {n_features - 1}", column, "Count from zero.")
    return int(column)


@dataclass(frozen=True, slots=True)
class Fan:
    """Quantiles along an axis: places ``x`` (n_points,), rising, and ``quantiles`` (n_points, n_levels)."""

    x: Array
    quantiles: Array


def fan_along_answers(quantiles: Array, middle: int, n_groups: int = 30) -> Fan:
    """Return the mean quantiles of groups of equally many rows, in order of the quantile numbered ``middle``.

    >>> fan_along_answers(np.array([[0.0, 4.0], [1.0, 2.0], [3.0, 5.0], [2.0, 7.0]]), 0, 2).quantiles.tolist()
    [[0.5, 3.0], [2.5, 6.0]]
    """
    order = np.argsort(quantiles[:, middle], kind="stable")
    groups = [quantiles[rows].mean(axis=0) for rows in np.array_split(order, n_groups) if rows.size]
    means = np.array(groups, np.float64)
    return Fan(means[:, middle], means)


def fan_along_column(f: Response, X: Array, column: int, n_points: int = 30) -> Fan:
    """Average quantiles ``f`` (n_rows, n_levels) over rows ``X`` with a column set to each of its values, or a grid.

    >>> fan = fan_along_column(lambda X: X[:, [1]] + [[-1.0, 1.0]], np.array([[0.0, 1.0], [1.0, 3.0]]), 1)
    >>> fan.x.tolist(), fan.quantiles.tolist()
    ([1.0, 3.0], [[0.0, 2.0], [2.0, 4.0]])
    """
    grid = _grid(X, column, n_points)
    return Fan(grid, np.array([np.mean(f(_with(X, {column: value})), axis=0) for value in grid], np.float64))


def bands_of(levels: Sequence[float]) -> list[tuple[int, int]]:
    """Return the pairs of quantiles that bound a band, by their numbers, the outermost first.

    >>> bands_of([0.05, 0.25, 0.5, 0.75, 0.95])
    [(0, 4), (1, 3)]
    """
    return [(low, len(levels) - 1 - low) for low in range(len(levels) // 2)]


def middle_of(levels: Sequence[float]) -> int:
    """Return the number of the quantile nearest to the median.

    >>> middle_of([0.1, 0.4, 0.9])
    1
    """
    return int(np.argmin(np.abs(np.array(levels) - 0.5)))


def most_frequent(counts: Array, most: int) -> Array:
    """Return where the largest ``counts`` are, at most ``most`` of them, in their order.

    >>> most_frequent(np.array([2, 9, 1, 4]), 2)
    array([1, 3])
    """
    return np.sort(np.argsort(-counts, kind="stable")[:most])


def _grid(X: Array, column: int, n_points: int, categories: Collection[int] = ()) -> Array:
    values, counts = np.unique(X[:, column], return_counts=True)
    if values.size <= n_points:
        return values
    if column in categories:
        return np.asarray(values[most_frequent(counts, n_points)])
    low, high = np.quantile(X[:, column], _OUTER)
    grid = np.linspace(low, high, n_points) if low < high else np.linspace(values[0], values[-1], n_points)
    whole = bool(np.all(values == np.floor(values)))  # between which there is nothing
    return np.unique(np.round(grid)) if whole else grid


def _with(X: Array, values: dict[Any, Any]) -> Array:
    """Return rows ``X`` with some columns set to one value, or to one value per row."""
    rows = X.copy()
    for column, value in values.items():
        rows[:, column] = value
    return rows
