"""How a fit ended, in words that say what to do about it."""

from __future__ import annotations

from enum import Enum


class StopReason(Enum):
    """How the search for the activation ended; the value is advice."""

    CONVERGED = "converged: the objective no longer falls by more than tol"
    ITERATIONS = "stopped at max_iter before it converged: raise max_iter or tol"
    ROUNDING = "converged to rounding: no step lowers the objective any more"
    GRADIENT = "converged: the gradient is within tolerance of zero"
    NOTHING_TO_LEARN = "nothing to learn: the target or every column is constant"
    TRAINED = "trained: directions, curves and activations together, for a fixed number of epochs"
    CONVEX = "solved: one convex problem, no search"
