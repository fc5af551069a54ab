"""The frame of every chart of the report: its size, axes, ticks, labels, and the picture around them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rflaf.estimators.svg import Axis, Markup, element, place

WIDTH, HEIGHT = 420.0, 270.0
RIGHT, TOP, BOTTOM = 14.0, 14.0, 48.0
_LETTER = 8.0  # widest a letter of a tick gets, on narrow screens


def left_margin(labels: Sequence[str], least: float = 40.0) -> float:
    """Return the room for the tick labels of the y axis and, beside them, its title.

    >>> left_margin(["0", "1,000,000"])
    104.0
    """
    return max(least, 32 + _LETTER * max(map(len, labels), default=0))


def picture(width: float, height: float, about: str, hover: dict[str, Any], *parts: Any) -> Markup:
    """Return the picture, reachable by keyboard, with a group for the cursor of the script."""
    cursor = element("g", class_="cursor", aria_hidden="true")
    return element(
        "svg", *parts, cursor,
        viewBox=f"0 0 {place(width)} {place(height)}", role="img", aria_label=about, tabindex="0", class_="chart",
        data_hover=json.dumps(hover, separators=(",", ":")),
    )  # fmt: skip


def axis_labels(x_label: str, y_label: str, left: float, middle: float) -> tuple[Markup, Markup]:
    """Return the titles of both axes; ``left`` is where the plot begins, ``middle`` the height of the second title."""
    turned = f"translate(13 {place(middle)}) rotate(-90)"
    return (
        element("text", cut(x_label, 44), x=place((left + WIDTH - RIGHT) / 2), y=place(HEIGHT - 8), class_="axis"),
        element("text", cut(y_label, 28), x="0", y="0", class_="axis", transform=turned),
    )


def x_tick(x: Axis, tick: float, words: str | None = None) -> Markup:
    """Return the label of a tick below the plot."""
    at = {"x": place(float(x(tick))), "y": place(HEIGHT - BOTTOM + 17), "text_anchor": "middle"}
    return element("text", tick_words(tick) if words is None else words, **at)


def y_tick(y: Axis, tick: float, left: float) -> Markup:
    """Return a line across the chart with its tick label."""
    level = place(float(y(tick)))
    line = element("line", x1=place(left), x2=place(WIDTH - RIGHT), y1=level, y2=level)
    return element("g", line, y_tick_label(y, tick, left))


def y_tick_label(y: Axis, tick: float, left: float, words: str | None = None) -> Markup:
    """Return the label of a tick beside the plot."""
    label = tick_words(tick) if words is None else words
    return element("text", label, x=place(left - 7), y=place(float(y(tick)) + 4), text_anchor="end")


def cut(words: str, most: int) -> str:
    """Shorten words to fit along an axis: long ones lose their middle.

    >>> cut("a column with quite a long name", 18)
    'a column...long name'
    """
    half = most // 2
    return words if len(words) <= most + 3 else f"{words[:half].rstrip()}...{words[-half:].lstrip()}"


def tick_words(tick: float) -> str:
    """Return a tick as text; four digits have no comma, since they may be years.

    >>> tick_words(1950), tick_words(20_000), tick_words(1e-5)
    ('1950', '20,000', '1e-5')
    """
    if 0 < abs(tick) < 1e-3:
        return f"{tick:.0e}".replace("e-0", "e-")
    return f"{tick:,.6g}" if abs(tick) >= 10_000 else f"{tick:.6g}"


def rounded(value: float) -> float:
    """Return a place to a tenth, as the script needs it."""
    return round(float(value), 1)
