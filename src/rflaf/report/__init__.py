"""One self-contained page about a fitted model on some data.

What the model is, how good beside the usual models, how fast, what it learned, which columns matter, how wide it has to
be, where it errs and what is odd about the data. The page is a single file that fetches nothing; its charts are drawn
here as SVG, and a small script lets one read values off them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from rflaf import __version__
from rflaf.errors import InvalidParameterError
from rflaf.planning import WidthPlan

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
    if not target.resolve().parent.is_dir():
        raise InvalidParameterError("the folder of path must exist", str(path), "Make it first or choose another path.")
    page = render_report(model, X, y, train=train, feature_names=feature_names, title=title, plan=plan, facts=facts)
    _write_whole(target, page)
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
    return "A regression model" if evidence.classes is None else f"A model of {len(evidence.classes)} classes"


def _origin(evidence: Evidence) -> str:
    now = datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC")
    return f"rflaf {__version__} · {count_of(evidence.n_rows, 'row')} · {now}"


def _write_whole(path: Path, text: str) -> None:
    """Write to a file beside ``path`` and move it there, so that no half of a page is ever seen."""
    try:
        number, name = tempfile.mkstemp(dir=path.resolve().parent, prefix=".", suffix=".part")
    except OSError as error:
        raise InvalidParameterError("path must be writable", str(path), str(error)) from error
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(path)
    except OSError as error:
        raise InvalidParameterError("path must be writable", str(path), str(error)) from error
    finally:
        Path(name).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
