"""The arguments of the estimators: the rules of single and joint arguments, class labels.

An argument that breaks a rule is refused before any work, with the rule, the value and the remedy. Bases, densities and
the objects of `rflaf.estimators.choices` check themselves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.bases import Basis, BSplineBasis, make_basis
from rflaf.functions.densities import Cauchy, StudentT, resolve_density
from rflaf.functions.losses import Loss

from .choices import (
    AUTO_COUNT,
    AUTO_POSITIVE,
    GreedySelection,
    LeverageSampling,
    Rule,
    SharedActivation,
    check,
    is_count,
    is_flag,
    is_non_negative,
    is_number,
    is_positive,
    is_whole,
    one_of,
    or_word,
    resolve_activation,
    resolve_sampling,
)
from .limits import RULES as LIMIT_RULES

_is_sampling, _is_activation = one_of("plain", "leverage", "greedy")[0], one_of("per_component", "shared")[0]
# Argument -> (test, rule, remedy).
_RULES: dict[str, Rule] = {
    "n_components": (or_word("auto", is_count), AUTO_COUNT, "100 is a good start."),
    "width_tolerance": (is_non_negative, "must be a number, at least zero", "The default is 0.01."),
    "directions": one_of("refined", "random"),
    "curves": (or_word("auto", is_flag), "must be 'auto', True or False", "Use 'auto'."),
    "sampling": (
        lambda value: isinstance(value, LeverageSampling | GreedySelection) or _is_sampling(value),
        "must be 'plain', 'leverage', 'greedy', a LeverageSampling or a GreedySelection",
        "Use 'plain'.",
    ),
    "activation": (
        lambda value: isinstance(value, SharedActivation) or _is_activation(value),
        "must be 'per_component', 'shared' or a SharedActivation",
        "Use 'per_component'.",
    ),
    "quantile": (
        lambda value: _is_rising(value) if np.ndim(value) == 1 else is_number(value) and 0 < value < 1,
        "must be a number between 0 and 1, without either, or a rising list of them",
        "0.5 is the median.",
    ),
    "scale": (is_flag, "must be True or False", "Use True."),
    "bandwidth": (
        or_word("auto", lambda value: is_positive(value) and 1e-12 <= value <= 1e100),
        f"{AUTO_POSITIVE}, from 1e-12 to 1e100",
        "Use 'auto'.",
    ),
    "alpha": (
        or_word("auto", lambda value: is_non_negative(value) and value <= 1e30),
        "must be 'auto' or a number, at least zero and at most 1e30",
        "Use 'auto'.",
    ),
    "fit_intercept": (is_flag, "must be True or False", "Use True."),
    "categorical_features": (
        or_word("auto", lambda value: value is None or (not isinstance(value, str) and np.ndim(value) == 1)),
        "must be 'auto', or names, numbers or a mask of columns",
        "Use 'auto'.",
    ),
    "n_jobs": (
        lambda value: value is None or (is_whole(value) and value != 0),
        "must be None or a whole number but zero",
        "-1 uses every processor.",
    ),
    "memory": (or_word("auto", is_count), "must be 'auto' or a number of bytes", "Use 'auto'."),
    "checkpoint": (
        lambda value: value is None or isinstance(value, str | os.PathLike),
        "must be None or the path of a file",
        "Use None.",
    ),
    "verbose": (lambda value: is_flag(value) or is_whole(value), "must be True or False", "Use False."),
    **LIMIT_RULES,
    # Of earlier releases.
    "outliers": one_of("auto", "keep"),
    "max_iter": (is_count, "must be a whole number, at least 1", "The default is 500."),
    "tol": (is_positive, "must be a number above zero", "The default is 1e-4."),
    "half_life": (
        lambda value: value is None or is_positive(value),
        "must be None or a number of rows above zero",
        "None forgets nothing.",
    ),
}


def _limited_by(name: str) -> Callable[[Any], bool]:
    """Return whether an estimator has this limit, and its model cannot keep it."""

    def cannot(estimator: Any) -> bool:
        given = getattr(estimator, name, None)
        idle = given is None or (isinstance(given, Mapping) and not any(given.values()))
        plain = estimator.directions == "refined" and resolve_activation(estimator.activation) is None
        return not idle and not (plain and isinstance(resolve_basis(estimator.basis), BSplineBasis))

    return cannot


def _is_rising(levels: Any) -> bool:
    inner = (0.0, *levels, 1.0)
    return len(levels) > 0 and all(map(is_number, levels)) and all(low < high for low, high in pairwise(inner))


def _is_median(quantile: Any) -> bool:
    return np.ndim(quantile) == 0 and bool(quantile == 0.5)


def _is_narrow_pool(estimator: Any) -> bool:
    sampling = resolve_sampling(estimator.sampling)
    if sampling is None or sampling.pool_size == "auto":
        return False
    return int(sampling.pool_size) < (1 if estimator.n_components == "auto" else int(estimator.n_components))


def _loses_its_tails(estimator: Any) -> bool:
    """Projections of unit spread have the same law for every isotropic density."""
    shared = resolve_activation(estimator.activation) is not None
    scaled = estimator.bandwidth == "auto" and (estimator.directions == "refined" or not shared)
    return scaled and isinstance(resolve_density(estimator.density), StudentT | Cauchy)


# (argument, whether the others leave it without effect or sense, rule about an estimator, remedy for the value).
_COMBINATIONS: tuple[tuple[str, Callable[[Any], bool], str, str], ...] = (
    (
        "sampling",
        lambda e: e.directions == "refined" and e.sampling != "plain",
        "directions='refined' starts from a plain draw: sampling must be 'plain'",
        "Set directions='random' for sampling={!r}.",
    ),
    (
        "curves",
        lambda e: e.directions == "random" and not isinstance(e.curves, str) and bool(e.curves),
        "random directions have no column curves: curves must be 'auto' or False",
        "Set directions='refined', or leave curves out.",
    ),
    (
        "width_tolerance",
        lambda e: e.n_components != "auto" and e.width_tolerance != 0.01,
        "width_tolerance chooses a width: it acts under n_components='auto' only",
        "Set n_components='auto', or leave width_tolerance out.",
    ),
    (
        "quantile",
        lambda e: (
            not _is_median(getattr(e, "quantile", 0.5)) and not (isinstance(e.loss, str) and e.loss == "quantile")
        ),
        "quantile acts under loss='quantile' only",
        "Set loss='quantile', or leave quantile out.",
    ),
    (
        "density",
        _loses_its_tails,
        "the tails of a density act where all directions share one bandwidth: not under bandwidth='auto' unless "
        "directions='random' and activation='shared'",
        "Set bandwidth=1.0, or leave density out.",
    ),
    (
        "scale",
        lambda e: e.directions == "refined" and not e.scale,
        "directions='refined' are trained on standardised columns: scale must be True",
        "Set directions='random' for scale=False.",
    ),
    (
        "sampling",
        _is_narrow_pool,
        "pool_size must be at least n_components = {0.n_components} to draw from",
        "Raise pool_size or leave it at 'auto'.",
    ),
    *(
        (
            name,
            _limited_by(name),
            f"{name} is kept by refined directions with one B-spline activation per component",
            f"Leave directions, activation and basis as they are, or leave {name} out.",
        )
        for name in LIMIT_RULES
    ),
)


def check_values(estimator: Any) -> None:
    """Refuse the first argument that breaks its own rule."""
    for name, value in {**estimator.get_params(deep=False), **estimator._retired}.items():
        if name in _RULES:
            check_value(name, value)


def check_parameters(estimator: Any) -> None:
    """Refuse the first argument that breaks its own rule, or that the other arguments leave without effect."""
    check_values(estimator)
    for name, is_idle, rule, remedy in _COMBINATIONS:
        if is_idle(estimator):
            value = getattr(estimator, name)
            raise InvalidParameterError(rule.format(estimator), value, remedy.format(value))


def check_value(name: str, value: Any) -> None:
    """Refuse a value that breaks the rule of an argument."""
    check(name, value, _RULES[name])


def refuse_contradiction(model: str, given: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
    """Refuse arguments of a named model that contradict it."""
    for name, value in fixed.items():
        if name in given and given[name] != value:
            raise InvalidParameterError(
                f"{model}() fixes {name}={value!r}", given[name], f"Leave {name} out, or call the constructor."
            )


def resolve_basis(basis: Any) -> Basis:
    """Return the basis of a name, or the basis itself."""
    return basis if isinstance(basis, Basis) else make_basis(basis)


def sized_basis(basis: Any, n_basis: int) -> Basis:
    """Return the basis of a name with ``n_basis`` functions."""
    if isinstance(basis, str):
        return make_basis(basis, n_basis)
    raise InvalidParameterError("a basis object has its own n_basis", n_basis, "Leave n_basis out.")


def resolve_loss(loss: Any, by_name: dict[str, Loss]) -> Loss:
    """Return the loss of a name, or the loss itself."""
    if isinstance(loss, str) and loss in by_name:
        return by_name[loss]
    if not isinstance(loss, Loss):
        listed = ", ".join(repr(name) for name in by_name)
        raise InvalidParameterError(f"loss must be {listed} or a Loss object", loss, f"Use {next(iter(by_name))!r}.")
    return loss


def resolve_random_state(random_state: Any) -> np.random.Generator:
    """Return the generator itself, or one seeded by a random state of scikit-learn."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


def check_class_weight(weight: dict[Any, float] | str | None, words: tuple[str, ...]) -> None:
    """Refuse a ``class_weight`` that is neither None, a dictionary of weights nor one of ``words``."""
    if isinstance(weight, dict):
        fine = all(isinstance(w, Real) and 0 <= w < np.inf for w in weight.values())
    else:
        fine = weight is None or (isinstance(weight, str) and weight in words)
    if not fine:
        rule = "class_weight must be " + " or ".join(["None", "a dict of weights, at least zero", *map(repr, words)])
        raise InvalidParameterError(rule, weight, "Use None; partial_fit cannot balance classes it has not seen.")


def known_classes(classes: ArrayLike | None, before: Array | None) -> Array:
    """Return all labels that may come: ``before``, or those of the first call to ``partial_fit``."""
    if classes is None:
        if before is None:
            rule = "the first call to partial_fit needs classes, all labels that will come"
            raise InvalidParameterError(rule, None, "Pass np.unique(y).")
        return before
    known = np.unique(np.asarray(classes))
    if before is not None and not np.array_equal(known, before):
        rule = f"classes must be those of the first call to partial_fit, {before.tolist()}"
        raise InvalidParameterError(rule, known.tolist(), "Leave classes out.")
    return known


def refuse_one_class(present: Array) -> None:
    """Refuse labels of a single class."""
    if present.size < 2:
        found = f"{present.size} class: {present.tolist()}"
        raise InvalidParameterError("labels must be of at least two classes", found, "There is nothing to tell apart.")


def refuse_others(y: Array, known: Array) -> None:
    """Refuse labels that were not announced."""
    others = np.setdiff1d(y, known)
    if others.size:
        rule = f"labels must be among the classes given first, {known.tolist()}"
        raise InvalidParameterError(rule, others.tolist(), "Name all classes in the first call to partial_fit.")
