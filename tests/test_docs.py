"""The examples of README and docs run, their links lead somewhere, and they show the package as it is."""

import ast
import copy
import logging
import re
import runpy
import warnings
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from test_architecture import ROOMS

import rflaf

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = [
    pytest.param(code, id=f"{page.name}-{number}")
    for page in PAGES
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]

OTHER_TOOLS = (
    "skrub",
    "shap",
    "mlflow",
    "optuna",
)  # of docs/integrations.md; its examples run where they are installed


@pytest.mark.slow
@pytest.mark.parametrize("code", EXAMPLES)
def test_a_python_example_runs(code, tmp_path, monkeypatch):
    tools = [tool for tool in OTHER_TOOLS if f"import {tool}" in code or f"from {tool} " in code]
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        if tools:
            warnings.simplefilter("ignore")  # theirs are not ours to mend
        for tool in tools:
            pytest.importorskip(tool, exc_type=ImportError)
        exec(compile(code, "example", "exec"), {"__name__": "example"})


def code_in_table(heading: str) -> list[str]:
    """Return the code in the last column of the table below a heading of the README."""
    section = README.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.rstrip(" |").rpartition(" | ")[2] for line in section.splitlines() if line.startswith("| ")]
    return [code for row in rows[2:] for code in re.findall(r"`([^`]+)`", row)]


TABLE = code_in_table("What it does")


@pytest.fixture(scope="module")
def prepared() -> dict[str, object]:
    """The names that the table of the README takes for granted."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import dask.array as da
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (300, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
    names = {name: getattr(rflaf, name) for name in ("RFLAFRegressor", "RFLAFClassifier", "RandomActivationFeatures")}
    models = {
        "model": rflaf.RFLAFRegressor(40, directions="random", random_state=0).fit(X, y),
        "classifier": rflaf.RFLAFClassifier(16, random_state=0).fit(X, y > 1),
        "paper_model": rflaf.RFLAFRegressor.paper(20, pool_size=100, random_state=0).fit(X, y),
    }
    labels = np.column_stack([y > 1, X[:, 0] > 0]).astype(int)
    data = {
        "X": X,
        "y": y,
        "Y": labels,
        "X_new": X[:50],
        "y_new": y[:50],
        "dask_X": da.from_array(X),
        "dask_y": da.from_array(y),
    }
    return {"rflaf": rflaf, "make_pipeline": make_pipeline, "Ridge": Ridge, **names, **models, **data}


@pytest.mark.parametrize("code", TABLE)
def test_a_row_of_the_table_in_the_readme_can_be_evaluated(code, prepared, tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    columns = {"a": prepared["X"][:, 0], "b": prepared["X"][:, 1], "target": prepared["y"]}
    pq.write_table(pa.table(columns), tmp_path / "folder" / "part.parquet")
    names = {**prepared, "model": copy.deepcopy(prepared["model"])}
    assert eval(compile(code, "README", "eval"), names) is not None


def test_the_table_of_the_readme_is_found():
    assert len(TABLE) > 20
    assert all(isinstance(ast.parse(code, mode="eval"), ast.Expression) for code in TABLE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_files_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def test_every_module_is_on_the_page_of_its_room():
    package = ROOT / "src" / "rflaf"
    modules = {
        ".".join(path.relative_to(package).with_suffix("").parts).removesuffix(".__init__")
        for path in package.rglob("*.py")
        if "_kernels" not in path.parts and path.parent != package
    }
    pages = (ROOT / "docs" / "modules").glob("*.md")
    shown = {name for page in pages for name in re.findall(r"^::: rflaf\.(\S+)$", page.read_text(), re.MULTILINE)}
    assert shown == {*modules, "errors"}


def test_every_public_name_is_on_the_page_of_the_api():
    page = (ROOT / "docs" / "api.md").read_text()
    shown = set(re.findall(r"^::: rflaf\.(\S+)$", page, re.MULTILINE)) | set(re.findall(r"\[`rflaf\.(\w+)`\]", page))
    assert shown == {*rflaf.__all__} - {"__version__"}


ROOMS_SHOWN = {room for room in ROOMS if room != "__main__"}


def test_the_picture_of_the_house_shows_every_room_on_the_rooms_it_may_import():
    svg = ElementTree.parse(ROOT / "docs" / "images" / "house.svg").getroot()
    groups = {group.get("id"): group for group in svg.findall("{*}g") if group.get("id")}
    assert set(groups) == ROOMS_SHOWN
    boxes = {
        room: tuple(float(box.get(side)) for side in ("x", "y", "width", "height"))
        for room, group in groups.items()
        for box in group.findall("{*}rect")
    }
    for room, (left, top, width, height) in boxes.items():
        below = {
            other
            for other, (x, y, w, _) in boxes.items()
            if 0 < y - (top + height) < 20 and min(left + width, x + w) > max(left, x)
        }
        assert below == ROOMS[room], room


def test_the_page_on_architecture_states_what_every_room_stands_on():
    page = (ROOT / "docs" / "architecture.md").read_text()
    stated = dict(re.findall(r"^\| \[(\w+)\]\(\S+\) \| ([\w, ]*) ?\|", page, re.MULTILINE))
    assert {room: {*filter(None, below.strip().split(", "))} for room, below in stated.items()} == {
        room: ROOMS[room] for room in ROOMS_SHOWN
    }


def test_the_page_on_architecture_names_files_that_exist():
    page = (ROOT / "docs" / "architecture.md").read_text()
    files = [
        f"/{path.relative_to(ROOT).as_posix()}" for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py")
    ]
    named = set(re.findall(r"`([\w/]+\.py)`", page))
    assert [name for name in named if not any(file.endswith(f"/{name}") for file in files)] == []


@pytest.mark.parametrize("name", ["README.md", "docs/index.md", "docs/references.md", "CITATION.cff"])
def test_both_papers_are_cited(name):
    text = (ROOT / name).read_text()
    assert "2510.15327" in text
    assert "2411.19468" in text


def test_the_citation_has_the_version_of_the_package():
    assert f"\nversion: {rflaf.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_docs_show_compact_docstrings_as_numpydoc():
    pytest.importorskip("griffe")
    to_numpydoc = runpy.run_path(str(ROOT / "docs" / "extensions" / "docstrings.py"))["to_numpydoc"]
    assert to_numpydoc("Add.\n\n>>> 1 + 1\n2") == "Add.\n\nExamples\n--------\n>>> 1 + 1\n2"
    assert (
        to_numpydoc("Parameters\n----------\nrows : of one block") == "Parameters\n----------\nrows\n    of one block"
    )
    kept = "Parameters\n----------\nwidth : int or str\n    Number of rows."
    assert to_numpydoc(kept) == kept


def docstrings(found):
    """Every docstring of a module or class as griffe knows it, as far as the site shows it."""
    if found.is_alias:
        return
    if found.docstring is not None:
        yield found.docstring
    for name, member in found.members.items():
        if not name.startswith("_") or name == "__init__":
            yield from docstrings(member)


def test_docstrings_describe_parameters_that_are_there(caplog):
    griffe = pytest.importorskip("griffe")
    extensions = griffe.load_extensions(ROOT / "docs" / "extensions" / "docstrings.py")
    package = griffe.load("rflaf", search_paths=[ROOT / "src"], extensions=extensions, docstring_parser="numpy")
    with caplog.at_level(logging.WARNING, "griffe"):
        assert sum(bool(docstring.parsed) for docstring in docstrings(package)) > 500
    assert caplog.messages == []  # the site is not built with any
