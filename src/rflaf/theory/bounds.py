"""Risk bounds, the settings they ask for, and numbers of random features.

Theorems 3.2, 3.6, 4.1 and 4.2, Corollaries 3.3, 3.4, 3.7 and 3.8, and the growth of the widths in Tables 1 and 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rflaf.errors import InvalidParameterError

from .dimension import Case, check_case, check_delta, check_fraction, check_lambda, check_positive

PAPER_CONSTANT = 5.0


@dataclass(frozen=True, slots=True)
class RiskBound:
    """Upper bound on the excess risk, term by term.

    Attributes
    ----------
    sampling : 4 lambda or 4 sqrt(lambda), for finitely many features
    complexity : C / (h sqrt(n)), Rademacher complexity of the learned activation
    approximation : error of N basis functions
    resampling : 4 lambda* or 4 sqrt(lambda*), for drawing from the pool; zero without a pool

    >>> risk_bound("squared", lam=0.01, h=0.5, n_samples=10_000, epsilon=0.01)
    RiskBound(sampling=0.04, complexity=0.02, approximation=0.02, resampling=0.0)
    """

    sampling: float
    complexity: float
    approximation: float
    resampling: float = 0.0

    @property
    def total(self) -> float:
        return self.sampling + self.complexity + self.approximation + self.resampling


def risk_bound(case: Case, lam: float, h: float, n_samples: float, epsilon: float, constant: float = 1.0) -> RiskBound:
    """Return the bound of Theorem 3.2 or 3.6, which holds with probability 1 - delta at `width` features.

    squared:    4 lambda       + C / (h sqrt(n)) + 2 epsilon
    lipschitz:  4 sqrt(lambda) + C / (h sqrt(n)) + epsilon

    ``constant`` is C. For the squared loss the paper's epsilon is the square of the error of the activation.
    """
    sampling = _sampling_term(case, lam)
    check_positive("h", h, "Use grid_for.")
    check_positive("n_samples", n_samples, "Give the number of rows.")
    factor = 2.0 if case == "squared" else 1.0
    return RiskBound(sampling, constant / (h * math.sqrt(n_samples)), factor * check_fraction("epsilon", epsilon))


def algorithm_bound(
    case: Case, lam: float, lam_star: float, h: float, n_samples: float, epsilon: float, constant: float = 1.0
) -> RiskBound:
    """Return the bound of Theorem 4.1 or 4.2 for Algorithm 1: a plain pool at lambda, leverage sampling at lambda*.

    squared:    4 lambda + 4 lambda*             + C / (h sqrt(n)) + 4 epsilon
    lipschitz:  4 sqrt(lambda) + 4 sqrt(lambda*) + C / (h sqrt(n)) + 2 epsilon
    """
    pool = risk_bound(case, lam, h, n_samples, epsilon, constant)
    return replace(pool, approximation=2 * pool.approximation, resampling=_sampling_term(case, lam_star))


def lambda_for(case: Case, epsilon: float) -> float:
    """Return the lambda whose sampling term is ``epsilon``: epsilon / 4 (squared) or (epsilon / 4)^2 (Lipschitz)."""
    quarter = check_fraction("epsilon", epsilon) / 4
    return quarter if check_case(case) == "squared" else quarter**2


@dataclass(frozen=True, slots=True)
class Grid:
    """Grid of the activation: ``n_basis`` functions of width ``h`` on an interval of length one."""

    n_basis: int
    h: float


def grid_for(case: Case, epsilon: float, constant: float = 1.0) -> Grid:
    """Return a grid fine enough for a risk of order ``epsilon``, up to ``constant``.

    squared (Theorem 3.2):               1/h = (log(1/e) / e)^(1/2),  N = log(1/e)^(3/2) / e
    lipschitz (Theorem 3.6, Lemma 2.1):  1/h = log(1/e)^(1/2) / e,    N = log(1/e)^(3/2) / e^2

    >>> grid_for("squared", 0.1).n_basis
    35
    """
    e = check_fraction("epsilon", epsilon)
    log = math.log(1 / e)
    rate = e if check_case(case) == "squared" else e**2
    return Grid(max(2, math.ceil(constant * log**1.5 / rate)), math.sqrt(rate / log) / constant)


def n_samples_for(h: float, epsilon: float) -> int:
    """Return the number of rows at which 1 / (h sqrt(n)) is ``epsilon``: n = 1 / (epsilon h)^2."""
    check_positive("h", h, "Use grid_for.")
    return math.ceil(1 / (check_fraction("epsilon", epsilon) * h) ** 2)


def _sampling_term(case: Case, lam: float) -> float:
    check_lambda(lam)
    return 4 * (lam if check_case(case) == "squared" else math.sqrt(lam))


def width(mass: float, dimension: float, delta: float, constant: float = PAPER_CONSTANT) -> int:
    """Return the number of features of Theorem 3.2, drawn from q = l~ / mass for any l~ >= l with integral ``mass``.

    s >= 5 mass log(16 d / delta). Lemma E.4 gives 1/e^2 + 2/(3e) = 16/3 at e = 1/2 in place of 5, and loses a factor of
    two in the exponent; `bernstein_width` keeps it.

    >>> width(mass=10.0, dimension=10.0, delta=0.1)
    369
    """
    _check_sizes(mass, dimension, delta)
    return max(1, math.ceil(constant * mass * math.log(16 * dimension / delta)))


def leverage_width(dimension: float, delta: float, constant: float = PAPER_CONSTANT) -> int:
    """Return 5 d log(16 d / delta), the number of leverage-weighted features of Corollaries 3.3 and 3.7."""
    return width(dimension, dimension, delta, constant)


def plain_width(bound: float, lam: float, dimension: float, delta: float, constant: float = PAPER_CONSTANT) -> int:
    """Return (5 |sigma|^2 / lambda) log(16 d / delta), the number of plain features of Corollaries 3.4 and 3.8.

    ``bound`` is |sigma|, the largest absolute value of the activation.

    >>> plain_width(bound=1.0, lam=0.1, dimension=10.0, delta=0.1)
    369
    """
    check_positive("bound", bound, "It is the largest absolute value of the activation.")
    return width(bound**2 / check_lambda(lam), dimension, delta, constant)


def bernstein_width(mass: float, dimension: float, delta: float, accuracy: float = 0.5, top: float = 1.0) -> int:
    """Return the width of Lemma E.4 with every constant of the matrix Bernstein inequality (Lemma E.6).

    2 mass (top / e^2 + 2 / (3 e)) log(8 d / (top delta)) features bring the Gram matrix within ``accuracy`` e, where
    ``top`` = mu_1 / (mu_1 + lambda) lies between 1/2 and 1 under Assumption 2.2.
    """
    _check_sizes(mass, dimension, delta)
    check_fraction("accuracy", accuracy)
    if not 0.5 <= top <= 1:
        raise InvalidParameterError("top must lie between 1/2 and 1", top, "Use 1.")
    rate = 2 * mass * (top / accuracy**2 + 2 / (3 * accuracy))
    return max(1, math.ceil(rate * math.log(8 * dimension / (top * delta))))


@dataclass(frozen=True, slots=True)
class Growth:
    """Cell of Table 1 or 2: s grows as (1/e)^power log(1/e)^logs loglog(1/e)^loglogs.

    ``by_rate``: the power of 1/e is divided by t, for eigenvalues that decay as i^-t.
    """

    scheme: str
    spectrum: str
    power: float
    logs: float
    loglogs: float
    by_rate: bool = False

    def exponent(self, t: float = 1.0) -> float:
        """Return the power of 1/e: the slope of log s in log(1/e) without the logarithms."""
        return self.power / t if self.by_rate else self.power

    def order(self, epsilon: ArrayLike, t: float = 1.0) -> Any:
        """Return the order at ``epsilon`` below exp(-1), where loglog(1/e) is above zero."""
        e = np.asarray(epsilon, dtype=np.float64)
        if not np.all((e > 0) & (e < math.exp(-1))):
            raise InvalidParameterError("epsilon must lie between 0 and exp(-1)", epsilon, "Try 0.1.")
        log = np.log(1 / e)
        return np.exp(self.exponent(t) * log) * log**self.logs * np.log(log) ** self.loglogs

    @property
    def formula(self) -> str:
        """The cell as the paper prints it.

        >>> [cell.formula for cell in growth_table("squared")][:3]
        ['1', 'log(1/e) loglog(1/e)', '(1/e)^(1/t) log(1/e)']
        """
        base = {0.0: "", 1.0: "1/e", 2.0: "1/e^2"}[self.power]
        power = f"({base})^(1/t)" if self.by_rate else f"({base})" if base else ""
        factors = [power, "log(1/e)" if self.logs else "", "loglog(1/e)" if self.loglogs else ""]
        return " ".join(factor for factor in factors if factor) or "1"


def growth_table(case: Case) -> tuple[Growth, ...]:
    """Return Table 1 (squared loss) or Table 2 (Lipschitz losses) of the paper as data."""
    power = 1.0 if check_case(case) == "squared" else 2.0
    return (
        Growth("leverage", "finite rank", 0.0, 0.0, 0.0),
        Growth("leverage", "exponential", 0.0, 1.0, 1.0),
        Growth("leverage", "polynomial", power, 1.0, 0.0, by_rate=True),
        Growth("plain", "finite rank", power, 0.0, 0.0),
        Growth("plain", "exponential", power, 0.0, 1.0),
        Growth("plain", "polynomial", power, 1.0, 0.0),
        Growth("former result", "any", 2.0, 0.0, 0.0),
    )


def render_growth_table(case: Case) -> str:
    """Return `growth_table` in Markdown."""
    rows = [f"| {cell.scheme} | {cell.spectrum} | {cell.formula} |" for cell in growth_table(case)]
    return "\n".join(["| sampling | spectrum | features for risk O(e) |", "| --- | --- | --- |", *rows])


def _check_sizes(mass: float, dimension: float, delta: float) -> None:
    check_positive("mass", mass, "It is the integral of the bound on the leverage score function.")
    check_positive("dimension", dimension, "Use effective_dimension.")
    check_delta(delta)
