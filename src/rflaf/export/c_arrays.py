"""Numbers and text in C: arrays, literals, and comments that nothing can end."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from rflaf.errors import Array


def array_lines(kind: str, name: str, values: Array) -> list[str]:
    """Return a static constant array of one or two dimensions, lines of at most 120 characters."""
    size = "".join(f"[{length}]" for length in values.shape)
    if values.ndim == 1:
        return [f"static const {kind} {name}{size} = {{", *_wrapped(values, kind), "};"]
    rows: list[str] = []
    for row in values:
        body = _wrapped(row, kind)
        body[0] = "    {" + body[0].lstrip()
        body[-1] = body[-1].rstrip(",") + "},"
        rows += body
    return [f"static const {kind} {name}{size} = {{", *rows, "};"]


def _wrapped(values: Array, kind: str, width: int = 104) -> list[str]:
    lines, line = [], "   "
    for value in values:
        text = f" {literal(value, kind)},"
        if len(line) + len(text) > width:
            lines.append(line)
            line = "   "
        line += text
    return [*lines, line]


def literal(value: Any, kind: str) -> str:
    """Return the shortest literal that reads back as the same number."""
    if "int" in kind:
        return str(int(value))
    size = abs(float(value))
    number = np.float32(value) if kind == "float" else np.float64(value)
    text = np.format_float_scientific(number, trim="-") if size and not 1e-4 <= size < 1e6 else str(number)
    text = text if "." in text or "e" in text else f"{text}.0"
    return f"{text}f" if kind == "float" else text


def printable(value: object) -> str:
    """Return text that can neither end nor begin a comment."""
    return re.sub(r"[^A-Za-z0-9 _.,:;+()<>=%#$&@!-]", lambda found: f"\\x{ord(found[0]):02x}", str(value))
