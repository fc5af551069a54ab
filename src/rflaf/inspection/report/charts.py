"""Charts of lines, bands, histograms and points on one pair of axes, and heat maps.

The SVG is complete, so it prints and reads without a script. The attribute ``data-hover`` holds the places of values
and the words that the script shows there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rflaf.errors import Array
from rflaf.estimators.svg import Axis, Markup, element, path, place

from .wording import figure_of

_WIDTH, _HEIGHT = 420.0, 270.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 14.0, 14.0, 48.0
_CIVIDIS = np.array([(0, 34, 78), (66, 78, 108), (124, 123, 120), (187, 174, 108), (254, 232, 56)], np.float64)
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
    foot = _UNDER * (_HEIGHT - _TOP - _BOTTOM) if any(isinstance(layer, Under) for layer in layers) else 0.0
    x_range, y_range = _ranges(layers, x_log, y_log)
    x_range = (x_range[0] / x_room, x_range[1] * x_room)
    if y_from_zero:
        y_range = (0.0, y_range[1])
    x = Axis(*x_range, _LEFT, _WIDTH - _RIGHT, x_log)
    y = Axis(*y_range, _HEIGHT - _BOTTOM - foot, _TOP, y_log)
    y_axis = element("g", *[_y_tick(y, tick) for tick in y.ticks], class_="ticks")
    x_axis = element("g", *[_x_tick(x, tick) for tick in x.ticks], class_="ticks")
    labels = _axis_labels(x_label, y_label, (_TOP + _HEIGHT - _BOTTOM - foot) / 2)
    foot_line = place(_HEIGHT - _BOTTOM)
    floor = element("line", x1=place(_LEFT), x2=place(_WIDTH - _RIGHT), y1=foot_line, y2=foot_line, class_="frame")
    drawn = [_draw(layer, x, y) for layer in layers]
    return _picture(_WIDTH, _HEIGHT, about, _hover(layers, x, y, x_label), y_axis, x_axis, floor, *labels, *drawn)


def sparkline(z: Array, value: Array, under: Under, reach: float, about: str) -> Markup:
    """Draw a small curve around zero on the scale -reach to reach; ``data-own`` is the factor to its own scale."""
    width, height, foot = 200.0, 118.0, 22.0
    x, y = Axis(float(z[0]), float(z[-1]), 4, width - 4), Axis(-reach, reach, height - foot - 4, 6)
    own = reach / max(float(np.abs(value).max()), 1e-300)
    places = [
        [_rounded(px), f"z = {figure_of(at)}", [["", figure_of(v), _rounded(py), "model"]]]
        for px, at, py, v in zip(x(z), z, y(value), value, strict=True)
    ]
    hover = {"by": "x", "top": 4, "bottom": height - foot, "zero": _rounded(float(y(0.0))), "places": places[::3]}
    parts = (
        _histogram(under.edges, _tops_of_bins(under.density, height - 2, foot - 4), x, height - 2, "under"),
        element("line", x1="4", x2=place(width - 4), y1=place(float(y(0))), y2=place(float(y(0))), class_="zero"),
        element("path", d=path(x(z), y(value)), class_="line model", data_own=place(own, 4)),
    )
    return _picture(width, height, about, hover, *parts)


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
            base = _HEIGHT - _BOTTOM
            tops = _tops_of_bins(layer.density, base, 0.85 * (base - y.start))
            return _histogram(layer.edges, tops, x, base, "under")
        case Steps():
            return _histogram(layer.edges, y(layer.density), x, y.start, "steps")
        case Points():
            places = "".join(f"M{place(px)} {place(py)}h0" for px, py in zip(x(layer.x), y(layer.y), strict=True))
            return element("path", d=places, class_="points")
        case Mark():
            px, py = float(x(layer.x)), float(y(layer.y))
            left = px > 0.6 * _WIDTH
            at = {"x": place(px + (10 if left else 9)), "y": place(py - 10), "text_anchor": "end" if left else "start"}
            weight = "strong" if layer.strong else "weak"
            words = element("text", layer.words, class_=f"words {weight}", **at)
            return element("g", _dot(px, py, f"mark {weight}"), words)
        case Rule():
            (x1, y1), (x2, y2) = layer.start, layer.stop
            ends = {"x1": x(x1), "y1": y(y1), "x2": x(x2), "y2": y(y2)}
            line = element("line", class_="rule", **{name: place(float(at)) for name, at in ends.items()})
            at = {"x": place(float(x(x2)) - 4), "y": place(float(y(y2)) - 6), "text_anchor": "end"}
            words = element("text", layer.words, class_="words", **at)
            return element("g", line, words if layer.words else None)


def _hover(layers: Sequence[Layer], x: Axis, y: Axis, x_label: str) -> dict[str, Any]:
    """Return the values that the script shows: lines at each shared x, bars, or the nearest point."""
    found: dict[float, list[list[Any]]] = {}
    words: dict[float, str] = {}
    for layer in layers:
        if isinstance(layer, Line) and layer.role != "plain":
            for at, value, px, py in zip(layer.x, layer.y, x(layer.x), y(layer.y), strict=True):
                words.setdefault(_rounded(px), f"{x_label} {figure_of(at)}")
                found.setdefault(_rounded(px), []).append([layer.label, figure_of(value), _rounded(py), layer.role])
        if isinstance(layer, Steps):
            ends = zip(layer.edges[:-1], layer.edges[1:], layer.density, strict=True)
            for low, high, value in ends:
                px = _rounded(float(x((low + high) / 2)))
                words[px] = f"{x_label} {figure_of(low)} to {figure_of(high)}"
                found.setdefault(px, []).append([layer.label, figure_of(value), _rounded(float(y(value))), "model"])
        if isinstance(layer, Mark) and not any(isinstance(other, Line) for other in layers):
            px = _rounded(float(x(layer.x)))
            words[px] = layer.words
            value = f"{figure_of(layer.y)} at {figure_of(layer.x, 2)}"
            found.setdefault(px, []).append(["", value, _rounded(float(y(layer.y))), "model"])
        if isinstance(layer, Points):
            places = [
                [_rounded(px), "", [["", f"{figure_of(at)}, {figure_of(value)}", _rounded(py), "model"]]]
                for at, value, px, py in zip(layer.x, layer.y, x(layer.x), y(layer.y), strict=True)
            ]
            return {"by": "xy", "top": y.stop, "bottom": y.start, "places": places}
    places = [[px, words[px], found[px]] for px in sorted(found)]
    return {"by": "x", "top": y.stop, "bottom": y.start, "places": places}


def _dot(px: float, py: float, class_: str) -> Markup:
    return element("circle", cx=place(px), cy=place(py), r="4", class_=class_)


def heat_map(first: Array, second: Array, value: Array, *, about: str, labels: tuple[str, str]) -> Markup:
    """Draw ``value`` (n_first, n_second) over two columns, dark for low and bright for high."""
    x_cells, y_cells = _cells(first), _cells(second)
    x = Axis(float(x_cells[0]), float(x_cells[-1]), _LEFT, _WIDTH - _RIGHT)
    y = Axis(float(y_cells[0]), float(y_cells[-1]), _HEIGHT - _BOTTOM, _TOP)
    low, spread = float(value.min()), float(np.ptp(value)) or 1.0
    tiles, places = [], []
    for i, x_value in enumerate(first):
        for j, y_value in enumerate(second):
            left, right, bottom, top = x(x_cells[i]), x(x_cells[i + 1]), y(y_cells[j]), y(y_cells[j + 1])
            tiles.append(
                element(
                    "rect", x=place(left), y=place(top), width=place(right - left + 0.5),
                    height=place(bottom - top + 0.5), fill=_cividis((value[i, j] - low) / spread),
                )
            )  # fmt: skip
            words = f"{labels[0]} {figure_of(x_value)}, {labels[1]} {figure_of(y_value)}"
            middle = _rounded((left + right) / 2), _rounded((bottom + top) / 2)
            places.append([middle[0], words, [["prediction", figure_of(value[i, j]), middle[1], "plain"]]])
    axes = (
        element("g", *[_y_tick_label(y, tick) for tick in y.ticks], class_="ticks"),
        element("g", *[_x_tick(x, tick) for tick in x.ticks], class_="ticks"),
        *_axis_labels(*labels, (_TOP + _HEIGHT - _BOTTOM) / 2),
    )
    hover = {"by": "xy", "top": _TOP, "bottom": _HEIGHT - _BOTTOM, "places": places}
    return _picture(_WIDTH, _HEIGHT, about, hover, element("g", *tiles, class_="tiles"), *axes)


def _cells(grid: Array) -> Array:
    """Return the edges of cells around the values of a grid."""
    if grid.size == 1:
        return np.array([grid[0] - 0.5, grid[0] + 0.5])
    middles = (grid[1:] + grid[:-1]) / 2
    return np.concatenate([[2 * grid[0] - middles[0]], middles, [2 * grid[-1] - middles[-1]]])


def _cividis(share: float) -> str:
    at = np.linspace(0, 1, len(_CIVIDIS))
    red, green, blue = (round(float(np.interp(share, at, channel))) for channel in _CIVIDIS.T)
    return f"#{red:02x}{green:02x}{blue:02x}"


def _picture(width: float, height: float, about: str, hover: dict[str, Any], *parts: Any) -> Markup:
    """Return the picture, reachable by keyboard, with a group for the cursor of the script."""
    cursor = element("g", class_="cursor", aria_hidden="true")
    return element(
        "svg", *parts, cursor,
        viewBox=f"0 0 {place(width)} {place(height)}", role="img", aria_label=about, tabindex="0", class_="chart",
        data_hover=json.dumps(hover, separators=(",", ":")),
    )  # fmt: skip


def _histogram(edges: Array, tops: Array, x: Axis, base: float, class_: str) -> Markup:
    """Return a histogram as one path, from ``base`` up to the ``tops`` of its bins."""
    at = np.clip(x(edges), x.start, x.stop)
    outline = path(np.repeat(at, 2)[1:-1], np.repeat(tops, 2))
    foot = place(base)
    return element("path", d=f"M{place(at[0])} {foot}L{outline[1:]}L{place(at[-1])} {foot}Z", class_=class_)


def _tops_of_bins(density: Array, base: float, height: float) -> Array:
    """Return the tops of bins, scaled so that the tallest is ``height``."""
    return base - height * density / max(float(density.max(initial=0)), 1e-300)


def _axis_labels(x_label: str, y_label: str, middle: float) -> tuple[Markup, Markup]:
    """Return the labels of both axes; ``middle`` is the height of the second."""
    turned = f"translate(12 {place(middle)}) rotate(-90)"
    return (
        element("text", _cut(x_label, 44), x=place((_LEFT + _WIDTH - _RIGHT) / 2), y=place(_HEIGHT - 8), class_="axis"),
        element("text", _cut(y_label, 28), x="0", y="0", class_="axis", transform=turned),
    )


def _x_tick(x: Axis, tick: float) -> Markup:
    at = {"x": place(float(x(tick))), "y": place(_HEIGHT - _BOTTOM + 17), "text_anchor": "middle"}
    return element("text", _tick_words(tick), **at)


def _y_tick(y: Axis, tick: float) -> Markup:
    """Return a line across the chart with its tick label."""
    level = place(float(y(tick)))
    line = element("line", x1=place(_LEFT), x2=place(_WIDTH - _RIGHT), y1=level, y2=level)
    return element("g", line, _y_tick_label(y, tick))


def _y_tick_label(y: Axis, tick: float) -> Markup:
    return element("text", _tick_words(tick), x=place(_LEFT - 7), y=place(float(y(tick)) + 4), text_anchor="end")


def _cut(words: str, most: int) -> str:
    """Shorten words to fit along an axis: long ones lose their middle.

    >>> _cut("a column with quite a long name", 18)
    'a column...long name'
    """
    half = most // 2
    return words if len(words) <= most + 3 else f"{words[:half].rstrip()}...{words[-half:].lstrip()}"


def _tick_words(tick: float) -> str:
    return f"{tick:.0e}".replace("e-0", "e-") if 0 < abs(tick) < 1e-3 else f"{tick:,.6g}"


def _rounded(value: float) -> float:
    return round(float(value), 1)
