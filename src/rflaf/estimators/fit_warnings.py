"""What a fit warns of: outliers, projections beyond an interval, an assumption that is broken, too few steps."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator

from sklearn.exceptions import ConvergenceWarning

from rflaf.errors import AssumptionWarning, IntervalWarning, OutlierWarning, StopReason
from rflaf.training.final_fit import FitResult
from rflaf.training.solvers.leverage import Pool

from .choices import GreedySelection, LeverageSampling

_log = logging.getLogger("rflaf")
_MOST_BEYOND = 1e-3  # share of projections that a fixed activation may miss without a warning


def warn_of_fit(result: FitResult, sampling: LeverageSampling | GreedySelection | None) -> None:
    """Warn where ``fit`` of an estimator was called."""
    for message, category in _warnings_of(result, sampling):
        warnings.warn(message, category, stacklevel=4)


def _warnings_of(
    result: FitResult, sampling: LeverageSampling | GreedySelection | None
) -> Iterator[tuple[str, type[Warning]]]:
    if result.outliers is not None:
        yield str(result.outliers), OutlierWarning
    if result.beyond > _MOST_BEYOND:
        basis = result.model.activation.basis
        message = f"{result.beyond:.1%} of the projections lie beyond the interval of {basis!r}, where it is constant: "
        yield message + "pass a FixedActivation with a longer interval, or a larger bandwidth", IntervalWarning
    if result.pool is not None and result.pool.lam > result.pool.largest_eigenvalue:
        if isinstance(sampling, LeverageSampling) and sampling.alpha != "auto":
            yield _too_large(result.pool), AssumptionWarning
        else:
            _log.info("%s", _too_large(result.pool))  # 1 / sqrt(n) is too large for some few rows
    if result.stop_reason is StopReason.ITERATIONS:
        yield f"the fit {result.stop_reason.value}", ConvergenceWarning


def _too_large(pool: Pool) -> str:
    """Say that lambda of the leverage scores breaks Assumption 2.2 of the paper."""
    return (
        f"lambda must be at most the largest eigenvalue of the kernel, {pool.largest_eigenvalue:.3g} (Assumption 2.2 "
        f"of the paper); got {pool.lam:.3g}. Give LeverageSampling a smaller alpha."
    )
