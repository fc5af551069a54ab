"""The rules for the arguments of the estimators, in one table.

A rule is a test, the words for it and a remedy; whatever breaks one is refused before any work, with all three. Bases
and densities check themselves.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from rflaf.errors import InvalidParameterError
from rflaf.functions.losses import Loss

Test = Callable[[Any], bool]
Rule = tuple[Test, str, str]
_LARGEST = float(np.finfo(np.float64).max)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_whole(value) and value >= 1


def _is_number(value: Any) -> bool:
    """A real number that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    size: Any = abs(value)
    return bool(size <= _LARGEST)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_non_negative(value: Any) -> bool:
    return _is_number(value) and value >= 0


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


def _or_word(word: str, test: Test) -> Test:
    return lambda value: (isinstance(value, str) and value == word) or test(value)


def _one_of(*names: str) -> Rule:
    listed = " or ".join(repr(name) for name in names)
    return lambda value: isinstance(value, str) and value in names, f"must be {listed}", f"Use {names[0]!r}."


_COUNT = "must be a whole number, at least 1"
_AUTO_COUNT = "must be 'auto' or a whole number, at least 1"
_AUTO_POSITIVE = "must be 'auto' or a number above zero"
_LAMBDA = "'auto' is 1 / sqrt(n_samples), as in the paper."

# Argument -> (test, rule, remedy).
_RULES: dict[str, Rule] = {
    "n_components": (_or_word("auto", _is_count), _AUTO_COUNT, "100 is a good start."),
    "tolerance": (_is_non_negative, "must be a number, at least zero", "The default is 0.01."),
    "directions": _one_of("refined", "random"),
    "curves": (_or_word("auto", _is_flag), "must be 'auto', True or False", "Use 'auto'."),
    "outliers": _one_of("auto", "keep"),
    "sampling": _one_of("plain", "leverage", "greedy"),
    "activation": (
        lambda value: _is_count(value) or (isinstance(value, str) and value in ("per_component", "shared")),
        "must be 'per_component', 'shared' or a number of shapes, at least 1",
        "Use 'per_component'.",
    ),
    "quantile": (
        lambda value: _is_number(value) and 0 < value < 1,
        "must be a number between 0 and 1, without either",
        "0.5 is the median.",
    ),
    "pool_size": (_or_word("auto", _is_count), _AUTO_COUNT, "Use 'auto'."),
    "bandwidth": (_or_word("auto", _is_positive), _AUTO_POSITIVE, "Use 'auto'."),
    "alpha": (_or_word("auto", _is_non_negative), "must be 'auto' or a number, at least zero", "Use 'auto'."),
    "leverage_alpha": (_or_word("auto", _is_positive), _AUTO_POSITIVE, _LAMBDA),
    "leverage_rows": (_or_word("all", _is_count), "must be 'all' or a whole number, at least 1", "Use 'all'."),
    "fit_intercept": (_is_flag, "must be True or False", "Use True."),
    "max_iter": (_is_count, _COUNT, "The default is 500."),
    "tol": (_is_positive, "must be a number above zero", "The default is 1e-4."),
    "half_life": (
        lambda value: value is None or _is_positive(value),
        "must be None or a number of rows above zero",
        "None forgets nothing.",
    ),
    "n_jobs": (
        lambda value: value is None or (_is_whole(value) and value != 0),
        "must be None or a whole number but zero",
        "-1 uses every processor.",
    ),
    "memory": (_or_word("auto", _is_count), "must be 'auto' or a number of bytes", "Use 'auto'."),
    "checkpoint": (
        lambda value: value is None or isinstance(value, str | os.PathLike),
        "must be None or the path of a file",
        "Use None.",
    ),
    "verbose": (lambda value: _is_flag(value) or _is_whole(value), "must be True or False", "Use False."),
}


def resolve_loss(loss: Any, by_name: dict[str, Loss], refined: bool) -> Loss:
    """The loss of a name, or the loss itself; refined directions need one that the compiled loops know."""
    if isinstance(loss, str) and loss in by_name:
        return by_name[loss]
    if not isinstance(loss, Loss):
        listed = ", ".join(repr(name) for name in by_name)
        raise InvalidParameterError(f"loss must be {listed} or a Loss object", loss, f"Use {next(iter(by_name))!r}.")
    if refined and loss.kernel() is None:
        raise InvalidParameterError(
            "directions='refined' are trained by compiled loops, which know only the losses of this package",
            loss,
            "Set directions='random' for a loss of your own.",
        )
    return loss


def resolve_random_state(random_state: Any) -> np.random.Generator:
    """The generator itself, or one seeded by what scikit-learn takes for a random state."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


def check_parameters(estimator: Any) -> None:
    """Refuse the first argument that breaks its rule, or a pair that does not go together."""
    for name in estimator.get_params(deep=False):
        if name in _RULES:
            holds, rule, remedy = _RULES[name]
            value = getattr(estimator, name)
            if not holds(value):
                raise InvalidParameterError(f"{name} {rule}", value, remedy)
    refined = estimator.directions == "refined"
    if refined and estimator.sampling != "plain":
        raise InvalidParameterError(
            "directions='refined' starts from a plain draw: sampling must be 'plain'",
            estimator.sampling,
            f"Set directions='random' for sampling={estimator.sampling!r}.",
        )
    if refined and not isinstance(estimator.activation, str):
        raise InvalidParameterError(
            "a number of shapes as activation needs directions='random'",
            estimator.activation,
            "Set directions='random', or activation='per_component'.",
        )
    least = 1 if estimator.n_components == "auto" else int(estimator.n_components)
    if estimator.sampling != "plain" and estimator.pool_size != "auto" and int(estimator.pool_size) < least:
        raise InvalidParameterError(
            f"pool_size must be at least n_components = {estimator.n_components} to draw from",
            estimator.pool_size,
            "Raise pool_size or leave it at 'auto'.",
        )
