"""Records as they are shipped: one compressed file of JSON lines, its SHA-256 and the versions that made it.

`pack` writes NAME.jsonl.gz and NAME.json beside it; `unpack` reads the records and refuses a file with another
checksum. The bytes depend on the records alone, so that packing again changes nothing. A line holds the number of its
environment in the list of the note.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from rflaf.errors import InvalidParameterError

from .trials import Record


def pack(records: Iterable[Record], path: Path) -> list[Path]:
    """Write ``path``, which ends in .jsonl.gz, and the note beside it; return both."""
    ordered = sorted(records, key=lambda record: record.trial)
    environments: list[dict[str, str]] = []
    for record in ordered:
        if record.environment not in environments:
            environments.append(record.environment)
    lines = [asdict(record) | {"environment": environments.index(record.environment)} for record in ordered]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    note = note_of(path)
    content = {
        "file": path.name,
        "sha256": checksum(path),
        "records": len(ordered),
        "first": min(record.when for record in ordered),
        "last": max(record.when for record in ordered),
        "environments": environments,
    }
    note.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return [path, note]


def unpack(path: Path) -> list[Record]:
    """Return the records of a packed file."""
    note = json.loads(note_of(path).read_text(encoding="utf-8"))
    if checksum(path) != note["sha256"]:
        remedy = "Fetch both files anew."
        raise InvalidParameterError(f"{path.name} must have the SHA-256 of its note", checksum(path), remedy)
    lines = map(json.loads, gzip.decompress(path.read_bytes()).decode().splitlines())
    return [Record.from_json(line | {"environment": note["environments"][line["environment"]]}) for line in lines]


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def note_of(path: Path) -> Path:
    """Return the path of the note beside a packed file."""
    return path.with_name(path.name.removesuffix(".jsonl.gz") + ".json")
