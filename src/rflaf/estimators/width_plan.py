"""Estimate how wide a model must be, from a sample of the rows, before it is trained.

The approximate kernel is learned as in lines 1 and 2 of Algorithm 1. Its spectrum gives the effective dimension and the
case of the paper's tables, and with them the widths that theory asks for; a greedy path and a path of plain draws give
the widths that are enough in practice. Theory holds for the worst function of the kernel's unit ball, practice for this
target. The table shows both.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from rflaf.errors import Array, AssumptionWarning, StopReason
from rflaf.functions.bases import fit_function
from rflaf.functions.densities import Directions
from rflaf.functions.losses import Loss, Squared
from rflaf.model.features import FeatureMap
from rflaf.model.greedy import Selection, WidthPath
from rflaf.model.normal_equations import NormalEquations
from rflaf.rows.blocks import MOST_ROWS, BlockSource, array_source
from rflaf.rows.executors import Executor, ThreadExecutor, resolve_n_jobs
from rflaf.theory import (
    AlgorithmWidths,
    Case,
    Claim,
    algorithm_widths,
    check_delta,
    lambda_for,
    leverage_advice,
    width_for,
)
from rflaf.theory.spectrum import Decay, KernelSpectrum, spectrum_of_rows
from rflaf.training.memory import TableSize, fit_stages
from rflaf.training.pools import compile_pool, draw_pool, enough_components, learn_activation, select_pool
from rflaf.training.problem import Fit, Problem, state_problem
from rflaf.training.solvers.leverage import scores_from_equations
from rflaf.training.solvers.shared_activation import STARTS, LearnedActivation
from rflaf.training.specification import FitSpec

from .parameters import check_value, resolve_random_state
from .plan_targets import refuse_uncovered, resolve_targets
from .retired import accept_tolerance, warn_retired

_SAMPLE_ROWS, _POOL_SIZE = 4000, 1000
_DENSE_GRID = 2001
_LAMBDAS = np.geomspace(1e-6, 1.0, 61)


@dataclass(frozen=True)
class Practice:
    """The widths that are enough for a target.

    Attributes
    ----------
    path : errors of plain draws on held-out rows, by width
    selection : errors of the greedy path
    squared_norm : that of the function learned at lambda; at most one in the paper
    fit_seconds : estimated time of a fit of the plain width that is enough, under a shared activation
    """

    path: WidthPath
    selection: Selection
    squared_norm: float
    fit_seconds: float


@dataclass(frozen=True, repr=False)
class WidthPlan:
    """The widths that theory and practice ask for, before anything is trained; `rflaf.plan` makes it.

    Attributes
    ----------
    n_samples, n_features : int, size of the table
    case : {"squared", "lipschitz"}, the theorems that apply
    lam, delta : float, lambda of the leverage scores, and the probability that the promise fails
    spectrum : KernelSpectrum, eigenvalues of K / n, for an activation of mean square one
    effective_dimension : float, d at lambda
    spread : float, largest leverage score over the mean, the most that weighting by leverage can gain
    bound : float, |sigma|, largest absolute value of the activation
    lipschitz : float, L of the loss, for targets of variance one; 1 under the squared loss
    practice : Practice or None, widths that are enough for this target; None without a target
    width_tolerance : float, how far above the lowest error a width that is enough may lie
    fit_bytes : int, memory of a fit of the plain width that is enough, under a shared activation
    """

    n_samples: int
    n_features: int
    case: Case
    lam: float
    delta: float
    spectrum: KernelSpectrum
    effective_dimension: float
    spread: float
    bound: float
    lipschitz: float
    practice: Practice | None
    width_tolerance: float
    fit_bytes: int

    @property
    def tolerance(self) -> float:
        """The former name of ``width_tolerance``."""
        warn_retired("tolerance")
        return self.width_tolerance

    @property
    def epsilon(self) -> float:
        """The sampling error that lambda stands for: 4 lambda, or 4 L sqrt(lambda)."""
        return 4 * (self.lam if self.case == "squared" else self.lipschitz * self.lam**0.5)

    def widths(self, claim: Claim) -> tuple[int, int]:
        """Return the plain and the leverage width of a claim, see `rflaf.theory.widths`."""
        sizes = self.effective_dimension, self.delta
        plain = width_for(claim, self.bound**2 / self.lam, *sizes)
        return plain, width_for(claim, self.effective_dimension, *sizes)

    @property
    def plain_width(self) -> int:
        """The number of plain features of Corollaries 3.4 and 3.8, as printed."""
        return self.widths("printed")[0]

    @property
    def leverage_width(self) -> int:
        """The number of leverage weighted features of Corollaries 3.3 and 3.7, as printed."""
        return self.widths("printed")[1]

    @property
    def algorithm_widths(self) -> AlgorithmWidths:
        """The pair (s, S) of Theorems 4.1 and 4.2 for lambda* = lambda, by the claim that holds."""
        at = self.lam, self.effective_dimension
        return algorithm_widths(self.bound, *at, *at, self.delta)

    @property
    def advice(self) -> str:
        """Whether the scores spread enough for leverage sampling."""
        return leverage_advice(self.spread)

    @property
    def decay(self) -> Decay:
        """The law of decay of the spectrum."""
        return self.spectrum.decay

    @property
    def enough_plain(self) -> int | None:
        """The plain width within ``width_tolerance`` of the lowest error on held-out rows."""
        return None if self.practice is None else self.practice.path.best_width(self.width_tolerance)

    @property
    def enough_greedy(self) -> int | None:
        """The same for components chosen greedily, by generalised cross-validation."""
        return None if self.practice is None else self.practice.selection.best_width(self.width_tolerance)

    def dimensions(self) -> tuple[Array, Array]:
        """Return lambda, (61,) from 1e-6 to 1, and the effective dimension at each."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssumptionWarning)  # a curve goes where the assumption ends
            return _LAMBDAS, self.spectrum.effective_dimension(_LAMBDAS)

    def table(self) -> list[tuple[str, str, str]]:
        """Rows of (quantity, value, what it means)."""
        sampled = f"from {self.spectrum.n_rows:,} rows and {self.spectrum.n_components:,} directions"
        decay_words = f"{self.decay.law}; R2 {self.decay.fit:.3f}, confidence {self.decay.confidence:.2f}"
        rows = [
            ("rows x columns", f"{self.n_samples:,} x {self.n_features:,}", ""),
            ("lambda", f"{self.lam:.4g}", f"sampling error {self.epsilon:.3g} of the variance, delta {self.delta:g}"),
            ("effective dimension", f"{self.effective_dimension:.1f}", sampled),
            ("decay of the spectrum", self.decay.case, decay_words),
            *self._theory(),
            ("spread of the scores", f"{self.spread:.1f}", self.advice),
        ]
        if self.practice is not None:
            within = f"within {self.width_tolerance:.0%} of the lowest error"
            path, selection = self.practice.path, self.practice.selection
            plain = _of_at_most(path.best_width(self.width_tolerance), int(path.widths[-1]))
            greedy = _of_at_most(selection.best_width(self.width_tolerance), selection.order.size)
            rows += [
                ("enough, plain sampling", plain, f"{within} on rows held out"),
                ("enough, chosen greedily", greedy, f"{within}, cross-validated"),
                ("squared norm", f"{self.practice.squared_norm:.3g}", "of the function learned; theory assumes 1"),
                ("time of a fit", f"{self.practice.fit_seconds:.2g} s", "of that plain width, estimated"),
            ]
        return [*rows, ("memory of a fit", _bytes(self.fit_bytes), "one thread, blocks and sums")]

    def _theory(self) -> list[tuple[str, str, str]]:
        """Rows of the table: what theory asks for, by theorem and by constant."""
        pair, number = self.algorithm_widths, "4.1" if self.case == "squared" else "4.2"
        printed = "(5 |sigma|^2 / lambda) log(16 d / delta)", "5 d log(16 d / delta)"
        rows = [
            (f"theory, {name} sampling", f"{width:,}", f"{formula}, as printed")
            for name, width, formula in zip(("plain", "leverage"), self.widths("printed"), printed, strict=True)
        ]
        for claim, meaning in (
            ("one-sided", "constant 8, holds: risk at most 2 lambda (Lemma E.3)"),
            ("two-sided", "constant 32/3, holds: Gram matrix within 1/2 (Lemma E.4)"),
        ):
            plain, leverage = self.widths(claim)  # type: ignore[arg-type]
            rows.append((f"theory, {claim}", f"{plain:,} / {leverage:,}", f"plain / leverage, {meaning}"))
        both = f"{pair.pool_size:,} / {pair.n_components:,}"
        return [*rows, ("theory, Algorithm 1", both, f"pool s / draws S of Theorem {number}, constant 8")]

    def __repr__(self) -> str:
        """A line; the whole plan is printed by ``print`` and held by the attributes."""
        enough = "" if self.practice is None else f", enough_plain={self.enough_plain}"
        return (
            f"WidthPlan({self.n_samples} rows, {self.n_features} columns, {self.case}, lam={self.lam:.3g}, "
            f"effective_dimension={self.effective_dimension:.1f}, spread={self.spread:.1f}{enough})"
        )

    def __str__(self) -> str:
        rows = self.table()
        first, second = (max(len(row[i]) for row in rows) for i in (0, 1))
        return "\n".join(f"{name:<{first}}  {value:>{second}}  {meaning}".rstrip() for name, value, meaning in rows)


@accept_tolerance
def plan(
    X: Any,
    y: ArrayLike | None = None,
    *,
    epsilon: float | None = None,
    delta: float = 0.1,
    loss: str | Loss = "auto",
    width_tolerance: float = 0.01,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> WidthPlan:
    """Estimate the effective dimension, the decay of the spectrum, and the widths that theory and practice ask for.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Rows of numbers.
    y : array of shape (n_samples,) or (n_samples, n_outputs), or None
        Numbers or labels. Without a target the kernel is that of tanh, and practice is left out.
    epsilon : float or None, default=None
        Sampling error to allow, as a share of the variance of y, or of the loss: lambda is epsilon / 4 for the squared
        loss and (epsilon / 4 L)^2 for others, L their Lipschitz constant. None is lambda = 1 / sqrt(n), the paper's.
    delta : float, default=0.1
        Probability that the promise fails.
    loss : {"auto", "squared", "log_loss"} or Loss, default="auto"
        "auto" is "log_loss" for labels that are texts or of two values only, else "squared". A loss that is neither
        squared nor Lipschitz, such as `Poisson`, is refused: no theorem covers it.
    width_tolerance : float, default=0.01
        How far above the lowest error a width that is enough in practice may lie.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the sample, the directions and the splits.
    n_jobs : int or None, default=None
        Number of threads.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 3))
    >>> answer = plan(X, np.sin(X[:, 0]), random_state=0)
    >>> answer.leverage_width < answer.plain_width
    True
    """
    check_delta(delta)
    check_value("width_tolerance", width_tolerance)
    X = check_array(X, dtype=(np.float64, np.float32), ensure_min_samples=20)
    targets, loss = resolve_targets(X, y, loss)
    case: Case = "squared" if loss.closed_form else "lipschitz"
    refuse_uncovered(loss)
    rng = resolve_random_state(random_state)
    source = array_source(X, targets)
    with ThreadExecutor(resolve_n_jobs(n_jobs)) as executor:
        kernel = approximate_kernel(source, None if y is None else loss, rng, executor)
        lipschitz = 1.0 if case == "squared" else (loss if y is None else kernel.problem.loss).lipschitz
        lam = X.shape[0] ** -0.5 if epsilon is None else lambda_for(case, epsilon, lipschitz)
        spectrum = spectrum_of_rows(kernel.rows())
        dimension = spectrum.effective_dimension(lam)
        scores = scores_from_equations(kernel.equations, lam * kernel.mean_square)
        practice = None if y is None else kernel.practice(lam, width_tolerance, rng)
    width = _POOL_SIZE if practice is None else practice.path.best_width(width_tolerance)
    stages = fit_stages(replace(kernel.spec, n_components=width), TableSize.of(source))
    size = max(stage.bytes(MOST_ROWS, 1) for stage in stages)
    found = spectrum, dimension, scores.spread, kernel.bound, lipschitz, practice, width_tolerance, size
    return WidthPlan(X.shape[0], X.shape[1], case, lam, delta, *found)


@dataclass(frozen=True)
class ApproximateKernel:
    """A pool of plain draws and the activation learned for it: lines 1 and 2 of Algorithm 1, on a sample."""

    problem: Problem
    spec: FitSpec
    pool: Directions
    activation: LearnedActivation
    sample: BlockSource
    learning: float
    executor: Executor

    @cached_property
    def features(self) -> FeatureMap:
        return compile_pool(self.pool, self.activation.a[None], self.spec, self.sample)

    @cached_property
    def equations(self) -> NormalEquations:
        return self.features.sum_equations(self.sample, self.executor)

    @property
    def mean_square(self) -> float:
        return self.equations.mean_square or 1.0

    @property
    def bound(self) -> float:
        """Largest absolute value of the activation, where its mean square is one."""
        grid = np.linspace(*self.spec.basis.interval, _DENSE_GRID)
        return float(np.abs(self.spec.basis.values(grid) @ self.activation.a).max()) / self.mean_square**0.5

    def rows(self) -> Array:
        """Features of the sample, (n_rows, pool_size), of mean square one."""
        blocks = (self.sample[i] for i in range(len(self.sample)))
        size, dtype = self.pool.n_components, self.sample.dtype
        Z = np.hstack([self.features.features(block.X, np.empty((size, block.n_rows), dtype)) for block in blocks]).T
        return Z / self.mean_square**0.5

    def practice(self, lam: float, width_tolerance: float, rng: np.random.Generator) -> Practice:
        pool, activation, size = self.pool, self.activation, self.mean_square
        fit = Fit(self.problem, self.spec, rng, self.executor)
        path = enough_components(fit, pool, activation)
        half = pool.n_components // 2
        greedy = fit.respecified(sampling="greedy", pool_size=pool.n_components, n_components=half)
        selection = select_pool(greedy, pool, activation.a[None])
        v = self.equations.system(True).solve(lam * pool.n_components * size).v
        seconds = self.learning + self._seconds(path.best_width(width_tolerance))
        return Practice(path, selection, float(np.sum(v**2)) * pool.n_components * size, seconds)

    def _seconds(self, width: int) -> float:
        """Time to sum the equations of all rows and to solve them, from that of the sample."""
        features = compile_pool(self.pool.take(np.arange(width)), self.activation.a[None], self.spec, self.sample)
        started = perf_counter()
        equations = features.sum_equations(self.sample, self.executor)
        summed = perf_counter()
        equations.system(True).spectrum.best_ridge()
        times = self.problem.source.n_samples / self.sample.n_samples
        return (summed - started) * times + perf_counter() - summed


def approximate_kernel(
    source: BlockSource,
    loss: Loss | None,
    rng: np.random.Generator,
    executor: Executor,
    n_rows: int = _SAMPLE_ROWS,
    pool_size: int = _POOL_SIZE,
) -> ApproximateKernel:
    """Lines 1 and 2 of Algorithm 1 under a loss, and ``n_rows`` rows to look at the kernel on.

    Without a loss there is no target, and the activation is tanh.
    """
    spec = FitSpec(pool_size, sampling="plain", loss=loss or Squared())
    problem = state_problem(source, spec.loss, True, rng, executor)
    fit = Fit(problem, spec, rng, executor)
    _, pool = draw_pool(fit)
    started = perf_counter()
    activation = _fixed(spec) if loss is None else learn_activation(fit, pool)
    learning = perf_counter() - started
    return ApproximateKernel(problem, spec, pool, activation, problem.proxy.sample(n_rows, rng), learning, executor)


def _fixed(spec: FitSpec) -> LearnedActivation:
    """tanh, where there is no target to learn from."""
    a = fit_function(spec.basis, STARTS["tanh"])
    return LearnedActivation(a, np.zeros((a.size, a.size)), np.zeros(1), StopReason.NOTHING_TO_LEARN, "tanh")


def _of_at_most(width: int, widest: int) -> str:
    """A width, which may not be enough where it is the widest that was tried."""
    return f"{width:,} or more" if width == widest else f"{width:,}"


def _bytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB" if size < 2**30 else f"{size / 2**30:.1f} GiB"
