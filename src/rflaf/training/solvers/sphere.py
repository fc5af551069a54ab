"""Newton's method on a sphere |a| = R, for objectives whose every evaluation is a pass over the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from rflaf.errors import Array, StopReason

_HALVINGS = 12
_LONGEST = 0.7  # longest step, of the radius
_FLAT = 1e-9  # curvature below which a direction counts as flat, of the largest
_NOISE = 100.0  # a rise below this many times the precision of the sums may be rounding
_ROUNDED = 4.0  # a fall below this many times the precision of the sums is rounding
_RUNGS = (4, 8)  # steps after which the worse descents are given up
_SHARE, _LEAST_KEPT = 2, 12  # one in so many goes on, and at least so many
_SAME = 1e-9  # relative difference of objectives that counts as none
GRADIENT = 3e-7  # tangential part of the gradient at which a descent ends, of the whole gradient


class Evaluated(Protocol):
    """A point on the sphere with the value there."""

    @property
    def a(self) -> Array: ...

    @property
    def value(self) -> float: ...


P = TypeVar("P", bound=Evaluated)


class Objective(Protocol[P]):
    """An objective on the sphere with its derivatives."""

    @property
    def precision(self) -> float:
        """Relative rounding of a value."""

    def at(self, a: Array) -> P: ...

    def derivatives(self, place: P) -> tuple[Array, Array]: ...


@dataclass(frozen=True, slots=True)
class Descent(Generic[P]):
    """Where a descent ended, the objective at every step, why it ended, and the derivatives at the end if known."""

    place: P
    trace: list[float]
    stop_reason: StopReason
    slopes: _Slopes | None = None


def newton_on_sphere(
    objective: Objective[P], place: P, max_steps: int, tol: float = GRADIENT, slopes: _Slopes | None = None
) -> Descent[P]:
    """Descend from a place over |a| = |place.a| until the tangential gradient is ``tol`` of the whole one.

    Where rounding hides the fall of the objective, a step counts if it halves the tangential gradient. ``slopes`` are
    the derivatives at the start, if known.
    """
    trace, here = [place.value], _Slopes.at(objective, place) if slopes is None else slopes
    for _ in range(max_steps):
        if here.share <= tol:
            return Descent(place, trace, StopReason.GRADIENT, here)
        step, fall = here.newton_step(place.a)
        following = None
        if fall > _ROUNDED * objective.precision * abs(place.value):
            following = _downhill(objective, place, step, fall)
        flat = following is None
        following = _moved(objective, place, step) if following is None else following
        there = _Slopes.at(objective, following)
        if flat and there.share > here.share / 2:
            return Descent(place, trace, StopReason.ROUNDING, here)
        place, here = following, there
        trace.append(min(place.value, trace[-1]))
    return Descent(place, trace, StopReason.ITERATIONS, here)


@dataclass(frozen=True, slots=True)
class _Slopes:
    """Gradient and Hessian at a point, and the gradient along the sphere in coordinates of the tangent plane."""

    slope: Array
    hessian: Array
    tangent: Array
    along: Array

    @classmethod
    def at(cls, objective: Objective[P], place: P) -> _Slopes:
        slope, hessian = objective.derivatives(place)
        tangent = tangent_basis(place.a)
        return cls(slope, hessian, tangent, tangent @ slope)

    @property
    def share(self) -> float:
        """The tangential gradient, of the whole gradient; zero where that vanishes."""
        whole = float(np.linalg.norm(self.slope))
        return float(np.linalg.norm(self.along)) / whole if whole > 0 else 0.0

    def newton_step(self, a: Array) -> tuple[Array, float]:
        """Return the step in the tangent plane and the fall it promises; curvatures below zero count by their size."""
        curved = self.tangent @ self.hessian @ self.tangent.T - (self.slope @ a) / (a @ a) * np.eye(len(self.tangent))
        values, vectors = np.linalg.eigh((curved + curved.T) / 2)
        size = np.maximum(np.abs(values), _FLAT * np.abs(values).max(initial=np.finfo(float).tiny))
        along = vectors.T @ self.along
        step = self.tangent.T @ (vectors @ (-along / size))
        longest = _LONGEST * float(np.linalg.norm(a))
        factor = min(1.0, longest / max(float(np.linalg.norm(step)), np.finfo(float).tiny))
        return step * factor, float(along**2 @ (1 / size)) * factor / 2


def tangent_basis(a: Array) -> Array:
    """Orthonormal vectors orthogonal to ``a``, (a.size - 1, a.size)."""
    _, _, rows = np.linalg.svd(a[None])
    return np.asarray(rows[1:])


def _downhill(objective: Objective[P], place: P, step: Array, fall: float) -> P | None:
    """Return the first place along halved steps where the objective falls as it should; None if rounding forbids it."""
    for _ in range(_HALVINGS):
        there = _moved(objective, place, step)
        if there.value <= place.value - 1e-4 * fall:
            return there
        if there.value - place.value <= _NOISE * objective.precision * abs(place.value):
            return None
        step, fall = step / 2, fall / 2
    return None


def _moved(objective: Objective[P], place: P, step: Array) -> P:
    """Return the place after a step, back on the sphere."""
    a = place.a + step
    return objective.at(a * (np.linalg.norm(place.a) / np.linalg.norm(a)))


def best_descent(objective: Objective[P], starts: Sequence[P], max_steps: int, tol: float = GRADIENT) -> Descent[P]:
    """Descend from several places, all of one length: a few steps each, then the better part, and the best to its end.

    Ends within rounding of each other count as one and only the first goes on.
    """
    descents = [Descent(place, [place.value], StopReason.ITERATIONS) for place in starts]
    for steps in _RUNGS if len(starts) > 1 else ():
        descents = [_unless_ended(objective, descent, steps, tol) for descent in descents]
        descents = _better_part(descents)
    ended = [_unless_ended(objective, descent, max_steps, tol) for descent in descents]
    return min(ended, key=lambda descent: descent.place.value)


def _unless_ended(objective: Objective[P], before: Descent[P], steps: int, tol: float) -> Descent[P]:
    return before if before.stop_reason is not StopReason.ITERATIONS else further(objective, before, steps, tol)


def further(objective: Objective[P], before: Descent[P], steps: int, tol: float = GRADIENT) -> Descent[P]:
    """Continue a descent of the same objective."""
    after = newton_on_sphere(objective, before.place, steps, tol, before.slopes)
    return Descent(after.place, before.trace + after.trace[1:], after.stop_reason, after.slopes)


def _better_part(descents: list[Descent[P]]) -> list[Descent[P]]:
    """Return the better part of descents, the best first, without those that came to the same place."""
    ordered = sorted(descents, key=lambda descent: descent.place.value)
    different = [ordered[0]]
    for descent in ordered[1:]:
        values = descent.place.value, different[-1].place.value
        if values[0] - values[1] > _SAME * abs(values[1]):
            different.append(descent)
    return different[: max(_LEAST_KEPT, -(-len(descents) // _SHARE))]
