"""J(a) of a shared activation from sums over the rows alone, where components and basis functions are few.

The products of all basis functions of all components, M = Phi'Phi with Phi = [q_m B_k(u_m)], determine J(a) of
`rflaf.training.solvers.whole_problem` and its derivatives for every ``a``: one pass over the rows, then a descent costs
no more and many starts are affordable.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from rflaf.errors import Array
from rflaf.functions.bases import Pieces
from rflaf.functions.densities import Directions
from rflaf.model.features import compile_map
from rflaf.model.normal_equations import NormalEquations
from rflaf.rows.blocks import BlockSource
from rflaf.rows.executors import Executor

from .per_component import ExpandedMap, combine
from .whole_problem import Place


@dataclass(frozen=True, slots=True)
class MomentProblem:
    """J(a) for a given ridge; ``products`` are the normal equations of all functions of all components."""

    products: NormalEquations
    n_basis: int
    ridge: float
    intercept: bool

    @classmethod
    def of_rows(
        cls, source: BlockSource, directions: Directions, pieces: Pieces, intercept: bool, executor: Executor
    ) -> Self:
        """Sum the products in one pass; the ridge is yet to be set."""
        n_basis = pieces.coefficients.shape[1]
        to_cells = compile_map(directions, pieces, np.zeros((1, n_basis)), source.dtype)
        expanded = ExpandedMap(to_cells, pieces, np.eye(n_basis))
        importance = np.repeat(directions.importance, n_basis)
        return cls(expanded.sum_equations(source, executor).scale(importance), n_basis, 0.0, intercept)

    @property
    def precision(self) -> float:
        """Relative rounding of J."""
        return self.products.precision

    @property
    def n_components(self) -> int:
        return self.products.n_components // self.n_basis

    def with_ridge(self, ridge: float) -> Self:
        """Return the problem under another ridge."""
        return replace(self, ridge=ridge)

    def equations(self, a: Array) -> NormalEquations:
        """The normal equations under the activation ``a``."""
        return combine(self.products, np.tile(a, (self.n_components, 1)))

    def at(self, a: Array) -> Place:
        """Solve for v at the activation ``a``."""
        return self.of_equations(a, self.equations(a))

    def of_equations(self, a: Array, equations: NormalEquations) -> Place:
        """Solve for v, the equations given."""
        system = equations.system(self.intercept)
        return Place(a, equations, system, system.solve(self.ridge))

    def derivatives(self, place: Place) -> tuple[Array, Array]:
        """Gradient (n_basis,) and Hessian (n_basis, n_basis) of J."""
        v, products = place.solution.v, self.products
        size, shape = products.n_components, (self.n_components, self.n_basis)
        M, weight = products.moments, products.weight
        theta = (v[:, None, :] * place.a[:, None]).reshape(size, -1)
        left = np.vstack([-theta, -place.solution.intercept[None], np.eye(v.shape[1])])
        C = (M[:size] @ left / weight).reshape(*shape, -1)
        gradient = -2 * np.einsum("mko,mo->k", C, v)
        hessian = np.zeros((self.n_basis, self.n_basis))
        for o in range(v.shape[1]):
            HM = np.einsum("m,mkj->kj", v[:, o], M[:size].reshape(*shape, -1)) / weight  # H' [Phi | 1 | y] / n
            own = HM[:, :size].reshape(self.n_basis, *shape)
            mean = HM[:, size] * place.system.n_intercepts
            HH = np.einsum("kml,m->kl", own, v[:, o]) - np.outer(mean, mean)
            cross = own @ place.a - np.outer(mean, place.system.z_mean) - C[:, :, o].T
            hessian += 2 * (HH - cross @ place.solution.factor.solve(cross.T))
        return gradient, hessian
