"""The notebooks in examples/ run from top to bottom."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": sys.argv[2]}}).execute()
nbformat.write(notebook, sys.argv[3])
"""


def test_the_three_notebooks_are_there():
    assert [path.stem for path in NOTEBOOKS] == ["classification", "out_of_core", "tabular_regression"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_its_estimator_learned(path, tmp_path):
    copy = tmp_path / path.name
    environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}  # they draw in the page
    environment |= {"JUPYTER_PLATFORM_DIRS": "1", "IPYTHONDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", EXECUTE, path, ROOT, copy], check=True, env=environment, cwd=ROOT)
    outputs = [output for cell in nbformat.read(copy, as_version=4).cells for output in cell.get("outputs", [])]
    pages = ["".join(output.get("data", {}).get("text/html", "")) for output in outputs]
    assert any("rflaf-activation" in page for page in pages)
    assert not any(output.get("name") == "stderr" for output in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_valid_and_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)
