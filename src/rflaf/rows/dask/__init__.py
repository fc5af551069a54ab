"""Rows on more than one machine: Dask arrays and frames, summed by their cluster. Needs the extra ``dask``.

A pass sends one function to every partition, where the data live. The sums that come back are added in a tree whose
shape depends only on the number of partitions, neither on the order in which workers finish nor on a worker that dies
and has its part computed again. Any scheduler, any number of workers and any partition of the rows therefore gives the
same model to rounding. Quantities computed from few rows (bandwidth, activation, ridge) are computed in this process,
from the rows that the same generator draws from an array. A partition is read again in every pass unless the collection
was persisted.

May import `rflaf.errors` and the modules of `rflaf.rows` that know no files.
"""

from .collections import is_collection, open_collection, predict_lazily
from .executor import DaskExecutor, DaskSource
from .graph import Cluster

__all__ = ["Cluster", "DaskExecutor", "DaskSource", "is_collection", "open_collection", "predict_lazily"]
