"""One self-contained page about a fitted model on some data.

What the model is, how good beside the usual models, how fast, what it learned, which columns matter, how wide it has to
be, where it errs and what is odd about the data. The page is a single file that fetches nothing; its charts are drawn
here as SVG, and a small script lets one read values off them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from rflaf import __version__
from rflaf.estimators.width_plan import WidthPlan
from rflaf.rows.files.outputs import check_output, replacing

from .evidence import Evidence, gather
from .markup import count_of
from .model_facts import rung
from .page import compose
from .scores import tiles, verdict
from .sections import write_sections
from .subject import subject_of

__all__ = ["render_report", "write_report"]


def write_report(
    model: Any,
    X: Any,
    y: ArrayLike,
    path: str | os.PathLike[str],
    *,
    train: tuple[Any, ArrayLike] | None = None,
    feature_names: Sequence[str] | None = None,
    title: str | None = None,
    plan: WidthPlan | None = None,
    facts: Mapping[str, str] | None = None,
) -> Path:
    """Write a report about ``model`` on rows ``X`` with targets ``y`` to one HTML file, whole or not at all.

    Parameters
    ----------
    model : a fitted estimator, a pipeline that ends in one, an object with ``encoding`` and ``estimator``, or a
        `RandomFeatureModel`
    X, y : rows as the model takes them, best ones it was not fitted on, and their targets
    path : where to write; its folder must exist
    train : rows and targets to fit the usual models on that the model is compared with; without them they are
        fitted in turn on four fifths of the rows given
    feature_names : names of the columns, where the model knows none
    title : of the page
    plan : what `rflaf.plan` says of the width, if that is known already
    facts : more to be said of the model, by name: where it comes from, when it was fitted

    Returns
    -------
    path : of the file written
    """
    target = Path(path)
    check_output(target)
    page = render_report(model, X, y, train=train, feature_names=feature_names, title=title, plan=plan, facts=facts)
    with replacing(target) as part:
        part.write_text(page, encoding="utf-8")
    return target


def render_report(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    train: tuple[Any, ArrayLike] | None = None,
    feature_names: Sequence[str] | None = None,
    title: str | None = None,
    plan: WidthPlan | None = None,
    facts: Mapping[str, str] | None = None,
) -> str:
    """The page of `write_report` as text."""
    evidence = gather(subject_of(model, feature_names), X, y, train, plan, facts or {})
    lead = f"{rung(evidence.subject)} {verdict(evidence)}"
    return compose(title or _title(evidence), lead, _origin(evidence), tiles(evidence), write_sections(evidence))


def _title(evidence: Evidence) -> str:
    if evidence.subject.target is not None:
        return f"A model of {evidence.subject.target}"
    return "A regression model" if evidence.classes is None else f"A model of {len(evidence.classes)} classes"


def _origin(evidence: Evidence) -> str:
    now = datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC")
    return f"rflaf {__version__} · {count_of(evidence.n_rows, 'row')} · {now}"
