"""The context of a fit: what every step of it reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rflaf.rows.blocks import BlockSource
from rflaf.rows.executors import Executor

from .problem import Problem
from .specification import FitSpec


@dataclass(frozen=True, slots=True)
class Fit:
    """The problem, the specification, the generator of all random numbers, and the executor of all passes."""

    problem: Problem
    spec: FitSpec
    rng: np.random.Generator
    executor: Executor

    @property
    def source(self) -> BlockSource:
        """The rows with scaled targets."""
        return self.problem.source

    @property
    def closed_form(self) -> bool:
        """Whether sums over the rows determine the output weights."""
        return self.problem.loss.closed_form

    def respecified(self, **changes: Any) -> Fit:
        """Return the context under a changed specification."""
        return replace(self, spec=replace(self.spec, **changes))
