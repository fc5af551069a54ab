"""Charts as SVG that the page's style sheet colours and its script lets one read off, value by value.

A chart is drawn whole here, so it prints and reads without a script. What the script needs to show values is an
attribute ``data-hover``: places in the picture and the words to show there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rflaf.errors import Array

from .markup import Markup, element, figure_of

_WIDTH, _HEIGHT = 420.0, 270.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 14.0, 14.0, 48.0
_UNDER = 0.2  # of the height, for where the rows lie
_CIVIDIS = np.array([(0, 34, 78), (66, 78, 108), (124, 123, 120), (187, 174, 108), (254, 232, 56)], np.float64)


@dataclass(frozen=True, slots=True)
class Line:
    """A curve through (x, y)."""

    label: str
    x: Array
    y: Array
    role: str = "model"
    dots: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """The area between two curves."""

    x: Array
    low: Array
    high: Array


@dataclass(frozen=True, slots=True)
class Under:
    """A histogram along the foot of a chart: where the rows lie."""

    edges: Array
    density: Array


@dataclass(frozen=True, slots=True)
class Steps:
    """A histogram that is the chart."""

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
    """One dot with words beside it; one that is not ``strong`` is grey."""

    x: float
    y: float
    words: str
    strong: bool = True


@dataclass(frozen=True, slots=True)
class Rule:
    """A dashed line from one point to another, for comparison."""

    start: tuple[float, float]
    stop: tuple[float, float]
    words: str = ""


Layer = Line | Band | Under | Steps | Points | Mark | Rule


@dataclass(frozen=True, slots=True)
class Axis:
    """From values to places: ``start`` and ``stop`` are where ``low`` and ``high`` lie."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value: Any) -> Any:
        low, high, at = (np.log10(v) if self.log else v for v in (self.low, self.high, np.asarray(value, np.float64)))
        return self.start + (at - low) / (high - low) * (self.stop - self.start)

    @property
    def ticks(self) -> list[float]:
        return log_ticks(self.low, self.high) if self.log else even_ticks(self.low, self.high)


def even_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """At most about ``most`` round numbers between ``low`` and ``high``.

    >>> even_ticks(0, 97)
    [0.0, 20.0, 40.0, 60.0, 80.0]
    """
    rough = (high - low) / most
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * next(m for m in (1, 2, 2.5, 5, 10) if m * power >= rough * (1 - 1e-9))
    ticks = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) * step
    return [float(tick) + 0.0 for tick in ticks]


def log_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Powers of ten between ``low`` and ``high``, with 2 and 5 times them where these are few.

    >>> log_ticks(0.5, 30)
    [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
    """
    powers = np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    every = [float(f"{m}e{int(p)}") for p in powers for m in (1, 2, 5)]
    inside = [tick for tick in every if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
    if len(inside) <= 7:
        return inside
    tens = [float(f"1e{int(p)}") for p in powers if low <= float(f"1e{int(p)}") <= high]
    return tens[:: max(1, -(-len(tens) // most))]


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
    """Layers on one pair of axes, in the order given; ``about`` is what a screen reader says.

    ``x_room`` is the factor by which a logarithmic x axis reaches beyond what is shown.
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
    foot_line = _text(_HEIGHT - _BOTTOM)
    frame = element("line", x1=_text(_LEFT), x2=_text(_WIDTH - _RIGHT), y1=foot_line, y2=foot_line, class_="frame")
    drawn = [_draw(layer, x, y) for layer in layers]
    return _svg(_WIDTH, _HEIGHT, about, _hover(layers, x, y, x_label), y_axis, x_axis, frame, *labels, *drawn)


def sparkline(z: Array, value: Array, under: Under, reach: float, about: str) -> Markup:
    """A small curve about zero, on the scale that ``reach`` fills; ``data-own`` is the factor to its own scale."""
    width, height, foot = 200.0, 118.0, 22.0
    x, y = Axis(float(z[0]), float(z[-1]), 4, width - 4), Axis(-reach, reach, height - foot - 4, 6)
    own = reach / max(float(np.abs(value).max()), 1e-300)
    places = [
        [_round(px), f"z = {figure_of(at)}", [["", figure_of(v), _round(py), "model"]]]
        for px, at, py, v in zip(x(z), z, y(value), value, strict=True)
    ]
    hover = {"by": "x", "top": 4, "bottom": height - foot, "zero": _round(float(y(0.0))), "places": places[::3]}
    parts = (
        _columns(under.edges, _along_the_foot(under.density, height - 2, foot - 4), x, height - 2, "under"),
        element("line", x1="4", x2=_text(width - 4), y1=_text(float(y(0))), y2=_text(float(y(0))), class_="zero"),
        element("path", d=_path(x(z), y(value)), class_="line model", data_own=_text(own, 4)),
    )
    return _svg(width, height, about, hover, *parts)


def heat_map(first: Array, second: Array, value: Array, *, about: str, labels: tuple[str, str]) -> Markup:
    """A map of ``value`` (n_first, n_second) over two columns, dark for low and bright for high."""
    x_cells, y_cells = _cells(first), _cells(second)
    x = Axis(float(x_cells[0]), float(x_cells[-1]), _LEFT, _WIDTH - _RIGHT)
    y = Axis(float(y_cells[0]), float(y_cells[-1]), _HEIGHT - _BOTTOM, _TOP)
    low, spread = float(value.min()), float(np.ptp(value)) or 1.0
    tiles, places = [], []
    for i, one in enumerate(first):
        for j, other in enumerate(second):
            left, right, bottom, top = x(x_cells[i]), x(x_cells[i + 1]), y(y_cells[j]), y(y_cells[j + 1])
            tiles.append(
                element(
                    "rect", x=_text(left), y=_text(top), width=_text(right - left + 0.5),
                    height=_text(bottom - top + 0.5), fill=_cividis((value[i, j] - low) / spread),
                )
            )  # fmt: skip
            words = f"{labels[0]} {figure_of(one)}, {labels[1]} {figure_of(other)}"
            middle = _round((left + right) / 2), _round((bottom + top) / 2)
            places.append([middle[0], words, [["prediction", figure_of(value[i, j]), middle[1], "plain"]]])
    axes = (
        element("g", *[_y_words(y, tick) for tick in y.ticks], class_="ticks"),
        element("g", *[_x_tick(x, tick) for tick in x.ticks], class_="ticks"),
        *_axis_labels(*labels, (_TOP + _HEIGHT - _BOTTOM) / 2),
    )
    hover = {"by": "xy", "top": _TOP, "bottom": _HEIGHT - _BOTTOM, "places": places}
    return _svg(_WIDTH, _HEIGHT, about, hover, element("g", *tiles, class_="tiles"), *axes)


def legend(*entries: tuple[str, str]) -> Markup:
    """Words for the roles of a chart: pairs of role and words."""
    return element("ul", *[element("li", element("i", class_=role), words) for role, words in entries], class_="legend")


def cut(words: str, most: int) -> str:
    """Words that fit along an axis: the middle of long ones is left out.

    >>> cut("a column with quite a long name", 18)
    'a column...long name'
    """
    half = most // 2
    return words if len(words) <= most + 3 else f"{words[:half].rstrip()}...{words[-half:].lstrip()}"


def tick_words(tick: float) -> str:
    """A tick as it is written at an axis."""
    return f"{tick:.0e}".replace("e-0", "e-") if 0 < abs(tick) < 1e-3 else f"{tick:,.6g}"


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
            curve = element("path", d=_path(x(layer.x), y(layer.y)), class_=f"line {layer.role}")
            dots = [_dot(px, py, f"dot {layer.role}") for px, py in zip(x(layer.x), y(layer.y), strict=True)]
            return element("g", curve, dots if layer.dots else None)
        case Band():
            there, back = _path(x(layer.x), y(layer.low)), _path(x(layer.x)[::-1], y(layer.high)[::-1])
            return element("path", d=f"{there}L{back[1:]}Z", class_="band")
        case Under():
            base = _HEIGHT - _BOTTOM
            tops = _along_the_foot(layer.density, base, 0.85 * (base - y.start))
            return _columns(layer.edges, tops, x, base, "under")
        case Steps():
            return _columns(layer.edges, y(layer.density), x, y.start, "steps")
        case Points():
            places = "".join(f"M{_text(px)} {_text(py)}h0" for px, py in zip(x(layer.x), y(layer.y), strict=True))
            return element("path", d=places, class_="points")
        case Mark():
            px, py = float(x(layer.x)), float(y(layer.y))
            left = px > 0.6 * _WIDTH
            at = {"x": _text(px + (10 if left else 9)), "y": _text(py - 10), "text_anchor": "end" if left else "start"}
            weight = "strong" if layer.strong else "weak"
            words = element("text", layer.words, class_=f"words {weight}", **at)
            return element("g", _dot(px, py, f"mark {weight}"), words)
        case Rule():
            (x1, y1), (x2, y2) = layer.start, layer.stop
            ends = {"x1": x(x1), "y1": y(y1), "x2": x(x2), "y2": y(y2)}
            line = element("line", class_="rule", **{name: _text(float(at)) for name, at in ends.items()})
            at = {"x": _text(float(x(x2)) - 4), "y": _text(float(y(y2)) - 6), "text_anchor": "end"}
            words = element("text", layer.words, class_="words", **at)
            return element("g", line, words if layer.words else None)


def _hover(layers: Sequence[Layer], x: Axis, y: Axis, x_label: str) -> dict[str, Any]:
    """What the script shows where: the lines at each x they share, the bars, or the nearest of the points."""
    found: dict[float, list[list[Any]]] = {}
    words: dict[float, str] = {}
    for layer in layers:
        if isinstance(layer, Line) and layer.role != "plain":
            for at, value, px, py in zip(layer.x, layer.y, x(layer.x), y(layer.y), strict=True):
                words.setdefault(_round(px), f"{x_label} {figure_of(at)}")
                found.setdefault(_round(px), []).append([layer.label, figure_of(value), _round(py), layer.role])
        if isinstance(layer, Steps):
            ends = zip(layer.edges[:-1], layer.edges[1:], layer.density, strict=True)
            for low, high, value in ends:
                px = _round(float(x((low + high) / 2)))
                words[px] = f"{x_label} {figure_of(low)} to {figure_of(high)}"
                found.setdefault(px, []).append([layer.label, figure_of(value), _round(float(y(value))), "model"])
        if isinstance(layer, Mark) and not any(isinstance(other, Line) for other in layers):
            px = _round(float(x(layer.x)))
            words[px] = layer.words
            value = f"{figure_of(layer.y)} at {figure_of(layer.x, 2)}"
            found.setdefault(px, []).append(["", value, _round(float(y(layer.y))), "model"])
        if isinstance(layer, Points):
            places = [
                [_round(px), "", [["", f"{figure_of(at)}, {figure_of(value)}", _round(py), "model"]]]
                for at, value, px, py in zip(layer.x, layer.y, x(layer.x), y(layer.y), strict=True)
            ]
            return {"by": "xy", "top": y.stop, "bottom": y.start, "places": places}
    places = [[px, words[px], found[px]] for px in sorted(found)]
    return {"by": "x", "top": y.stop, "bottom": y.start, "places": places}


def _svg(width: float, height: float, about: str, hover: dict[str, Any], *parts: Any) -> Markup:
    """The picture: reachable by keyboard, with a place for the cursor that the script moves."""
    cursor = element("g", class_="cursor", aria_hidden="true")
    return element(
        "svg", *parts, cursor,
        viewBox=f"0 0 {_text(width)} {_text(height)}", role="img", aria_label=about, tabindex="0", class_="chart",
        data_hover=json.dumps(hover, separators=(",", ":")),
    )  # fmt: skip


def _columns(edges: Array, tops: Array, x: Axis, base: float, class_: str) -> Markup:
    """A histogram as one path, from ``base`` up to the ``tops`` of its bins."""
    at = np.clip(x(edges), x.start, x.stop)
    outline = _path(np.repeat(at, 2)[1:-1], np.repeat(tops, 2))
    foot = _text(base)
    return element("path", d=f"M{_text(at[0])} {foot}L{outline[1:]}L{_text(at[-1])} {foot}Z", class_=class_)


def _along_the_foot(density: Array, base: float, height: float) -> Array:
    """Tops of bins of which the tallest is ``height``."""
    return base - height * density / max(float(density.max(initial=0)), 1e-300)


def _axis_labels(x_label: str, y_label: str, middle: float) -> tuple[Markup, Markup]:
    turned = f"translate(12 {_text(middle)}) rotate(-90)"
    return (
        element("text", cut(x_label, 44), x=_text((_LEFT + _WIDTH - _RIGHT) / 2), y=_text(_HEIGHT - 8), class_="axis"),
        element("text", cut(y_label, 28), x="0", y="0", class_="axis", transform=turned),
    )


def _x_tick(x: Axis, tick: float) -> Markup:
    return element(
        "text", tick_words(tick), x=_text(float(x(tick))), y=_text(_HEIGHT - _BOTTOM + 17), text_anchor="middle"
    )


def _y_tick(y: Axis, tick: float) -> Markup:
    place = _text(float(y(tick)))
    line = element("line", x1=_text(_LEFT), x2=_text(_WIDTH - _RIGHT), y1=place, y2=place)
    return element("g", line, _y_words(y, tick))


def _y_words(y: Axis, tick: float) -> Markup:
    return element("text", tick_words(tick), x=_text(_LEFT - 7), y=_text(float(y(tick)) + 4), text_anchor="end")


def _dot(px: float, py: float, class_: str) -> Markup:
    return element("circle", cx=_text(px), cy=_text(py), r="4", class_=class_)


def _path(px: Array, py: Array) -> str:
    return "M" + "L".join(f"{_text(one)} {_text(other)}" for one, other in zip(px, py, strict=True))


def _cells(grid: Array) -> Array:
    """Edges of cells around the values of a grid."""
    if grid.size == 1:
        return np.array([grid[0] - 0.5, grid[0] + 0.5])
    middles = (grid[1:] + grid[:-1]) / 2
    return np.concatenate([[2 * grid[0] - middles[0]], middles, [2 * grid[-1] - middles[-1]]])


def _cividis(share: float) -> str:
    at = np.linspace(0, 1, len(_CIVIDIS))
    red, green, blue = (round(float(np.interp(share, at, channel))) for channel in _CIVIDIS.T)
    return f"#{red:02x}{green:02x}{blue:02x}"


def _round(value: float) -> float:
    return round(float(value), 1)


def _text(value: float, digits: int = 1) -> str:
    return f"{float(value):.{digits}f}".rstrip("0").rstrip(".")
