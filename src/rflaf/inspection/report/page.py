"""The page, composed of template, style sheet and script beside this file, and its pieces: sections, cards, tables.

The content security policy of the page forbids all requests, and all scripts but the one with its digest.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template

import numpy as np

from rflaf.estimators.svg import PALETTE, Markup, element, join


@dataclass(frozen=True, slots=True)
class Section:
    """Part of the page: anchor, title, one sentence with the result, and the body."""

    anchor: str
    title: str
    lead: str
    body: Markup


@dataclass(frozen=True, slots=True)
class Tile:
    """Number with a label and a note."""

    label: str
    value: str
    note: str


def card(title: str, content: Markup, note: str | None = None, marks: Markup | None = None) -> Markup:
    """Return a framed part of a section, with a title above and a note below."""
    below = element("p", note, class_="note") if note else None
    return element("section", element("h3", title), content, marks, below, class_="card")


def bar_list(bars: Sequence[tuple[str, float, str, bool]], about: str) -> Markup:
    """Return bars as a list: name, length as a share of the longest, value in words, whether highlighted."""
    return element("ol", *[_bar(*bar) for bar in bars], class_="bars", aria_label=about)


def place_list(places: Sequence[tuple[str, float, str]], about: str) -> Markup:
    """Return dots on lines, for values without a natural zero: name, place between 0 and 1, value in words."""
    return element("ol", *[_bar(*place, False) for place in places], class_="bars places", aria_label=about)


def _bar(name: str, length: float, words: str, ours: bool) -> Markup:
    filled = element("i", style=f"width:{100 * float(np.clip(length, 0, 1)):.1f}%")
    return element(
        "li",
        element("span", name, class_="name", title=name),
        element("span", filled, class_="track"),
        element("span", words, class_="value"),
        class_="ours" if ours else None,
    )


def grid(cards: Sequence[Markup | None], narrow: bool = False) -> Markup:
    """Return cards side by side: two per line, or three if ``narrow``."""
    return element("div", *cards, class_="grid three" if narrow else "grid")


def scrolling(table: Markup, about: str) -> Markup:
    """Return a table that scrolls within its card, also by keyboard."""
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=about)


def facts_table(facts: dict[str, str]) -> Markup:
    """Return names and values, one pair per line."""
    return element("dl", *[element("div", element("dt", name), element("dd", value)) for name, value in facts.items()])


def tile_list(found: Sequence[Tile]) -> Markup:
    """Return tiles side by side."""
    return element(
        "ul",
        *[
            element("li", element("span", tile.label), element("strong", tile.value), element("small", tile.note))
            for tile in found
        ],
        class_="tiles",
    )


def toggle(name: str, words: str, pressed: bool = False) -> Markup:
    """Return a button that is on or off."""
    return element("button", words, type="button", data_toggle=name, aria_pressed="true" if pressed else "false")


@dataclass(frozen=True, slots=True)
class Head:
    """Top of the page: title, a sentence with the result, the origin, numbers, and the first pictures."""

    title: str
    lead: str
    origin: str
    numbers: Sequence[Tile]
    pictures: Markup


def compose(head: Head, sections: Sequence[Section]) -> str:
    """Return the whole page as text."""
    script = _read("script.js") + _read("what_if.js")
    style = _read("style.css") + _read("what_if.css")
    links = [element("li", element("a", section.title, href=f"#{section.anchor}")) for section in sections]
    colours = "".join(f"--{name}:{colour};" for name, colour in PALETTE.items())
    return Template(_read("template.html")).substitute(
        title=join([head.title]),
        lead=join([head.lead]),
        origin=join([head.origin]),
        pictures=head.pictures,
        tiles=tile_list(head.numbers),
        links=join(links),
        sections=join(_section(section) for section in sections),
        style=f":root{{{colours}}}\n{style}",
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _section(section: Section) -> Markup:
    heading = f"{section.anchor}-title"
    return element(
        "section",
        element("h2", section.title, id=heading),
        element("p", section.lead, class_="lead"),
        section.body,
        id=section.anchor,
        aria_labelledby=heading,
        tabindex="-1",
    )


def _read(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
