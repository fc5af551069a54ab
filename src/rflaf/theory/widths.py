"""Numbers of random features that suffice: Theorem 3.2 and Corollaries 3.3, 3.4, 3.7 and 3.8."""

from __future__ import annotations

import math

from rflaf.errors import InvalidParameterError

from .rules import check_delta, check_fraction, check_lambda, check_positive

PAPER_CONSTANT = 5.0


def width(mass: float, dimension: float, delta: float, constant: float = PAPER_CONSTANT) -> int:
    """Return the number of features of Theorem 3.2, drawn from q = l~ / mass for any l~ >= l with integral ``mass``.

    s >= 5 mass log(16 d / delta). The constant 5 is the paper's. Its Lemma E.4 gives 1/e^2 + 2/(3e) = 16/3 at e = 1/2
    and loses a factor of two in the exponent; `bernstein_width` keeps that factor.

    >>> width(mass=10.0, dimension=10.0, delta=0.1)
    369
    """
    check_positive("mass", mass, "It is the integral of the bound on the leverage score function.")
    check_positive("dimension", dimension, "Use effective_dimension.")
    check_delta(delta)
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
    check_lambda(lam)
    return width(bound**2 / lam, dimension, delta, constant)


def bernstein_width(mass: float, dimension: float, delta: float, accuracy: float = 0.5, top: float = 1.0) -> int:
    """Return the width of Lemma E.4 with every constant of the matrix Bernstein inequality (Lemma E.6).

    2 mass (top / e^2 + 2 / (3 e)) log(8 d / (top delta)) features bring the Gram matrix within ``accuracy`` e, where
    ``top`` = mu_1 / (mu_1 + lambda) lies between 1/2 and 1 under Assumption 2.2.
    """
    check_positive("mass", mass, "It is the integral of the bound on the leverage score function.")
    check_positive("dimension", dimension, "Use effective_dimension.")
    check_delta(delta)
    check_fraction("accuracy", accuracy)
    if not 0.5 <= top <= 1:
        raise InvalidParameterError("top must lie between 1/2 and 1", top, "Use 1.")
    rate = 2 * mass * (top / accuracy**2 + 2 / (3 * accuracy))
    return max(1, math.ceil(rate * math.log(8 * dimension / (top * delta))))
