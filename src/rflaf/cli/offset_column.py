"""A column of offsets or exposures at the command line: it moves into targets and weights before a fit, exactly.

The rows to train on are written to a temporary Parquet file with the targets and weights under which f alone is to be
learned (`rflaf.functions.losses.Loss.without_offset`), chunk by chunk.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rflaf.errors import InvalidParameterError
from rflaf.estimators.offsets import OFFSET_WEIGHT, shift_targets
from rflaf.functions.losses import Loss
from rflaf.rows.files import Table
from rflaf.rows.files.chunks import read_rows
from rflaf.rows.files.outputs import write_chunks
from rflaf.rows.tables import TargetEncoding, require_arrow


def with_offset_column(aim: TargetEncoding, offset: str | None, exposure: str | None) -> TargetEncoding:
    """Return the target with its column of offsets or of exposures."""
    if offset is not None and exposure is not None:
        raise InvalidParameterError("--offset and --exposure exclude each other", [offset, exposure], "Give one.")
    name = offset if exposure is None else exposure
    if name is None:
        return aim
    if aim.task == "classification":
        raise InvalidParameterError("an offset needs a regression", aim.task, "Add --task regression, or leave it out.")
    if name == aim.name:
        raise InvalidParameterError("the offset must be another column than the target", name, "Name another one.")
    return replace(aim, offset=name, exposure=exposure is not None)


def without_offsets(table: Table, aim: TargetEncoding, loss: Loss) -> Table:
    """Return a copy of the chosen rows of a table with targets without offset, and weights in `OFFSET_WEIGHT`."""
    folder = tempfile.mkdtemp(prefix="rflaf-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "rows.parquet"
    if not write_chunks(_all_rewritten(table, aim, loss), path):
        raise InvalidParameterError("the table must have rows", str(table.paths), "Name another file.")
    exclude = [name for name in table.exclude if name != aim.offset]
    return replace(
        table, paths=path, rows=None, drop_missing=None, has_header=None, encoding=None, exclude=[*exclude, aim.offset]
    )


def _all_rewritten(table: Table, aim: TargetEncoding, loss: Loss) -> Iterator[Any]:
    """Yield the chosen rows of a table, rewritten; all chunks have the types of the first."""
    schema = None
    for _, chunk in read_rows(table):
        if chunk.num_rows:
            rows = _rewritten(chunk, aim, loss, table.missing)
            schema = rows.schema if schema is None else schema
            try:
                yield rows.cast(schema)
            except require_arrow().ArrowInvalid as error:
                rule = "all rows of a table with an offset must hold the same kinds of values"
                raise InvalidParameterError(rule, str(error), "Convert them.") from error


def _rewritten(chunk: Any, aim: TargetEncoding, loss: Loss, missing: Any) -> Any:
    """Return a chunk with the targets and weights that an offset leaves."""
    y, offset = aim.read(chunk, missing), aim.offsets(chunk, missing)
    assert offset is not None  # the target has one
    loss.check_more(y)
    targets, weight = shift_targets(loss, np.asarray(y, np.float64)[:, None], offset[:, None], np.ones(len(y)))
    pa = require_arrow()
    at = chunk.column_names.index(aim.name)
    return chunk.set_column(at, aim.name, pa.array(targets[:, 0])).append_column(OFFSET_WEIGHT, pa.array(weight))
