"""The demonstration ``rflaf demo``: test error against width for several models.

It uses two problems: the diabetes data of scikit-learn, and a target of the paper's class,
f*(x) = E_w[sigma(w . x) v(w)]. A third target uses the directions of the model, so that the learned activation can be
compared with the true one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rflaf.errors import Array
from rflaf.estimators import RFLAFRegressor
from rflaf.estimators.choices import LeverageSampling
from rflaf.functions.bases import BSplineBasis
from rflaf.inspection.plots import BLUE, GREEN, GREY, ORANGE, ActivationDisplay, require_matplotlib
from rflaf.inspection.report import write_report
from rflaf.study.datasets import Teacher, wave

WIDTHS = (10, 30, 100)
_SEEDS = (0, 1, 2)
_KNOWN_WIDTH = 30
_LONGER = {
    "bmi": "body mass index",
    "bp": "blood pressure",
    "s1": "cholesterol",
    "s2": "LDL",
    "s3": "HDL",
    "s4": "cholesterol / HDL",
    "s5": "log triglycerides",
    "s6": "glucose",
}
_PAPER: dict[str, Any] = {"directions": "random", "activation": "shared"}


@dataclass(frozen=True, slots=True)
class Problem:
    """Split data set with a target of unit variance: the mean as prediction has error one."""

    name: str
    X_train: Array
    X_test: Array
    y_train: Array
    y_test: Array


@dataclass(frozen=True, slots=True)
class Outcome:
    """Test error and seconds of a fit, averaged over seeds."""

    problem: str
    scheme: str
    width: int
    error: float
    seconds: float


def diabetes() -> Problem:
    """Return the diabetes data of scikit-learn, 442 patients and ten columns."""
    X, y = load_diabetes(return_X_y=True)
    return _split("diabetes", X, y)


def teacher(n_samples: int = 10_000, n_features: int = 6, n_directions: int = 4_000) -> Problem:
    """Draw rows of the paper's target class, f*(x) = E_w[wave(w . x) v(w)] over many directions, plus 5 % noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, n_features))
    W = rng.standard_normal((n_features, n_directions)) / np.sqrt(n_features)
    v = np.sign(W[0]) * np.abs(W[1])
    y = Teacher(W, v, wave)(X)
    return _split("teacher", X, y + 0.05 * y.std() * rng.standard_normal(n_samples))


def known_activation(n_samples: int = 4_000, n_features: int = 4) -> Problem:
    """Return a target with a known activation along the directions that a model of seed 0 draws."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n_samples, n_features))
    probe = RFLAFRegressor(_KNOWN_WIDTH, bandwidth=1.0, random_state=0, **_PAPER).fit(X, X[:, 0])
    directions = probe.model_.directions
    y = wave(X @ directions.W + directions.offset) @ rng.standard_normal(_KNOWN_WIDTH)
    return _split("a known", X, y)


def schemes(width: int, seed: int) -> dict[str, Any]:
    """Return the models compared at one width."""
    return {
        "RBFSampler + Ridge": make_pipeline(
            StandardScaler(), RBFSampler(gamma="scale", n_components=width, random_state=seed), Ridge()
        ),
        "rflaf, plain": RFLAFRegressor(width, random_state=seed, **_PAPER),
        "rflaf, leverage": RFLAFRegressor(width, sampling=LeverageSampling(1000), random_state=seed, **_PAPER),
        "rflaf, refined": RFLAFRegressor(width, random_state=seed),
    }


def fits_per_problem() -> int:
    """Return the number of fits of `run` per problem."""
    return len(WIDTHS) * len(schemes(1, 0)) * len(_SEEDS)


def run(problems: list[Problem], advance: Callable[[], None] = lambda: None) -> Iterator[Outcome]:
    """Fit every scheme at every width on every problem and average over seeds."""
    for problem in problems:
        for width in WIDTHS:
            for scheme in schemes(width, 0):
                fits = [_fit(problem, schemes(width, seed)[scheme], advance) for seed in _SEEDS]
                error, seconds = np.mean(fits, axis=0)
                yield Outcome(problem.name, scheme, width, float(error), float(seconds))


def draw(outcomes: list[Outcome], path: Path) -> None:
    """Plot error against width for every problem, and a recovered activation beside the true one."""
    plt = require_matplotlib()
    names = list(dict.fromkeys(outcome.problem for outcome in outcomes))
    figure, axes = plt.subplots(1, len(names) + 1, figsize=(4.2 * (len(names) + 1), 3.4), layout="constrained")
    for ax, name in zip(axes, names, strict=False):
        _draw_errors(ax, [outcome for outcome in outcomes if outcome.problem == name])
    _draw_activation(axes[-1])
    figure.savefig(path, dpi=150)
    plt.close(figure)


def report_diabetes(path: Path) -> None:
    """Write a report on a model of the diabetes data, on held-out rows."""
    data = load_diabetes()
    X_train, X_test, y_train, y_test = train_test_split(data.data, data.target, test_size=0.2, random_state=0)
    model = RFLAFRegressor(_KNOWN_WIDTH, random_state=0).fit(X_train, y_train)
    names = [_LONGER.get(name, name) for name in data.feature_names]
    title = "Progression of diabetes in one year"
    write_report(model, X_test, y_test, path, train=(X_train, y_train), feature_names=names, title=title)


def _split(name: str, X: Array, y: Array) -> Problem:
    parts = train_test_split(X, (y - y.mean()) / y.std(), test_size=0.2, random_state=0)
    return Problem(name, *parts)


def _fit(problem: Problem, model: Any, advance: Callable[[], None]) -> tuple[float, float]:
    start = perf_counter()
    model.fit(problem.X_train, problem.y_train)
    seconds = perf_counter() - start
    advance()
    return float(np.mean((model.predict(problem.X_test) - problem.y_test) ** 2)), seconds


def _draw_errors(ax: Any, outcomes: list[Outcome]) -> None:
    names = dict.fromkeys(outcome.scheme for outcome in outcomes)
    for scheme, color, marker in zip(names, (GREY, BLUE, ORANGE, GREEN), "s^oD", strict=False):
        line = [outcome for outcome in outcomes if outcome.scheme == scheme]
        ax.plot([o.width for o in line], [o.error for o in line], marker=marker, color=color, label=scheme)
    ax.set(xscale="log", xlabel="width S", ylabel="test error / variance", title=outcomes[0].problem)
    ax.set_xticks(WIDTHS, [str(width) for width in WIDTHS], minor=False)
    ax.minorticks_off()
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8)


def _draw_activation(ax: Any) -> None:
    problem, activation = known_activation(), wave
    model = RFLAFRegressor(_KNOWN_WIDTH, basis=BSplineBasis(32), bandwidth=1.0, random_state=0, **_PAPER)
    model.fit(problem.X_train, problem.y_train)
    display = ActivationDisplay.from_estimator(model, problem.X_train, ax=ax)
    scale, shift = np.polyfit(activation(display.z), display.value, 1)  # known up to scale and shift
    ax.plot(display.z, scale * activation(display.z) + shift, "--", color=ORANGE, lw=2, label="true activation")
    ax.set_title(f"{problem.name} activation, recovered")
    ax.legend(frameon=False, fontsize=8)
