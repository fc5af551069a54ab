"""Tables in Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(value) for value in line) + " |" for line in lines)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "-" if math.isnan(value) else "failed" if math.isinf(value) else f"{value:.4g}"
    return str(value)
