"""The learned activation as a small SVG picture, drawn without a plotting library.

Notebooks show it below scikit-learn's diagram of a fitted estimator.
"""

from __future__ import annotations

import numpy as np

from rflaf.errors import Array
from rflaf.model.random_feature_model import RandomFeatureModel

from .svg import BLUE, GREY, Axis, Markup, element, place

_WIDTH, _HEIGHT, _MARGIN = 220, 84, 6
_POINTS = 81
_MOST_CURVES = 8


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
        lines.append(
            element(
                "polyline", points=points, fill="none", stroke=BLUE, stroke_width=1.5, stroke_opacity=f"{shade:.2f}"
            )
        )
    return element(
        "svg", *lines, xmlns="http://www.w3.org/2000/svg", role="img", width=_WIDTH, height=_HEIGHT,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
    )  # fmt: skip
