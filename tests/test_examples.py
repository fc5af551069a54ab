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
from jupyter_client import KernelManager
from nbclient import NotebookClient

kernel = KernelManager(kernel_name="python3")  # one for all: most of the time of a short notebook is spent on imports
kernel.start_kernel()
try:
    for path in sys.argv[2:]:
        notebook = nbformat.read(path, as_version=4)
        notebook.cells.insert(0, nbformat.v4.new_code_cell("%reset -f"))
        NotebookClient(notebook, km=kernel, timeout=300).execute()
        nbformat.write(notebook, f"{sys.argv[1]}/{path.rpartition('/')[2]}")
finally:
    kernel.shutdown_kernel(now=True)
"""


def test_the_four_notebooks_are_there():
    assert [path.stem for path in NOTEBOOKS] == ["classification", "out_of_core", "paper", "tabular_regression"]


@pytest.mark.slow
def test_the_notebooks_run_and_show_what_their_estimators_learned(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}  # they draw in the page
    environment |= {"JUPYTER_PLATFORM_DIRS": "1", "IPYTHONDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", EXECUTE, tmp_path, *NOTEBOOKS], check=True, env=environment, cwd=ROOT)
    for path in NOTEBOOKS:
        cells = nbformat.read(tmp_path / path.name, as_version=4).cells
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        pages = ["".join(output.get("data", {}).get("text/html", "")) for output in outputs]
        assert any("rflaf-activation" in page for page in pages), path.stem
        errors = [output["text"] for output in outputs if output.get("name") == "stderr"]
        assert all(text.startswith("compiling, once") for text in errors), path.stem


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_valid_and_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_site_shows_a_notebook_as_it_is_with_what_it_printed_and_drew(path):
    shown = nbformat.read(ROOT / "docs" / "executed" / path.name, as_version=4)
    assert [cell.source for cell in shown.cells] == [cell.source for cell in nbformat.read(path, as_version=4).cells], (
        "run python docs/extensions/run_notebooks.py"
    )
    outputs = [output for cell in shown.cells for output in cell.get("outputs", [])]
    assert outputs
    assert not any(output.output_type == "error" for output in outputs)
