"""Places for the words beside dots, such that they cover neither one another nor the dots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rflaf.estimators.svg import Axis, place

_LETTER, _LINE, _DOT = 7.4, 15.0, 6.0
_Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True, slots=True)
class Label:
    """Words for the dot at (x, y), in places of the picture."""

    x: float
    y: float
    words: str


def placed(labels: Sequence[Label], x: Axis, top: float) -> list[dict[str, Any]]:
    """Return where the words of every dot start: above right, left, below and farther away, the first place free.

    >>> placed([Label(50, 50, "a"), Label(52, 50, "b")], Axis(0, 1, 0, 200), 0)[1]
    {'x': '43', 'y': '40', 'text_anchor': 'end'}
    """
    taken: list[_Box] = [(dot.x - _DOT, dot.y - _DOT, dot.x + _DOT, dot.y + _DOT) for dot in labels]
    answer = []
    for number, label in enumerate(labels):
        others = [box for at, box in enumerate(taken) if at != number]
        at, anchor, box = min(_candidates(label), key=lambda found: _badness(found[2], others, x, top))
        taken.append(box)
        answer.append({"x": place(at[0]), "y": place(at[1]), "text_anchor": anchor})
    return answer


def _candidates(label: Label) -> list[tuple[tuple[float, float], str, _Box]]:
    """Return starts, anchors and boxes of the words around a dot, the preferred first."""
    length, found = _LETTER * len(label.words), []
    for down in (-10.0, 15.0, -26.0, 31.0, -42.0, 47.0):
        for anchor, aside in (("start", 9.0), ("end", -9.0), ("middle", 0.0)):
            at = (label.x + aside, label.y + down)
            left = at[0] - {"start": 0.0, "middle": length / 2, "end": length}[anchor]
            found.append((at, anchor, (left, at[1] - 0.8 * _LINE, left + length, at[1] + 0.2 * _LINE)))
    return found


def _badness(box: _Box, others: Sequence[_Box], x: Axis, top: float) -> float:
    """Return the area that a box covers of others, and its excess beyond the plot."""
    covered = sum(
        max(0.0, min(box[2], right) - max(box[0], left)) * max(0.0, min(box[3], bottom) - max(box[1], upper))
        for left, upper, right, bottom in others
    )
    outside = max(0.0, x.start - box[0]) + max(0.0, box[2] - x.stop) + max(0.0, top - box[1])
    return covered + 20 * outside
