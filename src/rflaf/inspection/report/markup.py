"""HTML and SVG as values: whatever is not known to be markup is escaped, so names of columns stay text."""

from __future__ import annotations

from html import escape
from typing import Any


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def element(tag: str, *children: Any, **attributes: Any) -> Markup:
    """An element; children and attributes are escaped unless they are `Markup`.

    ``class_`` stands for ``class``, ``data_x`` for ``data-x``; an attribute of None is left out, one of True is bare.

    >>> element("p", "a < b", element("b", "c"), class_="note")
    '<p class="note">a &lt; b<b>c</b></p>'
    """
    named = "".join(_attribute(name, value) for name, value in attributes.items() if value is not None)
    return Markup(f"<{tag}{named}>{join(children)}</{tag}>")


def join(children: Any) -> Markup:
    """Children one after the other, escaped unless they are `Markup`; nested lists are flattened, None is nothing."""
    return Markup("".join(_child(child) for child in children))


def _child(child: Any) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    return join(child) if isinstance(child, list | tuple) else escape(str(child), quote=False)


def _attribute(name: str, value: Any) -> str:
    hyphenated = name.rstrip("_").replace("_", "-")
    return f" {hyphenated}" if value is True else f' {hyphenated}="{escape(str(value))}"'


def figure_of(number: float, digits: int = 3) -> str:
    """A number for people: ``digits`` significant ones, thousands parted, no exponent where it can be helped.

    >>> [figure_of(x) for x in (12345.6, 0.012345, 7.0, 1e-9, float("nan"))]
    ['12,346', '0.0123', '7', '1e-09', 'not known']
    """
    if number != number:
        return "not known"
    if number == 0 or 1e-4 <= abs(number) < 10 ** (digits + 6):
        if abs(number) >= 10**digits:
            return f"{number:,.0f}"
        rounded = f"{number:.{digits}g}"
        return f"{float(rounded):f}".rstrip("0").rstrip(".") if "e" in rounded else rounded
    return f"{number:.{digits}g}"


def roughly(number: float) -> str:
    """A large number in two digits and words.

    >>> roughly(1_077_784), roughly(51_234), roughly(7.3)
    ('1.1 million', '51,000', '7.3')
    """
    if number >= 1e6:
        return f"{float(f'{number / 1e6:.2g}'):,.10g} million"
    return f"{float(f'{number:.2g}'):,.10g}"


def count_of(number: int, singular: str, plural: str | None = None) -> str:
    """A number with its noun.

    >>> count_of(1, "row"), count_of(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"
