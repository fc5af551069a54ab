"""Quadratic B-splines of the paper's experiments, as defined and as published.

A function of the grid point c lives on three cells of length h, from c - h to c + 2h, with m = c + h/2 its middle:

    B_c(z) = 2 / (3 h^2) * { (z - c + h)^2,   3/2 h^2 - 2 (z - m)^2,   (z - c - 2h)^2 }

This is 4/3 of the usual quadratic B-spline: continuous, non-negative, largest value one, zero outside its cells. The
published code uses h m instead of m in the middle piece, which is neither continuous nor bounded
below as the grid gets finer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rflaf.errors import Array
from rflaf.functions.bases import Pieces, second_difference_penalty


@dataclass(frozen=True, slots=True)
class QuadraticSpline:
    """Basis of quadratic B-splines at ``n_basis`` equidistant grid points, ends included.

    >>> QuadraticSpline(n_basis=5).values(0.5)
    array([0.        , 0.16666667, 1.        , 0.16666667, 0.        ])
    """

    n_basis: int = 17
    interval: tuple[float, float] = (-2.0, 2.0)

    @property
    def step(self) -> float:
        return (self.interval[1] - self.interval[0]) / (self.n_basis - 1)

    def middle(self, points: Array) -> Array:
        """Return the peaks of the middle pieces of the grid ``points``."""
        return points + self.step / 2

    def values(self, z: ArrayLike) -> Array:
        z, h = np.asarray(z, float)[..., None], self.step
        c = np.linspace(*self.interval, self.n_basis)
        cell = np.floor((z - c) / h) + 1
        pieces = ((z - c + h) ** 2, 1.5 * h**2 - 2 * (z - self.middle(c)) ** 2, (z - c - 2 * h) ** 2)
        return 2 / (3 * h**2) * np.select([cell == 0, cell == 1, cell == 2], pieces, 0.0)

    def slopes(self, z: ArrayLike) -> Array:
        z, h = np.asarray(z, float)[..., None], self.step
        c = np.linspace(*self.interval, self.n_basis)
        cell = np.floor((z - c) / h) + 1
        pieces = (2 * (z - c + h), -4 * (z - self.middle(c)), 2 * (z - c - 2 * h))
        return 2 / (3 * h**2) * np.select([cell == 0, cell == 1, cell == 2], pieces, 0.0)

    def penalty(self) -> Array:
        return second_difference_penalty(self.n_basis)

    def pieces(self, a: Array | None = None, tolerance: float = 1e-6) -> Pieces:
        n_cells, h = self.n_basis + 2, self.step
        c = np.linspace(*self.interval, self.n_basis)
        away = c + h / 2 - self.middle(c)  # from the middle of the cell to the peak
        coefficients = np.zeros((n_cells, self.n_basis, 4))
        every = np.arange(self.n_basis)
        coefficients[every, every, :3] = h**2 * np.array([1 / 4, 1, 1])
        coefficients[every + 1, every, 0] = 1.5 * h**2 - 2 * away**2
        coefficients[every + 1, every, 1] = -4 * away * h
        coefficients[every + 1, every, 2] = -2 * h**2
        coefficients[every + 2, every, :3] = h**2 * np.array([1 / 4, -1, 1])
        return Pieces(self.interval[0] - h, h, 2 / (3 * h**2) * coefficients)


@dataclass(frozen=True, slots=True)
class PublishedSpline(QuadraticSpline):
    """Spline with the middle piece of the published code, which dips to -62, -296 and -1278 for 17, 33 and 65 points.

    >>> round(float(PublishedSpline().values(np.linspace(-2, 2.5, 10001)).min()))
    -62
    """

    def middle(self, points: Array) -> Array:
        return (points + self.step / 2) * self.step
