"""Files written whole or not at all, and tables written to them.

A link is followed: the file it names is replaced, not the link. A device or a pipe is written into, never replaced.
Temporaries stand beside their file and are locked while they are written, so that the next writer of the file sweeps
those that a killed process left.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from rflaf.errors import InvalidParameterError
from rflaf.rows.tables import require_arrow

from .table import kind_of

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed
    fcntl = None  # type: ignore[assignment]

_ENDING = ".rflaf-part"  # of temporaries
_OTHER_DEVICE = (errno.EXDEV, errno.EBUSY)  # a file mounted from elsewhere can be written, but not replaced
_TABLES = (".csv", ".parquet", ".pq", ".parq", ".npz", ".arrow", ".feather")


def check_output(path: Path) -> None:
    """Refuse a path that cannot be written to, before any work is done for it."""
    target = _resolved(path)
    if _is_stream(target):
        return
    if not target.parent.is_dir() or (target.exists() and not target.is_file()):
        rule = "the output must be a file in a folder that exists"
        raise InvalidParameterError(rule, str(path), "Choose another path.")
    try:
        tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as error:
        raise InvalidParameterError(
            f"the folder of the output must be writable, but {error.strerror}", str(path), "Choose another path."
        ) from None


def check_table_output(path: Path) -> None:
    """Refuse a table whose name promises a kind of file that is not written here."""
    if path.suffix and not path.name.lower().endswith(_TABLES) and not _is_stream(_resolved(path)):
        rule = f"the name of a table must end in one of {', '.join(_TABLES)}"
        raise InvalidParameterError(rule, path.name, "Name it as what it is, such as predictions.csv.")


def _resolved(path: Path) -> Path:
    """Return the file that a path names behind all links."""
    try:
        target = path.resolve()
    except RuntimeError:  # of Python before 3.13
        target = path
    if target.is_symlink():
        raise InvalidParameterError("the output must not be a link to itself", str(path), "Choose another path.")
    return target


def _is_stream(target: Path) -> bool:
    """Return whether a path is a device or a pipe, into which one writes."""
    try:
        mode = target.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write to, which takes the place of ``path`` in one step if all goes well, and else vanishes."""
    check_output(path)
    target = _resolved(path)
    stream = _is_stream(target)
    folder = Path(tempfile.gettempdir()) if stream else target.parent
    if not stream:
        _sweep(target)
    with _locked(f".{target.name}.", folder) as temporary:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        if stream:
            _write_into(temporary, target)
            return
        temporary.chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask())
        try:
            temporary.replace(target)
        except OSError as error:
            if error.errno not in _OTHER_DEVICE:
                raise
            _write_into(temporary, target)


def _write_into(temporary: Path, target: Path) -> None:
    with temporary.open("rb") as source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink)


@contextmanager
def _locked(prefix: str, folder: Path) -> Iterator[Path]:
    """A new file, locked until it is closed; removed unless it was renamed."""
    while True:
        handle, name = tempfile.mkstemp(_ENDING, prefix, folder)
        held = os.fdopen(handle, "rb")
        if _lock(held) and os.fstat(held.fileno()).st_nlink:
            break
        held.close()  # swept by another process before it was locked
    temporary = Path(name)
    if fcntl is None:
        held.close()  # Windows renames only what is closed
    try:
        yield temporary
    finally:
        held.close()
        temporary.unlink(missing_ok=True)


def _lock(file: IO[bytes]) -> bool:
    """Lock a file if no other process has; without locks every file counts as locked by us."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sweep(target: Path) -> None:
    """Remove temporaries of ``target`` that nobody writes any more."""
    with suppress(OSError):
        for entry in list(os.scandir(target.parent)):
            if entry.name.startswith(f".{target.name}.") and entry.name.endswith(_ENDING):
                with suppress(OSError), open(entry.path, "rb") as left:
                    if _lock(left):
                        os.unlink(entry.path)


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
