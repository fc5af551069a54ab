"""The demonstration ``rflaf demo``: accuracy, speed and what is learned, on a problem whose answer is known.

Friedman's first problem, of scikit-learn: 10 sin(pi x1 x2) + 20 (x3 - 1/2)^2 + 10 x4 + 5 x5 plus noise, among ten
columns of which five have no effect. The learned function of x3 is drawn beside the true one; and a target along the
directions of a model shows that the paper's model recovers an activation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rflaf.errors import Array
from rflaf.estimators import RFLAFRegressor
from rflaf.functions.bases import BSplineBasis
from rflaf.inspection.effects import partial_effect, response
from rflaf.inspection.plots import BLUE, GREEN, GREY, ORANGE, ActivationDisplay, require_matplotlib
from rflaf.inspection.report import write_report
from rflaf.inspection.report.quality import cost_in_batch
from rflaf.study.datasets import wave

WIDTHS = (10, 30, 100)
ROWS, NOISE = 4000, 1.0
_KNOWN_WIDTH = 30
_COLUMN = 2  # x3, whose effect is a parabola
_PAPER: dict[str, Any] = {"directions": "random", "activation": "shared"}


@dataclass(frozen=True, slots=True)
class Problem:
    """Rows to train on and rows to test on."""

    X_train: Array
    X_test: Array
    y_train: Array
    y_test: Array


@dataclass(frozen=True, slots=True)
class Outcome:
    """A model: family, width if it has one, test error / variance, seconds to fit, microseconds per row in a batch."""

    family: str
    width: int | None
    error: float
    seconds: float
    microseconds: float
    model: Any

    @property
    def name(self) -> str:
        return self.family if self.width is None else f"{self.family}, {self.width}"


def friedman(n_rows: int | None = None) -> Problem:
    """Return Friedman's first problem, a quarter of its rows for the test."""
    X, y = make_friedman1(n_rows or ROWS, noise=NOISE, random_state=0)
    return Problem(*train_test_split(X, y, test_size=0.25, random_state=0))


def least_error(problem: Problem) -> float:
    """Return the error of the noise alone, which no model can undercut but by luck."""
    return NOISE**2 / float(np.var(problem.y_test))


def compile_loops() -> float:
    """Fit once on a few rows, so that no time of the table is that of the compiler; return the seconds taken."""
    start = perf_counter()
    X, y = make_friedman1(200, random_state=1)
    RFLAFRegressor(10, random_state=0).fit(X, y).predict(X)
    RFLAFRegressor(10, random_state=0, **_PAPER).fit(X, y).predict(X)
    return perf_counter() - start


def contestants() -> list[tuple[str, int | None, Any]]:
    """Return family, width and model of everything that is compared."""
    linear = make_pipeline(StandardScaler(), Ridge())
    trees = HistGradientBoostingRegressor(random_state=0)
    others: list[tuple[str, int | None, Any]] = [
        ("linear regression", None, linear),
        ("boosted trees, 100", None, trees),
    ]
    for width in WIDTHS:
        sampler = RBFSampler(gamma="scale", n_components=width, random_state=0)
        others.append(("random Fourier features", width, make_pipeline(StandardScaler(), sampler, Ridge())))
    return [*others, *(("rflaf", width, RFLAFRegressor(width, random_state=0)) for width in WIDTHS)]


def run(problem: Problem, advance: Callable[[], None] = lambda: None) -> Iterator[Outcome]:
    """Fit every model and measure it."""
    for family, width, model in contestants():
        start = perf_counter()
        model.fit(problem.X_train, problem.y_train)
        seconds = perf_counter() - start
        error = np.mean((model.predict(problem.X_test) - problem.y_test) ** 2) / np.var(problem.y_test)
        advance()
        yield Outcome(family, width, float(error), seconds, cost_in_batch(model.predict, problem.X_test), model)


def draw(outcomes: list[Outcome], problem: Problem, path: Path) -> None:
    """Plot error against width, error against time, the learned effect of a column, and a recovered activation."""
    plt = require_matplotlib()
    figure, axes = plt.subplots(2, 2, figsize=(9.6, 7.2), layout="constrained")
    widths, times, effect, activation = axes.flat
    _draw_widths(widths, outcomes, least_error(problem))
    _draw_times(times, outcomes)
    _draw_effect(effect, [one for one in outcomes if one.family == "rflaf"][-1].model, problem)
    _draw_activation(activation)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.title.set_fontweight("bold")
    low, high = activation.get_ylim()
    activation.set_ylim(low, high + 0.35 * (high - low))  # room for the legend
    for ax, place in ((effect, "upper center"), (activation, "upper left")):
        ax.legend(frameon=False, fontsize=9, loc=place)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def report(outcome: Outcome, problem: Problem, path: Path) -> None:
    """Write a report on a model, on the rows of the test."""
    train = problem.X_train, problem.y_train
    names = [f"x{number}" for number in range(1, problem.X_train.shape[1] + 1)]
    title = "Friedman's first problem"
    write_report(outcome.model, problem.X_test, problem.y_test, path, train=train, feature_names=names, title=title)


_STYLES = {
    "rflaf": (BLUE, "o"), "random Fourier features": (ORANGE, "s"), "boosted trees, 100": (GREEN, "^"),
    "linear regression": (GREY, "D"),
}  # fmt: skip


def _draw_widths(ax: Any, outcomes: list[Outcome], least: float) -> None:
    for family, (colour, marker) in _STYLES.items():
        mine = [one for one in outcomes if one.family == family]
        if mine[0].width is None:
            ax.axhline(mine[0].error, color=colour, ls="--", lw=1.5)
        else:
            ax.plot([one.width for one in mine], [one.error for one in mine], marker=marker, color=colour, lw=2)
        beside = {"color": colour, "fontsize": 9, "xytext": (0, 4), "textcoords": "offset points"}
        at, height = (18, mine[0].error) if mine[0].width is None else (mine[0].width, mine[0].error)
        ax.annotate(family, (at, height), **beside)
    ax.axhline(least, color="black", ls=":", lw=1)
    ax.annotate("noise alone", (18, least), xytext=(0, -11), textcoords="offset points", fontsize=9)
    ax.set(xscale="log", yscale="log", xlabel="components", ylabel="test error / variance")
    ax.set_title("Few components suffice")
    ax.set_xticks(WIDTHS, [str(width) for width in WIDTHS], minor=False)
    ax.minorticks_off()
    _plain_ticks(ax)


def _plain_ticks(ax: Any) -> None:
    """Label errors as plain decimals."""
    low, high = ax.get_ylim()
    ax.set_ylim(0.85 * low, 1.1 * high)  # room for the words
    ticks = [0.05, 0.1, 0.2, 0.5, 1.0]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
    ax.set_yticks([], minor=True)


def _draw_times(ax: Any, outcomes: list[Outcome]) -> None:
    for family, (colour, marker) in _STYLES.items():
        mine = [one for one in outcomes if one.family == family]
        at = [one.microseconds for one in mine]
        ax.plot(at, [one.error for one in mine], marker, color=colour)
        widths = [str(one.width) for one in sorted(mine, key=lambda one: one.microseconds) if one.width is not None]
        words = f"{family}: {', '.join(widths)}" if widths else family
        last = max(mine, key=lambda one: one.microseconds)
        left = last.microseconds > 1
        ax.annotate(
            words, (last.microseconds, last.error), xytext=(5 if left else -5, 7), textcoords="offset points",
            ha="right" if left else "left", fontsize=9, color=colour,
        )  # fmt: skip
    ax.set(xscale="log", yscale="log", xlabel="microseconds per row, one thread", title="Accurate at little cost")
    ax.margins(x=0.1, y=0.1)
    ax.xaxis.set_major_formatter("{x:g}")
    _plain_ticks(ax)


def _draw_effect(ax: Any, model: Any, problem: Problem) -> None:
    effect = partial_effect(response(model), problem.X_train[:400], _COLUMN)
    true = 20 * (effect.grid - 0.5) ** 2
    ax.plot(effect.grid, effect.mean - effect.mean.mean(), color=BLUE, lw=2.5, label="learned")
    ax.plot(effect.grid, true - true.mean(), "--", color=ORANGE, lw=2, label="true, 20 (x3 - 1/2)²")
    ax.set(xlabel="x3", ylabel="effect on the prediction", title="One sees what was learned")


def _draw_activation(ax: Any) -> None:
    """Draw the shared activation of the paper's model for a target along its directions, beside the true one."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((ROWS, 4))
    probe = RFLAFRegressor(_KNOWN_WIDTH, bandwidth=1.0, random_state=0, **_PAPER).fit(X, X[:, 0])
    directions = probe.model_.directions
    y = wave(X @ directions.W + directions.offset) @ rng.standard_normal(_KNOWN_WIDTH)
    model = RFLAFRegressor(_KNOWN_WIDTH, basis=BSplineBasis(32), bandwidth=1.0, random_state=0, **_PAPER).fit(X, y)
    display = ActivationDisplay.from_estimator(model, X, ax=ax)
    scale, shift = np.polyfit(wave(display.z), display.value, 1)  # known up to scale and shift
    ax.plot(display.z, scale * wave(display.z) + shift, "--", color=ORANGE, lw=2, label="true activation")
    ax.set_title("The paper's model finds the activation")
