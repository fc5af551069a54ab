"""The arguments of the estimators: values of ``sampling``, the rules of single and joint arguments, class labels.

An argument that breaks a rule is refused before any work, with the rule, the value and the remedy. Bases, densities and
samplings check themselves. The names "leverage" and "greedy" stand for `LeverageSampling` and `GreedySelection` with
their defaults.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.bases import Basis, make_basis
from rflaf.functions.densities import Cauchy, StudentT, resolve_density
from rflaf.functions.losses import Loss

Test = Callable[[Any], bool]
Rule = tuple[Test, str, str]  # test, words for it, remedy
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


def _is_positive(value: Any) -> bool:
    return is_number(value) and value > 0


def _is_non_negative(value: Any) -> bool:
    return is_number(value) and value >= 0


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


def or_word(word: str, test: Test) -> Test:
    """Return a test that a word passes too."""
    return lambda value: (isinstance(value, str) and value == word) or test(value)


def one_of(*names: str) -> Rule:
    """Return the rule of an argument that takes names only."""
    listed = " or ".join(map(repr, names))
    return lambda value: isinstance(value, str) and value in names, f"must be {listed}", f"Use {names[0]!r}."


def check(name: str, value: Any, rule: Rule) -> None:
    """Refuse a value that breaks its rule."""
    holds, words, remedy = rule
    if not holds(value):
        raise InvalidParameterError(f"{name} {words}", value, remedy)


_POOL: Rule = (or_word("auto", is_count), AUTO_COUNT, "Use 'auto'.")
_ALPHA: Rule = (or_word("auto", _is_positive), AUTO_POSITIVE, "'auto' is 1 / sqrt(n_samples), as in the paper.")
_ROWS: Rule = (or_word("all", is_count), "must be 'all' or a whole number, at least 1", "Use 'all'.")


@dataclass(frozen=True, slots=True)
class LeverageSampling:
    """Draw components from a pool in proportion to their ridge leverage scores: Algorithm 1, lines 2 to 5.

    >>> LeverageSampling(pool_size=2000)
    LeverageSampling(pool_size=2000, alpha='auto', rows='all')

    Parameters
    ----------
    pool_size : int or "auto", default="auto"
        Number s of directions in the pool. "auto" is ten times the width, between 1,000 and 5,000.
    alpha : float or "auto", default="auto"
        lambda of the leverage scores. "auto" is 1 / sqrt(n_samples).
    rows : int or "all", default="all"
        Number of rows that the scores are computed from. For a sample, ``leverage_.relative_error`` estimates the
        error of the scores; a sample wins where one pass over all rows with the whole pool takes too long.
    """

    pool_size: int | str = "auto"
    alpha: float | str = "auto"
    rows: int | str = "all"
    name: ClassVar[str] = "leverage"

    def __post_init__(self) -> None:
        check("pool_size", self.pool_size, _POOL)
        check("alpha", self.alpha, _ALPHA)
        check("rows", self.rows, _ROWS)

    def settings(self) -> dict[str, Any]:
        return {
            "sampling": self.name,
            "pool_size": None if self.pool_size == "auto" else int(self.pool_size),
            "leverage_alpha": None if self.alpha == "auto" else float(self.alpha),
            "leverage_rows": None if self.rows == "all" else int(self.rows),
        }


@dataclass(frozen=True, slots=True)
class GreedySelection:
    """Choose from a pool the components that lower the error most, one after the other.

    Parameters
    ----------
    pool_size : int or "auto", default="auto"
        Number of directions in the pool. "auto" is forty times the width, between 6,000 and 12,000, and at least twice
        the width.
    """

    pool_size: int | str = "auto"
    name: ClassVar[str] = "greedy"

    def __post_init__(self) -> None:
        check("pool_size", self.pool_size, _POOL)

    def settings(self) -> dict[str, Any]:
        return {"sampling": self.name, "pool_size": None if self.pool_size == "auto" else int(self.pool_size)}


Sampling = str | LeverageSampling | GreedySelection
_NAMED: dict[str, LeverageSampling | GreedySelection] = {"leverage": LeverageSampling(), "greedy": GreedySelection()}


def resolve_sampling(sampling: Sampling) -> LeverageSampling | GreedySelection | None:
    """Return the object that a name stands for; None for plain sampling."""
    return _NAMED.get(sampling) if isinstance(sampling, str) else sampling


_is_sampling = one_of("plain", *_NAMED)[0]
# Argument -> (test, rule, remedy).
_RULES: dict[str, Rule] = {
    "n_components": (or_word("auto", is_count), AUTO_COUNT, "100 is a good start."),
    "width_tolerance": (_is_non_negative, "must be a number, at least zero", "The default is 0.01."),
    "directions": one_of("refined", "random"),
    "curves": (or_word("auto", _is_flag), "must be 'auto', True or False", "Use 'auto'."),
    "sampling": (
        lambda value: isinstance(value, LeverageSampling | GreedySelection) or _is_sampling(value),
        "must be 'plain', 'leverage', 'greedy', a LeverageSampling or a GreedySelection",
        "Use 'plain'.",
    ),
    "activation": one_of("per_component", "shared"),
    "quantile": (
        lambda value: is_number(value) and 0 < value < 1,
        "must be a number between 0 and 1, without either",
        "0.5 is the median.",
    ),
    "bandwidth": (or_word("auto", _is_positive), AUTO_POSITIVE, "Use 'auto'."),
    "alpha": (or_word("auto", _is_non_negative), "must be 'auto' or a number, at least zero", "Use 'auto'."),
    "fit_intercept": (_is_flag, "must be True or False", "Use True."),
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
    "verbose": (lambda value: _is_flag(value) or is_whole(value), "must be True or False", "Use False."),
    # Of earlier releases.
    "outliers": one_of("auto", "keep"),
    "max_iter": (is_count, "must be a whole number, at least 1", "The default is 500."),
    "tol": (_is_positive, "must be a number above zero", "The default is 1e-4."),
    "half_life": (
        lambda value: value is None or _is_positive(value),
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
    if isinstance(basis, str | Basis):
        return make_basis(basis) if isinstance(basis, str) else basis
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
        rule = "directions='refined' are trained by compiled loops, which know only the losses of this package"
        raise InvalidParameterError(rule, loss, "Set directions='random' for a loss of your own.")
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
