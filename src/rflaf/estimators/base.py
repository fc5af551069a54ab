"""The code that the estimators share: scikit-learn's conventions translated into a `FitSpec` and back.

No numerics here. Arguments are checked by `parameters`, data by scikit-learn; a fit that fails changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metadata_routing import UNUSED

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.bases import Basis
from rflaf.functions.densities import Density, resolve_density
from rflaf.functions.losses import Loss, Squared
from rflaf.model.profile import Profile
from rflaf.model.random_feature_model import RandomFeatureModel
from rflaf.rows.blocks import ArraySource, Block, BlockSource
from rflaf.rows.checkpoint import resumed
from rflaf.rows.executors import resolve_n_jobs
from rflaf.rows.inputs import executor_for
from rflaf.rows.progress import Begin, watched
from rflaf.training.calibration import profile_of
from rflaf.training.final_fit import FitResult
from rflaf.training.memory import TableSize, plan_more
from rflaf.training.online import Chunk, Seen, Terms, carry_on, start_updates
from rflaf.training.solvers.refined.smoothing import CLASSES
from rflaf.training.solvers.shared_activation import Search
from rflaf.training.specification import FitSpec
from rflaf.training.train import train_model

from . import parameters
from .choices import (
    ActivationChoice,
    GreedySelection,
    LeverageSampling,
    Sampling,
    SharedActivation,
    resolve_activation,
    resolve_sampling,
)
from .fit_warnings import warn_of_fit
from .later_rows import warn_of_hidden_columns, warn_of_new_columns
from .limits import refuse_new_weights, resolve_limits
from .reasons import ExplainsRows
from .retired import accept_retired, refuse_retired, translate, warn_shapes
from .rows_in import Fitting
from .splits import Lessons, splits_of
from .svg import activation_figure
from .verbose import shown

_NO_PART = {"n_jobs", "verbose", "checkpoint", "random_state"}  # arguments that no model depends on
# Fields of a result that an estimator keeps under their names.
_REPORTED = (
    *("loss", "alpha", "bandwidth", "stop_reason", "column_importance"),
    *("trials", "selection", "leverage", "pool"),
)


class RandomFeatureEstimator(ExplainsRows, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class of the estimators: arguments, fitting, and the features as a transformer."""

    __metadata_request__transform = {"out": UNUSED}  # noqa: RUF012  scikit-learn wants a dictionary

    _retired: Mapping[str, Any] = MappingProxyType({})  # arguments of earlier releases that have no successor
    _exposed = False  # whether an offset is in the weights of the fit
    _terms: Terms
    _seen: Seen | None
    _profile: Profile | None

    @accept_retired
    def __init__(
        self,
        n_components: int | str = 100,
        *,
        directions: str = "refined",
        sampling: Sampling = "plain",
        activation: ActivationChoice = "per_component",
        curves: bool | str = "auto",
        basis: str | Basis = "bspline",
        density: str | Density = "gaussian",
        scale: bool = True,
        bandwidth: float | str = "auto",
        alpha: float | str = "auto",
        fit_intercept: bool = True,
        width_tolerance: float = 0.01,
        categorical_features: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        memory: int | str = "auto",
        verbose: bool = False,
        checkpoint: Any = None,
    ) -> None:
        self._store(locals())

    def _store(self, arguments: dict[str, Any]) -> None:
        """Keep the arguments of a constructor, given as its `locals`, unchanged."""
        self.__dict__.update((name, value) for name, value in arguments.items() if name != "self")

    def set_params(self, **arguments: Any) -> Self:
        """Set arguments by name; a retired one is refused with the way to do without it."""
        refuse_retired(arguments)
        warn_shapes(arguments)
        estimator: Self = super().set_params(**translate(arguments, has_loss=True)[0])
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
        balance: str = "proof",
        search: str = "exact",
        radius: float | None = None,
        n_basis: int | None = None,
        **others: Any,
    ) -> Self:
        """Return the paper's Algorithm 1: random directions, leverage weighted sampling, one shared activation.

        Parameters
        ----------
        n_components : int or "auto", default=100
            S, the number of components drawn from the pool.
        pool_size : int or "auto", default=5000
            s, the number of directions in the pool.
        balance : {"proof", "printed"}, default="proof"
            What line 2 minimises: problem (6), as the proof of Theorem 4.1 says, or problem (8) as printed; see
            `LeverageSampling`.
        search : {"exact", "sample"}, default="exact"
            Whether lines 2 and 6 are solved to their minimum on all rows and components; see `SharedActivation`.
        radius : float or None, default=None
            R, the length of the coefficients of the activation.
        n_basis : int or None, default=None
            Number of functions of a basis given by its name, "rbf" unless given.
        **others
            ``leverage_alpha`` and ``leverage_rows`` are ``alpha`` and ``rows`` of `LeverageSampling`; all others go to
            the constructor.

        >>> from rflaf import RFLAFRegressor
        >>> RFLAFRegressor.paper(n_components=30, pool_size=1000).activation
        SharedActivation(search='exact', radius=None, l1=0.0)
        """
        lam, rows = others.pop("leverage_alpha", "auto"), others.pop("leverage_rows", "all")
        sampling = LeverageSampling(pool_size, lam, rows, balance)
        shared = SharedActivation(search, radius)
        others = {name: value for name, value in others.items() if (name, value) != ("activation", "shared")}
        fixed = {"directions": "random", "sampling": sampling, "activation": shared}
        parameters.refuse_contradiction("paper", others, fixed)
        basis = others.pop("basis", "rbf")
        basis = basis if n_basis is None else parameters.sized_basis(basis, n_basis)
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
        parameters.refuse_contradiction("convex", others, fixed)
        return cls(n_components, **{**others, **fixed})

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        groups: Any = None,
        time: Any = None,
        cv: Any = None,
    ) -> Self:
        """Fit to rows ``X`` (n_samples, n_features), dense or sparse, and ``y`` (n_samples,) or (n_samples, n_outputs).

        ``sample_weight`` (n_samples,) multiplies the loss of each row; its unit has no effect, and a row of weight two
        is the same as two equal rows.

        ``groups`` (n_samples,) keeps the rows of a group together where rows are held out to choose penalties and
        recipes; ``time`` (n_samples,) holds out later rows only; ``cv`` is a splitter of scikit-learn. They are for
        rows in memory, and for refined directions or the squared loss.

        ``X`` may name files, or be a `rflaf.rows.files.Table`: then ``y`` and ``sample_weight`` name their columns, and
        every pass reads the rows block by block. Dask arrays and frames are summed where they live (`rflaf.rows.dask`).
        """
        with self._fitting() as fit:
            result, _ = self._fit_rows(fit, X, y, sample_weight, {"groups": groups, "time": time, "cv": cv})
        self._warn(result)
        return self

    def _fit_rows(
        self, fit: Fitting, X: Any, y: Any, sample_weight: Any, held_out: dict[str, Any]
    ) -> tuple[FitResult, BlockSource]:
        spec = self._spec()
        source, single_output = self._rows(fit, X, y, sample_weight, spec.loss)
        result = self._train(source, self._with_splits(spec, source, **held_out), fit.begin)
        self._accept(result, single_output)
        return result, source

    def _with_splits(self, spec: FitSpec, source: BlockSource, groups: Any, time: Any, cv: Any) -> FitSpec:
        """Return the specification with the rows to hold out, where ``fit`` is told which."""
        if groups is None and time is None and cv is None:
            return spec
        if not isinstance(source, ArraySource):
            raise InvalidParameterError(
                "groups, time and cv need rows in memory", type(source).__name__, "Read them first."
            )
        splits = splits_of(source.n_samples, source.y[:, 0], groups, time, cv)
        if not spec.refined and (time is not None or not spec.loss.closed_form):
            rule = "with random directions groups and cv act under the squared loss, and time does not"
            raise InvalidParameterError(rule, self.directions, "Set directions='refined'.")
        if not isinstance(cv, Lessons):
            return replace(spec, splits=splits)
        if not isinstance(spec.loss, CLASSES):  # whose targets may be probabilities here
            for targets in cv.targets:
                spec.loss.check_more(targets[np.isfinite(targets).all(axis=1)])
        return replace(spec, splits=splits, lessons=cv.targets)

    @contextmanager
    def _fitting(self) -> Iterator[Fitting]:
        """Show a fit if it is verbose, close all that it opens, and leave the estimator as it was if it fails."""
        before = dict(vars(self))
        try:
            with shown(bool(self.verbose)) as begin, ExitStack() as opened:
                parameters.check_parameters(self)
                yield Fitting(opened, begin)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _train(self, source: BlockSource, spec: FitSpec, begin: Begin) -> FitResult:
        """Train on rows wherever they are, shown and recorded as asked."""
        levels = getattr(self.table_encoding_, "level_counts", ())
        limits = resolve_limits(self, source.n_features, source.n_outputs // spec.loss.n_levels)
        spec = replace(spec, levels=levels, limits=limits)
        rng, seeded = parameters.resolve_random_state(self.random_state), self.random_state is not None
        with (
            executor_for(source, resolve_n_jobs(self.n_jobs)) as workers,
            resumed(self.checkpoint, self._determined_by(), source, rng, watched(workers, begin), seeded) as executor,
        ):
            return train_model(source, spec, rng, executor)

    def _carry_on(self, source: BlockSource, first: bool, begin_pass: Begin, half_life: float | None) -> None:
        """Learn from a chunk of rows; a first one was fitted already."""
        refuse_new_weights(self, "partial_fit")
        half_life, squared = half_life or self._retired.get("half_life"), self.model_.last_layer is not None
        budget = plan_more(self._memory, TableSize.of(source), self.model_.n_components, squared)
        chunk = Chunk(source.with_rows(budget.block_rows), half_life)
        with executor_for(source, resolve_n_jobs(self.n_jobs)) as workers:
            executor = watched(workers, begin_pass)
            executor = executor if budget.n_workers is None else executor.limited(budget.n_workers)
            if first:
                model, self._seen = start_updates(self.model_, self._terms, chunk, executor)
            else:
                self._profile = self._warn_of_columns(source[0])
                model, self._seen, self.stop_reason_ = carry_on(self.model_, self._seen, self._terms, chunk, executor)
        self._adopt(model)

    def _warn_of_columns(self, first: Block) -> Profile | None:
        """Warn of columns of later rows that the model does not learn from; return the profile that knows them."""
        encoding, terms = self.table_encoding_, self._terms
        names = getattr(self, "feature_names_in_", None) if encoding is None else encoding.feature_names
        if terms is not None and self._feature_importance is not None:
            pull = terms.pull(self.model_.decision(first.X), first.y)
            warn_of_hidden_columns(first.X, pull, self._feature_importance, names)
        return self._profile and warn_of_new_columns(self._profile, self.model_, first.X, names)

    def _determined_by(self) -> str:
        """Return all arguments that a model depends on."""
        chosen = {name: value for name, value in self.get_params(deep=False).items() if name not in _NO_PART}
        return f"{type(self).__name__} {chosen | dict(self._retired)}"

    def _warn(self, result: FitResult) -> None:
        warn_of_fit(result, resolve_sampling(self.sampling))

    def transform(self, X: Any, *, out: Array | None = None) -> Array:
        """Return features q_m sigma(w_m . x + b_m) of rows ``X``, (n_samples, n_components_), in ``out`` if given."""
        return self._by_rows(X, lambda rows: self.model_.features(rows), out)

    def _spec(self) -> FitSpec:
        """Return the checked arguments as a specification."""
        sampling, shared = resolve_sampling(self.sampling), resolve_activation(self.activation)
        return FitSpec(
            n_components=None if self.n_components == "auto" else int(self.n_components),
            width_tolerance=float(self.width_tolerance),
            refined=self.directions == "refined",
            curves=None if isinstance(self.curves, str) else bool(self.curves),
            keep_outliers=self._keeps_outliers,
            loss=self._loss(),
            basis=parameters.resolve_basis(self.basis),
            density=resolve_density(self.density),
            scale=bool(self.scale),
            bandwidth=None if self.bandwidth == "auto" else float(self.bandwidth),
            alpha=None if self.alpha == "auto" else float(self.alpha),
            intercept=bool(self.fit_intercept),
            search=Search(**{name: self._retired[name] for name in ("max_iter", "tol") if name in self._retired}),
            memory=self._memory,
            exposed=self._exposed,
            **({} if sampling is None else sampling.settings()),
            **({"per_component": True} if shared is None else shared.settings()),
        )

    def _loss(self) -> Loss:
        return Squared()

    @property
    def _keeps_outliers(self) -> bool:
        return self._retired.get("outliers") == "keep"

    def _accept(self, result: FitResult, single_output: bool) -> None:
        self._single_output = single_output
        self._terms, self._seen = result.terms, None
        self._adopt(result.model)
        for name in _REPORTED:
            setattr(self, f"{name}_", getattr(result, name))
        held_out = result.held_out
        self.oof_prediction_ = None if held_out is None else self._held_out_answer(held_out.decision)
        self.cv_error_ = None if held_out is None else held_out.error
        self.cv_standard_error_ = None if held_out is None else held_out.standard_error
        self._feature_importance, self._centre = result.column_importance, result.centre
        self._profile = profile_of(result)
        self._judge(result)
        if self.table_encoding_ is not None and len(self.table_encoding_.feature_names) == result.model.n_features:
            self.column_importance_ = self.table_encoding_.totals_by_column(self._feature_importance)
        self.objective_trace_ = result.trace
        self.n_iter_ = max(1, len(result.trace) - 1)
        self.solver_remedy_ = result.remedy
        self.leverage_scores_ = getattr(result.leverage, "scores", None)
        self.effective_dimension_ = getattr(result.leverage, "effective_dimension", None)

    def _judge(self, result: FitResult) -> None:
        """Keep what the rows held out by a fit say of its errors."""

    def _held_out_answer(self, decision: Array) -> Array:
        """Return predictions, shaped like the targets, from the values of f at rows held out."""
        mean = self.loss_.mean(decision)
        return mean[:, 0] if self._single_output else mean

    def _adopt(self, model: RandomFeatureModel) -> None:
        single = self._single_output
        self.model_ = replace(model)  # compiled anew: BLAS rounds otherwise on the threads of the fit
        self.activation_ = model.activation
        self.curves_ = model.curves
        self.directions_ = model.directions.W
        self.importance_ = model.directions.importance
        self.output_weights_ = model.v[:, 0] if single else model.v.T
        self.intercept_ = float(model.intercept[0]) if single else model.intercept
        self.n_components_ = model.n_components

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _html_repr(self) -> str:
        picture: str = super()._html_repr()
        return picture + activation_figure(self.model_) if hasattr(self, "model_") else picture

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.input_tags.categorical = tags.input_tags.string = True
        targets = tags.target_tags
        targets.required = targets.multi_output = targets.single_output = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
