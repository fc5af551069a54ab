"""Lines 2 and 3 of Algorithm 1: the fit of the whole pool and its scores, and the report of lines 1 to 5.

Line 2 as the proof of Theorem 4.1 has it solves problem (6), a ridge on v with |a| = R. As printed it solves

    (8)    minimise over a, v    1/n |Z(a) v - y|^2 + lambda_0 (|a|^2 - |v|^2)^2

whose second term is zero at the minimum for any lambda_0 > 0: of all products (c a, v / c), which are one model, some
has |a| = |v|. So (8) is least squares without a ridge, then balanced. It matters for line 3: scores compare
Z(a)'Z(a) / s with n lambda, and the two problems give ``a`` another length.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rflaf.errors import Array
from rflaf.functions.densities import Directions

from .pools import learn_activation, sum_products
from .problem import Fit
from .solvers.exact_search import ExactTask, descend
from .solvers.leverage import Leverage, Pool, PoolSums, largest_eigenvalue
from .solvers.shared_activation import LearnedActivation

_NO_RIDGE = 1e-12  # of the mean square of a feature: where rounding begins


@dataclass(frozen=True, slots=True)
class FittedPool:
    """Line 2: activation, ridge, sums over the rows, and output weights and intercept in the units of y.

    The latter are None under a loss without a closed form: lines 3 to 6 do not need them.
    """

    activation: LearnedActivation
    ridge: float
    sums: PoolSums
    v: Array | None = None
    intercept: Array | None = None

    def scores(self, fit: Fit) -> Leverage:
        """Line 3: return the ridge leverage scores."""
        lam = fit.spec.leverage_alpha
        if fit.spec.leverage_at_fit:
            lam = self.activation.alpha if fit.spec.alpha is None else fit.spec.alpha
        return self.sums.scores(lam).settled()


def fit_pool(fit: Fit, pool: Directions, start: LearnedActivation | None) -> FittedPool:
    """Line 2: learn the activation of the pool, by problem (6) or (8)."""
    if fit.spec.balanced:
        return _balanced(fit, pool, start)
    learned = learn_activation(fit, pool, start)
    ridge = pool.n_draws * (learned.alpha if fit.spec.alpha is None else fit.spec.alpha)
    learned = _at_minimum(fit, pool, learned, ridge)
    sums = sum_products(fit, pool, learned.a)
    return FittedPool(learned, ridge, sums, *_solution(fit, sums, ridge))


def _balanced(fit: Fit, pool: Directions, start: LearnedActivation | None) -> FittedPool:
    """Problem (8): least squares to rounding, then |a| = |v| in the units of y."""
    free = fit.respecified(alpha=_NO_RIDGE, radius=None, l1=0.0)  # features of mean square one, as this ridge asks
    first, ridge = learn_activation(fit, pool, start), _NO_RIDGE * pool.n_draws
    learned = replace(_at_minimum(free, pool, learn_activation(free, pool, first), ridge), alpha=first.alpha)
    sums = sum_products(fit, pool, learned.a)
    v, intercept = _solution(fit, sums, ridge)
    size = 1.0 if v is None else float(np.linalg.norm(v) / np.linalg.norm(learned.a))
    factor = size**0.5 if size > 0 else 1.0
    v = None if v is None else v / factor
    return FittedPool(replace(learned, a=learned.a * factor), 0.0, sums.scaled(factor), v, intercept)


def _at_minimum(fit: Fit, pool: Directions, learned: LearnedActivation, ridge: float) -> LearnedActivation:
    """Descend on all rows and the whole pool, if the search is to be exact and the loss has a closed form.

    Under another loss every step is a fit of the whole pool, minutes for 2,000 rows and a pool of 1,000.
    """
    spec = fit.spec
    if not spec.exact or not fit.closed_form:
        return learned
    task = ExactTask(fit.source, pool, spec.basis, spec.intercept, fit.rng, fit.executor, spec.l1)
    descent = descend(task, learned.a, ridge, lambda a, equations: ridge)
    return replace(learned, a=descent.place.a, stop_reason=descent.stop_reason)


def _solution(fit: Fit, sums: PoolSums, ridge: float) -> tuple[Array | None, Array | None]:
    """Output weights and intercept of the pool, in the units of y."""
    if not fit.closed_form:
        return None, None
    solution, units = sums.equations.system(fit.spec.intercept).solve(ridge), fit.problem.units
    return solution.v * units.stretch, units.shift + units.stretch * solution.intercept


def report_pool(fit: Fit, pool: Directions, fitted: FittedPool, leverage: Leverage, drawn: Directions) -> Pool:
    """Return what lines 1 to 5 found, in the units of X and y."""
    kept = np.arange(0) if leverage.kept is None else leverage.kept
    q, s = leverage.probabilities, pool.n_components
    counts = np.rint(drawn.importance**2 * s * q[kept]) if fit.spec.replace else np.ones(kept.size)
    found = leverage.scores, q, kept, counts.astype(np.int64), largest_eigenvalue(fitted.sums.equations)
    return Pool(
        pool.W, pool.offset, fitted.activation.a, fitted.v, fitted.intercept, fitted.ridge, leverage.lam, *found
    )
