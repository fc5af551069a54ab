"""``monotone`` and ``interactions``: what a user says of columns, as the limits of a fit on encoded columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rflaf.errors import InvalidParameterError
from rflaf.rows.tables import TableEncoding
from rflaf.rows.tables.columns import NumberColumn
from rflaf.training.solvers.refined.limits import ColumnSet, Limits

from .choices import Rule, is_whole


def _is_signs(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, Mapping) and all(is_whole(sign) and sign in (-1, 0, 1) for sign in value.values())


def _is_sets(value: Any) -> bool:
    if value is None or isinstance(value, str):
        return value in (None, "none")
    return isinstance(value, list | tuple) and all(isinstance(one, list | tuple) and len(one) >= 2 for one in value)


RULES: dict[str, Rule] = {
    "monotone": (_is_signs, "must be None or a dict from columns to 1, -1 or 0", "Use {'age': 1}."),
    "interactions": (
        _is_sets,
        "must be None, 'none' or a list of pairs of columns",
        "Use 'none' for a sum of functions of single columns, [('a', 'b')] to let two of them interact.",
    ),
}


def has_limits(estimator: Any) -> bool:
    """Return whether an estimator is told what its model must not do."""
    monotone = getattr(estimator, "monotone", None)
    return getattr(estimator, "interactions", None) is not None or bool(monotone and any(monotone.values()))


def resolve_limits(estimator: Any, n_features: int, n_targets: int) -> Limits:
    """Return the limits on the encoded columns of a fit; refuse columns that are not there or have no direction."""
    if not has_limits(estimator):
        return Limits()
    encoding, names = estimator.table_encoding_, getattr(estimator, "feature_names_in_", None)
    known = _Columns(encoding, None if names is None else [str(name) for name in names], n_features)
    wanted = {column: int(sign) for column, sign in (estimator.monotone or {}).items() if sign}
    if wanted and n_targets > 1:
        rule = "monotone needs one output: a number, its quantiles, or two classes"
        raise InvalidParameterError(rule, n_targets, "Fit one model per output, or leave monotone out.")
    signs = tuple((known.number(column), sign) for column, sign in wanted.items())
    sets = None if estimator.interactions is None else known.sets(estimator.interactions)
    if sets is not None and estimator.n_components != "auto" and len(sets) > int(estimator.n_components):
        rule = f"n_components must be at least {len(sets)}, one per column and pair of interactions"
        raise InvalidParameterError(rule, estimator.n_components, "Raise n_components, or leave columns out.")
    return Limits(signs, sets)


def refuse_new_weights(estimator: Any, what: str) -> None:
    """Refuse to solve for output weights again: of a monotone model any sign could come out; or the sums are gone."""
    if getattr(estimator, "_terms", ...) is None:
        rule = f"{what} needs the sums of the fit, which files of single precision leave out"
        raise InvalidParameterError(rule, "a model for predictions", "Save the model with dtype='float64'.")
    monotone = getattr(estimator, "monotone", None)
    if monotone and any(monotone.values()):
        rule = f"{what} solves for the output weights again, which does not keep a model monotone"
        raise InvalidParameterError(rule, monotone, "Call fit on all rows instead.")


class _Columns:
    """The columns of a fit, by name or number."""

    def __init__(self, encoding: TableEncoding | None, names: list[str] | None, n_features: int) -> None:
        self.encoding = encoding
        self.names = names if encoding is None else list(encoding.input_names)
        origins = np.arange(n_features) if encoding is None else encoding.origins
        self.n_columns = n_features if encoding is None else len(encoding.input_names)
        self.encoded = [tuple(map(int, np.flatnonzero(origins == at))) for at in range(self.n_columns)]

    def place(self, column: Any, argument: str) -> int:
        """Return the number of a column of the table."""
        if self.names is not None and column in self.names:
            return self.names.index(column)
        if is_whole(column) and 0 <= column < self.n_columns:
            return int(column)
        remedy = f"Choose of {self.names}." if self.names is not None else f"Count from 0 to {self.n_columns - 1}."
        raise InvalidParameterError(f"{argument} must name columns of X", column, remedy)

    def number(self, column: Any) -> int:
        """Return the encoded column that rises with a column of numbers."""
        at = self.place(column, "monotone")
        if self.encoding is None:
            return at
        kinds = {of.name: of for of in self.encoding.columns}
        name = self.encoding.input_names[at]
        if not isinstance(kinds.get(name), NumberColumn):
            found = "a column left out" if name not in kinds else f"a {kinds[name].kind}"
            rule = f"a monotone column must hold numbers; {name!r} does not"
            raise InvalidParameterError(rule, found, "Leave it out of monotone, or make it a number.")
        return self.encoded[at][0]

    def sets(self, interactions: Any) -> tuple[ColumnSet, ...]:
        """Return every column alone, and the sets of columns that may act together."""
        alone = [ColumnSet(columns) for columns in self.encoded if columns]
        if isinstance(interactions, str):
            return tuple(alone)
        together = []
        for given in interactions:
            places = sorted({self.place(column, "interactions") for column in given})
            if len(places) < 2:
                rule = "interactions must pair different columns"
                raise InvalidParameterError(rule, given, "Every column acts alone anyway: leave this one out.")
            columns = tuple(number for at in places for number in self.encoded[at])
            if columns:
                together.append(ColumnSet(columns, len(places)))
        return (*alone, *together)
