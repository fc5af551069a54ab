"""The one door for rows: arrays, frames, Arrow tables, files and Dask collections.

`open_rows` opens rows that are read block by block; arrays and frames in memory are returned as None, and the
estimators check them. `executor_for` chooses where sums over the rows run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from .blocks import BlockSource, innermost, parts_of
from .dask import Cluster, DaskExecutor, DaskSource, is_collection, open_collection
from .executors import ThreadExecutor
from .files import is_files, open_table
from .progress import Begin, Quiet
from .tables import TableEncoding


class OpenRows(Protocol):
    """Rows outside memory, checked and ready to be read; to be closed.

    ``source`` has the targets as they are, numbers or labels; ``encoding`` turns columns into inputs, None where they
    are numbers already; ``feature_names`` are those of the inputs, None where they have none; ``label_weights`` is the
    weight of every label, ``target_range`` the lowest and highest targets (2, n_outputs), empty for labels.
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
    """Open rows to learn from, or, with the ``encoding`` of a fit, to predict; None for arrays and frames in memory.

    ``begin`` shows the progress of passes over the rows; scanning files takes at most ``memory`` bytes.
    """
    if is_files(X):
        return open_table(X, y, sample_weight, labels, encoding, begin, memory)
    if is_lazy(X):
        return open_collection(X, y, sample_weight, labels, begin)
    return None


def is_lazy(X: Any) -> bool:
    """Return whether ``X`` is a Dask collection; without Dask imported it cannot be one."""
    return "dask" in sys.modules and is_collection(X)


def executor_for(source: BlockSource, n_workers: int) -> ThreadExecutor | DaskExecutor:
    """Return the executor of sums over a source: the cluster its rows live on, or threads of this process.

    The workers of a distributed client read row groups of Parquet files themselves.
    """
    source = innermost(source)
    if parts_of(source) is None:
        return ThreadExecutor(n_workers)
    if isinstance(source, DaskSource):
        return DaskExecutor(source.cluster, ThreadExecutor(n_workers))
    if "distributed" in sys.modules:
        cluster = Cluster.current()
        if cluster.client is not None:
            return DaskExecutor(cluster, ThreadExecutor(n_workers))
    return ThreadExecutor(n_workers)
