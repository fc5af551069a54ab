"""Figures of the study as PNG, SVG and PDF.

Loss or accuracy against width, mean and 80 % interval over seeds; and the paired change of the loss against the spread
of the leverage scores, with 95 % intervals.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rflaf.inspection.plots import BLUE, GREEN, GREY, ORANGE, VERMILION, require_matplotlib

from .experiments import Experiment
from .paired import Difference
from .regimes import NAMES
from .result_tables import Cell

FORMATS = ("png", "svg", "pdf")
_COLOURS = {
    "plain": BLUE,
    "leverage": ORANGE,
    "placebo": GREEN,
    "without_replacement": VERMILION,
    "greedy": "#CC79A7",
    "per_component": "#56B4E9",
    "convex": GREEN,
    "refined": VERMILION,
    "RBFSampler": GREY,
    "Nystroem": GREY,
    "LightGBM": "black",
}
_STYLES = {"paper": ("--", "o"), "converged": ("-", "s"), "compact": ("-", "D"), "reference": (":", "")}
_REFERENCE_STYLES = {"RBFSampler": ":", "Nystroem": "-.", "LightGBM": "--"}
_BASIS_NAMES = {"rbf": "RBF", "bspline": "B-spline", "bspline-published": "B-spline as published"}


def draw(experiment: Experiment, cells: list[Cell], folder: Path) -> list[Path]:
    """Draw one panel per data set (columns) and per basis and grid (rows); return the files written."""
    plt = require_matplotlib()
    data = list(dict.fromkeys(cell.data for cell in cells))
    grids = list(dict.fromkeys((cell.basis, cell.n_centres) for cell in cells if cell.basis))
    size = (4.4 * len(data), 3.3 * len(grids) + 0.8)
    figure, axes = plt.subplots(len(grids), len(data), figsize=size, squeeze=False, layout="constrained")
    for row, grid in enumerate(grids):
        for column, name in enumerate(data):
            ax = axes[row, column]
            shown = [cell for cell in cells if cell.data == name and (cell.basis, cell.n_centres) in (grid, ("", 0))]
            _panel(ax, shown)
            n_grid = grid[1] - 1
            ax.set(title=f"{name}, {_BASIS_NAMES[grid[0]]}, N = {n_grid}", xscale="log")
            widths = sorted({cell.width for cell in shown if cell.protocol != "reference"})
            _label(ax, widths)
            ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[-1]:
        ax.set_xlabel("width S")
    for ax in axes[:, 0]:
        ax.set_ylabel(f"test {experiment.metric}")
    entries = {label: handle for ax in axes.flat for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.suptitle(experiment.title)
    return save_figure(figure, folder / experiment.name)


def draw_gains(experiment: Experiment, pairs: list[Difference], folder: Path) -> list[Path]:
    """Draw the change of the loss by leverage sampling over the spread of the scores, one panel per width."""
    plt = require_matplotlib()
    shown = [one for one in pairs if (one.scheme, one.against) == ("leverage", "plain") and one.change is not None]
    widths = sorted({one.width for one in shown})
    figure, axes = plt.subplots(
        1, len(widths), figsize=(3.1 * len(widths), 3.4), sharey=True, squeeze=False, layout="constrained"
    )
    for ax, width in zip(axes.flat, widths, strict=True):
        for one in (one for one in shown if one.width == width):
            _bar(ax, one)
        ax.axhline(0, color="0.6", lw=0.8)
        ax.set(title=f"S = {width}", xscale="log", xlabel="spread of the scores (largest / mean)")
        _label(ax, [1, 2, 5, 10, 20])
        ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("paired change of the test error, per cent")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize=8)
    figure.suptitle(experiment.title)
    return save_figure(figure, folder / experiment.name)


def _label(ax: Any, ticks: list[int]) -> None:
    """Label a logarithmic axis with plain numbers at ``ticks`` alone."""
    from matplotlib.ticker import NullLocator, ScalarFormatter

    ax.set_xticks(ticks)
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.xaxis.set_minor_locator(NullLocator())


def _bar(ax: Any, one: Difference) -> None:
    change, low, high = (100 * float(value or 0.0) for value in (one.change, one.change_low, one.change_high))
    bars = [[change - low], [high - change]] if low <= change <= high else None  # a single seed has no interval
    setting, fast, _ = one.data.partition("-fast")  # the same colour, the point open
    colour = list(_COLOURS.values())[NAMES.index(setting)]
    face = "white" if fast else colour
    ax.errorbar([one.spread], [change], yerr=bars, fmt="o", ms=5, mfc=face, capsize=3, color=colour, label=one.data)


def save_figure(figure: Any, stem: Path) -> list[Path]:
    """Save a figure in every format beside ``stem``, without the date, close it, and return the paths."""
    paths = [stem.with_name(f"{stem.name}.{extension}") for extension in FORMATS]
    for path in paths:
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    require_matplotlib().close(figure)
    return paths


def _panel(ax: Any, cells: list[Cell]) -> None:
    lines: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        lines.setdefault((cell.protocol, cell.scheme), []).append(cell)
    for (protocol, scheme), line in lines.items():
        colour, (style, marker) = _COLOURS[scheme], _STYLES[protocol]
        if protocol == "reference":
            for cell in line:
                label = f"{scheme}, {cell.width}"
                ax.axhline(cell.mean, ls=_REFERENCE_STYLES[scheme], lw=1, color=colour, label=label)
            continue
        widths = [cell.width for cell in line]
        label = scheme.replace("_", " ") if protocol == "compact" else f"{scheme}, {protocol}"
        ax.plot(widths, [cell.mean for cell in line], style, marker=marker, ms=4, color=colour, label=label)
        ax.fill_between(widths, [c.low for c in line], [c.high for c in line], color=colour, alpha=0.15, lw=0)
        theirs = [(cell.width, cell.authors_mean) for cell in line if cell.authors_mean is not None]
        if theirs and protocol == "paper":
            ax.plot(*zip(*theirs, strict=True), "x", ms=5, color=colour, label=f"{scheme}, authors")
