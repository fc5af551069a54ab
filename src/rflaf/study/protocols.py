"""One trial: a model of one width on one data set, fitted by one protocol, and what it costs and errs.

| protocol | scheme | what is fitted |
| --- | --- | --- |
| paper | plain, leverage | the paper's optimisers, start values and penalties |
| converged | plain, leverage | the same directions and rows, solved to convergence; the arms differ in sampling alone |
| compact | greedy, per_component, convex, refined | the estimators of this package as they come |
| reference | RBFSampler, Nystroem, LightGBM | other people's models, ``width`` components or trees |

Directions of a seed are nested: those of width S are the first S of the pool, in every protocol and scheme. All trials
that share everything but their width are run together, so that a pool is fitted and scored once.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from time import process_time
from typing import Any

import numpy as np

from rflaf.errors import Array, MissingExtraError
from rflaf.estimators import RFLAFClassifier, RFLAFRegressor
from rflaf.functions.bases import Basis, RBFBasis
from rflaf.functions.densities import Directions
from rflaf.functions.losses import Logistic, Loss, Softmax, Squared
from rflaf.model.features import compile_map
from rflaf.rows.blocks import BlockSource, array_source
from rflaf.rows.executors import Executor, ThreadExecutor
from rflaf.training.context import Fit
from rflaf.training.final_fit import fit_shared
from rflaf.training.pools import learn_activation
from rflaf.training.problem import state_problem
from rflaf.training.solvers.leverage import Leverage, leverage_scores, resample
from rflaf.training.specification import FitSpec

from . import optimisers
from .datasets import Dataset, load
from .optimisers import CrossEntropy, MeanSquare, Schedule, Table, Weights
from .splines import PublishedSpline, QuadraticSpline

INTERVAL = (-2.0, 2.0)
BASES = ("rbf", "bspline", "bspline-published")
SCHEMES = {
    "paper": ("plain", "leverage"),
    "converged": ("plain", "leverage"),
    "compact": ("greedy", "per_component", "convex", "refined"),
    "reference": ("RBFSampler", "Nystroem", "LightGBM"),
}
_SAMPLING_SEED = 0  # of the draws by leverage scores: one for all model seeds, as published
_EPOCHS = {"adult": 10, "cifar10": 10}
_BLOCK_ROWS = 2048
_WARM_UP = 64  # rows predicted before the clock starts: kernels may have to be compiled


@dataclass(frozen=True, slots=True, order=True)
class Trial:
    """What to fit. ``basis`` and ``n_centres`` are "" and 0 where the protocol has its own; so is ``pool``."""

    data: str
    protocol: str
    basis: str
    n_centres: int
    scheme: str
    pool: int
    seed: int
    width: int

    @property
    def group(self) -> tuple[Any, ...]:
        """All but the width: trials of one group share a pool."""
        return (self.data, self.protocol, self.basis, self.n_centres, self.scheme, self.pool, self.seed)


@dataclass(frozen=True, slots=True)
class Score:
    """Test loss and accuracy (None for numbers) of the last epoch, and the lowest loss and best accuracy of any."""

    loss: float | None
    accuracy: float | None
    best_loss: float | None
    best_accuracy: float | None


@dataclass(frozen=True, slots=True)
class Record:
    """A trial and its outcome.

    Attributes
    ----------
    diverged : whether the loss ceased to be finite
    components : components left after duplicates were merged
    fit_seconds : of this width; pool_seconds : of the pool behind it, shared by all widths
    predict_seconds : of all test rows; all in seconds of the one processor used, so that a busy machine does not count
    when, environment : of the run
    """

    trial: Trial
    score: Score
    diverged: bool
    components: int
    fit_seconds: float
    pool_seconds: float
    predict_seconds: float
    when: str
    environment: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Nested dictionaries of plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Record:
        """What `to_json` gave; ``KeyError`` or ``TypeError`` for anything else."""
        nested = {"trial": Trial(**values["trial"]), "score": Score(**values["score"])}
        return cls(**{**values, **nested})


def run(trials: tuple[Trial, ...]) -> Iterator[Record]:
    """Run trials of one group, one record each, in order of width."""
    first, trials = trials[0], tuple(sorted(trials))
    runners = {"paper": _paper, "converged": _converged, "compact": _compact, "reference": _compact}
    yield from runners[first.protocol](trials, _load(first.data))


def make_basis(name: str, n_centres: int) -> Basis:
    """The basis of a trial over [-2, 2]: Gaussians as wide as their spacing, or one of the two quadratic splines."""
    kinds: dict[str, Any] = {"rbf": RBFBasis, "bspline": QuadraticSpline, "bspline-published": PublishedSpline}
    return kinds[name](n_centres, interval=INTERVAL)


def directions(n_features: int, n_components: int, seed: int) -> Array:
    """W ~ N(0, I), (n_features, n_components); nested in ``n_components``."""
    return np.random.default_rng(seed).standard_normal((n_components, n_features)).T


def environment() -> dict[str, str]:
    """Versions and machine, for the record."""
    names = ("numpy", "scipy", "scikit-learn", "numba")
    try:
        ours = version("rflaf")
    except ModuleNotFoundError:  # run from a checkout
        ours = "unknown"
    versions = {"rflaf": ours, **{name: version(name) for name in names}}
    machine = {"python": platform.python_version(), "system": platform.platform(), "processors": str(os.cpu_count())}
    return versions | machine


@lru_cache(maxsize=1)
def _load(name: str) -> Dataset:
    return load(name, "paper")


# --- the paper's protocol ------------------------------------------------------------------------------------


def optimiser(trial: Trial, task: str) -> str:
    """The optimiser the authors used for a trial's width: SGD, but Adam where SGD was seen to fail.

    With leverage weights of about sqrt(pool) SGD diverges under the squared loss, so regression has Adam.
    """
    spline = trial.basis != "rbf"
    if trial.scheme == "leverage":
        return "adam" if task == "regression" or spline or trial.width >= 1000 else "sgd"
    return "adam" if spline and task == "regression" and (trial.width > 1000 or trial.n_centres == 65) else "sgd"


@dataclass(frozen=True, slots=True, eq=False)
class _Bench:
    """A data set and a basis, ready for the paper's optimisers."""

    data: Dataset
    table: Table
    loss: optimisers.Loss
    y: Array
    y_test: Array
    epochs: int

    @classmethod
    def of(cls, data: Dataset, basis: Basis) -> _Bench:
        loss: optimisers.Loss = MeanSquare() if data.task == "regression" else CrossEntropy()
        y, y_test = (_targets(data, labels) for labels in (data.y_train, data.y_test))
        return cls(data, Table.of(basis), loss, y, y_test, _EPOCHS.get(data.name, 20))

    def train(
        self, W: Array, importance: Array, weights: Weights, schedule: Schedule, rng: np.random.Generator
    ) -> tuple[list[tuple[float, float]], bool]:
        """Loss and accuracy on the test rows after every epoch, and whether all of it stayed finite."""
        u, u_test = (self.table.cells(X, W) for X in (self.data.X_train, self.data.X_test))
        trace: list[tuple[float, float]] = []

        def judge(now: Weights) -> None:
            f = optimisers.outputs(u_test, self.table, now, importance)
            trace.append((self.loss.value(f, self.y_test), _accuracy(f, self.y_test)))

        with np.errstate(over="ignore", invalid="ignore"):
            finite = optimisers.train(u, self.y, self.table, weights, importance, self.loss, schedule, rng, judge)
        return trace, finite and bool(np.isfinite(trace[-1][0]))


def _paper(trials: tuple[Trial, ...], data: Dataset) -> Iterator[Record]:
    first = trials[0]
    basis = make_basis(first.basis, first.n_centres)
    bench = _Bench.of(data, basis)
    n_rows, n_features = data.X_train.shape
    widest = first.pool if first.scheme == "leverage" else max(trial.width for trial in trials)
    W = directions(n_features, widest, first.seed)
    started = process_time()
    pool_a, leverage = (None, None) if first.scheme == "plain" else _paper_pool(first, bench, basis, W)
    pool_seconds = process_time() - started
    for trial in trials:
        rng = np.random.default_rng([trial.seed, trial.width])
        kept, importance = np.arange(trial.width), np.ones(trial.width)
        schedule = Schedule(optimiser(trial, data.task), bench.epochs, balance=1.0)
        weights = optimisers.start(basis.n_basis, trial.width, bench.y.shape[1], rng)
        started = process_time()
        if leverage is not None and pool_a is not None:
            q = leverage.probabilities
            kept = np.random.default_rng(_SAMPLING_SEED).choice(q.size, size=trial.width, p=q)
            importance = np.sqrt(1 / q[kept])
            weights.a = pool_a.copy()
            schedule = replace(schedule, balance=0.0, ridge=n_rows**-0.5)
        trace, finite = bench.train(W[:, kept], importance, weights, schedule, rng)
        fit_seconds = process_time() - started
        started = process_time()
        optimisers.outputs(bench.table.cells(data.X_test, W[:, kept]), bench.table, weights, importance)
        predict_seconds = process_time() - started
        score = _score_of(trace, data.task) if finite else Score(None, None, None, None)
        yield _record(trial, score, np.unique(kept).size, fit_seconds, pool_seconds, predict_seconds)


def _paper_pool(trial: Trial, bench: _Bench, basis: Basis, W: Array) -> tuple[Array, Leverage]:
    """The pool fitted as by plain sampling, and its leverage scores: lines 1 to 4 of Algorithm 1."""
    rng = np.random.default_rng([trial.seed, trial.pool])
    as_plain = replace(trial, scheme="plain", width=trial.pool)
    weights = optimisers.start(basis.n_basis, trial.pool, bench.y.shape[1], rng)
    schedule = Schedule(optimiser(as_plain, bench.data.task), bench.epochs, balance=1.0)
    bench.train(W, np.ones(trial.pool), weights, schedule, rng)
    with ThreadExecutor(1) as executor:
        source = _source(bench.data.X_train, bench.y)
        leverage = _score_pool(source, _plain(W), basis, weights.a, executor)
    return weights.a, leverage


# --- the same, solved to convergence -------------------------------------------------------------------------


def _converged(trials: tuple[Trial, ...], data: Dataset) -> Iterator[Record]:
    """Algorithm 1 by this package's solvers, without intercept, as the paper's model is."""
    first = trials[0]
    spec = FitSpec(basis=make_basis(first.basis, first.n_centres), intercept=False, sampling=first.scheme)
    rng = np.random.default_rng([first.seed, 1])
    y, loss = _own_targets(data)
    with ThreadExecutor(1) as executor:
        problem = state_problem(_source(data.X_train, y), loss, spec.intercept, rng, executor)
        widest = first.pool if first.scheme == "leverage" else max(trial.width for trial in trials)
        pool = _plain(directions(data.X_train.shape[1], widest, first.seed))
        started = process_time()
        approximate, leverage = None, None
        if first.scheme == "leverage":
            approximate = learn_activation(Fit(problem, spec, rng, executor), pool)
            leverage = _score_pool(problem.source, pool, spec.basis, approximate.a, executor)
        pool_seconds = process_time() - started
        for trial in trials:
            rng = np.random.default_rng([trial.seed, trial.width])
            kept = pool.take(np.arange(trial.width)) if leverage is None else resample(pool, leverage, trial.width, rng)
            started = process_time()
            fit = Fit(problem, spec, rng, executor)
            model = fit_shared(fit, kept, learn_activation(fit, kept, approximate)).model(kept, problem.units)
            fit_seconds = process_time() - started
            model.decision(data.X_test[:_WARM_UP], 1)
            started = process_time()
            f = model.decision(data.X_test, 1)
            predict_seconds = process_time() - started
            yield _record(trial, _judge(f, data), model.n_components, fit_seconds, pool_seconds, predict_seconds)


def _score_pool(source: BlockSource, pool: Directions, basis: Basis, a: Array, executor: Executor) -> Leverage:
    return leverage_scores(source, compile_map(pool, basis.pieces(a[None]), a[None], source.dtype), None, executor)


def _plain(W: Array) -> Directions:
    return Directions(W, np.zeros(W.shape[1]), np.ones(W.shape[1]), W.shape[1])


def _source(X: Array, y: Array) -> BlockSource:
    return array_source(X, y.astype(X.dtype), None).with_rows(_BLOCK_ROWS)


# --- compact models and references ---------------------------------------------------------------------------


def _compact(trials: tuple[Trial, ...], data: Dataset) -> Iterator[Record]:
    X, X_test = data.X_train, data.X_test
    if trials[0].protocol == "reference":  # ridges of single precision warn of their condition
        X, X_test = X.astype(np.float64), X_test.astype(np.float64)
    for trial in trials:
        model = make_estimator(trial, data.task)
        started = process_time()
        model.fit(X, data.y_train)
        fit_seconds = process_time() - started
        predict = model.predict if data.task == "regression" else model.predict_proba
        predict(X_test[:_WARM_UP])
        started = process_time()
        answer = predict(X_test).astype(np.float64)
        predict_seconds = process_time() - started
        f = answer[:, None] if answer.ndim == 1 else np.log(np.maximum(answer, np.finfo(np.float64).tiny))
        components = getattr(model, "n_components_", trial.width)
        yield _record(trial, _judge(f, data), components, fit_seconds, 0.0, predict_seconds)


def make_estimator(trial: Trial, task: str) -> Any:
    """The model of a compact or reference trial, with its own defaults."""
    if trial.protocol == "reference":
        return _reference(trial, task)
    kind = RFLAFRegressor if task == "regression" else RFLAFClassifier
    settings: dict[str, dict[str, Any]] = {
        "greedy": {"directions": "random", "sampling": "greedy", "activation": "shared"},
        "per_component": {"directions": "random"},
        "convex": {"directions": "random", "sampling": "greedy"},
        "refined": {},
    }
    return kind(trial.width, random_state=trial.seed, n_jobs=1, **settings[trial.scheme])


def _reference(trial: Trial, task: str) -> Any:
    from sklearn.kernel_approximation import Nystroem, RBFSampler
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    seed = trial.seed
    if trial.scheme == "LightGBM":
        try:
            import lightgbm
        except ImportError as error:
            raise MissingExtraError("reference models", "lightgbm", "study") from error
        kind = lightgbm.LGBMRegressor if task == "regression" else lightgbm.LGBMClassifier
        return kind(n_estimators=trial.width, n_jobs=1, random_state=seed, verbose=-1)
    gamma = "scale"
    if trial.scheme == "RBFSampler":
        features: Any = RBFSampler(gamma=gamma, n_components=trial.width, random_state=seed)
    else:
        features = Nystroem(n_components=trial.width, random_state=seed)  # gamma: one over the number of columns
    linear = Ridge(1e-3) if task == "regression" else LogisticRegression(max_iter=1000)
    return make_pipeline(StandardScaler(), features, linear)


# --- scores --------------------------------------------------------------------------------------------------


def _targets(data: Dataset, labels: Array) -> Array:
    """Numbers as one column, classes as columns of zeros and ones."""
    return labels[:, None] if data.task == "regression" else (labels[:, None] == np.unique(data.y_train)).astype(float)


def _own_targets(data: Dataset) -> tuple[Array, Loss]:
    """Targets and loss for this package's solvers: two classes are one column there."""
    y = _targets(data, data.y_train)
    if data.task == "regression":
        return y, Squared()
    return (y[:, 1:], Logistic()) if y.shape[1] == 2 else (y, Softmax())


def _judge(f: Array, data: Dataset) -> Score:
    """Score of outputs: numbers, log odds of two classes, or one output a class."""
    y = _targets(data, data.y_test)
    if data.task == "classification" and f.shape[1] == 1:
        f = np.hstack([np.zeros_like(f), f])
    loss: optimisers.Loss = MeanSquare() if data.task == "regression" else CrossEntropy()
    return _score_of([(loss.value(f, y), _accuracy(f, y))], data.task)


def _score_of(trace: list[tuple[float, float]], task: str) -> Score:
    losses, accuracies = zip(*trace, strict=True)
    if task == "regression":
        return Score(losses[-1], None, min(losses), None)
    return Score(losses[-1], accuracies[-1], min(losses), max(accuracies))


def _accuracy(f: Array, y: Array) -> float:
    return float(np.mean(np.argmax(f, axis=1) == np.argmax(y, axis=1)))


def _record(
    trial: Trial, score: Score, components: int, fit_seconds: float, pool_seconds: float, predict_seconds: float
) -> Record:
    return Record(
        trial,
        score,
        diverged=score.loss is None or not np.isfinite(score.loss),
        components=int(components),
        fit_seconds=round(fit_seconds, 4),
        pool_seconds=round(pool_seconds, 4),
        predict_seconds=round(predict_seconds, 6),
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        environment=environment(),
    )
