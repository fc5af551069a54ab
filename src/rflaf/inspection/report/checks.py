"""Checks of the data: constant, duplicated, leaking and numbering columns, missing values, few rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from rflaf.errors import Array

from .wording import count_of

_FEW_ROWS = 200
_LEAK = 0.99  # share of the variance, or of every class, that one column alone explains
_SAME_ORDER = 0.998  # correlation of ranks
_LEAK_ROWS, _LEAK_COLUMNS = 2000, 200
_RARE = 0.05
_REPEAT_ROWS = 20_000  # rows compared with one another


@dataclass(frozen=True, slots=True)
class Oddity:
    """One problem of the data: ``level`` is "serious" or "note", ``columns`` are the columns concerned."""

    level: str
    title: str
    advice: str
    columns: tuple[str, ...] = ()


def check_data(
    columns: Mapping[str, Array], y: Array, classification: bool, missing: Sequence[str] = ()
) -> list[Oddity]:
    """Return the problems of columns and targets, serious ones first; ``missing`` texts mark missing values."""
    coded = {name: as_codes(column, missing) for name, column in columns.items()}
    of_columns = [oddity for check in (_constant, _duplicated, _missing, _numbered) for oddity in check(coded)]
    found = [*_leaking(coded, y, classification), *of_columns, *_repeated_rows(coded, y), *_few(y, classification)]
    return sorted(found, key=lambda oddity: oddity.level != "serious")


def as_codes(column: Array, missing: Sequence[str] = ()) -> Array:
    """Return a column as floats, NaN for missing values; texts become their index in sorted order.

    >>> as_codes(np.array(["b", None, "a", "b"], dtype=object))
    array([ 1., nan,  0.,  1.])
    """
    if column.dtype.kind in "fiub":
        return column.astype(np.float64)
    if column.dtype.kind in "mM":
        return np.where(np.isnat(column), np.nan, column.astype(np.int64).astype(np.float64))
    texts = np.array(["" if _is_missing(value, missing) else str(value) for value in column])
    present = texts != ""
    codes = np.full(texts.size, np.nan)
    try:
        codes[present] = texts[present].astype(np.float64)
    except ValueError:
        codes[present] = np.unique(texts[present], return_inverse=True)[1]
    return codes


def _is_missing(value: Any, missing: Sequence[str]) -> bool:
    return value is None or bool(value != value) or (isinstance(value, str) and value.strip() in ("", *missing))


def _constant(columns: Mapping[str, Array]) -> list[Oddity]:
    empty = tuple(name for name, x in columns.items() if np.all(np.isnan(x)))
    constant = tuple(name for name, x in columns.items() if x.size and np.all(x == x[0]))
    answer = []
    if empty:
        title = f"{count_of(len(empty), 'column')} without any value"
        answer.append(Oddity("serious", title, "Drop it, or find its values.", empty))
    if constant:
        answer.append(Oddity("note", count_of(len(constant), "constant column"), "Drop it.", constant))
    return answer


def _duplicated(columns: Mapping[str, Array]) -> list[Oddity]:
    seen: dict[bytes, list[str]] = {}
    for name, x in columns.items():
        if x.size and not np.all(np.isnan(x)) and np.nanmin(x) < np.nanmax(x):
            seen.setdefault((x + 0.0).tobytes(), []).append(name)
    groups = [names for names in seen.values() if len(names) > 1]
    return [Oddity("note", f"{len(names)} identical columns", "Keep one of them.", tuple(names)) for names in groups]


def _missing(columns: Mapping[str, Array]) -> list[Oddity]:
    share = {name: float(np.isnan(x).mean()) for name, x in columns.items()}
    some = {name: part for name, part in share.items() if 0 < part < 1}
    if not some:
        return []
    worst = max(some, key=lambda name: some[name])
    level = "serious" if some[worst] > 0.5 else "note"
    title = f"{count_of(len(some), 'column has', 'columns have')} missing values, up to {some[worst]:.1%}"
    advice = "Check that they are missing for the same reason when the model is used."
    return [Oddity(level, title, advice, tuple(sorted(some, key=lambda name: -some[name])))]


def _numbered(columns: Mapping[str, Array]) -> list[Oddity]:
    """Find columns that only number the rows, with equal steps between all values."""
    answer = []
    for name, x in columns.items():
        steps = np.diff(x)
        if steps.size > 20 and steps[0] != 0 and np.all(steps == steps[0]):
            advice = "Drop it: new rows will have other numbers."
            answer.append(Oddity("serious", f"{name!r} numbers the rows", advice, (name,)))
    return answer


def _repeated_rows(columns: Mapping[str, Array], y: Array) -> list[Oddity]:
    if not columns:
        return []
    kept = slice(_REPEAT_ROWS)
    targets = as_codes(y[kept]) if y.ndim == 1 else y[kept].astype(np.float64)
    table = np.column_stack([*(x[kept] for x in columns.values()), targets])
    n_repeated = table.shape[0] - np.unique(np.nan_to_num(table, nan=-1e300), axis=0).shape[0]
    if n_repeated < 0.01 * table.shape[0] or n_repeated < 2:
        return []
    among = "" if y.shape[0] <= _REPEAT_ROWS else f" among the first {_REPEAT_ROWS:,}"
    title = f"{count_of(n_repeated, 'row repeats', 'rows repeat')} another{among}"
    return [Oddity("note", title, "If such rows are also among the fitted ones, the scores are optimistic.")]


def _few(y: Array, classification: bool) -> list[Oddity]:
    answer = []
    if y.shape[0] < _FEW_ROWS:
        answer.append(Oddity("note", f"Only {count_of(y.shape[0], 'row')}", "Scores from so few rows are uncertain."))
    if classification:
        classes, counts = np.unique(y, return_counts=True)
        rarest = int(np.argmin(counts))
        if counts[rarest] < _RARE * y.shape[0]:
            title = f"Class {str(classes[rarest])!r} is rare: {count_of(int(counts[rarest]), 'row')}"
            answer.append(Oddity("note", title, "Accuracy hardly reflects it."))
    return answer


def _leaking(columns: Mapping[str, Array], y: Array, classification: bool) -> list[Oddity]:
    """Find columns that alone predict y, by equal order or by a tree on held-out rows."""
    if y.ndim > 1 or y.shape[0] < 30:
        return []
    index = np.linspace(0, y.shape[0] - 1, min(_LEAK_ROWS, y.shape[0])).astype(np.intp)
    advice = "Is it known before the target? If it derives from the target, drop it and fit again."
    return [
        Oddity("serious", f"{name!r} alone predicts the target", advice, (name,))
        for name, x in list(columns.items())[:_LEAK_COLUMNS]
        if _predicts(np.nan_to_num(x[index], nan=-1e30)[:, None], y[index], classification)
    ]


def _predicts(x: Array, y: Array, classification: bool) -> bool:
    if x.min() == x.max() or np.all(y == y[0]):
        return False
    if not classification:
        if abs(np.corrcoef(rankdata(x[:, 0]), rankdata(y))[0, 1]) > _SAME_ORDER:
            return True
        tree = DecisionTreeRegressor(max_leaf_nodes=256, random_state=0)
        guess = cross_val_predict(tree, x, y, cv=KFold(3, shuffle=True, random_state=0))
        return bool(np.mean((y - guess) ** 2) < (1 - _LEAK) * np.var(y))
    classes, counts = np.unique(y, return_counts=True)
    if counts.min() < 3:
        return False
    tree = DecisionTreeClassifier(max_leaf_nodes=256, random_state=0)
    guess = cross_val_predict(tree, x, y, cv=StratifiedKFold(3, shuffle=True, random_state=0))
    return bool(min(np.mean(guess[y == label] == label) for label in classes) > _LEAK)
