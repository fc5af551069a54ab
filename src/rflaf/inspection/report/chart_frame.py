"""The frame that charts share: size, axes, ticks, histograms, and the values shown under the cursor.

The SVG is complete, so it prints and reads without a script. The attribute ``data-hover`` holds the places of values
and the words that the script shows there.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from rflaf.errors import Array
from rflaf.estimators.svg import Axis, Markup, element, path, place

WIDTH, HEIGHT = 420.0, 270.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 14.0, 14.0, 48.0


def picture(width: float, height: float, about: str, hover: dict[str, Any], *parts: Any) -> Markup:
    """Return the picture, reachable by keyboard, with a group for the cursor of the script."""
    cursor = element("g", class_="cursor", aria_hidden="true")
    return element(
        "svg", *parts, cursor,
        viewBox=f"0 0 {place(width)} {place(height)}", role="img", aria_label=about, tabindex="0", class_="chart",
        data_hover=json.dumps(hover, separators=(",", ":")),
    )  # fmt: skip


def histogram(edges: Array, tops: Array, x: Axis, base: float, class_: str) -> Markup:
    """Return a histogram as one path, from ``base`` up to the ``tops`` of its bins."""
    at = np.clip(x(edges), x.start, x.stop)
    outline = path(np.repeat(at, 2)[1:-1], np.repeat(tops, 2))
    foot = place(base)
    return element("path", d=f"M{place(at[0])} {foot}L{outline[1:]}L{place(at[-1])} {foot}Z", class_=class_)


def tops_of_bins(density: Array, base: float, height: float) -> Array:
    """Return the tops of bins, scaled so that the tallest is ``height``."""
    return base - height * density / max(float(density.max(initial=0)), 1e-300)


def axis_labels(x_label: str, y_label: str, middle: float) -> tuple[Markup, Markup]:
    """Return the labels of both axes; ``middle`` is the height of the second."""
    turned = f"translate(12 {place(middle)}) rotate(-90)"
    return (
        element("text", cut(x_label, 44), x=place((LEFT + WIDTH - RIGHT) / 2), y=place(HEIGHT - 8), class_="axis"),
        element("text", cut(y_label, 28), x="0", y="0", class_="axis", transform=turned),
    )


def x_tick(x: Axis, tick: float) -> Markup:
    """Return a tick label below the chart."""
    return element(
        "text", tick_words(tick), x=place(float(x(tick))), y=place(HEIGHT - BOTTOM + 17), text_anchor="middle"
    )


def y_tick(y: Axis, tick: float) -> Markup:
    """Return a line across the chart with its tick label."""
    level = place(float(y(tick)))
    line = element("line", x1=place(LEFT), x2=place(WIDTH - RIGHT), y1=level, y2=level)
    return element("g", line, y_tick_label(y, tick))


def y_tick_label(y: Axis, tick: float) -> Markup:
    """Return a tick label left of the chart."""
    return element("text", tick_words(tick), x=place(LEFT - 7), y=place(float(y(tick)) + 4), text_anchor="end")


def cut(words: str, most: int) -> str:
    """Shorten words to fit along an axis: long ones lose their middle.

    >>> cut("a column with quite a long name", 18)
    'a column...long name'
    """
    half = most // 2
    return words if len(words) <= most + 3 else f"{words[:half].rstrip()}...{words[-half:].lstrip()}"


def tick_words(tick: float) -> str:
    """Return the label of a tick."""
    return f"{tick:.0e}".replace("e-0", "e-") if 0 < abs(tick) < 1e-3 else f"{tick:,.6g}"


def rounded(value: float) -> float:
    """Return a coordinate for the script."""
    return round(float(value), 1)
