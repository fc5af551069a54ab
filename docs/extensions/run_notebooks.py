"""Run the notebooks of examples/ and keep them with their outputs in docs/executed, from which the site shows them.

python docs/extensions/run_notebooks.py. The notebooks in examples/ themselves stay without outputs.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent.parent
EXECUTED = ROOT / "docs" / "executed"


def without_traces(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Drop what differs from run to run: times of execution, and what was written to the error stream."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
    return notebook


def main() -> None:
    """Run them all."""
    EXECUTED.mkdir(exist_ok=True)
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
        nbformat.write(without_traces(notebook), EXECUTED / path.name)


if __name__ == "__main__":
    main()
