"""Style of all matplotlib plots: figure sizes and plain axes."""

from __future__ import annotations

from typing import Any

from rflaf.errors import Array, MissingExtraError
from rflaf.estimators.svg import GREY

HALF_PAGE = (5.0, 3.2)
SMALL_PRINT = 8
_ROOM = 45  # characters of the names of levels beside each other


def require_matplotlib() -> Any:
    """Return ``matplotlib.pyplot``, or raise an error that names the extra to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError("plots", "matplotlib", "plots") from error
    return plt


def axes(ax: Any, size: tuple[float, float] = HALF_PAGE) -> Any:
    """Return the axes given, or the axes of a new figure."""
    plt = require_matplotlib()
    return plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def pair_of_axes(ax: Any, ratios: tuple[float, float], size: tuple[float, float] = (6.4, 3.2)) -> Any:
    """Return two axes side by side: the two given, or those of a new figure."""
    plt = require_matplotlib()
    if ax is not None:
        first, second = ax
        return first, second
    return plt.subplots(1, 2, figsize=size, width_ratios=ratios, layout="constrained")[1]


def tidy(ax: Any, **labels: Any) -> None:
    """Set labels and remove the box around the plot."""
    ax.set(**labels)
    ax.spines[["top", "right"]].set_visible(False)


def legend(ax: Any, **where: Any) -> None:
    """Add a legend in small print, without a frame."""
    ax.legend(frameon=False, fontsize=SMALL_PRINT, **where)


def name_ticks(axis: Any, at: Array, names: tuple[str, ...]) -> None:
    """Write the names of levels where their numbers ``at`` stand; numbers stay as they are."""
    if names:
        axis.set_ticks(at, [names[int(code)] for code in at])
        if axis.axis_name == "x":
            axis.set_tick_params(rotation=30 if max(map(len, names)) * len(at) > _ROOM else 0)


def plain_log(axis: Any) -> None:
    """Set ticks at 1, 2 and 5 times the powers of ten, in plain numbers."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))


def grid_of_axes(n_panels: int, n_columns: int, panel: tuple[float, float], **shared: Any) -> tuple[Any, Any]:
    """Return a figure with ``n_panels`` small axes (n_rows, n_columns); surplus axes are hidden."""
    n_columns = min(n_columns, n_panels)
    n_rows = -(-n_panels // n_columns)
    figure, panels = require_matplotlib().subplots(
        n_rows, n_columns, squeeze=False, layout="constrained",
        figsize=(panel[0] * n_columns, panel[1] * n_rows), **shared,
    )  # fmt: skip
    for ax in panels.flat[n_panels:]:
        ax.set_visible(False)
    return figure, panels


def under(ax: Any, edges: Any, density: Any, low: float, high: float, label: str | None = None) -> None:
    """Draw a grey histogram below a curve that runs between ``low`` and ``high``."""
    reach = (high - low) or 1.0
    base, tallest = low - 0.3 * reach, max(float(density.max()), 1e-300)
    ax.stairs(
        base + 0.25 * reach * density / tallest, edges, baseline=base, fill=True, color=GREY, alpha=0.35, label=label
    )
