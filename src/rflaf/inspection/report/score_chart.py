"""One line per model: its score as a dot, the interval of the score as a bar through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rflaf.estimators.svg import Axis, Markup, element, place

from .frame import RIGHT, TOP, WIDTH, cut, picture, rounded, tick_words
from .wording import figure_of

_STEP, _FOOT = 46.0, 22.0
_FAR = 2.0  # times the least score, from which on an error is drawn at the end of the axis
_LEAST_LINES = 4  # a chart of fewer models is as tall as one of so many


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """A model's name, its score, the interval of the score if known, the score in words, and whether it is ours."""

    name: str
    value: float
    interval: tuple[float, float] | None
    words: str
    ours: bool


def score_chart(lines: Sequence[ScoreLine], *, about: str) -> Markup:
    """Draw scores with their intervals on one axis, the name of each model above its line."""
    low, high = _range(lines)
    room = _room(low, high)
    height = TOP + _STEP * max(len(lines), _LEAST_LINES) + _FOOT
    x = Axis(low - room, high + room, 14.0, WIDTH - RIGHT - 10)
    foot = height - _FOOT + 4
    ticks = [_tick(x, tick, foot) for tick in x.ticks]
    drawn = [_line(line, x, TOP + _STEP * (at + 0.72)) for at, line in enumerate(lines)]
    places = [
        [
            rounded(min(float(x(line.value)), x.stop)),
            line.name,
            [["", _words(line), rounded(TOP + _STEP * (at + 0.72)), "model"]],
        ]
        for at, line in enumerate(lines)
        if np.isfinite(line.value)
    ]
    hover = {"by": "xy", "top": TOP, "bottom": foot, "places": places}
    return picture(WIDTH, height, about, hover, element("g", *ticks, class_="ticks"), *drawn)


def far(lines: Sequence[ScoreLine]) -> bool:
    """Return whether a score is drawn as an arrow, beyond the end of the axis."""
    low, high = _range(lines)
    return any(np.isfinite(line.value) and line.value > high + _room(low, high) for line in lines)


def _room(low: float, high: float) -> float:
    return 0.06 * (high - low) or 1.0


def _range(lines: Sequence[ScoreLine]) -> tuple[float, float]:
    """Return the range of the axis: all scores, but of errors none far beyond the least, which are drawn at the end."""
    ends = [end for line in lines for end in (line.value, *(line.interval or ())) if np.isfinite(end)]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    ours = max((end for line in lines if line.ours for end in (line.value, *(line.interval or ()))), default=high)
    return low, max(min(high, _FAR * low), ours) if low > 0 else high


def _words(line: ScoreLine) -> str:
    if line.interval is None:
        return line.words
    return f"{line.words}, 95% interval {figure_of(line.interval[0])} to {figure_of(line.interval[1])}"


def _tick(x: Axis, tick: float, foot: float) -> Markup:
    at = place(float(x(tick)))
    line = element("line", x1=at, x2=at, y1=place(TOP), y2=place(foot - 6))
    return element("g", line, element("text", tick_words(tick), x=at, y=place(foot + 10), text_anchor="middle"))


def _line(line: ScoreLine, x: Axis, y: float) -> Markup:
    weight = "strong" if line.ours else "weak"
    name = element("text", cut(line.name, 40), x="14", y=place(y - 13), class_=f"words {weight}")
    value = element(
        "text", line.words, x=place(WIDTH - RIGHT), y=place(y - 13), text_anchor="end", class_=f"words {weight}"
    )
    if not np.isfinite(line.value):
        return element("g", name, value)
    bar = None
    if line.interval is not None:
        low, high = (place(float(np.clip(x(end), x.start, x.stop))) for end in line.interval)
        bar = element("line", x1=low, x2=high, y1=place(y), y2=place(y), class_=f"interval {weight}")
    if line.value > x.high:
        arrow = f"M{place(x.stop - 8)} {place(y - 6)}l10 6l-10 6z"
        return element("g", name, value, element("path", d=arrow, class_=f"mark {weight}"))
    dot = element("circle", cx=place(float(x(line.value))), cy=place(y), r="5", class_=f"mark {weight}")
    return element("g", name, value, bar, dot)
