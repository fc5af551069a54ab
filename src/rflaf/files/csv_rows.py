"""Rows of CSV files: parsed twice, to see their values and to write them as numbers into a temporary Parquet file.

The file is removed with the reader.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from functools import reduce
from operator import add

import numpy as np

from rflaf.errors import InvalidParameterError
from rflaf.progress import Begin, PassDisplay
from rflaf.reading import read_chunks
from rflaf.tables import (
    NumberColumn,
    TableEncoding,
    TableSummary,
    TargetEncoding,
    make_encoding,
    require_arrow,
    summarise,
)

from .first_scan import scan
from .parquet_rows import ParquetRows
from .request import Request, distinct
from .row_groups import RowGroup, index_files
from .source import FileSource, OpenTable, Reader
from .values import in_column, write_inputs


def open_csv(request: Request, reader: Reader) -> OpenTable:
    """CSV files, read once to see what their columns hold and once more to write them as numbers."""
    total = _summary_of_all(request, reader.begin)
    encoding = request.encoding
    if encoding is None:
        encoding = make_encoding(total, exclude=request.beside)
    folder = reader.exits.enter_context(tempfile.TemporaryDirectory(prefix="rflaf-"))
    shown = {os.path.join(folder, f"{number}.parquet"): file for number, file in enumerate(request.files)}
    targets = _target_encodings(request, total)
    with reader.begin("write as numbers", total.n_rows, total.n_rows) as display:
        for path, file in shown.items():
            _convert(file, path, encoding, targets, request.weight, display)
    groups, schemas = index_files(list(shown), shown)
    plain = [_input_name(j) for j in range(len(encoding.feature_names))]
    seen = reader.pool.submit(scan, groups, schemas[0], plain, request, reader.begin).result()
    written = TableEncoding(tuple(NumberColumn(name, 0.0, False) for name in plain))
    dtype = np.dtype(np.float64)
    storage = ParquetRows(groups, written, tuple(request.targets), request.weight, dtype, request.labels)
    return OpenTable(FileSource(storage, reader), encoding, seen.label_weights, seen.target_range)


def _summary_of_all(request: Request, begin: Begin) -> TableSummary:
    """What the columns that are needed hold in all files, the inputs first."""
    files = request.files
    with begin("look at every value", None, None) as display:
        summaries = [_summary_of(file, display) for file in files]
    needed = distinct(*request.inputs(list(summaries[0].columns)), *request.beside)
    for file, summary in zip(files, summaries, strict=True):
        _check_columns(file, summary, files[0], summaries[0], needed)
    chosen = [TableSummary({name: summary.columns[name] for name in needed}) for summary in summaries]
    return reduce(add, chosen)


def _summary_of(file: str, display: PassDisplay) -> TableSummary:
    """What the columns of a CSV file hold."""
    chunks = read_chunks(file)
    total = summarise(next(chunks))
    for chunk in chunks:
        total = total + summarise(chunk)
        display.advance(chunk.num_rows)
    if total.n_rows == 0:
        raise InvalidParameterError("every file must have rows", f"{file}, which has none", "Leave it out.")
    return total


def _check_columns(file: str, summary: TableSummary, first: str, expected: TableSummary, needed: list[str]) -> None:
    """A CSV file must have the columns, of the kinds they have in the first file."""
    for name in needed:
        if name not in summary.columns:
            raise InvalidParameterError(
                f"every file must have a column {name!r}, once", f"{file} with {list(summary.columns)}", "Add it."
            )
        here, there = summary.columns[name].kind, expected.columns[name].kind
        if here != there and "empty" not in (here, there):
            raise InvalidParameterError(
                f"column {name!r} must be of one type in all files: {there} in {first}",
                f"{here} in {file}, row group 0, column {name!r}",
                "Write the files with one schema.",
            )


def _target_encodings(request: Request, total: TableSummary) -> list[TargetEncoding]:
    task = "classification" if request.labels else "regression"
    kinds = [_label_kind(total, name) if request.labels else "number" for name in request.targets]
    return [TargetEncoding(name, task, kind) for name, kind in zip(request.targets, kinds, strict=True)]


def _label_kind(summary: TableSummary, name: str) -> str:
    column = summary.columns[name]
    return "whole" if column.kind == "number" and column.numbers.whole else "text"


def _input_name(number: int) -> str:
    return f"input {number}"


def _convert(
    file: str,
    path: str,
    encoding: TableEncoding,
    targets: list[TargetEncoding],
    weight: str | None,
    display: PassDisplay,
) -> None:
    """Write the rows of a CSV file as numbers into a Parquet file, one row group a chunk."""
    pa = require_arrow()
    import pyarrow.parquet as pq

    with ExitStack() as exits:
        writer = None
        for number, chunk in enumerate(read_chunks(file)):
            if chunk.num_rows == 0:
                continue
            group = RowGroup(path, file, number - 1, 0, chunk.num_rows)  # the first chunk has no rows, only names
            X = np.zeros((chunk.num_rows, len(encoding.feature_names)))
            write_inputs(chunk, encoding, X, group)
            columns = {_input_name(j): X[:, j] for j in range(X.shape[1])}
            for target in targets:
                with in_column(target.name, group):
                    columns[target.name] = target.read(chunk)
            if weight is not None:
                with in_column(weight, group):
                    columns[weight] = TargetEncoding(weight, "regression", "number").read(chunk)
            written = pa.table(columns)
            if writer is None:
                writer = exits.enter_context(pq.ParquetWriter(path, written.schema))
            writer.write_table(written, row_group_size=chunk.num_rows)
            display.advance(chunk.num_rows)
