"""The fitted model, as data: f(x) = b + sum_m q_m v_m sigma_m(w_m . x + b_m), with optional column curves.

Frozen and free of any estimator: directions for raw inputs, an activation, output weights and an intercept.
Prediction runs through one fused kernel in the dtype of the rows given, dense or sparse; no (n_rows, n_components)
array is formed.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy  # its parts are imported on first use
from numpy.typing import ArrayLike

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.bases import Basis, Pieces
from rflaf.functions.curves import ColumnCurves
from rflaf.functions.densities import Directions

from . import in_numpy
from .curved_features import CurvedMap, CurvedPredictor, compile_features, pack_curved
from .features import FeatureMap, Predictor, pack
from .last_layer import LastLayer

_BLOCK_ROWS = 1024
_LARGEST_SINGLE = 1e30  # of a weight, with room for sums in single precision
_BLOCK_ENTRIES = 2**22  # of sparse rows that are made dense at a time
_THREAD_WORK = 750_000  # features a thread must have to be worth starting


@dataclass(frozen=True, slots=True, eq=False)
class Activation:
    """A learned activation sigma(z) = sum_i a_i B_i(z), callable.

    Parameters
    ----------
    basis : Basis
        The functions B_i.
    coefficients : array of shape (1, n_basis) or (n_components, n_basis)
        Coefficients a_i of one activation for all components, or of one activation per component.
    covariance : array of shape (n_basis, n_basis) or None, default=None
        Covariance of the coefficients of a shared activation.

    >>> from rflaf.functions.bases import BSplineBasis
    >>> flat = Activation(BSplineBasis(6), np.full((1, 6), 2.0))
    >>> flat([-1.0, 0.0, 9.0])
    array([2., 2., 2.])
    """

    basis: Basis
    coefficients: Array
    covariance: Array | None = None

    def __call__(self, z: ArrayLike) -> Array:
        """Values, with the shape of ``z``; one more leading axis with one activation per component."""
        return self._contract(self.basis.values(z))

    def slope(self, z: ArrayLike) -> Array:
        """Derivatives, shaped as the values."""
        return self._contract(self.basis.slopes(z))

    def standard_error(self, z: ArrayLike) -> Array:
        """Pointwise standard error of a shared activation, its scale fixed and the directions given."""
        if self.covariance is None:
            raise ValueError("only a learned shared activation has a standard error")
        values = self.basis.values(z)
        return np.sqrt(np.maximum(np.einsum("...i,ij,...j->...", values, self.covariance, values), 0))

    def _contract(self, values: Array) -> Array:
        answer = np.moveaxis(values @ self.coefficients.T, -1, 0)
        return answer[0] if self.coefficients.shape[0] == 1 else answer

    def compile(self, tolerance: float = 1e-6) -> tuple[Pieces, Array]:
        """Cubic pieces and coefficients for the kernels; the error is below ``tolerance`` of the sup norm."""
        return self.basis.pieces(self.coefficients, tolerance), self.coefficients

    def take(self, components: Array) -> Activation:
        """The activations of some of the components; itself where it is shared."""
        return self if self.coefficients.shape[0] == 1 else replace(self, coefficients=self.coefficients[components])


_Map = FeatureMap | CurvedMap
_Predictor = Predictor | CurvedPredictor
_Ready = tuple[Callable[..., None], int, float]


@dataclass(frozen=True, eq=False)
class RandomFeatureModel:
    """A fitted model, free of scikit-learn.

    Parameters
    ----------
    directions : Directions
        Directions w_m, offsets b_m and importance weights q_m, for raw inputs.
    activation : Activation
        Activations sigma_m.
    v : array of shape (n_components, n_outputs)
        Output weights.
    intercept : array of shape (n_outputs,)
        Intercept b.
    curves : ColumnCurves or None, default=None
        Column curves of a refined model.
    last_layer : LastLayer or None, default=None
        The sums behind ``v``, under the squared loss.
    """

    directions: Directions
    activation: Activation
    v: Array
    intercept: Array
    curves: ColumnCurves | None = None
    last_layer: LastLayer | None = None
    _compiled: dict[np.dtype[Any], tuple[_Map, _Predictor]] = field(default_factory=dict, init=False, repr=False)
    # Of maps without a centre: what predicts, the number of outputs, and of rows from which threads are worth it.
    _ready: dict[np.dtype[Any], tuple[Callable[..., None], int, float]] = field(
        default_factory=dict, init=False, repr=False
    )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_in_numpy", "_beyond_single")} | {
            "_compiled": {},
            "_ready": {},
        }

    @property
    def n_features(self) -> int:
        return self.directions.n_features

    @property
    def n_components(self) -> int:
        return self.directions.n_components

    @property
    def n_outputs(self) -> int:
        return int(self.intercept.shape[0])

    def decision(self, X: Any, n_jobs: int | None = 1) -> Array:
        """Return f at rows ``X`` (n_rows, n_features), float32 or float64, dense or CSR: (n_rows, n_outputs).

        ``X`` is not checked: the caller passes finite numbers of the right width. The first few rows of a process that
        has not loaded the compiled loops are computed without them, see `rflaf.model.in_numpy`.
        """
        dtype, n_rows = X.dtype, X.shape[0]
        ready = self._ready.get(dtype) if type(X) is np.ndarray else None
        if ready is not None and n_rows < ready[2]:  # the common way, with the fewest steps
            out = np.empty((n_rows, ready[1]), dtype)
            ready[0](X, out, 0, n_rows)
            return out
        if dtype == np.float32 and self._beyond_single:
            X, dtype = X.astype(np.float64), np.dtype(np.float64)
        if dtype not in self._compiled and isinstance(X, np.ndarray) and in_numpy.suffices(n_rows, self.n_components):
            return in_numpy.decision(*self._in_numpy, self.intercept, X)
        feature_map, predictor = self._compile(dtype)
        predict = predictor.predict
        if not isinstance(X, np.ndarray) and scipy.sparse.issparse(X):  # the first test is the faster one
            if feature_map.centre is not None or isinstance(predictor, CurvedPredictor):
                return self._decision_by_blocks(X, n_jobs)
            predict = predictor.predict_sparse
        elif feature_map.centre is not None:
            X = X - feature_map.centre
        out = np.empty((n_rows, self.v.shape[1]), dtype)
        n_threads = 1 if n_jobs == 1 else n_rows * self.v.shape[0] // _THREAD_WORK
        if n_threads < 2:
            predict(X, out, 0, n_rows)
        else:
            from rflaf.rows.executors import resolve_n_jobs  # loads every BLAS, and is only needed here

            _predict_in_threads(predict, X, out, min(n_threads, resolve_n_jobs(n_jobs)))
        return out

    def decision_of_sample(self, X: Array) -> Array:
        """`decision` at a few thousand rows in double precision, without the loops, which take longer to compile."""
        return in_numpy.decision(*self._in_numpy, self.intercept, X.astype(np.float64, copy=False))

    def feature_map(self, dtype: Any) -> _Map:
        """The features before they are multiplied by their importance, compiled for rows of ``dtype``."""
        return self._compile(np.dtype(dtype))[0]

    def features(self, X: Any) -> Array:
        """q_m sigma(w_m . x + b_m): (n_rows, n_components), in the dtype of ``X``."""
        feature_map, _ = self._compile(X.dtype)
        out = np.empty((X.shape[0], self.n_components), X.dtype)
        for start in range(0, X.shape[0], _BLOCK_ROWS):
            rows = X[start : start + _BLOCK_ROWS]
            z = feature_map.features(rows, np.empty((self.n_components, rows.shape[0]), X.dtype))
            np.multiply(z.T, self.directions.importance, out=out[start : start + _BLOCK_ROWS], casting="same_kind")
        return out

    def projections(self, X: Array) -> Array:
        """u_m(x) = b_m + w_m . x, and what the curves add: (n_rows, n_components), where the activations are read."""
        u = X @ self.directions.W + self.directions.offset
        return u if self.curves is None else u + self.curves(X)

    def gradient(self, X: Array) -> Array:
        """Derivatives of f in the inputs, sum_m q_m v_m sigma'(u_m) w_m: (n_rows, n_outputs, n_features)."""
        directions = self.directions
        out = np.empty((X.shape[0], self.n_outputs, self.n_features))
        for start in range(0, X.shape[0], _BLOCK_ROWS):
            rows = X[start : start + _BLOCK_ROWS]
            slopes = self._slopes(self.projections(rows)) * directions.importance
            block = out[start : start + _BLOCK_ROWS]
            block[...] = np.einsum("rm,mo,dm->rod", slopes, self.v, directions.W, optimize=True)
            if self.curves is not None:
                curved = np.einsum("rm,mo,rcm->roc", slopes, self.v, self.curves.slopes(rows), optimize=True)
                block[:, :, self.curves.knots.columns] += curved
        return out

    def column_importance(self, X: Array) -> Array:
        """Return how much every column moves the model over rows ``X``: (n_features,), shares that sum to one.

        The spread of a column's part of a component's input, as a share of the whole input's, times the spread of
        that component's part of f; root of the sum of squares over components and outputs.
        """
        rows = np.asarray(X, np.float64)
        parts = self.input_parts(rows)
        z = _spreads(in_numpy.features(self._in_numpy[0], rows)) * np.abs(self.directions.importance)
        amplitude = z * _lengths(self.v)
        spread = _spreads(self.projections(rows))
        amplitude /= amplitude.max(initial=0.0) or 1.0  # shares alone matter, and products stay numbers
        share = _lengths(parts * np.divide(amplitude, spread, out=0 * spread, where=spread > 0))
        total = share.sum()
        return np.asarray(share / total if total > 0 else share)

    def input_parts(self, X: Array) -> Array:
        """Return the spread of each column's part of each component's input: (n_features, n_components)."""
        rows = np.asarray(X, np.float64)
        directions = self.directions
        parts: Array = _spreads(rows)[:, None] * np.abs(directions.W)
        if self.curves is not None:
            for curve, column in enumerate(self.curves.knots.columns):
                parts[column] = _spreads(self.curves.part(rows, curve) + rows[:, [column]] * directions.W[column])
        return parts

    def deviation(self, X: Any) -> Array:
        """Return the standard deviation of a new observation at rows ``X``: (n_rows, n_outputs).

        From the ridge posterior of the output weights and the estimated noise; see `LastLayer`.
        """
        if self.last_layer is None:
            raise ValueError("this model was made without the sums of its last layer")
        out = np.empty((X.shape[0], self.n_outputs))
        for start in range(0, X.shape[0], _BLOCK_ROWS):
            z = self.features(X[start : start + _BLOCK_ROWS]).T
            out[start : start + _BLOCK_ROWS] = np.sqrt(self.last_layer.variance(z))
        return out

    def prune(self, n_components: int) -> RandomFeatureModel:
        """Return the model of the best ``n_components`` components, refitted without data.

        Components are kept in the order of greedy selection on the sums of the last layer, so narrower models are
        nested in wider ones.
        """
        if self.last_layer is None:
            raise ValueError("this model was made without the sums of its last layer")
        if not 1 <= n_components <= self.n_components:
            raise InvalidParameterError(
                f"n_components must be between 1 and the model's {self.n_components}",
                n_components,
                "Fit a wider model.",
            )
        kept = self.last_layer.path.order[:n_components]
        last_layer = self.last_layer.take(kept)
        solution = last_layer.solve()
        return RandomFeatureModel(
            self.directions.take(kept),
            self.activation.take(kept),
            solution.v,
            solution.intercept,
            None if self.curves is None else self.curves.take(kept),
            last_layer,
        )

    @property
    def n_parameters(self) -> int:
        """Number of values that a prediction depends on."""
        curves = 0 if self.curves is None else self.curves.values.size
        parts = self.directions.W, self.directions.offset, self.activation.coefficients, self.v, self.intercept
        return int(sum(np.size(part) for part in parts) + curves)

    def describe(self) -> dict[str, Any]:
        """Describe the model in plain values; its form is constant, linear, additive or interacting.

        Additive models are sums of functions of single columns.
        """
        return {
            "n_features": self.n_features,
            "n_components": self.n_components,
            "n_outputs": self.n_outputs,
            "form": self._form(),
            "activations": int(self.activation.coefficients.shape[0]),
            "basis": type(self.activation.basis).__name__,
            "n_basis": self.activation.basis.n_basis,
            "interval": tuple(self.activation.basis.interval),
            "curved_columns": 0 if self.curves is None else self.curves.knots.n_curves,
        }

    def _form(self) -> str:
        """Return the simplest form that the model has."""
        basis, moves = self.activation.basis, np.asarray(self.directions.W != 0)
        if self.curves is not None:
            knots, values = self.curves.knots, self.curves.values
            for curve, column in enumerate(knots.columns):
                moves[column] |= np.ptp(values[knots.start[curve] : knots.start[curve + 1]], axis=0) > 0
        used = (self.v != 0).any(axis=1) & moves.any(axis=0)
        if not used.any():
            return "constant"
        if getattr(basis, "function", None) == "identity":
            return "linear" if self.curves is None else "additive"
        return "additive" if moves[:, used].sum(axis=0).max() == 1 else "interacting"

    def _slopes(self, u: Array) -> Array:
        slopes = self.activation.basis.slopes(u)
        return np.einsum("rmi,mi->rm", slopes, np.broadcast_to(self.activation.coefficients, slopes.shape[1:]))

    def _compile(self, dtype: np.dtype[Any]) -> tuple[_Map, _Predictor]:
        compiled = self._compiled.get(dtype)
        if compiled is None:
            packed: _Predictor
            with np.errstate(over="ignore"):  # such weights are never used, see `decision`
                feature_map, weights = self._map(dtype), self.directions.importance[:, None] * self.v
                if isinstance(feature_map, CurvedMap):
                    packed = pack_curved(feature_map, weights, self.intercept)
                else:
                    packed = pack(feature_map, weights, self.intercept)
            compiled = self._compiled[dtype] = feature_map, packed
            if feature_map.centre is None and not (dtype == np.float32 and self._beyond_single):
                self._ready[dtype] = packed.call(), self.n_outputs, 2 * _THREAD_WORK / self.n_components
        return compiled

    def _map(self, dtype: Any) -> _Map:
        pieces, a = self.activation.compile()
        return compile_features(self.directions, self.curves, pieces, a, dtype)

    @cached_property
    def _beyond_single(self) -> bool:
        """Whether answers may be too large for single precision: rows of it are then answered in double."""
        return max(float(np.abs(part).max(initial=0.0)) for part in (self.v, self.intercept)) > _LARGEST_SINGLE

    @cached_property
    def _in_numpy(self) -> tuple[_Map, Array]:
        """The map in double precision, and the output weights times the importance."""
        return self._map(np.float64), self.directions.importance[:, None] * self.v

    def _decision_by_blocks(self, X: Any, n_jobs: int | None) -> Array:
        """Return f at sparse rows made dense block by block, for maps that are not zero at zero."""
        out = np.empty((X.shape[0], self.n_outputs), X.dtype)
        rows = int(np.clip(_BLOCK_ENTRIES // X.shape[1], 1, _BLOCK_ROWS))
        for start in range(0, X.shape[0], rows):
            out[start : start + rows] = self.decision(X[start : start + rows].toarray(), n_jobs)
        return out


def _predict_in_threads(predict: Callable[..., None], X: Any, out: Array, n_threads: int) -> None:
    """Threads own disjoint ranges of rows; a row's result does not depend on where a range begins."""
    edges = np.linspace(0, X.shape[0], n_threads + 1).astype(int)
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(lambda i: predict(X, out, int(edges[i]), int(edges[i + 1])), range(n_threads)))


def _spreads(rows: Array) -> Array:
    """Return the standard deviation of every column, (n_columns,), without squares of large numbers."""
    largest = np.abs(rows).max(axis=0, initial=0.0).astype(np.float64)
    unit = np.where(largest > 0, largest, 1.0)
    return np.asarray(unit * np.std(rows / unit, axis=0))


def _lengths(rows: Array) -> Array:
    """Return the Euclidean length of every row, (n_rows,), without squares of large numbers."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    unit = np.where(largest > 0, largest, 1.0)
    return np.asarray(unit * np.sqrt(np.sum((rows / unit[:, None]) ** 2, axis=1)))
