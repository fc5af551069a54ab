"""The estimators: scikit-learn's conventions translated into a `rflaf.training.specification.FitSpec` and back.

No numerics here. Arguments are checked by the rules in one table, data by scikit-learn; whatever fails, the
estimator is left as it was.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metadata_routing import UNUSED

from rflaf.errors import Array, OutlierWarning, StopReason
from rflaf.functions.bases import Basis
from rflaf.functions.densities import Density, resolve_density
from rflaf.functions.losses import Loss, Squared
from rflaf.model.random_feature_model import RandomFeatureModel
from rflaf.rows.blocks import BlockSource
from rflaf.rows.checkpoint import resumed
from rflaf.rows.executors import resolve_n_jobs
from rflaf.rows.inputs import executor_for
from rflaf.rows.progress import Begin, watched
from rflaf.training.final_fit import FitResult
from rflaf.training.memory import TableSize, plan_more
from rflaf.training.online import Chunk, Seen, Terms, carry_on, start_updates
from rflaf.training.solvers.shared_activation import Search
from rflaf.training.specification import FitSpec
from rflaf.training.train import train_model

from .parameters import check_parameters, refuse_contradiction, resolve_basis, resolve_random_state, sized_basis
from .retired import accept_retired, refuse_retired
from .rows_in import Fitting, ReadsRows
from .sampling import GreedySelection, LeverageSampling, Sampling, resolve_sampling
from .thumbnail import activation_figure
from .verbosity import shown


class RandomFeatureEstimator(ReadsRows, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What the estimators share: arguments, fitting, and the features as a transformer."""

    __metadata_request__transform = {"out": UNUSED}  # noqa: RUF012  scikit-learn wants a dictionary

    _retired: Mapping[str, Any] = MappingProxyType({})  # arguments of earlier releases that have no successor
    _terms: Terms
    _seen: Seen | None

    @accept_retired
    def __init__(
        self,
        n_components: int | str = 100,
        *,
        directions: str = "refined",
        sampling: Sampling = "plain",
        activation: str | int = "per_component",
        curves: bool | str = "auto",
        basis: str | Basis = "bspline",
        density: str | Density = "gaussian",
        bandwidth: float | str = "auto",
        alpha: float | str = "auto",
        fit_intercept: bool = True,
        width_tolerance: float = 0.01,
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
        self.basis = basis
        self.density = density
        self.bandwidth = bandwidth
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.width_tolerance = width_tolerance
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory = memory
        self.verbose = verbose
        self.checkpoint = checkpoint

    def set_params(self, **parameters: Any) -> Self:
        """Set arguments by name; a retired one is refused with the way to do without it."""
        refuse_retired(parameters)
        estimator: Self = super().set_params(**parameters)
        return estimator

    def __sklearn_clone__(self) -> Self:
        copy: Self = super().__sklearn_clone__()
        if self._retired:
            copy._retired = self._retired
        return copy

    @classmethod
    def paper(
        cls,
        n_components: int | str = 100,
        *,
        pool_size: int | str = 5000,
        leverage_alpha: float | str = "auto",
        leverage_rows: int | str = "all",
        basis: str | Basis = "rbf",
        n_basis: int | None = None,
        **others: Any,
    ) -> Self:
        """Return the paper's Algorithm 1: random directions, leverage weighted sampling, one shared activation.

        ``pool_size``, ``leverage_alpha`` and ``leverage_rows`` are those of `LeverageSampling`; ``n_basis`` is the
        number of functions of a basis given by its name. All other arguments go to the constructor.

        >>> from rflaf import RFLAFRegressor
        >>> RFLAFRegressor.paper(n_components=30, pool_size=1000).sampling
        LeverageSampling(pool_size=1000, alpha='auto', rows='all')
        """
        sampling = LeverageSampling(pool_size, leverage_alpha, leverage_rows)
        fixed = {"directions": "random", "sampling": sampling, "activation": "shared"}
        refuse_contradiction("paper", others, fixed)
        basis = basis if n_basis is None else sized_basis(basis, n_basis)
        return cls(n_components, basis=basis, **{**others, **fixed})

    @classmethod
    def convex(cls, n_components: int | str = 100, *, pool_size: int | str = "auto", **others: Any) -> Self:
        """Return the convex model: random directions chosen greedily from a pool, one activation per component.

        ``pool_size`` is that of `GreedySelection`. All other arguments go to the constructor.

        >>> from rflaf import RFLAFRegressor
        >>> RFLAFRegressor.convex(30).sampling
        'greedy'
        """
        fixed = {"directions": "random", "sampling": "greedy" if pool_size == "auto" else GreedySelection(pool_size)}
        refuse_contradiction("convex", others, fixed)
        return cls(n_components, **{**others, **fixed})

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
            return train_model(source, spec, rng, executor)

    def _carry_on(self, source: BlockSource, first: bool, begin_pass: Begin, half_life: float | None) -> None:
        """Learn from a chunk of rows; a first one was fitted already."""
        half_life = self._retired.get("half_life") if half_life is None else half_life
        squared = self.model_.last_layer is not None
        budget = plan_more(self._memory, TableSize.of(source), self.model_.n_components, squared)
        chunk = Chunk(source.with_rows(budget.block_rows), half_life)
        with executor_for(source, resolve_n_jobs(self.n_jobs)) as workers:
            executor = watched(workers, begin_pass)
            executor = executor if budget.n_workers is None else executor.limited(budget.n_workers)
            if first:
                model, self._seen = start_updates(self.model_, self._terms, chunk, executor)
            else:
                model, self._seen, self.stop_reason_ = carry_on(self.model_, self._seen, self._terms, chunk, executor)
        self._adopt(model)

    def _determined_by(self) -> str:
        """Return all arguments that a model depends on."""
        others = {"n_jobs", "verbose", "checkpoint", "random_state"}
        chosen = {name: value for name, value in self.get_params(deep=False).items() if name not in others}
        return f"{type(self).__name__} {chosen | dict(self._retired)}"

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
        """Return the checked arguments as a specification."""
        sampling = resolve_sampling(self.sampling)
        return FitSpec(
            n_components=None if self.n_components == "auto" else int(self.n_components),
            width_tolerance=float(self.width_tolerance),
            refined=self.directions == "refined",
            curves=None if isinstance(self.curves, str) else bool(self.curves),
            keep_outliers=self._keeps_outliers,
            per_component=self.activation != "shared",
            loss=self._loss(),
            basis=resolve_basis(self.basis),
            density=resolve_density(self.density),
            bandwidth=_number_or_none(self.bandwidth),
            alpha=_number_or_none(self.alpha),
            intercept=bool(self.fit_intercept),
            search=Search(**{name: self._retired[name] for name in ("max_iter", "tol") if name in self._retired}),
            memory=self._memory,
            **({} if sampling is None else sampling.settings()),
        )

    def _loss(self) -> Loss:
        return Squared()

    @property
    def _keeps_outliers(self) -> bool:
        """Whether every target is trusted."""
        return self._retired.get("outliers") == "keep"

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
        self.model_ = replace(model)  # compiled anew: BLAS rounds otherwise on the threads of the fit
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
        """Return scikit-learn's diagram for notebooks, with the learned activation below it."""
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
