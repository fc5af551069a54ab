"""Experiments as data: one TOML file per figure, read, checked and expanded into trials.

title = "..."                     title of the figure
metric = "loss" | "accuracy"      its vertical axis
by_default = true                 whether `rflaf reproduce` without names runs it

[quick] and [full]                two efforts
data = ["protein", ...]
seeds = [0, 1, ...]
widths = [30, ...]
pool = 5000                       of leverage sampling and of those compared with it

[[arms]]                          every combination of the lists
protocol = ["paper", "converged"]
scheme = ["plain", "leverage"]
basis = ["rbf", "bspline"]        if the protocol is "paper", "converged" or "regimes"
n_centres = [17]                  ditto
widths = [30, 100]                instead of the widths of the effort
pools = [1000, 3000]              instead of the pool of the effort
seeds = [0, 1]                    instead of the seeds of the effort, if they are among them
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from typing import Any

from rflaf.errors import InvalidParameterError

from . import datasets, regimes
from .trials import BASES, POOLED, SCHEMES, Trial

EFFORTS = ("quick", "full")
METRICS = ("loss", "accuracy")
_SHARED = ("paper", "converged", "regimes")  # protocols whose activation lives on a grid of the experiment


@dataclass(frozen=True, slots=True)
class Effort:
    """Data sets, seeds and widths of one effort."""

    data: tuple[str, ...]
    seeds: tuple[int, ...]
    widths: tuple[int, ...]
    pool: int


@dataclass(frozen=True, slots=True)
class Arm:
    """Family of models, every combination of its lists; empty widths, pools and seeds are those of the effort."""

    protocol: tuple[str, ...]
    scheme: tuple[str, ...]
    basis: tuple[str, ...]
    n_centres: tuple[int, ...]
    widths: tuple[int, ...]
    pools: tuple[int, ...] = ()
    seeds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Experiment:
    """Figure of the study: its metric, its efforts and its models."""

    name: str
    title: str
    metric: str
    by_default: bool
    quick: Effort
    full: Effort
    arms: tuple[Arm, ...]

    def trials(self, effort: str) -> list[Trial]:
        """Return the trials of an effort, sorted, without duplicates."""
        chosen: Effort = getattr(self, effort)
        found = {
            trial
            for arm in self.arms
            for data, seed, width in product(chosen.data, chosen.seeds, arm.widths or chosen.widths)
            if not arm.seeds or seed in arm.seeds
            for trial in _unfold(arm, data, seed, width, arm.pools or (chosen.pool,))
        }
        return sorted(found)


def _unfold(arm: Arm, data: str, seed: int, width: int, pools: tuple[int, ...]) -> Iterator[Trial]:
    for protocol, scheme in product(arm.protocol, arm.scheme):
        if protocol not in _SHARED:
            yield Trial(data, protocol, "", 0, scheme, 0, seed, width)
            continue
        drawn = scheme in POOLED or protocol == "regimes"  # there plain sampling keeps the first of the pool
        for basis, n_centres, pool in product(arm.basis, arm.n_centres, pools if drawn else (0,)):
            yield Trial(data, protocol, basis, n_centres, scheme, pool, seed, width)


def names() -> list[str]:
    """Return the names of the experiments in the package."""
    return sorted(path.name.removesuffix(".toml") for path in _folder().iterdir() if path.name.endswith(".toml"))


def read(name: str) -> Experiment:
    """Read an experiment by name.

    >>> read("figure1").metric
    'loss'
    """
    if name not in names():
        rule = f"the figure must be one of {', '.join(map(repr, names()))}"
        raise InvalidParameterError(rule, name, "Leave it out to run all of them.")
    return parse(name, (_folder() / f"{name}.toml").read_text())


def parse(name: str, text: str) -> Experiment:
    """Parse the TOML text of an experiment; unknown keys are refused by name."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidParameterError(f"{name}.toml must be valid TOML", str(error), "Mend that line.") from error
    _check_keys(table, {"title", "metric", "by_default", "quick", "full", "arms"}, {"by_default"}, f"{name}.toml")
    metric = _one_of(table["metric"], METRICS, f"metric of {name}.toml")
    quick, full = (_effort(table[effort], f"[{effort}] of {name}.toml") for effort in EFFORTS)
    arms = tuple(_arm(arm, f"[[arms]] of {name}.toml") for arm in table["arms"])
    return Experiment(name, str(table["title"]), metric, bool(table.get("by_default", True)), quick, full, arms)


def _effort(table: dict[str, Any], where: str) -> Effort:
    _check_keys(table, {"data", "seeds", "widths", "pool"}, set(), where)
    data = _words(table["data"], (*datasets.NAMES, *regimes.NAMES), f"data in {where}")
    seeds, widths = _counts(table["seeds"], 0, f"seeds in {where}"), _counts(table["widths"], 1, f"widths in {where}")
    return Effort(data, seeds, widths, _counts([table["pool"]], 1, f"pool in {where}")[0])


def _arm(table: dict[str, Any], where: str) -> Arm:
    grid = {"basis", "n_centres"}
    spare = {"widths", "pools", "seeds"} | grid
    _check_keys(table, {"protocol", "scheme"} | spare, spare, where)
    protocol = _words(table["protocol"], tuple(SCHEMES), f"protocol in {where}")
    schemes = tuple(scheme for name in protocol for scheme in SCHEMES[name])
    if not grid <= set(table) and any(name in _SHARED for name in protocol):
        remedy = "Protocols on a grid have both."
        raise InvalidParameterError(f"{where} needs basis and n_centres", sorted(table), remedy)
    return Arm(
        protocol,
        _words(table["scheme"], schemes, f"scheme in {where}"),
        _words(table.get("basis", []), BASES, f"basis in {where}"),
        _counts(table.get("n_centres", []), 3, f"n_centres in {where}"),
        _counts(table.get("widths", []), 1, f"widths in {where}"),
        _counts(table.get("pools", []), 1, f"pools in {where}"),
        _counts(table.get("seeds", []), 0, f"seeds in {where}"),
    )


def _check_keys(table: Any, known: set[str], optional: set[str], where: str) -> None:
    if not isinstance(table, dict):
        raise InvalidParameterError(f"{where} must be a table", table, "Write its keys below its header.")
    unknown, missing = sorted(set(table) - known), sorted(known - optional - set(table))
    if unknown:
        rule = f"{where} may hold the keys {', '.join(sorted(known))}"
        raise InvalidParameterError(rule, unknown[0], "Is it misspelt?")
    if missing:
        raise InvalidParameterError(f"{where} must hold the key {missing[0]!r}", sorted(table), "Add it.")


def _words(values: Any, known: tuple[str, ...], where: str) -> tuple[str, ...]:
    return tuple(_one_of(value, known, where) for value in _list(values, where))


def _one_of(value: Any, known: tuple[str, ...], where: str) -> str:
    if value not in known:
        raise InvalidParameterError(f"{where} must be of {', '.join(map(repr, known))}", value, "Use one of these.")
    return str(value)


def _counts(values: Any, least: int, where: str) -> tuple[int, ...]:
    for value in _list(values, where):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InvalidParameterError(f"{where} must be whole numbers of at least {least}", value, "Mend it.")
    return tuple(values)


def _list(values: Any, where: str) -> list[Any]:
    if not isinstance(values, list):
        raise InvalidParameterError(f"{where} must be a list", values, "Put it in brackets.")
    return values


def _folder() -> Any:
    return files("rflaf.study") / "experiments"
