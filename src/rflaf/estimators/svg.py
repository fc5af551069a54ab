"""Markup as values and the primitives of every SVG picture: colours, axes, ticks, paths.

`rflaf.estimators.thumbnail` and the charts of `rflaf.inspection.report` draw with them. Text that is not `Markup` is
escaped, so column names stay text.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from rflaf.errors import Array

# The colour-blind-safe palette of Okabe and Ito.
BLUE, ORANGE, GREEN, VERMILION, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#999999"
SKY = "#56B4E9"
PALETTE = {"blue": BLUE, "orange": ORANGE, "green": GREEN, "vermilion": VERMILION, "sky": SKY, "grey": GREY}


class Markup(str):
    """Text that is already markup."""

    __slots__ = ()


def element(tag: str, *children: Any, **attributes: Any) -> Markup:
    """Return an element; children and attributes are escaped unless they are `Markup`.

    ``class_`` stands for ``class``, ``data_x`` for ``data-x``; an attribute of None is omitted, True gives a bare name.

    >>> element("p", "a < b", element("b", "c"), class_="note")
    '<p class="note">a &lt; b<b>c</b></p>'
    """
    named = "".join(_attribute(name, value) for name, value in attributes.items() if value is not None)
    return Markup(f"<{tag}{named}>{join(children)}</{tag}>")


def join(children: Any) -> Markup:
    """Join children, escaped unless they are `Markup`; nested lists are flattened, None is omitted."""
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


@dataclass(frozen=True, slots=True)
class Axis:
    """Map from values to places: ``low`` and ``high`` lie at ``start`` and ``stop``."""

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
    """Return about ``most`` round numbers between ``low`` and ``high``.

    >>> even_ticks(0, 97)
    [0.0, 20.0, 40.0, 60.0, 80.0]
    """
    rough = (high - low) / most
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * next(m for m in (1, 2, 2.5, 5, 10) if m * power >= rough * (1 - 1e-9))
    ticks = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) * step
    return [float(tick) + 0.0 for tick in ticks]


def log_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return powers of ten between ``low`` and ``high``, with 2 and 5 times them if these are few.

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


def path(px: Array, py: Array) -> str:
    """Return the path data of a polyline."""
    return "M" + "L".join(f"{place(x)} {place(y)}" for x, y in zip(px, py, strict=True))


def place(value: float, digits: int = 1) -> str:
    """Return a coordinate as text, without trailing zeros."""
    return f"{float(value):.{digits}f}".rstrip("0").rstrip(".")
