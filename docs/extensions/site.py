"""Hooks of the documentation: formulas as MathML, notebooks as pages. Nothing is fetched, at build or on reading."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parent.parent.parent / "examples"
EXECUTED = Path(__file__).parent.parent / "executed"  # the same with outputs, by run_notebooks.py
_BLOCK = re.compile(r"^\$\$\n(.*?)\n\$\$$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.DOTALL | re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Set formulas between lines of two dollar signs, outside of code."""
    return "".join(part if part.startswith("`") else set_formulas(part) for part in _CODE.split(markdown))


def set_formulas(text: str) -> str:
    """Replace LaTeX between lines of two dollar signs by MathML, which browsers draw themselves."""
    from latex2mathml.converter import convert

    return _BLOCK.sub(lambda found: f'<div class="formula">{convert(found[1], display="block")}</div>', text)


def on_files(files: Any, config: Any) -> Any:
    """Add a page for every notebook of examples/."""
    from mkdocs.structure.files import File

    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page_of(path)))
    return files


def page_of(path: Path) -> str:
    """Return a notebook as Markdown: text, code, and what the code printed and drew when it was run last."""
    executed = EXECUTED / path.name
    cells = json.loads((executed if executed.exists() else path).read_text(encoding="utf-8"))["cells"]
    parts = [part for cell in cells for part in _cell(cell)]
    where = f"`examples/{path.name}`"
    return "\n\n".join([*parts[:1], f"*This page is {where}, which the tests run.*", *parts[1:]]) + "\n"


def _cell(cell: dict[str, Any]) -> list[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source]
    return [f"```python\n{source}\n```", *(text for output in cell.get("outputs", []) for text in _output(output))]


def _output(output: dict[str, Any]) -> list[str]:
    if output["output_type"] == "stream":
        return [_printed("".join(output["text"]))]
    data = output.get("data", {})
    if "image/png" in data:
        picture = "".join(data["image/png"]).replace("\n", "")
        base64.b64decode(picture, validate=True)
        return [f"![What the code draws](data:image/png;base64,{picture})"]
    if "text/html" in data:
        return ["".join(data["text/html"])]
    return [_printed("".join(data["text/plain"]))] if "text/plain" in data else []


def _printed(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"
