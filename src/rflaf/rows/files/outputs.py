"""Files written whole or not at all, and tables written to them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rflaf.errors import InvalidParameterError
from rflaf.rows.tables import require_arrow

from .table import kind_of


def check_output(path: Path) -> None:
    """Refuse a path that cannot be written to, before any work is done for it."""
    folder = path.resolve().parent
    if not folder.is_dir() or path.is_dir():
        rule = "the output must be a file in a folder that exists"
        raise InvalidParameterError(rule, str(path), "Choose another path.")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InvalidParameterError(
            f"the folder of the output must be writable, but {error.strerror}", str(path), "Choose another path."
        ) from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside ``path`` to write to, which takes its place in one step if all goes well, and else vanishes."""
    check_output(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.resolve().parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_chunks(chunks: Iterable[Any], path: str | Path, like: str | Path | None = None) -> int:
    """Write Arrow tables one after the other to a file, and return the number of rows.

    The kind of the file is that of its name, or of ``like``: Parquet, Arrow, NPZ with one array per column, or CSV.
    """
    kind = kind_of(path if like is None else like)
    if kind == "NPZ":
        return _write_npz(chunks, Path(path))
    pa = require_arrow()
    import pyarrow.csv as arrow_csv
    import pyarrow.parquet as parquet

    open_writer = {"Parquet": parquet.ParquetWriter, "Arrow": pa.ipc.new_file}.get(kind, arrow_csv.CSVWriter)
    writer, n_rows = None, 0
    with pa.OSFile(str(path), "wb") as file:
        try:
            for chunk in chunks:
                writer = writer or open_writer(file, chunk.schema)
                writer.write_table(chunk)
                n_rows += chunk.num_rows
        finally:
            if writer is not None:
                writer.close()
    return n_rows


def _write_npz(chunks: Iterable[Any], path: Path) -> int:
    table = require_arrow().concat_tables(chunks)
    with path.open("wb") as file:
        arrays: dict[str, Any] = {name: np.asarray(table[name].to_pylist()) for name in table.column_names}
        np.savez(file, **arrays)
    return int(table.num_rows)
