"""The squared loss in output weights and activation together, to second order around a place.

With T (n_basis - 1, n_basis) the tangent plane of the sphere at ``a``, and a + T't put back on the sphere,

    f(a + T't, v) = Z v + H T't + terms in (v - v_0) t,        H[i, k] = sum_m q_m v_0m B_k(u_im)

The sums of [Z | H T' | 1 | y] over some rows, with C[k, m] = sum_i w_i r_i q_m B_k(u_im) taken off the products of H
and Z, are the loss on these rows to second order for every (v, t). So they tell, without another pass, the error on
rows held out for every ridge *with the activation learned again under it*; under a fixed activation, ridges are judged
by features that were learned for one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rflaf.errors import Array
from rflaf.model.normal_equations import NormalEquations
from rflaf.model.ridge import RidgeFactor, RidgeSystem

from .sphere import tangent_basis
from .whole_problem import Place, Products

_FLAT = 1e-9  # curvature below which a direction counts as flat, of the largest
LONGEST = 0.3  # longest step of an activation, of its length


@dataclass(frozen=True, slots=True)
class JointSums:
    """Sums over rows: the equations of Z, and by output (H'Z - C), H'H, H'1 and H'y in the tangent plane."""

    equations: NormalEquations
    HZ: Array
    HH: Array
    H1: Array
    Hy: Array
    tangent: Array
    radius: float

    @classmethod
    def around(cls, place: Place, equations: NormalEquations, sums: Products) -> JointSums:
        """The sums over rows from their equations and products at a place."""
        a, v, T = place.a, place.solution.v, tangent_basis(place.a)
        outward = np.einsum("k,okm,mo->o", a, sums.C, v) / (a @ a)  # by which the sphere leaves its tangent plane
        HH = T @ sums.HH @ T.T + outward[:, None, None] * np.eye(len(T))
        Hy = np.einsum("okm,mo->ok", sums.HZ, v) + place.solution.intercept[:, None] * sums.ones
        return cls(equations, T @ (sums.HZ - sums.C), HH, sums.ones @ T.T, Hy @ T.T, T, float(np.linalg.norm(a)))

    def __sub__(self, other: JointSums) -> JointSums:
        """Return the sums without some of their rows."""
        parts = (self.HZ - other.HZ, self.HH - other.HH, self.H1 - other.H1, self.Hy - other.Hy)
        return JointSums(self.equations - other.equations, *parts, self.tangent, self.radius)

    def system(self, intercept: bool) -> JointSystem:
        """Return the sums per observation, centred if an intercept is fitted."""
        alone, weight = self.equations.system(intercept), self.equations.weight
        mean = self.H1 / weight * alone.n_intercepts
        HZ = self.HZ / weight - mean[:, :, None] * alone.z_mean
        HH = np.sum(self.HH / weight - mean[:, :, None] * mean[:, None, :], axis=0)
        return JointSystem(
            alone, HZ, HH, self.Hy / weight - mean * alone.y_mean[:, None], mean, self.tangent, self.radius
        )

    def errors(self, answer: JointAnswer) -> Array:
        """Mean squared error by output, to second order."""
        v, t, b = answer.v, answer.t, answer.intercept
        by_v = self.equations.errors(v, b)
        cross = np.einsum("okm,mo->ok", self.HZ, v) - self.Hy + b[:, None] * self.H1
        return np.asarray(by_v + (2 * cross @ t + np.einsum("k,okl,l->o", t, self.HH, t)) / self.equations.weight)


@dataclass(frozen=True, slots=True)
class JointAnswer:
    """Output weights (n_components, n_outputs), intercept (n_outputs,) and step of the activation (n_basis - 1,)."""

    v: Array
    intercept: Array
    t: Array


@dataclass(frozen=True, slots=True)
class JointSystem:
    """The equations of v and t: ``HZ`` (n_outputs, n_basis - 1, n_components), ``HH`` summed over outputs, ``Hy``."""

    alone: RidgeSystem
    HZ: Array
    HH: Array
    Hy: Array
    H_mean: Array
    tangent: Array
    radius: float

    def at(self, ridge: float) -> JointAnswer:
        """Return the answer under a ridge."""
        factor = self.alone.factor(ridge)
        v, t = self.step(factor, self.alone.c, self.Hy.sum(axis=0))
        return JointAnswer(v, self.alone.y_mean - self.alone.z_mean @ v - self.H_mean @ t, t)

    def step(self, factor: RidgeFactor, right: Array, right_t: Array) -> tuple[Array, Array]:
        """Solve for (v, t) with right-hand sides (n_components, n_outputs) and (n_basis - 1,)."""
        n_outputs, size, _ = self.HZ.shape
        solved = factor.solve(np.hstack([right, *self.HZ.transpose(0, 2, 1)]))
        v, of_t = solved[:, :n_outputs], solved[:, n_outputs:].reshape(-1, n_outputs, size)
        curved = self.HH - np.einsum("okm,mol->kl", self.HZ, of_t)
        values, vectors = np.linalg.eigh((curved + curved.T) / 2)
        size_of = np.maximum(np.abs(values), _FLAT * np.abs(values).max(initial=np.finfo(float).tiny))
        along = vectors.T @ (right_t - np.einsum("okm,mo->k", self.HZ, v))
        t = vectors @ (along / size_of)
        t *= min(1.0, LONGEST * self.radius / max(float(np.linalg.norm(t)), np.finfo(float).tiny))
        return v - of_t @ t, t


def on_sphere(a: Array, step: Array) -> Array:
    """Return the activation after a step, as long as before."""
    moved = a + step
    return np.asarray(moved * (np.linalg.norm(a) / np.linalg.norm(moved)))
