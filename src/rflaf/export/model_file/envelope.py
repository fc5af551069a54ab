"""The file around a model: a header of JSON and arrays in the safetensors format, with limits and a checksum.

Nothing is read before its size is known to be sane, and no array before the header was found to be right. `_UPGRADES`
turns the header of one format into that of the next.
"""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rflaf.errors import Array, InvalidParameterError, MissingExtraError, UnreadableModelFile

FORMAT = 6
_LARGEST_HEADER = 2**24  # bytes
MOST_TOKENS = 400_000  # values in a header: some take a hundred bytes once they are read
_DTYPES = {"F64": np.float64, "F32": np.float32, "I64": np.int64}


def _one_encoding(header: dict[str, Any]) -> dict[str, Any]:
    """Return a header of format 1 in format 2: the encoding of a table model is that of its estimator."""
    table = header.get("table")
    kept = {**{name: value for name, value in header.items() if name != "table"}, "format": 2}
    if table is None:
        return {**kept, "columns": header.get("columns"), "target": None}
    return {**kept, "columns": table}


def _named_columns(header: dict[str, Any]) -> dict[str, Any]:
    """Return a header of format 2 in format 3: whether columns had names, and how texts of the target are read."""
    target = header.get("target")
    read = {**target, "reading": "number"} if isinstance(target, dict) else target
    return {**header, "format": 3, "named": True, "target": read}


def _with_codes(header: dict[str, Any]) -> dict[str, Any]:
    """Return a header of format 3 in format 4: its categories had a column for every level, of which it speaks."""
    return {**header, "format": 4, "indicators": header.get("columns") is not None}


def _with_limits(header: dict[str, Any]) -> dict[str, Any]:
    """Return a header of format 4 in format 5: days of dates had no limits, as where none are named."""
    return {**header, "format": 5}


def _with_seasons(header: dict[str, Any]) -> dict[str, Any]:
    """Return a header of format 5 in format 6: dates were told in no year of a fit, as where none is named."""
    return {**header, "format": 6}


# From a format to the next.
_UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: _one_encoding,
    2: _named_columns,
    3: _with_codes,
    4: _with_limits,
    5: _with_seasons,
}


def pack(header: dict[str, Any], arrays: dict[str, Array]) -> bytes:
    """The bytes of a model file."""
    text = json.dumps(header, allow_nan=False, separators=(",", ":"))
    packed: bytes = require_safetensors().numpy.save(arrays, {"rflaf": text, "sha256": digest_of(text, arrays)})
    return packed


def refuse_large(path: Path, header: dict[str, Any]) -> None:
    """Refuse to write a header that would not be read."""
    text = json.dumps(header).encode()
    if len(text) > _LARGEST_HEADER // 2 or _count_tokens(text) > MOST_TOKENS // 2:
        rule = "names, levels and provenance must fit into the header of a model file"
        size = f"{len(text)} bytes for {path.name}"
        raise InvalidParameterError(rule, size, "Shorten the names of the columns.")


def digest_of(text: str, arrays: Mapping[str, Array]) -> str:
    """The checksum of a header and the arrays it speaks of."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        digest.update(f"\n{name} {arrays[name].dtype.str} {arrays[name].shape}\n".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def require_safetensors() -> Any:
    """``safetensors``, or an error that names the extra to install."""
    try:
        import safetensors
        import safetensors.numpy
    except ImportError as error:
        raise MissingExtraError("model files", "safetensors", "save") from error
    return safetensors


@dataclass(frozen=True, slots=True)
class Arrays:
    """The arrays of a file: dtype and shape of each, known before any is read."""

    path: Path
    shapes: dict[str, tuple[str, tuple[int, ...]]]
    text: str
    sha256: str

    def read(self) -> dict[str, Array]:
        """All of them, numbers in double precision, after the whole file was found to be what was written."""
        safetensors = require_safetensors()
        with _refusing(self.path), safetensors.safe_open(self.path, framework="numpy") as file:
            arrays = {name: np.asarray(file.get_tensor(name)) for name in self.shapes}
        if digest_of(self.text, arrays) != self.sha256:
            raise UnreadableModelFile(self.path, "its content is not what was written: the checksum differs")
        # Once here, not where they are used: a forged header could ask for a copy a thousand times.
        return {name: x.astype(np.float64) if x.dtype == np.float32 else x for name, x in arrays.items()}


def unpack(path: Path) -> tuple[dict[str, Any], Arrays, int]:
    """Header and shapes of a file, and its size, with nothing read before its size is known to be sane."""
    safetensors = require_safetensors()
    with _refusing(path):
        size = _check_envelope(path)
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118, it is not a mapping
            shapes = {name: (part.get_dtype(), tuple(part.get_shape())) for name, part in slices.items()}
    text, sha256 = metadata.get("rflaf"), metadata.get("sha256")
    if text is None or sha256 is None:
        raise UnreadableModelFile(path, "it holds arrays but is no model of this package")
    for name, (dtype, shape) in shapes.items():
        if dtype not in _DTYPES or 0 in shape:
            if dtype in _DTYPES and shape == (0,):
                continue
            raise UnreadableModelFile(path, f"array {name!r} is of type {dtype} and shape {shape}")
    try:
        header = json.loads(text, parse_constant=_refuse_constant)
        json.dumps(header, ensure_ascii=False).encode()  # halves of characters are no text
    except (ValueError, RecursionError) as error:
        raise UnreadableModelFile(path, f"its header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise UnreadableModelFile(path, "its header is not a JSON object")
    return header, Arrays(path, shapes, text, sha256), size


def _check_envelope(path: Path) -> int:
    """The size of a file whose header is no larger than it says, than the file, and than a header can be."""
    about = path.stat()
    size = about.st_size
    if not stat.S_ISREG(about.st_mode) and not stat.S_ISDIR(about.st_mode):  # reading a pipe would wait for ever
        raise UnreadableModelFile(path, "it is a pipe or a device, not a file")
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _LARGEST_HEADER):
            raise UnreadableModelFile(path, "it does not begin as a model file does")
        if _count_tokens(file.read(length)) > MOST_TOKENS:
            raise UnreadableModelFile(path, f"its header has more than {MOST_TOKENS} values")
    return size


def _count_tokens(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is no number")


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Complaints of the format's own library about a file that is there become ours."""
    safetensors = require_safetensors()
    try:
        yield
    except (safetensors.SafetensorError, ValueError, TypeError, MemoryError) as error:
        if isinstance(error, UnreadableModelFile):
            raise
        raise UnreadableModelFile(path, str(error) or type(error).__name__) from None


def present(header: dict[str, Any], path: Path) -> dict[str, Any]:
    """The header in the present format."""
    number = header.get("format")
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= FORMAT:
        raise UnreadableModelFile(path, f"this version reads the formats 1 to {FORMAT}, not {number!r}")
    for old in range(number, FORMAT):
        header = _UPGRADES[old](header)
    return header
