"""The estimators: scikit-learn's conventions translated into a `rflaf.training.specification.FitSpec` and back.

No numerics here. Arguments are checked by the rules in one table, data by scikit-learn; whatever fails, the
estimator is left as it was.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import _check_feature_names, _check_sample_weight, check_is_fitted, validate_data

from rflaf.errors import Array, InvalidParameterError, OutlierWarning, StopReason
from rflaf.functions.bases import Basis
from rflaf.functions.densities import Density, resolve_density
from rflaf.functions.losses import Loss, Squared
from rflaf.model.random_feature_model import RandomFeatureModel
from rflaf.rows.blocks import BlockSource, CheckedTargets, array_source
from rflaf.rows.checkpoint import resumed
from rflaf.rows.dask import by_partition, executor_for
from rflaf.rows.executors import resolve_n_jobs
from rflaf.rows.files import is_files
from rflaf.rows.inputs import OpenRows, open_rows
from rflaf.rows.progress import Begin, displays, watched
from rflaf.rows.tables import TableEncoding
from rflaf.training.memory import TableSize, plan_more, plan_prediction
from rflaf.training.online import Chunk, Seen, Terms, carry_on, start_updates
from rflaf.training.result import FitResult
from rflaf.training.solvers.shared_activation import Search
from rflaf.training.specification import FitSpec
from rflaf.training.train import train_model

from .parameters import check_parameters, refuse_contradiction, resolve_basis, resolve_random_state, sized_basis
from .retired import accept_retired, refuse_retired
from .sampling import GreedySelection, LeverageSampling, Sampling, resolve_sampling
from .thumbnail import activation_figure


@dataclass(frozen=True, slots=True)
class Fitting:
    """A fit under way: what it has opened, and what its passes are begun with."""

    opened: ExitStack
    begin: Begin


class RandomFeatureEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What the estimators share: arguments, fitting, and the features as a transformer."""

    __metadata_request__transform = {"out": UNUSED}  # noqa: RUF012  scikit-learn wants a dictionary

    table_encoding_: TableEncoding | None = None
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
        with (
            _unchanged_on_error(self),
            _shown(self.verbose),
            displays(bool(self.verbose)) as begin,
            ExitStack() as opened,
        ):
            check_parameters(self)
            yield Fitting(opened, begin)

    def _rows(
        self, fit: Fitting, X: Any, y: Any, sample_weight: Any, loss: Loss, reset: bool = True
    ) -> tuple[BlockSource, bool]:
        """Rows with numeric targets that a loss takes, however they are given; and whether y is a single column."""
        rows = open_rows(X, y, sample_weight, False, None if reset else self.table_encoding_, fit.begin, self._memory)
        if rows is not None:
            fit.opened.enter_context(closing(rows))
            self._take_columns(rows, reset)
            if reset:
                loss.check_range(*rows.target_range)
            return CheckedTargets(rows.source, loss), rows.single_output
        self.table_encoding_ = None
        X, y = self._check_numbers(X, y, reset)
        (loss.check if reset else loss.check_more)(y)
        return array_source(X, y, check_weight(sample_weight, X)), np.ndim(y) == 1

    def _check_numbers(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, Array]:
        """Rows and numeric targets, validated."""
        X, y = validate_data(
            self, X, y,
            accept_sparse="csr", dtype=(np.float64, np.float32), multi_output=True, y_numeric=True,
            ensure_min_samples=2 if reset else 1, reset=reset,
        )  # fmt: skip
        if sp.issparse(y):
            raise InvalidParameterError("y must be dense", "a sparse matrix", "Pass y.toarray().")
        return X, y

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

    def _take_columns(self, rows: OpenRows, reset: bool) -> None:
        """Remember the columns of rows that are not in memory, as `validate_data` does of those that are."""
        names = None if rows.feature_names is None else np.array(rows.feature_names, dtype=object)
        if reset:
            _check_feature_names(self, None, reset=True)
            self.n_features_in_ = rows.source.n_features
            self.table_encoding_ = rows.encoding
            if names is not None:
                self.feature_names_in_ = names
            if rows.source.n_samples < 2:
                raise InvalidParameterError("there must be at least 2 rows", rows.source.n_samples, "Add rows.")
        else:
            known = getattr(self, "feature_names_in_", None)
            if rows.source.n_features != self.n_features_in_ or (
                names is not None and known is not None and names.tolist() != known.tolist()
            ):
                raise InvalidParameterError(
                    "columns must be those of the first rows, in their order",
                    rows.source.n_features if names is None else names.tolist(),
                    f"Pass {self.n_features_in_ if known is None else known.tolist()}.",
                )

    def _by_rows(self, X: Any, answer: Callable[[Any], Array], out: Array | None = None) -> Array:
        """What ``answer`` says of validated rows, in ``out`` if given; of rows in files block by block."""
        check_is_fitted(self)
        if not is_files(X):
            answers = answer(self._check_rows(X))
            return answers if out is None else _write(answers, out, 0, answers.shape[0])
        with _shown(self.verbose), displays(bool(self.verbose)) as begin:
            opened = open_rows(X, None, None, False, self.table_encoding_, begin, self._memory)
            assert opened is not None
            with closing(opened):
                return self._by_blocks(self._readable(opened), answer, out, begin)

    def _by_blocks(self, source: BlockSource, answer: Callable[[Any], Array], out: Array | None, begin: Begin) -> Array:
        n_rows = source.n_samples
        with begin("predict", n_rows, n_rows) as display:
            for i in range(len(source)):
                block = source[i]
                answers = answer(block.X)
                if out is None:
                    out = np.empty((n_rows, *answers.shape[1:]), answers.dtype)
                _write(answers, out, block.first, n_rows)
                display.advance(block.n_rows)
        assert out is not None  # files have rows
        return out

    def _readable(self, opened: OpenRows) -> BlockSource:
        """Rows to predict, in blocks worth a call that fit the memory."""
        if opened.source.n_features != self.n_features_in_:
            raise InvalidParameterError(
                f"rows must have the {self.n_features_in_} columns of the fit", opened.source.n_features, "Check them."
            )
        width = self.model_.n_components + self.model_.n_outputs
        return opened.source.with_rows(plan_prediction(self._memory, TableSize.of(opened.source), width))

    def _score_files(
        self, X: Any, y: Any, sample_weight: Any, answer: Callable[[Any], Array], labels: bool
    ) -> tuple[Array, Array, Array | None]:
        """Targets, answers and weights of rows in files, read once."""
        check_is_fitted(self)
        opened = open_rows(X, y, sample_weight, labels, self.table_encoding_)
        assert opened is not None
        with closing(opened):
            source = self._readable(opened)
            blocks = (source[i] for i in range(len(source)))
            parts = [(block.y, answer(block.X), block.weight) for block in blocks]
        targets, answers = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        weights = [part[2] for part in parts if part[2] is not None]
        return targets, answers, np.concatenate(weights) if weights else None

    def _warn(self, result: FitResult) -> None:
        if result.outliers is not None:
            warnings.warn(str(result.outliers), OutlierWarning, stacklevel=3)
        if self.stop_reason_ is StopReason.ITERATIONS:
            warnings.warn(f"the fit {self.stop_reason_.value}", ConvergenceWarning, stacklevel=3)

    @by_partition
    def transform(self, X: Any, *, out: Array | None = None) -> Array:
        """The random features q_m sigma(w_m . x + b_m) of rows ``X``: (n_samples, n_components_).

        They are written into the array ``out`` if one is given.
        """
        return self._by_rows(X, lambda rows: self.model_.features(rows), out)

    def _check_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        return sp.csr_array(X) if sp.issparse(X) else X

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
            n_shapes=None if isinstance(self.activation, str) else int(self.activation),
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

    @property
    def _memory(self) -> int | None:
        return None if self.memory == "auto" else int(self.memory)

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


def _write(answers: Array, out: Any, first: int, n_rows: int) -> Array:
    """Put answers about some of ``n_rows`` rows in their place in an array that can hold those about all."""
    shape, rounded = (n_rows, *answers.shape[1:]), answers.dtype.kind == "f"
    if not (
        isinstance(out, np.ndarray)
        and out.shape == shape
        and np.can_cast(answers.dtype, out.dtype, "same_kind" if rounded else "safe")
    ):
        found = f"{out.dtype} of shape {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        raise InvalidParameterError(
            f"out must be an array of shape {shape} that can hold {answers.dtype}",
            found,
            "Make it with np.empty, or np.lib.format.open_memmap for a file.",
        )
    out[first : first + answers.shape[0]] = answers
    return out


def _number_or_none(value: Any) -> float | None:
    return None if value == "auto" else float(value)


def check_weight(sample_weight: ArrayLike | None, X: Any) -> Array | None:
    """Return the weights of the rows of ``X``, validated, or None."""
    if sample_weight is None:
        return None
    if not np.any(np.asarray(sample_weight)):
        raise InvalidParameterError(
            "sample_weight must have a positive entry", "zeros only", "Drop sample_weight to weigh all rows alike."
        )
    weight: Array = _check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)
    return weight


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


class _ToStandardError(logging.Handler):
    """Standard error as it is at the time: a progress bar puts itself before it."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(self.format(record) + "\n")


@contextmanager
def _shown(verbose: bool) -> Iterator[None]:
    """Show the log of the package on standard error while a verbose fit runs."""
    if not verbose:
        yield
        return
    logger, handler = logging.getLogger("rflaf"), _ToStandardError()
    handler.setFormatter(logging.Formatter("[rflaf] %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
