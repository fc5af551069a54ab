"""Where leverage weighting helps: made-up settings, from even leverage scores to scores that spread by 26.

Every setting has rows x, a density p(w) and a target that a part of the density sees:

| name | rows | p(w) | target, before it is divided by its deviation |
| --- | --- | --- | --- |
| sparse-scales | 300 columns N(0, 1/j^2) | one column each, N(0, 4) | sin 3 x_1 + cos 4 x_2 + sin 6 x_3 |
| too-short | 3 columns N(0, 1) | 5 % N(0, I), 95 % a thousandth of it | sin(2 x_1 + 1/2) + cos(3 x_2 / 2 - x_3) |
| rare-indicators | 200 indicators, 12 of 30 %, others of 1 % | two columns each, N(0, 1) | a sum over the 12 |
| too-long | 3 columns N(0, 1) | 10 % N(0, I), 90 % a hundred times it | as too-short |
| cauchy | 5 columns N(0, 1) | isotropic Cauchy | sin 2 x_1 + cos(2 x_2 - 2 x_3) |
| gaussian | 5 columns N(0, 1) | N(0, I): the control | as cauchy |
| too-short-fast | as too-short | as too-short | as too-short, of x times 3/2 |
| too-long-fast | as too-long | as too-long | as too-long, of x times 2 |

There are 2,000 rows to fit, with noise of a twentieth of the deviation, and 4,000 without noise to test. All goes
through the public estimators, with ``scale=False``, ``bandwidth=1``, 17 RBF functions and scores at
lambda = 1 / sqrt(n). A pool is fitted once per seed by `LeverageSampling`; the schemes then differ in nothing but the
columns of the pool that they keep: each is passed as a density with its importance, and the activation is searched for
exactly, from the same shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from time import process_time
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rflaf.errors import Array
from rflaf.estimators import RFLAFRegressor
from rflaf.estimators.choices import LeverageSampling, SharedActivation
from rflaf.functions.bases import RBFBasis
from rflaf.functions.densities import Cauchy, Density, Directions, Gaussian
from rflaf.training.solvers.leverage import Leverage, Pool, resample

from .trials import Record, Score, Seconds, Trial, record

N_TRAIN, N_TEST = 2000, 4000
_NOISE = 0.05
_N_CENTRES = 17
_INDICATORS = np.array([1, -1, 0.8, -0.6, 0.5, 0.9, -0.7, 0.4, -0.9, 0.6, 0.3, -0.5])


@dataclass(frozen=True, slots=True)
class TwoLengths:
    """N(0, I), and with probability ``share`` that multiplied by ``factor``."""

    share: float
    factor: float
    name: ClassVar[str] = "two_lengths"

    def sample(self, n_features: int, n_components: int, rng: np.random.Generator) -> Array:
        drawn = rng.random((n_components, 1)) < self.share
        return (rng.standard_normal((n_components, n_features)) * np.where(drawn, self.factor, 1.0)).T

    def log_density(self, W: ArrayLike) -> Array:
        W = np.asarray(W, np.float64)
        log_jacobian = W.shape[0] * np.log(self.factor)
        normal = Gaussian()
        other = np.log(self.share) + normal.log_density(W / self.factor) - log_jacobian
        return np.logaddexp(np.log1p(-self.share) + normal.log_density(W), other)


@dataclass(frozen=True, slots=True)
class FewColumns:
    """``n_columns`` entries of N(0, scale^2) in columns drawn at random, zero elsewhere.

    ``log_density`` is with respect to lengths along the columns drawn.
    """

    n_columns: int
    scale: float = 1.0
    name: ClassVar[str] = "few_columns"

    def sample(self, n_features: int, n_components: int, rng: np.random.Generator) -> Array:
        order = rng.random((n_components, n_features)).argsort(axis=1)[:, : self.n_columns]
        W = np.zeros((n_components, n_features))
        np.put_along_axis(W, order, self.scale * rng.standard_normal(order.shape), axis=1)
        return W.T

    def log_density(self, W: ArrayLike) -> Array:
        W = np.asarray(W, np.float64)
        ways = np.sum(np.log(np.arange(W.shape[0], W.shape[0] - self.n_columns, -1)))
        ways -= np.sum(np.log(np.arange(1, self.n_columns + 1)))
        normal = -0.5 * np.sum(W**2, axis=0) / self.scale**2
        inside = np.count_nonzero(W, axis=0) <= self.n_columns
        constant = self.n_columns * (0.5 * np.log(2 * np.pi) + np.log(self.scale)) + ways
        return np.where(inside, normal - constant, -np.inf)


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Directions already drawn, as a density: ``sample`` returns them, whatever the generator."""

    directions: Directions
    name: ClassVar[str] = "drawn"

    def sample(self, n_features: int, n_components: int, rng: np.random.Generator) -> Array:
        return self.directions.W

    def log_density(self, W: ArrayLike) -> Array:
        return np.zeros(np.shape(W)[1])

    def importance(self, W: ArrayLike) -> Array:
        return self.directions.importance


@dataclass(frozen=True, slots=True)
class Regime:
    """A setting: number of columns, density of the directions, rows and target."""

    n_features: int
    density: Density
    rows: Callable[[int, int, np.random.Generator], Array]
    target: Callable[[Array], Array]
    words: str = field(default="")

    def draw(self, seed: int) -> tuple[Array, Array, Array, Array]:
        """Draw X and y to fit, with noise, and X and y to test, without; y has unit deviation over all rows."""
        rng = np.random.default_rng(seed)
        X = self.rows(N_TRAIN + N_TEST, self.n_features, rng)
        y = self.target(X)
        y = (y - y.mean()) / y.std()
        noisy = y[:N_TRAIN] + _NOISE * rng.standard_normal(N_TRAIN)
        return X[:N_TRAIN], noisy, X[N_TRAIN:], y[N_TRAIN:]


def _normal_rows(n_rows: int, n_features: int, rng: np.random.Generator) -> Array:
    return rng.standard_normal((n_rows, n_features))


def _shrinking_rows(n_rows: int, n_features: int, rng: np.random.Generator) -> Array:
    return rng.standard_normal((n_rows, n_features)) / np.arange(1, n_features + 1)


def _indicator_rows(n_rows: int, n_features: int, rng: np.random.Generator) -> Array:
    share = np.where(np.arange(n_features) < _INDICATORS.size, 0.3, 0.01)
    return (rng.random((n_rows, n_features)) < share).astype(np.float64)


def _of_three_columns(X: Array) -> Array:
    return np.sin(2 * X[:, 0] + 0.5) + np.cos(1.5 * X[:, 1] - X[:, 2])


def _faster(target: Callable[[Array], Array], speed: float) -> Callable[[Array], Array]:
    """Return the target of rows ``speed`` times as long: the harder to see by short directions."""
    return lambda X: target(speed * X)


def _of_first_columns(X: Array) -> Array:
    return np.sin(3 * X[:, 0]) + np.cos(4 * X[:, 1]) + np.sin(6 * X[:, 2])


def _of_indicators(X: Array) -> Array:
    return X[:, : _INDICATORS.size] @ _INDICATORS


def _of_five_columns(X: Array) -> Array:
    return np.sin(2 * X[:, 0]) + np.cos(2 * X[:, 1] - 2 * X[:, 2])


REGIMES: dict[str, Regime] = {
    "sparse-scales": Regime(
        300, FewColumns(1, 2.0), _shrinking_rows, _of_first_columns, "sparse directions, column scales 1/j, d=300"
    ),
    "too-short": Regime(3, TwoLengths(0.95, 1e-3), _normal_rows, _of_three_columns, "p(w) 95 % too short, d=3"),
    "rare-indicators": Regime(200, FewColumns(2), _indicator_rows, _of_indicators, "rare indicators, sparse w, d=200"),
    "too-long": Regime(3, TwoLengths(0.9, 100.0), _normal_rows, _of_three_columns, "p(w) 90 % too long, d=3"),
    "cauchy": Regime(5, Cauchy(), _normal_rows, _of_five_columns, "Cauchy p(w), d=5"),
    "gaussian": Regime(5, Gaussian(), _normal_rows, _of_five_columns, "Gaussian control, d=5"),
}
REGIMES |= {  # the gain depends on the target too
    f"{name}-fast": replace(
        REGIMES[name],
        target=_faster(_of_three_columns, speed),
        words=f"{REGIMES[name].words}, a target {speed:g} x as fast",
    )
    for name, speed in (("too-short", 1.5), ("too-long", 2.0))
}
NAMES = tuple(REGIMES)


def run(trials: tuple[Trial, ...]) -> Iterator[Record]:
    """Run trials of one regime, seed and pool: fit and score the pool once, then every scheme and width."""
    first = trials[0]
    regime = REGIMES[first.data]
    X, y, X_test, y_test = regime.draw(first.seed)
    started = process_time()
    pool = fit_pool(regime, first.pool, first.seed, X, y)
    pool_seconds = process_time() - started
    for trial in trials:
        kept = keep(pool, trial)
        model = _estimator(trial.width, Drawn(kept), "exact", trial.seed)
        started = process_time()
        model.fit(X, y)
        fit_seconds = process_time() - started
        started = process_time()
        error = float(np.mean((model.predict(X_test) - y_test) ** 2))
        seconds = Seconds(fit_seconds, pool_seconds, process_time() - started)
        score = Score(error, None, error, None)
        yield record(trial, score, np.unique(kept.W, axis=1).shape[1], seconds, pool.spread)


def fit_pool(regime: Regime, pool_size: int, seed: int, X: Array, y: Array) -> Pool:
    """Fit and score a pool of the regime through the public estimator: ``pool_`` of a leverage fit of width one."""
    model = _estimator(1, regime.density, "sample", seed, LeverageSampling(pool_size))
    pool = model.fit(X, y).pool_
    assert pool is not None
    return pool


def keep(pool: Pool, trial: Trial) -> Directions:
    """Return the directions that a scheme keeps of a pool, and their importance; repeated ones stay repeated."""
    s = pool.scores.size
    whole = Directions(pool.W, np.zeros(s), np.ones(s), s)
    if trial.scheme == "plain":
        return whole.take(np.arange(trial.width))
    rng = np.random.default_rng([trial.seed, trial.width, 1])
    if trial.scheme == "without_replacement":
        return resample(whole, Leverage(pool.scores, pool.lam), trial.width, rng, with_replacement=False)[0]
    q = pool.probabilities if trial.scheme == "leverage" else np.full(s, 1 / s)
    kept = rng.choice(s, size=trial.width, p=q)
    return whole.take(kept, importance=np.sqrt(1 / (s * q[kept])))


def _estimator(
    width: int, density: Density, search: str, seed: int, sampling: str | LeverageSampling = "plain"
) -> RFLAFRegressor:
    return RFLAFRegressor(
        width, directions="random", sampling=sampling, activation=SharedActivation(search),
        basis=RBFBasis(_N_CENTRES), density=density, scale=False, bandwidth=1.0, random_state=seed, n_jobs=1,
    )  # fmt: skip
