"""Risk bounds, the settings they ask for, and the growth of the widths.

Theorems 3.2, 3.6, 4.1 and 4.2, Lemma 2.1, and Tables 1 and 2; `rflaf.theory.widths` has the numbers of features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rflaf.errors import InvalidParameterError

from .dimension import Case, check_case, check_fraction, check_lambda, check_positive


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


def risk_bound(
    case: Case,
    lam: float,
    h: float,
    n_samples: float,
    epsilon: float,
    constant: float = 1.0,
    lipschitz: float = 1.0,
) -> RiskBound:
    """Return the bound of Theorem 3.2 or 3.6, which holds with probability 1 - delta at `width_for` features.

    squared:    4 lambda         + C / (h sqrt(n))   + 2 epsilon
    lipschitz:  4 L sqrt(lambda) + L C / (h sqrt(n)) + L epsilon

    ``constant`` is C. For the squared loss the paper's epsilon is the square of the error of the activation. A loss of
    Lipschitz constant L over L meets Assumption 3.5; lambda is the penalty of that quotient, so problem (7) of the loss
    itself has the penalty L lambda.
    """
    L = check_lipschitz(case, lipschitz)
    sampling = _sampling_term(case, lam)
    check_positive("h", h, "Use grid_for.")
    check_positive("n_samples", n_samples, "Give the number of rows.")
    factor = 2.0 if case == "squared" else L
    return RiskBound(
        L * sampling, L * constant / (h * math.sqrt(n_samples)), factor * check_fraction("epsilon", epsilon)
    )


def algorithm_bound(
    case: Case,
    lam: float,
    lam_star: float,
    h: float,
    n_samples: float,
    epsilon: float,
    constant: float = 1.0,
    lipschitz: float = 1.0,
) -> RiskBound:
    """Return the bound of Theorem 4.1 or 4.2 for Algorithm 1: a plain pool at lambda, leverage sampling at lambda*.

    squared:    4 lambda + 4 lambda*                 + C / (h sqrt(n))   + 4 epsilon
    lipschitz:  4 L sqrt(lambda) + 4 L sqrt(lambda*) + L C / (h sqrt(n)) + 2 L epsilon
    """
    pool = risk_bound(case, lam, h, n_samples, epsilon, constant, lipschitz)
    resampling = lipschitz * _sampling_term(case, lam_star)
    return replace(pool, approximation=2 * pool.approximation, resampling=resampling)


def lambda_for(case: Case, epsilon: float, lipschitz: float = 1.0) -> float:
    """Return the lambda whose sampling term is ``epsilon``: epsilon / 4 (squared) or (epsilon / 4 L)^2 (Lipschitz).

    >>> lambda_for("lipschitz", 0.4), lambda_for("lipschitz", 0.4, lipschitz=2.0)
    (0.010000000000000002, 0.0025000000000000005)
    """
    quarter = check_fraction("epsilon", epsilon) / (4 * check_lipschitz(case, lipschitz))
    return quarter if case == "squared" else quarter**2


def check_lipschitz(case: Case, lipschitz: float) -> float:
    """Return L, which must be a number above zero, and one for the squared loss."""
    check_case(case)
    check_positive("lipschitz", lipschitz, "A loss without a Lipschitz constant has no theorem.")
    if case == "squared" and lipschitz != 1:
        raise InvalidParameterError("the squared loss has no Lipschitz constant", lipschitz, "Leave it out.")
    return lipschitz


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
