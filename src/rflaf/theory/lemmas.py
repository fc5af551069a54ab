"""The class of functions and its complexity, bounds on the effective dimension by decay, and the costs of Algorithm 1.

Section 3.1 (the radius R of F_V), Appendix C (equations (10) and (11), four cases of decay), Lemmas E.1 and E.2, and
the time and space complexity of Section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from rflaf.errors import InvalidParameterError

from .dimension import check_delta, check_eigenvalues, check_lambda, check_positive, warn_if_above

DecayCase = Literal["finite rank", "exponential", "polynomial", "harmonic"]


def activation_radius(h: float, n_basis: int, constant: float = 1.0) -> float:
    """Return R = C / (h sqrt(N)), the largest |a| in the class F_V of Section 3.1; ``constant`` is C.

    >>> activation_radius(h=0.4, n_basis=16)
    0.625
    """
    check_positive("h", h, "Use grid_for.")
    check_positive("n_basis", n_basis, "It is the number N of basis functions.")
    return constant / (h * math.sqrt(n_basis))


def rademacher_bound(
    radius: float, largest_importance: float, n_basis: int, n_samples: int, lipschitz: float = 1.0
) -> float:
    """Return 2 L R max sqrt(p/q) sqrt(N / n), the bound of Lemma E.1 on the Rademacher complexity of F_B.

    F_B has |a| <= R and |v| <= 2 / sqrt(s), so |Qv| <= K_2 = 2 max sqrt(p/q) / sqrt(s), and the bound is
    L R K_2 sqrt(N s / n). With R = C / (h sqrt(N)) it is 2 L C max sqrt(p/q) / (h sqrt(n)): the O(1 / (h sqrt(n))) of
    the paper holds ``largest_importance`` = max_i sqrt(p(w_i) / q(w_i)), which is one under plain sampling only.

    >>> rademacher_bound(activation_radius(0.4, 16), 1.0, 16, 10_000)
    0.05
    """
    for name, value in (("radius", radius), ("largest_importance", largest_importance), ("lipschitz", lipschitz)):
        check_positive(name, value, "Give a number above zero.")
    check_positive("n_basis", n_basis, "It is the number N of basis functions.")
    check_positive("n_samples", n_samples, "Give the number of rows.")
    return 2 * lipschitz * radius * largest_importance * math.sqrt(n_basis / n_samples)


def generalisation_gap(rademacher: float, largest_loss: float, n_samples: int, delta: float) -> float:
    """Return 2 R + 4 c sqrt(2 log(4 / delta) / n), which the risk on new rows exceeds that on the rows by at most.

    Lemma E.2 with the constants of Theorem 26.5 of Shalev-Shwartz and Ben-David (2014), with probability 1 - delta:
    ``rademacher`` is R on the rows, and ``largest_loss`` is c, the largest absolute value of the loss.

    >>> round(generalisation_gap(0.05, 1.0, 10_000, delta=0.1), 3)
    0.209
    """
    check_positive("rademacher", rademacher, "Use rademacher_bound.")
    check_positive("largest_loss", largest_loss, "It is the largest absolute value of the loss.")
    check_positive("n_samples", n_samples, "Give the number of rows.")
    return 2 * rademacher + 4 * largest_loss * math.sqrt(2 * math.log(4 / check_delta(delta)) / n_samples)


@dataclass(frozen=True, slots=True)
class TailBound:
    """Equation (11) on a spectrum, d <= C m with m the number of eigenvalues of at least lambda.

    Attributes
    ----------
    count : m; d is at least m / 2
    constant : C = 1 + sum of the eigenvalues below lambda / (m lambda)
    """

    count: int
    constant: float

    @property
    def bound(self) -> float:
        """C m."""
        return self.constant * self.count


def tail_bound(eigenvalues: ArrayLike, lam: float) -> TailBound:
    """Return m and C of equation (11) for eigenvalues mu (k,) of K / n: m / 2 <= d <= C m.

    A term mu / (mu + lambda) is at most one above lambda and at most mu / lambda below it. C does not grow with n where
    the tail sums to a multiple of lambda m, as it does for cases 1 to 3 of Appendix C; for a harmonic decay it grows.

    >>> tail_bound([1.0, 0.5, 0.1, 0.1], lam=0.5)
    TailBound(count=2, constant=1.2)
    """
    mu = check_eigenvalues(eigenvalues)
    warn_if_above(check_lambda(lam), float(mu.max()))
    count = int(np.count_nonzero(mu >= lam))
    if count == 0:
        raise InvalidParameterError("an eigenvalue must be at least lambda", float(mu.max()), "Lower lambda.")
    return TailBound(count, 1 + float(mu[mu < lam].sum()) / (count * lam))


def dimension_bound(
    case: DecayCase, lam: float, *, rate: float = math.nan, constant: float = 1.0, n_samples: float = math.inf
) -> float:
    """Return an upper bound on d for eigenvalues mu_m of a law, the four cases of Appendix C with their constants.

    | case | law | bound | in the paper |
    | --- | --- | --- | --- |
    | 1, "finite rank" | mu_m = 0 for m > r | r | O(1) |
    | 2, "exponential" | mu_m <= c A^m | log(1 + c / lambda) / log(1 / A) | O(log(1 / lambda)) |
    | 3, "polynomial" | mu_m <= c m^-t, t > 1 | (c / lambda)^(1/t) (pi / t) / sin(pi / t) | O((1 / lambda)^(1/t)) |
    | 4, "harmonic" | mu_m <= c / m | (c / lambda) log(1 + n lambda / c) | O(log(n) / lambda) |

    Each is the integral of 1 / (1 + lambda / law(m)) over m, which the sum (10) does not exceed. ``rate`` is r, A or t,
    ``constant`` is c, and case 4 needs ``n_samples``.

    >>> round(dimension_bound("polynomial", 0.01, rate=2.0), 3)
    15.708
    """
    check_lambda(lam)
    check_positive("constant", constant, "It is c of the law.")
    if case == "finite rank":
        check_positive("rate", rate, "It is the rank.")
        return float(rate)
    if case == "exponential":
        _check_between("A", rate, 0, 1)
        return math.log1p(constant / lam) / math.log(1 / rate)
    if case == "polynomial":
        _check_between("t", rate, 1, math.inf)
        return float((constant / lam) ** (1 / rate) * (math.pi / rate) / math.sin(math.pi / rate))
    if case != "harmonic":
        rule = "the case must be 'finite rank', 'exponential', 'polynomial' or 'harmonic'"
        raise InvalidParameterError(rule, case, "Use that of classify_decay.")
    check_positive("n_samples", n_samples, "The bound grows with the number of rows.")
    return constant / lam * math.log1p(n_samples * lam / constant)


def _check_between(name: str, rate: float, low: float, high: float) -> None:
    if not low < rate < high:
        raise InvalidParameterError(f"the rate {name} must lie between {low} and {high}", rate, "See classify_decay.")


@dataclass(frozen=True, slots=True)
class Cost:
    """Row of the complexity of Section 4: a step of Algorithm 1, its order, and that order in numbers."""

    step: str
    kind: Literal["time", "space"]
    formula: str
    order: float


def complexity_table(
    n_samples: float, n_features: float, n_basis: float, pool_size: float, n_components: float, epochs: float = 1
) -> tuple[Cost, ...]:
    """Return the time and space complexity of Algorithm 1 in Section 4, with constants of one.

    ``epochs`` E is that of an iterative solver, per search.

    >>> complexity_table(1000, 10, 16, 500, 50)[2]
    Cost(step='line 6', kind='time', formula='E n max(d, N) S', order=800000)
    """
    n, d, N, s, S, E = n_samples, n_features, n_basis, pool_size, n_components, epochs
    wide = max(d, N)
    return (
        Cost("line 2", "time", "E n max(d, N) s", E * n * wide * s),
        Cost("line 3", "time", "n s^2 + s^3", n * s**2 + s**3),
        Cost("line 6", "time", "E n max(d, N) S", E * n * wide * S),
        Cost("a prediction", "time", "max(d, N) S", wide * S),
        Cost("a prediction of the pool", "time", "max(d, N) s", wide * s),
        Cost("the pool W", "space", "d s", d * s),
        Cost("line 3", "space", "s^2", s**2),
    )


def render_complexity_table() -> str:
    """Return the formulas of `complexity_table` in Markdown."""
    rows = [f"| {cost.step} | {cost.kind} | {cost.formula} |" for cost in complexity_table(1, 1, 1, 1, 1)]
    return "\n".join(["| step of Algorithm 1 | of | order |", "| --- | --- | --- |", *rows])
