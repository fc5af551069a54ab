"""Words beside the points of a chart, where they cover no point and no other words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_PLACES: tuple[tuple[tuple[int, int], str, str], ...] = (  # offset in points, and which side of the words is there
    ((6, 0), "left", "center"), ((-6, 0), "right", "center"), ((0, 6), "center", "bottom"), ((0, -6), "center", "top"),
    ((4, 5), "left", "bottom"), ((4, -5), "left", "top"), ((-4, 5), "right", "bottom"), ((-4, -5), "right", "top"),
)  # fmt: skip


def put_labels(ax: Any, points: Sequence[tuple[float, float, str]], styles: Sequence[dict[str, Any]]) -> None:
    """Write the words of every point (x, y, words) at the first free place beside it, the first points first.

    Words that have no free place are left out. Limits and scales of the axes must be set before.
    """
    from matplotlib.transforms import Bbox

    renderer = ax.figure.canvas.get_renderer()
    ax.figure.draw_without_rendering()  # so that the layout is the final one
    spots = [ax.transData.transform((x, y)) for x, y, _ in points]
    taken = [Bbox.from_extents(x - 4, y - 4, x + 4, y + 4) for x, y in spots]
    inside = ax.get_window_extent(renderer).padded(8)
    for number, ((x, y, words), style) in enumerate(zip(points, styles, strict=True)):
        others = [box for place, box in enumerate(taken) if place != number]
        for offset, side, height in _PLACES:
            text = ax.annotate(words, (x, y), offset, textcoords="offset points", ha=side, va=height, **style)
            box = text.get_window_extent(renderer)
            if inside.contains(box.x0, box.y0) and inside.contains(box.x1, box.y1) and not box.count_overlaps(others):
                taken.append(box)
                break
            text.remove()
