"""Minimising the regularised risk at one ridge, by L-BFGS or Newton steps in whitened coordinates."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from rflaf.errors import Array, StopReason
from rflaf.functions.losses import Loss
from rflaf.model.ridge import RidgeFactor

from .objective import Risk, Whitening

_NEWTON_FEATURES = 64  # up to this many features a Newton step costs hardly more than a pass
_NEWTON_STEPS = 15
_ROUNDED_FEATURES = 1000  # beyond, weighting the products by curvature costs as much as the passes it saves
_HALVINGS = 30
_ROUND = 60  # steps of L-BFGS between two whitenings
_STALLED = 40  # steps without a smaller gradient or a lower objective
_FAR_TOO_LONG, _MOST_TOO_LONG = 8, 4  # halvings of a step that rounding made, and such steps until the end
_NEAR = 100.0  # times the limit of the gradient, where that may be
_LONGEST = 10.0  # longest step, relative to 1 + |x|
_FEW_ROWS = 1000  # up to this many rows a far tighter tolerance is cheap
_FAR_BEYOND, _BEYOND = 1e-8, 1e-3
_PAIRS = 20  # steps and changes of slope that L-BFGS keeps
_LEAST_CURVATURE = 1e-6  # of the usual one
_JITTER = 1e-9  # that a Newton step adds, of the mean curvature
_MANY_ROWS = 4000


@dataclass(frozen=True, slots=True)
class RiskSolution:
    """Output weights ``v`` (n_components, n_outputs), intercept (n_outputs,), and how they were found.

    ``gradient`` is the norm of the whitened gradient over that at the start, ``n_passes`` the number of passes.
    """

    v: Array
    intercept: Array
    ridge: float
    objective: float
    gradient: float
    n_passes: int
    stop_reason: StopReason
    factor: RidgeFactor


def whiten(risk: Risk, ridge: float, base: Array) -> Whitening:
    """Return the coordinates in which the problem is round, for the curvature of the loss at the constant answer."""
    curvature = risk.at_constant(base)[3]
    usual = min(risk.loss.curvature_bound, 1.0)
    curvature = curvature if curvature > _LEAST_CURVATURE * usual else usual  # the loss may be straight at the start
    return curvature, risk.system.factor(2 * ridge / curvature)


class Smooth(Protocol):
    """A function to descend on: its value and gradient, and the rounding of the value."""

    rounding: float

    def objective(self, x: Array) -> tuple[float, Array]: ...


@dataclass
class _Whitened:
    """The problem for one ridge in coordinates in which it is round: V = B' U / sqrt(c), features centred."""

    risk: Risk
    ridge: float
    curvature: float
    factor: RidgeFactor
    rounding: float  # of the objective, taken at the constant answer
    n_passes: int = 0
    _seen: tuple[Array, float, Array] | None = None

    def unpack(self, x: Array) -> tuple[Array, Array]:
        """Return V and b at the coordinates ``x``."""
        n_outputs, root = self.risk.n_outputs, self.curvature**0.5
        U, centred = x[:-n_outputs].reshape(-1, n_outputs), x[-n_outputs:] / root
        V = self.factor.inverse_root.T @ U / root
        return V, (centred - self.factor.system.z_mean @ V) * self.risk.intercept

    def pack(self, V: Array, b: Array) -> Array:
        """Return the coordinates of V and b."""
        U = self.factor.inverse_root @ (self.factor.system.G @ V + self.factor.ridge * V)
        centred = (b + self.factor.system.z_mean @ V) * self.risk.intercept
        return self.curvature**0.5 * np.concatenate([U.ravel(), centred])

    def objective(self, x: Array) -> tuple[float, Array]:
        """Return value and gradient; a repeated call at the same x needs no pass."""
        if self._seen is None or not np.array_equal(x, self._seen[0]):
            V, b = self.unpack(x)
            value, slope, at_b = self.risk.objective(V, b, self.ridge)
            self.n_passes += 1
            self._seen = x, value, self.whitened(slope, at_b)
        return self._seen[1:]

    def whitened(self, slope: Array, at_b: Array) -> Array:
        """Return a derivative in V and b as one in these coordinates."""
        centred = slope - np.outer(self.factor.system.z_mean, at_b)
        return np.concatenate([(self.factor.inverse_root @ centred).ravel(), at_b]) / self.curvature**0.5

    def rewhitened(self, x: Array) -> _Whitened:
        """Re-whiten at x."""
        curvature, factor = self.risk.whiten_at(*self.unpack(x), self.ridge)
        return replace(self, curvature=curvature, factor=factor, _seen=None)

    def newton_step(self, x: Array, slope: Array) -> Array:
        """Return minus the inverse Hessian times ``slope``, for one output."""
        V, b = self.unpack(x)
        single = self.risk.system.precision >= np.finfo(np.float32).eps
        past = self.risk.hessians(V, b, np.float32 if single else np.float64)[0] / self.risk.weight
        m, z_mean = V.shape[0], self.factor.system.z_mean
        to_centred = np.eye(m + 1)
        to_centred[m, :m] = -z_mean  # b = centred - z_mean V
        H = to_centred.T @ past @ to_centred
        H[np.arange(m), np.arange(m)] += 2 * self.ridge
        B = np.zeros((self.factor.inverse_root.shape[0] + 1, m + 1))
        B[:-1, :m], B[-1, m] = self.factor.inverse_root, 1.0
        whitened = B @ H @ B.T / self.curvature
        whitened[np.diag_indices_from(whitened)] += _JITTER * (1 + np.trace(whitened) / len(whitened))
        return -np.linalg.solve(whitened, slope)


def tolerance(risk: Risk, asked: float) -> float:
    """Return the tolerance on the gradient: in double precision tighter than ``asked`` where cheap or needed.

    Few rows are cheap. Under a loss of straight pieces the path amplifies the rounding of the sums; only the converged
    solution is the same for every partition of the rows.
    """
    if risk.system.precision >= np.finfo(np.float32).eps:
        return asked
    if risk.system.count <= _FEW_ROWS:
        return _FAR_BEYOND * asked
    return _BEYOND * asked if risk.loss.straight else asked


def hides_rounding(n_rows: float, loss: Loss) -> bool:
    """Return whether a search may use single precision: many rows hide rounding, unless straight pieces amplify it."""
    return n_rows > _MANY_ROWS and not loss.straight


def minimise_risk(
    risk: Risk,
    ridge: float,
    base: Array,
    tol: float,
    max_iter: int,
    start: tuple[Array, Array] | None = None,
    whitening: Whitening | None = None,
) -> RiskSolution:
    """Minimise the risk at one ridge, from ``start`` (V, b) or from the constant answer ``base`` (n_outputs,).

    The search ends when the norm of the whitened gradient is ``tol`` of that at the constant answer, or for the reason
    in the solution.
    """
    m, n_outputs = risk.system.G.shape[0], risk.n_outputs
    nothing = np.zeros((m, n_outputs)), base * risk.intercept
    value, *slopes, _ = risk.at_constant(base)
    rounding = 10 * risk.system.precision
    problem = _Whitened(risk, ridge, *(whitening or whiten(risk, ridge, base)), rounding * abs(value))

    def limit() -> float:
        return max(tol * float(np.linalg.norm(problem.whitened(*slopes))), rounding * min(1.0, abs(value)))

    x, reason = problem.pack(*(start or nothing)), StopReason.ITERATIONS
    if _by_newton(risk):
        x, reason = _newton(problem, x, limit(), min(max_iter, _NEWTON_STEPS))
    left = max_iter
    while reason is StopReason.ITERATIONS and left > 0:
        if left < max_iter:
            V, b = problem.unpack(x)
            problem = problem.rewhitened(x)
            x = problem.pack(V, b)
        x, reason = descend(problem, x, limit(), min(left, _ROUND))
        left -= _ROUND
    V, b = problem.unpack(x)
    value, last = problem.objective(x)
    first = float(np.linalg.norm(problem.whitened(*slopes)))
    relative = float(np.linalg.norm(last)) / first if first > 0 else 0.0
    return RiskSolution(V, b, ridge, value, relative, problem.n_passes, reason, problem.factor)


def _by_newton(risk: Risk) -> bool:
    """Return whether a Newton step costs hardly more than a pass."""
    return risk.n_outputs == 1 and risk.system.G.shape[0] <= _NEWTON_FEATURES and risk.loss.curved_everywhere


def worth_rewhitening(risk: Risk) -> bool:
    """Return whether another Gram matrix, weighted by the curvature at a start, pays.

    With one output it saves three quarters of the passes. Several outputs gain nothing, losses of straight pieces,
    whose curvature jumps, lose; with many features the matrix costs as much as it saves.
    """
    few = risk.system.G.shape[0] <= _ROUNDED_FEATURES and risk.n_outputs == 1
    return few and not risk.loss.straight and not _by_newton(risk)


def descend(problem: Smooth, x: Array, limit: float, max_iter: int) -> tuple[Array, StopReason]:
    """Run L-BFGS until the gradient is below ``limit``.

    SciPy's L-BFGS compares values of the objective, whose rounding in float32 hides a fall long before the gradient is
    small. Here a step may raise the objective by as much as rounding does. Large terms that cancel round more than the
    objective tells: a small gradient whose changes say nothing of the curvature, so that steps are far too long, is
    rounding too.
    """
    value, slope = problem.objective(x)
    rounding = problem.rounding
    pairs: deque[tuple[Array, Array, float]] = deque(maxlen=_PAIRS)
    least, lowest, since, too_long = np.inf, np.inf, 0, 0
    for _ in range(max_iter):
        size = float(np.linalg.norm(slope))
        if size <= limit:
            return x, StopReason.GRADIENT
        since = 0 if size < least or value < lowest - rounding else since + 1
        least, lowest = min(size, least), min(value, lowest)
        if since > _STALLED or too_long >= _MOST_TOO_LONG:
            return x, StopReason.ROUNDING
        step = -_inverse_times(slope, pairs)
        step *= min(1.0, _LONGEST * (1 + float(np.linalg.norm(x))) / float(np.linalg.norm(step)))
        for halvings in range(_HALVINGS):  # noqa: B007  read behind the loop
            there, slope_there = problem.objective(x + step)
            if there <= value + 1e-4 * float(slope @ step) + rounding:
                break
            step = step / 2
        else:
            if not pairs:
                return x, StopReason.ROUNDING
            pairs.clear()
            continue
        too_long += halvings >= _FAR_TOO_LONG and size <= _NEAR * limit and value - there <= rounding
        change = slope_there - slope
        curved = float(change @ step)
        if curved > 1e-12 * float(np.linalg.norm(change) * np.linalg.norm(step)) and change @ change > 0:
            pairs.append((step, change, curved))
        x, value, slope = x + step, there, slope_there
    return x, StopReason.GRADIENT if np.linalg.norm(slope) <= limit else StopReason.ITERATIONS


def _inverse_times(slope: Array, pairs: deque[tuple[Array, Array, float]]) -> Array:
    """Return the inverse Hessian estimated from the last steps and changes of slope, times ``slope``."""
    answer, shares = slope.copy(), []
    for step, change, curved in reversed(pairs):
        shares.append(float(step @ answer) / curved)
        answer -= shares[-1] * change
    if pairs:
        _, change, curved = pairs[-1]
        answer *= curved / float(change @ change)
    for (step, change, curved), share in zip(pairs, reversed(shares), strict=True):
        answer += (share - float(change @ answer) / curved) * step
    return answer


def _newton(problem: _Whitened, x: Array, limit: float, max_iter: int) -> tuple[Array, StopReason]:
    """Run Newton's method with halved steps until the gradient is below ``limit``; one output."""
    value, slope = problem.objective(x)
    rounding = problem.rounding
    for _ in range(max_iter):
        if np.linalg.norm(slope) <= limit:
            return x, StopReason.GRADIENT
        step = problem.newton_step(x, slope)
        for _ in range(_HALVINGS):
            there, slope_there = problem.objective(x + step)
            if there <= value + 1e-4 * float(slope @ step) + rounding:
                break
            step = step / 2
        else:
            return x, StopReason.ROUNDING
        x, value, slope = x + step, there, slope_there
    return x, StopReason.GRADIENT if np.linalg.norm(slope) <= limit else StopReason.ITERATIONS
