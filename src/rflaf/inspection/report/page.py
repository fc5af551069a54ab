"""The page: template, style sheet and script beside this file, composed into one text.

The content security policy of the page forbids all requests, and all scripts but the one with its digest.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from string import Template

from rflaf.estimators.svg import PALETTE, Markup, element, join

from .pieces import Section, Tile, tile_list


def compose(title: str, lead: str, origin: str, numbers: Sequence[Tile], sections: Sequence[Section]) -> str:
    """Return the whole page as text."""
    script, style = _read("script.js"), _read("style.css")
    links = [element("li", element("a", section.title, href=f"#{section.anchor}")) for section in sections]
    colours = "".join(f"--{name}:{colour};" for name, colour in PALETTE.items())
    return Template(_read("template.html")).substitute(
        title=join([title]),
        lead=join([lead]),
        origin=join([origin]),
        tiles=tile_list(numbers),
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
