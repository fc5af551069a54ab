"""Numbers of the first pages come from records, and what the records show to be slow has its reason on the page."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README, HOME = ROOT / "README.md", ROOT / "docs" / "index.md"
NO_MEASUREMENT = [  # numbers that no command makes
    r"Python 3\.11",
    r"arXiv \d{4}\.\d{5}",
    r"\(20\d\d\)",
    r"BSD-3",
    r"Algorithm 1",
]
MARKED = re.compile(r"<!-- [\w. -]+ -->\n(.*?)<!-- end -->", re.DOTALL)


def prose(page: str) -> str:
    """A page without code, formulas, addresses, marked places, and numbers that are no measurements."""
    for gone in (
        MARKED.pattern,
        r"```.*?```",
        r"\$\$.*?\$\$",
        r"^    .*?$",
        r"`[^`]*`",
        r"\]\([^)]*\)",
        *NO_MEASUREMENT,
    ):
        page = re.sub(gone, " ", page, flags=re.DOTALL | re.MULTILINE)
    return page


@pytest.mark.parametrize("page", [README, HOME], ids=lambda page: page.name)
def test_every_number_of_a_first_page_is_written_from_records(page):
    assert re.findall(r".*\d.*", prose(page.read_text(encoding="utf-8"))) == []


def test_a_number_without_records_is_found():
    assert re.search(r"\d", prose("<!-- one -->\n5 `make`\n<!-- end -->\na fit takes 3 s, `f(2)`\n"))[0] == "3"


@pytest.mark.parametrize("page", [README, HOME], ids=lambda page: page.name)
def test_every_marked_place_of_a_first_page_names_its_command(page):
    places = MARKED.findall(page.read_text(encoding="utf-8"))
    assert places
    assert all(re.search(r"`(make|rflaf|python) [^`]+`", place) for place in places)


def test_every_loop_below_half_of_its_roof_has_its_reason_on_the_page():
    loops = json.loads((ROOT / "docs" / "results" / "loops.json").read_text(encoding="utf-8"))["loops"]
    reasons = (ROOT / "docs" / "costs.md").read_text(encoding="utf-8").split("The reasons of those below a half:")[1]
    named = set(re.findall(r"`(\w+)`", reasons))
    slow = {one["loop"].split(",")[0].split(".")[-1] for one in loops if one["share"] < 0.5}
    assert slow <= named
