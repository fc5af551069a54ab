"""Charts of lines, bands, histograms and points on one pair of axes.

The SVG is complete, so it prints and reads without a script. The attribute ``data-hover`` holds the places of values
and the words that the script shows there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rflaf.errors import Array
from rflaf.estimators.svg import Axis, Markup, element, path, place

from .frame import (
    BOTTOM,
    HEIGHT,
    RIGHT,
    TOP,
    WIDTH,
    axis_labels,
    left_margin,
    picture,
    rounded,
    tick_words,
    x_tick,
    y_tick,
)
from .labels import Label, placed
from .wording import figure_of

_UNDER = 0.2  # share of the height for the histogram of the rows


@dataclass(frozen=True, slots=True)
class Line:
    """Curve through (x, y)."""

    label: str
    x: Array
    y: Array
    role: str = "model"
    dots: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """Area between two curves."""

    x: Array
    low: Array
    high: Array


@dataclass(frozen=True, slots=True)
class Under:
    """Histogram of the rows along the foot of a chart."""

    edges: Array
    density: Array


@dataclass(frozen=True, slots=True)
class Steps:
    """Histogram on the axes of the chart."""

    label: str
    edges: Array
    density: Array


@dataclass(frozen=True, slots=True)
class Points:
    """Rows as dots."""

    x: Array
    y: Array
    role: str = "model"


@dataclass(frozen=True, slots=True)
class Mark:
    """Dot with words beside it, grey unless ``strong``."""

    x: float
    y: float
    words: str
    strong: bool = True


@dataclass(frozen=True, slots=True)
class Rule:
    """Dashed line from one point to another, for comparison."""

    start: tuple[float, float]
    stop: tuple[float, float]
    words: str = ""


Layer = Line | Band | Under | Steps | Points | Mark | Rule


def chart(
    layers: Sequence[Layer],
    *,
    about: str,
    x_label: str,
    y_label: str,
    x_log: bool = False,
    y_log: bool = False,
    y_from_zero: bool = False,
    x_room: float = 1.0,
) -> Markup:
    """Draw layers on one pair of axes, in the order given; ``about`` is the text for screen readers.

    ``x_room`` is the factor by which a logarithmic x axis extends beyond its values.
    """
    foot = _UNDER * (HEIGHT - TOP - BOTTOM) if any(isinstance(layer, Under) for layer in layers) else 0.0
    x_range, y_range = _ranges(layers, x_log, y_log)
    x_range = (x_range[0] / x_room, x_range[1] * x_room)
    if y_from_zero:
        y_range = (0.0, y_range[1])
    y = Axis(*y_range, HEIGHT - BOTTOM - foot, TOP, y_log)
    left = left_margin([tick_words(tick) for tick in y.ticks])
    x = Axis(*x_range, left, WIDTH - RIGHT, x_log)
    y_axis = element("g", *[y_tick(y, tick, left) for tick in y.ticks], class_="ticks")
    x_axis = element("g", *[x_tick(x, tick) for tick in x.ticks], class_="ticks")
    labels = axis_labels(x_label, y_label, left, (TOP + HEIGHT - BOTTOM - foot) / 2)
    foot_line = place(HEIGHT - BOTTOM)
    floor = element("line", x1=place(left), x2=place(WIDTH - RIGHT), y1=foot_line, y2=foot_line, class_="frame")
    drawn = [_draw(layer, x, y) for layer in layers]
    marks = _marks([layer for layer in layers if isinstance(layer, Mark)], x, y)
    return picture(WIDTH, HEIGHT, about, _hover(layers, x, y, x_label), y_axis, x_axis, floor, *labels, *drawn, marks)


def sparkline(z: Array, value: Array, under: Under, reach: float, about: str) -> Markup:
    """Draw a small curve around zero on the scale -reach to reach; ``data-own`` is the factor to its own scale."""
    width, height, foot = 200.0, 118.0, 22.0
    x, y = Axis(float(z[0]), float(z[-1]), 4, width - 4), Axis(-reach, reach, height - foot - 4, 6)
    own = reach / max(float(np.abs(value).max()), 1e-300)
    places = [
        [rounded(px), f"z = {figure_of(at)}", [["", figure_of(v), rounded(py), "model"]]]
        for px, at, py, v in zip(x(z), z, y(value), value, strict=True)
    ]
    hover = {"by": "x", "top": 4, "bottom": height - foot, "zero": rounded(float(y(0.0))), "places": places[::3]}
    parts = (
        _histogram(under.edges, _tops_of_bins(under.density, height - 2, foot - 4), x, height - 2, "under"),
        element("line", x1="4", x2=place(width - 4), y1=place(float(y(0))), y2=place(float(y(0))), class_="zero"),
        element("path", d=path(x(z), y(value)), class_="line model", data_own=place(own, 4)),
    )
    return picture(width, height, about, hover, *parts)


def legend(*entries: tuple[str, str]) -> Markup:
    """Return a legend of pairs (role, words)."""
    return element("ul", *[element("li", element("i", class_=role), words) for role, words in entries], class_="legend")


def _ranges(layers: Sequence[Layer], x_log: bool, y_log: bool) -> tuple[tuple[float, float], tuple[float, float]]:
    xs, ys = [], []
    for layer in layers:
        match layer:
            case Line() | Points():
                xs.append(layer.x)
                ys.append(layer.y)
            case Band():
                xs.append(layer.x)
                ys.extend([layer.low, layer.high])
            case Steps():
                xs.append(layer.edges)
                ys.append(np.append(layer.density, 0.0))
            case Mark():
                xs.append(np.array([layer.x]))
                ys.append(np.array([layer.y]))
            case Rule():
                xs.append(np.array([layer.start[0], layer.stop[0]]))
                ys.append(np.array([layer.start[1], layer.stop[1]]))
            case Under():
                pass
    return _range(np.concatenate(xs), x_log, 0.0), _range(np.concatenate(ys), y_log, 0.05)


def _range(values: Array, log: bool, margin: float) -> tuple[float, float]:
    if log:
        low, high = float(values[values > 0].min()), float(values.max())
        room = (high / low) ** margin if high > low else 1.5
        return low / room, high * room
    low, high = float(values.min()), float(values.max())
    room = margin * (high - low) if high > low else max(abs(low), 1.0) * 0.5
    return low - room, high + room


def _draw(layer: Layer, x: Axis, y: Axis) -> Markup:
    match layer:
        case Line():
            curve = element("path", d=path(x(layer.x), y(layer.y)), class_=f"line {layer.role}")
            dots = [_dot(px, py, f"dot {layer.role}") for px, py in zip(x(layer.x), y(layer.y), strict=True)]
            return element("g", curve, dots if layer.dots else None)
        case Band():
            there, back = path(x(layer.x), y(layer.low)), path(x(layer.x)[::-1], y(layer.high)[::-1])
            return element("path", d=f"{there}L{back[1:]}Z", class_="band")
        case Under():
            base = HEIGHT - BOTTOM
            tops = _tops_of_bins(layer.density, base, 0.85 * (base - y.start))
            return _histogram(layer.edges, tops, x, base, "under")
        case Steps():
            return _histogram(layer.edges, y(layer.density), x, y.start, "steps")
        case Points():
            places = "".join(f"M{place(px)} {place(py)}h0" for px, py in zip(x(layer.x), y(layer.y), strict=True))
            return element("path", d=places, class_=f"points {layer.role}")
        case Mark():
            return Markup()  # drawn by `_marks`, so that the words of one keep clear of the others
        case Rule():
            (x1, y1), (x2, y2) = layer.start, layer.stop
            ends = {"x1": x(x1), "y1": y(y1), "x2": x(x2), "y2": y(y2)}
            line = element("line", class_="rule", **{name: place(float(at)) for name, at in ends.items()})
            at = {"x": place(float(x(x2)) - 4), "y": place(float(y(y2)) - 6), "text_anchor": "end"}
            words = element("text", layer.words, class_="words", **at)
            return element("g", line, words if layer.words else None)


def _marks(marks: Sequence[Mark], x: Axis, y: Axis) -> Markup:
    """Draw dots with words beside them that cover neither one another nor the dots."""
    dots = [(float(x(mark.x)), float(y(mark.y))) for mark in marks]
    labels = placed([Label(*dot, mark.words) for dot, mark in zip(dots, marks, strict=True)], x, TOP)
    drawn = []
    for mark, (px, py), at in zip(marks, dots, labels, strict=True):
        weight = "strong" if mark.strong else "weak"
        words = element("text", mark.words, class_=f"words {weight}", **at)
        drawn.append(element("g", _dot(px, py, f"mark {weight}"), words))
    return element("g", *drawn)


def _hover(layers: Sequence[Layer], x: Axis, y: Axis, x_label: str) -> dict[str, Any]:
    """Return the values that the script shows: lines at each shared x, bars, or the nearest point."""
    found: dict[float, list[list[Any]]] = {}
    words: dict[float, str] = {}
    lines = any(isinstance(layer, Line) for layer in layers)
    for layer in layers:
        if isinstance(layer, Line) and layer.role != "plain":
            for at, value, px, py in zip(layer.x, layer.y, x(layer.x), y(layer.y), strict=True):
                words.setdefault(rounded(px), f"{x_label} {figure_of(at)}")
                found.setdefault(rounded(px), []).append([layer.label, figure_of(value), rounded(py), layer.role])
        if isinstance(layer, Steps):
            ends = zip(layer.edges[:-1], layer.edges[1:], layer.density, strict=True)
            for low, high, value in ends:
                px = rounded(float(x((low + high) / 2)))
                words[px] = f"{x_label} {figure_of(low)} to {figure_of(high)}"
                found.setdefault(px, []).append([layer.label, figure_of(value), rounded(float(y(value))), "model"])
        if isinstance(layer, Mark) and not lines:
            px = rounded(float(x(layer.x)))
            words[px] = layer.words
            value = f"{figure_of(layer.y)} at {figure_of(layer.x, 2)}"
            found.setdefault(px, []).append(["", value, rounded(float(y(layer.y))), "model"])
        if isinstance(layer, Points) and not lines:
            places = [
                [rounded(px), "", [["", f"{figure_of(at)}, {figure_of(value)}", rounded(py), "model"]]]
                for at, value, px, py in zip(layer.x, layer.y, x(layer.x), y(layer.y), strict=True)
            ]
            return {"by": "xy", "top": y.stop, "bottom": y.start, "places": places}
    places = [[px, words[px], found[px]] for px in sorted(found)]
    return {"by": "x", "top": y.stop, "bottom": y.start, "places": places}


def _dot(px: float, py: float, class_: str) -> Markup:
    return element("circle", cx=place(px), cy=place(py), r="4", class_=class_)


def _histogram(edges: Array, tops: Array, x: Axis, base: float, class_: str) -> Markup:
    """Return a histogram as one path, from ``base`` up to the ``tops`` of its bins."""
    at = np.clip(x(edges), x.start, x.stop)
    outline = path(np.repeat(at, 2)[1:-1], np.repeat(tops, 2))
    foot = place(base)
    return element("path", d=f"M{place(at[0])} {foot}L{outline[1:]}L{place(at[-1])} {foot}Z", class_=class_)


def _tops_of_bins(density: Array, base: float, height: float) -> Array:
    """Return the tops of bins, scaled so that the tallest is ``height``."""
    return base - height * density / max(float(density.max(initial=0)), 1e-300)
