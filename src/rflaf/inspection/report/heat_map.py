"""A map of predictions over two columns."""

from __future__ import annotations

import numpy as np

from rflaf.errors import Array
from rflaf.estimators.svg import Axis, Markup, element, place

from .chart_frame import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, axis_labels, picture, rounded, x_tick, y_tick_label
from .wording import figure_of

_CIVIDIS = np.array([(0, 34, 78), (66, 78, 108), (124, 123, 120), (187, 174, 108), (254, 232, 56)], np.float64)


def heat_map(first: Array, second: Array, value: Array, *, about: str, labels: tuple[str, str]) -> Markup:
    """Draw ``value`` (n_first, n_second) over two columns, dark for low and bright for high."""
    x_cells, y_cells = _cells(first), _cells(second)
    x = Axis(float(x_cells[0]), float(x_cells[-1]), LEFT, WIDTH - RIGHT)
    y = Axis(float(y_cells[0]), float(y_cells[-1]), HEIGHT - BOTTOM, TOP)
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
            middle = rounded((left + right) / 2), rounded((bottom + top) / 2)
            places.append([middle[0], words, [["prediction", figure_of(value[i, j]), middle[1], "plain"]]])
    axes = (
        element("g", *[y_tick_label(y, tick) for tick in y.ticks], class_="ticks"),
        element("g", *[x_tick(x, tick) for tick in x.ticks], class_="ticks"),
        *axis_labels(*labels, (TOP + HEIGHT - BOTTOM) / 2),
    )
    hover = {"by": "xy", "top": TOP, "bottom": HEIGHT - BOTTOM, "places": places}
    return picture(WIDTH, HEIGHT, about, hover, element("g", *tiles, class_="tiles"), *axes)


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
