"""Line 6 of Algorithm 1 from its formula alone: a slow reference that shares no code with the package but the basis.

    minimise over |a| = R, v, b    1/n sum_i w_i |y_i - f(x_i)|^2 + ridge |v|^2,    f = Z(a) v + b,    ridge = alpha S

Z(a)[i, m] = q_m sum_k a_k B_k(x_i . W_m + offset_m) is dense, v and b come from dense linear algebra, and `lowest`
tries many random starts by a general optimiser.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize


@dataclass(frozen=True, eq=False)
class Reference:
    """Rows, basis functions of all components ``B`` (n_rows, n_components, n_basis), ridge and radius."""

    B: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    ridge: float
    radius: float
    intercept: bool

    @classmethod
    def of(cls, model, X, y, weight=None):
        """The problem that a fitted estimator states: its directions, basis, length of ``a`` and alpha times draws."""
        directions, activation = model.model_.directions, model.activation_
        B = activation.basis.values(X @ model.directions_ + directions.offset) * model.importance_[:, None]
        y = np.asarray(y, float).reshape(len(X), -1)
        weight = np.ones(len(X)) if weight is None else np.asarray(weight, float)
        radius = float(np.linalg.norm(activation.coefficients[0]))
        ridge = model.alpha_ * directions.n_draws
        return cls(B, y, weight / weight.sum(), ridge, radius, model.fit_intercept)

    def features(self, a):
        """Z(a), (n_rows, n_components)."""
        return (self.B.reshape(-1, a.size) @ a).reshape(self.B.shape[:2])

    def solve(self, a):
        """v and b of least squares with a ridge, by the normal equations of the centred rows."""
        return self._solve(self.features(a))

    def _solve(self, Z):
        w = self.weight[:, None]
        z_mean, y_mean = (np.sum(w * part, axis=0) * self.intercept for part in (Z, self.y))
        Zc, yc = Z - z_mean, self.y - y_mean
        v = np.linalg.solve(Zc.T @ (w * Zc) + self.ridge * np.eye(Z.shape[1]), Zc.T @ (w * yc))
        return v, y_mean - z_mean @ v

    def value(self, a):
        """J(a)."""
        v, b = self.solve(a)
        return self.value_of(a, v, b)

    def value_of(self, a, v, b):
        """The objective at given output weights."""
        residual = self.y - self.features(a) @ v - b
        return float(np.sum(self.weight[:, None] * residual**2) + self.ridge * np.sum(v**2))

    def gradient(self, a):
        """Gradient of J by the envelope theorem: v and b are at their minimum."""
        return self.value_and_gradient(a)[1]

    def value_and_gradient(self, a):
        """J(a) and its gradient, from one solution for v and b."""
        Z = self.features(a)
        v, b = self._solve(Z)
        residual = self.y - Z @ v - b
        weighted = self.weight[:, None] * residual
        value = float(np.sum(weighted * residual) + self.ridge * np.sum(v**2))
        by_function = (weighted.T @ self.B.reshape(len(self.B), -1)).reshape(-1, *self.B.shape[1:])  # (O, S, N)
        return value, -2 * np.tensordot(v.T, by_function, 2)

    def lowest(self, n_starts: int, rng: np.random.Generator) -> float:
        """The lowest J of descents from random starts; a direction of x is a point of the sphere."""

        def on_sphere(x):
            length = np.linalg.norm(x)
            a = x * (self.radius / length)
            value, slope = self.value_and_gradient(a)
            return value, (slope - a * (slope @ a) / self.radius**2) * (self.radius / length)

        options = {"ftol": 1e-13, "gtol": 1e-10, "maxiter": 2000, "maxcor": 20}
        ends = [
            minimize(on_sphere, x, jac=True, method="L-BFGS-B", options=options).fun
            for x in rng.standard_normal((n_starts, self.B.shape[2]))
        ]
        return float(min(ends))


def tangential_share(slope, a) -> float:
    """The part of a gradient along the sphere, of the whole gradient."""
    tangent = slope - a * (slope @ a) / (a @ a)
    return float(np.linalg.norm(tangent) / np.linalg.norm(slope))
