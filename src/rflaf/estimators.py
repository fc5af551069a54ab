"""The estimators: scikit-learn's conventions translated into a `rflaf.training.FitSpec` and back.

No numerics here. Arguments are checked by the rules in one table, data by scikit-learn; whatever fails, the
estimator is left as it was.
"""

from __future__ import annotations

import copy
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_feature_names, _check_sample_weight, check_is_fitted, validate_data

from .bases import Basis, make_basis
from .bilinear import Search
from .blocks import ArraySource, Block, BlockSource, CheckedTargets, LabelTargets, array_source
from .budget import TableSize, plan_more, plan_prediction
from .checkpoint import resumed
from .clusters import by_partition, executor_for
from .errors import InvalidParameterError, OutlierWarning
from .executors import resolve_n_jobs
from .files import is_files
from .incremental import Chunk, Seen, Terms, begin, carry_on
from .inputs import OpenRows, open_rows
from .losses import Huber, Logistic, Loss, Pinball, Poisson, Softmax, Squared, SquaredHinge
from .model import RandomFeatureModel
from .outcomes import StopReason
from .parameters import check_parameters, resolve_loss, resolve_random_state
from .progress import Begin, displays, watched
from .specification import FitSpec
from .spectral import Density, resolve_density
from .tables import TableEncoding
from .thumbnail import activation_figure
from .training import FitResult, train

Array = NDArray[Any]
_INTERVAL = (-3.0, 3.0)  # of projections scaled to unit spread


@dataclass(frozen=True, slots=True)
class _Fitting:
    """A fit under way: what it has opened, and what its passes are begun with."""

    opened: ExitStack
    begin: Begin


class _RandomFeatureEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What the estimators share: arguments, fitting, and the features as a transformer."""

    __metadata_request__transform = {"out": UNUSED}  # noqa: RUF012  scikit-learn wants a dictionary
    __metadata_request__predict = {"out": UNUSED}  # noqa: RUF012
    __metadata_request__predict_proba = {"out": UNUSED}  # noqa: RUF012
    __metadata_request__predict_log_proba = {"out": UNUSED}  # noqa: RUF012
    __metadata_request__decision_function = {"out": UNUSED}  # noqa: RUF012

    table_encoding_: TableEncoding | None = None
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

        ``X`` may name files, or be a `rflaf.files.Table`: then ``y`` and ``sample_weight`` are names of their columns,
        and the rows are read block by block in every pass. Dask arrays and frames are summed where they live (see
        `rflaf.clusters`).
        """
        with self._fitting() as fit:
            spec = self._spec()
            source, single_output = self._rows(fit, X, y, sample_weight, spec.loss)
            result = self._train(source, spec, fit.begin)
            self._accept(result, single_output)
        self._warn(result)
        return self

    @contextmanager
    def _fitting(self) -> Iterator[_Fitting]:
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
            yield _Fitting(opened, begin)

    def _rows(
        self, fit: _Fitting, X: Any, y: Any, sample_weight: Any, loss: Loss, reset: bool = True
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
        return array_source(X, y, _check_weight(sample_weight, X)), np.ndim(y) == 1

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

    @property
    def _memory(self) -> int | None:
        return None if self.memory == "auto" else int(self.memory)

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


def _gives_probabilities(estimator: Any) -> bool:
    """Whether a classifier's loss has probabilities."""
    loss = getattr(estimator, "loss_", estimator.loss)
    return loss == "log_loss" or isinstance(loss, Logistic | Softmax)


class RFLAFRegressor(RegressorMixin, _RandomFeatureEstimator):
    """Regression by small models of random directions and learned activations.

    f(x) = b + sum_m q_m v_m sigma_m(u_m(x)),    sigma_m(z) = sum_i a_mi B_i(z),    u_m(x) = b_m + w_m . x + curves

    By default directions, column curves and activations are trained together, and what a user would have to tune is
    chosen on rows held out inside ``fit`` (`directions="refined"`). `RFLAFRegressor.convex` keeps random directions,
    chosen from a pool, and solves one convex problem; `RFLAFRegressor.paper` is Algorithm 1 of the paper. Inputs are
    centred and scaled inside.

    Parameters
    ----------
    n_components : int or "auto", default=100
        Width S: number of components. Under leverage sampling duplicates are merged, so the fitted width
        ``n_components_`` may be lower. "auto" is the smallest width whose estimated error is within ``tolerance`` of
        the lowest: by cross-validation on the path of greedy selection, up to 500; on rows held out for other random
        directions, up to 500, under a shared activation, and for refined ones, up to 400. `rflaf.plan` tells it, and
        what theory asks for, before anything is fitted.
    loss : {"squared", "huber", "quantile", "poisson"} or Loss, default="squared"
        What the model predicts: the mean; a mean that outliers do not move; a quantile; the mean of counts. "huber"
        takes residuals beyond 1.35 robust standard deviations of a first fit for outliers; "quantile" is the pinball
        loss, rounded within a hundredth of the standard deviation of ``y``. A `rflaf.losses.Loss` object is used as
        it is.
    quantile : float, default=0.5
        Which one, for ``loss="quantile"``.
    directions : {"refined", "random"}, default="refined"
        Train the directions, from a draw of ``density``; or draw and freeze them. Up to 3,000 rows directions that no
        target had a say in are tried too: the columns themselves, and the columns and random directions. Where they do
        better on rows held out, and below 50 rows, of which none can be held out, the model is theirs: with one column
        a component it has as many components as columns.
    sampling : {"plain", "leverage", "greedy"}, default="plain"
        For random directions: draw them from p(w); or from a pool of ``pool_size`` of them in proportion to their ridge
        leverage scores (Algorithm 1 of the paper); or choose from such a pool the components that lower the error most,
        one after the other.
    activation : {"per_component", "shared"} or int, default="per_component"
        One learned activation a component, one for all, or, for random directions, mixtures of a number of learned
        shapes. For random directions one a component is a convex problem, solved at once, with a penalty on the second
        differences of each activation.
    curves : bool or "auto", default="auto"
        Whether columns of a refined model bend: each enters a component through a line and a piecewise-linear curve.
        "auto" takes what does better on the rows held out.
    outliers : {"auto", "keep"}, default="auto"
        Targets of a refined model that lie far from all others and that the columns do not explain weigh less, with a
        warning; "keep" trusts every target.
    basis : {"bspline", "rbf"} or Basis, default="bspline"
        Basis of the activation over (-3, 3) in units of the typical spread of a projection.
    n_basis : int, default=16
        Number of basis functions; not used where ``basis`` is an object.
    pool_size : int or "auto", default="auto"
        Size of the pool to choose from; "auto" is ten times the width, between 1,000 and 5,000, under leverage
        sampling, and forty times, between 6,000 and 12,000, under greedy selection: at least twice the width.
    density : {"gaussian", "student_t", "cauchy", "orthogonal", "sobol"} or Density, default="gaussian"
        Law p(w) of the directions.
    bandwidth : float or "auto", default="auto"
        Length scale on standardised inputs: directions are w / bandwidth with w from ``density``. "auto" gives
        projections a typical spread of one, and exactly one where every component has an activation of its own.
    alpha : float or "auto", default="auto"
        Penalty: of refined models on directions and curves, chosen on rows held out; else, and below 50 rows, the
        ridge parameter (lambda* of the paper), for an activation of mean square one, chosen by the error
        on rows left out.
    leverage_alpha : float or "auto", default="auto"
        lambda of the leverage scores; "auto" is 1 / sqrt(n_samples).
    leverage_rows : int or "all", default="all"
        Rows the leverage scores are computed from; for a sample, ``leverage_.relative_error`` estimates their error.
    fit_intercept : bool, default=True
    max_iter : int, default=500
        Most steps of the search for the activation.
    tol : float, default=1e-4
        Relative fall of the objective that ends that search.
    tolerance : float, default=0.01
        How far above the lowest error on the path the width chosen by ``n_components="auto"`` may be.
    half_life : float or None, default=None
        For drifting data: in `partial_fit` a row weighs 2^(-k / half_life) once k rows have come after it. None forgets
        nothing. `fit` weighs all rows alike.
    random_state : int, RandomState, Generator or None, default=None
        The same seed gives the same model, bit for bit, for any ``n_jobs``.
    n_jobs : int or None, default=None
        Threads; None takes as many as BLAS is allowed (so it follows joblib, OMP_NUM_THREADS and threadpoolctl).
    memory : int or "auto", default="auto"
        Bytes a fit may take beside the process as it is and rows that are in memory already: blocks, sums, samples of
        rows, what is read ahead and what is kept between passes; also those of a prediction from files, beside its
        answer. Fewer threads work where not all fit. "auto" is what the sums of this width need, and 256 MiB for the
        blocks of a thread.
    verbose : bool, default=False
        Log the lines of the algorithm as they run (logger ``rflaf``); on a terminal with ``rich`` a long pass over the
        rows has a progress bar, also that of a prediction from files.
    checkpoint : path or None, default=None
        File that the results of long passes are recorded in, removed when the fit is done. The same fit started again
        after it was killed goes on from there and ends at the same model (see `rflaf.checkpoint`).

    Attributes
    ----------
    model_ : RandomFeatureModel
        The fitted model, free of scikit-learn: ``decision``, ``features``, ``gradient``, ``deviation``, ``prune``.
    activation_ : Activation
        The learned activation, callable, with ``slope`` and ``standard_error``.
    directions_ : (n_features, n_components_), for raw inputs
    curves_ : ColumnCurves, or None where no column bends
    column_importance_ : (n_features,), how much every column moves the model, as shares that sum to one
    trials_ : what was tried on the rows held out, the chosen recipe first; empty for random directions
    loss_ : the loss that was minimised, in the units of ``y``
    importance_ : (n_components_,), sqrt(p/q)
    coef_ : (n_components_,) or (n_outputs, n_components_), the output weights v
    intercept_ : float or (n_outputs,)
    alpha_, bandwidth_ : the values used
    n_components_ : width after merging duplicates
    leverage_, leverage_scores_, effective_dimension_ : of the pool; None unless sampling is by leverage
    selection_ : Selection, the nested path of greedy selection with its error at every width; else None
    objective_trace_ : the objective after every step of the search for a shared activation, which never rises; the
        mean loss of every epoch of refined directions
    n_iter_ : number of those steps or epochs, at least one
    stop_reason_ : StopReason, whose value is advice
    solver_remedy_ : Remedy, what it took to solve the last system
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn

    Examples
    --------
    >>> import numpy as np
    >>> from rflaf import RFLAFRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 3))
    >>> y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
    >>> model = RFLAFRegressor(n_components=50, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    def __init__(
        self,
        n_components: int | str = 100,
        *,
        loss: str | Loss = "squared",
        quantile: float = 0.5,
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
        super().__init__(
            n_components,
            directions=directions,
            sampling=sampling,
            activation=activation,
            curves=curves,
            outliers=outliers,
            basis=basis,
            n_basis=n_basis,
            pool_size=pool_size,
            density=density,
            bandwidth=bandwidth,
            alpha=alpha,
            leverage_alpha=leverage_alpha,
            leverage_rows=leverage_rows,
            fit_intercept=fit_intercept,
            max_iter=max_iter,
            tol=tol,
            tolerance=tolerance,
            half_life=half_life,
            random_state=random_state,
            n_jobs=n_jobs,
            memory=memory,
            verbose=verbose,
            checkpoint=checkpoint,
        )
        self.loss = loss
        self.quantile = quantile

    def _loss(self) -> Loss:
        named = {"squared": Squared(), "huber": Huber(), "quantile": Pinball(self.quantile), "poisson": Poisson()}
        return resolve_loss(self.loss, named, self.directions == "refined")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.loss == "poisson" or isinstance(self.loss, Poisson)
        return tags

    def partial_fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from more rows. The first call learns everything from its rows, later ones only the output weights.

        Under the squared loss the sums of the last layer go on: after any chunks, also after `fit`, the model is the
        ridge on all rows seen, with directions, activations and ridge as the first chunk set them. Make that one large.
        Under other losses what earlier rows said is kept as their curvature around the solution (see
        `rflaf.incremental`), and after `fit`, which keeps none, they are taken to have been like the first new ones.
        With ``half_life`` rows fade as others come after them, in the order of arrays, files or partitions.
        """
        with self._fitting() as fit:
            first = not hasattr(self, "model_")
            spec = self._spec()
            source, single_output = self._rows(fit, X, y, sample_weight, spec.loss if first else self.loss_, first)
            if first:
                result = self._train(source, spec, fit.begin)
                self._accept(result, single_output)
            else:
                self._check_outputs(source.n_outputs, single_output)
            self._carry_on(source, first, fit.begin)
        if first:
            self._warn(result)
        return self

    def _check_outputs(self, n_outputs: int, single_output: bool) -> None:
        """Refuse targets that are not shaped like those of the first rows."""
        if (n_outputs, single_output) != (self.model_.n_outputs, self._single_output):
            shape = "(n_samples,)" if self._single_output else f"(n_samples, {self.model_.n_outputs})"
            raise InvalidParameterError(
                f"y must have as many outputs as the first rows, shape {shape}", n_outputs, "Call fit to begin anew."
            )

    @by_partition
    def predict(self, X: Any, return_std: bool = False, *, out: Any = None) -> Any:
        """The mean of y at rows ``X``, or its quantile: (n_samples,) or (n_samples, n_outputs), in the dtype of ``X``.

        With ``return_std``, under the squared loss, also the standard deviation of a new observation at each row, of
        the same shape: the noise, estimated on rows that were not fitted, and the posterior of the output weights.

        ``out`` is an array to write into, a pair of them with ``return_std``: a memory map where the predictions of
        rows in files are more than fit in memory.
        """
        if not return_std:
            return self._by_rows(X, lambda rows: self._shaped(self._mean(rows)), out)
        check_is_fitted(self)
        self._need_last_layer("return_std=True")
        of_mean, of_deviation = (None, None) if out is None else out
        mean = self._by_rows(X, lambda rows: self._shaped(self._mean(rows)), of_mean)
        return mean, self._by_rows(X, lambda rows: self._shaped(self.model_.deviation(rows)), of_deviation)

    def _shaped(self, answers: Array) -> Array:
        """One column as (n_rows,) where the targets were."""
        return answers[:, 0] if self._single_output else answers

    def _mean(self, rows: Any) -> Array:
        """The prediction at validated rows, (n_rows, n_outputs)."""
        return self.loss_.mean(self.model_.decision(rows, self.n_jobs))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination R^2 of the predictions at rows ``X``, which may be in files."""
        if is_files(X):
            from sklearn.metrics import r2_score  # slow to import, and only needed here

            y, answers, sample_weight = self._score_files(X, y, sample_weight, self._mean, labels=False)
            return float(r2_score(y, answers, sample_weight=sample_weight))
        return float(super().score(X, y, sample_weight))

    def prune(self, n_components: int) -> Self:
        """A fitted copy of ``n_components`` components, refitted from the sums of this fit, without data.

        The components kept are nested: those of a narrower copy are among those of a wider one.
        """
        check_is_fitted(self)
        self._need_last_layer("prune")
        pruned = copy.copy(self)
        pruned._adopt(self.model_.prune(n_components))
        return pruned

    def _need_last_layer(self, what: str) -> None:
        if self.model_.last_layer is None:
            raise InvalidParameterError(
                f"{what} needs the sums of a fit under the squared loss", self.loss, "Fit with loss='squared'."
            )


class RFLAFClassifier(ClassifierMixin, _RandomFeatureEstimator):
    """Classification by small models of random directions and learned activations.

    log odds f(x) = b + sum_m q_m v_m sigma_m(u_m(x)), one for two classes, one a class for more; all classes share the
    directions and activations, only the output weights v differ.

    The model and its three rungs are those of `RFLAFRegressor`: refined by default, `RFLAFClassifier.convex`, and
    `RFLAFClassifier.paper`, which is Algorithm 1 with the logistic or softmax loss in lines 2 and 6.

    Parameters
    ----------
    n_components : int or "auto", default=100
        Width S, as in `RFLAFRegressor`.
    loss : {"log_loss", "squared_hinge"} or Loss, default="log_loss"
        "log_loss" is logistic for two classes and softmax for more, and gives probabilities. "squared_hinge" fits a
        margin, one class against the rest for more than two.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply those of the rows; "balanced" makes all classes weigh the same.
    directions, sampling, activation, curves, basis, n_basis, pool_size, density, bandwidth, alpha, leverage_alpha,
    leverage_rows, fit_intercept, max_iter, tol, tolerance, half_life, random_state, n_jobs, memory, verbose, checkpoint
        As in `RFLAFRegressor`; where alpha is a ridge, "auto" takes the one of lowest loss on rows held out.

    Attributes
    ----------
    classes_ : (n_classes,), the labels in order
    coef_ : (n_outputs, n_components_), output weights: one output for two classes, else one a class
    intercept_ : (n_outputs,)
    loss_ : the loss that was minimised
    Others as in `RFLAFRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from rflaf import RFLAFClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 2))
    >>> y = np.where(np.hypot(X[:, 0], X[:, 1]) < 1, "inside", "outside")
    >>> model = RFLAFClassifier(n_components=20, random_state=0).fit(X, y)
    >>> model.predict([[0.0, 0.0], [3.0, 0.0]])
    array(['inside', 'outside'], dtype='<U7')
    >>> model.predict_proba([[0.0, 0.0]]).shape
    (1, 2)
    """

    def __init__(
        self,
        n_components: int | str = 100,
        *,
        loss: str | Loss = "log_loss",
        class_weight: dict[Any, float] | str | None = None,
        directions: str = "refined",
        sampling: str = "plain",
        activation: str | int = "per_component",
        curves: bool | str = "auto",
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
        super().__init__(
            n_components,
            directions=directions,
            sampling=sampling,
            activation=activation,
            curves=curves,
            outliers="keep",
            basis=basis,
            n_basis=n_basis,
            pool_size=pool_size,
            density=density,
            bandwidth=bandwidth,
            alpha=alpha,
            leverage_alpha=leverage_alpha,
            leverage_rows=leverage_rows,
            fit_intercept=fit_intercept,
            max_iter=max_iter,
            tol=tol,
            tolerance=tolerance,
            half_life=half_life,
            random_state=random_state,
            n_jobs=n_jobs,
            memory=memory,
            verbose=verbose,
            checkpoint=checkpoint,
        )
        self.loss = loss
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows ``X`` (n_samples, n_features), dense or sparse, and labels ``y`` (n_samples,) of any kind.

        ``sample_weight`` (n_samples,) multiplies the loss of each row. ``X`` may name files, as for `RFLAFRegressor`.
        """
        with self._fitting() as fit:
            self._check_weights_of_classes(("balanced",))
            labels, found, weights = self._labels(fit, X, y, sample_weight)
            self.classes_ = found
            result = self._fit_labels(labels, found, weights, fit.begin)
        self._warn(result)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from more rows. The first call learns everything from its rows, later ones only the output weights.

        ``classes`` are all labels that will ever come; the first call needs them. What earlier rows said is kept as
        their curvature around the solution (see `rflaf.incremental`), so the rows themselves can be forgotten. Make the
        first chunk large: directions, activations and the penalty stay as it sets them. After `fit`, which keeps no
        sums, the rows before are taken to have been like the first new ones.
        """
        with self._fitting() as fit:
            self._check_weights_of_classes(())
            first = not hasattr(self, "model_")
            known = self._known_classes(classes, first)
            labels, found, weights = self._labels(fit, X, y, sample_weight, reset=first)
            _refuse_others(found, known)
            self.classes_ = known
            if first:
                result = self._fit_labels(labels, found, weights, fit.begin)
            self._carry_on(self._targets(labels, found, weights), first, fit.begin)
        if first:
            self._warn(result)
        return self

    @by_partition
    def decision_function(self, X: Any, *, out: Array | None = None) -> Array:
        """f at rows ``X``: (n_samples,) for two classes, above zero for the second; else (n_samples, n_classes).

        As all predictions it is written into the array ``out`` if one is given.
        """
        return self._by_decision(X, lambda f: f[:, 0] if f.shape[1] == 1 else f, out)

    def _by_decision(self, X: Any, answer: Callable[[Array], Array], out: Array | None) -> Array:
        return self._by_rows(X, lambda rows: answer(self.model_.decision(rows, self.n_jobs)), out)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows ``X``, which may be in files, whose label is predicted."""
        if is_files(X):
            from sklearn.metrics import accuracy_score  # slow to import, and only needed here

            y, answers, sample_weight = self._score_files(X, y, sample_weight, self._label, labels=True)
            return float(accuracy_score(y[:, 0].astype(answers.dtype), answers, sample_weight=sample_weight))
        return float(super().score(X, y, sample_weight))

    @by_partition
    def predict(self, X: Any, *, out: Array | None = None) -> Array:
        """The most likely label of every row of ``X``, (n_samples,)."""
        return self._by_rows(X, self._label, out)

    def _label(self, rows: Any) -> Array:
        """The most likely label of validated rows, (n_rows,)."""
        f = self.model_.decision(rows, self.n_jobs)
        return self.classes_[(f[:, 0] > 0).astype(int) if f.shape[1] == 1 else np.argmax(f, axis=1)]

    @available_if(_gives_probabilities)
    @by_partition
    def predict_proba(self, X: Any, *, out: Array | None = None) -> Array:
        """Probabilities of the classes, (n_samples, n_classes), in the order of ``classes_``."""
        return self._by_decision(X, _probabilities, out)

    @available_if(_gives_probabilities)
    @by_partition
    def predict_log_proba(self, X: Any, *, out: Array | None = None) -> Array:
        """Logarithms of the probabilities, exact also where these are too small for a float: (n_samples, n_classes)."""
        return self._by_decision(X, _log_probabilities, out)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags

    def _labels(
        self, fit: _Fitting, X: Any, y: Any, sample_weight: Any, reset: bool = True
    ) -> tuple[BlockSource, Array, Array]:
        """Rows with labels for targets, however they are given; the labels found, and the sums of their weights."""
        rows = open_rows(X, y, sample_weight, True, None if reset else self.table_encoding_, fit.begin, self._memory)
        if rows is not None:
            fit.opened.enter_context(closing(rows))
            self._take_columns(rows, reset)
            found = sorted(rows.label_weights)
            return rows.source, np.array(found), np.array([rows.label_weights[label] for label in found])
        self.table_encoding_ = None
        X, y = self._check_labels(X, y, reset)
        weight = _check_weight(sample_weight, X)
        labels, at = np.unique(y, return_inverse=True)
        return ArraySource(X, y[:, None], weight), labels, np.bincount(at, weight, labels.size)

    def _fit_labels(self, labels: BlockSource, found: Array, weights: Array, begin: Begin) -> FitResult:
        """Fit to rows of ``classes_``, of which those found have weights."""
        spec = self._spec()
        of_class = self._weight_of_classes(found[weights > 0], weights[weights > 0])
        used = weights if of_class is None else weights * of_class[np.searchsorted(self.classes_, found)]
        _refuse_one_class(found[used > 0])
        spec.loss.check(np.eye(self.classes_.size) if self.classes_.size > 2 else np.array([[0.0], [1.0]]))
        result = self._train(self._targets(labels, found, weights), spec, begin)
        self._accept(result, single_output=False)
        return result

    def _targets(self, labels: BlockSource, found: Array, weights: Array) -> BlockSource:
        """Rows with zeros and ones for targets, weighted by class; arrays are encoded at once."""
        view = LabelTargets(labels, self.classes_, self._weight_of_classes(found[weights > 0], weights[weights > 0]))
        if not isinstance(labels, ArraySource):
            return view
        whole = view.seen(Block(labels.X, labels.y, labels.weight))
        return array_source(whole.X, whole.y, whole.weight)

    def _loss(self) -> Loss:
        log_loss = Logistic() if self.classes_.size == 2 else Softmax()
        named: dict[str, Loss] = {"log_loss": log_loss, "squared_hinge": SquaredHinge()}
        if isinstance(self.loss, Squared | Huber | Pinball | Poisson):
            raise InvalidParameterError(
                "the loss of a classifier must be one of margins, above zero for one class and below for the other",
                self.loss,
                "Use 'log_loss'.",
            )
        return resolve_loss(self.loss, named, self.directions == "refined")

    def _weight_of_classes(self, present: Array, weights: Array) -> Array | None:
        """By which the rows of every class are multiplied, (n_classes,), where some have the weights given."""
        if self.class_weight is None:
            return None
        factor = np.ones(self.classes_.size)
        factor[np.searchsorted(self.classes_, present)] = compute_class_weight(
            self.class_weight, classes=present, y=present, sample_weight=weights
        )
        return factor

    def _check_labels(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, Array]:
        """Rows and labels, validated."""
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=(np.float64, np.float32),
            ensure_min_samples=2 if reset else 1,
            reset=reset,
        )
        check_classification_targets(y)
        return X, y

    def _check_weights_of_classes(self, words: tuple[str, ...]) -> None:
        weight = self.class_weight
        if isinstance(weight, dict):
            fine = all(isinstance(w, Real) and 0 <= w < np.inf for w in weight.values())
        else:
            fine = weight is None or (isinstance(weight, str) and weight in words)
        if not fine:
            raise InvalidParameterError(
                "class_weight must be " + " or ".join(["None", "a dict of weights, at least zero", *map(repr, words)]),
                weight,
                "Use None; partial_fit cannot balance classes it has not seen.",
            )

    def _known_classes(self, classes: ArrayLike | None, first: bool) -> Array:
        """All labels that may come: those of the first call to `partial_fit`."""
        if first and classes is None:
            raise InvalidParameterError(
                "the first call to partial_fit needs classes, all labels that will come", None, "Pass np.unique(y)."
            )
        if classes is None:
            return self.classes_
        known = np.unique(np.asarray(classes))
        if not first and not np.array_equal(known, self.classes_):
            raise InvalidParameterError(
                f"classes must be those of the first call to partial_fit, {self.classes_.tolist()}",
                known.tolist(),
                "Leave classes out.",
            )
        return known


def _probabilities(f: Array) -> Array:
    return expit(np.hstack([-f, f])) if f.shape[1] == 1 else softmax(f, axis=1)


def _log_probabilities(f: Array) -> Array:
    return log_expit(np.hstack([-f, f])) if f.shape[1] == 1 else log_softmax(f, axis=1)


def _refuse_one_class(present: Array) -> None:
    if present.size < 2:
        raise InvalidParameterError(
            "labels must be of at least two classes",
            f"{present.size} class: {present.tolist()}",
            "There is nothing to tell apart.",
        )


def _refuse_others(y: Array, known: Array) -> None:
    others = np.setdiff1d(y, known)
    if others.size:
        raise InvalidParameterError(
            f"labels must be among the classes given first, {known.tolist()}",
            others.tolist(),
            "Name all classes in the first call to partial_fit.",
        )


class RandomActivationFeatures(_RandomFeatureEstimator):
    """Random features under an activation learned from a target, as a transformer.

    z_m(x) = q_m sigma(w_m . x + b_m). The features of `RFLAFRegressor` with the same arguments, for a linear
    model of your own: ``make_pipeline(RandomActivationFeatures(), Ridge())``. The activation is learned by regression
    on ``y``, so ``fit`` needs a numeric target. Parameters and attributes as in `RFLAFRegressor`.

    >>> import numpy as np
    >>> from rflaf import RandomActivationFeatures
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3))
    >>> RandomActivationFeatures(20, random_state=0).fit_transform(X, np.abs(X[:, 0] - X[:, 1])).shape
    (200, 20)
    """


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


def _check_weight(sample_weight: ArrayLike | None, X: Any) -> Array | None:
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
