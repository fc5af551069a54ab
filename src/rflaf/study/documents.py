"""Output of a study: figures as PNG, SVG and PDF, tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rflaf.inspection.plots import require_matplotlib

FORMATS = ("png", "svg", "pdf")


def save_figure(figure: Any, stem: Path) -> list[Path]:
    """Save a figure in every format beside ``stem``, without the date, close it, and return the paths."""
    paths = [stem.with_name(f"{stem.name}.{extension}") for extension in FORMATS]
    for path in paths:
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    require_matplotlib().close(figure)
    return paths


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, one line per row.

    >>> print(markdown_table(["S", "error"], [["10", "0.5"]]))
    | S | error |
    | --- | --- |
    | 10 | 0.5 |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
