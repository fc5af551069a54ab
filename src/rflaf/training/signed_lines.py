"""A linear model whose weights keep signs: the simplest that rises, or falls, in the columns it is told to.

    minimise over v, b    1/n sum_i w_i loss(b + z_i . v, y_i) + ridge |v|^2,    s_j v_jo >= 0 where column j has a sign

with z the columns in units of their spread, under any loss, by L-BFGS within bounds; several outputs o are quantiles of
one target. The ridge is that of lowest loss on the rows held out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy  # its parts are imported on first use

from rflaf.errors import Array, StopReason
from rflaf.functions.densities import Directions
from rflaf.functions.losses import Loss
from rflaf.model.random_feature_model import Activation
from rflaf.training.solvers.per_component import ExpandedMap, expand
from rflaf.training.solvers.refined.encoded_rows import RowsInMemory, read
from rflaf.training.solvers.refined.search import Hunt

from .final_fit import FitResult, Fitted, conclude, keep_trained
from .pools import draw_pool
from .problem import Fit
from .specification import FitSpec

_RIDGES = 10.0 ** np.arange(1, -8, -1)  # of half the curvature: columns have a spread of one
_STEPS, _FALL, _SLOPE = 500, 1e-12, 1e-9
_ROWS = 100_000  # sampled at most, to fit the weights on


@dataclass(frozen=True, slots=True)
class SignedLines:
    """A judged model: specification, axes, ridge, what it says of the rows held out, and its squared error there."""

    spec: FitSpec
    directions: Directions
    ridge: float
    outputs: Array
    noise: Array


@dataclass(frozen=True, slots=True)
class _Lines:
    """Rows of columns ``Z`` (n, n_columns) to draw lines on; ``signs`` (n_columns,), 0 where the weight is free."""

    Z: Array
    y: Array
    weight: Array
    loss: Loss
    signs: Array
    intercept: bool

    def of(self, rows: Array) -> _Lines:
        return replace(self, Z=self.Z[rows], y=self.y[rows], weight=self.weight[rows])

    def fitted(self, ridge: float, start: tuple[Array, Array]) -> tuple[Array, Array]:
        """Return weights (n_columns, n_outputs) and intercepts (n_outputs,) of least risk."""
        share, shape = self.weight / self.weight.sum(), start[0].shape

        def risk(x: Array) -> tuple[float, Array]:
            v, b = x[: start[0].size].reshape(shape), x[start[0].size :]
            value, slope = self.loss.value_and_slope(self.Z @ v + b, self.y)
            slope = slope * share[:, None]
            at_v = (self.Z.T @ slope + 2 * ridge * v).ravel()
            at_b = slope.sum(axis=0) if self.intercept else np.zeros(shape[1])
            return float(share @ value + ridge * np.sum(v**2)), np.concatenate([at_v, at_b])

        low, high = (self._ends(side, shape[1]) for side in (1, -1))
        options = {"maxiter": _STEPS, "ftol": _FALL, "gtol": _SLOPE}
        first, bounds = np.append(start[0].ravel(), start[1]), scipy.optimize.Bounds(low, high)
        x = scipy.optimize.minimize(risk, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
        return np.clip(x, low, high)[: start[0].size].reshape(shape), x[start[0].size :]

    def _ends(self, side: int, n_outputs: int) -> Array:
        """Return the least (``side`` 1) or largest (-1) weights and intercepts, in one row."""
        weights = np.where(side * self.signs > 0, 0.0, -side * np.inf)
        return np.append(np.repeat(weights, n_outputs), np.full(n_outputs, -side * np.inf))


def judge_signed_lines(fit: Fit, spec: FitSpec, hunt: Hunt) -> SignedLines:
    """Return the lines whose ridge has the lowest loss on the rows that the splits of a hunt hold out."""
    _, directions = draw_pool(replace(fit, spec=spec))
    features = expand(directions, spec.basis, np.float64)
    lines = _lines(fit, features, hunt.table)
    ridges = _RIDGES * max(fit.problem.curvature, 1e-6) / 2 * float(features.T[0, 0]) ** 2  # the spread of a feature
    best, rises = (np.inf, 0.0, np.empty(0)), 0
    solutions = [_nothing(fit, lines)] * len(hunt.splits)
    for ridge in ridges:
        pairs = zip(hunt.splits, solutions, strict=True)
        solutions = [lines.of(kept).fitted(float(ridge), start) for (kept, _), start in pairs]
        outputs = np.concatenate(
            [lines.Z[out] @ v + b for (_, out), (v, b) in zip(hunt.splits, solutions, strict=True)]
        )
        error = hunt.mean_loss(fit.problem.loss, outputs)
        rises = 0 if error < best[0] else rises + 1
        best = min(best, (error, float(ridge), outputs), key=lambda found: found[0])
        if rises > 1:
            break
    rows = hunt.held_out
    noise = np.average((lines.y[rows] - best[2]) ** 2, axis=0, weights=lines.weight[rows])
    return SignedLines(spec, directions, best[1], best[2], noise)


def fit_signed_lines(fit: Fit, judged: SignedLines) -> FitResult:
    """Return judged lines fitted to all rows, or a sample of very many."""
    inside = replace(fit, spec=replace(judged.spec, splits=None))
    features, sample = expand(judged.directions, judged.spec.basis, np.float64), fit.source.sample(_ROWS, fit.rng)
    lines = _lines(fit, features, read(sample, range(len(sample)), 1.0))
    v, intercept = lines.fitted(judged.ridge, _nothing(fit, lines))
    activation = Activation(judged.spec.basis, features.T)
    fitted = Fitted(activation, v, intercept, judged.ridge, solved=StopReason.CONVEX)
    if fit.closed_form:
        fitted = keep_trained(inside, features, activation, v, np.inf, judged.noise)
    model = fitted.model(judged.directions, fit.problem.units)
    alpha = judged.ridge / judged.directions.n_draws
    found = {"bandwidth": 1.0, "trace": np.zeros(1), "stop_reason": StopReason.CONVEX}
    return conclude(inside, fitted, model, alpha, **found)


def _lines(fit: Fit, features: ExpandedMap, table: RowsInMemory) -> _Lines:
    signs = np.zeros(table.X.shape[1], int)
    for column, sign in fit.spec.limits.signs:
        signs[column] = sign
    Z = features.features(table.X.astype(np.float64), np.empty((signs.size, table.n_rows))).T
    y = table.y.astype(np.float64)
    return _Lines(np.ascontiguousarray(Z), y, table.weight, fit.problem.loss, signs, fit.spec.intercept)


def _nothing(fit: Fit, lines: _Lines) -> tuple[Array, Array]:
    return np.zeros((lines.Z.shape[1], fit.problem.base.size)), fit.problem.base.astype(np.float64)
