"""Tests of single values, shared by the rules for arguments; each rule is (test, words for it, remedy)."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np

from rflaf.errors import InvalidParameterError

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
