"""Directions from the leverage density itself, by acceptance: the limit of Algorithm 1 for an infinite pool.

The paper's theorems draw from q(w) = l(w) / d, the leverage score function over its integral. Algorithm 1 draws from a
pool instead, because K~ is unknown. Where it is known in closed form (`rflaf.theory.kernels`), w ~ p is accepted with
probability (l(w) / p(w)) / (|sigma|^2 / lambda), which is at most one, and accepted directions follow q exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.densities import Directions, Gaussian

from .dimension import check_lambda, largest_eigenvalue, warn_if_above
from .kernels import RBFKernel

_PROPOSALS = 256  # at a time; a constant, so that a wider draw begins with a narrower one
_LEAST_ACCEPTED = 1e-6


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LeverageDensity:
    """q(w) = l(w) / d with l(w) = p(w) sigma(Xw)' (K + n lambda I)^-1 sigma(Xw), for p = N(0, I) and K in closed form.

    Corollaries 3.3 and 3.7. A `Density` whose directions carry the weights sqrt(p/q), so that estimators take it:
    ``RFLAFRegressor(..., density=LeverageDensity(kernel_of(pilot), X, lam), bandwidth=pilot.bandwidth_)`` runs line 6
    of Algorithm 1 on these directions, and K_q = K. Memory is a few (n_rows, n_rows).

    Parameters
    ----------
    kernel : RBFKernel
        Kernel of the activation.
    X : array of shape (n_rows, n_features)
        Rows that the scores are of; a sample of some thousand rows is enough.
    lam : float
        lambda of the scores.

    Attributes
    ----------
    effective_dimension : float, d = tr K (K + n lambda I)^-1, the integral of l

    >>> from rflaf.functions.bases import RBFBasis
    >>> kernel = RBFKernel(RBFBasis(), np.sin(np.arange(16.0)))
    >>> q = LeverageDensity(kernel, np.random.default_rng(0).standard_normal((40, 2)), lam=0.02)
    >>> W = q.sample(2, 100, np.random.default_rng(1))
    >>> bool(np.allclose(q.importance(W) ** 2, np.exp(Gaussian().log_density(W) - q.log_density(W))))
    True
    """

    kernel: RBFKernel
    X: Array
    lam: float
    effective_dimension: float = field(init=False)
    _inverse_root: Array = field(init=False)
    _ceiling: float = field(init=False)
    name: ClassVar[str] = "leverage"

    def __post_init__(self) -> None:
        check_lambda(self.lam)
        rows = np.asarray(self.X, dtype=np.float64)
        K = self.kernel(rows)
        n = len(K)
        warn_if_above(self.lam, largest_eigenvalue(K) / n, stacklevel=4)
        root = scipy.linalg.cholesky(K + n * self.lam * np.eye(n), lower=True)
        inverse = scipy.linalg.solve_triangular(root, np.eye(n), lower=True)
        object.__setattr__(self, "X", rows)
        object.__setattr__(self, "_inverse_root", inverse)
        object.__setattr__(self, "_ceiling", self.kernel.bound**2 / self.lam)
        object.__setattr__(self, "effective_dimension", n - n * self.lam * float(np.sum(inverse**2)))

    def __repr__(self) -> str:
        d = self.effective_dimension
        return f"LeverageDensity({len(self.X)} rows, lam={self.lam!r}, effective_dimension={d!r})"

    @property
    def acceptance(self) -> float:
        """Share of directions from p that are accepted, d lambda / |sigma|^2."""
        return self.effective_dimension / self._ceiling

    def ratio(self, W: ArrayLike) -> Array:
        """Return l(w) / p(w) (n_directions,) of directions ``W`` (n_features, n_directions); its mean under p is d."""
        W = np.asarray(W, dtype=np.float64)
        parts = [self._of_features(self.kernel.features(self.X, part)) for part in _parts(W)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def value(self, W: ArrayLike) -> Array:
        """Return the leverage score function l(w) (n_directions,); its integral is d."""
        return np.exp(Gaussian().log_density(W)) * self.ratio(W)

    def log_density(self, W: ArrayLike) -> Array:
        """Return log q(w) (n_directions,)."""
        return Gaussian().log_density(W) + np.log(self.ratio(W) / self.effective_dimension)

    def importance(self, W: ArrayLike) -> Array:
        """Return sqrt(p(w) / q(w)) (n_directions,)."""
        return np.sqrt(self.effective_dimension / self.ratio(W))

    def sample(self, n_features: int, n_components: int, rng: np.random.Generator) -> Array:
        """Draw directions w ~ q as columns (n_features, n_components), for inputs in the units of the kernel."""
        if n_features != self.X.shape[1]:
            rule = f"directions must have the {self.X.shape[1]} entries of the density's rows"
            raise InvalidParameterError(rule, n_features, "Make the density from rows of the same columns.")
        if not self.acceptance > _LEAST_ACCEPTED:
            rule = f"a share of at least {_LEAST_ACCEPTED:g} of the directions must be accepted"
            raise InvalidParameterError(rule, self.acceptance, "Raise lambda, or draw from a pool by Algorithm 1.")
        kept, n_kept = [np.empty((n_features, 0))], 0
        while n_kept < n_components:
            kept.append(self._accepted(n_features, rng))
            n_kept += kept[-1].shape[1]
        return np.hstack(kept)[:, :n_components]

    def directions(self, n_components: int, rng: np.random.Generator) -> Directions:
        """Draw directions for raw inputs, with their importance sqrt(p/q)."""
        W = self.sample(self.X.shape[1], n_components, rng)
        drawn = Directions(W, np.zeros(n_components), self.importance(W), n_components)
        ones = np.ones(self.X.shape[1])
        return drawn.fold(self.kernel.center * ones, self.kernel.scale * ones)

    def _accepted(self, n_features: int, rng: np.random.Generator) -> Array:
        """Propose directions from p and return those accepted; l / p <= mean sigma^2 / lambda saves most solves."""
        W = Gaussian().sample(n_features, _PROPOSALS, rng)
        threshold = rng.random(_PROPOSALS) * self._ceiling
        Z = self.kernel.features(self.X, W)
        possible = np.flatnonzero(threshold < np.mean(Z**2, axis=0) / self.lam)
        return W[:, possible[threshold[possible] < self._of_features(Z[:, possible])]]

    def _of_features(self, Z: Array) -> Array:
        """Return z' (K + n lambda I)^-1 z of every column."""
        return np.sum((self._inverse_root @ Z) ** 2, axis=0)


def _parts(W: Array) -> list[Array]:
    return [W[:, start : start + _PROPOSALS] for start in range(0, W.shape[1], _PROPOSALS)]
