"""Two ways to choose random directions from a pool, as values of the argument ``sampling``.

The names "leverage" and "greedy" stand for `LeverageSampling` and `GreedySelection` with their defaults.

>>> LeverageSampling(pool_size=2000)
LeverageSampling(pool_size=2000, alpha='auto', rows='all')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .rules import AUTO_COUNT, AUTO_POSITIVE, Rule, check, is_count, is_positive, or_word

_POOL: Rule = (or_word("auto", is_count), AUTO_COUNT, "Use 'auto'.")
_ALPHA: Rule = (or_word("auto", is_positive), AUTO_POSITIVE, "'auto' is 1 / sqrt(n_samples), as in the paper.")
_ROWS: Rule = (or_word("all", is_count), "must be 'all' or a whole number, at least 1", "Use 'all'.")


@dataclass(frozen=True, slots=True)
class LeverageSampling:
    """Draw components from a pool in proportion to their ridge leverage scores: Algorithm 1, lines 2 to 5.

    Parameters
    ----------
    pool_size : int or "auto", default="auto"
        Number s of directions in the pool. "auto" is ten times the width, between 1,000 and 5,000.
    alpha : float or "auto", default="auto"
        lambda of the leverage scores. "auto" is 1 / sqrt(n_samples).
    rows : int or "all", default="all"
        Number of rows that the scores are computed from. For a sample, ``leverage_.relative_error`` estimates the
        error of the scores; a sample wins where one pass over all rows with the whole pool takes too long.
    """

    pool_size: int | str = "auto"
    alpha: float | str = "auto"
    rows: int | str = "all"
    name: ClassVar[str] = "leverage"

    def __post_init__(self) -> None:
        check("pool_size", self.pool_size, _POOL)
        check("alpha", self.alpha, _ALPHA)
        check("rows", self.rows, _ROWS)

    def settings(self) -> dict[str, Any]:
        """Return the fields of a `rflaf.training.specification.FitSpec`."""
        return {
            "sampling": self.name,
            "pool_size": None if self.pool_size == "auto" else int(self.pool_size),
            "leverage_alpha": None if self.alpha == "auto" else float(self.alpha),
            "leverage_rows": None if self.rows == "all" else int(self.rows),
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
        """Return the fields of a `rflaf.training.specification.FitSpec`."""
        return {"sampling": self.name, "pool_size": None if self.pool_size == "auto" else int(self.pool_size)}


Sampling = str | LeverageSampling | GreedySelection
_NAMED: dict[str, LeverageSampling | GreedySelection] = {"leverage": LeverageSampling(), "greedy": GreedySelection()}


def resolve_sampling(sampling: Sampling) -> LeverageSampling | GreedySelection | None:
    """Return the object that a name stands for; None for plain sampling."""
    return _NAMED.get(sampling) if isinstance(sampling, str) else sampling
