"""Maps of a function of two columns, with a scale of their colours."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from rflaf.errors import Array
from rflaf.estimators.svg import Axis, Markup, element, place

from .frame import (
    BOTTOM,
    HEIGHT,
    RIGHT,
    TOP,
    WIDTH,
    axis_labels,
    cut,
    left_margin,
    picture,
    rounded,
    tick_words,
    x_tick,
    y_tick_label,
)
from .wording import figure_of

_CIVIDIS = np.array([(0, 34, 78), (66, 78, 108), (124, 123, 120), (187, 174, 108), (254, 232, 56)], np.float64)
_BAR, _SHADES = 12.0, 24


_LONGEST = 14  # letters of a level beside the map
_FEW = 6  # levels whose names fit below the map
Levels = tuple[str, ...] | None  # of a category, whose codes are the values of its column


def heat_map(
    first: Array,
    second: Array,
    value: Array,
    *,
    about: str,
    labels: tuple[str, str],
    levels: tuple[Levels, Levels] = (None, None),
) -> Markup:
    """Draw ``value`` (n_first, n_second) over two columns, dark for low and bright for high, with its scale."""
    x_cells, y_cells = _cells(first), _cells(second)
    y = Axis(float(y_cells[0]), float(y_cells[-1]), HEIGHT - BOTTOM, TOP)
    scale = Axis(float(value.min()), float(value.max()) or 1.0, HEIGHT - BOTTOM, TOP)
    if scale.low == scale.high:
        scale = Axis(scale.low, scale.low + 1.0, scale.start, scale.stop)
    y_ticks = _ticks(y, second, levels[1], _LONGEST)
    left = left_margin([words for _, words in y_ticks])
    room = left_margin([tick_words(tick) for tick in scale.ticks]) - 10
    x = Axis(float(x_cells[0]), float(x_cells[-1]), left, WIDTH - RIGHT - room)
    x_ticks = _ticks(x, first, levels[0], int(_LONGEST * 2 / max(first.size, 2)) if first.size <= _FEW else 0)
    tiles, places = [], []
    for i, x_value in enumerate(first):
        for j, y_value in enumerate(second):
            sides = x(x_cells[i]), x(x_cells[i + 1]), y(y_cells[j + 1]), y(y_cells[j])
            tiles.append(_tile(*sides, _share(scale, value[i, j])))
            words = f"{labels[0]} {_name(x_value, levels[0])}, {labels[1]} {_name(y_value, levels[1])}"
            middle = rounded((sides[0] + sides[1]) / 2), rounded((sides[2] + sides[3]) / 2)
            places.append([middle[0], words, [["prediction", figure_of(value[i, j]), middle[1], "plain"]]])
    parts = (
        element("g", *tiles, class_="tiles"),
        element("g", *[y_tick_label(y, tick, left, words) for tick, words in y_ticks], class_="ticks"),
        element("g", *[x_tick(x, tick, words) for tick, words in x_ticks], class_="ticks"),
        *axis_labels(*labels, left, (TOP + HEIGHT - BOTTOM) / 2),
        _scale_of_colours(scale, x.stop + 14),
    )
    return picture(WIDTH, HEIGHT, about, {"by": "xy", "top": TOP, "bottom": HEIGHT - BOTTOM, "places": places}, *parts)


def _name(value: float, levels: Levels) -> str:
    return figure_of(value) if levels is None else levels[int(value)]


def _ticks(axis: Axis, values: Array, levels: Levels, most: int) -> list[tuple[float, str]]:
    """Return ticks and their words: every level of a category, in at most so many letters, else round numbers."""
    if levels is None:
        return [(tick, tick_words(tick)) for tick in axis.ticks]
    return [(float(code), cut(levels[int(code)], most)) for code in values] if most > 0 else []


def _scale_of_colours(scale: Axis, left: float) -> Markup:
    ends = np.linspace(scale.low, scale.high, _SHADES + 1)
    shades = [
        _tile(left, left + _BAR, float(scale(high)), float(scale(low)), _share(scale, (low + high) / 2))
        for low, high in pairwise(ends)
    ]
    ticks = [
        element("text", tick_words(tick), x=place(left + _BAR + 5), y=place(float(scale(tick)) + 4))
        for tick in scale.ticks
    ]
    return element("g", *shades, *ticks, class_="scale")


def _share(scale: Axis, value: float) -> float:
    return float((value - scale.low) / (scale.high - scale.low))


def _tile(left: float, right: float, top: float, bottom: float, share: float) -> Markup:
    size = {"width": place(right - left + 0.5), "height": place(bottom - top + 0.5)}
    return element("rect", x=place(left), y=place(top), **size, fill=_cividis(share))


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
