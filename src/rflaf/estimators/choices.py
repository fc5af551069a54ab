"""Values of ``sampling`` and ``activation`` that have settings of their own, and the tests of single values.

A setting that breaks its rule is refused where the object is made, with the rule, the value and the remedy. The names
"leverage", "greedy" and "shared" stand for `LeverageSampling`, `GreedySelection` and `SharedActivation` with their
defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from rflaf.errors import InvalidParameterError

Test = Callable[[Any], bool]
Rule = tuple[Test, str, str]  # test, words for it, remedy
_LARGEST = float(np.finfo(np.float64).max)

AUTO_COUNT = "must be 'auto' or a whole number, at least 1"
AUTO_POSITIVE = "must be 'auto' or a number above zero"


def is_whole(value: Any) -> bool:
    """Return whether ``value`` is an integer, and no truth value."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    """Return whether ``value`` is an integer of at least one."""
    return is_whole(value) and value >= 1


def is_number(value: Any) -> bool:
    """Return whether ``value`` is a real number that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    size: Any = abs(value)
    return bool(size <= _LARGEST)


def is_positive(value: Any) -> bool:
    """Return whether ``value`` is a number above zero."""
    return is_number(value) and value > 0


def is_non_negative(value: Any) -> bool:
    """Return whether ``value`` is a number of at least zero."""
    return is_number(value) and value >= 0


def is_flag(value: Any) -> bool:
    """Return whether ``value`` is a truth value."""
    return isinstance(value, bool | np.bool_)


def or_word(word: str, test: Test) -> Test:
    """Return a test that a word passes too."""
    return lambda value: (isinstance(value, str) and value == word) or test(value)


def _or_none(test: Test) -> Test:
    """Return a test that None passes too."""
    return lambda value: value is None or test(value)


def one_of(*names: str) -> Rule:
    """Return the rule of an argument that takes names only."""
    listed = " or ".join(map(repr, names))
    return lambda value: isinstance(value, str) and value in names, f"must be {listed}", f"Use {names[0]!r}."


def check(name: str, value: Any, rule: Rule) -> None:
    """Refuse a value that breaks its rule."""
    holds, words, remedy = rule
    if not holds(value):
        raise InvalidParameterError(f"{name} {words}", value, remedy)


_POOL: Rule = (or_word("auto", is_count), AUTO_COUNT, "Use 'auto'.")
_ALPHA: Rule = (
    or_word("fit", or_word("auto", is_positive)),
    "must be 'auto', 'fit' or a number above zero",
    "'auto' is 1 / sqrt(n_samples), as in the paper.",
)
_ROWS: Rule = (or_word("all", is_count), "must be 'all' or a whole number, at least 1", "Use 'all'.")


@dataclass(frozen=True, slots=True)
class LeverageSampling:
    """Draw components from a pool in proportion to their ridge leverage scores: Algorithm 1, lines 2 to 5.

    >>> LeverageSampling(pool_size=2000)
    LeverageSampling(pool_size=2000, alpha='auto', rows='all', balance='proof', replace=True)

    Parameters
    ----------
    pool_size : int or "auto", default="auto"
        Number s of directions in the pool. "auto" is ten times the width, between 1,000 and 5,000.
    alpha : float, "auto" or "fit", default="auto"
        lambda of the leverage scores. "auto" is 1 / sqrt(n_samples); "fit" is lambda*, the ``alpha`` of the estimator,
        for which Theorem 4.1 needs the scores, or where that is "auto" the ridge that the pool was fitted with.
    rows : int or "all", default="all"
        Number of rows that the scores are computed from. For a sample, ``leverage_.relative_error`` estimates the
        error of the scores; a sample wins where one pass over all rows with the whole pool takes too long.
    balance : {"proof", "printed"}, default="proof"
        What the pool's activation minimises in line 2: the ridge problem (6), as the proof of Theorem 4.1 says, or
        problem (8) as printed. That one has no ridge on ``v``: its penalty lambda_0 (|a|^2 - |v|^2)^2 vanishes at the
        minimum and only balances the two, whatever lambda_0 is.
    replace : bool, default=True
        Whether one direction may be drawn several times, as in the paper. If not, S different directions are drawn by
        systematic Poisson sampling: direction i with probability pi_i = min(1, c p_i), where c makes the pi_i sum to
        S, and its importance is sqrt(S / (s pi_i)). Both give the kernel of the pool in the mean.
    """

    pool_size: int | str = "auto"
    alpha: float | str = "auto"
    rows: int | str = "all"
    balance: str = "proof"
    replace: bool = True
    name: ClassVar[str] = "leverage"

    def __post_init__(self) -> None:
        check("pool_size", self.pool_size, _POOL)
        check("alpha", self.alpha, _ALPHA)
        check("rows", self.rows, _ROWS)
        check("balance", self.balance, one_of("proof", "printed"))
        check("replace", self.replace, (is_flag, "must be True or False", "The paper draws with replacement."))

    def settings(self) -> dict[str, Any]:
        return {
            "sampling": self.name,
            "pool_size": None if self.pool_size == "auto" else int(self.pool_size),
            "leverage_alpha": None if isinstance(self.alpha, str) else float(self.alpha),
            "leverage_at_fit": self.alpha == "fit",
            "leverage_rows": None if self.rows == "all" else int(self.rows),
            "balanced": self.balance == "printed",
            "replace": bool(self.replace),
        }


@dataclass(frozen=True, slots=True)
class GreedySelection:
    """Choose from a pool the components that lower the error most, one after the other.

    Parameters
    ----------
    pool_size : int or "auto", default="auto"
        Number of directions in the pool. "auto" is forty times the width, between 6,000 and 12,000, and at least twice
        the width.
    """

    pool_size: int | str = "auto"
    name: ClassVar[str] = "greedy"

    def __post_init__(self) -> None:
        check("pool_size", self.pool_size, _POOL)

    def settings(self) -> dict[str, Any]:
        return {"sampling": self.name, "pool_size": None if self.pool_size == "auto" else int(self.pool_size)}


@dataclass(frozen=True, slots=True)
class SharedActivation:
    """One activation for all components, and how far it is searched for: lines 2 and 6 of Algorithm 1.

    minimise over a, v    1/n sum_i loss(f(x_i), y_i) + alpha S |v|^2 + l1 |a|_1    subject to |a| = R

    >>> SharedActivation(search="exact")
    SharedActivation(search='exact', radius=None, l1=0.0)

    Parameters
    ----------
    search : {"sample", "exact"}, default="sample"
        "sample" learns the activation from at most 6,000 rows and 256 components. "exact" continues from there on all
        rows and all components to the minimum: the gradient along the sphere is zero to rounding at the reported
        ``alpha_`` and radius. Small problems are searched from many starts, as there are local minima. Under another
        loss than the squared one this holds of line 6; the pool of line 2 is learned from the sample. On protein
        "exact" lowers the error by 1 % (S=100, 300) to 2 % (S=1000) for 5 to 17 times the time, so it is no default.
    radius : float or None, default=None
        R, the length of the coefficients. None is the one at which the activation has mean square one over the rows
        and components that it was first learned from.
    l1 : float, default=0.0
        Penalty on the absolute values of the coefficients, for targets of variance one (mean square one without
        intercept). It leaves few of them non-zero: an activation of few basis functions, easier to write down.
    """

    search: str = "sample"
    radius: float | None = None
    l1: float = 0.0

    def __post_init__(self) -> None:
        check("search", self.search, one_of("sample", "exact"))
        check("radius", self.radius, (_or_none(is_positive), "must be None or a number above zero", "Use None."))
        check("l1", self.l1, (is_non_negative, "must be a number, at least zero", "Use 0.0."))

    def settings(self) -> dict[str, Any]:
        radius = None if self.radius is None else float(self.radius)
        return {"per_component": False, "exact": self.search == "exact", "radius": radius, "l1": float(self.l1)}


Sampling = str | LeverageSampling | GreedySelection
ActivationChoice = str | SharedActivation
_NAMED: dict[str, LeverageSampling | GreedySelection] = {"leverage": LeverageSampling(), "greedy": GreedySelection()}


def resolve_sampling(sampling: Sampling) -> LeverageSampling | GreedySelection | None:
    """Return the object that a name stands for; None for plain sampling."""
    return _NAMED.get(sampling) if isinstance(sampling, str) else sampling


def resolve_activation(activation: ActivationChoice) -> SharedActivation | None:
    """Return the object that a name stands for; None for one activation per component."""
    if isinstance(activation, str):
        return SharedActivation() if activation == "shared" else None
    return activation
