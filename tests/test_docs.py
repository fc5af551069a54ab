"""What the README and the docs show is run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = [
    pytest.param(code, id=f"{page.name}-{number}")
    for page in PAGES
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    if "X_train" not in code
]


@pytest.mark.slow
@pytest.mark.parametrize("code", EXAMPLES)
def test_a_python_example_runs(code):
    exec(compile(code, "example", "exec"), {"__name__": "example"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_files_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+?)\)", page.read_text())
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
