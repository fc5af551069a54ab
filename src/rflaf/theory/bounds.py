"""Risk bounds term by term and the settings they ask for: Theorems 3.2, 3.6, 4.1 and 4.2."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .rules import Case, check_case, check_fraction, check_lambda, check_positive


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
    """Return the bound of Theorem 3.2 or 3.6, which holds with probability 1 - delta at the widths of `widths`.

    squared:    4 lambda       + C / (h sqrt(n)) + 2 epsilon
    lipschitz:  4 sqrt(lambda) + C / (h sqrt(n)) + epsilon

    ``constant`` is C. For the squared loss the paper's epsilon is the square of the error of the activation.
    """
    return RiskBound(
        _sampling_term(case, lam),
        _complexity_term(h, n_samples, constant),
        {"squared": 2.0, "lipschitz": 1.0}[case] * check_fraction("epsilon", epsilon),
    )


def algorithm_bound(
    case: Case, lam: float, lam_star: float, h: float, n_samples: float, epsilon: float, constant: float = 1.0
) -> RiskBound:
    """Return the bound of Theorem 4.1 or 4.2 for Algorithm 1: a plain pool at lambda, leverage sampling at lambda*.

    squared:    4 lambda + 4 lambda*             + C / (h sqrt(n)) + 4 epsilon
    lipschitz:  4 sqrt(lambda) + 4 sqrt(lambda*) + C / (h sqrt(n)) + 2 epsilon
    """
    return RiskBound(
        _sampling_term(case, lam),
        _complexity_term(h, n_samples, constant),
        {"squared": 4.0, "lipschitz": 2.0}[case] * check_fraction("epsilon", epsilon),
        _sampling_term(case, lam_star),
    )


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


def _complexity_term(h: float, n_samples: float, constant: float) -> float:
    check_positive("h", h, "Use grid_for.")
    check_positive("n_samples", n_samples, "Give the number of rows.")
    return constant / (h * math.sqrt(n_samples))
