"""Numbers of random features: Theorems 3.2, 4.1 and 4.2, Corollaries 3.3, 3.4, 3.7 and 3.8, Lemmas E.3, E.4 and E.6.

Three constants for three claims, of a draw of s features from q = l~ / mass, with d the effective dimension:

| claim | features | event, of probability 1 - delta | status |
| --- | --- | --- | --- |
| "printed" | 5 mass log(16 d / delta) | that of Theorem 3.2 | not proved by its steps; fails for large d |
| "one-sided" | 8 (mass + 1/6) log(8 d / delta) | risk at most 2 lambda for every f at once: Lemma E.3 | holds |
| "two-sided" | 32/3 mass log(8 d / delta) | Gram matrix within 1/2 on both sides: Lemma E.4 | holds |

Lemma E.3 needs the lower side only: K^ must not be too small. There the summands of the Bernstein inequality are at
most one, because a rank one matrix only ever adds, and the factor 2/3 mass of the two-sided inequality becomes 1/6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from rflaf.errors import InvalidParameterError

from .dimension import check_delta, check_fraction, check_lambda, check_positive

PAPER_CONSTANT = 5.0
Claim = Literal["printed", "one-sided", "two-sided"]
CLAIMS: tuple[Claim, ...] = get_args(Claim)
_WORTH_IT, _IDLE = 6.0, 2.0  # spreads: measured gains are large above the first, and none below the second


def width(mass: float, dimension: float, delta: float, constant: float = PAPER_CONSTANT) -> int:
    """Return the number of features of Theorem 3.2, drawn from q = l~ / mass for any l~ >= l with integral ``mass``.

    s >= 5 mass log(16 d / delta), as printed. Lemma E.4 gives 1/e^2 + 2/(3e) = 16/3 at e = 1/2 in place of 5, and loses
    a factor of two in the exponent; `one_sided_width` and `bernstein_width` hold.

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


def one_sided_width(mass: float, dimension: float, delta: float) -> int:
    """Return 8 (mass + 1/6) log(8 d / delta), at which Lemma E.3 holds for every f of norm one at once.

    The intrinsic matrix Bernstein inequality for the largest eigenvalue of K - K^, relative to K + n lambda I, has the
    exponent (e^2 / 2) s / (top (mass + e / 3)) and the factor 4 d / top, with ``top`` = mu_1 / (mu_1 + lambda) between
    1/2 and 1 under Assumption 2.2; here e = 1/2. On equal eigenvalues no constant below 6.5 suffices.

    >>> one_sided_width(mass=10.0, dimension=10.0, delta=0.1)
    544
    """
    _check_sizes(mass, dimension, delta)
    return max(1, math.ceil(8 * (mass + 1 / 6) * math.log(8 * dimension / delta)))


def width_for(claim: Claim, mass: float, dimension: float, delta: float) -> int:
    """Return the number of features of a claim: "printed", "one-sided" or "two-sided", see the table of the module.

    >>> [width_for(claim, mass=10.0, dimension=10.0, delta=0.1) for claim in CLAIMS]
    [369, 544, 714]
    """
    if claim not in CLAIMS:
        listed = ", ".join(map(repr, CLAIMS))
        raise InvalidParameterError(f"the claim must be one of {listed}", claim, "Use 'one-sided'.")
    return {"printed": width, "one-sided": one_sided_width, "two-sided": bernstein_width}[claim](mass, dimension, delta)


@dataclass(frozen=True, slots=True)
class AlgorithmWidths:
    """The pair of Theorems 4.1 and 4.2: s directions in the pool, S drawn from it."""

    pool_size: int
    n_components: int


def algorithm_widths(
    bound: float,
    lam: float,
    dimension: float,
    lam_star: float,
    dimension_star: float,
    delta: float,
    claim: Claim = "one-sided",
) -> AlgorithmWidths:
    """Return s and S of Theorems 4.1 and 4.2: a plain pool at lambda, and leverage sampling at lambda*.

    ``bound`` is |sigma|, ``dimension`` d at lambda under K~, and ``dimension_star`` d at lambda* under the kernel of
    the pool. s has the mass |sigma|^2 / lambda and S the mass d(lambda*). The scores must be those at lambda*. As
    printed, either event fails with probability delta; the claims that hold share delta between the two.

    >>> algorithm_widths(1.0, 0.01, 20.0, 0.01, 20.0, delta=0.1, claim="printed")
    AlgorithmWidths(pool_size=4036, n_components=808)
    """
    check_positive("bound", bound, "It is the largest absolute value of the activation.")
    check_lambda(lam_star)
    each = delta if claim == "printed" else check_delta(delta) / 2
    pool = width_for(claim, bound**2 / check_lambda(lam), dimension, each)
    return AlgorithmWidths(pool, width_for(claim, dimension_star, dimension_star, each))


def leverage_advice(spread: float) -> str:
    """Return whether leverage sampling is worth it, by the largest score over the mean, its largest possible gain.

    >>> leverage_advice(23.2)
    'the scores spread 23: leverage sampling is worth it'
    """
    check_positive("spread", spread, "It is the largest score over the mean.")
    size = f"{spread:.0f}" if spread >= 10 else f"{spread:.1f}"
    if spread >= _WORTH_IT:
        return f"the scores spread {size}: leverage sampling is worth it"
    gain = "may gain a little" if spread >= _IDLE else "gains nothing"
    return f"the scores spread {size}: leverage sampling {gain}"


def _check_sizes(mass: float, dimension: float, delta: float) -> None:
    check_positive("mass", mass, "It is the integral of the bound on the leverage score function.")
    check_positive("dimension", dimension, "Use effective_dimension.")
    check_delta(delta)
