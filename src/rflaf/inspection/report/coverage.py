"""The share of the rows of a report that intervals, or sets of labels, hold."""

from __future__ import annotations

import numpy as np

from rflaf.training.calibration import label_scores

from .findings import Findings
from .wording import figure_of, per_cent

_COVERAGES = (0.5, 0.9)


def coverage_of(findings: Findings) -> str:
    """Say how many targets lie in their intervals, or labels in their sets; nothing where the model has none."""
    estimator = findings.subject.estimator
    if getattr(estimator, "_bands", None) is not None:
        return _of_intervals(findings)
    return _of_sets(findings) if getattr(estimator, "_radii", None) is not None else ""


def _of_intervals(findings: Findings) -> str:
    offset = None if findings.offset is None else findings.offset[:, 0]
    limits = findings.subject.estimator._limits(findings.rows, list(_COVERAGES), False, offset)
    limits = limits if limits.ndim == 3 else limits[:, 0]
    if not np.isfinite(limits).all():  # too few rows were held out
        return ""
    y, parts = findings.target[:, 0], []
    for at, coverage in enumerate(_COVERAGES):
        low, high = limits[:, at].T
        share, width = per_cent(float(np.mean((low <= y) & (y <= high)))), figure_of(float(np.mean(high - low)))
        parts.append(f"{coverage:.0%} hold {share} of the targets, {width} wide in the mean")
    return f" Its intervals of {', those of '.join(parts)}."


def _of_sets(findings: Findings) -> str:
    estimator, coverage = findings.subject.estimator, _COVERAGES[-1]
    scores = label_scores(findings.subject.model.decision(findings.rows), estimator.loss_)
    inside = (scores <= estimator._radii.at(coverage)[0]) | (scores == scores.min(axis=1, keepdims=True))
    share = per_cent(float(inside[np.arange(findings.n_rows), findings.target].mean()))
    size = figure_of(float(inside.sum(axis=1).mean()))
    labels = "one label each" if size == "1" else f"{size} labels in the mean"
    return f" Its sets of {coverage:.0%} coverage hold the label of {share} of the rows, with {labels}."
