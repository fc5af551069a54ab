"""The rules for the arguments of the estimators: one table for single values, one for arguments without effect.

An argument that breaks a rule is refused before any work, with the rule, the value and the remedy. Bases, densities and
samplings check themselves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from rflaf.errors import InvalidParameterError
from rflaf.functions.bases import Basis, make_basis
from rflaf.functions.densities import Cauchy, StudentT, resolve_density
from rflaf.functions.losses import Loss

from . import rules
from .sampling import GreedySelection, LeverageSampling, resolve_sampling

# Argument -> (test, rule, remedy).
_RULES: dict[str, rules.Rule] = {
    "n_components": (rules.or_word("auto", rules.is_count), rules.AUTO_COUNT, "100 is a good start."),
    "width_tolerance": (rules.is_non_negative, "must be a number, at least zero", "The default is 0.01."),
    "directions": rules.one_of("refined", "random"),
    "curves": (rules.or_word("auto", rules.is_flag), "must be 'auto', True or False", "Use 'auto'."),
    "sampling": (
        lambda value: (
            isinstance(value, LeverageSampling | GreedySelection)
            or (isinstance(value, str) and value in ("plain", "leverage", "greedy"))
        ),
        "must be 'plain', 'leverage', 'greedy', a LeverageSampling or a GreedySelection",
        "Use 'plain'.",
    ),
    "activation": rules.one_of("per_component", "shared"),
    "quantile": (
        lambda value: rules.is_number(value) and 0 < value < 1,
        "must be a number between 0 and 1, without either",
        "0.5 is the median.",
    ),
    "bandwidth": (rules.or_word("auto", rules.is_positive), rules.AUTO_POSITIVE, "Use 'auto'."),
    "alpha": (rules.or_word("auto", rules.is_non_negative), "must be 'auto' or a number, at least zero", "Use 'auto'."),
    "fit_intercept": (rules.is_flag, "must be True or False", "Use True."),
    "n_jobs": (
        lambda value: value is None or (rules.is_whole(value) and value != 0),
        "must be None or a whole number but zero",
        "-1 uses every processor.",
    ),
    "memory": (rules.or_word("auto", rules.is_count), "must be 'auto' or a number of bytes", "Use 'auto'."),
    "checkpoint": (
        lambda value: value is None or isinstance(value, str | os.PathLike),
        "must be None or the path of a file",
        "Use None.",
    ),
    "verbose": (lambda value: rules.is_flag(value) or rules.is_whole(value), "must be True or False", "Use False."),
    # Of earlier releases.
    "outliers": rules.one_of("auto", "keep"),
    "max_iter": (rules.is_count, "must be a whole number, at least 1", "The default is 500."),
    "tol": (rules.is_positive, "must be a number above zero", "The default is 1e-4."),
    "half_life": (
        lambda value: value is None or rules.is_positive(value),
        "must be None or a number of rows above zero",
        "None forgets nothing.",
    ),
}


def _is_narrow_pool(estimator: Any) -> bool:
    sampling = resolve_sampling(estimator.sampling)
    if sampling is None or sampling.pool_size == "auto":
        return False
    return int(sampling.pool_size) < (1 if estimator.n_components == "auto" else int(estimator.n_components))


def _loses_its_tails(estimator: Any) -> bool:
    """Projections of unit spread have the same law for every isotropic density."""
    scaled = estimator.bandwidth == "auto" and (estimator.directions == "refined" or estimator.activation != "shared")
    return scaled and isinstance(resolve_density(estimator.density), StudentT | Cauchy)


Combination = tuple[str, Callable[[Any], bool], str, str]

# (argument, whether the others leave it without effect or sense, rule about an estimator, remedy for the value).
_COMBINATIONS: tuple[Combination, ...] = (
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
        lambda e: getattr(e, "quantile", 0.5) != 0.5 and not (isinstance(e.loss, str) and e.loss == "quantile"),
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
        "sampling",
        _is_narrow_pool,
        "pool_size must be at least n_components = {0.n_components} to draw from",
        "Raise pool_size or leave it at 'auto'.",
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
    rules.check(name, value, _RULES[name])


def refuse_contradiction(model: str, given: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
    """Refuse arguments of a named model that contradict it."""
    for name, value in fixed.items():
        if name in given and given[name] != value:
            raise InvalidParameterError(
                f"{model}() fixes {name}={value!r}", given[name], f"Leave {name} out, or call the constructor."
            )


def resolve_basis(basis: Any) -> Basis:
    """Return the basis of a name, or the basis itself."""
    if isinstance(basis, str):
        return make_basis(basis)
    if isinstance(basis, Basis):
        return basis
    raise InvalidParameterError("basis must be 'bspline', 'rbf' or a Basis object", basis, "Use basis='bspline'.")


def sized_basis(basis: Any, n_basis: int) -> Basis:
    """Return the basis of a name with ``n_basis`` functions."""
    if isinstance(basis, str):
        return make_basis(basis, n_basis)
    raise InvalidParameterError("a basis object has its own n_basis", n_basis, "Leave n_basis out.")


def resolve_loss(loss: Any, by_name: dict[str, Loss], refined: bool) -> Loss:
    """Return the loss of a name, or the loss itself; refined directions need one that the compiled loops know."""
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
    """Return the generator itself, or one seeded by a random state of scikit-learn."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
