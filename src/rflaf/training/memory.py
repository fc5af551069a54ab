"""What a fit needs in memory, as arithmetic on its size: blocks, sums, samples of rows and what is kept between passes.

A fit goes through stages, and each needs

    fixed + workers * (own + rows * own_row) + rows * row        bytes,    rows of a block, workers at once

The number of rows of a block follows from the budget alone and never from the number of threads, which therefore cannot
change a model; how many threads may work at once follows from what is left. The budget is for what the fit takes beside
the process as it was, and beside rows that were in memory before. A budget too small for one thread is refused before
any work.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rflaf.errors import MemoryBudgetError
from rflaf.functions.losses import Squared
from rflaf.model.greedy import AHEAD
from rflaf.rows.blocks import LEAST_ROWS, MOST_ROWS, BlockSource, innermost
from rflaf.training.solvers.refined.search import MOST_NODES, USUAL_NODES

from .specification import FEW_ROWS, FitSpec

_BLOCK_MEMORY = 2**28
_READ_AHEAD = 8  # blocks that a source of files holds, decoded, and as many again on their way
_COPIES = 7  # of the sums, while they are solved: scaled, centred, factored or in eigenvectors
_ENOUGH_ROWS = 512  # of a block, before a second worker is worth more than larger blocks
_SAMPLED_ROWS, _SMALL_ROWS = 8000, 1500  # to choose a ridge by, and to start an activation from
_SEARCH_ROWS = 20_000
_LEAST_POOL_ROWS = 1000  # of the features of a pool
_TRAINER_COPIES = 8  # of the parameters: their gradient, its moments, the network they make
_ENCODINGS = 3  # of the rows of a search, for recipes of different nodes
_MARGIN = 2**20  # small things
_PREDICTED_ROWS, _PREDICTED_BYTES = 2**14, 2**24  # of a block of rows that are read to be predicted


@dataclass(frozen=True, slots=True)
class Stage:
    """What one stage of a fit needs, in bytes."""

    name: str
    fixed: int
    own: int = 0
    own_row: int = 0
    row: int = 0

    def bytes(self, rows: int, workers: int) -> int:
        return self.fixed + workers * (self.own + rows * self.own_row) + rows * self.row


@dataclass(frozen=True, slots=True)
class Budget:
    """Rows of a block, workers at once, and bytes left to keep things between passes; None for as many as you like."""

    block_rows: int
    n_workers: int | None = None
    left: int | None = None


@dataclass(frozen=True, slots=True)
class TableSize:
    """How large a table is; ``reading`` is what it takes to read it, beside the rows that are read: pages of files."""

    n_samples: int
    n_features: int
    n_outputs: int
    itemsize: int
    reading: int = 0

    @classmethod
    def of(cls, source: BlockSource) -> TableSize:
        reading = getattr(innermost(source), "reading_bytes", 0)
        return cls(source.n_samples, source.n_features, source.n_outputs, source.dtype.itemsize, reading)


def plan_fit(spec: FitSpec, table: TableSize) -> Budget:
    """Blocks and workers for the memory of a fit.

    >>> plan_fit(FitSpec(n_components=100), TableSize(10**7, 20, 1, 8)).block_rows
    2048
    """
    if spec.memory is None:
        design = table.itemsize * (_n_columns(spec, table) + table.n_features)
        return Budget(min(MOST_ROWS, max(LEAST_ROWS, _BLOCK_MEMORY // design)))
    stages, least = fit_stages(spec, table), least_memory(spec, table)
    if spec.memory < least:
        narrower = _widest(spec, table)
        enough = f", or n_components={narrower} at most" if narrower else "; fewer components alone are not enough"
        raise _too_little(stages, spec.memory, enough)
    return _divided(stages, spec.memory)


def plan_more(memory: int | None, table: TableSize, n_components: int, squared: bool) -> Budget:
    """Blocks and workers for rows that come later, of which a model of ``n_components`` learns the output weights.

    >>> plan_more(2**24, TableSize(10**7, 20, 1, 8), n_components=100, squared=True).n_workers
    2
    """
    if memory is None:
        return Budget(MOST_ROWS)
    stages = _summing(n_components + 1 + table.n_outputs, table, squared)
    if memory < _needed(stages, LEAST_ROWS, 1):
        raise _too_little(stages, memory)
    return _divided(stages, memory)


def plan_prediction(memory: int | None, table: TableSize, width: int) -> int:
    """Rows of a block that are read to be predicted, where ``width`` numbers are made of each.

    >>> plan_prediction(None, TableSize(10**7, 20, 0, 8), 101)
    16384
    """
    most = min(_PREDICTED_ROWS, max(LEAST_ROWS, _PREDICTED_BYTES // (8 * table.n_features)))
    if memory is None:
        return most
    stage = Stage("the rows to predict", table.reading + _MARGIN, 0, 0, _reader(table) + 16 * width)
    if memory < stage.bytes(LEAST_ROWS, 1):
        raise _too_little([stage], memory)
    return min(most, (memory - stage.fixed) // stage.row)


def _divided(stages: list[Stage], memory: int) -> Budget:
    """Memory that is enough, divided among rows of a block and workers."""
    rows = max(min(_most_rows(stages, memory, 1), _ENOUGH_ROWS), _most_rows(stages, memory, 2))
    workers = 1
    while workers < 256 and _needed(stages, rows, workers + 1) <= memory:
        workers += 1
    return Budget(rows, workers, memory - _needed(stages, rows, workers))


def least_memory(spec: FitSpec, table: TableSize) -> int:
    """The smallest budget that would do, in bytes."""
    return _needed(fit_stages(spec, table), LEAST_ROWS, 1)


def fit_stages(spec: FitSpec, table: TableSize) -> list[Stage]:
    """The stages of a fit, the sums over all rows first."""
    n, squared = _n_columns(spec, table), isinstance(spec.loss, Squared)
    targets = 24 * (table.n_outputs + 1)
    stages = _summing(n, replace(table, reading=0), squared)
    if spec.sampling != "plain" or not spec.per_component or not squared:
        stages += _learning(spec, table, squared)
    if spec.sampling == "greedy":
        stages.append(_choosing(spec, table, targets))
    if spec.refined:
        stages += _refining(spec, table)
        if table.n_samples <= FEW_ROWS:
            stages += fit_stages(spec.for_few_rows(table.n_features)[-1], replace(table, reading=0))
    return [replace(stage, fixed=stage.fixed + table.reading) for stage in stages]


def _summing(n: int, table: TableSize, squared: bool) -> list[Stage]:
    """The sums of a design of ``n`` columns, what is solved with them, and passes of another loss."""
    d, item, sums, targets = table.n_features, table.itemsize, 8 * n * n, 24 * (table.n_outputs + 1)
    reader = _reader(table)
    stages = [
        Stage("the sums", 2 * sums + _MARGIN, sums + (item * n * n if item < 8 else 0), item * (4 * n + 2 * d), reader),
        Stage("solving them", _COPIES * sums + _sample(_SAMPLED_ROWS, d, targets, table) + _MARGIN, sums),
    ]
    if not squared:
        kept = _COPIES * sums + table.n_samples + _MARGIN  # and the fold of every row, a byte
        stages.append(Stage("the loss", kept, 0, item * 4 * n, reader))
    return [replace(stage, fixed=stage.fixed + table.reading) for stage in stages]


def _reader(table: TableSize) -> int:
    """Bytes that reading ahead takes for every row of a block."""
    targets = 24 * (table.n_outputs + 1)
    return (2 * _READ_AHEAD * 8 + _READ_AHEAD * table.itemsize) * table.n_features + _READ_AHEAD * targets


def _n_columns(spec: FitSpec, table: TableSize) -> int:
    """Columns of the widest design: features of the pool or of the components kept, one, and targets."""
    width = spec.most_components * (spec.basis.n_basis if spec.per_component and not spec.refined else 1)
    return (width if spec.sampling == "greedy" else max(spec.n_pool, width)) + 1 + table.n_outputs


def _choosing(spec: FitSpec, table: TableSize, targets: int) -> Stage:
    """Greedy selection from a pool, by the features of a sample."""
    rows = _MARGIN + 2 * _sample(12_000, table.n_features, targets, table)
    features = _LEAST_POOL_ROWS * table.itemsize * spec.n_pool + 24 * spec.n_pool * (spec.most_components + AHEAD)
    return Stage("the pool", features + rows)


def _learning(spec: FitSpec, table: TableSize, squared: bool) -> list[Stage]:
    """A shared activation, on samples of rows and components."""
    d, item, targets, search = table.n_features, table.itemsize, 24 * (table.n_outputs + 1), spec.search
    width = min(spec.n_pool, search.n_components)
    rows, small = min(search.n_rows, table.n_samples), min(_SMALL_ROWS, table.n_samples)
    fixed = rows * (item * 2 * (d + width) + targets) + _COPIES * 8 * (width + 1 + table.n_outputs) ** 2 + _MARGIN
    few = min(width, search.start_components)
    own = small * item * 2 * few + _COPIES * 8 * few**2 + 2048 * item * width
    stages = [Stage("learning the activation", fixed, own)]
    if not squared:
        few, rows = min(spec.n_pool, search.polish_components), min(search.polish_rows, table.n_samples)
        stages.append(Stage("learning it under the loss", rows * (item * (d + 4 * few) + 2 * targets) + _MARGIN))
    return stages


def _refining(spec: FitSpec, table: TableSize) -> list[Stage]:
    """The search on a sample of rows, and training on all of them."""
    d, item, outputs = table.n_features, table.itemsize, table.n_outputs
    rows = min(_SEARCH_ROWS, table.n_samples)
    encoded = 8 * d + 4 * outputs + 24
    nodes = max(d * min(USUAL_NODES, rows), min(MOST_NODES, d * rows))
    trainer = _TRAINER_COPIES * 4 * spec.most_components * (d + nodes)
    search = rows * ((2 * item + 8) * d + _ENCODINGS * encoded + 24 * outputs) + _MARGIN
    block = (2 * item + 16) * d + 2 * encoded
    return [Stage("the search", search, trainer + 8 * rows), Stage("training", search + trainer, 0, 8, block)]


def _sample(n_rows: int, d: int, targets: int, table: TableSize) -> int:
    return min(n_rows, table.n_samples) * (table.itemsize * d + targets)


def _needed(stages: list[Stage], rows: int, workers: int) -> int:
    return max(stage.bytes(rows, workers) for stage in stages)


def _most_rows(stages: list[Stage], memory: int, workers: int) -> int:
    """Rows of a block with which every stage fits; zero where none does."""
    most = MOST_ROWS
    for stage in stages:
        left, a_row = memory - stage.bytes(0, workers), workers * stage.own_row + stage.row
        most = min(most, 0 if left < 0 else left // a_row if a_row else most)
    return most


def _too_little(stages: list[Stage], memory: int, otherwise: str = "") -> MemoryBudgetError:
    stage = max(stages, key=lambda stage: stage.bytes(LEAST_ROWS, 1))
    least = stage.bytes(LEAST_ROWS, 1)
    return MemoryBudgetError(
        f"memory must hold {stage.name} of {least} bytes", memory, f"Allow at least {least} bytes{otherwise}."
    )


def _widest(spec: FitSpec, table: TableSize) -> int:
    """The largest number of components that the memory holds, zero for none."""

    def fits(width: int) -> bool:
        narrower = replace(spec, n_components=width)
        return spec.memory is not None and least_memory(narrower, table) <= spec.memory

    low, high = 0, spec.most_components
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
