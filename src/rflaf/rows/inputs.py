"""What users pass as rows: arrays, which the estimators check themselves, or a table that is somewhere else.

`open_rows` is the one place that tells which, and the one entry for rows that are read block by block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from .blocks import BlockSource
from .dask import is_collection, open_collection
from .files import is_files, open_table
from .progress import Begin, Quiet
from .tables import TableEncoding


class OpenRows(Protocol):
    """Rows that are not in memory, checked and ready to be read; to be closed.

    ``source`` has targets as they are, numbers or labels; ``encoding`` says how columns become inputs, None where they
    are numbers already; ``feature_names`` are those of the inputs, None where they have none; ``label_weights`` is the
    weight of every label, ``target_range`` the lowest and highest targets (2, n_outputs), none for labels.
    """

    @property
    def source(self) -> BlockSource: ...

    @property
    def encoding(self) -> TableEncoding | None: ...

    @property
    def feature_names(self) -> Sequence[str] | None: ...

    @property
    def single_output(self) -> bool: ...

    @property
    def label_weights(self) -> dict[Any, float]: ...

    @property
    def target_range(self) -> NDArray[Any]: ...

    def close(self) -> None: ...


def open_rows(
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    labels: bool = False,
    encoding: TableEncoding | None = None,
    begin: Begin = Quiet,
    memory: int | None = None,
) -> OpenRows | None:
    """Rows to learn from, or with the ``encoding`` of a fit to predict; None for arrays and frames in memory.

    Passes over the rows are shown by ``begin``; to look at files takes no more than ``memory`` bytes.
    """
    if is_files(X):
        return open_table(X, y, sample_weight, labels, encoding, begin, memory)
    if is_collection(X):
        return open_collection(X, y, sample_weight, labels, begin)
    return None
