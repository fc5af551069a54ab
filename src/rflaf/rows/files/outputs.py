"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rflaf.errors import InvalidParameterError


def check_output(path: Path) -> None:
    """Refuse a path that cannot be written to, before any work is done for it."""
    folder = path.resolve().parent
    if not folder.is_dir() or path.is_dir():
        raise InvalidParameterError(
            "the output must be a file in a folder that exists", str(path), "Choose another path."
        )
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
