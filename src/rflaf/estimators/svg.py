"""Markup as values, the primitives of every SVG picture, and the picture of the learned activation in notebooks.

The charts of `rflaf.inspection.report` draw with them too. Text that is not `Markup` is escaped, so names stay text.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from rflaf.errors import Array
from rflaf.model.random_feature_model import RandomFeatureModel

# The colour-blind-safe palette of Okabe and Ito.
BLUE, ORANGE, GREEN, VERMILION, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#999999"
SKY = "#56B4E9"
PALETTE = {"blue": BLUE, "orange": ORANGE, "green": GREEN, "vermilion": VERMILION, "sky": SKY, "grey": GREY}
_WIDTH, _HEIGHT, _MARGIN = 220, 84, 6
_POINTS, _MOST_CURVES = 81, 8


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


def activation_figure(model: RandomFeatureModel) -> str:
    """Return an HTML figure of a shared activation, or of the activations that change f most over their interval."""
    z, curves = strongest_curves(model)
    low, high = model.activation.basis.interval
    if model.activation.coefficients.shape[0] == 1:
        caption = f"learned activation, shared by {model.n_components} components"
    else:
        caption = f"learned activations: the strongest {len(curves)} of {model.n_components}, as they add to f"
    words = element("figcaption", f"{caption}; z from {low:g} to {high:g}", style="font-size:0.8em;opacity:0.8")
    return element(
        "figure", curves_svg(z, curves, caption), words, class_="rflaf-activation", style="margin:0.5em 0 0 0.5em"
    )


def strongest_curves(model: RandomFeatureModel, most: int = _MOST_CURVES) -> tuple[Array, Array]:
    """Return a grid (n_points,) over the interval and curves (n_curves, n_points) on it, the strongest first.

    A shared activation gives its values; otherwise the curves are q_m v_m sigma_m(z) minus their mean, with v_m of the
    output that m changes most, for the ``most`` components with the largest spread over the grid.
    """
    z = np.linspace(*model.activation.basis.interval, _POINTS)
    values = np.atleast_2d(model.activation(z))
    if values.shape[0] == 1:
        return z, values
    v = np.take_along_axis(model.v, np.argmax(np.abs(model.v), axis=1)[:, None], axis=1)
    values = (values - values.mean(axis=1, keepdims=True)) * model.directions.importance[:, None] * v
    order = np.argsort(-values.std(axis=1), kind="stable")[:most]
    return z, values[order]


def curves_svg(z: Array, curves: Array, title: str) -> Markup:
    """Draw curves (n_curves, n_points) over ``z`` on one scale, the first the darkest, with a line at zero.

    >>> picture = curves_svg(np.array([0.0, 1.0]), np.array([[0.0, 2.0]]), "a < b")
    >>> picture.count("<polyline"), "a &lt; b" in picture
    (1, True)
    """
    low, high = min(0.0, float(curves.min())), max(0.0, float(curves.max()))
    x = Axis(float(z[0]), float(z[-1]), _MARGIN, _WIDTH - _MARGIN)
    y = Axis(low, high if high > low else low + 1.0, _HEIGHT - _MARGIN, _MARGIN)
    ends = {"x1": _MARGIN, "x2": _WIDTH - _MARGIN, "y1": place(y(0.0)), "y2": place(y(0.0))}
    lines = [element("title", title), element("line", **ends, stroke=GREY)]
    shades = np.linspace(1.0, 0.25, len(curves))
    for shade, values in reversed(list(zip(shades, curves, strict=True))):  # the strongest on top
        points = " ".join(f"{place(a)},{place(b)}" for a, b in zip(x(z), y(values), strict=True))
        style = {"fill": "none", "stroke": BLUE, "stroke_width": 1.5, "stroke_opacity": f"{shade:.2f}"}
        lines.append(element("polyline", points=points, **style))
    return element(
        "svg", *lines, xmlns="http://www.w3.org/2000/svg", role="img", width=_WIDTH, height=_HEIGHT,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
    )  # fmt: skip
