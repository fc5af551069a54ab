"""The protocols by which trials are fitted.

| protocol | scheme | models |
| --- | --- | --- |
| paper | plain and pooled | the paper's optimisers, start values and penalties |
| converged | plain and pooled | the same directions and rows, solved to convergence; all from the same starts |
| regimes | plain and pooled | made-up rows where leverage scores spread (`rflaf.study.regimes`) |
| compact | greedy, per_component, convex, refined | the estimators of this package with their defaults |
| reference | RBFSampler, Nystroem, LightGBM | models of other libraries, ``width`` components or trees |

Directions of a seed are nested: plain sampling of width S keeps the first S of the pool. Pooled schemes draw S of it:
*leverage* in proportion to the scores, as published; *placebo* with equal probabilities, all else as leverage;
*without_replacement* by the scores, each direction at most once.

Under "converged" the activation of every scheme is searched for from the same shapes on the same rows, and the descent
ends at the minimum over all rows and components where that is affordable: under the squared loss, and up to S = 50
under others. The activation of the pool serves the scores only, and is that of a sample of rows and components.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
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
from rflaf.training.final_fit import fit_shared
from rflaf.training.pools import learn_activation
from rflaf.training.problem import Fit, state_problem
from rflaf.training.solvers.leverage import (
    Leverage,
    draw_systematically,
    inclusion_probabilities,
    leverage_scores,
    resample,
)
from rflaf.training.specification import FitSpec

from . import optimisers, regimes
from .datasets import Dataset, load
from .optimisers import CrossEntropy, MeanSquare, Schedule, Table, Weights
from .splines import PublishedSpline, QuadraticSpline
from .trials import POOLED, Record, Score, Seconds, Trial, accuracy, judge, record, score_of, targets

INTERVAL = (-2.0, 2.0)
_SAMPLING_SEED = 0  # of the draws by leverage scores: one for all model seeds, as published
_EPOCHS = {"adult": 10, "cifar10": 10}
_BLOCK_ROWS = 2048
_MOST_EXACT = 50  # components of an exact descent under a loss without a closed form
_WARM_UP = 64  # rows predicted before the clock starts: kernels may have to be compiled


def run(trials: tuple[Trial, ...]) -> Iterator[Record]:
    """Run trials of one group, one record each, sorted."""
    first, trials = trials[0], tuple(sorted(trials))
    if first.protocol == "regimes":
        yield from regimes.run(trials)
        return
    runners = {"paper": _run_paper, "converged": _run_converged}
    yield from runners.get(first.protocol, _run_estimators)(trials, load_for_paper(first.data))


def n_test_rows(data: str) -> int:
    """Return the number of test rows of a data set or regime."""
    return regimes.N_TEST if data in regimes.NAMES else len(load_for_paper(data).y_test)


def make_basis(name: str, n_centres: int) -> Basis:
    """Return the basis of a trial over [-2, 2]: Gaussians as wide as their spacing, or quadratic splines."""
    kinds: dict[str, Any] = {"rbf": RBFBasis, "bspline": QuadraticSpline, "bspline-published": PublishedSpline}
    return kinds[name](n_centres, interval=INTERVAL)


def directions(n_features: int, n_components: int, seed: int) -> Array:
    """Draw W ~ N(0, I), (n_features, n_components), nested in ``n_components``."""
    return np.random.default_rng(seed).standard_normal((n_components, n_features)).T


@lru_cache(maxsize=1)
def load_for_paper(name: str) -> Dataset:
    """Load a data set as the paper prepares it."""
    return load(name, "paper")


def optimiser(trial: Trial, task: str) -> str:
    """Return the optimiser of the authors for a trial: SGD, or Adam where SGD fails.

    With leverage weights of about sqrt(pool) SGD diverges under the squared loss, so regression uses Adam.
    """
    spline = trial.basis != "rbf"
    if trial.scheme in POOLED:
        return "adam" if task == "regression" or spline or trial.width >= 1000 else "sgd"
    return "adam" if spline and task == "regression" and (trial.width > 1000 or trial.n_centres == 65) else "sgd"


@dataclass(frozen=True, slots=True, eq=False)
class _Bench:
    """Data set and basis in the form the paper's optimisers take."""

    data: Dataset
    table: Table
    loss: optimisers.Loss
    y: Array
    y_test: Array
    epochs: int

    @classmethod
    def of(cls, data: Dataset, basis: Basis) -> _Bench:
        loss: optimisers.Loss = MeanSquare() if data.task == "regression" else CrossEntropy()
        y, y_test = (targets(data, labels) for labels in (data.y_train, data.y_test))
        return cls(data, Table.of(basis), loss, y, y_test, _EPOCHS.get(data.name, 20))

    def train(
        self, W: Array, importance: Array, weights: Weights, schedule: Schedule, rng: np.random.Generator
    ) -> tuple[list[tuple[float, float]], bool]:
        """Return loss and accuracy on the test rows after every epoch, and whether all values stayed finite."""
        u, u_test = (self.table.cells(X, W) for X in (self.data.X_train, self.data.X_test))
        trace: list[tuple[float, float]] = []
        with np.errstate(over="ignore", invalid="ignore"):
            for finite in optimisers.train(u, self.y, self.table, weights, importance, self.loss, schedule, rng):
                if finite:
                    f = optimisers.outputs(u_test, self.table, weights, importance)
                    trace.append((self.loss.value(f, self.y_test), accuracy(f, self.y_test)))
        return trace, finite and bool(np.isfinite(trace[-1][0]))


def _run_paper(trials: tuple[Trial, ...], data: Dataset) -> Iterator[Record]:
    first = trials[0]
    basis = make_basis(first.basis, first.n_centres)
    bench = _Bench.of(data, basis)
    n_rows, n_features = data.X_train.shape
    W = directions(n_features, first.pool or max(trial.width for trial in trials), first.seed)
    started = process_time()
    pool_a, leverage = _paper_pool(first, bench, basis, W) if first.pool else (None, None)
    pool_seconds = process_time() - started
    for trial in trials:
        rng = np.random.default_rng([trial.seed, trial.width])
        kept, importance = np.arange(trial.width), np.ones(trial.width)
        schedule = Schedule(optimiser(trial, data.task), bench.epochs, balance=1.0)
        weights = optimisers.start(basis.n_basis, trial.width, bench.y.shape[1], rng)
        started = process_time()
        if leverage is not None and pool_a is not None:
            kept, importance = draw_as_published(trial, leverage.probabilities)
            weights.a = pool_a.copy()
            schedule = replace(schedule, balance=0.0, ridge=n_rows**-0.5)
        trace, finite = bench.train(W[:, kept], importance, weights, schedule, rng)
        fit_seconds = process_time() - started
        started = process_time()
        optimisers.outputs(bench.table.cells(data.X_test, W[:, kept]), bench.table, weights, importance)
        seconds = Seconds(fit_seconds, pool_seconds, process_time() - started)
        score = score_of(trace, data.task) if finite else Score(None, None, None, None)
        yield record(trial, score, np.unique(kept).size, seconds, leverage.spread if leverage else 0.0)


def draw_as_published(trial: Trial, q: Array) -> tuple[Array, Array]:
    """Return the directions drawn with probabilities ``q``, and Q = sqrt(1/q), about sqrt(pool); equal q for a placebo.

    Without replacement S / pi_i stands for 1 / q_i, where pi_i is the probability that i is drawn at all.
    """
    rng = np.random.default_rng(_SAMPLING_SEED)
    if trial.scheme == "without_replacement":
        inclusion = inclusion_probabilities(q, trial.width)
        kept = draw_systematically(inclusion, rng)
        return kept, np.sqrt(trial.width / inclusion[kept])
    if trial.scheme == "placebo":
        q = np.full(q.size, 1 / q.size)
    kept = rng.choice(q.size, size=trial.width, p=q)
    return kept, np.sqrt(1 / q[kept])


def _paper_pool(trial: Trial, bench: _Bench, basis: Basis, W: Array) -> tuple[Array, Leverage]:
    """Fit the pool as plain sampling does and score it: Algorithm 1, lines 1 to 4."""
    rng = np.random.default_rng([trial.seed, trial.pool])
    as_plain = replace(trial, scheme="plain", width=trial.pool)
    weights = optimisers.start(basis.n_basis, trial.pool, bench.y.shape[1], rng)
    schedule = Schedule(optimiser(as_plain, bench.data.task), bench.epochs, balance=1.0)
    bench.train(W, np.ones(trial.pool), weights, schedule, rng)
    with ThreadExecutor(1) as executor:
        source = _source(bench.data.X_train, bench.y)
        leverage = _score_pool(source, _plain(W), basis, weights.a, executor)
    return weights.a, leverage


def _run_converged(trials: tuple[Trial, ...], data: Dataset) -> Iterator[Record]:
    """Run Algorithm 1 by the solvers of this package, without intercept, as in the paper."""
    first = trials[0]
    spec = FitSpec(basis=make_basis(first.basis, first.n_centres), intercept=False)
    rng = np.random.default_rng([first.seed, 1])
    y, loss = _own_targets(data)
    with ThreadExecutor(1) as executor:
        problem = state_problem(_source(data.X_train, y), loss, spec.intercept, rng, executor)
        W = directions(data.X_train.shape[1], first.pool or max(trial.width for trial in trials), first.seed)
        pool, leverage = _plain(W), None
        started = process_time()
        if first.pool:
            activation = learn_activation(Fit(problem, spec, rng, executor), pool)
            leverage = _score_pool(problem.source, pool, spec.basis, activation.a, executor)
        pool_seconds = process_time() - started
        for trial in trials:
            kept = pool.take(np.arange(trial.width)) if leverage is None else draw_from(pool, leverage, trial)
            started = process_time()
            exact = loss.closed_form or trial.width <= _MOST_EXACT
            rng = np.random.default_rng([trial.seed, trial.width])  # the same rows are searched in every scheme
            fit = Fit(problem, replace(spec, exact=exact), rng, executor)
            model = fit_shared(fit, kept, learn_activation(fit, kept)).model(kept, problem.units)
            fit_seconds = process_time() - started
            model.decision(data.X_test[:_WARM_UP], 1)
            started = process_time()
            f = model.decision(data.X_test, 1)
            seconds = Seconds(fit_seconds, pool_seconds, process_time() - started)
            yield record(trial, judge(f, data), model.n_components, seconds, leverage.spread if leverage else 0.0)


def draw_from(pool: Directions, leverage: Leverage, trial: Trial) -> Directions:
    """Draw the components of a pooled trial, with importance sqrt(p/q): by the scores, or all alike for a placebo."""
    rng = np.random.default_rng([trial.seed, trial.width, 1])
    if trial.scheme == "placebo":
        leverage = replace(leverage, scores=np.ones(pool.n_components))
    return resample(pool, leverage, trial.width, rng, trial.scheme != "without_replacement")[0]


def _score_pool(source: BlockSource, pool: Directions, basis: Basis, a: Array, executor: Executor) -> Leverage:
    return leverage_scores(source, compile_map(pool, basis.pieces(a[None]), a[None], source.dtype), None, executor)


def _plain(W: Array) -> Directions:
    return Directions(W, np.zeros(W.shape[1]), np.ones(W.shape[1]), W.shape[1])


def _source(X: Array, y: Array) -> BlockSource:
    return array_source(X, y.astype(X.dtype), None).with_rows(_BLOCK_ROWS)


def _own_targets(data: Dataset) -> tuple[Array, Loss]:
    """Return targets and loss for the solvers of this package, where two classes are one column."""
    y = targets(data, data.y_train)
    if data.task == "regression":
        return y, Squared()
    return (y[:, 1:], Logistic()) if y.shape[1] == 2 else (y, Softmax())


def _run_estimators(trials: tuple[Trial, ...], data: Dataset) -> Iterator[Record]:
    """Fit and score one estimator per trial."""
    X, X_test = data.X_train, data.X_test
    if trials[0].protocol == "reference":  # ridge warns of its condition in single precision
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
        seconds = Seconds(fit_seconds, 0.0, process_time() - started)
        f = answer[:, None] if answer.ndim == 1 else np.log(np.maximum(answer, np.finfo(np.float64).tiny))
        yield record(trial, judge(f, data), getattr(model, "n_components_", trial.width), seconds)


def make_estimator(trial: Trial, task: str) -> Any:
    """Return the unfitted model of a compact or reference trial."""
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

    if trial.scheme == "LightGBM":
        try:
            import lightgbm
        except ImportError as error:
            raise MissingExtraError("reference models", "lightgbm", "study") from error
        kind = lightgbm.LGBMRegressor if task == "regression" else lightgbm.LGBMClassifier
        return kind(n_estimators=trial.width, n_jobs=1, random_state=trial.seed, verbose=-1)
    sizes = {"n_components": trial.width, "random_state": trial.seed}  # gamma of Nystroem: one over the columns
    features = RBFSampler(gamma="scale", **sizes) if trial.scheme == "RBFSampler" else Nystroem(**sizes)
    linear = Ridge(1e-3) if task == "regression" else LogisticRegression(max_iter=1000)
    return make_pipeline(StandardScaler(), features, linear)
