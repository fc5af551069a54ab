"""Columns of many levels: the mean of the target by level, shrunken, and cross-fitted so that no row sees its own.

With n rows of a level, their mean m and the mean M of all rows, the statistic is (n m + k M) / (n + k). The weight k is
the variance within levels over that between them, estimated by the analysis of variance; levels that say nothing have
k infinite and all the statistic M. In a fit a row takes the statistic of the rows outside its fold; in a prediction
that of all rows.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError

from .cells import require_arrow

N_FOLDS = 5
MOST_OUTPUTS = 20  # targets or classes with a statistic each
MOST_KEPT = 50_000  # levels with a statistic of their own, the most frequent ones
_SEPARATOR = "\x1f"
_LEAST_EFFECTIVE = 1e-12  # of the weight: less is rounding, where one level has it all
LOOKED_AT, _FEWEST_LOOKED_AT, _GIVEAWAY = 20_000, 30, 0.99999  # rows, and the correlation that gives a target away


@dataclass(frozen=True)
class LevelStatistic:
    """Means of the target by level, (n_levels + 2, n_parts): the last two of all other levels and of missing ones.

    ``parts`` names the columns; ``by_fold`` (n_folds, n_levels + 2, n_parts), known in a fit only, leaves out one fold.
    """

    names: tuple[str, ...]
    parts: tuple[str, ...]
    means: Array
    by_fold: Array | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for text in (*self.names, *self.parts):
            check_text(text)
        if self.means.shape != (len(self.names) + 2, len(self.parts)) or not np.isfinite(self.means).all():
            rule = f"means must be {len(self.names) + 2} x {len(self.parts)} finite numbers"
            raise InvalidParameterError(rule, self.means.shape, "Make the encoding anew from a table.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LevelStatistic):
            return NotImplemented
        same = (self.names, self.parts) == (other.names, other.parts)
        return same and np.array_equal(self.means, other.means)

    def __hash__(self) -> int:
        return hash((self.names, self.parts))

    def __getstate__(self) -> dict[str, Any]:
        return {"names": self.names, "parts": self.parts, "means": self.means, "by_fold": None}

    @cached_property
    def levels(self) -> Any:
        """The levels as an Arrow array."""
        pa = require_arrow()
        return pa.array(self.names, pa.string())

    def of(self, codes: Array, folds: Array | None) -> Array:
        """Return the statistics of rows with these codes of levels: (n_rows, n_parts)."""
        if folds is None or self.by_fold is None:
            return np.asarray(self.means[codes])
        return np.asarray(self.by_fold[folds, codes])

    def to_dict(self) -> dict[str, Any]:
        """Return three texts, so that a header of many levels stays short."""
        if any(_SEPARATOR in text for text in self.names):
            raise InvalidParameterError("levels must be without the character 1F", "one with it", "Replace it.")
        packed = base64.b64encode(np.ascontiguousarray(self.means, "<f8").tobytes()).decode()
        return {"levels": _SEPARATOR.join(self.names), "parts": list(self.parts), "means": packed}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> LevelStatistic:
        """Return the statistic of `to_dict`."""
        names = tuple(check_text(plain["levels"]).split(_SEPARATOR))
        parts = tuple(check_text(part) for part in plain["parts"])
        means = np.frombuffer(base64.b64decode(check_text(plain["means"]), validate=True), "<f8")
        return cls(names, parts, means.reshape(len(names) + 2, len(parts)).astype(np.float64))


def fold_of_rows(first: int, n_rows: int) -> Array:
    """Return the folds of rows by their number, the same however the rows are cut into chunks."""
    number = np.arange(first, first + n_rows, dtype=np.uint64)
    mixed = (number + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return ((mixed >> np.uint64(33)) % np.uint64(N_FOLDS)).astype(np.int64)


class LevelSums:
    """Sums of the target by fold and level of one column; of rows in order, the same bits in any chunks."""

    def __init__(self, names: Sequence[str], parts: Sequence[str]) -> None:
        self.names, self.parts = tuple(names), tuple(parts)
        size = len(self.names) + 2
        self.weight = np.zeros((N_FOLDS, size))
        self.total = np.zeros((N_FOLDS, size, len(self.parts)))
        self.squares = np.zeros((N_FOLDS, len(self.parts)))
        self.n_used = 0

    def add(self, codes: Array, folds: Array, Y: Array, weight: Array | None) -> None:
        """Add rows with codes of levels (n,), folds (n,), targets (n, n_parts) and weights (n,)."""
        place = folds * self.weight.shape[1] + codes
        self.n_used += len(codes) if weight is None else int(np.count_nonzero(weight))
        self.weight = _added(self.weight, place, np.ones(codes.size) if weight is None else weight)
        for part in range(Y.shape[1]):
            with np.errstate(over="ignore"):  # a spread that is no number is refused later, with its column
                of_part = Y[:, part] if weight is None else Y[:, part] * weight
                self.total[:, :, part] = _added(self.total[:, :, part], place, of_part)
                self.squares[:, part] = _added(self.squares[:, part], folds, of_part * Y[:, part])

    def finish(self) -> LevelStatistic:
        """Return the statistic of all rows and those without each fold."""
        known = np.isfinite(self.squares).all(axis=0)  # of targets whose squares overflow there is no statistic
        total, squares = np.where(known, self.total, 0.0), np.where(known, self.squares, 0.0)
        mean = self.weight.sum() / max(self.n_used, 1) or 1.0  # the unit of the weights has no effect
        parts = [by_fold / mean for by_fold in (self.weight, total, squares)]
        rest = [shrunken_means(*(part.sum(axis=0) - part[fold] for part in parts)) for fold in range(N_FOLDS)]
        of_all = shrunken_means(*(part.sum(axis=0) for part in parts))
        return LevelStatistic(self.names, self.parts, of_all, np.stack(rest))


def _added(sums: Array, place: Array, values: Array) -> Array:
    """Return sums with values added one by one at their places, in order."""
    places = np.concatenate([np.arange(sums.size), place])
    return np.bincount(places, np.concatenate([sums.ravel(), values]), sums.size).reshape(sums.shape)


def shrunken_means(weight: Array, total: Array, squares: Array) -> Array:
    """Return (n m + k M) / (n + k) of every level and target, (n_levels, n_parts).

    ``weight`` (n_levels,) and ``total`` (n_levels, n_parts) are n and n m; ``squares`` (n_parts,) the sums of y^2.
    """
    n, n_levels = float(weight.sum()), int(np.count_nonzero(weight))
    seen = weight > 0
    overall = total.sum(axis=0) / max(n, 1e-300)
    means = np.divide(total, weight[:, None], out=np.tile(overall, (weight.size, 1)), where=seen[:, None])
    between = np.sum(weight[:, None] * (means - overall) ** 2, axis=0)
    within = np.maximum(squares - n * overall**2 - between, 0.0) / max(n - n_levels, 1.0)
    effective = (n - np.sum(weight**2) / max(n, 1e-300)) / max(n_levels - 1, 1)
    beyond = np.maximum(between / max(n_levels - 1, 1) - within, 0.0)
    spread = beyond / effective if effective > _LEAST_EFFECTIVE * n else np.zeros_like(beyond)
    share = np.divide(
        weight[:, None] * spread, weight[:, None] * spread + within, out=np.zeros_like(total),
        where=weight[:, None] * spread + within > 0,
    )  # fmt: skip
    return np.asarray(overall + share * (means - overall))


def target_parts(y: Array, labels: bool) -> tuple[list[str], Callable[[Any], Array]]:
    """Return the names of the statistics of targets, and the function that makes targets columns of numbers.

    ``y`` are all targets, or, of labels, each of them at least once.
    """
    if labels:
        classes = sorted(set(label_texts(np.unique(np.asarray(y)))))
        chosen = classes[1:] if len(classes) == 2 else classes
        return [f"share of {label}" for label in chosen], lambda some: _indicators(label_texts(some), chosen)
    n_outputs = 1 if np.ndim(y) == 1 else np.shape(y)[1]
    parts = ["mean"] if n_outputs == 1 else [f"mean of target {at}" for at in range(n_outputs)]
    return parts, lambda some: np.asarray(some, np.float64).reshape(len(some), -1)


def giveaways(X: Array, Y: Array, levels: Sequence[int] | None = None) -> Array:
    """Return which columns of ``X`` (n_rows, n_features) are a straight line of a column of ``Y`` (n_rows, n_parts).

    Columns of codes, of ``levels`` each where not 0, are if one of their levels is. Only the first rows are looked at,
    and no column of fewer than thirty.

    >>> x = np.arange(40.0)
    >>> giveaways(np.column_stack([x % 7, 3 * x + 1]), x[:, None]).tolist()
    [1]
    >>> giveaways(np.column_stack([x % 7, x % 3]), (x % 3 == 2)[:, None], (7, 3)).tolist()
    [1]
    """
    X, Y = X[:LOOKED_AT], Y[:LOOKED_AT]
    if X.shape[0] < _FEWEST_LOOKED_AT or not Y.shape[1] or not np.isfinite(Y).all():
        return np.empty(0, np.int64)
    Y, levels = _standardised(Y), levels or [0] * X.shape[1]
    found = [
        _of_levels(x, Y, n) if n else np.einsum("n,np->p", _standardised(x), Y)
        for x, n in zip(X.T, levels, strict=True)
    ]
    highest = np.array([np.abs(sums).max(initial=0.0) for sums in found])
    return np.flatnonzero(highest > _GIVEAWAY * X.shape[0])


def _of_levels(codes: Array, Y: Array, n_levels: int) -> Array:
    """Return the sums of ``Y`` (n_rows, n_parts) times the standardised indicators of levels: (n_levels, n_parts)."""
    at = codes.astype(np.intp)
    share = np.bincount(at, minlength=n_levels) / at.size
    sums = np.column_stack([np.bincount(at, part - part.mean(), n_levels) for part in Y.T])
    some = (share > 0) & (share < 1)
    return np.asarray(sums[some] / np.sqrt(share * (1 - share))[some, None])


def _standardised(Z: Array) -> Array:
    """Return columns of mean 0 and standard deviation 1, of numbers of any size; constant ones are zero."""
    size = np.abs(Z).max(axis=0)
    small = Z / np.where(size > 0, size, 1.0)
    return np.asarray((small - small.mean(axis=0)) / np.maximum(small.std(axis=0), 1e-300))


def label_texts(labels: Any) -> list[str]:
    """Return labels as texts, whole numbers without a point."""
    flat = np.asarray(labels).ravel()
    if flat.dtype.kind == "f" and np.all(flat == np.floor(flat)):
        flat = flat.astype(np.int64)
    return [str(label).lower() if isinstance(label, bool) else str(label) for label in flat.tolist()]


def _indicators(labels: list[str], chosen: list[str]) -> Array:
    found, at = np.unique(np.array(labels, dtype=np.str_), return_inverse=True)
    return np.column_stack([(found == label)[at] for label in chosen]).astype(np.float64)


def check_text(value: Any) -> str:
    """Return a name or a level, which must be a text."""
    if not isinstance(value, str):
        raise InvalidParameterError("a name must be a text", value, "Make the encoding anew from a table.")
    return value
