"""Rules for single arguments, each (test, words for it, remedy), and for class labels and their weights."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rflaf.errors import Array, InvalidParameterError

Test = Callable[[Any], bool]
Rule = tuple[Test, str, str]
_LARGEST = float(np.finfo(np.float64).max)

AUTO_COUNT = "must be 'auto' or a whole number, at least 1"
AUTO_POSITIVE = "must be 'auto' or a number above zero"


def is_whole(value: Any) -> bool:
    """Return whether ``value`` is an integer, and no truth value."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    """Return whether ``value`` is an integer of at least one."""
    return is_whole(value) and value >= 1


def is_number(value: Any) -> bool:
    """Return whether ``value`` is a real number that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    size: Any = abs(value)
    return bool(size <= _LARGEST)


def is_positive(value: Any) -> bool:
    """Return whether ``value`` is a number above zero."""
    return is_number(value) and value > 0


def is_non_negative(value: Any) -> bool:
    """Return whether ``value`` is a number of at least zero."""
    return is_number(value) and value >= 0


def is_flag(value: Any) -> bool:
    """Return whether ``value`` is True or False."""
    return isinstance(value, bool | np.bool_)


def or_word(word: str, test: Test) -> Test:
    """Return a test that a word passes too."""
    return lambda value: (isinstance(value, str) and value == word) or test(value)


def one_of(*names: str) -> Rule:
    """Return the rule of an argument that takes names only."""
    listed = " or ".join(repr(name) for name in names)
    return lambda value: isinstance(value, str) and value in names, f"must be {listed}", f"Use {names[0]!r}."


def check(name: str, value: Any, rule: Rule) -> None:
    """Refuse a value that breaks its rule."""
    holds, words, remedy = rule
    if not holds(value):
        raise InvalidParameterError(f"{name} {words}", value, remedy)


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
