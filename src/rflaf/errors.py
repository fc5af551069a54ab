"""What every room shares: the array type, the errors and warnings, and how a fit can end.

Every error message states the rule that was broken, the value that broke it and the remedy. Imports nothing of rflaf.

>>> raise InvalidParameterError("alpha must be at least zero", -1.0, "Pass alpha='auto' to have it chosen.")
Traceback (most recent call last):
rflaf.errors.InvalidParameterError: alpha must be at least zero; got -1.0. Pass alpha='auto' to have it chosen.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


class InvalidParameterError(ValueError):
    """An argument breaks a rule. A ``ValueError``, so that callers need not know this package."""

    def __init__(self, rule: str, value: object, remedy: str) -> None:
        super().__init__(f"{rule}; got {value!r}. {remedy}")
        self.rule = rule
        self.value = value
        self.remedy = remedy

    def __reduce__(self) -> tuple[type[InvalidParameterError], tuple[str, object, str]]:
        return type(self), (self.rule, self.value, self.remedy)


class MissingExtraError(ImportError):
    """A feature needs a package that only an extra of this one installs."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f"{what} need {package}, which is not installed. Run  pip install 'rflaf[{extra}]'")


class DataNotFoundError(FileNotFoundError):
    """A file of a public data set is neither on this computer nor to be had from its publisher."""


class MemoryBudgetError(InvalidParameterError):
    """The memory a fit may use is too small for the smallest block it needs."""


class UnreadableModelFile(ValueError):  # noqa: N818, it is the file that is so
    """A file is no model, or a damaged or forged one."""

    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"{path} cannot be read as a model: {reason}")
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type[UnreadableModelFile], tuple[object, str]]:
        return type(self), (self.path, self.reason)


class OutlierWarning(UserWarning):
    """Some targets were taken for outliers and weigh less in the fit."""


class IntervalWarning(UserWarning):
    """Some projections lie where a fixed activation is no longer followed."""


class AssumptionWarning(UserWarning):
    """An assumption of the theory does not hold for the numbers given."""


class ClusterError(RuntimeError):
    """The cluster that held the rows was lost before the work was done."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the cluster was lost: {reason}. Connect a new client, persist the rows again and try again.")
        self.reason = reason

    def __reduce__(self) -> tuple[type[ClusterError], tuple[str]]:
        return type(self), (self.reason,)


class CheckpointWarning(UserWarning):
    """A checkpoint can no longer be written; the fit goes on without."""


class StopReason(Enum):
    """How the search for the activation ended; the value is advice."""

    CONVERGED = "converged: the objective no longer falls"
    ITERATIONS = "stopped at the most steps before it converged: raise alpha, or lower n_components"
    ROUNDING = "converged to rounding: no step lowers the objective any more"
    GRADIENT = "converged: the gradient is within tolerance of zero"
    NOTHING_TO_LEARN = "nothing to learn: the target or every column is constant"
    TRAINED = "trained: directions, curves and activations together, for a fixed number of epochs"
    CONVEX = "solved: one convex problem, no search"

    def __reduce__(self) -> tuple[type[Enum], tuple[str]]:
        """Rebuild by the value, for tools that store objects without pickle."""
        return type(self), (self.value,)
