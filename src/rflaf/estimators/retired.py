"""Arguments of earlier releases: they still act for one release, warn, and are translated by one table.

``max_iter``, ``tol`` and ``half_life`` have no successor in the constructor; an estimator carries them aside, and so do
its clones and model files. A number of shapes as ``activation`` has become "per_component".
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from rflaf.errors import InvalidParameterError
from rflaf.functions.bases import make_basis
from rflaf.functions.losses import Squared

from .choices import GreedySelection, LeverageSampling, is_count

F = TypeVar("F", bound=Callable[..., Any])

# Old name -> (its default, how to do without it).
RETIRED: dict[str, tuple[Any, str]] = {
    "tolerance": (0.01, "Write width_tolerance."),
    "pool_size": ("auto", "Write sampling=LeverageSampling(pool_size=...) or GreedySelection(pool_size=...)."),
    "leverage_alpha": ("auto", "Write sampling=LeverageSampling(alpha=...)."),
    "leverage_rows": ("all", "Write sampling=LeverageSampling(rows=...)."),
    "n_basis": (16, "Write basis=BSplineBasis(...) or RBFBasis(...)."),
    "outliers": ("auto", "Write RFLAFRegressor(loss=rflaf.functions.losses.Squared()) to trust every target."),
    "max_iter": (500, "Leave it out: the search stops by itself."),
    "tol": (1e-4, "Leave it out: the search stops by itself."),
    "half_life": (None, "Write partial_fit(X, y, half_life=...)."),
}
CARRIED = ("max_iter", "tol", "half_life", "outliers")


def translate(given: Mapping[str, Any], has_loss: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return arguments under their present names, and the retired ones that an estimator carries aside.

    >>> translate({"sampling": "greedy", "pool_size": 500, "tol": 0.1}, has_loss=True)
    ({'sampling': GreedySelection(pool_size=500)}, {'tol': 0.1})
    """
    new = {name: value for name, value in given.items() if name not in RETIRED}
    old = {name: given[name] for name in RETIRED if name in given}
    if old.get("outliers") == "auto" and new.get("loss") == Squared():
        new["loss"] = "squared"
    old = {name: value for name, value in old.items() if not _is_default(name, value)}
    if "tolerance" in old:
        new["width_tolerance"] = old["tolerance"]
    if "n_basis" in old and isinstance(new.get("basis", "bspline"), str):
        new["basis"] = make_basis(new.get("basis", "bspline"), old["n_basis"])
    _translate_pool(new, old)
    if is_count(new.get("activation")):
        new["activation"] = "per_component"
    if has_loss and old.get("outliers") == "keep":
        del old["outliers"]
        new["loss"] = Squared() if new.get("loss", "squared") == "squared" else new["loss"]
    return new, {name: old[name] for name in CARRIED if name in old}


def _is_default(name: str, value: Any) -> bool:
    default = RETIRED[name][0]
    return type(value) is type(default) and bool(value == default)


def _translate_pool(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    """Put the settings of a pool into ``sampling``; plain sampling has none."""
    pool = {name: old[name] for name in ("pool_size",) if name in old}
    scores = {"alpha": "leverage_alpha", "rows": "leverage_rows"}
    sampling = new.get("sampling")
    if pool and isinstance(sampling, str) and sampling == "greedy":
        new["sampling"] = GreedySelection(**pool)
    pool |= {name: old[long] for name, long in scores.items() if long in old}
    if pool and isinstance(sampling, str) and sampling == "leverage":
        new["sampling"] = LeverageSampling(**pool)


def warn_retired(name: str) -> None:
    """Warn the caller of the caller that a name is going away."""
    warnings.warn(f"{name} is going away. {RETIRED[name][1]}", FutureWarning, stacklevel=3)


def warn_shapes(given: Mapping[str, Any]) -> None:
    """Warn the caller of the caller if ``activation`` is a number of shapes."""
    if is_count(given.get("activation")):
        words = 'activation=K, mixtures of K shapes, is gone and acts as "per_component". Write that.'
        warnings.warn(words, FutureWarning, stacklevel=3)


def accept_tolerance(function: F) -> F:
    """Let a function take ``width_tolerance`` under its former name."""

    @wraps(function)
    def with_tolerance(*args: Any, **given: Any) -> Any:
        if "tolerance" in given:
            warn_retired("tolerance")
            given["width_tolerance"] = given.pop("tolerance")
        return function(*args, **given)

    return with_tolerance  # type: ignore[return-value]


def accept_retired(init: F) -> F:
    """Let a constructor take retired arguments: it warns, and hands their translation on."""
    known = RETIRED.keys() - ({"outliers"} if "class_weight" in init.__annotations__ else set())

    @wraps(init)
    def with_retired(self: Any, *args: Any, **given: Any) -> None:
        for name in given.keys() & known:
            warn_retired(name)
        warn_shapes(given)
        new, carried = translate(given, "loss" in init.__annotations__)
        init(self, *args, **new, **{name: given[name] for name in given.keys() & RETIRED.keys() - known})
        if carried:
            self._retired = carried

    return with_retired  # type: ignore[return-value]


def refuse_retired(given: Mapping[str, Any]) -> None:
    """Refuse retired arguments where they cannot be translated, each with its remedy."""
    for name in given.keys() & RETIRED.keys():
        raise InvalidParameterError(f"{name} is no argument any more", given[name], RETIRED[name][1])
