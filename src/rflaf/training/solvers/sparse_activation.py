"""Sparse shared activations: J(a) plus an L1 penalty on the coefficients, minimised on the sphere.

    minimise F(a) = J(a) + l1 |a|_1 over |a| = R

On the sphere |a|_1 lies between R, for one function, and sqrt(N) R, for N equal coefficients: the penalty counts
functions, and cannot be escaped by a shorter a and longer output weights. Two kinds of step alternate. A *proximal
step* of length t minimises g . a + |a - a_0|^2 / 2t + l1 |a|_1 over the sphere, which has the closed form

    a = R soft(a_0 - t g, t l1) / |soft(a_0 - t g, t l1)|,    soft(x, s) = sign(x) max(|x| - s, 0),

and finds which coefficients are exactly zero. A *descent among the signs* then runs L-BFGS on the sphere of the others,
where F is smooth as long as no sign changes; it stops where the first one would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rflaf.errors import Array, StopReason

Objective = Callable[[Array], tuple[float, Array]]
Descend = Callable[[Objective, Array, int, float], tuple[Array, list[float], StopReason]]

_PROXIMAL_STEPS = 5  # between two descents
_HALVINGS = 60  # of the length of a step


@dataclass(frozen=True, slots=True)
class _Place:
    """A point of the sphere, J and its gradient there, F, and the length of the next proximal step."""

    a: Array
    value: float
    slope: Array
    total: float
    step: float


def soft(x: Array, size: float) -> Array:
    """Return ``x`` moved towards zero by ``size``, and exactly zero where it is smaller.

    >>> soft(np.array([-3.0, 0.5, 2.0]), 1.0)
    array([-2.,  0.,  1.])
    """
    return np.sign(x) * np.maximum(np.abs(x) - size, 0.0)


def nearest_sparse(x: Array, size: float, radius: float) -> Array:
    """Return argmin over |a| = radius of |a - x|^2 / 2 + size |a|_1.

    It is soft(x, size), scaled; where that is zero, the largest coordinate of ``x`` alone.
    """
    shrunk = soft(x, size)
    if not shrunk.any():
        largest = int(np.argmax(np.abs(x)))
        shrunk[largest] = 1.0 if x[largest] >= 0 else -1.0
    return np.asarray(shrunk * (radius / np.linalg.norm(shrunk)))


def minimise_sparse(
    objective: Objective, start: Array, l1: float, max_iter: int, tol: float, descend: Descend
) -> tuple[Array, list[float], StopReason]:
    """Minimise J(a) + l1 |a|_1 over |a| = |start|: return the minimiser, F after every round, and why it ended.

    ``descend`` minimises a smooth function on a sphere (`rflaf.training.solvers.shared_activation`). A round is a few
    proximal steps and one descent among the signs; rounds end when one lowers F by less than ``tol`` of it.
    """
    value, slope = objective(start)
    length = float(np.linalg.norm(slope)) or 1.0
    here = _Place(start, value, slope, value + l1 * float(np.abs(start).sum()), float(np.linalg.norm(start)) / length)
    trace = [here.total]
    for _ in range(max_iter):
        for _ in range(_PROXIMAL_STEPS):
            here = _proximal_step(objective, here, l1)
        here = _descend_among_signs(objective, here, l1, tol, descend)
        trace.append(here.total)
        if trace[-2] - trace[-1] <= tol * trace[-2]:
            return here.a, trace, StopReason.CONVERGED
    return here.a, trace, StopReason.ITERATIONS


def _proximal_step(objective: Objective, here: _Place, l1: float) -> _Place:
    """Return the end of the longest proximal step, of those halved, under which F falls as its model says."""
    radius, step = float(np.linalg.norm(here.a)), here.step
    for _ in range(_HALVINGS):
        a = nearest_sparse(here.a - step * here.slope, step * l1, radius)
        move = a - here.a
        value, slope = objective(a)
        total = value + l1 * float(np.abs(a).sum())
        if value <= here.value + here.slope @ move + move @ move / (2 * step) and total <= here.total:
            return _Place(a, value, slope, total, 2 * step)
        step /= 2
    return here


def _descend_among_signs(objective: Objective, here: _Place, l1: float, tol: float, descend: Descend) -> _Place:
    """Return the minimum of F with the present zeros and signs, or the point before it where a sign would change.

    Return ``here`` if F does not fall.
    """
    kept = np.flatnonzero(here.a)
    signs = np.sign(here.a[kept])
    if kept.size < 2:
        return here
    most = kept.size**0.5 * float(np.linalg.norm(here.a))  # of |signs . x|; it keeps what descends above zero

    def among_signs(x: Array) -> tuple[float, Array]:
        value, slope = objective(_spread(x, kept, here.a.size))
        return value + l1 * (float(signs @ x) + most), slope[kept] + l1 * signs

    x, _, _ = descend(among_signs, here.a[kept], 50, tol)
    a = _spread(_until_zero(here.a[kept], x), kept, here.a.size)
    value, slope = objective(a)
    total = value + l1 * float(np.abs(a).sum())
    return _Place(a, value, slope, total, here.step) if total < here.total else here


def _spread(x: Array, kept: Array, size: int) -> Array:
    a = np.zeros(size)
    a[kept] = x
    return a


def _until_zero(start: Array, end: Array) -> Array:
    """Return ``end``, or where the first coordinate on the way there is zero, exactly so and on the same sphere."""
    crossing = start * end < 0
    if not crossing.any():
        return end
    share = np.full(start.size, np.inf)
    share[crossing] = start[crossing] / (start[crossing] - end[crossing])
    first = int(np.argmin(share))
    x = start + share[first] * (end - start)
    x[first] = 0.0
    length = float(np.linalg.norm(x))
    return x * (np.linalg.norm(start) / length) if length > 0 else start
