"""J(a) of a shared activation on all rows and all components, with its derivatives, by passes over the rows.

    J(a) = min over v, b   1/n sum_i w_i |y_i - b - sum_m q_m v_m sigma_a(u_im)|^2 + ridge |v|^2

With K = Z'Z/n + ridge I centred, H(v)[i, k] = sum_m q_m v_m B_k(u_im), r the residuals and
C[k, m] = 1/n sum_i w_i r_i q_m B_k(u_im), summed over the outputs,

    gradient = -2 C v,        Hessian = 2 ( H'H/n - (H'Z/n - C) K^-1 (H'Z/n - C)' )

both exact, since the model is linear in ``a`` and in ``v``. One pass sums Z'Z and Z'y, a second one all that the
derivatives need; neither keeps more than a block of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from rflaf.errors import Array
from rflaf.functions._kernels import curvature as _curvature
from rflaf.functions._kernels import features as _kernels
from rflaf.functions.bases import Pieces
from rflaf.functions.densities import Directions
from rflaf.model.features import FeatureMap, compile_map
from rflaf.model.normal_equations import NormalEquations
from rflaf.model.ridge import RidgeSolution, RidgeSystem
from rflaf.rows.blocks import Block, BlockSource, Scratch
from rflaf.rows.executors import Executor


@dataclass(frozen=True, slots=True)
class Place:
    """An activation ``a`` (n_basis,), the solution over v there, and the equations it solves."""

    a: Array
    equations: NormalEquations
    system: RidgeSystem
    solution: RidgeSolution

    @property
    def value(self) -> float:
        """J(a)."""
        return self.solution.objective


@dataclass(frozen=True, slots=True)
class WholeProblem:
    """J(a) for a given ridge."""

    source: BlockSource
    directions: Directions
    pieces: Pieces
    ridge: float
    intercept: bool
    executor: Executor

    @property
    def precision(self) -> float:
        """Relative rounding of J."""
        return float(np.finfo(self.source.dtype).eps)

    def with_ridge(self, ridge: float) -> Self:
        """Return the problem under another ridge."""
        return replace(self, ridge=ridge)

    def compiled(self, a: Array) -> FeatureMap:
        """The features under the activation ``a``."""
        return compile_map(self.directions, self.pieces, a[None], self.source.dtype)

    def at(self, a: Array) -> Place:
        """Solve for v at the activation ``a``: one pass."""
        return self.of_equations(a, self.equations(a))

    def equations(self, a: Array) -> NormalEquations:
        """The normal equations under the activation ``a``."""
        return self.compiled(a).sum_equations(self.source, self.executor).scale(self.directions.importance)

    def of_equations(self, a: Array, equations: NormalEquations) -> Place:
        """Solve for v, the equations given."""
        system = equations.system(self.intercept)
        return Place(a, equations, system, system.solve(self.ridge))

    def derivatives(self, place: Place) -> tuple[Array, Array]:
        """Gradient (n_basis,) and Hessian (n_basis, n_basis) of J: one pass."""
        sums = self.products(place, self.source).centred(place.system)
        gradient = -2 * np.einsum("oki,io->k", sums.C, place.solution.v)
        hessian = np.zeros((gradient.size, gradient.size))
        for HH, cross in zip(sums.HH, sums.HZ - sums.C, strict=True):
            hessian += 2 * (HH - cross @ place.solution.factor.solve(cross.T))
        return gradient, hessian

    def products(self, place: Place, source: BlockSource) -> Products:
        """H'H, H'Z, C and H'1 by output, summed over the rows of a source."""
        features, solution, importance = self.compiled(place.a), place.solution, self.directions.importance
        v, dtype = (importance[:, None] * solution.v).astype(self.source.dtype), self.source.dtype
        cubics = np.ascontiguousarray(self.pieces.coefficients.transpose(0, 2, 1), dtype)
        n_basis = cubics.shape[2]

        def sum_products(block: Block, scratch: Scratch) -> Products:
            u, z = projected(features, block, scratch)
            residual = _residual(z, block, v, solution.intercept)
            H = np.zeros((v.shape[1], block.n_rows, n_basis), dtype)
            C = np.zeros((v.shape[1], u.shape[0], n_basis))
            _curvature.contract_and_scatter(u, v, residual, cubics, H, C)
            weighted = H if block.weight is None else H * block.weight[:, None].astype(dtype)
            HH = (weighted.transpose(0, 2, 1) @ H).astype(np.float64)
            HZ = (z @ weighted).transpose(0, 2, 1).astype(np.float64)
            return Products(HH, HZ, C.transpose(0, 2, 1), weighted.sum(axis=1, dtype=np.float64), _total(block))

        sums = self.executor.reduce(source, sum_products, "measure the curvature of the activation")
        return replace(sums, HZ=sums.HZ * importance, C=sums.C * importance)


@dataclass(slots=True)
class Products:
    """Sums over rows: H'H (n_outputs, n_basis, n_basis), H'Z and C (n_outputs, n_basis, n_components), H'1."""

    HH: Array
    HZ: Array
    C: Array
    ones: Array
    weight: float

    def __iadd__(self, other: Products) -> Products:
        self.HH = self.HH + other.HH
        self.HZ = self.HZ + other.HZ
        self.C = self.C + other.C
        self.ones = self.ones + other.ones
        self.weight += other.weight
        return self

    def centred(self, system: RidgeSystem) -> Products:
        """Means of the products, centred as the system is."""
        mean = self.ones / self.weight * system.n_intercepts
        HH = self.HH / self.weight - mean[:, :, None] * mean[:, None, :]
        HZ = self.HZ / self.weight - mean[:, :, None] * system.z_mean
        return replace(self, HH=HH, HZ=HZ, C=self.C / self.weight)


def projected(features: FeatureMap, block: Block, scratch: Scratch) -> tuple[Array, Array]:
    """Cell coordinates and features of a block, (n_components, n_rows) each."""
    size = features.n_components, block.n_rows
    u = features.cells(block.X, scratch.array("cells", size, features.dtype))
    z = scratch.array("z", size, features.dtype)
    _kernels.activate(u, features.table, z)
    return u, z


def _residual(z: Array, block: Block, v: Array, intercept: Array) -> Array:
    """Weighted residuals (n_outputs, n_rows) of a block, for features without their importance."""
    residual = np.ascontiguousarray(block.y.T - intercept[:, None] - v.T @ z, z.dtype)
    return residual if block.weight is None else residual * block.weight.astype(z.dtype)


def _total(block: Block) -> float:
    """The sum of the weights of a block."""
    return float(block.n_rows if block.weight is None else block.weight.sum(dtype=np.float64))
