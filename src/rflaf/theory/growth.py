"""Orders of growth of the number of features: Tables 1 and 2."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rflaf.errors import InvalidParameterError

from .rules import Case, check_case


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
