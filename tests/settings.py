"""Arguments that several test modules fit estimators with."""

from __future__ import annotations

PAPER = {"directions": "random", "activation": "shared"}  # with plain or leverage sampling
CONVEX = {"directions": "random", "activation": "per_component"}


def limited(make, *args, **arguments):
    """An estimator whose search for an activation has other limits, ``max_iter`` and ``tol``, than the usual ones."""
    limits = {name: arguments.pop(name) for name in ("max_iter", "tol") if name in arguments}
    estimator = make(*args, **arguments)
    if limits:
        estimator._retired = limits
    return estimator
