"""The memory of a fit, as arithmetic on its size: blocks, sums, samples of rows and arrays kept between passes.

A fit goes through stages, and each needs

    fixed + workers * (own + rows * own_row) + rows * row        bytes,    rows per block, workers at once

The number of rows per block follows from the budget alone and never from the number of threads, which therefore cannot
change a model; the number of threads at once follows from what is left. The budget covers what the fit allocates, not
the process as it was nor rows already in memory. A budget too small for one thread is refused before any work. Sizes
that other modules define are imported from there, so the plan cannot drift.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rflaf.errors import MemoryBudgetError
from rflaf.model.greedy import AHEAD
from rflaf.rows.blocks import LEAST_ROWS, MOST_ROWS, READ_AHEAD, BlockSource, innermost
from rflaf.training.solvers.refined.search import MOST_NODES, USUAL_NODES

from .pools import GREEDY_ROWS, LEAST_GREEDY_ROWS
from .ridge_rule import JUDGED_ROWS
from .specification import FEW_ROWS, SEARCH_ROWS, FitSpec

_BLOCK_MEMORY = 2**28
_COPIES = 7  # of the sums while they are solved: scaled, centred, factored or in eigenvectors
_ENOUGH_ROWS = 512  # per block, beyond which a second worker is worth more than larger blocks
_TRAINER_COPIES = 8  # of the parameters: gradient, moments, network
_ENCODINGS = 3  # of the rows of a search, for recipes of different nodes
_MARGIN = 2**20  # for small arrays
_PREDICTED_ROWS, _PREDICTED_BYTES = 2**14, 2**24  # per block of rows to predict


@dataclass(frozen=True, slots=True)
class Stage:
    """The memory of one stage of a fit, in bytes."""

    name: str
    fixed: int
    own: int = 0
    own_row: int = 0
    row: int = 0

    def bytes(self, rows: int, workers: int) -> int:
        return self.fixed + workers * (self.own + rows * self.own_row) + rows * self.row


@dataclass(frozen=True, slots=True)
class Budget:
    """Rows per block, workers at once, and bytes left for arrays kept between passes; None for no limit."""

    block_rows: int
    n_workers: int | None = None
    left: int | None = None


@dataclass(frozen=True, slots=True)
class TableSize:
    """The size of a table; ``reading`` counts bytes for reading it beside the rows, such as pages of files."""

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
    """Plan blocks and workers for the memory of a fit.

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


def plan_more(memory: int | None, table: TableSize, n_components: int, closed_form: bool) -> Budget:
    """Plan blocks and workers for later rows, from which a model of ``n_components`` updates its output weights.

    >>> plan_more(2**24, TableSize(10**7, 20, 1, 8), n_components=100, closed_form=True).n_workers
    2
    """
    if memory is None:
        return Budget(MOST_ROWS)
    stages = _summing(n_components + 1 + table.n_outputs, table, closed_form)
    if memory < _needed(stages, LEAST_ROWS, 1):
        raise _too_little(stages, memory)
    return _divided(stages, memory)


def plan_prediction(memory: int | None, table: TableSize, width: int) -> int:
    """Plan the rows per block to predict, where ``width`` numbers are computed per row.

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
    """Divide a sufficient memory among rows per block and workers."""
    rows = max(min(_most_rows(stages, memory, 1), _ENOUGH_ROWS), _most_rows(stages, memory, 2))
    workers = 1
    while workers < 256 and _needed(stages, rows, workers + 1) <= memory:
        workers += 1
    return Budget(rows, workers, memory - _needed(stages, rows, workers))


def least_memory(spec: FitSpec, table: TableSize) -> int:
    """Return the smallest sufficient budget, in bytes."""
    return _needed(fit_stages(spec, table), LEAST_ROWS, 1)


def fit_stages(spec: FitSpec, table: TableSize) -> list[Stage]:
    """Return the stages of a fit, the sums over all rows first."""
    n, closed_form = _n_columns(spec, table), spec.loss.closed_form
    targets = 24 * (table.n_outputs + 1)
    stages = _summing(n, replace(table, reading=0), closed_form)
    if spec.sampling != "plain" or not spec.per_component or not closed_form:
        stages += _learning(spec, table, closed_form)
    if spec.sampling == "greedy":
        stages.append(_choosing(spec, table, targets))
    if spec.refined:
        stages += _refining(spec, table)
        if table.n_samples <= FEW_ROWS:
            stages += fit_stages(spec.for_few_rows(table.n_features)[-1], replace(table, reading=0))
    return [replace(stage, fixed=stage.fixed + table.reading) for stage in stages]


def _summing(n: int, table: TableSize, closed_form: bool) -> list[Stage]:
    """Return the stages of summing a design of ``n`` columns, solving, and passes of other losses."""
    d, item, sums, targets = table.n_features, table.itemsize, 8 * n * n, 24 * (table.n_outputs + 1)
    reader = _reader(table)
    stages = [
        Stage("the sums", 2 * sums + _MARGIN, sums + (item * n * n if item < 8 else 0), item * (4 * n + 2 * d), reader),
        Stage("solving them", _COPIES * sums + _sample(JUDGED_ROWS, d, targets, table) + _MARGIN, sums),
    ]
    if not closed_form:
        kept = _COPIES * sums + table.n_samples + _MARGIN  # one byte per row for its fold
        stages.append(Stage("the loss", kept, 0, item * 4 * n, reader))
    return [replace(stage, fixed=stage.fixed + table.reading) for stage in stages]


def _reader(table: TableSize) -> int:
    """Return the bytes for reading ahead, per row of a block."""
    targets = 24 * (table.n_outputs + 1)
    return (2 * READ_AHEAD * 8 + READ_AHEAD * table.itemsize) * table.n_features + READ_AHEAD * targets


def _n_columns(spec: FitSpec, table: TableSize) -> int:
    """Return the columns of the widest design: features of the pool or of the components kept, one, and targets."""
    width = spec.most_components * (spec.basis.n_basis if spec.per_component and not spec.refined else 1)
    return (width if spec.sampling == "greedy" else max(spec.n_pool, width)) + 1 + table.n_outputs


def _choosing(spec: FitSpec, table: TableSize, targets: int) -> Stage:
    """Return the stage of greedy selection from a pool, by the features of a sample."""
    rows = _MARGIN + 2 * _sample(GREEDY_ROWS[1], table.n_features, targets, table)
    features = LEAST_GREEDY_ROWS * table.itemsize * spec.n_pool + 24 * spec.n_pool * (spec.most_components + AHEAD)
    return Stage("the pool", features + rows)


def _learning(spec: FitSpec, table: TableSize, closed_form: bool) -> list[Stage]:
    """Return the stages of learning a shared activation, on samples of rows and components."""
    d, item, targets, search = table.n_features, table.itemsize, 24 * (table.n_outputs + 1), spec.search
    width = min(spec.n_pool, search.n_components)
    rows, small = min(search.n_rows, table.n_samples), min(search.start_rows, table.n_samples)
    fixed = rows * (item * 2 * (d + width) + targets) + _COPIES * 8 * (width + 1 + table.n_outputs) ** 2 + _MARGIN
    few = min(width, search.start_components)
    own = small * item * 2 * few + _COPIES * 8 * few**2 + MOST_ROWS * item * width
    stages = [Stage("learning the activation", fixed, own)]
    if not closed_form:
        few, rows = min(spec.n_pool, search.polish_components), min(search.polish_rows, table.n_samples)
        stages.append(Stage("learning it under the loss", rows * (item * (d + 4 * few) + 2 * targets) + _MARGIN))
    return stages


def _refining(spec: FitSpec, table: TableSize) -> list[Stage]:
    """Return the stages of the search on a sample of rows and of training on all rows."""
    d, item, outputs = table.n_features, table.itemsize, table.n_outputs
    rows = min(SEARCH_ROWS, table.n_samples)
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
    """Return the rows per block with which every stage fits; zero if none does."""
    most = MOST_ROWS
    for stage in stages:
        left, per_row = memory - stage.bytes(0, workers), workers * stage.own_row + stage.row
        most = min(most, 0 if left < 0 else left // per_row if per_row else most)
    return most


def _too_little(stages: list[Stage], memory: int, otherwise: str = "") -> MemoryBudgetError:
    stage = max(stages, key=lambda stage: stage.bytes(LEAST_ROWS, 1))
    least = stage.bytes(LEAST_ROWS, 1)
    return MemoryBudgetError(
        f"memory must hold {stage.name} of {least} bytes", memory, f"Allow at least {least} bytes{otherwise}."
    )


def _widest(spec: FitSpec, table: TableSize) -> int:
    """Return the largest number of components that the memory holds, zero for none."""

    def fits(width: int) -> bool:
        narrower = replace(spec, n_components=width)
        return spec.memory is not None and least_memory(narrower, table) <= spec.memory

    low, high = 0, spec.most_components
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
