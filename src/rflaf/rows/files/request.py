"""What is asked of a table in files: which of its columns are inputs, targets and weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rflaf.errors import InvalidParameterError
from rflaf.rows.tables import TableEncoding


@dataclass(frozen=True, slots=True)
class Request:
    """Files, and what to read from them.

    Attributes
    ----------
    files : all of one kind, in order
    columns : names of the inputs, None for all but targets and weight
    targets, weight : names of columns
    labels : whether targets are labels, left as they are
    encoding : how columns become inputs if that is known from a fit, None where it is to be found
    """

    files: list[str]
    columns: Sequence[str] | None
    targets: list[str]
    weight: str | None = None
    labels: bool = False
    encoding: TableEncoding | None = None

    @property
    def beside(self) -> list[str]:
        """The columns that are read beside the inputs."""
        return distinct(*self.targets, self.weight)

    def inputs(self, names: list[str]) -> list[str]:
        """The inputs among the columns of the files."""
        beside = self.beside
        inputs = list(self.columns) if self.columns is not None else [name for name in names if name not in beside]
        both = [name for name in inputs if name in beside]
        if both or not inputs:
            raise InvalidParameterError(
                "inputs must be columns other than target and weight, at least one", both or inputs, "Choose others."
            )
        return inputs if self.encoding is None else list(self.encoding.column_names)


def distinct(*names: str | None) -> list[str]:
    """The names that are given, each once."""
    return list(dict.fromkeys(name for name in names if name is not None))
