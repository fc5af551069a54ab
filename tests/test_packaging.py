"""The package that users install: few dependencies, extras that exist, and a README without dead links."""

from __future__ import annotations

import ast
import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
SOURCES = sorted((ROOT / "src" / "rflaf").rglob("*.py"))


def names(requirements: list[str]) -> set[str]:
    return {re.match(r"[\w-]+", requirement)[0] for requirement in requirements if isinstance(requirement, str)}


@pytest.mark.parametrize("extra", EXTRAS)
def test_no_extra_installs_the_tools_of_the_developers(extra):
    groups = PROJECT["dependency-groups"]
    tools = {"pytest", "hypothesis"}.union(*(names(groups[group]) for group in ("lint", "docs", "release")))
    assert names(EXTRAS[extra]).isdisjoint(tools)


def test_errors_and_extras_name_only_extras_that_exist():
    named = {
        node.args[2].value
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "MissingExtraError"
    }
    within = ",".join(re.findall(r"rflaf\[([\w,]+)\]", " ".join(chain(*EXTRAS.values()))))
    assert named
    assert {*named, *within.split(",")} <= set(EXTRAS)


def published(text: str) -> str:
    """The text as the build writes it into the metadata, before the version is filled in."""
    for substitution in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(substitution["pattern"], substitution["replacement"], text)
    return text


def test_the_published_readme_has_no_relative_link():
    text = published((ROOT / "README.md").read_text(encoding="utf-8"))
    links = re.findall(r"\]\(([^)]+)\)|(?:src|href)=\"([^\"]+)\"", text)
    addresses = [markdown or html for markdown, html in links]
    assert any(address.endswith(".png") for address in addresses)
    assert [address for address in addresses if not address.startswith(("https://", "#"))] == []


def test_pictures_and_pages_are_published_with_their_address():
    raw = "https://raw.githubusercontent.com/rflaf/rflaf/v$HFPR_VERSION"
    page = "https://github.com/rflaf/rflaf/blob/v$HFPR_VERSION"
    assert published("![a](b.png)") == f"![a]({raw}/b.png)"
    assert published('<img width="3" src="b.png">') == f'<img width="3" src="{raw}/b.png">'
    assert published("[a](b.md#c)") == f"[a]({page}/b.md#c)"
    assert published('<a href="b.md">') == f'<a href="{page}/b.md">'
    for text in ("[a](#b)", "[a](https://c.d)", "![a](https://c.d/e.png)", "[a](mailto:b@c.d)"):
        assert published(text) == text
