"""Drift: how far new rows have moved from those of the fit, and what that does to the model.

A column has moved if its law differs from that of the fit by more than chance. What the move does is the mean change of
the answer when the column is moved back, every row keeping its rank, in units of the spread of the answers in the fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rflaf.errors import Array, InvalidParameterError
from rflaf.estimators.offsets import checked_offset, known_offset, offset_of, shift_targets
from rflaf.model.profile import Profile
from rflaf.rows.inputs import as_rows, is_frame, targets_in
from rflaf.rows.tables import DateColumn, as_table

from .effects import model_columns, sample_rows

_MOST_ROWS = 20_000
_BY_CHANCE = 1.95  # of sqrt(1 / n + 1 / m): one distance in a thousand is larger where nothing moved
_ERRORS = 3.0  # standard errors that chance explains
_MOST_LEVELS = 20  # unseen ones that are named


@dataclass(frozen=True, slots=True)
class ColumnDrift:
    """A column of the table: the distance of its laws, what chance explains, and what the move does to the answers.

    ``effect`` is the mean absolute change of the answer if the column is moved back, over the spread of the answers.
    ``outside`` is the share of rows beyond the range of the fit, ``unseen`` levels that the fit did not have, and
    ``unseen_share`` the share of rows with one.
    """

    name: str
    distance: float
    by_chance: float
    effect: float
    outside: float
    unseen: tuple[str, ...] = ()
    unseen_share: float = 0.0

    @property
    def moved(self) -> bool:
        """Whether the column moved farther than chance explains."""
        return self.distance > self.by_chance


@dataclass(frozen=True, slots=True)
class Drift:
    """New rows beside those of the fit.

    Attributes
    ----------
    n_rows : rows looked at
    columns : by effect, the largest first
    outside : share of rows with a column beyond the range of the fit by more than a twentieth of it
    answers : distance of the laws of the predictions
    expected : error expected over that of the fit: of the sizes of errors that the model predicts for the rows, or of
        the probabilities of a classifier; NaN if it has neither
    error, error_in_fit : mean loss of the rows where targets are given, and of rows held out in the fit; else NaN
    noise : standard error of the ratio of errors, of which that of the fit is a mean over its rows too
    by_chance : share of rows that lie outside though nothing moved
    """

    n_rows: int
    columns: tuple[ColumnDrift, ...]
    outside: float
    answers: float
    expected: float
    error: float = float("nan")
    error_in_fit: float = float("nan")
    noise: float = 0.0
    by_chance: float = 0.0

    @property
    def ratio(self) -> float:
        """The error over that of the fit: measured, or else expected."""
        measured = self.error / self.error_in_fit if self.error_in_fit > 0 else float("nan")
        return self.expected if np.isnan(measured) else measured

    def reasons(self, limit: float = 0.1) -> list[str]:
        """Return why the rows have drifted, one line each; none if nothing moved that matters.

        ``limit`` is the effect of a moved column, the excess of the error, and the share of rows outside from which on
        it matters; a tenth of it the share of rows with a level never seen. Chance alone explains none of them.
        """
        lines = [
            f"column {column.name!r} moved, and the predictions by {column.effect:.2f} of their spread"
            for column in self.columns
            if column.moved and column.effect >= limit
        ]
        lines += [
            f"column {column.name!r} has levels that the fit did not have: {', '.join(column.unseen)}"
            for column in self.columns
            if column.unseen and column.unseen_share >= limit / 10
        ]
        if self.outside >= limit + self.by_chance:
            lines.append(f"{self.outside:.0%} of the rows lie outside the range of the fit")
        if self.ratio >= 1 + max(limit, _ERRORS * self.noise):
            how = "expected" if np.isnan(self.error) else "measured"
            lines.append(f"the error is {self.ratio:.2f} times that of the fit, as {how}")
        return lines


def check_drift(estimator: Any, X: Any, y: Any = None, offset: Any = None) -> Drift:
    """Compare new rows ``X``, and their targets if known, with the rows of the fit.

    The model keeps quantiles of its columns, so the rows of the fit are not needed. At most 20,000 rows, evenly spread,
    are looked at. ``y`` may name a column of a frame. ``offset`` is that of the rows, where the model was fitted beside
    one.

    >>> import numpy as np
    >>> from rflaf import RFLAFRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 2))
    >>> model = RFLAFRegressor(5, directions="random", random_state=0).fit(X, X[:, 0])
    >>> drift = check_drift(model, rng.standard_normal((300, 2)) + [1.0, 0.0])
    >>> drift.columns[0].name, drift.columns[0].moved, drift.columns[1].moved
    ('x0', True, False)
    """
    check_is_fitted(estimator)
    profile: Profile | None = estimator._profile
    if profile is None:
        rule = "the model must keep quantiles of the columns of its fit"
        raise InvalidParameterError(rule, "none, as in files of earlier releases", "Fit it anew.")
    X, offset = offset_of(X, offset, estimator.target_encoding_)
    table = as_rows(X)
    y = targets_in(table, y, estimator.target_encoding_)
    if y is not None:
        encoding = estimator.table_encoding_
        offset = known_offset(estimator.target_encoding_, X, offset, () if encoding is None else encoding.missing)
    rows = np.ascontiguousarray(sample_rows(estimator._check_rows(table), _MOST_ROWS))
    f = estimator.model_.decision(rows).astype(np.float64)
    seen = _beyond_the_fit(estimator, table, rows)
    moved, outside = profile.distances(seen), profile.outside(seen)
    columns = _columns(estimator, profile, rows, f, (moved, outside), _unseen(estimator, table))
    answers = Profile(profile.answers, profile.answers.mean(axis=0), profile.answers, profile.n_rows).distances(f)
    off = None if offset is None else sample_targets(checked_offset(offset, len(y)))
    losses = np.zeros(0) if y is None else _losses(estimator, sample_targets(y), f, off)
    expected = _expected(estimator, rows, f)
    measured = losses.size > 0 and profile.error > 0
    judged = losses / profile.error if measured else expected
    n_errors = 1 / (1 / len(rows) + 1 / profile.n_rows) if measured else judged.size  # both errors are means of some
    return Drift(
        len(rows), columns, float(outside.any(axis=1).mean()), float(answers.max()),
        expected=float(expected.mean()),
        error=float(losses.mean()) if losses.size else float("nan"),
        error_in_fit=profile.error,
        noise=float(judged.std() / np.sqrt(n_errors)),
        by_chance=min(1.0, 2 * rows.shape[1] / (profile.n_rows + 1)),
    )  # fmt: skip


def _beyond_the_fit(estimator: Any, table: Any, rows: Array) -> Array:
    """Return rows whose days of dates go on beyond the fit, where those of the model stay."""
    encoding = estimator.table_encoding_
    if encoding is None or not is_frame(table) or not any(isinstance(at, DateColumn) for at in encoding.columns):
        return rows
    table, seen, first = as_table(table), rows.copy(), 0
    for column in encoding.columns:
        if isinstance(column, DateColumn):
            alone = replace(encoding, columns=(column,)).without_limits()
            some = table.select([column.name]).take(_sampled(table.num_rows))
            days = alone.transform(some)[:, 0]
            seen[:, first] = np.floor(days) if column.by_hour else days  # the model reads the day of the fit
        first += len(column.feature_names)
    return seen


def _sampled(n_rows: int) -> Array:
    """Return the numbers of the rows that are looked at."""
    return np.arange(n_rows) if n_rows <= _MOST_ROWS else np.linspace(0, n_rows - 1, _MOST_ROWS).astype(np.intp)


def sample_targets(y: Any) -> Array:
    """Return the targets of the rows that `check_drift` looks at."""
    y = np.asarray(y)
    return y[_sampled(len(y))]


def _columns(
    estimator: Any,
    profile: Profile,
    rows: Array,
    f: Array,
    seen: tuple[Array, Array],
    unseen: dict[str, tuple[tuple[str, ...], float]],
) -> tuple[ColumnDrift, ...]:
    """Return the drift of every column of the table, the one that matters most first.

    ``seen`` are the distances (n_features,) from the laws of the fit, and which rows lie outside (n_rows, n_features).
    """
    distances, outside = seen
    by_chance = _BY_CHANCE * float(np.sqrt(1 / len(rows) + 1 / profile.n_rows))
    spread = np.where(profile.spread > 0, profile.spread, 1.0)
    found = []
    for name, members in _members(estimator, rows.shape[1]).items():
        moved = profile.mapped_back(rows, members, np.random.default_rng(0))
        change = np.abs(estimator.model_.decision(moved) - f) / spread
        distance = float(distances[members].max(initial=0.0))
        share = float(outside[:, members].any(axis=1).mean())
        levels = unseen.get(name, ((), 0.0))
        found.append(ColumnDrift(name, distance, by_chance, float(change.mean()), share, *levels))
    return tuple(sorted(found, key=lambda column: -column.effect * column.moved - 1e-9 * column.effect))


def _members(estimator: Any, n_features: int) -> dict[str, Array]:
    """Return for every column of the table the numbers of the columns that the model reads."""
    encoding = estimator.table_encoding_
    if encoding is not None and len(encoding.feature_names) == n_features:
        names, origins = encoding.input_names, encoding.origins
        return {names[at]: np.flatnonzero(origins == at) for at in np.unique(origins)}
    names = model_columns(estimator)
    labels = [f"x{at}" for at in range(n_features)] if names is None else [str(name) for name in names]
    return {name: np.array([at]) for at, name in enumerate(labels)}


def _unseen(estimator: Any, table: Any) -> dict[str, tuple[tuple[str, ...], float]]:
    """Return the levels of every column of categories that the fit did not have, and the share of rows with one."""
    encoding = estimator.table_encoding_
    if encoding is None or not is_frame(table):
        return {}
    found = encoding.unseen_levels(as_table(table)).items()
    return {name: (tuple(levels[:_MOST_LEVELS]), share) for name, (levels, share) in found}


def _losses(estimator: Any, y: Array, f: Array, offset: Array | None) -> Array:
    """Return the loss of every row whose label, if it is one, the model knows, times its weight beside an offset."""
    classes = getattr(estimator, "classes_", None)
    if classes is None or estimator._several:
        targets, weight = np.asarray(y, np.float64).reshape(len(f), -1), np.ones(len(f))
        if offset is not None:
            targets, weight = shift_targets(estimator.loss_, targets, offset, weight)
        return np.asarray(estimator.loss_.value(f, estimator.loss_.targets(targets)) * (weight / weight.mean()))
    labels = np.asarray(y).astype(classes.dtype)
    at = np.minimum(np.searchsorted(classes, labels), classes.size - 1)
    known = classes[at] == labels
    one_hot = at[:, None].astype(float) if classes.size == 2 else np.eye(classes.size)[at]
    return np.asarray(estimator.loss_.value(f[known], one_hot[known]))


def _expected(estimator: Any, rows: Array, f: Array) -> Array:
    """Return the squared size of errors expected at every row over that in the fit, or the like of probabilities."""
    bands = getattr(estimator, "_bands", None)
    if bands is not None:
        return np.asarray(np.mean((bands.spread.at(rows, f) / bands.typical) ** 2, axis=1))
    if not hasattr(estimator, "predict_proba") or not estimator._profile.error > 0:
        return np.full(len(f), np.nan)
    p = estimator.loss_.mean(f)
    p = np.hstack([1 - p, p]) if p.shape[1] == 1 or estimator._several else p
    entropy = -np.sum(p * np.log(np.maximum(p, 1e-15)), axis=1)
    return np.asarray(entropy / estimator._profile.error)
