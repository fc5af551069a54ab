"""One self-contained HTML page about a fitted model on some data.

The page compares the model with common baselines and shows its errors, columns, activations, width and speed, and
problems of the data. It is a single file that fetches nothing; its charts are SVG, and a small script shows their
values.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from rflaf import __version__
from rflaf.estimators.width_plan import WidthPlan
from rflaf.rows.files.outputs import check_output, replacing

from . import overview
from .column_section import column_section
from .component_section import activation_section, width_section
from .findings import Findings, gather
from .mistakes import error_section, first_picture
from .page import Head, Section, compose, grid
from .scores import quality_section, score_card, verdict
from .subject import subject_of
from .what_if import what_if_section
from .wording import count_of

__all__ = ["render_report", "write_report"]

# The sections of the page in their order; each is a function of the findings.
SECTIONS: tuple[Callable[[Findings], Section], ...] = (
    quality_section,
    overview.data_section,
    error_section,
    column_section,
    what_if_section,
    activation_section,
    width_section,
    overview.speed_section,
    overview.model_section,
)


def write_report(model: Any, X: Any, y: ArrayLike, path: str | os.PathLike[str], **options: Any) -> Path:
    """Write a report about ``model`` on rows ``X`` with targets ``y`` to one HTML file, atomically.

    Parameters
    ----------
    model : a fitted estimator, a pipeline that ends in one, an object with ``encoding`` and ``estimator``, or a
        `RandomFeatureModel`
    X, y : rows as the model takes them, preferably not among the fitted rows, and their targets, or the name of the
        column of a frame that holds them
    path : file to write, in an existing folder
    **options : ``train``, ``feature_names``, ``title``, ``plan`` and ``facts`` of `render_report`

    Returns
    -------
    path : of the file written
    """
    target = Path(path)
    check_output(target)
    page = render_report(model, X, y, **options)
    with replacing(target) as part:
        part.write_text(page, encoding="utf-8")
    return target


def render_report(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    train: tuple[Any, ...] | None = None,
    feature_names: Sequence[str] | None = None,
    title: str | None = None,
    plan: WidthPlan | None = None,
    facts: Mapping[str, str] | None = None,
) -> str:
    """Return the page of `write_report` as text.

    A model fitted beside an offset by the name of its column reads it from the tables.

    Parameters
    ----------
    model, X, y : as in `write_report`
    train : rows and targets the model was fitted on, to fit the baselines on, and, as a third item, why they may not
        be those, if so; without known rows no other model is shown and no lead is stated
    feature_names : names of the columns, if the model has none
    title : title of the page
    plan : the result of `rflaf.plan`, if already computed
    facts : further facts about the model by name, such as its origin or the time of the fit
    """
    findings = gather(subject_of(model, feature_names), X, y, train, plan, facts or {})
    lead = f"{verdict(findings)} {overview.rung(findings.subject)}"
    top = grid([first_picture(findings), score_card(findings)])
    head = Head(title or _title(findings), lead, _origin(findings), overview.tiles(findings), top)
    return compose(head, [section(findings) for section in SECTIONS])


def _title(findings: Findings) -> str:
    if findings.subject.target is not None:
        return f"A model of {findings.subject.target}"
    return "A regression model" if findings.classes is None else f"A model of {len(findings.classes)} classes"


def _origin(findings: Findings) -> str:
    now = datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC")
    return f"rflaf {__version__} · {count_of(findings.n_rows, 'row')} · {now}"
