"""The estimators: scikit-learn's conventions translated into a `rflaf.training.algorithm1.FitSpec` and back.

No numerics here. Arguments are checked by the rules in one table, data by scikit-learn; whatever fails, the
estimator is left as it was.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metadata_routing import UNUSED

from rflaf.errors import Array, InvalidParameterError, OutlierWarning, StopReason
from rflaf.functions.bases import Basis, make_basis
from rflaf.functions.densities import Density, resolve_density
from rflaf.functions.losses import Loss, Squared
from rflaf.model.random_feature_model import RandomFeatureModel
from rflaf.rows.blocks import BlockSource
from rflaf.rows.checkpoint import resumed
from rflaf.rows.executors import resolve_n_jobs
from rflaf.rows.inputs import executor_for
from rflaf.rows.progress import Begin, watched
from rflaf.training.algorithm1 import FitResult, train
from rflaf.training.memory import TableSize, plan_more
from rflaf.training.online import Chunk, Seen, Terms, begin, carry_on
from rflaf.training.solvers.shared_activation import Search
from rflaf.training.specification import FitSpec

from .parameters import check_parameters, resolve_random_state
from .rows_in import Fitting, ReadsRows
from .thumbnail import activation_figure
from .verbosity import shown

_INTERVAL = (-3.0, 3.0)  # of projections scaled to unit spread


class RandomFeatureEstimator(ReadsRows, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What the estimators share: arguments, fitting, and the features as a transformer."""

    __metadata_request__transform = {"out": UNUSED}  # noqa: RUF012  scikit-learn wants a dictionary
    __metadata_request__predict = {"out": UNUSED}  # noqa: RUF012
    __metadata_request__predict_proba = {"out": UNUSED}  # noqa: RUF012
    __metadata_request__predict_log_proba = {"out": UNUSED}  # noqa: RUF012
    __metadata_request__decision_function = {"out": UNUSED}  # noqa: RUF012

    _terms: Terms
    _seen: Seen | None

    def __init__(
        self,
        n_components: int | str = 100,
        *,
        directions: str = "refined",
        sampling: str = "plain",
        activation: str | int = "per_component",
        curves: bool | str = "auto",
        outliers: str = "auto",
        basis: str | Basis = "bspline",
        n_basis: int = 16,
        pool_size: int | str = "auto",
        density: str | Density = "gaussian",
        bandwidth: float | str = "auto",
        alpha: float | str = "auto",
        leverage_alpha: float | str = "auto",
        leverage_rows: int | str = "all",
        fit_intercept: bool = True,
        max_iter: int = 500,
        tol: float = 1e-4,
        tolerance: float = 0.01,
        half_life: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        memory: int | str = "auto",
        verbose: bool = False,
        checkpoint: Any = None,
    ) -> None:
        self.n_components = n_components
        self.directions = directions
        self.sampling = sampling
        self.activation = activation
        self.curves = curves
        self.outliers = outliers
        self.basis = basis
        self.n_basis = n_basis
        self.pool_size = pool_size
        self.density = density
        self.bandwidth = bandwidth
        self.alpha = alpha
        self.leverage_alpha = leverage_alpha
        self.leverage_rows = leverage_rows
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.tolerance = tolerance
        self.half_life = half_life
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory = memory
        self.verbose = verbose
        self.checkpoint = checkpoint

    @classmethod
    def paper(
        cls, n_components: int = 100, *, pool_size: int = 5000, basis: str | Basis = "rbf", **others: Any
    ) -> Self:
        """The paper's Algorithm 1: random directions, leverage weighted sampling from a pool, one shared activation.

        >>> RFLAFRegressor.paper(n_components=30, pool_size=1000).sampling
        'leverage'
        """
        fixed = {"directions": "random", "sampling": "leverage", "activation": "shared"}
        return cls(n_components, pool_size=pool_size, basis=basis, **{**others, **fixed})

    @classmethod
    def convex(cls, n_components: int | str = 100, **others: Any) -> Self:
        """Random directions chosen greedily from a pool, one activation a component: a convex problem, solved exactly.

        >>> RFLAFRegressor.convex(30).sampling
        'greedy'
        """
        return cls(n_components, **{**others, "directions": "random", "sampling": "greedy"})

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows ``X`` (n_samples, n_features), dense or sparse, and ``y`` (n_samples,) or (n_samples, n_outputs).

        ``sample_weight`` (n_samples,) multiplies the loss of each row. For random directions whole weights act as
        repeated rows; refined ones meet in other mini-batches then.

        ``X`` may name files, or be a `rflaf.rows.files.Table`: then ``y`` and ``sample_weight`` are names of their
        columns,
        and the rows are read block by block in every pass. Dask arrays and frames are summed where they live (see
        `rflaf.rows.dask`).
        """
        with self._fitting() as fit:
            spec = self._spec()
            source, single_output = self._rows(fit, X, y, sample_weight, spec.loss)
            result = self._train(source, spec, fit.begin)
            self._accept(result, single_output)
        self._warn(result)
        return self

    @contextmanager
    def _fitting(self) -> Iterator[Fitting]:
        """A fit that is shown if it is verbose, and leaves the estimator as it was if it fails.

        What it opens is closed with it.
        """
        with _unchanged_on_error(self), shown(bool(self.verbose)) as begin, ExitStack() as opened:
            check_parameters(self)
            yield Fitting(opened, begin)

    def _train(self, source: BlockSource, spec: FitSpec, begin: Begin) -> FitResult:
        """Train on rows wherever they are, shown and recorded as asked."""
        rng, seeded = resolve_random_state(self.random_state), self.random_state is not None
        with (
            executor_for(source, resolve_n_jobs(self.n_jobs)) as workers,
            resumed(self.checkpoint, self._determined_by(), source, rng, watched(workers, begin), seeded) as executor,
        ):
            return train(source, spec, rng, executor)

    def _carry_on(self, source: BlockSource, first: bool, begin_pass: Begin) -> None:
        """Learn from a chunk of rows; a first one was fitted already."""
        squared = self.model_.last_layer is not None
        budget = plan_more(self._memory, TableSize.of(source), self.model_.n_components, squared)
        chunk = Chunk(source.with_rows(budget.block_rows), self.half_life)
        with executor_for(source, resolve_n_jobs(self.n_jobs)) as workers:
            executor = watched(workers, begin_pass)
            executor = executor if budget.n_workers is None else executor.limited(budget.n_workers)
            if first:
                model, self._seen = begin(self.model_, self._terms, chunk, executor)
            else:
                model, self._seen, self.stop_reason_ = carry_on(self.model_, self._seen, self._terms, chunk, executor)
        self._adopt(model)

    def _determined_by(self) -> str:
        """All arguments that a model depends on."""
        others = {"n_jobs", "verbose", "checkpoint", "random_state"}
        chosen = {name: value for name, value in self.get_params(deep=False).items() if name not in others}
        return f"{type(self).__name__} {chosen}"

    def _warn(self, result: FitResult) -> None:
        if result.outliers is not None:
            warnings.warn(str(result.outliers), OutlierWarning, stacklevel=3)
        if self.stop_reason_ is StopReason.ITERATIONS:
            warnings.warn(f"the fit {self.stop_reason_.value}", ConvergenceWarning, stacklevel=3)

    def transform(self, X: Any, *, out: Array | None = None) -> Array:
        """The random features q_m sigma(w_m . x + b_m) of rows ``X``: (n_samples, n_components_).

        They are written into the array ``out`` if one is given.
        """
        return self._by_rows(X, lambda rows: self.model_.features(rows), out)

    def _spec(self) -> FitSpec:
        return FitSpec(
            n_components=None if self.n_components == "auto" else int(self.n_components),
            tolerance=float(self.tolerance),
            refined=self.directions == "refined",
            curves=None if isinstance(self.curves, str) else bool(self.curves),
            keep_outliers=self.outliers == "keep",
            sampling=self.sampling,
            per_component=self.activation != "shared",
            n_shapes=None if isinstance(self.activation, str) else int(self.activation),
            pool_size=None if self.pool_size == "auto" else int(self.pool_size),
            loss=self._loss(),
            basis=make_basis(self.basis, self.n_basis, _INTERVAL) if isinstance(self.basis, str) else self._own_basis(),
            density=resolve_density(self.density),
            bandwidth=_number_or_none(self.bandwidth),
            alpha=_number_or_none(self.alpha),
            leverage_alpha=_number_or_none(self.leverage_alpha),
            leverage_rows=None if self.leverage_rows == "all" else int(self.leverage_rows),
            intercept=bool(self.fit_intercept),
            search=Search(max_iter=int(self.max_iter), tol=float(self.tol)),
            memory=self._memory,
        )

    def _loss(self) -> Loss:
        return Squared()

    def _own_basis(self) -> Basis:
        if isinstance(self.basis, Basis):
            return self.basis
        raise InvalidParameterError(
            "basis must be 'bspline', 'rbf' or a Basis object", self.basis, "Use basis='bspline'."
        )

    def _accept(self, result: FitResult, single_output: bool) -> None:
        self._single_output = single_output
        self._terms, self._seen = result.terms, None
        self._adopt(result.model)
        self.loss_ = result.loss
        self.alpha_ = result.alpha
        self.bandwidth_ = result.bandwidth
        self.objective_trace_ = result.trace
        self.n_iter_ = max(1, len(result.trace) - 1)
        self.stop_reason_ = result.stop_reason
        self.column_importance_ = result.column_importance
        self.trials_ = result.trials
        self.solver_remedy_ = result.remedy
        self.selection_ = result.selection
        self.leverage_ = result.leverage
        self.leverage_scores_ = None if result.leverage is None else result.leverage.scores
        self.effective_dimension_ = None if result.leverage is None else result.leverage.effective_dimension

    def _adopt(self, model: RandomFeatureModel) -> None:
        single = self._single_output
        self.model_ = model
        self.activation_ = model.activation
        self.curves_ = model.curves
        self.directions_ = model.directions.W
        self.importance_ = model.directions.importance
        self.coef_ = model.v[:, 0] if single else model.v.T
        self.intercept_ = float(model.intercept[0]) if single else model.intercept
        self.n_components_ = model.n_components

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _html_repr(self) -> str:
        """scikit-learn's picture for notebooks, with what was learned below it."""
        picture: str = super()._html_repr()
        return picture + activation_figure(self.model_) if hasattr(self, "model_") else picture

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _number_or_none(value: Any) -> float | None:
    return None if value == "auto" else float(value)


@contextmanager
def _unchanged_on_error(estimator: Any) -> Iterator[None]:
    """A fit that fails leaves the estimator as it was: unfitted, or fitted as before."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
