"""Draw the learned activation as a small SVG, without a plotting library.

Notebooks show it under scikit-learn's diagram of a fitted estimator.
"""

from __future__ import annotations

from html import escape

import numpy as np

from rflaf.errors import Array
from rflaf.model.random_feature_model import RandomFeatureModel

_WIDTH, _HEIGHT, _MARGIN = 220, 84, 6
_POINTS = 81
_MOST_CURVES = 8
_BLUE, _GREY = "#0072B2", "#7F7F7F"  # of the colour-blind-safe palette of Okabe and Ito


def activation_figure(model: RandomFeatureModel) -> str:
    """Return an HTML figure of a shared activation, or of the activations that move f most over their interval."""
    z, curves = strongest_curves(model)
    low, high = model.activation.basis.interval
    if model.activation.coefficients.shape[0] == 1:
        caption = f"learned activation, shared by {model.n_components} components"
    else:
        caption = f"learned activations: the strongest {len(curves)} of {model.n_components}, as they add to f"
    return (
        f'<figure class="rflaf-activation" style="margin:0.5em 0 0 0.5em">{curves_svg(z, curves, caption)}'
        f'<figcaption style="font-size:0.8em;opacity:0.8">{escape(caption)}; z from {low:g} to {high:g}</figcaption>'
        "</figure>"
    )


def strongest_curves(model: RandomFeatureModel, most: int = _MOST_CURVES) -> tuple[Array, Array]:
    """Return a grid (n_points,) over the interval, and curves on it (n_curves, n_points), the strongest first.

    The curve of a shared activation is its values. Otherwise the curves are q_m v_m sigma_m(z) less their mean, v_m the
    weight to the output it moves most, for the ``most`` components with the largest spread over the grid.
    """
    z = np.linspace(*model.activation.basis.interval, _POINTS)
    values = np.atleast_2d(model.activation(z))
    if values.shape[0] == 1:
        return z, values
    v = np.take_along_axis(model.v, np.argmax(np.abs(model.v), axis=1)[:, None], axis=1)
    values = (values - values.mean(axis=1, keepdims=True)) * model.directions.importance[:, None] * v
    order = np.argsort(-values.std(axis=1), kind="stable")[:most]
    return z, values[order]


def curves_svg(z: Array, curves: Array, title: str) -> str:
    """Return an SVG image of curves (n_curves, n_points) over ``z``, on one scale, the first the darkest.

    >>> picture = curves_svg(np.array([0.0, 1.0]), np.array([[0.0, 2.0]]), "a < b")
    >>> picture.count("<polyline"), "a &lt; b" in picture
    (1, True)
    """
    low, high = min(0.0, float(curves.min())), max(0.0, float(curves.max()))
    x = _MARGIN + (_WIDTH - 2 * _MARGIN) * (z - z[0]) / (z[-1] - z[0])

    def height(values: Array) -> Array:
        return _HEIGHT - _MARGIN - (_HEIGHT - 2 * _MARGIN) * (values - low) / (high - low if high > low else 1.0)

    zero = float(height(np.zeros(1))[0])
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}"><title>{escape(title)}</title>',
        f'<line x1="{_MARGIN}" x2="{_WIDTH - _MARGIN}" y1="{zero:.1f}" y2="{zero:.1f}" stroke="{_GREY}"/>',
    ]
    shades = np.linspace(1.0, 0.25, len(curves))
    for shade, values in reversed(list(zip(shades, curves, strict=True))):  # the strongest on top
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, height(values), strict=True))
        stroke = f'stroke="{_BLUE}" stroke-width="1.5" stroke-opacity="{shade:.2f}"'
        lines.append(f'<polyline points="{points}" fill="none" {stroke}/>')
    return "".join([*lines, "</svg>"])
