"""Rules for class labels and their weights."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rflaf.errors import Array, InvalidParameterError


def check_class_weight(weight: dict[Any, float] | str | None, words: tuple[str, ...]) -> None:
    """Refuse a ``class_weight`` that is neither None, a dictionary of weights nor one of ``words``."""
    if isinstance(weight, dict):
        fine = all(isinstance(w, Real) and 0 <= w < np.inf for w in weight.values())
    else:
        fine = weight is None or (isinstance(weight, str) and weight in words)
    if not fine:
        raise InvalidParameterError(
            "class_weight must be " + " or ".join(["None", "a dict of weights, at least zero", *map(repr, words)]),
            weight,
            "Use None; partial_fit cannot balance classes it has not seen.",
        )


def known_classes(classes: ArrayLike | None, before: Array | None) -> Array:
    """Return all labels that may come: ``before``, or those of the first call to ``partial_fit``."""
    if classes is None and before is None:
        raise InvalidParameterError(
            "the first call to partial_fit needs classes, all labels that will come", None, "Pass np.unique(y)."
        )
    if classes is None:
        assert before is not None
        return before
    known = np.unique(np.asarray(classes))
    if before is not None and not np.array_equal(known, before):
        raise InvalidParameterError(
            f"classes must be those of the first call to partial_fit, {before.tolist()}",
            known.tolist(),
            "Leave classes out.",
        )
    return known


def refuse_one_class(present: Array) -> None:
    """Refuse labels of a single class."""
    if present.size < 2:
        raise InvalidParameterError(
            "labels must be of at least two classes",
            f"{present.size} class: {present.tolist()}",
            "There is nothing to tell apart.",
        )


def refuse_others(y: Array, known: Array) -> None:
    """Refuse labels that were not announced."""
    others = np.setdiff1d(y, known)
    if others.size:
        raise InvalidParameterError(
            f"labels must be among the classes given first, {known.tolist()}",
            others.tolist(),
            "Name all classes in the first call to partial_fit.",
        )
