"""A prediction shared out among columns: what each adds to f(x) - f(base), as Shapley values of groups of columns.

With x_T, the row that takes the columns of the groups T from x and all others from a base row, the value of group g is

    phi_g(x) = mean over orders of the groups of  f(x_(before g, and g)) - f(x_(before g)),

averaged over the base rows. Values of all groups sum to f(x) minus the mean of f over the base rows, whatever orders
are used. With few groups that differ from the base all coalitions are computed and the values are exact, as they are
for a sum of functions of single groups; otherwise they are means over pairs of opposite orders, with a standard error.
A pair is exact for a sum of functions of two groups each.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from rflaf.errors import Array
from rflaf.functions import _kernels

from .curved_features import CurvedMap
from .random_feature_model import RandomFeatureModel

N_EXACT = 8  # groups, up to which all coalitions are computed
_SEED = 20  # of the orders: the same for every call
_PAIR_ROWS = 1024  # at a time
_ROUNDING = 1e-9  # of f
_N_DESIGNS = 32  # sets of orders: rows with other values walk through others, so that their errors do not add up


@dataclass(frozen=True, slots=True)
class ColumnGroups:
    """Groups of columns that count as one: ``of_column`` (n_features,), the number of each column's group."""

    of_column: Array
    count: int

    def members(self, group: int) -> Array:
        """Return the columns of a group."""
        return np.flatnonzero(self.of_column == group)


@dataclass(frozen=True, slots=True)
class Contributions:
    """Values (n_rows, n_groups, n_outputs), their standard errors, and the mean f of the base rows (n_outputs,)."""

    values: Array
    errors: Array
    base: Array


def contributions(
    model: RandomFeatureModel, X: Array, bases: Array, groups: ColumnGroups, n_orders: int, n_threads: int = 1
) -> Contributions:
    """Share f at rows ``X`` (n_rows, n_features) out among groups of columns; ``bases`` (n_bases, n_features)."""
    (parts, units), n_groups = _near_one(additive_arrays(model, groups.of_column)), groups.count
    n_outputs, width = model.n_outputs, parts.bias.size
    orders = balanced_orders(n_groups, len(bases), max(1, n_orders // 2))
    shape = (X.shape[0], n_groups, n_outputs)
    values, errors = np.empty(shape), np.empty(shape)
    rows, bases = (np.ascontiguousarray(part, np.float64) for part in (X, bases))
    designs = _numbers_of_rows(rows) % len(orders)

    def explain(start: int, stop: int) -> None:
        kernel = _kernels.contributions
        worth = (2 ** min(N_EXACT, n_groups), n_outputs)
        of_width, of_outputs = (width, width, (2, width), (n_groups, width)), ((4, n_outputs), worth, shape[1:])
        work, short = (
            kernel.Scratch(*(np.zeros(size, kind) for size in of_width), *(np.zeros(size) for size in of_outputs))
            for kind in (np.float64, np.float32)
        )
        model_pair = parts, parts._replace(table=parts.table.astype(np.float32), v=parts.v.astype(np.float32))
        kernel.explain(
            rows, bases, *model_pair, orders, designs, N_EXACT, work, short, values, errors, start, stop
        )  # fmt: skip

    _in_threads(explain, X.shape[0], n_threads)
    for unit in units:
        values *= unit
        errors *= unit
    return Contributions(values, errors, model.decision(bases).mean(axis=0))


def _near_one(parts: _kernels.contributions.Additive) -> tuple[_kernels.contributions.Additive, tuple[Array, Array]]:
    """Return the arrays with activations and output weights near one, for single precision, and the units of both.

    Units are powers of two, so that nothing is rounded.
    """
    height = _unit_of(np.abs(parts.table).max(initial=0.0))
    slopes = _unit_of(np.abs(parts.v).max(axis=1, initial=0.0))
    return parts._replace(table=parts.table / height, v=parts.v / slopes[:, None]), (height, slopes)


def _unit_of(size: Array) -> Array:
    """Return the largest powers of two up to positive sizes."""
    return np.exp2(np.frexp(size)[1] - 1.0)


def _in_threads(explain: Callable[[int, int], None], n_rows: int, n_threads: int) -> None:
    edges = np.linspace(0, n_rows, max(1, min(n_threads, n_rows)) + 1).astype(int)
    if edges.size == 2:
        explain(0, n_rows)
        return
    with ThreadPoolExecutor(edges.size - 1) as pool:
        list(pool.map(explain, edges[:-1].tolist(), edges[1:].tolist()))


def balanced_orders(n_groups: int, n_bases: int, n_pairs: int) -> Array:
    """Return orders of the groups, (n_designs, n_bases, at least two, n_groups); every base row has orders of its own.

    Over the orders of a design each group stands early as often as late: a Latin hypercube of positions.
    """
    n_designs, n_own = max(1, _N_DESIGNS // n_bases), max(2, -(-n_pairs // n_bases))
    rng, n_orders = np.random.default_rng(_SEED), n_bases * n_own
    orders = np.empty((n_designs, n_orders, n_groups), np.int64)
    for design in orders:
        strata = rng.permuted(np.tile(np.arange(n_orders)[:, None], n_groups), axis=0)
        design[...] = np.argsort(strata + rng.random(strata.shape), axis=1)
    return orders.reshape(n_designs, n_bases, n_own, n_groups)


def _numbers_of_rows(rows: Array) -> Array:
    """Return a whole number per row, (n_rows,), that depends on its values alone."""
    odd = 2 * np.random.default_rng(_SEED).integers(2**62, size=rows.shape[1], dtype=np.uint64) + np.uint64(1)
    return ((rows.view(np.uint64) * odd).sum(axis=1) >> np.uint64(40)).astype(np.int64)


def additive_arrays(model: RandomFeatureModel, groups: Array) -> _kernels.contributions.Additive:
    """Return the arrays of a model as the compiled loop takes them."""
    feature_map = model.feature_map(np.float64)
    if isinstance(feature_map, CurvedMap):
        n_nodes = feature_map.H.shape[1]
        H = np.ascontiguousarray(feature_map.H.transpose(1, 0, 2).reshape(n_nodes, feature_map.bias.size))
        linear, columns = feature_map.linear, feature_map.columns
        W, bias, table = feature_map.W, feature_map.bias, feature_map.table
        curves = feature_map.nodes, feature_map.gaps, feature_map.first
    else:
        kernel_lane, width = _kernels.contributions.LANE, feature_map.n_components
        padding = -width % kernel_lane
        linear, columns = np.flatnonzero(feature_map.W.any(axis=1)), np.zeros(0, np.intp)
        W, bias = np.pad(feature_map.W[linear], ((0, 0), (0, padding))), np.pad(feature_map.offset, (0, padding))
        table = feature_map.table
        table = np.pad(table, ((0, padding), (0, 0), (0, 0))) if len(table) > 1 else table
        curves, H = (np.zeros(0), np.zeros(0), np.zeros(1, np.intp)), np.zeros((0, bias.size))
    v = (model.directions.importance[:, None] * model.v).T
    v = np.pad(v, ((0, 0), (0, bias.size - v.shape[1])))
    of_groups = groups[linear].astype(np.int64), groups[columns].astype(np.int64)
    contiguous = (np.ascontiguousarray(part) for part in (W, *curves, H, bias, table, v))
    return _kernels.contributions.Additive(linear, of_groups[0], columns, of_groups[1], *contiguous)


def pair_strengths(model: RandomFeatureModel, X: Array, bases: Array, groups: ColumnGroups) -> Array:
    """Return the strength of the interaction of every pair of groups, (n_groups, n_groups), symmetric, diagonal zero.

    Entry i, j is the root mean square, over rows, base rows and outputs, of f(x_ij) - f(x_i) - f(x_j) + f(base).
    """
    squares = np.zeros((groups.count, groups.count))
    size = np.abs(model.decision(bases)).max(initial=0.0)
    unit = float(_unit_of(size))  # in which squares do not overflow
    for base in bases:
        for start in range(0, X.shape[0], _PAIR_ROWS):
            _add_pairs(model, X[start : start + _PAIR_ROWS], base, groups, unit, squares)
    squares /= max(X.shape[0], 1) * len(bases) * model.n_outputs
    rounding = (_ROUNDING * float(size) / unit) ** 2
    squares[squares <= max(rounding, _ROUNDING**2 * float(squares.max(initial=0.0)))] = 0.0
    return unit * np.sqrt(squares + squares.T)


def _add_pairs(
    model: RandomFeatureModel, rows: Array, base: Array, groups: ColumnGroups, unit: float, squares: Array
) -> None:
    """Add to ``squares[i, j]``, i < j, the squared interactions of groups i and j at rows against one base row."""
    none = model.decision(base[None])

    def gain(columns: Array) -> Array:
        moved = np.tile(base, (rows.shape[0], 1))
        moved[:, columns] = rows[:, columns]
        return (model.decision(moved) - none) / unit

    members = [groups.members(group) for group in range(groups.count)]
    alone = [gain(columns) for columns in members]
    used = [group for group, own in enumerate(members) if (rows[:, own] != base[own]).any()]
    for i, j in combinations(used, 2):
        squares[i, j] += np.sum((gain(np.concatenate([members[i], members[j]])) - alone[i] - alone[j]) ** 2)
