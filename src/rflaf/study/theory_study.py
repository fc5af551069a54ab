"""Measurements of the theory: ``rflaf reproduce theory``.

They answer three questions. Do the lemmas hold as often as stated, and how loose is their constant? Does the width grow
as in Tables 1 and 2? How much can leverage gain, given the spread of its scores? Whether it does gain once the solver
has converged is for the experiments `placebo` and `regimes`. The results go to one JSON file, one Markdown page of
tables and one figure in three formats.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from rflaf.errors import DataNotFoundError
from rflaf.inspection.plots import BLUE, ORANGE, require_matplotlib
from rflaf.rows.executors import SingleThreadedBLAS

from . import measurements
from .datasets import Dataset, load
from .figures import save_figure
from .kernels import SCHEMES, DrawnKernel, Scheme, exponential, finite_rank, polynomial, worst_for_plain
from .measurements import Gain, LemmaCount, Order, measure_gain, measure_order, tilted_kernels
from .result_tables import markdown_table
from .runner import Progress

COLOURS: dict[Scheme, str] = {"plain": BLUE, "leverage": ORANGE}
REAL = ("protein", "adult", "kin8nm", "powerplant")
_DELTA = 0.1
_RANKS = (10**3, 10**5, 10**7, 10**9)


@dataclass(frozen=True)
class Effort:
    """Sizes of the samples: a few minutes, or the study of the docs page."""

    n_draws: int
    n_replicates: int
    n_lambdas: int
    kernel_rows: int
    kernel_pool: int
    kernel_draws: int
    tables: tuple[str, ...]


QUICK = Effort(100, 3, 4, 100, 1000, 100, ("protein",))
FULL = Effort(400, 8, 6, 200, 2000, 200, REAL)


@dataclass(frozen=True)
class Evidence:
    """All measurements."""

    counts: tuple[LemmaCount, ...]
    orders: tuple[Order, ...]
    gains: tuple[Gain, ...]


def study(effort: str, out: Path, progress: Progress) -> list[Path]:
    """Gather all evidence at the effort "quick" or "full" and write it into the folder ``out``.

    Files that a run of the same effort wrote there are left as they are: ``theory.txt`` names it and is written last.
    """
    chosen = {"quick": QUICK, "full": FULL}[effort]
    total, step = _n_steps(chosen), count(1)
    done = out / "theory.txt"
    if done.exists() and done.read_text().split()[:1] == [effort]:
        progress(total, total, f"the evidence of {effort} is in {out.name} already")
        return [out / name for name in done.read_text().split()[1:]]
    written = write(gather(chosen, lambda line: progress(next(step), total, line)), out)
    done.write_text("\n".join([effort, *(path.name for path in written)]) + "\n")
    return written


def gather(effort: Effort, progress: Callable[[str], None] = lambda _: None, random_state: int = 0) -> Evidence:
    """Measure everything; missing data sets are left out and reported through ``progress``."""
    with SingleThreadedBLAS():  # thousands of small matrices
        return _gather(effort, progress, np.random.default_rng(random_state))


def _gather(effort: Effort, progress: Callable[[str], None], rng: np.random.Generator) -> Evidence:
    tables = list(_tables(effort.tables, progress))
    sizes = effort.kernel_rows, effort.kernel_pool
    kernels = [(table, measurements.learned_kernel(table.X_train, table.y_train, *sizes, rng)) for table in tables]
    counts: list[LemmaCount] = []
    for name, kernel, lam, n_draws in _counted(kernels, effort):
        progress(f"lemmas: {name}")
        counts += measurements.count_events(name, kernel, lam, _DELTA, n_draws, rng)
    orders = []
    for spectrum in measurements.spectra():
        progress(f"orders: {spectrum.name}")
        sizes = effort.n_draws, effort.n_replicates
        orders += [measure_order(spectrum, scheme, effort.n_lambdas, _DELTA, *sizes, rng) for scheme in SCHEMES]
    gains = [measure_gain(name, kernel, 1e-3, _DELTA, effort.n_draws, rng) for name, kernel in tilted_kernels()]
    for table, kernel in kernels:
        progress(f"gains: {table.name}")
        lam = len(table.X_train) ** -0.5
        gains += [measure_gain(table.name, kernel, x, _DELTA, effort.kernel_draws // 2, rng) for x in (lam, lam / 10)]
    return Evidence(tuple(counts), tuple(orders), tuple(gains))


def write(evidence: Evidence, out: Path) -> list[Path]:
    """Write evidence.json, evidence.md and the figure orders.png, .svg and .pdf into the folder ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    data, page = out / "evidence.json", out / "evidence.md"
    data.write_text(json.dumps(asdict(evidence), default=_plain_value, indent=1) + "\n")
    page.write_text(render(evidence))
    return [data, page, *draw_orders(evidence.orders, evidence.gains, out / "orders")]


def render(evidence: Evidence) -> str:
    """Return the tables as Markdown."""
    sections = [
        "## Lemmas E.3 and E.4",
        markdown_table(
            ["kernel", "sampling", "lambda", "d", "features", "Lemma E.4 held", "Lemma E.3 held", "promised",
             "constant"],
            [
                [c.kernel, c.scheme, f"{c.lam:.2g}", f"{c.effective_dimension:.1f}", f"{c.s:,}",
                 f"{c.deviation_held:.3f}", f"{c.risk_held:.3f}", f"{c.promised:g}", f"{c.risk_constant:.2f}"]
                for c in evidence.counts
            ],
        ),
        "## Probability that Lemma E.3 fails on equal eigenvalues, over delta",
        markdown_table(
            ["rank", "delta", "constant 5", "constant 32/3"],
            [
                [f"{rank:.0e}", f"{delta:g}", *(_failure_over_delta(rank, delta, c) for c in (5.0, 32 / 3))]
                for rank in _RANKS
                for delta in (0.1, 0.001)
            ],
        ),
        "## Tables 1 and 2",
        markdown_table(
            ["spectrum", "sampling", "slope", "95 % interval", "power in Table 1", "slope of the mass",
             "slope at small lambda", "of the theorem's width"],
            [
                [o.spectrum, o.scheme, f"{o.slope:.3f}", f"{o.low:.3f} to {o.high:.3f}", f"{o.predicted:.3f}",
                 f"{o.of_mass:.3f}", f"{o.deep:.3f}", f"{o.of_theorem:.0%}"]
                for o in evidence.orders
            ],
        ),
        "## Gain of leverage",
        markdown_table(
            ["kernel", "lambda", "d", "spread of the scores", "plain", "leverage", "ratio"],
            [
                [g.kernel, f"{g.lam:.2g}", f"{g.effective_dimension:.1f}", f"{g.spread:.1f}", f"{g.plain:,}",
                 f"{g.leverage:,}", f"{g.ratio:.2f}"]
                for g in evidence.gains
            ],
        ),
    ]  # fmt: skip
    return "\n\n".join(sections) + "\n"


def draw_orders(orders: Sequence[Order], gains: Sequence[Gain], stem: Path) -> list[Path]:
    """Draw widths over epsilon for every spectrum, with measured and predicted slopes, and the gain over the spread."""
    plt = require_matplotlib()
    names = list(dict.fromkeys(order.spectrum for order in orders))
    n_columns = 4
    n_rows = -(-(len(names) + 1) // n_columns)
    figure, axes = plt.subplots(n_rows, n_columns, figsize=(3.1 * n_columns, 2.9 * n_rows), layout="constrained")
    for ax, name in zip(axes.flat, names, strict=False):
        for order in (order for order in orders if order.spectrum == name):
            _draw_order(ax, order)
        ax.set(title=f"eigenvalues {name}", xscale="log", yscale="log", xlabel="1 / epsilon")
        ax.set_ylim(top=ax.get_ylim()[1] * 6)  # room for the legend
        ax.legend(fontsize=7, frameon=False, loc="upper left")
    axes.flat[0].set_ylabel("features needed")
    _draw_gains(axes.flat[len(names)], gains)
    for ax in axes.flat[len(names) + 1 :]:
        ax.set_visible(False)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    return save_figure(figure, stem)


def _draw_order(ax: Any, order: Order) -> None:
    x, colour = 1 / (4 * order.lams), COLOURS[order.scheme]
    low, middle, high = (np.quantile(order.widths, share, axis=0) for share in (0.0, 0.5, 1.0))
    label = f"{order.scheme}: slope {order.slope:.2f}, predicted {order.predicted:.2f}"
    ax.fill_between(x, low, high, color=colour, alpha=0.25, lw=0)
    ax.plot(x, middle, "o-", color=colour, ms=3, lw=1.5, label=label)
    ax.plot(x, middle[0] * order.expected / order.expected[0], "--", color=colour, lw=1)


def _draw_gains(ax: Any, gains: Sequence[Gain]) -> None:
    named: set[str] = set()
    for gain in gains:
        synthetic = gain.kernel.startswith("i^")
        ax.plot(gain.spread, gain.ratio, "o" if synthetic else "^", color=BLUE if synthetic else ORANGE, ms=5)
        if not synthetic and gain.kernel not in named:
            named.add(gain.kernel)
            ax.annotate(gain.kernel, (gain.spread, gain.ratio), fontsize=6, xytext=(3, 3), textcoords="offset points")
    ax.axhline(1, color="0.6", lw=0.8)
    ax.set(
        xscale="log", yscale="log", title="gain of leverage",
        xlabel="spread of the scores (max / mean)", ylabel="plain / leverage width",
    )  # fmt: skip


def _tables(names: Iterable[str], progress: Callable[[str], None]) -> Iterator[Dataset]:
    for name in names:
        try:
            yield load(name, "standard")
        except DataNotFoundError as error:
            progress(f"{name} is left out: {error}")


def _counted(
    kernels: Iterable[tuple[Dataset, DrawnKernel]], effort: Effort
) -> Iterator[tuple[str, DrawnKernel, float, int]]:
    yield "rank 20", worst_for_plain(finite_rank(20)), 1e-2, effort.n_draws
    yield "0.7^i", worst_for_plain(exponential(0.7, 100)), 1e-3, effort.n_draws
    yield "i^-1.5", worst_for_plain(polynomial(1.5, 5000)), 1e-2, effort.n_draws
    yield "i^-2", worst_for_plain(polynomial(2.0, 5000)), 1e-3, effort.n_draws
    for table, kernel in kernels:
        yield table.name, kernel, len(table.X_train) ** -0.5, effort.kernel_draws


def _n_steps(effort: Effort) -> int:
    """Return the number of progress lines of `gather`: kernels of the lemmas, spectra and gains per table."""
    return 4 + 6 + len(effort.tables) * (1 + 1)


def _failure_over_delta(rank: int, delta: float, constant: float) -> str:
    return f"{measurements.failure_of_equal_eigenvalues(rank, delta, constant) / delta:.2g}"


def _plain_value(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
